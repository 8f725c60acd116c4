/* galvatron_cells.c - the cells of Galvatron-BMW's Tables II and III, searched with the layers that
 * its authors measured on RTX TITAN.
 *
 * Every batch that is a multiple of 8, as in the tables, and every PP degree is tried. The number of
 * micro-batches is the authors' (they tuned it by hand, section VII-A), the rest is searched.
 *
 *   iteration = (n / s - 1) * max_i steady_i + sum_i time_i                                     (1)
 *
 * for a batch of n samples in chunks of s samples; the last chunk has the remainder. torch.chunk does
 * the same: it cuts a batch of 8 into 3, 3 and 2.
 *
 *   I1  Rows that are not 1F1B hold a whole batch at once (GPipe); how many chunks it is cut into is in galvatron_facts.h.
 *   I2  Every row with recomputation or 1F1B may take the batch of the row that it extends. What fits there also fits here
 *       and takes no longer.
 *   I3  A batch for which nothing fits ends the search, as in Algorithm 1.
 *   I4  1F1B can accumulate any batch. Algorithm 2 stays within B0 - r .. B0 + r of the batch B0 of
 *       Algorithm 1; r is not published, and is taken to be B0.
 */
#include <string.h>

#include "lab/galvatron_facts.h"
#include "lab/published_read.h"
#include "lab/published_searches.h"

enum { BATCH_STEP = 8, MOST_BATCH = 1280 };

/* ---- one batch on one number of stages ------------------------------------------------------- */

struct hunt {
    struct arena *keep;
    const struct galvatron_facts *facts;
    const struct galvatron_row *row;
    const struct galvatron_model *model;
    const struct galvatron_machine *machine;
    struct layer_source source;
    struct space space;
    struct pp_degrees pp;
    int64_t batch_step;
    struct search_cell *cell;
};

static const char *laid_out(struct arena *keep, const struct layer_plan *plan)
{
    const char *text = "";
    int32_t layer = 0;
    for (int32_t stage = 0; stage < plan->stages; stage++) {
        const char *before = stage ? " | " : "";
        for (int32_t end = layer + plan->count[stage]; layer < end;) {
            const char *own = strategy_text(keep, &plan->strategy[layer], plan->stages);
            int32_t first = layer++;
            while (layer < end &&
                   strcmp(own, strategy_text(keep, &plan->strategy[layer], plan->stages)) == 0)
                layer++;
            text = arena_printf(keep, "%s%s%s x%d", text, before, own, (int)(layer - first));
            before = ", ";
        }
    }
    return text;
}

/* Equation (1). */
static double iteration_s(const struct layer_plan *plan, int64_t batch)
{
    double missing = (double)(plan->global_batch - batch) /
                     ((double)plan->global_batch / (double)plan->micro_batches);
    int64_t slowest = 0;
    for (int32_t stage = 0; stage < plan->stages; stage++)
        if (plan->cost[stage].steady_ns > slowest)
            slowest = plan->cost[stage].steady_ns;
    return ((double)plan->iteration_ns - missing * (double)slowest) * 1e-9;
}

static void take_plan(struct hunt *hunt, struct arena *scratch, const struct layer_plan *plan,
                      int64_t batch)
{
    struct search_answer *best = &hunt->cell->predicted;
    double rate = (double)batch / iteration_s(plan, batch);
    if (best->fits && rate <= best->samples_per_s)
        return;
    *best = (struct search_answer){true, batch, rate};
    hunt->cell->layout = arena_copy_text(hunt->keep, laid_out(scratch, plan));
}

static weft_status search_chunks(struct hunt *hunt, int64_t batch, int64_t pp, int64_t chunks,
                                 bool *fits)
{
    int64_t group = hunt->cell->devices / pp;
    int64_t padded = ceil_div(batch / group, chunks) * chunks * group;
    struct arena *scratch = arena_new();
    struct layer_problem problem = {.source = &hunt->source,
                                    .space = &hunt->space,
                                    .devices = hunt->cell->devices,
                                    .limit_bytes = hunt->cell->limit_bytes,
                                    .global_batch = padded,
                                    .pp = pp,
                                    .micro_batches = chunks};
    struct layer_plans plans;
    weft_status status;
    layer_profile_hold(&hunt->source, hunt->row->flush ? 0 : batch);
    status = galvatron_search(scratch, &problem, &plans);
    if (status == WEFT_OK) {
        *fits = true;
        take_plan(hunt, scratch, &plans.data[0], batch);
    } else if (status == WEFT_NO_ANSWER) {
        error_clear();
        status = WEFT_OK;
    }
    arena_free(scratch);
    return status;
}

/* ---- all batches ----------------------------------------------------------------------------- */

