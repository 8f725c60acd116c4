/* test_memory_replay.c - how full devices get, against a replay of every item of random plans. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "subject.h"

static uint64_t seed = 20260101;

static int64_t pick(int64_t below)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((seed >> 33) % (uint64_t)below);
}

static const struct {
    const char *family, *options;
} MODELS[] = {
    {"llama", "layers: 8, hidden: 64, heads: 8, kv_heads: 4, seq: 32, vocab: 64"},
    {"llama", "layers: 4, hidden: 64, heads: 8, seq: 64, vocab: 64, loss: fused, attention: eager"},
    {"gpt", "layers: 8, hidden: 64, heads: 8, seq: 32, vocab: 64, attention: fused"},
    {"gpt", "layers: 4, hidden: 64, heads: 8, seq: 32, vocab: 64, parallel: true"},
    {"moe", "layers: 8, hidden: 64, heads: 8, seq: 32, vocab: 64, experts: 8, first_dense: 1"},
    {"moe", "layers: 4, hidden: 64, heads: 8, seq: 32, vocab: 64, experts: 4, kv_lora: 16"},
    {"t5", "layers: 4, hidden: 64, heads: 8, seq: 32, vocab: 64"},
    {"bert", "layers: 8, hidden: 64, heads: 8, seq: 32, vocab: 64"},
    {"vit", "layers: 4, hidden: 64, heads: 8, image: 32, patch: 8, classes: 8"},
};

static bool random_plan(struct subject *s)
{
    static const int64_t POWERS[] = {1, 1, 2, 4};
    const struct schedule *schedules;
    size_t count = schedule_all(&schedules);
    size_t m = (size_t)pick(COUNT_OF(MODELS));
    struct degrees d = {.tp = POWERS[pick(4)],
                        .pp = POWERS[pick(4)],
                        .cp = pick(4) ? 1 : 2,
                        .ep = pick(3) ? 1 : 2,
                        .sequence = pick(2),
                        .shard = (int)pick(4),
                        .recompute = (enum recompute)pick(RECOMPUTE_COUNT),
                        .offload = pick(3) == 0,
                        .micro_batch = 1 + pick(2),
                        .has_policy = true,
                        .policy = (enum policy)pick(POLICY_COUNT),
                        .has_overlap = true,
                        .overlap = (unsigned)pick(OVERLAP_EVERY + 1),
                        .has_bucket = pick(2),
                        .bucket_bytes = 1 << (8 + pick(10))};
    if (d.pp * d.tp * d.cp > 8)
        return false;
    d.dp = 8 / (d.pp * d.tp * d.cp);
    d.global_batch = d.dp * d.micro_batch * d.pp * (1 + pick(4));
    d.schedule = schedules[pick((int64_t)count)].name;
    d.pieces = pick(2) ? 1 : 2;
    return predict(family(MODELS[m].family, MODELS[m].options), "dgx-a100", &d,
                   &(struct simulate_options){.times_only = pick(4) != 0, .points = true}, s);
}

static int order_of(uint8_t kind)
{
    return kind == SLOT_FORWARD ? 0 : kind == SLOT_BACKWARD_WEIGHT ? 2 : 1;
}

/* Each is taken once and given back once, not before. */
static void check_balance(const struct part_lifetimes *part)
{
    int *taken = calloc((size_t)part->lives + 1, sizeof *taken);
    for (int32_t i = 0; i < part->lives; i++) {
        const struct lifetime *life = &part->life[i];
        assert_true(life->bytes > 0);
        assert_true(order_of(life->born_in) <= order_of(life->dies_in));
        assert_true(life->born_in != life->dies_in || life->born <= life->dies);
        assert_true(!life->offloaded || life->memory == MEMORY_ACTIVATIONS);
    }
    for (int pass = 0; pass < 3; pass++)
        for (int kind = 0; kind < SLOT_KIND_COUNT; kind++)
            for (int32_t i = 0; order_of((uint8_t)kind) == pass && i < part->events[kind].count;
                 i++) {
                const struct memory_event *m = &part->events[kind].event[i];
                assert_int_equal(taken[m->life], m->gives);
                taken[m->life] += m->gives ? 10 : 1;
            }
    for (int32_t i = 0; i < part->lives; i++)
        assert_int_equal(taken[i], 11);
    free(taken);
}

