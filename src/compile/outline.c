/* outline.c - a plan's work without its order in time (outline.h).
 *
 *   I1  The exchanges listed next to the blocks are those that graph.c turns into tasks: whole
 *       buckets, sends by crossing, ties by pairs of devices if both have the same layout, else
 *       there and back.
 */
#include "compile/build.h"
#include "compile/outline.h"

/* ---- buckets --------------------------------------------------------------------------------- */

static void outline_buckets(struct build *b, struct outline *out)
{
    out->synchronise = ARENA_ARRAY(b->keep, int32_t, b->buckets.len);
    out->across = ARENA_ARRAY(b->keep, int32_t, b->buckets.len);
    out->gather = ARENA_ARRAY(b->keep, int32_t, b->buckets.len);
    out->updated = ARENA_ARRAY(b->keep, int64_t, b->buckets.len);
    for (size_t i = 0; i < b->buckets.len; i++) {
        const struct bucket *bucket = &b->buckets.data[i];
        enum collective reduce = bucket->shard ? COLLECTIVE_REDUCE_SCATTER : COLLECTIVE_ALL_REDUCE;
        bool gathers = bucket->pattern >= 0 && bucket->shard && bucket->gather_bytes > 0;
        out->updated[i] = ceil_div(bucket->parameters, bucket_shares(b, bucket));
        out->synchronise[i] =
            bucket->pattern >= 0 && bucket->bytes > 0
                ? intern_exchange(b, bucket->pattern, reduce, bucket->bytes, PURPOSE_DATA)
                : -1;
        out->across[i] = bucket->across >= 0 && bucket->bytes > 0
                             ? intern_exchange(b, bucket->across, COLLECTIVE_ALL_REDUCE,
                                               share_bytes(b, bucket, bucket->bytes), PURPOSE_DATA)
                             : -1;
        out->gather[i] = gathers ? intern_exchange(b, bucket->pattern, COLLECTIVE_ALL_GATHER,
                                                   bucket->gather_bytes, PURPOSE_DATA)
                                 : -1;
    }
}

static void outline_instances(struct build *b, struct outline *out)
{
    size_t count = (size_t)b->plan->instances;
    out->use_first = ARENA_ARRAY(b->keep, int64_t, count + 1);
    out->source = ARENA_ARRAY(b->keep, int64_t, (size_t)b->uses);
    out->bucket_of = ARENA_ARRAY(b->keep, int32_t, count);
    out->gradients = ARENA_ARRAY(b->keep, int64_t, count);
    for (int64_t i = 0; i < b->plan->instances; i++) {
        out->use_first[i + 1] = b->use_first[i + 1];
        out->bucket_of[i] = b->bucket_of[i];
        out->gradients[i] = holds_weights(b, i) ? gradient_bytes(b, i) : 0;
    }
    for (int32_t u = 0; u < b->uses; u++)
        out->source[u] = b->use[u].source;
}

/* ---- sends ----------------------------------------------------------------------------------- */

static int32_t send_exchange(struct build *b, const struct use *use, const struct reshard *reshard,
                             int32_t from, int32_t to)
{
    int64_t each = element_bytes(use->joint->to->op->input[use->operand].element, b->plan->dtype);
    return intern_exchange(b, intern_send(b, from, to, reshard), COLLECTIVE_SEND,
                           reshard->step[reshard->send].elements * each, PURPOSE_PIPELINE);
}

static bool goes_back(const struct build *b, const struct use *use)
{
    const struct op *source = laid_of(b, use->source)->op;
    return laid_of(b, use->reader)->op->input_grad && op_wants_gradient(source);
}

static void outline_sends(struct build *b, struct outline *out)
{
    out->sends = (int32_t)b->crossings.len;
    out->send = ARENA_ARRAY(b->keep, struct outline_send, b->crossings.len);
    for (size_t i = 0; i < b->crossings.len; i++) {
        const struct crossing *c = &b->crossings.data[i];
        const struct use *use = &b->use[c->use];
        int32_t from = c->from_part, to = c->to_part;
        struct outline_send *send = &out->send[i];
        *send = (struct outline_send){c->from_part, c->to_part, -1, -1};
        if (use->same_forward == c->use)
            send->forward = send_exchange(b, use, use->joint->forward[1], from, to);
        if (use->same_backward == c->use && goes_back(b, use))
            send->backward = send_exchange(b, use, use->joint->backward[0], to, from);
    }
}

