/* inspect.c - `weft inspect`: a model as a tree of modules, or operator by operator. */
#include <stdio.h>
#include <string.h>

#include "cli/inspect.h"
#include "cli/options.h"

struct inspect_command {
    struct arena *arena;
    const char *model;
    const char *overrides; /* options in YAML's flow form; NULL if none were given */
    const char *cluster, *profile;
    int64_t depth, microbatch;
    enum dtype dtype;
    bool has_dtype, ops, json;
};

#define AT(field) offsetof(struct inspect_command, field)

static void take_own_dtype(struct argp_state *state, void *input, char *arg)
{
    struct inspect_command *options = input;
    options->has_dtype = true;
    options->dtype = take_dtype(state, arg);
}

static void take_seq(struct argp_state *state, void *input, char *arg)
{
    struct inspect_command *options = input;
    take_count(state, "seq", arg, 1, INT32_MAX);
    add_override(options->arena, &options->overrides, "seq", arg);
}

static void take_model_set(struct argp_state *state, void *input, char *arg)
{
    struct inspect_command *options = input;
    take_set(state, options->arena, &options->overrides, arg);
}

static const struct cli_option OPTIONS[] = {
    {"depth", "N", "levels of the tree to show (default 2)", OPTION_COUNT, AT(depth), .least = 1,
     .most = INT32_MAX, .letter = 'd'},
    {"dtype", "D", DTYPE_NAMES " (default: the model's own)", OPTION_TAKE, .take = take_own_dtype},
    {"seq", "N", "positions per sample, in place of the model's own", OPTION_TAKE,
     .take = take_seq},
    {"set", "KEY=VALUE", "change an option of the model; may be repeated", OPTION_TAKE,
     .take = take_model_set},
    {"ops", NULL, "list every operator with its dims", OPTION_FLAG, AT(ops)},
    {"on", "CLUSTER", "list every operator with its time on this cluster's device", OPTION_TEXT,
     AT(cluster)},
    {"profile", "DB", "with --on: a database of measured times to ask first", OPTION_TEXT,
     AT(profile)},
    {"microbatch", "N", "with --on: samples at once (default 1)", OPTION_COUNT, AT(microbatch),
     .least = 1, .most = INT32_MAX},
    JSON_OPTION(AT(json)),
    {0},
};

static error_t take_names(int key, char *arg, struct argp_state *state)
{
    struct inspect_command *options = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (options->model)
            argp_error(state, "one model at a time: '%s' is too many", arg);
        options->model = arg;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "which model? `weft models` lists names; a file works too");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct syntax SYNTAX = {
    OPTIONS,
    "MODEL",
    "Shows a model as a tree: parameters, forward FLOPs and activations kept for the backward "
    "pass, per sample. What repeats is folded, and its numbers are those of all copies.\v"
    "MODEL is a name of `weft models`, a YAML file, a Hugging Face config.json or an ONNX file.\n\n"
    "Example:\n"
    "  weft inspect gpt3-13b --depth 2\n"
    "  weft inspect gpt3-13b --set layers=80 --seq 4096 --json\n"
    "  weft inspect resnet-50 --on dgx-v100 --microbatch 32",
    .names = take_names,
};

/* ---- printing -------------------------------------------------------------------------------- */

/* Such as 12,853,954,560. */
static const char *with_commas(struct arena *keep, double count)
{
    const char *digits = arena_printf(keep, "%.0f", count);
    size_t len = strlen(digits), used = 0;
    char *text = ARENA_ARRAY(keep, char, len + len / 3 + 1);
    for (size_t i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            text[used++] = ',';
        text[used++] = digits[i];
    }
    return text;
}

static void print_routing(const struct routing *routing, FILE *out)
{
    fprintf(out, "experts by %s", ROUTER_WORDS[routing->scores]);
    if (routing->groups > 1)
        fprintf(out, " from %lld of %lld groups", (long long)routing->group_top_k,
                (long long)routing->groups);
    if (routing->scale != 1)
        fprintf(out, ", times %g", routing->scale);
    if (routing->balance != BALANCE_NONE)
        fprintf(out, ", balanced by a loss over the %s of weight %g",
                BALANCE_WORDS[routing->balance], routing->balance_weight);
    fprintf(out, "%s", routing->balance_bias ? ", and by a bias" : "");
    if (routing->skew > 0)
        fprintf(out, "; chosen by a power law of exponent %g", routing->skew);
    fputc('\n', out);
}

