/* test_profile.c - the profile database: what it answers, what it refuses, what it survives. */
#include <math.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "cost/profile.h"
#include "one_folder.h"

static const char DEVICE[] = "V100-SXM2-32GB";

/* ---- helpers --------------------------------------------------------------------------------- */

static bool exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

static struct work work_of(enum kernel kernel, enum phase phase, enum dtype dtype, int64_t a,
                           int64_t b, int64_t c, int64_t d)
{
    struct work work = {.kernel = kernel, .phase = phase, .dtype = dtype};
    work_set_shape(&work, (int64_t[WORK_MAX_SHAPE]){a, b, c, d});
    return work;
}

static struct work product(enum phase phase, int64_t batch, int64_t m, int64_t n, int64_t k)
{
    return work_of(KERNEL_MATMUL, phase, DTYPE_FP16, batch, m, n, k);
}

static void add(struct profile *profile, struct work work, bool whole_backward, double ns,
                const char *source)
{
    struct measurement m = {DEVICE, work, whole_backward, ns, 1, source};
    assert_int_equal(profile_add(profile, &m), WEFT_OK);
}

static struct profile *empty(void)
{
    struct profile *profile;
    assert_int_equal(profile_create(":memory:", &profile), WEFT_OK);
    return profile;
}

static struct kernel_cost ask(struct profile *profile, struct work work)
{
    struct kernel_cost cost;
    assert_int_equal(profile_lookup(profile, DEVICE, &work, &cost), WEFT_OK);
    return cost;
}

#define ASSERT_ANSWER(profile, work, expected_ns, expected_provenance)                             \
    do {                                                                                           \
        struct kernel_cost cost_ = ask(profile, work);                                             \
        assert_int_equal(cost_.provenance, expected_provenance);                                   \
        assert_int_equal(cost_.ns, expected_ns);                                                   \
    } while (0)

/* ---- answers --------------------------------------------------------------------------------- */

static void test_exact(void **state)
{
    (void)state;
    struct profile *profile = empty();
    add(profile, product(PHASE_FORWARD, 1, 2048, 8192, 2048), false, 872217.5, "aceso");
    ASSERT_ANSWER(profile, product(PHASE_FORWARD, 1, 2048, 8192, 2048), 872218, FROM_MEASUREMENT);
    assert_string_equal(ask(profile, product(PHASE_FORWARD, 1, 2048, 8192, 2048)).source, "aceso");
    ASSERT_ANSWER(profile, product(PHASE_FORWARD, 1, 2048, 8192, 2049), 0, FROM_NOTHING);
    ASSERT_ANSWER(profile, product(PHASE_BACKWARD_INPUT, 1, 2048, 8192, 2048), 0, FROM_NOTHING);
    ASSERT_ANSWER(profile, work_of(KERNEL_MATMUL, PHASE_FORWARD, DTYPE_BF16, 1, 2048, 8192, 2048),
                  0, FROM_NOTHING);
    struct work work = product(PHASE_FORWARD, 1, 2048, 8192, 2048);
    struct kernel_cost cost;
    assert_int_equal(profile_lookup(profile, "A100-SXM4-80GB", &work, &cost), WEFT_OK);
    assert_int_equal(cost.provenance, FROM_NOTHING);
    profile_close(profile);
}

/* Between 1024 and 4096 rows, 100 and 400 us: p = log 4 / log 4 = 1, so 2048 rows take 200 us and
 * 3000 take 100 * 3000/1024 = 292.96875. With 200 us at the end p = 1/2: 100 * sqrt 2 = 141.421. */
static void test_interpolation(void **state)
{
    (void)state;
    struct profile *profile = empty();
    add(profile, product(PHASE_FORWARD, 1, 1024, 8, 8), false, 100e3, "x");
    add(profile, product(PHASE_FORWARD, 1, 4096, 8, 8), false, 400e3, "x");
    add(profile, product(PHASE_FORWARD, 1, 1024, 16, 8), false, 100e3, "x");
    add(profile, product(PHASE_FORWARD, 1, 4096, 16, 8), false, 200e3, "x");
    ASSERT_ANSWER(profile, product(PHASE_FORWARD, 1, 2048, 8, 8), 200000, FROM_INTERPOLATION);
    ASSERT_ANSWER(profile, product(PHASE_FORWARD, 1, 3000, 8, 8), 292969, FROM_INTERPOLATION);
    ASSERT_ANSWER(profile, product(PHASE_FORWARD, 1, 2048, 16, 8), 141421, FROM_INTERPOLATION);
    profile_close(profile);
}

static void test_never_outside(void **state)
{
    (void)state;
    struct profile *profile = empty();
    add(profile, product(PHASE_FORWARD, 1, 1024, 8, 8), false, 100e3, "x");
    add(profile, product(PHASE_FORWARD, 1, 4096, 8, 8), false, 400e3, "x");
    ASSERT_ANSWER(profile, product(PHASE_FORWARD, 1, 1023, 8, 8), 0, FROM_NOTHING);
    ASSERT_ANSWER(profile, product(PHASE_FORWARD, 1, 4097, 8, 8), 0, FROM_NOTHING);
    ASSERT_ANSWER(profile, product(PHASE_FORWARD, 1, 2048, 8, 9), 0, FROM_NOTHING); /* two differ */
    ASSERT_ANSWER(profile, product(PHASE_FORWARD, 1, 0, 8, 8), 0, FROM_NOTHING);
    ASSERT_ANSWER(profile, product(PHASE_FORWARD, 1, -5, 8, 8), 0, FROM_NOTHING);
    profile_close(profile);
}

