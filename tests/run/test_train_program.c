/* test_train_program.c - `weft train` as a process: killed, stopped, refused, over MPI; and its trace
 * compared with the prediction. */
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "program.h"

#include "run/run.h"

#include "mpirun.h"
#include "scratch_folder.h"

#define PLAN                                                                                       \
    "'" WEFT_SOURCE_DIR "/data/models/gpt-tiny.yaml' '" WEFT_SOURCE_DIR                            \
    "/data/clusters/cores.yaml' --set hidden=32 --set heads=2 --set layers=2 --seq 16 "            \
    "--microbatch 2 --data '" WEFT_SOURCE_DIR "/data/text/harbour.txt'"

enum { MOST_STEPS = 256 };

/* ---- logs ------------------------------------------------------------------------------------ */

/* The losses of a log, by step; returns the last step. */
static int64_t read_log(struct scratch *scratch, const char *path, double *loss)
{
    char *text, *line;
    size_t len;
    long long step = 0;
    double value;
    assert_ok(file_read(scratch->arena, path, 1 << 20, &text, &len));
    strsep(&text, "\n"); /* the header */
    while ((line = strsep(&text, "\n")) && sscanf(line, "%lld\t%lf", &step, &value) == 2) {
        assert_true(step > 0 && step < MOST_STEPS);
        loss[step] = value;
    }
    return step;
}

static void assert_same_logs(struct scratch *scratch, const char *found, const char *expected,
                             int64_t steps)
{
    double a[MOST_STEPS], b[MOST_STEPS];
    assert_int_equal(read_log(scratch, found, a), steps);
    assert_int_equal(read_log(scratch, expected, b), steps);
    for (int64_t s = 1; s <= steps; s++)
        if (!(fabs(a[s] - b[s]) <= 1e-5 * fabs(b[s])))
            fail_msg("step %lld: loss %.9g, expected %.9g", (long long)s, a[s], b[s]);
}

/* ---- processes ------------------------------------------------------------------------------- */

static pid_t start(const char *arguments)
{
    char command[2048];
    snprintf(command, sizeof command, "exec '%s' %s >/dev/null 2>&1", WEFT_PROGRAM, arguments);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    return child;
}

