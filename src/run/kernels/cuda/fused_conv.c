/* fused_conv.c - convolution by cuDNN (fused_conv.h).
 *
 *   I1  A plan for given sizes is looked for once and kept; "there is none" is kept, too.
 */
#include "run/kernels/cuda/fused_conv.h"

#include <pthread.h>
#include <string.h>

#include "cost/cost.h"
#include "run/kernels/cuda/dnn.h"
#include "run/kernels/cuda/images.h"

extern struct cuda_code CUDA_CODE_images;
GPU_KERNEL(ADD_WIDENED, images, "add_widened");

/* Compared byte by byte: there is no room between members. */
struct conv_sizes {
    int64_t batch, in, out, groups;
    struct image_shape shape;
    int64_t after[2]; /* padding after the last pixel */
    int32_t pass, type;
};

/* ---- sizes ----------------------------------------------------------------------------------- */

static const enum dnn_pass PASS_OF[PHASE_COUNT] = {
    [PHASE_FORWARD] = DNN_FORWARD,
    [PHASE_BACKWARD_INPUT] = DNN_INPUT,
    [PHASE_BACKWARD_WEIGHT] = DNN_WEIGHT,
};

/* Padding after the image; -1: the image goes on beyond its windows, which cuDNN has no words for. */
static int64_t padding_after(const struct image_shape *s, int axis)
{
    int64_t reach = (s->out[axis] - 1) * s->stride[axis] + s->kernel[axis];
    int64_t after = reach - s->in[axis] - s->pad[axis];
    if (s->pad[axis] < 0 || after <= -s->stride[axis])
        return -1;
    return after > 0 ? after : 0;
}

/* False: this call goes another way. */
static bool sizes_of(const struct kernel_call *call, enum phase phase, struct conv_sizes *out)
{
    if (!convolution_is_fused(call->op, call->size, call->dtype))
        return false;
    memset(out, 0, sizeof *out);
    out->batch = call->size[0];
    out->in = call->size[1];
    out->out = call->size[2];
    out->groups = call->op->groups;
    out->shape = image_shape(call);
    out->pass = (int32_t)PASS_OF[phase];
    out->type = call->dtype == DTYPE_FP16 ? DNN_FP16 : DNN_BF16;
    for (int axis = 0; axis < 2; axis++)
        out->after[axis] = padding_after(&out->shape, axis);
    return out->after[0] >= 0 && out->after[1] >= 0;
}

/* Planes of pixels, row by row. */
static struct dnn_tensor planes(const struct conv_sizes *s, int64_t many, int64_t each,
                                const int64_t *pixels)
{
    int64_t plane = pixels[0] * pixels[1];
    struct dnn_tensor tensor = {.type = (enum dnn_type)s->type,
                                .size = {many, each, pixels[0], pixels[1]},
                                .step = {each * plane, plane, pixels[1], 1}};
    return tensor;
}

/* ---- plans (I1) ------------------------------------------------------------------------------ */

static void find_plan(const struct conv_sizes *s, struct dnn_plan *out)
{
    struct dnn_recipe *recipe = dnn_recipe_new();
    const struct image_shape *shape = &s->shape;
    struct dnn_tensor x = planes(s, s->batch, s->in, shape->in);
    struct dnn_tensor w = planes(s, s->out, s->in / s->groups, shape->kernel);
    struct dnn_tensor y = planes(s, s->batch, s->out, shape->out);
    struct dnn_window window = {{shape->stride[0], shape->stride[1]},
                                {shape->pad[0], shape->pad[1]},
                                {s->after[0], s->after[1]}};
    *out = (struct dnn_plan){0};
    if (!recipe)
        return;
    int images = dnn_given(recipe, &x), weights = dnn_given(recipe, &w),
        outputs = dnn_given(recipe, &y);
    dnn_convolution(recipe, (enum dnn_pass)s->pass, &window, images, weights, outputs);
    dnn_plan(recipe, out);
    dnn_recipe_free(recipe);
}

static const struct dnn_plan *plan_for(const struct conv_sizes *s)
{
    enum { KEPT = 512 };
    static struct {
        struct conv_sizes sizes;
        struct dnn_plan plan;
        bool known;
    } table[KEPT];
    static const struct dnn_plan NONE;
    static int count;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    uint64_t at = hash_bytes(s, sizeof *s, 0) % KEPT;
    while (table[at].known && memcmp(&table[at].sizes, s, sizeof *s) != 0)
        at = (at + 1) % KEPT;
    bool known = table[at].known;
    if (!known && count < KEPT - 1) {
        table[at].sizes = *s;
        find_plan(s, &table[at].plan);
        known = table[at].known = true;
        count++;
    }
    pthread_mutex_unlock(&lock);
    return known ? &table[at].plan : &NONE;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static int64_t weight_elements(const struct conv_sizes *s)
{
    return s->out * (s->in / s->groups) * s->shape.kernel[0] * s->shape.kernel[1];
}

/* Before the workspace: gradients of weights as cuDNN writes them. */
static int64_t written_bytes(const struct conv_sizes *s)
{
    enum { UNIT = 256 };
    int64_t bytes = weight_elements(s) * dtype_bytes(DTYPE_BF16);
    return s->pass == DNN_WEIGHT ? ceil_div(bytes, UNIT) * UNIT : 0;
}

int64_t fused_conv_bytes(const struct kernel_call *call, enum phase phase)
{
    struct conv_sizes s;
    if (!sizes_of(call, phase, &s))
        return -1;
    const struct dnn_plan *plan = plan_for(&s);
    return plan->plan ? written_bytes(&s) + plan->workspace : -1;
}

bool fused_conv(const struct kernel_call *call, enum phase phase)
{
    struct conv_sizes s;
    const struct dnn_plan *plan = sizes_of(call, phase, &s) ? plan_for(&s) : NULL;
    if (!plan || !plan->plan)
        return false;
    char *scratch = call->scratch;
    int64_t count = weight_elements(&s);
    bool forward = phase == PHASE_FORWARD, weight = phase == PHASE_BACKWARD_WEIGHT;
    struct dnn_place place[] = {
        {phase == PHASE_BACKWARD_INPUT ? call->input_gradient[0] : call->input[0], 0},
        {weight ? scratch : call->weight[0], 0},
        {forward ? call->output : call->output_gradient, 0}};
    dnn_run(plan, call->stream, place, scratch + written_bytes(&s));
    if (weight)
        CUDA_LAUNCH(call->stream, &ADD_WIDENED, call->dtype, cuda_elements(count), &scratch, &count,
                    &call->weight_gradient[0]);
    return true;
}
