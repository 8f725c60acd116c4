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

/* Sizes that are not given are TransformerConfig's. */
static weft_status delta_read(struct arena *scratch, const struct arguments *a,
                              struct model_shape *s)
{
    if (!argument_given(a, "linear-attention-freq"))
        return argument_error(a, "experimental-attention-variant", "add --linear-attention-freq",
                              "--linear-attention-freq is missing: gated_delta_net needs it");
    s->conv = argument_int(a, "linear-conv-kernel-dim", 4);
    s->delta_key_dim = argument_int(a, "linear-key-head-dim", 128);
    s->delta_dim = argument_int(a, "linear-value-head-dim", 128);
    s->delta_key_heads = argument_int(a, "linear-num-key-heads", 16);
    s->delta_heads = argument_int(a, "linear-num-value-heads", 32);
    return every_read(scratch, a, "linear-attention-freq", s, '0', &s->full_every);
}

static weft_status index_read(const struct arguments *a, struct model_shape *s)
{
    static const char *const NEEDED[] = {"dsa-indexer-topk", "dsa-indexer-n-heads",
                                         "dsa-indexer-head-dim"};
    int64_t *const sizes[] = {&s->index_top_k, &s->index_heads, &s->index_dim};
    if (!s->kv_lora || !s->q_lora)
        return argument_error(a, "experimental-attention-variant",
                              "add --multi-latent-attention and --q-lora-rank",
                              "dsa without latent attention: no model of Weft has it");
    for (size_t i = 0; i < COUNT_OF(NEEDED); i++) {
        *sizes[i] = argument_int(a, NEEDED[i], 0);
        if (*sizes[i] < 1)
            return argument_error(
                a, argument_given(a, NEEDED[i]) ? NEEDED[i] : "experimental-attention-variant",
                NULL, "--%s is %s, expected a whole number of at least 1", NEEDED[i],
                argument_word(a, NEEDED[i], "missing"));
    }
    if (argument_int(a, "dsa-indexer-topk-freq", 1) != 1)
        return argument_error(
            a, "dsa-indexer-topk-freq", NULL,
            "--dsa-indexer-topk-freq %s: no model of Weft shares an index between "
            "layers",
            argument_word(a, "dsa-indexer-topk-freq", ""));
    return WEFT_OK;
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
