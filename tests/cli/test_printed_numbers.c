/* test_printed_numbers.c - every number of a table or a sentence is the one that JSON has under its key.
 *
 *   P1  Each row of PRINTED names a place in what a command prints, and the key of the same quantity in what it answers
 *       with --json: the two agree within half of the last digit that is printed. A number in the wrong unit, column or
 *       line, or the number of something else, does not.
 *
 *   P2  Each row of FLAGS is a flag and what is in JSON by it: as long as a flag reaches the plan or the course, its value
 *       comes back; without the flag the answer is another one.
 *
 *   P3  Rows of a breakdown are rounded so that they add up: the sum of the first n of them, for every n, is JSON's within half
 *       of the last digit, in seconds and in per cent.
 *
 * A place is the line (the occurrence-th one that contains a text), its cell (cells are two blanks apart) and the number
 * in the cell, all counted from 0. A key is a path through objects and lists; several with + between them are added.
 */
#include <ctype.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "one_arena.h"
#include "program.h"

#define INSPECT  "inspect gpt3-1.3b"
#define SHOW     "show gpt3-1.3b dgx-a100 --tp 2 --pp 2"
#define SIMULATE "simulate gpt3-1.3b dgx-a100 --tp 2 --pp 2 --global-batch 32"
#define DAYS     "days gpt3-13b dgx-a100:4 --tp 8 --zero 1 --global-batch 64 --tokens 300e9 --trials 8"
#define COMPARE  "compare gpt3-1.3b dgx-a100:1 --global-batch 32 --over tp=1,2"
#define CLUSTERS "clusters dgx-a100:2"
#define MODELS   "models"
#define JOB      WEFT_SOURCE_DIR "/data/plans/gpt3-1.3b.yaml"
#define SHARE                                                                                      \
    "share " JOB " " JOB " --on " WEFT_SOURCE_DIR "/data/clusters/two-leaves.yaml --place spread"

#define COMPUTED(s)                                                                                \
    "stages." s ".time.forward+stages." s ".time.backward+stages." s ".time.optimizer"
#define SENT(s) "stages." s ".time.tp_comm+stages." s ".time.dp_comm+stages." s ".time.pp_comm"

