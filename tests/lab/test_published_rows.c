/* test_published_rows.c - published runs become plans: every row either becomes one that passes the checks or is
 * refused with a reason, and some, by hand, the plans that their sources describe. */
#include "lab/lab.h"
#include "lab/validate.h"
#include "published_rows.h"

/* The plan of a row that can be expressed. */
static struct opened_plan plan_of(struct published *row)
{
    struct opened_plan opened;
    assert_int_equal(published_plan(arena, row, &opened), WEFT_OK);
    if (row->reason)
        fail_msg("%s: %s", row->name, row->reason);
    return opened;
}

/* ---- all rows -------------------------------------------------------------------------------- */

/* How many rows each file has, and how many a plan can express. */
static const struct {
    const char *dataset;
    size_t rows, expressed;
} COUNTS[] = {
    {"megatron_sc21_table1", 4, 4},
    {"megatron_seqsel_table5", 3, 3},
    {"megatron_core_h100", 5, 5},
    {"vtrain_multi", 41, 41},
    {"vtrain_single", 201, 201},
    {"simumax_b200", 20, 20},
    {"torchtitan", 15, 15},
    {"weft_h200", 39, 39},
    {"weft_h200_ranks", 36, 36},
    {"llm_foundry_fsdp", 70, 70},
    {"megatron_bridge", 127, 127},
    {"megatron_golden", 218, 183},
    {"mlperf", 114, 98},
    {"primus_mi3xx", 6, 6},
    {"fold3d_table2", 14, 14},
    {"fold3d_table3", 16, 12},
    {"fold3d_table4", 3, 3},
    {"proteus_table5", 13, 13},
};

static void every_row_is_planned_or_refused(void **state)
{
    (void)state;
    const struct dataset *datasets;
    assert_int_equal(sources_datasets(known_sources(), &datasets), COUNT_OF(COUNTS));
    for (size_t d = 0; d < COUNT_OF(COUNTS); d++) {
        struct published_rows rows = rows_of(COUNTS[d].dataset);
        size_t expressed = 0;
        assert_string_equal(datasets[d].name, COUNTS[d].dataset);
        for (size_t i = 0; i < rows.len; i++) {
            struct opened_plan opened;
            assert_int_equal(published_plan(arena, &rows.data[i], &opened), WEFT_OK);
            assert_true((opened.plan != NULL) == (rows.data[i].reason == NULL));
            if (opened.plan)
                assert_int_equal(plan_check(opened.plan), WEFT_OK);
            expressed += opened.plan != NULL;
            plan_close(&opened);
        }
        if (rows.len != COUNTS[d].rows || expressed != COUNTS[d].expressed)
            fail_msg("%s: %zu of %zu rows expressed", COUNTS[d].dataset, expressed, rows.len);
    }
}

/* Files in the tree and datasets of the program are the same. */
static void halves_are_stable(void **state)
{
    (void)state;
    struct published_rows rows = rows_of("vtrain_single"), again = rows_of("vtrain_single");
    size_t fit = 0;
    for (size_t i = 0; i < rows.len; i++) {
        assert_int_equal(rows.data[i].half, again.data[i].half);
        fit += rows.data[i].half == HALF_FIT;
    }
    assert_int_equal(fit, 99); /* of 201; another hash would deal them otherwise */
}

/* ---- some rows, by hand ---------------------------------------------------------------------- */

/* SC'21: 1024 = 8 * 4 * 32 devices, 1792 / 32 = 56 samples of a replica in micro-batches of 2. */
static void sc21_76b(void **state)
{
    (void)state;
    struct published_rows rows = rows_of("megatron_sc21_table1");
    struct published *row = row_named(&rows, "76B");
    struct opened_plan opened = plan_of(row);
    const struct plan *plan = opened.plan;
    assert_int_equal(cluster_devices(plan->cluster), 1024);
    assert_string_equal(plan->cluster->name, "dgx-a100");
    assert_int_equal(plan->stages, 4);
    assert_int_equal(plan->pieces, 3);
    assert_string_equal(plan->schedule, "interleaved");
    assert_int_equal(plan->step_samples, 64);
    assert_int_equal(plan_micro_batches(plan), 28);
    assert_int_equal(plan->dtype, DTYPE_FP16);
    assert_int_equal(plan->policy, POLICY_MIXED);
    assert_int_equal(plan->overlap, 0);
    assert_int_equal(plan->bucket_bytes, 0);
    assert_int_equal(plan->model->layers, 60);
    assert_int_equal(plan->model->seq, 2048);
    assert_true(model_totals(plan->model, DTYPE_FP16).parameters > 75.5e9);
    assert_true(model_totals(plan->model, DTYPE_FP16).parameters < 76.7e9);
    assert_true(row->measured.time_s > 16 && row->measured.time_s < 16.1);
    plan_close(&opened);
}

