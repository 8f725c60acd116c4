/* limits.h - how much work one question may cause: larger questions are answered in a bounded form,
 * or refused with the reason and a way round.
 *
 *   I1  Each limit is a row of LIMITS (limits.c) and nowhere else, with its unit and its reason.
 *       docs/reference/limits.md lists them; a test compares the two.
 *   I2  Within all limits a question takes less than about 20 s of one core and 2 GB. A search can
 *       take longer; it answers an interrupt within a second and takes a --budget.
 */
#ifndef WEFT_BASE_LIMITS_H
#define WEFT_BASE_LIMITS_H

enum work_limit {
    LIMIT_BATCH,
    LIMIT_OPERATORS,
    LIMIT_SLOTS,
    LIMIT_FOLDED_SLOTS,
    LIMIT_LISTED_SLOTS,
    LIMIT_UNFOLDED_SLOTS,
    LIMIT_UNALIKE_TASKS,
    LIMIT_UNFOLDED_TASKS,
    LIMIT_PROOF,
    LIMIT_TRACE,
    LIMIT_COUNT
};
/* LIMIT_BATCH as a constant, for the ranges in tables of fields and flags. */
enum { MOST_SAMPLES = 1 << 24 };
struct limit_row {
    const char *what, *unit;
    double most;
    const char *why, *instead; /* instead: what is done beyond the limit, or what the user can do */
};
const struct limit_row *limit_row(enum work_limit limit);
double limit_of(enum work_limit limit);
/* "a graph without folding would have 1.23 G tasks, expected at most 16.8 M: ...", with a way
 * round. */
weft_status over_limit(enum work_limit limit, double found);

#endif
