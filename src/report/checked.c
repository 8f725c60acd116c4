/* checked.c - a plan that passed its check as JSON; docs/reference/json.md describes the fields. */
#include "report/report.h"

int used_choices(const struct plan *plan)
{
    bool seen[UINT16_MAX + 1] = {false};
    int used = 0;
    for (int64_t i = 0; i < plan->instances; i++) {
        used += !seen[plan->choice_of[i]];
        seen[plan->choice_of[i]] = true;
    }
    return used;
}

static json_t *proved_json(const struct proved *proved)
{
    if (!proved->tasks)
        return json_null();
    return json_pack("{s:i, s:i}", "tasks", proved->tasks, "devices", proved->devices);
}

static json_t *targets_json(const struct target_answers *answers)
{
    json_t *list = json_array();
    for (size_t i = 0; i < answers->len; i++) {
        const struct target_answer *a = &answers->data[i];
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:b, s:o}", "framework", a->target->framework,
                                        "release", a->target->release, "runs_it", a->breaks == NULL,
                                        "breaks", a->breaks ? json_text(a->breaks) : json_null()));
    }
    return list;
}

static json_t *asked_json(const struct asked_target *asked)
{
    json_t *breaks = json_array();
    for (size_t i = 0; i < asked->breaks.len; i++)
        json_array_append_new(breaks, json_text(asked->breaks.data[i]));
    return json_pack("{s:s, s:s, s:b, s:o}", "framework", asked->target->framework, "release",
                     asked->target->release, "runs_it", asked->breaks.len == 0, "breaks", breaks);
}

json_t *checked_json(const struct plan *plan, const struct warnings *warnings,
                     const struct proofs *proofs, const struct target_answers *answers,
                     const struct asked_target *asked)
{
    json_t *list = json_array();
    for (size_t i = 0; i < warnings->len; i++)
        json_array_append_new(list, json_text(warnings->data[i]));
    json_t *json = json_pack(
        "{s:b, s:o, s:I, s:i, s:I, s:I, s:o, s:i, s:I, s:o}", "ok", asked->breaks.len == 0, "model",
        json_text(plan->model->name), "devices", (json_int_t)cluster_devices(plan->cluster),
        "stages", plan->stages, "micro_batches", (json_int_t)plan_micro_batches(plan),
        "step_samples", (json_int_t)plan->step_samples, "schedule", json_text(plan->schedule),
        "choices", used_choices(plan), "operators", (json_int_t)plan->instances, "warnings", list);
    json_object_set_new(json, "targets", targets_json(answers));
    if (asked->target)
        json_object_set_new(json, "for", asked_json(asked));
    if (proofs)
        json_object_set_new(json, "proved",
                            json_pack("{s:o, s:o}", "folded", proved_json(&proofs->folded),
                                      "unfolded", proved_json(&proofs->unfolded)));
    return json;
}
