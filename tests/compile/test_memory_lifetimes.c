/* test_memory_lifetimes.c - when tensors are taken and given back, and how full devices get: by hand, against the formulas of
 * papers, and against a replay of every item of random plans. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/sim.h"

/* ---- plans ----------------------------------------------------------------------------------- */

struct subject {
    struct model *model;
    struct cluster *cluster;
    struct plan *plan;
    struct prediction *prediction;
};

static void drop(struct subject *s)
{
    prediction_free(s->prediction);
    if (s->plan)
        plan_free(s->plan);
    cluster_free(s->cluster);
    model_free(s->model);
}

static struct model *family(const char *name, const char *options)
{
    const struct family *const *families;
    size_t count = model_families(&families);
    struct arena *scratch = arena_new();
    struct doc *doc;
    struct model *model = NULL;
    char text[512];
    snprintf(text, sizeof text, "{%s}", options);
    assert_int_equal(doc_parse(scratch, "options", text, strlen(text), DOC_YAML, &doc), WEFT_OK);
    for (size_t i = 0; i < count; i++)
        if (strcmp(families[i]->name, name) == 0)
            assert_int_equal(family_build(families[i], "small", "test", doc, &model), WEFT_OK);
    assert_non_null(model);
    arena_free(scratch);
    return model;
}

/* False where the degrees fit neither the model nor the schedule. */
static bool predict(struct model *model, const char *cluster, const struct degrees *degrees,
                    const struct simulate_options *options, struct subject *out)
{
    *out = (struct subject){.model = model};
    assert_int_equal(cluster_open(cluster, &out->cluster), WEFT_OK);
    if (plan_from_degrees(model, out->cluster, degrees, &out->plan) || plan_check(out->plan)) {
        drop(out);
        return false;
    }
    assert_int_equal(simulate(out->plan, options, &out->prediction), WEFT_OK);
    return true;
}

static int64_t state_of(const struct subject *s, int32_t stage)
{
    int64_t bytes = 0;
    for (int k = 0; k < MEMORY_CLASS_COUNT; k++)
        bytes += s->prediction->stage[stage].memory.state[k];
    return bytes;
}

static const struct part_lifetimes *part_of(const struct subject *s, int32_t part)
{
    return &s->prediction->graph->lifetimes->part[part];
}

/* What one micro-batch of a part keeps for its backward pass; `away`: in host memory. */
static int64_t kept(const struct subject *s, int32_t part, bool away)
{
    const struct part_lifetimes *l = part_of(s, part);
    int64_t bytes = 0;
    for (int32_t i = 0; i < l->lives; i++)
        if (l->life[i].born_in == SLOT_FORWARD && l->life[i].dies_in != SLOT_FORWARD &&
            l->life[i].offloaded == away)
            bytes += l->life[i].bytes;
    return bytes;
}

static const struct lifetime *find_life(const struct subject *s, int32_t part, const char *path,
                                        enum held held)
{
    const struct part_lifetimes *l = part_of(s, part);
    struct arena *scratch = arena_new();
    const struct lifetime *found = NULL;
    for (int32_t i = 0; i < l->lives && !found; i++)
        if (l->life[i].held == held &&
            strcmp(plan_path(scratch, s->plan, l->life[i].instance), path) == 0)
            found = &l->life[i];
    arena_free(scratch);
    if (!found)
        fail_msg("%s has no %s", path, held_name(held));
    return found;
}

/* ---- by hand --------------------------------------------------------------------------------- */

static const char *const SMALL = "layers: 1, hidden: 8, heads: 2, ffn: 16, seq: 4, vocab: 32";

/* One llama layer in 16 bits, one sample of 4 tokens, h = 8: a tensor of (4, 8) has 64 bytes.
 * Kept at the end of the forward pass:
 *   ids 4 * 8 = 32, embedding 64, norm 64 + 4 * 4 of statistics, rotated qkv (8 + 16) * 4 * 2 = 192,
 *   attention 64 + 2 heads * 4 * 4 = 32, add 64, norm 64 + 16, gate and up 2 * 16 * 4 * 2 = 256,
 *   their product 128, add 64, norm 64 + 16, probabilities 4 * 32 * 4 = 512                 = 1648
 * At the loss the logits, 4 * 32 * 2 = 256, and its output, 4 * 4, are there too:             1920
 * The backward pass starts with as much: the loss's gradient 16 and that of the logits 256. */
static void one_layer(void **state)
{
    (void)state;
    struct subject s;
    struct degrees degrees = {.dp = 1, .has_policy = true, .policy = POLICY_PURE_BF16};
    assert_true(
        predict(family("llama", SMALL), "piz-daint", &degrees, &(struct simulate_options){0}, &s));
    const struct stage_peak *peak = &s.prediction->stage[0].memory;
    assert_int_equal(kept(&s, 0, false), 1648);
    assert_int_equal(peak->bytes[MEMORY_ACTIVATIONS], 1648);
    assert_int_equal(peak->bytes[MEMORY_WORKSPACE], 272);
    assert_int_equal(peak->slot, 0);
    assert_int_equal(peak->peak, state_of(&s, 0) + 1920);
    /* two bytes for each weight, its gradient and its two moments: embedding and head 2 * 256,
     * norms 3 * 8, qkv 192, proj 64, gate and up 256, down 128                              = 1176 */
    assert_int_equal(state_of(&s, 0), 1176 * 8);
    assert_int_equal(find_life(&s, 0, "head", HELD_OUTPUT)->dies_in, SLOT_FORWARD);
    assert_int_equal(find_life(&s, 0, "layers.0.attn.rotary", HELD_OUTPUT)->dies_in, SLOT_BACKWARD);
    assert_int_equal(find_life(&s, 0, "layers.0.attn.qkv", HELD_OUTPUT)->dies_in, SLOT_FORWARD);
    drop(&s);
}

/* What only the optimizer's step holds: Megatron-LM's fp32 copies of 16-bit gradients, 4 bytes for each of 1176
 * parameters, and the roots of second moments under `foreach`, as many. Gradients in fp32 are not copied. On
 * two replicas that share the state, half of it. */
static void in_the_step(void **state)
{
    (void)state;
    static const struct {
        enum policy policy;
        int shard;
        bool foreach;
        int64_t bytes;
    } ROWS[] = {
        {POLICY_MIXED, 0, false, 4 * 1176},      {POLICY_MIXED, 0, true, 8 * 1176},
        {POLICY_MIXED, 1, true, 4 * 1176},       {POLICY_MIXED_FP32_GRADIENTS, 0, true, 4 * 1176},
        {POLICY_DISTRIBUTED, 0, true, 2 * 1176}, {POLICY_PURE_BF16, 0, true, 2 * 1176}};
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct subject s;
        struct degrees degrees = {.dp = 2,
                                  .has_policy = true,
                                  .policy = ROWS[i].policy,
                                  .shard = ROWS[i].shard,
                                  .software.word[FACT_OPTIMIZER_STEP] =
                                      ROWS[i].foreach ? STEP_FOREACH : STEP_FUSED};
        assert_true(predict(family("llama", SMALL), "dgx-a100:1x2", &degrees,
                            &(struct simulate_options){0}, &s));
        const struct stage_peak *peak = &s.prediction->stage[0].memory;
        assert_true(peak->in_step);
        assert_int_equal(peak->peak, state_of(&s, 0) + ROWS[i].bytes);
        assert_true(peak->reserved >= peak->peak);
        assert_int_equal(peak->at_ns, s.prediction->iteration_ns);
        assert_int_equal(stage_peak_bytes(s.prediction->graph, 0), peak->peak);
        drop(&s);
    }
}

