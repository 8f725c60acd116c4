/* test_memory_torch.c - what PyTorch holds beyond what a backward pass needs, by hand (cost/software.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "subject.h"

/* A tensor of (4, 8) in 16 bits has 64 bytes. */
static const char *const SMALL =
    "layers: 2, hidden: 8, heads: 2, ffn: 16, seq: 4, vocab: 32, loss: eager";

static void predicted(const char *software, struct degrees d, struct subject *out)
{
    char cluster[32];
    int64_t tp = d.tp ? d.tp : 1, pp = d.pp ? d.pp : 1;
    snprintf(cluster, sizeof cluster, "dgx-h100:1x%lld", (long long)(d.dp * tp * pp));
    d.has_policy = true;
    d.policy = POLICY_PURE_BF16;
    assert_int_equal(software_from_text(software, &d.software), WEFT_OK);
    assert_true(predict(family("llama", SMALL), cluster, &d, &(struct simulate_options){0}, out));
}

/* silu(gate) of 4 tokens and 16 features in each of two layers. */
static void gates_keep_one_more(void **state)
{
    (void)state;
    struct subject fused, apart;
    predicted("default", (struct degrees){.dp = 1}, &fused);
    predicted("default,gates=apart", (struct degrees){.dp = 1}, &apart);
    assert_int_equal(kept(&apart, 0, false) - kept(&fused, 0, false), 2 * 4 * 16 * 2);
    drop(&fused);
    drop(&apart);
}

/* Logits stay, and beside those in fp32 of half of the vocabulary, 4 * 16 * 4 bytes, there is a fourth. */
static void logits_that_stay(void **state)
{
    (void)state;
    for (int tp = 1; tp <= 2; tp++) {
        struct degrees d = {.dp = 1, .tp = tp};
        struct subject freed, stays;
        predicted("default", d, &freed);
        predicted("default,logits=kept", d, &stays);
        assert_int_equal(find_life(&freed, 0, "head", HELD_OUTPUT)->dies_in, SLOT_FORWARD);
        assert_int_equal(find_life(&stays, 0, "head", HELD_OUTPUT)->dies_in, SLOT_BACKWARD);
        int64_t more =
            stays.prediction->stage[0].memory.peak - freed.prediction->stage[0].memory.peak;
        int64_t logits = 4 * 32 / tp * 2;
        assert_int_equal(more, logits + (tp == 2 ? 4 * 16 * 4 : 0));
        drop(&freed);
        drop(&stays);
    }
}

/* Items of a part's backward block that gather inputs again. */
static int gathers_again(const struct subject *s)
{
    const struct graph *graph = s->prediction->graph;
    int found = 0;
    for (int32_t k = 0; k < graph->blocks; k++)
        for (int32_t i = 0; graph->block[k].kind == SLOT_BACKWARD && i < graph->block[k].items;
             i++) {
            const struct item *item = &graph->block[k].item[i];
            found += item->kind == ITEM_STEP && item->phase == FLOW_FORWARD &&
                     item->step->kind == COLLECTIVE_ALL_GATHER;
        }
    return found;
}

/* Inputs of qkv and of gate and up in each layer and that of the head: whole, not by halves. */
static void gathered_inputs_stay(void **state)
{
    (void)state;
    struct degrees d = {.dp = 1, .tp = 2, .sequence = true};
    struct subject again, stay;
    predicted("default", d, &again);
    predicted("default,gathered=kept", d, &stay);
    assert_int_equal(gathers_again(&again), 5);
    assert_int_equal(gathers_again(&stay), 0);
    assert_int_equal(find_life(&again, 0, "layers.0.attn.qkv", HELD_COPY)->dies_in, SLOT_FORWARD);
    assert_int_equal(find_life(&stay, 0, "layers.0.attn.qkv", HELD_COPY)->dies_in, SLOT_BACKWARD);
    assert_int_equal(kept(&stay, 0, false) - kept(&again, 0, false), 5 * 32);
    drop(&again);
    drop(&stay);
}

/* Four micro-batches: the second stage has four buffers for what it receives, the first three for gradients beside the one that
 * it reads. */
