/* chunks.c - the memory of arenas, which the whole process keeps for its next arenas.
 *
 * The system needs ten times as long to give 4 MiB in pages of 4 KiB as in huge pages (2.6 and 0.3 ms for 8 MiB, Neoverse V2,
 * Linux 6.18), and reads in random order miss fewer address translations in these. So chunks are cut from blocks of whole huge
 * pages, and what one arena gives back the next one takes.
 *
 *   I1  A chunk has a power of two of bytes, from 4 KiB to 4 MiB. A larger one is not kept.
 *   I2  A chunk is halved as often as a smaller one is asked for. Halves are never joined again: what is asked for next is
 *       mostly what was asked for last.
 *   I3  Of a kept chunk, `used` says how many bytes may be other than 0: only these are cleared when it is taken.
 *   I4  Whole blocks beyond KEPT_BLOCKS go back to the system.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/arena_room.h"

/* A sanitizer cannot see the wrong use of memory that is kept, so under one nothing is. */
static const size_t MOST_KEPT = GUARD > 0 ? 0 : 4 << 20;

enum { SIZES = 11 /* I1 */, KEPT_BLOCKS = 16 /* 64 MiB */ };
static const size_t LEAST = 4096, BLOCK = (size_t)4096 << (SIZES - 1);
/* bytes, on x86-64 and on arm64 with small pages of 4 KiB */
static const size_t HUGE_PAGE = 2 << 20;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct chunk *kept[SIZES];
static int kept_blocks;

/* The chunk's size by its number: LEAST << number bytes, with its header. */
static int number_for(size_t bytes)
{
    int number = 0;
    while (LEAST << number < bytes)
        number++;
    return number;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Must be called before anything is written to the memory. Where there are no huge pages, nothing is lost. */
static void ask_for_huge_pages(char *memory, size_t size)
{
    size_t skip = -(uintptr_t)memory & (HUGE_PAGE - 1);
    if (size > skip && size - skip >= HUGE_PAGE)
        madvise(memory + skip, (size - skip) & ~(HUGE_PAGE - 1), MADV_HUGEPAGE);
}

/* Begins at a huge page; NULL: the system has no memory. */
static struct chunk *new_block(void)
{
    char *memory =
        mmap(NULL, BLOCK + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    size_t skip = -(uintptr_t)memory & (HUGE_PAGE - 1);
    if (skip)
        munmap(memory, skip);
    munmap(memory + skip + BLOCK, HUGE_PAGE - skip);
    ask_for_huge_pages(memory + skip, BLOCK);
    struct chunk *block = (struct chunk *)(void *)(memory + skip);
    block->size = BLOCK - sizeof *block;
    return block;
}

/* ---- what is kept ---------------------------------------------------------------------------- */

static void keep(struct chunk *chunk, int number)
{
    chunk->older = kept[number];
    kept[number] = chunk;
    kept_blocks += number == SIZES - 1;
}

/* The upper half of a chunk, which becomes half as large (I3). */
static struct chunk *halve(struct chunk *chunk)
{
    size_t half = (chunk->size + sizeof *chunk) / 2;
    struct chunk *upper = (struct chunk *)(void *)((char *)chunk + half);
    upper->used = chunk->used > half ? chunk->used - half : 0;
    chunk->size = upper->size = half - sizeof *chunk;
    if (chunk->used > chunk->size)
        chunk->used = chunk->size;
    return upper;
}

static struct chunk *take_kept(int number)
{
    struct chunk *chunk = kept[number];
    if (!chunk)
        return NULL;
    kept[number] = chunk->older;
    kept_blocks -= number == SIZES - 1;
    return chunk;
}

static struct chunk *take(int wanted)
{
    struct chunk *chunk = NULL;
    int number = wanted;
    while (number < SIZES && !(chunk = take_kept(number)))
        number++;
    if (!chunk) {
        number = SIZES - 1;
        chunk = new_block();
    }
    for (; chunk && number > wanted; number--) /* I2 */
        keep(halve(chunk), number - 1);
    return chunk;
}

/* I1. */
static struct chunk *take_large(size_t bytes)
{
    struct chunk *chunk = calloc(1, sizeof *chunk + bytes);
    if (!chunk)
        return NULL;
    ask_for_huge_pages((char *)chunk, sizeof *chunk + bytes);
    chunk->size = bytes;
    return chunk;
}

struct chunk *chunk_take(size_t bytes)
{
    if (bytes + sizeof(struct chunk) > MOST_KEPT)
        return take_large(bytes);
    pthread_mutex_lock(&lock);
    struct chunk *chunk = take(number_for(bytes + sizeof *chunk));
    pthread_mutex_unlock(&lock);
    if (!chunk)
        return NULL;
    memset(chunk->bytes, 0, chunk->used); /* I3 */
    chunk->used = 0;
    return chunk;
}

void chunk_give(struct chunk *chunk)
{
    size_t all = chunk->size + sizeof *chunk;
    if (all > MOST_KEPT) {
        free(chunk);
        return;
    }
    int number = number_for(all);
    pthread_mutex_lock(&lock);
    bool too_many = number == SIZES - 1 && kept_blocks == KEPT_BLOCKS; /* I4 */
    if (!too_many)
        keep(chunk, number);
    pthread_mutex_unlock(&lock);
    if (too_many)
        munmap(chunk, all);
}
