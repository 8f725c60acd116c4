/* test_kernels.c - every CPU kernel against plain loops over doubles, its gradients against central
 * differences of those loops, its parts against the whole, and bf16 against fp32. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "kernel_cases.h"
#include "rounds.h"

static struct part whole_part(const struct lab *lab)
{
    struct part part = {.adds_once = true};
    memcpy(part.size, lab->whole, sizeof part.size);
    return part;
}

/* ---- comparisons ----------------------------------------------------------------------------- */

static double largest(const double *x, int64_t count)
{
    double most = 0;
    for (int64_t i = 0; i < count; i++)
        if (isfinite(x[i]) && fabs(x[i]) > most)
            most = fabs(x[i]);
    return most;
}

/* |got - want| <= share * (the operand's largest number, or 0.05 where all are small). */
static void check_near(const struct lab *lab, const char *what, int which, const double *got,
                       const double *want, int64_t count, double share)
{
    double allowed = share * fmax(largest(want, count), 0.05);
    for (int64_t i = 0; i < count; i++) {
        if (got[i] == want[i] || fabs(got[i] - want[i]) <= allowed)
            continue;
        print_error("%s, seed %llu: %s %d [%lld] is %.9g, expected %.9g +- %.2g\n",
                    OP_KINDS[lab->op->kind].name, (unsigned long long)lab->seed, what, which,
                    (long long)i, got[i], want[i], allowed);
        fail();
    }
}

static void check_answers(const struct lab *lab, const struct answer *got,
                          const struct answer *want, double share)
{
    const struct op *op = lab->op;
    check_near(lab, "output", 0, got->output, want->output,
               elements_in(op, &op->output, lab->whole), share);
    for (int i = 0; i < op->inputs; i++)
        check_near(lab, "gradient of input", i, got->input_gradient[i], want->input_gradient[i],
                   elements_in(op, &op->input[i], lab->whole), share);
    for (int i = 0; i < op->weights; i++)
        check_near(lab, "gradient of weight", i, got->weight_gradient[i], want->weight_gradient[i],
                   elements_in(op, &op->weight[i].operand, lab->whole), share);
}

static struct reference reference_of(struct lab *lab, const uint8_t *mask)
{
    struct reference r = {.op = lab->op,
                          .batch = lab->batch,
                          .ids = lab->ids,
                          .mask = mask,
                          .dropout = lab->dropout,
                          .output = zeros(lab, &lab->op->output)};
    memcpy(r.input, lab->input, sizeof lab->input);
    memcpy(r.weight, lab->weight, sizeof lab->weight);
    return r;
}

/* The sum of the outputs, each times its gradient. */
static double objective(const struct lab *lab, struct reference *r)
{
    double sum = 0;
    REFERENCES[lab->op->kind](r);
    for (int64_t i = 0; i < elements_in(lab->op, &lab->op->output, lab->whole); i++)
        if (lab->output_gradient[i] != 0)
            sum += r->output[i] * lab->output_gradient[i];
    return sum;
}

/* Central differences at a few numbers of an operand. */
static void check_slopes(struct lab *lab, struct reference *r, double *numbers,
                         const double *gradient, int64_t count, const char *what, int which)
{
    enum { PROBES = 8 };
    const double step = 1e-5;
    double scale = largest(gradient, count);
    for (int i = 0; i < PROBES; i++) {
        int64_t at = rng_below(&lab->rng, count);
        double before = numbers[at];
        numbers[at] = before + step;
        double above = objective(lab, r);
        numbers[at] = before - step;
        double slope = (above - objective(lab, r)) / (2 * step);
        numbers[at] = before;
        double allowed = 2e-5 * fmax(scale, 0.1);
        if (fabs(slope - gradient[at]) <= allowed)
            continue;
        print_error("%s, seed %llu: %s %d [%lld] is %.9g, the slope %.9g +- %.2g\n",
                    OP_KINDS[lab->op->kind].name, (unsigned long long)lab->seed, what, which,
                    (long long)at, gradient[at], slope, allowed);
        fail();
    }
}

