/* pool.c - completes and judges proposals, and holds what a search keeps of them: the best of all, and
 * those that it has not explored yet.
 *
 *   I1  No config is judged twice by one search: the hashes of all are kept.
 *   I2  The pool is sorted; when it is full, the worst is dropped.
 */
#include "search/aceso/search_state.h"

#include <string.h>

/* From Aceso's code: the pool keeps configs that take at most 1.2 x the time of the best. */
static const double REACH = 1.2;

/* ---- what was found -------------------------------------------------------------------------- */

static void drop_found(struct search_result *out, int32_t at)
{
    out->count--;
    for (; at < out->count; at++)
        out->found[at] = out->found[at + 1];
}

/* A few configs of every schedule and of every kind are kept, so that the simulator can be asked
 * about all of them. Returns the one to drop in favour of a config of this kind; -1: none. */
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
static void wait_for(struct search_state *s, const struct found *found)
{
    int32_t at = s->waiting;
    if (at == POOL && !better(found->verdict, s->pool[at - 1].found.verdict))
        return;
    at = at == POOL ? at - 1 : at;
    for (; at > 0 && better(found->verdict, s->pool[at - 1].found.verdict); at--)
        s->pool[at] = s->pool[at - 1];
    config_copy(&s->pool[at].found.config, &found->config);
    s->pool[at].found.verdict = found->verdict;
    s->pool[at].found.hash = found->hash;
    s->pool[at].explored = false;
    s->waiting += s->waiting < POOL;
}

void mark_explored(struct search_state *s, uint64_t hash)
{
    for (int32_t i = 0; i < s->waiting; i++)
        if (s->pool[i].found.hash == hash)
            s->pool[i].explored = true;
}

/* ---- proposals ------------------------------------------------------------------------------- */

/* The stages in which anything but recomputation changed, as bits. */
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

/* Completes a proposal and judges it; *fresh is false if it is illegal or not new (I1). */
static weft_status complete(struct search_state *s, const struct config *from,
                            struct proposal *made, bool *fresh)
{
    struct config *c = &made->config;
    bool legal;
    weft_status status = WEFT_OK;
    *fresh = false;
    config_normalise(c);
    if (!config_legal(s->problem, c) || judge_over(s->judge))
        return WEFT_OK;
    uint64_t stages = changed_stages(from, c);
    bool again = made->primitive == INC_RECOMPUTE || made->primitive == DEC_RECOMPUTE;
    TRY(judge_recompute(s->judge, c, again ? UINT64_MAX : stages));
    config_normalise(c);
    made->hash = config_hash(c);
    if (hash_get(&s->visited, made->hash) >= 0)
        return WEFT_OK;
    *hash_at(&s->visited, s->arena, made->hash) = 0;
    TRY(judge_config(s->judge, c, &made->verdict, NULL, &legal));
    *fresh = legal;
done:
    return status;
}

/* Drops proposals that are not fresh; judges and sorts the rest, and adds them to the pool. */
weft_status sift_proposals(struct search_state *s, const struct config *from,
                           struct proposals *list)
{
    int32_t kept = 0;
    weft_status status = WEFT_OK;
    for (int32_t i = 0; i < list->count; i++) {
        struct proposal *made = &list->data[i];
        bool fresh;
        TRY(complete(s, from, made, &fresh));
        if (!fresh)
            continue;
        struct found found = {.verdict = made->verdict, .hash = made->hash};
        config_copy(&found.config, &made->config);
        wait_for(s, &found);
        note_found(s->problem, s->out, &made->config, made->verdict, made->hash);
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

bool next_restart(struct search_state *s, struct verdict best, struct config *out)
{
    for (int32_t i = 0; i < s->waiting; i++) {
        struct waiting *other = &s->pool[i];
        double reach = (double)best.iteration_ns * REACH;
        if (other->explored)
            continue;
        if (best.excess_bytes == 0 && (other->found.verdict.excess_bytes > 0 ||
                                       (double)other->found.verdict.iteration_ns > reach))
            return false;
        other->explored = true;
        config_copy(out, &other->found.config);
        return true;
    }
    return false;
}
