/* export_megatron_model.c - a model, and the run that trains it, as arguments of Megatron-LM. */
#include <string.h>

#include "exchange/export_megatron.h"

void add_flag(struct lines *a, const char *name)
{
    const char *line = arena_printf(a->keep, "--%s", name);
    array_push(a->keep, &a->lines, line);
}

void add_word(struct lines *a, const char *name, const char *value)
{
    bool plain = value[strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                     "0123456789._-")] == '\0';
    const char *line = arena_printf(a->keep, plain ? "--%s %s" : "--%s '%s'", name, value);
    array_push(a->keep, &a->lines, line);
}

void add_int(struct lines *a, const char *name, int64_t value)
{
    add_word(a, name, arena_printf(a->keep, "%lld", (long long)value));
}

static void add_real(struct lines *a, const char *name, double value)
{
    add_word(a, name, arena_printf(a->keep, "%.12g", value));
}

void add_above_one(struct lines *a, const char *name, int64_t value)
{
    if (value > 1)
        add_int(a, name, value);
}

/* ---- the model ------------------------------------------------------------------------------- */

/* "4", or "([0]*3+[1])*9+[0]*2" where that does not divide the layers: 1 is a layer without rotary positions. */
static const char *unrotated_layers(struct arena *keep, const struct model_shape *s)
{
    long long every = s->full_every, rest = s->layers % every;
    return rest ? arena_printf(keep, "([0]*%lld+[1])*%lld+[0]*%lld", every - 1,
                               (long long)s->layers / every, rest)
                : arena_printf(keep, "%lld", every);
}

static void add_attention(struct lines *a, const struct model_shape *s)
{
    bool flash = strncmp(s->attention, "flash", 5) == 0;
    if (s->family != SHAPE_GPT && s->family != SHAPE_BERT && !s->kv_lora) {
        if (s->kv_heads != s->heads) {
            add_flag(a, "group-query-attention");
            add_int(a, "num-query-groups", s->kv_heads);
        }
        if (s->heads && s->head_dim * s->heads != s->hidden)
            add_int(a, "kv-channels", s->head_dim);
    }
    /* Transformer Engine then takes flash attention on Ampere, cuDNN's kernel from Hopper on and wherever there are
     * sinks, which flash attention has not (attention/dot_product_attention/utils.py, get_attention_backend). */
    add_word(a, "attention-backend", flash ? "auto" : "unfused");
    bool local = strcmp(s->attention, "local") == 0;
    if (local || strcmp(s->attention, "eager") == 0)
        add_flag(a, "no-masked-softmax-fusion");
    if (local)
        add_word(a, "transformer-impl", "local");
    if (s->qk_norm && !s->kv_lora)
        add_flag(a, "qk-layernorm");
    if (s->window) { /* how many keys before and after a query's own */
        add_word(a, "window-size", arena_printf(a->keep, "%lld,0", (long long)s->window - 1));
        if (s->full_every)
            add_int(a, "window-attn-skip-freq", s->full_every);
    }
    if (s->unrotated)
        add_word(a, "no-rope-freq", unrotated_layers(a->keep, s));
    if (s->output_gate)
        add_flag(a, "attention-output-gate");
    if (s->sinks)
        add_word(a, "softmax-type", "learnable");
}

static void add_delta(struct lines *a, const struct model_shape *s)
{
    if (!s->delta_heads)
        return;
    add_word(a, "experimental-attention-variant", "gated_delta_net");
    add_int(a, "linear-attention-freq", s->full_every);
    add_int(a, "linear-conv-kernel-dim", s->conv);
    add_int(a, "linear-key-head-dim", s->delta_key_dim);
    add_int(a, "linear-value-head-dim", s->delta_dim);
    add_int(a, "linear-num-key-heads", s->delta_key_heads);
    add_int(a, "linear-num-value-heads", s->delta_heads);
}

