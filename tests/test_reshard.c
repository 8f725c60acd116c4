/* test_reshard.c - layouts and reshards, executed on symbolic tensors.
 *
 * A device's memory is, for each element of the tensor, the set of addends it holds a sum of (bit
 * p: the addend of the p-th value of the partial digits; no bit: not there). A layout says what
 * every device's memory is. Each step is executed as the collective it names:
 *
 *   X1  A sum needs the element on every member, and no addend twice.
 *   X2  A gather's members hold disjoint elements; an exchange's hold equal ones where they share.
 *   X3  The larger of the numbers of elements that a device holds before and after a step is the
 *       step's, on every device.
 *
 * After the last step every device must hold exactly what the target says, no more and no less.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "compile/path.h"
#include "compile/compile.h"
#include "model/builder.h"

/* ---- the symbolic machine -------------------------------------------------------------------- */

enum { MAX_DEVICES = 128, MAX_ELEMENTS = 1536 };
struct memory {
    int64_t devices, elements;
    uint32_t held[MAX_DEVICES][MAX_ELEMENTS];
};

/* Values of a device's digits, outermost first. */
static void digits_of(const struct layout *layout, int64_t device, int64_t *value)
{
    for (int64_t i = layout->digits - 1; i >= 0; i--) {
        value[i] = device % layout->digit[i].degree;
        device /= layout->digit[i].degree;
    }
}

static uint32_t addend_of(const struct layout *layout, const int64_t *value)
{
    int64_t addend = 0;
    for (int64_t i = 0; i < layout->digits; i++)
        if (layout->digit[i].hold == HOLD_PARTIAL)
            addend = addend * layout->digit[i].degree + value[i];
    return 1U << addend;
}

static bool holds(const struct layout *layout, const int64_t *value, int64_t element)
{
    for (int64_t i = 0; i < layout->digits; i++)
        if (layout->digit[i].hold > 0 &&
            element / layout->digit[i].hold % layout->digit[i].degree != value[i])
            return false;
    return true;
}

static void fill(struct memory *m, const struct layout *layout)
{
    m->devices = layout_devices(layout);
    m->elements = layout->elements;
    assert_true(m->devices <= MAX_DEVICES && m->elements <= MAX_ELEMENTS);
    for (int64_t d = 0; d < m->devices; d++) {
        int64_t value[MAX_LAYOUT_DIGITS];
        digits_of(layout, d, value);
        for (int64_t e = 0; e < m->elements; e++)
            m->held[d][e] = holds(layout, value, e) ? addend_of(layout, value) : 0;
    }
}

/* All addends of `from` summed, where `to` wants them. */
static void fill_target(struct memory *m, const struct layout *from, const struct layout *to)
{
    int64_t addends = 1;
    for (int64_t i = 0; i < from->digits; i++)
        addends *= from->digit[i].hold == HOLD_PARTIAL ? from->digit[i].degree : 1;
    fill(m, to);
    for (int64_t d = 0; d < m->devices; d++)
        for (int64_t e = 0; e < m->elements; e++)
            m->held[d][e] = m->held[d][e] ? (uint32_t)((UINT64_C(1) << addends) - 1) : 0;
}

static int64_t count_held(const struct memory *m, int64_t device)
{
    int64_t count = 0;
    for (int64_t e = 0; e < m->elements; e++)
        count += m->held[device][e] != 0;
    return count;
}

static uint32_t combine(const struct memory *m, const struct reshard_step *step,
                        const struct group *group, int64_t e)
{
    bool sums = step->kind == COLLECTIVE_ALL_REDUCE || step->kind == COLLECTIVE_REDUCE_SCATTER;
    int64_t size = group_size(group), there = 0;
    uint32_t all = 0;
    for (int64_t i = 0; i < size; i++) {
        uint32_t one = m->held[group_device(group, i)][e];
        there += one != 0;
        if (sums)
            assert_true((all & one) == 0); /* X1 */
        else
            assert_true(!all || !one || all == one); /* X2 */
        all |= one;
    }
    assert_true(there == 0 || !sums || there == size);                      /* X1 */
    assert_true(there <= 1 || sums || step->kind == COLLECTIVE_ALL_TO_ALL); /* X2 */
    return all;
}

static bool keeps(const struct reshard_step *step, int64_t device, int64_t e)
{
    for (int32_t i = 0; i < step->digits; i++) {
        const struct step_digit *digit = &step->digit[i];
        if (digit->after > 0 &&
            e / digit->after % digit->degree != device / digit->mesh_stride % digit->degree)
            return false;
    }
    return true;
}

static void execute(struct memory *m, const struct reshard_step *step)
{
    static struct memory next;
    next.devices = m->devices;
    next.elements = m->elements;
    for (int64_t d = 0; d < m->devices; d++) {
        struct group group = step_group(step, d);
        assert_int_equal(group_size(&group), step_members(step));
        for (int64_t e = 0; e < m->elements; e++) {
            next.held[d][e] = 0;
            if (keeps(step, d, e))
                next.held[d][e] =
                    step->kind == STEP_SLICE ? m->held[d][e] : combine(m, step, &group, e);
        }
        int64_t in = count_held(m, d), out = count_held(&next, d);
        assert_int_equal(step->elements, in > out ? in : out); /* X3 */
    }
    for (int64_t d = 0; d < m->devices; d++)
        memcpy(m->held[d], next.held[d], sizeof(uint32_t) * (size_t)m->elements);
}

static void cross(struct memory *m, const struct reshard *r)
{
    static struct memory old;
    old = *m;
    m->devices = r->to_devices;
    for (int64_t d = 0; d < m->devices; d++)
        memcpy(m->held[d], old.held[reshard_sender(r, d)], sizeof m->held[d]);
}

static struct {
    int64_t reshards, steps[STEP_KIND_COUNT], lengths[32];
} seen;

