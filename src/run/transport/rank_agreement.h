/* rank_agreement.h - what ranks tell each other between steps. All ranks call, and afterwards all know the same.
 *
 *   I1  The result is the same on all ranks: the status of the first rank that failed, and its message.
 *   I2  A rank that cannot reach the others fails by itself, with the transport's error.
 */
#ifndef WEFT_RUN_TRANSPORT_RANK_AGREEMENT_H
#define WEFT_RUN_TRANSPORT_RANK_AGREEMENT_H

#include "run/transport/transport.h"

struct rank_agreement {
    struct transport *transport;
    int32_t group;
};
weft_status agreement_new(struct transport *transport, struct rank_agreement *out);
/* `bytes` of every rank, in their order. */
weft_status agreement_gather(const struct rank_agreement *agreement, const void *mine, size_t bytes,
                             void *all);
/* The status of this rank, with the error at hand, becomes that of all (I1). */
weft_status agreement_reach(const struct rank_agreement *agreement, weft_status mine);

#endif
