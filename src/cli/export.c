/* export.c - `weft export`: writes a plan in the format of another framework. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/degrees.h"

struct export_command {
    struct plan_arguments plan;
    const char *to, *output;
    bool nearest, json;
};

static const char *target_choice(size_t i, const char **summary)
{
    if (i > format_count())
        return NULL;
    bool traces = i == format_count();
    *summary = traces ? CHAKRA_SUMMARY : format_summary(i);
    return traces ? CHAKRA_FORMAT : format_name(i);
}

static void print_targets(struct argp_state *state, void *options, char *arg)
{
    (void)state, (void)options, (void)arg;
    choices_list(target_choice);
}

#define AT(field) offsetof(struct export_command, field)
static const struct cli_option OPTIONS[] = {
    {"to", "TARGET", NULL, OPTION_TEXT, AT(to), .choices = target_choice},
    {"names", NULL, "bare names of the targets, one per line", OPTION_TAKE, .take = print_targets},
    OUTPUT_OPTION(AT(output),
                  "write to this file instead of standard output (chakra: to this folder)"),
    {"nearest", NULL,
     "write the nearest plan that the target runs and that fits, and compare the predictions; the "
     "exit code is 1 where there is none",
     OPTION_FLAG, AT(nearest)},
    JSON_OPTION(AT(json)),
    {0},
};

static error_t take_names(int key, char *arg, struct argp_state *state)
{
    const struct export_command *options = state->input;
    (void)arg;
    if (key == ARGP_KEY_END && !options->to)
        argp_error(state, "--to is missing; `weft export --names` lists the targets");
    return ARGP_ERR_UNKNOWN; /* the child takes the other arguments */
}

static const struct syntax SYNTAX = {
    OPTIONS,
    "PLAN\nMODEL CLUSTER",
    "Writes a plan for the framework that will run it. Degrees, layers per stage and recomputation "
    "are recognised in the plan; what the target cannot express is an error that names it, and "
    "--nearest writes the nearest plan that it can.\v"
    "Example:\n"
    "  weft export data/plans/gpt3-13b.yaml --to megatron -o args.sh\n"
    "  weft export llama3-8b dgx-h100 --zero 3 --global-batch 64 --to fsdp -o train.py\n"
    "  weft export data/plans/gpt3-13b-by-hand.yaml --to slurm --nearest -o job.sbatch\n"
    "  weft export gpt3-1.3b dgx-a100 --tp 2 --pp 2 --global-batch 16 --to chakra -o traces",
    .names = take_names,
    .child = PLAN_CHILD(AT(plan)),
};

/* ---- predictions ----------------------------------------------------------------------------- */

struct predicted {
    bool known;
    double iteration_s;
    double needed_bytes; /* on the fullest stage */
    bool fits;
};

static weft_status predict(const struct plan *plan, struct predicted *out)
{
    struct prediction *prediction;
    struct simulate_options options = {.fold = FOLD_AUTO};
    cli_warn_missing();
    weft_status status = simulate(plan, &options, &prediction);
    if (status)
        return status;
    *out = (struct predicted){true, (double)prediction->iteration_ns / 1e9, 0, prediction->fits};
    for (int32_t s = 0; s < plan->stages; s++)
        out->needed_bytes =
            fmax(out->needed_bytes, (double)stage_needed(&prediction->stage[s].memory));
    prediction_free(prediction);
    return WEFT_OK;
}

struct both_predictions {
    struct predicted plan, written;
};

/* Predicts both plans, if they differ. */
static weft_status compare(const struct plan *plan, const struct export_result *result,
                           struct both_predictions *out)
{
    weft_status status = WEFT_OK;
    *out = (struct both_predictions){0};
    if (!result->differences.len)
        return WEFT_OK;
    TRY(predict(plan, &out->plan));
    TRY(predict(result->written, &out->written));
done:
    return status;
}

/* ---- printing -------------------------------------------------------------------------------- */

static json_t *texts_json(const struct texts *texts)
{
    json_t *list = json_array();
    for (size_t i = 0; i < texts->len; i++)
        json_array_append_new(list, json_text(texts->data[i]));
    return list;
}

static json_t *predicted_json(const struct predicted *p)
{
    return p->known ? json_pack("{s:f, s:o, s:b}", "iteration_s", p->iteration_s, "needed_bytes",
                                json_whole(p->needed_bytes), "fits", p->fits)
                    : json_null();
}

static int print_json(const struct export_command *options, const struct export_result *result,
                      const struct both_predictions *comparison)
{
    return cli_print_json(
        json_pack("{s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "target", options->to, "exact",
                  (int)(result->differences.len + result->decided.len == 0), "differences",
                  texts_json(&result->differences), "decided", texts_json(&result->decided),
                  "notes", texts_json(&result->notes), "plan", predicted_json(&comparison->plan),
                  "written", predicted_json(&comparison->written), "simulate",
                  result->simulate ? json_text(result->simulate) : json_null(), "text",
                  json_text(result->text)));
}

