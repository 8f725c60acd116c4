/* test_pairs.c - tokens on their way to experts beside the other pass of a pair (OVERLAP_EXPERTS).
 *
 *   Q1  Lists of slots in pairs, each of which is executed as one, never deadlock, and hold what they say.
 *   Q2  The turns of a pair have every item of both blocks once and in order, change only where the next
 *       operator waits for tokens, and have as many changes as there are such places.
 *   Q3  Without experts on other devices, with one micro-batch, and on stages of 1f1b nothing changes, to the
 *       nanosecond.
 *   Q4  On one stage nothing takes longer (but by little where weights or gradients of every micro-batch are on
 *       the same links), and every micro-batch after the first few takes the same: no
 *       less than its computation, nor than its transfers.
 *   Q5  Folded is unfolded.
 *   Q7  Tokens that go to a device once are as many as one counts over all choices of experts.
 *   Q6  Estimates of plans and of candidates are what is simulated, as they are with other words. The first
 *       pass, in pairs or not, waits for weights.
 *   Q9  While tokens are on their way, the other pass exchanges features; steps of one pass keep their order.
 *   Q10 Outside of pairs nothing runs beside tokens: they leave after all that was written before them, among it the
 *       gradients of the experts' weights, and the next operator waits, also one that runs again. In pairs they leave before.
 *   Q8  Auto tries the word where nobody says what overlaps, and only then.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "estimated.h"
#include "folded.h"
#include "random_plan.h"
#include "search/planner/planner.h"

/* ---- Q1 -------------------------------------------------------------------------------------- */

enum { MOST = 8 };

struct done {
    bool forward[MOST * MOST][MOST * MOST],
        backward[MOST * MOST][MOST * MOST]; /* part, micro-batch */
};

static bool inputs_there(const struct done *d, const struct pipeline *p, int32_t stage,
                         const struct slot *slot)
{
    int32_t part = slot->piece * p->stages + stage, last = p->stages * p->pieces - 1;
    if (slot->kind == SLOT_FORWARD)
        return part == 0 || d->forward[part - 1][slot->micro_batch];
    return d->forward[part][slot->micro_batch] &&
           (part == last || d->backward[part + 1][slot->micro_batch]);
}

/* The next slots of a stage, two at once where they are a pair, if all they need is there. */
static bool advance(struct done *d, const struct schedule *schedule, const struct pipeline *p,
                    int32_t stage, const struct slots *slots, size_t *at, int64_t *held)
{
    if (*at == slots->len)
        return false;
    size_t count = slots_paired(schedule, p, stage, slots, *at) ? 2 : 1;
    for (size_t k = 0; k < count; k++)
        if (!inputs_there(d, p, stage, &slots->data[*at + k]))
            return false;
    for (size_t k = 0; k < count; k++, (*at)++) {
        const struct slot *slot = &slots->data[*at];
        int32_t part = slot->piece * p->stages + stage;
        bool forward = slot->kind == SLOT_FORWARD;
        bool *is =
            forward ? &d->forward[part][slot->micro_batch] : &d->backward[part][slot->micro_batch];
        assert_false(*is);
        *is = true;
        held[0] += forward ? 1 : -1;
        held[1] = held[0] > held[1] ? held[0] : held[1];
    }
    return true;
}

static void play_shape(const struct schedule *schedule, struct pipeline p)
{
    struct arena *scratch = arena_new();
    struct done *d = ARENA_NEW(scratch, struct done);
    struct slots slots[MOST] = {0};
    size_t at[MOST] = {0};
    int64_t held[MOST][2] = {{0}};
    bool moved = true;
    for (int32_t s = 0; s < p.stages; s++)
        schedule_order(schedule, &p, s, scratch, &slots[s]);
    while (moved) {
        moved = false;
        for (int32_t s = 0; s < p.stages; s++)
            while (advance(d, schedule, &p, s, &slots[s], &at[s], held[s]))
                moved = true;
    }
    for (int32_t s = 0; s < p.stages; s++) {
        assert_int_equal(at[s], 2 * (size_t)p.pieces * (size_t)p.micro_batches);
        assert_int_equal(held[s][1], schedule_in_flight(schedule, &p, s));
    }
    arena_free(scratch);
}

