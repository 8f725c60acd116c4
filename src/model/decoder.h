/* decoder.h - what today's causal decoders share: RMSNorm, rotary positions, grouped queries or latent attention
 * (latent.c), gated MLPs, layers that predict more tokens. The families llama and moe differ in the MLP of their
 * layers. Private to the room. */
#ifndef WEFT_MODEL_DECODER_H
#define WEFT_MODEL_DECODER_H

#include "model/blocks.h"
#include "model/families.h"
#include "model/vision.h"

struct decoder {
    int64_t layers, hidden, heads, kv_heads, head_dim, head_multiple, ffn, seq, vocab;
    /* keys that attention sees; every full_every-th layer sees all keys, 0: none does */
    int64_t window, full_every;
    double norm_epsilon;
    double rope_base;       /* of rotary positions */
    double local_rope_base; /* of layers with the window; 0: the same */
    double rope_scaling;    /* struct op has it, and the next */
    struct rope_stretch stretch;
    double rotary_share; /* of a head's features are rotated, the first ones */
    bool tied, qkv_bias, proj_bias, qk_norm, end_norm, sinks, apart;
    /* one norm of all heads' queries, and of all keys, in place of one for each head */
    bool wide_qk_norm;
    bool pre_norm; /* attention and MLP have a norm before them */
    bool chunked;  /* the window is a chunk: a query sees the keys of its own from the first on */
    bool full_rotary; /* layers that see all keys have positions, too */
    bool latent_norm; /* the narrow vectors of latent attention have norms */
    bool output_gate; /* what attention computes is multiplied by a sigmoid of the layer's input */
    /* positions of the documents that are packed into a sequence, on average, and the standard deviation as a share of
     * that; 0: a sequence is one document */
    int64_t document;
    double document_spread;
    int64_t mtp; /* layers after the model's own, each of which predicts one token more */
    int64_t q_lora, kv_lora, nope_dim, rope_dim, value_dim; /* latent attention, if kv_lora */
    /* of latent attention: the keys that each query sees, chosen by scores of so many heads so wide */
    int64_t index_top_k, index_heads, index_dim;
    /* attention to a window and compressed keys (compressed.c), if compress */
    int64_t compress, compress_heavy, compress_first, o_groups, o_lora;
    int64_t streams; /* of the residual (streams.c); 0: it is one */
    /* layers that do not see all keys have no attention but the gated delta rule (delta.c), if delta_heads */
    int64_t delta_heads, delta_key_heads, delta_dim, delta_key_dim, delta_chunk, conv;
    int norm, activation, attention, loss, dtype;
    int64_t lora; /* rank of adapters; 0: everything is trained */
    int lora_modules;
    /* layers cross_first, cross_first + cross_every, ... attend to images in place of text, through gates; 0: none does */
    int64_t cross_first, cross_every;
    bool text_frozen; /* all but the tower: LLaVA's first stage trains the projector alone */
    struct vision vision;
};

/* Those of DeepSeek-V2 and V3, and Megatron-LM's defaults. */
#define LATENT_DIMS .nope_dim = 128, .rope_dim = 64, .value_dim = 128
#define DECODER_DEFAULTS                                                                           \
    .seq = 4096, .vocab = 32000, .norm_epsilon = NORM_EPSILON, .rope_base = ROPE_BASE,             \
    .rotary_share = 1, .full_rotary = true, .stretch.learned = YARN_LEARNED, .latent_norm = true,  \
    .pre_norm = true, LATENT_DIMS, .index_heads = 64, .index_dim = 128, .delta_dim = 128,          \
    .delta_key_dim = 128, .delta_chunk = 64, .conv = 4, .dtype = DTYPE_BF16,                       \
    .vision = {VISION_DEFAULTS}

enum { MOST_DEPTHS = 16, MOST_TAPS = 64 }; /* of layers that predict more tokens */
extern const char *const DECODER_NORMS[];  /* rms first */

extern const char *const DECODER_ACTIVATIONS[]; /* swiglu first */

/* The decoder's options, as the first rows of a family's table over a struct that begins with the
 * decoder. */