/* Rows 64..128 are a factor of 2 apart, columns 8..64 a factor of 8: rows decide. */
static void test_smallest_gap_decides(void **state)
{
    (void)state;
    struct profile *profile = empty();
    enum dtype t = DTYPE_FP16;
    add(profile, work_of(KERNEL_NORM, PHASE_FORWARD, t, 64, 32, 0, 0), false, 1000, "x");
    add(profile, work_of(KERNEL_NORM, PHASE_FORWARD, t, 128, 32, 0, 0), false, 2000, "x");
    add(profile, work_of(KERNEL_NORM, PHASE_FORWARD, t, 96, 8, 0, 0), false, 10, "x");
    add(profile, work_of(KERNEL_NORM, PHASE_FORWARD, t, 96, 64, 0, 0), false, 90000, "x");
    ASSERT_ANSWER(profile, work_of(KERNEL_NORM, PHASE_FORWARD, t, 96, 32, 0, 0), 1500,
                  FROM_INTERPOLATION);
    profile_close(profile);
}

/* What follows from a shape alone, in bf16, with small primes: every operand's bytes once.
 *   scan       2 samples of 7 positions are 28 bytes a number; y has 5 heads of 11, x the same, B and C 3 groups of 13,
 *              dt a number per head: 28 * 55 = 1540 and 1540 + 28 * (2 * 39 + 5) = 3864
 *   attention  24 queries of 7 and 11, 20 keys of 7 + 11: 2 * (168 + 360) = 1056 and 2 * 264 = 528
 *   conv       70 pixels: 70 * 2^2 * 11 * 2 = 6160 in, 70 * 3 * 2 = 420 out, 11 * 3 * 3 * 2 = 198 of weights */
static void test_shapes_by_hand(void **state)
{
    (void)state;
    static const struct {
        enum kernel kernel;
        enum phase phase;
        int64_t shape[WORK_MAX_SHAPE];
        double flops, read, write;
    } ROWS[] = {
        {KERNEL_MATMUL, PHASE_FORWARD, {2, 3, 5, 7}, 420, 224, 60},
        {KERNEL_GROUPED_MATMUL, PHASE_BACKWARD_INPUT, {2, 3, 5, 7}, 420, 224, 60},
        {KERNEL_ATTENTION, PHASE_FORWARD, {2, 4, 2, 3, 5, 7, 11, 0}, 0, 1056, 528},
        {KERNEL_ATTENTION_V2, PHASE_BACKWARD_INPUT, {2, 4, 2, 3, 5, 7, 11, 1}, 0, 2112, 1056},
        {KERNEL_CONV, PHASE_FORWARD, {2, 3, 5, 7, 11, 3, 1, 2}, 13860, 6358, 420},
        {KERNEL_CONV, PHASE_BACKWARD_INPUT, {2, 3, 5, 7, 11, 3, 1, 2}, 13860, 618, 6160},
        {KERNEL_CONV, PHASE_BACKWARD_WEIGHT, {2, 3, 5, 7, 11, 3, 1, 2}, 13860, 6580, 198},
        {KERNEL_NORM, PHASE_FORWARD, {3, 5}, 0, 30, 30},
        {KERNEL_NORM, PHASE_BACKWARD_INPUT, {3, 5}, 0, 60, 30},
        {KERNEL_BATCH_NORM, PHASE_BACKWARD_WEIGHT, {3, 5, 7}, 0, 420, 0},
        {KERNEL_SOFTMAX, PHASE_FORWARD, {3, 5, 1}, 0, 15, 30},
        {KERNEL_SOFTMAX, PHASE_BACKWARD_INPUT, {3, 5, 0}, 0, 60, 30},
        {KERNEL_ELEMENTWISE, PHASE_FORWARD, {10, 8}, 0, 80, 0},
        {KERNEL_ELEMENTWISE, PHASE_FORWARD, {10}, 0, 40, 0},
        {KERNEL_ELEMENTWISE, PHASE_BACKWARD_INPUT, {10}, 0, 60, 0},
        {KERNEL_DROPOUT, PHASE_BACKWARD_INPUT, {10}, 0, 50, 0},
        {KERNEL_EMBEDDING, PHASE_FORWARD, {3, 5, 7}, 0, 30, 30},
        {KERNEL_EMBEDDING, PHASE_BACKWARD_WEIGHT, {3, 5, 7}, 0, 30, 70},
        {KERNEL_LOSS, PHASE_FORWARD, {3, 5}, 0, 30, 0},
        {KERNEL_LOSS_COMPILED, PHASE_BACKWARD_INPUT, {3, 5}, 0, 30, 30},
        {KERNEL_POOL, PHASE_FORWARD, {2, 3, 5, 7, 3}, 0, 420, 420},
        {KERNEL_SCAN, PHASE_FORWARD, {2, 3, 5, 7, 11, 13, 4}, 0, 3864, 1540},
        {KERNEL_DELTA, PHASE_BACKWARD_INPUT, {2, 3, 5, 7, 11, 13, 4}, 0, 6944, 3864},
        {KERNEL_COPY, PHASE_FORWARD, {100}, 0, 100, 100},
        {KERNEL_OPTIMIZER, PHASE_FORWARD, {10}, 0, 160, 120},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct work work = {.kernel = ROWS[i].kernel, .phase = ROWS[i].phase, .dtype = DTYPE_BF16};
        work_set_shape(&work, ROWS[i].shape);
        if (work.flops != ROWS[i].flops || work.read_bytes != ROWS[i].read ||
            work.write_bytes != ROWS[i].write)
            fail_msg("row %zu: %g FLOPs, %g read, %g written", i, work.flops, work.read_bytes,
                     work.write_bytes);
    }
}