static void pause_ms(int64_t ms)
{
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

static bool has_checkpoint(struct scratch *scratch, const char *folder)
{
    struct steps steps = {0};
    assert_ok(checkpoint_steps(scratch->arena, folder, &steps));
    return steps.len > 0;
}

/* Waits for the first checkpoint of a run that goes on; false: it is over. */
static bool await_checkpoint(struct scratch *scratch, const char *folder, pid_t child, int *status)
{
    while (!has_checkpoint(scratch, folder)) {
        if (waitpid(child, status, WNOHANG) == child)
            return false;
        pause_ms(2);
    }
    return true;
}

/* ---- killed ---------------------------------------------------------------------------------- */

/* How often; set WEFT_KILLS=50 for more. */
static int kills(void)
{
    const char *text = getenv("WEFT_KILLS");
    return text ? atoi(text) : 10;
}

/* Two plans in turn. */
static const char *arguments_of(struct scratch *scratch, int round, int64_t steps, bool resumes)
{
    return arena_printf(scratch->arena,
                        PLAN " %s --global-batch 4 --steps %lld --rate 0.001 --log '%s/log.tsv' "
                             "--checkpoint '%s/saved' --save-every 1 --keep 2 %s",
                        round % 2 ? "--tp 2" : "--dp 2 --zero 1 --microbatch 1", (long long)steps,
                        scratch->folder, scratch->folder, resumes ? "--resume" : "");
}

static void check_newest(const char *folder)
{
    struct checkpoint *checkpoint;
    assert_ok(checkpoint_open(folder, &checkpoint));
    assert_ok(checkpoint_verify(checkpoint));
    checkpoint_close(checkpoint);
}

static void test_killed_at_random(void **state)
{
    enum { STEPS = 200 };
    struct scratch *scratch = *state;
    const char *folder = scratch_path(scratch, "saved");
    struct rng rng;
    int status = 0, killed = 0;
    bool over = false;
    rng_seed(&rng,
             (uint64_t)getpid()); /* moments differ from run to run; what must hold does not */
    for (int round = 0; round < kills() && !over; round++) {
        bool resumes = has_checkpoint(scratch, folder);
        pid_t child = start(
            arena_printf(scratch->arena, "train %s", arguments_of(scratch, round, STEPS, resumes)));
        pause_ms(rng_below(&rng, 120));
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        killed += WIFSIGNALED(status);
        over = WIFEXITED(status) && WEXITSTATUS(status) == WEFT_OK;
        if (has_checkpoint(scratch, folder))
            check_newest(folder);
    }
    assert_true(killed > 0);
    struct steps steps = {0};
    assert_ok(checkpoint_steps(scratch->arena, folder, &steps));
    int64_t done = steps.len ? steps.data[steps.len - 1] : 0;
    if (!over) {
        done += 5;
        free(answer_to(
            arena_printf(scratch->arena, "train %s", arguments_of(scratch, 0, done, done > 5))));
    }
    free(answer_to(arena_printf(scratch->arena,
                                "train " PLAN " --dp 2 --microbatch 1 --global-batch 4 --steps "
                                "%lld --rate 0.001 --log '%s/whole.tsv'",
                                (long long)done, scratch->folder)));
    assert_same_logs(scratch, scratch_path(scratch, "log.tsv"), scratch_path(scratch, "whole.tsv"),
                     done);
}

/* ---- stopped --------------------------------------------------------------------------------- */

static void test_signals_save(void **state)
{
    static const int SIGNALS[] = {SIGTERM, SIGINT};
    struct scratch *scratch = *state;
    for (size_t i = 0; i < COUNT_OF(SIGNALS); i++) {
        const char *folder = scratch_path(scratch, i ? "second" : "first");
        int status = 0;
        pid_t child = start(arena_printf(
            scratch->arena, "train " PLAN " --steps 1000000 --save-every 5 --checkpoint '%s'",
            folder));
        assert_true(await_checkpoint(scratch, folder, child, &status));
        kill(child, SIGNALS[i]);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), WEFT_OK);
        check_newest(folder);
    }
}

/* ---- refused --------------------------------------------------------------------------------- */

static void test_exit_codes(void **state)
{
    struct scratch *scratch = *state;
    const char *vocab = put_file(scratch, "vocab.json", "{\"a\":", 5);
    static const char MERGES[] = "#version: 0.2\n";
    const char *merges = put_file(scratch, "merges.txt", MERGES, sizeof MERGES - 1);
    const struct {
        const char *arguments;
        int code;
        const char *words;
    } CASES[] = {
        {PLAN " --ranks 3", WEFT_BAD_INPUT, "the plan is for 2 devices, not for 3"},
        {PLAN " --data /nowhere", WEFT_BAD_INPUT, "/nowhere: cannot be opened"},
        {PLAN " --resume", WEFT_BAD_INPUT, "does not say what to go on from"},
        {PLAN " --resume=/nowhere", WEFT_BAD_INPUT, "/nowhere"},
        {PLAN " --optimizer adm", WEFT_BAD_INPUT, "did you mean 'adam'"},
        {PLAN " --decay cosin", WEFT_BAD_INPUT, "did you mean 'cosine'"},
        {PLAN " --data-format txt", WEFT_BAD_INPUT, "did you mean 'text'"},
        {PLAN " --dropout 1", WEFT_BAD_INPUT, "below 1"},
        {PLAN " --steps 0", WEFT_BAD_INPUT, "at least 1"},
        {PLAN " --warmup 200", WEFT_BAD_INPUT, "warm"},
        {PLAN " --slow-bandwidth 3", WEFT_BAD_INPUT, "a rate such as 1GB/s"},
        {PLAN " --slow-delay soon", WEFT_BAD_INPUT, "a time such as 100us"},
        {PLAN " --dtype bf16 --policy pure-bf16", WEFT_BAD_INPUT, "--dtype bf16 --policy mixed"},
        {PLAN " --rate 1e29 --clip 0", WEFT_NO_ANSWER, "is not a number"},
        {"gpt2", WEFT_BAD_INPUT, "nothing to train on"},
        {"gpt3-175b dgx-a100:1x8 --tp 8 --dtype bf16 --data /dev/null", WEFT_BAD_INPUT,
         "8 ranks are predicted to hold"},
        {"resnet-50 dgx-a100:1x1 --dtype fp32 --data /dev/null", WEFT_BAD_INPUT,
         "does not read one sequence of tokens"},
        {arena_printf(scratch->arena, PLAN " --vocab '%s' --merges '%s'", vocab, merges),
         WEFT_BAD_INPUT, "vocab.json"},
        {PLAN " --log /nowhere/log.tsv", WEFT_BAD_INPUT, "/nowhere/log.tsv"},
        {PLAN " --steps 1 --checkpoint /nowhere/saved", WEFT_FAILURE, "/nowhere/saved"},
        {PLAN " --steps 1 --trace /nowhere/trace.json", WEFT_BAD_INPUT, "/nowhere/trace.json"},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        int code;
        char *text = output_of(arena_printf(scratch->arena, "'%s' train %s 2>&1 >/dev/null",
                                            WEFT_PROGRAM, CASES[i].arguments),
                               &code);
        if (code != CASES[i].code || !strstr(text, CASES[i].words))
            fail_msg("%s: exit code %d, %s", CASES[i].arguments, code, text);
        free(text);
    }
}

