/* import_collectives.c - published times and rates of collectives.
 *
 * `bytes` in the database is what nccl-tests calls the size: the larger of each device's send and
 * receive buffer. Tables that list what one device sends into an all-gather are converted:
 *
 *   bytes = devices * sent                                                                       (1)
 *
 *   I1  A message whose size was rounded to zero, or whose time means "out of memory", is left out.
 *   I2  `nodes` is 1 inside a node; tables that do not say otherwise measured one node.
 *   I3  Of equal collectives in one file, the last one is used.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cost/profile.h"
#include "cost/table.h"

struct collective_time {
    const char *device, *machine;
    enum collective collective;
    int64_t devices, nodes, bytes, samples;
    double ns;
};

static weft_status store_time(struct import *import, const struct collective_time *time)
{
    if (!import_wants(import, time->device)) {
        import_skip(import, "another device");
        return WEFT_OK;
    }
    struct profile_value values[] = {
        V_TEXT(time->device), V_TEXT(time->machine), V_TEXT(collective_name(time->collective)),
        V_INT(time->devices), V_INT(time->nodes),    V_INT(time->bytes),
        V_REAL(time->ns),     V_INT(time->samples),  V_INT(import->source)};
    return import_row(import, TABLE_COLLECTIVE, values, COUNT_OF(values));
}

/* ---- Aceso and Sailor ------------------------------------------------------------------------ */

static weft_status device_of(const struct import *import, const struct csv *csv, int at,
                             const char **out)
{
    *out = import->options->device ? import->options->device : ACESO_DEVICE;
    if (at < 0)
        return WEFT_OK;
    const struct sailor_device *device;
    weft_status status = sailor_device(csv, at, &device);
    *out = status == WEFT_OK ? device->name : NULL;
    return status;
}

static weft_status collective_of(const struct csv *csv, int at, enum collective *out)
{
    if (collective_from_name(csv->field[at], out))
        return WEFT_OK;
    weft_status status = csv_error(csv, at, NULL, "a collective");
    hint_near(collective_near(csv->field[at]));
    return status;
}

enum { COLL_DEVICE, COLL_COLLECTIVE, COLL_DEVICES, COLL_SIZE, COLL_MS, COLL_SAMPLES, COLL_COUNT };
static const char *const COLLECTIVE_COLUMNS[] = {"?device", "collective", "devices",
                                                 "size_mb", "ms",         "?samples"};

static weft_status collective_row(void *context, const struct csv *csv, const int *at)
{
    struct import *import = context;
    struct collective_time time = {.machine = "", .nodes = 1, .samples = 1};
    double size_mb, ms;
    weft_status status;
    TRY(device_of(import, csv, at[COLL_DEVICE], &time.device));
    TRY(collective_of(csv, at[COLL_COLLECTIVE], &time.collective));
    TRY(csv_int(csv, at[COLL_DEVICES], 1, &time.devices));
    TRY(csv_real(csv, at[COLL_SIZE], REAL_NOT_NEGATIVE, &size_mb));
    TRY(csv_real(csv, at[COLL_MS], REAL_POSITIVE, &ms));
    if (at[COLL_SAMPLES] >= 0)
        TRY(csv_int(csv, at[COLL_SAMPLES], 1, &time.samples));
    bool wanted = import_wants(import, time.device);
    if (wanted && ms >= OUT_OF_MEMORY_MS) {
        import_skip(import, "out of memory (a time of 1e8 ms and more)");
    } else if (wanted && size_mb == 0) {
        import_skip(import, "a size rounded to zero");
    } else {
        int64_t each = time.collective == COLLECTIVE_ALL_GATHER ? time.devices : 1; /* (1) */
        if (!checked_mul(llround(size_mb * MIB), each, &time.bytes))
            TRY(csv_error(csv, at[COLL_DEVICES], NULL, "fewer devices"));
        time.ns = ms * 1e6;
        TRY(store_time(import, &time));
    }
done:
    return status;
}

weft_status import_collectives(struct import *import, struct csv *csv)
{
    return csv_read(csv, COLLECTIVE_COLUMNS, COUNT_OF(COLLECTIVE_COLUMNS), collective_row, import);
}

enum { P2P_DEVICE, P2P_DTYPE, P2P_WHERE, P2P_SIZE, P2P_RATE, P2P_COUNT };
static const char *const P2P_COLUMNS[] = {"?device", "?dtype", "where", "size_mb", "gb_per_s"};

/* The dtype of a message changes nothing about its bytes; it tells two runs apart. */
static weft_status p2p_row(void *context, const struct csv *csv, const int *at)
{
    struct import *import = context;
    struct collective_time time = {.collective = COLLECTIVE_SEND, .devices = 2, .samples = 1};
    double size_mb, rate;
    weft_status status;
    const char *where = csv->field[at[P2P_WHERE]];
    TRY(device_of(import, csv, at[P2P_DEVICE], &time.device));
    TRY(csv_real(csv, at[P2P_SIZE], REAL_POSITIVE, &size_mb));
    TRY(csv_real(csv, at[P2P_RATE], REAL_POSITIVE, &rate));
    if (strcmp(where, "intra") != 0 && strcmp(where, "inter") != 0)
        TRY(csv_error(csv, at[P2P_WHERE], NULL, "intra or inter"));
    time.machine = at[P2P_DTYPE] >= 0 ? csv->field[at[P2P_DTYPE]] : "";
    time.nodes = where[3] == 'e' ? 2 : 1;
    time.bytes = llround(size_mb * MIB);
    time.ns = (double)time.bytes / rate; /* GB/s are bytes per ns */
    TRY(store_time(import, &time));
done:
    return status;
}

