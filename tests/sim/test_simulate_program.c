/* test_simulate_program.c - `weft simulate` and `weft check --prove` as processes: every documented
 * field, sums that add up, and each way a plan can be wrong with what would be right. */
#include "program.h"

#include <math.h>
#include <unistd.h>

#define PLANS WEFT_SOURCE_DIR "/data/plans/"
#define DEGREES                                                                                    \
    "gpt3-1.3b dgx-a100 --tp 2 --pp 2 --sp --zero 1 --recompute selective --microbatch 2 "         \
    "--global-batch 32"
#define FOLDED                                                                                     \
    "gpt3-1.3b fold3d-a100:1 --tp 2 --pp 4 --segments 2 --offload --recompute full "               \
    "--global-batch 8"

/* ---- asking ---------------------------------------------------------------------------------- */

/* Both outputs together, and the exit code. */
static char *all_of(const char *arguments, int *code)
{
    char command[1024];
    snprintf(command, sizeof command, "'%s' %s 2>&1", WEFT_PROGRAM, arguments);
    return output_of(command, code);
}

static json_t *json_of_any(const char *arguments, int expected)
{
    int code;
    char *text = ask(arguments, &code);
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_int_equal(code, expected);
    assert_non_null(json);
    free(text);
    return json;
}

static double number(const json_t *json, const char *key)
{
    const json_t *value = json_object_get(json, key);
    if (!json_is_number(value))
        fail_msg("no number '%s'", key);
    return json_number_value(value);
}

static void near(double a, double b)
{
    if (fabs(a - b) > 1e-9 * fabs(b))
        fail_msg("%.15g is not %.15g", a, b);
}

static void expect_in(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("no '%s' in\n%s", part, text);
}

/* ---- the answer ------------------------------------------------------------------------------ */

static const char *const QUESTIONS[] = {
    "simulate " PLANS "small-moe.yaml",
    "simulate " PLANS "uneven.yaml",
    "simulate " DEGREES,
    "simulate " DEGREES " --margin 12.5",
    "simulate " FOLDED,
    "simulate gpt3-1.3b dgx-a100 --pp 4 --virtual 2 --global-batch 16 --overlap none",
    "simulate resnet-50 dgx-v100 --microbatch 32",
};

static const char *ask_json(const char *question)
{
    static char text[512];
    snprintf(text, sizeof text, "%s --json", question);
    return text;
}

static void check_times(const json_t *json)
{
    static const char *const TIMES[] = {"forward", "backward",  "recompute", "bubble",
                                        "tp_comm", "ep_comm",   "cp_comm",   "dp_comm",
                                        "pp_comm", "optimizer", "offload"};
    const json_t *stages = json_object_get(json, "stages");
    for (size_t s = 0; s <= json_array_size(stages); s++) {
        const json_t *time = s < json_array_size(stages)
                                 ? json_object_get(json_array_get(stages, s), "time")
                                 : json_object_get(json, "breakdown");
        double sum = 0;
        for (size_t i = 0; i < COUNT_OF(TIMES); i++)
            sum += number(time, TIMES[i]);
        near(sum, number(json, "iteration_s"));
    }
}

/* What is sent within a stage counts for the parallelism that sends it. */
static void waits_are_of_their_kind(void **state)
{
    (void)state;
    static const struct {
        const char *question, *kind;
    } ROWS[] = {
        {"simulate " PLANS "small-moe.yaml", "ep_comm"},
        {"simulate gpt3-1.3b dgx-a100 --tp 8 --global-batch 8 --overlap none", "tp_comm"},
        {"simulate gpt3-1.3b dgx-a100 --cp 8 --global-batch 8 --overlap none", "cp_comm"},
    };
    static const char *const KINDS[] = {"tp_comm", "ep_comm", "cp_comm"};
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        json_t *json = json_of(ask_json(ROWS[i].question));
        for (size_t k = 0; k < COUNT_OF(KINDS); k++)
            assert_int_equal(number(json_object_get(json, "breakdown"), KINDS[k]) > 0,
                             strcmp(KINDS[k], ROWS[i].kind) == 0);
        json_decref(json);
    }
}

