/* test_hybrid.c - state-space operators and hybrid models: work by hand, patterns as the sum of their
 * layers, how degrees split them. What they compute is held to loops in test_kernels.c, and parallel runs
 * to serial ones in test_run.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cost/calibration.h"
#include "made_plan.h"
#include "model/builder.h"
#include "rounds.h"

static double parameters(const struct model *model)
{
    return model_totals(model, DTYPE_BF16).parameters;
}

static double flops(const struct model *model)
{
    return model_totals(model, DTYPE_BF16).flops[PHASE_FORWARD];
}

static const struct op *op_of(const struct model *model, enum op_kind kind)
{
    int32_t i = 0;
    while (i < model->ops - 1 && model->op[i].kind != kind)
        i++;
    return &model->op[i];
}

/* ---- operators, by hand ---------------------------------------------------------------------- */

enum { SEQ = 32, GROUPS = 2, HEADS = 4, DEPTH = 8, STATE = 16, CHUNK = 8 };

static struct model *one_layer(void)
{
    struct builder *b = build_start("m", "hand", "test");
    struct scan s = {HEADS, GROUPS, DEPTH, STATE, CHUNK};
    int64_t each = HEADS / GROUPS, wide = each * DEPTH, share = 2 * wide + 2 * STATE + each;
    int x = build_embedding(b, "e", build_tokens(b, SEQ), 10, 12, 0);
    int in = build_linear(b, "in", x, GROUPS * share, false);
    int y =
        build_conv1d(b, "conv", in, (struct fused_part){wide, wide + 2 * STATE}, GROUPS, 4, true);
    y = build_scan(b, "scan", y, in, (struct fused_part){2 * wide + 2 * STATE, each}, &s);
    y = build_gated_norm(b, "norm", y, in, (struct fused_part){0, wide}, GROUPS);
    build_linear(b, "out", y, 12, false);
    struct model *model;
    assert_int_equal(build_finish(b, &model), WEFT_OK);
    return model;
}

/* 32 positions of 4 heads of 8 in 2 groups, states of 16, chunks of 8:
 *   2 * 32 * (8*16*2 + 8*32 + 2*16*32) = 98,304 FLOPs, backward twice that and nothing for the weights,
 *   whose gradients come with the inputs'. */
static void work_of_a_scan(void **state)
{
    (void)state;
    struct model *model = one_layer();
    const struct op *scan = op_of(model, OP_SCAN);
    struct work w = op_work(scan, scan->size, DTYPE_BF16, PHASE_FORWARD);
    assert_float_equal(w.flops, 98304, 0);
    const int64_t shape[] = {1, GROUPS, HEADS, SEQ, DEPTH, STATE, CHUNK};
    assert_memory_equal(w.shape, shape, sizeof shape);
    assert_float_equal(op_work(scan, scan->size, DTYPE_BF16, PHASE_BACKWARD_INPUT).flops, 196608,
                       0);
    w = op_work(scan, scan->size, DTYPE_BF16, PHASE_BACKWARD_WEIGHT);
    assert_float_equal(w.flops + w.read_bytes + w.write_bytes, 0, 0);
    /* half of the groups: half of everything */
    int64_t local[OP_MAX_DIMS];
    op_full_size(scan, 1, local);
    local[op_find_dim(OP_SCAN, DIM_HEAD)] /= 2;
    assert_float_equal(op_work(scan, local, DTYPE_BF16, PHASE_FORWARD).flops, 98304 / 2, 0);
    model_free(model);
}

/* Parameters: the embedding's 120; in 12 * 2 * (32 + 32 + 2) = 1,584; conv (2*48)*4 + 96 = 480; scan 3*4; norm 32;
 * out 32*12 = 384. Kept in 2 bytes: ids (8 each), the embedding for `in`, all of `in`'s output (conv's input,
 * dt, the gate), the scan's output and the norm's for `out`, and a root in fp32 of every row of a group; not
 * the convolution's output, which is made again. */
