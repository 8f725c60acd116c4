/* model.c - questions to a finished model: work of an operator, totals of a module, paths. */
#include "model/kind_work.h"
#include "model/model.h"

#include <stdio.h>
#include <string.h>

void model_free(struct model *model)
{
    if (model)
        arena_free(model->arena);
}

int64_t element_bytes(enum element element, enum dtype dtype)
{
    static const int64_t BYTES[] = {[ELEMENT_FP32] = 4, [ELEMENT_INDEX] = 8, [ELEMENT_BYTE] = 1};
    return element == ELEMENT_COMPUTE ? dtype_bytes(dtype) : BYTES[element];
}

void op_full_size(const struct op *op, int64_t batch, int64_t *size)
{
    memcpy(size, op->size, sizeof op->size);
    for (int i = 0; i < OP_MAX_DIMS; i++)
        if (OP_KINDS[op->kind].dims[i].role == ROLE_BATCH)
            size[i] *= batch;
}

bool operand_has_dim(const struct operand *operand, int place)
{
    for (int a = 0; a < operand->axes; a++)
        for (int k = 0; k < MAX_AXIS_DIMS && operand->dims[a][k] >= 0; k++)
            if (operand->dims[a][k] == place)
                return true;
    return false;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

double operand_bytes(const struct op *op, const struct operand *operand, const int64_t *local,
                     enum dtype dtype)
{
    return operand_elements(op, operand, local) * (double)element_bytes(operand->element, dtype);
}

static double input_bytes(const struct op *op, const int64_t *local, enum dtype dtype)
{
    double bytes = 0;
    for (int32_t i = 0; i < op->inputs; i++)
        bytes += operand_bytes(op, &op->input[i], local, dtype);
    return bytes;
}

static double weight_bytes(const struct op *op, const int64_t *local, enum dtype dtype)
{
    double bytes = 0;
    for (int32_t i = 0; i < op->weights; i++)
        bytes += operand_bytes(op, &op->weight[i].operand, local, dtype);
    return bytes;
}

/* The part of a whole operator's output that is on a device; of a loss, whose probabilities also shrink with the vocabulary,
 * of its input. */
static double own_share(const struct op *op, const int64_t *local)
{
    const struct operand *operand = op->kind == OP_LOSS ? &op->input[0] : &op->output;
    return operand_elements(op, operand, local) / operand_elements(op, operand, op->size);
}

/* Masks and statistics shrink with the output; most operators have neither. */
double op_extra_bytes(const struct op *op, const int64_t *local, enum dtype dtype)
{
    double kept = (double)op->kept_elements * dtype_bytes(dtype) + (double)op->kept_fp32 * 4;
    double bytes = op->keep & KEEP_MASK ? operand_elements(op, &op->output, local) : 0;
    return kept > 0 ? bytes + own_share(op, local) * kept : bytes;
}

static double kept_operand_bytes(const struct op *op, const int64_t *local, enum dtype dtype)
{
    static const unsigned INPUTS[] = {KEEP_INPUT_0, KEEP_INPUT_1, KEEP_INPUT_2};
    double bytes = op->keep & KEEP_OUTPUT ? operand_bytes(op, &op->output, local, dtype) : 0;
    for (int32_t i = 0; i < op->inputs && i < (int32_t)COUNT_OF(INPUTS); i++)
        if (op->keep & INPUTS[i])
            bytes += operand_bytes(op, &op->input[i], local, dtype);
    return bytes + op_extra_bytes(op, local, dtype);
}

/* Weights with two or more axes are matrices, which the input's gradient reads. The vectors of a
 * norm and the few taps of a depthwise convolution are too small to count there, but what such an
 * operator keeps of its inputs is counted. */
static bool has_matrix(const struct op *op)
{
    return op->weights && op->weight[0].operand.axes >= 2 && op->kind != OP_CONV1D;
}

/* A causal softmax does not read the masked half of its matrix. */
static double read_share(const struct op *op)
{
    return op->kind == OP_SOFTMAX && op->causal ? 0.5 : 1;
}

static void forward_bytes(const struct op *op, const int64_t *local, struct work *work)
{
    double out = operand_bytes(op, &op->output, local, work->dtype);
    double weights = weight_bytes(op, local, work->dtype);
    if (work->kernel == KERNEL_EMBEDDING && weights > out)
        weights = out; /* a lookup reads the rows that it returns, not the whole table */
    work->read_bytes = (input_bytes(op, local, work->dtype) + weights) * read_share(op);
    work->write_bytes = out + op_extra_bytes(op, local, work->dtype);
}

static void backward_input_bytes(const struct op *op, const int64_t *local, struct work *work)
{
    double out = operand_bytes(op, &op->output, local, work->dtype);
    work->read_bytes = out + (has_matrix(op) ? weight_bytes(op, local, work->dtype)
                                             : kept_operand_bytes(op, local, work->dtype));
    work->read_bytes *= read_share(op);
    work->write_bytes = input_bytes(op, local, work->dtype);
}

static void backward_weight_bytes(const struct op *op, const int64_t *local, struct work *work)
{
    if (op->kind == OP_ATTENTION) { /* for sinks, see sinks_work */
        work->read_bytes = op_extra_bytes(op, local, work->dtype);
        work->write_bytes = weight_bytes(op, local, work->dtype);
        return;
    }
    work->read_bytes = operand_bytes(op, &op->output, local, work->dtype) +
                       (op->inputs ? operand_bytes(op, &op->input[0], local, work->dtype) : 0);
    work->write_bytes = weight_bytes(op, local, work->dtype);
}

/* The gradients of the weights of a scan or delta rule are computed together with those of its inputs. */
struct work op_work(const struct op *op, const int64_t *size, enum dtype dtype, enum phase phase)
{
    static void (*const BYTES[])(const struct op *, const int64_t *, struct work *) = {
        [PHASE_FORWARD] = forward_bytes,
        [PHASE_BACKWARD_INPUT] = backward_input_bytes,
        [PHASE_BACKWARD_WEIGHT] = backward_weight_bytes,
    };
    struct work work = {.kernel = KERNEL_COPY, .phase = phase, .dtype = dtype};
    bool idle = (phase == PHASE_BACKWARD_INPUT && !op->input_grad) ||
                (phase == PHASE_BACKWARD_WEIGHT &&
                 (!op_trains(op) || op->kind == OP_SCAN || op->kind == OP_DELTA));
    if (idle)
        return work;
    OP_KINDS[op->kind].work(op, size, phase, &work);
    BYTES[phase](op, size, &work);
    return work;
}

bool op_is_activation(enum op_kind kind)
{
    return kind == OP_GELU || kind == OP_RELU || kind == OP_SILU || kind == OP_GATED;
}

enum dtype op_dtype(const struct model *model, int32_t op, enum dtype dtype)
{
    enum op_kind kind = model->op[op].kind;
    bool product = kind == OP_LINEAR || kind == OP_EXPERT_LINEAR;
    bool logits = op + 1 < model->ops && model->op[op + 1].kind == OP_LOSS;
    return dtype_is_cast(dtype) && (!product || logits) ? DTYPE_BF16 : dtype;
}

int64_t tensor_bytes(const struct tensor *tensor, int64_t batch, enum dtype dtype)
{
    int64_t elements = batch;
    for (int i = 0; i < tensor->axes; i++)
        elements *= tensor->size[i];
    return elements * element_bytes(tensor->element, dtype);
}

/* ---- totals ---------------------------------------------------------------------------------- */

double op_parameters(const struct op *op)
{
    double parameters = 0;
    for (int32_t i = 0; i < op->weights; i++)
        if (op->weight[i].tied_op < 0)
            parameters += operand_elements(op, &op->weight[i].operand, op->size);
    return parameters;
}

static int64_t copies_of(const struct model *model, int32_t module)
{
    int64_t copies = 1;
    for (; module >= 0; module = model->module[module].parent)
        copies *= model->module[module].repeat;
    return copies;
}

int64_t op_copies(const struct model *model, const struct op *op)
{
    return copies_of(model, op->module);
}

const struct op *model_op_of_kind(const struct model *model, enum op_kind kind)
{
    for (int32_t i = 0; i < model->ops; i++)
        if (model->op[i].kind == kind && model->op[i].place != PLACE_TOWER)
            return &model->op[i];
    return NULL;
}

double model_norm_epsilon(const struct model *model)
{
    for (int32_t i = 0; i < model->ops; i++)
        if (model->op[i].epsilon > 0 && model->op[i].place != PLACE_TOWER)
            return model->op[i].epsilon;
    return NORM_EPSILON;
}

bool model_has_tower(const struct model *model)
{
    return model->images > 0;
}

bool op_in_layer(const struct model *model, const struct op *op)
{
    int32_t module = op->module;
    while (module >= 0 && !model->module[module].indexed)
        module = model->module[module].parent;
    return module >= 0;
}

/* The model's own inputs are kept by the operators that read them. */
static double kept_inputs(const struct model *model, const struct op *op, const int64_t *local,
                          enum dtype dtype)
{
    static const unsigned INPUTS[] = {KEEP_INPUT_0, KEEP_INPUT_1, KEEP_INPUT_2};
    double bytes = 0;
    for (int32_t i = 0; i < op->inputs && i < (int32_t)COUNT_OF(INPUTS); i++) {
        const struct tensor *t = &model->tensor[op->input[i].tensor];
        while (t->view_of >= 0)
            t = &model->tensor[t->view_of];
        if ((op->keep & INPUTS[i]) && t->producer < 0 && t->carry_module < 0)
            bytes += operand_bytes(op, &op->input[i], local, dtype);
    }
    return bytes;
}

double op_kept_bytes(const struct model *model, const struct op *op, const int64_t *local,
                     enum dtype dtype)
{
    bool kept = model->tensor[op->output.tensor].kept != 0;
    return (kept ? operand_bytes(op, &op->output, local, dtype) : 0) +
           op_extra_bytes(op, local, dtype) + kept_inputs(model, op, local, dtype);
}

/* How many copies of an operator's output stay: see enum kept. */
static double kept_copies(const struct model *model, const struct op *op)
{
    unsigned kept = model->tensor[op->output.tensor].kept;
    double copies = (double)op_copies(model, op);
    if (kept & KEPT_WITHIN)
        return copies;
    int32_t module = op->module;
    while (module >= 0 && model->module[module].carry_in < 0)
        module = model->module[module].parent;
    double repeat = module >= 0 ? (double)model->module[module].repeat : 1;
    double stay = (kept & KEPT_NEXT ? repeat - 1 : 0) + (kept & KEPT_AFTER ? 1 : 0);
    return copies / repeat * stay;
}

struct totals op_totals(const struct model *model, const struct op *op, enum dtype dtype)
{
    struct totals totals = {.ops = op_copies(model, op)};
    double copies = (double)totals.ops;
    totals.parameters = op_parameters(op) * copies;
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        totals.flops[phase] = op_work(op, op->size, dtype, (enum phase)phase).flops * copies;
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        totals.masked_flops += masked_share(op) * totals.flops[phase];
    totals.kept_bytes =
        operand_bytes(op, &op->output, op->size, dtype) * kept_copies(model, op) +
        (op_extra_bytes(op, op->size, dtype) + kept_inputs(model, op, op->size, dtype)) * copies;
    return totals;
}

static void add_totals(struct totals *sum, const struct totals *more)
{
    sum->parameters += more->parameters;
    sum->kept_bytes += more->kept_bytes;
    sum->ops += more->ops;
    sum->masked_flops += more->masked_flops;
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        sum->flops[phase] += more->flops[phase];
}

struct totals module_totals(const struct model *model, int32_t module, enum dtype dtype)
{
    struct totals sum = {0};
    const struct module *m = &model->module[module];
    for (int32_t i = m->first_op; i < m->first_op + m->ops; i++) {
        struct totals one = op_totals(model, &model->op[i], dtype);
        add_totals(&sum, &one);
    }
    return sum;
}

struct totals model_totals(const struct model *model, enum dtype dtype)
{
    return module_totals(model, 0, dtype);
}

/* ---- paths ----------------------------------------------------------------------------------- */

bool module_is_named(const struct module *module)
{
    return module->name[0] != '\0';
}

struct series module_series(const struct model *model, int32_t module)
{
    const struct module *m = &model->module[module];
    const struct module *around = m->parent >= 0 ? &model->module[m->parent] : m;
    bool numbered_around = around->parent >= 0 && !module_is_named(around) && m->indexed;
    const struct module *repeat = numbered_around ? around : m;
    return (struct series){m->first_index, repeat->repeat, repeat->stride};
}

static const char *module_path(struct arena *keep, const struct model *model, int32_t module,
                               int64_t copy)
{
    const struct module *m = &model->module[module];
    if (m->parent < 0)
        return "";
    const char *above = module_path(keep, model, m->parent, copy / m->repeat);
    const char *dot = *above ? "." : "";
    if (!*m->name)
        /* a repeat without a name: the numbers of its indexed parts go on from copy to copy */
        return above;
    if (!m->indexed)
        return arena_printf(keep, "%s%s%s", above, dot, m->name);
    const struct module *outer = &model->module[m->parent];
    int64_t index = m->first_index + copy % m->repeat * m->stride;
    if (!*outer->name)
        index += copy / m->repeat % outer->repeat * outer->stride;
    return arena_printf(keep, "%s%s%s.%lld", above, dot, m->name, (long long)index);
}

const char *op_path(struct arena *keep, const struct model *model, const struct op *op,
                    int64_t copy)
{
    const char *above = module_path(keep, model, op->module, copy);
    return arena_printf(keep, "%s%s%s", above, *above ? "." : "", op->name);
}

int32_t tensor_storage(const struct model *model, int32_t tensor)
{
    while (model->tensor[tensor].view_of >= 0)
        tensor = model->tensor[tensor].view_of;
    return tensor;
}
