/* cost.c - one answer from several sources: the user's database, the shipped ones, the formula.
 *
 *   I1  Sources are asked in that order, and each for the requested type before a type that runs
 *       equally fast: fp16 and bf16 if the device has one peak for both.
 *   I2  Shipped databases are one file per device, named after it in lower case. A device whose
 *       compute and memory bandwidth are those of another one is also answered from that one's
 *       file.
 *   I3  It is no error if no database is found; a damaged one is an error.
 *   I4  Times on the device are kept (work_times.h): neither databases nor the device change while they are open.
 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cost/calibration.h"
#include "cost/profile.h"
#include "cost/work_times.h"

enum { MAX_SOURCES = 3 };

struct profile_source {
    struct profile *profile;
    const char *device; /* the name to ask for */
    bool own;           /* the user's own: times as they are in training */
};

struct cost {
    struct arena *arena;
    struct device device;
    const struct calibration *calibration;
    struct calibration sustained; /* the same under the power limit of hours of training */
    struct profile_source source[MAX_SOURCES];
    size_t sources;
    struct interference interference[KERNEL_COUNT]; /* as measured; 0: not */
    struct work_times *times;                       /* what cost_on_device has found */
    struct cost *next;                              /* of the next pool; NULL: there is none */
};

/* Devices that differ in memory size only (I2). */
static const struct {
    const char *device, *same_as;
} TWINS[] = {
    {"V100-SXM2-16GB", "V100-SXM2-32GB"},
    {"V100-SXM2-32GB", "V100-SXM2-16GB"},
};

static const char *twin_of(const char *device)
{
    for (size_t i = 0; i < COUNT_OF(TWINS); i++)
        if (strcmp(TWINS[i].device, device) == 0)
            return TWINS[i].same_as;
    return NULL;
}

/* ---- where the shipped databases are --------------------------------------------------------- */

static const struct shipped PROFILES = {"WEFT_PROFILES", "profiles", WEFT_PROFILE_DIR};

const char *cost_missing(struct arena *keep)
{
    return shipped_missing(keep, &PROFILES);
}

static char *find_shipped(struct arena *keep, const char *device)
{
    char *name = arena_printf(keep, "%s.sqlite", device);
    for (char *c = name; *c; c++)
        *c = *c == ' ' ? '-' : (char)tolower((unsigned char)*c);
    return shipped_file(keep, &PROFILES, name);
}

weft_status profile_open_shipped(const char *device, struct profile **out)
{
    struct arena *arena = arena_new();
    const char *path = find_shipped(arena, device);
    weft_status status = path ? profile_open(path, out)
                              : failure("the database of %s is not where Weft's data is; "
                                        "WEFT_PROFILES may name its folder",
                                        device);
    arena_free(arena);
    return status;
}

/* ---- opening --------------------------------------------------------------------------------- */

static weft_status add_source(struct cost *cost, const char *path, const char *device, bool own)
{
    struct profile_source *source = &cost->source[cost->sources];
    weft_status status = profile_open(path, &source->profile);
    if (status != WEFT_OK)
        return status;
    source->device = arena_copy_text(cost->arena, device);
    source->own = own;
    cost->sources++;
    return WEFT_OK;
}

static weft_status add_shipped(struct cost *cost, const char *device)
{
    const char *path = device ? find_shipped(cost->arena, device) : NULL;
    return path ? add_source(cost, path, device, false) : WEFT_OK;
}

weft_status cost_open_all(const struct cluster *cluster, const char *profile_path,
                          struct cost **out)
{
    struct cost **last = out;
    weft_status status = WEFT_OK;
    *out = NULL;
    for (int32_t p = 0; p < cluster_pools(cluster); p++) {
        TRY(cost_open(&cluster_pool(cluster, p)->node.device, profile_path, last));
        last = &(*last)->next;
    }
done:
    if (status) {
        cost_close(*out);
        *out = NULL;
    }
    return status;
}

struct cost *cost_in_pool(struct cost *cost, int32_t pool)
{
    for (int32_t p = 0; p < pool && cost->next; p++)
        cost = cost->next;
    return cost;
}

