/* proof_joins.c - what comes in several sends, where stages do not take equally many micro-batches at once (plan.h, I7).
 *
 *   I1  A tensor is there when every send of the micro-batches that its reader takes at once has come; none is there in part.
 *   I2  Samples do not read each other, which plan_check demands of such stages: an operator makes of several micro-batches at
 *       once what it makes of each, and the sum of their gradients of its weights.
 */
#include "compile/proof.h"

struct crossing_samples proof_samples(const struct symbolic_machine *m, const struct reading *r,
                                      bool backward)
{
    const struct plan *plan = m->p->plan;
    int64_t source = plan_samples(plan, m->p->fact[r->source].choice);
    int64_t reader = plan_samples(plan, m->p->fact[r->reader].choice);
    return (struct crossing_samples){backward ? reader : source, backward ? source : reader,
                                     common_divisor(source, reader)};
}

int32_t proof_of_samples(struct proof *p, int32_t layout, int64_t have, int64_t want)
{
    if (!layout || have == want)
        return layout;
    struct layout other = layout_of_samples(&p->layouts.data[layout], have, want);
    return number_layout(p, &other);
}

/* I1 */
bool proof_all_come(struct symbolic_machine *m, const struct arrival *arrival,
                    const struct crossing_samples *samples)
{
    int64_t step = m->p->plan->step_samples;
    bool *come = m->come[arrival->backward];
    if (samples->each == samples->to)
        return true;
    come[row(m, arrival->device, arrival->micro_batch, m->p->readings) + arrival->reading] = true;
    for (int64_t i = 0; i < samples->to; i += samples->each) {
        int32_t micro_batch = arrival->first + (int32_t)(i / step);
        if (!come[row(m, arrival->device, micro_batch, m->p->readings) + arrival->reading])
            return false;
    }
    return true;
}
