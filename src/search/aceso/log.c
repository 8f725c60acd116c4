/* log.c - every iteration of every search as JSON: the data behind Aceso's Figures 10 to 14. */
#include "search/aceso/room.h"

#include <jansson.h>

const char *resource_name(enum resource resource)
{
    static const char *const NAMES[] = {[RESOURCE_COMPUTE] = "compute",
                                        [RESOURCE_EXCHANGE] = "communication",
                                        [RESOURCE_MEMORY] = "memory"};
    _Static_assert(COUNT_OF(NAMES) == RESOURCE_COUNT, "a resource without a name");
    return NAMES[resource];
}

static json_t *step_json(const struct search_step *step)
{
    json_t *json = json_pack(
        "{s:i, s:f, s:I, s:i, s:i, s:s, s:i, s:b, s:b, s:f, s:f, s:I, s:I}", "iteration",
        step->iteration, "at_s", step->at_s, "configs", (json_int_t)step->configs, "bottleneck",
        step->bottleneck, "bottlenecks_tried", step->bottlenecks_tried, "resource",
        resource_name(step->resource), "restart", step->restart, "improved", step->improved, "best",
        step->best, "before_s", (double)step->before.iteration_ns * 1e-9, "after_s",
        (double)step->after.iteration_ns * 1e-9, "before_excess",
        (json_int_t)step->before.excess_bytes, "after_excess",
        (json_int_t)step->after.excess_bytes);
    if (!step->improved)
        return json;
    json_object_set_new(json, "hops", json_integer(step->hops));
    json_object_set_new(json, "primitive", json_string(PRIMITIVES[step->primitive].name));
    json_object_set_new(json, "what", json_string(step->text));
    return json;
}

static json_t *result_json(const struct search_result *result)
{
    json_t *steps = json_array();
    for (size_t i = 0; i < result->steps.len; i++)
        json_array_append_new(steps, step_json(&result->steps.data[i]));
    json_t *json = json_pack("{s:i, s:I, s:o}", "stages", result->stages, "configs",
                             (json_int_t)result->configs, "iterations", steps);
    if (result->count) {
        const struct verdict *best = &result->found[0].verdict;
        json_object_set_new(json, "best_s", json_real((double)best->iteration_ns * 1e-9));
        json_object_set_new(json, "fits", json_boolean(best->excess_bytes == 0));
    }
    return json;
}

weft_status aceso_log_write(const char *path, const struct problem *problem,
                            const struct search_result *results, int32_t count)
{
    json_t *searches = json_array();
    for (int32_t i = 0; i < count; i++)
        json_array_append_new(searches, result_json(&results[i]));
    json_t *json = json_pack(
        "{s:s, s:s, s:I, s:I, s:i, s:o}", "model", problem->request->model->name, "cluster",
        problem->request->cluster->name, "devices", (json_int_t)problem->devices, "global_batch",
        (json_int_t)problem->global_batch, "max_hops", problem->most_hops, "searches", searches);
    int failed = json_dump_file(json, path, JSON_INDENT(1));
    json_decref(json);
    return failed ? failure("cannot write the log to %s", path) : WEFT_OK;
}
