/* test_find.c - orders that are found: against branch and bound on small questions, against the
 * table of schedules on realistic ones, and against the reference that plays them. Every order is as it was, too
 * (tests/data/drawn/orders.txt): what is tried first, or no longer, mostly leads to another order that is as good here.
 *
 * `make test` asks a part of the questions; WEFT_TEST_ALL asks all 200 and all 60. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "drawn.h"
#include "exactly.h"
#include "rounds.h"
#include "schedule/schedule.h"

enum { MOST_PARTS = 64, SMALL_CASES = 200, REAL_CASES = 60, QUICK_SMALL = 60, QUICK_REAL = 6 };

struct made {
    struct order_question q;
    int64_t forward[MOST_PARTS], input[MOST_PARTS], weight[MOST_PARTS], backward[MOST_PARTS];
    int64_t send[MOST_PARTS], back[MOST_PARTS], limit[MOST_PARTS];
    struct order_memory memory[MOST_PARTS];
};

static bool asks_all(void)
{
    return getenv("WEFT_TEST_ALL") != NULL;
}

static void tie(struct made *made)
{
    struct order_question *q = &made->q;
    q->forward_ns = made->forward;
    q->input_ns = made->input;
    q->weight_ns = made->weight;
    q->send_ns = made->send;
    q->back_ns = made->back;
    q->memory = made->memory;
}

/* Times around a mean, uneven by up to `uneven` percent; transfers up to `transfer` percent of a pass. */
static void fill(struct made *made, struct rng *rng, int64_t mean, int64_t uneven, int64_t transfer)
{
    const struct pipeline *p = &made->q.pipeline;
    for (int32_t k = 0; k < p->stages * p->pieces; k++) {
        made->forward[k] = mean + mean * rng_below(rng, uneven + 1) / 100;
        made->input[k] = mean + mean * rng_below(rng, uneven + 1) / 100;
        made->weight[k] = mean * (70 + rng_below(rng, 31)) / 100;
        made->send[k] = made->back[k] = mean * rng_below(rng, transfer + 1) / 100;
        int64_t kept = 100 + rng_below(rng, uneven + 1);
        made->memory[k] = (struct order_memory){.kept = kept, .forward_rise = kept};
    }
    tie(made);
}

/* What 1f1b holds on a stage, or a share of it; with pieces, a share of as many bytes. */
static void limit(struct made *made, int64_t percent)
{
    const struct pipeline *p = &made->q.pipeline;
    for (int32_t s = 0; s < p->stages; s++) {
        int64_t micro_batch = 0, most = 0;
        for (int32_t k = 0; k < p->pieces; k++) {
            int32_t part = part_of_piece(made->q.zigzag, p->stages, s, k);
            micro_batch += made->memory[part].kept;
        }
        most = micro_batch * p->stages * percent / 100; /* on all as on stage 0 */
        made->limit[s] = most > micro_batch ? most : micro_batch;
    }
    made->q.limit_bytes = made->limit;
}

static struct order_answer ask(struct arena *keep, const struct made *made)
{
    struct order_answer answer;
    assert_int_equal(schedule_find_order(keep, &made->q, &answer), WEFT_OK);
    return answer;
}

/* ---- the answer is what it says -------------------------------------------------------------- */

static int64_t played_ns(const struct made *made, const struct schedule *schedule)
{
    const struct pipeline *p = &made->q.pipeline;
    int64_t forward[MOST_PARTS], backward[MOST_PARTS], weight[MOST_PARTS], ns;
    for (int32_t s = 0; s < p->stages; s++)
        for (int32_t k = 0; k < p->pieces; k++) {
            int32_t part = part_of_piece(made->q.zigzag, p->stages, s, k), at = s * p->pieces + k;
            forward[at] = made->forward[part];
            backward[at] = made->input[part] + made->weight[part];
            weight[at] = made->weight[part];
        }
    struct pipeline_times times = {forward, backward, weight, 0, made->send, made->back};
    assert_int_equal(schedule_play(schedule, p, &times, &ns), WEFT_OK);
    return ns;
}

