/* megatron.c - the grid: every combination of degrees that Megatron-LM takes.
 *
 *   tp     divides a node's devices        pp, dp   share the rest
 *   v      pieces per stage, with pp > 1   b        micro-batch: divides a replica's batch
 *   zero   0 or 1, with dp > 1             recompute none, selective, lists of modules, full
 *
 * with sequence parallelism wherever tp > 1. All combinations are simulated, except that
 *
 *   I1  more recomputation is tried only if less of it does not fit: it saves memory and costs
 *       time;
 *   I2  a larger micro-batch is not tried if a smaller one does not fit even with everything
 *       recomputed: it only makes the activations larger;
 *   I3  where some of it fits, and nothing recomputed does not, the fewest layers that fit are found by bisection
 *       (blocks.c), unless they cannot be faster than the best;
 *   I4  no more than MOST_PLANS are simulated, counted and not timed. What ends so is said.
 */
#include "search/auto/room.h"

enum { MOST_PIECES = 4 };
/* On 16,384 devices some thousand plans are all that there are. */
enum { MOST_PLANS = 4096 };

struct megatron_grid {
    const struct plan_request *request;
    struct planned *out;
    struct cost *cost;
    int64_t devices;
    struct recompute_levels levels;
    struct progress progress;
};

static bool open_to(int64_t pin, int64_t value)
{
    return pin == 0 || pin == value;
}

/* I4 */
static bool is_spent(const struct megatron_grid *grid)
{
    int64_t most = grid->request->most_trials ? grid->request->most_trials : MOST_PLANS;
    return (int64_t)grid->out->trials.len >= most;
}

static bool is_over(const struct megatron_grid *grid)
{
    return is_spent(grid) || plan_stopped(grid->request);
}

static void report(struct megatron_grid *grid, const struct trial *trial)
{
    struct progress *progress = &grid->progress;
    if (trial->fits && (!progress->best_ns || trial->iteration_ns < progress->best_ns))
        progress->best_ns = trial->iteration_ns;
    progress->trials++;
    if (grid->request->progress)
        grid->request->progress(grid->request->context, progress);
}

/* I3 */
static weft_status try_some_layers(struct megatron_grid *grid, struct degrees degrees,
                                   struct block_times times)
{
    struct join join = {.request = grid->request,
                        .out = grid->out,
                        .cost = grid->cost,
                        .began_s = wall_seconds(),
                        .progress = grid->progress};
    return has_blocks(grid->request) ? blocks_try(&join, degrees, times) : WEFT_OK;
}

/* Tries recomputation by I1; *fits is true if one of its kinds fits. */
static weft_status try_recompute(struct megatron_grid *grid, struct degrees degrees, bool *fits)
{
    const struct plan_request *request = grid->request;
    weft_status status = WEFT_OK;
    struct block_times times = {0};
    *fits = false;
    for (int r = 0; r < grid->levels.len && !*fits && !is_over(grid); r++) {
        const struct trial *trial;
        degrees.recompute = grid->levels.level[r].recompute;
        degrees.modules = grid->levels.level[r].modules;
        TRY(try_degrees(request, grid->cost, &degrees, grid->out, &trial));
        if (!trial)
            continue;
        report(grid, trial);
        *fits = trial->fits;
        if (degrees.recompute == RECOMPUTE_NONE)
            times = block_times(trial);
    }
    if (*fits && degrees.recompute != RECOMPUTE_NONE && times.none_ns > 0)
        TRY(try_some_layers(grid, degrees, times));
done:
    return status;
}

/* Tries micro-batches by I2. */
static weft_status try_micro_batches(struct megatron_grid *grid, struct degrees degrees)
{
    const struct plan_request *request = grid->request;
    int64_t share = degrees.global_batch / degrees.dp;
    weft_status status = WEFT_OK;
    bool fits = true;
    for (int64_t b = 1; b <= share && fits && !is_over(grid); b *= 2) {
        if (share % b || !open_to(request->pins.micro_batch, b))
            continue;
        degrees.micro_batch = b;
        TRY(try_recompute(grid, degrees, &fits));
    }
done:
    return status;
}

static weft_status try_layout(struct megatron_grid *grid, int64_t tp, int64_t pp)
{
    const struct plan_request *request = grid->request;
    struct degrees degrees = request->pins;
    weft_status status = WEFT_OK;
    degrees.tp = tp;
    degrees.pp = pp;
    degrees.dp = grid->devices / tp / pp / (degrees.cp ? degrees.cp : 1);
    degrees.sequence = tp > 1;
    for (int64_t v = 1; v <= (pp > 1 ? MOST_PIECES : 1); v++)
        for (int shard = 0; shard <= (degrees.dp > 1 ? 1 : 0); shard++) {
            if (!open_to(request->pins.pieces, v) ||
                (request->pins.has_shard && shard != request->pins.shard))
                continue;
            degrees.pieces = v;
            degrees.shard = shard;
            TRY(try_micro_batches(grid, degrees));
        }
done:
    return status;
}

/* Visits all layouts that the devices and the batch allow; counting and trying visit the same
 * ones. */
static weft_status walk(struct megatron_grid *grid, bool count)
{
    const struct degrees *pins = &grid->request->pins;
    int64_t cp = pins->cp ? pins->cp : 1, rest = grid->devices / cp;
    weft_status status = WEFT_OK;
    for (int64_t tp = 1; tp <= grid->request->cluster->node.devices; tp++)
        for (int64_t pp = 1; rest % tp == 0 && pp <= rest / tp; pp++) {
            int64_t dp = rest / tp / pp;
            if (rest / tp % pp || pins->global_batch % dp || !open_to(pins->tp, tp) ||
                !open_to(pins->pp, pp) || !open_to(pins->dp, dp) || is_over(grid))
                continue;
            if (count) {
                grid->progress.all++;
                continue;
            }
            TRY(try_layout(grid, tp, pp));
            grid->progress.done++;
        }
done:
    return status;
}

weft_status megatron_find(const struct plan_request *request, struct planned *out)
{
    struct megatron_grid grid = {.request = request,
                                 .out = out,
                                 .devices = cluster_devices(request->cluster),
                                 .progress = {.what = "layouts"}};
    weft_status status;
    TRY(cost_open_all(request->cluster, request->profile, &grid.cost));
    TRY(recompute_levels(request, &grid.levels));
    TRY(walk(&grid, true));
    TRY(walk(&grid, false));
    if (is_spent(&grid))
        array_push(out->arena, &out->reasons,
                   arena_printf(out->arena,
                                "the search ended at its bound of work, %zu plans: "
                                "other degrees may take less",
                                out->trials.len));
    out->stopped = plan_stopped(request);
done:
    cost_close(grid.cost);
    return status;
}