static void torch_ddp_without_a_pipeline(void **state)
{
    (void)state;
    struct published_rows rows = rows_of("megatron_sc21_table1");
    const struct published *row = row_named(&rows, "1.7B");
    assert_int_equal(row->degrees.overlap, OVERLAP_GRADIENTS);
    assert_int_equal(row->degrees.bucket_bytes, DEFAULT_BUCKET_BYTES);
}

static void simumax_measures_memory(void **state)
{
    (void)state;
    struct published_rows rows = rows_of("simumax_b200");
    struct published *row = row_named(&rows, "deepseekv2_tp1_ep8_pp1_dp8_l4_mbc4_cef");
    struct opened_plan opened = plan_of(row);
    assert_int_equal(opened.plan->model->layers, 4);
    assert_int_equal(opened.plan->policy, POLICY_DISTRIBUTED);
    assert_int_equal(plan_choice(opened.plan, 1)->shard, 1);
    assert_true(row->measured.memory_bytes == 45.63 * 0x1p30);
    assert_true(row->measured.reserved_bytes == 48.79 * 0x1p30);
    plan_close(&opened);
}

/* Part of a node: two of the eight devices. */
static void few_devices_of_a_node(void **state)
{
    (void)state;
    struct published_rows rows = rows_of("vtrain_single");
    struct published *row = row_named(&rows, "h1024_l16_t1_d1_p4_m1");
    struct opened_plan opened = plan_of(row);
    assert_int_equal(opened.cluster->nodes, 1);
    assert_int_equal(cluster_devices(opened.cluster), 4);
    assert_int_equal(opened.plan->stages, 4);
    plan_close(&opened);
}

/* torchtitan's selective recomputation: of q, k, v, proj, gate, up, down the second, fourth and sixth
 * run again, and the outputs of the others and of attention stay. */
static void every_second_product_is_recomputed(void **state)
{
    (void)state;
    struct published_rows rows = rows_of("torchtitan");
    struct opened_plan opened = plan_of(row_named(&rows, "8B_32_H200"));
    const struct plan *plan = opened.plan;
    int products = 0, again = 0, attention = 0;
    for (int64_t i = 0; i < plan->instances; i++) {
        const struct op *op = &plan->model->op[plan->instance[i].op];
        const struct choice *choice = plan_choice(plan, i);
        products += op->kind == OP_LINEAR;
        again += op->kind == OP_LINEAR && choice->recompute && !choice->saved;
        attention += op->kind == OP_ATTENTION && choice->recompute && choice->saved;
    }
    assert_int_equal(products, 32 * 7 + 1);
    assert_int_equal(again, 32 * 3);
    assert_int_equal(attention, 32);
    plan_close(&opened);
}

static void golden_follows_launch_arguments(void **state)
{
    (void)state;
    struct published_rows rows = rows_of("megatron_golden");
    struct published *plain = row_named(&rows, "bert/bert_mcore_tp1_pp2@dev_dgx_a100");
    assert_non_null(strstr(plain->options, "attention: fused"));
    assert_int_equal(plain->memory_place, MEMORY_OF_LAST_STAGE);
    assert_int_equal(plain->degrees.policy, POLICY_MIXED_FP32_GRADIENTS);
    size_t timed = 0;
    for (size_t i = 0; i < rows.len; i++)
        timed += rows.data[i].measured.time_s > 0;
    assert_true(timed > 0 && timed <= rows.len);
}

