/* proof_layouts.c - layouts as a proof sees them: numbered, seen under other shapes, changed by
 * steps.
 *
 * A step names digits of the mesh by the distance between devices of neighbouring values
 * (mesh_stride) and their degree. It applies to a layout in which each of them is a digit, or a
 * piece of one,
 *
 *   (a b c, stride) = (a, stride b c) (b, stride c) (c, stride)                                 (1)
 *
 * that holds what the step expects. What it can become depends on the collective:
 *
 *   I1  Every member of a group gets what it holds afterwards from what the group held together,
 *       and no addend twice: a row of RULES.
 *   I2  Splits stay independent (layout.h, I1), and an exchange leaves every device as much as it
 *       took.
 *   I3  The step's elements are the larger of what a device holds before and after.
 */
#include "compile/proof.h"

#include <string.h>

/* ---- numbers --------------------------------------------------------------------------------- */

static bool same_layout(const void *layouts, int64_t number, const void *wanted)
{
    return layout_equal((const struct layout *)layouts + number, wanted);
}

int32_t number_layout(struct proof *p, const struct layout *layout)
{
    if (p->layouts.len == 0)
        array_push(p->arena, &p->layouts, layout_none(0)); /* 0: none */
    int64_t *number = hash_at_same(&p->layout_numbers, p->arena, layout_hash(layout, 0),
                                   same_layout, p->layouts.data, layout);
    if (*number < 0) {
        *number = (int64_t)p->layouts.len;
        array_push(p->arena, &p->layouts, *layout);
    }
    return (int32_t)*number;
}

/* ---- the same data seen in other ways -------------------------------------------------------- */

static const struct op *reader_op(const struct proof *p, const struct reading *reading)
{
    return p->fact[reading->reader].op;
}

/* The widths of the last axis of the fused tensor and of the part. */
static void widths(const struct proof *p, const struct reading *reading, int64_t *whole,
                   int64_t *part)
{
    const struct operand *operand = &reader_op(p, reading)->input[reading->operand];
    *whole = p->model->tensor[operand->tensor].size[operand->axes - 1];
    *part = operand->size[operand->axes - 1];
}

/* The layout of a part of a tensor with this layout, if no share is cut. */
static bool part_of(const struct proof *p, const struct reading *reading,
                    const struct layout *layout, struct layout *out)
{
    const struct op *op = reader_op(p, reading);
    struct layout whole = *layout;
    *out = layout_part(p->model, op, &op->input[reading->operand], &whole);
    return layout_equal(&whole, layout);
}

/* The layout of the whole tensor, a part of which has this layout. */
static bool whole_of(const struct proof *p, const struct reading *reading,
                     const struct layout *layout, struct layout *out)
{
    int64_t whole, part;
    struct layout again;
    widths(p, reading, &whole, &part);
    *out = layout_none(layout->elements / part * whole);
    for (int64_t i = 0; i < layout->digits; i++) {
        int64_t hold = layout->digit[i].hold;
        if (hold > 0 && hold * whole % part)
            return false;
        layout_add(out, layout->digit[i].degree, hold > 0 ? hold * whole / part : hold);
    }
    return part_of(p, reading, out, &again) && layout_equal(&again, layout);
}

static bool all_copies(const struct layout *layout)
{
    for (int64_t i = 0; i < layout->digits; i++)
        if (layout->digit[i].hold != HOLD_COPY)
            return false;
    return true;
}

/* Layouts of the same data seen in other ways: the tensor as it is, a part of it or the whole that
 * it is part of, and unsplit tensors with the padding of the other side. */
