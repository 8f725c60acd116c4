/* test_export.c - plans in the words of other frameworks: degrees are found in every plan that has
 * them, what is written reads back as the same plan, other programs accept it, and what cannot be
 * expressed is named. */
#include "one_arena.h"
#include "program.h"
#include "random_plan.h"
#include "report/export_room.h"
#include "report/report.h"

#include <sys/stat.h>
#include <unistd.h>

#define EXPORTED WEFT_SOURCE_DIR "/tests/data/export/"

/* ---- degrees --------------------------------------------------------------------------------- */

static const char *const ALL_SCHEDULES[] = {"1f1b", "interleaved", "gpipe", "aiao", "zb-h1", NULL};
static const struct abilities ALL = {.tp = true,
                                     .pp = true,
                                     .cp = true,
                                     .ep = true,
                                     .pieces = true,
                                     .uneven = true,
                                     .block = true,
                                     .sequence = true,
                                     .plain = true,
                                     .selective = true,
                                     .offload = true,
                                     .folds = true,
                                     .products = true,
                                     .shards = 15,
                                     .schedules = ALL_SCHEDULES};

static struct plan *draw_legal(struct rng *rng, const struct model *model,
                               const struct cluster *cluster)
{
    struct plan *plan = NULL;
    while (!plan)
        if (draw_degrees(rng, model, cluster, &plan) == WEFT_OK && plan_check(plan) != WEFT_OK) {
            plan_free(plan);
            plan = NULL;
        }
    return plan;
}

/* Recut at random layers, and with the first layers of each part recomputed: what a layout string
 * and --recompute-method block say. */
static void draw_uneven(struct rng *rng, struct plan **plan)
{
    struct degrees d;
    struct recognised r;
    int64_t layers = 0;
    assert_int_equal(degrees_of_plan(arena, *plan, &ALL, "test", false, &r), WEFT_OK);
    d = r.degrees;
    plan_free(r.plan);
    layers_of_instances(arena, *plan, &layers);
    if (d.pp == 1 || layers < (*plan)->parts)
        return;
    int64_t *part = ARENA_ARRAY(arena, int64_t, (size_t)(*plan)->parts);
    for (int32_t p = 0; p < (*plan)->parts; p++)
        part[p] = 1;
    for (int64_t left = layers - (*plan)->parts; left > 0; left--)
        part[rng_below(rng, (*plan)->parts)]++;
    struct plan *uneven = NULL;
    int64_t block = chance(rng, 2) ? 1 : 0;
    d.recompute = block ? RECOMPUTE_FULL : d.recompute;
    assert_int_equal(plan_of_degrees((*plan)->model, (*plan)->cluster, &d, part, block, &uneven),
                     WEFT_OK);
    plan_free(*plan);
    *plan = uneven;
}

static void degrees_are_found_in_plans_that_have_them(void **state)
{
    (void)state;
    static const char *const CLUSTERS[] = {"dgx-a100:1x4", "dgx-a100", "dgx-a100:2x6"};
    struct rng rng;
    rng_seed(&rng, 7);
    for (int round = 0; round < rounds_of(300); round++) {
        struct model *model = open_small(&SMALL_MODELS[rng_below(&rng, SMALL_MODEL_COUNT)]);
        struct cluster *cluster = open_named(CLUSTERS[rng_below(&rng, COUNT_OF(CLUSTERS))]);
        struct plan *plan = draw_legal(&rng, model, cluster);
        struct recognised r;
        if (chance(&rng, 2))
            draw_uneven(&rng, &plan);
        assert_int_equal(degrees_of_plan(arena, plan, &ALL, "test", false, &r), WEFT_OK);
        if (r.differences.len)
            fail_msg("%s: %s", model->family, r.differences.data[0]);
        plan_free(r.plan);
        plan_free(plan);
        cluster_free(cluster);
        model_free(model);
    }
}