/* Without a kernel of cuDNN or TileLang the scores of all keys would be computed and most of them thrown away; the weight
 * of the index's own loss is that of Megatron-LM's test of it (gpt3_mcore_te_tp2_pp2_dsa). */
static void add_index(struct lines *a, const struct model_shape *s)
{
    if (!s->index_top_k)
        return;
    add_word(a, "experimental-attention-variant", "dsa");
    add_int(a, "dsa-indexer-n-heads", s->index_heads);
    add_int(a, "dsa-indexer-head-dim", s->index_dim);
    add_int(a, "dsa-indexer-topk", s->index_top_k);
    add_word(a, "dsa-indexer-loss-coeff", "0.01");
    array_push(a->keep, &a->lines, "# the next needs flash_mla and nvidia-cudnn-frontend[cutedsl]");
    add_word(a, "dsa-kernel-backend", "cudnn");
    add_flag(a, "no-rope-fusion");
}

static void add_latent(struct lines *a, const struct model_shape *s)
{
    if (!s->kv_lora)
        return;
    add_flag(a, "multi-latent-attention");
    if (s->q_lora)
        add_int(a, "q-lora-rank", s->q_lora);
    add_int(a, "kv-lora-rank", s->kv_lora);
    add_int(a, "qk-head-dim", s->nope_dim);
    add_int(a, "qk-pos-emb-head-dim", s->rope_dim);
    add_int(a, "v-head-dim", s->value_dim);
    if (!s->bare_latent)
        add_flag(a, "qk-layernorm"); /* of the latents, which there is none of without it */
}

/* Latent attention has yarn of the factor 1 unless it is told otherwise (core/transformer/multi_latent_attention.py). */
static void add_stretch(struct lines *a, const struct model_shape *s)
{
    if (shape_has_linear(s)) {
        add_real(a, "rotary-seq-len-interpolation-factor", s->rope_scaling);
    } else if (shape_has_yarn(s)) {
        add_real(a, "rotary-scaling-factor", s->rope_scaling);
        if (!s->kv_lora)
            add_int(a, "yarn-original-max-position-embeddings", s->stretch.learned);
        if (s->stretch.kind == ROPE_YARN_UNROUNDED)
            add_flag(a, "no-yarn-correction-range-round-to-int");
        if (s->stretch.mscale > 0) {
            add_real(a, "mscale", s->stretch.mscale);
            add_real(a, "mscale-all-dim", s->stretch.mscale);
        }
    } else if (s->rope_scaling > 0) {
        add_flag(a, "use-rope-scaling");
        if (s->rope_scaling != MEGATRON_ROPE_SCALING)
            array_push(a->keep, &a->lines,
                       arena_printf(a->keep,
                                    "# Megatron-LM leaves out the next and stretches by %d",
                                    MEGATRON_ROPE_SCALING));
        add_real(a, "rope-scaling-factor", s->rope_scaling);
    }
}

/* The encoder's configuration is the decoder's but for its layers; --seq-length becomes that of images. */
static void add_images(struct lines *a, const struct model_shape *s)
{
    const struct tower_shape *v = &s->images;
    int64_t side = v->layers ? v->image / v->patch : 0;
    if (!v->layers)
        return;
    add_int(a, "img-h", v->image);
    add_int(a, "img-w", v->image);
    add_int(a, "patch-dim", v->patch);
    add_flag(a, "disable-vision-class-token"); /* no text is told of it */
    add_int(a, "dataloader-seq-length", s->seq - side * side);
    add_int(a, "decoder-seq-length", s->seq);
    if (v->text_frozen)
        add_flag(a, "freeze-LM");
    if (v->frozen)
        add_flag(a, "freeze-ViT");
    add_word(a, "ckpt-format", "torch");
}

