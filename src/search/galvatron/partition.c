/* partition.c - balanced and adjusted partitions of layers into stages (partition.h).
 *
 *   best(p, j) = min_i best(p - 1, i) (+) cost(p, layers i to j - 1)                            (1)
 *
 * over stages p and layers j, with (+) the larger of two costs, or their sum where the largest is known.
 */
#include "search/galvatron/partition.h"

#include <string.h>

/* The fewest layers before the end of a stage, since every stage has at least one (I1). */
static int32_t least_end(int32_t stage)
{
    return stage + 1;
}

static int32_t most_end(int32_t layers, int32_t stages, int32_t stage)
{
    return layers - (stages - 1 - stage);
}

static weft_status check_shape(int32_t layers, int32_t stages)
{
    if (stages < 1 || layers < stages)
        return no_answer("fewer stages", "%s cannot fill %s", counted(layers, "layer").s,
                         counted(stages, "stage").s);
    return WEFT_OK;
}

/* ---- balance --------------------------------------------------------------------------------- */

double balance_degree(const int64_t *cost, int32_t stages)
{
    double sum = 0, most = 0;
    for (int32_t i = 0; i < stages; i++) {
        sum += (double)cost[i];
        most = (double)cost[i] > most ? (double)cost[i] : most;
    }
    return sum > 0 ? 1 - most / sum : 0;
}

/* The tables of (1), a row of layers + 1 per stage; `begin` is the first layer of the stage that
 * attains the best. */
struct partition_table {
    int32_t width;
    double *best;
    int32_t *begin;
};
static const double NEVER = 1e300;

static struct partition_table table_new(struct arena *scratch, int32_t layers, int32_t stages)
{
    size_t entries = (size_t)stages * ((size_t)layers + 1);
    struct partition_table table = {layers + 1, ARENA_ARRAY(scratch, double, entries),
                                    ARENA_ARRAY(scratch, int32_t, entries)};
    for (size_t i = 0; i < entries; i++)
        table.best[i] = NEVER;
    return table;
}

/* best(stage - 1, end); 0 before the first stage. */
static double best_before(const struct partition_table *table, int32_t stage, int32_t end)
{
    if (stage == 0)
        return end == 0 ? 0 : NEVER;
    return table->best[(int64_t)(stage - 1) * table->width + end];
}

static void table_offer(struct partition_table *table, int32_t stage, int32_t begin, int32_t end,
                        double value)
{
    int64_t i = (int64_t)stage * table->width + end;
    if (value < table->best[i]) {
        table->best[i] = value;
        table->begin[i] = begin;
    }
}

static void table_read(const struct partition_table *table, int32_t stages, int32_t *count)
{
    int32_t end = table->width - 1;
    for (int32_t stage = stages - 1; stage >= 0; stage--) {
        int32_t begin = table->begin[(int64_t)stage * table->width + end];
        count[stage] = end - begin;
        end = begin;
    }
}

/* The least largest cost of any partition. By I3, once a run costs as much as the best so far, no
 * run that begins earlier can do better. */
static int64_t least_largest(const struct balance *balance, struct arena *scratch)
{
    int32_t layers = balance->layers, stages = balance->stages;
    struct partition_table table = table_new(scratch, layers, stages);
    for (int32_t stage = 0; stage < stages; stage++)
        for (int32_t end = least_end(stage); end <= most_end(layers, stages, stage); end++)
            for (int32_t begin = end - 1; begin >= stage; begin--) {
                struct layer_run run = {begin, end - begin};
                double cost = (double)balance->cost(balance->context, stage, run);
                double before = best_before(&table, stage, begin);
                table_offer(&table, stage, begin, end, cost > before ? cost : before);
                if (cost >= table.best[(int64_t)stage * table.width + end])
                    break;
            }
    return (int64_t)table.best[(int64_t)(stages - 1) * table.width + layers];
}

int64_t balance_partition(const struct balance *balance, int32_t *count)
{
    struct arena *scratch = arena_new();
    int32_t layers = balance->layers, stages = balance->stages;
    int64_t largest = least_largest(balance, scratch);
    struct partition_table table = table_new(scratch, layers, stages);
    for (int32_t stage = 0; stage < stages; stage++)
        for (int32_t end = least_end(stage); end <= most_end(layers, stages, stage); end++)
            for (int32_t begin = end - 1; begin >= stage; begin--) {
                struct layer_run run = {begin, end - begin};
                int64_t cost = balance->cost(balance->context, stage, run);
                double before = best_before(&table, stage, begin);
                if (cost > largest)
                    break;
                if (before < NEVER)
                    table_offer(&table, stage, begin, end, before + (double)cost * (double)cost);
            }
    table_read(&table, stages, count);
    arena_free(scratch);
    return largest;
}

