/* train_options.c - the options of `weft train`. */
#include <math.h>
#include <string.h>

#include "cli/train.h"

enum {
    OPTION_DATA = 1,
    OPTION_FORMAT,
    OPTION_VOCAB,
    OPTION_MERGES,
    OPTION_STEPS,
    OPTION_SEED,
    OPTION_RATE,
    OPTION_LEAST,
    OPTION_WARMUP,
    OPTION_DECAY,
    OPTION_OPTIMIZER,
    OPTION_WEIGHT_DECAY,
    OPTION_CLIP,
    OPTION_DROPOUT,
    OPTION_VALIDATION,
    OPTION_VALIDATE_EVERY,
    OPTION_LOG,
    OPTION_CHECKPOINT,
    OPTION_SAVE_EVERY,
    OPTION_KEEP,
    OPTION_RESUME,
    OPTION_TRACE,
    OPTION_NO_OVERLAP,
    OPTION_MEMORY_REPORT,
    OPTION_SLOW_BANDWIDTH,
    OPTION_SLOW_DELAY,
    OPTION_RANKS,
    OPTION_JSON
};
static const struct argp_option OPTIONS[] = {
    {"data", OPTION_DATA, "FILE", 0, "the text, or a file of tokens (docs/training.md)", 0},
    {"data-format", OPTION_FORMAT, "F", 0,
     "text, uint16, uint32, weft or megatron (default: by the file)", 0},
    {"vocab", OPTION_VOCAB, "FILE", 0, "vocab.json of a byte-pair encoding (default: bytes)", 0},
    {"merges", OPTION_MERGES, "FILE", 0, "its merges.txt", 0},
    {"steps", OPTION_STEPS, "N", 0, "steps in all, those before --resume included (default 100)",
     0},
    {"seed", OPTION_SEED, "N", 0, "of weights, order and dropout (default 1)", 0},
    {"rate", OPTION_RATE, "R", 0, "learning rate at its highest (default 0.001)", 0},
    {"least-rate", OPTION_LEAST, "R", 0, "what it decays to (default 0)", 0},
    {"warmup", OPTION_WARMUP, "N", 0, "steps over which it rises (default 0)", 0},
    {"decay", OPTION_DECAY, "SHAPE", 0, "constant, linear or cosine (default constant)", 0},
    {"optimizer", OPTION_OPTIMIZER, "O", 0, "sgd (momentum 0.9), adam or adamw (default adamw)", 0},
    {"weight-decay", OPTION_WEIGHT_DECAY, "D", 0, "(default 0.01 with adamw, else 0)", 0},
    {"clip", OPTION_CLIP, "NORM", 0, "limit of the gradients' norm, 0: none (default 1)", 0},
    {"dropout", OPTION_DROPOUT, "P", 0, "probability (default 0)", 0},
    {"validation", OPTION_VALIDATION, "FRACTION", 0,
     "keep the end of the data to measure the loss on (default 0)", 0},
    {"validate-every", OPTION_VALIDATE_EVERY, "N", 0, "steps (default: at the end)", 0},
    {"log", OPTION_LOG, "FILE", 0, "a line of tab-separated values for every step", 0},
    {"checkpoint", OPTION_CHECKPOINT, "DIR", 0, "save there, at the end at least", 0},
    {"save-every", OPTION_SAVE_EVERY, "N", 0, "steps (default: at the end)", 0},
    {"keep", OPTION_KEEP, "N", 0, "checkpoints, the newest; 0: all (default 3)", 0},
    {"resume", OPTION_RESUME, "DIR", OPTION_ARG_OPTIONAL,
     "go on from a checkpoint, under any plan of its model (default: that of --checkpoint)", 0},
    {"trace", OPTION_TRACE, "FILE", 0, "write when every task ran, as `weft simulate --trace` does",
     0},
    {"no-overlap", OPTION_NO_OVERLAP, NULL, 0, "computation waits for all communication", 0},
    {"memory-report", OPTION_MEMORY_REPORT, NULL, 0,
     "what every rank held at most, beside the prediction", 0},
    {"slow-bandwidth", OPTION_SLOW_BANDWIDTH, "RATE", 0,
     "let transfers between threads take as long as through links of such a network (1GB/s)", 0},
    {"slow-delay", OPTION_SLOW_DELAY, "TIME", 0, "and up to so much longer, at random (100us)", 0},
    {"ranks", OPTION_RANKS, "N", 0,
     "ranks as threads of this process, also below a launcher (default: the plan's devices)", 0},
    {"json", OPTION_JSON, NULL, 0, "one JSON object on standard output", 0},
    {0},
};
static const struct argp_child CHILDREN[] = {{&DEGREES_ARGP, 0, NULL, 0}, {0}};

/* ---- numbers --------------------------------------------------------------------------------- */

