/* test_memory_lifetimes.c - when tensors of a layer are taken and given back, by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "subject.h"

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
 *   layernorm    the norm before experts or latents: one output of (4, 8), 64, and 4 * 4 of statistics  = 80;
 *                others are one kernel with the product after them, which keeps nothing of them     =  0
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
        {"llama", "", "layernorm", 0},
        {"moe", ", experts: 2, top_k: 1, expert_ffn: 16", "layernorm", 80},
        {"llama", ", q_lora: 4, kv_lora: 4, nope_dim: 4, rope_dim: 2, value_dim: 4", "layernorm",
         80},
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

/* The second part begins after the model's first operator: what it receives is no input of the model. */
static void first_operator_sends(void **state)
{
    (void)state;
    struct subject s;
    struct degrees degrees = {.pp = 2, .global_batch = 2, .layout = "E|tL"};
    assert_true(predict(family("llama", SMALL), "dgx-a100:1x2", &degrees,
                        &(struct simulate_options){0}, &s));
    assert_int_equal(find_life(&s, 0, "embedding", HELD_INPUT)->bytes, 32);
    assert_int_equal(find_life(&s, 1, "layers.0.attn.norm", HELD_RECEIVED)->bytes, 64);
    drop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_made_apart), cmocka_unit_test(one_layer),
        cmocka_unit_test(fused_loss),           cmocka_unit_test(compiled_loss),
        cmocka_unit_test(recomputed_layer),     cmocka_unit_test(saved_outputs),
        cmocka_unit_test(eager_loss),           cmocka_unit_test(discarded_outputs),
        cmocka_unit_test(in_the_step),          cmocka_unit_test(fsdp_state),
        cmocka_unit_test(buffer_of_scores),     cmocka_unit_test(first_operator_sends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
