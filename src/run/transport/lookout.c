/* lookout.c - a thread that looks whether other ranks are gone (lookout.h). */
#include "run/transport/lookout.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* What is known of another rank. */
struct seen_rank {
    int socket;      /* I3; -1: there is nothing to look at any more */
    double closed_s; /* since when it is closed; 0: it is not */
};

struct lookout {
    struct connections *connections;
    struct seen_rank *rank;
    struct pollfd *poll; /* one more than ranks: the last tells that this is over */
    double patience_s;
    void (*gone)(int32_t rank);
    int over[2];
    pthread_t thread;
};

/* Whether the last that a connection holds unread is that its rank ends well. */
static bool ends_unread(int socket)
{
    struct message_head last = {0};
    int waiting = 0;
    if (ioctl(socket, FIONREAD, &waiting) || waiting < (int)sizeof last)
        return false;
    char *unread = make_room((size_t)waiting);
    if (recv(socket, unread, (size_t)waiting, MSG_PEEK | MSG_DONTWAIT) == waiting)
        memcpy(&last, unread + waiting - (int)sizeof last, sizeof last);
    free(unread);
    return last.key == KEY_END && last.number == 0 && last.bytes == 0;
}

/* I2, once it is too late for I1. */
static void judge(struct lookout *l, int32_t rank)
{
    struct seen_rank *w = &l->rank[rank];
    if (!rank_ended(l->connections, rank) && !ends_unread(w->socket))
        l->gone(rank);
    close(w->socket);
    *w = (struct seen_rank){.socket = -1};
}

/* Milliseconds until somebody has to be judged; -1: nobody has. */
static int time_left_ms(const struct lookout *l)
{
    double now_s = wall_seconds(), least_s = -1;
    for (int32_t i = 0; i < l->connections->ranks; i++) {
        double left_s = l->rank[i].closed_s + l->patience_s - now_s;
        left_s = left_s > 0 ? left_s : 0;
        if (l->rank[i].closed_s > 0 && (least_s < 0 || left_s < least_s))
            least_s = left_s;
    }
    return least_s < 0 ? -1 : (int)(least_s * 1e3) + 1;
}

/* Until a connection is closed, somebody has to be judged, or this is over; false: the last. */
static bool look_around(struct lookout *l)
{
    int32_t ranks = l->connections->ranks;
    for (int32_t i = 0; i < ranks; i++)
        l->poll[i] = (struct pollfd){.fd = l->rank[i].closed_s > 0 ? -1 : l->rank[i].socket,
                                     .events = POLLRDHUP};
    l->poll[ranks] = (struct pollfd){.fd = l->over[0], .events = POLLIN};
    if (poll(l->poll, (nfds_t)ranks + 1, time_left_ms(l)) < 0)
        return true; /* a signal */
    for (int32_t i = 0; i < ranks; i++)
        if (l->poll[i].revents)
            l->rank[i].closed_s = wall_seconds();
    return !l->poll[ranks].revents;
}

static void *keep_watch(void *context)
{
    struct lookout *l = context;
    while (look_around(l))
        for (int32_t i = 0; i < l->connections->ranks; i++)
            if (l->rank[i].closed_s > 0 && wall_seconds() >= l->rank[i].closed_s + l->patience_s)
                judge(l, i);
    return NULL;
}

static void release(struct lookout *l)
{
    for (int32_t i = 0; i < l->connections->ranks; i++)
        if (l->rank[i].socket >= 0)
            close(l->rank[i].socket);
    close(l->over[0]);
    close(l->over[1]);
    free(l->rank);
    free(l->poll);
    free(l);
}

struct lookout *lookout_new(struct connections *connections, double patience_s,
                            void (*gone)(int32_t rank))
{
    struct lookout *l = make_room(sizeof *l);
    size_t ranks = (size_t)connections->ranks;
    *l = (struct lookout){.connections = connections, .patience_s = patience_s, .gone = gone};
    l->rank = make_room(ranks * sizeof *l->rank);
    l->poll = make_room((ranks + 1) * sizeof *l->poll);
    for (int32_t i = 0; i < connections->ranks; i++)
        l->rank[i].socket = fcntl(rank_socket(connections, i), F_DUPFD_CLOEXEC, 0);
    bool piped = pipe2(l->over, O_CLOEXEC) == 0;
    if (piped && pthread_create(&l->thread, NULL, keep_watch, l) == 0)
        return l;
    if (!piped)
        l->over[0] = l->over[1] = -1;
    release(l);
    return NULL;
}

void lookout_free(struct lookout *l)
{
    if (!l)
        return;
    ssize_t rung = write(l->over[1], "", 1);
    (void)rung; /* an empty pipe takes a byte */
    pthread_join(l->thread, NULL);
    release(l);
}
