/* allocator.c - requests and returns: (1) to (3) of allocator.h, with best fit inside a pool. */
#include "sim/pool.h"

static const int64_t SMALL_MOST_BYTES = 1 * MIB; /* kSmallSize */

struct allocator *allocator_new(struct arena *keep, const struct allocator_options *options)
{
    struct allocator *allocator = ARENA_NEW(keep, struct allocator);
    int64_t limit = options->limit_bytes;
    allocator->arena = keep;
    allocator->source = options->expandable ? &EXPANDABLE : &SEGMENTS;
    allocator->limit_bytes = limit && limit < MOST_BYTES ? limit : MOST_BYTES - 1;
    array_push(keep, &allocator->blocks, (struct memory_block){0});
    for (int kind = 0; kind < POOL_COUNT; kind++)
        allocator->pool[kind].free = bestfit_new(keep);
    allocator->source->open(allocator);
    return allocator;
}

static void count_peak(struct allocator *allocator, int64_t allocated)
{
    if (allocated > allocator->use.allocated_peak)
        allocator->use.allocated_peak = allocated;
}

/* What is behind the first `bytes` of a block becomes a free block. */
static void split(struct allocator *allocator, int32_t id, int64_t bytes)
{
    int32_t rest = block_new(allocator);
    struct memory_block *blocks = allocator->blocks.data, *front = &blocks[id];
    blocks[rest].address = front->address + bytes;
    blocks[rest].bytes = front->bytes - bytes;
    blocks[rest].before = id;
    blocks[rest].after = front->after;
    blocks[rest].pool = front->pool;
    blocks[rest].class = NULL;
    if (front->after)
        blocks[front->after].before = rest;
    front->after = rest;
    front->bytes = bytes;
    block_list(allocator, rest);
}

/* Gives the front of a block to the request; the rest stays free or is handed out with it. */
static void hand_out(struct allocator *allocator, int32_t id, struct allocator_size size)
{
    struct memory_block *block = &allocator->blocks.data[id];
    struct allocator_use *use = &allocator->use;
    block->state = BLOCK_LIVE;
    use->allocated += block->bytes;
    if (block->bytes - size.bytes >= allocator->source->least_rest[size.pool]) {
        use->allocated += size.bytes - block->bytes;
        block->class = size.class;
        split(allocator, id, size.bytes);
    }
    count_peak(allocator, use->allocated);
}

struct allocator_size allocator_size(struct allocator *allocator, int64_t bytes)
{
    bytes = bytes < MOST_BYTES ? round_up(bytes, UNIT_BYTES) : MOST_BYTES; /* above any limit */
    enum pool_kind kind = bytes <= SMALL_MOST_BYTES ? POOL_SMALL : POOL_LARGE;
    struct size_class *class = bytes ? bestfit_class(&allocator->pool[kind].free, bytes) : NULL;
    return (struct allocator_size){bytes, class, kind};
}

static int32_t grow(struct allocator *allocator, struct allocator_size size)
{
    const struct memory_source *source = allocator->source;
    int32_t id = source->grow(allocator, (enum pool_kind)size.pool, size.bytes);
    if (id)
        return id;
    allocator_release_cache(allocator);
    allocator->use.retries++;
    return source->grow(allocator, (enum pool_kind)size.pool, size.bytes);
}

static int32_t find(struct allocator *allocator, struct allocator_size size)
{
    if (allocator->source->find)
        return allocator->source->find(allocator, size.class);
    return bestfit_take(allocator->blocks.data, size.class);
}

static inline int32_t take(struct allocator *allocator, struct allocator_size size)
{
    if (!size.bytes)
        return ALLOCATOR_NOTHING;
    int32_t id = find(allocator, size);
    if (!id)
        id = grow(allocator, size);
    if (!id)
        return ALLOCATOR_FULL;
    hand_out(allocator, id, size);
    return id;
}

/* The block's neighbours are not free, so that it would be whole again. */
static inline bool take_briefly(struct allocator *allocator, struct allocator_size size)
{
    if (!size.bytes)
        return true;
    int32_t id = bestfit_find(size.class);
    if (!id)
        return false;
    int64_t bytes = allocator->blocks.data[id].bytes;
    bool whole = bytes - size.bytes < allocator->source->least_rest[size.pool];
    count_peak(allocator, allocator->use.allocated + (whole ? bytes : size.bytes));
    return true;
}

static inline void give(struct allocator *allocator, int32_t handle)
{
    if (handle <= ALLOCATOR_NOTHING)
        return;
    allocator->use.allocated -= allocator->blocks.data[handle].bytes;
    block_free(allocator, handle);
}

int32_t allocator_take(struct allocator *allocator, struct allocator_size size)
{
    return take(allocator, size);
}

bool allocator_take_briefly(struct allocator *allocator, struct allocator_size size)
{
    return take_briefly(allocator, size);
}

void allocator_give(struct allocator *allocator, int32_t handle)
{
    give(allocator, handle);
}

void allocator_play(struct allocator *const *stream, const struct allocator_request *request,
                    size_t count, int32_t *handle)
{
    for (const struct allocator_request *q = request; q < request + count; q++) {
        struct allocator *own = stream[q->stream];
        if (q->asks == ASKS_TAKE)
            handle[q->place] = take(own, q->size);
        else if (q->asks == ASKS_GIVE)
            give(own, handle[q->place]);
        else if (!take_briefly(own, q->size))
            allocator_give(own, allocator_take(own, q->size));
    }
}

int32_t allocator_take_bytes(struct allocator *allocator, int64_t bytes)
{
    return allocator_take(allocator, allocator_size(allocator, bytes));
}

void allocator_release_cache(struct allocator *allocator)
{
    for (size_t id = 1; id < allocator->blocks.len; id++)
        if (allocator->blocks.data[id].state == BLOCK_FREE)
            allocator->source->release(allocator, (int32_t)id);
}

void allocator_set_limit(struct allocator *allocator, int64_t limit_bytes)
{
    allocator->limit_bytes = limit_bytes;
}

const struct allocator_use *allocator_use(const struct allocator *allocator)
{
    return &allocator->use;
}