weft_status cost_open(const struct device *device, const char *profile_path, struct cost **out)
{
    struct arena *arena = arena_new();
    struct cost *cost = ARENA_NEW(arena, struct cost);
    weft_status status;
    *out = NULL;
    cost->arena = arena;
    cost->device = *device;
    cost->times = work_times_new(arena);
    cost->calibration = calibration_for(device);
    cost->sustained = *cost->calibration;
    cost->sustained.power_fraction = cost->calibration->sustained_fraction;
    cost->sustained.issue_ns =
        cost->calibration->training_issue_ns / pace_of(&device->paces, PACE_HOST);
    if (profile_path)
        TRY(add_source(cost, profile_path, device->name, true));
    TRY(add_shipped(cost, device->name));
    TRY(add_shipped(cost, twin_of(device->name)));
    for (size_t i = 0; i < cost->sources; i++)
        TRY(profile_interference(cost->source[i].profile, cost->source[i].device,
                                 cost->interference));
    *out = cost;
    cost = NULL;
done:
    cost_close(cost);
    return status;
}

void cost_close(struct cost *cost)
{
    while (cost) {
        struct cost *next = cost->next;
        for (size_t i = 0; i < cost->sources; i++)
            profile_close(cost->source[i].profile);
        arena_free(cost->arena);
        cost = next;
    }
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* The type that runs as fast as this one on this device, or the type itself (I1). */
static enum dtype like(const struct device *device, enum dtype dtype)
{
    bool alike = device->flops[DTYPE_FP16] == device->flops[DTYPE_BF16];
    if (alike && dtype == DTYPE_FP16)
        return DTYPE_BF16;
    return alike && dtype == DTYPE_BF16 ? DTYPE_FP16 : dtype;
}

static bool ask(const struct profile_source *source, const struct work *work,
                struct kernel_cost *out)
{
    return profile_lookup(source->profile, source->device, work, out) == WEFT_OK &&
           out->provenance != FROM_NOTHING;
}

/* What a database says, or FROM_NOTHING. *own: the database is the user's. */
static struct kernel_cost look_up(struct cost *cost, const struct work *work, bool *own)
{
    struct kernel_cost found = {0};
    struct work alike = *work;
    alike.dtype = like(&cost->device, work->dtype);
    for (size_t i = 0; i < cost->sources; i++) {
        *own = cost->source[i].own;
        if (ask(&cost->source[i], work, &found))
            return found;
        if (alike.dtype != work->dtype && ask(&cost->source[i], &alike, &found))
            return found;
    }
    *own = false;
    return (struct kernel_cost){0};
}

static bool no_work(const struct work *work)
{
    return work->flops == 0 && work->read_bytes == 0 && work->write_bytes == 0;
}

static struct kernel_cost formula(int64_t ns)
{
    return (struct kernel_cost){ns, FROM_FORMULA, "analytic model"};
}

/* What the device's runs say about Weft's own times (cluster.h). Times that the user measured are as they are. */
static int64_t paced_ns(const struct cost *cost, const struct work *work, int64_t ns)
{
    static const enum pace_part PARTS[KERNEL_COUNT] = {
        [KERNEL_MATMUL] = PACE_PRODUCTS,       [KERNEL_GROUPED_MATMUL] = PACE_PRODUCTS,
        [KERNEL_ATTENTION] = PACE_PRODUCTS,    [KERNEL_ATTENTION_V1] = PACE_PRODUCTS,
        [KERNEL_ATTENTION_V2] = PACE_PRODUCTS, [KERNEL_CONV] = PACE_PRODUCTS,
        [KERNEL_SCAN] = PACE_PRODUCTS,         [KERNEL_DELTA] = PACE_PRODUCTS,
        [KERNEL_NORM] = PACE_MEMORY,           [KERNEL_BATCH_NORM] = PACE_MEMORY,
        [KERNEL_SOFTMAX] = PACE_MEMORY,        [KERNEL_ELEMENTWISE] = PACE_MEMORY,
        [KERNEL_DROPOUT] = PACE_MEMORY,        [KERNEL_EMBEDDING] = PACE_MEMORY,
        [KERNEL_LOSS] = PACE_MEMORY,           [KERNEL_LOSS_COMPILED] = PACE_MEMORY,
        [KERNEL_POOL] = PACE_MEMORY,           [KERNEL_COPY] = PACE_MEMORY,
        [KERNEL_OPTIMIZER] = PACE_MEMORY,
    };
    double pace = pace_of(&cost->device.paces, PARTS[work->kernel]);
    return pace == 1 ? ns : (int64_t)((double)ns / pace);
}

struct kernel_cost cost_of(struct cost *cost, const struct work *work)
{
    struct kernel_cost found = {0};
    bool own;
    if (no_work(work))
        return found;
    found = look_up(cost, work, &own);
    if (found.provenance == FROM_NOTHING)
        found = formula(analytic_ns(&cost->device, cost->calibration, work));
    if (!own)
        found.ns = paced_ns(cost, work, found.ns);
    return found;
}

static bool is_attention(enum kernel kernel)
{
    return kernel == KERNEL_ATTENTION || kernel == KERNEL_ATTENTION_V1 ||
           kernel == KERNEL_ATTENTION_V2;
}

struct kernel_cost cost_on_device(struct cost *cost, const struct work *work)
{
    struct kernel_cost found = {0};
    bool own;
    if (no_work(work) || work_times_find(cost->times, work, &found))
        return found;
    found = look_up(cost, work, &own);
    if (found.provenance == FROM_NOTHING)
        found = formula(analytic_device_ns(&cost->device, &cost->sustained, work));
    if (is_attention(work->kernel) && !own)
        found.ns = (int64_t)((double)found.ns / cost->sustained.attention_sustained);
    if (!own)
        found.ns = paced_ns(cost, work, found.ns);
    work_times_keep(cost->times, work, &found);
    return found;
}

int64_t cost_host_ns(const struct cost *cost, const struct work *work)
{
    return analytic_host_ns(&cost->sustained, work);
}

int64_t cost_host_step_ns(const struct cost *cost)
{
    return (int64_t)cost->sustained.issue_ns;
}

int64_t cost_call_ns(const struct cost *cost)
{
    return (int64_t)(cost->calibration->issue_ns / pace_of(&cost->device.paces, PACE_HOST));
}

int64_t cost_begin_ns(const struct cost *cost, const struct work *work)
{
    return analytic_begin_ns(&cost->sustained, work);
}

double device_product_flops(const struct device *device, enum dtype dtype)
{
    enum {
        SIDE = 8192
    }; /* as large as those of large models, and far from any size that is slow */
    struct calibration calibration = *calibration_for(device);
    calibration.power_fraction = calibration.sustained_fraction;
    struct work work = {.kernel = KERNEL_MATMUL,
                        .phase = PHASE_FORWARD,
                        .dtype = peak_dtype(device, dtype),
                        .shape = {1, SIDE, SIDE, SIDE},
                        .flops = 2.0 * SIDE * SIDE * SIDE};
    work.read_bytes = 2.0 * dtype_bytes(dtype) * SIDE * SIDE;
    work.write_bytes = work.read_bytes / 2;
    double ns = (double)analytic_device_ns(device, &calibration, &work);
    return ns > 0 ? work.flops / ns * 1e9 * pace_of(&device->paces, PACE_PRODUCTS) : 0;
}

/* ---- interference ---------------------------------------------------------------------------- */

static double device_slowdown(const struct cost *cost)
{
    double measured = cost->device.overlap_slowdown;
    return measured > 0 ? measured : cost->calibration->overlap_slowdown;
}

double cost_slowdown(const struct cost *cost)
{
    double products = cost->interference[KERNEL_MATMUL].work;
    double here = products > 0 ? products : device_slowdown(cost);
    double others = cost->next ? cost_slowdown(cost->next) : here;
    return others > here ? others : here;
}

struct interference cost_interference(const struct cost *cost, enum kernel kernel)
{
    double all = device_slowdown(cost);
    const struct interference *measured = &cost->interference[kernel];
    struct interference here = measured->work > 0 ? *measured : (struct interference){all, all};
    if (cost->next) {
        struct interference others = cost_interference(cost->next, kernel);
        here.work = others.work > here.work ? others.work : here.work;
        here.transfer = others.transfer > here.transfer ? others.transfer : here.transfer;
    }
    return here;
}

bool cost_tells_kernels(const struct cost *cost)
{
    for (int k = 0; k < KERNEL_COUNT; k++)
        if (cost->interference[k].work > 0)
            return true;
    return cost->next && cost_tells_kernels(cost->next);
}
