/* test_schedule.c - schedules against theory: golden scenarios with their arithmetic in
 * tests/data/schedules, closed forms over all small shapes, and random times against a naive
 * executor. */
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schedule/schedule.h"
#include "schedule_picture.h"

enum { MOST = 8, MAX_PARTS = MOST * MOST, MAX_SLOTS = 3 * MOST * MOST };

/* ---- every small shape that a schedule accepts ----------------------------------------------- */

typedef void shape_check(const struct schedule *schedule, const struct pipeline *pipeline);

static void for_shapes_of(const struct schedule *schedule, shape_check *check)
{
    for (int32_t p = 1; p <= MOST; p++)
        for (int32_t v = 1; v <= MOST; v++)
            for (int32_t m = 1; m <= MOST; m++) {
                struct pipeline pipeline = {p, v, m};
                if (schedule_check(schedule, &pipeline) == WEFT_OK)
                    check(schedule, &pipeline);
            }
}

/* The same with every group that is given. */
static void for_groups_of(const struct schedule *schedule, shape_check *check)
{
    for (int32_t p = 1; p <= MOST; p++)
        for (int32_t m = p; m <= MOST; m++)
            for (int32_t group = 1; group <= m; group++) {
                struct pipeline pipeline = {p, 2 + m % 3, m, group};
                if (schedule_check(schedule, &pipeline) == WEFT_OK)
                    check(schedule, &pipeline);
            }
}

static void for_all_shapes(shape_check *check)
{
    const struct schedule *table;
    size_t count = schedule_all(&table);
    for (size_t i = 0; i < count; i++)
        for_shapes_of(&table[i], check);
}

struct uniform {
    int64_t forward_ns, backward_ns, weight_ns, transfer_ns;
};

static int64_t play_uniform(const struct schedule *schedule, const struct pipeline *pipeline,
                            struct uniform uniform)
{
    int64_t forward[MAX_PARTS], backward[MAX_PARTS], weight[MAX_PARTS];
    for (int i = 0; i < pipeline->stages * pipeline->pieces; i++) {
        forward[i] = uniform.forward_ns;
        backward[i] = uniform.backward_ns;
        weight[i] = uniform.weight_ns;
    }
    struct pipeline_times times = {forward, backward, weight, uniform.transfer_ns};
    int64_t iteration_ns;
    assert_int_equal(schedule_play(schedule, pipeline, &times, &iteration_ns), WEFT_OK);
    return iteration_ns;
}

/* ---- I1 and memory, by counting -------------------------------------------------------------- */

static bool ends_activation(enum slot_kind kind)
{
    return kind == SLOT_BACKWARD || kind == SLOT_BACKWARD_WEIGHT;
}

static int64_t count_held(const struct slots *slots)
{
    int64_t held = 0, most = 0;
    for (size_t i = 0; i < slots->len; i++) {
        held += slots->data[i].kind == SLOT_FORWARD;
        most = held > most ? held : most;
        held -= ends_activation(slots->data[i].kind);
    }
    assert_int_equal(held, 0);
    return most;
}

/* Each micro-batch of each piece is F then B, or F then I then W: the state after a slot, by the
 * state before it; -1 is out of order. */
static void check_once_and_in_order(const struct slots *slots, const struct pipeline *pipeline)
{
    enum { NOTHING, FORWARD, INPUT, DONE, STATES };
    static const int NEXT[][STATES] = {
        [SLOT_FORWARD] = {FORWARD, -1, -1, -1},
        [SLOT_BACKWARD] = {-1, DONE, -1, -1},
        [SLOT_BACKWARD_INPUT] = {-1, INPUT, -1, -1},
        [SLOT_BACKWARD_WEIGHT] = {-1, -1, DONE, -1},
    };
    int state[MOST][MOST] = {{NOTHING}};
    for (size_t i = 0; i < slots->len; i++) {
        struct slot slot = slots->data[i];
        assert_in_range(slot.piece, 0, pipeline->pieces - 1);
        assert_in_range(slot.micro_batch, 0, pipeline->micro_batches - 1);
        int *at = &state[slot.piece][slot.micro_batch];
        *at = NEXT[slot.kind][*at];
        assert_int_not_equal(*at, -1);
    }
    for (int32_t piece = 0; piece < pipeline->pieces; piece++)
        for (int32_t j = 0; j < pipeline->micro_batches; j++)
            assert_int_equal(state[piece][j], DONE);
}

