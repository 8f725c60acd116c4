/* public_weights.h - weights as Hugging Face's transformers keep them: a folder with config.json and safetensors,
 * for the families gpt2 and llama.
 *
 * A run begins with the weights of such a folder (public_weights_read), and what a checkpoint holds becomes one
 * (public_weights_write). Both ask one table, which says for each weight of Weft's where its numbers are there:
 *
 *   same      the same numbers in the same order
 *   turned    the transpose: GPT-2 stores products as (inputs, outputs)
 *   qkv       rows of one product: of every key/value head its queries, its key, its value; there all queries, all
 *             keys, all values, in one tensor or in three
 *   gates     rows of one product: a gate and its up in turn; there two tensors
 *
 *   I1  Where positions turn, Weft turns features 2 i and 2 i + 1 of a head together, llama i and i + depth / 2: rows
 *       of queries and keys are exchanged accordingly.
 *   I2  What the folder computes otherwise than Weft does (other rotary positions, another epsilon) is refused.
 */
#ifndef WEFT_RUN_CHECKPOINT_PUBLIC_WEIGHTS_H
#define WEFT_RUN_CHECKPOINT_PUBLIC_WEIGHTS_H

#include "run/checkpoint/safetensors.h"
#include "run/checkpoint/shard.h"

struct checkpoint;

/* ---- names ----------------------------------------------------------------------------------- */

enum public_form { FORM_SAME, FORM_TURNED, FORM_QKV, FORM_QKV_TURNED, FORM_GATES };
enum { PUBLIC_PARTS = 3 };

/* Where a weight's numbers are: in one to three tensors, and how its rows lie there. */
struct public_place {
    enum public_form form;
    int parts;
    const char *name[PUBLIC_PARTS];
    int64_t rows, columns;       /* of Weft's; a bias has one column */
    int64_t heads, group, depth; /* key/value heads, queries of each */
    bool rotates;                /* I1 */
};
/* One row of Weft's: the part, and its row there. */
struct public_row {
    int part;
    int64_t row;
};
struct public_row public_row_of(const struct public_place *place, int64_t row);
/* Rows of a part, counted over all tensors that it is made of. */
int64_t public_part_rows(const struct public_place *place, int part);
/* Names are in `keep`. */
weft_status public_place_of(struct arena *keep, const struct model *model, const char *name,
                            int64_t rows, int64_t columns, struct public_place *out);

/* ---- reading --------------------------------------------------------------------------------- */

struct public_weights;
weft_status public_weights_open(const struct model *model, const char *folder,
                                struct public_weights **out);
void public_weights_close(struct public_weights *weights); /* NULL: nothing */
/* A shard of a weight of Weft's, shard->count floats; padding becomes 0. */
weft_status public_weights_read(struct public_weights *weights, const char *name,
                                const struct shard *shard, float *out);

/* ---- writing --------------------------------------------------------------------------------- */

/* Makes the folder, with config.json and model.safetensors in fp32, out of a checkpoint of this model. */
weft_status public_weights_write(const struct model *model, struct checkpoint *checkpoint,
                                 const struct disk *disk, const char *folder);

#endif
