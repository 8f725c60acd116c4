/* overlap.c - computation and collectives at the same time, in front of a clock (cost/interference.c has what the factors are).
 *
 * A rank runs one kernel again and again in a thread of its own, as its executor does in a run, while it takes part in
 * all-reduces of all ranks. Both are timed by the wall's clock, alone and beside the other:
 *
 *   work     = median of the kernels' time beside all-reduces / median of their time alone                       (1)
 *   transfer = median of the all-reduces' time beside kernels / median of their time alone                       (2)
 *
 * A time is the mean over ranks. The four are taken in turn, so that what other programs take is in all of them.
 *
 *   I1  What is timed is covered by the other from its beginning to its end: kernels by COVER times as many all-reduces as
 *       take as long as they do, all-reduces by kernels that end only after them.
 *   I2  All ranks do the same in the same order. Which operators stand for their kinds and when to stop is what rank 0 says;
 *       how often it is done follows from times that all ranks know.
 *   I3  Factors that are known to less than ENOUGH, and to less than the precision, say no more than the device's one factor:
 *       they are answered and not stored.
 *   I4  One operator stands for its kind of kernel: the one that takes the most time in a step of the plan.
 */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "run/measure/choices.h"
#include "run/measure/lane.h"
#include "run/measure/rig.h"
#include "run/measure/sampling.h"
#include "run/measure/thread_ranks.h"

enum { COVER = 3, LEAST_ROUNDS = 7, MOST_ROUNDS = 63, MOST_CALLS = 1 << 20, TRIAL_RUNS = 3 };
enum { RUNS_AT_ONCE = 4 }; /* of a kernel, so that a device with streams never waits for its host */
/* Several turns of the operating system's scheduler, which gives a thread a few milliseconds at a time. */
static const double LANE_S = 0.02;
static const double ENOUGH = 0.25; /* I3 */

enum lane_timing { WORK_ALONE, WORK_BESIDE, SENDS_ALONE, SENDS_BESIDE, TIMINGS };

struct overlap_bench {
    struct transport *host;    /* for what ranks tell each other */
    struct transfer_lane lane; /* the one that is timed, of the device's memory */
    const struct measure_options *options;
    const struct overlap_request *request;
    struct arena *keep;
    struct measured_overlaps *out;
    struct transfer reduce;
    int32_t group, lane_group;
    double began_s;
    /* Of the kernel in hand. */
    struct rig rig;
    int64_t calls, sends;
};

static double now_s(const struct overlap_bench *o)
{
    return o->options->wall_seconds(o->options->context);
}

/* ---- what ranks tell each other -------------------------------------------------------------- */

static weft_status combine(struct overlap_bench *o, enum reduce how, float *data, int64_t count)
{
    struct transfer transfer = {.kind = TRANSFER_ALL_REDUCE,
                                .op = how,
                                .group = o->group,
                                .from = data,
                                .to = data,
                                .count = count,
                                .on_host = true};
    return transport_run(o->host, &transfer);
}

/* ---- two lanes ------------------------------------------------------------------------------- */

/* So many runs of the kernel, or as many as are begun before `ends`. */
struct kernel_lane {
    struct overlap_bench *o;
    int64_t calls;
    atomic_bool ends;
    bool until_end;
    double seconds;
};

static bool goes_on(struct kernel_lane *lane, int64_t done)
{
    return lane->until_end ? !atomic_load(&lane->ends) : done < lane->calls;
}

static void *compute(void *context)
{
    struct kernel_lane *lane = context;
    const struct rig *rig = &lane->o->rig;
    const struct compute_device *device = rig->kernels->device;
    struct device_event *before = NULL;
    double begin_s = now_s(lane->o);
    for (int64_t done = 0; goes_on(lane, done);) {
        for (int i = 0; i < RUNS_AT_ONCE && goes_on(lane, done); i++, done++)
            rig_give(rig);
        struct device_event *given = device_record(device, rig->stream);
        if (before)
            device_finish(device, before);
        before = given;
    }
    if (before)
        device_finish(device, before);
    lane->seconds = now_s(lane->o) - begin_s;
    return NULL;
}

