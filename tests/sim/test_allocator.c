/* test_allocator.c - the caching allocator: scenarios with their arithmetic, what PyTorch did, a
 * naive one on random traces, and the invariants of allocator.h after every step of them. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "allocator_naive.h"

#define KIB INT64_C(1024)
#define MIB INT64_C(1048576)

/* ---- scenarios ------------------------------------------------------------------------------- */

enum action { END, TAKE, REFUSED, GIVE, RELEASE };
struct step {
    enum action action;
    int64_t argument; /* bytes of a request, or which of those not refused, from 0, is given back */
    int64_t allocated, reserved;
};
enum { MOST_STEPS = 24 };
struct scenario {
    const char *name;
    struct allocator_options options;
    struct step step[MOST_STEPS];
    int64_t allocated_peak, reserved_peak, retries;
};

static const struct scenario SCENARIOS[] = {
    /* 1 and 513 bytes are 1 and 2 units; 512 + 1024 = 1536. Both come from one segment of 2 MiB.
     * 1 MiB is the largest small one and fits after them (2 MiB - 1536 > 1 MiB); the next does not
     * (1 MiB - 1536 are left). */
    {"small requests share 2 MiB",
     {0},
     {{TAKE, 1, 512, 2 * MIB},
      {TAKE, 513, 1536, 2 * MIB},
      {TAKE, 0, 1536, 2 * MIB},
      {TAKE, MIB, MIB + 1536, 2 * MIB},
      {TAKE, MIB, 2 * MIB + 1536, 4 * MIB},
      {GIVE, 2, 2 * MIB + 1536, 4 * MIB},
      {GIVE, 1, 2 * MIB + 512, 4 * MIB}},
     2 * MIB + 1536,
     4 * MIB,
     0},
    /* 1 MiB + 1 byte is 1 MiB + 512 and large: a segment of 20 MiB. 10 MiB - 1 rounds to 10 MiB, which
     * is not below 10 MiB: its segment would be 10 MiB, but 19 MiB - 512 are free. The third needs
     * 10 MiB where 9 MiB - 512 are left: 10 MiB, exactly. */
    {"1 to 10 MiB share 20 MiB",
     {0},
     {{TAKE, MIB + 1, MIB + 512, 20 * MIB},
      {TAKE, 10 * MIB - 1, 11 * MIB + 512, 20 * MIB},
      {TAKE, 10 * MIB, 21 * MIB + 512, 30 * MIB}},
     21 * MIB + 512,
     30 * MIB,
     0},
    /* 11 MiB take 12; the rest of 1 MiB is not above 1 MiB and comes along. 10 MiB + 512 take 12 and
     * leave 2 MiB - 512, which are split off, and serve 1.5 MiB: rest 0.5 MiB - 512, along. */
    {"a rest of 1 MiB comes along",
     {0},
     {{TAKE, 11 * MIB, 12 * MIB, 12 * MIB},
      {TAKE, 10 * MIB + 512, 22 * MIB + 512, 24 * MIB},
      {TAKE, 3 * MIB / 2, 24 * MIB, 24 * MIB}},
     24 * MIB,
     24 * MIB,
     0},
    /* Free: 30 MiB and 24 MiB. 20 MiB go to the 24, though the 30 came first; 30 then fit in the
     * other, and 4 MiB fit in the rest of 4 MiB. */
    {"the best fit, not the first",
     {0},
     {{TAKE, 30 * MIB, 30 * MIB, 30 * MIB},
      {TAKE, 24 * MIB, 54 * MIB, 54 * MIB},
      {GIVE, 0, 24 * MIB, 54 * MIB},
      {GIVE, 1, 0, 54 * MIB},
      {TAKE, 20 * MIB, 20 * MIB, 54 * MIB},
      {TAKE, 30 * MIB, 50 * MIB, 54 * MIB},
      {TAKE, 4 * MIB, 54 * MIB, 54 * MIB}},
     54 * MIB,
     54 * MIB,
     0},
    /* 6 + 6 + 6 MiB in one segment of 20 (2 MiB left). Without the first and third 6 and 8 MiB are
     * free, apart: 9 MiB need a segment. Without the second all 20 MiB are one again. */
    {"free neighbours join",
     {0},
     {{TAKE, 6 * MIB, 6 * MIB, 20 * MIB},
      {TAKE, 6 * MIB, 12 * MIB, 20 * MIB},
      {TAKE, 6 * MIB, 18 * MIB, 20 * MIB},
      {GIVE, 0, 12 * MIB, 20 * MIB},
      {GIVE, 2, 6 * MIB, 20 * MIB},
      {TAKE, 9 * MIB, 15 * MIB, 40 * MIB},
      {GIVE, 1, 9 * MIB, 40 * MIB},
      {TAKE, 20 * MIB, 29 * MIB, 40 * MIB}},
     29 * MIB,
     40 * MIB,
     0},
    /* What is cached for large requests is none for small ones. */
    {"pools are apart",
     {0},
     {{TAKE, 64 * MIB, 64 * MIB, 64 * MIB},
      {GIVE, 0, 0, 64 * MIB},
      {TAKE, MIB, MIB, 66 * MIB},
      {GIVE, 1, 0, 66 * MIB},
      {TAKE, 2 * MIB, 2 * MIB, 66 * MIB},
      {RELEASE, 0, 2 * MIB, 64 * MIB}},
     64 * MIB,
     66 * MIB,
     0},
    /* Batches that grow: 100, 110 and 120 MiB, each given back before the next, leave 100 + 110 + 120
     * reserved for 120 in use. */
    {"growing requests leave what was too small",
     {0},
     {{TAKE, 100 * MIB, 100 * MIB, 100 * MIB},
      {GIVE, 0, 0, 100 * MIB},
      {TAKE, 110 * MIB, 110 * MIB, 210 * MIB},
      {GIVE, 1, 0, 210 * MIB},
      {TAKE, 120 * MIB, 120 * MIB, 330 * MIB}},
     120 * MIB,
     330 * MIB,
     0},
    /* The same on 250 MiB: 210 + 120 > 250, so the cache goes (0 left) and 120 fit. Then 140 do not,
     * (120 + 140 > 250), and nothing is cached. 130 fit exactly: 120 + 130 = 250. */
    {"a full device makes the cache go",
     {.limit_bytes = 250 * MIB},
     {{TAKE, 100 * MIB, 100 * MIB, 100 * MIB},
      {GIVE, 0, 0, 100 * MIB},
      {TAKE, 110 * MIB, 110 * MIB, 210 * MIB},
      {GIVE, 1, 0, 210 * MIB},
      {TAKE, 120 * MIB, 120 * MIB, 120 * MIB},
      {REFUSED, 140 * MIB, 120 * MIB, 120 * MIB},
      {TAKE, 130 * MIB, 250 * MIB, 250 * MIB},
      {REFUSED, 1, 250 * MIB, 250 * MIB},
      {REFUSED, INT64_MAX, 250 * MIB, 250 * MIB}},
     250 * MIB,
     250 * MIB,
     4},
    /* Of a segment of 40 MiB 2 MiB are live: its other 38 stay when the cache goes, 30 MiB that are
     * wholly free do not. 40 + 30 + 40 > 100, 40 + 40 <= 100. 39 MiB do not fit in 38 and would take
     * 40 more: 40 + 40 + 40 > 100. */
    {"a segment in use stays",
     {.limit_bytes = 100 * MIB},
     {{TAKE, 40 * MIB, 40 * MIB, 40 * MIB},
      {GIVE, 0, 0, 40 * MIB},
      {TAKE, 2 * MIB, 2 * MIB, 40 * MIB},
      {TAKE, 38 * MIB, 40 * MIB, 40 * MIB},
      {TAKE, 30 * MIB, 70 * MIB, 70 * MIB},
      {GIVE, 3, 40 * MIB, 70 * MIB},
      {GIVE, 2, 2 * MIB, 70 * MIB},
      {TAKE, 40 * MIB, 42 * MIB, 80 * MIB},
      {REFUSED, 39 * MIB, 42 * MIB, 80 * MIB}},
     70 * MIB,
     80 * MIB,
     2},
    /* Pages of 20 MiB: 100 -> 5, 110 -> the free 100 and a sixth page, 120 -> exactly those six. */
    {"an expandable segment grows along",
     {.expandable = true},
     {{TAKE, 100 * MIB, 100 * MIB, 100 * MIB},
      {GIVE, 0, 0, 100 * MIB},
      {TAKE, 110 * MIB, 110 * MIB, 120 * MIB},
      {GIVE, 1, 0, 120 * MIB},
      {TAKE, 120 * MIB, 120 * MIB, 120 * MIB},
      {TAKE, 512, 120 * MIB + 512, 122 * MIB}},
     120 * MIB + 512,
     122 * MIB,
     0},
    /* 50 + 2 + 30 MiB are 82: five pages, 18 MiB at the end. Without the 50, 16 MiB go there, though
     * 18 are nearer: these can grow. 34 are left of the 50 and serve 34; 18 then go to the end. */
    {"the end of an expandable segment comes last",
     {.expandable = true},
     {{TAKE, 50 * MIB, 50 * MIB, 60 * MIB},
      {TAKE, 2 * MIB, 52 * MIB, 60 * MIB},
      {TAKE, 30 * MIB, 82 * MIB, 100 * MIB},
      {GIVE, 0, 32 * MIB, 100 * MIB},
      {TAKE, 16 * MIB, 48 * MIB, 100 * MIB},
      {TAKE, 34 * MIB, 82 * MIB, 100 * MIB},
      {TAKE, 18 * MIB, 100 * MIB, 100 * MIB}},
     100 * MIB,
     100 * MIB,
     0},
    /* 90 + 5 MiB on 100 are five pages. Without the 90, 100 MiB do not fit in 90 and 5: pages 0 to 3
     * go, page 4 (80 to 100) holds the 5 and stays. 80 MiB get the four pages again, and the 10 of
     * [80, 90) are still free. */
    {"whole pages go back, wherever they are",
     {.limit_bytes = 100 * MIB, .expandable = true},
     {{TAKE, 90 * MIB, 90 * MIB, 100 * MIB},
      {TAKE, 5 * MIB, 95 * MIB, 100 * MIB},
      {GIVE, 0, 5 * MIB, 100 * MIB},
      {REFUSED, 100 * MIB, 5 * MIB, 20 * MIB},
      {TAKE, 80 * MIB, 85 * MIB, 100 * MIB},
      {TAKE, 10 * MIB, 95 * MIB, 100 * MIB}},
     95 * MIB,
     100 * MIB,
     1},
};

