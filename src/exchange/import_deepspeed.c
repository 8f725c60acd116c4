/* import_deepspeed.c - DeepSpeed's JSON configuration as a plan of a model that the user names.
 *
 *   train_batch_size = train_micro_batch_size_per_gpu * gradient_accumulation_steps * ranks    (1)
 *
 * where ranks are the replicas, and with AutoTP all devices (runtime/config.py, _batch_assertion): the samples of an
 * iteration are then as many times fewer as AutoTP is wide. Defaults are those of zero/config.py.
 */
#include <string.h>

#include "exchange/room.h"

struct deepspeed_file {
    int64_t batch, micro_batch, accumulation, ulysses;
    const struct doc *optimizer, *zero, *bf16, *fp16, *types, *tensor, *pipeline, *checkpoints,
        *experts, *weft;
};
static const struct field FIELDS[] = {
    {"train_batch_size", FIELD_COUNT, offsetof(struct deepspeed_file, batch)},
    {"train_micro_batch_size_per_gpu", FIELD_COUNT, offsetof(struct deepspeed_file, micro_batch)},
    {"gradient_accumulation_steps", FIELD_COUNT, offsetof(struct deepspeed_file, accumulation)},
    {"sequence_parallel_size", FIELD_COUNT, offsetof(struct deepspeed_file, ulysses)},
    {"optimizer", FIELD_DOC, offsetof(struct deepspeed_file, optimizer)},
    {"zero_optimization", FIELD_DOC, offsetof(struct deepspeed_file, zero)},
    {"bf16", FIELD_DOC, offsetof(struct deepspeed_file, bf16)},
    {"fp16", FIELD_DOC, offsetof(struct deepspeed_file, fp16)},
    {"data_types", FIELD_DOC, offsetof(struct deepspeed_file, types)},
    {"tensor_parallel", FIELD_DOC, offsetof(struct deepspeed_file, tensor)},
    {"pipeline", FIELD_DOC, offsetof(struct deepspeed_file, pipeline)},
    {"activation_checkpointing", FIELD_DOC, offsetof(struct deepspeed_file, checkpoints)},
    {"expert_parallel", FIELD_DOC, offsetof(struct deepspeed_file, experts)},
    {"weft", FIELD_DOC, offsetof(struct deepspeed_file, weft)},
};

/* Of the sections, what they say of a plan. */
struct deepspeed_zero {
    int64_t stage;
    double reduce_bucket; /* elements, often written 5e8 */
    bool overlap;
    const struct doc *offload_optimizer, *offload_param;
};

struct deepspeed_optimizer {
    const char *type;
    const struct doc *params;
    double momentum;
    bool decoupled; /* weights decay apart from gradients */
};

struct deepspeed_reading {
    struct arena *scratch;
    const struct doc *root;
    struct deepspeed_file file;
    struct deepspeed_zero zero;
    struct degrees d;
    const char *settings;
    struct texts *notes;
};

static weft_status read_some(const struct doc *map, const struct field *fields, size_t count,
                             void *out)
{
    return map ? doc_read(map, fields, count, DOC_IGNORE_UNKNOWN, out) : WEFT_OK;
}

/* ---- "auto" ---------------------------------------------------------------------------------- */

/* What is taken where Hugging Face's Trainer fills a value in from its own arguments: their defaults
 * (transformers/integrations/deepspeed.py), or DeepSpeed's. The batch has none. */
static const struct {
    const char *key, *taken;
} FILLED[] = {
    {"bf16.enabled", "false"},
    {"fp16.enabled", "false"},
    {"gradient_accumulation_steps", "what the batch leaves, or 1"},
    {"sequence_parallel_size", "1"},
    {"tensor_parallel.autotp_size", "1"},
    {"zero_optimization.stage", "0"},
    {"zero_optimization.overlap_comm", "DeepSpeed's default"},
    {"zero_optimization.reduce_bucket_size", "the square of the model's width"},
    {"zero_optimization.offload_optimizer.device", "none"},
};

static void note_filled(struct deepspeed_reading *r, const char *key)
{
    for (size_t i = 0; i < COUNT_OF(FILLED); i++)
        if (strcmp(FILLED[i].key, key) == 0)
            add_text(r->scratch, r->notes,
                     arena_printf(r->scratch, "%s is auto, which the trainer fills in: taken as %s",
                                  key, FILLED[i].taken));
}

static bool is_auto(const struct doc *node)
{
    return node && node->text && strcmp(node->text, "auto") == 0;
}

