/* lifetimes.h - when each tensor of a part is allocated and freed.
 *
 * The passes of a part for one micro-batch (its forward block, then its backward block or blocks)
 * allocate and free the same tensors every time, so a part has one list of lifetimes, in terms of
 * the items of its blocks; a simulation or an executor repeats them slot by slot (sim/holdings.c).
 *
 *   I1  A tensor is allocated before item `born` of block `born_in` starts and freed when item
 *       `dies` of block `dies_in` is over. -1 is the start of a block, its number of items the end.
 *   I2  An operator's output lives until its last reader has run: in the backward block if that
 *       reads it again (op->keep). What lives within one block is workspace.
 *   I3  What a reshard makes of a tensor lives until the last reader it was made for. A gathered
 *       tensor is made again in the backward block (blocks.c, I2), and the producer's tensor is
 *       kept; of the other reshards, the copy is kept. An all-reduce works in place.
 *   I4  A recomputed run of operators makes its tensors again; only what it reads from outside is
 *       kept from the forward block (plan/memory.c, I1). If it offloads, that waits in host memory.
 *   I5  The gradient of an output is made by the backward pass of its first reader to run and dies
 *       after the backward pass of its operator. Gradients of several readers are added into the
 *       latest. A sum's inputs share the gradient of its output.
 *   I6  What comes from another part exists from the start of a block, what goes to another part
 *       until its end.
 *   I7  Gradients of weights are persistent (they are state and not listed here). If they are in
 *       fp32, products of layers add to them in place; others are made separately in the compute
 *       dtype and then added, or (the head) give autograd a stand-in of that size, as in
 *       Megatron-LM. Kernels that add to gradients themselves (device_adds_gradients) make none
 *       separately. With shard 2 and 3 a bucket's gradients are whole until the next bucket's are
 *       complete (FSDP2 waits for a reduce-scatter before it starts the next); without overlap,
 *       while they are made.
 *       Where gradients are freed after a step and made by one backward pass (plan_makes_gradients_late),
 *       they stay from there to the end of the block and are not state.
 *   I8  With shard 3 a bucket's weights are whole from when the bucket before it is first used
 *       (without overlap: from its own first use) to its last use in the block. Weights outside of layers are
 *       whole in all of it but for the loss, where the software has them so (FACT_ROOT).
 *   I9  A loss computed in single steps (KEEP_STEPS: eager PyTorch) copies the logits to fp32 for
 *       its log-softmax, which is kept. Backward, the gradients of the log-softmax and of the copy
 *       exist next to it; they are then replaced by the gradient of the logits, whose size is
 *       therefore subtracted.
 *   I10 Where the software keeps inputs of products in fp8 or nvfp4 as they were cast, the cast input lives until the
 *       weight's gradient, and the input itself only as long as others read it. Inputs of activations likewise, if
 *       the software keeps all of them so. Attention in fp8 keeps all of its inputs and its output so.
 *   I11 What an operator keeps that is not recomputed waits in host memory if that is chosen (OFFLOAD_KEPT), unless one
 *       that offloads nothing reads it in its backward pass, too. It has two lives: one until the layer after its own
 *       has run forward, and one from when that layer begins to run backward (layer_copies.c). So has what such an operator
 *       is recomputed from (Megatron-LM's moe/experts.py: off_interface around the checkpoint). What the last layer of a
 *       part keeps stays. An executor copies it with the checkpoints.
 *   I12 An output that waits in parts (parts.c) is freed after the last forward pass that reads it, where its parts are
 *       allocated, which live until they are gathered last; what is gathered lives until the last reader that it was gathered
 *       for.
 *   I15 Where the software holds what stages exchange (FACT_STAGES), what a micro-batch receives is in a buffer of its own, which
 *       is no life (`buffers`); what a part sends, and the logits, live to the end of the backward pass; and all that a
 *       micro-batch keeps, but for its loss, to the end of the pass for weights, where that is another.
 *   I16 A gathered input of a product is kept as it was gathered where the software does so (FACT_GATHERED), and not gathered
 *       again. The logits of a loss in single steps (I9) live until its backward pass where the software has them (FACT_LOGITS).
 *   I14 What is brought to the split of a backward pass lives until that pass has read it; gradients have its sizes.
 *   I13 A tensor is on the devices that have the operator which makes it; what a reshard makes, on those of its reader, or of
 *       the operator whose gradient it is (plan/subset.h).
 */