static weft_status wait_for(struct overlap_bench *o, struct pending_transfer *pending, bool idle)
{
    static const double WAIT_S = 0.0005; /* as the communicator of a rank does */
    struct transport *lane = o->lane.transport;
    while (!lane->kind->test(lane, pending)) {
        const char *why = lane->kind->failed(lane);
        if (why)
            return failure("another rank gave up: %s", why);
        lane->kind->wait(lane, WAIT_S, idle);
    }
    return WEFT_OK;
}

/* `idle`: no kernel runs beside them. */
static weft_status send(struct overlap_bench *o, int64_t sends, bool idle, double *seconds)
{
    struct transport *lane = o->lane.transport;
    const struct transport_kind *kind = lane->kind;
    const struct compute_device *device = o->options->kernels->device;
    struct pending_transfer *pending;
    double begin_s = now_s(o);
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < sends; i++) {
        TRY(kind->start(lane, &o->reduce, kind->stream ? NULL : &pending));
        if (!kind->stream)
            TRY(wait_for(o, pending, idle));
    }
    if (kind->stream)
        device_finish(device, device_record(device, kind->stream(lane, o->lane_group)));
    *seconds = now_s(o) - begin_s;
done:
    return status;
}

/* Kernels and all-reduces that begin together; 0 of either: it is left out. */
static weft_status run_lanes(struct overlap_bench *o, int64_t calls, int64_t sends, bool until_end,
                             double *work_s, double *sends_s)
{
    struct kernel_lane lane = {.o = o, .calls = calls, .until_end = until_end};
    float ready = 0;
    pthread_t executor;
    weft_status status;
    TRY(combine(o, REDUCE_MAX, &ready, 1));
    if (calls > 0 && pthread_create(&executor, NULL, compute, &lane) != 0)
        TRY(failure("no more threads can be started"));
    status = send(o, sends, calls == 0, sends_s);
    atomic_store(&lane.ends, true);
    if (calls > 0)
        pthread_join(executor, NULL);
    *work_s = lane.seconds;
done:
    return status;
}

/* ---- one kernel ------------------------------------------------------------------------------ */

/* How many of something that took `seconds` for TRIAL_RUNS last as long as a lane, on the slowest rank. */
static weft_status fill_lane(struct overlap_bench *o, double seconds, int64_t *out)
{
    float most = (float)(fmax(seconds, 1e-9) / TRIAL_RUNS);
    weft_status status = combine(o, REDUCE_MAX, &most, 1);
    *out = (int64_t)fmin(ceil(LANE_S / (double)most), MOST_CALLS);
    return status;
}

static weft_status find_counts(struct overlap_bench *o)
{
    double work_s, sends_s, nothing_s;
    weft_status status;
    TRY(run_lanes(o, 1, 1, false, &work_s, &sends_s)); /* pages are new to these */
    TRY(run_lanes(o, TRIAL_RUNS, 0, false, &work_s, &nothing_s));
    TRY(run_lanes(o, 0, TRIAL_RUNS, false, &nothing_s, &sends_s));
    TRY(fill_lane(o, work_s, &o->calls));
    TRY(fill_lane(o, sends_s, &o->sends));
done:
    return status;
}

static bool is_stopped(const struct overlap_bench *o)
{
    const struct measure_options *options = o->options;
    bool late = options->budget_s > 0 && now_s(o) - o->began_s >= options->budget_s;
    return late || (options->stop && atomic_load(options->stop));
}

/* One of each timing, and whether rank 0 has had enough of this kernel or of all (I2). */
static weft_status take_round(struct overlap_bench *o, struct sampling *samples, bool *late)
{
    double took[TIMINGS] = {0}, other;
    float told[TIMINGS + 2] = {0};
    weft_status status;
    TRY(run_lanes(o, o->calls, 0, false, &took[WORK_ALONE], &other));
    TRY(run_lanes(o, o->calls, COVER * o->sends, false, &took[WORK_BESIDE], &other)); /* I1 */
    TRY(run_lanes(o, 0, o->sends, false, &other, &took[SENDS_ALONE]));
    TRY(run_lanes(o, 1, o->sends, true, &other, &took[SENDS_BESIDE]));
    for (int i = 0; i < TIMINGS; i++)
        told[i] = (float)took[i];
    told[TIMINGS] = o->host->rank == 0 && *late;
    told[TIMINGS + 1] = o->host->rank == 0 && is_stopped(o);
    TRY(combine(o, REDUCE_SUM, told, COUNT_OF(told)));
    for (int i = 0; i < TIMINGS; i++)
        sampling_add(&samples[i], (double)told[i] / o->host->ranks);
    *late = told[TIMINGS] > 0;
    o->out->stopped = told[TIMINGS + 1] > 0;
done:
    return status;
}

