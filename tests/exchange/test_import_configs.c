/* test_import_configs.c - what files of DeepSpeed and torchtitan say in few words: defaults, and one key at a time.
 *
 *   C1  A file's plan is that of the degrees beside it, which are the frameworks' own documentation.
 *   C2  A key is what it was last set to, wherever it stands, and takes no other key away.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "exchange/toml.h"
#include "same_plan.h"

static weft_status import_text(const char *source, const char *text, const char *model,
                               struct opened_plan *out)
{
    struct texts notes = {0};
    struct import_input input = {
        .file = "a.json", .text = text, .len = strlen(text), .model = model, .cluster = "dgx-h100"};
    return source_find(source)->read(arena, &input, out, &notes);
}

static void expect_degrees(const char *source, const char *text, const char *model,
                           const struct degrees *degrees)
{
    struct opened_plan opened;
    struct plan *wanted;
    if (import_text(source, text, model, &opened) != WEFT_OK)
        fail_msg("%s: %s", text, weft_last_error()->message);
    assert_int_equal(plan_from_degrees(opened.model, opened.cluster, degrees, &wanted), WEFT_OK);
    same_plan(opened.plan, wanted); /* C1 */
    assert_int_equal(opened.plan->global_batch, degrees->global_batch);
    assert_int_equal(opened.plan->step_samples, wanted->step_samples);
    assert_int_equal(opened.plan->dtype, degrees->dtype);
    assert_int_equal(opened.plan->policy, degrees->policy);
    if (opened.plan->overlap != degrees->overlap)
        fail_msg("%s: overlaps %s", text, overlap_text(arena, opened.plan->overlap, ","));
    assert_int_equal(opened.plan->bucket_bytes, wanted->bucket_bytes);
    assert_int_equal(opened.plan->replicate, degrees->replicate);
    assert_true(opened.plan->optimizer_offload == degrees->optimizer_offload);
    plan_free(wanted);
    plan_close(&opened);
}

static void expect_refused(const char *source, const char *text, const char *model,
                           const char *says)
{
    struct opened_plan opened;
    assert_int_equal(import_text(source, text, model, &opened), WEFT_BAD_INPUT);
    if (!strstr(weft_last_error()->message, says))
        fail_msg("%s: %s", text, weft_last_error()->message);
    error_clear();
}

/* ---- DeepSpeed ------------------------------------------------------------------------------- */

/* Of fp32, of mixed precision, and of this with sums in fp32; buckets are 5e8 elements. */
#define TYPES(type, kind, bytes)                                                                   \
    .has_dtype = true, .dtype = DTYPE_##type, .has_policy = true, .policy = POLICY_##kind,         \
    .has_bucket = true, .bucket_bytes = INT64_C(500000000) * (bytes), .has_overlap = true
#define BF16       "\"bf16\": {\"enabled\": true}"
#define ZERO(text) "{\"train_micro_batch_size_per_gpu\": 1, \"zero_optimization\": {" text "}}"

