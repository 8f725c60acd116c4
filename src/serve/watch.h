/* watch.h - stops the work of clients that have left. Private to the room.
 *
 *   I1  A connection that its client has closed is noticed within WATCH_MS, and its work is asked to stop.
 */
#ifndef WEFT_SERVE_WATCH_H
#define WEFT_SERVE_WATCH_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/base.h"

enum { WATCH_MS = 10 };

/* Work that goes on for a connection; belongs to who works. */
struct watched {
    int socket;
    atomic_bool asked; /* to stop */
    struct watched *next;
};
struct watch {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct watched *first;
    bool over;
};
weft_status watch_begin(struct watch *watch);
void watch_end(struct watch *watch);
void watch_add(struct watch *watch, struct watched *work);
void watch_remove(struct watch *watch, struct watched *work);

#endif
