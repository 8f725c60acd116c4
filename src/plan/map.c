/* map.c - cuts the walk into parts, and gives stages their devices.
 *
 * The walk is a row of blocks 0 .. B-1 that no cut divides: each ends with a layer, the first also
 * holds what comes before the layers (embeddings), the last what comes after them (norm, head,
 * loss). If there are more pieces of stages than layers, these two are blocks of their own, as in
 * Llama 3.1 405B, whose 126 layers fill 16 stages of 8 pieces. A model without layers has one block per operator. With prefix sums S of their weights and
 * parts that end before blocks e_0 < e_1 < ... < e_(P-1) = B,
 *
 *   T = min over e of max over p of S[e_p] - S[e_(p-1)]                                        (1)
 *
 * is found by bisection: whether a bound T can be kept is tested by filling parts from the front.
 * Of the cuts that keep T, each part in turn takes the end nearest to an equal share of what is
 * left, so that a heavy last part does not leave the others uneven.
 *
 * Where stages are on devices of different types, the sums of a part are divided by the pace v_p of its devices, so that
 * all parts take equally long: the slower ones get fewer layers.
 *
 *   I1  No part is empty. Part p ends after block p at the earliest, and at the latest P - 1 - p
 *       blocks before the end.
 *   I2  earliest[p], filled from the back, is the first end of part p after which the other parts
 *       still keep T; every end chosen lies at or after it.
 */
#include "plan/plan.h"

#include <math.h>
#include <string.h>

#include "plan/room.h"
#include "schedule/schedule.h"

/* ---- given cuts ------------------------------------------------------------------------------ */

static weft_status check_cuts(const struct plan *plan, int64_t parts, const int64_t *cut)
{
    for (int64_t k = 0; k + 1 < parts; k++) {
        int64_t before = k ? cut[k - 1] : 0;
        if (cut[k] <= before || cut[k] >= plan->instances)
            return bad_argument(NULL,
                                "part %lld would start at operator %lld, expected more than %lld "
                                "and less than %lld: no part may be empty",
                                (long long)(k + 1), (long long)cut[k], (long long)before,
                                (long long)plan->instances);
    }
    return WEFT_OK;
}

static weft_status check_devices(const struct plan *plan, int32_t stages, const int64_t *devices)
{
    int64_t all = cluster_devices(plan->cluster), used = 0;
    for (int32_t s = 0; s < stages; s++) {
        if (devices[s] < 1)
            return bad_argument(NULL, "stage %d has %s, expected at least 1", (int)s,
                                counted(devices[s], "device").s);
        if (devices[s] > all - used)
            return bad_argument("take devices from other stages, or a larger cluster",
                                "stage %d needs devices %lld to %lld, %s has %lld", (int)s,
                                (long long)used, (long long)(used + devices[s] - 1),
                                plan->cluster->name, (long long)all);
        used += devices[s];
    }
    return WEFT_OK;
}

static weft_status check_counts(const struct plan *plan, int32_t stages, int64_t pieces)
{
    if (stages < 1 || pieces < 1)
        return bad_argument(NULL, "%s of %s, expected at least 1 of each",
                            counted(stages, "stage").s, counted(pieces, "piece").s);
    if (pieces > plan->instances / stages)
        return bad_argument(NULL, "%s of %s, but %s has only %s", counted(stages, "stage").s,
                            counted(pieces, "piece").s, plan->model->name,
                            counted(plan->instances, "operator").s);
    return WEFT_OK;
}

static void set_map(struct plan *plan, int32_t stages, int64_t pieces, const int64_t *cut,
                    const int64_t *devices)
{
    plan->stages = stages;
    plan->pieces = pieces;
    plan->parts = (int32_t)(stages * pieces);
    plan->stage = ARENA_ARRAY(plan->arena, struct stage, (size_t)stages);
    plan->part = ARENA_ARRAY(plan->arena, struct part, (size_t)plan->parts);
    for (int32_t s = 0; s < stages; s++) {
        int64_t first = s ? plan->stage[s - 1].first_device + plan->stage[s - 1].devices : 0;
        plan->stage[s] = (struct stage){first, devices[s]};
    }
    for (int32_t p = 0; p < plan->parts; p++) {
        int64_t first = p ? cut[p - 1] : 0;
        int64_t end = p + 1 < plan->parts ? cut[p] : plan->instances;
        plan->part[p] = (struct part){first, end - first};
    }
}

weft_status plan_map(struct plan *plan, int32_t stages, int64_t pieces, const int64_t *cut,
                     const int64_t *devices)
{
    weft_status status;
    TRY(check_counts(plan, stages, pieces));
    TRY(check_cuts(plan, stages * pieces, cut));
    TRY(check_devices(plan, stages, devices));
    set_map(plan, stages, pieces, cut, devices);
    TRY(copy_misfits(plan));
done:
    return status;
}

/* ---- even cuts ------------------------------------------------------------------------------- */

struct blocks {
    int64_t count;
    int64_t *end;       /* the instance after block b */
    double *sum;        /* S: sum[b] is the weight of blocks 0 .. b - 1 */
    bool layers;        /* whether blocks are layers, not single operators */
    const double *pace; /* v, by part; NULL: all the same */
};