static const struct {
    const char *command, *line;
    int occurrence, cell, number;
    const char *key;
    double factor; /* of what JSON has, in what the text's unit counts; 0: 1 */
} PRINTED[] = {
    {INSPECT, " parameters, ", 0, 0, 0, "parameters"},
    {INSPECT, " parameters, ", 0, 0, 1, "layers"},
    {INSPECT, " parameters, ", 0, 0, 2, "operators"},
    {INSPECT, " positions", 0, 0, 4, "seq"},
    {INSPECT, "embedding  ", 0, 2, 0, "tree.0.parameters"},
    {INSPECT, "embedding  ", 0, 5, 0, "tree.0.kept_bytes_per_sample"},
    {INSPECT, "total per sample", 0, 1, 0, "parameters"},
    {INSPECT, "total per sample", 0, 3, 0, "flops_per_sample"},
    {INSPECT, "total per sample", 0, 5, 0, "kept_bytes_per_sample"},
    {INSPECT, "training a sample", 0, 0, 0, "training_flops.forward"},
    {INSPECT, "training a sample", 0, 0, 1,
     "training_flops.backward_input+training_flops.backward_weight"},

    {SHOW, "samples in", 0, 0, 0, "global_batch"},
    {SHOW, "samples in", 0, 0, 1, "micro_batches"},
    {SHOW, "samples per step", 0, 0, 4, "step_samples"},
    {SHOW, "embedding to layers", 0, 4, 0, "stages.0.parts.0.operators"},
    {SHOW, "embedding to layers", 0, 5, 0, "stages.0.parameters"},
    {SHOW, "embedding to layers", 0, 6, 0, "stages.0.in_flight"},
    {SHOW, "to loss", 0, 5, 0, "stages.1.parameters"},
    {SHOW, "    0  ", 2, 1, 0, "stages.0.memory.weights_bytes"},
    {SHOW, "    0  ", 2, 2, 0, "stages.0.memory.gradients_bytes"},
    {SHOW, "    0  ", 2, 3, 0, "stages.0.memory.optimizer_bytes"},
    {SHOW, "    0  ", 2, 4, 0, "stages.0.memory.activations_bytes"},
    {SHOW, "    0  ", 2, 5, 0, "stages.0.memory.workspace_bytes"},
    {SHOW, "    0  ", 2, 6, 0, "stages.0.memory.total_bytes"},
    {SHOW, "    1  ", 1, 6, 0, "stages.1.memory.total_bytes"},
    {SHOW, "stage  weights", 0, 7, 0, "stages.0.memory.limit_bytes"},

    {SIMULATE, "iteration   ", 0, 1, 0, "iteration_s"},
    {SIMULATE, "iteration   ", 0, 1, 1, "samples_per_s"},
    {SIMULATE, "iteration   ", 0, 1, 2, "tokens_per_s"},
    {SIMULATE, "each device", 0, 0, 0, "tflops_per_device", 1e12},
    {SIMULATE, "each device", 0, 0, 1, "share_of_peak"},
    {SIMULATE, "how sure", 0, 1, 0, "interval.low_s"},
    {SIMULATE, "how sure", 0, 1, 1, "interval.high_s"},
    {SIMULATE, "how sure", 0, 1, 4, "interval.runs"},
    {SIMULATE, "    0  ", 0, 2, 0, COMPUTED("0")},
    {SIMULATE, "    0  ", 0, 3, 0, SENT("0")},
    {SIMULATE, "    0  ", 0, 4, 0, "stages.0.time.bubble"},
    {SIMULATE, "    1  ", 0, 2, 0, COMPUTED("1")},

    {DAYS, "% effective", 0, 0, 0, "days"},
    {DAYS, "% effective", 0, 0, 1, "effective"},
    {DAYS, "% effective", 0, 0, 2, "iterations"},
    {DAYS, "% effective", 0, 0, 3, "iteration_s"},
    {DAYS, "computing  ", 0, 1, 0, "parts.computing"},
    {DAYS, "checkpoints  ", 0, 1, 0, "parts.checkpoints"},
    {DAYS, "computed again", 0, 1, 0, "parts.again"},
    {DAYS, "noticing failures", 0, 1, 0, "parts.noticing"},
    {DAYS, "all  ", 0, 1, 0, "days"},
    {DAYS, "played out", 0, 1, 0, "played_out.mean_days"},
    {DAYS, "played out", 0, 1, 1, "played_out.error_days"},
    {DAYS, "played out", 0, 1, 2, "played_out.trials"},
    {DAYS, "played out", 0, 1, 4, "played_out.p5_days"},
    {DAYS, "played out", 0, 1, 6, "played_out.p95_days"},
    {DAYS, "failures     ", 0, 1, 0, "mttf_s"},
    {DAYS, "failures     ", 0, 1, 1, "failures"},
    {DAYS, "spares  ", 0, 1, 0, "spares"},
    {DAYS, "checkpoint  ", 0, 1, 0, "checkpoint.bytes"},
    {DAYS, "checkpoint  ", 0, 1, 2, "checkpoint.stands_still_s"},
    {DAYS, "every ", 0, 0, 0, "checkpoint.interval_s"},
    {DAYS, "every ", 0, 0, 2, "checkpoint.young_s"},
    {DAYS, "every ", 0, 0, 3, "checkpoint.daly_s"},
    {DAYS, "every ", 0, 0, 4, "checkpoint.exact_s"},
    {DAYS, "devices  ", 0, 1, 0, "bill.device_hours"},
    {DAYS, "money  ", 0, 1, 0, "bill.money"},
    {DAYS, "money  ", 0, 1, 1, "bill.price_per_hour"},
    {DAYS, "energy  ", 0, 1, 0, "bill.kwh", 1e3},
    {DAYS, "energy  ", 0, 1, 1, "bill.watts"},

    {SHARE, "0 gpt3", 0, 2, 0, "jobs.0.alone_s"},
    {SHARE, "0 gpt3", 0, 3, 0, "jobs.0.shared_s"},
    {SHARE, "0 gpt3", 0, 4, 0, "jobs.0.slowdown"},
    {SHARE, "0 gpt3", 0, 5, 0, "jobs.0.longest_s"},
    {SHARE, "0 gpt3", 0, 6, 1, "jobs.0.held_s"},

    {COMPARE, "1   ", 0, 1, 0, "rows.0.prediction.iteration_s"},
    {COMPARE, "1   ", 0, 2, 0, "rows.0.prediction.samples_per_s"},
    {COMPARE, "1   ", 0, 4, 0, "rows.0.prediction.tflops_per_device"},
    {COMPARE, "2   ", 0, 1, 0, "rows.1.prediction.iteration_s"},
    {COMPARE, "2   ", 0, 2, 0, "rows.1.prediction.samples_per_s"},

    {CLUSTERS, "nodes of", 0, 0, 1, "nodes"},
    {CLUSTERS, "nodes of", 0, 0, 2, "node.devices"},
    {CLUSTERS, "memory: ", 0, 0, 0, "device.memory_bytes"},
    {CLUSTERS, "memory: ", 0, 0, 1, "device.memory_bytes_per_s"},
    {CLUSTERS, "memory: ", 0, 0, 2, "device.host_bytes_per_s"},
    {CLUSTERS, "peak TFLOP/s", 0, 0, 1, "device.flops.fp32", 1e-12},

    {MODELS, "gpt3-350m", 0, 2, 0, "models.0.layers"},
    {MODELS, "gpt3-350m", 0, 3, 0, "models.0.parameters"},
    {MODELS, "gpt3-1.3b", 0, 2, 0, "models.1.parameters"},
};

