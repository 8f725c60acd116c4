/* test_runs.c - tables of a user's runs: what is read, what is refused and in which words, and what a fit finds. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "one_arena.h"
#include "runs/runs.h"

static struct user_runs parsed(const char *text)
{
    struct user_runs runs;
    char *copy = arena_copy_text(arena, text);
    assert_int_equal(runs_parse(arena, "runs.csv", copy, strlen(copy), &runs), WEFT_OK);
    return runs;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Headings in the words of several frameworks; 1,500 ms are 1.5 s. */
static void headings_are_forgiving(void **state)
{
    (void)state;
    struct user_runs runs =
        parsed("Model,GPU,World Size,tensor_model_parallel_size,pp,micro-batch-size,GBS,Seq Length,"
               "Precision,Framework,elapsed time per iteration (ms),Max Memory (GiB),zero,colour\n"
               "gpt3-13b,A100,16,8,2,1,32,2048,BFloat16,Megatron-LM,1500,40.5,distributed,red\n"
               "gpt3-13b,A100,16,8.0,n/a,1,32,2048,-,,1500,,,\n");
    const struct user_run *run = &runs.data[0];
    assert_int_equal(runs.len, 2);
    assert_null(run->reason);
    assert_null(runs.data[1].reason);
    assert_string_equal(run->cluster, "16xa100");
    assert_string_equal(run->options, "seq: 2048");
    assert_string_equal(runs.ignored, "colour");
    assert_int_equal(run->degrees.tp, 8);
    assert_int_equal(runs.data[1].degrees.tp, 8);
    assert_int_equal(run->degrees.pp, 2);
    assert_int_equal(run->degrees.shard, 1);
    assert_int_equal(run->degrees.dtype, DTYPE_BF16);
    assert_true(run->speed[SPEED_SECONDS] == 1.5);
    assert_true(run->measured.memory_bytes == 40.5 * 0x1p30);
}

/* I3: as spreadsheets write them where a comma is the decimal point. Inside quotes nothing changes. */
static void separators_are_forgiving(void **state)
{
    (void)state;
    static const char *const TEXTS[] = {
        "model;gpu;gpus;options;seconds;peak mem (GB)\ngpt3-13b;A100;16;\"seq: 1,5; tied: "
        "1,2\";1,5;40\n",
        "model\tgpu\tgpus\toptions\tseconds\tpeak mem (GB)\ngpt3-13b\tA100\t16\t\"seq: 1,5; tied: "
        "1,2\"\t1.5\t40\n",
        "model,gpu,gpus,options,seconds,peak mem (GB)\ngpt3-13b,A100,16,\"seq: 1,5; tied: "
        "1,2\",1.5,40\n"};
    for (size_t i = 0; i < COUNT_OF(TEXTS); i++) {
        struct user_runs runs = parsed(TEXTS[i]);
        assert_int_equal(runs.len, 1);
        assert_string_equal(runs.data[0].cluster, "16xa100");
        assert_string_equal(runs.data[0].options, "seq: 1,5; tied: 1,2");
        assert_true(runs.data[0].speed[SPEED_SECONDS] == 1.5);
        assert_true(runs.data[0].measured.memory_bytes == 40e9);
    }
}

