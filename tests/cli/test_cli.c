/* test_cli.c - the program as a user meets it: exit codes, what goes to which stream, help.
 *
 * Runs the built program as a process. What a command computes is tested in its room; here it only
 * matters that every command keeps the rules of cli.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "refusals.h"
#include "report/report.h"
#include "rounds.h"
#include "scratch_folder.h"
#include "without_blas.h"

enum { MAX_ARGS = 14 };

struct outcome {
    int code; /* exit code, or -1 if a signal ended it */
    char *out, *err;
};

static char *read_all(FILE *file)
{
    fseek(file, 0, SEEK_END);
    long len = ftell(file);
    rewind(file);
    char *text = calloc((size_t)len + 1, 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)len, file), (size_t)len);
    fclose(file);
    return text;
}

/* In the child: becomes the program. A negative `out_fd` stands for a closed standard output. */
static void become_program(const char *const *args, int out_fd, int err_fd)
{
    char *argv[MAX_ARGS + 2] = {strdup("weft")};
    for (int i = 0; i < MAX_ARGS && args[i]; i++)
        argv[i + 1] = strdup(args[i]);
    if (out_fd >= 0)
        dup2(out_fd, STDOUT_FILENO);
    else
        close(STDOUT_FILENO);
    dup2(err_fd, STDERR_FILENO);
    execv(WEFT_PROGRAM, argv);
    _exit(127);
}

static pid_t start_program(const char *const *args, int out_fd, int err_fd)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        become_program(args, out_fd, err_fd);
    return child;
}

static int wait_for_child(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int wait_for_program(const char *const *args, int out_fd, int err_fd)
{
    return wait_for_child(start_program(args, out_fd, err_fd));
}

static struct outcome run(const char *const *args)
{
    FILE *out = tmpfile(), *err = tmpfile();
    assert_true(out && err);
    struct outcome outcome = {.code = wait_for_program(args, fileno(out), fileno(err))};
    outcome.out = read_all(out);
    outcome.err = without_blas(read_all(err));
    return outcome;
}
#define RUN(...) run((const char *const[]){__VA_ARGS__, NULL})

static void forget(struct outcome outcome)
{
    free(outcome.out);
    free(outcome.err);
}

static void assert_fits_terminal(const char *text)
{
    char *copy = strdup(text), *rest = copy;
    for (char *line; (line = strsep(&rest, "\n"));)
        if (text_columns(line) > REPORT_COLUMNS)
            fail_msg("%zu columns: %s", text_columns(line), line);
    free(copy);
}

static const char *const COMMANDS[] = {
    "models",  "inspect", "clusters", "show",     "check",   "plan", "simulate", "train",
    "compare", "export",  "import",   "validate", "profile", "fit",  "days",     "checkpoint"};

static const char *const QUESTIONS[][MAX_ARGS] = {
    {"models"},
    {"models", "--family", "resnet"},
    {"inspect", "gpt3-13b"},
    {"inspect", "resnet-50", "--ops"},
    {"inspect", "gpt3-13b", "--on", "dgx-v100"},
    {"clusters"},
    {"clusters", "dgx-v100:4"},
    {"clusters", "dgx-v100:4", "--model", "gpt3-13b"},
    {"fit", WEFT_SOURCE_DIR "/tests/data/fit/nccl_tests.txt"},
    {"check", "gpt3-13b", "dgx-a100:4", "--tp", "8", "--pp", "2", "--global-batch", "64"},
    {"days", "gpt3-350m", "dgx-a100:1", "--global-batch", "64", "--tokens", "1e9", "--trials", "5"},
};

static const char *const *with_json(const char *const *question)
{
    static const char *args[MAX_ARGS + 2];
    size_t count = 0;
    for (; count < MAX_ARGS && question[count]; count++)
        args[count] = question[count];
    args[count++] = "--json";
    args[count] = NULL;
    return args;
}

static void help_lists_every_command(void **state)
{
    (void)state;
    struct outcome help = RUN("--help");
    assert_int_equal(help.code, WEFT_OK);
    assert_string_equal(help.err, "");
    for (size_t i = 0; i < COUNT_OF(COMMANDS); i++)
        assert_non_null(strstr(help.out, COMMANDS[i]));
    assert_fits_terminal(help.out);
    forget(help);
}

static void version_is_one_line(void **state)
{
    (void)state;
    struct outcome version = RUN("--version");
    assert_int_equal(version.code, WEFT_OK);
    assert_string_equal(version.out, "weft " WEFT_VERSION "\n");
    forget(version);
}

static void no_command_is_bad_input(void **state)
{
    (void)state;
    struct outcome nothing = run((const char *const[]){NULL});
    assert_int_equal(nothing.code, WEFT_BAD_INPUT);
    assert_string_equal(nothing.out, "");
    assert_non_null(strstr(nothing.err, "usage: weft"));
    forget(nothing);
}

static void unknown_command_suggests_the_nearest(void **state)
{
    (void)state;
    struct outcome near = RUN("inspekt", "gpt3-13b");
    assert_int_equal(near.code, WEFT_BAD_INPUT);
    assert_string_equal(near.out, "");
    assert_string_equal(near.err, "weft: no command is called 'inspekt'\n"
                                  "hint: did you mean 'inspect'?\n");
    forget(near);
    struct outcome far = RUN("zzzzzzzzzz");
    assert_int_equal(far.code, WEFT_BAD_INPUT);
    assert_non_null(strstr(far.err, "hint: `weft --help`"));
    forget(far);
}

static void every_help_has_an_example_and_fits(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(COMMANDS); i++) {
        char example[64];
        snprintf(example, sizeof example, "weft %s ", COMMANDS[i]);
        struct outcome help = RUN(COMMANDS[i], "--help");
        assert_int_equal(help.code, WEFT_OK);
        assert_string_equal(help.err, "");
        const char *examples = strcasestr(help.out, "example");
        if (!examples || !strstr(examples, example))
            fail_msg("no example in `weft %s --help`", COMMANDS[i]);
        assert_fits_terminal(help.out);
        forget(help);
    }
}

