/* published_settle.c - settles degrees that a source does not state (published.h).
 *
 * A team that publishes how fast it trains has tuned the values that it does not print. So every micro-batch
 * b = 1, 2, 4 ... up to MOST_AT_ONCE that divides a replica's samples is simulated with every number of pieces
 * that divides a stage's layers. The fastest combination that fits is taken, or the one that needs least
 * memory if none fits. Among equals the one with fewer pieces, then the one with fewer samples, is taken.
 */
#include "lab/published_read.h"

enum { MOST_AT_ONCE = 8 };

struct settling {
    struct published *row;
    struct opened_plan opened; /* the model and the cluster of the row */
    struct degrees best;
    bool any, fits;
    double time_s, memory_bytes;
};

static double fullest_bytes(const struct prediction *prediction)
{
    double most = 0;
    for (int32_t i = 0; i < prediction->plan->stages; i++)
        if ((double)prediction->stage[i].memory.peak > most)
            most = (double)prediction->stage[i].memory.peak;
    return most;
}

static bool better(const struct settling *s, const struct prediction *prediction)
{
    if (!s->any || prediction->fits != s->fits)
        return !s->any || prediction->fits;
    return s->fits ? (double)prediction->iteration_ns / 1e9 < s->time_s
                   : fullest_bytes(prediction) < s->memory_bytes;
}

/* Degrees that make no plan are skipped. */
static weft_status try_degrees(struct settling *s, const struct degrees *degrees)
{
    struct plan *plan = NULL;
    struct prediction *prediction = NULL;
    weft_status status;
    TRY(plan_from_degrees(s->opened.model, s->opened.cluster, degrees, &plan));
    if (s->row->keeps_products)
        TRY(keep_products(plan));
    TRY(plan_check(plan));
    TRY(simulate(plan, &(struct simulate_options){.fold = FOLD_AUTO}, &prediction));
    if (better(s, prediction)) {
        s->best = *degrees;
        s->any = true;
        s->fits = prediction->fits;
        s->time_s = (double)prediction->iteration_ns / 1e9;
        s->memory_bytes = fullest_bytes(prediction);
    }
done:
    prediction_free(prediction);
    plan_free(plan);
    if (status == WEFT_FAILURE)
        return status;
    error_clear();
    return WEFT_OK;
}

static weft_status try_all(struct settling *s)
{
    struct degrees d = s->row->degrees;
    int64_t samples = d.dp ? d.global_batch / d.dp : 0, stages = d.pp ? d.pp : 1;
    int64_t layers = s->opened.model->layers / stages;
    bool batches = s->row->open & OPEN_MICRO_BATCH, pieces = s->row->open & OPEN_PIECES;
    weft_status status = WEFT_OK;
    for (int64_t b = 1; b <= (batches ? MOST_AT_ONCE : 1); b *= 2) {
        if (batches && (samples < b || samples % b))
            continue;
        for (int64_t v = 1; v <= (pieces && stages > 1 ? layers : 1); v++) {
            if (layers % v)
                continue;
            d.micro_batch = batches ? b : d.micro_batch;
            d.pieces = pieces ? v : d.pieces;
            TRY(try_degrees(s, &d));
        }
    }
done:
    return status;
}

static const char *chosen_text(struct arena *keep, const struct published *row)
{
    const char *text = "chosen:";
    if (row->open & OPEN_MICRO_BATCH)
        text = arena_printf(keep, "%s micro-batch %lld", text, (long long)row->degrees.micro_batch);
    if (row->open & OPEN_PIECES && row->degrees.pp > 1)
        text = arena_printf(keep, "%s virtual %lld", text, (long long)row->degrees.pieces);
    return text;
}

weft_status published_settle(struct arena *keep, struct published *row)
{
    struct settling s = {.row = row};
    weft_status status;
    if (!row->open || row->reason)
        return WEFT_OK;
    TRY(model_open(row->model, row->options, &s.opened.model));
    TRY(cluster_open(row->cluster, &s.opened.cluster));
    TRY(try_all(&s));
    if (s.any)
        row->degrees = s.best;
    assume(keep, row, chosen_text(keep, row));
    row->open = 0;
done:
    plan_close(&s.opened);
    return status;
}
