/* put_pins.c - pins that a planner's search does not know, put onto the plans that it finds.
 *
 *   I1  A planner's row says which pins these are (puts). Its search is asked without them: where they are about
 *       recomputation, once with nothing recomputed and once with whole layers, so that there are plans with room for
 *       little and plans that need much.
 *   I2  The best plans found get what is pinned, operator by operator as plans of degrees have it (lower_degrees), and
 *       are simulated. Only these are trials: nothing that misses a pin is an answer.
 *   I3  Of a head that waits (plan/defer.c), a planner that found none that can is asked again under the plain schedule.
 */
#include "search/planner/planner.h"

/* How many plans of a search are simulated with the pins (I2). */
enum { MOST_PUT = 12 };

static bool pins_first_layers(const struct degrees *pins)
{
    return pins->recompute_layers > 0;
}

static bool is_selective(const struct degrees *pins)
{
    return pins->has_recompute && pins->recompute == RECOMPUTE_SELECTIVE;
}

static bool pins_scores(const struct degrees *pins)
{
    return is_selective(pins) && !pins->modules;
}

static bool pins_modules(const struct degrees *pins)
{
    return is_selective(pins) && pins->modules;
}

static bool pins_checkpoints(const struct degrees *pins)
{
    return pins->offload;
}

static bool pins_kept(const struct degrees *pins)
{
    return pins->offload_modules;
}

static bool pins_head(const struct degrees *pins)
{
    return pins->defer_head;
}

static const struct {
    bool (*pinned)(const struct degrees *pins);
    bool recomputes; /* it is about recomputation */
} PINS[] = {
    [PUT_FIRST_LAYERS] = {pins_first_layers, true},
    [PUT_SCORES] = {pins_scores, true},
    [PUT_MODULES] = {pins_modules, true},
    [PUT_CHECKPOINTS] = {pins_checkpoints, false},
    [PUT_KEPT] = {pins_kept, false},
    [PUT_HEAD] = {pins_head, false},
};
_Static_assert(COUNT_OF(PINS) == PUT_COUNT, "a pin without a row");

/* ---- asking without them (I1) ----------------------------------------------------------------- */

struct put {
    bool any, recomputes;
};

static struct put to_put(const struct planner *planner, const struct degrees *pins)
{
    struct put put = {0};
    for (int i = 0; i < PUT_COUNT; i++)
        if (planner->puts >> i & 1 && PINS[i].pinned(pins)) {
            put.any = true;
            put.recomputes |= PINS[i].recomputes;
        }
    return put;
}

static struct plan_request without(const struct plan_request *request, struct put put,
                                   enum recompute recompute)
{
    struct plan_request own = *request;
    own.pins.offload = false;
    own.pins.offload_modules = 0;
    own.pins.defer_head = 0;
    if (!put.recomputes)
        return own;
    own.pins.recompute = recompute;
    own.pins.recompute_layers = 0;
    own.pins.modules = 0;
    if (own.options.budget_ns)
        own.options.budget_ns = (own.options.budget_ns + 1) / 2;
    return own;
}

/* ---- putting them on (I2) --------------------------------------------------------------------- */

/* Per operator, what is recomputed and offloaded. */
static weft_status pinned_choices(const struct plan_request *request, struct arena *scratch,
                                  struct choice **out)
{
    const struct degrees *pins = &request->pins;
    struct degrees one = {.dp = 1, .tp = 1, .pp = 1, .cp = 1, .ep = 1, .pieces = 1, .segments = 1};
    one.micro_batch = one.global_batch = 1;
    one.recompute = pins->recompute;
    one.modules = pins->modules;
    one.offload = pins->offload;
    one.offload_modules = pins->offload_modules;
    return lower_degrees(request->model, &one, scratch, out);
}

