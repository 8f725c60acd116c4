/* checkpoint.c - `weft checkpoint`: whether a checkpoint is whole, and one file of it for other tools. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "run/run.h"

struct checkpoint_command {
    const char *action, *folder;
    const char *output;
    bool weights, json;
};

#define AT(field) offsetof(struct checkpoint_command, field)
static const struct cli_option OPTIONS[] = {
    OUTPUT_OPTION(AT(output), "consolidate: the file to write"),
    {"weights", NULL, "consolidate: weights alone, without the optimizer's state", OPTION_FLAG,
     AT(weights)},
    JSON_OPTION(AT(json)),
    {0},
};

static error_t take_names(int key, char *arg, struct argp_state *state)
{
    struct checkpoint_command *options = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (options->folder)
            argp_error(state, "one folder, not also '%s'", arg);
        *(options->action ? &options->folder : &options->action) = arg;
        return 0;
    case ARGP_KEY_END:
        if (!options->action)
            argp_error(state, "verify or consolidate?");
        else if (!options->folder)
            argp_error(state, "%s needs the folder of a checkpoint", options->action);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct syntax SYNTAX = {
    OPTIONS,
    "verify FOLDER\nconsolidate FOLDER -o FILE",
    "Looks at what `weft train --checkpoint FOLDER` saved: the folder of one step, or one that "
    "holds such, of which the newest is taken.\v"
    "`verify` reads every file and compares its size and checksum with those that were noted when "
    "it was saved; a damaged file ends the command with exit code 2. `consolidate` writes one "
    "safetensors file of whole tensors, whatever plan they were saved under; what it reads is "
    "verified.\n\n"
    "Example:\n"
    "  weft checkpoint verify run\n"
    "  weft checkpoint consolidate run/step-00000200 -o weights.safetensors --weights",
    .names = take_names,
};

/* ---- what it holds ---------------------------------------------------------------------------- */

struct contents {
    int64_t weights, parameters, states; /* tensors; their elements; tensors of the optimizer */
};

static struct contents count_contents(const struct checkpoint *checkpoint)
{
    const struct checkpoint_tensor *tensor;
    size_t count = checkpoint_tensors(checkpoint, &tensor);
    struct contents held = {0};
    for (size_t i = 0; i < count; i++) {
        int64_t elements = 1;
        for (int64_t k = 0; k < tensor[i].axes; k++)
            elements *= tensor[i].shape[k];
        bool weight = !is_run_state(tensor[i].name);
        held.weights += weight;
        held.states += !weight;
        held.parameters += weight ? elements : 0;
    }
    return held;
}

static int show(const struct checkpoint_command *options, const struct checkpoint *checkpoint)
{
    const struct training_state *state = checkpoint_state(checkpoint);
    const char *folder = checkpoint_folder(checkpoint);
    struct contents held = count_contents(checkpoint);
    if (options->json)
        return cli_print_json(json_pack(
            "{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:s?}", "folder", folder, "model", state->model,
            "step", (json_int_t)state->step, "samples", (json_int_t)state->samples, "weights",
            (json_int_t)held.weights, "parameters", (json_int_t)held.parameters, "states",
            (json_int_t)held.states, "output", options->output));
    printf("%s: %s after %s and %s\n", folder, state->model, counted(state->step, "step").s,
           counted(state->samples, "sample").s);
    printf("%s of %s, %s of the optimizer's state\n", counted(held.weights, "weight").s,
           counted(held.parameters, "parameter").s, counted(held.states, "tensor").s);
    if (options->output)
        printf("written to %s\n", options->output);
    else
        puts("all files are as they were saved");
    return WEFT_OK;
}

/* ---- actions ---------------------------------------------------------------------------------- */

static weft_status verify(const struct checkpoint_command *options, struct checkpoint *checkpoint)
{
    if (options->output || options->weights)
        return bad_argument("weft checkpoint consolidate writes a file",
                            "verify writes nothing: it takes no %s",
                            options->output ? "--output" : "--weights");
    return checkpoint_verify(checkpoint);
}

static weft_status consolidate(const struct checkpoint_command *options,
                               struct checkpoint *checkpoint)
{
    enum consolidate what = options->weights ? CONSOLIDATE_WEIGHTS : CONSOLIDATE_ALL;
    if (!options->output)
        return bad_argument("such as -o weights.safetensors", "consolidate needs --output FILE");
    return checkpoint_consolidate(checkpoint, what, &REAL_DISK, options->output);
}

static const struct {
    const char *name;
    weft_status (*run)(const struct checkpoint_command *options, struct checkpoint *checkpoint);
} ACTIONS[] = {{"verify", verify}, {"consolidate", consolidate}};

int cmd_checkpoint(int argc, char **argv)
{
    struct checkpoint_command options = {0};
    struct checkpoint *checkpoint = NULL;
    size_t at = 0;
    cli_read(&SYNTAX, argc, argv, &options);
    while (at < COUNT_OF(ACTIONS) && strcmp(options.action, ACTIONS[at].name) != 0)
        at++;
    if (at == COUNT_OF(ACTIONS))
        return cli_fail(
            bad_argument("verify or consolidate", "no action is called '%s'", options.action));
    weft_status status = checkpoint_open(options.folder, &checkpoint);
    if (!status)
        status = ACTIONS[at].run(&options, checkpoint);
    int code = status ? cli_fail(status) : show(&options, checkpoint);
    checkpoint_close(checkpoint);
    return code;
}
