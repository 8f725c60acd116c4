/* lives.h - the lives of a part's tensors while its passes are followed (lifetimes.h). Inside this room only. */
#ifndef WEFT_COMPILE_LIVES_H
#define WEFT_COMPILE_LIVES_H

#include "compile/build.h"

enum { NOTHING = -1 };

struct life_trace {
    struct build *b;
    int32_t part;
    int64_t first, first_use; /* of the part */
    struct life_list lives;
    int32_t *output, *extra, *gradient; /* per instance of the part: lives, or NOTHING */
    int32_t *cast;                      /* the same: an input as it was cast (I10) */
    int32_t *parts, *whole;   /* the same: an output in parts, and made whole from these (I12) */
    int32_t *received, *copy; /* per use: those of its leader */
    int32_t *turned;          /* per use: the input as the backward pass is split (I14) */
    /* per use: those of its leader, before the gradient's reshard */
    int32_t *raw;
    double buffers;  /* of all micro-batches, for what other stages send (I15) */
    int32_t sending; /* the tensor of the send that is being prepared */
    int64_t sending_use;
    /* The current position of the trace. */
    enum slot_kind kind;
    int32_t at;
    const struct item *item; /* NULL: at the start or end of a block */
};

/* The place of an instance in its part. */
static inline int64_t life_place(const struct life_trace *t, int64_t instance)
{
    return instance - t->first;
}

/* A tensor that is allocated now; NOTHING if it has no bytes. */
int32_t take_life(struct life_trace *t, enum held held, int64_t instance, double bytes);
/* Extends its life to the current position; NOTHING is read by nobody. */
void read_life(struct life_trace *t, int32_t number);
/* The devices that have a tensor of this instance which is made now (subset_lives.c). */
struct device_run life_run(const struct life_trace *t, int64_t instance);
/* Whether a step changes a tensor where it is. */
bool step_in_place(const struct reshard_step *step);
double life_input_bytes(const struct life_trace *t, const struct use *use);
/* Bytes of the gradient of an instance's output, and of the gradient of an input as its reader makes it. */
double life_gradient_bytes(const struct life_trace *t, int64_t instance);
double life_input_gradient_bytes(const struct life_trace *t, const struct use *use);
/* A step of an input to the split of the backward pass; what that pass then reads of an instance's inputs (I14;
 * turn_lives.c). */
void turn_step(struct life_trace *t, const struct use *use);
void read_turned(struct life_trace *t, int64_t instance);

/* The steps of a joint's reshards that one block does, forward or backward. */
struct joint_steps {
    const struct reshard *reshard[2];
    int32_t from; /* where the second reshard, or the only one, begins */
};
struct joint_steps joint_forward_steps(const struct joint *j);
/* NULL if there is none. */
const struct reshard_step *joint_first_step(const struct joint_steps *s);
/* The tensor that a use's reshard starts from, and the one that the operator reads. */
int32_t life_origin(const struct life_trace *t, const struct use *use);
int32_t input_life(const struct life_trace *t, const struct use *use);

/* What a loss in single steps takes (I9; cast_inputs.c). */
void take_steps(struct life_trace *t, const struct laid *laid, bool forward);
/* A step that brings a source to parts, or makes it whole again (I12; part_lives.c). */
void parting_step(struct life_trace *t, const struct use *use);

/* Bytes of the model's input that a use is given: with what its windows read beyond their part. */
double input_with_halo(const struct life_trace *t, const struct use *use);
/* What a halo's step reads (`use`), and the image with its halo that an operator has while it runs (NULL; halo_lives.c). */
void halo_lives(struct life_trace *t, const struct use *use);

/* What a framework holds longer than a stage needs it (I15; stage_lives.c): the bytes that a received input or gradient takes
 * beside its buffers, which are counted, and what lives to the end of the block that is being followed. */
double received_bytes(struct life_trace *t, const struct use *use, double bytes);
double buffered_gradient(struct life_trace *t, const struct crossing *crossing);
void hold_longer(struct life_trace *t);

/* Takes the cast of an operator's first input, if the operator keeps it so (I10; cast_inputs.c). */
void take_cast(struct life_trace *t, int64_t instance);
/* Whether it keeps all of its inputs and its output so: attention in fp8. */
bool attention_keeps_cast(const struct build *b, int64_t instance);

#endif
