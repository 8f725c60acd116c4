/* import_torchtitan.c - torchtitan's configuration as a plan: TOML, its command line, or a function of Python.
 *
 * Keys and defaults are those of torchtitan/config/job_config.py (0.2.2); the main branch counts tokens:
 *
 *   samples of a pass = local_batch_size, or pipeline_parallel_microbatch_size with stages       (1)
 *                     = num_tokens_per_microbatch_per_dp_rank / max_context_length
 *
 *   I1  Parameters and gradients are kept in fp32 (mixed_precision_reduce has no other value).
 */
#include <stdio.h>
#include <string.h>

#include "exchange/titan.h"
#include "schedule/schedule.h"
#include "exchange/toml.h"

struct titan_file {
    const char *model, *flavor, *config;
    int64_t local_batch, global_batch, seq, pass_tokens, step_tokens, context;
    int64_t replicate, shard, tp, cp, pp, ep, etp, micro_batch, micro_batches;
    const char *optimizer, *precision, *reshard, *schedule, *order, *mode, *option, *rotate;
    bool sequence, async, compiled, async_compile;
    const struct doc *parts, *converters, *components;
};
#define AT(name) offsetof(struct titan_file, name)
static const struct {
    const char *section;
    struct field field;
} KEYS[] = {
    {"model", {"name", FIELD_TEXT, AT(model)}},
    {"model", {"flavor", FIELD_TEXT, AT(flavor)}},
    {"model", {"converters", FIELD_DOC, AT(converters)}},
    {"optimizer", {"name", FIELD_TEXT, AT(optimizer)}},
    {"training", {"local_batch_size", FIELD_COUNT, AT(local_batch)}},
    {"training", {"global_batch_size", FIELD_INT, AT(global_batch), .min = -1, .max = 1e12}},
    {"training", {"seq_len", FIELD_COUNT, AT(seq)}},
    {"training", {"num_tokens_per_microbatch_per_dp_rank", FIELD_COUNT, AT(pass_tokens)}},
    {"training", {"num_tokens_per_train_step", FIELD_INT, AT(step_tokens), .min = -1, .max = 1e15}},
    {"training", {"max_context_length", FIELD_COUNT, AT(context)}},
    {"training", {"mixed_precision_param", FIELD_TEXT, AT(precision)}},
    {"parallelism", {"data_parallel_replicate_degree", FIELD_COUNT, AT(replicate)}},
    {"parallelism", {"data_parallel_shard_degree", FIELD_INT, AT(shard), .min = -1, .max = 1e9}},
    {"parallelism", {"fsdp_reshard_after_forward", FIELD_TEXT, AT(reshard)}},
    {"parallelism", {"tensor_parallel_degree", FIELD_COUNT, AT(tp)}},
    {"parallelism", {"enable_sequence_parallel", FIELD_BOOL, AT(sequence)}},
    {"parallelism", {"enable_async_tensor_parallel", FIELD_BOOL, AT(async)}},
    {"parallelism", {"context_parallel_degree", FIELD_COUNT, AT(cp)}},
    {"parallelism", {"context_parallel_rotate_method", FIELD_TEXT, AT(rotate)}},
    {"parallelism", {"expert_parallel_degree", FIELD_COUNT, AT(ep)}},
    {"parallelism", {"expert_tensor_parallel_degree", FIELD_COUNT, AT(etp)}},
    {"parallelism", {"pipeline_parallel_degree", FIELD_COUNT, AT(pp)}},
    {"parallelism", {"pipeline_parallel_schedule", FIELD_TEXT, AT(schedule)}},
    {"parallelism", {"pipeline_parallel_schedule_csv", FIELD_TEXT, AT(order)}},
    {"parallelism", {"pipeline_parallel_microbatch_size", FIELD_COUNT, AT(micro_batch)}},
    {"parallelism", {"num_pp_microbatches", FIELD_COUNT, AT(micro_batches)}},
    {"parallelism", {"module_fqns_per_model_part", FIELD_DOC, AT(parts)}},
    {"compile", {"enable", FIELD_BOOL, AT(compiled)}},
    {"compile", {"components", FIELD_DOC, AT(components)}},
    {"compile", {"enable_async_tensor_parallel", FIELD_BOOL, AT(async_compile)}},
    {"activation_checkpoint", {"mode", FIELD_TEXT, AT(mode)}},
    {"activation_checkpoint", {"selective_ac_option", FIELD_TEXT, AT(option)}},
};

