/* export_torchtitan.c - torchtitan's job configuration.
 *
 * Sections and keys are those of torchtitan/config/job_config.py (commit 6404b932, the last form in
 * TOML; later versions take the same keys as --section.key on the command line). A sample is a
 * sequence. local_batch_size is the samples of one replica in one pass, which a pipeline divides into
 * micro-batches:
 *
 *   global_batch_size = local_batch_size * dp * accumulation steps                              (1)
 *
 *   I1  TP always comes with sequence parallelism (models/llama3/infra/parallelize.py).
 *   I2  FSDP with reshard_after_forward is ZeRO-3, without it ZeRO-2; replicas alone are ZeRO-0.
 */
#include "exchange/room.h"

#include <string.h>

/* Flavors of models that torchtitan ships, by the sizes that tell them apart. */
static const struct {
    const char *name, *flavor;
    int64_t layers, hidden, kv_heads, ffn;
} FLAVORS[] = {
    {"llama3", "8B", 32, 4096, 8, 14336},
    {"llama3", "70B", 80, 8192, 8, 28672},
    {"llama3", "405B", 126, 16384, 8, 53248},
};

struct toml {
    struct arena *keep;
    const char *text;
};

static void section(struct toml *t, const char *name)
{
    t->text = arena_printf(t->keep, "%s\n[%s]\n", t->text, name);
}

static void set_int(struct toml *t, const char *key, int64_t value)
{
    t->text = arena_printf(t->keep, "%s%s = %lld\n", t->text, key, (long long)value);
}

static void set_word(struct toml *t, const char *key, const char *value)
{
    t->text = arena_printf(t->keep, "%s%s = \"%s\"\n", t->text, key, value);
}

static void set_bool(struct toml *t, const char *key, bool value)
{
    t->text = arena_printf(t->keep, "%s%s = %s\n", t->text, key, value ? "true" : "false");
}

static void write_model(struct export_job *job, struct toml *t, const struct model_shape *s)
{
    section(t, "model");
    for (size_t i = 0; i < COUNT_OF(FLAVORS) && s->family == SHAPE_LLAMA; i++)
        if (FLAVORS[i].layers == s->layers && FLAVORS[i].hidden == s->hidden &&
            FLAVORS[i].kv_heads == s->kv_heads && FLAVORS[i].ffn == s->ffn) {
            set_word(t, "name", FLAVORS[i].name);
            set_word(t, "flavor", FLAVORS[i].flavor);
            return;
        }
    set_word(t, "name", s->family == SHAPE_MOE ? "deepseek_v3" : "llama3");
    set_word(t, "flavor", "custom");
    note(job,
         "add a flavor \"custom\" to torchtitan's model: %lld layers, dim %lld, %lld heads, "
         "%lld key/value heads, ffn %lld, vocabulary %lld",
         (long long)s->layers, (long long)s->hidden, (long long)s->heads, (long long)s->kv_heads,
         (long long)(s->ffn ? s->ffn : s->expert_ffn), (long long)s->vocab);
}

static void write_training(struct toml *t, const struct recognised *r, const struct model_shape *s)
{
    const struct degrees *d = &r->degrees;
    int64_t passes = d->global_batch / d->dp / d->micro_batch;
    section(t, "training");
    set_int(t, "local_batch_size", d->pp > 1 ? d->micro_batch * passes : d->micro_batch); /* (1) */
    set_int(t, "global_batch_size", d->global_batch);
    set_int(t, "seq_len", s->seq);
    bool narrow = r->plan->dtype != DTYPE_FP32 && r->plan->dtype != DTYPE_TF32;
    set_word(t, "mixed_precision_param", narrow ? "bfloat16" : "float32");
    set_word(t, "mixed_precision_reduce", "float32");
}

static const char *fqn_list(struct arena *keep, const struct plan *plan)
{
    const int64_t *layers = layers_of_parts(keep, plan);
    const char *text = "[";
    int64_t next = 0;
    for (int32_t p = 0; p < plan->parts; p++) {
        const char *names = p == 0 ? "\"tok_embeddings\"" : "";
        for (int64_t i = 0; i < layers[p]; i++, next++)
            names = arena_printf(keep, "%s%s\"layers.%lld\"", names, *names ? ", " : "",
                                 (long long)next);
        if (p == plan->parts - 1)
            names = arena_printf(keep, "%s%s\"norm\", \"output\"", names, *names ? ", " : "");
        text = arena_printf(keep, "%s\n    [%s],", text, names);
    }
    return arena_printf(keep, "%s\n]", text);
}

