/* yaml_kinds.c - the kinds of operators in a model file: their keys, their requirements, and the
 * builder's call.
 *
 * What an operator requires of its inputs is checked here, before the builder is called. Sizes are
 * those of one sample, with the batch as axis 0.
 */
#include "model/yaml_ops.h"

#include <string.h>

/* ---- one function per kind ------------------------------------------------------------------- */

static weft_status do_embedding(struct yaml_reader *r, struct yaml_spec *spec, int *out)
{
    *out = build_embedding(r->b, spec->name, spec->x[0], spec->vocab, spec->width, spec->positions);
    return WEFT_OK;
}

static weft_status do_embedding_bag(struct yaml_reader *r, struct yaml_spec *spec, int *out)
{
    *out =
        build_embedding_bag(r->b, spec->name, spec->tables, spec->rows, spec->width, spec->lookups);
    return WEFT_OK;
}

static weft_status do_linear(struct yaml_reader *r, struct yaml_spec *spec, int *out)
{
    if (!spec->tied == !spec->out)
        return doc_error(spec->at, NULL, "'%.60s' has %s, expected either 'out' or 'tied'",
                         spec->name, spec->out ? "both" : "neither");
    if (spec->out) {
        *out = build_linear(r->b, spec->name, spec->x[0], spec->out, spec->bias);
        return WEFT_OK;
    }
    const struct yaml_entry *table = yaml_find_name(r, spec->tied);
    if (!table)
        return yaml_unknown_name(r, doc_get(spec->at, "tied"), spec->tied);
    const struct op *op = table->op >= 0 ? &r->b->ops.data[table->op] : NULL;
    if (!op || op->kind != OP_EMBEDDING || table->tensor != op->output.tensor ||
        build_features(r->b, table->tensor) != build_features(r->b, spec->x[0]))
        return doc_error(doc_get(spec->at, "tied"), NULL,
                         "'%.60s' is not an embedding of width %lld, which 'tied' expects",
                         spec->tied, (long long)build_features(r->b, spec->x[0]));
    *out = build_tied_linear(r->b, spec->name, spec->x[0], table->op);
    return WEFT_OK;
}

/* Fills in heads and depth from the inputs' features, and checks that they agree. `parts` is how
 * many head widths a position of the first input holds. */
static weft_status read_heads(const struct yaml_reader *r, struct yaml_spec *spec, int64_t parts,
                              struct attention *a)
{
    int64_t features = build_features(r->b, spec->x[0]);
    int64_t kv = spec->kv_heads ? spec->kv_heads : spec->heads;
    if (spec->heads % kv)
        return doc_error(spec->at, NULL, "'kv_heads' is %lld, expected a divisor of 'heads', %lld",
                         (long long)kv, (long long)spec->heads);
    int64_t depth = spec->depth ? spec->depth : features / parts;
    if (depth < 1 || depth * parts != features)
        return doc_error(spec->at, NULL,
                         "'%.60s' reads %lld features per position, expected %lld times a head's "
                         "width",
                         spec->name, (long long)features, (long long)parts);
    if (spec->window && !spec->causal)
        return doc_error(doc_get(spec->at, "window"), "add 'causal: true'",
                         "'window' is %lld keys, which is only possible with 'causal'",
                         (long long)spec->window);
    *a = (struct attention){spec->heads, kv, depth, spec->value_depth, spec->causal, spec->window};
    return WEFT_OK;
}

static bool is_keys(const struct yaml_reader *r, int x, int64_t features)
{
    return yaml_axes(r, x) == 3 && build_features(r->b, x) == features;
}

static weft_status do_score(struct yaml_reader *r, struct yaml_spec *spec, int *out)
{
    struct attention a;
    weft_status status = read_heads(r, spec, spec->heads, &a);
    if (status)
        return status;
    if (!is_keys(r, spec->x[1], a.kv_heads * a.depth))
        return yaml_differing(r, spec, 0, 1);
    *out = build_score(r->b, spec->name, spec->x[0], spec->x[1], &a);
    return WEFT_OK;
}