weft_status import_p2p_rates(struct import *import, struct csv *csv)
{
    return csv_read(csv, P2P_COLUMNS, COUNT_OF(P2P_COLUMNS), p2p_row, import);
}

/* ---- vTrain ---------------------------------------------------------------------------------- */

enum { VTRAIN_GPU, VTRAIN_GPUS, VTRAIN_BYTES, VTRAIN_TIME, VTRAIN_BUSBW, VTRAIN_TIME_IN_PLACE };
static const char *const VTRAIN_COLUMNS[] = {
    "gpu",           "gpus",  "bytes", "time_out_of_place_ns", "busbw_oop_GBps", "time_in_place_ns",
    "busbw_ip_GBps", "source"};

/* The times are those of in-place reductions, as frameworks reduce gradients. */
static weft_status vtrain_row(void *context, const struct csv *csv, const int *at)
{
    struct import *import = context;
    struct collective_time time = {.machine = "vtrain",
                                   .nodes = 1,
                                   .samples = 1,
                                   .collective = COLLECTIVE_ALL_REDUCE,
                                   .device = csv->field[at[VTRAIN_GPU]]};
    weft_status status;
    TRY(csv_int(csv, at[VTRAIN_GPUS], 1, &time.devices));
    TRY(csv_int(csv, at[VTRAIN_BYTES], 1, &time.bytes));
    TRY(csv_real(csv, at[VTRAIN_TIME_IN_PLACE], REAL_POSITIVE, &time.ns));
    TRY(store_time(import, &time));
done:
    return status;
}

weft_status import_vtrain(struct import *import, struct csv *csv)
{
    return csv_read(csv, VTRAIN_COLUMNS, COUNT_OF(VTRAIN_COLUMNS), vtrain_row, import);
}

/* ---- SimAI ----------------------------------------------------------------------------------- */

enum { SIMAI_FILE, SIMAI_BYTES, SIMAI_COLUMN, SIMAI_RATIO };
static const char *const SIMAI_COLUMNS[] = {"file", "bytes", "column", "ratio", "source"};

/* "8Node-64GPU(NIC)" has both numbers, "1 Node(NVLinkx)" one, "Multi 16" neither. */
static weft_status simai_row(void *context, const struct csv *csv, const int *at)
{
    struct import *import = context;
    int64_t bytes;
    double share;
    int nodes = 0, devices = 0;
    weft_status status;
    TRY(csv_int(csv, at[SIMAI_BYTES], 1, &bytes));
    TRY(csv_real(csv, at[SIMAI_RATIO], REAL_POSITIVE, &share));
    int numbers = sscanf(csv->field[at[SIMAI_COLUMN]], "%4d%*[ ]Node%n", &nodes, &devices);
    if (numbers < 1 || devices == 0)
        numbers = sscanf(csv->field[at[SIMAI_COLUMN]], "%4dNode-%5dGPU", &nodes, &devices);
    else
        devices = 8 * nodes;
    bool known = numbers >= 1 && devices > 0;
    struct profile_value values[] = {V_TEXT(csv->field[at[SIMAI_FILE]]),
                                     V_TEXT(csv->field[at[SIMAI_COLUMN]]),
                                     known ? V_INT(devices) : V_NULL,
                                     known ? V_INT(nodes) : V_NULL,
                                     V_INT(bytes),
                                     V_REAL(share),
                                     V_INT(import->source)};
    TRY(import_row(import, TABLE_COLLECTIVE_SHARE, values, COUNT_OF(values)));
done:
    return status;
}

weft_status import_simai(struct import *import, struct csv *csv)
{
    return csv_read(csv, SIMAI_COLUMNS, COUNT_OF(SIMAI_COLUMNS), simai_row, import);
}

/* ---- Proteus --------------------------------------------------------------------------------- */

enum { LINK_BYTES, LINK_FIRST, LINK_COLUMNS = 4 };
static const char *const LINK_COLUMN_NAMES[] = {"bytes", "link_7_us", "link_25_us", "link_50_us"};

static weft_status link_row(void *context, const struct csv *csv, const int *at)
{
    struct import *import = context;
    weft_status status;
    int64_t bytes;
    TRY(csv_int(csv, at[LINK_BYTES], 1, &bytes));
    for (int i = LINK_FIRST; i < LINK_COLUMNS; i++) {
        char machine[16];
        double us;
        TRY(csv_real(csv, at[i], REAL_POSITIVE, &us));
        snprintf(machine, sizeof machine, "%.*s", (int)strlen(LINK_COLUMN_NAMES[i]) - 3,
                 LINK_COLUMN_NAMES[i]);
        TRY(store_time(import, &(struct collective_time){.device = "",
                                                         .machine = machine,
                                                         .collective = COLLECTIVE_SEND,
                                                         .devices = 2,
                                                         .nodes = 1,
                                                         .bytes = bytes,
                                                         .samples = 1,
                                                         .ns = us * 1e3}));
    }
done:
    return status;
}

