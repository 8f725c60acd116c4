/* test_link_loads.c - which links carry most, and what the caching allocator reserves.
 *
 *   L1  What a link carries is what its transfers put there: no more and no less where they are parts of a
 *       run of operators, and where one device stands for others.
 *   L2  busy = bytes / (bandwidth * iteration); the busiest comes first.
 *   L3  Reserved is what the allocator says when every slot is played, twice, with Adam's moments made weight
 *       by weight in between; of as many micro-batches as fill the pipeline (a multiple of its stages) and a
 *       round more.
 *   L4  Communicators' buffers follow from the groups that a stage's devices are in.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "made_plan.h"
#include "sim/allocator.h"
#include "sim/player.h"
#include "sim/sim.h"

static void near(double a, double b)
{
    if (fabs(a - b) > 1e-6 * fabs(b))
        fail_msg("%.9g, not %.9g", a, b);
}

static struct prediction *predicted(const struct plan *plan, enum fold fold)
{
    struct simulate_options options = {.fold = fold};
    struct prediction *prediction;
    if (simulate(plan, &options, &prediction))
        fail_msg("%s", weft_last_error()->message);
    return prediction;
}

/* ---- links ----------------------------------------------------------------------------------- */

enum { MOST_LINKS = 64 };

/* Several groups share the NICs of a node, of which dgx-v100 has one for two devices. */
static const struct {
    const char *cluster;
    struct degrees degrees;
} PLANS[] = {
    {"dgx-v100:2", {.tp = 8, .has_overlap = true}},
    {"dgx-v100:2", {.tp = 2, .pp = 2, .micro_batch = 2, .sequence = true, .has_overlap = true}},
    {"dgx-v100:2x4", {.tp = 4, .shard = 3, .has_overlap = true}},
    {"dgx-v100:2",
     {.tp = 4, .pp = 2, .has_overlap = true}}, /* what was sent in parts is gathered first */
};

static void put_flow(const struct prediction *p, int32_t flow, double times, double *bytes)
{
    const struct engine_graph *g = &p->engine;
    for (int64_t u = g->flow_use_first[flow]; u < g->flow_use_first[flow + 1]; u++)
        bytes[g->flow_use[u].link] += times * g->flow_use[u].bytes * g->flow_use[u].times;
}

/* L1, folded: every step of every block once per micro-batch, whatever tasks it is part of, and what is no step. */
static double *bytes_of_links(struct arena *keep, const struct prediction *p)
{
    double *bytes = ARENA_ARRAY(keep, double, (size_t)p->engine.links);
    const struct graph *graph = p->graph;
    for (int32_t t = 0; t < graph->tasks; t++)
        if (graph->task[t].exchange >= 0 && graph->task[t].block < 0)
            put_flow(p, graph->task[t].exchange, 1, bytes);
    for (int32_t b = 0; b < graph->blocks; b++)
        for (int32_t i = 0; i < graph->block[b].items; i++)
            if (graph->block[b].item[i].kind == ITEM_STEP && graph->block[b].item[i].exchange >= 0)
                put_flow(p, graph->block[b].item[i].exchange, (double)plan_micro_batches(p->plan),
                         bytes);
    return bytes;
}

static void check_loads(struct arena *keep, const struct prediction *p,
                        const struct link_load *load, int32_t count)
{
    double seconds = (double)p->iteration_ns * 1e-9;
    const double *bytes = p->graph->folded ? bytes_of_links(keep, p) : NULL;
    assert_true(count > 0);
    for (int32_t i = 0; bytes && i < count; i++)
        for (int32_t l = 0; l < p->engine.links; l++)
            if (memcmp(&p->link[l], &load[i].link, sizeof load[i].link) == 0)
                near(load[i].bytes, bytes[l]);
    for (int32_t i = 0; i < count; i++) { /* L2 */
        double rate = link_reached_per_s(p->plan->cluster, load[i].link);
        near(load[i].busy, load[i].bytes / rate / seconds);
        assert_true(i == 0 || load[i].busy <= load[i - 1].busy);
    }
}