/* Vicuna 7B has 6,738 M weights, and 2 x 256 x 4,096 for its larger vocabulary; CLIP's encoder 303.5 M: 7,044 M that are
 * frozen, with 2 bytes each and 4 more while their norm is computed; 21 M of the projector have 18. */
static void golden_copies_frozen_weights(void **state)
{
    (void)state;
    struct published_rows rows = rows_of("megatron_golden");
    struct published *packed = row_named(&rows, "mimo/mimo_vlm_pretrain_convergence_tp1_pp1_cp1_"
                                                "dp8_seq_packing@dev_dgx_h100");
    assert_int_equal(packed->memory_place, MEMORY_OF_LOGGED_NORM);
    assert_string_equal(packed->model, "llava-1.5-7b");
    assert_non_null(strstr(packed->options, "images: 4, document: 640"));
    assert_non_null(packed->assumes);
    assert_int_equal(published_predict(arena, packed), WEFT_OK);
    double frozen = 6738.4e6 + 2 * 256 * 4096 + 303.5e6, trained = 21.0e6;
    double bytes = frozen * (2 + 4) + trained * 18;
    assert_true(fabs(packed->predicted.memory_bytes - bytes) < 0.005 * bytes);
    assert_true(packed->predicted.reserved_bytes < 0.6 * bytes); /* a step holds less */
}

static void golden_reads_images(void **state)
{
    (void)state;
    struct published_rows rows = rows_of("megatron_golden");
    struct published *split =
        row_named(&rows, "multimodal-llava/multimodal_llava_mcore_te_tp4_sp_cp2@lts_dgx_a100");
    struct opened_plan opened = plan_of(split);
    assert_int_equal(opened.model->seq, 1232 + 24 * 24);
    assert_non_null(strstr(split->options, "vocab: 8704"));
    assert_non_null(strstr(split->options, "attention: flash"));
    plan_close(&opened);
    /* Heads of 52. */
    struct published *whole =
        row_named(&rows, "multimodal-llava/multimodal_llava_mcore_te_tp1_pp1@dev_dgx_h100");
    assert_non_null(strstr(whole->options, "seq: 1601, vocab: 8320, attention: fused"));
}

/* Of the 11B model: 24 layers of an encoder, and 24 of a decoder whose sequences are shorter. */
static void golden_has_two_stacks(void **state)
{
    (void)state;
    struct published_rows rows = rows_of("megatron_golden");
    struct published *small = row_named(&rows, "t5/t5_mcore_tp4_pp1@lts_dgx_a100");
    struct published *large = row_named(&rows, "t5/t5_11b_mcore_tp4_pp1@dev_dgx_h100");
    assert_non_null(strstr(small->options, "seq: 512, decoder_seq: 128, vocab: 29184"));
    assert_non_null(small->assumes);
    struct opened_plan opened[] = {plan_of(small), plan_of(large)};
    assert_int_equal(opened[0].model->layers, 12 + 12);
    assert_int_equal(opened[1].model->layers, 24 + 24);
    for (size_t i = 0; i < COUNT_OF(opened); i++)
        plan_close(&opened[i]);
}

/* 256 samples over 8 replicas in micro-batches of 4: 8 of them; over 128 replicas 2 samples each. */
static void fold3d_systems(void **state)
{
    (void)state;
    struct published_rows rows = rows_of("fold3d_table2");
    struct opened_plan fold = plan_of(row_named(&rows, "A100 GPT-3 18B Fold3D"));
    struct opened_plan zero = plan_of(row_named(&rows, "A100 GPT-3 18B DeepSpeed-Z3"));
    assert_string_equal(fold.plan->schedule, "aiao");
    assert_int_equal(fold.plan->pieces, 4);
    assert_int_equal(plan_micro_batches(fold.plan), 8);
    assert_int_equal(fold.model->seq, 1024);
    assert_int_equal(zero.plan->stages, 1);
    assert_int_equal(plan_micro_batches(zero.plan), 1);
    assert_int_equal(zero.plan->step_samples, 256);
    assert_int_equal(plan_choice(zero.plan, 1)->shard, 3);
    plan_close(&fold);
    plan_close(&zero);
}

