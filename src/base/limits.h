/* limits.h - how much work one question may be: what is more is done in a shorter form, or refused with the reason
 * and the way round.
 *
 *   I1  A row of LIMITS (limits.c) is the only place where such a limit stands, with its unit and its reason.
 *       docs/reference/limits.md lists them; a test holds one to the other.
 *   I2  Within all of them a question takes less than about 20 s of one core and 2 GB; a search can take
 *       longer, answers an interrupt within a second, and takes a --budget.
 */
#ifndef WEFT_BASE_LIMITS_H
#define WEFT_BASE_LIMITS_H

enum work_limit {
    LIMIT_BATCH,
    LIMIT_OPERATORS,
    LIMIT_SLOTS,
    LIMIT_FOLDED_SLOTS,
    LIMIT_UNFOLDED_SLOTS,
    LIMIT_UNALIKE_TASKS,
    LIMIT_UNFOLDED_TASKS,
    LIMIT_PROOF,
    LIMIT_TRACE,
    LIMIT_COUNT
};
/* LIMIT_BATCH as a constant: fields and flags are held to it by their tables. */
enum { MOST_SAMPLES = 1 << 24 };
struct limit_row {
    const char *what, *unit;
    double most;
    const char *why, *instead; /* instead: what is done beyond it, or what to do */
};
const struct limit_row *limit_row(enum work_limit limit);
double limit_of(enum work_limit limit);
/* "a graph without folding would have 1.23 G tasks, expected at most 16.8 M: ...", with the way round. */
weft_status over_limit(enum work_limit limit, double found);

#endif