/* Under fsdp, gradients of one micro-batch exist since its backward pass, 4 bytes for each parameter; of several they
 * stay whole with shard 2, and are shares with shard 3, where 16-bit weights are gathered from the optimizer's fp32
 * shares and are not there otherwise. */
static void fsdp_state(void **state)
{
    (void)state;
    static const struct {
        int shard;
        int64_t micro_batches, weights, gradients;
    } ROWS[] = {{2, 1, 2 * 1176, 0}, {2, 2, 2 * 1176, 4 * 1176}, {3, 1, 0, 0}, {3, 2, 0, 2 * 1176}};
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct subject s;
        struct degrees degrees = {.dp = 2,
                                  .has_policy = true,
                                  .policy = POLICY_FSDP,
                                  .shard = ROWS[i].shard,
                                  .global_batch = 2 * ROWS[i].micro_batches};
        assert_true(predict(family("llama", SMALL), "dgx-a100:1x2", &degrees,
                            &(struct simulate_options){0}, &s));
        const struct stage_peak *peak = &s.prediction->stage[0].memory;
        assert_int_equal(peak->state[MEMORY_WEIGHTS], ROWS[i].weights);
        assert_int_equal(peak->state[MEMORY_GRADIENTS], ROWS[i].gradients);
        assert_int_equal(peak->state[MEMORY_OPTIMIZER], 6 * 1176);
        assert_true(peak->peak >= state_of(&s, 0) + (ROWS[i].gradients ? 0 : 2 * 1176));
        drop(&s);
    }
}

/* Megatron-LM's own attention keeps a buffer of 2 heads * 4 * 4 scores in 16 bits, one for all layers. */
static void buffer_of_scores(void **state)
{
    (void)state;
    struct subject s;
    struct degrees degrees = {.dp = 1, .has_policy = true, .policy = POLICY_PURE_BF16};
    assert_true(predict(
        family("llama",
               "layers: 3, hidden: 8, heads: 2, ffn: 16, seq: 4, vocab: 32, attention: local"),
        "piz-daint", &degrees, &(struct simulate_options){0}, &s));
    assert_int_equal(s.prediction->stage[0].memory.state[MEMORY_WORKSPACE], 2 * 4 * 4 * 2);
    drop(&s);
}

/* A fused loss keeps the logits, 256, instead of the probabilities, 512, and puts their gradient in
 * their place: 1648 - 512 + 256 = 1392; at the loss, its output 16 on top. The head's backward pass
 * has the logits' gradient in their place and makes that of its input, 64: what the norm after it
 * has is 1392 + 64, the peak. */
static void fused_loss(void **state)
{
    (void)state;
    struct subject s;
    char options[128];
    struct degrees degrees = {.dp = 1, .has_policy = true, .policy = POLICY_PURE_BF16};
    snprintf(options, sizeof options, "%s, loss: fused", SMALL);
    assert_true(predict(family("llama", options), "piz-daint", &degrees,
                        &(struct simulate_options){0}, &s));
    const struct stage_peak *peak = &s.prediction->stage[0].memory;
    assert_int_equal(kept(&s, 0, false), 1392);
    assert_int_equal(peak->peak, state_of(&s, 0) + 1392 + 64);
    assert_int_equal(peak->slot, 1);
    drop(&s);
}

/* The same, but the loss writes the gradient of the logits, 256, beside them: its backward pass is the
 * peak. It also has the gradient of what it put out, 16. */
static void compiled_loss(void **state)
{
    (void)state;
    struct subject s;
    char options[128];
    struct degrees degrees = {.dp = 1, .has_policy = true, .policy = POLICY_PURE_BF16};
    snprintf(options, sizeof options, "%s, loss: compiled", SMALL);
    assert_true(predict(family("llama", options), "piz-daint", &degrees,
                        &(struct simulate_options){0}, &s));
    assert_int_equal(kept(&s, 0, false), 1392);
    assert_int_equal(s.prediction->stage[0].memory.peak, state_of(&s, 0) + 1392 + 256 + 16);
    drop(&s);
}

/* Recomputed, the layer keeps its input alone: ids 32, embedding 64, and outside of the layer its
 * output 64, the last norm 64 + 16 and the probabilities 512. When the backward pass has come to the
 * layer, ids, embedding and the gradient of its output are there, 160. It makes again
 *   norm 64, qkv 192, rotated 192, attention 64, proj 64, add 64, norm 64, gate and up 256, their
 *   product 128, down 64, add 64                                       = 1216, statistics 16 + 32 + 16
 * of which 832 + 64 stay without qkv, proj, down and the last add. The product dies with the weight
 * gradient of `down`; then its own backward pass has 160 + 832 + 64 - 128 = 928 and the gradients of
 * its output, 128, and input, 256: the peak. */
static void recomputed_layer(void **state)
{
    (void)state;
    struct subject s;
    struct degrees degrees = {
        .dp = 1, .has_policy = true, .policy = POLICY_PURE_BF16, .recompute = RECOMPUTE_FULL};
    assert_true(
        predict(family("llama", SMALL), "piz-daint", &degrees, &(struct simulate_options){0}, &s));
    const struct stage_peak *peak = &s.prediction->stage[0].memory;
    assert_int_equal(kept(&s, 0, false), 32 + 64 + 64 + 64 + 16 + 512);
    const struct part_lifetimes *l = part_of(&s, 0);
    int64_t again[HELD_COUNT] = {0};
    for (int32_t i = 0; i < l->lives; i++)
        if (l->life[i].born_in == SLOT_BACKWARD)
            again[l->life[i].held] += l->life[i].bytes;
    assert_int_equal(again[HELD_OUTPUT], 1216);
    assert_int_equal(again[HELD_EXTRA], 64);
    assert_int_equal(peak->slot, 1);
    assert_int_equal(peak->peak, state_of(&s, 0) + 928 + 128 + 256);
    drop(&s);
}

/* The layer with its products apart, of which the outputs of q, v, gate and down and that of attention
 * are saved. What stays of it is its input 64, q 64, v 64, attention 64 + 32 of statistics and gate 128:
 * nobody reads down's output. Made again are
 *   norm 64 + 16, rotated q 64, k 64, rotated k 64, proj 64, add 64, norm 64 + 16, up 128, gated 128
 * and not the last add, which nobody reads either. Outside of the layer: ids 32, its output 64, the last
 * norm 64 + 16, probabilities 512. */
