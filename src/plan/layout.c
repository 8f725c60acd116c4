/* layout.c - how one operand lies over the devices of a stage.
 *
 * From a split's parts, in order, one digit each (model.h, I2):
 *
 *                       has the dim   lacks it
 *   forward   input     split         copy
 *             output    split         partial, if the operator sums over the dim; else copy
 *             weight    split         copy
 *   gradient  input     split         partial
 *             output    split         copy
 *             weight    split         partial, if the output has the dim; else copy
 *
 * A part that is not a dim of the operator is a copy throughout. Gradients are the transposes: a
 * tensor that all values of a digit read collects a gradient from each of them, and a sum over them
 * passes its gradient on to all. A weight that lacks a dim which the operator sums over is added
 * outside the sum: it is a bias, and where the inputs are split all devices compute the same
 * gradient of it.
 *
 *   stride of a part    = span of its dim / degrees of the dim's parts up to it                 (1)
 *   span of a dim       = its size * span of the dim inside it in the axis                      (2)
 *   span of the innermost dim of an axis = elements of all axes inside this one
 *                         * size of the axis / sizes of the axis' other dims                    (3)
 *
 *   I1  By (3) the axis need not be the product of its dims: a fused gate-up is twice its dim, and
 *       `seq` of the tokens sent to an expert is as many as go there.
 *   I2  Only an axis that is split is padded, to a multiple of its degrees.
 */
#include <string.h>

#include "plan/layout.h"

/* ---- canonical digits ------------------------------------------------------------------------ */

struct layout layout_none(int64_t elements)
{
    return (struct layout){.elements = elements};
}

/* Whether a digit directly outside (degree, hold) continues it. */
static bool continues(const struct layout_digit *outer, int64_t degree, int64_t hold)
{
    return hold > 0 ? outer->hold == hold * degree : outer->hold == hold;
}

bool layout_add(struct layout *layout, int64_t degree, int64_t hold)
{
    struct layout_digit *next = &layout->digit[layout->digits];
    if (degree == 1)
        return true;
    if (layout->digits && continues(next - 1, degree, hold)) {
        next[-1] = (struct layout_digit){next[-1].degree * degree, hold};
        return true;
    }
    if (layout->digits == MAX_LAYOUT_DIGITS)
        return false;
    *next = (struct layout_digit){degree, hold};
    layout->digits++;
    return true;
}

static size_t used_bytes(const struct layout *layout)
{
    return offsetof(struct layout, digit) + (size_t)layout->digits * sizeof(struct layout_digit);
}

bool layout_equal(const struct layout *a, const struct layout *b)
{
    return a->digits == b->digits && memcmp(a, b, used_bytes(a)) == 0;
}

uint64_t layout_hash(const struct layout *layout, uint64_t seed)
{
    return hash_bytes(layout, used_bytes(layout), seed);
}

int64_t layout_devices(const struct layout *layout)
{
    int64_t devices = 1;
    for (int64_t i = 0; i < layout->digits; i++)
        devices *= layout->digit[i].degree;
    return devices;
}

int64_t layout_local(const struct layout *layout)
{
    int64_t local = layout->elements;
    for (int64_t i = 0; i < layout->digits; i++)
        if (layout->digit[i].hold > 0)
            local /= layout->digit[i].degree;
    return local;
}

/* The elements that follow each other wherever a device holds some of them: a part of these is a part of all (layout.h, I1). */
static int64_t run_of(const struct layout *layout)
{
    int64_t run = layout->elements;
    for (int64_t i = 0; i < layout->digits; i++)
        if (layout->digit[i].hold > 0 && layout->digit[i].hold < run)
            run = layout->digit[i].hold;
    return run;
}

bool layout_in_parts(const struct layout *layout, struct layout *out)
{
    int64_t run = run_of(layout), parts = 1;
    *out = layout_none(layout->elements);
    for (int64_t i = 0; i < layout->digits; i++) {
        int64_t degree = layout->digit[i].degree, hold = layout->digit[i].hold;
        if (hold == HOLD_PARTIAL || (hold == HOLD_COPY && run % (parts * degree) != 0))
            return false;
        if (hold == HOLD_COPY) {
            parts *= degree;
            hold = run / parts;
        }
        if (!layout_add(out, degree, hold))
            return false;
    }
    return parts > 1;
}

/* ---- the layout of an operand ---------------------------------------------------------------- */

/* How an operand stores the operator's dims; span 0: the operand lacks the dim. */
struct storage {
    int64_t elements;
    int64_t span[OP_MAX_DIMS];
    /* span of what the dim is made of: the next inner dim or axis */
    int64_t inside[OP_MAX_DIMS];
};

