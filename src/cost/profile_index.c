/* profile_index.c - all kernel rows of a database in memory: exact match, or interpolation.
 *
 * Between two measurements x0 < x < x1 that differ in one shape number, time is a power of it:
 *
 *   ns(x) = ns(x0) * (x / x0) ^ p,    p = log(ns(x1) / ns(x0)) / log(x1 / x0)                   (1)
 *
 *   I1  A lookup changes nothing, so threads may share an index.
 *   I2  x is strictly inside the measured range, and x0, x1 are its nearest neighbours there. If
 *       several shape numbers are possible, the one with the smallest gap x1 / x0 is taken, then
 *       the first.
 *   I3  The order of preference: the phase itself, measured; the whole backward, measured; the
 *       phase itself, interpolated; the whole backward, interpolated.
 *   I4  Attention of b samples with h heads, k of them for keys, is the same as that of bk samples
 *       with h/k heads, one of them for keys: lanes along its batch run over bk.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cost/profile.h"

/* ---- what each kernel's shape means ---------------------------------------------------------- */

enum { AXIS_0 = 1, AXIS_1 = 2, AXIS_2 = 4, AXIS_3 = 8, AXIS_4 = 16 };

static const struct {
    unsigned axes;       /* shape numbers that time may be interpolated in */
    bool matrix;         /* runs on matrix units: tf32 is a type of its own there */
    double weight_share; /* for the weight's phase: its share of a whole backward without FLOPs */
    int zero_allowed;    /* the shape number that may be 0; -1: none */
} KERNELS[] = {
    [KERNEL_MATMUL] = {AXIS_0 | AXIS_1 | AXIS_2 | AXIS_3, true, 0, -1},
    [KERNEL_GROUPED_MATMUL] = {AXIS_0 | AXIS_1 | AXIS_2 | AXIS_3, true, 0, -1},
    [KERNEL_ATTENTION] = {AXIS_0, true, 0, 7},
    [KERNEL_ATTENTION_V1] = {AXIS_0, true, 0, 7},
    [KERNEL_ATTENTION_V2] = {AXIS_0, true, 0, 7},
    [KERNEL_CONV] = {AXIS_0 | AXIS_1 | AXIS_4, true, 0, -1},
    [KERNEL_NORM] = {AXIS_0 | AXIS_1, false, 0, -1},
    [KERNEL_BATCH_NORM] = {AXIS_0 | AXIS_1 | AXIS_2, false, 0, -1},
    [KERNEL_SOFTMAX] = {AXIS_0 | AXIS_1, false, 0, 2},
    [KERNEL_ELEMENTWISE] = {AXIS_0, false, 0, -1},
    [KERNEL_DROPOUT] = {AXIS_0, false, 0, -1},
    [KERNEL_EMBEDDING] = {AXIS_0 | AXIS_1 | AXIS_2, false, 1, -1},
    [KERNEL_LOSS] = {AXIS_0 | AXIS_1, false, 0, -1},
    [KERNEL_LOSS_COMPILED] = {AXIS_0 | AXIS_1, false, 0, -1},
    [KERNEL_POOL] = {AXIS_0 | AXIS_1, false, 0, -1},
    [KERNEL_SCAN] = {AXIS_0 | AXIS_2 | AXIS_3, true, 0, -1},
    [KERNEL_DELTA] = {AXIS_0 | AXIS_2 | AXIS_3, true, 0, -1},
    [KERNEL_COPY] = {AXIS_0, false, 0, -1},
    [KERNEL_OPTIMIZER] = {AXIS_0, false, 0, -1},
};
_Static_assert(COUNT_OF(KERNELS) == KERNEL_COUNT, "a kernel without a row");

/* A product's gradients are products of the same three sizes in another order: for each phase, the
 * position in its shape of the forward's numbers. */
static const int FORWARD_OF[PHASE_COUNT][4] = {
    [PHASE_FORWARD] = {0, 1, 2, 3},
    [PHASE_BACKWARD_INPUT] = {0, 1, 3, 2},  /* m, in, out  -> m, out, in */
    [PHASE_BACKWARD_WEIGHT] = {0, 3, 1, 2}, /* out, in, m  -> m, out, in */
};