static void saved_outputs(void **state)
{
    (void)state;
    struct subject s;
    char options[128];
    struct degrees degrees = {
        .dp = 1, .has_policy = true, .policy = POLICY_PURE_BF16, .recompute = RECOMPUTE_FULL};
    static const char *const SAVED[] = {"attn.q", "attn.v", "attn.attention", "mlp.gate",
                                        "mlp.down"};
    snprintf(options, sizeof options, "%s, apart: true", SMALL);
    assert_true(predict(family("llama", options), "piz-daint", &degrees,
                        &(struct simulate_options){0}, &s));
    struct arena *scratch = arena_new();
    for (int64_t i = 0; i < s.plan->instances; i++) {
        struct choice choice = *plan_choice(s.plan, i);
        const char *path = plan_path(scratch, s.plan, i);
        for (size_t k = 0; k < COUNT_OF(SAVED); k++)
            choice.saved |= strncmp(path, "layers.0.", 9) == 0 && strcmp(path + 9, SAVED[k]) == 0;
        assert_int_equal(plan_choose(s.plan, i, &choice), WEFT_OK);
    }
    prediction_free(s.prediction);
    assert_int_equal(simulate(s.plan, &(struct simulate_options){0}, &s.prediction), WEFT_OK);
    int64_t stays = 64 + 64 + 64 + 64 + 32 + 128, outside = 32 + 64 + 64 + 16 + 512;
    assert_int_equal(kept(&s, 0, false), stays + outside);
    assert_int_equal((int64_t)plan_stage_memory(s.plan, 0, 1).activations, stays + outside);
    const struct part_lifetimes *l = part_of(&s, 0);
    int64_t again[HELD_COUNT] = {0};
    for (int32_t i = 0; i < l->lives; i++)
        if (l->life[i].born_in == SLOT_BACKWARD)
            again[l->life[i].held] += l->life[i].bytes;
    assert_int_equal(again[HELD_OUTPUT], 7 * 64 + 2 * 128);
    assert_int_equal(again[HELD_EXTRA], 32);
    arena_free(scratch);
    drop(&s);
}

/* Modules that discard their outputs, of which the next operator no longer keeps its input. A sample of 4 tokens in 16 bits:
 *   layernorm    two outputs of (4, 8), 64 each, and 4 * 4 of statistics each                       = 160
 *   moe_act      gate * up of one expert per token, 4 * 16 * 2                                      = 128
 *   mla_up_proj  two norms of (4, 4) with statistics, 2 * (32 + 16); queries and keys of
 *                2 * (4 + 2), 2 * 96; values of 2 * 4, 64; but k_rope, 4 * 2 * 2 = 16, stays        = 336
 * They are made again before the first that reads them, one layer at a time. */
static void discarded_outputs(void **state)
{
    (void)state;
    static const struct {
        const char *family, *options, *module;
        int64_t less;
    } CASES[] = {
        {"llama", "", "layernorm", 160},
        {"moe", ", experts: 2, top_k: 1, expert_ffn: 16", "moe_act", 128},
        {"llama", ", q_lora: 4, kv_lora: 4, nope_dim: 4, rope_dim: 2, value_dim: 4", "mla_up_proj",
         336},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct degrees degrees = {.dp = 1, .has_policy = true, .policy = POLICY_PURE_BF16};
        struct subject all, less;
        char options[256];
        snprintf(options, sizeof options, "%s%s", SMALL, CASES[i].options);
        assert_true(predict(family(CASES[i].family, options), "piz-daint", &degrees,
                            &(struct simulate_options){0}, &all));
        degrees.recompute = RECOMPUTE_SELECTIVE;
        degrees.modules = module_from_name(CASES[i].module);
        assert_true(predict(family(CASES[i].family, options), "piz-daint", &degrees,
                            &(struct simulate_options){0}, &less));
        assert_int_equal(kept(&all, 0, false) - kept(&less, 0, false), CASES[i].less);
        assert_int_equal((int64_t)(plan_stage_memory(all.plan, 0, 1).activations -
                                   plan_stage_memory(less.plan, 0, 1).activations),
                         CASES[i].less);
        drop(&all);
        drop(&less);
    }
}

/* An eager loss: log-probabilities stay, 4 * 32 * 4 = 512. Forward, logits 256, their copy 512 and the
 * output 16 are there beside what is kept, 1648 as of a plain loss. Backward, two gradients in fp32, of
 * which the one of the logits, 256, takes a part when they are gone, and that of the output, 16. */
static void eager_loss(void **state)
{
    (void)state;
    struct subject s;
    char options[128];
    struct degrees degrees = {.dp = 1, .has_policy = true, .policy = POLICY_PURE_BF16};
    snprintf(options, sizeof options, "%s, loss: eager", SMALL);
    assert_true(predict(family("llama", options), "piz-daint", &degrees,
                        &(struct simulate_options){0}, &s));
    assert_int_equal(kept(&s, 0, false), 1648);
    assert_int_equal(s.prediction->stage[0].memory.peak, state_of(&s, 0) + 1648 + 2 * 512 + 16);
    assert_int_equal(s.prediction->stage[0].memory.slot, 1);
    drop(&s);
}

/* What is made of weights' gradients before it is added, and what gradients of tensors are made: bytes born in the
 * backward pass. */
static int64_t born_backward(const struct subject *s, enum held held)
{
    const struct part_lifetimes *l = part_of(s, 0);
    int64_t bytes = 0;
    for (int32_t i = 0; i < l->lives; i++)
        if (l->life[i].held == held && l->life[i].born_in != SLOT_FORWARD)
            bytes += l->life[i].bytes;
    return bytes;
}

/* Weights of one layer and its ends: 1176 (one_layer), of which products of the layer 640, and what is left 536: the
 * table and the head 512, three norms 24. One micro-batch in 16 bits makes its gradients in place; of several each
 * makes them apart. In fp32 products of layers add in place. With shard 2 they are whole in fp32 for a while.
 *
 * gpt: gradients of loss 16, logits 256, last norm, add, norm, add, attention, norm and embedding 64 each, gelu and
 * up 128 each, qkv 192: 1168. With dropout those of down and proj are not those of the sums, but of what stands
 * beside them they are. */
static void gradients_made_apart(void **state)
{
    (void)state;
#define POLICY(name) .has_policy = true, .policy = POLICY_##name
    static const struct {
        const char *cluster;
        struct degrees degrees;
        int64_t bytes;
    } ROWS[] = {
        {"piz-daint", {POLICY(MIXED)}, 0},
        {"piz-daint", {.global_batch = 2, POLICY(MIXED)}, 1176 * 2},
        {"piz-daint", {POLICY(MIXED_FP32_GRADIENTS)}, 536 * 2},
        {"dgx-a100", {.shard = 2, POLICY(MIXED_FP32_GRADIENTS)}, 1176 * 4},
    };
    static const char *const DROPOUT[] = {"0", "0.1"};
    struct subject s;
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        assert_true(predict(family("llama", SMALL), ROWS[i].cluster, &ROWS[i].degrees,
                            &(struct simulate_options){0}, &s));
        assert_int_equal(born_backward(&s, HELD_WEIGHT_GRADIENTS), ROWS[i].bytes);
        drop(&s);
    }
    for (size_t i = 0; i < COUNT_OF(DROPOUT); i++) {
        char options[160];
        snprintf(options, sizeof options, "%s, dropout: %s", SMALL, DROPOUT[i]);
        assert_true(predict(family("gpt", options), "piz-daint", &ROWS[0].degrees,
                            &(struct simulate_options){0}, &s));
        assert_int_equal(born_backward(&s, HELD_GRADIENT), i ? 1168 + 2 * 64 : 1168);
        drop(&s);
    }