static void unknown_option_is_bad_input(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(COMMANDS); i++) {
        struct outcome outcome = RUN(COMMANDS[i], "--no-such-option");
        assert_int_equal(outcome.code, WEFT_BAD_INPUT);
        assert_string_equal(outcome.out, "");
        assert_non_null(strstr(outcome.err, "--no-such-option"));
        forget(outcome);
    }
}

/* Nobody is to start what does not fit. */
static void what_does_not_fit_is_not_written(void **state)
{
    (void)state;
    char file[] = "/tmp/weft-test-XXXXXX";
    int made = mkstemp(file);
    assert_true(made >= 0);
    close(made);
    assert_int_equal(unlink(file), 0);
    struct outcome plan = RUN("plan", "llama3-70b", "dgx-h100:1", "--global-batch", "8", "--dp",
                              "8", "--planner", "megatron", "--to", "megatron", "-o", file);
    assert_int_equal(plan.code, WEFT_NO_ANSWER);
    assert_non_null(strstr(plan.out, "not written, for no plan fits"));
    assert_fits_terminal(plan.out);
    assert_int_equal(access(file, F_OK), -1);
    forget(plan);
    plan = RUN("plan", "llama3-70b", "dgx-h100:1", "--global-batch", "8", "--dp", "8", "--planner",
               "megatron", "--for", "megatron");
    assert_int_equal(plan.code, WEFT_NO_ANSWER);
    assert_null(strstr(plan.out, "next: "));
    forget(plan);
}

static void answers_fit_a_terminal(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(QUESTIONS); i++) {
        struct outcome answer = run(QUESTIONS[i]);
        assert_string_equal(answer.err, "");
        assert_int_equal(answer.code, WEFT_OK);
        assert_true(strlen(answer.out) > 0);
        assert_fits_terminal(answer.out);
        forget(answer);
    }
}

/* Standard output is one JSON object and nothing else, and the same bytes every time. */
static void json_is_pure_and_repeats(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(QUESTIONS); i++) {
        struct outcome answer = run(with_json(QUESTIONS[i]));
        struct outcome again = run(with_json(QUESTIONS[i]));
        json_error_t error;
        json_t *json = json_loads(answer.out, JSON_REJECT_DUPLICATES, &error);
        assert_int_equal(answer.code, WEFT_OK);
        assert_string_equal(answer.err, "");
        if (!json)
            fail_msg("weft %s ... --json: line %d: %s", QUESTIONS[i][0], error.line, error.text);
        assert_true(json_is_object(json));
        assert_string_equal(answer.out, again.out);
        json_decref(json);
        forget(answer);
        forget(again);
    }
}