static void pairs_never_deadlock(void **state)
{
    (void)state;
    int played = 0;
    for (int32_t p = 1; p <= MOST; p++)
        for (int32_t v = 1; v <= MOST; v++)
            for (int32_t m = 1; m <= 4 * MOST; m++) {
                const struct schedule *plain = schedule_find(v > 1 ? "interleaved" : "1f1b");
                const struct schedule *paired = schedule_paired(plain, p);
                struct pipeline shape = {p, v, m};
                if (schedule_check(paired, &shape) != WEFT_OK)
                    continue;
                assert_true(paired != plain || (v == 1 && p > 1));
                play_shape(paired, shape);
                played++;
            }
    error_clear();
    assert_true(played > 500);
    assert_ptr_equal(schedule_paired(schedule_find("gpipe"), 1), schedule_find("gpipe"));
    assert_ptr_equal(schedule_paired(schedule_find("zb-h1"), 1), schedule_find("zb-h1"));
}

/* ---- plans ----------------------------------------------------------------------------------- */

static const struct small_model MIXTURES[] = {
    {"moe", "{layers: 6, hidden: 2048, heads: 16, ffn: 4096, seq: 2048, vocab: 32000, experts: 16, "
            "top_k: 4, expert_ffn: 1408}"},
    {"moe", "{layers: 8, hidden: 1024, heads: 8, kv_heads: 4, ffn: 2816, seq: 1024, vocab: 32000, "
            "experts: 32, top_k: 6, expert_ffn: 704, shared_experts: 2, first_dense: 1}"},
    {"moe", "{layers: 4, hidden: 4096, heads: 32, kv_heads: 8, ffn: 8192, seq: 2048, vocab: 64000, "
            "experts: 8, top_k: 2, expert_ffn: 8192}"},
};
static const char *const CLUSTERS[] = {"dgx-h100:2", "dgx-a100:1", "dgx-v100:2"};

struct setting {
    struct model *model[COUNT_OF(MIXTURES)];
    struct cluster *cluster[COUNT_OF(CLUSTERS)];
};

static int open_setting(void **state)
{
    struct setting *s = calloc(1, sizeof *s);
    for (size_t i = 0; i < COUNT_OF(MIXTURES); i++)
        s->model[i] = open_small(&MIXTURES[i]);
    for (size_t i = 0; i < COUNT_OF(CLUSTERS); i++)
        s->cluster[i] = open_named(CLUSTERS[i]);
    *state = s;
    return 0;
}

static int close_setting(void **state)
{
    struct setting *s = *state;
    for (size_t i = 0; i < COUNT_OF(MIXTURES); i++)
        model_free(s->model[i]);
    for (size_t i = 0; i < COUNT_OF(CLUSTERS); i++)
        cluster_free(s->cluster[i]);
    free(s);
    return 0;
}

static struct degrees draw_mixture(struct rng *rng, int64_t devices)
{
    struct degrees d = {.micro_batch = INT64_C(1) << rng_below(rng, 2), .has_overlap = true};
    d.tp = INT64_C(1) << rng_below(rng, 2);
    d.pp = INT64_C(1) << rng_below(rng, 3);
    d.dp = devices / d.tp / d.pp;
    d.ep = INT64_C(1) << rng_below(rng, 4);
    d.ep = d.ep > d.dp ? d.dp : d.ep;
    d.sequence = d.tp > 1 && chance(rng, 2);
    d.schedule = d.pp > 1 && !chance(rng, 5) ? "interleaved" : "1f1b";
    d.pieces = strcmp(d.schedule, "interleaved") == 0 ? 2 : 0;
    d.global_batch = d.dp * d.micro_batch * d.pp * (1 + rng_below(rng, 6));
    d.shard = (int)rng_below(rng, 4);
    d.recompute = chance(rng, 3) ? RECOMPUTE_SELECTIVE : RECOMPUTE_NONE;
    d.overlap = chance(rng, 2) ? OVERLAP_ALL : (unsigned)rng_below(rng, OVERLAP_PRODUCTS);
    return d;
}