/* Runs a reshard from what `from` says; the target must come out. */
static void verify(const struct reshard *r, const struct layout *from, const struct layout *to)
{
    static struct memory memory, target;
    double volume = 0;
    fill(&memory, from);
    for (int32_t i = 0; i < r->steps; i++) {
        if (r->step[i].kind == COLLECTIVE_SEND) {
            assert_int_equal(i, r->send);
            cross(&memory, r);
        } else {
            execute(&memory, &r->step[i]);
        }
        volume += step_volume(&r->step[i]);
        seen.steps[r->step[i].kind]++;
    }
    assert_true(volume == r->volume);
    fill_target(&target, from, to);
    assert_int_equal(memory.devices, target.devices);
    for (int64_t d = 0; d < target.devices; d++)
        assert_memory_equal(memory.held[d], target.held[d],
                            sizeof(uint32_t) * (size_t)target.elements);
    seen.reshards++;
    seen.lengths[r->steps]++;
}

static void print_seen(const char *what)
{
    printf("%s: %lld reshards;", what, (long long)seen.reshards);
    for (int kind = 0; kind < STEP_KIND_COUNT; kind++)
        printf(" %s %lld", step_name(kind), (long long)seen.steps[kind]);
    printf("; by number of steps:");
    for (size_t i = 0; i < COUNT_OF(seen.lengths); i++)
        if (seen.lengths[i])
            printf(" %zu: %lld", i, (long long)seen.lengths[i]);
    printf("\n");
    memset(&seen, 0, sizeof seen);
}

static bool has_partial(const struct layout *layout)
{
    for (int64_t i = 0; i < layout->digits; i++)
        if (layout->digit[i].hold == HOLD_PARTIAL)
            return true;
    return false;
}

static bool independent(const struct layout *layout, int64_t degree, int64_t stride)
{
    bool free = layout->elements % (stride * degree) == 0;
    for (int64_t i = 0; free && i < layout->digits; i++) {
        const struct layout_digit *other = &layout->digit[i];
        free = other->hold <= 0 || stride % (other->hold * other->degree) == 0 ||
               other->hold % (stride * degree) == 0;
    }
    return free;
}

/* ---- every pair ------------------------------------------------------------------------------ */

enum { MAX_LAYOUTS = 2048 };
struct layouts {
    int count;
    struct layout all[MAX_LAYOUTS];
};

static void add_distinct(struct layouts *list, const struct layout *layout)
{
    for (int i = 0; i < list->count; i++)
        if (layout_equal(&list->all[i], layout))
            return;
    assert_true(list->count < MAX_LAYOUTS);
    list->all[list->count++] = *layout;
}

/* All layouts on `devices` more, inside what `begun` has: every degree, hold and stride. */
static void enumerate(struct layouts *list, const struct layout *begun, int64_t devices)
{
    if (devices == 1)
        add_distinct(list, begun);
    for (int64_t degree = 2; degree <= devices; degree++)
        for (int64_t hold = HOLD_PARTIAL; devices % degree == 0 && hold <= begun->elements;
             hold++) {
            struct layout next = *begun;
            if (hold > 0 && !independent(begun, degree, hold))
                continue;
            layout_add(&next, degree, hold);
            enumerate(list, &next, devices / degree);
        }
}

/* Strides stand for axes and for dims inside axes, so 16 elements are all of 16, 2 x 8, 4 x 4,
 * 2 x 2 x 4, ..., with contiguous and strided splits. */
static void test_all_pairs_of_layouts(void **state)
{
    (void)state;
    static const struct {
        int64_t devices, elements;
    } CASES[] = {{1, 4},  {2, 12}, {3, 18}, {4, 16}, {4, 24},
                 {5, 25}, {6, 36}, {7, 49}, {8, 16}, {8, 32}};
    static struct layouts list;
    for (size_t c = 0; c < COUNT_OF(CASES); c++) {
        struct reshards *reshards = reshards_new();
        struct layout none = layout_none(CASES[c].elements);
        list.count = 0;
        enumerate(&list, &none, CASES[c].devices);
        for (int i = 0; i < list.count; i++)
            for (int k = 0; k < list.count; k++)
                if (!has_partial(&list.all[k]))
                    verify(reshard_within(reshards, &list.all[i], &list.all[k]), &list.all[i],
                           &list.all[k]);
        reshards_free(reshards);
        printf("%lld devices, %lld elements, %d layouts\n", (long long)CASES[c].devices,
               (long long)CASES[c].elements, list.count);
        print_seen("  all pairs");
    }
}

/* ---- random pairs ---------------------------------------------------------------------------- */

static int64_t random_divisor(struct rng *rng, int64_t n)
{
    int64_t divisor;
    do
        divisor = 2 + rng_below(rng, n - 1);
    while (n % divisor);
    return divisor;
}

/* A split by any stride that is free, else a copy or a partial sum. */
static struct layout random_layout(struct rng *rng, int64_t elements, int64_t devices, bool partial)
{
    struct layout layout = layout_none(elements);
    while (devices > 1) {
        int64_t degree = random_divisor(rng, devices);
        int64_t hold = rng_below(rng, 4) ? 1 + rng_below(rng, elements) : HOLD_COPY;
        for (int tries = 0; tries < 200 && hold > 0 && !independent(&layout, degree, hold); tries++)
            hold = 1 + rng_below(rng, elements);
        if (hold > 0 && !independent(&layout, degree, hold))
            hold = HOLD_COPY;
        if (partial && rng_below(rng, 3) == 0)
            hold = HOLD_PARTIAL;
        assert_true(layout_add(&layout, degree, hold));
        devices /= degree;
    }
    return layout;
}

static void test_random_pairs(void **state)
{
    (void)state;
    static const struct {
        int64_t devices, elements;
    } CASES[] = {{12, 144}, {12, 288}, {16, 256}, {16, 192}, {24, 576}, {24, 288}, {18, 324}};
    struct reshards *reshards = reshards_new();
    struct rng rng;
    rng_seed(&rng, 1);
    for (size_t c = 0; c < COUNT_OF(CASES); c++)
        for (int i = 0; i < 700; i++) {
            struct layout from = random_layout(&rng, CASES[c].elements, CASES[c].devices, true);
            struct layout to = random_layout(&rng, CASES[c].elements, CASES[c].devices, false);
            verify(reshard_within(reshards, &from, &to), &from, &to);
        }
    reshards_free(reshards);
    print_seen("random pairs");
}

