/* test_estimate.c - the estimate beside the simulator on plans of every kind; its parts are held against
 * naive versions in test_pipeline.c and test_tables.c.
 *
 * Half of the plans are of real models on real clusters, with degrees as people write them; the
 * others are random_plan.h's. Each is estimated as a plan and as a candidate, and the worst are
 * listed with what the simulator says of their busiest stage (percent) and what the estimate does
 * (f, b: passes; what the first and the last take more; t: tail; s: send; milliseconds). What both say of every stage
 * is held to a file, too (drawn.h).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "drawn.h"
#include "random_plan.h"
#include "search/estimate/estimator.h"
#include "search/search.h"
#include "sim/sim.h"
#include "turned_plan.h"

/* ---- real plans ------------------------------------------------------------------------------ */

static const char *const REAL_MODELS[] = {
    "gpt3-1.3b",    "gpt3-13b",    "llama3-8b",    "t5-3b",        "bert-huge-32", "resnet-50",
    "mixtral-8x7b", "t5-large-32", "swin-huge-32", "inception-v3", "dlrm"};
static const char *const REAL_CLUSTERS[] = {"dgx-a100:1", "dgx-a100:2", "dgx-a100:4",
                                            "dgx-a100:8", "dgx-v100:2", "titan-rtx:2"};

enum { T5_LARGE = 7 }; /* of REAL_MODELS */
enum { WORDS = 120 };  /* what a drawn plan is called */

static struct degrees draw_real(struct rng *rng, int64_t devices)
{
    static const char *const SCHEDULES[] = {"1f1b",        "1f1b", "1f1b", "gpipe",
                                            "interleaved", "aiao", "zb-h1"};
    struct degrees d = {.micro_batch = INT64_C(1) << rng_below(rng, 3)};
    int64_t left = devices;
    d.tp = INT64_C(1) << rng_below(rng, 4);
    d.tp = d.tp > left ? left : d.tp;
    left /= d.tp;
    d.pp = INT64_C(1) << rng_below(rng, 4);
    d.pp = d.pp > left ? left : d.pp;
    d.dp = left / d.pp;
    d.sequence = chance(rng, 2);
    d.schedule = SCHEDULES[rng_below(rng, COUNT_OF(SCHEDULES))];
    d.pieces = strcmp(d.schedule, "interleaved") == 0 ? 2 : 0;
    d.segments = strcmp(d.schedule, "aiao") == 0 ? 1 + rng_below(rng, 3) : 0;
    d.global_batch = d.dp * d.micro_batch * d.pp * (INT64_C(1) << rng_below(rng, 4));
    d.shard = chance(rng, 2) ? 0 : (int)rng_below(rng, 4);
    d.recompute = (enum recompute)rng_below(rng, RECOMPUTE_COUNT);
    d.offload = d.recompute == RECOMPUTE_FULL && chance(rng, 6);
    d.has_overlap = chance(rng, 4);
    d.overlap = (unsigned)rng_below(rng, OVERLAP_EVERY + 1);
    return d;
}

/* The same plan cut anywhere. */
static weft_status cut_anew(struct rng *rng, struct plan **plan)
{
    struct plan *old = *plan, *new = NULL;
    int64_t *cut = calloc((size_t)old->parts, sizeof *cut);
    int64_t *devices = calloc((size_t)old->stages, sizeof *devices);
    weft_status status;
    draw_cuts(rng, old->instances, old->parts, cut);
    for (int32_t s = 0; s < old->stages; s++)
        devices[s] = old->stage[s].devices;
    TRY(plan_new(old->model, old->cluster, &new));
    TRY(plan_map(new, old->stages, old->pieces, cut, devices));
    new->schedule = schedule_find(old->schedule)->name;
    new->step_samples = old->step_samples;
    new->global_batch = old->global_batch;
    new->overlap = old->overlap;
    for (int64_t i = 0; i < old->instances; i++)
        TRY(plan_choose(new, i, plan_choice(old, i)));
    plan_free(old);
    *plan = new;
    new = NULL;
done:
    plan_free(new);
    free(cut);
    free(devices);
    return status;
}

