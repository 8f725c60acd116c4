/* moves.c - moving operators between stages: how many, and through which stages (Aceso, sections
 * 4.1 and 4.3).
 *
 * With T the bottleneck's time and t that of its partner, the goals for the bottleneck are
 *
 *   T - (T - t) / 2, then T - (T - t) / 4, then whatever moving one unit gives                 (1)
 *
 * in this order, each reached by moving as few units as possible; where memory is short, the peak
 * and the limit take the places of T and t. Stages between the two pass on as few units as bring
 * them back to the goal, or to what they were.
 */
#include "search/aceso/room.h"

/* ---- partners -------------------------------------------------------------------------------- */

/* What a stage could take over: the idle time of its devices, or its free memory. */
static double room_of(const struct asking *a, int32_t stage, int64_t most_ns)
{
    if (a->verdict.excess_bytes > 0)
        return -a->cost[stage].used[RESOURCE_MEMORY];
    return (double)(most_ns - a->cost[stage].busy_ns) * (double)a->from->devices[stage];
}

int32_t rank_partners(const struct asking *a, int32_t out[MOST_STAGES])
{
    int64_t most = 0;
    int32_t count = 0;
    for (int32_t s = 0; s < a->from->stages; s++)
        most = a->cost[s].busy_ns > most ? a->cost[s].busy_ns : most;
    for (int32_t s = 0; s < a->from->stages; s++) {
        int32_t at = count;
        if (s == a->stage)
            continue;
        for (; at > 0 && room_of(a, out[at - 1], most) < room_of(a, s, most); at--)
            out[at] = out[at - 1];
        out[at] = s;
        count++;
    }
    return count;
}

/* ---- cuts ------------------------------------------------------------------------------------ */

static void set_end(struct config *c, int32_t k, int32_t end)
{
    struct config_part *part = &c->part[k];
    bool one_level = part->low == part->high;
    part->end = end;
    if (one_level)
        part->recompute_end = end;
}

/* The index of the first place of the grain after `after`. */
static size_t first_place(const struct places_list *cuts, int32_t after)
{
    size_t at = 0, end = cuts->len;
    while (at < end) {
        size_t middle = (at + end) / 2;
        if (cuts->data[middle] <= after)
            at = middle + 1;
        else
            end = middle;
    }
    return at;
}

/* Moves the cut between a stage and the next one (dir 1) or the one before (dir -1) into the stage
 * by this many units; false: the stage would be empty. */
static bool move_cut(const struct asking *a, const struct config *from, int32_t part, int dir,
                     int32_t units, struct config *to)
{
    const struct places_list *cuts = &judge_problem(a->judge)->cuts[a->grain];
    int32_t first = part_first(from, part), end = from->part[part].end;
    /* Places inside the part. */
    size_t low = first_place(cuts, first), high = first_place(cuts, end - 1);
    if (high - low < (size_t)units || units < 1)
        return false;
    if (dir > 0)
        set_end(to, part, cuts->data[high - (size_t)units]);
    else
        set_end(to, part - 1, cuts->data[low + (size_t)units - 1]);
    return true;
}

/* ---- goals ----------------------------------------------------------------------------------- */

struct goal {
    bool memory;
    int64_t most; /* ns or bytes */
};

static weft_status reaches(const struct asking *a, const struct config *c, int32_t stage,
                           struct goal goal, bool *yes)
{
    struct stage_verdict v;
    weft_status status = judge_stage(a->judge, c, stage, &v);
    *yes = v.legal && (goal.memory ? v.peak_bytes : v.busy_ns) <= goal.most;
    return status;
}

/* The fewest units that bring a stage to its goal; if no number does, as many as there are. */
static weft_status fewest(const struct asking *a, const struct config *from, int32_t stage, int dir,
                          struct goal goal, struct config *to, bool *moved)
{
    const struct places_list *cuts = &judge_problem(a->judge)->cuts[a->grain];
    size_t low = first_place(cuts, part_first(from, stage));
    size_t high = first_place(cuts, from->part[stage].end - 1);
    int32_t too_few = 0, enough = (int32_t)(high - low);
    weft_status status = WEFT_OK;
    bool yes;
    TRY(reaches(a, from, stage, goal, &yes));
    *moved = !yes && enough > 0;
    if (!*moved)
        goto done;
    while (enough - too_few > 1) {
        int32_t middle = (too_few + enough) / 2;
        config_copy(to, from);
        move_cut(a, from, stage, dir, middle, to);
        TRY(reaches(a, to, stage, goal, &yes));
        *(yes ? &enough : &too_few) = middle;
    }
    config_copy(to, from);
    move_cut(a, from, stage, dir, enough, to);
done:
    return status;
}

