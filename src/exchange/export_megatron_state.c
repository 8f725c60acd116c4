/* export_megatron_state.c - where Megatron-LM keeps state, what updates it and how it is exchanged, as arguments. */
#include "exchange/export_megatron.h"

#include <string.h>

bool uses_megatron_fsdp(const struct degrees *degrees)
{
    return degrees->shard >= 2;
}

/* arguments.py (validate_args): the hybrid optimizer reuses the path of precision-aware ones. */
static void add_host_step(struct lines *a, const struct plan *plan)
{
    if (plan->optimizer_offload <= 0)
        return;
    add_flag(a, "optimizer-cpu-offload");
    add_word(a, "optimizer-offload-fraction", arena_printf(a->keep, "%g", plan->optimizer_offload));
    if (plan->policy != POLICY_BF16_MOMENTS && plan->policy != POLICY_BF16_MOMENTS_GRADIENTS)
        add_flag(a, "use-precision-aware-optimizer");
    if (software_word(&plan->software, FACT_HOST_STEP) == HOST_STEP_TENSORS)
        add_flag(a, "overlap-cpu-optimizer-d2h-h2d");
}

/* Built without memory, a module's weights are made where Megatron-FSDP divides them; else each device first holds the whole
 * model (megatron/training/training.py, get_model). They are made by reset_parameters (param_and_grad_buffer.py), which a
 * shared expert's gate has in neither release, and which for a table of positions is torch.nn.Embedding's own. */
static bool builds_without_memory(const struct degrees *d, const struct model_shape *s)
{
    return uses_megatron_fsdp(d) && !s->shared_gate;
}

void note_fsdp(struct export_job *job, const struct model_shape *s)
{
    const struct degrees *d = &job->found.degrees;
    if (uses_megatron_fsdp(d) && !builds_without_memory(d, s))
        note(job, "each device holds the whole model before it is divided: Megatron-LM cannot make "
                  "the gate of a shared expert later");
    if (builds_without_memory(d, s) && s->positions)
        note(job, "learned positions begin with a deviation of 1, as Megatron-FSDP makes them");
}

static void add_fsdp(struct lines *a, const struct degrees *d, const struct model_shape *s)
{
    if (!uses_megatron_fsdp(d))
        return;
    add_flag(a, "use-megatron-fsdp");
    add_word(a, "data-parallel-sharding-strategy",
             d->shard == 2 ? "optim_grads" : "optim_grads_params");
    if (builds_without_memory(d, s))
        add_flag(a, "init-model-with-meta-device");
    add_flag(a, "no-gradient-accumulation-fusion");
    add_word(a, "ckpt-format", "fsdp_dtensor");
}

void add_sharding(struct lines *a, const struct plan *plan, const struct degrees *d,
                  const struct model_shape *s)
{
    bool muon = plan->optimizer == UPDATE_MUON; /* which shares out whole matrices instead */
    if (d->shard >= 1 && !muon)
        add_flag(a, "use-distributed-optimizer");
    if (d->shard >= 1 && d->replicate > 1)
        add_int(a, "num-distributed-optimizer-instances", d->replicate);
    add_host_step(a, plan);
    add_fsdp(a, d, s);
    if (!(plan->overlap & OVERLAP_GRADIENTS))
        return;
    add_flag(a, "overlap-grad-reduce");
    int64_t bucket = plan_bucket_bytes(plan, plan_replicas(plan));
    if (bucket)
        add_int(a, "ddp-bucket-size", ceil_div(bucket, bytes_per_gradient(plan->policy)));
    else
        add_int(a, "ddp-num-buckets", 1);
    if (d->shard >= 1 && (plan->overlap & OVERLAP_PARAMETERS))
        add_flag(a, "overlap-param-gather");
}

/* Its usual one is left out; dist_ is how both releases say that replicas share out whole matrices. */
void add_optimizer(struct lines *a, const struct target *target, enum update_rule rule, int shard)
{
    const char *word = target->optimizers[rule];
    bool shared = rule == UPDATE_MUON && shard >= 1;
    if (strcmp(word, target->optimizers[UPDATE_ADAMW]) != 0)
        add_word(a, "optimizer", shared ? arena_printf(a->keep, "dist_%s", word) : word);
    if (rule == UPDATE_SGD)
        add_word(a, "sgd-momentum", "0.0"); /* whose default is 0.9 */
}