static void stages_that_hold(void **state)
{
    (void)state;
    struct degrees d = {.dp = 1, .pp = 2, .global_batch = 4};
    struct subject lean, held;
    predicted("default", d, &lean);
    predicted("default,stages=held", d, &held);
    assert_int_equal(part_of(&lean, 0)->buffers + part_of(&lean, 1)->buffers, 0);
    assert_int_equal(part_of(&held, 0)->buffers, 3 * 64);
    assert_int_equal(part_of(&held, 1)->buffers, 4 * 64);
    assert_int_equal(state_of(&held, 1) - state_of(&lean, 1), 4 * 64);
    assert_int_equal(find_life(&lean, 0, "layers.0.mlp.add", HELD_OUTPUT)->dies_in, SLOT_FORWARD);
    assert_int_equal(find_life(&held, 0, "layers.0.mlp.add", HELD_OUTPUT)->dies_in, SLOT_BACKWARD);
    assert_int_equal(find_life(&held, 1, "head", HELD_OUTPUT)->dies_in, SLOT_BACKWARD);
    drop(&lean);
    drop(&held);
}

/* Attention's output is read by the gradient of its inputs and by a product's weights; statistics of a norm by none of these. */
static void graphs_that_wait_for_weights(void **state)
{
    (void)state;
    struct degrees d = {.dp = 1, .pp = 2, .global_batch = 4, .schedule = "zb-h1"};
    struct subject lean, held;
    predicted("default", d, &lean);
    predicted("default,stages=held", d, &held);
    const char *gated = "layers.1.mlp.gate_up";
    assert_int_equal(find_life(&lean, 1, gated, HELD_OUTPUT)->dies_in, SLOT_BACKWARD_INPUT);
    assert_int_equal(find_life(&held, 1, gated, HELD_OUTPUT)->dies_in, SLOT_BACKWARD_WEIGHT);
    assert_int_equal(find_life(&held, 1, "loss", HELD_EXTRA)->dies_in, SLOT_BACKWARD_INPUT);
    drop(&lean);
    drop(&held);
}

/* A root and a quotient of the largest weight, 32 * 8, with moments of two bytes. */
static void one_tensor_at_a_time(void **state)
{
    (void)state;
    struct subject fused, single;
    predicted("default", (struct degrees){.dp = 1}, &fused);
    predicted("default,optimizer_step=single", (struct degrees){.dp = 1}, &single);
    assert_int_equal((int64_t)plan_stage_memory(fused.plan, 0, 1).single, 0);
    assert_int_equal((int64_t)plan_stage_memory(single.plan, 0, 1).single, 2 * 2 * 32 * 8);
    drop(&fused);
    drop(&single);
}

/* The items of a block that a part's whole root is there for, of those it has. */
static void root_without_the_loss(void **state)
{
    (void)state;
    struct subject s;
    struct degrees d = {.dp = 2, .shard = 3, .has_policy = true, .policy = POLICY_FSDP};
    assert_int_equal(software_from_text("default,root=whole", &d.software), WEFT_OK);
    assert_true(
        predict(family("llama", SMALL), "dgx-h100:1x2", &d, &(struct simulate_options){0}, &s));
    const struct part_lifetimes *part = part_of(&s, 0);
    int forward = 0, backward = 0;
    for (int32_t i = 0; i < part->lives; i++) {
        const struct lifetime *life = &part->life[i];
        const struct op *op = &s.model->op[s.plan->instance[life->instance].op];
        if (life->held != HELD_WEIGHTS || op_in_layer(s.model, op) ||
            life->stream != MEMORY_COMPUTED)
            continue;
        const struct graph *graph = s.prediction->graph;
        int32_t items = 0;
        for (int32_t k = 0; k < graph->blocks; k++)
            items = graph->block[k].kind == life->born_in ? graph->block[k].items : items;
        forward += life->born_in == SLOT_FORWARD && life->born == 0 && life->dies == items - 2;
        backward += life->born_in == SLOT_BACKWARD && life->born == 1 && life->dies == items;
    }
    assert_true(forward > 0 && backward > 0);
    drop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gates_keep_one_more),          cmocka_unit_test(logits_that_stay),
        cmocka_unit_test(gathered_inputs_stay),         cmocka_unit_test(stages_that_hold),
        cmocka_unit_test(graphs_that_wait_for_weights), cmocka_unit_test(one_tensor_at_a_time),
        cmocka_unit_test(root_without_the_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
