/* aceso_plan.h - plans as Aceso's programs write them: as lists over Aceso's own order of a model's operators.
 *
 * Aceso walks over the same operators as Weft, except that it has no operator of their own for the loss (part of
 * its head), for ReLUs inside a block, and for keys and values of cross-attention (part of the queries). Every block
 * of its ResNets has a shortcut, whether anything is computed on it or not.
 *
 *   I1  An operator that Aceso does not have goes to the stage of the operator before it.
 *   I2  For each operator, tp times dp is the number of devices of its stage. `step` is the samples of all replicas.
 */
#ifndef WEFT_EXCHANGE_ACESO_PLAN_H
#define WEFT_EXCHANGE_ACESO_PLAN_H

#include "plan/plan.h"

struct aceso_stage {
    int64_t devices, operators;
};
struct aceso_operator {
    int64_t tp;
    bool flipped; /* "algo" is 1: the operator takes the second of its two splits */
    bool recompute;
};
struct aceso_plan {
    int64_t step;
    int32_t stages;
    const struct aceso_stage *stage;
    const struct aceso_operator *op; /* the operators of all stages, one stage after the other */
};

/* A model of Aceso, with the name of the table that has its measured operators: "gpt_1_3B". */
struct aceso_table {
    const char *model, *name;
    enum dtype dtype;
};
const struct aceso_table *aceso_table_of(const char *model);    /* NULL if there is none */
const struct aceso_table *aceso_table_named(const char *table); /* the same */

/* The name of the operator at this path in Aceso's profiles, or NULL if they do not have it. `head` is the name to
 * return for the model's head, or NULL if it counts as no operator. */
const char *aceso_operator_name(struct arena *keep, const char *head, const char *path);

/* Per instance: the number of the operator of Aceso's walk that it belongs to; and how many operators there are. */
const int32_t *aceso_walk(struct arena *keep, const struct plan *plan, int32_t *operators);

/* How Aceso's runtime runs every plan: with the schedule 1f1b and without overlap; gradients are synchronised at the
 * end, and activations are sent and gathered whole. */
struct degrees aceso_settings(int64_t global_batch);

/* Makes the plan with these settings; the caller frees it. WEFT_BAD_INPUT if it was made for another model or
 * cluster. */
weft_status aceso_plan_make(const struct aceso_plan *theirs, const struct model *model,
                            const struct cluster *cluster, const struct degrees *settings,
                            struct plan **out);

#endif
