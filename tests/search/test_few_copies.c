/* test_few_copies.c - a model with a few copies of its layers (search/estimate/few_copies.h), instance by instance.
 *
 *   F1  The place of an instance has its operator, and every place is one's.
 *   F2  A place's first instance is the first of those that have it.
 *   F3  Ranges of places, written out, are the places of the instances, whatever they begin and end with.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "random_plan.h"
#include "search/estimate/few_copies.h"

/* One repeat, two of them, some with operators of their own between them, one in which another is. */
static const struct small_model MODELS[] = {
    {"gpt", "{layers: 9, hidden: 32, heads: 4, seq: 16, vocab: 96}"},
    {"t5", "{layers: 6, decoder_layers: 7, hidden: 32, heads: 4, ffn: 64, seq: 16, vocab: 96}"},
    {"moe", "{layers: 9, hidden: 32, heads: 4, ffn: 64, seq: 16, vocab: 96, experts: 8, top_k: 2, "
            "expert_ffn: 32, first_dense: 4}"},
    {"swin", "{depths: [2, 8, 10, 2], hidden: 16, heads: 2, image: 32, patch: 1, window: 4, "
             "classes: 12}"},
    {"resnet", "{blocks: [3, 6, 8, 5], channels: 16, image: 32, classes: 12}"},
    {"llama",
     "{layers: 20, hidden: 32, heads: 4, kv_heads: 2, ffn: 64, seq: 16, vocab: 96, window: "
     "6, full_every: 3}"},
    {"llama", "{layers: 6, hidden: 32, heads: 4, ffn: 64, seq: 24, vocab: 96, vision_layers: 5, "
              "vision_hidden: 16, vision_heads: 2, vision_image: 16, vision_patch: 4}"},
    {"hybrid", "{pattern: MM*-, layers: 24, hidden: 32, heads: 4, kv_heads: 2, mamba_dim: 8, "
               "groups: 4, state: 4, chunk: 8, seq: 16, vocab: 96}"},
};

static struct plan *plan_alone(const struct model *model, const struct cluster *cluster)
{
    struct degrees d = {.dp = 1};
    struct plan *plan;
    if (plan_from_degrees(model, cluster, &d, &plan) != WEFT_OK)
        fail_msg("%s: %s", model->name, weft_last_error()->message);
    return plan;
}

/* F3 */
static void check_ranges(const struct few_copies *few, int64_t at, int64_t last)
{
    while (at < last) {
        int64_t before = at, i = at;
        struct place_range range = next_places(few, &at, last);
        assert_int_equal(at - before, (range.last - range.first) * range.times);
        assert_true(at > before && at <= last);
        for (int64_t t = 0; t < range.times; t++)
            for (int64_t place = range.first; place < range.last; place++)
                assert_int_equal(place, place_of(few, i++));
    }
}

/* Returns how many instances fewer there are. */
static int64_t check_copies(struct rng *rng, const struct few_copies *few, const struct plan *whole,
                            const struct plan *small)
{
    int64_t *first = malloc(sizeof *first * (size_t)small->instances), seen = 0;
    for (int64_t p = 0; p < small->instances; p++)
        first[p] = -1;
    for (int64_t i = 0; i < whole->instances; i++) {
        int64_t place = place_of(few, i);
        assert_in_range(place, 0, small->instances - 1);
        assert_int_equal(whole->instance[i].op, small->instance[place].op); /* F1 */
        seen += first[place] < 0;
        first[place] = first[place] < 0 ? i : first[place];
    }
    assert_int_equal(seen, small->instances);
    for (int64_t p = 0; p < small->instances; p++)
        assert_int_equal(first_instance_of(few, p), first[p]); /* F2 */
    for (int i = 0; i < rounds_of(100); i++) {
        int64_t at = rng_below(rng, whole->instances);
        check_ranges(few, at, at + 1 + rng_below(rng, whole->instances - at));
    }
    check_ranges(few, 0, whole->instances);
    free(first);
    return whole->instances - small->instances;
}

static void places_are_instances(void **state)
{
    (void)state;
    struct rng rng;
    struct cluster *cluster;
    rng_seed(&rng, 23);
    assert_int_equal(cluster_open("dgx-a100:1x1", &cluster), WEFT_OK);
    for (size_t m = 0; m < COUNT_OF(MODELS); m++) {
        struct model *model = open_small(&MODELS[m]);
        struct plan *whole = plan_alone(model, cluster);
        int64_t before = INT64_MAX;
        for (int64_t most = 3; most <= 9; most++) {
            struct arena *keep = arena_new();
            struct few_copies few = few_copies_of(keep, model, most);
            struct plan *small = plan_alone(&few.model, cluster);
            int64_t fewer = check_copies(&rng, &few, whole, small);
            if (fewer > before || (most == 3 && fewer == 0))
                fail_msg("%s: %lld instances fewer", MODELS[m].options, (long long)fewer);
            before = fewer;
            plan_free(small);
            arena_free(keep);
        }
        plan_free(whole);
        model_free(model);
    }
    cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(places_are_instances)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