#ifndef WEFT_COMPILE_LIFETIMES_H
#define WEFT_COMPILE_LIFETIMES_H

#include "plan/plan.h"
#include "schedule/schedule.h"

enum memory_class {
    MEMORY_WEIGHTS,
    MEMORY_GRADIENTS,
    MEMORY_OPTIMIZER,
    MEMORY_ACTIVATIONS, /* kept for the backward pass */
    MEMORY_WORKSPACE,   /* everything that lives within one block */
    MEMORY_CLASS_COUNT
};
const char *memory_class_name(enum memory_class memory); /* the fields of the JSON output */

enum held {
    HELD_INPUT,    /* the model's own input */
    HELD_OUTPUT,   /* an operator's output */
    HELD_COPY,     /* what a reshard made for an operator's input, or for a send */
    HELD_RECEIVED, /* an operator's input from another part */
    HELD_EXTRA,    /* masks, statistics, probabilities */
    HELD_GRADIENT, /* of an operator's output, or still of a reader's input */
    HELD_WEIGHTS,  /* gathered weights */
    HELD_WEIGHT_GRADIENTS,
    HELD_COUNT
};
const char *held_name(enum held held); /* "output" */

/* The stream in which a tensor is allocated: PyTorch's allocator gives memory that one has freed to no other. */
enum memory_stream {
    MEMORY_COMPUTED,
    MEMORY_GATHERED,
    MEMORY_REDUCED,
    MEMORY_GRAPHED, /* layers in CUDA graphs, which have pools of their own (FACT_GRAPH_POOLS) */
    MEMORY_STREAM_COUNT
};

struct lifetime {
    int64_t bytes; /* on each device */
    int64_t instance;
    uint8_t held;             /* enum held */
    uint8_t memory;           /* enum memory_class */
    uint8_t stream;           /* enum memory_stream */
    uint8_t born_in, dies_in; /* enum slot_kind */
    uint8_t offloaded;        /* enum offload: I4, I11 */
    uint8_t back_in;          /* where it is read in the backward pass first: block, */
    bool copied;              /* one of two lives (I11) */
    int32_t born, dies;       /* I1 */
    int32_t left, back;       /* the last item that reads it forward, the first one backward */
    struct device_run run;    /* the devices of the stage that have it (I13); none: all of them */
};

/* One allocation or release within a block. Those of an item are in this order: what is allocated
 * before it, then what is freed after it. */
struct memory_event {
    int32_t item; /* I1 */
    int32_t life; /* number within the part */
    bool gives;
};
struct memory_events {
    struct memory_event *event;
    int32_t count;
};
/* I11: bytes of each layer of a part that go to the host after its forward pass, and that come back before its pass of a
 * kind; units 0: none do. */
struct layer_copies {
    int32_t units;
    int64_t *out, *in[SLOT_KIND_COUNT];
};
struct part_lifetimes {
    int64_t buffers; /* for what other stages send, of all micro-batches (I15) */
    struct layer_copies copies;
    struct lifetime *life;
    int32_t lives;
    struct memory_events events[SLOT_KIND_COUNT]; /* of its block of each kind, if there is one */
};
/* I4: the bytes of one micro-batch that wait in host memory. */
int64_t offloaded_bytes(const struct part_lifetimes *part);

/* I11: the bytes of one micro-batch that do so layer by layer. */
int64_t copied_bytes(const struct part_lifetimes *part);

struct lifetimes {
    struct part_lifetimes *part; /* one per part of the plan */
};

#endif
