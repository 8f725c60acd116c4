/* test_precision.c - kernels in fp16, and products in fp8.
 *
 * Casts are held against a search over all numbers of the type. A product in fp8 is that of operands which were cast,
 * and its results are rounded to bf16 once: with the operands cast beforehand, kernels in fp32 come to
 *
 *   |difference| <= 2^-8 |result| + what fp32's sums are off by                                   (1)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "kernel_cases.h"
#include "rounds.h"

/* ---- casts ----------------------------------------------------------------------------------- */

static void test_fp16_there_and_back(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 1U << 16; bits++) {
        uint16_t half = (uint16_t)bits, back;
        float wide;
        widen(DTYPE_FP16, &half, 0, 1, &wide);
        narrow(DTYPE_FP16, &wide, 1, &back, 0);
        bool number = (bits & 0x7fffU) <= 0x7c00U;
        assert_true(number ? back == half : isnan(wide));
        double size = ldexp(bits & 0x7c00U ? 1024 + (bits & 0x3ffU) : bits & 0x3ffU,
                            (int)(bits >> 10 & 31U ? bits >> 10 & 31U : 1) - 25);
        if ((bits & 0x7fffU) < 0x7c00U)
            assert_true(wide == (float)(bits >> 15 ? -size : size));
    }
}

/* Half way between two neighbours the even one is taken, a little beside it the nearer. */
static void test_fp16_rounds_to_the_nearest(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 0x7c00U; bits++) {
        uint16_t half[2] = {(uint16_t)bits, (uint16_t)(bits + 1)}, got[3];
        float wide[2];
        widen(DTYPE_FP16, half, 0, 2, wide);
        if (bits == 0x7bffU)
            wide[1] = 65536; /* as if there were a next one */
        float middle = (wide[0] + wide[1]) / 2;
        float x[3] = {nextafterf(middle, 0), middle, nextafterf(middle, INFINITY)};
        narrow(DTYPE_FP16, x, 3, got, 0);
        assert_int_equal(got[0], half[0]);
        assert_int_equal(got[1], bits % 2 ? half[1] : half[0]);
        assert_int_equal(got[2], half[1]);
    }
}

/* The number of fp8 that is nearest to x: of the even ones where two are. */
static double nearest8(enum fp8_form form, double x)
{
    const struct fp8_facts *f = &FP8_FORMS[form];
    double best = 0, distance = INFINITY;
    for (int bits = 0; bits < 128; bits++) {
        int mantissa = bits & ((1 << f->mantissa) - 1), exponent = bits >> f->mantissa;
        double size = exponent ? ldexp(1 + ldexp(mantissa, -f->mantissa), exponent - 1 + f->least)
                               : ldexp(mantissa, f->least - f->mantissa);
        if (size > f->limit)
            break;
        double here = fabs(fabs(x) - size);
        if (here < distance || (here == distance && mantissa % 2 == 0)) {
            best = size;
            distance = here;
        }
    }
    return copysign(best, x);
}

static const struct fp8_history NO_HISTORY; /* current scaling */

static void test_fp8_is_the_nearest(void **state)
{
    (void)state;
    enum { COUNT = 4096 };
    for (int operand = 0; operand < FP8_OPERAND_COUNT; operand++) {
        enum fp8_form form = FP8_FORM_OF[operand];
        static float x[COUNT], before[COUNT];
        struct rng rng;
        rng_seed(&rng, (uint64_t)operand);
        for (int i = 0; i < COUNT; i++) {
            double digits = rng_uniform(&rng) - 0.5;
            x[i] = before[i] = (float)ldexp(digits, -(int)rng_below(&rng, 30));
        }
        x[0] = before[0] = 0.875F; /* the largest: halves of steps are met, too */
        fp8_cast(&NO_HISTORY, (enum fp8_operand)operand, x, COUNT);
        float scale = FP8_FORMS[form].limit / 0.875F;
        for (int i = 0; i < COUNT; i++)
            assert_true(x[i] == (float)nearest8(form, scale * before[i]) / scale);
    }
    float zeros[2] = {0, 0}, endless[2] = {1, INFINITY};
    fp8_cast(&NO_HISTORY, FP8_INPUT, zeros, 2);
    fp8_cast(&NO_HISTORY, FP8_INPUT, endless, 2);
    assert_true(zeros[0] == 0 && zeros[1] == 0 && !isfinite(endless[1]));
}

/* ---- kernels --------------------------------------------------------------------------------- */

