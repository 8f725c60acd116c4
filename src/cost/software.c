/* software.c - the facts about frameworks, and the profiles that give them their words (software.h). */
#include "cost/software.h"

#include <string.h>

enum { MOST_WORDS = 6 };

/* ---- facts ----------------------------------------------------------------------------------- */

static const struct {
    const char *key, *meaning;
    const char *word[MOST_WORDS + 1];
} FACTS[] = {
    [FACT_FP8_RECIPE] =
        {"fp8_recipe",
         "how tensors are cast to fp8: one scale per tensor, found before the cast, and on devices "
         "with MXFP8 one per 32 elements (device); the scale of earlier steps (delayed); one per "
         "tensor with both layouts written at once (current); one per block (blocks)",
         {"device", "delayed", "current", "blocks"}},
    [FACT_WEIGHT_CASTS] = {"weight_casts",
                           "weights are cast to fp8 in each micro-batch, or once in an iteration",
                           {"each", "once"}},
    [FACT_FUSED_CASTS] =
        {"fused_casts",
         "casts of a product's input to fp8 are kernels of their own (none), or are done by the "
         "norm before it (norms), and by the activation, too (all)",
         {"none", "norms", "all"}},
    [FACT_ACCUMULATION] =
        {"accumulation",
         "the gradients of a product's weights are added to those of earlier micro-batches by a "
         "kernel of its own, or by the product itself",
         {"apart", "fused"}},
    [FACT_EXPERTS] =
        {"experts",
         "the host issues the products of a device's experts one by one, or as one kernel; or, as "
         "Transformer Engine without its fused kernels, one by one on several streams, with "
         "casts, biases and clamps of their tokens as kernels between them (streams)",
         {"calls", "fused", "streams"}},
    [FACT_HOST] = {"host",
                   "the host issues kernel after kernel, or CUDA graphs, which take it no time, or "
                   "kernel after kernel from compiled code (native)",
                   {"kernels", "graphs", "native"}},
    [FACT_BUCKETS] =
        {"buckets",
         "gradients synchronised at once, where no size is given: 25 MiB; Megatron-LM's "
         "max(40 M, 1 M x devices) parameters; DeepSpeed's 500 M parameters",
         {"fixed", "megatron", "deepspeed"}},
    [FACT_GATHERS] =
        {"gathers",
         "updated weights are gathered one bucket ahead of their first use (lazy), or all from the "
         "start of the iteration on: with several pieces per stage (pieces), or always (aligned)",
         {"lazy", "pieces", "aligned"}},
    [FACT_GRADIENTS] =
        {"gradients",
         "gradients keep their memory from one iteration to the next, or are freed after the "
         "optimizer's step and made again by the first backward pass",
         {"kept", "freed"}},
    [FACT_CHECKPOINTS] =
        {"checkpoints",
         "a recomputed layer runs again as a whole, or stops early, when everything is there that "
         "its backward pass reads: its last product is not run again",
         {"whole", "early"}},
    [FACT_OPTIMIZER_STEP] =
        {"optimizer_step",
         "one kernel for many tensors does the whole step (fused), or one for each "
         "operation on many "
         "tensors (foreach), or one for each operation and tensor (single)",
         {"fused", "foreach", "single"}},
    [FACT_SEQUENCES] =
        {"sequences",
         "a rank of cp has a piece from the front and one from the end of a sequence, so "
         "that all compute as much of causal attention, or it has consecutive "
         "positions, of which the last rank's see most keys",
         {"balanced", "consecutive"}},
    [FACT_INPUTS] =
        {"inputs",
         "the input of a product in fp8 or nvfp4 is kept for the backward pass and gathered from "
         "other devices in 16 bits (whole), or as it was cast (cast); the inputs of activations "
         "are "
         "kept so, too (all)",
         {"whole", "cast", "all"}},
    [FACT_ALLOCATOR] =
        {"allocator",
         "PyTorch's allocator takes segments of fixed sizes from the device, or segments that grow "
         "(PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True)",
         {"segments", "expandable"}},
    [FACT_ROOT] =
        {"root",
         "with sharded weights, those outside of layers (embedding, head) are gathered where "
         "they are used (apart), or at the start of a pass, to its end (whole)",
         {"apart", "whole"}},
    [FACT_SCORES] =
        {"scores",
         "a router's scores multiply the experts' outputs where these are combined, which are kept "
         "for it (combine), or what is inside the experts, after the activation (activation)",
         {"combine", "activation"}},
    [FACT_WEIGHTS] =
        {"weights",
         "weights of products in fp8 are held in 16 bits (whole), or only as they were cast, "
         "beside "
         "the optimizer's own copy (cast): in one byte where one scale serves a tensor and the "
         "device multiplies in any layout, else in two layouts of one byte; those of fp8 are "
         "gathered "
         "in one byte, and all others share the bucket of the first layer",
         {"whole", "cast"}},
    [FACT_WORKSPACE] =
        {"workspace",
         "what kernels take while they run, beside their operands, is not counted (none), or it is "
         "what Weft's own kernels take on a GPU (weft), what PyTorch gives cuBLAS (torch), and "
         "Transformer Engine, too (te), or both with CUBLAS_WORKSPACE_CONFIG=:4096:8 "
         "(torch-4096-8, "
         "te-4096-8)",
         {"none", "weft", "torch", "te", "torch-4096-8", "te-4096-8"}},
    [FACT_DISPATCH] =
        {"dispatch",
         "tokens are sent to each of their experts on other devices, once to each device that "
         "holds some of them, or once to each such node and inside it once to each device "
         "(nodes); a model's own dispatch that is not experts comes first",
         {"experts", "devices", "nodes"}},
    [FACT_TOKEN_SMS] =
        {"token_sms",
         "multiprocessors that the kernels which send tokens to experts take from computation "
         "beside them",
         {"none", "16", "20", "24"}},
    [FACT_HOST_STEP] =
        {"host_step",
         "where the host updates parameters, all their gradients come down first and all updated "
         "parameters go up last (apart), or tensor by tensor, so that both copies and the step "
         "overlap (tensors)",
         {"apart", "tensors"}},
    [FACT_GRAPH_POOLS] =
        {"graph_pools",
         "what layers keep for the backward pass is in memory that everything else takes, too, "
         "when it is free (shared), or in the pools of CUDA graphs, which nothing else takes "
         "(own)",
         {"shared", "own"}},
    [FACT_CLIPPING] =
        {"clipping",
         "gradients are taken as they are (none), or scaled by the norm of all of them, which is "
         "known before the first weight changes, so that a folded schedule leaves none to the "
         "next iteration (norm)",
         {"none", "norm"}},
    [FACT_ATTENTION] =
        {"attention",
         "in plans of fp8 or nvfp4, attention is computed in 16 bits (whole), or in fp8 from "
         "queries, keys and values that are cast before it, and keeps them and its output so "
         "(fp8); attention to chosen keys is not",
         {"whole", "fp8"}},
    [FACT_WAITS] =
        {"waits",
         "the host runs ahead of the device over whole micro-batches (none), or only to the next "
         "exchange within a stage, where the hosts of its devices meet, and it reads and "
         "broadcasts the samples of each micro-batch between its kernels (exchanges)",
         {"none", "exchanges"}},
    [FACT_GATES] = {"gates",
                    "gated activations are one kernel, which keeps gate and up (fused), or two, "
                    "and what was made of the gate is kept, too (apart)",
                    {"fused", "apart"}},
    [FACT_GATHERED] =
        {"gathered",
         "with sequence parallelism the inputs of products are kept in parts and gathered again in "
         "the backward pass (again), or kept as they were gathered (kept)",
         {"again", "kept"}},
    [FACT_LOGITS] =
        {"logits",
         "logits of 16 bits are freed when an eager loss has them in fp32 (freed), or stay until "
         "its backward pass, which holds one copy in fp32 more if the vocabulary is in parts "
         "(kept)",
         {"freed", "kept"}},
    [FACT_STAGES] =
        {"stages",
         "stages hold what they exchange as long as they need it (lean); or there is a buffer for "
         "what each micro-batch receives, outputs stay until its backward pass, and all it keeps "
         "until the pass for weights, where that is another (held)",
         {"lean", "held"}},
};
_Static_assert(COUNT_OF(FACTS) == SOFTWARE_FACTS, "a fact without a row");