struct titan_reading {
    struct arena *scratch;
    const struct import_input *input;
    const struct doc *root;
    struct titan_file file;
    struct degrees d;
    int64_t *part_layers;
    int64_t block;
    struct texts *notes;
};

/* ---- the three forms ------------------------------------------------------------------------- */

static bool has_text(const struct import_input *input, const char *text)
{
    return memmem(input->text, input->len, text, strlen(text)) != NULL;
}

/* The text between two others, or NULL. */
static const char *between(struct titan_reading *r, const char *before, const char *after)
{
    const char *first = memmem(r->input->text, r->input->len, before, strlen(before));
    if (!first)
        return NULL;
    first += strlen(before);
    size_t left = r->input->len - (size_t)(first - r->input->text);
    const char *last = memmem(first, left, after, strlen(after));
    return last ? arena_copy_bytes(r->scratch, first, (size_t)(last - first)) : NULL;
}

/* Of the line "from torchtitan.models.llama3 import model_registry", the model. */
static const char *imported_model(struct titan_reading *r)
{
    static const char BEFORE[] = "torchtitan.models.", AFTER[] = " import model_registry";
    const char *text = r->input->text, *after = memmem(text, r->input->len, AFTER, strlen(AFTER));
    const char *first = after;
    while (first && first > text && first[-1] != '.' && first[-1] != '\n')
        first--;
    bool named = first && (size_t)(first - text) >= strlen(BEFORE) &&
                 memcmp(first - strlen(BEFORE), BEFORE, strlen(BEFORE)) == 0;
    return named ? arena_copy_bytes(r->scratch, first, (size_t)(after - first)) : NULL;
}

static weft_status read_python(struct titan_reading *r, struct doc **root)
{
    weft_status status = assignments_read(r->scratch, r->input, root);
    r->file.model = imported_model(r);
    r->file.flavor = between(r, "model_registry(\"", "\"");
    r->file.mode = has_text(r->input, "FullAC.Config()\n")        ? "full"
                   : has_text(r->input, "SelectiveAC.Config()\n") ? "selective"
                                                                  : "none";
    r->file.option = "op";
    return status;
}

/* Sections stand at the beginning of a line. */
static bool has_sections(const struct import_input *input)
{
    return (input->len && input->text[0] == '[') || has_text(input, "\n[");
}

static weft_status read_form(struct titan_reading *r)
{
    struct doc *root;
    weft_status status = has_text(r->input, "config.training.") ? read_python(r, &root)
                         : has_sections(r->input) ? toml_read(r->scratch, r->input, &root)
                                                  : options_read(r->scratch, r->input, &root);
    if (!status)
        r->root = root;
    return status;
}

static weft_status read_keys(struct titan_reading *r)
{
    weft_status status = WEFT_OK;
    r->file.replicate = r->file.tp = r->file.cp = r->file.pp = r->file.ep = r->file.etp = 1;
    r->file.shard = r->file.global_batch = r->file.step_tokens = -1;
    r->file.sequence = true;
    for (size_t i = 0; i < COUNT_OF(KEYS); i++) {
        const struct doc *section = doc_get(r->root, KEYS[i].section);
        if (section && section->kind == DOC_MAP)
            TRY(doc_read(section, &KEYS[i].field, 1, DOC_IGNORE_UNKNOWN, &r->file));
    }
    static const struct field TOP[] = {{"module", FIELD_TEXT, AT(model)},
                                       {"config", FIELD_TEXT, AT(config)}};
    TRY(doc_read(r->root, TOP, COUNT_OF(TOP), DOC_IGNORE_UNKNOWN, &r->file));
done:
    return status;
}