static struct part all_of(const struct lab *lab)
{
    struct part part = {.adds_once = true};
    memcpy(part.size, lab->whole, sizeof part.size);
    return part;
}

static void check_close(const struct lab *lab, const char *what, const struct operand *operand,
                        const double *got, const double *want, double share)
{
    int64_t count = elements_in(lab->op, operand, lab->whole);
    double most = 0.05;
    for (int64_t i = 0; i < count; i++)
        most = isfinite(want[i]) ? fmax(most, fabs(want[i])) : most;
    for (int64_t i = 0; i < count; i++)
        if (got[i] != want[i] && !(fabs(got[i] - want[i]) <= share * most))
            fail_msg("%s, seed %llu: %s [%lld] is %.9g, expected %.9g",
                     OP_KINDS[lab->op->kind].name, (unsigned long long)lab->seed, what,
                     (long long)i, got[i], want[i]);
}

/* A quarter of what bf16 is allowed (test_kernels.c): it has two bits less. */
static void test_fp16_is_near_fp32(void **state)
{
    size_t number = 0;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(CASES); i++)
        for (int round = 0; round < rounds_of(CASES[i].rounds / 4 + 1); round++) {
            struct lab lab;
            const char *why;
            if (!is_own_case(number++))
                continue;
            lab_open(&lab, CASES[i].make, 1000 * i + (uint64_t)round);
            struct part part = all_of(&lab);
            if (lab_backend()->has(lab.op, &why)) {
                struct answer fp32 = lab_run(&lab, &part, 1, DTYPE_FP32);
                struct answer fp16 = lab_run(&lab, &part, 1, DTYPE_FP16);
                check_close(&lab, "output", &lab.op->output, fp16.output, fp32.output, 0.005);
                for (int k = 0; k < lab.op->inputs; k++)
                    check_close(&lab, "gradient", &lab.op->input[k], fp16.input_gradient[k],
                                fp32.input_gradient[k], 0.005);
                for (int k = 0; k < lab.op->weights; k++)
                    check_close(&lab, "weight's gradient", &lab.op->weight[k].operand,
                                fp16.weight_gradient[k], fp32.weight_gradient[k], 0.005);
            }
            lab_close(&lab);
        }
}

/* Sizes that GPUs multiply in 8 bits, rows apart: those are any number. */
static void make_even_linear(struct builder *b, struct rng *rng)
{
    int64_t rows = 16 * from_to(rng, 1, 8), in = 16 * from_to(rng, 1, 8),
            out = 16 * from_to(rng, 1, 8);
    build_linear(b, "op", sequence(b, rows, in), out, maybe(rng));
}

static void make_half_even_linear(struct builder *b, struct rng *rng)
{
    int64_t rows = from_to(rng, 1, 99), in = 16 * from_to(rng, 1, 8), out = 16 * from_to(rng, 1, 8);
    build_linear(b, "op", sequence(b, rows, in), out, maybe(rng));
}

static void make_even_expert_linear(struct builder *b, struct rng *rng)
{
    int64_t experts = from_to(rng, 1, 4), places = 16 * from_to(rng, 1, 4);
    int scores = build_router(b, "router", sequence(b, experts * places, 16), experts, 1);
    int x = build_dispatch(b, "dispatch", sequence(b, experts * places, 16 * from_to(rng, 1, 4)),
                           scores);
    build_expert_linear(b, "op", x, 16 * from_to(rng, 1, 4), false);
}

/* The scale of (2) of fp8.h, by hand. */
static double late_scale(const float *history, enum fp8_operand which)
{
    double most = 0;
    for (int64_t i = 1; i < FP8_HISTORY; i++)
        most = fmax(most, (double)history[i * FP8_OPERAND_COUNT + which]);
    return (double)(FP8_FORMS[FP8_FORM_OF[which]].limit / (float)most);
}

static void cast_all(const struct lab *lab, enum fp8_operand which, const struct operand *operand,
                     double *x)
{
    int64_t count = elements_in(lab->op, operand, lab->whole);
    float *f = ARENA_ARRAY(lab->arena, float, (size_t)count);
    double scale = lab->history ? late_scale(lab->history, which) : 0;
    for (int64_t i = 0; i < count; i++)
        f[i] = (float)x[i];
    if (!lab->history)
        fp8_cast(&NO_HISTORY, which, f, count);
    for (int64_t i = 0; i < count; i++)
        x[i] =
            lab->history ? nearest8(FP8_FORM_OF[which], (float)scale * f[i]) / scale : (double)f[i];
}

