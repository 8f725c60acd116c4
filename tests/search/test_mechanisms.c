/* test_mechanisms.c - what frameworks do beside the plain degrees: proved, simulated alike folded and unfolded, estimated, and
 * by hand arithmetic. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "checked_plan.h"
#include "plan_text.h"
#include "sim/item_cost.h"

static void expect_sound(const struct plan *plan, const char *words)
{
    expect_proof(plan);
    double folded = simulated_s(plan, FOLD_ALWAYS), all = simulated_s(plan, FOLD_NEVER);
    if (fabs(folded / all - 1) > 1e-3)
        fail_msg("%s: %.6f s folded, %.6f s unfolded", words, folded, all);
    expect_estimate(plan, words, 0.02);
}

/* ---- recomputation by module ------------------------------------------------------------------ */

static void modules_are_estimated(void **state)
{
    (void)state;
    static const char *const WORDS[] = {"layernorm", "moe_act", "mla_up_proj",
                                        "core_attn,layernorm,mla_up_proj,moe_act", "layernorm,moe"};
    static const struct degrees PLANS[] = {
        {.dp = 4, .tp = 2, .ep = 4, .sequence = true, .global_batch = 8},
        {.dp = 2, .tp = 2, .pp = 2, .ep = 2, .schedule = "zb-h1", .global_batch = 8},
    };
    struct opened o = open_both(
        "deepseek-v3", "layers: 4, first_dense: 1, mtp: 0, seq: 512, experts: 8", "dgx-h100:1");
    struct arena *arena = arena_new();
    for (size_t i = 0; i < COUNT_OF(WORDS); i++) {
        struct degrees d = PLANS[i % COUNT_OF(PLANS)];
        assert_true(recompute_parse(arena, WORDS[i], &d));
        struct plan *plan = plan_of(&o, d);
        expect_sound(plan, WORDS[i]);
        plan_free(plan);
    }
    arena_free(arena);
    close_both(&o);
}

/* ---- experts that are not chosen evenly -------------------------------------------------------- */

/* The bytes of all steps that bring tokens to experts or back, on one device, forward. */
static double token_bytes(const struct plan *plan)
{
    struct graph *graph;
    double bytes = 0;
    assert_int_equal(graph_compile(plan, &(struct compile_options){FOLD_ALWAYS}, &graph), WEFT_OK);
    for (int32_t b = 0; b < graph->blocks; b++)
        for (int32_t i = 0; i < graph->block[b].items && graph->block[b].kind == SLOT_FORWARD; i++)
            bytes += graph->block[b].item[i].tokens ? (double)graph->block[b].item[i].bytes : 0;
    graph_free(graph);
    return bytes;
}

/* Rows of an operator on a device. */
static int64_t rows_of(const struct plan *plan, const char *path)
{
    int64_t local[OP_MAX_DIMS], instance = at(plan, path);
    const struct op *op = &plan->model->op[plan->instance[instance].op];
    split_local(op, &plan_choice(plan, instance)->split, plan->step_samples, local);
    return local[op_find_dim(op->kind, DIM_SEQ)];
}

/* 8 experts with exponent 1: 1 + 1/2 + ... + 1/8 = 2.7179, so the first is chosen by 36.8 % of the choices. With a device each
 * it has 8 * 0.368 = 2.943 even shares; on 4 devices of two experts 4 (0.368 + 0.632 / 7) = 1.833. Exponent 3: the sum is
 * 1.195, but no expert is chosen by more than half of the choices if a token has two of them: 8 / 2 = 4. */