/* A number may say its unit, which then counts in place of the heading's; commas may part thousands. */
static void numbers_have_units(void **state)
{
    (void)state;
    static const struct {
        const char *heading, *field;
        double value; /* of the speed, or of the memory in bytes; 0: it is refused */
    } CASES[] = {
        {"s", "5.1 s", 5.1},
        {"s", "5400ms", 5.4},
        {"ms", "5.4 s", 5.4},
        {"ms", "5400", 5.4},
        {"s", "1.5 min", 90},
        {"s", "5.1 s / step", 5.1},
        {"s", "1e1", 10},
        {"tokens/s", "38k", 38000},
        {"tokens/s", "1.2 Mtok/s", 1.2e6},
        {"tokens/s", "\"1,234,567.5\"", 1234567.5},
        {"tokens/s", "19000 tok/s/GPU", 0}, /* the heading says all devices */
        {"tokens/s/gpu", "2,9", 0},         /* two fields */
        {"tokens/s/gpu", "\"2,9\"", 0},
        {"tokens/s/gpu", "\"2,900\"", 2900},
        {"tokens/s/gpu", "\"12,34,567\"", 0},
        {"tokens/s/gpu", "\",900\"", 0},
        {"tokens/s/gpu", "2900 tok/s/GPU", 2900},
        {"TFLOPs/s/GPU", "0.41 PFLOP/s", 410},
        {"tflops", "410 s", 0},
        {"peak memory", "148 GB", 148e9},
        {"peak memory", "148", 148 * 0x1p30},
        {"memory (GB)", "148 GiB", 148 * 0x1p30},
        {"memory (GB)", "GiB", 0},
        {"mem-max-allocated-bytes", "4e10", 4e10},
        {"max memory bytes", "40 GB", 4e10},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        double most = 0;
        struct user_runs runs = parsed(arena_printf(
            arena, "model,cluster,%s\ngpt3-13b,dgx-a100,%s\n", CASES[i].heading, CASES[i].field));
        for (int j = 0; j < RUN_SPEEDS; j++)
            most = fmax(most, runs.data[0].speed[j]);
        most = fmax(most, runs.data[0].measured.memory_bytes);
        assert_int_equal(runs.data[0].reason == NULL, CASES[i].value > 0);
        if (CASES[i].value > 0)
            assert_true(fabs(most / CASES[i].value - 1) < 1e-12);
    }
}

/* Vendors, blanks and capitals; devices that are no whole racks; hosts of a rack, which have four. */
static void machines_have_many_names(void **state)
{
    (void)state;
    static const struct {
        const char *text, *cluster;
    } CASES[] = {
        {"gpu,gpus,s\nm,AMD Instinct MI355X,8,1\n", "8xmi355x"},
        {"gpu,gpus,s\nm,NVIDIA H200-SXM5-141GB,16,1\n", "16xh200-sxm5-141gb"},
        {"cluster,gpus,s\nm,GB200 NVL72,128,1\n", "gb200-nvl72:2x64"},
        {"cluster,nodes,s\nm,GB200-NVL72,16,1\n", "gb200-nvl72:1x64"},
        {"cluster,gpus,s\nm,B200,256,1\n", "hgx-b200:32"},
        {"cluster,nodes,s\nm,H100,2,1\n", "dgx-h100:2"},
        {"cluster,s\nm,dgx-h100:2,1\n", "dgx-h100:2"},
        {"cluster,gpus,s\nm,nowhere,8,1\n", "nowhere:1x8"},
        {"gpu,gpus,s\nm,DGX H100,16,1\n", "dgx-h100:2"},
        {"gpu,nodes,s\nm,NVIDIA H100 80GB HBM3,4,1\n", "dgx-h100:4"},
        {"hardware,nodes,gpus per node,s\nm,DGX A100,4,8,1\n", "dgx-a100:4"},
        {"hardware,nodes,gpus per node,s\nm,DGX A100,4,2,1\n", "dgx-a100:4x2"},
        {"hardware,nodes,gpus per node,s\nm,GB200 NVL72,16,4,1\n", "gb200-nvl72:1x64"},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct user_runs runs = parsed(arena_printf(arena, "model,%s", CASES[i].text));
        assert_string_equal(runs.data[0].cluster, CASES[i].cluster);
    }
}

/* The words of NeMo, Megatron-Bridge and Primus; the rank of LoRA; a remark before the headings; a list in a table that
 * tabs part; blanks around headings, which no message has. */