static void deepspeed_in_few_words(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        struct degrees degrees;
    } ROWS[] = {
        {"{\"train_micro_batch_size_per_gpu\": 2}",
         {.dp = 8, .micro_batch = 2, .global_batch = 16, TYPES(FP32, FP32, 4)}},
        {"{\"train_batch_size\": 64, \"gradient_accumulation_steps\": 4}",
         {.dp = 8, .micro_batch = 2, .global_batch = 64, TYPES(FP32, FP32, 4)}},
        {"{\"train_batch_size\": 64}",
         {.dp = 8, .micro_batch = 8, .global_batch = 64, TYPES(FP32, FP32, 4)}},
        {"{\"train_micro_batch_size_per_gpu\": 3, \"gradient_accumulation_steps\": 2}",
         {.dp = 8, .micro_batch = 3, .global_batch = 48, TYPES(FP32, FP32, 4)}},
        {"{\"train_batch_size\": 64, \"tensor_parallel\": {\"autotp_size\": 2}}",
         {.dp = 4, .tp = 2, .micro_batch = 8, .global_batch = 32, TYPES(FP32, FP32, 4)}},
        {"{\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 4, \"pipeline\": "
         "{\"stages\": 2}}",
         {.dp = 4, .pp = 2, .micro_batch = 4, .global_batch = 64, TYPES(FP32, FP32, 4)}},
        {ZERO("\"stage\": 1"),
         {.dp = 8, .micro_batch = 1, .global_batch = 8, .shard = 1, TYPES(FP32, FP32, 4)}},
        {ZERO("\"stage\": 2"),
         {.dp = 8, .micro_batch = 1, .global_batch = 8, .shard = 2, TYPES(FP32, FP32, 4)}},
        {ZERO("\"stage\": 2, \"overlap_comm\": true"),
         {.dp = 8,
          .micro_batch = 1,
          .global_batch = 8,
          .shard = 2,
          TYPES(FP32, FP32, 4),
          .overlap = OVERLAP_GRADIENTS}},
        {ZERO("\"stage\": 3"),
         {.dp = 8,
          .micro_batch = 1,
          .global_batch = 8,
          .shard = 3,
          TYPES(FP32, FP32, 4),
          .overlap = OVERLAP_GRADIENTS | OVERLAP_PARAMETERS}},
        {ZERO("\"stage\": 2, \"offload_optimizer\": {\"device\": \"cpu\", \"ratio\": 0.5}"),
         {.dp = 8,
          .micro_batch = 1,
          .global_batch = 8,
          .shard = 2,
          .optimizer_offload = 0.5,
          TYPES(FP32, FP32, 4)}},
        {ZERO("\"stage\": 2, \"offload_optimizer\": {\"device\": \"none\"}"),
         {.dp = 8, .micro_batch = 1, .global_batch = 8, .shard = 2, TYPES(FP32, FP32, 4)}},
        {ZERO("\"stage\": 3, \"overlap_comm\": false"),
         {.dp = 8,
          .micro_batch = 1,
          .global_batch = 8,
          .shard = 3,
          TYPES(FP32, FP32, 4),
          .overlap = OVERLAP_PARAMETERS}},
        {"{\"train_batch_size\": 8, " BF16 "}",
         {.dp = 8, .micro_batch = 1, .global_batch = 8, TYPES(BF16, MIXED, 2)}},
        {"{\"train_batch_size\": 8, \"fp16\": {\"enabled\": true}}",
         {.dp = 8, .micro_batch = 1, .global_batch = 8, TYPES(FP16, MIXED, 2)}},
        {"{\"train_batch_size\": 8, \"fp16\": {\"enabled\": false}}",
         {.dp = 8, .micro_batch = 1, .global_batch = 8, TYPES(FP32, FP32, 4)}},
        {"{\"train_batch_size\": 8, " BF16 ", \"data_types\": {\"grad_accum_dtype\": \"fp32\"}}",
         {.dp = 8, .micro_batch = 1, .global_batch = 8, TYPES(BF16, MIXED_FP32_GRADIENTS, 4)}},
        {"{\"train_batch_size\": 8, " BF16 ", \"activation_checkpointing\": {}}",
         {.dp = 8,
          .micro_batch = 1,
          .global_batch = 8,
          TYPES(BF16, MIXED, 2),
          .recompute = RECOMPUTE_FULL}},
        {"{\"train_batch_size\": 8, " BF16
         ", \"activation_checkpointing\": {\"cpu_checkpointing\": true}}",
         {.dp = 8,
          .micro_batch = 1,
          .global_batch = 8,
          TYPES(BF16, MIXED, 2),
          .recompute = RECOMPUTE_FULL,
          .offload = true}},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++)
        expect_degrees("deepspeed", ROWS[i].text, "gpt2", &ROWS[i].degrees);
    struct degrees small = {.dp = 8, .micro_batch = 1, .global_batch = 8, TYPES(BF16, MIXED, 2)};
    small.bucket_bytes = 2000;
    expect_degrees("deepspeed",
                   "{\"train_batch_size\": 8, " BF16
                   ", \"zero_optimization\": {\"reduce_bucket_size\": 1e3}}",
                   "gpt2", &small);
    static const struct {
        const char *text, *says;
    } WRONG[] = {
        {"{\"train_batch_size\": 12}", "no whole number of steps"},
        {"{\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 4, "
         "\"gradient_accumulation_steps\": 3}",
         "batches of 64 samples are no whole number of steps of 4 on 8 replicas"},
        {"{\"gradient_accumulation_steps\": 3}", "no whole number of steps"},
        {"{\"train_batch_size\": 63, \"tensor_parallel\": {\"autotp_size\": 2}}",
         "does not divide"},
        {"{\"train_batch_size\": 64, \"tensor_parallel\": {\"autotp_size\": 3}}",
         "tp 3 * pp 1 is 3 devices"},
        {"{\"train_batch_size\": 64, \"sequence_parallel_size\": 2}", "Ulysses is not read"},
        {ZERO("\"stage\": 4"), "stage"},
        {"{\"train_batch_size\": \"auto\", \"train_micro_batch_size_per_gpu\": \"auto\"}",
         "'train_micro_batch_size_per_gpu' is auto, which the trainer fills in"},
        {"{\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": \"auto\", "
         "\"gradient_accumulation_steps\": \"auto\"}",
         "'train_micro_batch_size_per_gpu' is auto, which the trainer fills in"},
    };
    for (size_t i = 0; i < COUNT_OF(WRONG); i++)
        expect_refused("deepspeed", WRONG[i].text, "gpt2", WRONG[i].says);
}

