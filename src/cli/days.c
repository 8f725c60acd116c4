/* days.c - `weft days`: how long a whole training run takes with failures and checkpoints, and what it costs. */
#include "cli/days.h"

#include <stdio.h>
#include <string.h>

#include "cli/degrees.h"
#include "cli/goals.h"

struct days_command {
    struct plan_arguments plan;
    struct simulate_options simulate;
    double tokens, samples;
    const char *failures; /* a preset, or a rate */
    enum saving saving;
    double storage;
    int64_t detect_ns, restart_ns, repair_ns, every_ns, straggler_ns;
    int64_t spares, trials, seed;
    double jitter, stragglers, straggler_slower;
    double price, watts, overhead;
    bool elastic, json;
};

#define AT(field) offsetof(struct days_command, field)

enum { USUAL_TRIALS = 100, MOST_TRIALS = 100000, MOST_SPARES = 100000 };

/* ---- options --------------------------------------------------------------------------------- */

static const char *saving_choice(size_t i, const char **summary)
{
    if (i >= SAVING_COUNT)
        return NULL;
    *summary = saving_words((enum saving)i);
    return saving_name((enum saving)i);
}

static void take_saving(struct argp_state *state, void *input, char *arg)
{
    struct days_command *options = input;
    if (!saving_from_name(arg, &options->saving))
        argp_error(state, "--saving is '%s', expected sync, async or memory", arg);
}

static void take_storage(struct argp_state *state, void *input, char *arg)
{
    struct days_command *options = input;
    if (!parse_rate(arg, &options->storage) || options->storage <= 0)
        argp_error(state, "--storage takes a rate such as 2TB/s, not '%s'", arg);
}

static void take_time(struct argp_state *state, const char *name, const char *arg, int64_t *out)
{
    if (!parse_duration(arg, out) || *out < 0)
        argp_error(state, "--%s takes a time such as 10min, not '%s'", name, arg);
}

#define TAKE_TIME(field, name)                                                                     \
    static void take_##field(struct argp_state *state, void *input, char *arg)                     \
    {                                                                                              \
        take_time(state, name, arg, &((struct days_command *)input)->field);                       \
    }
TAKE_TIME(detect_ns, "detect")
TAKE_TIME(restart_ns, "restart")
TAKE_TIME(repair_ns, "repair")
TAKE_TIME(every_ns, "every")
TAKE_TIME(straggler_ns, "straggler-time")

static const struct cli_option OPTIONS[] = {
    {"tokens", "N", "tokens of the whole training, such as 15e12 or 15T", OPTION_MANY, AT(tokens)},
    {"samples", "N", "or its samples", OPTION_MANY, AT(samples)},
    {"failures", "RATE",
     "failures per 1,000 days of eight devices, or a published rate: llama3 (default), rsc-1, "
     "rsc-2, rsc-jobs, none",
     OPTION_TEXT, AT(failures)},
    {"saving", "HOW", NULL, OPTION_TAKE, .take = take_saving, .choices = saving_choice,
     .first_is_usual = true},
    {"storage", "RATE", "bandwidth of the storage for all nodes (default 1 GB/s per 8 devices)",
     OPTION_TAKE, .take = take_storage},
    {"every", "TIME", "computing between two checkpoints (default: the best)", OPTION_TAKE,
     .take = take_every_ns},
    {"detect", "TIME", "from a failure to the decision to restart (default 10min)", OPTION_TAKE,
     .take = take_detect_ns},
    {"restart", "TIME", "to start again, but for loading (default 5min)", OPTION_TAKE,
     .take = take_restart_ns},
    {"spares", "N", "nodes that stand by (default: as many as cost least)", OPTION_COUNT,
     AT(spares), .most = MOST_SPARES},
    {"repair", "TIME", "mean time until a node is back (default 1d)", OPTION_TAKE,
     .take = take_repair_ns},
    {"elastic", NULL,
     "without a spare, go on with the best plan on one node less, or on as few less as a plan "
     "takes",
     OPTION_FLAG, AT(elastic)},
    {"jitter", "PERCENT", "deviation of a node's part of an iteration", OPTION_PERCENT, AT(jitter),
     .below = 100},
    {"stragglers", "RATE", "nodes that become slow, per 1,000 days of eight devices", OPTION_REAL,
     AT(stragglers)},
    {"straggler-slower", "F", "times that all are slower then (default 1.2)", OPTION_REAL,
     AT(straggler_slower)},
    {"straggler-time", "TIME", "until it is found and replaced (default 1h)", OPTION_TAKE,
     .take = take_straggler_ns},
    {"price", "P", "of a device-hour (default: the cluster file's, or a published one)",
     OPTION_REAL, AT(price)},
    {"watts", "W", "of a device (default: its datasheet's most)", OPTION_REAL, AT(watts)},
    {"overhead", "F", "power of hosts and building / of the devices (default 1)", OPTION_REAL,
     AT(overhead)},
    {"trials", "N", "how often the run is played out with random numbers (default 100; 0: not)",
     OPTION_COUNT, AT(trials), .most = MOST_TRIALS},
    {"seed", "N", "seed of the random numbers", OPTION_COUNT, AT(seed)},
    PROFILE_OPTION(AT(simulate.profile)),
    JSON_OPTION(AT(json)),
    {0},
};