static weft_status do_context(struct yaml_reader *r, struct yaml_spec *spec, int *out)
{
    int64_t kv = spec->kv_heads ? spec->kv_heads : spec->heads;
    bool fits = spec->heads % kv == 0 && yaml_axes(r, spec->x[1]) == 3 &&
                yaml_size(r, spec->x[0], 1) == spec->heads &&
                yaml_size(r, spec->x[0], 3) == yaml_size(r, spec->x[1], 1) &&
                build_features(r->b, spec->x[1]) % kv == 0;
    if (!fits)
        return yaml_differing(r, spec, 0, 1);
    struct attention a = {spec->heads, kv, build_features(r->b, spec->x[1]) / kv, 0, spec->causal};
    *out = build_context(r->b, spec->name, spec->x[0], spec->x[1], &a);
    return WEFT_OK;
}

/* Either one fused tensor of queries, keys and values, or three tensors. */
static weft_status do_attention(struct yaml_reader *r, struct yaml_spec *spec, int *out)
{
    struct attention a;
    bool fused = spec->count == 1;
    int64_t kv = spec->kv_heads ? spec->kv_heads : spec->heads;
    weft_status status = read_heads(r, spec, spec->heads + (fused ? 2 * kv : 0), &a);
    if (status)
        return status;
    int q = spec->x[0], k = fused ? q : spec->x[1], v = fused ? q : spec->x[spec->count - 1];
    if (spec->count == 2)
        return doc_error(spec->at, NULL, "'%.60s' has 2 inputs, expected 1 or 3", spec->name);
    if (!fused && !is_keys(r, k, a.kv_heads * a.depth))
        return yaml_differing(r, spec, 0, 1);
    if (!fused && (yaml_axes(r, v) != 3 || build_features(r->b, v) % a.kv_heads ||
                   yaml_size(r, v, 1) != yaml_size(r, k, 1)))
        return yaml_differing(r, spec, 1, 2);
    if (!fused)
        a.value_depth = build_features(r->b, v) / a.kv_heads;
    *out = build_attention(r->b, spec->name, q, k, v, &a);
    if (spec->sinks)
        build_sinks(r->b, a.heads);
    return WEFT_OK;
}

static weft_status do_softmax(struct yaml_reader *r, struct yaml_spec *spec, int *out)
{
    *out = build_softmax(r->b, spec->name, spec->x[0], false);
    if (spec->sinks)
        build_sinks(r->b, yaml_size(r, spec->x[0], 1));
    return WEFT_OK;
}

#define ONE_INPUT(kind)                                                                            \
    static weft_status do_##kind(struct yaml_reader *r, struct yaml_spec *spec, int *out)          \
    {                                                                                              \
        *out = build_##kind(r->b, spec->name, spec->x[0]);                                         \
        return WEFT_OK;                                                                            \
    }
ONE_INPUT(layer_norm)
ONE_INPUT(gelu)
ONE_INPUT(relu)
ONE_INPUT(squared_relu)
ONE_INPUT(silu)
ONE_INPUT(dropout)
ONE_INPUT(batch_norm)
ONE_INPUT(loss)

static weft_status do_rotary(struct yaml_reader *r, struct yaml_spec *spec, int *out)
{
    if (spec->depth && build_features(r->b, spec->x[0]) % spec->depth)
        return yaml_wrong_shape(r, spec, 0, "heads of `depth` features");
    *out = build_rotary(r->b, spec->name, spec->x[0]);
    if (*out >= 0) {
        struct op *op = build_last(r->b);
        op->head_depth = op->head_share = op->head_turned = spec->depth;
    }
    return WEFT_OK;
}

static weft_status do_gated(struct yaml_reader *r, struct yaml_spec *spec, int *out)
{
    if (build_features(r->b, spec->x[0]) % 2)
        return yaml_wrong_shape(r, spec, 0, "an even number of features: gate and value");
    *out = build_gated(r->b, spec->name, spec->x[0]);
    if (*out >= 0)
        build_last(r->b)->gate = (enum gating)spec->gate;
    return WEFT_OK;
}

static weft_status do_add(struct yaml_reader *r, struct yaml_spec *spec, int *out)
{
    if (!yaml_same_shape(r, spec->x[0], spec->x[1]))
        return yaml_differing(r, spec, 0, 1);
    *out = build_add(r->b, spec->name, spec->x[0], spec->x[1]);
    return WEFT_OK;
}

