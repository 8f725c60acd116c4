/* galvatron_plans.c - the cells of Galvatron-BMW's tables by the path that a user takes:
 *
 *   weft plan MODEL CLUSTER --planner galvatron --space SPACE --memory GiB --global-batch BATCH --dtype TYPE \
 *     --overlap tensor,pipeline,gradients
 *
 * with Weft's own costs and its simulator as the judge, and the authors' batch: the question is how fast it is.
 *
 *   I1  A cell without a batch, because nothing fitted, is asked for with a sample per device, the smallest batch with
 *       which every device of a strategy by samples has one.
 *   I2  The limit of a cell is what a device has, context included, as section VII-A sets it.
 *   I3  The FSDP of the authors gathers weights before it computes with them, as their own estimator counts it (Galvatron v1,
 *       utils/cost_model.py: half of the message of DP, not overlapped). With gathers ahead of the computation, as FSDP2 has
 *       them, ZeRO-3 is predicted 15 to 45 % too fast on RTX TITAN, without 0 to 10 % too slow.
 *   I4  Where the authors' public scripts say in how many micro-batches a model's samples were taken (galvatron.yaml), each PP
 *       degree is planned with that number and the fastest answer counts, as in galvatron_cells.c; samples per second are
 *       those of the batch that these micro-batches fill. Elsewhere the planner chooses the number, too.
 *   I5  GPipe's row is planned in 1F1B's order, the only one that this planner takes: as fast, in less memory. */
#include <ctype.h>

#include "lab/galvatron_facts.h"
#include "lab/published_read.h"
#include "lab/published_searches.h"

enum { DEVICES_PER_NODE = 8 }; /* of all its clusters (section VII-A) */

/* Presets are named like the models of Table I, in small letters: "t5-512-4-32". */
static const char *preset_of(struct arena *keep, const char *model)
{
    char *name = arena_copy_text(keep, model);
    for (char *c = name; *c; c++)
        *c = *c == '/' ? '-' : (char)tolower((unsigned char)*c);
    return name;
}

static weft_status open_cell(struct arena *keep, const struct search_cell *cell,
                             struct opened_plan *out)
{
    const char *cluster = cluster_text(keep, cell->table->cluster, DEVICES_PER_NODE, cell->devices);
    weft_status status;
    TRY(model_open(preset_of(keep, cell->model), cell->table->options, &out->model));
    TRY(cluster_open(cluster, &out->cluster));
done:
    return status;
}

/* I1 */
static int64_t batch_of(const struct search_cell *cell)
{
    return cell->measured.fits ? cell->measured.batch : cell->devices;
}

static weft_status pins_of(const struct search_cell *cell, const struct cluster *cluster,
                           struct degrees *out)
{
    enum dtype dtype;
    *out = (struct degrees){
        .global_batch = batch_of(cell),
        .memory = {.limit_bytes = cell->limit_bytes - cluster->node.device.context_bytes}, /* I2 */
        .has_overlap = true,
        .overlap = OVERLAP_ALL & ~(unsigned)OVERLAP_PARAMETERS}; /* I3 */
    if (!cell->table->dtype || !dtype_from_name(cell->table->dtype, &dtype))
        return failure("the table %s has no known type", cell->table->name);
    set_dtype(out, dtype);
    return WEFT_OK;
}

/* Keeps the answer if it is faster than what the cell has. */
static void take_trial(struct arena *keep, const struct trial *trial, struct search_cell *cell)
{
    struct search_answer *best = &cell->predicted;
    double rate = (double)trial->global_batch / ((double)trial->iteration_ns * 1e-9);
    if (!trial->fits || (best->fits && rate <= best->samples_per_s))
        return;
    *best = (struct search_answer){true, batch_of(cell), rate};
    cell->layout = arena_copy_text(keep, trial->text);
}

static weft_status take_answer(struct arena *keep, const struct plan_request *request,
                               struct search_cell *cell)
{
    struct planned *planned = NULL;
    const struct planner *planner;
    weft_status status = planner_named(cell->table->planner, &planner);
    if (status == WEFT_OK)
        status = plan_search(planner, request, &planned);
    if (status == WEFT_OK) {
        take_trial(keep, &planned->trials.data[0], cell);
    } else if (status == WEFT_NO_ANSWER) {
        error_clear();
        status = WEFT_OK;
    }
    planned_free(planned);
    return status;
}

/* I4: one PP degree. */
static weft_status plan_stages(struct arena *keep, const struct galvatron_model *model,
                               const struct galvatron_row *row, struct plan_request request,
                               int64_t pp, struct search_cell *cell)
{
    int64_t group = cell->devices / pp, samples = batch_of(cell) / group, chunks[2];
    size_t count = galvatron_chunk_counts(model, row, cell->devices, samples, pp, chunks);
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < count; i++) {
        struct galvatron_study study = {.micro_batches = chunks[i]};
        request.pins.pp = pp;
        request.pins.global_batch = ceil_div(samples, chunks[i]) * chunks[i] * group;
        request.galvatron_study = &study;
        TRY(take_answer(keep, &request, cell));
    }
done:
    return status;
}

static weft_status plan_cell(struct arena *keep, const struct galvatron_facts *facts,
                             const struct galvatron_row *row, const struct plan_request *request,
                             struct search_cell *cell)
{
    int at =
        name_index(cell->model, facts->models.data, sizeof *facts->models.data, facts->models.len);
    struct pp_degrees pp = {0};
    weft_status status = WEFT_OK;
    if (at < 0)
        return take_answer(keep, request, cell);
    space_pp_degrees(keep, space_find(row->space), cell->devices, &pp);
    for (size_t i = 0; i < pp.len; i++)
        if (batch_of(cell) % (cell->devices / pp.data[i]) == 0)
            TRY(plan_stages(keep, &facts->models.data[at], row, *request, pp.data[i], cell));
done:
    return status;
}

weft_status search_cell_plan(struct arena *keep, struct search_cell *cell)
{
    const struct galvatron_facts *facts;
    struct opened_plan opened = {0};
    struct plan_request request = {0};
    weft_status status;
    TRY(galvatron_facts_open(keep, &facts));
    int row =
        name_index(cell->strategy, facts->rows.data, sizeof *facts->rows.data, facts->rows.len);
    if (row < 0) {
        cell->reason = "a strategy that Weft does not know";
        return WEFT_OK;
    }
    TRY(open_cell(keep, cell, &opened));
    request = (struct plan_request){.model = opened.model, .cluster = opened.cluster};
    TRY(pins_of(cell, opened.cluster, &request.pins));
    request.options.space = facts->rows.data[row].space;
    request.options.given = 1U << TAKES_SPACE;
    TRY(plan_cell(keep, facts, &facts->rows.data[row], &request, cell));
    cell->done = true;
done:
    plan_close(&opened);
    return status;
}