/* (1) */
static void check_fp8(struct lab *lab)
{
    const double share = 0x1p-8 + 1e-5;
    const struct op *op = lab->op;
    struct part part = all_of(lab);
    lab->fp8 = true;
    struct answer fp8 = lab_run(lab, &part, 1, DTYPE_BF16);
    lab->fp8 = false;
    cast_all(lab, FP8_INPUT, &op->input[0], lab->input[0]);
    cast_all(lab, FP8_WEIGHT, &op->weight[0].operand, lab->weight[0]);
    struct answer want = lab_run(lab, &part, 1, DTYPE_FP32);
    check_close(lab, "output", &op->output, fp8.output, want.output, share);
    if (op->weights > 1)
        check_close(lab, "bias's gradient", &op->weight[1].operand, fp8.weight_gradient[1],
                    want.weight_gradient[1], share);
    cast_all(lab, FP8_GRADIENT, &op->output, lab->output_gradient);
    want = lab_run(lab, &part, 1, DTYPE_FP32);
    check_close(lab, "gradient", &op->input[0], fp8.input_gradient[0], want.input_gradient[0],
                share);
    check_close(lab, "weight's gradient", &op->weight[0].operand, fp8.weight_gradient[0],
                want.weight_gradient[0], share);
}

static void (*const MAKE[])(struct builder *,
                            struct rng *) = {make_linear, make_even_linear, make_half_even_linear,
                                             make_expert_linear, make_even_expert_linear};

static void test_fp8_multiplies_what_was_cast(void **state)
{
    size_t number = 0;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(MAKE); i++)
        for (int round = 0; round < rounds_of(20); round++) {
            struct lab lab;
            const char *why;
            if (!is_own_case(number++))
                continue;
            lab_open(&lab, MAKE[i], 100 * i + (uint64_t)round);
            if (lab_backend()->has(lab.op, &why))
                check_fp8(&lab);
            lab_close(&lab);
        }
}

static double most_of(const struct lab *lab, const struct operand *operand, const double *x)
{
    double most = 0;
    for (int64_t i = 0; i < elements_in(lab->op, operand, lab->whole); i++)
        most = fmax(most, fabs(bf16_value(x[i])));
    return most;
}

/* A history whose most is somewhere between a quarter and twice of what tensors now have: some numbers are beyond the limit.
 * What tensors have is remembered for the step. */
static void check_delayed(struct lab *lab)
{
    const struct op *op = lab->op;
    const double most[] = {most_of(lab, &op->input[0], lab->input[0]),
                           most_of(lab, &op->weight[0].operand, lab->weight[0]),
                           most_of(lab, &op->output, lab->output_gradient)};
    lab->history = lab_new(FP8_HISTORY * FP8_OPERAND_COUNT * (int64_t)sizeof(float));
    for (int64_t i = 0; i < FP8_HISTORY * FP8_OPERAND_COUNT; i++)
        lab->history[i] = 0;
    for (int k = 0; k < FP8_OPERAND_COUNT; k++)
        for (int n = 0; n < 3; n++) {
            int64_t step = 1 + rng_below(&lab->rng, FP8_HISTORY - 1);
            lab->history[step * FP8_OPERAND_COUNT + k] =
                (float)bf16_value(most[k] * (0.25 + 1.75 * rng_uniform(&lab->rng)));
        }
    float *kept = lab->history;
    check_fp8(lab);
    for (int k = 0; k < FP8_OPERAND_COUNT; k++)
        assert_true(kept[k] == (float)most[k]);
    lab->history = NULL;
    lab_free(kept);
}

static void test_fp8_by_the_scale_of_earlier_steps(void **state)
{
    size_t number = 0;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(MAKE); i++)
        for (int round = 0; round < rounds_of(8); round++) {
            struct lab lab;
            const char *why;
            if (!is_own_case(number++))
                continue;
            lab_open(&lab, MAKE[i], 7000 + 100 * i + (uint64_t)round);
            if (lab_backend()->has(lab.op, &why))
                check_delayed(&lab);
            lab_close(&lab);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fp16_there_and_back),
        cmocka_unit_test(test_fp16_rounds_to_the_nearest),
        cmocka_unit_test(test_fp8_is_the_nearest),
        cmocka_unit_test(test_fp16_is_near_fp32),
        cmocka_unit_test(test_fp8_multiplies_what_was_cast),
        cmocka_unit_test(test_fp8_by_the_scale_of_earlier_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
