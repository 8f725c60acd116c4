/* published_practice.c - what each dataset's framework does that its columns do not say: the model's
 * implementation, bytes per parameter, what overlaps.
 *
 *   I1  Facts hold for a whole dataset, or follow from how a row ran (its degrees, its launch
 *       arguments); each names its source. data/validation/README.md has them for people.
 */
#include "lab/published_read.h"

#include <jansson.h>
#include <string.h>

/* ---- models ---------------------------------------------------------------------------------- */

static const char *option(struct arena *keep, const char *before, const char *key, int64_t value)
{
    if (!value)
        return before;
    return arena_printf(keep, "%s%s%s: %lld", before, *before ? ", " : "", key, (long long)value);
}

/* Megatron-LM's --make-vocab-size-divisible-by; the others' vocabularies are such multiples. */
enum { VOCAB_MULTIPLE = 128 };

/* A family's preset with every size of the row in place of its own. */
static void set_model(struct arena *keep, const struct run *run, struct published *row,
                      const char *preset, const char *more)
{
    const char *text = option(keep, "", "layers", run->layers);
    text = option(keep, text, "hidden", run->hidden);
    text = option(keep, text, "heads", run->heads);
    text = option(keep, text, "ffn", run->ffn);
    text = option(keep, text, "seq", run->seq);
    text = option(keep, text, "vocab", ceil_div(run->vocab, VOCAB_MULTIPLE) * VOCAB_MULTIPLE);
    if (!run->layers || !run->hidden || !run->heads || !run->seq)
        refuse(keep, row, "layers or sizes not published: %s", run->model);
    row->model = preset;
    row->options = *more ? arena_printf(keep, "%s, %s", text, more) : text;
}

static void set_gpt(struct arena *keep, const struct run *run, struct published *row,
                    const char *more)
{
    set_model(keep, run, row, "gpt2", more);
}

static void set_llama(struct arena *keep, const struct run *run, struct published *row,
                      const char *more)
{
    const char *kv = option(keep, "", "kv_heads", run->kv_heads ? run->kv_heads : run->heads);
    set_model(keep, run, row, "llama3-8b", arena_printf(keep, "%s%s", kv, more));
}

/* ---- Megatron-LM ----------------------------------------------------------------------------- */

/* Attention with a fused scale-mask-softmax kernel, dropout 0.1 (examples/sc21/CONFIG.sh). */
static const char MEGATRON_GPT[] = "attention: fused";

/* SC'21 ran v2.5: fp16 gradients in one contiguous buffer, all-reduced after the last backward
 * (--DDP-impl local), sends that block, no tensor all-reduce beside a weight gradient. Cases without
 * a pipeline used torch's DDP (run_table_1.sh): buckets beside the backward pass. */
void practice_sc21(struct arena *keep, const struct run *run, struct published *row)
{
    bool torch_ddp = run->pp == 1;
    set_gpt(keep, run, row, MEGATRON_GPT);
    set_policy(&row->degrees, POLICY_MIXED);
    set_overlap(&row->degrees, torch_ddp ? OVERLAP_GRADIENTS : 0,
                torch_ddp ? DEFAULT_BUCKET_BYTES : 0);
}

/* Korthikanti et al., section 4.2: the all-gather and reduce-scatter of sequence parallelism (and
 * the all-reduce without it) run beside the weight gradient. */
void practice_seqsel(struct arena *keep, const struct run *run, struct published *row)
{
    set_gpt(keep, run, row, MEGATRON_GPT);
    set_policy(&row->degrees, POLICY_MIXED);
    set_overlap(&row->degrees, OVERLAP_TENSOR, 0);
}

/* Megatron-Core's buckets: 40 M parameters (DistributedDataParallelConfig), fp32 gradients. */
enum { MEGATRON_BUCKET_BYTES = 40000000 * 4 };

/* README of r0.8.0: --overlap-grad-reduce, --overlap-param-gather, --tp-comm-overlap, pipeline
 * overlap, distributed optimizer, flash attention; ffn is 4 times hidden. */
void practice_core_h100(struct arena *keep, const struct run *run, struct published *row)
{
    set_gpt(keep, run, row, "attention: flash, dropout: 0, tied: false");
    set_policy(&row->degrees, POLICY_DISTRIBUTED);
    set_overlap(&row->degrees, OVERLAP_ALL | OVERLAP_PRODUCTS, MEGATRON_BUCKET_BYTES);
    row->open = OPEN_MICRO_BATCH | OPEN_PIECES;
}