static void inspect_json_has_the_documented_fields(void **state)
{
    (void)state;
    struct outcome answer = RUN("inspect", "gpt3-13b", "--json");
    json_t *json = json_loads(answer.out, 0, NULL);
    double parameters = json_number_value(json_object_get(json, "parameters"));
    assert_true(parameters > 12e9 && parameters < 14e9);
    assert_true(json_number_value(json_object_get(json, "flops_per_sample")) > 0);
    assert_true(json_number_value(json_object_get(json, "activation_bytes_per_sample")) > 0);
    assert_int_equal(json_integer_value(json_object_get(json, "layers")), 40);
    json_decref(json);
    forget(answer);
}

/* A wrong name: exit code 2, a hint, and nothing on standard output, with --json or without. */
static void errors_go_to_stderr_with_a_hint(void **state)
{
    static const char *const WRONG[][MAX_ARGS] = {
        {"inspect", "gpt3-13c"},
        {"inspect", "no-such-folder/config.json"},
        {"inspect"},
        {"clusters", "dgx-v101:4"},
        {"clusters", "dgx-v100:0"},
        {"clusters", "dgx-v100:99999999999999999999"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(WRONG); i++) {
        struct outcome plain = run(WRONG[i]), json = run(with_json(WRONG[i]));
        assert_int_equal(plain.code, WEFT_BAD_INPUT);
        assert_int_equal(json.code, WEFT_BAD_INPUT);
        assert_string_equal(plain.out, "");
        assert_string_equal(json.out, "");
        assert_string_equal(plain.err, json.err);
        assert_memory_equal(plain.err, "weft", 4);
        if (!strstr(plain.err, "hint: ") && !strstr(plain.err, "--help") &&
            !strstr(plain.err, "No such file")) /* which says it all */
            fail_msg("weft %s: no hint in: %s", WRONG[i][0], plain.err);
        forget(plain);
        forget(json);
    }
}

/* The message after "weft: " or "weft COMMAND: ", and the line after it, which says what to do. */
static bool answered_as_expected(const struct refusal *refusal, const struct outcome *outcome)
{
    char *rest = outcome->err, *message = strsep(&rest, "\n");
    const char *hint = strsep(&rest, "\n"), *expected = refusal_words(refusal->hint);
    const char *after = hint ? refusal_behind(hint, "hint: ") : NULL;
    bool tries = hint && strncmp(hint, "Try `weft ", 10) == 0;
    hint = after ? after : tries ? "(try --help)" : "(none)";
    if (outcome->code == WEFT_BAD_INPUT && *outcome->out == '\0' &&
        strcmp(message, refusal->message) == 0 && strcmp(hint, expected) == 0)
        return true;
    print_error("%s:%d: weft %s: exit code %d\n<<< %s\n  = %s\nexpected\n<<< %s\n  = %s\n",
                refusal->golden, refusal->line, refusal->name, outcome->code, message, hint,
                refusal->message, expected);
    return false;
}

/* The cases of a golden file that are answered otherwise. */
static int answered_otherwise(const char *file)
{
    struct refusals list = refusals_read(file);
    int failed = 0;
    for (size_t i = 0; i < list.cases.len; i++) {
        const char *words[MAX_ARGS + 1] = {0};
        if (!is_tried(i))
            continue;
        char *rest = arena_copy_text(list.arena, list.cases.data[i].name);
        for (size_t k = 0; rest && k < MAX_ARGS; k++)
            words[k] = strsep(&rest, " ");
        assert_null(rest);
        struct outcome outcome = run(words);
        failed += !answered_as_expected(&list.cases.data[i], &outcome);
        forget(outcome);
    }
    arena_free(list.arena);
    return failed;
}

/* Wrong command lines: the exact words, exit code 2, and nothing on standard output. */
static void wrong_command_lines_are_explained(void **state)
{
    (void)state;
    assert_int_equal(chdir(WEFT_SOURCE_DIR), 0);
    int failed = answered_otherwise("tests/data/refusals/command_line.txt");
    failed += answered_otherwise("tests/data/refusals/options.txt");
    assert_int_equal(failed, 0);
}

static void misspelt_names_are_suggested(void **state)
{
    (void)state;
    struct outcome model = RUN("inspect", "gpt3-13c");
    assert_non_null(strstr(model.err, "'gpt3-13b'"));
    forget(model);
    struct outcome cluster = RUN("clusters", "dgx-v101:4");
    assert_non_null(strstr(cluster.err, "dgx-v100"));
    forget(cluster);
}

/* Predictions without the shipped databases are other ones: that is said once, and only then. */
static void missing_profiles_are_warned_of(void **state)
{
    (void)state;
    static const struct {
        const char *profiles; /* NULL: those that were built */
        bool warns;
    } CASES[] = {{"/nowhere/profiles", true}, {"none", false}, {NULL, false}};
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        if (CASES[i].profiles)
            setenv("WEFT_PROFILES", CASES[i].profiles, 1);
        else
            unsetenv("WEFT_PROFILES");
        struct outcome predicts =
            RUN("simulate", WEFT_SOURCE_DIR "/data/plans/tiny.yaml", "--json");
        struct outcome others = RUN("check", WEFT_SOURCE_DIR "/data/plans/tiny.yaml");
        assert_int_equal(predicts.code, WEFT_OK);
        assert_string_equal(others.err, "");
        if (CASES[i].warns) {
            assert_non_null(strstr(predicts.err, "/nowhere/profiles is missing"));
            assert_non_null(strstr(predicts.err, "`make`"));
            assert_ptr_equal(strchr(predicts.err, '\n') + 1, predicts.err + strlen(predicts.err));
        } else {
            assert_string_equal(predicts.err, "");
        }
        forget(predicts);
        forget(others);
    }
}

