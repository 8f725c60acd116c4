/* splits.c - ordered factorisations of a stage's devices into an operator's dims (splits.h). */
#include "search/autoddl/splits.h"

#include <string.h>

#include "search/planner/planner.h"

struct split_mesh split_mesh_of(const struct cluster *cluster, int64_t devices)
{
    int64_t within = cluster->node.devices;
    if (within == 1 || devices <= within || devices % within)
        return (struct split_mesh){.levels = 1, .devices = {devices}};
    return (struct split_mesh){.levels = 2, .devices = {devices / within, within}};
}

/* ---- dims ------------------------------------------------------------------------------------ */

struct listing {
    struct arena *keep, *scratch;
    const struct model *model;
    const struct op *op;
    const struct split_mesh *mesh;
    int64_t batch;
    int dims[OP_MAX_DIMS + 1], count; /* without the batch; COPY is one of them */
    int place[OP_MAX_DIMS + 1];       /* of these in the operator; -1: COPY */
    bool has_batch;
    struct hash_map known; /* what is listed, by its hash */
    struct splits *out;
};

/* I7 */
static bool is_long_attention(const struct model *model, const struct op *op, enum dim dim)
{
    return dim == DIM_SEQ && op_find_dim(op->kind, DIM_KV) >= 0 && searched_cp(model) > 1;
}

static bool is_of_images(enum op_kind kind)
{
    return kind == OP_CONV || kind == OP_POOL || kind == OP_BATCH_NORM;
}

bool splits_have_blocks(const struct model *model, int64_t devices, int64_t batch)
{
    bool images = false;
    for (int32_t i = 0; i < model->ops; i++)
        images |= is_of_images(model->op[i].kind);
    return images && batch % devices != 0;
}

/* Whether an operator's tensors are images: its own kind says so, or one that it reads from or that reads from it. */
static bool has_images(const struct model *model, const struct op *op)
{
    bool images = is_of_images(op->kind);
    for (int32_t i = 0; i < model->ops && !images; i++) {
        const struct op *other = &model->op[i];
        for (int32_t k = 0; k < other->inputs && is_of_images(other->kind); k++)
            images |= other->input[k].tensor == op->output.tensor;
        for (int32_t k = 0; k < op->inputs && is_of_images(other->kind); k++)
            images |= op->input[k].tensor == other->output.tensor;
    }
    return images;
}

/* I4 */
static bool is_useful(const struct listing *l, int place)
{
    static const bool NEVER[DIM_COUNT] = {[DIM_KV] = true, [DIM_DEPTH] = true};
    const struct model *model = l->model;
    const struct op *op = l->op;
    enum dim_role role = OP_KINDS[op->kind].dims[place].role;
    enum dim dim = OP_KINDS[op->kind].dims[place].dim;
    bool splits = role == ROLE_SPLIT || role == ROLE_REDUCE || is_long_attention(model, op, dim);
    if (op->size[place] <= 1 || NEVER[dim] || (dim == DIM_WIDTH && !l->mesh->blocks))
        return false;
    return dim == DIM_HEIGHT || dim == DIM_WIDTH ? has_images(model, op) : splits;
}

static void list_dims(struct listing *l, bool copies)
{
    bool sums = false;
    l->count = 0;
    for (int i = 0; i < op_dims(l->op->kind); i++) {
        enum dim_role role = OP_KINDS[l->op->kind].dims[i].role;
        l->has_batch |= role == ROLE_BATCH;
        if (!is_useful(l, i))
            continue;
        sums |= role == ROLE_REDUCE;
        l->place[l->count] = i;
        l->dims[l->count++] = OP_KINDS[l->op->kind].dims[i].dim;
    }
    l->place[l->count] = -1;
    if (copies || !sums) /* I3 */
        l->dims[l->count++] = SPLIT_COPY;
}

/* ---- what a split may contain
 * ------------------------------------------------------------------ */

static int64_t smallest_factor(int64_t n)
{
    int64_t f = 2;
    while (n % f)
        f++;
    return f;
}

/* I2 */
static bool instead_of_batch(const struct listing *l, const struct split *split, enum dim dim)
{
    int64_t degree = split_degree(split, dim), batch = split_degree(split, DIM_BATCH);
    return degree > 1 && l->has_batch && l->batch % (batch * smallest_factor(degree)) == 0;
}

