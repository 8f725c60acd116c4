/* fake_prediction.h - a prediction made by hand: a real plan, a graph of a few tasks per slot,
 * times from the engine. One device stands for each stage.
 *
 *   Every part has a forward block of ns 10 and a backward block of ns 20 (times `unit_ns`):
 *     operator 4, step 2, operator 4 of which the second operator waits for the step;
 *     operator 8, step 4 beside operator 4, operator 8 after the step.
 *   A send takes 1, the gradients' all-reduce 6, the optimizer 3. Nothing disturbs anything.
 */
#ifndef WEFT_TESTS_FAKE_PREDICTION_H
#define WEFT_TESTS_FAKE_PREDICTION_H

#include "sim/sim.h"

enum { FAKE_ITEMS = 4, FAKE_SEND = 1, FAKE_REDUCE = 6, FAKE_OPTIMIZER = 3 };
static const int FAKE_LANE[2][FAKE_ITEMS] = {{4, 2, 4, 0}, {8, 4, 4, 8}};
static const int FAKE_NS[2] = {10, 20};

struct fake {
    struct arena *arena;
    struct opened_plan plan;
    struct prediction prediction;
    struct graph graph;
    int64_t unit_ns;
    /* Per stage and micro-batch: the number of each task, by direction. */
    int32_t *work[2], *send[2], *reduce, *optimizer;
    struct {
        struct task *data;
        size_t len, cap;
    } tasks;
};

static int32_t fake_task(struct fake *fake, int32_t stage, enum stream_kind stream,
                         enum purpose purpose, int32_t micro_batch)
{
    struct task task = {.device = stage,
                        .stream = (uint8_t)stream,
                        .purpose = (uint8_t)purpose,
                        .block = -1,
                        .exchange = -1,
                        .micro_batch = micro_batch};
    array_push(fake->arena, &fake->tasks, task);
    return (int32_t)fake->tasks.len - 1;
}

/* ---- blocks and exchanges -------------------------------------------------------------------- */

static void fake_blocks(struct fake *fake)
{
    static const struct reshard_step STEP = {.kind = COLLECTIVE_ALL_REDUCE, .digits = 1};
    const struct plan *plan = fake->plan.plan;
    struct graph *graph = &fake->graph;
    graph->blocks = 2 * plan->stages;
    graph->block = ARENA_ARRAY(fake->arena, struct block, (size_t)graph->blocks);
    int64_t *first = ARENA_ARRAY(fake->arena, int64_t, (size_t)graph->blocks + 1);
    int64_t *lane = ARENA_ARRAY(fake->arena, int64_t, (size_t)graph->blocks *FAKE_ITEMS);
    for (int32_t b = 0; b < graph->blocks; b++) {
        struct item *item = ARENA_ARRAY(fake->arena, struct item, FAKE_ITEMS);
        int32_t part = b / 2, back = b % 2;
        for (int i = 0; i < FAKE_ITEMS; i++) {
            bool step = i == 1;
            uint8_t purpose = step ? PURPOSE_TENSOR : back ? PURPOSE_BACKWARD : PURPOSE_FORWARD;
            item[i] = (struct item){.kind = step ? ITEM_STEP : ITEM_OP,
                                    .purpose = purpose,
                                    .phase = (uint8_t)(back ? PHASE_BACKWARD_INPUT : PHASE_FORWARD),
                                    .needs = -1,
                                    .instance = plan->part[part].first + i,
                                    .step = step ? &STEP : NULL,
                                    .bytes = step ? 1 << 20 : 0,
                                    .pattern = step ? 0 : -1};
            lane[b * FAKE_ITEMS + i] = FAKE_LANE[back][i] * fake->unit_ns;
        }
        item[1].needs = 0;
        item[back ? 3 : 2].needs = 1;
        first[b] = b * FAKE_ITEMS;
        graph->block[b] = (struct block){.part = part,
                                         .kind = back ? SLOT_BACKWARD : SLOT_FORWARD,
                                         .item = item,
                                         .items = FAKE_ITEMS};
    }
    first[graph->blocks] = graph->blocks * FAKE_ITEMS;
    fake->prediction.lane_ns = lane;
    fake->prediction.lane_first = first;
}

