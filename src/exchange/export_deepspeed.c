/* export_deepspeed.c - DeepSpeed's JSON configuration.
 *
 *   train_batch_size = train_micro_batch_size_per_gpu * gradient_accumulation_steps * dp        (1)
 *
 * which DeepSpeed asserts with all devices in place of dp under AutoTP: then it is left out, and follows.
 *
 * The training program makes the stages (PipelineModule(num_stages=...)); "pipeline" says how many
 * the plan has, with the keys of get_pipeline_config. Source: deepspeed.ai/docs/config-json and
 * DeepSpeed's runtime/config.py.
 *
 *   I1  What was written is read back (import_deepspeed.c) before it is returned; what only Weft reads is in "weft".
 */
#include "exchange/room.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static json_t *zero_json(const struct plan *plan, const struct degrees *d)
{
    bool overlap = (plan->overlap & OVERLAP_GRADIENTS) && d->pp == 1; /* no stages overlap */
    json_t *zero = json_pack("{s:i, s:b, s:b}", "stage", d->shard, "overlap_comm", overlap,
                             "contiguous_gradients", 1);
    json_int_t elements = plan_bucket_bytes(plan, d->dp) / bytes_per_gradient(plan->policy);
    if (elements) {
        json_object_set_new(zero, "reduce_bucket_size", json_integer(elements));
        if (d->shard == 3)
            json_object_set_new(zero, "stage3_prefetch_bucket_size", json_integer(elements));
        else
            json_object_set_new(zero, "allgather_bucket_size", json_integer(elements));
    }
    if (plan->optimizer_offload > 0) /* deepspeed/runtime/zero/offload_config.py */
        json_object_set_new(zero, "offload_optimizer",
                            json_pack("{s:s, s:b, s:f}", "device", "cpu", "pin_memory", 1, "ratio",
                                      plan->optimizer_offload));
    if (d->shard < 3)
        json_object_set_new(zero, "reduce_scatter", json_boolean(d->shard > 0));
    return zero;
}

static void set_precision(json_t *json, const struct plan *plan)
{
    bool fp16 = plan->dtype == DTYPE_FP16, bf16 = plan->dtype == DTYPE_BF16;
    if (fp16)
        json_object_set_new(json, "fp16", json_pack("{s:b, s:i}", "enabled", 1, "loss_scale", 0));
    if (bf16)
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

/* GPT-3's numbers (Brown et al., appendix B); DeepSpeed makes no optimizer without being told. Its Adam is AdamW unless it is
 * told otherwise, and Muon's matrices have a momentum of their own beside it (engine.py, _configure_basic_optimizer). */
static json_t *optimizer_params(enum update_rule rule)
{
    json_t *params = json_pack("{s:f}", "lr", 1e-4);
    bool descends = rule == UPDATE_SGD || rule == UPDATE_MOMENTUM;
    if (!descends)
        json_object_update_new(params, json_pack("{s:[f, f], s:f}", "betas", 0.9, 0.95,
                                                 "weight_decay", rule == UPDATE_ADAM ? 0.0 : 0.1));
    if (rule == UPDATE_ADAM)
        json_object_set_new(params, "adam_w_mode", json_false());
    if (rule == UPDATE_MOMENTUM || rule == UPDATE_MUON)
        json_object_set_new(params, "momentum", json_real(rule == UPDATE_MUON ? 0.95 : 0.9));
    return params;
}

/* ZeRO asks to be told that it may divide the state of SGD (zero/utils.py, ZERO_SUPPORTED_OPTIMIZERS). */
static void set_optimizer(struct export_job *job, json_t *json)
{
    enum update_rule rule = job->found.plan->optimizer;
    json_object_set_new(json, "optimizer",
                        json_pack("{s:s, s:o}", "type", job->target->optimizers[rule], "params",
                                  optimizer_params(rule)));
    if ((rule == UPDATE_SGD || rule == UPDATE_MOMENTUM) && job->found.degrees.shard > 0)
        json_object_set_new(json, "zero_allow_untested_optimizer", json_true());
    json_object_set_new(json, "scheduler",
                        json_pack("{s:s, s:{s:f, s:f, s:i}}", "type", "WarmupLR", "params",
                                  "warmup_min_lr", 0.0, "warmup_max_lr", 1e-4, "warmup_num_steps",
                                  100));
    json_object_set_new(json, "gradient_clipping", json_real(1.0));
    json_object_set_new(json, "steps_per_print", json_integer(1));
}

static const char *dumped(struct arena *keep, const json_t *json)
{
    char *text = json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    const char *copy = arena_printf(keep, "%s\n", text);
    free(text);
    return copy;
}

/* I1 */
static weft_status set_own(struct export_job *job, json_t *json)
{
    const struct plan *plan = job->found.plan;
    struct arena *scratch = arena_new();
    const char *text = dumped(scratch, json);
    struct import_input input = {.file = "exported file", .text = text, .len = strlen(text)};
    struct texts differences = {0}, notes = {0};
    struct plan *again = NULL;
    json_t *own = json_pack("{s:s}", "simulate", job_line(job, "deepspeed"));
    weft_status status;
    TRY(deepspeed_plan(scratch, &input, plan->model, plan->cluster, &again, &notes));
    plan_differences(scratch, plan, again, &differences);
    if (differences.len)
        TRY(failure("the file does not read back as the plan: %s", differences.data[0]));
    const char *settings = settings_written(job, plan, again);
    if (*settings)
        json_object_set_new(own, "settings", json_string(settings));
    const char *decided = settings_decided(job, plan, again);
    if (*decided)
        decides(job, "no key says %s; \"weft\" does, for weft import", decided);
    json_object_set(json, "weft", own);
done:
    json_decref(own);
    plan_free(again);
    arena_free(scratch);
    return status;
}

static json_t *config_json(struct export_job *job)
{
    const struct degrees *d = &job->found.degrees;
    const struct plan *plan = job->found.plan;
    json_t *json = json_object();
    if (d->tp == 1)
        json_object_set_new(json, "train_batch_size", json_integer(d->global_batch)); /* (1) */
    json_object_set_new(json, "train_micro_batch_size_per_gpu", json_integer(d->micro_batch));
    json_object_set_new(json, "gradient_accumulation_steps",
                        json_integer(d->global_batch / d->micro_batch / d->dp));
    set_optimizer(job, json);
    json_object_set_new(json, "zero_optimization", zero_json(plan, d));
    set_precision(json, plan);
    set_recompute(json, d);
    set_parallelism(job, json);
    return json;
}

weft_status write_deepspeed(struct export_job *job)
{
    const struct degrees *d = &job->found.degrees;
    const struct plan *plan = job->found.plan;
    json_t *json = config_json(job);
    weft_status status = set_own(job, json);
    job->out->text = status ? NULL : dumped(job->keep, json);
    json_decref(json);
    if (status)
        return status;
    if (d->recompute == RECOMPUTE_FULL && d->pp == 1)
        note(job, "wrap each layer in deepspeed.checkpointing.checkpoint");
    long long hosts = (long long)cluster_hosts(plan->cluster);
    note(job,
         "launch: deepspeed%s --num_nodes %lld --num_gpus %lld train.py --deepspeed_config FILE",
         hosts > 1 ? " --hostfile HOSTS" : "", hosts,
         (long long)cluster_host_devices(plan->cluster));
    return WEFT_OK;
}