static void check_step(struct allocator *allocator, const struct step *step, int32_t *handle,
                       int *handles)
{
    struct allocator_use use;
    if (step->action == TAKE || step->action == REFUSED) {
        int32_t got = allocator_take_bytes(allocator, step->argument);
        assert_int_equal(got == ALLOCATOR_FULL, step->action == REFUSED);
        if (got != ALLOCATOR_FULL)
            handle[(*handles)++] = got;
    }
    if (step->action == GIVE)
        allocator_give(allocator, handle[step->argument]);
    if (step->action == RELEASE)
        allocator_release_cache(allocator);
    use = *allocator_use(allocator);
    if (step->allocated >= 0)
        assert_int_equal(use.allocated, step->allocated);
    assert_int_equal(use.reserved, step->reserved);
}

static void test_scenarios(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(SCENARIOS); i++) {
        const struct scenario *scenario = &SCENARIOS[i];
        struct arena *arena = arena_new();
        struct allocator *allocator = allocator_new(arena, &scenario->options);
        int32_t handle[MOST_STEPS];
        int handles = 0;
        print_message("    %s\n", scenario->name);
        for (int s = 0; s < MOST_STEPS && scenario->step[s].action != END; s++)
            check_step(allocator, &scenario->step[s], handle, &handles);
        struct allocator_use use = *allocator_use(allocator);
        assert_int_equal(use.allocated_peak, scenario->allocated_peak);
        assert_int_equal(use.reserved_peak, scenario->reserved_peak);
        assert_int_equal(use.retries, scenario->retries);
        arena_free(arena);
    }
}