/* ---- tied weights ---------------------------------------------------------------------------- */

typedef ARRAY(int32_t) exchange_list;

static void list_steps(struct build *b, int32_t stage, const struct reshard *reshard, int32_t first,
                       int32_t last, int64_t each, exchange_list *out)
{
    for (int32_t i = first; i < last; i++) {
        const struct reshard_step *step = &reshard->step[i];
        if (step_is_free(step))
            continue;
        int32_t exchange =
            intern_exchange(b, intern_step(b, stage, step, 0), (enum collective)step->kind,
                            step->elements * each, PURPOSE_DATA);
        array_push(b->scratch, out, exchange);
    }
}

/* From one layout to the other, with `each` bytes per element. */
static void list_way(struct build *b, int64_t from, int64_t to, int64_t each, exchange_list *out)
{
    struct layout have = weight_layout(b, from, FLOW_FORWARD);
    struct layout want = weight_layout(b, to, FLOW_FORWARD);
    int32_t low = stage_of_part(b, b->part_of[from]), high = stage_of_part(b, b->part_of[to]);
    if (low == high) {
        const struct reshard *reshard = reshard_within(b->graph->reshards, &have, &want);
        list_steps(b, low, reshard, 0, reshard->steps, each, out);
        return;
    }
    const struct reshard *reshard = reshard_between(b->graph->reshards, &have, &want, false);
    int32_t exchange =
        intern_exchange(b, intern_weight_send(b, low, high, reshard), COLLECTIVE_SEND,
                        reshard->step[reshard->send].elements * each, PURPOSE_DATA);
    list_steps(b, low, reshard, 0, reshard->send, each, out);
    array_push(b->scratch, out, exchange);
    list_steps(b, high, reshard, reshard->send + 1, reshard->steps, each, out);
}

static void list_pairs(struct build *b, int64_t user, int32_t low, int32_t high, exchange_list *out)
{
    int32_t exchange =
        intern_exchange(b, intern_pairs(b, low, high), COLLECTIVE_ALL_REDUCE,
                        ceil_div(gradient_bytes(b, user), weight_shares(b, user)), PURPOSE_DATA);
    array_push(b->scratch, out, exchange);
}

static void list_tie(struct build *b, int64_t owner, int64_t user, exchange_list *out)
{
    int32_t from = stage_of_part(b, b->part_of[owner]), to = stage_of_part(b, b->part_of[user]);
    struct layout own = weight_layout(b, owner, FLOW_GRADIENT);
    struct layout other = weight_layout(b, user, FLOW_GRADIENT);
    int64_t each = gradient_bytes(b, user) / layout_local(&other);
    if (layout_equal(&own, &other) &&
        laid_of(b, owner)->choice->shard == laid_of(b, user)->choice->shard) {
        if (from != to)
            list_pairs(b, user, from < to ? from : to, from < to ? to : from, out);
        return;
    }
    list_way(b, user, owner, each, out);
    list_way(b, owner, user, each, out);
}

static void outline_ties(struct build *b, struct outline *out)
{
    ARRAY(struct outline_tie) ties = {0};
    for (int64_t i = 0; i < b->plan->instances; i++) {
        int64_t owner = owner_of(b, i);
        exchange_list list = {0};
        if (owner == i || !holds_weights(b, i))
            continue;
        list_tie(b, owner, i, &list);
        struct outline_tie tie = {stage_of_part(b, b->part_of[owner]),
                                  stage_of_part(b, b->part_of[i]),
                                  ARENA_ARRAY(b->keep, int32_t, list.len), (int32_t)list.len};
        for (size_t k = 0; k < list.len; k++)
            tie.exchange[k] = list.data[k];
        array_push(b->keep, &ties, tie);
    }
    out->tie = ties.data;
    out->ties = (int32_t)ties.len;
}