static void what_a_layer_has_and_keeps(void **state)
{
    (void)state;
    struct model *model = one_layer();
    struct totals t = model_totals(model, DTYPE_BF16);
    assert_float_equal(t.parameters, 120 + 1584 + 480 + 12 + 32 + 384, 0);
    double kept = 8 * SEQ + 2 * SEQ * (12 + 132 + 32 + 32) + 4 * SEQ * GROUPS;
    assert_float_equal(t.kept_bytes, kept, 0);
    model_free(model);
}

/* A device of 1 TFLOP/s and 1 GB/s without any loss. Forward of the layer above, per position:
 *   products 98,304 / 32 = 3,072 FLOP = 3.072 ns
 *   bytes    2 (3*32 + 4*32 + 2*64) + 4 (2*64 + 2*16 + 6*4) = 704 + 736 = 1,440 B = 1,440 ns */
static void time_of_a_scan(void **state)
{
    (void)state;
    struct model *model = one_layer();
    const struct op *scan = op_of(model, OP_SCAN);
    struct device device = {.flops = {[DTYPE_BF16] = 1e12}, .memory_bytes_per_s = 1e9};
    struct calibration c = {.scan_fraction = {1, 1}, .memory_fraction = 1};
    c.share[KERNEL_SCAN][FORWARD] = c.share[KERNEL_SCAN][BACKWARD] = 1;
    struct work w = op_work(scan, scan->size, DTYPE_BF16, PHASE_FORWARD);
    assert_float_equal(scan_s(&device, &c, &w) * 1e9 / (SEQ * 1443.072), 1, 1e-12);
    w.shape[3] = SEQ - 1; /* a chunk that is not full takes as long */
    assert_float_equal(scan_s(&device, &c, &w) * 1e9 / (SEQ * 1443.072), 1, 1e-12);
    model_free(model);
}

/* ---- patterns -------------------------------------------------------------------------------- */

static const char SMALL[] =
    "hidden: 32, heads: 4, kv_heads: 2, head_dim: 8, mamba_heads: 8, "
    "mamba_dim: 8, groups: 4, state: 4, ffn: 64, experts: 4, shared_ffn: 16, "
    "latent: 8, seq: 16, vocab: 50";

static struct model *by_pattern(const char *pattern)
{
    char options[512];
    snprintf(options, sizeof options, "%s, pattern: '%s', layers: %zu", SMALL, pattern,
             strlen(pattern));
    return open_model("nemotron-h-8b", options);
}

/* Every layer is there once, under its number, and the whole is the sum of its parts, however the
 * pattern was folded into repeats. */
static void patterns_are_sums_of_layers(void **state)
{
    (void)state;
    static const char LETTERS[] = "M*-E";
    double each[4][2], base[2];
    for (int i = 0; i < 4; i++) {
        const char one[] = {LETTERS[i], '\0'}, two[] = {LETTERS[i], LETTERS[i], '\0'};
        struct model *a = by_pattern(one), *b = by_pattern(two);
        each[i][0] = parameters(b) - parameters(a);
        each[i][1] = flops(b) - flops(a);
        base[0] = parameters(a) - each[i][0];
        base[1] = flops(a) - each[i][1];
        model_free(a);
        model_free(b);
    }
    struct rng rng;
    rng_seed(&rng, 7);
    for (int round = 0; round < rounds_of(100); round++) {
        char pattern[41] = "";
        int64_t length = 1 + rng_below(&rng, 40), period = 1 + rng_below(&rng, 6);
        double want[] = {base[0], base[1]};
        for (int64_t i = 0; i < length; i++) { /* mostly periodic, so that there are repeats */
            bool again = i >= period && rng_below(&rng, 8);
            pattern[i] = again ? pattern[i - period] : LETTERS[rng_below(&rng, 4)];
            int letter = (int)(strchr(LETTERS, pattern[i]) - LETTERS);
            want[0] += each[letter][0];
            want[1] += each[letter][1];
        }
        struct model *model = by_pattern(pattern);
        assert_float_equal(parameters(model), want[0], 0);
        assert_float_equal(flops(model), want[1], 0);
        assert_int_equal(model->layers, length);
        int64_t seen[40] = {0};
        for (int32_t i = 0; i < model->modules; i++) {
            const struct module *m = &model->module[i];
            if (strcmp(m->name, "layers") != 0)
                continue;
            struct series series = module_series(model, i);
            for (int64_t k = 0; k < series.count; k++)
                seen[series.first + k * series.stride]++;
        }
        for (int64_t i = 0; i < length; i++)
            assert_int_equal(seen[i], 1);
        model_free(model);
    }
}

