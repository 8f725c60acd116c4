/* degrees.c - a plan on the command line: a file, or a model, a cluster and degrees. */
#include "cli/degrees.h"

#include <stdio.h>
#include <string.h>

enum {
    OPTION_DP = 256, /* above the characters, because children share the keys of their parent */
    OPTION_TP,
    OPTION_PP,
    OPTION_CP,
    OPTION_EP,
    OPTION_ETP,
    OPTION_VIRTUAL,
    OPTION_SEGMENTS,
    OPTION_GROUP,
    OPTION_MICROBATCH,
    OPTION_GLOBAL_BATCH,
    OPTION_SP,
    OPTION_OFFLOAD,
    OPTION_OFFLOAD_MODULES,
    OPTION_WHOLE_SENDS,
    OPTION_SEQ,
    OPTION_SET,
    OPTION_DTYPE,
    OPTION_POLICY,
    OPTION_ZERO,
    OPTION_RECOMPUTE,
    OPTION_SCHEDULE,
    OPTION_MEMORY,
    OPTION_MARGIN,
    OPTION_OVERLAP,
    OPTION_BUCKET,
    OPTION_CP_KIND,
    OPTION_CP_HEADS,
    OPTION_ENCODER_TP,
    OPTION_ENCODER_DP,
    OPTION_ENCODER_PP,
    OPTION_IMAGES,
    OPTION_RECOMPUTE_LAYERS,
    OPTION_SOFTWARE,
    OPTION_REPLICATE,
    OPTION_LAYOUT,
    OPTION_ORDER,
    OPTION_OPTIMIZER_OFFLOAD,
    OPTION_DEFER_HEAD,
    OPTION_OPTIMIZER /* the last */
};

