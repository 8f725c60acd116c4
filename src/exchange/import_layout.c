/* import_layout.c - which part holds which layers (plan/pipeline_layout.c reads Megatron's words), and which layers have
 * experts.
 *
 *   frequency  Python lists of 0 and 1 with + and *: "([0]*3+[1]*58)", or N: every N-th layer
 */
#include "exchange/room.h"

#include <string.h>

static weft_status bad_layout(const struct arguments *a, const struct pipeline_layout *layout,
                              const char *what)
{
    static const char NAME[] = "pipeline-model-parallel-layout";
    weft_status status = argument_error(a, NAME, NULL, "--%s is '%.60s': %s", NAME,
                                        argument_word(a, NAME, ""), what);
    error_hint("%s", layout->hint);
    return status;
}

static weft_status read_layout(struct arena *keep, const struct arguments *a, int64_t layers,
                               int64_t pp, int64_t *pieces, int64_t **part_layers)
{
    struct pipeline_layout layout;
    const char *wrong =
        pipeline_layout_read(keep, argument_word(a, "pipeline-model-parallel-layout", ""), &layout);
    if (wrong)
        return bad_layout(a, &layout, wrong);
    if (layout.parts % pp)
        return bad_layout(a, &layout, "the number of parts is no multiple of the pipeline's size");
    if (layout.layers != layers)
        return bad_layout(a, &layout, "its layers are not --num-layers many");
    *part_layers = layout.part_layers;
    *pieces = layout.parts / pp;
    return WEFT_OK;
}

/* ---- the older ways to cut unevenly ---------------------------------------------------------- */

static weft_status uneven(const struct arguments *a, const char *what)
{
    return argument_error(a, "pipeline-model-parallel-size", NULL,
                          "the layers do not divide into the stages: %s", what);
}

/* By --decoder-first-pipeline-num-layers and --decoder-last-pipeline-num-layers. */
static weft_status read_ends(struct arena *keep, const struct arguments *a, int64_t layers,
                             int64_t pp, int64_t pieces, int64_t **part_layers)
{
    int64_t first = argument_int(a, "decoder-first-pipeline-num-layers", -1);
    int64_t last = argument_int(a, "decoder-last-pipeline-num-layers", -1);
    int64_t between = pp - (first >= 0) - (last >= 0);
    int64_t rest = layers - (first > 0 ? first : 0) - (last > 0 ? last : 0);
    if (between < 0 || rest < 0 || (between == 0 ? rest : rest % between))
        return uneven(a, "first and last stage leave a rest");
    *part_layers = ARENA_ARRAY(keep, int64_t, (size_t)(pp * pieces));
    for (int64_t s = 0; s < pp; s++) {
        int64_t own = s == 0 && first >= 0       ? first
                      : s == pp - 1 && last >= 0 ? last
                                                 : rest / between;
        if (own % pieces)
            return uneven(a, "a stage's layers are no multiple of its pieces");
        for (int64_t k = 0; k < pieces; k++)
            (*part_layers)[k * pp + s] = own / pieces;
    }
    return WEFT_OK;
}

/* The embedding and the loss may each count as one layer. */
static weft_status read_accounts(struct arena *keep, const struct arguments *a, int64_t layers,
                                 int64_t parts, int64_t **part_layers)
{
    bool embedding = argument_given(a, "account-for-embedding-in-pipeline-split");
    bool loss = argument_given(a, "account-for-loss-in-pipeline-split");
    int64_t all = layers + embedding + loss;
    if (all % parts)
        return uneven(a, "with embedding and loss counted there is a rest");
    *part_layers = ARENA_ARRAY(keep, int64_t, (size_t)parts);
    for (int64_t p = 0; p < parts; p++)
        (*part_layers)[p] = all / parts - (p == 0 && embedding) - (p == parts - 1 && loss);
    return WEFT_OK;
}

weft_status layout_read(struct arena *keep, const struct arguments *a, int64_t layers, int64_t pp,
                        int64_t *pieces, int64_t **part_layers)
{
    *part_layers = NULL;
    *pieces = argument_int(a, "num-virtual-stages-per-pipeline-rank", 1);
    int64_t per_part = argument_int(a, "num-layers-per-virtual-pipeline-stage", 0);
    if (pattern_argument(a) && strchr(argument_word(a, pattern_argument(a), ""), '|'))
        return pattern_parts(keep, a, pp, pieces, part_layers);
    if (argument_given(a, "pipeline-model-parallel-layout"))
        return read_layout(keep, a, layers, pp, pieces, part_layers);
    if (per_part > 0 && pp > 0)
        *pieces = layers / pp / per_part;
    if (*pieces < 1)
        return argument_error(a, "num-layers-per-virtual-pipeline-stage", NULL,
                              "%s on %s have no %s per virtual stage", counted(layers, "layer").s,
                              counted(pp, "stage").s, counted(per_part, "layer").s);
    if (argument_given(a, "decoder-first-pipeline-num-layers") ||
        argument_given(a, "decoder-last-pipeline-num-layers"))
        return read_ends(keep, a, layers, pp, *pieces, part_layers);
    if (argument_given(a, "account-for-embedding-in-pipeline-split") ||
        argument_given(a, "account-for-loss-in-pipeline-split"))
        return read_accounts(keep, a, layers, pp * *pieces, part_layers);
    if (layers % (pp * *pieces))
        return uneven(a, "give --pipeline-model-parallel-layout");
    return WEFT_OK;
}

