/* family_llama.c - LLaMA and its kin: RMSNorm, rotary positions, grouped queries, SwiGLU.
 *
 *   x = x + proj(attention(rotary(qkv(norm(x)))))          layers times
 *   x = x + down(silu(gate) * up),  (gate, up) = gate_up(norm(x))
 *
 * Mistral (`window`), Qwen2 (`qkv_bias`), Qwen3 (`qk_norm`, `head_dim`), Gemma (`tied`, `head_dim`,
 * `activation: geglu`; 2 and 3 with `end_norm`, `window` and `full_every`), Phi-3, Nemotron-4 (`norm: layer`,
 * `activation: relu2`, `rotary_share`), and with `kv_lora` any of them with latent attention.
 */
#include "model/decoder.h"

static const struct decoder DEFAULTS = {DECODER_DEFAULTS};

static const struct field FIELDS[] = {DECODER_FIELDS};

static int layer(struct builder *b, const void *options, int64_t number, int x)
{
    const struct decoder *d = options;
    struct block_style style = decoder_style(d, number);
    struct mlp_block m = decoder_mlp(d);
    x = block_mlp(b, decoder_attend(b, d, number, x), &style, &m);
    return decoder_deepen(b, number, x);
}

static bool alike(const void *options, int64_t one, int64_t other)
{
    return decoder_alike(options, one, other);
}

static int layers(struct builder *b, const struct layer_row *row, int x)
{
    const struct decoder *d = row->options;
    int64_t period = decoder_period(d), deep = decoder_deepstack(d);
    x = decoder_runs(b, row, 0, deep, x);
    return period > 1 ? decoder_rows(b, row, deep, d->layers - deep, period, x)
                      : decoder_runs(b, row, deep, d->layers - deep, x);
}

static weft_status build(struct builder *b, const void *options, const struct doc *where)
{
    weft_status status = decoder_check(options, where);
    if (status == WEFT_OK)
        decoder_build(b, options, &(struct layer_row){options, alike, layer}, layers);
    return status;
}

const struct family FAMILY_LLAMA = FAMILY_OF(
    "llama",
    "causal decoder: RMSNorm, rotary positions, grouped queries, SwiGLU; Llama, Qwen, Gemma");