/* Most dims are neither split nor share their axis, and a division is slow. */
static int64_t round_up(int64_t size, int64_t multiple)
{
    return multiple == 1 ? size : ceil_div(size, multiple) * multiple;
}

/* Goes one axis outwards; `elements` are those of the axes inside it. */
static void store_axis(const struct op *op, const struct operand *operand, int axis,
                       const int64_t *full, const int64_t *degree, struct storage *store)
{
    int64_t size = operand->size[axis], inside = 1, split = 1;
    int dims = 0;
    for (; dims < MAX_AXIS_DIMS && operand->dims[axis][dims] >= 0; dims++) {
        int dim = operand->dims[axis][dims];
        size *= full[dim] == op->size[dim] ? 1 : full[dim] / op->size[dim];
        inside *= dims ? full[operand->dims[axis][dims - 1]] : 1; /* all dims but the innermost */
        split *= degree[dim];
    }
    int64_t span = inside == 1 ? size : ceil_div(size, inside); /* (3) */
    for (int k = dims - 1; k >= 0; k--) {
        int dim = operand->dims[axis][k];
        store->inside[dim] = store->elements * (k == dims - 1 ? 1 : span);
        span = k == dims - 1 ? round_up(span, degree[dim])
                             : span * round_up(full[dim], degree[dim]); /* (2), I2 */
        store->span[dim] = store->elements * span;
    }
    store->elements *= split > 1 ? span : size;
}

static void store(const struct op *op, const struct operand *operand, const int64_t *degree,
                  int64_t batch, struct storage *out)
{
    int64_t full[OP_MAX_DIMS];
    op_full_size(op, batch, full);
    *out = (struct storage){.elements = 1};
    for (int axis = operand->axes - 1; axis >= 0; axis--)
        store_axis(op, operand, axis, full, degree, out);
}

/* The table at the top of this file. */
enum place operand_place(const struct op *op, const struct operand *operand, int split_dim,
                         enum flow flow)
{
    int dim = split_dim >= SPLIT_COPY ? -1 : op_find_dim(op->kind, (enum dim)split_dim);
    bool output = operand == &op->output, partial;
    if (dim < 0)
        return PLACE_COPY;
    if (operand_has_dim(operand, dim))
        return PLACE_SPLIT;
    if (flow == FLOW_FORWARD)
        partial = output && OP_KINDS[op->kind].dims[dim].role == ROLE_REDUCE;
    else
        partial = !output && (operand->tensor >= 0 || operand_has_dim(&op->output, dim));
    return partial ? PLACE_PARTIAL : PLACE_COPY;
}

struct layout layout_of(const struct op *op, const struct operand *operand,
                        const struct split *split, int64_t batch, enum flow flow)
{
    int dim[MAX_SPLIT_PARTS];
    int64_t degree[OP_MAX_DIMS] = {1, 1, 1, 1, 1, 1, 1};
    _Static_assert(OP_MAX_DIMS == 7, "a degree of 1 for every dim");
    for (int32_t i = 0; i < split->parts; i++) {
        int part = split->part[i].dim;
        dim[i] = part >= SPLIT_COPY ? -1 : op_find_dim(op->kind, (enum dim)part);
        if (dim[i] >= 0)
            degree[dim[i]] *= split->part[i].degree;
    }
    struct storage stored;
    store(op, operand, degree, batch, &stored);
    struct layout layout = layout_none(stored.elements);
    for (int32_t i = 0; i < split->parts; i++) {
        enum place place = operand_place(op, operand, split->part[i].dim, flow);
        int64_t hold = place == PLACE_PARTIAL ? HOLD_PARTIAL : HOLD_COPY;
        if (split->part[i].dim == SPLIT_ON)
            hold = HOLD_ON - split->part[i].run;
        if (place == PLACE_SPLIT)
            hold = stored.span[dim[i]] /= split->part[i].degree; /* (1) */
        layout_add(&layout, split->part[i].degree, hold);
    }
    return layout;
}

/* ---- the layout of a part of a fused tensor -------------------------------------------------- */

/* Appends a split of the fused axis, as far as it keeps shares whole. */
static void add_shares(struct layout *layout, const struct layout_digit *digit, int64_t share)
{
    int64_t devices = digit->hold < share ? share / digit->hold : 1; /* that share one share */
    if (digit->hold * devices % share || digit->degree % devices) {
        layout_add(layout, digit->degree, HOLD_COPY);
    } else {
        layout_add(layout, digit->degree / devices, digit->hold * devices);
        layout_add(layout, devices, HOLD_COPY);
    }
}

