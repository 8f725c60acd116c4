/* import_hf.c - Hugging Face's config.json as options of a family.
 *
 * One table per model_type maps its keys to options; what a config leaves out has the default of
 * transformers' config class. Keys without a row say nothing about work or memory and are ignored.
 *
 * I1  The place of an option is that of the key it came from, so an error points into config.json.
 * I2  `seq` of a model with rotary positions is at most LONGEST_SEQ: max_position_embeddings is what
 *     the model may be used with, not what a training sample holds. It can be overridden.
 */
#include "model/import.h"

#include <stdio.h>
#include <string.h>

enum { LONGEST_SEQ = 4096 };

enum rule {
    RULE_COUNT,    /* a whole number, at least 1 */
    RULE_NUMBER,   /* a whole number, at least 0 */
    RULE_SHARE,    /* a number: a probability */
    RULE_BOOL,     /* true or false */
    RULE_LIST,     /* a list, as it stands */
    RULE_FIRST,    /* the first number of a list; each is twice the one before */
    RULE_WORD,     /* a word, as the family has it */
    RULE_FIXED,    /* always the default: what the architecture is */
    RULE_SEQ,      /* I2 */
    RULE_PLUS_TWO, /* OPT's table of positions has two more rows than positions */
    RULE_CLASSES,  /* the number of labels */
    RULE_DTYPE,    /* torch's word for an element type */
    RULE_ACT,      /* an activation function */
    RULE_POOLER,   /* the architectures that have BERT's pooler */
    RULE_EXPECTED  /* not an option: a warning if it is not the default */
};

struct row {
    const char *key, *option;
    enum rule rule;
    const char *otherwise; /* the default; NULL leaves it to the family */
};

/* ---- tables: one per architecture --------------------------------------------------------------------- */

#define DTYPE                                                                                      \
    {"torch_dtype", "dtype", RULE_DTYPE, NULL},                                                    \
    {                                                                                              \
        "dtype", "dtype", RULE_DTYPE, NULL                                                         \
    }
/* What all of today's decoders call alike; their defaults differ. */
#define DECODER(layers, hidden, heads, ffn, vocab, positions)                                      \
    {"num_hidden_layers", "layers", RULE_COUNT, layers},                                           \
        {"hidden_size", "hidden", RULE_COUNT, hidden},                                             \
        {"num_attention_heads", "heads", RULE_COUNT, heads},                                       \
        {"intermediate_size", "ffn", RULE_COUNT, ffn}, {"vocab_size", "vocab", RULE_COUNT, vocab}, \
        {"max_position_embeddings", "seq", RULE_SEQ, positions}, DTYPE
#define KV_HEADS(otherwise) {"num_key_value_heads", "kv_heads", RULE_COUNT, otherwise}
#define HEAD_DIM(otherwise) {"head_dim", "head_dim", RULE_COUNT, otherwise}
#define TIED(otherwise)     {"tie_word_embeddings", "tied", RULE_BOOL, otherwise}

static const struct row GPT2[] = {
    {"n_layer", "layers", RULE_COUNT, "12"},
    {"n_embd", "hidden", RULE_COUNT, "768"},
    {"n_head", "heads", RULE_COUNT, "12"},
    {"n_inner", "ffn", RULE_COUNT, NULL},
    {"n_positions", "seq", RULE_COUNT, "1024"},
    {"vocab_size", "vocab", RULE_COUNT, "50257"},
    {"resid_pdrop", "dropout", RULE_SHARE, "0.1"},
    {"activation_function", "activation", RULE_ACT, "gelu_new"},
    TIED("true"),
    DTYPE,
};

static const struct row GPT_NEOX[] = {
    DECODER("44", "6144", "64", "24576", "50432", "2048"),
    {"use_parallel_residual", "parallel", RULE_BOOL, "true"},
    {"hidden_dropout", "dropout", RULE_SHARE, "0"},
    {"attention_bias", "bias", RULE_BOOL, "true"},
    {"hidden_act", "activation", RULE_ACT, "gelu"},
    {NULL, "positions", RULE_FIXED, "rotary"},
    TIED("false"),
};

