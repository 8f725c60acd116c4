/* spread.c - the elements of a tensor on one device, before and after a step (spread.h). */
#include "run/rank/rank.h"
#include "run/rank/spread.h"

#include <string.h>

/* ---- digits ---------------------------------------------------------------------------------- */

enum { MAX_FINE = MAX_LAYOUT_DIGITS + 2 * MAX_STEP_DIGITS };
struct fine_digit {
    int64_t mesh, degree, hold;
    bool moves;
};
struct fine {
    int32_t digits;
    struct fine_digit digit[MAX_FINE]; /* innermost first */
};

static struct fine fine_of(const struct layout *layout)
{
    struct fine fine = {0};
    int64_t mesh = 1;
    for (int64_t i = layout->digits - 1; i >= 0; i--) {
        fine.digit[fine.digits++] =
            (struct fine_digit){mesh, layout->digit[i].degree, layout->digit[i].hold, false};
        mesh *= layout->digit[i].degree;
    }
    return fine;
}

/* A digit that a place between two devices goes through becomes two. */
static bool cut_at(struct fine *fine, int64_t mesh)
{
    for (int32_t i = 0; i < fine->digits; i++) {
        struct fine_digit *at = &fine->digit[i];
        if (mesh <= at->mesh || mesh >= at->mesh * at->degree)
            continue;
        int64_t inner = mesh / at->mesh;
        if (mesh % at->mesh || at->degree % inner || fine->digits == MAX_FINE)
            return false;
        memmove(at + 1, at, sizeof *at * (size_t)(fine->digits++ - i));
        at[0].degree = inner;
        at[1].mesh = mesh;
        at[1].degree /= inner;
        at[1].hold = at[1].hold > 0 ? at[1].hold * inner : at[1].hold;
        return true;
    }
    return true;
}

static bool change(struct fine *fine, const struct step_digit *digit)
{
    if (!cut_at(fine, digit->mesh_stride) || !cut_at(fine, digit->mesh_stride * digit->degree))
        return false;
    for (int32_t i = 0; i < fine->digits; i++) {
        struct fine_digit *at = &fine->digit[i];
        if (at->mesh != digit->mesh_stride)
            continue;
        bool fits = at->degree == digit->degree && at->hold == digit->before;
        at->hold = digit->after;
        at->moves = true;
        return fits;
    }
    return false;
}

static bool layout_from(const struct fine *fine, int64_t elements, struct layout *out)
{
    *out = layout_none(elements);
    for (int32_t i = fine->digits - 1; i >= 0; i--)
        if (!layout_add(out, fine->digit[i].degree, fine->digit[i].hold))
            return false;
    return true;
}

int64_t layout_hold(const struct layout *layout, int64_t mesh, int64_t degree)
{
    struct fine fine = fine_of(layout);
    int64_t hold = HOLD_COPY;
    if (!cut_at(&fine, mesh) || !cut_at(&fine, mesh * degree))
        return HOLD_COPY;
    for (int32_t i = 0; i < fine.digits; i++)
        if (fine.digit[i].mesh == mesh)
            hold = fine.digit[i].hold;
    return hold;
}

bool layout_is_copies(const struct layout *layout)
{
    bool copies = true;
    for (int64_t i = 0; i < layout->digits; i++)
        copies &= layout->digit[i].hold == HOLD_COPY;
    return copies;
}

struct layout layout_received(const struct layout *sent, int64_t from, int64_t to)
{
    struct layout out = *sent;
    struct fine fine = fine_of(sent);
    if (from == to)
        return out;
    if (to % from == 0) {
        layout_add(&out, to / from, HOLD_COPY);
        return out;
    }
    out = layout_none(sent->elements);
    bool apart = from % to != 0; /* all hold all */
    int64_t inside = apart ? from : from / to;
    cut_at(&fine, inside);
    for (int32_t i = fine.digits - 1; i >= 0; i--)
        if (fine.digit[i].mesh >= inside)
            layout_add(&out, fine.digit[i].degree, fine.digit[i].hold);
    if (apart)
        layout_add(&out, to, HOLD_COPY);
    return out;
}

int32_t layout_strides(const struct layout *layout, int64_t device, struct layout_stride *out)
{
    struct fine fine = fine_of(layout);
    int64_t done = 0; /* the largest stride so far */
    int32_t count = 0;
    for (int32_t n = 0; n < fine.digits; n++) {
        int32_t next = -1;
        for (int32_t k = 0; k < fine.digits; k++) /* the smallest stride above: (2) */
            if (fine.digit[k].hold > done &&
                (next < 0 || fine.digit[k].hold < fine.digit[next].hold))
                next = k;
        if (next < 0)
            break;
        const struct fine_digit *at = &fine.digit[next];
        out[count++] = (struct layout_stride){at->hold, at->degree, device / at->mesh % at->degree};
        done = at->hold;
    }
    return count;
}

