/* family_llama.c - LLaMA and its kin: RMSNorm, rotary positions, grouped queries, SwiGLU.
 *
 *   x = x + proj(attention(rotary(qkv(norm(x)))))          layers times
 *   x = x + down(silu(gate) * up),  (gate, up) = gate_up(norm(x))
 *
 * Mistral, Qwen2 (`qkv_bias`), Qwen3 (`qk_norm`, `head_dim`), Gemma (`tied`, `head_dim`), Phi-3.
 */
#include "model/decoder.h"

static const struct decoder DEFAULTS = {DECODER_DEFAULTS};

static const struct field FIELDS[] = {DECODER_FIELDS};

static weft_status build(struct builder *b, const void *options, const struct doc *where)
{
    const struct decoder *d = options;
    struct block_style style = decoder_style();
    int32_t table;
    weft_status status;
    TRY(decoder_check(d, where));
    struct attention_block a = decoder_attention(d);
    struct mlp_block m = decoder_mlp(d);
    int x = build_repeat(b, "layers", d->layers, decoder_start(b, d, &table));
    x = block_mlp(b, block_attention(b, x, &style, &a), &style, &m);
    decoder_end(b, d, build_repeat_end(b, x), table);
done:
    return status;
}

const struct family FAMILY_LLAMA = {
    "llama",
    "causal decoder: RMSNorm, rotary positions, grouped queries, SwiGLU; Llama, Qwen",
    FIELDS,
    COUNT_OF(FIELDS),
    sizeof(DEFAULTS),
    &DEFAULTS,
    build,
};
