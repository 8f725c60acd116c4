/* export_aceso.c - a plan as the JSON that Aceso's search writes and its runtime reads (import_aceso.c has the source): for every
 * operator of Aceso's own walk (aceso_plan.h) its degrees, its split and whether it is recomputed.
 *
 *   tp of an operator = devices of its stage / degree of its batch                                     (1)
 *
 *   I1  Degrees are those of a plan that was recognised: every operator takes the first of its two splits, and a stage
 *       reshards nothing within itself.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "exchange/room.h"

/* The lists of all stages that have an entry for each operator. */
struct operator_lists {
    json_t *tp, *dp, *recompute, *algo;
};

static int64_t data_degree(const struct plan *plan, int64_t instance)
{
    return split_degree(&plan_choice(plan, instance)->split, DIM_BATCH);
}

/* Adds a stage's lists; how many operators it has, and whether it recomputes any. */
static int64_t add_stage(const struct plan *plan, int32_t stage, const int32_t *walk,
                         struct operator_lists *all, bool *again)
{
    const struct part *part = &plan->part[stage];
    struct operator_lists own = {json_array(), json_array(), json_array(), json_array()};
    int64_t count = 0;
    for (int64_t i = part->first; i < part->first + part->count; i++) {
        if (i > part->first && walk[i] == walk[i - 1])
            continue;
        int64_t dp = data_degree(plan, i);
        bool recompute = plan_choice(plan, i)->recompute;
        json_array_append_new(own.tp, json_integer(plan->stage[stage].devices / dp)); /* (1) */
        json_array_append_new(own.dp, json_integer(dp));
        json_array_append_new(own.recompute, json_integer(recompute));
        json_array_append_new(own.algo, json_integer(0)); /* I1 */
        *again |= recompute;
        count++;
    }
    json_array_append_new(all->tp, own.tp);
    json_array_append_new(all->dp, own.dp);
    json_array_append_new(all->recompute, own.recompute);
    json_array_append_new(all->algo, own.algo);
    return count;
}

static json_t *model_json(const struct model *model, const struct model_shape *shape)
{
    const struct aceso_table *table = aceso_table_of(model->name);
    const char *size = table ? strchr(table->name, '_') + 1 : "weft";
    return json_pack(
        "{s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "model_name", "gpt", "model_size", size,
        "num_layers", (json_int_t)shape->layers, "seq_length", (json_int_t)shape->seq,
        "max_position_embeddings", (json_int_t)(shape->positions ? shape->positions : shape->seq),
        "num_attention_heads", (json_int_t)shape->heads, "hidden_size", (json_int_t)shape->hidden);
}

static void add_stages(json_t *json, struct arena *keep, const struct plan *plan)
{
    struct operator_lists all = {json_array(), json_array(), json_array(), json_array()};
    json_t *devices = json_array(), *again = json_array(), *reshards = json_array(),
           *counts = json_array();
    int32_t operators;
    const int32_t *walk = aceso_walk(keep, plan, &operators);
    for (int32_t s = 0; s < plan->stages; s++) {
        bool recomputes = false;
        json_array_append_new(counts, json_integer(add_stage(plan, s, walk, &all, &recomputes)));
        json_array_append_new(devices, json_integer(plan->stage[s].devices));
        json_array_append_new(again, json_boolean(recomputes));
        json_array_append_new(reshards, json_false()); /* I1 */
    }
    json_object_set_new(json, "num_gpus", devices);
    json_object_set_new(json, "checkpoint_activations", again);
    json_object_set_new(json, "resharding_stages", reshards);
    json_object_set_new(json, "num_ops_in_each_stage", counts);
    json_object_set_new(json, "model_parallel_size_of_each_op", all.tp);
    json_object_set_new(json, "data_parallel_size_of_each_op", all.dp);
    json_object_set_new(json, "recompute_ops", all.recompute);
    json_object_set_new(json, "algo_of_each_op", all.algo);
}

weft_status write_aceso(struct export_job *job)
{
    const struct plan *plan = job->found.plan;
    struct model_shape shape;
    weft_status status;
    TRY(shape_of_model(plan->model, &shape));
    json_t *json = model_json(plan->model, &shape);
    json_object_set_new(json, "global_batch_size", json_integer(plan->global_batch));
    json_object_set_new(json, "micro_batch_size", json_integer(plan->step_samples));
    json_object_set_new(json, "num_stages", json_integer(plan->stages));
    add_stages(json, job->keep, plan);
    job_line(job, "aceso");
    char *text = json_dumps(json, JSON_INDENT(4));
    job->out->text = arena_printf(job->keep, "%s\n", text);
    free(text);
    json_decref(json);
done:
    return status;
}