#define AT(field) offsetof(struct train_arguments, field)
static const struct {
    int key;
    const char *name;
    size_t offset;
    int64_t least;
} COUNTS[] = {
    {OPTION_STEPS, "steps", AT(training.steps), 1},
    {OPTION_SEED, "seed", AT(training.seed), 0},
    {OPTION_WARMUP, "warmup", AT(training.rate.warmup), 0},
    {OPTION_VALIDATE_EVERY, "validate-every", AT(training.validate_every), 1},
    {OPTION_SAVE_EVERY, "save-every", AT(training.save_every), 1},
    {OPTION_KEEP, "keep", AT(training.checkpoint.keep), 0},
    {OPTION_RANKS, "ranks", AT(ranks), 1},
};

static bool take_count(struct argp_state *state, struct train_arguments *in, int key,
                       const char *arg)
{
    for (size_t i = 0; i < COUNT_OF(COUNTS); i++) {
        int64_t value;
        if (COUNTS[i].key != key)
            continue;
        if (!parse_int(arg, &value) || value < COUNTS[i].least)
            argp_error(state, "--%s takes a whole number of at least %lld, not '%s'",
                       COUNTS[i].name, (long long)COUNTS[i].least, arg);
        memcpy((char *)in + COUNTS[i].offset, &value, sizeof value);
        return true;
    }
    return false;
}

/* Below `limit`; what is a float in the library is a double until train_complete. */
static double take_real(struct argp_state *state, const char *name, const char *arg, double limit)
{
    double value = 0;
    if (!parse_real(arg, &value) || !(value >= 0 && value < limit))
        argp_error(state, "--%s takes a number of at least 0%s, not '%s'", name,
                   limit <= 1 ? " and below 1" : "", arg);
    return value;
}

static bool take_slowdown(struct argp_state *state, struct slowdown *out, int key, const char *arg)
{
    int64_t ns = 0;
    if (key == OPTION_SLOW_BANDWIDTH &&
        (!parse_rate(arg, &out->bytes_per_s) || !(out->bytes_per_s > 0)))
        argp_error(state, "--slow-bandwidth takes a rate such as 1GB/s, not '%s'", arg);
    if (key == OPTION_SLOW_DELAY && (!parse_duration(arg, &ns) || ns < 1))
        argp_error(state, "--slow-delay takes a time such as 100us, not '%s'", arg);
    if (key == OPTION_SLOW_DELAY)
        out->delay_s = (double)ns / 1e9;
    return key == OPTION_SLOW_BANDWIDTH || key == OPTION_SLOW_DELAY;
}

static bool take_reals(struct argp_state *state, struct train_arguments *in, int key,
                       const char *arg)
{
    struct training_options *t = &in->training;
    double limit = (double)1e30F;
    switch (key) {
    case OPTION_RATE:
        t->rate.peak = take_real(state, "rate", arg, limit);
        return true;
    case OPTION_LEAST:
        t->rate.least = take_real(state, "least-rate", arg, limit);
        return true;
    case OPTION_WEIGHT_DECAY:
        in->weight_decay = take_real(state, "weight-decay", arg, limit);
        return true;
    case OPTION_CLIP:
        t->clip = (float)take_real(state, "clip", arg, limit);
        return true;
    case OPTION_DROPOUT:
        t->dropout = (float)take_real(state, "dropout", arg, 1);
        return true;
    case OPTION_VALIDATION:
        t->data.validation = take_real(state, "validation", arg, 1);
        return true;
    default:
        return false;
    }
}

/* ---- words ----------------------------------------------------------------------------------- */

static const char *const OPTIMIZERS[] = {
    [OPTIMIZER_SGD] = "sgd", [OPTIMIZER_ADAM] = "adam", [OPTIMIZER_ADAMW] = "adamw"};
_Static_assert(COUNT_OF(OPTIMIZERS) == OPTIMIZER_COUNT, "an optimizer without a name");

