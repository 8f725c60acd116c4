/* test_products.c - products that run beside their own collectives (compile/blocks.c, I6).
 *
 *   P1  max(p, c + p / n) is what a ring takes, chunk by chunk and round by round, whenever the collective
 *       has begun, and the same backwards in time.
 *   P2  Blocks take what the items of the same plan without `products` do when every product beside its
 *       collective is done chunk by chunk and round by round.
 *   P3  Without sequence parallelism nothing changes; with it operators take what they took, and nothing
 *       takes longer.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "random_plan.h"
#include "sim/item_cost.h"
#include "sim/sim.h"

/* ---- rings ----------------------------------------------------------------------------------- */

/* When a product is over that begins now, whose chunks but the first come in rounds from `began` on. */
static double gathered_end(double now, double product, double began, double collective, int64_t n)
{
    for (int64_t chunk = 0; chunk < n; chunk++) {
        double there =
            chunk ? began + (double)chunk * collective / (double)(n - 1) : now; /* its own */
        now = fmax(now, there) + product / (double)n;
    }
    return now;
}

/* When what a product makes from `began` on is scattered: a round after each chunk but the last, which
 * stays. No round begins before `now`. */
static double scattered_end(double now, double product, double began, double collective, int64_t n)
{
    for (int64_t chunk = 0; chunk < n - 1; chunk++) {
        double made = began + (double)(chunk + 1) * product / (double)n;
        now = fmax(now, made) + collective / (double)(n - 1);
    }
    return now;
}

static void rings_take_the_longer(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 1);
    for (int i = 0; i < rounds_of(20000); i++) {
        int64_t n = 2 + rng_below(&rng, 30);
        double p = (double)rng_below(&rng, 1000), c = (double)rng_below(&rng, 1000);
        double late = chance(&rng, 2) ? 0 : (double)rng_below(&rng, 1000); /* after its start */
        double expected = fmax(p, fmax(0, c - late) + p / (double)n);
        assert_true(fabs(gathered_end(late, p, 0, c, n) - late - expected) < 1e-6);
        double all = fmax(p, scattered_end(0, p, 0, c, n));
        assert_true(fabs(all - fmax(p, c + p / (double)n)) < 1e-6);
    }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* A plan on the devices of one node, simulated without `products`. */
struct chunked {
    struct plan *plan;
    struct prediction *p;
    const struct block *block;
    const int64_t *ns;
    double *start, *end; /* per item */
    double lane[2];
    int64_t hidden, shown; /* collectives that are shorter than what is beside them, and longer */
};

static bool in_layer(const struct chunked *c, int64_t instance)
{
    struct arena *scratch = arena_new();
    bool is = strncmp(plan_path(scratch, c->plan, instance), "layers.", 7) == 0;
    arena_free(scratch);
    return is;
}

static bool is_linear(const struct chunked *c, const struct item *item)
{
    const struct plan *plan = c->plan;
    return item->kind == ITEM_OP && in_layer(c, item->instance) &&
           plan->model->op[plan->instance[item->instance].op].kind == OP_LINEAR;
}

static bool is_step(const struct chunked *c, int32_t item, enum collective collective)
{
    return item >= 0 && c->block->item[item].kind == ITEM_STEP &&
           c->block->item[item].step->kind == (int32_t)collective;
}

static double latest(const struct chunked *c, int32_t i)
{
    const struct item *item = &c->block->item[i];
    return fmax(c->lane[item->kind], item->needs >= 0 ? c->end[item->needs] : 0);
}

static void note_ring(struct chunked *c, double product, int64_t n, double collective)
{
    bool hidden = product * (double)(n - 1) / (double)n >= collective;
    *(hidden ? &c->hidden : &c->shown) += 1;
}

/* Products that follow each other and read what one step brings are one; the last of them. */
static int32_t last_of_product(const struct chunked *c, int32_t first, double *ns)
{
    int32_t last = first;
    const struct item *item = c->block->item;
    *ns = (double)c->ns[first];
    while (last + 1 < c->block->items && item[last + 1].needs == item[first].needs &&
           item[first].phase == PHASE_FORWARD && is_linear(c, &item[last + 1]))
        *ns += (double)c->ns[++last];
    return last;
}

