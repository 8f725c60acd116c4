/* sockets_room.h - private to sockets.c and rendezvous.c. */
#ifndef WEFT_RUN_TRANSPORT_SOCKETS_ROOM_H
#define WEFT_RUN_TRANSPORT_SOCKETS_ROOM_H

#include "run/transport/transport.h"

/* A connection to every rank, which does not block; -1 in the place of the own one. */
weft_status connect_all(const struct rendezvous *at, int *connection);

#endif
