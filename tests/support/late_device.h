/* late_device.h - a device that works behind its host, as a GPU does, made of the CPU's: copies between it and the host are
 * done when somebody has waited for them, or asked LOOKS times whether they are over. What is reused before, or read
 * before, is wrong then.
 *
 *   I1  Kernels and copies within the device are done at once, and so is what they wait for (late_await).
 */
#ifndef WEFT_TESTS_LATE_DEVICE_H
#define WEFT_TESTS_LATE_DEVICE_H

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "run/device/device.h"

enum { LOOKS = 20 };

struct late_copy {
    void *to;
    const void *from;
    int64_t bytes;
    struct late_copy *next;
};
struct device_stream {
    struct late_copy *first;
    int64_t given, done;
};
struct device_event {
    struct device_stream *stream;
    int64_t after; /* so many copies of it */
    int looks;
};

static pthread_mutex_t late_lock = PTHREAD_MUTEX_INITIALIZER;

static void late_do(struct device_stream *stream, int64_t until)
{
    while (stream->done < until) {
        struct late_copy *copy = stream->first;
        memcpy(copy->to, copy->from, (size_t)copy->bytes);
        stream->first = copy->next;
        stream->done++;
        free(copy);
    }
}

static struct device_stream *late_stream_new(void)
{
    return calloc(1, sizeof(struct device_stream));
}

static void late_stream_free(struct device_stream *stream)
{
    if (stream)
        late_do(stream, stream->given);
    free(stream);
}

static void late_copy(struct device_stream *stream, enum copy_way way, void *to, const void *from,
                      int64_t bytes)
{
    if (way == COPY_ON_DEVICE) {
        memcpy(to, from, (size_t)bytes);
        return;
    }
    struct late_copy *copy = calloc(1, sizeof *copy);
    if (!copy)
        abort();
    *copy = (struct late_copy){to, from, bytes, NULL};
    pthread_mutex_lock(&late_lock);
    struct late_copy **last = &stream->first;
    while (*last)
        last = &(*last)->next;
    *last = copy;
    stream->given++;
    pthread_mutex_unlock(&late_lock);
}

static struct device_event *late_record(struct device_stream *stream)
{
    struct device_event *event = calloc(1, sizeof *event);
    if (!event)
        abort();
    pthread_mutex_lock(&late_lock);
    *event = (struct device_event){stream, stream->given, 0};
    pthread_mutex_unlock(&late_lock);
    return event;
}

static void late_finish(struct device_event *event)
{
    if (!event)
        return;
    pthread_mutex_lock(&late_lock);
    late_do(event->stream, event->after);
    pthread_mutex_unlock(&late_lock);
    free(event);
}

static void late_await(struct device_stream *stream, struct device_event *event)
{
    (void)stream;
    late_finish(event);
}

static bool late_over(struct device_event *event)
{
    if (!event || ++event->looks >= LOOKS) {
        late_finish(event);
        return true;
    }
    return false;
}

static struct compute_device late_device(void)
{
    struct compute_device device = CPU_DEVICE;
    device.shared = false;
    device.copy = late_copy;
    device.stream_new = late_stream_new;
    device.stream_free = late_stream_free;
    device.record = late_record;
    device.await = late_await;
    device.finish = late_finish;
    device.over = late_over;
    return device;
}

#endif