/* With and without the word. NULL: the plan is refused. */
static struct plan *lower(const struct setting *s, struct rng *rng, struct degrees *d)
{
    size_t m = (size_t)rng_below(rng, COUNT_OF(MIXTURES)),
           c = (size_t)rng_below(rng, COUNT_OF(CLUSTERS));
    struct plan *plan = NULL;
    *d = draw_mixture(rng, cluster_devices(s->cluster[c]));
    d->overlap |= OVERLAP_EXPERTS;
    if (plan_from_degrees(s->model[m], s->cluster[c], d, &plan) == WEFT_OK &&
        plan_check(plan) == WEFT_OK)
        return plan;
    error_clear();
    plan_free(plan);
    return NULL;
}

/* ---- Q2 -------------------------------------------------------------------------------------- */

/* Places where an operator waits for tokens that were sent after the operator that waited before it. */
static int32_t waits_for_tokens(const struct block *block)
{
    int32_t count = 0, since = 0;
    for (int32_t i = 0; i < block->items; i++) {
        const struct item *item = &block->item[i];
        bool waits = false;
        for (int32_t k = since; item->kind == ITEM_OP && k <= item->needs; k++)
            waits |= block->item[k].kind == ITEM_STEP && block->item[k].tokens;
        since = waits ? i : since;
        count += waits;
    }
    return count;
}

static void check_turns(const struct block *forward, const struct block *backward)
{
    struct arena *scratch = arena_new();
    struct pair_turns turns = turns_of_pair(scratch, forward, backward);
    int32_t at[2] = {0, 0}, count[2] = {0, 0};
    for (size_t i = 0; i < turns.len; i++) {
        const struct pair_turn *turn = &turns.data[i];
        const struct block *block = turn->backward ? backward : forward;
        assert_int_equal(turn->first, at[turn->backward]);
        assert_true(turn->last >= turn->first);
        assert_true(turn->last == block->items || block->item[turn->last].kind == ITEM_OP);
        at[turn->backward] = turn->last;
        count[turn->backward]++;
    }
    assert_int_equal(at[0], forward->items);
    assert_int_equal(at[1], backward->items);
    assert_int_equal(count[0], waits_for_tokens(forward) + 1);
    assert_int_equal(count[1], waits_for_tokens(backward) + 1);
    if (count[0] == count[1]) /* they alternate, backward first where there is anything to hide */
        for (size_t i = 0; i < turns.len; i++)
            assert_int_equal(turns.data[i].backward, (i + (count[0] > 1)) % 2);
    arena_free(scratch);
}

static void turns_have_every_item(void **state)
{
    struct rng rng;
    int checked = 0;
    rng_seed(&rng, 3);
    while (checked < rounds_of(30)) {
        struct degrees d;
        struct plan *plan = lower(*state, &rng, &d);
        struct graph *graph;
        if (!plan)
            continue;
        assert_int_equal(
            graph_compile(plan, &(struct compile_options){.fold = FOLD_ALWAYS}, &graph), WEFT_OK);
        for (int32_t a = 0; a < graph->blocks; a++)
            for (int32_t b = 0; b < graph->blocks; b++)
                if (graph->block[a].kind == SLOT_FORWARD && graph->block[b].kind != SLOT_FORWARD)
                    check_turns(&graph->block[a], &graph->block[b]);
        graph_free(graph);
        plan_free(plan);
        checked++;
    }
}

/* ---- Q7 -------------------------------------------------------------------------------------- */

/* Of all choices of k of n experts, a device having n / d in a row: devices but the first with one of them. */
static void count_choices(int n, int k, int d, int64_t *choices, int64_t *devices)
{
    for (unsigned set = 0; set < 1U << n; set++) {
        if (__builtin_popcount(set) != k)
            continue;
        ++*choices;
        for (int i = 1; i < d; i++)
            *devices += (set >> (i * (n / d)) & ((1U << (n / d)) - 1)) != 0;
    }
}

static int64_t token_bytes(const struct small_model *small, const struct cluster *cluster,
                           int64_t ep)
{
    struct model *model = open_small(small);
    struct degrees d = {.ep = ep, .micro_batch = 1, .global_batch = 16};
    struct plan *plan;
    struct graph *graph;
    int64_t bytes = 0;
    assert_int_equal(plan_from_degrees(model, cluster, &d, &plan), WEFT_OK);
    assert_int_equal(graph_compile(plan, &(struct compile_options){.fold = FOLD_ALWAYS}, &graph),
                     WEFT_OK);
    for (int32_t b = 0; b < graph->blocks; b++)
        for (int32_t i = 0; i < graph->block[b].items; i++)
            bytes += graph->block[b].item[i].tokens ? graph->block[b].item[i].bytes : 0;
    graph_free(graph);
    plan_free(plan);
    model_free(model);
    return bytes;
}

