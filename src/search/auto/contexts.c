/* contexts.c - sequences that are long enough to gain by being divided, and too short for the grid to divide them by itself
 * (room.h; open_degrees.c).
 *
 * Each cp is a walk over the grid by itself, with finalists of its own: estimates of plans with cp are up to 12 % too fast,
 * so that in a walk of all degrees they would take the places of better plans among a few finalists.
 *
 *   I1  A walk is told the best time so far, and most of its points are ruled out by that.
 *   I2  What comes after a walk comes after each of these. On more than FEW devices, where simulations take long, only after
 *       one that has found what is faster than all before, and the next larger cp is looked at only then.
 *   I3  Keys go round a ring, unless the user says how many devices take heads.
 *   I4  They come after what the grid and a target's numbers make of whole sequences, which is found as if there were none of them.
 */
#include "search/auto/room.h"

enum { FEW = 64 };

/* The largest cp that walks have; 1: none. */
static int64_t most_cp(const struct plan_request *request)
{
    bool open = !request->pins.cp && !request->cluster->pools &&
                (!request->target || request->target->can.cp);
    return open ? walked_cp(request->model, cluster_devices(request->cluster)) : 1;
}

static bool is_forbidden(const struct forbids *forbids, int64_t cp)
{
    for (size_t i = 0; i < forbids->len; i++) {
        const struct forbid *forbid = &forbids->data[i];
        if (forbid->word == FORBID_CP && (forbid->all || forbid->value == cp))
            return true;
    }
    return false;
}

static struct plan_request divided(const struct join *join, int64_t cp)
{
    struct plan_request request = *join->request;
    request.pins.cp = cp;
    if (!request.pins.cp_heads)
        request.pins.cp_heads = 1; /* I3 */
    return request;
}

/* What that has changed; before_ns: of the best before it, 0: nothing fitted. */
static const char *change(struct arena *keep, const struct trial *best, double before_ns)
{
    if (!best)
        return "nothing fits";
    if (before_ns == 0)
        return "only divided ones fit";
    if (ns_per_sample(best) >= before_ns)
        return "nothing faster";
    return arena_printf(keep, "%.1f %% faster than whole ones",
                        100 * (before_ns / ns_per_sample(best) - 1));
}

weft_status divide_sequences(struct join *join)
{
    struct planned *out = join->out;
    const struct trial *best = join_best(out, NULL);
    double before_ns = best ? ns_per_sample(best) : 0;
    const char *by = NULL;
    bool few = cluster_devices(join->request->cluster) <= FEW; /* I2 */
    weft_status status = WEFT_OK;
    for (int64_t cp = 2; cp <= most_cp(join->request) && !join_over(join); cp += cp) {
        if (is_forbidden(&join->request->forbids, cp))
            continue;
        struct plan_request request = divided(join, cp), walking;
        best = join_best(out, NULL);
        if (best)
            request.pins.global_batch = best->global_batch;
        walking = request;
        walking.known_ns = best ? best->iteration_ns : 0; /* I1 */
        TRY(join_grid(join, &walking));
        best = join_best(out, NULL);
        bool faster = best && best->degrees.cp == cp;
        if (few || faster)
            TRY(join_improve(join, &request));
        by = arena_printf(out->arena, "%s%s%lld", by ? by : "", by ? " and " : "", (long long)cp);
        if (!few && !faster)
            break;
    }
    if (by)
        array_push(out->arena, &out->reasons,
                   arena_printf(out->arena, "sequences were also divided, by cp %s: %s", by,
                                change(out->arena, join_best(out, NULL), before_ns)));
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
