/* measure.c - kernels in front of a clock (measure.h has what is measured and when it is kept). */
#include "run/measure/measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "run/measure/choices.h"
#include "run/measure/company.h"
#include "run/measure/sampling.h"

enum { CACHE_LINE = 64 };
static const double COMMIT_EVERY_S = 1; /* I3 */

static double thread_seconds(void *context)
{
    struct timespec now;
    (void)context;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double real_seconds(void *context)
{
    (void)context;
    return wall_seconds();
}

/* 5 % of each kernel is below 1 % of a step of dozens. Ten samples are the fewest that (1) of
 * sampling.h does not read off the extremes. */
struct measure_options measure_defaults(void)
{
    return (struct measure_options){.kernels = &CPU_KERNELS,
                                    .kernel_seconds = thread_seconds,
                                    .wall_seconds = real_seconds,
                                    .precision = 0.05,
                                    .crowd = 1,
                                    .least = 10,
                                    .most = 1000,
                                    .most_s = 5,
                                    .memory_bytes = INT64_MAX};
}

/* ---- the state of a measurement -------------------------------------------------------------- */

struct session {
    const struct measure_options *options;
    const struct asks *asks;
    struct arena *keep;
    struct measured *out;
    char *away;
    double began_s, committed_s, reading_s; /* reading_s: what the clock itself takes */
    size_t committed;                       /* of out: those before are in the database */
    size_t choices;                         /* of algorithms: so are these */
};

static bool ended(struct session *s)
{
    const struct measure_options *o = s->options;
    bool late = o->budget_s > 0 && o->wall_seconds(o->context) - s->began_s >= o->budget_s;
    s->out->stopped = s->out->stopped || late || (o->stop && atomic_load(o->stop));
    return s->out->stopped;
}

/* ---- what is there already (I2) -------------------------------------------------------------- */

static const struct profile_row *find_row(const struct session *s, const struct work *work,
                                          const struct profile_row *rows, size_t count)
{
    const struct measure_options *o = s->options;
    for (size_t i = 0; i < count; i++) {
        struct profile_key key;
        if (profile_key_of(work, rows[i].key.device, &key) &&
            memcmp(&key, &rows[i].key, sizeof key) == 0 && strcmp(rows[i].device, o->device) == 0 &&
            strcmp(rows[i].source, o->source) == 0)
            return &rows[i];
    }
    return NULL;
}

static weft_status read_known(struct session *s)
{
    struct profile *profile = NULL;
    const struct profile_row *rows;
    size_t count;
    weft_status status;
    TRY(profile_create(s->options->db, &profile));
    TRY(profile_rows(profile, &rows, &count));
    TRY(choices_begin(profile, s->options));
    for (size_t i = 0; i < s->asks->len; i++) {
        struct measured_ask one = {.ask = &s->asks->data[i]};
        const struct profile_row *row = find_row(s, &one.ask->work, rows, count);
        one.known =
            row && row->error > 0 && row->error <= s->options->precision && !s->options->alone;
        if (one.known) {
            one.ns = row->ns;
            one.error = row->error;
            one.samples = row->samples;
        }
        s->out->known += one.known;
        array_push(s->keep, s->out, one);
    }
done:
    profile_close(profile);
    return status;
}

/* ---- storing (I3) ---------------------------------------------------------------------------- */

static weft_status store(struct session *s, size_t end)
{
    struct profile *profile = NULL;
    weft_status status;
    bool more = false;
    TRY(profile_create(s->options->db, &profile));
    for (size_t i = s->committed; i < end; i++) {
        const struct measured_ask *one = &s->out->data[i];
        struct profile_key key;
        profile_key_of(&one->ask->work, 0, &key);
        struct measurement m = {.device = s->options->device,
                                .work = one->ask->work,
                                .whole_backward = key.phase == PHASE_WHOLE_BACKWARD,
                                .ns = one->ns,
                                .samples = one->samples,
                                .source = s->options->source,
                                .error = one->error};
        if (one->samples > 0 && !one->known) {
            TRY(profile_add(profile, &m));
            more = true;
        }
    }
    if (more)
        TRY(store_circumstances(profile, s->options));
    TRY(choices_store(profile, s->options, &s->choices));
    TRY(profile_commit(profile));
    s->committed = end;
    s->committed_s = s->options->wall_seconds(s->options->context);
done:
    profile_close(profile);
    return status;
}

/* ---- samples --------------------------------------------------------------------------------- */

static void touch(const void *from, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i += CACHE_LINE)
        (void)((const volatile char *)from)[i];
}

