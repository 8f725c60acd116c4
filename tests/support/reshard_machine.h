/* reshard_machine.h - reshards executed on symbolic tensors, and layouts drawn at random.
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
#ifndef RESHARD_MACHINE_H
#define RESHARD_MACHINE_H

#include <stdio.h>
#include <string.h>

#include "compile/compile.h"

enum { MAX_DEVICES = 128, MAX_ELEMENTS = 1536 };
struct memory {
    int64_t devices, elements;
    uint32_t held[MAX_DEVICES][MAX_ELEMENTS];
};

/* Values of a device's digits, outermost first. */
static inline void digits_of(const struct layout *layout, int64_t device, int64_t *value)
{
    for (int64_t i = layout->digits - 1; i >= 0; i--) {
        value[i] = device % layout->digit[i].degree;
        device /= layout->digit[i].degree;
    }
}

static inline uint32_t addend_of(const struct layout *layout, const int64_t *value)
{
    int64_t addend = 0;
    for (int64_t i = 0; i < layout->digits; i++)
        if (layout->digit[i].hold == HOLD_PARTIAL)
            addend = addend * layout->digit[i].degree + value[i];
    return 1U << addend;
}

static inline bool holds(const struct layout *layout, const int64_t *value, int64_t element)
{
    for (int64_t i = 0; i < layout->digits; i++)
        if (layout->digit[i].hold > 0 &&
            element / layout->digit[i].hold % layout->digit[i].degree != value[i])
            return false;
    return true;
}

static inline void fill(struct memory *m, const struct layout *layout)
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
static inline void fill_target(struct memory *m, const struct layout *from, const struct layout *to)
{
    int64_t addends = 1;
    for (int64_t i = 0; i < from->digits; i++)
        addends *= from->digit[i].hold == HOLD_PARTIAL ? from->digit[i].degree : 1;
    fill(m, to);
    for (int64_t d = 0; d < m->devices; d++)
        for (int64_t e = 0; e < m->elements; e++)
            m->held[d][e] = m->held[d][e] ? (uint32_t)((UINT64_C(1) << addends) - 1) : 0;
}

static inline int64_t count_held(const struct memory *m, int64_t device)
{
    int64_t count = 0;
    for (int64_t e = 0; e < m->elements; e++)
        count += m->held[device][e] != 0;
    return count;
}

static inline uint32_t combine(const struct memory *m, const struct reshard_step *step,
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

static inline bool keeps(const struct reshard_step *step, int64_t device, int64_t e)
{
    for (int32_t i = 0; i < step->digits; i++) {
        const struct step_digit *digit = &step->digit[i];
        if (digit->after > 0 &&
            e / digit->after % digit->degree != device / digit->mesh_stride % digit->degree)
            return false;
    }
    return true;
}

static inline void execute(struct memory *m, const struct reshard_step *step)
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

static inline void cross(struct memory *m, const struct reshard *r)
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
static inline void verify(const struct reshard *r, const struct layout *from,
                          const struct layout *to)
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

static inline void print_seen(const char *what)
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

static inline bool has_partial(const struct layout *layout)
{
    for (int64_t i = 0; i < layout->digits; i++)
        if (layout->digit[i].hold == HOLD_PARTIAL)
            return true;
    return false;
}

static inline bool independent(const struct layout *layout, int64_t degree, int64_t stride)
{
    bool free = layout->elements % (stride * degree) == 0;
    for (int64_t i = 0; free && i < layout->digits; i++) {
        const struct layout_digit *other = &layout->digit[i];
        free = other->hold <= 0 || stride % (other->hold * other->degree) == 0 ||
               other->hold % (stride * degree) == 0;
    }
    return free;
}

static inline int64_t random_divisor(struct rng *rng, int64_t n)
{
    int64_t divisor;
    do
        divisor = 2 + rng_below(rng, n - 1);
    while (n % divisor);
    return divisor;
}

/* A split by any stride that is free, else a copy or a partial sum. */
static inline struct layout random_layout(struct rng *rng, int64_t elements, int64_t devices,
                                          bool partial)
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

#endif