/* Data, model and pipeline parallelism and the number of micro-batches of every row. */
static void proteus_rows(void **state)
{
    (void)state;
    static const int64_t DEGREES[][4] = {{8, 1, 1, 1}, {4, 2, 1, 1}, {2, 4, 1, 1},  {1, 8, 1, 1},
                                         {2, 2, 2, 1}, {2, 2, 2, 2}, {16, 1, 1, 1}, {8, 2, 1, 1},
                                         {4, 4, 1, 1}, {2, 8, 1, 1}, {8, 1, 2, 4},  {8, 1, 2, 8},
                                         {2, 4, 2, 4}};
    struct published_rows rows = rows_of("proteus_table5");
    assert_int_equal(rows.len, COUNT_OF(DEGREES));
    for (size_t i = 0; i < rows.len; i++) {
        const struct degrees *d = &rows.data[i].degrees;
        const int64_t *of = DEGREES[i];
        assert_true(d->dp == of[0] && d->tp == of[1] && d->pp == of[2]);
        assert_int_equal(d->global_batch, of[0] * of[1] * of[2] == 8 ? 8 : 64);
        assert_int_equal(d->micro_batch * d->dp * of[3], d->global_batch);
    }
}

/* LoRA on devices of 192 GB recomputes 21 layers, on larger ones none. */
static void some_layers_are_recomputed(void **state)
{
    (void)state;
    struct published_rows rows = rows_of("mlperf");
    int found = 0;
    for (size_t i = 0; i < rows.len; i++) {
        const struct degrees *d = &rows.data[i].degrees;
        if (!strstr(rows.data[i].name, "AMD Instinct"))
            continue;
        bool small = strstr(rows.data[i].name, "MI300X") != NULL;
        found += small;
        assert_int_equal(d->recompute, small ? RECOMPUTE_FULL : RECOMPUTE_NONE);
        assert_int_equal(d->recompute_layers, small ? 21 : 0);
    }
    assert_int_equal(found, 6);
}

/* Recipes of Megatron-Bridge differ by release: from 26.06 on CUDA graphs, fused experts, overlapped all-to-alls. */
static void bridge_by_release(void **state)
{
    (void)state;
    struct published_rows rows = rows_of("megatron_bridge");
    const struct published *early =
        row_named(&rows, "GPT OSS 120B DGX-GB200 x64 BF16, Megatron-Bridge 26.04 NeMo Container");
    const struct published *late =
        row_named(&rows, "GPT OSS 120B DGX-GB200 x64 MXFP8, Megatron-Bridge 26.08 NeMo Container");
    assert_int_equal(early->degrees.recompute, RECOMPUTE_SELECTIVE);
    assert_int_equal(early->degrees.modules,
                     module_from_name("layernorm") | module_from_name("moe_act"));
    assert_int_equal(early->degrees.overlap & OVERLAP_EXPERTS, 0);
    assert_int_equal(late->degrees.recompute, RECOMPUTE_NONE);
    assert_int_equal(late->degrees.etp, 1);
    assert_true(late->degrees.overlap & OVERLAP_EXPERTS);
    assert_int_equal(software_word(&late->degrees.software, FACT_HOST), HOST_GRAPHS);
    assert_int_equal(software_word(&late->degrees.software, FACT_EXPERTS), EXPERTS_FUSED);
    assert_int_equal(software_word(&late->degrees.software, FACT_BUCKETS), BUCKETS_MEGATRON);
    assert_int_equal(row_named(&rows, "Kimi_K2 DGX-GB300 x256 MXFP8, Megatron-Bridge 26.06 NeMo "
                                      "Container")
                         ->degrees.optimizer,
                     UPDATE_MUON);
}

/* What ran is held against memory without a margin, and then without what an allocator caches. */
static void memory_that_ran(void **state)
{
    (void)state;
    struct published_rows primus = rows_of("primus_mi3xx"), mosaic = rows_of("llm_foundry_fsdp");
    struct published *whole = row_named(&primus, "Llama-3.1-8B MI325X x8 FP8");
    struct published *large = row_named(&primus, "Mixtral-8x22B MI355X x64 BF16");
    struct published *tight = row_named(&mosaic, "760m_s16384_g8");
    struct published *rows[] = {whole, large, tight};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_int_equal(published_predict(arena, rows[i]), WEFT_OK);
    assert_null(row_full(whole));
    assert_string_equal(row_full(large), "predicted not to fit in memory");
    assert_null(row_full(tight)); /* its loss keeps logits of 16 bits */
}

