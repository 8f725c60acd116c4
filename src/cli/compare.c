/* compare.c - `weft compare`: plans, degrees, schedules, planners, models or clusters side by side.
 *
 * The rows are the product of axes; an axis is an option with several values:
 *
 *   --over schedule=interleaved,aiao --over segments=2,4        2 x 2 rows
 *
 * Every option of a plan on the command line can be an axis, and so can model, cluster, planner, forbid
 * and for.
 * An option that belongs to one value only is added to it: schedule=interleaved+virtual=2,aiao+segments=4.
 * A planner chooses what is not given, or is given as any: schedule=aiao+planner=auto,
 * schedule=any+degrees=any.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/compare_log.h"
#include "cli/degrees.h"
#include "cli/goals.h"
#include "search/search.h"

enum { MOST_AXES = 6, MOST_ROWS = 1000 };

struct axis {
    const char *key;
    ARRAY(const char *) values;
};
struct compare_command {
    struct arena *arena;
    struct plan_arguments plan;
    struct axis axis[MOST_AXES];
    int axes;
    ARRAY(const char *) names; /* plan files, or MODEL and CLUSTER */
    struct forbids forbids;
    const struct target *target;
    const char *profile, *measured, *fold_back;
    bool json, quick;
};

/* ---- arguments ------------------------------------------------------------------------------- */

#define AT(field) offsetof(struct compare_command, field)

static void take_axis(struct argp_state *state, void *input, char *arg)
{
    struct compare_command *options = input;
    size_t key = strcspn(arg, "=");
    if (options->axes == MOST_AXES)
        argp_error(state, "at most %d options can be compared at once", MOST_AXES);
    if (key == 0 || arg[key] == '\0' || arg[key + 1] == '\0')
        argp_error(state, "--over takes KEY=VALUE,VALUE, not '%s'", arg);
    struct axis *axis = &options->axis[options->axes++];
    axis->key = arena_copy_bytes(options->arena, arg, key);
    char *rest = arena_copy_text(options->arena, arg + key + 1), *word;
    while ((word = strsep(&rest, ",")) != NULL)
        if (*word)
            array_push(options->arena, &axis->values, word);
}

static void take_forbid(struct argp_state *state, void *input, char *arg)
{
    struct compare_command *options = input;
    if (forbid_parse(options->arena, arg, &options->forbids) != WEFT_OK)
        argp_error(state, "--forbid: %s; %s", weft_last_error()->message, weft_last_error()->hint);
}

static void take_for(struct argp_state *state, void *input, char *arg)
{
    struct compare_command *options = input;
    options->target = take_target(state, arg);
}

static const struct cli_option OPTIONS[] = {
    {"over", "KEY=V1,V2",
     "a row for each value of an option of the plan, or of model, cluster or planner; may be "
     "repeated",
     OPTION_TAKE, .take = take_axis},
    {"forbid", "LIST", "what planners must not do, such as sp,zero=3", OPTION_TAKE,
     .take = take_forbid},
    {"for", "TARGET", "planners search only what this framework runs, such as megatron@0.16",
     OPTION_TAKE, .take = take_for},
    {"quick", NULL, "planners called auto ask only what answers in about a second", OPTION_FLAG,
     AT(quick)},
    {"measured", "TRACE",
     "compare what `weft train --trace` recorded, or a log of Megatron-LM or torchtitan, with the "
     "prediction of one plan",
     OPTION_TEXT, AT(measured)},
    {"fold-back", "DB",
     "with --measured: store how long the run's kernels took, for predictions with --profile DB",
     OPTION_TEXT, AT(fold_back)},
    PROFILE_OPTION(AT(profile)),
    JSON_OPTION(AT(json)),
    {0},
};

static error_t take_names(int key, char *arg, struct argp_state *state)
{
    struct compare_command *options = state->input;
    if (key != ARGP_KEY_ARG)
        return ARGP_ERR_UNKNOWN;
    array_push(options->arena, &options->names, arg);
    return 0;
}

static const struct syntax SYNTAX = {
    OPTIONS,
    "PLAN PLAN...\nMODEL CLUSTER --over KEY=V1,V2\nPLAN --measured TRACE",
    "Simulates plans and shows them side by side: time, throughput, memory, where time goes and, "
    "where the cluster has prices, what it costs. What cannot be planned is listed with its "
    "reason. The exit code is 1 when nothing fits.\v"
    "Example:\n"
    "  weft compare before.json after.json\n"
    "  weft compare data/plans/tiny.yaml --measured trace.json --fold-back here.sqlite\n"
    "  weft compare gpt3-18b fold3d-a100:16 --dp 8 --pp 2 --tp 8 --global-batch 512 \\\n"
    "      --microbatch 2 --over schedule=interleaved+virtual=2,aiao+planner=auto\n"
    "  weft compare gpt3-13b dgx-a100:4 --global-batch 64 --over planner=megatron,galvatron\n"
    "  weft compare gpt3-13b dgx-a100:4 --tp 8 --global-batch 64 --over "
    "cluster=dgx-a100:4,dgx-h100:4",
    .names = take_names,
    .child = PLAN_CHILD(AT(plan)),
};