static void check_lists(const struct schedule *schedule, const struct pipeline *pipeline)
{
    struct arena *keep = arena_new();
    for (int32_t s = 0; s < pipeline->stages; s++) {
        struct slots slots = {0};
        schedule_order(schedule, pipeline, s, keep, &slots);
        check_once_and_in_order(&slots, pipeline);
        assert_int_equal(schedule_in_flight(schedule, pipeline, s), count_held(&slots));
    }
    arena_free(keep);
}

static void lists_hold_every_slot_once_and_what_in_flight_says(void **state)
{
    (void)state;
    for_all_shapes(check_lists);
    for_groups_of(schedule_find("interleaved"), check_lists);
}

/* The smallest groups that leave no last one of 1 to p - 1: of 5 micro-batches on 4 stages one group, of 9 groups of
 * 5 and 4, of 10 two of 5, of 13 groups of 7 and 6. Megatron-LM's get_schedule_table orders 5 in one group like this. */
static void groups_are_as_small_as_can_be(void **state)
{
    static const int32_t ROWS[][2] = {{4, 4}, {5, 5}, {7, 7}, {8, 4}, {9, 5}, {10, 5}, {13, 7}};
    static const struct slot FIRST[] = {{SLOT_FORWARD, 0, 0}, {SLOT_FORWARD, 0, 1},
                                        {SLOT_FORWARD, 0, 2}, {SLOT_FORWARD, 0, 3},
                                        {SLOT_FORWARD, 0, 4}, {SLOT_FORWARD, 1, 0}};
    struct arena *scratch = arena_new();
    struct slots slots = {0};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(ROWS); i++)
        assert_int_equal(pipeline_group(&(struct pipeline){4, 3, ROWS[i][0]}), ROWS[i][1]);
    schedule_order(schedule_find("interleaved"), &(struct pipeline){4, 3, 5}, 0, scratch, &slots);
    for (size_t i = 0; i < COUNT_OF(FIRST); i++)
        assert_memory_equal(&slots.data[i], &FIRST[i], sizeof FIRST[i]);
    arena_free(scratch);
}

static void check_1f1b_memory(const struct schedule *schedule, const struct pipeline *pipeline)
{
    for (int32_t s = 0; s < pipeline->stages; s++) {
        int64_t stages_left = pipeline->stages - s, m = pipeline->micro_batches;
        assert_int_equal(schedule_in_flight(schedule, pipeline, s),
                         stages_left < m ? stages_left : m);
    }
}

/* Fold3D, Eq. 6: p (ns + 1) - 1 checkpoints on stage 0, unless there are fewer in all; all pieces but one run ahead by
 * as many more as a group is larger than p. */
static void check_interleaved_memory(const struct schedule *schedule,
                                     const struct pipeline *pipeline)
{
    int64_t all = pipeline->micro_batches * pipeline->pieces;
    int64_t eq6 = pipeline->stages * (pipeline->pieces + 1) - 1;
    eq6 += (pipeline->pieces - 1) * (pipeline_group(pipeline) - pipeline->stages);
    assert_int_equal(schedule_in_flight(schedule, pipeline, 0), eq6 < all ? eq6 : all);
}

/* Fold3D, Eq. 7: ms ns checkpoints, on every stage. */
static void check_aiao_memory(const struct schedule *schedule, const struct pipeline *pipeline)
{
    for (int32_t s = 0; s < pipeline->stages; s++)
        assert_int_equal(schedule_in_flight(schedule, pipeline, s),
                         pipeline->micro_batches * pipeline->pieces);
}