/* ---- searched partitions --------------------------------------------------------------------- */

int64_t pipeline_ns(const struct stage_cost *cost, int32_t stages, int64_t micro_batches)
{
    int64_t most = 0, sum = 0;
    for (int32_t i = 0; i < stages; i++) {
        most = cost[i].steady_ns > most ? cost[i].steady_ns : most;
        sum += cost[i].time_ns;
    }
    return (micro_batches - 1) * most + sum;
}

static struct partition partition_new(struct arena *keep, const struct pipeline_problem *problem)
{
    return (struct partition){.count = ARENA_ARRAY(keep, int32_t, (size_t)problem->stages),
                              .strategy = ARENA_ARRAY(keep, int32_t, (size_t)problem->layers),
                              .cost = ARENA_ARRAY(keep, struct stage_cost, (size_t)problem->stages),
                              .iteration_ns = INT64_MAX};
}

static void partition_copy(const struct pipeline_problem *problem, const struct partition *from,
                           struct partition *to)
{
    memcpy(to->count, from->count, (size_t)problem->stages * sizeof *to->count);
    memcpy(to->strategy, from->strategy, (size_t)problem->layers * sizeof *to->strategy);
    memcpy(to->cost, from->cost, (size_t)problem->stages * sizeof *to->cost);
    to->iteration_ns = from->iteration_ns;
}

/* ---- Algorithm 2 ----------------------------------------------------------------------------- */

/* A run that was searched as a stage (I2). */
struct searched {
    struct layer_run run;
    bool fits;
    int32_t *strategy;
    struct stage_cost cost;
};
struct searched_runs {
    struct searched *data;
    size_t len, cap;
};

struct adjuster {
    const struct pipeline_problem *problem;
    struct arena *scratch;
    const int32_t *time_balanced;
    struct searched_runs *searched; /* per stage */
    ARRAY(int32_t *) queue;         /* partitions: layers per stage */
    struct partition now, *best;
};

static weft_status search_run(struct adjuster *adjuster, int32_t stage, struct layer_run run,
                              const struct searched **out)
{
    struct searched_runs *runs = &adjuster->searched[stage];
    for (size_t i = 0; i < runs->len; i++)
        if (runs->data[i].run.first == run.first && runs->data[i].run.count == run.count) {
            *out = &runs->data[i];
            return WEFT_OK;
        }
    const struct pipeline_problem *problem = adjuster->problem;
    struct searched searched = {
        run, true, ARENA_ARRAY(adjuster->scratch, int32_t, (size_t)run.count), {0, 0, 0}};
    weft_status status =
        problem->search(problem->context, stage, run, searched.strategy, &searched.cost);
    if (status != WEFT_OK && status != WEFT_NO_ANSWER)
        return status;
    searched.fits = status == WEFT_OK;
    array_push(adjuster->scratch, runs, searched);
    *out = &runs->data[runs->len - 1];
    return WEFT_OK;
}

/* Galvatron_Search for all stages of now.count. */
static weft_status search_stages(struct adjuster *adjuster, bool *fits)
{
    weft_status status = WEFT_OK;
    struct partition *now = &adjuster->now;
    struct layer_run run = {0, 0};
    *fits = true;
    for (int32_t stage = 0; stage < adjuster->problem->stages && *fits; stage++) {
        const struct searched *searched;
        run = (struct layer_run){run.first + run.count, now->count[stage]};
        TRY(search_run(adjuster, stage, run, &searched));
        *fits = searched->fits;
        now->cost[stage] = searched->cost;
        memcpy(now->strategy + run.first, searched->strategy,
               (size_t)run.count * sizeof *now->strategy);
    }
done:
    return status;
}

/* The largest time and memory of the stages of a partition, with the current strategies. */
static struct stage_cost largest_kept(const struct adjuster *adjuster, const int32_t *count)
{
    const struct pipeline_problem *problem = adjuster->problem;
    struct stage_cost largest = {0, 0, 0};
    struct layer_run run = {0, 0};
    for (int32_t stage = 0; stage < problem->stages; stage++) {
        struct stage_cost cost;
        run = (struct layer_run){run.first + run.count, count[stage]};
        problem->keep(problem->context, stage, run, adjuster->now.strategy + run.first, &cost);
        if (cost.time_ns > largest.time_ns)
            largest.time_ns = cost.time_ns;
        if (cost.memory_bytes > largest.memory_bytes)
            largest.memory_bytes = cost.memory_bytes;
    }
    return largest;
}