/* The naive reference: every micro-batch's tensors one by one. */
struct naive {
    const struct subject *s;
    int32_t stage;
    struct slots slots;
    bool *there; /* per piece, micro-batch and life */
    int64_t most_lives;
    int64_t bytes[MEMORY_CLASS_COUNT], peak, at_peak[MEMORY_CLASS_COUNT];
    int32_t slot;
};

static bool *place_of(struct naive *n, int32_t piece, int32_t micro_batch, int32_t life)
{
    int64_t row = piece * plan_micro_batches(n->s->plan) + micro_batch;
    return &n->there[row * n->most_lives + life];
}

static void change(struct naive *n, int32_t k, int32_t piece, int32_t micro_batch, int32_t number,
                   bool there)
{
    const struct lifetime *life =
        &part_of(n->s, plan_part_of_piece(n->s->plan, n->stage, piece))->life[number];
    bool *place = place_of(n, piece, micro_batch, number);
    int64_t all = 0;
    assert_true(*place != there);
    *place = there;
    n->bytes[life->memory] += there ? life->bytes : -life->bytes;
    assert_true(n->bytes[life->memory] >= 0);
    for (int c = 0; c < MEMORY_CLASS_COUNT; c++)
        all += n->bytes[c];
    if (all > n->peak) {
        n->peak = all;
        n->slot = k;
        memcpy(n->at_peak, n->bytes, sizeof n->bytes);
    }
}

static void move_checkpoints(struct naive *n, int32_t k, const struct slot *slot, bool there)
{
    const struct part_lifetimes *part =
        part_of(n->s, plan_part_of_piece(n->s->plan, n->stage, slot->piece));
    for (int32_t i = 0; i < part->lives; i++)
        if (part->life[i].offloaded)
            change(n, k, slot->piece, slot->micro_batch, i, there);
}

/* The slot that reads what this forward slot left, or -1. */
static int32_t reader_of(const struct naive *n, int32_t f)
{
    const struct slot *a = &n->slots.data[f];
    for (int32_t g = f + 1; g < (int32_t)n->slots.len; g++) {
        const struct slot *b = &n->slots.data[g];
        if ((b->kind == SLOT_BACKWARD || b->kind == SLOT_BACKWARD_INPUT) && a->piece == b->piece &&
            a->micro_batch == b->micro_batch)
            return g;
    }
    return -1;
}

static void move_all(struct naive *n, int32_t k)
{
    for (int32_t f = 0; f < k; f++) {
        if (n->slots.data[f].kind != SLOT_FORWARD)
            continue;
        int32_t g = reader_of(n, f);
        if (f + 2 < g - 1 && f + 2 == k)
            move_checkpoints(n, k, &n->slots.data[f], false);
    }
    for (int32_t f = 0; f < k; f++)
        if (n->slots.data[f].kind == SLOT_FORWARD && reader_of(n, f) == k + 1 && f + 2 < k)
            move_checkpoints(n, k, &n->slots.data[f], true);
}

static int32_t last_item(const struct part_lifetimes *part, enum slot_kind kind)
{
    int32_t last = -1;
    for (int32_t i = 0; i < part->lives; i++) {
        const struct lifetime *life = &part->life[i];
        if (life->born_in == kind && life->born > last)
            last = life->born;
        if (life->dies_in == kind && life->dies > last)
            last = life->dies;
    }
    return last;
}

