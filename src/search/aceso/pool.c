/* pool.c - proposals made complete, and what a search keeps of them: the best of all, and those
 * that it has not gone into yet.
 *
 *   I1  No config is judged twice by one search: their hashes are kept.
 *   I2  The pool is sorted; the worst falls out.
 */
#include "search/aceso/walk.h"

#include <string.h>

static const double REACH = 1.2; /* Aceso's code: the pool keeps what is within 1.2 x of the best */

/* ---- what was found -------------------------------------------------------------------------- */

static void drop_found(struct search_result *out, int32_t at)
{
    out->count--;
    for (; at < out->count; at++)
        out->found[at] = out->found[at + 1];
}

/* Of every schedule a few, and of every kind, so that the simulator hears of all: which one goes for one
 * of this kind, -1: none. */
static int32_t find_drop(const struct search_result *out, const struct config *c, uint64_t kind)
{
    int32_t alike = 0, of_schedule = 0, worst_alike = -1, worst = -1;
    for (int32_t i = 0; i < out->count; i++) {
        const struct found *other = &out->found[i];
        if (other->config.schedule != c->schedule)
            continue;
        of_schedule++;
        worst = i;
        if (other->kind != kind)
            continue;
        alike++;
        worst_alike = i;
    }
    return alike == MOST_ALIKE ? worst_alike : of_schedule == MOST_OF_SCHEDULE ? worst : -1;
}

bool is_worth_noting(const struct problem *p, const struct search_result *out,
                     const struct config *c, struct verdict verdict)
{
    int32_t drop = find_drop(out, c, config_kind(p, c));
    return drop < 0 || better(verdict, out->found[drop].verdict);
}

void note_found(const struct problem *p, struct search_result *out, const struct config *c,
                struct verdict verdict, uint64_t hash)
{
    uint64_t kind = config_kind(p, c);
    int32_t drop = find_drop(out, c, kind), at;
    for (int32_t i = 0; i < out->count; i++)
        if (out->found[i].hash == hash)
            return;
    if (drop >= 0 && !better(verdict, out->found[drop].verdict))
        return;
    if (drop >= 0)
        drop_found(out, drop);
    for (at = out->count++; at > 0 && better(verdict, out->found[at - 1].verdict); at--)
        out->found[at] = out->found[at - 1];
    config_copy(&out->found[at].config, c);
    out->found[at].verdict = verdict;
    out->found[at].hash = hash;
    out->found[at].kind = kind;
}

/* I2 */
static void wait_for(struct walk *w, const struct found *found)
{
    int32_t at = w->waiting;
    if (at == POOL && !better(found->verdict, w->pool[at - 1].found.verdict))
        return;
    at = at == POOL ? at - 1 : at;
    for (; at > 0 && better(found->verdict, w->pool[at - 1].found.verdict); at--)
        w->pool[at] = w->pool[at - 1];
    config_copy(&w->pool[at].found.config, &found->config);
    w->pool[at].found.verdict = found->verdict;
    w->pool[at].found.hash = found->hash;
    w->pool[at].gone_into = false;
    w->waiting += w->waiting < POOL;
}

void walk_go_into(struct walk *w, uint64_t hash)
{
    for (int32_t i = 0; i < w->waiting; i++)
        if (w->pool[i].found.hash == hash)
            w->pool[i].gone_into = true;
}

/* ---- proposals ------------------------------------------------------------------------------- */

/* Stages of which anything but recomputation changed. */
static uint64_t changed_stages(const struct config *a, const struct config *b)
{
    uint64_t changed = 0;
    bool all =
        a->pieces != b->pieces || a->schedule != b->schedule || a->step_samples != b->step_samples;
    int64_t first_a = 0, first_b = 0;
    for (int32_t s = 0; s < b->stages; s++) {
        bool differs = all || a->devices[s] != b->devices[s] || first_a != first_b;
        for (int32_t k = s; !differs && k < config_parts(b); k += b->stages)
            differs = part_first(a, k) != part_first(b, k) || a->part[k].end != b->part[k].end ||
                      memcmp(a->part[k].change, b->part[k].change, sizeof a->part[k].change) != 0 ||
                      memcmp(a->part[k].manner, b->part[k].manner, sizeof a->part[k].manner) != 0;
        changed |= differs ? UINT64_C(1) << s : 0;
        first_a += a->devices[s];
        first_b += b->devices[s];
    }
    return changed;
}

/* Makes a proposal complete, and judges it; *fresh is false where it is illegal or not new (I1). */
static weft_status complete(struct walk *w, const struct config *from, struct proposal *made,
                            bool *fresh)
{
    struct config *c = &made->config;
    bool legal;
    weft_status status = WEFT_OK;
    *fresh = false;
    config_normalise(c);
    if (!config_legal(w->problem, c) || judge_over(w->judge))
        return WEFT_OK;
    uint64_t stages = changed_stages(from, c);
    bool again = made->primitive == INC_RECOMPUTE || made->primitive == DEC_RECOMPUTE;
    TRY(judge_recompute(w->judge, c, again ? UINT64_MAX : stages));
    config_normalise(c);
    made->hash = config_hash(c);
    if (hash_get(&w->visited, made->hash) >= 0)
        return WEFT_OK;
    *hash_at(&w->visited, w->arena, made->hash) = 0;
    TRY(judge_config(w->judge, c, &made->verdict, NULL, &legal));
    *fresh = legal;
done:
    return status;
}

/* What is not fresh goes; the rest is judged, waits, and is sorted. */
weft_status walk_sift(struct walk *w, const struct config *from, struct proposals *list)
{
    int32_t kept = 0;
    weft_status status = WEFT_OK;
    for (int32_t i = 0; i < list->count; i++) {
        struct proposal *made = &list->data[i];
        bool fresh;
        TRY(complete(w, from, made, &fresh));
        if (!fresh)
            continue;
        struct found found = {.verdict = made->verdict, .hash = made->hash};
        config_copy(&found.config, &made->config);
        wait_for(w, &found);
        note_found(w->problem, w->out, &made->config, made->verdict, made->hash);
        if (kept != i) {
            struct proposal *to = &list->data[kept];
            size_t head = sizeof *to - offsetof(struct proposal, verdict);
            config_copy(&to->config, &made->config);
            memcpy(&to->verdict, &made->verdict, head);
        }
        kept++;
    }
    list->count = kept;
done:
    return status;
}

/* ---- restarts -------------------------------------------------------------------------------- */

bool walk_restart(struct walk *w, struct verdict best, struct config *out)
{
    for (int32_t i = 0; i < w->waiting; i++) {
        struct waiting *other = &w->pool[i];
        double reach = (double)best.iteration_ns * REACH;
        if (other->gone_into)
            continue;
        if (best.excess_bytes == 0 && (other->found.verdict.excess_bytes > 0 ||
                                       (double)other->found.verdict.iteration_ns > reach))
            return false;
        other->gone_into = true;
        config_copy(out, &other->found.config);
        return true;
    }
    return false;
}
