/* nccl.h - NVIDIA's library of collectives as a transport between ranks that are processes with a GPU each. */
#ifndef WEFT_RUN_TRANSPORT_NCCL_H
#define WEFT_RUN_TRANSPORT_NCCL_H

#include "run/transport/transport.h"

/* Opens the library; where a rank has none, all take the way through the host instead. */
weft_status carry_by_nccl(struct transport *host, const struct compute_device *device,
                          struct device_stream *stream, struct transport **out);

#endif
