/* practice.c - what a user leaves open is set to what such a model is trained with on such devices today
 * (model/todays.c). */
#include "plan/plan.h"

/* Whether it has matrix units for bf16, as all have since 2020. */
static bool device_is_todays(const struct device *device)
{
    return device->flops[DTYPE_BF16] > 2 * device->vector_flops;
}

weft_status follow_practice(struct arena *keep, const char *name, const char **options,
                            struct degrees *degrees, struct opened_plan *opened)
{
    if (!cluster_all_devices(opened->cluster, device_is_todays))
        return WEFT_OK;
    if (!degrees->has_dtype && !degrees->has_policy) {
        degrees->dtype = model_todays_dtype(opened->model, name);
        degrees->has_dtype = degrees->dtype != opened->model->dtype;
    }
    const char *todays = model_todays_options(keep, name, *options);
    if (todays == *options)
        return WEFT_OK;
    *options = todays;
    model_free(opened->model);
    opened->model = NULL;
    return model_open(name, todays, &opened->model);
}
