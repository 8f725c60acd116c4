/* test_import_megatron.c - plans from launch arguments as people write them: scripts are read without
 * being run, words of overlap, uneven stages, and what is wrong in them is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "made_plan.h"
#include "opened_model.h"
#include "same_plan.h"

#define SMALL                                                                                      \
    "--num-layers 8 --hidden-size 512 --num-attention-heads 8 --seq-length 128 "                   \
    "--max-position-embeddings 128 --micro-batch-size 1 --vocab-size 1000 "

static weft_status import_text(const char *text, struct opened_plan *out, struct texts *notes)
{
    struct import_input input = {
        .file = "run.sh", .text = text, .len = strlen(text), .cluster = "dgx-h100"};
    return megatron_import(arena, &input, out, notes);
}

static void scripts_are_read_without_being_run(void **state)
{
    (void)state;
    static const char SCRIPT[] =
        "#!/bin/bash\n"
        "TP=4\n"
        "PP=\"2\" # stages\n"
        "export CUDA_DEVICE_MAX_CONNECTIONS=1\n"
        "GPT_ARGS=(\n"
        "    --num-layers 8 --hidden-size=512\n"
        "    --num-attention-heads 8 --seq-length 128\n"
        "    --max-position-embeddings 256\n"
        ")\n"
        "torchrun --nproc_per_node 8 --nnodes 1 pretrain_gpt.py \\\n"
        "    ${GPT_ARGS[@]} --tensor-model-parallel-size $TP \\\n"
        "    --pipeline-model-parallel-size ${PP} --bf16 \\\n"
        "    --micro-batch-size 2 --global-batch-size 16 \\\n"
        "    --pipeline-model-parallel-layout 'E(t|)*5,t*3L' \\\n"
        "    --recompute-granularity full --recompute-method block \\\n"
        "    --recompute-num-layers 1 --tokenizer-type GPT2BPETokenizer \\\n"
        "    --data-path 0.3 a 0.7 b --lr 1e-4\n";
    struct opened_plan opened;
    struct texts notes = {0};
    if (import_text(SCRIPT, &opened, &notes) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    const struct plan *plan = opened.plan;
    assert_int_equal(plan->stages, 2);
    assert_int_equal(plan->pieces, 3);
    assert_int_equal(plan->global_batch, 16);
    assert_int_equal(plan->step_samples, 2);
    assert_int_equal(plan->dtype, DTYPE_BF16);
    assert_int_equal(plan->policy, POLICY_MIXED_FP32_GRADIENTS);
    const int64_t *layers = layers_of_parts(arena, plan);
    static const int64_t LAYERS[] = {1, 1, 1, 1, 1, 3};
    assert_memory_equal(layers, LAYERS, sizeof LAYERS);
    /* 50257 up to a multiple of 128 * 4 */
    assert_int_equal(plan->model->op[0].weight[0].operand.size[0], 50688);
    assert_int_equal(plan->model->op[0].weight[1].operand.size[0], 256);
    /* of the last part's three layers the first is recomputed */
    int64_t recomputed = 0, first = plan->part[5].first;
    for (int64_t i = 0; i < plan->part[5].count; i++)
        recomputed += plan_choice(plan, first + i)->recompute && plan->ends_layer[first + i];
    assert_int_equal(recomputed, 1);
    plan_close(&opened);
}

/* The optimizer's state and step on the host: all of it, or the fraction that is given, apart or tensor by tensor. */
static void state_on_the_host(void **state)
{
    (void)state;
    static const struct {
        const char *arguments;
        double share;
        int step;
    } ROWS[] = {
        {"--use-distributed-optimizer", 0, HOST_STEP_APART},
        {"--optimizer-cpu-offload --use-precision-aware-optimizer", 1, HOST_STEP_APART},
        {"--optimizer-cpu-offload --optimizer-offload-fraction 0.75 "
         "--overlap-cpu-optimizer-d2h-h2d",
         0.75, HOST_STEP_TENSORS},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct opened_plan opened;
        struct texts notes = {0};
        const char *text = arena_printf(arena, SMALL "--bf16 %s\n", ROWS[i].arguments);
        if (import_text(text, &opened, &notes) != WEFT_OK)
            fail_msg("%s", weft_last_error()->message);
        assert_true(opened.plan->optimizer_offload == ROWS[i].share);
        assert_int_equal(software_word(&opened.plan->software, FACT_HOST_STEP), ROWS[i].step);
        plan_close(&opened);
    }
}