static struct work attention(int64_t batch, int64_t heads, int64_t kv_heads)
{
    struct work work = {.kernel = KERNEL_ATTENTION, .phase = PHASE_FORWARD, .dtype = DTYPE_BF16};
    const int64_t shape[WORK_MAX_SHAPE] = {batch, heads, kv_heads, 1024, 1024, 64, 64, 1};
    work_set_shape(&work, shape);
    return work;
}

/* 16 and 64 pairs of a query's and a key's head take 10 and 40 us: p = 1, whichever of them are
 * samples. 32 take 20 us; 64 of them are measured, 65 and 15 lie outside. Heads that share keys are
 * another matter: of those, with 4 on one, one measurement answers for 8 samples of 2 as for 4 of 4. */
static void test_heads_are_samples(void **state)
{
    (void)state;
    struct profile *profile = empty();
    add(profile, attention(1, 16, 16), false, 10e3, "x");
    add(profile, attention(4, 16, 16), false, 40e3, "x");
    add(profile, attention(4, 16, 4), false, 7e3, "x");
    ASSERT_ANSWER(profile, attention(1, 32, 32), 20000, FROM_INTERPOLATION);
    ASSERT_ANSWER(profile, attention(2, 16, 16), 20000, FROM_INTERPOLATION);
    ASSERT_ANSWER(profile, attention(4, 16, 16), 40000, FROM_MEASUREMENT);
    ASSERT_ANSWER(profile, attention(2, 32, 32), 40000, FROM_INTERPOLATION);
    ASSERT_ANSWER(profile, attention(1, 16, 16), 10000, FROM_MEASUREMENT);
    ASSERT_ANSWER(profile, attention(5, 13, 13), 0, FROM_NOTHING);
    ASSERT_ANSWER(profile, attention(1, 15, 15), 0, FROM_NOTHING);
    ASSERT_ANSWER(profile, attention(8, 8, 2), 7000, FROM_INTERPOLATION);
    ASSERT_ANSWER(profile, attention(4, 8, 4), 0, FROM_NOTHING);
    profile_close(profile);
}