static const struct argp_option OPTIONS[] = {
    {NULL, 0, NULL, 0, "A plan written as degrees (`weft plan` searches what is not given):", 1},
    {"dp", OPTION_DP, "N", 0, "data parallelism (default: what the rest leaves)", 1},
    {"tp", OPTION_TP, "N", 0, "tensor parallelism (default 1)", 1},
    {"pp", OPTION_PP, "N", 0, "stages of a pipeline (default 1)", 1},
    {"cp", OPTION_CP, "N", 0, "context parallelism: sequences in parts (default 1)", 1},
    {"cp-kind", OPTION_CP_KIND, "K", 0,
     "how attention goes over cp: ring, gather, a2a or a2a+ring (default ring)", 1},
    {"cp-heads", OPTION_CP_HEADS, "N", 0,
     "devices of cp that take heads in place of positions (default: by cp-kind)", 1},
    {"ep", OPTION_EP, "N", 0, "expert parallelism, within a stage's devices (default 1)", 1},
    {"etp", OPTION_ETP, "N", 0, "tensor parallelism of experts (default tp)", 1},
    {"encoder-tp", OPTION_ENCODER_TP, "N", 0, "tp of an encoder of images (default: by tp)", 1},
    {"encoder-dp", OPTION_ENCODER_DP, "N", 0, "its data parallelism (default dp)", 1},
    {"encoder-pp", OPTION_ENCODER_PP, "N", 0,
     "stages of its own, before those of pp (default 0: it is on the first of these)", 1},
    {"sp", OPTION_SP, NULL, 0, "sequence parallelism along tp", 1},
    {"virtual", OPTION_VIRTUAL, "N", 0, "pieces of the model per stage (default 1)", 1},
    {"pipeline-layout", OPTION_LAYOUT, "TEXT", 0,
     "the layers of each part in Megatron's words: 'Et*3|t*4|t*3L' (default: evenly)", 1},
    {"order", OPTION_ORDER, "LIST", 0,
     "how devices are numbered, fastest first: tp-cp-ep-pp-dp (default tp-cp-ep-dp-pp)", 1},
    {"segments", OPTION_SEGMENTS, "N", 0, "pieces per stage of a folded schedule (default 1)", 1},
    {"group", OPTION_GROUP, "N", 0, "micro-batches of a piece before the next one's (by pp)", 1},
    {"microbatch", OPTION_MICROBATCH, "N", 0, "samples of one replica at a time (default 1)", 1},
    {"micro-batch", OPTION_MICROBATCH, "N", OPTION_ALIAS, NULL, 1},
    {"global-batch", OPTION_GLOBAL_BATCH, "N", 0,
     "samples of an iteration (default dp * microbatch * pp)", 1},
    {"seq", OPTION_SEQ, "N", 0, "positions per sample, in place of the model's own", 1},
    {"images", OPTION_IMAGES, "N", 0, "images per sample, in place of the model's own", 1},
    {"set", OPTION_SET, "KEY=VALUE", 0, "change an option of the model; may be repeated", 1},
    {"dtype", OPTION_DTYPE, "D", 0, DTYPE_NAMES " (default: the model's own)", 1},
    {"policy", OPTION_POLICY, "P", 0,
     "bytes per parameter: fp32, mixed, mixed-fp32-gradients, distributed, pure-bf16, fsdp, "
     "bf16-moments, bf16-moments-gradients or fp8-weights (default: fp32 or mixed, by dtype)",
     1},
    {"optimizer", OPTION_OPTIMIZER, "O", 0, UPDATE_WORDS " (default adamw)", 1},
    {"optimizer-offload", OPTION_OPTIMIZER_OFFLOAD, "F", 0,
     "of parameters, whose optimizer state is in host memory and updated there (default 0)", 1},
    {"zero", OPTION_ZERO, "0|1|2|3", 0,
     "state sharding: optimizer, then gradients, then parameters (default 0)", 1},
    {"replicate", OPTION_REPLICATE, "N", 0,
     "copies of sharded state, each divided inside a group of replicas: HSDP (default 1)", 1},
    {"recompute", OPTION_RECOMPUTE, "R", 0,
     "none, selective, full, or modules such as core_attn,moe_act (default none)", 1},
    {"recompute-layers", OPTION_RECOMPUTE_LAYERS, "N", 0, "only the first layers of each part", 1},
    {"defer-head", OPTION_DEFER_HEAD, "N|all", 0,
     "micro-batches whose gradients of the head's weights are made after all passes of the last "
     "stage (default 0)",
     1},
    {"schedule", OPTION_SCHEDULE, "S", 0, "the order of passes on a stage", 1}, /* tell_schedules */
    {"offload", OPTION_OFFLOAD, NULL, 0, "checkpoints wait in host memory", 1},
    {"offload-modules", OPTION_OFFLOAD_MODULES, "LIST", 0,
     "what these modules keep waits in host memory, such as core_attn,moe_act (default none)", 1},
    {"memory", OPTION_MEMORY, "GiB", 0,
     "what may be reserved for tensors (default: what the device's memory leaves)", 1},
    {"margin", OPTION_MARGIN, "PERCENT", 0,
     "of memory, what is to stay free (default " MARGIN_TEXT "; with --memory 0)", 1},
    {"overlap", OPTION_OVERLAP, "LIST", 0,
     "what overlaps with computation: tensor,pipeline,gradients,parameters,keys, all (of these) "
     "or none, and products, experts, shared (default all)",
     1},
    {"bucket", OPTION_BUCKET, "SIZE", 0,
     "gradients synchronised at once, or whole: all of a part (default 25MiB, or a rule)", 1},
    {"software", OPTION_SOFTWARE, "NAME[,FACT=WORD]", 0,
     "what will run the plan, such as megatron-core-0.16 (default: no framework in particular)", 1},
    {"whole-sends", OPTION_WHOLE_SENDS, NULL, 0,
     "every device sends all it has to the next stage, not a part that is gathered there", 1},
    {0},
};

/* ---- options with a number ------------------------------------------------------------------- */

