/* peak.c - the most that one sample's training step holds at once.
 *
 * The backward pass frees what is kept in reverse order, so the peak is usually at its start. A
 * table that several operators use (tied) can make another peak: each use gives a dense gradient,
 * and while the next use's gradient is added, the sum so far, the new gradient and their sum exist
 * together,
 *
 *   peak = max(kept by all,
 *              max over uses u but the last: kept by the operators before u + 3 tables)
 *
 * T5's table is used by encoder, decoder and head: with a short decoder text, the peak is at the
 * decoder's embedding, while all of the encoder is still kept. The paper does not say so, but this
 * explains its two T5-512/4 rows (Galvatron-BMW Table I: 385 MiB besides the layers; three tables
 * are 376.5 MiB).
 */
#include "model/model.h"

static int32_t table_of(const struct model *model, int32_t op)
{
    const struct op *o = &model->op[op];
    bool tied = o->weights && o->weight[0].tied_op >= 0;
    return tied ? o->weight[0].tied_op : op;
}

/* For each operator that owns a table, the last operator that uses it. */
static int32_t *last_uses(struct arena *scratch, const struct model *model)
{
    int32_t *last = ARENA_ARRAY(scratch, int32_t, (size_t)model->ops);
    for (int32_t i = 0; i < model->ops; i++)
        last[table_of(model, i)] = i;
    return last;
}

double model_peak_bytes(const struct model *model, enum dtype dtype)
{
    struct arena *scratch = arena_new();
    const int32_t *last = last_uses(scratch, model);
    double kept = 0, peak = 0;
    for (int32_t i = 0; i < model->ops; i++) {
        const struct op *op = &model->op[i];
        if (last[table_of(model, i)] > i) {
            double table = operand_elements(op, &op->weight[0].operand, op->size);
            double held = kept + 3 * table * dtype_bytes(dtype);
            peak = held > peak ? held : peak;
        }
        kept += op_totals(model, op, dtype).kept_bytes;
    }
    arena_free(scratch);
    return kept > peak ? kept : peak;
}
