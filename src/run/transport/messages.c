/* messages.c - messages between ranks over connections that do not block (messages.h). */
#include "run/transport/messages.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* More than any device holds: a head that says so is none. */
static const int64_t MOST_BYTES = INT64_C(1) << 42;

/* On its way out; its bytes are the transfer's. */
struct leaving {
    struct message_head head;
    const char *data;
    int64_t sent; /* of head and data */
    int32_t *left;
    struct leaving *next;
};

/* Asked for, or here before that (I1): then `memory` holds it. */
struct arriving {
    struct message_head head;
    int32_t peer;
    char *to, *memory;
    int64_t got;
    bool whole;
    int32_t *left;
    struct arriving *next;
};

struct peer {
    int socket;
    struct leaving *first, *last;
    struct message_head head; /* of what comes */
    int64_t head_got;
    struct arriving *current; /* NULL: the head is not there yet */
    atomic_bool ended;
};

void *make_room(size_t bytes)
{
    void *memory = calloc(1, bytes ? bytes : 1);
    if (!memory)
        memory_ran_out(bytes);
    return memory;
}

static void note_failure(struct connections *s, const char *what, int32_t rank)
{
    if (!s->why[0])
        snprintf(s->why, sizeof s->why, "rank %d %s", rank, what);
}

/* ---- sending --------------------------------------------------------------------------------- */

void send_message(struct connections *s, int32_t to, struct message_head head, const void *data,
                  int32_t *left)
{
    struct peer *peer = &s->peer[to];
    struct leaving *message = make_room(sizeof *message);
    *message = (struct leaving){.head = head, .data = data, .left = left};
    *(peer->last ? &peer->last->next : &peer->first) = message;
    peer->last = message;
    if (left)
        ++*left;
}

static void message_sent(struct peer *peer)
{
    struct leaving *message = peer->first;
    peer->first = message->next;
    if (!peer->first)
        peer->last = NULL;
    if (message->left)
        --*message->left;
    free(message);
}