static void the_fullest_device_has_its_tokens(void **state)
{
    (void)state;
    static const struct {
        const char *skew;
        int64_t ep;
        double fullest;
    } CASES[] = {{"0", 8, 1}, {"1", 8, 2.9435}, {"1", 4, 1.8329},
                 {"1", 1, 1}, {"3", 8, 4},      {"1, capacity: 1", 8, 1}};
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        char options[96];
        snprintf(options, sizeof options, "layers: 2, seq: 2048, expert_skew: %s", CASES[i].skew);
        struct opened o = open_both("mixtral-8x7b", options, "dgx-h100:1");
        struct opened even = open_both("mixtral-8x7b", "layers: 2, seq: 2048", "dgx-h100:1");
        struct degrees d = {.dp = 8, .ep = CASES[i].ep, .shard = 1, .global_batch = 16};
        struct plan *plan = plan_of(&o, d), *other = plan_of(&even, d);
        static const char *const PATHS[] = {"layers.1.mlp.experts.gate_up",
                                            "layers.1.mlp.experts.gated",
                                            "layers.1.mlp.experts.down"};
        for (size_t k = 0; k < COUNT_OF(PATHS); k++)
            assert_float_equal((double)rows_of(plan, PATHS[k]) / (double)rows_of(other, PATHS[k]),
                               CASES[i].fullest, 0.002); /* rows are whole */
        assert_float_equal(token_bytes(plan), CASES[i].fullest * token_bytes(other),
                           0.001 * token_bytes(other));
        if (CASES[i].ep > 1)
            expect_sound(plan, CASES[i].skew);
        plan_free(plan);
        plan_free(other);
        close_both(&o);
        close_both(&even);
    }
}

/* ---- documents that share a sequence ------------------------------------------------------------ */

static double work_flops(const struct plan *plan, const char *path)
{
    int64_t local[OP_MAX_DIMS], instance = at(plan, path);
    const struct op *op = &plan->model->op[plan->instance[instance].op];
    split_local(op, &plan_choice(plan, instance)->split, plan->step_samples, local);
    return op_work(op, local, plan->dtype, PHASE_FORWARD).flops;
}

static double attention_ns(const struct plan *plan)
{
    struct arena *arena = arena_new();
    struct cost *cost;
    assert_int_equal(cost_open(&plan->cluster->node.device, NULL, &cost), WEFT_OK);
    struct item_costs costs = item_costs_of(arena, plan, cost);
    int64_t instance = at(plan, "layers.0.attn.attention");
    double ns = (double)item_cost(&costs, instance, PHASE_FORWARD)->device.ns;
    cost_close(cost);
    arena_free(arena);
    return ns;
}

/* 32,768 positions in documents of 4,096: each sees an eighth of the keys. Lengths that vary as much as their mean (c = 1) ask
 * for twice as much, 4,096 (1 + 1). On cp 8 a rank has an eighth of that, if it has its share of every document. */
static void documents_do_not_see_each_other(void **state)
{
    (void)state;
    static const struct {
        const char *options;
        int64_t cp;
        double share; /* of the work of one document */
    } CASES[] = {{"document: 4096", 1, 1.0 / 8},
                 {"document: 4096, document_spread: 1", 1, 1.0 / 4},
                 {"document: 4096", 8, 1.0 / 64},
                 {"document: 3000", 1, 3000.0 / 32768},
                 {"document: 40000", 1, 1}};
    struct opened one = open_both("llama3-8b", "layers: 2, seq: 32768", "dgx-h100:1");
    struct plan *whole = plan_of(&one, (struct degrees){.tp = 8, .global_batch = 2});
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        char options[128];
        snprintf(options, sizeof options, "layers: 2, seq: 32768, %s", CASES[i].options);
        struct opened o = open_both("llama3-8b", options, "dgx-h100:1");
        struct degrees d = {.cp = CASES[i].cp, .tp = 8 / CASES[i].cp, .global_batch = 2};
        struct plan *plan = plan_of(&o, d);
        double heads = (double)CASES[i].cp; /* more of them on a device than with tp 8 */
        assert_float_equal(work_flops(plan, "layers.0.attn.attention") /
                               work_flops(whole, "layers.0.attn.attention") / heads,
                           CASES[i].share, 1e-4);
        expect_sound(plan, CASES[i].options);
        plan_free(plan);
        close_both(&o);
    }
    plan_free(whole);
    close_both(&one);
}

/* With consecutive positions on 8 ranks, the last has 2 - 1/8 of the mean of one document; documents of an eighth of the
 * sequence are each on one rank, and all ranks have as much; those of a quarter are on two: 2 - 1/2. */