/* ---- profiles -------------------------------------------------------------------------------- */

/* clang-format off */
/* Megatron-LM with Transformer Engine. Weights' casts: extensions/transformer_engine.py, is_first_microbatch; norms:
 * TELayerNormColumnParallelLinear, whose norm writes fp8 under delayed scaling; inputs: Transformer Engine's
 * module/layernorm_linear.py, which casts before it gathers and saves what it has cast; gradients: arguments.py,
 * gradient_accumulation_fusion, and distributed/param_and_grad_buffer.py, which keeps them; buckets:
 * distributed/distributed_data_parallel.py; scores: transformer/moe/experts.py, TEGroupedMLP, which hands permuted_probs
 * to its activation (fusions/fused_bias_swiglu.py, weighted_bias_swiglu_impl); gathers: arguments.py, align_param_gather, off without interleaving;
 * checkpoints: tensor_parallel/random.py, CheckpointFunction; optimizer/__init__.py: FusedAdam; its log: training.py,
 * num_floating_point_operations, which halves the products of causal attention. */
#define MEGATRON_CORE                                                                              \
    [FACT_FP8_RECIPE] = RECIPE_DELAYED, [FACT_WEIGHT_CASTS] = WEIGHT_CASTS_ONCE,                   \
    [FACT_FUSED_CASTS] = FUSED_CASTS_NORMS, [FACT_ACCUMULATION] = ACCUMULATION_FUSED,              \
    [FACT_BUCKETS] = BUCKETS_MEGATRON, [FACT_GATHERS] = GATHERS_PIECES, [FACT_INPUTS] = INPUTS_CAST, \
    [FACT_SCORES] = SCORES_ACTIVATION

