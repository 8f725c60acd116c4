/* test_profile_import.c - importers: what every published table becomes, and what broken files are told. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "cost/profile.h"

#define TABLES WEFT_SOURCE_DIR "/data/profiles/"

static struct profile *import_into(struct arena *arena, const char *path, const char *device,
                                   struct import_summary *summary)
{
    struct profile *profile;
    struct import_options options = {FORMAT_AUTO, device};
    assert_int_equal(profile_create(":memory:", &profile), WEFT_OK);
    assert_int_equal(profile_import(profile, path, &options, arena, summary), WEFT_OK);
    return profile;
}

static int64_t count(struct profile *profile, enum profile_table table)
{
    int64_t rows;
    assert_int_equal(profile_count(profile, table, &rows), WEFT_OK);
    return rows;
}

static int64_t left_out(const struct import_summary *summary, const char *reason)
{
    for (size_t i = 0; i < summary->skipped.len; i++)
        if (strstr(summary->skipped.data[i].reason, reason))
            return summary->skipped.data[i].rows;
    return 0;
}

/* ---- every table that ships ------------------------------------------------------------------ */

/* Rows read are lines of the file less the header (proteus: three links a line). Stored and merged
 * add up with what is left out; see each table's own test for how. */
static void test_counts(void **state)
{
    (void)state;
    static const struct {
        const char *file, *format;
        enum profile_table table;
        int64_t read, rows, merged;
    } CASES[] = {
        {"aceso/v100_ops.csv", "aceso operators", TABLE_OPERATOR, 31204, 31204, 39847},
        {"aceso/v100_collectives.csv", "aceso collectives", TABLE_COLLECTIVE, 3456, 2776, 0},
        {"aceso/v100_p2p.csv", "aceso p2p", TABLE_COLLECTIVE, 22, 22, 0},
        {"sailor/ops.csv", "sailor operators", TABLE_OPERATOR, 16128, 16128, 19645},
        {"sailor/collectives.csv", "sailor collectives", TABLE_COLLECTIVE, 11248, 9804, 0},
        {"sailor/p2p.csv", "sailor p2p", TABLE_COLLECTIVE, 154, 154, 0},
        {"simumax_op_efficiency.csv", "simumax efficiencies", TABLE_KERNEL, 905, 749, 156},
        {"vtrain_nccl_allreduce_lut.csv", "vtrain all-reduce", TABLE_COLLECTIVE, 14336, 14336, 0},
        {"simai_nccl_busbw_ratio.csv", "simai bandwidth shares", TABLE_COLLECTIVE_SHARE, 318, 318,
         0},
        {"proteus_p2p_latency_us.csv", "proteus link times", TABLE_COLLECTIVE, 30, 90, 0},
        {"aiconfigurator/gemm.csv", "aiconfigurator products", TABLE_KERNEL, 17360, 2636, 0},
        {"aiconfigurator/context_attention.csv", "aiconfigurator attention", TABLE_KERNEL, 12622, 0,
         0},
        {"aiconfigurator/moe.csv", "aiconfigurator experts", TABLE_KERNEL, 6591, 0, 0},
        {"aiconfigurator/nccl.csv", "aiconfigurator nccl", TABLE_COLLECTIVE, 1400, 757, 0},
        {"galvatron/titan_rtx_profile_v1.json", "galvatron layers", TABLE_LAYER, 116, 10, 0},
        {"galvatron/allreduce_bandwidth_2nodes_8gpus_per_node-3318a0b3.json",
         "galvatron bandwidths", TABLE_COLLECTIVE_RATE, 7, 7, 0},
        {"galvatron/p2p_bandwidth_2nodes_8gpus_per_node-3318a0b3.json", "galvatron bandwidths",
         TABLE_COLLECTIVE_RATE, 4, 4, 0},
        {"galvatron/sp_time_1nodes_8gpus_per_node-e8efe417.json", "galvatron bandwidths",
         TABLE_COLLECTIVE, 66, 66, 0},
        {"galvatron/overlap_coefficient-3318a0b3.json", "galvatron bandwidths", TABLE_CONSTANT, 1,
         1, 0},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct arena *arena = arena_new();
        struct import_summary summary;
        char *path = arena_printf(arena, TABLES "%s", CASES[i].file);
        struct profile *profile = import_into(arena, path, NULL, &summary);
        assert_string_equal(summary.format, CASES[i].format);
        assert_int_equal(summary.read, CASES[i].read);
        assert_int_equal(count(profile, CASES[i].table), CASES[i].rows);
        assert_int_equal(summary.merged, CASES[i].merged);
        assert_int_equal(summary.replaced, 0);
        profile_close(profile);
        arena_free(arena);
    }
}

/* ---- Aceso ----------------------------------------------------------------------------------- */

static struct work work_of(enum kernel kernel, enum phase phase, enum dtype dtype,
                           const int64_t *shape)
{
    struct work work = {.kernel = kernel, .phase = phase, .dtype = dtype};
    work_set_shape(&work, shape);
    return work;
}

#define SHAPE(...) ((int64_t[WORK_MAX_SHAPE]){__VA_ARGS__})

static void assert_measured(struct profile *profile, const char *device, struct work work,
                            double us)
{
    struct kernel_cost cost;
    assert_int_equal(profile_lookup(profile, device, &work, &cost), WEFT_OK);
    assert_int_equal(cost.provenance, FROM_MEASUREMENT);
    assert_int_equal(cost.ns, llround(us * 1e3));
}

static void assert_nothing(struct profile *profile, const char *device, struct work work)
{
    struct kernel_cost cost;
    assert_int_equal(profile_lookup(profile, device, &work, &cost), WEFT_OK);
    assert_int_not_equal(cost.provenance, FROM_MEASUREMENT);
}

