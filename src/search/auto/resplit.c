/* resplit.c - operators of the best plan with other splits, forward and backward, one after the other (room.h; plan/back.c).
 *
 * What all devices need is computed by all of them forward, and need not be backward: each can make the gradients of its own
 * positions. And degrees split some operators that are cheaper whole, because what they read or make is gathered for them.
 *
 *   I1  Every operator whose backward pass may have a split of its own (op_turns) gets the pair of a forward and a backward
 *       split with which the plan's estimate is shortest, if that is shorter than it was: any with one part of its forward
 *       split along another dim, and one part of its backward split. Where the forward split changes, it is the same part:
 *       these devices are laid otherwise, once or twice. Pairs of which neither is the forward split, and which differ, are
 *       tried where a simpler one gained. Copies of an operator with the same choice change together.
 *   I2  The plan is a trial if all changes together are worth one; the simulation decides. Where it does not fit, though the
 *       best did and both are estimated to (of the allocator estimates know little), the half of the changes that gains least
 *       is undone.
 *   I3  Only where nothing about splits is pinned and the answer need not run in a framework, which has no such plans.
 *   I4  The effort is counted, so that the answer is the same on any machine; where the operators with most copies gained
 *       less than half of what is worth a trial, the others are not tried.
 */
#include <stdlib.h>

#include "search/auto/room.h"

/* I4: instances of all plans that are estimated, of which a million take 3 s, and of those that must show a gain; trials. */
enum { MOST_ESTIMATED = 1000000, MOST_FRUITLESS = 80000, MOST_TRIALS = 3 };
/* Of the iteration: less is not worth a plan that is harder to read. */
static const double WORTH_A_TRIAL = 0.005;

/* Copies of one operator with one choice. */
struct alike {
    int32_t op;
    uint16_t choice;
    int64_t copies;
    int64_t gain_ns; /* by its new splits */
    struct choice before;
};
struct resplit {
    struct join *join;
    struct plan *plan; /* a copy, which is changed */
    struct arena *scratch;
    struct estimate first, now; /* of the plan, as it came and as it is */
    int64_t estimates;
    ARRAY(struct alike) groups;
};

/* ---- one pair of splits -------------------------------------------------------------------------- */

static weft_status choose_all(const struct resplit *r, struct alike *group,
                              const struct choice *choice)
{
    struct plan *plan = r->plan;
    uint16_t from = group->choice;
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < plan->instances; i++)
        if (plan->instance[i].op == group->op && plan->choice_of[i] == from) {
            TRY(plan_choose(plan, i, choice));
            group->choice = plan->choice_of[i];
        }
done:
    return status;
}

static bool is_shorter(const struct estimate *a, const struct estimate *b)
{
    bool fits = a->peak_bytes <= a->limit_bytes || a->peak_bytes <= b->peak_bytes;
    return fits && a->iteration_ns < b->iteration_ns;
}

/* Whether the plan with a new choice can be estimated, and is shorter. */
static weft_status judge(struct resplit *r, bool *shorter)
{
    struct estimate estimate;
    weft_status status = WEFT_OK;
    *shorter = plan_check(r->plan) == WEFT_OK && !join_over(r->join);
    error_clear();
    if (!*shorter)
        return WEFT_OK;
    r->estimates++;
    TRY(join_estimate(r->join, r->plan, r->scratch, &estimate));
    *shorter = is_shorter(&estimate, &r->now);
    if (*shorter)
        r->now = estimate;
done:
    return status;
}

static double gain_so_far(const struct resplit *r)
{
    return 1 - (double)r->now.iteration_ns / (double)r->first.iteration_ns;
}

/* I4 */
static bool is_spent(const struct resplit *r)
{
    int64_t estimated = r->estimates * r->plan->instances;
    return estimated > MOST_ESTIMATED ||
           (estimated > MOST_FRUITLESS && gain_so_far(r) < WORTH_A_TRIAL / 2);
}