static void words_of_today(void **state)
{
    (void)state;
    struct user_runs runs =
        parsed("# our runs\nmodel\tcluster\tlora\tprecision\trecompute\tframework\t"
               " colour \t step time \n"
               "llama2-70b\tB200\t16\tFP8 CS\tcore_attn,mlp\tMegatron-Bridge 25.09\t\t1\n"
               "llama2-70b\tB200\t\tfp4\tfull\tPrimus v0.3\t\t1\n"
               "llama2-70b\tB200\t\tint3\t\t\t\tsoon\n"
               "llama2-70b\tB200\t\t\t\t\t\tsoon\n"
               "llama2-70b\tB200\t\t\t\ttorchtitan v0.9\t\t1\n"
               "llama2-70b\tB200\t\t\t\t7.9\t\t1\n");
    struct software core, titan;
    assert_int_equal(software_from_text("megatron-core-0.19", &core), WEFT_OK);
    assert_null(runs.data[0].reason);
    assert_int_equal(runs.data[0].line, 3);
    assert_string_equal(runs.data[0].options, "lora: 16");
    assert_int_equal(runs.data[0].degrees.dtype, DTYPE_FP8);
    assert_true(software_same(&runs.data[0].degrees.software, &core));
    assert_null(runs.data[1].reason);
    assert_int_equal(runs.data[1].degrees.dtype, DTYPE_NVFP4);
    assert_true(software_same(&runs.data[1].degrees.software, &core));
    assert_int_equal(software_from_text("torchtitan", &titan), WEFT_OK);
    assert_null(runs.data[4].reason);
    assert_true(software_same(&runs.data[4].degrees.software, &titan)); /* a release of its own */
    assert_string_equal(runs.data[5].reason,
                        "framework is '7.9', expected a profile, such as megatron-core-0.16");
    assert_string_equal(runs.ignored, "colour");
    assert_string_equal(runs.data[3].reason,
                        "step time is 'soon', expected a time above 0, such as 5.1 or 5.1 s");
}

/* 32 samples of 2,048 tokens in 2 s: 32,768 tokens/s, of which each of 16 devices has 2,048; 16 and 1 samples/s. */
static void speeds_become_seconds(void **state)
{
    (void)state;
    static const char *const SPEEDS[] = {"seconds,2", "ms,2000",      "tokens/s,32768",
                                         "tps,2048",  "samples/s,16", "samples/s/gpu,1"};
    for (size_t i = 0; i < COUNT_OF(SPEEDS); i++) {
        size_t comma = strcspn(SPEEDS[i], ",");
        struct run_cases cases = {0};
        struct user_runs runs = parsed(arena_printf(
            arena, "model,cluster,tp,batch,seq,%.*s\ngpt3-13b,dgx-a100:2,8,32,2048,%s\n",
            (int)comma, SPEEDS[i], SPEEDS[i] + comma + 1));
        assert_int_equal(runs_predict(arena, &runs, &cases), WEFT_OK);
        assert_int_equal(cases.len, 1);
        assert_true(fabs(runs.data[0].measured.time_s - 2) < 1e-9);
        run_cases_close(&cases);
    }
}

/* Megatron-Bridge's release 26.08 prints TFLOP/s and tokens/s of each run: one time, if masked attention is counted as it does.
 * Rounded to four digits, and without what its formula leaves out; with all keys they would be 7 to 21 % longer. */