static void test_aceso_values(void **state)
{
    (void)state;
    static const char V100[] = "V100-SXM2-32GB";
    struct arena *arena = arena_new();
    struct import_summary summary;
    struct profile *profile = import_into(arena, TABLES "aceso/v100_ops.csv", NULL, &summary);
    enum dtype h = DTYPE_FP16, f = DTYPE_FP32;
    assert_int_equal(left_out(&summary, "does not know"), 0);

    /* gpt_1_3B, micro-batch 1, tp 1, MLP-GEMM-1: 866.761 and 877.674 us (algo 0 and 1), backward
     * 1476.009 and 1489.385: medians of two are means; half of the latter is each gradient's. */
    assert_measured(profile, V100,
                    work_of(KERNEL_MATMUL, PHASE_FORWARD, h, SHAPE(1, 2048, 8192, 2048)),
                    (866.761 + 877.674) / 2);
    assert_measured(profile, V100,
                    work_of(KERNEL_MATMUL, PHASE_BACKWARD_INPUT, h, SHAPE(1, 2048, 2048, 8192)),
                    (1476.009 + 1489.385) / 4);
    assert_measured(profile, V100,
                    work_of(KERNEL_MATMUL, PHASE_BACKWARD_WEIGHT, h, SHAPE(1, 8192, 2048, 2048)),
                    (1476.009 + 1489.385) / 4);
    /* tp 2: the column-split forward (n = 4096) is pure, 440.172 and 441.308; its backward holds an
     * all-reduce. The row-split backward (k = 4096) is pure, 804.340 and 795.441. */
    assert_measured(profile, V100,
                    work_of(KERNEL_MATMUL, PHASE_FORWARD, h, SHAPE(1, 2048, 4096, 2048)),
                    (440.172 + 441.308) / 2);
    assert_measured(profile, V100,
                    work_of(KERNEL_MATMUL, PHASE_BACKWARD_INPUT, h, SHAPE(1, 2048, 4096, 2048)),
                    (804.340 + 795.441) / 4);
    /* gpt_13B at tp 2: the forward of GEMM-1 (5120 -> 10240) is there, the backward is not. */
    assert_nothing(profile, V100,
                   work_of(KERNEL_MATMUL, PHASE_BACKWARD_INPUT, h, SHAPE(1, 2048, 5120, 10240)));
    /* Its scores at tp 8: 5 heads of (2048, 2048, 128), 123.492 us listed for both algos. */
    assert_measured(profile, V100,
                    work_of(KERNEL_MATMUL, PHASE_FORWARD, h, SHAPE(5, 2048, 2048, 128)), 123.492);
    /* resnet_500M, 16 images: the stem's 7x7 convolution; its backward is the weight's alone. */
    assert_measured(profile, V100,
                    work_of(KERNEL_CONV, PHASE_FORWARD, f, SHAPE(16, 224, 112, 112, 3, 7, 7, 2)),
                    (2604.358 + 2606.229) / 2);
    assert_measured(
        profile, V100,
        work_of(KERNEL_CONV, PHASE_BACKWARD_WEIGHT, f, SHAPE(16, 224, 112, 112, 3, 7, 7, 2)),
        (3907.543 + 3386.875) / 2);
    /* block-1-0-conv1: 896 -> 448 channels, before the image is halved. */
    assert_measured(profile, V100,
                    work_of(KERNEL_CONV, PHASE_FORWARD, f, SHAPE(16, 448, 56, 56, 896, 1, 1, 1)),
                    (3636.578 + 3053.186) / 2);
    /* block-1-0-conv2: 448 -> 896 channels, 56 -> 28 pixels wide. */
    assert_measured(profile, V100,
                    work_of(KERNEL_CONV, PHASE_FORWARD, f, SHAPE(16, 896, 28, 28, 448, 3, 3, 2)),
                    (7213.893 + 6853.821) / 2);
    profile_close(profile);
    arena_free(arena);
}

/* What the importer calls a kernel is what op_work calls it: every operator of a GPT layer, as the
 * model describes it, is found as measured, in every phase. */
static void test_gpt_layer_is_measured(void **state)
{
    (void)state;
    struct arena *arena = arena_new();
    struct import_summary summary;
    struct profile *profile = import_into(arena, TABLES "aceso/v100_ops.csv", NULL, &summary);
    struct model *model;
    int found = 0;
    assert_int_equal(model_open("gpt3-1.3b", NULL, &model), WEFT_OK);
    for (int32_t i = 0; i < model->ops; i++) {
        const struct op *op = &model->op[i];
        int64_t size[OP_MAX_DIMS];
        op_full_size(op, 1, size);
        for (int phase = 0; phase < PHASE_COUNT && op_copies(model, op) == 24; phase++) {
            struct work work = op_work(op, size, DTYPE_FP16, (enum phase)phase);
            struct kernel_cost cost;
            if (work.flops == 0 && work.read_bytes == 0)
                continue;
            assert_int_equal(profile_lookup(profile, "V100-SXM2-32GB", &work, &cost), WEFT_OK);
            assert_int_equal(cost.provenance, FROM_MEASUREMENT);
            found++;
        }
    }
    assert_int_equal(found, 13 * 2 + 6); /* 13 operators, 4 linears and 2 norms with weights */
    model_free(model);
    profile_close(profile);
    arena_free(arena);
}

/* The norms of gpt_1_3B at micro-batch 1: forward 43.762, 42.201 and 46.190 at tp 1, listed twice,
 * and as many at tp 2, 4, 8, where nothing is split. The median of all 24, with the backward of the
 * last norm (942.417, ...) left out, lies between the times of the first two. */
static void test_median_steps_over_outliers(void **state)
{
    (void)state;
    struct arena *arena = arena_new();
    struct import_summary summary;
    struct profile *profile = import_into(arena, TABLES "aceso/v100_ops.csv", NULL, &summary);
    struct work work = work_of(KERNEL_NORM, PHASE_BACKWARD_INPUT, DTYPE_FP16, SHAPE(2048, 2048));
    struct kernel_cost cost;
    assert_int_equal(profile_lookup(profile, "V100-SXM2-32GB", &work, &cost), WEFT_OK);
    assert_int_equal(cost.provenance, FROM_MEASUREMENT);
    assert_in_range(cost.ns, 119000, 121000);
    profile_close(profile);
    arena_free(arena);
}

/* ---- AIConfigurator -------------------------------------------------------------------------- */