/* ---- the text -------------------------------------------------------------------------------- */

/* The line, without its end, in the arena. */
static char *line_of(const char *text, const char *words, int occurrence)
{
    for (const char *at = text; at && *at; at = strchr(at, '\n') + 1) {
        size_t len = strcspn(at, "\n");
        char *line = arena_printf(arena, "%.*s", (int)len, at);
        if (strstr(line, words) && occurrence-- == 0)
            return line;
        if (at[len] == '\0')
            break;
    }
    fail_msg("no line with '%s' in\n%s", words, text);
    return NULL;
}

static char *cell_of(char *line, int cell)
{
    char *at = line + strspn(line, " ");
    for (; cell > 0; cell--) {
        char *gap = strstr(at, "  ");
        assert_non_null(gap);
        at = gap + strspn(gap, " ");
    }
    char *end = strstr(at, "  ");
    if (end)
        *end = '\0';
    return at;
}

static const struct {
    const char *word;
    double factor;
} UNITS[] = {
    {"KiB", 0x1p10}, {"MiB", 0x1p20},   {"GiB", 0x1p30}, {"TiB", 0x1p40}, {"GB/s", 1e9},
    {"TB/s", 1e12},  {"ms", 1e-3},      {"us", 1e-6},    {"min", 60},     {"h", 3600},
    {"%", 0.01},     {"K", 1e3},        {"M", 1e6},      {"B", 1e9},      {"GFLOP", 1e9},
    {"TFLOP", 1e12}, {"TFLOP/s", 1e12}, {"MWh", 1e6},
};

static double unit_of(const char *word)
{
    size_t len = strcspn(word, " ,:;");
    for (size_t i = 0; i < COUNT_OF(UNITS); i++)
        if (strlen(UNITS[i].word) == len && strncmp(word, UNITS[i].word, len) == 0)
            return UNITS[i].factor;
    return 1;
}