/* Takes values that the trainer fills in out of a mapping, so that defaults stand in their place. */
static void drop_filled(struct deepspeed_reading *r, struct doc *map, const char *path)
{
    for (struct doc **at = &map->first; *at;) {
        struct doc *node = *at;
        const char *key = arena_printf(r->scratch, "%s%s", path, node->key ? node->key : "");
        if (is_auto(node)) {
            note_filled(r, key);
            *at = node->next;
            map->count--;
            continue;
        }
        drop_filled(r, node, arena_printf(r->scratch, "%s.", key));
        at = &node->next;
    }
}

/* Which batch a device takes at once is known from its own key, or from the two others of (1). */
static weft_status check_filled_batch(const struct deepspeed_reading *r)
{
    const struct doc *micro = doc_get(r->root, "train_micro_batch_size_per_gpu");
    const struct doc *batch = doc_get(r->root, "train_batch_size");
    const struct doc *steps = doc_get(r->root, "gradient_accumulation_steps");
    bool known = batch && steps && !is_auto(batch) && !is_auto(steps);
    if (!is_auto(micro) || known)
        return WEFT_OK;
    return doc_error(micro, "write the number that the trainer is given, for instance 4",
                     "'train_micro_batch_size_per_gpu' is auto, which the trainer fills in");
}

/* The bucket that the Trainer chooses. */
static double filled_bucket(const struct deepspeed_reading *r, const struct model *model)
{
    const struct op *embedding = model_op_of_kind(model, OP_EMBEDDING);
    double width = embedding ? (double)embedding->weight[0].operand.size[1] : 0;
    const struct doc *zero = doc_get(r->root, "zero_optimization");
    return is_auto(doc_get(zero, "reduce_bucket_size")) ? width * width : 0;
}

static weft_status read_filled(struct deepspeed_reading *r, struct doc *root,
                               const struct model *model)
{
    weft_status status = check_filled_batch(r);
    double bucket = filled_bucket(r, model);
    r->zero.reduce_bucket = bucket > 0 ? bucket : 5e8;
    if (!status)
        drop_filled(r, root, "");
    return status;
}

static weft_status enabled(const struct doc *map, bool *out)
{
    static const struct field ENABLED[] = {{"enabled", FIELD_BOOL, 0}};
    return read_some(map, ENABLED, COUNT_OF(ENABLED), out);
}

/* ---- state ----------------------------------------------------------------------------------- */

/* Without a device, or with "none", nothing leaves (offload_config.py). NVMe is slower than the host that it goes
 * through. */
static weft_status read_offload(struct deepspeed_reading *r)
{
    struct {
        const char *device;
        double ratio;
    } to = {"none", 1};
    static const struct field OFFLOAD[] = {
        {"device", FIELD_TEXT, 0},
        {"ratio", FIELD_REAL, sizeof(const char *), .min = 0, .max = 1},
    };
    weft_status status = read_some(r->zero.offload_optimizer, OFFLOAD, COUNT_OF(OFFLOAD), &to);
    if (status || strcmp(to.device, "none") == 0)
        return status;
    r->d.optimizer_offload = to.ratio;
    if (strcmp(to.device, "cpu") != 0)
        add_text(r->scratch, r->notes, "offload_optimizer: state waits in host memory here");
    return WEFT_OK;
}

static weft_status read_zero(struct deepspeed_reading *r)
{
    static const struct field ZERO[] = {
        {"stage", FIELD_INT, offsetof(struct deepspeed_zero, stage), .min = 0, .max = 3},
        {"reduce_bucket_size", FIELD_REAL, offsetof(struct deepspeed_zero, reduce_bucket), .min = 1,
         .max = 1e15},
        {"overlap_comm", FIELD_BOOL, offsetof(struct deepspeed_zero, overlap)},
        {"offload_optimizer", FIELD_DOC, offsetof(struct deepspeed_zero, offload_optimizer)},
        {"offload_param", FIELD_DOC, offsetof(struct deepspeed_zero, offload_param)},
    };
    struct deepspeed_zero *z = &r->zero;
    weft_status status = read_some(r->file.zero, ZERO, COUNT_OF(ZERO), z);
    if (status)
        return status;
    if (!doc_get(r->file.zero, "overlap_comm"))
        z->overlap = z->stage == 3;
    if (z->offload_param)
        add_text(r->scratch, r->notes, "offload_param: parameters stay on the device here");
    return read_offload(r);
}

