/* find.h - orders of slots while they are searched; inside schedule.
 *
 * Micro-batches are alike, so that the j-th forward pass of a part may be called micro-batch j, on
 * every part: whatever runs in another order takes as long and holds as much when renamed so. An
 * order is therefore a list of *codes* per stage, a piece and a kind each, and the micro-batch of a
 * slot is the number of its equals before it.
 *
 *   find.c        the question, the start, the answer
 *   find_play.c   the time of an order, its memory, and what its time hangs on
 *   find_list.c   list scheduling with look-ahead
 *   find_local.c  changes to an order where its time hangs on it
 *   find_exact.c  branch and bound
 */
#ifndef WEFT_SCHEDULE_FIND_H
#define WEFT_SCHEDULE_FIND_H

#include "schedule/schedule.h"

enum { NEVER = -1 };

static inline uint16_t code_of(int32_t piece, enum slot_kind kind)
{
    return (uint16_t)(piece * SLOT_KIND_COUNT + (int32_t)kind);
}
static inline enum slot_kind kind_of(uint16_t code)
{
    return (enum slot_kind)(code % SLOT_KIND_COUNT);
}
static inline int32_t piece_of(uint16_t code)
{
    return code / SLOT_KIND_COUNT;
}

/* An order; the lists have room for three codes per piece and micro-batch. */
struct codes {
    uint16_t **list; /* per stage */
    int32_t *len;
};

/* The question, with what follows from it, and memory that is used again. */
struct order_search {
    const struct order_question *q;
    struct arena *keep;
    int32_t stages, pieces, parts, m, most; /* most: codes of a stage */
    int32_t *part_of;                       /* by stage, then piece */
    int32_t *stage_of;                      /* by part */
    int64_t *send_ns, *back_ns; /* by part: to the one after, to the one before; 0 inside a stage */
    int64_t *room;              /* by stage: bytes that passes may hold between slots */
    /* Of the order that was played last. */
    int64_t *forward_end, *backward_end;  /* by part and micro-batch */
    int64_t **start_ns, **end_ns;         /* by stage and slot */
    int32_t *done, *forwards, *backwards; /* by stage; by part; by part */
    int32_t *inputs, *weights;            /* by part: of split backward passes */
    int64_t *stage_ns;                    /* by stage: the end of its last slot */
    int64_t played;                       /* slots played so far: what the search has cost */
    int64_t sum_ns;                       /* of the ends of all stages */
    struct rng rng;
};

struct codes codes_new(const struct order_search *f);
void codes_copy(const struct order_search *f, struct codes *to, const struct codes *from);

/* The time of an order, or NEVER if it is in deadlock. */
int64_t find_play(struct order_search *f, const struct codes *codes);
/* Whether a stage's list never holds more than its limit, and every slot follows what it needs of its own part. */
bool find_fits(const struct order_search *f, const struct codes *codes, int32_t stage);
int64_t find_slot_ns(const struct order_search *f, int32_t part, enum slot_kind kind);
/* No order takes less: a stage's work after the first micro-batch has come to it, and the way back. */
int64_t find_bound(const struct order_search *f);

/* How one list schedule decides. */
struct list_rules {
    /* in shares of a pass of weight gradients: how long to wait for another pass instead */
    double wait;
    double ahead;  /* forward passes that run ahead, in stages left; 0: as many as memory allows */
    double jitter; /* by how much, at random, a stage's rules differ from these */
    bool forward_first; /* of a forward and a backward pass that are ready, the forward pass */
    bool whole;         /* backward passes are not split */
};
bool find_list(struct order_search *f, const struct list_rules *rules, struct codes *out);

/* Improves an order whose time is *ns, playing at most so many slots. */
void find_local(struct order_search *f, struct codes *codes, int64_t *ns, int64_t slots);

/* The best order, if it is better than *ns; false: there were too many to look at. */
bool find_exact(struct order_search *f, struct codes *codes, int64_t *ns, int64_t nodes);

#endif