static bool is_product(enum kernel kernel)
{
    return kernel == KERNEL_MATMUL || kernel == KERNEL_GROUPED_MATMUL;
}

bool key_of_work(const struct work *work, bool whole_backward, int32_t device,
                 struct profile_key *out)
{
    const char *names[WORK_MAX_SHAPE];
    size_t count = profile_shape_names(work->kernel, names);
    enum dtype dtype = work->dtype;
    if (dtype == DTYPE_TF32 && !KERNELS[work->kernel].matrix)
        dtype = DTYPE_FP32;
    memset(out, 0, sizeof *out);
    out->device = device;
    out->kernel = (uint8_t)work->kernel;
    out->phase = whole_backward ? PHASE_WHOLE_BACKWARD : (uint8_t)work->phase;
    out->dtype = (uint8_t)dtype;
    memcpy(out->shape, work->shape, count * sizeof out->shape[0]);
    if (shape_has_bytes(work->kernel) && work->shape[0] > 0)
        out->shape[1] = llround((work->read_bytes + work->write_bytes) / (double)work->shape[0]);
    for (size_t i = 0; i < count; i++)
        if (out->shape[i] < (KERNELS[work->kernel].zero_allowed == (int)i ? 0 : 1))
            return false;
    return true;
}

static double share_of_backward(const struct work *work)
{
    double forward = shape_flops(work->kernel, work->shape);
    double weight = KERNELS[work->kernel].weight_share;
    if (forward > 0 && work->flops > 0)
        return fmin(work->flops / (2 * forward), 1);
    return work->phase == PHASE_BACKWARD_WEIGHT ? weight : 1 - weight;
}

/* ---- rows ------------------------------------------------------------------------------------ */

struct lane {               /* rows that differ in one shape number, ascending in it */
    struct profile_key key; /* with -1 in that place */
    uint32_t first, count;
};

struct profile_index {
    struct arena *arena;
    ARRAY(const char *) devices;
    ARRAY(struct profile_row) rows;
    struct hash_map exact; /* row numbers */
    ARRAY(struct lane) lanes;
    uint32_t *members;       /* row numbers, lane by lane */
    struct hash_map by_lane; /* lane numbers */
};

struct profile_index *profile_index_new(struct arena *arena)
{
    struct profile_index *index = ARENA_NEW(arena, struct profile_index);
    index->arena = arena;
    return index;
}

int32_t profile_index_find_device(const struct profile_index *index, const char *name)
{
    for (size_t i = 0; i < index->devices.len; i++)
        if (strcmp(index->devices.data[i], name) == 0)
            return (int32_t)i;
    return -1;
}

int32_t profile_index_device(struct profile_index *index, const char *name)
{
    int32_t device = profile_index_find_device(index, name);
    if (device >= 0)
        return device;
    array_push(index->arena, &index->devices, arena_copy_text(index->arena, name));
    return (int32_t)index->devices.len - 1;
}

size_t profile_index_rows(const struct profile_index *index, const struct profile_row **out)
{
    *out = index->rows.data;
    return index->rows.len;
}

static uint64_t key_hash(const struct profile_key *key)
{
    return hash_bytes(key, sizeof *key, 0);
}