/* FSDP2 without a framework. */
#define SCRIPT                                                                                     \
    [FACT_GRADIENTS] = GRADIENTS_FREED, [FACT_ROOT] = ROOT_WHOLE, [FACT_WORKSPACE] = WORKSPACE_TORCH, \
    [FACT_GATES] = GATES_APART

enum { NUMBER_DEFAULT, NUMBER_CORE_15, NUMBER_CORE_16, NUMBER_CORE_19, NUMBER_LOCAL, NUMBER_TITAN, NUMBER_SCRIPT, NUMBER_DTENSOR, NUMBER_STAGES, NUMBER_EAGER, NUMBER_DEEPSPEED,
       NUMBER_WEFT, NUMBER_WEFT_CUDA };

static const struct software_profile PROFILES[] = {
    [NUMBER_DEFAULT] =
    {"default", "no framework in particular: what is assumed where nobody says",
     "docs/research/accuracy.md", {NUMBER_DEFAULT, {0}}},
    [NUMBER_CORE_15] =
    {"megatron-core-0.15", "Megatron-LM with Transformer Engine, late 2025",
     "Megatron-LM core_v0.15.3, megatron/core and megatron/training/arguments.py",
     .record = {NUMBER_CORE_15, {MEGATRON_CORE}}, .log_skips_masked = true},
    [NUMBER_CORE_16] =
    {"megatron-core-0.16", "Megatron-LM with Transformer Engine, early 2026",
     "Megatron-LM core_v0.16.1, megatron/core and megatron/training/arguments.py",
     .record = {NUMBER_CORE_16, {MEGATRON_CORE}}, .log_skips_masked = true},
    [NUMBER_CORE_19] =
    {"megatron-core-0.19", "Megatron-LM with Transformer Engine, late 2026",
     "Megatron-LM core_v0.19.0, megatron/core and megatron/training/arguments.py",
     .record = {NUMBER_CORE_19, {MEGATRON_CORE}}, .log_skips_masked = true},
    /* Without Apex and Transformer Engine gradients are added apart, and optimizer/__init__.py takes PyTorch's AdamW,
     * whose default on a GPU is foreach. */
    [NUMBER_LOCAL] =
    {"megatron-local", "Megatron-LM with its own modules (--transformer-impl local), without Apex",
     "Megatron-LM core_v0.16.1, megatron/core/optimizer/__init__.py",
     .record = {NUMBER_LOCAL, {[FACT_BUCKETS] = BUCKETS_MEGATRON, [FACT_GATHERS] = GATHERS_PIECES,
                               [FACT_OPTIMIZER_STEP] = STEP_FOREACH}}, .log_skips_masked = true},
    /* torchao casts weights in every micro-batch; distributed/activation_checkpoint.py: early_stop=False; components/
     * optimizer.py: fused; Optimizer.zero_grad sets gradients to None. */
    [NUMBER_TITAN] =
    {"torchtitan-2025", "torchtitan with FSDP2 and torchao's fp8",
     "torchtitan, torchtitan/distributed and torchtitan/components; PyTorch 2.9, torch/optim/optimizer.py",
     {NUMBER_TITAN, {[FACT_GRADIENTS] = GRADIENTS_FREED}}},
    /* It shards each layer, and with the model what is outside of them; AdamW is fused; gates are silu(gate) * up. */
    [NUMBER_SCRIPT] =
    {"fsdp-script", "the script of `weft export --to fsdp`", "src/exchange/scripts/fsdp.py",
     {NUMBER_SCRIPT, {SCRIPT}}},
    /* foreach=False; its variable `logits` lives through backward(). */
    [NUMBER_DTENSOR] =
    {"dtensor-script", "the script of `weft export --to dtensor`", "src/exchange/scripts/dtensor.py; PyTorch 2.11, "
     "torch/distributed/tensor/parallel/loss.py",
     {NUMBER_DTENSOR, {SCRIPT, [FACT_OPTIMIZER_STEP] = STEP_SINGLE, [FACT_GATHERED] = GATHERED_KEPT,
                       [FACT_LOGITS] = LOGITS_KEPT}}},
    [NUMBER_STAGES] =
    {"torch-stages", "torch.distributed.pipelining around FSDP2 and DTensor, without a framework",
     "tools/torch_ranks.py; PyTorch 2.11, torch/distributed/pipelining",
     {NUMBER_STAGES, {SCRIPT, [FACT_OPTIMIZER_STEP] = STEP_SINGLE, [FACT_GATHERED] = GATHERED_KEPT,
                      [FACT_STAGES] = STAGES_HELD}}},
    /* torch/utils/checkpoint.py stops early by default; torch/optim/optimizer.py: set_to_none=True, foreach. */
    [NUMBER_EAGER] =
    {"pytorch-eager", "PyTorch without a framework: AdamW, non-reentrant checkpoints, zero_grad",
     "PyTorch 2.11, torch/utils/checkpoint.py and torch/optim",
     {NUMBER_EAGER, {[FACT_GRADIENTS] = GRADIENTS_FREED, [FACT_CHECKPOINTS] = CHECKPOINTS_EARLY,
                     [FACT_OPTIMIZER_STEP] = STEP_FOREACH}}},
    [NUMBER_DEEPSPEED] =
    {"deepspeed-0.19", "DeepSpeed with its FusedAdam",
     "DeepSpeed, deepspeed/runtime/zero/config.py (reduce_bucket_size) and deepspeed/ops/adam",
     {NUMBER_DEEPSPEED, {[FACT_BUCKETS] = BUCKETS_DEEPSPEED}}},
    /* Its kernels add gradients in the product, and a device's experts are one call (src/run/kernels). */
    [NUMBER_WEFT] =
    {"weft", "Weft's own executor", "src/run",
     {NUMBER_WEFT, {[FACT_ACCUMULATION] = ACCUMULATION_FUSED, [FACT_EXPERTS] = EXPERTS_FUSED,
                    [FACT_SEQUENCES] = SEQUENCES_CONSECUTIVE}}},
    /* Compiled code issues kernels (software_issue); what they take while they run: cost/own_scratch.h. */
    [NUMBER_WEFT_CUDA] =
    {"weft-cuda", "Weft's own executor on a GPU", "src/run; bench/reality_gpu.py on an H200",
     {NUMBER_WEFT_CUDA, {[FACT_ACCUMULATION] = ACCUMULATION_FUSED, [FACT_EXPERTS] = EXPERTS_FUSED,
                         [FACT_SEQUENCES] = SEQUENCES_CONSECUTIVE, [FACT_HOST] = HOST_NATIVE,
                         [FACT_WORKSPACE] = WORKSPACE_WEFT}}},
};
/* clang-format on */