/* What the link of this name carries. */
static double bytes_on(struct arena *keep, const struct prediction *p, const struct link_load *load,
                       int32_t count, const char *name)
{
    for (int32_t i = 0; i < count; i++)
        if (strcmp(link_text(keep, p->plan->cluster, load[i].link), name) == 0)
            return load[i].bytes;
    return 0;
}

static void links_carry_what_is_sent(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(PLANS); i++) {
        struct degrees d = PLANS[i].degrees;
        struct made m = make("gpt3-350m", "layers: 4", PLANS[i].cluster, &d);
        struct link_load *inside, *apart, *each;
        struct prediction *p[3];
        m.plan->overlap = 0; /* exchanges of tensors are parts of runs, */
        p[0] = predicted(m.plan, FOLD_ALWAYS);
        p[1] = predicted(m.plan, FOLD_NEVER);
        int32_t count = link_loads(m.arena, p[0], MOST_LINKS, &inside);
        int32_t unfolded = link_loads(m.arena, p[1], MOST_LINKS, &each);
        check_loads(m.arena, p[0], inside, count);
        check_loads(m.arena, p[1], each, unfolded);
        near(inside[0].bytes, each[0].bytes); /* L1 */
        m.plan->overlap = OVERLAP_TENSOR;     /* or tasks */
        p[2] = predicted(m.plan, FOLD_ALWAYS);
        int32_t tasks = link_loads(m.arena, p[2], MOST_LINKS, &apart);
        check_loads(m.arena, p[2], apart, tasks);
        for (int32_t k = 0; k < count; k++)
            near(bytes_on(m.arena, p[2], apart, tasks,
                          link_text(m.arena, m.cluster, inside[k].link)),
                 inside[k].bytes);
        for (size_t k = 0; k < COUNT_OF(p); k++)
            prediction_free(p[k]);
        unmake(&m);
    }
}

/* The last stage has the head beside as many layers: it waits least. */
/* 4,096 micro-batches of which some hundred are simulated: the links are as busy as with all of them. */
static void links_are_as_busy_in_part(void **state)
{
    (void)state;
    struct degrees d = {.tp = 2, .pp = 4, .global_batch = 4096};
    struct made m = make("gpt3-350m", "layers: 4", "dgx-a100:1", &d);
    struct simulate_options briefly = {.fold = FOLD_ALWAYS, .briefly = true};
    struct link_load *some, *all;
    struct prediction *part, *whole = predicted(m.plan, FOLD_ALWAYS);
    assert_int_equal(simulate(m.plan, &briefly, &part), WEFT_OK);
    assert_true(plan_micro_batches(part->graph->plan) < 1000);
    assert_int_equal(link_loads(m.arena, part, 1, &some), 1);
    assert_int_equal(link_loads(m.arena, whole, 1, &all), 1);
    assert_true(fabs(some->busy / all->busy - 1) < 0.2);
    prediction_free(part);
    prediction_free(whole);
    unmake(&m);
}

static void the_busiest_stage_waits_least(void **state)
{
    (void)state;
    struct degrees d = {.pp = 4, .global_batch = 32};
    struct made m = make("gpt3-350m", "layers: 8", "dgx-a100", &d);
    struct prediction *p = predicted(m.plan, FOLD_ALWAYS);
    for (int32_t s = 0; s < m.plan->stages; s++)
        assert_true(p->stage[p->busiest].time_ns[TIME_BUBBLE] <= p->stage[s].time_ns[TIME_BUBBLE]);
    assert_int_equal(p->busiest, 3);
    prediction_free(p);
    unmake(&m);
}

/* ---- reserved -------------------------------------------------------------------------------- */