/* ---- vTrain ---------------------------------------------------------------------------------- */

/* Megatron-DeepSpeed: plain attention, DeepSpeed's fp16 optimizer without ZeRO, gradients reduced
 * after the last backward, sends that block (PipelineEngine's instructions are serial). */
void practice_vtrain(struct arena *keep, const struct run *run, struct published *row)
{
    set_gpt(keep, run, row, MEGATRON_GPT);
    set_policy(&row->degrees, POLICY_MIXED);
    set_overlap(&row->degrees, 0, 0);
}

/* ---- SimuMax --------------------------------------------------------------------------------- */

/* Public configurations cut to a few layers; of DeepSeek-V3 one is dense (dense_layers=1). */
static const struct {
    const char *model, *preset, *more;
} SIMUMAX_MODELS[] = {
    {"deepseekv2", "deepseek-v2", ""},
    {"deepseekv3", "deepseek-v3", ", first_dense: 1"},
};

/* All cases are named "cef": --cross-entropy-loss-fusion. */
static const char FUSED_LOSS[] = "loss: fused";

/* Megatron-LM with Transformer Engine: flash attention, bf16, distributed optimizer with fp32
 * gradients; overlap is off (the table's own column). */
void practice_simumax(struct arena *keep, const struct run *run, struct published *row)
{
    set_policy(&row->degrees, POLICY_DISTRIBUTED);
    set_overlap(&row->degrees, 0, 0);
    for (size_t i = 0; i < COUNT_OF(SIMUMAX_MODELS); i++) {
        if (strcmp(run->model, SIMUMAX_MODELS[i].model) != 0)
            continue;
        row->model = SIMUMAX_MODELS[i].preset;
        row->options = arena_printf(keep, "layers: %lld, seq: %lld%s, %s", (long long)run->layers,
                                    (long long)run->seq, SIMUMAX_MODELS[i].more, FUSED_LOSS);
        return;
    }
    set_llama(keep, run, row, arena_printf(keep, ", %s", FUSED_LOSS));
}

/* ---- FSDP ------------------------------------------------------------------------------------ */

/* Loss functions were compiled with their model but from 19 December 2024 (pull request 755) to the
 * April after it (1033), and the benchmarks of that December ran the commit of the 26th. */
static const char *torchtitan_loss(const struct run *run)
{
    return strstr(run->source, "_202412_") ? "eager" : "compiled";
}

/* PyTorch's attention of 2024 is FlashAttention-2. FSDP2 reduces gradients in fp32 (torchtitan's
 * mixed_precision_reduce), prefetches the next unit's weights, and takes the gradients of one layer
 * at a time. "async TP" overlaps tensor exchanges with
 * the products around them. Replicas and the parts of a sequence share one mesh
 * of shards (dp_shard_cp), so that with context parallelism one replica shards too. In a
 * pipeline weights stay whole from one micro-batch to the next (reshard_after_forward), and gradients until
 * the last (PyTorch's stage.py, backward_maybe_with_nosync). The default of
 * pipeline_parallel_microbatches is the number of stages. What it prints as memory is max_reserved
 * (metrics.py). */
void practice_torchtitan(struct arena *keep, const struct run *run, struct published *row)
{
    bool async = strstr(run->overlap, "async TP") != NULL;
    set_llama(
        keep, run, row,
        arena_printf(keep, ", apart: true, attention: flash-v2, loss: %s", torchtitan_loss(run)));
    row->memory_reserved = true;
    if (run->cp > 1)
        row->degrees.shard = 3;
    if (run->pp > 1)
        row->degrees.shard = 1;
    if (!run->micro_batch && run->pp > 1 && run->dp && run->global_batch) {
        row->degrees.micro_batch = run->global_batch / run->dp / run->pp;
        assume(keep, row, "as many micro-batches as stages, the default");
    }
    if (!run->pieces)
        row->open |= OPEN_PIECES;
    set_policy(&row->degrees, POLICY_FSDP);
    set_overlap(&row->degrees,
                async ? OVERLAP_ALL | OVERLAP_PRODUCTS : OVERLAP_ALL & ~(unsigned)OVERLAP_TENSOR,
                DEFAULT_BUCKET_BYTES);
}