static void replay(struct naive *n)
{
    const struct plan *plan = n->s->plan;
    struct arena *scratch = arena_new();
    struct pipeline pipeline = {plan->stages, (int32_t)plan->pieces,
                                (int32_t)plan_micro_batches(plan)};
    schedule_order(plan_schedule(plan), &pipeline, n->stage, scratch, &n->slots);
    for (int32_t part = 0; part < plan->parts; part++)
        if (part_of(n->s, part)->lives > n->most_lives)
            n->most_lives = part_of(n->s, part)->lives;
    n->there = ARENA_ARRAY(scratch, bool,
                           (size_t)(plan->pieces * pipeline.micro_batches * n->most_lives) + 1);
    n->slot = -1;
    for (int32_t k = 0; k < (int32_t)n->slots.len; k++) {
        const struct slot *slot = &n->slots.data[k];
        const struct part_lifetimes *part =
            part_of(n->s, plan_part_of_piece(plan, n->stage, slot->piece));
        move_all(n, k);
        for (int32_t item = -1; item <= last_item(part, slot->kind); item++)
            for (int gives = 0; gives < 2; gives++)
                for (int32_t i = 0; i < part->lives; i++) {
                    const struct lifetime *life = &part->life[i];
                    if ((gives ? life->dies_in : life->born_in) == slot->kind &&
                        (gives ? life->dies : life->born) == item)
                        change(n, k, slot->piece, slot->micro_batch, i, !gives);
                }
    }
    for (int c = 0; c < MEMORY_CLASS_COUNT; c++)
        assert_int_equal(n->bytes[c], 0);
    arena_free(scratch);
}

static void check_points(const struct subject *s, int32_t stage)
{
    const struct prediction *p = s->prediction;
    int64_t most = 0, all = 0;
    for (int64_t i = p->point_first[stage]; i < p->point_first[stage + 1]; i++) {
        all = 0;
        for (int k = 0; k < MEMORY_CLASS_COUNT; k++) {
            assert_true(p->point[i].bytes[k] >= p->stage[stage].memory.state[k]);
            all += p->point[i].bytes[k];
        }
        most = all > most ? all : most;
        assert_true(i == p->point_first[stage] || p->point[i].at_ns >= p->point[i - 1].at_ns);
    }
    if (plan_schedule(s->plan)
            ->ahead) /* layers that take turns: tasks' times differ from that by parts of a layer */
        assert_true((double)most <= 1.02 * (double)p->stage[stage].memory.peak);
    else
        assert_int_equal(most, p->stage[stage].memory.peak);
}

/* Two slots executed as one: each is fullest when the other is, which is more than one after the other by
 * what the first holds then and does not keep, and less by what it keeps, for which the second makes room. */
static void check_paired_stage(const struct subject *s, int32_t stage, const struct naive *after)
{
    const struct stage_peak *peak = &s->prediction->stage[stage].memory;
    int64_t more = 0, less = 0;
    for (int32_t piece = 0; piece < s->plan->pieces; piece++) {
        const struct part_lifetimes *p = part_of(s, plan_part_of_piece(s->plan, stage, piece));
        int64_t held = 0, most = 0;
        for (int32_t i = 0; i < p->events[SLOT_FORWARD].count; i++) {
            const struct memory_event *m = &p->events[SLOT_FORWARD].event[i];
            held += m->gives ? -p->life[m->life].bytes : p->life[m->life].bytes;
            most = held > most ? held : most;
        }
        more = most - held > more ? most - held : more;
        less = held > less ? held : less;
    }
    assert_true(peak->peak >= state_of(s, stage) + after->peak - less);
    assert_true(peak->peak <= state_of(s, stage) + after->peak + more);
}

