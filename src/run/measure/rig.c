/* rig.c - buffers for one kernel (rig.h). */
#include "run/measure/rig.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "run/kernels/cpu/cpu.h"
#include "run/rank/rank.h"

/* ---- buffers --------------------------------------------------------------------------------- */

enum content { CONTENT_ZEROS, CONTENT_NUMBERS, CONTENT_IDS };

static void fill_numbers(struct rig *rig, enum dtype dtype, void *to, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        float x = (float)rng_uniform(&rig->rng) - 0.5F;
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        if (dtype == DTYPE_FP32)
            ((float *)to)[i] = x;
        else
            ((uint16_t *)to)[i] = (uint16_t)(bits >> 16);
    }
}

/* Without memory yet where `measure_only`: adds up what it would take. */
static void *take(struct rig *rig, int64_t bytes, bool measure_only)
{
    rig->bytes += bytes;
    if (measure_only)
        return NULL;
    void *memory = rig->kernels->device->allocate(rig->stream, bytes + 1);
    if (memory)
        rig->kernels->device->clear(rig->stream, memory, bytes + 1);
    rig->buffer[rig->buffers++] = memory;
    return memory;
}

struct operand_request {
    enum content content;
    enum dtype dtype;
    int64_t count, below; /* below: of ids */
};

/* By the device itself, which is quicker than the host for gigabytes. */
static bool draw_there(struct rig *rig, void *to, const struct operand_request *request)
{
    const struct compute_device *device = rig->kernels->device;
    struct normal_draw draw = {.seed = (uint64_t)rng_below(&rig->rng, INT64_MAX),
                               .deviation = 0.25,
                               .elements = request->count};
    void *numbers = request->dtype == DTYPE_FP32
                        ? to
                        : device->allocate(rig->stream, request->count * (int64_t)sizeof(float));
    if (!numbers)
        return false;
    device->draw_normal(rig->stream, &draw, request->count, numbers);
    if (numbers != to) {
        device->cast(rig->stream, DTYPE_FP32, numbers, request->dtype, to, request->count);
        device->release(rig->stream, numbers);
    }
    return true;
}

static bool fill(struct rig *rig, void *to, int64_t bytes, const struct operand_request *request)
{
    const struct compute_device *device = rig->kernels->device;
    if (!to || request->content == CONTENT_ZEROS)
        return to != NULL;
    if (request->content == CONTENT_NUMBERS && device->draw_normal)
        return draw_there(rig, to, request);
    struct host_view view = host_view(device, rig->stream, to, bytes, false);
    if (!view.at)
        return false;
    if (request->content == CONTENT_NUMBERS)
        fill_numbers(rig, request->dtype, view.at, request->count);
    for (int64_t i = 0; request->content == CONTENT_IDS && i < request->count; i++)
        ((int64_t *)view.at)[i] = rng_below(&rig->rng, request->below);
    host_view_end(device, rig->stream, &view, true);
    return true;
}

/* *out stays NULL, and the answer true, where only bytes are counted. */
static bool make(struct rig *rig, bool count_only, struct operand_request request, void **out)
{
    int64_t each = request.content == CONTENT_IDS ? 8 : dtype_bytes(request.dtype);
    *out = take(rig, request.count * each, count_only);
    return count_only || fill(rig, *out, request.count * each, &request);
}

/* ---- an operator's operands ------------------------------------------------------------------ */

static enum dtype stored_in(const struct operand *operand, enum dtype dtype)
{
    return operand->element == ELEMENT_FP32 ? DTYPE_FP32 : dtype;
}

/* Logits lie in padded rows where a run's do (kernels.h, pitch). */
static int64_t local_elements(const struct rig *rig, const struct operand *operand)
{
    const struct op *op = rig->call.op;
    int64_t count = (int64_t)operand_elements(op, operand, rig->size);
    bool logits = rig->call.pitch && operand == (op->kind == OP_LOSS ? &op->input[0] : &op->output);
    return logits ? rig->size[0] * rig->size[1] * rig->call.pitch : count;
}

/* Of products whose rows would be padded, those of a head: the only ones that models have. */
static int64_t pitch_of(const struct rig *rig)
{
    const struct op *op = rig->call.op;
    bool head = op->kind == OP_LINEAR && op->weights == 1 && op->output.element == ELEMENT_COMPUTE;
    if (!rig->kernels->pads_logits || (!head && op->kind != OP_LOSS))
        return 0;
    return logits_pitch(rig->call.dtype, rig->size[0] * rig->size[1],
                        rig->size[op->kind == OP_LOSS ? 2 : 3]);
}

static int64_t vocabulary(const struct rig *rig)
{
    int place = op_find_dim(rig->call.op->kind, DIM_VOCAB);
    return place < 0 ? 1 : rig->size[place];
}

