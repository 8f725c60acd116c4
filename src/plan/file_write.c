/* file_write.c - writes a plan as a JSON plan file, for planners and `weft show -o`.
 *
 *   I1  The file loads back to an equal plan: the same batch, stages, parts, and for every instance
 *       the same choice (the numbers of choices may differ).
 *   I2  Each distinct choice is written once, with the runs of instances that have it (fold.c), so
 *       the file of a 1,000-layer model is as short as that of a two-layer one.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "schedule/schedule.h"

/* Text from outside may not be UTF-8, but JSON must be. */
static json_t *text_json(const char *text)
{
    json_t *json = json_string(text);
    return json ? json : json_string("?");
}

static const char *cluster_name(struct arena *scratch, const struct plan *plan)
{
    if (plan->cluster_name)
        return plan->cluster_name;
    if (plan->cluster->pools)
        return plan->cluster->name;
    return arena_printf(scratch, "%s:%lld", plan->cluster->name, (long long)plan->cluster->nodes);
}

/* ---- stages ---------------------------------------------------------------------------------- */

static json_t *until_json(const struct plan *plan, const struct part_names *names, int32_t stage)
{
    if (plan->pieces == 1)
        return text_json(names[stage].last);
    json_t *all = json_array();
    for (int32_t part = stage; part < plan->parts; part = plan_next_part(plan, part))
        json_array_append_new(all, text_json(names[part].last));
    return all;
}

static json_t *stages_json(struct arena *scratch, const struct plan *plan)
{
    json_t *stages = json_array();
    const struct part_names *names = plan_part_names(scratch, plan);
    for (int32_t i = 0; i < plan->stages; i++)
        json_array_append_new(stages, json_pack("{s:o, s:I}", "until", until_json(plan, names, i),
                                                "devices", (json_int_t)plan->stage[i].devices));
    return stages;
}

/* ---- choices --------------------------------------------------------------------------------- */

/* Only what is not the default is written. */
static json_t *choice_json(struct arena *scratch, const struct choice *choice)
{
    struct split inside = split_inside(&choice->split);
    json_t *json = json_pack("{s:s}", "split", split_text(scratch, &inside));
    if (split_is_subset(&choice->split))
        json_object_set_new(json, "devices",
                            json_string(run_text(scratch, split_run(&choice->split))));
    if (choice->own_back)
        json_object_set_new(json, "backward", json_string(split_text(scratch, &choice->back)));
    if (choice->recompute)
        json_object_set_new(json, "recompute",
                            choice->saved || choice->discard
                                ? json_string(choice_recompute_text(choice))
                                : json_true());
    if (choice->shard)
        json_object_set_new(json, "shard", json_integer(choice->shard));
    if (choice->offload)
        json_object_set_new(json, "offload",
                            choice->offload == OFFLOAD_KEPT
                                ? json_string(choice_offload_text(choice))
                                : json_true());
    if (choice->parts)
        json_object_set_new(json, "memory", json_string("parts"));
    return json;
}

static json_t *choices_json(struct arena *scratch, const struct plan *plan)
{
    struct plan_runs runs = {0};
    plan_fold(scratch, plan, &runs);
    json_t *choices = json_array();
    json_t **of_choice = ARENA_ARRAY(scratch, json_t *, (size_t)plan->choices);
    for (size_t i = 0; i < runs.len; i++) {
        json_t **at = &of_choice[runs.data[i].choice];
        if (!*at) {
            json_t *choice = choice_json(scratch, &plan->choice[runs.data[i].choice]);
            *at = json_array();
            json_object_set_new(choice, "at", *at);
            json_array_append_new(choices, choice);
        }
        json_array_append_new(*at, text_json(runs.data[i].path));
    }
    return choices;
}

/* A single word if there is one for all of it, else a list of words. */
static json_t *overlap_json(unsigned overlap)
{
    const char *word = overlap_name(overlap);
    if (word)
        return json_string(word);
    json_t *words = json_array();
    while ((word = overlap_take(&overlap)) != NULL)
        json_array_append_new(words, json_string(word));
    return words;
}

/* ---- the file -------------------------------------------------------------------------------- */