static double pace_of_part(const struct blocks *b, int64_t part)
{
    return b->pace ? b->pace[part] : 1;
}

double *forward_flops(const struct model *model, struct arena *keep)
{
    double *flops = ARENA_ARRAY(keep, double, (size_t)model->ops);
    for (int32_t i = 0; i < model->ops; i++)
        flops[i] = op_work(&model->op[i], model->op[i].size, model->dtype, PHASE_FORWARD).flops;
    return flops;
}

/* The last instance in a range that ends a layer; -1: none does. */
static int64_t last_layer_end(const struct plan *plan, struct part range)
{
    int64_t last = range.first + range.count - 1;
    while (last >= range.first && !plan->ends_layer[last])
        last--;
    return last >= range.first ? last : -1;
}

/* The first instance of a layer; 0: nothing comes before it. */
static int64_t first_in_layer(const struct plan *plan)
{
    const struct model *model = plan->model;
    int64_t first = 0;
    while (first < plan->instances && !op_in_layer(model, &model->op[plan->instance[first].op]))
        first++;
    return first;
}

/* `apart`: what comes before and after the layers are blocks of their own. */
static struct blocks find_blocks(const struct plan *plan, struct part range, const double *weights,
                                 bool apart, struct arena *scratch)
{
    int64_t last_layer = last_layer_end(plan, range), end = range.first + range.count;
    int64_t front = apart ? first_in_layer(plan) : 0;
    struct blocks b = {.layers = last_layer >= 0};
    b.end = ARENA_ARRAY(scratch, int64_t, (size_t)plan->instances);
    b.sum = ARENA_ARRAY(scratch, double, (size_t)plan->instances + 1);
    const double *flops = forward_flops(plan->model, scratch);
    double sum = 0;
    for (int64_t i = range.first; i < end; i++) {
        sum += weights ? weights[i] : flops[plan->instance[i].op];
        bool ends = b.layers ? plan->ends_layer[i] && (apart || i != last_layer) : true;
        if (ends || i + 1 == front || i == end - 1) {
            b.end[b.count++] = i + 1;
            b.sum[b.count] = sum;
        }
    }
    return b;
}

/* The furthest end of a part that starts at block `start` and keeps `bound`; at least one block. */
static int64_t fill(const struct blocks *b, int64_t start, double bound)
{
    int64_t end = start + 1;
    while (end < b->count && b->sum[end + 1] - b->sum[start] <= bound)
        end++;
    return end;
}

static bool keeps(const struct blocks *b, int64_t parts, double bound)
{
    int64_t start = 0;
    for (int64_t p = 0; p < parts && start < b->count; p++) {
        double own = bound * pace_of_part(b, p);
        if (b->sum[start + 1] - b->sum[start] > own)
            return false;
        int64_t end = fill(b, start, own), last = b->count - (parts - 1 - p); /* I1 */
        start = end < last ? end : last;
    }
    return start == b->count;
}

/* (1), to the last bit: bisection ends when no number lies between the two bounds. */
static double least_bound(const struct blocks *b, int64_t parts)
{
    double low = -1, high = b->sum[b->count];
    for (;;) {
        double middle = low + (high - low) / 2;
        if (middle <= low || middle >= high)
            return high;
        if (keeps(b, parts, middle))
            high = middle;
        else
            low = middle;
    }
}

/* I2, and I1's earliest ends. */
static int64_t *earliest_ends(const struct blocks *b, int64_t parts, double bound,
                              struct arena *scratch)
{
    int64_t *earliest = ARENA_ARRAY(scratch, int64_t, (size_t)parts);
    int64_t start = b->count;
    for (int64_t p = parts - 1; p >= 0; p--) {
        start = earliest[p] = start > p + 1 ? start : p + 1;
        while (start > 0 && b->sum[earliest[p]] - b->sum[start - 1] <= bound * pace_of_part(b, p))
            start--;
    }
    return earliest;
}

/* The end in `from` .. `to` whose sum is nearest to `wanted`; the later one of two, because more
 * comes after the last layer than before the first. */
static int64_t nearest_end(const struct blocks *b, int64_t from, int64_t to, double wanted)
{
    int64_t best = from;
    for (int64_t e = from + 1; e <= to; e++) {
        if (fabs(b->sum[e] - wanted) > fabs(b->sum[best] - wanted))
            break;
        best = e;
    }
    return best;
}

static int64_t *even_cuts(const struct blocks *b, int64_t parts, struct arena *scratch)
{
    double bound = least_bound(b, parts), all = b->sum[b->count], paces = 0;
    const int64_t *earliest = earliest_ends(b, parts, bound, scratch);
    int64_t *cut = ARENA_ARRAY(scratch, int64_t, (size_t)parts);
    int64_t start = 0;
    for (int64_t p = 0; p < parts; p++)
        paces += pace_of_part(b, p);
    for (int64_t p = 0; p + 1 < parts; p++) {
        int64_t from = earliest[p] > start + 1 ? earliest[p] : start + 1;
        double pace = pace_of_part(b, p);
        int64_t to = fill(b, start, bound * pace), last = b->count - (parts - 1 - p); /* I1 */
        double share = (all - b->sum[start]) * pace / paces;
        paces -= pace;
        start = nearest_end(b, from, to < last ? to : last, b->sum[start] + share);
        cut[p] = b->end[start - 1];
    }
    return cut;
}