/* ---- what PyTorch did ------------------------------------------------------------------------ */

/* Traces of PyTorch 2.11 on an H200 (tests/data/allocator): a line is a step, its argument as above,
 * and what torch.cuda.memory_allocated and memory_reserved were after it (-1: not known). */
static const struct {
    const char *file;
    bool expandable;
} TRACES_OF_TORCH[] = {
    {"segments_free", false},  /* random requests */
    {"segments_tight", false}, /* on 1.1 GiB: some are refused */
    {"segments_train", false}, /* three steps of a transformer of 4 layers */
    {"expandable_free", true}, {"expandable_train", true},
};

static enum action action_named(const char *name)
{
    static const char *const NAMES[] = {"end", "take", "refused", "give", "release"};
    for (size_t i = 0; i < COUNT_OF(NAMES); i++)
        if (!strcmp(name, NAMES[i]))
            return (enum action)i;
    return END;
}

static void replay(FILE *file, bool expandable)
{
    static int32_t handle[4096];
    char name[16];
    int64_t limit, argument, allocated, reserved;
    int handles = 0;
    assert_int_equal(fscanf(file, "limit %" SCNd64, &limit), 1);
    struct arena *arena = arena_new();
    struct allocator_options options = {.limit_bytes = limit, .expandable = expandable};
    struct allocator *allocator = allocator_new(arena, &options);
    while (fscanf(file, "%15s %" SCNd64 " %" SCNd64 " %" SCNd64, name, &argument, &allocated,
                  &reserved) == 4) {
        struct step step = {action_named(name), argument, allocated, reserved};
        check_step(allocator, &step, handle, &handles);
    }
    assert_string_equal(name, "peak"); /* allocated and reserved */
    assert_int_equal(allocator_use(allocator)->allocated_peak, argument);
    assert_int_equal(allocator_use(allocator)->reserved_peak, allocated);
    arena_free(arena);
}

