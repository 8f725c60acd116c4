/* thread_ranks.c - ranks that are threads of this process (thread_ranks.h). */
#include "run/measure/thread_ranks.h"

struct thread_ranks {
    struct transport **transport;
    int32_t ranks;
    rank_measurement *measure;
    void *context;
};

static weft_status run_rank(void *context, int32_t number, int32_t threads)
{
    struct thread_ranks *all = context;
    if (threads < all->ranks)
        return failure("no more threads can be started");
    struct arena *arena = arena_new();
    weft_status status = all->measure(all->context, all->transport[number], arena);
    arena_free(arena);
    return status;
}

weft_status on_thread_ranks(int32_t ranks, rank_measurement *measure, void *context)
{
    struct arena *arena = arena_new();
    struct transport **transport = ARENA_ARRAY(arena, struct transport *, (size_t)ranks);
    struct thread_ranks all = {transport, ranks, measure, context};
    struct hub *hub = hub_new(ranks, NULL);
    for (int32_t r = 0; r < ranks; r++)
        transport[r] = transport_threads(hub, r);
    weft_status status = pool_run_ranks(ranks, run_rank, &all);
    for (int32_t r = 0; r < ranks; r++)
        transport[r]->kind->close(transport[r]);
    hub_free(hub);
    arena_free(arena);
    return status;
}