/* A rack gives all of its 72 devices to jobs of one or eight racks, and 64 to those of 40. */
static void mlperf_submissions(void **state)
{
    (void)state;
    struct published_rows rows = rows_of("mlperf");
    struct published *lora =
        row_named(&rows, "llama2_70b_lora 72 x NVIDIA Blackwell GPU (GB200), v5.1 NVIDIA");
    struct published *large =
        row_named(&rows, "llama31_405b 2560 x NVIDIA Blackwell GPU (GB200), v5.1 NVIDIA");
    struct opened_plan opened = plan_of(lora);
    assert_string_equal(lora->cluster, "gb200-nvl72:1x72");
    assert_string_equal(large->cluster, "gb200-nvl72:40x64");
    assert_int_equal(large->degrees.pieces, 8);
    assert_int_equal(large->degrees.dtype, DTYPE_NVFP4);
    assert_int_equal(lora->degrees.pieces, 1);
    assert_int_equal(lora->degrees.dtype, DTYPE_FP8);
    assert_int_equal(software_word(&lora->degrees.software, FACT_HOST), HOST_GRAPHS);
    assert_true(lora->measured.time_s == 0.199574);
    assert_int_equal(opened.plan->step_samples, 9);
    plan_close(&opened);
}

static void reasons_are_named(void **state)
{
    (void)state;
    struct published_rows mlperf = rows_of("mlperf");
    assert_string_equal(
        row_named(&mlperf, "llama31_8b 8 x AMD Instinct MI350X, v5.1 Cisco")->reason,
        "no configuration of this run among the submission's files");
    struct published_rows fold = rows_of("fold3d_table3");
    struct published *too_many = row_named(&fold, "A100 T5 Fold3D");
    struct opened_plan opened;
    assert_int_equal(published_plan(arena, too_many, &opened), WEFT_OK);
    assert_null(opened.plan);
    assert_non_null(strstr(too_many->reason, "2.5 times the FLOPs of its shape"));
}

/* Fold3D's Table 4: the copies of checkpoints at the printed rate to the host, which the table itself beats for 39B
 * (12 layers, 16 micro-batches, 64 MiB out and back are 25.8 GB: 17.5 GB/s, where 13.6 are printed). */
static void copies_to_the_host(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double measured_s, predicted_s;
    } CASES[] = {{"V100 GPT-3 39B", 1.4725, 25.77 / 13.6}, {"V100 CPM", 1.0973, 16.11 / 13.6}};
    struct published_rows rows = rows_of("fold3d_table4");
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct published *row = row_named(&rows, CASES[i].name);
        assert_int_equal(published_predict(arena, row), WEFT_OK);
        double copies_s = row->predicted.portion_s[PORTION_COPIES];
        assert_true(fabs(row->measured.portion_s[PORTION_COPIES] - CASES[i].measured_s) < 1e-9);
        assert_true(fabs(copies_s / CASES[i].predicted_s - 1) < 0.02);
    }
}

static struct published row_with(const char *dataset, const char *row)
{
    return row_of_sources(known_sources(), dataset, row);
}

/* Sequence parallelism is the row's, and nothing without tensor parallelism. */
static void sequences_are_shared_as_the_row_says(void **state)
{
    (void)state;
    static const struct {
        int tp, said;
    } ROWS[] = {{1, 0}, {1, 1}, {2, 0}, {2, 1}};
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct published row = row_with(
            "megatron_core_h100",
            arena_printf(
                arena,
                "megatron_core_h100,small,GPT,,12,2048,,16,,2048,51200,,,H100-SXM5-80GB,16,8,,,"
                "%d,1,1,2,,%d,1,32,,1F1B,,%d,1,bf16,,1,,,,,,,,,",
                ROWS[i].tp, 8 / ROWS[i].tp, ROWS[i].said));
        assert_int_equal(row.degrees.tp, ROWS[i].tp);
        assert_int_equal(row.degrees.sequence, ROWS[i].tp > 1 && ROWS[i].said);
    }
}