#define DECODER_FIELDS                                                                             \
    OPTION_NEEDED(struct decoder, layers, MOST_LAYERS),                                            \
        OPTION_NEEDED(struct decoder, hidden, MOST_HIDDEN),                                        \
        OPTION_NEEDED(struct decoder, heads, MOST_HEADS),                                          \
        OPTION_COUNT(struct decoder, kv_heads, MOST_HEADS),                                        \
        OPTION_COUNT(struct decoder, head_dim, MOST_DEPTH),                                        \
        OPTION_COUNT(struct decoder, head_multiple, MOST_HEADS),                                   \
        OPTION_COUNT(struct decoder, ffn, MOST_HIDDEN),                                            \
        OPTION_COUNT(struct decoder, seq, MOST_SEQ),                                               \
        OPTION_COUNT(struct decoder, vocab, MOST_VOCAB),                                           \
        OPTION_COUNT(struct decoder, document, MOST_SEQ),                                          \
        {"document_spread", FIELD_REAL, offsetof(struct decoder, document_spread), .min = 0,       \
         .max = 100},                                                                              \
        {"window", FIELD_COUNT, offsetof(struct decoder, window), .min = LEAST_WINDOW,             \
         .max = MOST_SEQ},                                                                         \
        {"full_every", FIELD_COUNT, offsetof(struct decoder, full_every), .min = 2,                \
         .max = MOST_PERIOD},                                                                      \
        OPTION_EPSILON(struct decoder), OPTION_BASE(struct decoder, rope_base),                    \
        OPTION_BASE(struct decoder, local_rope_base), OPTION_BASE(struct decoder, rope_scaling),   \
        OPTION_STRETCH(struct decoder), OPTION_BOOL(struct decoder, sinks),                        \
        OPTION_BOOL(struct decoder, tied), OPTION_BOOL(struct decoder, qkv_bias),                  \
        OPTION_BOOL(struct decoder, proj_bias), OPTION_BOOL(struct decoder, qk_norm),              \
        OPTION_BOOL(struct decoder, wide_qk_norm), OPTION_BOOL(struct decoder, pre_norm),          \
        OPTION_BOOL(struct decoder, end_norm), OPTION_BOOL(struct decoder, apart),                 \
        OPTION_BOOL(struct decoder, chunked), OPTION_BOOL(struct decoder, full_rotary),            \
        OPTION_BOOL(struct decoder, latent_norm), OPTION_BOOL(struct decoder, output_gate),        \
        OPTION_SHARE(struct decoder, rotary_share),                                                \
        {"mtp", FIELD_INT, offsetof(struct decoder, mtp), .min = 0, .max = MOST_DEPTHS},           \
        OPTION_COUNT(struct decoder, q_lora, MOST_HIDDEN),                                         \
        OPTION_COUNT(struct decoder, kv_lora, MOST_HIDDEN),                                        \
        OPTION_COUNT(struct decoder, nope_dim, MOST_DEPTH),                                        \
        OPTION_COUNT(struct decoder, rope_dim, MOST_DEPTH),                                        \
        OPTION_COUNT(struct decoder, value_dim, MOST_DEPTH),                                       \
        {"index_top_k", FIELD_COUNT, offsetof(struct decoder, index_top_k), .min = LEAST_WINDOW,   \
         .max = MOST_SEQ},                                                                         \
        OPTION_COUNT(struct decoder, index_heads, MOST_HEADS),                                     \
        OPTION_COUNT(struct decoder, index_dim, MOST_DEPTH),                                       \
        OPTION_COUNT(struct decoder, delta_heads, MOST_HEADS),                                     \
        OPTION_COUNT(struct decoder, delta_key_heads, MOST_HEADS),                                 \
        OPTION_COUNT(struct decoder, delta_dim, MOST_DEPTH),                                       \
        OPTION_COUNT(struct decoder, delta_key_dim, MOST_DEPTH),                                   \
        OPTION_COUNT(struct decoder, delta_chunk, MOST_SEQ),                                       \
        OPTION_COUNT(struct decoder, conv, MOST_TAPS),                                             \
        OPTION_CHOICE(struct decoder, norm, DECODER_NORMS),                                        \
        OPTION_CHOICE(struct decoder, activation, DECODER_ACTIVATIONS),                            \
        OPTION_CHOICE(struct decoder, attention, ATTENTION_WORDS),                                 \
        OPTION_CHOICE(struct decoder, loss, LOSS_WORDS),                                           \
        OPTION_CHOICE(struct decoder, dtype, DTYPE_WORDS),                                         \
        OPTION_COUNT(struct decoder, lora, MOST_HIDDEN),                                           \
        OPTION_CHOICE(struct decoder, lora_modules, LORA_WORDS),                                   \
        {"cross_every", FIELD_COUNT, offsetof(struct decoder, cross_every), .min = 1,              \
         .max = MOST_PERIOD},                                                                      \
        {"cross_first", FIELD_INT, offsetof(struct decoder, cross_first), .min = 0,                \
         .max = MOST_PERIOD},                                                                      \
        OPTION_BOOL(struct decoder, text_frozen), VISION_FIELDS(struct decoder)

