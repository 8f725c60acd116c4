/* continued.c - iterations with more micro-batches than are simulated.
 *
 * Between its first and its last micro-batches a pipeline repeats itself: each further micro-batch
 * takes as long as the one before, and adds as much to what is held (nothing, if a stage frees as
 * much as it allocates). So instead of an iteration of m micro-batches two shorter ones are
 * simulated, of m1 and m2, and their difference is extrapolated to m:
 *
 *   x(m) = x(m2) + (m - m2) (x(m2) - x(m1)) / (m2 - m1)                                       (1)
 *
 * for the iteration, for each of a stage's times and for what it holds.
 *
 *   I1  m, m1 and m2 differ by whole rounds (schedule_round), and have the same groups: the
 *       schedule can order all of them, and an incomplete round is the same in all.
 *   I2  m1 has at least PLAN_ROUNDS / 2 rounds (but I5): every stage is at work by then.
 *   I3  A stage's times add up to the iteration: the largest one absorbs rounding.
 *   I4  The graph, its result, points of memory and the critical path are those of m2
 *       micro-batches.
 *   I5  What is asked for briefly is extrapolated, unless its slots are few, from the fewest rounds with as many
 *       micro-batches in flight as the whole iteration has, and from one round more; with many stages of one piece, which
 *       repeat themselves with every micro-batch, from a few micro-batches more. What is held then does not grow, and only
 *       the longer one asks the allocator. With several pieces it takes two rounds at least (zb-v is 11 % off after one), and
 *       where more are in flight after them (hanayo), all micro-batches; segments hold more with each one and keep their
 *       pace. Steps are apart from sends (compile_options), extrapolated or not: without that, groups that span nodes take
 *       20 times as many tasks. Of 175B on 1,024 devices, times are within 2.3 %.
 */
#include <math.h>
#include <string.h>

#include "sim/room.h"

enum {
    /* operators of a part that count as one: each may become a task if it waits for collectives */
    OPERATORS = 32,
    SHORTER = 16 /* factor by which fewer are simulated than the limit allows */
};
static const double BRIEF_SLOTS = 4500; /* I5: so many take less than a tenth of a second */
enum {
    BRIEF_MICRO_BATCHES = 16, /* I5: after fewer, some pipelines are not at their pace */
    BRIEF_MORE_MICRO_BATCHES = 8,
    BRIEF_STAGES =
        16 /* with fewer, eight micro-batches more are too few: 4.5 % off on a small model */
};

/* Micro-batches of one iteration times parts, and times devices if each is simulated. */
static double slots_of(const struct plan *plan, enum fold fold)
{
    double stages = (double)plan->stages, all = (double)cluster_devices(plan->cluster);
    double parts = fmax((double)plan->parts, (double)plan->instances / OPERATORS);
    return (double)plan_micro_batches(plan) * parts * (fold == FOLD_NEVER ? all / stages : 1);
}

/* Drops so many rounds that about `wanted` micro-batches are left, but not fewer than needed (I1,
 * I2). */
static int64_t fewer(const struct plan *plan, int64_t wanted, int64_t least_rounds)
{
    int64_t rounds = wanted / plan_round(plan);
    return plan_fewer_micro_batches(plan, rounds > least_rounds ? rounds : least_rounds);
}

static const struct plan *shorter(struct arena *keep, const struct plan *plan,
                                  int64_t micro_batches)
{
    struct plan *copy = ARENA_NEW(keep, struct plan);
    *copy = *plan;
    copy->global_batch = micro_batches * plan->step_samples;
    copy->group = plan_pipeline_of(plan, micro_batches).group; /* I1 */
    return copy;
}

/* ---- (1) ------------------------------------------------------------------------------------- */

struct continuation {
    double rounds; /* (m - m2) / (m2 - m1) */
    bool steady;   /* as much is held by m2 as by m */
};

static int64_t go_on(const struct continuation *c, int64_t first, int64_t second)
{
    double value = (double)second + c->rounds * (double)(second - first);
    return value <= 0 ? 0 : value < 0x1p62 ? llround(value) : (int64_t)1 << 62;
}

static void continue_times(const struct continuation *c, const struct stage_prediction *first,
                           int64_t iteration_ns, struct stage_prediction *second)
{
    int64_t all = 0;
    int largest = 0;
    for (int t = 0; t < TIME_COUNT; t++) {
        second->time_ns[t] = go_on(c, first->time_ns[t], second->time_ns[t]);
        all += second->time_ns[t];
        largest = second->time_ns[t] > second->time_ns[largest] ? t : largest;
    }
    second->time_ns[largest] += iteration_ns - all; /* I3 */
    second->waits_most_ns = go_on(c, first->waits_most_ns, second->waits_most_ns);
}

static void continue_memory(const struct continuation *c, const struct stage_peak *first,
                            struct stage_peak *second)
{
    bool grows = second->peak != first->peak;
    int64_t beside = go_on(c, first->reserved - first->peak, second->reserved - second->peak);
    second->peak = 0;
    for (int k = 0; k < MEMORY_CLASS_COUNT; k++) {
        second->bytes[k] = go_on(c, first->bytes[k], second->bytes[k]);
        second->peak += second->bytes[k];
    }
    second->reserved = second->peak + beside;
    second->host = go_on(c, first->host, second->host);
    if (grows) /* the listed holdings then add up to less than is held */
        second->holdings = 0;
}

