/* import_pattern.c - layers by a pattern in Megatron's arguments (megatron/core/models/hybrid/hybrid_layer_allocation.py).
 *
 *   M-M*|-M-M/ME/ME      M state space, * attention, - MLP, E experts; a bar ends a part of the pipeline, a slash
 *                        begins a depth that predicts another token
 */
#include <string.h>

#include "exchange/room.h"

static const char LETTERS[] = "M*-E";

const char *pattern_argument(const struct arguments *a)
{
    static const char *const NAMES[] = {"hybrid-layer-pattern", "hybrid-override-pattern"};
    for (size_t i = 0; i < COUNT_OF(NAMES); i++)
        if (argument_given(a, NAMES[i]))
            return NAMES[i];
    return NULL;
}

static weft_status bad_pattern(const struct arguments *a, const char *what)
{
    const char *name = pattern_argument(a);
    return argument_error(a, name, "an example: M-M*-|M-M*-", "--%s is '%.60s': %s", name,
                          argument_word(a, name, ""), what);
}

/* The letters of the model itself, without bars. */
static weft_status read_body(const struct arguments *a, const char *text, size_t len,
                             struct model_shape *s)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '|')
            continue;
        if (!strchr(LETTERS, text[i]))
            return bad_pattern(a,
                               "expected M (state space), * (attention), - (MLP) and E (experts), "
                               "which Weft's models have");
        if (s->layers == MOST_LETTERS - 1)
            return bad_pattern(a, "it has more layers than are read");
        s->pattern[s->layers++] = text[i];
    }
    return s->layers ? WEFT_OK : bad_pattern(a, "expected a letter for each layer");
}

/* Depths that are all alike: "/ME/ME". */
static weft_status read_depths(const struct arguments *a, const char *text, struct model_shape *s)
{
    size_t len = strcspn(text + 1, "/");
    if (len == 0 || len >= MOST_DEPTH_LETTERS || strspn(text + 1, LETTERS) < len)
        return bad_pattern(a, "expected letters of layers after a slash");
    memcpy(s->mtp_pattern, text + 1, len);
    for (; *text; text += 1 + len, s->mtp++)
        if (strcspn(text + 1, "/") != len || strncmp(text + 1, s->mtp_pattern, len) != 0)
            return bad_pattern(a, "expected the same letters after every slash");
    return WEFT_OK;
}

weft_status pattern_read(const struct arguments *a, struct model_shape *s)
{
    const char *text = argument_word(a, pattern_argument(a), "");
    size_t body = strcspn(text, "/");
    int64_t told = argument_int(a, "num-layers", 0);
    weft_status status = read_body(a, text, body, s);
    if (!status && text[body])
        status = read_depths(a, text + body, s);
    if (!status && told > 0 && told != s->layers)
        status = argument_error(a, "num-layers", NULL, "--num-layers is %lld, the pattern has %lld",
                                (long long)told, (long long)s->layers);
    if (!status && s->mtp > 1 && !argument_given(a, "mtp-use-repeated-layer"))
        status = argument_error(a, pattern_argument(a), "add --mtp-use-repeated-layer",
                                "depths with weights of their own: no model of Weft has them");
    return status;
}

weft_status pattern_parts(struct arena *keep, const struct arguments *a, int64_t pp,
                          int64_t *pieces, int64_t **part_layers)
{
    const char *text = argument_word(a, pattern_argument(a), "");
    int64_t parts = 1;
    for (const char *at = text; *at && *at != '/'; at++)
        parts += *at == '|';
    if (parts % pp)
        return bad_pattern(a, "the number of parts is no multiple of the pipeline's size");
    *pieces = parts / pp;
    *part_layers = ARENA_ARRAY(keep, int64_t, (size_t)parts);
    for (int64_t part = 0; *text && *text != '/'; text++)
        if (*text == '|')
            part++;
        else
            (*part_layers)[part]++;
    return WEFT_OK;
}

weft_status pattern_blocks_read(const struct arguments *a, struct model_shape *s)
{
    s->gated = argument_given(a, "swiglu");
    s->relu &= !s->gated;
    s->layer_norm = strcmp(argument_word(a, "normalization", "LayerNorm"), "RMSNorm") != 0;
    s->latent = argument_int(a, "moe-latent-size", 0);
    if (!strchr(s->pattern, '*') && !strchr(s->mtp_pattern, '*'))
        s->heads = s->kv_heads = s->head_dim = 0;
    if (!strchr(s->pattern, '-'))
        s->ffn = 0;
    if (!strchr(s->pattern, 'M') && !strchr(s->mtp_pattern, 'M'))
        return WEFT_OK;
    /* the defaults of TransformerConfig, and MambaMixer's width of twice the hidden size */
    s->scan_depth = argument_int(a, "mamba-head-dim", 64);
    s->scan_state = argument_int(a, "mamba-state-dim", 128);
    s->scan_groups = argument_int(a, "mamba-num-groups", 8);
    int64_t usual = s->scan_depth > 0 ? 2 * s->hidden / s->scan_depth : 0;
    s->scan_heads = argument_int(a, "mamba-num-heads", usual);
    return s->scan_heads >= 1 && s->scan_state >= 1 && s->scan_groups >= 1
               ? WEFT_OK
               : argument_error(
                     a, pattern_argument(a), NULL,
                     "state space of %lld heads, state %lld and %lld groups, expected 1 or "
                     "more of each",
                     (long long)s->scan_heads, (long long)s->scan_state, (long long)s->scan_groups);
}