static const struct row OPT[] = {
    {"num_hidden_layers", "layers", RULE_COUNT, "12"},
    {"hidden_size", "hidden", RULE_COUNT, "768"},
    {"num_attention_heads", "heads", RULE_COUNT, "12"},
    {"ffn_dim", "ffn", RULE_COUNT, "3072"},
    {"vocab_size", "vocab", RULE_COUNT, "50272"},
    {"max_position_embeddings", "seq", RULE_COUNT, "2048"},
    {"max_position_embeddings", "max_positions", RULE_PLUS_TWO, "2048"},
    {"dropout", "dropout", RULE_SHARE, "0.1"},
    {"enable_bias", "bias", RULE_BOOL, "true"},
    {"activation_function", "activation", RULE_ACT, "relu"},
    {"do_layer_norm_before", NULL, RULE_EXPECTED, "true"},
    TIED("true"),
    DTYPE,
};

static const struct row LLAMA[] = {
    DECODER("32", "4096", "32", "11008", "32000", "2048"),
    KV_HEADS(NULL),
    HEAD_DIM(NULL),
    {"attention_bias", "qkv_bias", RULE_BOOL, "false"},
    {"mlp_bias", NULL, RULE_EXPECTED, "false"},
    TIED("false"),
};

static const struct row MISTRAL[] = {
    DECODER("32", "4096", "32", "14336", "32000", "131072"),
    KV_HEADS("8"),
    HEAD_DIM(NULL),
    TIED("false"),
};

static const struct row MIXTRAL[] = {
    DECODER("32", "4096", "32", "14336", "32000", "131072"),
    KV_HEADS("8"),
    HEAD_DIM(NULL),
    {"num_local_experts", "experts", RULE_COUNT, "8"},
    {"num_experts_per_tok", "top_k", RULE_COUNT, "2"},
    TIED("false"),
};

static const struct row QWEN2[] = {
    DECODER("32", "4096", "32", "22016", "151936", "32768"),
    KV_HEADS("32"),
    {NULL, "qkv_bias", RULE_FIXED, "true"},
    TIED("false"),
};

static const struct row QWEN3[] = {
    DECODER("32", "4096", "32", "22016", "151936", "32768"),
    KV_HEADS("32"),
    HEAD_DIM("128"),
    {"attention_bias", "qkv_bias", RULE_BOOL, "false"},
    {NULL, "qk_norm", RULE_FIXED, "true"},
    TIED("false"),
};

static const struct row QWEN2_MOE[] = {
    DECODER("24", "2048", "16", "5632", "151936", "32768"),
    KV_HEADS("16"),
    {"num_experts", "experts", RULE_COUNT, "60"},
    {"num_experts_per_tok", "top_k", RULE_COUNT, "4"},
    {"moe_intermediate_size", "expert_ffn", RULE_COUNT, "1408"},
    {"shared_expert_intermediate_size", "shared_ffn", RULE_COUNT, "5632"},
    {"decoder_sparse_step", "moe_every", RULE_COUNT, "1"},
    {NULL, "shared_experts", RULE_FIXED, "1"},
    {NULL, "qkv_bias", RULE_FIXED, "true"},
    {"mlp_only_layers", NULL, RULE_EXPECTED, "[]"},
    TIED("false"),
};

static const struct row QWEN3_MOE[] = {
    DECODER("24", "2048", "32", "6144", "151936", "32768"),
    KV_HEADS("4"),
    HEAD_DIM(NULL),
    {"num_experts", "experts", RULE_COUNT, "128"},
    {"num_experts_per_tok", "top_k", RULE_COUNT, "8"},
    {"moe_intermediate_size", "expert_ffn", RULE_COUNT, "768"},
    {"decoder_sparse_step", "moe_every", RULE_COUNT, "1"},
    {"attention_bias", "qkv_bias", RULE_BOOL, "false"},
    {NULL, "qk_norm", RULE_FIXED, "true"},
    {"mlp_only_layers", NULL, RULE_EXPECTED, "[]"},
    TIED("false"),
};

