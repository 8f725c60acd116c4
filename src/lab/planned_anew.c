/* planned_anew.c - plans published runs again (planned_anew.h). */
#include "lab/planned_anew.h"

#include <string.h>

/* The share by which folded and unfolded simulations of one plan may differ. */
static const double ROUNDING = 1e-3;

/* ---- the question ---------------------------------------------------------------------------- */

static struct degrees pins_of(const struct published *row)
{
    struct degrees pins = row->degrees;
    pins.dp = pins.tp = pins.pp = pins.cp = pins.cp_heads = pins.ep = pins.etp = 0;
    pins.pieces = pins.segments = pins.micro_batch = 0;
    pins.sequence = pins.offload = false;
    pins.schedule = NULL;
    pins.shard = 0;
    pins.recompute = RECOMPUTE_NONE;
    pins.has_shard = pins.has_recompute = false;
    return pins;
}

/* ---- what changed ---------------------------------------------------------------------------- */

/* The properties by which plans are distinguished. */
struct traits {
    const char *value[DIMENSION_COUNT];
    int64_t cp, ep;
    const char *schedule;
    bool alike, sequence, offload; /* alike: the last two, cp and ep are known */
};

static int64_t at_least_1(int64_t value)
{
    return value ? value : 1;
}

static struct traits traits_of_row(struct arena *keep, const struct published *row,
                                   const struct plan *plan)
{
    const struct degrees *d = &row->degrees;
    struct traits traits = {.cp = at_least_1(d->cp),
                            .ep = at_least_1(d->ep),
                            .schedule = plan->schedule,
                            .alike = true,
                            .sequence = d->sequence,
                            .offload = d->offload};
    int64_t tp = at_least_1(d->tp),
            dp = cluster_devices(plan->cluster) / (tp * traits.cp * plan->stages);
    struct trial trial = {.value = {[DIMENSION_DP] = dp,
                                    [DIMENSION_TP] = tp,
                                    [DIMENSION_PP] = plan->stages,
                                    [DIMENSION_PIECES] = plan->pieces,
                                    [DIMENSION_MICRO_BATCH] = plan->step_samples / dp,
                                    [DIMENSION_SHARD] = d->shard,
                                    [DIMENSION_RECOMPUTE] = recompute_value(d)}};
    for (int i = 0; i < DIMENSION_COUNT; i++)
        traits.value[i] = trial_value_text(keep, &trial, (enum dimension)i);
    if (row->keeps_products)
        traits.value[DIMENSION_RECOMPUTE] = "but products";
    return traits;
}

static struct traits traits_of_trial(struct arena *keep, const struct trial *trial,
                                     const struct plan *plan, bool of_degrees)
{
    const struct degrees *d = &trial->degrees;
    struct traits traits = {.cp = at_least_1(d->cp),
                            .ep = at_least_1(d->ep),
                            .schedule = plan->schedule,
                            .alike = of_degrees,
                            .sequence = d->sequence,
                            .offload = d->offload};
    for (int i = 0; i < DIMENSION_COUNT; i++)
        traits.value[i] = trial_value_text(keep, trial, (enum dimension)i);
    return traits;
}

static void add_change(struct arena *keep, const char **text, const char *name, const char *from,
                       const char *to)
{
    if (strcmp(from, to) != 0)
        *text = arena_printf(keep, "%s%s%s %s→%s", *text, **text ? ", " : "", name, from, to);
}

static const char *number_text(struct arena *keep, int64_t value)
{
    return arena_printf(keep, "%lld", (long long)value);
}

static const char *changes_of(struct arena *keep, const struct traits *from,
                              const struct traits *to)
{
    const char *text = "";
    for (int i = 0; i < DIMENSION_COUNT; i++)
        add_change(keep, &text, dimension_name((enum dimension)i), from->value[i], to->value[i]);
    add_change(keep, &text, "schedule", from->schedule, to->schedule);
    if (!to->alike)
        return text;
    add_change(keep, &text, "cp", number_text(keep, from->cp), number_text(keep, to->cp));
    add_change(keep, &text, "ep", number_text(keep, from->ep), number_text(keep, to->ep));
    if (strcmp(to->value[DIMENSION_TP], "1") != 0)
        add_change(keep, &text, "sp", from->sequence ? "on" : "off", to->sequence ? "on" : "off");
    add_change(keep, &text, "offload", from->offload ? "on" : "off", to->offload ? "on" : "off");
    return text;
}

/* ---- the answer ------------------------------------------------------------------------------ */

static int64_t fullest_bytes(const struct prediction *prediction)
{
    int64_t most = 0;
    for (int32_t s = 0; s < prediction->plan->stages; s++)
        if (prediction->stage[s].memory.peak > most)
            most = prediction->stage[s].memory.peak;
    return most;
}

static weft_status take_answer(struct arena *keep, const struct published *row,
                               const struct plan_request *request, const struct plan *published,
                               struct planned *planned, struct replanned *out)
{
    struct trial *best = &planned->trials.data[0];
    struct simulate_options options = {.fold = FOLD_AUTO};
    struct traits to, from = traits_of_row(keep, row, published);
    struct prediction *prediction = NULL;
    struct plan *plan = NULL;
    weft_status status;
    bool of_degrees = best->plan == NULL;
    TRY(trial_take(request, best, &plan));
    TRY(simulate(plan, &options, &prediction));
    to = traits_of_trial(keep, best, plan, of_degrees);
    *out = (struct replanned){.row = row,
                              .iteration_s = (double)prediction->iteration_ns * 1e-9,
                              .peak_bytes = fullest_bytes(prediction),
                              .fits = prediction->fits,
                              .text = arena_copy_text(keep, best->text),
                              .found_by = arena_copy_text(keep, best->found_by),
                              .changes = changes_of(keep, &from, &to),
                              .search_s = planned->search_s};
done:
    prediction_free(prediction);
    plan_free(plan);
    return status;
}

weft_status published_replan(struct arena *keep, struct published *row, struct replanned_list *out)
{
    struct opened_plan opened;
    struct planned *planned = NULL;
    struct replanned replanned;
    weft_status status;
    TRY(published_plan(keep, row, &opened));
    struct plan_request request = {
        .model = opened.model, .cluster = opened.cluster, .pins = pins_of(row)};
    request.pins.global_batch = opened.plan->global_batch;
    request.options.quick = true;
    TRY(plan_search(planner_default(), &request, &planned)); /* I1 */
    TRY(take_answer(keep, row, &request, opened.plan, planned, &replanned));
    array_push(keep, out, replanned);
done:
    planned_free(planned);
    plan_close(&opened);
    return status;
}

double replanned_gain(const struct replanned *replanned)
{
    return replanned->row->predicted.time_s / replanned->iteration_s;
}

bool replanned_lost(const struct replanned *replanned)
{
    return replanned->row->predicted.fits &&
           (!replanned->fits || replanned_gain(replanned) < 1 - ROUNDING);
}