enum { MAX_FORMS = 6 };
static int32_t forms_of(const struct proof *p, const struct reading *reading, int32_t layout,
                        struct layout *out)
{
    const int32_t sides[] = {reading->want, p->fact[reading->source].output,
                             p->fact[reading->source].output_grad, reading->gradient};
    int32_t forms = 0;
    out[forms++] = p->layouts.data[layout];
    if (all_copies(&out[0]) && !reading->part) {
        for (size_t i = 0; i < COUNT_OF(sides); i++) {
            out[forms] = out[0];
            out[forms++].elements = p->layouts.data[sides[i]].elements;
        }
        return forms;
    }
    if (!reading->part) {
        const struct op *reader = reader_op(p, reading), *source = p->fact[reading->source].op;
        for (size_t i = 0; i < COUNT_OF(sides); i++) {
            out[forms] = out[0];
            layout_pad(source, reader, &reader->input[reading->operand],
                       p->layouts.data[sides[i]].elements, &out[forms]);
            forms += !layout_equal(&out[forms], &out[0]);
        }
        return forms;
    }
    int64_t whole = p->layouts.data[sides[1]].elements;
    bool is_whole = out[0].elements == whole;
    forms +=
        is_whole ? part_of(p, reading, &out[0], &out[1]) : whole_of(p, reading, &out[0], &out[1]);
    return forms;
}

bool same_data(const struct proof *p, const struct reading *reading, int32_t have, int32_t want)
{
    struct layout form[MAX_FORMS];
    if (have == want)
        return true;
    int32_t forms = forms_of(p, reading, have, form);
    for (int32_t i = 1; i < forms; i++)
        if (layout_equal(&form[i], &p->layouts.data[want]))
            return true;
    return false;
}

/* ---- steps ----------------------------------------------------------------------------------- */

enum { COPY = 1, PARTIAL = 2, SPLIT = 4, ON = 8 }; /* sets of what a digit can hold */

/* I1 */
static const struct {
    unsigned before, after;
    bool equal; /* whether a device holds as much after the step as before */
} RULES[] = {
    [COLLECTIVE_ALL_REDUCE] = {PARTIAL, COPY, true},
    [COLLECTIVE_ALL_GATHER] = {SPLIT, COPY, false},
    [COLLECTIVE_REDUCE_SCATTER] = {PARTIAL, SPLIT, false},
    [COLLECTIVE_ALL_TO_ALL] = {SPLIT | COPY, SPLIT | COPY, true},
    [COLLECTIVE_BROADCAST] = {ON, COPY, true},
    [STEP_SLICE] = {COPY, SPLIT, false},
    [STEP_LEAVE] = {COPY, ON, true},
};
_Static_assert(COUNT_OF(RULES) == STEP_KIND_COUNT, "a step without a rule");

static unsigned set_of(int64_t hold)
{
    return hold > 0 ? SPLIT : hold == HOLD_COPY ? COPY : hold == HOLD_PARTIAL ? PARTIAL : ON;
}

enum { MAX_FINE = MAX_LAYOUT_DIGITS + 2 * MAX_STEP_DIGITS };
struct fine {
    int32_t digits;
    struct {
        int64_t stride, degree, hold;
    } digit[MAX_FINE]; /* innermost first */
};

static struct fine fine_of(const struct layout *layout)
{
    struct fine fine = {0};
    int64_t stride = 1;
    for (int64_t i = layout->digits - 1; i >= 0; i--) {
        fine.digit[fine.digits].stride = stride;
        fine.digit[fine.digits].degree = layout->digit[i].degree;
        fine.digit[fine.digits++].hold = layout->digit[i].hold;
        stride *= layout->digit[i].degree;
    }
    return fine;
}

/* Applies equation (1) at a place between two devices; false: it would cut through a value. */
static bool cut_at(struct fine *fine, int64_t stride)
{
    for (int32_t i = 0; i < fine->digits; i++) {
        int64_t from = fine->digit[i].stride, degree = fine->digit[i].degree;
        if (stride <= from || stride >= from * degree)
            continue;
        int64_t inner = stride / from;
        if (stride % from || degree % inner)
            return false;
        memmove(&fine->digit[i + 1], &fine->digit[i],
                sizeof fine->digit[0] * (size_t)(fine->digits++ - i));
        fine->digit[i].degree = inner;
        fine->digit[i + 1].stride = stride;
        fine->digit[i + 1].degree = degree / inner;
        if (fine->digit[i].hold > 0)
            fine->digit[i + 1].hold *= inner;
        return true;
    }
    return true;
}

