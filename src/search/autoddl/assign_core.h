/* assign_core.h - inside assign: the least sum of variables' and edges' costs, variables eliminated one
 * by one.
 *
 * A variable v with at most two neighbours a and b leaves the graph by
 *
 *   t'_ab(j, k) = t_ab(j, k) + min_i { t_v(i) + t_va(i, j) + t_vb(i, k) }                      (1)
 *
 * and what attains the minimum is remembered. Chains, residual connections and whatever else is
 * series-parallel vanish that way, in time cubic in the options. Where every variable that is left
 * has three neighbours or more, one of them is given each of its options in turn: its edges become
 * its neighbours' own times, and (1) goes on.
 */
#ifndef WEFT_SEARCH_AUTODDL_ASSIGN_CORE_H
#define WEFT_SEARCH_AUTODDL_ASSIGN_CORE_H

#include "base/base.h"

struct core {
    int32_t variables;
    const int32_t *options;
    bool *gone;
    double **own;            /* per variable, then option */
    double **pair;           /* per two variables, a < b: per option of a, then b; NULL: no edge */
    const struct stop *stop; /* then the answer is of no use; NULL: never */
};
/* Without edges, and with no times of its own yet. */
struct core core_new(struct arena *scratch, int32_t variables, const int32_t *options);
/* Where the edge between two variables is, whichever comes first. */
double **core_pair(const struct core *core, int32_t a, int32_t b);
/* The least sum, and the options that attain it. Of the core nothing is left. */
double core_eliminate(struct arena *scratch, struct core *core, int32_t *option);
/* How many additions that takes; edges need no numbers. */
double core_work(struct arena *scratch, const struct core *core);

#endif
