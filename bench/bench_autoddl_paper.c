/* bench_autoddl_paper.c - AutoDDL's section 5 on Piz Daint and Google Cloud, as the simulator has it.
 *
 * Minutes. An argument is a cluster file in place of the preset piz-daint, another a word that rows must
 * contain ("vgg"). The baselines are meshes by hand, q replicas of r devices, every mesh and step size
 * simulated under the same limit of memory:
 *
 *   Megatron   the r devices split features; gradients are summed over the q
 *   Summa      activations and weights lie in blocks on all q * r devices (Optimus); a product brings
 *              its rows' and columns' blocks together and sums gradients back. That moves what sharded
 *              weights (ZeRO 3) over the q and features over the r do, but by broadcasts, of n bytes
 *              where an all-gather of n over d devices moves (d - 1) / d * n:
 *
 *                T = computation + r / (r - 1) * T(features) + q / (q - 1) * T(weights)          (1)
 *
 * Nothing overlaps: what the paper saves in all is what it saves of communication times its share, so
 * nothing did there.
 */
#include <string.h>

#include "autoddl_lab.h"

struct timed {
    double s, compute_s;
    const char *how;
};

static double communication_s(const struct timed *timed)
{
    return timed->s - timed->compute_s;
}

/* A mesh by hand: so many replicas of so many devices. */
struct mesh_2d {
    int64_t batch, rest;
    bool summa;
    bool inside; /* the replicas are outermost: features are split within nodes */
};

/* (1) */
static double broadcasts_s(const struct mesh_2d *mesh, const int64_t *ns)
{
    double q = (double)mesh->batch, r = (double)mesh->rest;
    double features = r > 1 ? (double)ns[PURPOSE_TENSOR] / (r - 1) : 0;
    double weights = q > 1 ? (double)ns[PURPOSE_DATA] / (q - 1) : 0;
    return (features + weights) / 1e9;
}

/* *peak is the memory of a device of the fullest stage. `mesh` is NULL where nothing is by hand. */
static struct timed timed_plan(const struct lab *lab, struct plan *plan, const struct mesh_2d *mesh,
                               double *peak)
{
    struct simulate_options options = {.fold = FOLD_ALWAYS, .cost = lab->cost};
    struct prediction *prediction;
    struct timed timed = {.how = ""};
    plan->overlap = 0;
    need(simulate(plan, &options, &prediction));
    const int64_t *ns = prediction->stage[prediction->busiest].time_ns;
    timed.compute_s = (double)(ns[PURPOSE_FORWARD] + ns[PURPOSE_BACKWARD] + ns[PURPOSE_RECOMPUTE] +
                               ns[PURPOSE_OPTIMIZER]) /
                      1e9;
    timed.s = prediction->fits ? (double)prediction->iteration_ns / 1e9 : INFINITY;
    timed.s += mesh && mesh->summa ? broadcasts_s(mesh, ns) : 0;
    *peak = 0;
    for (int32_t i = 0; i < plan->stages; i++)
        *peak = fmax(*peak, (double)prediction->stage[i].memory.peak);
    prediction_free(prediction);
    return timed;
}

/* ---- by hand --------------------------------------------------------------------------------- */

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
    if (mesh->inside && batch > 1 && split->part[0].dim != DIM_BATCH)
        return false;
    return batch == mesh->batch && split_degree(split, DIM_SEQ) == 1 &&
           split->parts == (mesh->batch > 1) + (mesh->rest > 1) && column &&
           (mesh->summa || !whole || copies);
}

/* The best of a mesh that fits, as the planner finds it: what does not fit when simulated is solved
 * again with less memory to fill. */
