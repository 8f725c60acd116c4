/* degrees.h - a plan on the command line: a plan file, or a model, a cluster and degrees. Private
 * to the room; every command that takes a plan has these options as an argp child. */
#ifndef WEFT_CLI_DEGREES_H
#define WEFT_CLI_DEGREES_H

#include "cli/options.h"
#include "plan/plan.h"

struct plan_arguments {
    struct arena *arena;
    struct degrees degrees;
    const char *overrides; /* of the model's options: YAML flow, NULL: none */
    const char *flag;      /* some option that was given, NULL: none */
    const char *name[2];   /* PLAN, or MODEL and CLUSTER */
    int names;
    bool named_elsewhere; /* the command takes the names itself */
};

/* The options and the names; its input is a struct plan_arguments. */
extern const struct argp DEGREES_ARGP;
/* They, as the child of a command whose struct has these arguments there. */
#define PLAN_CHILD(AT) {&DEGREES_ARGP, AT}
/* One of its options by name, "tp"; those without a value take on or off, those that a planner
 * chooses also any: as if they had not been given. A wrong value ends the program, as on the command
 * line. */
weft_status degrees_set(struct plan_arguments *arguments, const char *name, const char *value);
/* All that a planner chooses, as if it had not been given. */
weft_status degrees_open(struct plan_arguments *arguments);
/* Lets the plan say what its model and cluster were called. */
void plan_name(struct plan *plan, const struct plan_arguments *arguments);
/* Opens and checks what was named. */
weft_status plan_open(const struct plan_arguments *arguments, struct opened_plan *out);
/* Opens it, runs a command on it, and frees it with its arguments; returns the exit code. */
int plan_command(struct plan_arguments *arguments,
                 int (*run)(const void *options, const struct plan *plan), const void *options);

#endif