/* Whatever the plan: what is written is legal, and is called exact exactly when it is. */
static void nearest_plans_are_legal_and_honest(void **state)
{
    (void)state;
    struct rng rng;
    int exact = 0, near = 0, refused = 0;
    rng_seed(&rng, 11);
    for (int round = 0; round < rounds_of(150); round++) {
        struct model *model = open_small(&SMALL_MODELS[rng_below(&rng, SMALL_MODEL_COUNT)]);
        struct cluster *cluster = open_named("dgx-a100");
        struct plan *plan = random_plan(&rng, model, cluster);
        for (size_t t = 0; t < target_count(); t++) {
            struct export_result result;
            struct texts differences = {0};
            weft_status status = plan_export(arena, plan, target_at(t), true, &result);
            assert_int_not_equal(status, WEFT_FAILURE);
            if (status) {
                refused++;
                continue;
            }
            assert_non_null(result.text);
            if (plan_check(result.written))
                fail_msg("%s: %s", target_name(target_at(t)), weft_last_error()->message);
            plan_differences(arena, plan, result.written, &differences);
            if (differences.len)
                assert_true(result.differences.len > 0);
            *(result.differences.len ? &near : &exact) += 1;
            bool policy_only = result.differences.len && !differences.len;
            if (policy_only)
                assert_int_not_equal(plan->policy, result.written->policy);
            plan_free(result.written);
        }
        plan_free(plan);
        cluster_free(cluster);
        model_free(model);
    }
    print_message("%d exact, %d nearest, %d without words for the model\n", exact, near, refused);
    assert_true(exact > 0 && near > 0);
}

/* ---- Megatron -------------------------------------------------------------------------------- */

/* Every argument of an exported text is one that Megatron knows, with a value of its type. */
static void check_flags(const char *text)
{
    char *copy = arena_copy_text(arena, text), *line, *rest = copy;
    int found = 0;
    while ((line = strsep(&rest, "\n")) != NULL) {
        line += strspn(line, " ");
        if (strncmp(line, "--", 2) != 0)
            continue;
        char *value = strchr(line, ' ');
        int64_t whole;
        double real;
        if (value)
            *value++ = '\0';
        enum flag_type type = megatron_flag(line + 2);
        if (type == FLAG_UNKNOWN || (type == FLAG_SWITCH) != (value == NULL) ||
            (type == FLAG_INT && !parse_int(value, &whole)) ||
            (type == FLAG_REAL && !parse_real(value, &real)))
            fail_msg("%s %s", line, value ? value : "");
        found++;
    }
    assert_true(found > 10);
}

static void same_prediction(const struct plan *a, const struct plan *b)
{
    struct simulate_options options = {.fold = FOLD_AUTO};
    struct prediction *x, *y;
    assert_int_equal(simulate(a, &options, &x), WEFT_OK);
    assert_int_equal(simulate(b, &options, &y), WEFT_OK);
    assert_int_equal(x->iteration_ns, y->iteration_ns);
    for (int32_t s = 0; s < a->stages; s++)
        assert_int_equal(x->stage[s].memory.peak, y->stage[s].memory.peak);
    prediction_free(x);
    prediction_free(y);
}

/* Plans that agree in all of this are simulated alike (sim.h, I2). */
static void same_plan(const struct plan *a, const struct plan *b)
{
    struct texts differences = {0};
    const char *model = model_difference(arena, a->model, b->model);
    if (model)
        fail_msg("%s", model);
    plan_differences(arena, a, b, &differences);
    if (differences.len)
        fail_msg("%s", differences.data[0]);
    assert_string_equal(settings_text(arena, a, b), "");
}

struct tally {
    int rows, plain, beside, refused;
};