static void rates_are_counted_as_in_the_log(void **state)
{
    (void)state;
    static const struct {
        const char *model, *degrees;
        double seconds, tflops;
    } RUNS[] = {{"qwen3-30b-a3b", "8,512,4096", 5.8851, 1029},
                {"qwen3-235b-a22b", "256,8192,4096", 14.8675, 1306},
                {"llama3.1-405b", "256,1536,8192", 50.7769, 2443}};
    for (size_t i = 0; i < COUNT_OF(RUNS); i++) {
        struct run_cases cases = {0};
        struct user_runs runs =
            parsed(arena_printf(arena,
                                "model,cluster,gpus,batch,seq,framework,tflops,zero\n"
                                "%s,gb300-nvl72,%s,NeMo,%.0f,3\n%s,gb300-nvl72,%s,,%.0f,3\n",
                                RUNS[i].model, RUNS[i].degrees, RUNS[i].tflops, RUNS[i].model,
                                RUNS[i].degrees, RUNS[i].tflops));
        assert_int_equal(runs_predict(arena, &runs, &cases), WEFT_OK);
        assert_int_equal(cases.len, 2);
        print_message("%s: %.4f and %.4f of the printed time\n", RUNS[i].model,
                      runs.data[0].measured.time_s / RUNS[i].seconds,
                      runs.data[1].measured.time_s / RUNS[i].seconds);
        assert_true(fabs(runs.data[0].measured.time_s / RUNS[i].seconds - 1) < 0.01);
        assert_true(runs.data[1].measured.time_s > 1.02 * RUNS[i].seconds);
        run_cases_close(&cases);
    }
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void files_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } CASES[] = {
        {"", "runs.csv: is empty, expected a line of column names"},
        {"model,seconds\n", "runs.csv: has a header and no runs"},
        {"seconds\n1\n", "runs.csv:1: has no column 'model'"},
        {"model,tp\nx,1\n", "runs.csv:1: has no column with what was measured, such as 'seconds'"},
        {"model,gbs,Batch Size,s\n",
         "runs.csv:1: columns 'gbs' and 'Batch Size' both mean global batch"},
        {"model,model,s\n", "runs.csv:1: column 'model' appears twice"},
        {"model,\xff,s\n", "runs.csv: is not UTF-8 text"},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct user_runs runs;
        char *copy = arena_copy_text(arena, CASES[i].text);
        assert_int_equal(runs_parse(arena, "runs.csv", copy, strlen(copy), &runs), WEFT_BAD_INPUT);
        assert_string_equal(weft_last_error()->message, CASES[i].message);
    }
}

static void rows_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *row, *reason;
    } CASES[] = {
        {"gpt3-13b,dgx-a100:2,eight,32,bf16,2",
         "tp is 'eight', expected a whole number of at least 1"},
        {"gpt3-13b,dgx-a100:2,0,32,bf16,2", "tp is '0', expected a whole number of at least 1"},
        {"gpt3-13b,dgx-a100:2,8,32,int3,2",
         "dtype is 'int3', expected fp32, tf32, fp16, bf16, fp8 or nvfp4"},
        {"gpt3-13b,dgx-a100:2,8,32,bf16,-1",
         "s is '-1', expected a time above 0, such as 5.1 or 5.1 s"},
        {"gpt3-13b,dgx-a100:2,8,32,bf16,nan",
         "says neither how fast it was nor what memory it took"},
        {"gpt3-13b,dgx-a100:2,8,32", "has 4 fields, expected the 6 of the header"},
        {"gpt3-13b,,8,32,bf16,2", "says neither its cluster nor its device and their number"},
        {",dgx-a100:2,8,32,bf16,2", "names no model"},
        {"gpt3-13x,dgx-a100:2,8,32,bf16,2",
         "'gpt3-13x' is neither a preset nor a file, expected a model"},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct run_cases cases = {0};
        struct user_runs runs =
            parsed(arena_printf(arena, "model,cluster,tp,gbs,dtype,s\n%s\n", CASES[i].row));
        assert_int_equal(runs_predict(arena, &runs, &cases), WEFT_OK);
        assert_int_equal(cases.len, 0);
        assert_int_equal(runs.data[0].line, 2);
        assert_string_equal(runs.data[0].reason, CASES[i].reason);
    }
}

/* ---- fitting --------------------------------------------------------------------------------- */

static const char MADE_UP[] = "model,cluster,tp,pp,mbs,gbs,seq,zero,s\n"
                              "gpt3-13b,dgx-a100:4,8,1,1,32,2048,1,1\n"
                              "gpt3-13b,dgx-a100:4,4,2,1,64,2048,1,1\n"
                              "gpt3-13b,dgx-a100:4,2,4,2,64,2048,1,1\n"
                              "gpt3-13b,dgx-a100:4,1,8,1,32,2048,1,1\n"
                              "gpt3-6.7b,dgx-a100:4,2,1,1,32,2048,3,1\n"
                              "gpt3-6.7b,dgx-a100:4,1,2,1,16,2048,0,1\n"
                              "gpt3-6.7b,dgx-a100:4,8,1,4,64,2048,0,1\n"
                              "gpt3-1.3b,dgx-a100:4,1,1,1,32,2048,3,1\n"
                              "gpt3-1.3b,dgx-a100:1,8,1,1,8,1024,0,1\n"
                              "gpt3-1.3b,dgx-a100:1,1,1,8,64,2048,0,1\n"
                              "gpt3-1.3b,dgx-a100:1,2,2,1,32,512,0,1\n"
                              "gpt3-1.3b,dgx-a100:1,8,1,8,64,2048,0,1\n";

