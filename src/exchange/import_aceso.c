/* import_aceso.c - Aceso's JSON, a tensor and a data parallel degree for every operator, as a plan.
 *
 *   micro_batch_size = samples per step, of all replicas together                                (1)
 *
 * Source: what search/aceso_search.py of microsoft/SuperScaler (commit a692fa66) writes and its runtime
 * reads. `resharding_stages` follows from the degrees; operators stand in Aceso's own order (aceso_plan.h).
 *
 *   I1  A stage recomputes if its checkpoint_activations is true; recompute_ops says which operators.
 */
#include "exchange/aceso_plan.h"

#include <string.h>

#include "exchange/room.h"

struct aceso_file {
    const char *name, *size;
    const struct doc *layers; /* a number; of a ResNet a list */
    int64_t hidden, heads, seq, encoder_seq, decoder_seq, ffn, kv_channels;
    int64_t global_batch, step_samples, stages; /* (1) */
    const struct doc *devices, *checkpoint, *operators, *tp, *dp, *recompute, *algo;
};
static const struct field FIELDS[] = {
    {"model_name", FIELD_TEXT, offsetof(struct aceso_file, name)},
    {"model_size", FIELD_TEXT, offsetof(struct aceso_file, size)},
    {"num_layers", FIELD_DOC, offsetof(struct aceso_file, layers)},
    {"hidden_size", FIELD_COUNT, offsetof(struct aceso_file, hidden)},
    {"num_attention_heads", FIELD_COUNT, offsetof(struct aceso_file, heads)},
    {"seq_length", FIELD_COUNT, offsetof(struct aceso_file, seq)},
    {"encoder_seq_length", FIELD_COUNT, offsetof(struct aceso_file, encoder_seq)},
    {"decoder_seq_length", FIELD_COUNT, offsetof(struct aceso_file, decoder_seq)},
    {"ffn_hidden_size", FIELD_COUNT, offsetof(struct aceso_file, ffn)},
    {"kv_channels", FIELD_COUNT, offsetof(struct aceso_file, kv_channels)},
    {"global_batch_size", FIELD_COUNT, offsetof(struct aceso_file, global_batch), .required = true},
    {"micro_batch_size", FIELD_COUNT, offsetof(struct aceso_file, step_samples), .required = true},
    {"num_stages", FIELD_COUNT, offsetof(struct aceso_file, stages), .required = true},
    {"num_gpus", FIELD_DOC, offsetof(struct aceso_file, devices), .required = true},
    {"checkpoint_activations", FIELD_DOC, offsetof(struct aceso_file, checkpoint)},
    {"num_ops_in_each_stage", FIELD_DOC, offsetof(struct aceso_file, operators), .required = true},
    {"model_parallel_size_of_each_op", FIELD_DOC, offsetof(struct aceso_file, tp),
     .required = true},
    {"data_parallel_size_of_each_op", FIELD_DOC, offsetof(struct aceso_file, dp), .required = true},
    {"recompute_ops", FIELD_DOC, offsetof(struct aceso_file, recompute)},
    {"algo_of_each_op", FIELD_DOC, offsetof(struct aceso_file, algo)},
};

struct aceso_reading {
    struct arena *scratch;
    const struct doc *root;
    struct aceso_file file;
    struct aceso_stage *stage;
    struct aceso_operator *op;
};

/* ---- lists ----------------------------------------------------------------------------------- */

/* Expects a list of `count` entries; `what` says of what, for the message. */
static weft_status check_list(const struct doc *list, const char *key, int64_t count,
                              const char *what)
{
    if (list->kind != DOC_LIST)
        return doc_error(list, NULL, "'%s' is %s, expected a list", key, doc_kind_name(list->kind));
    if ((int64_t)list->count != count)
        return doc_error(list, NULL, "'%s' has %zu entries, expected one for each of the %lld %s",
                         key, list->count, (long long)count, what);
    return WEFT_OK;
}

static weft_status read_number(const struct doc *node, const char *key, int64_t least, int64_t most,
                               int64_t *out)
{
    weft_status status;
    TRY(doc_scalar(node, FIELD_INT, out));
    if (*out < least || *out > most)
        TRY(doc_error(node, NULL, "'%s' has %lld, expected %lld to %lld", key, (long long)*out,
                      (long long)least, (long long)most));
done:
    return status;
}

/* Reads a list of `count` numbers. */
static weft_status read_numbers(struct aceso_reading *r, const struct doc *list, const char *key,
                                int64_t count, const char *what, int64_t least, int64_t most,
                                int64_t **out)
{
    weft_status status;
    TRY(check_list(list, key, count, what));
    int64_t *number = ARENA_ARRAY(r->scratch, int64_t, (size_t)count);
    const struct doc *node = list->first;
    for (int64_t i = 0; i < count; i++, node = node->next)
        TRY(read_number(node, key, least, most, &number[i]));
    *out = number;
done:
    return status;
}

/* ---- stages and operators -------------------------------------------------------------------- */

