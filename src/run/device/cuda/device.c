/* device.c - a GPU's row of the table of devices (device.h). */
#include <pthread.h>

#include "run/device/cuda/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern struct cuda_code CUDA_CODE_elements;
#define KERNEL(text, storages) {.code = &CUDA_CODE_elements, .name = (text), .both = (storages)}
static struct cuda_kernel FILL = KERNEL("fill", false), WIDEN = KERNEL("widen", true),
                          NARROW = KERNEL("narrow_all", true), ADD = KERNEL("add", true),
                          COPY_ROWS = KERNEL("copy_rows", true),
                          COPY_LONG_ROWS = KERNEL("copy_long_rows", true),
                          ADD_ROWS = KERNEL("add_rows", true),
                          COPY_WIDE_ROWS = KERNEL("copy_wide_rows", false),
                          ADD_WIDE_ROWS = KERNEL("add_wide_rows", true),
                          COPY_RUNS = KERNEL("copy_runs", true),
                          DRAW_NORMAL = KERNEL("draw_normal", false),
                          SUM_PARTS = KERNEL("sum_parts", false),
                          ADD_PARTS = KERNEL("add_parts", false);

static CUdeviceptr address(const void *memory)
{
    return (CUdeviceptr)(uintptr_t)memory;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* NULL where there is none left, which is no failure of the GPU: the caller says what it was for. After a
 * failure nothing is done with memory any more (cuda.h, I2), so any address will do. */
static void *cuda_allocate(struct device_stream *stream, int64_t bytes)
{
    static char nothing;
    CUdeviceptr memory = 0;
    if (!cuda_ready())
        return &nothing;
    if (cuda_records(stream))
        return cuda_record_take(stream, bytes > 0 ? bytes : 1);
    CUresult result =
        CUDA(cuMemAllocAsync)(&memory, (size_t)(bytes > 0 ? bytes : 1), stream->stream);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return NULL;
    cuda_works(result, "memory is taken");
    return (void *)(uintptr_t)memory;
}

static void cuda_release(struct device_stream *stream, void *memory)
{
    if (memory && cuda_ready() && !cuda_record_give(stream, memory))
        cuda_works(CUDA(cuMemFreeAsync)(address(memory), stream->stream), "memory is released");
}

static void *cuda_allocate_host(int64_t bytes)
{
    void *memory = NULL;
    if (cuda_ready() && CUDA(cuMemHostAlloc)(&memory, (size_t)bytes, 0) == CUDA_SUCCESS)
        return memory;
    return NULL;
}

static void cuda_release_host(void *memory)
{
    if (memory && cuda_ready())
        cuda_works(CUDA(cuMemFreeHost)(memory), "memory of the host is released");
}

/* ---- streams --------------------------------------------------------------------------------- */

enum { STAGING = 8 << 20 }; /* bytes: a few micro-batches of tokens, or a slice of a weight */

static struct device_stream *cuda_stream_new(void)
{
    struct device_stream *s = calloc(1, sizeof *s);
    void *staging = NULL;
    if (!s)
        return NULL;
    pthread_mutex_init(&s->lock, NULL);
    bool made =
        cuda_ready() &&
        cuda_works(CUDA(cuStreamCreate)(&s->stream, CU_STREAM_NON_BLOCKING), "a stream is made") &&
        cuda_works(CUDA(cuMemHostAlloc)(&staging, STAGING, 0), "staging memory is taken") &&
        cuda_works(CUDA(cuEventCreate)(&s->read[0], CU_EVENT_DISABLE_TIMING), "an event is made") &&
        cuda_works(CUDA(cuEventCreate)(&s->read[1], CU_EVENT_DISABLE_TIMING), "an event is made");
    s->staging = staging;
    if (made)
        return s;
    pthread_mutex_destroy(&s->lock);
    free(s);
    return NULL;
}

static void cuda_stream_free(struct device_stream *s)
{
    if (!s)
        return;
    if (cuda_ready()) {
        cuda_works(CUDA(cuStreamSynchronize)(s->stream), "a stream ends");
        CUDA(cuEventDestroy)(s->read[0]);
        CUDA(cuEventDestroy)(s->read[1]);
        CUDA(cuMemFreeHost)(s->staging);
        CUDA(cuStreamDestroy)(s->stream);
    }
    pthread_mutex_destroy(&s->lock);
    free(s);
}

void *cuda_stream_handle(struct device_stream *stream)
{
    return stream->stream;
}

static struct device_event *cuda_record(struct device_stream *stream)
{
    CUevent event = NULL;
    if (!cuda_ready() ||
        !cuda_works(CUDA(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING), "an event is made"))
        return NULL;
    cuda_works(CUDA(cuEventRecord)(event, stream->stream), "an event is recorded");
    return (struct device_event *)event;
}

static void cuda_await(struct device_stream *stream, struct device_event *event)
{
    if (!event || !cuda_ready())
        return;
    cuda_works(CUDA(cuStreamWaitEvent)(stream->stream, (CUevent)event, 0), "a stream waits");
    CUDA(cuEventDestroy)((CUevent)event); /* the driver keeps it as long as somebody waits */
}

static bool cuda_over(struct device_event *event)
{
    if (!event || !cuda_ready())
        return true;
    CUresult result = CUDA(cuEventQuery)((CUevent)event);
    if (result == CUDA_ERROR_NOT_READY)
        return false;
    cuda_works(result, "the GPU works");
    CUDA(cuEventDestroy)((CUevent)event);
    return true;
}

static struct device_event *cuda_mark(struct device_stream *stream)
{
    CUevent event = NULL;
    if (!cuda_ready() ||
        !cuda_works(CUDA(cuEventCreate)(&event, CU_EVENT_DEFAULT), "an event is made"))
        return NULL;
    cuda_works(CUDA(cuEventRecord)(event, stream->stream), "an event is recorded");
    return (struct device_event *)event;
}

static double cuda_between(struct device_event *from, struct device_event *to)
{
    float ms = 0;
    if (!from || !to || !cuda_ready())
        return 0;
    if (cuda_works(CUDA(cuEventSynchronize)((CUevent)to), "the GPU works"))
        cuda_works(CUDA(cuEventElapsedTime)(&ms, (CUevent)from, (CUevent)to), "a time is read");
    CUDA(cuEventDestroy)((CUevent)from);
    CUDA(cuEventDestroy)((CUevent)to);
    return (double)ms / 1e3;
}

static double cuda_apart(struct device_event *from, struct device_event *to)
{
    float ms = 0;
    if (from && to && cuda_ready())
        cuda_works(CUDA(cuEventElapsedTime)(&ms, (CUevent)from, (CUevent)to), "a time is read");
    return (double)ms / 1e3;
}

static const char *cuda_product(void)
{
    return cuda_facts()->name;
}

static struct device_facts cuda_own_facts(void)
{
    struct device_facts out = {.clock_hz = cuda_facts()->clock_hz};
    snprintf(out.driver, sizeof out.driver, "%s", cuda_facts()->driver);
    return out;
}

static int32_t cuda_count(void)
{
    return cuda_facts()->count;
}

static void cuda_finish(struct device_event *event)
{
    if (!event || !cuda_ready())
        return;
    cuda_works(CUDA(cuEventSynchronize)((CUevent)event), "the GPU works");
    CUDA(cuEventDestroy)((CUevent)event);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static void cuda_copy(struct device_stream *stream, enum copy_way way, void *to, const void *from,
                      int64_t bytes)
{
    (void)way; /* addresses say it */
    if (bytes > 0 && cuda_ready())
        cuda_works(CUDA(cuMemcpyAsync)(address(to), address(from), (size_t)bytes, stream->stream),
                   "numbers are copied");
}

/* Through pinned memory, half of it at a time: a copy from other memory would wait for the stream. */
static void upload_half(struct device_stream *s, char *to, const char *from, int64_t bytes)
{
    int64_t half = STAGING / 2;
    if (s->used + bytes > half) {
        cuda_works(CUDA(cuEventRecord)(s->read[s->half], s->stream), "an event is recorded");
        s->half = !s->half;
        s->used = 0;
        cuda_works(CUDA(cuEventSynchronize)(s->read[s->half]), "staging memory is read");
    }
    char *place = s->staging + s->half * half + s->used;
    memcpy(place, from, (size_t)bytes);
    cuda_copy(s, COPY_FROM_HOST, to, place, bytes);
    s->used += bytes;
}

static void cuda_upload(struct device_stream *s, void *to, const void *from, int64_t bytes)
{
    if (cuda_ready() && cuda_records(s)) {
        cuda_record_upload(s, to, from, bytes);
        return;
    }
    pthread_mutex_lock(&s->lock);
    for (int64_t done = 0; done < bytes && cuda_ready(); done += STAGING / 2) {
        int64_t now = bytes - done < STAGING / 2 ? bytes - done : STAGING / 2;
        upload_half(s, (char *)to + done, (const char *)from + done, now);
    }
    pthread_mutex_unlock(&s->lock);
}

static void cuda_clear(struct device_stream *stream, void *to, int64_t bytes)
{
    if (bytes > 0 && cuda_ready())
        cuda_works(CUDA(cuMemsetD8Async)(address(to), 0, (size_t)bytes, stream->stream),
                   "memory is cleared");
}

/* ---- numbers --------------------------------------------------------------------------------- */

static void cuda_fill(struct device_stream *stream, float *to, float value, int64_t count)
{
    CUDA_LAUNCH(stream, &FILL, DTYPE_FP32, cuda_elements(count), &to, &value, &count);
}

/* Whether 16 bytes at a time can be read and written. */
static int is_packed(const void *a, const void *b)
{
    return ((uintptr_t)a | (uintptr_t)b) % 16 == 0;
}

/* Threads that take so many bytes each. */
static struct cuda_grid pack_grid(int64_t bytes)
{
    return cuda_elements(ceil_div(bytes, 16));
}

static void cuda_cast(struct device_stream *stream, enum dtype from_dtype, const void *from,
                      enum dtype to_dtype, void *to, int64_t count)
{
    int packed = is_packed(from, to);
    if (from_dtype == to_dtype)
        cuda_copy(stream, COPY_ON_DEVICE, to, from, count * dtype_bytes(to_dtype));
    else
        CUDA_LAUNCH(stream, to_dtype == DTYPE_FP32 ? &WIDEN : &NARROW,
                    to_dtype == DTYPE_FP32 ? from_dtype : to_dtype, pack_grid(2 * count), &from,
                    &to, &count, &packed);
}

static void cuda_add(struct device_stream *stream, enum dtype dtype, const void *from,
                     int64_t count, void *to)
{
    int packed = is_packed(from, to);
    CUDA_LAUNCH(stream, &ADD, dtype, pack_grid(count * dtype_bytes(dtype)), &from, &to, &count,
                &packed);
}

/* Rows in units of 16 bytes; false: they are not made of these. */
static bool wide_rows(enum dtype dtype, struct row_copy r, const void *from, const void *to,
                      uint32_t out[4])
{
    int64_t each = 16 / dtype_bytes(dtype), last = r.rows * (r.from_step + r.to_step);
    if (!is_packed(from, to) || r.width % each || r.from_step % each || r.to_step % each ||
        last / each > INT32_MAX)
        return false;
    out[0] = (uint32_t)r.rows;
    out[1] = (uint32_t)(r.width / each);
    out[2] = (uint32_t)(r.from_step / each);
    out[3] = (uint32_t)(r.to_step / each);
    return true;
}

/* By the kernel for units of 16 bytes where rows are made of these, else by the other. */
static void rows_kernel(struct device_stream *stream, struct cuda_kernel *wide,
                        struct cuda_kernel *plain, enum dtype dtype, struct row_copy r,
                        const void *from, void *to)
{
    uint32_t u[4];
    if (wide_rows(dtype, r, from, to, u))
        CUDA_LAUNCH(stream, wide, dtype, cuda_elements((int64_t)u[0] * u[1]), &from, &to, &u[0],
                    &u[1], &u[2], &u[3]);
    else
        CUDA_LAUNCH(stream, plain, dtype, cuda_elements(r.rows * r.width), &from, &to, &r.rows,
                    &r.width, &r.from_step, &r.to_step);
}

static void cuda_copy_rows(struct device_stream *stream, enum dtype dtype, struct row_copy rows,
                           const void *from, void *to)
{
    enum { LONG = 512 }; /* elements: a block has enough to do with one row */
    rows_kernel(stream, &COPY_WIDE_ROWS, rows.width >= LONG ? &COPY_LONG_ROWS : &COPY_ROWS, dtype,
                rows, from, to);
}

static void cuda_add_rows(struct device_stream *stream, enum dtype dtype, struct row_copy rows,
                          const void *from, void *to)
{
    rows_kernel(stream, &ADD_WIDE_ROWS, &ADD_ROWS, dtype, rows, from, to);
}

static void cuda_copy_runs(struct device_stream *stream, enum dtype dtype, const void *from,
                           void *to, int64_t run, int64_t runs, const int64_t *place)
{
    int64_t bytes = 2 * runs * (int64_t)sizeof *place;
    void *table = cuda_allocate(stream, bytes);
    if (!table) {
        cuda_fail("a table of copies", "the GPU is out of memory");
        return;
    }
    cuda_upload(stream, table, place, bytes);
    CUDA_LAUNCH(stream, &COPY_RUNS, dtype, cuda_elements(run * runs), &from, &to, &run, &runs,
                &table);
    cuda_release(stream, table);
}

static void cuda_draw_normal(struct device_stream *stream, const struct normal_draw *draw,
                             int64_t count, float *to)
{
    CUDA_LAUNCH(stream, &DRAW_NORMAL, DTYPE_FP32, cuda_elements(count), &to, &count, draw);
}

static void sum_into(struct device_stream *stream, const float *x, int64_t count, int squared,
                     double divisor, double *sum)
{
    enum { THREADS = 256, MOST_PARTS = 512 };
    int64_t parts = ceil_div(count, THREADS);
    parts = parts < MOST_PARTS ? parts : MOST_PARTS;
    void *part = count > 0 ? cuda_allocate(stream, parts * (int64_t)sizeof *sum) : NULL;
    if (!part) {
        if (count > 0)
            cuda_fail("a sum", "the GPU is out of memory");
        return;
    }
    CUDA_LAUNCH(stream, &SUM_PARTS, DTYPE_FP32, ((struct cuda_grid){parts, 1, 1, THREADS, 0}), &x,
                &count, &squared, &part);
    CUDA_LAUNCH(stream, &ADD_PARTS, DTYPE_FP32, ((struct cuda_grid){1, 1, 1, THREADS, 0}), &part,
                &parts, &divisor, &sum);
    cuda_release(stream, part);
}

static void cuda_add_sum(struct device_stream *stream, const float *x, int64_t count,
                         double divisor, double *sum)
{
    sum_into(stream, x, count, 0, divisor, sum);
}

static void cuda_add_squares(struct device_stream *stream, const float *x, int64_t count,
                             double *sum)
{
    sum_into(stream, x, count, 1, 1, sum);
}

const struct compute_device CUDA_DEVICE = {
    .name = "cuda",
    .allocate = cuda_allocate,
    .release = cuda_release,
    .allocate_host = cuda_allocate_host,
    .release_host = cuda_release_host,
    .copy = cuda_copy,
    .upload = cuda_upload,
    .clear = cuda_clear,
    .fill = cuda_fill,
    .cast = cuda_cast,
    .add = cuda_add,
    .copy_rows = cuda_copy_rows,
    .add_rows = cuda_add_rows,
    .copy_runs = cuda_copy_runs,
    .add_sum = cuda_add_sum,
    .add_squares = cuda_add_squares,
    .draw_normal = cuda_draw_normal,
    .failed = cuda_failed,
    .product = cuda_product,
    .facts = cuda_own_facts,
    .count = cuda_count,
    .stream_new = cuda_stream_new,
    .stream_free = cuda_stream_free,
    .record = cuda_record,
    .await = cuda_await,
    .finish = cuda_finish,
    .over = cuda_over,
    .mark = cuda_mark,
    .between = cuda_between,
    .apart = cuda_apart,
    .record_work = cuda_replay_record,
    .uploaded = cuda_uploaded,
    .recorded_work = cuda_replay_recorded,
    .replay_work = cuda_replay,
    .free_work = cuda_replay_free,
};
