/* messages.h - messages between ranks over connections that do not block; private to the transport over sockets.
 *
 *   I1  A message is known by its sender, its key and its number. What comes before it is asked for waits in memory
 *       of its own; of several that are alike the first that came is the first that is asked for.
 *   I2  Buffers are the caller's and stay until the message has gone or come: a counter of the caller's says when.
 *   I3  A rank that ends well says so before it closes its connections. One that is gone without it has failed,
 *       and so has everybody who sees that.
 */
#ifndef WEFT_RUN_TRANSPORT_MESSAGES_H
#define WEFT_RUN_TRANSPORT_MESSAGES_H

#include "run/transport/transport.h"

/* Keys of messages that are no transfer. */
enum { KEY_ABORT = 1, KEY_END = 2, KEY_PAIRS = 3, FIRST_KEY = 16 };

struct message_head {
    uint64_t key;
    int64_t number, bytes;
};

struct peer;
struct pollfd;
struct arriving;
struct connections {
    int32_t ranks;
    struct peer *peer; /* by rank; the own one is not connected */
    struct pollfd *poll;
    int wake[2];
    struct arriving *asked, *early;
    char why[512]; /* empty: nobody has failed */
};
/* Of sockets by rank, -1 in the own one's place; they are taken over. */
weft_status connections_open(struct connections *s, const int *socket, int32_t ranks);
void connections_close(struct connections *s);
/* `left`, unless it is NULL, is one more until the message has gone; until it has come. */
void send_message(struct connections *s, int32_t to, struct message_head head, const void *data,
                  int32_t *left);
void ask_for(struct connections *s, int32_t from, struct message_head head, void *to,
             int32_t *left);
/* Moves what can be moved, and waits so long for something to move. */
void pump(struct connections *s, int timeout_ms);
void wake_up(struct connections *s); /* from any thread: ends a wait */
/* To all ranks, as far as they take it within a moment. */
void tell_all(struct connections *s, uint64_t key, const char *text);

int rank_socket(const struct connections *s, int32_t rank); /* -1: there is none */
bool rank_ended(const struct connections *s, int32_t rank); /* I3; from any thread */

/* Zeroed memory. */
void *make_room(size_t bytes);

#endif