static bool was_queued(const struct adjuster *adjuster, const int32_t *count)
{
    size_t bytes = (size_t)adjuster->problem->stages * sizeof *count;
    for (size_t i = 0; i < adjuster->queue.len; i++)
        if (memcmp(adjuster->queue.data[i], count, bytes) == 0)
            return true;
    return false;
}

static void enqueue(struct adjuster *adjuster, const int32_t *count)
{
    size_t stages = (size_t)adjuster->problem->stages;
    if (was_queued(adjuster, count))
        return;
    int32_t *copy = ARENA_ARRAY(adjuster->scratch, int32_t, stages);
    memcpy(copy, count, stages * sizeof *copy);
    array_push(adjuster->scratch, &adjuster->queue, copy);
}

/* PP_Partition_Adjust and Validate: moves a boundary layer of the slowest stage to the stage
 * `towards`. */
static void move_layer(struct adjuster *adjuster, int32_t slowest, int32_t towards)
{
    const struct pipeline_problem *problem = adjuster->problem;
    int32_t *count = adjuster->now.count;
    if (towards < 0 || towards >= problem->stages || count[slowest] < 2)
        return;
    struct stage_cost time_balanced = largest_kept(adjuster, adjuster->time_balanced);
    count[slowest]--;
    count[towards]++;
    struct stage_cost moved = largest_kept(adjuster, count);
    if (moved.time_ns <= adjuster->now.cost[slowest].time_ns && /* 1) */
        moved.memory_bytes <= problem->limit_bytes &&           /* 2) */
        moved.memory_bytes <= time_balanced.memory_bytes)       /* 3) */
        enqueue(adjuster, count);
    count[slowest]++;
    count[towards]--;
}

static int32_t slowest_stage(const struct adjuster *adjuster)
{
    int32_t slowest = 0;
    for (int32_t i = 1; i < adjuster->problem->stages; i++)
        if (adjuster->now.cost[i].time_ns > adjuster->now.cost[slowest].time_ns)
            slowest = i;
    return slowest;
}

static weft_status try_partition(struct adjuster *adjuster, const int32_t *count)
{
    weft_status status = WEFT_OK;
    const struct pipeline_problem *problem = adjuster->problem;
    struct partition *now = &adjuster->now;
    bool fits;
    memcpy(now->count, count, (size_t)problem->stages * sizeof *count);
    TRY(search_stages(adjuster, &fits));
    adjuster->best->tried++;
    if (!fits)
        goto done;
    now->iteration_ns = pipeline_ns(now->cost, problem->stages, problem->micro_batches);
    if (now->iteration_ns < adjuster->best->iteration_ns)
        partition_copy(problem, now, adjuster->best);
    int32_t slowest = slowest_stage(adjuster);
    move_layer(adjuster, slowest, slowest - 1);
    move_layer(adjuster, slowest, slowest + 1);
done:
    return status;
}

/* The time-balanced partition is queued, too: Eq. 7 has it as the other end, and the moves of
 * Algorithm 2 need not arrive there. */
weft_status adjust_partition(struct arena *keep, const struct pipeline_problem *problem,
                             const int32_t *memory_balanced, const int32_t *time_balanced,
                             struct partition *out)
{
    weft_status status = WEFT_OK;
    struct arena *scratch = arena_new();
    *out = partition_new(keep, problem);
    TRY(check_shape(problem->layers, problem->stages));
    struct adjuster adjuster = {
        .problem = problem,
        .scratch = scratch,
        .time_balanced = time_balanced,
        .searched = ARENA_ARRAY(scratch, struct searched_runs, (size_t)problem->stages),
        .now = partition_new(scratch, problem),
        .best = out};
    enqueue(&adjuster, memory_balanced);
    enqueue(&adjuster, time_balanced);
    for (size_t i = 0; i < adjuster.queue.len && !stop_now(problem->stop); i++)
        TRY(try_partition(&adjuster, adjuster.queue.data[i]));
    if (out->iteration_ns == INT64_MAX)
        status =
            no_answer("more stages, or a smaller batch", "no partition of %s into %s fits",
                      counted(problem->layers, "layer").s, counted(problem->stages, "stage").s);
done:
    arena_free(scratch);
    return status;
}
