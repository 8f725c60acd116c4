/* replay.c - the work of an iteration up to the optimizer's step, recorded once and replayed (CUDA graphs).
 *
 * Kernels of a small micro-batch are over sooner than the host can start the next ones. All iterations give the device the
 * same work on the same memory, so one of them is recorded: from then on the host brings the samples to where the recorded
 * copies read them, and starts everything at once. The optimizer's step, whose rates change, is given to the device as always.
 *
 *   loss_t(replayed) = loss_t(given), bit for bit: the same kernels on the same numbers in the same order       (1)
 *
 *   I1  The iterations before are `WARM` ones, which bring kernels and their plans into memory.
 *   I2  Nothing of an iteration is left when the optimizer's step begins; else nothing is replayed.
 *   I3  Evaluations are given to the device as always.
 */
#include "run/rank/inputs.h"

#include <string.h>

enum { WARM = 2 };

static bool leaves_gradients(const struct rank *r)
{
    for (int32_t i = 0; i < r->stores; i++)
        if (r->store[i].kept < r->store[i].trained_part)
            return true;
    return false;
}

static bool uses_host(const struct rank *r)
{
    for (int32_t i = 0; i < r->program.jobs; i++)
        if (r->program.job[i].kind == JOB_TO_HOST)
            return true;
    return false;
}

const char *run_cannot_replay(const struct rank *r)
{
    if (!r->options->replays)
        return NULL;
    if (!rank_device(r)->record_work)
        return "this device has nothing that replays work";
    if (r->options->dropout > 0)
        return "dropout draws other numbers in every step";
    if (r->options->trace)
        return "a trace looks at every task by itself";
    if (!runs_in_order(r))
        return "ranks exchange through the memory of their hosts";
    if (leaves_gradients(r))
        return "this schedule leaves gradients to the next iteration";
    return uses_host(r) ? "tensors wait in the memory of the host" : NULL;
}

static bool replays(const struct rank *r)
{
    return r->options->replays && !r->evaluates && !r->replay.refused;
}

void replay_note_read(struct rank *r, const struct source_read *read)
{
    if (!r->replay.recording)
        return;
    struct source_read kept = *read;
    kept.out = rank_device(r)->uploaded(r->work);
    array_push(r->arena, &r->replay.reads, kept);
}

bool replay_iteration(struct rank *r)
{
    if (!replays(r) || !r->replay.recorded)
        return false;
    for (size_t i = 0; i < r->replay.reads.len; i++)
        gather_source(r, &r->replay.reads.data[i]);
    rank_device(r)->replay_work(r->work, r->replay.recorded);
    return true;
}

void replay_begin(struct rank *r)
{
    if (!replays(r))
        return;
    r->replay.refused = run_cannot_replay(r) != NULL;
    if (r->replay.refused || r->replay.warm++ < WARM)
        return;
    pthread_mutex_lock(&r->lock);
    buffers_clear(r);
    pthread_mutex_unlock(&r->lock);
    r->replay.recording = rank_device(r)->record_work(r->work);
    r->replay.refused = !r->replay.recording;
}

/* I2 */
static bool leaves_values(const struct rank *r)
{
    for (int64_t i = 0; i < r->micro_batches * r->keys; i++)
        if (r->value[i])
            return true;
    for (int32_t i = 0; i < r->stores; i++)
        for (int32_t b = 0; b < r->micro_batches; b++)
            if (r->store[i].made[b])
                return true;
    return false;
}

void replay_end(struct rank *r)
{
    if (!r->replay.recording)
        return;
    follow_all(r);
    r->replay.recording = false;
    r->replay.refused = leaves_values(r);
    r->replay.recorded = rank_device(r)->recorded_work(r->work);
    rank_device(r)->replay_work(r->work, r->replay.recorded);
}

void replay_free(struct rank *r)
{
    if (r->replay.recorded)
        rank_device(r)->free_work(r->work, r->replay.recorded);
}
