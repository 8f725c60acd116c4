/* vision.c - the tower of a vision-language model (vision.h). */
#include "model/vision.h"

#include <string.h>

#include "model/cnn.h"
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

/* Positions that the encoder's layers have for one tile. */
static int64_t positions_of(const struct vision *v)
{
    return patches_of(v) + v->class_token;
}

/* Tokens that one image becomes: positions of the decoder's sequence, or keys. */
static int64_t vision_tokens(const struct vision *v, bool crosses)
{
    int64_t joined = patches_of(v) / (v->merge * v->merge);
    return v->tiles * (crosses ? positions_of(v) : joined);
}

int64_t vision_taken(const struct vision *v, bool crosses)
{
    return v->layers && !crosses ? v->images * vision_tokens(v, false) : 0;
}

static int64_t tiles_of(const struct vision *v)
{
    return v->images * v->tiles;
}

int64_t vision_deepstack(const struct vision *v, bool crosses)
{
    return v->taps && !crosses ? (int64_t)v->taps->count : 0;
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

/* The layers after which features are taken, in order. */
static weft_status read_taps(const struct vision *v, int64_t tap[MOST_TAPPED], size_t *count)
{
    const struct counts_rule rule = {1, MOST_TAPPED, v->layers};
    weft_status status = v->taps ? read_counts(v->taps, &rule, tap, count) : WEFT_OK;
    for (size_t i = 1; status == WEFT_OK && i < *count; i++)
        if (tap[i] <= tap[i - 1])
            status = doc_error(v->taps, NULL,
                               "'vision_taps' has %lld after %lld, expected numbers that grow",
                               (long long)tap[i], (long long)tap[i - 1]);
    return status;
}

static weft_status check_taps(const struct vision *v, const struct vision_user *user,
                              const struct doc *where)
{
    int64_t tap[MOST_TAPPED];
    size_t count = 0;
    weft_status status = WEFT_OK;
    TRY(read_taps(v, tap, &count));
    if (count && v->window)
        TRY(doc_error(option_at(where, "vision_taps"), NULL,
                      "'vision_taps' is given beside 'vision_window', expected one of them"));
    if (!user->crosses && (int64_t)count > user->layers)
        TRY(doc_error(option_at(where, "vision_taps"), NULL,
                      "'vision_taps' has %zu entries, expected at most one for each of the "
                      "decoder's %lld layers",
                      count, (long long)user->layers));
    if (user->crosses && v->merge > 1 && v->class_token)
        TRY(doc_error(option_at(where, "vision_merge"), NULL,
                      "'vision_merge' leaves no place for a class token that layers attend to"));
done:
    return status;
}

static weft_status check_tokens(const struct vision *v, const struct vision_user *user,
                                const struct doc *where)
{
    int64_t tokens, each = vision_tokens(v, user->crosses);
    bool counted = checked_mul(v->images, each, &tokens);
    if (counted && (user->crosses ? tokens <= MOST_SEQ : tokens < user->seq))
        return WEFT_OK;
    if (user->crosses)
        return doc_error(option_at(where, "images"), "give fewer or smaller images",
                         "%lld images of %lld tokens are more than the %d that layers attend to",
                         (long long)v->images, (long long)each, MOST_SEQ);
    return doc_error(option_at(where, "images"), "give fewer or smaller images, or a longer 'seq'",
                     "%lld %s of %lld tokens leave no place for text in a sequence of %lld",
                     (long long)v->images, v->images == 1 ? "image" : "images", (long long)each,
                     (long long)user->seq);
}

weft_status vision_check(const struct vision *v, const struct vision_user *user,
                         const struct doc *where)
{
    weft_status status = WEFT_OK;
    if (!v->layers)
        return check_absent(where);
    if (!v->hidden || !v->heads || !v->image || !v->patch)
        TRY(doc_error(option_at(where, "vision_layers"), NULL,
                      "an encoder of images needs vision_hidden, vision_heads, vision_image and "
                      "vision_patch"));
    TRY(option_divides(where, "vision_heads", v->heads, "vision_hidden", v->hidden));
    TRY(option_divides(where, "vision_kv_heads", v->kv_heads ? v->kv_heads : v->heads,
                       "vision_heads", v->heads));
    TRY(option_divides(where, "vision_patch", v->patch, "vision_image", v->image));
    TRY(option_divides(where, "vision_merge", v->merge, "patches along a side",
                       v->image / v->patch));
    TRY(check_window(v, where));
    TRY(check_taps(v, user, where));
    TRY(check_tokens(v, user, where));
done:
    return status;
}

/* ---- layers ---------------------------------------------------------------------------------- */

struct tower {
    const struct vision *v;
    int attention;
    bool gated;
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
    struct block_style style = style_of(v), attending;
    int64_t keys = v->kv_heads ? v->kv_heads : v->heads;
    struct attention_block a = {.shape = {v->heads, keys, v->hidden / v->heads, 0, false},
                                .kernel = (enum attention_kernel)t->attention,
                                .rotary = v->rotary};
    struct mlp_block m = {v->ffn ? v->ffn : 4 * v->hidden,
                          v->activation ? ACTIVATION_GATED : ACTIVATION_GELU, false};
    size_t first = b->ops.len;
    style.gated = t->gated;
    attending = style;
    attending.bias &= v->attention_bias;
    x = block_attention(b, x, &attending, &a);
    part_images(b, first, sees_image(v, number) ? v->tiles * positions_of(v) : v->window,
                tiles_of(v) * positions_of(v));
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
    int64_t seq = tiles_of(v) * patches_of(v), pixels = CHANNELS * v->frames * v->patch * v->patch;
    int x = build_input(b, 3, (int64_t[]){1, seq, pixels}, ELEMENT_COMPUTE);
    x = beside(b, "patches", x, v->hidden, v->patch_bias);
    if (v->class_token) {
        seq += tiles_of(v);
        x = build_reshape(b, "class_token", x, 3, (int64_t[]){1, seq, v->hidden});
        block_add_weight(b, "weight", v->hidden);
    }
    if (v->positions) {
        x = build_add(b, "positions", x, -1);
        block_add_weight(b, "weight", positions_of(v) * v->hidden);
    }
    if (v->shapes) {
        x = build_add(b, "tile_positions", x, -1);
        block_add_weight(b, "weight", v->shapes * v->tiles * positions_of(v) * v->hidden);
    }
    return v->pre_norm ? block_norm(b, "pre_norm", x, style_of(v).norm) : x;
}

/* The patches of each token side by side, or their mean. */
static int merged(struct builder *b, const struct vision *v, int x)
{
    int64_t seq = v->images * vision_tokens(v, false), each = v->pool ? 1 : v->merge * v->merge;
    if (v->class_token)
        x = build_reshape(b, "patches_alone", x, 3,
                          (int64_t[]){1, tiles_of(v) * patches_of(v), v->hidden});
    if (v->merge == 1)
        return x;
    return build_reshape(b, "merge", x, 3, (int64_t[]){1, seq, each * v->hidden});
}

static int normed(struct builder *b, const struct vision *v, int x)
{
    static const enum norm NORMS[] = {NORM_RMS, NORM_RMS, NORM_LAYER};
    return v->projector_norm ? block_norm(b, "norm", x, NORMS[v->projector_norm]) : x;
}

/* A product and what follows it: GELU, or gates. */
static int activated(struct builder *b, const struct vision *v, const char *number, int x,
                     int64_t inner)
{
    bool gated = v->projector_activation;
    x = build_linear(b, arena_printf(b->arena, "%s%s", gated ? "gate_up" : "up", number), x,
                     gated ? 2 * inner : inner, v->projector_bias);
    return gated ? build_gated(b, arena_printf(b->arena, "gated%s", number), x)
                 : build_gelu(b, arena_printf(b->arena, "gelu%s", number), x);
}

/* The products of a projector, with an activation between each two. */
static int products(struct builder *b, const struct vision *v, int x, int64_t width)
{
    int64_t inner = v->projector_ffn ? v->projector_ffn : width;
    for (int64_t i = 0; i + 1 < v->projector_layers; i++)
        x = activated(b, v, i ? arena_printf(b->arena, "%lld", (long long)i) : "", x, inner);
    return build_linear(b, "down", x, width, v->projector_bias);
}

/* Qwen3-VL's projectors of taps have their norm after patches have been merged (PatchMerger's use_postshuffle_norm). */
static void project_taps(struct builder *b, const struct vision *v, int64_t width)
{
    for (int64_t i = 0; i < b->images.deepstack; i++) {
        build_module_indexed(b, "deepstack", i);
        int x = normed(b, v, merged(b, v, b->images.tapped[i]));
        b->images.tapped[i] = products(b, v, x, width);
        build_module_end(b);
    }
}

/* The last layer's features and those of all taps, side by side. */
static int beside_taps(struct builder *b, const struct vision *v, int x)
{
    int parts[MOST_TAPPED + 1] = {x}, count = v->taps ? (int)v->taps->count : 0;
    for (int i = 0; i < count; i++)
        parts[i + 1] = b->images.tapped[i];
    return count ? build_concat(b, "taps", parts, count + 1, 2) : x;
}

static int projector(struct builder *b, const struct vision *v, const struct vision_user *user,
                     int x)
{
    build_module(b, "projector");
    if (user->crosses)
        x = normed(b, v, beside_taps(b, v, x)); /* I4 */
    else
        x = v->pool ? normed(b, v, merged(b, v, x)) : merged(b, v, normed(b, v, x));
    x = products(b, v, x, user->width);
    build_module_end(b);
    return x;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* All layers, those of taps noted in b->images. */
static int encoder(struct builder *b, const struct tower *tower, int x)
{
    const struct vision *v = tower->v;
    const struct layer_row row = {tower, alike, layer};
    int64_t period = v->full_every ? v->full_every : 1, tap[MOST_TAPPED], from = 0;
    size_t taps = 0;
    b->status = b->status ? b->status : read_taps(v, tap, &taps);
    if (period > 1)
        return decoder_rows(b, &row, 0, v->layers, period, x);
    for (size_t i = 0; i < taps; from = tap[i++])
        b->images.tapped[i] = x = decoder_runs(b, &row, from, tap[i] - from, x);
    return decoder_runs(b, &row, from, v->layers - from, x);
}

static int global_layers(struct builder *b, const struct tower *tower, int x)
{
    const struct tower gated = {tower->v, tower->attention, true};
    if (!tower->v->global_layers)
        return x;
    build_module(b, "global");
    x = decoder_runs(b, &(struct layer_row){&gated, alike, layer}, 0, tower->v->global_layers, x);
    build_module_end(b);
    return x;
}

void vision_build(struct builder *b, const struct vision *v, const struct vision_user *user)
{
    const struct tower tower = {v, user->attention, false};
    size_t first = b->ops.len;
    b->place = PLACE_TOWER;
    b->images = (struct images){.deepstack = vision_deepstack(v, user->crosses)};
    build_module(b, "vision");
    int x = encoder(b, &tower, embed(b, v));
    if (v->post_norm)
        x = block_norm(b, "post_norm", x, style_of(v).norm);
    x = global_layers(b, &tower, x);
    if (v->frozen)
        build_freeze(b, first);
    first = b->ops.len;
    bool frozen = b->frozen;
    b->frozen = v->projector_frozen;
    project_taps(b, v, user->width);
    b->images.tokens = projector(b, v, user, x);
    b->frozen = frozen;
    if (v->frozen && v->projector_frozen)
        build_freeze(b, first);
    build_module_end(b);
    b->place = PLACE_BODY;
    b->model->images = v->images;
    b->model->image_tokens = vision_tokens(v, user->crosses);
    b->model->images_beside = user->crosses;
}

int vision_join(struct builder *b, int64_t taken, int text)
{
    int x = taken ? build_concat(b, "join", (int[]){b->images.tokens, text}, 2, 1) : text;
    b->place = PLACE_BODY;
    return x;
}
