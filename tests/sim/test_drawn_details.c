/* test_drawn_details.c - everything that is inside the graphs and predictions of drawn plans, held to a file.
 *
 * What an answer prints is a sum of much that nobody prints: items, exchanges, lives of tensors, when each task begins. Other
 * tests ask whether two ways lead to one sum, or allow for a difference. Here every number on the way is as it was
 * (tests/data/drawn/details.txt; WEFT_RECORD=1 writes the file again), and must agree with the others:
 *
 *   D1  A task begins when all that it depends on has ended, and ends within the iteration; tasks of one stream do not overlap.
 *   D2  The purposes of a stage's time add up to the iteration, the classes of its memory to its peak, of which what stays is a
 *       part, as are the largest of what it holds. Memory over time is fullest with the peak, and no less is reserved.
 *   D3  A tensor is given back after it was taken, and each event is of a tensor of its part.
 *   D4  What sends and collectives put on links is what the loads of links say: no link is busy for longer than the
 *       iteration.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "drawn.h"
#include "exactly.h"
#include "random_plan.h"
#include "sim/sim.h"

/* Whole numbers and texts exactly; times as a sum of them all, which processors may round apart. */
struct told {
    struct exactly exact;
    struct digest times;
};

#define EXACT(told, ...)                                                                           \
    exactly_numbers(&(told)->exact, (const int64_t[]){__VA_ARGS__},                                \
                    sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

static void tell_times(struct told *t, const int64_t *ns, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)ns[i] * (1 + (double)(i % 97) / 97);
    digest_number(&t->times, sum * 1e-9);
}

/* ---- the graph ------------------------------------------------------------------------------- */

static void tell_block(struct told *t, const struct block *b)
{
    EXACT(t, b->part, b->kind, b->items, b->first_bucket, b->buckets);
    for (int32_t i = 0; i < b->items; i++) {
        const struct item *item = &b->item[i];
        EXACT(t, item->kind, item->purpose, item->phase, item->operand, item->needs, item->instance,
              item->bytes, item->pattern, item->exchange, item->chunks, item->tokens, item->rest,
              item->share, item->halo, item->turns, item->run.first, item->run.devices,
              b->unit ? b->unit[i] : -1);
    }
    for (int32_t i = 0; i < b->buckets; i++)
        EXACT(t, b->reads[i], b->completes[i]);
}

static void tell_exchanges(struct told *t, const struct graph *g)
{
    for (int32_t i = 0; i < g->buckets; i++) {
        const struct bucket *b = &g->bucket[i];
        EXACT(t, b->part, b->bytes, b->parameters, b->first, b->last, b->pattern, b->across,
              b->shard, b->gather_bytes, b->most, b->left, b->tied, b->run.first, b->run.devices);
    }
    for (int32_t i = 0; i < g->patterns; i++) {
        const struct pattern *p = &g->pattern[i];
        EXACT(t, p->collective, p->first, p->devices, p->from_first, p->from_devices, p->turned,
              p->digits);
        exactly_numbers(&t->exact, p->stride, p->digits);
        exactly_numbers(&t->exact, p->degree, p->digits);
    }
    for (int32_t i = 0; i < g->exchanges; i++) {
        const struct exchange *e = &g->exchange[i];
        EXACT(t, e->kind, e->purpose, e->pattern, e->group, e->bytes, e->collective);
    }
}

static void tell_part(struct told *t, const struct part_lifetimes *part)
{
    EXACT(t, part->buffers, part->copies.units, part->lives);
    for (int32_t i = 0; i < part->lives; i++) {
        const struct lifetime *l = &part->life[i];
        EXACT(t, l->bytes, l->instance, l->held, l->memory, l->stream, l->born_in, l->dies_in,
              l->offloaded, l->back_in, l->copied, l->born, l->dies, l->left, l->back, l->run.first,
              l->run.devices);
        assert_true(l->born_in != l->dies_in || l->born <= l->dies); /* D3 */
    }
    for (int kind = 0; kind < SLOT_KIND_COUNT; kind++)
        for (int32_t i = 0; i < part->events[kind].count; i++) {
            const struct memory_event *e = &part->events[kind].event[i];
            EXACT(t, e->item, e->life, e->gives);
            assert_in_range(e->life, 0, part->lives - 1); /* D3 */
        }
}