weft_status import_link_latency(struct import *import, struct csv *csv)
{
    return csv_read(csv, LINK_COLUMN_NAMES, LINK_COLUMNS, link_row, import);
}

/* ---- AIConfigurator -------------------------------------------------------------------------- */

enum { AIC_SYSTEM, AIC_NAME, AIC_DTYPE, AIC_DEVICES, AIC_ELEMENTS, AIC_MS, AIC_SAMPLES, AIC_HALF };
static const char *const AIC_COLUMNS[] = {"system",       "op_name",  "nccl_dtype",    "num_gpus",
                                          "message_size", "latency",  "?samples",      "?half",
                                          "?framework",   "?version", "?kernel_source"};

/* Sizes are elements of nccl-tests' buffer, in halves; an all-to-all has no underscores. */
static weft_status aiconfigurator_row(void *context, const struct csv *csv, const int *at)
{
    struct import *import = context;
    struct collective_time time = {.machine = "aiconfigurator", .nodes = 1, .samples = 1};
    double ms;
    weft_status status;
    time.device = aiconfigurator_device(csv->field[at[AIC_SYSTEM]]);
    if (!time.device)
        TRY(csv_error(csv, at[AIC_SYSTEM], NULL,
                      "a100_sxm, h100_sxm, ... as AIConfigurator names systems"));
    if (strcmp(csv->field[at[AIC_DTYPE]], "half") != 0)
        TRY(csv_error(csv, at[AIC_DTYPE], NULL, "half"));
    time.collective = COLLECTIVE_ALL_TO_ALL;
    if (strcmp(csv->field[at[AIC_NAME]], "alltoall") != 0)
        TRY(collective_of(csv, at[AIC_NAME], &time.collective));
    TRY(csv_int(csv, at[AIC_DEVICES], 1, &time.devices));
    TRY(csv_int(csv, at[AIC_ELEMENTS], 1, &time.bytes));
    TRY(csv_real(csv, at[AIC_MS], REAL_POSITIVE, &ms));
    if (at[AIC_SAMPLES] >= 0)
        TRY(csv_int(csv, at[AIC_SAMPLES], 1, &time.samples));
    time.bytes *= 2;
    time.ns = ms * 1e6;
    if (at[AIC_HALF] >= 0 && strcmp(csv->field[at[AIC_HALF]], "held-out") == 0)
        import_skip(import, "held out: it judges the others");
    else
        TRY(store_time(import, &time));
done:
    return status;
}

weft_status import_aiconfigurator_nccl(struct import *import, struct csv *csv)
{
    return csv_read(csv, AIC_COLUMNS, COUNT_OF(AIC_COLUMNS), aiconfigurator_row, import);
}

/* ---- Weft's own table ------------------------------------------------------------------------ */

enum {
    OWN_DEVICE,
    OWN_MACHINE,
    OWN_COLLECTIVE,
    OWN_DEVICES,
    OWN_NODES,
    OWN_BYTES,
    OWN_NS,
    OWN_SAMPLES,
    OWN_SOURCE
};
static const char *const OWN_COLUMNS[] = {"?device", "?machine", "collective", "devices", "nodes",
                                          "bytes",   "ns",       "?samples",   "?source"};

static weft_status own_row(void *context, const struct csv *csv, const int *at)
{
    struct import *import = context;
    struct collective_time time = {.machine = "", .samples = 1, .device = import->options->device};
    weft_status status;
    if (at[OWN_DEVICE] >= 0)
        time.device = csv->field[at[OWN_DEVICE]];
    if (!time.device || !*time.device)
        TRY(bad_input(csv->file, csv->line, "add a column 'device', or give --device NAME",
                      "does not say which device was measured"));
    if (at[OWN_MACHINE] >= 0)
        time.machine = csv->field[at[OWN_MACHINE]];
    TRY(collective_of(csv, at[OWN_COLLECTIVE], &time.collective));
    TRY(csv_int(csv, at[OWN_DEVICES], 1, &time.devices));
    TRY(csv_int(csv, at[OWN_NODES], 1, &time.nodes));
    TRY(csv_int(csv, at[OWN_BYTES], 1, &time.bytes));
    TRY(csv_real(csv, at[OWN_NS], REAL_POSITIVE, &time.ns));
    if (at[OWN_SAMPLES] >= 0)
        TRY(csv_int(csv, at[OWN_SAMPLES], 1, &time.samples));
    TRY(import_own_source(import, csv, at[OWN_SOURCE] >= 0 ? csv->field[at[OWN_SOURCE]] : ""));
    TRY(store_time(import, &time));
done:
    return status;
}

weft_status import_weft_collectives(struct import *import, struct csv *csv)
{
    return csv_read(csv, OWN_COLUMNS, COUNT_OF(OWN_COLUMNS), own_row, import);
}