/* Layers of one stage with different sharding: some gradients go with every micro-batch, others with
 * the last one only. */
static weft_status shard_by_layer(struct rng *rng, struct plan *plan)
{
    int shard = (int)rng_below(rng, 4);
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < plan->instances; i++) {
        struct choice choice = *plan_choice(plan, i);
        choice.shard = (uint8_t)shard;
        TRY(plan_choose(plan, i, &choice));
        if (plan->ends_layer[i])
            shard = (int)rng_below(rng, 4);
    }
done:
    return status;
}

struct setting {
    struct model *real[COUNT_OF(REAL_MODELS)], *small[SMALL_MODEL_COUNT];
    struct cluster *cluster[COUNT_OF(REAL_CLUSTERS)];
};

static void open_all(struct setting *s)
{
    for (size_t i = 0; i < COUNT_OF(REAL_MODELS); i++)
        if (model_open(REAL_MODELS[i], NULL, &s->real[i]) != WEFT_OK)
            fail_msg("%s: %s", REAL_MODELS[i], weft_last_error()->message);
    for (size_t i = 0; i < SMALL_MODEL_COUNT; i++)
        s->small[i] = open_small(&SMALL_MODELS[i]);
    for (size_t i = 0; i < COUNT_OF(REAL_CLUSTERS); i++) {
        s->cluster[i] = open_named(REAL_CLUSTERS[i]);
    }
}

static void close_all(struct setting *s)
{
    for (size_t i = 0; i < COUNT_OF(REAL_MODELS); i++)
        model_free(s->real[i]);
    for (size_t i = 0; i < SMALL_MODEL_COUNT; i++)
        model_free(s->small[i]);
    for (size_t i = 0; i < COUNT_OF(REAL_CLUSTERS); i++) {
        cluster_free(s->cluster[i]);
    }
}

/* ---- errors ---------------------------------------------------------------------------------- */

struct outcome {
    double simulated, estimated, off; /* ns; relative */
    char words[240];
    double memory_off; /* of the fullest stage's peak, relative */
};

static int by_off(const void *a, const void *b)
{
    const struct outcome *x = a, *y = b;
    double p = fabs(x->off), q = fabs(y->off);
    return (p > q) - (p < q);
}

static const double *ranked;
static int by_value(const void *a, const void *b)
{
    double x = ranked[*(const int *)a], y = ranked[*(const int *)b];
    return (x > y) - (x < y);
}

static void rank(const double *value, int n, double *out)
{
    int *order = malloc((size_t)n * sizeof *order);
    for (int i = 0; i < n; i++)
        order[i] = i;
    ranked = value;
    qsort(order, (size_t)n, sizeof *order, by_value);
    for (int i = 0; i < n; i++)
        out[order[i]] = i;
    free(order);
}

