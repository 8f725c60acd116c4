/* export_torchtitan.c - torchtitan's job configuration: TOML for its releases up to 0.2.2, a Python function for its
 * main branch, which reads no files.
 *
 * Sections and keys are those of torchtitan/config/job_config.py (0.2.2) and torchtitan/config/configs.py (main,
 * b5bcd76c). A sample is a sequence; with stages a replica's passes are micro-batches, else they are accumulated:
 *
 *   global_batch_size = local_batch_size * dp * accumulation steps                              (1)
 *   num_tokens_per_train_step = tokens of a pass * passes * dp                                  (2)
 *
 *   I1  FSDP with reshard_after_forward is ZeRO-3, without it ZeRO-2, or ZeRO-1 with stages; replicas alone are
 *       ZeRO-0.
 */
#include <string.h>

#include "exchange/titan.h"
#include "schedule/schedule.h"

/* Where the order of a plan that has its own goes, beside the configuration. */
static const char ORDER_FILE[] = "schedule.csv";

/* Both forms: [section] and key = value, or config.section.key = value. */
struct titan_text {
    struct arena *keep;
    const char *text, *section;
    bool python;
};

static void section(struct titan_text *t, const char *name)
{
    t->section = name;
    if (!t->python)
        t->text = arena_printf(t->keep, "%s\n[%s]\n", t->text, name);
}

/* The value as both languages write it. */
static void put(struct titan_text *t, const char *key, const char *value)
{
    t->text = t->python ? arena_printf(t->keep, "%s    config.%s.%s = %s\n", t->text, t->section,
                                       key, value)
                        : arena_printf(t->keep, "%s%s = %s\n", t->text, key, value);
}

static void put_int(struct titan_text *t, const char *key, int64_t value)
{
    put(t, key, arena_printf(t->keep, "%lld", (long long)value));
}

static void put_word(struct titan_text *t, const char *key, const char *value)
{
    put(t, key, arena_printf(t->keep, "\"%s\"", value));
}

static void put_bool(struct titan_text *t, const char *key, bool value)
{
    put(t, key, t->python ? value ? "True" : "False" : value ? "true" : "false");
}

