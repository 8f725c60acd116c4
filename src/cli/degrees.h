/* degrees.h - a plan on the command line: a plan file, or a model, a cluster and degrees. Every command
 * that takes a plan has these options as an argp child. Private to the room. */
#ifndef WEFT_CLI_DEGREES_H
#define WEFT_CLI_DEGREES_H

#include "cli/options.h"
#include "plan/plan.h"

struct plan_arguments {
    struct arena *arena;
    struct degrees degrees;
    const char *overrides; /* options of the model in YAML's flow form; NULL if none */
    bool has_software;
    /* A kind of cp decides about keys in --overlap, --cp-heads about its heads, whichever comes first. */
    bool has_cp_kind, has_cp_heads;
    enum cp_kind cp_kind;
    const char *flag;    /* one of the options that were given; NULL if none was */
    const char *name[2]; /* PLAN, or MODEL and CLUSTER */
    int names;
    bool named_elsewhere; /* the command takes the names itself */
    /* the database of --profile: its layers say how fast the devices are; or NULL */
    const char *profile;
};

/* What --schedule takes; the caller frees it (schedules_help.c). */
char *schedules_help(void);
/* Parses the options and the names; its input is a struct plan_arguments. */
extern const struct argp DEGREES_ARGP;
/* This parser as the child of a command whose struct has its plan_arguments at this offset. */
#define PLAN_CHILD(AT) {&DEGREES_ARGP, AT}
/* Sets one option by its name, such as "tp". An option without a value takes "on" or "off"; an option that a planner
 * can choose also takes "any", as if it had not been given. A wrong value ends the program, as on the command line. */
weft_status degrees_set(struct plan_arguments *arguments, const char *name, const char *value);
/* Resets all options that a planner can choose, as if they had not been given. */
weft_status degrees_open(struct plan_arguments *arguments);
/* Opens the model and the cluster; what the user leaves open is set to what such a model is trained with on
 * such devices today. */
weft_status open_names(struct plan_arguments *arguments, struct opened_plan *out);
/* Lets the plan say what its model and cluster were called. */
void plan_name(struct plan *plan, const struct plan_arguments *arguments);
/* Opens and checks the plan that the arguments name. */
weft_status plan_open(const struct plan_arguments *arguments, struct opened_plan *out);
/* Opens the plan, runs a command on it, and frees the plan and its arguments; returns the exit code. */
int plan_command(struct plan_arguments *arguments,
                 int (*run)(const void *options, const struct plan *plan), const void *options);

#endif
