/* vision.h - a tower beside a decoder: an encoder of images whose tokens join the text. Private to the room.
 *
 * A sample has `images` images of side x side patches, all of one size:
 *
 *   x = patches W (+ class token) (+ positions) (, norm)
 *   x = x + proj(attention(norm(x))),  x = x + mlp(norm(x))                layers times
 *   tokens = projector(merged(norm(x)))           merge x merge patches become one token
 *   y = (tokens, embedding(text)),  images * tokens + text = seq                               (1)
 *
 *   I1  Patches see only those of their own image, all of its tiles; with a window only those of their own part of it,
 *       except for every full_every-th layer (Qwen2.5-VL). Both are documents of one sequence (struct op).
 *   I2  Everything up to the projector's end is in PLACE_TOWER, the text's embedding and (1) are in PLACE_JOIN.
 *   I3  A frozen tower keeps nothing for the backward pass, and no gradient enters it.
 *   I4  What is taken after `taps` layers, too, has one of two uses. Where the decoder has (1), a projector of its own brings
 *       the k-th to the text's width, and it is added to the images' positions after the decoder's k-th layer (Qwen3-VL's
 *       deepstack). Where layers of the decoder attend to the images instead (Llama 3.2), there is no (1): all taps lie beside
 *       the last layer's features before the one projector, and tokens of class are among what it projects.
 */
#ifndef WEFT_MODEL_VISION_H
#define WEFT_MODEL_VISION_H

#include "model/builder.h"

enum { MOST_TILES = 1024 };

struct vision {
    int64_t layers, hidden, heads, ffn; /* layers 0: there is no tower */
    int64_t kv_heads;                   /* 0: as many as heads */
    int64_t image, patch;               /* pixels along a side of an image, and of a patch */
    int64_t tiles;                      /* of that size, of an image */
    int64_t shapes; /* in which tiles are laid, each with a table of positions; 0: no such table */
    int64_t global_layers;      /* gated ones after the others */
    const struct doc *taps;     /* numbers of layers after which features are taken (I4) */
    int64_t frames;             /* of a video that share a patch; an image is repeated */
    int64_t window, full_every; /* patches that see each other (I1); 0: all of an image */
    int64_t merge;              /* patches along a side of what becomes one token */
    int64_t images;             /* of a sample */
    int64_t projector_layers;   /* products between the encoder and the text */
    int64_t projector_ffn;      /* features between them; 0: as many as the text has */
    bool class_token, positions, rotary, bias, attention_bias, patch_bias, pre_norm, post_norm;
    bool pool; /* patches that become one token are averaged, not laid side by side */
    bool projector_bias, frozen, projector_frozen;
    int norm, activation, projector_norm, projector_activation;
};

extern const char *const VISION_NORMS[];       /* layer, rms */
extern const char *const VISION_ACTIVATIONS[]; /* gelu, swiglu */
extern const char *const PROJECTOR_NORMS[];    /* none, rms, layer */

#define VISION_DEFAULTS                                                                            \
    .frames = 1, .merge = 1, .images = 1, .tiles = 1, .projector_layers = 2, .bias = true,         \
    .attention_bias = true, .projector_bias = true