#define LATENT                                                                                     \
    {"kv_lora_rank", "kv_lora", RULE_COUNT, "512"}, {"q_lora_rank", "q_lora", RULE_COUNT, NULL},   \
        {"qk_nope_head_dim", "nope_dim", RULE_COUNT, "128"},                                       \
        {"qk_rope_head_dim", "rope_dim", RULE_COUNT, "64"},                                        \
        {"v_head_dim", "value_dim", RULE_COUNT, "128"},                                            \
        {"moe_layer_freq", "moe_every", RULE_COUNT, "1"}

static const struct row DEEPSEEK_V2[] = {
    DECODER("30", "4096", "32", "11008", "102400", "2048"),
    LATENT,
    {"n_routed_experts", "experts", RULE_COUNT, "64"},
    {"n_shared_experts", "shared_experts", RULE_NUMBER, "2"},
    {"num_experts_per_tok", "top_k", RULE_COUNT, "6"},
    {"moe_intermediate_size", "expert_ffn", RULE_COUNT, "1407"},
    {"first_k_dense_replace", "first_dense", RULE_NUMBER, "0"},
    TIED("false"),
};

static const struct row DEEPSEEK_V3[] = {
    DECODER("61", "7168", "128", "18432", "129280", "4096"),
    LATENT,
    {"n_routed_experts", "experts", RULE_COUNT, "256"},
    {"n_shared_experts", "shared_experts", RULE_NUMBER, "1"},
    {"num_experts_per_tok", "top_k", RULE_COUNT, "8"},
    {"moe_intermediate_size", "expert_ffn", RULE_COUNT, "2048"},
    {"first_k_dense_replace", "first_dense", RULE_NUMBER, "3"},
    TIED("false"),
};

static const struct row GEMMA[] = {
    DECODER("28", "3072", "16", "24576", "256000", "8192"), KV_HEADS("16"), HEAD_DIM("256"),
    {"attention_bias", "qkv_bias", RULE_BOOL, "false"},     TIED("true"),
};

static const struct row PHI3[] = {
    DECODER("32", "3072", "32", "8192", "32064", "4096"),
    KV_HEADS(NULL),
    TIED("false"),
};

static const struct row BERT[] = {
    {"num_hidden_layers", "layers", RULE_COUNT, "12"},
    {"hidden_size", "hidden", RULE_COUNT, "768"},
    {"num_attention_heads", "heads", RULE_COUNT, "12"},
    {"intermediate_size", "ffn", RULE_COUNT, "3072"},
    {"vocab_size", "vocab", RULE_COUNT, "30522"},
    {"max_position_embeddings", "seq", RULE_COUNT, "512"},
    {"hidden_dropout_prob", "dropout", RULE_SHARE, "0.1"},
    {"architectures", "pooler", RULE_POOLER, "true"},
    {"type_vocab_size", NULL, RULE_EXPECTED, "2"},
    DTYPE,
};

static const struct row T5[] = {
    {"num_layers", "layers", RULE_COUNT, "6"},
    {"num_decoder_layers", "decoder_layers", RULE_COUNT, NULL},
    {"d_model", "hidden", RULE_COUNT, "512"},
    {"num_heads", "heads", RULE_COUNT, "8"},
    {"d_kv", "d_kv", RULE_COUNT, "64"},
    {"d_ff", "ffn", RULE_COUNT, "2048"},
    {"vocab_size", "vocab", RULE_COUNT, "32128"},
    {"relative_attention_num_buckets", "buckets", RULE_COUNT, "32"},
    {"dropout_rate", "dropout", RULE_SHARE, "0.1"},
    {"feed_forward_proj", "activation", RULE_WORD, "relu"},
    {"n_positions", "seq", RULE_COUNT, "512"},
    {"n_positions", "decoder_seq", RULE_COUNT, "512"},
    TIED("true"),
    DTYPE,
};

