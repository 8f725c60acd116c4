/* aceso_plan.h - plans as Aceso's programs write them: by their own walk over a model's operators.
 *
 * Their walk is Weft's less what they have no operator for (the loss, which their head has; ReLUs inside a
 * block; keys and values of cross-attention, which are with the queries), and every block of their ResNets
 * has a shortcut, whether anything is computed on it or not.
 *
 *   I1  What they have no operator for goes where the operator before it goes.
 *   I2  tp times dp of an operator is the devices of its stage. `step` is the samples of all replicas.
 */
#ifndef WEFT_EXCHANGE_ACESO_PLAN_H
#define WEFT_EXCHANGE_ACESO_PLAN_H

#include "plan/plan.h"

struct aceso_stage {
    int64_t devices, operators;
};
struct aceso_operator {
    int64_t tp;
    bool flipped; /* "algo" 1: the other of its two splits */
    bool recompute;
};
struct aceso_plan {
    int64_t step;
    int32_t stages;
    const struct aceso_stage *stage;
    const struct aceso_operator *op; /* of all stages, one after the other */
};

/* A model of theirs: its measured operators are a table of this name, "gpt_1_3B". */
struct aceso_table {
    const char *model, *name;
    enum dtype dtype;
};
const struct aceso_table *aceso_table_of(const char *model);    /* NULL: there is none */
const struct aceso_table *aceso_table_named(const char *table); /* the same */

/* What their profiles call the operator of this path; NULL: they have none. `head` is what the head is
 * called, NULL: it is none. */
const char *aceso_operator_name(struct arena *keep, const char *head, const char *path);

/* How their runtime runs any plan: 1f1b, nothing overlaps, gradients at the end, activations are sent and
 * gathered whole. */
struct degrees aceso_settings(int64_t global_batch);

/* The plan with these settings; the caller's to free. WEFT_BAD_INPUT: it is of another model or machine. */
weft_status aceso_plan_make(const struct aceso_plan *theirs, const struct model *model,
                            const struct cluster *cluster, const struct degrees *settings,
                            struct plan **out);

#endif