static bool make_inputs(struct rig *rig, bool count_only)
{
    const struct op *op = rig->call.op;
    enum dtype dtype = rig->call.dtype;
    bool made = true;
    for (int32_t i = 0; made && i < op->inputs; i++) {
        const struct operand *in = &op->input[i];
        int64_t count = local_elements(rig, in);
        bool ids = in->element == ELEMENT_INDEX;
        struct operand_request request = {ids ? CONTENT_IDS : CONTENT_NUMBERS, stored_in(in, dtype),
                                          count, vocabulary(rig)};
        void *at;
        made = make(rig, count_only, request, &at);
        rig->call.input[i] = at;
        request.content = CONTENT_ZEROS;
        if (made && !ids && op->input_grad)
            made = make(rig, count_only, request, &rig->call.input_gradient[i]);
    }
    if (made && op->kind == OP_LOSS) {
        void *labels;
        struct operand_request request = {CONTENT_IDS, dtype, local_elements(rig, &op->output),
                                          vocabulary(rig)};
        made = make(rig, count_only, request, &labels);
        rig->call.input[op->inputs] = labels;
    }
    return made;
}

static bool make_weights(struct rig *rig, bool count_only)
{
    const struct op *op = rig->call.op;
    bool made = true;
    for (int32_t i = 0; made && i < op->weights; i++) {
        int64_t count = local_elements(rig, &op->weight[i].operand);
        void *weight, *gradient = NULL;
        made =
            make(rig, count_only,
                 (struct operand_request){CONTENT_NUMBERS, rig->call.dtype, count, 0}, &weight) &&
            make(rig, count_only, (struct operand_request){CONTENT_ZEROS, DTYPE_FP32, count, 0},
                 &gradient);
        rig->call.weight[i] = weight;
        rig->call.weight_gradient[i] = gradient;
    }
    return made;
}

/* A loss's output is fp32 always. */
static bool make_outputs(struct rig *rig, bool count_only)
{
    const struct op *op = rig->call.op;
    enum dtype dtype = op->kind == OP_LOSS ? DTYPE_FP32 : stored_in(&op->output, rig->call.dtype);
    int64_t count = local_elements(rig, &op->output);
    void *gradient = NULL;
    bool made = make(rig, count_only, (struct operand_request){CONTENT_ZEROS, dtype, count, 0},
                     &rig->call.output) &&
                make(rig, count_only, (struct operand_request){CONTENT_NUMBERS, dtype, count, 0},
                     &gradient);
    rig->call.output_gradient = gradient;
    rig->handed = gradient;
    rig->handed_bytes = count * dtype_bytes(dtype);
    if (rig->phase == PHASE_FORWARD) {
        rig->handed = rig->call.input[0];
        rig->handed_bytes =
            op->inputs ? (int64_t)operand_bytes(op, &op->input[0], rig->size, rig->call.dtype) : 0;
    }
    return made;
}

static bool make_rooms(struct rig *rig, bool count_only)
{
    rig->call.kept = take(rig, rig->kernels->kept_bytes(&rig->call), count_only);
    rig->call.scratch = take(rig, rig->kernels->scratch_bytes(&rig->call), count_only);
    return count_only || (rig->call.kept && rig->call.scratch);
}

/* ---- the optimizer's ------------------------------------------------------------------------- */

/* AdamW with usual rates; its time does not depend on them. A run reads all gradients for their norm before
 * it, and clears them after it (rank.c): rig_run does too. */
static bool make_step(struct rig *rig, const struct ask *ask, enum policy policy, bool count_only)
{
    int64_t count = ask->work.shape[0];
    struct operand_request numbers = {CONTENT_NUMBERS, DTYPE_FP32, count, 0};
    struct operand_request zeros = {CONTENT_ZEROS, DTYPE_FP32, count, 0};
    void *made[4] = {0}, *weight = NULL;
    bool fits = make(rig, count_only, numbers, &made[0]) &&
                make(rig, count_only, numbers, &made[1]) &&
                make(rig, count_only, zeros, &made[2]) && make(rig, count_only, zeros, &made[3]);
    zeros.dtype = ask->work.dtype;
    if (fits && policy != POLICY_FP32)
        fits = make(rig, count_only, zeros, &weight);
    rig->step = ADAMW_STEP;
    rig->step.master = made[0];
    rig->step.gradient = made[1];
    rig->step.moment1 = made[2];
    rig->step.moment2 = made[3];
    rig->step.weight = weight;
    rig->step.dtype = ask->work.dtype;
    rig->step.count = count;
    rig->step.stream = rig->stream;
    rig->squares = take(rig, sizeof *rig->squares, count_only);
    return fits && (count_only || rig->squares);
}

/* ---- opening --------------------------------------------------------------------------------- */

