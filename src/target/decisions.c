/* decisions.c - what a framework decides otherwise than a plan that it runs: no word of the file that starts it
 * changes that. A list for each framework, which its rows name; an export is exact where none of it holds.
 */
#include <string.h>

#include "schedule/schedule.h"
#include "target/room.h"

/* ---- overlap --------------------------------------------------------------------------------- */

static bool overlaps(const struct decided_plan *of, unsigned what)
{
    return of->plan->overlap & what;
}

static bool overlaps_anything(const struct decided_plan *of)
{
    return overlaps(of, OVERLAP_EVERY);
}

static bool overlaps_products_across_nodes(const struct decided_plan *of)
{
    return of->d->tp > of->plan->cluster->node.devices && overlaps(of, OVERLAP_PRODUCTS);
}

static bool hides_recomputed_tokens(const struct decided_plan *of)
{
    return plan_schedule(of->plan)->ahead && of->d->recompute == RECOMPUTE_FULL;
}

/* Of models by a pattern there is no build_schedule_plan (core/models/gpt/gpt_model.py has it alone). */
static bool hides_tokens_by_pattern(const struct decided_plan *of)
{
    return plan_schedule(of->plan)->ahead && of->shape->pattern[0];
}

static bool waits_for_tensors(const struct decided_plan *of)
{
    return of->d->tp > 1 && !overlaps(of, OVERLAP_TENSOR);
}

static bool overlaps_sends_of_a_piece(const struct decided_plan *of)
{
    return of->d->pp > 1 && of->d->pieces == 1 && overlaps(of, OVERLAP_PIPELINE);
}

static bool overlaps_gradients_of_stages(const struct decided_plan *of)
{
    return of->d->pp > 1 && overlaps(of, OVERLAP_GRADIENTS);
}

static bool waits_for_buckets(const struct decided_plan *of)
{
    return of->d->dp * of->d->cp > 1 && !overlaps(of, OVERLAP_GRADIENTS) && of->plan->bucket_bytes;
}

static bool overlaps_half_of_tp(const struct decided_plan *of)
{
    return of->d->tp > 1 && overlaps(of, OVERLAP_TENSOR) != overlaps(of, OVERLAP_PRODUCTS);
}

static bool overlaps_tp_beside_sinks(const struct decided_plan *of)
{
    return of->d->tp > 1 && of->shape->sinks && overlaps(of, OVERLAP_TENSOR) &&
           overlaps(of, OVERLAP_PRODUCTS);
}

/* Of any operator: strategies are by layer. */
static bool overlaps_products(const struct decided_plan *of)
{
    bool split = false;
    for (int64_t i = 0; i < of->plan->instances; i++) {
        const struct split *own = &plan_choice(of->plan, i)->split;
        split |= split_devices(own) != split_degree(own, DIM_BATCH);
    }
    return split && overlaps(of, OVERLAP_PRODUCTS);
}

/* ---- kernels --------------------------------------------------------------------------------- */

static bool names_flash_version(const struct decided_plan *of)
{
    return of->shape->attention && strncmp(of->shape->attention, "flash-", 6) == 0;
}

static bool keeps_scores(const struct decided_plan *of)
{
    return of->shape->attention && strncmp(of->shape->attention, "flash", 5) != 0;
}

static bool compiles_loss(const struct decided_plan *of)
{
    return of->shape->loss && strcmp(of->shape->loss, "compiled") == 0;
}

static bool has_eager_loss(const struct decided_plan *of)
{
    return of->shape->loss && strcmp(of->shape->loss, "eager") == 0;
}

static bool adapts_otherwise(const struct decided_plan *of)
{
    const struct model_shape *s = of->shape;
    return s->lora && (s->apart || s->qk_norm || s->lora_modules == LORA_ALL);
}

static bool has_products_apart(const struct decided_plan *of)
{
    return of->shape->apart;
}

/* ---- data ------------------------------------------------------------------------------------ */

static bool keeps_documents_apart(const struct decided_plan *of)
{
    return of->shape->document;
}

static bool has_popular_experts(const struct decided_plan *of)
{
    return of->shape->skew > 0;
}

/* Attention over packed sequences takes their borders from the data, and launch arguments do not say what these are like. */
#define THE_DATA_DECIDES                                                                           \
    {keeps_documents_apart,                                                                        \
     "which documents share a sequence is the data's, and whether attention goes across them the " \
     "loader's; the plan keeps documents apart"},                                                  \
        {has_popular_experts,                                                                      \
         "which experts tokens choose is what the router learns; the plan has a power law"}

/* The library behind --moe-enable-deepep sends over the network once to each node. */
static bool sends_once_to_each_device(const struct decided_plan *of)
{
    enum token_copies own = of->shape->copies;
    return of->shape->experts &&
           (own == COPIES_DEVICES ||
            (own == COPIES_EXPERTS &&
             software_word(&of->plan->software, FACT_DISPATCH) == DISPATCH_DEVICES));
}

/* ---- encoders of images ---------------------------------------------------------------------- */

static bool divides_images(const struct decided_plan *of)
{
    const struct plan *plan = of->plan;
    for (int64_t i = 0; i < plan->instances; i++)
        if (plan->model->op[plan->instance[i].op].place == PLACE_TOWER &&
            split_degree(&plan_choice(plan, i)->split, DIM_SEQ) > 1)
            return true;
    return false;
}

/* ---- precision ------------------------------------------------------------------------------- */

static bool trains_in_fp16(const struct decided_plan *of)
{
    return of->plan->dtype == DTYPE_FP16;
}

static bool stretches_otherwise(const struct decided_plan *of)
{
    return of->shape->rope_scaling > 0 && of->shape->stretch.kind == ROPE_LLAMA3 &&
           of->shape->rope_scaling != MEGATRON_ROPE_SCALING;
}