/* How fp8 is scaled: by Megatron-LM's word, by its default without one, by the name of a recipe of Megatron-Bridge. */
static void recipes_of_fp8_are_read(void **state)
{
    (void)state;
    static const char DUMPED[] = "model: {num_layers: 2, hidden_size: 64, num_attention_heads: 4, "
                                 "seq_length: 32, vocab_size: 128}\n"
                                 "train: {micro_batch_size: 1}\nmixed_precision: %s\n";
    static const struct {
        const char *source, *cluster, *text;
        int recipe;
    } ROWS[] = {
        {"megatron", "dgx-h100", SMALL "--bf16 --fp8-format hybrid", RECIPE_DELAYED},
        {"megatron", "dgx-h100", SMALL "--bf16 --fp8-format hybrid --fp8-recipe tensorwise",
         RECIPE_CURRENT},
        {"megatron", "hgx-b200", SMALL "--bf16 --fp8-format hybrid --fp8-recipe tensorwise",
         RECIPE_CURRENT},
        {"megatron", "dgx-h100", SMALL "--bf16 --fp8-format e4m3 --fp8-recipe blockwise",
         RECIPE_BLOCKS},
        {"megatron", "hgx-b200", SMALL "--bf16 --fp8-format e4m3 --fp8-recipe mxfp8",
         RECIPE_BLOCKS},
        {"bridge", "dgx-h100", "bf16_with_fp8_subchannel_scaling_mixed", RECIPE_BLOCKS},
        {"bridge", "hgx-b200", "bf16_with_fp8_current_scaling_mixed", RECIPE_CURRENT},
        {"bridge", "hgx-b200", "bf16_with_mxfp8_mixed", RECIPE_BLOCKS},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct opened_plan opened;
        struct texts notes = {0};
        bool dumped = strcmp(ROWS[i].source, "bridge") == 0;
        const char *text = dumped ? arena_printf(arena, DUMPED, ROWS[i].text) : ROWS[i].text;
        struct import_input input = {
            .file = "run.sh", .cluster = ROWS[i].cluster, .text = text, .len = strlen(text)};
        if (source_find(ROWS[i].source)->read(arena, &input, &opened, &notes))
            fail_msg("%s", weft_last_error()->message);
        assert_int_equal(opened.plan->dtype, DTYPE_FP8);
        assert_int_equal(software_word(&opened.plan->software, FACT_FP8_RECIPE), ROWS[i].recipe);
        plan_close(&opened);
    }
}

/* What goes out as Megatron-Core's modules comes back; words that Weft does not have are remarked upon. */
static void modules_on_the_host_are_read(void **state)
{
    (void)state;
    struct opened_plan opened;
    struct texts notes = {0};
    const char *text =
        arena_printf(arena, SMALL "--bf16 --fine-grained-activation-offloading --offload-modules "
                                  "core_attn attn_proj fused_group_mlp\n");
    if (import_text(text, &opened, &notes) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    assert_string_equal(offload_text(arena, plan_offload_modules(opened.plan)),
                        "core_attn,attn_proj");
    assert_string_equal(
        notes.data[notes.len - 1],
        "--offload-modules fused_group_mlp: its activations stay on the device here");
    plan_close(&opened);
}

/* Rows of the table of words, one argument at a time: padded to 128 * tp, to what --make-vocab-size-divisible-by says, or
 * as --padded-vocab-size has it; a NullTokenizer adds a token. */
static void vocabularies_are_padded(void **state)
{
    (void)state;
    static const struct {
        const char *arguments;
        int64_t rows;
    } ROWS[] = {
        {"--vocab-size 1000", 1024},
        {"--vocab-size 1024", 1024},
        {"--vocab-size 1000 --tensor-model-parallel-size 8", 1024},
        {"--vocab-size 1025 --tensor-model-parallel-size 8", 2048},
        {"--vocab-size 1000 --make-vocab-size-divisible-by 300", 1200},
        {"--vocab-size 1000 --make-vocab-size-divisible-by 1", 1000},
        {"--vocab-size 1024 --tokenizer-type NullTokenizer", 1152},
        {"--vocab-size 1000 --padded-vocab-size 1040", 1040},
        {"--vocab-size 1001 --padded-vocab-size 1002 --tensor-model-parallel-size 2", 1001},
        {"--tokenizer-type GPT2BPETokenizer", 50304},
        {"--tokenizer-type BertWordPieceLowerCase --make-vocab-size-divisible-by 1", 30522},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct opened_plan opened;
        struct texts notes = {0};
        const char *text = arena_printf(arena,
                                        "pretrain_gpt.py --num-layers 2 --hidden-size 64 "
                                        "--num-attention-heads 8 --seq-length 128 "
                                        "--max-position-embeddings 128 --micro-batch-size 1 %s",
                                        ROWS[i].arguments);
        if (import_text(text, &opened, &notes) != WEFT_OK)
            fail_msg("%s: %s", ROWS[i].arguments, weft_last_error()->message);
        assert_int_equal(opened.model->op[0].weight[0].operand.size[0], ROWS[i].rows);
        plan_close(&opened);
    }
}

/* Which operators compute attention, how many keys there are, and which loss. */
static void attentions_are_told(void **state)
{
    (void)state;
    static const struct {
        const char *arguments;
        bool flash, fused_loss;
        int64_t keys; /* features of keys */
    } ROWS[] = {
        {"", true, false, 64},
        {"--cross-entropy-loss-fusion", true, true, 64},
        {"--attention-backend unfused", false, false, 64},
        {"--attention-backend local", false, false, 64},
        {"--attention-backend flash", true, false, 64},
        {"--transformer-impl local", false, false, 64},
        {"--transformer-impl local --use-flash-attn", true, false, 64},
        {"--transformer-impl local --attention-backend flash", true, false, 64},
        {"--normalization RMSNorm --swiglu --group-query-attention --num-query-groups 2", true,
         false, 16},
        {"--normalization RMSNorm --swiglu --group-query-attention", true, false, 8},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct opened_plan opened;
        struct texts notes = {0};
        const char *text =
            arena_printf(arena,
                         "pretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 8 "
                         "--seq-length 128 "
                         "--max-position-embeddings 128 --micro-batch-size 1 --vocab-size 1000 %s",
                         ROWS[i].arguments);
        if (import_text(text, &opened, &notes) != WEFT_OK)
            fail_msg("%s: %s", ROWS[i].arguments, weft_last_error()->message);
        const struct op *flash = model_op_of_kind(opened.model, OP_ATTENTION);
        const struct op *score = model_op_of_kind(opened.model, OP_SCORE);
        const struct op *plain = flash ? flash : score;
        if ((flash != NULL) != ROWS[i].flash ||
            plain->input[1].size[plain->input[1].axes - 1] != ROWS[i].keys)
            fail_msg("%s: %s attention, keys of %d", ROWS[i].arguments, flash ? "flash" : "plain",
                     (int)plain->input[1].size[plain->input[1].axes - 1]);
        const char *loss =
            opened.plan->model_options ? strstr(opened.plan->model_options, "loss: fused") : NULL;
        assert_int_equal(loss != NULL, ROWS[i].fused_loss);
        plan_close(&opened);
    }
}

/* Products beside their own collectives: with an argument of Megatron's, and of torchtitan's. */
static void products_are_told(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned overlap;
        bool told;
    } ROWS[] = {
        {SMALL "--bf16 --tensor-model-parallel-size 4 --sequence-parallel --tp-comm-overlap",
         OVERLAP_TENSOR | OVERLAP_PRODUCTS, true},
        {SMALL "--bf16 --tensor-model-parallel-size 4 --sequence-parallel", OVERLAP_TENSOR, false},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct opened_plan opened;
        struct export_result result;
        struct texts notes = {0};
        assert_int_equal(import_text(ROWS[i].text, &opened, &notes), WEFT_OK);
        assert_int_equal(opened.plan->overlap, ROWS[i].overlap);
        assert_int_equal(plan_export(arena, opened.plan, "megatron", false, &result), WEFT_OK);
        assert_int_equal(strstr(result.text, "--tp-comm-overlap") != NULL, ROWS[i].told);
        assert_non_null(strstr(result.text, "# weft: software=default\n")); /* and nothing else */
        plan_free(result.written);
        assert_int_equal(plan_export(arena, opened.plan, "galvatron", false, &result), WEFT_OK);
        assert_int_equal(result.decided.len, ROWS[i].told ? 2 : 1); /* and what else overlaps */
        assert_int_equal(result.notes.len, 2);                      /* how to start it */
        plan_free(result.written);
        plan_close(&opened);
    }
}