struct slow {
    const struct plan *plan;
    const struct graph *graph;
    int32_t stage;
    struct allocator *allocator;
    struct slots slots;
    int32_t **handle; /* per piece: per micro-batch, per life */
};

static void play_all(const struct slow *s)
{
    for (size_t k = 0; k < s->slots.len; k++) {
        const struct slot *slot = &s->slots.data[k];
        const struct part_lifetimes *part =
            &s->graph->lifetimes->part[slot->piece * s->plan->stages + s->stage];
        const struct memory_events *events = &part->events[slot->kind];
        int32_t *handle = s->handle[slot->piece] + slot->micro_batch * part->lives;
        for (int32_t i = 0; i < events->count; i++) {
            const struct memory_event *m = &events->event[i];
            if (m->gives)
                allocator_give(s->allocator, handle[m->life]);
            else
                handle[m->life] = allocator_take_bytes(s->allocator, part->life[m->life].bytes);
        }
    }
}

static double parameters_at(const struct plan *plan, int64_t instance)
{
    const struct op *op = &plan->model->op[plan->instance[instance].op];
    int64_t local[OP_MAX_DIMS];
    double sum = 0;
    split_local(op, &plan_choice(plan, instance)->split, plan->step_samples, local);
    for (int32_t i = 0; i < op->weights; i++)
        sum += operand_elements(op, &op->weight[i].operand, local);
    return sum;
}

/* So many bytes as two tensors for each weight; without `stays` they are given back. */
static void take_two_each(const struct slow *s, double bytes, bool stays)
{
    double all = 0;
    int64_t count = 0;
    struct arena *scratch = arena_new();
    int32_t *handles = ARENA_ARRAY(scratch, int32_t, (size_t)(2 * s->plan->instances));
    for (int64_t i = 0; i < s->plan->instances; i++)
        if (plan_part_of(s->plan, i) % s->plan->stages == s->stage)
            all += parameters_at(s->plan, i);
    for (int64_t i = 0; i < s->plan->instances; i++)
        for (int moment = 0; moment < 2; moment++)
            if (plan_part_of(s->plan, i) % s->plan->stages == s->stage &&
                parameters_at(s->plan, i) > 0)
                handles[count++] = allocator_take_bytes(
                    s->allocator, (int64_t)(bytes / 2 * parameters_at(s->plan, i) / all));
    for (int64_t i = 0; i < count && !stays; i++)
        allocator_give(s->allocator, handles[i]);
    arena_free(scratch);
}

/* The optimizer's step: its moments are new in the first one; copies of gradients come and go. */
static void take_step(const struct slow *s, const struct state *state, double moments)
{
    if (moments > 0)
        take_two_each(s, moments, true);
    if (state->step > 0)
        take_two_each(s, (double)state->step, false);
}

static int64_t reserved_slowly(struct arena *scratch, const struct prediction *p, int32_t stage,
                               int32_t micro_batches)
{
    const struct plan *plan = p->plan;
    struct slow s = {plan, p->graph, stage, allocator_new(scratch, &(struct allocator_options){0}),
                     {0},  NULL};
    struct state state = state_of(scratch, plan, stage, 0);
    struct pipeline pipeline = {plan->stages, (int32_t)plan->pieces, micro_batches};
    bool copy = plan->policy != POLICY_FP32 && plan->policy != POLICY_PURE_BF16;
    /* of Adam's 12 bytes with a copy of the weights in fp32, 8 are its two moments; of 8 or 4, all */
    double moments = (double)state.bytes[MEMORY_OPTIMIZER] * (copy ? 8.0 / 12 : 1);
    s.handle = ARENA_ARRAY(scratch, int32_t *, (size_t)plan->pieces);
    for (int32_t i = 0; i < plan->pieces; i++)
        s.handle[i] =
            ARENA_ARRAY(scratch, int32_t,
                        (size_t)(pipeline.micro_batches *
                                 p->graph->lifetimes->part[i * plan->stages + stage].lives));
    schedule_order(plan_schedule(plan), &pipeline, stage, scratch, &s.slots);
    allocator_take_bytes(s.allocator, state.bytes[MEMORY_WEIGHTS]);
    allocator_take_bytes(s.allocator, state.bytes[MEMORY_GRADIENTS]);
    allocator_take_bytes(s.allocator, state.bytes[MEMORY_OPTIMIZER] - (int64_t)moments);
    allocator_take_bytes(s.allocator, state.stand_ins);
    allocator_take_bytes(s.allocator, state.buffer);
    play_all(&s);
    take_step(&s, &state, moments);
    play_all(&s);
    take_step(&s, &state, 0);
    return allocator_use(s.allocator)->reserved_peak;
}

