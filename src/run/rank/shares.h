/* shares.h - inputs that a kernel reads, and whose gradients it writes, where they lie in one fused tensor.
 *
 *   I1  All inputs of the operator are parts of one tensor, which they fill, and nothing is done to it on its way.
 *   I2  The gradient of the tensor is whole when the kernel has run. It stands for that of the first part; the others have none
 *       (items.c, (1)).
 */
#ifndef WEFT_RUN_RANK_SHARES_H
#define WEFT_RUN_RANK_SHARES_H

#include "run/rank/room.h"

/* What kernels.h calls a call's share; 0: each input is taken out of the tensor first. */
int64_t common_share(const struct rank *r, int64_t instance, const struct kernel_call *call);
/* Where an input begins in the tensor, or its gradient in that one's. */
void *place_in_share(const struct rank *r, int64_t instance, int32_t operand,
                     const struct value *whole);
/* Memory of the tensor's gradient, with the places of the inputs' in the call. */
struct value *room_in_shares(struct rank *r, int64_t instance, struct kernel_call *call);

#endif
