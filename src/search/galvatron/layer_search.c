/* layer_search.c - Algorithms 1 and 2 over batches, PP degrees and micro-batches (layer_search.h).
 *
 * A *setting* is a batch, a PP degree and a number of micro-batches. All settings of a batch are
 * costed and bounded (layer_table.h), then searched, the lowest bound first: with the best
 * partition of all if that can be afforded (best_cuts.h), otherwise with Algorithm 2 from the
 * memory-balanced to the time-balanced one (partition.h); spaces without SPACE_BALANCE have stages
 * of equal numbers of layers.
 *
 *   I1  A setting is left out only if its bound says that it is slower than the best by more than
 *       NEAR_PERCENT: settings nearer to it are part of the answer, for a finer judge to choose
 *       from.
 *   I2  A batch is explored as in Algorithm 1, in doublings, until nothing fits or a doubling gains
 *       less than LEAST_GAIN_PERCENT more samples per second; then around the best one, in halves
 *       of the previous step (Algorithm 2's B0 - r .. B0 + r). Beyond that, larger batches only
 *       accumulate gradients.
 *   I3  If a time is known, settings whose bound is more than KNOWN_PERCENT above it are left out,
 *       too: by the time of the operators alone, or by their tables.
 *   I4  Of a batch no more than MOST_SETTINGS are looked at, and of each PP degree its equal share of them, few micro-batches
 *       first: counted and not timed, as what each may look at is (best_cuts.c). What ends so is said.
 */
#include "search/galvatron/layer_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "search/galvatron/balanced.h"
#include "search/galvatron/best_cuts.h"
#include "search/galvatron/setting_bounds.h"
#include "search/galvatron/words.h"

/* A batch has 40 divisors, a space a dozen PP degrees; both may have hundreds. */
enum { MOST_SETTINGS = 4096 };
enum { NEAR_PERCENT = 5, LEAST_GAIN_PERCENT = 1, KNOWN_PERCENT = 1 };

struct table_setting {
    struct layer_table table;
    int64_t bound_ns;
};

struct driver {
    const struct layer_problem *problem;
    struct arena *keep;            /* for the answer */
    struct arena *arena;           /* for the search */
    struct pp_degrees pp;          /* of the space */
    struct group_options *options; /* per PP degree */
    struct run_hashes hashes;
    struct layer_plans *out;
    double best_ns_per_sample; /* INFINITY: none */
    int64_t done, all;
};

/* ---- Algorithm 2 ----------------------------------------------------------------------------- */

static weft_status search_stage(void *context, int32_t stage, struct layer_run run,
                                int32_t *strategy, struct stage_cost *out)
{
    struct cutter *cutter = context;
    struct stage_run *own = cutter_run(cutter, stage, run);
    weft_status status = WEFT_OK;
    if (own->len && own->data[0].kind == OPTION_UNKNOWN)
        TRY(stage_run_refine(&cutter->fronts, own, 0));
    if (!own->len)
        return WEFT_NO_ANSWER;
    const struct option *least = &own->data[own->len - 1];
    memcpy(strategy, least->strategy, (size_t)run.count * sizeof *strategy);
    *out = least->cost;
done:
    return status;
}

static void keep_stage(void *context, int32_t stage, struct layer_run run, const int32_t *strategy,
                       struct stage_cost *out)
{
    const struct cutter *cutter = context;
    *out = stage_cost_of(cutter->table, cutter->table->class_of[stage], run, strategy);
}

static weft_status adjust(struct cutter *cutter, int64_t below_ns, struct cuts *best)
{
    struct layer_table *table = cutter->table;
    struct pipeline_problem pipeline = {.layers = table->problem->source->layers,
                                        .stages = table->stages,
                                        .micro_batches = table->micro_batches,
                                        .limit_bytes = table->problem->limit_bytes,
                                        .stop = table->problem->stop,
                                        .context = cutter,
                                        .search = search_stage,
                                        .keep = keep_stage};
    struct partition found;
    weft_status status;
    TRY(adjust_partition(table->keep, &pipeline, balanced(table, BALANCED_BYTES),
                         balanced(table, BALANCED_TIME), &found));
    TRY(best_cuts(cutter, found.count, below_ns, best));
done:
    if (status == WEFT_NO_ANSWER) {
        error_clear();
        status = WEFT_OK;
    }
    return status;
}