static void check_gradients(struct lab *lab, const struct answer *answer, struct reference *r)
{
    const struct op *op = lab->op;
    for (int i = 0; i < op->inputs; i++)
        if (op->input[i].element != ELEMENT_INDEX)
            check_slopes(lab, r, lab->input[i], answer->input_gradient[i],
                         elements_in(op, &op->input[i], lab->whole), "gradient of input", i);
    for (int i = 0; i < op->weights; i++)
        check_slopes(lab, r, lab->weight[i], answer->weight_gradient[i],
                     elements_in(op, &op->weight[i].operand, lab->whole), "gradient of weight", i);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void for_all(void (*check)(struct lab *lab))
{
    size_t number = 0;
    for (size_t i = 0; i < COUNT_OF(CASES); i++)
        for (int round = 0; round < rounds_of(CASES[i].rounds); round++) {
            struct lab lab;
            const char *why;
            if (!is_own_case(number++))
                continue;
            lab_open(&lab, CASES[i].make, 1000 * i + (uint64_t)round);
            assert_int_equal(lab.op->kind, CASES[i].kind);
            bool has = lab_backend()->has(lab.op, &why);
            assert_true(has || lab_backend() != &CPU_KERNELS);
            if (has)
                check(&lab);
            lab_close(&lab);
        }
}

/* fp32 sums of up to some hundred addends of size 1. */
static const double FP32_SHARE = 1e-5;

static void check_reference(struct lab *lab)
{
    struct part part = whole_part(lab);
    struct answer answer = lab_run(lab, &part, 1, DTYPE_FP32);
    bool masked = (lab->op->keep & KEEP_MASK) != 0;
    struct reference r = reference_of(lab, masked ? answer.kept : NULL);
    REFERENCES[lab->op->kind](&r);
    check_near(lab, "output", 0, answer.output, r.output,
               elements_in(lab->op, &lab->op->output, lab->whole), FP32_SHARE);
    check_gradients(lab, &answer, &r);
}

static void kernels_compute_what_loops_do(void **state)
{
    (void)state;
    for_all(check_reference);
}

/* The kinds' dims that a device may hold part of, and by how much they may be cut. */
static int64_t cut_unit(const struct lab *lab, int dim)
{
    const struct op *op = lab->op;
    enum dim_role role = OP_KINDS[op->kind].dims[dim].role;
    if (role == ROLE_WHOLE)
        return 0;
    if (op->kind == OP_CONV && dim == 1 && op->groups > 1)
        return 0;
    if (op->kind == OP_DISPATCH && dim == 2) /* as many parts of tokens as of an expert's places */
        return lab->whole[2] / common_divisor(lab->whole[2], op->output.size[1] / op->size[1]);
    if (op->kind == OP_EXPERT_LINEAR && dim == 2)
        return op->size[1];
    return op->kind == OP_ROTARY && dim == 2 ? 2 : 1;
}

/* Cuts every part in two along one dim. */
static int cut(struct lab *lab, struct part *part, int parts)
{
    int dim = (int)rng_below(&lab->rng, op_dims(lab->op->kind));
    int64_t unit = cut_unit(lab, dim), units = unit ? lab->whole[dim] / unit : 0;
    if (units < 2 || part[0].size[dim] != lab->whole[dim])
        return parts;
    int64_t at = unit * (1 + rng_below(&lab->rng, units - 1));
    bool sums = OP_KINDS[lab->op->kind].dims[dim].role == ROLE_REDUCE;
    for (int i = 0; i < parts; i++) {
        part[parts + i] = part[i];
        part[i].size[dim] = at;
        part[parts + i].begin[dim] = at;
        part[parts + i].size[dim] -= at;
        part[parts + i].adds_once &= !sums;
    }
    return 2 * parts;
}

static void check_parts(struct lab *lab)
{
    struct part part[LAB_PARTS] = {whole_part(lab)};
    struct answer whole = lab_run(lab, part, 1, DTYPE_FP32);
    int parts = 1;
    for (int tries = 0; tries < 8 && parts < LAB_PARTS; tries++)
        parts = cut(lab, part, parts);
    struct answer all = lab_run(lab, part, parts, DTYPE_FP32);
    check_answers(lab, &all, &whole, FP32_SHARE);
}

static void parts_make_the_whole(void **state)
{
    (void)state;
    for_all(check_parts);
}

/* A result is rounded by 2^-9 of itself; what comes out of rounded outputs (softmax, attention) or of
 * differences is less exact: 2 % of the operand's largest number. */
static void check_bf16(struct lab *lab)
{
    const double share = 0.02;
    struct part part = whole_part(lab);
    struct answer fp32 = lab_run(lab, &part, 1, DTYPE_FP32);
    struct answer bf16 = lab_run(lab, &part, 1, DTYPE_BF16);
    check_answers(lab, &bf16, &fp32, share);
}

static void bf16_is_near_fp32(void **state)
{
    (void)state;
    for_all(check_bf16);
}

/* Leaving out the gradient of one input, or of all, changes no other answer. */
static void check_unwanted(struct lab *lab)
{
    struct part part = whole_part(lab);
    struct answer all = lab_run(lab, &part, 1, DTYPE_FP32);
    for (int i = 0; i <= lab->op->inputs; i++) {
        lab->unwanted = i < lab->op->inputs ? 1U << i : ~0U;
        struct answer some = lab_run(lab, &part, 1, DTYPE_FP32);
        for (int k = 0; k < lab->op->inputs; k++)
            if (lab->unwanted >> k & 1)
                some.input_gradient[k] = all.input_gradient[k];
        check_answers(lab, &some, &all, FP32_SHARE);
    }
}

static void unwanted_gradients_are_left_out(void **state)
{
    (void)state;
    for_all(check_unwanted);
}

static void make_wide_dropout(struct builder *b, struct rng *rng)
{
    (void)rng;
    build_dropout(b, "op", sequence(b, 64, 512));
}

/* 32,768 draws: the share of zeros is off by more than 5 deviations once in a million. */
static void dropout_drops_its_share(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct lab lab;
        lab_open(&lab, make_wide_dropout, seed);
        lab.dropout = 0.1F * (float)seed;
        struct part part = whole_part(&lab);
        struct answer answer = lab_run(&lab, &part, 1, DTYPE_FP32);
        int64_t count = elements_in(lab.op, &lab.op->output, lab.whole), zeros_seen = 0, same = 0;
        for (int64_t i = 0; i < count; i++) {
            zeros_seen += answer.output[i] == 0;
            same += i > 511 && answer.kept[i] == answer.kept[i - 512];
        }
        double p = lab.dropout, deviation = sqrt(p * (1 - p) / (double)count);
        assert_true(fabs((double)zeros_seen / (double)count - p) < 5 * deviation);
        double agree = p * p + (1 - p) * (1 - p); /* of independent rows */
        assert_true(fabs((double)same / (double)count - agree) < 0.02);
        lab_close(&lab);
    }
}

