/* assign_core.h - inside assign: the least sum of the costs of variables and edges, found by eliminating
 * variables one by one.
 *
 * A variable v with at most two neighbours a and b leaves the graph by
 *
 *   t'_ab(j, k) = t_ab(j, k) + min_i { t_v(i) + t_va(i, j) + t_vb(i, k) }                      (1)
 *
 * and the option that attains the minimum is remembered. Chains, residual connections and all other
 * series-parallel graphs vanish that way, in time cubic in the options. If every remaining variable
 * has three neighbours or more, one of them is given each of its options in turn: its edges become
 * its neighbours' own times, and elimination by (1) continues with a core of those that are left.
 */
#ifndef WEFT_SEARCH_AUTODDL_ASSIGN_CORE_H
#define WEFT_SEARCH_AUTODDL_ASSIGN_CORE_H

#include "search/autoddl/work.h"

/* The first three neighbours of a variable, and how many it has. */
struct core_near {
    bool known;
    int32_t count, first[3];
};
struct core {
    int32_t variables;
    const int32_t *options;
    bool *gone;
    double **own;             /* per variable, then option */
    double **pair;            /* per two variables, a < b: per option of a, then b; NULL: no edge */
    struct core_near *near;   /* per variable: known until one of its edges comes or goes */
    struct assign_work *work; /* if it is over, the answer is of no use */
};
/* A core without edges, and without times of variables. */
struct core core_new(struct arena *scratch, int32_t variables, const int32_t *options,
                     struct assign_work *work);
/* The place of the edge between two variables, in either order. */
double **core_pair(const struct core *core, int32_t a, int32_t b);
/* The least sum, and the options that attain it. Uses up the core. */
double core_eliminate(struct arena *scratch, struct core *core, int32_t *option);
/* The least sum with each option of one variable, and the options of all that attain it. Uses up the core. */
void core_eliminate_but(struct arena *scratch, struct core *core, int32_t keep, double *least,
                        int32_t **option);
/* The number of additions that takes; edges need no numbers. Uses up the core. */
double core_work(struct core *core);

#endif
