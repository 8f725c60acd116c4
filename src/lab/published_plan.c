/* published_plan.c - makes a checked plan from the description of a run. */
#include "lab/published_read.h"

#include <string.h>

static weft_status open_and_plan(const struct published *row, struct opened_plan *out)
{
    weft_status status;
    TRY(model_open(row->model, row->options, &out->model));
    TRY(cluster_open(row->cluster, &out->cluster));
    TRY(plan_from_degrees(out->model, out->cluster, &row->degrees, &out->plan));
    out->plan->model_name = row->model;
    out->plan->model_options = row->options;
    out->plan->cluster_name = row->cluster;
    if (row->keeps_products)
        TRY(keep_products(out->plan));
    TRY(plan_check(out->plan));
done:
    return status;
}

weft_status published_plan(struct arena *keep, struct published *row, struct opened_plan *out)
{
    *out = (struct opened_plan){0};
    if (row->reason)
        return WEFT_OK;
    weft_status status = open_and_plan(row, out);
    if (status)
        plan_close(out);
    if (status != WEFT_BAD_INPUT)
        return status;
    refuse(keep, row, "%s", weft_last_error()->message);
    error_clear();
    return WEFT_OK;
}