#undef POLICY
}

/* Two layers, weights in the order of the backward pass: head 256, norm 8; down 128, gate and up 256, norm 8, proj 64,
 * qkv 192, norm 8, twice; the table 256. Gradients of two bytes each go as soon as 528 bytes or more are together; a
 * layer's weights are gathered together, and what stands around layers apart from them. */
static void buckets_by_hand(void **state)
{
    (void)state;
    static const char TWO[] = "layers: 2, hidden: 8, heads: 2, ffn: 16, seq: 4, vocab: 32";
    static const struct {
        struct degrees degrees;
        int32_t count;
        int64_t bytes[8];
    } ROWS[] = {
        {{.has_bucket = true, .bucket_bytes = 528}, 6, {528, 768, 528, 784, 528, 528}},
        {{.has_bucket = true, .bucket_bytes = 529},
         5,
         {528 + 256, 512 + 16 + 128, 384 + 16 + 256, 512 + 16 + 128, 384 + 16 + 512}},
        {{.has_bucket = true, .bucket_bytes = 0}, 1, {2 * (256 + 8 + 2 * 656 + 256)}},
        {{.has_bucket = true, .bucket_bytes = 528, .shard = 3},
         4,
         {2 * 264, 2 * 656, 2 * 656, 2 * 256}},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct subject s;
        struct degrees d = ROWS[i].degrees;
        d.has_policy = true;
        d.policy = POLICY_MIXED;
        assert_true(
            predict(family("llama", TWO), "dgx-a100", &d, &(struct simulate_options){0}, &s));
        const struct graph *graph = s.prediction->graph;
        assert_int_equal(graph->buckets, ROWS[i].count);
        for (int32_t b = 0; b < graph->buckets; b++)
            assert_int_equal(graph->bucket[b].bytes, ROWS[i].bytes[b]);
        drop(&s);
    }
}

/* Bytes of a bucket's gradients that are synchronised in the backward pass, and those left to the next iteration. */
static int64_t slice_bytes(const struct graph *graph, int32_t bucket, bool deferred)
{
    int64_t bytes = 0;
    for (int32_t t = 0; t < graph->tasks; t++) {
        const struct task *task = &graph->task[t];
        if (task->stream == STREAM_GRADIENT && task->exchange >= 0 && task->about == bucket &&
            (task->micro_batch < 0) == deferred)
            bytes += graph->exchange[task->exchange].bytes;
    }
    return bytes;
}

/* Fold3D leaves gradients of all pieces but the first to the next iteration, in proportion to the passes: of forward 1
 * and backward 2 a third, with recomputation of 1 and 3 a quarter. Not those of ZeRO-2, nor any without overlap. */
static void slices_by_hand(void **state)
{
    (void)state;
    static const struct {
        enum recompute recompute;
        int shard;
        unsigned overlap;
        int64_t share;
    } ROWS[] = {{RECOMPUTE_NONE, 0, OVERLAP_GRADIENTS, 3},
                {RECOMPUTE_FULL, 0, OVERLAP_GRADIENTS, 4},
                {RECOMPUTE_NONE, 2, OVERLAP_GRADIENTS, 0},
                {RECOMPUTE_NONE, 1, OVERLAP_GRADIENTS, 0},
                {RECOMPUTE_FULL, 1, OVERLAP_GRADIENTS | OVERLAP_PARAMETERS, 4}};
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct subject s;
        struct degrees d = {.pp = 2,
                            .dp = 4,
                            .segments = 2,
                            .schedule = "aiao",
                            .has_overlap = true,
                            .global_batch = 16,
                            .micro_batch = 1,
                            .shard = ROWS[i].shard,
                            .recompute = ROWS[i].recompute,
                            .overlap = ROWS[i].overlap};
        assert_true(
            predict(family("llama", "layers: 4, hidden: 8, heads: 2, ffn: 16, seq: 4, vocab: 32"),
                    "dgx-a100", &d, &(struct simulate_options){.fold = FOLD_ALWAYS}, &s));
        const struct graph *graph = s.prediction->graph;
        for (int32_t b = 0; b < graph->buckets; b++) {
            const struct bucket *bucket = &graph->bucket[b];
            bool split = bucket->part >= 2 && ROWS[i].share;
            int64_t left = split ? bucket->bytes / ROWS[i].share : 0;
            assert_int_equal(slice_bytes(graph, b, true), left);
            assert_int_equal(slice_bytes(graph, b, false),
                             (bucket->bytes - left) * (ROWS[i].shard == 2 ? 4 : 1));
        }
        drop(&s);
    }
}

/* Bytes of the copy that a product keeps from the forward to the backward pass. */
static int64_t cast_of(const struct subject *s, const char *path)
{
    const struct part_lifetimes *l = part_of(s, 0);
    struct arena *scratch = arena_new();
    int64_t bytes = 0;
    for (int32_t i = 0; i < l->lives; i++)
        if (l->life[i].held == HELD_COPY && l->life[i].born_in != l->life[i].dies_in &&
            strcmp(plan_path(scratch, s->plan, l->life[i].instance), path) == 0)
            bytes += l->life[i].bytes;
    arena_free(scratch);
    return bytes;
}

/* Bytes that the first gather of an operator's input moves to each device. */
static int64_t gathered_bytes(const struct subject *s, const char *path)
{
    const struct graph *graph = s->prediction->graph;
    struct arena *scratch = arena_new();
    int64_t bytes = 0;
    for (int32_t b = 0; b < graph->blocks && !bytes; b++)
        for (int32_t i = 0; i < graph->block[b].items && !bytes; i++) {
            const struct item *item = &graph->block[b].item[i];
            if (item->kind == ITEM_STEP && item->phase == FLOW_FORWARD &&
                strcmp(plan_path(scratch, s->plan, item->instance), path) == 0)
                bytes = item->bytes;
        }
    arena_free(scratch);
    return bytes;
}

/* Tensor parallel by 2 with sequence parallelism: the norm's output stays as a half of the sequence
 * on each device, 32, and is gathered again, 64, where its weight gradient is made. */
static void gathered_again(void **state)
{
    (void)state;
    struct subject s;
    struct degrees degrees = {
        .dp = 4, .tp = 2, .sequence = true, .has_policy = true, .policy = POLICY_PURE_BF16};
    assert_true(
        predict(family("llama", SMALL), "dgx-a100", &degrees, &(struct simulate_options){0}, &s));
    const struct lifetime *norm = find_life(&s, 0, "layers.0.mlp.norm", HELD_OUTPUT);
    assert_int_equal(norm->bytes, 32);
    assert_int_equal(norm->dies_in, SLOT_BACKWARD);
    const struct part_lifetimes *l = part_of(&s, 0);
    int forward = 0, backward = 0;
    struct arena *scratch = arena_new();
    for (int32_t i = 0; i < l->lives; i++) {
        const struct lifetime *life = &l->life[i];
        if (life->held != HELD_COPY ||
            strcmp(plan_path(scratch, s.plan, life->instance), "layers.0.mlp.gate_up") != 0)
            continue;
        assert_int_equal(life->bytes, 64);
        assert_int_equal(life->born_in, life->dies_in);
        forward += life->born_in == SLOT_FORWARD;
        backward += life->born_in == SLOT_BACKWARD;
    }
    assert_int_equal(forward, 1);
    assert_int_equal(backward, 1);
    arena_free(scratch);
    drop(&s);
}

