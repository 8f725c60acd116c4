/* main.c - finds the command and runs it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "lab/lab.h"

static const struct command COMMANDS[] = {
    {"models", "", "list the models Weft knows by name", cmd_models},
    {"inspect", "MODEL", "a model as a tree: parameters, FLOPs, kept activations", cmd_inspect},
    {"clusters", "[CLUSTER]", "list clusters, or draw one and cost its collectives", cmd_clusters},
    {"show", "PLAN", "a plan: stages, memory, how every operator is split", cmd_show},
    {"check", "PLAN", "whether a plan can be executed, and what is wrong with it", cmd_check},
    {"plan", "MODEL CLUSTER", "the fastest plan that fits, and why", cmd_plan},
    {"simulate", "PLAN", "how long an iteration takes and why, how full memory gets", cmd_simulate},
    {"share", "PLAN PLAN...", "several jobs on one network: how they slow each other down",
     cmd_share},
    {"days", "PLAN --tokens N", "a whole run: days, money, energy, with failures", cmd_days},
    {"train", "PLAN --data FILE", "run a plan: train its model on a text", cmd_train},
    {"checkpoint", "ACTION", "what a run saved: whether it is whole, as one file", cmd_checkpoint},
    {"compare", "PLAN PLAN...", "plans, schedules, planners or clusters side by side", cmd_compare},
    {"export", "PLAN --to X", "a plan for Megatron-LM, DeepSpeed, torchtitan, ...", cmd_export},
    {"import", "FILE CLUSTER", "what Megatron-LM, Galvatron or Aceso runs, as a plan", cmd_import},
    {"validate", "[DATASET...]", "predictions held against published runs, or your own",
     cmd_validate},
    {"serve", "", "the explorer: plans to move and watch, in a browser", cmd_serve},
    {"mcp", "", "plan, simulate, validate and export as an assistant's tools", cmd_mcp},
    {"profile", "ACTION", "import, show or measure operator times in a database", cmd_profile},
    {"fit", "FILE...", "a cluster's numbers from measured collectives or runs", cmd_fit},
};

static void usage(FILE *out)
{
    fprintf(out, "usage: weft COMMAND [ARGUMENTS]\n\n"
                 "Plans, simulates and runs the parallel training of neural networks.\n\n");
    for (size_t i = 0; i < COUNT_OF(COMMANDS); i++)
        fprintf(out, "  %-10s %-16s %s\n", COMMANDS[i].name, COMMANDS[i].arguments,
                COMMANDS[i].summary);
    fprintf(out, "\n`weft COMMAND --help` tells more, with an example. Exit codes: 0 done, 1 no "
                 "answer,\n2 bad input, 3 failure.\n");
}

static int unknown_command(const char *name)
{
    const char *near = NEAREST_NAME(name, COMMANDS);
    fprintf(stderr, "weft: no command is called '%s'\n", name);
    if (near)
        fprintf(stderr, "hint: did you mean '%s'?\n", near);
    else
        fprintf(stderr, "hint: `weft --help` lists the commands\n");
    return WEFT_BAD_INPUT;
}

/* At exit, whoever exits: an answer that could not be written is a failure, not an answer. */
static void check_output(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return;
    fprintf(stderr, "weft: cannot write to standard output\n");
    _exit(WEFT_FAILURE);
}

struct run {
    const struct command *command;
    int argc;
    char **argv;
    int code;
};

static weft_status run_command(void *context)
{
    struct run *run = context;
    run->code = run->command->run(run->argc, run->argv);
    return WEFT_OK;
}

/* As one request: a command that runs out of memory says so and ends with 3. */
static int run_within_limit(const struct command *command, int argc, char **argv)
{
    struct run run = {command, argc, argv, WEFT_OK};
    weft_status status = request_run(run_command, &run);
    return status ? cli_fail(status) : run.code;
}

int main(int argc, char **argv)
{
    cli_guard_output();
    atexit(check_output);
    if (argc < 2) {
        usage(stderr);
        return WEFT_BAD_INPUT;
    }
    bool help = strcmp(argv[1], "help") == 0;
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || (help && argc == 2)) {
        usage(stdout);
        return WEFT_OK;
    }
    if (help) { /* `weft help plan` is `weft plan --help` */
        static char option[] = "--help";
        argv[1] = argv[2];
        argv[2] = option;
        argc = 3;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("weft %s\n", weft_version());
        return WEFT_OK;
    }
    for (size_t i = 0; i < COUNT_OF(COMMANDS); i++) {
        if (strcmp(argv[1], COMMANDS[i].name) != 0)
            continue;
        char name[64];
        snprintf(name, sizeof name, "weft %s", argv[1]);
        argv[1] = name;
        return run_within_limit(&COMMANDS[i], argc - 1, argv + 1);
    }
    return unknown_command(argv[1]);
}
