/* check.c - everything that can be wrong with a plan, each with its own words.
 *
 *   legal(degree, size) = degree divides size; of a vocabulary also a power of two not above it  (1)
 *   size of a dim = the largest number that divides what each operand has of it                  (2)
 *
 *   I1  Faults are looked for from the whole to the parts: batch, devices, parts, schedule,
 *       operators. What comes later may rely on what came before.
 *   I2  An operator's fault names the first instance that has it, in the order of the walk.
 *   I3  What is legal and only strange is a warning: a plan that passes can be executed.
 */
#include "plan/check.h"

#include <stdio.h>
#include <string.h>

#include "plan/room.h"
#include "schedule/schedule.h"

struct finding {
    struct arena *keep;
    const struct plan *plan;
    struct fault *out;
};

static bool fault(struct finding *f, enum fault_place place, int64_t at, const char *message)
{
    *f->out = (struct fault){.place = place, .at = at, .message = message};
    return true;
}

static bool with_hint(struct finding *f, const char *hint)
{
    f->out->hint = hint;
    return true;
}

/* ---- degrees --------------------------------------------------------------------------------- */

static bool is_power_of_two(int64_t n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

static bool pads(int64_t degree, int64_t size)
{
    return degree <= size && (size % degree == 0 || is_power_of_two(degree));
}

/* A classifier's outputs are a vocabulary too. */
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

/* ---- the whole ------------------------------------------------------------------------------- */

static bool batch_fault(struct finding *f)
{
    long long all = (long long)f->plan->global_batch, step = (long long)f->plan->batch_per_step;
    if (all < 1 || step < 1)
        return fault(f, FAULT_BATCH, 0,
                     arena_printf(f->keep,
                                  "a global batch of %lld in steps of %lld samples, expected at "
                                  "least one of each",
                                  all, step));
    if (all % step == 0)
        return false;
    fault(f, FAULT_BATCH, 0,
          arena_printf(f->keep, "a global batch of %lld is not made of steps of %lld samples", all,
                       step));
    long long below = all / step * step, above = below + step;
    return with_hint(
        f, below ? arena_printf(f->keep, "a global batch of %lld or %lld would do", below, above)
                 : arena_printf(f->keep, "a global batch of %lld would do", above));
}

static const char *device_range(struct arena *keep, const struct stage *stage)
{
    long long first = (long long)stage->first_device;
    return arena_printf(keep, "%lld-%lld", first, first + (long long)stage->devices - 1);
}

static bool stage_fault(struct finding *f, int32_t at, int64_t next)
{
    const struct stage *stage = &f->plan->stage[at];
    if (stage->devices < 1)
        return fault(f, FAULT_STAGE, at, arena_printf(f->keep, "stage %d has no devices", at)) &&
               with_hint(f, "give it at least 1");
    if (stage->first_device < next) {
        fault(f, FAULT_STAGE, at,
              arena_printf(f->keep, "devices %s of stage %d overlap those of stage %d (%s)",
                           device_range(f->keep, stage), at, at - 1,
                           at ? device_range(f->keep, stage - 1) : ""));
        return with_hint(
            f, arena_printf(f->keep, "start stage %d at device %lld", at, (long long)next));
    }
    if (stage->first_device == next)
        return false;
    fault(f, FAULT_STAGE, at,
          arena_printf(f->keep, "devices %lld-%lld, before those of stage %d, belong to no stage",
                       (long long)next, (long long)stage->first_device - 1, at));
    return with_hint(f,
                     arena_printf(f->keep, "start stage %d at device %lld", at, (long long)next));
}

static bool devices_fault(struct finding *f)
{
    const struct plan *plan = f->plan;
    int64_t next = 0, all = cluster_devices(plan->cluster);
    for (int32_t i = 0; i < plan->stages; i++) {
        if (stage_fault(f, i, next))
            return true;
        next = plan->stage[i].first_device + plan->stage[i].devices;
    }
    if (next == all)
        return false;
    fault(f, FAULT_STAGE, plan->stages - 1,
          arena_printf(f->keep, "the stages have %lld devices, the cluster has %lld",
                       (long long)next, (long long)all));
    int64_t rest = all - (next - plan->stage[plan->stages - 1].devices);
    if (rest > 0)
        return with_hint(f, arena_printf(f->keep, "%lld devices in stage %d would do",
                                         (long long)rest, plan->stages - 1));
    return true;
}

static bool parts_fault(struct finding *f)
{
    const struct plan *plan = f->plan;
    int64_t next = 0;
    for (int32_t i = 0; i < plan->parts; i++) {
        const struct part *part = &plan->part[i];
        int32_t stage = plan_stage_of_part(plan, i);
        if (part->count < 1) {
            fault(f, FAULT_STAGE, stage,
                  plan->pieces > 1
                      ? arena_printf(f->keep, "piece %d of stage %d holds no operators",
                                     i / plan->stages, stage)
                      : arena_printf(f->keep, "stage %d holds no operators", stage));
            return with_hint(f, arena_printf(f->keep, "%s can be cut into at most %lld parts",
                                             plan->model->name, (long long)plan->instances));
        }
        if (part->first != next) {
            fault(f, FAULT_STAGE, stage,
                  arena_printf(f->keep, "stage %d starts at operator %lld, expected %lld", stage,
                               (long long)part->first, (long long)next));
            return with_hint(f, arena_printf(f->keep, "start stage %d at %s", stage,
                                             plan_path(f->keep, plan, next)));
        }
        next = part->first + part->count;
    }
    if (next == plan->instances)
        return false;
    fault(f, FAULT_STAGE, plan->stages - 1,
          arena_printf(f->keep, "the operators from %s on belong to no stage",
                       plan_path(f->keep, plan, next)));
    return with_hint(
        f, arena_printf(f->keep, "stage %d, the last, holds all that is left", plan->stages - 1));
}

/* ---- the schedule ---------------------------------------------------------------------------- */

static const char *schedule_names(struct arena *keep)
{
    const struct schedule *all;
    size_t count = schedule_all(&all);
    const char *text = "";
    for (size_t i = 0; i < count; i++)
        text = arena_printf(keep, "%s%s%s", text, i ? ", " : "", all[i].name);
    return text;
}

static bool unknown_schedule(struct finding *f)
{
    enum { MOST = 64 };
    const struct schedule *all;
    const char *names[MOST];
    size_t count = schedule_all(&all);
    for (size_t i = 0; i < count && i < MOST; i++)
        names[i] = all[i].name;
    const char *near = nearest_word(f->plan->schedule, names, count < MOST ? count : MOST);
    fault(f, FAULT_SCHEDULE, 0,
          arena_printf(f->keep, "no schedule is called '%.60s', expected one of %s",
                       f->plan->schedule, schedule_names(f->keep)));
    return near ? with_hint(f, arena_printf(f->keep, "did you mean '%s'?", near)) : true;
}

/* How many the schedule could order, the larger of two equally near; 0: that is not its trouble. */
static int64_t nearest_micro_batches(const struct schedule *schedule,
                                     const struct pipeline *pipeline)
{
    for (int32_t away = 1; away <= pipeline->stages; away++)
        for (int sign = 1; sign >= -1; sign -= 2) {
            int64_t count = pipeline->micro_batches + (int64_t)sign * away;
            struct pipeline other = {pipeline->stages, pipeline->pieces, (int32_t)count};
            if (count >= 1 && count <= INT32_MAX && schedule->check(&other) == WEFT_OK)
                return count;
        }
    return 0;
}

static bool schedule_fault(struct finding *f)
{
    const struct plan *plan = f->plan;
    const struct schedule *schedule = schedule_find(plan->schedule);
    if (!schedule)
        return unknown_schedule(f);
    int64_t steps = plan_micro_batches(plan);
    if (steps > INT32_MAX)
        return fault(f, FAULT_BATCH, 0,
                     arena_printf(f->keep, "%lld micro-batches are more than Weft can order",
                                  (long long)steps));
    struct pipeline pipeline = {plan->stages, (int32_t)plan->pieces, (int32_t)steps};
    if (schedule->check(&pipeline) == WEFT_OK)
        return false;
    const weft_error *error = weft_last_error();
    fault(f, FAULT_SCHEDULE, 0, arena_copy_text(f->keep, error->message));
    with_hint(f, error->hint ? arena_copy_text(f->keep, error->hint) : NULL);
    int64_t nearest = nearest_micro_batches(schedule, &pipeline);
    if (nearest)
        with_hint(f, arena_printf(f->keep, "use %lld micro-batches: a global batch of %lld",
                                  (long long)nearest, (long long)(nearest * plan->batch_per_step)));
    return true;
}

/* ---- one operator ---------------------------------------------------------------------------- */

static const char *node(struct finding *f, int64_t instance)
{
    return plan_path(f->keep, f->plan, instance);
}

/* The split with one part changed so that it fills the stage; NULL where no change of one does. */
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

/* The dims of an operator that can be split: "batch, seq, out". */
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
    int64_t samples = f->plan->batch_per_step;
    if (samples % degree == 0)
        return false;
    fault(f, FAULT_INSTANCE, instance,
          arena_printf(f->keep, "%s: a step of %lld sample%s cannot be split by batch:%lld",
                       node(f, instance), (long long)samples, samples == 1 ? "" : "s",
                       (long long)degree));
    if (degree > samples)
        return with_hint(
            f, arena_printf(f->keep, "a step of %lld samples would do", (long long)degree));
    return with_hint(f, near_degrees(f->keep, samples, degree, divides));
}