/* Whether the product with this item reads what a gather brings. */
static bool reads_gathered(const struct chunked *c, int32_t i)
{
    const struct item *item = &c->block->item[i];
    if (!is_linear(c, item) || !is_step(c, item->needs, COLLECTIVE_ALL_GATHER))
        return false;
    int flow = c->block->item[item->needs].phase;
    return (item->phase == PHASE_FORWARD && flow == FLOW_FORWARD) ||
           (item->phase == PHASE_BACKWARD_INPUT && flow == FLOW_GRADIENT);
}

static bool scatters_product(const struct chunked *c, int32_t i)
{
    const struct item *item = &c->block->item[i];
    return is_step(c, i, COLLECTIVE_REDUCE_SCATTER) && item->phase == FLOW_FORWARD &&
           item->needs == i - 1 && is_linear(c, &c->block->item[i - 1]);
}

/* Puts an item after what it waits for; the last item that this was about. */
static int32_t put(struct chunked *c, int32_t i)
{
    const struct item *item = &c->block->item[i];
    int32_t last = i;
    double ns = (double)c->ns[i];
    c->start[i] = latest(c, i);
    if (reads_gathered(c, i)) {
        int64_t n = step_members(c->block->item[item->needs].step);
        last = last_of_product(c, i, &ns);
        c->start[i] = fmax(c->lane[ITEM_OP], c->start[item->needs]);
        double collective = c->end[item->needs] - c->start[item->needs];
        c->end[i] = gathered_end(c->start[i], ns, c->start[item->needs], collective, n);
        note_ring(c, ns, n, collective);
    } else if (scatters_product(c, i)) {
        int64_t n = step_members(item->step);
        double product = (double)c->ns[i - 1];
        c->end[i] = scattered_end(c->lane[ITEM_STEP], product, c->start[i - 1], ns, n);
        note_ring(c, product, n, ns);
    } else {
        c->end[i] = c->start[i] + ns;
    }
    for (int32_t k = i + 1; k <= last; k++)
        c->end[k] = c->end[i];
    c->lane[item->kind] = c->end[i];
    return last;
}

static double block_end(struct chunked *c, int32_t block)
{
    c->block = &c->p->graph->block[block];
    c->ns = c->p->lane_ns + c->p->lane_first[block];
    c->start = calloc((size_t)c->block->items, sizeof *c->start);
    c->end = calloc((size_t)c->block->items, sizeof *c->end);
    c->lane[0] = c->lane[1] = 0;
    for (int32_t i = 0; i < c->block->items; i++)
        i = put(c, i);
    free(c->start);
    free(c->end);
    return fmax(c->lane[0], c->lane[1]);
}

