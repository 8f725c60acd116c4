/* bench_autoddl.c - AutoDDL's figures, and how long the searches take.
 *
 * Without an argument: volumes and searches, half a minute. With `paper`: the end-to-end comparisons
 * of section 5 on Piz Daint and Google Cloud as the simulator has them, minutes; `paper FILE` takes a
 * cluster file in place of the preset piz-daint. Times of searches are of the processor, so that a busy
 * machine does not change them.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "search/search.h"

static double cpu_s(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

static void need(weft_status status)
{
    if (status == WEFT_OK)
        return;
    fprintf(stderr, "%s\n", weft_last_error()->message);
    exit(1);
}

/* ---- problems -------------------------------------------------------------------------------- */

struct lab {
    struct model *model;
    struct cluster *cluster;
    struct cost *cost;
    struct arena *keep;
};

static struct lab lab_open(const char *model, const char *options, const char *cluster)
{
    struct lab lab = {.keep = arena_new()};
    need(model_open(model, options, &lab.model));
    need(cluster_open(cluster, &lab.cluster));
    need(cost_open(&lab.cluster->node.device, NULL, &lab.cost));
    return lab;
}

static void lab_close(struct lab *lab)
{
    cost_close(lab->cost);
    cluster_free(lab->cluster);
    model_free(lab->model);
    arena_free(lab->keep);
}

static double memory_of(const struct lab *lab)
{
    const struct device *device = &lab->cluster->node.device;
    return (double)(device->memory_bytes - device->context_bytes);
}

static struct layout_problem *problem_of(const struct lab *lab, int64_t batch, int64_t step,
                                         enum layout_measure measure, uint8_t shard)
{
    bool fp32 = lab->cluster->node.device.flops[DTYPE_BF16] == 0;
    struct layout_case about = {.model = lab->model,
                                .cluster = lab->cluster,
                                .cost = lab->cost,
                                .dtype = fp32 ? DTYPE_FP32 : DTYPE_BF16,
                                .policy = fp32 ? POLICY_FP32 : POLICY_MIXED,
                                .global_batch = batch,
                                .batch_per_step = step,
                                .stages = 1,
                                .shard = shard,
                                .limit_bytes = INFINITY,
                                .measure = measure};
    struct layout_problem *p;
    need(layout_problem_new(&about, &p));
    return p;
}

static struct assigned solve(const struct lab *lab, const struct layout_problem *p,
                             enum assign_search search)
{
    struct assign_options options = {.search = search, .seed = 1};
    struct assigned found;
    assign_solve(p->assign, &options, lab->keep, &found);
    return found;
}

