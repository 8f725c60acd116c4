/* lab_device.h - calls of kernels on any device, with operands in the host's memory: for another device
 * every call is mirrored, its operands go there and its results come back, so that the same tests hold for
 * all backends.
 *
 *   I1  Memory of lab_new knows its size.
 */
#ifndef WEFT_TESTS_LAB_DEVICE_H
#define WEFT_TESTS_LAB_DEVICE_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab_backend.h"

/* ---- memory that knows its size -------------------------------------------------------------- */

enum { LAB_HEADER = 64 };

static void *lab_new(int64_t bytes)
{
    char *memory = malloc((size_t)bytes + LAB_HEADER + 1);
    if (!memory)
        abort();
    memcpy(memory, &bytes, sizeof bytes);
    return memory + LAB_HEADER;
}

static int64_t lab_bytes(const void *memory)
{
    int64_t bytes;
    memcpy(&bytes, (const char *)memory - LAB_HEADER, sizeof bytes);
    return bytes;
}

static void lab_free(const void *memory)
{
    if (memory)
        free((char *)(uintptr_t)memory - LAB_HEADER);
}

/* ---- calls of a device apart ----------------------------------------------------------------- */

enum { MIRROR_MOST = 3 * CALL_INPUTS + 4 * MAX_KIND_WEIGHTS + 8 };
struct mirror {
    const struct compute_device *device;
    struct device_stream *stream;
    const struct kernel_call *call; /* the host's */
    void *host[MIRROR_MOST], *there[MIRROR_MOST];
    int count;
};

static void *mirror_of(struct mirror *m, const void *host)
{
    if (!host)
        return NULL;
    void *there = m->device->allocate(m->stream, lab_bytes(host) + 1);
    m->device->upload(m->stream, there, host, lab_bytes(host));
    m->host[m->count] = (void *)(uintptr_t)host;
    m->there[m->count++] = there;
    return there;
}

static void mirror_reduce(void *context, enum reduce op, float *data, int64_t count)
{
    struct mirror *m = context;
    int64_t bytes = count * (int64_t)sizeof *data;
    float *here = malloc((size_t)bytes + 1);
    device_download(m->device, m->stream, here, data, bytes);
    m->call->reduce(m->call->context, op, here, count);
    m->device->upload(m->stream, data, here, bytes);
    free(here);
}

static struct kernel_call mirror_call(struct mirror *m, const struct kernel_call *call)
{
    struct kernel_call c = *call;
    for (int i = 0; i < CALL_INPUTS; i++) {
        c.input[i] = mirror_of(m, call->input[i]);
        c.input_gradient[i] = mirror_of(m, call->input_gradient[i]);
    }
    for (int i = 0; i < MAX_KIND_WEIGHTS; i++) {
        c.weight[i] = mirror_of(m, call->weight[i]);
        c.weight_gradient[i] = mirror_of(m, call->weight_gradient[i]);
    }
    c.output = mirror_of(m, call->output);
    c.output_gradient = mirror_of(m, call->output_gradient);
    c.kept = mirror_of(m, call->kept);
    c.scratch = mirror_of(m, call->scratch);
    c.history.most = mirror_of(m, call->history.most);
    c.stream = m->stream;
    c.reduce = call->reduce ? mirror_reduce : NULL;
    c.context = m;
    return c;
}

/* Streams are dear to make: those that no call uses wait here. */
enum { LAB_STREAMS = 16 };
static struct {
    pthread_mutex_t lock;
    struct device_stream *idle[LAB_STREAMS];
    int count;
} lab_streams = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct device_stream *lab_stream(const struct compute_device *device)
{
    pthread_mutex_lock(&lab_streams.lock);
    struct device_stream *stream =
        lab_streams.count ? lab_streams.idle[--lab_streams.count] : device_stream(device);
    pthread_mutex_unlock(&lab_streams.lock);
    return stream;
}

static void lab_stream_end(const struct compute_device *device, struct device_stream *stream)
{
    pthread_mutex_lock(&lab_streams.lock);
    if (lab_streams.count < LAB_STREAMS)
        lab_streams.idle[lab_streams.count++] = stream;
    else
        device_stream_free(device, stream);
    pthread_mutex_unlock(&lab_streams.lock);
}

/* A call whose operands are of lab_new. */
static void lab_call(const struct kernels *kernels, const struct kernel_call *call,
                     enum phase phase)
{
    struct mirror m = {.device = kernels->device, .call = call};
    if (kernels->device->shared) {
        kernels->run(call, phase);
        return;
    }
    m.stream = lab_stream(kernels->device);
    struct kernel_call there = mirror_call(&m, call);
    kernels->run(&there, phase);
    for (int i = 0; i < m.count; i++) {
        device_download(m.device, m.stream, m.host[i], m.there[i], lab_bytes(m.host[i]));
        m.device->release(m.stream, m.there[i]);
    }
    lab_stream_end(m.device, m.stream);
    const char *why = device_failed(m.device);
    if (why) {
        fprintf(stderr, "%s\n", why);
        exit(1);
    }
}

#endif
