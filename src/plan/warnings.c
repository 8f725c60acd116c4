/* warnings.c - what is legal in a plan but strange: a setting that changes nothing, or padding. */
#include "plan/room.h"

static const char *padding(struct arena *keep, const struct op *op, const struct choice *choice)
{
    for (int i = 0; i < op_dims(op->kind); i++) {
        enum dim dim = OP_KINDS[op->kind].dims[i].dim;
        int64_t degree = split_degree(&choice->split, (int)dim);
        if (dim != DIM_BATCH && op->size[i] % degree != 0)
            return arena_printf(keep, "%s:%lld pads its %s of %lld to %lld", dim_name(dim),
                                (long long)degree, dim_name(dim), (long long)op->size[i],
                                (long long)(ceil_div(op->size[i], degree) * degree));
    }
    return NULL;
}

static const char *useless_shard(struct arena *keep, const struct op *op,
                                 const struct choice *choice)
{
    if (choice->shard == 0 || op->weights == 0 || split_replicas(op, &choice->split) > 1)
        return NULL;
    return arena_printf(keep, "shard: %d changes nothing, no other device holds the same weights",
                        choice->shard);
}

static const char *useless_offload(struct arena *keep, const struct op *op,
                                   const struct choice *choice)
{
    (void)op;
    if (choice->offload != OFFLOAD_CHECKPOINTS || choice->recompute)
        return NULL;
    return arena_printf(keep,
                        "offload changes nothing, it is not recomputed and has no checkpoint");
}

static const char *useless_parts(struct arena *keep, const struct op *op,
                                 const struct choice *choice)
{
    struct layout parts, whole = layout_of(op, &op->output, &choice->split,
                                           split_degree(&choice->split, DIM_BATCH), FLOW_FORWARD);
    if (!choice->parts)
        return NULL;
    if (op->keep & KEEP_OUTPUT)
        return arena_printf(keep, "memory: parts changes nothing, its own backward pass reads it");
    if (layout_in_parts(&whole, &parts))
        return NULL;
    return arena_printf(keep, "memory: parts changes nothing, no other device holds the same");
}

/* Warnings with the same words become one line. */
struct repeated {
    const char *words, *first;
    size_t more;
};
struct warning_groups {
    struct arena *scratch;
    struct map *by_words;
    ARRAY(struct repeated) list;
};

static void add_warning(struct warning_groups *groups, const char *words, const char *path)
{
    int64_t at;
    if (map_get(groups->by_words, words, &at)) {
        groups->list.data[at].more++;
        return;
    }
    map_put(groups->by_words, words, (int64_t)groups->list.len);
    array_push(groups->scratch, &groups->list, ((struct repeated){words, path, 0}));
}

static void warn_of_run(struct warning_groups *groups, const struct plan *plan,
                        const struct plan_run *run)
{
    static const char *(*const KINDS[])(struct arena *, const struct op *,
                                        const struct choice *) = {padding, useless_shard,
                                                                  useless_offload, useless_parts};
    const struct op *op = &plan->model->op[plan->instance[run->first].op];
    for (size_t kind = 0; kind < COUNT_OF(KINDS); kind++) {
        const char *words = KINDS[kind](groups->scratch, op, &plan->choice[run->choice]);
        if (words)
            add_warning(groups, words, run->path);
    }
}

/* Whether some operator holds less of a sequence than a product of its stage: the gather between
 * them can overlap with the product. */
static bool gathers_sequences(const struct plan *plan)
{
    for (int32_t p = 0; p < plan->parts; p++) {
        int64_t least = INT64_MAX, most = 0;
        for (int64_t i = plan->part[p].first; i < plan->part[p].first + plan->part[p].count; i++) {
            const struct op *op = &plan->model->op[plan->instance[i].op];
            int64_t degree = split_degree(&plan_choice(plan, i)->split, DIM_SEQ);
            most = degree > most ? degree : most;
            if (op->kind == OP_LINEAR && op_in_layer(plan->model, op))
                least = degree < least ? degree : least;
        }
        if (least < most)
            return true;
    }
    return false;
}

/* ---- doubts ---------------------------------------------------------------------------------- */

static const char *another_type(struct arena *keep, const struct plan *plan)
{
    for (int32_t p = 0; p < cluster_pools(plan->cluster); p++) {
        const struct device *device = &cluster_pool(plan->cluster, p)->node.device;
        enum dtype type = peak_dtype(device, plan->dtype);
        if (type != plan->dtype)
            return arena_printf(keep, "%s has no products in %s: they are timed as its %s",
                                device->name, dtype_name(plan->dtype), dtype_name(type));
    }
    return NULL;
}

static const char *limit_above_memory(struct arena *keep, const struct plan *plan)
{
    for (int32_t p = 0; p < cluster_pools(plan->cluster); p++) {
        const struct device *device = &cluster_pool(plan->cluster, p)->node.device;
        if (plan->memory.limit_bytes > device->memory_bytes)
            return arena_printf(keep, "the memory limit of %s is above the %s that %s has",
                                show_bytes((double)plan->memory.limit_bytes).s,
                                show_bytes((double)device->memory_bytes).s, device->name);
    }
    return NULL;
}

void plan_doubts(struct arena *keep, const struct plan *plan, struct warnings *out)
{
    static const char *(*const KINDS[])(struct arena *, const struct plan *) = {another_type,
                                                                                limit_above_memory};
    for (size_t i = 0; i < plan->model->warnings.len;
         i++) /* what the model is not, or has besides */
        array_push(keep, out, plan->model->warnings.data[i]);
    for (size_t kind = 0; kind < COUNT_OF(KINDS); kind++) {
        const char *words = KINDS[kind](keep, plan);
        if (words)
            array_push(keep, out, words);
    }
}

void plan_warnings(struct arena *keep, const struct plan *plan, struct warnings *out)
{
    struct arena *scratch = arena_new();
    struct warning_groups groups = {.scratch = scratch, .by_words = map_new(scratch)};
    struct plan_runs runs = {0};
    plan_fold(scratch, plan, &runs);
    plan_doubts(keep, plan, out);
    for (size_t i = 0; i < runs.len; i++)
        warn_of_run(&groups, plan, &runs.data[i]);
    if ((plan->overlap & OVERLAP_PRODUCTS) && !gathers_sequences(plan))
        array_push(
            keep, out,
            arena_printf(keep, "overlap: products changes nothing without sequence parallelism"));
    if (useless_pairs(plan))
        array_push(keep, out, useless_pairs(plan));
    if (useless_shared(plan))
        array_push(keep, out, useless_shared(plan));
    for (size_t i = 0; i < groups.list.len; i++) {
        const struct repeated *group = &groups.list.data[i];
        const char *more = group->more ? arena_printf(scratch, " and %zu more", group->more) : "";
        array_push(keep, out, arena_printf(keep, "%s%s: %s", group->first, more, group->words));
    }
    arena_free(scratch);
}
