/* layers.c - the layers of a plan: which layer an instance belongs to, and how many a part holds.
 *
 * Layers after the first loss predict more tokens, and frameworks count them apart.
 */
#include "target/target.h"

int64_t *layers_of_instances(struct arena *keep, const struct plan *plan, int64_t *layers)
{
    int64_t *layer = ARENA_ARRAY(keep, int64_t, (size_t)plan->instances), count = 0;
    for (int64_t i = 0; i < plan->instances; i++) {
        bool inside = op_in_layer(plan->model, &plan->model->op[plan->instance[i].op]);
        layer[i] = inside ? count : -1;
        count += plan->ends_layer[i];
    }
    *layers = count;
    return layer;
}

static int64_t first_loss(const struct plan *plan)
{
    int64_t i = 0;
    while (i < plan->instances && plan->model->op[plan->instance[i].op].kind != OP_LOSS)
        i++;
    return i;
}

/* An encoder of images has layers of its own, which no framework counts. */
static bool ends_layer(const struct plan *plan, int64_t i)
{
    return plan->ends_layer[i] && plan->model->op[plan->instance[i].op].place != PLACE_TOWER;
}

/* Per part: how many layers end in it, of the instances before `end`. */
static int64_t *layers_before(struct arena *keep, const struct plan *plan, int64_t end)
{
    int64_t *layers = ARENA_ARRAY(keep, int64_t, (size_t)plan->parts);
    for (int32_t p = 0; p < plan->parts; p++) {
        int64_t first = plan->part[p].first;
        for (int64_t i = first; i < first + plan->part[p].count && i < end; i++)
            layers[p] += ends_layer(plan, i);
    }
    return layers;
}

int64_t *layers_of_parts(struct arena *keep, const struct plan *plan)
{
    return layers_before(keep, plan, plan->instances);
}

int64_t *layers_before_loss(struct arena *keep, const struct plan *plan)
{
    return layers_before(keep, plan, first_loss(plan));
}

int64_t layers_after_loss(const struct plan *plan)
{
    int64_t layers = 0;
    for (int64_t i = first_loss(plan); i < plan->instances; i++)
        layers += plan->ends_layer[i];
    return layers;
}

void add_text(struct arena *keep, struct texts *texts, const char *text)
{
    array_push(keep, texts, text);
}

void copy_settings(struct plan *to, const struct plan *from)
{
    plan_set_names(to, from->model_name, from->model_options, from->cluster_name);
    plan_copy_settings(to, from);
}