static const struct {
    int key;
    const char *name;
    size_t offset; /* in struct degrees */
    int64_t most;  /* 0 stands for INT32_MAX */
} COUNTS[] = {
    {OPTION_DP, "dp", offsetof(struct degrees, dp)},
    {OPTION_TP, "tp", offsetof(struct degrees, tp)},
    {OPTION_PP, "pp", offsetof(struct degrees, pp)},
    {OPTION_CP, "cp", offsetof(struct degrees, cp)},
    {OPTION_CP_HEADS, "cp-heads", offsetof(struct degrees, cp_heads)},
    {OPTION_EP, "ep", offsetof(struct degrees, ep)},
    {OPTION_ETP, "etp", offsetof(struct degrees, etp)},
    {OPTION_ENCODER_TP, "encoder-tp", offsetof(struct degrees, encoder_tp)},
    {OPTION_ENCODER_DP, "encoder-dp", offsetof(struct degrees, encoder_dp)},
    {OPTION_ENCODER_PP, "encoder-pp", offsetof(struct degrees, encoder_pp)},
    {OPTION_RECOMPUTE_LAYERS, "recompute-layers", offsetof(struct degrees, recompute_layers)},
    {OPTION_VIRTUAL, "virtual", offsetof(struct degrees, pieces)},
    {OPTION_SEGMENTS, "segments", offsetof(struct degrees, segments)},
    {OPTION_GROUP, "group", offsetof(struct degrees, group), MOST_SAMPLES},
    {OPTION_REPLICATE, "replicate", offsetof(struct degrees, replicate)},
    {OPTION_MICROBATCH, "microbatch", offsetof(struct degrees, micro_batch), MOST_SAMPLES},
    {OPTION_GLOBAL_BATCH, "global-batch", offsetof(struct degrees, global_batch), MOST_SAMPLES},
};

static bool take_degree(struct argp_state *state, struct plan_arguments *in, int key,
                        const char *arg)
{
    for (size_t i = 0; i < COUNT_OF(COUNTS); i++) {
        if (COUNTS[i].key != key)
            continue;
        int64_t value =
            take_count(state, COUNTS[i].name, arg, 1, COUNTS[i].most ? COUNTS[i].most : INT32_MAX);
        memcpy((char *)&in->degrees + COUNTS[i].offset, &value, sizeof value);
        in->has_cp_heads |= key == OPTION_CP_HEADS;
        if (key == OPTION_RECOMPUTE_LAYERS) /* says full, too */
            in->degrees.has_recompute = true, in->degrees.recompute = RECOMPUTE_FULL;
        return true;
    }
    return false;
}

/* ---- options with words ---------------------------------------------------------------------- */

static void take_seq(struct argp_state *state, struct plan_arguments *in, const char *arg)
{
    long long seq = (long long)take_positions(state, "seq", arg);
    add_override(in->arena, &in->overrides, "seq", arena_printf(in->arena, "%lld", seq));
}

static void take_images(struct argp_state *state, struct plan_arguments *in, const char *arg)
{
    take_count(state, "images", arg, 1, INT32_MAX);
    add_override(in->arena, &in->overrides, "images", arg);
}

static void take_model_set(struct argp_state *state, struct plan_arguments *in, const char *arg)
{
    take_set(state, in->arena, &in->overrides, arg);
}

static void take_plan_dtype(struct argp_state *state, struct plan_arguments *in, const char *arg)
{
    in->degrees.has_dtype = true;
    in->degrees.dtype = take_dtype(state, arg);
}

static void take_policy(struct argp_state *state, struct plan_arguments *in, const char *arg)
{
    in->degrees.has_policy = policy_from_name(arg, &in->degrees.policy);
    if (!in->degrees.has_policy)
        argp_error(state,
                   "--policy is '%s', expected fp32, mixed, mixed-fp32-gradients, distributed, "
                   "pure-bf16, fsdp, bf16-moments, bf16-moments-gradients or fp8-weights",
                   arg);
}

