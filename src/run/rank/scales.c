/* scales.c - histories of the largest numbers of tensors that are cast to fp8 (scales.h).
 *
 * All operators' numbers of one step lie side by side, the newest step's first:
 *
 *   history[i][3 n + k]: of operand k of the n-th operator that casts, i steps ago                                  (1)
 *
 *   I1  A step is told apart by its place alone, so kernels that were recorded (replay.c) find theirs when they are
 *       replayed: between steps everything moves by one place.
 *   I2  Between two steps the newest place is empty; the others are what a checkpoint has. A run that goes on from one under
 *       another plan, whose parts of tensors are others, begins as any run does (kernels/fp8.h, I4).
 */
#include "run/rank/scales.h"

static bool is_delayed(const struct rank *r)
{
    return software_word(&r->plan->software, FACT_FP8_RECIPE) == RECIPE_DELAYED;
}

struct scale_history {
    float *most, *spare;
    int64_t stride, floats;
    bool set; /* from a checkpoint */
};

void make_scales(struct rank *r)
{
    int64_t casts = 0;
    for (int64_t i = 0; i < r->instances && is_delayed(r); i++)
        if (r->local_op[i].fp8)
            r->local_op[i].scale = (int32_t)casts++;
    if (!casts)
        return;
    struct scale_history *h = r->scales = ARENA_NEW(r->arena, struct scale_history);
    h->stride = casts * FP8_OPERAND_COUNT;
    h->floats = FP8_HISTORY * h->stride;
    h->most = floats_counted(r, MEMORY_WORKSPACE, h->floats);
    h->spare = floats_counted(r, MEMORY_WORKSPACE, h->floats);
}

void free_scales(struct rank *r)
{
    if (!r->scales)
        return;
    floats_free(r, MEMORY_WORKSPACE, r->scales->most, r->scales->floats);
    floats_free(r, MEMORY_WORKSPACE, r->scales->spare, r->scales->floats);
}

struct fp8_history history_of(const struct rank *r, const struct local_op *local_op)
{
    const struct scale_history *h = r->scales;
    if (!local_op->fp8 || !h)
        return (struct fp8_history){0};
    return (struct fp8_history){h->most + local_op->scale * FP8_OPERAND_COUNT, h->stride,
                                !h->set && r->step == r->options->first_step};
}

void advance_scales(struct rank *r)
{
    const struct compute_device *device = rank_device(r);
    const struct scale_history *h = r->scales;
    if (!h)
        return;
    int64_t step = h->stride * (int64_t)sizeof(float), rest = (FP8_HISTORY - 1) * step;
    if (!r->evaluates) {
        device->copy(r->work, COPY_ON_DEVICE, h->spare, h->most, rest);
        device->copy(r->work, COPY_ON_DEVICE, h->most + h->stride, h->spare, rest);
    }
    device->clear(r->work, h->most, step);
}

/* I2 */
static int64_t earlier_floats(const struct scale_history *h)
{
    return h ? h->floats - h->stride : 0;
}

int64_t run_history(struct rank *r, const float **out)
{
    int64_t count = earlier_floats(r->scales);
    *out = count ? show_floats(r, r->scales->most + r->scales->stride, count) : NULL;
    return count;
}

void run_set_history(struct rank *r, const float *history)
{
    struct scale_history *h = r->scales;
    rank_device(r)->upload(r->work, h->most + h->stride, history,
                           earlier_floats(h) * (int64_t)sizeof *history);
    h->set = true;
}