static weft_status do_dropout_add(struct yaml_reader *r, struct yaml_spec *spec, int *out)
{
    if (!yaml_same_shape(r, spec->x[0], spec->x[1]))
        return yaml_differing(r, spec, 0, 1);
    *out = build_dropout_add(r->b, spec->name, spec->x[0], spec->x[1]);
    return WEFT_OK;
}

static weft_status do_conv(struct yaml_reader *r, struct yaml_spec *spec, int *out)
{
    weft_status status = WEFT_OK;
    struct window window;
    int64_t in = yaml_size(r, spec->x[0], 1);
    if (in % spec->groups || spec->out % spec->groups)
        return doc_error(
            spec->at, NULL,
            "'groups' is %lld, expected a divisor of the %lld channels in and %lld out",
            (long long)spec->groups, (long long)in, (long long)spec->out);
    TRY(yaml_read_window(spec, &window));
    TRY(yaml_check_window(r, spec, &window));
    *out = build_conv(r->b, spec->name, spec->x[0], spec->out, &window, spec->groups, spec->bias);
done:
    return status;
}

static weft_status do_pool(struct yaml_reader *r, struct yaml_spec *spec, int *out)
{
    weft_status status = WEFT_OK;
    struct window window;
    if (spec->global) {
        *out = build_global_pool(r->b, spec->name, spec->x[0]);
        return WEFT_OK;
    }
    TRY(yaml_read_window(spec, &window));
    TRY(yaml_check_window(r, spec, &window));
    *out = build_pool(r->b, spec->name, spec->x[0], &window);
done:
    return status;
}

static weft_status do_concat(struct yaml_reader *r, struct yaml_spec *spec, int *out)
{
    int axes = yaml_axes(r, spec->x[0]);
    if (spec->axis >= axes)
        return doc_error(spec->at, NULL, "'axis' is %lld, expected 1 to %d", (long long)spec->axis,
                         axes - 1);
    for (int i = 1; i < spec->count; i++) {
        bool fits = yaml_axes(r, spec->x[i]) == axes;
        for (int a = 1; fits && a < axes; a++)
            fits = a == spec->axis || yaml_size(r, spec->x[i], a) == yaml_size(r, spec->x[0], a);
        if (!fits)
            return yaml_differing(r, spec, 0, i);
    }
    *out = build_concat(r->b, spec->name, spec->x, spec->count, (int)spec->axis);
    return WEFT_OK;
}

static weft_status do_interaction(struct yaml_reader *r, struct yaml_spec *spec, int *out)
{
    if (yaml_axes(r, spec->x[1]) != 3 ||
        build_features(r->b, spec->x[0]) != build_features(r->b, spec->x[1]))
        return yaml_differing(r, spec, 0, 1);
    *out = build_interaction(r->b, spec->name, spec->x[0], spec->x[1]);
    return WEFT_OK;
}

static weft_status do_reshape(struct yaml_reader *r, struct yaml_spec *spec, int *out)
{
    int axes;
    int64_t size[MAX_AXES];
    weft_status status = yaml_read_shape(spec->shape, &axes, size);
    if (status == WEFT_OK)
        *out = build_reshape(r->b, spec->name, spec->x[0], axes, size);
    return status;
}

static double elements(int axes, const int64_t *size)
{
    double all = 1;
    for (int i = 0; i < axes; i++)
        all *= (double)size[i];
    return all;
}

static weft_status do_view(struct yaml_reader *r, struct yaml_spec *spec, int *out)
{
    int axes;
    int64_t size[MAX_AXES];
    const struct tensor *t = build_tensor(r->b, spec->x[0]);
    weft_status status = yaml_read_shape(spec->shape, &axes, size);
    if (status)
        return status;
    if (elements(axes, size) != elements(t->axes, t->size))
        return yaml_wrong_shape(r, spec, 0, "as many elements as in 'shape'");
    *out = build_view(r->b, spec->x[0], axes, size);
    return WEFT_OK;
}

static weft_status do_flatten(struct yaml_reader *r, struct yaml_spec *spec, int *out)
{
    *out = build_flatten(r->b, spec->x[0]);
    return WEFT_OK;
}

