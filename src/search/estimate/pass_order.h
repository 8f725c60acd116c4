/* pass_order.h - private to passes.c and pass_order.c: which passes of a part are run, in which
 * order. */
#ifndef WEFT_SEARCH_ESTIMATE_PASS_ORDER_H
#define WEFT_SEARCH_ESTIMATE_PASS_ORDER_H

#include "search/estimate/passes.h"

enum { NONE = -1 };
enum { MOST_PASSES = 9, MOST_ROUNDS = 3 };

struct pass {
    enum slot_kind kind;
    bool first, last; /* the first forward pass; the one that completes all gradients */
    bool paired;      /* runs at the same time as the one after it */
};
struct part_passes {
    int32_t count, rounds; /* passes; which of ORDERS */
    int32_t micro_batches;
    struct pass pass[MOST_PASSES];
    int32_t number[PASS_ROLES]; /* NONE: there is no such pass */
};

/* The n-th pass of this kind, counted from 1; NONE: there are fewer. */
int32_t nth_pass(const struct part_passes *passes, enum slot_kind kind, int32_t n);
struct part_passes passes_of_part(const struct timed *t, int32_t part);

#endif