typedef bool degree_rule(int64_t degree, int64_t size);

/* (1) */
static degree_rule *rule_of(const struct model *model, const struct op *op, int place)
{
    return is_vocabulary(model, op, OP_KINDS[op->kind].dims[place].dim) ? pads : divides;
}

/* How much of a dim an operand has: its own number of an image's rows, of an expert's tokens. 0: what
 * does not depend on it, or what lies inside it too. */
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
        return 1; /* each output reads the channels of its group alone */
    if (op->kind == OP_ROTARY && OP_KINDS[op->kind].dims[place].dim == DIM_HIDDEN && all % 2 == 0)
        all /= 2; /* features turn in pairs */
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
                             size % degree ? "" : " and what it reads and makes of it"));
    return with_hint(f, near_degrees(f->keep, part, degree, legal));
}

static bool dim_fault(struct finding *f, int64_t instance, const struct split *split, int dim)
{
    const struct op *op = &f->plan->model->op[f->plan->instance[instance].op];
    if (dim == SPLIT_COPY)
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

static bool instance_fault(struct finding *f, int64_t instance)
{
    const struct choice *choice = plan_choice(f->plan, instance);
    for (int32_t i = 0; i < choice->split.parts; i++)
        if (dim_fault(f, instance, &choice->split, choice->split.part[i].dim))
            return true;
    if (product_fault(f, instance, &choice->split))
        return true;
    if (choice->shard <= 3)
        return false;
    return fault(f, FAULT_INSTANCE, instance,
                 arena_printf(f->keep, "%s: shard is %d, expected 0, 1, 2 or 3", node(f, instance),
                              choice->shard));
}

/* Copies of an operator with the choice of the copy before, in the same part, are as good. */
static bool instances_fault(struct finding *f)
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

/* ---- all of it ------------------------------------------------------------------------------- */

bool plan_find_fault(struct arena *keep, const struct plan *plan, struct fault *out)
{
    static bool (*const CHECKS[])(struct finding *) = {batch_fault, devices_fault, parts_fault,
                                                       schedule_fault, instances_fault}; /* I1 */
    struct finding f = {keep, plan, out};
    for (size_t i = 0; i < COUNT_OF(CHECKS); i++)
        if (CHECKS[i](&f))
            return true;
    return false;
}

weft_status plan_check(const struct plan *plan)
{
    struct arena *scratch = arena_new();
    struct fault fault = {0};
    weft_status status = WEFT_OK;
    if (plan_find_fault(scratch, plan, &fault))
        status = bad_argument(fault.hint, "%s", fault.message);
    arena_free(scratch);
    return status;
}

/* ---- warnings -------------------------------------------------------------------------------- */

static const char *padding(struct arena *keep, const struct op *op, const struct choice *choice)
{
    for (int i = 0; i < op_dims(op->kind); i++) {
        enum dim dim = OP_KINDS[op->kind].dims[i].dim;
        int64_t degree = split_degree(&choice->split, (int)dim);
        if (dim != DIM_BATCH && op->size[i] % degree != 0)
            return arena_printf(keep, "%s:%lld pads its %s of %lld to %lld", dim_name(dim),
                                (long long)degree, dim_name(dim), (long long)op->size[i],
                                (long long)(ceil_div(op->size[i], degree) * degree));
    }
    return NULL;
}

static const char *useless_shard(struct arena *keep, const struct op *op,
                                 const struct choice *choice)
{
    if (choice->shard == 0 || op->weights == 0 || split_replicas(op, &choice->split) > 1)
        return NULL;
    return arena_printf(keep, "shard: %d changes nothing, no other device holds the same weights",
                        choice->shard);
}

static const char *useless_offload(struct arena *keep, const struct op *op,
                                   const struct choice *choice)
{
    (void)op;
    if (!choice->offload || choice->recompute)
        return NULL;
    return arena_printf(keep,
                        "offload changes nothing, it is not recomputed and has no checkpoint");
}

/* Warnings in the same words become one line. */
struct repeated {
    const char *words, *first;
    size_t more;
};
struct warning_groups {
    struct arena *scratch;
    struct map *by_words;
    ARRAY(struct repeated) list;
};

static void add_warning(struct warning_groups *groups, const char *words, const char *path)
{
    int64_t at;
    if (map_get(groups->by_words, words, &at)) {
        groups->list.data[at].more++;
        return;
    }
    map_put(groups->by_words, words, (int64_t)groups->list.len);
    array_push(groups->scratch, &groups->list, ((struct repeated){words, path, 0}));
}

static void warn_of_run(struct warning_groups *groups, const struct plan *plan,
                        const struct plan_run *run)
{
    static const char *(*const KINDS[])(struct arena *, const struct op *,
                                        const struct choice *) = {padding, useless_shard,
                                                                  useless_offload};
    const struct op *op = &plan->model->op[plan->instance[run->first].op];
    for (size_t kind = 0; kind < COUNT_OF(KINDS); kind++) {
        const char *words = KINDS[kind](groups->scratch, op, &plan->choice[run->choice]);
        if (words)
            add_warning(groups, words, run->path);
    }
}

void plan_warnings(struct arena *keep, const struct plan *plan, struct warnings *out)
{
    struct arena *scratch = arena_new();
    struct warning_groups groups = {.scratch = scratch, .by_words = map_new(scratch)};
    struct plan_runs runs = {0};
    plan_fold(scratch, plan, &runs);
    for (size_t i = 0; i < runs.len; i++)
        warn_of_run(&groups, plan, &runs.data[i]);
    for (size_t i = 0; i < groups.list.len; i++) {
        const struct repeated *group = &groups.list.data[i];
        const char *more = group->more ? arena_printf(scratch, " and %zu more", group->more) : "";
        array_push(keep, out, arena_printf(keep, "%s%s: %s", group->first, more, group->words));
    }
    arena_free(scratch);
}