static weft_status do_opaque(struct yaml_reader *r, struct yaml_spec *spec, int *out)
{
    int axes;
    int64_t size[MAX_AXES];
    struct weight weight = {.name = "weight", .tied_op = -1};
    weight.operand.axes = 1;
    weight.operand.size[0] = spec->parameters;
    weft_status status = yaml_read_shape(spec->shape, &axes, size);
    if (status == WEFT_OK)
        *out = build_opaque(r->b, spec->name, spec->type, spec->x, spec->count, axes, size, &weight,
                            spec->parameters > 0);
    return status;
}

/* ---- the table of kinds ---------------------------------------------------------------------- */

/* Keys; every kind also has kind, name, input and inputs. */
enum key {
    KEY_OUT = 1 << 0,
    KEY_BIAS = 1 << 1,
    KEY_TIED = 1 << 2,
    KEY_VOCAB = 1 << 3,
    KEY_WIDTH = 1 << 4,
    KEY_POSITIONS = 1 << 5,
    KEY_HEADS = 1 << 6, /* and kv_heads, causal */
    KEY_DEPTH = 1 << 7,
    KEY_EXPERTS = 1 << 8,
    KEY_WINDOW = 1 << 9, /* kernel, stride, pad */
    KEY_GROUPS = 1 << 10,
    KEY_GLOBAL = 1 << 11,
    KEY_AXIS = 1 << 12,
    KEY_SHAPE = 1 << 13,
    KEY_BAG = 1 << 14, /* tables, rows, lookups */
    KEY_OPAQUE = 1 << 15,
    KEY_VALUE_DEPTH = 1 << 16,
    KEY_TAPS = 1 << 17,
    KEY_SCAN = 1 << 18, /* state, chunk, and heads without the keys of attention */
    KEY_SPAN = 1 << 19, /* the window of attention */
    KEY_SINKS = 1 << 20,
    KEY_GATE = 1 << 21
};

#define SIZE(name, most)                                                                           \
    #name, FIELD_COUNT, offsetof(struct yaml_spec, name), .min = 1, .max = (most)
static const struct {
    unsigned key; /* 0: every kind has it */
    bool needed;  /* required by every kind that has it */
    struct field field;
} KEYS[] = {
    {0, false, {"kind", FIELD_TEXT, offsetof(struct yaml_spec, kind)}},
    {0, false, {"name", FIELD_TEXT, offsetof(struct yaml_spec, name)}},
    {0, false, {"input", FIELD_DOC, offsetof(struct yaml_spec, input)}},
    {0, false, {"inputs", FIELD_DOC, offsetof(struct yaml_spec, inputs)}},
    {KEY_OUT, false, {SIZE(out, YAML_MOST_SIZE)}},
    {KEY_BIAS, false, {"bias", FIELD_BOOL, offsetof(struct yaml_spec, bias)}},
    {KEY_TIED, false, {"tied", FIELD_TEXT, offsetof(struct yaml_spec, tied)}},
    {KEY_VOCAB, true, {SIZE(vocab, YAML_MOST_SIZE)}},
    {KEY_WIDTH, true, {SIZE(width, YAML_MOST_SIZE)}},
    {KEY_POSITIONS, false, {SIZE(positions, YAML_MOST_SIZE)}},
    {KEY_HEADS, true, {SIZE(heads, YAML_MOST_SMALL)}},
    {KEY_HEADS, false, {SIZE(kv_heads, YAML_MOST_SMALL)}},
    {KEY_HEADS, false, {"causal", FIELD_BOOL, offsetof(struct yaml_spec, causal)}},
    {KEY_DEPTH, false, {SIZE(depth, YAML_MOST_SMALL)}},
    {KEY_VALUE_DEPTH, false, {SIZE(value_depth, YAML_MOST_SMALL)}},
    {KEY_EXPERTS, true, {SIZE(experts, YAML_MOST_SMALL)}},
    {KEY_EXPERTS, false, {SIZE(top_k, YAML_MOST_SMALL)}},
    {KEY_WINDOW, false, {"kernel", FIELD_DOC, offsetof(struct yaml_spec, kernel)}},
    {KEY_WINDOW, false, {"pad", FIELD_DOC, offsetof(struct yaml_spec, pad)}},
    {KEY_WINDOW, false, {SIZE(stride, YAML_MOST_SMALL)}},
    {KEY_GROUPS, false, {SIZE(groups, YAML_MOST_SMALL)}},
    {KEY_GLOBAL, false, {"global", FIELD_BOOL, offsetof(struct yaml_spec, global)}},
    {KEY_AXIS, false, {SIZE(axis, MAX_AXES - 1)}},
    {KEY_SHAPE, true, {"shape", FIELD_DOC, offsetof(struct yaml_spec, shape)}},
    {KEY_TAPS, false, {SIZE(taps, YAML_MOST_SMALL)}},
    {KEY_SCAN, true, {SIZE(heads, YAML_MOST_SMALL)}},
    {KEY_SCAN, true, {SIZE(state, YAML_MOST_SMALL)}},
    {KEY_SCAN, false, {SIZE(chunk, YAML_MOST_SMALL)}},
    {KEY_BAG, true, {SIZE(tables, YAML_MOST_SMALL)}},
    {KEY_BAG, true, {SIZE(rows, YAML_MOST_SIZE)}},
    {KEY_BAG, false, {SIZE(lookups, YAML_MOST_SMALL)}},
    {KEY_SPAN,
     false,
     {"window", FIELD_COUNT, offsetof(struct yaml_spec, window), .min = LEAST_WINDOW,
      .max = YAML_MOST_SIZE}},
    {KEY_SINKS, false, {"sinks", FIELD_BOOL, offsetof(struct yaml_spec, sinks)}},
    {KEY_GATE,
     false,
     {"gate", FIELD_CHOICE, offsetof(struct yaml_spec, gate), .choices = GATE_WORDS}},
    {KEY_OPAQUE, false, {"type", FIELD_TEXT, offsetof(struct yaml_spec, type)}},
    {KEY_OPAQUE, false, {SIZE(parameters, YAML_MOST_SIZE * 256)}},
};