/* ---- the model ------------------------------------------------------------------------------- */

/* "llama3_8b" is flavor 8B of llama3, "qwen3_30b_a3b" 30B-A3B. */
static const char *flavor_of_config(struct titan_reading *r)
{
    const char *model = r->file.model, *config = r->file.config;
    size_t len = model ? strlen(model) : 0;
    if (!config || !model || strncmp(config, model, len) != 0 || config[len] != '_')
        return NULL;
    char *flavor = arena_copy_text(r->scratch, config + len + 1);
    for (char *c = flavor; *c; c++)
        *c = *c == '_' ? '-' : *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c;
    return flavor;
}

static bool compiles_loss(const struct titan_file *f)
{
    bool loss = !f->components;
    for (const struct doc *c = f->components ? f->components->first : NULL; c; c = c->next)
        loss |= c->text && strcmp(c->text, "loss") == 0;
    return f->compiled && loss;
}

/* Of components/lora.py: *out is what the model has besides. */
static weft_status read_adapters(struct titan_reading *r, const char **out)
{
    const char *rank = between(r, "LoRAConverter.Config(rank=", ",");
    const char *list = between(r, "target_modules=[", "]");
    int64_t number;
    if (!has_text(r->input, "LoRAConverter.Config("))
        return WEFT_OK;
    if (!rank || !parse_int(rank, &number) || number < 1 || !list)
        return bad_input(r->input->file, 0,
                         "LoRAConverter.Config(rank=16, alpha=32, target_modules=[\"wqkv\"])",
                         "its adapters have no rank or no target_modules");
    *out = arena_printf(r->scratch, ", lora: %lld, lora_modules: %s", (long long)number,
                        LORA_WORDS[strstr(list, "\"w2\"")   ? LORA_ALL
                                   : strstr(list, "\"wo\"") ? LORA_ATTENTION
                                                            : LORA_QKV]);
    return WEFT_OK;
}

static weft_status find_model(struct titan_reading *r, const char **name, const char **options)
{
    const char *flavor = r->file.flavor ? r->file.flavor : flavor_of_config(r);
    const struct titan_flavor *found =
        r->file.model && flavor ? titan_flavor_named(r->file.model, flavor) : NULL;
    int64_t seq = r->file.seq ? r->file.seq : r->file.context;
    *name = r->input->model ? r->input->model : found ? found->preset : NULL;
    if (!*name)
        return bad_input(r->input->file, 0, "add --model",
                         "no model of Weft is known for %.40s %.40s",
                         r->file.model ? r->file.model : "a file without a model",
                         flavor ? flavor : "of no flavor");
    const char *own = found && found->options && !r->input->model ? found->options : "";
    const char *adapters = "";
    weft_status status = read_adapters(r, &adapters);
    if (status)
        return status;
    const char *text = arena_printf(r->scratch, "seq: %lld%s%s%s%s", seq ? (long long)seq : 2048LL,
                                    *own ? ", " : "", own,
                                    compiles_loss(&r->file) ? ", loss: compiled" : "", adapters);
    *options =
        r->input->options ? arena_printf(r->scratch, "%s, %s", text, r->input->options) : text;
    return WEFT_OK;
}

/* ---- degrees --------------------------------------------------------------------------------- */

