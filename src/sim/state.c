/* state.c - what a stage's devices hold from the first slot to the last.
 *
 *   I1  Products that add weight gradients in place, in fp32, still give autograd a tensor of the
 *       weight's shape: products of layers give one for each shape in the compute dtype, made once
 *       and never freed (Transformer Engine, module/base.py, get_dummy_wgrad).
 */
#include "sim/player.h"

#include <math.h>
#include <string.h>

#include "cost/cost.h"

/* I1. */
static bool leaves_stand_in(const struct plan *plan, int64_t instance)
{
    const struct op *op = &plan->model->op[plan->instance[instance].op];
    bool in_fp32 = plan->policy != POLICY_FP32 && plan->policy != POLICY_FSDP &&
                   policy_gradient_bytes(plan->policy) == 4;
    bool own = software_word(&plan->software, FACT_WORKSPACE) == WORKSPACE_WEFT; /* no autograd */
    return in_fp32 && !own && plan_choice(plan, instance)->shard < 2 &&
           (op->kind == OP_LINEAR || op->kind == OP_EXPERT_LINEAR) && op_in_layer(plan->model, op);
}

struct matrix_size {
    int64_t rows, columns;
};

/* The matrix of one expert, if there are many. */
static struct matrix_size matrix_of(const struct plan *plan, int64_t instance)
{
    const struct op *op = &plan->model->op[plan->instance[instance].op];
    int64_t local[OP_MAX_DIMS];
    split_local(op, &plan_choice(plan, instance)->split,
                plan_samples(plan, plan_choice(plan, instance)), local);
    return (struct matrix_size){local[op_find_dim(op->kind, DIM_OUT)],
                                local[op_find_dim(op->kind, DIM_IN)]};
}

static int64_t stand_in_bytes(struct arena *scratch, const struct plan *plan, int32_t stage,
                              int64_t place)
{
    ARRAY(struct matrix_size) seen = {0};
    bool *done = ARENA_ARRAY(scratch, bool, (size_t)plan->model->ops *(size_t)plan->choices);
    int64_t elements = 0;
    for (int32_t part = stage; part < plan->parts; part = plan_next_part(plan, part)) {
        for (int64_t i = plan->part[part].first;
             i < plan->part[part].first + plan->part[part].count; i++) {
            bool *old = &done[(int64_t)plan->instance[i].op * plan->choices + plan->choice_of[i]];
            if (*old || !leaves_stand_in(plan, i) || !plan_place_has(plan, i, place))
                continue;
            *old = true;
            struct matrix_size m = matrix_of(plan, i);
            size_t k = 0;
            while (k < seen.len && memcmp(&seen.data[k], &m, sizeof m) != 0)
                k++;
            if (k < seen.len)
                continue;
            array_push(scratch, &seen, m);
            elements += m.rows * m.columns;
        }
    }
    return elements * dtype_bytes(plan->dtype);
}

/* The largest buffer of scores (model.h, KEEP_BUFFER). */
static int64_t buffer_bytes(const struct plan *plan, int32_t stage, int64_t place)
{
    double most = 0;
    for (int32_t part = stage; part < plan->parts; part = plan_next_part(plan, part))
        for (int64_t k = 0; k < plan->part[part].count; k++) {
            int64_t instance = plan->part[part].first + k, local[OP_MAX_DIMS];
            const struct op *op = &plan->model->op[plan->instance[instance].op];
            if (!(op->keep & KEEP_BUFFER) || !plan_place_has(plan, instance, place))
                continue;
            split_local(op, &plan_choice(plan, instance)->split,
                        plan_samples(plan, plan_choice(plan, instance)), local);
            most = fmax(most, operand_bytes(op, &op->output, local, plan->dtype));
        }
    return (int64_t)most;
}