/* A row's passes are what its order shows on the last stage, which no other one is ahead of. */
static void rows_say_how_their_passes_follow(void **state)
{
    const struct schedule *table;
    size_t count = schedule_all(&table);
    (void)state;
    for (size_t i = 0; i < count; i++) {
        struct arena *scratch = arena_new();
        struct pipeline pipeline = {2, 1, 8};
        struct slots slots = {0};
        size_t forwards = 0;
        bool split = false;
        pipeline.pieces = schedule_check(&table[i], &pipeline) == WEFT_OK ? 1 : 2;
        assert_int_equal(schedule_check(&table[i], &pipeline), WEFT_OK);
        schedule_order(&table[i], &pipeline, pipeline.stages - 1, scratch, &slots);
        while (slots.data[forwards].kind == SLOT_FORWARD)
            forwards++;
        for (size_t k = 0; k < slots.len; k++)
            split |= slots.data[k].kind == SLOT_BACKWARD_INPUT;
        bool first = forwards == (size_t)pipeline.pieces * (size_t)pipeline.micro_batches;
        assert_int_equal(table[i].passes, split   ? ORDER_SPLIT
                                          : first ? ORDER_FORWARDS_FIRST
                                                  : ORDER_IN_TURN);
        arena_free(scratch);
    }
}

static void memory_is_what_the_papers_say(void **state)
{
    (void)state;
    for_shapes_of(schedule_find("1f1b"), check_1f1b_memory);
    for_shapes_of(schedule_find("interleaved"), check_interleaved_memory);
    for_groups_of(schedule_find("interleaved"), check_interleaved_memory);
    for_shapes_of(schedule_find("aiao"), check_aiao_memory);
}

/* ---- time, by theory ------------------------------------------------------------------------- */

/* Forward and backward of one piece; their ratio must not matter. */
static const struct uniform FREE_LINKS[] = {
    {10, 20, 10, 0}, {7, 7, 3, 0}, {9, 4, 2, 0}, {1, 50, 1, 0}};

/* (m v + p - 1)(f + b), and for aiao the wait of stage 0 for what comes round: with m < p it has
 * done its m micro-batches of a segment p - m slots before the first is back, v - 1 times forward
 * and as often backward. */
static int64_t theory_ns(const struct pipeline *pipeline, struct uniform uniform)
{
    int64_t p = pipeline->stages, v = pipeline->pieces, m = pipeline->micro_batches;
    int64_t wraps = m < p ? (v - 1) * (p - m) : 0;
    return (m * v + p - 1 + wraps) * (uniform.forward_ns + uniform.backward_ns);
}

static void check_uniform(const struct schedule *schedule, const struct pipeline *pipeline)
{
    for (size_t i = 0; i < COUNT_OF(FREE_LINKS); i++)
        assert_int_equal(play_uniform(schedule, pipeline, FREE_LINKS[i]),
                         theory_ns(pipeline, FREE_LINKS[i]));
}

/* In the papers' words: bubble over work. */
static void check_bubble_fraction(const struct schedule *schedule, const struct pipeline *pipeline)
{
    int64_t p = pipeline->stages, v = pipeline->pieces, m = pipeline->micro_batches;
    int64_t work = m * v * (FREE_LINKS[0].forward_ns + FREE_LINKS[0].backward_ns);
    int64_t bubble = play_uniform(schedule, pipeline, FREE_LINKS[0]) - work;
    if (m >= p) /* Megatron-LM, section 2.2: (p - 1)/(m v); Fold3D, Eq. 3: (p - 1) work / (ns ms) */
        assert_int_equal(bubble * m * v, (p - 1) * work);
}

/* m (f + b) + (p - 1)(f + (b - w) - w), for m >= p. */
static void check_zero_bubble(const struct schedule *schedule, const struct pipeline *pipeline)
{
    int64_t p = pipeline->stages, m = pipeline->micro_batches;
    for (size_t i = 0; i < COUNT_OF(FREE_LINKS) && m >= p; i++) {
        struct uniform u = FREE_LINKS[i];
        int64_t expected = m * (u.forward_ns + u.backward_ns) +
                           (p - 1) * (u.forward_ns + u.backward_ns - 2 * u.weight_ns);
        assert_int_equal(play_uniform(schedule, pipeline, u), expected);
    }
}

static void uniform_pipelines_take_what_theory_says(void **state)
{
    (void)state;
    static const char *const ONE_FORMULA[] = {"gpipe", "1f1b", "interleaved", "aiao"};
    for (size_t i = 0; i < COUNT_OF(ONE_FORMULA); i++) {
        for_shapes_of(schedule_find(ONE_FORMULA[i]), check_uniform);
        for_shapes_of(schedule_find(ONE_FORMULA[i]), check_bubble_fraction);
    }
    for_groups_of(schedule_find("interleaved"), check_uniform);
    for_shapes_of(schedule_find("zb-h1"), check_zero_bubble);
}

