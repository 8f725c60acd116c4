/* public_write.c - a checkpoint as a folder that transformers load (public_weights.h).
 *
 *   I1  The folder gets its name when all of it is on the disk: it is written beside it first.
 */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "run/checkpoint/checkpoint.h"

/* ---- tensors --------------------------------------------------------------------------------- */

/* One tensor of theirs, out of one weight of Weft's. */
struct public_tensor {
    struct checkpoint *checkpoint;
    const char *own;
    struct shard shard; /* the whole weight */
    struct public_place place;
    int part;
    int64_t *row_of; /* per row of theirs: Weft's */
    float *numbers;  /* Weft's, while it is written; freed after the last of it */
    int64_t shape[2];
};

static weft_status load(struct public_tensor *t)
{
    t->numbers = malloc((size_t)t->shard.count * sizeof *t->numbers);
    if (!t->numbers)
        return failure("no memory for '%s', of %lld numbers", t->own, (long long)t->shard.count);
    return checkpoint_read(t->checkpoint, t->own, &t->shard, t->numbers);
}

static float number_at(const struct public_tensor *t, int64_t at)
{
    bool turned = t->place.form == FORM_TURNED || t->place.form == FORM_QKV_TURNED;
    int64_t width = turned ? t->shape[1] : t->place.columns;
    int64_t row = turned ? at % width : at / width, column = turned ? at / width : at % width;
    return t->numbers[t->row_of[row] * t->place.columns + column];
}

static weft_status fill(void *context, int64_t first, int64_t count, void *out)
{
    struct public_tensor *t = context;
    float *to = out;
    weft_status status = first ? WEFT_OK : load(t);
    for (int64_t i = 0; status == WEFT_OK && i < count; i++)
        to[i] = number_at(t, first + i);
    int64_t all = t->shape[0] * (t->shape[1] ? t->shape[1] : 1);
    if (status != WEFT_OK || first + count == all) {
        free(t->numbers);
        t->numbers = NULL;
    }
    return status;
}

/* Which of Weft's rows a part consists of, in its order. */
static void find_rows(struct arena *scratch, struct public_tensor *t, int64_t rows)
{
    t->row_of = ARENA_ARRAY(scratch, int64_t, (size_t)rows);
    for (int64_t row = 0; row < t->place.rows; row++) {
        struct public_row at = public_row_of(&t->place, row);
        if (at.part == t->part)
            t->row_of[at.row] = row;
    }
}

static void add_part(struct arena *scratch, const struct public_tensor *of, int part, int64_t axes,
                     struct tensor_values *out)
{
    struct public_tensor *t = ARENA_NEW(scratch, struct public_tensor);
    *t = *of;
    t->part = part;
    int64_t rows = t->place.parts == 1 ? t->place.rows : public_part_rows(&t->place, part);
    bool turned = t->place.form == FORM_TURNED || t->place.form == FORM_QKV_TURNED;
    find_rows(scratch, t, rows);
    t->shape[0] = turned ? t->place.columns : rows;
    t->shape[1] = axes < 2 ? 0 : turned ? rows : t->place.columns;
    *out = (struct tensor_values){.name = t->place.name[part],
                                  .dtype = STORED_F32,
                                  .axes = axes,
                                  .shape = t->shape,
                                  .fill = fill,
                                  .context = t};
}

static weft_status list_tensors(struct arena *scratch, const struct model *model,
                                struct checkpoint *checkpoint, struct tensor_values *out,
                                size_t *count)
{
    const struct checkpoint_tensor *tensor;
    size_t tensors = checkpoint_tensors(checkpoint, &tensor);
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < tensors; i++) {
        int64_t columns = tensor[i].axes > 1 ? tensor[i].shape[1] : 1;
        struct public_tensor t = {.checkpoint = checkpoint,
                                  .own = tensor[i].name,
                                  .shard = shard_whole(tensor[i].axes, tensor[i].shape)};
        if (is_run_state(tensor[i].name))
            continue;
        TRY(public_place_of(scratch, model, t.own, tensor[i].shape[0], columns, &t.place));
        for (int part = 0; part < t.place.parts; part++)
            add_part(scratch, &t, part, tensor[i].axes, &out[(*count)++]);
    }
done:
    return status;
}

static weft_status write_tensors(const struct model *model, struct checkpoint *checkpoint,
                                 const struct disk *disk, const char *path)
{
    static const struct stored_note NOTES[] = {{"format", "pt"}};
    const struct checkpoint_tensor *all;
    struct arena *scratch = arena_new();
    size_t count = 0, most = PUBLIC_PARTS * checkpoint_tensors(checkpoint, &all);
    struct tensor_values *tensors = ARENA_ARRAY(scratch, struct tensor_values, most + 1);
    struct written written;
    weft_status status;
    TRY(list_tensors(scratch, model, checkpoint, tensors, &count));
    TRY(tensor_file_write(disk, path, tensors, count, NOTES, COUNT_OF(NOTES), &written));
done:
    arena_free(scratch);
    return status;
}

/* ---- config.json ----------------------------------------------------------------------------- */

/* What a decoder's configuration says, by the operators of the model. */
struct decoder_facts {
    int64_t vocabulary, hidden, heads, kv_heads, depth, inner, positions;
    double epsilon;       /* of norms */
    double base, scaling; /* of rotary positions */
    bool tied, qkv_bias;
};

static int64_t inner_features(const struct model *model)
{
    for (int32_t i = 0; i < model->ops; i++)
        if (model->op[i].kind == OP_LINEAR && strcmp(model->op[i].name, "down") == 0)
            return model->op[i].size[2];
    return 0;
}

