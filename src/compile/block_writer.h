/* block_writer.h - the items of one block while they are written; private to blocks.c, block_items.c
 * and product_chunks.c. */
#ifndef WEFT_COMPILE_BLOCK_WRITER_H
#define WEFT_COMPILE_BLOCK_WRITER_H

#include "compile/build.h"

struct block_writer {
    struct build *b;
    int32_t part, stage;
    ARRAY(struct item) items;
    int32_t last_op, last_step; /* items, -1: none */
    int32_t *item_of;           /* per instance of the part: its latest item in this block, or -1 */
    int32_t *step_of;     /* per use of the part: the last item of its forward reshard, or -1 */
    int32_t *gradient_of; /* per instance: the step that brought its output's gradient, or -1 */
    int64_t first_use;
    int32_t floor; /* items before this one belong to another run: what they resharded is gone */
    int32_t layer; /* the first item of the layer's backward pass */
    /* per instance: the chunks of a product or of attention whose rest has been written, else 0 (I6, I7) */
    int32_t *chunks;
    int32_t waited; /* the last step that an operator waits for, -1: none */
    /* the last step that brings something to an instance that does not run again (I5), for which
     * the next operator waits; -1: none */
    int32_t brought;
    bool recomputing; /* whether items are written that recompute */
    bool beside;      /* whether they run beside tokens (shared_experts.c) */
    bool *early;      /* per instance of the part: whether it was written so in this pass */
    bool *remade;     /* per instance of the part: whether its run has been written again */
    /* per instance: the step after which its output is whole again (parts.c), or -1 */
    int32_t *whole;
};

/* ---- block_forward.c ---- */
bool in_part(const struct block_writer *w, int64_t instance);
bool moves(const struct joint *joint);
bool gathers(const struct joint *joint);
/* The first and the last instance of the run of recomputed ones, within its layer, that this one is in. */
int64_t run_start(const struct block_writer *w, int64_t i);
int64_t run_end(const struct block_writer *w, int64_t i);
/* Whether it reads what is made again of an output of this part (blocks.c, I8). */
bool reads_remade(const struct block_writer *w, const struct use *use);
/* Makes what a use reads whole again, if it waits in parts; returns the last step, -1: it does not (blocks.c, I9). */
int32_t regather(struct block_writer *w, const struct use *use);
/* Brings one input; returns the item after which it is there. */
int32_t bring(struct block_writer *w, int64_t u);
/* `last` is the last of the operators that run forward together. */
void forward_op(struct block_writer *w, int64_t instance, int64_t last, enum purpose purpose);
void write_forward(struct block_writer *w);
/* Begins to write what runs beside tokens, for which only what comes after it waits; and ends that. */
int32_t begin_beside(struct block_writer *w);
void end_beside(struct block_writer *w, int32_t waits);

/* ---- shared_experts.c ---- */
struct shared_run {
    int64_t up, combine;         /* the instances before which tokens come, and go back */
    int64_t first, product, end; /* of the shared expert: from `product` on beside the way back */
};
/* The shared expert that runs beside the tokens of the layer that an instance is in; false: none does. */
bool shared_run_of(const struct block_writer *w, int64_t instance, struct shared_run *run);
/* Whether tokens are on their way before this instance, forward, or after it, backward; and what runs beside them. */
bool runs_beside(const struct shared_run *run, int64_t instance, int64_t *first, int64_t *end);

/* ---- block_items.c ---- */
int32_t write_op(struct block_writer *w, int64_t instance, enum phase phase, enum purpose purpose,
                 int32_t needs);
/* Whether nothing runs beside tokens that are sent to experts (blocks.c, I10). */
bool tokens_alone(const struct block_writer *w);
/* Writes steps [first, last) of a reshard; returns the last item, or `needs` if there are none. */
int32_t write_steps(struct block_writer *w, const struct use *use, const struct reshard *reshard,
                    int32_t first, int32_t last, enum flow flow, int32_t needs);
/* What an operator's first input needs of its neighbours, or the gradient of it owes to them (halo.c). */
int32_t write_halo(struct block_writer *w, int64_t instance, enum flow flow, int32_t needs);
/* Brings what is kept of an instance's inputs to the split of its backward pass; returns the last item, or `needs`. */
int32_t write_turns(struct block_writer *w, int64_t instance, int32_t needs);
/* All of them. */
int32_t write_reshard(struct block_writer *w, const struct use *use, const struct reshard *reshard,
                      enum flow flow, int32_t needs);
void write_rest(struct block_writer *w, int64_t instance, enum phase phase, enum purpose purpose,
                int32_t needs, int32_t chunks, int32_t share);

/* ---- product_chunks.c (blocks.c, I6) ---- */
/* The number of chunks in which this step may overlap with this product, which reads or makes the
 * step's tensor; 0: it may not. */
int32_t chunks_beside(const struct block_writer *w, int32_t step, enum collective collective,
                      int64_t product);
/* An item that begins with a step also waits for the step before it, unless an operator already
 * does. */
int32_t begins_with_step(const struct block_writer *w, int32_t step);
/* Writes the rests of this product and of the following ones, up to `last`, that read the same
 * tensor. */
void write_rests_beside(struct block_writer *w, int64_t instance, int64_t last,
                        enum purpose purpose, int32_t gather);
/* Writes the rest of the product whose output a step scatters, if nothing else has run since. */
void write_rest_after(struct block_writer *w, int32_t step);
/* Writes all chunks of attention but `later` ones beside the gathers of its keys and values, which are among the items
 * from `first` on (I7). Returns the number of chunks; 0: nothing goes round a ring. */
int32_t write_ring(struct block_writer *w, int64_t instance, enum phase phase, enum purpose purpose,
                   int32_t first, int32_t later);

#endif