static void check_as_gpipe(const struct schedule *schedule, const struct pipeline *pipeline)
{
    const struct schedule *gpipe = schedule_find("gpipe");
    for (size_t i = 0; i < COUNT_OF(FREE_LINKS); i++)
        assert_int_equal(play_uniform(schedule, pipeline, FREE_LINKS[i]),
                         play_uniform(gpipe, pipeline, FREE_LINKS[i]));
}

static void one_f_one_b_takes_as_long_as_gpipe(void **state)
{
    (void)state;
    for_shapes_of(schedule_find("1f1b"), check_as_gpipe);
}

static void check_same_slots(const struct schedule *schedule, const struct pipeline *pipeline)
{
    struct arena *keep = arena_new();
    struct slots one = {0}, other = {0};
    schedule_order(schedule, pipeline, 0, keep, &one);
    schedule_order(schedule_find("aiao"), pipeline, 0, keep, &other);
    assert_int_equal(one.len, other.len);
    for (size_t i = 0; i < one.len; i++)
        assert_memory_equal(&one.data[i], &other.data[i], sizeof one.data[i]);
    arena_free(keep);
}

static void aiao_with_one_segment_is_gpipe(void **state)
{
    (void)state;
    for_shapes_of(schedule_find("gpipe"), check_same_slots);
}

/* ---- random times, against a naive executor -------------------------------------------------- */

struct lab {
    const struct pipeline *pipeline;
    int64_t forward[MAX_PARTS], backward[MAX_PARTS], weight[MAX_PARTS];
    int64_t transfer_ns;
    bool zigzag, both_ways;
    struct slots slots[MOST];
    int64_t end_ns[MOST][MAX_SLOTS];
};

static void lab_init(struct lab *lab, struct arena *keep, const struct schedule *schedule,
                     const struct pipeline *pipeline, struct rng *rng)
{
    memset(lab, 0, sizeof *lab);
    lab->pipeline = pipeline;
    lab->zigzag = schedule->zigzag;
    lab->both_ways = schedule->both_ways;
    for (int i = 0; i < pipeline->stages * pipeline->pieces; i++) {
        lab->forward[i] = 1 + rng_below(rng, 100);
        lab->backward[i] = 2 + rng_below(rng, 200);
        lab->weight[i] = rng_below(rng, lab->backward[i]);
    }
    lab->transfer_ns = rng_below(rng, 2);
    lab->transfer_ns *= rng_below(rng, 150);
    for (int32_t s = 0; s < pipeline->stages; s++)
        schedule_order(schedule, pipeline, s, keep, &lab->slots[s]);
}

static int64_t lab_play(const struct lab *lab, const struct schedule *schedule)
{
    struct pipeline_times times = {lab->forward, lab->backward, lab->weight, lab->transfer_ns};
    int64_t iteration_ns;
    assert_int_equal(schedule_play(schedule, lab->pipeline, &times, &iteration_ns), WEFT_OK);
    return iteration_ns;
}

/* When the slot of another stage or piece ends that computes this, and the transfer here. */
static int64_t arrival(const struct lab *lab, int32_t here, int32_t stage, int32_t piece,
                       bool forward, int32_t micro_batch)
{
    const struct slots *slots = &lab->slots[stage];
    for (size_t i = 0; i < slots->len; i++) {
        struct slot slot = slots->data[i];
        bool same =
            slot.kind == SLOT_FORWARD ? forward : !forward && slot.kind != SLOT_BACKWARD_WEIGHT;
        if (same && slot.piece == piece && slot.micro_batch == micro_batch)
            return lab->end_ns[stage][i] +
                   (stage == here && !lab->both_ways ? 0 : lab->transfer_ns);
    }
    fail();
    return 0;
}