size_t software_profiles(const struct software_profile **out)
{
    *out = PROFILES;
    return COUNT_OF(PROFILES);
}

bool software_same(const struct software *one, const struct software *other)
{
    return memcmp(one, other, sizeof *one) == 0;
}

bool software_is_default(const struct software *software)
{
    return software_same(software, &PROFILES[NUMBER_DEFAULT].record);
}

/* ---- words ----------------------------------------------------------------------------------- */

static const char *words_of(struct arena *keep, enum software_fact fact)
{
    const char *list = FACTS[fact].word[0];
    for (int i = 1; FACTS[fact].word[i]; i++)
        list = arena_printf(keep, "%s%s%s", list, FACTS[fact].word[i + 1] ? ", " : " or ",
                            FACTS[fact].word[i]);
    return list;
}

static weft_status unknown_word(enum software_fact fact, const char *word)
{
    struct arena *scratch = arena_new();
    weft_status status = bad_argument("docs/reference/software.md says what each word means",
                                      "the software's %s is '%.60s', expected %s", FACTS[fact].key,
                                      word, words_of(scratch, fact));
    arena_free(scratch);
    return status;
}

weft_status software_set(struct software *software, const char *key, const char *word)
{
    int fact = NAME_INDEX(key, FACTS);
    if (fact < 0)
        return unknown_name("fact about software", key, FACTS, sizeof FACTS[0], COUNT_OF(FACTS));
    for (int i = 0; FACTS[fact].word[i]; i++)
        if (strcmp(FACTS[fact].word[i], word) == 0) {
            software->word[fact] = (uint8_t)i;
            return WEFT_OK;
        }
    return unknown_word((enum software_fact)fact, word);
}

