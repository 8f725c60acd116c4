/* import_shape.c - Megatron's model arguments as a shape of one of Weft's families.
 *
 *   LayerNorm               gpt, with --swiglu or --multi-latent-attention or neither; bert under pretrain_bert.py; llama or moe with
 *                           rotary positions and what no gpt has: groups of queries, heads of other sizes, a part of each rotated
 *   RMSNorm                 llama; with --num-experts moe
 *   layers by a pattern     hybrid (import_pattern.c)
 *
 * A feature that the family lacks becomes a note if it costs little (biases or dropout of a llama); one
 * that changes the model is refused.
 */
#include "exchange/import_shape.h"

#include <stdio.h>
#include <string.h>

struct shape_reading {
    struct arena *keep;
    const struct arguments *a;
    struct model_shape *s;
    struct texts *notes;
};

static void remark(struct shape_reading *r, const char *text)
{
    array_push(r->keep, r->notes, text);
}

static bool has(const struct shape_reading *r, const char *name)
{
    return argument_given(r->a, name);
}

static bool is(const struct shape_reading *r, const char *name, const char *word)
{
    return strcmp(argument_word(r->a, name, ""), word) == 0;
}

static double real_of(const struct shape_reading *r, const char *name, double usual)
{
    double value = usual;
    const struct argument *given = argument_find(r->a, name);
    if (given)
        parse_real(given->value, &value);
    return value;
}

/* ---- the family ------------------------------------------------------------------------------ */

static bool is_bert(const struct shape_reading *r)
{
    return strstr(r->a->script, "pretrain_bert") || has(r, "bert-no-binary-head") ||
           strncmp(argument_word(r->a, "tokenizer-type", ""), "Bert", 4) == 0;
}

static bool is_rotary(const struct shape_reading *r)
{
    return is(r, "position-embedding-type", "rope") || has(r, "use-rotary-position-embeddings");
}

/* A decoder like Nemotron-4, which is a llama but for its norms. */
static bool is_layer_llama(const struct shape_reading *r)
{
    return is_rotary(r) && has(r, "disable-bias-linear") && !has(r, "multi-latent-attention") &&
           !has(r, "qk-layernorm") &&
           (has(r, "group-query-attention") || has(r, "kv-channels") ||
            real_of(r, "rotary-percent", 1) < 1);
}

