/* test_show.c - `weft show` and `weft check` (and what `weft simulate` refuses), asked as a process: tables, JSON fields, written
 * plans, exit codes. */
#include <unistd.h>

#include "page_width.h"
#include "program.h"
#include "report/report.h"

#define PLANS WEFT_SOURCE_DIR "/data/plans/"

static void expect_line(const char *text, const char *line)
{
    if (!strstr(text, line))
        fail_msg("no line '%s' in\n%s", line, text);
}

static double number(const json_t *json, const char *key)
{
    const json_t *value = json_object_get(json, key);
    if (!json_is_number(value))
        fail_msg("no number '%s'", key);
    return json_number_value(value);
}

/* ---- show ------------------------------------------------------------------------------------ */

static void stages_and_folded_tree(void **state)
{
    (void)state;
    char *text = answer_to("show " PLANS "gpt3-13b-by-hand.yaml");
    expect_line(text,
                "gpt3-13b on dgx-v100: 32 devices, fp16, mixed\n"
                "1024 samples in 128 micro-batches: micro-batch 4 × dp 2 = 8 samples per step\n"
                "1f1b, 2 stages\n");
    expect_line(text, "    0     0-15    0-1  embedding to layers.17 ");
    expect_line(text, "    1    16-31    2-3  layers.18 to loss ");
    expect_line(text, "layers.0-39.attn.qkv          batch:2 out:8     shard 1 ");
    expect_line(text, "layers.0-29.mlp.up            batch:2 out:8     recompute, shard 1 ");
    expect_line(text, "layers.30-39.mlp.up           batch:2 out:8     shard 1 ");
    free(text);
}

/* The policy that keeps all in one type has the type's name, which stands there once. */
static void a_type_is_named_once(void **state)
{
    (void)state;
    char *text = answer_to("show gpt2 dgx-a100 --dtype fp32 --policy fp32");
    expect_line(text, "gpt2 on dgx-a100: 8 devices, fp32\n");
    free(text);
}

static void lines_fit_the_terminal(void **state)
{
    (void)state;
    static const char *const QUESTIONS[] = {
        "show " PLANS "gpt3-13b-by-hand.yaml --layouts",
        "show gpt3-175b dgx-a100:128 --tp 8 --pp 16 --virtual 3 --global-batch 1536 --layouts",
        "show swin-huge-32 dgx-a100 --layouts",
        "show llama3.1-405b dgx-h100:2048 --tp 8 --pp 16 --cp 2 --zero 1",
    };
    for (size_t i = 0; i < COUNT_OF(QUESTIONS); i++) {
        char *text = answer_to(QUESTIONS[i]);
        lines_within_page(text);
        free(text);
    }
}

/* Megatron's pair: the first linear split by columns, the second by rows leaves partial sums. */
static void layouts_by_letters(void **state)
{
    (void)state;
    char *text = answer_to("show gpt3-13b dgx-v100:2 --tp 8 --layouts");
    expect_line(text, "layers.0-39.mlp.up            batch:2 out:8     SB      BS BS    SS\n");
    expect_line(text, "layers.0-39.mlp.down          batch:2 in:8      SS      BS BB    SP\n");
    free(text);
}

