/* replay.c - work that is given to a stream once and done many times: CUDA graphs (device.h, replays).
 *
 *   I1  Memory that is taken while a stream records is the replay's own until that is given up: nobody else may have it,
 *       since every replay writes there again. What the recorded work gave back it takes again itself, in the order of the
 *       stream.
 *   I2  Memory that was there before and is given back while a stream records is released after that.
 *   I3  What is uploaded lies in pinned memory of the replay's own: what the host writes there is what the next replay uploads.
 */
#include <pthread.h>

#include "run/device/cuda/driver.h"

#include <stdlib.h>
#include <string.h>

struct replay_memory {
    char *memory;
    int64_t bytes;
    bool taken;
};
struct device_replay {
    CUgraphExec exec;
    ARRAY(struct replay_memory) owned;
    ARRAY(void *) uploads; /* pinned */
    ARRAY(void *) later;   /* I2 */
    struct arena *arena;
};

static CUdeviceptr address(const void *memory)
{
    return (CUdeviceptr)(uintptr_t)memory;
}

bool cuda_records(const struct device_stream *stream)
{
    return stream->recording != NULL;
}

/* The smallest that is free, and not more than twice as large. */
static struct replay_memory *fitting(struct device_replay *p, int64_t bytes)
{
    struct replay_memory *best = NULL;
    for (size_t i = 0; i < p->owned.len; i++) {
        struct replay_memory *o = &p->owned.data[i];
        if (!o->taken && o->bytes >= bytes && o->bytes <= 2 * bytes &&
            (!best || o->bytes < best->bytes))
            best = o;
    }
    return best;
}

void *cuda_record_take(struct device_stream *stream, int64_t bytes)
{
    struct device_replay *p = stream->recording;
    struct replay_memory *o = fitting(p, bytes);
    CUdeviceptr memory = 0;
    if (o) {
        o->taken = true;
        return o->memory;
    }
    CUresult result = CUDA(cuMemAlloc)(&memory, (size_t)bytes);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return NULL;
    cuda_works(result, "memory is taken");
    struct replay_memory made = {(char *)(uintptr_t)memory, bytes, true};
    array_push(p->arena, &p->owned, made);
    return made.memory;
}

static bool gives_back(struct device_replay *p, const void *memory)
{
    for (size_t i = 0; p && i < p->owned.len; i++)
        if (p->owned.data[i].memory == memory) {
            p->owned.data[i].taken = false;
            return true;
        }
    return false;
}

bool cuda_record_give(struct device_stream *stream, void *memory)
{
    struct device_replay *p = stream->recording;
    if (gives_back(p ? p : stream->recorded, memory))
        return true;
    if (p)
        array_push(p->arena, &p->later, memory);
    return p != NULL;
}

void cuda_record_upload(struct device_stream *stream, void *to, const void *from, int64_t bytes)
{
    struct device_replay *p = stream->recording;
    void *pinned = NULL;
    if (!cuda_works(CUDA(cuMemHostAlloc)(&pinned, (size_t)(bytes > 0 ? bytes : 1), 0),
                    "pinned memory is taken"))
        return;
    memcpy(pinned, from, (size_t)bytes);
    array_push(p->arena, &p->uploads, pinned);
    if (bytes > 0)
        cuda_works(CUDA(cuMemcpyAsync)(address(to), address(pinned), (size_t)bytes, stream->stream),
                   "numbers are copied");
}

void *cuda_uploaded(struct device_stream *stream)
{
    struct device_replay *p = stream->recording;
    return p && p->uploads.len ? p->uploads.data[p->uploads.len - 1] : NULL;
}

bool cuda_replay_record(struct device_stream *stream)
{
    if (!cuda_ready() || stream->recording || stream->recorded)
        return false;
    cuda_works(CUDA(cuStreamSynchronize)(stream->stream), "the GPU works");
    if (CUDA(cuStreamBeginCapture)(stream->stream, CU_STREAM_CAPTURE_MODE_RELAXED) != CUDA_SUCCESS)
        return false;
    struct arena *arena = arena_new();
    stream->recording = ARENA_NEW(arena, struct device_replay);
    stream->recording->arena = arena;
    return true;
}

struct device_replay *cuda_replay_recorded(struct device_stream *stream)
{
    struct device_replay *p = stream->recording;
    CUgraph graph = NULL;
    cuda_works(CUDA(cuStreamEndCapture)(stream->stream, &graph), "work is recorded");
    if (graph && cuda_ready())
        cuda_works(CUDA(cuGraphInstantiate)(&p->exec, graph, 0), "recorded work is prepared");
    if (graph)
        CUDA(cuGraphDestroy)(graph);
    stream->recording = NULL;
    stream->recorded = p;
    for (size_t i = 0; i < p->later.len && cuda_ready(); i++) /* I2 */
        cuda_works(CUDA(cuMemFreeAsync)(address(p->later.data[i]), stream->stream),
                   "memory is released");
    return p;
}

void cuda_replay(struct device_stream *stream, struct device_replay *replay)
{
    if (cuda_ready() && replay->exec)
        cuda_works(CUDA(cuGraphLaunch)(replay->exec, stream->stream), "recorded work is started");
}

void cuda_replay_free(struct device_stream *stream, struct device_replay *replay)
{
    struct device_replay *p = replay;
    if (!p)
        return;
    if (cuda_ready()) {
        cuda_works(CUDA(cuStreamSynchronize)(stream->stream), "a stream ends");
        if (p->exec)
            CUDA(cuGraphExecDestroy)(p->exec);
        for (size_t i = 0; i < p->owned.len; i++)
            CUDA(cuMemFree)(address(p->owned.data[i].memory));
        for (size_t i = 0; i < p->uploads.len; i++)
            CUDA(cuMemFreeHost)(p->uploads.data[i]);
    }
    stream->recorded = NULL;
    arena_free(p->arena);
}