static const struct row VIT[] = {
    {"num_hidden_layers", "layers", RULE_COUNT, "12"},
    {"hidden_size", "hidden", RULE_COUNT, "768"},
    {"num_attention_heads", "heads", RULE_COUNT, "12"},
    {"intermediate_size", "ffn", RULE_COUNT, "3072"},
    {"image_size", "image", RULE_COUNT, "224"},
    {"patch_size", "patch", RULE_COUNT, "16"},
    {"id2label", "classes", RULE_CLASSES, "2"},
    {"num_channels", NULL, RULE_EXPECTED, "3"},
    DTYPE,
};

/* Its learned bias of the scores rules flash attention out. */
static const struct row SWIN[] = {
    {"depths", "depths", RULE_LIST, "[2, 2, 6, 2]"},
    {"embed_dim", "hidden", RULE_COUNT, "96"},
    {"num_heads", "heads", RULE_FIRST, "3"},
    {"image_size", "image", RULE_COUNT, "224"},
    {"patch_size", "patch", RULE_COUNT, "4"},
    {"window_size", "window", RULE_COUNT, "7"},
    {"id2label", "classes", RULE_CLASSES, "2"},
    {NULL, "attention", RULE_FIXED, "fused"},
    {"mlp_ratio", NULL, RULE_EXPECTED, "4"},
    {"num_channels", NULL, RULE_EXPECTED, "3"},
    DTYPE,
};

static const struct row RESNET[] = {
    {"depths", "blocks", RULE_LIST, "[3, 4, 6, 3]"},
    {"layer_type", "block", RULE_WORD, "bottleneck"},
    {"embedding_size", "channels", RULE_COUNT, "64"},
    {"id2label", "classes", RULE_CLASSES, "2"},
    {"num_channels", NULL, RULE_EXPECTED, "3"},
    {"downsample_in_first_stage", NULL, RULE_EXPECTED, "false"},
};

static const struct architecture {
    const char *type, *family;
    const struct row *rows;
    size_t count;
} ARCHITECTURES[] = {
    {"gpt2", "gpt", GPT2, COUNT_OF(GPT2)},
    {"gpt_neox", "gpt", GPT_NEOX, COUNT_OF(GPT_NEOX)},
    {"opt", "gpt", OPT, COUNT_OF(OPT)},
    {"llama", "llama", LLAMA, COUNT_OF(LLAMA)},
    {"mistral", "llama", MISTRAL, COUNT_OF(MISTRAL)},
    {"mixtral", "moe", MIXTRAL, COUNT_OF(MIXTRAL)},
    {"qwen2", "llama", QWEN2, COUNT_OF(QWEN2)},
    {"qwen3", "llama", QWEN3, COUNT_OF(QWEN3)},
    {"qwen2_moe", "moe", QWEN2_MOE, COUNT_OF(QWEN2_MOE)},
    {"qwen3_moe", "moe", QWEN3_MOE, COUNT_OF(QWEN3_MOE)},
    {"deepseek_v2", "moe", DEEPSEEK_V2, COUNT_OF(DEEPSEEK_V2)},
    {"deepseek_v3", "moe", DEEPSEEK_V3, COUNT_OF(DEEPSEEK_V3)},
    {"gemma", "llama", GEMMA, COUNT_OF(GEMMA)},
    {"phi3", "llama", PHI3, COUNT_OF(PHI3)},
    {"bert", "bert", BERT, COUNT_OF(BERT)},
    {"t5", "t5", T5, COUNT_OF(T5)},
    {"vit", "vit", VIT, COUNT_OF(VIT)},
    {"swin", "swin", SWIN, COUNT_OF(SWIN)},
    {"resnet", "resnet", RESNET, COUNT_OF(RESNET)},
};

