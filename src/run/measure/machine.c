/* machine.c - this machine as a cluster file: what a core reaches, what transfers take. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "run/kernels/cpu/cpu.h"
#include "run/measure/measure.h"

enum { RUNS = 10 };

static double clock_now(const struct measure_options *o)
{
    return o->kernel_seconds(o->context);
}

static double product_flops_per_s(const struct measure_options *o)
{
    enum { EDGE = 512 };
    const double flops = 2.0 * EDGE * EDGE * EDGE;
    float *a = calloc(3, sizeof(float[EDGE * EDGE]));
    double best_s = INFINITY;
    if (!a)
        return 0;
    float *b = a + EDGE * EDGE, *c = b + EDGE * EDGE;
    for (int i = 0; i < 2 * EDGE * EDGE; i++)
        a[i] = (float)(i % 7) * 0.1F;
    for (int run = 0; run < RUNS; run++) {
        double begin = clock_now(o);
        product(EDGE, EDGE, EDGE, 1, (struct matrix){a, EDGE, false},
                (struct matrix){b, EDGE, false}, 0, c, EDGE);
        best_s = fmin(best_s, clock_now(o) - begin);
    }
    free(a);
    return flops / best_s;
}

static double copy_bytes_per_s(const struct measure_options *o, int64_t bytes)
{
    char *from = calloc((size_t)bytes, 1), *to = calloc((size_t)bytes, 1);
    double best_s = INFINITY;
    for (int run = 0; from && to && run < RUNS; run++) {
        from[0] = (char)run;
        double begin = clock_now(o);
        memcpy(to, from, (size_t)bytes);
        double end = clock_now(o);
        from[1] = to[bytes - 1]; /* or nothing would be copied */
        best_s = fmin(best_s, end - begin);
    }
    free(from);
    free(to);
    return 2 * (double)bytes / best_s;
}

struct core_rates core_rates(const struct measure_options *options, int64_t cache_bytes)
{
    int64_t bytes = 2 * cache_bytes;
    return (struct core_rates){product_flops_per_s(options), copy_bytes_per_s(options, bytes)};
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Samples of one collective; how many. */
static size_t samples_of(const struct measured_transfers *transfers, enum collective collective,
                         struct sample *out)
{
    size_t count = 0;
    for (size_t i = 0; i < transfers->len; i++) {
        const struct measured_transfer *one = &transfers->data[i];
        if (one->collective == collective && (one->known || one->trusted))
            out[count++] =
                (struct sample){collective, one->ranks, 1, (double)one->bytes, one->ns / 1e9};
    }
    return count;
}

/* The line of fit_yaml that says it; the two before are the same for all. */
static const char *last_line(const char *yaml)
{
    const char *at = yaml;
    for (const char *next = strchr(at, '\n'); next && next[1]; next = strchr(at, '\n'))
        at = next + 1;
    return at;
}

/* What too few samples are left of is the link graph's to say, and the file says so. */
const char *collectives_text(struct arena *keep, const struct measured_transfers *transfers)
{
    struct sample *samples = ARENA_ARRAY(keep, struct sample, transfers->len + 1);
    const char *text = "", *missing = "";
    for (int collective = 0; collective < COLLECTIVE_MEASURED; collective++) {
        size_t count = samples_of(transfers, (enum collective)collective, samples);
        struct fit fit;
        if (count == 0)
            continue;
        if (fit_samples(samples, count, NULL, &fit) == WEFT_OK) {
            text = arena_printf(keep, "%s%s", text, last_line(fit_yaml(keep, &fit)));
            continue;
        }
        error_clear();
        missing = arena_printf(keep, "%s# %s: too few undisturbed measurements for a fit\n",
                               missing, collective_name((enum collective)collective));
    }
    if (*text)
        text = arena_printf(keep, "collectives:\n  inside:\n%s", text);
    return arena_printf(keep, "%s%s", text, missing);
}

/* As a double-quoted text of YAML. */
static const char *quoted(struct arena *keep, const char *text)
{
    char *out = ARENA_ARRAY(keep, char, 2 * strlen(text) + 3), *at = out;
    *at++ = '"';
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            *at++ = '\\';
        *at++ = *text;
    }
    *at = '"';
    return out;
}

const char *machine_text(struct arena *keep, const struct cluster *cluster,
                         const struct core_rates *rates, const char *source,
                         const struct measured_transfers *transfers)
{
    const struct device *device = &cluster->node.device;
    int32_t ranks = cluster->node.devices;
    double tflops = rates->flops_per_s / 1e12, gb_per_s = rates->bytes_per_s / 1e9;
    const char *alone =
        rates->alone > 1 ? arena_printf(keep, "  alone_speedup: %.4f\n", rates->alone) : "";
    const char *range = ranks > 1 ? arena_printf(keep, "dev0..dev%d", ranks - 1) : "dev0";
    return arena_printf(
        keep,
        "name: this-machine\nsource: %s\nnodes: 1\ndevice:\n  name: %s\n  arch: %s\n"
        "  memory: %lld\n  tflops: {fp32: %.4f}\n  vector_tflops: %.4f\n"
        "  memory_bandwidth: %.3fGB/s\n  host_bandwidth: %.3fGB/s\n  launch: 0ns\n  l2: %lld\n"
        "  units: 1\n  overlap_slowdown: 2 # the core that computes also moves what is sent\n"
        "%s  source: %s\n"
        "node:\n  devices: %d\n  vertices:\n    socket: [socket0]\n  links:\n"
        "    - {between: [%s, socket0], kind: socket, bandwidth: %.3fGB/s}\n%s",
        quoted(keep, source), quoted(keep, device->name), device->arch,
        (long long)device->memory_bytes, tflops, tflops, gb_per_s, gb_per_s,
        (long long)device->l2_bytes, alone, quoted(keep, source), ranks, range, gb_per_s,
        collectives_text(keep, transfers));
}