static struct prediction *simulated(const struct plan *plan)
{
    struct prediction *p;
    if (simulate(plan, &(struct simulate_options){.fold = FOLD_ALWAYS}, &p) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    return p;
}

/* The time of the first task that is all of a block. */
static int64_t task_of_block(const struct prediction *p, int32_t block)
{
    for (int32_t t = 0; t < p->graph->tasks; t++)
        if (p->graph->task[t].block == block &&
            p->graph->task[t].items == p->graph->block[block].items)
            return p->engine.task_ns[t];
    fail_msg("block %d is in pieces", block);
    return 0;
}

static const char *const MODELS[] = {
    "{layers: 2, hidden: 1024, heads: 16, seq: 1024, vocab: 1024}",
    "{layers: 1, hidden: 4096, heads: 32, seq: 2048, vocab: 1024}",
    "{layers: 2, hidden: 2048, heads: 16, kv_heads: 8, ffn: 8192, seq: 2048, vocab: 1024}",
    "{layers: 1, hidden: 8192, heads: 64, kv_heads: 8, apart: true, ffn: 28672, seq: 4096}",
};

static struct plan *draw_plan(struct rng *rng, const struct model *model,
                              const struct cluster *cluster)
{
    struct degrees d = {.tp = INT64_C(1) << (1 + rng_below(rng, 3)),
                        .sequence = true,
                        .micro_batch = 1 + rng_below(rng, 4),
                        .recompute = (enum recompute)rng_below(rng, RECOMPUTE_COUNT),
                        .has_overlap = true,
                        .overlap = chance(rng, 3) ? 0 : OVERLAP_TENSOR};
    struct plan *plan = NULL;
    d.cp = d.tp < 8 && chance(rng, 3)
               ? 2
               : 1; /* beside it, a product's own part of the sequence is a half */
    d.dp = cluster_devices(cluster) / d.tp / d.cp;
    d.global_batch = d.dp * d.micro_batch;
    if (plan_from_degrees(model, cluster, &d, &plan) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    return plan;
}

static void compare_blocks(struct chunked *c)
{
    c->p = simulated(c->plan);
    c->plan->overlap |= OVERLAP_PRODUCTS;
    struct prediction *beside = simulated(c->plan);
    for (int32_t b = 0; b < c->p->graph->blocks; b++) {
        double expected = block_end(c, b), found = (double)task_of_block(beside, b);
        double rounding =
            2.0 * beside->graph->block[b].items; /* a ns for each item's time and end */
        if (fabs(expected - found) > rounding)
            fail_msg("block %d takes %.0f ns, chunk by chunk %.0f", b, found, expected);
    }
    prediction_free(beside);
    prediction_free(c->p);
}

static void blocks_go_chunk_by_chunk(void **state)
{
    (void)state;
    static const char *const CLUSTERS[] = {"dgx-a100:1", "titan-rtx:1"};
    struct chunked c = {0};
    struct rng rng;
    rng_seed(&rng, 2);
    for (size_t k = 0; k < COUNT_OF(CLUSTERS); k++) {
        struct cluster *cluster = open_named(CLUSTERS[k]);
        cluster->node.device.overlap_slowdown = 1; /* rings are counted without */
        for (size_t m = 0; m < COUNT_OF(MODELS); m++) {
            struct model *model =
                open_small(&(struct small_model){m < 2 ? "gpt" : "llama", MODELS[m]});
            for (int i = 0; i < rounds_of(12); i++) {
                c.plan = draw_plan(&rng, model, cluster);
                compare_blocks(&c);
                plan_free(c.plan);
            }
            model_free(model);
        }
        cluster_free(cluster);
    }
    assert_true(c.hidden > 0);
    assert_true(c.shown > 0);
}

/* ---- attention (I7) -------------------------------------------------------------------------- */

static const char RING_MODEL[] =
    "{layers: 2, hidden: 1024, heads: 8, kv_heads: 4, ffn: 1024, seq: 4096, vocab: 1024}";

static bool is_attention(const struct plan *plan, const struct item *item)
{
    return plan->model->op[plan->instance[item->instance].op].kind == OP_ATTENTION;
}

/* What attention takes in a block, on the device. */
static double attention_in(const struct plan *plan, const struct prediction *p, int32_t b)
{
    const struct block *block = &p->graph->block[b];
    double ns = 0;
    for (int32_t i = 0; i < block->items; i++)
        if (block->item[i].kind == ITEM_OP && is_attention(plan, &block->item[i]))
            ns += (double)p->lane_ns[p->lane_first[b] + i];
    return ns;
}

/* A forward pass does one thing after the other but for attention, p, and the collectives of its keys and values, c
 * together: these take max(p, c + p / n) in each of two layers. p is the ring's own, with what its steps take to begin and to
 * merge (sim/ring_kernels.c). */
static double ring_forward_ns(const struct plan *plan, const struct prediction *without, double p,
                              int64_t n)
{
    const struct block *block = without->graph->block;
    double all = 0, steps = 0;
    for (int32_t i = 0; i < block->items; i++) {
        double ns = (double)without->lane_ns[without->lane_first[0] + i];
        bool attention = is_attention(plan, &block->item[i]);
        bool step = attention && block->item[i].kind == ITEM_STEP && block->item[i].operand > 0;
        steps += step ? ns : 0;
        if (attention && block->item[i].kind == ITEM_OP) {
            all += fmax(p, steps + p / (double)n);
            steps = 0;
        } else if (!step) {
            all += ns;
        }
    }
    return all;
}

static struct plan *context_plan(const struct model *model, const struct cluster *cluster,
                                 enum cp_kind kind, int64_t cp)
{
    struct degrees d = {.cp = cp, .dp = 8 / cp};
    struct plan *plan;
    cp_kind_set(kind, &d);
    if (plan_from_degrees(model, cluster, &d, &plan) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    return plan;
}

static void rings_take_attention_or_transfers(void **state)
{
    (void)state;
    static const char *const CLUSTERS[] = {"dgx-a100:1", "titan-rtx:1"};
    struct model *model = open_small(&(struct small_model){"llama", RING_MODEL});
    for (size_t k = 0; k < COUNT_OF(CLUSTERS); k++) {
        struct cluster *cluster = open_named(CLUSTERS[k]);
        cluster->node.device.overlap_slowdown = 1;
        for (int64_t cp = 2; cp <= 8; cp *= 2) {
            struct plan *gather = context_plan(model, cluster, CP_GATHER, cp);
            struct plan *ring = context_plan(model, cluster, CP_RING, cp);
            assert_int_equal(software_set(&gather->software, "host", "graphs"), WEFT_OK);
            assert_int_equal(software_set(&ring->software, "host", "graphs"), WEFT_OK);
            struct prediction *without = simulated(gather), *with = simulated(ring);
            double forward = attention_in(ring, with, 0);
            double expected = ring_forward_ns(gather, without, forward / 2, cp), merges = 0;
            assert_true(fabs(expected - (double)task_of_block(with, 0)) <
                        2.0 * with->graph->block[0].items);
            for (int32_t b = 0; b < with->graph->blocks; b++)
                merges += attention_in(ring, with, b) - attention_in(gather, without, b);
            assert_true(merges > 0 &&
                        (double)with->iteration_ns < (double)without->iteration_ns + merges);
            prediction_free(with);
            prediction_free(without);
            plan_free(ring);
            plan_free(gather);
        }
        cluster_free(cluster);
    }
    model_free(model);
}

/* 4,096 positions over 4 devices, 1,024 features of queries, 512 each of keys and values, 2 bytes each.
 *   ring, gather  keys and values whole: 4096 * 512 * 2 = 4 MiB each
 *   a2a           a device's part of the queries, 1024 * 1024 * 2 = 2 MiB, of keys and values 1 MiB each, and back of
 *                 the output 2 MiB (Ulysses: (2 H + 2 G) S / cp)
 *   a2a+ring      the same among 2 devices; then keys and values of half the heads round rings of 2: 2 MiB each */
static void kinds_move_what_their_formulas_say(void **state)
{
    (void)state;
    static const int64_t MIB = 1 << 20;
    static const struct {
        enum cp_kind kind;
        int64_t exchanged, gathered; /* MiB per layer: all-to-all, all-gather */
    } CASES[] = {{CP_RING, 0, 8}, {CP_GATHER, 0, 8}, {CP_A2A, 6, 0}, {CP_A2A_RING, 6, 4}};
    struct model *model = open_small(&(struct small_model){"llama", RING_MODEL});
    struct cluster *cluster = open_named("dgx-a100:1");
    for (size_t k = 0; k < COUNT_OF(CASES); k++) {
        struct plan *plan = context_plan(model, cluster, CASES[k].kind, 4);
        plan->dtype = DTYPE_BF16;
        struct prediction *p = simulated(plan);
        const struct block *block = p->graph->block;
        int64_t moved[COLLECTIVE_COUNT] = {0};
        for (int32_t i = 0; i < block->items; i++)
            if (block->item[i].kind == ITEM_STEP)
                moved[block->item[i].step->kind] += block->item[i].bytes;
        assert_int_equal(moved[COLLECTIVE_ALL_TO_ALL], 2 * CASES[k].exchanged * MIB);
        assert_int_equal(moved[COLLECTIVE_ALL_GATHER], 2 * CASES[k].gathered * MIB);
        prediction_free(p);
        plan_free(plan);
    }
    cluster_free(cluster);
    model_free(model);
}

/* Of one device, forward. */
static double attention_ns(const struct plan *plan)
{
    struct arena *scratch = arena_new();
    struct cost *cost;
    double ns = 0;
    assert_int_equal(cost_open(&plan->cluster->node.device, NULL, &cost), WEFT_OK);
    struct item_costs costs = item_costs_of(scratch, plan, cost);
    for (int64_t i = 0; i < plan->instances && ns == 0; i++)
        if (plan->model->op[plan->instance[i].op].kind == OP_ATTENTION)
            ns = (double)item_cost(&costs, i, PHASE_FORWARD)->device.ns;
    cost_close(cost);
    arena_free(scratch);
    return ns;
}

/* Of four consecutive parts of a triangle, 1, 3, 5 and 7 sixteenths, the last is 7 / 4 of the mean. */
static void consecutive_positions_are_uneven(void **state)
{
    (void)state;
    struct model *model = open_small(&(struct small_model){"llama", RING_MODEL});
    struct cluster *cluster = open_named("dgx-a100:1");
    struct plan *plan = context_plan(model, cluster, CP_GATHER, 4);
    double balanced = attention_ns(plan);
    assert_int_equal(software_set(&plan->software, "sequences", "consecutive"), WEFT_OK);
    assert_true(fabs(attention_ns(plan) - 1.75 * balanced) <= 2);
    plan_free(plan);
    cluster_free(cluster);
    model_free(model);
}

/* ---- plans ----------------------------------------------------------------------------------- */

static int64_t operators_ns(const struct prediction *p)
{
    int64_t sum = 0;
    for (int32_t b = 0; b < p->graph->blocks; b++)
        for (int32_t i = 0; i < p->graph->block[b].items; i++)
            if (p->graph->block[b].item[i].kind == ITEM_OP)
                sum += p->lane_ns[p->lane_first[b] + i];
    return sum;
}

static bool has_rests(const struct graph *graph)
{
    for (int32_t b = 0; b < graph->blocks; b++)
        for (int32_t i = 0; i < graph->block[b].items; i++)
            if (graph->block[b].item[i].rest)
                return true;
    return false;
}

/* One stage: elsewhere a flow that comes earlier may meet another. */
static void nothing_takes_longer(void **state)
{
    (void)state;
    struct cluster *cluster = open_named("dgx-a100:1");
    struct rng rng;
    int found = 0;
    rng_seed(&rng, 3);
    cluster->node.device.overlap_slowdown = 1;
    for (size_t m = 0; m < COUNT_OF(MODELS); m++) {
        struct model *model = open_small(&(struct small_model){m < 2 ? "gpt" : "llama", MODELS[m]});
        for (int i = 0; i < rounds_of(8); i++) {
            struct degrees d = {.tp = INT64_C(1) << (1 + rng_below(&rng, 3)),
                                .sequence = chance(&rng, 2),
                                .recompute = (enum recompute)rng_below(&rng, RECOMPUTE_COUNT)};
            struct plan *plan;
            assert_int_equal(plan_from_degrees(model, cluster, &d, &plan), WEFT_OK);
            struct prediction *without = simulated(plan);
            plan->overlap |= OVERLAP_PRODUCTS;
            struct prediction *with = simulated(plan);
            assert_int_equal(has_rests(with->graph), d.sequence);
            assert_true(llabs(operators_ns(with) - operators_ns(without)) <
                        2 * plan->instances); /* stretched times are rounded */
            if (d.sequence)
                assert_true(with->iteration_ns < without->iteration_ns);
            else
                assert_int_equal(with->iteration_ns, without->iteration_ns);
            found += d.sequence;
            prediction_free(with);
            prediction_free(without);
            plan_free(plan);
        }
        model_free(model);
    }
    assert_true(found > 0);
    cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rings_take_the_longer),
        cmocka_unit_test(blocks_go_chunk_by_chunk),
        cmocka_unit_test(nothing_takes_longer),
        cmocka_unit_test(rings_take_attention_or_transfers),
        cmocka_unit_test(kinds_move_what_their_formulas_say),
        cmocka_unit_test(consecutive_positions_are_uneven),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