/* ---- rules ------------------------------------------------------------------------------------------ */

struct reading {
    struct arena *scratch;
    const struct doc *root;
    struct doc *options, *last;
    ARRAY(const char *) warnings;
};

static void add_option(struct reading *r, const char *option, struct doc value)
{
    struct doc *copy = ARENA_NEW(r->scratch, struct doc);
    *copy = value;
    copy->key = option;
    copy->next = NULL;
    if (r->last)
        r->last->next = copy;
    else
        r->options->first = copy;
    r->last = copy;
    r->options->count++;
}

/* An option whose value is not in the file as such; its place is that of `at` (I1). */
static void add_text(struct reading *r, const char *option, const struct doc *at,
                     enum doc_kind kind, const char *text)
{
    add_option(r, option,
               (struct doc){.kind = kind, .line = at->line, .file = at->file, .text = text});
}

static void add_number(struct reading *r, const char *option, const struct doc *at, int64_t number)
{
    add_text(r, option, at, DOC_NUMBER, arena_printf(r->scratch, "%lld", (long long)number));
}

static weft_status checked(struct reading *r, const struct row *row, const struct doc *value,
                           enum field_type type)
{
    double unused = 0;
    int64_t whole = 0;
    bool flag = false;
    void *out = type == FIELD_REAL ? (void *)&unused : type == FIELD_BOOL ? (void *)&flag : &whole;
    weft_status status = doc_scalar(value, type, out);
    if (status == WEFT_OK && type == FIELD_INT && whole < 0)
        status = doc_error(value, NULL, "'%s' is %lld, expected a whole number of at least 0",
                           value->key, (long long)whole);
    if (status == WEFT_OK)
        add_option(r, row->option, *value);
    return status;
}

static weft_status rule_count(struct reading *r, const struct row *row, const struct doc *value)
{
    return checked(r, row, value, FIELD_COUNT);
}

static weft_status rule_number(struct reading *r, const struct row *row, const struct doc *value)
{
    return checked(r, row, value, FIELD_INT);
}

static weft_status rule_share(struct reading *r, const struct row *row, const struct doc *value)
{
    return checked(r, row, value, FIELD_REAL);
}

static weft_status rule_bool(struct reading *r, const struct row *row, const struct doc *value)
{
    return checked(r, row, value, FIELD_BOOL);
}

static weft_status rule_as_is(struct reading *r, const struct row *row, const struct doc *value)
{
    add_option(r, row->option, *value);
    return WEFT_OK;
}

static weft_status rule_first(struct reading *r, const struct row *row, const struct doc *value)
{
    int64_t first = 0, next;
    if (value->kind == DOC_NUMBER)
        return rule_count(r, row, value);
    if (value->kind != DOC_LIST || value->count == 0)
        return doc_error(value, NULL, "'%s' is %s, expected a list of numbers", value->key,
                         doc_kind_name(value->kind));
    for (const struct doc *d = value->first; d; d = d->next, first *= 2) {
        weft_status status = doc_scalar(d, FIELD_COUNT, &next);
        if (status)
            return status;
        if (d == value->first)
            first = next;
        if (next != first || first > INT32_MAX)
            return doc_error(d, NULL, "'%s' holds %lld, expected each number to be twice the last",
                             value->key, (long long)next);
    }
    add_number(r, row->option, value, first >> value->count);
    return WEFT_OK;
}

static weft_status rule_seq(struct reading *r, const struct row *row, const struct doc *value)
{
    int64_t positions;
    weft_status status = doc_scalar(value, FIELD_COUNT, &positions);
    if (status == WEFT_OK)
        add_number(r, row->option, value, positions < LONGEST_SEQ ? positions : LONGEST_SEQ);
    return status;
}

static weft_status rule_plus_two(struct reading *r, const struct row *row, const struct doc *value)
{
    int64_t positions;
    weft_status status = doc_scalar(value, FIELD_COUNT, &positions);
    if (status == WEFT_OK && checked_add(positions, 2, &positions))
        add_number(r, row->option, value, positions);
    return status;
}

