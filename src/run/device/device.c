/* device.c - what devices that work at once leave out of their table (device.h, I3). */
#include "run/device/device.h"

struct device_stream *device_stream(const struct compute_device *device)
{
    return device->stream_new ? device->stream_new() : NULL;
}

void device_stream_free(const struct compute_device *device, struct device_stream *stream)
{
    if (device->stream_free)
        device->stream_free(stream);
}

struct device_event *device_record(const struct compute_device *device,
                                   struct device_stream *stream)
{
    return device->record ? device->record(stream) : NULL;
}

void device_await(const struct compute_device *device, struct device_stream *stream,
                  struct device_event *event)
{
    if (device->await)
        device->await(stream, event);
}

void device_finish(const struct compute_device *device, struct device_event *event)
{
    if (device->finish)
        device->finish(event);
}
