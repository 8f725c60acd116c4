/* segments.c - memory from the device in segments of fixed size, PyTorch's default.
 *
 * Where the driver puts a segment decides between free blocks of one size. Observed on an H200
 * (driver 580, CUDA 13.0): it sets aside addresses from above in chunks of whole 32 MiB, and a
 * segment goes into the lowest chunk that has room after its existing segments, else into a new
 * one.
 *
 *   I1  Unlike in the driver, addresses that were returned are not used again.
 */
#include "sim/pool.h"

/* Requests up to `most` bytes share segments of one size; other segments are whole steps. */
static const struct {
    int64_t most, segment_bytes;
} SHARED[] = {
    {1 * MIB, 2 * MIB},                /* kSmallSize, kSmallBuffer */
    {10 * MIB - UNIT_BYTES, 20 * MIB}, /* below kMinLargeAlloc, kLargeBuffer */
};
#define STEP_BYTES  (2 * MIB) /* kRoundLarge */
#define CHUNK_BYTES (32 * MIB)
_Static_assert(CHUNK_BYTES / STEP_BYTES == CHUNK_STEPS, "a segment without its hint");
/* the lowest 256 GiB: on larger devices, other chunks count as full */
enum { CHUNKS_SEARCHED = 8192 };

static int64_t segment_bytes(int64_t bytes)
{
    for (size_t i = 0; i < COUNT_OF(SHARED); i++)
        if (bytes <= SHARED[i].most)
            return SHARED[i].segment_bytes;
    return round_up(bytes, STEP_BYTES);
}

static int64_t new_chunk(struct allocator *allocator, int64_t segment)
{
    size_t count = allocator->chunks.len;
    int64_t lowest = count ? allocator->chunks.data[count - 1].address : 0;
    int64_t bytes = round_up(segment, CHUNK_BYTES);
    struct driver_chunk chunk = {
        .address = lowest - bytes, .bytes = bytes, .used = segment, .above = allocator->open_chunk};
    array_push(allocator->arena, &allocator->chunks, chunk);
    if (bytes - segment >= STEP_BYTES)
        allocator->open_chunk = (int32_t)allocator->chunks.len;
    return chunk.address;
}

/* The lowest chunk with room for a segment of less than a chunk, from 1; 0: none. Those between the one that was
 * found last for this size and the newest one of then had no room for it, and have none now (I1). */
static int32_t chunk_with_room(struct allocator *allocator, int64_t segment)
{
    struct chunk_hint *hint = &allocator->hint[segment / STEP_BYTES];
    int32_t count = (int32_t)allocator->chunks.len, at = allocator->open_chunk;
    for (; at > 0; at = allocator->chunks.data[at - 1].above) {
        if (at <= hint->newest && at > hint->found)
            at = hint->found;
        if (at == 0 ||
            allocator->chunks.data[at - 1].bytes - allocator->chunks.data[at - 1].used >= segment)
            break;
    }
    *hint = (struct chunk_hint){.newest = count, .found = at};
    return at > count - CHUNKS_SEARCHED ? at : 0;
}

static int64_t place(struct allocator *allocator, int64_t segment)
{
    int32_t at = segment < CHUNK_BYTES ? chunk_with_room(allocator, segment) : 0;
    if (!at)
        return new_chunk(allocator, segment);
    struct driver_chunk *chunk = &allocator->chunks.data[at - 1];
    chunk->used += segment;
    return chunk->address + chunk->used - segment;
}

static void open_none(struct allocator *allocator)
{
    (void)allocator;
}

static int32_t grow(struct allocator *allocator, enum pool_kind kind, int64_t bytes)
{
    int64_t segment = segment_bytes(bytes);
    if (!reserve(allocator, segment))
        return 0;
    return block_add(allocator, (struct memory_block){.address = place(allocator, segment),
                                                      .bytes = segment,
                                                      .pool = (uint8_t)kind});
}

/* A free block without neighbours is a whole segment. */
static void release(struct allocator *allocator, int32_t id)
{
    const struct memory_block *block = &allocator->blocks.data[id];
    if (block->before || block->after)
        return;
    allocator->use.reserved -= block->bytes;
    block_unlist(allocator, id);
    block_drop(allocator, id);
}

const struct memory_source SEGMENTS = {
    .least_rest = {[POOL_SMALL] = UNIT_BYTES, [POOL_LARGE] = 1 * MIB + UNIT_BYTES},
    .open = open_none,
    .grow = grow,
    .release = release,
};