/* Writes what the connection takes. */
static void write_out(struct connections *s, int32_t rank)
{
    struct peer *peer = &s->peer[rank];
    while (peer->first) {
        struct leaving *m = peer->first;
        int64_t head = (int64_t)sizeof m->head;
        const char *from =
            m->sent < head ? (const char *)&m->head + m->sent : m->data + (m->sent - head);
        int64_t rest = m->sent < head ? head - m->sent : head + m->head.bytes - m->sent;
        ssize_t wrote = rest ? send(peer->socket, from, (size_t)rest, MSG_NOSIGNAL) : 0;
        if (wrote < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (wrote < 0) {
            note_failure(s, "is gone", rank);
            return;
        }
        m->sent += wrote;
        if (m->sent == head + m->head.bytes)
            message_sent(peer);
    }
}

/* ---- receiving ------------------------------------------------------------------------------- */

static bool is_same(const struct arriving *a, int32_t peer, const struct message_head *head)
{
    return a->peer == peer && a->head.key == head->key && a->head.number == head->number;
}

/* The first that fits, out of its list; NULL: there is none. */
static struct arriving *take_from(struct arriving **list, int32_t peer,
                                  const struct message_head *head)
{
    for (; *list; list = &(*list)->next)
        if (is_same(*list, peer, head)) {
            struct arriving *found = *list;
            *list = found->next;
            found->next = NULL;
            return found;
        }
    return NULL;
}

static void append(struct arriving **list, struct arriving *message)
{
    while (*list)
        list = &(*list)->next;
    *list = message;
}

static void take_over(struct connections *s, struct arriving *message)
{
    if (message->head.key == KEY_ABORT && !s->why[0])
        snprintf(s->why, sizeof s->why, "%.*s", (int)message->head.bytes, message->memory);
    if (message->head.key == KEY_END)
        s->peer[message->peer].ended = true;
    if (message->memory && message->to)
        memcpy(message->to, message->memory, (size_t)message->head.bytes);
    if (message->left)
        --*message->left;
    free(message->memory);
    free(message);
}

/* A message's head is there: where its bytes go. */
static void begin_message(struct connections *s, int32_t rank)
{
    struct peer *peer = &s->peer[rank];
    if (peer->head.bytes < 0 || peer->head.bytes > MOST_BYTES) {
        note_failure(s, "sends what is no message", rank);
        peer->head.bytes = 0;
    }
    peer->current = take_from(&s->asked, rank, &peer->head);
    if (peer->current && peer->current->head.bytes != peer->head.bytes)
        note_failure(s, "sends another size than is expected", rank);
    if (peer->current)
        return;
    peer->current = make_room(sizeof *peer->current);
    *peer->current = (struct arriving){.head = peer->head, .peer = rank};
    peer->current->memory = make_room((size_t)peer->head.bytes);
    if (peer->head.key >= KEY_PAIRS)
        append(&s->early, peer->current);
}

static void end_message(struct connections *s, struct peer *peer)
{
    struct arriving *message = peer->current;
    peer->current = NULL;
    peer->head_got = 0;
    message->whole = true;
    /* One that is here early stays until it is asked for, or has been already while it came. */
    if (!message->memory || message->to || message->head.key < KEY_PAIRS)
        take_over(s, message);
}

/* The next bytes of what comes; false: no more for now. */
static bool read_some(struct connections *s, int32_t rank)
{
    struct peer *peer = &s->peer[rank];
    struct arriving *m = peer->current;
    int64_t head = (int64_t)sizeof peer->head;
    char *to = m ? (m->memory ? m->memory : m->to) + m->got : (char *)&peer->head + peer->head_got;
    int64_t rest = m ? m->head.bytes - m->got : head - peer->head_got;
    ssize_t got = rest ? recv(peer->socket, to, (size_t)rest, 0) : 0;
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (rest && got <= 0) {
        if (!peer->ended)
            note_failure(s, "is gone", rank);
        shutdown(peer->socket,
                 SHUT_RDWR); /* a lookout has a copy of it, and the other may wait for its end */
        close(peer->socket);
        peer->socket = -1;
        return false;
    }
    *(m ? &m->got : &peer->head_got) += got;
    if (!m && peer->head_got == head)
        begin_message(s, rank);
    if (peer->current && peer->current->got == peer->current->head.bytes)
        end_message(s, peer);
    return !s->why[0];
}

void ask_for(struct connections *s, int32_t from, struct message_head head, void *to, int32_t *left)
{
    struct arriving *early = take_from(&s->early, from, &head), *asked = early;
    if (!early)
        asked = make_room(sizeof *asked);
    if (early && early->head.bytes != head.bytes)
        note_failure(s, "sends another size than is expected", from);
    asked->head = head;
    asked->peer = from;
    asked->to = to;
    asked->left = left;
    ++*left;
    if (!early)
        append(&s->asked, asked);
    else if (early->whole)
        take_over(s, early);
}

/* ---- looking after connections --------------------------------------------------------------- */

static int watch_all(struct connections *s, int timeout_ms)
{
    for (int32_t i = 0; i < s->ranks; i++) {
        s->poll[i] = (struct pollfd){.fd = s->peer[i].socket, .events = POLLIN};
        s->poll[i].events |= s->peer[i].first ? POLLOUT : 0;
    }
    s->poll[s->ranks] = (struct pollfd){.fd = s->wake[0], .events = POLLIN};
    return poll(s->poll, (nfds_t)s->ranks + 1, timeout_ms);
}

void pump(struct connections *s, int timeout_ms)
{
    char rung[64];
    if (watch_all(s, timeout_ms) <= 0)
        return;
    while (s->poll[s->ranks].revents && read(s->wake[0], rung, sizeof rung) > 0)
        ;
    for (int32_t i = 0; i < s->ranks; i++) {
        if (s->poll[i].revents & POLLOUT && s->peer[i].socket >= 0)
            write_out(s, i);
        while (s->poll[i].revents & (POLLIN | POLLHUP | POLLERR) && s->peer[i].socket >= 0 &&
               read_some(s, i))
            ;
    }
}

void wake_up(struct connections *s)
{
    ssize_t rung = write(s->wake[1], "", 1);
    (void)rung; /* a full pipe wakes, too */
}

int rank_socket(const struct connections *s, int32_t rank)
{
    return s->peer[rank].socket;
}

bool rank_ended(const struct connections *s, int32_t rank)
{
    return atomic_load(&s->peer[rank].ended);
}

/* ---- opening and the end --------------------------------------------------------------------- */

weft_status connections_open(struct connections *s, const int *socket, int32_t ranks)
{
    *s = (struct connections){.ranks = ranks, .wake = {-1, -1}};
    s->peer = make_room((size_t)ranks * sizeof *s->peer);
    s->poll = make_room(((size_t)ranks + 1) * sizeof *s->poll);
    for (int32_t i = 0; i < ranks; i++)
        s->peer[i].socket = socket[i];
    return pipe2(s->wake, O_NONBLOCK | O_CLOEXEC) ? failure("a pipe: %s", strerror(errno))
                                                  : WEFT_OK;
}

void tell_all(struct connections *s, uint64_t key, const char *text)
{
    static const double MOMENT_S =
        2; /* that a rank which computes needs to look at its connections */
    double until = wall_seconds() + MOMENT_S;
    struct message_head head = {key, 0, (int64_t)strlen(text)};
    bool busy = true;
    for (int32_t i = 0; i < s->ranks; i++)
        if (s->peer[i].socket >= 0)
            send_message(s, i, head, text, NULL);
    while (busy && wall_seconds() < until) {
        pump(s, 10);
        busy = false;
        for (int32_t i = 0; i < s->ranks; i++)
            busy |= s->peer[i].socket >= 0 && s->peer[i].first;
    }
}

static void free_list(struct arriving *list)
{
    while (list) {
        struct arriving *next = list->next;
        free(list->memory);
        free(list);
        list = next;
    }
}

/* What was sent last reaches the other only if nothing of its own is left unread here: a connection that is closed
 * with that is reset, and both directions are lost. Waits until the other has closed, too, but not for long. */
static void close_gently(int socket)
{
    enum { PATIENCE_MS = 1000 };
    char unread[4096];
    struct pollfd look = {.fd = socket, .events = POLLIN};
    ssize_t got = 1;
    shutdown(socket, SHUT_WR);
    while (got > 0 && poll(&look, 1, PATIENCE_MS) > 0)
        got = recv(socket, unread, sizeof unread, 0);
    close(socket);
}

void connections_close(struct connections *s)
{
    for (int32_t i = 0; i < s->ranks; i++) {
        struct peer *peer = &s->peer[i];
        if (peer->current && (!peer->current->memory || peer->current->head.key < KEY_PAIRS)) {
            free(peer->current->memory);
            free(peer->current);
        }
        while (peer->first)
            message_sent(peer);
        if (peer->socket >= 0)
            close_gently(peer->socket);
    }
    free_list(s->asked);
    free_list(s->early);
    close(s->wake[0]);
    close(s->wake[1]);
    free(s->peer);
    free(s->poll);
}