static void test_flags_are_not_interpolated(void **state)
{
    (void)state;
    struct profile *profile = empty();
    struct work work = {.kernel = KERNEL_CONV, .phase = PHASE_FORWARD, .dtype = DTYPE_FP32};
    int64_t shape[WORK_MAX_SHAPE] = {16, 64, 56, 56, 64, 1, 1, 1};
    for (int64_t window = 1; window <= 5; window += 4) {
        shape[5] = shape[6] = window;
        work_set_shape(&work, shape);
        add(profile, work, false, 1e6 * (double)window, "x");
    }
    shape[5] = shape[6] = 3;
    work_set_shape(&work, shape);
    ASSERT_ANSWER(profile, work, 0, FROM_NOTHING);
    shape[6] = 1;
    work_set_shape(&work, shape);
    ASSERT_ANSWER(profile, work, 0, FROM_NOTHING);
    profile_close(profile);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* A linear of 2048 rows, 2048 -> 8192: its input's gradient is (2048, 2048, 8192), its weight's
 * (8192, 2048, 2048); both have the forward's FLOPs, so each gets half of what both took. */
static void test_whole_backward_is_shared(void **state)
{
    (void)state;
    struct profile *profile = empty();
    add(profile, product(PHASE_BACKWARD_INPUT, 1, 1000, 8192, 2048), true, 1500e3, "x");
    ASSERT_ANSWER(profile, product(PHASE_BACKWARD_INPUT, 1, 1000, 2048, 8192), 750000,
                  FROM_MEASUREMENT);
    ASSERT_ANSWER(profile, product(PHASE_BACKWARD_WEIGHT, 1, 8192, 2048, 1000), 750000,
                  FROM_MEASUREMENT);
    ASSERT_ANSWER(profile, product(PHASE_FORWARD, 1, 1000, 8192, 2048), 0, FROM_NOTHING);
    add(profile, product(PHASE_BACKWARD_INPUT, 1, 4000, 8192, 2048), true, 6000e3, "x");
    ASSERT_ANSWER(profile, product(PHASE_BACKWARD_WEIGHT, 1, 8192, 2048, 2000), 1500000,
                  FROM_INTERPOLATION);
    add(profile, product(PHASE_BACKWARD_INPUT, 1, 1000, 2048, 8192), false, 700e3, "x");
    ASSERT_ANSWER(profile, product(PHASE_BACKWARD_INPUT, 1, 1000, 2048, 8192), 700000,
                  FROM_MEASUREMENT); /* its own time comes first */
    profile_close(profile);
}

/* Scores q k^T have two gradients in one phase, with four times the FLOPs of one product's half. */
static void test_both_gradients_in_one_phase(void **state)
{
    (void)state;
    struct profile *profile = empty();
    add(profile, product(PHASE_BACKWARD_INPUT, 32, 2048, 2048, 64), true, 1127e3, "x");
    struct work score = product(PHASE_BACKWARD_INPUT, 32, 2048, 2048, 64);
    score.flops *= 2;
    ASSERT_ANSWER(profile, score, 1127000, FROM_MEASUREMENT);
    profile_close(profile);
}

/* Without FLOPs the input's phase has all of it, and an embedding's weight. */
static void test_whole_backward_without_flops(void **state)
{
    (void)state;
    struct profile *profile = empty();
    enum dtype t = DTYPE_FP16;
    add(profile, work_of(KERNEL_NORM, PHASE_BACKWARD_INPUT, t, 64, 32, 0, 0), true, 900, "x");
    add(profile, work_of(KERNEL_EMBEDDING, PHASE_BACKWARD_INPUT, t, 64, 32, 100, 0), true, 800,
        "x");
    ASSERT_ANSWER(profile, work_of(KERNEL_NORM, PHASE_BACKWARD_INPUT, t, 64, 32, 0, 0), 900,
                  FROM_MEASUREMENT);
    ASSERT_ANSWER(profile, work_of(KERNEL_NORM, PHASE_BACKWARD_WEIGHT, t, 64, 32, 0, 0), 0,
                  FROM_MEASUREMENT);
    ASSERT_ANSWER(profile, work_of(KERNEL_EMBEDDING, PHASE_BACKWARD_WEIGHT, t, 64, 32, 100, 0), 800,
                  FROM_MEASUREMENT);
    profile_close(profile);
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* An addition moves three operands, an activation two: the same number of elements, two times. */
static void test_bytes_tell_kernels_apart(void **state)
{
    (void)state;
    struct profile *profile = empty();
    enum dtype t = DTYPE_FP32;
    add(profile, work_of(KERNEL_ELEMENTWISE, PHASE_FORWARD, t, 1000, 8, 0, 0), false, 441, "x");
    add(profile, work_of(KERNEL_ELEMENTWISE, PHASE_FORWARD, t, 1000, 12, 0, 0), false, 659, "x");
    ASSERT_ANSWER(profile, work_of(KERNEL_ELEMENTWISE, PHASE_FORWARD, t, 1000, 12, 0, 0), 659,
                  FROM_MEASUREMENT);
    struct work relu = {.kernel = KERNEL_ELEMENTWISE,
                        .phase = PHASE_FORWARD,
                        .dtype = t,
                        .shape = {1000},
                        .read_bytes = 4000,
                        .write_bytes = 4000};
    ASSERT_ANSWER(profile, relu, 441, FROM_MEASUREMENT);
    ASSERT_ANSWER(profile, work_of(KERNEL_ELEMENTWISE, PHASE_FORWARD, t, 1000, 10, 0, 0), 0,
                  FROM_NOTHING);
    profile_close(profile);
}

static void test_tf32_is_fp32_without_matrices(void **state)
{
    (void)state;
    struct profile *profile = empty();
    add(profile, work_of(KERNEL_NORM, PHASE_FORWARD, DTYPE_FP32, 64, 32, 0, 0), false, 900, "x");
    add(profile, work_of(KERNEL_MATMUL, PHASE_FORWARD, DTYPE_FP32, 1, 8, 8, 8), false, 100, "x");
    ASSERT_ANSWER(profile, work_of(KERNEL_NORM, PHASE_FORWARD, DTYPE_TF32, 64, 32, 0, 0), 900,
                  FROM_MEASUREMENT);
    ASSERT_ANSWER(profile, work_of(KERNEL_MATMUL, PHASE_FORWARD, DTYPE_TF32, 1, 8, 8, 8), 0,
                  FROM_NOTHING);
    profile_close(profile);
}

/* Matrix units compute products, attention, convolutions and scans, which have times of their own in tf32. */
static void test_all_products_have_times_in_tf32(void **state)
{
    (void)state;
    static const bool MULTIPLIES[KERNEL_COUNT] = {
        [KERNEL_MATMUL] = true,       [KERNEL_GROUPED_MATMUL] = true, [KERNEL_ATTENTION] = true,
        [KERNEL_ATTENTION_V1] = true, [KERNEL_ATTENTION_V2] = true,   [KERNEL_CONV] = true,
        [KERNEL_SCAN] = true,         [KERNEL_DELTA] = true};
    for (int kernel = 0; kernel < KERNEL_COUNT; kernel++) {
        struct profile *profile = empty();
        struct work work = {.kernel = (enum kernel)kernel, .dtype = DTYPE_FP32};
        work_set_shape(&work, (int64_t[WORK_MAX_SHAPE]){2, 2, 2, 2, 2, 2, 2, 2});
        add(profile, work, false, 100, "x");
        work.dtype = DTYPE_TF32;
        ASSERT_ANSWER(profile, work, MULTIPLIES[kernel] ? 0 : 100,
                      MULTIPLIES[kernel] ? FROM_NOTHING : FROM_MEASUREMENT);
        profile_close(profile);
    }
}

static void test_later_source_answers(void **state)
{
    (void)state;
    struct profile *profile = empty();
    add(profile, product(PHASE_FORWARD, 1, 8, 8, 8), false, 100, "first");
    add(profile, product(PHASE_FORWARD, 1, 8, 8, 8), false, 300, "second");
    ASSERT_ANSWER(profile, product(PHASE_FORWARD, 1, 8, 8, 8), 300, FROM_MEASUREMENT);
    add(profile, product(PHASE_FORWARD, 1, 8, 8, 8), false, 200, "first");
    ASSERT_ANSWER(profile, product(PHASE_FORWARD, 1, 8, 8, 8), 300, FROM_MEASUREMENT);
    int64_t rows;
    assert_int_equal(profile_count(profile, TABLE_KERNEL, &rows), WEFT_OK);
    assert_int_equal(rows, 2);
    profile_close(profile);
}

/* What a later source replaces does not disturb the rows that were added in between. */
static void test_replacing_leaves_other_rows(void **state)
{
    (void)state;
    struct profile *profile = empty();
    add(profile, product(PHASE_FORWARD, 1, 8, 8, 8), false, 100, "first");
    add(profile, product(PHASE_FORWARD, 1, 8, 8, 16), false, 150, "first");
    add(profile, product(PHASE_FORWARD, 1, 8, 8, 8), false, 300, "second");
    ASSERT_ANSWER(profile, product(PHASE_FORWARD, 1, 8, 8, 8), 300, FROM_MEASUREMENT);
    ASSERT_ANSWER(profile, product(PHASE_FORWARD, 1, 8, 8, 16), 150, FROM_MEASUREMENT);
    profile_close(profile);
}

/* ---- the naive reference --------------------------------------------------------------------- */

/* All pairs of rows, straight from the definition: differ in one number, x strictly between, nobody
 * nearer, the smallest gap first. */
static double naive_ns(const struct profile_row *rows, size_t count, const int64_t *shape)
{
    double best_ns = 0, best_gap = INFINITY;
    for (size_t i = 0; i < count; i++)
        if (memcmp(rows[i].key.shape, shape, 2 * sizeof *shape) == 0)
            return rows[i].ns;
    for (int axis = 0; axis < 2; axis++) {
        const struct profile_row *low = NULL, *high = NULL;
        for (size_t i = 0; i < count; i++) {
            int64_t x = rows[i].key.shape[axis];
            if (rows[i].key.shape[1 - axis] != shape[1 - axis])
                continue;
            if (x < shape[axis] && (!low || x > low->key.shape[axis]))
                low = &rows[i];
            if (x > shape[axis] && (!high || x < high->key.shape[axis]))
                high = &rows[i];
        }
        if (!low || !high)
            continue;
        double x0 = (double)low->key.shape[axis], x1 = (double)high->key.shape[axis];
        if (x1 / x0 >= best_gap)
            continue;
        best_gap = x1 / x0;
        best_ns =
            exp(log(low->ns) + (log(high->ns) - log(low->ns)) *
                                   (log((double)shape[axis]) - log(x0)) / (log(x1) - log(x0)));
    }
    return best_ns;
}

static void test_against_naive_reference(void **state)
{
    (void)state;
    struct profile *profile = empty();
    struct rng rng;
    const struct profile_row *rows;
    size_t count;
    int answers = 0;
    rng_seed(&rng, 7);
    for (int i = 0; i < 150; i++) {
        int64_t rows_there = 1 + rng_below(&rng, 24), columns = 1 + rng_below(&rng, 24);
        double ns = 1 + 1e6 * rng_uniform(&rng);
        add(profile, work_of(KERNEL_NORM, PHASE_FORWARD, DTYPE_FP16, rows_there, columns, 0, 0),
            false, ns, "x");
    }
    assert_int_equal(profile_rows(profile, &rows, &count), WEFT_OK);
    for (int64_t a = 1; a <= 24; a++) {
        for (int64_t b = 1; b <= 24; b++) {
            struct kernel_cost cost =
                ask(profile, work_of(KERNEL_NORM, PHASE_FORWARD, DTYPE_FP16, a, b, 0, 0));
            double expected = naive_ns(rows, count, (int64_t[]){a, b});
            assert_true(fabs((double)cost.ns - expected) <= 1);
            answers += cost.provenance == FROM_INTERPOLATION;
        }
    }
    assert_true(answers > 300);
    profile_close(profile);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void test_reopen(void **state)
{
    (void)state;
    const char *path = in_folder("reopen.sqlite");
    struct profile *profile;
    assert_int_equal(profile_create(path, &profile), WEFT_OK);
    add(profile, product(PHASE_FORWARD, 1, 8, 8, 8), false, 123, "mine");
    assert_int_equal(profile_commit(profile), WEFT_OK);
    profile_close(profile);
    assert_int_equal(profile_create(path, &profile), WEFT_OK); /* adds to what is there */
    add(profile, product(PHASE_FORWARD, 1, 16, 8, 8), false, 246, "mine");
    assert_int_equal(profile_commit(profile), WEFT_OK);
    profile_close(profile);
    assert_int_equal(profile_open(path, &profile), WEFT_OK);
    ASSERT_ANSWER(profile, product(PHASE_FORWARD, 1, 8, 8, 8), 123, FROM_MEASUREMENT);
    ASSERT_ANSWER(profile, product(PHASE_FORWARD, 1, 16, 8, 8), 246, FROM_MEASUREMENT);
    profile_close(profile);
}

static void test_without_commit_nothing_stays(void **state)
{
    (void)state;
    const char *path = in_folder("gone.sqlite");
    struct profile *profile;
    assert_int_equal(profile_create(path, &profile), WEFT_OK);
    add(profile, product(PHASE_FORWARD, 1, 8, 8, 8), false, 123, "mine");
    profile_close(profile);
    assert_false(exists(path));
}

static void execute(const char *path, const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void make_good(const char *path)
{
    struct profile *profile;
    remove(path);
    assert_int_equal(profile_create(path, &profile), WEFT_OK);
    for (int i = 1; i < 400; i++)
        add(profile, product(PHASE_FORWARD, 1, 8 * i, 8, 8), false, 100 * i, "mine");
    assert_int_equal(profile_commit(profile), WEFT_OK);
    profile_close(profile);
}

static void write_text(const char *path, const char *text, size_t len)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, len, file), len);
    fclose(file);
}

static void make_text(const char *path)
{
    write_text(path, "kernel,phase,ns\nmatmul,forward,1\n", 33);
}

static void make_empty(const char *path)
{
    write_text(path, "", 0);
}

static void make_foreign(const char *path)
{
    execute(path, "CREATE TABLE kernel(a); PRAGMA user_version = 1");
}

static void make_newer(const char *path)
{
    make_good(path);
    execute(path, "PRAGMA user_version = 4");
}

static void make_without_table(const char *path)
{
    make_good(path);
    execute(path, "DROP TABLE layer");
}

static void make_view(const char *path)
{
    make_good(path);
    execute(path, "DROP TABLE kernel; CREATE VIEW kernel AS SELECT 1");
}

static void make_odd_kernel(const char *path)
{
    make_good(path);
    execute(path, "UPDATE kernel SET kernel = 'matmull' WHERE s1 = 8");
}

static void make_odd_phase(const char *path)
{
    make_good(path);
    execute(path, "UPDATE kernel SET phase = 'sideward' WHERE s1 = 8");
}

static void make_infinite(const char *path)
{
    make_good(path);
    execute(path, "UPDATE kernel SET ns = 9e999 WHERE s1 = 8");
}

static void make_folder_there(const char *path)
{
    assert_int_equal(mkdir(path, 0777), 0);
}

static void make_nothing(const char *path)
{
    (void)path;
}

static void test_refuses_what_is_no_profile(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        void (*make)(const char *path);
        const char *message; /* after "PATH: " */
    } CASES[] = {
        {"missing", make_nothing, "cannot be opened: No such file or directory"},
        {"text", make_text, "is not a profile database"},
        {"empty", make_empty, "is not a profile database"},
        {"foreign", make_foreign, "is an SQLite database, but not one of Weft's profiles"},
        {"newer", make_newer, "has schema version 4, and this Weft reads version 3"},
        {"table", make_without_table, "is damaged: tables are missing"},
        {"view", make_view, "is damaged: tables are missing"},
        {"kernel", make_odd_kernel, "is damaged: a row of table kernel has kernel 'matmull'"},
        {"phase", make_odd_phase, "is damaged: a row of table kernel has phase 'sideward'"},
        {"infinite", make_infinite, "is damaged: a row of table kernel has ns 'Inf'"},
        {"folder", make_folder_there, "is a folder, expected a file"},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        const char *path = in_folder(CASES[i].name);
        char expected[256];
        struct profile *profile;
        CASES[i].make(path);
        assert_int_equal(profile_open(path, &profile), WEFT_BAD_INPUT);
        assert_null(profile);
        snprintf(expected, sizeof expected, "%s: %s", path, CASES[i].message);
        assert_string_equal(weft_last_error()->message, expected);
    }
}

