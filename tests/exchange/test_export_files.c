/* test_export_files.c - what `weft export` writes, held to files that were read against each framework's own
 * documentation (data/export), and accepted by the programs that read such files. */
#include <unistd.h>

#include "program.h"
#include "rounds.h"

#include "one_arena.h"

#define EXPORTED WEFT_SOURCE_DIR "/tests/data/export/"

/* What `weft export` writes for the arguments of cases.txt, and the file beside it that says so; what it
 * notes beside goes to `notes`. Predicted times are not what the file is about. */
static void hold_to_file(const char *name, const char *arguments, const char **notes)
{
    char *golden;
    size_t len;
    int code;
    const char *path = arena_printf(arena, EXPORTED "%s", name);
    const char *said = arena_printf(arena, "/tmp/weft-test-notes-%d", (int)getpid());
    char *text = output_of(arena_printf(arena, "cd '%s' && '%s' export %s 2>%s", WEFT_SOURCE_DIR,
                                        WEFT_PROGRAM, arguments, said),
                           &code);
    assert_int_equal(code, WEFT_OK);
    assert_int_equal(file_read(arena, path, 1 << 20, &golden, &len), WEFT_OK);
    if (strcmp(text, golden) != 0)
        fail_msg("%s: `weft export %s` writes something else now", path, arguments);
    free(text);
    assert_int_equal(file_read(arena, said, 1 << 20, &golden, &len), WEFT_OK);
    unlink(said);
    *notes = arena_printf(arena, "%s%s\n", *notes, name);
    for (char *rest = golden, *line; (line = strsep(&rest, "\n")) != NULL && *line;)
        if (strncmp(line, "predicted:", 10) != 0)
            *notes = arena_printf(arena, "%s%s\n", *notes, line);
}

