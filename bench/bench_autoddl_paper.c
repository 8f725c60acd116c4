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
 * nothing did there; and OneFlow's GPT puts NCCL on the stream of operators (nccl_use_compute_stream).
 *
 *   I1  Where the paper says in how many parts weights lay, all contenders have them so: "the model is
 *       large and requires more than 16 nodes to carry the model weights" (section 1, on Figure 3).
 *       Elsewhere memory decides.
 *   I2  In a pipeline of S stages, every stage but the last holds what it keeps of 2 S micro-batches:
 *       OneFlow gives each tensor from forward to backward a buffer of that size, once and for all
 *       (Oneflow-Inc/oneflow, pipeline_buffer_pass.cpp).
 */
#include <string.h>

#include "autoddl_lab.h"

struct timed_row {
    double s, compute_s;
    const char *how;
};

static double communication_s(const struct timed_row *timed)
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

/* ---- memory ---------------------------------------------------------------------------------- */

/* I2: beyond the micro-batches that 1f1b has in flight, of a stage's device. */
static double buffers_bytes(const struct plan *plan, int32_t stage)
{
    int64_t in_flight = plan->stages - stage;
    if (stage + 1 == plan->stages)
        return 0;
    return plan_stage_memory(plan, stage, 2 * plan->stages - in_flight).activations;
}

/* The same in the problem's table, where memory is state + in_flight * kept of an average stage. */
static void count_buffers(struct layout_problem *p)
{
    static const double STATE_BYTES = 16; /* of a parameter, in fp32 and in mixed precision */
    double stages = p->about.stages;
    for (int32_t v = 0; v < p->assign->variables && stages > 1; v++)
        for (int32_t i = 0; i < p->assign->options[v]; i++) {
            const struct op *op = &p->about.model->op[v];
            int64_t local[OP_MAX_DIMS];
            double state = 0, of_stage = (double)op_copies(p->about.model, op) / stages;
            split_local(op, &p->splits[v].data[i], p->about.step_samples, local);
            for (int32_t k = 0; k < op->weights; k++)
                state += STATE_BYTES * operand_elements(op, &op->weight[k].operand, local);
            double kept = fmax(0, p->assign->memory[v][i] - of_stage * state) / stages;
            p->assign->memory[v][i] += stages * kept; /* 2 S of them */
        }
}

static double held_bytes(const struct prediction *prediction)
{
    double most = 0;
    for (int32_t i = 0; i < prediction->plan->stages; i++)
        most = fmax(most,
                    (double)prediction->stage[i].memory.peak + buffers_bytes(prediction->plan, i));
    return most;
}

/* *held is the memory of a device of the fullest stage. `mesh` is NULL where nothing is by hand. */
static struct timed_row timed_plan(const struct lab *lab, struct plan *plan,
                                   const struct mesh_2d *mesh, double *held)
{
    struct simulate_options options = {.fold = FOLD_ALWAYS, .cost = lab->cost};
    struct prediction *prediction;
    struct timed_row timed = {.how = ""};
    plan->overlap = 0;
    need(simulate(plan, &options, &prediction));
    const int64_t *ns = prediction->stage[prediction->busiest].time_ns;
    timed.compute_s = (double)(ns[PURPOSE_FORWARD] + ns[PURPOSE_BACKWARD] + ns[PURPOSE_RECOMPUTE] +
                               ns[PURPOSE_OPTIMIZER]) /
                      1e9;
    *held = held_bytes(prediction);
    timed.s = *held <= memory_of(lab) ? (double)prediction->iteration_ns / 1e9 : INFINITY;
    timed.s += mesh && mesh->summa ? broadcasts_s(mesh, ns) : 0;
    prediction_free(prediction);
    return timed;
}

/* ---- by hand --------------------------------------------------------------------------------- */

/* Of four axes are images, and scores of attention. */
static bool is_image(const struct op *op)
{
    bool scores =
        op_find_dim(op->kind, DIM_HEAD) >= 0 || op->kind == OP_SOFTMAX || op->kind == OP_DROPOUT;
    return op->kind == OP_CONV || (op->output.axes == 4 && !scores);
}

/* Megatron's devices all have these whole: what lies between two layers. */
static bool is_between(const struct op *op)
{
    return op->kind == OP_ADD || op->kind == OP_DROPOUT_ADD || op->kind == OP_LAYER_NORM ||
           (op->kind == OP_DROPOUT && op->output.axes == 3);
}

static bool on_mesh(const struct op *op, const struct split *split, const void *context)
{
    const struct mesh_2d *mesh = context;
    int64_t batch = split_degree(split, DIM_BATCH), devices = mesh->batch * mesh->rest;
    if (is_image(op))
        return batch == devices;
    bool copies = split_degree(split, SPLIT_COPY) == mesh->rest;
    bool column =
        !mesh->summa || op->kind != OP_LINEAR || split_degree(split, DIM_OUT) == mesh->rest;
    if (mesh->inside && batch > 1 && split->part[0].dim != DIM_BATCH)
        return false;
    return batch == mesh->batch && split_degree(split, DIM_SEQ) == 1 &&
           split->parts == (mesh->batch > 1) + (mesh->rest > 1) && column &&
           (mesh->summa || !is_between(op) || copies);
}