enum { FAKE_EXCHANGE_SEND, FAKE_EXCHANGE_REDUCE, FAKE_EXCHANGES };
static void fake_exchanges(struct fake *fake)
{
    struct graph *graph = &fake->graph;
    graph->patterns = graph->exchanges = FAKE_EXCHANGES;
    graph->pattern = ARENA_ARRAY(fake->arena, struct pattern, FAKE_EXCHANGES);
    graph->exchange = ARENA_ARRAY(fake->arena, struct exchange, FAKE_EXCHANGES);
    graph->pattern[FAKE_EXCHANGE_REDUCE] =
        (struct pattern){.digits = 1, .stride = {1}, .degree = {4}};
    graph->exchange[FAKE_EXCHANGE_SEND] = (struct exchange){
        EXCHANGE_COLLECTIVE, PURPOSE_PIPELINE, FAKE_EXCHANGE_SEND, 0, 4096, COLLECTIVE_SEND};
    graph->exchange[FAKE_EXCHANGE_REDUCE] = (struct exchange){
        EXCHANGE_COLLECTIVE, PURPOSE_DATA, FAKE_EXCHANGE_REDUCE, 0, 1 << 20, COLLECTIVE_ALL_REDUCE};
}

/* ---- tasks, stage by stage ------------------------------------------------------------------- */

static void fake_slot(struct fake *fake, int32_t stage, struct slot slot, int32_t micro_batches)
{
    int32_t stages = fake->plan.plan->stages, at = stage * micro_batches + slot.micro_batch;
    int back = slot.kind != SLOT_FORWARD;
    int32_t work = fake_task(fake, stage, STREAM_COMPUTE, back ? PURPOSE_BACKWARD : PURPOSE_FORWARD,
                             slot.micro_batch);
    fake->tasks.data[work].block = 2 * stage + back;
    fake->tasks.data[work].items = FAKE_ITEMS;
    fake->work[back][at] = work;
    fake->send[back][at] = -1;
    if (back ? stage == 0 : stage == stages - 1)
        return;
    int32_t send = fake_task(fake, stage, back ? STREAM_PREVIOUS : STREAM_NEXT, PURPOSE_PIPELINE,
                             slot.micro_batch);
    fake->tasks.data[send].exchange = FAKE_EXCHANGE_SEND;
    fake->send[back][at] = send;
}

static void fake_stage(struct fake *fake, int32_t stage, const struct pipeline *pipeline)
{
    struct slots slots = {0};
    schedule_find(fake->plan.plan->schedule)->order(pipeline, stage, fake->arena, &slots);
    for (size_t i = 0; i < slots.len; i++)
        fake_slot(fake, stage, slots.data[i], pipeline->micro_batches);
    fake->reduce[stage] = fake_task(fake, stage, STREAM_GRADIENT, PURPOSE_DATA, -1);
    fake->tasks.data[fake->reduce[stage]].exchange = FAKE_EXCHANGE_REDUCE;
    fake->optimizer[stage] = fake_task(fake, stage, STREAM_COMPUTE, PURPOSE_OPTIMIZER, -1);
    fake->tasks.data[fake->optimizer[stage]].parameters = 1000;
}

static int64_t fake_ns(const struct fake *fake, const struct task *task)
{
    if (task->block >= 0)
        return FAKE_NS[task->block % 2] * fake->unit_ns;
    if (task->exchange >= 0)
        return (task->exchange == FAKE_EXCHANGE_SEND ? FAKE_SEND : FAKE_REDUCE) * fake->unit_ns;
    return FAKE_OPTIMIZER * fake->unit_ns;
}

/* The one task that a task waits for, or -1; a backward pass of the last stage follows its forward
 * pass on the stream. */
static int32_t fake_dependency(const struct fake *fake, int32_t number, int32_t micro_batches)
{
    const struct task *task = &fake->tasks.data[number];
    int32_t stage = task->device, stages = fake->plan.plan->stages;
    int back = task->block >= 0 ? task->block % 2 : task->stream == STREAM_PREVIOUS;
    int32_t from = back ? stage + 1 : stage - 1;
    if (task->block >= 0)
        return from >= 0 && from < stages
                   ? fake->send[back][from * micro_batches + task->micro_batch]
                   : -1;
    if (task->stream == STREAM_GRADIENT)
        return fake->optimizer[stage] - 2 - (stage > 0); /* the last backward, before its send */
    if (task->exchange < 0)
        return fake->reduce[stage];
    return fake->work[back][stage * micro_batches + task->micro_batch];
}

/* ---- the engine ------------------------------------------------------------------------------ */

static void fake_depend(struct fake *fake, int32_t micro_batches)
{
    struct graph *graph = &fake->graph;
    graph->depends_first = ARENA_ARRAY(fake->arena, int64_t, (size_t)graph->tasks + 1);
    graph->depends = ARENA_ARRAY(fake->arena, int32_t, (size_t)graph->tasks);
    int64_t len = 0;
    for (int32_t i = 0; i < graph->tasks; i++) {
        int32_t on = fake_dependency(fake, i, micro_batches);
        graph->depends_first[i] = len;
        if (on >= 0)
            graph->depends[len++] = on;
    }
    graph->depends_first[graph->tasks] = len;
}