/* Every command that predicts says it, once. */
static void every_prediction_warns_of_missing_profiles(void **state)
{
    (void)state;
#define TINY WEFT_SOURCE_DIR "/data/plans/tiny.yaml"
    static const char *const PREDICTIONS[][8] = {
        {"plan", "gpt2", "dgx-a100:1", "--global-batch", "8", "--planner", "megatron"},
        {"share", TINY, TINY},
        {"days", TINY, "--tokens", "1e6"},
        {"compare", TINY, TINY},
        {"mcp"},
        {"inspect", "gpt2", "--on", "dgx-a100:1"},
        {"fit", "--runs", WEFT_SOURCE_DIR "/tests/data/runs/runs.csv"},
        {"validate", "no such dataset"},
        {"export", TINY, "--to", "chakra"},
    };
#undef TINY
    setenv("WEFT_PROFILES", "/nowhere/profiles", 1);
    for (size_t i = 0; i < COUNT_OF(PREDICTIONS); i++) {
        struct outcome outcome = run(PREDICTIONS[i]);
        const char *said = strstr(outcome.err, "/nowhere/profiles is missing");
        if (!said)
            fail_msg("%s says nothing: %s", PREDICTIONS[i][0], outcome.err);
        assert_null(strstr(said + 1, "/nowhere/profiles is missing"));
        forget(outcome);
    }
    unsetenv("WEFT_PROFILES");
}

/* An answer that could not be written is a failure, whether the stream is closed or the disk is
 * full. */
static void unwritable_output_is_a_failure(void **state)
{
    (void)state;
    int full = open("/dev/full", O_WRONLY), null = open("/dev/null", O_WRONLY);
    assert_true(full >= 0 && null >= 0);
    for (size_t i = 0; i < COUNT_OF(QUESTIONS); i++) {
        assert_int_equal(wait_for_program(QUESTIONS[i], full, null), WEFT_FAILURE);
        assert_int_equal(wait_for_program(QUESTIONS[i], -1, null), WEFT_FAILURE);
        assert_int_equal(wait_for_program(with_json(QUESTIONS[i]), full, null), WEFT_FAILURE);
    }
    for (size_t i = 0; i < COUNT_OF(COMMANDS); i++) {
        const char *const help[] = {COMMANDS[i], "--help", NULL};
        assert_int_equal(wait_for_program(help, full, null), WEFT_FAILURE);
    }
    close(full);
    close(null);
}

/* What every search stands on is asked often enough to end: inside one setting of galvatron's, within one
 * elimination of autoddl's exact search, and between simulations of a deep model. What is half done is no plan, so
 * there may be no answer. */
