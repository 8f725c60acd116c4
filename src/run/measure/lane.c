/* lane.c - how transfers of a device's memory are carried while they are measured (lane.h). */
#include "run/measure/lane.h"

weft_status lane_open(struct transport *host, const struct measure_options *options,
                      struct transfer_lane *out)
{
    const struct compute_device *device = options->kernels->device;
    *out = (struct transfer_lane){host, device_stream(device)};
    if (options->carrier)
        return options->carrier(host, device, out->stream, &out->transport);
    if (!device->shared)
        out->transport = transport_staged(host, device, out->stream);
    return WEFT_OK;
}

void lane_close(struct transport *host, const struct measure_options *options,
                struct transfer_lane *lane)
{
    if (lane->transport != host && lane->transport)
        lane->transport->kind->close(lane->transport);
    device_stream_free(options->kernels->device, lane->stream);
}