/* ---- one setting ----------------------------------------------------------------------------- */

/* Adds the costs that depend on all strategies of a stage together. */
static weft_status add_together(const struct driver *d, struct layer_plan *plan)
{
    const struct layer_source *source = d->problem->source;
    struct layer_question question = {.devices = d->problem->devices,
                                      .stages = 1,
                                      .step_samples = plan->global_batch / plan->micro_batches,
                                      .micro_batches = plan->micro_batches};
    int64_t bytes = 0;
    weft_status status = WEFT_OK;
    if (plan->stages > 1 || !source->together)
        return WEFT_OK;
    TRY(source->together(source->context, &question, plan->strategy, &bytes));
    plan->cost[0].memory_bytes += bytes;
done:
    return status;
}

static weft_status note_plan(struct driver *d, const struct layer_table *table,
                             const struct cuts *cuts)
{
    weft_status status;
    size_t layers = (size_t)d->problem->source->layers, stages = (size_t)table->stages;
    struct layer_plan plan = {.global_batch = table->batch,
                              .micro_batches = table->micro_batches,
                              .stages = table->stages,
                              .count = ARENA_ARRAY(d->keep, int32_t, stages),
                              .strategy = ARENA_ARRAY(d->keep, struct strategy, layers),
                              .cost = ARENA_ARRAY(d->keep, struct stage_cost, stages),
                              .iteration_ns = cuts->iteration_ns};
    memcpy(plan.count, cuts->count, stages * sizeof *plan.count);
    for (size_t stage = 0, layer = 0; stage < stages; stage++) {
        plan.cost[stage] = cuts->option[stage].cost;
        for (int32_t l = 0; l < plan.count[stage]; l++)
            plan.strategy[layer++] = table->strategies->data[cuts->option[stage].strategy[l]];
    }
    TRY(add_together(d, &plan));
    array_push(d->keep, d->out, plan);
    double each = (double)plan.iteration_ns / (double)plan.global_batch;
    if (each < d->best_ns_per_sample)
        d->best_ns_per_sample = each;
done:
    return status;
}

/* The time below which a setting is worth a search (I1, I3). */
static int64_t worth_below_ns(const struct driver *d, int64_t batch)
{
    double ns = d->best_ns_per_sample * (double)batch * (1 + NEAR_PERCENT / 100.0) + 2;
    double known = (double)d->problem->known_ns * (1 + KNOWN_PERCENT / 100.0);
    ns = d->problem->known_ns ? fmin(ns, known) : ns;
    return ns < (double)(INT64_MAX / 4) ? (int64_t)ns : INT64_MAX;
}

static weft_status search_balanced(struct driver *d, struct cutter *cutter, struct cuts *cuts)
{
    struct layer_table *table = cutter->table;
    int64_t below = worth_below_ns(d, table->batch);
    weft_status status;
    if (below == INT64_MAX)
        TRY(best_cuts(cutter, balanced(table, BALANCED_TIME), below, cuts));
    TRY(best_cuts(cutter, NULL, below, cuts));
    if (!cuts->complete && !stop_now(d->problem->stop))
        TRY(adjust(cutter, below, cuts));
done:
    return status;
}

static weft_status search_setting(struct driver *d, struct table_setting *setting)
{
    struct layer_table *table = &setting->table;
    struct arena *scratch = arena_new();
    struct cutter cutter = cutter_new(scratch, table, &d->hashes);
    struct cuts cuts = cuts_new(scratch, table->stages);
    weft_status status = WEFT_OK;
    table->keep = scratch;
    if (setting->bound_ns >= worth_below_ns(d, table->batch))
        goto done;
    layer_table_classes(table);
    if (d->problem->space->flags & SPACE_BALANCE)
        TRY(search_balanced(d, &cutter, &cuts));
    else
        TRY(best_cuts(&cutter, balanced(table, BALANCED_LAYERS), worth_below_ns(d, table->batch),
                      &cuts));
    d->out->searched += cutter.fronts.searched;
    if (cuts.iteration_ns != INT64_MAX)
        TRY(note_plan(d, table, &cuts));
done:
    arena_free(scratch);
    return status;
}