static void tokens_go_once(void **state)
{
    struct setting *s = *state;
    enum { EXPERTS = 16, TOP_K = 4 }; /* of MIXTURES[0] */
    char options[400];
    snprintf(options, sizeof options, "%.*s, dispatch: devices}",
             (int)strlen(MIXTURES[0].options) - 1, MIXTURES[0].options);
    struct small_model once = {"moe", options};
    for (int ep = 2; ep <= 8; ep *= 2) {
        int64_t choices = 0, devices = 0;
        count_choices(EXPERTS, TOP_K, ep, &choices, &devices);
        double share = (double)devices / (double)choices / (TOP_K * (double)(ep - 1) / ep);
        double told = (double)token_bytes(&once, s->cluster[1], ep) /
                      (double)token_bytes(&MIXTURES[0], s->cluster[1], ep);
        assert_true(fabs(told - share) < 1e-6);
        assert_true(share < 1);
    }
}

/* Of all choices of k of n experts on d devices, two in each node: nodes but the first with one of them, and
 * devices of these. */
static double crossing_share(int n, int k, int d)
{
    int64_t nodes = 0, devices = 0;
    for (unsigned set = 0; set < 1U << n; set++) {
        if (__builtin_popcount(set) != k)
            continue;
        for (int i = 2; i < d; i += 2) {
            unsigned mask = (1U << (n / d)) - 1, one = set >> (i * (n / d)) & mask;
            unsigned other = set >> ((i + 1) * (n / d)) & mask;
            nodes += one || other;
            devices += (one != 0) + (other != 0);
        }
    }
    return (double)nodes / (double)devices;
}

static void tokens_go_once_to_a_node(void **state)
{
    (void)state;
    enum { EXPERTS = 16, TOP_K = 4, EP = 8 }; /* of MIXTURES[0] */
    char options[400];
    snprintf(options, sizeof options, "%.*s, dispatch: nodes}",
             (int)strlen(MIXTURES[0].options) - 1, MIXTURES[0].options);
    struct model *model = open_small(&(struct small_model){"moe", options});
    struct cluster *cluster = open_named("dgx-a100:4x2");
    struct degrees d = {.ep = EP, .micro_batch = 1, .global_batch = 16};
    struct plan *plan;
    struct graph *graph;
    int found = 0;
    assert_int_equal(plan_from_degrees(model, cluster, &d, &plan), WEFT_OK);
    assert_int_equal(graph_compile(plan, &(struct compile_options){.fold = FOLD_ALWAYS}, &graph),
                     WEFT_OK);
    for (int32_t b = 0; b < graph->blocks; b++)
        for (int32_t i = 0; i < graph->block[b].items; i++) {
            const struct item *item = &graph->block[b].item[i];
            if (!item->tokens)
                continue;
            double crossing = graph->pattern[item->pattern].crossing;
            assert_true(fabs(crossing - crossing_share(EXPERTS, TOP_K, EP)) < 1e-9);
            found++;
        }
    assert_true(found > 0);
    graph_free(graph);
    plan_free(plan);
    cluster_free(cluster);
    model_free(model);
}

/* ---- Q10 ------------------------------------------------------------------------------------- */

/* Of a block: tokens that something runs beside, and gradients of experts' weights after which no tokens leave. */
static void count_beside(const struct block *block, int *beside, int *late)
{
    int32_t op = -1, step = -1;
    for (int32_t i = 0; i < block->items; i++) {
        const struct item *item = &block->item[i];
        bool weights = item->kind == ITEM_OP && item->phase == PHASE_BACKWARD_WEIGHT;
        if (item->tokens)
            *beside += item->needs < op;
        else if (item->kind == ITEM_OP)
            *beside += item->needs < step;
        *late += weights && i > 0 && block->item[i - 1].tokens;
        op = item->kind == ITEM_OP ? i : op;
        step = item->tokens ? i : item->kind == ITEM_OP ? -1 : step;
    }
}