static void test_torch(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(TRACES_OF_TORCH); i++) {
        char path[512];
        snprintf(path, sizeof path, WEFT_SOURCE_DIR "/tests/data/allocator/%s.txt",
                 TRACES_OF_TORCH[i].file);
        print_message("    %s\n", TRACES_OF_TORCH[i].file);
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        replay(file, TRACES_OF_TORCH[i].expandable);
        fclose(file);
    }
}

/* ---- random traces --------------------------------------------------------------------------- */

enum { TRACES = 2000, STEPS = 160, MOST_LIVE = 80 };

/* Requests as programs make them: a few sizes again and again, and sizes about every border. */
static int64_t random_bytes(struct rng *rng)
{
    static const int64_t BORDER[] = {512, 3 * KIB, 64 * KIB,     MIB / 2,  MIB,
                                     MIB, 2 * MIB, 19 * MIB / 2, 10 * MIB, 20 * MIB};
    int64_t border = BORDER[rng_below(rng, COUNT_OF(BORDER))];
    int64_t near = border + 256 * (rng_below(rng, 5) - 2);
    if (rng_below(rng, 3))
        return near > 0 ? near : 1;
    return 1 + rng_below(rng, rng_below(rng, 3) ? 4 * border : 64 * border / 10);
}

struct trace {
    struct arena *arena;
    struct allocator *fast;
    struct naive naive;
    int64_t bytes[MOST_LIVE], address[MOST_LIVE];
    int32_t handle[MOST_LIVE], live;
};

/* I1 and I2 of allocator.h, and the same blocks as the naive one's. */
static void check_blocks(struct trace *trace)
{
    static struct allocator_block expected[2 * NAIVE_MOST];
    struct arena *scratch = arena_new();
    struct allocator_block *block;
    int32_t count = allocator_snapshot(scratch, trace->fast, &block);
    int64_t live = 0, all = 0;
    assert_int_equal(count, naive_snapshot(&trace->naive, expected));
    for (int32_t i = 0; i < count; i++) {
        assert_int_equal(block[i].bytes, expected[i].bytes);
        assert_int_equal(block[i].live, expected[i].live);
        assert_int_equal(block[i].small, expected[i].small);
        assert_int_equal(block[i].begins, expected[i].begins);
        live += block[i].live ? block[i].bytes : 0;
        all += block[i].bytes;
        if (!block[i].begins) {
            assert_int_equal(block[i].address, block[i - 1].address + block[i - 1].bytes);
            assert_true(block[i].live || block[i - 1].live);
        }
    }
    assert_int_equal(live, allocator_use(trace->fast)->allocated);
    assert_int_equal(all, allocator_use(trace->fast)->reserved);
    arena_free(scratch);
}

static void check_use(const struct trace *trace)
{
    struct allocator_use use = *allocator_use(trace->fast);
    assert_memory_equal(&use, &trace->naive.use, sizeof use);
    assert_true(use.allocated <= use.reserved);
    assert_true(use.allocated <= use.allocated_peak && use.reserved <= use.reserved_peak);
    if (trace->naive.options.limit_bytes)
        assert_true(use.reserved_peak <= trace->naive.options.limit_bytes);
}

static void take_both(struct trace *trace, int64_t bytes)
{
    int32_t at = trace->live, handle = allocator_take_bytes(trace->fast, bytes);
    int64_t address = naive_take(&trace->naive, bytes);
    assert_int_equal(handle == ALLOCATOR_FULL, address < 0);
    if (address < 0)
        return;
    trace->handle[at] = handle;
    trace->address[at] = address;
    trace->bytes[at] = bytes;
    trace->live++;
}