static void check_memory(const json_t *json)
{
    static const char *const CLASSES[] = {"weights", "gradients", "optimizer", "activations",
                                          "workspace"};
    size_t i;
    json_t *stage;
    bool fits = true;
    json_array_foreach(json_object_get(json, "memory"), i, stage)
    {
        double sum = 0;
        for (size_t c = 0; c < COUNT_OF(CLASSES); c++)
            sum += number(stage, CLASSES[c]);
        near(sum, number(stage, "peak"));
        assert_true(number(stage, "reserved") >= number(stage, "peak"));
        near(number(stage, "reserved") + number(stage, "context") + number(stage, "communicators") +
                 number(stage, "margin"),
             number(stage, "needed"));
        fits &= number(stage, "needed") <= number(stage, "limit");
    }
    assert_int_equal(i, json_array_size(json_object_get(json, "stages")));
    assert_int_equal(json_is_true(json_object_get(json, "fits")), fits);
}

/* What it rests on adds up, the largest first; so does what is held, as far as it is listed. */
static void check_lists(const json_t *json)
{
    size_t i;
    json_t *entry;
    double sum = 0, before = 2;
    json_array_foreach(json_object_get(json, "reliance"), i, entry)
    {
        assert_true(number(entry, "share") <= before);
        assert_true(strlen(json_string_value(json_object_get(entry, "source"))) > 0);
        before = number(entry, "share");
        sum += before;
    }
    near(sum, 1);
    before = INFINITY;
    json_array_foreach(json_object_get(json, "peak_holdings"), i, entry)
    {
        assert_true(number(entry, "bytes") <= before);
        before = number(entry, "bytes");
    }
    assert_true(i > 0);
}

static void answers_add_up(void **state)
{
    (void)state;
    static const char *const NUMBERS[] = {
        "iteration_s",   "tflops_per_device", "samples_per_s", "tokens_per_s", "events",
        "wall_s",        "compile_s",         "simulate_s",    "tasks",        "busiest_stage",
        "share_of_peak", "devices",           "global_batch",  "micro_batches"};
    for (size_t q = 0; q < COUNT_OF(QUESTIONS); q++) {
        json_t *json = json_of(ask_json(QUESTIONS[q]));
        for (size_t i = 0; i < COUNT_OF(NUMBERS); i++)
            number(json, NUMBERS[i]);
        near(number(json, "samples_per_s") * number(json, "iteration_s"),
             number(json, "global_batch"));
        assert_true(json_is_boolean(json_object_get(json, "folded_unalike")));
        check_times(json);
        check_memory(json);
        check_lists(json);
        json_decref(json);
    }
}

static void people_are_told(void **state)
{
    (void)state;
    static const char *const PARTS[] = {
        "gpt3-1.3b on dgx-a100: 8 devices, bf16, mixed\n",
        "overlap: all; gradients in buckets of 25.0 MiB; scattered sends\n",
        "\niteration ",
        "\neach device ",
        "\nmemory      fits: stage 0 is fullest, ",
        ", which waits least\n",
        "\ncritical path: ",
        "  peak  reserved  of ",
        "\nheld at the peak ",
        "layers.0-11.mlp.up output, 2 micro-batches",
        "\noperators' time ",
        " tasks, ",
    };
    char *text = answer_to("simulate " DEGREES " --timeline");
    for (size_t i = 0; i < COUNT_OF(PARTS); i++)
        expect_in(text, PARTS[i]);
    expect_in(text, "\nstage 0  F0");
    free(text);
}

/* Bytes for people; for programs all but what the wall clock says. */
static void answers_repeat(void **state)
{
    (void)state;
    static const char *const CLOCK[] = {"wall_s", "compile_s", "simulate_s"};
    for (size_t q = 0; q < COUNT_OF(QUESTIONS); q++) {
        char *text = answer_to(QUESTIONS[q]), *again = answer_to(QUESTIONS[q]);
        assert_string_equal(text, again);
        free(text);
        free(again);
    }
    json_t *one = json_of("simulate " DEGREES " --json"),
           *two = json_of("simulate " DEGREES " --json");
    for (size_t i = 0; i < COUNT_OF(CLOCK); i++) {
        json_object_del(one, CLOCK[i]);
        json_object_del(two, CLOCK[i]);
    }
    char *text = json_dumps(one, 0), *again = json_dumps(two, 0);
    assert_string_equal(text, again);
    free(text);
    free(again);
    json_decref(one);
    json_decref(two);
}

