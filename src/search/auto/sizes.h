/* sizes.h - how many nodes a training run needs: a search per size of the cluster.
 *
 *   time   of N samples = N * iteration / global batch                                          (1)
 *   money  per sample   = price of a device per hour / 3600 s * devices * iteration / global batch (2)
 *
 * The sizes tried are powers of two and the largest allowed; between the last one that is too small
 * and the first that is not, also the eighths between them.
 *
 *   I1  The answer is the smallest size that fits and meets the deadline, if there is one, by (1);
 *       or the cheapest by (2); or the one that the caller scores lowest. If none does, it is the one that comes nearest by (1), or the
 *       largest.
 *   I2  A search that is stopped ends with the sizes tried so far.
 *   I3  Sizes are compared by quick searches (plan_options); the chosen size is searched in full.
 */
#ifndef WEFT_SEARCH_AUTO_SIZES_H
#define WEFT_SEARCH_AUTO_SIZES_H

#include "search/planner/planner.h"

enum size_goal { SIZE_SMALLEST, SIZE_CHEAPEST, SIZE_LOWEST };

struct size_request {
    const struct planner *planner;
    struct plan_request plan; /* its cluster is not used */
    enum size_goal goal;
    int64_t most_nodes;
    double samples, deadline_s; /* for the whole training run; 0: none */
    weft_status (*open)(void *context, int64_t nodes, struct cluster **out);
    /* For SIZE_LOWEST: what the best plan of a size is to be judged by. */
    weft_status (*score)(void *context, const struct cluster *cluster, const struct trial *best,
                         double *out);
    void *context;
};
struct size {
    int64_t nodes, devices;
    bool fits, does; /* does: satisfies everything the user asked for */
    double iteration_s, samples_per_s;
    double training_s;       /* (1); 0: the number of samples is unknown */
    double money_per_sample; /* (2), in the cluster file's money; 0: no price is known */
    double score;            /* of the caller; 0: nobody asked for one */
};
struct sized {
    struct arena *arena;
    ARRAY(struct size) sizes; /* by nodes */
    size_t chosen;
    /* The cluster of that size and what was found on it; the caller frees the latter first. */
    struct cluster *cluster;
    struct planned *planned;
};
weft_status size_search(const struct size_request *request, struct sized **out);
/* Frees everything except what the caller has taken and set to NULL. */
void sized_free(struct sized *sized);

#endif
