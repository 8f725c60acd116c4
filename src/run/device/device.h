/* device.h - where a rank's numbers lie and what happens to them apart from operators: one small table of
 * functions per backend, beside that of its kernels (run/kernels/kernels.h).
 *
 * A rank gives its device all work on one stream, from two threads whose order the rank's own waiting
 * decides. So memory that is released may be taken again at once: whoever takes it comes later in the
 * stream (I2).
 *
 *   I1  Memory from `allocate` is the device's own: only this table, kernels and transports of the same
 *       backend look into it. Memory from `allocate_host` is the host's, quick to copy to and from.
 *   I2  Work that is given to a stream is done in the order in which it was given. Between streams there is
 *       no order but for events: what a stream is given after device_await begins after the event.
 *   I3  A device that works at once, as the CPU does, has no streams: every function has done its work when
 *       it returns, and NULL stands for any stream and any event, which is over.
 *   I4  Sums are in fp32, whatever numbers are stored as.
 *   I5  Work that goes wrong says so later: from then on `failed` has the reason, and nothing that the
 *       device computes counts.
 */
#ifndef WEFT_RUN_DEVICE_H
#define WEFT_RUN_DEVICE_H

#include "model/model.h"
#include "run/device/elements.h"

struct device_stream;
struct device_event;
struct device_replay;

enum copy_way { COPY_ON_DEVICE, COPY_TO_HOST, COPY_FROM_HOST };

/* Rows of a matrix that is a part of a larger one on either side, in elements. */
struct row_copy {
    int64_t rows, width, from_step, to_step;
};

/* Numbers of a part of a tensor, drawn by their places in the whole: element i of the part is, with the
 * digits from the smallest stride on, i -> i / hold * (hold degree) + value hold + i % hold of the whole. */
enum { DRAW_DIGITS = 16 };
struct normal_draw {
    uint64_t seed;
    double deviation;
    int64_t elements; /* of the whole; zero from there on */
    int64_t first;    /* element of the part that is drawn first */
    int32_t digits;
    struct {
        int64_t hold, degree, value;
    } digit[DRAW_DIGITS];
};

/* What measurements are kept with. */
struct device_facts {
    double clock_hz; /* its highest; 0: not known */
    char driver[96]; /* with its version; of a processor its system */
};

struct compute_device {
    const char *name;
    bool shared; /* with the host: it reads and writes this memory, too */
    /* Aligned for every kernel; NULL: out of memory. */
    void *(*allocate)(struct device_stream *stream, int64_t bytes);
    void (*release)(struct device_stream *stream, void *memory); /* or NULL */
    void *(*allocate_host)(int64_t bytes);
    void (*release_host)(void *memory);
    /* Memory of the host that is copied from or to is that of allocate_host, or `to` of a copy whose end
     * the caller waits for. */
    void (*copy)(struct device_stream *stream, enum copy_way way, void *to, const void *from,
                 int64_t bytes);
    /* From any memory of the host's, which is the caller's again on return. */
    void (*upload)(struct device_stream *stream, void *to, const void *from, int64_t bytes);
    void (*clear)(struct device_stream *stream, void *to, int64_t bytes); /* to zeros */
    void (*fill)(struct device_stream *stream, float *to, float value, int64_t count);
    /* Elements of one storage as elements of another; of fp32 and bf16. */
    void (*cast)(struct device_stream *stream, enum dtype from_dtype, const void *from,
                 enum dtype to_dtype, void *to, int64_t count);
    /* to += from */
    void (*add)(struct device_stream *stream, enum dtype dtype, const void *from, int64_t count,
                void *to);
    void (*copy_rows)(struct device_stream *stream, enum dtype dtype, struct row_copy rows,
                      const void *from, void *to);
    void (*add_rows)(struct device_stream *stream, enum dtype dtype, struct row_copy rows,
                     const void *from, void *to);
    /* Runs of `run` elements: the i-th from place[2 i] to place[2 i + 1]; the host's array is the
     * caller's again on return. */
    void (*copy_runs)(struct device_stream *stream, enum dtype dtype, const void *from, void *to,
                      int64_t run, int64_t runs, const int64_t *place);
    /* *sum, in the device's memory, += (sum of x) / divisor */
    void (*add_sum)(struct device_stream *stream, const float *x, int64_t count, double divisor,
                    double *sum);
    void (*add_squares)(struct device_stream *stream, const float *x, int64_t count, double *sum);
    /* to[k] = deviation * normal(hash(seed, place of first + k)); NULL: the host draws. */
    void (*draw_normal)(struct device_stream *stream, const struct normal_draw *draw, int64_t count,
                        float *to);
    const char *(*failed)(void);  /* NULL: nothing has (I5); a device that works at once has none */
    const char *(*product)(void); /* its maker's name for it; NULL: this machine's processor */
    struct device_facts (*facts)(void);
    int32_t (*count)(
        void); /* of them in this machine, which ranks take in turn; NULL: it is the processor */

    /* All of these, or none (I3). */
    struct device_stream *(*stream_new)(void); /* NULL: no more can be had */
    void (*stream_free)(struct device_stream *stream);
    struct device_event *(*record)(struct device_stream *stream);
    void (*await)(struct device_stream *stream, struct device_event *event);
    void (*finish)(struct device_event *event); /* the host waits for it, and gives it up */
    bool (*over)(struct device_event *event);   /* whether it is; then it is given up */
    /* An event that knows when it was, and the seconds from one to another of a stream, when they are over;
     * both are given up. */
    struct device_event *(*mark)(struct device_stream *stream);
    double (*between)(struct device_event *from, struct device_event *to);
    /* The same when both are over, which stay: to be given up by `finish`. */
    double (*apart)(struct device_event *from, struct device_event *to);

    /* Replays, all of these or none. From `record_work` on (false: it cannot) what the stream is given, and streams that wait
     * for its events, is not done but recorded, until `recorded_work`; it is done by every `replay_work`. Memory that
     * is taken meanwhile is the record's. `uploaded` is where the last upload of a record reads: the host may write there
     * between two replays. One record of a stream at a time. */
    bool (*record_work)(struct device_stream *stream);
    void *(*uploaded)(struct device_stream *stream);
    struct device_replay *(*recorded_work)(struct device_stream *stream);
    void (*replay_work)(struct device_stream *stream, struct device_replay *replay);
    void (*free_work)(struct device_stream *stream, struct device_replay *replay);
};
extern const struct compute_device CPU_DEVICE;

/* The optional ones, on any device. */
struct device_stream *device_stream(const struct compute_device *device);
void device_stream_free(const struct compute_device *device, struct device_stream *stream);
struct device_event *device_record(const struct compute_device *device,
                                   struct device_stream *stream);
void device_await(const struct compute_device *device, struct device_stream *stream,
                  struct device_event *event);
void device_finish(const struct compute_device *device, struct device_event *event);
bool device_over(const struct compute_device *device, struct device_event *event);
const char *device_failed(const struct compute_device *device);

/* ---- for the host ---------------------------------------------------------------------------- */

/* To memory of the host's, where it is on return. */
void device_download(const struct compute_device *device, struct device_stream *stream, void *to,
                     const void *from, int64_t bytes);

/* A stretch of the device's memory as the host sees it: where it lies, or a copy. */
struct host_view {
    void *at; /* NULL: the host is out of memory */
    void *memory;
    int64_t bytes;
};
struct host_view host_view(const struct compute_device *device, struct device_stream *stream,
                           void *memory, int64_t bytes, bool reads);
void host_view_end(const struct compute_device *device, struct device_stream *stream,
                   struct host_view *view, bool wrote);

#include "run/device/runs.h"

#endif
