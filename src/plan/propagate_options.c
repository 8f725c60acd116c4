/* propagate_options.c - the axes that given splits cut devices into, and what an operator without a split can choose on them.
 *
 *   I1  On an axis an operator may have dims of the classes that are given on it: samples, positions, experts, rows and columns
 *       of an image, tables, or what divides features (channels, heads, a vocabulary). So a batch that is nowhere split stays
 *       whole, and sequence parallelism comes only where somebody asks for it.
 *   I2  Weights are not copied along an axis of features that can split them: that is what such an axis is for.
 *   I3  Copies come first, then dims in the order of the operator's kind.
 */
#include "plan/propagate.h"

#include <string.h>

#include "plan/file.h"
#include "plan/room.h"

/* ---- axes ------------------------------------------------------------------------------------ */

/* I1, as bits. */
static unsigned class_of(int dim)
{
    static const unsigned CLASS[DIM_COUNT] = {
        [DIM_BATCH] = 2,   [DIM_SEQ] = 4,    [DIM_KV] = 4,     [DIM_EXPERT] = 8,
        [DIM_HEIGHT] = 16, [DIM_WIDTH] = 16, [DIM_TABLE] = 32,
    };
    return dim == SPLIT_COPY ? 0 : CLASS[dim] ? CLASS[dim] : 1;
}

static int64_t devices_of(const struct plan *plan, int64_t instance)
{
    return plan->stage[plan_stage_of_part(plan, plan_part_of(plan, instance))].devices;
}

static struct mesh_axes *axes_for(struct option_space *s, int64_t instance)
{
    int64_t devices = devices_of(s->plan, instance);
    for (int32_t i = 0; i < s->meshes; i++)
        if (s->axes[i].devices == devices)
            return &s->axes[i];
    s->axes[s->meshes] = (struct mesh_axes){.devices = devices};
    return &s->axes[s->meshes++];
}

/* Cuts the axis that a border lies in, if that leaves whole numbers: the border is a product of degrees from the inside. */
static void cut_at(struct mesh_axes *axes, int64_t border)
{
    for (int32_t a = 0; a < axes->count; a++) {
        struct mesh_axis *axis = &axes->axis[a];
        int64_t outside = axis->stride * axis->degree;
        if (border <= axis->stride || border >= outside || border % axis->stride ||
            outside % border || axes->count == MAX_SPLIT_PARTS)
            continue;
        memmove(axis + 1, axis, (size_t)(axes->count - a) * sizeof *axis);
        axes->count++;
        axis[0].degree = outside / border;
        axis[0].stride = border;
        axis[1].degree = border / axis[1].stride;
        return;
    }
}

static void cut_axes(struct option_space *s)
{
    const struct plan *plan = s->plan;
    for (int64_t i = 0; i < plan->instances; i++) {
        struct mesh_axes *axes = axes_for(s, i);
        const struct split *split = &plan_choice(plan, i)->split;
        if (!axes->count && axes->devices > 1)
            axes->axis[axes->count++] = (struct mesh_axis){.degree = axes->devices, .stride = 1};
        int64_t border = 1;
        for (int32_t k = split->parts - 1; s->file->split_at[i] && k >= 0; k--)
            cut_at(axes, border *= split->part[k].degree);
    }
}

/* The dim of the part that the inner end of an axis lies in. */
static int dim_on_axis(const struct split *split, const struct mesh_axis *axis)
{
    int64_t border = 1;
    for (int32_t k = split->parts - 1; k >= 0; k--) {
        border *= split->part[k].degree;
        if (axis->stride < border)
            return split->part[k].dim;
    }
    return SPLIT_COPY;
}

static void note_classes(struct option_space *s)
{
    for (int64_t i = 0; i < s->plan->instances; i++) {
        struct mesh_axes *axes = axes_for(s, i);
        for (int32_t a = 0; s->file->split_at[i] && a < axes->count; a++)
            axes->axis[a].classes |=
                class_of(dim_on_axis(&plan_choice(s->plan, i)->split, &axes->axis[a]));
    }
}

/* Where heads that share keys are fewer than an axis has devices, those within a group take the rest. */
static void cut_heads(struct option_space *s)
{
    const struct model *model = s->plan->model;
    for (int32_t i = 0; i < model->ops; i++) {
        int head = op_find_dim(model->op[i].kind, DIM_HEAD);
        int64_t heads = head < 0 ? 1 : model->op[i].size[head];
        bool groups = op_find_dim(model->op[i].kind, DIM_GROUP) >= 0;
        for (int32_t m = 0; groups && heads > 1 && m < s->meshes; m++)
            for (int32_t a = 0; a < s->axes[m].count; a++) {
                const struct mesh_axis *axis = &s->axes[m].axis[a];
                if (axis->classes & class_of(DIM_HEAD) && axis->degree > heads &&
                    axis->degree % heads == 0)
                    cut_at(&s->axes[m], axis->stride * axis->degree / heads);
            }
    }
}

/* ---- options --------------------------------------------------------------------------------- */

static bool is_legal(const struct plan *plan, const struct op *op, const struct split *split)
{
    for (int i = 0; i < op_dims(op->kind); i++) {
        enum dim dim = OP_KINDS[op->kind].dims[i].dim;
        int64_t degree = split_degree(split, dim);
        bool batch = OP_KINDS[op->kind].dims[i].role == ROLE_BATCH;
        if (degree > 1 &&
            !(batch ? plan->step_samples % degree == 0 : split_legal(plan->model, op, i, degree)))
            return false;
    }
    return true;
}

