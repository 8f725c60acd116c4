/* check_op.c - what can be wrong with one operator's split.
 *
 *   legal(degree, size) = degree divides size; of a vocabulary also a power of two not above it  (1)
 *   size of a dim = the largest number that divides what each operand has of it                  (2)
 *
 *   I1  A fault names the first instance that has it, in the order of the walk.
 */
#include "plan/check.h"

#include <string.h>

#include "plan/room.h"

/* ---- degrees --------------------------------------------------------------------------------- */

static bool is_power_of_two(int64_t n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

static bool pads(int64_t degree, int64_t size)
{
    return degree <= size && (size % degree == 0 || is_power_of_two(degree));
}

/* The outputs of a classifier count as a vocabulary, too. */
static bool is_vocabulary(const struct model *model, const struct op *op, int dim)
{
    for (int32_t i = 0; dim == DIM_OUT && i < model->ops; i++) {
        const struct op *loss = &model->op[i];
        if (loss->kind != OP_LOSS || loss->inputs < 1)
            continue;
        int32_t tensor = loss->input[0].tensor;
        while (model->tensor[tensor].view_of >= 0)
            tensor = model->tensor[tensor].view_of;
        if (tensor == op->output.tensor)
            return true;
    }
    return dim == DIM_VOCAB;
}

/* The nearest degrees that `legal` accepts: "legal degrees nearby: 4 and 6". */
static const char *near_degrees(struct arena *keep, int64_t size, int64_t degree,
                                bool (*legal)(int64_t, int64_t))
{
    return arena_printf(keep, "legal degrees nearby: %s",
                        nearest_legal(keep, degree, size, legal, size));
}

/* ---- one operator ---------------------------------------------------------------------------- */

static const char *node(struct finding *f, int64_t instance)
{
    return plan_path(f->keep, f->plan, instance);
}

/* The split with the degree of one part changed so that it fills the stage; NULL if no such change
 * exists. */
static const char *filling_split(struct finding *f, const struct split *split, int64_t devices)
{
    for (int32_t i = 0; i < split->parts; i++) {
        struct split other = split_none();
        int64_t rest = split_devices(split) / split->part[i].degree;
        if (devices % rest != 0)
            continue;
        for (int32_t k = 0; k < split->parts; k++)
            split_add(&other, split->part[k].dim,
                      k == i ? devices / rest : (int64_t)split->part[k].degree);
        return arena_printf(f->keep, "%s would do", split_text(f->keep, &other));
    }
    return NULL;
}

static bool product_fault(struct finding *f, int64_t instance, const struct split *split)
{
    int32_t stage = plan_stage_of_part(f->plan, plan_part_of(f->plan, instance));
    int64_t devices = f->plan->stage[stage].devices, product = split_devices(split);
    if (product == devices)
        return false;
    fault(f, FAULT_INSTANCE, instance,
          arena_printf(f->keep, "%s: %s is for %lld device%s, stage %d has %lld", node(f, instance),
                       split_text(f->keep, split), (long long)product, product == 1 ? "" : "s",
                       stage, (long long)devices));
    return with_hint(f, filling_split(f, split, devices));
}

/* The dims that an operator can be split by: "batch, seq, out". */
static const char *splittable(struct finding *f, const struct op *op)
{
    const char *text = "";
    for (int i = 0; i < op_dims(op->kind); i++)
        if (OP_KINDS[op->kind].dims[i].role != ROLE_WHOLE &&
            (op->size[i] > 1 || OP_KINDS[op->kind].dims[i].role == ROLE_BATCH))
            text = arena_printf(f->keep, "%s%s%s", text, *text ? ", " : "",
                                dim_name(OP_KINDS[op->kind].dims[i].dim));
    return text;
}

static bool dim_missing(struct finding *f, int64_t instance, const struct op *op, int dim)
{
    fault(f, FAULT_INSTANCE, instance,
          arena_printf(f->keep, "%s: has no dim '%s'", node(f, instance), dim_name((enum dim)dim)));
    return with_hint(f, arena_printf(f->keep, "a %s can be split by %s", OP_KINDS[op->kind].name,
                                     splittable(f, op)));
}

static bool dim_whole(struct finding *f, int64_t instance, const struct op *op, int dim)
{
    fault(f, FAULT_INSTANCE, instance,
          arena_printf(f->keep, "%s: a %s cannot be split by '%s'", node(f, instance),
                       OP_KINDS[op->kind].name, dim_name((enum dim)dim)));
    return with_hint(f, arena_printf(f->keep, "it can be split by %s", splittable(f, op)));
}

static bool batch_split_fault(struct finding *f, int64_t instance, int64_t degree)
{
    int64_t samples = f->plan->step_samples;
    if (samples % degree == 0)
        return false;
    fault(f, FAULT_INSTANCE, instance,
          arena_printf(f->keep, "%s: a step of %lld sample%s cannot be split by batch:%lld",
                       node(f, instance), (long long)samples, samples == 1 ? "" : "s",
                       (long long)degree));
    if (degree > samples)
        return with_hint(
            f, arena_printf(f->keep, "a step of %s would do", counted(degree, "sample").s));
    return with_hint(f, near_degrees(f->keep, samples, degree, divides));
}

typedef bool degree_rule(int64_t degree, int64_t size);

/* (1) */
static degree_rule *rule_of(const struct model *model, const struct op *op, int place)
{
    return is_vocabulary(model, op, OP_KINDS[op->kind].dims[place].dim) ? pads : divides;
}

/* How much of a dim an operand has, which may differ from the dim's size: rows of an image, tokens
 * of an expert. 0: the operand does not have the dim, or it is not the innermost of its axis. */
static int64_t span_in(const struct op *op, const struct operand *operand, int place)
{
    for (int axis = 0; axis < operand->axes; axis++) {
        int64_t span = operand->size[axis];
        int k = 0;
        for (; k + 1 < MAX_AXIS_DIMS && operand->dims[axis][k + 1] >= 0; k++)
            span /= op->size[operand->dims[axis][k]];
        if (operand->dims[axis][k] == place)
            return span;
    }
    return 0;
}

/* (2) */
static int64_t divisible(const struct op *op, int place)
{
    int64_t all = common_divisor(op->size[place], span_in(op, &op->output, place));
    if (op->kind == OP_CONV && op->groups > 1 && OP_KINDS[op->kind].dims[place].dim == DIM_IN)
        return 1; /* each output reads only the channels of its group */
    if (op->kind == OP_ROTARY && OP_KINDS[op->kind].dims[place].dim == DIM_HIDDEN && all % 2 == 0)
        all /= 2; /* features are rotated in pairs */
    for (int32_t i = 0; i < op->inputs; i++)
        all = common_divisor(all, span_in(op, &op->input[i], place));
    return all;
}

bool split_legal(const struct model *model, const struct op *op, int place, int64_t degree)
{
    degree_rule *rule = rule_of(model, op, place);
    return degree <= op->size[place] &&
           rule(degree, rule == divides ? divisible(op, place) : op->size[place]);
}

static bool degree_fault(struct finding *f, int64_t instance, const struct op *op, int place,
                         int64_t degree)
{
    const char *name = dim_name(OP_KINDS[op->kind].dims[place].dim);
    degree_rule *legal = rule_of(f->plan->model, op, place);
    int64_t size = op->size[place], part = legal == divides ? divisible(op, place) : size;
    if (split_legal(f->plan->model, op, place, degree))
        return false;
    fault(f, FAULT_INSTANCE, instance,
          degree > size
              ? arena_printf(f->keep, "%s: %s:%lld is more than its %s of %lld", node(f, instance),
                             name, (long long)degree, name, (long long)size)
              : arena_printf(f->keep, "%s: %s:%lld does not divide its %s of %lld%s",
                             node(f, instance), name, (long long)degree, name, (long long)size,
                             size % degree ? "" : " in its inputs and outputs"));
    return with_hint(f, near_degrees(f->keep, part, degree, legal));
}

static bool dim_fault(struct finding *f, int64_t instance, const struct split *split, int dim)
{
    const struct op *op = &f->plan->model->op[f->plan->instance[instance].op];
    if (dim >= SPLIT_COPY)
        return false;
    int place = op_find_dim(op->kind, (enum dim)dim);
    if (place < 0)
        return dim_missing(f, instance, op, dim);
    enum dim_role role = OP_KINDS[op->kind].dims[place].role;
    if (role == ROLE_WHOLE)
        return dim_whole(f, instance, op, dim);
    if (role == ROLE_BATCH)
        return batch_split_fault(f, instance, split_degree(split, dim));
    return degree_fault(f, instance, op, place, split_degree(split, dim));
}

/* A fault of the split that a backward pass has of its own. */
static bool back_fault(struct finding *f, int64_t instance, const struct choice *choice)
{
    const struct plan *plan = f->plan;
    const char *why =
        back_refusal(plan->model, &plan->model->op[plan->instance[instance].op], choice);
    bool found = product_fault(f, instance, &choice->back);
    for (int32_t i = 0; i < choice->back.parts && !found; i++)
        found = dim_fault(f, instance, &choice->back, choice->back.part[i].dim);
    if (!found && plan_has_subsets(plan))
        why = "operators of this plan are on some of their stage's devices";
    if (!found && why) {
        fault(f, FAULT_INSTANCE, instance,
              arena_printf(f->keep, "%s: its backward pass cannot be split %s: %s",
                           node(f, instance), split_text(f->keep, &choice->back), why));
        found =
            with_hint(f, "docs/reference/plan-file.md says which splits a backward pass can have");
    }
    if (found)
        f->out->place = FAULT_BACK;
    return found;
}

static bool instance_fault(struct finding *f, int64_t instance)
{
    const struct choice *choice = plan_choice(f->plan, instance);
    for (int32_t i = 0; i < choice->split.parts; i++)
        if (dim_fault(f, instance, &choice->split, choice->split.part[i].dim))
            return true;
    if (product_fault(f, instance, &choice->split))
        return true;
    if (choice->own_back && back_fault(f, instance, choice))
        return true;
    if (choice->shard <= 3)
        return false;
    return fault(f, FAULT_INSTANCE, instance,
                 arena_printf(f->keep, "%s: shard is %d, expected 0, 1, 2 or 3", node(f, instance),
                              choice->shard));
}

/* A copy with the same choice as the copy before it in the same part needs no check of its own. */
bool instances_fault(struct finding *f)
{
    const struct plan *plan = f->plan;
    struct arena *scratch = arena_new();
    int32_t *seen = ARENA_ARRAY(scratch, int32_t, (size_t)plan->model->ops); /* choice + 1 */
    bool found = false;
    for (int32_t part = 0; part < plan->parts && !found; part++) {
        memset(seen, 0, sizeof *seen * (size_t)plan->model->ops);
        int64_t first = plan->part[part].first, end = first + plan->part[part].count;
        for (int64_t i = first; i < end && !found; i++) {
            int32_t op = plan->instance[i].op;
            found = seen[op] != plan->choice_of[i] + 1 && instance_fault(f, i);
            seen[op] = plan->choice_of[i] + 1;
        }
    }
    arena_free(scratch);
    return found;
}
