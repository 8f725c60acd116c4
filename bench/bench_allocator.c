/* bench_allocator.c - what a request to the simulated allocator costs, by how many blocks are live.
 *
 * Each shape fills the allocator, then gives back and takes one block after another. An operation is
 * either. "ratio" is over glibc's malloc and free in the same order, with sizes 1/512 of these: an
 * allocator that does write to the memory it hands out. An argument sets the most live blocks
 * (default 100000).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "sim/allocator.h"

enum { FEWEST = 1000, ROUNDS = 1000000, RUNS = 3 };

struct shape {
    const char *name;
    double least_bytes, most_bytes; /* sizes are even on a logarithmic scale */
    bool last_first;                /* else any block is given back */
    bool expandable;
};
static const struct shape SHAPES[] = {
    {"one size", 4096, 4096, false, false},
    {"512 B to 1 MiB", 512, 1 << 20, false, false},
    {"512 B to 256 MiB", 512, 256 << 20, false, false},
    {"1 to 256 MiB", 1 << 20, 256 << 20, false, false},
    {"512 B to 256 MiB, stack", 512, 256 << 20, true, false},
    {"512 B to 1 MiB, expandable", 512, 1 << 20, false, true},
};

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* The same order for both: which block makes way for one of how many bytes. */
struct order {
    int32_t *place;
    int64_t *bytes; /* the first `live` fill, the others replace */
    int32_t live;
};

static struct order draw_order(struct arena *keep, const struct shape *shape, int32_t live)
{
    struct order order = {ARENA_ARRAY(keep, int32_t, ROUNDS),
                          ARENA_ARRAY(keep, int64_t, (size_t)live + ROUNDS), live};
    double span = log(shape->most_bytes / shape->least_bytes);
    struct rng rng;
    rng_seed(&rng, (uint64_t)live);
    for (int32_t i = 0; i < live + ROUNDS; i++)
        order.bytes[i] = (int64_t)(shape->least_bytes * exp(span * rng_uniform(&rng)));
    for (int32_t i = 0, at = 0; i < ROUNDS; i++) {
        at = at > 0 ? at - 1 : (int32_t)rng_below(&rng, live < 100 ? live : 100);
        order.place[i] = shape->last_first ? live - 1 - at : (int32_t)rng_below(&rng, live);
    }
    return order;
}

/* ---- measuring ------------------------------------------------------------------------------- */

static double fast_ns(const struct shape *shape, const struct order *order, double *waste)
{
    struct arena *arena = arena_new();
    struct allocator_options options = {.expandable = shape->expandable};
    struct allocator *allocator = allocator_new(arena, &options);
    int32_t *handle = ARENA_ARRAY(arena, int32_t, (size_t)order->live);
    for (int32_t i = 0; i < order->live; i++)
        handle[i] = allocator_take_bytes(allocator, order->bytes[i]);
    double start = now_ns();
    for (int32_t i = 0; i < ROUNDS; i++) {
        int32_t *place = &handle[order->place[i]];
        allocator_give(allocator, *place);
        *place = allocator_take_bytes(allocator, order->bytes[order->live + i]);
    }
    double ns = (now_ns() - start) / (2.0 * ROUNDS);
    struct allocator_use use = *allocator_use(allocator);
    *waste = (double)use.reserved_peak / (double)use.allocated_peak;
    arena_free(arena);
    return ns;
}

static double malloc_ns(const struct order *order)
{
    void **handle = calloc((size_t)order->live, sizeof *handle);
    if (!handle)
        exit(EXIT_FAILURE);
    for (int32_t i = 0; i < order->live; i++)
        handle[i] = malloc((size_t)order->bytes[i] / 512);
    double start = now_ns();
    for (int32_t i = 0; i < ROUNDS; i++) {
        void **place = &handle[order->place[i]];
        free(*place);
        *place = malloc((size_t)order->bytes[order->live + i] / 512);
    }
    double ns = (now_ns() - start) / (2.0 * ROUNDS);
    for (int32_t i = 0; i < order->live; i++)
        free(handle[i]);
    free(handle);
    return ns;
}

static void measure(const struct shape *shape, int32_t most)
{
    for (int64_t live = FEWEST; live <= most; live *= 10) {
        struct arena *arena = arena_new();
        struct order order = draw_order(arena, shape, (int32_t)live);
        double best = 0, theirs = 0, waste = 0;
        for (int i = 0; i < RUNS; i++) {
            double ns = fast_ns(shape, &order, &waste), other = malloc_ns(&order);
            best = i && best < ns ? best : ns;
            theirs = i && theirs < other ? theirs : other;
        }
        printf("%-28s %8lld %8.1f %8.2f %18.3f\n", shape->name, (long long)live, best,
               best / theirs, waste);
        arena_free(arena);
    }
}

int main(int argc, char **argv)
{
    int32_t most = argc > 1 ? atoi(argv[1]) : 100000;
    printf("%-28s %8s %8s %8s %18s\n", "requests", "live", "ns/op", "ratio", "reserved/allocated");
    for (size_t i = 0; i < COUNT_OF(SHAPES); i++)
        measure(&SHAPES[i], most);
    return EXIT_SUCCESS;
}
