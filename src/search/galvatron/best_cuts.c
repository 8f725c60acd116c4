/* best_cuts.c - shortest paths over cuts; only runs on short paths are searched (best_cuts.h). */
#include "search/galvatron/best_cuts.h"

#include <string.h>

/* What one call may take before it settles for what it has: about a second. With bounds that tell
 * stages apart, it takes a thousandth of that. */
enum { MOST_WORK = 20 * 1000 * 1000 };

/* ---- runs ------------------------------------------------------------------------------------ */

struct run_hashes run_hashes_new(struct arena *keep, const struct layer_source *source)
{
    static const uint64_t BASE = 0x9e3779b97f4a7c15; /* odd: 2^64 over the golden ratio */
    size_t layers = (size_t)source->layers;
    struct run_hashes h = {ARENA_ARRAY(keep, uint64_t, layers + 1),
                           ARENA_ARRAY(keep, uint64_t, layers + 1),
                           ARENA_ARRAY(keep, uint64_t, layers + 1)};
    h.power[0] = 1;
    for (size_t l = 0; l < layers; l++) {
        uint64_t boundary = l ? (uint64_t)source->boundary[l] + 1 : 0;
        h.kinds[l + 1] = h.kinds[l] * BASE + (uint64_t)source->kind[l] + 1;
        h.boundaries[l + 1] = h.boundaries[l] * BASE + boundary;
        h.power[l + 1] = h.power[l] * BASE;
    }
    return h;
}

static uint64_t hash_between(const struct run_hashes *h, const uint64_t *sum, int32_t first,
                             int32_t end)
{
    return sum[end] - sum[first] * h->power[end - first];
}

struct cutter cutter_new(struct arena *keep, struct layer_table *table,
                         const struct run_hashes *hashes)
{
    return (struct cutter){
        .table = table, .hashes = hashes, .fronts = {.table = table, .keep = keep, .exact = true}};
}

struct stage_run *cutter_run(struct cutter *cutter, int32_t stage, struct layer_run run)
{
    const struct run_hashes *h = cutter->hashes;
    int32_t class = cutter->table->class_of[stage], end = run.first + run.count;
    uint64_t words[] = {(uint64_t)class, (uint64_t)run.count,
                        hash_between(h, h->kinds, run.first, end),
                        hash_between(h, h->boundaries, run.first + 1, end)};
    uint64_t hash = hash_bytes(words, sizeof words, 6) | 1;
    int32_t number = (int32_t)hash_get(&cutter->by_run, hash);
    if (number < 0) {
        struct stage_run *opened = ARENA_NEW(cutter->fronts.keep, struct stage_run);
        stage_run_open(&cutter->fronts, class, run, opened);
        number = (int32_t)cutter->runs.len;
        array_push(cutter->fronts.keep, &cutter->runs, opened);
        *hash_at(&cutter->by_run, cutter->fronts.keep, hash) = number;
    }
    return cutter->runs.data[number];
}

struct cuts cuts_new(struct arena *keep, int32_t stages)
{
    return (struct cuts){.count = ARENA_ARRAY(keep, int32_t, (size_t)stages),
                         .option = ARENA_ARRAY(keep, struct option, (size_t)stages),
                         .iteration_ns = INT64_MAX};
}

/* ---- one path -------------------------------------------------------------------------------- */

/* Per stage, a row of layers + 1: the least sum of the times of the stages up to this one that end
 * there, and where the last of them begins. */
struct cut_paths {
    int32_t stages, width;
    int64_t below_ns; /* a limit for every steady time */
    const int32_t *fixed;
    int32_t *earliest; /* per stage, and one past the last: where it may begin */
    int64_t *sum_ns;
    int32_t *begin;
};

