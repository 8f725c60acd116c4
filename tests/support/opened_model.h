/* opened_model.h - a model that opens, and what tests ask of it. */
#ifndef WEFT_TESTS_OPENED_MODEL_H
#define WEFT_TESTS_OPENED_MODEL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/model.h"

static inline struct model *opened(const char *name, const char *overrides)
{
    struct model *model = NULL;
    if (model_open(name, overrides, &model) != WEFT_OK)
        fail_msg("%s: %s", name, weft_last_error()->message);
    return model;
}

static inline double parameters(const struct model *model)
{
    return model_totals(model, DTYPE_FP32).parameters;
}

static inline double flops(const struct model *model)
{
    return model_totals(model, DTYPE_FP32).flops[PHASE_FORWARD];
}

static inline const struct op *find_op(const struct model *model, const char *path)
{
    struct arena *scratch = arena_new();
    const struct op *found = NULL;
    for (int32_t i = 0; i < model->ops && !found; i++)
        if (strcmp(op_path(scratch, model, &model->op[i], 0), path) == 0)
            found = &model->op[i];
    arena_free(scratch);
    return found;
}

static inline bool has_warning(const struct model *model, const char *text)
{
    for (size_t i = 0; i < model->warnings.len; i++)
        if (strcmp(model->warnings.data[i], text) == 0)
            return true;
    return false;
}

#endif
