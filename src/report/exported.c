/* exported.c - writes a plan for a framework, and says what differs from what was asked. */
#include <math.h>

#include "report/report.h"

/* ---- predictions ----------------------------------------------------------------------------- */

static weft_status predict(const struct plan *plan, struct export_prediction *out)
{
    struct prediction *prediction;
    struct simulate_options options = {.fold = FOLD_AUTO};
    weft_status status = simulate(plan, &options, &prediction);
    if (status)
        return status;
    *out = (struct export_prediction){(double)prediction->iteration_ns / 1e9, 0, prediction->fits};
    for (int32_t s = 0; s < plan->stages; s++)
        out->needed_bytes =
            fmax(out->needed_bytes, (double)stage_needed(&prediction->stage[s].memory));
    prediction_free(prediction);
    return WEFT_OK;
}

/* Predicts both plans: the one that was asked for, and what the framework does with the file, which is the same where
 * nothing differs. */
static weft_status predict_both(struct arena *keep, const char *to, const struct plan *plan,
                                bool adopted, struct exported *out)
{
    const struct target *target;
    weft_status status = WEFT_OK;
    out->differs = adopted || out->result.differences.len;
    TRY(format_target(keep, to, &target));
    if (out->differs)
        target_run_as(target, out->result.written);
    TRY(predict(out->result.written, &out->written));
    out->plan = out->written;
    if (out->differs)
        TRY(predict(plan, &out->plan));
done:
    return status;
}

/* ---- what is the framework's own ------------------------------------------------------------- */

/* Gives the plan the framework's software and policy where nobody asked for others, and says so of a plan that was predicted
 * with others before: in `decided`. */
static weft_status adopt(struct arena *keep, const struct export_question *question,
                         struct plan *plan, struct texts *decided)
{
    const struct target *target;
    struct software before = plan->software;
    enum policy policy = plan->policy;
    weft_status status;
    TRY(format_target(keep, question->to, &target));
    if (question->degrees && !software_is_default(&question->degrees->software))
        return WEFT_OK;
    TRY(target_adopt(target, plan));
    if (question->degrees && question->degrees->has_policy)
        plan->policy = policy;
    if (question->degrees)
        return WEFT_OK;
    if (!software_same(&before, &plan->software))
        add_text(keep, decided,
                 arena_printf(keep, "it runs as software %s, and is predicted so; the plan has %s",
                              software_text(keep, &plan->software), software_text(keep, &before)));
    if (policy != plan->policy)
        add_text(keep, decided,
                 arena_printf(keep, "it keeps its state by policy %s; the plan has %s",
                              policy_name(plan->policy), policy_name(policy)));
done:
    return status;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* The plan itself, or the nearest that runs and fits, with what differs. */
static weft_status write_text(struct arena *keep, const struct plan *plan,
                              const struct export_question *question, struct export_result *result)
{
    struct plan *nearest = NULL;
    struct texts differences = {0};
    weft_status status;
    if (question->nearest)
        TRY(plan_nearest(keep, plan, question->to, &nearest, &differences));
    TRY(plan_export(keep, nearest ? nearest : plan, question->to, question->nearest, result));
    for (size_t i = 0; i < differences.len; i++)
        add_text(keep, &result->differences, differences.data[i]);
done:
    plan_free(nearest);
    return status;
}

/* Selective recomputation makes scores again that flash attention never kept: the plan is one without. */
static void note_selective(struct arena *keep, const struct plan *plan, const struct degrees *d,
                           struct export_result *result)
{
    for (int64_t i = 0; i < plan->instances; i++)
        if (plan_choice(plan, i)->recompute)
            return;
    if (d && d->has_recompute && d->recompute == RECOMPUTE_SELECTIVE)
        add_text(keep, &result->notes,
                 "--recompute selective: with flash attention there are no scores to make again, "
                 "so nothing is recomputed");
}

/* An order that was found is found again: the target's policy leaves other memory for it. */
static weft_status settle(struct arena *keep, const struct export_question *question,
                          struct plan *plan)
{
    const struct target *target;
    int64_t ns;
    weft_status status = format_target(keep, question->to, &target);
    if (status || !question->degrees)
        return status;
    target_settle(target, question->degrees, plan);
    return plan->stages > 1 && schedule_is_any(plan->schedule) ? plan_find_order(plan, NULL, &ns)
                                                               : WEFT_OK;
}

static weft_status explain(struct arena *keep, const char *to, const struct plan *plan,
                           const struct texts *differences)
{
    const struct target *target;
    weft_status status = format_target(keep, to, &target);
    return status ? status : target_refuses(plan, target, differences, NEAREST_OPTION);
}

weft_status exported_make(struct arena *keep, const struct plan *given,
                          const struct export_question *question, struct exported *out)
{
    struct plan *plan = NULL;
    struct texts decided = {0};
    weft_status status;
    *out = (struct exported){0};
    TRY(plan_copy(given, &plan));
    TRY(settle(keep, question, plan));
    TRY(adopt(keep, question, plan, &decided));
    status = write_text(keep, plan, question, &out->result);
    if (status && out->result.differences.len && !question->nearest)
        status = explain(keep, question->to, plan, &out->result.differences);
    if (status)
        goto done;
    note_selective(keep, plan, question->degrees, &out->result);
    for (size_t i = 0; i < decided.len; i++)
        add_text(keep, &out->result.decided, decided.data[i]);
    TRY(predict_both(keep, question->to, question->degrees ? plan : given, decided.len > 0, out));
done:
    plan_free(plan);
    return status;
}

void exported_close(struct exported *exported)
{
    plan_free(exported->result.written);
    exported->result.written = NULL;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *texts_json(const struct texts *texts)
{
    json_t *list = json_array();
    for (size_t i = 0; i < texts->len; i++)
        json_array_append_new(list, json_text(texts->data[i]));
    return list;
}

static json_t *one_json(const struct export_prediction *p)
{
    return json_pack("{s:f, s:o, s:b}", "iteration_s", p->iteration_s, "needed_bytes",
                     json_whole(p->needed_bytes), "fits", p->fits);
}

json_t *exported_json(const char *to, const struct exported *exported)
{
    const struct export_result *result = &exported->result;
    return json_pack("{s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "target", to, "exact",
                     (int)(result->differences.len + result->decided.len == 0), "differences",
                     texts_json(&result->differences), "decided", texts_json(&result->decided),
                     "notes", texts_json(&result->notes), "plan",
                     exported->differs ? one_json(&exported->plan) : json_null(), "written",
                     one_json(&exported->written), "simulate",
                     result->simulate ? json_text(result->simulate) : json_null(), "text",
                     json_text(result->text));
}