static weft_status read_degrees(struct titan_reading *r, const struct cluster *cluster)
{
    const struct titan_file *f = &r->file;
    struct degrees *d = &r->d;
    int64_t devices = cluster_devices(cluster), rest = f->tp * f->cp * f->pp;
    if (f->tp > INT32_MAX || f->cp > INT32_MAX || f->pp > INT32_MAX || rest < 1 || devices % rest)
        return bad_input(r->input->file, 0, "name a cluster with a multiple of these",
                         "tp %lld * cp %lld * pp %lld do not divide the %s of %s", (long long)f->tp,
                         (long long)f->cp, (long long)f->pp, counted(devices, "device").s,
                         cluster->name);
    *d = (struct degrees){
        .tp = f->tp, .cp = f->cp, .pp = f->pp, .ep = f->ep, .etp = f->etp, .dp = devices / rest};
    int64_t shard = f->shard < 0 ? d->dp / f->replicate : f->shard;
    if (shard * f->replicate != d->dp)
        return bad_input(r->input->file, 0, NULL,
                         "%lld replicas of %lld shares are not the %lld left",
                         (long long)f->replicate, (long long)shard, (long long)d->dp);
    d->replicate = shard > 1 && f->replicate > 1 ? f->replicate : 0;
    bool resharded = !f->reshard || strcmp(f->reshard, "never") != 0;
    if (f->reshard && strcmp(f->reshard, "always") == 0 && d->pp > 1)
        add_text(r->scratch, r->notes,
                 "fsdp_reshard_after_forward: with stages gradients stay whole, read as ZeRO-1");
    d->shard = shard * d->cp == 1 ? 0 : d->pp > 1 ? 1 : resharded ? 3 : 2; /* over dp and cp */
    d->sequence = f->sequence && d->tp > 1;
    return WEFT_OK;
}

/* (1) */
static weft_status read_batch(struct titan_reading *r)
{
    const struct titan_file *f = &r->file;
    struct degrees *d = &r->d;
    int64_t seq = f->context ? f->context : 2048;
    bool tokens = f->pass_tokens > 0;
    int64_t local = f->local_batch ? f->local_batch : 8;
    int64_t stage_batch = f->micro_batch ? f->micro_batch : 1;
    d->micro_batch = tokens ? f->pass_tokens / seq : d->pp > 1 ? stage_batch : local;
    int64_t step =
        d->dp *
        (tokens ? d->micro_batch * (d->pp > 1 && f->micro_batches ? f->micro_batches : 1) : local);
    d->global_batch = tokens                ? f->step_tokens > 0 ? f->step_tokens / seq : step
                      : f->global_batch > 0 ? f->global_batch
                                            : step;
    if (d->micro_batch < 1 || d->global_batch < 1)
        return bad_input(r->input->file, 0, NULL, "a pass has %s, an iteration %lld",
                         counted(d->micro_batch, "sample").s, (long long)d->global_batch);
    return WEFT_OK;
}

/* Layers of each part: names that begin with "layers.". */
static weft_status read_parts(struct titan_reading *r)
{
    const struct doc *parts = r->file.parts;
    int64_t part = 0;
    r->d.pieces = 1;
    if (!parts || parts->kind != DOC_LIST || r->d.pp == 1)
        return WEFT_OK;
    if (parts->count % (size_t)r->d.pp || !parts->count)
        return doc_error(parts, NULL, "%zu parts on %s", parts->count, counted(r->d.pp, "stage").s);
    r->d.pieces = (int64_t)parts->count / r->d.pp;
    r->part_layers = ARENA_ARRAY(r->scratch, int64_t, parts->count);
    for (const struct doc *p = parts->first; p; p = p->next, part++)
        for (const struct doc *name = p->first; name; name = name->next)
            r->part_layers[part] += name->text && strncmp(name->text, "layers.", 7) == 0;
    return WEFT_OK;
}

/* An order of its own, from the file beside this one; an exporter has it at hand. */
static weft_status read_lists(struct titan_reading *r)
{
    const char *file = r->input->file, *slash = strrchr(file, '/'), *name = r->file.order;
    int folder = slash && *name != '/' ? (int)(slash - file + 1) : 0;
    struct schedule *listed = NULL;
    weft_status status = WEFT_OK;
    if (!r->input->order)
        TRY(schedule_load(r->scratch, arena_printf(r->scratch, "%.*s%s", folder, file, name),
                          &listed));
    r->d.listed = r->input->order ? r->input->order : listed;
    r->d.schedule = r->d.listed->name;
done:
    return status;
}