static int64_t count_wrong_columns(const float *x, int64_t rows, int64_t columns, int64_t real)
{
    int64_t wrong = 0;
    for (int64_t i = 0; i < rows * columns; i++)
        wrong += i % columns >= real && x[i] != 0;
    return wrong;
}

/* A vocabulary of 5 padded to 6: the last column says nothing, whatever stands in it. */
static void padded_columns_count_for_nothing(void **state)
{
    (void)state;
    struct builder *b = build_start("lab", "test", "test");
    struct model *model;
    build_loss(b, "op", sequence(b, 2, 5));
    assert_int_equal(build_finish(b, &model), WEFT_OK);
    const int64_t size[] = {1, 2, 6}, begin[] = {0, 0, 0}, whole[] = {1, 2, 5}, labels[] = {1, 4};
    const float x[] = {0, 1, 0, 1, 0, 50, 1, 1, 1, 1, 1, -50};
    float loss[2], dy[] = {1, 1}, dx[12], kept[12], scratch[64];
    struct kernel_call call = {.op = model->op,
                               .size = size,
                               .begin = begin,
                               .whole = whole,
                               .adds_once = true,
                               .input = {x, labels},
                               .output = loss,
                               .output_gradient = dy,
                               .input_gradient = {dx},
                               .kept = kept,
                               .scratch = scratch};
    assert_true(CPU_KERNELS.scratch_bytes(&call) <= (int64_t)sizeof scratch);
    CPU_KERNELS.run(&call, PHASE_FORWARD);
    CPU_KERNELS.run(&call, PHASE_BACKWARD_INPUT);
    assert_float_equal(loss[0], log(3 + 2 * exp(1)) - 1, 1e-6);
    assert_float_equal(loss[1], log(5), 1e-6);
    assert_int_equal(count_wrong_columns(dx, 2, 6, 5), 0);
    model_free(model);
}

