/* import_yaml_ops.c - a model file's operators, one by one, through the builder.
 *
 *     operators:
 *       - {kind: embedding, name: words, input: tokens, vocab: 50257, width: 768}
 *       - repeat: 12
 *         name: layers
 *         operators:
 *           - {kind: linear, name: up, out: 3072}
 *           - {kind: gelu, name: act}
 *           - {kind: linear, name: down, out: 768}
 *           - {kind: add, name: sum, inputs: [down, carry]}
 *
 * An item is an operator (`kind`), a module (`module`) or a repeat (`repeat`).
 *
 * I1  A name is known from its item on, in its own block and the blocks inside it. A module or
 *     repeat is known outside by its own name, which stands for its output.
 * I2  Without `input`, an operator reads the output of the item above it.
 * I3  Within a repeat, `carry` is what the previous copy passes on.
 */
#include "model/blocks.h"
#include "model/yaml_ops.h"

#include <stdio.h>
#include <string.h>

enum { MOST_OPERATORS = 100000 };
#define MOST_COPIES (INT64_C(1) << 40)

/* ---- names ----------------------------------------------------------------------------------- */

const struct yaml_entry *yaml_find_name(const struct yaml_reader *r, const char *name)
{
    int64_t index;
    for (const struct yaml_block *block = r->block; block; block = block->outer)
        if (map_get(block->names, name, &index))
            return &r->entries.data[index];
    return NULL;
}

static weft_status define(struct yaml_reader *r, const struct doc *at, const char *name, int tensor)
{
    int64_t older;
    struct yaml_entry entry = {tensor, build_last_index(r->b), at->line};
    if (map_get(r->block->names, name, &older))
        return doc_error(at, "give one of the two another name",
                         "the name '%.60s' appears twice, first in line %d", name,
                         r->entries.data[older].line);
    map_put(r->block->names, name, (int64_t)r->entries.len);
    array_push(r->scratch, &r->entries, entry);
    return WEFT_OK;
}

static const char *item_name(const struct doc *item)
{
    const struct doc *name = doc_get(item, doc_get(item, "module") ? "module" : "name");
    return name ? name->text : "";
}

/* A name that is not known yet: it is defined further down, or nowhere. */
weft_status yaml_unknown_name(const struct yaml_reader *r, const struct doc *at, const char *name)
{
    const char *names[YAML_MOST_INPUTS * 4];
    size_t count = 0;
    for (const struct yaml_block *block = r->block; block; block = block->outer) {
        for (const struct doc *d = block->items->first; d; d = d->next) {
            if (strcmp(item_name(d), name) == 0)
                return doc_error(at, "an operator can only read items above it: is this a cycle?",
                                 "'%.60s' is defined further down, in line %d", name, d->line);
            if (*item_name(d) && count < COUNT_OF(names))
                names[count++] = item_name(d);
        }
    }
    weft_status status = doc_error(
        at, NULL, "'%.60s' is not defined, expected the name of an input or of an operator above",
        name);
    hint_near(nearest_word(name, names, count));
    return status;
}

static weft_status read_input(struct yaml_reader *r, struct yaml_spec *spec, const struct doc *at)
{
    if (at->kind != DOC_TEXT && at->kind != DOC_NUMBER)
        return doc_error(at, NULL, "an input is %s, expected a name", doc_kind_name(at->kind));
    const struct yaml_entry *entry = yaml_find_name(r, at->text);
    if (!entry)
        return yaml_unknown_name(r, at, at->text);
    spec->x[spec->count++] = entry->tensor;
    return WEFT_OK;
}

static weft_status read_inputs(struct yaml_reader *r, struct yaml_spec *spec)
{
    if (spec->input && spec->inputs)
        return doc_error(spec->inputs, "use one of the two", "has 'input' and 'inputs'");
    if (spec->input)
        return read_input(r, spec, spec->input);
    if (!spec->inputs) {
        if (r->above >= 0)
            spec->x[spec->count++] = r->above; /* I2 */
        return WEFT_OK;
    }
    if (spec->inputs->kind != DOC_LIST || spec->inputs->count > YAML_MOST_INPUTS)
        return doc_error(spec->inputs, NULL, "'inputs' is %s, expected a list of at most %d names",
                         doc_kind_name(spec->inputs->kind), YAML_MOST_INPUTS);
    weft_status status = WEFT_OK;
    for (const struct doc *d = spec->inputs->first; d && !status; d = d->next)
        status = read_input(r, spec, d);
    return status;
}

/* ---- operators ------------------------------------------------------------------------------- */

/* An operator without a name is named after its kind, with a number from the second one on. */
static const char *name_of(const struct yaml_reader *r, const struct yaml_spec *spec)
{
    int64_t number = 0, taken;
    const char *name = spec->name;
    if (name)
        return name;
    map_get(r->block->counts, spec->kind, &number);
    do
        name = ++number == 1 ? spec->kind
                             : arena_printf(r->scratch, "%s_%lld", spec->kind, (long long)number);
    while (map_get(r->block->names, name, &taken));
    map_put(r->block->counts, spec->kind, number);
    return name;
}

