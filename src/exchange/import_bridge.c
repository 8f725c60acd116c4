/* import_bridge.c - a dumped configuration of Megatron-Bridge or NeMo (YAML) as a plan.
 *
 * Both hand their fields on to Megatron-Core, whose arguments have the same names but for those of RENAMED: every field
 * becomes an argument, whatever section it stands in, and these are read as import_megatron.c reads them. Source:
 * src/megatron/bridge/models/gpt_provider.py of NVIDIA-NeMo/Megatron-Bridge, and megatron/core's TransformerConfig.
 *
 *   I1  A field that is no argument, is nothing, or is not of the argument's type says nothing about a plan.
 */
#include <string.h>

#include "exchange/room.h"

enum renaming {
    AS_VALUE, /* the argument has the field's value */
    IF_TRUE,  /* a switch that is on where the field is true */
    IF_FALSE, /* or where it is false */
    IF_GIVEN  /* or where it has any value */
};
static const struct {
    const char *field, *argument;
    enum renaming how;
} RENAMED[] = {
    {"num_moe_experts", "num-experts", AS_VALUE},
    {"gated_linear_unit", "swiglu", IF_TRUE},
    {"add_bias_linear", "disable-bias-linear", IF_FALSE},
    {"share_embeddings_and_output_weights", "untie-embeddings-and-output-weights", IF_FALSE},
    {"virtual_pipeline_model_parallel_size", "num-virtual-stages-per-pipeline-rank", AS_VALUE},
    {"microbatch_group_size_per_vp_stage", "microbatch-group-size-per-virtual-pipeline-stage",
     AS_VALUE},
    {"num_layers_in_first_pipeline_stage", "decoder-first-pipeline-num-layers", AS_VALUE},
    {"num_layers_in_last_pipeline_stage", "decoder-last-pipeline-num-layers", AS_VALUE},
    {"num_query_groups", "group-query-attention", IF_GIVEN},
    {"num_query_groups", "num-query-groups", AS_VALUE},
    {"grad_reduce_in_fp32", "grad-reduce-in-bf16", IF_FALSE},
    {"overlap_p2p_comm", "no-overlap-p2p-communication", IF_FALSE},
    {"masked_softmax_fusion", "no-masked-softmax-fusion", IF_FALSE},
    {"bucket_size", "ddp-bucket-size", AS_VALUE},
    {"sequence_length", "seq-length", AS_VALUE},
    {"layernorm_epsilon", "norm-epsilon", AS_VALUE},
    {"yarn_rotary_scaling_factor", "rotary-scaling-factor", AS_VALUE},
    {"yarn_mscale_all_dim", "mscale-all-dim", AS_VALUE},
    {"yarn_correction_range_round_to_int", "no-yarn-correction-range-round-to-int", IF_FALSE},
    {"fp8", "fp8-format", AS_VALUE},
    {"fp4", "fp4-format", AS_VALUE},
};

struct bridge_reading {
    struct arena *scratch;
    const char *text; /* of the arguments so far */
    bool padded;      /* the vocabulary is */
};

static void add_argument(struct bridge_reading *r, const char *name, const char *value)
{
    r->text = value ? arena_printf(r->scratch, "%s --%s '%s'", r->text, name, value)
                    : arena_printf(r->scratch, "%s --%s", r->text, name);
}

static bool is_scalar(const struct doc *d)
{
    return d->kind == DOC_NUMBER || d->kind == DOC_TEXT || d->kind == DOC_BOOL;
}

static bool is_true(const struct doc *d)
{
    return d->kind == DOC_BOOL && strcmp(d->text, "true") == 0;
}

/* "[0, 1, 1]" for one word, the words themselves for several; NULL: not of plain values. */
static const char *list_text(struct arena *scratch, const struct doc *list, bool one)
{
    const char *text = "";
    for (const struct doc *d = list->first; d; d = d->next) {
        if (!is_scalar(d))
            return NULL;
        text = arena_printf(scratch, "%s%s%s", text, *text ? one ? "," : "' '" : "", d->text);
    }
    return one ? arena_printf(scratch, "[%s]", text) : text;
}