/* In fp8, with inputs kept as they were cast: of the norm's half of the sequence, 4 * 8 / 2 elements, 16 bytes are kept,
 * and both gathers move one byte per element. With `all`, the gate and up's 2 * 16 / 2 * 4 elements take 64 bytes. */
static void cast_inputs(void **state)
{
    (void)state;
    static const struct {
        const char *software;
        int norm_dies, gates_die;
        int64_t cast, gathered;
    } CASES[] = {{"default", SLOT_BACKWARD, SLOT_BACKWARD, 0, 64},
                 {"default,inputs=cast", SLOT_FORWARD, SLOT_BACKWARD, 16, 32},
                 {"default,inputs=all", SLOT_FORWARD, SLOT_FORWARD, 16, 32}};
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct subject s;
        struct degrees degrees = {
            .dp = 4, .tp = 2, .sequence = true, .has_dtype = true, .dtype = DTYPE_FP8};
        assert_int_equal(software_from_text(CASES[i].software, &degrees.software), WEFT_OK);
        assert_true(predict(family("llama", SMALL), "dgx-h100", &degrees,
                            &(struct simulate_options){0}, &s));
        assert_int_equal(find_life(&s, 0, "layers.0.mlp.norm", HELD_OUTPUT)->dies_in,
                         CASES[i].norm_dies);
        assert_int_equal(find_life(&s, 0, "layers.0.mlp.gate_up", HELD_OUTPUT)->dies_in,
                         CASES[i].gates_die);
        if (CASES[i].gates_die == SLOT_FORWARD)
            assert_int_equal(find_life(&s, 0, "layers.0.mlp.gated", HELD_COPY)->bytes, 64);
        assert_int_equal(cast_of(&s, "layers.0.mlp.gate_up"), CASES[i].cast);
        assert_int_equal(gathered_bytes(&s, "layers.0.mlp.gate_up"), CASES[i].gathered);
        drop(&s);
    }
}

/* ZeRO-3 over 8 devices, 3 layers: whole weights of the unit at work and of the next one. A layer
 * has 8 + 192 + 64 + 8 + 256 + 128 = 656 weights, the embedding, a unit of its own, 256. Forward,
 * the first layer is there beside the embedding, the second beside the first, and so on. */
static void sharded_weights(void **state)
{
    (void)state;
    struct subject s;
    struct degrees degrees = {.dp = 8, .shard = 3, .has_policy = true, .policy = POLICY_PURE_BF16};
    assert_true(
        predict(family("llama", "layers: 3, hidden: 8, heads: 2, ffn: 16, seq: 4, vocab: 32"),
                "dgx-a100", &degrees, &(struct simulate_options){0}, &s));
    const struct part_lifetimes *l = part_of(&s, 0);
    static const char *const UNIT[] = {"embedding", "layers.0.attn.norm", "layers.1.attn.norm",
                                       "layers.2.attn.norm"};
    const struct lifetime *unit[COUNT_OF(UNIT)];
    for (size_t i = 0; i < COUNT_OF(UNIT); i++) {
        unit[i] = find_life(&s, 0, UNIT[i], HELD_WEIGHTS);
        assert_int_equal(unit[i]->bytes, (i ? 656 : 256) * 2);
        assert_int_equal(unit[i]->memory, MEMORY_WEIGHTS);
    }
    for (size_t i = 2; i < COUNT_OF(UNIT); i++) {
        assert_true(unit[i]->born <= unit[i - 1]->dies); /* beside the one before */
        assert_true(unit[i]->born > unit[i - 2]->dies);
    }
    int64_t gradients = 0;
    for (int32_t i = 0; i < l->lives; i++)
        if (l->life[i].held == HELD_WEIGHT_GRADIENTS)
            gradients += l->life[i].bytes;
    /* each layer's, the embedding's and the head's 256 each, the last norm's 8: once, whole */
    assert_int_equal(gradients, (3 * 656 + 256 + 8 + 256) * 2);
    drop(&s);
}

/* The same under fsdp, whose streams have memory of their own: a layer's weights are brought into that of gathers
 * and copied out at its first use, and the eighth of all 3 * 656 + 520 gradients in fp32 that the device keeps is in
 * that of sums. Everything is small, so that each of the three reserves 2 MiB, and another policy one of them. The
 * root's weights are there in all of a pass where the software has them so. */
static void memory_of_streams(void **state)
{
    (void)state;
    static const char *const OPTIONS = "layers: 3, hidden: 8, heads: 2, ffn: 16, seq: 4, vocab: 32";
    struct subject s, other;
    struct degrees degrees = {.dp = 8, .shard = 3, .has_policy = true, .policy = POLICY_FSDP};
    degrees.software.word[FACT_ROOT] = ROOT_WHOLE;
    assert_true(
        predict(family("llama", OPTIONS), "dgx-a100", &degrees, &(struct simulate_options){0}, &s));
    const struct part_lifetimes *l = part_of(&s, 0);
    const struct lifetime *brought = find_life(&s, 0, "layers.1.attn.norm", HELD_WEIGHTS);
    assert_int_equal(brought->stream, MEMORY_GATHERED);
    assert_int_equal(brought[1].stream, MEMORY_COMPUTED);
    assert_int_equal(brought[1].born, brought->dies + 1);
    assert_int_equal(brought[1].bytes, brought->bytes);
    const struct lifetime *root = find_life(&s, 0, "embedding", HELD_WEIGHTS);
    assert_int_equal(root->born, -1);
    assert_true(root[1].dies > find_life(&s, 0, "loss", HELD_OUTPUT)->born);
    int64_t shares = 0;
    for (int32_t i = 0; i < l->lives; i++)
        shares += l->life[i].stream == MEMORY_REDUCED ? l->life[i].bytes : 0;
    assert_int_equal(shares, (3 * 656 + 256 + 8 + 256) * 4 / 8);
    assert_int_equal(s.prediction->stage[0].memory.reserved, 3 << 21);
    degrees.shard = 2; /* weights are gathered once, and stay */
    assert_true(predict(family("llama", OPTIONS), "dgx-a100", &degrees,
                        &(struct simulate_options){0}, &other));
    assert_int_equal(other.prediction->stage[0].memory.reserved, 3 << 21);
    drop(&other);
    degrees.shard = 3;
    degrees.policy = POLICY_MIXED_FP32_GRADIENTS;
    assert_true(predict(family("llama", OPTIONS), "dgx-a100", &degrees,
                        &(struct simulate_options){0}, &other));
    assert_int_equal(other.prediction->stage[0].memory.reserved, 1 << 21);
    assert_int_equal(brought->bytes, 656 * 2); /* weights in bf16, gradients in fp32 */
    assert_int_equal(find_life(&other, 0, "layers.1.attn.norm", HELD_WEIGHTS)->bytes, 656 * 2);
    assert_int_equal(find_life(&other, 0, "layers.1.attn.norm", HELD_WEIGHT_GRADIENTS)->bytes,
                     656 * 4);
    drop(&other);
    drop(&s);
}

