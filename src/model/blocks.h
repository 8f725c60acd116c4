/* blocks.h - the parts that transformer families are made of. Private to the room.
 *
 * A block is a module with a norm in front (or after: BERT), the work, and the residual. What an
 * attention keeps for its backward pass depends on how it is computed; per layer, with a heads,
 * s positions and e bytes per element:
 *
 *   flash   q, k, v, the output and one fp32 per row: no score matrix
 *   fused   softmax e, dropout mask 1, dropped e              (2e + 1) a s^2: Megatron's 5 a s^2
 *   eager   the same and the scores e; a causal mask without a bias keeps one byte of mask instead
 *
 * A sliding window (`shape.window`) changes none of it: fused and eager attention mask a whole matrix.
 */
#ifndef WEFT_MODEL_BLOCKS_H
#define WEFT_MODEL_BLOCKS_H

#include "model/builder.h"

enum norm { NORM_LAYER, NORM_RMS, NORM_RMS_EAGER /* keeps the normalised copy */ };
enum attention_kernel {
    ATTENTION_FLASH,
    ATTENTION_FUSED,
    ATTENTION_EAGER,
    ATTENTION_FLASH_V1,
    ATTENTION_FLASH_V2,
    ATTENTION_LOCAL /* Megatron-LM's own modules without fused softmax: one mask for all heads, and KEEP_BUFFER */
};
enum activation {
    ACTIVATION_GELU,
    ACTIVATION_RELU,
    ACTIVATION_RELU2, /* squared */
    ACTIVATION_GATED, /* SwiGLU */
    ACTIVATION_GATED_GELU,
    ACTIVATION_GATED_CLAMPED,
    ACTIVATION_COUNT
};

/* The version of FlashAttention; 0: the device's best, -1: another kernel. */
int flash_version(enum attention_kernel kernel);
/* The words of these options, in the order of the enums. */
extern const char *const ATTENTION_WORDS[]; /* flash, fused, eager, flash-v1, flash-v2, local */
extern const char *const LOSS_WORDS[];      /* of enum loss */
extern const char *const DTYPE_WORDS[];     /* those of dtype_name */
enum loss { LOSS_PLAIN, LOSS_FUSED, LOSS_COMPILED, LOSS_EAGER };
int block_loss(struct builder *b, int logits, int loss);

/* Documents of a mean length that share a sequence, with a standard deviation of `spread` of it (documents.c); 0: one. */
weft_status documents_check(int64_t document, double spread, int attention,
                            const struct doc *where);
/* Of the text's attention: what attends to images is not causal where the text is, and sees all of them. */
void documents_set(struct builder *b, int64_t document, double spread, int64_t seq, bool causal);

struct block_style {
    enum norm norm;
    bool bias;       /* linear layers have a bias */
    bool dropout;    /* before each residual, and on the probabilities */
    bool post_norm;  /* the norm comes after the residual */
    bool end_norm;   /* another norm after the work, before the residual */
    bool no_norm;    /* none before the work (OLMo 2) */
    bool branch;     /* the caller adds the residual */
    bool gated;      /* the work is multiplied by the tanh of a learned number (Llama 3.2) */
    int64_t streams; /* of the residual (streams.c); 0: it is one */
};

struct attention_block {
    struct attention shape;
    enum attention_kernel kernel;
    bool qkv_bias; /* a bias for q, k and v even where style.bias is not set */
    bool proj_bias;
    bool sinks;
    bool rotary;
    double rope_base; /* of rotary positions; 0: ROPE_BASE */
    double rope_scaling;
    struct rope_stretch stretch;
    /* RMS norm of each head's query and key; q, k and v are then separate tensors */
    bool qk_norm;
    bool wide_qk_norm;  /* of all heads' queries, and keys, as one vector instead (OLMo 2) */
    bool apart;         /* separate products for q, k and v, even without norms */
    int64_t rotated;    /* features of each head that are rotated; 0: all. Others make it apart */
    bool output_gate;   /* the output is multiplied by the sigmoid of another product; apart, too */
    int64_t score_bias; /* learned values that are added to the scores, or 0 */
    int64_t window;     /* positions in one window of local attention, or 0 */
};

struct mlp_block {
    int64_t ffn;
    enum activation activation;
    bool dropout; /* inside, after the activation (T5) */
    bool apart;   /* gated: separate products for gate and up */
};

int block_norm(struct builder *b, const char *name, int x, enum norm norm);
int block_residual(struct builder *b, int y, int x, const struct block_style *style);
/* block_open opens the module and applies the norm before the work; block_close adds the residual
 * and closes it. */
int block_open(struct builder *b, const char *module, int x, const struct block_style *style);
int block_close(struct builder *b, int y, int x, const struct block_style *style);

/* One stream becomes several (streams.c); a layer's input from them; what they are after the layer's output y. */
int streams_begin(struct builder *b, int x, int64_t streams);
int streams_in(struct builder *b, int x, int64_t streams);
int streams_out(struct builder *b, int y, int x, int64_t streams);

/* Scores, softmax and context, computed by the block's kernel. */
int block_core(struct builder *b, int q, int k, int v, const struct block_style *style,
               const struct attention_block *a);
int block_attention(struct builder *b, int x, const struct block_style *style,
                    const struct attention_block *a);
/* Adds heads, in all groups alike or as whole groups, whichever are fewer, until a tensor degree of `multiple` divides
 * them (0: none), with a warning. They are computed and kept like the others. */
void block_pad_heads(struct builder *b, struct attention *a, int64_t multiple);
/* Queries from x, keys and values from `memory`. */
int block_cross_attention(struct builder *b, int x, int memory, const struct block_style *style,
                          const struct attention_block *a);
/* Experts between norm and residual; each expert is up, activation, down. */
struct expert_block {
    int64_t experts, top_k, ffn;
    enum activation activation;
    bool bias, router_bias;
    enum token_copies copies;
    int64_t latent; /* the width that the experts work in; 0: the tokens' own */
    struct routing routing;
    double capacity; /* as in struct op */
};
int block_experts(struct builder *b, int x, const struct expert_block *e);
/* up, activation, down: the work of an MLP block and of a shared expert, between norm and
 * residual. */
int block_feed_forward(struct builder *b, int x, bool bias, const struct mlp_block *m);
int block_mlp(struct builder *b, int x, const struct block_style *style, const struct mlp_block *m);

/* Adds a learned vector, which is never split, to the operator appended last: biases of scores,
 * positions. */
void block_add_weight(struct builder *b, const char *name, int64_t elements);
/* The image cut into patches: (batch, patches, hidden). */
int block_patches(struct builder *b, int64_t image, int64_t patch, int64_t hidden);

#endif