static weft_status set_from(struct software *software, char *change)
{
    char *word = strchr(change, '=');
    if (!word)
        return bad_argument("such as megatron-core-0.16,host=graphs",
                            "the software's '%.60s' is no FACT=WORD", change);
    *word++ = '\0';
    return software_set(software, change, word);
}

/* A profile by its name; without its release it is the latest: "torchtitan". -1: there is none. */
static int profile_index(const char *name)
{
    int at = NAME_INDEX(name, PROFILES);
    size_t len = strlen(name);
    for (size_t i = COUNT_OF(PROFILES); at < 0 && len > 0 && i-- > 0;) {
        const char *release = PROFILES[i].name + len;
        if (strncmp(PROFILES[i].name, name, len) == 0 && release[0] == '-' && release[1] >= '0' &&
            release[1] <= '9')
            at = (int)i;
    }
    return at;
}

weft_status software_from_text(const char *text, struct software *out)
{
    struct arena *scratch = arena_new();
    char *rest = arena_copy_text(scratch, text), *name = strsep(&rest, ","), *change;
    int at = profile_index(name);
    weft_status status;
    if (at < 0)
        TRY(unknown_name("software profile", name, PROFILES, sizeof PROFILES[0],
                         COUNT_OF(PROFILES)));
    *out = PROFILES[at].record;
    status = WEFT_OK;
    while ((change = strsep(&rest, ",")) != NULL)
        TRY(set_from(out, change));
done:
    arena_free(scratch);
    return status;
}