static void documents_balance_consecutive_ranks(void **state)
{
    (void)state;
    static const struct {
        const char *options;
        double last;
    } CASES[] = {{"", 1.875}, {", document: 4096", 1}, {", document: 8192", 1.5}};
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        char options[128];
        snprintf(options, sizeof options, "layers: 2, seq: 32768%s", CASES[i].options);
        struct opened o = open_both("llama3-8b", options, "dgx-h100:1");
        struct degrees d = {.cp = 8, .global_batch = 2};
        struct plan *balanced = plan_of(&o, d);
        assert_int_equal(software_set(&d.software, "sequences", "consecutive"), WEFT_OK);
        struct plan *consecutive = plan_of(&o, d);
        assert_float_equal(attention_ns(consecutive) / attention_ns(balanced), CASES[i].last, 1e-3);
        plan_free(balanced);
        plan_free(consecutive);
        close_both(&o);
    }
}

/* The same in other families: a quarter of the keys, and 2.9435 even shares of 8 experts on 8 devices. */
static void other_families_have_both(void **state)
{
    (void)state;
    static const struct {
        const char *preset, *options, *packed, *attention, *skewed;
    } CASES[] = {
        {"gpt3-1.3b", "layers: 2, seq: 2048, experts: 8, attention: flash",
         ", document: 512, expert_skew: 1", "layers.0.attn.attention", "layers.0.mlp.experts.up"},
        {"bert-huge-32", "layers: 2, seq: 512, attention: flash", ", document: 128",
         "layers.0.attn.attention", NULL},
        {"nemotron-h-8b", "pattern: '*E', layers: 2, seq: 2048, experts: 8, expert_ffn: 512",
         ", document: 512, expert_skew: 1", "layers.0.attn.attention", "layers.1.mlp.experts.up"},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        char options[160];
        snprintf(options, sizeof options, "%s%s", CASES[i].options, CASES[i].packed);
        struct opened o = open_both(CASES[i].preset, options, "dgx-h100:1");
        struct opened plain = open_both(CASES[i].preset, CASES[i].options, "dgx-h100:1");
        struct degrees d = {.dp = 8, .ep = CASES[i].skewed ? 8 : 1, .global_batch = 16};
        struct plan *plan = plan_of(&o, d), *other = plan_of(&plain, d);
        assert_float_equal(work_flops(plan, CASES[i].attention),
                           work_flops(other, CASES[i].attention) / 4,
                           1e-4 * work_flops(other, CASES[i].attention));
        if (CASES[i].skewed)
            assert_float_equal((double)rows_of(plan, CASES[i].skewed) /
                                   (double)rows_of(other, CASES[i].skewed),
                               2.9435, 0.002);
        expect_sound(plan, CASES[i].preset);
        plan_free(plan);
        plan_free(other);
        close_both(&o);
        close_both(&plain);
    }
}

/* ---- optimizer state on the host ----------------------------------------------------------------- */

/* Tasks of the first device on one of its streams: how many, and their bytes or parameters. */
struct host_tasks {
    int count;
    double amount;
};
static struct host_tasks host_tasks_of(const struct plan *plan, enum stream_kind stream)
{
    struct graph *graph;
    struct host_tasks out = {0};
    assert_int_equal(graph_compile(plan, &(struct compile_options){FOLD_ALWAYS}, &graph), WEFT_OK);
    for (int32_t i = 0; i < graph->tasks; i++) {
        const struct task *task = &graph->task[i];
        if (task->device != 0 || task->stream != stream)
            continue;
        out.count++;
        out.amount += task->exchange >= 0 ? (double)graph->exchange[task->exchange].bytes
                                          : (double)task->parameters;
    }
    graph_free(graph);
    return out;
}

/* Of 4 layers of 2,048 positions of 4,096 features in bf16, the norm before the MLP reads what attention adds up, which nobody else
 * reads again: 4 * 2048 * 4096 * 2 bytes wait in host memory, and with them the norm's own numbers of each row. */
static void kept_tensors_wait_in_host_memory(void **state)
{
    (void)state;
    struct opened o = open_both("llama3-8b", "layers: 4, seq: 2048", "dgx-h100:1");
    struct degrees d = {.dp = 8, .shard = 1};
    struct plan *here = plan_of(&o, d);
    d.offload_modules = offload_from_name("mlp_norm");
    struct plan *away = plan_of(&o, d);
    struct stage_memory before = plan_stage_memory(here, 0, 1);
    struct stage_memory after = plan_stage_memory(away, 0, 1);
    double tensors = 4.0 * 2048 * 4096 * 2, rows = 4.0 * 2048 * 8;
    assert_true(after.host >= tensors && after.host <= tensors + rows);
    assert_float_equal(after.activations + after.host, before.activations, 1);
    plan_free(here);
    plan_free(away);
    close_both(&o);
}

