/* show.c - `weft show`: prints a plan for people, or writes it to a file. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/degrees.h"
#include "cli/show.h"

struct show_command {
    struct plan_arguments plan;
    const char *output;
    bool layouts, json;
};

#define AT(field) offsetof(struct show_command, field)
static const struct cli_option OPTIONS[] = {
    {"layouts", NULL, "how each tensor lies: S split, B the same everywhere, P partial sums",
     OPTION_FLAG, AT(layouts)},
    OUTPUT_OPTION(AT(output), "write the plan to this file"),
    JSON_OPTION(AT(json)),
    {0},
};

static const struct syntax SYNTAX = {
    OPTIONS,
    "PLAN\nMODEL CLUSTER",
    "Shows a plan: the stages with their devices, operators and memory, and how every operator is "
    "split. Equal choices of neighbouring layers are one line.\v"
    "PLAN is a plan file (docs/reference/plan-file.md).\n\n"
    "Example:\n"
    "  weft show data/plans/gpt3-13b.yaml\n"
    "  weft show gpt3-13b dgx-v100:4 --tp 8 --pp 2 --sp --zero 1 -o plan.json\n"
    "  weft show gpt3-13b dgx-v100:4 --tp 8 --layouts",
    .child = PLAN_CHILD(AT(plan)),
};

/* ---- printing -------------------------------------------------------------------------------- */

static int print_text(const struct showing *showing)
{
    plan_heading(showing->arena, showing->plan, stdout);
    stages_print(showing, stdout);
    putchar('\n');
    choices_print(showing, stdout);
    for (size_t i = 0; i < showing->warnings.len; i++)
        printf("warning: %s\n", showing->warnings.data[i]);
    return WEFT_OK;
}

static json_t *overlap_json(unsigned overlap)
{
    json_t *words = json_array();
    for (unsigned bit = 1; bit <= OVERLAP_EVERY; bit <<= 1)
        if (overlap & bit)
            json_array_append_new(words, json_string(overlap_name(bit)));
    return words;
}

static int print_json(const struct showing *showing)
{
    const struct plan *plan = showing->plan;
    json_t *warnings = json_array();
    for (size_t i = 0; i < showing->warnings.len; i++)
        json_array_append_new(warnings, json_text(showing->warnings.data[i]));
    return cli_print_json(json_pack(
        "{s:o, s:o, s:I, s:s, s:s, s:o, s:I, s:I, s:I, s:o, s:I, s:o, s:I, s:b, s:o, s:o, s:o}",
        "model", json_text(plan->model->name), "cluster", json_text(plan->cluster->name), "devices",
        (json_int_t)cluster_devices(plan->cluster), "dtype", dtype_name(plan->dtype), "policy",
        policy_name(plan->policy), "software",
        json_text(software_text(showing->arena, &plan->software)), "global_batch",
        (json_int_t)plan->global_batch, "step_samples", (json_int_t)plan->step_samples,
        "micro_batches", (json_int_t)plan_micro_batches(plan), "schedule",
        json_text(plan->schedule), "pieces", (json_int_t)plan->pieces, "overlap",
        overlap_json(plan->overlap), "bucket_bytes",
        (json_int_t)plan_bucket_bytes(plan, plan_replicas(plan)), "whole_sends", plan->whole_sends,
        "stages", stages_json(showing), "tree", choices_json(showing), "warnings", warnings));
}

/* ---- running --------------------------------------------------------------------------------- */

static int show(const void *context, const struct plan *plan)
{
    const struct show_command *options = context;
    struct arena *arena = options->plan.arena;
    struct showing showing = {.arena = arena,
                              .plan = plan,
                              .layouts = options->layouts,
                              .limit_bytes = plan_room_bytes(plan),
                              .stage = view_stages(arena, plan),
                              .parts = plan_part_names(arena, plan)};
    plan_warnings(arena, plan, &showing.warnings);
    if (options->output) {
        weft_status status = file_write_text(options->output, plan_write(arena, plan));
        if (status)
            return cli_fail(status);
    }
    return options->json ? print_json(&showing) : print_text(&showing);
}

int cmd_show(int argc, char **argv)
{
    struct show_command options = {.plan.arena = arena_new()};
    cli_read(&SYNTAX, argc, argv, &options);
    return plan_command(&options.plan, show, &options);
}