/* What Hugging Face's Trainer fills in is as if these values were written, with a note for each that counts. */
static void auto_is_filled_in(void **state)
{
    (void)state;
    static const struct {
        const char *filled, *written;
        size_t notes;
    } ROWS[] = {
        {"{\"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": \"auto\", "
         "\"train_batch_size\": \"auto\", \"bf16\": {\"enabled\": \"auto\"}, "
         "\"zero_optimization\": "
         "{\"stage\": 2, \"reduce_bucket_size\": \"auto\"}, \"gradient_clipping\": \"auto\"}",
         "{\"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": 1, "
         "\"zero_optimization\": {\"stage\": 2, \"reduce_bucket_size\": 589824}}", /* 768^2 */
         3},
        {"{\"train_micro_batch_size_per_gpu\": \"auto\", \"train_batch_size\": 64, "
         "\"gradient_accumulation_steps\": 2, " BF16 "}",
         "{\"train_micro_batch_size_per_gpu\": 4, \"train_batch_size\": 64, " BF16 "}", 0},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct opened_plan filled, written;
        struct texts notes = {0};
        struct import_input input = {.file = "a.json",
                                     .text = ROWS[i].filled,
                                     .len = strlen(ROWS[i].filled),
                                     .model = "gpt2",
                                     .cluster = "dgx-h100"};
        if (source_find("deepspeed")->read(arena, &input, &filled, &notes))
            fail_msg("%s: %s", ROWS[i].filled, weft_last_error()->message);
        assert_int_equal(notes.len, ROWS[i].notes);
        assert_int_equal(import_text("deepspeed", ROWS[i].written, "gpt2", &written), WEFT_OK);
        same_plan(filled.plan, written.plan);
        assert_int_equal(filled.plan->bucket_bytes, written.plan->bucket_bytes);
        assert_int_equal(filled.plan->step_samples, written.plan->step_samples);
        plan_close(&filled);
        plan_close(&written);
    }
}

/* ---- torchtitan ------------------------------------------------------------------------------ */

#define AS(type, kind, more)                                                                       \
    .has_dtype = true, .dtype = DTYPE_##type, .has_policy = true, .policy = POLICY_##kind,         \
    .has_overlap = true,                                                                           \
    .overlap = OVERLAP_PIPELINE | OVERLAP_GRADIENTS | OVERLAP_PARAMETERS | (more)
#define USUAL AS(BF16, FSDP, 0)
#define LLAMA                                                                                      \
    "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[activation_checkpoint]\nmode = \"none\"\n"

