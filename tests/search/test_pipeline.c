/* test_pipeline.c - the estimate's pipelines: their times and what their stages hold, in closed form and slot
 * by slot.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rounds.h"
#include "search/estimate/estimator.h"
#include "search/search.h"

/* ---- pipelines, slot by slot ----------------------------------------------------------------- */

/* When each slot of a schedule is over; the iteration. O(slots^2), and nothing else to it. */
static int64_t played(const struct schedule *schedule, const struct pipeline *p,
                      const struct part_work *part)
{
    struct arena *scratch = arena_new();
    int32_t parts = p->stages * p->pieces, m = p->micro_batches;
    int64_t *over = ARENA_ARRAY(scratch, int64_t, (size_t)parts *(size_t)m *SLOT_KIND_COUNT);
    int64_t *sent = ARENA_ARRAY(scratch, int64_t, (size_t)parts *(size_t)m *SLOT_KIND_COUNT);
    int64_t last = 0;
    for (bool changed = true; changed;) {
        changed = false;
        for (int32_t s = 0; s < p->stages; s++) {
            struct slots slots = {0};
            int64_t free = 0, link[32][2] = {0};
            schedule_order(schedule, p, s, scratch, &slots);
            for (size_t i = 0; i < slots.len; i++) {
                const struct slot *slot = &slots.data[i];
                int32_t k = slot->piece * p->stages + s;
                bool forward = slot->kind == SLOT_FORWARD,
                     weight = slot->kind == SLOT_BACKWARD_WEIGHT;
#define AT(kind, part_)   (((int64_t)(kind) * parts + (part_)) * m + slot->micro_batch)
#define OVER(kind, part_) over[AT(kind, part_)]
                int64_t ready = weight          ? OVER(SLOT_BACKWARD_INPUT, k)
                                : forward       ? (k ? sent[AT(SLOT_FORWARD, k - 1)] : 0)
                                : k + 1 < parts ? sent[AT(slot->kind, k + 1)]
                                                : OVER(SLOT_FORWARD, k);
                int64_t ns = weight ? part[k].weight : forward ? part[k].forward : part[k].backward;
                free = (ready > free ? ready : free) + ns;
                changed |= OVER(slot->kind, k) != free;
                OVER(slot->kind, k) = free;
                int64_t *way = &link[k / p->stages][!forward]; /* one send after the other */
                if (!weight) {
                    *way = (free > *way ? free : *way) + (forward ? part[k].send : part[k].back);
                    changed |= sent[AT(slot->kind, k)] != *way;
                    sent[AT(slot->kind, k)] = *way;
                }
#undef OVER
#undef AT
                last = free > last ? free : last;
            }
        }
    }
    arena_free(scratch);
    return last;
}

static int64_t estimated(struct orders *orders, const struct schedule *schedule,
                         const struct pipeline *p, const struct part_work *part)
{
    struct stage_end end[16];
    struct pipeline_work work = {schedule, p->stages,   p->pieces, p->micro_batches,
                                 part,     OVERLAP_ALL, 1,         p->group};
    int64_t last = 0;
    pipeline_ends(orders, &work, end);
    for (int32_t s = 0; s < p->stages; s++)
        last = end[s].computed_ns > last ? end[s].computed_ns : last;
    return last;
}

/* Uneven stages, and sends of up to a fifth of a pass or of up to several passes. The waves of
 * all-in-all-out and what is played are exact, with more micro-batches than are played nearly so. */
