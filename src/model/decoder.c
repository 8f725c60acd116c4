/* decoder.c - the shared parts of the llama and moe families (see decoder.h). */
#include "model/decoder.h"

const char *const DECODER_ACTIVATIONS[] = {"swiglu", "geglu", "clamped", "gelu",
                                           "relu",   "relu2", NULL};
const char *const DECODER_NORMS[] = {"rms", "layer", NULL};

enum activation decoder_activation(const struct decoder *d)
{
    static const enum activation ACTIVATION[] = {ACTIVATION_GATED,         ACTIVATION_GATED_GELU,
                                                 ACTIVATION_GATED_CLAMPED, ACTIVATION_GELU,
                                                 ACTIVATION_RELU,          ACTIVATION_RELU2};
    _Static_assert(COUNT_OF(ACTIVATION) == COUNT_OF(DECODER_ACTIVATIONS) - 1, "one without a word");
    return ACTIVATION[d->activation];
}

static weft_status check_window(const struct decoder *d, const struct doc *where)
{
    static const char NEEDS[] = "give 'window' as well";
    if (d->full_every && !d->window && !d->delta_heads && d->full_rotary)
        return doc_error(
            option_at(where, "full_every"), NEEDS,
            "'full_every' says which layers have no 'window', but no 'window' is given");
    if (d->window && (d->delta_heads || (d->index_top_k && !d->compress)))
        return doc_error(option_at(where, "window"), NULL,
                         "'window' is given beside '%s', which also limits what layers see",
                         d->delta_heads ? "delta_heads" : "index_top_k");
    if (d->chunked && !d->window)
        return doc_error(option_at(where, "chunked"), NEEDS,
                         "'chunked' says what a 'window' is, but no 'window' is given");
    return WEFT_OK;
}

static weft_status check_compressed(const struct decoder *d, const struct doc *where)
{
    bool whole = d->compress_heavy && d->index_top_k && d->window && d->head_dim && d->q_lora &&
                 d->o_lora && d->o_groups && !d->kv_lora && !d->full_every;
    if (!d->compress || whole)
        return WEFT_OK;
    return doc_error(
        option_at(where, "compress"),
        "give compress_heavy, index_top_k, window, head_dim, q_lora, o_lora and o_groups, and "
        "neither kv_lora nor full_every",
        "'compress' is an option of attention to compressed keys, which needs others");
}

static bool crosses(const struct decoder *d, int64_t layer)
{
    return d->cross_every && layer % d->cross_every == d->cross_first;
}

static weft_status check_cross(const struct decoder *d, const struct doc *where)
{
    weft_status status = WEFT_OK;
    if (!d->cross_every && d->cross_first)
        TRY(doc_error(option_at(where, "cross_first"), "give 'cross_every' as well",
                      "'cross_first' is the first of the layers of 'cross_every', which is not "
                      "given"));
    if (!d->cross_every)
        return WEFT_OK;
    if (!d->vision.layers)
        TRY(doc_error(option_at(where, "cross_every"),
                      "give 'vision_layers', 'vision_hidden' and the others",
                      "'cross_every' says which layers attend to images, and no encoder of images "
                      "is given"));
    if (d->cross_first >= d->cross_every)
        TRY(doc_error(option_at(where, "cross_first"), NULL,
                      "'cross_first' is %lld, expected less than 'cross_every', %lld",
                      (long long)d->cross_first, (long long)d->cross_every));
    if (d->full_every || d->kv_lora || d->compress || d->streams)
        TRY(doc_error(option_at(where, "cross_every"), NULL,
                      "'cross_every' is given beside '%s', expected one of them",
                      d->full_every ? "full_every"
                      : d->kv_lora  ? "kv_lora"
                      : d->compress ? "compress"
                                    : "streams"));
done:
    return status;
}

static struct vision_user user_of(const struct decoder *d)
{
    return (struct vision_user){d->seq, d->hidden, d->layers, d->attention, d->cross_every > 0};
}

int64_t decoder_deepstack(const struct decoder *d)
{
    return d->vision.layers ? vision_deepstack(&d->vision, d->cross_every > 0) : 0;
}

static weft_status check_tower(const struct decoder *d, const struct doc *where)
{
    struct vision_user user = user_of(d);
    weft_status status = WEFT_OK;
    TRY(check_cross(d, where));
    TRY(vision_check(&d->vision, &user, where));
    if (decoder_deepstack(d) && d->streams)
        TRY(doc_error(option_at(where, "vision_taps"), NULL,
                      "'vision_taps' is given beside 'streams', expected one of them"));
done:
    return status;
}