/* What this part needs of the one before or after it; 0: nothing but what is in its own list. */
static int64_t needed(const struct lab *lab, int32_t stage, struct slot slot, bool forward)
{
    int32_t stages = lab->pipeline->stages;
    int32_t part = part_of_piece(lab->zigzag, stages, stage, slot.piece) + (forward ? -1 : 1);
    if (part < 0 || part == stages * lab->pipeline->pieces)
        return 0;
    return arrival(lab, stage, stage_with_part(lab->zigzag, stages, part), part / stages, forward,
                   slot.micro_batch);
}

static int64_t slot_end(const struct lab *lab, int32_t stage, size_t i)
{
    struct slot slot = lab->slots[stage].data[i];
    int64_t start = i > 0 ? lab->end_ns[stage][i - 1] : 0, inputs = 0;
    int part = stage * lab->pipeline->pieces + slot.piece;
    int64_t ns = lab->weight[part];
    if (slot.kind == SLOT_FORWARD) {
        inputs = needed(lab, stage, slot, true);
        ns = lab->forward[part];
    } else if (slot.kind != SLOT_BACKWARD_WEIGHT) {
        inputs = needed(lab, stage, slot, false);
        ns = lab->backward[part] - (slot.kind == SLOT_BACKWARD_INPUT ? lab->weight[part] : 0);
    }
    return (inputs > start ? inputs : start) + ns;
}

/* Ends grow from zero until every slot is after what it waits for: the least such times. */
static int64_t relax(struct lab *lab)
{
    int64_t last = 0;
    for (bool changed = true; changed;) {
        changed = false;
        for (int32_t s = 0; s < lab->pipeline->stages; s++)
            for (size_t i = 0; i < lab->slots[s].len; i++) {
                int64_t end = slot_end(lab, s, i);
                changed = changed || end != lab->end_ns[s][i];
                lab->end_ns[s][i] = end;
                last = end > last ? end : last;
            }
    }
    return last;
}

/* A stage begins when the first forward has come to it, and does all its work. */
static int64_t stage_bound(const struct lab *lab, int32_t stage)
{
    int64_t bound = 0;
    for (int32_t s = 0; s < stage; s++)
        bound += lab->forward[s * lab->pipeline->pieces] + lab->transfer_ns;
    for (int32_t k = 0; k < lab->pipeline->pieces; k++) {
        int part = stage * lab->pipeline->pieces + k;
        bound += (lab->forward[part] + lab->backward[part]) * lab->pipeline->micro_batches;
    }
    return bound;
}

/* One micro-batch through all parts and back; weight gradients are on nobody's way. */
static int64_t path_bound(const struct lab *lab, bool split)
{
    int parts = lab->pipeline->stages * lab->pipeline->pieces;
    /* a stage has both sides, unless these are on its two halves */
    int within = lab->zigzag && !lab->both_ways ? lab->pipeline->pieces - 1 : 0;
    bool sends = lab->pipeline->stages > 1 || lab->both_ways;
    int64_t bound = sends ? 2 * (parts - 1 - within) * lab->transfer_ns : 0;
    for (int i = 0; i < parts; i++)
        bound += lab->forward[i] + lab->backward[i] - (split ? lab->weight[i] : 0);
    return bound;
}

static void check_random_times(const struct schedule *schedule, const struct pipeline *pipeline)
{
    struct rng rng;
    rng_seed(&rng, hash_bytes(pipeline, sizeof *pipeline, 1));
    struct arena *scratch = arena_new();
    struct lab lab;
    lab_init(&lab, scratch, schedule, pipeline, &rng);
    int64_t iteration_ns = lab_play(&lab, schedule);
    assert_int_equal(iteration_ns, relax(&lab));
    for (int32_t s = 0; s < pipeline->stages; s++)
        assert_true(iteration_ns >= stage_bound(&lab, s));
    assert_true(iteration_ns >= path_bound(&lab, schedule->passes == ORDER_SPLIT));
    arena_free(scratch);
}

static void random_times_neither_deadlock_nor_beat_the_bounds(void **state)
{
    (void)state;
    for_all_shapes(check_random_times);
}

/* ---- golden scenarios ------------------------------------------------------------------------ */

/* A line is a key and its numbers, one for all or one each (by stage, then piece); `stage S` lines
 * are the slots of that stage in order, a list may take several; # opens the arithmetic. */