static double spearman(const struct outcome *outcome, int n)
{
    double *v = calloc((size_t)n * 4, sizeof *v), *a = v + n, *b = a + n, *w = b + n, sum = 0;
    for (int i = 0; i < n; i++) {
        v[i] = outcome[i].simulated;
        w[i] = outcome[i].estimated;
    }
    rank(v, n, a);
    rank(w, n, b);
    for (int i = 0; i < n; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    free(v);
    return 1 - 6 * sum / ((double)n * ((double)n * n - 1));
}

static void report(const char *what, struct outcome *outcome, int n)
{
    double rho = spearman(outcome, n);
    qsort(outcome, (size_t)n, sizeof *outcome, by_off);
    print_message("%s: %d plans, |difference| median %.2f %%, 90 %% below %.2f %%, 99 %% below "
                  "%.1f %%, most %.1f %%, rank correlation %.4f\n",
                  what, n, 100 * fabs(outcome[n / 2].off), 100 * fabs(outcome[n * 9 / 10].off),
                  100 * fabs(outcome[n * 99 / 100].off), 100 * fabs(outcome[n - 1].off), rho);
    const char *more = getenv("WEFT_TEST_WORST");
    int64_t worst = 5;
    if (more)
        parse_int(more, &worst);
    for (int i = n - 1; i >= 0 && i >= n - worst; i--)
        print_message("  %+7.1f %%  %10.3f ms  %s\n", 100 * outcome[i].off,
                      outcome[i].simulated * 1e-6, outcome[i].words);
    assert_true(fabs(outcome[n / 2].off) <= 0.02);
    assert_true(rho >= 0.99);
}

static int by_memory(const void *a, const void *b)
{
    double p = fabs(((const struct outcome *)a)->memory_off);
    double q = fabs(((const struct outcome *)b)->memory_off);
    return (p > q) - (p < q);
}

static void report_memory(const char *what, struct outcome *outcome, int n)
{
    int64_t worst = 5;
    const char *more = getenv("WEFT_TEST_WORST");
    if (more)
        parse_int(more, &worst);
    qsort(outcome, (size_t)n, sizeof *outcome, by_memory);
    print_message(
        "%s: memory, |difference| median %.2f %%, 90 %% below %.2f %%, 99 %% below %.1f "
        "%%, most %.1f %%\n",
        what, 100 * fabs(outcome[n / 2].memory_off), 100 * fabs(outcome[n * 9 / 10].memory_off),
        100 * fabs(outcome[n * 99 / 100].memory_off), 100 * fabs(outcome[n - 1].memory_off));
    for (int i = n - 1; i >= 0 && i >= n - worst; i--)
        print_message("  %+7.1f %%   %s\n", 100 * outcome[i].memory_off, outcome[i].words);
    assert_true(fabs(outcome[n / 2].memory_off) <= 0.01);
    assert_true(fabs(outcome[nine_tenths(n)].memory_off) <= 0.05);
}

static void describe(const struct plan *plan, const struct prediction *p, const struct estimate *e,
                     const char *words, struct outcome *out)
{
    const int64_t *t = p->stage[p->busiest].time_ns;
    const struct stage_estimate *s = &e->stage[p->busiest];
    double all = (double)p->iteration_ns / 100;
    snprintf(out->words, sizeof out->words,
             "%s %s o%u m%lld | F%.0f B%.0f R%.0f O%.0f tp%.0f dp%.0f pp%.0f off%.0f bub%.0f | "
             "f%.2f b%.2f +%.2f +%.2f t%.2f s%.2f",
             words, plan->schedule, plan->overlap, (long long)plan_micro_batches(plan),
             (double)t[PURPOSE_FORWARD] / all, (double)t[PURPOSE_BACKWARD] / all,
             (double)t[PURPOSE_RECOMPUTE] / all, (double)t[PURPOSE_OPTIMIZER] / all,
             (double)t[PURPOSE_TENSOR] / all, (double)t[PURPOSE_DATA] / all,
             (double)t[PURPOSE_PIPELINE] / all, (double)t[PURPOSE_OFFLOAD] / all,
             (double)t[TIME_BUBBLE] / all, (double)s->forward_ns * 1e-6,
             (double)s->backward_ns * 1e-6, (double)s->first_more_ns * 1e-6,
             (double)s->last_more_ns * 1e-6, (double)s->tail_ns * 1e-6, (double)s->send_ns * 1e-6);
}

static struct drawn held;

static void hold_prediction(struct digest *d, const struct prediction *p)
{
    drawn_number(d, p->iteration_ns);
    for (int32_t s = 0; s < p->plan->stages; s++) {
        const struct stage_peak *m = &p->stage[s].memory;
        const int64_t all[] = {p->stage[s].waits_most_ns, m->peak, m->reserved,
                               m->communicators,          m->host, m->at_ns};
        drawn_numbers(d, p->stage[s].time_ns, TIME_COUNT);
        drawn_numbers(d, m->bytes, MEMORY_CLASS_COUNT);
        drawn_numbers(d, m->state, MEMORY_CLASS_COUNT);
        drawn_numbers(d, all, COUNT_OF(all));
    }
}

static void hold_estimate(struct digest *d, const struct estimate *e)
{
    drawn_number(d, e->iteration_ns);
    for (int32_t s = 0; s < e->stages; s++) {
        const struct stage_estimate *t = &e->stage[s];
        const int64_t all[] = {t->forward_ns,   t->backward_ns, t->first_more_ns, t->last_more_ns,
                               t->tail_ns,      t->send_ns,     t->back_ns,       t->end_ns,
                               t->optimizer_ns, t->peak_bytes,  t->limit_bytes};
        drawn_numbers(d, all, COUNT_OF(all));
    }
}

/* `name` and `number`: as what it is held. */
static void compare(const struct plan *plan, const char *name, int number, const char *words,
                    struct outcome *out, struct outcome *by_tables)
{
    struct digest digest = {0};
    struct estimate_settings settings = estimate_settings_of(plan);
    struct estimator *estimator;
    struct candidate *candidate;
    assert_int_equal(estimator_new(&settings, &estimator), WEFT_OK);
    struct prediction *p;
    struct estimate e;
    struct arena *scratch = arena_new();
    if (simulate(plan, &(struct simulate_options){0}, &p) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    assert_int_equal(estimate_plan(estimator, plan, scratch, &e), WEFT_OK);
    for (int32_t s = 0; s < plan->stages; s++)
        assert_int_equal(e.stage[s].peak_bytes, p->stage[s].memory.peak);
    hold_prediction(&digest, p);
    hold_estimate(&digest, &e);
    *out = (struct outcome){(double)p->iteration_ns, (double)e.iteration_ns,
                            (double)e.iteration_ns / (double)p->iteration_ns - 1, ""};
    describe(plan, p, &e, words, out);
    if (by_tables) {
        assert_int_equal(candidate_of_plan(estimator, plan, scratch, &candidate), WEFT_OK);
        assert_int_equal(estimate_candidate(estimator, candidate, &e), WEFT_OK);
        hold_estimate(&digest, &e);
        *by_tables = (struct outcome){(double)p->iteration_ns, (double)e.iteration_ns,
                                      (double)e.iteration_ns / (double)p->iteration_ns - 1, ""};
        describe(plan, p, &e, words, by_tables);
        int64_t peak = 0;
        for (int32_t s = 0; s < plan->stages; s++)
            peak = p->stage[s].memory.peak > peak ? p->stage[s].memory.peak : peak;
        by_tables->memory_off = (double)e.peak_bytes / (double)peak - 1;
    }
    drawn_case(&held, name, number, digest);
    estimator_free(estimator);
    prediction_free(p);
    arena_free(scratch);
}

/* A plan drawn at random and what it is called; NULL: these degrees make none. */
typedef struct plan *(*draw_plan)(struct rng *rng, struct setting *s, char words[WORDS]);

static void compare_drawn(struct setting *s, uint64_t seed, int n, draw_plan draw, const char *what)
{
    struct outcome *outcome = calloc((size_t)n, sizeof *outcome);
    struct outcome *tables = calloc((size_t)n, sizeof *tables);
    char words[WORDS], title[64];
    struct rng rng;
    rng_seed(&rng, seed);
    for (int done = 0; done < n;) {
        struct plan *plan = draw(&rng, s, words);
        if (!plan)
            continue;
        compare(plan, what, done, words, &outcome[done], &tables[done]);
        done++;
        plan_free(plan);
    }
    snprintf(title, sizeof title, "%s, plans", what);
    report(title, outcome, n);
    snprintf(title, sizeof title, "%s, candidates", what);
    report_memory(title, tables, n);
    report(title, tables, n);
    free(tables);
    free(outcome);
}

/* Lowered from degrees, cut anew and with shards by layer where that is asked for. */
static struct plan *lower_real(struct rng *rng, struct setting *s, size_t model, size_t cluster,
                               const struct degrees *d, bool cuts, bool shards, char words[WORDS])
{
    struct plan *plan = NULL;
    snprintf(words, WORDS, "%s %s tp%lld pp%lld dp%lld z%d r%d%s%s%s", REAL_MODELS[model],
             REAL_CLUSTERS[cluster], (long long)d->tp, (long long)d->pp, (long long)d->dp, d->shard,
             (int)d->recompute, d->offload ? " off" : "", cuts ? " cut" : "", shards ? " mix" : "");
    if (plan_from_degrees(s->real[model], s->cluster[cluster], d, &plan) == WEFT_OK &&
        (!cuts || cut_anew(rng, &plan) == WEFT_OK) &&
        (!shards || shard_by_layer(rng, plan) == WEFT_OK) && plan_check(plan) == WEFT_OK)
        return plan;
    plan_free(plan);
    return NULL;
}

static struct plan *draw_real_plan(struct rng *rng, struct setting *s, char words[WORDS])
{
    size_t m = (size_t)rng_below(rng, COUNT_OF(REAL_MODELS));
    size_t c = (size_t)rng_below(rng, COUNT_OF(REAL_CLUSTERS));
    struct degrees d = draw_real(rng, cluster_devices(s->cluster[c]));
    bool cuts = chance(rng, 4), shards = chance(rng, 4);
    return lower_real(rng, s, m, c, &d, cuts, shards, words);
}

static void real_plans(void **state)
{
    compare_drawn(*state, 1, rounds_of(110), draw_real_plan, "real models");
}

static struct plan *draw_small_plan(struct rng *rng, struct setting *s, char words[WORDS])
{
    size_t m = (size_t)rng_below(rng, SMALL_MODEL_COUNT);
    size_t c = (size_t)rng_below(rng, 2) * 4;
    snprintf(words, WORDS, "%s", SMALL_MODELS[m].family);
    return random_plan(rng, s->small[m], s->cluster[c]);
}

static void small_plans(void **state)
{
    compare_drawn(*state, 2, rounds_of(250), draw_small_plan, "random");
}

/* Backward passes with splits of their own. */
static struct plan *draw_turned_plan(struct rng *rng, struct setting *s, char words[WORDS])
{
    struct plan *plan = draw_small_plan(rng, s, words);
    if (turn_some(rng, plan))
        return plan;
    plan_free(plan);
    return NULL;
}

static void turned_plans(void **state)
{
    compare_drawn(*state, 3, rounds_of(120), draw_turned_plan, "split otherwise backward");
}

/* Products beside their own collectives: sequence parallelism, several micro-batches, cuts anywhere. */
static struct plan *draw_products(struct rng *rng, struct setting *s, char words[WORDS])
{
    size_t m = (size_t)rng_below(rng, 5); /* transformers */
    size_t c = (size_t)rng_below(rng, COUNT_OF(REAL_CLUSTERS));
    struct degrees d = draw_real(rng, cluster_devices(s->cluster[c]));
    d.sequence = d.has_overlap = true;
    d.overlap = chance(rng, 2) ? OVERLAP_EVERY : d.overlap | OVERLAP_PRODUCTS;
    bool cuts = chance(rng, 4);
    return d.tp > 1 ? lower_real(rng, s, m, c, &d, cuts, false, words) : NULL;
}

static void products_beside_their_collectives(void **state)
{
    compare_drawn(*state, 7, rounds_of(40), draw_products, "products");
}

/* Layers with shard 2 among layers without, and many micro-batches: only what goes with every one of
 * them can fall behind from one to the next. */
static void gradients_that_go_once_do_not_lag(void **state)
{
    struct setting *s = *state;
    for (int64_t pp = 2; pp <= 8; pp *= 2) {
        struct degrees d = {.pp = pp, .micro_batch = 2, .dp = 8 / pp * 2, .schedule = "1f1b"};
        struct plan *plan;
        struct outcome outcome;
        d.global_batch = d.dp * d.micro_batch * 64;
        assert_int_equal(plan_from_degrees(s->real[T5_LARGE], s->cluster[5], &d, &plan), WEFT_OK);
        for (int64_t i = 0, layer = 0; i < plan->instances; i++) {
            struct choice choice = *plan_choice(plan, i);
            choice.shard = layer % 2 ? 2 : 0;
            assert_int_equal(plan_choose(plan, i, &choice), WEFT_OK);
            layer += plan->ends_layer[i];
        }
        assert_int_equal(plan_check(plan), WEFT_OK);
        compare(plan, "lags", (int)pp, "", &outcome, NULL);
        print_message("t5-large-32 on titan-rtx:2, pp %lld, every other layer sharded: %+.2f %%\n",
                      (long long)pp, 100 * outcome.off);
        assert_true(fabs(outcome.off) <= 0.02);
        plan_free(plan);
    }
}

/* How far a candidate's fullest stage is from its plan's. */
static double memory_off(const struct plan *plan)
{
    struct estimate_settings settings = estimate_settings_of(plan);
    struct arena *scratch = arena_new();
    struct estimator *estimator;
    struct candidate *candidate;
    struct estimate whole, e;
    assert_int_equal(estimator_new(&settings, &estimator), WEFT_OK);
    assert_int_equal(estimate_plan(estimator, plan, scratch, &whole), WEFT_OK);
    assert_int_equal(candidate_of_plan(estimator, plan, scratch, &candidate), WEFT_OK);
    assert_int_equal(estimate_candidate(estimator, candidate, &e), WEFT_OK);
    double off = (double)e.peak_bytes / (double)whole.peak_bytes - 1;
    estimator_free(estimator);
    arena_free(scratch);
    return off;
}

/* Offload and several pieces on a stage, one row for the whole model. With shard 2 and 3, gradients
 * and weights that are whole for a while are counted as in the middle of the model. */
static void offload_and_pieces_like_plans(void **state)
{
    static const double ALLOWED[] = {0.01, 0.01, 0.1, 0.1}; /* per shard */
    static const char *const SCHEDULES[] = {"1f1b", "gpipe", "zb-h1", "interleaved", "aiao"};
    static const int MODELS[] = {0, 3, 4, 2, 5};
    struct setting *s = *state;
    double most[COUNT_OF(ALLOWED)] = {0};
    int n = 0;
    struct rng rng;
    rng_seed(&rng, 7);
    while (n < rounds_of(100)) {
        int m = MODELS[rng_below(&rng, COUNT_OF(MODELS))], c = (int)rng_below(&rng, 3);
        struct degrees d = {.micro_batch = 1 + rng_below(&rng, 2), .recompute = RECOMPUTE_FULL};
        struct plan *plan = NULL;
        d.pp = INT64_C(1) << rng_below(&rng, 3);
        d.tp = INT64_C(1) << rng_below(&rng, 2);
        d.dp = cluster_devices(s->cluster[c]) / d.pp / d.tp;
        d.schedule = SCHEDULES[rng_below(&rng, COUNT_OF(SCHEDULES))];
        d.pieces = strcmp(d.schedule, "interleaved") == 0 ? 2 + rng_below(&rng, 2) : 0;
        d.segments = strcmp(d.schedule, "aiao") == 0 ? 1 + rng_below(&rng, 3) : 0;
        d.offload = chance(&rng, 2) || (!d.pieces && !d.segments);
        d.shard = (int)rng_below(&rng, 4);
        d.global_batch = d.dp * d.micro_batch * d.pp * (1 + rng_below(&rng, 8));
        if (plan_from_degrees(s->real[m], s->cluster[c], &d, &plan) == WEFT_OK &&
            plan_check(plan) == WEFT_OK) {
            double off = memory_off(plan);
            most[d.shard] = fabs(off) > most[d.shard] ? fabs(off) : most[d.shard];
            assert_true(fabs(off) <= ALLOWED[d.shard]);
            n++;
        }
        plan_free(plan);
    }
    for (size_t i = 0; i < COUNT_OF(most); i++)
        print_message("offload and pieces, shard %zu: memory at most %.2f %% from the plan's\n", i,
                      100 * most[i]);
}

/* ---- choosing -------------------------------------------------------------------------------- */

/* Of one model on one cluster with one batch, the ranking that a planner needs: all degrees. */
static void degrees_in_order(void **state)
{
    static const struct {
        int model, cluster;
    } CASES[] = {{1, 3}, {3, 2}, {4, 5}};
    struct setting *s = *state;
    for (int k = 0; k < cases_of(COUNT_OF(CASES)); k++) {
        const struct model *model = s->real[CASES[k].model];
        const struct cluster *cluster = s->cluster[CASES[k].cluster];
        int64_t devices = cluster_devices(cluster);
        struct outcome *outcome = calloc(1000, sizeof *outcome);
        double best = 0, chosen = 0, chosen_by = 0;
        int n = 0;
        for (int64_t tp = 1; tp <= 8; tp *= 2)
            for (int64_t pp = 1; pp <= 8 && tp * pp <= devices; pp *= 2)
                for (int64_t micro = 1; micro <= 4; micro *= 4)
                    for (int shard = 0; shard <= 3; shard += 3)
                        for (int r = 0; r < RECOMPUTE_COUNT; r += 2) {
                            struct degrees d = {.tp = tp,
                                                .pp = pp,
                                                .micro_batch = micro,
                                                .global_batch = 32,
                                                .shard = shard,
                                                .recompute = (enum recompute)r};
                            struct plan *plan = NULL;
                            struct outcome *o = &outcome[n], as_plan;
                            if (plan_from_degrees(model, cluster, &d, &plan) == WEFT_OK &&
                                plan_check(plan) == WEFT_OK) {
                                compare(plan, REAL_MODELS[CASES[k].model], n, "", &as_plan, o);
                                best = n == 0 || o->simulated < best ? o->simulated : best;
                                if (n == 0 || o->estimated < chosen_by) {
                                    chosen_by = o->estimated;
                                    chosen = o->simulated;
                                }
                                n++;
                            }
                            plan_free(plan);
                        }
        double rho = spearman(outcome, n);
        print_message("%s on %s: %d candidates, rank correlation %.4f, the one chosen is %.2f %% "
                      "from the best\n",
                      REAL_MODELS[CASES[k].model], REAL_CLUSTERS[CASES[k].cluster], n, rho,
                      100 * (chosen / best - 1));
        assert_true(rho >= 0.99);
        assert_true(chosen / best <= 1.01);
        free(outcome);
    }
}

static void numbers_are_as_they_were(void **state)
{
    (void)state;
    assert_int_equal(drawn_close(&held), 0);
}

int main(void)
{
    static struct setting setting;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(real_plans, &setting),
        cmocka_unit_test_prestate(small_plans, &setting),
        cmocka_unit_test_prestate(turned_plans, &setting),
        cmocka_unit_test_prestate(products_beside_their_collectives, &setting),
        cmocka_unit_test_prestate(gradients_that_go_once_do_not_lag, &setting),
        cmocka_unit_test_prestate(offload_and_pieces_like_plans, &setting),
        cmocka_unit_test_prestate(degrees_in_order, &setting),
        cmocka_unit_test(numbers_are_as_they_were),
    };
    drawn_open(&held, "estimates.txt");
    open_all(&setting);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    close_all(&setting);
    return failed;
}