/* Tokens beside the other pass of a pair, and tokens that go to a device once: with Megatron's arguments. */
static void experts_are_told(void **state)
{
    (void)state;
#define MIXTURE                                                                                    \
    SMALL "--bf16 --swiglu --normalization RMSNorm --disable-bias-linear --global-batch-size 32 "  \
          "--untie-embeddings-and-output-weights --position-embedding-type rope "                  \
          "--num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 64 "
#define HIDDEN "--overlap-moe-expert-parallel-comm "
    static const struct {
        const char *text;
        bool experts, told, once, noted, shared;
    } ROWS[] = {
        {MIXTURE "--expert-model-parallel-size 2 --moe-shared-expert-intermediate-size 64 "
                 "--moe-shared-expert-overlap",
         false, false, false, false, true},
        {MIXTURE "--expert-model-parallel-size 2 --moe-shared-expert-overlap"},
        {MIXTURE HIDDEN "--expert-model-parallel-size 2 --moe-token-dispatcher-type alltoall", true,
         true, false, false},
        {MIXTURE HIDDEN "--expert-model-parallel-size 2 --moe-token-dispatcher-type flex", true,
         true, true, false},
        {MIXTURE HIDDEN "--moe-token-dispatcher-type alltoall", true, false, false, false},
        {MIXTURE "--expert-model-parallel-size 2 --moe-token-dispatcher-type flex", false, false,
         true, false},
        {MIXTURE HIDDEN "--expert-model-parallel-size 2 --moe-token-dispatcher-type alltoall "
                        "--recompute-granularity full --recompute-method uniform "
                        "--recompute-num-layers 1",
         true, false, false, true},
    };
#undef HIDDEN
#undef MIXTURE
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct opened_plan opened;
        struct export_result result;
        struct texts notes = {0};
        if (import_text(ROWS[i].text, &opened, &notes) != WEFT_OK)
            fail_msg("%s", weft_last_error()->message);
        assert_int_equal((opened.plan->overlap & OVERLAP_EXPERTS) != 0, ROWS[i].experts);
        assert_int_equal(plan_export(arena, opened.plan, "megatron", false, &result), WEFT_OK);
        assert_int_equal(strstr(result.text, "--overlap-moe-expert-parallel-comm") != NULL,
                         ROWS[i].told);
        assert_int_equal(strstr(result.text, "--moe-enable-deepep") != NULL, ROWS[i].once);
        assert_int_equal(strstr(result.text, "--moe-shared-expert-overlap") != NULL,
                         ROWS[i].shared);
        bool noted = false;
        for (size_t k = 0; k < result.decided.len; k++)
            noted |= strstr(result.decided.data[k], "full recomputation") != NULL;
        assert_int_equal(noted, ROWS[i].noted);
        plan_free(result.written);
        plan_close(&opened);
    }
}

