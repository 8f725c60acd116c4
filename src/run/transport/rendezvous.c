/* rendezvous.c - how ranks that were started apart find each other: a connection between every two (sockets.c).
 *
 *   1. rank 0 listens where all expect it; the others listen anywhere
 *   2. every rank connects to rank 0, says who it is and where it listens, and gets the list of all
 *   3. a rank connects to those before it, says who it is, and takes the connections of those after it
 *
 *   I1  Ranks start at different times: one that is not there yet is tried again until PATIENCE_S.
 *   I2  Who does not speak this language is sent away; a rank of another run, or one that is there already, ends it.
 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "run/transport/sockets_room.h"

static const double PATIENCE_S = 120; /* a job's nodes may start a minute apart */
static const double GREETING_S = 5;   /* who connects speaks at once */
static const uint64_t GREETING = 0x7765667420726e6bULL;

/* Where a rank listens, and who it is. */
struct introduction {
    uint64_t greeting;
    int32_t rank, ranks;
    struct sockaddr_storage address;
};

struct rank_meeting {
    const struct rendezvous *at;
    int listener;
    double until_s;
    int *connection;
    struct introduction *all;
};

/* ---- sockets --------------------------------------------------------------------------------- */

static void set_up(int socket)
{
    /* A machine that is gone is noticed within half a minute. */
    enum { IDLE_S = 10, EVERY_S = 5, TIMES = 4 };
    int on = 1, idle = IDLE_S, every = EVERY_S, times = TIMES;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof every);
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
}

static bool wait_for(int socket, short what, double until_s)
{
    struct pollfd look = {.fd = socket, .events = what};
    double left = until_s - wall_seconds();
    return left > 0 && poll(&look, 1, (int)(left * 1e3) + 1) > 0;
}

static weft_status move_all(int socket, void *data, size_t bytes, bool sends, double until_s)
{
    char *at = data;
    while (bytes) {
        if (!wait_for(socket, sends ? POLLOUT : POLLIN, until_s))
            return failure("a rank does not answer");
        ssize_t moved = sends ? send(socket, at, bytes, MSG_NOSIGNAL) : recv(socket, at, bytes, 0);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved <= 0)
            return failure("a rank closed its connection before all had met");
        at += moved;
        bytes -= (size_t)moved;
    }
    return WEFT_OK;
}

static weft_status resolve(const char *host, int64_t port, int flags, struct addrinfo **out)
{
    char text[16];
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags};
    snprintf(text, sizeof text, "%lld", (long long)port);
    int code = getaddrinfo(host, text, &hints, out);
    return code ? failure("the address '%s' is not known: %s", host ? host : "", gai_strerror(code))
                : WEFT_OK;
}

static weft_status listen_at(const char *host, int64_t port, int ranks, int *out)
{
    struct addrinfo *found = NULL;
    int made = -1, on = 1, error = 0;
    weft_status status;
    TRY(resolve(host, port, AI_PASSIVE, &found));
    for (struct addrinfo *a = found; a && made < 0; a = a->ai_next) {
        made = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (made >= 0 && setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
            bind(made, a->ai_addr, a->ai_addrlen) == 0 && listen(made, ranks) == 0)
            break;
        error = errno;
        if (made >= 0)
            close(made);
        made = -1;
    }
    freeaddrinfo(found);
    if (made < 0)
        TRY(failure("cannot listen on port %lld: %s", (long long)port, strerror(error)));
    *out = made;
done:
    return status;
}

/* ---- connecting ------------------------------------------------------------------------------ */

static int try_address(const struct sockaddr *address, socklen_t length)
{
    int made = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (made >= 0 && connect(made, address, length) == 0)
        return made;
    if (made >= 0)
        close(made);
    return -1;
}

/* I1 */
static weft_status connect_to_first(const struct rank_meeting *m, int *out)
{
    static const struct timespec PAUSE = {.tv_nsec = 50000000};
    struct addrinfo *found = NULL;
    int made = -1;
    weft_status status;
    TRY(resolve(m->at->host, m->at->port, 0, &found));
    while (made < 0 && wall_seconds() < m->until_s) {
        for (struct addrinfo *a = found; a && made < 0; a = a->ai_next)
            made = try_address(a->ai_addr, a->ai_addrlen);
        if (made < 0)
            nanosleep(&PAUSE, NULL);
    }
    freeaddrinfo(found);
    if (made < 0)
        TRY(failure("rank 0 is not at %s, port %lld: %s", m->at->host, (long long)m->at->port,
                    strerror(errno)));
    *out = made;
done:
    return status;
}

static in_port_t *port_of(struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET6 ? &((struct sockaddr_in6 *)(void *)address)->sin6_port
                                          : &((struct sockaddr_in *)(void *)address)->sin_port;
}

