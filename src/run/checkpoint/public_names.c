/* public_names.c - which tensors of transformers hold a weight of Weft's (public_weights.h).
 *
 * A '%' in a name stands for the number of a layer.
 */
#include <stdlib.h>
#include <string.h>

#include "run/checkpoint/checkpoint.h"

struct name_row {
    const char *own;
    enum public_form form;
    const char *theirs[PUBLIC_PARTS];
};

static const struct name_row GPT2[] = {
    {"embedding.weight", FORM_SAME, {"transformer.wte.weight"}},
    {"embedding.positions", FORM_SAME, {"transformer.wpe.weight"}},
    {"layers.%.attn.norm.weight", FORM_SAME, {"transformer.h.%.ln_1.weight"}},
    {"layers.%.attn.norm.bias", FORM_SAME, {"transformer.h.%.ln_1.bias"}},
    {"layers.%.attn.qkv.weight", FORM_QKV_TURNED, {"transformer.h.%.attn.c_attn.weight"}},
    {"layers.%.attn.qkv.bias", FORM_QKV, {"transformer.h.%.attn.c_attn.bias"}},
    {"layers.%.attn.proj.weight", FORM_TURNED, {"transformer.h.%.attn.c_proj.weight"}},
    {"layers.%.attn.proj.bias", FORM_SAME, {"transformer.h.%.attn.c_proj.bias"}},
    {"layers.%.mlp.norm.weight", FORM_SAME, {"transformer.h.%.ln_2.weight"}},
    {"layers.%.mlp.norm.bias", FORM_SAME, {"transformer.h.%.ln_2.bias"}},
    {"layers.%.mlp.up.weight", FORM_TURNED, {"transformer.h.%.mlp.c_fc.weight"}},
    {"layers.%.mlp.up.bias", FORM_SAME, {"transformer.h.%.mlp.c_fc.bias"}},
    {"layers.%.mlp.down.weight", FORM_TURNED, {"transformer.h.%.mlp.c_proj.weight"}},
    {"layers.%.mlp.down.bias", FORM_SAME, {"transformer.h.%.mlp.c_proj.bias"}},
    {"norm.weight", FORM_SAME, {"transformer.ln_f.weight"}},
    {"norm.bias", FORM_SAME, {"transformer.ln_f.bias"}},
    {"head.weight", FORM_SAME, {"lm_head.weight"}},
};

#define LAYER "model.layers.%."
static const struct name_row LLAMA[] = {
    {"embedding.weight", FORM_SAME, {"model.embed_tokens.weight"}},
    {"layers.%.attn.norm.weight", FORM_SAME, {LAYER "input_layernorm.weight"}},
    {"layers.%.attn.qkv.weight",
     FORM_QKV,
     {LAYER "self_attn.q_proj.weight", LAYER "self_attn.k_proj.weight",
      LAYER "self_attn.v_proj.weight"}},
    {"layers.%.attn.qkv.bias",
     FORM_QKV,
     {LAYER "self_attn.q_proj.bias", LAYER "self_attn.k_proj.bias", LAYER "self_attn.v_proj.bias"}},
    {"layers.%.attn.proj.weight", FORM_SAME, {LAYER "self_attn.o_proj.weight"}},
    {"layers.%.attn.proj.bias", FORM_SAME, {LAYER "self_attn.o_proj.bias"}},
    {"layers.%.mlp.norm.weight", FORM_SAME, {LAYER "post_attention_layernorm.weight"}},
    {"layers.%.mlp.gate_up.weight",
     FORM_GATES,
     {LAYER "mlp.gate_proj.weight", LAYER "mlp.up_proj.weight"}},
    {"layers.%.mlp.down.weight", FORM_SAME, {LAYER "mlp.down_proj.weight"}},
    {"norm.weight", FORM_SAME, {"model.norm.weight"}},
    {"head.weight", FORM_SAME, {"lm_head.weight"}},
};

static const struct {
    const char *family; /* of the model */
    const struct name_row *row;
    size_t rows;
} FAMILIES[] = {
    {"gpt", GPT2, COUNT_OF(GPT2)},
    {"llama", LLAMA, COUNT_OF(LLAMA)},
};

/* ---- rows ------------------------------------------------------------------------------------ */

