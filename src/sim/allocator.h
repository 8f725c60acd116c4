/* allocator.h - PyTorch's caching allocator of device memory, simulated: what a program that
 * allocates and frees tensors in a given order reserves from its device.
 *
 * Facts of c10/cuda/CUDACachingAllocator.cpp (PyTorch 2.x, its default settings, one stream). A
 * request is rounded up to 512 bytes and served from the free block that fits best, by (size,
 * address), of the pool for its size; a free block is part of a segment that the device gave:
 *
 *   request          pool    segment                       a block is split when its rest is
 *   up to 1 MiB      small   2 MiB                         at least 512 bytes                 (1)
 *   below 10 MiB     large   20 MiB                        above 1 MiB                        (2)
 *   others           large   request, up to whole 2 MiB    above 1 MiB                        (3)
 *
 * A freed block joins its free neighbours and stays reserved. When the device has no room for a
 * segment, every segment that is wholly free is returned to it, and the request is tried again.
 *
 * With expandable segments a pool is one segment, which grows by whole pages of 2 MiB (small) or 20
 * MiB (large) at the lowest address where the request then fits; a block is split as in (1), and
 * whole free pages are returned to the device when it is full, wherever they are.
 *
 *   I1  Blocks tile their segments; two neighbours are never both free.
 *   I2  allocated <= reserved <= limit, and each is at most its peak. A rest that is not split off
 *       counts as allocated, as in torch.cuda.memory_allocated.
 *   I3  The outcome depends only on the order of requests; the driver's choice of addresses, which
 *       decides between free blocks of one size, is imitated (segments.c).
 */
#ifndef WEFT_SIM_ALLOCATOR_H
#define WEFT_SIM_ALLOCATOR_H

#include "base/base.h"

struct allocator;
struct allocator_options {
    int64_t limit_bytes; /* of the device; 0: none */
    bool expandable;     /* PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True */
};
struct allocator *allocator_new(struct arena *keep, const struct allocator_options *options);

/* Handles that are not a block's. */
enum { ALLOCATOR_FULL = -1, ALLOCATOR_NOTHING = 0 };
/* What a request for so many bytes is to this allocator, as long as it exists. */
struct size_class;
struct allocator_size {
    int64_t bytes; /* rounded up */
    struct size_class *class;
    int32_t pool;
};
struct allocator_size allocator_size(struct allocator *allocator, int64_t bytes);
/* Returns a handle that is valid until it is freed: ALLOCATOR_NOTHING for 0 bytes, ALLOCATOR_FULL
 * if the device has no room even after the cache is released. */
int32_t allocator_take(struct allocator *allocator, struct allocator_size size);
int32_t allocator_take_bytes(struct allocator *allocator, int64_t bytes);
/* Takes and gives back at once what a free block serves; false: none does, and nothing has happened. */
bool allocator_take_briefly(struct allocator *allocator, struct allocator_size size);
void allocator_give(struct allocator *allocator, int32_t handle);

/* One of many requests that are made again and again. */
enum allocator_asks { ASKS_TAKE, ASKS_GIVE, ASKS_BRIEFLY /* both at once */ };
struct allocator_request {
    struct allocator_size size;
    int32_t place; /* of its handle */
    uint8_t stream, asks;
};
/* Makes requests in their order, each of the allocator of its stream. */
void allocator_play(struct allocator *const *stream, const struct allocator_request *request,
                    size_t count, int32_t *handle);
/* What a full device causes, like torch.cuda.empty_cache(). */
void allocator_release_cache(struct allocator *allocator);
/* Another limit from now on: what other allocators of the device leave. */
void allocator_set_limit(struct allocator *allocator, int64_t limit_bytes);

struct allocator_use {
    int64_t allocated, allocated_peak; /* bytes */
    int64_t reserved, reserved_peak;   /* bytes */
    /* requests that found the device full and released the cache */
    int64_t retries;
};
const struct allocator_use *allocator_use(const struct allocator *allocator);

#endif