static void interrupted_searches_end(void **state)
{
    (void)state;
    static const char *const SEARCHES[][MAX_ARGS] = {
        {"plan", "gpt3-1.3b", "dgx-a100:2", "--set", "layers=3000", "--global-batch", "64",
         "--planner", "galvatron"},
        {"plan", "gpt3-1.3b", "dgx-a100:2", "--set", "layers=3000", "--global-batch", "64"},
        {"plan", "gpt3-13b", "dgx-h100:32", "--global-batch", "1024", "--planner", "autoddl",
         "--search", "exact"},
    };
    pid_t child[COUNT_OF(SEARCHES)];
    int null = open("/dev/null", O_WRONLY);
    for (size_t i = 0; i < COUNT_OF(SEARCHES); i++)
        child[i] = start_program(SEARCHES[i], null, null);
    usleep(2500000);
    for (size_t i = 0; i < COUNT_OF(SEARCHES); i++)
        kill(child[i], SIGINT);
    for (size_t i = 0; i < COUNT_OF(SEARCHES); i++) {
        int status, ended = 0;
        for (int tenths = 0; !ended && tenths < 600; tenths++) {
            ended = waitpid(child[i], &status, WNOHANG) == child[i];
            usleep(ended ? 0 : 100000);
        }
        if (!ended) {
            kill(child[i], SIGKILL);
            waitpid(child[i], &status, 0);
        }
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) <= WEFT_NO_ANSWER);
    }
    close(null);
}

/* Ctrl-C ends a search, not the program: the best plan so far is the answer. A signal that comes before the
 * search has begun ends it all, and one before the first plan is found leaves no answer: it is then given more
 * time. */
static void interrupted_searches_answer(void **state)
{
    (void)state;
    static const char *const SEARCH[] = {"plan", "gpt3-13b",  "dgx-a100:16", "--global-batch",
                                         "512",  "--planner", "aceso",       "--threads",
                                         "1",    "--json",    NULL};
    int code = -1;
    json_t *json = NULL;
    for (int tenths = 5; tenths <= 80 && code != WEFT_OK; tenths *= 2) {
        FILE *out = tmpfile(), *err = tmpfile();
        assert_true(out && err);
        pid_t child = start_program(SEARCH, fileno(out), fileno(err));
        usleep((useconds_t)tenths * 100000);
        kill(child, SIGINT);
        code = wait_for_child(child);
        char *text = read_all(out);
        json = json_loads(text, 0, NULL);
        free(text);
        fclose(err);
    }
    assert_int_equal(code, WEFT_OK);
    assert_true(json_is_true(json_object_get(json, "stopped")));
    assert_true(json_is_object(json_object_get(json, "plan")));
    json_decref(json);
}