/* A DGX H100 has 2 sockets of 8 channels of DDR5-4800: 614.4 GB/s, 76.8 for each of 8 devices. Adam in 16 bits moves 16 +
 * 12 + 4 + 2 = 34 bytes of a parameter there: 34 / 76.8 = 0.4427 ns. */
static void the_host_updates_a_share(void **state)
{
    (void)state;
    static const struct {
        double share;
        const char *software;
        int chunks;
    } CASES[] = {{0.5, "default", 1}, {1, "default", 1}, {1, "default,host_step=tensors", 16}};
    struct opened o = open_both("llama3-8b", "layers: 4, seq: 2048", "dgx-h100:1");
    struct degrees d = {.tp = 2, .pp = 2, .shard = 1, .global_batch = 8};
    struct plan *all = plan_of(&o, d);
    struct stage_memory before = plan_stage_memory(all, 0, 1);
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        d.optimizer_offload = CASES[i].share;
        assert_int_equal(software_from_text(CASES[i].software, &d.software), WEFT_OK);
        struct plan *plan = plan_of(&o, d);
        struct stage_memory memory = plan_stage_memory(plan, 0, 1);
        double there = CASES[i].share * before.optimizer; /* 12 bytes of a parameter */
        assert_float_equal(memory.optimizer, before.optimizer - there, 1);
        assert_float_equal(memory.host, there * 16 / 12, 1);
        struct host_tasks down = host_tasks_of(plan, STREAM_TO_HOST);
        struct host_tasks step = host_tasks_of(plan, STREAM_HOST);
        struct host_tasks up = host_tasks_of(plan, STREAM_FROM_HOST);
        assert_int_equal(step.count, CASES[i].chunks);
        assert_float_equal(step.amount, there / 12, 32); /* chunks are whole */
        assert_float_equal(down.amount, 4 * step.amount, 0.5);
        assert_float_equal(up.amount, 2 * step.amount, 0.5);
        struct item_costs costs = {.plan = plan};
        assert_float_equal((double)host_update_ns(&costs, 0, 1000000), 442708, 1);
        expect_sound(plan, CASES[i].software);
        plan_free(plan);
    }
    plan_free(all);
    close_both(&o);
}

/* ---- offload by module --------------------------------------------------------------------------- */

/* Of a token, attention keeps queries of 32 heads, keys and values of 8, and its output, of 128 features in bf16 each, and 32
 * fp32 statistics: 2 * 128 * (32 + 8 + 8 + 32) + 4 * 32 = 20,608 bytes. A layer of 1,024 tokens copies 21,102,592 bytes;
 * the last layer of a part that is not followed by the head copies nothing. */
static void layers_copy_what_modules_keep(void **state)
{
    (void)state;
    static const struct {
        int64_t pp;
        int copies; /* on stage 0 */
    } CASES[] = {{1, 4}, {2, 1}};
    struct opened o = open_both("llama3-8b", "layers: 4, seq: 1024", "gh200:2");
    struct arena *arena = arena_new();
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct degrees d = {.dp = 2 / CASES[i].pp,
                            .pp = CASES[i].pp,
                            .micro_batch = 1,
                            .global_batch = 2 / CASES[i].pp};
        assert_true(offload_parse(arena, "core_attn,attn_proj", &d.offload_modules));
        struct plan *plan = plan_of(&o, d);
        struct host_tasks out = host_tasks_of(plan, STREAM_TO_HOST);
        struct host_tasks in = host_tasks_of(plan, STREAM_FROM_HOST);
        assert_int_equal(out.count, CASES[i].copies);
        assert_float_equal(out.amount, CASES[i].copies * 21102592.0, 0.5);
        assert_float_equal(in.amount, out.amount, 0.5);
        expect_proof(plan);
        expect_estimate(plan, "core_attn,attn_proj", 0.05);
        plan_free(plan);
    }
    arena_free(arena);
    close_both(&o);
}