/* A product in bf16 is a kernel's time; one in fp8 has a cast in it; held-out rows are left out. 0.00512 ms is 5.12 us. */
static void test_aiconfigurator(void **state)
{
    (void)state;
    static char TEXT[] = "system,gemm_dtype,m,n,k,latency,samples,half\n"
                         "h100_sxm,bfloat16,1024,512,256,0.00512,2,fit\n"
                         "h100_sxm,bfloat16,2048,512,256,0.01,2,held-out\n"
                         "h100_sxm,fp8,1024,512,256,0.00412,2,fit\n";
    struct arena *arena = arena_new();
    struct import_summary summary;
    struct profile *profile;
    struct import_options options = {0};
    assert_int_equal(profile_create(":memory:", &profile), WEFT_OK);
    assert_int_equal(
        profile_import_text(profile, "gemm.csv", TEXT, sizeof TEXT - 1, &options, arena, &summary),
        WEFT_OK);
    assert_measured(profile, "H100-SXM5-80GB",
                    work_of(KERNEL_MATMUL, PHASE_FORWARD, DTYPE_BF16, SHAPE(1, 1024, 512, 256)),
                    5.12);
    assert_int_equal(summary.stored, 1);
    assert_int_equal(left_out(&summary, "held out"), 1);
    assert_int_equal(left_out(&summary, "several kernels"), 1);
    profile_close(profile);
    arena_free(arena);
}

static void assert_collective(struct profile *profile, enum collective collective, int64_t bytes,
                              double ms, enum provenance provenance)
{
    struct kernel_cost cost;
    assert_int_equal(profile_collective(profile, "V100-SXM2-32GB", collective, 2, 1, bytes, &cost),
                     WEFT_OK);
    assert_int_equal(cost.provenance, provenance);
    assert_int_equal(cost.ns, llround(ms * 1e6));
}

/* All-gather: what one device sends, times the devices. 2 devices, 1 and 2 MiB each: 0.144 and 0.129
 * ms for 2 and 4 MiB; halfway, 3 MiB, the mean. */
static void test_collectives(void **state)
{
    (void)state;
    struct arena *arena = arena_new();
    struct import_summary summary;
    struct profile *profile =
        import_into(arena, TABLES "aceso/v100_collectives.csv", NULL, &summary);
    assert_int_equal(left_out(&summary, "rounded to zero"), 12);
    assert_int_equal(left_out(&summary, "out of memory"), 668);
    assert_int_equal(summary.read, 12 + 668 + summary.stored);
    assert_collective(profile, COLLECTIVE_ALL_GATHER, 2 * MIB, 0.144, FROM_MEASUREMENT);
    assert_collective(profile, COLLECTIVE_ALL_GATHER, 4 * MIB, 0.129, FROM_MEASUREMENT);
    assert_collective(profile, COLLECTIVE_ALL_GATHER, 3 * MIB, (0.144 + 0.129) / 2,
                      FROM_INTERPOLATION);
    assert_collective(profile, COLLECTIVE_ALL_GATHER, 2 * MIB - 1, 0, FROM_NOTHING);
    assert_collective(profile, COLLECTIVE_BROADCAST, 2 * MIB, 0, FROM_NOTHING);
    profile_close(profile);
    arena_free(arena);
}

/* ---- shipped databases ----------------------------------------------------------------------- */

/* A folder with one database, named after its device: it answers for the device and its twin. */
static void test_shipped_databases_are_found(void **state)
{
    (void)state;
    char folder[] = "/tmp/weft-shipped-XXXXXX", path[64], command[64];
    struct arena *arena = arena_new();
    struct import_options options = {FORMAT_AUTO, NULL};
    struct import_summary summary;
    struct profile *profile;
    struct cost *cost;
    struct work work =
        work_of(KERNEL_MATMUL, PHASE_FORWARD, DTYPE_FP16, SHAPE(1, 2048, 8192, 2048));
    static const struct {
        const char *device;
        enum provenance provenance;
    } CASES[] = {{"V100-SXM2-32GB", FROM_MEASUREMENT},
                 {"V100-SXM2-16GB", FROM_MEASUREMENT},
                 {"A100-SXM4-80GB", FROM_FORMULA}};
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/v100-sxm2-32gb.sqlite", folder);
    assert_int_equal(profile_create(path, &profile), WEFT_OK);
    assert_int_equal(
        profile_import(profile, TABLES "aceso/v100_ops.csv", &options, arena, &summary), WEFT_OK);
    assert_int_equal(profile_commit(profile), WEFT_OK);
    profile_close(profile);
    setenv("WEFT_PROFILES", folder, 1);
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        assert_int_equal(cost_open(device_find(CASES[i].device), NULL, &cost), WEFT_OK);
        assert_int_equal(cost_of(cost, &work).provenance, CASES[i].provenance);
        cost_close(cost);
    }
    unsetenv("WEFT_PROFILES");
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
    arena_free(arena);
}

/* ---- Sailor ---------------------------------------------------------------------------------- */

static void test_sailor_values(void **state)
{
    (void)state;
    static const char A100[] = "A100-SXM4-40GB";
    struct arena *arena = arena_new();
    struct import_summary summary;
    struct profile *profile = import_into(arena, TABLES "sailor/ops.csv", A100, &summary);
    assert_int_equal(left_out(&summary, "another device"), 16128 - 2304);
    /* OPT-30B, micro-batch 1, tp 4: scores of 14 heads, 178.713 us forward, listed twice. */
    assert_measured(profile, A100,
                    work_of(KERNEL_MATMUL, PHASE_FORWARD, DTYPE_FP16, SHAPE(14, 2048, 2048, 128)),
                    178.713);
    /* Its linears' backward is the input's gradient alone: nothing is known of the weight's. */
    struct work input =
        work_of(KERNEL_MATMUL, PHASE_BACKWARD_INPUT, DTYPE_FP16, SHAPE(1, 2048, 7168, 28672));
    struct work weight =
        work_of(KERNEL_MATMUL, PHASE_BACKWARD_WEIGHT, DTYPE_FP16, SHAPE(1, 28672, 7168, 2048));
    struct kernel_cost cost;
    assert_int_equal(profile_lookup(profile, A100, &input, &cost), WEFT_OK);
    assert_int_equal(cost.provenance, FROM_MEASUREMENT);
    assert_int_equal(profile_lookup(profile, A100, &weight, &cost), WEFT_OK);
    assert_int_equal(cost.provenance, FROM_NOTHING);
    /* fp32 products ran in TF32 there. */
    input.dtype = DTYPE_FP32;
    assert_int_equal(profile_lookup(profile, A100, &input, &cost), WEFT_OK);
    assert_int_equal(cost.provenance, FROM_NOTHING);
    input.dtype = DTYPE_TF32;
    assert_int_equal(profile_lookup(profile, A100, &input, &cost), WEFT_OK);
    assert_int_equal(cost.provenance, FROM_MEASUREMENT);
    profile_close(profile);
    arena_free(arena);
}

