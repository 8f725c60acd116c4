/* layer_pace.c - what a profile of whole layers says about a model (Galvatron-BMW, section V: t of a layer and sample).
 *
 *   pace = sum over layers of formula_ns / sum over layers of measured_ns                                     (1)
 *
 * is how many times as fast the layers were measured as their operators' formulas have them, in the forward pass of
 * one sample among PROFILED_SAMPLES. With this pace of its device, whoever asks for a layer is told the measured time.
 *
 *   I1  A layer is recognised by its weights and its positions, not by names: no two layers of a profile are alike in
 *       both. The authors count a layer's weights with up to WEIGHTS_PERCENT more than its shape has.
 *   I2  Either all layers of the model were measured, in its type, or the profile says nothing about it.
 *   I3  The backward pass, and what is outside of layers, is paced likewise: the profile has no times of these.
 */
#include <math.h>

#include "cost/profile.h"

/* Galvatron profiles layers with several samples at once; 8 is the batch of its scripts. */
enum { PROFILED_SAMPLES = 8, WEIGHTS_PERCENT = 4, POSITIONS_PERCENT = 2 };

struct layer_facts {
    int64_t copies, seq;
    double weight_bytes, formula_ns; /* of a sample */
};

static bool within(double a, double b, double percent)
{
    return fabs(a - b) <= percent / 100 * b;
}

static bool is_numbered(const struct module *module)
{
    return module->repeat > 1 || module->indexed;
}

/* The modules that are layers: numbered ones with no numbered ones inside. */
static bool is_layer(const struct model *model, int32_t module)
{
    bool innermost = is_numbered(&model->module[module]);
    for (int32_t below = 0; innermost && below < model->modules; below++) {
        int32_t up = is_numbered(&model->module[below]) ? model->module[below].parent : -1;
        while (up >= 0 && up != module)
            up = model->module[up].parent;
        innermost = up < 0;
    }
    return innermost;
}

/* Positions that a product of weights computes; 0: the operator is none. */
static int64_t positions(const struct op *op)
{
    int seq = op->kind == OP_LINEAR ? op_find_dim(op->kind, DIM_SEQ) : -1;
    return seq < 0 ? 0 : op->size[seq];
}

static struct layer_facts facts_of(struct cost *cost, const struct model *model, int32_t module,
                                   enum dtype dtype)
{
    const struct module *m = &model->module[module];
    struct layer_facts facts = {.copies = m->repeat};
    for (int32_t i = m->first_op; i < m->first_op + m->ops; i++) {
        const struct op *op = &model->op[i];
        double inner = (double)(op_copies(model, op) / m->repeat);
        int64_t size[OP_MAX_DIMS];
        op_full_size(op, PROFILED_SAMPLES, size);
        struct work work = op_work(op, size, op_dtype(model, i, dtype), PHASE_FORWARD);
        facts.formula_ns +=
            inner * (double)cost_on_device(cost, &work).ns / (double)PROFILED_SAMPLES;
        facts.weight_bytes += inner * op_parameters(op) * (double)dtype_bytes(dtype);
        if (positions(op) &&
            (!facts.seq || positions(op) < facts.seq)) /* a decoder's own, not its keys' */
            facts.seq = positions(op);
    }
    return facts;
}

static const struct layer_profile *measured_as(const struct layer_facts *facts, enum dtype dtype,
                                               const struct layer_profile *layer, size_t layers)
{
    for (size_t i = 0; i < layers; i++)
        if (layer[i].dtype == dtype &&
            within(facts->weight_bytes, (double)layer[i].weight_bytes, WEIGHTS_PERCENT) &&
            within((double)facts->seq, (double)layer[i].seq, POSITIONS_PERCENT))
            return &layer[i]; /* I1 */
    return NULL;
}

weft_status layer_pace(const char *profile_path, const struct device *device,
                       const struct model *model, enum dtype dtype, struct layer_pace *out)
{
    struct arena *arena = arena_new();
    struct profile *profile = NULL;
    struct cost *cost = NULL;
    struct layer_profile *layer;
    double formula_ns = 0, measured_ns = 0;
    bool all = true;
    size_t layers;
    weft_status status;
    *out = (struct layer_pace){0};
    TRY(profile_open(profile_path, &profile));
    TRY(profile_layers(profile, device->name, NULL, arena, &layer, &layers));
    TRY(profile_constant(profile, device->name, "overlap_slowdown", &out->overlap_slowdown,
                         &out->has_slowdown));
    if (!layers)
        goto done;
    TRY(cost_open(device, profile_path, &cost));
    for (int32_t m = 0; all && m < model->modules; m++) {
        if (!is_layer(model, m))
            continue;
        struct layer_facts facts = facts_of(cost, model, m, dtype);
        const struct layer_profile *measured = measured_as(&facts, dtype, layer, layers);
        all = measured != NULL; /* I2 */
        formula_ns += (double)facts.copies * facts.formula_ns;
        measured_ns += all ? (double)facts.copies * measured->forward_ns : 0;
        out->layers += facts.copies;
    }
    out->pace = all && measured_ns > 0 ? formula_ns / measured_ns : 0; /* (1) */
done:
    cost_close(cost);
    profile_close(profile);
    arena_free(arena);
    return status;
}