static void check_stage(const struct subject *s, int32_t stage)
{
    const struct stage_peak *peak = &s->prediction->stage[stage].memory;
    struct naive naive = {.s = s, .stage = stage};
    int64_t held = 0, all = 0;
    replay(&naive);
    struct stage_memory memory = plan_stage_memory(s->plan, stage, 0);
    int64_t step = (int64_t)memory.late + (int64_t)memory.step;
    if (peak->in_step) {
        assert_true(step > naive.peak);
        assert_int_equal(peak->peak, state_of(s, stage) + step);
    } else if (plan_schedule(s->plan)->ahead) {
        check_paired_stage(s, stage, &naive);
    } else {
        assert_int_equal(peak->peak, state_of(s, stage) + naive.peak);
        assert_int_equal(peak->slot, naive.slot);
        assert_int_equal(peak->bytes[MEMORY_ACTIVATIONS], naive.at_peak[MEMORY_ACTIVATIONS]);
        assert_int_equal(peak->bytes[MEMORY_WORKSPACE], naive.at_peak[MEMORY_WORKSPACE]);
    }
    for (int c = 0; c < MEMORY_CLASS_COUNT; c++)
        all += peak->bytes[c];
    assert_int_equal(all, peak->peak);
    for (int32_t i = 0; i < peak->holdings; i++) {
        held += peak->holding[i].bytes;
        assert_true(i == 0 || peak->holding[i].bytes <= peak->holding[i - 1].bytes);
    }
    assert_true(held <= peak->peak);
    assert_true(peak->reserved >= peak->peak);
    assert_true(peak->at_ns >= 0 && peak->at_ns <= s->prediction->iteration_ns);
    check_points(s, stage);
}

static void random_plans(void **state)
{
    (void)state;
    int plans = 0;
    for (int tries = 0; plans < 200 && tries < 10000; tries++) {
        struct subject s;
        if (!random_plan(&s))
            continue;
        for (int32_t part = 0; part < s.plan->parts; part++)
            check_balance(part_of(&s, part));
        for (int32_t stage = 0; stage < s.plan->stages; stage++)
            check_stage(&s, stage);
        drop(&s);
        plans++;
    }
    assert_int_equal(plans, 200);
}

/* ---- a full device gets free segments back --------------------------------------------------- */

/* What is reserved in a room that is too small by so many MiB; 0: not needed, or a request is refused. */
static int64_t returning_in(struct plan *plan, int64_t missing_mib, int64_t *room)
{
    struct prediction *p = NULL;
    struct simulate_options options = {.fold = FOLD_AUTO, .returning = true};
    plan->memory.limit_bytes = 0;
    assert_int_equal(simulate(plan, &options, &p), WEFT_OK);
    *room = p->stage[0].memory.reserved - (missing_mib << 20);
    prediction_free(p);
    plan->memory.limit_bytes = *room;
    assert_int_equal(simulate(plan, &options, &p), WEFT_OK);
    int64_t bytes = p->stage[0].memory.returning;
    assert_true(bytes == 0 || bytes >= p->stage[0].memory.peak);
    prediction_free(p);
    return bytes;
}

static void plan_gpt2(const char *on, const struct degrees *degrees, struct subject *out)
{
    *out = (struct subject){0};
    assert_int_equal(model_open("gpt2-xl", NULL, &out->model), WEFT_OK);
    assert_int_equal(cluster_open(on, &out->cluster), WEFT_OK);
    assert_int_equal(plan_from_degrees(out->model, out->cluster, degrees, &out->plan), WEFT_OK);
}

static void segments_are_returned(void **state)
{
    (void)state;
    struct subject s;
    int64_t room = 0;
    plan_gpt2("dgx-a100:1x1", &(struct degrees){.micro_batch = 4, .global_batch = 8}, &s);
    int64_t bytes = returning_in(s.plan, 300, &room);
    assert_true(bytes > 0 && bytes <= room);
    assert_int_equal(returning_in(s.plan, 4096, &room), 0);
    assert_int_equal(returning_in(s.plan, 0, &room), 0);
    drop(&s);
}