static void pipelines_like_their_slots(void **state)
{
    static const struct {
        const char *schedule;
        int64_t send;      /* at most; a forward pass is 1000 or more */
        double mean, most; /* relative difference */
        int many;          /* rounds of micro-batches, for interleaved: up to so many times five */
    } ALLOWED[] = {{"gpipe", 200, 0, 0},
                   {"1f1b", 200, 0.002, 0.02},
                   {"interleaved", 200, 0.002, 0.02},
                   {"aiao", 200, 0, 0},
                   {"zb-h1", 200, 0.001, 0.005},
                   {"gpipe", 8000, 0, 0},
                   {"1f1b", 8000, 0.05, 0.25},
                   {"interleaved", 8000, 0.002, 0.03},
                   {"aiao", 8000, 0, 0},
                   {"zb-h1", 8000, 0.01, 0.1},
                   {"interleaved", 200, 0.002, 0.02, 2},
                   {"interleaved", 8000, 0.002, 0.03, 2}};
    struct arena *scratch = arena_new();
    struct orders *orders = orders_new(scratch);
    struct rng rng;
    (void)state;
    rng_seed(&rng, 3);
    for (size_t k = 0; k < COUNT_OF(ALLOWED); k++) {
        const struct schedule *schedule = schedule_find(ALLOWED[k].schedule);
        double mean = 0, most = 0;
        enum { ROUNDS = 300 }; /* whatever WEFT_TEST_PERCENT says: means of fewer say little */
        for (int i = 0; i < ROUNDS; i++) {
            struct part_work part[32];
            struct pipeline p = {(int32_t)(1 + rng_below(&rng, 8)), 1,
                                 (int32_t)(1 + rng_below(&rng, 40))};
            bool pieces =
                strcmp(schedule->name, "interleaved") == 0 || strcmp(schedule->name, "aiao") == 0;
            p.pieces = pieces ? (int32_t)(2 + rng_below(&rng, 3)) : 1;
            p.micro_batches =
                strcmp(schedule->name, "interleaved") == 0
                    ? p.stages * (1 + p.micro_batches * (1 + ALLOWED[k].many) / 8) + i % p.stages
                    : p.micro_batches;
            p.group = schedule->grouped && i % 5 == 0 ? p.micro_batches : 0;
            int64_t uneven = 1 + rng_below(&rng, 1000);
            for (int32_t j = 0; j < p.stages * p.pieces; j++) {
                part[j] = (struct part_work){.forward = 1000 + rng_below(&rng, uneven),
                                             .backward = 2000 + rng_below(&rng, 2 * uneven),
                                             .send = rng_below(&rng, ALLOWED[k].send),
                                             .back = rng_below(&rng, ALLOWED[k].send)};
                if (strcmp(schedule->name, "zb-h1") == 0) {
                    part[j].backward /= 2;
                    part[j].weight = part[j].backward;
                }
            }
            double real = (double)played(schedule, &p, part);
            double off = fabs((double)estimated(orders, schedule, &p, part) / real - 1);
            mean += off / ROUNDS;
            most = off > most ? off : most;
        }
        print_message("%s, sends below %lld: mean difference %.3f %%, most %.2f %%\n",
                      schedule->name, (long long)ALLOWED[k].send, 100 * mean, 100 * most);
        assert_true(mean <= ALLOWED[k].mean && most <= ALLOWED[k].most);
    }
    arena_free(scratch);
}

/* What was played once is not played again; whatever changes the times is played anew. */
static void plays_are_kept_for_the_same_times(void **state)
{
    struct arena *scratch = arena_new();
    struct orders *orders = orders_new(scratch);
    const struct schedule *schedule = schedule_find("interleaved");
    struct pipeline p = {2, 2, 8};
    struct part_work part[4];
    (void)state;
    for (int k = 0; k < 4; k++)
        part[k] = (struct part_work){.forward = 100, .backward = 200, .send = 10, .back = 10};
    int64_t first = estimated(orders, schedule, &p, part);
    assert_int_equal(estimated(orders, schedule, &p, part), first);
    int64_t *const times[] = {&part[1].forward, &part[2].backward, &part[0].send, &part[3].back};
    for (size_t i = 0; i < COUNT_OF(times); i++) {
        *times[i] += 1000;
        int64_t slower = estimated(orders, schedule, &p, part);
        assert_true(slower > first);
        assert_int_equal(slower, estimated(orders_new(scratch), schedule, &p, part));
        *times[i] -= 1000;
    }
    p.micro_batches = 80;
    assert_int_equal(estimated(orders, schedule, &p, part),
                     estimated(orders_new(scratch), schedule, &p, part));
    p.micro_batches = 160; /* of which as many are played */
    assert_int_equal(estimated(orders, schedule, &p, part),
                     estimated(orders_new(scratch), schedule, &p, part));
    p.micro_batches = 8;
    assert_int_equal(estimated(orders, schedule, &p, part), first);
    arena_free(scratch);
}

/* ---- memory, slot by slot -------------------------------------------------------------------- */

/* Whether the checkpoints of the forward slot f, whose backward slot is g, are in host memory during
 * slot k (sim/holdings.c, I2). */
static bool is_away(int64_t f, int64_t g, int64_t k)
{
    return f + 2 < g - 1 && k >= f + 2 && k < g - 1;
}

/* By how much a stage gets fuller while a slot runs. */
static int64_t rise_of(const struct part_memory *part, enum slot_kind kind)
{
    return kind == SLOT_FORWARD           ? part->forward_rise
           : kind == SLOT_BACKWARD_WEIGHT ? part->weight_rise
                                          : part->backward_rise;
}

