/* front.c - merges sorted runs of states into one front (front.h).
 *
 * States come in the order of their times and are compared with the corners of what was seen: pairs
 * (n + m, max(n, p) + m) of which the first rises and the second falls. A state stays if no corner
 * is at or below it in both. By I2 there is usually one corner.
 */
#include "search/galvatron/front.h"

#include <string.h>

struct corner {
    int64_t all, high; /* n + m and max(n, p) + m */
};

void candidates_clear(struct candidates *candidates)
{
    candidates->states.len = 0;
    candidates->run.len = 0;
}

/* ---- merging --------------------------------------------------------------------------------- */

static bool before(const struct front_state *a, const struct front_state *b)
{
    return a->time_ns < b->time_ns || (a->time_ns == b->time_ns && a->all_bytes < b->all_bytes);
}

static void merge(const struct front_state *a, size_t a_len, const struct front_state *b,
                  size_t b_len, struct front_state *out)
{
    while (a_len && b_len) {
        bool second = before(b, a);
        *out++ = second ? *b : *a;
        b += second;
        b_len -= second;
        a += !second;
        a_len -= !second;
    }
    memcpy(out, a, a_len * sizeof *a);
    memcpy(out + a_len, b, b_len * sizeof *b);
}

/* Merges neighbours, two by two, into the spare array, and swaps the two. */
static void merge_pairs(struct candidates *candidates)
{
    struct front_state *from = candidates->states.data;
    int64_t *run = candidates->run.data;
    size_t runs = candidates->run.len, len = candidates->states.len, kept = 0;
    for (size_t i = 0; i < runs; i += 2) {
        size_t first = (size_t)run[i], middle = i + 1 < runs ? (size_t)run[i + 1] : len;
        size_t end = i + 2 < runs ? (size_t)run[i + 2] : len;
        merge(from + first, middle - first, from + middle, end - middle, candidates->spare + first);
        run[kept++] = (int64_t)first;
    }
    candidates->run.len = kept;
    candidates->states.data = candidates->spare;
    candidates->spare = from;
}

/* ---- filtering ------------------------------------------------------------------------------- */

/* The number of corners with at most this much; by their order, the last of them is the lowest in
 * `high`. */
static int64_t corners_within(const struct corner *corner, int64_t count, int64_t all)
{
    int64_t low = 0;
    while (low < count) {
        int64_t middle = low + (count - low) / 2;
        if (corner[middle].all <= all)
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

/* Adds the corner at its place and drops those that it makes needless; returns how many there
 * are. */
static int64_t corner_add(struct corner *corner, int64_t count, int64_t at, struct corner added)
{
    int64_t first = at, end = at;
    while (first > 0 && corner[first - 1].all == added.all)
        first--;
    while (end < count && corner[end].high >= added.high)
        end++;
    memmove(corner + first + 1, corner + end, (size_t)(count - end) * sizeof *corner);
    corner[first] = added;
    return count - (end - first) + 1;
}

static int64_t filter(struct front_state *state, int64_t len, int64_t peak_bytes,
                      struct corner *corner)
{
    int64_t kept = 0, corners = 0;
    for (int64_t i = 0; i < len; i++) {
        int64_t all = state[i].all_bytes, high = peak_bytes + state[i].state_bytes;
        struct corner added = {all, high > all ? high : all};
        int64_t at = corners_within(corner, corners, all);
        if (at && corner[at - 1].high <= added.high) /* I1 */
            continue;
        corners = corner_add(corner, corners, at, added);
        state[kept++] = state[i];
    }
    return kept;
}

int64_t candidates_reduce(struct arena *scratch, struct candidates *candidates, int64_t peak_bytes)
{
    if (candidates->spare_len < candidates->states.cap) {
        candidates->spare_len = candidates->states.cap;
        candidates->spare = ARENA_ARRAY(scratch, struct front_state, candidates->spare_len);
        candidates->corner = ARENA_ARRAY(scratch, struct corner, candidates->spare_len);
    }
    while (candidates->run.len > 1)
        merge_pairs(candidates);
    return filter(candidates->states.data, (int64_t)candidates->states.len, peak_bytes,
                  candidates->corner);
}

/* Of the other front's states that are early enough, only one number is looked at: the least max(n,
 * p) + m. If it is at most a state's n + m, both conditions of I1 hold. */
int64_t front_thin(struct front_state *state, int64_t count, const struct front_state *other,
                   int64_t other_count, int64_t more_ns, int64_t peak_bytes)
{
    int64_t kept = 0, at = 0, least = INT64_MAX;
    for (int64_t i = 0; i < count; i++) {
        for (; at < other_count && other[at].time_ns + more_ns <= state[i].time_ns; at++) {
            int64_t high = peak_bytes + other[at].state_bytes;
            high = high > other[at].all_bytes ? high : other[at].all_bytes;
            least = high < least ? high : least;
        }
        if (least > state[i].all_bytes)
            state[kept++] = state[i];
    }
    return kept;
}