/* The head of a GPT uses the embedding's table; on another stage it is a second copy with its
 * gradient and its optimizer state. One layer a stage, h = 64, V = 32. A layer, with biases: norms
 * 2 * 128, qkv 64 * 192 + 192, proj 64 * 64 + 64, up 64 * 256 + 256, down 256 * 64 + 64 = 49984;
 * first stage: table 32 * 64, positions 16 * 64; last: norm 128, table again 32 * 64. */
static void tied_table(void **state)
{
    (void)state;
    struct subject s;
    struct degrees degrees = {
        .dp = 4, .pp = 2, .global_batch = 8, .has_policy = true, .policy = POLICY_PURE_BF16};
    assert_true(predict(
        family("gpt", "layers: 2, hidden: 64, heads: 2, seq: 16, vocab: 32, max_positions: 16"),
        "dgx-a100", &degrees, &(struct simulate_options){0}, &s));
    assert_int_equal(state_of(&s, 0), (49984 + 32 * 64 + 16 * 64) * 8);
    assert_int_equal(state_of(&s, 1), (49984 + 128 + 32 * 64) * 8);
    drop(&s);
}

/* ---- in flight ------------------------------------------------------------------------------- */

/* h is so large that the ids of all micro-batches, 8 bytes a token against 2 h of a checkpoint, do
 * not make another one. */
static struct model *uniform(int64_t layers)
{
    char options[128];
    snprintf(options, sizeof options,
             "layers: %lld, hidden: 512, heads: 4, ffn: 64, seq: 8, vocab: 16", (long long)layers);
    return family("llama", options);
}
enum { CHECKPOINT = 8 * 512 * 2 }; /* bytes: 8 tokens */

/* Checkpoints on a stage at its peak, with one layer per piece, all recomputed. */
static int64_t checkpoints(const char *schedule, int32_t stages, int64_t pieces, int64_t batch,
                           int32_t stage, int64_t *in_flight)
{
    struct subject s;
    struct degrees degrees = {.dp = 8 / stages,
                              .pp = stages,
                              .global_batch = batch * (8 / stages),
                              .schedule = schedule,
                              .recompute = RECOMPUTE_FULL,
                              .has_policy = true,
                              .policy = POLICY_PURE_BF16};
    *(strcmp(schedule, "aiao") == 0 ? &degrees.segments : &degrees.pieces) = pieces;
    assert_true(
        predict(uniform(stages * pieces), "dgx-a100", &degrees, &(struct simulate_options){0}, &s));
    struct pipeline pipeline = {stages, (int32_t)pieces, (int32_t)batch};
    *in_flight = schedule_find(schedule)->in_flight(&pipeline, stage);
    int64_t count = s.prediction->stage[stage].memory.bytes[MEMORY_ACTIVATIONS] / CHECKPOINT;
    drop(&s);
    return count;
}

/* Fold3D, Eq. 6 for interleaved 1F1B, p (ns + 1) - 1 on the first stage; Eq. 7 for AIAO, ms ns. */
static void as_fold3d_says(void **state)
{
    (void)state;
    int64_t in_flight;
    for (int32_t p = 2; p <= 4; p += 2)
        for (int64_t ns = 2; ns <= 3; ns++) {
            assert_int_equal(checkpoints("interleaved", p, ns, 4 * p, 0, &in_flight),
                             p * (ns + 1) - 1);
            assert_int_equal(in_flight, p * (ns + 1) - 1);
            for (int64_t ms = p; ms <= 8; ms += p) {
                assert_int_equal(checkpoints("aiao", p, ns, ms, 0, &in_flight), ms * ns);
                assert_int_equal(in_flight, ms * ns);
            }
        }
}

static void as_schedules_say(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"gpipe", "1f1b"};
    for (size_t i = 0; i < COUNT_OF(NAMES); i++)
        for (int32_t stage = 0; stage < 3; stage++) { /* the last one has the loss, too */
            int64_t in_flight, count = checkpoints(NAMES[i], 4, 1, 8, stage, &in_flight);
            assert_int_equal(count, in_flight);
        }
}

/* AIAO, 2 stages, 1 piece, 8 micro-batches, offloaded: a checkpoint leaves while the next slot runs
 * and is back one slot ahead, so the device has at most that of the slot, of the one before, and in
 * the backward pass of the one past the last. The host has those of all: all forward slots are over before
 * the first backward slot starts, the last one's included. */
static void offloaded(void **state)
{
    (void)state;
    struct subject s;
    struct degrees degrees = {.dp = 4,
                              .pp = 2,
                              .segments = 2,
                              .global_batch = 32,
                              .recompute = RECOMPUTE_FULL,
                              .offload = true,
                              .has_policy = true,
                              .policy = POLICY_PURE_BF16};
    assert_true(predict(uniform(4), "dgx-a100", &degrees, &(struct simulate_options){0}, &s));
    assert_string_equal(s.plan->schedule, "aiao");
    const struct stage_peak *peak = &s.prediction->stage[0].memory;
    assert_int_equal(kept(&s, 2, true), CHECKPOINT);
    assert_true(peak->bytes[MEMORY_ACTIVATIONS] / CHECKPOINT <= 4);
    assert_in_range(peak->host, 15 * CHECKPOINT, 16 * CHECKPOINT);
    assert_true(peak->reserved >= peak->peak);
    drop(&s);
}

/* On one device everything that is kept is there at the end of the forward pass. */
static void as_the_model_says(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"llama3.2-1b", "vit-huge-32", "resnet-50", "vgg-16"};
    for (size_t i = 0; i < COUNT_OF(NAMES); i++) {
        struct subject s;
        struct model *model;
        struct degrees degrees = {.dp = 1, .global_batch = 1};
        assert_int_equal(model_open(NAMES[i], NULL, &model), WEFT_OK);
        assert_true(predict(model, "piz-daint", &degrees, &(struct simulate_options){0}, &s));
        double expected = model_totals(model, s.plan->dtype).kept_bytes;
        assert_int_equal(kept(&s, 0, false), (int64_t)expected);
        assert_true(model_peak_bytes(model, s.plan->dtype) >= expected);
        drop(&s);
    }
}

/* ---- random plans ---------------------------------------------------------------------------- */

static uint64_t seed = 20260101;

static int64_t pick(int64_t below)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((seed >> 33) % (uint64_t)below);
}

