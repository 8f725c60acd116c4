/* reshard.c - two layouts on one mesh or on two stages, and a cache of the answers.
 *
 * Two layouts of the same devices are cut at each other's digits, from the innermost: of two digits
 * that begin at the same place, one's degree divides the other's, and the larger is cut in two,
 *
 *   (a * b, stride) = outer (a, stride * b), inner (b, stride)                                  (1)
 *
 *   I1  If neither degree divides the other (6 and 4 on 12 devices), the digits up to the next
 *       common cut are copies in between: gathered on the producer's side, sliced on the
 *       consumer's.
 *   I2  The same is done with the whole tensor if the two sides pad it differently (layout.h, I3).
 *   I3  Between stages the tensor crosses once, with one sender per receiver. If the number of
 *       devices on one side is a multiple of that on the other, its inner devices take or hold
 *       copies; otherwise all do. What a receiver would drop at once is not sent.
 *   I4  A digit is also cut where the elements that it splits partly overlap with another's, so
 *       that the rest of it can move before the other has made room.
 *   I5  Devices that hold the same may each send a part of it, which the receivers gather
 *       (Megatron's scatter-gather): less traffic on slow links, more on fast ones.
 *   I6  A tensor on one run of a stage's devices (plan/subset.h) is broadcast to the others before all other steps, and
 *       leaves those that do not have its reader after them. Where both have it, all steps are within the run.
 *   I7  Samples are outermost in every tensor: with k times as many of them, splits of samples have k times the stride, and
 *       those inside of a sample the same.
 */
#include <string.h>

#include "compile/path.h"

/* ---- one mesh for two layouts ---------------------------------------------------------------- */

/* A layout's digits from the innermost; the first may be partly consumed. */
struct cursor {
    struct layout_digit digit;
    const struct layout *layout;
    int64_t left; /* digits outside this one */
};

static void advance(struct cursor *c)
{
    c->digit = (struct layout_digit){1, HOLD_COPY};
    if (c->left > 0)
        c->digit = c->layout->digit[--c->left];
}

static struct cursor cursor_of(const struct layout *layout)
{
    struct cursor c = {.layout = layout, .left = layout->digits};
    advance(&c);
    return c;
}

/* Consumes the inner `degree` of the digit. (1) */
static int64_t take(struct cursor *c, int64_t degree)
{
    int64_t hold = c->digit.hold;
    c->digit.degree /= degree;
    if (hold > 0)
        c->digit.hold *= degree;
    if (c->digit.degree == 1)
        advance(c);
    return hold;
}

static void push(struct mesh *mesh, int64_t degree, int64_t before, int64_t after)
{
    int64_t stride = 1;
    for (int32_t i = 0; i < mesh->digits; i++)
        stride *= mesh->digit[i].degree;
    mesh->digit[mesh->digits++] = (struct step_digit){stride, degree, before, after};
}

/* I1: both sides up to their next common cut, each with copies in place of the other. */
static void push_apart(struct cursor *from, struct cursor *to, struct mesh *gather,
                       struct mesh *slice)
{
    int64_t a = 1, b = 1;
    do {
        int64_t *shorter = a <= b ? &a : &b;
        struct cursor *c = a <= b ? from : to;
        int64_t degree = c->digit.degree, hold = take(c, degree);
        *shorter *= degree;
        if (c == from)
            push(gather, degree, hold, HOLD_COPY);
        else
            push(slice, degree, HOLD_COPY, hold);
    } while (a != b);
}

/* `gather` ends and `slice` begins with the same holds; without I1 and I2 `gather` does nothing. */
static void refine(const struct layout *from, const struct layout *to, struct mesh *gather,
                   struct mesh *slice)
{
    struct cursor f = cursor_of(from), t = cursor_of(to);
    bool same = from->elements == to->elements; /* I2 */
    while (f.digit.degree > 1 || t.digit.degree > 1) {
        int64_t a = f.digit.degree, b = t.digit.degree, degree = a < b ? a : b;
        if (!same || a % degree || b % degree) {
            push_apart(&f, &t, gather, slice);
            continue;
        }
        int64_t before = take(&f, degree), after = take(&t, degree);
        push(gather, degree, before, before);
        push(slice, degree, before, after);
    }
}

/* ---- cuts where splits overlap --------------------------------------------------------------- */

static int64_t outer_hold(int64_t hold, int64_t inner)
{
    return hold > 0 ? hold * inner : hold; /* (1) */
}

