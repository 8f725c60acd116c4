/* operand.h - how large an operand is; part of model.h, which has operators before it. */
#ifndef WEFT_MODEL_OPERAND_H
#define WEFT_MODEL_OPERAND_H

#include "model/model.h"

/* Elements of an operand when the operator's dims have these local sizes (batch included):
 *
 *   prod over axes of size * prod over its dims of local / full                               (1)
 */
static inline double operand_elements(const struct op *op, const struct operand *operand,
                                      const int64_t *local)
{
    double elements = 1;
    for (int a = 0; a < operand->axes; a++) {
        elements *= (double)operand->size[a];
        for (int k = 0; k < MAX_AXIS_DIMS && operand->dims[a][k] >= 0; k++) {
            int dim = operand->dims[a][k];
            if (local[dim] != op->size[dim]) /* most are whole, and a division is slow */
                elements *= (double)local[dim] / (double)op->size[dim];
        }
    }
    return elements;
}

#endif