/* Whatever bytes are damaged: an error or an answer, never a crash. */
static void test_survives_damage(void **state)
{
    (void)state;
    struct arena *arena = arena_new();
    struct rng rng;
    char *bytes;
    size_t len;
    const char *path = in_folder("damaged.sqlite");
    make_good(path);
    assert_int_equal(file_read(arena, path, 1 << 24, &bytes, &len), WEFT_OK);
    rng_seed(&rng, 1);
    for (int i = 0; i < 200; i++) {
        char *copy = arena_copy_bytes(arena, bytes, len);
        struct profile *profile;
        for (int j = 0; j < 20; j++) {
            int64_t at = rng_below(&rng, (int64_t)len);
            copy[at] = (char)rng_next(&rng);
        }
        write_text(path, copy, i % 2 ? len : (size_t)rng_below(&rng, (int64_t)len));
        weft_status status = profile_open(path, &profile);
        assert_true(status == WEFT_OK || status == WEFT_BAD_INPUT || status == WEFT_FAILURE);
        if (status == WEFT_OK)
            ask(profile, product(PHASE_FORWARD, 1, 8, 8, 8));
        profile_close(profile);
    }
    arena_free(arena);
}

static void test_never_writes_into_foreign_files(void **state)
{
    (void)state;
    static void (*const MAKE[])(const char *path) = {make_text, make_foreign, make_newer};
    for (size_t i = 0; i < COUNT_OF(MAKE); i++) {
        const char *path = in_folder("foreign");
        struct arena *arena = arena_new();
        struct profile *profile;
        char *before, *after;
        size_t len, len_after;
        MAKE[i](path);
        assert_int_equal(file_read(arena, path, 1 << 24, &before, &len), WEFT_OK);
        assert_int_equal(profile_create(path, &profile), WEFT_BAD_INPUT);
        assert_int_equal(file_read(arena, path, 1 << 24, &after, &len_after), WEFT_OK);
        assert_int_equal(len, len_after);
        assert_memory_equal(before, after, len);
        arena_free(arena);
    }
}

