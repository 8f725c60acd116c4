/* runs.c - short copies, at once where the host can do them itself, else all in one call (runs.h). */
#include "run/device/runs.h"

#include <stdlib.h>
#include <string.h>

struct runs runs_between(const struct compute_device *device, struct device_stream *stream,
                         enum dtype dtype, const void *from, void *to, int64_t run)
{
    return (struct runs){
        .device = device, .stream = stream, .from = from, .to = to, .dtype = dtype, .run = run};
}

static void grow(struct runs *runs)
{
    runs->room = runs->room ? 2 * runs->room : 256;
    size_t bytes = 2 * (size_t)runs->room * sizeof *runs->place;
    int64_t *grown = realloc(runs->place, bytes);
    if (!grown)
        memory_ran_out(bytes);
    runs->place = grown;
}

void runs_add(struct runs *runs, int64_t from, int64_t to)
{
    if (runs->device->shared) {
        int64_t bytes = dtype_bytes(runs->dtype);
        memcpy((char *)runs->to + to * bytes, (const char *)runs->from + from * bytes,
               (size_t)(runs->run * bytes));
        return;
    }
    if (runs->count == runs->room)
        grow(runs);
    runs->place[2 * runs->count] = from;
    runs->place[2 * runs->count + 1] = to;
    runs->count++;
}

void runs_end(struct runs *runs)
{
    if (runs->count)
        runs->device->copy_runs(runs->stream, runs->dtype, runs->from, runs->to, runs->run,
                                runs->count, runs->place);
    free(runs->place);
    runs->place = NULL;
    runs->count = runs->room = 0;
}