static void round_trip(struct published *row, struct tally *tally)
{
    enum { SIMULATED = 4 }; /* one in so many */
    struct opened_plan opened, again;
    struct export_result result;
    struct texts notes = {0};
    assert_int_equal(published_plan(arena, row, &opened), WEFT_OK);
    if (!opened.plan)
        return;
    tally->rows++;
    weft_status status = plan_export(arena, opened.plan, target_find("megatron"), false, &result);
    if (status) {
        const char *why = weft_last_error()->message;
        assert_int_equal(status, WEFT_BAD_INPUT);
        if (!strstr(why, "schedule aiao: megatron does not know it") &&
            !strstr(why, "recomputation of all but products: megatron recomputes whole layers") &&
            !strstr(why, "family hybrid, for which there are no launch arguments"))
            fail_msg("%s: %s", row->name, why);
        tally->refused++;
        plan_close(&opened);
        return;
    }
    check_flags(result.text);
    struct import_input input = {.file = row->name,
                                 .text = result.text,
                                 .len = strlen(result.text),
                                 .cluster = row->cluster};
    if (megatron_import(arena, &input, &again, &notes) != WEFT_OK)
        fail_msg("%s: %s", row->name, weft_last_error()->message);
    same_plan(opened.plan, again.plan);
    *(strstr(result.text, "# weft") ? &tally->beside : &tally->plain) += 1;
    if (row->line % SIMULATED == 0)
        same_prediction(opened.plan, again.plan);
    plan_free(result.written);
    plan_close(&again);
    plan_close(&opened);
}

/* How many rows of a dataset a plan can express, and of these: told by arguments alone, with what
 * Megatron has no argument for in a comment, and not at all. */
static const struct {
    const char *dataset;
    struct tally tally;
} TRIPS[] = {
    {"megatron_sc21_table1", {4, 1, 3, 0}}, {"megatron_seqsel_table5", {3, 3, 0, 0}},
    {"megatron_core_h100", {5, 2, 3, 0}},   {"vtrain_multi", {41, 3, 38, 0}},
    {"vtrain_single", {201, 84, 117, 0}},   {"simumax_b200", {20, 3, 17, 0}},
    {"torchtitan", {15, 0, 12, 3}},         {"weft_h200", {39, 0, 39, 0}},
    {"llm_foundry_fsdp", {70, 0, 70, 0}},   {"megatron_bridge", {14, 8, 0, 6}},
    {"megatron_golden", {136, 131, 0, 5}},  {"fold3d_table2", {14, 3, 7, 4}},
    {"fold3d_table3", {9, 3, 4, 2}},        {"proteus_table5", {13, 8, 5, 0}},
};

static void published_plans_come_back_from_megatron(void **state)
{
    (void)state;
    struct tally all = {0};
    const struct dataset *datasets;
    assert_int_equal(published_datasets(&datasets), COUNT_OF(TRIPS));
    for (size_t d = 0; d < COUNT_OF(TRIPS); d++) {
        struct published_rows rows = {0};
        struct tally tally = {0};
        assert_int_equal(published_read(arena, &datasets[d], &rows), WEFT_OK);
        for (size_t i = 0; i < rows.len; i++)
            round_trip(&rows.data[i], &tally);
        print_message("%-24s %3d rows: %3d by arguments, %3d with a comment, %3d not\n",
                      datasets[d].name, tally.rows, tally.plain, tally.beside, tally.refused);
        assert_string_equal(TRIPS[d].dataset, datasets[d].name);
        assert_memory_equal(&TRIPS[d].tally, &tally, sizeof tally);
        all.rows += tally.rows;
        all.plain += tally.plain;
        all.beside += tally.beside;
    }
    print_message("%d of %d come back as they were, %d of them by arguments alone\n",
                  all.plain + all.beside, all.rows, all.plain);
}

/* Runs of a framework, written for that framework again. */
static const struct {
    const char *dataset, *target;
    int rows; /* all of them exactly */
} HOMES[] = {
    {"torchtitan", "torchtitan", 15},    {"llm_foundry_fsdp", "fsdp", 70},
    {"weft_h200", "fsdp", 39},           {"vtrain_multi", "deepspeed", 41},
    {"vtrain_single", "deepspeed", 201}, {"megatron_golden", "slurm", 131},
};

static void published_plans_fit_their_own_frameworks(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT_OF(HOMES); k++) {
        struct published_rows rows = {0};
        int planned = 0;
        assert_int_equal(published_read(arena, dataset_find(HOMES[k].dataset), &rows), WEFT_OK);
        for (size_t i = 0; i < rows.len; i++) {
            struct opened_plan opened;
            struct export_result result;
            assert_int_equal(published_plan(arena, &rows.data[i], &opened), WEFT_OK);
            if (!opened.plan)
                continue;
            if (strcmp(opened.plan->model->family, "hybrid") == 0) { /* refused, as above */
                plan_close(&opened);
                continue;
            }
            if (plan_export(arena, opened.plan, target_find(HOMES[k].target), false, &result))
                fail_msg("%s: %s", rows.data[i].name, weft_last_error()->message);
            plan_free(result.written);
            plan_close(&opened);
            planned++;
        }
        assert_int_equal(planned, HOMES[k].rows);
    }
}