/* Async TP is all or nothing. */
static void async_tp_is_told(void **state)
{
    (void)state;
    static const struct {
        unsigned overlap;
        const char *line;
        size_t notes; /* of one word without the other */
    } ROWS[] = {{OVERLAP_EVERY, "enable_async_tensor_parallel = true", 0},
                {OVERLAP_ALL, "enable_async_tensor_parallel = true", 1},
                {OVERLAP_PRODUCTS, "enable_async_tensor_parallel = true", 1},
                {OVERLAP_PIPELINE, "enable_async_tensor_parallel = false", 0}};
    struct model *model;
    struct cluster *cluster = open_cluster("dgx-h100");
    struct degrees d = {.tp = 8, .sequence = true};
    struct plan *plan;
    assert_int_equal(model_open("llama3-8b", NULL, &model), WEFT_OK);
    assert_int_equal(plan_from_degrees(model, cluster, &d, &plan), WEFT_OK);
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct export_result result;
        size_t found = 0;
        plan->overlap = ROWS[i].overlap;
        plan->policy = POLICY_FSDP;
        assert_int_equal(plan_export(arena, plan, "torchtitan", false, &result), WEFT_OK);
        assert_non_null(strstr(result.text, ROWS[i].line));
        for (size_t k = 0; k < result.decided.len; k++)
            found += strstr(result.decided.data[k], "async TP overlaps as") != NULL;
        assert_int_equal(found, ROWS[i].notes);
        plan_free(result.written);
    }
    plan_free(plan);
    cluster_free(cluster);
    model_free(model);
}

/* One plan, told in the ways that scripts tell it. */
static void ways_to_write_arguments_are_alike(void **state)
{
    (void)state;
    static const char *const WAYS[] = {
        SMALL "--tensor-model-parallel-size 2 --bf16",
        "TP=2\nARGS=\"" SMALL "\\\n --bf16\"\ntorchrun --nnodes=1 pretrain_gpt.py $ARGS "
        "--tensor-model-parallel-size ${TP}",
        "export ARGS=(" SMALL ") # the model\npretrain_gpt.py \"${ARGS[@]}\" "
        "--tensor-model-parallel-size='2' \\\n  --bf16 >log 2>&1 &",
        SMALL "--tensor-model-parallel-size 8 --bf16 --tensor-model-parallel-size 2",
        SMALL "--tensor-model-parallel-size \"\\2\" --bf16",
    };
    struct opened_plan first;
    struct texts notes = {0};
    assert_int_equal(import_text(WAYS[0], &first, &notes), WEFT_OK);
    for (size_t i = 1; i < COUNT_OF(WAYS); i++) {
        struct opened_plan other;
        if (import_text(WAYS[i], &other, &notes))
            fail_msg("%s: %s", WAYS[i], weft_last_error()->message);
        same_plan(first.plan, other.plan);
        plan_close(&other);
    }
    plan_close(&first);
}

/* The older ways to uneven stages, and layouts: layers of each part. */
static void stages_hold_the_layers_they_are_given(void **state)
{
    (void)state;
    static const struct {
        const char *arguments;
        int64_t pieces, layers[4];
    } CASES[] = {
        {"--pipeline-model-parallel-size 4", 1, {2, 2, 2, 2}},
        {"--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 1 "
         "--decoder-last-pipeline-num-layers 3",
         1,
         {1, 2, 2, 3}},
        {"--pipeline-model-parallel-size 2 --decoder-last-pipeline-num-layers 2 "
         "--num-virtual-stages-per-pipeline-rank 2 --global-batch-size 8",
         2,
         {3, 1, 3, 1}},
        {"--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 2 "
         "--global-batch-size 8",
         2,
         {2, 2, 2, 2}},
        {"--pipeline-model-parallel-size 2 --account-for-embedding-in-pipeline-split "
         "--account-for-loss-in-pipeline-split",
         1,
         {4, 4}},
        {"--pipeline-model-parallel-size 4 --pipeline-model-parallel-layout 'E|tttt,|t*4|L'",
         1,
         {0, 4, 4, 0}},
        {"--pipeline-model-parallel-size 2 --hybrid-layer-pattern 'M*M|M-|M*|-' "
         "--global-batch-size 8",
         2,
         {3, 2, 2, 1}},
        {"--pipeline-model-parallel-size 4 --hybrid-layer-pattern 'M*M|M-|M*|-'", 1, {3, 2, 2, 1}},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct opened_plan opened;
        struct texts notes = {0};
        const char *text = arena_printf(arena, "%s %s", SMALL, CASES[i].arguments);
        if (import_text(text, &opened, &notes))
            fail_msg("%s: %s", text, weft_last_error()->message);
        assert_int_equal(opened.plan->pieces, CASES[i].pieces);
        assert_memory_equal(layers_of_parts(arena, opened.plan), CASES[i].layers,
                            (size_t)opened.plan->parts * sizeof(int64_t));
        plan_close(&opened);
    }
}