static void tell_graph(struct told *t, const struct graph *g)
{
    EXACT(t, g->folded, g->sends_apart, g->devices, g->blocks, g->tasks);
    for (int32_t i = 0; i < g->blocks; i++)
        tell_block(t, &g->block[i]);
    tell_exchanges(t, g);
    for (int32_t p = 0; p < g->plan->stages * g->plan->pieces; p++)
        tell_part(t, &g->lifetimes->part[p]);
    for (int32_t i = 0; i < g->tasks; i++) {
        const struct task *k = &g->task[i];
        EXACT(t, k->parameters, k->reader, k->device, k->block, k->first_item, k->items,
              k->exchange, k->micro_batch, k->about, k->stream, k->purpose, k->across, k->idle);
    }
    for (int64_t i = 0; i < g->depends_first[g->tasks]; i++)
        exactly_number(&t->exact, g->depends[i]);
}

/* ---- the prediction -------------------------------------------------------------------------- */

/* D1 */
static void hold_order(const struct prediction *p)
{
    const struct engine_graph *e = &p->engine;
    const int64_t *begin = p->result.start_ns, *end = p->result.end_ns;
    for (int32_t i = 0; i < e->tasks; i++) {
        assert_true(begin[i] >= 0 && begin[i] <= end[i] && end[i] <= p->result.end);
        for (int64_t k = e->depends_first[i]; k < e->depends_first[i + 1]; k++)
            assert_true(end[e->depends[k]] <= begin[i]);
    }
    for (int32_t s = 0; s < e->streams; s++)
        for (int64_t k = e->order_first[s] + 1; k < e->order_first[s + 1]; k++)
            assert_true(end[e->order[k - 1]] <= begin[e->order[k]]);
}