/* By how much it is fuller afterwards. */
static int64_t net_of(const struct part_memory *part, enum slot_kind kind)
{
    return kind == SLOT_FORWARD          ? part->kept
           : kind == SLOT_BACKWARD_INPUT ? part->back
           : kind == SLOT_BACKWARD       ? -part->kept
                                         : -part->kept - part->back;
}

/* Of a forward and a backward pass that go layer by layer: what one gives back, the other can take. */
static int64_t rise_in_pair(const struct part_memory *a, enum slot_kind kind_a,
                            const struct part_memory *b, enum slot_kind kind_b)
{
    int64_t net = net_of(a, kind_a) + net_of(b, kind_b);
    return (net > 0 ? net : 0) + rise_of(a, kind_a) - net_of(a, kind_a) + rise_of(b, kind_b);
}

/* The part of the model whose pass a slot is. */
static const struct part_memory *part_at(const struct schedule *schedule, const struct pipeline *p,
                                         int32_t stage, const struct part_memory *part,
                                         const struct slot *slot)
{
    return &part[part_of_piece(schedule->zigzag, p->stages, stage, slot->piece)];
}

/* What a stage holds at most: every slot's sum from the start. O(slots^2). */
static int64_t held_slowly(const struct schedule *schedule, const struct pipeline *p, int32_t stage,
                           const struct part_memory *part)
{
    struct arena *scratch = arena_new();
    struct slots slots = {0};
    int64_t most = 0;
    schedule_order(schedule, p, stage, scratch, &slots);
    for (size_t k = 0; k < slots.len; k++) {
        int64_t held = 0;
        for (size_t f = 0; f < k; f++) { /* what it left */
            const struct slot *slot = &slots.data[f];
            const struct part_memory *of = part_at(schedule, p, stage, part, slot);
            held += net_of(of, slot->kind);
            for (size_t g = f; slot->kind == SLOT_FORWARD && g < slots.len; g++) {
                const struct slot *other = &slots.data[g];
                bool reads = other->kind == SLOT_BACKWARD || other->kind == SLOT_BACKWARD_INPUT;
                if (reads && other->piece == slot->piece && other->micro_batch == slot->micro_batch)
                    held -= is_away((int64_t)f, (int64_t)g, (int64_t)k) ? of->offloaded : 0;
            }
        }
        const struct slot *slot = &slots.data[k];
        const struct part_memory *own = part_at(schedule, p, stage, part, slot);
        if (slots_paired(schedule, p, stage, &slots, k))
            held += rise_in_pair(own, slot->kind, part_at(schedule, p, stage, part, &slot[1]),
                                 slot[1].kind);
        else
            held += rise_of(own, slot->kind);
        bool second = k > 0 && slots_paired(schedule, p, stage, &slots, k - 1);
        most = held > most && !second ? held : most;
    }
    arena_free(scratch);
    return most;
}

/* The answer is the same as if nothing else had been asked, whatever one number of one part is. */
static void plays_are_kept_for_the_same_numbers(void **state)
{
    static const char *const SCHEDULES[] = {"1f1b", "interleaved", "zb-h1", "zb-v", "dualpipev"};
    enum { FIELDS = sizeof(struct part_work) / sizeof(int64_t), PARTS = 8 };
    _Static_assert(FIELDS * sizeof(int64_t) == sizeof(struct part_work), "numbers, all of them");
    struct rng rng;
    int others = 0;
    (void)state;
    rng_seed(&rng, 41);
    for (int i = 0; i < rounds_of(60); i++) {
        struct arena *scratch = arena_new();
        struct orders *orders = orders_new(scratch);
        const struct schedule *schedule = schedule_find(SCHEDULES[i % COUNT_OF(SCHEDULES)]);
        int32_t pieces = schedule->least_pieces > 1 ? 2 : 1;
        struct pipeline p = {PARTS / 2, pieces, PARTS};
        int64_t number[PARTS][FIELDS];
        for (int k = 0; k < PARTS; k++)
            for (int f = 0; f < FIELDS; f++)
                number[k][f] = 1000 + rng_below(&rng, 1000);
        const struct part_work *part = (const struct part_work *)(const void *)number;
        int64_t first = estimated(orders, schedule, &p, part);
        for (int k = 0; k < p.stages * pieces; k++)
            for (int f = 0; f < FIELDS; f++) {
                int64_t before = number[k][f];
                number[k][f] = rng_below(&rng, 4000);
                struct arena *anew = arena_new();
                int64_t alone = estimated(orders_new(anew), schedule, &p, part);
                assert_int_equal(estimated(orders, schedule, &p, part), alone);
                others += alone != first;
                number[k][f] = before;
                arena_free(anew);
            }
        arena_free(scratch);
    }
    assert_true(others > 0);
}

