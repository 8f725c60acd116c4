/* splits.c - plans whose operators have splits of their own, as PyTorch's DTensor takes them: the devices are a mesh, and a split
 * says for each of its axes which dim the axis splits.
 *
 *   split d1:n1 d2:n2 ...   is cut at n1, n1 n2, ..., n1 n2 .. = D                                        (1)
 *
 *   I1  The cuts of all operators together, in order, divide each other; what lies between two of them is an axis, so that every
 *       axis lies within one dim of every split.
 *   I2  A device's parts of a tensor are equal ones, but for vocabularies, which the script pads.
 */
#include <stdlib.h>

#include "target/room.h"

/* ---- the mesh -------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* (1), as far as they are not among those that are known. */
static void add_cuts(const struct split *split, int64_t *cuts, int32_t *count)
{
    int64_t cut = 1;
    for (int32_t p = 0; p < split->parts; p++) {
        bool known = false;
        cut *= split->part[p].degree;
        for (int32_t i = 0; i < *count; i++)
            known |= cuts[i] == cut;
        if (!known && *count < MOST_MESH_AXES)
            cuts[(*count)++] = cut;
    }
}

const char *split_axes_of(struct arena *keep, const struct plan *plan, struct split_axes *out)
{
    int64_t cuts[MOST_MESH_AXES], before = 1;
    int32_t count = 0;
    for (int32_t c = 0; c < plan->choices; c++)
        add_cuts(&plan->choice[c].split, cuts, &count);
    qsort(cuts, (size_t)count, sizeof cuts[0], by_size);
    *out = (struct split_axes){.axes = count};
    for (int32_t i = 0; i < count; before = cuts[i++]) {
        if (cuts[i] % before)
            return arena_printf(keep,
                                "some operators are split in %lld parts and others in %lld, which "
                                "are no axes of one mesh",
                                (long long)before, (long long)cuts[i]);
        out->size[i] = cuts[i] / before;
    }
    if (count == 0) /* one device */
        out->size[out->axes++] = 1;
    return NULL;
}

const char *split_on_axes(struct arena *keep, const struct split_axes *mesh,
                          const struct split *split)
{
    const char *text = "";
    int32_t part = 0;
    int64_t within = 1; /* of the part's degree, the axes so far */
    for (int32_t a = 0; a < mesh->axes; a++) {
        int dim = part < split->parts ? split->part[part].dim : SPLIT_COPY;
        text = arena_printf(keep, "%s%s%s", text, a ? " " : "",
                            dim == SPLIT_COPY ? "copy" : dim_name((enum dim)dim));
        within *= mesh->size[a];
        if (part < split->parts && within == split->part[part].degree)
            part++, within = 1;
    }
    return text;
}

/* ---- what the script has not ----------------------------------------------------------------- */

struct split_case {
    const struct plan *plan;
    const struct model_shape *shape;
    const struct op *op;
    const struct choice *choice;
    /* of the last operator that made scores of attention; NULL: none */
    const struct choice *scores;
    const bool *again; /* per layer: whether its first operator is recomputed */
    int64_t layer;     /* -1: in none */
};

static bool is_attention(enum op_kind kind)
{
    return kind == OP_ATTENTION || kind == OP_SCORE || kind == OP_SOFTMAX || kind == OP_CONTEXT;
}

