/* export_fsdp.c - a training script for PyTorch's FSDP2: the plan's numbers as a Python dict, followed
 * by code that is the same for every plan.
 *
 *   global_batch = micro_batch * devices * accumulation steps
 */
#include "exchange/export_fsdp.h"

#include <string.h>

void put_int(struct script *s, const char *key, int64_t value)
{
    s->text = arena_printf(s->keep, "%s    \"%s\": %lld,\n", s->text, key, (long long)value);
}

void put_bool(struct script *s, const char *key, bool value)
{
    s->text = arena_printf(s->keep, "%s    \"%s\": %s,\n", s->text, key, value ? "True" : "False");
}

void put_word(struct script *s, const char *key, const char *value)
{
    s->text = arena_printf(s->keep, "%s    \"%s\": \"%s\",\n", s->text, key, value);
}

void put_python(struct script *s, const char *key, const char *value)
{
    s->text = arena_printf(s->keep, "%s    \"%s\": %s,\n", s->text, key, value);
}

static void put_real(struct script *s, const char *key, double value)
{
    s->text = arena_printf(s->keep, "%s    \"%s\": %.12g,\n", s->text, key, value);
}

static void put_experts(struct script *s, const struct model_shape *shape)
{
    put_int(s, "experts", shape->experts);
    if (!shape->experts)
        return;
    put_int(s, "top_k", shape->top_k);
    put_int(s, "expert_ffn", shape->expert_ffn);
    put_int(s, "shared_ffn", shape->shared_ffn);
    put_int(s, "first_dense", shape->first_dense);
    put_int(s, "moe_every", shape->moe_every);
    put_word(s, "router", ROUTER_WORDS[shape->routing.scores]);
    put_real(s, "router_scale", shape->routing.scale);
    put_word(s, "balance", BALANCE_WORDS[shape->routing.balance]);
    put_real(s, "balance_weight", shape->routing.balance_weight);
}

void put_model(struct script *s, const struct model_shape *shape)
{
    bool decoder = shape->family == SHAPE_LLAMA || shape->family == SHAPE_MOE;
    put_int(s, "layers", shape->layers);
    put_int(s, "hidden", shape->hidden);
    put_int(s, "heads", shape->heads);
    put_int(s, "kv_heads", shape->kv_heads);
    put_int(s, "head_dim", shape->head_dim);
    put_int(s, "ffn", shape->ffn);
    put_int(s, "seq", shape->seq);
    put_int(s, "vocab", shape->vocab);
    put_int(s, "positions", shape->positions);
    put_bool(s, "rotary", shape->rotary);
    put_real(s, "rope_base", shape->rope_base);
    put_real(s, "rope_scaling", shape->rope_scaling);
    put_word(s, "rope_type", shape->rope_scaling > 0 ? ROPE_WORDS[shape->stretch.kind] : "");
    put_int(s, "rope_learned", shape->stretch.learned);
    put_bool(s, "rms_norm", decoder);
    put_real(s, "norm_epsilon", shape->norm_epsilon);
    put_word(s, "gate", !decoder ? "" : shape->geglu ? "gelu" : "silu");
    put_bool(s, "qk_norm", shape->qk_norm);
    put_bool(s, "end_norm", shape->end_norm);
    put_bool(s, "qkv_apart", shape->apart || shape->qk_norm);
    put_bool(s, "gate_apart", shape->apart);
    put_bool(s, "bias", shape->bias);
    put_bool(s, "qkv_bias", shape->bias || shape->qkv_bias);
    put_bool(s, "tied", shape->tied);
    put_bool(s, "dropout", shape->dropout);
    put_experts(s, shape);
}

const char *torch_type(enum dtype dtype)
{
    return dtype == DTYPE_FP32 || dtype == DTYPE_TF32 ? "fp32"
           : dtype == DTYPE_FP16                      ? "fp16"
                                                      : "bf16";
}

void put_optimizer(struct script *s, const struct export_job *job)
{
    enum update_rule rule = job->found.plan->optimizer;
    put_word(s, "optimizer", job->target->optimizers[rule]);
    put_real(s, "momentum", rule == UPDATE_MOMENTUM ? 0.9 : 0);
}

void put_training(struct script *s, const struct export_job *job)
{
    const struct degrees *d = &job->found.degrees;
    const struct plan *plan = job->found.plan;
    put_optimizer(s, job);
    put_int(s, "micro_batch", d->micro_batch);
    put_int(s, "global_batch", d->global_batch);
    put_int(s, "zero", d->shard);
    put_bool(s, "recompute", d->recompute == RECOMPUTE_FULL);
    put_word(s, "dtype", torch_type(plan->dtype));
    put_word(s, "reduce_dtype",
             bytes_per_gradient(plan->policy) == 4 ? "fp32" : torch_type(plan->dtype));
}

void script_begin(struct script *s, struct export_job *job)
{
    *s = (struct script){.keep = job->keep};
    s->text = arena_printf(
        job->keep,
        "#!/usr/bin/env python3\n"
        "\"\"\"Trains %s with PyTorch, as planned by weft.\n\n"
        "Predicted by: %s\n\n"
        "On each node:\n\n"
        "    %s THIS --steps 100\n"
        "\"\"\"\n"
        "import argparse\nimport math\nimport os\nimport sys\nimport time\n\nPLAN = {\n",
        plan_title(job->keep, job->plan), job_line(job, ""),
        torchrun_line(job->keep, job->plan->cluster));
}

void script_end(struct script *s, const char *code)
{
    s->text = arena_printf(s->keep, "%s}\n\n%s\n\n%s", s->text, code, SCRIPT_MAIN);
}

weft_status write_fsdp(struct export_job *job)
{
    struct script s;
    struct model_shape shape;
    weft_status status;
    TRY(shape_of_model(job->plan->model, &shape));
    script_begin(&s, job);
    put_model(&s, &shape);
    put_int(&s, "devices", job->found.degrees.dp);
    put_int(&s, "dp", job->found.degrees.dp);
    put_int(&s, "copies", job->found.degrees.replicate > 1 ? job->found.degrees.replicate : 1);
    put_training(&s, job);
    script_end(&s, FSDP_SCRIPT);
    if (shape.geglu)
        note(job, "the script does not scale the embedding, as Gemma does");
    job->out->text = s.text;
done:
    return status;
}
