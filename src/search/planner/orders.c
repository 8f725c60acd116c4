/* orders.c - orders of slots in a search: found for the best plans, or given as a file.
 *
 * A planner searches with the schedules of the table. Afterwards each of its best plans that has several stages is tried with
 * an order of its own (`--schedule any`), found from its own times and memory (found_order.c), or with the order that was
 * given, if it is of the plan's shape.
 *
 *   I1  With `any`, plans with a schedule of the table stay in the answer: what was found is taken only if it is better when
 *       simulated. With a file, only plans with its order stay.
 *   I2  Where pieces may lie in a zigzag, that placement is tried, too.
 *   I3  If what was found does not fit when simulated, it is found again with less memory.
 */
#include <string.h>

#include "schedule/schedule.h"
#include "search/planner/planner.h"

enum { MOST_TRIED = 6, MOST_TURNS = 5 };

/* ---- one plan -------------------------------------------------------------------------------- */

/* Room that is left when memory did not suffice: what the allocator keeps differs from order to order. */
static const double LESS = 0.01;

static weft_status predict(const struct plan *plan, struct cost *cost, bool *fits, double *share,
                           int64_t *ns)
{
    struct simulate_options options = {.fold = FOLD_ALWAYS, .cost = cost};
    struct prediction *prediction = NULL;
    weft_status status;
    TRY(simulate(plan, &options, &prediction));
    *fits = prediction->fits;
    *ns = prediction->iteration_ns;
    *share = 1;
    for (int32_t s = 0; s < plan->stages; s++) {
        const struct stage_peak *peak = &prediction->stage[s].memory;
        double own = (double)peak->limit / (double)stage_needed(peak);
        *share = own < *share ? own : *share;
    }
done:
    prediction_free(prediction);
    return status;
}

/* I3 */
weft_status plan_find_order(struct plan *plan, const char *profile, int64_t *ns)
{
    struct arena *scratch = arena_new();
    struct estimate_settings settings = estimate_settings_of(plan);
    struct estimator *estimator = NULL;
    struct cost *cost = NULL;
    double fill = 1, share;
    bool fits = false;
    weft_status status;
    settings.profile = profile;
    TRY(cost_open_all(plan->cluster, profile, &cost));
    TRY(estimator_new(&settings, &estimator));
    for (int turn = 0; turn < MOST_TURNS && !fits; turn++) {
        struct order_answer answer = {0};
        TRY(estimate_order(estimator, plan, fill, scratch, &answer));
        plan_order_by(plan, answer.schedule);
        TRY(plan_check(plan));
        TRY(predict(plan, cost, &fits, &share, ns));
        fill *= share - LESS;
    }
done:
    estimator_free(estimator);
    cost_close(cost);
    arena_free(scratch);
    return status;
}

/* A schedule of the table that any pipeline with this placement can have. */
static const char *placed_schedule(int64_t pieces, bool zigzag)
{
    return zigzag ? "hanayo" : schedule_default(1, pieces)->name;
}

/* A plan with the order found for one placement. */
static weft_status place(const struct model *model, const struct cluster *cluster,
                         const struct degrees *degrees, bool zigzag, const char *profile,
                         struct plan **out, int64_t *ns)
{
    struct degrees d = *degrees;
    weft_status status;
    d.segments = 1;
    d.schedule = placed_schedule(d.pieces, zigzag);
    TRY(plan_from_degrees(model, cluster, &d, out));
    status = plan_find_order(*out, profile, ns);
    if (status) {
        plan_free(*out);
        *out = NULL;
    }
done:
    return status;
}

weft_status plan_with_found_order(const struct model *model, const struct cluster *cluster,
                                  const struct degrees *degrees, const char *profile,
                                  struct plan **out)
{
    struct degrees d = *degrees;
    struct plan *other = NULL;
    int64_t ns = 0, other_ns = 0;
    d.schedule = NULL;
    d.listed = NULL;
    if (d.segments > 1 && d.pieces <= 1)
        d.pieces = d.segments;
    d.segments = 0;
    *out = NULL;
    if (d.pp <= 1)
        return plan_from_degrees(model, cluster, &d, out);
    weft_status status = place(model, cluster, &d, false, profile, out, &ns);
    if (d.pieces < 2 || d.pieces % 2 || (status && status != WEFT_NO_ANSWER))
        return status;
    weft_status second = place(model, cluster, &d, true, profile, &other, &other_ns); /* I2 */
    if (!second && (status || other_ns < ns)) {
        struct plan *worse = *out;
        *out = other;
        other = worse;
        error_clear();
        status = WEFT_OK;
    }
    plan_free(other);
    return status;
}

/* ---- a search -------------------------------------------------------------------------------- */

static weft_status refuse_target(const struct plan_request *request)
{
    const struct target *target = request->target;
    return target && target->can.schedules && !target->can.orders
               ? bad_argument("leave the schedule open, or search for torchtitan or weft",
                              "%s takes no order of its own", target->title)
               : WEFT_OK;
}

/* What a planner is asked instead of the file's order. */
static void pin_shape(const struct schedule *order, struct degrees *pins)
{
    const struct pipeline *p = &order->lists->pipeline;
    bool groups = p->micro_batches >= p->stages; /* as interleaved asks for */
    pins->pp = p->stages;
    pins->pieces = p->pieces;
    pins->schedule = groups && !order->zigzag ? schedule_default(p->pieces, 1)->name
                                              : placed_schedule(p->pieces, order->zigzag);
}

