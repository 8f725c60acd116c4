/* test_equivalence.c - compiled graphs compute what their models say. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compile/compile.h"
#include "drop_items.h"
#include "plan_text.h"
#include "random_plan.h"

static struct model *models[SMALL_MODEL_COUNT];
enum { CLUSTERS = 8 };
static struct cluster *clusters[CLUSTERS];

static int open_all(void **state)
{
    (void)state;
    static const char *const NAMES[CLUSTERS] = {"piz-daint:1",  "piz-daint:2", "piz-daint:3",
                                                "piz-daint:4",  "piz-daint:6", "piz-daint:8",
                                                "piz-daint:12", "piz-daint:16"};
    for (int i = 0; i < SMALL_MODEL_COUNT; i++)
        models[i] = open_small(&SMALL_MODELS[i]);
    for (int i = 0; i < CLUSTERS; i++)
        clusters[i] = open_named(NAMES[i]);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    for (int i = 0; i < SMALL_MODEL_COUNT; i++)
        model_free(models[i]);
    for (int i = 0; i < CLUSTERS; i++)
        cluster_free(clusters[i]);
    return 0;
}

static struct plan *any_plan(struct rng *rng)
{
    const struct model *model = models[rng_below(rng, SMALL_MODEL_COUNT)];
    return random_plan(rng, model, clusters[rng_below(rng, CLUSTERS)]);
}

static struct graph *compile(const struct plan *plan, enum fold fold)
{
    struct graph *graph = NULL;
    if (graph_compile(plan, &(struct compile_options){fold}, &graph) != WEFT_OK)
        fail_msg("%s: %s", plan->model->name, weft_last_error()->message);
    return graph;
}

/* ---- what is compiled is right --------------------------------------------------------------- */

/* A stage holds the weights whose gradients it synchronises, once each, copies of tied ones, and frozen ones. Whole
 * gradients have the bytes of their buckets, but for a fraction of each. Counts copies beside their
 * owner. */
static int64_t check_held(const struct graph *graph)
{
    const struct plan *plan = graph->plan;
    int64_t copies = 0;
    for (int32_t stage = 0; stage < plan->stages; stage++) {
        struct stage_memory memory = plan_stage_memory(plan, stage, 1);
        double parameters = 0, gradients = 0;
        bool whole = true;
        for (int32_t i = 0; i < graph->buckets; i++) {
            const struct bucket *bucket = &graph->bucket[i];
            if (bucket->part % plan->stages != stage)
                continue;
            parameters += (double)bucket->parameters;
            gradients += (double)bucket->bytes;
        }
        for (int64_t i = 0; i < plan->instances; i++) {
            int64_t owner = plan_weight_owner(plan, i);
            bool here = graph->uses->part_of[i] % plan->stages == stage;
            if (here && plan->model->op[plan->instance[i].op].frozen)
                parameters += plan_instance_state(plan, i).parameters;
            whole &= !here || plan_choice(plan, i)->shard < 2;
            copies += here && owner != i && plan_holds_weights(plan, i) &&
                      graph->uses->part_of[owner] == graph->uses->part_of[i];
        }
        if (parameters != memory.parameters ||
            (whole && fabs(gradients - memory.gradients) > (double)plan->instances))
            fail_msg("%s, stage %d: buckets of %.0f parameters and %.0f bytes, memory of %.0f and "
                     "%.0f",
                     plan->model->name, stage, parameters, gradients, memory.parameters,
                     memory.gradients);
    }
    return copies;
}

static void test_random_plans_are_equivalent(void **state)
{
    (void)state;
    int rounds = rounds_of(2000);
    int64_t copies = 0;
    for (int round = 0; round < rounds; round++) {
        struct rng rng;
        rng_seed(&rng, (uint64_t)round);
        struct plan *plan = any_plan(&rng);
        enum fold fold = chance(&rng, 2) ? FOLD_ALWAYS : FOLD_NEVER;
        struct graph *graph = compile(plan, fold);
        if (graph_verify(graph) != WEFT_OK)
            fail_msg("round %d, %s, %s, %s: %s", round, plan->model->name, plan->schedule,
                     fold == FOLD_NEVER ? "unfolded" : "folded", weft_last_error()->message);
        copies += check_held(graph);
        graph_free(graph);
        plan_free(plan);
    }
    assert_true(copies > rounds / 100);
}