static void take_zero(struct argp_state *state, struct plan_arguments *in, const char *arg)
{
    int64_t value = -1;
    if (!parse_int(arg, &value) || value < 0 || value > 3)
        argp_error(state, "--zero is '%s', expected 0, 1, 2 or 3", arg);
    in->degrees.shard = (int)value;
    in->degrees.has_shard = true;
}

static void take_recompute(struct argp_state *state, struct plan_arguments *in, const char *arg)
{
    struct arena *scratch = arena_new();
    in->degrees.has_recompute = true;
    if (!recompute_parse(scratch, arg, &in->degrees))
        argp_error(state, "--recompute is '%s', expected %s", arg, RECOMPUTE_WORDS);
    arena_free(scratch);
}

static void take_offload_modules(struct argp_state *state, struct plan_arguments *in,
                                 const char *arg)
{
    struct arena *scratch = arena_new();
    if (!offload_parse(scratch, arg, &in->degrees.offload_modules))
        argp_error(state, "--offload-modules is '%s', expected %s", arg, OFFLOAD_WORDS);
    arena_free(scratch);
}

static void take_schedule(struct argp_state *state, struct plan_arguments *in, const char *arg)
{
    (void)state, in->degrees.schedule = arg; /* plan_from_degrees checks the name */
}

static void take_layout(struct argp_state *state, struct plan_arguments *in, const char *arg)
{
    (void)state, in->degrees.layout = arg; /* plan_from_degrees reads it */
}

static void take_order(struct argp_state *state, struct plan_arguments *in, const char *arg)
{
    (void)state, in->degrees.order = arg; /* plan_from_degrees reads it */
}

static void take_memory(struct argp_state *state, struct plan_arguments *in, const char *arg)
{
    int64_t bytes = 0;
    double gib = 0;
    if (parse_real(arg, &gib) && gib > 0 && gib < 0x1p23)
        bytes = (int64_t)(gib * 0x1p30);
    else if (!parse_bytes(arg, &bytes) || bytes < 1)
        argp_error(state, "--memory is '%s', expected a number of GiB or a size such as 30GiB",
                   arg);
    in->degrees.memory.limit_bytes = bytes;
}

static void take_margin(struct argp_state *state, struct plan_arguments *in, const char *arg)
{
    double *percent = &in->degrees.memory.margin_percent;
    in->degrees.memory.has_margin =
        parse_percent(arg, percent) && *percent >= 0 && *percent <= MOST_MARGIN_PERCENT;
    if (!in->degrees.memory.has_margin)
        argp_error(state, "--margin is '%s', expected a number of per cent from 0 to %d", arg,
                   MOST_MARGIN_PERCENT);
}

static void settle_cp_kind(struct plan_arguments *in)
{
    int64_t heads = in->degrees.cp_heads;
    if (!in->has_cp_kind)
        return;
    cp_kind_set(in->cp_kind, &in->degrees);
    if (in->has_cp_heads)
        in->degrees.cp_heads = heads;
}

static void take_cp_kind(struct argp_state *state, struct plan_arguments *in, const char *arg)
{
    in->has_cp_kind = cp_kind_from_name(arg, &in->cp_kind);
    if (!in->has_cp_kind)
        argp_error(state, "--cp-kind is '%s', expected %s", arg, CP_KIND_WORDS);
    settle_cp_kind(in);
}

