/* walk.c - the slots of one stage in the order of its schedule, and the end of its iteration. */
#include "compile/assembly.h"

/* ---- slots ----------------------------------------------------------------------------------- */

struct task_walk {
    bool *seen_forward;     /* per piece */
    int32_t *last_backward; /* per piece: the slot's number */
    /* the same of input gradients, where these complete weights, too (blocks.c, I12) */
    int32_t *last_input;
    int64_t *offloaded; /* per piece: bytes of a micro-batch's checkpoints in the host */
    int32_t *slices;    /* per device: the latest task of its gradients before the current slot */
    /* per device: where the slot before the last ended, and where the last ended */
    int32_t *ahead, *now;
};

static struct task_walk start_walk(struct assembly *a, const struct slots *slots)
{
    struct arena *scratch = a->b->scratch;
    size_t pieces = (size_t)a->pipeline.pieces, devices = (size_t)devices_of(a, a->stage);
    struct task_walk w = {.seen_forward = ARENA_ARRAY(scratch, bool, pieces),
                          .last_backward = ARENA_ARRAY(scratch, int32_t, pieces),
                          .last_input = ARENA_ARRAY(scratch, int32_t, pieces),
                          .offloaded = ARENA_ARRAY(scratch, int64_t, pieces),
                          .slices = ARENA_ARRAY(scratch, int32_t, devices),
                          .ahead = ARENA_ARRAY(scratch, int32_t, devices),
                          .now = ARENA_ARRAY(scratch, int32_t, devices)};
    const struct part_lifetimes *part = a->graph->lifetimes->part;
    for (int32_t p = 0; p < a->pipeline.pieces; p++)
        w.offloaded[p] = offloaded_bytes(&part[plan_part_of_piece(a->b->plan, a->stage, p)]);
    for (size_t i = 0; i < slots->len; i++) {
        enum slot_kind kind = slots->data[i].kind;
        if (kind == SLOT_BACKWARD || kind == SLOT_BACKWARD_WEIGHT)
            w.last_backward[slots->data[i].piece] = (int32_t)i;
        if (kind == SLOT_BACKWARD_INPUT)
            w.last_input[slots->data[i].piece] = (int32_t)i;
    }
    return w;
}

static struct visit visit_of(const struct assembly *a, struct task_walk *w, struct slot slot,
                             size_t i)
{
    int32_t part = plan_part_of_piece(a->b->plan, a->stage, slot.piece);
    struct visit place = {.slot = slot, .part = part, .block = a->b->block_of[slot.kind][part]};
    bool forward = slot.kind == SLOT_FORWARD, weights = slot.kind == SLOT_BACKWARD_WEIGHT;
    place.first_forward = forward && !w->seen_forward[slot.piece];
    w->seen_forward[slot.piece] |= place.first_forward;
    bool inputs = slot.kind == SLOT_BACKWARD_INPUT;
    place.completes = slot.kind == SLOT_BACKWARD || weights || (inputs && a->b->plan->defer_head);
    const int32_t *last = inputs ? w->last_input : w->last_backward;
    place.last_backward = place.completes && last[slot.piece] == (int32_t)i;
    place.fetches = w->offloaded[slot.piece] && !forward && !weights;
    return place;
}

/* The first forward slot of a piece whose gradients were deferred waits for all of them: they are
 * the latest tasks on the gradient stream. */
static void wait_for_slices(struct assembly *a, const struct visit *place, const int32_t *slices,
                            int32_t first_task)
{
    a->slices = NULL;
    if (!place->first_forward || !leaves_slices(a->b, place->part))
        return;
    for (int32_t t = first_task; t < (int32_t)a->tasks.len; t++)
        if (a->tasks.data[t].stream == STREAM_COMPUTE)
            wait_for(a, t, slices[a->tasks.data[t].device - a->first_device[a->stage]]);
}

static void latest(const struct assembly *a, enum stream_kind stream, int32_t *out)
{
    for (int32_t d = 0; d < devices_of(a, a->stage); d++)
        out[d] = a->mark[a->first_device[a->stage] + d].last[stream];
}

/* What the previous iteration left of the next piece's gradients is synchronised while this piece
 * computes. */
