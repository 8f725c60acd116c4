/* alone.c - products, attention and experts as AIConfigurator measured them by themselves: parameters by device and
 * precision.
 *
 * A set of calibration.c is one compromise for all precisions of an architecture, at the clocks of hours of training. Here
 * stand the few parameters in which a layer of one precision differs from it on one device that has nothing else to do:
 * tiles and waves of other libraries, what the power limit leaves to a burst, how fast casts and permutations stream.
 *
 * Why these are not the only set: bursts and training differ by more than the clock. Tiles and waves from here at training's
 * clocks took dense models of megatron_bridge from 4.1 to 6.2 % (nvfp4 most), and inference has other libraries of attention and
 * experts than training has. A plan is timed by calibration.c alone; these rows are for single operators (`weft validate operators`).
 *
 *   I1  Every row is what tools/fit_operators prints, from the rows of data/profiles/aiconfigurator whose `half` is "fit".
 *   I2  A layer that has no row keeps the parameters of its device.
 */
#include "cost/calibration.h"

#include <string.h>

#define TENSOR_UNIT "unit_fraction[RATE_TENSOR][FORWARD]"
#define STREAMS     "share[KERNEL_ELEMENTWISE][FORWARD]", "ramp_ns"
static const struct alone_kind KINDS[] = {
    {"product",
     {"power_fraction", TENSOR_UNIT, "prologue_k", "tile_edge", "unhidden", "share[KERNEL_MATMUL]",
      STREAMS}},
    {"attention",
     {"attention_power[FORWARD]", "attention_fraction[FORWARD]", "attention_softmax[FORWARD]",
      "attention_tail", "attention_ramp_ns[FORWARD]", "attention_ends[FORWARD]", STREAMS}},
    {"experts",
     {"power_fraction", TENSOR_UNIT, "prologue_k", "tile_edge", "group_unhidden",
      "share[KERNEL_COPY][FORWARD]", STREAMS}},
};