static weft_status introduce(const struct rank_meeting *m, int to)
{
    struct introduction own = {.greeting = GREETING, .rank = m->at->rank, .ranks = m->at->ranks};
    socklen_t length = sizeof own.address;
    if (m->listener >= 0 &&
        getsockname(m->listener, (struct sockaddr *)(void *)&own.address, &length))
        return failure("a socket has no address: %s", strerror(errno));
    return move_all(to, &own, sizeof own, true, m->until_s);
}

/* The connection of the next that speaks this language, and what it says; -1: nobody came. (I2) */
static int next_that_greets(const struct rank_meeting *m, struct introduction *who)
{
    while (wait_for(m->listener, POLLIN, m->until_s)) {
        int made = accept4(m->listener, NULL, NULL, SOCK_CLOEXEC);
        if (made < 0)
            continue;
        if (move_all(made, who, sizeof *who, false, wall_seconds() + GREETING_S) == WEFT_OK &&
            who->greeting == GREETING)
            return made;
        error_clear();
        close(made);
    }
    return -1;
}

/* The next rank that connects: who it is, with its address as it is seen from here. */
static weft_status take_next(struct rank_meeting *m, int32_t least)
{
    struct introduction who;
    struct sockaddr_storage seen;
    socklen_t length = sizeof seen;
    int made = next_that_greets(m, &who);
    weft_status status = WEFT_OK;
    if (made < 0)
        return failure("not all of %d ranks came within %.0f s", m->at->ranks, PATIENCE_S);
    bool fits = who.ranks == m->at->ranks && who.rank >= least && who.rank < m->at->ranks;
    if (!fits || m->connection[who.rank] >= 0)
        TRY(failure("a rank came that does not belong to this run: check WORLD_SIZE and RANK"));
    if (getpeername(made, (struct sockaddr *)(void *)&seen, &length) == 0) {
        *port_of(&seen) = *port_of(&who.address);
        who.address = seen;
    }
    m->all[who.rank] = who;
    m->connection[who.rank] = made;
    made = -1;
done:
    if (made >= 0)
        close(made);
    return status;
}

/* ---- meeting --------------------------------------------------------------------------------- */

static weft_status meet_as_first(struct rank_meeting *m)
{
    size_t bytes = (size_t)m->at->ranks * sizeof *m->all;
    weft_status status;
    TRY(listen_at(NULL, m->at->port, m->at->ranks, &m->listener));
    for (int32_t i = 1; i < m->at->ranks; i++)
        TRY(take_next(m, 1));
    for (int32_t i = 1; i < m->at->ranks; i++)
        TRY(move_all(m->connection[i], m->all, bytes, true, m->until_s));
done:
    return status;
}

static weft_status connect_to(struct rank_meeting *m, int32_t rank)
{
    const struct sockaddr_storage *address = &m->all[rank].address;
    m->connection[rank] = try_address((const struct sockaddr *)(const void *)address,
                                      address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                                     : sizeof(struct sockaddr_in));
    if (m->connection[rank] < 0)
        return failure("rank %d cannot be reached: %s", rank, strerror(errno));
    return introduce(m, m->connection[rank]);
}

static weft_status meet_as_other(struct rank_meeting *m)
{
    size_t bytes = (size_t)m->at->ranks * sizeof *m->all;
    weft_status status;
    TRY(connect_to_first(m, &m->connection[0]));
    TRY(listen_at(NULL, 0, m->at->ranks, &m->listener));
    TRY(introduce(m, m->connection[0]));
    TRY(move_all(m->connection[0], m->all, bytes, false, m->until_s));
    for (int32_t i = 1; i < m->at->rank; i++)
        TRY(connect_to(m, i));
    for (int32_t i = m->at->rank + 1; i < m->at->ranks; i++)
        TRY(take_next(m, m->at->rank + 1));
done:
    return status;
}

weft_status connect_all(const struct rendezvous *at, int *connection)
{
    struct rank_meeting m = {.at = at,
                             .listener = -1,
                             .until_s = wall_seconds() + PATIENCE_S,
                             .connection = connection,
                             .all = calloc((size_t)at->ranks, sizeof *m.all)};
    weft_status status;
    if (!m.all)
        return failure("out of memory");
    for (int32_t i = 0; i < at->ranks; i++)
        connection[i] = -1;
    TRY(at->rank == 0 ? meet_as_first(&m) : meet_as_other(&m));
    for (int32_t i = 0; i < at->ranks; i++)
        if (connection[i] >= 0) {
            set_up(connection[i]);
            fcntl(connection[i], F_SETFL, O_NONBLOCK);
        }
done:
    for (int32_t i = 0; status != WEFT_OK && i < at->ranks; i++)
        if (connection[i] >= 0)
            close(connection[i]);
    if (m.listener >= 0)
        close(m.listener);
    free(m.all);
    return status;
}