/* ---- arguments that people write ------------------------------------------------------------- */

#define SMALL                                                                                      \
    "--num-layers 8 --hidden-size 512 --num-attention-heads 8 --seq-length 128 "                   \
    "--max-position-embeddings 128 --micro-batch-size 1 --vocab-size 1000 "

static weft_status import_text(const char *text, struct opened_plan *out, struct texts *notes)
{
    struct import_input input = {
        .file = "run.sh", .text = text, .len = strlen(text), .cluster = "dgx-a100"};
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
    assert_int_equal(plan->batch_per_step, 2);
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
        assert_int_equal(plan_export(arena, opened.plan, target_find("megatron"), false, &result),
                         WEFT_OK);
        assert_int_equal(strstr(result.text, "--tp-comm-overlap") != NULL, ROWS[i].told);
        assert_null(strstr(result.text, "# weft"));
        plan_free(result.written);
        assert_int_equal(plan_export(arena, opened.plan, target_find("galvatron"), false, &result),
                         WEFT_OK);
        assert_int_equal(result.notes.len, ROWS[i].told ? 2 : 1); /* and how to start it */
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
        bool experts, told, once, noted;
    } ROWS[] = {
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
        assert_int_equal(plan_export(arena, opened.plan, target_find("megatron"), false, &result),
                         WEFT_OK);
        assert_int_equal(strstr(result.text, "--overlap-moe-expert-parallel-comm") != NULL,
                         ROWS[i].told);
        assert_int_equal(strstr(result.text, "--moe-enable-deepep") != NULL, ROWS[i].once);
        bool noted = false;
        for (size_t k = 0; k < result.notes.len; k++)
            noted |= strstr(result.notes.data[k], "full recomputation") != NULL;
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
    struct cluster *cluster = open_named("dgx-h100");
    struct degrees d = {.tp = 8, .sequence = true};
    struct plan *plan;
    assert_int_equal(model_open("llama3-8b", NULL, &model), WEFT_OK);
    assert_int_equal(plan_from_degrees(model, cluster, &d, &plan), WEFT_OK);
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct export_result result;
        size_t found = 0;
        plan->overlap = ROWS[i].overlap;
        assert_int_equal(plan_export(arena, plan, target_find("torchtitan"), false, &result),
                         WEFT_OK);
        assert_non_null(strstr(result.text, ROWS[i].line));
        for (size_t k = 0; k < result.notes.len; k++)
            found += strstr(result.notes.data[k], "async TP overlaps as") != NULL;
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

static const struct {
    const char *text, *message, *hint;
} BROKEN[] = {
    {"", "run.sh: holds no arguments of Megatron-LM", "give those behind pretrain_gpt.py"},
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
     "run.sh:1: tp 3 * pp 1 * cp 1 is 3 devices, dgx-a100 has 8",
     "name a cluster with a multiple of these"},
    {SMALL "--hybrid-layer-pattern 'M*M-'",
     "run.sh:1: --hybrid-layer-pattern: layers by a pattern are not read from arguments",
     "write a model file of the family hybrid"},
    {SMALL "--swiglu",
     "run.sh:1: --swiglu with LayerNorm: Weft's models have RMSNorm with SwiGLU, or neither", NULL},
    {SMALL "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et*3|t*4L'",
     "run.sh:1: --pipeline-model-parallel-layout is 'Et*3|t*4L': its layers are not --num-layers "
     "many",
     "an example: Et*3|(tt|)*29,L"},
    {SMALL "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et*3|(t*5L'",
     "run.sh:1: --pipeline-model-parallel-layout is 'Et*3|(t*5L': expected E, t, L and | with "
     "(...)*n and x*n",
     "an example: Et*3|(tt|)*29,L"},
    {SMALL "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'E|t*8m|L|'",
     "run.sh:1: --pipeline-model-parallel-layout is 'E|t*8m|L|': Weft has no multi-token "
     "prediction layers (m)",
     "an example: Et*3|(tt|)*29,L"},
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
    {SMALL "\n# weft: overlap=everything",
     "run.sh: 'overlap=everything' is no setting of Weft, expected overlap=..., bucket=..., "
     "whole_sends=..., dtype=..., policy=... or memory=...",
     "leave the line as `weft export` wrote it, or out"},
};

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

