/* decoder.h - what today's causal decoders share: RMSNorm, rotary positions, grouped queries, gated
 * MLPs. The families llama and moe differ in their layers' MLP. Private to the room. */
#ifndef WEFT_MODEL_DECODER_H
#define WEFT_MODEL_DECODER_H

#include "model/blocks.h"
#include "model/families.h"

struct decoder {
    int64_t layers, hidden, heads, kv_heads, head_dim, ffn, seq, vocab;
    bool tied, qkv_bias, qk_norm, apart;
    int attention, loss, dtype;
};

#define DECODER_DEFAULTS .seq = 4096, .vocab = 32000, .dtype = DTYPE_BF16

/* Its options, as the first rows of a family's table over a struct that begins with the decoder. */
#define DECODER_FIELDS                                                                             \
    OPTION_NEEDED(struct decoder, layers, MOST_LAYERS),                                            \
        OPTION_NEEDED(struct decoder, hidden, MOST_HIDDEN),                                        \
        OPTION_NEEDED(struct decoder, heads, MOST_HEADS),                                          \
        OPTION_COUNT(struct decoder, kv_heads, MOST_HEADS),                                        \
        OPTION_COUNT(struct decoder, head_dim, MOST_DEPTH),                                        \
        OPTION_COUNT(struct decoder, ffn, MOST_HIDDEN),                                            \
        OPTION_COUNT(struct decoder, seq, MOST_SEQ),                                               \
        OPTION_COUNT(struct decoder, vocab, MOST_VOCAB), OPTION_BOOL(struct decoder, tied),        \
        OPTION_BOOL(struct decoder, qkv_bias), OPTION_BOOL(struct decoder, qk_norm),               \
        OPTION_BOOL(struct decoder, apart),                                                        \
        OPTION_CHOICE(struct decoder, attention, ATTENTION_WORDS),                                 \
        OPTION_CHOICE(struct decoder, loss, LOSS_WORDS),                                           \
        OPTION_CHOICE(struct decoder, dtype, DTYPE_WORDS)

weft_status decoder_check(const struct decoder *d, const struct doc *where);
struct block_style decoder_style(void);
struct attention_block decoder_attention(const struct decoder *d);
struct mlp_block decoder_mlp(const struct decoder *d);

/* The embedding, and behind the layers the norm, head and loss. */
int decoder_start(struct builder *b, const struct decoder *d, int32_t *table);
void decoder_end(struct builder *b, const struct decoder *d, int x, int32_t table);

#endif