static void test_locked(void **state)
{
    (void)state;
    const char *path = in_folder("locked.sqlite");
    struct profile *first, *second;
    char expected[256];
    make_good(path);
    assert_int_equal(profile_create(path, &first), WEFT_OK);
    assert_int_equal(profile_create(path, &second), WEFT_FAILURE);
    snprintf(expected, sizeof expected, "%s: is locked by another program", path);
    assert_string_equal(weft_last_error()->message, expected);
    assert_int_equal(profile_open(path, &second), WEFT_OK); /* readers see what was committed */
    profile_close(second);
    profile_close(first);
}

static void test_cannot_create(void **state)
{
    (void)state;
    struct profile *profile;
    assert_int_equal(profile_create("/no/such/folder/x.sqlite", &profile), WEFT_BAD_INPUT);
    assert_string_equal(weft_last_error()->message, "/no/such/folder/x.sqlite: cannot be opened: "
                                                    "unable to open database file");
    assert_null(profile);
}

/* ---- one interface over all sources ---------------------------------------------------------- */

static void test_cost_asks_in_order(void **state)
{
    (void)state;
    const char *path = in_folder("user.sqlite");
    struct profile *profile;
    struct cost *cost;
    struct work known = product(PHASE_FORWARD, 1, 8, 8, 8), unknown = known, none = {0};
    setenv("WEFT_PROFILES", "none", 1);
    assert_int_equal(profile_create(path, &profile), WEFT_OK);
    add(profile, known, false, 123, "mine");
    assert_int_equal(profile_commit(profile), WEFT_OK);
    profile_close(profile);
    assert_int_equal(cost_open(device_find(DEVICE), path, &cost), WEFT_OK);
    assert_int_equal(cost_of(cost, &known).ns, 123);
    assert_int_equal(cost_of(cost, &known).provenance, FROM_MEASUREMENT);
    unknown.shape[1] = 9;
    assert_int_equal(cost_of(cost, &unknown).provenance, FROM_FORMULA);
    assert_int_equal(cost_of(cost, &none).provenance, FROM_NOTHING);
    assert_int_equal(cost_of(cost, &none).ns, 0);
    cost_close(cost);
    assert_int_equal(cost_open(device_find(DEVICE), "/no/such.sqlite", &cost), WEFT_BAD_INPUT);
    unsetenv("WEFT_PROFILES");
}