static void take_overlap(struct argp_state *state, struct plan_arguments *in, const char *arg)
{
    char *rest = arena_copy_text(in->arena, arg), *word;
    in->degrees.has_overlap = true;
    in->degrees.overlap = 0;
    while ((word = strsep(&rest, ", ")) != NULL) {
        if (*word == '\0' || overlap_from_name(word, &in->degrees.overlap))
            continue;
        const char *near = overlap_near(word);
        argp_error(state, "--overlap has '%s', expected %s%s%s%s", word, OVERLAP_WORDS,
                   near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    }
    settle_cp_kind(in);
}

static void take_bucket(struct argp_state *state, struct plan_arguments *in, const char *arg)
{
    in->degrees.has_bucket = bucket_from_text(arg, &in->degrees.bucket_bytes);
    if (!in->degrees.has_bucket)
        argp_error(state, "--bucket is '%s', expected a size such as 25MiB, or whole", arg);
}

static void take_optimizer(struct argp_state *state, struct plan_arguments *in, const char *arg)
{
    if (!optimizer_from_name(arg, &in->degrees.optimizer))
        argp_error(state, "--optimizer is '%s', expected " UPDATE_WORDS, arg);
}

static void take_optimizer_offload(struct argp_state *state, struct plan_arguments *in,
                                   const char *arg)
{
    double *share = &in->degrees.optimizer_offload;
    if (!parse_real(arg, share) || *share < 0 || *share > 1)
        argp_error(state, "--optimizer-offload is '%s', expected a number from 0 to 1", arg);
}

static void take_defer_head(struct argp_state *state, struct plan_arguments *in, const char *arg)
{
    if (!deferral_from_text(arg, &in->degrees.defer_head))
        argp_error(state, "--defer-head is '%s', expected a number of micro-batches, or all", arg);
}

static void take_software(struct argp_state *state, struct plan_arguments *in, const char *arg)
{
    in->has_software = true;
    if (software_from_text(arg, &in->degrees.software))
        argp_error(state, "--software: %s", weft_last_error()->message);
}

/* ---- options that are on or off -------------------------------------------------------------- */

static const struct {
    int key;
    size_t offset; /* in struct degrees */
} SWITCHES[] = {
    {OPTION_SP, offsetof(struct degrees, sequence)},
    {OPTION_OFFLOAD, offsetof(struct degrees, offload)},
    {OPTION_WHOLE_SENDS, offsetof(struct degrees, whole_sends)},
};

static bool take_switch(struct plan_arguments *in, int key, bool on)
{
    for (size_t i = 0; i < COUNT_OF(SWITCHES); i++) {
        if (SWITCHES[i].key != key)
            continue;
        memcpy((char *)&in->degrees + SWITCHES[i].offset, &on, sizeof on);
        return true;
    }
    return false;
}

static const struct {
    int key;
    void (*take)(struct argp_state *state, struct plan_arguments *in, const char *arg);
} WORDS[] = {
    {OPTION_OPTIMIZER_OFFLOAD, take_optimizer_offload},
    {OPTION_DEFER_HEAD, take_defer_head},
    {OPTION_SEQ, take_seq},
    {OPTION_IMAGES, take_images},
    {OPTION_SET, take_model_set},
    {OPTION_DTYPE, take_plan_dtype},
    {OPTION_POLICY, take_policy},
    {OPTION_ZERO, take_zero},
    {OPTION_RECOMPUTE, take_recompute},
    {OPTION_OFFLOAD_MODULES, take_offload_modules},
    {OPTION_SCHEDULE, take_schedule},
    {OPTION_LAYOUT, take_layout},
    {OPTION_MEMORY, take_memory},
    {OPTION_OVERLAP, take_overlap},
    {OPTION_BUCKET, take_bucket},
    {OPTION_MARGIN, take_margin},
    {OPTION_SOFTWARE, take_software},
    {OPTION_OPTIMIZER, take_optimizer},
    {OPTION_CP_KIND, take_cp_kind},
    {OPTION_ORDER, take_order},
};

static bool take_word(struct argp_state *state, struct plan_arguments *in, int key, const char *arg)
{
    for (size_t i = 0; i < COUNT_OF(WORDS); i++)
        if (WORDS[i].key == key) {
            WORDS[i].take(state, in, arg);
            return true;
        }
    return false;
}

static const char *option_name(int key)
{
    size_t i = 0;
    while (OPTIONS[i].key != key)
        i++;
    return OPTIONS[i].name;
}

/* Takes PLAN, or MODEL and CLUSTER. */
static error_t take_name(struct argp_state *state, struct plan_arguments *in, const char *arg)
{
    if (in->names == (int)COUNT_OF(in->name))
        argp_error(state, "a plan file, or a model and a cluster: '%s' is too many", arg);
    else
        in->name[in->names++] = arg;
    return 0;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct plan_arguments *in = state->input;
    if (key == ARGP_KEY_ARG)
        return take_name(state, in, arg);
    if (key == ARGP_KEY_NO_ARGS && !in->named_elsewhere)
        argp_error(state, "which plan? A file, or a model and a cluster");
    if (key < OPTION_DP || key > OPTION_OPTIMIZER)
        return ARGP_ERR_UNKNOWN;
    if (key != OPTION_MARGIN && key != OPTION_SOFTWARE) /* which a plan file leaves open */
        in->flag = option_name(key);
    bool taken = take_degree(state, in, key, arg) || take_switch(in, key, true) ||
                 take_word(state, in, key, arg);
    return taken ? 0 : ARGP_ERR_UNKNOWN;
}

/* Argp frees what this returns. */
static char *tell_schedules(int key, const char *text, void *input)
{
    (void)input;
    if (key == OPTION_SCHEDULE)
        return schedules_help();
    return text ? strdup(text) : NULL;
}

const struct argp DEGREES_ARGP = {OPTIONS, parse_option, NULL, NULL, NULL, tell_schedules, NULL};

/* ---- one option by its name ------------------------------------------------------------------ */

static const struct argp_option *find_option(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(OPTIONS); i++)
        if (OPTIONS[i].name && strcmp(OPTIONS[i].name, name) == 0)
            return &OPTIONS[i];
    return NULL;
}

