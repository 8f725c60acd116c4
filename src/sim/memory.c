/* memory.c - the peak of each device over time.
 *
 *   in_use_d(t) = base_d + sum of start_bytes of tasks started by t
 *                        - sum of end_bytes of tasks ended by t                          (1)
 */
#include "sim/engine.h"

#include <stdlib.h>

struct memory_step {
    int64_t at_ns, bytes;
};

/* At one instant, releases come first. */
static int by_time(const void *a, const void *b)
{
    const struct memory_step *x = a, *y = b;
    if (x->at_ns != y->at_ns)
        return x->at_ns < y->at_ns ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static struct memory_peak find_peak(struct memory_step *step, int64_t steps, int64_t base_bytes)
{
    struct memory_peak peak = {base_bytes, 0};
    int64_t bytes = base_bytes;
    qsort(step, (size_t)steps, sizeof *step, by_time);
    for (int64_t i = 0; i < steps; i++) {
        bytes += step[i].bytes; /* (1) */
        if (bytes > peak.bytes)
            peak = (struct memory_peak){bytes, step[i].at_ns};
    }
    return peak;
}

static int64_t *count_steps(struct arena *keep, const struct engine_graph *graph, int64_t uses,
                            const struct memory_use *use)
{
    int64_t *first = ARENA_ARRAY(keep, int64_t, (size_t)graph->devices + 2);
    for (int64_t i = 0; i < uses; i++)
        first[use[i].device + 2] += 2;
    for (int32_t d = 0; d < graph->devices; d++)
        first[d + 2] += first[d + 1];
    return first;
}

void engine_memory(struct arena *keep, const struct engine_graph *graph,
                   const struct engine_result *result, const int64_t *use_first,
                   const struct memory_use *use, const int64_t *base_bytes,
                   struct memory_peak **out)
{
    struct arena *scratch = arena_new();
    int64_t *first = count_steps(scratch, graph, use_first[graph->tasks], use);
    struct memory_step *step =
        ARENA_ARRAY(scratch, struct memory_step, 2 * (size_t)use_first[graph->tasks]);
    for (int32_t t = 0; t < graph->tasks; t++)
        for (int64_t i = use_first[t]; i < use_first[t + 1]; i++) {
            int64_t *at = &first[use[i].device + 1];
            step[(*at)++] = (struct memory_step){result->start_ns[t], use[i].start_bytes};
            step[(*at)++] = (struct memory_step){result->end_ns[t], -use[i].end_bytes};
        }
    *out = ARENA_ARRAY(keep, struct memory_peak, (size_t)graph->devices);
    for (int32_t d = 0; d < graph->devices; d++)
        (*out)[d] =
            find_peak(step + first[d], first[d + 1] - first[d], base_bytes ? base_bytes[d] : 0);
    arena_free(scratch);
}