/* ---- SimuMax --------------------------------------------------------------------------------- */

/* ns = FLOPs / (efficiency * peak): 2 * 4096 * 1536 * 5120 / (0.7876672065615554 * 312e12) =
 * 262.152... us. Its weight gradient (NT, m = 1536, n = 5120, k = 4096): efficiency 0.6244545650481178,
 * 330.669 us. Attention of 128 heads, 4096^2, 192 + 128 wide: 2 * 4096^2 * 128 * 320 /
 * (1.0729673001633662 * 312e12) = 4105.42 us, backward 5/2 of the FLOPs at 0.8018473732899901. */
static void test_simumax_values(void **state)
{
    (void)state;
    static const char A100[] = "A100-PCIe-80GB";
    struct arena *arena = arena_new();
    struct import_summary summary;
    struct profile *profile =
        import_into(arena, TABLES "simumax_op_efficiency.csv", A100, &summary);
    enum dtype b = DTYPE_BF16;
    double flops = 2.0 * 4096 * 1536 * 5120, pairs = 4096.0 * 4096 * 128 * 320;
    assert_measured(profile, A100,
                    work_of(KERNEL_MATMUL, PHASE_FORWARD, b, SHAPE(1, 4096, 1536, 5120)),
                    flops / (0.7876672065615554 * 312e6));
    assert_measured(profile, A100,
                    work_of(KERNEL_MATMUL, PHASE_BACKWARD_WEIGHT, b, SHAPE(1, 1536, 5120, 4096)),
                    flops / (0.6244545650481178 * 312e6));
    assert_measured(
        profile, A100,
        work_of(KERNEL_ATTENTION, PHASE_FORWARD, b, SHAPE(1, 128, 128, 4096, 4096, 192, 128, 1)),
        2 * pairs / (1.0729673001633662 * 312e6));
    assert_measured(profile, A100,
                    work_of(KERNEL_ATTENTION, PHASE_BACKWARD_INPUT, b,
                            SHAPE(1, 128, 128, 4096, 4096, 192, 128, 1)),
                    5 * pairs / (0.8018473732899901 * 312e6));
    /* Grouped: listed with the forward's M, N, K in all stages; the weight's phase is (N, K, M). */
    double grouped = 2.0 * 40 * 616 * 3072 * 5120;
    assert_measured(
        profile, A100,
        work_of(KERNEL_GROUPED_MATMUL, PHASE_BACKWARD_WEIGHT, b, SHAPE(40, 3072, 5120, 616)),
        grouped / (0.5196854178569805 * 312e6));
    assert_int_equal(left_out(&summary, "another device"), 686);
    profile_close(profile);
    arena_free(arena);
}

/* ---- what is not a kernel -------------------------------------------------------------------- */

static void test_galvatron_tables(void **state)
{
    (void)state;
    struct arena *arena = arena_new();
    struct import_summary summary;
    struct profile *profile =
        import_into(arena, TABLES "galvatron/titan_rtx_profile_v1.json", NULL, &summary);
    assert_int_equal(count(profile, TABLE_KERNEL), 0);
    assert_int_equal(count(profile, TABLE_LAYER), 10);            /* 4 + 2 + 4 */
    assert_int_equal(count(profile, TABLE_LAYER_ACTIVATION), 50); /* five degrees each */
    assert_int_equal(count(profile, TABLE_MODEL_ENDS), 24);       /* six models, 1 + 3 each */
    assert_int_equal(count(profile, TABLE_COLLECTIVE_RATE), 29);  /* 9 + 16 + 4 */
    assert_int_equal(count(profile, TABLE_CONSTANT), 5);          /* 3, and two overheads */
    profile_close(profile);
    arena_free(arena);
}

/* Layers that were measured whole say how fast a model is: 32 of BERT-Huge take 32 * 2.2917 ms a sample, whatever
 * operators' formulas add up to. Another type, another model and T5-512/4, whose decoder has 4 positions, were not
 * measured. */
static void test_layer_pace(void **state)
{
    (void)state;
    static const char FILE_NAME[] = "layer_pace.sqlite";
    static const struct {
        const char *model;
        enum dtype dtype;
        int64_t layers; /* 0: the profile says nothing about it */
    } CASES[] = {{"bert-huge-32", DTYPE_FP32, 32}, {"vit-huge-48", DTYPE_FP32, 48},
                 {"t5-large-32", DTYPE_FP32, 32},  {"swin-huge-32", DTYPE_FP32, 32},
                 {"t5-512-4-32", DTYPE_FP32, 0},   {"bert-huge-32", DTYPE_FP16, 0},
                 {"gpt2", DTYPE_FP32, 0}};
    struct arena *arena = arena_new();
    struct import_summary summary;
    struct import_options options = {FORMAT_AUTO, NULL};
    struct profile *profile;
    remove(FILE_NAME);
    assert_int_equal(profile_create(FILE_NAME, &profile), WEFT_OK);
    assert_int_equal(profile_import(profile, TABLES "galvatron/titan_rtx_profile_v1.json", &options,
                                    arena, &summary),
                     WEFT_OK);
    assert_int_equal(profile_commit(profile), WEFT_OK);
    profile_close(profile);
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct layer_pace pace;
        struct model *model;
        assert_int_equal(model_open(CASES[i].model, NULL, &model), WEFT_OK);
        assert_int_equal(
            layer_pace(FILE_NAME, device_find("RTX-TITAN"), model, CASES[i].dtype, &pace), WEFT_OK);
        assert_true((pace.pace > 0) == (CASES[i].layers > 0));
        if (CASES[i].layers)
            assert_int_equal(pace.layers, CASES[i].layers);
        assert_true(pace.pace == 0 || (pace.pace > 0.8 && pace.pace < 1.25));
        assert_true(pace.has_slowdown && fabs(pace.overlap_slowdown - 1.3) < 1e-9);
        model_free(model);
    }
    remove(FILE_NAME);
    arena_free(arena);
}

