/* open_degrees.c - how far searches go with degrees that not every model has a use for. */
#include "search/planner/planner.h"

enum { MOST_CP = 16 };
/* From so many tokens on cp is one of the degrees of every search: attention is then a large part of a layer. */
static const int64_t LONG_SEQUENCE = 16384;
/* A device of a shorter sequence has no fewer tokens than this. */
static const int64_t LEAST_TOKENS = 2048;
/* From so many tokens on cp gains enough to be worth walks of its own (docs/guide/planning.md, "Context parallelism"). */
static const struct {
    int64_t devices, tokens; /* up to; from */
} WALKED[] = {{64, 4096}, {INT64_MAX, 8192}};

int64_t searched_cp(const struct model *model)
{
    return model->seq >= LONG_SEQUENCE ? MOST_CP : 1;
}

int64_t walked_cp(const struct model *model, int64_t devices)
{
    size_t row = 0;
    while (devices > WALKED[row].devices)
        row++;
    bool middle = model->seq >= WALKED[row].tokens && model->seq < LONG_SEQUENCE;
    return middle ? model->seq / LEAST_TOKENS : 1;
}

int64_t searched_ep(const struct model *model)
{
    int64_t most = 1;
    for (int32_t i = 0; i < model->ops; i++) {
        int at = op_find_dim(model->op[i].kind, DIM_EXPERT);
        if (at >= 0 && model->op[i].size[at] > most)
            most = model->op[i].size[at];
    }
    return most;
}

bool pins_encoder(const struct degrees *pins)
{
    return pins->encoder_tp || pins->encoder_dp || pins->encoder_pp;
}