/* The same layout, in which splits of the last axis take whole shares only. */
static struct layout by_shares(const struct layout *layout, int64_t width, int64_t share)
{
    struct layout out = layout_none(layout->elements);
    for (int64_t i = 0; i < layout->digits; i++)
        if (layout->digit[i].hold > 0 && layout->digit[i].hold < width)
            add_shares(&out, &layout->digit[i], share);
        else
            layout_add(&out, layout->digit[i].degree, layout->digit[i].hold);
    return out;
}

/* value * part / width, which is whole; the product may be too large for 64 bits. */
static int64_t scaled(int64_t value, int64_t part, int64_t width)
{
    int64_t common = common_divisor(value, width);
    return value / common * (part / (width / common));
}

struct layout layout_part(const struct model *model, const struct op *op,
                          const struct operand *operand, struct layout *whole)
{
    int last = operand->axes - 1;
    const struct tensor *tensor = &model->tensor[operand->tensor];
    int64_t width = tensor->size[last], part = operand->size[last];
    if (tensor->axes != operand->axes || width == part)
        return *whole;
    *whole = by_shares(whole, width, width / op->size[operand->dims[last][0]]);
    struct layout out = layout_none(whole->elements / width * part);
    for (int64_t i = 0; i < whole->digits; i++) {
        int64_t hold = whole->digit[i].hold;
        layout_add(&out, whole->digit[i].degree, hold > 0 ? scaled(hold, part, width) : hold);
    }
    return out;
}

/* ---- padded layouts -------------------------------------------------------------------------- */

static bool has_vocab(const struct op *op, const struct operand *operand)
{
    int place = op_find_dim(op->kind, DIM_VOCAB);
    return place >= 0 && operand_has_dim(operand, place);
}

void layout_pad(const struct op *from, const struct op *to, const struct operand *operand,
                int64_t elements, struct layout *layout)
{
    struct layout padded = *layout;
    padded.elements = elements;
    if (elements == layout->elements || has_vocab(from, &from->output) || has_vocab(to, operand))
        return;
    for (int64_t i = 0; i < padded.digits; i++) {
        int64_t *hold = &padded.digit[i].hold, scaled;
        if (*hold <= 0)
            continue;
        if (!checked_mul(*hold, elements, &scaled) || scaled % layout->elements)
            return;
        *hold = scaled / layout->elements;
    }
    *layout = padded;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* The dims that a digit splits, outermost first; there are several if their splits form one
 * digit. */
static const char *dims_text(struct arena *keep, const struct op *op, const struct operand *operand,
                             int64_t batch, const struct layout_digit *digit)
{
    static const int64_t UNSPLIT[OP_MAX_DIMS] = {1, 1, 1, 1, 1, 1, 1};
    struct storage stored;
    int64_t full[OP_MAX_DIMS];
    op_full_size(op, batch, full);
    store(op, operand, UNSPLIT, batch, &stored);
    const char *text = "";
    for (int axis = 0; axis < operand->axes; axis++)
        for (int k = 0; k < MAX_AXIS_DIMS && operand->dims[axis][k] >= 0; k++) {
            int dim = operand->dims[axis][k];
            if (full[dim] > 1 && stored.span[dim] > digit->hold &&
                stored.inside[dim] < digit->hold * digit->degree)
                text = arena_printf(keep, "%s%s%s", text, *text ? " " : "",
                                    dim_name(OP_KINDS[op->kind].dims[dim].dim));
        }
    return text;
}

const char *layout_text(struct arena *keep, const struct op *op, const struct operand *operand,
                        int64_t batch, const struct layout *layout)
{
    const char *text = layout->digits ? "" : "whole";
    for (int64_t i = 0; i < layout->digits; i++) {
        const struct layout_digit *digit = &layout->digit[i];
        const char *gap = i ? " " : "";
        if (digit->hold > 0)
            text =
                arena_printf(keep, "%s%sS(%s):%lld", text, gap,
                             dims_text(keep, op, operand, batch, digit), (long long)digit->degree);
        else if (digit->hold <= HOLD_ON)
            text =
                arena_printf(keep, "%s%son %s of %lld", text, gap,
                             run_text(keep, layout_run(layout)), (long long)layout_devices(layout));
        else
            text = arena_printf(keep, "%s%s%s:%lld", text, gap,
                                digit->hold == HOLD_COPY ? "B" : "P", (long long)digit->degree);
    }
    return text;
}
