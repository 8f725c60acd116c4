/* contexts.c - sequences that are long enough to gain by being divided, and too short for the grid to divide them by itself
 * (room.h; open_degrees.c).
 *
 * Each cp is a walk over the grid by itself, with finalists of its own: estimates of plans with cp are a few percent too fast,
 * so that in a walk of all degrees they would take the places of better plans among a few finalists.
 *
 *   I1  A walk is told the best time so far, and most of its points are ruled out by that.
 *   I2  A larger cp is looked at only if the smaller one was faster than none.
 *   I3  Keys go round a ring, unless the user says how many devices take heads.
 *   I4  They come after what is done with whole sequences, and take nothing from that: no answer is slower than without them.
 */
#include "search/auto/room.h"

/* The largest cp that walks have; 1: none. */
static int64_t most_cp(const struct plan_request *request)
{
    bool open = !request->pins.cp && !request->cluster->pools &&
                (!request->target || request->target->can.cp);
    return open ? walked_cp(request->model, cluster_devices(request->cluster)) : 1;
}

static struct plan_request divided(const struct join *join, int64_t cp)
{
    struct plan_request request = *join->request;
    request.pins.cp = cp;
    if (!request.pins.cp_heads)
        request.pins.cp_heads = 1; /* I3 */
    return request;
}

/* What that has changed; before_ns: of the best before it, 0: none. */
static void say_divided(struct join *join, int64_t walks, double before_ns)
{
    struct planned *out = join->out;
    const struct trial *best = join_best(out, NULL);
    const char *which = walks > 1 ? "cp 2, and by more where that was faster" : "cp 2";
    if (best && before_ns > 0 && ns_per_sample(best) < before_ns)
        array_push(
            out->arena, &out->reasons,
            arena_printf(out->arena,
                         "sequences were also divided, by %s: %.1f %% faster than whole ones",
                         which, 100 * (before_ns / ns_per_sample(best) - 1)));
    else
        array_push(
            out->arena, &out->reasons,
            arena_printf(out->arena, "sequences were also divided, by %s: nothing faster", which));
}

weft_status divide_sequences(struct join *join)
{
    int64_t most = most_cp(join->request), walks = 0;
    const struct trial *best = join_best(join->out, NULL);
    double before_ns = best ? ns_per_sample(best) : 0;
    weft_status status = WEFT_OK;
    for (int64_t cp = 2; cp <= most && !join_over(join); cp += cp, walks++) {
        best = join_best(join->out, NULL);
        if (best && cp > 2 && best->degrees.cp < cp / 2) /* I2 */
            break;
        struct plan_request request = divided(join, cp);
        request.known_ns = best ? best->iteration_ns : 0;
        if (best)
            request.pins.global_batch = best->global_batch;
        TRY(join_grid(join, &request));
    }
    if (walks)
        say_divided(join, walks, before_ns);
done:
    return status;
}

bool join_divides(const struct join *join, struct plan_request *out)
{
    const struct trial *best = join_best(join->out, NULL);
    if (most_cp(join->request) == 1 || !best || best->degrees.cp <= 1)
        return false;
    *out = divided(join, best->degrees.cp);
    return true;
}
