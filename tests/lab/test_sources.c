/* test_sources.c - files of published runs, and of what is known of their sources: what is damaged is explained
 * with file and line, and rules make of a row what they say. */
#include "lab/lab.h"
#include "published_rows.h"

/* ---- damaged files --------------------------------------------------------------------------- */

#define FOLD_HEAD                                                                                  \
    "gpu,n_gpus,model,global_batch,system,conf,dp,pp,tp,segments,fwd_ms,bwd_ms,bubble_ms,"         \
    "dp_sync_ms,pp_sync_ms,gpu_mem_GB,extra_cpu_mem_GB,tflops_per_gpu,util_pct_printed,total_ms,"  \
    "util_pct_recomputed,tflops_x_total_rel_to_group,megatron_formula_tflops_seq1024,flag\n"
#define PROTEUS_HEAD                                                                               \
    "hc,gpus,global_batch,dp,mp,pp,n_micro_batch,err_pct,rank_truth,rank_pred,flag\n"

static const struct {
    const char *dataset, *text, *message, *hint;
} BROKEN[] = {
    {"proteus_table5", "", "t.csv: is empty, expected a line of column names", NULL},
    {"proteus_table5", "hc,gpu\n", "t.csv:1: unknown column 'gpu'", "did you mean 'gpus'?"},
    {"proteus_table5", "hc,gpus\n", "t.csv:1: column 'global_batch' is missing", NULL},
    {"proteus_table5", PROTEUS_HEAD "HC1,8,8,8,1,1,1,2.34,2,2,\nHC1,8,8\n",
     "t.csv:3: has 3 fields, expected the 11 of the header", "is the file cut short?"},
    {"proteus_table5", PROTEUS_HEAD "HC1,8,8,8,1,one,1,2.34,2,2,\n",
     "t.csv:2: pp is 'one', expected a whole number of at least 1", NULL},
    {"fold3d_table2",
     FOLD_HEAD
     "A100,128,GPT-3 18B,256,Fold3D,PTD-P,8,2,8,4,634,1549,79.4,629.1,193.2,27.3,8.3,95.8,"
     "32.0,,30.7,0.966,100.2,\n",
     "t.csv:2: total_ms is '', expected a number above 0 and up to 1e12", NULL},
    {"fold3d_table2",
     FOLD_HEAD "A100,0,GPT-3 18B,256,Fold3D,PTD-P,8,2,8,4,634,1549,79.4,629.1,193.2,27.3,8.3,95.8,"
               "32.0,3084.7,30.7,0.966,100.2,\n",
     "t.csv:2: n_gpus is '0', expected a whole number of at least 1", NULL},
};

static void damaged_files_are_explained(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(BROKEN); i++) {
        struct published_rows rows = {0};
        char *text = arena_copy_text(arena, BROKEN[i].text);
        weft_status status =
            published_parse(arena, dataset_find(known_sources(), BROKEN[i].dataset), "t.csv", text,
                            strlen(text), &rows);
        assert_int_equal(status, WEFT_BAD_INPUT);
        assert_string_equal(weft_last_error()->message, BROKEN[i].message);
        if (BROKEN[i].hint)
            assert_string_equal(weft_last_error()->hint, BROKEN[i].hint);
    }
}

/* One field of a good row at a time, in the common columns. */
static void damaged_runs_are_explained(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *message;
    } CASES[] = {
        {",A100,64,8,", ",A100,many,8,",
         "t.csv:2: gpus is 'many', expected a whole number of at least 1"},
        {",fp16,,3.6383,", ",fp16,,-1,",
         "t.csv:2: iter_time_s is '-1', expected a number above 0 and up to 1e12"},
        {",full,0,0,fp16", ",full,yes,0,fp16", "t.csv:2: seq_parallel is 'yes', expected 0 or 1"},
        {"vtrain_multi,h3072", "vtrain,h3072",
         "t.csv:2: dataset is 'vtrain', expected vtrain_multi"},
    };
    char *good;
    size_t len;
    assert_int_equal(
        file_read(arena, WEFT_SOURCE_DIR "/data/validation/vtrain_multi.csv", 1 << 20, &good, &len),
        WEFT_OK);
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct published_rows rows = {0};
        const char *at = strstr(good, CASES[i].from);
        assert_non_null(at);
        char *text = arena_printf(arena, "%.*s%s%s", (int)(at - good), good, CASES[i].to,
                                  at + strlen(CASES[i].from));
        assert_int_equal(published_parse(arena, dataset_find(known_sources(), "vtrain_multi"),
                                         "t.csv", text, strlen(text), &rows),
                         WEFT_BAD_INPUT);
        assert_string_equal(weft_last_error()->message, CASES[i].message);
    }
}

/* ---- what is known of sources ---------------------------------------------------------------- */

#define SOURCES                                                                                    \
    "vocabulary_multiple: 128\n"                                                                   \
    "machines: {A100: {cluster: dgx-a100, devices_per_node: 8}}\n"                                 \
    "precisions: {half: fp16}\n"                                                                   \
    "searches: []\n"                                                                               \
    "datasets:\n"                                                                                  \
    "  - {name: a, summary: s, source: s, form: runs, practice: [\n"