static void continue_prediction(const struct plan *plan, const struct prediction *first,
                                bool steady, struct prediction *second)
{
    double m = (double)plan_micro_batches(plan), m1 = (double)plan_micro_batches(first->plan),
           m2 = (double)plan_micro_batches(second->plan);
    struct continuation c = {(m - m2) / (m2 - m1), steady};
    second->iteration_ns = go_on(&c, first->iteration_ns, second->iteration_ns);
    second->flops *= m / m2;
    second->fits = true;
    for (int32_t s = 0; s < plan->stages; s++) {
        struct stage_prediction *stage = &second->stage[s];
        continue_times(&c, &first->stage[s], second->iteration_ns, stage);
        if (!c.steady)
            continue_memory(&c, &first->stage[s].memory, &stage->memory);
        second->fits &= stage_needed(&stage->memory) <= stage->memory.limit;
    }
    second->compile_s += first->compile_s;
    second->simulate_s += first->simulate_s;
    second->plan = plan;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static weft_status simulate_shorter(const struct plan *plan, const struct simulate_options *options,
                                    int64_t few, int64_t more, bool steady, struct prediction **out)
{
    struct arena *keep = arena_new();
    struct prediction *first = NULL, *second = NULL;
    struct simulate_options alike = *options;
    weft_status status;
    TRY(simulate_all(shorter(keep, plan, more), options, &second));
    alike.fold = second->graph->folded ? FOLD_ALWAYS : FOLD_NEVER;
    alike.points = false;
    alike.times_only |= steady;
    TRY(simulate_all(shorter(keep, plan, few), &alike, &first));
    continue_prediction(plan, first, steady, second);
    second->shorter = keep; /* owns the graph's plan */
    keep = NULL;
    *out = second;
    second = NULL;
done:
    prediction_free(first);
    prediction_free(second);
    arena_free(keep);
    return status;
}

/* A schedule may need more micro-batches than there are stages. */
static bool can_order(const struct schedule *schedule, const struct pipeline *pipeline)
{
    bool can = schedule_check(schedule, pipeline) == WEFT_OK;
    error_clear();
    return can;
}

/* I5: the first and the last stage have most in flight, by schedule. */
static bool shows_all(const struct plan *plan, int64_t micro_batches)
{
    const struct schedule *schedule = plan_row(plan);
    struct pipeline all = plan_pipeline(plan), few = plan_pipeline_of(plan, micro_batches);
    int32_t last = plan->stages - 1;
    return can_order(schedule, &few) &&
           schedule_in_flight(schedule, &few, 0) == schedule_in_flight(schedule, &all, 0) &&
           schedule_in_flight(schedule, &few, last) == schedule_in_flight(schedule, &all, last);
}

/* I5 */
static int64_t brief_rounds(const struct plan *plan)
{
    bool one = plan->stages >= BRIEF_MICRO_BATCHES && plan->pieces == 1;
    int64_t rounds = one ? 1 : PLAN_ROUNDS / 2;
    while (rounds < PLAN_ROUNDS / 2 && !shows_all(plan, plan_fewer_micro_batches(plan, rounds)))
        rounds++;
    return rounds;
}

/* I5: pieces whose order goes on changing have no pace that a few rounds would show. */
static bool has_pace(const struct plan *plan)
{
    return plan->pieces == 1 || plan_row(plan)->segmented ||
           shows_all(plan, plan_fewer_micro_batches(plan, PLAN_ROUNDS / 2));
}

/* A listed order has no shorter form (plan_fewer_micro_batches). */
static weft_status check_listed(const struct plan *plan, const struct simulate_options *options,
                                double slots)
{
    enum work_limit limit = options->fold == FOLD_NEVER ? LIMIT_UNFOLDED_SLOTS : LIMIT_LISTED_SLOTS;
    return plan->listed && slots > limit_of(limit) ? over_limit(limit, slots) : WEFT_OK;
}

/* I5: how many the longer one has. */
static int64_t brief_longer(const struct plan *plan, int64_t few, int64_t rounds)
{
    struct pipeline longer = plan_pipeline_of(plan, few + BRIEF_MORE_MICRO_BATCHES);
    bool by_rounds =
        plan->pieces > 1 || plan->stages < BRIEF_STAGES || !can_order(plan_row(plan), &longer);
    int64_t more = by_rounds ? plan_fewer_micro_batches(plan, rounds + 1) : longer.micro_batches;
    return more < plan_micro_batches(plan) ? more : plan_micro_batches(plan);
}

weft_status simulate(const struct plan *plan, const struct simulate_options *options,
                     struct prediction **out)
{
    double most = limit_of(options->fold == FOLD_NEVER ? LIMIT_UNFOLDED_SLOTS : LIMIT_FOLDED_SLOTS);
    double slots = slots_of(plan, options->fold);
    bool brief = options->briefly && slots > BRIEF_SLOTS && has_pace(plan);
    int64_t m = plan_micro_batches(plan), more = m, few, rounds = brief ? brief_rounds(plan) : 0;
    weft_status status = check_listed(plan, options, slots);
    if (status)
        return status;
    if (slots > most)
        more = fewer(plan, (int64_t)((double)m * most / slots / SHORTER), PLAN_ROUNDS);
    few = brief ? plan_fewer_micro_batches(plan, rounds) : fewer(plan, more / 2, PLAN_ROUNDS / 2);
    if (brief)
        more = brief_longer(plan, few, rounds);
    if (more == m || few == more)
        return simulate_all(plan, options, out);
    return simulate_shorter(plan, options, few, more, brief && shows_all(plan, few), out);
}
