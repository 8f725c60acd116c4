/* kernel_lab.h - runs one operator's kernels, whole or in parts, on random numbers.
 *
 *   I1  All numbers are representable in bf16, so that both dtypes start from the same ones.
 *   I2  Buffers have the sizes that the backend asks for, are filled with NaN, and what a backward
 *       phase may not read is not given to it.
 *   I3  Parts run on a thread each and meet in `reduce`.
 */
#ifndef WEFT_KERNEL_LAB_H
#define WEFT_KERNEL_LAB_H

#include <pthread.h>
#include <stdlib.h>

#include "kernel_reference.h"
#include "lab_device.h"

enum { LAB_PARTS = 4 };

struct lab {
    struct arena *arena;
    struct model *model;
    const struct op *op;
    struct rng rng;
    int64_t batch;
    int64_t whole[OP_MAX_DIMS];
    double *input[CALL_INPUTS], *weight[MAX_KIND_WEIGHTS], *output_gradient;
    int64_t *ids; /* of an embedding, or labels */
    float dropout;
    uint64_t seed;
    bool fp8;          /* of a product: its operands are cast */
    float *history;    /* FP8_HISTORY times three numbers of lab_new, or NULL: current scaling */
    unsigned unwanted; /* bits of inputs whose gradient nobody wants */
};

/* What kernels answer, whole, as doubles; weights' gradients less what was there before. */
struct answer {
    double *output, *input_gradient[CALL_INPUTS], *weight_gradient[MAX_KIND_WEIGHTS];
    uint8_t *kept; /* of the first part */
};

/* ---- bf16 ------------------------------------------------------------------------------------ */