static void give_both(struct trace *trace, int32_t at)
{
    int32_t last = --trace->live;
    allocator_give(trace->fast, trace->handle[at]);
    naive_give(&trace->naive, trace->bytes[at], trace->address[at]);
    trace->handle[at] = trace->handle[last];
    trace->address[at] = trace->address[last];
    trace->bytes[at] = trace->bytes[last];
}

/* What is given back before the next request: as if it had been given back before what is given back meanwhile. */
static void take_briefly(struct trace *trace, int64_t bytes, int32_t meanwhile)
{
    int64_t address = naive_take(&trace->naive, bytes);
    if (!allocator_take_briefly(trace->fast, allocator_size(trace->fast, bytes)))
        allocator_give(trace->fast, allocator_take_bytes(trace->fast, bytes));
    if (trace->live)
        give_both(trace, meanwhile);
    if (address >= 0)
        naive_give(&trace->naive, bytes, address);
}

static void random_step(struct trace *trace, struct rng *rng, int64_t fullness)
{
    if (!rng_below(rng, 100)) {
        allocator_release_cache(trace->fast);
        naive_release(&trace->naive);
    } else if (!rng_below(rng, 10)) {
        int64_t bytes = random_bytes(rng);
        take_briefly(trace, bytes, trace->live ? (int32_t)rng_below(rng, trace->live) : 0);
    } else if (trace->live < MOST_LIVE && (!trace->live || rng_below(rng, 100) < fullness)) {
        take_both(trace, random_bytes(rng));
    } else {
        give_both(trace, (int32_t)rng_below(rng, trace->live));
    }
    check_use(trace);
    check_blocks(trace);
}

static void test_naive(void **state)
{
    static struct trace trace;
    int64_t retries = 0;
    (void)state;
    for (uint64_t seed = 0; seed < TRACES; seed++) {
        struct rng rng;
        rng_seed(&rng, seed);
        struct allocator_options options = {
            .limit_bytes = rng_below(&rng, 2) ? (40 + rng_below(&rng, 400)) * MIB : 0,
            .expandable = seed % 2,
        };
        int64_t fullness = 50;
        trace = (struct trace){.arena = arena_new(), .naive.options = options};
        trace.fast = allocator_new(trace.arena, &options);
        for (int s = 0; s < STEPS; s++) {
            if (s % 40 == 0)
                fullness = 25 + rng_below(&rng, 60); /* growing and shrinking */
            random_step(&trace, &rng, fullness);
        }
        retries += trace.naive.use.retries;
        arena_free(trace.arena);
    }
    print_message("    %lld requests met a full device\n", (long long)retries);
    assert_true(retries > 1000);
}

/* Blocks of one size many at once: the heaps below bestfit.h's shelves become deep. */
static void test_many(void **state)
{
    enum { MANY = 100000 };
    (void)state;
    struct arena *arena = arena_new();
    struct allocator *allocator = allocator_new(arena, &(struct allocator_options){0});
    int32_t *handle = ARENA_ARRAY(arena, int32_t, MANY);
    struct allocator_block *block;
    for (int i = 0; i < MANY; i++)
        handle[i] = allocator_take_bytes(allocator, 4 * KIB);
    /* 512 of 4 KiB per 2 MiB: ceil(100000 / 512) = 196 segments. */
    assert_int_equal(allocator_use(allocator)->reserved, 196 * 2 * MIB);
    for (int i = 0; i < MANY; i += 2)
        allocator_give(allocator, handle[i]);
    /* The free ones go by address: where one is left, every second one after it is. */
    for (int i = 0; i < MANY / 4; i++)
        handle[2 * i] = allocator_take_bytes(allocator, 4 * KIB);
    int32_t count = allocator_snapshot(arena, allocator, &block), left = 0;
    assert_int_equal(count, MANY + 1); /* and what is left of the last segment */
    for (int32_t i = 0; i < count; i++) {
        left += !block[i].live && block[i].bytes == 4 * KIB;
        assert_false(left && !block[i].begins && block[i].live && block[i - 1].live);
    }
    assert_int_equal(left, MANY / 4);
    for (int i = 0; i < MANY; i++)
        if (i < MANY / 2 || i % 2)
            allocator_give(allocator, handle[i]);
    assert_int_equal(allocator_use(allocator)->allocated, 0);
    allocator_release_cache(allocator);
    assert_int_equal(allocator_use(allocator)->reserved, 0);
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scenarios),
        cmocka_unit_test(test_torch),
        cmocka_unit_test(test_naive),
        cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
