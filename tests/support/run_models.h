/* run_models.h - the small models of random_plan.h, and clusters of one to eight ranks to run them on. */
#ifndef WEFT_TESTS_RUN_MODELS_H
#define WEFT_TESTS_RUN_MODELS_H

#include "random_plan.h"

void openblas_set_num_threads(int threads);

enum { MOST_RANKS = 8 };
static struct cluster *clusters[MOST_RANKS + 1];
static struct model *models[SMALL_MODEL_COUNT];

/* Setup and teardown of a group of tests. */
static int open_run_models(void **state)
{
    (void)state;
    char name[32];
    openblas_set_num_threads(1);
    for (int i = 1; i <= MOST_RANKS; i++) {
        snprintf(name, sizeof name, "piz-daint:%d", i);
        clusters[i] = open_named(name);
    }
    for (int i = 0; i < SMALL_MODEL_COUNT; i++)
        models[i] = open_small(&SMALL_MODELS[i]);
    return 0;
}

static int close_run_models(void **state)
{
    (void)state;
    for (int i = 1; i <= MOST_RANKS; i++)
        cluster_free(clusters[i]);
    for (int i = 0; i < SMALL_MODEL_COUNT; i++)
        model_free(models[i]);
    return 0;
}

#endif
