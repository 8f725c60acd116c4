/* decoder.c - the shared parts of the llama and moe families (see decoder.h). */
#include "model/decoder.h"

weft_status decoder_check(const struct decoder *d, const struct doc *where)
{
    weft_status status = WEFT_OK;
    if (!d->head_dim)
        TRY(option_divides(where, "heads", d->heads, "hidden", d->hidden));
    if (d->kv_heads)
        TRY(option_divides(where, "kv_heads", d->kv_heads, "heads", d->heads));
done:
    return status;
}

struct block_style decoder_style(void)
{
    return (struct block_style){.norm = NORM_RMS};
}

struct attention_block decoder_attention(const struct decoder *d)
{
    return (struct attention_block){
        .shape = {.heads = d->heads,
                  .kv_heads = d->kv_heads ? d->kv_heads : d->heads,
                  .depth = d->head_dim ? d->head_dim : d->hidden / d->heads,
                  .causal = true},
        .kernel = (enum attention_kernel)d->attention,
        .qkv_bias = d->qkv_bias,
        .qk_norm = d->qk_norm,
        .apart = d->apart,
        .rotary = true,
    };
}

/* LLaMA's width where none is given: 8/3 of the hidden size, rounded up to a multiple of 256. */
struct mlp_block decoder_mlp(const struct decoder *d)
{
    int64_t ffn = d->ffn ? d->ffn : ceil_div(8 * d->hidden, 3 * 256) * 256;
    return (struct mlp_block){.ffn = ffn, .activation = ACTIVATION_GATED, .apart = d->apart};
}

int decoder_start(struct builder *b, const struct decoder *d, int32_t *table)
{
    int x = build_embedding(b, "embedding", build_tokens(b, d->seq), d->vocab, d->hidden, 0);
    *table = build_last_index(b);
    return x;
}

void decoder_end(struct builder *b, const struct decoder *d, int x, int32_t table)
{
    x = build_rms_norm(b, "norm", x, true);
    x = d->tied ? build_tied_linear(b, "head", x, table)
                : build_linear(b, "head", x, d->vocab, false);
    block_loss(b, x, d->loss);
    b->model->layers = d->layers;
    b->model->seq = d->seq;
    b->model->dtype = (enum dtype)d->dtype;
}