/* What arguments come to, in words: the model by its options, the plan by its numbers, and the notes. */
static const char *told(const char *arguments)
{
    struct opened_plan opened;
    struct texts notes = {0};
    if (import_text(arguments, &opened, &notes))
        fail_msg("%s: %s", arguments, weft_last_error()->message);
    const struct plan *plan = opened.plan;
    int64_t recomputed = 0, middle = plan->instances / 2;
    for (int64_t i = 0; i < plan->instances; i++)
        recomputed += plan_choice(plan, i)->recompute;
    const char *text = arena_printf(
        arena, "%s\n  %s; %s\n  %d stages of %d pieces, %s, %lld samples by %lld, %s, %s, shard %d",
        arguments, plan->model_name, plan->model_options, (int)plan->stages, (int)plan->pieces,
        plan->schedule, (long long)plan->global_batch, (long long)plan->step_samples,
        dtype_name(plan->dtype), policy_name(plan->policy), plan_choice(plan, middle)->shard);
    text = arena_printf(arena, "%s\n  split %s, %lld recomputed, overlap %u, bucket %lld%s\n", text,
                        split_text(arena, &plan_choice(plan, middle)->split), (long long)recomputed,
                        plan->overlap, (long long)plan->bucket_bytes,
                        plan->whole_sends ? ", whole sends" : "");
    if (plan->group)
        text = arena_printf(arena, "%s  groups of %lld\n", text, (long long)plan->group);
    if (plan->defer_head)
        text = arena_printf(arena, "%s  the head waits: %lld\n", text, (long long)plan->defer_head);
    for (size_t i = 0; i < notes.len; i++)
        text = arena_printf(arena, "%s  note: %s\n", text, notes.data[i]);
    plan_close(&opened);
    return text;
}

/* Every line of the file that does not begin with a space is arguments, on dgx-h100; what
 * stands below it is what they come to. */
static void values_come_out_as_written(void **state)
{
    (void)state;
    static const char FILE_NAME[] = WEFT_SOURCE_DIR "/tests/data/import/megatron.txt";
    char *golden, *copy;
    size_t len;
    const char *now = "";
    assert_int_equal(file_read(arena, FILE_NAME, 1 << 20, &golden, &len), WEFT_OK);
    copy = arena_copy_text(arena, golden);
    for (char *rest = copy, *line; (line = strsep(&rest, "\n")) != NULL && *line;)
        if (*line == '#')
            now = arena_printf(arena, "%s%s\n", now, line);
        else if (*line != ' ')
            now = arena_printf(arena, "%s%s", now, told(line));
    if (strcmp(now, golden) != 0) {
        fputs(now, stdout);
        fail_msg("%s: arguments come to something else now, as above", FILE_NAME);
    }
}