/* Resets an option as if it had not been given, so that a planner chooses. */
static weft_status leave_open(struct plan_arguments *in, const struct argp_option *option)
{
    struct degrees *d = &in->degrees;
    for (size_t i = 0; i < COUNT_OF(COUNTS); i++)
        if (COUNTS[i].key == option->key) {
            memset((char *)d + COUNTS[i].offset, 0, sizeof(int64_t));
            return WEFT_OK;
        }
    if (option->key == OPTION_SCHEDULE)
        d->schedule = NULL;
    else if (option->key == OPTION_ZERO)
        d->has_shard = false, d->shard = 0;
    else if (option->key == OPTION_RECOMPUTE)
        d->has_recompute = false, d->recompute = RECOMPUTE_NONE, d->recompute_layers = 0;
    else
        return bad_argument("name a value", "no planner chooses %s: it cannot be any",
                            option->name);
    return WEFT_OK;
}

weft_status degrees_open(struct plan_arguments *arguments)
{
    static const char *const NAMES[] = {"dp",         "tp",        "pp",         "cp",
                                        "ep",         "etp",       "encoder-tp", "encoder-dp",
                                        "encoder-pp", "virtual",   "segments",   "schedule",
                                        "zero",       "recompute", "microbatch"};
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < COUNT_OF(NAMES) && status == WEFT_OK; i++)
        status = degrees_set(arguments, NAMES[i], "any");
    arguments->degrees.sequence = arguments->degrees.offload = false;
    return status;
}

weft_status degrees_set(struct plan_arguments *arguments, const char *name, const char *value)
{
    const struct argp_option *option = find_option(name);
    bool on = strcmp(value, "on") == 0;
    struct argp_state state = {.root_argp = &DEGREES_ARGP,
                               .name = "weft compare", /* only it sets options by name */
                               .input = arguments,
                               .err_stream = stderr,
                               .out_stream = stdout};
    if (!option)
        return bad_argument("weft simulate --help lists them", "no option of a plan is called '%s'",
                            name);
    if (!option->arg && !on && strcmp(value, "off") != 0)
        return bad_argument(NULL, "%s is '%s', expected on or off", name, value);
    if (!option->arg)
        return take_switch(arguments, option->key, on) ? WEFT_OK : WEFT_FAILURE;
    if (strcmp(value, "any") == 0)
        return leave_open(arguments, option);
    char *text = arena_copy_text(arguments->arena, value);
    return parse_option(option->key, text, &state) ? WEFT_FAILURE : WEFT_OK;
}