/* ---- Galvatron ------------------------------------------------------------------------------- */

static int64_t divisor_of(struct rng *rng, int64_t n)
{
    return chance(rng, 3) ? 1 : factor_of(rng, n);
}

static struct galvatron draw_config(struct rng *rng, const struct model *model, int64_t layers,
                                    int64_t devices)
{
    struct galvatron c = {.layers = layers, .chunks = 1 + rng_below(rng, 4)};
    static const int DEFAULTS[] = {0, 2};
    (void)model;
    do
        c.pp = divisor_of(rng, devices);
    while (c.pp > layers);
    size_t count = (size_t)layers;
    c.global_batch = devices * c.chunks;
    c.tp = ARENA_ARRAY(arena, int64_t, count);
    c.consecutive = ARENA_ARRAY(arena, bool, count);
    c.sharded = ARENA_ARRAY(arena, bool, count);
    c.checkpointed = ARENA_ARRAY(arena, bool, count);
    c.division = ARENA_ARRAY(arena, int64_t, (size_t)c.pp);
    for (int64_t i = 0; i < layers; i++) {
        c.tp[i] = divisor_of(rng, devices / c.pp);
        c.consecutive[i] = chance(rng, 2);
        c.sharded[i] = chance(rng, 2);
        c.checkpointed[i] = chance(rng, 2);
        c.division[i < c.pp ? i : rng_below(rng, c.pp)]++;
    }
    c.vocab_tp = divisor_of(rng, devices / c.pp);
    c.vocab_sharded = chance(rng, 2);
    c.default_shard = DEFAULTS[rng_below(rng, COUNT_OF(DEFAULTS))];
    c.gpipe = chance(rng, 2);
    c.sequence = chance(rng, 3);
    return c;
}

static void layerwise_plans_come_back_from_galvatron(void **state)
{
    (void)state;
    struct rng rng;
    int done = 0, uneven = 0;
    rng_seed(&rng, 3);
    for (int round = 0; round < rounds_of(300); round++) {
        const char *path = arena_printf(arena, "/tmp/weft-test-export-%d.yaml", (int)getpid());
        const struct small_model *small = &SMALL_MODELS[rng_below(&rng, 12)]; /* with layers */
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fprintf(file, "family: %s\noptions: %s\n", small->family, small->options);
        fclose(file);
        struct model *model;
        assert_int_equal(model_open(path, NULL, &model), WEFT_OK);
        struct cluster *cluster = open_named("dgx-a100");
        struct plan *empty, *plan = NULL;
        int64_t layers;
        assert_int_equal(plan_new(model, cluster, &empty), WEFT_OK);
        layers_of_instances(arena, empty, &layers);
        plan_free(empty);
        struct galvatron config = draw_config(&rng, model, layers, 8);
        if (galvatron_plan(model, cluster, &config, &plan) == WEFT_OK &&
            plan_check(plan) == WEFT_OK) {
            struct export_result result;
            struct opened_plan again;
            struct texts notes = {0};
            choose_overlap(&rng, plan);
            if (plan_export(arena, plan, target_find("galvatron"), false, &result))
                fail_msg("%s", weft_last_error()->message);
            struct import_input input = {.file = "strategy.json",
                                         .text = result.text,
                                         .len = strlen(result.text),
                                         .model = path,
                                         .cluster = "dgx-a100"};
            if (galvatron_import(arena, &input, &again, &notes))
                fail_msg("%s", weft_last_error()->message);
            same_plan(plan, again.plan);
            if (done++ % 16 == 0)
                same_prediction(plan, again.plan);
            for (int64_t i = 1; i < layers; i++)
                if (config.tp[i] != config.tp[0]) {
                    uneven++;
                    break;
                }
            plan_close(&again);
            plan_free(result.written);
        }
        plan_free(plan);
        cluster_free(cluster);
        model_free(model);
        unlink(path);
    }
    print_message("%d plans, %d of them with different tp\n", done, uneven);
    assert_true(done > rounds_of(300) / 8 && uneven > 0);
}

