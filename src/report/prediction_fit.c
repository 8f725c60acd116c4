/* prediction_fit.c - whether a plan fits in memory, and what would help if it does not.
 *
 *   I1  A proposal is never something that the plan already does. Proposals are about the classes of
 *       memory that the stage holds; those for the largest class come first.
 */
#include <math.h>
#include <stdio.h>

#include "report/report.h"

static double fullness(const struct stage_peak *memory)
{
    return memory->limit > 0 ? (double)stage_needed(memory) / (double)memory->limit : 0;
}

int32_t fullest_stage(const struct prediction *prediction)
{
    int32_t fullest = 0;
    for (int32_t i = 1; i < prediction->plan->stages; i++)
        if (fullness(&prediction->stage[i].memory) > fullness(&prediction->stage[fullest].memory))
            fullest = i;
    return fullest;
}

static int32_t stages_over(const struct prediction *prediction)
{
    int32_t count = 0;
    for (int32_t i = 0; i < prediction->plan->stages; i++)
        count += fullness(&prediction->stage[i].memory) > 1;
    return count;
}

static double tenths(double value)
{
    return round(10 * value) / 10;
}

/* "reserved 68.1, context 1.1, communicators 0.4, margin 1.6", rounded so that they add up to what is needed
 * (prediction.h, I2); of what is 0 nothing. */
static const char *terms_text(struct arena *keep, const struct stage_peak *memory, double unit)
{
    const struct {
        const char *name;
        int64_t bytes;
    } terms[] = {{"reserved", memory->reserved},
                 {"context", memory->context},
                 {"communicators", memory->communicators},
                 {"margin", memory->margin}};
    const char *text = "";
    double sum = 0;
    for (size_t i = 0; i < COUNT_OF(terms); i++) {
        double before = tenths(sum / unit);
        sum += (double)terms[i].bytes;
        if (terms[i].bytes)
            text = arena_printf(keep, "%s%s%s %.1f", text, i ? ", " : "", terms[i].name,
                                tenths(sum / unit) - before);
    }
    return text;
}

/* The arithmetic of (1) in plan.h: "71.2 of 80.0 GiB: reserved 68.1, context 1.1, ...". */
static const char *needed_text(struct arena *keep, const struct stage_peak *memory)
{
    static const double GIB = 0x1p30, MIB = 0x1p20;
    bool large = (double)memory->limit >= GIB;
    double unit = large ? GIB : MIB;
    return arena_printf(keep, "%.1f of %.1f %s: %s", tenths((double)stage_needed(memory) / unit),
                        (double)memory->limit / unit, large ? "GiB" : "MiB",
                        terms_text(keep, memory, unit));
}

/* "stage 3 needs 80.1 of 80.0 GiB: reserved 76.9, context 1.0, ...; 61 MiB too much" */
static const char *shortage(struct arena *keep, const struct prediction *prediction)
{
    int32_t stage = fullest_stage(prediction), others = stages_over(prediction) - 1;
    const struct stage_peak *memory = &prediction->stage[stage].memory;
    const char *also = others > 0 ? arena_printf(keep, "; %d more stage%s too full", others,
                                                 others == 1 ? " is" : "s are")
                                  : "";
    return arena_printf(keep, "stage %d needs %s; %s too much%s", stage, needed_text(keep, memory),
                        show_bytes((double)(stage_needed(memory) - memory->limit)).s, also);
}

/* Whether every stage that is too full runs with free segments returned to its device. */
static bool runs_by_returning(const struct prediction *prediction)
{
    for (int32_t s = 0; s < prediction->plan->stages; s++) {
        const struct stage_peak *memory = &prediction->stage[s].memory;
        if (stage_needed(memory) > memory->limit && !memory->returning)
            return false;
    }
    return true;
}

const char *memory_verdict(struct arena *keep, const struct prediction *prediction)
{
    if (!prediction->fits)
        return arena_printf(keep, "does not fit: %s%s", shortage(keep, prediction),
                            runs_by_returning(prediction)
                                ? "; PyTorch runs it all the same, but returns free segments to "
                                  "the device whenever it is full, which takes time"
                                : "");
    int32_t stage = fullest_stage(prediction);
    return arena_printf(keep, "fits: stage %d is fullest, %s", stage,
                        needed_text(keep, &prediction->stage[stage].memory));
}

/* ---- what would help ------------------------------------------------------------------------- */

/* What the operators of a stage already do to save memory. */
struct stage_practice {
    bool all_recompute;         /* all that --recompute full recomputes (plan/lowering.c) */
    bool all_offload;           /* all that are recomputed */
    int shard;                  /* the lowest of any operator with replicas; 3 if there are none */
    int64_t per_device;         /* the most samples of a micro-batch that one device takes */
    double weights, replicated; /* elements on a device: all, and those with replicas */
    bool state_is_it;           /* the device would have room without the optimizer state on it */
};

static double local_weights(const struct plan *plan, const struct op *op,
                            const struct choice *choice)
{
    int64_t local[OP_MAX_DIMS];
    double elements = 0;
    split_local(op, &choice->split, plan_samples(plan, choice), local);
    for (int32_t i = 0; i < op->weights; i++)
        elements += operand_elements(op, &op->weight[i].operand, local);
    return elements;
}

static bool can_run_again(const struct model *model, const struct op *op)
{
    return op_in_layer(model, op) && (!op->frozen || op->input_grad);
}

