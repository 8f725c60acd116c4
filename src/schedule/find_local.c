/* find_local.c - better orders near a given one.
 *
 * The time of an order hangs on a chain of slots, each of which begins when the one before it ends,
 * on its own stage or on that which it waits for (its *critical path*). Only a change to that chain
 * can make the order faster: a slot of the chain is moved a few places within its list, past slots
 * of its own stage.
 *
 *   I1  An order is kept if it takes less time, or as much with stages that end earlier in sum; some
 *       that are equal are kept, too, so that the search goes on across plateaus.
 *   I2  The result fits in memory and is never slower than the beginning.
 */
#include <string.h>

#include "schedule/find.h"

enum { FARTHEST = 6, MOST_STILL = 400 };

/* A slot on the critical path. */
struct chain_link {
    int32_t stage, at;
};

/* The slot of a stage that ends at this time, or -1. */
static int32_t slot_ending(const struct order_search *f, const struct codes *codes, int32_t stage,
                           int64_t end_ns)
{
    int32_t low = 0, high = codes->len[stage] - 1;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (f->end_ns[stage][middle] < end_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return f->end_ns[stage][low] == end_ns ? low : -1;
}

/* The part whose pass a slot waits for, or -1: none of another stage. */
static int32_t needed_part(const struct order_search *f, int32_t part, enum slot_kind kind)
{
    if (kind == SLOT_FORWARD)
        return part - 1;
    return kind == SLOT_BACKWARD_WEIGHT || part == f->parts - 1 ? -1 : part + 1;
}

/* The link before this one; false: the chain begins here. */
static bool step_back(const struct order_search *f, const struct codes *codes,
                      struct chain_link *link)
{
    int32_t s = link->stage, at = link->at;
    int64_t start = f->start_ns[s][at];
    if (at > 0 && f->end_ns[s][at - 1] == start) {
        link->at--;
        return true;
    }
    uint16_t code = codes->list[s][at];
    int32_t part = f->part_of[s * f->pieces + piece_of(code)];
    int32_t from = needed_part(f, part, kind_of(code));
    if (from < 0 || start == 0)
        return false;
    int64_t way = from < part ? f->send_ns[from] : f->back_ns[from];
    link->stage = f->stage_of[from];
    link->at = slot_ending(f, codes, link->stage, start - way);
    return link->at >= 0;
}

static int32_t find_chain(const struct order_search *f, const struct codes *codes, int64_t ns,
                          struct chain_link *out, int32_t most)
{
    struct chain_link link = {-1, 0};
    int32_t count = 0;
    for (int32_t s = 0; s < f->stages && link.stage < 0; s++)
        if (f->stage_ns[s] == ns)
            link = (struct chain_link){s, codes->len[s] - 1};
    do
        out[count++] = link;
    while (count < most && step_back(f, codes, &link));
    return count;
}

static void move_code(uint16_t *list, int32_t from, int32_t to)
{
    uint16_t code = list[from];
    if (from < to)
        memmove(&list[from], &list[from + 1], (size_t)(to - from) * sizeof *list);
    else
        memmove(&list[to + 1], &list[to], (size_t)(from - to) * sizeof *list);
    list[to] = code;
}

/* A random slot of the chain, or one beside it, to a place nearby; -1: it has nowhere to go. */
static int32_t choose_target(struct order_search *f, const struct codes *codes,
                             struct chain_link link)
{
    int32_t far = 1 + (int32_t)rng_below(&f->rng, FARTHEST);
    int32_t to = link.at + (rng_below(&f->rng, 2) ? far : -far);
    const uint16_t *list = codes->list[link.stage];
    return to >= 0 && to < codes->len[link.stage] && list[to] != list[link.at] ? to : -1;
}

void find_local(struct order_search *f, struct codes *codes, int64_t *ns, int64_t slots)
{
    struct arena *scratch = arena_new();
    int32_t most = 2 * f->parts * f->m + f->stages, still = 0;
    struct chain_link *chain = ARENA_ARRAY(scratch, struct chain_link, (size_t)most);
    int64_t until = f->played + slots, sum = 0;
    int32_t count = 0;
    bool known = false;
    while (f->played < until && still < MOST_STILL * f->stages) {
        if (!known) {
            *ns = find_play(f, codes);
            sum = f->sum_ns;
            count = find_chain(f, codes, *ns, chain, most);
            known = true;
        }
        struct chain_link link = chain[rng_below(&f->rng, count)];
        int32_t to = choose_target(f, codes, link);
        still++;
        if (to < 0)
            continue;
        move_code(codes->list[link.stage], link.at, to);
        int64_t now = find_fits(f, codes, link.stage) ? find_play(f, codes) : NEVER;
        bool better = now != NEVER && (now < *ns || (now == *ns && f->sum_ns < sum));
        bool equal = now == *ns && f->sum_ns == sum;
        if (better || equal) { /* I1 */
            still = better ? 0 : still;
            known = false;
        } else {
            move_code(codes->list[link.stage], to, link.at);
        }
    }
    *ns = find_play(f, codes);
    arena_free(scratch);
}
