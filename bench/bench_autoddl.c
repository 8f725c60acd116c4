/* bench_autoddl.c - AutoDDL's figures, and how long the searches take.
 *
 * Half a minute; `figure-3` prints that figure alone. Times of searches are of the processor, so that a
 * busy machine does not change them.
 */
#include <string.h>
#include <time.h>

#include "../tests/support/autoddl_cases.h"
#include "autoddl_lab.h"

static double cpu_s(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

/* ---- Figure 3 -------------------------------------------------------------------------------- */

static bool no_copies_at_ends(const struct op *op, const struct split *split, const void *context)
{
    (void)context;
    return op->kind != OP_DROPOUT || split_degree(split, SPLIT_COPY) == 1;
}

/* Megatron's 16-way tensor parallelism of 4 replicas. */
static bool is_megatron_16(const struct op *op, const struct split *split, const void *context)
{
    bool rest = op->kind == OP_DROPOUT ? split_degree(split, DIM_BATCH) == 64
                                       : split_degree(split, DIM_BATCH) == 4 && split->parts == 2;
    bool column = strcmp(op->name, "qkv") != 0 || split_degree(split, DIM_OUT) == 16;
    bool row = strcmp(op->name, "proj") != 0 || split_degree(split, DIM_IN) == 16;
    (void)context;
    return rest && column && row;
}

/* The forward pass alone, and of memory the weights: a sixteenth on each device. */
static void count_forward(struct layout_problem *p)
{
    double parameters = 0;
    for (int32_t v = 0; v < p->assign->variables; v++) {
        const struct op *op = &p->about.model->op[v];
        parameters += op_parameters(op);
        for (int32_t i = 0; i < p->assign->options[v]; i++) {
            double share = (double)split_replicas(op, &p->splits[v].data[i]) / 64;
            p->assign->time[v][i] = 0;
            p->assign->memory[v][i] = op_parameters(op) * share;
        }
    }
    for (int32_t e = 0; e < p->assign->edges; e++) {
        const struct assign_edge *edge = &p->assign->edge[e];
        int32_t wide = p->assign->options[edge->b];
        for (int32_t i = 0; i < p->assign->options[edge->a] * wide; i++)
            edge->time[i] = layout_edge_cost(p, e, i / wide, i % wide).there;
    }
    p->assign->limit = parameters / 16;
}

static void figure_3(void)
{
    struct lab lab =
        lab_open(WEFT_SOURCE_DIR "/data/models/attention-layer.yaml", NULL, "piz-daint:64");
    struct layout_problem *p = problem_of(&lab, 1024, 1024, 1, LAYOUT_VOLUME, 0);
    double unit = 1024.0 * 1024 * 8192 / 384;
    count_forward(p);
    restrict_to(p, no_copies_at_ends, NULL);
    struct assigned ours = solve(&lab, p, SEARCH_EXACT);
    printf("Figure 3, an attention layer on 64 nodes, weights a sixteenth on each:\n");
    for (int32_t v = 0; v < p->assign->variables; v++)
        printf("  %-10s %s\n", lab.model->op[v].name,
               split_text(lab.keep, &p->splits[v].data[ours.option[v]]));
    restrict_to(p, is_megatron_16, NULL);
    struct assigned theirs = solve(&lab, p, SEARCH_EXACT);
    printf("  communication %.0f (%s), Megatron's %.0f; the paper has 96 and 180\n\n",
           ours.time / unit, ours.bound >= ours.time * (1 - 1e-9) ? "proved least" : "not proved",
           theirs.time / unit);
    layout_problem_free(p);
    lab_close(&lab);
}

/* ---- volumes of products --------------------------------------------------------------------- */

enum { FIRST_LOG2 = 3, LAST_LOG2 = 12, PRODUCT_SIZE = 16384 };

static struct product least_product(int log2_p, bool three)
{
    char cluster[64];
    snprintf(cluster, sizeof cluster, "piz-daint:%d", 1 << log2_p);
    struct lab lab = lab_open(WEFT_SOURCE_DIR "/data/models/square-product.yaml", NULL, cluster);
    struct layout_problem *p = problem_of(&lab, PRODUCT_SIZE, PRODUCT_SIZE, 1, LAYOUT_VOLUME, 0);
    count_product(p, three);
    struct assigned found = solve(&lab, p, SEARCH_EXACT);
    struct product product = product_found(p, &found);
    layout_problem_free(p);
    lab_close(&lab);
    return product;
}

/* Of log volume over log p by least squares, for p = 2^log2_p with step between them. */
static double slope(const double *volume, int step)
{
    double x = 0, y = 0, xx = 0, xy = 0, n = 0;
    for (int k = FIRST_LOG2; k <= LAST_LOG2; k++) {
        double log_v = log2(volume[k]);
        if (k % step)
            continue;
        x += k;
        y += log_v;
        xx += (double)k * k;
        xy += k * log_v;
        n++;
    }
    return (n * xy - x * y) / (n * xx - x * x);
}

/* autoddl_cases.h, (1) and (2). */
static void exponents(void)
{
    printf("What a device moves for a product of n = %d, both ways and gradients, in n^2: found by "
           "the\n"
           "exact search, and 2 (b + o + i - 3) / p\n",
           PRODUCT_SIZE);
    for (int three = 0; three < 2; three++) {
        double volume[LAST_LOG2 + 1], whole[LAST_LOG2 + 1], square = pow(PRODUCT_SIZE, 2);
        int roots = three ? 3 : 2, equal = 0;
        for (int k = FIRST_LOG2; k <= LAST_LOG2; k++) {
            struct product found = least_product(k, three);
            struct product formula = product_formula(k, three, PRODUCT_SIZE);
            double q = exp2((double)k / roots);
            volume[k] = found.elements;
            whole[k] = found.elements * q / (q - 1);
            equal += fabs(found.elements - formula.elements) <= 1e-12 * formula.elements;
            printf("  p = %4d  batch:%-3lld out:%-3lld in:%-3lld %.6f  %.6f\n", 1 << k,
                   (long long)found.batch, (long long)found.out, (long long)found.in,
                   found.elements / square, formula.elements / square);
        }
        printf(
            "  %d-D: equal for %d of %d p. p^%.4f over all of them; divided by (q - 1) / q of the "
            "finite\n  mesh, over p = q^%d: p^%.4f (-%d/%d)\n",
            roots, equal, LAST_LOG2 - FIRST_LOG2 + 1, slope(volume, 1), roots, slope(whole, roots),
            roots - 1, roots);
    }
    printf("\n");
}

/* ---- searches -------------------------------------------------------------------------------- */

static void searches(void)
{
    static const struct {
        const char *model, *cluster;
        int64_t batch, step;
        bool limited;
    } CASES[] = {
        {"alexnet", "piz-daint:16", 128, 128, false},
        {"alexnet", "piz-daint:64", 512, 512, false},
        {"vgg-13", "piz-daint:32", 256, 256, true},
        {"dlrm", "piz-daint:32", 2048, 2048, true},
        {"autoddl-35.8b", "piz-daint:256", 1024, 64, true},
        {"t5-large-32", "piz-daint:64", 512, 64, true},
        {"autoddl-5.8b", "gcp-a2-16:2", 2048, 64, true},
        {"autoddl-35.8b", "piz-daint:4096", 4096, 512, true},
    };
    printf("Searches, s of one core; what is found against the proved optimum:\n"
           "  %-14s %-15s %9s %6s %7s %7s %7s %7s %7s\n",
           "model", "cluster", "exact s", "proved", "cd s", "cd", "mh s", "mh", "random");
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct lab lab = lab_open(CASES[i].model, NULL, CASES[i].cluster);
        double time[SEARCH_COUNT] = {0}, took[SEARCH_COUNT] = {0}, bound = 0;
        for (int s = 0; s < SEARCH_COUNT; s++) { /* each from nothing */
            if (s == SEARCH_EXHAUSTIVE)
                continue;
            double begin = cpu_s();
            struct layout_problem *p =
                problem_of(&lab, CASES[i].batch, CASES[i].step, 1, LAYOUT_TIME, 0);
            if (CASES[i].limited)
                p->assign->limit = memory_of(&lab);
            struct assigned found = solve(&lab, p, (enum assign_search)s);
            took[s] = cpu_s() - begin;
            time[s] = found.fits ? found.time : INFINITY;
            bound = s == SEARCH_EXACT ? found.bound : bound;
            layout_problem_free(p);
        }
        double best = time[SEARCH_EXACT];
        printf("  %-14s %-15s %9.2f %6s %7.2f %6.1f%% %7.2f %6.1f%% %6.0f%%\n", CASES[i].model,
               CASES[i].cluster, took[SEARCH_EXACT], bound >= best * (1 - 1e-6) ? "yes" : "no",
               took[SEARCH_CD], 100 * (time[SEARCH_CD] / best - 1), took[SEARCH_MH],
               100 * (time[SEARCH_MH] / best - 1), 100 * (time[SEARCH_RANDOM] / best - 1));
        fflush(stdout);
        lab_close(&lab);
    }
    printf("\n");
}

