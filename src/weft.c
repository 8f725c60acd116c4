/* weft.c - the public face (include/weft.h) over the rooms. */
#include "cluster/cluster.h"
#include "model/model.h"

struct weft_model {
    struct model model;
};

weft_status weft_model_open(const char *name, weft_model **out)
{
    struct model *model;
    weft_status status = model_open(name, NULL, &model);
    if (status == WEFT_OK)
        *out = (weft_model *)model;
    return status;
}

void weft_model_close(weft_model *model)
{
    model_free((struct model *)model);
}

double weft_model_parameters(const weft_model *model)
{
    return model_totals(&model->model, model->model.dtype).parameters;
}

double weft_model_flops_per_sample(const weft_model *model)
{
    return model_totals(&model->model, model->model.dtype).flops[PHASE_FORWARD];
}

struct weft_cluster {
    struct cluster cluster;
};

weft_status weft_cluster_open(const char *name, weft_cluster **out)
{
    struct cluster *cluster;
    weft_status status = cluster_open(name, &cluster);
    if (status == WEFT_OK)
        *out = (weft_cluster *)cluster;
    return status;
}

void weft_cluster_close(weft_cluster *cluster)
{
    cluster_free((struct cluster *)cluster);
}

int64_t weft_cluster_devices(const weft_cluster *cluster)
{
    return cluster_devices(&cluster->cluster);
}
