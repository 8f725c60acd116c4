/* test_plan_words.c - plans in the words of the command line, typed back.
 *
 *   W1  What degrees are called, typed as options, gives the same plan, bit for bit, whatever was asked.
 *   W2  A plan of degrees is recognised, and is not called mixed; its name gives it, too.
 *   W3  Any plan is called mixed, or its name gives it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/degrees.h"
#include "random_plan.h"

static const char *const CLUSTERS[] = {"dgx-a100:1", "dgx-v100:2", "titan-rtx:1"};
static struct arena *arena;
static struct model *models[SMALL_MODEL_COUNT];
static struct cluster *clusters[COUNT_OF(CLUSTERS)];

static int open_all(void **state)
{
    (void)state;
    for (int i = 0; i < SMALL_MODEL_COUNT; i++)
        models[i] = open_small(&SMALL_MODELS[i]);
    for (size_t i = 0; i < COUNT_OF(CLUSTERS); i++)
        clusters[i] = open_named(CLUSTERS[i]);
    arena = arena_new();
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    for (int i = 0; i < SMALL_MODEL_COUNT; i++)
        model_free(models[i]);
    for (size_t i = 0; i < COUNT_OF(CLUSTERS); i++)
        cluster_free(clusters[i]);
    arena_free(arena);
    return 0;
}

/* ---- typing ---------------------------------------------------------------------------------- */

static bool is_option(const char *word)
{
    for (const struct argp_option *o = DEGREES_ARGP.options; o->name || o->doc; o++)
        if (o->name && strcmp(o->name, word) == 0)
            return true;
    return false;
}

/* "tp 2 sp" as "--tp 2 --sp", after what was asked. */
static struct degrees type_back(const char *text, const struct degrees *asked)
{
    enum { MOST_WORDS = 64 };
    char *argv[MOST_WORDS] = {arena_copy_text(arena, "weft")}, *rest = arena_copy_text(arena, text);
    struct plan_arguments in = {.arena = arena, .degrees = *asked, .named_elsewhere = true};
    int argc = 1;
    for (char *word; (word = strsep(&rest, " ")) != NULL;)
        argv[argc++] = is_option(word) ? arena_printf(arena, "--%s", word) : word;
    assert_int_equal(argp_parse(&DEGREES_ARGP, argc, argv, ARGP_NO_EXIT, NULL, &in), 0);
    assert_int_equal(in.names, 0);
    return in.degrees;
}

static void expect_back(const char *text, const struct degrees *asked, const struct plan *plan)
{
    struct degrees typed = type_back(text, asked);
    struct plan *back;
    if (plan_from_degrees(plan->model, plan->cluster, &typed, &back) != WEFT_OK)
        fail_msg("%s: %s", text, weft_last_error()->message);
    if (strcmp(plan_write(arena, plan), plan_write(arena, back)) != 0)
        fail_msg("%s: another plan", text);
    plan_free(back);
}

/* ---- draws ----------------------------------------------------------------------------------- */

static void draw_settings(struct rng *rng, struct degrees *d)
{
    static const int64_t BUCKETS[] = {0, 1 << 20, 12345}, LIMITS[] = {0, INT64_C(9) << 30, 1234567};
    d->has_dtype = chance(rng, 3);
    d->dtype = chance(rng, 2) ? DTYPE_FP16 : DTYPE_FP32;
    d->has_policy = chance(rng, 3);
    d->policy = chance(rng, 2) ? POLICY_FSDP : POLICY_FP32;
    d->has_overlap = chance(rng, 3);
    d->overlap = (unsigned)rng_below(rng, OVERLAP_EVERY + 1);
    d->has_bucket = chance(rng, 3);
    d->bucket_bytes = BUCKETS[rng_below(rng, COUNT_OF(BUCKETS))];
    d->memory.limit_bytes = LIMITS[rng_below(rng, COUNT_OF(LIMITS))];
    d->whole_sends = chance(rng, 4);
}

static struct degrees draw(struct rng *rng, int64_t devices)
{
    const struct schedule *all;
    size_t count = schedule_all(&all);
    struct degrees d = {.micro_batch = 1 + rng_below(rng, 3)};
    int64_t *const degree[] = {&d.tp, &d.pp, &d.cp};
    for (size_t i = 0; i < COUNT_OF(degree); i++) {
        *degree[i] = chance(rng, 2) ? 1 : factor_of(rng, devices);
        devices /= *degree[i];
    }
    d.dp = devices;
    d.ep = chance(rng, 2) ? 1 : factor_of(rng, devices);
    d.sequence = chance(rng, 2);
    d.schedule = chance(rng, 2) ? NULL : all[rng_below(rng, (int64_t)count)].name;
    d.pieces = 1 + rng_below(rng, 2);
    d.segments = chance(rng, 2) ? d.pieces : 1;
    d.global_batch = d.dp * d.micro_batch * (1 + rng_below(rng, 4));
    d.shard = (int)rng_below(rng, 4);
    d.recompute = (enum recompute)rng_below(rng, RECOMPUTE_COUNT);
    d.offload = chance(rng, 3);
    draw_settings(rng, &d);
    d.group =
        d.pieces > 1 && !d.schedule && chance(rng, 3) ? d.global_batch / d.dp / d.micro_batch : 0;
    return d;
}