/* What a model has and no number here depends on; exports write it down. */
static void print_free(const struct model *model, FILE *out)
{
    const struct op *rotary = model_op_of_kind(model, OP_ROTARY);
    const struct op *router = model_op_of_kind(model, OP_ROUTER);
    if (rotary)
        fprintf(out, "rotary positions of base %.12g%s\n", rotary->rope_base,
                rotary->rope_scaling > 0
                    ? arena_printf(model->arena, ", stretched by %.12g (%s)", rotary->rope_scaling,
                                   ROPE_WORDS[rotary->stretch.kind])
                    : "");
    if (router)
        print_routing(&router->routing, out);
}

static void add_free(json_t *json, const struct model *model)
{
    const struct op *rotary = model_op_of_kind(model, OP_ROTARY);
    const struct op *router = model_op_of_kind(model, OP_ROUTER);
    if (model_op_of_kind(model, OP_RMS_NORM) || model_op_of_kind(model, OP_LAYER_NORM))
        json_object_set_new(json, "norm_epsilon", json_real(model_norm_epsilon(model)));
    if (rotary)
        json_object_set_new(json, "rope_base", json_real(rotary->rope_base));
    if (rotary && rotary->rope_scaling > 0)
        json_object_set_new(json, "rope_scaling", json_real(rotary->rope_scaling));
    if (rotary && rotary->rope_scaling > 0)
        json_object_set_new(json, "rope_type", json_string(ROPE_WORDS[rotary->stretch.kind]));
    if (router)
        json_object_set_new(
            json, "routing",
            json_pack("{s:s, s:f, s:I, s:I, s:s, s:f, s:b, s:f}", "router",
                      ROUTER_WORDS[router->routing.scores], "scale", router->routing.scale,
                      "groups", (json_int_t)router->routing.groups, "group_top_k",
                      (json_int_t)router->routing.group_top_k, "balance",
                      BALANCE_WORDS[router->routing.balance], "balance_weight",
                      router->routing.balance_weight, "balance_bias",
                      (int)router->routing.balance_bias, "skew", router->routing.skew));
}

static void print_heading(const struct inspection *in, FILE *out)
{
    const struct model *model = in->model;
    struct totals all = model_totals(model, in->dtype);
    fprintf(out, "%s: %s, %s\n", model->name, model->family, model->source);
    fprintf(out, "%s parameters, %s, %s, %s", with_commas(in->arena, all.parameters),
            counted(model->layers, "layer").s, counted((int64_t)all.ops, "operator").s,
            dtype_name(in->dtype));
    if (model->seq > 1)
        fprintf(out, ", %s", counted(model->seq, "position").s);
    if (model_has_tower(model))
        fprintf(out,
                model->images_beside ? ", with %s in %s beside them" : ", with %s in %s of them",
                counted(model->images, "image").s,
                counted(model->images * model->image_tokens, "position").s);
    fputs("\n", out);
    print_free(model, out);
    fputs("\n", out);
}

static void print_closing(const struct inspection *in, FILE *out)
{
    struct totals all = model_totals(in->model, in->dtype);
    double backward = all.flops[PHASE_BACKWARD_INPUT] + all.flops[PHASE_BACKWARD_WEIGHT];
    struct text32 forward = show_flops(all.flops[PHASE_FORWARD]);
    fprintf(out, "\ntraining a sample: %s forward, %s backward\n", forward.s,
            show_flops(backward).s);
    double peak = model_peak_bytes(in->model, in->dtype);
    if (peak > all.kept_bytes)
        fprintf(out, "at most %s at once, while a shared table's gradients are added up\n",
                show_bytes(peak).s);
    for (size_t i = 0; i < in->model->warnings.len; i++)
        fprintf(out, "warning: %s\n", in->model->warnings.data[i]);
}