static bool has_state_in_parts(const struct split_case *c)
{
    return c->choice->shard > 0;
}
static bool is_on_the_host(const struct split_case *c)
{
    return c->choice->offload != OFFLOAD_NOTHING;
}
static bool is_kept_in_parts(const struct split_case *c)
{
    return c->choice->parts;
}
static bool is_on_some_devices(const struct split_case *c)
{
    return split_is_subset(&c->choice->split);
}
static bool turns_back(const struct split_case *c)
{
    return c->choice->own_back;
}
static bool divides_attention(const struct split_case *c)
{
    const struct split *split = &c->choice->split;
    for (int32_t i = 0; i < split->parts && is_attention(c->op->kind); i++)
        if (split->part[i].dim != DIM_BATCH && split->part[i].dim != DIM_HEAD &&
            split->part[i].dim != SPLIT_COPY)
            return true;
    return false;
}
/* Between scores and their products with values, where heads are the features of dropout. */
static bool parts_attention(const struct split_case *c)
{
    bool inside =
        c->op->kind == OP_SOFTMAX || c->op->kind == OP_CONTEXT || c->op->kind == OP_DROPOUT;
    if (!c->scores || !inside)
        return false;
    struct split own = c->choice->split;
    for (int32_t i = 0; i < own.parts; i++)
        if (own.part[i].dim == DIM_HIDDEN)
            own.part[i].dim = DIM_HEAD;
    return !split_equal(&own, &c->scores->split);
}
static bool runs_partly_again(const struct split_case *c)
{
    return c->choice->saved || c->choice->discard || (c->layer < 0 && c->choice->recompute) ||
           (c->layer >= 0 && c->choice->recompute != c->again[c->layer]);
}
/* I2: the script has queries, keys and values, and gates and ups, as products of their own. */
static bool cuts_products(const struct split_case *c)
{
    int64_t degree = split_degree(&c->choice->split, DIM_OUT), narrow = c->shape->kv_heads;
    int out = op_find_dim(c->op->kind, DIM_OUT);
    if (c->op->kind == OP_ROTARY)
        return narrow % split_degree(&c->choice->split, DIM_HIDDEN) != 0;
    if (c->op->kind != OP_LINEAR || c->layer < 0)
        return false;
    bool fused = c->op->size[out] == (c->shape->heads + 2 * narrow) * c->shape->head_dim;
    return (fused && narrow * c->shape->head_dim % degree) ||
           (c->op->size[out] == 2 * c->shape->ffn && c->shape->ffn % degree);
}

static const struct {
    bool (*has)(const struct split_case *c);
    const char *text; /* after the operator's name and its split */
} MISSING[] = {
    {has_state_in_parts,
     "has its state in parts, which the script does beside one tensor degree alone"},
    {is_on_the_host, "waits in host memory, which the script does not use"},
    {is_kept_in_parts, "is kept in parts, which the script does not do"},
    {is_on_some_devices, "is on some of the devices, where the script has all of them"},
    {turns_back, "has another split backward, which DTensor does not have"},
    {divides_attention, "divides attention otherwise than by samples and heads"},
    {parts_attention,
     "is split otherwise than attention's scores, which the script computes together"},
    {runs_partly_again, "is recomputed otherwise than the rest of its layer"},
    {cuts_products, "cuts heads, or what lies beside each other in one product"},
};

static const char *case_refusal(struct arena *keep, const struct split_case *c, int64_t instance)
{
    for (size_t i = 0; i < COUNT_OF(MISSING); i++)
        if (MISSING[i].has(c))
            return arena_printf(keep, "%s (%s) %s", plan_path(keep, c->plan, instance),
                                split_text(keep, &c->choice->split), MISSING[i].text);
    return NULL;
}

bool *layers_again(struct arena *keep, const struct plan *plan, int64_t *layers)
{
    int64_t *layer = layers_of_instances(keep, plan, layers);
    bool *again = ARENA_ARRAY(keep, bool, (size_t)*layers + 1);
    for (int64_t i = plan->instances - 1; i >= 0; i--)
        if (layer[i] >= 0)
            again[layer[i]] = plan_choice(plan, i)->recompute;
    return again;
}

const char *dtensor_refuses(struct arena *keep, const struct plan *plan)
{
    struct model_shape shape;
    struct split_axes mesh;
    int64_t layers;
    if (shape_of_model(plan->model, &shape)) {
        error_clear();
        return "the model is no decoder of the script's";
    }
    int64_t *layer = layers_of_instances(keep, plan, &layers);
    struct split_case c = {
        .plan = plan, .shape = &shape, .again = layers_again(keep, plan, &layers)};
    for (int64_t i = 0; i < plan->instances; i++) {
        c.op = &plan->model->op[plan->instance[i].op];
        c.choice = plan_choice(plan, i);
        c.layer = layer[i];
        const char *refusal = case_refusal(keep, &c, i);
        if (refusal)
            return refusal;
        c.scores = c.op->kind == OP_SCORE ? c.choice : c.op->kind == OP_CONTEXT ? NULL : c.scores;
    }
    return split_axes_of(keep, plan, &mesh);
}
