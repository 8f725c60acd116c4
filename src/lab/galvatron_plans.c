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
 *   I4  GPipe's row is planned in 1F1B's order, the only one that this planner takes: as fast, in less memory. */
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

static weft_status pins_of(const struct search_cell *cell, const struct cluster *cluster,
                           struct degrees *out)
{
    enum dtype dtype;
    *out = (struct degrees){
        .global_batch = cell->measured.fits ? cell->measured.batch : cell->devices,        /* I1 */
        .memory = {.limit_bytes = cell->limit_bytes - cluster->node.device.context_bytes}, /* I2 */
        .has_overlap = true,
        .overlap = OVERLAP_ALL & ~(unsigned)OVERLAP_PARAMETERS}; /* I3 */
    if (!cell->table->dtype || !dtype_from_name(cell->table->dtype, &dtype))
        return failure("the table %s has no known type", cell->table->name);
    set_dtype(out, dtype);
    return WEFT_OK;
}

static weft_status take_answer(struct arena *keep, const struct plan_request *request,
                               struct search_cell *cell)
{
    struct planned *planned = NULL;
    const struct planner *planner;
    weft_status status = planner_named(cell->table->planner, &planner);
    if (status == WEFT_OK)
        status = plan_search(planner, request, &planned);
    if (status == WEFT_OK && planned->trials.data[0].fits) {
        const struct trial *best = &planned->trials.data[0];
        cell->predicted = (struct search_answer){true, best->global_batch,
                                                 (double)best->global_batch /
                                                     ((double)best->iteration_ns * 1e-9)};
        cell->layout = arena_copy_text(keep, best->text);
    } else if (status == WEFT_NO_ANSWER) {
        error_clear();
        status = WEFT_OK;
    }
    planned_free(planned);
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
    TRY(take_answer(keep, &request, cell));
    cell->done = true;
done:
    plan_close(&opened);
    return status;
}