static int64_t fullest_point(const struct prediction *p, int32_t stage)
{
    int64_t most = 0;
    for (int64_t i = p->point_first[stage]; i < p->point_first[stage + 1]; i++) {
        int64_t bytes = 0;
        for (int k = 0; k < MEMORY_CLASS_COUNT; k++)
            bytes += p->point[i].bytes[k];
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* D2 */
static void hold_sums(const struct prediction *p, int32_t stage)
{
    const struct stage_peak *m = &p->stage[stage].memory;
    int64_t time = 0, bytes = 0, stays = 0, held = 0;
    for (int i = 0; i < TIME_COUNT; i++)
        time += p->stage[stage].time_ns[i];
    for (int i = 0; i < MEMORY_CLASS_COUNT; i++)
        bytes += m->bytes[i], stays += m->state[i];
    for (int32_t i = 0; i < m->holdings; i++) {
        held += m->holding[i].bytes;
        assert_true(i == 0 || m->holding[i].bytes <= m->holding[i - 1].bytes);
    }
    assert_int_equal(time, p->iteration_ns);
    assert_int_equal(bytes, m->peak);
    assert_true(stays <= m->peak && held <= m->peak);
    assert_int_equal(stage_needed(m), m->reserved + m->context + m->communicators + m->margin);
    assert_int_equal(fullest_point(p, stage), m->peak);
    assert_true(m->reserved >= m->peak);
}

static void tell_stage(struct told *t, const struct prediction *p, int32_t stage)
{
    const struct stage_prediction *s = &p->stage[stage];
    const struct stage_peak *m = &s->memory;
    hold_sums(p, stage);
    tell_times(t, s->time_ns, TIME_COUNT);
    tell_times(t, &s->waits_most_ns, 1);
    exactly_text(&t->exact, s->waits_most);
    exactly_numbers(&t->exact, m->bytes, MEMORY_CLASS_COUNT);
    exactly_numbers(&t->exact, m->state, MEMORY_CLASS_COUNT);
    EXACT(t, m->peak, m->reserved, m->context, m->communicators, m->margin, m->limit, m->returning,
          m->host, m->slot, m->place, m->in_step, m->holdings);
    for (int32_t i = 0; i < m->holdings; i++) {
        exactly_text(&t->exact, m->holding[i].what);
        EXACT(t, m->holding[i].memory, m->holding[i].bytes);
    }
    for (int64_t i = p->point_first[stage]; i < p->point_first[stage + 1]; i++)
        exactly_numbers(&t->exact, p->point[i].bytes, MEMORY_CLASS_COUNT);
}

static void tell_links(struct told *t, const struct prediction *p)
{
    struct arena *keep = arena_new();
    struct link_load *load;
    int32_t count = link_loads(keep, p, 40, &load);
    EXACT(t, count);
    for (int32_t i = 0; i < count; i++) {
        digest_number(&t->times, load[i].bytes);
        digest_number(&t->times, load[i].busy);
        assert_true(load[i].busy <= 1.0001); /* D4 */
    }
    arena_free(keep);
}

static void tell_prediction(struct told *t, const struct prediction *p)
{
    hold_order(p);
    tell_times(t, p->result.start_ns, p->engine.tasks);
    tell_times(t, p->result.end_ns, p->engine.tasks);
    tell_times(t, p->lane_ns, p->lane_first[p->graph->blocks]);
    for (int32_t s = 0; s < p->plan->stages; s++)
        tell_stage(t, p, s);
    tell_links(t, p);
    digest_number(&t->times, p->flops);
    digest_number(&t->times, p->masked_flops);
    for (int32_t i = 0; i < p->reliances; i++)
        exactly_text(&t->exact, p->reliance[i].source);
    EXACT(t, p->busiest, p->fits, p->folded_unalike, p->reliances);
    for (int32_t i = 0; i < p->graph->tasks; i += 7)
        exactly_text(&t->exact, task_label(p, &p->graph->task[i]).s);
}

/* ---- cases ----------------------------------------------------------------------------------- */

static struct drawn held;

static void hold_plan(const struct plan *plan, const char *name, int number)
{
    struct told told = {exactly_nothing(), {0}};
    struct simulate_options options = {.points = true, .returning = true};
    struct prediction *p;
    if (simulate(plan, &options, &p) != WEFT_OK)
        fail_msg("%s %d: %s", name, number, weft_last_error()->message);
    tell_graph(&told, p->graph);
    tell_prediction(&told, p);
    told.times.words = (uint32_t)(told.exact.hash ^ told.exact.hash >> 32);
    drawn_exactly(&held, name, number, told.times);
    prediction_free(p);
}

static void small_plans(void **state)
{
    (void)state;
    static const char *const CLUSTERS[] = {"dgx-a100:1", "titan-rtx:2", "dgx-h100:2",
                                           WEFT_SOURCE_DIR "/data/clusters/two-racks.yaml:2"};
    struct model *model[SMALL_MODEL_COUNT];
    struct cluster *cluster[COUNT_OF(CLUSTERS)];
    struct rng rng;
    rng_seed(&rng, 2711);
    for (size_t i = 0; i < COUNT_OF(CLUSTERS); i++)
        cluster[i] = open_named(CLUSTERS[i]);
    for (int i = 0; i < SMALL_MODEL_COUNT; i++)
        model[i] = open_small(&SMALL_MODELS[i]);
    for (int i = 0; i < rounds_of(6 * SMALL_MODEL_COUNT); i++) {
        int64_t where = rng_below(&rng, COUNT_OF(CLUSTERS));
        struct plan *plan = random_plan(&rng, model[i % SMALL_MODEL_COUNT], cluster[where]);
        hold_plan(plan, "small", i);
        plan_free(plan);
    }
    for (int i = 0; i < SMALL_MODEL_COUNT; i++)
        model_free(model[i]);
    for (size_t i = 0; i < COUNT_OF(CLUSTERS); i++)
        cluster_free(cluster[i]);
}

/* ---- presets, with what frameworks do beside the plain degrees -------------------------------- */

static const struct {
    const char *preset, *options, *cluster;
} PRESETS[] = {
    {"gpt3-1.3b", "layers: 8, seq: 256", "dgx-v100:2"},
    {"llama3-8b", "layers: 8, seq: 256", "dgx-h100:2"},
    {"gemma2-9b", "layers: 4, seq: 256", "dgx-a100:1"},
    {"mixtral-8x7b", "layers: 4, seq: 256, expert_skew: 0.3", "dgx-h100:2"},
    {"deepseek-v3", "layers: 4, first_dense: 1, mtp: 1, seq: 256, experts: 16", "dgx-a100:2"},
    {"gpt-oss-20b", "layers: 4, seq: 256", "dgx-h100:1"},
    {"t5-large", "layers: 2, decoder_layers: 2", "dgx-a100:1"},
    {"bert-large", "layers: 4", "titan-rtx:1"},
    {"nemotron-h-8b", "seq: 256", "dgx-h100:1"},
    {"resnet-50", "image: 64", "titan-xp"},
    {"qwen2.5-vl-7b", "layers: 4, seq: 512, vision_image: 224, vision_layers: 4", "dgx-h100:1"},
    {"swin-huge-32", "", "dgx-a100:1"},
};

static const char *word_of(struct rng *rng, const char *const *from, size_t count)
{
    return from[rng_below(rng, (int64_t)count)];
}

static void draw_memory(struct rng *rng, struct arena *arena, struct degrees *d)
{
    static const char *const AGAIN[] = {"none",      "none", "full",      "selective",
                                        "core_attn", "mlp",  "layernorm", "moe_act,layernorm"};
    static const char *const AWAY[] = {"none", "none", "none", "core_attn,attn_proj", "qkv_linear"};
    assert_true(recompute_parse(arena, word_of(rng, AGAIN, COUNT_OF(AGAIN)), d));
    assert_true(offload_parse(arena, word_of(rng, AWAY, COUNT_OF(AWAY)), &d->offload_modules));
    d->shard = (int)rng_below(rng, 4);
    d->replicate = chance(rng, 4) ? 2 : 0;
    d->offload = chance(rng, 6);
    d->recompute_layers = d->recompute == RECOMPUTE_FULL && chance(rng, 2);
    d->optimizer_offload = chance(rng, 5) ? 0.5 : 0;
    d->has_policy = chance(rng, 3);
    d->policy = (enum policy)rng_below(rng, POLICY_COUNT);
    d->optimizer = (enum update_rule)rng_below(rng, UPDATE_COUNT);
}

static void draw_course(struct rng *rng, struct degrees *d)
{
    static const char *const SCHEDULES[] = {NULL,          NULL,   "gpipe",  "zb-h1", "zb-h2",
                                            "interleaved", "zb-v", "v-half", "aiao"};
    static const char *const SOFTWARE[] = {
        "default",         "default",   "megatron-core-0.16",
        "torchtitan-2025", "deepspeed", "megatron-core-0.16,dispatch=devices",
        "fsdp-script"};
    static const char *const ORDERS[] = {NULL, NULL, NULL, "tp-cp-ep-pp-dp"};
    d->schedule = word_of(rng, SCHEDULES, COUNT_OF(SCHEDULES));
    const struct schedule *schedule = d->schedule ? schedule_find(d->schedule) : NULL;
    d->pieces = schedule && schedule->least_pieces > 1 ? schedule->least_pieces : 0;
    d->has_overlap = chance(rng, 3);
    d->overlap = (unsigned)rng_below(rng, OVERLAP_EVERY + 1);
    d->has_bucket = chance(rng, 4);
    d->bucket_bytes = rng_below(rng, 2) << 24;
    d->order = word_of(rng, ORDERS, COUNT_OF(ORDERS));
    d->whole_sends = chance(rng, 8);
    d->defer_head = chance(rng, 8) && d->pp > 1 ? 2 : 0;
    assert_int_equal(software_from_text(word_of(rng, SOFTWARE, COUNT_OF(SOFTWARE)), &d->software),
                     WEFT_OK);
}

static struct plan *draw_preset_plan(struct rng *rng, struct arena *arena,
                                     const struct model *model, const struct cluster *cluster)
{
    static const int64_t DEGREES[] = {1, 1, 2, 2, 4};
    struct degrees d = {.tp = DEGREES[rng_below(rng, COUNT_OF(DEGREES))],
                        .pp = DEGREES[rng_below(rng, COUNT_OF(DEGREES))],
                        .cp = chance(rng, 4) ? 2 : 1,
                        .ep = DEGREES[rng_below(rng, COUNT_OF(DEGREES))],
                        .micro_batch = 1 + rng_below(rng, 2)};
    struct plan *plan = NULL;
    d.dp = cluster_devices(cluster) / d.tp / d.pp / d.cp;
    d.sequence = chance(rng, 2);
    d.cp_heads = chance(rng, 2) ? 0 : CP_HEADS_ALL;
    d.global_batch = d.dp * d.micro_batch * d.pp * (1 + rng_below(rng, 3));
    draw_memory(rng, arena, &d);
    draw_course(rng, &d);
    if (d.dp && plan_from_degrees(model, cluster, &d, &plan) == WEFT_OK &&
        plan_check(plan) == WEFT_OK)
        return plan;
    plan_free(plan);
    error_clear();
    return NULL;
}

/* Of each preset as many plans as turn up in so many draws. */
static void presets(void **state)
{
    (void)state;
    enum { DRAWS = 160, MOST = 14 };
    for (size_t i = 0; i < COUNT_OF(PRESETS); i++) {
        struct model *model;
        struct arena *arena = arena_new();
        struct cluster *cluster = open_named(PRESETS[i].cluster);
        struct rng rng;
        rng_seed(&rng, 100 + i);
        if (model_open(PRESETS[i].preset, PRESETS[i].options, &model) != WEFT_OK)
            fail_msg("%s", weft_last_error()->message);
        for (int draws = 0, found = 0; draws < DRAWS && found < rounds_of(MOST); draws++) {
            struct plan *plan = draw_preset_plan(&rng, arena, model, cluster);
            if (plan)
                hold_plan(plan, PRESETS[i].preset, found++);
            plan_free(plan);
        }
        cluster_free(cluster);
        model_free(model);
        arena_free(arena);
    }
}

static int open_file(void **state)
{
    (void)state;
    drawn_open(&held, "details.txt");
    return 0;
}

static void all_is_as_it_was(void **state)
{
    (void)state;
    assert_int_equal(drawn_close(&held), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_plans),
        cmocka_unit_test(presets),
        cmocka_unit_test(all_is_as_it_was),
    };
    return cmocka_run_group_tests(tests, open_file, NULL);
}
