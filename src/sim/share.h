/* share.h - how concurrent flows share the links: weighted max-min fairness with priority classes.
 *
 * Flow f moves b_fl bytes over link l while it lasts. Its busiest link carries W_f = max_l b_fl;
 * its speed s_f is in bytes per ns at that link. On link l it may stand for k_fl equal flows that
 * always run together (`times`; 1: only itself), so that the link carries
 *
 *   k_fl a_fl s_f,   a_fl = b_fl / W_f <= 1                                              (1)
 *   sum_f k_fl a_fl s_f <= C_l   for every link l                                        (2)
 *   s_f <= p_f              its own pace: what its protocol and the links allow it alone  (3)
 *
 * Speeds are max-min fair under (2) and (3): no flow can be faster without slowing down a flow that
 * is not faster than it. Textbook water-filling finds them: every unsettled flow rises at the same
 * speed until the first link is full or the first flow reaches its pace,
 *
 *   level_l = (C_l - sum of settled k_fl a_fl s_f) / (sum of unsettled k_fl a_fl)        (4)
 *
 * the flows of that link (or that flow) are settled there, and so on. Class 0 shares all of every
 * link, class 1 what class 0 leaves, and so on (Fold3D 5.1: pipeline transfers before gradients).
 *
 * The flows that one link holds all have one speed: they are the link's *pool*, and it is the speed
 * of the pool that changes when another flow comes or goes. Flows at their own pace, and those to
 * which higher classes leave nothing, are in no pool.
 *
 *   I1  A link is *tight* if paces could overload it: sum_f k_fl a_fl p_f > C_l. Other links hold
 *       no flow. Only flows connected through tight links to one that came, went or changed its
 *       pace are computed again; all others keep their speed bit for bit, as (4) does not involve
 *       them.
 *   I2  a_fl is a multiple of 2^-42, sums of k_fl a_fl are integers of this unit: exact, whatever
 *       their order, up to 2^21 whole flows on a link. k times one and k flows give the same bits.
 *       a_fl is rounded down, so that rounding never makes a transfer take a nanosecond more.
 *   I3  Ties go to the lower link, then to flows by slot: same flows, same speeds, bit for bit.
 *   I4  What is left of a link below 2^-38 of its capacity is rounding, and counts as nothing.
 *   I5  Tightness, too, is decided on an integer sum: of paces in 2^-40 of the link's capacity,
 *       each rounded up, so that a link that is not tight is overloaded by less than 2^-45 of it.
 *   I6  A link is *simple* if it alone holds all of its flows, all of one class. As long as (4),
 *       with all of C_l, is below every pace there, coming and going affects only its sums.
 *
 * One more flow may make another one *faster*: slowed down on link 1, a flow leaves more of link 2
 * to a third. What never happens is that the old flows as a whole gain: their speeds, sorted, never
 * become lexicographically larger, and flows that share one link all become slower or stay.
 */
#ifndef WEFT_SIM_SHARE_H
#define WEFT_SIM_SHARE_H

#include "base/base.h"

struct link_use {
    int32_t link;
    double bytes; /* bytes of this flow that cross the link during the transfer */
    /* the link carries so many times `bytes`, for the equal flows that this one stands for */
    double times;
};
static const double MOST_TIMES = 0x1p20; /* k_fl (I2) */

struct share_flow {
    int32_t priority;           /* class: 0 takes its share first; small numbers */
    double pace;                /* p_f of (3), bytes per ns */
    double bytes;               /* W_f of (1) */
    const struct link_use *use; /* each link once */
    int32_t uses;
};

/* Flows occupy numbered slots, one each. */
struct share;
struct share *share_new(struct arena *keep, int32_t slots, const double *link_bytes_per_s,
                        int32_t links);
void share_add(struct share *share, int32_t slot, const struct share_flow *flow);
void share_remove(struct share *share, int32_t slot);
void share_set_pace(struct share *share, int32_t slot, double pace);

struct share_move {
    int32_t slot;
    int32_t link;        /* the full link that holds the flow; -1: its own pace */
    bool pooled;         /* whether it now belongs to the pool of `link`, else to none */
    double bytes_per_ns; /* its speed if it is in no pool */
};
struct share_speed {
    int32_t link; /* that has the pool */
    double bytes_per_ns;
};
/* To be applied in this order; valid until the next call. */
struct share_news {
    const struct share_move *move;
    const struct share_speed *speed;
    int32_t moves, speeds;
};
/* Settles what was added, removed or changed since the last call. */
struct share_news share_solve(struct share *share);

#endif
