/* family_swin.c - Swin: a vision transformer of stages, whose attention stays within windows.
 *
 *   stage s: (image / patch / 2^s)^2 positions of width hidden * 2^s, heads = heads_0 * 2^s
 *   between stages, four neighbours become one: 4c -> norm -> linear 2c
 *
 * Every other layer shifts its windows by half a window; that costs only the copy into windows,
 * which all layers have. A layer keeps a s w^2 scores instead of a s^2.
 */
#include "model/blocks.h"
#include "model/cnn.h"
#include "model/families.h"

enum { MAX_STAGES = 6 };

struct swin_options {
    const struct doc *depths;
    int64_t hidden, heads, image, patch, window, classes;
    int attention, dtype;
};

static const struct swin_options DEFAULTS = {.hidden = 96,
                                             .heads = 3,
                                             .image = 224,
                                             .patch = 4,
                                             .window = 7,
                                             .classes = 1000,
                                             .dtype = DTYPE_BF16};

static const struct field FIELDS[] = {
    {"depths", FIELD_DOC, offsetof(struct swin_options, depths)},
    OPTION_COUNT(struct swin_options, hidden, MOST_HIDDEN),
    OPTION_COUNT(struct swin_options, heads, MOST_HEADS),
    OPTION_COUNT(struct swin_options, image, MOST_PIXELS),
    OPTION_COUNT(struct swin_options, patch, MOST_PIXELS),
    OPTION_COUNT(struct swin_options, window, MOST_PIXELS),
    OPTION_COUNT(struct swin_options, classes, MOST_VOCAB),
    OPTION_CHOICE(struct swin_options, attention, ATTENTION_WORDS),
    OPTION_CHOICE(struct swin_options, dtype, DTYPE_WORDS),
};

struct swin_stage {
    int64_t depth, side, hidden, heads, window;
};

static weft_status read_depths(const struct swin_options *o, int64_t *depths, size_t *stages)
{
    static const int64_t TINY[] = {2, 2, 6, 2};
    const struct counts_rule rule = {1, MAX_STAGES, MOST_LAYERS};
    if (o->depths)
        return read_counts(o->depths, &rule, depths, stages);
    for (*stages = 0; *stages < COUNT_OF(TINY); ++*stages)
        depths[*stages] = TINY[*stages];
    return WEFT_OK;
}

static struct swin_stage stage_of(const struct swin_options *o, const int64_t *depths, int s)
{
    int64_t side = o->image / o->patch >> s;
    return (struct swin_stage){depths[s], side, o->hidden << s, o->heads << s,
                               o->window < side ? o->window : side};
}

static weft_status check_stage(const struct swin_options *o, const struct swin_stage *stage, int s,
                               const struct doc *where)
{
    int64_t above = o->image / o->patch >> (s ? s - 1 : 0);
    if (stage->side < 1 || (s && above % 2))
        return doc_error(option_at(where, "depths"), "use fewer stages or a larger image",
                         "stage %d would halve a side of %lld patches, expected an even number",
                         s + 1, (long long)above);
    if (stage->side % stage->window == 0)
        return WEFT_OK;
    return doc_error(option_at(where, "window"), NULL,
                     "'window' is %lld, expected a divisor of the %lld patches along a side of "
                     "stage %d",
                     (long long)stage->window, (long long)stage->side, s + 1);
}

static weft_status check(const struct swin_options *o, const int64_t *depths, size_t stages,
                         const struct doc *where)
{
    weft_status status;
    TRY(option_divides(where, "heads", o->heads, "hidden", o->hidden));
    TRY(option_divides(where, "patch", o->patch, "image", o->image));
    for (int s = 0; s < (int)stages; s++) {
        struct swin_stage stage = stage_of(o, depths, s);
        TRY(check_stage(o, &stage, s, where));
    }
done:
    return status;
}

static int layer(struct builder *b, const struct swin_options *o, const struct swin_stage *stage,
                 int x)
{
    struct block_style style = {NORM_LAYER, .bias = true};
    int64_t span = 2 * stage->window - 1;
    struct attention_block a = {
        .shape = {stage->heads, stage->heads, stage->hidden / stage->heads, 0, false},
        .kernel = (enum attention_kernel)o->attention,
        .score_bias = flash_version((enum attention_kernel)o->attention) >= 0
                          ? 0
                          : span * span * stage->heads,
        .window = stage->window * stage->window};
    struct mlp_block m = {4 * stage->hidden, ACTIVATION_GELU, false};
    return block_mlp(b, block_attention(b, x, &style, &a), &style, &m);
}

/* Concatenates four neighbours, then halves the width. */
static int merge(struct builder *b, const struct swin_stage *stage, int x)
{
    build_module(b, "merge");
    x = build_reshape(b, "gather", x, 3,
                      (int64_t[]){1, stage->side * stage->side, 2 * stage->hidden});
    x = build_linear(b, "reduction", build_layer_norm(b, "norm", x), stage->hidden, false);
    build_module_end(b);
    return x;
}

static int build_stage(struct builder *b, const struct swin_options *o,
                       const struct swin_stage *stage, int s, int x)
{
    build_module_indexed(b, "stages", s);
    if (s > 0)
        x = merge(b, stage, x);
    x = build_repeat(b, "layers", stage->depth, x);
    x = build_repeat_end(b, layer(b, o, stage, x));
    build_module_end(b);
    b->model->layers += stage->depth;
    return x;
}

static weft_status build(struct builder *b, const void *options, const struct doc *where)
{
    const struct swin_options *o = options;
    int64_t depths[MAX_STAGES];
    size_t stages = 0;
    weft_status status;
    TRY(read_depths(o, depths, &stages));
    TRY(check(o, depths, stages, where));
    int x = block_patches(b, o->image, o->patch, o->hidden);
    x = build_layer_norm(b, "embedding_norm", x);
    for (int s = 0; s < (int)stages; s++) {
        struct swin_stage stage = stage_of(o, depths, s);
        x = build_stage(b, o, &stage, s, x);
    }
    x = build_layer_norm(b, "norm", x);
    x = build_reshape(b, "pool", x, 2, (int64_t[]){1, build_features(b, x)});
    build_loss(b, "loss", build_linear(b, "head", x, o->classes, true));
    b->model->dtype = (enum dtype)o->dtype;
done:
    return status;
}

const struct family FAMILY_SWIN =
    FAMILY_OF("swin", "vision transformer of stages with attention in windows");
