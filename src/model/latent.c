/* latent.c - attention whose keys and values come from one narrow vector (DeepSeek-V2, section 2.1):
 *
 *   q = q_b(norm(q_a(x)))             or q(x) without `q_lora`
 *   k = (k_b(norm(kv_a(x))), k_rope(x) for every head),  v = v_b(norm(kv_a(x)))
 *
 * With `index_top_k` (DeepSeek-V3.2, section 2.1) a query sees the so many keys of which the index scores most:
 *
 *   sum over heads h of w_h(x) relu(q_h . k),  q = index_q(norm(q_a(x))),  k = norm(index_k(x))
 *
 *   I1  Every query has other keys, so that attention reads the latent itself, which all heads share: k_b is applied
 *       to the queries instead, and v_b to the output. That costs what they cost before.
 *   I2  The index is computed where the tokens are, by every device of a tensor group (Megatron's "duplicated"). It
 *       learns from a loss of its own. DeepSeek stops its gradient there; here it goes back to the layer's input,
 *       which costs each product of the index one more of its size.
 */
#include "model/decoder.h"

/* A product of the tokens that each device has (I2). */
static int beside(struct builder *b, const char *name, int x, int64_t out)
{
    int y = build_linear(b, name, x, out, false);
    if (y >= 0)
        build_last(b)->by_stream = true;
    return y;
}

static void index_keys(struct builder *b, const struct decoder *d, int latent, int x)
{
    build_module(b, "index");
    int q = beside(b, "q", latent, d->index_heads * d->index_dim);
    q = decoder_rotary(b, d, "q_rotary", q, d->index_dim);
    int k = build_layer_norm(b, "k_norm", beside(b, "k", x, d->index_dim));
    k = decoder_rotary(b, d, "k_rotary", k, d->index_dim);
    build_index(b, "index", q, k, beside(b, "weights", x, d->index_heads), d->index_heads);
    build_module_end(b);
}

/* A product into the narrow width, and its norm, of the layer's kind. */
static int narrowed(struct builder *b, const struct decoder *d, enum norm norm,
                    const char *const *name, int x, int64_t width)
{
    x = build_linear(b, name[0], x, width, false);
    return d->latent_norm ? block_norm(b, name[1], x, norm) : x;
}

static int latent_queries(struct builder *b, const struct decoder *d, enum norm norm, int x)
{
    static const char *const NAMES[] = {"q_a", "q_norm"};
    int64_t out = d->heads * (d->nope_dim + d->rope_dim);
    int from = x;
    if (d->q_lora)
        x = narrowed(b, d, norm, NAMES, x, d->q_lora);
    if (d->index_top_k)
        index_keys(b, d, x, from);
    x = build_linear(b, d->q_lora ? "q_b" : "q", x, out, false);
    return decoder_rotary(b, d, "q_rotary", x, d->nope_dim + d->rope_dim);
}

/* Each head's key: its own part from the latent, and the rotated part, which all heads share. */
static int latent_keys(struct builder *b, const struct decoder *d, int latent, int x)
{
    int64_t heads = d->heads;
    int own = build_linear(b, "k_b", latent, heads * d->nope_dim, false);
    int shared = build_linear(b, "k_rope", x, d->rope_dim, false);
    shared = decoder_rotary(b, d, "k_rotary", shared, d->rope_dim);
    shared = build_reshape(b, "k_expand", shared, 3, (int64_t[]){1, d->seq, heads * d->rope_dim});
    return build_concat(b, "k", (int[]){own, shared}, 2, 2);
}

int latent_attention(struct builder *b, const struct decoder *d, const struct block_style *style,
                     int64_t layer, int x)
{
    static const char *const NAMES[] = {"kv_a", "kv_norm"};
    struct attention_block a = decoder_attention(d, layer);
    a.shape.kv_heads = d->heads;
    a.shape.depth = d->nope_dim + d->rope_dim;
    a.shape.value_depth = d->value_dim;
    a.shape.window = d->index_top_k ? d->index_top_k : a.shape.window;
    int y = block_open(b, "attn", x, style);
    int q = latent_queries(b, d, style->norm, y);
    int latent = narrowed(b, d, style->norm, NAMES, y, d->kv_lora);
    int k = latent_keys(b, d, latent, y);
    int v = build_linear(b, "v_b", latent, d->heads * d->value_dim, false);
    y = block_core(b, q, k, v, style, &a);
    if (d->index_top_k && y >= 0) { /* I1 */
        build_last(b)->shared_depth = d->kv_lora + d->rope_dim;
        build_last(b)->shared_value = d->kv_lora;
    }
    y = build_linear(b, "proj", y, d->hidden, style->bias || d->proj_bias);
    return block_close(b, y, x, style);
}