static bool decays_as_gradients(const struct decided_plan *of)
{
    return of->plan->optimizer == UPDATE_ADAM;
}

static bool has_16_bit_gradients(const struct decided_plan *of)
{
    return of->plan->policy == POLICY_MIXED;
}

static bool gathers_from_masters(const struct decided_plan *of)
{
    return of->plan->policy == POLICY_FSDP;
}

/* ---- the lists ------------------------------------------------------------------------------- */

/* megatron/core: tensor_parallel/layers.py, pipeline_parallel/schedules.py, transformer/transformer_config.py,
 * distributed/distributed_data_parallel.py. */
const struct decision MEGATRON_DECIDES[] = {
    THE_DATA_DECIDES,
    {sends_once_to_each_device,
     "Megatron-LM sends a token to each of its experts, or with DeepEP once to each of their "
     "nodes; the plan once to each of their devices"},
    {names_flash_version,
     "a version of flash attention: Megatron-LM takes the one that is installed"},
    {compiles_loss, "a compiled loss: Megatron-LM's fused one writes over the logits"},
    {has_eager_loss, "an eager loss: Megatron-LM's writes fewer tensors"},
    {has_products_apart, "query, key, value, gate and up apart: Megatron-LM joins them"},
    {overlaps_products_across_nodes,
     "--tp-comm-overlap needs the devices of a tensor-parallel group in one node"},
    {hides_recomputed_tokens,
     "--overlap-moe-expert-parallel-comm does not go with full recomputation; the plan has both"},
    {hides_tokens_by_pattern,
     "--overlap-moe-expert-parallel-comm does not go with layers by a pattern; the plan has both"},
    {waits_for_tensors,
     "Megatron-LM overlaps tensor exchanges with weight gradients; the plan does not"},
    {overlaps_sends_of_a_piece, "Megatron-LM's 1f1b waits for its sends; the plan overlaps them"},
    {divides_images,
     "pretrain_vlm.py divides no positions of images and projector by tp; the plan does"},
    {stretches_otherwise,
     "Megatron-LM stretches positions by 8, whatever --rope-scaling-factor says; the model by "
     "another factor"},
    {decays_as_gradients,
     "Megatron-LM's Adam decays weights apart from gradients (AdamW); the plan's is Adam"},
    {waits_for_buckets,
     "without overlap Megatron-LM synchronises gradients at once; the plan in buckets"},
    {0},
};
/* torchtitan/config/job_config.py, enable_async_tensor_parallel; until 0.2.2 models/gpt_oss/infra/parallelize.py leaves
 * it out (enable_async_tp=False), and on the main branch distributed/compile.py has it for all models. */
#define ASYNC_TP                                                                                   \
    {overlaps_half_of_tp,                                                                          \
     "torchtitan's async TP overlaps as `tensor` and `products` do; the plan has one"}
/* components/lora.py: each Linear has one of its own; models have wqkv, w1, w2 and w3 (fuse_qkv of models/llama3). */
const struct decision TITAN_DECIDES[] = {
    THE_DATA_DECIDES,
    ASYNC_TP,
    {adapts_otherwise, "torchtitan has one adapter for queries, keys and values, and one for each "
                       "product of an MLP; the plan has others"},
    {0},
};
const struct decision TITAN_0_2_DECIDES[] = {
    THE_DATA_DECIDES,
    ASYNC_TP,
    {overlaps_tp_beside_sinks,
     "torchtitan 0.2.2 has no async TP for gpt-oss; the plan overlaps `tensor` and `products`"},
    {0},
};
/* deepspeed/runtime/engine.py, _configure_zero_optimizer. */
const struct decision DEEPSPEED_DECIDES[] = {
    {overlaps_gradients_of_stages,
     "DeepSpeed synchronises gradients of stages after all passes; the plan during them"},
    {0},
};
/* The script that is written (src/exchange/scripts/fsdp.py). */
const struct decision FSDP_DECIDES[] = {
    THE_DATA_DECIDES,
    {trains_in_fp16, "fp16 needs a scaled loss, which the script does not have; bf16 does not"},
    {has_16_bit_gradients, "the script keeps gradients in fp32: --policy fsdp predicts it"},
    {keeps_scores, "the script's attention keeps no scores: --set attention=flash predicts it"},
    {0},
};
/* runtime/megatron/training.py and p2p_communication.py of microsoft/SuperScaler. */
const struct decision ACESO_DECIDES[] = {
    {overlaps_anything, "Aceso's runtime waits for each exchange, and adds up gradients after all "
                        "passes: --overlap none --bucket whole predicts it"},
    {0},
};
/* src/run/rank/stores.c, I2. */
const struct decision RUNTIME_DECIDES[] = {
    {has_16_bit_gradients,
     "the runtime keeps gradients in fp32: --policy mixed-fp32-gradients predicts it"},
    {gathers_from_masters, "the runtime keeps 16-bit weights beside their fp32 masters: --policy "
                           "mixed-fp32-gradients predicts it"},
    {0},
};
/* galvatron/core/runtime/tensor_parallel. */
const struct decision GALVATRON_DECIDES[] = {
    THE_DATA_DECIDES,
    {overlaps_products,
     "Galvatron does not overlap products with their own collectives; the plan does"},
    {0},
};

void target_decisions(struct arena *keep, const struct target *target, const struct plan *plan,
                      const struct degrees *degrees, struct texts *out)
{
    struct model_shape shape = {0};
    struct decided_plan of = {plan, degrees, &shape};
    if (target->decides && shape_of_model(plan->model, &shape))
        error_clear();
    for (const struct decision *d = target->decides; d && d->differs; d++)
        if (d->differs(&of))
            add_text(keep, out, d->text);
}