/* Rows of a machine whose parts have known paces, made with the simulator itself. */
static void a_made_up_machine_is_found(void **state)
{
    (void)state;
    static const struct paces TRUE_PACES = {{0.85, 1.1, 0.7, 0.6, 0.8}};
    static const double WITHIN[] = {0.02, 0.05, 0.06, 0.06, 0.2};
    struct user_runs runs = parsed(MADE_UP);
    struct run_cases cases = {0};
    struct run_fit fit;
    assert_int_equal(runs_predict(arena, &runs, &cases), WEFT_OK);
    assert_int_equal(cases.len, 12);
    for (size_t i = 0; i < cases.len; i++)
        assert_int_equal(
            run_case_time(&cases.data[i], &TRUE_PACES, &cases.data[i].run->measured.time_s),
            WEFT_OK);
    assert_int_equal(runs_fit(&cases, &fit), WEFT_OK);
    assert_true(fit.helps && fit.after < 0.01 && fit.before > 0.1);
    for (int j = 0; j < PACE_COUNT; j++) {
        if (j != PACE_HOST)
            assert_true(fit.part[j].taken);
        if (fit.part[j].taken)
            assert_true(fabs(fit.part[j].pace / TRUE_PACES.of[j] - 1) < WITHIN[j]);
    }
    run_cases_close(&cases);
}

/* A run that one slower part made is explained by that part's pace, and not by parts that it does not use. */
static void one_run_is_explained(void **state)
{
    (void)state;
    static const double SLOWER = 0.6;
    struct user_runs runs = parsed("model,cluster,tp,pp,micro batch,global batch,seconds\n"
                                   "gpt3-1.3b,dgx-a100:1,2,1,8,64,1\n");
    struct run_cases cases = {0};
    double pace[PACE_COUNT], usual_s = 0, time_s = 0;
    assert_int_equal(runs_predict(arena, &runs, &cases), WEFT_OK);
    assert_int_equal(run_case_time(cases.data, &(struct paces){{0}}, &usual_s), WEFT_OK);
    for (int part = PACE_PRODUCTS; part <= PACE_INSIDE; part++) {
        struct paces paces = {{0}};
        paces.of[part] = SLOWER;
        assert_int_equal(run_case_time(cases.data, &paces, &time_s), WEFT_OK);
        assert_true(time_s > usual_s);
        assert_int_equal(run_explain(cases.data, time_s, usual_s, pace), WEFT_OK);
        assert_true(fabs(pace[part] / SLOWER - 1) < 0.01);
        assert_true(pace[PACE_BETWEEN] == 0); /* one node has no network between nodes */
    }
    assert_int_equal(run_explain(cases.data, 0.9 * usual_s, usual_s, pace), WEFT_OK);
    assert_true(pace[PACE_PRODUCTS] > 1);
    run_cases_close(&cases);
}

/* Runs that are as predicted leave every value where it is. */
static void nothing_to_find(void **state)
{
    (void)state;
    struct user_runs runs = parsed(MADE_UP);
    struct run_cases cases = {0};
    struct run_fit fit;
    assert_int_equal(runs_predict(arena, &runs, &cases), WEFT_OK);
    for (size_t i = 0; i < cases.len; i++)
        cases.data[i].run->measured.time_s = cases.data[i].run->predicted.time_s;
    assert_int_equal(runs_fit(&cases, &fit), WEFT_OK);
    assert_false(fit.helps);
    for (int j = 0; j < PACE_COUNT; j++)
        assert_true(fabs(fit.part[j].pace - 1) < 1e-3);
    run_cases_close(&cases);
}