static const struct {
    const char *text, *message, *hint;
} BROKEN[] = {
    {"", "run.sh: holds no arguments of Megatron-LM", "give those after pretrain_gpt.py"},
    {"--num-layer 8", "run.sh:1: Megatron-LM has no argument --num-layer",
     "did you mean --num-layers?"},
    {"\n--num-layers many", "run.sh:2: --num-layers is 'many', expected a whole number", NULL},
    {"--num-layers", "run.sh:1: --num-layers has no value", NULL},
    {"--num-layers $N", "run.sh:1: --num-layers is '$N', a variable that is not set here",
     "write the number: Weft does not run the script"},
    {"--num-layers 8", "run.sh: --micro-batch-size is missing, expected 1 or more", NULL},
    {"A=--bf16--bf16--bf16\nB=$A$A$A$A$A$A$A$A\nC=$B$B$B$B$B$B$B$B\nD=$C$C$C$C$C$C$C$C\n"
     "E=$D$D$D$D$D$D$D$D\nF=$E$E$E$E$E$E$E$E\nG=$F$F$F$F$F$F$F$F $G",
     "run.sh: its variables stand for more than 4194304 bytes",
     "write the arguments without variables"},
    {SMALL "--tensor-model-parallel-size 3",
     "run.sh:1: tp 3 * pp 1 * cp 1 is 3 devices, dgx-h100 has 8",
     "name a cluster with a multiple of these"},
    {SMALL "--hybrid-layer-pattern 'M*M-'", "run.sh:1: --num-layers is 8, the pattern has 4", NULL},
    {SMALL "--hybrid-layer-pattern 'M*G-M*M-'",
     "run.sh:1: --hybrid-layer-pattern is 'M*G-M*M-': expected M (state space), * (attention), - "
     "(MLP) and E (experts), which Weft's models have",
     "an example: M-M*-|M-M*-"},
    {SMALL "--hybrid-layer-pattern 'M*M-M*M-/M-/M'",
     "run.sh:1: --hybrid-layer-pattern is 'M*M-M*M-/M-/M': expected the same letters after every "
     "slash",
     "an example: M-M*-|M-M*-"},
    {SMALL "--hybrid-layer-pattern 'M*M-M*M-/M-/M*'",
     "run.sh:1: --hybrid-layer-pattern is 'M*M-M*M-/M-/M*': expected the same letters after every "
     "slash",
     "an example: M-M*-|M-M*-"},
    {SMALL "--hybrid-layer-pattern 'M*M-M*M-/M-/M-'",
     "run.sh:1: depths with weights of their own: no model of Weft has them",
     "add --mtp-use-repeated-layer"},
    {SMALL "--hybrid-layer-pattern 'M*M-M*M-' --mamba-head-dim 0",
     "run.sh:1: state space of 0 heads, state 128 and 8 groups, expected 1 or more of each", NULL},
    {SMALL "--pipeline-model-parallel-size 2 --hybrid-layer-pattern 'M*M|-M*|M-'",
     "run.sh:1: --hybrid-layer-pattern is 'M*M|-M*|M-': the number of parts is no multiple of the "
     "pipeline's size",
     "an example: M-M*-|M-M*-"},
    {SMALL "--quick-geglu", "run.sh:1: --quick-geglu with LayerNorm: no model of Weft has it",
     NULL},
    {SMALL "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et*3|t*4L'",
     "run.sh:1: --pipeline-model-parallel-layout is 'Et*3|t*4L': its layers are not --num-layers "
     "many",
     "an example: Et*3|(tt|)*29,L"},
    {SMALL "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et*3|(t*5L'",
     "run.sh:1: --pipeline-model-parallel-layout is 'Et*3|(t*5L': expected E, t, L and | with "
     "(...)*n and x*n",
     "an example: Et*3|(tt|)*29,L"},
    {SMALL "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'E((t|)*2t)*2L'",
     "run.sh:1: --pipeline-model-parallel-layout is 'E((t|)*2t)*2L': expected E, t, L and | with "
     "(...)*n and x*n",
     "an example: Et*3|(tt|)*29,L"},
    {SMALL "--normalization RMSNorm --swiglu --num-experts 4 --moe-layer-freq '([0]*3+[1]*5'",
     "run.sh:1: --moe-layer-freq is '([0]*3+[1]*5', expected a list of 8 zeros and ones, or a "
     "number",
     "an example: ([0]*3+[1]*58)"},
    {SMALL "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'E|t*8m|L|'",
     "run.sh:1: --pipeline-model-parallel-layout is 'E|t*8m|L|': expected one E in front and one L "
     "at the end",
     "an example: Et*3|(tt|)*29,L"},
    {SMALL "--pipeline-model-parallel-size 4 --normalization RMSNorm --swiglu --mtp-num-layers 1 "
           "--pipeline-model-parallel-layout 'Et*3|t*5|m|L'",
     "run.sh:1: --pipeline-model-parallel-layout is 'Et*3|t*5|m|L': layers that predict more "
     "tokens (m) are only supported directly in front of the L",
     "the nearest of the same model: Et*3|t*4|t|mL"},
    {SMALL "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et*99999999|L'",
     "run.sh:1: --pipeline-model-parallel-layout is 'Et*99999999|L': expected E, t, L and | with "
     "(...)*n and x*n",
     "an example: Et*3|(tt|)*29,L"},
    {SMALL "--recompute-granularity full",
     "run.sh:1: --recompute-granularity full needs a method, uniform or block",
     "add --recompute-method"},
    {SMALL "--normalization RMSNorm --swiglu --num-experts 4 --moe-layer-freq '([0]*3+[1]*4)'",
     "run.sh:1: --moe-layer-freq is '([0]*3+[1]*4)', expected a list of 8 zeros and ones, or a "
     "number",
     "an example: ([0]*3+[1]*58)"},
    {SMALL "--normalization RMSNorm --swiglu --num-experts 4 --moe-layer-freq '[1]*4+[0]*4'",
     "run.sh:1: --moe-layer-freq is '[1]*4+[0]*4', which is no run of dense layers followed by a "
     "mixture in every N-th",
     NULL},
    {SMALL "--normalization RMSNorm --swiglu --num-experts 4 --moe-layer-freq 2", /* 1010... */
     "run.sh:1: --moe-layer-freq is '2', which is no run of dense layers followed by a mixture in "
     "every N-th",
     NULL},
    {SMALL "--normalization RMSNorm --swiglu --experimental-attention-variant gated_delta_net "
           "--linear-attention-freq '[1]*3+[0]+[1]*2+[0]*2'",
     "run.sh:1: --linear-attention-freq is '[1]*3+[0]+[1]*2+[0]*2', expected a list in which every "
     "N-th layer, and no other, is a 0, or that number",
     "an example: ([1]*3+[0])*12"},
    {SMALL "--normalization RMSNorm --swiglu --experimental-attention-variant gated_delta_net",
     "run.sh:1: --linear-attention-freq is missing: gated_delta_net needs it",
     "add --linear-attention-freq"},
    {SMALL "--normalization RMSNorm --swiglu --experimental-attention-variant gated_delta_net "
           "--linear-attention-freq 4 --linear-num-value-heads 0",
     "run.sh:1: --linear-num-value-heads is 0, expected a whole number of at least 1", NULL},
    {SMALL "--normalization RMSNorm --swiglu --experimental-attention-variant dsa",
     "run.sh:1: dsa without latent attention: no model of Weft has it",
     "add --multi-latent-attention and --q-lora-rank"},
    {SMALL "--normalization RMSNorm --swiglu --experimental-attention-variant dsa "
           "--multi-latent-attention --q-lora-rank 64 --dsa-indexer-topk 16",
     "run.sh:1: --dsa-indexer-n-heads is missing, expected a whole number of at least 1", NULL},
    {SMALL "--normalization RMSNorm --swiglu --no-rope-freq 4 --window-size 15,0 "
           "--window-attn-skip-freq 2",
     "run.sh:1: --no-rope-freq 4 beside another --window-attn-skip-freq: no model of Weft has both",
     NULL},
    {"--num-layers 8 --hidden-size 512 --num-attention-heads 8 --seq-length 128 "
     "--max-position-embeddings 127 --micro-batch-size 1 --vocab-size 1000",
     "run.sh:1: --max-position-embeddings is 127, expected at least --seq-length, 128", NULL},
    {SMALL "\n# weft: overlap=everything",
     "run.sh: 'overlap=everything' is no setting of Weft, expected overlap=..., bucket=..., "
     "software=..., whole_sends=..., dtype=..., policy=... or memory=...",
     "leave the line as `weft export` wrote it, or out"},
};