static weft_status read_order(struct titan_reading *r)
{
    const struct titan_file *f = &r->file;
    const char *mode = f->mode ? f->mode : "selective", *option = f->option ? f->option : "2";
    weft_status status = WEFT_OK;
    if (r->d.pp > 1 && f->order && *f->order)
        status = read_lists(r);
    else if (r->d.pp > 1)
        r->d.schedule = titan_schedule_ours(f->schedule ? f->schedule : "1F1B");
    if (status)
        return status;
    if (r->d.pp > 1 && !r->d.schedule)
        return bad_input(r->input->file, 0, "1F1B, Interleaved1F1B and GPipe are",
                         "the schedule %.40s is not read", f->schedule);
    bool some = strcmp(mode, "selective") == 0;
    if (some && strcmp(option, "op") != 0)
        return bad_input(r->input->file, 0, "selective_ac_option = \"op\", or another mode",
                         "recomputation of every %.10s-th layer is not read", option);
    r->d.recompute = some || strcmp(mode, "full") == 0 ? RECOMPUTE_FULL : RECOMPUTE_NONE;
    r->block = some ? BLOCK_PRODUCTS : 0;
    return WEFT_OK;
}

static void read_optimizer(struct titan_reading *r)
{
    const char *name = r->file.optimizer;
    if (name && !target_optimizer(source_target(torchtitan_import), name, &r->d.optimizer))
        add_text(r->scratch, r->notes,
                 arena_printf(r->scratch, "optimizer %.40s: AdamW is simulated", name));
}

static void read_types(struct titan_reading *r)
{
    struct degrees *d = &r->d;
    bool wide = r->file.precision && strcmp(r->file.precision, "float32") == 0;
    bool fp8 = (r->file.converters && r->file.converters->count) ||
               has_text(r->input, "Float8LinearConverter.Config");
    bool async = r->file.async || r->file.async_compile;
    d->has_dtype = d->has_policy = d->has_overlap = d->has_shard = d->has_recompute = true;
    d->dtype = wide ? DTYPE_FP32 : fp8 ? DTYPE_FP8 : DTYPE_BF16;
    d->policy = wide ? POLICY_FP32 : POLICY_FSDP; /* I1 */
    d->overlap = OVERLAP_PIPELINE | OVERLAP_GRADIENTS | OVERLAP_PARAMETERS;
    d->overlap |= async ? OVERLAP_TENSOR | OVERLAP_PRODUCTS : 0;
    /* torch/distributed/tensor/experimental/_attention.py: the usual method gathers, the other one is a ring */
    d->overlap |= r->file.rotate && strcmp(r->file.rotate, "alltoall") == 0 ? OVERLAP_KEYS : 0;
}

/* ---- all together ---------------------------------------------------------------------------- */

static weft_status make(struct titan_reading *r, struct opened_plan *out)
{
    const char *name = NULL, *options = NULL, *settings;
    weft_status status;
    TRY(find_model(r, &name, &options));
    TRY(model_open(name, options, &out->model));
    TRY(read_degrees(r, out->cluster));
    TRY(read_batch(r));
    TRY(read_parts(r));
    TRY(read_order(r));
    read_types(r);
    read_optimizer(r);
    TRY(plan_of_degrees(out->model, out->cluster, &r->d, r->part_layers, r->block, &out->plan));
    plan_set_names(out->plan, name, options, r->input->cluster);
    settings = between(r, "# weft: ", "\n");
    if (settings)
        TRY(settings_apply(r->scratch, r->input->file, 0, settings, out->plan));
    TRY(plan_check(out->plan));
done:
    return status;
}

weft_status torchtitan_import(struct arena *scratch, const struct import_input *input,
                              struct opened_plan *out, struct texts *notes)
{
    struct titan_reading r = {
        .scratch = scratch, .input = input, .d.software = input->software, .notes = notes};
    weft_status status;
    *out = (struct opened_plan){0};
    TRY(read_form(&r));
    TRY(read_keys(&r));
    TRY(cluster_open(input->cluster, &out->cluster));
    TRY(make(&r, out));
done:
    if (status)
        plan_close(out);
    return status;
}