static weft_status read_operator(struct yaml_reader *r, const struct doc *item)
{
    weft_status status = WEFT_OK;
    const struct yaml_kind *kind = NULL;
    struct field fields[YAML_MOST_KEYS];
    struct yaml_spec spec = {.bias = true,
                             .stride = 1,
                             .groups = 1,
                             .taps = 4,
                             .chunk = 128,
                             .axis = 1,
                             .top_k = 1,
                             .lookups = 1,
                             .type = "opaque",
                             .at = item};
    int out = -1;
    TRY(yaml_find_kind(item, &kind));
    TRY(doc_read(item, fields, yaml_kind_keys(kind, fields), DOC_REFUSE_UNKNOWN, &spec));
    spec.name = name_of(r, &spec);
    if (kind->most > 0)
        TRY(read_inputs(r, &spec));
    TRY(yaml_check_inputs(r, &spec, kind));
    r->b->where = item;
    TRY(kind->build(r, &spec, &out));
    TRY(r->b->status);
    TRY(define(r, item, spec.name, out));
    r->above = out;
done:
    return status;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static weft_status read_items(struct yaml_reader *r, const struct doc *items);

struct yaml_module {
    const char *module, *name, *output;
    const struct doc *input, *operators;
    int64_t repeat;
};

static const struct field MODULE_FIELDS[] = {
    {"module", FIELD_TEXT, offsetof(struct yaml_module, module), .required = true},
    {"output", FIELD_TEXT, offsetof(struct yaml_module, output)},
    {"operators", FIELD_DOC, offsetof(struct yaml_module, operators), .required = true},
};
static const struct field REPEAT_FIELDS[] = {
    {"repeat", FIELD_COUNT, offsetof(struct yaml_module, repeat), .required = true, .min = 1,
     .max = 1000000},
    {"name", FIELD_TEXT, offsetof(struct yaml_module, name), .required = true},
    {"input", FIELD_DOC, offsetof(struct yaml_module, input)},
    {"output", FIELD_TEXT, offsetof(struct yaml_module, output)},
    {"operators", FIELD_DOC, offsetof(struct yaml_module, operators), .required = true},
};

/* The items of a module or repeat, in a block of their own; `out` is its output (I1). */
static weft_status read_inside(struct yaml_reader *r, const struct yaml_module *part,
                               const struct doc *item, int carry, int *out)
{
    weft_status status = WEFT_OK;
    struct yaml_block block = {
        .outer = r->block, .names = map_new(r->scratch), .counts = map_new(r->scratch)};
    int64_t repeat = part->repeat ? part->repeat : 1;
    if (r->block->copies > MOST_COPIES / repeat)
        return doc_error(item, NULL, "makes more than 2^40 copies of its operators");
    block.copies = r->block->copies * repeat;
    block.items = part->operators;
    r->block = &block;
    if (carry >= 0)
        TRY(define(r, item, "carry", carry)); /* I3 */
    TRY(read_items(r, part->operators));
    *out = r->above;
    if (part->output) {
        const struct yaml_entry *entry = yaml_find_name(r, part->output);
        if (!entry)
            TRY(yaml_unknown_name(r, doc_get(item, "output"), part->output));
        *out = entry->tensor;
    }
done:
    r->block = block.outer;
    return status;
}

static weft_status read_module(struct yaml_reader *r, const struct doc *item)
{
    weft_status status = WEFT_OK;
    struct yaml_module part = {0};
    TRY(doc_read(item, MODULE_FIELDS, COUNT_OF(MODULE_FIELDS), DOC_REFUSE_UNKNOWN, &part));
    build_module(r->b, part.module);
    TRY(read_inside(r, &part, item, -1, &r->above));
    build_module_end(r->b);
    TRY(define(r, item, part.module, r->above));
done:
    return status;
}

static weft_status read_repeat(struct yaml_reader *r, const struct doc *item)
{
    weft_status status = WEFT_OK;
    struct yaml_module part = {0};
    struct yaml_spec spec = {.at = item};
    int end = -1;
    TRY(doc_read(item, REPEAT_FIELDS, COUNT_OF(REPEAT_FIELDS), DOC_REFUSE_UNKNOWN, &part));
    spec.input = part.input;
    TRY(read_inputs(r, &spec));
    if (spec.count == 0)
        return doc_error(item, "name it with 'input'", "'%.60s' repeats without an input",
                         part.name);
    r->b->where = item;
    r->above = build_repeat(r->b, part.name, part.repeat, spec.x[0]);
    TRY(read_inside(r, &part, item, r->above, &end));
    r->b->where = item;
    r->above = build_repeat_end(r->b, end);
    TRY(r->b->status);
    TRY(define(r, item, part.name, r->above));
    if (r->block->outer == NULL)
        r->b->model->layers += part.repeat;
done:
    return status;
}

static weft_status read_item(struct yaml_reader *r, const struct doc *item)
{
    if (item->kind != DOC_MAP)
        return doc_error(item, NULL,
                         "an item is %s, expected a mapping with 'kind', 'module' or "
                         "'repeat'",
                         doc_kind_name(item->kind));
    if (r->b->ops.len >= MOST_OPERATORS)
        return doc_error(item, "use 'repeat'", "is one of more than %d operators", MOST_OPERATORS);
    if (doc_get(item, "kind"))
        return read_operator(r, item);
    if (doc_get(item, "repeat"))
        return read_repeat(r, item);
    if (doc_get(item, "module"))
        return read_module(r, item);
    return doc_error(item, NULL, "an item has none of 'kind', 'module' and 'repeat'");
}

static weft_status read_items(struct yaml_reader *r, const struct doc *items)
{
    weft_status status = WEFT_OK;
    if (items->kind != DOC_LIST || items->count == 0)
        return doc_error(items, NULL, "'operators' is %s, expected a list of at least one item",
                         items->kind == DOC_LIST ? "an empty list" : doc_kind_name(items->kind));
    for (const struct doc *item = items->first; item && !status; item = item->next)
        status = read_item(r, item);
    return status;
}

/* ---- inputs and the whole -------------------------------------------------------------------- */

struct input {
    const struct doc *shape;
    int element;
};
static const char *const ELEMENTS[] = {"compute", "index", NULL};
static const struct field INPUT_FIELDS[] = {
    {"shape", FIELD_DOC, offsetof(struct input, shape), .required = true},
    {"element", FIELD_CHOICE, offsetof(struct input, element), .choices = ELEMENTS},
};

/* `image: [3, 32, 32]`, or `tokens: {shape: [512], element: index}`. */
static weft_status read_model_input(struct yaml_reader *r, const struct doc *d)
{
    static const enum element ELEMENT[] = {ELEMENT_COMPUTE, ELEMENT_INDEX};
    weft_status status = WEFT_OK;
    struct input input = {.shape = d};
    int64_t size[MAX_AXES];
    int axes;
    if (d->kind == DOC_MAP)
        TRY(doc_read(d, INPUT_FIELDS, COUNT_OF(INPUT_FIELDS), DOC_REFUSE_UNKNOWN, &input));
    TRY(yaml_read_shape(input.shape, &axes, size));
    r->b->where = d;
    int tensor = build_input(r->b, axes, size, ELEMENT[input.element]);
    TRY(r->b->status);
    TRY(define(r, d, d->key, tensor));
    if (r->above < 0) {
        r->above = tensor;
        r->b->model->seq = input.element && axes == 2 ? size[1] : 1;
    }
done:
    return status;
}

struct operators_root {
    const char *name;
    const struct doc *inputs, *operators;
    int64_t layers, seq;
    int dtype;
};
static const struct field ROOT_FIELDS[] = {
    {"name", FIELD_TEXT, offsetof(struct operators_root, name)},
    {"layers", FIELD_COUNT, offsetof(struct operators_root, layers)},
    {"seq", FIELD_COUNT, offsetof(struct operators_root, seq)},
    {"dtype", FIELD_CHOICE, offsetof(struct operators_root, dtype), .choices = DTYPE_WORDS},
    {"inputs", FIELD_DOC, offsetof(struct operators_root, inputs)},
    {"operators", FIELD_DOC, offsetof(struct operators_root, operators), .required = true},
};

static weft_status read_root(struct yaml_reader *r, const struct doc *doc)
{
    weft_status status = WEFT_OK;
    struct operators_root root = {.dtype = DTYPE_BF16};
    TRY(doc_read(doc, ROOT_FIELDS, COUNT_OF(ROOT_FIELDS), DOC_REFUSE_UNKNOWN, &root));
    r->block = ARENA_NEW(r->scratch, struct yaml_block);
    *r->block = (struct yaml_block){.items = root.operators,
                                    .names = map_new(r->scratch),
                                    .counts = map_new(r->scratch),
                                    .copies = 1};
    if (root.inputs && root.inputs->kind != DOC_MAP)
        return doc_error(root.inputs, NULL, "'inputs' is %s, expected a mapping of names to shapes",
                         doc_kind_name(root.inputs->kind));
    for (const struct doc *d = root.inputs ? root.inputs->first : NULL; d; d = d->next)
        TRY(read_model_input(r, d));
    TRY(read_items(r, root.operators));
    struct model *model = r->b->model;
    model->dtype = (enum dtype)root.dtype;
    model->seq = root.seq ? root.seq : model->seq;
    model->layers = root.layers ? root.layers : model->layers ? model->layers : 1;
done:
    return status;
}

weft_status import_operators(struct arena *scratch, const char *name, const char *source,
                             const struct doc *root, struct model **out)
{
    struct yaml_reader r = {.scratch = scratch, .above = -1};
    r.b = build_start(name, "operators", source);
    weft_status status = read_root(&r, root);
    r.b->where = root;
    if (status == WEFT_OK)
        return build_finish(r.b, out);
    build_abandon(r.b);
    return status;
}