static void push_option(struct option_space *s, struct split_options *o, const int *dim)
{
    struct split_option option = {.split = split_none()};
    for (int32_t a = 0; a < o->axes->count; a++) {
        option.dim[a] = dim[a];
        if (!split_add(&option.split, dim[a], o->axes->axis[a].degree))
            return;
    }
    if (o->given)
        option.split = *o->given;
    else if (o->count == MOST_OPTIONS || !is_legal(s->plan, o->op, &option.split))
        return;
    option.seconds = option_seconds(s->plan, o->op, o->axes, &option);
    o->option[o->count++] = option;
}

/* Under a view of narrower rows the heads are among the positions. */
static bool heads_are_rows(const struct model *model, const struct op *op)
{
    int32_t tensor = op->inputs ? op->input[0].tensor : -1;
    if (tensor < 0 || model->tensor[tensor].view_of < 0)
        return false;
    const struct tensor *view = &model->tensor[tensor];
    const struct tensor *whole = &model->tensor[tensor_storage(model, tensor)];
    return view->axes == whole->axes && view->size[view->axes - 1] < whole->size[whole->axes - 1];
}

/* The dims that an axis offers to an operator (I1), copies first (I3). */
static int dims_on(const struct model *model, const struct op *op, const struct mesh_axis *axis,
                   int *out)
{
    bool rows = heads_are_rows(model, op);
    int count = 0;
    out[count++] = SPLIT_COPY;
    for (int i = 0; i < op_dims(op->kind); i++) {
        enum dim dim = OP_KINDS[op->kind].dims[i].dim;
        enum dim_role role = OP_KINDS[op->kind].dims[i].role;
        bool can = role == ROLE_BATCH || role == ROLE_SPLIT || role == ROLE_REDUCE ||
                   window_axis_of(op, i) >= 0;
        unsigned of = class_of(rows && dim == DIM_SEQ ? DIM_HEAD : (int)dim);
        if (can && axis->classes & of && (op->size[i] > 1 || role == ROLE_BATCH))
            out[count++] = dim;
    }
    return count;
}

static void list_options(struct option_space *s, struct split_options *o, int32_t axis, int *dim)
{
    int on[OP_MAX_DIMS + 1];
    if (axis == o->axes->count) {
        push_option(s, o, dim);
        return;
    }
    int count = dims_on(s->plan->model, o->op, &o->axes->axis[axis], on);
    for (int i = 0; i < count; i++) {
        dim[axis] = on[i];
        list_options(s, o, axis + 1, dim);
    }
}

/* Axes of features on which an option holds copies of its weights. */
static int copied_features(const struct split_options *o, const struct split_option *option)
{
    const struct operand *weight = &o->op->weight[0].operand;
    int count = 0;
    for (int32_t a = 0; a < o->axes->count; a++)
        count += o->axes->axis[a].classes & class_of(DIM_OUT) &&
                 operand_place(o->op, weight, option->dim[a], FLOW_FORWARD) != PLACE_SPLIT;
    return count;
}

/* I2. Weights that nothing multiplies, of norms and positions, are small. */
static void drop_copies(struct split_options *o)
{
    bool weighty = o->op->weights && (o->op->kind == OP_EMBEDDING || o->op->kind == OP_LINEAR ||
                                      o->op->kind == OP_CONV || o->op->kind == OP_EXPERT_LINEAR);
    int least = MAX_SPLIT_PARTS;
    int32_t left = 0;
    for (int32_t i = 0; i < o->count && weighty; i++) {
        int copied = copied_features(o, &o->option[i]);
        least = copied < least ? copied : least;
    }
    for (int32_t i = 0; i < o->count && weighty; i++)
        if (copied_features(o, &o->option[i]) == least)
            o->option[left++] = o->option[i];
    o->count = weighty ? left : o->count;
}

static struct split_options *new_options(struct option_space *s, int32_t op,
                                         const struct mesh_axes *axes, const struct split *given)
{
    struct split_options *o = ARENA_NEW(s->scratch, struct split_options);
    int dim[MAX_SPLIT_PARTS];
    *o = (struct split_options){.op = &s->plan->model->op[op], .axes = axes, .next = s->first[op]};
    o->given = given;
    o->option = ARENA_ARRAY(s->scratch, struct split_option, given ? 1 : MOST_OPTIONS);
    for (int32_t a = 0; given && a < axes->count; a++)
        dim[a] = dim_on_axis(given, &axes->axis[a]);
    if (given)
        push_option(s, o, dim);
    else
        list_options(s, o, 0, dim);
    drop_copies(o);
    s->first[op] = o;
    return o;
}

static struct split_options *options_of(struct option_space *s, int64_t instance)
{
    int32_t op = s->plan->instance[instance].op;
    const struct mesh_axes *axes = axes_for(s, instance);
    const struct split *given =
        s->file->split_at[instance] ? &plan_choice(s->plan, instance)->split : NULL;
    for (struct split_options *o = s->first[op]; o; o = o->next)
        if (o->axes == axes && !o->given == !given && (!given || split_equal(o->given, given)))
            return o;
    return new_options(s, op, axes, given);
}

weft_status find_options(struct option_space *s)
{
    weft_status status = WEFT_OK;
    const struct plan *plan = s->plan;
    s->axes = ARENA_ARRAY(s->scratch, struct mesh_axes, (size_t)plan->stages);
    s->first = ARENA_ARRAY(s->scratch, struct split_options *, (size_t)plan->model->ops);
    s->of = ARENA_ARRAY(s->scratch, struct split_options *, (size_t)plan->instances);
    cut_axes(s);
    note_classes(s);
    cut_heads(s);
    for (int32_t i = 0; i < s->meshes; i++)
        TRY(axis_lines(plan, &s->axes[i]));
    for (int64_t i = 0; i < plan->instances; i++)
        s->of[i] = options_of(s, i);
done:
    return status;
}
