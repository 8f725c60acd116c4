/* run_alone.h - what several ranks compute, against what one rank computes. */
#ifndef WEFT_TESTS_RUN_ALONE_H
#define WEFT_TESTS_RUN_ALONE_H

#include "sim/sim.h"
#include "run_lab.h"
#include "run_models.h"

/* Runs of one rank so far: many plans have the same. */
enum { MOST_SERIAL = 1024 };
static struct serial_run {
    const struct model *model;
    int64_t step, global, steps;
    uint64_t seed;
    struct trained *trained;
} serial_runs[MOST_SERIAL];
static int serial_count;

/* Before a model is closed: another one may be where it was. */
static inline void forget_serial_runs(void)
{
    while (serial_count > 0)
        trained_free(serial_runs[--serial_count].trained);
}

static inline int close_all(void **state)
{
    forget_serial_runs();
    return close_run_models(state);
}

static inline struct plan *serial_plan(const struct plan *plan)
{
    struct plan *serial = NULL;
    struct degrees d = {.micro_batch = plan->step_samples,
                        .global_batch = plan->global_batch,
                        .has_dtype = true,
                        .dtype = DTYPE_FP32};
    if (plan_from_degrees(plan->model, clusters[1], &d, &serial) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    return serial;
}

struct conditions {
    int64_t steps;
    uint64_t seed;
    const struct slowdown *slowdown;
    transport_carrier *carrier;
    bool no_dropout;               /* with seeds that no other run has */
    const struct kernels *kernels; /* of several ranks; NULL: lab_backend's */
};

static inline struct trained *run_plan(const struct plan *plan, const struct conditions *c)
{
    struct laboratory lab = {.plan = plan,
                             .options = lab_options(plan->model),
                             .steps = c->steps,
                             .slowdown = c->slowdown};
    lab.options.dropout = c->no_dropout ? 0 : 0.1F;
    lab.options.seed = c->seed;
    lab.options.carrier = c->carrier;
    if (c->kernels)
        lab.options.kernels = c->kernels;
    return run_lab(&lab);
}

/* The largest difference of any weight, to the largest of its tensor; what is noise around zero (a
 * bias of keys has no gradient) is compared with what weights begin with, 0.02. */
static inline double weight_error(const struct trained *a, const struct trained *b,
                                  const char **where)
{
    double worst = 0;
    for (int i = 0; i < a->weights; i++) {
        const struct trained_weight *x = &a->weight[i], *y = NULL;
        double most = 0.02, error = 0;
        for (int k = 0; k < b->weights; k++)
            if (strcmp(b->weight[k].name, x->name) == 0)
                y = &b->weight[k];
        if (!y || x->seen != x->elements || y->elements != x->elements) {
            *where = x->name;
            return INFINITY;
        }
        for (int64_t k = 0; k < x->elements; k++) {
            double difference = fabs((double)x->value[k] - (double)y->value[k]);
            most = fmax(most, fabs((double)x->value[k]));
            error = difference > error || isnan(difference) ? difference : error;
        }
        if (!(error / most <= worst)) {
            worst = error / most;
            *where = x->name;
        }
    }
    return worst;
}

static inline const struct trained *run_alone(const struct plan *plan, const struct conditions *c)
{
    for (int i = 0; i < serial_count; i++) {
        const struct serial_run *run = &serial_runs[i];
        if (run->model == plan->model && run->step == plan->step_samples &&
            run->global == plan->global_batch && run->steps == c->steps && run->seed == c->seed)
            return run->trained;
    }
    struct plan *serial = serial_plan(plan);
    assert_true(serial_count < MOST_SERIAL);
    serial_runs[serial_count] = (struct serial_run){
        plan->model,
        plan->step_samples,
        plan->global_batch,
        c->steps,
        c->seed,
        run_plan(serial, &(struct conditions){
                             .steps = c->steps, .seed = c->seed, .no_dropout = c->no_dropout})};
    plan_free(serial);
    return serial_runs[serial_count++].trained;
}

static inline bool agree(const struct plan *plan, const struct conditions *c, char *why,
                         size_t size)
{
    static const double TOLERANCE = 1e-5;
    const struct trained *one = run_alone(plan, c);
    struct trained *all = run_plan(plan, c);
    const char *where = "";
    double loss = 0, weights = 0;
    bool ran = one->status == WEFT_OK && all->status == WEFT_OK;
    if (!ran)
        snprintf(why, size, "one rank: %.100s; all: %.200s", one->why, all->why);
    for (int64_t i = 0; ran && i < c->steps; i++) {
        double error = fabs(all->loss[i] - one->loss[i]) / one->loss[i];
        if (!(error <= loss))
            loss = error;
    }
    if (ran) {
        weights = weight_error(one, all, &where);
        snprintf(why, size, "loss %.1e, weights %.1e (%s), %.6f -> %.6f", loss, weights, where,
                 one->loss[0], one->loss[c->steps - 1]);
    }
    bool same = ran && loss <= TOLERANCE && weights <= TOLERANCE;
    trained_free(all);
    return same;
}

/* Where an activation is on the kink of a ReLU, or two pixels of a window are equal but for the last
 * bit, the rounding of a sum decides about a gradient. That happens now and then; what is wrong is
 * wrong with other numbers too. */
static inline bool has_kinks(const struct model *model)
{
    bool kinks = false;
    for (int32_t i = 0; i < model->ops; i++)
        kinks |= model->op[i].kind == OP_RELU || model->op[i].kind == OP_POOL;
    return kinks;
}

static inline bool same_runs(const struct plan *plan, int64_t steps, char *why, size_t size)
{
    uint64_t seeds = has_kinks(plan->model) ? 4 : 1;
    bool same = false;
    for (uint64_t seed = 1; seed <= seeds && !same; seed++)
        same = agree(plan, &(struct conditions){steps, seed, NULL}, why, size);
    return same;
}

/* The last maps of these images have one pixel: a batch norm over two numbers gives +1 and -1, and a
 * gradient that is all rounding. */
static inline bool is_ill(const struct plan *plan)
{
    bool norms = false;
    for (int32_t i = 0; i < plan->model->ops; i++)
        norms |= plan->model->op[i].kind == OP_BATCH_NORM;
    return norms && plan->step_samples < 4;
}

static inline struct plan *runnable_plan(struct rng *rng, const struct model *model)
{
    for (;;) {
        struct plan *plan = random_plan(rng, model, clusters[1 + rng_below(rng, MOST_RANKS)]);
        plan->dtype = DTYPE_FP32;
        plan->policy = POLICY_FP32;
        if (!is_ill(plan))
            return plan;
        plan_free(plan);
    }
}

/* Not those that take long, nor inception, whose batch norms of one pixel make rounding grow. */
static inline const struct model *random_model(struct rng *rng)
{
    static const char *const SKIPPED[] = {"vgg", "inception"};
    for (;;) {
        const struct model *model = models[rng_below(rng, SMALL_MODEL_COUNT)];
        bool skipped = model->seq > 100;
        for (size_t i = 0; i < COUNT_OF(SKIPPED); i++)
            skipped |= strcmp(model->family, SKIPPED[i]) == 0;
        if (!skipped && lab_runs(model))
            return model;
    }
}

/* Whether the random plan of a round trains as one rank does, as it is or as `change` makes it (false: it is none of those that
 * are meant). With WEFT_RUN_ROUND only that round runs, and says how near it came. */
static inline bool random_round(int round, uint64_t seed, int64_t steps,
                                bool (*change)(struct rng *, struct plan *))
{
    const char *only = getenv("WEFT_RUN_ROUND");
    struct rng rng;
    char why[512] = "";
    rng_seed(&rng, seed);
    if (only && atoi(only) != round)
        return true;
    const struct model *model = random_model(&rng);
    struct plan *plan = runnable_plan(&rng, model);
    bool meant = !change || change(&rng, plan);
    bool same = !meant || same_runs(plan, steps, why, sizeof why);
    if (!same || (only && meant))
        print_message("round %d, %s, %s, %lld ranks: %s\n", round, model->family, plan->schedule,
                      (long long)cluster_devices(plan->cluster), why);
    plan_free(plan);
    return same;
}

static inline struct prediction *predict(const struct plan *plan)
{
    struct prediction *p = NULL;
    if (simulate(plan, &(struct simulate_options){0}, &p) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    return p;
}

/* How far off predicted memory is when a plan trains with Adam, as a share. */
static inline double trained_memory_error(const struct plan *plan)
{
    struct laboratory lab = {.plan = plan, .options = lab_options(plan->model), .steps = 2};
    lab.options.slice_bytes = 1 << 16;
    lab.options.optimizer = (struct optimizer_step){
        .kind = OPTIMIZER_ADAM, .rate = 1e-3F, .beta1 = 0.9F, .beta2 = 0.99F, .epsilon = 1e-8F};
    struct trained *trained = run_lab(&lab);
    if (trained->status != WEFT_OK)
        fail_msg("%s", trained->why);
    double error = trained->memory_error;
    trained_free(trained);
    return error;
}

#endif