/* ---- rows ------------------------------------------------------------------------------------ */

/* What a row is made from: the arguments that all rows share, with the values of its axes. */
struct recipe {
    struct plan_arguments plan;
    const struct planner *planner; /* NULL if the degrees alone make the plan */
    struct forbids forbids;        /* for the planner */
    const struct target *target;   /* the same */
};

/* For "degrees=any": the planner of this row chooses, even what was given for all rows. */
static weft_status open_degrees(const char *value, struct recipe *recipe)
{
    if (strcmp(value, "any") != 0)
        return bad_argument("degrees=any leaves all to the planner",
                            "degrees is '%s', expected any", value);
    recipe->forbids = (struct forbids){0};
    return degrees_open(&recipe->plan);
}

static weft_status apply(const char *key, const char *value, struct recipe *recipe)
{
    if (strcmp(key, "planner") == 0)
        return planner_named(value, &recipe->planner);
    if (strcmp(key, "forbid") == 0)
        return forbid_parse(recipe->plan.arena, value, &recipe->forbids);
    if (strcmp(key, "for") == 0) {
        recipe->target = target_find(value);
        return recipe->target ? WEFT_OK : WEFT_BAD_INPUT;
    }
    if (strcmp(key, "degrees") == 0)
        return open_degrees(value, recipe);
    if (strcmp(key, "model") == 0)
        recipe->plan.name[0] = value;
    else if (strcmp(key, "cluster") == 0)
        recipe->plan.name[1] = value;
    else
        return degrees_set(&recipe->plan, key, value);
    return WEFT_OK;
}

/* Applies a label such as "aiao+segments=4": the value of the axis, and other options that belong to it. */
static weft_status apply_label(struct arena *scratch, const char *key, const char *label,
                               struct recipe *recipe)
{
    char *rest = arena_copy_text(scratch, label), *word = strsep(&rest, "+");
    weft_status status;
    TRY(apply(key, word, recipe));
    while ((word = strsep(&rest, "+")) != NULL) {
        char *value = strchr(word, '=');
        if (!value)
            return bad_argument("such as aiao+segments=4", "'%s' in '%s' is no KEY=VALUE", word,
                                label);
        *value = '\0';
        TRY(apply(word, value + 1, recipe));
    }
done:
    return status;
}

static weft_status search_row(const struct compare_command *options, struct recipe *recipe,
                              struct opened_plan *opened, const char **found)
{
    struct planned *planned = NULL;
    weft_status status;
    TRY(open_names(&recipe->plan, opened));
    struct plan_request request = {
        .model = opened->model,
        .cluster = opened->cluster,
        .pins = recipe->plan.degrees,
        .forbids = recipe->forbids,
        .target = recipe->target,
        .profile = options->profile,
        .options = {.quick = options->quick, .simplest = USUAL_SIMPLEST}};
    if (request.forbids.len)
        request.options.given |= 1U << TAKES_FORBID;
    TRY(plan_search(recipe->planner, &request, &planned));
    *found = arena_copy_text(options->arena, planned->trials.data[0].text);
    TRY(trial_take(&request, &planned->trials.data[0], &opened->plan));
done:
    planned_free(planned);
    return status;
}

static weft_status predict(const struct compare_command *options, const struct recipe *recipe,
                           struct compared *row)
{
    struct simulate_options simulation = {.profile = options->profile};
    struct opened_plan opened = {0};
    struct prediction *prediction = NULL;
    struct recipe own = *recipe;
    own.plan.profile = options->profile;
    weft_status status = recipe->planner ? search_row(options, &own, &opened, &row->found)
                                         : plan_open(&own.plan, &opened);
    if (!status)
        status = simulate(opened.plan, &simulation, &prediction);
    if (!status)
        compared_from(prediction, row);
    prediction_free(prediction);
    plan_close(&opened);
    return status;
}

/* If values do not go together, that is part of the answer. A failure of the machine ends the command, and so
 * does a plan file that cannot be read. */
