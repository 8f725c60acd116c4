/* plan.c - the walk of a model's instances, and the choices they are given.
 *
 * The walk visits every copy of every operator in execution order: a module's operators and
 * submodules in turn, the whole of it `repeat` times. Copies are counted as op_path counts them:
 *
 *   copy(module, i) = copy(parent) * repeat + i,  0 <= i < repeat                              (1)
 *
 *   I1  instance[] is that walk; it never changes once the plan exists.
 *   I2  choice[0 .. choices) are all different; `table` finds each by its hash. Choices are added
 *       and never removed, so the number of a choice stays valid.
 *   I3  Every instance's split covers the devices of its stage (plan.h, I3), before and after every
 *       primitive.
 */
#include "plan/plan.h"

#include <string.h>

#include "plan/room.h"
#include "schedule/schedule.h"

enum { MOST_CHOICES = UINT16_MAX + 1 };

struct choice_table {
    struct hash_map numbers;
    size_t room; /* allocated choices */
};

/* ---- the walk -------------------------------------------------------------------------------- */

/* The submodule of `module` that operator `op` lies in; -1: it lies in the module itself. */
static int32_t submodule_of(const struct model *model, int32_t module, int32_t op)
{
    int32_t below = -1;
    for (int32_t m = model->op[op].module; m != module; m = model->module[m].parent)
        below = m;
    return below;
}

static void walk(struct plan *plan, int32_t module, int64_t copy)
{
    const struct module *m = &plan->model->module[module];
    for (int64_t i = 0; i < m->repeat; i++) {
        int64_t own = copy * m->repeat + i; /* (1) */
        for (int32_t op = m->first_op; op < m->first_op + m->ops;) {
            int32_t below = submodule_of(plan->model, module, op);
            if (below >= 0) {
                walk(plan, below, own);
                op += plan->model->module[below].ops;
            } else {
                plan->instance[plan->instances++] = (struct instance){op++, own};
            }
        }
        if (m->indexed && m->ops)
            plan->ends_layer[plan->instances - 1] = true;
    }
}

static double instances_of(const struct model *model)
{
    double instances = 0;
    for (int32_t i = 0; i < model->ops; i++) {
        double copies = 1;
        for (int32_t m = model->op[i].module; m >= 0; m = model->module[m].parent)
            copies *= (double)model->module[m].repeat;
        instances += copies;
    }
    return instances;
}

weft_status plan_check_size(const struct model *model)
{
    double instances = instances_of(model);
    return instances > limit_of(LIMIT_OPERATORS) ? over_limit(LIMIT_OPERATORS, instances) : WEFT_OK;
}

static weft_status unroll(struct plan *plan)
{
    weft_status status = plan_check_size(plan->model);
    if (status)
        return status;
    size_t count = (size_t)instances_of(plan->model);
    plan->instance = ARENA_ARRAY(plan->arena, struct instance, count);
    plan->ends_layer = ARENA_ARRAY(plan->arena, bool, count);
    plan->choice_of = ARENA_ARRAY(plan->arena, uint16_t, count);
    walk(plan, 0, 0);
    return WEFT_OK;
}

/* ---- interned choices (I2) ------------------------------------------------------------------- */

bool choice_recomputes_alike(const struct choice *a, const struct choice *b)
{
    return a->recompute == b->recompute && a->saved == b->saved && a->discard == b->discard;
}

bool choice_equal(const struct choice *a, const struct choice *b)
{
    return a->shard == b->shard && choice_recomputes_alike(a, b) && a->offload == b->offload &&
           a->parts == b->parts && a->joins == b->joins && split_equal(&a->split, &b->split) &&
           a->own_back == b->own_back && (!a->own_back || split_equal(&a->back, &b->back));
}

const char *choice_recompute_text(const struct choice *choice)
{
    return choice->saved       ? "saved"
           : choice->discard   ? "discard"
           : choice->recompute ? "true"
                               : "false";
}

const char *choice_offload_text(const struct choice *choice)
{
    static const char *const TEXTS[] = {
        [OFFLOAD_NOTHING] = "false", [OFFLOAD_CHECKPOINTS] = "true", [OFFLOAD_KEPT] = "kept"};
    return TEXTS[choice->offload];
}

static uint64_t choice_hash(const struct choice *choice)
{
    int32_t words[4 * MAX_SPLIT_PARTS + 7] = {choice->shard,   choice->recompute, choice->saved,
                                              choice->discard, choice->offload,   choice->parts,
                                              choice->joins};
    size_t used = 7;
    for (int backward = 0; backward < 1 + choice->own_back; backward++) {
        const struct split *split = choice_split(choice, backward);
        for (int32_t i = 0; i < split->parts; i++) {
            words[used++] = split->part[i].dim | split->part[i].run << 8;
            words[used++] = split->part[i].degree;
        }
    }
    return hash_bytes(words, used * sizeof words[0], 0);
}