static void check_memory(const struct made *made, const struct schedule *schedule)
{
    const struct pipeline *p = &made->q.pipeline;
    for (int32_t s = 0; s < p->stages && made->q.limit_bytes; s++) {
        const struct slots *list = &schedule->lists->stage[s];
        int64_t held = 0;
        for (size_t i = 0; i < list->len; i++) {
            int32_t part = part_of_piece(made->q.zigzag, p->stages, s, list->data[i].piece);
            enum slot_kind kind = list->data[i].kind;
            int64_t kept = made->memory[part].kept;
            held += kind == SLOT_FORWARD ? kept : 0;
            assert_true(held <= made->limit[s]);
            held -= kind == SLOT_BACKWARD || kind == SLOT_BACKWARD_WEIGHT ? kept : 0;
        }
    }
}

static void check_answer(const struct made *made, const struct order_answer *answer)
{
    assert_true(answer->ns >= answer->bound_ns);
    assert_int_equal(played_ns(made, answer->schedule), answer->ns);
    assert_true(!answer->named || answer->ns <= answer->named_ns);
    check_memory(made, answer->schedule);
}

static struct drawn held;

/* Every slot of the answer, and what it says of itself. */
static void hold_answer(const char *name, int number, const struct order_answer *answer)
{
    struct exactly told = exactly_nothing();
    const struct slot_lists *lists = answer->schedule->lists;
    const int64_t numbers[] = {answer->ns, answer->bound_ns, answer->proved,
                               answer->named ? answer->named_ns : -1};
    exactly_numbers(&told, numbers, COUNT_OF(numbers));
    for (int32_t s = 0; s < lists->pipeline.stages; s++)
        for (size_t i = 0; i < lists->stage[s].len; i++) {
            const struct slot *slot = &lists->stage[s].data[i];
            const int64_t words[] = {s, slot->kind, slot->piece, slot->micro_batch};
            exactly_numbers(&told, words, COUNT_OF(words));
        }
    drawn_exactly(&held, name, number,
                  (struct digest){.words = (uint32_t)(told.hash ^ told.hash >> 32)});
}

/* ---- small questions, exactly ---------------------------------------------------------------- */

static void make_small(struct made *made, struct rng *rng)
{
    static const struct pipeline SHAPES[] = {{2, 1, 2}, {2, 1, 3}, {3, 1, 2}, {2, 2, 2},
                                             {3, 1, 3}, {2, 1, 5}, {4, 1, 2}};
    *made = (struct made){.q.pipeline = SHAPES[rng_below(rng, COUNT_OF(SHAPES))]};
    made->q.zigzag = made->q.pipeline.pieces > 1 && rng_below(rng, 2);
    fill(made, rng, 10, 100, 60);
    if (rng_below(rng, 2))
        limit(made, 50 + rng_below(rng, 60));
}

static void small_questions_are_answered_as_by_branch_and_bound(void **state)
{
    struct rng rng;
    int cases = asks_all() ? SMALL_CASES : QUICK_SMALL, equal = 0;
    (void)state;
    rng_seed(&rng, 23);
    for (int i = 0; i < cases; i++) {
        struct arena *keep = arena_new();
        struct made made;
        make_small(&made, &rng);
        struct order_answer exact = ask(keep, &made);
        made.q.heuristic = true;
        struct order_answer quick = ask(keep, &made);
        assert_true(exact.proved);
        check_answer(&made, &exact);
        check_answer(&made, &quick);
        if (i < QUICK_SMALL) {
            hold_answer("exact", i, &exact);
            hold_answer("quick", i, &quick);
        }
        if (quick.ns != exact.ns)
            print_message("case %d: %d stages, %d pieces, %d micro-batches: %lld against %lld\n", i,
                          made.q.pipeline.stages, made.q.pipeline.pieces,
                          made.q.pipeline.micro_batches, (long long)quick.ns, (long long)exact.ns);
        equal += quick.ns == exact.ns;
        arena_free(keep);
    }
    print_message("%d of %d equal without branch and bound\n", equal, cases);
    assert_true(equal * 100 >= cases * 95);
}