/* ---- a folder that is not empty -------------------------------------------------------------- */

/* A command of `weft train`, with the folder of checkpoints; its exit code, and what it says. */
static char *say(struct scratch *scratch, const char *arguments, int code)
{
    int found;
    char *text =
        output_of(arena_printf(scratch->arena, "'%s' train " PLAN " --checkpoint '%s/run' %s 2>&1",
                               WEFT_PROGRAM, scratch->folder, arguments),
                  &found);
    if (found != code)
        fail_msg("%s: exit code %d, %s", arguments, found, text);
    return text;
}

static void expect_words(struct scratch *scratch, const char *arguments, int code,
                         const char *words)
{
    char *text = say(scratch, arguments, code);
    if (!strstr(text, words))
        fail_msg("%s: no '%s' in: %s", arguments, words, text);
    free(text);
}

static void assert_newest(struct scratch *scratch, size_t count, int64_t newest)
{
    struct steps steps;
    assert_ok(checkpoint_steps(scratch->arena, scratch_path(scratch, "run"), &steps));
    assert_int_equal(steps.len, count);
    assert_int_equal(steps.data[count - 1], newest);
}

static void test_runs_do_not_mix(void **state)
{
    struct scratch *scratch = *state;
    expect_words(scratch, "--steps 4 --save-every 2 --resume", WEFT_OK,
                 "run: holds no checkpoint, the run starts from the beginning");
    expect_words(scratch, "--steps 4 --resume", WEFT_OK, "the run is finished, it has done 4 of 4");
    expect_words(scratch, "--steps 2 --json --resume", WEFT_OK, "\"finished\": true");
    expect_words(scratch, "--steps 1", WEFT_BAD_INPUT,
                 "step-00000004: is the checkpoint of another");
    expect_words(scratch, "--steps 5 --resume --rate 0.01", WEFT_BAD_INPUT,
                 "of a run with rate 0.001, not 0.01");
    expect_words(scratch, "--steps 5 --resume --global-batch 8", WEFT_BAD_INPUT,
                 "or --allow-change batch");
    expect_words(scratch, "--steps 5 --resume --optimizer sgd", WEFT_BAD_INPUT,
                 "of a run with optimizer adamw, not sgd");
    assert_newest(scratch, 2, 4);
    expect_words(
        scratch,
        "--steps 6 --resume --tp 2 --global-batch 4 --keep 2 --rate 0.01 --allow-change rate",
        WEFT_OK, "step-00000004, under another plan; it was of rate 0.001, not 0.01");
    assert_newest(scratch, 2, 6);
    expect_words(scratch, "--steps 1 --overwrite", WEFT_OK, "saved to");
    assert_newest(scratch, 1, 1);
}