static const struct syntax SYNTAX = {
    OPTIONS,
    "PLAN\nMODEL CLUSTER",
    "How many days a whole training run takes, with failures, checkpoints, restarts, spare nodes "
    "and slow ones; its best interval of checkpoints, its money and its energy. By formula, and "
    "played out with random numbers.\v"
    "Example:\n"
    "  weft days llama3-70b dgx-h100:64 --tp 8 --pp 4 --sp --global-batch 1024 --tokens 15e12\n"
    "  weft days plan.json --tokens 300e9 --failures rsc-1 --saving async --spares 2\n"
    "  weft days gpt3-13b dgx-a100:4 --tp 8 --global-batch 64 --tokens 300e9 --spares 0 --elastic",
    .child = PLAN_CHILD(AT(plan)),
};

/* ---- the course of the run ------------------------------------------------------------------- */

/* A preset's name, or a number of failures per 1,000 node-days, all of which take the node. */
static weft_status find_failures(const struct days_command *options, double nodes,
                                 struct days_answer *out)
{
    struct failure_rate own = {"node", 0, true};
    if (parse_real(options->failures, &own.per_1000_node_days) && own.per_1000_node_days >= 0) {
        course_failures(&out->course, &own, 1, nodes);
        return WEFT_OK;
    }
    weft_status status = failure_preset_named(options->failures, &out->preset);
    if (!status)
        course_failures(&out->course, out->preset->rate, out->preset->rates, nodes);
    return status;
}

static void set_stragglers(const struct days_command *options, double nodes, struct course *course)
{
    struct course of_stragglers = {0};
    struct failure_rate rate = {"straggler", options->stragglers, true};
    course_failures(&of_stragglers, &rate, 1, nodes);
    course->stragglers_per_s = of_stragglers.failures_per_s;
    course->straggler_slower = options->straggler_slower;
    course->straggler_s = (double)options->straggler_ns * 1e-9;
    course->jitter = options->jitter / 100;
}

static weft_status set_course(const struct days_command *options, struct days_answer *out)
{
    const struct cluster *cluster = out->plan->cluster;
    struct course *course = &out->course;
    double nodes = rated_nodes(cluster);
    weft_status status;
    TRY(find_failures(options, nodes, out));
    set_stragglers(options, nodes, course);
    out->storage_bytes_per_s = options->storage > 0 ? options->storage : usual_storage(cluster);
    out->saving = options->saving;
    out->saved_bytes = plan_saved_bytes(out->plan);
    course_saving(course, out->plan, options->saving, out->storage_bytes_per_s);
    course->nodes = cluster->nodes;
    course->work_s = out->iterations * (double)out->iteration_ns * 1e-9;
    course->iterations = out->iterations;
    course->detect_s = (double)options->detect_ns * 1e-9;
    course->restart_s = (double)options->restart_ns * 1e-9;
    course->repair_s = (double)options->repair_ns * 1e-9;
    course->spares = options->spares >= 0 ? options->spares : cheapest_spares(course);
done:
    return status;
}

/* ---- one node less --------------------------------------------------------------------------- */

/* The best plan on so many nodes; WEFT_NO_ANSWER: none can be made, or none fits. */
static weft_status plan_on(const struct days_command *options, const struct plan *plan,
                           int64_t nodes, struct elastic *out)
{
    const char *name = plan->cluster_name ? plan->cluster_name : plan->cluster->name;
    struct plan_request request = {.model = plan->model,
                                   .pins = {.global_batch = plan->global_batch,
                                            .has_dtype = true,
                                            .dtype = plan->dtype,
                                            .software = plan->software,
                                            .memory = plan->memory},
                                   .options.quick = true,
                                   .profile = options->simulate.profile};
    struct cluster *fewer = NULL;
    struct planned *planned = NULL;
    weft_status status;
    if (plan->cluster->pools) /* the run waits for a repair */
        return no_answer(NULL, "which pool has one node less is not known");
    TRY(cluster_open(goals_cluster_name(options->plan.arena, name, nodes), &fewer));
    request.cluster = fewer;
    TRY(plan_search(planner_default(), &request, &planned));
    const struct trial *best = planned->trials.data;
    if (!best->fits)
        status = no_answer(NULL, "no plan fits on %s", counted(nodes, "node").s);
    out->plan = status ? NULL : arena_copy_text(options->plan.arena, best->text);
    out->iteration_ns = best->iteration_ns;
    out->nodes = nodes;
done:
    planned_free(planned);
    cluster_free(fewer);
    return status;
}