weft_status ask_for_orders(struct plan_request *request, struct arena *keep)
{
    const char *name = request->pins.schedule;
    struct schedule *listed = NULL;
    weft_status status = WEFT_OK;
    if (!name || (!schedule_is_any(name) && !schedule_is_file(name)))
        return WEFT_OK;
    request->orders = true;
    request->pins.schedule = NULL;
    TRY(refuse_target(request));
    if (schedule_is_file(name)) {
        TRY(schedule_load(keep, name, &listed));
        if (listed->lists->pipeline.joins)
            return bad_argument("'weft simulate' and 'weft compare' take such orders",
                                "%s has stages that take several micro-batches at once, which "
                                "planners do not search",
                                name);
        request->order = listed;
        pin_shape(listed, &request->pins);
    }
done:
    return status;
}

static weft_status open_trial(const struct plan_request *request, const struct trial *trial,
                              struct plan **out)
{
    return trial->plan ? plan_copy(trial->plan, out)
                       : plan_from_degrees(request->model, request->cluster, &trial->degrees, out);
}

static bool is_of_shape(const struct plan *plan, const struct schedule *order)
{
    const struct pipeline *p = &order->lists->pipeline;
    return plan->stages == p->stages && plan->pieces == p->pieces &&
           plan_micro_batches(plan) == p->micro_batches && plan->zigzag == order->zigzag;
}

/* Gives a plan its order, found or given; false: there is none. */
static weft_status order_plan(const struct plan_request *request, struct plan *plan, bool *has)
{
    int64_t ns;
    weft_status status = WEFT_OK;
    *has = !request->order || is_of_shape(plan, request->order);
    if (*has && request->order)
        plan_order_by(plan, request->order);
    else if (*has)
        status = plan_find_order(plan, request->profile, &ns);
    if (status == WEFT_NO_ANSWER) {
        error_clear();
        *has = false;
        status = WEFT_OK;
    }
    return status;
}

static weft_status try_order(const struct plan_request *request, struct cost *cost,
                             const struct trial *begun, struct planned *planned)
{
    const struct trial *trial;
    struct plan *plan = NULL;
    bool has;
    weft_status status;
    TRY(open_trial(request, begun, &plan));
    TRY(order_plan(request, plan, &has));
    if (!has)
        goto done;
    TRY(plan_check(plan));
    struct plan *own = plan;
    plan = NULL; /* the answer has it from here on */
    TRY(try_plan(request, cost, own, mix_text(planned->arena, own), planned, &trial));
done:
    plan_free(plan);
    return status;
}

/* I1, of a file. */
static weft_status keep_ordered(const struct plan_request *request, size_t before,
                                struct planned *planned)
{
    for (size_t i = 0; i < before; i++)
        plan_free(planned->trials.data[i].plan);
    planned->trials.len -= before;
    memmove(planned->trials.data, &planned->trials.data[before],
            planned->trials.len * sizeof *planned->trials.data);
    const struct pipeline *p = &request->order->lists->pipeline;
    return planned->trials.len
               ? WEFT_OK
               : no_answer("give a global batch that is a multiple of them, and leave degrees open",
                           "no plan that was tried has the order's %s on %s",
                           counted(p->micro_batches, "micro-batch").s,
                           counted(p->stages, "stage").s);
}

/* Whether an earlier trial has the same degrees, in another order. */
static bool was_tried(const struct planned *planned, size_t at)
{
    const struct trial *trial = planned->trials.data;
    for (size_t i = 0; i < at; i++)
        if (memcmp(trial[i].value, trial[at].value, sizeof trial->value) == 0)
            return true;
    return false;
}

int64_t next_replicas(const struct plan_request *request, int64_t dp)
{
    const struct pipeline *p = &request->order->lists->pipeline;
    int64_t samples = request->pins.global_batch / p->micro_batches;
    int64_t devices = cluster_devices(request->cluster) / p->stages;
    if (request->pins.global_batch % p->micro_batches)
        return 0;
    for (dp++; dp <= devices && dp <= samples; dp++)
        if (devices % dp == 0 && samples % dp == 0 &&
            (!request->pins.dp || request->pins.dp == dp) &&
            (!request->pins.micro_batch || request->pins.micro_batch == samples / dp))
            return dp;
    return 0;
}

weft_status add_orders(const struct plan_request *request, struct planned *planned)
{
    struct cost *cost = NULL;
    size_t before = planned->trials.len;
    int tried = 0;
    weft_status status = WEFT_OK;
    if (!request->orders)
        return WEFT_OK;
    TRY(cost_open_all(request->cluster, request->profile, &cost));
    for (size_t i = 0; i < before && tried < MOST_TRIED; i++) {
        struct trial begun = planned->trials.data[i]; /* the array grows */
        bool whole = !request->order && was_tried(planned, i);
        if (begun.value[DIMENSION_PP] < 2 || whole || plan_stopped(request))
            continue;
        size_t len = planned->trials.len;
        TRY(try_order(request, cost, &begun, planned));
        tried += planned->trials.len > len;
    }
    if (request->order)
        TRY(keep_ordered(request, before, planned));
done:
    cost_close(cost);
    return status;
}
