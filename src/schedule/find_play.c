/* find_play.c - the time of an order of codes, and whether it fits in memory.
 *
 *   start(k) = max{ end(before k on its stage), end(what k needs) + transfer }                   (1)
 *   T >= arrive_s + work_s + leave_s for every stage s                                           (2)
 * with arrive the way of the first micro-batch to s, work all passes of s, and leave the least that
 * other stages have to do after the last pass of s that anyone waits for.
 *
 *   I1  (1) is what play.c does, with a time for each transfer; a test holds one against the other.
 *   I2  What a stage holds changes only by its own slots, so that its list alone says whether it fits.
 */
#include <string.h>

#include "schedule/find.h"

struct codes codes_new(const struct order_search *f)
{
    struct codes codes = {ARENA_ARRAY(f->keep, uint16_t *, (size_t)f->stages),
                          ARENA_ARRAY(f->keep, int32_t, (size_t)f->stages)};
    for (int32_t s = 0; s < f->stages; s++)
        codes.list[s] = ARENA_ARRAY(f->keep, uint16_t, (size_t)f->most);
    return codes;
}

void codes_copy(const struct order_search *f, struct codes *to, const struct codes *from)
{
    for (int32_t s = 0; s < f->stages; s++) {
        to->len[s] = from->len[s];
        memcpy(to->list[s], from->list[s], (size_t)from->len[s] * sizeof **to->list);
    }
}

int64_t find_slot_ns(const struct order_search *f, int32_t part, enum slot_kind kind)
{
    const struct order_question *q = f->q;
    const int64_t by_kind[] = {
        [SLOT_FORWARD] = q->forward_ns[part],
        [SLOT_BACKWARD] = q->input_ns[part] + q->weight_ns[part],
        [SLOT_BACKWARD_INPUT] = q->input_ns[part],
        [SLOT_BACKWARD_WEIGHT] = q->weight_ns[part],
    };
    return by_kind[kind];
}

/* ---- times ----------------------------------------------------------------------------------- */

/* When what the next slot of a part needs is there, or NEVER as long as that is not known. */
static int64_t ready_ns(const struct order_search *f, int32_t part, enum slot_kind kind)
{
    int64_t m = f->m;
    if (kind == SLOT_BACKWARD_WEIGHT)
        return f->weights[part] < f->inputs[part] ? 0 : NEVER;
    if (kind == SLOT_FORWARD) {
        int32_t j = f->forwards[part];
        if (part == 0)
            return 0;
        return f->forwards[part - 1] > j ? f->forward_end[(part - 1) * m + j] + f->send_ns[part - 1]
                                         : NEVER;
    }
    int32_t j = f->backwards[part];
    if (f->forwards[part] <= j)
        return NEVER;
    if (part == f->parts - 1)
        return f->forward_end[part * m + j];
    return f->backwards[part + 1] > j ? f->backward_end[(part + 1) * m + j] + f->back_ns[part + 1]
                                      : NEVER;
}

static void count_slot(struct order_search *f, int32_t part, enum slot_kind kind, int64_t end_ns)
{
    if (kind == SLOT_FORWARD)
        f->forward_end[(int64_t)part * f->m + f->forwards[part]++] = end_ns;
    else if (kind == SLOT_BACKWARD_WEIGHT)
        f->weights[part]++;
    else
        f->backward_end[(int64_t)part * f->m + f->backwards[part]++] = end_ns;
    f->inputs[part] += kind == SLOT_BACKWARD_INPUT;
}

static bool advance(struct order_search *f, const struct codes *codes, int32_t s)
{
    int32_t first = f->done[s];
    for (; f->done[s] < codes->len[s]; f->done[s]++) {
        uint16_t code = codes->list[s][f->done[s]];
        int32_t part = f->part_of[s * f->pieces + piece_of(code)];
        int64_t start = ready_ns(f, part, kind_of(code));
        if (start == NEVER)
            break;
        start = start > f->stage_ns[s] ? start : f->stage_ns[s];
        f->start_ns[s][f->done[s]] = start;
        f->stage_ns[s] = start + find_slot_ns(f, part, kind_of(code));
        f->end_ns[s][f->done[s]] = f->stage_ns[s];
        count_slot(f, part, kind_of(code), f->stage_ns[s]);
    }
    return f->done[s] > first;
}

static void start_play(struct order_search *f)
{
    memset(f->done, 0, (size_t)f->stages * sizeof *f->done);
    memset(f->stage_ns, 0, (size_t)f->stages * sizeof *f->stage_ns);
    int32_t *const counts[] = {f->forwards, f->backwards, f->inputs, f->weights};
    for (size_t i = 0; i < COUNT_OF(counts); i++)
        memset(counts[i], 0, (size_t)f->parts * sizeof *counts[i]);
}