/* Presets, some with fewer layers, run by the script that `weft export --to fsdp` writes. */
void practice_weft_h200(struct arena *keep, const struct run *run, struct published *row)
{
    row->model = run->model;
    row->options = arena_printf(keep, "layers: %lld, seq: %lld, attention: flash, loss: compiled",
                                (long long)run->layers, (long long)run->seq);
    set_policy(&row->degrees, POLICY_FSDP);
    set_overlap(&row->degrees, OVERLAP_ALL, DEFAULT_BUCKET_BYTES);
}

/* MPT: no biases, no dropout, tied head, attention by the Triton port of FlashAttention's first
 * version (attn_impl: triton); FSDP's mixed_precision PURE
 * reduces in bf16 (scripts/train/yamls). */
void practice_llm_foundry(struct arena *keep, const struct run *run, struct published *row)
{
    set_gpt(keep, run, row, "attention: flash-v1, bias: false, dropout: 0");
    set_policy(&row->degrees, POLICY_MIXED);
    set_overlap(&row->degrees, OVERLAP_ALL, DEFAULT_BUCKET_BYTES);
}

/* ---- Megatron-Bridge ------------------------------------------------------------------------- */

static const struct {
    const char *model, *preset, *why_not;
} BRIDGE_MODELS[] = {
    {"DeepSeekV3", "deepseek-v3", NULL},
    {"Qwen3_30B_a3B", "qwen3-30b-a3b", NULL},
    {"Qwen3_235B_a22B", "qwen3-235b-a22b", NULL},
    {"GPT OSS 120B", "gpt-oss-120b", NULL},
    {"Nemotron_3_Nano", "nemotron-3-nano", NULL},
    {"Nemotron_3_5_Lightning", "nemotron-3.5-lightning", NULL},
    {"Nemotron_3_Super", "nemotron-3-super", NULL},
    {"Nemotron_3_Ultra", "nemotron-3-ultra", NULL},
};

static void set_bridge_model(struct arena *keep, const struct run *run, struct published *row)
{
    for (size_t i = 0; i < COUNT_OF(BRIDGE_MODELS); i++) {
        size_t len = strlen(BRIDGE_MODELS[i].model);
        if (strncmp(run->model, BRIDGE_MODELS[i].model, len) != 0)
            continue;
        if (BRIDGE_MODELS[i].why_not)
            refuse(keep, row, "no model of Weft has %s: %s", BRIDGE_MODELS[i].why_not, run->model);
        row->model = BRIDGE_MODELS[i].preset;
        row->options = arena_printf(keep, "seq: %lld, tokens_once: true", (long long)run->seq);
        return;
    }
    refuse(keep, row, "sizes not published: %s", run->model);
}

/* Recipes of scripts/performance/configs: distributed optimizer, gradient and parameter overlap on, no
 * recomputation but of DeepSeek's mla_up_proj on GB200 and Nemotron 3 Ultra's activations of experts
 * (recompute_modules), which are left out; sequence parallelism wherever there is tensor parallelism. Those of
 * DeepSeek-V3 in MXFP8 overlap the all-to-alls of experts (moe_a2a_overlap), the others do not. All of
 * them dispatch by HybridEP (moe_flex_dispatcher_backend), which sends a token to a device once. */
void practice_bridge(struct arena *keep, const struct run *run, struct published *row)
{
    row->name = arena_printf(keep, "%s %s x%lld %s", run->model, run->gpu, (long long)run->devices,
                             run->precision);
    set_bridge_model(keep, run, row);
    row->degrees.sequence = run->tp > 1;
    set_policy(&row->degrees, POLICY_DISTRIBUTED);
    bool hides = strncmp(run->model, "DeepSeekV3", strlen("DeepSeekV3")) == 0;
    set_overlap(&row->degrees, OVERLAP_ALL | (hides ? OVERLAP_EXPERTS : 0), MEGATRON_BUCKET_BYTES);
    assume(keep, row, "no recomputation");
}

/* ---- Megatron's regression runs -------------------------------------------------------------- */

/* The launch arguments that the columns lack stand as a JSON object at the end of the notes. */
static json_t *launch_arguments(const struct run *run)
{
    const char *object = strchr(run->notes, '{');
    return object ? json_loads(object, 0, NULL) : NULL;
}