static void line(struct titan_text *t, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void line(struct titan_text *t, const char *fmt, ...)
{
    va_list list;
    va_start(list, fmt);
    t->text = arena_printf(t->keep, "%s%s\n", t->text, arena_vprintf(t->keep, fmt, list));
    va_end(list);
}

/* ---- what both have -------------------------------------------------------------------------- */

static bool is_narrow(const struct plan *plan)
{
    return plan->dtype != DTYPE_FP32 && plan->dtype != DTYPE_TF32;
}

static int64_t passes_of(const struct degrees *d)
{
    return d->global_batch / d->dp / d->micro_batch;
}

/* Async TP overlaps exchanges with the products around them in both passes, or nothing does. */
static bool is_async(const struct recognised *r)
{
    return r->degrees.tp > 1 && (r->plan->overlap & (OVERLAP_TENSOR | OVERLAP_PRODUCTS));
}

static void put_training(struct titan_text *t, const struct recognised *r,
                         const struct model_shape *s)
{
    const struct degrees *d = &r->degrees;
    int64_t passes = passes_of(d);
    section(t, "training");
    if (t->python) { /* (2) */
        put_int(t, "num_tokens_per_microbatch_per_dp_rank", d->micro_batch * s->seq);
        put_int(t, "num_tokens_per_train_step", d->global_batch * s->seq);
        put_int(t, "max_context_length", s->seq);
        put_bool(t, "disable_cuda_graphs",
                 true); /* they know no stages, nor experts on other devices */
    } else {            /* (1) */
        put_int(t, "local_batch_size", d->pp > 1 ? d->micro_batch * passes : d->micro_batch);
        put_int(t, "global_batch_size", d->global_batch);
        put_int(t, "seq_len", s->seq);
        line(t, "# A trial's data: name your own.");
        put_word(t, "dataset", "c4_test");
        put_word(t, "dataset_path", "tests/assets/c4_test");
    }
    put_int(t, "steps", 1000);
    put_word(t, "mixed_precision_param", is_narrow(r->plan) ? "bfloat16" : "float32");
    put_word(t, "mixed_precision_reduce", "float32");
}

static const char *fqn_list(const struct titan_text *t, const struct plan *plan)
{
    const int64_t *layers = layers_of_parts(t->keep, plan);
    const char *text = "[", *margin = t->python ? "        " : "    ";
    int64_t next = 0;
    for (int32_t p = 0; p < plan->parts; p++) {
        const char *names = p == 0 ? "\"tok_embeddings\"" : "";
        for (int64_t i = 0; i < layers[p]; i++, next++)
            names = arena_printf(t->keep, "%s%s\"layers.%lld\"", names, *names ? ", " : "",
                                 (long long)next);
        if (p == plan->parts - 1)
            names = arena_printf(t->keep, "%s%s\"norm\", \"%s\"", names, *names ? ", " : "",
                                 t->python ? "lm_head" : "output");
        text = arena_printf(t->keep, "%s\n%s[%s],", text, margin, names);
    }
    return arena_printf(t->keep, "%s\n%s]", text, t->python ? "    " : "");
}

static void put_pipeline(struct titan_text *t, const struct recognised *r)
{
    const struct degrees *d = &r->degrees;
    put_int(t, "pipeline_parallel_degree", d->pp);
    if (d->pp == 1)
        return;
    if (r->plan->listed) {
        put_word(t, "pipeline_parallel_schedule", titan_placement(d->pieces, r->plan->zigzag));
        put_word(t, "pipeline_parallel_schedule_csv", ORDER_FILE);
    } else {
        put_word(t, "pipeline_parallel_schedule", titan_schedule(d->schedule));
    }
    if (t->python)
        put_int(t, "num_pp_microbatches", passes_of(d));
    else
        put_int(t, "pipeline_parallel_microbatch_size", d->micro_batch);
    put(t, "module_fqns_per_model_part", fqn_list(t, r->plan));
}

static void put_parallelism(struct titan_text *t, const struct recognised *r,
                            const struct model_shape *s)
{
    const struct degrees *d = &r->degrees;
    section(t, "parallelism");
    int64_t copies = share_groups(d->dp, d->shard == 0 ? d->dp : d->replicate); /* I1 */
    put_int(t, "data_parallel_replicate_degree", copies);
    put_int(t, "data_parallel_shard_degree", d->dp / copies);
    if (d->shard)
        put_word(t, "fsdp_reshard_after_forward", d->shard == 3 ? "always" : "never");
    put_int(t, "tensor_parallel_degree", d->tp);
    if (t->python)
        put_bool(t, "enable_sequence_parallel", d->sequence);
    else
        put_bool(t, "enable_async_tensor_parallel", is_async(r));
    put_int(t, "context_parallel_degree", d->cp);
    if (!t->python && d->cp > 1)
        put_word(t, "context_parallel_rotate_method",
                 r->plan->overlap & OVERLAP_KEYS ? "alltoall" : "allgather");
    put_int(t, "expert_parallel_degree", d->ep);
    if (!t->python && s->experts)
        put_int(t, "expert_tensor_parallel_degree", d->etp ? d->etp : d->tp);
    put_pipeline(t, r);
}

static void put_compile(struct titan_text *t, const struct recognised *r,
                        const struct model_shape *s)
{
    bool loss = strcmp(s->loss, "compiled") == 0, async = is_async(r), compiled = async || loss;
    section(t, "compile");
    put_bool(t, "enable", compiled);
    if (compiled)
        put(t, "components", loss ? "[\"model\", \"loss\"]" : "[\"model\"]");
    if (t->python)
        put_bool(t, "enable_async_tensor_parallel", async);
}

static void put_optimizer(struct titan_text *t)
{
    section(t, "lr_scheduler");
    put_int(t, "warmup_steps", 200);
    section(t, "metrics");
    put_int(t, "log_freq", 1);
}

/* ---- TOML ------------------------------------------------------------------------------------ */

static void toml_model(struct titan_text *t, const struct model_shape *s, const char *flavor,
                       bool fp8)
{
    section(t, "model");
    put_word(t, "name", titan_model_of(s));
    put_word(t, "flavor", flavor);
    line(t, "# A trial's tokenizer: name your own.");
    put_word(t, "hf_assets_path", "./tests/assets/tokenizer");
    if (!fp8)
        return;
    put(t, "converters",
        s->experts ? "[\"quantize.linear.float8\", \"quantize.grouped_mm.float8\"]"
                   : "[\"quantize.linear.float8\"]");
    section(t, "quantize.linear.float8");
    put_word(t, "recipe_name",
             s->kv_lora ? "rowwise" : "tensorwise"); /* latent attention: no other */
    put(t, "filter_fqns", "[\"output\"]");
    if (s->experts) {
        section(t, "quantize.grouped_mm.float8");
        put(t, "fqns", "[\"experts\"]");
    }
}

static void toml_recompute(struct titan_text *t, const struct recognised *r)
{
    bool products = r->block == BLOCK_PRODUCTS, full = r->degrees.recompute == RECOMPUTE_FULL;
    section(t, "activation_checkpoint");
    put_word(t, "mode", products ? "selective" : full ? "full" : "none");
    if (products)
        put_word(t, "selective_ac_option", "op");
}

static void toml_text(struct export_job *job, struct titan_text *t, const struct model_shape *s,
                      const char *flavor)
{
    const struct recognised *r = &job->found;
    line(t, "# torchtitan's configuration for %s, written by weft.",
         plan_title(t->keep, job->plan));
    line(t, "# Predicted by: %s", job_line(job, "torchtitan"));
    line(t, "# On each node, in a checkout of torchtitan:");
    line(t, "#   %s -m torchtitan.train --job.config_file THIS",
         torchrun_line(t->keep, job->plan->cluster));
    section(t, "job");
    put_word(t, "description", plan_title(t->keep, job->plan));
    toml_model(t, s, flavor, job->plan->dtype == DTYPE_FP8);
    section(t, "optimizer");
    put_word(t, "name", job->target->optimizers[r->plan->optimizer]);
    put(t, "lr", "3e-4");
    put_optimizer(t);
    put_training(t, r, s);
    put_parallelism(t, r, s);
    put_compile(t, r, s);
    toml_recompute(t, r);
}

/* ---- Python ---------------------------------------------------------------------------------- */

/* A function of theirs that makes a whole configuration of such a model. */
static const char *base_of(const struct model_shape *s)
{
    if (s->kv_lora || s->sinks)
        return s->kv_lora ? "deepseek_v3_16b" : "gpt_oss_20b";
    return s->experts ? "qwen3_30b_a3b" : s->qk_norm ? "qwen3_14b" : "llama3_8b";
}

static void python_head(struct export_job *job, struct titan_text *t, const struct model_shape *s)
{
    const char *model = titan_model_of(s);
    line(t, "\"\"\"torchtitan's configuration for %s, written by weft for its main branch.\n",
         plan_title(t->keep, job->plan));
    line(t, "Predicted by: %s\n", job_line(job, "torchtitan"));
    line(t, "On each node, in a checkout of torchtitan where this file is weft_plan.py:\n");
    line(t, "    %s -m torchtitan.train \\\\", torchrun_line(t->keep, job->plan->cluster));
    line(t, "        --module weft_plan --config train\n\"\"\"");
    line(t, "from torchtitan.components.data import ConcatThenSplitPackingConfig");
    line(t, "from torchtitan.components.loss import CrossEntropyLoss");
    if (s->lora)
        line(t, "from torchtitan.components.lora import LoRAConverter");
    if (job->plan->dtype == DTYPE_FP8)
        line(t, "from torchtitan.components.quantization import Float8LinearConverter");
    line(t, "from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC");
    line(t, "from torchtitan.hf_datasets.text_datasets import DATASETS");
    line(t, "from torchtitan.models.common.config_utils import decoder_vocab_size");
    line(t, "from torchtitan.models.%s import model_registry", model);
    line(t, "from torchtitan.models.%s.config_registry import %s\n\n", model, base_of(s));
}

/* The products that have an adapter, by their names there: those of queries, keys and values are one. */
static const char *const ADAPTED[] = {
    [LORA_ATTENTION] = "\"wqkv\", \"wo\"",
    [LORA_QKV] = "\"wqkv\"",
    [LORA_ALL] = "\"wqkv\", \"wo\", \"w1\", \"w2\", \"w3\"",
};

/* What an adapter adds is multiplied by alpha / rank, which is 2 in torchtitan's own defaults; nothing that is predicted
 * depends on it. */
static bool python_converters(struct export_job *job, struct titan_text *t,
                              const struct model_shape *s)
{
    bool compiled = is_async(&job->found) || strcmp(s->loss, "compiled") == 0;
    bool fp8 = job->plan->dtype == DTYPE_FP8;
    if (!fp8 && !s->lora)
        return false;
    line(t, "    converters = [");
    if (fp8)
        line(t,
             "        Float8LinearConverter.Config(filter_fqns=[\"lm_head\"], "
             "model_compile_enabled=%s),",
             compiled ? "True" : "False");
    if (s->lora)
        line(t, "        LoRAConverter.Config(rank=%lld, alpha=%lld, target_modules=[%s]),",
             (long long)s->lora, 2 * (long long)s->lora, ADAPTED[s->lora_modules]);
    line(t, "    ]");
    return true;
}

static void python_model(struct export_job *job, struct titan_text *t, const struct model_shape *s,
                         const char *flavor)
{
    line(t, "def train():\n    config = %s()", base_of(s));
    bool converted = python_converters(job, t, s);
    line(t, "    config.model_spec = model_registry(\"%s\"%s)", flavor,
         converted ? ", converters=converters" : "");
    line(t, "    vocabulary = decoder_vocab_size(config.model_spec)");
    line(t, "    config.loss = CrossEntropyLoss.Config(global_vocab_size=vocabulary)");
    line(t, "    # A trial's tokenizer and data: name your own.");
    line(t, "    config.hf_assets_path = \"./tests/assets/tokenizer\"");
    line(t, "    dataset = ConcatThenSplitPackingConfig(dataset=DATASETS[\"c4_test\"])");
    line(t, "    config.dataloader.dataset = dataset");
    line(t, "    config.profiler.enable_profiling = False");
    line(t, "    config.validator.enable = False");
}

static void python_text(struct export_job *job, struct titan_text *t, const struct model_shape *s,
                        const char *flavor)
{
    const struct recognised *r = &job->found;
    python_head(job, t, s);
    python_model(job, t, s, flavor);
    put_optimizer(t);
    put_training(t, r, s);
    put_parallelism(t, r, s);
    put_compile(t, r, s);
    line(t, "    config.activation_checkpoint = %s",
         r->block == BLOCK_PRODUCTS               ? "SelectiveAC.Config()"
         : r->degrees.recompute == RECOMPUTE_FULL ? "FullAC.Config()"
                                                  : "None");
    line(t, "    return config");
}

/* ---- all together ---------------------------------------------------------------------------- */

static void note_model(struct export_job *job, const struct model_shape *s,
                       const struct titan_flavor *flavor)
{
    const char *model = titan_model_of(s);
    struct model *own;
    if (model_open(flavor->preset, flavor->options, &own))
        return;
    double base = model_op_of_kind(own, OP_ROTARY)->rope_base;
    double factor = model_op_of_kind(own, OP_ROTARY)->rope_scaling;
    /* 0.2.2 stretches sequences that are longer than those learned (precompute_freqs_cis), the main branch all. */
    if (flavor->yarn > 0 &&
        (job->target->words.python || flavor->unrounded || s->seq > YARN_LEARNED))
        factor = flavor->yarn;
    if (factor != s->rope_scaling)
        note(job, "torchtitan's %s %s stretches positions by %.12g, the model by %.12g", model,
             flavor->flavor, factor, s->rope_scaling);
    if (model_norm_epsilon(own) != s->norm_epsilon)
        note(job, "torchtitan's %s %s adds %.12g in its norms, the model %.12g", model,
             flavor->flavor, model_norm_epsilon(own), s->norm_epsilon);
    if (base != s->rope_base)
        note(job, "torchtitan's %s %s turns positions with a base of %.12g, the model of %.12g",
             model, flavor->flavor, base, s->rope_base);
    model_free(own);
}

/* What the file cannot say of the plan, as a comment for `weft import`. */
static weft_status add_settings(struct export_job *job, struct titan_text *t)
{
    const struct plan *plan = job->found.plan;
    struct arena *scratch = arena_new();
    struct import_input input = {.file = "exported file",
                                 .text = t->text,
                                 .len = strlen(t->text),
                                 .model = plan->model_name ? plan->model_name : plan->model->name,
                                 .options = plan->model_options,
                                 .cluster = cluster_title(scratch, plan),
                                 .order = plan->listed};
    struct opened_plan again = {0};
    struct texts differences = {0}, notes = {0};
    weft_status status = torchtitan_import(scratch, &input, &again, &notes);
    if (status == WEFT_OK && again.plan->instances == plan->instances)
        plan_differences(scratch, plan, again.plan, &differences);
    const char *settings = status == WEFT_OK ? settings_written(job, plan, again.plan) : "";
    if (*settings) {
        t->text =
            arena_printf(t->keep, "%s%s# weft: %s\n", t->text, t->python ? "\n\n" : "\n", settings);
        settings = settings_decided(job, plan, again.plan);
    }
    if (*settings)
        decides(job, "no key says %s; a comment does, for weft import", settings);
    if (differences.len)
        note(job, "weft import reads the file as another plan: %s", differences.data[0]);
    plan_close(&again);
    arena_free(scratch);
    error_clear();
    return status == WEFT_FAILURE ? status : WEFT_OK;
}

static void put_order(struct export_job *job)
{
    const struct plan *plan = job->found.plan;
    struct pipeline pipeline = plan_pipeline(plan);
    job->out->beside = ORDER_FILE;
    job->out->beside_text = schedule_write(job->keep, plan->listed, &pipeline, SCHEDULE_CSV);
    note(job,
         "the order of the stages' work is %s, which -o writes beside the file: start where it is",
         ORDER_FILE);
}

weft_status write_torchtitan(struct export_job *job)
{
    struct titan_text t = {.keep = job->keep, .text = "", .python = job->target->words.python};
    struct model_shape shape;
    weft_status status;
    TRY(shape_of_model(job->plan->model, &shape));
    const struct titan_flavor *flavor = titan_flavor_of(&shape); /* target_has_model saw to one */
    (t.python ? python_text : toml_text)(job, &t, &shape, flavor->flavor);
    note_model(job, &shape, flavor);
    TRY(add_settings(job, &t));
    job->out->text = t.text;
    if (job->found.plan->listed)
        put_order(job);
done:
    return status;
}
