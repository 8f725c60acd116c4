/* driver.h - private to the room: the functions of libcuda that Weft calls. */
#ifndef WEFT_RUN_DEVICE_CUDA_DRIVER_H
#define WEFT_RUN_DEVICE_CUDA_DRIVER_H

#include <cuda.h>

#include "run/device/cuda/cuda.h"

/* Field, and the name in the library: later versions of a function have a number of their own. */
#define CUDA_FUNCTIONS(X)                                                                          \
    X(cuInit, "cuInit")                                                                            \
    X(cuDriverGetVersion, "cuDriverGetVersion")                                                    \
    X(cuDeviceGetCount, "cuDeviceGetCount")                                                        \
    X(cuDeviceGet, "cuDeviceGet")                                                                  \
    X(cuDeviceGetName, "cuDeviceGetName")                                                          \
    X(cuDeviceGetAttribute, "cuDeviceGetAttribute")                                                \
    X(cuDeviceTotalMem, "cuDeviceTotalMem_v2")                                                     \
    X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain")                                        \
    X(cuCtxSetCurrent, "cuCtxSetCurrent")                                                          \
    X(cuModuleLoadData, "cuModuleLoadData")                                                        \
    X(cuModuleGetFunction, "cuModuleGetFunction")                                                  \
    X(cuFuncSetAttribute, "cuFuncSetAttribute")                                                    \
    X(cuLaunchKernel, "cuLaunchKernel")                                                            \
    X(cuStreamCreate, "cuStreamCreate")                                                            \
    X(cuStreamDestroy, "cuStreamDestroy_v2")                                                       \
    X(cuStreamSynchronize, "cuStreamSynchronize")                                                  \
    X(cuStreamWaitEvent, "cuStreamWaitEvent")                                                      \
    X(cuEventCreate, "cuEventCreate")                                                              \
    X(cuEventRecord, "cuEventRecord")                                                              \
    X(cuEventSynchronize, "cuEventSynchronize")                                                    \
    X(cuEventElapsedTime, "cuEventElapsedTime")                                                    \
    X(cuEventQuery, "cuEventQuery")                                                                \
    X(cuEventDestroy, "cuEventDestroy_v2")                                                         \
    X(cuDeviceGetDefaultMemPool, "cuDeviceGetDefaultMemPool")                                      \
    X(cuMemPoolSetAttribute, "cuMemPoolSetAttribute")                                              \
    X(cuMemAllocAsync, "cuMemAllocAsync")                                                          \
    X(cuMemFreeAsync, "cuMemFreeAsync")                                                            \
    X(cuMemHostAlloc, "cuMemHostAlloc")                                                            \
    X(cuMemFreeHost, "cuMemFreeHost")                                                              \
    X(cuMemcpyAsync, "cuMemcpyAsync")                                                              \
    X(cuMemsetD8Async, "cuMemsetD8Async")                                                          \
    X(cuMemAlloc, "cuMemAlloc_v2")                                                                 \
    X(cuMemFree, "cuMemFree_v2")                                                                   \
    X(cuStreamBeginCapture, "cuStreamBeginCapture_v2")                                             \
    X(cuStreamEndCapture, "cuStreamEndCapture")                                                    \
    X(cuGraphInstantiate, "cuGraphInstantiateWithFlags")                                           \
    X(cuGraphLaunch, "cuGraphLaunch")                                                              \
    X(cuGraphDestroy, "cuGraphDestroy")                                                            \
    X(cuGraphExecDestroy, "cuGraphExecDestroy")                                                    \
    X(cuGetErrorString, "cuGetErrorString")

struct cuda_driver {
#define CUDA_FIELD(name, text) __typeof__(&(name)) name##_;
    CUDA_FUNCTIONS(CUDA_FIELD)
#undef CUDA_FIELD
};
extern struct cuda_driver cuda_driver;
#define CUDA(name) (cuda_driver.name##_)

const char *cuda_failed(void); /* the table's `failed` */
/* Keeps an error (cuda.h, I2); true: there is none. */
bool cuda_works(CUresult result, const char *what);
/* Whether calls make sense: nothing has failed, and this thread is the GPU's. */
bool cuda_ready(void);

struct device_stream {
    CUstream stream;
    pthread_mutex_t lock;                       /* of what follows: any thread may upload */
    char *staging;                              /* pinned, in two halves */
    int64_t half, used;                         /* which of them is filled, and how far */
    CUevent read[2];                            /* when the GPU has read a half */
    struct device_replay *recording, *recorded; /* replay.c */
};

/* ---- replay.c --------------------------------------------------------------------------------- */

bool cuda_records(const struct device_stream *stream);
/* While it records; giving back also afterwards: whether the memory is a replay's own, or is released later. */
void *cuda_record_take(struct device_stream *stream, int64_t bytes);
bool cuda_record_give(struct device_stream *stream, void *memory);
void cuda_record_upload(struct device_stream *stream, void *to, const void *from, int64_t bytes);
/* The table's. */
bool cuda_replay_record(struct device_stream *stream);
void *cuda_uploaded(struct device_stream *stream);
struct device_replay *cuda_replay_recorded(struct device_stream *stream);
void cuda_replay(struct device_stream *stream, struct device_replay *replay);
void cuda_replay_free(struct device_stream *stream, struct device_replay *replay);

#endif