static struct timed best_of_mesh(const struct lab *lab, struct layout_problem *p,
                                 const struct mesh_2d *mesh)
{
    enum { RETRIES = 4 };
    static const double MARGIN = 0.99;
    struct timed timed = {.s = INFINITY};
    p->assign->limit = memory_of(lab);
    for (int i = 0; i < RETRIES && isinf(timed.s); i++) {
        struct assigned found = solve(lab, p, SEARCH_EXACT);
        struct plan *plan;
        double peak;
        if (!found.fits)
            break;
        need(layout_plan(p, found.option, &plan));
        timed = timed_plan(lab, plan, mesh, &peak);
        plan_free(plan);
        p->assign->limit *= MARGIN * memory_of(lab) / peak;
    }
    return timed;
}

/* The best mesh and step by hand on so many stages; where nodes have several devices, features are split
 * within them only (AutoDDL, section 5). */
static struct timed by_hand(const struct lab *lab, int64_t batch, int32_t stages, bool summa)
{
    int64_t devices = cluster_devices(lab->cluster) / stages;
    bool inside = lab->cluster->node.devices > 1;
    int64_t least = inside ? ceil_div(devices, lab->cluster->node.devices) : 1;
    struct timed best = {.s = INFINITY, .how = ""};
    for (int64_t step = batch / stages; step >= 1; step /= 2)
        for (int64_t d = least; d <= devices && d <= step; d *= 2) {
            struct mesh_2d mesh = {d, devices / d, summa, inside};
            struct layout_problem *p =
                problem_of(lab, batch, step, stages, LAYOUT_TIME, summa ? 3 : 0);
            restrict_to(p, on_mesh, &mesh);
            struct timed timed = best_of_mesh(lab, p, &mesh);
            timed.how = arena_printf(lab->keep, "%lld x %lld, %lld", (long long)mesh.batch,
                                     (long long)mesh.rest, (long long)step);
            best = timed.s < best.s ? timed : best;
            layout_problem_free(p);
        }
    return best;
}

static struct timed by_planner(const struct lab *lab, int64_t batch, int64_t pp)
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
    double peak;
    need(plan_search(planner_find("autoddl"), &request, &planned));
    struct timed timed = timed_plan(lab, planned->trials.data[0].plan, NULL, &peak);
    if (planned->reasons.len > 0)
        timed.how = arena_printf(lab->keep, "%s", planned->reasons.data[0]);
    planned_free(planned);
    return timed;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* piz-daint:64, or so many nodes of the file in its place. */
static const char *in_place(char text[256], const char *cluster, const char *file)
{
    const char *nodes = strchr(cluster, ':');
    if (!file || strncmp(cluster, "piz-daint", 9) != 0)
        return cluster;
    snprintf(text, 256, "%s%s", file, nodes);
    return text;
}

/* What the arguments ask for. */
struct asked {
    const char *file, *word;
};

static bool is_asked(const struct asked *asked, const char *model, const char *cluster)
{
    return !asked->word || strstr(model, asked->word) || strstr(cluster, asked->word);
}

static double saved(double ours, double theirs)
{
    return 100 * (1 - ours / theirs);
}