static double bf16_value(double x)
{
    float f = (float)x;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    bits = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000U;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static double stored(enum dtype dtype, const void *from, int64_t i)
{
    if (dtype == DTYPE_FP32)
        return ((const float *)from)[i];
    float f;
    widen(dtype, from, i, 1, &f);
    return f;
}

static void store_at(enum dtype dtype, void *to, int64_t i, double x)
{
    float f = (float)x;
    if (dtype == DTYPE_FP32)
        ((float *)to)[i] = f;
    else
        narrow(dtype, &f, 1, to, i); /* I1 */
}

/* ---- operands -------------------------------------------------------------------------------- */

/* Elements of an axis with these local dims. */
static int64_t axis_elements(const struct op *op, const struct operand *operand, int axis,
                             const int64_t *size)
{
    int64_t all = operand->size[axis];
    for (int k = 0; k < MAX_AXIS_DIMS && operand->dims[axis][k] >= 0; k++) {
        int dim = operand->dims[axis][k];
        all = all * size[dim] / op->size[dim];
    }
    return all;
}

static int64_t elements_in(const struct op *op, const struct operand *operand, const int64_t *size)
{
    int64_t all = 1;
    for (int axis = 0; axis < operand->axes; axis++)
        all *= axis_elements(op, operand, axis, size);
    return all;
}

struct part {
    int64_t size[OP_MAX_DIMS], begin[OP_MAX_DIMS];
    bool adds_once;
};

/* Elements of an axis for each index of the dims but its innermost: what that one has of it. */
static int64_t inner_span(const struct lab *lab, const struct operand *operand, int axis, int last)
{
    int64_t span = axis_elements(lab->op, operand, axis, lab->whole);
    for (int k = 0; k < last; k++)
        span /= lab->whole[operand->dims[axis][k]];
    return span;
}

/* An index along an axis of a part, in the whole. */
static int64_t axis_in_whole(const struct lab *lab, const struct operand *operand, int axis,
                             const struct part *part, int64_t index)
{
    const int8_t *dims = operand->dims[axis];
    int last = -1;
    while (last + 1 < MAX_AXIS_DIMS && dims[last + 1] >= 0)
        last++;
    if (last < 0)
        return index;
    int64_t stride = inner_span(lab, operand, axis, last), whole = lab->whole[dims[last]];
    int64_t local = stride * part->size[dims[last]] / whole;
    int64_t result = stride * part->begin[dims[last]] / whole + index % local;
    index /= local;
    for (int k = last - 1; k >= 0; k--) {
        result += (part->begin[dims[k]] + index % part->size[dims[k]]) * stride;
        index /= part->size[dims[k]];
        stride *= lab->whole[dims[k]];
    }
    return result;
}

/* What a part reads of inputs: more than its own where the operator says so (kernels.h, I5). */
static struct part reach_of(const struct lab *lab, const struct part *part)
{
    struct part reach = *part;
    for (int dim = 0; dim < op_dims(lab->op->kind); dim++)
        if (reads_whole(lab->op, dim)) {
            reach.begin[dim] = 0;
            reach.size[dim] = lab->whole[dim];
        }
    return reach;
}

static int64_t place_in_whole(const struct lab *lab, const struct operand *operand,
                              const struct part *part, int64_t i)
{
    int64_t place = 0, stride = 1;
    for (int axis = operand->axes - 1; axis >= 0; axis--) {
        int64_t local = axis_elements(lab->op, operand, axis, part->size);
        place += axis_in_whole(lab, operand, axis, part, i % local) * stride;
        i /= local;
        stride *= axis_elements(lab->op, operand, axis, lab->whole);
    }
    return place;
}

static enum dtype dtype_of(const struct operand *operand, enum dtype dtype)
{
    return operand->element == ELEMENT_FP32 ? DTYPE_FP32 : dtype;
}

/* ---- parts that meet ------------------------------------------------------------------------- */

struct meeting {
    pthread_barrier_t barrier;
    pthread_mutex_t mutex;
    float *sum;
    int64_t entered;
};

struct local_op {
    const struct lab *lab;
    const struct part *part;
    struct kernel_call call;
    struct meeting *meeting;
    int64_t members;
    enum dtype dtype;
    bool backward;
};

static void meet(void *context, enum reduce op, float *data, int64_t count)
{
    struct local_op *local_op = context;
    struct meeting *m = local_op->meeting;
    pthread_mutex_lock(&m->mutex);
    if (m->entered++ == 0) {
        m->sum = malloc((size_t)count * sizeof *data);
        memcpy(m->sum, data, (size_t)count * sizeof *data);
    } else {
        for (int64_t i = 0; i < count; i++)
            m->sum[i] = op == REDUCE_SUM      ? m->sum[i] + data[i]
                        : m->sum[i] > data[i] ? m->sum[i]
                                              : data[i];
    }
    pthread_mutex_unlock(&m->mutex);
    pthread_barrier_wait(&m->barrier);
    memcpy(data, m->sum, (size_t)count * sizeof *data);
    if (pthread_barrier_wait(&m->barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
        free(m->sum);
        m->entered = 0;
    }
    pthread_barrier_wait(&m->barrier);
}

/* Splits of these dims need `reduce` within the operator. */
static bool meets_over(enum op_kind kind, int dim)
{
    return (kind == OP_LOSS && dim == 2) || (kind == OP_BATCH_NORM && dim != 1) ||
           (kind == OP_ATTENTION && dim == 4);
}

/* Parts that agree in all dims that need no meeting meet. */
static bool same_meeting(const struct lab *lab, const struct part *a, const struct part *b)
{
    for (int dim = 0; dim < op_dims(lab->op->kind); dim++)
        if (a->begin[dim] != b->begin[dim] && !meets_over(lab->op->kind, dim))
            return false;
    return true;
}

/* ---- running --------------------------------------------------------------------------------- */

static void *fresh(int64_t bytes)
{
    void *memory = lab_new(bytes);
    memset(memory, 0xff, (size_t)bytes); /* I2: NaN in fp32 and bf16 */
    return memory;
}

static int64_t bytes_of(enum dtype dtype, int64_t count)
{
    return count * dtype_bytes(dtype);
}

static void *part_of(const struct lab *lab, const struct operand *operand, const struct part *part,
                     const double *from, enum dtype dtype)
{
    int64_t count = elements_in(lab->op, operand, part->size);
    void *to = lab_new(bytes_of(dtype, count));
    for (int64_t i = 0; i < count; i++)
        store_at(dtype, to, i, from[place_in_whole(lab, operand, part, i)]);
    return to;
}

/* Token ids by the input, labels by the output. */
static int64_t *ids_of(const struct lab *lab, const struct operand *operand,
                       const struct part *part)
{
    int64_t count = elements_in(lab->op, operand, part->size);
    int64_t *to = lab_new(count * (int64_t)sizeof *to);
    for (int64_t i = 0; i < count; i++)
        to[i] = lab->ids[place_in_whole(lab, operand, part, i)];
    return to;
}

static void local_op_inputs(struct local_op *s)
{
    const struct lab *lab = s->lab;
    const struct op *op = lab->op;
    struct part reach = reach_of(lab, s->part);
    for (int i = 0; i < op->inputs; i++)
        s->call.input[i] = op->input[i].element == ELEMENT_INDEX
                               ? (void *)ids_of(lab, &op->input[i], &reach)
                               : part_of(lab, &op->input[i], &reach, lab->input[i],
                                         dtype_of(&op->input[i], s->dtype));
    if (op->kind == OP_LOSS)
        s->call.input[op->inputs] = ids_of(lab, &op->output, s->part);
    for (int i = 0; i < op->weights; i++)
        s->call.weight[i] = part_of(lab, &op->weight[i].operand, s->part, lab->weight[i], s->dtype);
}

static void local_op_results(struct local_op *s)
{
    const struct op *op = s->lab->op;
    enum dtype out = dtype_of(&op->output, s->dtype);
    struct part reach = reach_of(s->lab, s->part);
    s->call.output = fresh(bytes_of(out, elements_in(op, &op->output, s->part->size)));
    s->call.output_gradient = part_of(s->lab, &op->output, s->part, s->lab->output_gradient, out);
    for (int i = 0; i < op->inputs; i++)
        if (op->input[i].element != ELEMENT_INDEX && !(s->lab->unwanted >> i & 1))
            s->call.input_gradient[i] = fresh(bytes_of(dtype_of(&op->input[i], s->dtype),
                                                       elements_in(op, &op->input[i], reach.size)));
    for (int i = 0; i < op->weights; i++) {
        int64_t count = elements_in(op, &op->weight[i].operand, s->part->size);
        s->call.weight_gradient[i] = lab_new(count * (int64_t)sizeof(float));
        for (int64_t k = 0; k < count; k++)
            s->call.weight_gradient[i][k] = (float)(k % 3) * 0.5F;
    }
    s->call.kept = fresh(lab_backend()->kept_bytes(&s->call));
    s->call.scratch = fresh(lab_backend()->scratch_bytes(&s->call));
}

/* I2 */
static struct kernel_call backward_call(const struct local_op *s)
{
    static const unsigned INPUTS[] = {KEEP_INPUT_0, KEEP_INPUT_1, KEEP_INPUT_2};
    struct kernel_call call = s->call;
    for (int i = 0; i < s->lab->op->inputs; i++)
        if (i >= (int)COUNT_OF(INPUTS) || !(s->lab->op->keep & INPUTS[i]))
            call.input[i] = NULL;
    if (!(s->lab->op->keep & KEEP_OUTPUT))
        call.output = NULL;
    return call;
}

static void *run_seat(void *argument)
{
    struct local_op *s = argument;
    lab_call(lab_backend(), &s->call, PHASE_FORWARD);
    struct kernel_call call = backward_call(s);
    lab_call(lab_backend(), &call, PHASE_BACKWARD_INPUT);
    memset(call.scratch, 0xff, (size_t)lab_backend()->scratch_bytes(&call));
    lab_call(lab_backend(), &call, PHASE_BACKWARD_WEIGHT);
    return NULL;
}

/* Adds what a part answers to the whole. */
static void collect(const struct local_op *s, const struct operand *operand,
                    const struct part *part, const void *from, enum dtype dtype, double *to)
{
    for (int64_t i = 0; i < elements_in(s->lab->op, operand, part->size); i++)
        to[place_in_whole(s->lab, operand, part, i)] += stored(dtype, from, i);
}

/* An output that lacks a dim over which the operator does not sum is the same on all of its parts. */
static bool repeats_output(const struct local_op *s)
{
    const struct op *op = s->lab->op;
    for (int dim = 0; dim < op_dims(op->kind); dim++)
        if (s->part->begin[dim] && !operand_has_dim(&op->output, dim) &&
            OP_KINDS[op->kind].dims[dim].role != ROLE_REDUCE)
            return true;
    return false;
}

/* A weight that lacks a dim which the operator sums over: all parts compute the same gradient of it
 * (layout.c). */
static bool says_again(const struct local_op *s, const struct operand *operand)
{
    const struct op *op = s->lab->op;
    for (int dim = 0; dim < op_dims(op->kind); dim++)
        if (s->part->begin[dim] && !operand_has_dim(operand, dim) &&
            !operand_has_dim(&op->output, dim))
            return true;
    return false;
}

static void collect_all(struct local_op *s, struct answer *to)
{
    const struct op *op = s->lab->op;
    struct part reach = reach_of(s->lab, s->part);
    if (!repeats_output(s))
        collect(s, &op->output, s->part, s->call.output, dtype_of(&op->output, s->dtype),
                to->output);
    for (int i = 0; i < op->inputs; i++)
        if (s->call.input_gradient[i])
            collect(s, &op->input[i], &reach, s->call.input_gradient[i],
                    dtype_of(&op->input[i], s->dtype), to->input_gradient[i]);
    for (int i = 0; i < op->weights; i++) {
        float *gradient = s->call.weight_gradient[i];
        int64_t count = elements_in(op, &op->weight[i].operand, s->part->size);
        for (int64_t k = 0; k < count; k++)
            gradient[k] -= (float)(k % 3) * 0.5F;
        if (!says_again(s, &op->weight[i].operand))
            collect(s, &op->weight[i].operand, s->part, gradient, DTYPE_FP32,
                    to->weight_gradient[i]);
    }
}

static void free_seat(struct local_op *s)
{
    struct kernel_call *c = &s->call;
    for (int i = 0; i < CALL_INPUTS; i++) {
        lab_free(c->input[i]);
        lab_free(c->input_gradient[i]);
    }
    for (int i = 0; i < MAX_KIND_WEIGHTS; i++) {
        lab_free(c->weight[i]);
        lab_free(c->weight_gradient[i]);
    }
    lab_free(c->output);
    lab_free(c->output_gradient);
    lab_free(c->kept);
    lab_free(c->scratch);
}

static double *zeros(const struct lab *lab, const struct operand *operand)
{
    return ARENA_ARRAY(lab->arena, double, (size_t)elements_in(lab->op, operand, lab->whole));
}

static struct answer answer_new(const struct lab *lab)
{
    struct answer a = {.output = zeros(lab, &lab->op->output)};
    for (int i = 0; i < lab->op->inputs; i++)
        a.input_gradient[i] = zeros(lab, &lab->op->input[i]);
    for (int i = 0; i < lab->op->weights; i++)
        a.weight_gradient[i] = zeros(lab, &lab->op->weight[i].operand);
    return a;
}

static void local_op_part(struct local_op *s, const struct lab *lab, const struct part *part,
                          enum dtype dtype)
{
    *s = (struct local_op){.lab = lab, .part = part, .dtype = dtype};
    s->call = (struct kernel_call){.op = lab->op,
                                   .size = part->size,
                                   .begin = part->begin,
                                   .whole = lab->whole,
                                   .adds_once = part->adds_once,
                                   .dtype = dtype,
                                   .fp8 = lab->fp8,
                                   .history = {lab->history, FP8_OPERAND_COUNT, false},
                                   .seed = lab->seed,
                                   .dropout = lab->dropout,
                                   .context = s};
    local_op_inputs(s);
    local_op_results(s);
}

/* I3 */
static void local_op_meetings(struct local_op *local_ops, int parts, struct meeting *meetings)
{
    for (int i = 0; i < parts; i++) {
        for (int k = 0; k < parts; k++)
            if (same_meeting(local_ops[i].lab, local_ops[i].part, local_ops[k].part)) {
                local_ops[i].meeting = local_ops[i].meeting ? local_ops[i].meeting : &meetings[k];
                local_ops[i].members++;
            }
        if (local_ops[i].members > 1)
            local_ops[i].call.reduce = meet;
        if (local_ops[i].meeting == &meetings[i]) {
            pthread_barrier_init(&meetings[i].barrier, NULL, (unsigned)local_ops[i].members);
            pthread_mutex_init(&meetings[i].mutex, NULL);
        }
    }
}

static struct answer lab_run(const struct lab *lab, const struct part *part, int parts,
                             enum dtype dtype)
{
    struct local_op local_ops[LAB_PARTS];
    struct meeting meetings[LAB_PARTS] = {0};
    pthread_t threads[LAB_PARTS];
    struct answer answer = answer_new(lab);
    for (int i = 0; i < parts; i++)
        local_op_part(&local_ops[i], lab, &part[i], dtype);
    local_op_meetings(local_ops, parts, meetings);
    for (int i = 0; i < parts; i++)
        pthread_create(&threads[i], NULL, run_seat, &local_ops[i]);
    for (int i = 0; i < parts; i++)
        pthread_join(threads[i], NULL);
    int64_t kept = lab_backend()->kept_bytes(&local_ops[0].call);
    answer.kept = ARENA_ARRAY(lab->arena, uint8_t, (size_t)kept + 1);
    memcpy(answer.kept, local_ops[0].call.kept, (size_t)kept);
    for (int i = 0; i < parts; i++) {
        collect_all(&local_ops[i], &answer);
        free_seat(&local_ops[i]);
        if (local_ops[i].meeting == &meetings[i]) {
            pthread_barrier_destroy(&meetings[i].barrier);
            pthread_mutex_destroy(&meetings[i].mutex);
        }
    }
    return answer;
}

#endif