static bool same_choice(const void *choices, int64_t number, const void *wanted)
{
    return choice_equal((const struct choice *)choices + number, wanted);
}

static weft_status intern(struct plan *plan, const struct choice *choice, uint16_t *number)
{
    struct choice_table *table = plan->table;
    uint64_t hash = choice_hash(choice);
    if (plan->choices == MOST_CHOICES &&
        hash_get_same(&table->numbers, hash, same_choice, plan->choice, choice) < 0)
        return bad_argument("let instances share choices", "the plan has more than %d choices",
                            MOST_CHOICES);
    int64_t *known =
        hash_at_same(&table->numbers, plan->arena, hash, same_choice, plan->choice, choice);
    if (*known < 0) {
        if ((size_t)plan->choices == table->room)
            plan->choice = array_grow(plan->arena, plan->choice, &table->room, sizeof *choice);
        plan->choice[plan->choices] = *choice;
        *known = plan->choices++;
    }
    *number = (uint16_t)*known;
    return WEFT_OK;
}

/* ---- making and changing a plan -------------------------------------------------------------- */

static void set_defaults(struct plan *plan)
{
    plan->dtype = plan->model->dtype;
    plan->policy = policy_for(plan->dtype);
    plan->global_batch = plan->step_samples = 1;
    plan->overlap = OVERLAP_ALL;
    plan->bucket_bytes = DEFAULT_BUCKET_BYTES;
    plan->schedule = schedule_default(1, 1)->name;
    plan->pieces = plan->stages = plan->parts = 1;
    plan->stage = ARENA_NEW(plan->arena, struct stage);
    plan->stage[0] = (struct stage){0, cluster_devices(plan->cluster)};
    plan->part = ARENA_NEW(plan->arena, struct part);
    plan->part[0] = (struct part){0, plan->instances};
}

static const char *copy_name(struct plan *plan, const char *name)
{
    return name ? arena_copy_text(plan->arena, name) : NULL;
}

void plan_set_names(struct plan *plan, const char *model, const char *options, const char *cluster)
{
    plan->model_name = copy_name(plan, model);
    plan->model_options = copy_name(plan, options);
    plan->cluster_name = copy_name(plan, cluster);
}

void plan_copy_settings(struct plan *to, const struct plan *from)
{
    to->dtype = from->dtype;
    to->policy = from->policy;
    to->software = from->software;
    to->optimizer = from->optimizer;
    to->replicate = from->replicate;
    to->optimizer_offload = from->optimizer_offload;
    to->stage_run = from->stage_run;
    to->group = from->group;
    to->memory = from->memory;
    to->overlap = from->overlap;
    to->bucket_bytes = from->bucket_bytes;
    to->whole_sends = from->whole_sends;
}

enum policy policy_for(enum dtype dtype)
{
    return dtype == DTYPE_FP32 || dtype == DTYPE_TF32 ? POLICY_FP32 : POLICY_MIXED;
}

weft_status plan_new(const struct model *model, const struct cluster *cluster, struct plan **out)
{
    weft_status status;
    struct arena *arena = arena_new();
    struct plan *plan = ARENA_NEW(arena, struct plan);
    plan->arena = arena;
    plan->model = model;
    plan->cluster = cluster;
    plan->table = ARENA_NEW(arena, struct choice_table);
    TRY(unroll(plan));
    set_defaults(plan);
    TRY(copy_misfits(plan));
    *out = plan;
    plan = NULL;
done:
    plan_free(plan);
    return status;
}

void plan_free(struct plan *plan)
{
    if (plan)
        arena_free(plan->arena);
}

weft_status plan_choose(struct plan *plan, int64_t instance, const struct choice *choice)
{
    const struct stage *stage =
        &plan->stage[plan_stage_of_part(plan, plan_part_of(plan, instance))];
    int64_t covered = split_devices(&choice->split);
    struct choice kept = *choice;
    if (choice->own_back) /* the same, or of a stage that it was on before */
        choice_set_back(&kept, split_devices(&choice->back) == stage->devices ? &choice->back
                                                                              : &choice->split);
    if (covered == stage->devices) /* I3 */
        return intern(plan, &kept, &plan->choice_of[instance]);
    struct arena *scratch = arena_new();
    weft_status status =
        bad_argument(NULL, "%s: the split '%s' is for %s, its stage has %lld",
                     plan_path(scratch, plan, instance), split_text(scratch, &choice->split),
                     counted(covered, "device").s, (long long)stage->devices);
    if (stage->devices % covered == 0)
        error_hint("add copy:%lld for devices that hold the same",
                   (long long)(stage->devices / covered));
    arena_free(scratch);
    return status;
}