/* ---- relays ---------------------------------------------------------------------------------- */

static weft_status relay(const struct asking *a, int32_t partner, struct goal goal)
{
    int dir = partner > a->stage ? 1 : -1;
    int32_t cut = dir > 0 ? a->stage : a->stage - 1;
    struct config now, next;
    bool moved = false;
    weft_status status = WEFT_OK;
    config_copy(&now, a->from);
    for (int32_t s = a->stage; s != partner; s += dir) {
        struct goal own = goal;
        int64_t before =
            goal.memory ? (int64_t)a->cost[s].used[RESOURCE_MEMORY] : a->cost[s].busy_ns;
        if (s != a->stage && before > own.most)
            own.most = before;
        TRY(fewest(a, &now, s, dir, own, &next, &moved));
        if (!moved)
            break;
        config_copy(&now, &next);
    }
    int32_t by = now.part[cut].end - a->from->part[cut].end;
    struct proposal *made = by ? propose(a, partner, by > 0 ? by : -by) : NULL;
    if (made)
        config_copy(&made->config, &now);
done:
    return status;
}

static weft_status to_partner(const struct asking *a, int32_t partner)
{
    static const double SHARES[] = {0.5, 0.25}; /* (1) */
    bool memory = a->verdict.excess_bytes > 0;
    const struct stage_use *own = &a->cost[a->stage], *other = &a->cost[partner];
    double high = memory ? own->used[RESOURCE_MEMORY] : (double)own->busy_ns;
    double low = memory ? (double)judge_limit(a->judge, a->from) : (double)other->busy_ns;
    weft_status status = WEFT_OK;
    if (memory)
        TRY(relay(a, partner, (struct goal){true, (int64_t)low}));
    for (size_t i = 0; high > low && i < COUNT_OF(SHARES); i++)
        TRY(relay(a, partner, (struct goal){memory, (int64_t)(high - SHARES[i] * (high - low))}));
done:
    return status;
}

/* Moves one unit over one cut of a stage. */
static void one_unit(const struct asking *a, int32_t part, int dir)
{
    int32_t other = part + dir, cut = dir > 0 ? part : part - 1;
    struct config to;
    if (other < 0 || other >= config_parts(a->from))
        return;
    config_copy(&to, a->from);
    if (!move_cut(a, a->from, part, dir, 1, &to))
        return;
    int32_t by = to.part[cut].end - a->from->part[cut].end;
    struct proposal *made = propose(a, other % a->from->stages, by > 0 ? by : -by);
    if (made)
        config_copy(&made->config, &to);
}

weft_status propose_dec_ops(const struct asking *a)
{
    enum { PARTNERS = 2 };
    const struct config *c = a->from;
    int32_t partner[MOST_STAGES], count = rank_partners(a, partner);
    weft_status status = WEFT_OK;
    for (int32_t k = a->stage; k < config_parts(c); k += c->stages) {
        one_unit(a, k, 1);
        one_unit(a, k, -1);
    }
    if (c->pieces > 1)
        return WEFT_OK;
    for (int32_t i = 0; i < count; i++) {
        int32_t distance = partner[i] - a->stage;
        if (i < PARTNERS || distance == 1 || distance == -1)
            TRY(to_partner(a, partner[i]));
    }
done:
    return status;
}

/* The partner's side: a stage with room takes operators over. */
weft_status propose_inc_ops(const struct asking *a)
{
    const struct config *c = a->from;
    for (int32_t k = a->stage; k < config_parts(c); k += c->stages) {
        if (k > 0)
            one_unit(a, k - 1, 1);
        if (k + 1 < config_parts(c))
            one_unit(a, k + 1, -1);
    }
    return WEFT_OK;
}
