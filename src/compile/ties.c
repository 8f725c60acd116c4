/* ties.c - gradients of a weight that several stages have are added up before any optimizer
 * step. */
#include "compile/assembly.h"

/* A user of a tied weight that has its own copy, and the exchanges of its gradients. */
struct tie {
    int64_t owner, user;
    struct task task;
};

/* Device by device, if both have the same layout. */
static void add_up_pairs(struct assembly *a, const struct tie *t, int32_t low, int32_t high)
{
    const struct build *b = a->b;
    int32_t exchange = intern_exchange(
        a->b, intern_pairs(a->b, low, high), COLLECTIVE_ALL_REDUCE,
        ceil_div(gradient_bytes(b, t->user), weight_shares(b, t->user)), PURPOSE_DATA);
    for (int32_t d = 0; d < devices_of(a, low); d++) {
        struct task task = t->task;
        int32_t ends[] = {a->first_device[low] + d, a->first_device[high] + d};
        int32_t number = (int32_t)a->tasks.len;
        for (size_t i = 0; i < COUNT_OF(ends); i++) {
            wait_for(a, number, a->mark[ends[i]].last[STREAM_COMPUTE]);
            wait_for(a, number, a->mark[ends[i]].last[STREAM_GRADIENT]);
            a->mark[ends[i]].last[STREAM_GRADIENT] = number;
        }
        task.device = ends[0];
        task.exchange = exchange + d;
        add_task(a, task);
    }
}

static void add_steps(struct assembly *a, const struct tie *t, int32_t stage,
                      const struct reshard *reshard, int32_t first, int32_t last)
{
    int64_t bytes = gradient_bytes(a->b, t->user);
    struct layout layout = weight_layout(a->b, t->user, FLOW_GRADIENT);
    int64_t each = bytes / layout_local(&layout);
    a->stage = stage;
    for (int32_t i = first; i < last; i++) {
        const struct reshard_step *step = &reshard->step[i];
        if (!step_is_free(step))
            add_exchange(a, t->task, intern_step(a->b, stage, step, 0), (enum collective)step->kind,
                         step->elements * each, AFTER_BLOCK);
    }
}

static void add_sends(struct assembly *a, const struct tie *t, int32_t from, int32_t to,
                      const struct reshard *reshard)
{
    int64_t each = gradient_bytes(a->b, t->user);
    struct layout layout = weight_layout(a->b, t->user, FLOW_GRADIENT);
    int64_t bytes = reshard->step[reshard->send].elements * (each / layout_local(&layout));
    int32_t exchange = intern_exchange(a->b, intern_weight_send(a->b, from, to, reshard),
                                       COLLECTIVE_SEND, bytes, PURPOSE_DATA);
    for (int32_t r = 0; r < devices_of(a, to); r++) {
        int64_t sender = a->graph->folded ? 0 : reshard_sender(reshard, r);
        struct task task = t->task;
        task.device = a->first_device[from] + (int32_t)sender;
        task.exchange = exchange + r;
        int32_t receiver = a->first_device[to] + r, number = (int32_t)a->tasks.len;
        wait_for(a, number, a->mark[task.device].last[STREAM_COMPUTE]);
        wait_for(a, number, a->mark[task.device].last[STREAM_GRADIENT]);
        wait_for(a, number, a->mark[receiver].last[STREAM_GRADIENT]);
        add_task(a, task);
        a->mark[receiver].last[STREAM_GRADIENT] = number;
    }
}

/* From one layout to the other: whole gradients, as copies where they were partial sums. */
static void bring_gradient(struct assembly *a, const struct tie *t, int64_t from, int64_t to)
{
    struct layout have = weight_layout(a->b, from, FLOW_FORWARD);
    struct layout want = weight_layout(a->b, to, FLOW_FORWARD);
    int32_t low = stage_of_part(a->b, a->b->part_of[from]);
    int32_t high = stage_of_part(a->b, a->b->part_of[to]);
    if (low == high) {
        const struct reshard *reshard = reshard_within(a->graph->reshards, &have, &want);
        add_steps(a, t, low, reshard, 0, reshard->steps);
        return;
    }
    const struct reshard *reshard = reshard_between(a->graph->reshards, &have, &want, false);
    add_steps(a, t, low, reshard, 0, reshard->send);
    add_sends(a, t, low, high, reshard);
    add_steps(a, t, high, reshard, reshard->send + 1, reshard->steps);
}

/* Adds up the gradients of a copy and of its owner before either's optimizer step: by pairs of
 * devices, as in Megatron-LM, if both have the same layout, else there and back. */
static void tie(struct assembly *a, const struct tie *t)
{
    const struct build *b = a->b;
    int32_t from = stage_of_part(b, b->part_of[t->owner]);
    int32_t to = stage_of_part(b, b->part_of[t->user]);
    struct layout own = weight_layout(b, t->owner, FLOW_GRADIENT);
    struct layout other = weight_layout(b, t->user, FLOW_GRADIENT);
    bool alike = layout_equal(&own, &other) &&
                 laid_of(b, t->owner)->choice->shard == laid_of(b, t->user)->choice->shard;
    if (alike && from == to)
        return;
    if (alike) {
        add_up_pairs(a, t, from < to ? from : to, from < to ? to : from);
        return;
    }
    bring_gradient(a, t, t->user, t->owner);
    bring_gradient(a, t, t->owner, t->user);
}

void tie_gradients(struct assembly *a)
{
    const struct build *b = a->b;
    for (int32_t d = 0; d < a->graph->devices; d++)
        /* after this task, before the optimizer's step */
        a->mark[d].last[STREAM_COMPUTE] = a->ending[d].computed;
    for (int64_t i = 0; i < b->plan->instances; i++) {
        struct tie t = {owner_of(b, i), i, plain_task(STREAM_GRADIENT, NONE)};
        t.task.reader = i;
        t.task.across = stage_of_part(b, b->part_of[t.owner]) != stage_of_part(b, b->part_of[i]);
        if (t.owner != i && holds_weights(b, i))
            tie(a, &t);
    }
    for (int32_t d = 0; d < a->graph->devices; d++)
        wait_for(a, a->ending[d].optimizer, a->mark[d].last[STREAM_GRADIENT]);
}
