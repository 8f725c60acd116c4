/* test_program_numbers.c - numbers that the program prints, against the library's and by hand.
 *
 *   P1  Every flag of `weft days` reaches the course of the run in its unit: the answer is the formula's.
 *   P2  The bill is of all devices, spare ones too, at the rates that are given.
 *   P3  What `weft plan` ranks sizes of a cluster by is the same: days, or energy, of the usual course.
 *   P4  Messages that share a network card take as many times as long as there are of them.
 *   P5  A time between two measurements names both.
 *   P6  A pool computes for the mean of its stages' shares; a row of a comparison is slower by its samples per second.
 *   P7  What is proposed against too little memory helps: sharding where a tenth of the weights or more has replicas.
 *   P8  A table of runs of which none can be predicted has reasons and no empty table, and exit code 1; what was predicted
 *       not to fit, and what is far off, is said by its lines. Runs that are too few for a fit are called so.
 */
#include <math.h>

#include "campaign/campaign.h"
#include "program.h"
#include "made_plan.h"

static const double DAY = 86400, GIVEN = 1e-6; /* JSON has more digits than that */

static const struct degrees SHARED = {.global_batch = 32};

static double number(const json_t *json, const char *key)
{
    const json_t *value = json_object_get(json, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static void assert_close(const char *what, double found, double expected)
{
    if (!(fabs(found - expected) <= GIVEN * fabs(expected)))
        fail_msg("%s: %.9g, expected %.9g", what, found, expected);
}

/* ---- P1, P2 ---------------------------------------------------------------------------------- */

static const struct failure_rate OWN = {"node", 20, true}, SLOW = {"straggler", 50, true};

static void set_nothing(struct course *c, const struct plan *plan)
{
    (void)c, (void)plan;
}

static void set_jitter(struct course *c, const struct plan *plan)
{
    (void)plan;
    c->jitter = 0.1;
}

static void set_stragglers(struct course *c, const struct plan *plan)
{
    struct course slow = {0};
    course_failures(&slow, &SLOW, 1, rated_nodes(plan->cluster));
    c->stragglers_per_s = slow.failures_per_s;
    c->straggler_slower = 1.5;
    c->straggler_s = 1800;
}

static void set_own_rate(struct course *c, const struct plan *plan)
{
    course_failures(c, &OWN, 1, rated_nodes(plan->cluster));
}

static void set_preset(struct course *c, const struct plan *plan)
{
    const struct failure_preset *preset;
    assert_int_equal(failure_preset_named("rsc-2", &preset), WEFT_OK);
    course_failures(c, preset->rate, preset->rates, rated_nodes(plan->cluster));
}

static void set_times(struct course *c, const struct plan *plan)
{
    (void)plan;
    c->detect_s = 1200;
    c->restart_s = 60;
    c->repair_s = 2 * DAY;
    c->spares = 3;
}

static void set_storage(struct course *c, const struct plan *plan)
{
    course_saving(c, plan, SAVING_ASYNC, 1e8);
}

static const struct {
    const char *flags;
    void (*set)(struct course *course, const struct plan *plan);
    double every_s; /* between checkpoints; 0: the best */
    struct tariff tariff;
} RUNS[] = {
    {"", set_nothing, 0, {0}},
    {"--jitter 10", set_jitter, 0, {0}},
    {"--stragglers 50 --straggler-slower 1.5 --straggler-time 30min", set_stragglers, 0, {0}},
    {"--failures 20", set_own_rate, 0, {0}},
    {"--failures rsc-2", set_preset, 0, {0}},
    {"--detect 20min --restart 1min --repair 2d --spares 3", set_times, 0, {0}},
    {"--storage 100MB/s --saving async", set_storage, 0, {0}},
    {"--every 3h", set_nothing, 3 * 3600, {0}},
    {"--price 2.5 --watts 500 --overhead 1.5", set_nothing, 0, {2.5, NULL, 500, NULL, 1.5}},
};

static void hold_bill(const json_t *json, const struct made *run, const struct course *course,
                      const struct tariff *given, double all_s)
{
    struct tariff tariff = given->watts > 0 ? *given : usual_tariff(&run->cluster->node.device);
    double devices = (double)(run->cluster->nodes + course->spares) * run->cluster->node.devices;
    struct bill bill = bill_of(&tariff, devices, all_s);
    assert_close("device-hours", number(json, "device_hours"), devices * all_s / 3600);
    assert_close("money", number(json, "money"), bill.money);
    assert_close("energy", number(json, "kwh"), bill.kwh);
}

static void test_flags_reach_the_course(void **state)
{
    (void)state;
    struct made run = make("gpt3-1.3b", NULL, "dgx-a100:2", &SHARED);
    for (size_t i = 0; i < COUNT_OF(RUNS); i++) {
        char arguments[256];
        struct course course;
        snprintf(arguments, sizeof arguments,
                 "days gpt3-1.3b dgx-a100:2 --global-batch 32 --tokens 1e12 --trials 0 --json %s",
                 RUNS[i].flags);
        json_t *json = json_of(arguments);
        assert_close("iterations", number(json, "iterations"), 1e12 / 2048 / 32);
        assert_int_equal(usual_course(run.plan, number(json, "iterations"),
                                      number(json, "iteration_s"), &course),
                         WEFT_OK);
        RUNS[i].set(&course, run.plan);
        int64_t n = RUNS[i].every_s > 0 ? checkpoints_every(&course, RUNS[i].every_s)
                                        : best_checkpoints(&course);
        struct expectation e = expect(&course, n);
        assert_close(arguments, number(json, "days"), e.all_s / DAY);
        assert_close(arguments, number(json_object_get(json, "parts"), "slow"),
                     e.part_s[OUTLAY_SLOW] / DAY);
        assert_close(arguments, number(json, "failures"), e.failures);
        assert_close(arguments, number(json_object_get(json, "checkpoint"), "interval_s"),
                     e.interval_s);
        hold_bill(json_object_get(json, "bill"), &run, &course, &RUNS[i].tariff, e.all_s);
        json_decref(json);
    }
    unmake(&run);
}

/* ---- P3 -------------------------------------------------------------------------------------- */

static void test_sizes_are_scored_by_the_usual_course(void **state)
{
    (void)state;
    static const char *const OBJECTIVES[] = {"days", "energy"};
    static const struct degrees degrees = {.global_batch = 256};
    int64_t spares = 0;
    for (size_t k = 0; k < COUNT_OF(OBJECTIVES); k++) {
        char arguments[256];
        snprintf(
            arguments, sizeof arguments,
            "plan gpt3-1.3b dgx-a100 --global-batch 256 --max-devices 256 --objective %s --tokens "
            "1e11 --quick --tp 1 --pp 1 --zero 1 --recompute none --micro-batch 1 --json",
            OBJECTIVES[k]);
        json_t *json = json_of(arguments), *sizes = json_object_get(json, "sizes");
        assert_int_equal(json_array_size(sizes), 6);
        for (size_t i = 0; i < json_array_size(sizes); i++) {
            const json_t *size = json_array_get(sizes, i);
            char name[32];
            struct course course;
            snprintf(name, sizeof name, "dgx-a100:%d", (int)number(size, "nodes"));
            struct made run = make("gpt3-1.3b", NULL, name, &degrees);
            assert_int_equal(
                usual_course(run.plan, 1e11 / 2048 / 256, number(size, "iteration_s"), &course),
                WEFT_OK);
            double all_s = expect(&course, best_checkpoints(&course)).all_s;
            struct tariff tariff = usual_tariff(&run.cluster->node.device);
            double devices = (double)(run.cluster->nodes + course.spares) * 8;
            assert_close(name, number(size, "score"),
                         k == 0 ? all_s / DAY : bill_of(&tariff, devices, all_s).kwh);
            spares += course.spares;
            unmake(&run);
        }
        json_decref(json);
    }
    assert_true(spares > 0); /* of 32 nodes */
}

/* ---- P4 -------------------------------------------------------------------------------------- */

/* All devices of a DGX with V100s send through the same cards; in one with A100s each has its own. */
static void test_messages_share_cards(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t shared_by;
    } CLUSTERS[] = {{"dgx-v100:4", 8}, {"dgx-a100:4", 1}};
    for (size_t c = 0; c < COUNT_OF(CLUSTERS); c++) {
        char arguments[128];
        struct cluster *cluster = open_cluster(CLUSTERS[c].name);
        snprintf(arguments, sizeof arguments, "clusters %s --model gpt3-13b --json",
                 CLUSTERS[c].name);
        json_t *json = json_of(arguments), *messages = json_object_get(json, "messages");
        int checked = 0;
        for (size_t i = 0; i < json_array_size(messages); i++) {
            const json_t *m = json_array_get(messages, i);
            enum collective collective;
            struct collective_cost alone;
            struct group nodes = {
                .levels = 1, .count = {(int64_t)number(m, "devices")}, .stride = {8}};
            if (number(m, "at_once") < 2)
                continue;
            assert_true(collective_from_name(json_string_value(json_object_get(m, "collective")),
                                             &collective));
            assert_int_equal(
                collective_time(cluster, collective, &nodes, (int64_t)number(m, "bytes"), &alone),
                WEFT_OK);
            assert_true(fabs(number(m, "ns") / (double)alone.ns - (double)CLUSTERS[c].shared_by) <
                        1e-3 * (double)CLUSTERS[c].shared_by);
            checked++;
        }
        assert_int_equal(checked, 2); /* gradients and activations */
        json_decref(json);
        cluster_free(cluster);
    }
}

/* ---- P5 -------------------------------------------------------------------------------------- */

static void test_answers_name_what_they_rest_on(void **state)
{
    (void)state;
    static const char TABLE[] =
        "device,kernel,phase,dtype,shape,ns\\n"
        "X1,matmul,forward,bf16,\"batch=1,m=4096,n=1024,k=1024\",100000\\n"
        "X1,matmul,forward,bf16,\"batch=1,m=16384,n=1024,k=1024\",500000\\n";
    static const double ROWS[] = {4096, 16384}, NS[] = {100000, 500000};
    char command[1024];
    int code;
    snprintf(
        command, sizeof command,
        "d=$(mktemp -d) && printf '%s' >$d/t.csv && '%s' profile import $d/t.csv --db $d/my.sqlite "
        ">/dev/null && '%s' profile show $d/my.sqlite --kernel matmul --dtype bf16 --device X1 "
        "--shape batch=1,m=8192,n=1024,k=1024 --json; rm -r $d",
        TABLE, WEFT_PROGRAM, WEFT_PROGRAM);
    char *text = output_of(command, &code);
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    const json_t *rests_on = json_object_get(json, "rests_on");
    assert_int_equal(json_array_size(rests_on), 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *row = json_array_get(rests_on, i);
        assert_close("rows", number(json_object_get(row, "shape"), "m"), ROWS[i]);
        assert_close("ns", number(row, "ns"), NS[i]);
    }
    assert_close("half way by powers", number(json, "ns"), round(sqrt(NS[0] * NS[1])));
    json_decref(json);
    free(text);
}

/* ---- P6 -------------------------------------------------------------------------------------- */

static double stage_share(const json_t *json, int stage)
{
    static const char *const COMPUTES[] = {"forward", "backward", "recompute", "optimizer"};
    const json_t *time =
        json_object_get(json_array_get(json_object_get(json, "stages"), (size_t)stage), "time");
    double sum = 0;
    for (size_t i = 0; i < COUNT_OF(COMPUTES); i++)
        sum += number(time, COMPUTES[i]);
    return sum / number(json, "iteration_s");
}

static void test_pools_compute_as_their_stages(void **state)
{
    (void)state;
    json_t *json = json_of("simulate llama3-8b " WEFT_SOURCE_DIR
                           "/data/clusters/two-generations.yaml --pp 4 --tp 8 --global-batch 64 "
                           "--json");
    const json_t *pools = json_object_get(json, "pools");
    assert_int_equal(json_array_size(pools), 2);
    for (size_t p = 0; p < json_array_size(pools); p++) {
        const json_t *pool = json_array_get(pools, p);
        int first = (int)number(pool, "first_stage"), stages = (int)number(pool, "stages");
        double sum = 0;
        for (int s = first; s < first + stages; s++)
            sum += stage_share(json, s);
        assert_int_equal(stages, 2);
        assert_close("computes", number(pool, "computes"), sum / stages);
    }
    json_decref(json);
}

/* The row of tp 2: its time over that of tp 1, less one, to a tenth of a per cent. */
static void test_slower_is_against_the_best(void **state)
{
    (void)state;
    static const char COMPARED[] = "compare gpt3-1.3b dgx-a100:1 --global-batch 32 --over tp=1,2";
    char arguments[128];
    snprintf(arguments, sizeof arguments, "%s --json", COMPARED);
    json_t *json = json_of(arguments), *rows = json_object_get(json, "rows");
    double s[2];
    for (size_t i = 0; i < 2; i++)
        s[i] = number(json_object_get(json_array_get(rows, i), "prediction"), "iteration_s");
    char *text = answer_to(COMPARED), *slower = strchr(text, '+');
    assert_non_null(slower);
    assert_true(fabs(strtod(slower, NULL) - 100 * (s[1] / s[0] - 1)) < 0.05001);
    free(text);
    json_decref(json);
}

/* ---- P7 -------------------------------------------------------------------------------------- */

/* Each of 8 devices has one of 8 experts, and a fifth of its weights is everyone's. */
static void test_sharding_is_proposed_for_some_replicas(void **state)
{
    (void)state;
    int code;
    char *text =
        output_of("'" WEFT_PROGRAM "' simulate mixtral-8x7b dgx-a100:1 --ep 8 2>&1", &code);
    assert_int_equal(code, WEFT_NO_ANSWER);
    assert_non_null(strstr(text, "sharded optimizer state (--zero 1)"));
    free(text);
}

/* ---- P8 -------------------------------------------------------------------------------------- */

static char *validated(const char *rows, int *code)
{
    char command[1024];
    snprintf(command, sizeof command,
             "f=$(mktemp); printf 'model,cluster,tp, step time \\n%s' > $f.csv; '" WEFT_PROGRAM
             "' validate $f.csv; code=$?; rm $f $f.csv; exit $code",
             rows);
    return output_of(command, code);
}

/* GPT-3 175B has no room on eight devices without sharding; no such step takes a minute or more there. */
static void test_tables_of_runs_say_what_is_wrong(void **state)
{
    (void)state;
    int code;
    char *text = validated("gpt3-350m,dgx-a100:1,8,soon\\ngpt3-350m,dgx-a100:1,x,1\\n", &code);
    assert_int_equal(code, WEFT_NO_ANSWER);
    assert_string_equal(text,
                        "None of 2 runs could be predicted.\n\n"
                        "line  refused because\n"
                        "────────────────────────────────────────────────────────────────────────\n"
                        "   2  step time is 'soon', expected a time above 0, such as 5.1 or 5.1 s\n"
                        "   3  tp is 'x', expected a whole number of at least 1\n");
    free(text);
    text = validated("gpt3-175b,dgx-a100:1,8,10\\ngpt3-350m,dgx-a100:1,1,600 s\\n", &code);
    assert_int_equal(code, WEFT_OK);
    assert_non_null(strstr(text, "predicted not to fit in memory: line 2\n"));
    assert_non_null(strstr(text, "more than ten times off: line 3\n"));
    free(text);
}

/* Three runs of 5 to 25 % more than is predicted gain by slower products, which three may by chance: nothing is written, and
 * that is the reason, not that it would not help. */
static void test_few_runs_are_called_few(void **state)
{
    (void)state;
    static const struct {
        int tp, pp;
        double slower; /* times its prediction */
    } SLOWER[] = {{8, 1, 1.05}, {4, 2, 1.25}, {2, 4, 1.1}};
    char rows[512] = "", question[256], command[1024];
    int code;
    for (size_t i = 0; i < COUNT_OF(SLOWER); i++) {
        snprintf(question, sizeof question,
                 "simulate gpt3-13b dgx-a100:1 --tp %d --pp %d --global-batch 32 --json "
                 "2>/dev/null; true",
                 SLOWER[i].tp, SLOWER[i].pp);
        json_t *json = json_of(question);
        snprintf(rows + strlen(rows), sizeof rows - strlen(rows),
                 "gpt3-13b,dgx-a100:1,%d,%d,32,%.6f\\n", SLOWER[i].tp, SLOWER[i].pp,
                 SLOWER[i].slower * number(json, "iteration_s"));
        json_decref(json);
    }
    snprintf(command, sizeof command,
             "f=$(mktemp); printf 'model,cluster,tp,pp,gbs,s\\n%s' > $f; '" WEFT_PROGRAM
             "' fit --runs $f 2>&1; code=$?; rm $f; exit $code",
             rows);
    char *text = output_of(command, &code);
    assert_int_equal(code, WEFT_NO_ANSWER);
    assert_non_null(strstr(text, "3 runs are too few to be sure"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flags_reach_the_course),
        cmocka_unit_test(test_sizes_are_scored_by_the_usual_course),
        cmocka_unit_test(test_messages_share_cards),
        cmocka_unit_test(test_answers_name_what_they_rest_on),
        cmocka_unit_test(test_pools_compute_as_their_stages),
        cmocka_unit_test(test_slower_is_against_the_best),
        cmocka_unit_test(test_sharding_is_proposed_for_some_replicas),
        cmocka_unit_test(test_tables_of_runs_say_what_is_wrong),
        cmocka_unit_test(test_few_runs_are_called_few),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