/* Galvatron's BERT-Huge, hidden 1280: 76.98 MiB of weights, 2.2917 ms forward; its T5 has two kinds of
 * layers; embedding and head on 16 devices by stage. */
static void test_layers(void **state)
{
    (void)state;
    static const char TITAN[] = "RTX-TITAN";
    struct arena *arena = arena_new();
    struct import_summary summary;
    struct profile *profile =
        import_into(arena, TABLES "galvatron/titan_rtx_profile_v1.json", NULL, &summary);
    struct layer_profile *layers;
    struct model_ends *ends;
    size_t count;
    double value;
    bool found;
    assert_int_equal(profile_layers(profile, TITAN, NULL, arena, &layers, &count), WEFT_OK);
    assert_int_equal(count, 10);
    assert_int_equal(profile_layers(profile, TITAN, "bert-1280", arena, &layers, &count), WEFT_OK);
    assert_int_equal(count, 1);
    assert_int_equal(layers[0].seq, 512);
    assert_int_equal(layers[0].dtype, DTYPE_FP32);
    assert_int_equal(layers[0].weight_bytes, 80719380);
    assert_int_equal(llround(layers[0].forward_ns), 2291667);
    assert_int_equal(layers[0].activations, 5);
    assert_int_equal(layers[0].activation[0].tp, 1);
    assert_int_equal(layers[0].activation[0].bytes, 98639544);
    assert_int_equal(layers[0].activation[4].tp, 16);
    assert_int_equal(profile_layers(profile, TITAN, "t5-large-1024", arena, &layers, &count),
                     WEFT_OK);
    assert_int_equal(count, 2);
    assert_string_equal(layers[1].kind, "dec");
    assert_int_equal(layers[1].tp_all_reduces, 6);
    assert_int_equal(profile_model_ends(profile, TITAN, "bert-1024", arena, &ends, &count),
                     WEFT_OK);
    assert_int_equal(count, 4);
    assert_int_equal(ends[0].devices, 8);
    assert_string_equal(ends[2].part, "first");
    assert_int_equal(ends[2].state_bytes, 500 * MIB);
    assert_int_equal(profile_constant(profile, TITAN, "overlap_slowdown", &value, &found), WEFT_OK);
    assert_true(found && value == 1.3);
    assert_int_equal(profile_constant(profile, TITAN, "context", &value, &found), WEFT_OK);
    assert_true(found && value == 1024.0 * MIB);
    assert_int_equal(profile_constant(profile, TITAN, "nothing", &value, &found), WEFT_OK);
    assert_false(found);
    assert_int_equal(profile_layers(profile, "A100", NULL, arena, &layers, &count), WEFT_OK);
    assert_int_equal(count, 0);
    profile_close(profile);
    arena_free(arena);
}

/* The first line of the file: 209.212 and 2570.814 us, 636.25 MiB of weights. */
static void test_operators(void **state)
{
    (void)state;
    struct arena *arena = arena_new();
    struct import_summary summary;
    struct profile *profile =
        import_into(arena, TABLES "sailor/ops.csv", "A100-SXM4-40GB", &summary);
    struct operator_profile *ops;
    size_t count;
    assert_int_equal(profile_operators(profile, "A100-SXM4-40GB", DTYPE_FP16, "GPT-Neo-2.7", arena,
                                       &ops, &count),
                     WEFT_OK);
    bool seen = false;
    for (size_t i = 0; i < count; i++)
        if (strcmp(ops[i].op, "encoder-embedding") == 0 && ops[i].microbatch == 1 &&
            ops[i].tp == 1 && ops[i].algo == 0) {
            seen = true;
            assert_int_equal(llround(ops[i].forward_ns), 209212);
            assert_int_equal(llround(ops[i].backward_ns), 2570814);
            assert_int_equal(ops[i].weight_bytes, 636.25 * MIB);
            assert_string_equal(ops[i].forward_collective, "");
        }
    assert_true(seen);
    profile_close(profile);
    arena_free(arena);
}

/* ---- Weft's own CSV -------------------------------------------------------------------------- */

static weft_status import_text(struct profile *profile, const char *name, const char *text,
                               const char *device, struct import_summary *summary)
{
    struct arena *arena = arena_new();
    struct import_options options = {FORMAT_AUTO, device};
    char *copy = arena_copy_text(arena, text);
    weft_status status =
        profile_import_text(profile, name, copy, strlen(text), &options, arena, summary);
    arena_free(arena);
    return status;
}

/* Of 5, 2 and 1 measurements of 100, 300 and 120 ns: 8 of the median, in the row that an answer comes from. Those of two
 * shapes, of two types and of two devices stay apart. */