/* A configuration that Megatron-Bridge dumps is the plan of the arguments it stands for. */
static void dumped_configurations_are_arguments(void **state)
{
    (void)state;
    static const char PATH[] = WEFT_SOURCE_DIR "/fuzz/corpus/import/bridge.yaml";
    static const char ARGUMENTS[] =
        "--num-layers 8 --hidden-size 512 --ffn-hidden-size 960 --num-attention-heads 8 "
        "--group-query-attention --num-query-groups 2 --kv-channels 64 --seq-length 128 "
        "--vocab-size 999 --make-vocab-size-divisible-by 1 --normalization RMSNorm --swiglu "
        "--disable-bias-linear --untie-embeddings-and-output-weights --hidden-dropout 0.0 "
        "--position-embedding-type rope --rotary-base 500 --tensor-model-parallel-size 2 "
        "--sequence-parallel --pipeline-model-parallel-size 2 "
        "--num-virtual-stages-per-pipeline-rank 2 --recompute-granularity full "
        "--recompute-method uniform --recompute-num-layers 1 --micro-batch-size 2 "
        "--global-batch-size 32 --use-distributed-optimizer --overlap-grad-reduce "
        "--overlap-param-gather --bf16";
    struct opened_plan dumped, given;
    struct texts notes = {0}, differences = {0};
    struct import_input input = {.file = PATH, .cluster = "dgx-h100"};
    char *text;
    assert_int_equal(file_read(arena, PATH, 1 << 20, &text, &input.len), WEFT_OK);
    input.text = text;
    assert_ptr_equal(source_of_text(text), source_find("bridge"));
    assert_ptr_equal(source_of_text(ARGUMENTS), source_find("megatron"));
    assert_null(source_of_text("model: gpt3-13b\ncluster: dgx-a100\ndegrees: {tp: 8}\n"));
    if (source_find("bridge")->read(arena, &input, &dumped, &notes))
        fail_msg("%s", weft_last_error()->message);
    assert_int_equal(import_text(ARGUMENTS, &given, &notes), WEFT_OK);
    assert_null(model_difference(arena, dumped.model, given.model));
    plan_differences(arena, dumped.plan, given.plan, &differences);
    assert_int_equal(differences.len, 0);
    assert_string_equal(settings_text(arena, dumped.plan, given.plan), "");
    plan_close(&dumped);
    plan_close(&given);
}

/* Each renamed field is the argument it stands for, and no other one. */
static void dumped_ends_of_the_pipeline(void **state)
{
    (void)state;
    static const char DUMPED[] =
        "model: {num_layers: 8, hidden_size: 512, num_attention_heads: 8, seq_length: 128, "
        "vocab_size: 1024, tensor_model_parallel_size: 2, pipeline_model_parallel_size: 4, "
        "num_layers_in_first_pipeline_stage: 3, num_layers_in_last_pipeline_stage: 1, "
        "pipeline_dtype: bf16}\n"
        "train: {micro_batch_size: 1, global_batch_size: 16}\n"
        "mixed_precision: bf16_mixed\n";
    struct opened_plan dumped;
    struct texts notes = {0};
    struct import_input input = {
        .file = "b.yaml", .cluster = "dgx-h100", .text = DUMPED, .len = strlen(DUMPED)};
    if (source_find("bridge")->read(arena, &input, &dumped, &notes))
        fail_msg("%s", weft_last_error()->message);
    static const int64_t LAYERS[] = {3, 2, 2, 1};
    for (int32_t s = 0; s < 4; s++) {
        const struct part *part = &dumped.plan->part[s];
        int64_t layers = 0;
        for (int64_t i = part->first; i < part->first + part->count; i++)
            layers += dumped.plan->ends_layer[i];
        assert_int_equal(layers, LAYERS[s]);
    }
    plan_close(&dumped);
}

/* Positions that are stretched, by arguments and as Megatron-Bridge dumps them; latent attention has yarn of the factor 1. */
static void stretched_positions_are_imported(void **state)
{
    (void)state;
#define DECODER                                                                                    \
    SMALL " --normalization RMSNorm --swiglu --disable-bias-linear --position-embedding-type "
    static const struct {
        const char *text;
        double factor;
        enum rope_kind kind;
        int64_t learned;
        double mscale;
    } ROWS[] = {
        {DECODER "rope", 0},
        {DECODER "rope --use-rope-scaling --rope-scaling-factor 32", 32, ROPE_LLAMA3},
        {DECODER "rope --rotary-seq-len-interpolation-factor 2", 2, ROPE_LINEAR},
        {DECODER "yarn --rotary-scaling-factor 4", 4, ROPE_YARN, 4096},
        {DECODER "yarn --rotary-scaling-factor 4 --yarn-original-max-position-embeddings 999 "
                 "--no-yarn-correction-range-round-to-int",
         4, ROPE_YARN_UNROUNDED, 999},
        {DECODER "rope --multi-latent-attention", 0},
        {DECODER "rope --multi-latent-attention --rotary-scaling-factor 40 --mscale 1 "
                 "--mscale-all-dim 1",
         40, ROPE_YARN, 4096, 1},
        {DECODER "rope --multi-latent-attention --rotary-scaling-factor 40 --rope-type rope", 0},
    };
#undef DECODER
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct opened_plan opened;
        struct texts notes = {0};
        if (import_text(ROWS[i].text, &opened, &notes))
            fail_msg("%s", weft_last_error()->message);
        const struct op *rotary = model_op_of_kind(opened.model, OP_ROTARY);
        assert_true(rotary->rope_scaling == ROWS[i].factor);
        assert_int_equal(rotary->stretch.kind, ROWS[i].kind);
        if (ROWS[i].learned)
            assert_int_equal(rotary->stretch.learned, ROWS[i].learned);
        assert_true(rotary->stretch.mscale == ROWS[i].mscale);
        plan_close(&opened);
    }
}

