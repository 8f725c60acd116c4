/* runs.h - many short copies between two buffers of a device as one piece of its work.
 *
 *   I1  All runs are as long; none is read after another has written there.
 */
#ifndef WEFT_RUN_DEVICE_RUNS_H
#define WEFT_RUN_DEVICE_RUNS_H

#include "run/device/device.h"

struct runs {
    const struct compute_device *device;
    struct device_stream *stream;
    const void *from;
    void *to;
    enum dtype dtype;
    int64_t run;    /* elements of each */
    int64_t *place; /* pairs, of a device that is not shared with the host */
    int64_t count, room;
};
struct runs runs_between(const struct compute_device *device, struct device_stream *stream,
                         enum dtype dtype, const void *from, void *to, int64_t run);
void runs_add(struct runs *runs, int64_t from, int64_t to);
void runs_end(struct runs *runs); /* all of them are given to the device */

#endif