static void refuse_word(struct argp_state *state, const char *option, const char *arg,
                        const char *expected, const char *near)
{
    argp_error(state, "--%s is '%s', expected %s%s%s%s", option, arg, expected,
               near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static void take_optimizer(struct argp_state *state, struct train_arguments *in, const char *arg)
{
    for (int i = 0; i < OPTIMIZER_COUNT; i++)
        if (strcmp(OPTIMIZERS[i], arg) == 0) {
            in->training.optimizer.kind = (enum optimizer)i;
            return;
        }
    refuse_word(state, "optimizer", arg, "sgd, adam or adamw",
                nearest_word(arg, OPTIMIZERS, COUNT_OF(OPTIMIZERS)));
}

static bool take_words(struct argp_state *state, struct train_arguments *in, int key,
                       const char *arg)
{
    struct training_options *t = &in->training;
    switch (key) {
    case OPTION_FORMAT:
        if (!token_format_from_name(arg, &t->data.tokens.format))
            refuse_word(state, "data-format", arg, "text, uint16, uint32, weft or megatron",
                        token_format_near(arg));
        return true;
    case OPTION_DECAY:
        if (!rate_shape_from_name(arg, &t->rate.shape))
            refuse_word(state, "decay", arg, "constant, linear or cosine", rate_shape_near(arg));
        return true;
    case OPTION_OPTIMIZER:
        take_optimizer(state, in, arg);
        return true;
    default:
        return false;
    }
}

/* ---- all ------------------------------------------------------------------------------------- */

static const struct {
    int key;
    size_t offset;
} FILES[] = {
    {OPTION_DATA, AT(training.data.path)},
    {OPTION_VOCAB, AT(training.data.tokens.vocab)},
    {OPTION_MERGES, AT(training.data.tokens.merges)},
    {OPTION_LOG, AT(training.log)},
    {OPTION_CHECKPOINT, AT(training.checkpoint.folder)},
    {OPTION_RESUME, AT(training.resume)},
    {OPTION_TRACE, AT(training.trace)},
};
static const struct {
    int key;
    size_t offset;
} FLAGS[] = {
    {OPTION_RESUME, AT(resumes)},
    {OPTION_NO_OVERLAP, AT(no_overlap)},
    {OPTION_MEMORY_REPORT, AT(memory_report)},
    {OPTION_JSON, AT(json)},
};

static bool take_plain(struct train_arguments *in, int key, const char *arg)
{
    bool taken = false, yes = true;
    for (size_t i = 0; i < COUNT_OF(FILES); i++)
        if (FILES[i].key == key) {
            memcpy((char *)in + FILES[i].offset, (const void *)&arg, sizeof arg);
            taken = true;
        }
    for (size_t i = 0; i < COUNT_OF(FLAGS); i++)
        if (FLAGS[i].key == key) {
            memcpy((char *)in + FLAGS[i].offset, &yes, sizeof yes);
            taken = true;
        }
    return taken;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct train_arguments *in = state->input;
    if (key == ARGP_KEY_INIT) {
        state->child_inputs[0] = &in->plan;
        return 0;
    }
    return take_plain(in, key, arg) || take_count(state, in, key, arg) ||
                   take_slowdown(state, &in->training.slowdown, key, arg) ||
                   take_reals(state, in, key, arg) || take_words(state, in, key, arg)
               ? 0
               : ARGP_ERR_UNKNOWN;
}

const struct argp TRAIN_ARGP = {
    OPTIONS,
    parse_option,
    "PLAN --data FILE\nMODEL CLUSTER --data FILE",
    "Runs a plan: trains its model on a text, one rank per device of the plan's cluster. Started "
    "by "
    "mpirun or another launcher of MPI, the ranks are its processes; else they are threads. The "
    "loss is that of one rank, whatever the plan. SIGINT and SIGTERM end the run behind a step, "
    "with a checkpoint.\v"
    "PLAN is a plan file (docs/plan-file.md); it has to be in fp32, tf32 or bf16.\n\n"
    "Example:\n"
    "  weft train data/plans/tiny.yaml --data data/text/harbour.txt --steps 300 --rate 0.003\n"
    "  weft train data/plans/tiny.yaml --data data/text/harbour.txt --checkpoint run --save-every "
    "50\n"
    "  weft train data/plans/tiny.yaml --data data/text/harbour.txt --checkpoint run --resume "
    "--steps 600\n"
    "  mpirun -n 2 weft train data/plans/tiny.yaml --data data/text/harbour.txt --log run.tsv",
    CHILDREN,
    NULL,
    NULL,
};

/* PyTorch's defaults of SGD, Adam and AdamW, but for SGD's momentum, which is 0 there. */
weft_status train_complete(struct train_arguments *arguments)
{
    struct training_options *t = &arguments->training;
    bool decays = t->optimizer.kind == OPTIMIZER_ADAMW;
    if (!t->data.path)
        return bad_argument("give a text file: --data corpus.txt", "there is nothing to train on");
    if (arguments->resumes && !t->resume)
        t->resume = t->checkpoint.folder;
    if (arguments->resumes && !t->resume)
        return bad_argument("--resume=DIR, or --checkpoint DIR beside it",
                            "--resume does not say what to go on from");
    t->optimizer.momentum = 0.9F;
    t->optimizer.beta1 = 0.9F;
    t->optimizer.beta2 = 0.999F;
    t->optimizer.epsilon = 1e-8F;
    t->optimizer.decay = (float)(arguments->weight_decay >= 0 ? arguments->weight_decay
                                 : decays                     ? 0.01
                                                              : 0);
    t->rate.steps = t->steps;
    return WEFT_OK;
}