int64_t find_play(struct order_search *f, const struct codes *codes)
{
    int64_t ns = 0;
    start_play(f);
    for (bool moved = true; moved;) {
        moved = false;
        for (int32_t s = 0; s < f->stages; s++)
            moved |= advance(f, codes, s);
        for (int32_t s = f->stages - 1; s >= 0; s--)
            moved |= advance(f, codes, s);
    }
    f->sum_ns = 0;
    for (int32_t s = 0; s < f->stages; s++) {
        f->played += f->done[s];
        f->sum_ns += f->stage_ns[s];
        if (f->done[s] < codes->len[s])
            return NEVER;
        ns = f->stage_ns[s] > ns ? f->stage_ns[s] : ns;
    }
    return ns;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static bool in_order(int32_t *count, enum slot_kind kind)
{
    count[kind]++;
    return count[SLOT_BACKWARD] + count[SLOT_BACKWARD_INPUT] <= count[SLOT_FORWARD] &&
           count[SLOT_BACKWARD_WEIGHT] <= count[SLOT_BACKWARD_INPUT];
}

bool find_fits(const struct order_search *f, const struct codes *codes, int32_t stage)
{
    enum { MOST_PIECES = 64 };
    const struct order_question *q = f->q;
    int32_t count[MOST_PIECES][SLOT_KIND_COUNT] = {{0}};
    int64_t held = 0;
    for (int32_t i = 0; i < codes->len[stage]; i++) {
        uint16_t code = codes->list[stage][i];
        int32_t piece = piece_of(code);
        const struct order_memory *own = &q->memory[f->part_of[stage * f->pieces + piece]];
        const struct {
            int64_t rise, net;
        } turn[] = {
            [SLOT_FORWARD] = {own->forward_rise, own->kept},
            [SLOT_BACKWARD] = {own->backward_rise, -own->kept},
            [SLOT_BACKWARD_INPUT] = {own->backward_rise, own->back},
            [SLOT_BACKWARD_WEIGHT] = {own->weight_rise, -own->kept - own->back},
        };
        if (piece >= MOST_PIECES || !in_order(count[piece], kind_of(code)))
            return false;
        if (q->limit_bytes && held + turn[kind_of(code)].rise > q->limit_bytes[stage])
            return false;
        held += turn[kind_of(code)].net;
        if (q->limit_bytes && held > q->limit_bytes[stage])
            return false;
    }
    return true;
}

/* ---- (2) ------------------------------------------------------------------------------------- */

static int64_t least_backward(const struct order_search *f, int32_t part)
{
    int64_t whole = find_slot_ns(f, part, SLOT_BACKWARD);
    int64_t both = f->q->input_ns[part] + f->q->weight_ns[part];
    return f->q->unsplit || whole < both ? whole : both;
}

/* Until the gradients of a part have come to part 0 and it is done with its own. */
static int64_t leave_ns(const struct order_search *f, int32_t part)
{
    int64_t ns = part > 0 ? f->back_ns[part] + least_backward(f, 0) : 0;
    for (int32_t k = 1; k < part; k++)
        ns +=
            (f->q->unsplit ? find_slot_ns(f, k, SLOT_BACKWARD) : f->q->input_ns[k]) + f->back_ns[k];
    return ns;
}

int64_t find_bound(const struct order_search *f)
{
    int64_t bound = 0, arrive = 0, *work = ARENA_ARRAY(f->keep, int64_t, (size_t)f->stages);
    int64_t *passes = ARENA_ARRAY(f->keep, int64_t, (size_t)f->stages);
    int64_t *leave = ARENA_ARRAY(f->keep, int64_t, (size_t)f->stages);
    for (int32_t k = f->parts - 1; k >= 0; k--) {
        int32_t s = f->stage_of[k];
        work[s] += f->m * (f->q->forward_ns[k] + least_backward(f, k));
        passes[s] += f->m * (f->q->forward_ns[k] +
                             (f->q->unsplit ? least_backward(f, k) : f->q->input_ns[k]));
        leave[s] = leave_ns(f, k);
    }
    for (int32_t k = 0; k < f->stages; k++) { /* the first pieces, in the order of the walk */
        int32_t s = f->stage_of[k];
        int64_t last = passes[s] + leave[s], most = work[s] > last ? work[s] : last;
        bound = arrive + most > bound ? arrive + most : bound;
        arrive += f->q->forward_ns[k] + f->send_ns[k];
    }
    return bound;
}
