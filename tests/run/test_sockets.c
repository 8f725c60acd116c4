/* test_sockets.c - ranks over TCP: every kind of transfer against sums by hand, several at once and in other orders
 * than they come, plans as one rank computes them, and what is said when a rank ends. Ranks are threads here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "run_alone.h"
#include "run_rows.h"
#include "three_ranks.h"
#include "run/transport/messages.h"

/* A port that is free now. */
static int64_t free_port(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof any;
    int made = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(made, (struct sockaddr *)(void *)&any, length), 0);
    assert_int_equal(getsockname(made, (struct sockaddr *)(void *)&any, &length), 0);
    close(made);
    return ntohs(any.sin_port);
}

struct crew {
    int64_t port;
    void (*work)(struct transport *t, int *wrong);
    bool staged; /* as for numbers that are not in the host's memory */
    int wrong[RANKS];
};
struct crew_member {
    struct crew *crew;
    int32_t rank;
};

static void *serve(void *context)
{
    struct crew_member *m = context;
    struct transport *t = NULL;
    struct rendezvous at = {m->rank, RANKS, "127.0.0.1", m->crew->port};
    if (transport_sockets(&at, &t) != WEFT_OK) {
        m->crew->wrong[m->rank] = 1000;
        return NULL;
    }
    struct transport *used = m->crew->staged ? transport_staged(t, &CPU_DEVICE, NULL) : t;
    m->crew->work(used, &m->crew->wrong[m->rank]);
    if (used != t)
        used->kind->close(used);
    t->kind->close(t);
    return NULL;
}

/* Somebody who is no rank connects first, says something else and goes. */
static void come_as_stranger(int64_t port)
{
    static const struct timespec PAUSE = {.tv_nsec = 10000000};
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char words[400] = "GET / HTTP/1.0\r\n\r\n";
    int made = socket(AF_INET, SOCK_STREAM, 0);
    while (connect(made, (struct sockaddr *)(void *)&to, sizeof to))
        nanosleep(&PAUSE, NULL);
    assert_int_equal(send(made, words, sizeof words, MSG_NOSIGNAL), sizeof words);
    close(made);
}

/* All ranks, the last first; with somebody else who comes, rank 0 first, then that one. */
static void work_after(void (*work)(struct transport *t, int *wrong), bool staged,
                       void (*come)(int64_t port))
{
    struct crew crew = {.port = free_port(), .work = work, .staged = staged};
    struct crew_member member[RANKS];
    pthread_t thread[RANKS];
    for (int32_t i = 0; i < RANKS; i++) {
        member[i] = (struct crew_member){&crew, come ? i : RANKS - 1 - i};
        assert_int_equal(pthread_create(&thread[i], NULL, serve, &member[i]), 0);
        if (come && i == 0)
            come(crew.port);
    }
    for (int32_t i = 0; i < RANKS; i++)
        pthread_join(thread[i], NULL);
    for (int32_t i = 0; i < RANKS; i++)
        assert_int_equal(crew.wrong[i], 0);
}

/* ---- last words ------------------------------------------------------------------------------ */

enum { MUCH = 8 << 20 }; /* bytes, more than connections keep on their way */

/* Reads all that comes until the other side closes. */
static void *listen_to_end(void *context)
{
    static char heard[1 << 16];
    int64_t *all = context;
    int from = (int)*all;
    *all = 0;
    for (ssize_t got; (got = recv(from, heard, sizeof heard, 0)) > 0;)
        *all += got;
    close(from);
    return NULL;
}

/* What a rank says to all before it goes waits until what it sent before has gone, too. */
static void test_last_words_are_waited_for(void **state)
{
    (void)state;
    static const char WORDS[] = "out of memory";
    int pair[2];
    struct connections s;
    int32_t left = 0;
    int64_t heard;
    pthread_t other;
    void *much = calloc(1, MUCH);
    struct message_head head = {FIRST_KEY, 0, MUCH};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    assert_int_equal(fcntl(pair[1], F_SETFL, 0), 0);
    heard = pair[1];
    assert_int_equal(connections_open(&s, (int[]){-1, pair[0]}, 2), WEFT_OK);
    assert_int_equal(pthread_create(&other, NULL, listen_to_end, &heard), 0);
    send_message(&s, 1, head, much, &left);
    tell_all(&s, KEY_ABORT, WORDS);
    shutdown(pair[0], SHUT_WR); /* nothing goes after this */
    pthread_join(other, NULL);
    connections_close(&s);
    free(much);
    assert_int_equal(left, 0);
    assert_int_equal(heard, MUCH + (int64_t)(2 * sizeof head + strlen(WORDS)));
}

/* ---- transfers ------------------------------------------------------------------------------- */

static void give_up(struct transport *t, int *wrong)
{
    float one = 1;
    struct transfer x = {
        .kind = TRANSFER_ALL_REDUCE, .group = all_of(t, 0), .from = &one, .to = &one};
    x.count = 1;
    if (t->rank == 1)
        t->kind->abort(t, "the disk is full");
    else
        *wrong += transport_run(t, &x) == WEFT_OK ||
                  !strstr(weft_last_error()->message, "the disk is full");
}

static void test_transfers(void **state)
{
    (void)state;
    for (int staged = 0; staged < 2; staged++)
        for (size_t i = 0; i < COUNT_OF(TRANSFER_CHECKS); i++)
            work_after(TRANSFER_CHECKS[i], staged, NULL);
}

static void test_strangers_are_sent_away(void **state)
{
    (void)state;
    work_after(scatter_and_gather, false, come_as_stranger);
}

static void test_a_rank_that_gives_up(void **state)
{
    (void)state;
    work_after(give_up, false, NULL);
}

/* ---- plans ----------------------------------------------------------------------------------- */

static int64_t run_port;

static weft_status carry_by_sockets(struct transport *host, const struct compute_device *device,
                                    struct device_stream *stream, struct transport **out)
{
    struct rendezvous at = {host->rank, host->ranks, "127.0.0.1", run_port};
    (void)device;
    (void)stream;
    return transport_sockets(&at, out);
}

static void test_plans(void **state)
{
    (void)state;
    size_t step = COUNT_OF(ROWS) / 6;
    for (size_t i = 0; i < COUNT_OF(ROWS); i += step) {
        char why[512] = "";
        struct plan *plan = plan_of_row(&ROWS[i]);
        run_port = free_port();
        bool same =
            agree(plan, &(struct conditions){2, 1, NULL, carry_by_sockets}, why, sizeof why);
        if (!same && !has_kinks(plan->model))
            fail_msg("%s: %s", ROWS[i].name, why);
        plan_free(plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_last_words_are_waited_for),
        cmocka_unit_test(test_transfers),
        cmocka_unit_test(test_strangers_are_sent_away),
        cmocka_unit_test(test_a_rank_that_gives_up),
        cmocka_unit_test(test_plans),
    };
    return cmocka_run_group_tests(tests, open_run_models, close_all);
}
