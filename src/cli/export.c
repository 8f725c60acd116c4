/* export.c - `weft export`: writes a plan in the format of another framework. */
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

/* ---- printing -------------------------------------------------------------------------------- */

static void tell(const struct exported *exported)
{
    const struct export_result *result = &exported->result;
    const struct export_prediction *plan = &exported->plan, *written = &exported->written;
    for (size_t i = 0; i < result->differences.len; i++)
        fprintf(stderr, "differs: %s\n", result->differences.data[i]);
    for (size_t i = 0; i < result->decided.len; i++)
        fprintf(stderr, "note: %s\n", result->decided.data[i]);
    for (size_t i = 0; i < result->notes.len; i++)
        fprintf(stderr, "note: %s\n", result->notes.data[i]);
    const char *fits = written->fits ? "" : ", which does not fit";
    const char *needed = show_bytes(written->needed_bytes).s;
    if (exported->differs)
        fprintf(stderr, "predicted: the plan %s in %s, what is written %s in %s (%s)%s\n",
                show_seconds(plan->iteration_s * 1e9).s, show_bytes(plan->needed_bytes).s,
                show_seconds(written->iteration_s * 1e9).s, needed,
                show_change(written->iteration_s / plan->iteration_s - 1).s, fits);
    else if (!written->fits)
        fprintf(stderr, "predicted: %s in %s%s\n", show_seconds(written->iteration_s * 1e9).s,
                needed, fits);
}

static int print(const struct export_command *options, const struct exported *exported)
{
    if (options->output) {
        weft_status status = export_write(&exported->result, options->output);
        if (status)
            return cli_fail(status);
    }
    if (options->json)
        return cli_print_json(exported_json(options->to, exported));
    if (!options->output)
        fputs(exported->result.text, stdout);
    fflush(stdout);
    tell(exported);
    return WEFT_OK;
}

static int run(const void *context, const struct plan *plan)
{
    const struct export_command *options = context;
    struct export_question question = {options->to, options->nearest,
                                       options->plan.names == 2 ? &options->plan.degrees : NULL};
    struct exported exported;
    weft_status status = exported_make(options->plan.arena, plan, &question, &exported);
    if (!status)
        cli_warn_missing();
    int code = status ? cli_fail(status) : print(options, &exported);
    exported_close(&exported);
    return code;
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
