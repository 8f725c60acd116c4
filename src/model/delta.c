/* delta.c - a layer with the gated delta rule in place of attention (Yang et al., 2024; Qwen3-Next):
 *
 *   x = x + out(gated_norm(delta(conv(qkv(n)), rates(n)), gate(n))),  n = norm(x)
 *
 * Every key head has a query, a key and the values of delta_heads / delta_key_heads heads, in this order, so that a
 * split by key heads takes contiguous features.
 */
#include "model/decoder.h"

int delta_attention(struct builder *b, const struct decoder *d, int x)
{
    struct block_style style = decoder_style(d, 0);
    struct scan s = {d->delta_heads, delta_groups(d), d->delta_dim, d->delta_key_dim,
                     d->delta_chunk};
    int64_t inner = s.heads * s.depth;
    int n = block_open(b, "delta", x, &style);
    int y = build_linear(b, "qkv", n, inner + 2 * s.groups * s.state, false);
    y = build_conv1d(b, "conv", y, (struct fused_part){0}, s.groups, d->conv, false);
    y = build_delta(b, "delta", y, build_linear(b, "rates", n, 2 * s.heads, false), &s);
    y = build_gated_norm(b, "gated_norm", y, build_linear(b, "gate", n, inner, false),
                         (struct fused_part){0}, s.heads);
    return block_close(b, build_linear(b, "out_proj", y, d->hidden, false), x, &style);
}
