/* transfers.c - collectives and sends in front of a clock.
 *
 * Ranks leave the barrier before a transfer one after the other, by as much as a small transfer takes. A sample is therefore the
 * time in which all of them are in it, by the one clock of the machine:
 *
 *   sample = max over ranks of its end - max over ranks of its start                             (1)
 *
 * The wall clock also counts what other programs take, and no error of a median shows that. A sample in which a rank could have
 * run and had no core for longer than a slice of the scheduler is *disturbed*: it is left out, unless there are not enough others.
 *
 *   I1  All ranks go through the same cases in the same order; whether another batch of samples is
 *       needed, or a case is left out, is what rank 0 says.
 *   I2  Ranks outside a group wait for it at the end of each case, before the next group is used.
 *   I3  Before a sample through host memory each rank writes both of its buffers, as kernels do in training, and then as much
 *       else as its caches hold (`away_bytes`): most of what travels are weights and gradients, and a step uses more than the
 *       caches hold between their last use and their transfer. Only activations are nearer.
 *   I4  A sample through host memory has what a rank does around the transfer (run/rank: steps.c, bucket_transfers.c):
 *       it packs what it scatters and unpacks what it gathers, which only a tensor split along its outermost axis spares.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "run/measure/measure.h"
#include "run/measure/choices.h"
#include "run/measure/lane.h"
#include "run/measure/sampling.h"
#include "run/measure/thread_ranks.h"

/* CFS lets a program that has a core keep it for 0.75 ms at least (sched_min_granularity). */
static const float SLICE_S = 0.75e-3F;

enum { BATCH = 10, LEAST_BYTES = 1 << 10, SIZE_STEP = 4 };

static const struct {
    enum transfer_kind kind;
    bool one_part;       /* `count` is of one member's part */
    bool packs, unpacks; /* I4 */
} KINDS[] = {
    [COLLECTIVE_ALL_REDUCE] = {TRANSFER_ALL_REDUCE, false, false, false},
    [COLLECTIVE_ALL_GATHER] = {TRANSFER_ALL_GATHER, true, false, true},
    [COLLECTIVE_REDUCE_SCATTER] = {TRANSFER_REDUCE_SCATTER, true, true, false},
    [COLLECTIVE_ALL_TO_ALL] = {TRANSFER_ALL_TO_ALL, false, true, true},
    [COLLECTIVE_BROADCAST] = {TRANSFER_BROADCAST, false, false, false}, /* from the first member */
    [COLLECTIVE_SEND] = {TRANSFER_SEND, false, false, false},
};
_Static_assert(COUNT_OF(KINDS) == COLLECTIVE_MEASURED, "a collective without a row");

struct bench {
    struct transport *t;       /* for what ranks tell each other */
    struct transfer_lane lane; /* what is measured */
    const struct measure_options *options;
    struct arena *keep;
    struct measured_transfers *out;
    void *from, *to, *packed, *away;
    int64_t *counts; /* per member, of an all-to-all */
    double began_s;
    int64_t done, all; /* cases */
};

struct bench_case {
    enum collective collective;
    int32_t group, lane_group, members;
    int64_t bytes;
};

/* ---- transfers ------------------------------------------------------------------------------- */

/* Nobody says when work of a device's own streams is over: it is looked at again and again. */
static weft_status run_transfer(struct transport *t, const struct transfer *transfer)
{
    static const double WAIT_S = 0.1;
    struct pending_transfer *request;
    weft_status status = t->kind->start(t, transfer, &request);
    if (status)
        return status;
    while (!t->kind->test(t, request)) {
        const char *why = t->kind->failed(t);
        if (why)
            return failure("another rank gave up: %s", why);
        if (!t->kind->stream)
            t->kind->wait(t, WAIT_S, true);
    }
    return WEFT_OK;
}

static weft_status most_of(struct bench *b, int32_t group, float *data, int64_t count)
{
    struct transfer most = {.kind = TRANSFER_ALL_REDUCE,
                            .op = REDUCE_MAX,
                            .group = group,
                            .from = data,
                            .to = data,
                            .count = count};
    return run_transfer(b->t, &most);
}

/* What rank 0 says (I1). */
static weft_status agree(struct bench *b, int32_t group, bool *yes)
{
    float said = b->t->rank == 0 && *yes ? 1 : 0;
    weft_status status = most_of(b, group, &said, 1);
    *yes = said > 0;
    return status;
}

