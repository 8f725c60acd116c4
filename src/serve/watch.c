/* watch.c - one thread looks at the sockets of all requests that are being answered. */
#include "serve/watch.h"

#include <poll.h>

enum { MOST_WATCHED = 256 };

/* The sockets of all work; how many there are. */
static nfds_t list_sockets(const struct watch *watch, struct pollfd *out)
{
    nfds_t count = 0;
    for (const struct watched *work = watch->first; work && count < MOST_WATCHED; work = work->next)
        out[count++] = (struct pollfd){.fd = work->socket, .events = POLLRDHUP};
    return count;
}

static void stop_closed(struct watch *watch, const struct pollfd *sockets, nfds_t count)
{
    for (struct watched *work = watch->first; work; work = work->next)
        for (nfds_t i = 0; i < count; i++)
            if (sockets[i].fd == work->socket &&
                sockets[i].revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL))
                atomic_store(&work->asked, true);
}

static void *look(void *context)
{
    struct watch *watch = context;
    struct pollfd sockets[MOST_WATCHED];
    pthread_mutex_lock(&watch->lock);
    while (!watch->over) {
        nfds_t count = list_sockets(watch, sockets);
        if (!count) {
            pthread_cond_wait(&watch->changed, &watch->lock);
            continue;
        }
        pthread_mutex_unlock(&watch->lock);
        struct timespec pause = {.tv_nsec = WATCH_MS * 1000000L};
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&watch->lock);
        count = list_sockets(watch, sockets); /* who has finished meanwhile is gone */
        if (poll(sockets, count, 0) > 0)
            stop_closed(watch, sockets, count);
    }
    pthread_mutex_unlock(&watch->lock);
    return NULL;
}

weft_status watch_begin(struct watch *watch)
{
    *watch = (struct watch){0};
    pthread_mutex_init(&watch->lock, NULL);
    pthread_cond_init(&watch->changed, NULL);
    if (pthread_create(&watch->thread, NULL, look, watch) != 0)
        return failure("no thread can be started");
    return WEFT_OK;
}

void watch_end(struct watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    watch->over = true;
    pthread_cond_signal(&watch->changed);
    pthread_mutex_unlock(&watch->lock);
    pthread_join(watch->thread, NULL);
    pthread_cond_destroy(&watch->changed);
    pthread_mutex_destroy(&watch->lock);
}

void watch_add(struct watch *watch, struct watched *work)
{
    pthread_mutex_lock(&watch->lock);
    work->next = watch->first;
    watch->first = work;
    pthread_cond_signal(&watch->changed);
    pthread_mutex_unlock(&watch->lock);
}

void watch_remove(struct watch *watch, struct watched *work)
{
    pthread_mutex_lock(&watch->lock);
    struct watched **at = &watch->first;
    while (*at && *at != work)
        at = &(*at)->next;
    if (*at)
        *at = work->next;
    pthread_mutex_unlock(&watch->lock);
}