/* Seven binary digits that all change are more than a search takes: all is gathered and sliced. */
static void test_many_digits(void **state)
{
    (void)state;
    enum { DIGITS = 7 };
    struct reshards *reshards = reshards_new();
    for (int shift = 1; shift < DIGITS; shift++) {
        struct layout from = layout_none(256), to = from;
        for (int i = 0; i < DIGITS; i++) {
            layout_add(&from, 2, i ? INT64_C(1) << i : HOLD_PARTIAL);
            layout_add(&to, 2, INT64_C(1) << (i + shift) % DIGITS);
        }
        assert_int_equal(from.digits, DIGITS);
        verify(reshard_within(reshards, &from, &to), &from, &to);
    }
    reshards_free(reshards);
    print_seen("many digits");
}

static void test_random_pairs_between_stages(void **state)
{
    (void)state;
    static const int64_t DEVICES[] = {1, 2, 3, 4, 6, 8, 12};
    struct reshards *reshards = reshards_new();
    struct rng rng;
    rng_seed(&rng, 2);
    for (size_t a = 0; a < COUNT_OF(DEVICES); a++)
        for (size_t b = 0; b < COUNT_OF(DEVICES); b++)
            for (int i = 0; i < 60; i++) {
                struct layout from = random_layout(&rng, 144, DEVICES[a], true);
                struct layout to = random_layout(&rng, 144, DEVICES[b], false);
                verify(reshard_between(reshards, &from, &to, i % 2), &from, &to);
            }
    reshards_free(reshards);
    print_seen("between stages");
}

/* ---- the least volume ------------------------------------------------------------------------ */

/* All layouts of three binary digits over 16 elements, all steps between any two: the volume of
 * every path's best, by Floyd and Warshall. */
enum { BITS = 3, HOLDS = 6, GRID = HOLDS * HOLDS * HOLDS };
static const int64_t GRID_HOLD[HOLDS] = {HOLD_COPY, HOLD_PARTIAL, 1, 2, 4, 8};
static const int64_t GRID_ELEMENTS = 16;

static bool grid_layout(int state, int64_t *hold, struct layout *layout)
{
    *layout = layout_none(GRID_ELEMENTS);
    unsigned used = 0;
    for (int i = 0; i < BITS; i++, state /= HOLDS) {
        hold[i] = GRID_HOLD[state % HOLDS];
        if (hold[i] > 0 && used & (unsigned)hold[i])
            return false;
        used |= hold[i] > 0 ? (unsigned)hold[i] : 0;
        layout_add(layout, 2, hold[i]);
    }
    return true;
}

/* The volume of one step, infinite where no collective does it. */
static double grid_step(const int64_t *from, const int64_t *to, double in, double out)
{
    static const double NEVER = 1e9;
    int moved = 0, summed = 0, scattered = 0, gathered = 0, sliced = 0, unsummed = 0;
    for (int i = 0; i < BITS; i++) {
        bool moves = from[i] != to[i];
        moved += moves;
        summed += moves && from[i] == HOLD_PARTIAL;
        unsummed += moves && to[i] == HOLD_PARTIAL;
        scattered += moves && from[i] == HOLD_PARTIAL && to[i] > 0;
        gathered += moves && from[i] > 0 && to[i] == HOLD_COPY;
        sliced += moves && from[i] == HOLD_COPY && to[i] > 0;
    }
    double share = 1 - 1.0 / (1 << moved);
    if (unsummed || (summed && summed != moved))
        return NEVER;
    if (sliced == moved)
        return 0;
    if (summed)
        return scattered == moved ? share * in : scattered == 0 ? 2 * share * in : NEVER;
    return gathered == moved ? share * out : in == out ? share * in : NEVER;
}

static void test_least_volume_among_all_paths(void **state)
{
    (void)state;
    static double best[GRID][GRID];
    static struct layout layout[GRID];
    static int64_t hold[GRID][BITS];
    static bool exists[GRID];
    struct reshards *reshards = reshards_new();
    int64_t pairs = 0, equal = 0;
    double worst = 1;
    for (int i = 0; i < GRID; i++)
        exists[i] = grid_layout(i, hold[i], &layout[i]);
    for (int i = 0; i < GRID; i++)
        for (int k = 0; k < GRID; k++)
            best[i][k] = exists[i] && exists[k]
                             ? grid_step(hold[i], hold[k], (double)layout_local(&layout[i]),
                                         (double)layout_local(&layout[k]))
                             : 1e9;
    for (int m = 0; m < GRID; m++)
        for (int i = 0; i < GRID; i++)
            for (int k = 0; k < GRID; k++)
                if (best[i][m] + best[m][k] < best[i][k])
                    best[i][k] = best[i][m] + best[m][k];
    for (int i = 0; i < GRID; i++)
        for (int k = 0; k < GRID; k++) {
            if (!exists[i] || !exists[k] || has_partial(&layout[k]))
                continue;
            double volume = reshard_within(reshards, &layout[i], &layout[k])->volume;
            assert_true(volume >= best[i][k] - 1e-9);
            pairs++;
            equal += volume <= best[i][k] + 1e-9;
            if (best[i][k] > 0 && volume / best[i][k] > worst)
                worst = volume / best[i][k];
        }
    printf("least volume: %lld of %lld pairs, the worst %.3f times the least\n", (long long)equal,
           (long long)pairs, worst);
    assert_true(equal * 100 >= pairs * 92 && worst <= 1.5);
    reshards_free(reshards);
}

/* ---- operators ------------------------------------------------------------------------------- */

enum { BATCH = 4 };

