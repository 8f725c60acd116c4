/* small_asks.h - what small plans ask of this machine's kernels, and databases of times that are made up. */
#ifndef WEFT_TESTS_SMALL_ASKS_H
#define WEFT_TESTS_SMALL_ASKS_H

#include <stdio.h>

#include "cost/profile.h"
#include "one_folder.h"
#include "random_plan.h"
#include "run/run.h"

static inline struct plan *small_plan(const struct model *model, const struct cluster *cluster,
                                      struct degrees degrees)
{
    struct plan *plan;
    degrees.has_dtype = true;
    assert_int_equal(plan_from_degrees(model, cluster, &degrees, &plan), WEFT_OK);
    assert_int_equal(plan_check(plan), WEFT_OK);
    return plan;
}

static inline struct cluster *ranks(int32_t count)
{
    struct cluster *cluster;
    assert_int_equal(cluster_ranks(count, &cluster), WEFT_OK);
    return cluster;
}

/* In one of the types that kernels compute in. */
static inline struct plan *random_cpu_plan(struct rng *rng, const struct model *model,
                                           const struct cluster *cluster)
{
    struct plan *plan = random_plan(rng, model, cluster);
    bool half = chance(rng, 2);
    plan->dtype = half ? DTYPE_BF16 : DTYPE_FP32;
    plan->policy = half ? POLICY_MIXED : POLICY_FP32;
    return plan;
}

/* The asks of a small model on one core. */
struct small {
    struct arena *arena;
    struct cluster *cluster;
    struct model *model;
    struct plan *plan;
    struct asks asks;
};

static inline struct small open_asks(void)
{
    struct small s = {.arena = arena_new(), .cluster = ranks(1)};
    s.model = open_small(&SMALL_MODELS[0]);
    s.plan = small_plan(s.model, s.cluster, (struct degrees){.micro_batch = 2});
    assert_int_equal(asks_of_plan(s.arena, s.plan, &s.asks), WEFT_OK);
    return s;
}

static inline void close_asks(struct small *s)
{
    arena_free(s->arena);
    plan_free(s->plan);
    model_free(s->model);
    cluster_free(s->cluster);
}

/* ---- databases ------------------------------------------------------------------------------- */

/* Made up. Kernels are shorter than any host issues them, or a host's time would not show. */
static const double KERNEL_NS = 100, OPTIMIZER_NS = 7e12;

static inline void store_all(const char *db, const struct asks *asks, const char *device,
                             size_t leave_out)
{
    struct profile *profile;
    remove(db);
    assert_int_equal(profile_create(db, &profile), WEFT_OK);
    for (size_t i = 0; i < asks->len; i++) {
        bool optimizer = asks->data[i].work.kernel == KERNEL_OPTIMIZER;
        struct profile_key key;
        assert_true(profile_key_of(&asks->data[i].work, 0, &key));
        struct measurement m = {device,
                                asks->data[i].work,
                                key.phase == PHASE_WHOLE_BACKWARD,
                                optimizer ? OPTIMIZER_NS : KERNEL_NS,
                                1,
                                "x"};
        if (i != leave_out)
            assert_int_equal(profile_add(profile, &m), WEFT_OK);
    }
    assert_int_equal(profile_commit(profile), WEFT_OK);
    profile_close(profile);
}

static inline int64_t rows_in(const char *db)
{
    struct profile *profile;
    int64_t rows;
    assert_int_equal(profile_open(db, &profile), WEFT_OK);
    assert_int_equal(profile_count(profile, TABLE_KERNEL, &rows), WEFT_OK);
    profile_close(profile);
    return rows;
}

#endif
