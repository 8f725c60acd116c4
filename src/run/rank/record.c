/* record.c - what happened on all ranks, brought to one clock (record.h). Every rank counts time from when it was opened. A gather is over on all
 * ranks at about the same moment, n_i on the clock of rank i, so on that of rank 0
 *
 *   t = t_i + n_0 - n_i                                                                         (1)
 *
 * up to how far apart the ranks leave the gather: tens of microseconds. */
#include "run/rank/record.h"

#include <stdlib.h>
#include <string.h>

#include "run/rank/room.h"
#include "sim/sim.h"

static int64_t meet(struct rank *r, const struct rank_agreement *agreement, int64_t count,
                    int64_t *counts, weft_status *status)
{
    *status = agreement_gather(agreement, &count, sizeof count, counts);
    return (int64_t)((wall_seconds() - r->started_s) * 1e9);
}

/* (1) */
static weft_status find_shift(struct rank *r, const struct rank_agreement *agreement, int64_t count,
                              struct arena *scratch, int64_t *counts, int64_t *shift_ns)
{
    size_t ranks = (size_t)agreement->transport->ranks;
    int64_t *clock = ARENA_ARRAY(scratch, int64_t, ranks);
    weft_status status;
    int64_t now = meet(r, agreement, count, counts, &status);
    if (status == WEFT_OK)
        status = agreement_gather(agreement, &now, sizeof now, clock);
    *shift_ns = clock[0] - now;
    return status;
}

static struct measured_task *own_tasks(const struct rank *r, int64_t room, int64_t shift_ns,
                                       struct arena *scratch)
{
    struct measured_task *own = ARENA_ARRAY(scratch, struct measured_task, (size_t)room);
    const struct run_event *event;
    size_t count = run_events(r, &event);
    for (size_t i = 0; i < count; i++)
        own[i] = (struct measured_task){event[i].step + 1, event[i].task, r->transport->rank,
                                        event[i].begin_ns + shift_ns, event[i].end_ns + shift_ns};
    return own;
}

static weft_status write_all(const struct rank *r, const struct measured_task *all, int64_t most,
                             const int64_t *counts, struct arena *scratch, const char *path)
{
    ARRAY(struct measured_task) tasks = {0};
    int64_t first_ns = INT64_MAX;
    for (int64_t rank = 0; rank < r->transport->ranks; rank++)
        for (int64_t i = 0; i < counts[rank]; i++) {
            array_push(scratch, &tasks, all[rank * most + i]);
            if (all[rank * most + i].begin_ns < first_ns)
                first_ns = all[rank * most + i].begin_ns;
        }
    for (size_t i = 0; i < tasks.len; i++) {
        tasks.data[i].begin_ns -= first_ns;
        tasks.data[i].end_ns -= first_ns;
    }
    return trace_write_measured(r->graph, tasks.data, tasks.len, path);
}

weft_status record_write(struct rank *r, const struct rank_agreement *agreement, const char *path)
{
    struct arena *scratch = arena_new();
    size_t ranks = (size_t)agreement->transport->ranks;
    int64_t *counts = ARENA_ARRAY(scratch, int64_t, ranks), shift_ns, most = 1;
    const struct run_event *event;
    weft_status status;
    TRY(find_shift(r, agreement, (int64_t)run_events(r, &event), scratch, counts, &shift_ns));
    for (size_t i = 0; i < ranks; i++)
        most = counts[i] > most ? counts[i] : most;
    struct measured_task *own = own_tasks(r, most, shift_ns, scratch);
    struct measured_task *all = ARENA_ARRAY(scratch, struct measured_task, ranks * (size_t)most);
    TRY(agreement_gather(agreement, own, (size_t)most * sizeof *own, all));
    TRY(agreement_reach(agreement, agreement->transport->rank == 0
                                       ? write_all(r, all, most, counts, scratch, path)
                                       : WEFT_OK));
done:
    arena_free(scratch);
    return status;
}