static void write_pipeline(struct toml *t, const struct recognised *r)
{
    static const struct {
        const char *ours, *theirs;
    } SCHEDULES[] = {{"1f1b", "1F1B"}, {"interleaved", "Interleaved1F1B"}, {"gpipe", "GPipe"}};
    const struct degrees *d = &r->degrees;
    set_int(t, "pipeline_parallel_degree", d->pp);
    if (d->pp == 1)
        return;
    for (size_t i = 0; i < COUNT_OF(SCHEDULES); i++)
        if (strcmp(SCHEDULES[i].ours, d->schedule) == 0)
            set_word(t, "pipeline_parallel_schedule", SCHEDULES[i].theirs);
    set_int(t, "pipeline_parallel_microbatch_size", d->micro_batch);
    t->text = arena_printf(t->keep, "%smodule_fqns_per_model_part = %s\n", t->text,
                           fqn_list(t->keep, r->plan));
}

/* Async TP overlaps exchanges with the products around them, in both passes; without it nothing overlaps. */
static bool is_async(const struct recognised *r)
{
    return r->degrees.tp > 1 && (r->plan->overlap & (OVERLAP_TENSOR | OVERLAP_PRODUCTS));
}

static void note_async(struct export_job *job)
{
    unsigned both = OVERLAP_TENSOR | OVERLAP_PRODUCTS;
    if (is_async(&job->found) && (job->found.plan->overlap & both) != both)
        decides(job,
                "torchtitan's async TP overlaps as `tensor` and `products` do; the plan has one");
}

static void write_parallelism(struct toml *t, const struct recognised *r)
{
    const struct degrees *d = &r->degrees;
    section(t, "parallelism");
    set_int(t, "data_parallel_replicate_degree", d->shard == 0 ? d->dp : 1); /* I2 */
    set_int(t, "data_parallel_shard_degree", d->shard == 0 ? 1 : d->dp);
    if (d->shard)
        set_word(t, "fsdp_reshard_after_forward", d->shard == 3 ? "always" : "never");
    set_int(t, "tensor_parallel_degree", d->tp);
    set_bool(t, "enable_async_tensor_parallel", is_async(r));
    set_int(t, "context_parallel_degree", d->cp);
    set_int(t, "expert_parallel_degree", d->ep);
    write_pipeline(t, r);
}

static void write_recompute(struct toml *t, const struct recognised *r)
{
    bool products = r->block == BLOCK_PRODUCTS;
    section(t, "activation_checkpoint");
    set_word(t, "mode",
             products                                 ? "selective"
             : r->degrees.recompute == RECOMPUTE_FULL ? "full"
                                                      : "none");
    if (products)
        set_word(t, "selective_ac_option", "op");
}

weft_status write_torchtitan(struct export_job *job)
{
    struct toml t = {.keep = job->keep};
    struct model_shape shape;
    weft_status status;
    TRY(shape_of_model(job->plan->model, &shape));
    t.text = arena_printf(job->keep,
                          "# torchtitan's configuration for %s, written by weft.\n"
                          "# Predicted by: %s\n",
                          plan_title(job->keep, job->plan), job_line(job, "torchtitan"));
    section(&t, "job");
    set_word(&t, "description", plan_title(job->keep, job->plan));
    write_model(job, &t, &shape);
    if (job->plan->dtype == DTYPE_FP8)
        t.text = arena_printf(job->keep, "%sconverters = [\"float8\"]\n", t.text);
    if (job->plan->dtype == DTYPE_NVFP4)
        decides(job, "nvfp4 products need torchtitan's NVFP4 converter; the file trains in bf16");
    write_training(&t, &job->found, &shape);
    if (is_async(&job->found))
        set_bool(&t, "compile", true); /* async TP needs it */
    write_parallelism(&t, &job->found);
    write_recompute(&t, &job->found);
    note_async(job);
    job->out->text = t.text;
done:
    return status;
}