/* *fits is set if it fits with some degree, or if no degree has whole samples. */
static weft_status search_batch(struct hunt *hunt, int64_t batch, bool *fits)
{
    weft_status status = WEFT_OK;
    bool tried = false;
    *fits = false;
    for (size_t i = 0; i < hunt->pp.len; i++) {
        int64_t pp = hunt->pp.data[i], group = hunt->cell->devices / pp, chunks[2];
        if (batch % group)
            continue;
        size_t count = galvatron_chunk_counts(hunt->model, hunt->row, hunt->cell->devices,
                                              batch / group, pp, chunks);
        tried = true;
        for (size_t c = 0; c < count; c++)
            TRY(search_chunks(hunt, batch, pp, chunks[c], fits));
    }
    *fits |= !tried;
done:
    return status;
}

/* Rows that extend another one have large batches, so that they try them in larger steps. */
static int64_t next_batch(const struct hunt *hunt, int64_t batch)
{
    int64_t more = hunt->row->extends ? batch / 4 : 0, step = hunt->batch_step;
    return batch + step + more / step * step;
}

static weft_status search_batches(struct hunt *hunt, int64_t base)
{
    int64_t most = hunt->row->flush ? 2 * base : MOST_BATCH; /* I4 */
    weft_status status = WEFT_OK;
    bool fits = true;
    for (int64_t batch = hunt->batch_step; fits && batch <= most; batch = next_batch(hunt, batch))
        TRY(search_batch(hunt, batch, &fits)); /* I3 */
    if (hunt->row->extends)
        TRY(search_batch(hunt, base, &fits)); /* I2 */
done:
    return status;
}

/* ---- cells ----------------------------------------------------------------------------------- */

/* Finds what the cell is about. False, with a reason in the cell, if Weft does not know some of it. */
static bool identify(struct hunt *hunt)
{
    const struct galvatron_facts *facts = hunt->facts;
    struct search_cell *cell = hunt->cell;
    int row =
        name_index(cell->strategy, facts->rows.data, sizeof *facts->rows.data, facts->rows.len);
    int model =
        name_index(cell->model, facts->models.data, sizeof *facts->models.data, facts->models.len);
    hunt->machine = galvatron_machine_find(facts, cell->devices);
    if (row >= 0 && model >= 0 && hunt->machine) {
        hunt->row = &facts->rows.data[row];
        hunt->model = &facts->models.data[model];
        return true;
    }
    cell->reason = row < 0     ? "a strategy that Weft does not know"
                   : model < 0 ? "no layers of this model were measured"
                               : "no machine of so many devices was measured";
    return false;
}

static weft_status open_hunt(struct hunt *hunt)
{
    struct measured_model measured = hunt->model->measured;
    const struct galvatron_machine *machine = hunt->machine;
    struct profile *profile = NULL;
    weft_status status;
    measured.device = hunt->facts->device;
    measured.shard_margin = machine->shard_margin;
    for (int i = 0; i < 2 && machine->devices > 8; i++)
        measured.end_peak_bytes[i] = hunt->model->end_peak_mib[i] << 20;
    TRY(profile_open_shipped(measured.device, &profile));
    TRY(layer_profile_source(hunt->keep, profile, &measured, &hunt->source));
    hunt->space = *space_find(hunt->row->space);
    if (hunt->source.kinds > 1) /* the authors cut such models by memory instead of layers */
        hunt->space.flags |= SPACE_BALANCE;
    hunt->batch_step = machine->devices == 8 ? BATCH_STEP : hunt->model->batch_step;
    space_pp_degrees(hunt->keep, &hunt->space, machine->devices, &hunt->pp);
done:
    profile_close(profile);
    return status;
}

/* B0, the batch of the row that this one extends; the smallest batch if nothing fits there. */
static weft_status base_batch(const struct hunt *hunt, const struct search_cells *known,
                              int64_t *out)
{
    struct search_cell base = *hunt->cell;
    weft_status status = WEFT_OK;
    base.strategy = hunt->row->extends;
    for (size_t i = 0; known && i < known->len; i++) {
        const struct search_cell *other = &known->data[i];
        if (other->done && search_same_column(other, &base) &&
            strcmp(other->strategy, base.strategy) == 0)
            base = *other;
    }
    if (!base.done)
        TRY(search_cell_predict(hunt->keep, known, &base));
    *out = base.predicted.fits ? base.predicted.batch : hunt->batch_step;
done:
    return status;
}

weft_status search_cell_predict(struct arena *keep, const struct search_cells *known,
                                struct search_cell *cell)
{
    struct hunt hunt = {.keep = keep, .cell = cell};
    int64_t base = 0;
    weft_status status;
    if (cell->table && cell->table->form == SEARCH_PLANNED)
        return search_cell_plan(keep, cell);
    TRY(galvatron_facts_open(keep, &hunt.facts));
    if (!identify(&hunt))
        return WEFT_OK;
    TRY(open_hunt(&hunt));
    if (hunt.row->extends)
        TRY(base_batch(&hunt, known, &base));
    TRY(search_batches(&hunt, base));
    cell->done = true;
done:
    return status;
}