/* Of Weft's own kernels, of those of the stage: the most that one takes while it runs. */
static int64_t scratch_bytes(const struct plan *plan, int32_t stage, int64_t place)
{
    struct blas_workspaces blas = blas_workspaces(plan, stage);
    int64_t most = 0;
    if (software_word(&plan->software, FACT_WORKSPACE) != WORKSPACE_WEFT)
        return blas_workspace_bytes(&blas);
    for (int32_t part = stage; part < plan->parts; part = plan_next_part(plan, part))
        for (int64_t k = 0; k < plan->part[part].count; k++) {
            int64_t instance = plan->part[part].first + k, local[OP_MAX_DIMS];
            int32_t number = plan->instance[instance].op;
            const struct op *op = &plan->model->op[number];
            if (!plan_place_has(plan, instance, place))
                continue;
            split_local(op, &plan_choice(plan, instance)->split,
                        plan_samples(plan, plan_choice(plan, instance)), local);
            int64_t bytes =
                own_scratch_bytes(op, local, op_dtype(plan->model, number, plan->dtype));
            most = bytes > most ? bytes : most;
        }
    return most;
}

/* Of gradients that are made late, the share that a stream of its own has summed: with shard 2 and 3 (gathered_spans.c). */
static double reduced_share(const struct plan *plan, int32_t stage)
{
    double all = 0, reduced = 0;
    if (!policy_memory(plan->policy).own_streams || !plan_makes_gradients_late(plan))
        return 0;
    for (int32_t part = stage; part < plan->parts; part = plan_next_part(plan, part))
        for (int64_t k = 0; k < plan->part[part].count; k++) {
            int64_t instance = plan->part[part].first + k;
            double late = plan_instance_state(plan, instance).late;
            all += late;
            reduced += plan_choice(plan, instance)->shard >= 2 ? late : 0;
        }
    return all > 0 ? reduced / all : 0;
}

int64_t state_total(const struct state *state)
{
    int64_t bytes = state->stand_ins + state->buffer + state->scratch;
    for (int k = 0; k < MEMORY_CLASS_COUNT; k++)
        bytes += state->bytes[k];
    return bytes;
}

int64_t state_at_step(const struct state *state)
{
    return state->late + state->step;
}

struct state state_of(struct arena *scratch, const struct plan *plan, int32_t stage, int64_t place)
{
    struct stage_memory memory = plan_place_memory(plan, stage, place, 0);
    return (struct state){{[MEMORY_WEIGHTS] = (int64_t)memory.weights,
                           [MEMORY_GRADIENTS] = (int64_t)(memory.gradients - memory.late),
                           [MEMORY_OPTIMIZER] = (int64_t)memory.optimizer},
                          .stand_ins = stand_in_bytes(scratch, plan, stage, place),
                          .buffer = buffer_bytes(plan, stage, place),
                          .scratch = scratch_bytes(plan, stage, place),
                          .late = (int64_t)memory.late,
                          .reduced = (int64_t)(memory.late * reduced_share(plan, stage)),
                          .step = (int64_t)(memory.step + memory.single),
                          .host = (int64_t)memory.host};
}

struct state graph_state(struct arena *scratch, const struct graph *graph, int32_t stage,
                         int64_t place)
{
    struct state state = state_of(scratch, graph->plan, stage, place);
    for (int32_t part = stage; part < graph->plan->parts; part = plan_next_part(graph->plan, part))
        state.buffer += graph->lifetimes->part[part].buffers;
    return state;
}

int64_t stage_state_bytes(const struct plan *plan, int32_t stage)
{
    struct arena *scratch = arena_new();
    struct state state = state_of(scratch, plan, stage, 0);
    int64_t bytes = state_total(&state);
    arena_free(scratch);
    return bytes;
}

int64_t stage_peak_bytes(const struct graph *graph, int32_t stage)
{
    struct arena *scratch = arena_new();
    int64_t *place, places = plan_kinds_of_places(scratch, graph->plan, stage, &place), most = 0;
    for (int64_t i = 0; i < places; i++) {
        int64_t bytes = place_peak_bytes(graph, stage, place[i]);
        most = bytes > most ? bytes : most;
    }
    arena_free(scratch);
    return most;
}
