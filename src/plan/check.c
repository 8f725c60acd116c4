/* check.c - everything that can be wrong with a plan, each fault with its own message.
 *
 *   I1  Faults are looked for from the whole to the parts: type, batch, devices, parts, schedule,
 *       operators (check_op.c). Later checks may rely on earlier ones.
 *   I2  What is legal but strange is a warning (warnings.c): a plan that passes can be executed.
 */
#include "plan/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plan/room.h"
#include "schedule/schedule.h"

/* ---- type, batch, devices, parts ------------------------------------------------------------- */

static bool count_fault(struct finding *f)
{
    const struct plan *plan = f->plan;
    double micro_batches = (double)(plan->global_batch / plan->step_samples);
    double slots = fmin(micro_batches, PLAN_ROUNDS * (double)plan->stages) * (double)plan->parts;
    if (slots <= limit_of(LIMIT_SLOTS))
        return false;
    over_limit(LIMIT_SLOTS, slots);
    fault(f, FAULT_BATCH, 0, arena_copy_text(f->keep, weft_last_error()->message));
    return with_hint(f, limit_row(LIMIT_SLOTS)->instead);
}

/* Elements are counted in 64 bits and as doubles: no tensor of a step may have more. */
static const double MOST_ELEMENTS = 0x1p53;

static bool size_fault(struct finding *f)
{
    const struct model *model = f->plan->model;
    double most = 1, step = (double)f->plan->step_samples;
    for (int32_t i = 0; i < model->tensors; i++) {
        double elements = 1;
        for (int axis = 0; axis < model->tensor[i].axes; axis++)
            elements *= (double)model->tensor[i].size[axis];
        most = elements > most ? elements : most;
    }
    if (most * step <= MOST_ELEMENTS)
        return false;
    fault(f, FAULT_BATCH, 0,
          arena_printf(f->keep,
                       "a step of %s makes a tensor of %.3g elements, expected at most "
                       "2^53",
                       counted(f->plan->step_samples, "sample").s, most * step));
    return with_hint(f, arena_printf(f->keep, "use a micro-batch that makes steps of at most %.0f",
                                     MOST_ELEMENTS / most));
}

static bool batch_fault(struct finding *f)
{
    long long all = (long long)f->plan->global_batch, step = (long long)f->plan->step_samples;
    if (all < 1 || step < 1)
        return fault(f, FAULT_BATCH, 0,
                     arena_printf(f->keep,
                                  "a global batch of %lld in steps of %s, expected at "
                                  "least one of each",
                                  all, counted(step, "sample").s));
    if (all % step == 0)
        return count_fault(f) || size_fault(f);
    fault(f, FAULT_BATCH, 0,
          arena_printf(f->keep, "a global batch of %lld is not made of steps of %s", all,
                       counted(step, "sample").s));
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
          arena_printf(f->keep, "the stages have %s, the cluster has %lld",
                       counted(next, "device").s, (long long)all));
    int64_t rest = all - (next - plan->stage[plan->stages - 1].devices);
    if (rest > 0)
        return with_hint(f, arena_printf(f->keep, "%s in stage %d would do",
                                         counted(rest, "device").s, plan->stages - 1));
    return true;
}

/* The most devices that equal stages may have, so that each lies in one pool. */
static int64_t largest_stage(const struct cluster *cluster)
{
    int64_t devices = 0;
    for (int32_t p = 0; p < cluster_pools(cluster); p++)
        devices = common_divisor(cluster_devices(cluster_pool(cluster, p)), devices);
    return devices;
}