struct scenario {
    const struct schedule *schedule;
    int64_t stages, pieces, micro_batches;
    int64_t forward[MAX_PARTS], backward[MAX_PARTS];
    int64_t weight[MAX_PARTS]; /* zero: not given */
    int64_t transfer_ns, iteration_ns;
    int64_t in_flight[MOST];
    char order[MOST][1024];
};

enum per { PER_PIPELINE, PER_STAGE, PER_PART };
static const struct {
    const char *key;
    size_t offset;
    enum per per;
} NUMBERS[] = {
    {"stages", offsetof(struct scenario, stages), PER_PIPELINE},
    {"pieces", offsetof(struct scenario, pieces), PER_PIPELINE},
    {"micro_batches", offsetof(struct scenario, micro_batches), PER_PIPELINE},
    {"forward_ns", offsetof(struct scenario, forward), PER_PART},
    {"backward_ns", offsetof(struct scenario, backward), PER_PART},
    {"weight_ns", offsetof(struct scenario, weight), PER_PART},
    {"transfer_ns", offsetof(struct scenario, transfer_ns), PER_PIPELINE},
    {"iteration_ns", offsetof(struct scenario, iteration_ns), PER_PIPELINE},
    {"in_flight", offsetof(struct scenario, in_flight), PER_STAGE},
};

/* One number for all, or one each. */
static void read_numbers(char *text, int64_t *out, int64_t count)
{
    int64_t found = 0;
    char *rest = NULL;
    assert_in_range(count, 1, MAX_PARTS);
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        assert_true(found < count);
        assert_true(parse_int(word, &out[found++]));
    }
    assert_true(found == 1 || found == count);
    for (int64_t i = found; i < count; i++)
        out[i] = out[0];
}

static void read_stage(struct scenario *scenario, const char *text)
{
    char *slots;
    long stage = strtol(text, &slots, 10);
    assert_in_range(stage, 0, MOST - 1);
    char *order = scenario->order[stage];
    size_t len = strlen(order);
    snprintf(order + len, sizeof scenario->order[0] - len, " %s", slots + strspn(slots, " "));
}

static void read_line(struct scenario *scenario, char *line)
{
    char *text = NULL, *key = strtok_r(line, " ", &text);
    const int64_t counts[] = {1, scenario->stages, scenario->stages * scenario->pieces};
    for (size_t i = 0; i < COUNT_OF(NUMBERS); i++)
        if (strcmp(key, NUMBERS[i].key) == 0) {
            read_numbers(text, (int64_t *)(void *)((char *)scenario + NUMBERS[i].offset),
                         counts[NUMBERS[i].per]);
            return;
        }
    if (strcmp(key, "schedule") == 0)
        scenario->schedule = schedule_find(text);
    else if (strcmp(key, "stage") == 0)
        read_stage(scenario, text);
    else
        fail_msg("a scenario has no %s", key);
}

static void read_scenario(struct scenario *scenario, const char *path)
{
    struct arena *scratch = arena_new();
    char *text, *rest = NULL;
    size_t len;
    assert_int_equal(file_read(scratch, path, 1 << 20, &text, &len), WEFT_OK);
    memset(scenario, 0, sizeof *scenario);
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (line[0] != '#')
            read_line(scenario, line);
    assert_non_null(scenario->schedule);
    arena_free(scratch);
}

static void check_order(const struct scenario *scenario, const struct pipeline *pipeline,
                        int32_t stage)
{
    struct arena *scratch = arena_new();
    struct slots slots = {0};
    schedule_order(scenario->schedule, pipeline, stage, scratch, &slots);
    char text[1024] = "";
    for (size_t i = 0; i < slots.len; i++) {
        strcat(text, " ");
        strcat(text, slot_label(slots.data[i], pipeline).s);
    }
    assert_string_equal(text, scenario->order[stage]);
    arena_free(scratch);
}