static struct transfer transfer_of(const struct bench *b, const struct bench_case *c)
{
    int64_t count = c->bytes / (int64_t)sizeof(float);
    struct transfer transfer = {.kind = KINDS[c->collective].kind,
                                .group = c->lane_group,
                                .from = b->from,
                                .to = b->to,
                                .count = KINDS[c->collective].one_part ? count / c->members : count,
                                .from_counts = b->counts,
                                .to_counts = b->counts};
    for (int32_t m = 0; m < c->members; m++)
        b->counts[m] = count / c->members;
    if (c->collective == COLLECTIVE_SEND) {
        transfer.peer = 1 - b->t->rank;
        transfer.kind = b->t->rank == 0 ? TRANSFER_SEND : TRANSFER_RECEIVE;
    }
    if (c->collective == COLLECTIVE_BROADCAST && b->t->rank != 0)
        transfer.from = NULL;
    return transfer;
}

/* ---- one case -------------------------------------------------------------------------------- */

/* The time of rank 0's clock from which a batch counts, the same on all; in parts that floats hold. */
static weft_status agree_on_base(struct bench *b, int32_t group, double *out)
{
    const double part = 4096;
    float parts[3] = {0};
    if (b->t->rank == 0) {
        double now = b->options->wall_seconds(b->options->context), whole = floor(now);
        parts[0] = (float)floor(whole / part);
        parts[1] = (float)(whole - part * floor(whole / part));
        parts[2] = (float)(now - whole);
    }
    weft_status status = most_of(b, group, parts, COUNT_OF(parts));
    *out = part * parts[0] + parts[1] + parts[2];
    return status;
}

struct batches {
    struct sampling good, disturbed;
};

static bool goes_through_host(const struct bench *b)
{
    return !b->lane.transport->kind->stream;
}

/* I3; what streams of a device do would be in the sample. */
static void use_buffers(const struct bench *b, int64_t bytes)
{
    const struct compute_device *device = b->options->kernels->device;
    if (!goes_through_host(b))
        return;
    device->clear(b->lane.stream, b->from, bytes);
    device->clear(b->lane.stream, b->to, bytes);
    device->clear(b->lane.stream, b->away, b->options->away_bytes);
}

/* I4 */
static weft_status run_packed(const struct bench *b, const struct bench_case *c,
                              const struct transfer *transfer)
{
    const struct compute_device *device = b->options->kernels->device;
    struct transfer own = *transfer;
    weft_status status;
    if (goes_through_host(b) && KINDS[c->collective].packs) {
        device->copy(b->lane.stream, COPY_ON_DEVICE, b->packed, b->from, c->bytes);
        own.from = b->packed;
    }
    TRY(run_transfer(b->lane.transport, &own));
    if (goes_through_host(b) && KINDS[c->collective].unpacks) {
        device->copy(b->lane.stream, COPY_ON_DEVICE, b->packed, b->to, c->bytes);
        device_finish(device, device_record(device, b->lane.stream));
    }
done:
    return status;
}

/* (1), BATCH times. */
static weft_status sample_batch(struct bench *b, const struct bench_case *c, struct batches *out)
{
    const struct measure_options *o = b->options;
    struct transfer transfer = transfer_of(b, c);
    float at[3][BATCH], ready = 0;
    double base;
    weft_status status;
    TRY(agree_on_base(b, c->group, &base));
    for (int i = 0; i < BATCH; i++) {
        use_buffers(b, c->bytes);
        TRY(most_of(b, c->group, &ready, 1));
        double waited = core_wait_seconds();
        at[0][i] = (float)(o->wall_seconds(o->context) - base);
        TRY(run_packed(b, c, &transfer));
        at[1][i] = (float)(o->wall_seconds(o->context) - base);
        at[2][i] = (float)(core_wait_seconds() - waited);
    }
    TRY(most_of(b, c->group, at[0], 3 * BATCH));
    for (int i = 0; i < BATCH; i++)
        sampling_add(at[2][i] < SLICE_S ? &out->good : &out->disturbed, at[1][i] - at[0][i]);
done:
    return status;
}

static struct spread spread_of_batches(struct batches *batches)
{
    struct sampling *good = &batches->good, *disturbed = &batches->disturbed;
    for (int64_t i = 0; good->count < BATCH && i < disturbed->count; i++)
        sampling_add(good, disturbed->ns[i] / 1e9);
    return spread_of(good);
}

static bool bench_ended(struct bench *b)
{
    const struct measure_options *o = b->options;
    bool late = o->budget_s > 0 && o->wall_seconds(o->context) - b->began_s >= o->budget_s;
    return late || (o->stop && atomic_load(o->stop));
}