static weft_status read_types(struct deepspeed_reading *r)
{
    static const struct field TYPES[] = {{"grad_accum_dtype", FIELD_TEXT, 0}};
    const char *gradients = NULL;
    bool bf16 = false, fp16 = false;
    weft_status status;
    TRY(enabled(r->file.bf16, &bf16));
    TRY(enabled(r->file.fp16, &fp16));
    TRY(read_some(r->file.types, TYPES, COUNT_OF(TYPES), &gradients));
    r->d.has_dtype = r->d.has_policy = true;
    r->d.dtype = bf16 ? DTYPE_BF16 : fp16 ? DTYPE_FP16 : DTYPE_FP32;
    bool wide = gradients && (strcmp(gradients, "fp32") == 0 || strcmp(gradients, "float32") == 0);
    r->d.policy = !bf16 && !fp16 ? POLICY_FP32 : wide ? POLICY_MIXED_FP32_GRADIENTS : POLICY_MIXED;
done:
    return status;
}

static weft_status read_checkpoints(struct deepspeed_reading *r)
{
    static const struct field CHECKPOINTS[] = {{"cpu_checkpointing", FIELD_BOOL, 0}};
    if (!r->file.checkpoints)
        return WEFT_OK;
    r->d.recompute = RECOMPUTE_FULL;
    add_text(
        r->scratch, r->notes,
        "activation_checkpointing: every layer is taken to be recomputed; the program decides");
    return read_some(r->file.checkpoints, CHECKPOINTS, COUNT_OF(CHECKPOINTS), &r->d.offload);
}

static void set_overlap(struct deepspeed_reading *r)
{
    struct degrees *d = &r->d;
    d->shard = (int)r->zero.stage;
    d->has_shard = d->has_recompute = d->has_overlap = d->has_bucket = true;
    d->overlap = (r->zero.overlap && d->pp == 1 ? OVERLAP_GRADIENTS : 0) |
                 (r->zero.stage == 3 ? OVERLAP_PARAMETERS : 0);
    d->bucket_bytes = (int64_t)r->zero.reduce_bucket * bytes_per_gradient(d->policy);
}

/* Its Adam is AdamW unless adam_w_mode is false (engine.py, _configure_basic_optimizer). */
static weft_status read_optimizer(struct deepspeed_reading *r)
{
    static const struct field OPTIMIZER[] = {
        {"type", FIELD_TEXT, offsetof(struct deepspeed_optimizer, type)},
        {"params", FIELD_DOC, offsetof(struct deepspeed_optimizer, params)},
    };
    static const struct field PARAMS[] = {
        {"momentum", FIELD_REAL, offsetof(struct deepspeed_optimizer, momentum), .min = 0,
         .max = 1},
        {"adam_w_mode", FIELD_BOOL, offsetof(struct deepspeed_optimizer, decoupled)},
    };
    struct deepspeed_optimizer own = {.type = "AdamW", .decoupled = true};
    weft_status status;
    TRY(read_some(r->file.optimizer, OPTIMIZER, COUNT_OF(OPTIMIZER), &own));
    TRY(read_some(own.params, PARAMS, COUNT_OF(PARAMS), &own));
    if (!target_optimizer(source_target(deepspeed_import), own.type, &r->d.optimizer))
        add_text(r->scratch, r->notes,
                 arena_printf(r->scratch, "optimizer %.40s: AdamW is simulated", own.type));
    if (r->d.optimizer == UPDATE_ADAM && own.decoupled)
        r->d.optimizer = UPDATE_ADAMW;
    if (r->d.optimizer == UPDATE_MOMENTUM && own.momentum == 0)
        r->d.optimizer = UPDATE_SGD;
done:
    return status;
}

/* ---- degrees --------------------------------------------------------------------------------- */