/* Figure 7. */
static void against_all(void)
{
    static const struct {
        const char *model, *cluster;
        int64_t batch;
    } CASES[] = {{"alexnet", "piz-daint:16", 128},
                 {"vgg-13", "piz-daint:32", 256},
                 {"autoddl-6.8b", "piz-daint:64", 64},
                 {"dlrm", "piz-daint:32", 2048}};
    static const double MOST = 4e6;
    printf("Coordinate descent against all assignments of a few options each (searching alone):\n"
           "  %-14s %-15s %11s %9s %9s %7s %9s\n",
           "model", "cluster", "assignments", "all s", "cd s", "ratio", "cd slower");
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct lab lab = lab_open(CASES[i].model, NULL, CASES[i].cluster);
        struct layout_problem *p =
            problem_of(&lab, CASES[i].batch, CASES[i].batch, 1, LAYOUT_TIME, 0);
        struct assign *few = few_options(lab.keep, p->assign, MOST);
        struct assign_options options = {.search = SEARCH_EXHAUSTIVE, .seed = 1};
        struct assigned all, descent;
        double begin = cpu_s();
        assign_solve(few, &options, lab.keep, &all);
        double between = cpu_s();
        options.search = SEARCH_CD;
        assign_solve(few, &options, lab.keep, &descent);
        double end = cpu_s();
        printf("  %-14s %-15s %11.0f %9.4f %9.4f %6.2f%% %8.2f%%\n", CASES[i].model,
               CASES[i].cluster, assign_count(few), between - begin, end - between,
               100 * (end - between) / (between - begin), 100 * (descent.time / all.time - 1));
        fflush(stdout);
        layout_problem_free(p);
        lab_close(&lab);
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    figure_3();
    if (argc > 1 && strcmp(argv[1], "figure-3") == 0)
        return 0;
    exponents();
    against_all();
    searches();
    return 0;
}