static void add_positions(struct lines *a, const struct model_shape *s)
{
    int64_t rows = s->positions ? s->positions : s->seq;
    add_int(a, "seq-length", s->seq);
    add_int(a, "max-position-embeddings", rows > s->seq ? rows : s->seq);
    if (s->rotary) {
        if (!s->positions) /* latent attention has rotary positions beside learned ones */
            add_word(a, "position-embedding-type",
                     shape_has_yarn(s) && !s->kv_lora ? "yarn" : "rope");
        add_real(a, "rotary-base", s->rope_base);
        if (s->rotary_share > 0)
            add_real(a, "rotary-percent", s->rotary_share);
        add_stretch(a, s);
    } else if (!s->positions)
        add_word(a, "position-embedding-type", "none");
}

/* "[0]*3+[1]*58": 1 is a layer with experts. */
static const char *frequency(struct arena *keep, const struct model_shape *s)
{
    const bool *mixture = shape_mixtures(keep, s);
    const char *text = "";
    for (int64_t i = 0, run; i < s->layers; i += run) {
        for (run = 1; i + run < s->layers && mixture[i + run] == mixture[i];)
            run++;
        text =
            arena_printf(keep, "%s%s[%d]*%lld", text, *text ? "+" : "", mixture[i], (long long)run);
    }
    return arena_printf(keep, "(%s)", text);
}

/* Scores are shared out in fp32, as every public recipe of many experts has it. */
static void add_router(struct lines *a, const struct routing *r)
{
    static const char *const LOSSES[] = {
        [BALANCE_BATCH] = "aux_loss", [BALANCE_SEQUENCE] = "seq_aux_loss", [BALANCE_NONE] = "none"};
    add_word(a, "moe-router-score-function", r->scores == ROUTER_SIGMOID ? "sigmoid" : "softmax");
    if (r->scores == ROUTER_SOFTMAX_OF_ALL)
        add_flag(a, "moe-router-pre-softmax");
    if (r->groups > 0) {
        add_int(a, "moe-router-num-groups", r->groups);
        add_int(a, "moe-router-group-topk", r->group_top_k);
    }
    if (r->scale != 1)
        add_real(a, "moe-router-topk-scaling-factor", r->scale);
    if (r->balance_bias)
        add_flag(a, "moe-router-enable-expert-bias");
    add_word(a, "moe-router-load-balancing-type", LOSSES[r->balance]);
    add_real(a, "moe-aux-loss-coeff", r->balance_weight);
    add_word(a, "moe-router-dtype", "fp32");
}

static void add_experts(struct lines *a, const struct model_shape *s)
{
    if (!s->experts)
        return;
    add_int(a, "num-experts", s->experts);
    add_int(a, "moe-router-topk", s->top_k);
    add_router(a, &s->routing);
    add_int(a, "moe-ffn-hidden-size", s->expert_ffn);
    if (s->shared_ffn)
        add_int(a, "moe-shared-expert-intermediate-size", s->shared_ffn);
    if (s->shared_gate)
        add_flag(a, "moe-shared-expert-gate");
    if (s->capacity > 0) {
        add_real(a, "moe-expert-capacity-factor", s->capacity);
        add_flag(a, "moe-pad-expert-input-to-capacity");
    }
    if (s->first_dense || s->moe_every > 1)
        add_word(a, "moe-layer-freq", frequency(a->keep, s));
    add_word(a, "moe-token-dispatcher-type", s->copies == COPIES_NODES ? "flex" : "alltoall");
    if (s->copies == COPIES_NODES)
        add_flag(a, "moe-enable-deepep");
}

/* The specification of its layers has no default (hybrid_builders.py); a depth is run again for each further token. */
static void add_pattern(struct lines *a, const struct model_shape *s)
{
    if (s->family != SHAPE_HYBRID)
        return;
    add_flag(a, "is-hybrid-model");
    add_flag(a, "spec megatron.core.models.hybrid.hybrid_layer_specs hybrid_stack_spec");
    if (s->scan_heads) {
        add_int(a, "mamba-num-heads", s->scan_heads);
        add_int(a, "mamba-head-dim", s->scan_depth);
        add_int(a, "mamba-num-groups", s->scan_groups);
        add_int(a, "mamba-state-dim", s->scan_state);
    }
    if (s->latent)
        add_int(a, "moe-latent-size", s->latent);
    if (s->mtp)
        add_flag(a, "mtp-use-repeated-layer");
    if (s->relu)
        add_flag(a, "squared-relu");
}