/* What is open is settled as every choice by itself, simulated, says: none that fits is faster. */
static void open_degrees_are_the_fastest(void **state)
{
    (void)state;
    struct published row = row_with(
        "megatron_core_h100", "megatron_core_h100,small,GPT,,12,2048,,16,,2048,51200,,,"
                              "H100-SXM5-80GB,16,8,,,2,1,1,2,,4,,32,,1F1B,,1,1,bf16,,1,,,,,,,,,");
    assert_int_equal(row.open, OPEN_MICRO_BATCH | OPEN_PIECES);
    assert_int_equal(published_predict(arena, &row), WEFT_OK);
    assert_true(row.done && row.predicted.fits && row.open == 0);
    assert_string_equal(row.assumes, arena_printf(arena, "chosen: micro-batch %lld virtual %lld",
                                                  (long long)row.degrees.micro_batch,
                                                  (long long)row.degrees.pieces));
    bool found = false;
    for (int64_t b = 1; b <= 8; b *= 2)
        for (int64_t v = 1; v <= 6; v++) {
            struct published other = row;
            other.degrees.micro_batch = b;
            other.degrees.pieces = v;
            other.done = false;
            assert_int_equal(published_predict(arena, &other), WEFT_OK);
            if (!other.done || !other.predicted.fits || v == 4 || v == 5)
                continue;
            assert_true(other.predicted.time_s >= row.predicted.time_s);
            found |= other.predicted.time_s == row.predicted.time_s;
        }
    assert_true(found);
}

/* By the file that a run of torchtitan is from: in December 2024 its loss was not compiled. In a pipeline
 * there are as many micro-batches as stages, and state is sharded as ZeRO-1 does it. */
static void torchtitan_by_its_source(void **state)
{
    (void)state;
    static const char RUN[] =
        "torchtitan,c,Llama,,32,4096,14336,32,8,8192,128256,,,H200-SXM,64,8,,,1,1,1,"
        "%d,1,%d,%s,64,,1F1B,full,0,fsdp2(zero3),bf16,,1,,,,,48,,t,repo:x/%s.md,";
    struct published old =
        row_with("torchtitan", arena_printf(arena, RUN, 1, 64, "1", "a_202412_b"));
    struct published new = row_with("torchtitan", arena_printf(arena, RUN, 8, 8, "", "a_202506_b"));
    assert_non_null(strstr(old.options, "loss: eager"));
    assert_non_null(strstr(new.options, "loss: compiled"));
    assert_true(old.memory_reserved && old.degrees.shard == 3 && new.degrees.shard == 1);
    assert_int_equal(new.degrees.micro_batch, 1);
    assert_int_equal(published_predict(arena, &old), WEFT_OK);
    assert_true(old.predicted.memory_bytes == old.predicted.reserved_bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_planned_or_refused),
        cmocka_unit_test(halves_are_stable),
        cmocka_unit_test(sc21_76b),
        cmocka_unit_test(torch_ddp_without_a_pipeline),
        cmocka_unit_test(simumax_measures_memory),
        cmocka_unit_test(few_devices_of_a_node),
        cmocka_unit_test(every_second_product_is_recomputed),
        cmocka_unit_test(golden_follows_launch_arguments),
        cmocka_unit_test(golden_copies_frozen_weights),
        cmocka_unit_test(golden_reads_images),
        cmocka_unit_test(golden_has_two_stacks),
        cmocka_unit_test(fold3d_systems),
        cmocka_unit_test(proteus_rows),
        cmocka_unit_test(some_layers_are_recomputed),
        cmocka_unit_test(bridge_by_release),
        cmocka_unit_test(memory_that_ran),
        cmocka_unit_test(mlperf_submissions),
        cmocka_unit_test(reasons_are_named),
        cmocka_unit_test(copies_to_the_host),
        cmocka_unit_test(sequences_are_shared_as_the_row_says),
        cmocka_unit_test(open_degrees_are_the_fastest),
        cmocka_unit_test(torchtitan_by_its_source),
    };
    return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