static const struct row {
    const char *device, *layer;
    double value[ALONE_PARAMETERS]; /* in the order of its kind */
} ROWS[] = {
    {"A100-SXM4-80GB", "product bf16", {0.814, 0.974, 206, 25.8, 0.137, 1, 1, 1870}},
    {"B200-SXM-180GB", "product bf16", {0.701, 0.923, 28.1, 60, 0.134, 0.789, 1, 2420}},
    {"B200-SXM-180GB", "product fp8", {0.62, 0.767, 30, 20.8, 0.0754, 0.352, 0.369, 5860}},
    {"B200-SXM-180GB", "product fp8 blocks", {0.718, 0.962, 500, 3.42, 0.0849, 0.5, 0.407, 2940}},
    {"B200-SXM-180GB", "product nvfp4", {0.506, 0.547, 500, 2.15, 0.176, 0.614, 0.578, 3180}},
    {"B300-SXM-288GB", "product bf16", {0.735, 0.976, 48.4, 60, 0.073, 0.928, 1, 2240}},
    {"B300-SXM-288GB", "product fp8", {0.735, 0.839, 494, 3.29, 0.0601, 0.36, 0.283, 5270}},
    {"B300-SXM-288GB", "product fp8 blocks", {0.74, 0.916, 500, 3.84, 0.0841, 0.494, 1, 2860}},
    {"B300-SXM-288GB", "product nvfp4", {0.391, 0.435, 500, 3.26, 0.204, 0.414, 0.73, 3580}},
    {"GB200", "product bf16", {0.613, 0.874, 111, 60, 0.065, 1, 1, 2120}},
    {"GB200", "product fp8", {0.591, 0.655, 313, 3.09, 0.145, 0.957, 0.363, 6880}},
    {"GB200", "product fp8 blocks", {0.591, 0.764, 500, 2.33, 0.239, 0.703, 0.424, 3410}},
    {"GB200", "product nvfp4", {0.466, 0.504, 469, 2.51, 0.147, 0.654, 0.522, 3180}},
    {"GB300", "product bf16", {0.786, 0.98, 26.8, 24.2, 0.162, 0.937, 1, 2860}},
    {"GB300", "product fp8", {0.762, 0.872, 375, 3.28, 0.0804, 0.404, 0.28, 5690}},
    {"GB300", "product fp8 blocks", {0.731, 0.891, 500, 2.96, 0.0854, 0.513, 0.928, 2940}},
    {"GB300", "product nvfp4", {0.39, 0.433, 500, 3.03, 0.263, 0.437, 0.733, 3920}},
    {"H100-SXM5-80GB", "product bf16", {0.792, 0.951, 240, 60, 0.0651, 1, 0.762, 2210}},
    {"H100-SXM5-80GB", "product fp8", {0.763, 0.808, 313, 3.74, 0.0825, 0.48, 0.413, 4330}},
    {"H100-SXM5-80GB", "product fp8 blocks", {0.64, 0.718, 500, 5.17, 0.105, 0.432, 0.648, 2060}},
    {"H200-SXM-141GB", "product bf16", {0.774, 0.856, 151, 11.8, 0.069, 1, 0.762, 1970}},
    {"H200-SXM-141GB", "product fp8", {0.805, 0.899, 462, 4.04, 0.0684, 0.336, 0.303, 4800}},
    {"H200-SXM-141GB", "product fp8 blocks", {0.655, 0.748, 500, 13.4, 0.187, 0.325, 0.445, 1520}},
    {"L40S", "product bf16", {0.649, 0.767, 228, 2.24, 0.101, 1, 1, 1950}},
    {"L40S", "product fp8", {0.578, 0.638, 500, 2.7, 0.127, 0.42, 1, 1810}},
    {"L40S", "product fp8 blocks", {0.386, 0.45, 273, 60, 0.154, 1, 0.946, 7180}},
    {"RTX-PRO-6000", "product bf16", {0.814, 0.954, 157, 21.7, 0.106, 1, 1, 2110}},
    {"RTX-PRO-6000", "product fp8", {0.832, 0.98, 216, 19.4, 0.122, 0.806, 1, 3870}},
    {"RTX-PRO-6000", "product nvfp4", {0.707, 0.737, 193, 3.6, 0.0827, 1, 1, 1460}},
    {"A100-SXM4-80GB", "attention bf16", {0.655, 0.509, 5.84, 0.365, 21500, 120, 0.559, 2240}},
    {"B200-SXM-180GB", "attention bf16", {0.8, 0.98, 87.2, 0.328, 14800, 374, 0.283, 1700}},
    {"B200-SXM-180GB", "attention fp8", {0.641, 0.98, 74.5, 0.231, 24500, 447, 0.276, 1900}},
    {"B300-SXM-288GB", "attention bf16", {0.833, 0.98, 55.3, 0.345, 15900, 555, 0.3, 1740}},
    {"B300-SXM-288GB", "attention fp8", {0.792, 0.932, 58.5, 0.343, 18900, 691, 0.247, 1850}},
    {"GB200", "attention bf16", {0.731, 0.98, 74.3, 0.231, 20300, 463, 0.319, 1880}},
    {"GB200", "attention fp8", {0.751, 0.98, 94.5, 0.231, 26200, 447, 0.279, 1880}},
    {"GB300", "attention bf16", {0.938, 0.98, 69.2, 0.192, 15900, 637, 0.285, 1720}},
    {"GB300", "attention fp8", {0.961, 0.98, 81, 0.17, 18400, 680, 0.238, 1810}},
    {"H100-SXM5-80GB", "attention bf16", {0.747, 0.852, 45.4, 0.737, 13700, 490, 0.415, 2640}},
    {"H100-SXM5-80GB", "attention fp8", {0.878, 0.71, 55.5, 0.351, 18200, 1310, 0.356, 2640}},
    {"H200-SXM-141GB", "attention bf16", {0.738, 0.827, 43.5, 0.628, 15200, 537, 0.322, 2580}},
    {"H200-SXM-141GB", "attention fp8", {0.878, 0.717, 54, 0.326, 18400, 1330, 0.244, 2460}},
    {"B200-SXM-180GB", "experts bf16", {0.896, 0.98, 500, 3.08, 0.193, 0.459, 1, 6660}},
    {"B200-SXM-180GB", "experts fp8 blocks", {0.788, 0.822, 157, 60, 0.117, 0.493, 1, 5430}},
    {"B200-SXM-180GB", "experts nvfp4", {0.526, 0.625, 366, 60, 0.261, 0.373, 0.704, 7930}},
    {"B300-SXM-288GB", "experts bf16", {0.961, 0.98, 45.8, 11.9, 0.22, 0.436, 1, 6060}},
    {"B300-SXM-288GB", "experts fp8 blocks", {0.815, 0.837, 153, 60, 0.12, 0.478, 1, 5110}},
    {"B300-SXM-288GB", "experts nvfp4", {0.78, 0.793, 30, 21.6, 0.291, 0.437, 0.539, 7430}},
    {"GB200", "experts bf16", {0.972, 0.98, 28.8, 21.9, 0.204, 0.401, 1, 6130}},
    {"GB200", "experts fp8 blocks", {0.76, 0.782, 165, 60, 0.121, 0.481, 1, 5190}},
    {"GB200", "experts nvfp4", {0.895, 0.98, 30, 21.1, 0.384, 0.387, 0.56, 7370}},
    {"GB300", "experts bf16", {0.975, 0.98, 27.6, 25.1, 0.224, 0.416, 1, 6050}},
    {"GB300", "experts fp8 blocks", {0.797, 0.822, 183, 60, 0.143, 0.485, 1, 5250}},
    {"GB300", "experts nvfp4", {0.809, 0.819, 30, 21.1, 0.305, 0.442, 0.534, 7310}},
    {"H100-SXM5-80GB", "experts bf16", {0.893, 0.98, 493, 46.7, 0.272, 0.895, 0.626, 6530}},
    {"H100-SXM5-80GB", "experts fp8 blocks", {0.73, 0.826, 500, 37.9, 0.143, 0.442, 0.245, 3020}},
    {"H200-SXM-141GB", "experts bf16", {0.904, 0.98, 327, 54.4, 0.298, 0.712, 0.687, 6360}},
    {"H200-SXM-141GB", "experts fp8 blocks", {0.866, 0.98, 500, 40.3, 0.168, 0.313, 0.185, 2850}},
};