static void check_scenario(const char *path)
{
    struct scenario scenario;
    read_scenario(&scenario, path);
    struct pipeline pipeline = {(int32_t)scenario.stages, (int32_t)scenario.pieces,
                                (int32_t)scenario.micro_batches};
    struct pipeline_times times = {scenario.forward, scenario.backward,
                                   scenario.weight[0] ? scenario.weight : NULL,
                                   scenario.transfer_ns};
    int64_t iteration_ns;
    assert_int_equal(schedule_play(scenario.schedule, &pipeline, &times, &iteration_ns), WEFT_OK);
    if (iteration_ns != scenario.iteration_ns)
        fail_msg("%s: %lld ns", path, (long long)iteration_ns);
    for (int32_t s = 0; s < pipeline.stages; s++) {
        assert_int_equal(schedule_in_flight(scenario.schedule, &pipeline, s),
                         scenario.in_flight[s]);
        check_order(&scenario, &pipeline, s);
    }
}

static void golden_scenarios_come_out_as_their_arithmetic(void **state)
{
    (void)state;
    glob_t found;
    assert_int_equal(glob(WEFT_SOURCE_DIR "/tests/data/schedules/*.txt", 0, NULL, &found), 0);
    assert_true(found.gl_pathc >= 13);
    for (size_t i = 0; i < found.gl_pathc; i++)
        check_scenario(found.gl_pathv[i]);
    globfree(&found);
}

/* ---- what is refused, and what would not end ------------------------------------------------- */

static void check_refusal(const char *name, struct pipeline pipeline, const char *message,
                          const char *hint)
{
    assert_int_equal(schedule_check(schedule_find(name), &pipeline), WEFT_BAD_INPUT);
    assert_non_null(strstr(weft_last_error()->message, message));
    assert_string_equal(weft_last_error()->hint, hint);
}

static void wrong_shapes_name_the_nearest_right_one(void **state)
{
    (void)state;
    const char *one_piece = "use 1 piece, or the schedule interleaved or aiao";
    check_refusal("gpipe", (struct pipeline){4, 2, 8}, "not 2", one_piece);
    check_refusal("1f1b", (struct pipeline){4, 3, 8}, "not 3", one_piece);
    check_refusal("zb-h1", (struct pipeline){4, 2, 8}, "not 2", one_piece);
    check_refusal("interleaved", (struct pipeline){4, 1, 8}, "at least 2 pieces",
                  "use 2 pieces, or the schedule 1f1b");
    check_refusal("interleaved", (struct pipeline){8, 2, 3}, "each of its 8 stages, and has 3",
                  "use 8 micro-batches or more");
    check_refusal("interleaved", (struct pipeline){4, 2, 9, 4}, "a group of 4 micro-batches of 9",
                  "use a group of 5, or none");
    check_refusal("interleaved", (struct pipeline){4, 2, 9, 10}, "no more than all",
                  "use a group of 5, or none");
    check_refusal("interleaved", (struct pipeline){4, 2, 8, 3}, "no less than the 4 stages",
                  "use a group of 4, or none");
    check_refusal("1f1b", (struct pipeline){4, 1, 8, 4}, "not to 1f1b",
                  "leave the group out, or use the schedule interleaved");
    check_refusal("aiao", (struct pipeline){4, 2, 0}, "0 micro-batches", "use at least 1 of each");
    check_refusal("aiao", (struct pipeline){0, 2, 4}, "0 stages", "use at least 1 of each");
    assert_null(schedule_find("2f2b"));
}

/* The last stage wants its micro-batches in an order that stage 0 only has later. */
static void deadlocked_order(const struct pipeline *pipeline, int32_t stage, struct arena *keep,
                             struct slots *out)
{
    (void)pipeline;
    static const struct slot ORDER[2][4] = {
        {{SLOT_FORWARD, 0, 0}, {SLOT_BACKWARD, 0, 0}, {SLOT_FORWARD, 0, 1}, {SLOT_BACKWARD, 0, 1}},
        {{SLOT_FORWARD, 0, 1}, {SLOT_BACKWARD, 0, 1}, {SLOT_FORWARD, 0, 0}, {SLOT_BACKWARD, 0, 0}},
    };
    for (size_t i = 0; i < COUNT_OF(ORDER[0]); i++)
        array_push(keep, out, ORDER[stage][i]);
}