const char *software_text(struct arena *keep, const struct software *software)
{
    const struct software_profile *profile = &PROFILES[software->profile];
    const char *text = profile->name;
    for (int i = 0; i < SOFTWARE_FACTS; i++)
        if (software->word[i] != profile->record.word[i])
            text = arena_printf(keep, "%s,%s=%s", text, FACTS[i].key,
                                FACTS[i].word[software->word[i]]);
    return text;
}

const char *software_assumes(struct arena *keep, const struct software *software)
{
    const char *text = "";
    for (int i = 0; i < SOFTWARE_FACTS; i++)
        if (software->word[i])
            text = arena_printf(keep, "%s%s%s %s", text, *text ? ", " : "", FACTS[i].key,
                                FACTS[i].word[software->word[i]]);
    return text;
}

bool software_log_skips_masked(const struct software *software)
{
    return PROFILES[software->profile].log_skips_masked;
}

/* DeepEP's buffers take 20 by default (deep_ep/buffer.py, num_sms; Megatron-Core's moe_deepep_num_sms), DeepSeek-V3
 * took 20 of 132 (section 3.2.2); moe_hybridep_num_sms is 16 in recipes of Megatron-Bridge, 24 where Megatron-Core
 * is left to itself. */
int software_token_sms(const struct software *software)
{
    static const int SMS[] = {
        [TOKEN_SMS_NONE] = 0, [TOKEN_SMS_16] = 16, [TOKEN_SMS_20] = 20, [TOKEN_SMS_24] = 24};
    return SMS[software_word(software, FACT_TOKEN_SMS)];
}

/* ---- rules ----------------------------------------------------------------------------------- */

/* Parameters per bucket: a least number, and one for each device that shares in the sum. The default of
 * DistributedDataParallel is bucket_cap_mb = 25, in bytes. */
static const struct {
    int64_t bytes, least, each;
} BUCKETS[] = {
    [BUCKETS_FIXED] = {25 << 20, 0, 0},
    [BUCKETS_MEGATRON] = {0, 40000000, 1000000}, /* distributed_data_parallel.py */
    [BUCKETS_DEEPSPEED] = {0, 500000000, 0},     /* zero/config.py, reduce_bucket_size */
};

/* Weft's, measured on an H200 with sequences of 64 tokens, where the host is slower than the device: a further
 * micro-batch of GPT-2 takes 4.3 ms and of GPT-3 350M 7.3 ms, where PyTorch's pace predicts 22.5 and 43.6 ms;
 * 0.19 and 0.17 of it. */
double software_issue(const struct software *software)
{
    static const double ISSUE[] = {[HOST_KERNELS] = 1, [HOST_GRAPHS] = 0, [HOST_NATIVE] = 0.18};
    return ISSUE[software_word(software, FACT_HOST)];
}

int64_t software_bucket_bytes(const struct software *software, double gradient_bytes,
                              int64_t devices)
{
    int rule = software_word(software, FACT_BUCKETS);
    int64_t parameters = BUCKETS[rule].each * devices;
    if (BUCKETS[rule].bytes)
        return BUCKETS[rule].bytes;
    parameters = parameters > BUCKETS[rule].least ? parameters : BUCKETS[rule].least;
    return (int64_t)((double)parameters * gradient_bytes);
}