/* A small model with every kind of operator that splits in its own way. */
static struct model *small_model(void)
{
    static const struct attention ATTENTION = {
        .heads = 8, .kv_heads = 4, .depth = 2, .value_depth = 2, .causal = true};
    struct builder *b = build_start("small", "test", "test");
    struct model *model;
    int x = build_embedding(b, "embedding", build_tokens(b, 8), 24, 16, 0);
    int qkv = build_linear(b, "qkv", build_rms_norm(b, "norm", x, true), 32, true);
    int y = build_attention(b, "attention", qkv, qkv, qkv, &ATTENTION);
    x = build_add(b, "add", build_linear(b, "proj", y, 16, true), x);
    y = build_linear(b, "gate_up", build_layer_norm(b, "norm2", x), 48, false);
    x = build_add(b, "add2", build_linear(b, "down", build_gated(b, "gated", y), 16, false), x);
    int scores = build_router(b, "router", x, 4, 1);
    y = build_expert_linear(b, "expert_up", build_dispatch(b, "dispatch", x, scores), 24, false);
    y = build_expert_linear(b, "expert_down", build_gelu(b, "gelu", y), 16, false);
    x = build_add(b, "add3", build_combine(b, "combine", y, scores), x);
    build_loss(b, "loss", build_linear(b, "head", x, 24, false));
    assert_int_equal(build_finish(b, &model), WEFT_OK);
    return model;
}

static const struct op *find_op(const struct model *model, const char *name)
{
    for (int32_t i = 0; i < model->ops; i++)
        if (strcmp(model->op[i].name, name) == 0)
            return &model->op[i];
    fail_msg("no operator %s", name);
    return NULL;
}

static struct split split_of(const char *text)
{
    struct split split;
    assert_int_equal(split_parse(NULL, text, &split), WEFT_OK);
    return split;
}

static struct split random_split(struct rng *rng, const struct op *op, int64_t devices)
{
    struct split split = split_none();
    while (devices > 1) {
        int64_t full[OP_MAX_DIMS], degree = random_divisor(rng, devices);
        int at = (int)rng_below(rng, op_dims(op->kind) + 1);
        op_full_size(op, BATCH, full);
        int dim = at < op_dims(op->kind) ? (int)OP_KINDS[op->kind].dims[at].dim : SPLIT_COPY;
        if (dim != SPLIT_COPY && full[at] % (degree * split_degree(&split, dim)))
            dim = SPLIT_COPY;
        assert_true(split_add(&split, dim, degree));
        devices /= degree;
    }
    return split;
}

/* Whether a device computes with this index of a dim: its part, block by block. */
static bool has_index(const struct split *split, int dim, int64_t size, int64_t device,
                      int64_t index)
{
    int64_t mesh = split_devices(split);
    for (int32_t i = 0; i < split->parts; i++) {
        mesh /= split->part[i].degree;
        if (split->part[i].dim != dim)
            continue;
        size /= split->part[i].degree;
        if (index / size != device / mesh % split->part[i].degree)
            return false;
        index %= size;
    }
    return true;
}

/* Whether a device's part of an operator has this element of an operand, from its index per dim. */
static bool computes(const struct op *op, const struct operand *operand, const struct split *split,
                     int64_t device, int64_t element)
{
    int64_t full[OP_MAX_DIMS];
    op_full_size(op, BATCH, full);
    for (int axis = operand->axes - 1; axis >= 0; axis--) {
        int64_t share = operand->size[axis] * (axis == 0 ? BATCH : 1), index = element % share;
        element /= share;
        for (int k = 0; k < MAX_AXIS_DIMS && operand->dims[axis][k] >= 0; k++) {
            bool last = k == MAX_AXIS_DIMS - 1 || operand->dims[axis][k + 1] < 0;
            int64_t size = last ? share : full[operand->dims[axis][k]];
            int dim = (int)OP_KINDS[op->kind].dims[operand->dims[axis][k]].dim;
            share /= size;
            if (!has_index(split, dim, size, device, index / share))
                return false;
            index %= share;
        }
    }
    return true;
}

/* A layout holds what the operator's part computes with, and is as partial as it should be. */
static void check_layout(const struct op *op, const struct operand *operand,
                         const struct split *split, const struct layout *layout)
{
    assert_int_equal(layout_devices(layout), split_devices(split));
    for (int64_t d = 0; d < layout_devices(layout); d++) {
        int64_t value[MAX_LAYOUT_DIGITS];
        digits_of(layout, d, value);
        for (int64_t e = 0; e < layout->elements; e++)
            assert_int_equal(holds(layout, value, e), computes(op, operand, split, d, e));
    }
}

static int64_t stored(const struct operand *operand)
{
    int64_t elements = BATCH;
    for (int axis = 0; axis < operand->axes; axis++)
        elements *= operand->size[axis];
    return elements;
}

/* The reshards of one tensor between two operators, forward and back. */
static int64_t padded;
static void check_edge(struct reshards *reshards, const struct model *model,
                       const struct op *producer, const struct split *made,
                       const struct op *consumer, const struct operand *operand,
                       const struct split *used)
{
    static const enum flow FLOWS[] = {FLOW_FORWARD, FLOW_GRADIENT};
    for (size_t f = 0; f < COUNT_OF(FLOWS); f++) {
        struct layout whole = layout_of(producer, &producer->output, made, BATCH, FLOWS[f]);
        struct layout in = layout_of(consumer, operand, used, BATCH, FLOWS[f]);
        struct layout first = whole, part = layout_part(model, consumer, operand, &first);
        if (whole.elements != stored(&producer->output) || in.elements != stored(operand)) {
            padded++;
            continue;
        }
        check_layout(producer, &producer->output, made, &whole);
        check_layout(consumer, operand, used, &in);
        if (FLOWS[f] == FLOW_FORWARD) {
            assert_false(has_partial(&in));
            if (!has_partial(&first))
                verify(reshard_within(reshards, &whole, &first), &whole, &first);
            verify(reshard_within(reshards, &part, &in), &part, &in);
        } else {
            assert_false(has_partial(&whole));
            verify(reshard_within(reshards, &in, &part), &in, &part);
            verify(reshard_within(reshards, &first, &whole), &first, &whole);
        }
    }
}

