/* test_containers.c - hash map, heap and thread pool, each against the plainest way to do the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <stdatomic.h>

#include "base/base.h"

static int new_arena(void **state)
{
    *state = arena_new();
    return 0;
}

static int free_arena(void **state)
{
    arena_free(*state);
    return 0;
}

/* ---- the hash map ---------------------------------------------------------------------------- */

enum { MOST = 3000 };

/* Keys that a plain place in the table would put side by side, and keys that are already mixed. */
static void values_are_found_by_hash(void **state)
{
    const uint64_t steps[] = {2, UINT64_C(1) << 40, UINT64_C(0x9e3779b97f4a7c16)};
    for (size_t s = 0; s < COUNT_OF(steps); s++) {
        struct hash_map map = {0};
        assert_int_equal(hash_get(&map, 0), -1);
        for (int i = 0; i < MOST; i++) {
            int64_t *value = hash_at(&map, *state, (uint64_t)i * steps[s]);
            assert_int_equal(*value, -1);
            *value = i;
            assert_int_equal(*hash_at(&map, *state, (uint64_t)i * steps[s]), i);
        }
        assert_int_equal(map.used, MOST);
        assert_true(2 * map.used <= map.slots); /* I1 */
        for (int i = 0; i < MOST; i++)
            assert_int_equal(hash_get(&map, (uint64_t)i * steps[s]), i);
        assert_int_equal(hash_get(&map, MOST * steps[s]), -1);
    }
}

static bool same_number(const void *things, int64_t value, const void *wanted)
{
    return ((const int32_t *)things)[value] == *(const int32_t *)wanted;
}

/* Only seven hashes for all of them: equal hashes are no more than a hint. */
static void things_of_one_hash_are_told_apart(void **state)
{
    enum { THINGS = 200 };
    struct hash_map map = {0};
    int32_t things[THINGS];
    for (int32_t i = 0; i < THINGS; i++) {
        things[i] = 1000 - 3 * i;
        uint64_t hash = (uint64_t)(i % 7) << 1;
        assert_int_equal(hash_get_same(&map, hash, same_number, things, &things[i]), -1);
        *hash_at_same(&map, *state, hash, same_number, things, &things[i]) = i;
    }
    for (int32_t i = 0; i < THINGS; i++) {
        uint64_t hash = (uint64_t)(i % 7) << 1;
        assert_int_equal(hash_get_same(&map, hash, same_number, things, &things[i]), i);
        assert_int_equal(*hash_at_same(&map, *state, hash, same_number, things, &things[i]), i);
    }
    assert_int_equal(map.used, THINGS);
}

/* ---- the heap -------------------------------------------------------------------------------- */

/* The smallest (key, id) of those that are in, by looking at all. */
static int32_t least_of_all(const int64_t *key, const bool *in, int32_t ids)
{
    int32_t least = -1;
    for (int32_t i = 0; i < ids; i++)
        if (in[i] && (least < 0 || key[i] < key[least]))
            least = i;
    return least;
}

static void change_at_random(struct rng *rng, struct heap *heap, int64_t *key, bool *in, int32_t id)
{
    in[id] = rng_below(rng, 4) > 0;
    key[id] = rng_below(rng, 12); /* few keys: many are equal (I1) */
    if (in[id])
        heap_set(heap, id, key[id]);
    else
        heap_remove(heap, id);
}

static void the_least_comes_first(void **state)
{
    enum { IDS = 40, ROUNDS = 4000 };
    struct rng rng;
    rng_seed(&rng, 5);
    struct heap heap = heap_new(*state, IDS), beside = heap_beside(&heap);
    int64_t key[IDS] = {0};
    bool in[IDS] = {false};
    for (int round = 0; round < ROUNDS; round++) {
        change_at_random(&rng, &heap, key, in, (int32_t)rng_below(&rng, IDS));
        int32_t least = least_of_all(key, in, IDS);
        if (least < 0 || rng_below(&rng, 3))
            continue;
        struct heap_entry top = heap_pop(&heap);
        assert_int_equal(top.id, least);
        assert_int_equal(top.key, key[least]);
        in[least] = false;
    }
    heap_clear(&heap);
    assert_int_equal(heap.slot.len, 0);
    heap_set(&beside, 3, 7); /* the ids are free again, for the other one, too */
    assert_int_equal(heap_pop(&beside).id, 3);
}

/* ---- the thread pool ------------------------------------------------------------------------- */

enum { WORKERS = 6 };
struct shared_work {
    atomic_int began[WORKERS], told;
    int fails_from;
};

static weft_status note_worker(void *context, int32_t worker, int32_t workers)
{
    struct shared_work *work = context;
    atomic_fetch_add(&work->began[worker], 1);
    atomic_fetch_add(&work->told, workers);
    if (worker < work->fails_from)
        return WEFT_OK;
    return bad_argument("ask for less", "worker %d cannot", worker);
}

static void every_worker_works_once(void **state)
{
    (void)state;
    struct shared_work work = {.fails_from = WORKERS};
    assert_int_equal(pool_run(WORKERS, note_worker, &work), WEFT_OK);
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(atomic_load(&work.began[i]), 1);
    assert_int_equal(atomic_load(&work.told), WORKERS * WORKERS); /* I2 */
}

/* I3, of the calling thread and of others. */
static void the_first_failure_is_told(void **state)
{
    (void)state;
    for (int from = 0; from < WORKERS; from += 2) {
        struct shared_work work = {.fails_from = from};
        char expected[32];
        snprintf(expected, sizeof expected, "worker %d cannot", from);
        error_clear();
        assert_int_equal(pool_run(WORKERS, note_worker, &work), WEFT_BAD_INPUT);
        assert_int_equal(weft_last_error()->status, WEFT_BAD_INPUT);
        assert_string_equal(weft_last_error()->message, expected);
        assert_string_equal(weft_last_error()->hint, "ask for less");
    }
}

static void workers_are_no_more_than_tasks(void **state)
{
    (void)state;
    assert_int_equal(pool_size(8, 3), 3);
    assert_int_equal(pool_size(2, 3), 2);
    assert_int_equal(pool_size(5, 0), 1);
    assert_in_range(pool_size(0, 4), 1, 4);
}

#define WITH_ARENA(test) cmocka_unit_test_setup_teardown(test, new_arena, free_arena)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ARENA(values_are_found_by_hash),
        WITH_ARENA(things_of_one_hash_are_told_apart),
        WITH_ARENA(the_least_comes_first),
        cmocka_unit_test(every_worker_works_once),
        cmocka_unit_test(the_first_failure_is_told),
        cmocka_unit_test(workers_are_no_more_than_tasks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
