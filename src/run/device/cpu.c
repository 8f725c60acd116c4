/* cpu.c - the CPU as a device: its memory is the host's, and it works at once (device.h, I3). */
#include "run/device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

enum { ALIGNMENT = 64 }; /* bytes of a cache line */

static void *host_allocate(int64_t bytes)
{
    return aligned_alloc(ALIGNMENT, (size_t)((bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT));
}

static void *cpu_allocate(struct device_stream *stream, int64_t bytes)
{
    (void)stream;
    return host_allocate(bytes);
}

static void cpu_release(struct device_stream *stream, void *memory)
{
    (void)stream;
    free(memory);
}

static void cpu_copy(struct device_stream *stream, enum copy_way way, void *to, const void *from,
                     int64_t bytes)
{
    (void)stream;
    (void)way;
    memcpy(to, from, (size_t)bytes);
}

static void cpu_upload(struct device_stream *stream, void *to, const void *from, int64_t bytes)
{
    cpu_copy(stream, COPY_FROM_HOST, to, from, bytes);
}

static void cpu_clear(struct device_stream *stream, void *to, int64_t bytes)
{
    (void)stream;
    memset(to, 0, (size_t)bytes);
}

static void cpu_fill(struct device_stream *stream, float *to, float value, int64_t count)
{
    (void)stream;
    for (int64_t i = 0; i < count; i++)
        to[i] = value;
}

static void cpu_cast(struct device_stream *stream, enum dtype from_dtype, const void *from,
                     enum dtype to_dtype, void *to, int64_t count)
{
    if (from_dtype == to_dtype)
        cpu_copy(stream, COPY_ON_DEVICE, to, from, count * dtype_bytes(to_dtype));
    else if (to_dtype == DTYPE_FP32)
        widen(from_dtype, from, 0, count, to);
    else
        narrow(to_dtype, from, count, to, 0);
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
            widen(dtype, to, at, now, y);
        row_add(tile_read(dtype, from, at, now, addend), now, y);
        tile_done(dtype, to, at, now, y);
    }
}

static void cpu_copy_rows(struct device_stream *stream, enum dtype dtype, struct row_copy rows,
                          const void *from, void *to)
{
    (void)stream;
    for (int64_t i = 0; i < rows.rows; i++)
        copy_elements(dtype, from, i * rows.from_step, rows.width, to, i * rows.to_step);
}

static void cpu_add_rows(struct device_stream *stream, enum dtype dtype, struct row_copy rows,
                         const void *from, void *to)
{
    int64_t each = dtype_bytes(dtype);
    for (int64_t i = 0; i < rows.rows; i++)
        cpu_add(stream, dtype, (const char *)from + i * rows.from_step * each, rows.width,
                (char *)to + i * rows.to_step * each);
}

static void cpu_copy_runs(struct device_stream *stream, enum dtype dtype, const void *from,
                          void *to, int64_t run, int64_t runs, const int64_t *place)
{
    int64_t bytes = dtype_bytes(dtype);
    (void)stream;
    for (int64_t i = 0; i < runs; i++)
        memcpy((char *)to + place[2 * i + 1] * bytes, (const char *)from + place[2 * i] * bytes,
               (size_t)(run * bytes));
}

static void cpu_add_sum(struct device_stream *stream, const float *x, int64_t count, double divisor,
                        double *sum)
{
    double all = 0;
    (void)stream;
    for (int64_t i = 0; i < count; i++)
        all += (double)x[i];
    *sum += all / divisor;
}

static void cpu_add_squares(struct device_stream *stream, const float *x, int64_t count,
                            double *sum)
{
    (void)stream;
    *sum += sum_of_squares(x, count);
}

/* Of a file whose first number is one of kHz; 0: there is none. */
static double kilohertz_in(const char *path)
{
    FILE *file = fopen(path, "r");
    double khz = 0;
    if (file && fscanf(file, "%lf", &khz) != 1)
        khz = 0;
    if (file)
        fclose(file);
    return khz;
}

static struct device_facts cpu_facts(void)
{
    struct utsname system;
    struct device_facts out = {
        .clock_hz = kilohertz_in("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq") * 1e3};
    if (uname(&system) == 0)
        snprintf(out.driver, sizeof out.driver, "%.40s %.40s", system.sysname, system.release);
    return out;
}

const struct compute_device CPU_DEVICE = {
    .name = "cpu",
    .shared = true,
    .allocate = cpu_allocate,
    .release = cpu_release,
    .allocate_host = host_allocate,
    .release_host = free,
    .copy = cpu_copy,
    .upload = cpu_upload,
    .clear = cpu_clear,
    .fill = cpu_fill,
    .cast = cpu_cast,
    .add = cpu_add,
    .copy_rows = cpu_copy_rows,
    .add_rows = cpu_add_rows,
    .copy_runs = cpu_copy_runs,
    .add_sum = cpu_add_sum,
    .add_squares = cpu_add_squares,
    .facts = cpu_facts,
};