/* The choice unchanged if it covers the devices, else a choice that is copied over them. */
static weft_status copy_choice(struct plan *plan, int64_t devices, uint16_t *number)
{
    static const struct choice PLAIN = {0};
    struct choice choice = *number < plan->choices ? plan->choice[*number] : PLAIN;
    if (plan->choices && split_devices(&choice.split) == devices)
        return WEFT_OK;
    choice.own_back = false;
    choice.split = split_none();
    if (!split_add(&choice.split, SPLIT_COPY, devices))
        return bad_argument(NULL, "a stage of %s, expected fewer than 2^31",
                            counted(devices, "device").s);
    return intern(plan, &choice, number);
}

weft_status copy_misfits(struct plan *plan)
{
    int64_t devices = 0;
    int32_t from = -1, to = -1; /* of the instance before, which mostly has the same choice */
    weft_status status = WEFT_OK;
    for (int32_t p = 0; p < plan->parts; p++) {
        int64_t before = devices;
        const struct part *part = &plan->part[p];
        devices = plan->stage[plan_stage_of_part(plan, p)].devices;
        from = devices == before ? from : -1;
        for (int64_t i = part->first; i < part->first + part->count; i++) {
            if (plan->choice_of[i] != from) {
                from = plan->choice_of[i];
                TRY(copy_choice(plan, devices, &plan->choice_of[i]));
                to = plan->choice_of[i];
            }
            plan->choice_of[i] = to;
        }
    }
done:
    return status;
}

/* ---- asking ---------------------------------------------------------------------------------- */

struct pipeline plan_pipeline(const struct plan *plan)
{
    const struct pipeline *listed = plan->listed ? &plan->listed->lists->pipeline : NULL;
    return (struct pipeline){plan->stages, (int32_t)plan->pieces, (int32_t)plan_micro_batches(plan),
                             (int32_t)plan->group,
                             listed && listed->stages == plan->stages ? listed->joins : NULL};
}

struct pipeline plan_pipeline_of(const struct plan *plan, int64_t micro_batches)
{
    struct pipeline pipeline = plan_pipeline(plan);
    const struct schedule *schedule = plan_row(plan);
    if (schedule && schedule->grouped)
        pipeline.group = pipeline_group(&pipeline);
    pipeline.micro_batches = (int32_t)micro_batches;
    return pipeline;
}

int64_t plan_round(const struct plan *plan)
{
    struct pipeline pipeline = plan_pipeline(plan);
    return schedule_round(plan_row(plan), &pipeline);
}

int64_t plan_fewer_micro_batches(const struct plan *plan, int64_t rounds)
{
    int64_t round = plan_round(plan), all = plan_micro_batches(plan);
    int64_t left = all % round + round * rounds;
    return left < all && !plan->listed ? left : all;
}

int32_t plan_stage_of_part(const struct plan *plan, int32_t part)
{
    return stage_with_part(plan->zigzag, plan->stages, part);
}

int32_t plan_part_of_piece(const struct plan *plan, int32_t stage, int32_t piece)
{
    return part_of_piece(plan->zigzag, plan->stages, stage, piece);
}

int32_t plan_next_part(const struct plan *plan, int32_t part)
{
    return next_part_of_stage(plan->zigzag, plan->stages, part);
}

bool plan_part_is_turned(const struct plan *plan, int32_t part)
{
    return plan->both_ways && part / plan->stages % 2;
}

int64_t plan_place(const struct plan *plan, int32_t part, int64_t device)
{
    int64_t devices = plan->stage[plan_stage_of_part(plan, part)].devices;
    return plan_part_is_turned(plan, part) ? (device + devices / 2) % devices : device;
}

int32_t plan_part_of(const struct plan *plan, int64_t instance)
{
    int32_t low = 0, high = plan->parts - 1;
    while (low < high) {
        int32_t middle = low + (high - low + 1) / 2;
        if (plan->part[middle].first <= instance)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

const char *plan_path(struct arena *keep, const struct plan *plan, int64_t instance)
{
    const struct instance *i = &plan->instance[instance];
    return op_path(keep, plan->model, &plan->model->op[i->op], i->copy);
}