static void add_blocks(struct lines *a, const struct model_shape *s)
{
    bool decoder = s->family == SHAPE_LLAMA || s->family == SHAPE_MOE;
    bool pattern = s->family == SHAPE_HYBRID;
    if ((decoder || pattern) && !s->layer_norm)
        add_word(a, "normalization", "RMSNorm");
    if (s->norm_epsilon != NORM_EPSILON)
        add_real(a, "norm-epsilon", s->norm_epsilon);
    if (s->clamped) {
        add_flag(a, "quick-geglu");
        add_word(a, "activation-func-clamp-value", "7.0");
        add_word(a, "glu-linear-offset", "1.0");
    } else if (s->ungated ? strcmp(s->ungated, "relu2") == 0 : decoder || s->gated) {
        add_flag(a, s->ungated ? "squared-relu" : "swiglu");
    }
    if (!s->bias && !s->expert_bias)
        add_flag(a, "disable-bias-linear");
    if (decoder && s->qkv_bias && !s->expert_bias)
        add_flag(a, "add-qkv-bias");
    if (!s->tied && s->family != SHAPE_BERT)
        add_flag(a, "untie-embeddings-and-output-weights");
    add_word(a, "attention-dropout", s->dropout ? "0.1" : "0.0");
    add_word(a, "hidden-dropout", s->dropout ? "0.1" : "0.0");
    if (strcmp(s->loss, "plain") != 0)
        add_flag(a, "cross-entropy-loss-fusion");
    if (s->family == SHAPE_BERT) {
        add_word(a, "tokenizer-type", "BertWordPieceLowerCase");
        if (!s->pooler)
            add_flag(a, "bert-no-binary-head");
    }
}

void add_model(struct lines *a, const struct model_shape *s, int64_t tp)
{
    if (s->images.layers) {
        add_int(a, "encoder-num-layers", s->images.layers);
        add_int(a, "decoder-num-layers", s->layers);
    } else {
        add_int(a, "num-layers", s->layers);
    }
    add_int(a, "hidden-size", s->hidden);
    int64_t ffn = s->ffn ? s->ffn : s->expert_ffn;
    add_int(a, "ffn-hidden-size", ffn ? ffn : 4 * s->hidden);
    add_int(a, "num-attention-heads", s->heads ? s->heads : 1); /* demanded of all models */
    add_attention(a, s);
    add_latent(a, s);
    add_delta(a, s);
    add_index(a, s);
    add_images(a, s);
    add_positions(a, s);
    add_blocks(a, s);
    add_pattern(a, s);
    add_experts(a, s);
    if (s->mtp)
        add_int(a, "mtp-num-layers", s->mtp);
    add_int(a, "vocab-size", s->vocab);
    add_int(a, "padded-vocab-size", ceil_div(s->vocab, tp) * tp);
}

/* ---- the run --------------------------------------------------------------------------------- */

/* Megatron-LM divides by the interval of evaluation, which has no default; its throughput comes with every step. The
 * optimizer's numbers are those of GPT-3 (Brown et al., appendix B) with a learning rate that suits most sizes. */
void add_training(struct lines *a)
{
    add_word(a, "lr", "1.0e-4");
    add_word(a, "min-lr", "1.0e-5");
    add_word(a, "lr-decay-style", "cosine");
    add_word(a, "weight-decay", "0.1");
    add_word(a, "adam-beta2", "0.95");
    add_int(a, "eval-interval", 1000);
    add_int(a, "eval-iters", 10);
    add_int(a, "log-interval", 1);
    add_flag(a, "log-throughput");
}
