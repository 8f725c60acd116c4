/* asks.c - which kernel times a plan asks for. */
#include <string.h>

#include "run/measure/measure.h"

struct collection {
    struct arena *keep;
    const struct plan *plan;
    struct asks *asks;
    ARRAY(struct profile_key) keys; /* of each ask */
};

static struct ask *ask_for(struct collection *c, const struct work *work)
{
    struct profile_key key;
    if (!profile_key_of(work, 0, &key))
        return NULL;
    for (size_t i = 0; i < c->keys.len; i++)
        if (memcmp(&c->keys.data[i], &key, sizeof key) == 0)
            return &c->asks->data[i];
    array_push(c->keep, &c->keys, key);
    array_push(c->keep, c->asks, (struct ask){.work = *work});
    return &c->asks->data[c->asks->len - 1];
}

static bool same_operand(const struct operand *a, const struct operand *b)
{
    return a->axes == b->axes && a->element == b->element &&
           memcmp(a->size, b->size, a->axes * sizeof *a->size) == 0;
}

/* Operators of one kind and the same operands run alike. */
static bool same_op(const struct op *a, const struct op *b)
{
    bool same =
        a == b || (a && b && a->kind == b->kind && a->inputs == b->inputs &&
                   a->weights == b->weights && a->causal == b->causal && a->window == b->window &&
                   a->sinks == b->sinks && a->gate == b->gate && a->squared == b->squared &&
                   a->keep == b->keep && same_operand(&a->output, &b->output));
    for (int32_t i = 0; same && a != b && i < a->inputs; i++)
        same = same_operand(&a->input[i], &b->input[i]);
    for (int32_t i = 0; same && a != b && i < a->weights; i++)
        same = same_operand(&a->weight[i].operand, &b->weight[i].operand);
    return same;
}

static void add_asker(struct collection *c, const struct work *work, const struct asker *asker)
{
    struct ask *ask = ask_for(c, work);
    for (size_t i = 0; ask && i < ask->askers.len; i++) {
        struct asker *known = &ask->askers.data[i];
        if (same_op(known->op, asker->op) &&
            memcmp(known->size, asker->size, sizeof asker->size) == 0) {
            known->uses += asker->uses;
            return;
        }
    }
    if (ask)
        array_push(c->keep, &ask->askers, *asker);
}

/* Passes that no operator's kernel does come without an asker: nothing here runs them. */
static void add_phase(struct collection *c, int64_t instance, enum phase phase, int64_t uses)
{
    const struct plan *plan = c->plan;
    const struct op *op = &plan->model->op[plan->instance[instance].op];
    struct work work[MAX_ITEM_WORKS];
    struct asker asker = {.op = op, .uses = uses};
    int works = item_works(plan, instance, phase, work);
    split_local(op, &plan_choice(plan, instance)->split, plan->step_samples, asker.size);
    if (works > 0)
        add_asker(c, &work[0], &asker);
    for (int i = 1; i < works; i++)
        ask_for(c, &work[i]);
}

static void add_blocks(struct collection *c, const struct graph *graph)
{
    const struct plan *plan = c->plan;
    size_t rows = (size_t)plan->model->ops * (size_t)plan->choices * PHASE_COUNT;
    int64_t *uses = ARENA_ARRAY(c->keep, int64_t, rows);
    int64_t *instance = ARENA_ARRAY(c->keep, int64_t, rows);
    for (int32_t b = 0; b < graph->blocks; b++)
        for (int32_t i = 0; i < graph->block[b].items; i++) {
            const struct item *item = &graph->block[b].item[i];
            if (item->kind != ITEM_OP)
                continue;
            int64_t op = plan->instance[item->instance].op;
            int64_t row =
                (op * plan->choices + plan->choice_of[item->instance]) * PHASE_COUNT + item->phase;
            uses[row]++;
            instance[row] = item->instance;
        }
    for (size_t row = 0; row < rows; row++)
        if (uses[row])
            add_phase(c, instance[row], (enum phase)(row % PHASE_COUNT), uses[row]);
}

static void add_optimizers(struct collection *c, const struct graph *graph)
{
    for (int32_t i = 0; i < graph->tasks; i++) {
        const struct task *task = &graph->task[i];
        if (task->purpose != PURPOSE_OPTIMIZER || task->parameters < 1)
            continue;
        struct work work = optimizer_work(task->parameters, c->plan->dtype, c->plan->policy,
                                          UPDATE_ADAMW, STEP_FUSED);
        struct asker asker = {.size = {task->parameters}, .uses = 1};
        add_asker(c, &work, &asker);
    }
}

static int64_t step_bytes(const struct plan *plan)
{
    double most = 0;
    for (int32_t s = 0; s < plan->stages; s++) {
        struct stage_memory memory = plan_stage_memory(plan, s, 1);
        double bytes = stage_memory_total(&memory);
        most = bytes > most ? bytes : most;
    }
    return (int64_t)most;
}

weft_status asks_of_plan(struct arena *keep, const struct plan *plan, struct asks *out)
{
    struct collection c = {.keep = keep, .plan = plan, .asks = out};
    struct compile_options options = {.fold = FOLD_AUTO, .executed = true};
    struct graph *graph;
    *out = (struct asks){.policy = plan->policy, .step_bytes = step_bytes(plan)};
    weft_status status = graph_compile(plan, &options, &graph);
    if (status)
        return status;
    add_blocks(&c, graph);
    add_optimizers(&c, graph);
    graph_free(graph);
    return WEFT_OK;
}