/* e^x of the kernels, through silu(x) = x / (1 + e^-x): over the whole range of an fp32 exponent. */
static void exponentials_are_accurate(void **state)
{
    (void)state;
    enum { COUNT = 40001 };
    static float x[COUNT], y[COUNT];
    struct builder *b = build_start("lab", "test", "test");
    struct model *model;
    build_silu(b, "op", sequence(b, 1, COUNT));
    assert_int_equal(build_finish(b, &model), WEFT_OK);
    int64_t size[OP_MAX_DIMS], begin[OP_MAX_DIMS] = {0};
    op_full_size(model->op, 1, size);
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)(i - COUNT / 2) * 0.004F;
    x[0] = NAN;
    x[1] = -1e30F;
    struct kernel_call call = {
        .op = model->op, .size = size, .begin = begin, .whole = size, .input = {x}, .output = y};
    CPU_KERNELS.run(&call, PHASE_FORWARD);
    assert_true(isnan(y[0]));
    assert_true(fabsf(y[1]) < 1e-6F);
    for (int i = 2; i < COUNT; i++) {
        double want = x[i] / (1 + exp(-(double)x[i]));
        assert_true(fabs(y[i] - want) <= 4e-7 * fabs(want) + 1e-35);
    }
    model_free(model);
}

/* ---- optimizers ------------------------------------------------------------------------------ */

struct numbers {
    double w, m, v;
};

/* The equations as the papers have them. */
static void step_as_written(const struct optimizer_step *s, double gradient, struct numbers *n)
{
    double g = gradient * s->scale, t = (double)s->step;
    if (s->kind == OPTIMIZER_ADAMW)
        n->w -= s->rate * (double)s->decay * n->w;
    else
        g += s->decay * n->w;
    if (s->kind == OPTIMIZER_SGD) {
        n->m = s->moment1 ? s->momentum * n->m + g : g;
        n->w -= s->rate * n->m;
        return;
    }
    n->m = s->beta1 * n->m + (1 - (double)s->beta1) * g;
    n->v = s->beta2 * n->v + (1 - (double)s->beta2) * g * g;
    double m = n->m / (1 - pow(s->beta1, t)), v = n->v / (1 - pow(s->beta2, t));
    n->w -= s->rate * m / (sqrt(v) + s->epsilon);
}