/* A second run into the folder of one that is still going on. */
static void test_two_runs_at_once(void **state)
{
    struct scratch *scratch = *state;
    const char *folder = scratch_path(scratch, "run");
    int status = 0;
    pid_t child = start(arena_printf(
        scratch->arena, "train " PLAN " --steps 1000000 --save-every 5 --checkpoint '%s'", folder));
    assert_true(await_checkpoint(scratch, folder, child, &status));
    expect_words(scratch, "--steps 1 --overwrite", WEFT_BAD_INPUT,
                 "another run saves its checkpoints there: process ");
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    expect_words(scratch, "--steps 1 --overwrite", WEFT_OK, "saved to");
}

/* ---- what was saved -------------------------------------------------------------------------- */

static void expect_about(struct scratch *scratch, const char *arguments, int code,
                         const char *words)
{
    int found;
    char *text = output_of(arena_printf(scratch->arena, "cd '%s' && '%s' checkpoint %s 2>&1",
                                        scratch->folder, WEFT_PROGRAM, arguments),
                           &found);
    if (found != code || !strstr(text, words))
        fail_msg("%s: exit code %d, no '%s' in: %s", arguments, found, words, text);
    free(text);
}

static int64_t bytes_of(struct scratch *scratch, const char *name)
{
    struct stat about;
    assert_int_equal(stat(scratch_path(scratch, name), &about), 0);
    return about.st_size;
}

/* The optimizer has two numbers for each weight; both files begin with a short table. */
static void test_checkpoint_command(void **state)
{
    struct scratch *scratch = *state;
    expect_words(scratch, "--steps 2 --tp 2 --global-batch 4", WEFT_OK, "saved to");
    expect_about(scratch, "verify run", WEFT_OK, "all files are as they were saved");
    expect_about(scratch, "verify run --json", WEFT_OK, "\"step\": 2");
    expect_about(scratch, "consolidate run -o all.safetensors", WEFT_OK,
                 "written to all.safetensors");
    expect_about(scratch, "consolidate run -o w.safetensors --weights", WEFT_OK,
                 "after 2 steps and 8 samples");
    double times =
        (double)bytes_of(scratch, "all.safetensors") / (double)bytes_of(scratch, "w.safetensors");
    assert_true(times > 2.8 && times < 3.2);
    expect_about(scratch, "consolidate run", WEFT_BAD_INPUT, "consolidate needs --output FILE");
    expect_about(scratch, "verify run -o f", WEFT_BAD_INPUT, "it takes no --output");
    expect_about(scratch, "verify", WEFT_BAD_INPUT, "verify needs the folder of a checkpoint");
    expect_about(scratch, "mend run", WEFT_BAD_INPUT, "no action is called 'mend'");
    expect_about(scratch, "verify nowhere", WEFT_BAD_INPUT, "nowhere");

    const char *file = scratch_path(scratch, "run/step-00000002/rank-00001.safetensors");
    FILE *damaged = fopen(file, "r+");
    assert_non_null(damaged);
    assert_int_equal(fseek(damaged, -1, SEEK_END), 0);
    int last = fgetc(damaged);
    assert_int_equal(fseek(damaged, -1, SEEK_END), 0);
    assert_int_equal(fputc(last ^ 1, damaged), last ^ 1);
    assert_int_equal(fclose(damaged), 0);
    expect_about(scratch, "verify run", WEFT_BAD_INPUT, "rank-00001.safetensors: has the checksum");
    expect_about(scratch, "consolidate run -o other", WEFT_BAD_INPUT, "it is damaged");
    assert_int_equal(access(scratch_path(scratch, "other"), F_OK), -1);
}

/* ---- answers --------------------------------------------------------------------------------- */

static double number_at(json_t *json, const char *key)
{
    json_t *value = json_object_get(json, key);
    if (!json_is_number(value))
        fail_msg("no number '%s'", key);
    return json_number_value(value);
}