static void torchtitan_in_few_words(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        struct degrees degrees;
    } ROWS[] = {
        {LLAMA, {.dp = 8, .micro_batch = 8, .global_batch = 64, .shard = 3, USUAL}},
        {LLAMA "[training]\nlocal_batch_size = 2\n",
         {.dp = 8, .micro_batch = 2, .global_batch = 16, .shard = 3, USUAL}},
        {LLAMA "[training]\nlocal_batch_size = 2\nglobal_batch_size = 32\n",
         {.dp = 8, .micro_batch = 2, .global_batch = 32, .shard = 3, USUAL}},
        {LLAMA
         "[training]\nnum_tokens_per_microbatch_per_dp_rank = 8192\nmax_context_length = 4096\n",
         {.dp = 8, .micro_batch = 2, .global_batch = 16, .shard = 3, USUAL}},
        {LLAMA "[training]\nnum_tokens_per_microbatch_per_dp_rank = "
               "4096\nnum_tokens_per_train_step = 65_536\n",
         {.dp = 8, .micro_batch = 2, .global_batch = 32, .shard = 3, USUAL}},
        {LLAMA "[training]\nmixed_precision_param = 'float32'\n",
         {.dp = 8, .micro_batch = 8, .global_batch = 64, .shard = 3, AS(FP32, FP32, 0)}},
        {LLAMA "[parallelism]\nfsdp_reshard_after_forward = \"never\"\n",
         {.dp = 8, .micro_batch = 8, .global_batch = 64, .shard = 2, USUAL}},
        {LLAMA "[parallelism]\ndata_parallel_replicate_degree = 2\n",
         {.dp = 8, .micro_batch = 8, .global_batch = 64, .shard = 3, .replicate = 2, USUAL}},
        {LLAMA
         "[parallelism]\ndata_parallel_replicate_degree = 8\ndata_parallel_shard_degree = 1\n",
         {.dp = 8, .micro_batch = 8, .global_batch = 64, USUAL}},
        {LLAMA "[parallelism]\ntensor_parallel_degree = 2\n",
         {.dp = 4,
          .tp = 2,
          .sequence = true,
          .micro_batch = 8,
          .global_batch = 32,
          .shard = 3,
          USUAL}},
        {LLAMA "[parallelism]\ntensor_parallel_degree = 2\nenable_sequence_parallel = false\n",
         {.dp = 4, .tp = 2, .micro_batch = 8, .global_batch = 32, .shard = 3, USUAL}},
        {LLAMA "[parallelism]\ntensor_parallel_degree = 2\nenable_async_tensor_parallel = true\n",
         {.dp = 4,
          .tp = 2,
          .sequence = true,
          .micro_batch = 8,
          .global_batch = 32,
          .shard = 3,
          AS(BF16, FSDP, OVERLAP_TENSOR | OVERLAP_PRODUCTS)}},
        {LLAMA "[parallelism]\ncontext_parallel_degree = 8\ncontext_parallel_rotate_method = "
               "\"alltoall\"\n",
         {.dp = 1,
          .cp = 8,
          .micro_batch = 8,
          .global_batch = 8,
          .shard = 3,
          AS(BF16, FSDP, OVERLAP_KEYS)}},
        {LLAMA "[parallelism]\npipeline_parallel_degree = 2\n",
         {.dp = 4, .pp = 2, .micro_batch = 1, .global_batch = 32, .shard = 1, USUAL}},
        {LLAMA
         "[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_microbatch_size = 4\n"
         "pipeline_parallel_schedule = \"GPipe\"\n",
         {.dp = 4,
          .pp = 2,
          .micro_batch = 4,
          .global_batch = 32,
          .shard = 1,
          .schedule = "gpipe",
          USUAL}},
        {"[model]\nname = \"llama3\"\nflavor = \"8B\"\n[activation_checkpoint]\nmode = \"full\"\n",
         {.dp = 8,
          .micro_batch = 8,
          .global_batch = 64,
          .shard = 3,
          .recompute = RECOMPUTE_FULL,
          USUAL}},
        /* C2: the first of three is set again */
        {LLAMA "[training]\nseq_len = 1024\nlocal_batch_size = 2\nglobal_batch_size = 32\nseq_len "
               "= 4096\n",
         {.dp = 8, .micro_batch = 2, .global_batch = 32, .shard = 3, USUAL}},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++)
        expect_degrees("torchtitan", ROWS[i].text, NULL, &ROWS[i].degrees);
    expect_refused("torchtitan", "[model]\nname = \"llama3\"\nflavor = \"8B\"\n", NULL,
                   "every 2-th layer is not read");
    expect_refused("torchtitan", LLAMA "[parallelism]\ntensor_parallel_degree = 3\n", NULL,
                   "do not divide the 8 devices");
    expect_refused("torchtitan", LLAMA "[parallelism]\ndata_parallel_shard_degree = 2\n", NULL,
                   "1 replicas of 2 shares are not the 8 left");
    expect_refused("torchtitan",
                   LLAMA "[training]\nmax_context_length = 8192\n"
                         "num_tokens_per_microbatch_per_dp_rank = 4096\n"
                         "num_tokens_per_train_step = 65536\n",
                   NULL, "a pass has 0 samples, an iteration 8");
}