static const struct {
    const char *family, *options;
} MODELS[] = {
    {"llama", "layers: 8, hidden: 64, heads: 8, kv_heads: 4, seq: 32, vocab: 64"},
    {"llama", "layers: 4, hidden: 64, heads: 8, seq: 64, vocab: 64, loss: fused, attention: eager"},
    {"gpt", "layers: 8, hidden: 64, heads: 8, seq: 32, vocab: 64, attention: fused"},
    {"gpt", "layers: 4, hidden: 64, heads: 8, seq: 32, vocab: 64, parallel: true"},
    {"moe", "layers: 8, hidden: 64, heads: 8, seq: 32, vocab: 64, experts: 8, first_dense: 1"},
    {"moe", "layers: 4, hidden: 64, heads: 8, seq: 32, vocab: 64, experts: 4, kv_lora: 16"},
    {"t5", "layers: 4, hidden: 64, heads: 8, seq: 32, vocab: 64"},
    {"bert", "layers: 8, hidden: 64, heads: 8, seq: 32, vocab: 64"},
    {"vit", "layers: 4, hidden: 64, heads: 8, image: 32, patch: 8, classes: 8"},
};

static bool random_plan(struct subject *s)
{
    static const int64_t POWERS[] = {1, 1, 2, 4};
    const struct schedule *schedules;
    size_t count = schedule_all(&schedules);
    size_t m = (size_t)pick(COUNT_OF(MODELS));
    struct degrees d = {.tp = POWERS[pick(4)],
                        .pp = POWERS[pick(4)],
                        .cp = pick(4) ? 1 : 2,
                        .ep = pick(3) ? 1 : 2,
                        .sequence = pick(2),
                        .shard = (int)pick(4),
                        .recompute = (enum recompute)pick(RECOMPUTE_COUNT),
                        .offload = pick(3) == 0,
                        .micro_batch = 1 + pick(2),
                        .has_policy = true,
                        .policy = (enum policy)pick(POLICY_COUNT),
                        .has_overlap = true,
                        .overlap = (unsigned)pick(OVERLAP_EVERY + 1),
                        .has_bucket = pick(2),
                        .bucket_bytes = 1 << (8 + pick(10))};
    if (d.pp * d.tp * d.cp > 8)
        return false;
    d.dp = 8 / (d.pp * d.tp * d.cp);
    d.global_batch = d.dp * d.micro_batch * d.pp * (1 + pick(4));
    d.schedule = schedules[pick((int64_t)count)].name;
    d.pieces = pick(2) ? 1 : 2;
    return predict(family(MODELS[m].family, MODELS[m].options), "dgx-a100", &d,
                   &(struct simulate_options){.times_only = pick(4) != 0, .points = true}, s);
}

static int order_of(uint8_t kind)
{
    return kind == SLOT_FORWARD ? 0 : kind == SLOT_BACKWARD_WEIGHT ? 2 : 1;
}

/* Each is taken once and given back once, not before. */
static void check_balance(const struct part_lifetimes *part)
{
    int *taken = calloc((size_t)part->lives + 1, sizeof *taken);
    for (int32_t i = 0; i < part->lives; i++) {
        const struct lifetime *life = &part->life[i];
        assert_true(life->bytes > 0);
        assert_true(order_of(life->born_in) <= order_of(life->dies_in));
        assert_true(life->born_in != life->dies_in || life->born <= life->dies);
        assert_true(!life->offloaded || life->memory == MEMORY_ACTIVATIONS);
    }
    for (int pass = 0; pass < 3; pass++)
        for (int kind = 0; kind < SLOT_KIND_COUNT; kind++)
            for (int32_t i = 0; order_of((uint8_t)kind) == pass && i < part->events[kind].count;
                 i++) {
                const struct memory_event *m = &part->events[kind].event[i];
                assert_int_equal(taken[m->life], m->gives);
                taken[m->life] += m->gives ? 10 : 1;
            }
    for (int32_t i = 0; i < part->lives; i++)
        assert_int_equal(taken[i], 11);
    free(taken);
}

/* The naive reference: every micro-batch's tensors one by one. */
struct naive {
    const struct subject *s;
    int32_t stage;
    struct slots slots;
    bool *there; /* per piece, micro-batch and life */
    int64_t most_lives;
    int64_t bytes[MEMORY_CLASS_COUNT], peak, at_peak[MEMORY_CLASS_COUNT];
    int32_t slot;
};

static bool *place_of(struct naive *n, int32_t piece, int32_t micro_batch, int32_t life)
{
    int64_t row = piece * plan_micro_batches(n->s->plan) + micro_batch;
    return &n->there[row * n->most_lives + life];
}

static void change(struct naive *n, int32_t k, int32_t piece, int32_t micro_batch, int32_t number,
                   bool there)
{
    const struct lifetime *life =
        &part_of(n->s, piece * n->s->plan->stages + n->stage)->life[number];
    bool *place = place_of(n, piece, micro_batch, number);
    int64_t all = 0;
    assert_true(*place != there);
    *place = there;
    n->bytes[life->memory] += there ? life->bytes : -life->bytes;
    assert_true(n->bytes[life->memory] >= 0);
    for (int c = 0; c < MEMORY_CLASS_COUNT; c++)
        all += n->bytes[c];
    if (all > n->peak) {
        n->peak = all;
        n->slot = k;
        memcpy(n->at_peak, n->bytes, sizeof n->bytes);
    }
}

static void move_checkpoints(struct naive *n, int32_t k, const struct slot *slot, bool there)
{
    const struct part_lifetimes *part = part_of(n->s, slot->piece * n->s->plan->stages + n->stage);
    for (int32_t i = 0; i < part->lives; i++)
        if (part->life[i].offloaded)
            change(n, k, slot->piece, slot->micro_batch, i, there);
}

/* The slot that reads what this forward slot left, or -1. */
static int32_t reader_of(const struct naive *n, int32_t f)
{
    const struct slot *a = &n->slots.data[f];
    for (int32_t g = f + 1; g < (int32_t)n->slots.len; g++) {
        const struct slot *b = &n->slots.data[g];
        if ((b->kind == SLOT_BACKWARD || b->kind == SLOT_BACKWARD_INPUT) && a->piece == b->piece &&
            a->micro_batch == b->micro_batch)
            return g;
    }
    return -1;
}

static void move_all(struct naive *n, int32_t k)
{
    for (int32_t f = 0; f < k; f++) {
        if (n->slots.data[f].kind != SLOT_FORWARD)
            continue;
        int32_t g = reader_of(n, f);
        if (f + 2 < g - 1 && f + 2 == k)
            move_checkpoints(n, k, &n->slots.data[f], false);
    }
    for (int32_t f = 0; f < k; f++)
        if (n->slots.data[f].kind == SLOT_FORWARD && reader_of(n, f) == k + 1 && f + 2 < k)
            move_checkpoints(n, k, &n->slots.data[f], true);
}

static int32_t last_item(const struct part_lifetimes *part, enum slot_kind kind)
{
    int32_t last = -1;
    for (int32_t i = 0; i < part->lives; i++) {
        const struct lifetime *life = &part->life[i];
        if (life->born_in == kind && life->born > last)
            last = life->born;
        if (life->dies_in == kind && life->dies > last)
            last = life->dies;
    }
    return last;
}