/* id2label names them all, num_labels counts them. */
static weft_status rule_classes(struct reading *r, const struct row *row, const struct doc *value)
{
    const struct doc *count = doc_get(r->root, "num_labels");
    if (count)
        return checked(r, row, count, FIELD_COUNT);
    if (!doc_get(r->root, row->key)) /* the default */
        return rule_count(r, row, value);
    if (value->kind != DOC_MAP || value->count == 0)
        return doc_error(value, NULL, "'%s' is %s, expected a mapping of numbers to labels",
                         value->key, doc_kind_name(value->kind));
    add_number(r, row->option, value, (int64_t)value->count);
    return WEFT_OK;
}

struct words {
    const char *theirs, *ours;
};

/* The translation of a word; words without one are passed over with a warning. */
static weft_status translate(struct reading *r, const struct row *row, const struct doc *value,
                             const struct words *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(words[i].theirs, value->text) != 0)
            continue;
        add_text(r, row->option, value, DOC_TEXT, words[i].ours);
        return WEFT_OK;
    }
    const char *text = arena_printf(r->scratch, "'%s' is '%.40s', which counts as the default",
                                    row->key, value->text);
    array_push(r->scratch, &r->warnings, text);
    return WEFT_OK;
}

static weft_status rule_dtype(struct reading *r, const struct row *row, const struct doc *value)
{
    static const struct words WORDS[] = {
        {"float32", "fp32"}, {"float16", "fp16"}, {"bfloat16", "bf16"}};
    if (doc_get(r->options, "dtype"))
        return WEFT_OK; /* under its older name */
    return translate(r, row, value, WORDS, COUNT_OF(WORDS));
}

static weft_status rule_act(struct reading *r, const struct row *row, const struct doc *value)
{
    static const struct words WORDS[] = {{"gelu", "gelu"},
                                         {"gelu_new", "gelu"},
                                         {"gelu_fast", "gelu"},
                                         {"gelu_pytorch_tanh", "gelu"},
                                         {"relu", "relu"}};
    return translate(r, row, value, WORDS, COUNT_OF(WORDS));
}

/* Masked words alone need no pooled output. */
static weft_status rule_pooler(struct reading *r, const struct row *row, const struct doc *value)
{
    bool pooled = true;
    for (const struct doc *d = value->first; d; d = d->next)
        if (strcmp(d->text, "BertForMaskedLM") == 0)
            pooled = false;
    add_text(r, row->option, value, DOC_BOOL, pooled ? "true" : "false");
    return WEFT_OK;
}

static weft_status rule_expected(struct reading *r, const struct row *row, const struct doc *value)
{
    bool list = value->kind == DOC_LIST;
    bool same = list ? value->count == 0 : strcmp(value->text, row->otherwise) == 0;
    if (!same)
        array_push(r->scratch, &r->warnings,
                   arena_printf(r->scratch, "'%s' is %.40s, the model is built as if it were %s",
                                row->key, list ? "not empty" : value->text, row->otherwise));
    return WEFT_OK;
}

static weft_status (*const RULES[])(struct reading *, const struct row *, const struct doc *) = {
    [RULE_COUNT] = rule_count,       [RULE_NUMBER] = rule_number,   [RULE_SHARE] = rule_share,
    [RULE_BOOL] = rule_bool,         [RULE_LIST] = rule_as_is,      [RULE_FIRST] = rule_first,
    [RULE_WORD] = rule_as_is,        [RULE_FIXED] = rule_as_is,     [RULE_SEQ] = rule_seq,
    [RULE_PLUS_TWO] = rule_plus_two, [RULE_CLASSES] = rule_classes, [RULE_DTYPE] = rule_dtype,
    [RULE_ACT] = rule_act,           [RULE_POOLER] = rule_pooler,   [RULE_EXPECTED] = rule_expected,
};
_Static_assert(COUNT_OF(RULES) == RULE_EXPECTED + 1, "a rule without a function");

