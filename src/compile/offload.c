/* offload.c - checkpoints that go to the host after their forward block and come back one slot
 * early; optimizer state that stays there.
 *
 * Of parameters whose state is in host memory, gradients go down after the device's own step, the host updates them, and
 * weights come up:
 *
 *   apart     down + step + up                                                                        (1)
 *   tensors   in chunks, each of which waits for the one before it at each of the three               (2)
 *
 *   I1  Steps after the block's last computation, which prepare sends, may read a checkpoint: it
 *       goes to the host only when they are over, too.
 */
#include "compile/assembly.h"

void copy_checkpoints(struct assembly *a, enum exchange_kind kind, const struct visit *place,
                      int64_t bytes, const int32_t *after)
{
    bool out = kind == EXCHANGE_TO_HOST;
    int32_t exchange = intern_copy(a->b, kind, a->stage, bytes);
    int32_t *stored =
        &a->stored[place->slot.piece * a->pipeline.micro_batches + place->slot.micro_batch];
    if (out)
        *stored = (int32_t)a->tasks.len;
    for (int32_t d = a->first_device[a->stage]; d < a->first_device[a->stage + 1]; d++) {
        int32_t place_in_stage = d - a->first_device[a->stage];
        struct task task =
            plain_task(out ? STREAM_TO_HOST : STREAM_FROM_HOST, place->slot.micro_batch);
        task.purpose = PURPOSE_OFFLOAD;
        task.about = place->part;
        task.device = d;
        task.exchange = exchange + place_in_stage;
        int32_t number = add_task(a, task);
        wait_for(a, number, after[place_in_stage]);
        if (out)
            wait_for_steps(a, number, &a->mark[d]); /* I1 */
        wait_for(a, number, *stored + place_in_stage);
    }
}

/* ---- the optimizer's step on the host -------------------------------------------------------- */

/* Of (2). Megatron-Core has an optimizer for each tensor, of which a stage has hundreds; so many chunks show all but a
 * sixteenth of the overlap. */
enum { HOST_CHUNKS = 16 };
/* Gradients come down in fp32, whatever they were added up in (PINNED_GRADIENT_BYTES of plan/memory.c). */
enum { DOWN_BYTES = 4 };

struct host_step host_step_of(struct build *b, int32_t stage, int64_t parameters)
{
    const struct plan *plan = b->plan;
    bool tensors = software_word(&plan->software, FACT_HOST_STEP) == HOST_STEP_TENSORS;
    double there = plan->optimizer_offload * (double)parameters;
    struct host_step step = {.chunks = tensors ? HOST_CHUNKS : 1};
    if (there < 1)
        return (struct host_step){0};
    step.parameters = (int64_t)(there / step.chunks);
    step.down = intern_copy(b, EXCHANGE_TO_HOST, stage, DOWN_BYTES * step.parameters);
    step.up = intern_copy(b, EXCHANGE_FROM_HOST, stage,
                          policy_gather_bytes(plan->policy, plan->dtype) * step.parameters);
    return step;
}

static int32_t add_one(struct assembly *a, int32_t device, enum stream_kind stream,
                       int32_t exchange, int64_t parameters, int32_t after)
{
    struct task task = plain_task(stream, NONE);
    task.device = device;
    task.purpose = stream == STREAM_HOST ? PURPOSE_OPTIMIZER : PURPOSE_OFFLOAD;
    task.exchange = exchange;
    task.parameters = parameters;
    int32_t number = add_task(a, task);
    wait_for(a, number, after);
    return number;
}

int32_t step_on_host(struct assembly *a, const struct host_step *step, int32_t device,
                     int32_t after)
{
    int32_t place = device - a->first_device[a->stage], last = after;
    for (int32_t i = 0; i < step->chunks; i++) {
        last = add_one(a, device, STREAM_TO_HOST, step->down + place, 0, after);
        last = add_one(a, device, STREAM_HOST, NONE, step->parameters, last);
        last = add_one(a, device, STREAM_FROM_HOST, step->up + place, 0, last);
    }
    return last;
}
