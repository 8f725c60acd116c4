/* kind_work.h - private to model: the work of each kind of operator, for its row in kinds.c. */
#ifndef WEFT_MODEL_KIND_WORK_H
#define WEFT_MODEL_KIND_WORK_H

#include "model/model.h"

typedef void op_work_rule(const struct op *op, const int64_t *size, enum phase phase,
                          struct work *out);
op_work_rule linear_work, expert_work, score_work, context_work, attention_work;
op_work_rule conv_work, scan_work, delta_work, index_work, norm_work, gated_norm_work, softmax_work;
op_work_rule loss_work, batch_norm_work, embedding_work, bag_work, router_work;
op_work_rule pooling_work, interaction_work, elementwise_work, dropout_work, copy_work;

/* Of the FLOPs of an attention's products, the share whose keys its causal mask hides. */
double masked_share(const struct op *op);

#endif