static const struct {
    const char *text, *message;
} BROKEN_JSON[] = {
    {"{}", "s.json:1: 'pp_deg' is missing, expected a whole number of at least 1"},
    {"{\"pp_deg\": 1, \"global_bsz\": 8, \"chunks\": 1, \"tp_sizes_enc\": \"1,1\"}",
     "s.json:1: 'tp_sizes_enc' has 2 numbers, expected 12"},
    {"{\"pp_deg\": 1, \"global_bsz\": 8, \"chunks\": 1, \"tp_sizes_enc\": \"1,two\"}",
     "s.json:1: 'tp_sizes_enc' holds 'two', expected a whole number from 1 to 2147483647"},
    {"{\"pp_deg\": 3, \"global_bsz\": 8, \"chunks\": 1, \"tp_sizes_enc\": "
     "\"1,1,1,1,1,1,1,1,1,1,1,1\"}",
     "s.json:1: 'pp_deg' is 3, which does not divide the 8 devices of dgx-a100"},
    {"{\"pp_deg\": 1, \"global_bsz\": 8, \"chunks\": 3, \"tp_sizes_enc\": "
     "\"1,1,1,1,1,1,1,1,1,1,1,1\"}",
     "s.json:1: 'chunks' is 3, which does not divide 'global_bsz', 8"},
    {"{\"pp_deg\": 1, \"global_bsz\": 8, \"chunks\": 1, \"tp_sizes_enc\": "
     "\"1,1,1,1,1,1,1,1,1,1,1,3\"}",
     "s.json:1: tp 3 does not divide the 8 devices of a stage"},
    {"{\"pp_deg\": 2, \"global_bsz\": 8, \"chunks\": 1, \"pp_division\": \"5,6\", "
     "\"tp_sizes_enc\": \"1,1,1,1,1,1,1,1,1,1,1,1\"}",
     "s.json:1: 'pp_division' adds up to 11 layers, the model has 12"},
    {"{\"pp_deg\": 1, \"global_bsz\": 8, \"chunks\": 1, \"default_dp_type\": \"zero1\", "
     "\"tp_sizes_enc\": \"1,1,1,1,1,1,1,1,1,1,1,1\"}",
     "s.json:1: 'default_dp_type' is 'zero1', expected ddp, zero2 or zero3"},
    {"{\"pp_deg\": 1, \"global_bsz\": 8, \"chunks\": 1, \"use_sp\": \"0,0,0,0,0,0,0,0,0,0,0,1\", "
     "\"tp_sizes_enc\": \"1,1,1,1,1,1,1,1,1,1,1,1\"}",
     "s.json:1: 'use_sp' is not all 0: Ulysses and context parallelism per layer are not read"},
};

static void wrong_strategies_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(BROKEN_JSON); i++) {
        struct opened_plan opened;
        struct texts notes = {0};
        struct import_input input = {.file = "s.json",
                                     .text = BROKEN_JSON[i].text,
                                     .len = strlen(BROKEN_JSON[i].text),
                                     .model = "gpt2",
                                     .cluster = "dgx-a100"};
        assert_int_equal(galvatron_import(arena, &input, &opened, &notes), WEFT_BAD_INPUT);
        assert_string_equal(weft_last_error()->message, BROKEN_JSON[i].message);
    }
}

/* ---- the program ----------------------------------------------------------------------------- */