static void tokens_are_alone(void **state)
{
    struct setting *s = *state;
    struct model *model = open_small(&MIXTURES[0]);
    for (int paired = 0; paired < 2; paired++) {
        struct degrees d = {.ep = 4,
                            .micro_batch = 1,
                            .global_batch = 16,
                            .has_overlap = true,
                            .recompute = RECOMPUTE_SELECTIVE,
                            .modules = module_from_name("moe_act")};
        struct plan *plan;
        struct graph *graph;
        int beside = 0, late = 0;
        d.overlap = OVERLAP_ALL | (paired ? OVERLAP_EXPERTS : 0);
        assert_int_equal(plan_from_degrees(model, s->cluster[1], &d, &plan), WEFT_OK);
        assert_int_equal(
            graph_compile(plan, &(struct compile_options){.fold = FOLD_ALWAYS}, &graph), WEFT_OK);
        for (int32_t b = 0; b < graph->blocks; b++)
            count_beside(&graph->block[b], &beside, &late);
        assert_int_equal(beside > 0, paired);
        assert_int_equal(late > 0, paired);
        graph_free(graph);
        plan_free(plan);
    }
    model_free(model);
}

/* ---- Q3, Q4, Q5 ------------------------------------------------------------------------------ */

static void nothing_to_hide_nothing_changes(void **state)
{
    struct rng rng;
    int same = 0;
    rng_seed(&rng, 4);
    while (same < rounds_of(30)) {
        struct degrees d;
        struct plan *plan = lower(*state, &rng, &d);
        if (!plan)
            continue;
        unsigned overlap = plan->overlap;
        bool hides = d.ep > 1 && plan_micro_batches(plan) > 1 && (d.pp == 1 || d.pieces > 1);
        assert_int_equal(plan_schedule(plan)->ahead != NULL, hides);
        struct warnings warnings = {0};
        plan_warnings(plan->arena, plan, &warnings);
        size_t told = 0;
        for (size_t i = 0; i < warnings.len; i++)
            told += strncmp(warnings.data[i], "overlap: experts", 16) == 0;
        assert_int_equal(told, !hides);
        if (!hides) {
            assert_int_equal(iteration_with(plan, overlap),
                             iteration_with(plan, overlap & ~(unsigned)OVERLAP_EXPERTS));
            same++;
        }
        plan_free(plan);
    }
}

static void one_stage_is_never_slower(void **state)
{
    struct rng rng;
    int n = 0, faster = 0;
    rng_seed(&rng, 5);
    while (n < 60) { /* a share of few plans would say little */
        struct degrees d;
        struct plan *plan = lower(*state, &rng, &d);
        if (plan && plan_schedule(plan)->ahead && d.pp == 1) {
            unsigned overlap = plan->overlap;
            int64_t with = iteration_with(plan, overlap);
            int64_t without = iteration_with(plan, overlap & ~(unsigned)OVERLAP_EXPERTS);
            double most = d.shard < 2 ? 1.001 : 1.05;
            if ((double)with > most * (double)without)
                fail_msg("%lld ns with, %lld without", (long long)with, (long long)without);
            faster += (double)with < 0.98 * (double)without;
            n++;
        }
        plan_free(plan);
    }
    assert_true(2 * faster > n);
}

static void micro_batches_take_the_same(void **state)
{
    struct setting *s = *state;
    struct degrees d = {.ep = 8, .micro_batch = 1, .has_overlap = true, .shard = 1};
    int64_t ns[8] = {0};
    d.overlap = OVERLAP_ALL | OVERLAP_EXPERTS;
    for (int64_t m = 4; m < 8; m++) {
        struct plan *plan;
        d.global_batch = 8 * m;
        assert_int_equal(plan_from_degrees(s->model[0], s->cluster[1], &d, &plan), WEFT_OK);
        ns[m] = iteration_with(plan, d.overlap);
        plan_free(plan);
    }
    assert_true(labs(ns[6] - ns[5] - (ns[5] - ns[4])) <= 16); /* ns: ends are rounded up */
    assert_true(labs(ns[7] - ns[6] - (ns[6] - ns[5])) <= 16);
    struct plan *plan;
    assert_int_equal(plan_from_degrees(s->model[0], s->cluster[1], &d, &plan), WEFT_OK);
    struct prediction *p = predict(plan, FOLD_ALWAYS);
    int64_t work = 0, sent = 0;
    for (int32_t b = 0; b < p->graph->blocks; b++)
        for (int32_t i = 0; i < p->graph->block[b].items; i++)
            *(p->graph->block[b].item[i].kind == ITEM_OP ? &work : &sent) +=
                p->lane_ns[p->lane_first[b] + i];
    assert_true(work > 0 && sent > 0);
    assert_true(ns[7] - ns[6] >= work && ns[7] - ns[6] >= sent);
    assert_true(ns[7] - ns[6] < work + sent);
    prediction_free(p);
    plan_free(plan);
}