/* A device that has much to do lowers its clock to stay within its power, and that is how kernels run in a step: it
 * is busy with the kernel before and between its samples. */
enum { BUSY_RUNS = 4 };
static const double BUSY_S =
    0.1; /* until a GPU's clock has settled: tens of milliseconds on an H200 */

static void keep_busy(const struct rig *rig)
{
    for (int i = 0; i < BUSY_RUNS; i++)
        rig_give(rig);
}

static void make_busy(const struct session *s, const struct rig *rig)
{
    const struct measure_options *o = s->options;
    const struct compute_device *device = rig->kernels->device;
    double begin = o->wall_seconds(o->context);
    while (device->mark && o->wall_seconds(o->context) - begin < BUSY_S) {
        keep_busy(rig);
        device_finish(device, device_record(device, rig->stream));
    }
}

/* A device with streams has clocks of its own. What fills its caches lasts longer than the host takes to give
 * it the kernel: the device never waits in between. */
static double sample_there(const struct session *s, const struct rig *rig)
{
    const struct compute_device *device = rig->kernels->device;
    keep_busy(rig);
    device->clear(rig->stream, s->away, s->options->away_bytes);
    struct device_event *begin = device->mark(rig->stream);
    rig_give(rig);
    return device->between(begin, device->mark(rig->stream)) - s->reading_s;
}

static void prepare_caches(const struct session *s, const struct rig *rig)
{
    for (int64_t i = 0; i < s->options->away_bytes; i += CACHE_LINE)
        s->away[i]++;
    if (rig->kernels->device->shared)
        touch(rig->handed, rig->handed_bytes);
}

static double one_sample(const struct session *s, const struct rig *rig)
{
    const struct measure_options *o = s->options;
    if (rig->kernels->device->mark)
        return sample_there(s, rig);
    prepare_caches(s, rig);
    double begin = o->kernel_seconds(o->context);
    rig_run(rig);
    double end = o->kernel_seconds(o->context);
    return end - begin - s->reading_s;
}

static void read_clock(struct session *s)
{
    enum { READINGS = 101 };
    const struct measure_options *o = s->options;
    const struct compute_device *device = o->kernels->device;
    struct device_stream *stream = device_stream(device);
    struct sampling readings = sampling_new(s->keep, READINGS);
    for (int i = 0; i < READINGS; i++) {
        double begin = o->kernel_seconds(o->context);
        double took = o->kernel_seconds(o->context) - begin;
        if (device->mark) {
            device->clear(stream, s->away, o->away_bytes);
            struct device_event *from = device->mark(stream);
            took = device->between(from, device->mark(stream));
        }
        readings.ns[readings.count++] = took * 1e9;
    }
    device_stream_free(device, stream);
    s->reading_s = spread_of(&readings).median_ns / 1e9;
}

/* False: it was stopped. */
static bool sample_rig(struct session *s, const struct rig *rig, struct sampling *samples,
                       struct spread *out)
{
    const struct measure_options *o = s->options;
    double all_s = 0;
    make_busy(s, rig);
    for (;;) {
        if (ended(s))
            return false;
        double seconds = one_sample(s, rig);
        sampling_add(samples, seconds);
        all_s += seconds;
        if (samples->count < o->least)
            continue;
        *out = spread_of(samples);
        if (out->error <= o->precision || samples->count >= o->most || all_s >= o->most_s)
            return true;
    }
}

/* In company and, where that is asked, alone. The first run is no sample: pages and branches are new to it. */
static bool sample_asker(struct session *s, const struct rig *rig, const struct ask *ask,
                         const struct asker *asker, struct sampling *samples, struct spread *out,
                         struct spread *alone)
{
    rig_run(rig);
    struct company *company = company_begin(s->options, ask, asker, s->asks->policy);
    bool done = sample_rig(s, rig, samples, out);
    company_end(company);
    if (!s->options->alone || !done)
        return done;
    int64_t count = samples->count;
    samples->count = 0;
    done = sample_rig(s, rig, samples, alone);
    samples->count = count;
    return done;
}

