/* load_device.c - the `device` of a cluster file: a name, or numbers that replace those of a known
 * device. */
#include "cluster/load.h"

#include <stddef.h>

#define TERA 1e12 /* FLOP/s in one TFLOP/s */

struct device_form {
    struct device device;
    const char *base;
    const struct doc *tflops;
    double vector_tflops;
    int64_t units;
};

#define IN_DEVICE(member) offsetof(struct device_form, device.member)

static const struct field DEVICE_FIELDS[] = {
    {"base", FIELD_TEXT, offsetof(struct device_form, base)},
    {"name", FIELD_TEXT, IN_DEVICE(name)},
    {"arch", FIELD_TEXT, IN_DEVICE(arch)},
    {"memory", FIELD_BYTES, IN_DEVICE(memory_bytes), .min = 1, .max = 0x1p50},
    {"context", FIELD_BYTES, IN_DEVICE(context_bytes)},
    {"connection", FIELD_BYTES, IN_DEVICE(connection_bytes), .max = 0x1p30},
    {"tflops", FIELD_DOC, offsetof(struct device_form, tflops)},
    {"vector_tflops", FIELD_REAL, offsetof(struct device_form, vector_tflops), .min = 1e-6,
     .max = 1e6},
    {"memory_bandwidth", FIELD_RATE, IN_DEVICE(memory_bytes_per_s)},
    {"host_bandwidth", FIELD_RATE, IN_DEVICE(host_bytes_per_s)},
    {"launch", FIELD_DURATION, IN_DEVICE(launch_ns)},
    {"l2", FIELD_BYTES, IN_DEVICE(l2_bytes)},
    {"units", FIELD_COUNT, offsetof(struct device_form, units), .min = 1, .max = 1e6},
    {"price_per_hour", FIELD_REAL, IN_DEVICE(price_per_hour), .min = 0, .max = 1e6},
    {"overlap_slowdown", FIELD_REAL, IN_DEVICE(overlap_slowdown), .min = 1, .max = 100},
    {"alone_speedup", FIELD_REAL, IN_DEVICE(alone_speedup), .min = 1, .max = 256},
    {"source", FIELD_LINES, IN_DEVICE(source)},
};

/* The keys that a device without a base must have. */
static const char *const NEEDED[] = {"name", "memory", "tflops", "memory_bandwidth"};

static weft_status known_device(const struct doc *doc, const char *name, struct device *out)
{
    const struct device *devices, *found = device_find(name);
    if (found) {
        *out = *found;
        return WEFT_OK;
    }
    size_t count = device_presets(&devices);
    weft_status status =
        doc_error(doc, "write it out as a mapping (docs/reference/cluster-file.md)",
                  "no device is called '%.100s'", name);
    hint_near(nearest_name(name, devices, sizeof *devices, count));
    return status;
}

bool device_is_whole(const struct doc *doc)
{
    return doc->kind != DOC_MAP || doc_get(doc, "base") || doc_get(doc, "name");
}

static weft_status read_tflops(const struct doc *doc, double *flops)
{
    double tflops[DTYPE_COUNT];
    struct field fields[DTYPE_COUNT];
    for (int i = 0; i < DTYPE_COUNT; i++) {
        tflops[i] = -1;
        fields[i] = (struct field){dtype_name(i), FIELD_REAL, (size_t)i * sizeof tflops[0],
                                   .min = 1e-6, .max = 1e6};
    }
    weft_status status = doc_read(doc, fields, COUNT_OF(fields), DOC_REFUSE_UNKNOWN, tflops);
    for (int i = 0; status == WEFT_OK && i < DTYPE_COUNT; i++)
        if (tflops[i] >= 0)
            flops[i] = tflops[i] * TERA;
    return status;
}

static weft_status check_needed(const struct doc *doc)
{
    for (size_t i = 0; i < COUNT_OF(NEEDED); i++)
        if (!doc_get(doc, NEEDED[i]))
            return doc_error(doc, "or start from a known device with 'base'",
                             "'%s' is missing from the device", NEEDED[i]);
    return WEFT_OK;
}

/* Derives the rates that a file leaves out from those it gives. */
static void fill_in(struct device_form *form)
{
    struct device *device = &form->device;
    if (form->vector_tflops > 0)
        device->vector_flops = form->vector_tflops * TERA;
    if (device->vector_flops == 0)
        device->vector_flops = device->flops[DTYPE_FP32];
    if (form->units > 0)
        device->units = (int32_t)form->units;
}

/* Checks that concern several numbers at once. */
static weft_status check_device(const struct doc *doc, const struct device *device)
{
    bool multiplies = false;
    for (int i = 0; i < DTYPE_COUNT; i++)
        multiplies |= device->flops[i] > 0;
    if (!multiplies)
        return doc_error(doc_get(doc, "tflops"), "such as {fp32: 19.5, bf16: 312}",
                         "'tflops' names no type that the device multiplies in");
    if (device->context_bytes < device->memory_bytes)
        return WEFT_OK;
    const char *key = doc_get(doc, "context") ? "context" : "memory";
    return doc_error(doc_get(doc, key), "'context' is what driver and libraries take of 'memory'",
                     "a context of %s leaves nothing of a memory of %s",
                     show_bytes((double)device->context_bytes).s,
                     show_bytes((double)device->memory_bytes).s);
}

weft_status device_read(const struct doc *doc, const struct device *start, struct device *out)
{
    if (doc->kind != DOC_MAP) {
        const char *name;
        weft_status status = doc_scalar(doc, FIELD_TEXT, &name);
        return status ? status : known_device(doc, name, out);
    }
    weft_status status = WEFT_OK;
    struct device_form form = {.device = {.arch = "unknown", .source = doc->file}};
    const struct doc *base = doc_get(doc, "base");
    if (start)
        form.device = *start;
    if (base)
        TRY(known_device(base, base->text, &form.device));
    if (!start && !base)
        TRY(check_needed(doc));
    TRY(doc_read(doc, DEVICE_FIELDS, COUNT_OF(DEVICE_FIELDS), DOC_REFUSE_UNKNOWN, &form));
    if (form.tflops)
        TRY(read_tflops(form.tflops, form.device.flops));
    fill_in(&form);
    TRY(check_device(doc, &form.device));
    *out = form.device;
done:
    return status;
}
