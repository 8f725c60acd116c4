/* even_state.c - the best plan with the state of all its operators sharded alike (room.h).
 *
 * Searches that choose how state is sharded operator by operator see each transfer by itself. Where they mix levels, one
 * level for all may be faster, and it is simpler: it is tried for each level that occurs.
 *
 *   I1  Only where the answer need not run in a framework, whose own searches have such plans.
 */
#include "search/auto/room.h"

enum { LEVELS = 4 }; /* of sharding: nothing, optimizer, gradients, weights */

static void levels_of(const struct plan *plan, bool has[LEVELS])
{
    for (int64_t i = 0; i < plan->instances; i++)
        has[plan_choice(plan, i)->shard] = true;
}

static weft_status shard_all(struct plan *plan, int level)
{
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < plan->instances; i++) {
        struct choice choice = *plan_choice(plan, i);
        choice.shard = (int8_t)level;
        TRY(plan_choose(plan, i, &choice));
    }
done:
    return status;
}

static weft_status try_level(struct join *join, const struct plan *mixed, int level,
                             const char *found_by)
{
    struct trial *trial;
    struct plan *plan;
    weft_status status;
    TRY(plan_copy(mixed, &plan));
    if (shard_all(plan, level)) { /* a split that has no such level */
        error_clear();
        plan_free(plan);
        return WEFT_OK;
    }
    TRY(join_try_found(join, plan, mix_text(join->out->arena, plan), found_by, &trial));
done:
    return status;
}

weft_status even_best_state(struct join *join)
{
    const struct plan_request *request = join->request;
    const struct trial *best = join_best(join->out, NULL);
    bool framework = request->target && !request->target->any, has[LEVELS] = {false};
    struct plan *plan = NULL;
    weft_status status = WEFT_OK;
    if (!best || !best->plan || best->value[DIMENSION_SHARD] != MIXED || framework ||
        request->cluster->pools || request->options.batch_auto)
        return WEFT_OK;
    const char *found_by =
        arena_printf(join->out->arena, "%s with one level of sharding", best->found_by);
    TRY(join_plan_of(join, best, &plan));
    levels_of(plan, has);
    for (int level = 0; level < LEVELS; level++)
        if (has[level] && !join_over(join))
            TRY(try_level(join, plan, level, found_by));
done:
    plan_free(plan);
    return status;
}
