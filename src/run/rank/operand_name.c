/* operand_name.c - what errors of a run call an operand (operand_name.h). */
#include "run/rank/operand_name.h"

#include <stdio.h>

struct operand_name operand_name(const struct rank *r, int64_t instance, int32_t operand)
{
    const struct instance *at = &r->plan->instance[instance];
    const struct model *model = r->plan->model;
    struct arena *scratch = arena_new();
    struct operand_name name;
    snprintf(name.s, sizeof name.s, "input %d of %s", operand,
             op_path(scratch, model, &model->op[at->op], at->copy));
    arena_free(scratch);
    return name;
}
