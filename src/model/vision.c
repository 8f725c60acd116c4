/* vision.c - the tower of a vision-language model (vision.h). */
#include "model/vision.h"

#include <string.h>

#include "model/decoder.h"

const char *const VISION_NORMS[] = {"layer", "rms", NULL};
const char *const VISION_ACTIVATIONS[] = {"gelu", "swiglu", NULL};
const char *const PROJECTOR_NORMS[] = {"none", "rms", "layer", NULL};

enum { CHANNELS = 3 };

/* ---- sizes ----------------------------------------------------------------------------------- */

static int64_t patches_of(const struct vision *v)
{
    return (v->image / v->patch) * (v->image / v->patch);
}

int64_t vision_tokens(const struct vision *v)
{
    return patches_of(v) / (v->merge * v->merge);
}

/* Positions that the encoder's layers have for one image. */
static int64_t positions_of(const struct vision *v)
{
    return patches_of(v) + v->class_token;
}

/* ---- checks ---------------------------------------------------------------------------------- */

/* An option of a tower that is not there. */
static weft_status check_absent(const struct doc *where)
{
    for (const struct doc *d = where ? where->first : NULL; d; d = d->next)
        if (strncmp(d->key, "vision_", 7) == 0 || strncmp(d->key, "projector_", 10) == 0 ||
            strcmp(d->key, "images") == 0 || strcmp(d->key, "text_frozen") == 0)
            return doc_error(d, "give 'vision_layers', 'vision_hidden' and the others",
                             "'%s' is an option of an encoder of images, which this model lacks",
                             d->key);
    return WEFT_OK;
}

static weft_status check_window(const struct vision *v, const struct doc *where)
{
    weft_status status = WEFT_OK;
    if (v->full_every && !v->window)
        TRY(doc_error(option_at(where, "vision_full_every"), "give 'vision_window' as well",
                      "'vision_full_every' says which layers have no 'vision_window', and none is "
                      "given"));
    if (v->window && v->class_token)
        TRY(doc_error(option_at(where, "vision_window"), NULL,
                      "'vision_window' leaves no place for a class token"));
    if (v->window && patches_of(v) % v->window)
        TRY(doc_error(option_at(where, "vision_window"), NULL,
                      "'vision_window' is %lld, expected a divisor of the %lld patches of an image",
                      (long long)v->window, (long long)patches_of(v)));
done:
    return status;
}

static weft_status check_tokens(const struct vision *v, int64_t seq, const struct doc *where)
{
    int64_t tokens;
    if (checked_mul(v->images, vision_tokens(v), &tokens) && tokens < seq)
        return WEFT_OK;
    return doc_error(option_at(where, "images"), "give fewer or smaller images, or a longer 'seq'",
                     "%lld %s of %lld tokens leave no place for text in a sequence of %lld",
                     (long long)v->images, v->images == 1 ? "image" : "images",
                     (long long)vision_tokens(v), (long long)seq);
}

weft_status vision_check(const struct vision *v, int64_t seq, const struct doc *where)
{
    weft_status status = WEFT_OK;
    if (!v->layers)
        return check_absent(where);
    if (!v->hidden || !v->heads || !v->image || !v->patch)
        TRY(doc_error(option_at(where, "vision_layers"), NULL,
                      "an encoder of images needs vision_hidden, vision_heads, vision_image and "
                      "vision_patch"));
    TRY(option_divides(where, "vision_heads", v->heads, "vision_hidden", v->hidden));
    TRY(option_divides(where, "vision_patch", v->patch, "vision_image", v->image));
    TRY(option_divides(where, "vision_merge", v->merge, "patches along a side",
                       v->image / v->patch));
    TRY(check_window(v, where));
    TRY(check_tokens(v, seq, where));
done:
    return status;
}

/* ---- layers ---------------------------------------------------------------------------------- */

struct tower {
    const struct vision *v;
    int attention;
};

static struct block_style style_of(const struct vision *v)
{
    return (struct block_style){.norm = v->norm ? NORM_RMS : NORM_LAYER, .bias = v->bias};
}

static bool sees_image(const struct vision *v, int64_t layer)
{
    return !v->window || (v->full_every && (layer + 1) % v->full_every == 0);
}

/* I1 for the operators from `first` on. */
static void part_images(struct builder *b, size_t first, int64_t together, int64_t all)
{
    for (size_t i = first; together < all && i < b->ops.len; i++)
        if (b->ops.data[i].kind == OP_ATTENTION)
            b->ops.data[i].document = together;
}