/* A stage computes on devices of one type: its groups would all wait for the slower ones (cluster/pools.h, I3). */
static bool pools_fault(struct finding *f)
{
    const struct cluster *cluster = f->plan->cluster;
    int64_t each = largest_stage(cluster), all = cluster_devices(cluster);
    for (int32_t s = 0; cluster->pools > 1 && s < f->plan->stages; s++) {
        const struct stage *stage = &f->plan->stage[s];
        int32_t first = cluster_pool_of(cluster, stage->first_device);
        int32_t last = cluster_pool_of(cluster, stage->first_device + stage->devices - 1);
        if (first == last && !f->plan->stage_run)
            continue;
        if (f->plan->stage_run) {
            fault(f, FAULT_STAGE, s, "the device order spreads every stage over all pools");
            return with_hint(f, "leave the order out: stages then follow each other, each on "
                                "devices of one pool");
        }
        fault(f, FAULT_STAGE, s,
              arena_printf(f->keep,
                           "stage %d lies on %s and on %s: a stage computes on devices "
                           "of one type",
                           s, cluster_pool_name(cluster, first), cluster_pool_name(cluster, last)));
        return with_hint(f, arena_printf(f->keep,
                                         "use --pp %lld or a multiple of it, for stages of %lld "
                                         "devices or fewer, one after the other",
                                         (long long)(all / each), (long long)each));
    }
    return false;
}