static void replay(struct naive *n)
{
    const struct plan *plan = n->s->plan;
    struct arena *scratch = arena_new();
    struct pipeline pipeline = {plan->stages, (int32_t)plan->pieces,
                                (int32_t)plan_micro_batches(plan)};
    plan_schedule(plan)->order(&pipeline, n->stage, scratch, &n->slots);
    for (int32_t part = 0; part < plan->parts; part++)
        if (part_of(n->s, part)->lives > n->most_lives)
            n->most_lives = part_of(n->s, part)->lives;
    n->there = ARENA_ARRAY(scratch, bool,
                           (size_t)(plan->pieces * pipeline.micro_batches * n->most_lives) + 1);
    n->slot = -1;
    for (int32_t k = 0; k < (int32_t)n->slots.len; k++) {
        const struct slot *slot = &n->slots.data[k];
        const struct part_lifetimes *part = part_of(n->s, slot->piece * plan->stages + n->stage);
        move_all(n, k);
        for (int32_t item = -1; item <= last_item(part, slot->kind); item++)
            for (int gives = 0; gives < 2; gives++)
                for (int32_t i = 0; i < part->lives; i++) {
                    const struct lifetime *life = &part->life[i];
                    if ((gives ? life->dies_in : life->born_in) == slot->kind &&
                        (gives ? life->dies : life->born) == item)
                        change(n, k, slot->piece, slot->micro_batch, i, !gives);
                }
    }
    for (int c = 0; c < MEMORY_CLASS_COUNT; c++)
        assert_int_equal(n->bytes[c], 0);
    arena_free(scratch);
}

static void check_points(const struct subject *s, int32_t stage)
{
    const struct prediction *p = s->prediction;
    int64_t most = 0, all = 0;
    for (int64_t i = p->point_first[stage]; i < p->point_first[stage + 1]; i++) {
        all = 0;
        for (int k = 0; k < MEMORY_CLASS_COUNT; k++) {
            assert_true(p->point[i].bytes[k] >= p->stage[stage].memory.state[k]);
            all += p->point[i].bytes[k];
        }
        most = all > most ? all : most;
        assert_true(i == p->point_first[stage] || p->point[i].at_ns >= p->point[i - 1].at_ns);
    }
    if (plan_schedule(s->plan)->ahead)
        assert_true(most <= p->stage[stage].memory.peak);
    else
        assert_int_equal(most, p->stage[stage].memory.peak);
}

/* Two slots executed as one: each is fullest when the other is, which is more than one after the other by
 * what the first holds then and does not keep. */
static void check_paired_stage(const struct subject *s, int32_t stage, const struct naive *after)
{
    const struct stage_peak *peak = &s->prediction->stage[stage].memory;
    int64_t more = 0;
    for (int32_t part = stage; part < s->plan->parts; part += s->plan->stages) {
        const struct part_lifetimes *p = part_of(s, part);
        int64_t held = 0, most = 0;
        for (int32_t i = 0; i < p->events[SLOT_FORWARD].count; i++) {
            const struct memory_event *m = &p->events[SLOT_FORWARD].event[i];
            held += m->gives ? -p->life[m->life].bytes : p->life[m->life].bytes;
            most = held > most ? held : most;
        }
        more = most - held > more ? most - held : more;
    }
    assert_true(peak->peak >= state_of(s, stage) + after->peak);
    assert_true(peak->peak <= state_of(s, stage) + after->peak + more);
}

static void check_stage(const struct subject *s, int32_t stage)
{
    const struct stage_peak *peak = &s->prediction->stage[stage].memory;
    struct naive naive = {.s = s, .stage = stage};
    int64_t held = 0, all = 0;
    replay(&naive);
    struct stage_memory memory = plan_stage_memory(s->plan, stage, 0);
    int64_t step = (int64_t)memory.late + (int64_t)memory.step;
    if (peak->in_step) {
        assert_true(step > naive.peak);
        assert_int_equal(peak->peak, state_of(s, stage) + step);
    } else if (plan_schedule(s->plan)->ahead) {
        check_paired_stage(s, stage, &naive);
    } else {
        assert_int_equal(peak->peak, state_of(s, stage) + naive.peak);
        assert_int_equal(peak->slot, naive.slot);
        assert_int_equal(peak->bytes[MEMORY_ACTIVATIONS], naive.at_peak[MEMORY_ACTIVATIONS]);
        assert_int_equal(peak->bytes[MEMORY_WORKSPACE], naive.at_peak[MEMORY_WORKSPACE]);
    }
    for (int c = 0; c < MEMORY_CLASS_COUNT; c++)
        all += peak->bytes[c];
    assert_int_equal(all, peak->peak);
    for (int32_t i = 0; i < peak->holdings; i++) {
        held += peak->holding[i].bytes;
        assert_true(i == 0 || peak->holding[i].bytes <= peak->holding[i - 1].bytes);
    }
    assert_true(held <= peak->peak);
    assert_true(peak->reserved >= peak->peak);
    assert_true(peak->at_ns >= 0 && peak->at_ns <= s->prediction->iteration_ns);
    check_points(s, stage);
}

static void random_plans(void **state)
{
    (void)state;
    int plans = 0;
    for (int tries = 0; plans < 200 && tries < 10000; tries++) {
        struct subject s;
        if (!random_plan(&s))
            continue;
        for (int32_t part = 0; part < s.plan->parts; part++)
            check_balance(part_of(&s, part));
        for (int32_t stage = 0; stage < s.plan->stages; stage++)
            check_stage(&s, stage);
        drop(&s);
        plans++;
    }
    assert_int_equal(plans, 200);
}

static void in_words(void **state)
{
    (void)state;
    struct subject s;
    struct degrees degrees = {
        .dp = 4, .pp = 2, .global_batch = 16, .has_policy = true, .policy = POLICY_PURE_BF16};
    assert_true(predict(uniform(4), "dgx-a100", &degrees, &(struct simulate_options){0}, &s));
    const struct stage_peak *peak = &s.prediction->stage[0].memory;
    bool found = false;
    for (int32_t i = 0; i < peak->holdings; i++)
        found |= strcmp(peak->holding[i].what, "layers.0-1.attn.norm output, 2 micro-batches") == 0;
    assert_true(found);
    assert_string_equal(peak->holding[0].what, "optimizer state");
    drop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_by_hand),   cmocka_unit_test(gradients_made_apart),
        cmocka_unit_test(one_layer),         cmocka_unit_test(fused_loss),
        cmocka_unit_test(compiled_loss),     cmocka_unit_test(recomputed_layer),
        cmocka_unit_test(saved_outputs),     cmocka_unit_test(eager_loss),
        cmocka_unit_test(discarded_outputs), cmocka_unit_test(in_the_step),
        cmocka_unit_test(slices_by_hand),    cmocka_unit_test(fsdp_state),
        cmocka_unit_test(buffer_of_scores),  cmocka_unit_test(gathered_again),
        cmocka_unit_test(cast_inputs),       cmocka_unit_test(sharded_weights),
        cmocka_unit_test(memory_of_streams), cmocka_unit_test(tied_table),
        cmocka_unit_test(as_fold3d_says),    cmocka_unit_test(as_schedules_say),
        cmocka_unit_test(offloaded),         cmocka_unit_test(as_the_model_says),
        cmocka_unit_test(in_words),          cmocka_unit_test(random_plans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