static void test_random_splits_of_operators(void **state)
{
    (void)state;
    static const int64_t DEVICES[] = {2, 4, 6, 8, 12, 16};
    struct model *model = small_model();
    struct reshards *reshards = reshards_new();
    struct rng rng;
    rng_seed(&rng, 3);
    for (int round = 0; round < 60; round++)
        for (int32_t i = 0; i < model->ops; i++)
            for (int32_t k = 0; k < model->op[i].inputs; k++) {
                const struct operand *operand = &model->op[i].input[k];
                int32_t producer = model->tensor[operand->tensor].producer;
                int64_t devices = DEVICES[rng_below(&rng, COUNT_OF(DEVICES))];
                if (producer < 0)
                    continue;
                struct split made = random_split(&rng, &model->op[producer], devices);
                struct split used = random_split(&rng, &model->op[i], devices);
                check_edge(reshards, model, &model->op[producer], &made, &model->op[i], operand,
                           &used);
            }
    reshards_free(reshards);
    model_free(model);
    printf("%lld with padding, left out\n", (long long)padded);
    print_seen("splits of operators");
}

/* A part of a fused tensor lies where the whole lies, share by share. */
static void test_part_of_fused_tensor(void **state)
{
    (void)state;
    static const struct {
        const char *split;
        bool as_it_is;
    } CASES[] = {{"out:4", true},        {"out:2", true},  {"batch:2 out:2", true},
                 {"out:2 seq:2", true},  {"out:8", false}, {"out:2 batch:2 out:4", false},
                 {"seq:4 out:16", false}};
    struct model *model = small_model();
    const struct op *qkv = find_op(model, "qkv"), *attention = find_op(model, "attention");
    static const int64_t OFFSET[] = {0, 4, 6}, WIDTH[] = {4, 2, 2}; /* within a share of 8 */
    for (size_t c = 0; c < COUNT_OF(CASES); c++)
        for (int k = 0; k < 3; k++) {
            struct split split = split_of(CASES[c].split);
            struct layout made = layout_of(qkv, &qkv->output, &split, BATCH, FLOW_FORWARD);
            struct layout whole = made;
            struct layout part = layout_part(model, attention, &attention->input[k], &whole);
            assert_int_equal(layout_equal(&made, &whole), CASES[c].as_it_is);
            assert_int_equal(layout_devices(&part), layout_devices(&made));
            for (int64_t d = 0; d < layout_devices(&part); d++) {
                int64_t in_part[MAX_LAYOUT_DIGITS], in_whole[MAX_LAYOUT_DIGITS];
                digits_of(&part, d, in_part);
                digits_of(&whole, d, in_whole);
                for (int64_t e = 0; e < part.elements; e++)
                    assert_int_equal(
                        holds(&part, in_part, e),
                        holds(&whole, in_whole, e / WIDTH[k] * 8 + OFFSET[k] + e % WIDTH[k]));
            }
        }
    model_free(model);
}

/* ---- cases that people know ------------------------------------------------------------------ */

static const struct known {
    const char *producer, *made, *consumer, *used;
    const char *forward, *backward;
} KNOWN[] = {
    /* Megatron: column, then row; nothing between them. */
    {"gate_up", "out:4", "gated", "hidden:4", "none", "none"},
    {"gated", "hidden:4", "down", "in:4", "none", "none"},
    {"qkv", "out:4", "attention", "head:4", "none", "none"},
    {"attention", "head:4", "proj", "in:4", "none", "none"},
    /* Row to what every device does alike, and back to a column. */
    {"proj", "in:4", "add", "copy:4", "all_reduce:4", "none"},
    {"norm2", "copy:4", "gate_up", "out:4", "none", "all_reduce:4"},
    /* Sequence parallelism. */
    {"proj", "in:4", "add", "seq:4", "reduce_scatter:4", "all_gather:4"},
    {"norm2", "seq:4", "gate_up", "out:4", "all_gather:4", "reduce_scatter:4"},
    {"proj", "batch:2 in:4", "add", "batch:2 seq:4", "reduce_scatter:4", "all_gather:4"},
    /* From one axis to another. */
    {"add", "batch:4", "norm2", "batch:4", "none", "none"},
    {"head", "batch:4", "loss", "vocab:4", "all_to_all:4", "all_to_all:4"},
    {"head", "out:4", "loss", "batch:4", "all_to_all:4", "all_to_all:4"},
    {"gelu", "batch:4", "expert_down", "expert:4", "all_to_all:4", "all_to_all:4"},
    {"dispatch", "batch:4", "expert_up", "expert:4", "all_to_all:4", "all_to_all:4"},
    {"norm2", "copy:4", "gate_up", "batch:4", "slice:4", "all_gather:4"},
    /* Partial on one digit, whole to the next operator on another: AutoDDL, Figure 6. The output
     * (S0:2, S1:2, P:2) is scattered, then gathered over the digit that the next one copies. */
    {"gated", "batch:2 hidden:4", "down", "batch:2 out:2 in:2", "all_to_all:4 all_gather:2",
     "reduce_scatter:2 all_to_all:4"},
};

static const struct reshard *reshard_of(struct reshards *reshards, const struct model *model,
                                        const struct known *known, enum flow flow)
{
    const struct op *producer = find_op(model, known->producer);
    const struct op *consumer = find_op(model, known->consumer);
    struct split made = split_of(known->made), used = split_of(known->used);
    struct layout from = layout_of(producer, &producer->output, &made, BATCH, flow);
    struct layout to = layout_of(consumer, &consumer->input[0], &used, BATCH, flow);
    from = layout_part(model, consumer, &consumer->input[0], &from);
    return flow == FLOW_FORWARD ? reshard_within(reshards, &from, &to)
                                : reshard_within(reshards, &to, &from);
}