static void fake_run(struct fake *fake)
{
    const struct graph *graph = &fake->graph;
    struct arena *arena = fake->arena;
    size_t tasks = (size_t)graph->tasks, streams = (size_t)graph->devices * STREAM_COUNT;
    int32_t *stream = ARENA_ARRAY(arena, int32_t, tasks),
            *order = ARENA_ARRAY(arena, int32_t, tasks);
    int64_t *ns = ARENA_ARRAY(arena, int64_t, tasks);
    int64_t *first = ARENA_ARRAY(arena, int64_t, streams + 2);
    for (size_t i = 0; i < tasks; i++) {
        stream[i] = graph->task[i].device * STREAM_COUNT + graph->task[i].stream;
        ns[i] = fake_ns(fake, &graph->task[i]);
        first[stream[i] + 2]++;
    }
    for (size_t s = 0; s < streams; s++)
        first[s + 2] += first[s + 1];
    for (size_t i = 0; i < tasks; i++)
        order[first[stream[i] + 1]++] = (int32_t)i;
    fake->prediction.engine = (struct engine_graph){.tasks = graph->tasks,
                                                    .streams = (int32_t)streams,
                                                    .task_stream = stream,
                                                    .task_ns = ns,
                                                    .depends_first = graph->depends_first,
                                                    .depends = graph->depends,
                                                    .order_first = first,
                                                    .order = order};
    assert_int_equal(engine_run(arena, &fake->prediction.engine, &fake->prediction.result),
                     WEFT_OK);
    fake->prediction.iteration_ns = fake->prediction.result.end;
}

/* ---- what is predicted ----------------------------------------------------------------------- */

static void fake_times(struct fake *fake, int32_t stage, int32_t micro_batches)
{
    struct prediction *prediction = &fake->prediction;
    int64_t *time = prediction->stage[stage].time_ns;
    const struct engine_result *result = &prediction->result;
    time[PURPOSE_FORWARD] = micro_batches * FAKE_NS[0] * fake->unit_ns;
    time[PURPOSE_BACKWARD] = micro_batches * FAKE_NS[1] * fake->unit_ns;
    time[PURPOSE_OPTIMIZER] = FAKE_OPTIMIZER * fake->unit_ns;
    time[PURPOSE_DATA] =
        result->end_ns[fake->reduce[stage]] - result->start_ns[fake->reduce[stage]];
    time[TIME_BUBBLE] = prediction->iteration_ns - time[PURPOSE_FORWARD] - time[PURPOSE_BACKWARD] -
                        time[PURPOSE_OPTIMIZER] - time[PURPOSE_DATA];
    prediction->stage[stage].waits_most_ns = time[TIME_BUBBLE];
    prediction->stage[stage].waits_most =
        stage + 1 < fake->plan.plan->stages
            ? arena_printf(fake->arena, "gradients from stage %d", stage + 1)
            : "activations";
}

static const struct holding FAKE_HOLDINGS[] = {
    {"optimizer state", MEMORY_OPTIMIZER, 6LL << 30},
    {"weights", MEMORY_WEIGHTS, 2LL << 30},
    {"layers.0-11.mlp.up output, 2 micro-batches", MEMORY_ACTIVATIONS, 1LL << 30},
};

/* Activations as in 1f1b: a GiB more for each stage after, at most 8; 10 GiB of all else. */
static void fake_memory(struct fake *fake, int32_t stage, int64_t limit)
{
    struct stage_peak *memory = &fake->prediction.stage[stage].memory;
    int64_t after = fake->plan.plan->stages - stage, gib = 1LL << 30;
    int64_t bytes[MEMORY_CLASS_COUNT] = {2 * gib, gib, 6 * gib, (after > 8 ? 8 : after) * gib, gib};
    for (int c = 0; c < MEMORY_CLASS_COUNT; c++) {
        memory->bytes[c] = bytes[c];
        memory->peak += bytes[c];
    }
    memory->reserved = memory->peak + gib / 2;
    memory->limit = limit;
    memory->at_ns = 15 * fake->unit_ns;
    memory->slot = 1;
    memory->holding = FAKE_HOLDINGS;
    memory->holdings = COUNT_OF(FAKE_HOLDINGS);
    fake->prediction.fits &= stage_needed(memory) <= limit;
}