static struct cut_paths paths_new(struct arena *scratch, const struct layer_table *table,
                                  const int32_t *fixed)
{
    int32_t width = table->problem->source->layers + 1;
    size_t entries = ((size_t)table->stages + 1) * (size_t)width;
    return (struct cut_paths){.stages = table->stages,
                              .width = width,
                              .fixed = fixed,
                              .earliest = ARENA_ARRAY(scratch, int32_t, (size_t)table->stages + 1),
                              .sum_ns = ARENA_ARRAY(scratch, int64_t, entries),
                              .begin = ARENA_ARRAY(scratch, int32_t, entries)};
}

/* The later stages can hold no more layers than their least times allow. */
static void find_earliest(const struct layer_table *table, struct cut_paths *p)
{
    const int64_t *least = table->least_steady_ns;
    int32_t first = p->width - 1;
    p->earliest[p->stages] = first;
    for (int32_t stage = p->stages - 1; stage >= 0; stage--) {
        int32_t end = first;
        while (first > stage && (first == end || least[end] - least[first - 1] < p->below_ns))
            first--;
        p->earliest[stage] = first;
    }
    for (int32_t stage = 0, at = 0; p->fixed && stage < p->stages; stage++) {
        p->earliest[stage] = at;
        at += p->fixed[stage];
    }
}

/* Extends the paths by all stages that begin at `first`. */
static void extend_paths(struct cutter *cutter, struct cut_paths *p, int32_t stage, int32_t first)
{
    const int64_t *least = cutter->table->least_steady_ns;
    int64_t before = p->sum_ns[(int64_t)stage * p->width + first];
    int64_t *sum = p->sum_ns + (int64_t)(stage + 1) * p->width;
    int32_t *begin = p->begin + (int64_t)(stage + 1) * p->width;
    int32_t last = p->width - 1 - (p->stages - 1 - stage), end = p->earliest[stage + 1];
    end = end > first ? end : first + 1;
    last = p->fixed ? end : last;
    for (; end <= last && least[end] - least[first] < p->below_ns; end++) {
        int64_t time_ns;
        struct stage_run *run = cutter_run(cutter, stage, (struct layer_run){first, end - first});
        int32_t option = stage_run_pick(run, p->below_ns, &time_ns);
        cutter->work++;
        /* A longer run takes no less time, and no less memory. */
        if (option < 0)
            break;
        if (before + time_ns < sum[end]) {
            sum[end] = before + time_ns;
            begin[end] = first;
        }
    }
}

/* The least sum of times over stages whose steady times are below the bound; INT64_MAX: none. */
static int64_t shortest_path(struct cutter *cutter, struct cut_paths *p, int32_t *count)
{
    int32_t layers = p->width - 1;
    find_earliest(cutter->table, p);
    for (int64_t i = 0; i < (int64_t)(p->stages + 1) * p->width; i++)
        p->sum_ns[i] = INT64_MAX;
    p->sum_ns[0] = 0;
    for (int32_t stage = 0; stage < p->stages; stage++)
        for (int32_t first = p->earliest[stage]; first < layers; first++)
            if (p->sum_ns[(int64_t)stage * p->width + first] != INT64_MAX)
                extend_paths(cutter, p, stage, first);
    int64_t sum = p->sum_ns[(int64_t)p->stages * p->width + layers];
    for (int32_t stage = p->stages, end = layers; sum != INT64_MAX && stage > 0; stage--) {
        int32_t begin = p->begin[(int64_t)stage * p->width + end];
        count[stage - 1] = end - begin;
        end = begin;
    }
    return sum;
}

/* ---- all paths ------------------------------------------------------------------------------- */

/* Takes the options of a path. Bounds among them are refined; *known says whether there were
 * none. */
static weft_status take_options(struct cutter *cutter, int64_t below_ns, struct cuts *now,
                                bool *known)
{
    weft_status status = WEFT_OK;
    struct layer_run run = {0, 0};
    *known = true;
    for (int32_t stage = 0; stage < cutter->table->stages; stage++) {
        int64_t time_ns;
        run = (struct layer_run){run.first + run.count, now->count[stage]};
        struct stage_run *own = cutter_run(cutter, stage, run);
        int32_t option = stage_run_pick(own, below_ns, &time_ns);
        if (option >= 0 && own->data[option].kind == OPTION_PLAN) {
            now->option[stage] = own->data[option];
            continue;
        }
        *known = false;
        if (option >= 0)
            TRY(stage_run_refine(&cutter->fronts, own, option));
    }
done:
    return status;
}