/* ---- realistic pipelines --------------------------------------------------------------------- */

static void make_real(struct made *made, struct rng *rng, int i)
{
    static const int32_t STAGES[] = {4, 8, 16};
    int32_t stages = STAGES[i % 3], pieces = i % 2 + 1;
    *made = (struct made){.q.pipeline = {stages, pieces, stages * (2 + (i / 3) % 7)}};
    made->q.zigzag = pieces > 1 && i % 4 == 1;
    fill(made, rng, 1000000, 5 + 10 * (i % 5), 2 + 4 * (i % 6));
    limit(made, 100 - 10 * (i % 6));
}

static void realistic_pipelines_are_never_slower_than_a_schedule_of_the_table(void **state)
{
    struct rng rng;
    int cases = asks_all() ? REAL_CASES : rounds_of(QUICK_REAL), named = 0;
    double gain = 0, above = 0, seconds = 0, longest = 0;
    (void)state;
    rng_seed(&rng, 60);
    for (int i = 0; i < cases; i++) {
        struct arena *keep = arena_new();
        struct made made;
        make_real(&made, &rng, i);
        double began = wall_seconds();
        struct order_answer answer = ask(keep, &made);
        double took = wall_seconds() - began;
        check_answer(&made, &answer);
        if (i < QUICK_REAL)
            hold_answer("real", i, &answer);
        seconds += took;
        longest = took > longest ? took : longest;
        above += (double)answer.ns / (double)answer.bound_ns - 1;
        if (answer.named) {
            gain += 1 - (double)answer.ns / (double)answer.named_ns;
            named++;
        }
        if (asks_all())
            print_message("%d: p %d v %d%s m %d limit %d %%: %.3f of the bound, %s %.3f, %.1f s\n",
                          i, made.q.pipeline.stages, made.q.pipeline.pieces,
                          made.q.zigzag ? " zigzag" : "", made.q.pipeline.micro_batches,
                          100 - 10 * (i % 6), (double)answer.ns / (double)answer.bound_ns,
                          answer.named ? answer.named->name : "none fits",
                          answer.named ? (double)answer.ns / (double)answer.named_ns : 0, took);
        arena_free(keep);
    }
    print_message(
        "%d pipelines: %.1f %% above the bound on average; in %d a schedule of the table fits, "
        "%.1f %% slower on average; %.1f s each, %.1f s at most\n",
        cases, 100 * above / cases, named, named ? 100 * gain / named : 0, seconds / cases,
        longest);
}

static void a_large_question_takes_seconds(void **state)
{
    struct arena *keep = arena_new();
    struct rng rng;
    struct made made = {.q.pipeline = {16, 1, 128}};
    (void)state;
    rng_seed(&rng, 1);
    fill(&made, &rng, 1000000, 20, 10);
    limit(&made, 100);
    double began = wall_seconds();
    struct order_answer answer = ask(keep, &made);
    double seconds = wall_seconds() - began;
    check_answer(&made, &answer);
    print_message("16 stages, 128 micro-batches: %.1f s, %.3f of the bound, %.3f of %s\n", seconds,
                  (double)answer.ns / (double)answer.bound_ns,
                  (double)answer.ns / (double)answer.named_ns, answer.named->name);
    assert_true(seconds < 60); /* seconds, also on a machine with other work, and with sanitizers */
    arena_free(keep);
}

static int open_file(void **state)
{
    (void)state;
    drawn_open(&held, "orders.txt");
    return 0;
}

static void orders_are_as_they_were(void **state)
{
    (void)state;
    assert_int_equal(drawn_close(&held), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_questions_are_answered_as_by_branch_and_bound),
        cmocka_unit_test(realistic_pipelines_are_never_slower_than_a_schedule_of_the_table),
        cmocka_unit_test(a_large_question_takes_seconds),
        cmocka_unit_test(orders_are_as_they_were),
    };
    return cmocka_run_group_tests(tests, open_file, NULL);
}