static int print_text(const struct inspection *in, bool ops)
{
    print_heading(in, stdout);
    if (ops)
        ops_print(in, stdout);
    else
        tree_print(in, stdout);
    print_closing(in, stdout);
    return WEFT_OK;
}

static json_t *phases_json(const struct totals *all)
{
    json_t *phases = json_object();
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        json_object_set_new(phases, phase_name((enum phase)phase), json_whole(all->flops[phase]));
    return phases;
}

static json_t *warnings_json(const struct model *model)
{
    json_t *warnings = json_array();
    for (size_t i = 0; i < model->warnings.len; i++)
        json_array_append_new(warnings, json_text(model->warnings.data[i]));
    return warnings;
}

static int print_json(const struct inspection *in, bool ops)
{
    const struct model *model = in->model;
    struct totals all = model_totals(model, in->dtype);
    json_t *json = json_pack(
        "{s:o, s:o, s:o, s:s, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "name",
        json_text(model->name), "family", json_text(model->family), "source",
        json_text(model->source), "dtype", dtype_name(in->dtype), "seq", (json_int_t)model->seq,
        "layers", (json_int_t)model->layers, "operators", (json_int_t)all.ops, "parameters",
        json_whole(all.parameters), "flops_per_sample", json_whole(all.flops[PHASE_FORWARD]),
        "activation_bytes_per_sample", json_whole(model_peak_bytes(model, in->dtype)),
        "kept_bytes_per_sample", json_whole(all.kept_bytes), "training_flops", phases_json(&all),
        "warnings", warnings_json(model), "tree", tree_json(in));
    add_free(json, model);
    if (model_has_tower(model)) {
        json_object_set_new(json, "images", json_integer(model->images));
        json_object_set_new(json, "image_tokens", json_integer(model->image_tokens));
        json_object_set_new(json, "images_beside", json_boolean(model->images_beside));
    }
    if (ops)
        json_object_set_new(json, "ops", ops_json(in));
    if (in->cost)
        json_object_set_new(json, "on", times_json(in));
    return cli_print_json(json);
}

/* ---- running --------------------------------------------------------------------------------- */

struct subject {
    struct model *model;
    struct cluster *cluster; /* NULL without --on */
    struct cost *cost;
};

static weft_status open_subject(const struct inspect_command *options, struct subject *subject)
{
    weft_status status;
    TRY(model_open(options->model, options->overrides, &subject->model));
    if (!options->cluster)
        return WEFT_OK;
    TRY(cluster_open(options->cluster, &subject->cluster));
    TRY(cluster_refuse_pools(subject->cluster, "the time of one model's operators"));
    cli_warn_missing();
    TRY(cost_open(&subject->cluster->node.device, options->profile, &subject->cost));
done:
    return status;
}

static void close_subject(struct subject *subject)
{
    if (subject->cost)
        cost_close(subject->cost);
    if (subject->cluster)
        cluster_free(subject->cluster);
    model_free(subject->model);
}

static int show(const struct inspect_command *options, const struct subject *subject)
{
    const struct model *model = subject->model;
    struct inspection in = {.arena = options->arena,
                            .model = model,
                            .dtype = options->has_dtype ? options->dtype : model->dtype,
                            .depth = options->depth,
                            .cost = subject->cost,
                            .device = subject->cluster ? subject->cluster->node.device.name : NULL,
                            .microbatch = options->microbatch};
    bool ops = options->ops || in.cost;
    return options->json ? print_json(&in, ops) : print_text(&in, ops);
}

int cmd_inspect(int argc, char **argv)
{
    struct inspect_command options = {.arena = arena_new(), .depth = 2, .microbatch = 1};
    struct subject subject = {0};
    cli_read(&SYNTAX, argc, argv, &options);
    weft_status status = open_subject(&options, &subject);
    int code = status ? cli_fail(status) : show(&options, &subject);
    close_subject(&subject);
    arena_free(options.arena);
    return code;
}