static weft_status read_family(struct shape_reading *r)
{
    static const struct {
        const char *argument, *what;
    } MISSING[] = {
        {"encoder-num-layers", "an encoder beside its decoder"},
        {"head-wise-attn-gate", "gates after attention"},
        {"heterogeneous-layers-config-path", "layers of different sizes"},
    };
    for (size_t i = 0; i < COUNT_OF(MISSING); i++)
        if (has(r, MISSING[i].argument) && !images_given(r->a))
            return argument_error(r->a, MISSING[i].argument, NULL, "--%s: no model of Weft has %s",
                                  MISSING[i].argument, MISSING[i].what);
    if (pattern_argument(r->a)) {
        r->s->family = SHAPE_HYBRID;
        return WEFT_OK;
    }
    bool rms = is(r, "normalization", "RMSNorm");
    if (!rms && has(r, "quick-geglu"))
        return argument_error(r->a, "quick-geglu", NULL,
                              "--quick-geglu with LayerNorm: no model of Weft has it");
    bool experts = argument_int(r->a, "num-experts", 0) > 0;
    static const char *const RMS_ONLY[] = {"window-size", "mtp-num-layers",
                                           "experimental-attention-variant",
                                           "attention-output-gate", "no-rope-freq"};
    for (size_t i = 0; i < COUNT_OF(RMS_ONLY); i++)
        if (has(r, RMS_ONLY[i]) && !rms)
            return argument_error(r->a, RMS_ONLY[i], NULL,
                                  "--%s with LayerNorm: no model of Weft has it", RMS_ONLY[i]);
    r->s->layer_norm = !rms && !is_bert(r) && is_layer_llama(r);
    r->s->family = rms || r->s->layer_norm ? experts ? SHAPE_MOE : SHAPE_LLAMA
                   : is_bert(r)            ? SHAPE_BERT
                                           : SHAPE_GPT;
    r->s->gated = r->s->family == SHAPE_GPT && has(r, "swiglu");
    return WEFT_OK;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static weft_status need(const struct shape_reading *r, const char *name, int64_t *out)
{
    *out = argument_int(r->a, name, 0);
    return *out >= 1 ? WEFT_OK
                     : argument_error(r->a, name, NULL,
                                      "--%s is %s, expected a whole number of at least 1", name,
                                      has(r, name) ? argument_word(r->a, name, "") : "missing");
}

/* Megatron-LM's default: with SwiGLU, and with no other gate, 8/3 of the hidden size, rounded down to a multiple of 64
 * (megatron/training/arguments.py, validate_args). */
static int64_t usual_ffn(const struct shape_reading *r)
{
    int64_t hidden = r->s->hidden;
    return has(r, "swiglu") ? hidden * 8 / 3 / 64 * 64 : 4 * hidden;
}

static weft_status read_sizes(struct shape_reading *r)
{
    struct model_shape *s = r->s;
    weft_status status;
    if (images_given(r->a))
        TRY(images_sizes_read(r->a, s));
    else if (s->family == SHAPE_HYBRID)
        TRY(pattern_read(r->a, s));
    else
        TRY(need(r, "num-layers", &s->layers));
    TRY(need(r, "hidden-size", &s->hidden));
    TRY(need(r, "num-attention-heads", &s->heads));
    if (!images_given(r->a))
        TRY(need(r, "seq-length", &s->seq));
    s->ffn = argument_int(r->a, "ffn-hidden-size", usual_ffn(r));
    s->kv_heads =
        has(r, "group-query-attention") ? argument_int(r->a, "num-query-groups", 1) : s->heads;
    s->head_dim = argument_int(r->a, "kv-channels", s->hidden / s->heads);
    bool plain = s->family == SHAPE_GPT || s->family == SHAPE_BERT;
    if (plain && (s->kv_heads != s->heads || s->head_dim * s->heads != s->hidden))
        TRY(argument_error(r->a, "num-attention-heads", NULL,
                           "grouped queries or --kv-channels with LayerNorm: no model of Weft has "
                           "them"));
    if (plain && has(r, "qk-layernorm") && !has(r, "multi-latent-attention"))
        TRY(argument_error(r->a, "qk-layernorm", NULL,
                           "--qk-layernorm with LayerNorm: no model of Weft has it"));
done:
    return status;
}

/* The vocabulary of tokenizers whose name says which one they use. */
static int64_t known_vocabulary(const struct shape_reading *r)
{
    const char *type = argument_word(r->a, "tokenizer-type", "");
    if (strcmp(type, "GPT2BPETokenizer") == 0)
        return 50257;
    return strcmp(type, "BertWordPieceLowerCase") == 0 ? 30522 : 0;
}

/* Megatron pads the vocabulary to a multiple of --make-vocab-size-divisible-by times tp. Weft's splits
 * pad to a multiple of tp by themselves (plan.h, I4), so that nothing is padded here if the first factor is 1. */
static weft_status read_vocabulary(struct shape_reading *r)
{
    int64_t tp = argument_int(r->a, "tensor-model-parallel-size", 1);
    int64_t vocab = argument_int(r->a, "vocab-size", known_vocabulary(r));
    int64_t padded = argument_int(r->a, "padded-vocab-size", 0);
    int64_t multiple = argument_int(r->a, "make-vocab-size-divisible-by", 128);
    if (tp < 1 || multiple < 1 || multiple > INT32_MAX || tp > INT32_MAX)
        return argument_error(r->a, "make-vocab-size-divisible-by", NULL,
                              "the vocabulary is padded to a multiple of %lld * %lld",
                              (long long)multiple, (long long)tp);
    if (vocab > 0)
        vocab += is(r, "tokenizer-type", "NullTokenizer"); /* which adds an end-of-text token */
    if (padded > 0) {
        r->s->vocab = vocab > 0 && ceil_div(vocab, tp) * tp == padded ? vocab : padded;
        return WEFT_OK;
    }
    if (vocab < 1)
        return argument_error(r->a, "tokenizer-type", "add --vocab-size",
                              "the size of the vocabulary is in a file that these arguments name");
    r->s->vocab = multiple == 1 ? vocab : ceil_div(vocab, multiple * tp) * multiple * tp;
    return WEFT_OK;
}

/* ---- the rest -------------------------------------------------------------------------------- */

/* The version of flash attention in a comment that `weft export` wrote: "flash-v2 compiled-loss". */
static const char *version_of(const struct shape_reading *r)
{
    const char *word = r->a->model ? strstr(r->a->model, "flash-") : NULL;
    return word ? arena_copy_bytes(r->keep, word, strcspn(word, " ")) : "flash";
}

/* What follows this key in the same comment: "document=2048"; "" if it is not there. */
static const char *told_after(const struct shape_reading *r, const char *key)
{
    const char *word = r->a->model ? strstr(r->a->model, key) : NULL;
    return word ? arena_copy_bytes(r->keep, word + strlen(key), strcspn(word + strlen(key), " "))
                : "";
}

/* Numbers that a model cannot have are refused where it is made. */
static void read_data(struct shape_reading *r)
{
    if (!parse_int(told_after(r, " document="), &r->s->document))
        r->s->document = 0;
    if (!r->s->experts || !parse_real(told_after(r, " expert_skew="), &r->s->skew))
        r->s->skew = 0;
}

static const char *loss_of(const struct shape_reading *r)
{
    const char *told = has(r, "cross-entropy-loss-fusion") ? "fused" : "plain";
    if (r->a->model && strstr(r->a->model, "compiled-loss"))
        return "compiled";
    if (r->a->model && strstr(r->a->model, "eager-loss"))
        return "eager";
    return told;
}

/* Transformer Engine takes flash attention, or cuDNN's kernel of the same kind, unless an argument forbids it. */
static const char *attention_of(const struct shape_reading *r)
{
    const char *backend = argument_word(r->a, "attention-backend", "auto");
    bool local = is(r, "transformer-impl", "local") || is(r, "spec", "local");
    bool unfused = strcmp(backend, "unfused") == 0 || strcmp(backend, "local") == 0 ||
                   (local && !has(r, "use-flash-attn") && strcmp(backend, "flash") != 0);
    if (!unfused)
        return version_of(r);
    return !has(r, "no-masked-softmax-fusion") ? "fused" : local ? "local" : "eager";
}

/* Of decoders; the factor 1 is none. Latent attention has yarn alone (core/transformer/multi_latent_attention.py). */
static void read_stretch(struct shape_reading *r, bool yarn)
{
    struct model_shape *s = r->s;
    double linear = real_of(r, "rotary-seq-len-interpolation-factor", 0);
    if (s->family != SHAPE_LLAMA && s->family != SHAPE_MOE)
        return;
    bool latent = has(r, "multi-latent-attention") && !is(r, "rope-type", "rope");
    double factor = real_of(r, "rotary-scaling-factor", 1);
    if ((yarn || latent) && factor > 1) {
        bool unrounded = has(r, "no-yarn-correction-range-round-to-int");
        s->rope_scaling = factor;
        s->stretch.kind = unrounded ? ROPE_YARN_UNROUNDED : ROPE_YARN;
        s->stretch.learned =
            latent ? YARN_LEARNED
                   : argument_int(r->a, "yarn-original-max-position-embeddings", YARN_LEARNED);
        s->stretch.mscale = real_of(r, "mscale-all-dim", 0);
        if (real_of(r, "mscale", 1) != s->stretch.mscale && s->stretch.mscale > 0)
            remark(r, "--mscale is taken to be that of all dimensions");
    } else if (linear > 1 && !latent) {
        s->rope_scaling = linear;
        s->stretch.kind = ROPE_LINEAR;
    } else if (has(r, "use-rope-scaling") && !latent) {
        s->rope_scaling = real_of(r, "rope-scaling-factor", 8); /* Megatron-LM's default */
    }
}

/* validate_args: sequences are no longer than the table of positions. */
static weft_status check_positions(const struct shape_reading *r)
{
    const struct model_shape *s = r->s;
    if (!s->positions || s->positions >= s->seq)
        return WEFT_OK;
    return argument_error(r->a, "max-position-embeddings", NULL,
                          "--max-position-embeddings is %lld, expected at least --seq-length, %lld",
                          (long long)s->positions, (long long)s->seq);
}

static void read_positions(struct shape_reading *r)
{
    struct model_shape *s = r->s;
    const char *type = argument_word(r->a, "position-embedding-type", "learned_absolute");
    bool yarn = strcmp(type, "yarn") == 0;
    s->rotary = yarn || is_rotary(r);
    bool learned = !s->rotary && strcmp(type, "learned_absolute") == 0;
    int64_t rows = argument_int(r->a, "max-position-embeddings", s->seq);
    s->rope_base = s->rotary ? (double)argument_int(r->a, "rotary-base", ROPE_BASE) : 0;
    read_stretch(r, yarn);
    s->positions = learned || s->family == SHAPE_BERT ? rows : 0;
    if (s->family == SHAPE_GPT &&
        has(r, "multi-latent-attention")) { /* of its own, beside learned ones */
        s->rotary = true;
        s->rope_base = (double)argument_int(r->a, "rotary-base", ROPE_BASE);
    }
    if ((s->family == SHAPE_LLAMA || s->family == SHAPE_MOE) && !s->rotary) {
        remark(r, "positions: counted as rotary, as every model with RMSNorm here");
        s->rotary = true;
        s->rope_base = (double)argument_int(r->a, "rotary-base", ROPE_BASE);
        s->positions = 0;
    }
    double share = real_of(r, "rotary-percent", 1);
    if ((s->family == SHAPE_LLAMA || s->family == SHAPE_MOE) && share < 1)
        s->rotary_share = share;
}

static bool drops(const struct shape_reading *r, const char *name)
{
    return real_of(r, name, 0.1) > 0; /* Megatron's default */
}

static void read_blocks(struct shape_reading *r)
{
    struct model_shape *s = r->s;
    bool decoder = s->family == SHAPE_LLAMA || s->family == SHAPE_MOE;
    s->attention = attention_of(r);
    s->bias = !has(r, "disable-bias-linear");
    s->qkv_bias = has(r, "add-qkv-bias");
    s->qk_norm = has(r, "qk-layernorm");
    s->norm_epsilon = real_of(r, "norm-epsilon", NORM_EPSILON);
    s->apart = r->a->model && strstr(r->a->model, "apart");
    s->tied = !has(r, "untie-embeddings-and-output-weights");
    s->dropout = drops(r, "hidden-dropout");
    s->loss = s->family == SHAPE_BERT ? "plain" : loss_of(r);
    s->pooler = !has(r, "bert-no-binary-head");
    bool squared = has(r, "squared-relu");
    s->relu = !decoder && squared;
    s->clamped = has(r, "quick-geglu");
    if (decoder && !s->clamped && !has(r, "swiglu"))
        s->ungated = squared ? "relu2" : "gelu";
    s->sinks = is(r, "softmax-type", "learnable");
    s->proj_bias = s->expert_bias = s->family == SHAPE_MOE && s->bias;
    if (s->family == SHAPE_LLAMA && s->bias)
        remark(r, "biases of linear layers but queries, keys and values are not counted");
    if (decoder && s->dropout)
        remark(r, "dropout is not counted: no model with RMSNorm here has it");
    if (s->family == SHAPE_BERT && has(r, "cross-entropy-loss-fusion"))
        remark(r, "--cross-entropy-loss-fusion is not counted: BERT has two losses");
    if (decoder) {
        s->qkv_bias |= s->bias;
        s->bias = s->dropout = false;
    }
}

/* Reads "127,0", the number of keys that a query sees before and after its own, and how often a layer sees all. */
static weft_status read_window(struct shape_reading *r)
{
    struct model_shape *s = r->s;
    const char *text = argument_word(r->a, "window-size", "");
    long long before = 0, after = 0;
    if (!has(r, "window-size"))
        return WEFT_OK;
    if (sscanf(text, "%lld,%lld", &before, &after) != 2 || before < 1 || after != 0)
        return argument_error(r->a, "window-size", NULL,
                              "--window-size is %s, expected a number of keys and 0: 127,0", text);
    s->window = before + 1;
    s->full_every = argument_int(r->a, "window-attn-skip-freq", 0);
    if (has(r, "window-attn-skip-freq") && s->full_every < 2)
        return argument_error(
            r->a, "window-attn-skip-freq", NULL,
            "--window-attn-skip-freq is %s, expected a whole number of at least 2",
            argument_word(r->a, "window-attn-skip-freq", ""));
    return WEFT_OK;
}

/* Of several kinds of loss the first counts. */
static int balance_of(const struct shape_reading *r)
{
    static const struct {
        const char *theirs;
        enum balance_loss ours;
    } KINDS[] = {{"aux_loss", BALANCE_BATCH},
                 {"global_aux_loss", BALANCE_BATCH},
                 {"seq_aux_loss", BALANCE_SEQUENCE}};
    const char *type = argument_word(r->a, "moe-router-load-balancing-type", "aux_loss");
    size_t len = strcspn(type, " ");
    for (size_t i = 0; i < COUNT_OF(KINDS); i++)
        if (strlen(KINDS[i].theirs) == len && strncmp(KINDS[i].theirs, type, len) == 0)
            return KINDS[i].ours;
    return BALANCE_NONE;
}

static void read_routing(struct shape_reading *r)
{
    bool first = has(r, "moe-router-pre-softmax");
    r->s->routing =
        (struct routing){.scores = is(r, "moe-router-score-function", "sigmoid") ? ROUTER_SIGMOID
                                   : first ? ROUTER_SOFTMAX_OF_ALL
                                           : ROUTER_SOFTMAX,
                         .balance = balance_of(r),
                         .balance_weight = real_of(r, "moe-aux-loss-coeff", 0),
                         .balance_bias = has(r, "moe-router-enable-expert-bias"),
                         .groups = argument_int(r->a, "moe-router-num-groups", 0),
                         .group_top_k = argument_int(r->a, "moe-router-group-topk", 0),
                         .scale = real_of(r, "moe-router-topk-scaling-factor", 1)};
}

static void read_latent(struct shape_reading *r)
{
    struct model_shape *s = r->s;
    if (!has(r, "multi-latent-attention"))
        return;
    s->q_lora = argument_int(r->a, "q-lora-rank", 0);
    s->kv_lora = argument_int(r->a, "kv-lora-rank", 32);
    s->nope_dim = argument_int(r->a, "qk-head-dim", 128);
    s->rope_dim = argument_int(r->a, "qk-pos-emb-head-dim", 64);
    s->value_dim = argument_int(r->a, "v-head-dim", 128);
    s->head_dim = 0;
    s->bare_latent = !has(r, "qk-layernorm");
    s->qk_norm = false; /* latent attention has its own norms */
}

static weft_status read_experts(struct shape_reading *r)
{
    struct model_shape *s = r->s;
    bool pattern = s->family == SHAPE_HYBRID;
    if (s->family != SHAPE_MOE && s->family != SHAPE_GPT && !pattern)
        return WEFT_OK;
    s->experts = argument_int(r->a, "num-experts", 0);
    s->top_k = argument_int(r->a, "moe-router-topk", 2);
    s->expert_ffn = argument_int(r->a, "moe-ffn-hidden-size", s->ffn);
    s->shared_ffn = argument_int(r->a, "moe-shared-expert-intermediate-size", 0);
    s->shared_gate = s->family == SHAPE_MOE && s->shared_ffn && has(r, "moe-shared-expert-gate");
    bool flex = strcmp(argument_word(r->a, "moe-token-dispatcher-type", "allgather"), "flex") == 0;
    bool by_devices = r->a->model && strstr(r->a->model, " dispatch=devices");
    s->copies = flex ? COPIES_NODES : by_devices ? COPIES_DEVICES : COPIES_EXPERTS;
    if (!s->experts)
        return WEFT_OK;
    s->capacity = s->family == SHAPE_MOE ? real_of(r, "moe-expert-capacity-factor", 0) : 0;
    read_routing(r);
    if (pattern)
        return WEFT_OK; /* which says what layers have experts */
    weft_status status = frequency_read(r->keep, r->a, s);
    if (!status && s->family == SHAPE_GPT && (s->first_dense || s->moe_every > 1))
        status = argument_error(r->a, "moe-layer-freq", NULL,
                                "layers without experts beside others, with LayerNorm: no model of "
                                "Weft has them");
    return status;
}

weft_status shape_of_arguments(struct arena *keep, const struct arguments *arguments,
                               struct model_shape *out, struct texts *notes)
{
    struct shape_reading r = {keep, arguments, out, notes};
    weft_status status;
    *out = (struct model_shape){.moe_every = 1};
    TRY(read_family(&r));
    TRY(read_sizes(&r));
    TRY(read_vocabulary(&r));
    read_positions(&r);
    TRY(check_positions(&r));
    read_blocks(&r);
    read_latent(&r);
    out->mtp = argument_int(arguments, "mtp-num-layers", out->mtp);
    TRY(read_experts(&r));
    read_data(&r);
    if (out->family == SHAPE_HYBRID)
        TRY(pattern_blocks_read(arguments, out));
    TRY(read_window(&r));
    if (out->family == SHAPE_LLAMA || out->family == SHAPE_MOE)
        TRY(attention_read(keep, arguments, out));
    if (images_given(arguments))
        TRY(images_read(keep, arguments, out, notes));
done:
    return status;
}
