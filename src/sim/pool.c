/* pool.c - the two pools of the simulated allocator: blocks, segments, sizes (pool.h). */
#include "sim/pool.h"

int32_t block_add(struct allocator *allocator, struct memory_block block)
{
    int32_t id = allocator->unused;
    if (id) {
        allocator->unused = allocator->blocks.data[id].next;
        allocator->blocks.data[id] = block;
    } else {
        id = (int32_t)allocator->blocks.len;
        array_push(allocator->arena, &allocator->blocks, block);
    }
    if (block.before)
        allocator->blocks.data[block.before].after = id;
    if (block.after)
        allocator->blocks.data[block.after].before = id;
    return id;
}

void block_drop(struct allocator *allocator, int32_t id)
{
    struct memory_block *blocks = allocator->blocks.data, *block = &blocks[id];
    if (block->before)
        blocks[block->before].after = block->after;
    if (block->after)
        blocks[block->after].before = block->before;
    *block = (struct memory_block){.state = BLOCK_UNUSED, .next = allocator->unused};
    allocator->unused = id;
}

void block_absorb(struct allocator *allocator, int32_t id, int32_t neighbour)
{
    struct memory_block *block = &allocator->blocks.data[id],
                        *other = &allocator->blocks.data[neighbour];
    if (other->address < block->address)
        block->address = other->address;
    block->bytes += other->bytes;
    block_drop(allocator, neighbour);
}

void block_list(struct allocator *allocator, int32_t id)
{
    struct memory_block *blocks = allocator->blocks.data;
    struct bestfit *fit = &allocator->pool[blocks[id].pool].free;
    blocks[id].state = BLOCK_FREE;
    if (fit->classes.data[blocks[id].size_class].bytes != blocks[id].bytes)
        blocks[id].size_class = bestfit_class(fit, blocks[id].bytes);
    bestfit_insert(fit, blocks, id);
}

void block_unlist(struct allocator *allocator, int32_t id)
{
    struct memory_block *blocks = allocator->blocks.data;
    bestfit_remove(&allocator->pool[blocks[id].pool].free, blocks, id);
}

void block_free(struct allocator *allocator, int32_t id)
{
    struct memory_block *blocks = allocator->blocks.data;
    int32_t neighbour[] = {blocks[id].before, blocks[id].after};
    for (size_t i = 0; i < COUNT_OF(neighbour); i++)
        if (blocks[neighbour[i]].state == BLOCK_FREE) {
            block_unlist(allocator, neighbour[i]);
            block_absorb(allocator, id, neighbour[i]);
        }
    block_list(allocator, id);
}

bool reserve(struct allocator *allocator, int64_t bytes)
{
    struct allocator_use *use = &allocator->use;
    if (bytes > allocator->limit_bytes - use->reserved)
        return false;
    use->reserved += bytes;
    if (use->reserved > use->reserved_peak)
        use->reserved_peak = use->reserved;
    return true;
}
