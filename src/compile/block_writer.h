/* block_writer.h - private to blocks.c and product_chunks.c: the items of one block, while they are written. */
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
    int32_t floor;   /* items before this one are of another run: what they resharded is gone */
    int32_t layer;   /* the first item of the layer's backward pass */
    int32_t *chunks; /* per instance: of products whose rests have been written, else 0 (I6) */
    int32_t waited;  /* the last step that an operator waits for, -1: none */
    int32_t
        brought; /* the last step for what does not run again (I5): the next operator waits, or -1 */
    bool again;  /* recomputing */
};

/* ---- blocks.c ---- */
void write_rest(struct block_writer *w, int64_t instance, enum phase phase, enum purpose purpose,
                int32_t needs, int32_t chunks);

/* ---- product_chunks.c (blocks.c, I6) ---- */
/* In how many chunks a step may go on beside this product, which reads or makes what it brings; 0: it
 * may not. */
int32_t chunks_beside(const struct block_writer *w, int32_t step, enum collective collective,
                      int64_t product);
/* What begins with a step waits for the step before it, too, unless an operator has. */
int32_t begins_with_step(const struct block_writer *w, int32_t step);
/* The rests of this product and of those right after it that read the same, up to `last`. */
void write_rests_beside(struct block_writer *w, int64_t instance, int64_t last,
                        enum purpose purpose, int32_t gather);
/* The rest of the product that made what a step scatters, where nothing else has run since. */
void write_rest_behind(struct block_writer *w, int32_t step);

#endif