static void look_at(const struct plan *plan, int64_t instance, struct stage_practice *out)
{
    const struct choice *choice = plan_choice(plan, instance);
    const struct op *op = &plan->model->op[plan->instance[instance].op];
    int64_t samples = plan_samples(plan, choice) / split_degree(&choice->split, DIM_BATCH);
    out->all_recompute &= choice->recompute || !can_run_again(plan->model, op);
    out->all_offload &= choice->offload || !choice->recompute;
    double weights = local_weights(plan, op, choice);
    out->weights += weights;
    if (split_replicas(op, &choice->split) > 1) {
        out->replicated += weights;
        if (op->weights > 0 && choice->shard < out->shard)
            out->shard = choice->shard;
    }
    if (samples > out->per_device)
        out->per_device = samples;
}

static struct stage_practice practice_of(const struct prediction *prediction, int32_t stage)
{
    const struct plan *plan = prediction->plan;
    const struct stage_peak *memory = &prediction->stage[stage].memory;
    struct stage_practice practice = {.all_recompute = true, .all_offload = true, .shard = 3};
    practice.state_is_it = stage_needed(memory) - memory->state[MEMORY_OPTIMIZER] <= memory->limit;
    for (int32_t part = stage; part < plan->parts; part = plan_next_part(plan, part))
        for (int64_t i = 0; i < plan->part[part].count; i++)
            look_at(plan, plan->part[part].first + i, &practice);
    return practice;
}

static bool can_recompute(const struct stage_practice *practice)
{
    return !practice->all_recompute;
}
static bool can_offload(const struct stage_practice *practice)
{
    return practice->all_recompute && !practice->all_offload;
}
static bool can_take_fewer(const struct stage_practice *practice)
{
    return practice->per_device > 1;
}
/* Only if replicas are a considerable share: the norms, which tensor parallelism replicates, are not worth sharding. */
static bool has_replicas(const struct stage_practice *practice)
{
    return practice->replicated > 0.1 * practice->weights;
}
static bool can_shard_optimizer(const struct stage_practice *practice)
{
    return has_replicas(practice) && practice->shard < 1;
}
/* Without replicas every device already holds a part of its own. */
static bool can_divide(const struct stage_practice *practice)
{
    return has_replicas(practice);
}
static bool can_keep_state_on_host(const struct stage_practice *practice)
{
    return practice->state_is_it && !can_shard_optimizer(practice);
}
static bool can_shard_gradients(const struct stage_practice *practice)
{
    return has_replicas(practice) && practice->shard < 2;
}
static bool can_shard_weights(const struct stage_practice *practice)
{
    return has_replicas(practice) && practice->shard < 3;
}

/* For each class of memory, the means that costs least comes first. */
static const struct {
    enum memory_class memory;
    bool (*applies)(const struct stage_practice *practice);
    const char *words;
} MEANS[] = {
    {MEMORY_ACTIVATIONS, can_recompute, "recompute more (--recompute full)"},
    {MEMORY_ACTIVATIONS, can_take_fewer, "smaller micro-batches (--microbatch)"},
    {MEMORY_ACTIVATIONS, can_offload, "checkpoints in host memory (--offload)"},
    {MEMORY_OPTIMIZER, can_shard_optimizer, "sharded optimizer state (--zero 1)"},
    {MEMORY_OPTIMIZER, can_keep_state_on_host,
     "optimizer state in host memory (--optimizer-offload 1)"},
    {MEMORY_GRADIENTS, can_shard_gradients, "sharded gradients (--zero 2)"},
    {MEMORY_WEIGHTS, can_shard_weights, "sharded weights (--zero 3)"},
};
static const char DIVIDE[] = "more stages or tensor parallelism (--pp, --tp)";

/* The classes of memory, the one of which a device holds most first. */
static void rank_classes(const struct stage_peak *memory, enum memory_class *out)
{
    for (int c = 0; c < MEMORY_CLASS_COUNT; c++) {
        int place = c;
        for (; place > 0 && memory->bytes[out[place - 1]] < memory->bytes[c]; place--)
            out[place] = out[place - 1];
        out[place] = (enum memory_class)c;
    }
}

static const char *means(struct arena *keep, const struct prediction *prediction)
{
    enum { MOST = 3 };
    int32_t stage = fullest_stage(prediction);
    struct stage_practice practice = practice_of(prediction, stage);
    enum memory_class ranked[MEMORY_CLASS_COUNT];
    const struct stage_peak *memory = &prediction->stage[stage].memory;
    rank_classes(memory, ranked);
    const char *text = "";
    int found = 0;
    for (int c = 0; c < MEMORY_CLASS_COUNT && memory->bytes[ranked[c]] > 0; c++) {
        for (size_t i = 0; i < COUNT_OF(MEANS) && found < MOST; i++) {
            if (MEANS[i].memory != ranked[c] || !MEANS[i].applies(&practice))
                continue;
            text = arena_printf(keep, "%s%s, ", text, MEANS[i].words);
            found++;
        }
    }
    return arena_printf(keep, "it is mostly %s memory; what helps: %s%s",
                        memory_class_name(ranked[0]), text,
                        can_divide(&practice) ? DIVIDE : "more devices");
}

weft_status must_fit(struct arena *scratch, const struct prediction *prediction)
{
    if (prediction->fits)
        return WEFT_OK;
    return no_answer(means(scratch, prediction), "the plan does not fit in memory: %s",
                     shortage(scratch, prediction));
}
