/* assign_left.h - inside assign: the options that the exact search still has to look at.
 *
 *   I1  Dropping leaves each variable with an option, but for left_drop_large: if that leaves none, nothing fits.
 *   I2  If the work is over, nothing more is dropped.
 */
#ifndef WEFT_SEARCH_AUTODDL_ASSIGN_LEFT_H
#define WEFT_SEARCH_AUTODDL_ASSIGN_LEFT_H

#include "search/autoddl/assign.h"

/* The options that are left, per variable. */
struct left {
    int32_t *count;
    int32_t **option;
};

/* All options that are possible. */
struct left left_all(struct arena *keep, const struct assign *problem);
struct left left_copy(struct arena *keep, const struct assign *problem, const struct left *left);
/* Whether a variable has no option left. */
bool left_nothing(const struct assign *problem, const struct left *left);

/* Keeps what may be in an assignment with time + price * memory <= most, each edge at its least. */
void left_drop_slow(const struct assign *problem, struct assign_work *work, double price,
                    double most, struct left *left);
/* Drops options that do not fit even with all other variables at their smallest. */
void left_drop_large(const struct assign *problem, struct left *left);
/* Drops option j of a variable if another, i, takes no more time and no more memory whatever its neighbours have:
 *
 *   t(i) - t(j) + sum over its edges of max_k { t_e(i, k) - t_e(j, k) } <= 0, and so for memory                   (1)
 *
 * In any assignment i can replace j, so the best of what is left is as good. */
void left_drop_dominated(const struct assign *problem, struct assign_work *work, struct left *left);

#endif
