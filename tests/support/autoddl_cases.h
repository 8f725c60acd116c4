/* autoddl_cases.h - problems of splits that tests and benches of the planner autoddl have in common. */
#ifndef WEFT_TESTS_AUTODDL_CASES_H
#define WEFT_TESTS_AUTODDL_CASES_H

#include <string.h>

#include "search/search.h"

/* ---- all assignments ------------------------------------------------------------------------- */

/* The problem with a few options of each operator, spread over all: at most so many assignments, to try
 * every one. Entries are found here, so that a search of it does nothing but search. */
static inline struct assign *few_options(struct arena *keep, const struct assign *all, double most)
{
    enum { MOST_OPTIONS = 9 };
    int32_t *options = ARENA_ARRAY(keep, int32_t, (size_t)all->variables);
    int32_t(*ends)[2] = arena_alloc(keep, (size_t)all->edges, sizeof *ends);
    double count = 1;
    for (int32_t v = 0; v < all->variables; v++)
        options[v] = 1;
    for (int32_t round = 1; round < MOST_OPTIONS; round++) /* from the end: where the weights are */
        for (int32_t v = all->variables - 1; v >= 0; v--)
            if (options[v] < all->options[v] && count / options[v] * (options[v] + 1) <= most)
                count = count / options[v] * (options[v] + 1), options[v]++;
    for (int32_t e = 0; e < all->edges; e++) {
        ends[e][0] = all->edge[e].a;
        ends[e][1] = all->edge[e].b;
    }
    struct assign *p =
        assign_new(keep, all->variables, options, all->edges, (const int32_t(*)[2])ends);
    for (int32_t v = 0; v < all->variables; v++)
        for (int32_t i = 0; i < options[v]; i++) {
            p->time[v][i] = all->time[v][i * all->options[v] / options[v]];
            p->memory[v][i] = all->memory[v][i * all->options[v] / options[v]];
        }
    for (int32_t e = 0; e < all->edges; e++) {
        int32_t a = all->edge[e].a, b = all->edge[e].b;
        for (int32_t i = 0; i < options[a] * options[b]; i++)
            p->edge[e].time[i] =
                assign_pair_time(all, e, i / options[b] * all->options[a] / options[a],
                                 i % options[b] * all->options[b] / options[b]);
    }
    return p;
}

/* ---- what a product moves -------------------------------------------------------------------- */

/* On p = b * o * i devices, b over its rows, o over its columns and i over its sum, an n x n product
 * with both ends spread over all devices gathers its input over o and sums its output over i, does the
 * same backwards, and sums the gradients of its weights over b. A device moves
 *
 *   2 n^2 ((o - 1) / o / (b i) + (i - 1) / i / (b o) + (b - 1) / b / (o i))
 *     = 2 n^2 (b + o + i - 3) / p                                                              (1)
 *
 * elements. With b = o = q and i = 1 that is 4 n^2 / p^(1/2) * (q - 1) / q, and with b = o = i = q
 * 6 n^2 / p^(2/3) * (q - 1) / q.                                                               (2) */
struct product {
    int64_t batch, out, in;
    double elements;
};

/* The least of (1) for p = 2^log2_p, its sum split or not. */
static inline struct product product_formula(int log2_p, bool three, double n)
{
    struct product best = {.elements = INFINITY};
    for (int b = 0; b <= log2_p; b++)
        for (int o = 0; o + b <= log2_p; o++) {
            struct product it = {INT64_C(1) << b, INT64_C(1) << o, INT64_C(1) << (log2_p - b - o),
                                 0};
            it.elements = 2 * n * n * (double)(it.batch + it.out + it.in - 3) / exp2(log2_p);
            if (it.elements < best.elements && (three || it.in == 1))
                best = it;
        }
    return best;
}

/* data/models/square-product.yaml by volume: only its second product counts, both ends of which are
 * spread; the sum may be split or not. */
static inline void count_product(struct layout_problem *p, bool three)
{
    const struct model *model = p->about.model;
    for (int32_t v = 0; v < model->ops; v++)
        for (int32_t i = 0; i < p->assign->options[v]; i++) {
            const struct split *split = &p->splits[v].data[i];
            bool linear = model->op[v].kind == OP_LINEAR;
            if (split_degree(split, SPLIT_COPY) > 1 ||
                (linear && !three && split_degree(split, DIM_IN) > 1))
                p->assign->time[v][i] = INFINITY;
            else if (strcmp(model->op[v].name, "before") == 0)
                p->assign->time[v][i] = 0;
        }
    for (int32_t e = 0; e < p->assign->edges; e++) {
        const struct assign_edge *edge = &p->assign->edge[e];
        int32_t entries = p->assign->options[edge->a] * p->assign->options[edge->b];
        if (strcmp(model->op[edge->a].name, "before") == 0)
            for (int32_t i = 0; i < entries; i++)
                edge->time[i] = 0;
    }
}

/* The split of the second product in an assignment of that problem. */
static inline struct product product_found(const struct layout_problem *p,
                                           const struct assigned *found)
{
    struct product it = {.elements = found->time};
    for (int32_t v = 0; v < p->about.model->ops; v++)
        if (strcmp(p->about.model->op[v].name, "product") == 0) {
            const struct split *split = &p->splits[v].data[found->option[v]];
            it.batch = split_degree(split, DIM_BATCH);
            it.out = split_degree(split, DIM_OUT);
            it.in = split_degree(split, DIM_IN);
        }
    return it;
}

#endif