/* What a question may ask for all of its plans: some of what these degrees have, or nothing. */
static struct degrees draw_asked(struct rng *rng, const struct degrees *d)
{
    struct degrees asked = {0};
    if (chance(rng, 2))
        return asked;
    asked.global_batch = d->global_batch;
    asked.has_dtype = d->has_dtype;
    asked.dtype = d->dtype;
    asked.memory.limit_bytes = d->memory.limit_bytes;
    return asked;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void test_by_hand(void **state)
{
    (void)state;
    struct degrees d = {.dp = 16, .tp = 2, .sequence = true, .micro_batch = 2, .shard = 1};
    struct degrees asked = {.global_batch = 64};
    assert_string_equal(degrees_text(arena, models[0], &d, NULL),
                        "dp 16 tp 2 sp micro-batch 2 zero 1");
    d.sequence = false; /* another plan, another name */
    d.global_batch = 64;
    assert_string_equal(degrees_text(arena, models[0], &d, NULL),
                        "dp 16 tp 2 micro-batch 2 global-batch 64 zero 1");
    assert_string_equal(degrees_text(arena, models[0], &d, &asked),
                        "dp 16 tp 2 micro-batch 2 zero 1");
    d = (struct degrees){
        .dp = 2, .pp = 4, .pieces = 3, .recompute = RECOMPUTE_FULL, .offload = true};
    assert_string_equal(degrees_text(arena, models[0], &d, NULL),
                        "dp 2 pp 4 virtual 3 micro-batch 1 zero 0 recompute full offload");
    d = (struct degrees){.pp = 4, .pieces = 3, .segments = 3, .has_overlap = true, .overlap = 19};
    assert_string_equal(degrees_text(arena, models[0], &d, NULL),
                        "pp 4 segments 3 micro-batch 1 zero 0 overlap tensor,pipeline,products");
    d = (struct degrees){.pp = 4, .schedule = "zb-h1", .has_bucket = true, .whole_sends = true};
    assert_string_equal(degrees_text(arena, models[0], &d, NULL),
                        "pp 4 schedule zb-h1 micro-batch 1 zero 0 bucket whole whole-sends");
    assert_string_equal(mixed_text(arena, "mixed: tp 1-2"), mixed_text(arena, "tp 1-2"));
}

static void test_steps_by_hand(void **state)
{
    (void)state;
    struct degrees d = {.dp = 4, .tp = 2, .micro_batch = 3};
    struct plan *plan;
    assert_int_equal(plan_from_degrees(models[0], clusters[0], &d, &plan), WEFT_OK);
    assert_string_equal(step_text(arena, plan), "micro-batch 3 × dp 4 = 12 samples per step");
    struct choice choice = {.split = split_none()};
    split_add(&choice.split, DIM_BATCH, 2);
    split_add(&choice.split, SPLIT_COPY, 4);
    assert_int_equal(plan_choose(plan, 3, &choice), WEFT_OK);
    assert_string_equal(step_text(arena, plan), "12 samples per step, which dp 2 to 4 share");
    assert_string_equal(plan_text(arena, plan, NULL, "one differs"), "mixed: one differs");
    plan_free(plan);
}

static void test_degrees_come_back(void **state)
{
    (void)state;
    struct rng rng;
    int done = 0;
    rng_seed(&rng, 18);
    for (int round = 0; round < rounds_of(1500); round++) {
        const struct model *model = models[rng_below(&rng, SMALL_MODEL_COUNT)];
        const struct cluster *cluster = clusters[rng_below(&rng, COUNT_OF(CLUSTERS))];
        struct degrees d = draw(&rng, cluster_devices(cluster)), asked = draw_asked(&rng, &d);
        struct plan *plan = NULL;
        if (plan_from_degrees(model, cluster, &d, &plan) == WEFT_OK &&
            plan_check(plan) == WEFT_OK) {
            expect_back(degrees_text(arena, model, &d, &asked), &asked, plan); /* W1 */
            const char *name = plan_text(arena, plan, &asked, "none");
            if (strcmp(name, "mixed: none") == 0)
                fail_msg("%s is called mixed", degrees_text(arena, model, &d, NULL));
            expect_back(name, &asked, plan); /* W2 */
            done++;
        }
        error_clear();
        plan_free(plan);
    }
    assert_true(done >= rounds_of(1500) / 5);
}

static void test_plans_come_back_or_are_mixed(void **state)
{
    (void)state;
    static const struct degrees NOTHING;
    struct rng rng;
    int mixed = 0, rounds = rounds_of(300);
    rng_seed(&rng, 6);
    for (int round = 0; round < rounds; round++) {
        struct plan *plan =
            random_plan(&rng, models[rng_below(&rng, SMALL_MODEL_COUNT)], clusters[round % 2]);
        const char *name = plan_text(arena, plan, NULL, "none");
        bool is_mixed = strcmp(name, "mixed: none") == 0;
        mixed += is_mixed;
        if (!is_mixed)
            expect_back(name, &NOTHING, plan); /* W3 */
        plan_free(plan);
    }
    assert_true(mixed > rounds / 8 && mixed < rounds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_steps_by_hand),
        cmocka_unit_test(test_degrees_come_back),
        cmocka_unit_test(test_plans_come_back_or_are_mixed),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