static bool same_key(const struct profile_key *a, const struct profile_key *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static bool same_row(const void *rows, int64_t number, const void *key)
{
    return same_key(&((const struct profile_row *)rows)[number].key, key);
}

static bool same_lane(const void *lanes, int64_t number, const void *key)
{
    return same_key(&((const struct lane *)lanes)[number].key, key);
}

void profile_index_add(struct profile_index *index, const struct profile_row *row)
{
    array_push(index->arena, &index->rows, *row);
    index->rows.data[index->rows.len - 1].device = index->devices.data[row->key.device];
}

/* Of rows with equal keys the last stays, at the position of the first. */
static void drop_replaced(struct profile_index *index)
{
    struct profile_row *rows = index->rows.data;
    size_t kept = 0;
    for (size_t i = 0; i < index->rows.len; i++) {
        int64_t *number = hash_at_same(&index->exact, index->arena, key_hash(&rows[i].key),
                                       same_row, rows, &rows[i].key);
        *number = *number < 0 ? (int64_t)kept++ : *number;
        rows[*number] = rows[i];
    }
    index->rows.len = kept;
}

/* ---- lanes: the rows along one shape number -------------------------------------------------- */

struct lane_member {
    struct profile_key key; /* with -1 in place of `value` */
    int64_t value;
    uint32_t row;
};

static int member_order(const void *a, const void *b)
{
    const struct lane_member *x = a, *y = b;
    int order = memcmp(&x->key, &y->key, sizeof x->key);
    if (order == 0)
        order = (x->value > y->value) - (x->value < y->value);
    if (order == 0) /* I4: the same position, from different shapes */
        order = (x->row > y->row) - (x->row < y->row);
    return order;
}

static bool is_attention(enum kernel kernel)
{
    return kernel == KERNEL_ATTENTION || kernel == KERNEL_ATTENTION_V1 ||
           kernel == KERNEL_ATTENTION_V2;
}

/* The position of a key on its lane, and the lane's own key. */
static int64_t along(const struct profile_key *key, int axis, struct profile_key *lane)
{
    int64_t value = key->shape[axis];
    if (lane)
        *lane = *key;
    if (is_attention((enum kernel)key->kernel) && key->shape[1] % key->shape[2] == 0) { /* I4 */
        value *= key->shape[2];
        if (lane) {
            lane->shape[1] /= key->shape[2];
            lane->shape[2] = 1;
        }
    }
    if (lane)
        lane->shape[axis] = -1;
    return value;
}

static size_t collect_members(const struct profile_index *index, struct lane_member *out)
{
    size_t count = 0;
    for (size_t i = 0; i < index->rows.len; i++) {
        const struct profile_key *key = &index->rows.data[i].key;
        for (int axis = 0; axis < WORK_MAX_SHAPE; axis++) {
            if (!(KERNELS[key->kernel].axes >> axis & 1))
                continue;
            struct lane_member member = {.row = (uint32_t)i};
            member.value = along(key, axis, &member.key);
            if (out)
                out[count] = member;
            count++;
        }
    }
    return count;
}

static void build_lanes(struct profile_index *index)
{
    size_t count = collect_members(index, NULL);
    struct arena *scratch = arena_new();
    struct lane_member *members = ARENA_ARRAY(scratch, struct lane_member, count + 1);
    collect_members(index, members);
    qsort(members, count, sizeof *members, member_order);
    index->members = ARENA_ARRAY(index->arena, uint32_t, count);
    for (size_t i = 0; i < count; i++) {
        struct lane *last = index->lanes.len ? &index->lanes.data[index->lanes.len - 1] : NULL;
        index->members[i] = members[i].row;
        if (last && same_key(&last->key, &members[i].key)) {
            last->count++;
            continue;
        }
        struct lane lane = {members[i].key, (uint32_t)i, 1};
        *hash_at_same(&index->by_lane, index->arena, key_hash(&lane.key), same_lane,
                      index->lanes.data, &lane.key) = (int64_t)index->lanes.len;
        array_push(index->arena, &index->lanes, lane);
    }
    arena_free(scratch);
}

void profile_index_build(struct profile_index *index)
{
    drop_replaced(index);
    build_lanes(index);
}

/* ---- looking up ------------------------------------------------------------------------------ */

static struct profile_answer exact(const struct profile_index *index, const struct profile_key *key)
{
    struct profile_answer answer = {.share = 1};
    int64_t number = hash_get_same(&index->exact, key_hash(key), same_row, index->rows.data, key);
    if (number >= 0) {
        answer.provenance = FROM_MEASUREMENT;
        answer.low = answer.high = &index->rows.data[number];
        answer.ns = answer.low->ns;
    }
    return answer;
}

/* The members on either side of x. If x is the position of the one at the end, from another shape
 * (I4), that one twice; false if x is not strictly inside (I2). */
static bool neighbours(const struct profile_index *index, const struct lane *lane, int axis,
                       int64_t x, const struct profile_row **low, const struct profile_row **high)
{
    const uint32_t *members = index->members + lane->first;
    /* The first member above x is in [from, to]. */
    uint32_t from = 0, to = lane->count;
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;
        if (along(&index->rows.data[members[middle]].key, axis, NULL) > x)
            to = middle;
        else
            from = middle + 1;
    }
    if (from == 0)
        return false;
    *low = *high = &index->rows.data[members[from - 1]];
    if (from == lane->count)
        return along(&(*low)->key, axis, NULL) == x;
    *high = &index->rows.data[members[from]];
    return true;
}

