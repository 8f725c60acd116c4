/* compressed.c - attention to a window and to compressed keys (DeepSeek-V4, section 2.3):
 *
 *   q = q_b(norm(q_a(x))),  k = v = norm(kv(x)), which all heads share
 *   keys of a query: those of its window, and of the compressed ones
 *     the index_top_k that an index chooses, one for `compress` tokens            (even layers)
 *     all, one for `compress_heavy` tokens                                        (odd layers)
 *   a compressed key is a sum of keys_c(x), weighed by gates gate_c(x), over its tokens; light ones overlap: twice as wide
 *   y = proj(o_b), o_b of `o_groups` groups of `o_lora` features each, from the heads of a group
 *
 *   I1  The first `compress_first` layers have the window alone.
 *   I2  Attention counts as one over a window of as many keys as a query sees in all; compressed keys are made beside it.
 *   I3  o_a is a product of all heads with o_lora features, which costs what the groups' products cost together, and a copy
 *       of its output to all groups.
 */
#include "model/decoder.h"

int64_t compressed_rate(const struct decoder *d, int64_t layer)
{
    if (!d->compress || layer < d->compress_first)
        return 0;
    return layer % 2 ? d->compress_heavy : d->compress;
}

static int64_t compressed_keys(const struct decoder *d, int64_t rate)
{
    return rate ? ceil_div(d->seq, rate) : 0;
}

static int compress(struct builder *b, const struct decoder *d, int x, int64_t rate, int64_t depth)
{
    int64_t width = rate == d->compress ? 2 * depth : depth;
    int keys = build_linear(b, "keys_c", x, width, false);
    int gate = build_linear(b, "gate_c", x, width, false);
    int y = build_gated_pair(b, "weighed", gate, keys);
    y = build_reshape(b, "summed", y, 3, (int64_t[]){1, compressed_keys(d, rate), depth});
    return build_rms_norm(b, "norm_c", y, true);
}

static void choose(struct builder *b, const struct decoder *d, int latent, int x, int64_t rate)
{
    build_module(b, "index");
    int q = build_linear(b, "q", latent, d->index_heads * d->index_dim, false);
    q = decoder_rotary(b, d, "q_rotary", q, d->index_dim);
    int k = compress(b, d, x, rate, d->index_dim);
    build_index(b, "index", q, k, build_linear(b, "weights", x, d->index_heads, false),
                d->index_heads);
    build_module_end(b);
}

static int64_t keys_seen(const struct decoder *d, int64_t rate)
{
    int64_t more = compressed_keys(d, rate);
    if (rate == d->compress && more > d->index_top_k)
        more = d->index_top_k;
    return d->window + more < d->seq ? d->window + more : 0;
}

static int project(struct builder *b, const struct decoder *d, int y)
{
    y = build_linear(b, "o_a", y, d->o_lora, false);
    y = build_reshape(b, "o_b", y, 3, (int64_t[]){1, d->seq, d->o_groups * d->o_lora}); /* I3 */
    return build_linear(b, "proj", y, d->hidden, false);
}

int compressed_attention(struct builder *b, const struct decoder *d, int64_t layer, int x)
{
    struct block_style style = decoder_style(d, layer);
    struct attention_block a = decoder_attention(d, layer);
    int64_t rate = compressed_rate(d, layer);
    a.shape.kv_heads = 1;
    a.shape.window = keys_seen(d, rate); /* I2 */
    int in = block_open(b, "attn", x, &style);
    int latent = build_rms_norm(b, "q_norm", build_linear(b, "q_a", in, d->q_lora, false), true);
    int q = build_linear(b, "q_b", latent, d->heads * d->head_dim, false);
    q = decoder_rotary(b, d, "q_rotary", q, d->head_dim);
    int kv = build_rms_norm(b, "kv_norm", build_linear(b, "kv", in, d->head_dim, false), true);
    kv = decoder_rotary(b, d, "kv_rotary", kv, d->head_dim);
    if (rate)
        compress(b, d, in, rate, d->head_dim);
    if (rate && rate == d->compress)
        choose(b, d, latent, in, rate);
    int y = block_core(b, q, kv, kv, &style, &a);
    if (rate && y >= 0)
        build_last(b)->shared_depth = build_last(b)->shared_value = d->head_dim;
    return block_close(b, project(b, d, y), x, &style);
}