static void set_call(struct rig *rig, const struct ask *ask, const struct asker *asker)
{
    memcpy(rig->size, asker->size, sizeof rig->size);
    op_full_size(asker->op, asker->size[0], rig->whole);
    rig->call =
        (struct kernel_call){.op = asker->op,
                             .size = rig->size,
                             .begin = rig->begin,
                             .whole = rig->whole,
                             .adds_once = true,
                             .dtype = ask->work.dtype,
                             .seed = 1, /* without dropout, as `train` runs unless it is told */
                             .stream = rig->stream};
    rig->call.pitch = pitch_of(rig);
}

static bool build(struct rig *rig, const struct kernels *kernels, const struct ask *ask,
                  const struct asker *asker, enum policy policy, bool count_only)
{
    memset(rig, 0, sizeof *rig);
    rig->kernels = kernels;
    rig->phase = ask->work.phase;
    rig->stream = count_only ? NULL : device_stream(kernels->device);
    rng_seed(&rig->rng, 1);
    if (!asker->op)
        return make_step(rig, ask, policy, count_only);
    set_call(rig, ask, asker);
    return make_inputs(rig, count_only) && make_weights(rig, count_only) &&
           make_outputs(rig, count_only) && make_rooms(rig, count_only);
}

/* A part of an image or of a sequence of experts' tokens needs its neighbours (I2). */
static bool needs_neighbours(const struct asker *asker)
{
    const struct op *op = asker->op;
    bool tokens = op->kind == OP_DISPATCH || op->kind == OP_COMBINE || op->kind == OP_EXPERT_LINEAR;
    int64_t whole[OP_MAX_DIMS];
    op_full_size(op, asker->size[0], whole);
    for (int i = 0; i < op_dims(op->kind); i++) {
        bool halo = OP_KINDS[op->kind].dims[i].role == ROLE_HALO && op->kind != OP_ATTENTION;
        bool seq = tokens && OP_KINDS[op->kind].dims[i].dim == DIM_SEQ;
        if ((halo || seq) && asker->size[i] != whole[i])
            return true;
    }
    return false;
}

const char *rig_refuses(const struct kernels *kernels, const struct ask *ask,
                        const struct asker *asker)
{
    const char *why = NULL;
    if (ask->work.dtype != DTYPE_FP32 && ask->work.dtype != DTYPE_BF16)
        return "kernels compute in fp32 and bf16";
    if (!asker->op)
        return NULL;
    if (!kernels->has(asker->op, &why))
        return why;
    if (asker->op->inputs + (asker->op->kind == OP_LOSS) > CALL_INPUTS)
        return "it has too many inputs";
    return needs_neighbours(asker) ? "its part needs its neighbours' borders" : NULL;
}

int64_t rig_bytes(const struct kernels *kernels, const struct ask *ask, const struct asker *asker,
                  enum policy policy)
{
    struct rig rig;
    build(&rig, kernels, ask, asker, policy, true);
    return rig.bytes;
}

bool rig_open(struct rig *rig, const struct kernels *kernels, const struct ask *ask,
              const struct asker *asker, enum policy policy)
{
    if (!build(rig, kernels, ask, asker, policy, false))
        return false;
    if (asker->op && rig->phase != PHASE_FORWARD)
        kernels->run(&rig->call, PHASE_FORWARD);
    if (asker->op && rig->phase == PHASE_BACKWARD_WEIGHT && asker->op->input_grad)
        kernels->run(&rig->call, PHASE_BACKWARD_INPUT); /* it may keep sums for the weights */
    return true;
}

void rig_close(struct rig *rig)
{
    for (int i = 0; i < rig->buffers; i++)
        rig->kernels->device->release(rig->stream, rig->buffer[i]);
    device_stream_free(rig->kernels->device, rig->stream);
}

/* What a run does with gradients at its end. */
static void optimize(const struct rig *rig)
{
    const struct compute_device *device = rig->kernels->device;
    struct optimizer_step step = rig->step;
    double squares = 0;
    device->clear(step.stream, rig->squares, sizeof *rig->squares);
    device->add_squares(step.stream, step.gradient, step.count, rig->squares);
    if (device->shared) /* once for all gradients, and not for each bucket */
        device_download(device, step.stream, &squares, rig->squares, sizeof squares);
    step.scale = (float)clip_factor(sqrt(squares), 1);
    rig->kernels->optimize(&step);
    device->clear(step.stream, step.gradient, step.count * (int64_t)sizeof *step.gradient);
}

void rig_give(const struct rig *rig)
{
    if (rig->call.op)
        rig->kernels->run(&rig->call, rig->phase);
    else
        optimize(rig);
}

void rig_run(const struct rig *rig)
{
    rig_give(rig);
    device_finish(rig->kernels->device, device_record(rig->kernels->device, rig->stream));
}