static void test_known_cases(void **state)
{
    (void)state;
    struct model *model = small_model();
    struct reshards *reshards = reshards_new();
    struct arena *arena = arena_new();
    for (size_t i = 0; i < COUNT_OF(KNOWN); i++) {
        const struct known *k = &KNOWN[i];
        const char *forward = reshard_text(arena, reshard_of(reshards, model, k, FLOW_FORWARD));
        const char *backward = reshard_text(arena, reshard_of(reshards, model, k, FLOW_GRADIENT));
        printf("%s %s -> %s %s: %s; back: %s\n", k->producer, k->made, k->consumer, k->used,
               forward, backward);
        assert_string_equal(forward, k->forward);
        assert_string_equal(backward, k->backward);
    }
    arena_free(arena);
    reshards_free(reshards);
    model_free(model);
}

/* Collectives of each kind that the layers of a plan need, forward and back. */
static void count_collectives(const struct plan *plan, struct reshards *reshards,
                              int64_t count[2][STEP_KIND_COUNT])
{
    const struct model *model = plan->model;
    const struct split *split[256] = {0};
    for (int64_t i = 0; i < plan->instances; i++)
        split[plan->instance[i].op] = &plan_choice(plan, i)->split;
    for (int32_t i = 0; i < model->ops; i++)
        for (int32_t k = 0; k < model->op[i].inputs; k++) {
            const struct op *op = &model->op[i];
            int32_t producer = model->tensor[op->input[k].tensor].producer;
            if (producer < 0)
                continue;
            const struct op *from = &model->op[producer];
            for (int flow = 0; flow < 2; flow++) {
                struct layout made = layout_of(from, &from->output, split[producer],
                                               plan->batch_per_step, (enum flow)flow);
                struct layout used =
                    layout_of(op, &op->input[k], split[i], plan->batch_per_step, (enum flow)flow);
                made = layout_part(model, op, &op->input[k], &made);
                const struct reshard *r = flow == FLOW_FORWARD
                                              ? reshard_within(reshards, &made, &used)
                                              : reshard_within(reshards, &used, &made);
                for (int32_t s = 0; s < r->steps; s++)
                    count[flow][r->step[s].kind]++;
            }
        }
}

/* Megatron's layers: two sums forward and two back; with sequence parallelism two gathers and two
 * scatters each way; and the output head's one. With context parallelism keys and values are
 * gathered in each layer, and their gradients scattered. With expert parallelism tokens go to their
 * experts and back, and so do their gradients. */
static void test_layers_of_megatron(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        struct degrees degrees;
        int64_t all_reduce[2], all_gather[2], reduce_scatter[2], all_to_all[2];
    } CASES[] = {
        {"gpt3-13b", {.dp = 2, .tp = 8}, {2, 3}, {0, 0}, {0, 0}},
        {"llama3.1-405b", {.dp = 2, .tp = 8}, {2, 3}, {0, 0}, {0, 0}},
        {"llama3.1-405b", {.dp = 2, .tp = 8, .sequence = true}, {0, 0}, {3, 2}, {2, 3}},
        {"llama3.1-405b", {.dp = 2, .tp = 4, .cp = 2}, {2, 3}, {2, 0}, {0, 2}},
        {"gpt3-13b", {.dp = 16}, {0, 0}, {0, 0}, {0, 0}},
        {"mixtral-8x7b", {.dp = 16, .ep = 8}, {0, 0}, {0, 0}, {0, 0}, {2, 2}},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct reshards *reshards = reshards_new();
        struct model *model;
        struct cluster *cluster;
        struct plan *plan;
        int64_t count[2][STEP_KIND_COUNT] = {0};
        assert_int_equal(model_open(CASES[i].model, NULL, &model), WEFT_OK);
        assert_int_equal(cluster_open("dgx-a100:2", &cluster), WEFT_OK);
        assert_int_equal(plan_from_degrees(model, cluster, &CASES[i].degrees, &plan), WEFT_OK);
        count_collectives(plan, reshards, count);
        for (int flow = 0; flow < 2; flow++) {
            assert_int_equal(count[flow][COLLECTIVE_ALL_REDUCE], CASES[i].all_reduce[flow]);
            assert_int_equal(count[flow][COLLECTIVE_ALL_GATHER], CASES[i].all_gather[flow]);
            assert_int_equal(count[flow][COLLECTIVE_REDUCE_SCATTER], CASES[i].reduce_scatter[flow]);
            assert_int_equal(count[flow][COLLECTIVE_ALL_TO_ALL], CASES[i].all_to_all[flow]);
        }
        plan_free(plan);
        cluster_free(cluster);
        model_free(model);
        reshards_free(reshards);
    }
}

/* AutoDDL, Table 2: N elements is what goes into a reduce-scatter and comes out of the others. */
static void test_volumes_of_single_collectives(void **state)
{
    (void)state;
    static const struct {
        int64_t before, after;
        const char *step;
        double volume;
    } CASES[] = {
        {HOLD_PARTIAL, HOLD_COPY, "all_reduce:8", 2 * 7.0 / 8 * 64},
        {HOLD_PARTIAL, 8, "reduce_scatter:8", 7.0 / 8 * 64},
        {8, HOLD_COPY, "all_gather:8", 7.0 / 8 * 64},
        {8, 1, "all_to_all:8", 7.0 / 8 * 8},
        {HOLD_COPY, 8, "slice:8", 0},
        {HOLD_COPY, HOLD_COPY, "none", 0},
    };
    struct reshards *reshards = reshards_new();
    struct arena *arena = arena_new();
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct layout from = layout_none(64), to = from;
        layout_add(&from, 8, CASES[i].before);
        layout_add(&to, 8, CASES[i].after);
        const struct reshard *r = reshard_within(reshards, &from, &to);
        assert_string_equal(reshard_text(arena, r), CASES[i].step);
        assert_true(r->volume == CASES[i].volume);
        assert_ptr_equal(r, reshard_within(reshards, &from, &to));
    }
    arena_free(arena);
    reshards_free(reshards);
}