/* ---- Q9 -------------------------------------------------------------------------------------- */

static bool at_once(const struct prediction *p, int32_t a, int32_t b)
{
    return p->result.start_ns[a] < p->result.end_ns[b] &&
           p->result.start_ns[b] < p->result.end_ns[a];
}

static void features_do_not_wait_for_tokens(void **state)
{
    struct setting *s = *state;
    struct degrees d = {.tp = 2, .ep = 8, .etp = 1, .micro_batch = 1, .sequence = true};
    struct plan *plan;
    d.has_overlap = true;
    d.overlap = OVERLAP_ALL | OVERLAP_EXPERTS;
    d.global_batch = 8 * 4;
    assert_int_equal(plan_from_degrees(s->model[0], s->cluster[0], &d, &plan), WEFT_OK);
    struct prediction *p = predict(plan, FOLD_ALWAYS);
    const struct task *task = p->graph->task;
    int beside = 0;
    for (int32_t i = 0; i < p->graph->tasks; i++)
        for (int32_t k = 0; task[i].stream == STREAM_TOKENS && k < p->graph->tasks; k++) {
            bool meets = task[k].stream == STREAM_FEATURE && at_once(p, i, k);
            beside += meets;
            assert_false(meets && task[k].block == task[i].block);
        }
    assert_true(beside > 0);
    prediction_free(p);
    plan_free(plan);
}

static void folded_is_unfolded(void **state)
{
    struct rng rng;
    int n = 0;
    rng_seed(&rng, 6);
    while (n < rounds_of(12)) {
        struct degrees d;
        struct plan *plan = lower(*state, &rng, &d);
        if (plan && plan_schedule(plan)->ahead) {
            struct prediction *folded = predict(plan, FOLD_AUTO), *each = predict(plan, FOLD_NEVER);
            if (folded->graph->folded && !folded->folded_unalike) {
                assert_int_equal(folded->iteration_ns, each->iteration_ns);
                n++;
            }
            prediction_free(folded);
            prediction_free(each);
        }
        plan_free(plan);
    }
}

/* ---- Q6 -------------------------------------------------------------------------------------- */

struct off {
    double plan, candidate, memory;
};

static struct off off_of(const struct plan *plan)
{
    struct estimate_settings settings = estimate_settings_of(plan);
    struct arena *scratch = arena_new();
    struct estimator *estimator;
    struct candidate *candidate;
    struct estimate whole, e;
    struct prediction *p = predict(plan, FOLD_AUTO);
    int64_t peak = 0;
    for (int32_t s = 0; s < plan->stages; s++)
        peak = p->stage[s].memory.peak > peak ? p->stage[s].memory.peak : peak;
    assert_int_equal(estimator_new(&settings, &estimator), WEFT_OK);
    assert_int_equal(estimate_plan(estimator, plan, scratch, &whole), WEFT_OK);
    assert_int_equal(candidate_of_plan(estimator, plan, scratch, &candidate), WEFT_OK);
    assert_int_equal(estimate_candidate(estimator, candidate, &e), WEFT_OK);
    assert_int_equal(whole.peak_bytes, peak);
    double ns = (double)p->iteration_ns;
    struct off off = {(double)whole.iteration_ns / ns - 1, (double)e.iteration_ns / ns - 1,
                      (double)e.peak_bytes / (double)peak - 1};
    estimator_free(estimator);
    prediction_free(p);
    arena_free(scratch);
    return off;
}

