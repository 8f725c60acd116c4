/* library.h - NCCL's functions, opened when a run asks for them; for nccl.c alone. */
#ifndef WEFT_RUN_TRANSPORT_NCCL_LIBRARY_H
#define WEFT_RUN_TRANSPORT_NCCL_LIBRARY_H

#include <nccl.h>
#include <pthread.h>
#include <stdio.h>

#include "run/device/cuda/cuda.h"

#define NCCL_FUNCTIONS(X)                                                                          \
    X(ncclGetUniqueId)                                                                             \
    X(ncclCommInitRankConfig)                                                                      \
    X(ncclCommGetAsyncError)                                                                       \
    X(ncclCommDestroy)                                                                             \
    X(ncclCommAbort)                                                                               \
    X(ncclAllReduce)                                                                               \
    X(ncclReduceScatter)                                                                           \
    X(ncclAllGather)                                                                               \
    X(ncclBroadcast)                                                                               \
    X(ncclSend)                                                                                    \
    X(ncclRecv)                                                                                    \
    X(ncclGroupStart)                                                                              \
    X(ncclGroupEnd)                                                                                \
    X(ncclGetErrorString)

#define NCCL_FIELD(name) static __typeof__(&(name)) name##_;
NCCL_FUNCTIONS(NCCL_FIELD)
#undef NCCL_FIELD
#define NCCL(name) (name##_)

static char missing[256], through_host[512];

static void open_library(void)
{
    static const char *const NAMES[] = {"libnccl.so.2", "libnccl.so", NULL};
    const char *why = "";
    void *library = cuda_library(NAMES, &why);
    if (!library) {
        snprintf(missing, sizeof missing, "NCCL is not installed (%s)", why);
        return;
    }
#define NCCL_FIND(name)                                                                            \
    if (!cuda_symbol(library, #name, &name##_))                                                    \
        snprintf(missing, sizeof missing, "NCCL is too old: it has no %s", #name);
    NCCL_FUNCTIONS(NCCL_FIND)
#undef NCCL_FIND
}

/* What a user is told where not all ranks have it. */
static void note_absence(void)
{
    snprintf(through_host, sizeof through_host,
             "%s: GPUs exchange through the memory of their hosts, which is slow",
             missing[0] ? missing : "a rank has no NCCL");
}

static void find_library(void)
{
    open_library();
    note_absence();
}

/* Why it cannot be used; NULL: it can. */
static const char *nccl_missing(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_library);
    return missing[0] ? missing : NULL;
}

#endif
