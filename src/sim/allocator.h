/* allocator.h - PyTorch's caching allocator of device memory, simulated: what a program that takes
 * and gives back tensors in a given order reserves from its device.
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
 * What is given back joins its free neighbours and stays reserved. When the device has no room for
 * a segment, every segment that is wholly free goes back to it, and the request is tried again.
 *
 * With expandable segments a pool is one segment, which grows by whole pages of 2 MiB (small) or
 * 20 MiB (large) at the lowest address where the request then fits; a block is split as in (1), and
 * whole free pages go back to the device when it is full, wherever they are.
 *
 *   I1  Blocks tile their segments; two neighbours are never both free.
 *   I2  allocated <= reserved <= limit, and each is at most its peak. A rest that is not split off
 *       counts as allocated, as in torch.cuda.memory_allocated.
 *   I3  The outcome depends on the order of requests alone; the driver's choice of addresses, which
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

/* Handles that are no block's. */
enum { ALLOCATOR_FULL = -1, ALLOCATOR_NOTHING = 0 };
/* A handle until it is given back: ALLOCATOR_NOTHING of 0 bytes, ALLOCATOR_FULL when the device has
 * no room even after the cache is released. */
int32_t allocator_take(struct allocator *allocator, int64_t bytes);
void allocator_give(struct allocator *allocator, int32_t handle);
/* What a full device causes, and torch.cuda.empty_cache(). */
void allocator_release_cache(struct allocator *allocator);

struct allocator_use {
    int64_t allocated, allocated_peak; /* bytes */
    int64_t reserved, reserved_peak;   /* bytes */
    int64_t retries;                   /* requests that found the device full and released */
};
struct allocator_use allocator_use(const struct allocator *allocator);

/* A block as torch.cuda.memory_snapshot() shows it. */
struct allocator_block {
    int64_t address, bytes; /* from 0 down; in an expandable pool up */
    bool small, live;
    bool begins; /* a segment; where one expands, a stretch of pages */
};
/* Every block, the small pool's first, by address. Returns how many. */
int32_t allocator_snapshot(struct arena *keep, const struct allocator *allocator,
                           struct allocator_block **out);

#endif