/* ---- one batch ------------------------------------------------------------------------------- */

typedef ARRAY(struct table_setting) setting_list;

static void report(const struct driver *d, int64_t batch)
{
    bool any = !isinf(d->best_ns_per_sample);
    if (d->problem->progress)
        d->problem->progress(d->problem->context, d->done, d->all,
                             any ? (int64_t)(d->best_ns_per_sample * (double)batch) : 0);
}

/* Whether a setting is ruled out before its table is made, which takes longer (I3). */
static weft_status is_slower(const struct driver *d, size_t pp, int64_t batch,
                             int64_t micro_batches, bool *out)
{
    struct layer_question question = {.devices = d->problem->devices,
                                      .stages = (int32_t)d->pp.data[pp],
                                      .step_samples = batch / micro_batches,
                                      .micro_batches = micro_batches};
    *out = false;
    if (!d->problem->known_ns)
        return WEFT_OK;
    return setting_is_slower(d->problem, &d->options[pp], &d->hashes, question,
                             worth_below_ns(d, batch), out);
}

static weft_status add_setting(struct driver *d, struct arena *scratch, size_t pp, int64_t batch,
                               int64_t micro_batches, setting_list *out)
{
    struct table_setting setting;
    bool possible, slower;
    weft_status status;
    TRY(is_slower(d, pp, batch, micro_batches, &slower));
    if (slower)
        goto done;
    TRY(layer_table_new(scratch, d->problem, &d->options[pp], batch, (int32_t)d->pp.data[pp],
                        micro_batches, &possible, &setting.table));
    if (!possible)
        goto done;
    setting.bound_ns = layer_table_bound_ns(&setting.table);
    array_push(scratch, out, setting);
    d->all++;
    report(d, batch);
done:
    return status;
}

bool layer_search_spent(const struct layer_problem *problem)
{
    const int64_t *asked = problem->source->asked;
    return problem->most_asked && asked && *asked > problem->most_asked;
}

static bool is_over(const struct layer_problem *problem)
{
    return stop_now(problem->stop) || layer_search_spent(problem);
}

static bool open_to(int64_t pin, int64_t value)
{
    return pin == 0 || pin == value;
}

static weft_status list_settings(struct driver *d, struct arena *scratch, int64_t batch,
                                 setting_list *out)
{
    int64_t most = d->problem->most_settings ? d->problem->most_settings : MOST_SETTINGS;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < d->pp.len; i++) {
        int64_t left = ceil_div(most, (int64_t)d->pp.len); /* I4 */
        if (!open_to(d->problem->pp, d->pp.data[i]) || !d->options[i].strategies.len ||
            d->pp.data[i] > d->problem->source->layers)
            continue;
        for (int64_t m = 1; m <= batch && !is_over(d->problem); m = divisor_above(batch, m)) {
            if (!open_to(d->problem->micro_batches, m))
                continue;
            d->out->cut_short |= left == 0;
            if (left-- == 0)
                break;
            TRY(add_setting(d, scratch, i, batch, m, out));
        }
    }
done:
    return status;
}

static int lower_bound_first(const void *a, const void *b)
{
    const struct table_setting *x = a, *y = b;
    if (x->bound_ns != y->bound_ns)
        return x->bound_ns < y->bound_ns ? -1 : 1;
    if (x->table.stages != y->table.stages)
        return x->table.stages < y->table.stages ? -1 : 1;
    return x->table.micro_batches < y->table.micro_batches   ? -1
           : x->table.micro_batches > y->table.micro_batches ? 1
                                                             : 0;
}