/* A 3-D product after a 3-D product on p^3 devices moves 2 (p - 1) / p of n^2 / p^2 elements: one
 * reduce-scatter over p, one gather over p (AutoDDL, section 4.3), where the digits of the second
 * are those of the first with `in` and `out` in each other's place. */
static void test_product_in_three_dims(void **state)
{
    (void)state;
    struct reshards *reshards = reshards_new();
    for (int64_t p = 2; p <= 16; p *= 2) {
        int64_t n = 4096;
        struct layout from = layout_none(n * n), to = from;
        layout_add(&from, p, n * n / p); /* batch */
        layout_add(&from, p, n / p);     /* out */
        layout_add(&from, p, HOLD_PARTIAL);
        layout_add(&to, p, n * n / p);
        layout_add(&to, p, n / p); /* in */
        layout_add(&to, p, HOLD_COPY);
        const struct reshard *r = reshard_within(reshards, &from, &to);
        double local = (double)(n * n / (p * p)), share = (double)(p - 1) / (double)p;
        assert_true(r->volume == 2 * share * local);
    }
    reshards_free(reshards);
}

/* ---- between stages, padding, text, speed ---------------------------------------------------- */

static void test_sends(void **state)
{
    (void)state;
    static const struct {
        const char *made, *used, *steps;
        int64_t elements; /* sent, of 4 x 8 x 16 */
    } CASES[] = {
        {"copy:4", "copy:4", "send", 512},
        {"seq:4", "seq:4", "send", 128},
        {"batch:4", "batch:2", "all_gather:2 send", 256},
        {"batch:2", "batch:4", "send slice:2", 128}, /* what is dropped is not sent */
        {"batch:2", "batch:2 copy:2", "send", 256},
        {"batch:2 seq:2", "batch:2 copy:2", "send all_gather:2", 128},
        {"copy:2", "copy:3", "send", 512},
    };
    struct model *model = small_model();
    struct reshards *reshards = reshards_new();
    struct arena *arena = arena_new();
    const struct op *add = find_op(model, "add"), *norm = find_op(model, "norm2");
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct split made = split_of(CASES[i].made), used = split_of(CASES[i].used);
        struct layout from = layout_of(add, &add->output, &made, BATCH, FLOW_FORWARD);
        struct layout to = layout_of(norm, &norm->input[0], &used, BATCH, FLOW_FORWARD);
        const struct reshard *r = reshard_between(reshards, &from, &to, false);
        assert_string_equal(reshard_text(arena, r), CASES[i].steps);
        assert_int_equal(r->step[r->send].elements, CASES[i].elements);
    }
    arena_free(arena);
    reshards_free(reshards);
    model_free(model);
}

/* 24 classes over 16 devices are padded to 32: equal layouts need nothing, others all of it. */
static void test_padded_vocabulary(void **state)
{
    (void)state;
    struct model *model = small_model();
    struct reshards *reshards = reshards_new();
    struct arena *arena = arena_new();
    const struct op *head = find_op(model, "head"), *loss = find_op(model, "loss");
    struct split made = split_of("out:16"), same = split_of("vocab:16"),
                 other = split_of("batch:4 copy:4");
    struct layout from = layout_of(head, &head->output, &made, BATCH, FLOW_FORWARD);
    struct layout to = layout_of(loss, &loss->input[0], &same, BATCH, FLOW_FORWARD);
    struct layout whole = layout_of(loss, &loss->input[0], &other, BATCH, FLOW_FORWARD);
    assert_int_equal(from.elements, BATCH * 8 * 32);
    assert_int_equal(layout_local(&from), BATCH * 8 * 2);
    assert_true(layout_equal(&from, &to));
    assert_int_equal(whole.elements, BATCH * 8 * 24);
    assert_string_equal(reshard_text(arena, reshard_within(reshards, &from, &whole)),
                        "all_gather:16 slice:4");
    arena_free(arena);
    reshards_free(reshards);
    model_free(model);
}

