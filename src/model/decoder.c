/* decoder.c - the shared parts of the llama and moe families (see decoder.h). */
#include "model/decoder.h"

const char *const DECODER_ACTIVATIONS[] = {"swiglu", "geglu", "clamped", "gelu",
                                           "relu",   "relu2", NULL};

enum activation decoder_activation(const struct decoder *d)
{
    static const enum activation ACTIVATION[] = {ACTIVATION_GATED,         ACTIVATION_GATED_GELU,
                                                 ACTIVATION_GATED_CLAMPED, ACTIVATION_GELU,
                                                 ACTIVATION_RELU,          ACTIVATION_RELU2};
    _Static_assert(COUNT_OF(ACTIVATION) == COUNT_OF(DECODER_ACTIVATIONS) - 1, "one without a word");
    return ACTIVATION[d->activation];
}

weft_status decoder_check_window(const struct decoder *d, const struct doc *where)
{
    if (d->full_every && !d->window)
        return doc_error(
            option_at(where, "full_every"), "give 'window' as well",
            "'full_every' says which layers have no 'window', but no 'window' is given");
    return WEFT_OK;
}

weft_status decoder_check(const struct decoder *d, const struct doc *where)
{
    weft_status status = WEFT_OK;
    TRY(decoder_check_window(d, where));
    if (!d->head_dim)
        TRY(option_divides(where, "heads", d->heads, "hidden", d->hidden));
    if (d->kv_heads)
        TRY(option_divides(where, "kv_heads", d->kv_heads, "heads", d->heads));
done:
    return status;
}

struct block_style decoder_style(const struct decoder *d)
{
    return (struct block_style){.norm = NORM_RMS, .end_norm = d->end_norm};
}

bool decoder_sees_all(const struct decoder *d, int64_t layer)
{
    return !d->window || (d->full_every && (layer + 1) % d->full_every == 0);
}

int64_t decoder_period(const struct decoder *d)
{
    return d->full_every ? d->full_every : 1;
}

double decoder_rope_base(const struct decoder *d, int64_t layer)
{
    bool local = d->local_rope_base > 0 && !decoder_sees_all(d, layer);
    return local ? d->local_rope_base : d->rope_base;
}

struct attention_block decoder_attention(const struct decoder *d, int64_t layer)
{
    return (struct attention_block){
        .shape = {.heads = d->heads,
                  .kv_heads = d->kv_heads ? d->kv_heads : d->heads,
                  .depth = d->head_dim ? d->head_dim : d->hidden / d->heads,
                  .causal = true,
                  .window = decoder_sees_all(d, layer) ? 0 : d->window},
        .kernel = (enum attention_kernel)d->attention,
        .qkv_bias = d->qkv_bias,
        .proj_bias = d->proj_bias,
        .sinks = d->sinks,
        .qk_norm = d->qk_norm,
        .apart = d->apart,
        .rotary = true,
        .rope_base = decoder_rope_base(d, layer),
    };
}

/* Without a given width, LLaMA's: 8/3 of the hidden size, rounded up to a multiple of 256. */
struct mlp_block decoder_mlp(const struct decoder *d)
{
    int64_t ffn = d->ffn ? d->ffn : ceil_div(8 * d->hidden, 3 * 256) * 256;
    return (struct mlp_block){.ffn = ffn, .activation = decoder_activation(d), .apart = d->apart};
}

/* ---- rows of layers -------------------------------------------------------------------------- */

int decoder_runs(struct builder *b, const struct layer_row *row, int64_t first, int64_t count,
                 int x)
{
    for (int64_t end = first + count, next; first < end; first = next) {
        for (next = first + 1; next < end && row->alike(row->options, first, next);)
            next++;
        x = build_repeat_from(b, "layers", next - first, first, 1, x);
        x = build_repeat_end(b, row->build(b, row->options, first, x));
    }
    return x;
}

int decoder_rows(struct builder *b, const struct layer_row *row, int64_t first, int64_t count,
                 int64_t period, int x)
{
    int64_t periods = count / period;
    if (periods) {
        x = build_repeat_from(b, "", periods, 0, period, x);
        for (int64_t i = first; i < first + period; i++) {
            build_module_indexed(b, "layers", i);
            x = row->build(b, row->options, i, x);
            build_module_end(b);
        }
        x = build_repeat_end(b, x);
    }
    return decoder_runs(b, row, first + periods * period, count % period, x);
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