static void cut_digit(struct mesh *mesh, int32_t at, int64_t inner)
{
    struct step_digit *digit = &mesh->digit[at];
    memmove(digit + 1, digit, sizeof *digit * (size_t)(mesh->digits++ - at));
    digit[0].degree = inner;
    digit[1].degree /= inner;
    digit[1].mesh_stride *= inner;
    digit[1].before = outer_hold(digit[1].before, inner);
    digit[1].after = outer_hold(digit[1].after, inner);
}

/* The inner degree at which a split that holds `hold` crosses the boundary; 1: it does not. */
static int64_t inner_degree(const struct step_digit *digit, int64_t hold, int64_t boundary)
{
    bool inside = hold > 0 && boundary > hold && boundary < hold * digit->degree &&
                  boundary % hold == 0 && digit->degree % (boundary / hold) == 0;
    return inside ? boundary / hold : 1;
}

static int64_t find_cut(const struct mesh *mesh, const struct step_digit *digit)
{
    int64_t inner = 1;
    for (int32_t k = 0; inner == 1 && k < mesh->digits; k++) {
        const struct step_digit *other = &mesh->digit[k];
        int64_t boundary[] = {other->before, other->before * other->degree, other->after,
                              other->after * other->degree};
        for (size_t b = 0; inner == 1 && b < COUNT_OF(boundary); b++) {
            inner = inner_degree(digit, digit->before, boundary[b]);
            if (inner == 1)
                inner = inner_degree(digit, digit->after, boundary[b]);
        }
    }
    return inner;
}

/* I4 */
static void cut_overlaps(struct mesh *mesh)
{
    int32_t moving = 0;
    for (int32_t i = 0; i < mesh->digits; i++)
        moving += mesh->digit[i].before != mesh->digit[i].after;
    for (int32_t i = 0; i < mesh->digits; i++) {
        const struct step_digit *digit = &mesh->digit[i];
        int64_t inner = digit->before != digit->after ? find_cut(mesh, digit) : 1;
        if (inner == 1 || moving >= MAX_STEP_DIGITS || mesh->digits == MAX_MESH_DIGITS)
            continue;
        cut_digit(mesh, i, inner);
        moving++;
        i = -1; /* start again with its halves and what they now overlap */
    }
}

/* ---- within a stage -------------------------------------------------------------------------- */

enum reshard_way { WAY_WITHIN, WAY_BETWEEN, WAY_SLICED, WAY_JOINING };

struct known_reshard {
    struct layout from, to;
    enum reshard_way way;
    struct crossing_samples samples; /* of WAY_JOINING */
    struct reshard reshard;
};

struct reshards {
    struct arena *arena;
    struct paths *paths;
    ARRAY(struct known_reshard *) entries;
    struct hash_map numbers; /* numbers of known reshards, by what was asked */
};

static void append_on_all(const struct reshards *all, const struct layout *from,
                          const struct layout *to, struct step_list *out)
{
    struct mesh gather = {.elements = from->elements}, slice = {.elements = to->elements};
    refine(from, to, &gather, &slice);
    cut_overlaps(&slice);
    paths_find(all->paths, all->arena, &gather, out);
    paths_find(all->paths, all->arena, &slice, out);
}

/* ---- on some of the devices (I6) ------------------------------------------------------------- */

/* The same where every run of devices has it. */
static struct layout on_all(const struct layout *layout)
{
    struct layout out = layout_none(layout->elements);
    for (int64_t i = 0; i < layout->digits; i++)
        layout_add(&out, layout->digit[i].degree,
                   layout->digit[i].hold <= HOLD_ON ? HOLD_COPY : layout->digit[i].hold);
    return out;
}

static void push_runs(const struct reshards *all, const struct layout *layout, int32_t kind,
                      struct step_list *out)
{
    bool leaves = kind == STEP_LEAVE;
    struct reshard_step step = {.kind = kind, .digits = 1, .elements = layout_local(layout)};
    if (!layout_is_subset(layout))
        return;
    int64_t hold = layout->digit[0].hold;
    step.digit[0] = (struct step_digit){layout_run(layout).devices, layout->digit[0].degree,
                                        leaves ? HOLD_COPY : hold, leaves ? hold : HOLD_COPY};
    array_push(all->arena, out, step);
}

static void append_inside(const struct reshards *all, const struct layout *from,
                          const struct layout *to, struct step_list *out)
{
    struct layout a = layout_inside(from), b = layout_inside(to);
    size_t first = out->len;
    append_on_all(all, &a, &b, out);
    for (size_t i = first; i < out->len; i++)
        out->data[i].run = layout_run(from);
}