static void optimizers_step_as_written(void **state)
{
    (void)state;
    enum { COUNT = 37, STEPS = 20 };
    for (int kind = 0; kind < 2 * OPTIMIZER_MUON; kind++) {
        float w[COUNT], g[COUNT], m[COUNT] = {0}, v[COUNT] = {0};
        uint16_t copy[COUNT];
        struct numbers want[COUNT] = {0};
        struct rng rng;
        rng_seed(&rng, (uint64_t)kind);
        for (int i = 0; i < COUNT; i++)
            want[i].w = w[i] = (float)rng_uniform(&rng) - 0.5F;
        struct optimizer_step step = {(enum optimizer)(kind % OPTIMIZER_MUON),
                                      0.01F,
                                      0.9F,
                                      0.9F,
                                      0.95F,
                                      1e-6F,
                                      0.1F,
                                      0,
                                      0.5F,
                                      w,
                                      g,
                                      m,
                                      v,
                                      copy,
                                      DTYPE_BF16,
                                      COUNT};
        if (kind == OPTIMIZER_SGD)
            step.moment1 = NULL; /* once without momentum */
        for (step.step = 1; step.step <= STEPS; step.step++) {
            for (int i = 0; i < COUNT; i++)
                g[i] = (float)rng_uniform(&rng) - 0.4F;
            CPU_KERNELS.optimize(&step);
            for (int i = 0; i < COUNT; i++) {
                step_as_written(&step, g[i], &want[i]);
                assert_true(fabs(w[i] - want[i].w) <= 2e-5);
                assert_true(stored(DTYPE_BF16, copy, i) == bf16_value(w[i]));
            }
        }
    }
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void what_cannot_run_is_refused(void **state)
{
    (void)state;
    const char *why = NULL;
    struct builder *b = build_start("lab", "test", "test");
    struct model *model;
    build_rotary(b, "rotary", sequence(b, 4, 8));
    build_reshape(b, "odd", sequence(b, 4, 8), 2, (int64_t[]){1, 33});
    build_add(b, "part of a row", sequence(b, 4, 8), -1);
    give_weight(b, 4);
    assert_int_equal(build_finish(b, &model), WEFT_OK);
    for (int32_t i = 0; i < model->ops; i++) {
        assert_false(CPU_KERNELS.has(&model->op[i], &why));
        assert_non_null(why);
    }
    model_free(model);
}

/* The first operator of a model that has no kernel, or NULL. */
static const char *lacking(const char *name, const char *options)
{
    struct model *model;
    const char *why, *found = NULL;
    assert_int_equal(model_open(name, options, &model), WEFT_OK);
    for (int32_t i = 0; i < model->ops && !found; i++)
        if (!lab_backend()->has(&model->op[i], &why))
            found = OP_KINDS[model->op[i].kind].name;
    model_free(model);
    return found;
}

/* Every preset but those whose keys an index chooses or whose residual has several streams, and what families have beside their presets' options. */
static void families_run_whole(void **state)
{
    (void)state;
    static const struct {
        const char *name, *options;
    } MORE[] = {
        {"gpt2", "attention: eager"},
        {"gpt2", "positions: rotary"},
        {"swin-huge-32", "attention: flash"},
    };
    const struct preset *preset;
    size_t count = model_presets(&preset);
    for (size_t i = 0; i < count + COUNT_OF(MORE); i++) {
        const char *name = i < count ? preset[i].name : MORE[i - count].name;
        const char *found = lacking(name, i < count ? NULL : MORE[i - count].options);
        if (found && strcmp(found, "index") != 0 && strcmp(found, "mix") != 0)
            fail_msg("%s cannot be run: it has no kernel for a %s", name, found);
    }
}

/* One step by hand: m = 0.1, v = 0.01; 1 / sqrt(1 - 0.99) = 10, 0.1 / (1 - 0.9) = 1, so w falls by
 * 0.1 / (0.1 * 10 + 0.5). What training starts with where nothing is said: those of language models. */
static void adam_by_hand(void **state)
{
    (void)state;
    float w = 1, m = 0, v = 0, gradient = 1;
    struct optimizer_step step = {.kind = OPTIMIZER_ADAM,
                                  .rate = 0.1F,
                                  .beta1 = 0.9F,
                                  .beta2 = 0.99F,
                                  .epsilon = 0.5F,
                                  .step = 1,
                                  .scale = 1,
                                  .count = 1,
                                  .master = &w,
                                  .gradient = &gradient,
                                  .moment1 = &m,
                                  .moment2 = &v};
    CPU_KERNELS.optimize(&step);
    assert_float_equal(w, 1 - 0.1 / 1.5, 1e-5);
    assert_true(ADAMW_STEP.kind == OPTIMIZER_ADAMW && ADAMW_STEP.rate == 1e-3F &&
                ADAMW_STEP.beta1 == 0.9F && ADAMW_STEP.beta2 == 0.95F &&
                ADAMW_STEP.epsilon == 1e-8F && ADAMW_STEP.decay == 0.1F && ADAMW_STEP.scale == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adam_by_hand),
        cmocka_unit_test(kernels_compute_what_loops_do),
        cmocka_unit_test(parts_make_the_whole),
        cmocka_unit_test(bf16_is_near_fp32),
        cmocka_unit_test(unwanted_gradients_are_left_out),
        cmocka_unit_test(dropout_drops_its_share),
        cmocka_unit_test(padded_columns_count_for_nothing),
        cmocka_unit_test(exponentials_are_accurate),
        cmocka_unit_test(optimizers_step_as_written),
        cmocka_unit_test(what_cannot_run_is_refused),
        cmocka_unit_test(families_run_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