/* Depths beyond the first have no parameters of their own, and as much work. */
static void depths_share_their_weights(void **state)
{
    (void)state;
    struct model *none = open_model("nemotron-3-nano", NULL),
                 *one = open_model("nemotron-3-nano", "mtp: 1"),
                 *three = open_model("nemotron-3-nano", "mtp: 3");
    assert_float_equal(parameters(one), parameters(three), 0);
    assert_true(parameters(one) > parameters(none));
    assert_float_equal((flops(three) - flops(none)) / (flops(one) - flops(none)), 3, 1e-9);
    model_free(none);
    model_free(one);
    model_free(three);
}

/* ---- degrees --------------------------------------------------------------------------------- */

static void expect_split(const struct made *m, const char *path, const char *split)
{
    for (int64_t i = 0; i < m->plan->instances; i++)
        if (strcmp(plan_path(m->arena, m->plan, i), path) == 0) {
            assert_string_equal(split_text(m->arena, &plan_choice(m->plan, i)->split), split);
            return;
        }
    fail_msg("no operator %s", path);
}

static void degrees_split_groups(void **state)
{
    (void)state;
    struct degrees degrees = {.tp = 2, .cp = 2, .dp = 2, .sequence = true, .global_batch = 8};
    struct made m = make("nemotron-3-super", "mtp: 0", "dgx-h100:1", &degrees);
    expect_split(&m, "layers.0.mamba.norm", "batch:2 seq:4");
    expect_split(&m, "layers.0.mamba.in_proj", "batch:2 seq:2 out:2");
    expect_split(&m, "layers.0.mamba.conv", "batch:2 head:4");
    expect_split(&m, "layers.0.mamba.scan", "batch:2 head:4");
    expect_split(&m, "layers.0.mamba.gated_norm", "batch:2 seq:2 head:2");
    expect_split(&m, "layers.0.mamba.out_proj", "batch:2 seq:2 in:2");
    expect_split(&m, "layers.1.mlp.experts.latent_down", "batch:2 seq:4");
    expect_split(&m, "layers.1.mlp.experts.latent_up", "batch:2 seq:4");
    unmake(&m);
}

static void more_devices_than_groups_are_refused(void **state)
{
    (void)state;
    struct model *model = open_model("nemotron-h-8b", NULL);
    struct cluster *cluster = open_cluster("dgx-h100:2");
    struct plan *plan = NULL;
    struct degrees degrees = {.tp = 16, .global_batch = 8};
    assert_int_equal(plan_from_degrees(model, cluster, &degrees, &plan), WEFT_BAD_INPUT);
    assert_string_equal(weft_last_error()->message,
                        "layers.0.mamba.conv: tp 16 does not divide its dim head of 8");
    assert_non_null(strstr(weft_last_error()->hint, "use tp 8"));
    model_free(model);
    cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_of_a_scan),
        cmocka_unit_test(what_a_layer_has_and_keeps),
        cmocka_unit_test(time_of_a_scan),
        cmocka_unit_test(patterns_are_sums_of_layers),
        cmocka_unit_test(depths_share_their_weights),
        cmocka_unit_test(degrees_split_groups),
        cmocka_unit_test(more_devices_than_groups_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