/* Computes (1), and finds the slowest stage. */
static int64_t sum_up(struct cuts *now, const struct layer_table *table)
{
    int64_t slowest = 0, sum = 0;
    for (int32_t stage = 0; stage < table->stages; stage++) {
        const struct stage_cost *cost = &now->option[stage].cost;
        slowest = cost->steady_ns > slowest ? cost->steady_ns : slowest;
        sum += cost->time_ns;
    }
    now->iteration_ns = (table->micro_batches - 1) * slowest + sum;
    return slowest;
}

static void copy_cuts(const struct cuts *from, int32_t stages, struct cuts *to)
{
    memcpy(to->count, from->count, (size_t)stages * sizeof *to->count);
    memcpy(to->option, from->option, (size_t)stages * sizeof *to->option);
    to->iteration_ns = from->iteration_ns;
}

/* The limit for the slowest stage of an iteration below `below_ns`, if the times of its stages add
 * up to at least `sum_ns`. */
static int64_t steady_below(const struct layer_table *table, int64_t below_ns, int64_t sum_ns)
{
    if (table->micro_batches == 1 || below_ns == INT64_MAX)
        return INT64_MAX;
    return below_ns > sum_ns ? ceil_div(below_ns - sum_ns, table->micro_batches - 1) : 0;
}

bool cuts_are_slower(struct cutter *cutter, int64_t below_ns)
{
    const struct layer_table *table = cutter->table;
    struct arena *scratch = arena_new();
    struct cut_paths paths = paths_new(scratch, table, NULL);
    int32_t *count = ARENA_ARRAY(scratch, int32_t, (size_t)table->stages);
    int64_t sum = table->least_time_ns[paths.width - 1];
    bool slower = false, tighter = true;
    paths.below_ns = INT64_MAX;
    while (!slower && tighter) {
        int64_t below = steady_below(table, below_ns, sum);
        tighter = below < paths.below_ns;
        paths.below_ns = tighter ? below : paths.below_ns;
        sum = shortest_path(cutter, &paths, count);
        slower = sum == INT64_MAX || sum >= below_ns;
    }
    arena_free(scratch);
    return slower;
}

weft_status best_cuts(struct cutter *cutter, const int32_t *fixed, int64_t below_ns,
                      struct cuts *best)
{
    const struct layer_table *table = cutter->table;
    struct arena *scratch = arena_new();
    struct cut_paths paths = paths_new(scratch, table, fixed);
    struct cuts now = cuts_new(scratch, table->stages);
    int64_t most = table->problem->most_work ? table->problem->most_work : MOST_WORK;
    int64_t sum, tighter, work = cutter->work;
    weft_status status = WEFT_OK;
    bool proven = false, known;
    below_ns = best->iteration_ns < below_ns ? best->iteration_ns : below_ns;
    paths.below_ns = steady_below(table, below_ns, table->least_time_ns[paths.width - 1]);
    while (fixed || cutter->work - work < most) {
        sum = shortest_path(cutter, &paths, now.count);
        proven = sum == INT64_MAX || sum >= below_ns;
        if (proven || stop_now(table->problem->stop))
            break;
        TRY(take_options(cutter, paths.below_ns, &now, &known));
        if (known) {
            paths.below_ns = sum_up(&now, table);
            if (now.iteration_ns < below_ns) {
                below_ns = now.iteration_ns;
                copy_cuts(&now, table->stages, best);
            }
            proven = table->micro_batches == 1;
        }
        tighter = steady_below(table, below_ns, sum);
        paths.below_ns = tighter < paths.below_ns ? tighter : paths.below_ns;
        if (proven)
            break;
    }
    best->complete = proven;
done:
    arena_free(scratch);
    return status;
}
