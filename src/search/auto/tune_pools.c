/* tune_pools.c - how many layers each stage gets where stages are on devices of different types (cluster/pools.h).
 *
 * Degrees cut layers by the pace of a large product (plan/map.c), which is not that of a layer, and know nothing of
 * what the pipeline fills and drains, of embeddings, losses and memory. From there one layer at a time goes from a part
 * to another, the move that gains most by estimate, until no move gains:
 *
 *   better = fits and the other does not; of two that do not fit, the emptier; else the faster          (1)
 *
 *   I1  What is found is degrees with a layout (`--pipeline-layout`), which any command can be given again.
 *   I2  MOST_POINTS degrees are tuned, the fastest first, whether they fit or not: other layers may make them fit.
 */
#include <string.h>

#include "search/auto/room.h"

enum { MOST_POINTS = 12, MOST_PARTS = 64, MOST_ESTIMATES = 6000 };

struct pool_tuning {
    struct join *join;
    struct arena *scratch;
    struct plan *plan;
    struct estimator *estimator;
    struct candidate *candidate;
    int64_t *layers; /* per part */
    int32_t parts;
    struct estimate best;
    int64_t estimates;
};

/* (1) */
static bool is_better(const struct estimate *a, const struct estimate *b)
{
    if (a->fits != b->fits)
        return a->fits;
    double full = (double)a->peak_bytes * (double)b->limit_bytes;
    double other = (double)b->peak_bytes * (double)a->limit_bytes;
    return a->fits || full == other ? a->iteration_ns < b->iteration_ns : full < other;
}

/* The estimate with the present layers; false: they cannot be cut so. */
static bool estimate_layers(struct pool_tuning *t, struct estimate *out)
{
    int64_t *cut;
    if (!cuts_after_layers(t->scratch, t->plan, t->parts, t->layers, &cut))
        return false;
    for (int32_t k = 0; k < t->parts; k++) {
        t->candidate->run[k].first = k ? cut[k - 1] : 0;
        t->candidate->run[k].last = k + 1 < t->parts ? cut[k] : t->plan->instances;
    }
    t->estimates++;
    return estimate_candidate(t->estimator, t->candidate, out) == WEFT_OK;
}

static void move_layer(struct pool_tuning *t, int32_t from, int32_t to)
{
    t->layers[from]--;
    t->layers[to]++;
}

/* Takes the best move; false: none gains. */
static bool improve(struct pool_tuning *t)
{
    struct estimate best = t->best, other;
    int32_t from = -1, to = -1;
    for (int32_t a = 0; a < t->parts; a++)
        for (int32_t b = 0; b < t->parts && t->layers[a] > 1; b++) {
            if (a == b)
                continue;
            move_layer(t, a, b);
            if (estimate_layers(t, &other) && is_better(&other, &best)) {
                best = other;
                from = a;
                to = b;
            }
            move_layer(t, b, a);
        }
    if (from < 0)
        return false;
    move_layer(t, from, to);
    t->best = best;
    return true;
}

static const char *layout_words(struct arena *keep, const struct pool_tuning *t)
{
    const char *text = "E";
    for (int32_t k = 0; k < t->parts; k++)
        text = arena_printf(keep, "%s%st*%lld", text, k ? "|" : "", (long long)t->layers[k]);
    return arena_printf(keep, "%sL", text);
}

static bool has_one_run_per_part(const struct pool_tuning *t)
{
    return t->candidate->first_run[t->parts] == t->parts && t->parts <= MOST_PARTS;
}

static weft_status open_tuning(struct pool_tuning *t, const struct degrees *d)
{
    const struct plan_request *request = t->join->request;
    weft_status status;
    TRY(plan_from_degrees(request->model, request->cluster, d, &t->plan));
    t->parts = t->plan->parts;
    t->layers = layers_of_parts(t->scratch, t->plan);
    struct estimate_settings settings = estimate_settings_of(t->plan);
    settings.profile = request->profile;
    settings.flows = request->flows;
    TRY(estimator_new(&settings, &t->estimator));
    TRY(candidate_of_plan(t->estimator, t->plan, t->scratch, &t->candidate));
done:
    return status;
}

static weft_status tune_point(struct join *join, struct degrees d)
{
    struct pool_tuning t = {.join = join, .scratch = arena_new()};
    const struct trial *trial;
    weft_status status;
    TRY(open_tuning(&t, &d));
    if (!has_one_run_per_part(&t) || !estimate_layers(&t, &t.best))
        goto done;
    bool moved = false;
    while (t.estimates < MOST_ESTIMATES && !join_over(join) && improve(&t))
        moved = true;
    join->out->candidates += t.estimates;
    d.layout = layout_words(join->out->arena, &t);
    if (moved)
        TRY(join_try(join, join->request, &d, &trial));
done:
    estimator_free(t.estimator);
    plan_free(t.plan);
    arena_free(t.scratch);
    if (status && status != WEFT_FAILURE) {
        error_clear();
        status = WEFT_OK;
    }
    return status;
}

/* I2: the fastest trials so far, in order. */
static size_t choose(const struct join *join, struct degrees out[MOST_POINTS])
{
    double ns[MOST_POINTS];
    size_t count = 0;
    for (size_t i = 0; i < join->out->trials.len; i++) {
        const struct trial *trial = &join->out->trials.data[i];
        size_t at = count;
        if (trial->plan || trial->degrees.layout)
            continue;
        while (at > 0 && ns_per_sample(trial) < ns[at - 1])
            at--;
        if (at == MOST_POINTS)
            continue;
        count += count < MOST_POINTS;
        memmove(&ns[at + 1], &ns[at], (count - at - 1) * sizeof *ns);
        memmove(&out[at + 1], &out[at], (count - at - 1) * sizeof *out);
        ns[at] = ns_per_sample(trial);
        out[at] = trial->degrees;
    }
    return count;
}

weft_status tune_pools(struct join *join)
{
    struct degrees chosen[MOST_POINTS];
    bool pinned = join->request->pins.layout != NULL;
    const struct target *target = join->request->target;
    size_t count = pinned || (target && !target->can.uneven) ? 0 : choose(join, chosen);
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < count && !join_over(join); i++)
        TRY(tune_point(join, chosen[i]));
done:
    return status;
}
