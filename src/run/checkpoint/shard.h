/* shard.h - which elements of a tensor a rank holds, said so that any rank can find them again.
 *
 * A tensor has the shape that its model gives it. A layout may count it larger (compile.h, I3): by
 * its padded shape, elements 0 .. N-1 in storage order. Of these a shard has, in rising order,
 *
 *   the f with (f / stride) % degree = value for each of its digits,                            (1)
 *   and of those, counted from 0, the ones from `first` to first + count - 1.                   (2)
 *
 * (1) is a device's part of a split weight, (2) a replica's part of sharded state. An element's
 * place in the whole tensor is its index without padding; padding has none.
 *
 *   I1  digit[k + 1].stride is a multiple of digit[k].stride * digit[k].degree, and N of the last
 *       one's: so the local index l becomes f digit by digit,
 *         f <- f % stride + stride * value + f / stride * stride * degree.                      (3)
 *   I2  Both l -> f and f -> place rise, so two shards meet in one walk over both.
 */
#ifndef WEFT_RUN_CHECKPOINT_SHARD_H
#define WEFT_RUN_CHECKPOINT_SHARD_H

#include "compile/compile.h"

enum { MAX_SHARD_AXES = 8 };
struct shard_digit {
    int64_t stride, degree, value;
};
struct shard {
    int64_t axes, digits;
    int64_t shape[MAX_SHARD_AXES], padded[MAX_SHARD_AXES];
    struct shard_digit digit[MAX_LAYOUT_DIGITS]; /* least stride first */
    int64_t first, count;
};

struct shard shard_whole(int64_t axes, const int64_t *shape);
/* What `device` (numbered within its stage) holds under a layout of padded elements; `padded` may be
 * NULL: as `shape`. */
struct shard shard_of_layout(int64_t axes, const int64_t *shape, const int64_t *padded,
                             const struct layout *layout, int64_t device);
/* A weight's, or another operand's without samples, under its operator's split. */
struct shard shard_of_operand(const struct op *op, const struct operand *operand,
                              const struct split *split, int64_t device);
/* NULL, or what is wrong with it: "has a digit that ...". */
const char *shard_fault(const struct shard *shard);

/* Elements beside each other in the shard and in the whole tensor. */
struct shard_run {
    int64_t place; /* of the first, in the whole tensor; -1: padding */
    int64_t count;
};
struct shard_run shard_run_at(const struct shard *shard, int64_t local); /* local < count */
/* The least local index whose place, or that of what follows it, is `place` or after; or count. */
int64_t shard_seek(const struct shard *shard, int64_t place);

/* {"shape": [4, 6], "padded": [4, 8], "digits": [[2, 4, 1]], "first": 0, "count": 8}; digits are
 * stride, degree, value. */
const char *shard_text(struct arena *keep, const struct shard *shard);
/* The same, read and checked; errors about tensor `name` of `file`. */
weft_status shard_parse(const char *file, const char *name, const char *text, struct shard *out);

#endif