/* How wide an MLP is, and what its gate does: Megatron-LM makes it narrower for SwiGLU alone where no width is given. */
static void an_mlp_has_the_width_of_megatron(void **state)
{
    (void)state;
#define DECODER SMALL "--normalization RMSNorm --disable-bias-linear "
    static const struct {
        const char *text;
        int64_t width;
        int gate; /* -1: none */
    } ROWS[] = {
        {SMALL, 2048, -1},                   /* 4 * 512 */
        {SMALL "--swiglu", 1344, GATE_SILU}, /* 8 / 3 * 512 = 1365.3, and 21 * 64 = 1344 */
        {DECODER, 2048, -1},
        {DECODER "--squared-relu", 2048, -1},
        {DECODER "--swiglu", 1344, GATE_SILU},
        {DECODER "--quick-geglu", 2048, GATE_CLAMPED},
        {DECODER "--quick-geglu --ffn-hidden-size 640", 640, GATE_CLAMPED},
        {DECODER "--swiglu --ffn-hidden-size 640", 640, GATE_SILU},
    };
#undef DECODER
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct opened_plan opened;
        struct texts notes = {0};
        if (import_text(ROWS[i].text, &opened, &notes))
            fail_msg("%s", weft_last_error()->message);
        const struct op *gated = model_op_of_kind(opened.model, OP_GATED);
        assert_int_equal(gated ? (int)gated->gate : -1, ROWS[i].gate);
        const struct op *down = find_op(opened.model, "layers.0.mlp.down");
        assert_int_equal(down->size[op_find_dim(OP_LINEAR, DIM_IN)], ROWS[i].width);
        plan_close(&opened);
    }
}

/* Where the user names the model, the arguments say nothing else of its sizes. */
static void a_named_model_has_the_sizes_that_are_said(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message, *note;
    } ROWS[] = {
        {"--num-layers 80 --micro-batch-size 1", "run.sh:1: --num-layers is 80, llama3-8b has 32",
         NULL},
        {"--num-layers 32\n--hidden-size 8192 --micro-batch-size 1",
         "run.sh:2: --hidden-size is 8192, llama3-8b has 4096", NULL},
        {"--num-layers 32 --hidden-size 4096 --seq-length 8192 --micro-batch-size 1", NULL, NULL},
        {"--micro-batch-size 1 --vocab-size 128256 --seq-length 4096", NULL,
         "--seq-length is 4096: llama3-8b with its 8192 is taken; --set changes it"},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct opened_plan opened;
        struct texts notes = {0};
        struct import_input input = {.file = "run.sh",
                                     .text = ROWS[i].text,
                                     .len = strlen(ROWS[i].text),
                                     .model = "llama3-8b",
                                     .cluster = "dgx-h100"};
        weft_status status = megatron_import(arena, &input, &opened, &notes);
        assert_int_equal(status, ROWS[i].message ? WEFT_BAD_INPUT : WEFT_OK);
        if (status) {
            assert_string_equal(weft_last_error()->message, ROWS[i].message);
            continue;
        }
        assert_int_equal(notes.len, ROWS[i].note != NULL);
        if (ROWS[i].note)
            assert_string_equal(notes.data[0], ROWS[i].note);
        plan_close(&opened);
    }
}

static void wrong_arguments_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(BROKEN); i++) {
        struct opened_plan opened;
        struct texts notes = {0};
        assert_int_equal(import_text(BROKEN[i].text, &opened, &notes), WEFT_BAD_INPUT);
        assert_string_equal(weft_last_error()->message, BROKEN[i].message);
        if (BROKEN[i].hint)
            assert_string_equal(weft_last_error()->hint, BROKEN[i].hint);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scripts_are_read_without_being_run),
        cmocka_unit_test(products_are_told),
        cmocka_unit_test(stretched_positions_are_imported),
        cmocka_unit_test(state_on_the_host),
        cmocka_unit_test(recipes_of_fp8_are_read),
        cmocka_unit_test(modules_on_the_host_are_read),
        cmocka_unit_test(vocabularies_are_padded),
        cmocka_unit_test(attentions_are_told),
        cmocka_unit_test(experts_are_told),
        cmocka_unit_test(async_tp_is_told),
        cmocka_unit_test(ways_to_write_arguments_are_alike),
        cmocka_unit_test(stages_hold_the_layers_they_are_given),
        cmocka_unit_test(values_come_out_as_written),
        cmocka_unit_test(dumped_configurations_are_arguments),
        cmocka_unit_test(dumped_ends_of_the_pipeline),
        cmocka_unit_test(an_mlp_has_the_width_of_megatron),
        cmocka_unit_test(a_named_model_has_the_sizes_that_are_said),
        cmocka_unit_test(wrong_arguments_are_named),
    };
    return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
