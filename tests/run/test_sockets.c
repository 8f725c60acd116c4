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

enum { RANKS = 3, COUNT = 1000 };

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

static float number_of(int32_t rank, int64_t i)
{
    return (float)(rank + 1) * (float)(i % 17 + 1);
}

static int32_t all_of(struct transport *t, int32_t channel)
{
    static const int32_t MEMBER[RANKS] = {0, 1, 2};
    int32_t group = -1;
    t->kind->group(t, MEMBER, RANKS, channel, &group);
    return group;
}

/* Two sums at once, and both are right; in place, and of a number that chunks do not divide. */
static void add_up_twice(struct transport *t, int *wrong)
{
    float own[COUNT], sum[COUNT], most[COUNT];
    struct pending_transfer *one, *two;
    int32_t group = all_of(t, 0);
    for (int64_t i = 0; i < COUNT; i++)
        own[i] = sum[i] = number_of(t->rank, i);
    struct transfer x = {.kind = TRANSFER_ALL_REDUCE, .group = group, .from = sum, .to = sum};
    struct transfer y = {.kind = TRANSFER_ALL_REDUCE, .op = REDUCE_MAX, .group = group};
    x.count = y.count = COUNT;
    y.from = own;
    y.to = most;
    t->kind->start(t, &x, &one);
    t->kind->start(t, &y, &two);
    while (!t->kind->test(t, two))
        t->kind->wait(t, 0.001, true);
    while (!t->kind->test(t, one))
        t->kind->wait(t, 0.001, true);
    for (int64_t i = 0; i < COUNT; i++)
        *wrong += sum[i] != 2 * number_of(2, i) || most[i] != number_of(2, i);
}

static void scatter_and_gather(struct transport *t, int *wrong)
{
    float own[RANKS * COUNT], part[COUNT], all[RANKS * COUNT];
    int32_t group = all_of(t, 3);
    for (int64_t i = 0; i < (int64_t)COUNT * RANKS; i++)
        own[i] = number_of(t->rank, i);
    struct transfer scatter = {.kind = TRANSFER_REDUCE_SCATTER, .group = group, .from = own};
    scatter.to = part;
    scatter.count = COUNT;
    *wrong += transport_run(t, &scatter) != WEFT_OK;
    struct transfer gather = {.kind = TRANSFER_ALL_GATHER, .group = group, .from = part, .to = all};
    gather.count = COUNT;
    *wrong += transport_run(t, &gather) != WEFT_OK;
    for (int64_t i = 0; i < (int64_t)COUNT * RANKS; i++)
        *wrong += all[i] != 2 * number_of(2, i);
}

/* From each rank in turn, in place there, of a number that chunks do not divide and of none. */
static void hand_out(struct transport *t, int *wrong)
{
    for (int32_t root = 0; root < RANKS; root++)
        for (int64_t count = 0; count < COUNT; count += COUNT - 1) {
            float here[COUNT] = {0};
            for (int64_t i = 0; t->rank == root && i < count; i++)
                here[i] = number_of(root, i);
            struct transfer x = {.kind = TRANSFER_BROADCAST, .group = all_of(t, 0), .to = here};
            x.from = t->rank == root ? here : NULL;
            x.peer = root;
            x.count = count;
            *wrong += transport_run(t, &x) != WEFT_OK;
            for (int64_t i = 0; i < COUNT; i++)
                *wrong += here[i] != (i < count ? number_of(root, i) : 0);
        }
}

/* Rank r has r + m + 1 numbers for rank m. */
static void exchange_parts(struct transport *t, int *wrong)
{
    float from[32], to[32];
    int64_t out[RANKS], in[RANKS], sent = 0, at = 0;
    for (int32_t m = 0; m < RANKS; m++) {
        out[m] = in[m] = t->rank + m + 1;
        for (int64_t i = 0; i < out[m]; i++)
            from[sent++] = (float)(100 * t->rank + m);
    }
    struct transfer x = {
        .kind = TRANSFER_ALL_TO_ALL, .group = all_of(t, 0), .from = from, .to = to};
    x.from_counts = out;
    x.to_counts = in;
    *wrong += transport_run(t, &x) != WEFT_OK;
    for (int32_t m = 0; m < RANKS; m++)
        for (int64_t i = 0; i < in[m]; i++)
            *wrong += to[at++] != (float)(100 * m + t->rank);
}

/* The second message is asked for first; a large one does not fit into a connection. */
static void send_in_other_order(struct transport *t, int *wrong)
{
    enum { LARGE = 1 << 20 };
    float *buffer = calloc(2 * (size_t)LARGE, sizeof *buffer);
    struct pending_transfer *pending[2];
    struct transfer x[2] = {{.tag = 5, .count = LARGE}, {.tag = 6, .count = LARGE}};
    if (t->rank < 2)
        for (int k = 0; k < 2; k++) {
            x[k].peer = 1 - t->rank;
            x[k].kind = t->rank ? TRANSFER_RECEIVE : TRANSFER_SEND;
            x[k].from = x[k].to = buffer + k * LARGE;
            buffer[k * LARGE + LARGE - 1] = t->rank ? 0 : (float)(k + 1);
        }
    for (int k = 0; k < 2 && t->rank < 2; k++)
        t->kind->start(t, &x[t->rank ? 1 - k : k], &pending[k]);
    for (int k = 0; k < 2 && t->rank < 2; k++)
        while (!t->kind->test(t, pending[k]))
            t->kind->wait(t, 0.001, true);
    for (int k = 0; k < 2 && t->rank < 2; k++)
        *wrong += buffer[k * LARGE + LARGE - 1] != (float)(k + 1);
    free(buffer);
}

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
    for (int staged = 0; staged < 2; staged++) {
        work_after(add_up_twice, staged, NULL);
        work_after(scatter_and_gather, staged, NULL);
        work_after(exchange_parts, staged, NULL);
        work_after(hand_out, staged, NULL);
        work_after(send_in_other_order, staged, NULL);
    }
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
