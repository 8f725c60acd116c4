/* offload_layers.c - where nothing fits: the grid of degrees once more, with what all modules of layers keep in host memory
 * (plan/offload_modules.c), if the request's target or its software copies it there.
 *
 *   I1  Plans that fit without it are not compared with it: a search that has found one does not look.
 */
#include "search/auto/room.h"

static bool can_offload(const struct plan_request *request)
{
    const struct target *target =
        request->target ? request->target : target_with(&request->pins.software);
    return target && target->can.offload_modules;
}

weft_status offload_layers(struct join *join)
{
    struct plan_request request = *join->request;
    if (join_best(join->out, NULL) || join_over(join) || request.options.batch_auto ||
        request.pins.offload_modules || !can_offload(&request))
        return WEFT_OK;
    request.pins.offload_modules = model_offload_modules(request.model);
    return request.pins.offload_modules ? join_grid(join, &request) : WEFT_OK;
}