static void section_5(const struct asked *asked)
{
    static const struct {
        const char *model, *cluster;
        int64_t batch;
        double paper, paper_sent; /* saved of the end-to-end time and of communication, % */
        bool summa;
    } ROWS[] = {
        {"vgg-13", "piz-daint:16", 128, 3, 10, false},
        {"vgg-13", "piz-daint:32", 256, 8.8, 18, false},
        {"vgg-13", "piz-daint:64", 512, 17.7, 29, false},
        {"autoddl-6.8b", "piz-daint:64", 1024, 12, 23.9, true},
        {"autoddl-16.5b", "piz-daint:128", 1024, 36.1, 46.4, true},
        {"autoddl-35.8b", "piz-daint:256", 1024, 31.1, 35.3, true},
        {"vgg-13", "gcp-a2-16:2x4", 128, 71.5, 84.7, false},
        {"vgg-13", "gcp-a2-16:2x8", 256, 63.5, 77.7, false},
        {"autoddl-small", "gcp-a2-16:2", 2048, 0, 0, false},
        {"autoddl-5.8b", "gcp-a2-16:2", 2048, 10, 21.6, false},
    };
    printf(
        "Section 5, s an iteration, simulated; saved in all and of communication, %%; the share of "
        "communication\nin the better mesh's time, %%\n"
        "  %-14s %-14s %8s %8s %8s %6s %6s %6s %6s %6s %6s\n",
        "model", "cluster", "Megatron", "Summa", "AutoDDL", "saved", "paper", "comm.", "paper",
        "share", "paper");
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        char text[256];
        if (!is_asked(asked, ROWS[i].model, ROWS[i].cluster))
            continue;
        struct lab lab =
            lab_open(ROWS[i].model, NULL, in_place(text, ROWS[i].cluster, asked->file));
        struct timed megatron = by_hand(&lab, ROWS[i].batch, 1, false), summa = {.s = INFINITY};
        if (ROWS[i].summa)
            summa = by_hand(&lab, ROWS[i].batch, 1, true);
        struct timed ours = by_planner(&lab, ROWS[i].batch, 1);
        struct timed best = megatron.s < summa.s ? megatron : summa;
        printf("  %-14s %-14s %8.4g %8.4g %8.4g %6.1f %6.1f %6.1f %6.1f %6.0f %6.0f\n",
               ROWS[i].model, ROWS[i].cluster, megatron.s, summa.s, ours.s, saved(ours.s, best.s),
               ROWS[i].paper, saved(communication_s(&ours), communication_s(&best)),
               ROWS[i].paper_sent, 100 * communication_s(&best) / best.s,
               ROWS[i].paper_sent > 0 ? 100 * ROWS[i].paper / ROWS[i].paper_sent : 0);
        printf("    replicas x devices, step: Megatron %s; Summa %s\n    AutoDDL %s\n",
               megatron.how, ROWS[i].summa ? summa.how : "not tried", ours.how);
        fflush(stdout);
        lab_close(&lab);
    }
}

static void table_3(const struct asked *asked)
{
    enum { MOST_STAGES = 4 };
    static const struct {
        const char *model, *cluster;
        int64_t batch, megatron_s, autoddl_s;
    } ROWS[] = {{"autoddl-wide", "piz-daint:64", 512, 533, 335},
                {"autoddl-wide", "piz-daint:128", 1024, 503, 315},
                {"autoddl-deep", "piz-daint:64", 512, 710, 443},
                {"autoddl-deep", "piz-daint:128", 1024, 807, 508}};
    printf(
        "\nTable 3, s an iteration on so many stages, simulated; the paper has the best of all:\n"
        "  %-14s %-14s %6s %9s %9s %9s %9s\n",
        "model", "cluster", "stages", "Megatron", "paper", "AutoDDL", "paper");
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        char text[256];
        if (!is_asked(asked, ROWS[i].model, ROWS[i].cluster))
            continue;
        struct lab lab =
            lab_open(ROWS[i].model, NULL, in_place(text, ROWS[i].cluster, asked->file));
        for (int32_t stages = 1; stages <= MOST_STAGES; stages *= 2) {
            struct timed megatron = by_hand(&lab, ROWS[i].batch, stages, false);
            printf("  %-14s %-14s %6d %9.4g %9lld %9.4g %9lld\n", ROWS[i].model, ROWS[i].cluster,
                   stages, megatron.s, (long long)ROWS[i].megatron_s,
                   by_planner(&lab, ROWS[i].batch, stages).s, (long long)ROWS[i].autoddl_s);
            fflush(stdout);
        }
        lab_close(&lab);
    }
}

int main(int argc, char **argv)
{
    struct asked asked = {0};
    for (int i = 1; i < argc; i++)
        *(strstr(argv[i], ".yaml") ? &asked.file : &asked.word) = argv[i];
    section_5(&asked);
    table_3(&asked);
    return 0;
}
