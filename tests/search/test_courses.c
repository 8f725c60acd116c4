/* test_courses.c - the way that searches go, held to a file: every report of progress, in order, and every plan that was
 * tried, with what was said of it.
 *
 * An answer is one plan of thousands: an order, an allowance or a bound that is another leads to the same answer later, or
 * to one that is as good here and worse elsewhere, and no test of answers sees it. The way there is another, too, and that
 * is seen (tests/data/drawn/courses.txt; WEFT_RECORD=1 writes the file again). Searches are of one thread and have no clock.
 *
 *   C1  Of what was tried, the first fits if any does, and none that fits takes less time per sample; times by purpose
 *       add up to the iteration; numbers are those of the order in which plans were tried, without two alike.
 *   C2  What is done never exceeds all there is where that is known.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "drawn.h"
#include "exactly.h"
#include "rounds.h"
#include "search/search.h"

static const struct course {
    const char *planner, *model, *options, *cluster;
    double memory; /* GB; 0: all of it */
    struct degrees pins;
    struct plan_options ask;
} COURSES[] = {
    {"aceso",
     "gpt3-350m",
     "layers: 6, seq: 256",
     "dgx-a100:1x4",
     0,
     {.global_batch = 16},
     {.max_hops = 3}},
    {"aceso",
     "gpt3-1.3b",
     "layers: 8, seq: 512",
     "dgx-v100:1x4",
     3,
     {.global_batch = 32},
     {.seed = 3, .max_hops = 2}},
    {"aceso",
     "t5-large",
     "layers: 3, decoder_layers: 3",
     "titan-rtx:1x4",
     0,
     {.global_batch = 16},
     {.initial = "imbalanced-op"}},
    {"aceso", "wresnet-500m", "", "dgx-v100:1x2", 0, {.global_batch = 32}, {.max_hops = 2}},
    {"galvatron",
     "bert-huge-32",
     "layers: 8",
     "titan-rtx:1x4",
     4,
     {.global_batch = 16},
     {.space = "bmw"}},
    {"galvatron",
     "gpt3-1.3b",
     "layers: 6, seq: 512",
     "dgx-a100:2x4",
     6,
     {.global_batch = 32},
     {.space = "base"}},
    {"galvatron", "swin-huge-32", "", "titan-rtx:1x2", 4, {.global_batch = 8}, {.space = "base"}},
    {"galvatron",
     "t5-large",
     "layers: 2, decoder_layers: 4",
     "dgx-v100:1x4",
     2,
     {.global_batch = 8},
     {.space = "bmw"}},
    {"autoddl", "gpt3-1.3b", "layers: 4, seq: 512", "piz-daint:4", 0, {.global_batch = 16}, {0}},
    {"autoddl", "vgg-13", "", "piz-daint:4", 0, {.global_batch = 32}, {.search = "mh", .seed = 5}},
    {"autoddl", "vit-large", "layers: 4", "titan-rtx:1x4", 0, {.global_batch = 16}, {0}},
    {"megatron", "gpt3-1.3b", "layers: 8, seq: 512", "dgx-a100:1", 8, {.global_batch = 64}, {0}},
    {"megatron",
     "mixtral-8x7b",
     "layers: 4, seq: 256",
     "dgx-h100:1",
     0,
     {.ep = 4, .global_batch = 32},
     {0}},
    {"auto",
     "gpt3-350m",
     "layers: 6, seq: 256",
     "dgx-a100:1x4",
     2,
     {.global_batch = 16},
     {.quick = true}},
    {"auto",
     "llama3.2-1b",
     "layers: 5, seq: 256",
     "dgx-h100:2x2",
     0,
     {.global_batch = 20},
     {.quick = true, .simplest = 0.02}},
    {"auto",
     "qwen3-30b-a3b",
     "layers: 2, seq: 256",
     "dgx-h100:1x4",
     0,
     {.global_batch = 32},
     {.quick = true}},
    {"auto",
     "gpt3-350m",
     "layers: 4, seq: 256",
     WEFT_SOURCE_DIR "/data/clusters/two-generations.yaml",
     0,
     {.pp = 2, .global_batch = 16},
     {.quick = true}},
    {"auto", "gpt3-350m", "layers: 4, seq: 256", "dgx-v100:1x2", 0, {.global_batch = 8}, {0}},
    {"auto",
     "gpt3-350m",
     "layers: 4, seq: 256",
     "dgx-a100:1x4",
     1.5,
     {0},
     {.quick = true, .batch_auto = true}},
    {"aceso",
     "gpt3-1.3b",
     "layers: 14, seq: 256",
     "dgx-a100:1x4",
     4,
     {.schedule = "zb-h1", .global_batch = 32},
     {.max_hops = 2}},
    {"megatron",
     "gpt3-1.3b",
     "layers: 8, seq: 512",
     "dgx-a100:1x4",
     4,
     {.schedule = "zb-h2", .global_batch = 32},
     {0}},
};