#define POLICY(name) .has_policy = true, .policy = POLICY_##name

static void reserved_is_what_playing_all_slots_says(void **state)
{
    (void)state;
    /* 1f1b on p stages is full with p micro-batches; interleaved pieces v on stage s with the first multiple m
     * of p for which m v is at least 2 (p - s - 1) + (v - 1) p + 1: 11, 9, 7 and 5; gpipe never is. */
    static const struct {
        struct degrees degrees;
        int32_t played[4];
    } ROWS[] = {
        {{.tp = 2, .micro_batch = 2, .global_batch = 64}, {2}},
        {{.tp = 2, .pp = 2, .global_batch = 32, .shard = 1, POLICY(DISTRIBUTED)}, {4, 4}},
        {{.pp = 4, .global_batch = 32, .has_dtype = true, .dtype = DTYPE_FP32}, {8, 8, 8, 8}},
        {{.pp = 4, .pieces = 2, .global_batch = 64, .recompute = RECOMPUTE_FULL}, {12, 12, 8, 8}},
        {{.pp = 2, .global_batch = 64, POLICY(PURE_BF16)}, {4, 4}},
        {{.pp = 4, .global_batch = 16, .schedule = "gpipe"}, {8, 8, 8, 8}},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct made m = make("gpt3-350m", "layers: 8, seq: 512", "dgx-a100", &ROWS[i].degrees);
        struct prediction *p = predicted(m.plan, FOLD_ALWAYS);
        for (int32_t s = 0; s < m.plan->stages; s++) {
            struct arena *scratch = arena_new();
            assert_int_equal(p->stage[s].memory.reserved,
                             reserved_slowly(scratch, p, s, ROWS[i].played[s]));
            arena_free(scratch);
        }
        prediction_free(p);
        unmake(&m);
    }
}

/* Plans that differ in little: a cache that took one stage for another would show it. */
static void what_is_kept_is_what_a_replay_says(void **state)
{
    (void)state;
    static const struct degrees ROWS[] = {
        {.pp = 2, .global_batch = 64},
        {.pp = 2, .global_batch = 64, POLICY(PURE_BF16)},
        {.pp = 2, .global_batch = 64, .shard = 1},
        {.pp = 2, .global_batch = 64, .shard = 3, POLICY(FSDP)},
        {.pp = 2, .global_batch = 64, .recompute = RECOMPUTE_FULL},
        {.pp = 2, .global_batch = 64, .recompute = RECOMPUTE_FULL, .offload = true},
        {.pp = 2, .global_batch = 64, .schedule = "zb-h1"},
        {.pp = 2, .pieces = 2, .global_batch = 64},
        {.pp = 2, .pieces = 4, .global_batch = 64},
    };
    struct reserved_cache *kept = reserved_cache_new();
    for (size_t i = 0; i < 2 * COUNT_OF(ROWS); i++) {
        struct made m =
            make("gpt3-350m", "layers: 8, seq: 512", "dgx-a100", &ROWS[i % COUNT_OF(ROWS)]);
        struct simulate_options options = {.fold = FOLD_ALWAYS, .reserved = kept};
        struct prediction *p = predicted(m.plan, FOLD_ALWAYS), *with;
        assert_int_equal(simulate(m.plan, &options, &with), WEFT_OK);
        for (int32_t s = 0; s < m.plan->stages; s++)
            assert_int_equal(with->stage[s].memory.reserved, p->stage[s].memory.reserved);
        prediction_free(with);
        prediction_free(p);
        unmake(&m);
    }
    reserved_cache_free(kept);
}

