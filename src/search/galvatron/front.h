/* front.h - inside layerwise: partial plans that no other beats, for one layer and column of R.
 *
 * A state is a choice of strategies for a layer and all after it. Read from the last layer to the
 * first, Eq. 2 needs two numbers of it: with n = max_i { sum_{k<=i} O_f(k) + O_b(i) } over its
 * layers and m = sum O_ms, a layer before it makes
 *
 *   n' = O_f + max(O_b, n),  m' = O_ms + m                                                    (1)
 *
 * and the plan needs n + m at the first layer.
 *
 *   I1  State a makes b needless when a.time <= b.time and neither its n + m nor its max(n, p) + m
 *       is larger, where p is the highest peak that layers before them can still ask for: any
 *       layers before turn a state into max(n, x) + m + (something equal for both), 0 <= x <= p.
 *   I2  Once n >= p, one number is left, n + m. That happens some layers from the end, because kept
 *       activations add up and peaks do not.
 *   I3  A front is sorted by time and holds no two states of which one makes the other needless,
 *       except states of equal time.
 */
#ifndef WEFT_SEARCH_GALVATRON_FRONT_H
#define WEFT_SEARCH_GALVATRON_FRONT_H

#include "base/base.h"

struct front_state {
    int64_t time_ns;
    int64_t all_bytes;   /* n + m */
    int64_t state_bytes; /* m */
    int32_t next;        /* the state of the next layer that this one extends */
    int32_t strategy;
};

/* Candidates for one front: several runs, each sorted by time. */
struct candidates {
    ARRAY(struct front_state) states;
    ARRAY(int64_t) run; /* where each begins */
    struct front_state *spare;
    size_t spare_len;
    struct corner *corner; /* scratch of front_filter, as many as states */
};

void candidates_clear(struct candidates *candidates);
/* Merges the runs and drops needless states; the remaining ones are moved to the front. Returns how
 * many. */
int64_t candidates_reduce(struct arena *scratch, struct candidates *candidates, int64_t peak_bytes);

/* Drops states that a state of another front makes needless even if that one is `more_ns` later;
 * returns how many stay. */
int64_t front_thin(struct front_state *state, int64_t count, const struct front_state *other,
                   int64_t other_count, int64_t more_ns, int64_t peak_bytes);

#endif