/* ---- layers with experts --------------------------------------------------------------------- */

struct frequency {
    struct arena *scratch;
    const char *at;
    struct letters bits;
    int depth;
    bool bad;
};

static void pattern_sum(struct frequency *p);

static void pattern_list(struct frequency *p)
{
    while (!p->bad && *p->at && *p->at != ']') {
        char c = *p->at++;
        if (c == '0' || c == '1')
            array_push(p->scratch, &p->bits, c);
        else
            p->bad = c != ',' && c != ' ';
    }
    p->bad |= *p->at != ']';
    p->at += *p->at == ']';
}

static void pattern_factor(struct frequency *p)
{
    enum { DEEPEST = 32 };
    size_t first = p->bits.len;
    char open = *p->at++;
    if (open == '[') {
        pattern_list(p);
    } else if (open == '(' && p->depth < DEEPEST) {
        p->depth++;
        pattern_sum(p);
        p->depth--;
        p->bad |= *p->at != ')';
        p->at += *p->at == ')';
    } else {
        p->bad = true;
        p->at -= open == '\0';
    }
    while (!p->bad && *p->at == '*')
        p->bad = !letters_repeat(p->scratch, &p->bits, first, &p->at);
}

static void pattern_sum(struct frequency *p)
{
    pattern_factor(p);
    while (!p->bad && *p->at == '+') {
        p->at++;
        pattern_factor(p);
    }
}

static bool matches(struct arena *scratch, const struct model_shape *s, const char *bits)
{
    const bool *mixture = shape_mixtures(scratch, s);
    for (int64_t i = 0; i < s->layers; i++)
        if (mixture[i] != (bits[i] == '1'))
            return false;
    return true;
}

/* Finds the first values of first_dense and moe_every for which the same layers have experts. */
static bool fit_period(struct model_shape *s, const char *bits)
{
    enum { MOST_PERIOD = 64 };
    struct arena *scratch = arena_new();
    bool found = false;
    int64_t zeros = (int64_t)strspn(bits, "0");
    for (s->moe_every = 1; s->moe_every <= MOST_PERIOD && !found; s->moe_every++)
        for (s->first_dense = 0; s->first_dense <= zeros && !found; s->first_dense++)
            found = matches(scratch, s, bits);
    s->moe_every--;
    s->first_dense--;
    arena_free(scratch);
    return found;
}

static char *every_nth(struct arena *scratch, int64_t layers, int64_t n)
{
    char *bits = ARENA_ARRAY(scratch, char, (size_t)layers + 1);
    for (int64_t i = 0; i < layers; i++)
        bits[i] = i % n == 0 ? '1' : '0'; /* TransformerConfig.moe_layer_freq */
    return bits;
}

weft_status layer_list_read(struct arena *scratch, const struct arguments *a, const char *name,
                            int64_t layers, const char **bits)
{
    const char *text = argument_word(a, name, "");
    struct frequency p = {.scratch = scratch, .at = text};
    pattern_sum(&p);
    array_push(scratch, &p.bits, '\0');
    *bits = p.bits.data;
    if (!p.bad && !*p.at && (int64_t)strlen(*bits) == layers)
        return WEFT_OK;
    return argument_error(a, name, "an example: ([0]*3+[1]*58)",
                          "--%s is '%.60s', expected a list of %lld zeros and ones, or a number",
                          name, text, (long long)layers);
}

weft_status frequency_read(struct arena *scratch, const struct arguments *a, struct model_shape *s)
{
    const char *text = argument_word(a, "moe-layer-freq", "1"), *bits;
    int64_t every;
    weft_status status = WEFT_OK;
    if (parse_int(text, &every) && every >= 1)
        bits = every_nth(scratch, s->layers, every);
    else
        TRY(layer_list_read(scratch, a, "moe-layer-freq", s->layers, &bits));
    if (!fit_period(s, bits))
        TRY(argument_error(a, "moe-layer-freq", NULL,
                           "--moe-layer-freq is '%.60s', which is no run of dense layers followed "
                           "by a mixture in every N-th",
                           text));
done:
    return status;
}
