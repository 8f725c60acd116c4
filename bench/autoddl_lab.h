/* autoddl_lab.h - what the benches of the planner autoddl have in common: a model on a cluster, its
 * splits as a problem, and options taken out of it. */
#ifndef WEFT_BENCH_AUTODDL_LAB_H
#define WEFT_BENCH_AUTODDL_LAB_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "search/search.h"

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
                                         int32_t stages, enum layout_measure measure, uint8_t shard)
{
    bool fp32 = lab->cluster->node.device.flops[DTYPE_BF16] == 0;
    struct layout_case about = {.model = lab->model,
                                .cluster = lab->cluster,
                                .cost = lab->cost,
                                .dtype = fp32 ? DTYPE_FP32 : DTYPE_BF16,
                                .policy = fp32 ? POLICY_FP32 : POLICY_MIXED,
                                .global_batch = batch,
                                .step_samples = step,
                                .stages = stages,
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

#endif