static void before_block(struct assembly *a, struct task_walk *w, const struct visit *place)
{
    latest(a, STREAM_GRADIENT, w->slices);
    if (place->first_forward && leaves_slices(a->b, place->part))
        a->slices = w->slices;
    if (place->first_forward && leaves_slices(a->b, place->part + a->pipeline.stages))
        synchronise_deferred(a, place->part + a->pipeline.stages);
    if (place->fetches)
        copy_checkpoints(a, EXCHANGE_FROM_HOST, place, w->offloaded[place->slot.piece], w->ahead);
}

/* Called when what the block sends is on its way. */
static void after_block(struct assembly *a, struct task_walk *w, const struct visit *place)
{
    int32_t *before = w->ahead;
    w->ahead = w->now;
    w->now = before;
    latest(a, STREAM_COMPUTE, w->now);
    if (w->offloaded[place->slot.piece] && place->slot.kind == SLOT_FORWARD)
        copy_checkpoints(a, EXCHANGE_TO_HOST, place, w->offloaded[place->slot.piece], w->now);
    if (!(a->b->plan->overlap & OVERLAP_GRADIENTS))
        synchronise_slot(a, place);
}

static void walk_slots(struct assembly *a, const struct slots *slots)
{
    struct task_walk w = start_walk(a, slots);
    latest(a, STREAM_COMPUTE, w.ahead);
    latest(a, STREAM_COMPUTE, w.now);
    for (size_t i = 0; i < slots->len && !stop_now(a->stop); i++) {
        struct visit place[] = {visit_of(a, &w, slots->data[i], i), {.part = NONE}};
        bool paired = slots_paired(a->schedule, &a->pipeline, a->stage, slots, i);
        before_block(a, &w, &place[0]);
        int32_t first_task = (int32_t)a->tasks.len;
        if (paired) {
            i++;
            place[1] = visit_of(a, &w, slots->data[i], i);
            before_block(a, &w, &place[1]);
            emit_pair(a, place);
        } else {
            emit_block(a, &place[0]);
            send_crossings(a, &place[0]);
        }
        wait_for_slices(a, &place[0], w.slices, first_task);
        after_block(a, &w, &place[0]);
        if (paired)
            after_block(a, &w, &place[1]);
    }
}

/* ---- the end of an iteration ----------------------------------------------------------------- */

/* Those that one device of the stage updates. */
static int64_t optimizer_parameters(const struct assembly *a, int64_t place)
{
    const struct plan *plan = a->b->plan;
    int64_t parameters = 0;
    for (int32_t part = a->stage; part < plan->parts; part = plan_next_part(plan, part))
        for (int32_t i = a->b->first_bucket[part]; i < a->b->first_bucket[part + 1]; i++) {
            const struct bucket *bucket = bucket_at(a, i);
            if (run_has(bucket->run, place))
                parameters += ceil_div(bucket->parameters, bucket_shares(a->b, bucket));
        }
    return parameters;
}

static void finish_stage(struct assembly *a)
{
    bool alike = !plan_has_subsets(a->b->plan);
    int64_t parameters = optimizer_parameters(a, 0);
    synchronise_rest(a);
    struct host_step host = {0};
    if (!a->graph->executed)
        host = host_step_of(a->b, a->stage, parameters);
    for (int32_t d = a->first_device[a->stage]; d < a->first_device[a->stage + 1]; d++) {
        struct mark *mark = &a->mark[d];
        int32_t computed = mark->last[STREAM_COMPUTE];
        struct task task = plain_task(STREAM_COMPUTE, NONE);
        task.device = d;
        task.purpose = PURPOSE_OPTIMIZER;
        task.parameters =
            alike ? parameters : optimizer_parameters(a, d - a->first_device[a->stage]);
        int32_t number = add_task(a, task);
        wait_for(a, number, mark->last[STREAM_GRADIENT]);
        wait_for_steps(a, number, mark);
        a->ending[d] = (struct ending){computed, number};
        if (host.chunks) /* gathers of updated weights wait for those that come up */
            mark->last[STREAM_COMPUTE] = step_on_host(a, &host, d, number);
    }
    gather_updated(a);
}

void walk_stage(struct assembly *a, const struct slots *slots)
{
    a->synchronising = false;
    walk_slots(a, slots);
    finish_stage(a);
}