static weft_status read_stages(struct aceso_reading *r, const struct cluster *cluster)
{
    const struct aceso_file *f = &r->file;
    int64_t *devices, *operators, all = 0;
    weft_status status;
    TRY(read_numbers(r, f->devices, "num_gpus", f->stages, "stages", 1, INT32_MAX, &devices));
    TRY(read_numbers(r, f->operators, "num_ops_in_each_stage", f->stages, "stages", 1, INT32_MAX,
                     &operators));
    r->stage = ARENA_ARRAY(r->scratch, struct aceso_stage, (size_t)f->stages);
    for (int64_t s = 0; s < f->stages; s++) {
        r->stage[s] = (struct aceso_stage){devices[s], operators[s]};
        all += devices[s];
    }
    if (all != cluster_devices(cluster))
        TRY(doc_error(f->devices, "name the cluster it was made for",
                      "'num_gpus' adds up to %s, %s has %lld", counted(all, "device").s,
                      cluster->name, (long long)cluster_devices(cluster)));
done:
    return status;
}

/* The degrees of an operator must use all devices of its stage (aceso_plan.h, I2). */
static weft_status check_degrees(const struct aceso_reading *r, const struct doc *at, int64_t tp,
                                 int64_t dp, int64_t devices)
{
    if (tp * dp != devices)
        return doc_error(at, NULL, "tp %lld * dp %lld is not the %s of the stage", (long long)tp,
                         (long long)dp, counted(devices, "device").s);
    if (r->file.step_samples % dp)
        return doc_error(at, NULL, "dp %lld does not divide 'micro_batch_size', %lld",
                         (long long)dp, (long long)r->file.step_samples);
    return WEFT_OK;
}

/* The lists of one stage. */
struct lists {
    const struct doc *tp, *dp, *recompute, *algo; /* the last two may be NULL: absent */
    bool again;
};

static weft_status read_operators(struct aceso_reading *r, const struct lists *lists,
                                  const struct aceso_stage *stage, struct aceso_operator *op)
{
    static const char WHAT[] = "operators of the stage";
    int64_t n = stage->operators, *tp, *dp, *recompute = NULL, *algo = NULL;
    weft_status status;
    TRY(read_numbers(r, lists->tp, "model_parallel_size_of_each_op", n, WHAT, 1, stage->devices,
                     &tp));
    TRY(read_numbers(r, lists->dp, "data_parallel_size_of_each_op", n, WHAT, 1, stage->devices,
                     &dp));
    if (lists->recompute)
        TRY(read_numbers(r, lists->recompute, "recompute_ops", n, WHAT, 0, 1, &recompute));
    if (lists->algo)
        TRY(read_numbers(r, lists->algo, "algo_of_each_op", n, WHAT, 0, 1, &algo));
    for (int64_t i = 0; i < n; i++) {
        TRY(check_degrees(r, lists->tp, tp[i], dp[i], stage->devices));
        op[i] = (struct aceso_operator){.tp = tp[i],
                                        .flipped = algo && algo[i],
                                        .recompute = lists->again && recompute && recompute[i]};
    }
done:
    return status;
}

static weft_status read_lists(struct aceso_reading *r)
{
    const struct aceso_file *f = &r->file;
    static const char *const KEYS[] = {"model_parallel_size_of_each_op",
                                       "data_parallel_size_of_each_op", "recompute_ops",
                                       "algo_of_each_op", "checkpoint_activations"};
    const struct doc *list[] = {f->tp, f->dp, f->recompute, f->algo, f->checkpoint};
    _Static_assert(COUNT_OF(list) == COUNT_OF(KEYS), "a list without a key");
    size_t all = 0;
    weft_status status = WEFT_OK;
    for (size_t k = 0; k < COUNT_OF(list); k++) {
        if (list[k])
            TRY(check_list(list[k], KEYS[k], f->stages, "stages"));
        list[k] = list[k] ? list[k]->first : NULL;
    }
    for (int64_t s = 0; s < f->stages; s++)
        all += (size_t)r->stage[s].operators;
    if (all > DOC_MAX_NODES) /* more than any file can list */
        TRY(doc_error(f->operators, NULL, "'num_ops_in_each_stage' adds up to %s",
                      counted((int64_t)all, "operator").s));
    r->op = ARENA_ARRAY(r->scratch, struct aceso_operator, all);
    struct aceso_operator *op = r->op;
    for (int64_t s = 0; s < f->stages; s++) {
        struct lists lists = {list[0], list[1], list[2], list[3], true};
        if (list[4])
            TRY(doc_scalar(list[4], FIELD_BOOL, &lists.again)); /* I1 */
        TRY(read_operators(r, &lists, &r->stage[s], op));
        op += r->stage[s].operators;
        for (size_t k = 0; k < COUNT_OF(list); k++)
            list[k] = list[k] ? list[k]->next : NULL;
    }
done:
    return status;
}

/* ---- the plan -------------------------------------------------------------------------------- */

static const char *size_option(struct arena *scratch, const char *text, const char *key,
                               int64_t value)
{
    return value ? arena_printf(scratch, "%s%s%s: %lld", text, *text ? ", " : "", key,
                                (long long)value)
                 : text;
}