static void sequences_are_as_long_as_said(void **state)
{
    (void)state;
    static const struct {
        const char *more;
        int64_t seq;
    } ROWS[] = {
        {"", 2048},
        {"[training]\nseq_len = 4096\n", 4096},
        {"[training]\nseq_len = 1024\nlocal_batch_size = 2\nseq_len = 4096\n", 4096},
        {"[training]\nmax_context_length = 8192\nnum_tokens_per_microbatch_per_dp_rank = 8192\n",
         8192}};
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct opened_plan opened;
        assert_int_equal(
            import_text("torchtitan", arena_printf(arena, LLAMA "%s", ROWS[i].more), NULL, &opened),
            WEFT_OK);
        assert_int_equal(opened.model->seq, ROWS[i].seq);
        plan_close(&opened);
    }
}

/* Parameters as torchtitan 0.2.2's own Transformer of models/llama4 has them on the meta device. */
static void llama4_has_the_parameters_of_its_class(void **state)
{
    (void)state;
    static const struct {
        const char *flavor;
        double parameters;
    } ROWS[] = {{"17bx16e", 107769861120.0}, {"17bx128e", 400711848960.0}};
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct opened_plan opened;
        const char *text = arena_printf(arena,
                                        "[model]\nname = \"llama4\"\nflavor = \"%s\"\n"
                                        "[activation_checkpoint]\nmode = \"none\"\n",
                                        ROWS[i].flavor);
        assert_int_equal(import_text("torchtitan", text, NULL, &opened), WEFT_OK);
        assert_true(model_totals(opened.model, DTYPE_BF16).parameters == ROWS[i].parameters);
        plan_close(&opened);
    }
}

/* Adapters are beside the products that the converter names. */
static void torchtitans_adapters_are_where_it_says(void **state)
{
    (void)state;
    static const struct {
        const char *modules, *word;
    } ROWS[] = {{"\"wqkv\"", "qkv"},
                {"\"wqkv\", \"wo\"", "attention"},
                {"\"wqkv\", \"wo\", \"w1\", \"w2\", \"w3\"", "all"}};
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct opened_plan opened;
        struct model *model;
        const char *text = arena_printf(
            arena,
            "from torchtitan.models.llama3 import model_registry\n\ndef train():\n"
            "    config = llama3_8b()\n"
            "    converters = [LoRAConverter.Config(rank=16, alpha=32, target_modules=[%s])]\n"
            "    config.model_spec = model_registry(\"8B\", converters=converters)\n"
            "    config.training.max_context_length = 8192\n"
            "    config.training.num_tokens_per_microbatch_per_dp_rank = 8192\n"
            "    config.training.num_tokens_per_train_step = 131072\n"
            "    return config\n",
            ROWS[i].modules);
        const char *options = arena_printf(arena, "lora: 16, lora_modules: %s", ROWS[i].word);
        assert_int_equal(import_text("torchtitan", text, NULL, &opened), WEFT_OK);
        assert_int_equal(model_open("llama3.1-8b", options, &model), WEFT_OK);
        assert_true(model_totals(opened.model, DTYPE_BF16).parameters ==
                    model_totals(model, DTYPE_BF16).parameters);
        model_free(model);
        plan_close(&opened);
    }
}

