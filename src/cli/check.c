/* check.c - `weft check`: whether a plan can be executed, in one line. */
#include <stdio.h>

#include "cli/degrees.h"

struct options {
    struct plan_arguments plan;
    bool json;
};

enum { OPTION_JSON = 1 };
static const struct argp_option OPTIONS[] = {
    {"json", OPTION_JSON, NULL, 0, "one JSON object on standard output", 0},
    {0},
};
static const struct argp_child CHILDREN[] = {{&DEGREES_ARGP, 0, NULL, 0}, {0}};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    (void)arg;
    struct options *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->plan;
        return 0;
    case OPTION_JSON:
        options->json = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp ARGP = {
    OPTIONS,
    parse_option,
    "PLAN\nMODEL CLUSTER",
    "Checks a plan: that degrees fit their dims and devices, that stages share out the model and "
    "the cluster, that the schedule can order the pipeline. Memory is not looked at.\v"
    "Example:\n"
    "  weft check data/plans/gpt3-13b.yaml\n"
    "  weft check gpt3-13b dgx-v100:4 --tp 8 --pp 2 --global-batch 64",
    CHILDREN,
    NULL,
    NULL,
};

/* Of the choices that a plan knows, those that some instance has. */
static int used_choices(const struct plan *plan)
{
    bool seen[UINT16_MAX + 1] = {false};
    int used = 0;
    for (int64_t i = 0; i < plan->instances; i++) {
        used += !seen[plan->choice_of[i]];
        seen[plan->choice_of[i]] = true;
    }
    return used;
}

static void print_text(const struct plan *plan, const struct warnings *warnings)
{
    int choices = used_choices(plan);
    long long steps = (long long)plan_micro_batches(plan);
    printf("OK: %s on %lld devices: %d stage%s, %lld micro-batch%s of %lld, %s, %d choice%s for "
           "%lld operators\n",
           plan->model->name, (long long)cluster_devices(plan->cluster), plan->stages,
           plan->stages == 1 ? "" : "s", steps, steps == 1 ? "" : "es",
           (long long)plan->batch_per_step, plan->schedule, choices, choices == 1 ? "" : "s",
           (long long)plan->instances);
    for (size_t i = 0; i < warnings->len; i++)
        printf("warning: %s\n", warnings->data[i]);
}

static int print_json(const struct plan *plan, const struct warnings *warnings)
{
    json_t *list = json_array();
    for (size_t i = 0; i < warnings->len; i++)
        json_array_append_new(list, json_text(warnings->data[i]));
    return cli_print_json(json_pack(
        "{s:b, s:o, s:I, s:i, s:I, s:I, s:o, s:i, s:I, s:o}", "ok", 1, "model",
        json_text(plan->model->name), "devices", (json_int_t)cluster_devices(plan->cluster),
        "stages", plan->stages, "micro_batches", (json_int_t)plan_micro_batches(plan),
        "batch_per_step", (json_int_t)plan->batch_per_step, "schedule", json_text(plan->schedule),
        "choices", used_choices(plan), "operators", (json_int_t)plan->instances, "warnings", list));
}

int cmd_check(int argc, char **argv)
{
    struct options options = {.plan.arena = arena_new()};
    struct opened_plan opened;
    struct warnings warnings = {0};
    int code = WEFT_OK;
    cli_parse(&ARGP, argc, argv, &options);
    weft_status status = plan_open(&options.plan, &opened);
    if (status) {
        code = cli_fail(status);
    } else {
        plan_warnings(options.plan.arena, opened.plan, &warnings);
        if (options.json)
            code = print_json(opened.plan, &warnings);
        else
            print_text(opened.plan, &warnings);
        plan_close(&opened);
    }
    arena_free(options.plan.arena);
    return code;
}
