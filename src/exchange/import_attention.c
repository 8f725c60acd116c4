/* import_attention.c - Megatron's arguments for kinds of attention that some layers have and others have not: the gated
 * delta rule, an index that chooses keys, layers without rotary positions; and gates after attention.
 */
#include <string.h>

#include "exchange/room.h"

/* Reads "4", or a list in which every fourth layer, and no other, has this letter. */
static weft_status every_read(struct arena *scratch, const struct arguments *a, const char *name,
                              const struct model_shape *s, char letter, int64_t *every)
{
    const char *bits, *text = argument_word(a, name, "");
    weft_status status = WEFT_OK;
    if (parse_int(text, every) && *every >= 2)
        return WEFT_OK;
    TRY(layer_list_read(scratch, a, name, s->layers, &bits));
    *every = (int64_t)strcspn(bits, (char[]){letter, '\0'}) + 1;
    for (int64_t i = 0; i < s->layers; i++)
        if ((bits[i] == letter) != ((i + 1) % *every == 0) || *every < 2)
            TRY(argument_error(a, name, "an example: ([1]*3+[0])*12",
                               "--%s is '%.60s', expected a list in which every N-th layer, and no "
                               "other, is a %c, or that number",
                               name, text, letter));
done:
    return status;
}

struct attention_size {
    const char *name;
    int64_t usual; /* TransformerConfig's; 0: it has none */
    int64_t *out;
};
static weft_status sizes_read(const struct arguments *a, const struct attention_size *size,
                              size_t count)
{
    for (size_t i = 0; i < count; i++) {
        *size[i].out = argument_int(a, size[i].name, size[i].usual);
        bool given = argument_given(a, size[i].name);
        if (*size[i].out < 1)
            return argument_error(a, given ? size[i].name : "experimental-attention-variant", NULL,
                                  "--%s is %s, expected a whole number of at least 1", size[i].name,
                                  given ? argument_word(a, size[i].name, "") : "missing");
    }
    return WEFT_OK;
}

static weft_status delta_read(struct arena *scratch, const struct arguments *a,
                              struct model_shape *s)
{
    const struct attention_size sizes[] = {
        {"linear-conv-kernel-dim", 4, &s->conv},
        {"linear-key-head-dim", 128, &s->delta_key_dim},
        {"linear-value-head-dim", 128, &s->delta_dim},
        {"linear-num-key-heads", 16, &s->delta_key_heads},
        {"linear-num-value-heads", 32, &s->delta_heads},
    };
    weft_status status = sizes_read(a, sizes, COUNT_OF(sizes));
    if (status)
        return status;
    if (!argument_given(a, "linear-attention-freq"))
        return argument_error(a, "experimental-attention-variant", "add --linear-attention-freq",
                              "--linear-attention-freq is missing: gated_delta_net needs it");
    return every_read(scratch, a, "linear-attention-freq", s, '0', &s->full_every);
}

static weft_status index_read(const struct arguments *a, struct model_shape *s)
{
    const struct attention_size sizes[] = {
        {"dsa-indexer-topk", 0, &s->index_top_k},
        {"dsa-indexer-n-heads", 0, &s->index_heads},
        {"dsa-indexer-head-dim", 0, &s->index_dim},
    };
    if (!s->kv_lora || !s->q_lora)
        return argument_error(a, "experimental-attention-variant",
                              "add --multi-latent-attention and --q-lora-rank",
                              "dsa without latent attention: no model of Weft has it");
    if (argument_int(a, "dsa-indexer-topk-freq", 1) != 1)
        return argument_error(
            a, "dsa-indexer-topk-freq", NULL,
            "--dsa-indexer-topk-freq %s: no model of Weft shares an index between "
            "layers",
            argument_word(a, "dsa-indexer-topk-freq", ""));
    return sizes_read(a, sizes, COUNT_OF(sizes));
}

static weft_status variant_read(struct arena *scratch, const struct arguments *a,
                                struct model_shape *s)
{
    const char *variant = argument_word(a, "experimental-attention-variant", "");
    if (strcmp(variant, "gated_delta_net") == 0)
        return delta_read(scratch, a, s);
    if (strcmp(variant, "dsa") == 0)
        return index_read(a, s);
    if (*variant)
        return argument_error(a, "experimental-attention-variant", NULL,
                              "--experimental-attention-variant is '%.60s', expected "
                              "gated_delta_net or dsa",
                              variant);
    return WEFT_OK;
}

weft_status attention_read(struct arena *scratch, const struct arguments *a, struct model_shape *s)
{
    int64_t every = 0;
    weft_status status;
    TRY(variant_read(scratch, a, s));
    s->output_gate = argument_given(a, "attention-output-gate");
    if (!argument_given(a, "no-rope-freq"))
        goto done;
    TRY(every_read(scratch, a, "no-rope-freq", s, '1', &every));
    if (s->delta_heads || (s->full_every && s->full_every != every))
        TRY(argument_error(a, "no-rope-freq", NULL,
                           "--no-rope-freq %s beside %s: no model of Weft has both",
                           argument_word(a, "no-rope-freq", ""),
                           s->delta_heads ? "gated_delta_net" : "another --window-attn-skip-freq"));
    s->unrotated = true;
    s->full_every = every;
done:
    return status;
}
