/* fuzz_model.h - asks a model that came through everything that `weft inspect` would. */
#ifndef WEFT_FUZZ_MODEL_H
#define WEFT_FUZZ_MODEL_H

#include <stdlib.h>

#include "model/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void ask_and_free(struct model *model)
{
    struct totals totals = model_totals(model, DTYPE_BF16);
    if (!(totals.parameters >= 0) || !(totals.kept_bytes >= 0))
        abort();
    for (int32_t i = 0; i < model->ops && i < 1000; i++) {
        int64_t size[OP_MAX_DIMS];
        op_full_size(&model->op[i], 4, size);
        for (int phase = 0; phase < PHASE_COUNT; phase++)
            if (!(op_work(&model->op[i], size, DTYPE_FP32, (enum phase)phase).flops >= 0))
                abort();
        op_path(model->arena, model, &model->op[i], op_copies(model, &model->op[i]) - 1);
    }
    model_free(model);
}

#endif
