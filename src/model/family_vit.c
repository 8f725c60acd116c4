/* family_vit.c - vision transformers: an image as patches, encoder layers, one class.
 *
 *   x = (class token, patches) + positions
 *   x = x + proj(attention(qkv(norm(x)))),  x = x + down(gelu(up(norm(x))))      layers times
 *   loss(head(norm(x)[0]))                 without a class token, the mean of all patches
 */
#include "model/blocks.h"
#include "model/families.h"

struct vit_options {
    int64_t layers, hidden, heads, ffn, image, patch, classes;
    double norm_epsilon;
    bool class_token;
    int attention, dtype;
};

static const struct vit_options DEFAULTS = {.image = 224,
                                            .patch = 16,
                                            .classes = 1000,
                                            .norm_epsilon = NORM_EPSILON,
                                            .class_token = true,
                                            .dtype = DTYPE_BF16};

static const struct field FIELDS[] = {
    LAYER_OPTIONS(struct vit_options),
    OPTION_COUNT(struct vit_options, image, MOST_PIXELS),
    OPTION_COUNT(struct vit_options, patch, MOST_PIXELS),
    OPTION_COUNT(struct vit_options, classes, MOST_VOCAB),
    OPTION_EPSILON(struct vit_options),
    OPTION_BOOL(struct vit_options, class_token),
    OPTION_CHOICE(struct vit_options, attention, ATTENTION_WORDS),
    OPTION_CHOICE(struct vit_options, dtype, DTYPE_WORDS),
};

static int embed(struct builder *b, const struct vit_options *o)
{
    int x = block_patches(b, o->image, o->patch, o->hidden);
    int64_t seq = build_tensor(b, x)->size[1];
    if (o->class_token) {
        x = build_reshape(b, "class_token", x, 3, (int64_t[]){1, ++seq, o->hidden});
        block_add_weight(b, "weight", o->hidden);
    }
    x = build_add(b, "positions", x, -1);
    block_add_weight(b, "weight", seq * o->hidden);
    return x;
}

static int layer(struct builder *b, const struct vit_options *o, int x)
{
    struct block_style style = {NORM_LAYER, .bias = true};
    struct attention_block a = {.shape = {o->heads, o->heads, o->hidden / o->heads, 0, false},
                                .kernel = (enum attention_kernel)o->attention};
    struct mlp_block m = {o->ffn ? o->ffn : 4 * o->hidden, ACTIVATION_GELU, false};
    return block_mlp(b, block_attention(b, x, &style, &a), &style, &m);
}

static weft_status build(struct builder *b, const void *options, const struct doc *where)
{
    const struct vit_options *o = options;
    weft_status status;
    TRY(option_divides(where, "heads", o->heads, "hidden", o->hidden));
    TRY(option_divides(where, "patch", o->patch, "image", o->image));
    b->norm_epsilon = o->norm_epsilon;
    int x = build_repeat(b, "layers", o->layers, embed(b, o));
    x = build_repeat_end(b, layer(b, o, x));
    x = build_layer_norm(b, "norm", x);
    x = build_reshape(b, "pool", x, 2, (int64_t[]){1, o->hidden});
    build_loss(b, "loss", build_linear(b, "head", x, o->classes, true));
    b->model->layers = o->layers;
    b->model->dtype = (enum dtype)o->dtype;
done:
    return status;
}

const struct family FAMILY_VIT = FAMILY_TRAINED(
    "vit", "vision transformer: patches, encoder layers, one class", FLASH_ATTENTION);