static double gap(const struct profile_answer *answer)
{
    return (double)along(&answer->high->key, answer->axis, NULL) /
           (double)along(&answer->low->key, answer->axis, NULL);
}

static double power_law(const struct profile_answer *answer, int64_t x)
{
    double low = (double)along(&answer->low->key, answer->axis, NULL);
    if (answer->low == answer->high)
        return answer->low->ns;
    double p = log(answer->high->ns / answer->low->ns) / log(gap(answer)); /* (1) */
    return answer->low->ns * pow((double)x / low, p);
}

static struct profile_answer between(const struct profile_index *index,
                                     const struct profile_key *key)
{
    struct profile_answer best = {.share = 1};
    for (int axis = 0; axis < WORK_MAX_SHAPE; axis++) {
        if (!(KERNELS[key->kernel].axes >> axis & 1))
            continue;
        struct profile_key own;
        int64_t x = along(key, axis, &own);
        int64_t lane =
            hash_get_same(&index->by_lane, key_hash(&own), same_lane, index->lanes.data, &own);
        struct profile_answer found = {FROM_INTERPOLATION, .axis = axis, .share = 1};
        if (lane < 0 ||
            !neighbours(index, &index->lanes.data[lane], axis, x, &found.low, &found.high))
            continue;
        if (best.provenance == FROM_NOTHING || gap(&found) < gap(&best))
            best = found;
    }
    if (best.provenance != FROM_NOTHING)
        best.ns = power_law(&best, along(key, best.axis, NULL));
    return best;
}

/* A product of two activations computes both gradients in one phase, under the forward's shape. */
static bool both_gradients(const struct work *work)
{
    return is_product(work->kernel) && work->phase == PHASE_BACKWARD_INPUT &&
           work->flops > 1.5 * shape_flops(work->kernel, work->shape);
}

bool profile_key_of(const struct work *work, int32_t device, struct profile_key *out)
{
    return key_of_work(work, both_gradients(work), device, out);
}

/* The same question about both gradients at once, and which share of their time is this phase's. */
static bool whole_backward_key(const struct work *work, int32_t device, struct profile_key *key,
                               double *share)
{
    if (work->phase == PHASE_FORWARD)
        return false;
    struct work forward = *work;
    if (is_product(work->kernel) && !both_gradients(work))
        for (int i = 0; i < 4; i++)
            forward.shape[i] = work->shape[FORWARD_OF[work->phase][i]];
    *share = share_of_backward(work);
    return key_of_work(&forward, true, device, key);
}

struct profile_answer profile_index_lookup(const struct profile_index *index, int32_t device,
                                           const struct work *work)
{
    struct profile_answer (*const ways[])(const struct profile_index *,
                                          const struct profile_key *) = {exact, between};
    struct profile_answer answer = {.share = 1};
    struct profile_key own, whole;
    double share = 1;
    if (device < 0 || index->rows.len == 0 || !key_of_work(work, false, device, &own))
        return answer;
    bool has_whole = whole_backward_key(work, device, &whole, &share);
    bool has_own = !both_gradients(work);
    for (size_t i = 0; i < COUNT_OF(ways); i++) { /* I3 */
        if (has_own)
            answer = ways[i](index, &own);
        if (answer.provenance == FROM_NOTHING && has_whole) {
            answer = ways[i](index, &whole);
            answer.share = share;
            answer.ns *= share;
        }
        if (answer.provenance != FROM_NOTHING)
            break;
    }
    return answer;
}