/* The splits of operators with weights, in a line. */
static const char *splits_text(struct arena *keep, const struct plan *plan)
{
    struct plan_runs runs = {0};
    const char *text = "";
    plan_fold(keep, plan, &runs);
    for (size_t i = 0; i < runs.len; i++) {
        const struct op *op = &plan->model->op[plan->instance[runs.data[i].first].op];
        if (op->weights > 0)
            text = arena_printf(keep, "%s%s%s %s", text, *text ? ", " : "", op->name,
                                split_text(keep, &plan->choice[runs.data[i].choice].split));
    }
    return text;
}

/* The best of the problem that fits, as the planner finds it: what does not fit when simulated is
 * solved again with less memory to fill. */
static struct timed_row best_of(const struct lab *lab, struct layout_problem *p,
                                const struct mesh_2d *mesh)
{
    enum { RETRIES = 4 };
    static const double MARGIN = 0.99;
    struct timed_row timed = {.s = INFINITY};
    p->assign->limit = memory_of(lab);
    count_buffers(p);
    for (int i = 0; i < RETRIES && isinf(timed.s); i++) {
        struct assigned found = solve(lab, p, SEARCH_EXACT);
        struct plan *plan;
        double held;
        if (!found.fits)
            break;
        need(layout_plan(p, found.option, &plan));
        timed = timed_plan(lab, plan, mesh, &held);
        timed.how = splits_text(lab->keep, plan);
        plan_free(plan);
        p->assign->limit *= MARGIN * memory_of(lab) / held;
    }
    return timed;
}

/* I1: in how many parts weights lie at least; a norm's few lie everywhere. */
static bool in_parts(const struct op *op, const struct split *split, const void *context)
{
    int64_t parts = *(const int64_t *)context;
    return op->weights == 0 || op->kind == OP_LAYER_NORM ||
           split_devices(split) / split_replicas(op, split) >= parts;
}

/* What the contenders are given: a batch, stages, and I1's parts. */
struct contest {
    int64_t batch;
    int32_t stages;
    int64_t parts;
};

/* The best mesh and step by hand; where nodes have several devices, features are split
 * within them only (AutoDDL, section 5). */
static struct timed_row by_hand(const struct lab *lab, const struct contest *contest, bool summa)
{
    int64_t devices = cluster_devices(lab->cluster) / contest->stages;
    bool inside = lab->cluster->node.devices > 1;
    int64_t least = inside ? ceil_div(devices, lab->cluster->node.devices) : 1;
    struct timed_row best = {.s = INFINITY, .how = ""};
    for (int64_t step = contest->batch / contest->stages; step >= 1; step /= 2)
        for (int64_t d = least; d <= devices && d <= step; d *= 2) {
            struct mesh_2d mesh = {d, devices / d, summa, inside};
            struct layout_problem *p =
                problem_of(lab, contest->batch, step, contest->stages, LAYOUT_TIME, summa ? 3 : 0);
            restrict_to(p, on_mesh, &mesh);
            if (!summa) /* which has them in as many parts as there are devices */
                restrict_to(p, in_parts, &contest->parts);
            struct timed_row timed = best_of(lab, p, &mesh);
            timed.how = arena_printf(lab->keep, "%lld x %lld, %lld", (long long)mesh.batch,
                                     (long long)mesh.rest, (long long)step);
            best = timed.s < best.s ? timed : best;
            layout_problem_free(p);
        }
    return best;
}

/* The best splits and step: the planner's own problem, solved exactly. */
static struct timed_row by_search(const struct lab *lab, const struct contest *contest)
{
    struct timed_row best = {.s = INFINITY, .how = ""};
    for (int64_t step = contest->batch / contest->stages; step >= 1; step /= 2) {
        struct layout_problem *p =
            problem_of(lab, contest->batch, step, contest->stages, LAYOUT_TIME, 0);
        restrict_to(p, in_parts, &contest->parts);
        struct timed_row timed = best_of(lab, p, NULL);
        timed.how = arena_printf(lab->keep, "steps of %lld: %s", (long long)step, timed.how);
        best = timed.s < best.s ? timed : best;
        layout_problem_free(p);
    }
    return best;
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
        int64_t parts; /* I1; 0: not said */
    } ROWS[] = {
        {"vgg-13", "piz-daint:16", 128, 3, 10, false},
        {"vgg-13", "piz-daint:32", 256, 8.8, 18, false},
        {"vgg-13", "piz-daint:64", 512, 17.7, 29, false},
        {"autoddl-6.8b", "piz-daint:64", 1024, 12, 23.9, true, .parts = 16},
        {"autoddl-6.8b", "piz-daint:64", 1024, 12, 23.9, true}, /* had memory decided */
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
        struct contest contest = {ROWS[i].batch, 1, ROWS[i].parts};
        struct timed_row megatron = by_hand(&lab, &contest, false), summa = {.s = INFINITY};
        if (ROWS[i].summa)
            summa = by_hand(&lab, &contest, true);
        struct timed_row ours = by_search(&lab, &contest);
        struct timed_row best = megatron.s < summa.s ? megatron : summa;
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
            struct contest contest = {ROWS[i].batch, stages, 0};
            struct timed_row megatron = by_hand(&lab, &contest, false);
            printf("  %-14s %-14s %6d %9.4g %9lld %9.4g %9lld\n", ROWS[i].model, ROWS[i].cluster,
                   stages, megatron.s, (long long)ROWS[i].megatron_s, by_search(&lab, &contest).s,
                   (long long)ROWS[i].autoddl_s);
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