static weft_status too_many_parts(const struct plan *plan, int32_t stages, int64_t pieces,
                                  const struct blocks *b)
{
    const char *what = b->layers ? "layers" : "operators";
    weft_status status = bad_argument(
        NULL, "%s has %lld %s, too few for %s of %lld %s", plan->model->name, (long long)b->count,
        what, counted(stages, "stage").s, (long long)pieces, pieces == 1 ? "piece" : "pieces");
    if (pieces > 1 && stages <= b->count)
        error_hint("use at most %s on %s", counted(b->count / stages, "piece").s,
                   counted(stages, "stage").s);
    else
        error_hint("use at most %s", counted(b->count, "stage").s);
    return status;
}

static weft_status equal_devices(const struct plan *plan, int32_t stages, struct arena *keep,
                                 int64_t **out)
{
    int64_t all = cluster_devices(plan->cluster);
    if (stages < 1 || all % stages)
        return bad_argument(
            arena_printf(keep, "use %s stages", nearest_legal(keep, stages, all, divides, all)),
            "%s cannot share the %s of %s evenly", counted(stages, "stage").s,
            counted(all, "device").s, plan->cluster->name);
    *out = ARENA_ARRAY(keep, int64_t, (size_t)stages);
    for (int32_t s = 0; s < stages; s++)
        (*out)[s] = all / stages;
    return WEFT_OK;
}

/* v of equal stages, by the pool of each one's first device. */
static const double *part_paces(const struct plan *plan, int32_t stages, int64_t pieces,
                                struct arena *scratch)
{
    int64_t parts = stages * pieces, each = cluster_devices(plan->cluster) / stages;
    if (!plan->cluster->pools)
        return NULL;
    double *pace = ARENA_ARRAY(scratch, double, (size_t)parts);
    for (int32_t k = 0; k < (int32_t)parts; k++) {
        int32_t stage = stage_with_part(plan->zigzag, stages, k);
        int32_t pool = cluster_pool_of(plan->cluster, stage * each);
        pace[k] = plan_pool_pace(plan->cluster, pool, plan->dtype);
    }
    return pace;
}

weft_status plan_map_even(struct plan *plan, int32_t stages, int64_t pieces, const double *weights)
{
    weft_status status;
    int64_t *devices = NULL;
    struct arena *scratch = arena_new();
    struct part all = {0, plan->instances};
    struct blocks blocks = find_blocks(plan, all, weights, false, scratch);
    TRY(equal_devices(plan, stages, scratch, &devices));
    if (blocks.layers && pieces > 1 && pieces > blocks.count / stages) {
        struct blocks more = find_blocks(plan, all, weights, true, scratch);
        if (pieces <= more.count / stages)
            blocks = more;
    }
    if (pieces > blocks.count / stages)
        TRY(too_many_parts(plan, stages, pieces, &blocks));
    TRY(check_counts(plan, stages, pieces));
    blocks.pace = part_paces(plan, stages, pieces, scratch);
    TRY(plan_map(plan, stages, pieces, even_cuts(&blocks, stages * pieces, scratch), devices));
done:
    arena_free(scratch);
    return status;
}

weft_status map_with_tower(struct plan *plan, const struct degrees *d, const double *weights)
{
    weft_status status = WEFT_OK;
    struct arena *scratch = arena_new();
    int64_t end = tower_end(plan), stages = d->encoder_pp + d->pp;
    struct part body = {end, plan->instances - end};
    struct blocks tower = find_blocks(plan, (struct part){0, end}, NULL, false, scratch);
    struct blocks rest = find_blocks(plan, body, weights, false, scratch);
    if (d->encoder_pp > tower.count)
        TRY(too_many_parts(plan, (int32_t)d->encoder_pp, 1, &tower));
    if (d->pp > rest.count)
        TRY(too_many_parts(plan, (int32_t)d->pp, 1, &rest));
    int64_t *cut = ARENA_ARRAY(scratch, int64_t, (size_t)stages);
    int64_t *devices = ARENA_ARRAY(scratch, int64_t, (size_t)stages);
    memcpy(cut, even_cuts(&tower, d->encoder_pp, scratch), (size_t)d->encoder_pp * sizeof *cut);
    cut[d->encoder_pp - 1] = end;
    memcpy(cut + d->encoder_pp, even_cuts(&rest, d->pp, scratch), (size_t)d->pp * sizeof *cut);
    for (int64_t s = 0; s < stages; s++)
        devices[s] = s < d->encoder_pp ? encoder_devices(d, plan->model) : d->dp * d->cp * d->tp;
    TRY(plan_map(plan, (int32_t)stages, 1, cut, devices));
done:
    arena_free(scratch);
    return status;
}
