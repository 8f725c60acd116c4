/* test_ending.c - a process that has failed ends whatever its cleanup does, and a rank whose own threads are held up ends when
 * another one is gone. What would wait for ever waits in a child of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run/run.h"
#include "run/transport/lookout.h"
#include "scratch_folder.h"

/* ---- children ---------------------------------------------------------------------------------- */

struct child {
    int code; /* -1: it was killed */
    char said[256];
};

/* Runs it in a process of its own, which it does not leave by itself. */
static struct child in_child(void (*work)(void))
{
    struct child child = {.code = -1};
    int said[2], status;
    size_t length = 0;
    assert_int_equal(pipe(said), 0);
    pid_t process = fork();
    if (process == 0) {
        dup2(said[1], STDERR_FILENO);
        close(said[0]);
        close(said[1]);
        work();
        for (;;)
            pause();
    }
    close(said[1]);
    for (ssize_t got;
         (got = read(said[0], child.said + length, sizeof child.said - 1 - length)) > 0;)
        length += (size_t)got;
    close(said[0]);
    assert_int_equal(waitpid(process, &status, 0), process);
    if (WIFEXITED(status))
        child.code = WEXITSTATUS(status);
    return child;
}

/* ---- a process that does not end ---------------------------------------------------------------- */

static void fail_twice(void)
{
    end_within(0.01, 7, "the disk is full\n");
    end_within(0, 8, "so it ends\n");
}

static void test_the_first_failure_counts(void **state)
{
    (void)state;
    struct child child = in_child(fail_twice);
    assert_int_equal(child.code, 7);
    assert_string_equal(child.said, "the disk is full\n");
}

/* ---- a run whose transport never gives up -------------------------------------------------------- */

static weft_status no_group(struct transport *t, const int32_t *member, int32_t count,
                            int32_t channel, int32_t *out)
{
    (void)t;
    (void)member;
    (void)count;
    (void)channel;
    (void)out;
    return failure("the network is down");
}

static void never_abort(struct transport *t, const char *why)
{
    (void)t;
    (void)why;
    for (;;)
        pause();
}

static const struct transport_kind STUCK = {
    .name = "stuck", .group = no_group, .abort = never_abort};

static void end_at_once(void *context, weft_status status)
{
    (void)context;
    fprintf(stderr, "%s\n", weft_last_error()->message);
    end_within(0.01, (int)status, NULL);
}

static void train_stuck(void)
{
    struct transport transport = {.kind = &STUCK, .rank = 0, .ranks = 2};
    struct training_options options = {.fails = end_at_once};
    struct training_result result;
    struct arena *keep = arena_new();
    train_rank(&options, &transport, keep, &result);
}

static void test_a_failure_is_told_before_cleanup(void **state)
{
    (void)state;
    struct child child = in_child(train_stuck);
    assert_int_equal(child.code, WEFT_FAILURE);
    assert_string_equal(child.said, "the network is down\n");
}

/* ---- lookouts ------------------------------------------------------------------------------------- */

enum { RANKS = 4 };
static atomic_int gone_count, gone_last;

static void note_gone(int32_t rank)
{
    gone_last = rank;
    gone_count++;
}

static void say_end(int socket)
{
    struct message_head end = {.key = KEY_END};
    assert_int_equal(send(socket, &end, sizeof end, MSG_NOSIGNAL), sizeof end);
}

/* Of rank 1 the last words are read, of rank 2 they wait unread, after something else; rank 3 says nothing. Nobody reads while
 * the lookout judges. */
static void test_who_ends_well_is_not_gone(void **state)
{
    (void)state;
    int mine[RANKS] = {-1, -1, -1, -1}, theirs[RANKS];
    struct connections s;
    struct timespec pause_for = {.tv_nsec = 1000000};
    for (int i = 1; i < RANKS; i++) {
        int pair[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
        mine[i] = pair[0];
        theirs[i] = pair[1];
    }
    assert_int_equal(connections_open(&s, mine, RANKS), WEFT_OK);
    struct lookout *lookout = lookout_new(&s, 0.02, note_gone);
    assert_non_null(lookout);
    say_end(theirs[1]);
    while (!rank_ended(&s, 1))
        pump(&s, 1);
    assert_int_equal(send(theirs[2], "unread", 6, 0), 6);
    say_end(theirs[2]);
    for (int i = 1; i < RANKS; i++)
        close(theirs[i]); /* rank 3 last: the others are judged before it */
    while (gone_count == 0)
        nanosleep(&pause_for, NULL);
    lookout_free(lookout);
    assert_int_equal(gone_count, 1);
    assert_int_equal(gone_last, 3);
    connections_close(&s);
}

/* ---- the program ---------------------------------------------------------------------------------- */

static int free_port(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof any;
    int made = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(made, (struct sockaddr *)(void *)&any, length), 0);
    assert_int_equal(getsockname(made, (struct sockaddr *)(void *)&any, &length), 0);
    close(made);
    return ntohs(any.sin_port);
}

static pid_t start_rank(int rank, int port, const char *log, int out, int errors)
{
    char command[2048];
    snprintf(command, sizeof command,
             "RANK=%d WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=%d exec '%s' train "
             "%s/data/plans/tiny.yaml --data %s/data/text/harbour.txt --steps 100000 --log '%s'",
             rank, port, WEFT_PROGRAM, WEFT_SOURCE_DIR, WEFT_SOURCE_DIR, log);
    pid_t child = fork();
    if (child == 0) {
        dup2(out, STDOUT_FILENO);
        dup2(errors, STDERR_FILENO);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    return child;
}

/* A pipe that nobody reads, and that takes nothing more: who writes waits for ever. */
static int full_pipe(int *unread)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    while (write(ends[1], "", 1) == 1)
        ;
    assert_int_equal(fcntl(ends[1], F_SETFL, 0), 0);
    *unread = ends[0];
    return ends[1];
}

/* Rank 0 waits to print the line of its first step when the other is killed. */
static void test_a_rank_that_is_held_up(void **state)
{
    struct scratch *scratch = *state;
    struct timespec pause_for = {.tv_nsec = 1000000};
    int port = free_port(), nowhere = open("/dev/null", O_WRONLY), unread, said[2], status;
    int full = full_pipe(&unread);
    struct stat log;
    char words[512] = "";
    assert_int_equal(pipe(said), 0);
    const char *path = scratch_path(scratch, "log.tsv");
    pid_t held = start_rank(0, port, path, full, said[1]);
    pid_t other = start_rank(1, port, path, nowhere, nowhere);
    close(said[1]);
    while (stat(path, &log) || log.st_size < 100) /* its head, and a step's line */
        nanosleep(&pause_for, NULL);
    kill(other, SIGKILL);
    waitpid(other, &status, 0);
    assert_int_equal(waitpid(held, &status, 0), held);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), WEFT_FAILURE);
    assert_true(read(said[0], words, sizeof words - 1) > 0);
    assert_non_null(strstr(words, "rank 1 is gone"));
    close(said[0]);
    close(full);
    close(unread);
    close(nowhere);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_failure_counts),
        cmocka_unit_test(test_a_failure_is_told_before_cleanup),
        cmocka_unit_test(test_who_ends_well_is_not_gone),
        cmocka_unit_test_setup_teardown(test_a_rank_that_is_held_up, scratch_setup,
                                        scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