static weft_status try_pair(struct resplit *r, struct alike *group, const struct split *forward,
                            const struct split *back)
{
    const struct model *model = r->plan->model;
    struct choice before = r->plan->choice[group->choice], choice = before;
    bool shorter;
    weft_status status = WEFT_OK;
    choice.split = *forward;
    choice_set_back(&choice, back);
    if (choice_equal(&choice, &before) || is_spent(r) ||
        (choice.own_back && back_refusal(model, &model->op[group->op], &choice)))
        return WEFT_OK;
    TRY(choose_all(r, group, &choice));
    TRY(judge(r, &shorter));
    if (!shorter)
        TRY(choose_all(r, group, &before));
done:
    return status;
}

/* ---- one operator (I1) ---------------------------------------------------------------------------- */

/* The dims of a kind and, after them, copies. */
static int dim_at(enum op_kind kind, int place)
{
    return place == op_dims(kind) ? SPLIT_COPY : (int)OP_KINDS[kind].dims[place].dim;
}

static struct split with_part(const struct split *split, int32_t part, int dim)
{
    struct split out = split_none();
    for (int32_t i = 0; i < split->parts; i++)
        split_add(&out, i == part ? dim : split->part[i].dim, split->part[i].degree);
    return out;
}

static weft_status try_backs(struct resplit *r, struct alike *group, const struct split *split,
                             int32_t part, const struct split *forward)
{
    enum op_kind kind = r->plan->model->op[group->op].kind;
    weft_status status = WEFT_OK;
    for (int place = 0; place <= op_dims(kind); place++) {
        struct split back = with_part(split, part, dim_at(kind, place));
        TRY(try_pair(r, group, forward, &back));
    }
done:
    return status;
}

/* One part along each dim: all pairs, or first the backward pass alone and both passes alike. */
static weft_status try_part(struct resplit *r, struct alike *group, const struct split *split,
                            int32_t part, bool all_pairs)
{
    enum op_kind kind = r->plan->model->op[group->op].kind;
    weft_status status = WEFT_OK;
    for (int place = 0; place <= op_dims(kind); place++) {
        struct split other = with_part(split, part, dim_at(kind, place));
        if (all_pairs) {
            TRY(try_backs(r, group, split, part, &other));
        } else {
            TRY(try_pair(r, group, &other, &other));
            TRY(try_pair(r, group, split, &other));
        }
    }
done:
    return status;
}

static weft_status split_again(struct resplit *r, struct alike *group)
{
    const struct split split = r->plan->choice[group->choice].split;
    int64_t ns = r->now.iteration_ns;
    weft_status status = WEFT_OK;
    for (int32_t part = 0; part < split.parts; part++)
        TRY(try_part(r, group, &split, part, false));
    for (int32_t part = 0; r->now.iteration_ns < ns && part < split.parts; part++)
        TRY(try_part(r, group, &split, part, true));
done:
    return status;
}

/* ---- a plan ------------------------------------------------------------------------------------- */

static void count_copy(struct resplit *r, int32_t op, uint16_t choice)
{
    for (size_t i = 0; i < r->groups.len; i++)
        if (r->groups.data[i].op == op && r->groups.data[i].choice == choice) {
            r->groups.data[i].copies++;
            return;
        }
    array_push(r->scratch, &r->groups, ((struct alike){.op = op, .choice = choice, .copies = 1}));
}

/* Those with most copies first, which may gain most; then in the order of the model. */
static int most_copies(const void *a, const void *b)
{
    const struct alike *x = a, *y = b;
    if (x->copies != y->copies)
        return x->copies > y->copies ? -1 : 1;
    return x->op != y->op ? (x->op > y->op) - (x->op < y->op) : (int)x->choice - (int)y->choice;
}

static weft_status split_all_again(struct resplit *r)
{
    const struct plan *plan = r->plan;
    weft_status status = WEFT_OK;
    TRY(join_estimate(r->join, plan, r->scratch, &r->first));
    r->now = r->first;
    for (int64_t i = 0; i < plan->instances; i++)
        if (op_turns(plan->model, &plan->model->op[plan->instance[i].op]))
            count_copy(r, plan->instance[i].op, plan->choice_of[i]);
    if (r->groups.len)
        qsort(r->groups.data, r->groups.len, sizeof *r->groups.data, most_copies);
    for (size_t i = 0; i < r->groups.len && !join_over(r->join); i++) {
        struct alike *group = &r->groups.data[i];
        int64_t ns = r->now.iteration_ns;
        group->before = plan->choice[group->choice];
        TRY(split_again(r, group));
        group->gain_ns = ns - r->now.iteration_ns;
    }
done:
    return status;
}