static void test_layout_text(void **state)
{
    (void)state;
    static const struct {
        const char *op, *split, *output, *input_gradient;
    } CASES[] = {
        {"proj", "whole", "whole", "whole"},
        {"proj", "batch:2 out:2 in:4", "S(batch):2 S(out):2 P:4", "S(batch):2 P:2 S(in):4"},
        {"proj", "seq:4 copy:2", "S(seq):4 B:2", "S(seq):4 B:2"},
        {"attention", "head:4 group:2", "S(head group):8", "S(head group):8"},
        {"attention", "group:2 head:2", "S(group):2 S(head):2", "S(group):2 S(head):2"},
        {"loss", "seq:2 vocab:4", "S(seq):2 P:4", "S(seq):2 S(vocab):4"},
        {"expert_up", "expert:4 out:2", "S(expert):4 S(out):2", "S(expert):4 P:2"},
    };
    struct model *model = small_model();
    struct arena *arena = arena_new();
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        const struct op *op = find_op(model, CASES[i].op);
        struct split split = split_of(CASES[i].split);
        struct layout out = layout_of(op, &op->output, &split, BATCH, FLOW_FORWARD);
        struct layout in = layout_of(op, &op->input[0], &split, BATCH, FLOW_GRADIENT);
        assert_string_equal(layout_text(arena, op, &op->output, BATCH, &out), CASES[i].output);
        assert_string_equal(layout_text(arena, op, &op->input[0], BATCH, &in),
                            CASES[i].input_gradient);
    }
    /* A bias where the inputs are split: all devices compute the same gradient. */
    const struct op *proj = find_op(model, "proj");
    struct split split = split_of("batch:2 in:4");
    struct layout bias = layout_of(proj, &proj->weight[1].operand, &split, BATCH, FLOW_GRADIENT);
    assert_string_equal(layout_text(arena, proj, &proj->weight[1].operand, BATCH, &bias),
                        "P:2 B:4");
    /* Scores that weigh the experts' outputs: a device knows the gradient of its experts'. */
    const struct op *sum = find_op(model, "combine");
    split = split_of("expert:4");
    struct layout scores = layout_of(sum, &sum->input[1], &split, BATCH, FLOW_GRADIENT);
    assert_string_equal(layout_text(arena, sum, &sum->input[1], BATCH, &scores), "P:4");
    arena_free(arena);
    model_free(model);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void test_speed(void **state)
{
    (void)state;
    enum { ROUNDS = 100000 };
    struct model *model = small_model();
    struct reshards *reshards = reshards_new();
    const struct op *proj = find_op(model, "proj"), *add = find_op(model, "add");
    struct split made = split_of("batch:2 in:4"), used = split_of("batch:2 seq:4");
    struct layout from = layout_of(proj, &proj->output, &made, BATCH, FLOW_FORWARD), to = from;
    int64_t steps = 0;
    double start = seconds();
    for (int i = 0; i < ROUNDS; i++)
        to = layout_of(add, &add->input[0], &used, BATCH, FLOW_FORWARD);
    double middle = seconds();
    for (int i = 0; i < ROUNDS; i++)
        steps += reshard_within(reshards, &from, &to)->steps;
    double end = seconds();
    printf("layout_of %.0f ns, a known reshard %.0f ns\n", (middle - start) / ROUNDS * 1e9,
           (end - middle) / ROUNDS * 1e9);
    assert_int_equal(steps, ROUNDS);
    struct rng rng;
    rng_seed(&rng, 4);
    start = seconds();
    for (int i = 0; i < 2000; i++) {
        from = random_layout(&rng, 4096, 64, true);
        to = random_layout(&rng, 4096, 64, false);
    }
    middle = seconds();
    for (int i = 0; i < 2000; i++) {
        from = random_layout(&rng, 4096, 64, true);
        to = random_layout(&rng, 4096, 64, false);
        reshard_within(reshards, &from, &to);
    }
    end = seconds();
    printf("a new reshard of random layouts on 64 devices %.0f us\n",
           (end - middle - (middle - start)) / 2000 * 1e6);
    reshards_free(reshards);
    model_free(model);
}

/* ---- paths of other sizes -------------------------------------------------------------------- */

/* Digits on a tensor of three axes, each layout's splits of an axis from the inside out. */
static struct mesh draw_mesh(struct rng *rng)
{
    static const int64_t ODD[] = {1, 3, 5, 7, 9, 16};
    int64_t axis[3], used[2][3] = {{1, 1, 1}, {1, 1, 1}}, devices = 1;
    struct mesh mesh = {.elements = 1, .digits = 1 + (int32_t)rng_below(rng, 5)};
    for (int k = 0; k < 3; k++) {
        axis[k] = mesh.elements;
        mesh.elements *= 64 * ODD[rng_below(rng, COUNT_OF(ODD))];
    }
    for (int32_t i = 0; i < mesh.digits; i++) {
        int64_t degree = rng_below(rng, 3) ? 2 : 4, hold[2];
        for (int side = 0; side < 2; side++) {
            int64_t k = rng_below(rng, side == 0 ? 5 : 4);
            hold[side] = k == 4 ? HOLD_PARTIAL : k == 3 ? HOLD_COPY : axis[k] * used[side][k];
            if (k < 3 && used[side][k] * degree > 64)
                hold[side] = HOLD_COPY;
            else if (k < 3)
                used[side][k] *= degree;
        }
        mesh.digit[i] = (struct step_digit){devices, degree, hold[0], hold[1]};
        devices *= degree;
    }
    return mesh;
}

static double volume_of_steps(const struct step_list *steps)
{
    double volume = 0;
    for (size_t i = 0; i < steps->len; i++)
        volume += step_volume(&steps->data[i]);
    return volume;
}

/* A path known from a tensor of another size is what a search of its own finds. */
static void test_paths_of_other_sizes(void **state)
{
    struct arena *keep = arena_new();
    struct paths *paths = paths_new(keep);
    struct rng rng;
    (void)state;
    rng_seed(&rng, 11);
    for (int i = 0; i < 3000; i++) {
        struct mesh mesh = draw_mesh(&rng);
        struct step_list own = {0}, known = {0};
        find_path(keep, &mesh, &own);
        paths_find(paths, keep, &mesh, &known);
        assert_int_equal(own.len, known.len);
        assert_true(fabs(volume_of_steps(&own) - volume_of_steps(&known)) <=
                    1e-9 * (double)mesh.elements);
        for (int32_t d = 0; known.len && d < mesh.digits; d++) { /* each digit arrives */
            int64_t hold = mesh.digit[d].before;
            for (size_t s = 0; s < known.len; s++)
                for (int32_t k = 0; k < known.data[s].digits; k++) {
                    const struct step_digit *at = &known.data[s].digit[k];
                    if (at->mesh_stride != mesh.digit[d].mesh_stride)
                        continue;
                    assert_int_equal(at->before, hold);
                    assert_int_equal(at->degree, mesh.digit[d].degree);
                    hold = at->after;
                }
            assert_int_equal(hold, mesh.digit[d].after);
        }
    }
    arena_free(keep);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_pairs_of_layouts),
        cmocka_unit_test(test_random_pairs),
        cmocka_unit_test(test_many_digits),
        cmocka_unit_test(test_random_pairs_between_stages),
        cmocka_unit_test(test_least_volume_among_all_paths),
        cmocka_unit_test(test_random_splits_of_operators),
        cmocka_unit_test(test_part_of_fused_tensor),
        cmocka_unit_test(test_known_cases),
        cmocka_unit_test(test_layers_of_megatron),
        cmocka_unit_test(test_volumes_of_single_collectives),
        cmocka_unit_test(test_product_in_three_dims),
        cmocka_unit_test(test_sends),
        cmocka_unit_test(test_padded_vocabulary),
        cmocka_unit_test(test_paths_of_other_sizes),
        cmocka_unit_test(test_layout_text),
        cmocka_unit_test(test_speed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