/* What `weft export` writes, and the file that says so. */
static const struct {
    const char *file, *arguments;
} GOLDEN[] = {
    {"gpt3-13b.args", "data/plans/gpt3-13b.yaml --to megatron"},
    {"deepseek-v3.args", "deepseek-v3 dgx-h100:32 --tp 2 --sp --pp 16 --ep 8 --zero 1 --virtual 2 "
                         "--global-batch 512 --to megatron"},
    {"gpt3-13b.sbatch", "data/plans/gpt3-13b.yaml --to slurm"},
    {"gpt3-13b.deepspeed.json", "gpt3-13b dgx-a100:4 --tp 8 --pp 2 --zero 1 --recompute full "
                                "--microbatch 4 --global-batch 1024 --to deepspeed"},
    {"llama3-70b.toml", "llama3-70b dgx-h100:8 --tp 8 --sp --pp 2 --cp 2 --zero 3 --recompute full "
                        "--global-batch 64 --to torchtitan"},
    {"llama3-8b.py", "llama3-8b dgx-h100 --zero 3 --recompute full --global-batch 64 --to fsdp"},
    {"bert-huge-32.json", "bert-huge-32 titan-rtx --tp 2 --pp 2 --zero 2 --global-batch 64 "
                          "--to galvatron"},
};

static void texts_are_those_on_file(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(GOLDEN); i++) {
        char path[512], *golden, command[1024];
        size_t len;
        int code;
        snprintf(command, sizeof command, "cd '%s' && '%s' export %s 2>/dev/null", WEFT_SOURCE_DIR,
                 WEFT_PROGRAM, GOLDEN[i].arguments);
        char *text = output_of(command, &code);
        assert_int_equal(code, WEFT_OK);
        snprintf(path, sizeof path, EXPORTED "%s", GOLDEN[i].file);
        assert_int_equal(file_read(arena, path, 1 << 20, &golden, &len), WEFT_OK);
        if (strcmp(text, golden) != 0)
            fail_msg("%s: `weft export %s` writes something else now", path, GOLDEN[i].arguments);
        free(text);
    }
}

static void succeeds(const char *command)
{
    int code;
    char *text = output_of(command, &code);
    if (code)
        fail_msg("%s: exit code %d: %s", command, code, text);
    free(text);
}

