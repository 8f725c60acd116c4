/* timed.h - inside estimate: a plan's outline with times, those of the simulator. */
#ifndef WEFT_SEARCH_ESTIMATE_TIMED_H
#define WEFT_SEARCH_ESTIMATE_TIMED_H

#include "sim/sim.h"

struct timed {
    const struct plan *plan;
    struct outline outline;
    struct flows flows;
    struct item_costs costs;
    int32_t *block_of[SLOT_KIND_COUNT]; /* per part, -1: none */
    int64_t *item_first, *item_ns;      /* per block; per item: times as stretched by the host */
    double slowdown;
    const double *token_slowdown; /* per exchange (token_slowdowns) */
    struct pass_runs *runs;       /* passes.h, I6; NULL: none are kept */
};
weft_status timed_new(struct arena *keep, const struct plan *plan, struct cost *cost,
                      struct flow_cache *flows, struct timed *out);
void timed_free(struct timed *timed);
/* What the optimizer's step on the host takes on a stage, after the device's (compile/offload.c). */
int64_t host_step_on_stage_ns(const struct timed *timed, int32_t stage);
int64_t exchange_ns(const struct timed *timed, int32_t exchange); /* 0 for -1 */

#endif