static bool has_bias(const struct model *model, const char *name)
{
    for (int32_t i = 0; i < model->ops; i++)
        if (model->op[i].kind == OP_LINEAR && strcmp(model->op[i].name, name) == 0)
            return model->op[i].weights > 1;
    return false;
}

static bool is_tied(const struct model *model)
{
    for (int32_t i = 0; i < model->ops; i++)
        if (strcmp(model->op[i].name, "head") == 0)
            return model->op[i].weights > 0 && model->op[i].weight[0].tied_op >= 0;
    return false;
}

static struct decoder_facts decoder_of(const struct model *model)
{
    const struct op *embedding = model_op_of_kind(model, OP_EMBEDDING);
    const struct op *attention = model_op_of_kind(model, OP_ATTENTION);
    const struct op *rotary = model_op_of_kind(model, OP_ROTARY);
    if (!attention)
        attention = model_op_of_kind(model, OP_SCORE);
    struct decoder_facts d = {.positions = model->seq,
                              .inner = inner_features(model),
                              .epsilon = model_norm_epsilon(model)};
    d.tied = is_tied(model);
    d.qkv_bias = has_bias(model, "qkv");
    if (embedding) {
        d.vocabulary = embedding->weight[0].operand.size[0];
        d.hidden = embedding->weight[0].operand.size[1];
        if (embedding->weights > 1)
            d.positions = embedding->weight[1].operand.size[0];
    }
    if (attention) {
        d.kv_heads = attention->size[1];
        d.heads = attention->size[1] * attention->size[2];
        d.depth = attention->size[5];
    }
    d.base = rotary ? rotary->rope_base : 0;
    d.scaling = rotary ? rotary->rope_scaling : 0;
    return d;
}

static json_t *gpt2_config(const struct model *model, const struct decoder_facts *d)
{
    return json_pack(
        "{s:[s], s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:b, s:s}",
        "architectures", "GPT2LMHeadModel", "model_type", "gpt2", "activation_function", "gelu_new",
        "n_layer", (json_int_t)model->layers, "n_head", (json_int_t)d->heads, "n_embd",
        (json_int_t)d->hidden, "n_inner", (json_int_t)d->inner, "n_positions",
        (json_int_t)d->positions, "vocab_size", (json_int_t)d->vocabulary, "layer_norm_epsilon",
        d->epsilon, "attn_pdrop", 0.0, "embd_pdrop", 0.0, "resid_pdrop", 0.0, "tie_word_embeddings",
        (int)d->tied, "torch_dtype", "float32");
}

static json_t *llama_config(const struct model *model, const struct decoder_facts *d)
{
    return json_pack(
        "{s:[s], s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:b, s:b, s:b, s:s}",
        "architectures", "LlamaForCausalLM", "model_type", "llama", "hidden_act", "silu",
        "num_hidden_layers", (json_int_t)model->layers, "num_attention_heads", (json_int_t)d->heads,
        "num_key_value_heads", (json_int_t)d->kv_heads, "head_dim", (json_int_t)d->depth,
        "hidden_size", (json_int_t)d->hidden, "intermediate_size", (json_int_t)d->inner,
        "max_position_embeddings", (json_int_t)d->positions, "vocab_size",
        (json_int_t)d->vocabulary, "rms_norm_eps", d->epsilon, "rope_theta", d->base,
        "tie_word_embeddings", (int)d->tied, "attention_bias", (int)d->qkv_bias, "mlp_bias", 0,
        "torch_dtype", "float32");
}

/* Nothing but the base where positions are not stretched. */
static void add_scaling(json_t *config, double factor)
{
    if (config && factor > 0)
        json_object_set_new(config, "rope_scaling",
                            json_pack("{s:s, s:f, s:f, s:f, s:i}", "rope_type", "llama3", "factor",
                                      factor, "low_freq_factor", 1.0, "high_freq_factor",
                                      (double)ROPE_FAST, "original_max_position_embeddings",
                                      ROPE_LEARNED));
}

static weft_status write_config(const struct model *model, const struct disk *disk,
                                const char *path)
{
    struct decoder_facts d = decoder_of(model);
    bool llama = strcmp(model->family, "llama") == 0;
    json_t *config = llama ? llama_config(model, &d) : gpt2_config(model, &d);
    add_scaling(config, d.scaling);
    char *text = config ? json_dumps(config, JSON_INDENT(2)) : NULL;
    struct sink sink;
    struct written written;
    weft_status status = text ? sink_open(disk, path, &sink) : failure("no memory for %s", path);
    if (status == WEFT_OK) {
        status = sink_write(&sink, text, strlen(text));
        if (status == WEFT_OK)
            status = sink_finish(&sink, &written);
        else
            sink_drop(&sink);
    }
    free(text);
    json_decref(config);
    return status;
}

/* ---- the folder ------------------------------------------------------------------------------ */

weft_status public_weights_write(const struct model *model, struct checkpoint *checkpoint,
                                 const struct disk *disk, const char *folder)
{
    struct arena *scratch = arena_new();
    const char *temporary = arena_printf(scratch, "%s.tmp", folder);
    const char *config = arena_printf(scratch, "%s/config.json", temporary);
    const char *tensors = arena_printf(scratch, "%s/model.safetensors", temporary);
    weft_status status = WEFT_OK;
    if (disk->make_folder(disk->context, temporary) != 0 && errno != EEXIST)
        TRY(file_failure(temporary, "made"));
    TRY(write_config(model, disk, config));
    TRY(write_tensors(model, checkpoint, disk, tensors));
    if (disk->rename(disk->context, temporary, folder) != 0) /* I1 */
        TRY(file_failure(folder, "named"));
done:
    if (status != WEFT_OK) {
        disk->remove(disk->context, tensors);
        disk->remove(disk->context, config);
        disk->remove(disk->context, temporary);
    }
    arena_free(scratch);
    return status;
}
