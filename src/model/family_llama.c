/* family_llama.c - LLaMA and its kin: RMSNorm, rotary positions, grouped queries, SwiGLU.
 *
 *   x = x + proj(attention(rotary(qkv(norm(x)))))          layers times
 *   x = x + down(silu(gate) * up),  (gate, up) = gate_up(norm(x))
 *
 * Mistral (`window`), Qwen2 (`qkv_bias`), Qwen3 (`qk_norm`, `head_dim`), Gemma (`tied`, `head_dim`,
 * `activation: geglu`; 2 and 3 with `end_norm`, `window` and `full_every`), Phi-3.
 */
#include "model/decoder.h"

static const struct decoder DEFAULTS = {DECODER_DEFAULTS};

static const struct field FIELDS[] = {DECODER_FIELDS};

static int layer(struct builder *b, const void *options, int64_t number, int x)
{
    const struct decoder *d = options;
    struct block_style style = decoder_style(d);
    struct attention_block a = decoder_attention(d, number);
    struct mlp_block m = decoder_mlp(d);
    return block_mlp(b, block_attention(b, x, &style, &a), &style, &m);
}

static bool alike(const void *options, int64_t one, int64_t other)
{
    return decoder_sees_all(options, one) == decoder_sees_all(options, other);
}

static weft_status build(struct builder *b, const void *options, const struct doc *where)
{
    const struct decoder *d = options;
    struct layer_row row = {d, alike, layer};
    int64_t period = decoder_period(d);
    int32_t table;
    weft_status status;
    TRY(decoder_check(d, where));
    int x = decoder_start(b, d, &table);
    x = period > 1 ? decoder_rows(b, &row, 0, d->layers, period, x)
                   : decoder_runs(b, &row, 0, d->layers, x);
    decoder_end(b, d, x, table);
done:
    return status;
}

const struct family FAMILY_LLAMA = FAMILY_OF(
    "llama",
    "causal decoder: RMSNorm, rotary positions, grouped queries, SwiGLU; Llama, Qwen, Gemma");