static json_t *defer_json(int64_t count)
{
    return count == DEFER_ALL ? json_string("all") : json_integer((json_int_t)count);
}

static void order_json(struct arena *scratch, const struct plan *plan, json_t *json)
{
    const struct slot_lists *lists = plan->listed->lists;
    json_t *order = json_array();
    for (int32_t s = 0; s < lists->pipeline.stages; s++)
        json_array_append_new(order,
                              text_json(slots_text(scratch, &lists->stage[s], &lists->pipeline)));
    json_object_set_new(json, "placement", json_string(SCHEDULE_PLACEMENTS[plan->zigzag]));
    json_object_set_new(json, "order", order);
    if (!lists->pipeline.joins)
        return;
    json_t *joins = json_array();
    for (int32_t s = 0; s < lists->pipeline.stages; s++)
        json_array_append_new(joins, json_integer(lists->pipeline.joins[s]));
    json_object_set_new(json, "joins", joins);
}

static json_t *plan_json(struct arena *scratch, const struct plan *plan)
{
    json_t *json = json_object();
    const char *model = plan->model_name ? plan->model_name : plan->model->name;
    json_object_set_new(json, "model", text_json(model));
    if (plan->model_options)
        json_object_set_new(json, "options", text_json(plan->model_options));
    json_object_set_new(json, "cluster", text_json(cluster_name(scratch, plan)));
    json_object_set_new(json, "batch",
                        json_pack("{s:I, s:I}", "global", (json_int_t)plan->global_batch, "step",
                                  (json_int_t)plan->step_samples));
    json_object_set_new(json, "dtype", json_string(dtype_name(plan->dtype)));
    json_object_set_new(json, "policy", json_string(policy_name(plan->policy)));
    if (plan->memory.limit_bytes)
        json_object_set_new(json, "memory", json_integer((json_int_t)plan->memory.limit_bytes));
    if (plan->memory.has_margin)
        json_object_set_new(json, "margin", json_real(plan->memory.margin_percent));
    json_object_set_new(json, "overlap", overlap_json(plan->overlap));
    if (plan->bucket_bytes != BUCKET_BY_RULE)
        json_object_set_new(json, "bucket", json_integer((json_int_t)plan->bucket_bytes));
    if (plan->optimizer != UPDATE_ADAMW)
        json_object_set_new(json, "optimizer", json_string(optimizer_name(plan->optimizer)));
    if (plan->replicate > 1)
        json_object_set_new(json, "replicate", json_integer((json_int_t)plan->replicate));
    if (plan->optimizer_offload > 0)
        json_object_set_new(json, "optimizer_offload", json_real(plan->optimizer_offload));
    if (plan->stage_run)
        json_object_set_new(json, "stage_run", json_integer((json_int_t)plan->stage_run));
    if (!software_is_default(&plan->software))
        json_object_set_new(json, "software", text_json(software_text(scratch, &plan->software)));
    if (plan->whole_sends)
        json_object_set_new(json, "whole_sends", json_true());
    json_object_set_new(json, "schedule", text_json(plan->schedule));
    json_object_set_new(json, "pieces", json_integer((json_int_t)plan->pieces));
    if (plan->group)
        json_object_set_new(json, "group", json_integer((json_int_t)plan->group));
    if (plan->defer_head)
        json_object_set_new(json, "defer_head", defer_json(plan->defer_head));
    if (plan_own_order(plan))
        order_json(scratch, plan, json);
    json_object_set_new(json, "stages", stages_json(scratch, plan));
    json_object_set_new(json, "choices", choices_json(scratch, plan));
    return json;
}

const char *plan_write(struct arena *keep, const struct plan *plan)
{
    struct arena *scratch = arena_new();
    json_t *json = plan_json(scratch, plan);
    char *dump = json_dumps(json, JSON_INDENT(2));
    struct hold hold;
    json_decref(json);
    hold_push(&hold, free, dump);
    const char *text = arena_printf(keep, "%s\n", dump ? dump : "{}");
    hold_pop(&hold);
    free(dump);
    arena_free(scratch);
    return text;
}