weft_status decoder_check(const struct decoder *d, const struct doc *where)
{
    weft_status status = WEFT_OK;
    TRY(check_window(d, where));
    TRY(documents_check(d->document, d->document_spread, d->attention, where));
    TRY(check_compressed(d, where));
    TRY(check_tower(d, where));
    if (d->q_lora && !d->kv_lora && !d->compress)
        TRY(doc_error(option_at(where, "q_lora"), "give 'kv_lora' as well",
                      "'q_lora' is an option of latent attention, which 'kv_lora' turns on"));
    if (d->stretch.kind != ROPE_LLAMA3 && !(d->rope_scaling > 0))
        TRY(doc_error(option_at(where, "rope_type"), "give 'rope_scaling' as well",
                      "'rope_type' says how positions are stretched by the factor 'rope_scaling'"));
    if (d->index_top_k && !(d->q_lora && d->kv_lora) && !d->compress)
        TRY(doc_error(option_at(where, "index_top_k"), "give 'q_lora' and 'kv_lora' as well",
                      "'index_top_k' is an option of latent attention"));
    if (d->delta_heads)
        TRY(option_divides(where, "delta_key_heads", delta_groups(d), "delta_heads",
                           d->delta_heads));
    if (d->head_multiple && d->kv_lora)
        TRY(doc_error(option_at(where, "head_multiple"), NULL,
                      "'head_multiple' pads the heads of attention, but not those of 'kv_lora'"));
    if (d->kv_lora)
        return WEFT_OK;
    if (!d->head_dim)
        TRY(option_divides(where, "heads", d->heads, "hidden", d->hidden));
    if (d->kv_heads)
        TRY(option_divides(where, "kv_heads", d->kv_heads, "heads", d->heads));
done:
    return status;
}

struct block_style decoder_style(const struct decoder *d, int64_t layer)
{
    return (struct block_style){.norm = d->norm ? NORM_LAYER : NORM_RMS,
                                .end_norm = d->end_norm,
                                .no_norm = !d->pre_norm,
                                .streams = d->streams,
                                .gated = crosses(d, layer)};
}

static bool is_full(const struct decoder *d, int64_t layer)
{
    return d->full_every && (layer + 1) % d->full_every == 0;
}

static bool sees_all(const struct decoder *d, int64_t layer)
{
    bool all = !d->window && !d->delta_heads;
    return all || is_full(d, layer);
}

/* Where all layers see everything, those of full_every are the ones without positions (SmolLM3). */
static bool has_rotary(const struct decoder *d, int64_t layer)
{
    return d->full_rotary || !(d->full_every ? is_full(d, layer) : sees_all(d, layer));
}

int64_t decoder_period(const struct decoder *d)
{
    return d->full_every ? d->full_every : d->compress ? 2 : d->cross_every ? d->cross_every : 1;
}

bool decoder_alike(const struct decoder *d, int64_t one, int64_t other)
{
    int64_t deep = decoder_deepstack(d);
    bool same = one == other || (one >= deep && other >= deep);
    return same && is_full(d, one) == is_full(d, other) && crosses(d, one) == crosses(d, other);
}

/* Layers with the window have positions of their own, which are not stretched (Gemma 3). */
static bool has_local_rotary(const struct decoder *d, int64_t layer)
{
    return d->local_rope_base > 0 && !sees_all(d, layer);
}

struct attention_block decoder_attention(const struct decoder *d, int64_t layer)
{
    int64_t depth = d->head_dim ? d->head_dim : d->hidden / d->heads;
    bool all = sees_all(d, layer), local = has_local_rotary(d, layer);
    return (struct attention_block){
        .shape = {.heads = d->heads,
                  .kv_heads = d->kv_heads ? d->kv_heads : d->heads,
                  .depth = depth,
                  .causal = true,
                  .window = all ? 0 : d->window,
                  .chunked = !all && d->chunked},
        .kernel = (enum attention_kernel)d->attention,
        .qkv_bias = d->qkv_bias,
        .proj_bias = d->proj_bias,
        .sinks = d->sinks,
        .qk_norm = d->qk_norm || d->wide_qk_norm,
        .wide_qk_norm = d->wide_qk_norm,
        .apart = d->apart,
        .rotary = has_rotary(d, layer),
        .rotated = d->rotary_share < 1 ? (int64_t)(d->rotary_share * (double)depth) / 2 * 2 : 0,
        .rope_base = local ? d->local_rope_base : d->rope_base,
        .rope_scaling = local ? 0 : d->rope_scaling,
        .stretch = d->stretch,
        .output_gate = d->output_gate,
    };
}

/* Queries of the text, keys and values of the images, with norms of both and without positions. */
static int attend_images(struct builder *b, const struct decoder *d, int64_t layer, int x)
{
    struct block_style style = decoder_style(d, layer);
    struct attention_block a = decoder_attention(d, layer);
    a.shape.causal = a.rotary = a.output_gate = a.sinks = false;
    a.shape.window = 0;
    a.qk_norm = true;
    block_pad_heads(b, &a.shape, d->head_multiple);
    return block_cross_attention(b, x, b->images.tokens, &style, &a);
}

