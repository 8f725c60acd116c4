/* simplest.c - of plans that are equally good, the one with the fewest different choices.
 *
 * A prediction is less exact than the differences between the best plans, and every further
 * mechanism is one that may surprise, none as badly as memory that is not there. Within a tolerance
 * of the fastest plan that fits, the answer is therefore one that leaves ROOM of the memory free, if
 * there is any, and of these the one with the lowest score,
 *
 *   score = 8 * kinds of choices that differ between layers or operators
 *         + 4 * cuts inside a layer + 2 * (stages with different numbers of devices)
 *         + rank of the schedule: 0 for 1f1b, 1 for another default, 2 for the others
 *         + 2 where gradients of the head's weights wait
 *         + state that is sharded beyond that of the optimizer: 1 for gradients, 2 for weights, too   (1)
 *
 * and of plans with equal scores the fastest.
 *
 *   I1  With a tolerance of 0 the order of the trials stays as it is.
 */
#include "search/planner/planner.h"

#include "schedule/schedule.h"

/* The share of the limit that a plan with room leaves free, the margin included: more than the error of most
 * predictions of memory (tools/margin-basis.py). */
static const double ROOM = 0.05;

struct traits {
    int64_t score; /* (1) */
    bool roomy;
    double ns; /* per sample */
};

static int64_t schedule_rank(const char *name, int64_t pieces)
{
    const struct schedule *schedule = name ? schedule_find(name) : schedule_default(pieces, 1);
    if (schedule == schedule_default(1, 1))
        return 0;
    return schedule == schedule_default(pieces, 1) ? 1 : 2;
}

/* Whether instances of one operator differ in recomputation. */
static bool recomputes_some(const struct plan *plan)
{
    struct arena *scratch = arena_new();
    size_t ops = (size_t)plan->model->ops;
    const struct choice **first = ARENA_ARRAY(scratch, const struct choice *, ops);
    bool some = false;
    for (int64_t i = 0; i < plan->instances && !some; i++) {
        const struct choice *choice = plan_choice(plan, i), **known = &first[plan->instance[i].op];
        if (!*known)
            *known = choice;
        some = !choice_recomputes_alike(*known, choice);
    }
    arena_free(scratch);
    return some;
}

static int64_t cuts_inside_layers(const struct plan *plan)
{
    int64_t cuts = 0;
    for (int32_t p = 1; p < plan->parts; p++) {
        int64_t at = plan->part[p].first;
        const struct op *before = &plan->model->op[plan->instance[at - 1].op];
        cuts += op_in_layer(plan->model, before) && !plan->ends_layer[at - 1];
    }
    return cuts;
}

static bool has_unlike_stages(const struct plan *plan)
{
    for (int32_t s = 1; s < plan->stages; s++)
        if (plan->stage[s].devices != plan->stage[0].devices)
            return true;
    return false;
}

static int64_t shard_rank(int64_t shard)
{
    return shard > 1 ? shard - 1 : 0;
}

static int64_t score_of(const struct trial *trial)
{
    const struct plan *plan = trial->plan;
    const struct degrees *d = &trial->degrees;
    if (!plan)
        return schedule_rank(d->schedule, d->pieces) + 2 * (d->defer_head != 0) +
               shard_rank(d->shard);
    int64_t mixed = (trial->value[DIMENSION_DP] == MIXED || trial->value[DIMENSION_TP] == MIXED) +
                    (trial->value[DIMENSION_SHARD] == MIXED) + recomputes_some(plan);
    return 8 * mixed + 4 * cuts_inside_layers(plan) + 2 * has_unlike_stages(plan) +
           schedule_rank(plan->schedule, plan->pieces) + 2 * (plan->defer_head != 0) +
           shard_rank(trial->value[DIMENSION_SHARD]); /* MIXED is counted above */
}

static struct traits traits_of(const struct trial *trial)
{
    double taken = (double)(trial->needed_bytes - trial->margin_bytes);
    return (struct traits){score_of(trial), taken <= (double)trial->limit_bytes * (1 - ROOM),
                           (double)trial->iteration_ns / (double)trial->global_batch};
}

static bool is_simpler(const struct traits *a, const struct traits *b)
{
    if (a->roomy != b->roomy)
        return a->roomy;
    return a->score != b->score ? a->score < b->score : a->ns < b->ns;
}

/* Room is named where the fastest plan has none: a simpler plan may then have been passed over. */
static void say_why(struct planned *planned, const struct trial *fastest,
                    const struct trial *chosen, double tolerance)
{
    bool for_room = traits_of(chosen).roomy && !traits_of(fastest).roomy;
    const char *room = for_room ? arena_printf(planned->arena,
                                               " that leaves %g %% of the memory free,", 100 * ROOM)
                                : "";
    double gain = 1 - (double)fastest->iteration_ns / (double)fastest->global_batch /
                          ((double)chosen->iteration_ns / (double)chosen->global_batch);
    const char *reason = arena_printf(
        planned->arena, "the simplest%s within %g %% of the fastest, which would gain %.2f %%: %s",
        room, 100 * tolerance, 100 * gain, fastest->text);
    array_push(planned->arena, &planned->reasons, reason);
}

const struct trial *simplest_trial(const struct planned *planned)
{
    const struct trial *found = NULL;
    struct traits least = {0};
    for (size_t i = 0; i < planned->trials.len && planned->trials.data[i].fits; i++) {
        const struct trial *trial = &planned->trials.data[i];
        struct traits traits = traits_of(trial);
        if (found &&
            (traits.score > least.score || (traits.score == least.score && traits.ns >= least.ns)))
            continue;
        found = trial;
        least = traits;
    }
    return found == planned->trials.data ? NULL : found;
}

void prefer_simplest(struct planned *planned, double tolerance)
{
    struct trial *trial = planned->trials.data;
    size_t best = 0;
    if (!planned->trials.len || !trial[0].fits || tolerance <= 0)
        return; /* I1 */
    struct traits least = traits_of(&trial[0]);
    double most = least.ns * (1 + tolerance);
    for (size_t i = 1; i < planned->trials.len && trial[i].fits; i++) {
        struct traits traits = traits_of(&trial[i]);
        if (traits.ns <= most && is_simpler(&traits, &least)) {
            least = traits;
            best = i;
        }
    }
    if (best == 0)
        return;
    struct trial chosen = trial[best];
    say_why(planned, &trial[0], &chosen, tolerance);
    for (size_t i = best; i > 0; i--)
        trial[i] = trial[i - 1];
    trial[0] = chosen;
}