/* *stopped: rank 0 wants no more. */
static weft_status sample_case(struct bench *b, const struct bench_case *c, struct batches *batches,
                               struct measured_transfer *out, bool *stopped)
{
    const struct measure_options *o = b->options;
    struct transfer first = transfer_of(b, c);
    double begin_s = o->wall_seconds(o->context);
    int64_t taken = 0;
    weft_status status;
    TRY(run_packed(b, c, &first)); /* no sample: pages are new to it */
    for (bool more = true; more;) {
        *stopped = bench_ended(b);
        TRY(agree(b, c->group, stopped));
        if (*stopped)
            return WEFT_OK;
        TRY(sample_batch(b, c, batches));
        taken += BATCH;
        bool few = batches->good.count < BATCH;
        bool late = o->wall_seconds(o->context) - begin_s >= o->most_s;
        more = (few || spread_of(&batches->good).error > o->precision) &&
               taken + BATCH <= o->most && !late;
        TRY(agree(b, c->group, &more));
    }
    out->disturbed = batches->disturbed.count;
    out->trusted = batches->good.count >= BATCH;
    struct spread spread = spread_of_batches(batches);
    out->ns = spread.expected_ns;
    out->error = spread.error;
    out->samples = batches->good.count;
done:
    return status;
}

/* ---- what rank 0 keeps ----------------------------------------------------------------------- */

static struct collective_measurement row_of(const struct bench *b,
                                            const struct measured_transfer *one)
{
    const struct measure_options *o = b->options;
    return (struct collective_measurement){o->device, o->machine, one->collective, one->ranks,
                                           1,         one->bytes, one->ns,         one->samples,
                                           o->source, one->error};
}

static weft_status look_for(struct bench *b, struct measured_transfer *one)
{
    struct profile *profile = NULL;
    struct kernel_cost cost;
    weft_status status = WEFT_OK;
    struct collective_measurement row = row_of(b, one);
    if (!b->options->db)
        return WEFT_OK;
    TRY(profile_create(b->options->db, &profile));
    TRY(profile_has_collective(profile, &row, b->options->precision, &one->known));
    if (one->known) {
        TRY(profile_collective(profile, row.device, row.collective, row.devices, 1, row.bytes,
                               &cost));
        one->ns = (double)cost.ns;
    }
done:
    profile_close(profile);
    return status;
}

static weft_status keep_row(struct bench *b, const struct measured_transfer *one)
{
    struct profile *profile = NULL;
    struct collective_measurement row = row_of(b, one);
    weft_status status = WEFT_OK;
    array_push(b->keep, b->out, *one);
    if (!b->options->db || one->known || !one->trusted)
        return WEFT_OK;
    TRY(profile_create(b->options->db, &profile));
    TRY(profile_add_collective(profile, &row));
    TRY(store_circumstances(profile, b->options));
    TRY(profile_commit(profile));
done:
    profile_close(profile);
    return status;
}

static void tell(const struct bench *b, const struct bench_case *c)
{
    const struct measure_options *o = b->options;
    double gone_s = o->wall_seconds(o->context) - b->began_s;
    struct measure_progress progress = {
        b->done, b->all, collective_name(c->collective),
        b->done > 0 ? gone_s / (double)b->done * (double)(b->all - b->done) : 0};
    if (o->progress && b->t->rank == 0)
        o->progress(o->context, &progress);
}

static weft_status measure_case(struct bench *b, const struct bench_case *c, bool *stopped)
{
    struct batches batches = {sampling_new(b->keep, b->options->most + BATCH),
                              sampling_new(b->keep, b->options->most + BATCH)};
    struct measured_transfer one = {
        .collective = c->collective, .ranks = c->members, .bytes = c->bytes};
    weft_status status = WEFT_OK;
    tell(b, c);
    if (b->t->rank == 0)
        TRY(look_for(b, &one));
    TRY(agree(b, c->group, &one.known));
    if (!one.known)
        TRY(sample_case(b, c, &batches, &one, stopped));
    if (*stopped)
        return WEFT_OK;
    if (b->t->rank == 0)
        status = keep_row(b, &one);
done:
    return status;
}

/* ---- all cases ------------------------------------------------------------------------------- */

static int32_t next_members(int32_t members, int32_t ranks)
{
    return members < ranks && members * 2 > ranks ? ranks : members * 2;
}

static int64_t sizes_up_to(int64_t most_bytes)
{
    int64_t sizes = 0;
    for (int64_t bytes = LEAST_BYTES; bytes <= most_bytes; bytes *= SIZE_STEP)
        sizes++;
    return sizes;
}

static bool is_case(enum collective collective, int32_t members)
{
    return collective != COLLECTIVE_SEND || members == 2;
}

static weft_status measure_group(struct bench *b, const struct bench_case *of, int32_t world,
                                 int64_t most_bytes)
{
    weft_status status = WEFT_OK;
    for (int collective = 0; collective < COLLECTIVE_MEASURED; collective++) {
        if (!is_case((enum collective)collective, of->members))
            continue;
        for (int64_t bytes = LEAST_BYTES; bytes <= most_bytes; bytes *= SIZE_STEP) {
            struct bench_case c = *of;
            bool stopped = false;
            c.collective = (enum collective)collective;
            c.bytes = bytes;
            if (b->t->rank < of->members)
                TRY(measure_case(b, &c, &stopped));
            TRY(agree(b, world, &stopped)); /* I2 */
            b->done++;
            b->out->stopped = stopped;
            if (stopped)
                return WEFT_OK;
        }
    }
done:
    return status;
}

