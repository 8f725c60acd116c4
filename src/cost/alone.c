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
    {"B200-SXM-180GB", "product bf16", {0.701, 0.923, 28.1, 60, 0.134, 0.789, 0.87, 2420}},
    {"B200-SXM-180GB", "product fp8", {0.644, 0.98, 1220, 3.28, 0.0978, 1, 0.329, 6120}},
    {"B200-SXM-180GB", "product fp8 blocks", {0.714, 0.98, 573, 3.24, 0.0707, 0.495, 0.407, 2940}},
    {"B200-SXM-180GB", "product nvfp4", {0.496, 0.582, 832, 2.35, 0.126, 1, 0.553, 3130}},
    {"B300-SXM-288GB", "product bf16", {0.731, 0.98, 111, 60, 0.0716, 0.996, 0.87, 2030}},
    {"B300-SXM-288GB", "product fp8", {0.737, 0.98, 1060, 3.58, 0.0686, 0.508, 0.283, 5770}},
    {"B300-SXM-288GB", "product fp8 blocks", {0.739, 0.98, 628, 24.4, 0.0791, 0.493, 0.988, 2710}},
    {"B300-SXM-288GB", "product nvfp4", {0.379, 0.563, 1840, 60, 0.137, 0.447, 0.695, 3400}},
    {"GB200", "product bf16", {0.613, 0.874, 111, 60, 0.065, 1, 0.87, 2120}},
    {"GB200", "product fp8", {0.591, 0.65, 312, 3.03, 0.142, 1, 0.364, 6890}},
    {"GB200", "product fp8 blocks", {0.588, 0.845, 669, 2.8, 0.18, 0.598, 0.423, 3420}},
    {"GB200", "product nvfp4", {0.467, 0.508, 514, 2.69, 0.116, 0.639, 0.514, 3170}},
    {"GB300", "product bf16", {0.786, 0.98, 26.8, 24.2, 0.162, 0.937, 0.87, 2860}},
    {"GB300", "product fp8", {0.767, 0.916, 513, 3.42, 0.0882, 0.407, 0.278, 5650}},
    {"GB300", "product fp8 blocks", {0.731, 0.9, 520, 2.87, 0.0848, 0.512, 0.928, 2940}},
    {"GB300", "product nvfp4", {0.378, 0.531, 1930, 4.01, 0.183, 0.835, 0.668, 4080}},
    {"H100-SXM5-80GB", "product bf16", {0.792, 0.951, 240, 60, 0.0651, 1, 0.762, 2210}},
    {"H100-SXM5-80GB", "product fp8", {0.765, 0.826, 410, 3.71, 0.084, 0.485, 0.413, 4350}},
    {"H100-SXM5-80GB", "product fp8 blocks", {0.64, 0.738, 568, 21.5, 0.102, 0.432, 0.644, 1900}},
    {"H200-SXM-141GB", "product bf16", {0.774, 0.856, 151, 11.8, 0.069, 1, 0.762, 1970}},
    {"H200-SXM-141GB", "product fp8", {0.804, 0.91, 504, 3.84, 0.0682, 0.366, 0.304, 5030}},
    {"H200-SXM-141GB", "product fp8 blocks", {0.642, 0.754, 698, 9.79, 0.121, 0.985, 0.412, 1970}},
    {"L40S", "product bf16", {0.645, 0.779, 247, 2.2, 0.0931, 1, 1, 1940}},
    {"L40S", "product fp8", {0.577, 0.75, 1230, 3.89, 0.102, 0.651, 0.909, 3120}},
    {"L40S", "product fp8 blocks", {0.379, 0.461, 255, 53.1, 0.147, 1, 1, 2710}},
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
    {"B200-SXM-180GB", "experts bf16", {0.886, 0.98, 585, 3.08, 0.203, 0.487, 1, 6780}},
    {"B200-SXM-180GB", "experts fp8 blocks", {0.787, 0.825, 157, 60, 0.113, 0.491, 1, 5430}},
    {"B200-SXM-180GB", "experts nvfp4", {0.688, 0.826, 397, 60, 0.326, 0.312, 0.302, 10000}},
    {"B300-SXM-288GB", "experts bf16", {0.961, 0.98, 45.8, 11.9, 0.22, 0.436, 1, 6060}},
    {"B300-SXM-288GB", "experts fp8 blocks", {0.82, 0.842, 165, 60, 0.126, 0.48, 1, 5110}},
    {"B300-SXM-288GB", "experts nvfp4", {0.672, 0.696, 198, 60, 0.319, 0.345, 0.409, 9620}},
    {"GB200", "experts bf16", {0.972, 0.98, 28.8, 21.9, 0.204, 0.401, 1, 6130}},
    {"GB200", "experts fp8 blocks", {0.76, 0.782, 167, 60, 0.12, 0.481, 1, 5190}},
    {"GB200", "experts nvfp4", {0.806, 0.98, 190, 60, 0.482, 0.325, 0.4, 9640}},
    {"GB300", "experts bf16", {0.975, 0.98, 27.6, 25.1, 0.224, 0.416, 1, 6050}},
    {"GB300", "experts fp8 blocks", {0.791, 0.796, 29.6, 42.4, 0.142, 0.481, 1, 5230}},
    {"GB300", "experts nvfp4", {0.774, 0.785, 55.7, 19.4, 0.372, 0.343, 0.389, 9490}},
    {"H100-SXM5-80GB", "experts bf16", {0.902, 0.98, 433, 52.2, 0.281, 0.878, 0.572, 6550}},
    {"H100-SXM5-80GB", "experts fp8 blocks", {0.619, 0.902, 2000, 38.7, 0.191, 0.479, 0.338, 2870}},
    {"H200-SXM-141GB", "experts bf16", {0.904, 0.98, 327, 54.4, 0.298, 0.712, 0.687, 6360}},
    {"H200-SXM-141GB", "experts fp8 blocks", {0.702, 0.98, 2000, 59.9, 0.191, 0.33, 0.278, 2860}},
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