weft_status decoder_check(const struct decoder *d, const struct doc *where);
/* Key heads of the delta rule. */
static inline int64_t delta_groups(const struct decoder *d)
{
    return d->delta_key_heads ? d->delta_key_heads : d->delta_heads;
}
/* The style of one layer: that of a layer which attends to images has gates. */
struct block_style decoder_style(const struct decoder *d, int64_t layer);
/* The attention of one layer; the layer's number says whether it has the window. */
struct attention_block decoder_attention(const struct decoder *d, int64_t layer);
/* The norm, that attention, and the residual. */
int decoder_attend(struct builder *b, const struct decoder *d, int64_t layer, int x);
/* Rotates the first `rope_dim` of every so many features. */
int decoder_rotary(struct builder *b, const struct decoder *d, const char *name, int x,
                   int64_t each);
int latent_attention(struct builder *b, const struct decoder *d, const struct block_style *style,
                     int64_t layer, int x);
int delta_attention(struct builder *b, const struct decoder *d, int x);
int compressed_attention(struct builder *b, const struct decoder *d, int64_t layer, int x);
/* How many tokens a compressed key of this layer stands for; 0: it has none. */
int64_t compressed_rate(const struct decoder *d, int64_t layer);
struct mlp_block decoder_mlp(const struct decoder *d);
enum activation decoder_activation(const struct decoder *d);

/* Layers that differ by their number repeat after a period of so many layers. */
enum { MOST_PERIOD = 64 }; /* the layers of one period are stored one by one */
struct layer_row {
    const void *options;
    bool (*alike)(const void *options, int64_t one, int64_t other);
    int (*build)(struct builder *b, const void *options, int64_t layer, int x);
};
int64_t decoder_period(
    const struct decoder *d); /* of kinds of attention: 1, 2, full_every or cross_every */
/* Whether two layers differ in nothing but their numbers, as far as the decoder's own options say. */
bool decoder_alike(const struct decoder *d, int64_t one, int64_t other);
/* The first layers, after each of which features of images are added (vision.h, I4), and that addition. */
int64_t decoder_deepstack(const struct decoder *d);
int decoder_deepen(struct builder *b, int64_t layer, int x);
/* Builds layers first .. first + count - 1: a repeat of whole periods, then the remaining layers in
 * runs of equal ones. */
int decoder_rows(struct builder *b, const struct layer_row *row, int64_t first, int64_t count,
                 int64_t period, int x);
/* The same in runs only. */
int decoder_runs(struct builder *b, const struct layer_row *row, int64_t first, int64_t count,
                 int x);

/* A decoder from its embedding, through the layers of the family, to its norm, head and losses. The
 * layers that predict more tokens are built like the last one of the row; beside compressed keys like the first, which has
 * the window alone. */
void decoder_build(struct builder *b, const struct decoder *d, const struct layer_row *row,
                   int (*layers)(struct builder *b, const struct layer_row *row, int x));

#endif