/* What runs say about the device scales Weft's own times, each by its part; the user's are as they are. */
static void test_paces_scale_what_is_not_the_users(void **state)
{
    (void)state;
    const char *path = in_folder("paced.sqlite");
    struct device paced = *device_find(DEVICE);
    struct profile *profile;
    struct cost *usual, *cost;
    struct work known = product(PHASE_FORWARD, 1, 512, 512, 512), unknown = known;
    unknown.shape[1] = 4096;
    paced.paces.of[PACE_PRODUCTS] = 0.5;
    setenv("WEFT_PROFILES", "none", 1);
    assert_int_equal(profile_create(path, &profile), WEFT_OK);
    add(profile, known, false, 123e3, "mine");
    assert_int_equal(profile_commit(profile), WEFT_OK);
    profile_close(profile);
    assert_int_equal(cost_open(device_find(DEVICE), path, &usual), WEFT_OK);
    assert_int_equal(cost_open(&paced, path, &cost), WEFT_OK);
    assert_int_equal(cost_of(cost, &known).ns, 123000);
    assert_int_equal(cost_on_device(cost, &known).ns, 123000);
    assert_int_equal(cost_of(cost, &unknown).ns, 2 * cost_of(usual, &unknown).ns);
    assert_int_equal(cost_on_device(cost, &unknown).ns, 2 * cost_on_device(usual, &unknown).ns);
    cost_close(cost);
    cost_close(usual);
    unsetenv("WEFT_PROFILES");
}