size_t alone_kinds(const struct alone_kind **out)
{
    *out = KINDS;
    return COUNT_OF(KINDS);
}

static const struct alone_kind *kind_of(const char *layer)
{
    for (size_t i = 0; i < COUNT_OF(KINDS); i++)
        if (strncmp(KINDS[i].name, layer, strlen(KINDS[i].name)) == 0)
            return &KINDS[i];
    return NULL;
}

static void set_named(struct calibration *c, const char *name, double value)
{
    const struct fit_parameter *parameters;
    size_t count = fit_parameters(&parameters);
    for (size_t i = 0; i < count; i++) {
        double *at = (double *)(void *)((char *)c + parameters[i].offset);
        for (int j = 0; strcmp(parameters[i].name, name) == 0 && j < parameters[i].values; j++)
            at[j] = value;
    }
}

bool calibration_alone(const struct device *device, const char *layer, struct calibration *out)
{
    const struct alone_kind *kind = kind_of(layer);
    *out = *calibration_for(device);
    for (size_t i = 0; kind && i < COUNT_OF(ROWS); i++) {
        if (strcmp(ROWS[i].device, device->name) != 0 || strcmp(ROWS[i].layer, layer) != 0)
            continue;
        out->fp8_loss = out->nvfp4_loss = 0; /* power_fraction is that of the precision */
        for (int j = 0; j < DIRECTION_COUNT; j++)
            out->attention_fp8[j] = out->attention_pads[j] = 1; /* attention's likewise */
        for (int j = 0; j < ALONE_PARAMETERS; j++)
            set_named(out, kind->parameter[j], ROWS[i].value[j]);
        return true;
    }
    return false;
}

weft_status lone_layers(const char *folder, struct arena *keep, struct lone_layers *out)
{
    struct observations rows = {0};
    struct calibration own;
    const struct observation *last = NULL;
    weft_status status = WEFT_OK;
    for (int i = OBSERVED_PRODUCTS; i <= OBSERVED_EXPERTS; i++)
        TRY(observe(folder, (enum observed)i, keep, &rows));
    for (size_t i = 0; i < rows.len; i++) {
        const struct observation *o = &rows.data[i];
        if (!last || last->device != o->device || strcmp(last->label, o->label) != 0)
            calibration_alone(o->device, o->label, &own);
        struct lone_layer layer = {o->device->name, o->label, o->held_out, o->time.ns,
                                   observation_ns(&own, o)};
        array_push(keep, out, layer);
        last = o;
    }
done:
    return status;
}
