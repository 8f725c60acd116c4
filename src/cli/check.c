/* check.c - `weft check`: whether a plan can be executed, in one line; with --prove, whether its
 * graph computes what the model does. */
#include <math.h>
#include <stdio.h>

#include "cli/degrees.h"
#include "compile/compile.h"
#include "exchange/exchange.h"
#include "report/report.h"

struct check_command {
    struct plan_arguments plan;
    const char *target; /* --for */
    bool prove, json;
};

#define AT(field) offsetof(struct check_command, field)
static const struct cli_option OPTIONS[] = {
    {"prove", NULL, "also compile the plan, and prove that its graph computes what the model does",
     OPTION_FLAG, AT(prove)},
    {"for", "TARGET",
     "whether this framework runs the plan, such as torchtitan, or a release of it, such as "
     "megatron@0.16; else the exit code is 1, with the rule that the plan breaks",
     OPTION_TEXT, AT(target)},
    JSON_OPTION(AT(json)),
    {0},
};

static const struct syntax SYNTAX = {
    OPTIONS,
    "PLAN\nMODEL CLUSTER",
    "Checks a plan: that degrees fit their dims and devices, that stages share out the model and "
    "the cluster, that the schedule can order the pipeline; and says which frameworks run it, and "
    "which rule it breaks in the others. Memory is not looked at.\n\n"
    "With --prove the plan is compiled, and its graph executed on symbolic devices in several "
    "orders that its dependencies allow: every operator must find its inputs, weights and "
    "gradients, and every gradient be summed once. One device stands for its stage; where that is "
    "little work, every device is also taken by itself. What fails there is a fault of Weft, and "
    "ends the command with exit code 3.\v"
    "Example:\n"
    "  weft check data/plans/gpt3-13b.yaml\n"
    "  weft check data/plans/gpt3-13b.yaml --prove\n"
    "  weft check data/plans/gpt3-13b.yaml --for torchtitan\n"
    "  weft check gpt3-13b dgx-v100:4 --tp 8 --pp 2 --global-batch 64",
    .child = PLAN_CHILD(AT(plan)),
};

/* ---- the proof ------------------------------------------------------------------------------- */

/* The work of an operator on one device, counted in pairs of devices of a large group. */
enum { LEAST_PAIRS = 50 };

/* The proof compares the values of each device with those of every other device that has the same ones. */
static double work_unfolded(const struct plan *plan)
{
    double work = 0;
    for (int32_t p = 0; p < plan->parts; p++) {
        double devices = (double)plan->stage[plan_stage_of_part(plan, p)].devices;
        work += (double)plan->part[p].count * devices * fmax(devices, LEAST_PAIRS);
    }
    return work * (double)plan_micro_batches(plan);
}

static weft_status prove(const struct plan *plan, enum fold fold, struct proved *out)
{
    struct graph *graph = NULL;
    weft_status status;
    TRY(graph_compile(plan, &(struct compile_options){fold}, &graph));
    TRY(graph_verify(graph));
    *out = (struct proved){graph->tasks, graph->devices};
done:
    graph_free(graph);
    return status;
}

static weft_status prove_both(const struct plan *plan, struct proofs *out)
{
    double folded = LEAST_PAIRS * (double)plan_micro_batches(plan) * (double)plan->instances;
    weft_status status;
    if (plan_has_subsets(plan)) /* one device cannot stand for its stage */
        folded = work_unfolded(plan);
    if (folded > limit_of(LIMIT_PROOF))
        return over_limit(LIMIT_PROOF, folded);
    if (!plan_has_subsets(plan))
        TRY(prove(plan, FOLD_ALWAYS, &out->folded));
    if (work_unfolded(plan) <= limit_of(LIMIT_PROOF))
        TRY(prove(plan, FOLD_NEVER, &out->unfolded));
done:
    return status;
}

