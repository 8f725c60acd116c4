/* made_plan.h - a plan made from names, with what it stands on; whatever fails, fails the test. */
#ifndef MADE_PLAN_H
#define MADE_PLAN_H

#include "plan/plan.h"

static inline struct model *open_model(const char *name, const char *overrides)
{
    struct model *model;
    if (model_open(name, overrides, &model) != WEFT_OK)
        fail_msg("%s: %s", name, weft_last_error()->message);
    return model;
}

static inline struct cluster *open_cluster(const char *name)
{
    struct cluster *cluster;
    if (cluster_open(name, &cluster) != WEFT_OK)
        fail_msg("%s: %s", name, weft_last_error()->message);
    return cluster;
}

/* A plan with what it stands on. */
struct made {
    struct model *model;
    struct cluster *cluster;
    struct plan *plan;
    struct arena *arena;
};

static inline struct made make(const char *model, const char *overrides, const char *cluster,
                               const struct degrees *degrees)
{
    struct made m = {open_model(model, overrides), open_cluster(cluster), NULL, arena_new()};
    weft_status status = degrees ? plan_from_degrees(m.model, m.cluster, degrees, &m.plan)
                                 : plan_new(m.model, m.cluster, &m.plan);
    if (status != WEFT_OK)
        fail_msg("%s on %s: %s", model, cluster, weft_last_error()->message);
    return m;
}

static inline void unmake(struct made *m)
{
    plan_free(m->plan);
    model_free(m->model);
    cluster_free(m->cluster);
    arena_free(m->arena);
}

static inline void check_map(const struct plan *plan)
{
    int64_t at = 0, device = 0;
    assert_int_equal(plan->parts, plan->stages * plan->pieces);
    for (int32_t p = 0; p < plan->parts; p++) {
        assert_int_equal(plan->part[p].first, at);
        assert_true(plan->part[p].count > 0);
        assert_int_equal(plan_part_of(plan, at), p);
        at += plan->part[p].count;
        assert_int_equal(plan_part_of(plan, at - 1), p);
    }
    assert_int_equal(at, plan->instances);
    for (int32_t s = 0; s < plan->stages; s++) {
        assert_int_equal(plan->stage[s].first_device, device);
        device += plan->stage[s].devices;
    }
    assert_int_equal(device, cluster_devices(plan->cluster));
    for (int64_t i = 0; i < plan->instances; i++) {
        const struct stage *stage = &plan->stage[plan_stage_of_part(plan, plan_part_of(plan, i))];
        assert_int_equal(split_devices(&plan_choice(plan, i)->split), stage->devices);
    }
}

#endif