/* I1 */
static int64_t feature_there(const struct public_place *place, int64_t feature)
{
    return place->rotates ? feature / 2 + feature % 2 * (place->depth / 2) : feature;
}

static struct public_row qkv_row(const struct public_place *place, int64_t row)
{
    int64_t depth = place->depth, share = (place->group + 2) * depth;
    int64_t head = row / share, within = row % share, feature = within % depth;
    if (within < place->group * depth)
        return (struct public_row){0, (head * place->group + within / depth) * depth +
                                          feature_there(place, feature)};
    bool value = within >= (place->group + 1) * depth;
    return (struct public_row){1 + value,
                               head * depth + (value ? feature : feature_there(place, feature))};
}

int64_t public_part_rows(const struct public_place *place, int part)
{
    if (place->form == FORM_GATES)
        return place->rows / 2;
    if (place->form != FORM_QKV && place->form != FORM_QKV_TURNED)
        return place->rows;
    return place->heads * place->depth * (part == 0 ? place->group : 1);
}

/* In one tensor, parts follow each other. */
static struct public_row in_one(const struct public_place *place, struct public_row at)
{
    while (at.part > 0)
        at.row += public_part_rows(place, --at.part);
    return at;
}

struct public_row public_row_of(const struct public_place *place, int64_t row)
{
    struct public_row at = {0, row};
    if (place->form == FORM_GATES)
        return (struct public_row){(int)(row % 2), row / 2};
    if (place->form == FORM_QKV || place->form == FORM_QKV_TURNED)
        at = qkv_row(place, row);
    return place->parts == 1 ? in_one(place, at) : at;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Whether a name is that of a row; the number that '%' stands for. */
static bool is_named(const char *name, const char *pattern, long *layer)
{
    const char *number = strchr(pattern, '%');
    size_t before = number ? (size_t)(number - pattern) : 0;
    char *end = NULL;
    if (!number)
        return strcmp(name, pattern) == 0;
    if (strncmp(name, pattern, before) != 0)
        return false;
    *layer = strtol(name + before, &end, 10);
    return end > name + before && strcmp(end, number + 1) == 0;
}

static const char *numbered(struct arena *keep, const char *pattern, long layer)
{
    const char *number = strchr(pattern, '%');
    return number ? arena_printf(keep, "%.*s%ld%s", (int)(number - pattern), pattern, layer,
                                 number + 1)
                  : pattern;
}

/* What is said about heads, by the first attention of the model. */
static void find_heads(const struct model *model, struct public_place *out)
{
    const struct op *op = model_op_of_kind(model, OP_ATTENTION);
    if (!op)
        op = model_op_of_kind(model, OP_SCORE);
    if (!op)
        return;
    out->heads = op->size[1];
    out->group = op->size[2];
    out->depth = op->size[5];
    out->rotates = model_op_of_kind(model, OP_ROTARY) != NULL;
}

static weft_status fill_place(struct arena *keep, const struct model *model,
                              const struct name_row *row, long layer, struct public_place *out)
{
    bool qkv = row->form == FORM_QKV || row->form == FORM_QKV_TURNED;
    out->form = row->form;
    for (int i = 0; i < PUBLIC_PARTS && row->theirs[i]; i++)
        out->name[out->parts++] = numbered(keep, row->theirs[i], layer);
    find_heads(model, out);
    if (qkv && out->heads * (out->group + 2) * out->depth != out->rows)
        return bad_argument(NULL,
                            "%s has products of queries, keys and values that are not made "
                            "for its heads: transformers have no such model",
                            model->name);
    return WEFT_OK;
}

weft_status public_place_of(struct arena *keep, const struct model *model, const char *name,
                            int64_t rows, int64_t columns, struct public_place *out)
{
    *out = (struct public_place){.rows = rows, .columns = columns};
    for (size_t f = 0; f < COUNT_OF(FAMILIES); f++)
        for (size_t i = 0; strcmp(model->family, FAMILIES[f].family) == 0 && i < FAMILIES[f].rows;
             i++) {
            long layer = 0;
            if (is_named(name, FAMILIES[f].row[i].own, &layer))
                return fill_place(keep, model, &FAMILIES[f].row[i], layer, out);
        }
    return bad_argument("weights go from and to the families gpt2 and llama",
                        "%s is of the family %s, and '%s' has no name among Hugging Face's",
                        model->name, model->family, name);
}