static int layer(struct builder *b, const void *options, int64_t number, int x)
{
    const struct tower *t = options;
    const struct vision *v = t->v;
    struct block_style style = style_of(v);
    struct attention_block a = {.shape = {v->heads, v->heads, v->hidden / v->heads, 0, false},
                                .kernel = (enum attention_kernel)t->attention,
                                .rotary = v->rotary};
    struct mlp_block m = {v->ffn ? v->ffn : 4 * v->hidden,
                          v->activation ? ACTIVATION_GATED : ACTIVATION_GELU, false};
    size_t first = b->ops.len;
    x = block_attention(b, x, &style, &a);
    part_images(b, first, sees_image(v, number) ? positions_of(v) : v->window,
                v->images * positions_of(v));
    return block_mlp(b, x, &style, &m);
}

static bool alike(const void *options, int64_t one, int64_t other)
{
    const struct tower *t = options;
    return sees_image(t->v, one) == sees_image(t->v, other);
}

/* ---- the ends -------------------------------------------------------------------------------- */

/* A product that is laid out like the residual stream: one of few features, or of few positions. */
static int beside(struct builder *b, const char *name, int x, int64_t out, bool bias)
{
    int y = build_linear(b, name, x, out, bias);
    if (y >= 0)
        build_last(b)->by_stream = true;
    return y;
}

static int embed(struct builder *b, const struct vision *v)
{
    int64_t seq = v->images * patches_of(v), pixels = CHANNELS * v->frames * v->patch * v->patch;
    int x = build_input(b, 3, (int64_t[]){1, seq, pixels}, ELEMENT_COMPUTE);
    x = beside(b, "patches", x, v->hidden, v->patch_bias);
    if (v->class_token) {
        seq += v->images;
        x = build_reshape(b, "class_token", x, 3, (int64_t[]){1, seq, v->hidden});
        block_add_weight(b, "weight", v->hidden);
    }
    if (v->positions) {
        x = build_add(b, "positions", x, -1);
        block_add_weight(b, "weight", positions_of(v) * v->hidden);
    }
    return v->pre_norm ? block_norm(b, "pre_norm", x, style_of(v).norm) : x;
}

/* The patches of each token side by side, or their mean. */
static int merged(struct builder *b, const struct vision *v, int x)
{
    int64_t seq = v->images * vision_tokens(v), each = v->pool ? 1 : v->merge * v->merge;
    if (v->class_token)
        x = build_reshape(b, "patches_alone", x, 3,
                          (int64_t[]){1, v->images * patches_of(v), v->hidden});
    if (v->merge == 1)
        return x;
    return build_reshape(b, "merge", x, 3, (int64_t[]){1, seq, each * v->hidden});
}

static int normed(struct builder *b, const struct vision *v, int x)
{
    static const enum norm NORMS[] = {NORM_RMS, NORM_RMS, NORM_LAYER};
    return v->projector_norm ? block_norm(b, "norm", x, NORMS[v->projector_norm]) : x;
}

static int projector(struct builder *b, const struct vision *v, int x, int64_t width)
{
    build_module(b, "projector");
    x = merged(b, v, v->pool ? x : normed(b, v, x));
    x = v->pool ? normed(b, v, x) : x;
    int64_t inner = v->projector_ffn ? v->projector_ffn : width;
    for (int64_t i = 0; i + 1 < v->projector_layers; i++) {
        const char *number = arena_printf(b->arena, "%lld", (long long)i);
        x = build_linear(b, arena_printf(b->arena, "up%s", i ? number : ""), x, inner,
                         v->projector_bias);
        x = build_gelu(b, arena_printf(b->arena, "gelu%s", i ? number : ""), x);
    }
    x = build_linear(b, "down", x, width, v->projector_bias);
    build_module_end(b);
    return x;
}

int vision_build(struct builder *b, const struct vision *v, int64_t width, int attention)
{
    struct tower tower = {v, attention};
    const struct layer_row row = {&tower, alike, layer};
    int64_t period = v->full_every ? v->full_every : 1;
    size_t first = b->ops.len;
    b->place = PLACE_TOWER;
    build_module(b, "vision");
    int x = embed(b, v);
    x = period > 1 ? decoder_rows(b, &row, 0, v->layers, period, x)
                   : decoder_runs(b, &row, 0, v->layers, x);
    if (v->post_norm)
        x = block_norm(b, "post_norm", x, style_of(v).norm);
    if (v->frozen)
        build_freeze(b, first);
    first = b->ops.len;
    bool frozen = b->frozen;
    b->frozen = v->projector_frozen;
    x = projector(b, v, x, width);
    b->frozen = frozen;
    if (v->frozen && v->projector_frozen)
        build_freeze(b, first);
    build_module_end(b);
    b->place = PLACE_BODY;
    b->model->images = v->images;
    b->model->image_tokens = vision_tokens(v);
    return x;
}
