/* lane.h - transfers of the device's memory, which are timed, beside those of the host by which ranks agree; private to the room. */
#ifndef WEFT_RUN_MEASURE_LANE_H
#define WEFT_RUN_MEASURE_LANE_H

#include "run/measure/measure.h"

struct transfer_lane {
    struct transport *transport; /* the host's own where the device shares its memory */
    struct device_stream *stream;
};
/* By the options' carrier, or through the host's memory. */
weft_status lane_open(struct transport *host, const struct measure_options *options,
                      struct transfer_lane *out);
void lane_close(struct transport *host, const struct measure_options *options,
                struct transfer_lane *lane);

#endif