/* ---- reading a config --------------------------------------------------------------------------------- */

/* The default of a row as a node at the place of the whole config. */
static weft_status default_of(struct reading *r, const struct row *row, const struct doc **out)
{
    struct doc *node;
    weft_status status = doc_parse(r->scratch, r->root->file, row->otherwise,
                                   strlen(row->otherwise), DOC_YAML, &node);
    if (status)
        return status;
    node->line = r->root->line;
    node->key = row->key ? row->key : row->option;
    *out = node;
    return WEFT_OK;
}

static weft_status read_row(struct reading *r, const struct row *row)
{
    const struct doc *value = row->key ? doc_get(r->root, row->key) : NULL;
    bool labels = row->rule == RULE_CLASSES && doc_get(r->root, "num_labels");
    if (value && value->kind == DOC_NULL)
        value = NULL;
    if (!value && !labels && (!row->otherwise || row->rule == RULE_EXPECTED))
        return WEFT_OK;
    if (!value) {
        weft_status status = default_of(r, row, &value);
        if (status)
            return status;
    }
    return RULES[row->rule](r, row, value);
}

static weft_status find_architecture(const struct doc *root, const struct architecture **out)
{
    const struct doc *type = doc_get(root, "model_type");
    const char *names[COUNT_OF(ARCHITECTURES)], *near = NULL;
    char all[400] = "";
    size_t used = 0;
    if (!type || type->kind != DOC_TEXT)
        return doc_error(type ? type : root, NULL, "has no 'model_type', expected the name of one");
    for (size_t i = 0; i < COUNT_OF(ARCHITECTURES); i++) {
        names[i] = ARCHITECTURES[i].type;
        used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "", names[i]);
        if (strcmp(type->text, names[i]) == 0) {
            *out = &ARCHITECTURES[i];
            return WEFT_OK;
        }
    }
    near = nearest_word(type->text, names, COUNT_OF(names));
    weft_status status =
        doc_error(type, "write the model down as operators: see docs/model-file.md",
                  "'model_type' is '%.60s', expected one of %s", type->text, all);
    if (near)
        error_hint("did you mean '%s'?", near);
    return status;
}

/* "gpt2" of some/gpt2/config.json, "big" of some/big.json. */
static const char *name_of(struct arena *scratch, const char *file)
{
    const char *end = strrchr(file, '/'), *base = end ? end + 1 : file;
    if (strcmp(base, "config.json") != 0 || !end) {
        const char *dot = strrchr(base, '.');
        size_t len = dot && dot > base ? (size_t)(dot - base) : strlen(base);
        return arena_copy_bytes(scratch, base, len);
    }
    const char *start = end;
    while (start > file && start[-1] != '/')
        start--;
    return arena_copy_bytes(scratch, start, (size_t)(end - start));
}

weft_status import_hf(struct arena *scratch, const char *file, const struct doc *root,
                      const struct doc *overrides, struct model **out)
{
    weft_status status = WEFT_OK;
    const struct architecture *architecture = NULL;
    const struct family *family = NULL;
    struct doc options = {.kind = DOC_MAP, .line = root->line, .file = root->file, .text = ""};
    struct reading r = {.scratch = scratch, .root = root, .options = &options};
    TRY(find_architecture(root, &architecture));
    for (size_t i = 0; i < architecture->count; i++)
        TRY(read_row(&r, &architecture->rows[i]));
    TRY(family_find(architecture->family, root, &family));
    TRY(family_build(family, name_of(scratch, file), file,
                     options_merge(scratch, &options, overrides), out));
    for (size_t i = 0; i < r.warnings.len; i++)
        array_push((*out)->arena, &(*out)->warnings,
                   arena_copy_text((*out)->arena, r.warnings.data[i]));
done:
    return status;
}