/* Decoders of today: chunks of attention, gates, a capacity, more tokens; latent attention to keys that an index
 * chooses; the delta rule. */
static const struct small_model TODAYS[] = {
    {"moe", "{layers: 4, hidden: 32, heads: 4, kv_heads: 2, ffn: 64, seq: 16, vocab: 96, experts: "
            "4, top_k: 2, moe_every: 2, shared_experts: 1, shared_gate: true, window: 4, chunked: "
            "true, full_every: 2, full_rotary: false, output_gate: true, rotary_share: 0.5, "
            "capacity: 1.5, mtp: 1}"},
    {"llama", "{layers: 3, hidden: 32, heads: 4, q_lora: 16, kv_lora: 16, nope_dim: 8, rope_dim: "
              "4, value_dim: 8, index_top_k: 4, index_heads: 2, index_dim: 8, ffn: 64, seq: 16, "
              "vocab: 96, norm: layer, activation: relu2}"},
    {"moe", "{layers: 4, hidden: 32, heads: 4, kv_heads: 2, ffn: 64, seq: 16, vocab: 96, experts: "
            "4, top_k: 2, delta_heads: 8, delta_key_heads: 4, delta_dim: 8, delta_key_dim: 4, "
            "delta_chunk: 8, full_every: 4}"},
};

/* Some of what is recomputed is discarded; some plans run where checkpoints stop early. */
static void discard_some(struct rng *rng, struct plan *plan)
{
    for (int64_t i = 0; i < plan->instances; i++) {
        struct choice choice = *plan_choice(plan, i);
        choice.discard = choice.recompute && !choice.saved && chance(rng, 2);
        assert_int_equal(plan_choose(plan, i, &choice), WEFT_OK);
    }
    if (chance(rng, 3))
        plan->software.word[FACT_CHECKPOINTS] = CHECKPOINTS_EARLY;
}

static void test_todays_models_are_equivalent(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(TODAYS); i++) {
        struct model *model = open_small(&TODAYS[i]);
        for (int round = 0; round < rounds_of(40); round++) {
            struct rng rng;
            rng_seed(&rng, (uint64_t)round);
            struct plan *plan = random_plan(&rng, model, clusters[rng_below(&rng, CLUSTERS)]);
            discard_some(&rng, plan);
            struct graph *graph = compile(plan, round % 2 ? FOLD_ALWAYS : FOLD_NEVER);
            if (graph_verify(graph) != WEFT_OK)
                fail_msg("round %d, %s: %s", round, TODAYS[i].options, weft_last_error()->message);
            check_held(graph);
            graph_free(graph);
            plan_free(plan);
        }
        model_free(model);
    }
}

