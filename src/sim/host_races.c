/* host_races.c - hosts that meet at exchanges (FACT_WAITS: exchanges).
 *
 * An exchange begins when the last of its ranks has issued it, so that a host that is slower than its device gets no further
 * ahead than to the next exchange; and while one takes place, it issues what follows. Between two exchanges, with the sums over
 * items since the one before,
 *
 *   ns_i = device_i * max(1, (host - exchange) / device)                                                     (1)
 *
 * A block without exchanges is left to item_cost.h, (2). Exchanges beside products (OVERLAP_TENSOR, chunks) hide nothing of
 * the host's time here: it is not known how much of them the device waits for.
 */
#include "sim/item_cost.h"

bool hosts_meet(const struct plan *plan)
{
    return software_word(&plan->software, FACT_WAITS) == WAITS_EXCHANGES;
}

int64_t exchange_wait_ns(const struct plan *plan, const struct item *item, int64_t ns)
{
    bool beside = item->chunks > 0 || (plan->overlap & OVERLAP_TENSOR);
    return hosts_meet(plan) && item->exchange >= 0 && !beside ? ns : 0;
}

struct race {
    int32_t first; /* item since the exchange before */
    double host, device, waits;
};

/* (1) for the items before `end`; returns by how much longer they take. */
static double end_race(const struct block *block, const struct race *race, int32_t end, int64_t *ns)
{
    double host = race->host - race->waits, more = 0;
    if (race->device <= 0 || host <= race->device)
        return 0;
    for (int32_t i = race->first; i < end; i++)
        if (block->item[i].kind == ITEM_OP) {
            int64_t stretched = (int64_t)((double)ns[i] * host / race->device);
            more += (double)(stretched - ns[i]);
            ns[i] = stretched;
        }
    return more;
}

void meet_at_exchanges(struct item_costs *costs, const struct block *block, double step_ns,
                       int64_t *ns, struct part_cost_sums *sums)
{
    struct race race = {0};
    for (int32_t i = 0; i < block->items; i++) {
        const struct item *item = &block->item[i];
        if (item->kind == ITEM_OP) {
            race.host += (double)item_host_ns(costs, item);
            race.device += (double)ns[i];
        } else if (item->exchange >= 0) {
            race.host += step_ns;
            race.waits = (double)exchange_wait_ns(costs->plan, item, ns[i]);
            sums->host -= race.waits;
            sums->device += end_race(block, &race, i, ns);
            race = (struct race){.first = i + 1};
        }
    }
    if (race.first > 0)
        sums->device += end_race(block, &race, block->items, ns);
}