static void held_like_slot_by_slot(void **state)
{
    const struct schedule *all;
    size_t schedules = schedule_all(&all);
    struct arena *scratch = arena_new();
    struct holdings *holdings = holdings_new(scratch);
    struct rng rng;
    (void)state;
    rng_seed(&rng, 6);
    for (int i = 0; i < 3000; i++) { /* microseconds each */
        const struct schedule *schedule = &all[(size_t)rng_below(&rng, (int64_t)schedules)];
        struct pipeline p = {(int32_t)(1 + rng_below(&rng, 4)), (int32_t)(1 + rng_below(&rng, 3)),
                             (int32_t)(1 + rng_below(&rng, 12))};
        struct part_memory part[12];
        bool offload = rng_below(&rng, 2) == 0, split = schedule->passes == ORDER_SPLIT;
        bool gives = p.pieces > 1 && schedule->passes != ORDER_FORWARDS_FIRST && i % 8 == 0;
        p.micro_batches *= i % 40 == 1 ? 3 : 1; /* a slow look takes its cube */
        schedule = i % 4 == 2 ? schedule_paired(schedule, p.stages) : schedule;
        if (schedule_check(schedule, &p) != WEFT_OK)
            continue;
        for (int32_t k = 0; k < p.stages * p.pieces; k++) {
            part[k] = (struct part_memory){.kept = 100 + rng_below(&rng, 1000)};
            part[k].kept -= gives ? 500 : 0;
            part[k].back = split ? rng_below(&rng, 100) - 50 : -part[k].kept;
            part[k].forward_rise = part[k].kept + rng_below(&rng, 500);
            part[k].backward_rise = rng_below(&rng, 500);
            part[k].weight_rise = split ? rng_below(&rng, 500) : 0;
            part[k].offloaded = offload && !gives ? rng_below(&rng, part[k].kept) : 0;
        }
        for (int32_t s = 0; s < p.stages; s++) {
            int64_t fast = most_held(holdings, schedule, &p, s, &part[s]);
            int64_t slow = held_slowly(schedule, &p, s, part);
            if (fast != slow)
                fail_msg("%s, stage %d of %d, %d pieces, %d micro-batches%s: %lld, not %lld",
                         schedule->name, s, p.stages, p.pieces, p.micro_batches,
                         offload ? ", offload" : "", (long long)fast, (long long)slow);
        }
    }
    arena_free(scratch);
}

/* Without sends, equal stages: schedule.c (1) to (4). */
static void equal_stages_like_theory(void **state)
{
    struct arena *scratch = arena_new();
    struct orders *orders = orders_new(scratch);
    (void)state;
    for (int32_t p = 1; p <= 8; p *= 2)
        for (int32_t m = p; m <= 64; m *= 2) {
            struct part_work part[8];
            struct pipeline pipeline = {p, 1, m};
            for (int32_t j = 0; j < p; j++)
                part[j] = (struct part_work){.forward = 100, .backward = 200};
            int64_t ns = 300 * (int64_t)(m + p - 1);
            assert_int_equal(estimated(orders, schedule_find("1f1b"), &pipeline, part), ns);
            assert_int_equal(estimated(orders, schedule_find("gpipe"), &pipeline, part), ns);
            for (int32_t j = 0; j < p; j++)
                part[j] = (struct part_work){.forward = 100, .backward = 100, .weight = 100};
            ns = 300 * (int64_t)m + 100 * (int64_t)(p - 1);
            assert_int_equal(estimated(orders, schedule_find("zb-h1"), &pipeline, part), ns);
        }
    arena_free(scratch);
}

/* ---- what comes with passes and after them, by hand ------------------------------------------ */

static struct part_work placed(const char *schedule, int32_t part, int64_t micro_batches,
                               unsigned overlap, struct part_work of)
{
    struct pipeline_work work = {schedule_find(schedule), 2, 1, micro_batches, NULL, overlap, 1};
    put_in_pipeline(&work, part, &of);
    return of;
}

/* Sends that do not overlap are part of their own pass (pipeline.h, I2). */
static void sends_are_waited_for(void **state)
{
    struct part_work of = {.forward = 100, .backward = 200, .send = 3, .back = 4}, put;
    (void)state;
    put = placed("1f1b", 0, 8, OVERLAP_PIPELINE, of);
    assert_memory_equal(&put, &of, sizeof of);
    put = placed("1f1b", 0, 8, 0, of);
    assert_int_equal(put.forward, 103);
    assert_int_equal(put.backward, 204);
    assert_int_equal(put.send + put.back, 0);
}