/* clang-format off */
#define VISION_OPTION(owner, member, name, most)                                                          \
    {#name, FIELD_COUNT, offsetof(owner, vision.member), .min = 1, .max = (most)}
#define VISION_FLAG(owner, member, name) {#name, FIELD_BOOL, offsetof(owner, vision.member)}
#define VISION_CHOICE(owner, member, name, words)                                                       \
    {#name, FIELD_CHOICE, offsetof(owner, vision.member), .choices = (words)}
/* The rows of a family's table over a struct that has this one as its member `vision`. */
#define VISION_FIELDS(owner)                                                                       \
    VISION_OPTION(owner, images, images, MOST_SEQ),                                                \
    VISION_OPTION(owner, layers, vision_layers, MOST_LAYERS),                                      \
    VISION_OPTION(owner, hidden, vision_hidden, MOST_HIDDEN),                                      \
    VISION_OPTION(owner, heads, vision_heads, MOST_HEADS),                                         \
    VISION_OPTION(owner, kv_heads, vision_kv_heads, MOST_HEADS),                                   \
    VISION_OPTION(owner, ffn, vision_ffn, MOST_HIDDEN),                                            \
    VISION_OPTION(owner, image, vision_image, MOST_PIXELS),                                        \
    VISION_OPTION(owner, patch, vision_patch, MOST_PIXELS),                                        \
    VISION_OPTION(owner, tiles, vision_tiles, MOST_TILES),                                         \
    VISION_OPTION(owner, shapes, vision_tile_shapes, MOST_TILES),                                  \
    VISION_OPTION(owner, global_layers, vision_global_layers, MOST_LAYERS),                        \
    {"vision_taps", FIELD_DOC, offsetof(owner, vision.taps)},                                      \
    VISION_OPTION(owner, frames, vision_frames, MOST_PIXELS),                                      \
    VISION_OPTION(owner, window, vision_window, MOST_SEQ),                                         \
    {"vision_full_every", FIELD_COUNT, offsetof(owner, vision.full_every), .min = 2, .max = MOST_PERIOD},\
    VISION_OPTION(owner, merge, vision_merge, MOST_PIXELS),                                        \
    VISION_FLAG(owner, class_token, vision_class_token),                                           \
    VISION_FLAG(owner, positions, vision_positions),                                               \
    VISION_FLAG(owner, rotary, vision_rotary),                                                     \
    VISION_FLAG(owner, bias, vision_bias),                                                         \
    VISION_FLAG(owner, attention_bias, vision_attention_bias),                                     \
    VISION_FLAG(owner, patch_bias, vision_patch_bias),                                             \
    VISION_FLAG(owner, pre_norm, vision_pre_norm),                                                 \
    VISION_FLAG(owner, post_norm, vision_post_norm),                                               \
    VISION_CHOICE(owner, norm, vision_norm, VISION_NORMS),                                         \
    VISION_CHOICE(owner, activation, vision_activation, VISION_ACTIVATIONS),                       \
    VISION_FLAG(owner, frozen, vision_frozen),                                                     \
    VISION_FLAG(owner, pool, vision_pool),                                                         \
    VISION_OPTION(owner, projector_layers, projector_layers, MOST_LAYERS),                         \
    VISION_OPTION(owner, projector_ffn, projector_ffn, MOST_HIDDEN),                               \
    VISION_FLAG(owner, projector_bias, projector_bias),                                            \
    VISION_CHOICE(owner, projector_norm, projector_norm, PROJECTOR_NORMS),                         \
    VISION_CHOICE(owner, projector_activation, projector_activation, VISION_ACTIVATIONS),          \
    VISION_FLAG(owner, projector_frozen, projector_frozen)
/* clang-format on */

/* What a decoder is to its tower. */
struct vision_user {
    int64_t seq, width, layers;
    int attention; /* a word of ATTENTION_WORDS */
    bool crosses;  /* its layers attend to the images, which are not in its sequence (I4) */
};

/* Features that are added after layers of the decoder, one each (I4). */
int64_t vision_deepstack(const struct vision *v, bool crosses);
/* Positions of the decoder's sequence that all images take; 0: none. */
int64_t vision_taken(const struct vision *v, bool crosses);
/* Whether the options make a tower whose tokens leave room for text in the user's positions. */
weft_status vision_check(const struct vision *v, const struct vision_user *user,
                         const struct doc *where);
/* The tower, as wide at its end as its user, into b->images. Call it before any text. */
void vision_build(struct builder *b, const struct vision *v, const struct vision_user *user);
/* The images' tokens, which take so many positions, and the text after them (1). */
int vision_join(struct builder *b, int64_t taken, int text);

#endif