/* Of the first `members` ranks, on both transports; where they are one, the same group. */
static weft_status open_groups(struct bench *b, const int32_t *member, int32_t ranks,
                               struct bench_case *of)
{
    struct transport *lane = b->lane.transport;
    weft_status status = WEFT_OK;
    if (of->members < ranks)
        TRY(b->t->kind->group(b->t, member, of->members, 0, &of->group));
    of->lane_group = of->group;
    if (lane != b->t)
        TRY(lane->kind->group(lane, member, of->members, 0, &of->lane_group));
done:
    return status;
}

static weft_status measure_groups(struct bench *b, int64_t most_bytes)
{
    int32_t ranks = b->t->ranks, world;
    int32_t *member = ARENA_ARRAY(b->keep, int32_t, (size_t)ranks);
    weft_status status;
    for (int32_t r = 0; r < ranks; r++)
        member[r] = r;
    TRY(b->t->kind->group(b->t, member, ranks, 0, &world));
    for (int32_t members = 2; members <= ranks && !b->out->stopped;
         members = next_members(members, ranks)) {
        struct bench_case of = {.group = world, .members = members};
        if (b->t->rank < members)
            TRY(open_groups(b, member, ranks, &of));
        TRY(measure_group(b, &of, world, most_bytes));
    }
done:
    return status;
}

static int64_t cases_of(int32_t ranks, int64_t most_bytes)
{
    int64_t cases = 0;
    for (int32_t members = 2; members <= ranks; members = next_members(members, ranks))
        for (int collective = 0; collective < COLLECTIVE_MEASURED; collective++)
            cases += is_case((enum collective)collective, members) ? sizes_up_to(most_bytes) : 0;
    return cases;
}

static weft_status make_buffers(struct bench *b, int64_t most_bytes)
{
    const struct compute_device *device = b->options->kernels->device;
    b->from = device->allocate(b->lane.stream, most_bytes);
    b->to = device->allocate(b->lane.stream, most_bytes);
    b->packed = device->allocate(b->lane.stream, most_bytes);
    b->away = device->allocate(b->lane.stream, b->options->away_bytes);
    if (!b->from || !b->to || !b->packed || !b->away)
        return failure("no memory for three buffers of %lld bytes, and %lld bytes for the caches",
                       (long long)most_bytes, (long long)b->options->away_bytes);
    device->clear(b->lane.stream, b->from, most_bytes);
    device->clear(b->lane.stream, b->to, most_bytes);
    return WEFT_OK;
}

weft_status measure_transfers(struct transport *transport, const struct measure_options *options,
                              int64_t most_bytes, struct arena *keep,
                              struct measured_transfers *out)
{
    struct bench b = {.t = transport, .options = options, .keep = keep, .out = out};
    weft_status status;
    *out = (struct measured_transfers){0};
    b.began_s = options->wall_seconds(options->context);
    b.all = cases_of(transport->ranks, most_bytes);
    b.counts = ARENA_ARRAY(keep, int64_t, (size_t)transport->ranks);
    TRY(lane_open(transport, options, &b.lane));
    TRY(make_buffers(&b, most_bytes));
    TRY(measure_groups(&b, most_bytes));
done:
    if (status)
        transport->kind->abort(transport, weft_last_error()->message);
    options->kernels->device->release(b.lane.stream, b.from);
    options->kernels->device->release(b.lane.stream, b.to);
    options->kernels->device->release(b.lane.stream, b.packed);
    options->kernels->device->release(b.lane.stream, b.away);
    lane_close(transport, options, &b.lane);
    return status;
}

/* ---- ranks that are threads ------------------------------------------------------------------ */

struct thread_transfers {
    const struct measure_options *options;
    int64_t most_bytes;
    struct arena *keep; /* of rank 0, which answers */
    struct measured_transfers *out;
};

static weft_status measure_rank(void *context, struct transport *transport, struct arena *arena)
{
    struct thread_transfers *all = context;
    struct measured_transfers own;
    bool answers = transport->rank == 0;
    return measure_transfers(transport, all->options, all->most_bytes, answers ? all->keep : arena,
                             answers ? all->out : &own);
}

weft_status measure_thread_transfers(int32_t ranks, const struct measure_options *options,
                                     int64_t most_bytes, struct arena *keep,
                                     struct measured_transfers *out)
{
    struct thread_transfers all = {options, most_bytes, keep, out};
    return on_thread_ranks(ranks, measure_rank, &all);
}
