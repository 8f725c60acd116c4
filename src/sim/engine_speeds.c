/* engine_speeds.c - how fast flows and work proceed from now on (engine.h, I3). */
#include "sim/engine_room.h"

#include <math.h>

static void set_speed(struct engine *engine, int32_t stream, double speed)
{
    struct actor *actor = &engine->actor[stream];
    if (speed == actor->speed)
        return;
    actor->left -= actor->speed * (double)(engine->now - actor->since_ns);
    actor->since_ns = engine->now;
    actor->speed = speed;
    int64_t due_ns = NEVER; /* in a pool, or until higher classes leave bandwidth */
    if (speed > 0)
        due_ns = engine->now + end_after(actor->left / speed);
    expect(engine, stream, due_ns);
}

static void leave_pool(struct engine *engine, int32_t stream)
{
    struct actor *actor = &engine->actor[stream];
    if (actor->pool < 0)
        return;
    actor->left = flow_pool_leave(&engine->pool[actor->pool], stream, engine->now);
    actor->since_ns = engine->now;
    list_pool(engine, actor->pool);
    actor->pool = -1;
}

static void join_pool(struct engine *engine, int32_t stream, int32_t link)
{
    struct actor *actor = &engine->actor[stream];
    set_speed(engine, stream, 0);
    actor->pool = link;
    flow_pool_join(&engine->pool[link], stream, actor->left, actor->total, engine->now);
    list_pool(engine, link);
}

static void move_flow(struct engine *engine, const struct share_move *move)
{
    leave_pool(engine, move->slot);
    if (move->link >= 0)
        engine->result->held_by[engine->actor[move->slot].task] = move->link;
    if (move->pooled)
        join_pool(engine, move->slot, move->link);
    else
        set_speed(engine, move->slot, move->bytes_per_ns);
}

static void change_pools(struct engine *engine, const struct share_speed *speed, int32_t speeds)
{
    for (int32_t i = 0; i < speeds; i++) {
        struct flow_pool *pool = &engine->pool[speed[i].link];
        flow_pool_set_speed(pool, speed[i].bytes_per_ns, engine->now);
        list_pool(engine, speed[i].link);
        engine->result->speed_changes += (int64_t)pool->marks.slot.len;
    }
    for (size_t i = 0; i < engine->changed_pools.len; i++) {
        int32_t link = engine->changed_pools.data[i];
        engine->listed[link] = false;
        expect(engine, engine->graph->streams + link,
               flow_pool_due_ns(&engine->pool[link], engine->now));
    }
    engine->changed_pools.len = 0;
}

/* By how much the work on a device slows flows down. */
static double flow_slowdown(const struct engine *engine, int32_t device)
{
    const struct engine_graph *graph = engine->graph;
    double slowdown = 1;
    if (!graph->task_slows)
        return graph->device_slowdown[device];
    for (int64_t i = engine->stream_first[device]; i < engine->stream_first[device + 1]; i++) {
        const struct actor *actor = &engine->actor[engine->stream[i]];
        if (actor->phase == EVENT_WORK)
            slowdown = fmax(slowdown, graph->task_slows[actor->task]);
    }
    return slowdown;
}

static double slowdown_of(const struct engine *engine, int32_t stream)
{
    double slowdown = 1;
    for (const struct incidence_entry *e = row_first(&engine->touches, stream); e;
         e = row_next(&engine->touches, e))
        if (engine->working[e->column])
            slowdown = fmax(slowdown, flow_slowdown(engine, e->column));
    return slowdown;
}

/* By how much the flows on a device slow a task of its work down. */
static double work_slowdown(const struct engine *engine, int32_t device, int32_t task)
{
    const struct engine_graph *graph = engine->graph;
    double own = graph->task_slowed ? graph->task_slowed[task] : graph->device_slowdown[device];
    double slowdown = 1;
    for (const struct incidence_entry *e = column_first(&engine->touches, device); e;
         e = column_next(&engine->touches, e)) {
        slowdown = fmax(slowdown, own);
        if (graph->flow_slowdown)
            slowdown =
                fmax(slowdown, graph->flow_slowdown[graph->task_flow[engine->actor[e->row].task]]);
    }
    return slowdown;
}

static void respond(struct engine *engine, int32_t device)
{
    for (int64_t i = engine->stream_first[device]; i < engine->stream_first[device + 1]; i++) {
        const struct actor *actor = &engine->actor[engine->stream[i]];
        if (actor->phase == EVENT_WORK)
            set_speed(engine, engine->stream[i], 1 / work_slowdown(engine, device, actor->task));
    }
    for (const struct incidence_entry *e = column_first(&engine->touches, device); e;
         e = column_next(&engine->touches, e))
        share_set_pace(engine->share, e->row,
                       engine->actor[e->row].pace / slowdown_of(engine, e->row));
    engine->stirred[device] = false;
}

void engine_set_speeds(struct engine *engine)
{
    for (size_t i = 0; i < engine->stirred_list.len; i++)
        respond(engine, engine->stirred_list.data[i]);
    engine->stirred_list.len = 0;
    struct share_news news = share_solve(engine->share);
    for (int32_t i = 0; i < news.moves; i++)
        move_flow(engine, &news.move[i]);
    engine->result->speed_changes += news.moves;
    change_pools(engine, news.speed, news.speeds);
}