/* ---- the three forms ------------------------------------------------------------------------- */

/* A tree in one line: {a: 1, b: {c: [x, y]}}. */
static const char *tree_text(const struct doc *doc)
{
    const char *text = doc->kind == DOC_MAP ? "{" : "[";
    if (doc->kind != DOC_MAP && doc->kind != DOC_LIST)
        return doc->text;
    for (const struct doc *child = doc->first; child; child = child->next)
        text = arena_printf(arena, "%s%s%s%s%s", text, child == doc->first ? "" : ", ",
                            doc->kind == DOC_MAP ? child->key : "",
                            doc->kind == DOC_MAP ? ": " : "", tree_text(child));
    return arena_printf(arena, "%s%s", text, doc->kind == DOC_MAP ? "}" : "]");
}

typedef weft_status form_reader(struct arena *keep, const struct import_input *input,
                                struct doc **out);

static const struct {
    form_reader *read;
    const char *text, *tree;
} FORMS[] = {
    {toml_read, "a = 1\n[b]\nc = \"x # y\" # z\nd = 'w'\n", "{a: 1, b: {c: x # y, d: w}}"},
    {toml_read, "[b.c]\nd = 1_000\ne.f = True\n[b]\ng = None\n",
     "{b: {c: {d: 1000, e: {f: true}}, g: null}}"},
    {toml_read, "a = [1, [\"x\",\n 'y'], ]\r\nb = -1e-4", "{a: [1, [x, y]], b: -1e-4}"},
    {toml_read, "a = 1\nb = 2\nc = 3\na = 4\nb = [5]\n", "{a: 4, b: [5], c: 3}"}, /* C2 */
    {toml_read, "[s]\na = 1\nb = 2\n[t]\nc = 3\n[s]\na = 4\nd = 5\n",
     "{s: {a: 4, b: 2, d: 5}, t: {c: 3}}"},
    {toml_read, "a = \"x\\\"y\"\n", "{a: x\\\"y}"},
    {options_read, "run --s.a 1 --s.b=2 --s.c-d --t.e '[1, x]' --module m --other 3 \\\n --s.a 4",
     "{s: {a: 4, b: 2, c_d: true}, t: {e: [1, x]}, module: m}"},
    {assignments_read,
     "def f():\n    config.a.b = 1\n    other.c = 2\n    config.a.d = 'x'\n    config.a.b = 3\n",
     "{a: {b: 3, d: x}}"},
    {toml_read, "a = \n", NULL},
    {toml_read, "a = \"x\n\"", NULL},
    {toml_read, "a = [1 2]\n", NULL},
    {toml_read, "a = [1,\n", NULL},
    {toml_read, "a = 1 b\n", NULL},
    {toml_read, "[a\nb = 1\n", NULL},
    {toml_read, "a = 1\n[a]\nb = 2\n", NULL},
    {toml_read, "a = [[[[[[[[1]]]]]]]]\n", "{a: [[[[[[[[1]]]]]]]]}"},
    {toml_read, "a = [[[[[[[[[1]]]]]]]]]\n", NULL},
};

static void forms_are_trees(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(FORMS); i++) {
        struct import_input input = {
            .file = "a.toml", .text = FORMS[i].text, .len = strlen(FORMS[i].text)};
        struct doc *root = NULL;
        weft_status status = FORMS[i].read(arena, &input, &root);
        assert_int_equal(status, FORMS[i].tree ? WEFT_OK : WEFT_BAD_INPUT);
        if (FORMS[i].tree)
            assert_string_equal(tree_text(root), FORMS[i].tree);
        error_clear();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deepspeed_in_few_words),
        cmocka_unit_test(auto_is_filled_in),
        cmocka_unit_test(torchtitan_in_few_words),
        cmocka_unit_test(llama4_has_the_parameters_of_its_class),
        cmocka_unit_test(torchtitans_adapters_are_where_it_says),
        cmocka_unit_test(sequences_are_as_long_as_said),
        cmocka_unit_test(forms_are_trees),
    };
    return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