/* Checkpoints in host memory: the last part's go there and come back at once, others come back beside the slot
 * before their backward pass (I3). */
static void checkpoints_come_back_in_time(void **state)
{
    static const struct {
        const char *schedule;
        int32_t part;
        int64_t micro_batches, host, backward, last_more;
    } CASES[] = {
        {"1f1b", 0, 8, 90, 200, 0},     /* all beside a forward pass */
        {"1f1b", 0, 8, 130, 230, 0},    /* the forward pass is too short */
        {"1f1b", 0, 1, 90, 380, 0},     /* nothing is beside it: there and back */
        {"1f1b", 1, 8, 90, 380, 0},     /* right after its forward pass */
        {"gpipe", 0, 8, 130, 200, 0},   /* beside a backward pass, */
        {"gpipe", 0, 8, 250, 250, 0},   /* which is too short */
        {"gpipe", 1, 8, 130, 200, 260}, /* only the last micro-batch's are waited for */
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct part_work of = {.forward = 100, .backward = 200, .host = CASES[i].host};
        of = placed(CASES[i].schedule, CASES[i].part, CASES[i].micro_batches, OVERLAP_ALL, of);
        assert_int_equal(of.forward, 100);
        assert_int_equal(of.backward, CASES[i].backward);
        assert_int_equal(of.last_more, CASES[i].last_more);
    }
}

/* Two pieces on one stage: what is left of the second's gradients meets the first one's backward passes, slows
 * them to half as much again, and what is left then follows with the first one's own (I1). */
static void gradients_meet_the_piece_before(void **state)
{
    static const struct {
        unsigned overlap;
        int64_t left, computed, tail; /* of the second piece; of all */
    } CASES[] = {
        {OVERLAP_ALL, 70, 180 + 35, 7},      /* 3 (20 + 5) is enough */
        {OVERLAP_ALL, 90, 180 + 37, 15 + 7}, /* and here it is not */
        {OVERLAP_ALL & ~(unsigned)OVERLAP_GRADIENTS, 70, 180, 77},
    };
    struct arena *scratch = arena_new();
    (void)state;
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct part_work part[] = {{.forward = 10, .backward = 20, .weight = 5, .tail = 7},
                                   {.forward = 10, .backward = 20, .tail = CASES[i].left}};
        struct pipeline_work work = {schedule_find("aiao"), 1, 2, 3, part, CASES[i].overlap, 1.5};
        struct stage_end end;
        pipeline_ends(orders_new(scratch), &work, &end);
        assert_int_equal(end.computed_ns, CASES[i].computed);
        assert_int_equal(end.synchronised_ns - end.computed_ns, CASES[i].tail);
    }
    arena_free(scratch);
}

/* Gradients that go with every micro-batch and fall behind by 6 each time: after 5 micro-batches by 4 times as
 * much, less what the stage waits in between. */
static void gradients_lag_with_every_micro_batch(void **state)
{
    struct part_work part[] = {{.forward = 10, .backward = 20, .tail = 2, .lag = 6},
                               {.forward = 11, .backward = 22, .tail = 1}};
    struct arena *scratch = arena_new();
    struct orders *orders = orders_new(scratch);
    struct stage_end end[2];
    struct pipeline_work work = {schedule_find("1f1b"), 1, 1, 5, part, OVERLAP_ALL, 1};
    (void)state;
    pipeline_ends(orders, &work, end);
    assert_int_equal(end[0].computed_ns, 5 * 30);
    assert_int_equal(end[0].synchronised_ns, 5 * 30 + 2 + 4 * 6);
    work.stages = 2;
    pipeline_ends(orders, &work, end); /* a round of stage 0 waits 3 for stage 1 */
    assert_int_equal(end[0].computed_ns, 10 + 5 * 33 + 20);
    assert_int_equal(end[0].synchronised_ns, end[0].computed_ns + 2 + 4 * (6 - 3));
    assert_int_equal(end[1].synchronised_ns, end[1].computed_ns + 1);
    arena_free(scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pipelines_like_their_slots),
        cmocka_unit_test(plays_are_kept_for_the_same_times),
        cmocka_unit_test(plays_are_kept_for_the_same_numbers),
        cmocka_unit_test(held_like_slot_by_slot),
        cmocka_unit_test(equal_stages_like_theory),
        cmocka_unit_test(sends_are_waited_for),
        cmocka_unit_test(checkpoints_come_back_in_time),
        cmocka_unit_test(gradients_meet_the_piece_before),
        cmocka_unit_test(gradients_lag_with_every_micro_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