/* "2 operators split anew, 1 otherwise backward" */
static const char *words_of(const struct resplit *r, const struct plan *before)
{
    struct arena *keep = r->join->out->arena;
    int64_t anew = 0, back = 0;
    for (int64_t i = 0; i < before->instances; i++) {
        const struct choice *choice = plan_choice(r->plan, i);
        anew += !choice_equal(choice, plan_choice(before, i));
        back += choice->own_back;
    }
    const char *words = arena_printf(keep, "%s; %s split anew", mix_text(keep, r->plan),
                                     counted(anew, "operator").s);
    return back ? arena_printf(keep, "%s, %lld otherwise backward", words, (long long)back) : words;
}

/* Simulates the plan as it is. */
static weft_status try_it(struct resplit *r, const struct plan *before, const char *found_by,
                          bool *fits)
{
    const char *own = arena_printf(r->join->out->arena, "%s with other splits", found_by);
    struct trial *trial;
    struct plan *plan;
    weft_status status;
    TRY(plan_copy(r->plan, &plan));
    TRY(join_try_found(r->join, plan, words_of(r, before), own, &trial));
    *fits = !trial || trial->fits;
done:
    return status;
}

static int least_gain(const void *a, const void *b)
{
    const struct alike *x = a, *y = b;
    if (x->gain_ns != y->gain_ns)
        return x->gain_ns < y->gain_ns ? -1 : 1;
    return most_copies(a, b);
}

/* Undoes the half of the changes that gains least; *left: of changes. */
static weft_status undo_half(struct resplit *r, size_t *left)
{
    size_t first = 0, undone = 0;
    weft_status status = WEFT_OK;
    qsort(r->groups.data, r->groups.len, sizeof *r->groups.data, least_gain);
    while (first < r->groups.len && r->groups.data[first].gain_ns == 0)
        first++;
    for (; 2 * undone < r->groups.len - first; undone++) {
        struct alike *group = &r->groups.data[first + undone];
        TRY(choose_all(r, group, &group->before));
        group->gain_ns = 0;
    }
    *left = r->groups.len - first - undone;
    TRY(plan_check(r->plan));
done:
    return status;
}

static weft_status resplit(struct join *join, const struct plan *before, const char *found_by)
{
    struct resplit r = {.join = join, .scratch = arena_new()};
    size_t left = 1;
    bool fits = false;
    weft_status status;
    TRY(plan_copy(before, &r.plan));
    TRY(split_all_again(&r));
    join->out->candidates += r.estimates;
    if (gain_so_far(&r) < WORTH_A_TRIAL || plan_forbidden(&join->request->forbids, r.plan))
        goto done;
    for (int i = 0; i < MOST_TRIALS && left && !fits && !join_over(join); i++) {
        TRY(try_it(&r, before, found_by, &fits));
        if (!fits)
            TRY(undo_half(&r, &left));
    }
done:
    plan_free(r.plan);
    arena_free(r.scratch);
    return status;
}

/* I3 */
static bool may_resplit(const struct plan_request *request)
{
    const struct degrees *pins = &request->pins;
    bool pinned = pins->dp || pins->tp || pins->cp || pins->cp_heads || pins->ep || pins->etp ||
                  pins->sequence || pins->optimizer == UPDATE_MUON;
    bool framework = request->target && !request->target->any;
    return !pinned && !framework && !request->cluster->pools && !request->options.quick &&
           !request->options.batch_auto;
}

weft_status resplit_best(struct join *join)
{
    const struct trial *best = join_best(join->out, NULL);
    struct plan *plan = NULL;
    weft_status status = WEFT_OK;
    if (!best || !may_resplit(join->request) || join_over(join))
        return WEFT_OK;
    const char *found_by = best->found_by;
    TRY(join_plan_of(join, best, &plan));
    if (!plan_has_subsets(plan))
        TRY(resplit(join, plan, found_by));
done:
    plan_free(plan);
    return status;
}