struct told {
    struct exactly exact;
    struct digest numbers;
};

static void tell_numbers(struct told *t, const int64_t *number, size_t count)
{
    for (size_t i = 0; i < count; i++)
        digest_number(&t->numbers, (double)number[i]);
}

static void hear(void *context, const struct progress *p)
{
    struct told *t = context;
    const int64_t numbers[] = {p->done, p->all, p->trials, p->candidates, p->best_ns};
    exactly_text(&t->exact, p->who);
    exactly_text(&t->exact, p->what);
    tell_numbers(t, numbers, COUNT_OF(numbers));
    assert_true(p->all == 0 || p->done <= p->all); /* C2 */
}

static double per_sample(const struct trial *trial)
{
    return (double)trial->iteration_ns / (double)trial->global_batch;
}

static void tell_trial(struct told *t, const struct planned *planned, size_t i)
{
    const struct trial *trial = &planned->trials.data[i], *first = planned->trials.data;
    const int64_t numbers[] = {trial->number,       trial->global_batch, trial->iteration_ns,
                               trial->needed_bytes, trial->limit_bytes,  trial->room_bytes,
                               trial->stage,        trial_excess(trial)};
    int64_t sum = 0;
    exactly_text(&t->exact, trial->text);
    exactly_text(&t->exact, trial->found_by);
    exactly_numbers(&t->exact, trial->value, DIMENSION_COUNT);
    tell_numbers(t, numbers, COUNT_OF(numbers));
    tell_numbers(t, trial->time_ns, TIME_COUNT);
    for (int k = 0; k < TIME_COUNT; k++)
        sum += trial->time_ns[k];
    assert_int_equal(sum, trial->iteration_ns); /* C1 */
    assert_int_equal(trial->fits, trial_excess(trial) == 0);
    assert_true(first->fits || !trial->fits);
    if (trial->fits)
        assert_true(per_sample(trial) >= per_sample(first) * 0.97); /* simplest (plan_options) */
    for (size_t k = 0; k < i; k++)
        assert_int_not_equal(planned->trials.data[k].number, trial->number);
}

static void tell(struct told *t, const struct planned *planned)
{
    exactly_text(&t->exact, planned->planner);
    digest_number(&t->numbers, (double)planned->candidates);
    for (size_t i = 0; i < planned->trials.len; i++)
        tell_trial(t, planned, i);
    for (size_t i = 0; i < planned->reasons.len; i++) {
        struct digest said = digest_of(planned->reasons.data[i]);
        exactly_number(&t->exact, said.words);
        digest_number(&t->numbers, said.sum);
    }
}

static struct drawn held;

static void ask(const struct course *course, int number)
{
    struct told told = {.exact = exactly_nothing()};
    struct model *model;
    struct cluster *cluster;
    struct planned *planned;
    struct plan_request request = {
        .pins = course->pins, .options = course->ask, .progress = hear, .context = &told};
    assert_int_equal(model_open(course->model, course->options, &model), WEFT_OK);
    assert_int_equal(cluster_open(course->cluster, &cluster), WEFT_OK);
    request.model = model;
    request.cluster = cluster;
    request.options.threads = 1;
    request.pins.memory.limit_bytes = (int64_t)(course->memory * 1e9);
    if (plan_search(planner_find(course->planner), &request, &planned) == WEFT_OK) {
        tell(&told, planned);
        planned_free(planned);
    } else {
        exactly_text(&told.exact, weft_last_error()->message);
    }
    told.numbers.words = (uint32_t)(told.exact.hash ^ told.exact.hash >> 32);
    drawn_exactly(&held, course->planner, number, told.numbers);
    cluster_free(cluster);
    model_free(model);
}

static void courses_are_as_they_were(void **state)
{
    (void)state;
    int percent = rounds_of(100);
    drawn_open(&held, "courses.txt");
    for (int i = 0; i < (int)COUNT_OF(COURSES); i++)
        if (percent >= 100 || i % 8 == 5)
            ask(&COURSES[i], i);
    assert_int_equal(drawn_close(&held), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(courses_are_as_they_were)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