/* (1); the answer is false where it was stopped. */
static bool measure_askers(struct session *s, struct measured_ask *one)
{
    double ns = 0, alone_ns = 0, square = 0, uses = 0;
    int64_t count = 0;
    for (size_t i = 0; i < one->ask->askers.len; i++) {
        const struct asker *asker = &one->ask->askers.data[i];
        struct arena *scratch = arena_new();
        struct sampling samples = sampling_new(scratch, s->options->most);
        struct spread spread = {0}, alone = {0};
        struct rig rig;
        bool opened = rig_open(&rig, s->options->kernels, one->ask, asker, s->asks->policy);
        bool done = opened && sample_asker(s, &rig, one->ask, asker, &samples, &spread, &alone);
        rig_close(&rig);
        arena_free(scratch);
        if (!opened)
            one->why = "there is no memory for it";
        if (!done)
            return !opened;
        double share = spread.expected_ns * (double)asker->uses;
        ns += share;
        alone_ns += alone.expected_ns * (double)asker->uses;
        square += share * spread.error * share * spread.error;
        uses += (double)asker->uses;
        count += samples.count;
    }
    one->ns = ns / uses * s->options->crowd; /* (3) */
    one->alone_ns = alone_ns / uses;
    one->error = sqrt(square) / ns;
    one->samples = count;
    return true;
}

double measured_alone_speedup(const struct measured *measured)
{
    double ns = 0, alone_ns = 0;
    for (size_t i = 0; i < measured->len; i++) {
        const struct measured_ask *one = &measured->data[i];
        for (size_t k = 0; k < one->ask->askers.len && one->alone_ns > 0; k++) {
            ns += one->ns * (double)one->ask->askers.data[k].uses;
            alone_ns += one->alone_ns * (double)one->ask->askers.data[k].uses;
        }
    }
    return alone_ns > 0 ? fmax(ns / alone_ns, 1) : 0;
}

static const char *refusal(const struct session *s, const struct ask *ask)
{
    const char *why = ask->askers.len ? NULL : "no kernel does it by itself";
    for (size_t i = 0; !why && i < ask->askers.len; i++) {
        const struct asker *asker = &ask->askers.data[i];
        why = rig_refuses(s->options->kernels, ask, asker);
        int64_t each = rig_bytes(s->options->kernels, ask, asker, s->asks->policy);
        if (!why &&
            each * (1 + s->options->beside) > s->options->memory_bytes - s->options->away_bytes)
            why = "there is no memory for it";
    }
    return why;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static void tell(const struct session *s, size_t i, int64_t done)
{
    const struct measure_options *o = s->options;
    int64_t all = (int64_t)s->asks->len - s->out->known;
    double gone_s = o->wall_seconds(o->context) - s->began_s;
    struct measure_progress progress = {done, all, kernel_name(s->asks->data[i].work.kernel),
                                        done > 0 ? gone_s / (double)done * (double)(all - done)
                                                 : 0};
    if (o->progress)
        o->progress(o->context, &progress);
}

static weft_status measure_all(struct session *s)
{
    const struct measure_options *o = s->options;
    int64_t done = 0;
    for (size_t i = 0; i < s->asks->len; i++) {
        struct measured_ask *one = &s->out->data[i];
        if (one->known)
            continue;
        tell(s, i, done++);
        one->why = refusal(s, one->ask);
        if (!one->why && !measure_askers(s, one))
            return store(s, i);
        s->out->left_out += one->why != NULL;
        s->out->measured += one->samples > 0;
        s->out->imprecise += one->error > o->precision;
        if (o->wall_seconds(o->context) - s->committed_s < COMMIT_EVERY_S)
            continue;
        weft_status status = store(s, i + 1);
        if (status)
            return status;
    }
    return store(s, s->asks->len);
}

weft_status measure_asks(const struct asks *asks, const struct measure_options *options,
                         struct arena *keep, struct measured *out)
{
    struct session s = {.options = options, .asks = asks, .keep = keep, .out = out};
    weft_status status;
    *out = (struct measured){0};
    s.began_s = s.committed_s = options->wall_seconds(options->context);
    const struct compute_device *device = options->kernels->device;
    struct device_stream *stream = device_stream(device);
    s.away = device->allocate(stream, options->away_bytes + 1);
    if (!s.away)
        TRY(failure("no memory for %lld bytes to fill caches with",
                    (long long)options->away_bytes));
    device->clear(stream, s.away, options->away_bytes + 1);
    TRY(read_known(&s));
    read_clock(&s);
    TRY(measure_all(&s));
    if (device_failed(device))
        TRY(failure("%s", device_failed(device)));
done:
    choices_end(options);
    if (!status && options->kernels->choices)
        out->choices = options->kernels->choices->found(keep, 0, &out->choice);
    device->release(stream, s.away);
    device_stream_free(device, stream);
    return status;
}