/* (1) or (2), and how well it is known. */
static double factor_of(struct sampling *samples, enum lane_timing alone, enum lane_timing beside,
                        double *error)
{
    struct spread one = spread_of(&samples[alone]), other = spread_of(&samples[beside]);
    *error = fmax(*error, hypot(one.error, other.error));
    return fmax(other.median_ns / one.median_ns, 1);
}

static weft_status sample_factors(struct overlap_bench *o, struct measured_overlap *one)
{
    struct sampling samples[TIMINGS];
    double begin_s = now_s(o);
    weft_status status;
    for (int i = 0; i < TIMINGS; i++)
        samples[i] = sampling_new(o->keep, MOST_ROUNDS);
    TRY(find_counts(o));
    for (bool more = true; more;) {
        bool late = now_s(o) - begin_s >= o->options->most_s;
        TRY(take_round(o, samples, &late));
        one->rounds = samples[0].count;
        one->error = 0;
        one->factor.work = factor_of(samples, WORK_ALONE, WORK_BESIDE, &one->error);
        one->factor.transfer = factor_of(samples, SENDS_ALONE, SENDS_BESIDE, &one->error);
        bool few = one->rounds < LEAST_ROUNDS || one->error > o->options->precision;
        one->trusted = one->error <= fmax(o->options->precision, ENOUGH); /* I3 */
        more = few && !late && !o->out->stopped && one->rounds < MOST_ROUNDS;
    }
done:
    return status;
}

/* ---- what rank 0 chooses and keeps (I2 to I4) -------------------------------------------------- */

static double ns_in_step(const struct measured_ask *one)
{
    int64_t uses = 0;
    for (size_t i = 0; i < one->ask->askers.len; i++)
        uses += one->ask->askers.data[i].uses;
    return one->why || one->samples == 0 ? 0 : one->ns * (double)uses;
}

static weft_status find_known(struct overlap_bench *o, struct interference *known)
{
    struct profile *profile = NULL;
    weft_status status;
    TRY(profile_create(o->options->db, &profile));
    TRY(profile_interference_of(profile, o->options->device, o->options->source, known));
done:
    profile_close(profile);
    return status;
}

static void answer_known(struct overlap_bench *o, enum kernel kernel, struct interference factor)
{
    struct measured_overlap one = {.kernel = kernel, .factor = factor, .known = true};
    array_push(o->keep, o->out, one);
}

/* Of each kind of kernel the ask that stands for it, and 1 more; 0: none is measured. */
static weft_status choose(struct overlap_bench *o, float *chosen)
{
    const struct measured *kernels = o->request->kernels;
    struct interference known[KERNEL_COUNT] = {0};
    double most_ns[KERNEL_COUNT] = {0};
    weft_status status;
    TRY(find_known(o, known));
    for (size_t i = 0; i < kernels->len; i++) {
        enum kernel kernel = kernels->data[i].ask->work.kernel;
        double ns = ns_in_step(&kernels->data[i]);
        if (ns > 0 && most_ns[kernel] == 0 && known[kernel].work > 0)
            answer_known(o, kernel, known[kernel]);
        if (ns > most_ns[kernel] && known[kernel].work == 0)
            chosen[kernel] = (float)(i + 1);
        most_ns[kernel] = fmax(most_ns[kernel], ns);
    }
done:
    return status;
}