static weft_status search_batch(struct driver *d, int64_t batch)
{
    struct arena *scratch = arena_new();
    setting_list settings = {0};
    weft_status status;
    TRY(list_settings(d, scratch, batch, &settings));
    if (settings.len)
        qsort(settings.data, settings.len, sizeof *settings.data, lower_bound_first);
    for (size_t i = 0; i < settings.len && !is_over(d->problem); i++) {
        TRY(search_setting(d, &settings.data[i]));
        d->done++;
        report(d, batch);
    }
done:
    arena_free(scratch);
    return status;
}

/* ---- batches (I2) ---------------------------------------------------------------------------- */

enum { MOST_BATCH = 1 << 20 };

/* Explores a batch; *gain says whether it has LEAST_GAIN_PERCENT more samples per second. */
static weft_status explore(struct driver *d, int64_t batch, bool *gain)
{
    double before = d->best_ns_per_sample;
    weft_status status;
    TRY(search_batch(d, batch));
    *gain = d->best_ns_per_sample * (1 + LEAST_GAIN_PERCENT / 100.0) < before;
done:
    return status;
}

static weft_status double_batch(struct driver *d, int64_t *best)
{
    int64_t devices = d->problem->devices;
    weft_status status = WEFT_OK;
    for (int64_t batch = 1; batch <= MOST_BATCH && !stop_now(d->problem->stop); batch *= 2) {
        bool gain;
        TRY(explore(d, batch, &gain));
        *best = gain ? batch : *best;
        if (!gain && batch >= devices)
            break;
    }
done:
    return status;
}

static weft_status explore_batches(struct driver *d)
{
    int64_t best = 0;
    weft_status status;
    TRY(double_batch(d, &best));
    int64_t unit = best >= d->problem->devices ? d->problem->devices : 1;
    for (int64_t step = best / 2 / unit * unit; step >= unit && !stop_now(d->problem->stop);
         step = step / 2 / unit * unit) {
        bool more, less = false;
        TRY(explore(d, best + step, &more));
        if (!more)
            TRY(explore(d, best - step, &less));
        best += more ? step : less ? -step : 0;
    }
done:
    return status;
}

/* ---- searching ------------------------------------------------------------------------------- */

static int fastest_per_sample(const void *a, const void *b)
{
    const struct layer_plan *x = a, *y = b;
    double left = (double)x->iteration_ns / (double)x->global_batch;
    double right = (double)y->iteration_ns / (double)y->global_batch;
    if (left != right)
        return left < right ? -1 : 1;
    if (x->global_batch != y->global_batch)
        return x->global_batch < y->global_batch ? -1 : 1;
    if (x->stages != y->stages)
        return x->stages < y->stages ? -1 : 1;
    return x->micro_batches < y->micro_batches ? -1 : x->micro_batches > y->micro_batches ? 1 : 0;
}

static void list_strategies(struct driver *d)
{
    space_pp_degrees(d->arena, d->problem->space, d->problem->devices, &d->pp);
    d->options = ARENA_ARRAY(d->arena, struct group_options, d->pp.len);
    for (size_t i = 0; i < d->pp.len; i++)
        d->options[i] =
            group_options_new(d->arena, d->problem, d->problem->devices / d->pp.data[i]);
}

weft_status galvatron_search(struct arena *keep, const struct layer_problem *problem,
                             struct layer_plans *out)
{
    struct driver driver = {.problem = problem,
                            .keep = keep,
                            .arena = arena_new(),
                            .out = out,
                            .best_ns_per_sample = INFINITY};
    weft_status status;
    *out = (struct layer_plans){0};
    driver.hashes = run_hashes_new(driver.arena, problem->source);
    list_strategies(&driver);
    if (problem->global_batch)
        TRY(search_batch(&driver, problem->global_batch));
    else
        TRY(explore_batches(&driver));
    out->stopped = stop_now(driver.problem->stop);
    out->settings = driver.all;
    if (out->len)
        qsort(out->data, out->len, sizeof *out->data, fastest_per_sample);
    else
        status = say_no_plan(problem, out);
done:
    arena_free(driver.arena);
    return status;
}