static void json_has_its_fields(void **state)
{
    (void)state;
    json_t *json = json_of("show gpt3-13b dgx-v100:4 --tp 8 --pp 2 --virtual 2 --microbatch 4 "
                           "--global-batch 64 --memory 20 --layouts --json");
    assert_int_equal(number(json, "devices"), 32);
    assert_int_equal(number(json, "micro_batches"), 8);
    assert_int_equal(number(json, "step_samples"), 8);
    assert_int_equal(number(json, "pieces"), 2);
    const json_t *stages = json_object_get(json, "stages");
    assert_int_equal(json_array_size(stages), 2);
    const json_t *last = json_array_get(stages, 1), *memory = json_object_get(last, "memory");
    assert_int_equal(number(last, "first_device"), 16);
    assert_int_equal(json_array_size(json_object_get(last, "parts")), 2);
    assert_true(number(memory, "limit_bytes") == 20 * 0x1p30);
    double sum = number(memory, "weights_bytes") + number(memory, "gradients_bytes") +
                 number(memory, "optimizer_bytes") + number(memory, "activations_bytes") +
                 number(memory, "workspace_bytes");
    assert_true(sum - number(memory, "total_bytes") < 8 && number(memory, "total_bytes") - sum < 8);
    const json_t *first = json_array_get(json_object_get(json, "tree"), 0);
    assert_string_equal(json_string_value(json_object_get(first, "path")), "embedding");
    assert_non_null(json_object_get(json_object_get(first, "layouts"), "weights"));
    json_decref(json);
}

/* Two devices and no sharding: 12,858,214,400 parameters at 16 bytes are far above 32 GB. */
static void too_much_memory_is_marked(void **state)
{
    (void)state;
    char *text = answer_to("show gpt3-13b dgx-v100 --tp 2");
    expect_line(text, " !\n");
    free(text);
    json_t *json = json_of("show gpt3-13b dgx-v100 --tp 2 --json");
    assert_true(json_is_true(
        json_object_get(json_array_get(json_object_get(json, "stages"), 0), "too_much")));
    json_decref(json);
}

static void offloaded_checkpoints_wait_on_the_host(void **state)
{
    (void)state;
    char *text = answer_to("show gpt3-13b dgx-v100 --tp 8 --recompute full --offload");
    expect_line(text, "checkpoints in host memory: up to ");
    free(text);
}

static void written_plans_are_the_same(void **state)
{
    (void)state;
    char path[64], question[512];
    snprintf(path, sizeof path, "/tmp/weft-show-%ld.json", (long)getpid());
    snprintf(question, sizeof question, "show " PLANS "uneven.yaml -o %s", path);
    char *shown = answer_to(question);
    snprintf(question, sizeof question, "show %s", path);
    char *again = answer_to(question);
    assert_string_equal(shown, again);
    unlink(path);
    free(shown);
    free(again);
}

/* ---- check ----------------------------------------------------------------------------------- */

static void good_plans_are_ok(void **state)
{
    (void)state;
    char *text = answer_to("check " PLANS "gpt3-13b.yaml");
    assert_string_equal(
        text,
        "OK: gpt3-13b on 32 devices: 2 stages, 1f1b, 7 choices for 524 operators;\n"
        "128 micro-batches, micro-batch 4 × dp 2 = 8 samples per step\n"
        "run by: megatron, weft\n"
        "not by torchtitan: gpt3-13b has no RMSNorm and no gates, which no model of torchtitan "
        "0.2.2 has\n"
        "not by deepspeed: tp 8 with pp 2: deepspeed has no tensor parallelism in a pipeline "
        "(megatron,\n"
        "                  galvatron, weft can)\n"
        "not by fsdp: tp 8: fsdp has no such degree (megatron, deepspeed, galvatron, dtensor, weft "
        "can)\n"
        "not by galvatron: state sharding 1: galvatron has no such level (megatron, deepspeed, "
        "weft "
        "can)\n"
        "not by dtensor: pp 2: dtensor has no such degree (megatron, deepspeed, galvatron, weft "
        "can)\n"
        "not by aceso: gpt3-13b has attention in one kernel (eager is --set attention=eager), "
        "which "
        "no model\n"
        "              of Aceso's runtime has\n");
    free(text);
    text = answer_to("check gpt2 dgx-a100 --tp 4");
    expect_line(text, "warning: embedding and 1 more: vocab:4 pads its vocab of 50257 to 50260\n");
    free(text);
    json_t *json = json_of("check " PLANS "small-moe.yaml --json");
    assert_true(json_is_true(json_object_get(json, "ok")));
    assert_int_equal(number(json, "choices"), 3);
    json_decref(json);
}

