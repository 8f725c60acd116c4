/* export_deepspeed.c - DeepSpeed's JSON configuration.
 *
 *   train_batch_size = train_micro_batch_size_per_gpu * gradient_accumulation_steps * dp        (1)
 *
 * The training program makes the stages (PipelineModule(num_stages=...)); "pipeline" says how many
 * the plan has, with the keys of get_pipeline_config. Source: deepspeed.ai/docs/config-json and
 * DeepSpeed's runtime/config.py.
 */
#include "exchange/room.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static json_t *zero_json(const struct plan *plan, const struct degrees *d)
{
    bool overlap = plan->overlap & OVERLAP_GRADIENTS;
    json_t *zero = json_pack("{s:i, s:b, s:b}", "stage", d->shard, "overlap_comm", overlap,
                             "contiguous_gradients", 1);
    json_int_t elements = plan->bucket_bytes / bytes_per_gradient(plan->policy);
    if (plan->bucket_bytes) {
        json_object_set_new(zero, "reduce_bucket_size", json_integer(elements));
        if (d->shard == 3)
            json_object_set_new(zero, "stage3_prefetch_bucket_size", json_integer(elements));
        else
            json_object_set_new(zero, "allgather_bucket_size", json_integer(elements));
    }
    if (d->shard < 3)
        json_object_set_new(zero, "reduce_scatter", json_boolean(d->shard > 0));
    return zero;
}

static void set_precision(json_t *json, const struct plan *plan)
{
    bool fp16 = plan->dtype == DTYPE_FP16, bf16 = plan->dtype == DTYPE_BF16;
    if (fp16)
        json_object_set_new(json, "fp16", json_pack("{s:b, s:i}", "enabled", 1, "loss_scale", 0));
    if (bf16 || dtype_is_cast(plan->dtype))
        json_object_set_new(json, "bf16", json_pack("{s:b}", "enabled", 1));
    if (fp16 || bf16)
        json_object_set_new(json, "data_types",
                            json_pack("{s:s}", "grad_accum_dtype",
                                      bytes_per_gradient(plan->policy) == 4 ? "fp32"
                                      : fp16                                ? "fp16"
                                                                            : "bf16"));
}

static void set_recompute(json_t *json, const struct degrees *d)
{
    if (d->recompute == RECOMPUTE_NONE)
        return;
    json_object_set_new(json, "activation_checkpointing",
                        json_pack("{s:b, s:b, s:b}", "partition_activations", 0,
                                  "cpu_checkpointing", (int)d->offload,
                                  "contiguous_memory_optimization", 0));
}

static void set_parallelism(struct export_job *job, json_t *json)
{
    const struct degrees *d = &job->found.degrees;
    if (d->tp > 1)
        json_object_set_new(json, "tensor_parallel",
                            json_pack("{s:I}", "autotp_size", (json_int_t)d->tp));
    if (d->pp == 1)
        return;
    json_object_set_new(json, "pipeline",
                        json_pack("{s:I, s:s, s:I}", "stages", (json_int_t)d->pp, "partition",
                                  "uniform", "activation_checkpoint_interval",
                                  (json_int_t)(d->recompute == RECOMPUTE_FULL)));
    note(job,
         "build the model with PipelineModule(..., num_stages=%lld, "
         "partition_method='uniform')",
         (long long)d->pp);
}

weft_status write_deepspeed(struct export_job *job)
{
    const struct degrees *d = &job->found.degrees;
    const struct plan *plan = job->found.plan;
    json_t *json = json_pack("{s:I, s:I, s:I}", "train_batch_size", (json_int_t)d->global_batch,
                             "train_micro_batch_size_per_gpu", (json_int_t)d->micro_batch,
                             "gradient_accumulation_steps",
                             (json_int_t)(d->global_batch / d->micro_batch / d->dp)); /* (1) */
    json_object_set_new(json, "zero_optimization", zero_json(plan, d));
    set_precision(json, plan);
    set_recompute(json, d);
    set_parallelism(job, json);
    json_object_set_new(json, "weft", json_pack("{s:s}", "simulate", job_line(job, "deepspeed")));
    char *text = json_dumps(json, JSON_INDENT(2));
    job->out->text = arena_printf(job->keep, "%s\n", text);
    free(text);
    json_decref(json);
    if (d->recompute == RECOMPUTE_FULL && d->pp == 1)
        note(job, "wrap each layer in deepspeed.checkpointing.checkpoint");
    note(job, "launch: deepspeed --num_nodes %lld --num_gpus %lld train.py --deepspeed_config FILE",
         (long long)cluster_hosts(plan->cluster), (long long)cluster_host_devices(plan->cluster));
    return WEFT_OK;
}
