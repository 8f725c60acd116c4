/* open_degrees.c - how far searches go with degrees that not every model has a use for. */
#include "search/planner/planner.h"

enum { MOST_CP = 16 };
/* Sequences shorter than this are not divided unless the user asks: attention is then a small part
 * of a layer. */
static const int64_t LONG_SEQUENCE = 16384;

int64_t searched_cp(const struct model *model)
{
    return model->seq >= LONG_SEQUENCE ? MOST_CP : 1;
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