static weft_status put_on(const struct degrees *pins, struct put put, const struct choice *pinned,
                          struct plan *plan)
{
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < plan->instances; i++) {
        const struct choice *from = &pinned[plan->instance[i].op];
        struct choice choice = *plan_choice(plan, i);
        choice.offload = from->offload;
        if (put.recomputes) {
            choice.recompute = from->recompute;
            choice.saved = from->saved;
            choice.discard = from->discard;
        }
        TRY(plan_choose(plan, i, &choice));
    }
    if (put.recomputes && pins->recompute_layers)
        TRY(plan_recompute_first(plan, pins->recompute_layers));
done:
    return status;
}

static weft_status try_with(const struct plan_request *request, struct put put,
                            const struct choice *pinned, struct trial *trial, struct cost *cost,
                            struct planned *out)
{
    struct plan *plan = NULL;
    const struct trial *made;
    weft_status status;
    TRY(trial_take(request, trial, &plan));
    trial->plan = NULL;
    TRY(put_on(&request->pins, put, pinned, plan));
    if (plan_defer_head(plan, request->pins.defer_head) || plan_check(plan))
        goto done; /* none_takes_them */
    struct plan *own = plan;
    plan = NULL;
    TRY(try_plan(request, cost, own, mix_text(out->arena, own), out, &made));
done:
    plan_free(plan);
    return status;
}

static weft_status try_all(const struct plan_request *request, struct put put,
                           struct planned *found, struct planned *out)
{
    struct arena *scratch = arena_new();
    struct cost *cost = NULL;
    struct choice *pinned;
    weft_status status;
    TRY(pinned_choices(request, scratch, &pinned));
    TRY(cost_open_all(request->cluster, request->profile, &cost));
    trials_sort(found);
    for (size_t i = 0; i < found->trials.len && i < MOST_PUT; i++)
        TRY(try_with(request, put, pinned, &found->trials.data[i], cost, out));
done:
    for (size_t i = 0; i < found->trials.len; i++)
        plan_free(found->trials.data[i].plan);
    cost_close(cost);
    arena_free(scratch);
    return status;
}

/* ---- the whole --------------------------------------------------------------------------------- */

static weft_status ask_without(const struct planner *planner, const struct plan_request *request,
                               struct put put, enum recompute recompute, struct planned *out)
{
    struct plan_request own = without(request, put, recompute);
    struct planned found = {.arena = out->arena, .planner = out->planner};
    weft_status status = planner->find(&own, &found);
    if (status == WEFT_NO_ANSWER && found.trials.len) {
        error_clear();
        status = WEFT_OK;
    }
    weft_status tried = try_all(request, put, &found, out);
    out->candidates += found.candidates;
    out->stopped |= found.stopped || plan_stopped(request);
    return status ? status : tried;
}

/* The reason is that of the plan that was tried last. */
static weft_status none_takes_them(const struct planner *planner, struct arena *keep)
{
    const char *why = arena_copy_text(keep, weft_last_error() ? weft_last_error()->message : "");
    return no_answer("--planner auto searches plans that have it",
                     "no plan that the planner '%s' found can have what is asked for%s%s",
                     planner->name, *why ? ": " : "", why);
}

/* I3 */
static weft_status ask_plain(const struct planner *planner, const struct plan_request *request,
                             struct planned *out)
{
    struct plan_request plain = *request;
    if (!pins_head(&request->pins) || request->pins.schedule)
        return none_takes_them(planner, out->arena);
    plain.pins.schedule = schedule_default(request->pins.pieces, request->pins.segments)->name;
    return planner_ask(planner, &plain, out);
}

weft_status planner_ask(const struct planner *planner, const struct plan_request *request,
                        struct planned *out)
{
    static const enum recompute WAYS[] = {RECOMPUTE_NONE, RECOMPUTE_FULL};
    struct put put = to_put(planner, &request->pins);
    weft_status status = WEFT_OK;
    if (!put.any)
        return planner->find(request, out);
    for (size_t i = 0; i < (put.recomputes ? COUNT_OF(WAYS) : 1); i++) {
        status = ask_without(planner, request, put, WAYS[i], out);
        if (status && status != WEFT_NO_ANSWER)
            return status;
    }
    if (!out->trials.len)
        return status ? status : ask_plain(planner, request, out);
    error_clear();
    return WEFT_OK;
}