/* One node less if a plan can be made there; a global batch may ask for fewer, of which half are the least. */
static weft_status find_elastic(const struct days_command *options, struct days_answer *out)
{
    struct elastic *elastic = &out->elastic;
    int64_t nodes = out->plan->cluster->nodes;
    weft_status status = WEFT_NO_ANSWER;
    elastic->asked = true;
    if (nodes < 2)
        return bad_argument("a cluster of one node has none to lose",
                            "--elastic needs two nodes or more");
    for (int64_t n = nodes - 1; n >= (nodes + 1) / 2 && status == WEFT_NO_ANSWER; n--) {
        error_clear();
        status = plan_on(options, out->plan, n, elastic);
    }
    if (status == WEFT_NO_ANSWER) { /* the run waits for a repair */
        error_clear();
        return WEFT_OK;
    }
    TRY(status);
    elastic->switch_s = out->course.restart_s + out->course.load_s;
    double slower = (double)elastic->iteration_ns / (double)out->iteration_ns;
    out->course.one_less = slower > 1 ? slower : 1; /* nobody gains by a loss */
done:
    return status;
}

/* ---- running --------------------------------------------------------------------------------- */

static void set_bill(const struct days_command *options, struct days_answer *out)
{
    const struct cluster *cluster = out->plan->cluster;
    double devices = (double)(cluster->nodes + out->course.spares) * cluster->node.devices;
    out->tariff = cluster_tariff(cluster);
    if (options->price > 0) {
        out->tariff.price_per_hour = options->price;
        out->tariff.price_source = "given";
    }
    if (options->watts > 0) {
        out->tariff.watts = options->watts;
        out->tariff.watts_source = "given";
    }
    if (options->overhead > 0)
        out->tariff.overhead = options->overhead;
    out->bill = bill_of(&out->tariff, devices, out->expected.all_s);
}

static weft_status settle(const struct days_command *options, struct days_answer *out)
{
    bool given = options->every_ns > 0;
    weft_status status;
    TRY(set_course(options, out));
    if (options->elastic)
        TRY(find_elastic(options, out));
    int64_t n = given ? checkpoints_every(&out->course, (double)options->every_ns * 1e-9)
                      : best_checkpoints(&out->course);
    out->expected = expect(&out->course, n);
    if (!(out->expected.all_s < 1e18))
        return no_answer("save less often (--every), or raise --storage",
                         "with this course of failures and checkpoints the run never ends");
    out->trials = options->trials;
    if (options->trials)
        walk(options->plan.arena, &out->course, n, options->trials, (uint64_t)options->seed,
             &out->walked);
    set_bill(options, out);
done:
    return status;
}

static weft_status check_amount(const struct days_command *options)
{
    if ((options->tokens > 0) == (options->samples > 0))
        return bad_argument("such as --tokens 300e9",
                            "days needs the tokens or the samples of the whole training");
    return WEFT_OK;
}

static int run(const void *context, const struct plan *plan)
{
    const struct days_command *options = context;
    struct days_answer answer = {.plan = plan};
    struct prediction *prediction = NULL;
    weft_status status;
    TRY(check_amount(options));
    TRY(simulate(plan, &options->simulate, &prediction));
    TRY(must_fit(options->plan.arena, prediction));
    answer.iteration_ns = prediction->iteration_ns;
    answer.samples =
        options->tokens > 0 ? options->tokens / (double)plan->model->seq : options->samples;
    answer.iterations = answer.samples / (double)plan->global_batch;
    TRY(settle(options, &answer));
    cli_warn_doubts(plan);
    if (options->json)
        status = (weft_status)cli_print_json(days_json(&answer));
    else
        days_print(options->plan.arena, &answer, stdout);
done:
    prediction_free(prediction);
    return status ? cli_fail(status) : WEFT_OK;
}

int cmd_days(int argc, char **argv)
{
    struct days_command options = {.plan.arena = arena_new(),
                                   .failures = USUAL_TERMS.failures,
                                   .detect_ns = (int64_t)(USUAL_TERMS.detect_s * 1e9),
                                   .restart_ns = (int64_t)(USUAL_TERMS.restart_s * 1e9),
                                   .repair_ns = (int64_t)(USUAL_TERMS.repair_s * 1e9),
                                   .straggler_ns = INT64_C(3600) * 1000000000,
                                   .straggler_slower = 1.2,
                                   .spares = -1,
                                   .trials = USUAL_TRIALS};
    cli_read(&SYNTAX, argc, argv, &options);
    cli_warn_missing();
    options.plan.profile = options.simulate.profile;
    return plan_command(&options.plan, run, &options);
}