static void tell(const struct export_result *result, const struct both_predictions *comparison)
{
    const struct predicted *plan = &comparison->plan, *written = &comparison->written;
    for (size_t i = 0; i < result->differences.len; i++)
        fprintf(stderr, "differs: %s\n", result->differences.data[i]);
    for (size_t i = 0; i < result->decided.len; i++)
        fprintf(stderr, "note: %s\n", result->decided.data[i]);
    for (size_t i = 0; i < result->notes.len; i++)
        fprintf(stderr, "note: %s\n", result->notes.data[i]);
    if (!plan->known)
        return;
    fprintf(stderr, "predicted: the plan %s in %s, what is written %s in %s (%+.1f %%)%s\n",
            show_duration(plan->iteration_s * 1e9).s, show_bytes(plan->needed_bytes).s,
            show_duration(written->iteration_s * 1e9).s, show_bytes(written->needed_bytes).s,
            100 * (written->iteration_s / plan->iteration_s - 1),
            written->fits ? "" : ", which does not fit");
}

static int print(const struct export_command *options, const struct export_result *result,
                 const struct both_predictions *comparison)
{
    if (options->output) {
        weft_status status = file_write_text(options->output, result->text);
        if (status)
            return cli_fail(status);
    }
    if (options->json)
        return print_json(options, result, comparison);
    if (!options->output)
        fputs(result->text, stdout);
    fflush(stdout);
    tell(result, comparison);
    return WEFT_OK;
}

/* The plan itself, or the nearest that runs and fits, with what differs. */
static weft_status write_text(const struct export_command *options, const struct plan *plan,
                              struct export_result *result)
{
    struct arena *keep = options->plan.arena;
    struct plan *nearest = NULL;
    weft_status status;
    if (options->nearest)
        TRY(plan_nearest(keep, plan, options->to, &nearest));
    TRY(plan_export(keep, nearest ? nearest : plan, options->to, options->nearest, result));
    if (nearest)
        plan_differences(keep, plan, nearest, &result->differences);
done:
    plan_free(nearest);
    return status;
}

/* Selective recomputation makes scores again that flash attention never kept: the plan is one without. */
static void note_selective(const struct export_command *options, const struct plan *plan,
                           struct export_result *result)
{
    const struct degrees *d = &options->plan.degrees;
    for (int64_t i = 0; i < plan->instances; i++)
        if (plan_choice(plan, i)->recompute)
            return;
    if (d->has_recompute && d->recompute == RECOMPUTE_SELECTIVE)
        add_text(options->plan.arena, &result->notes,
                 "--recompute selective: with flash attention there are no scores to make again, "
                 "so nothing is recomputed");
}

/* Degrees say nothing of what a framework decides by itself, unless they are asked to. */
static weft_status settle(const struct export_command *options, struct plan *plan)
{
    const struct target *target;
    weft_status status = format_target(options->plan.arena, options->to, &target);
    if (!status && options->plan.names == 2)
        target_settle(target, &options->plan.degrees, plan);
    return status;
}

static weft_status explain(const struct export_command *options, const struct plan *plan,
                           const struct texts *differences)
{
    const struct target *target;
    weft_status status = format_target(options->plan.arena, options->to, &target);
    return status ? status : target_refuses(plan, target, differences);
}

static int run(const void *context, const struct plan *given)
{
    const struct export_command *options = context;
    struct export_result result = {0};
    struct both_predictions comparison;
    struct plan *plan = NULL;
    weft_status status;
    TRY(plan_copy(given, &plan));
    TRY(settle(options, plan));
    status = write_text(options, plan, &result);
    if (status && result.differences.len && !options->nearest)
        status = explain(options, plan, &result.differences);
    if (status)
        goto done;
    note_selective(options, plan, &result);
    TRY(compare(plan, &result, &comparison));
    int code = print(options, &result, &comparison);
    plan_free(plan);
    plan_free(result.written);
    return code;
done:
    plan_free(plan);
    plan_free(result.written);
    return cli_fail(status);
}

/* Traces are of the graph, not of what a framework is told: nothing has to be recognised. */
static int run_traces(const void *context, const struct plan *plan)
{
    const struct export_command *options = context;
    struct simulate_options simulation = {.fold = FOLD_NEVER, .times_only = true};
    struct prediction *prediction = NULL;
    int64_t nodes = 0;
    weft_status status = WEFT_OK;
    cli_warn_missing();
    if (!options->output)
        TRY(bad_argument("such as -o traces", "traces are files: --output names their folder"));
    TRY(simulate(plan, &simulation, &prediction));
    TRY(chakra_write(prediction, options->output, &nodes));
    int64_t ranks = prediction->graph->devices;
    if (options->json)
        status =
            (weft_status)cli_print_json(json_pack("{s:s, s:I, s:I}", "target", options->to, "ranks",
                                                  (json_int_t)ranks, "nodes", (json_int_t)nodes));
    else
        fprintf(stderr,
                "%s/weft.0.et to weft.%lld.et, %lld nodes in all; groups in comm_group.json\n",
                options->output, (long long)(ranks - 1), (long long)nodes);
done:
    prediction_free(prediction);
    return status ? cli_fail(status) : WEFT_OK;
}

int cmd_export(int argc, char **argv)
{
    struct export_command options = {.plan.arena = arena_new()};
    cli_read(&SYNTAX, argc, argv, &options);
    bool traces = strcmp(options.to, CHAKRA_FORMAT) == 0;
    return plan_command(&options.plan, traces ? run_traces : run, &options);
}