static bool has_word(const json_t *arguments, const char *key, const char *word)
{
    const char *text = json_string_value(json_object_get(arguments, key));
    return text && strcmp(text, word) == 0;
}

/* Transformer Engine picks flash attention where nothing forbids it; its unfused attention and the
 * local one keep the score matrix's softmax (TransformerConfig.attention_backend). "lts" runs on
 * "dracooci" that ask for determinism have within 0.1 MB the memory of the same test with
 * --attention-backend unfused, others and those on later containers have not: flash attention's
 * deterministic backward pass came with 2.4.1. */
static const char *golden_attention(const struct run *run, const json_t *arguments)
{
    const char *platform = strchr(run->name, '@');
    bool old = platform && strncmp(platform, "@lts", 4) == 0 && strstr(platform, "dracooci") &&
               json_is_true(json_object_get(arguments, "deterministic-mode"));
    bool plain = old || has_word(arguments, "transformer-impl", "local") ||
                 has_word(arguments, "attention-backend", "unfused") ||
                 has_word(arguments, "attention-backend", "local") ||
                 has_word(arguments, "spec", "local");
    return plain ? "fused" : "flash";
}

/* What a model of these arguments has that no family has. */
static void refuse_golden(struct arena *keep, const struct run *run, const json_t *arguments,
                          struct published *row)
{
    static const struct {
        const char *argument, *reason;
    } MISSING[] = {
        {"multi-latent-attention", "latent attention without experts"},
        {"swiglu", "LayerNorm with a gated MLP"},
    };
    static const struct {
        const char *part, *reason;
        bool experts; /* only where there are some */
    } CASES[] = {
        {"uneven_pipeline", "cuts of uneven stages not published"},
        {"multi_dist_optimizer_instances", "state sharded over part of the replicas"},
        {"defer_embedding_wgrad", "deferred gradients of the head's weight"},
        {"_etp", "experts split over fewer devices than the rest", true},
        {"muon", "state of another optimizer than Adam"},
    };
    for (size_t i = 0; i < COUNT_OF(MISSING); i++)
        if (json_object_get(arguments, MISSING[i].argument))
            refuse(keep, row, "%s", MISSING[i].reason);
    for (size_t i = 0; i < COUNT_OF(CASES); i++)
        if (strstr(run->name, CASES[i].part) && (run->experts || !CASES[i].experts))
            refuse(keep, row, "%s", CASES[i].reason);
    bool hybrid = json_object_get(arguments, "hybrid-layer-pattern") != NULL;
    if (strcmp(run->model, "gpt") != 0 && strcmp(run->model, "moe") != 0 &&
        strcmp(run->model, "bert") != 0 && !hybrid)
        refuse(keep, row, "layers or sizes not published: %s", run->model);
}

/* Vocabularies of the files that the arguments name: GPT-2's and BERT's (uncased). */
enum { GPT2_VOCAB = 50257, BERT_VOCAB = 30522 };

/* A pattern of layers: Megatron's defaults of a MambaMixer (state 128, 8 groups, heads of 64, twice the
 * hidden size) and of everything else that the arguments leave out. "|" parts the pieces of stages. */
static void set_golden_hybrid(struct arena *keep, const struct run *run, const char *pattern,
                              const char *attention, struct published *row)
{
    char *letters = arena_copy_text(keep, pattern), *to = letters;
    int64_t pieces = 1;
    for (const char *at = pattern; *at; at++)
        if (*at == '|')
            pieces++;
        else
            *to++ = *at;
    *to = '\0';
    if (pieces > 1 && run->pp)
        row->degrees.pieces = pieces / run->pp;
    row->model = "nemotron-h-8b";
    row->options = arena_printf(
        keep,
        "pattern: %s, hidden: %lld, heads: %lld, kv_heads: %lld, head_dim: %lld, ffn: %lld, "
        "mamba_heads: %lld, seq: %lld, vocab: %lld, norm: layer, bias: true, dropout: 0.1, "
        "activation: gelu, positions: learned, tied: true, attention: %s",
        letters, (long long)run->hidden, (long long)run->heads, (long long)run->kv_heads,
        (long long)(run->hidden / run->heads), (long long)(4 * run->hidden),
        (long long)(2 * run->hidden / 64), (long long)run->seq,
        (long long)(ceil_div(GPT2_VOCAB, VOCAB_MULTIPLE) * VOCAB_MULTIPLE), attention);
}

