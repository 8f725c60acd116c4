/* device.h - where a rank's numbers lie and what happens to them apart from operators: one small table of
 * functions per backend, beside that of its kernels (run/kernels/kernels.h).
 *
 *   I1  Memory from `allocate` is the device's own: only this table, kernels and transports of the same
 *       backend look into it. Memory from `allocate_host` is the host's, quick to copy to and from.
 *   I2  Work that is given to a stream is done in the order in which it was given. Between streams there is
 *       no order but for events: what a stream is given after device_await begins after the event.
 *   I3  A device that works at once, as the CPU does, has no streams: every function has done its work when
 *       it returns, and NULL stands for any stream and any event, which is over.
 *   I4  Sums are in fp32, whatever numbers are stored as.
 */
#ifndef WEFT_RUN_DEVICE_H
#define WEFT_RUN_DEVICE_H

#include "model/model.h"
#include "run/device/elements.h"

struct device_stream;
struct device_event;

enum copy_way { COPY_ON_DEVICE, COPY_TO_HOST, COPY_FROM_HOST };

struct compute_device {
    const char *name;
    /* Aligned for every kernel; NULL: out of memory. */
    void *(*allocate)(int64_t bytes);
    void (*release)(void *memory); /* or NULL */
    void *(*allocate_host)(int64_t bytes);
    void (*release_host)(void *memory);
    void (*copy)(struct device_stream *stream, enum copy_way way, void *to, const void *from,
                 int64_t bytes);
    void (*clear)(struct device_stream *stream, void *to, int64_t bytes); /* to zeros */
    /* Elements of one storage as elements of another; of fp32 and bf16. */
    void (*cast)(struct device_stream *stream, enum dtype from_dtype, const void *from,
                 enum dtype to_dtype, void *to, int64_t count);
    /* to += from */
    void (*add)(struct device_stream *stream, enum dtype dtype, const void *from, int64_t count,
                void *to);
    double (*squares)(struct device_stream *stream, const float *x, int64_t count); /* their sum */

    /* All of these, or none (I3). */
    struct device_stream *(*stream_new)(void); /* NULL: no more can be had */
    void (*stream_free)(struct device_stream *stream);
    struct device_event *(*record)(struct device_stream *stream);
    void (*await)(struct device_stream *stream, struct device_event *event);
    void (*finish)(struct device_event *event); /* the host waits for it, and gives it up */
};
extern const struct compute_device CPU_DEVICE;

/* The optional ones, on any device. */
struct device_stream *device_stream(const struct compute_device *device);
void device_stream_free(const struct compute_device *device, struct device_stream *stream);
struct device_event *device_record(const struct compute_device *device,
                                   struct device_stream *stream);
void device_await(const struct compute_device *device, struct device_stream *stream,
                  struct device_event *event);
void device_finish(const struct compute_device *device, struct device_event *event);

#endif