static const struct yaml_kind KINDS[] = {
    {"embedding", do_embedding, 1, 1, {2, 2}, "ids (seq)", KEY_VOCAB | KEY_WIDTH | KEY_POSITIONS},
    {"embedding_bag", do_embedding_bag, 0, 0, {0}, "", KEY_BAG | KEY_WIDTH},
    {"linear",
     do_linear,
     1,
     1,
     {2, 3},
     "(features) or (seq, features)",
     KEY_OUT | KEY_BIAS | KEY_TIED},
    {"score",
     do_score,
     2,
     2,
     {3, 3},
     "queries (seq, features)",
     KEY_HEADS | KEY_DEPTH | KEY_VALUE_DEPTH | KEY_SPAN},
    {"context", do_context, 2, 2, {4, 4}, "probabilities (heads, seq, kv)", KEY_HEADS},
    {"attention",
     do_attention,
     1,
     3,
     {3, 3},
     "queries (seq, features)",
     KEY_HEADS | KEY_DEPTH | KEY_VALUE_DEPTH | KEY_SPAN | KEY_SINKS},
    {"softmax", do_softmax, 1, 1, {4, 4}, "scores (heads, seq, kv)", KEY_SINKS},
    {"layer_norm", do_layer_norm, 1, 1, {2, 3}, "(features) or (seq, features)", 0},
    {"rms_norm", yaml_rms_norm, 1, 1, {2, 3}, "(features) or (seq, features)", KEY_GROUPS},
    {"batch_norm", do_batch_norm, 1, 1, {4, 4}, "an image (channels, height, width)", 0},
    {"gelu", do_gelu, 1, 1, {0}, "", 0},
    {"relu", do_relu, 1, 1, {0}, "", 0},
    {"relu2", do_squared_relu, 1, 1, {0}, "", 0},
    {"silu", do_silu, 1, 1, {0}, "", 0},
    {"gated", do_gated, 1, 1, {2, 3}, "(features) or (seq, features)", KEY_GATE},
    {"dropout", do_dropout, 1, 1, {0}, "", 0},
    {"dropout_add", do_dropout_add, 2, 2, {0}, "", 0},
    {"add", do_add, 2, 2, {0}, "", 0},
    {"rotary", do_rotary, 1, 1, {3, 3}, "(seq, features)", KEY_DEPTH},
    {"router", yaml_router, 1, 1, {3, 3}, "tokens (seq, features)", KEY_EXPERTS | KEY_BIAS},
    {"dispatch", yaml_dispatch, 2, 2, {3, 3}, "tokens (seq, features)", 0},
    {"expert_linear",
     yaml_expert_linear,
     1,
     1,
     {3, 3},
     "tokens (seq, features)",
     KEY_OUT | KEY_BIAS},
    {"combine", yaml_combine, 2, 2, {3, 3}, "tokens (seq, features)", 0},
    {"conv1d", yaml_conv1d, 1, 1, {3, 3}, "(seq, features)", KEY_TAPS | KEY_GROUPS | KEY_BIAS},
    {"scan", yaml_scan, 2, 2, {3, 3}, "x, B and C (seq, features)", KEY_SCAN | KEY_GROUPS},
    {"delta", yaml_delta, 2, 2, {3, 3}, "q, k and v (seq, features)", KEY_SCAN | KEY_GROUPS},
    {"gated_norm", yaml_gated_norm, 2, 2, {3, 3}, "(seq, features)", KEY_GROUPS},
    {"conv",
     do_conv,
     1,
     1,
     {4, 4},
     "an image (channels, height, width)",
     KEY_OUT | KEY_BIAS | KEY_WINDOW | KEY_GROUPS},
    {"pool", do_pool, 1, 1, {4, 4}, "an image (channels, height, width)", KEY_WINDOW | KEY_GLOBAL},
    {"concat", do_concat, 1, YAML_MOST_INPUTS, {0}, "", KEY_AXIS},
    {"interaction", do_interaction, 2, 2, {2, 2}, "dense features (features)", 0},
    {"loss", do_loss, 1, 1, {2, 3}, "(classes) or (seq, vocab)", 0},
    {"reshape", do_reshape, 1, 1, {0}, "", KEY_SHAPE},
    {"view", do_view, 1, 1, {0}, "", KEY_SHAPE},
    {"flatten", do_flatten, 1, 1, {0}, "", 0},
    {"opaque", do_opaque, 0, YAML_MOST_INPUTS, {0}, "", KEY_SHAPE | KEY_OPAQUE},
};