/* The number, and half of its last digit. */
static double number_in(const char *cell, int number, double *half)
{
    const char *at = cell;
    for (int seen = 0;; seen++) {
        char digits[64] = "";
        size_t used = 0, decimals = 0;
        at += strcspn(at, "0123456789");
        if (*at == '\0')
            fail_msg("'%s' has no number %d", cell, number);
        bool fraction = false;
        for (; isdigit((unsigned char)*at) ||
               ((*at == '.' || *at == ',') && isdigit((unsigned char)at[1]));
             at++) {
            decimals += fraction;
            fraction |= *at == '.';
            if (*at != ',' && used + 1 < sizeof digits)
                digits[used++] = *at;
        }
        if (seen < number)
            continue;
        double unit = unit_of(*at == ' ' ? at + 1 : at);
        *half = 0.5001 * pow(10, -(double)decimals) * unit;
        return strtod(digits, NULL) * unit;
    }
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static double value_at(const json_t *json, char *path)
{
    char *rest = path, *name;
    while ((name = strsep(&rest, ".")) != NULL)
        json = json_is_array(json) ? json_array_get(json, (size_t)atoi(name))
                                   : json_object_get(json, name);
    if (!json_is_number(json))
        fail_msg("no number at the end of %s", path);
    return json_number_value(json);
}

static double sum_at(const json_t *json, const char *key)
{
    char *rest = arena_copy_text(arena, key), *path;
    double sum = 0;
    while ((path = strsep(&rest, "+")) != NULL)
        sum += value_at(json, path);
    return sum;
}

static void printed_numbers_are_those_of_json(void **state)
{
    (void)state;
    const char *command = "";
    char *text = NULL;
    json_t *json = NULL;
    int wrong = 0;
    for (size_t i = 0; i < COUNT_OF(PRINTED); i++) {
        if (strcmp(PRINTED[i].command, command) != 0) {
            free(text);
            json_decref(json);
            command = PRINTED[i].command;
            text = answer_to(command);
            json = json_of(arena_printf(arena, "%s --json", command));
        }
        double half, factor = PRINTED[i].factor > 0 ? PRINTED[i].factor : 1;
        char *line = line_of(text, PRINTED[i].line, PRINTED[i].occurrence);
        const char *whole = arena_copy_text(arena, line);
        double shown = number_in(cell_of(line, PRINTED[i].cell), PRINTED[i].number, &half);
        double known = sum_at(json, PRINTED[i].key) * factor;
        if (!(fabs(shown - known) <= half + 1e-9 * fabs(known))) {
            print_message("%s: %s is %.10g, and printed as %.10g in\n%s\n", command, PRINTED[i].key,
                          known, shown, whole);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
    free(text);
    json_decref(json);
}

/* ---- rows that add up (P3) ------------------------------------------------------------------- */

static void sums_of_a_breakdown_are_those_of_json(void **state)
{
    (void)state;
    char *text = answer_to(SIMULATE);
    json_t *json = json_of(SIMULATE " --json"), *value;
    double iteration = json_number_value(json_object_get(json, "iteration_s"));
    double shown[2] = {0}, known = 0;
    const char *key;
    int rows = 0;
    json_object_foreach(json_object_get(json, "breakdown"), key, value)
    {
        known += json_number_value(value);
        if (json_number_value(value) <= 0)
            continue;
        const double of[2] = {1, iteration};
        for (int i = 0; i < 2; i++) {
            char *line = line_of(text, arena_printf(arena, "%s  ", key), 0);
            double half;
            shown[i] += number_in(cell_of(line, 1 + i), 0, &half);
            if (!(fabs(shown[i] - known / of[i]) <= half + 1e-9))
                fail_msg("up to %s: %.10g, and printed as %.10g", key, known / of[i], shown[i]);
        }
        rows++;
    }
    assert_true(rows > 5 && fabs(known - iteration) < 1e-9);
    free(text);
    json_decref(json);
}

/* ---- flags (P2) ------------------------------------------------------------------------------ */

#define UNEVEN_JOBS                                                                                \
    "share " JOB " " WEFT_SOURCE_DIR "/data/plans/autoddl.yaml --on " WEFT_SOURCE_DIR              \
    "/data/clusters/two-leaves.yaml"
#define SHORT_DAYS "days gpt3-1.3b dgx-a100:2 --tp 8 --global-batch 64 --tokens 300e9 --trials 0"

static const struct {
    const char *command, *flag, *key, *value;
} FLAGS[] = {
    {SHOW, "--global-batch 64", "global_batch", "64"},
    {SHOW, "--microbatch 2", "step_samples", "4"},
    {SHOW, "--dtype fp16", "dtype", "fp16"},
    {SHOW, "--policy distributed", "policy", "distributed"},
    {SHOW, "--schedule gpipe", "schedule", "gpipe"},
    {SHOW, "--virtual 2 --global-batch 8", "pieces", "2"},
    {SHOW, "--segments 2", "schedule", "aiao"},
    {SHOW, "--overlap tensor", "overlap.1", "none"},
    {SHOW, "--bucket 50MiB", "bucket_bytes", "52428800"},
    {SHOW, "--whole-sends", "whole_sends", "true"},
    {SHOW, "--software megatron-core-0.16", "software", "megatron-core-0.16"},
    {SHOW, "--memory 8", "stages.0.memory.limit_bytes", "8589934592"},
    {SHOW, "--optimizer sgd", "stages.0.memory.optimizer_bytes", "1435385856"},
    {SHOW, "--zero 1", "tree.0.shard", "1"},
    {SHOW, "--recompute full", "tree.1.recompute", "true"},
    {SHOW, "--dp 4 --pp 1", "stages.1.devices", "none"},
    {SHOW, "--pipeline-layout 'Et*4|t*20L'", "stages.0.parts.0.until", "layers.3"},
    {SHOW, "--set layers=12", "stages.0.parts.0.until", "layers.5"},
    {UNEVEN_JOBS, "--place packed", "jobs.0.nodes.0", "0"},
    {SHORT_DAYS, "--spares 3", "spares", "3"},
    {SHORT_DAYS, "--price 2.5", "bill.price_per_hour", "2.5"},
    {SHORT_DAYS, "--watts 250", "bill.watts", "250"},
    {SHORT_DAYS, "--saving async", "checkpoint.saving", "async"},
    {SHORT_DAYS, "--trials 3", "played_out.trials", "3"},
    {SHORT_DAYS, "--samples 64000 --tokens 0", "iterations", "1000"},
};

/* What stands there, as text. */
static const char *found_at(const json_t *json, const char *key)
{
    char *rest = arena_copy_text(arena, key), *name;
    while (json && (name = strsep(&rest, ".")) != NULL)
        json = json_is_array(json) ? json_array_get(json, (size_t)atoi(name))
                                   : json_object_get(json, name);
    if (json_is_string(json))
        return arena_copy_text(arena, json_string_value(json));
    if (json_is_boolean(json))
        return json_is_true(json) ? "true" : "false";
    return json_is_number(json) ? arena_printf(arena, "%.12g", json_number_value(json)) : "none";
}

static void flags_reach_the_answer(void **state)
{
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < COUNT_OF(FLAGS); i++) {
        json_t *plain = json_of(arena_printf(arena, "%s --json", FLAGS[i].command));
        json_t *with =
            json_of(arena_printf(arena, "%s %s --json", FLAGS[i].command, FLAGS[i].flag));
        const char *found = found_at(with, FLAGS[i].key), *before = found_at(plain, FLAGS[i].key);
        if (strcmp(found, FLAGS[i].value) != 0 || strcmp(before, FLAGS[i].value) == 0) {
            print_message("%s %s: %s is %s, and was %s without it\n", FLAGS[i].command,
                          FLAGS[i].flag, FLAGS[i].key, found, before);
            wrong++;
        }
        json_decref(plain);
        json_decref(with);
    }
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(printed_numbers_are_those_of_json),
                                       cmocka_unit_test(sums_of_a_breakdown_are_those_of_json),
                                       cmocka_unit_test(flags_reach_the_answer)};
    return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