static weft_status add_row(const struct compare_command *options, const struct recipe *recipe,
                           struct compared row, struct comparison *out)
{
    weft_status status = predict(options, recipe, &row);
    if (status == WEFT_FAILURE || (status == WEFT_BAD_INPUT && !options->axes))
        return status;
    if (status)
        row.error = arena_copy_text(out->arena, weft_last_error()->message);
    array_push(out->arena, &out->rows, row);
    error_clear();
    return WEFT_OK;
}

static weft_status compare_files(const struct compare_command *options, struct comparison *out)
{
    weft_status status = WEFT_OK;
    out->header = ARENA_ARRAY(out->arena, const char *, 1);
    out->header[0] = "plan";
    out->labels = 1;
    for (size_t i = 0; i < options->names.len; i++) {
        struct recipe recipe = {.plan = options->plan};
        struct compared row = {.label = &options->names.data[i]};
        recipe.plan.name[0] = options->names.data[i];
        recipe.plan.names = 1;
        TRY(add_row(options, &recipe, row, out));
    }
done:
    return status;
}

/* The model and the cluster must exist, whether or not they go with the other values. */
static weft_status check_names(const struct plan_arguments *plan)
{
    struct model *model = NULL;
    struct cluster *cluster = NULL;
    weft_status status;
    TRY(model_open(plan->name[0], NULL, &model));
    TRY(cluster_open(plan->name[1], &cluster));
done:
    model_free(model);
    cluster_free(cluster);
    return status;
}

static weft_status compare_axes(const struct compare_command *options, struct comparison *out)
{
    int64_t rows = 1;
    weft_status status = WEFT_OK;
    out->labels = (size_t)options->axes;
    out->header = ARENA_ARRAY(out->arena, const char *, out->labels);
    for (int a = 0; a < options->axes; a++) {
        out->header[a] = options->axis[a].key;
        rows *= (int64_t)options->axis[a].values.len;
    }
    if (rows > MOST_ROWS)
        return bad_argument(NULL, "%lld rows are too many, expected at most %d", (long long)rows,
                            MOST_ROWS);
    for (int64_t r = 0; r < rows; r++) {
        struct recipe recipe = {
            .plan = options->plan, .forbids = options->forbids, .target = options->target};
        struct compared row = {.label = ARENA_ARRAY(out->arena, const char *, out->labels)};
        int64_t rest = r;
        for (int a = options->axes - 1; a >= 0; a--) { /* the last axis changes fastest */
            const struct axis *axis = &options->axis[a];
            row.label[a] = axis->values.data[rest % (int64_t)axis->values.len];
            rest /= (int64_t)axis->values.len;
        }
        for (int a = 0; a < options->axes; a++) /* the last axis wins */
            TRY(apply_label(out->arena, options->axis[a].key, row.label[a], &recipe));
        TRY(check_names(&recipe.plan));
        TRY(add_row(options, &recipe, row, out));
    }
done:
    return status;
}

/* ---- comparing with a measurement ------------------------------------------------------------ */

static weft_status check_measured(struct compare_command *options)
{
    if (options->axes || options->names.len < 1 || options->names.len > 2)
        return bad_argument("such as: weft compare plan.json --measured trace.json",
                            "--measured goes with one plan");
    options->plan.names = (int)options->names.len;
    for (size_t i = 0; i < options->names.len; i++)
        options->plan.name[i] = options->names.data[i];
    return WEFT_OK;
}

/* How many kernels were stored, and what is then predicted. */
struct fold_back {
    int64_t kernels;
    double predicted_s;
};

static weft_status fold_back(const struct compare_command *options, const struct overlay *overlay,
                             const struct prediction *prediction, struct fold_back *out)
{
    struct simulate_options simulation = {.fold = FOLD_NEVER, .profile = options->fold_back};
    struct prediction *again = NULL;
    weft_status status;
    TRY(overlay_fold_back(overlay, prediction, options->profile, options->fold_back,
                          &out->kernels));
    TRY(simulate(prediction->plan, &simulation, &again));
    out->predicted_s = (double)again->iteration_ns * 1e-9;
done:
    prediction_free(again);
    return status;
}

static weft_status tell_measured(const struct compare_command *options,
                                 const struct overlay *overlay, const struct fold_back *folded)
{
    if (options->json) {
        json_t *json = overlay_json(overlay);
        if (options->fold_back)
            json_object_set_new(json, "folded_back",
                                json_pack("{s:s, s:I, s:f}", "db", options->fold_back, "kernels",
                                          (json_int_t)folded->kernels, "predicted_s",
                                          folded->predicted_s));
        return (weft_status)cli_print_json(json);
    }
    overlay_print(options->arena, overlay, stdout);
    if (options->fold_back)
        printf(
            "%lld kernel times folded back into %s: with them the iteration is predicted at %s\n",
            (long long)folded->kernels, options->fold_back,
            show_seconds(folded->predicted_s * 1e9).s);
    return WEFT_OK;
}