/* Where the link to the host is so slow that layers hide nothing, an iteration takes the copies of 4 layers out and
 * back one after the other: 8 * 21,102,592 bytes at 10 MB/s are 16.88 s. */
static void slow_copies_add_up(void **state)
{
    (void)state;
    struct opened o = open_both("llama3-8b", "layers: 4, seq: 1024", "dgx-h100:1");
    unsigned modules = offload_from_name("core_attn") | offload_from_name("attn_proj");
    o.cluster->node.device.host_bytes_per_s = 10e6;
    struct plan *plan =
        plan_of(&o, (struct degrees){.global_batch = 8, .offload_modules = modules});
    assert_true(fabs(simulated_s(plan, FOLD_AUTO) / 16.882 - 1) < 0.02);
    plan_free(plan);
    close_both(&o);
}

/* The first stage of two has two micro-batches in flight, of four layers each. Three layers of each go, and two of those are on
 * the device beside the last at most: of the six that went, four at least are not held when it is fullest. */
static void copied_tensors_are_not_held(void **state)
{
    (void)state;
    struct opened o = open_both("llama3-8b", "layers: 8, seq: 8192, vocab: 1024", "dgx-h100:1");
    unsigned modules = offload_from_name("core_attn") | offload_from_name("attn_proj");
    int64_t held[2];
    for (int away = 0; away < 2; away++) {
        struct degrees d = {.pp = 2, .shard = 1, .global_batch = 32, .offload_modules = modules};
        d.offload_modules = away ? modules : 0;
        struct plan *plan = plan_of(&o, d);
        struct prediction *prediction;
        assert_int_equal(simulate(plan, &(struct simulate_options){0}, &prediction), WEFT_OK);
        held[away] = prediction->stage[0].memory.bytes[MEMORY_ACTIVATIONS];
        if (away)
            assert_int_equal(prediction->stage[0].memory.host, 2 * 3 * 8 * INT64_C(21102592));
        prediction_free(prediction);
        plan_free(plan);
    }
    assert_true(held[0] - held[1] >= 4 * 8 * INT64_C(21102592));
    close_both(&o);
}

/* What a module outside of the list reads again stays: attention reads the input of the projection. */
static void what_others_read_stays(void **state)
{
    (void)state;
    struct opened o = open_both("llama3-8b", "layers: 4, seq: 1024", "dgx-h100:1");
    struct degrees d = {.global_batch = 8, .offload_modules = offload_from_name("attn_proj")};
    struct plan *plan = plan_of(&o, d);
    assert_int_equal(host_tasks_of(plan, STREAM_TO_HOST).count, 0);
    plan_free(plan);
    close_both(&o);
}

/* What layers take in pools of their own is reserved beside the largest that is outside of them. */
static void graphs_have_pools_of_their_own(void **state)
{
    (void)state;
    struct opened o = open_both("llama3-8b", "layers: 4, seq: 2048", "dgx-h100:1");
    int64_t reserved[2];
    for (int own = 0; own < 2; own++) {
        struct degrees d = {.tp = 8, .global_batch = 4};
        assert_int_equal(software_set(&d.software, "graph_pools", own ? "own" : "shared"), WEFT_OK);
        struct plan *plan = plan_of(&o, d);
        struct prediction *prediction;
        assert_int_equal(simulate(plan, &(struct simulate_options){0}, &prediction), WEFT_OK);
        reserved[own] = prediction->stage[0].memory.reserved;
        prediction_free(prediction);
        plan_free(plan);
    }
    assert_true(reserved[1] > reserved[0]);
    close_both(&o);
}

/* ---- the layers of each part -------------------------------------------------------------------- */