/* Three runs that are slower than predicted by different shares gain from one pace for all of them, but three gains do not say
 * that a fourth run would: their mean is 2.5 to 6.7 of its standard errors, enough for a normal distribution and not for
 * Student's. Where the three are alike, their gains are, and it is enough. */
static void three_gains_may_be_chance(void **state)
{
    (void)state;
    static const struct {
        double slower[3];
        bool helps;
    } CASES[] = {{{1.14, 1.2, 1.24}, false}, {{1.2, 1.2, 1.2}, true}};
    for (size_t c = 0; c < COUNT_OF(CASES); c++) {
        struct user_runs runs = parsed("model,cluster,mbs,gbs,seq,s\n"
                                       "gpt3-1.3b,dgx-a100:1x1,8,8,2048,1\n"
                                       "gpt3-1.3b,dgx-a100:1x1,4,8,2048,1\n"
                                       "gpt3-1.3b,dgx-a100:1x1,8,16,2048,1\n");
        struct run_cases cases = {0};
        struct run_fit fit;
        assert_int_equal(runs_predict(arena, &runs, &cases), WEFT_OK);
        assert_int_equal(cases.len, 3);
        for (size_t i = 0; i < cases.len; i++)
            cases.data[i].run->measured.time_s =
                CASES[c].slower[i] * cases.data[i].run->predicted.time_s;
        assert_int_equal(runs_fit(&cases, &fit), WEFT_OK);
        assert_true(fit.apart < fit.before);
        assert_true(fit.helps == CASES[c].helps);
        run_cases_close(&cases);
    }
}

/* Runs of one device cannot say anything about links, and say so. */
static void what_the_runs_do_not_determine(void **state)
{
    (void)state;
    struct user_runs runs = parsed("model,cluster,mbs,gbs,seq,s\n"
                                   "gpt3-1.3b,dgx-a100:1x1,1,8,2048,1\n"
                                   "gpt3-1.3b,dgx-a100:1x1,2,8,1024,1\n"
                                   "gpt3-1.3b,dgx-a100:1x1,4,8,2048,1\n"
                                   "gpt3-350m,dgx-a100:1x1,8,8,1024,1\n");
    struct run_cases cases = {0};
    struct run_fit fit;
    assert_int_equal(runs_predict(arena, &runs, &cases), WEFT_OK);
    for (size_t i = 0; i < cases.len; i++)
        cases.data[i].run->measured.time_s = 1.3 * cases.data[i].run->predicted.time_s;
    assert_int_equal(runs_fit(&cases, &fit), WEFT_OK);
    assert_false(fit.part[PACE_INSIDE].taken || fit.part[PACE_BETWEEN].taken);
    assert_string_equal(fit.part[PACE_BETWEEN].why, "no run spends time on it");
    run_cases_close(&cases);
}

/* Four runs of 16 devices: what the others leave is dp, 16 / (tp pp cp). Two values of a property make a pattern. */
static void patterns_know_dp(void **state)
{
    (void)state;
    struct user_runs runs = parsed("model,cluster,tp,pp,cp,batch,s\n"
                                   "gpt3-1.3b,dgx-a100:2,2,2,2,8,1\n"
                                   "gpt3-1.3b,dgx-a100:2,2,1,1,8,1\n");
    struct run_patterns found = {0};
    static const char *const DP[] = {"2", "8"};
    int seen = 0;
    for (size_t i = 0; i < runs.len; i++) {
        assert_null(runs.data[i].reason);
        runs.data[i].done = true;
        runs.data[i].devices = 16;
        runs.data[i].measured.time_s = 1;
        runs.data[i].predicted.time_s = 1.5 + (double)i;
    }
    runs_patterns(arena, &runs, &found);
    for (size_t i = 0; i < found.len; i++)
        if (strcmp(found.data[i].property, "dp") == 0)
            assert_string_equal(found.data[i].value, DP[seen++]);
    assert_int_equal(seen, 2);
}

/* ---- logs ------------------------------------------------------------------------------------ */