static weft_status run_logged(struct compare_command *options)
{
    struct simulate_options simulation = {.profile = options->profile};
    struct opened_plan opened = {0};
    struct prediction *prediction = NULL;
    struct framework_log log;
    weft_status status;
    TRY(check_measured(options));
    TRY(run_log_read(options->arena, options->measured, &log));
    TRY(plan_open(&options->plan, &opened));
    TRY(simulate(opened.plan, &simulation, &prediction));
    struct run_case one = {.opened = opened, .profile = options->profile};
    TRY(tell_run_log(options->arena, &log, &one, prediction, options->json));
done:
    prediction_free(prediction);
    plan_close(&opened);
    return status;
}

static weft_status run_measured(struct compare_command *options)
{
    if (!options->fold_back && is_run_log(options->measured))
        return run_logged(options);
    struct simulate_options simulation = {.fold = FOLD_NEVER, .profile = options->profile};
    struct opened_plan opened = {0};
    struct prediction *prediction = NULL;
    struct overlay overlay;
    struct fold_back folded = {0};
    weft_status status;
    TRY(check_measured(options));
    TRY(plan_open(&options->plan, &opened));
    TRY(take_run_facts(options->measured, opened.plan));
    TRY(simulate(opened.plan, &simulation, &prediction));
    TRY(overlay_read(options->arena, options->measured, prediction, &overlay));
    if (options->fold_back)
        TRY(fold_back(options, &overlay, prediction, &folded));
    TRY(tell_measured(options, &overlay, &folded));
done:
    prediction_free(prediction);
    plan_close(&opened);
    return status;
}

/* ---- running --------------------------------------------------------------------------------- */

static weft_status check_arguments(struct compare_command *options)
{
    if (options->axes && options->names.len != 2)
        return bad_argument("such as: weft compare gpt3-13b dgx-a100:4 --over tp=2,4,8",
                            "--over compares plans of one MODEL on one CLUSTER");
    if (!options->axes && options->names.len == 2 && is_preset(options->names.data[0]) &&
        access(options->names.data[0], F_OK) != 0)
        return bad_argument("say what: --over planner=auto,megatron, --over tp=2,4,8",
                            "a MODEL on a CLUSTER is compared over something");
    if (!options->axes && options->names.len < 2)
        return bad_argument("name two plan files, or vary something with --over",
                            "compare needs at least two plans");
    for (size_t i = 0; options->axes && i < 2; i++)
        options->plan.name[i] = options->names.data[i];
    options->plan.names = (int)(options->axes ? 2 : 1);
    return WEFT_OK;
}

static weft_status verdict(const struct comparison *comparison)
{
    bool predicted = false;
    for (size_t i = 0; i < comparison->rows.len; i++) {
        const struct compared *row = &comparison->rows.data[i];
        if (!row->error && row->fits)
            return WEFT_OK;
        predicted |= !row->error;
    }
    if (!predicted)
        return bad_argument(NULL, "none of %zu rows makes a plan", comparison->rows.len);
    return no_answer("--recompute full, more devices or a higher --zero need less memory",
                     "none of %zu plans fits", comparison->rows.len);
}

static weft_status run(struct compare_command *options, struct comparison *comparison)
{
    weft_status status;
    TRY(check_arguments(options));
    TRY(options->axes ? compare_axes(options, comparison) : compare_files(options, comparison));
    if (options->json) {
        status = (weft_status)cli_print_json(comparison_json(comparison));
    } else {
        comparison_print(comparison, stdout);
        fflush(stdout); /* before anything goes to standard error */
    }
    if (!status)
        status = verdict(comparison);
done:
    return status;
}

int cmd_compare(int argc, char **argv)
{
    struct arena *arena = arena_new();
    struct compare_command options = {.arena = arena,
                                      .plan = {.arena = arena, .named_elsewhere = true}};
    struct comparison comparison = {.arena = arena, .unit = "M tokens"};
    cli_read(&SYNTAX, argc, argv, &options);
    cli_warn_missing();
    if (options.fold_back && !options.measured) {
        arena_free(arena);
        return cli_fail(bad_argument("add --measured trace.json", "--fold-back of which run?"));
    }
    weft_status status = options.measured ? run_measured(&options) : run(&options, &comparison);
    for (size_t i = 0; i < comparison.rows.len; i++)
        json_decref(comparison.rows.data[i].prediction);
    arena_free(arena);
    return status ? cli_fail(status) : WEFT_OK;
}