static void print_proofs(const struct plan *plan, const struct proofs *proofs)
{
    printf("proved: the graph computes what the model does: %s, %s;\n",
           counted(plan->instances, "operator").s,
           counted(plan_micro_batches(plan), "micro-batch").s);
    if (proofs->folded.tasks)
        printf("%s where one device stands for its stage", counted(proofs->folded.tasks, "task").s);
    if (proofs->unfolded.tasks)
        printf("%s%s on %s, each by itself\n", proofs->folded.tasks ? ", " : "",
               counted(proofs->unfolded.tasks, "task").s,
               counted(proofs->unfolded.devices, "device").s);
    else
        puts("; too many devices to take each by itself");
}

/* ---- targets --------------------------------------------------------------------------------- */

static void print_targets(struct arena *scratch, const struct target_answers *answers)
{
    const char *names = "";
    for (size_t i = 0; i < answers->len; i++)
        if (!answers->data[i].breaks)
            names = arena_printf(scratch, "%s%s%s", names, *names ? ", " : "",
                                 answers->data[i].target->framework);
    printf("run by: %s\n", *names ? names : "none");
    for (size_t i = 0; i < answers->len; i++)
        if (answers->data[i].breaks)
            print_wrapped(scratch,
                          arena_printf(scratch, "not by %s: ", answers->data[i].target->framework),
                          answers->data[i].breaks, stdout);
}

/* WEFT_NO_ANSWER where the target of --for does not run the plan. */
static weft_status ask_target(const struct check_command *options, const struct plan *plan,
                              struct asked_target *asked)
{
    struct arena *keep = options->plan.arena;
    if (!asked->target)
        return WEFT_OK;
    if (target_has_model(asked->target, plan->model)) {
        array_push(keep, &asked->breaks, arena_copy_text(keep, weft_last_error()->message));
        return WEFT_NO_ANSWER;
    }
    weft_status status = target_differences(keep, asked->target, plan, &asked->breaks, NULL);
    if (status || asked->breaks.len == 0)
        return status;
    target_refuses(plan, asked->target, &asked->breaks,
                   arena_printf(keep, "weft export PLAN --to %s " NEAREST_OPTION, options->target));
    return WEFT_NO_ANSWER;
}

/* ---- printing -------------------------------------------------------------------------------- */

static void print_text(const struct plan *plan, const struct warnings *warnings)
{
    struct arena *scratch = arena_new();
    printf("OK: %s on %s: %s, %s, %s for %s;\n%s, %s\n", plan->model->name,
           counted(cluster_devices(plan->cluster), "device").s, counted(plan->stages, "stage").s,
           plan->schedule, counted(used_choices(plan), "choice").s,
           counted(plan->instances, "operator").s,
           counted(plan_micro_batches(plan), "micro-batch").s, step_text(scratch, plan));
    for (size_t i = 0; i < warnings->len; i++)
        print_wrapped(scratch, "warning: ", warnings->data[i], stdout);
    arena_free(scratch);
}

/* With --json, what a target breaks is part of the answer. */
static int check(const void *context, const struct plan *plan)
{
    const struct check_command *options = context;
    struct warnings warnings = {0};
    struct proofs proofs = {0};
    struct target_answers answers = {0};
    struct asked_target asked = {options->target ? target_find(options->target) : NULL, {0}};
    weft_status status = options->target && !asked.target ? WEFT_BAD_INPUT : WEFT_OK, refused;
    if (!status && options->prove)
        status = prove_both(plan, &proofs);
    if (!status)
        status = targets_ask(options->plan.arena, plan, &answers);
    if (status)
        return cli_fail(status);
    plan_warnings(options->plan.arena, plan, &warnings);
    refused = ask_target(options, plan, &asked);
    if (options->json && (!refused || refused == WEFT_NO_ANSWER))
        status = (weft_status)cli_print_json(
            checked_json(plan, &warnings, options->prove ? &proofs : NULL, &answers, &asked));
    if (status || refused)
        return cli_fail(status ? status : refused);
    if (options->json)
        return WEFT_OK;
    print_text(plan, &warnings);
    if (options->prove)
        print_proofs(plan, &proofs);
    print_targets(options->plan.arena, &answers);
    return WEFT_OK;
}

int cmd_check(int argc, char **argv)
{
    struct check_command options = {.plan.arena = arena_new()};
    cli_read(&SYNTAX, argc, argv, &options);
    return plan_command(&options.plan, check, &options);
}