/* Options that `allowed` refuses take for ever. */
static void restrict_to(struct layout_problem *p,
                        bool (*allowed)(const struct op *, const struct split *, const void *),
                        const void *context)
{
    for (int32_t v = 0; v < p->assign->variables; v++)
        for (int32_t i = 0; i < p->assign->options[v]; i++)
            if (!allowed(&p->about.model->op[v], &p->splits[v].data[i], context))
                p->assign->time[v][i] = INFINITY;
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
    struct layout_problem *p = problem_of(&lab, 1024, 1024, LAYOUT_VOLUME, 0);
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

/* Both ends are spread over all devices; `context` says whether the sum may be split. */
static bool is_product(const struct op *op, const struct split *split, const void *context)
{
    const bool *three = context;
    bool spread = split_degree(split, SPLIT_COPY) == 1;
    return spread && (op->kind != OP_LINEAR || *three || split_degree(split, DIM_IN) == 1);
}

static double least_volume(const char *file, int64_t devices, bool three)
{
    char cluster[64];
    snprintf(cluster, sizeof cluster, "piz-daint:%lld", (long long)devices);
    struct lab lab = lab_open(file, NULL, cluster);
    struct layout_problem *p = problem_of(&lab, 16384, 16384, LAYOUT_VOLUME, 0);
    restrict_to(p, is_product, &three);
    double volume = solve(&lab, p, SEARCH_EXACT).time;
    layout_problem_free(p);
    lab_close(&lab);
    return volume;
}

/* Of log volume over log p, from entry `first` of p = 8, 16, ... on, by least squares. */
static double slope(const double *volume, int first)
{
    double x = 0, y = 0, xx = 0, xy = 0, n = 0;
    for (int i = first; i < 10; i++, n++) {
        double log_p = i + 3, log_v = log2(volume[i]);
        x += log_p;
        y += log_v;
        xx += log_p * log_p;
        xy += log_p * log_v;
    }
    return (n * xy - x * y) / (n * xx - x * x);
}

static void exponents(void)
{
    static const char *const TEXT =
        "name: product\n"
        "inputs: {x: [16384]}\n"
        "operators:\n"
        "  - {kind: linear, name: before, input: x, out: 16384, bias: false}\n"
        "  - {kind: dropout, name: between}\n"
        "  - {kind: linear, name: product, out: 16384, bias: false}\n"
        "  - {kind: dropout, name: behind}\n";
    char file[] = "/tmp/weft_product_XXXXXX.yaml";
    FILE *out = fdopen(mkstemps(file, 5), "w");
    if (!out || fputs(TEXT, out) < 0 || fclose(out) != 0)
        exit(1);
    printf("Volumes of two square products in a row, both ways and gradients, n = 16384:\n");
    for (int three = 0; three < 2; three++) {
        double volume[10];
        for (int i = 0; i < 10; i++)
            volume[i] = least_volume(file, INT64_C(8) << i, three);
        printf("  %s: p^%.3f over p = 8..4096, p^%.3f over 512..4096 (%s)\n",
               three ? "batch, out, in" : "batch, out    ", slope(volume, 0), slope(volume, 6),
               three ? "3-D: -2/3" : "2-D: -1/2");
    }
    remove(file);
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
                problem_of(&lab, CASES[i].batch, CASES[i].step, LAYOUT_TIME, 0);
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

/* The problem with a few options of each operator, spread over all: few enough to try every assignment.
 * Entries are found beforehand, so that times are those of searching alone. */
static struct assign *few_options(struct arena *keep, const struct assign *all, double most)
{
    int32_t *options = ARENA_ARRAY(keep, int32_t, (size_t)all->variables);
    int32_t(*ends)[2] = arena_alloc(keep, (size_t)all->edges, sizeof *ends);
    double count = 1;
    for (int32_t v = 0; v < all->variables; v++)
        options[v] = 1;
    for (int32_t round = 0; round < 8; round++) /* from the end: where the weights are */
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
        struct layout_problem *p = problem_of(&lab, CASES[i].batch, CASES[i].batch, LAYOUT_TIME, 0);
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

/* ---- section 5 ------------------------------------------------------------------------------- */

/* Nothing overlaps: what the paper saves in all is what it saves of communication times its share, so
 * nothing did there. *peak is the memory of a device. */
static double simulated(const struct lab *lab, const struct layout_problem *p,
                        const int32_t *option, double *peak)
{
    struct simulate_options options = {.fold = FOLD_ALWAYS, .cost = lab->cost};
    struct plan *plan;
    struct prediction *prediction;
    need(layout_plan(p, option, &plan));
    plan->overlap = 0;
    need(simulate(plan, &options, &prediction));
    double s = prediction->fits ? (double)prediction->iteration_ns / 1e9 : INFINITY;
    *peak = (double)prediction->stage[0].memory.peak; /* the only one */
    prediction_free(prediction);
    plan_free(plan);
    return s;
}

/* A mesh by hand: so many replicas of so many devices. */
struct mesh_2d {
    int64_t batch, rest;
    bool summa;
};

static bool is_image(const struct op *op)
{
    return op->kind == OP_CONV || op->output.axes == 4;
}

static bool on_mesh(const struct op *op, const struct split *split, const void *context)
{
    const struct mesh_2d *mesh = context;
    int64_t batch = split_degree(split, DIM_BATCH), devices = mesh->batch * mesh->rest;
    if (is_image(op) && op_find_dim(op->kind, DIM_HEAD) < 0 && op->kind != OP_SOFTMAX)
        return batch == devices;
    bool whole = op->kind == OP_ADD || op->kind == OP_LAYER_NORM;
    bool copies = split_degree(split, SPLIT_COPY) == mesh->rest;
    bool column =
        !mesh->summa || op->kind != OP_LINEAR || split_degree(split, DIM_OUT) == mesh->rest;
    return batch == mesh->batch && split_degree(split, DIM_SEQ) == 1 &&
           split->parts == (mesh->batch > 1) + (mesh->rest > 1) && column &&
           (mesh->summa || !whole || copies);
}

/* The best of a mesh that fits, as the planner finds it: what does not fit when simulated is solved
 * again with less memory to fill. */
static double best_of_mesh(const struct lab *lab, struct layout_problem *p)
{
    enum { RETRIES = 4 };
    static const double MARGIN = 0.99;
    double s = INFINITY, peak;
    p->assign->limit = memory_of(lab);
    for (int i = 0; i < RETRIES && isinf(s); i++) {
        struct assigned found = solve(lab, p, SEARCH_EXACT);
        if (!found.fits)
            break;
        s = simulated(lab, p, found.option, &peak);
        p->assign->limit *= MARGIN * memory_of(lab) / peak;
    }
    return s;
}

/* The best mesh and step by hand, each simulated. */
static double by_hand(const struct lab *lab, int64_t batch, bool summa)
{
    int64_t devices = cluster_devices(lab->cluster);
    double best = INFINITY;
    for (int64_t step = batch; step >= 1; step /= 2)
        for (int64_t d = 1; d <= devices && d <= step; d *= 2) {
            struct mesh_2d mesh = {d, devices / d, summa};
            struct layout_problem *p = problem_of(lab, batch, step, LAYOUT_TIME, summa ? 3 : 0);
            restrict_to(p, on_mesh, &mesh);
            best = fmin(best, best_of_mesh(lab, p));
            layout_problem_free(p);
        }
    return best;
}

static double by_planner(const struct lab *lab, const char *name, int64_t batch, int64_t pp)
{
    bool fp32 = lab->cluster->node.device.flops[DTYPE_BF16] == 0;
    struct plan_request request = {
        .model = lab->model,
        .cluster = lab->cluster,
        .pins = {.global_batch = batch,
                 .pp = pp,
                 .has_dtype = true,
                 .dtype = fp32 ? DTYPE_FP32 : DTYPE_BF16,
                 .has_recompute = true,
                 .has_overlap = true},
        .options = {.given = 1U << TAKES_SEARCH, .search = "exact"},
    };
    struct planned *planned;
    need(plan_search(planner_find(name), &request, &planned));
    const struct trial *best = &planned->trials.data[0];
    double s = best->fits ? (double)best->iteration_ns / 1e9 : INFINITY;
    planned_free(planned);
    return s;
}

/* piz-daint:64, or so many nodes of the file in its place. */
static const char *in_place(char text[256], const char *cluster, const char *file)
{
    const char *nodes = strchr(cluster, ':');
    if (!file || strncmp(cluster, "piz-daint", 9) != 0)
        return cluster;
    snprintf(text, 256, "%s%s", file, nodes);
    return text;
}

static void section_5(const char *file)
{
    static const struct {
        const char *model, *cluster;
        int64_t batch;
        double paper; /* saved of the end-to-end time, % */
        bool summa;
    } ROWS[] = {
        {"vgg-13", "piz-daint:16", 128, 3, false},
        {"vgg-13", "piz-daint:32", 256, 8.8, false},
        {"vgg-13", "piz-daint:64", 512, 17.7, false},
        {"autoddl-6.8b", "piz-daint:64", 1024, 12, true},
        {"autoddl-16.5b", "piz-daint:128", 1024, 36.1, true},
        {"autoddl-35.8b", "piz-daint:256", 1024, 31.1, true},
        {"autoddl-small", "gcp-a2-16:2", 2048, 0, false},
        {"autoddl-5.8b", "gcp-a2-16:2", 2048, 10, false},
    };
    printf("Section 5, s an iteration, simulated:\n  %-14s %-14s %9s %9s %9s %8s %8s\n", "model",
           "cluster", "Megatron", "Summa", "AutoDDL", "saved", "paper");
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        char text[256];
        struct lab lab = lab_open(ROWS[i].model, NULL, in_place(text, ROWS[i].cluster, file));
        double megatron = by_hand(&lab, ROWS[i].batch, false);
        double summa = ROWS[i].summa ? by_hand(&lab, ROWS[i].batch, true) : INFINITY;
        double ours = by_planner(&lab, "autoddl", ROWS[i].batch, 1);
        double best = megatron < summa ? megatron : summa;
        printf("  %-14s %-14s %9.4g %9.4g %9.4g %7.1f%% %7.1f%%\n", ROWS[i].model, ROWS[i].cluster,
               megatron, summa, ours, 100 * (1 - ours / best), ROWS[i].paper);
        fflush(stdout);
        lab_close(&lab);
    }
}

static void table_3(const char *file)
{
    static const struct {
        const char *model, *cluster;
        int64_t batch, paper_s;
    } ROWS[] = {{"autoddl-wide", "piz-daint:64", 512, 335},
                {"autoddl-wide", "piz-daint:128", 1024, 315},
                {"autoddl-deep", "piz-daint:64", 512, 443},
                {"autoddl-deep", "piz-daint:128", 1024, 508}};
    printf("\nTable 3, AutoDDL with 1, 2 and 4 stages, s an iteration, simulated:\n");
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        char text[256];
        struct lab lab = lab_open(ROWS[i].model, NULL, in_place(text, ROWS[i].cluster, file));
        printf("  %-14s %-14s", ROWS[i].model, ROWS[i].cluster);
        for (int64_t pp = 1; pp <= 4; pp *= 2)
            printf(" %9.4g", by_planner(&lab, "autoddl", ROWS[i].batch, pp));
        printf("   paper %lld\n", (long long)ROWS[i].paper_s);
        fflush(stdout);
        lab_close(&lab);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "paper") == 0) {
        section_5(argc > 2 ? argv[2] : NULL);
        table_3(argc > 2 ? argv[2] : NULL);
        return 0;
    }
    figure_3();
    exponents();
    against_all();
    searches();
    return 0;
}