_Static_assert(COUNT_OF(KEYS) <= YAML_MOST_KEYS, "more keys than a reader has room for");

size_t yaml_kind_keys(const struct yaml_kind *kind, struct field *fields)
{
    size_t count = 0;
    bool alone = !(kind->keys & KEY_TIED); /* `out` has no alternative */
    for (size_t i = 0; i < COUNT_OF(KEYS); i++) {
        if (KEYS[i].key && !(kind->keys & KEYS[i].key))
            continue;
        fields[count] = KEYS[i].field;
        fields[count++].required = KEYS[i].needed || (KEYS[i].key == KEY_OUT && alone);
    }
    return count;
}

weft_status yaml_find_kind(const struct doc *item, const struct yaml_kind **out)
{
    const struct doc *kind = doc_get(item, "kind");
    int at = NAME_INDEX(kind->text, KINDS);
    if (at >= 0) {
        *out = &KINDS[at];
        return WEFT_OK;
    }
    weft_status status = doc_error(kind, "docs/reference/model-file.md lists the kinds",
                                   "'%.60s' is not an operator kind", kind->text);
    hint_near(NEAREST_NAME(kind->text, KINDS));
    return status;
}

weft_status yaml_check_inputs(const struct yaml_reader *r, const struct yaml_spec *spec,
                              const struct yaml_kind *kind)
{
    if (spec->count < kind->least || spec->count > kind->most)
        return doc_error(spec->at, "name them with 'input' or 'inputs'",
                         "'%.60s' has %d inputs, expected %d%s", spec->name, spec->count,
                         kind->least, kind->most > kind->least ? " or more" : "");
    if (spec->count == 0 || kind->axes[0] == 0)
        return WEFT_OK;
    int axes = yaml_axes(r, spec->x[0]);
    return axes >= kind->axes[0] && axes <= kind->axes[1]
               ? WEFT_OK
               : yaml_wrong_shape(r, spec, 0, kind->form);
}
