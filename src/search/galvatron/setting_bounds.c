/* setting_bounds.c - whether bounds rule a setting out before its table is made (setting_bounds.h). */
#include "search/galvatron/setting_bounds.h"

#include <math.h>

/* ---- times alone (1) -------------------------------------------------------------------------- */

/* A lower bound for the fastest strategy of any layer of a kind. */
static weft_status least_of_kind(const struct layer_problem *problem,
                                 const struct group_options *options,
                                 const struct layer_question *question, int32_t kind,
                                 int64_t *least)
{
    const struct layer_source *source = problem->source;
    weft_status status = WEFT_OK;
    *least = LAYERWISE_NEVER;
    for (size_t s = 0; s < options->strategies.len; s++) {
        int64_t ns;
        TRY(source->least(source->context, question, kind, &options->strategies.data[s], &ns));
        *least = ns < *least ? ns : *least;
    }
done:
    return status;
}

/* Eq. 9 with these bounds alone. INT64_MAX: a layer has no strategy. */
static weft_status least_of_setting(const struct layer_problem *problem,
                                    const struct group_options *options,
                                    const struct layer_question *question, int64_t *bound_ns)
{
    const struct layer_source *source = problem->source;
    int64_t sum = 0, slowest = 0;
    weft_status status = WEFT_OK;
    for (int32_t kind = 0; kind < source->kinds; kind++) {
        int64_t least, count = 0;
        TRY(least_of_kind(problem, options, question, kind, &least));
        for (int32_t l = 0; l < source->layers; l++)
            count += source->kind[l] == kind;
        if (least == LAYERWISE_NEVER) {
            *bound_ns = INT64_MAX;
            goto done;
        }
        sum += count * least;
        slowest = least > slowest ? least : slowest;
    }
    int64_t shared = ceil_div(sum, question->stages);
    *bound_ns = (question->micro_batches - 1) * (shared > slowest ? shared : slowest) + sum;
done:
    return status;
}

/* ---- times and bytes (2) ---------------------------------------------------------------------- */

/* A table of bounds, some of which are replaced by what they bound. */
struct rough_table {
    struct layer_table table;
    const struct layer_source *source;
    struct layer_question question;
    bool *known;   /* per kind, then strategy */
    size_t *order; /* the kinds, that of most layers first */
};

/* (1) of layer_table.h for a stage's share of all layers. */
static double share_at(const struct layer_table *t, const struct stage_class *c, int price)
{
    size_t kinds = (size_t)t->problem->source->kinds;
    const int32_t *count = t->kinds_before + (size_t)t->problem->source->layers * kinds;
    double sum = 0;
    for (size_t k = 0; k < kinds; k++)
        sum += count[k] ? c->time_at[k * PRICES + (size_t)price] * count[k] : 0;
    return sum / t->stages - c->price[price] * (double)c->limit_bytes;
}

static int dearest_price(const struct layer_table *t, const struct stage_class *c)
{
    int best = 0;
    for (int i = 1; i < PRICES; i++)
        if (share_at(t, c, i) > share_at(t, c, best))
            best = i;
    return best;
}

/* The strategy of a kind that is least at a price, by its steady time or by all its time. */
static size_t least_at(const struct layer_table *t, const struct stage_class *c, size_t kind,
                       double price, bool steady)
{
    size_t n = t->strategies->len, best = kind * n;
    double least = INFINITY;
    const int64_t *ns = steady ? c->place->steady_ns : c->place->time_ns;
    for (size_t at = kind * n; at < (kind + 1) * n; at++) {
        if (ns[at] == LAYERWISE_NEVER)
            continue;
        double paid = price * (double)(c->kept_bytes[at] + c->place->state_bytes[at]);
        if ((double)ns[at] + paid < least) {
            least = (double)ns[at] + paid;
            best = at;
        }
    }
    return best;
}

static weft_status find_cost(struct rough_table *r, struct place_costs *place, size_t at)
{
    size_t n = r->table.strategies->len;
    struct layer_cost cost = {.steady_ns = LAYERWISE_NEVER};
    weft_status status;
    r->known[at] = true;
    r->question.stage = place->stage;
    TRY(r->source->layer(r->source->context, &r->question, (int32_t)(at / n),
                         &r->table.strategies->data[at % n], &cost));
    place_cost(place, at, &cost);
done:
    return status;
}

/* Replaces the bounds that decide how little a stage of a class takes, of the first kind that has some; *any: one has. */
static weft_status look_closer(struct rough_table *r, struct stage_class *c, bool *any)
{
    size_t kinds = (size_t)r->source->kinds;
    double price = c->price[dearest_price(&r->table, c)];
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < kinds && !*any; i++)
        for (int steady = 0; steady < 2; steady++) {
            size_t at = least_at(&r->table, c, r->order[i], price, steady);
            if (r->known[at])
                continue;
            TRY(find_cost(r, c->place, at));
            *any = true;
        }
done:
    return status;
}

static bool is_out(struct rough_table *r, const struct run_hashes *hashes, int64_t below_ns)
{
    struct arena *scratch = arena_new();
    struct cutter cutter = cutter_new(scratch, &r->table, hashes);
    bool out = layer_table_bound_ns(&r->table) >= below_ns || cuts_are_slower(&cutter, below_ns);
    arena_free(scratch);
    return out;
}

static void order_kinds(struct rough_table *r)
{
    size_t kinds = (size_t)r->source->kinds;
    const int32_t *count = r->table.kinds_before + (size_t)r->source->layers * kinds;
    for (size_t k = 0; k < kinds; k++) {
        size_t at = k;
        for (; at > 0 && count[r->order[at - 1]] < count[k]; at--)
            r->order[at] = r->order[at - 1];
        r->order[at] = k;
    }
}

/* Looks closer at one class after the other, until the bounds are slow enough or no class has any that decide. */
static weft_status slower_by_bounds(const struct layer_problem *problem,
                                    const struct group_options *options,
                                    const struct run_hashes *hashes,
                                    const struct layer_question *question, int64_t below_ns,
                                    bool *out)
{
    struct arena *scratch = arena_new();
    struct rough_table r = {.source = problem->source, .question = *question};
    bool possible;
    weft_status status;
    TRY(layer_table_roughly(scratch, problem, options, question, &possible, &r.table));
    r.known = ARENA_ARRAY(scratch, bool, (size_t)r.source->kinds *r.table.strategies->len);
    r.order = ARENA_ARRAY(scratch, size_t, (size_t)r.source->kinds);
    order_kinds(&r);
    *out = !possible;
    for (size_t i = 0, idle = 0; !*out && idle < r.table.classes.len; i++) {
        bool any = false;
        *out = !layer_table_prices(&r.table) || is_out(&r, hashes, below_ns);
        if (!*out)
            TRY(look_closer(&r, &r.table.classes.data[i % r.table.classes.len], &any));
        idle = any ? 0 : idle + 1;
    }
done:
    arena_free(scratch);
    return status;
}

weft_status setting_is_slower(const struct layer_problem *problem,
                              const struct group_options *options, const struct run_hashes *hashes,
                              struct layer_question question, int64_t below_ns, bool *out)
{
    weft_status status = WEFT_OK;
    *out = false;
    if (problem->source->least) {
        int64_t bound_ns;
        TRY(least_of_setting(problem, options, &question, &bound_ns));
        *out = bound_ns >= below_ns;
    }
    if (!*out && problem->source->roughly)
        TRY(slower_by_bounds(problem, options, hashes, &question, below_ns, out));
done:
    return status;
}