static void append_within(const struct reshards *all, const struct layout *from,
                          const struct layout *to, struct step_list *out)
{
    bool same = layout_is_subset(from) && layout_is_subset(to) &&
                from->digit[0].degree == to->digit[0].degree &&
                from->digit[0].hold == to->digit[0].hold;
    struct layout a = on_all(from), b = on_all(to);
    if (same) {
        append_inside(all, from, to, out);
        return;
    }
    push_runs(all, from, COLLECTIVE_BROADCAST, out);
    if (!layout_equal(&a, &b))
        append_on_all(all, &a, &b, out);
    push_runs(all, to, STEP_LEAVE, out);
}

/* ---- from one stage to another --------------------------------------------------------------- */

/* The layout with `copies` devices in place of each device. */
static struct layout with_copies(const struct layout *layout, int64_t copies)
{
    struct layout wide = *layout;
    layout_add(&wide, copies, HOLD_COPY);
    return wide;
}

static struct layout all_copies(int64_t elements, int64_t devices)
{
    struct layout layout = layout_none(elements);
    layout_add(&layout, devices, HOLD_COPY);
    return layout;
}

/* I5: copies become parts, as far as the innermost split (or the whole tensor) can be divided. */
static struct layout share_out(const struct layout *layout)
{
    struct layout out = layout_none(layout->elements);
    int64_t inner = layout->elements;
    for (int64_t i = 0; i < layout->digits; i++)
        if (layout->digit[i].hold > 0 && layout->digit[i].hold < inner)
            inner = layout->digit[i].hold;
    for (int64_t i = 0; i < layout->digits; i++) {
        struct layout_digit digit = layout->digit[i];
        if (digit.hold == HOLD_COPY && inner % digit.degree == 0)
            digit.hold = inner /= digit.degree;
        layout_add(&out, digit.degree, digit.hold);
    }
    return out;
}

/* What crosses: its layout on the sending and on the receiving devices (I3). */
static void choose_crossing(const struct layout *from, const struct layout *to, struct layout *sent,
                            struct layout *received)
{
    int64_t a = layout_devices(from), b = layout_devices(to);
    if (a == b) {
        *sent = *received = layout_local(to) <= layout_local(from) ? *to : *from;
    } else if (b % a == 0) {
        *sent = *from;
        *received = with_copies(from, b / a);
    } else if (a % b == 0) {
        *sent = with_copies(to, a / b);
        *received = *to;
    } else {
        *sent = all_copies(to->elements, a);
        *received = all_copies(to->elements, b);
    }
}

static int32_t append_between(const struct reshards *all, const struct layout *from,
                              const struct layout *to, bool sliced, struct step_list *out)
{
    struct layout sent, received, a = on_all(from), b = on_all(to);
    choose_crossing(&a, &b, &sent, &received);
    if (sliced && layout_equal(&sent, &received))
        sent = received = share_out(&sent);
    push_runs(all, from, COLLECTIVE_BROADCAST, out);
    append_on_all(all, &a, &sent, out);
    struct reshard_step crossing = {.kind = COLLECTIVE_SEND, .elements = layout_local(&sent)};
    size_t send = out->len;
    array_push(all->arena, out, crossing);
    append_on_all(all, &received, &b, out);
    for (size_t i = send + 1; i < out->len && out->data[i].kind == STEP_SLICE; i++)
        out->data[send].elements /= step_members(&out->data[i]);
    push_runs(all, to, STEP_LEAVE, out);
    return (int32_t)send;
}

int64_t reshard_sender(const struct reshard *reshard, int64_t receiver)
{
    return receiver * reshard->from_devices / reshard->to_devices;
}

/* ---- the cache of answers -------------------------------------------------------------------- */

struct reshards *reshards_new(void)
{
    return reshards_beside(NULL);
}

struct reshards *reshards_beside(struct reshards *other)
{
    struct arena *arena = arena_new();
    struct reshards *all = ARENA_NEW(arena, struct reshards);
    *all = (struct reshards){.arena = arena, .paths = other ? other->paths : paths_new(arena)};
    return all;
}

void reshards_free(struct reshards *reshards)
{
    if (reshards)
        arena_free(reshards->arena);
}

/* ---- between stages that do not take equally many samples at once ---------------------------- */