/* Held to by the programs that read such files. */
static void other_programs_accept_the_texts(void **state)
{
    (void)state;
    json_t *json = json_load_file(EXPORTED "gpt3-13b.deepspeed.json", JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(json);
    json_int_t micro = json_integer_value(json_object_get(json, "train_micro_batch_size_per_gpu"));
    json_int_t steps = json_integer_value(json_object_get(json, "gradient_accumulation_steps"));
    /* dp 2: 1024 = 4 * 128 * 2 */
    assert_int_equal(json_integer_value(json_object_get(json, "train_batch_size")),
                     micro * steps * 2);
    json_decref(json);
    json = json_load_file(EXPORTED "bert-huge-32.json", JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(json);
    json_decref(json);
    succeeds("python3 -c 'import sys, tomllib; t = tomllib.load(open(sys.argv[1], \"rb\")); "
             "p = t[\"parallelism\"]; assert p[\"tensor_parallel_degree\"] == 8; "
             "assert sum(len(m) for m in p[\"module_fqns_per_model_part\"]) == 80 + 3' "
             "'" EXPORTED "llama3-70b.toml' 2>&1");
    succeeds("bash -n '" EXPORTED "gpt3-13b.sbatch' 2>&1");
    succeeds("bash -c '. \"$0\" && [ ${#MEGATRON_ARGS[@]} -gt 40 ]' '" EXPORTED
             "gpt3-13b.args' 2>&1");
    succeeds("bash -c '. \"$0\" && for a in \"${MEGATRON_ARGS[@]}\"; do case $a in "
             "\"([0]*3+[1]*58)\") exit 0;; esac; done; exit 1' '" EXPORTED
             "deepseek-v3.args' 2>&1");
    succeeds("python3 -c 'import sys; compile(open(sys.argv[1]).read(), sys.argv[1], \"exec\")' "
             "'" EXPORTED "llama3-8b.py' 2>&1");
    succeeds("python3 -B '" EXPORTED "llama3-8b.py' --help 2>&1");
    succeeds("python3 -B '" EXPORTED "llama3-8b.py' --dry-run 2>&1 | "
             "grep -q '^accumulation_steps: 8$'");
}

static void the_program_says_what_it_cannot_write(void **state)
{
    (void)state;
    static const struct {
        const char *arguments, *says;
    } CASES[] = {
        {"export gpt3-13b dgx-v100:4 --tp 8 --segments 2 --pp 2 --to megatron",
         "weft: megatron cannot express this plan of gpt3-13b: schedule aiao: megatron does not "
         "know it\nhint: --nearest writes"},
        {"export gpt3-13b dgx-v100:4 --tp 8 --to fsdp",
         "weft: fsdp cannot express this plan of gpt3-13b: tp 8: fsdp has no such degree"},
        {"export resnet-50 dgx-a100 --to megatron",
         "weft: resnet-50 is of the family resnet, for which there are no launch arguments"},
        {"export gpt3-13b dgx-v100:4 --to megaton", "did you mean 'megatron'?"},
        {"export gpt3-13b dgx-v100:4", "--to is missing"},
        {"import dgx-a100 --from galvaton -- x", "did you mean 'galvatron'?"},
        {"import dgx-a100", "which file, and on which cluster?"},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        char command[1024];
        int code;
        snprintf(command, sizeof command, "'%s' %s 2>&1", WEFT_PROGRAM, CASES[i].arguments);
        char *text = output_of(command, &code);
        assert_int_equal(code, WEFT_BAD_INPUT);
        if (!strstr(text, CASES[i].says))
            fail_msg("%s: %s", CASES[i].arguments, text);
        free(text);
    }
}

static void nearest_compares_predictions(void **state)
{
    (void)state;
    json_t *json = json_of("export '" WEFT_SOURCE_DIR "/data/plans/gpt3-13b-by-hand.yaml' "
                           "--to megatron --nearest --json");
    assert_false(json_is_true(json_object_get(json, "exact")));
    assert_true(json_array_size(json_object_get(json, "differences")) >= 3);
    double plan = json_real_value(json_object_get(json_object_get(json, "plan"), "iteration_s"));
    double written =
        json_real_value(json_object_get(json_object_get(json, "written"), "iteration_s"));
    assert_true(plan > 0 && written > 0 && plan != written);
    json_decref(json);
}

/* export | import | simulate, as a user would. */
static void the_program_goes_round(void **state)
{
    (void)state;
    char command[2048];
    int code;
    snprintf(command, sizeof command,
             "cd '%s' && d=$(mktemp -d) && '%s' export data/plans/gpt3-13b.yaml --to slurm -o "
             "$d/job 2>/dev/null && '%s' import $d/job dgx-v100:4 -o $d/plan.json && '%s' simulate "
             "$d/plan.json --json --no-reserved | grep iteration_s && '%s' simulate "
             "data/plans/gpt3-13b.yaml --json --no-reserved | grep iteration_s; rm -r $d",
             WEFT_SOURCE_DIR, WEFT_PROGRAM, WEFT_PROGRAM, WEFT_PROGRAM, WEFT_PROGRAM);
    char *text = output_of(command, &code);
    char *second = strchr(text, '\n');
    assert_non_null(second);
    *second++ = '\0';
    second[strcspn(second, "\n")] = '\0';
    assert_string_equal(text, second);
    assert_non_null(strstr(text, "iteration_s"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(degrees_are_found_in_plans_that_have_them),
        cmocka_unit_test(nearest_plans_are_legal_and_honest),
        cmocka_unit_test(published_plans_come_back_from_megatron),
        cmocka_unit_test(published_plans_fit_their_own_frameworks),
        cmocka_unit_test(scripts_are_read_without_being_run),
        cmocka_unit_test(products_are_told),
        cmocka_unit_test(experts_are_told),
        cmocka_unit_test(async_tp_is_told),
        cmocka_unit_test(ways_to_write_arguments_are_alike),
        cmocka_unit_test(stages_hold_the_layers_they_are_given),
        cmocka_unit_test(wrong_arguments_are_named),
        cmocka_unit_test(layerwise_plans_come_back_from_galvatron),
        cmocka_unit_test(wrong_strategies_are_named),
        cmocka_unit_test(texts_are_those_on_file),
        cmocka_unit_test(other_programs_accept_the_texts),
        cmocka_unit_test(the_program_says_what_it_cannot_write),
        cmocka_unit_test(nearest_compares_predictions),
        cmocka_unit_test(the_program_goes_round),
    };
    return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