/* Every stage holds its state, and from the middle of the iteration one GiB more. */
static void fake_points(struct fake *fake)
{
    size_t stages = (size_t)fake->plan.plan->stages;
    int64_t *first = ARENA_ARRAY(fake->arena, int64_t, stages + 1);
    struct memory_point *point = ARENA_ARRAY(fake->arena, struct memory_point, 2 * stages);
    for (size_t s = 0; s < stages; s++) {
        first[s + 1] = 2 * ((int64_t)s + 1);
        point[2 * s].bytes[MEMORY_WEIGHTS] = point[2 * s + 1].bytes[MEMORY_WEIGHTS] = 2LL << 30;
        point[2 * s + 1].bytes[MEMORY_ACTIVATIONS] = 1LL << 30;
        point[2 * s + 1].at_ns = fake->prediction.iteration_ns / 2;
    }
    fake->prediction.point_first = first;
    fake->prediction.point = point;
}

static const struct reliance FAKE_RELIANCE[] = {
    {FROM_MEASUREMENT, "Aceso V100", 0.712},
    {FROM_INTERPOLATION, "Aceso V100", 0.2},
    {FROM_FORMULA, "roofline", 0.088},
};

static void fake_graph(struct fake *fake, const struct pipeline *pipeline)
{
    size_t stages = (size_t)pipeline->stages, slots = stages * (size_t)pipeline->micro_batches;
    struct graph *graph = &fake->graph;
    for (int back = 0; back < 2; back++) {
        fake->work[back] = ARENA_ARRAY(fake->arena, int32_t, slots);
        fake->send[back] = ARENA_ARRAY(fake->arena, int32_t, slots);
    }
    fake->reduce = ARENA_ARRAY(fake->arena, int32_t, stages);
    fake->optimizer = ARENA_ARRAY(fake->arena, int32_t, stages);
    graph->plan = fake->plan.plan;
    graph->folded = true;
    graph->devices = pipeline->stages;
    graph->device = ARENA_ARRAY(fake->arena, struct graph_device, stages);
    for (int32_t s = 0; s < pipeline->stages; s++) {
        graph->device[s] = (struct graph_device){s, fake->plan.plan->stage[s].first_device};
        fake_stage(fake, s, pipeline);
    }
    graph->task = fake->tasks.data;
    graph->tasks = (int32_t)fake->tasks.len;
    fake_blocks(fake);
    fake_exchanges(fake);
    fake_depend(fake, pipeline->micro_batches);
}

/* A pipeline of `stages` over all of the cluster's devices. */
static struct fake *fake_new(const char *model, const char *cluster, int32_t stages,
                             int32_t micro_batches, int64_t unit_ns, int64_t limit)
{
    struct arena *arena = arena_new();
    struct fake *fake = ARENA_NEW(arena, struct fake);
    struct pipeline pipeline = {stages, 1, micro_batches};
    fake->arena = arena;
    fake->unit_ns = unit_ns;
    assert_int_equal(model_open(model, NULL, &fake->plan.model), WEFT_OK);
    assert_int_equal(cluster_open(cluster, &fake->plan.cluster), WEFT_OK);
    int64_t dp = cluster_devices(fake->plan.cluster) / stages;
    struct degrees degrees = {
        .pp = stages, .micro_batch = 2, .global_batch = 2 * dp * micro_batches};
    assert_int_equal(
        plan_from_degrees(fake->plan.model, fake->plan.cluster, &degrees, &fake->plan.plan),
        WEFT_OK);
    struct prediction *prediction = &fake->prediction;
    prediction->plan = fake->plan.plan;
    prediction->graph = &fake->graph;
    prediction->stage = ARENA_ARRAY(arena, struct stage_prediction, (size_t)stages);
    fake_graph(fake, &pipeline);
    fake_run(fake);
    prediction->fits = true;
    for (int32_t s = 0; s < stages; s++) {
        fake_times(fake, s, micro_batches);
        fake_memory(fake, s, limit);
    }
    fake_points(fake);
    prediction->busiest = 0;
    prediction->flops = 1e12 * (double)prediction->iteration_ns * 1e-9 *
                        (double)cluster_devices(fake->plan.cluster) * 50;
    prediction->critical_path = "9 forward passes of stage 0, then all of stage 1";
    prediction->reliance = FAKE_RELIANCE;
    prediction->reliances = COUNT_OF(FAKE_RELIANCE);
    prediction->compile_s = 0.25;
    prediction->simulate_s = 0.5;
    return fake;
}

static void fake_free(struct fake *fake)
{
    plan_close(&fake->plan);
    arena_free(fake->arena);
}

#endif