static void test_merged_rows_count_their_samples(void **state)
{
    (void)state;
    struct profile *profile;
    struct import_summary summary;
    struct profile_answer answer;
    struct work work = work_of(KERNEL_MATMUL, PHASE_FORWARD, DTYPE_FP16, SHAPE(1, 8, 8, 8));
    assert_int_equal(profile_create(":memory:", &profile), WEFT_OK);
    assert_int_equal(import_text(profile, "own.csv",
                                 "kernel,phase,dtype,shape,ns,samples,device\n"
                                 "matmul,forward,fp16,batch=1 m=8 n=8 k=8,100,5,X\n"
                                 "matmul,forward,fp16,batch=1 m=8 n=8 k=8,300,2,X\n"
                                 "matmul,forward,fp16,batch=1 m=8 n=8 k=8,120,1,X\n"
                                 "matmul,forward,fp16,batch=1 m=8 n=8 k=8,500,7,Y\n"
                                 "matmul,forward,fp16,batch=1 m=8 n=8 k=8,700,9,Y\n"
                                 "matmul,forward,fp32,batch=1 m=8 n=8 k=8,900,3,X\n",
                                 NULL, &summary),
                     WEFT_OK);
    assert_int_equal(summary.stored, 3);
    assert_int_equal(summary.merged, 3);
    assert_int_equal(profile_explain(profile, "X", &work, &answer), WEFT_OK);
    assert_int_equal(answer.low->samples, 8);
    assert_float_equal(answer.low->ns, 120, 0);
    assert_int_equal(profile_explain(profile, "Y", &work, &answer), WEFT_OK);
    assert_int_equal(answer.low->samples, 16);
    assert_float_equal(answer.low->ns, 600, 0); /* halfway between two */
    work.dtype = DTYPE_FP32;
    assert_int_equal(profile_explain(profile, "X", &work, &answer), WEFT_OK);
    assert_int_equal(answer.low->samples, 3);
    profile_close(profile);
}

/* Sends of 1 MiB at 100 GB/s within a node and at 25 between two: 10.48576 and 41.94304 us. */
static void test_sends_within_and_between(void **state)
{
    (void)state;
    struct profile *profile;
    struct import_summary summary;
    struct kernel_cost cost;
    assert_int_equal(profile_create(":memory:", &profile), WEFT_OK);
    assert_int_equal(import_text(profile, "p2p.csv",
                                 "where,size_mb,gb_per_s\nintra,1,100\ninter,1,25\n", "X",
                                 &summary),
                     WEFT_OK);
    for (int64_t nodes = 1; nodes <= 2; nodes++) {
        assert_int_equal(profile_collective(profile, "X", COLLECTIVE_SEND, 2, nodes, MIB, &cost),
                         WEFT_OK);
        assert_int_equal(cost.ns, nodes == 1 ? 10486 : 41943);
    }
    profile_close(profile);
}

/* Two nodes of 8: consecutive devices fill a node first, others lie in both nodes. Sends go from stage to stage. */
static void test_galvatron_rates(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        struct collective_rate rates[8];
        size_t count;
    } CASES[] = {
        {"allreduce_bandwidth_2nodes_8gpus_per_node-3318a0b3.json",
         {{.devices = 2,
           .nodes = 1,
           .stages = 1,
           .consecutive = true,
           .bus_bytes_per_s = 151.229e9},
          {.devices = 2, .nodes = 2, .stages = 1, .bus_bytes_per_s = 9.28218e9},
          {.devices = 4,
           .nodes = 1,
           .stages = 1,
           .consecutive = true,
           .bus_bytes_per_s = 152.376e9},
          {.devices = 4, .nodes = 2, .stages = 1, .bus_bytes_per_s = 19.2516e9},
          {.devices = 8,
           .nodes = 1,
           .stages = 1,
           .consecutive = true,
           .bus_bytes_per_s = 153.454e9},
          {.devices = 8, .nodes = 2, .stages = 1, .bus_bytes_per_s = 32.111e9},
          {.devices = 16,
           .nodes = 2,
           .stages = 1,
           .consecutive = true,
           .bus_bytes_per_s = 45.6885e9}},
         7},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct arena *arena = arena_new();
        struct import_summary summary;
        struct profile *profile = import_into(
            arena, arena_printf(arena, TABLES "galvatron/%s", CASES[i].file), "X", &summary);
        struct collective_rate *rates;
        size_t found;
        assert_int_equal(profile_rates(profile, "X", arena, &rates, &found), WEFT_OK);
        assert_int_equal(found, CASES[i].count);
        for (size_t k = 0; k < found; k++) {
            const struct collective_rate *wanted = &CASES[i].rates[k];
            assert_int_equal(rates[k].collective, wanted->collective);
            assert_int_equal(rates[k].devices, wanted->devices);
            assert_int_equal(rates[k].nodes, wanted->nodes);
            assert_int_equal(rates[k].stages, wanted->stages);
            assert_int_equal(rates[k].consecutive, wanted->consecutive);
            assert_true(fabs(rates[k].bus_bytes_per_s - wanted->bus_bytes_per_s) < 1);
        }
        profile_close(profile);
        arena_free(arena);
    }
}

static void test_own_csv(void **state)
{
    (void)state;
    struct profile *profile;
    struct import_summary summary;
    assert_int_equal(profile_create(":memory:", &profile), WEFT_OK);
    assert_int_equal(import_text(profile, "own.csv",
                                 "\xef\xbb\xbf"
                                 "kernel,phase,dtype,shape,ns\r\n"
                                 "matmul,forward,fp16,batch=1 m=8 n=8 k=8,100\r\n"
                                 "matmul,forward,fp16,\"m=8, n=8, k=8, batch=1\",300\r\n"
                                 "\r\n"
                                 "matmul,forward,fp16,batch=1 m=8 n=8 k=8,120\r\n"
                                 "norm,backward,fp16,rows=8 cols=8,50\r\n"
                                 "elementwise,forward,fp16,elements=100,70\r\n",
                                 "X", &summary),
                     WEFT_OK);
    assert_int_equal(summary.read, 5);
    assert_int_equal(summary.stored, 3);
    assert_int_equal(summary.merged, 2);
    assert_measured(profile, "X",
                    work_of(KERNEL_MATMUL, PHASE_FORWARD, DTYPE_FP16, SHAPE(1, 8, 8, 8)), 0.120);
    assert_measured(profile, "X",
                    work_of(KERNEL_NORM, PHASE_BACKWARD_INPUT, DTYPE_FP16, SHAPE(8, 8)), 0.050);
    assert_measured(profile, "X",
                    work_of(KERNEL_ELEMENTWISE, PHASE_FORWARD, DTYPE_FP16, SHAPE(100, 4)), 0.070);
    assert_int_equal(import_text(profile, "own.csv",
                                 "kernel,phase,dtype,shape,ns\n"
                                 "matmul,forward,fp16,batch=1 m=8 n=8 k=8,90\n",
                                 "X", &summary),
                     WEFT_OK);
    assert_int_equal(summary.replaced, 1);
    assert_int_equal(import_text(profile, "links.csv",
                                 "collective,devices,nodes,bytes,ns,device\n"
                                 "all_reduce,8,1,1048576,44210,X\n",
                                 NULL, &summary),
                     WEFT_OK);
    assert_int_equal(count(profile, TABLE_COLLECTIVE), 1);
    profile_close(profile);
}