/* Five steps of which the first two are left out: the median of 1.0, 1.2 and 5.0 s. */
static void logs_of_frameworks(void **state)
{
    (void)state;
    struct framework_log log;
    char megatron[] =
        "training ...\n"
        " iteration 1/ 9 | elapsed time per iteration (ms): 9000.0 | lm loss: 7 |\n"
        " iteration 2/ 9 | elapsed time per iteration (ms): 2000.0 | lm loss: 7 |\n"
        " iteration 3/ 9 | elapsed time per iteration (ms): 1000.0 | throughput per GPU "
        "(TFLOP/s/GPU): 400.5 |\n"
        " iteration 4/ 9 | elapsed time per iteration (ms): 5000.0 |\n"
        " iteration 5/ 9 | elapsed time per iteration (ms): 1200.0 |\n";
    char ranks[] =
        "[Rank 0] (after 2 iterations) memory (MB) | allocated: 9.0 | max allocated: 30.0 "
        "| reserved: 9 | max reserved: 2048.00\n"
        "[Rank 8] (after 2 iterations) memory (MB) | max reserved: 4096.00\n"
        "[Rank 4] (after 2 iterations) memory (MB) | max reserved: 1024.00\n"
        " iteration 5/ 9 | elapsed time per iteration (ms): 1200.0 |\n";
    char titan[] =
        "\033[36m[titan] step:  1  \033[32mloss: 12.2  \033[33mmemory: 40.00GiB(42.19%)  "
        "\033[34mtps: 5,801  tflops: 335.8  mfu: 33.96%\033[39m\n";
    char nothing[] = "no such line, httpstps: 3\n";
    assert_int_equal(run_log_parse("a.log", megatron, strlen(megatron), &log), WEFT_OK);
    assert_int_equal(log.lines, 3);
    assert_true(fabs(log.value[LOG_SECONDS] - 1.2) < 1e-9);
    assert_true(fabs(log.value[LOG_DEVICE_TFLOPS] - 400.5) < 1e-9);
    assert_true(log.value[LOG_MEMORY_BYTES] == 0);
    assert_int_equal(run_log_parse("r.log", ranks, strlen(ranks), &log), WEFT_OK);
    assert_true(log.lines == 1 && log.value[LOG_MEMORY_BYTES] == 4 * 0x1p30); /* the fullest */
    assert_int_equal(run_log_parse("b.log", titan, strlen(titan), &log), WEFT_OK);
    assert_true(log.lines == 1 && log.value[LOG_DEVICE_TOKENS] == 5801);
    assert_true(log.value[LOG_MEMORY_BYTES] == 40 * 0x1p30 && log.value[LOG_SECONDS] == 0);
    assert_int_equal(run_log_parse("c.log", nothing, strlen(nothing), &log), WEFT_BAD_INPUT);
    assert_string_equal(weft_last_error()->message,
                        "c.log: has no line with 'elapsed time per iteration (ms):' or 'tps:'");
    char nul[] = "a\0b";
    assert_int_equal(run_log_parse("d.log", nul, 3, &log), WEFT_BAD_INPUT);
    assert_string_equal(weft_last_error()->message, "d.log: contains a NUL byte, expected a log");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headings_are_forgiving),
        cmocka_unit_test(separators_are_forgiving),
        cmocka_unit_test(numbers_have_units),
        cmocka_unit_test(machines_have_many_names),
        cmocka_unit_test(words_of_today),
        cmocka_unit_test(speeds_become_seconds),
        cmocka_unit_test(rates_are_counted_as_in_the_log),
        cmocka_unit_test(files_are_refused),
        cmocka_unit_test(rows_are_refused),
        cmocka_unit_test(a_made_up_machine_is_found),
        cmocka_unit_test(one_run_is_explained),
        cmocka_unit_test(nothing_to_find),
        cmocka_unit_test(three_gains_may_be_chance),
        cmocka_unit_test(what_the_runs_do_not_determine),
        cmocka_unit_test(patterns_know_dp),
        cmocka_unit_test(logs_of_frameworks),
    };
    return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