static const struct {
    const char *question, *answer;
} REFUSED[] = {
    {"check gpt3-13b dgx-v100:4 --tp 3",
     "weft: tp 3 * pp 1 * cp 1 is 3 devices, which does not divide the 32 of dgx-v100\n"
     "hint: use tp 2 or 4\n"},
    {"check gpt3-13b dgx-v100:4 --tp 8 --pp 2 --virtual 2 --global-batch 2",
     "weft: interleaved needs a micro-batch for each of its 2 stages, and has 1\n"
     "hint: use 2 micro-batches: a global batch of 4\n"},
    {"check gpt3-13b dgx-v100:4 --tp 8 --pp 2 --virtual 2 --global-batch 14 --group 6",
     "weft: a group of 6 micro-batches of 7: a group, and what is left for the last one, is no "
     "less than the 2 stages and no more than all\n"
     "hint: use 8 micro-batches: a global batch of 16\n"},
    {"check absent.yaml",
     "weft: absent.yaml: cannot be opened: No such file or directory\n"
     "hint: name a plan file (docs/reference/plan-file.md), or a model and a cluster\n"},
    {"simulate absent.yaml",
     "weft: absent.yaml: cannot be opened: No such file or directory\n"
     "hint: name a plan file (docs/reference/plan-file.md), or a model and a cluster\n"},
    {"check " PLANS "gpt3-13b.yaml --tp 4",
     "weft: --tp makes a plan; " PLANS "gpt3-13b.yaml is one already\n"
     "hint: change the file, or name a model and a cluster\n"},
    {"show gpt3-13b dgx-v100 -o /absent/plan.json",
     "weft: /absent/plan.json: cannot be written: No such file or directory\n"},
};

static void bad_plans_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(REFUSED); i++) {
        int code;
        char command[512];
        snprintf(command, sizeof command, "'%s' %s 2>&1", WEFT_PROGRAM, REFUSED[i].question);
        char *text = output_of(command, &code);
        assert_string_equal(text, REFUSED[i].answer);
        assert_int_equal(code, WEFT_BAD_INPUT);
        free(text);
    }
}

static void bad_arguments_are_refused(void **state)
{
    (void)state;
    static const char *const QUESTIONS[] = {
        "show",
        "check",
        "simulate",
        "simulate a b c",
        "simulate gpt2 dgx-a100 --trace-events 0",
        "simulate gpt2 dgx-a100 --tp 3",
        "show a b c",
        "show gpt2 dgx-a100 --tp 0",
        "show gpt2 dgx-a100 --zero 4",
        "show gpt2 dgx-a100 --recompute some",
        "show gpt2 dgx-a100 --dtype quarter",
        "show gpt2 dgx-a100 --policy half",
        "show gpt2 dgx-a100 --memory none",
        "show gpt2 dgx-a100 --set layers",
        "show gpt2 dgx-a100 --schedule none",
    };
    for (size_t i = 0; i < COUNT_OF(QUESTIONS); i++) {
        int code;
        free(ask(QUESTIONS[i], &code));
        if (code != WEFT_BAD_INPUT)
            fail_msg("weft %s: exit code %d", QUESTIONS[i], code);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_and_folded_tree),
        cmocka_unit_test(a_type_is_named_once),
        cmocka_unit_test(lines_fit_the_terminal),
        cmocka_unit_test(layouts_by_letters),
        cmocka_unit_test(json_has_its_fields),
        cmocka_unit_test(too_much_memory_is_marked),
        cmocka_unit_test(offloaded_checkpoints_wait_on_the_host),
        cmocka_unit_test(written_plans_are_the_same),
        cmocka_unit_test(good_plans_are_ok),
        cmocka_unit_test(bad_plans_are_refused),
        cmocka_unit_test(bad_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
