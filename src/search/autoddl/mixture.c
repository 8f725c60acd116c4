/* mixture.c - a split per layer: which copies of a repeated module take which of two assignments (AutoDDL, section 4.1,
 * where every layer has a strategy of its own).
 *
 * An assignment gives all copies of an operator one split. Copies between equal neighbours have equal times, so where memory
 * does not matter nothing is gained from unlike ones. Where it does, the fastest assignment y needs more than there is and x,
 * which fits, is slower: then of the n copies on a stage k take y and n - k take x,
 *
 *   time(k)   = n t_x - k (t_x - t_y) + border,     memory(k) = n m_x + k (m_y - m_x) <= limit                  (1)
 *
 * A stage has one limit, so of many assignments no more than two are ever of use at once: the least of a sum over copies under
 * one linear constraint is on a line between two points (but for less than one copy). Copies with one assignment are next to
 * each other: each border costs a reshard.
 *
 *   I1  k is the largest that fits, stage by stage, found by halving with the closed form; memory rises with k.
 *   I2  What the simulator finds not to fit is tried again with a limit lower by as much, FEW times.
 *   I3  Operators outside of repeated modules keep x.
 */
#include "search/autoddl/room.h"

enum { FEW = 3 };

struct mixture {
    const struct autoddl *a;
    const struct layout_problem *p;
    const int32_t *lean, *fast; /* x and y */
    bool fast_last;             /* the copies with y are the last ones of their stage */
    int64_t *layers, *taken;    /* per stage: n and k */
};

/* ---- plans ----------------------------------------------------------------------------------- */

static int64_t layers_of(const struct plan *plan, const struct part *part)
{
    int64_t layers = 0;
    for (int64_t i = part->first; i < part->first + part->count; i++)
        layers += plan->ends_layer[i];
    return layers;
}

/* Gives the copies of a stage that are to be fast their choices. */
static weft_status paint_stage(const struct mixture *m, struct plan *plan, int32_t stage)
{
    const struct part *part = &plan->part[stage];
    int64_t layer = 0, from = m->fast_last ? m->layers[stage] - m->taken[stage] : 0;
    weft_status status = WEFT_OK;
    for (int64_t i = part->first; i < part->first + part->count; i++) {
        int32_t op = plan->instance[i].op;
        bool fast = layer >= from && layer < from + m->taken[stage];
        if (fast && op_in_layer(plan->model, &plan->model->op[op])) {
            struct choice choice = layout_choice(m->p, op, m->fast[op]);
            TRY(plan_choose(plan, i, &choice));
        }
        layer += plan->ends_layer[i];
    }
done:
    return status;
}

static weft_status plan_of_mixture(const struct mixture *m, struct plan **out)
{
    struct plan *plan = NULL;
    weft_status status;
    TRY(layout_plan(m->p, m->lean, &plan));
    for (int32_t s = 0; s < plan->stages; s++)
        TRY(paint_stage(m, plan, s));
    TRY(plan_check(plan));
    autoddl_settle(m->a, plan);
    *out = plan;
    plan = NULL;
done:
    plan_free(plan);
    return status;
}

/* ---- how many copies (1) --------------------------------------------------------------------- */

static weft_status estimate_mixture(const struct mixture *m, struct arena *scratch,
                                    struct estimate *out)
{
    struct estimator *estimator = NULL;
    struct plan *plan = NULL;
    weft_status status;
    TRY(plan_of_mixture(m, &plan));
    struct estimate_settings settings = estimate_settings_of(plan);
    settings.profile = m->a->request->profile;
    TRY(estimator_new(&settings, &estimator));
    TRY(estimate_plan(estimator, plan, scratch, out));
done:
    estimator_free(estimator);
    plan_free(plan);
    return status;
}

/* I1, with a share of the limit; *any: whether some stage has a fast copy. */
static weft_status find_most(struct mixture *m, double share, struct arena *scratch, bool *any)
{
    int32_t stages = m->p->about.stages;
    int64_t *least = ARENA_ARRAY(scratch, int64_t, (size_t)stages);
    int64_t *most = ARENA_ARRAY(scratch, int64_t, (size_t)stages);
    weft_status status = WEFT_OK;
    bool open = true;
    for (int32_t s = 0; s < stages; s++)
        most[s] = m->layers[s];
    while (open) {
        struct estimate estimate;
        for (int32_t s = 0; s < stages; s++)
            m->taken[s] = (least[s] + most[s] + 1) / 2;
        TRY(estimate_mixture(m, scratch, &estimate));
        open = false;
        for (int32_t s = 0; s < stages; s++) {
            bool fits =
                (double)estimate.stage[s].peak_bytes <= share * (double)estimate.limit_bytes;
            *(fits ? &least[s] : &most[s]) = fits ? m->taken[s] : m->taken[s] - 1;
            open |= least[s] < most[s];
        }
    }
    *any = false;
    for (int32_t s = 0; s < stages; s++) {
        m->taken[s] = least[s];
        *any |= m->taken[s] > 0;
    }
done:
    return status;
}

/* The side of a stage on which its fast copies cost less. */
static weft_status choose_side(struct mixture *m, struct arena *scratch)
{
    struct estimate estimate[2];
    weft_status status;
    for (int last = 0; last < 2; last++) {
        m->fast_last = last;
        TRY(estimate_mixture(m, scratch, &estimate[last]));
    }
    m->fast_last = estimate[1].iteration_ns < estimate[0].iteration_ns;
done:
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

weft_status autoddl_mix(struct autoddl *a, struct layout_problem *p, const int32_t *lean,
                        const int32_t *fast, int64_t *best_ns)
{
    struct arena *scratch = arena_new();
    struct mixture m = {a, p, lean, fast, .fast_last = false};
    struct plan *plan = NULL;
    double share = 1;
    weft_status status;
    TRY(layout_plan(p, lean, &plan));
    m.layers = ARENA_ARRAY(scratch, int64_t, (size_t)plan->stages);
    m.taken = ARENA_ARRAY(scratch, int64_t, (size_t)plan->stages);
    for (int32_t s = 0; s < plan->stages; s++)
        m.layers[s] = layers_of(plan, &plan->part[s]);
    for (int i = 0; i < FEW && !autoddl_over(a); i++) {
        struct trial trial = {0};
        bool any;
        TRY(find_most(&m, share, scratch, &any));
        if (!any)
            break;
        TRY(choose_side(&m, scratch));
        struct plan *mixed = NULL;
        TRY(plan_of_mixture(&m, &mixed));
        struct autoddl_answer answer = {lean, fast, m.taken, m.layers};
        TRY(autoddl_try(a, p, mixed, &answer, &trial));
        if (trial.fits) {
            *best_ns = least_of(*best_ns, trial.iteration_ns);
            break;
        }
        share *= (double)trial.room_bytes / (double)trial_reserved(&trial); /* I2 */
    }
done:
    plan_free(plan);
    arena_free(scratch);
    return status;
}