static void unfolded_is_the_same(void **state)
{
    (void)state;
    json_t *folded = json_of("simulate " DEGREES " --json");
    json_t *each = json_of("simulate " DEGREES " --unfold --json");
    assert_true(json_is_true(json_object_get(folded, "folded")));
    assert_true(json_is_false(json_object_get(each, "folded")));
    assert_true(number(folded, "iteration_s") == number(each, "iteration_s"));
    assert_true(number(folded, "tasks") < number(each, "tasks"));
    assert_true(json_equal(json_object_get(folded, "memory"), json_object_get(each, "memory")));
    json_decref(folded);
    json_decref(each);
}

static void a_trace_has_operators_and_memory(void **state)
{
    (void)state;
    char question[512], path[64];
    snprintf(path, sizeof path, "/tmp/weft-program-%ld.json", (long)getpid());
    snprintf(question, sizeof question, "simulate " DEGREES " --trace %s", path);
    free(answer_to(question));
    json_error_t error;
    json_t *json = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    unlink(path);
    if (!json)
        fail_msg("line %d: %s", error.line, error.text);
    size_t i, slices = 0, counters = 0;
    json_t *event;
    json_array_foreach(json_object_get(json, "traceEvents"), i, event)
    {
        const char *kind = json_string_value(json_object_get(event, "ph"));
        slices += strcmp(kind, "X") == 0;
        counters += strcmp(kind, "C") == 0;
    }
    assert_true(slices > 1000);
    assert_true(counters > 100);
    json_decref(json);
}

/* ---- too little memory ----------------------------------------------------------------------- */

/* Every layer is recomputed, and the embedding and the head never are: to recompute more is no advice, nor is it to divide
 * what the only device holds. Without its optimizer state it has room. */
static void no_advice_is_what_the_plan_does(void **state)
{
    (void)state;
    int code;
    char *text = all_of("simulate llama3.1-8b hgx-h200:1x1 --recompute full", &code);
    assert_int_equal(code, WEFT_NO_ANSWER);
    expect_in(text,
              "what helps: optimizer state in host memory (--optimizer-offload 1), more devices\n");
    free(text);
    text =
        all_of("simulate llama3.1-8b hgx-h200:1x1 --recompute full --optimizer-offload 1", &code);
    assert_int_equal(code, WEFT_OK);
    free(text);
    text = all_of("simulate qwen3-32b hgx-h200:1x4 --global-batch 64 --recompute full --zero 3",
                  &code);
    assert_int_equal(code, WEFT_NO_ANSWER);
    expect_in(text, "more stages or tensor parallelism (--pp, --tp)\n");
    free(text);
    text = all_of("simulate qwen3-32b hgx-h200:1x4 --global-batch 64 --pp 2 --tp 2", &code);
    assert_int_equal(code, WEFT_NO_ANSWER);
    expect_in(text, ", more devices\n");
    free(text);
}

static void too_little_memory_is_no_answer(void **state)
{
    (void)state;
    int code;
    char *text = all_of("simulate gpt3-175b dgx-a100:1 --tp 8", &code);
    assert_int_equal(code, WEFT_NO_ANSWER);
    expect_in(text, "\nmemory      does not fit: stage 0 needs ");
    expect_in(text, "weft: the plan does not fit in memory: stage 0 needs ");
    expect_in(text, " too much\nhint: it is mostly optimizer memory; what helps: ");
    free(text);
    json_t *json = json_of_any("simulate gpt3-175b dgx-a100:1 --tp 8 --json", WEFT_NO_ANSWER);
    assert_true(json_is_false(json_object_get(json, "fits")));
    check_times(json);
    check_memory(json);
    json_decref(json);
}

/* Between what is allocated and what is reserved it does not fit; a margin is part of a given limit, too. */
static void what_is_reserved_decides(void **state)
{
    (void)state;
    char question[512];
    json_t *json = json_of("simulate " DEGREES " --json");
    const json_t *first = json_array_get(json_object_get(json, "memory"), 0);
    double peak = number(first, "peak"), reserved = number(first, "reserved");
    const struct {
        double bytes;
        int margin_percent, code;
    } rows[] = {{(peak + reserved) / 2, 0, WEFT_NO_ANSWER},
                {reserved * 1.01, 0, WEFT_OK},
                {reserved * 1.01, 2, WEFT_NO_ANSWER}};
    json_decref(json);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        snprintf(question, sizeof question, "simulate " DEGREES " --json --memory %.6f --margin %d",
                 rows[i].bytes / 0x1p30, rows[i].margin_percent);
        json = json_of_any(question, rows[i].code);
        check_memory(json);
        json_decref(json);
    }
}

