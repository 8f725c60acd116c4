/* holdings.c - how full each stage's devices get. */
#include "sim/room.h"

const char *memory_class_name(enum memory_class memory)
{
    static const char *const NAMES[] = {
        [MEMORY_WEIGHTS] = "weights",     [MEMORY_GRADIENTS] = "gradients",
        [MEMORY_OPTIMIZER] = "optimizer", [MEMORY_ACTIVATIONS] = "activations",
        [MEMORY_WORKSPACE] = "workspace",
    };
    _Static_assert(COUNT_OF(NAMES) == MEMORY_CLASS_COUNT, "a class without a name");
    return NAMES[memory];
}

static int64_t limit_of(const struct plan *plan)
{
    const struct device *device = &plan->cluster->node.device;
    return plan->memory_limit_bytes ? plan->memory_limit_bytes
                                    : device->memory_bytes - device->context_bytes;
}

void find_memory(struct prediction *p)
{
    const struct plan *plan = p->plan;
    struct pipeline pipeline = {plan->stages, (int32_t)plan->pieces,
                                (int32_t)plan_micro_batches(plan)};
    p->fits = true;
    for (int32_t s = 0; s < plan->stages; s++) {
        struct stage_peak *peak = &p->stage[s].memory;
        int64_t in_flight = schedule_find(plan->schedule)->in_flight(&pipeline, s);
        struct stage_memory memory = plan_stage_memory(plan, s, in_flight);
        peak->bytes[MEMORY_WEIGHTS] = (int64_t)memory.weights;
        peak->bytes[MEMORY_GRADIENTS] = (int64_t)memory.gradients;
        peak->bytes[MEMORY_OPTIMIZER] = (int64_t)memory.optimizer;
        peak->bytes[MEMORY_ACTIVATIONS] = (int64_t)memory.activations;
        peak->bytes[MEMORY_WORKSPACE] = (int64_t)memory.workspace;
        for (int k = 0; k < MEMORY_CLASS_COUNT; k++)
            peak->peak += peak->bytes[k];
        peak->reserved = peak->peak;
        peak->host = (int64_t)memory.host;
        peak->limit = limit_of(plan);
        p->fits &= peak->peak <= peak->limit;
    }
}