int64_t layout_element(const struct layout *layout, int64_t device, int64_t i)
{
    struct layout_stride stride[MAX_LAYOUT_DIGITS];
    int32_t count = layout_strides(layout, device, stride);
    for (int32_t n = 0; n < count; n++)
        i = i / stride[n].hold * (stride[n].hold * stride[n].degree) +
            stride[n].value * stride[n].hold + i % stride[n].hold;
    return i;
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* (1) */
static int64_t stride_within(const struct fine *fine, int64_t hold)
{
    if (hold <= 0)
        return 0;
    int64_t stride = hold;
    for (int32_t i = 0; i < fine->digits; i++)
        if (!fine->digit[i].moves && fine->digit[i].hold > 0 && fine->digit[i].hold < hold)
            stride /= fine->digit[i].degree;
    return stride;
}

bool move_of(const struct layout *layout, const struct reshard_step *step, struct move *out)
{
    struct fine fine = fine_of(layout);
    for (int32_t i = 0; i < step->digits; i++)
        if (!change(&fine, &step->digit[i]))
            return false;
    *out = (struct move){.before = *layout,
                         .space = layout->elements,
                         .digits = step->digits,
                         .members = (int32_t)step_members(step)};
    if (!layout_from(&fine, layout->elements, &out->after))
        return false;
    for (int32_t i = 0; i < fine.digits; i++)
        if (!fine.digit[i].moves && fine.digit[i].hold > 0)
            out->space /= fine.digit[i].degree;
    out->before_count = layout_local(&out->before);
    out->count = layout_local(&out->after);
    out->run = out->space;
    for (int32_t i = 0; i < step->digits; i++) {
        const struct step_digit *digit = &step->digit[i];
        out->digit[i].mesh = digit->mesh_stride;
        out->digit[i].degree = digit->degree;
        out->digit[i].before = stride_within(&fine, digit->before);
        out->digit[i].after = stride_within(&fine, digit->after);
        out->run = common_divisor(out->run, out->digit[i].before);
        out->run = common_divisor(out->run, out->digit[i].after);
    }
    return true;
}

int32_t move_member(const struct move *move, int64_t device)
{
    int64_t member = 0;
    for (int32_t i = 0; i < move->digits; i++)
        member =
            member * move->digit[i].degree + device / move->digit[i].mesh % move->digit[i].degree;
    return (int32_t)member;
}

/* ---- splits of the group's elements (2) ------------------------------------------------------ */

/* The splits that a step begins or ends with, the largest stride first. */
struct step_splits {
    int32_t count;
    int32_t digit[MAX_STEP_DIGITS];
    int64_t stride[MAX_STEP_DIGITS], degree[MAX_STEP_DIGITS];
};

static struct step_splits splits_of(const struct move *move, bool before)
{
    struct step_splits out = {0};
    for (int32_t i = 0; i < move->digits; i++) {
        int64_t stride = before ? move->digit[i].before : move->digit[i].after;
        int32_t at = out.count;
        if (!stride)
            continue;
        for (; at > 0 && out.stride[at - 1] < stride; at--) {
            out.digit[at] = out.digit[at - 1];
            out.stride[at] = out.stride[at - 1];
            out.degree[at] = out.degree[at - 1];
        }
        out.digit[at] = i;
        out.stride[at] = stride;
        out.degree[at] = move->digit[i].degree;
        out.count++;
    }
    return out;
}

/* Where element x of the group's is on the device that has it. */
static int64_t within(const struct step_splits *splits, int64_t x)
{
    for (int32_t i = 0; i < splits->count; i++) {
        int64_t s = splits->stride[i], d = splits->degree[i];
        x = x / (s * d) * s + x % s;
    }
    return x;
}

/* Element i of the device with these values, in the group's. */
static int64_t without(const struct step_splits *splits, const int64_t *value, int64_t i)
{
    for (int32_t k = splits->count - 1; k >= 0; k--) {
        int64_t s = splits->stride[k], d = splits->degree[k];
        i = i / s * (s * d) + value[splits->digit[k]] * s + i % s;
    }
    return i;
}

static void values_of(const struct move *move, int64_t member, int64_t *value)
{
    for (int32_t i = move->digits - 1; i >= 0; i--) {
        value[i] = member % move->digit[i].degree;
        member /= move->digit[i].degree;
    }
}

/* The member whose element x of the group's is, where `value` says what splits do not. */
static int32_t holder(const struct move *move, const struct step_splits *splits,
                      const int64_t *value, int64_t x)
{
    int64_t own[MAX_STEP_DIGITS], member = 0;
    memcpy(own, value, sizeof own);
    for (int32_t i = 0; i < splits->count; i++)
        own[splits->digit[i]] = x / splits->stride[i] % splits->degree[i];
    for (int32_t i = 0; i < move->digits; i++)
        member = member * move->digit[i].degree + own[i];
    return (int32_t)member;
}

static const int64_t NO_VALUES[MAX_STEP_DIGITS] = {0};

void move_slice(const struct move *move, int64_t device, struct runs *runs)
{
    struct step_splits splits = splits_of(move, false);
    int64_t value[MAX_STEP_DIGITS];
    values_of(move, move_member(move, device), value);
    for (int64_t i = 0; i < move->count; i += move->run)
        runs_add(runs, without(&splits, value, i), i);
    runs_end(runs);
}

void move_scatter(const struct move *move, struct runs *runs)
{
    struct step_splits splits = splits_of(move, false);
    for (int64_t x = 0; x < move->space; x += move->run)
        runs_add(runs, x, holder(move, &splits, NO_VALUES, x) * move->count + within(&splits, x));
    runs_end(runs);
}

void move_gather(const struct move *move, struct runs *runs)
{
    struct step_splits splits = splits_of(move, true);
    for (int64_t x = 0; x < move->space; x += move->run)
        runs_add(runs,
                 holder(move, &splits, NO_VALUES, x) * move->before_count + within(&splits, x), x);
    runs_end(runs);
}

/* ---- all-to-all: from the member that has it and shares the receiver's other digits ---------- */

struct move_walk {
    const struct move *move;
    struct step_splits before, after;
    int64_t value[MAX_STEP_DIGITS]; /* of the receiver */
};

static struct move_walk walk_to(const struct move *move, int32_t receiver)
{
    struct move_walk walk = {move, splits_of(move, true), splits_of(move, false), {0}};
    values_of(move, receiver, walk.value);
    return walk;
}

/* Element i of the receiver's, in the group's, and who sends it. */
static int32_t sender(const struct move_walk *walk, int64_t i, int64_t *x)
{
    *x = without(&walk->after, walk->value, i);
    return holder(walk->move, &walk->before, walk->value, *x);
}

void move_counts(const struct move *move, int32_t member, int64_t *sends, int64_t *takes)
{
    int64_t x;
    memset(takes, 0, (size_t)move->members * sizeof *takes);
    for (int32_t to = 0; to < move->members; to++) {
        struct move_walk walk = walk_to(move, to);
        sends[to] = 0;
        for (int64_t i = 0; i < move->count; i += move->run) {
            int32_t from = sender(&walk, i, &x);
            sends[to] += from == member ? move->run : 0;
            takes[from] += to == member ? move->run : 0;
        }
    }
}

void move_pack(const struct move *move, int32_t member, struct runs *runs)
{
    int64_t x, at = 0;
    for (int32_t to = 0; to < move->members; to++) {
        struct move_walk walk = walk_to(move, to);
        for (int64_t i = 0; i < move->count; i += move->run) {
            if (sender(&walk, i, &x) != member)
                continue;
            runs_add(runs, within(&walk.before, x), at);
            at += move->run;
        }
    }
    runs_end(runs);
}

void move_unpack(const struct move *move, int32_t member, struct runs *runs)
{
    struct move_walk walk = walk_to(move, member);
    int64_t x, at = 0;
    for (int32_t from = 0; from < move->members; from++)
        for (int64_t i = 0; i < move->count; i += move->run) {
            if (sender(&walk, i, &x) != from)
                continue;
            runs_add(runs, at, i);
            at += move->run;
        }
    runs_end(runs);
}

/* ---- parts of fused tensors ------------------------------------------------------------------ */

/* What stands in a share: queries, keys, values of a head, in this order, as far as they are there.
 * Keys stand after the queries of the same tensor; values are last. */
struct fused fused_of(const struct model *model, const struct op *op, int32_t operand)
{
    const struct operand *part = &op->input[operand];
    int last = part->axes - 1;
    int64_t shares = op->size[part->dims[last][0]];
    struct fused share = {model->tensor[part->tensor].size[last] / shares,
                          part->size[last] / shares, 0};
    bool values = (op->kind == OP_ATTENTION && operand == 2) || op->kind == OP_CONTEXT;
    bool same = operand > 0 &&
                tensor_storage(model, op->input[0].tensor) == tensor_storage(model, part->tensor);
    if (part->part_first)
        share.first = part->part_first;
    else if (values)
        share.first = share.whole - share.part;
    else if (same)
        share.first = op->input[0].size[last] / shares;
    return share;
}
