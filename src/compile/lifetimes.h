/* lifetimes.h - when each tensor of a part is taken and given back.
 *
 * The passes of a part for one micro-batch (its forward block, then its backward block or blocks)
 * take and give back the same tensors every time, so a part has one list of lifetimes, in items of
 * its blocks; whoever plays slots repeats them (sim/holdings.c; later the executor's buffers).
 *
 *   I1  A tensor is taken before item `born` of block `born_in` starts and given back when item
 *       `dies` of block `dies_in` is over. -1 is the start of a block, its number of items the end.
 *   I2  An operator's output lives until its last reader has run: in the backward block, where that
 *       reads it again (op->keep). What lives within one block is workspace.
 *   I3  What a reshard makes of a tensor lives until the last reader it was made for. One that
 *       gathers is made again in the backward block (blocks.c, I2), and what stays is the producer's
 *       tensor; of the others, the copy stays. An all-reduce works in place.
 *   I4  A recomputed run of operators makes its tensors again; what it reads from outside stays from
 *       the forward block, and that is all (plan/memory.c, I1). Where it offloads, that waits in
 *       host memory.
 *   I5  The gradient of an output is made by the backward pass of its first reader to run and dies
 *       after the backward pass of its operator. Gradients of several readers are added into the
 *       latest. A sum's inputs share the gradient of its output.
 *   I6  What comes from another part is there from the start of a block, what goes there until its
 *       end.
 *   I7  Gradients of weights are persistent (state, not here). Where they are in fp32, products of
 *       layers add to them in place; others are made apart in the compute dtype and added, or (the
 *       head) leave a stand-in that large to autograd, as Megatron-LM's do. Kernels that add to gradients
 *       themselves (device_adds_gradients) make none apart. With shard 2 and 3 a bucket's
 *       gradients are whole until the next bucket's are complete (FSDP2 waits for a reduce-scatter
 *       before it starts the next); without overlap, while they are made.
 *   I8  With shard 3 a bucket's weights are whole from when the bucket before it is first used
 *       (without overlap: from its own first use) to its last use in the block.
 *   I9  A loss of single steps (KEEP_STEPS: eager PyTorch) copies the logits to fp32 for its
 *       log-softmax, which stays. Backward, the gradients of that and of the copy are there beside it;
 *       then they make room for the one of the logits, which is therefore taken off.
 */
#ifndef WEFT_COMPILE_LIFETIMES_H
#define WEFT_COMPILE_LIFETIMES_H

#include "schedule/schedule.h"

enum memory_class {
    MEMORY_WEIGHTS,
    MEMORY_GRADIENTS,
    MEMORY_OPTIMIZER,
    MEMORY_ACTIVATIONS, /* kept for the backward pass */
    MEMORY_WORKSPACE,   /* everything that lives within one block */
    MEMORY_CLASS_COUNT
};
const char *memory_class_name(enum memory_class memory); /* the fields of design's JSON */

enum held {
    HELD_INPUT,    /* the model's own */
    HELD_OUTPUT,   /* an operator's */
    HELD_COPY,     /* what a reshard made for an operator's input, or for a send */
    HELD_RECEIVED, /* an operator's input from another part */
    HELD_EXTRA,    /* masks, statistics, probabilities */
    HELD_GRADIENT, /* of an operator's output, or still of a reader's input */
    HELD_WEIGHTS,  /* gathered */
    HELD_WEIGHT_GRADIENTS,
    HELD_COUNT
};
const char *held_name(enum held held); /* "output" */

struct lifetime {
    int64_t bytes; /* on each device */
    int64_t instance;
    uint8_t held;             /* enum held */
    uint8_t memory;           /* enum memory_class */
    uint8_t born_in, dies_in; /* enum slot_kind */
    bool offloaded;           /* I4 */
    int32_t born, dies;       /* I1 */
};

/* One thing that happens to memory in a block. Those of an item: what is taken before it, then what
 * is given back after it. */
struct moment {
    int32_t item; /* I1 */
    int32_t life; /* of the part */
    bool gives;
};
struct moments {
    struct moment *moment;
    int32_t count;
};
struct part_lifetimes {
    struct lifetime *life;
    int32_t lives;
    struct moments moments[SLOT_KIND_COUNT]; /* of its block of each kind; 0 where it has none */
};
/* I4: of one micro-batch, what waits in host memory. */
int64_t offloaded_bytes(const struct part_lifetimes *part);

struct lifetimes {
    struct part_lifetimes *part; /* plan->parts */
};

#endif