/* Weights are gathered in one stream, gradients summed in another: all have one device's memory. */
static void streams_share_a_device(void **state)
{
    (void)state;
    struct subject s;
    int64_t room = 0, some = 0;
    struct degrees degrees = {.dp = 4,
                              .shard = 3,
                              .has_policy = true,
                              .policy = POLICY_FSDP,
                              .micro_batch = 4,
                              .global_batch = 32};
    plan_gpt2("dgx-a100:1x4", &degrees, &s);
    for (int64_t missing = 0; missing <= 256; missing += 16) {
        int64_t bytes = returning_in(s.plan, missing, &room);
        assert_true(bytes <= room);
        some += bytes > 0;
    }
    assert_true(some > 0);
    drop(&s);
}

/* Weights are gathered ahead in a stream of their own, also where a forward and a backward pass take turns, which reserves at
 * most once more what a pass holds. */
static void pairs_keep_streams_apart(void **state)
{
    (void)state;
    static const char MODEL[] = "layers: 4, hidden: 256, heads: 8, seq: 32, vocab: 64, experts: 8";
    struct degrees d = {.dp = 4,
                        .ep = 2,
                        .shard = 3,
                        .global_batch = 16,
                        .has_policy = true,
                        .policy = POLICY_FSDP,
                        .has_overlap = true,
                        .overlap = OVERLAP_ALL};
    struct simulate_options options = {0};
    struct subject turns, pairs;
    assert_true(predict(family("moe", MODEL), "dgx-a100:1x4", &d, &options, &turns));
    d.overlap |= OVERLAP_EXPERTS;
    assert_true(predict(family("moe", MODEL), "dgx-a100:1x4", &d, &options, &pairs));
    const struct stage_peak *one = &turns.prediction->stage[0].memory;
    const struct stage_peak *both = &pairs.prediction->stage[0].memory;
    int64_t gathered = 0;
    for (int32_t i = 0; i < part_of(&pairs, 0)->lives; i++)
        gathered += part_of(&pairs, 0)->life[i].stream == MEMORY_GATHERED;
    assert_true(gathered > 0 && plan_schedule(pairs.plan)->ahead && both->peak > one->peak);
    assert_true(both->reserved >= both->peak);
    assert_true(both->reserved <= one->reserved + both->peak - state_of(&pairs, 0));
    drop(&turns);
    drop(&pairs);
}

/* In flight on the first of two stages is twice as much: in a room that the second one just lacks, tensors alone are too
 * much for the first, and the plan does not run, whatever the second would reserve. */
static void one_stage_without_room_is_enough(void **state)
{
    (void)state;
    struct model *model = NULL;
    struct cluster *cluster = NULL;
    struct plan *plan = NULL;
    struct prediction *p = NULL;
    struct degrees degrees = {.pp = 2, .micro_batch = 8, .global_batch = 64};
    struct simulate_options options = {.fold = FOLD_AUTO, .returning = true};
    assert_int_equal(model_open("gpt2-xl", NULL, &model), WEFT_OK);
    assert_int_equal(cluster_open("dgx-a100:1x2", &cluster), WEFT_OK);
    assert_int_equal(plan_from_degrees(model, cluster, &degrees, &plan), WEFT_OK);
    assert_int_equal(simulate(plan, &options, &p), WEFT_OK);
    const struct stage_peak *first = &p->stage[0].memory, *second = &p->stage[1].memory;
    int64_t room = second->reserved - (INT64_C(1) << 20);
    assert_true(second->peak <= room && first->peak > room);
    prediction_free(p);
    plan->memory.limit_bytes = room;
    assert_int_equal(simulate(plan, &options, &p), WEFT_OK);
    assert_int_equal(p->stage[0].memory.returning, 0);
    assert_int_equal(p->stage[1].memory.returning, 0);
    prediction_free(p);
    plan_free(plan);
    cluster_free(cluster);
    model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_plans),
        cmocka_unit_test(segments_are_returned),
        cmocka_unit_test(streams_share_a_device),
        cmocka_unit_test(pairs_keep_streams_apart),
        cmocka_unit_test(one_stage_without_room_is_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
