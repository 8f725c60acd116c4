/* builder.h - how families and importers write down a model, operator by operator.
 *
 * A builder call appends one operator and returns its output tensor, so a layer reads like its
 * equations:
 *
 *     int x = build_repeat(b, "layers", layers, x0);
 *     int y = build_linear(b, "qkv", build_layer_norm(b, "norm", x), 3 * hidden, true);
 *     ...
 *     x = build_repeat_end(b, y);
 *
 * Tensors of sequences are (batch, seq, features); images are (batch, channels, height, width).
 * Sizes must be positive and their products must fit in int64_t: families check their options
 * first, and the builder refuses the rest (build_finish returns the first error).
 */
#ifndef WEFT_MODEL_BUILDER_H
#define WEFT_MODEL_BUILDER_H

#include "model/model.h"

enum { MOST_TAPPED = 16 };

struct builder {
    struct arena *arena;
    struct model *model;
    const struct doc *where; /* the place that errors name; may be NULL */
    ARRAY(struct module) modules;
    ARRAY(struct op) ops;
    ARRAY(struct tensor) tensors;
    int32_t current; /* innermost open module */
    struct adapters {
        int64_t rank; /* 0: none, and everything is trained */
        int modules;  /* of enum lora_modules */
        bool open;    /* what is appended now belongs to an adapter */
    } lora;
    bool frozen;         /* what is appended now is not trained, though gradients pass through it */
    double norm_epsilon; /* of norms that are appended now */
    enum op_place place; /* of what is appended now */
    struct images {
        int tokens;              /* the tensor of all images' tokens */
        int64_t deepstack;       /* tensors that are added after so many layers of the decoder */
        int tapped[MOST_TAPPED]; /* those tensors (vision.h, I4) */
    } images;
    weft_status status;
};

/* Freezes all operators from this one on: their weights are not trained, no gradient passes, and nothing is kept. */
void build_freeze(struct builder *b, size_t first);

struct builder *build_start(const char *name, const char *family, const char *source);
/* Closes the root, marks kept tensors, checks I1-I5. Frees the model on error. */
weft_status build_finish(struct builder *b, struct model **out);
/* Frees a builder that will not be finished. */
void build_abandon(struct builder *b);

/* Modules. build_module_indexed names one name.index ("blocks.3"). */
void build_module(struct builder *b, const char *name);
void build_module_indexed(struct builder *b, const char *name, int64_t index);
void build_module_end(struct builder *b);
/* A repeating module with a carried tensor; returns the tensor that its body starts from. Copies
 * are called name.first, name.(first + stride), ... A body of several layers has no name of its own
 * (""), a stride > 1, and names its layers by build_module_indexed: their numbers grow by the
 * stride from copy to copy. */
int build_repeat(struct builder *b, const char *name, int64_t repeat, int carried);
int build_repeat_from(struct builder *b, const char *name, int64_t repeat, int64_t first,
                      int64_t stride, int carried);
/* the last copy's output, seen from outside */
int build_repeat_end(struct builder *b, int carried);

/* Inputs of the model. */
int build_input(struct builder *b, int axes, const int64_t *size, enum element element);
int build_tokens(struct builder *b, int64_t seq); /* (batch, seq) ids */
int build_image(struct builder *b, int64_t channels, int64_t height, int64_t width);

const struct tensor *build_tensor(const struct builder *b, int tensor);
int64_t build_features(const struct builder *b, int tensor); /* size of the last axis */

/* Operators. Each returns its output tensor. */
int build_embedding(struct builder *b, const char *name, int ids, int64_t vocab, int64_t width,
                    int64_t positions); /* positions: the rows of a learned table, or 0 */
int build_embedding_bag(struct builder *b, const char *name, int64_t tables, int64_t rows,
                        int64_t width, int64_t lookups);
int build_linear(struct builder *b, const char *name, int x, int64_t out, bool bias);
/* An output head that uses an embedding's table: it has no parameters of its own. */
int build_tied_linear(struct builder *b, const char *name, int x, int32_t embedding_op);

struct attention {
    int64_t heads, kv_heads, depth, value_depth;
    bool causal;
    int64_t window; /* as in struct op */
    bool chunked;
};
enum { LEAST_WINDOW = 2 }; /* keys: with a single key there is nothing to attend to */
/* q is (batch, q, heads*depth), k and v are (batch, kv, kv_heads*...). The three may be one fused
 * tensor: pass it three times; the operators then read it once. */
int build_score(struct builder *b, const char *name, int q, int k, const struct attention *a);
int build_context(struct builder *b, const char *name, int probabilities, int v,
                  const struct attention *a);
int build_attention(struct builder *b, const char *name, int q, int k, int v,
                    const struct attention *a);
int build_softmax(struct builder *b, const char *name, int x, bool keep_input);

