/* offload.c - checkpoints that go to the host after their forward block and come back one slot
 * early.
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
            wait_for(a, number, a->mark[d].last[STREAM_FEATURE]); /* I1 */
        wait_for(a, number, *stored + place_in_stage);
    }
}