/* I1 */
static void add_value(struct bridge_reading *r, const char *name, const struct doc *d)
{
    enum flag_type type = any_flag(name);
    double number;
    const char *text = is_scalar(d)          ? d->text
                       : d->kind == DOC_LIST ? list_text(r->scratch, d, type == FLAG_WORD)
                                             : NULL;
    bool counts = type == FLAG_INT || type == FLAG_REAL;
    if (type == FLAG_SWITCH && is_true(d))
        add_argument(r, name, NULL);
    if (type == FLAG_SWITCH || type == FLAG_UNKNOWN || !text || !*text)
        return;
    if ((counts && (!parse_real(text, &number) || d->kind != DOC_NUMBER)) || d->kind == DOC_BOOL)
        return;
    if (type == FLAG_INT) /* 5e8 is a whole number, too */
        text = arena_printf(r->scratch, "%.0f", number);
    if (!strpbrk(text, "\n$`\\\"") && (d->kind == DOC_LIST || !strchr(text, '\'')))
        add_argument(r, name, text);
}

static bool rename_field(struct bridge_reading *r, const struct doc *d)
{
    bool renamed = false;
    for (size_t i = 0; i < COUNT_OF(RENAMED); i++) {
        if (strcmp(RENAMED[i].field, d->key) != 0)
            continue;
        renamed = true;
        bool is_false = d->kind == DOC_BOOL && !is_true(d);
        if (RENAMED[i].how == AS_VALUE)
            add_value(r, RENAMED[i].argument, d);
        else if (RENAMED[i].how == IF_TRUE    ? is_true(d)
                 : RENAMED[i].how == IF_FALSE ? is_false
                                              : d->kind == DOC_NUMBER)
            add_argument(r, RENAMED[i].argument, NULL);
    }
    return renamed;
}

/* "bf16_mixed", "bf16_with_fp8_current_scaling_mixed": a recipe of precisions by its name
 * (src/megatron/bridge/training/mixed_precision.py). */
static void add_precision(struct bridge_reading *r, const char *recipe)
{
    static const struct {
        const char *part, *argument, *value;
    } PARTS[] = {
        {"nvfp4", "fp4-format", "e2m1"},
        {"fp8", "fp8-format", "hybrid"},
        {"mxfp8", "fp8-recipe", "mxfp8"},
        {"current_scaling", "fp8-recipe", "tensorwise"},
        {"subchannel_scaling", "fp8-recipe", "blockwise"},
    };
    add_argument(r, strncmp(recipe, "fp16", 4) == 0 ? "fp16" : "bf16", NULL);
    for (size_t i = 0; i < COUNT_OF(PARTS); i++)
        if (strstr(recipe, PARTS[i].part))
            add_argument(r, PARTS[i].argument, PARTS[i].value);
}

static void add_fields(struct bridge_reading *r, const struct doc *map)
{
    for (const struct doc *d = map->first; d; d = d->next) {
        if (d->kind == DOC_MAP)
            add_fields(r, d);
        if (d->kind == DOC_MAP || d->kind == DOC_NULL || rename_field(r, d))
            continue;
        char *name = arena_copy_text(r->scratch, d->key);
        for (char *c = name; *c; c++)
            *c = *c == '_' ? '-' : *c;
        if (strcmp(d->key, "mixed_precision") == 0 && d->kind == DOC_TEXT)
            add_precision(r, d->text);
        else if (strcmp(d->key, "should_pad_vocab") == 0)
            r->padded = is_true(d);
        else
            add_value(r, name, d);
    }
}

weft_status bridge_import(struct arena *scratch, const struct import_input *input,
                          struct opened_plan *out, struct texts *notes)
{
    struct bridge_reading r = {.scratch = scratch, .text = ""};
    struct import_input arguments = *input;
    struct doc *root;
    weft_status status = doc_parse(scratch, input->file, input->text, input->len, DOC_YAML, &root);
    *out = (struct opened_plan){0};
    if (status)
        return status;
    if (root->kind != DOC_MAP)
        return doc_error(root, NULL, "is %s, expected a configuration", doc_kind_name(root->kind));
    add_fields(&r, root);
    if (!r.padded)
        add_argument(&r, "make-vocab-size-divisible-by", "1");
    arguments.text = r.text;
    arguments.len = strlen(r.text);
    return megatron_import(scratch, &arguments, out, notes);
}