static bool change_digit(struct fine *fine, const struct step_digit *digit)
{
    if (!cut_at(fine, digit->mesh_stride) || !cut_at(fine, digit->mesh_stride * digit->degree))
        return false;
    for (int32_t i = 0; i < fine->digits; i++)
        if (fine->digit[i].stride == digit->mesh_stride) {
            bool fits =
                fine->digit[i].degree == digit->degree && fine->digit[i].hold == digit->before;
            fine->digit[i].hold = digit->after;
            return fits;
        }
    return false;
}

static bool independent(const struct layout *layout)
{
    for (int64_t i = 0; i < layout->digits; i++)
        for (int64_t k = 0; k < layout->digits; k++) {
            const struct layout_digit *a = &layout->digit[i], *b = &layout->digit[k];
            if (i == k || a->hold <= 0 || b->hold <= 0 || a->hold < b->hold)
                continue;
            if (a->hold % (b->hold * b->degree))
                return false;
        }
    return true;
}

static bool keeps_rule(const struct reshard_step *step)
{
    for (int32_t i = 0; i < step->digits; i++)
        if (!(set_of(step->digit[i].before) & RULES[step->kind].before) ||
            !(set_of(step->digit[i].after) & RULES[step->kind].after))
            return false;
    return true;
}

static bool apply(const struct layout *from, const struct reshard_step *step, struct layout *to)
{
    struct fine fine = fine_of(from);
    for (int32_t i = 0; i < step->digits; i++)
        if (!change_digit(&fine, &step->digit[i]))
            return false;
    *to = layout_none(from->elements);
    for (int32_t i = fine.digits - 1; i >= 0; i--)
        if (!layout_add(to, fine.digit[i].degree, fine.digit[i].hold))
            return false;
    int64_t before = layout_local(from), after = layout_local(to);
    return independent(to) && (before == after || !RULES[step->kind].equal) && /* I2 */
           step->elements == (before > after ? before : after);                /* I3 */
}

int32_t step_result(struct proof *p, const struct reading *reading, int32_t layout,
                    const struct reshard_step *step)
{
    struct layout form[MAX_FORMS], to;
    if (!keeps_rule(step))
        return 0;
    int32_t forms = forms_of(p, reading, layout, form);
    for (int32_t i = 0; i < forms; i++)
        if (apply(&form[i], step, &to))
            return number_layout(p, &to);
    return 0;
}

/* ---- crossings ------------------------------------------------------------------------------- */

/* Receiver r gets the data of sender r * from / to: with more receivers than senders, several get
 * that of one; with fewer, that of the first of several, which must hold the same. */
static bool received(const struct layout *sent, int64_t from, int64_t to, struct layout *out)
{
    *out = *sent;
    if (from == to)
        return true;
    if (to % from == 0)
        return layout_add(out, to / from, HOLD_COPY);
    struct fine fine = fine_of(sent);
    bool whole = from % to != 0; /* then every sender must hold everything */
    int64_t same = whole ? from : from / to;
    if (!cut_at(&fine, same))
        return false;
    *out = layout_none(sent->elements);
    for (int32_t i = fine.digits - 1; i >= 0; i--) {
        bool inside = fine.digit[i].stride < same;
        if (inside && fine.digit[i].hold != HOLD_COPY)
            return false;
        if (!inside && !layout_add(out, fine.digit[i].degree, fine.digit[i].hold))
            return false;
    }
    return !whole || layout_add(out, to, HOLD_COPY);
}

int32_t crossing_result(struct proof *p, const struct reading *reading, int32_t layout,
                        int64_t local, int64_t from, int64_t to)
{
    struct layout form[MAX_FORMS], out;
    int32_t forms = forms_of(p, reading, layout, form);
    for (int32_t i = 0; i < forms; i++)
        if (layout_local(&form[i]) == local && received(&form[i], from, to, &out))
            return number_layout(p, &out);
    return 0;
}
