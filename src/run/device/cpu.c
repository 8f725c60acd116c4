/* cpu.c - the CPU as a device: its memory is the host's, and it works at once (device.h, I3). */
#include "run/device/device.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 }; /* bytes of a cache line */

static void *cpu_allocate(int64_t bytes)
{
    return aligned_alloc(ALIGNMENT, (size_t)((bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT));
}

static void cpu_copy(struct device_stream *stream, enum copy_way way, void *to, const void *from,
                     int64_t bytes)
{
    (void)stream;
    (void)way;
    memcpy(to, from, (size_t)bytes);
}

static void cpu_clear(struct device_stream *stream, void *to, int64_t bytes)
{
    (void)stream;
    memset(to, 0, (size_t)bytes);
}

static void cpu_cast(struct device_stream *stream, enum dtype from_dtype, const void *from,
                     enum dtype to_dtype, void *to, int64_t count)
{
    if (from_dtype == to_dtype)
        cpu_copy(stream, COPY_ON_DEVICE, to, from, count * dtype_bytes(to_dtype));
    else if (to_dtype == DTYPE_FP32)
        widen(from, 0, count, to);
    else
        narrow(from, count, to, 0);
}

static void cpu_add(struct device_stream *stream, enum dtype dtype, const void *from, int64_t count,
                    void *to)
{
    float sum[TILE], addend[TILE];
    (void)stream;
    for (int64_t at = 0; at < count; at += TILE) {
        int64_t now = count - at < TILE ? count - at : TILE;
        float *y = tile_write(dtype, to, at, sum);
        if (y == sum)
            widen(to, at, now, y);
        row_add(tile_read(dtype, from, at, now, addend), now, y);
        tile_done(dtype, to, at, now, y);
    }
}

static double cpu_squares(struct device_stream *stream, const float *x, int64_t count)
{
    (void)stream;
    return sum_of_squares(x, count);
}

const struct compute_device CPU_DEVICE = {
    .name = "cpu",
    .allocate = cpu_allocate,
    .release = free,
    .allocate_host = cpu_allocate,
    .release_host = free,
    .copy = cpu_copy,
    .clear = cpu_clear,
    .cast = cpu_cast,
    .add = cpu_add,
    .squares = cpu_squares,
};