int build_layer_norm(struct builder *b, const char *name, int x);
int build_rms_norm(struct builder *b, const char *name, int x, bool fused);
/* The same over the features of each head, with one weight for all heads. */
int build_head_norm(struct builder *b, const char *name, int x, int64_t heads);
int build_gelu(struct builder *b, const char *name, int x);
int build_relu(struct builder *b, const char *name, int x);
int build_squared_relu(struct builder *b, const char *name, int x);
int build_silu(struct builder *b, const char *name, int x);
int build_gated(struct builder *b, const char *name, int gate_up); /* halves the features */
int build_gated_pair(struct builder *b, const char *name, int gate, int up);
/* All features of a token times the sigmoid of its one number. */
int build_token_gate(struct builder *b, const char *name, int gate, int up);
int build_dropout(struct builder *b, const char *name, int x);
int build_dropout_add(struct builder *b, const char *name, int x, int residual);
int build_add(struct builder *b, const char *name, int x, int y);
int build_rotary(struct builder *b, const char *name, int x);

/* Mixture of experts: router -> dispatch -> expert linears -> combine. Every expert has room for
 * ceil(capacity * seq * top_k / experts) tokens of a sample; the rooms of all experts, one after the
 * other, are the places. */
int64_t build_expert_places(const struct builder *b, int scores);
int build_router(struct builder *b, const char *name, int x, int64_t experts, int64_t top_k);
int build_dispatch(struct builder *b, const char *name, int x, int scores);
int build_expert_linear(struct builder *b, const char *name, int dispatched, int64_t out,
                        bool bias);
int build_combine(struct builder *b, const char *name, int expert_out, int scores);

/* A state-space layer (Mamba-2): convolution -> scan -> gated norm, all by groups of heads. */
struct scan {
    int64_t heads, groups, depth; /* of heads, each `depth` wide */
    int64_t state, chunk;
};
/* A part of a tensor whose last axis is, for every group, [gate, x, B, C, dt], as one product makes
 * it. Operators that read all features of a tensor take the whole tensor instead (features 0). */
struct fused_part {
    int64_t first, features; /* within one group; 0 features: the whole tensor */
};
/* A convolution along the sequence, each feature by itself, over a position and the kernel - 1
 * before it. */
int build_conv1d(struct builder *b, const char *name, int x, struct fused_part part, int64_t groups,
                 int64_t kernel, bool bias);
/* `xbc` holds x, B and C of every group in turn; dt is one number for each head. If xbc comes
 * from a conv1d, that operator's input is kept for the backward pass and xbc is computed again
 * from it. */
int build_scan(struct builder *b, const char *name, int xbc, int dt, struct fused_part dt_part,
               const struct scan *s);
/* A gated delta rule: `qkv` holds for every key head in turn its query, its key and the values of its heads; `rates`
 * is two numbers for each value head, how much it writes and how much it forgets. Of the sizes, `groups` are key
 * heads, `heads` value heads of `depth`, and `state` the width of a key. */
int build_delta(struct builder *b, const char *name, int qkv, int rates, const struct scan *s);
/* The scores by which keys are chosen: queries of `heads` times the key's width, one key for all, and a weight for each
 * head. Nothing reads its output: it has a loss of its own. */
int build_index(struct builder *b, const char *name, int q, int k, int weights, int64_t heads);
int build_gated_norm(struct builder *b, const char *name, int x, int gate,
                     struct fused_part gate_part, int64_t groups);

struct window {
    int64_t kernel_h, kernel_w, stride, pad_h, pad_w;
};
int build_conv(struct builder *b, const char *name, int x, int64_t out_channels,
               const struct window *w, int64_t groups, bool bias);
int build_batch_norm(struct builder *b, const char *name, int x);
int build_pool(struct builder *b, const char *name, int x, const struct window *w);
int build_global_pool(struct builder *b, const char *name, int x); /* -> (batch, channels) */
int build_flatten(struct builder *b, int x);                       /* a view: (batch, everything) */
int build_concat(struct builder *b, const char *name, const int *parts, int count, int axis);
int build_interaction(struct builder *b, const char *name, int dense, int sparse);
int build_loss(struct builder *b, const char *name, int logits);
/* The same in one kernel that keeps the logits and never has probabilities in memory. The gradient
 * of the logits overwrites them (Transformer Engine's parallel_cross_entropy, Liger) or, with
 * `apart`, is a tensor of its own (what torch.compile makes of PyTorch's loss). */
int build_fused_loss(struct builder *b, const char *name, int logits, bool apart);

/* Data movement into a new shape (patch merging), and views, which move nothing. */
int build_reshape(struct builder *b, const char *name, int x, int axes, const int64_t *size);
int build_view(struct builder *b, int x, int axes, const int64_t *size);
int build_opaque(struct builder *b, const char *name, const char *type, const int *inputs,
                 int count, int axes, const int64_t *size, const struct weight *weights,
                 int weight_count);

/* Adds the next weight of its kind's row to the operator appended last: sinks, a router's bias. */
void build_weight(struct builder *b, const char *name, int axes, const int64_t *size);
/* Adds sinks to the attention or softmax appended last. */
void build_sinks(struct builder *b, int64_t heads);
/* The operator appended last, to adjust it. */
struct op *build_last(struct builder *b);
int32_t build_last_index(const struct builder *b);

#endif