/* Layers that end in each part: "E" and "L" alone are parts without any. */
static void layouts_say_what_parts_hold(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t pp, pieces, layers[8];
    } CASES[] = {
        {"Et|t*3|t*2L", 3, 1, {1, 3, 2}},
        {"E|(t|)*6,L", 4, 2, {0, 1, 1, 1, 1, 1, 1, 0}},
        {"E t t , | (tt|)*2 L", 2, 2, {2, 2, 2, 0}},
        {"Et*5|tL", 2, 1, {5, 1}},
    };
    struct opened o = open_both("llama3-8b", "layers: 6, seq: 2048", "dgx-h100:1");
    struct opened six = open_both("llama3-8b", "layers: 6, seq: 2048", "dgx-h100:1x6");
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct degrees d = {.pp = CASES[i].pp, .layout = CASES[i].text, .shard = 1};
        d.global_batch = 48;
        struct plan *plan = plan_of(CASES[i].pp == 3 ? &six : &o, d);
        assert_int_equal(plan->pieces, CASES[i].pieces);
        for (int32_t p = 0; p < plan->parts; p++) {
            int64_t layers = 0;
            for (int64_t k = 0; k < plan->part[p].count; k++)
                layers += plan->ends_layer[plan->part[p].first + k];
            assert_int_equal(layers, CASES[i].layers[p]);
        }
        expect_sound(plan, CASES[i].text);
        plan_free(plan);
    }
    close_both(&six);
    close_both(&o);
}

static void wrong_layouts_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } CASES[] = {
        {"Et*5|L", "the pipeline's layout is 'Et*5|L': llama3-8b has 6 layers, expected as many t"},
        {"Et*6|x|L",
         "the pipeline's layout is 'Et*6|x|L': expected E, t, L and | with (...)*n and x*n"},
        {"t*6|EL",
         "the pipeline's layout is 't*6|EL': expected one E in front and one L at the end"},
        {"Et*3|t*3|L",
         "the pipeline's layout is 'Et*3|t*3|L': the number of parts is no multiple of the "
         "pipeline's size"},
        {"Et*3||t*3|L", "the pipeline's layout is 'Et*3||t*3|L': one of its parts is empty"},
    };
    struct opened o = open_both("llama3-8b", "layers: 6", "dgx-h100:1");
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct degrees d = {.pp = 2, .layout = CASES[i].text};
        struct plan *plan;
        assert_int_equal(plan_from_degrees(o.model, o.cluster, &d, &plan), WEFT_BAD_INPUT);
        assert_string_equal(weft_last_error()->message, CASES[i].says);
    }
    close_both(&o);
}

/* Of OLMo 2, whose norms of all heads lie between product and attention, with sequences split along tp and with cp. */
static int64_t keys_ns(const struct opened *o, struct degrees d)
{
    struct plan *plan = plan_of(o, d);
    struct prediction *prediction;
    struct simulate_options options = {.fold = FOLD_AUTO};
    int64_t ns = 0;
    assert_int_equal(simulate(plan, &options, &prediction), WEFT_OK);
    for (int i = 0; i < TIME_COUNT; i++)
        ns += strcmp(time_name(i), "cp_comm") == 0 ? prediction->stage[0].time_ns[i] : 0;
    prediction_free(prediction);
    plan_free(plan);
    return ns;
}

static void only_cp_moves_keys(void **state)
{
    (void)state;
    struct opened o = open_both("olmo2-7b", "layers: 2", "dgx-h100:1");
    assert_int_equal(keys_ns(&o, (struct degrees){.tp = 8, .sequence = true, .global_batch = 2}),
                     0);
    assert_true(keys_ns(&o, (struct degrees){.cp = 8, .global_batch = 2}) > 0);
    struct degrees heads = {.cp = 8, .cp_heads = CP_HEADS_ALL, .global_batch = 2};
    assert_true(keys_ns(&o, heads) > 0);
    close_both(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modules_are_estimated),
        cmocka_unit_test(the_fullest_device_has_its_tokens),
        cmocka_unit_test(documents_do_not_see_each_other),
        cmocka_unit_test(documents_balance_consecutive_ranks),
        cmocka_unit_test(other_families_have_both),
        cmocka_unit_test(kept_tensors_wait_in_host_memory),
        cmocka_unit_test(the_host_updates_a_share),
        cmocka_unit_test(layers_copy_what_modules_keep),
        cmocka_unit_test(slow_copies_add_up),
        cmocka_unit_test(copied_tensors_are_not_held),
        cmocka_unit_test(what_others_read_stays),
        cmocka_unit_test(graphs_have_pools_of_their_own),
        cmocka_unit_test(layouts_say_what_parts_hold),
        cmocka_unit_test(wrong_layouts_are_refused),
        cmocka_unit_test(only_cp_moves_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
