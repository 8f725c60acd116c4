/* yaml_ops.h - operators of a model file: what the reader of blocks and the table of kinds share.
 * Private to the room. */
#ifndef WEFT_MODEL_YAML_OPS_H
#define WEFT_MODEL_YAML_OPS_H

#include "model/builder.h"
#include "model/import.h"

/* No product of three of these overflows int64_t; the builder limits whole tensors. */
#define YAML_MOST_SIZE (INT64_C(1) << 32)
enum { YAML_MOST_SMALL = 1 << 20, YAML_MOST_INPUTS = 64, YAML_MOST_KEYS = 40 };

struct yaml_entry {
    int tensor;
    int32_t op;
    int line;
};

struct yaml_block {
    struct yaml_block *outer;
    struct map *names;  /* name -> index into the reader's entries */
    struct map *counts; /* kind -> number of operators without a name */
    const struct doc *items;
    int64_t copies; /* how often the block's content is repeated in the model */
};

struct yaml_reader {
    struct arena *scratch;
    struct builder *b;
    struct yaml_block *block;
    ARRAY(struct yaml_entry) entries;
    int above; /* the tensor of the item above, or -1 */
};

/* One operator as written in its item. */
struct yaml_spec {
    const char *kind, *name, *tied, *type;
    const struct doc *input, *inputs, *shape, *kernel, *pad;
    int64_t out, vocab, width, positions, heads, kv_heads, depth, value_depth, experts, top_k;
    int64_t stride, groups, axis, tables, rows, lookups, parameters, taps, state, chunk, window;
    bool bias, causal, global, sinks;
    int gate;             /* enum gating */
    const struct doc *at; /* the operator's item */
    int x[YAML_MOST_INPUTS];
    int count;
};

typedef weft_status yaml_rule(struct yaml_reader *r, struct yaml_spec *spec, int *out);

struct yaml_kind {
    const char *name;
    yaml_rule *build;
    int least, most; /* number of inputs */
    /* least and most axes of the first input, the batch included; 0: any number */
    int axes[2];
    const char *form; /* what those axes are, in words */
    unsigned keys;
};

/* ---- import_yaml_ops.c ----------------------------------------------------------------------- */

const struct yaml_entry *yaml_find_name(const struct yaml_reader *r, const char *name);
/* The error for a name that is not known at this point. */
weft_status yaml_unknown_name(const struct yaml_reader *r, const struct doc *at, const char *name);

/* ---- yaml_kinds.c ---------------------------------------------------------------------------- */

weft_status yaml_find_kind(const struct doc *item, const struct yaml_kind **out);
/* Writes the keys of a kind, at most YAML_MOST_KEYS, as fields of struct yaml_spec; returns how
 * many. */
size_t yaml_kind_keys(const struct yaml_kind *kind, struct field *fields);
/* Checks the number and shape of the inputs as far as they are the same for all operators of the
 * kind. */
weft_status yaml_check_inputs(const struct yaml_reader *r, const struct yaml_spec *spec,
                              const struct yaml_kind *kind);

/* ---- yaml_experts.c -------------------------------------------------------------------------- */

yaml_rule yaml_router, yaml_dispatch, yaml_expert_linear, yaml_combine;
yaml_rule yaml_conv1d, yaml_scan, yaml_delta, yaml_rms_norm, yaml_gated_norm;

/* ---- yaml_shapes.c --------------------------------------------------------------------------- */

static inline int64_t yaml_size(const struct yaml_reader *r, int tensor, int axis)
{
    return build_tensor(r->b, tensor)->size[axis];
}

static inline int yaml_axes(const struct yaml_reader *r, int tensor)
{
    return build_tensor(r->b, tensor)->axes;
}

/* Reads a shape from the file; the result begins with the batch. */
weft_status yaml_read_shape(const struct doc *at, int *axes, int64_t *size);
/* The errors for an input i of an unexpected shape, and for inputs i and k that do not match. */
weft_status yaml_wrong_shape(const struct yaml_reader *r, const struct yaml_spec *spec, int i,
                             const char *expected);
weft_status yaml_differing(const struct yaml_reader *r, const struct yaml_spec *spec, int i, int k);
bool yaml_same_shape(const struct yaml_reader *r, int x, int y);
/* Reads `kernel`, `stride` and `pad`, and checks that the first input, an image, is large
 * enough. */
weft_status yaml_read_window(const struct yaml_spec *spec, struct window *w);
weft_status yaml_check_window(const struct yaml_reader *r, const struct yaml_spec *spec,
                              const struct window *w);

#endif
