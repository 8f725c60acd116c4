/* uses.h - which instance reads which output in a graph: what an executor with real tensors must
 * know besides the tasks (uses.c finds it).
 *
 *   I1  The items of a block that bring input k of instance r, or its gradient, are the steps of
 *       the joint of use_first[r] + k, in order: forward[0], the extraction of a part of a fused
 *       tensor from the whole, forward[1]; and in the other direction backward[0], the whole from
 *       the part, backward[1].
 *   I2  Across stages, what comes before the send of forward[1] or backward[0] is in the block of
 *       the part that sends, what comes after it in that of the part that receives.
 *   I3  Uses that the same steps serve have one leader, the earliest of them in the reader's part:
 *       forward its steps are done once, backward the gradients of all are added up before them.
 */
#ifndef WEFT_COMPILE_USES_H
#define WEFT_COMPILE_USES_H

#include "compile/compile.h"

/* One operator under one choice. */
struct laid {
    const struct op *op;
    const struct choice *choice;
    int64_t local[OP_MAX_DIMS], back[OP_MAX_DIMS]; /* of the forward and of the backward pass */
    struct layout *input, *input_grad;
    struct layout output, output_grad;
    /* Per input: what brings it from the split of the forward pass to that of the backward pass; NULL: nothing does
     * (plan/back.c). */
    const struct reshard **turn;
    struct joint *joints; /* the joints that end here */
    /* What neighbours exchange of its first input, height before width, and of the gradient, the other way round (halo.c). */
    int32_t halos;
    struct reshard_step *halo[2]; /* by enum flow */
    int64_t with_halo;            /* elements of its first input on a device, the halo included */
};

/* What brings an operator's output to an input of another: at most two reshards in each direction,
 * NULL if there is nothing to do. Across stages, forward[1] and backward[0] are those that send. */
struct joint {
    const struct laid *from, *to;
    int32_t operand;
    bool across;
    bool part; /* the input is a part of a fused tensor */
    const struct reshard *forward[2], *backward[2];
    struct joint *next;
};

/* The samples at both ends of a joint, in the direction of its tensor or of the gradient. */
struct crossing_samples joint_samples(const struct plan *plan, const struct joint *joint,
                                      bool backward);

/* One input of one instance. */
struct use {
    int64_t reader;
    int64_t source; /* instance, -1: the model's input */
    int32_t operand;
    struct joint *joint; /* NULL: the model's input */
    /* an earlier use in the reader's part that the same reshards serve, or this one itself */
    int32_t same_forward, same_backward;
    int32_t next; /* an earlier use of the same source, -1: none */
};

/* An output that waits in parts between the passes (parts.c). */
struct in_parts {
    const struct reshard *slices, *gathers; /* to parts, and whole again; NULL: it does not */
    int32_t use;                            /* one whose reader has it gathered, -1: nobody has */
    double share;                           /* of its bytes on each device */
};
enum parting { PARTING_NONE, PARTING_SLICE, PARTING_GATHER };
/* Whether a step brings a use's source to parts or makes it whole again; `all` is per instance, or NULL. */
enum parting parting_of(const struct in_parts *all, const struct use *use,
                        const struct reshard_step *step);

struct graph_uses {
    const struct use *use;
    int64_t *use_first;              /* per instance, and one past the last */
    int32_t *last_use;               /* per instance: the latest use of its output, -1: none */
    int32_t *part_of;                /* per instance */
    int32_t *bucket_of;              /* per instance: of its weights, -1: none */
    struct laid **laid;              /* per operator and choice */
    const struct in_parts *in_parts; /* per instance; NULL: no output waits in parts */
};
const struct laid *graph_laid(const struct graph *graph, int64_t instance);

#endif