static void test_answers(void **state)
{
    struct scratch *scratch = *state;
    json_t *json = json_of(arena_printf(
        scratch->arena,
        "train " PLAN " --steps 4 --validation 0.1 --memory-report --trace '%s/t.json' --json",
        scratch->folder));
    assert_true(number_at(json, "step") == 4);
    assert_true(number_at(json, "loss") > 0 && number_at(json, "validation_loss") > 0);
    assert_int_equal(json_array_size(json_object_get(json, "ranks")), 2);
    json_decref(json);

    json = json_of(arena_printf(scratch->arena,
                                "compare '%s' '%s' --set hidden=32 --set heads=2 --set layers=2 "
                                "--seq 16 --microbatch 2 --measured '%s/t.json' --fold-back "
                                "'%s/here.sqlite' --json",
                                WEFT_SOURCE_DIR "/data/models/gpt-tiny.yaml",
                                WEFT_SOURCE_DIR "/data/clusters/cores.yaml", scratch->folder,
                                scratch->folder));
    json_t *iteration = json_object_get(json, "iteration");
    assert_true(number_at(json, "steps") == 3);
    assert_true(number_at(iteration, "measured_s") > 0);
    assert_float_equal(number_at(iteration, "ratio"),
                       number_at(iteration, "measured_s") / number_at(iteration, "predicted_s"),
                       1e-6);
    json_t *folded = json_object_get(json, "folded_back");
    assert_true(number_at(folded, "kernels") > 10);
    /* what is predicted then is what anyone predicts with that profile */
    json_t *with =
        json_of(arena_printf(scratch->arena,
                             "simulate '%s' '%s' --set hidden=32 --set heads=2 --set "
                             "layers=2 --seq 16 --microbatch 2 --profile "
                             "'%s/here.sqlite' --json",
                             WEFT_SOURCE_DIR "/data/models/gpt-tiny.yaml",
                             WEFT_SOURCE_DIR "/data/clusters/cores.yaml", scratch->folder));
    assert_float_equal(number_at(folded, "predicted_s"), number_at(with, "iteration_s"), 1e-9);
    json_decref(with);
    json_decref(json);

    char *text = answer_to("train " PLAN " --steps 2 --no-overlap --memory-report");
    assert_non_null(strstr(text, "step 2/2  loss "));
    assert_non_null(strstr(text, "done, at step 2: loss "));
    assert_non_null(strstr(text, "predicted"));
    free(text);
}

/* A slowed transport changes when something comes, not what. */
static void test_slow_network(void **state)
{
    struct scratch *scratch = *state;
    double loss[2];
    for (int slow = 0; slow < 2; slow++) {
        json_t *json =
            json_of(arena_printf(scratch->arena, "train " PLAN " --steps 3 %s --json",
                                 slow ? "--slow-bandwidth 50MB/s --slow-delay 200us" : ""));
        loss[slow] = number_at(json, "loss");
        json_decref(json);
    }
    assert_true(loss[0] == loss[1]);
}

/* ---- over MPI -------------------------------------------------------------------------------- */

static void test_over_mpi(void **state)
{
    struct scratch *scratch = *state;
    int code;
    if (!WEFT_WITH_MPI)
        skip();
    free(output_of("mpirun --version 2>/dev/null", &code));
    if (code != 0)
        skip();
    const char *run = arena_printf(
        scratch->arena, MPIRUN "-n 2 '%s' train " PLAN " --steps 4 --rate 0.01", WEFT_PROGRAM);
    char *text =
        output_of(arena_printf(scratch->arena, "%s --log '%s/mpi.tsv' --trace '%s/t.json' 2>&1",
                               run, scratch->folder, scratch->folder),
                  &code);
    if (code != 0)
        fail_msg("exit code %d: %s", code, text);
    free(text);
    free(answer_to(arena_printf(scratch->arena,
                                "train " PLAN " --steps 4 --rate 0.01 --log '%s/threads.tsv'",
                                scratch->folder)));
    assert_same_logs(scratch, scratch_path(scratch, "mpi.tsv"),
                     scratch_path(scratch, "threads.tsv"), 4);

    text =
        output_of(arena_printf(scratch->arena, "%s --data /nowhere 2>&1 >/dev/null", run), &code);
    assert_int_equal(code, WEFT_BAD_INPUT);
    const char *first = strstr(text, "weft: /nowhere: cannot be opened");
    assert_non_null(first);
    assert_null(strstr(first + 1, "weft: ")); /* rank 0 alone speaks */
    free(text);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_killed_at_random), TEST(test_runs_do_not_mix), TEST(test_two_runs_at_once),
        TEST(test_signals_save),     TEST(test_exit_codes),      TEST(test_answers),
        TEST(test_over_mpi),         TEST(test_slow_network),    TEST(test_checkpoint_command),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