static weft_status keep_factors(struct overlap_bench *o, const struct measured_overlap *one)
{
    const struct measure_options *options = o->options;
    struct profile *profile = NULL;
    weft_status status;
    array_push(o->keep, o->out, *one);
    if (!one->trusted)
        return WEFT_OK;
    TRY(profile_create(options->db, &profile));
    TRY(profile_add_interference(profile, options->device, one->kernel, one->factor,
                                 options->source));
    TRY(store_circumstances(profile, options));
    TRY(profile_commit(profile));
done:
    profile_close(profile);
    return status;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static weft_status measure_kernel(struct overlap_bench *o, const struct ask *ask)
{
    struct measured_overlap one = {.kernel = ask->work.kernel};
    float opened =
        rig_open(&o->rig, o->options->kernels, ask, ask->askers.data, o->request->asks->policy);
    float refused = opened > 0 ? 0 : 1;
    weft_status status = combine(o, REDUCE_MAX, &refused, 1);
    if (!status && refused == 0)
        status = sample_factors(o, &one);
    rig_close(&o->rig);
    if (!status && refused == 0 && !o->out->stopped && o->host->rank == 0)
        status = keep_factors(o, &one);
    return status;
}

static void tell(const struct overlap_bench *o, int64_t done, int64_t all, enum kernel kernel)
{
    struct measure_progress progress = {
        done, all, kernel_name(kernel),
        done > 0 ? (now_s(o) - o->began_s) / (double)done * (double)(all - done) : 0};
    if (o->options->progress && o->host->rank == 0)
        o->options->progress(o->options->context, &progress);
}

static weft_status measure_kinds(struct overlap_bench *o)
{
    float chosen[KERNEL_COUNT] = {0};
    int64_t all = 0, done = 0;
    weft_status status = WEFT_OK;
    if (o->host->rank == 0)
        TRY(choose(o, chosen));
    TRY(combine(o, REDUCE_MAX, chosen, KERNEL_COUNT));
    for (int k = 0; k < KERNEL_COUNT; k++)
        all += chosen[k] > 0;
    for (int k = 0; k < KERNEL_COUNT && !o->out->stopped; k++) {
        if (chosen[k] == 0)
            continue;
        tell(o, done++, all, (enum kernel)k);
        TRY(measure_kernel(o, &o->request->asks->data[(size_t)chosen[k] - 1]));
    }
done:
    return status;
}

static weft_status open_groups(struct overlap_bench *o, void *buffer)
{
    int32_t ranks = o->host->ranks;
    int32_t *member = ARENA_ARRAY(o->keep, int32_t, (size_t)ranks);
    weft_status status;
    for (int32_t r = 0; r < ranks; r++)
        member[r] = r;
    TRY(o->host->kind->group(o->host, member, ranks, 0, &o->group));
    struct transport *lane = o->lane.transport;
    TRY(lane->kind->group(lane, member, ranks, 1, &o->lane_group));
    o->reduce = (struct transfer){.kind = TRANSFER_ALL_REDUCE,
                                  .group = o->lane_group,
                                  .from = buffer,
                                  .to = buffer,
                                  .count = o->request->bytes / (int64_t)sizeof(float)};
done:
    return status;
}

weft_status measure_overlap(struct transport *transport, const struct measure_options *options,
                            const struct overlap_request *request, struct arena *keep,
                            struct measured_overlaps *out)
{
    struct overlap_bench o = {.host = transport,
                              .options = options,
                              .request = request,
                              .keep = keep,
                              .out = out,
                              .began_s = options->wall_seconds(options->context)};
    const struct compute_device *device = options->kernels->device;
    void *buffer = NULL;
    weft_status status;
    *out = (struct measured_overlaps){0};
    TRY(lane_open(transport, options, &o.lane));
    buffer = device->allocate(o.lane.stream, request->bytes);
    if (!buffer)
        TRY(failure("no memory for an all-reduce of %lld bytes", (long long)request->bytes));
    device->clear(o.lane.stream, buffer, request->bytes);
    TRY(open_groups(&o, buffer));
    TRY(measure_kinds(&o));
done:
    if (status)
        transport->kind->abort(transport, weft_last_error()->message);
    device->release(o.lane.stream, buffer);
    lane_close(transport, options, &o.lane);
    return status;
}

/* ---- ranks that are threads ------------------------------------------------------------------ */

struct thread_overlaps {
    const struct measure_options *options;
    const struct overlap_request *request;
    struct arena *keep; /* of rank 0, which answers */
    struct measured_overlaps *out;
};

static weft_status measure_rank(void *context, struct transport *transport, struct arena *arena)
{
    struct thread_overlaps *all = context;
    struct measured_overlaps own;
    bool answers = transport->rank == 0;
    return measure_overlap(transport, all->options, all->request, answers ? all->keep : arena,
                           answers ? all->out : &own);
}

weft_status measure_thread_overlap(int32_t ranks, const struct measure_options *options,
                                   const struct overlap_request *request, struct arena *keep,
                                   struct measured_overlaps *out)
{
    struct thread_overlaps all = {options, request, keep, out};
    return on_thread_ranks(ranks, measure_rank, &all);
}
