/* rank_agreement.h - what ranks tell each other between steps: all of them call, all of them know.
 *
 *   I1  What was agreed is the same on all ranks: the status of the first that has one, and its words.
 *   I2  A rank that cannot reach the others fails by itself: the transport's word is the last.
 */
#ifndef WEFT_RUN_TRANSPORT_RANK_AGREEMENT_H
#define WEFT_RUN_TRANSPORT_RANK_AGREEMENT_H

#include "run/transport/transport.h"

struct council {
    struct transport *transport;
    int32_t group;
};
weft_status council_new(struct transport *transport, struct council *out);
/* `bytes` of every rank, in their order. */
weft_status council_gather(const struct council *council, const void *mine, size_t bytes,
                           void *all);
/* The status of this rank, with the error at hand, becomes that of all (I1). */
weft_status council_agree(const struct council *council, weft_status mine);

#endif