static void a_deadlock_is_found(void **state)
{
    (void)state;
    struct schedule schedule = *schedule_find("1f1b");
    schedule.order = deadlocked_order;
    struct pipeline pipeline = {2, 1, 2};
    int64_t ones[] = {1, 1}, iteration_ns;
    struct pipeline_times times = {ones, ones, NULL, 0};
    assert_int_equal(schedule_play(&schedule, &pipeline, &times, &iteration_ns), WEFT_FAILURE);
    assert_non_null(strstr(weft_last_error()->message, "stage 0 waits for the inputs of B0"));
}

/* ---- pictures -------------------------------------------------------------------------------- */

static void the_manual_shows_what_is_drawn(void **state)
{
    (void)state;
    struct arena *scratch = arena_new();
    char *manual, *picture;
    size_t len;
    assert_int_equal(
        file_read(scratch, WEFT_SOURCE_DIR "/docs/reference/schedules.md", 1 << 20, &manual, &len),
        WEFT_OK);
    const struct schedule *table;
    size_t count = schedule_all(&table);
    for (size_t i = 0; i < count; i++) {
        struct pipeline whole = {4, 1, 8}, pieces = {2, 2, 4};
        bool one_piece = schedule_check(&table[i], &whole) == WEFT_OK && !table[i].segmented;
        assert_int_equal(
            schedule_draw(scratch, &table[i], one_piece ? &whole : &pieces, 120, &picture),
            WEFT_OK);
        if (!strstr(manual, picture))
            fail_msg("docs/reference/schedules.md lacks this picture of %s:\n%s", table[i].name,
                     picture);
    }
    arena_free(scratch);
}

static void a_picture_keeps_to_its_columns(void **state)
{
    (void)state;
    static const struct {
        int columns;
        const char *text;
    } EXPECTED[] = {
        {80, "stage 0  F0 F1 .  .  .  B1--- B0---\n"
             "stage 1  .  F0 F1 B1--- B0--- .  .\n"},
        {35, "stage 0  F0 F1 .  .  .  B1--- B0---\n"
             "stage 1  .  F0 F1 B1--- B0--- .  .\n"},
        {34, "stage 0  F0 F1 .  .  .  B1--- B0-…\n"
             "stage 1  .  F0 F1 B1--- B0--- .  …\n"},
        {12, "stage 0  F0…\n"
             "stage 1  . …\n"},
        {0, "stage 0  …\n"
            "stage 1  …\n"},
    };
    struct arena *scratch = arena_new();
    struct pipeline pipeline = {2, 1, 2};
    for (size_t i = 0; i < COUNT_OF(EXPECTED); i++) {
        char *picture;
        assert_int_equal(schedule_draw(scratch, schedule_find("gpipe"), &pipeline,
                                       EXPECTED[i].columns, &picture),
                         WEFT_OK);
        assert_string_equal(picture, EXPECTED[i].text);
    }
    arena_free(scratch);
}

static void labels_name_pieces_when_there_are_several(void **state)
{
    (void)state;
    struct slot slot = {SLOT_BACKWARD, 1, 12};
    assert_string_equal(slot_label(slot, &(struct pipeline){4, 1, 16}).s, "B12");
    assert_string_equal(slot_label(slot, &(struct pipeline){4, 26, 16}).s, "B12b");
    assert_string_equal(slot_label(slot, &(struct pipeline){4, 27, 16}).s, "B12.1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_hold_every_slot_once_and_what_in_flight_says),
        cmocka_unit_test(groups_are_as_small_as_can_be),
        cmocka_unit_test(rows_say_how_their_passes_follow),
        cmocka_unit_test(memory_is_what_the_papers_say),
        cmocka_unit_test(uniform_pipelines_take_what_theory_says),
        cmocka_unit_test(one_f_one_b_takes_as_long_as_gpipe),
        cmocka_unit_test(aiao_with_one_segment_is_gpipe),
        cmocka_unit_test(random_times_neither_deadlock_nor_beat_the_bounds),
        cmocka_unit_test(golden_scenarios_come_out_as_their_arithmetic),
        cmocka_unit_test(wrong_shapes_name_the_nearest_right_one),
        cmocka_unit_test(a_deadlock_is_found),
        cmocka_unit_test(the_manual_shows_what_is_drawn),
        cmocka_unit_test(a_picture_keeps_to_its_columns),
        cmocka_unit_test(labels_name_pieces_when_there_are_several),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