/* Those tests' configurations all have --disable-bias-linear; --swiglu stands among the arguments
 * where experts have gates. */
static const char *golden_experts(struct arena *keep, const struct run *run,
                                  const json_t *arguments)
{
    static const struct {
        const char *argument, *option;
    } WIDTHS[] = {{"moe-ffn-hidden-size", "expert_ffn"},
                  {"moe-shared-expert-intermediate-size", "shared_ffn"}};
    if (!run->experts)
        return "";
    const char *text = arena_printf(keep, ", bias: false, experts: %lld, top_k: %lld",
                                    (long long)run->experts, (long long)run->top_k);
    for (size_t i = 0; i < COUNT_OF(WIDTHS); i++) {
        const json_t *width = json_object_get(arguments, WIDTHS[i].argument);
        if (width)
            text = arena_printf(keep, "%s, %s: %lld", text, WIDTHS[i].option,
                                (long long)json_integer_value(width));
    }
    return text;
}

static void set_golden_model(struct arena *keep, const struct run *run, const json_t *arguments,
                             struct published *row)
{
    struct run sized = *run;
    const char *attention = golden_attention(run, arguments);
    const char *pattern = json_string_value(json_object_get(arguments, "hybrid-layer-pattern"));
    if (pattern && run->hidden && run->heads) {
        set_golden_hybrid(keep, run, pattern, attention, row);
        return;
    }
    if (strcmp(run->model, "bert") == 0) {
        sized.vocab = run->vocab ? run->vocab : BERT_VOCAB;
        set_model(keep, &sized, row, "bert-large", arena_printf(keep, "attention: %s", attention));
        return;
    }
    sized.vocab = run->vocab ? run->vocab : GPT2_VOCAB;
    bool rotary = has_word(arguments, "position-embedding-type", "rope");
    bool untied = json_object_get(arguments, "untie-embeddings-and-output-weights") != NULL;
    set_gpt(keep, &sized, row,
            arena_printf(keep, "attention: %s, positions: %s, tied: %s%s", attention,
                         rotary ? "rotary" : "learned", untied ? "false" : "true",
                         golden_experts(keep, run, arguments)));
}

/* Flags of the overlap column. Beside them, the tensor all-reduce runs beside the weight gradient,
 * and interleaved schedules overlap their sends, unless switched off (arguments.py). */
static void set_golden_overlap(const struct run *run, struct published *row)
{
    unsigned overlap = OVERLAP_TENSOR;
    if (run->pieces > 1 || strstr(run->overlap, "overlap-p2p"))
        overlap |= OVERLAP_PIPELINE;
    if (strstr(run->overlap, "overlap-grad-reduce"))
        overlap |= OVERLAP_GRADIENTS;
    if (strstr(run->overlap, "overlap-param-gather"))
        overlap |= OVERLAP_PARAMETERS;
    if (strstr(run->overlap, "tp-comm-overlap"))
        overlap |= OVERLAP_PRODUCTS;
    if (strstr(run->overlap, "overlap-moe-expert-parallel-comm"))
        overlap |= OVERLAP_EXPERTS;
    set_overlap(&row->degrees, overlap, overlap & OVERLAP_GRADIENTS ? MEGATRON_BUCKET_BYTES : 0);
}

/* bf16 runs accumulate gradients in fp32, fp16 runs in fp16; the last rank writes the log, so its
 * memory is the last stage's (training.py). */
void practice_golden(struct arena *keep, const struct run *run, struct published *row)
{
    json_t *arguments = launch_arguments(run);
    bool bf16 = row->degrees.dtype == DTYPE_BF16;
    set_policy(&row->degrees, !bf16                     ? POLICY_MIXED
                              : row->degrees.shard == 1 ? POLICY_DISTRIBUTED
                                                        : POLICY_MIXED_FP32_GRADIENTS);
    if (json_object_get(arguments, "fp8-format"))
        set_dtype(&row->degrees, DTYPE_FP8);
    set_golden_overlap(run, row);
    refuse_golden(keep, run, arguments, row);
    set_golden_model(keep, run, arguments, row);
    row->memory_place = MEMORY_OF_LAST_STAGE;
    json_decref(arguments);
}