int decoder_attend(struct builder *b, const struct decoder *d, int64_t layer, int x)
{
    struct block_style style = decoder_style(d, layer);
    struct attention_block a = decoder_attention(d, layer);
    if (crosses(d, layer))
        return attend_images(b, d, layer, x);
    if (d->delta_heads && !sees_all(d, layer))
        return delta_attention(b, d, x);
    if (d->compress)
        return compressed_attention(b, d, layer, x);
    block_pad_heads(b, &a.shape, d->kv_lora ? 0 : d->head_multiple);
    return d->kv_lora ? latent_attention(b, d, &style, layer, x)
                      : block_attention(b, x, &style, &a);
}

int decoder_deepen(struct builder *b, int64_t layer, int x)
{
    if (layer >= b->images.deepstack)
        return x;
    struct tensor t = *build_tensor(b, x);
    int y = build_reshape(b, "image_features", b->images.tapped[layer], t.axes, t.size);
    if (y >= 0)
        build_last(b)->padded = true;
    return build_add(b, "add_images", x, y);
}

int decoder_rotary(struct builder *b, const struct decoder *d, const char *name, int x,
                   int64_t each)
{
    int y = build_rotary(b, name, x);
    if (y >= 0) {
        build_last(b)->rope_base = d->rope_base;
        build_last(b)->rope_scaling = d->rope_scaling;
        build_last(b)->stretch = d->stretch;
        build_last(b)->head_depth = build_last(b)->head_turned = d->rope_dim;
        build_last(b)->head_share = each;
    }
    return y;
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

/* ---- the ends -------------------------------------------------------------------------------- */

/* The norm, the head and the loss; the head is that of the operator that owns the table, if there is one. */
static void finish(struct builder *b, const struct decoder *d, int x, int32_t table)
{
    if (d->streams)
        x = streams_in(b, x, d->streams);
    x = block_norm(b, "norm", x, decoder_style(d, 0).norm);
    x = table >= 0 ? build_tied_linear(b, "head", x, table)
                   : build_linear(b, "head", x, d->vocab, false);
    block_loss(b, x, d->loss);
}

/* DeepSeek-V3, section 2.2: each depth joins the embedding and the output of the depth before it, and has a layer of
 * its own; embedding and head are the model's. */
static void depths(struct builder *b, const struct decoder *d, const struct layer_row *row,
                   int embedding, int x, int32_t head)
{
    enum norm norm = decoder_style(d, 0).norm;
    for (int64_t depth = 0; depth < d->mtp; depth++) {
        build_module_indexed(b, "mtp", depth);
        if (d->streams)
            x = streams_in(b, x, d->streams);
        int join[] = {block_norm(b, "embedding_norm", embedding, norm),
                      block_norm(b, "hidden_norm", x, norm)};
        x = build_linear(b, "join", build_concat(b, "concat", join, 2, 2), d->hidden, false);
        if (d->streams)
            x = streams_begin(b, x, d->streams);
        x = row->build(b, row->options, d->compress ? 0 : d->layers - 1, x);
        finish(b, d, x, head);
        build_module_end(b);
    }
}

/* Adapters are the decoder's: the tower beside them is as frozen as all else. */
static void build_tower(struct builder *b, const struct decoder *d)
{
    struct vision v = d->vision;
    struct vision_user user = user_of(d);
    v.frozen |= d->lora > 0;
    v.projector_frozen |= d->lora > 0;
    if (v.layers)
        vision_build(b, &v, &user);
}

/* The text's embedding, after the images' tokens if there are any; *table: the operator that owns it. */
static int embed(struct builder *b, const struct decoder *d, int32_t *table)
{
    int64_t taken = vision_taken(&d->vision, d->cross_every > 0);
    b->place = taken ? PLACE_JOIN : PLACE_BODY;
    int x = build_tokens(b, d->seq - taken);
    x = build_embedding(b, "embedding", x, d->vocab, d->hidden, 0);
    *table = build_last_index(b);
    return vision_join(b, taken, x);
}

void decoder_build(struct builder *b, const struct decoder *d, const struct layer_row *row,
                   int (*layers)(struct builder *b, const struct layer_row *row, int x))
{
    int32_t table;
    b->norm_epsilon = d->norm_epsilon;
    build_tower(b, d);
    b->lora = (struct adapters){.rank = d->lora, .modules = d->lora_modules};
    b->frozen = d->text_frozen;
    int embedding = embed(b, d, &table);
    int x = layers(b, row, d->streams ? streams_begin(b, embedding, d->streams) : embedding);
    finish(b, d, x, d->tied ? table : -1);
    depths(b, d, row, embedding, x, d->tied ? table : build_last_index(b) - 1);
    b->frozen = false;
    documents_set(b, d->document, d->document_spread, d->seq, true);
    b->model->layers = d->layers;
    b->model->seq = d->seq;
    b->model->dtype = (enum dtype)d->dtype;
}