/* Stages whose devices lie in runs among each other's (device_order.c, I1). */
static bool order_fault(struct finding *f)
{
    const struct plan *plan = f->plan;
    int64_t run = plan->stage_run, each = plan->stage[0].devices;
    bool fits = run >= 0;
    for (int32_t s = 0; fits && run && s < plan->stages; s++)
        fits = plan->stage[s].devices == each && each % run == 0;
    for (int32_t c = 0; fits && run && c < plan->choices; c++)
        fits = split_suits_run(&plan->choice[c].split, run);
    if (fits)
        return false;
    fault(f, FAULT_STAGE, 0,
          arena_printf(f->keep, "runs of %lld neighbours do not fit the splits of %s of a stage",
                       (long long)run, counted(each, "device").s));
    return with_hint(f, "leave the order out: the devices of a stage are then neighbours");
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

/* The nearest number of micro-batches that the schedule can order, the larger of two that are
 * equally near; 0: the number is not what is wrong. */
static int64_t nearest_micro_batches(const struct schedule *schedule,
                                     const struct pipeline *pipeline)
{
    for (int32_t away = 1; away <= pipeline->stages; away++)
        for (int sign = 1; sign >= -1; sign -= 2) {
            int64_t count = pipeline->micro_batches + (int64_t)sign * away;
            struct pipeline other = *pipeline;
            other.micro_batches = (int32_t)count;
            if (count >= 1 && count <= INT32_MAX && schedule_check(schedule, &other) == WEFT_OK)
                return count;
        }
    return 0;
}

static bool schedule_fault(struct finding *f)
{
    const struct plan *plan = f->plan;
    const struct schedule *schedule = plan_row(plan);
    if (!schedule)
        return unknown_schedule(f);
    int64_t steps = plan_micro_batches(plan);
    if (steps > INT32_MAX)
        return fault(f, FAULT_BATCH, 0,
                     arena_printf(f->keep, "%s are more than Weft can order",
                                  counted(steps, "micro-batch").s));
    struct pipeline pipeline = plan_pipeline(plan);
    if (schedule_check(schedule, &pipeline) == WEFT_OK)
        return false;
    const weft_error *error = weft_last_error();
    fault(f, FAULT_SCHEDULE, 0, arena_copy_text(f->keep, error->message));
    with_hint(f, error->hint ? arena_copy_text(f->keep, error->hint) : NULL);
    int64_t nearest = nearest_micro_batches(schedule, &pipeline);
    if (nearest)
        with_hint(f, arena_printf(f->keep, "use %s: a global batch of %lld",
                                  counted(nearest, "micro-batch").s,
                                  (long long)(nearest * plan->step_samples)));
    return true;
}

static bool types_fault(struct finding *f)
{
    if (plan_check_types(f->plan->cluster, f->plan->dtype, f->plan->policy) == WEFT_OK)
        return false;
    const weft_error *error = weft_last_error();
    fault(f, FAULT_NOWHERE, 0, arena_copy_text(f->keep, error->message));
    return with_hint(f, arena_copy_text(f->keep, error->hint));
}

weft_status plan_check_types(const struct cluster *cluster, enum dtype dtype, enum policy policy)
{
    for (int32_t p = 0; p < cluster_pools(cluster); p++) {
        const struct device *device = &cluster_pool(cluster, p)->node.device;
        if (dtype_is_cast(dtype) && device->flops[dtype] <= 0)
            return bad_argument("use --dtype bf16, or a cluster whose devices have it",
                                "%s has no products in %s", device->name, dtype_name(dtype));
    }
    if (dtype_bytes(dtype) > policy_weight_bytes(policy))
        return bad_argument("use --policy fp32, or a dtype of 16 bits",
                            "policy %s keeps weights of 16 bits, and the plan computes in %s",
                            policy_name(policy), dtype_name(dtype));
    return WEFT_OK;
}

static bool takes_halves(const struct split *split)
{
    return split->parts && split->part[0].dim == DIM_BATCH && split->part[0].degree % 2 == 0;
}

/* Halves of a stage's devices take each other's samples: every operator has its own half of a step on each (plan.h, I1). */
static bool halves_fault(struct finding *f)
{
    const struct plan *plan = f->plan;
    for (int64_t i = 0; plan->both_ways && i < plan->instances; i++) {
        const struct split *split = &plan_choice(plan, i)->split;
        if (takes_halves(split) && !takes_halves(choice_split(plan_choice(plan, i), true)))
            split = choice_split(plan_choice(plan, i), true);
        else if (takes_halves(split))
            continue;
        fault(f, FAULT_INSTANCE, i,
              arena_printf(
                  f->keep, "%s is split %s: schedule %s has an even number of replicas, outermost",
                  plan_path(f->keep, plan, i), split_text(f->keep, split), plan->schedule));
        return with_hint(f, "use an even --dp, or a schedule that goes one way");
    }
    return false;
}

/* What an operator on some of its stage's devices cannot have: tensors whose copies on the others somebody counts on. */
static const char *subset_refusal(const struct plan *plan, int64_t instance)
{
    const struct choice *choice = plan_choice(plan, instance);
    int64_t owner = plan_weight_owner(plan, instance);
    bool here = split_is_subset(&choice->split);
    bool tied = owner != instance && (here || split_is_subset(&plan_choice(plan, owner)->split)) &&
                (plan_part_of(plan, owner) != plan_part_of(plan, instance) ||
                 !plan_weights_alike(plan, owner, instance));
    return tied                          ? "a tied weight lies the same way for all that use it"
           : choice->offload             ? "nothing is offloaded in such a plan"
           : here && choice->parts       ? "its output is kept whole"
           : plan->optimizer_offload > 0 ? "optimizer state stays on the devices"
           : plan->optimizer == UPDATE_MUON
               ? "Muon, which has all devices of a stage add up its matrices, does not go"
               : NULL;
}

static bool subsets_fault(struct finding *f)
{
    const struct plan *plan = f->plan;
    for (int64_t i = 0; plan_has_subsets(plan) && i < plan->instances; i++) {
        const char *why = subset_refusal(plan, i);
        if (!why)
            continue;
        fault(f, FAULT_INSTANCE, i,
              arena_printf(f->keep, "%s: with operators on some of a stage's devices, %s",
                           plan_path(f->keep, plan, i), why));
        return with_hint(f, "docs/reference/plan-file.md says what goes with 'devices'");
    }
    return false;
}

/* ---- all of it ------------------------------------------------------------------------------- */

bool plan_find_fault(struct arena *keep, const struct plan *plan, struct fault *out)
{
    static bool (*const CHECKS[])(struct finding *) = {
        types_fault,    batch_fault,     devices_fault, order_fault,   pools_fault, parts_fault,
        schedule_fault, instances_fault, halves_fault,  subsets_fault, joins_fault}; /* I1 */
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