static void damaged_sources_are_explained(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } CASES[] = {
        {"vocabulary_multiple: 0\n",
         "t.yaml:1: 'vocabulary_multiple' is '0', expected a whole number of at least 1"},
        {"machines: {A100: {cluster: dgx-a100}}\n", "t.yaml:1: 'vocabulary_multiple' is missing, "
                                                    "expected a whole number of at least 1"},
        {SOURCES "{modle: gpt2}]}\n", "t.yaml:7: 'modle' is not a known key here"},
        {SOURCES "{options: 'seq: {sequence}'}]}\n",
         "t.yaml:7: 'options' names 'sequence', which is no column of files of the form runs"},
        {SOURCES "{options: 'seq: {seq_len'}]}\n", "t.yaml:7: 'options' has a { without its }"},
        {SOURCES "{when: {gbs/replicas: 1}}]}\n",
         "t.yaml:7: 'gbs/replicas' names 'replicas', which is no column of files of the form runs"},
        {SOURCES "{when: {gbs: [1]}}]}\n", "t.yaml:7: 'gbs' is a list, expected a pattern"},
        {SOURCES "{when: gbs}]}\n",
         "t.yaml:7: 'when' is text, expected columns and their patterns"},
        {SOURCES "{policy: thrifty}]}\n",
         "t.yaml:7: 'policy' is 'thrifty', expected a policy such as mixed"},
        {SOURCES "{optimizer: madam}]}\n",
         "t.yaml:7: 'optimizer' is 'madam', expected an optimizer such as muon"},
        {SOURCES "{facts: 'host=graphs,experts'}]}\n",
         "t.yaml:7: 'facts' is 'host=graphs,experts', expected facts about software such as "
         "host=graphs"},
        {SOURCES "{recompute: half}]}\n",
         "t.yaml:7: 'recompute' is 'half', expected none, selective, full, or some of core_attn, "
         "layernorm, mla_up_proj, mlp, moe, moe_act, shared_experts, mhc"},
        {SOURCES "{recompute: full, recompute_layers: some}]}\n",
         "t.yaml:7: 'recompute_layers' is 'some', expected a whole number of at least 1"},
        {SOURCES "{also_overlap: 'tensor,words'}]}\n",
         "t.yaml:7: 'also_overlap' is 'tensor,words', expected tensor, pipeline, gradients, "
         "parameters, keys, products, experts, shared, all or none"},
        {SOURCES "{first: {}}]}\n", "t.yaml:7: 'first' is a mapping, expected a list of rules"},
        {SOURCES "]}\n  - {name: b, summary: s, source: s, form: runs, as: c}\n",
         "t.yaml:8: 'as' is 'c', which is no dataset of the form runs"},
        {SOURCES "]}\n  - {name: b, summary: s, source: s, form: rows}\n",
         "t.yaml:8: 'form' is 'rows', expected runs, fold3d, proteus or mlperf"},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        const struct sources *sources;
        assert_int_equal(
            sources_parse(arena, "t.yaml", CASES[i].text, strlen(CASES[i].text), &sources),
            WEFT_BAD_INPUT);
        assert_string_equal(weft_last_error()->message, CASES[i].message);
    }
}

/* One row under rules of its own: products, alternatives, conditions, the first of several. */
static void rules_by_hand(void **state)
{
    (void)state;
    static const char TEXT[] = SOURCES "    {model: gpt2, sizes: true, vocab: 1000, options: 'x: "
                                       "{2*hidden/heads}, k: {kv_heads|heads}'},\n"
                                       "    {first: [{when: {model: 'B*'}, refuse: never}, {when: "
                                       "{gbs/dp: '>7'}, micro_batch: '{gbs/dp/pp}'},\n"
                                       "             {refuse: never}]},\n"
                                       "    {when: {--fast: 'true', vpp: ''}, assumes: 'fast "
                                       "{model}', then: [{when: {pp: '<2'}, zero: 3}]},\n"
                                       "    {when: {case: '!(*c*)'}, refuse: never}]}\n";
    static const char ROW[] =
        "a,c,GPT,,12,2048,,16,,512,,,,A100,16,8,,,1,1,1,2,,8,,64,,1F1B,none,0,0,half,,1,,,,,,,,,"
        "\"notes {\"\"fast\"\": true}\"";
    const struct sources *sources;
    if (sources_parse(arena, "t.yaml", TEXT, strlen(TEXT), &sources))
        fail_msg("%s", weft_last_error()->message);
    struct published row = row_of_sources(sources, "a", ROW);
    assert_null(row.reason);
    assert_string_equal(row.options, "layers: 12, hidden: 2048, heads: 16, seq: 512, vocab: 1024, "
                                     "x: 256, k: 16");
    assert_string_equal(row.cluster, "dgx-a100:2x8");
    assert_string_equal(row.assumes, "fast GPT");
    assert_int_equal(row.degrees.micro_batch, 4);
    assert_int_equal(row.degrees.shard, 0);
    assert_int_equal(row.degrees.dtype, DTYPE_FP16);
}

static void unknown_names(void **state)
{
    (void)state;
    assert_null(dataset_find(known_sources(), "vtrain_mutli"));
    assert_string_equal(weft_last_error()->message, "no dataset is called 'vtrain_mutli'");
    assert_string_equal(weft_last_error()->hint, "did you mean 'vtrain_multi'?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_files_are_explained),
        cmocka_unit_test(damaged_runs_are_explained),
        cmocka_unit_test(damaged_sources_are_explained),
        cmocka_unit_test(rules_by_hand),
        cmocka_unit_test(unknown_names),
    };
    return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