static void expect_equivalent(const struct plan *plan)
{
    struct graph *graph = compile(plan, FOLD_NEVER);
    if (graph_verify(graph) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    graph_free(graph);
}

/* attn.add goes to stage 1 in two forms, by batch for mlp.norm and by hidden and seq for mlp.add, each cut further for the
 * send. The gather that follows for mlp.norm would fit what came for mlp.add as well, and would not give it its input. */
static void test_a_gather_takes_what_came_for_its_reader(void **state)
{
    (void)state;
    static const struct {
        const char *path, *split;
    } SPLITS[] = {{"layers.0.attn.add", "copy:2 batch:2"},
                  {"layers.0.mlp.norm", "batch:2 copy:2"},
                  {"layers.0.mlp.add", "hidden:2 seq:2"}};
    struct plan *plan;
    assert_int_equal(plan_new(models[2], clusters[5], &plan), WEFT_OK);
    int64_t cut = at(plan, SPLITS[0].path) + 1;
    assert_int_equal(plan_map(plan, 2, 1, &cut, (int64_t[]){4, 4}), WEFT_OK);
    plan->step_samples = plan->global_batch = 2;
    for (size_t i = 0; i < COUNT_OF(SPLITS); i++) {
        int64_t instance = at(plan, SPLITS[i].path);
        struct choice choice = *plan_choice(plan, instance);
        assert_int_equal(split_parse(NULL, SPLITS[i].split, &choice.split), WEFT_OK);
        assert_int_equal(plan_choose(plan, instance, &choice), WEFT_OK);
    }
    expect_equivalent(plan);
    plan_free(plan);
}

/* With 4 heads over tp 4 a device has one sink of attention, whose gradient of 2 bytes is too small to leave a third of it
 * to the next iteration; a frozen weight has no gradient at all. */
static void test_small_buckets_are_not_divided(void **state)
{
    (void)state;
    static const struct small_model MODELS[] = {
        {"llama", "{layers: 2, hidden: 32, heads: 4, ffn: 64, seq: 16, vocab: 96, sinks: true}"},
        {"llama", "{layers: 2, hidden: 32, heads: 4, ffn: 64, seq: 16, vocab: 96, lora: 4}"},
    };
    for (size_t i = 0; i < COUNT_OF(MODELS); i++) {
        struct model *model = open_small(&MODELS[i]);
        struct degrees d = {.tp = 4, .dp = 2, .segments = 2, .schedule = "aiao"};
        struct plan *plan;
        d.has_bucket = true; /* of 1 byte: each weight is alone */
        d.bucket_bytes = 1;
        assert_int_equal(plan_from_degrees(model, clusters[5], &d, &plan), WEFT_OK);
        expect_equivalent(plan);
        plan_free(plan);
        model_free(model);
    }
}

/* An embedding that is frozen has no use for the gradient of its output, and stage 1 sends none back. */
static void test_frozen_stages_get_no_gradients(void **state)
{
    (void)state;
    static const struct small_model LORA = {
        "llama", "{layers: 1, hidden: 32, heads: 4, ffn: 64, seq: 16, vocab: 96, lora: 4}"};
    struct model *model = open_small(&LORA);
    struct plan *plan;
    assert_int_equal(plan_new(model, clusters[3], &plan), WEFT_OK);
    assert_int_equal(plan_map(plan, 2, 1, (int64_t[]){1}, (int64_t[]){2, 2}), WEFT_OK);
    expect_equivalent(plan);
    plan_free(plan);
    model_free(model);
}

/* ---- what is wrong is found ------------------------------------------------------------------ */

/* Whether a task comes before another one even without one of the dependencies. */
static bool comes_before(const struct graph *graph, int32_t early, int32_t late, int64_t without)
{
    struct arena *scratch = arena_new();
    bool *reached = ARENA_ARRAY(scratch, bool, (size_t)graph->tasks);
    ARRAY(int32_t) left = {0};
    array_push(scratch, &left, late);
    while (left.len && !reached[early]) {
        int32_t task = left.data[--left.len], before = task - 1;
        while (before >= 0 && (graph->task[before].device != graph->task[task].device ||
                               graph->task[before].stream != graph->task[task].stream))
            before--;
        for (int64_t i = graph->depends_first[task] - 1; i < graph->depends_first[task + 1]; i++) {
            int32_t next = i < graph->depends_first[task] ? before : graph->depends[i];
            if (i == without || next < 0 || reached[next])
                continue;
            reached[next] = true;
            array_push(scratch, &left, next);
        }
    }
    bool found = reached[early];
    arena_free(scratch);
    return found;
}

/* A dependency that nothing else implies becomes one that says nothing: of a task on one that its
 * stream puts before it anyway, or on the same task again. */
static bool drop_dependency(struct rng *rng, struct graph *graph)
{
    for (int tries = 0; tries < 20; tries++) {
        int32_t task = (int32_t)rng_below(rng, graph->tasks);
        int64_t first = graph->depends_first[task], count = graph->depends_first[task + 1] - first;
        if (count < 2)
            continue;
        int64_t dropped = first + rng_below(rng, count), other = first;
        if (comes_before(graph, graph->depends[dropped], task, dropped))
            continue;
        while (other == dropped)
            other++;
        graph->depends[dropped] = graph->depends[other];
        return true;
    }
    return false;
}

static bool is_step(const struct item *item)
{
    return item->kind == ITEM_STEP;
}

static bool is_operator(const struct item *item)
{
    return item->kind == ITEM_OP;
}

static bool is_recomputed(const struct item *item)
{
    return item->kind == ITEM_OP && item->purpose == PURPOSE_RECOMPUTE;
}

/* Without an item of a block whose tasks run all of it. */
static bool drop_item(struct rng *rng, struct graph *graph, bool (*which)(const struct item *item))
{
    int32_t number = (int32_t)rng_below(rng, graph->blocks);
    struct block *block = &graph->block[number];
    int32_t at = block->items ? (int32_t)rng_below(rng, block->items) : 0;
    if (block->items < 2 || !which(&block->item[at]) || block->item[at].rest)
        return false;
    for (int32_t t = 0; t < graph->tasks; t++)
        if (graph->task[t].block == number && graph->task[t].items != block->items)
            return false;
    drop_items(graph, number, at, 1);
    return true;
}

static bool drop_step(struct rng *rng, struct graph *graph)
{
    return drop_item(rng, graph, is_step);
}

static bool drop_operator(struct rng *rng, struct graph *graph)
{
    return drop_item(rng, graph, is_operator);
}

static bool drop_recomputation(struct rng *rng, struct graph *graph)
{
    return drop_item(rng, graph, is_recomputed);
}

static struct item *any_step(struct rng *rng, struct graph *graph)
{
    struct block *block = &graph->block[rng_below(rng, graph->blocks)];
    struct item *item = block->items ? &block->item[rng_below(rng, block->items)] : NULL;
    return item && item->kind == ITEM_STEP ? item : NULL;
}

/* Another digit of the mesh, or another way to hold it. */
static bool change_step(struct rng *rng, struct graph *graph)
{
    struct item *item = any_step(rng, graph);
    if (!item)
        return false;
    struct reshard_step *step = ARENA_NEW(graph->arena, struct reshard_step);
    *step = *item->step;
    struct step_digit *digit = &step->digit[rng_below(rng, step->digits)];
    switch (rng_below(rng, 3)) {
    case 0:
        digit->mesh_stride *= 2;
        break;
    case 1:
        digit->after = digit->after > 0 ? digit->after * 2 : 1;
        break;
    default:
        step->elements /= 2;
        break;
    }
    item->step = step;
    return true;
}

/* One that is needed by another item no longer is: the lanes may run apart. */
static bool forget_need(struct rng *rng, struct graph *graph)
{
    struct block *block = &graph->block[rng_below(rng, graph->blocks)];
    struct item *item = block->items ? &block->item[rng_below(rng, block->items)] : NULL;
    if (!item || item->needs < 0 || block->item[item->needs].kind == item->kind || item->rest)
        return false;
    item->needs = -1;
    for (int32_t t = 0; t < graph->tasks; t++)
        if (graph->task[t].block == block - graph->block && graph->task[t].items < block->items)
            return false;
    return true;
}

static struct task *any_task(struct rng *rng, struct graph *graph, enum purpose purpose)
{
    struct task *task = &graph->task[rng_below(rng, graph->tasks)];
    return task->purpose == purpose ? task : NULL;
}

static bool mix_micro_batches(struct rng *rng, struct graph *graph)
{
    struct task *task = &graph->task[rng_below(rng, graph->tasks)];
    int64_t micro_batches = plan_micro_batches(graph->plan);
    bool of_bucket = task->purpose == PURPOSE_DATA && task->about >= 0;
    if (task->micro_batch < 0 || micro_batches < 2 || of_bucket)
        return false;
    task->micro_batch = (int32_t)((task->micro_batch + 1) % micro_batches);
    return true;
}

static bool mix_buckets(struct rng *rng, struct graph *graph)
{
    struct task *task = any_task(rng, graph, PURPOSE_DATA);
    if (!task || task->about < 0 || graph->buckets < 2)
        return false;
    task->about = (task->about + 1) % graph->buckets;
    return true;
}

/* Weights that are gathered for a forward pass are not there for the backward pass. */
static bool mix_gathers(struct rng *rng, struct graph *graph)
{
    struct task *task = any_task(rng, graph, PURPOSE_DATA);
    if (!task || task->stream != STREAM_PARAMETER || task->micro_batch < 0 || graph->buckets < 2)
        return false;
    task->about = (task->about + 1) % graph->buckets;
    return true;
}

static bool shrink_exchange(struct rng *rng, struct graph *graph)
{
    struct task *task = any_task(rng, graph, PURPOSE_DATA);
    if (!task || task->about < 0 || task->stream != STREAM_GRADIENT)
        return false;
    graph->exchange[task->exchange].bytes--;
    return true;
}

/* The graph stays, the plan gives one operator another split. */
static bool change_split(struct rng *rng, struct graph *graph)
{
    struct plan *plan = (struct plan *)(uintptr_t)graph->plan; /* the test's own */
    int64_t instance = rng_below(rng, plan->instances);
    const struct op *op = &plan->model->op[plan->instance[instance].op];
    int32_t stage = plan_stage_of_part(plan, plan_part_of(plan, instance));
    struct choice old = *plan_choice(plan, instance), choice = old;
    choice.split = random_split(rng, plan, op, plan->stage[stage].devices);
    struct layout before = layout_of(op, &op->output, &old.split, plan->step_samples, FLOW_FORWARD);
    struct layout after =
        layout_of(op, &op->output, &choice.split, plan->step_samples, FLOW_FORWARD);
    return !layout_equal(&before, &after) && plan_choose(plan, instance, &choice) == WEFT_OK;
}

static const struct mutation {
    const char *name;
    bool (*apply)(struct rng *rng, struct graph *graph); /* false: nothing to change here */
    int least; /* percent that must be found: some dependencies only hold work back */
} MUTATIONS[] = {
    {"drop a dependency", drop_dependency, 50},
    {"drop a step", drop_step, 95},
    {"drop an operator", drop_operator, 95},
    {"drop a recomputation", drop_recomputation, 100},
    {"change a step", change_step, 95},
    {"forget what an item needs", forget_need, 50},
    {"mix micro-batches", mix_micro_batches, 95},
    {"mix buckets", mix_buckets, 95},
    {"mix gathers", mix_gathers, 95},
    {"shrink an exchange", shrink_exchange, 95},
    {"change a split", change_split, 95},
};

/* Of few cases, as under sanitizers, two standard deviations fewer may be found. */
static bool enough_found(int found, int applied, int least, bool all_rounds)
{
    double share = least / 100.0, expected = applied * share;
    double chance_of_it = all_rounds ? 0 : 2 * sqrt(expected * (1 - share));
    return found >= expected - chance_of_it;
}

/* Where the first plans have nothing that a mutation could change, it goes on until one in twenty has. */
static void test_mutations_are_found(void **state)
{
    (void)state;
    enum { ROUNDS = 300 };
    for (size_t k = 0; k < COUNT_OF(MUTATIONS); k++) {
        int applied = 0, found = 0, rounds = rounds_of(ROUNDS),
            wanted = rounds < 20 ? 1 : rounds / 20;
        for (int round = 0; round < rounds || (applied < wanted && round < ROUNDS); round++) {
            struct rng rng;
            rng_seed(&rng, (uint64_t)round);
            struct plan *plan = any_plan(&rng);
            struct graph *graph = compile(plan, chance(&rng, 2) ? FOLD_ALWAYS : FOLD_NEVER);
            bool changed = false;
            for (int tries = 0; tries < 40 && !changed && graph->tasks; tries++)
                changed = MUTATIONS[k].apply(&rng, graph);
            applied += changed;
            found += changed && graph_verify(graph) != WEFT_OK;
            graph_free(graph);
            plan_free(plan);
        }
        if (applied < wanted || !enough_found(found, applied, MUTATIONS[k].least, rounds >= ROUNDS))
            fail_msg("%s: %d of %d found, %d rounds", MUTATIONS[k].name, found, applied, rounds);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_plans_are_equivalent),
        cmocka_unit_test(test_todays_models_are_equivalent),
        cmocka_unit_test(test_a_gather_takes_what_came_for_its_reader),
        cmocka_unit_test(test_small_buckets_are_not_divided),
        cmocka_unit_test(test_frozen_stages_get_no_gradients),
        cmocka_unit_test(test_mutations_are_found),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
