/* device.c - what devices that work at once leave out of their table (device.h, I3). */
#include "run/device/device.h"

#include <stdlib.h>

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

bool device_over(const struct compute_device *device, struct device_event *event)
{
    return !device->over || device->over(event);
}

const char *device_failed(const struct compute_device *device)
{
    return device->failed ? device->failed() : NULL;
}

void device_download(const struct compute_device *device, struct device_stream *stream, void *to,
                     const void *from, int64_t bytes)
{
    device->copy(stream, COPY_TO_HOST, to, from, bytes);
    device_finish(device, device_record(device, stream));
}

struct host_view host_view(const struct compute_device *device, struct device_stream *stream,
                           void *memory, int64_t bytes, bool reads)
{
    struct host_view view = {.at = memory, .memory = memory, .bytes = bytes};
    if (device->shared)
        return view;
    view.at = malloc((size_t)bytes + 1);
    if (view.at && reads)
        device_download(device, stream, view.at, memory, bytes);
    return view;
}

void host_view_end(const struct compute_device *device, struct device_stream *stream,
                   struct host_view *view, bool wrote)
{
    if (device->shared)
        return;
    if (view->at && wrote)
        device->upload(stream, view->memory, view->at, view->bytes);
    free(view->at);
}