/* ---- communicators (L4) ---------------------------------------------------------------------- */

/* In a node of A100 a ring is 24 channels of 12 MiB, 288 MiB, and an all-reduce has a tree beside it, 576; a peer
 * is 32 channels, 384 MiB. Between nodes a ring is 2 channels of 20 MiB for each device of the group in a node,
 * and everything that is sent goes through a pool of 128 MiB. */
static void communicators_follow_from_the_groups(void **state)
{
    (void)state;
    static const struct {
        const char *cluster;
        struct degrees degrees;
        int64_t mib;
        int32_t stage;
    } ROWS[] = {
        {"dgx-a100:1", {.tp = 8}, 576},
        {"dgx-a100:1", {.dp = 8}, 576},
        {"dgx-a100:1", {.dp = 8, .shard = 1}, 288}, /* scattered, gathered */
        {"dgx-a100:1",
         {.tp = 4, .pp = 2},
         576 + 384 + 576}, /* and the embedding, which two stages share */
        {"dgx-a100:1x1", {.dp = 1}, 0},
        {"dgx-a100:2",
         {.tp = 8, .dp = 2},
         576 + 2 * 2 * 20}, /* one device of a node in each group of dp */
        {"dgx-a100:2", {.dp = 16}, 2 * 2 * 8 * 20},
        {"dgx-a100:2", {.tp = 8, .pp = 2}, 576 + 128 + 2 * 2 * 20},
        {"dgx-a100:1",
         {.tp = 8, .memory.limit_bytes = INT64_C(8) << 30},
         0},                                    /* it is for tensors */
        {"titan-rtx:1", {.tp = 8}, 2 * 4 * 12}, /* PCIe: 4 channels */
        {"dgx-a100:1", {.tp = 2, .pp = 4}, 576 + 2 * 384, 1},
        {"dgx-a100:4", {.tp = 8, .pp = 4}, 576 + 128, 1}, /* one pool for both neighbours */
        {"dgx-a100:4", {.tp = 8, .pp = 4}, 576 + 128 + 2 * 2 * 20, 3},
        {"dgx-a100:2", {.tp = 4, .pp = 4}, 576 + 384 + 128, 1},
        {"dgx-a100:2", {.tp = 4, .pp = 4}, 576 + 128 + 384, 2},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct made m = make("gpt3-350m", "layers: 4, seq: 128", ROWS[i].cluster, &ROWS[i].degrees);
        struct prediction *p = predicted(m.plan, FOLD_ALWAYS);
        const struct stage_peak *memory = &p->stage[ROWS[i].stage].memory;
        if (memory->communicators != ROWS[i].mib << 20)
            fail_msg("row %zu: %lld MiB", i, (long long)(memory->communicators >> 20));
        int64_t own = m.plan->cluster->node.device.memory_bytes;
        assert_int_equal(memory->limit, ROWS[i].degrees.memory.limit_bytes
                                            ? ROWS[i].degrees.memory.limit_bytes
                                            : own);
        assert_int_equal(stage_needed(memory), memory->reserved + memory->context +
                                                   memory->communicators + memory->margin);
        prediction_free(p);
        unmake(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_busiest_stage_waits_least),
        cmocka_unit_test(links_carry_what_is_sent),
        cmocka_unit_test(links_are_as_busy_in_part),
        cmocka_unit_test(reserved_is_what_playing_all_slots_says),
        cmocka_unit_test(what_is_kept_is_what_a_replay_says),
        cmocka_unit_test(communicators_follow_from_the_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