static void test_broken_files(void **state)
{
    (void)state;
    static const char HEAD[] = "device,kernel,phase,dtype,shape,ns\n";
    static const struct {
        const char *name, *text, *message, *hint; /* text after HEAD where it begins with '+' */
    } CASES[] = {
        {"a.csv", "", "a.csv: is empty, expected a line of column names", NULL},
        {"a.csv", "\n\n", "a.csv: is empty, expected a line of column names", NULL},
        {"a.csv", "kernel,phase\xff\n", "a.csv: is not UTF-8 text", NULL},
        {"a.csv", "one,two\n1,2\n", "a.csv:1: has no known column, beginning with 'one'",
         "docs/reference/profile.md describes the tables Weft reads"},
        {"a.csv", "kernel,phase,dtype,shap,ns\n", "a.csv:1: unknown column 'shap'",
         "did you mean 'shape'?"},
        {"a.csv", "kernel,phase,shape,ns\n", "a.csv:1: column 'dtype' is missing", NULL},
        {"a.csv", "kernel,phase,dtype,shape,ns,ns\n", "a.csv:1: column 'ns' appears twice", NULL},
        {"a.csv", "kernel,phase,dtype,shape,ns\nnorm,forward,fp16,rows=1 cols=1,1\n",
         "a.csv:2: does not say which device was measured",
         "add a column 'device', or give --device NAME"},
        {"a.csv", "+X,matmull,forward,fp16,rows=1,1\n",
         "a.csv:2: kernel is 'matmull', expected a kernel", "did you mean 'matmul'?"},
        {"a.csv", "+X,norm,sideward,fp16,rows=1 cols=1,1\n",
         "a.csv:2: phase is 'sideward', expected forward, backward_input, backward_weight or "
         "backward",
         NULL},
        {"a.csv", "+X,norm,forward,int8,rows=1 cols=1,1\n",
         "a.csv:2: dtype is 'int8', expected fp32, tf32, fp16, bf16, fp8 or nvfp4", NULL},
        {"a.csv", "+X,norm,forward,fp16,rows=1 colls=1,1\n",
         "a.csv:2: shape 'rows=1 colls=1' of a norm: it has no 'colls', did you mean 'cols'?",
         "docs/reference/profile.md lists every kernel's shape numbers"},
        {"a.csv", "+X,norm,forward,fp16,rows=1,1\n",
         "a.csv:2: shape 'rows=1' of a norm: 'cols' is missing",
         "docs/reference/profile.md lists every kernel's shape numbers"},
        {"a.csv", "+X,norm,forward,fp16,rows=1 cols=0,1\n",
         "a.csv:2: shape 'rows=1 cols=0' of a norm: 'cols=0' is not a whole number of at least 1",
         "docs/reference/profile.md lists every kernel's shape numbers"},
        {"a.csv", "+X,norm,forward,fp16,rows=1 rows=2,1\n",
         "a.csv:2: shape 'rows=1 rows=2' of a norm: 'rows' stands twice",
         "docs/reference/profile.md lists every kernel's shape numbers"},
        {"a.csv", "+X,norm,forward,fp16,rows=1 cols=1,fast\n",
         "a.csv:2: ns is 'fast', expected a number above 0 and up to 1e12", NULL},
        {"a.csv", "+X,norm,forward,fp16,rows=1 cols=1,-3\n",
         "a.csv:2: ns is '-3', expected a number above 0 and up to 1e12", NULL},
        {"a.csv", "+X,norm,forward,fp16,rows=1 cols=1,nan\n",
         "a.csv:2: ns is 'nan', expected a number above 0 and up to 1e12", NULL},
        {"a.csv", "+X,norm,forward,fp16,rows=1 cols=1,inf\n",
         "a.csv:2: ns is 'inf', expected a number above 0 and up to 1e12", NULL},
        {"a.csv", "+X,norm,forward,fp16,rows=1 cols=1,1e999\n",
         "a.csv:2: ns is '1e999', expected a number above 0 and up to 1e12", NULL},
        {"a.csv", "+X,norm,forward,fp16,rows=1 cols=1,0\n",
         "a.csv:2: ns is '0', expected a number above 0 and up to 1e12", NULL},
        {"a.csv", "+X,norm,forward,fp16,rows=1 cols=1,5\nX,norm,forw",
         "a.csv:3: has 3 fields, expected the 6 of the header", "is the file cut short?"},
        {"a.csv", "+X,norm\nX,norm,forward,fp16,rows=1 cols=1,5\n",
         "a.csv:2: has 2 fields, expected the 6 of the header", NULL},
        {"a.csv",
         "kernel,phase,dtype,shape,ns,device,source\n"
         "norm,forward,fp16,rows=1 cols=1,5,X,me\nnorm,forward,fp16,rows=1 cols=1,5,X,you\n",
         "a.csv:3: source is 'you', expected the source of the rows before",
         "one file, one source: split the file"},
        {"c.csv", "collective,devices,size_mb,ms,samples\nall_redduce,2,1,1,1\n",
         "c.csv:2: collective is 'all_redduce', expected a collective",
         "did you mean 'all_reduce'?"},
        {"c.csv", "collective,devices,size_mb,ms,samples\nall_reduce,0,1,1,1\n",
         "c.csv:2: devices is '0', expected a whole number of at least 1", NULL},
        {"c.csv", "device,collective,devices,size_mb,ms\nA10,all_reduce,2,1,1\n",
         "c.csv:2: device is 'A10', expected A100-40, GH-96, RTX-2080, RTX-3090, Titan-RTX or "
         "V100-16",
         NULL},
        {"c.csv", "where,size_mb,gb_per_s\nbetween,1,2\n",
         "c.csv:2: where is 'between', expected intra or inter", NULL},
        {"s.csv", "gpu,op,shape,peak_tflops,efficiency\nX,matmul,\"b=1, m=2\",312,0.5\n",
         "s.csv:2: shape is 'b=1, m=2', expected the shape of this operator as name=number pairs",
         "as in 'b=1, m=4096, k=5120, n=1536, layout=TN'"},
        {"s.csv", "gpu,op,shape,peak_tflops,efficiency\nX,conv,x,312,0.5\n",
         "s.csv:2: op is 'conv', expected matmul, group_matmul, sdp_fwd or sdp_bwd", NULL},
        {"s.csv", "gpu,op,shape,peak_tflop,efficiency\nX,matmul,x,312,0.5\n",
         "s.csv:1: unknown column 'peak_tflop'", "did you mean 'peak_tflops'?"},
        {"x.json", "{", "x.json:1: is not valid JSON: string or '}' expected near end of file",
         NULL},
        {"x_2nodes_8gpus_per_node-a.json", "{\"allreduce_size_8_consec_1\": -4}",
         "x_2nodes_8gpus_per_node-a.json:1: 'allreduce_size_8_consec_1' is -4, expected a number "
         "above 0",
         NULL},
        {"x.json", "{\"allreduce_size_8_consec_1\": 4}",
         "x.json: does not say in its name how many nodes and devices were measured",
         "name it as in allreduce_bandwidth_2nodes_8gpus_per_node.json"},
        {"x_2nodes_8gpus_per_node-a.json", "{\"allreduce_8\": 4}",
         "x_2nodes_8gpus_per_node-a.json:1: unknown key 'allreduce_8'",
         "Galvatron writes allreduce_size_N_consec_B, pp_size_N, allreduce_size_N_MMB_time, "
         "all2all_size_N_MMB_time and overlap_coe"},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct profile *profile;
        struct import_summary summary;
        char text[512];
        bool row = CASES[i].text[0] == '+';
        snprintf(text, sizeof text, "%s%s", row ? HEAD : "", CASES[i].text + row);
        assert_int_equal(profile_create(":memory:", &profile), WEFT_OK);
        assert_int_equal(import_text(profile, CASES[i].name, text, NULL, &summary), WEFT_BAD_INPUT);
        assert_string_equal(weft_last_error()->message, CASES[i].message);
        if (CASES[i].hint)
            assert_string_equal(weft_last_error()->hint, CASES[i].hint);
        profile_close(profile);
    }
}