static weft_status read_parallel(struct deepspeed_reading *r, const struct cluster *cluster)
{
    static const struct field TENSOR[] = {
        {"autotp_size", FIELD_INT, 0, .min = 0, .max = INT32_MAX}};
    static const struct field STAGES[] = {{"stages", FIELD_COUNT, 0, .min = 1, .max = INT32_MAX}};
    struct degrees *d = &r->d;
    bool experts = false;
    weft_status status;
    d->tp = d->pp = 1;
    TRY(read_some(r->file.tensor, TENSOR, COUNT_OF(TENSOR), &d->tp));
    TRY(read_some(r->file.pipeline, STAGES, COUNT_OF(STAGES), &d->pp));
    TRY(enabled(r->file.experts, &experts));
    if (experts || r->file.ulysses > 1)
        TRY(doc_error(doc_get(r->root, experts ? "expert_parallel" : "sequence_parallel_size"),
                      NULL, "%s is not read",
                      experts ? "expert parallelism by AutoEP"
                              : "sequence parallelism by Ulysses"));
    d->tp = d->tp ? d->tp : 1;
    int64_t devices = cluster_devices(cluster), replica = d->tp * d->pp;
    if (devices % replica)
        TRY(doc_error(r->root, "name a cluster with a multiple of these",
                      "tp %lld * pp %lld is %s, %s has %lld", (long long)d->tp, (long long)d->pp,
                      counted(replica, "device").s, cluster->name, (long long)devices));
    d->dp = devices / replica;
    d->cp = d->ep = d->pieces = 1;
done:
    return status;
}

/* Of the three numbers of (1) two give the third. */
static weft_status read_batch(struct deepspeed_reading *r)
{
    struct degrees *d = &r->d;
    int64_t batch = r->file.batch, micro = r->file.micro_batch, steps = r->file.accumulation;
    if (batch % d->tp)
        return doc_error(doc_get(r->root, "train_batch_size"), NULL,
                         "'train_batch_size' is %lld, which AutoTP over %s does not divide",
                         (long long)batch, counted(d->tp, "device").s);
    batch /= d->tp;
    if (!batch)
        batch = (micro ? micro : 1) * (steps ? steps : 1) * d->dp;
    if (!micro)
        micro = batch / d->dp / (steps ? steps : 1);
    bool fits =
        micro > 0 && batch % (micro * d->dp) == 0 && (!steps || batch == micro * steps * d->dp);
    if (!fits || (!r->file.batch && !r->file.micro_batch))
        return doc_error(r->root,
                         "give 'train_micro_batch_size_per_gpu' and "
                         "'gradient_accumulation_steps'",
                         "batches of %s are no whole number of steps of %lld on %lld "
                         "replicas",
                         counted(batch, "sample").s, (long long)micro, (long long)d->dp);
    d->micro_batch = micro;
    d->global_batch = batch;
    return WEFT_OK;
}

/* What `weft export` wrote for itself. */
static weft_status read_own(struct deepspeed_reading *r)
{
    static const struct field OWN[] = {{"settings", FIELD_TEXT, 0}};
    r->settings = "";
    return read_some(r->file.weft, OWN, COUNT_OF(OWN), &r->settings);
}

weft_status deepspeed_plan(struct arena *scratch, const struct import_input *input,
                           const struct model *model, const struct cluster *cluster,
                           struct plan **out, struct texts *notes)
{
    struct deepspeed_reading r = {
        .scratch = scratch, .d.software = input->software, .notes = notes};
    struct doc *root = NULL;
    struct plan *plan = NULL;
    weft_status status;
    TRY(doc_parse(scratch, input->file, input->text, input->len, DOC_JSON, &root));
    r.root = root;
    TRY(read_filled(&r, root, model));
    TRY(doc_read(root, FIELDS, COUNT_OF(FIELDS), DOC_IGNORE_UNKNOWN, &r.file));
    TRY(read_zero(&r));
    TRY(read_types(&r));
    TRY(read_optimizer(&r));
    TRY(read_checkpoints(&r));
    TRY(read_parallel(&r, cluster));
    TRY(read_batch(&r));
    TRY(read_own(&r));
    set_overlap(&r);
    TRY(plan_from_degrees(model, cluster, &r.d, &plan));
    plan_set_names(plan, input->model, input->options, input->cluster);
    TRY(settings_apply(scratch, input->file, r.file.weft ? r.file.weft->line : 0, r.settings,
                       plan));
    TRY(plan_check(plan));
    *out = plan;
    plan = NULL;
done:
    plan_free(plan);
    return status;
}

weft_status deepspeed_import(struct arena *scratch, const struct import_input *input,
                             struct opened_plan *out, struct texts *notes)
{
    weft_status status;
    *out = (struct opened_plan){0};
    if (!input->model)
        TRY(bad_argument("add --model", "DeepSpeed's JSON does not name its model"));
    struct import_input own = *input;
    TRY(open_practised(scratch, &own, out));
    TRY(deepspeed_plan(scratch, &own, out->model, out->cluster, &out->plan, notes));
done:
    if (status)
        plan_close(out);
    return status;
}