static void texts_are_those_on_file(void **state)
{
    (void)state;
    const char *notes = "";
    char *cases, *golden;
    size_t len;
    int held = 0;
    assert_int_equal(file_read(arena, EXPORTED "cases.txt", 1 << 20, &cases, &len), WEFT_OK);
    for (char *rest = cases, *line; (line = strsep(&rest, "\n")) != NULL;) {
        char *arguments = line + strcspn(line, " ");
        if (*line == '#' || *line == '\0')
            continue;
        *arguments++ = '\0';
        hold_to_file(line, arguments, &notes);
        held++;
    }
    assert_true(held > 30);
    assert_int_equal(file_read(arena, EXPORTED "notes.txt", 1 << 20, &golden, &len), WEFT_OK);
    assert_string_equal(notes, golden);
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
    /* dp 16: 1024 = 4 * 16 * 16 */
    assert_int_equal(json_integer_value(json_object_get(json, "train_batch_size")),
                     micro * steps * 16);
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

/* What does not fit gives way to what does, or to nothing. */
static void the_nearest_plan_fits(void **state)
{
    (void)state;
    int code;
    char *text = output_of("'" WEFT_PROGRAM "' export llama3-8b dgx-h100 --schedule gpipe --pp 2 "
                           "--global-batch 64 --to megatron --nearest --json 2>&1",
                           &code);
    json_t *json = json_loads(text, 0, NULL);
    assert_int_equal(code, WEFT_OK);
    assert_non_null(json);
    assert_true(json_is_false(json_object_get(json, "exact")));
    assert_true(json_is_true(json_object_get(json_object_get(json, "written"), "fits")));
    json_decref(json);
    free(text);
    text = output_of("'" WEFT_PROGRAM
                     "' export llama3.1-405b dgx-h100 --set layers=12 --schedule gpipe --pp 2 "
                     "--global-batch 64 --to megatron --nearest 2>&1",
                     &code);
    assert_int_equal(code, WEFT_NO_ANSWER);
    assert_non_null(strstr(text, "nothing that Megatron-Core 0.19 runs of llama3.1-405b fits"));
    free(text);
}

static void the_program_says_what_it_cannot_write(void **state)
{
    (void)state;
    static const struct {
        const char *arguments, *says;
    } CASES[] = {
        {"export gpt3-13b dgx-v100:4 --tp 8 --segments 2 --pp 2 --to megatron",
         "weft: megatron cannot express this plan of gpt3-13b: schedule aiao: megatron does not "
         "know it (weft can); it runs with weft\nhint: --nearest writes the nearest plan that it "
         "runs, and says what "
         "it costs: --dp 2 --tp 8 --pp 2"},
        {"export llama3-8b dgx-h100 --zero 1 --optimizer adafactor --to megatron",
         "optimizer adafactor: megatron has none such"},
        {"export llama3-8b dgx-h100 --zero 3 --optimizer muon --to megatron",
         "optimizer muon with state sharding 3: megatron shares out whole matrices (deepspeed, "
         "weft "
         "can)"},
        {"export llama3-8b dgx-h100 --zero 3 --optimizer sgd --to torchtitan",
         "optimizer sgd: torchtitan has none such (megatron, deepspeed, fsdp, "},
        {"plan llama3-8b dgx-h100 --optimizer adafactor --quick --global-batch 64 --for deepspeed",
         "optimizer adafactor: deepspeed has none such"},
        {"export llama2-7b dgx-h100 --set rope_scaling=2 --set rope_type=linear --tp 2 --sp --zero "
         "1 --global-batch 64 --to megatron@0.16",
         "rotary positions stretched by a linear factor"},
        {"export gpt3-13b dgx-v100:4 --tp 8 --to fsdp",
         "weft: fsdp cannot express this plan of gpt3-13b: tp 8: fsdp has no such degree"},
        {"export llama3-8b dgx-h100 --cp 4 --seq 2052 --to megatron",
         "tp 1 cp 4: megatron needs sequences of a multiple of 8, not 2052"},
        {"export gpt3-13b dgx-a100:4 --pp 2 --zero 2 --to deepspeed",
         "state sharding 2: deepspeed has no such level beside other degrees"},
        {"export gpt3-13b dgx-a100:4 --tp 8 --pp 2 --to deepspeed",
         "tp 8 with pp 2: deepspeed has no tensor parallelism in a pipeline"},
        {"export llama3-8b dgx-h100 --tp 2 --sp --to torchtitan",
         "state sharding 0: torchtitan has no such level beside other degrees"},
        {"export mixtral-8x7b dgx-h100 --to torchtitan",
         "which no model of torchtitan 0.2.2 has\nhint: megatron, deepspeed, fsdp, galvatron@3.0, "
         "weft "
         "can train it"},
        {"export gpt3-13b dgx-v100:4 --to megatron@0.15",
         "megatron@0.15 is not known, expected megatron@0.19, megatron@0.16\n"
         "hint: megatron@0.16 is the nearest release"},
        {"export resnet-50 dgx-a100 --to megatron",
         "weft: resnet-50 is of the family resnet, for which there are no launch arguments\n"
         "hint: deepspeed, weft can train it"},
        {"export nemotron-h-8b dgx-h100 --to megatron@0.16",
         "weft: nemotron-h-8b is of the family hybrid: Megatron-Core 0.16 trains such models with "
         "pretrain_mamba.py and --hybrid-override-pattern, whose arguments Weft does not write\n"
         "hint: megatron, deepspeed, weft can train it"},
        {"export olmo2-7b dgx-h100 --global-batch 8 --to galvatron",
         "weft: olmo2-7b has norms after attention and after the MLP, which no model of "
         "Galvatron "},
        {"export nemotron-h-8b dgx-h100 --to fsdp",
         "weft: nemotron-h-8b has layers by a pattern, which no model of PyTorch's FSDP2 has\n"
         "hint: megatron, deepspeed, weft can train it"},
        {"export qwen3-vl-8b dgx-h100 --to megatron@0.16",
         "qwen3-vl-8b has features of several layers of its encoder: Megatron-Core 0.16 trains "
         "such "
         "models with recipes of Megatron-Bridge, where it has one (Qwen2.5-VL, Qwen3-VL), whose"},
        {"export llama3.2-11b-vision dgx-h100 --to megatron",
         "llama3.2-11b-vision has layers that attend to images, for which there are no launch "
         "arguments\nhint: deepspeed, weft can train it"},
        {"export qwen2.5-vl-7b dgx-h100 --to torchtitan",
         "qwen2.5-vl-7b has an encoder of images with windows, for which there are no launch"},
        {"export llama4-scout-vision dgx-h100 --to fsdp",
         "llama4-scout-vision has an encoder of images with rotary positions, for which"},
        {"export gemma3-4b dgx-h100 --to fsdp",
         "gemma3-4b has patches that are averaged into tokens, for which"},
        {"export llava-1.5-7b dgx-h100 --to torchtitan@main",
         "llava-1.5-7b has an encoder of images beside its decoder: torchtitan's main branch of "
         "August 2026 trains such models with its qwen3_5, kimi_k2_7 and muse_glimmer alone"},
        {"export llava-1.5-7b dgx-h100 --to megatron",
         "llava-1.5-7b has an encoder of images with layers of other sizes than its decoder's, "
         "which pretrain_vlm.py of Megatron-Core 0.19 does not build\nhint: deepspeed, weft can"},
#define IMAGES                                                                                     \
    "export " WEFT_SOURCE_DIR "/data/models/llama-with-images.yaml dgx-h100 --global-batch 8 "
        {IMAGES "--to galvatron", "has an encoder of images beside its decoder, which no model of"},
        {IMAGES "--set tied=true --to megatron", "has one table for embedding and head beside"},
        {IMAGES "--set rope_base=500000 --to megatron@0.16",
         "has rotary positions of another base than 10000 beside images, which pretrain_vlm.py"},
        {IMAGES "--set qk_norm=true --to megatron", "has norms of queries and keys beside images"},
        {IMAGES "--set vision_post_norm=true --to megatron", "with other ends than CLIP's, which"},
        {IMAGES "--set projector_layers=1 --to megatron",
         "has a projector of other sizes than its decoder's MLP, which pretrain_vlm.py"},
        {IMAGES "--set vision_heads=16 --to megatron",
         "has an encoder of images with layers of other sizes than its decoder's, which"},
        {IMAGES "--images 2 --to megatron", "has several images in a sample, which pretrain_vlm"},
        {IMAGES "--cp 2 --pp 2 --to megatron",
         "cp 2 with pp 2: Megatron-Core 0.19 has one of them beside images (weft can)"},
        {IMAGES "--pp 2 --virtual 2 --to megatron", "virtual 2: megatron has no such degree"},
        {IMAGES "--zero 3 --to megatron", "state sharding 3: megatron has no such level"},
        {IMAGES "--dtype fp8 --to megatron", "fp8"},
        {IMAGES "--tp 2 --encoder-tp 1 --to megatron",
         "encoder-tp 1, encoder-dp 4 and encoder-pp 0: megatron gives the encoder of images the "
         "decoder's tp 2 and dp 4 on its first stage (weft can)"},
        {IMAGES "--dp 2 --tp 2 --encoder-pp 2 --encoder-tp 1 --to megatron",
         "encoder-pp 2: megatron gives the encoder of images the decoder's tp"},
#undef IMAGES
#define YARN "--set rope_scaling=4 --set rope_type=yarn "
        {"export qwen3-8b dgx-h100 " YARN "--zero 1 --to megatron@0.16",
         "qwen3-8b has rotary positions stretched by yarn outside latent attention, which no model "
         "of Megatron-Core 0.16 has\nhint: megatron, deepspeed, fsdp, dtensor can"},
        {"export qwen3-8b dgx-h100 " YARN "--zero 3 --to torchtitan@main",
         "qwen3-8b has rotary positions stretched by yarn, which no model of torchtitan's main"},
        {"export qwen3-8b dgx-h100 " YARN "--zero 3 --to weft",
         "qwen3-8b has rotary positions stretched by other rules than Llama 3.1's (linear, yarn), "
         "which Weft's own runtime cannot run\nhint: megatron, deepspeed, fsdp, dtensor "
         "can"},
        {"export deepseek-v3 dgx-h100:32 " YARN "--set rope_learned=8192 --zero 3 --to megatron",
         "deepseek-v3 has yarn in latent attention from other than 4096 positions, or not rounded"},
        {"export llama2-7b dgx-h100 --set rope_scaling=2.5 --set rope_type=linear --to megatron",
         "llama2-7b has rotary positions stretched by a factor that is no whole number, which"},
        {"export llama2-7b dgx-h100 --set rope_type=linear --to megatron",
         "'rope_type' says how positions are stretched by the factor 'rope_scaling'"},
#undef YARN
        {"export llama3-8b dgx-h100 --set lora=16 --zero 3 --to torchtitan",
         "frozen weights beside its adapters, which no model of torchtitan 0.2.2 has\nhint: "
         "torchtitan@main, deepspeed, weft can train it"},
        {"export deepseek-v3 dgx-h100:32 --set lora=16 --zero 3 --to torchtitan@main",
         "frozen weights beside its adapters, for which there are no launch arguments"},
        {"export t5-large dgx-a100 --to torchtitan",
         "for which there are no launch arguments\nhint: deepspeed, galvatron, weft can train it"},
        {"export gpt3-1.3b dgx-a100 --policy mixed-fp32-gradients --to deepspeed",
         "policy mixed-fp32-gradients in fp16 with state sharding 0: deepspeed has none of it"},
        {"export qwen3-8b dgx-h100 --pp 2 --zero 2 --to torchtitan",
         "pp 2: torchtitan 0.2.2 has no stages for such models (megatron"},
        {"export llama4-scout dgx-h100:8 --zero 3 --to torchtitan",
         "llama4-scout has layers without positions, which torchtitan 0.2.2 cannot run: its llama4 "
         "has such flavors (17bx16e_irope, 17bx128e_irope), but they fail in the first step: each "
         "layer's attention is given two masks where it takes one\nhint: deepspeed, weft can"},
        {"export llama4-maverick dgx-h100:8 --zero 3 --to torchtitan@main",
         "layers without positions, which no model of torchtitan's main branch of August 2026 has"},
#define LLAMA4                                                                                     \
    "export mixtral-8x7b dgx-h100:16 --set layers=48 --set hidden=5120 --set heads=40 --set "      \
    "kv_heads=8 --set head_dim=128 --set ffn=16384 --set expert_ffn=8192 --set top_k=1 --set "     \
    "shared_experts=1 --set vocab=202048 --zero 3 "
        {LLAMA4 "--set experts=16 --to torchtitan@main",
         "experts without latent attention or norms of queries and keys, which no model of "
         "torchtitan's main branch of August 2026 has\nhint: megatron, torchtitan, deepspeed"},
        {LLAMA4 "--set experts=128 --set moe_every=4 --to torchtitan",
         "has sizes other than those of llama4 17bx16e, 17bx128e, which no model of"},
#undef LLAMA4
        {"export " WEFT_SOURCE_DIR "/tests/data/hf/smollm3-3b dgx-h100 --zero 3 --to torchtitan",
         "layers without positions, which no model of torchtitan 0.2.2 has"},
        {"export llama2-7b dgx-h100 --zero 3 --to torchtitan",
         "llama2-7b has sizes other than those of llama3 8B, 70B, 405B, which no model of"},
        {"export deepseek-v3 dgx-h100:32 --tp 2 --sp --zero 3 --to torchtitan@main",
         "experts of tp 2 in a model of tp 2: torchtitan has no such degrees"},
        {"export llama3-8b dgx-h100 --pp 8 --global-batch 4 --zero 1 --to torchtitan",
         "4 micro-batches on pp 8: torchtitan needs as many as stages"},
        {"export gpt3-1.3b dgx-a100 --offload --to deepspeed",
         "offload without recomputation: deepspeed moves checkpoints alone"},
        {"export gpt3-1.3b hgx-b200 --dtype nvfp4 --to weft",
         "dtype nvfp4: weft has no such products"},
        {"export llama3-8b dgx-h100 --dtype fp8 --zero 3 --to fsdp",
         "dtype fp8: fsdp has no such products (megatron"},
        {"plan llama3-8b hgx-b200 --dtype nvfp4 --global-batch 64 --quick --for fsdp",
         "PyTorch's FSDP2 does not run what is asked for: dtype nvfp4"},
        {"plan llama3-8b dgx-h100 --global-batch 64 --quick --schedule aiao --for megatron",
         "Megatron-Core 0.19 does not run what is asked for: schedule aiao"},
        {"plan llama3-8b dgx-h100 --global-batch 64 --quick --pp 2 --tp 2 --for deepspeed",
         "the nearest that it runs: dp 4 pp 2 micro-batch 1 zero 1, "},
        {"export qwen2.5-7b dgx-h100 --zero 3 --to torchtitan",
         "qwen2.5-7b has biases of queries, keys and values, which no model of torchtitan"},
        {"export gpt3-13b dgx-v100:4 --to megaton", "did you mean 'megatron'?"},
        {"export gpt3-13b dgx-v100:4", "--to is missing"},
        {"import dgx-a100 --from galvaton -- x", "did you mean 'galvatron'?"},
        {"import dgx-a100", "which file, and on which cluster?"},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        char command[1024];
        int code;
        if (!is_tried(i))
            continue;
        snprintf(command, sizeof command, "'%s' %s 2>&1", WEFT_PROGRAM, CASES[i].arguments);
        char *text = output_of(command, &code);
        assert_int_equal(code, WEFT_BAD_INPUT);
        if (!strstr(text, CASES[i].says))
            fail_msg("%s: %s", CASES[i].arguments, text);
        free(text);
    }
}

/* `check --for` ends with 1 where the framework does not run the plan, and says what is nearest; `import` says what
 * the release that it is told does not run. */
static void check_and_import_ask_the_table(void **state)
{
    (void)state;
    static const struct {
        const char *arguments;
        int code;
        const char *says;
    } CASES[] = {
        {"check llama3-8b dgx-h100 --zero 3 --for megatron@0.16", WEFT_OK, "run by: megatron"},
        {"check llama3-8b dgx-h100 --tp 2 --schedule gpipe --pp 2 --for megatron", WEFT_NO_ANSWER,
         "schedule gpipe: megatron does not know it (torchtitan, galvatron, weft can); it runs "
         "with "
         "galvatron, weft\nhint: weft export PLAN --to megatron --nearest writes the nearest plan "
         "that it runs, and says what it costs: --dp 2 --tp 2 --pp 2"},
        {"check llama3.1-8b dgx-h100:1 --pp 2 --virtual 8 --zero 1 --global-batch 64 --for "
         "torchtitan",
         WEFT_NO_ANSWER,
         "says what it costs: pp 2 (2+2+2+2+2+2+2+2+.. layers), tp 1, zero 1, 4 samples per "
         "step, 32 of 32 layers recomputed"},
        {"check llama3-8b dgx-h100:2 --tp 2 --sp --zero 2 --global-batch 64 --for torchtitan",
         WEFT_NO_ANSWER, "--zero 2 --policy fsdp --software torchtitan-2025"},
        {"check llama3.1-405b dgx-h100:1 --zero 1 --tp 8 --for torchtitan", WEFT_NO_ANSWER,
         "hint: nothing that torchtitan 0.2.2 runs of llama3.1-405b fits on dgx-h100:1"},
        {"check llama2-7b dgx-h100 --zero 3 --for torchtitan", WEFT_NO_ANSWER,
         "sizes other than those of llama3 8B, 70B, 405B"},
        {"check llama3-8b dgx-h100 --for megatron@0.2", WEFT_BAD_INPUT,
         "megatron@0.2 is not known"},
        {"import '" EXPORTED "qwen3-30b.toml' dgx-h100:2 --from torchtitan@0.3", WEFT_BAD_INPUT,
         "torchtitan@0.3 is not known"},
        {"import dgx-h100 --from torchtitan@0.2.2 -o /dev/null -- --module qwen3 --config "
         "qwen3_14b --parallelism.pipeline_parallel_degree 2 --activation_checkpoint.mode full",
         WEFT_OK, "torchtitan 0.2.2 does not run this: pp 2: torchtitan 0.2.2 has no stages"},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        int code;
        char *text =
            output_of(arena_printf(arena, "'%s' %s 2>&1", WEFT_PROGRAM, CASES[i].arguments), &code);
        if (code != CASES[i].code || !strstr(text, CASES[i].says))
            fail_msg("%s: %d, %s", CASES[i].arguments, code, text);
        free(text);
    }
}

/* With --json, what a framework does not run is an answer: the exit code is 1, and every rule that is broken is listed. */
static void check_answers_a_program(void **state)
{
    (void)state;
    static const struct {
        const char *arguments, *breaks;
        int code;
    } CASES[] = {
        {"llama3-8b dgx-h100 --zero 3 --for megatron@0.16", NULL, WEFT_OK},
        {"llama3-8b dgx-h100 --tp 2 --schedule gpipe --pp 2 --for megatron",
         "schedule gpipe: megatron does not know it", WEFT_NO_ANSWER},
        {"bert-huge-32 dgx-h100 --for torchtitan", "bert-huge-32", WEFT_NO_ANSWER},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        int code;
        char *text = ask(arena_printf(arena, "check %s --json", CASES[i].arguments), &code);
        json_t *json = json_loads(text, 0, NULL), *asked = json_object_get(json, "for");
        const json_t *breaks = json_object_get(asked, "breaks");
        assert_int_equal(code, CASES[i].code);
        assert_int_equal(json_is_true(json_object_get(json, "ok")), !CASES[i].breaks);
        assert_int_equal(json_is_true(json_object_get(asked, "runs_it")), !CASES[i].breaks);
        assert_int_equal(json_array_size(breaks) > 0, CASES[i].breaks != NULL);
        if (CASES[i].breaks)
            assert_non_null(strstr(json_string_value(json_array_get(breaks, 0)), CASES[i].breaks));
        json_decref(json);
        free(text);
    }
}

static double iteration_of(const char *command)
{
    int code;
    char *text = output_of(command, &code);
    if (code)
        fail_msg("%s: %s", command, text);
    json_t *json = json_loads(text, 0, NULL);
    double seconds = json_real_value(json_object_get(json, "iteration_s"));
    json_decref(json);
    free(text);
    return seconds;
}

/* Aceso's runtime waits for every exchange, and adds up gradients at the end, whatever the plan asks for. */
static void nearest_is_predicted_as_it_runs(void **state)
{
    (void)state;
    static const char SETTINGS[] =
        "gpt3-350m aceso-v100:1 --set attention=eager --tp 2 --pp 2 --global-batch 16 --dtype fp16";
    json_t *json = json_of(arena_printf(
        arena, "export %s --zero 1 --overlap all --to aceso --nearest --json", SETTINGS));
    double written =
        json_real_value(json_object_get(json_object_get(json, "written"), "iteration_s"));
    assert_true(written == iteration_of(arena_printf(
                               arena, "'%s' simulate %s --overlap none --bucket whole --json 2>&1",
                               WEFT_PROGRAM, SETTINGS)));
    json_decref(json);
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

/* DeepSpeed divides state by all replicas: what is predicted of the nearest plan is that of one that does. */
static void nearest_is_predicted_as_it_is_written(void **state)
{
    (void)state;
    json_t *json = json_of("export llama3.2-1b dgx-h100:2 --zero 1 --replicate 2 "
                           "--overlap gradients --global-batch 64 --to deepspeed --nearest --json");
    const char *line = json_string_value(json_object_get(json, "simulate"));
    double written =
        json_real_value(json_object_get(json_object_get(json, "written"), "iteration_s"));
    assert_null(strstr(line, "--replicate"));
    assert_true(written == iteration_of(arena_printf(arena, "'%s'%s --json 2>&1", WEFT_PROGRAM,
                                                     line + strlen("weft"))));
    json_decref(json);
}

/* The prediction of what an export has written. */
static double written_seconds(const json_t *json)
{
    return json_real_value(json_object_get(json_object_get(json, "written"), "iteration_s"));
}

/* The line that a file carries gives the prediction of what is written. */
static void lines_predict_again(void **state)
{
    (void)state;
    static const struct {
        const char *plan, *target, *file;
    } ROWS[] = {
        {"gpt2 dgx-a100 --tp 4 --bucket whole --set dropout=0 --global-batch 64 "
         "--overlap tensor",
         "megatron", ""},
        {"llama3.2-1b dgx-h100 --zero 2 --policy fsdp --overlap gradients,parameters --microbatch "
         "2",
         "fsdp", ""},
        {"gpt2 dgx-a100 --zero 1 --offload --recompute full --memory 30 --overlap none",
         "deepspeed", ""},
        {EXPORTED "block.plan.json", "megatron", EXPORTED "block.args"},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        const char *saved = arena_printf(arena, "/tmp/weft-test-line-%d.json", (int)getpid());
        json_t *json =
            json_of(arena_printf(arena, "export %s --to %s --json", ROWS[i].plan, ROWS[i].target));
        const char *line = json_string_value(json_object_get(json, "simulate"));
        assert_non_null(line);
        assert_non_null(strstr(json_string_value(json_object_get(json, "text")), line));
        double again = iteration_of(
            arena_printf(arena,
                         "cd '%s' && echo '%s --json' | sed -e 's|weft |%s |g' -e 's|THIS|%s|' -e "
                         "'s|plan.json|%s|g' | sh 2>&1",
                         WEFT_SOURCE_DIR, line, WEFT_PROGRAM, ROWS[i].file, saved));
        double first =
            json_real_value(json_object_get(json_object_get(json, "written"), "iteration_s"));
        assert_true(first > 0 && first == again);
        unlink(saved);
        json_decref(json);
    }
}

/* What is written is read back with the same prediction, by what `weft import` calls it. */
static void files_read_back(void **state)
{
    (void)state;
    static const struct {
        const char *plan, *to, *from, *cluster;
    } ROWS[] = {
        {"gpt2 dgx-a100 --tp 2 --microbatch 2 --global-batch 64 --dtype fp16 --overlap none",
         "deepspeed", "deepspeed --model gpt2", "dgx-a100"},
        {"gpt2 dgx-a100 --zero 3 --policy mixed-fp32-gradients --overlap none", "deepspeed",
         "deepspeed --model gpt2", "dgx-a100"},
        {"gpt2 dgx-a100 --pp 2 --zero 1 --recompute full --offload --global-batch 32 --overlap "
         "none",
         "deepspeed", "deepspeed --model gpt2", "dgx-a100"},
        {"llama3-8b dgx-h100 --tp 2 --sp --pp 2 --zero 1 --recompute full --global-batch 64 "
         "--policy fsdp --overlap pipeline,gradients,parameters",
         "torchtitan", "torchtitan", "dgx-h100"},
        {"qwen3-8b hgx-h200 --cp 2 --zero 2 --policy fsdp --microbatch 1 --global-batch 64 "
         "--overlap none",
         "torchtitan@main", "torchtitan", "hgx-h200"},
        {"gpt2 dgx-a100 --zero 1 --optimizer momentum --overlap none --global-batch 64",
         "deepspeed", "deepspeed --model gpt2", "dgx-a100"},
        {"gpt2 dgx-a100 --zero 1 --optimizer sgd --overlap none --global-batch 64", "deepspeed",
         "deepspeed --model gpt2", "dgx-a100"},
        {"gpt2 dgx-a100 --zero 1 --optimizer muon --overlap none --global-batch 64", "deepspeed",
         "deepspeed --model gpt2", "dgx-a100"},
        {"llama3-8b dgx-h100 --cp 8 --zero 3 --policy fsdp --global-batch 8 --overlap "
         "pipeline,gradients,parameters",
         "torchtitan", "torchtitan", "dgx-h100"},
        {"gpt2 dgx-a100 --tp 2 --zero 3 --global-batch 64", "galvatron@3.0",
         "galvatron --model gpt2", "dgx-a100"},
    };
    const char *folder = arena_printf(arena, "/tmp/weft-test-back-%d", (int)getpid());
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        succeeds(arena_printf(arena,
                              "mkdir -p %s && '%s' export %s --to %s -o %s/file 2>/dev/null && "
                              "'%s' import %s/file %s --from %s -o %s/plan.json 2>&1",
                              folder, WEFT_PROGRAM, ROWS[i].plan, ROWS[i].to, folder, WEFT_PROGRAM,
                              folder, ROWS[i].cluster, ROWS[i].from, folder));
        json_t *json =
            json_of(arena_printf(arena, "export %s --to %s --json", ROWS[i].plan, ROWS[i].to));
        double first = written_seconds(json);
        double again = iteration_of(
            arena_printf(arena, "'%s' simulate %s/plan.json --json 2>&1", WEFT_PROGRAM, folder));
        if (first != again)
            fail_msg("%s: %g s, read back %g s", ROWS[i].plan, first, again);
        json_decref(json);
    }
    /* Where the plan goes may stand after the framework's own words. */
    succeeds(arena_printf(arena,
                          "'%s' import dgx-a100 -- --num-layers 2 --hidden-size 64 "
                          "--num-attention-heads 4 --seq-length 32 --vocab-size 128 "
                          "--micro-batch-size 1 -o %s/words.json 2>&1 && test -s %s/words.json",
                          WEFT_PROGRAM, folder, folder));
    succeeds(arena_printf(arena,
                          "'%s' import dgx-h100 --from torchtitan -o %s/words.json -- torchrun "
                          "--nproc_per_node 8 -m torchtitan.train --module llama3 --config "
                          "llama3_8b --training.seq-len=4096 --parallelism.tensor_parallel_degree "
                          "4 --activation_checkpoint.mode full 2>&1 && grep -q llama3.1-8b "
                          "%s/words.json",
                          WEFT_PROGRAM, folder, folder));
    succeeds(arena_printf(arena, "rm -r %s", folder));
}

/* What `weft import` calls the framework of a case, with the model where its file names none; NULL: nothing reads it. */
static const char *source_of(const char *arguments, const char *model, const char *sets)
{
    static const struct {
        const char *to, *from;
        bool nameless;
    } SOURCES[] = {{"megatron", "megatron", false},     {"slurm", "megatron", false},
                   {"torchtitan", "torchtitan", false}, {"deepspeed", "deepspeed", true},
                   {"galvatron", "galvatron", true},    {"aceso", "aceso", true}};
    const char *to = strstr(arguments, "--to ") + 5;
    for (size_t i = 0; i < COUNT_OF(SOURCES); i++)
        if (strncmp(to, SOURCES[i].to, strlen(SOURCES[i].to)) == 0)
            return SOURCES[i].nameless
                       ? arena_printf(arena, "%s --model %s%s", SOURCES[i].from, model, sets)
                       : SOURCES[i].from;
    return NULL;
}

/* "weft simulate MODEL CLUSTER --set K=V ... --dp 8 ..." from a file; false: it has another line. */
static bool line_of(const char *name, const char **line, const char **model, const char **cluster,
                    const char **sets)
{
    char *text;
    size_t len;
    assert_int_equal(
        file_read(arena, arena_printf(arena, EXPORTED "%s", name), 1 << 20, &text, &len), WEFT_OK);
    const char *found = strstr(text, "weft simulate ");
    if (!found || strncmp(found, "weft simulate plan.json", 23) == 0)
        return false;
    char *words = arena_copy_bytes(arena, found + 14, strcspn(found + 14, "\"\n")), *next = words;
    *line = arena_copy_text(arena, words);
    *model = strsep(&next, " ");
    *cluster = strsep(&next, " ");
    *sets = "";
    for (char *word; (word = strsep(&next, " ")) != NULL;)
        if (strcmp(word, "--set") == 0)
            *sets = arena_printf(arena, "%s --set %s", *sets, strsep(&next, " "));
    return true;
}

/* export, import, simulate, as a user would: every case has the prediction that its line gives, whether it
 * fits or not. */
static void every_case_reads_back(void **state)
{
    (void)state;
    char *cases;
    size_t len;
    int held = 0, wanted = cases_of(50);
    const char *saved = arena_printf(arena, "/tmp/weft-test-case-%d.json", (int)getpid());
    assert_int_equal(file_read(arena, EXPORTED "cases.txt", 1 << 20, &cases, &len), WEFT_OK);
    for (char *rest = cases, *name; held < wanted && (name = strsep(&rest, "\n")) != NULL;) {
        const char *line, *model, *cluster, *sets, *source;
        char *arguments = name + strcspn(name, " ");
        if (*name == '#' || *name == '\0')
            continue;
        *arguments++ = '\0';
        if (!line_of(name, &line, &model, &cluster, &sets) ||
            !(source = source_of(arguments, model, sets)))
            continue;
        double first = iteration_of(
            arena_printf(arena, "cd '" WEFT_SOURCE_DIR "' && '%s' simulate %s --json 2>&1 || true",
                         WEFT_PROGRAM, line));
        double again = iteration_of(arena_printf(
            arena,
            "'%s' import '" EXPORTED "%s' %s --from %s -o %s 2>&1 >/dev/null | grep -v ^note; "
            "'%s' simulate %s --json 2>&1 || true",
            WEFT_PROGRAM, name, cluster, source, saved, WEFT_PROGRAM, saved));
        if (first != again)
            fail_msg("%s: %.12g s, read back %.12g s", name, first, again);
        held++;
    }
    unlink(saved);
    assert_int_equal(held, wanted);
}

/* Megatron-FSDP divides weights as it makes them, but for a gate that has no reset_parameters. */
static void sharded_models_are_built_without_memory(void **state)
{
    (void)state;
    static const struct {
        const char *plan;
        bool later; /* weights are made where they are divided */
        const char *says;
    } ROWS[] = {
        {"llama3-8b dgx-h100 --zero 3", true, "MEGATRON_ARGS"},
        {"gpt3-1.3b dgx-a100 --zero 2", true, "learned positions begin with a deviation of 1"},
        {"qwen1.5-moe-a2.7b dgx-h100 --zero 3", false,
         "each device holds the whole model before it is divided"},
        {"llama3-8b dgx-h100 --zero 1", false, "MEGATRON_ARGS"},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        int code;
        char *text = output_of(
            arena_printf(arena, "'%s' export %s --to megatron 2>&1", WEFT_PROGRAM, ROWS[i].plan),
            &code);
        bool later = strstr(text, "--init-model-with-meta-device\n");
        if (later != ROWS[i].later || !strstr(text, ROWS[i].says))
            fail_msg("%s: %s", ROWS[i].plan, text);
        free(text);
    }
}

/* What the framework decides otherwise makes an export inexact, and is said. */
static void decisions_are_said(void **state)
{
    (void)state;
    static const struct {
        const char *plan;
        bool exact;
        const char *says;
    } ROWS[] = {
        {"llama3.2-1b dgx-h100 --set rope_scaling=32 --set rope_type=llama3 --zero 1 --to megatron",
         false, "stretches positions by 8"},
        {"llama3.1-8b dgx-h100 --zero 1 --to megatron", true, NULL},
        {"gpt3-13b dgx-a100:4 --pp 2 --zero 1 --overlap gradients --to deepspeed", false,
         "gradients of stages after all passes"},
        {"gpt3-13b dgx-a100:4 --pp 2 --zero 1 --to deepspeed", true, NULL},
        {"llama3-8b dgx-h100 --zero 1 --optimizer adam --to megatron", false,
         "decays weights apart from gradients"},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        json_t *json = json_of(arena_printf(arena, "export %s --json", ROWS[i].plan));
        const json_t *decided = json_array_get(json_object_get(json, "decided"), 0);
        if (json_is_true(json_object_get(json, "exact")) != ROWS[i].exact ||
            (ROWS[i].says && !strstr(json_string_value(decided), ROWS[i].says)))
            fail_msg("%s: %s", ROWS[i].plan, json_string_value(decided));
        json_decref(json);
    }
}

#define INTERLEAVED                                                                                \
    "export llama3-8b dgx-h100:2 --tp 2 --pp 4 --virtual 2 --global-batch 64 --to megatron"

/* Megatron takes groups of as many micro-batches as there are stages where it is told nothing. */
static void groups_of_micro_batches_are_written(void **state)
{
    (void)state;
    char *same = answer_to(INTERLEAVED " --group 4"), *more = answer_to(INTERLEAVED " --group 8");
    assert_null(strstr(same, "microbatch-group-size"));
    assert_non_null(strstr(more, "--microbatch-group-size-per-virtual-pipeline-stage 8\n"));
    free(same);
    free(more);
    /* of 5 micro-batches on 4 stages, also where the head waits */
    char *late = answer_to("export llama3-8b dgx-h100 --tp 2 --pp 4 --virtual 2 --global-batch 5 "
                           "--zero 1 --defer-head 2 --to megatron");
    assert_non_null(strstr(late, "--microbatch-group-size-per-virtual-pipeline-stage 5\n"));
    free(late);
}

/* A launch is predicted as its framework runs it, unless a comment names other software; so a plan for that framework and
 * its own launch take as long. Weft knows no software of Galvatron's. */
static void imports_have_the_software_of_their_framework(void **state)
{
    (void)state;
    static const char GPT[] =
        "--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 "
        "--max-position-embeddings 2048 --vocab-size 50304 --micro-batch-size 1 "
        "--global-batch-size 64 --bf16";
    static const struct {
        const char *line, *text, *software;
    } ROWS[] = {
        {"--from megatron", "", "megatron-core-0.19"},
        {"--from megatron@0.16", "", "megatron-core-0.16"},
        {"", "# weft: software=default\n", NULL},
        {"", "# weft: software=pytorch-eager\n", "pytorch-eager"},
    };
    const char *file = arena_printf(arena, "/tmp/weft-test-launch-%d", (int)getpid());
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        int code;
        assert_int_equal(
            file_write_text(file, arena_printf(arena, "pretrain_gpt.py %s\n%s", GPT, ROWS[i].text)),
            0);
        char *said = output_of(arena_printf(arena, "'%s' import '%s' dgx-a100 %s --json 2>&1",
                                            WEFT_PROGRAM, file, ROWS[i].line),
                               &code);
        json_t *json = json_loads(said, 0, NULL);
        const char *software =
            json_string_value(json_object_get(json_object_get(json, "plan"), "software"));
        assert_int_equal(code, WEFT_OK);
        if (ROWS[i].software)
            assert_string_equal(software, ROWS[i].software);
        else
            assert_null(software);
        json_decref(json);
        free(said);
    }
    unlink(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_of_micro_batches_are_written),
        cmocka_unit_test(decisions_are_said),
        cmocka_unit_test(sharded_models_are_built_without_memory),
        cmocka_unit_test(texts_are_those_on_file),
        cmocka_unit_test(other_programs_accept_the_texts),
        cmocka_unit_test(the_nearest_plan_fits),
        cmocka_unit_test(the_program_says_what_it_cannot_write),
        cmocka_unit_test(check_and_import_ask_the_table),
        cmocka_unit_test(check_answers_a_program),
        cmocka_unit_test(nearest_compares_predictions),
        cmocka_unit_test(nearest_is_predicted_as_it_is_written),
        cmocka_unit_test(nearest_is_predicted_as_it_runs),
        cmocka_unit_test(lines_predict_again),
        cmocka_unit_test(imports_have_the_software_of_their_framework),
        cmocka_unit_test(files_read_back),
        cmocka_unit_test(every_case_reads_back),
    };
    return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