/* ---- the program ----------------------------------------------------------------------------- */

static int run(const char *arguments)
{
    char command[1024];
    snprintf(command, sizeof command, "%s profile %s >/dev/null 2>&1", WEFT_PROGRAM, arguments);
    int status = system(command);
    return status < 0 ? -1 : status >> 8;
}

/* All files or none: the first file is fine, the second is not. */
static void test_import_is_atomic(void **state)
{
    (void)state;
    char folder[] = "/tmp/weft-import-XXXXXX", arguments[512];
    struct stat info;
    assert_non_null(mkdtemp(folder));
    snprintf(arguments, sizeof arguments,
             "import " TABLES "aceso/v100_p2p.csv " TABLES "README.md --db %s/x.sqlite", folder);
    assert_int_equal(run(arguments), 2);
    snprintf(arguments, sizeof arguments, "%s/x.sqlite", folder);
    assert_int_equal(stat(arguments, &info), -1);
    snprintf(arguments, sizeof arguments, "import " TABLES "aceso/v100_p2p.csv --db %s/x.sqlite",
             folder);
    assert_int_equal(run(arguments), 0);
    snprintf(arguments, sizeof arguments, "show %s/x.sqlite --json", folder);
    assert_int_equal(run(arguments), 0);
    snprintf(arguments, sizeof arguments,
             "show %s/x.sqlite --kernel norm --shape rows=1,cols=1 --device X", folder);
    assert_int_equal(run(arguments), 1);
    snprintf(arguments, sizeof arguments, "rm -rf %s", folder);
    assert_int_equal(system(arguments), 0);
    assert_int_equal(run("show /no/such.sqlite"), 2);
    assert_int_equal(run("show"), 2);
    assert_int_equal(run("import"), 2);
    assert_int_equal(run("burn x"), 2);
    assert_int_equal(run("--help"), 0);
}

/* Frameworks reduce gradients in place: of two columns of times that is the second. */
static void test_reductions_are_in_place(void **state)
{
    (void)state;
    struct arena *arena = arena_new();
    struct import_summary summary;
    struct profile *profile =
        import_into(arena, TABLES "vtrain_nccl_allreduce_lut.csv", NULL, &summary);
    struct kernel_cost cost;
    assert_int_equal(
        profile_collective(profile, "A100", COLLECTIVE_ALL_REDUCE, 2, 1, 2 * MIB, &cost), WEFT_OK);
    assert_int_equal(cost.ns, 51130); /* out of place: 53430 */
    profile_close(profile);
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_reductions_are_in_place),
        cmocka_unit_test(test_aceso_values),
        cmocka_unit_test(test_gpt_layer_is_measured),
        cmocka_unit_test(test_median_steps_over_outliers),
        cmocka_unit_test(test_aiconfigurator),
        cmocka_unit_test(test_collectives),
        cmocka_unit_test(test_shipped_databases_are_found),
        cmocka_unit_test(test_sailor_values),
        cmocka_unit_test(test_simumax_values),
        cmocka_unit_test(test_galvatron_tables),
        cmocka_unit_test(test_layer_pace),
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_operators),
        cmocka_unit_test(test_own_csv),
        cmocka_unit_test(test_sends_within_and_between),
        cmocka_unit_test(test_galvatron_rates),
        cmocka_unit_test(test_merged_rows_count_their_samples),
        cmocka_unit_test(test_broken_files),
        cmocka_unit_test(test_import_is_atomic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