/* The sizes of a GPT or T5 that the file has, as options, and attention as Aceso's runtime computes it; "": it has none. */
static const char *sizes_of(struct aceso_reading *r, const char *given)
{
    const struct aceso_file *f = &r->file;
    const char *text = "";
    int64_t layers = 0;
    if (f->layers && f->layers->kind == DOC_NUMBER && doc_scalar(f->layers, FIELD_COUNT, &layers))
        error_clear();
    text = size_option(r->scratch, text, "layers", layers);
    text = size_option(r->scratch, text, "hidden", f->hidden);
    text = size_option(r->scratch, text, "heads", f->heads);
    text = size_option(r->scratch, text, "seq", f->seq ? f->seq : f->encoder_seq);
    text = size_option(r->scratch, text, "decoder_seq", f->decoder_seq);
    text = size_option(r->scratch, text, "ffn", f->ffn);
    text = size_option(r->scratch, text, "d_kv", f->kv_channels);
    bool theirs = *text && !(given && strstr(given, "attention:"));
    return theirs ? arena_printf(r->scratch, "%s, attention: eager", text) : text;
}

/* Named by the user; or one of those that Aceso's search knows, "gpt" and "1_3B", or of their kind with the sizes that
 * the file has. */
static weft_status model_of(struct aceso_reading *r, const struct import_input *input,
                            const char **out, const char **options)
{
    const char *name = r->file.name ? r->file.name : "", *size = r->file.size ? r->file.size : "";
    const char *sizes = sizes_of(r, input->options);
    const struct aceso_table *table =
        aceso_table_named(arena_printf(r->scratch, "%s_%s", name, size));
    if (!table && *sizes && (strcmp(name, "gpt") == 0 || strcmp(name, "t5") == 0))
        table = aceso_table_named(strcmp(name, "gpt") == 0 ? "gpt_1_3B" : "t5_770M");
    *out = input->model ? input->model : table ? table->model : NULL;
    *options = input->options;
    if (!input->model && *sizes)
        *options =
            input->options ? arena_printf(r->scratch, "%s, %s", sizes, input->options) : sizes;
    if (*out)
        return WEFT_OK;
    return bad_argument("add --model", "no model of Weft is known for '%.40s' of size '%.40s'",
                        name, size);
}

/* A model that the user names has the sizes that the file has. */
static weft_status check_model(struct aceso_reading *r, const struct model *model)
{
    const struct op *embedding = model_op_of_kind(model, OP_EMBEDDING);
    const struct aceso_file *f = &r->file;
    int64_t hidden = embedding ? embedding->weight[0].operand.size[1] : 0;
    if (f->hidden && hidden && hidden != f->hidden)
        return doc_error(doc_get(r->root, "hidden_size"),
                         "leave --model out, or name the one it is of",
                         "'hidden_size' is %lld, %s has %lld", (long long)f->hidden, model->name,
                         (long long)hidden);
    if (f->seq && model->seq > 1 && model->seq != f->seq)
        return doc_error(doc_get(r->root, "seq_length"), "add --set seq=...",
                         "'seq_length' is %lld, %s has %lld", (long long)f->seq, model->name,
                         (long long)model->seq);
    return WEFT_OK;
}

static weft_status make(struct aceso_reading *r, const struct import_input *input,
                        const char *model, const char *options, struct opened_plan *out)
{
    const struct aceso_file *f = &r->file;
    struct degrees settings = aceso_settings(f->global_batch);
    weft_status status;
    TRY(read_stages(r, out->cluster));
    TRY(read_lists(r));
    if (f->global_batch % f->step_samples)
        TRY(doc_error(doc_get(r->root, "micro_batch_size"), NULL,
                      "'micro_batch_size' is %lld, which does not divide 'global_batch_size', %lld",
                      (long long)f->step_samples, (long long)f->global_batch));
    struct aceso_plan theirs = {f->step_samples, (int32_t)f->stages, r->stage, r->op}; /* (1) */
    TRY(aceso_plan_make(&theirs, out->model, out->cluster, &settings, &out->plan));
    plan_set_names(out->plan, model, options, input->cluster);
done:
    return status;
}

weft_status aceso_import(struct arena *scratch, const struct import_input *input,
                         struct opened_plan *out, struct texts *notes)
{
    struct aceso_reading r = {.scratch = scratch};
    struct doc *root = NULL;
    const char *model, *options;
    weft_status status;
    *out = (struct opened_plan){0};
    TRY(doc_parse(scratch, input->file, input->text, input->len, DOC_JSON, &root));
    r.root = root;
    TRY(doc_read(root, FIELDS, COUNT_OF(FIELDS), DOC_IGNORE_UNKNOWN, &r.file));
    TRY(model_of(&r, input, &model, &options));
    TRY(model_open(model, options, &out->model));
    TRY(check_model(&r, out->model));
    TRY(cluster_open(input->cluster, &out->cluster));
    TRY(make(&r, input, model, options, out));
    if (!input->model)
        add_text(
            scratch, notes,
            arena_printf(scratch, "the model is taken to be %s: --model names another", model));
done:
    if (status)
        plan_close(out);
    return status;
}