/* A100: one peak for both 16-bit types. V100 has no bf16, so its fp16 times say nothing about it. */
static void test_types_that_run_alike(void **state)
{
    (void)state;
    static const struct {
        const char *device;
        enum provenance provenance;
    } CASES[] = {{"A100-SXM4-80GB", FROM_MEASUREMENT}, {"V100-SXM2-32GB", FROM_FORMULA}};
    const char *path = in_folder("alike.sqlite");
    struct profile *profile;
    struct work half = product(PHASE_FORWARD, 1, 8, 8, 8), other = half;
    other.dtype = DTYPE_BF16;
    setenv("WEFT_PROFILES", "none", 1);
    assert_int_equal(profile_create(path, &profile), WEFT_OK);
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct measurement m = {CASES[i].device, half, false, 123, 1, "mine"};
        assert_int_equal(profile_add(profile, &m), WEFT_OK);
    }
    assert_int_equal(profile_commit(profile), WEFT_OK);
    profile_close(profile);
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct cost *cost;
        assert_int_equal(cost_open(device_find(CASES[i].device), path, &cost), WEFT_OK);
        assert_int_equal(cost_of(cost, &half).provenance, FROM_MEASUREMENT);
        assert_int_equal(cost_of(cost, &other).provenance, CASES[i].provenance);
        cost_close(cost);
    }
    unsetenv("WEFT_PROFILES");
}

/* Shipped times of attention are of kernels by themselves, and take longer in training; the user's are
 * as they are. Written for the H200, whose calibration has a row for that. */
static void test_own_times_stay(void **state)
{
    (void)state;
    static const char H200[] = "H200-SXM-141GB";
    struct work work = attention(1, 16, 16);
    struct measurement m = {H200, work, false, 10e3, 1, "mine"};
    struct profile *profile;
    struct cost *cost;
    char shipped[4096];
    snprintf(shipped, sizeof shipped, "%s", in_folder("shipped"));
    assert_int_equal(mkdir(shipped, 0700), 0);
    const char *path = in_folder("shipped/h200-sxm-141gb.sqlite");
    assert_int_equal(profile_create(path, &profile), WEFT_OK);
    assert_int_equal(profile_add(profile, &m), WEFT_OK);
    assert_int_equal(profile_commit(profile), WEFT_OK);
    profile_close(profile);
    setenv("WEFT_PROFILES", shipped, 1);
    assert_int_equal(cost_open(device_find(H200), NULL, &cost), WEFT_OK);
    assert_true(cost_on_device(cost, &work).ns > 11000);
    cost_close(cost);
    setenv("WEFT_PROFILES", "none", 1);
    assert_int_equal(cost_open(device_find(H200), path, &cost), WEFT_OK);
    assert_int_equal(cost_on_device(cost, &work).ns, 10000);
    cost_close(cost);
    unsetenv("WEFT_PROFILES");
    assert_int_equal(remove(path), 0);
    assert_int_equal(remove(shipped), 0);
}

/* What was measured need not be again, where it is the same in every respect and sure enough. */
static void test_known_collectives(void **state)
{
    (void)state;
    const struct collective_measurement known = {
        "X1", "here", COLLECTIVE_ALL_REDUCE, 8, 2, 1 << 20, 5e4, 10, "measured", 0.05};
    struct collective_measurement other[] = {known, known, known, known, known, known, known};
    struct profile *profile = empty();
    bool has;
    other[0].device = "X2", other[1].machine = "there", other[2].collective = COLLECTIVE_ALL_GATHER;
    other[3].devices = 4, other[4].nodes = 1, other[5].bytes = 1 << 21, other[6].source = "told";
    assert_int_equal(profile_add_collective(profile, &known), WEFT_OK);
    for (size_t i = 0; i < COUNT_OF(other); i++) {
        assert_int_equal(profile_has_collective(profile, &other[i], 1, &has), WEFT_OK);
        assert_false(has);
    }
    for (int percent = 1; percent <= 9; percent++) {
        assert_int_equal(profile_has_collective(profile, &known, percent / 100.0, &has), WEFT_OK);
        assert_int_equal(has, percent >= 5);
    }
    profile_close(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes_by_hand),
        cmocka_unit_test(test_exact),
        cmocka_unit_test(test_interpolation),
        cmocka_unit_test(test_never_outside),
        cmocka_unit_test(test_smallest_gap_decides),
        cmocka_unit_test(test_heads_are_samples),
        cmocka_unit_test(test_flags_are_not_interpolated),
        cmocka_unit_test(test_whole_backward_is_shared),
        cmocka_unit_test(test_both_gradients_in_one_phase),
        cmocka_unit_test(test_whole_backward_without_flops),
        cmocka_unit_test(test_bytes_tell_kernels_apart),
        cmocka_unit_test(test_tf32_is_fp32_without_matrices),
        cmocka_unit_test(test_all_products_have_times_in_tf32),
        cmocka_unit_test(test_later_source_answers),
        cmocka_unit_test(test_replacing_leaves_other_rows),
        cmocka_unit_test(test_against_naive_reference),
        cmocka_unit_test(test_reopen),
        cmocka_unit_test(test_without_commit_nothing_stays),
        cmocka_unit_test(test_refuses_what_is_no_profile),
        cmocka_unit_test(test_survives_damage),
        cmocka_unit_test(test_never_writes_into_foreign_files),
        cmocka_unit_test(test_locked),
        cmocka_unit_test(test_cannot_create),
        cmocka_unit_test(test_cost_asks_in_order),
        cmocka_unit_test(test_paces_scale_what_is_not_the_users),
        cmocka_unit_test(test_types_that_run_alike),
        cmocka_unit_test(test_own_times_stay),
        cmocka_unit_test(test_known_collectives),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
