/* train_options.c - the options of `weft train`. */
#include <math.h>
#include <string.h>

#include "cli/train.h"

/* ---- words ----------------------------------------------------------------------------------- */

static void refuse_word(struct argp_state *state, const char *option, const char *arg,
                        const char *expected, const char *near)
{
    argp_error(state, "--%s is '%s', expected %s%s%s%s", option, arg, expected,
               near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static void take_optimizer(struct argp_state *state, void *input, char *arg)
{
    struct train_arguments *in = input;
    int at = NAME_INDEX(arg, OPTIMIZER_NAMES);
    if (at < 0)
        refuse_word(state, "optimizer", arg, "sgd, adam, adamw or muon",
                    NEAREST_NAME(arg, OPTIMIZER_NAMES));
    else
        in->training.optimizer.kind = (enum optimizer)at;
}

static void take_format(struct argp_state *state, void *input, char *arg)
{
    struct train_arguments *in = input;
    if (!token_format_from_name(arg, &in->training.data.tokens.format))
        refuse_word(state, "data-format", arg, "text, uint16, uint32, weft or megatron",
                    token_format_near(arg));
}

static void take_decay(struct argp_state *state, void *input, char *arg)
{
    struct train_arguments *in = input;
    if (!rate_shape_from_name(arg, &in->training.rate.shape))
        refuse_word(state, "decay", arg, "constant, linear or cosine", rate_shape_near(arg));
}

/* ---- others ---------------------------------------------------------------------------------- */

static void take_resume(struct argp_state *state, void *input, char *arg)
{
    struct train_arguments *in = input;
    (void)state;
    in->resumes = true;
    in->training.resume = arg;
}

/* Reads names separated by commas. */
static void take_changes(struct argp_state *state, void *input, char *arg)
{
    struct train_arguments *in = input;
    for (char *name; (name = strsep(&arg, ",")) != NULL;) {
        int at = NAME_INDEX(name, CHANGE_NAMES);
        if (at < 0)
            refuse_word(state, "allow-change", name, "data, batch, optimizer or rate",
                        NEAREST_NAME(name, CHANGE_NAMES));
        else
            in->training.allowed |= 1U << at;
    }
}

static void take_bandwidth(struct argp_state *state, void *input, char *arg)
{
    struct train_arguments *in = input;
    double *out = &in->training.slowdown.bytes_per_s;
    if (!parse_rate(arg, out) || !(*out > 0))
        argp_error(state, "--slow-bandwidth takes a rate such as 1GB/s, not '%s'", arg);
}

static void take_delay(struct argp_state *state, void *input, char *arg)
{
    struct train_arguments *in = input;
    int64_t ns = 0;
    if (!parse_duration(arg, &ns) || ns < 1)
        argp_error(state, "--slow-delay takes a time such as 100us, not '%s'", arg);
    in->training.slowdown.delay_s = (double)ns / 1e9;
}

/* ---- all ------------------------------------------------------------------------------------- */

#define AT(field) offsetof(struct train_arguments, field)
static const struct cli_option OPTIONS[] = {
    {"data", "FILE", "the text, or a file of tokens (docs/guide/training.md)", OPTION_TEXT,
     AT(training.data.path)},
    {"data-format", "F", "text, uint16, uint32, weft or megatron (default: by the file)",
     OPTION_TAKE, .take = take_format},
    {"vocab", "FILE", "vocab.json of a byte-pair encoding (default: bytes)", OPTION_TEXT,
     AT(training.data.tokens.vocab)},
    {"merges", "FILE", "its merges.txt", OPTION_TEXT, AT(training.data.tokens.merges)},
    {"mask-token", "N", "of a masked model: what hides tokens (default: its last token)",
     OPTION_COUNT, AT(training.data.mask)},
    {"device", "NAME", "what ranks compute on, cpu or cuda (default cpu)", OPTION_TEXT,
     AT(training.device)},
    {"profile", "DB",
     "a database of measured times, for what is predicted, and on a GPU of algorithms of products",
     OPTION_TEXT, AT(training.profile)},
    {"steps", "N", "steps in all, those before --resume included (default 100)", OPTION_COUNT,
     AT(training.steps), .least = 1},
    {"seed", "N", "seed of weights, order and dropout (default 1)", OPTION_COUNT,
     AT(training.seed)},
    {"rate", "R", "learning rate at its highest (default 0.001)", OPTION_REAL,
     AT(training.rate.peak)},
    {"least-rate", "R", "what it decays to (default 0)", OPTION_REAL, AT(training.rate.least)},
    {"warmup", "N", "steps over which it rises (default 0)", OPTION_COUNT,
     AT(training.rate.warmup)},
    {"decay", "SHAPE", "constant, linear or cosine (default constant)", OPTION_TAKE,
     .take = take_decay},
    {"optimizer", "O", "sgd (momentum 0.9), adam, adamw or muon (momentum 0.95, default adamw)",
     OPTION_TAKE, .take = take_optimizer},
    {"weight-decay", "D", "(default 0.01 with adamw, else 0)", OPTION_REAL, AT(weight_decay)},
    {"clip", "NORM", "limit of the gradients' norm, 0: none (default 1)", OPTION_REAL, AT(clip)},
    {"loss-scale", "S", "in fp16: what losses are multiplied by at first (default 65536)",
     OPTION_REAL, AT(training.loss_scale)},
    {"replay", NULL, "record a step's work on a GPU once and replay it (CUDA graphs)", OPTION_FLAG,
     AT(training.replays)},
    {"dropout", "P", "probability (default 0)", OPTION_REAL, AT(dropout), .below = 1},
    {"validation", "FRACTION", "keep the end of the data to measure the loss on (default 0)",
     OPTION_REAL, AT(training.data.validation), .below = 1},
    {"validate-every", "N", "steps between measurements of it (default: at the end)", OPTION_COUNT,
     AT(training.validate_every), .least = 1},
    {"log", "FILE", "a line of tab-separated values for every step", OPTION_TEXT, AT(training.log),
     .writes = true},
    {"checkpoint", "DIR", "save there, at the end at least", OPTION_TEXT,
     AT(training.checkpoint.folder)},
    {"save-every", "N", "steps between checkpoints (default: at the end)", OPTION_COUNT,
     AT(training.save_every), .least = 1},
    {"keep", "N", "checkpoints, the newest; 0: all (default 3)", OPTION_COUNT,
     AT(training.checkpoint.keep)},
    {"resume", "DIR",
     "go on from a checkpoint, under any plan of its model (default: that of --checkpoint)",
     OPTION_TAKE, .optional = true, .take = take_resume},
    {"from", "DIR", "begin with the weights of a folder of Hugging Face's (gpt2, llama)",
     OPTION_TEXT, AT(training.from)},
    {"to", "DIR", "at the end, make such a folder of the last checkpoint", OPTION_TEXT,
     AT(training.to)},
    {"allow-change", "WHAT",
     "let a resumed run differ in data, batch, optimizer or rate; several with commas", OPTION_TAKE,
     .take = take_changes},
    {"overwrite", NULL, "replace what another run saved in --checkpoint, at the first save",
     OPTION_FLAG, AT(training.checkpoint.overwrite)},
    {"trace", "FILE", "write when every task ran, as `weft simulate --trace` does", OPTION_TEXT,
     AT(training.trace), .writes = true},
    {"no-overlap", NULL, "computation waits for all communication", OPTION_FLAG, AT(no_overlap)},
    {"memory-report", NULL, "the peak memory of every rank, next to the prediction", OPTION_FLAG,
     AT(memory_report)},
    {"slow-bandwidth", "RATE",
     "let transfers between threads take as long as through links of such a network (1GB/s)",
     OPTION_TAKE, .take = take_bandwidth},
    {"slow-delay", "TIME", "and up to this much longer, at random (100us)", OPTION_TAKE,
     .take = take_delay},
    {"ranks", "N",
     "ranks as threads of this process, also under a launcher (default: the plan's devices)",
     OPTION_COUNT, AT(ranks), .least = 1},
    JSON_OPTION(AT(json)),
    {0},
};

const struct syntax TRAIN_SYNTAX = {
    OPTIONS,
    "PLAN --data FILE\nMODEL CLUSTER --data FILE",
    "Runs a plan: trains its model on a text, one rank per device of the plan's cluster. Started "
    "by mpirun, another launcher of MPI, torchrun or srun, the ranks are its processes; else they "
    "are threads. The loss is that of one rank, whatever the plan. SIGINT and SIGTERM end the run "
    "after a step, "
    "with a checkpoint.\v"
    "PLAN is a plan file (docs/reference/plan-file.md); it has to be in fp32, tf32 or bf16.\n\n"
    "Example:\n"
    "  weft train data/plans/tiny.yaml --data data/text/harbour.txt --steps 300 --rate 0.003\n"
    "  weft train data/plans/tiny.yaml --data data/text/harbour.txt --checkpoint run "
    "--save-every 50\n"
    "  weft train data/plans/tiny.yaml --data data/text/harbour.txt --checkpoint run "
    "--resume --steps 600\n"
    "  mpirun -n 2 weft train data/plans/tiny.yaml --data data/text/harbour.txt --log run.tsv",
    .child = PLAN_CHILD(AT(plan)),
};

/* Checks before the first step that what is written after the last one can be written. */
static weft_status check_places(const struct training_options *t)
{
    weft_status status;
    TRY(file_writable(t->log));
    TRY(file_writable(t->trace));
done:
    return status;
}

/* Uses PyTorch's defaults for SGD, Adam and AdamW, except for SGD's momentum, which is 0 there. */
weft_status train_complete(struct train_arguments *arguments)
{
    struct training_options *t = &arguments->training;
    bool muon = t->optimizer.kind == OPTIMIZER_MUON;
    bool decays = t->optimizer.kind == OPTIMIZER_ADAMW || muon;
    if (!t->data.path)
        return bad_argument("give a text file: --data corpus.txt", "there is nothing to train on");
    if (arguments->resumes && !t->resume)
        t->resume = t->checkpoint.folder;
    if (arguments->resumes && !t->resume)
        return bad_argument("--resume=DIR, or --checkpoint DIR beside it",
                            "--resume does not say what to go on from");
    if (t->to && !t->checkpoint.folder)
        return bad_argument("--checkpoint DIR beside it",
                            "--to makes a folder of the last checkpoint, and none is saved");
    t->optimizer.momentum = muon ? 0.95F : 0.9F;
    t->optimizer.beta1 = 0.9F;
    t->optimizer.beta2 = 0.999F;
    t->optimizer.epsilon = 1e-8F;
    t->optimizer.decay = (float)(arguments->weight_decay >= 0 ? arguments->weight_decay
                                 : decays                     ? 0.01
                                                              : 0);
    t->rate.steps = t->steps;
    t->clip = (float)arguments->clip;
    t->dropout = (float)arguments->dropout;
    return check_places(t);
}