/* At whatever moment the signal comes: a whole answer, or a sentence that says why there is none. */
static void searches_stand_a_signal_at_any_moment(void **state)
{
    (void)state;
    static const char *const SEARCHES[][MAX_ARGS] = {
        {"plan", "gpt3-13b", "dgx-h100:32", "--global-batch", "1024", "--json"},
        {"plan", "gpt3-13b", "dgx-a100:16", "--global-batch", "512", "--planner", "aceso",
         "--json"},
        {"plan", "mixtral-8x7b", "dgx-h100:32", "--global-batch", "1024", "--quick", "--json"},
        {"plan", "gpt3-13b", "dgx-h100:32", "--global-batch", "1024", "--planner", "autoddl",
         "--json"},
    };
    struct rng rng;
    rng_seed(&rng, 18);
    for (int i = 0; i < rounds_of(20); i++) {
        FILE *out = tmpfile(), *err = tmpfile();
        int status;
        assert_true(out && err);
        pid_t child = start_program(SEARCHES[i % 4], fileno(out), fileno(err));
        usleep((useconds_t)rng_below(&rng, 600000));
        kill(child, SIGINT);
        assert_int_equal(waitpid(child, &status, 0), child);
        char *answer = read_all(out), *said = read_all(err);
        json_t *json = json_loads(answer, 0, NULL);
        if (WIFSIGNALED(status)) /* before the program has begun to listen */
            assert_true(WTERMSIG(status) == SIGINT && *answer == '\0');
        else if (WEXITSTATUS(status) == WEFT_OK)
            assert_true(json_is_object(json_object_get(json, "plan")));
        else
            assert_true(WEXITSTATUS(status) == WEFT_NO_ANSWER && strstr(said, "weft: ") == said);
        json_decref(json);
        free(answer);
        free(said);
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Each way through the program, with threads and without: says what is missing, and ends with 3. */
static void too_little_memory_is_a_failure(void **state)
{
    static const char *const CASES[][MAX_ARGS] = {
        {"inspect", "gpt3-13b"},
        {"simulate", "gpt3-13b", "dgx-a100:4", "--global-batch", "64"},
        {"plan", "gpt3-13b", "dgx-a100:4", "--global-batch", "64", "--planner", "aceso"},
        {"plan", "gpt3-13b", "dgx-a100:4", "--global-batch", "64", "--planner", "autoddl"},
        {"train", WEFT_SOURCE_DIR "/data/plans/tiny.yaml", "--data",
         WEFT_SOURCE_DIR "/data/text/harbour.txt", "--steps", "1"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        setenv("WEFT_MAX_MEMORY", i ? "1MiB" : "16KiB", 1);
        struct outcome outcome = run(CASES[i]);
        if (outcome.code != WEFT_FAILURE || !strstr(outcome.err, "this needs more than") ||
            !strstr(outcome.err, "hint: ask for less"))
            fail_msg("case %zu: exit code %d, %s", i, outcome.code, outcome.err);
        forget(outcome);
    }
    unsetenv("WEFT_MAX_MEMORY");
}

/* ---- outputs that are inputs ----------------------------------------------------------------- */

static const char PLAN[] = "model: model.yaml\ncluster: cluster.yaml\n"
                           "batch: {global: 16, micro: 8}\ndtype: fp32\ndegrees: {dp: 2}\n";

/* A plan with its model and cluster beside it, a link to each, and a second name of the plan. */
static void put_plan(struct scratch *scratch)
{
    char *text;
    size_t len;
    assert_ok(file_read(scratch->arena, WEFT_SOURCE_DIR "/data/models/gpt-tiny.yaml", 1 << 20,
                        &text, &len));
    put_file(scratch, "model.yaml", text, len);
    assert_ok(file_read(scratch->arena, WEFT_SOURCE_DIR "/data/clusters/cores.yaml", 1 << 20, &text,
                        &len));
    put_file(scratch, "cluster.yaml", text, len);
    const char *plan = put_file(scratch, "plan.yaml", PLAN, sizeof PLAN - 1);
    assert_int_equal(symlink("plan.yaml", scratch_path(scratch, "link")), 0);
    assert_int_equal(link(plan, scratch_path(scratch, "name")), 0);
}

static void outputs_are_no_inputs(void **state)
{
    static const char *const CASES[][MAX_ARGS] = {
        {"plan", "model.yaml", "cluster.yaml", "-o", "model.yaml"},
        {"plan", "model.yaml", "cluster.yaml", "--report=cluster.yaml"},
        {"plan", "model.yaml", "cluster.yaml", "--planner", "aceso", "--log", "model.yaml"},
        {"simulate", "plan.yaml", "--trace", "plan.yaml"},
        {"simulate", "plan.yaml", "--trace", "link"},
        {"simulate", "plan.yaml", "--report", "./name"},
        {"simulate", "plan.yaml", "--report", "model.yaml"}, /* which the plan names */
        {"simulate", "plan.yaml", "--trace", "new", "--report", "new"},
        {"show", "link", "-oplan.yaml"},
        {"show", "plan.yaml", "-o", "cluster.yaml"},
        {"export", "plan.yaml", "--to", "megatron", "--output", "name"},
        {"import", "plan.yaml", "cluster.yaml", "-o", "plan.yaml"},
        {"train", "plan.yaml", "--data", "cluster.yaml", "--steps", "1", "--log", "cluster.yaml"},
        {"train", "plan.yaml", "--data", "cluster.yaml", "--steps", "1", "--trace", "model.yaml"},
    };
    struct scratch *scratch = *state;
    char *before, *after, home[4096];
    size_t len;
    put_plan(scratch);
    assert_non_null(getcwd(home, sizeof home));
    assert_int_equal(chdir(scratch->folder), 0);
    assert_ok(file_read(scratch->arena, "model.yaml", 1 << 20, &before, &len));
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct outcome outcome = run(CASES[i]);
        if (outcome.code != WEFT_BAD_INPUT || !strstr(outcome.err, ", which the command "))
            fail_msg("case %zu: exit code %d, %s", i, outcome.code, outcome.err);
        forget(outcome);
    }
    assert_ok(file_read(scratch->arena, "model.yaml", 1 << 20, &after, &len));
    assert_string_equal(after, before);
    assert_ok(file_read(scratch->arena, "plan.yaml", 1 << 20, &after, &len));
    assert_string_equal(after, PLAN);
    forget(RUN("show", "plan.yaml", "-o",
               "new")); /* what is there already, and no input, is replaced */
    struct outcome again = RUN("show", "plan.yaml", "-o", "new");
    assert_int_equal(again.code, WEFT_OK);
    forget(again);
    assert_int_equal(chdir(home), 0);
}

/* The command that is offered says its own file and framework once; a release stays as it was asked for. */
static void the_next_command_can_be_typed(void **state)
{
    (void)state;
#define QUESTION                                                                                   \
    "plan", "gpt2", "dgx-a100:1x2", "--set", "layers=1", "--global-batch", "2", "--quick"
    static const struct {
        const char *args[MAX_ARGS], *next;
    } CASES[] = {
        {{QUESTION, "--for", "megatron", "--output=/dev/null"}, "--quick --to megatron -o FILE\n"},
        {{QUESTION, "-o", "/dev/null", "--for=fsdp"}, "--quick --to fsdp -o FILE\n"},
        {{QUESTION, "--for", "megatron@0.16"},
         "--quick --for megatron@0.16 --to megatron -o FILE\n"},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct outcome outcome = run(CASES[i].args);
        const char *next = strstr(outcome.out, "next: ");
        assert_int_equal(outcome.code, WEFT_OK);
        assert_non_null(next);
        assert_non_null(strstr(next, CASES[i].next));
        forget(outcome);
    }
}

/* The value of an option is no option, and what follows `--name=value` is none of its. */
static void values_are_told_from_options(void **state)
{
    (void)state;
    struct outcome outcome = RUN("simulate", "gpt3-1.3b", "dgx-a100", "--tp=2", "--microbath", "2");
    assert_int_equal(outcome.code, WEFT_BAD_INPUT);
    assert_non_null(strstr(outcome.err, "no option is called '--microbath'\n"
                                        "hint: did you mean '--microbatch'?"));
    forget(outcome);
    outcome = RUN("simulate", "gpt3-1.3b", "dgx-a100", "--tp", "--micro-batch");
    assert_int_equal(outcome.code, WEFT_BAD_INPUT);
    assert_null(strstr(outcome.err, "no option is called"));
    forget(outcome);
}

static void options_with_the_word_in_their_names_are_named(void **state)
{
    (void)state;
    static const char *const TRIED[][2] = {
        {"--batch=4", "hint: did you mean '--microbatch' or '--global-batch'?"},
        {"--sequence=4", "hint: did you mean '--seq'?"},
        {"--precision=fp8", "hint: did you mean '--dtype'?"},
        {"--gpus=4", "hint: devices are the cluster's: 'h100:64' has 64"},
        {"--zz=4", "--help` lists the options"}};
    for (size_t i = 0; i < COUNT_OF(TRIED); i++) {
        struct outcome outcome = RUN("simulate", "gpt3-1.3b", "dgx-a100", TRIED[i][0]);
        assert_int_equal(outcome.code, WEFT_BAD_INPUT);
        assert_non_null(strstr(outcome.err, TRIED[i][1]));
        forget(outcome);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_told_from_options),
        cmocka_unit_test(options_with_the_word_in_their_names_are_named),
        cmocka_unit_test(the_next_command_can_be_typed),
        cmocka_unit_test(help_lists_every_command),
        cmocka_unit_test(version_is_one_line),
        cmocka_unit_test(no_command_is_bad_input),
        cmocka_unit_test(unknown_command_suggests_the_nearest),
        cmocka_unit_test(every_help_has_an_example_and_fits),
        cmocka_unit_test(unknown_option_is_bad_input),
        cmocka_unit_test(answers_fit_a_terminal),
        cmocka_unit_test(what_does_not_fit_is_not_written),
        cmocka_unit_test(json_is_pure_and_repeats),
        cmocka_unit_test(inspect_json_has_the_documented_fields),
        cmocka_unit_test(errors_go_to_stderr_with_a_hint),
        cmocka_unit_test(wrong_command_lines_are_explained),
        cmocka_unit_test(misspelt_names_are_suggested),
        cmocka_unit_test(missing_profiles_are_warned_of),
        cmocka_unit_test(every_prediction_warns_of_missing_profiles),
        cmocka_unit_test(unwritable_output_is_a_failure),
        cmocka_unit_test(interrupted_searches_answer),
        cmocka_unit_test(searches_stand_a_signal_at_any_moment),
        cmocka_unit_test(too_little_memory_is_a_failure),
        cmocka_unit_test(interrupted_searches_end),
        cmocka_unit_test_setup_teardown(outputs_are_no_inputs, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests_name("cli", tests, NULL, NULL);
}