struct layout layout_of_samples(const struct layout *layout, int64_t have, int64_t want)
{
    int64_t sample = layout->elements / have;
    struct layout out = layout_none(sample * want);
    for (int64_t i = 0; i < layout->digits; i++) { /* I7 */
        int64_t degree = layout->digit[i].degree, hold = layout->digit[i].hold, inner = 1;
        if (hold > 0 && hold < sample && hold * degree > sample)
            inner = sample / hold; /* merged from a split of samples and one inside of them */
        int64_t outer = hold > 0 ? hold * inner : hold;
        bool samples = outer >= sample && outer > 0;
        layout_add(&out, degree / inner, samples ? outer * want / have : outer);
        layout_add(&out, inner, hold);
    }
    return out;
}

static int32_t append_joining(const struct reshards *all, const struct known_reshard *entry,
                              struct step_list *out)
{
    const struct crossing_samples *n = &entry->samples;
    const struct reshard *each = entry->reshard.each;
    struct layout far = layout_of_samples(&entry->to, n->to, n->from);
    struct layout near = layout_of_samples(&entry->from, n->from, n->to);
    struct step_list before = {0}, after = {0};
    int32_t send = append_between(all, &entry->from, &far, false, &before);
    int32_t sent = append_between(all, &near, &entry->to, false, &after);
    for (int32_t i = 0; i < send; i++)
        array_push(all->arena, out, before.data[i]);
    array_push(all->arena, out, each->step[each->send]);
    for (size_t i = (size_t)sent + 1; i < after.len; i++)
        array_push(all->arena, out, after.data[i]);
    return send;
}

static struct reshard build(const struct reshards *all, const struct known_reshard *entry)
{
    struct step_list list = {0};
    int32_t send = -1;
    if (entry->way == WAY_JOINING)
        send = append_joining(all, entry, &list);
    else if (entry->way != WAY_WITHIN)
        send = append_between(all, &entry->from, &entry->to, entry->way == WAY_SLICED, &list);
    else if (!layout_equal(&entry->from, &entry->to))
        append_within(all, &entry->from, &entry->to, &list);
    struct reshard reshard = {.steps = (int32_t)list.len,
                              .send = send,
                              .step = list.data,
                              .from_devices = layout_devices(&entry->from),
                              .to_devices = layout_devices(&entry->to)};
    for (size_t i = 0; i < list.len; i++)
        reshard.volume += step_volume(&list.data[i]);
    return reshard;
}

static bool same_question(const void *entries, int64_t number, const void *wanted)
{
    struct known_reshard *const *all = entries;
    const struct known_reshard *a = all[number], *b = wanted;
    return a->way == b->way && layout_equal(&a->from, &b->from) && layout_equal(&a->to, &b->to) &&
           memcmp(&a->samples, &b->samples, sizeof a->samples) == 0;
}

static const struct reshard *find(struct reshards *all, const struct known_reshard *asked)
{
    uint64_t hash = layout_hash(&asked->to, layout_hash(&asked->from, asked->way));
    int64_t *number =
        hash_at_same(&all->numbers, all->arena, hash, same_question, all->entries.data, asked);
    if (*number < 0) {
        struct known_reshard *entry = ARENA_NEW(all->arena, struct known_reshard);
        *entry = *asked;
        entry->reshard = build(all, entry);
        entry->reshard.each = asked->reshard.each;
        *number = (int64_t)all->entries.len;
        array_push(all->arena, &all->entries, entry);
    }
    return &all->entries.data[*number]->reshard;
}

const struct reshard *reshard_within(struct reshards *reshards, const struct layout *from,
                                     const struct layout *to)
{
    return find(reshards, &(struct known_reshard){.from = *from, .to = *to, .way = WAY_WITHIN});
}

const struct reshard *reshard_between(struct reshards *reshards, const struct layout *from,
                                      const struct layout *to, bool sliced)
{
    enum reshard_way way = sliced ? WAY_SLICED : WAY_BETWEEN;
    return find(reshards, &(struct known_reshard){.from = *from, .to = *to, .way = way});
}

const struct reshard *reshard_joining(struct reshards *reshards, const struct layout *from,
                                      const struct layout *to,
                                      const struct crossing_samples *samples)
{
    struct layout sent = layout_of_samples(from, samples->from, samples->each);
    struct layout taken = layout_of_samples(to, samples->to, samples->each);
    const struct reshard *each = reshard_between(reshards, &sent, &taken, false);
    return find(reshards, &(struct known_reshard){.from = *from,
                                                  .to = *to,
                                                  .way = WAY_JOINING,
                                                  .samples = *samples,
                                                  .reshard.each = each});
}

/* ---- text ------------------------------------------------------------------------------------ */

const char *step_name(int kind)
{
    return kind == STEP_SLICE   ? "slice"
           : kind == STEP_LEAVE ? "leave"
                                : collective_name((enum collective)kind);
}
