/* chunks.h - collectives made of messages between two members: whose part of the numbers is where, and sums of such parts.
 *
 *   I1  Sums are in the order of the members, so that runs repeat bit for bit (transport.h, I4).
 */
#ifndef WEFT_RUN_TRANSPORT_CHUNKS_H
#define WEFT_RUN_TRANSPORT_CHUNKS_H

#include "run/transport/transport.h"

/* A part of a buffer of floats. */
struct float_span {
    int64_t first, count;
};

/* That of member m. Of a broadcast the chunks are those of all but the member that has it, which has the last, empty one. */
struct float_span chunk_of(const struct transfer *x, int32_t members, int32_t m);

/* The sum of the own chunk, to where the transfer wants it. Rooms hold what each member adds to it, one after the
 * other; the own one is filled here. */
void sum_addends(const struct transfer *x, int32_t members, int32_t self, float *rooms);

#endif