/* ---- wrong plans ----------------------------------------------------------------------------- */

#define HEAD                                                                                       \
    "model: gpt3-1.3b\n"                                                                           \
    "cluster: dgx-a100\n"                                                                          \
    "batch: {global: 64, step: 8}\n"

static const struct {
    const char *degrees, *file; /* one of them */
    const char *answer;         /* after the file's name */
} WRONG[] = {
    {.degrees = "gpt3-1.3b dgx-a100 --tp 3",
     .answer = "tp 3 * pp 1 * cp 1 is 3 devices, which does not divide the 8 of dgx-a100\n"
               "hint: use tp 2 or 4\n"},
    {.degrees = "gpt3-1.3b dgx-a100 --tp 3 --pp 3",
     .answer = "tp 3 * pp 3 * cp 1 is 9 devices, which does not divide the 8 of dgx-a100\n"
               "hint: use tp 2, pp 2, cp 1\n"},
    {.degrees = "gpt3-1.3b dgx-a100 --set heads=20 --set hidden=1280 --tp 8",
     .answer = "layers.0.attn.attention: tp 8 does not divide its dim head of 20\n"
               "hint: use tp 4, or pad the heads: --set head_multiple=8\n"},
    {.degrees = "gpt3-1.3b dgx-a100 --global-batch 12",
     .answer = "the global batch of 12 is not a multiple of dp 8 * micro-batch 1 = 8\n"
               "hint: use 8 or 16\n"},
    {.degrees = "gpt3-1.3b dgx-a100:4 --pp 32",
     .answer = "gpt3-1.3b has 24 layers, too few for 32 stages of 1 piece\n"
               "hint: use at most 24 stages\n"},
    {.degrees = "gpt3-1.3b dgx-a100 --pp 4 --virtual 2 --global-batch 6",
     .answer = "interleaved needs a micro-batch for each of its 4 stages, and has 3\n"
               "hint: use 4 micro-batches: a global batch of 8\n"},
    {.degrees = "gpt3-1.3b dgx-a100 --pp 4 --schedule interleaved",
     .answer = "interleaved needs at least 2 pieces per stage\n"
               "hint: use 2 pieces, or the schedule 1f1b\n"},
    {.degrees = "gpt3-1.3b dgx-a100 --pp 4 --virtual 2 --schedule 1f1b",
     .answer = "gpipe, 1f1b, zb-h1 and zb-h2 have 1 piece per stage, not 2\n"
               "hint: use 1 piece, or the schedule interleaved or aiao\n"},
    {.degrees = "gpt3-1.3b dgx-a100 --pp 4 --schedule 1f1",
     .answer = "no schedule is called '1f1', expected one of gpipe, 1f1b, interleaved, aiao, "
               "zb-h1, zb-h2, zb-v, v-half, v-min, dualpipe, dualpipev, hanayo\nhint: did you mean "
               "'1f1b'?\n"},
    {.file = HEAD "schedule: gpip\n",
     .answer = ":4: no schedule is called 'gpip', expected one of gpipe, 1f1b, interleaved, aiao, "
               "zb-h1, zb-h2, zb-v, v-half, v-min, dualpipe, dualpipev, hanayo\nhint: did you mean "
               "'gpipe'?\n"},
    {.file = HEAD "stages: 3\n",
     .answer = ":4: 3 stages cannot share the 8 devices of dgx-a100 evenly\n"
               "hint: use 2 or 4 stages\n"},
    {.file = HEAD "stages: 1000\n",
     .answer = ":4: 1000 parts, but gpt3-1.3b has only 316 operators\n"
               "hint: use at most 316 stages\n"},
    {.file = HEAD "stages:\n"
                  "  - {until: layers.3, devices: 4}\n"
                  "  - {until: layers.1, devices: 4}\n",
     .answer = ":6: stage 1 would hold no operators: 'layers.1' ends before it starts\n"
               "hint: it starts at layers.4.attn.norm: end it there or after\n"},
    {.file = HEAD "stages:\n"
                  "  - {until: loss, devices: 4}\n"
                  "  - {devices: 4}\n",
     .answer = ":5: nothing is left for the stages after 'loss'\n"
               "hint: end stage 0 at head or before\n"},
    {.file = HEAD "stages:\n"
                  "  - {until: layers.3, devices: 0-3}\n"
                  "  - {devices: 2-7}\n",
     .answer = ":6: devices 2-7 of stage 1 overlap those before (0-3)\n"
               "hint: start stage 1 at device 4\n"},
    {.file = HEAD "stages:\n"
                  "  - {until: layers.3, devices: 0-3}\n"
                  "  - {devices: 6-7}\n",
     .answer = ":6: devices 4-5, before stage 1, belong to no stage\n"
               "hint: start stage 1 at device 4\n"},
    {.file = HEAD "tree:\n"
                  "  layers.*.attn.norm: {split: 'hidden:8'}\n",
     .answer = ":5: layers.0.attn.norm: a layer_norm cannot be split by 'hidden'\n"
               "hint: it can be split by batch, seq\n"},
    {.file = HEAD "tree:\n"
                  "  layers.2.mlp.up: {split: 'expert:8'}\n",
     .answer = ":5: layers.2.mlp.up: has no dim 'expert'\n"
               "hint: a linear can be split by batch, seq, in, out\n"},
    {.file = HEAD "tree:\n"
                  "  layers.2.attn.score: {split: 'head:5'}\n",
     .answer = ":5: layers.2.attn.score: head:5 is for 5 devices, which do not divide the 8 of "
               "stage 0\nhint: in place of head:5, degrees that fit: 4 or 8\n"},
    {.file = "model: gpt3-1.3b\n"
             "cluster: dgx-a100\n"
             "batch: {global: 8, step: 8}\n"
             "schedule: interleaved\n"
             "pieces: 2\n"
             "stages: 2\n",
     .answer = ":4: interleaved needs a micro-batch for each of its 2 stages, and has 1\n"
               "hint: use 2 micro-batches: a global batch of 16\n"},
};

