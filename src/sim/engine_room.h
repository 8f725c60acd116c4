/* engine_room.h - what the engine knows of every stream during a run (engine.h); private to the
 * engine. */
#ifndef WEFT_SIM_ENGINE_ROOM_H
#define WEFT_SIM_ENGINE_ROOM_H

#include <math.h>

#include "sim/engine.h"
#include "sim/flow_pool.h"
#include "sim/incidence.h"
#include "sim/nodes.h"

static const int64_t NEVER = INT64_MAX;

enum event_phase { EVENT_BEGIN, EVENT_FLOW, EVENT_WORK, EVENT_COUNT };

/* What a stream does now, if it needs events (I5). */
struct actor {
    enum event_phase phase;
    int32_t task, flow;
    int32_t pool;              /* the link that holds the flow, together with others, or -1 */
    double total, left, speed; /* bytes or ns, and per ns; in a pool, the pool knows what is left */
    double pace;               /* of a flow without interference */
    bool unheld;               /* no link holds it below its pace while it is alone; work: always */
    int64_t since_ns;          /* the time at which `left` was left until the task counts as done */
};

struct engine {
    const struct engine_graph *graph;
    struct engine_result *result;
    struct arena *scratch;
    struct nodes nodes;
    int32_t *ready;
    int32_t ready_count, done;
    int32_t active; /* streams with an event of which the end is not known yet */
    int64_t now, begins;
    struct heap queue;  /* streams, then pools, by the time of their next event */
    int64_t *due_ns;    /* of each; the queue may hold an earlier time, never a later one */
    ARRAY(int32_t) due; /* those that are due at this instant */
    struct actor *actor;
    struct share *share;
    struct flow_pool *pool; /* per link */
    bool *listed;           /* per link: whether its pool is in the list of changed pools */
    ARRAY(int32_t) changed_pools;
    /* interference */
    bool *quiet;           /* per task (quiet.h); NULL without interference */
    int64_t *stream_first; /* rows of `stream` per device */
    int32_t *stream;
    struct incidence touches; /* streams with a flow, by devices */
    int32_t *working;         /* per device: number of streams at work */
    bool *stirred;            /* per device: whether its work or flows changed at this instant */
    ARRAY(int32_t) stirred_list;
};

/* Whole nanoseconds until what takes so long is over (I2). */
static inline int64_t end_after(double ns)
{
    return ns <= 1 ? 1 : (int64_t)ceil(ns);
}

/* Sets the time of the next event. The queue is told of earlier times only; a later time is noticed
 * when the earlier one is reached. */
static inline void expect(struct engine *engine, int32_t id, int64_t due_ns)
{
    int32_t place = engine->queue.place[id];
    engine->due_ns[id] = due_ns;
    if (place < 0 ? due_ns < NEVER : due_ns < engine->queue.slot.data[place].key)
        heap_set(&engine->queue, id, due_ns);
}

static inline void list_pool(struct engine *engine, int32_t link)
{
    if (!engine->listed[link])
        array_push(engine->scratch, &engine->changed_pools, link);
    engine->listed[link] = true;
}

/* Sets the current speed of every stream and pool (I3); engine_speeds.c. */
void engine_set_speeds(struct engine *engine);

#endif
