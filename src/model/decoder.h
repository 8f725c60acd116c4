/* decoder.h - what today's causal decoders share: RMSNorm, rotary positions, grouped queries, gated
 * MLPs. The families llama and moe differ in the MLP of their layers. Private to the room. */
#ifndef WEFT_MODEL_DECODER_H
#define WEFT_MODEL_DECODER_H

#include "model/blocks.h"
#include "model/families.h"

struct decoder {
    int64_t layers, hidden, heads, kv_heads, head_dim, ffn, seq, vocab;
    /* keys that attention sees; every full_every-th layer sees all keys, 0: none does */
    int64_t window, full_every;
    double rope_base;       /* of rotary positions */
    double local_rope_base; /* of layers with the window; 0: the same */
    bool tied, qkv_bias, proj_bias, qk_norm, end_norm, sinks, apart;
    int activation, attention, loss, dtype;
};

#define DECODER_DEFAULTS .seq = 4096, .vocab = 32000, .rope_base = ROPE_BASE, .dtype = DTYPE_BF16

extern const char *const DECODER_ACTIVATIONS[]; /* swiglu first */

/* The decoder's options, as the first rows of a family's table over a struct that begins with the
 * decoder. */
#define DECODER_FIELDS                                                                             \
    OPTION_NEEDED(struct decoder, layers, MOST_LAYERS),                                            \
        OPTION_NEEDED(struct decoder, hidden, MOST_HIDDEN),                                        \
        OPTION_NEEDED(struct decoder, heads, MOST_HEADS),                                          \
        OPTION_COUNT(struct decoder, kv_heads, MOST_HEADS),                                        \
        OPTION_COUNT(struct decoder, head_dim, MOST_DEPTH),                                        \
        OPTION_COUNT(struct decoder, ffn, MOST_HIDDEN),                                            \
        OPTION_COUNT(struct decoder, seq, MOST_SEQ),                                               \
        OPTION_COUNT(struct decoder, vocab, MOST_VOCAB),                                           \
        {"window", FIELD_COUNT, offsetof(struct decoder, window), .min = LEAST_WINDOW,             \
         .max = MOST_SEQ},                                                                         \
        {"full_every", FIELD_COUNT, offsetof(struct decoder, full_every), .min = 2,                \
         .max = MOST_PERIOD},                                                                      \
        OPTION_BASE(struct decoder, rope_base), OPTION_BASE(struct decoder, local_rope_base),      \
        OPTION_BOOL(struct decoder, sinks), OPTION_BOOL(struct decoder, tied),                     \
        OPTION_BOOL(struct decoder, qkv_bias), OPTION_BOOL(struct decoder, proj_bias),             \
        OPTION_BOOL(struct decoder, qk_norm), OPTION_BOOL(struct decoder, end_norm),               \
        OPTION_BOOL(struct decoder, apart),                                                        \
        OPTION_CHOICE(struct decoder, activation, DECODER_ACTIVATIONS),                            \
        OPTION_CHOICE(struct decoder, attention, ATTENTION_WORDS),                                 \
        OPTION_CHOICE(struct decoder, loss, LOSS_WORDS),                                           \
        OPTION_CHOICE(struct decoder, dtype, DTYPE_WORDS)

weft_status decoder_check(const struct decoder *d, const struct doc *where);
weft_status decoder_check_window(const struct decoder *d, const struct doc *where);
struct block_style decoder_style(const struct decoder *d);
/* The attention of one layer; the layer's number says whether it has the window. */
struct attention_block decoder_attention(const struct decoder *d, int64_t layer);
double decoder_rope_base(const struct decoder *d, int64_t layer);
struct mlp_block decoder_mlp(const struct decoder *d);
enum activation decoder_activation(const struct decoder *d);

/* Layers that differ by their number repeat after a period of so many layers. */
enum { MOST_PERIOD = 64 }; /* the layers of one period are stored one by one */
struct layer_row {
    const void *options;
    bool (*alike)(const void *options, int64_t one, int64_t other);
    int (*build)(struct builder *b, const void *options, int64_t layer, int x);
};
int64_t decoder_period(const struct decoder *d); /* of the windows: 1, or full_every */
bool decoder_sees_all(const struct decoder *d, int64_t layer);
/* Builds layers first .. first + count - 1: a repeat of whole periods, then the remaining layers in
 * runs of equal ones. */
int decoder_rows(struct builder *b, const struct layer_row *row, int64_t first, int64_t count,
                 int64_t period, int x);
/* The same in runs only. */
int decoder_runs(struct builder *b, const struct layer_row *row, int64_t first, int64_t count,
                 int x);

/* The embedding, and after the layers the norm, head and loss. */
int decoder_start(struct builder *b, const struct decoder *d, int32_t *table);
void decoder_end(struct builder *b, const struct decoder *d, int x, int32_t table);

#endif