static int by_size(const void *a, const void *b)
{
    double x = fabs(*(const double *)a), y = fabs(*(const double *)b);
    return (x > y) - (x < y);
}

static void check_off(const char *what, double *off, int n, double median, double many)
{
    qsort(off, (size_t)n, sizeof *off, by_size);
    print_message("%s: median %.2f %%, 90 %% below %.2f %%, most %.2f %%\n", what,
                  100 * fabs(off[n / 2]), 100 * fabs(off[n * 9 / 10]), 100 * fabs(off[n - 1]));
    assert_true(fabs(off[n / 2]) <= median);
    assert_true(fabs(off[nine_tenths(n)]) <= many);
}

static void estimates_agree(void **state)
{
    struct rng rng;
    int n = 0, wanted = rounds_of(60);
    double *off = calloc(3 * (size_t)wanted, sizeof *off);
    rng_seed(&rng, 7);
    while (n < wanted) {
        struct degrees d;
        struct plan *plan = lower(*state, &rng, &d);
        if (plan && plan_schedule(plan)->ahead) {
            struct off o = off_of(plan);
            off[n] = o.plan;
            off[wanted + n] = o.candidate;
            off[2 * wanted + n] = o.memory;
            n++;
        }
        plan_free(plan);
    }
    check_off("plans", off, n, 0.02, 0.06);
    check_off("candidates", off + wanted, n, 0.02, 0.06);
    check_off("memory", off + 2 * (size_t)wanted, n, 0.02, 0.05);
    free(off);
}

static void first_passes_wait(void **state)
{
    struct setting *s = *state;
    for (int64_t ep = 1; ep <= 8; ep *= 8) {
        struct degrees d = {.ep = ep, .micro_batch = 1, .global_batch = 64, .shard = 1};
        struct plan *plan;
        d.has_overlap = true;
        d.overlap = OVERLAP_ALL | OVERLAP_EXPERTS;
        assert_int_equal(plan_from_degrees(s->model[0], s->cluster[1], &d, &plan), WEFT_OK);
        struct arena *scratch = arena_new();
        assert_true(estimate_of(scratch, plan).stage[0].first_more_ns > 0);
        arena_free(scratch);
        plan_free(plan);
    }
}

/* ---- Q8 -------------------------------------------------------------------------------------- */

static size_t hidden_trials(const struct setting *s, bool pinned)
{
    struct plan_request request = {.model = s->model[0],
                                   .cluster = s->cluster[1],
                                   .pins = {.ep = 8, .micro_batch = 1, .global_batch = 64},
                                   .options = {.quick = true}};
    struct planned *planned;
    size_t count = 0;
    request.pins.has_overlap = pinned;
    request.pins.overlap = OVERLAP_ALL;
    assert_int_equal(plan_search(planner_find("auto"), &request, &planned), WEFT_OK);
    for (size_t i = 0; i < planned->trials.len; i++) {
        const struct plan *plan = planned->trials.data[i].plan;
        if (!plan || !(plan->overlap & OVERLAP_EXPERTS))
            continue;
        assert_non_null(plan_schedule(plan)->ahead);
        assert_non_null(strstr(planned->trials.data[i].text, "experts"));
        count++;
    }
    planned_free(planned);
    return count;
}

static void auto_tries_it(void **state)
{
    assert_true(hidden_trials(*state, false) > 0);
    assert_int_equal(hidden_trials(*state, true), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_never_deadlock),
        cmocka_unit_test(turns_have_every_item),
        cmocka_unit_test(tokens_go_once),
        cmocka_unit_test(tokens_go_once_to_a_node),
        cmocka_unit_test(tokens_are_alone),
        cmocka_unit_test(nothing_to_hide_nothing_changes),
        cmocka_unit_test(one_stage_is_never_slower),
        cmocka_unit_test(micro_batches_take_the_same),
        cmocka_unit_test(features_do_not_wait_for_tokens),
        cmocka_unit_test(folded_is_unfolded),
        cmocka_unit_test(estimates_agree),
        cmocka_unit_test(first_passes_wait),
        cmocka_unit_test(auto_tries_it),
    };
    return cmocka_run_group_tests(tests, open_setting, close_setting);
}