/* ---- checkpoints that are offloaded ---------------------------------------------------------- */

/* Per unit: the exchange of so many bytes of each. */
static int32_t *outline_units(struct build *b, enum exchange_kind kind, int32_t stage,
                              int32_t units, const int64_t *bytes)
{
    int32_t *out = ARENA_ARRAY(b->keep, int32_t, (size_t)units);
    for (int32_t u = 0; u < units; u++)
        out[u] = bytes[u] ? intern_copy(b, kind, stage, bytes[u]) : -1;
    return out;
}

static void outline_unit_copies(struct build *b, int32_t part, struct unit_copies *out)
{
    const struct layer_copies *copies = &b->graph->lifetimes->part[part].copies;
    int32_t stage = stage_of_part(b, part);
    if (!copies->units)
        return;
    out->out = outline_units(b, EXCHANGE_TO_HOST, stage, copies->units, copies->out);
    for (int kind = 0; kind < SLOT_KIND_COUNT; kind++)
        out->in[kind] =
            outline_units(b, EXCHANGE_FROM_HOST, stage, copies->units, copies->in[kind]);
}

static void outline_copies(struct build *b, struct outline *out)
{
    size_t parts = (size_t)b->plan->parts;
    out->host_bytes = ARENA_ARRAY(b->keep, int64_t, parts);
    out->to_host = ARENA_ARRAY(b->keep, int32_t, parts);
    out->from_host = ARENA_ARRAY(b->keep, int32_t, parts);
    out->copies = ARENA_ARRAY(b->keep, struct unit_copies, parts);
    for (int32_t part = 0; part < b->plan->parts; part++) {
        int32_t stage = stage_of_part(b, part);
        int64_t bytes = offloaded_bytes(&b->graph->lifetimes->part[part]);
        outline_unit_copies(b, part, &out->copies[part]);
        out->host_bytes[part] = bytes;
        out->to_host[part] = bytes ? intern_copy(b, EXCHANGE_TO_HOST, stage, bytes) : -1;
        out->from_host[part] = bytes ? intern_copy(b, EXCHANGE_FROM_HOST, stage, bytes) : -1;
    }
}

static void outline_host_steps(struct build *b, struct outline *out)
{
    int64_t *parameters = ARENA_ARRAY(b->scratch, int64_t, (size_t)b->plan->stages);
    out->host_step = ARENA_ARRAY(b->keep, struct host_step, (size_t)b->plan->stages);
    for (size_t i = 0; i < b->buckets.len; i++)
        parameters[stage_of_part(b, b->buckets.data[i].part)] += out->updated[i];
    for (int32_t s = 0; s < b->plan->stages; s++)
        out->host_step[s] = host_step_of(b, s, parameters[s]);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void finish(const struct build *b, struct graph *graph)
{
    graph->block = b->blocks.data;
    graph->blocks = (int32_t)b->blocks.len;
    graph->bucket = b->buckets.data;
    graph->buckets = (int32_t)b->buckets.len;
    graph->pattern = b->patterns.data;
    graph->patterns = (int32_t)b->patterns.len;
    graph->exchange = b->exchanges.data;
    graph->exchanges = (int32_t)b->exchanges.len;
}

weft_status outline_compile(const struct plan *plan, struct outline *out)
{
    struct arena *arena = arena_new();
    struct graph *graph = ARENA_NEW(arena, struct graph);
    *graph =
        (struct graph){.arena = arena, .plan = plan, .reshards = reshards_new(), .folded = true};
    struct build b = {.graph = graph, .plan = plan, .keep = arena, .scratch = arena_new()};
    *out = (struct outline){.graph = graph};
    find_uses(&b);
    build_blocks(&b);
    build_buckets(&b);
    find_lifetimes(&b);
    outline_instances(&b, out);
    outline_buckets(&b, out);
    outline_sends(&b, out);
    outline_ties(&b, out);
    outline_copies(&b, out);
    outline_host_steps(&b, out);
    finish(&b, graph);
    arena_free(b.scratch);
    return WEFT_OK;
}

void outline_free(struct outline *outline)
{
    graph_free(outline->graph);
}