/* I5 */
static bool groups_alone(const struct listing *l, const struct split *split)
{
    int place = op_find_dim(l->op->kind, DIM_HEAD);
    bool head = false;
    for (int32_t i = 0; i < split->parts; i++) {
        head |= split->part[i].dim == DIM_HEAD;
        if (split->part[i].dim == DIM_GROUP && !head && place >= 0 && l->op->size[place] > 1)
            return true;
    }
    return false;
}

/* I8 */
static bool columns_alone(const struct split *split)
{
    for (int32_t i = 0; i < split->parts; i++)
        if (split->part[i].dim == DIM_WIDTH && (!i || split->part[i - 1].dim != DIM_HEIGHT))
            return true;
    return false;
}

/* Whether a legal split is still legal after this one of the dims was added to it: no other dim has changed. */
static bool stays_legal(const struct listing *l, const struct split *split, int number)
{
    return l->place[number] < 0 ||
           split_legal(l->model, l->op, l->place[number], split_degree(split, l->dims[number]));
}

static uint64_t split_hash(const struct split *split)
{
    uint64_t hash = (uint64_t)split->parts;
    for (int32_t i = 0; i < split->parts; i++) {
        int64_t part[] = {split->part[i].dim, split->part[i].degree};
        hash = hash_bytes(part, sizeof part, hash);
    }
    return hash;
}

static bool same_split(const void *things, int64_t value, const void *wanted)
{
    return split_equal((const struct split *)things + value, wanted);
}

static void add_split(struct listing *l, const struct split *split)
{
    if (instead_of_batch(l, split, DIM_SEQ) || instead_of_batch(l, split, DIM_HEIGHT) ||
        instead_of_batch(l, split, DIM_WIDTH) || groups_alone(l, split) || columns_alone(split))
        return;
    int64_t *at =
        hash_at_same(&l->known, l->scratch, split_hash(split), same_split, l->out->data, split);
    if (*at >= 0)
        return;
    *at = (int64_t)l->out->len;
    array_push(l->keep, l->out, *split);
}

/* ---- factorisations -------------------------------------------------------------------------- */

static void fill_level(struct listing *l, int32_t level, const struct split *so_far);

/* Gives the rest of this level to dims that it has not used yet, in every order. */
static void fill_rest(struct listing *l, int32_t level, int64_t rest, unsigned used,
                      const struct split *so_far)
{
    if (rest == 1) {
        fill_level(l, level + 1, so_far);
        return;
    }
    bool alone = level < l->mesh->narrow && l->mesh->levels > 1; /* I6 */
    for (int i = 0; i < l->count; i++) {
        unsigned done = l->mesh->unordered ? (2U << i) - 1 : 1U << i;
        int64_t d = alone ? rest : divisor_above(rest, 1);
        for (; !(used >> i & 1) && d <= rest; d = divisor_above(rest, d)) {
            struct split next = *so_far;
            if (split_add(&next, l->dims[i], d) && stays_legal(l, &next, i))
                fill_rest(l, level, rest / d, used | done, &next);
        }
    }
}

/* I1 */
static void fill_level(struct listing *l, int32_t level, const struct split *so_far)
{
    if (level == l->mesh->levels) {
        add_split(l, so_far);
        return;
    }
    int64_t devices = l->mesh->devices[level];
    for (int64_t d = 1; d <= devices; d = divisor_above(devices, d)) {
        struct split next = *so_far;
        if ((d > 1 && !l->has_batch) || !split_add(&next, DIM_BATCH, d) ||
            l->batch % split_degree(&next, DIM_BATCH))
            continue;
        fill_rest(l, level, devices / d, 0, &next);
    }
}

void splits_of(struct arena *keep, const struct model *model, const struct op *op,
               const struct split_mesh *mesh, int64_t batch, struct splits *out)
{
    struct arena *scratch = arena_new();
    struct listing l = {.keep = keep,
                        .scratch = scratch,
                        .model = model,
                        .op = op,
                        .mesh = mesh,
                        .batch = batch,
                        .out = out};
    struct split none = split_none();
    list_dims(&l, false);
    fill_level(&l, 0, &none);
    if (!out->len) {
        list_dims(&l, true);
        fill_level(&l, 0, &none);
    }
    arena_free(scratch);
}