static const char *plan_path_of_test(void)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/weft-program-%ld.yaml", (long)getpid());
    return path;
}

static void write_plan(const char *text)
{
    FILE *file = fopen(plan_path_of_test(), "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void wrong_plans_are_refused(void **state)
{
    (void)state;
    static const char *const COMMANDS[] = {"simulate", "check", "show"};
    for (size_t i = 0; i < COUNT_OF(WRONG); i++) {
        char question[512], answer[512];
        const char *path = plan_path_of_test();
        if (WRONG[i].file)
            write_plan(WRONG[i].file);
        snprintf(answer, sizeof answer, "weft: %s%s", WRONG[i].file ? path : "", WRONG[i].answer);
        for (size_t c = 0; c < COUNT_OF(COMMANDS); c++) {
            int code;
            snprintf(question, sizeof question, "%s %s", COMMANDS[c],
                     WRONG[i].file ? path : WRONG[i].degrees);
            char *text = all_of(question, &code);
            assert_string_equal(text, answer);
            assert_int_equal(code, WEFT_BAD_INPUT);
            free(text);
        }
    }
    unlink(plan_path_of_test());
}

/* ---- the proof ------------------------------------------------------------------------------- */

static void plans_are_proved(void **state)
{
    (void)state;
    char *text = answer_to("check " PLANS "small-moe.yaml --prove");
    expect_in(text, "\nproved: the graph computes what the model does: 140 operators, 4 "
                    "micro-batches;\n");
    expect_in(text, " tasks where one device stands for its stage, ");
    expect_in(text, " tasks on 8 devices, each by itself\n");
    free(text);
    json_t *json = json_of("check gpt3-1.3b dgx-a100:512 --tp 8 --pp 4 --prove --json");
    const json_t *proved = json_object_get(json, "proved");
    assert_true(number(json_object_get(proved, "folded"), "tasks") > 0);
    assert_int_equal(number(json_object_get(proved, "folded"), "devices"), 4);
    assert_true(json_is_null(json_object_get(proved, "unfolded")));
    json_decref(json);
    json = json_of("check " PLANS "small-moe.yaml --json");
    assert_null(json_object_get(json, "proved"));
    json_decref(json);
}

/* 64 samples, 4 replicas of 2 at a time: 8 micro-batches. */
static void counts_are_those_of_the_plan(void **state)
{
    (void)state;
    json_t *json =
        json_of("simulate gpt3-1.3b dgx-a100 --tp 2 --microbatch 2 --global-batch 64 --json");
    assert_int_equal(json_integer_value(json_object_get(json, "micro_batches")), 8);
    assert_int_equal(json_integer_value(json_object_get(json, "global_batch")), 64);
    assert_int_equal(json_integer_value(json_object_get(json, "devices")), 8);
    double samples = json_real_value(json_object_get(json, "samples_per_s"));
    double tokens = json_real_value(json_object_get(json, "tokens_per_s"));
    double seconds = json_real_value(json_object_get(json, "iteration_s"));
    assert_true(fabs(tokens / samples - 2048) < 1e-6 && fabs(samples * seconds - 64) < 1e-6);
    const json_t *memory = json_array_get(json_object_get(json, "memory"), 0);
    assert_int_equal(json_integer_value(json_object_get(memory, "host")), 0);
    assert_true(json_integer_value(json_object_get(memory, "limit")) > INT64_C(70) << 30);
    double tflops = json_real_value(json_object_get(json, "tflops_per_device"));
    double share = json_real_value(json_object_get(json, "share_of_peak"));
    assert_true(fabs(tflops / share - 312) < 1e-6); /* of an A100 in 16 bits */
    double wall = json_real_value(json_object_get(json, "wall_s"));
    double compile = json_real_value(json_object_get(json, "compile_s"));
    double simulate = json_real_value(json_object_get(json, "simulate_s"));
    assert_true(fabs(wall - compile - simulate) < 1e-9); /* each is rounded to 12 digits */
    json_decref(json);
}

/* Only the second stage divides its backward passes: the same work, so no slower than where none does. */
static void stages_divide_their_own_passes(void **state)
{
    (void)state;
    static const char *const ORDERS[] = {
        "order:\n  - F0 F1 B0 B1\n  - F0 B0 F1 B1\n",
        "order:\n  - F0 F1 B0 B1\n  - F0 I0 W0 F1 I1 W1\n",
    };
    double seconds[COUNT_OF(ORDERS)], backward[COUNT_OF(ORDERS)];
    for (size_t i = 0; i < COUNT_OF(ORDERS); i++) {
        char folder[] = "/tmp/weft-order-XXXXXX", path[64], command[256];
        assert_non_null(mkdtemp(folder));
        snprintf(path, sizeof path, "%s/order.yaml", folder);
        assert_int_equal(file_write_text(path, ORDERS[i]), WEFT_OK);
        snprintf(command, sizeof command,
                 "simulate gpt3-350m dgx-a100:1x2 --pp 2 --global-batch 2 --schedule %s --json",
                 path);
        json_t *json = json_of(command);
        const json_t *second = json_array_get(json_object_get(json, "stages"), 1);
        seconds[i] = json_number_value(json_object_get(json, "iteration_s"));
        backward[i] =
            json_number_value(json_object_get(json_object_get(second, "time"), "backward"));
        json_decref(json);
        remove(path);
        rmdir(folder);
    }
    assert_true(seconds[1] > 0 && seconds[1] <= seconds[0] * 1.001);
    assert_true(backward[1] > 0 && fabs(backward[1] - backward[0]) < 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_those_of_the_plan),
        cmocka_unit_test(answers_add_up),
        cmocka_unit_test(waits_are_of_their_kind),
        cmocka_unit_test(people_are_told),
        cmocka_unit_test(answers_repeat),
        cmocka_unit_test(unfolded_is_the_same),
        cmocka_unit_test(a_trace_has_operators_and_memory),
        cmocka_unit_test(no_advice_is_what_the_plan_does),
        cmocka_unit_test(too_little_memory_is_no_answer),
        cmocka_unit_test(what_is_reserved_decides),
        cmocka_unit_test(wrong_plans_are_refused),
        cmocka_unit_test(plans_are_proved),
        cmocka_unit_test(stages_divide_their_own_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
