/* devices.c - the devices Weft knows by name.
 *
 *   I1  Rates are dense peaks at boost clock: a datasheet's "with sparsity" is halved here.
 *   I2  Memory is what the driver reports as total, which is a little less than what is on the box.
 *   I3  A matrix rate of 0 means that the device has no such type; where old devices store fp16 but
 *       compute in fp32, the fp32 rate stands.
 */
#include "cluster/cluster.h"

#include <strings.h>

#define TERA     1e12 /* FLOP/s in one TFLOP/s */
#define GB_PER_S 1e9  /* bytes per second */
#define MIB(n)   (INT64_C(1048576) * (n))

/* Driver, framework and its libraries, before the first tensor. Galvatron's authors found about
 * 1 GiB per device. */
#define CONTEXT_BYTES MIB(1024)

/* One kernel from enqueue to start under an eager framework. Published launch latencies lie between
 * 4 and 10 us; Aceso's and Sailor's smallest operators, a few kernels each, never take less than
 * 32 us on any device, whatever its speed. */
#define LAUNCH_NS 7000

/* Copies between device and pinned host memory reach this much per direction (NVIDIA bandwidthTest
 * on x16 slots); the rest of the wire carries headers. */
#define HOST_PCIE3 (12.5 * GB_PER_S)
#define HOST_PCIE4 (25.0 * GB_PER_S)
#define HOST_PCIE5 (55.0 * GB_PER_S)

/* A generic CPU socket: 32 cores, two 256-bit FMA units each (32 FLOP per cycle) at 2.5 GHz, eight
 * channels of DDR4-3200. */
#define CPU_CORES     32
#define CPU_FLOPS     (CPU_CORES * 32 * 2.5e9)
#define CPU_LAUNCH_NS 1000 /* a function call and waking the threads; estimate */

/* What several devices share. */
#define V100_FLOPS {[DTYPE_FP32] = 15.7 * TERA, [DTYPE_FP16] = 125 * TERA}
#define A100_FLOPS                                                                                 \
    {[DTYPE_FP32] = 19.5 * TERA,                                                                   \
     [DTYPE_TF32] = 156 * TERA,                                                                    \
     [DTYPE_FP16] = 312 * TERA,                                                                    \
     [DTYPE_BF16] = 312 * TERA}
#define HOPPER_FLOPS                                                                               \
    {[DTYPE_FP32] = 66.9 * TERA,                                                                   \
     [DTYPE_TF32] = 494.7 * TERA,                                                                  \
     [DTYPE_FP16] = 989.4 * TERA,                                                                  \
     [DTYPE_BF16] = 989.4 * TERA,                                                                  \
     [DTYPE_FP8] = 1978.9 * TERA}
#define EAGER .context_bytes = CONTEXT_BYTES, .launch_ns = LAUNCH_NS

static const struct device DEVICES[] = {
    {.name = "GTX-TITAN-X",
     .arch = "maxwell",
     EAGER,
     .memory_bytes = MIB(12212),
     .flops = {[DTYPE_FP32] = 6.6 * TERA, [DTYPE_FP16] = 6.6 * TERA},
     .vector_flops = 6.6 * TERA,
     .memory_bytes_per_s = 336.5 * GB_PER_S,
     .host_bytes_per_s = HOST_PCIE3,
     .l2_bytes = MIB(3),
     .units = 24,
     .source = "NVIDIA GeForce GTX TITAN X specification (Maxwell, 2015)"},
    {.name = "GTX-1080",
     .arch = "pascal",
     EAGER,
     .memory_bytes = MIB(8119),
     .flops = {[DTYPE_FP32] = 8.87 * TERA, [DTYPE_FP16] = 8.87 * TERA},
     .vector_flops = 8.87 * TERA,
     .memory_bytes_per_s = 320 * GB_PER_S,
     .host_bytes_per_s = HOST_PCIE3,
     .l2_bytes = MIB(2),
     .units = 20,
     .source = "NVIDIA GeForce GTX 1080 whitepaper"},
    {.name = "TITAN-Xp",
     .arch = "pascal",
     EAGER,
     .memory_bytes = MIB(12196),
     .flops = {[DTYPE_FP32] = 12.15 * TERA, [DTYPE_FP16] = 12.15 * TERA},
     .vector_flops = 12.15 * TERA,
     .memory_bytes_per_s = 547.7 * GB_PER_S,
     .host_bytes_per_s = HOST_PCIE3,
     .l2_bytes = MIB(3),
     .units = 30,
     .source = "NVIDIA TITAN Xp specification"},
    {.name = "P100-PCIe-16GB",
     .arch = "pascal",
     EAGER,
     .memory_bytes = MIB(16280),
     .flops = {[DTYPE_FP32] = 9.3 * TERA, [DTYPE_FP16] = 18.7 * TERA},
     .vector_flops = 9.3 * TERA,
     .memory_bytes_per_s = 732 * GB_PER_S,
     .host_bytes_per_s = HOST_PCIE3,
     .l2_bytes = MIB(4),
     .units = 56,
     .source = "NVIDIA Tesla P100 PCIe datasheet"},
    {.name = "V100-SXM2-16GB",
     .arch = "volta",
     EAGER,
     .memory_bytes = MIB(16160),
     .flops = V100_FLOPS,
     .vector_flops = 15.7 * TERA,
     .memory_bytes_per_s = 900 * GB_PER_S,
     .host_bytes_per_s = HOST_PCIE3,
     .l2_bytes = MIB(6),
     .units = 80,
     .source = "NVIDIA V100 datasheet"},
    {.name = "V100-SXM2-32GB",
     .arch = "volta",
     EAGER,
     .memory_bytes = MIB(32510),
     .flops = V100_FLOPS,
     .vector_flops = 15.7 * TERA,
     .memory_bytes_per_s = 900 * GB_PER_S,
     .host_bytes_per_s = HOST_PCIE3,
     .l2_bytes = MIB(6),
     .units = 80,
     .source = "NVIDIA V100 datasheet"},
    {.name = "RTX-2080",
     .arch = "turing",
     EAGER,
     .memory_bytes = MIB(7982),
     .flops = {[DTYPE_FP32] = 10.1 * TERA, [DTYPE_FP16] = 40.3 * TERA},
     .vector_flops = 10.1 * TERA,
     .memory_bytes_per_s = 448 * GB_PER_S,
     .host_bytes_per_s = HOST_PCIE3,
     .l2_bytes = MIB(4),
     .units = 46,
     .source = "NVIDIA Turing whitepaper, fp16 with fp32 accumulation"},
    {.name = "RTX-2080-Ti",
     .arch = "turing",
     EAGER,
     .memory_bytes = MIB(11019),
     .flops = {[DTYPE_FP32] = 13.4 * TERA, [DTYPE_FP16] = 53.8 * TERA},
     .vector_flops = 13.4 * TERA,
     .memory_bytes_per_s = 616 * GB_PER_S,
     .host_bytes_per_s = HOST_PCIE3,
     .l2_bytes = MIB(5) + MIB(1) / 2,
     .units = 68,
     .source = "NVIDIA Turing whitepaper, fp16 with fp32 accumulation"},
    {.name = "RTX-TITAN",
     .arch = "turing",
     EAGER,
     .memory_bytes = MIB(24220),
     .flops = {[DTYPE_FP32] = 16.3 * TERA, [DTYPE_FP16] = 130.5 * TERA},
     .vector_flops = 16.3 * TERA,
     .memory_bytes_per_s = 672 * GB_PER_S,
     .host_bytes_per_s = HOST_PCIE3,
     .l2_bytes = MIB(6),
     .units = 72,
     .source = "NVIDIA TITAN RTX specification"},
    {.name = "RTX-3090",
     .arch = "ampere",
     EAGER,
     .memory_bytes = MIB(24268),
     .flops = {[DTYPE_FP32] = 35.6 * TERA,
               [DTYPE_TF32] = 35.6 * TERA,
               [DTYPE_FP16] = 71.2 * TERA,
               [DTYPE_BF16] = 71.2 * TERA},
     .vector_flops = 35.6 * TERA,
     .memory_bytes_per_s = 936 * GB_PER_S,
     .host_bytes_per_s = HOST_PCIE4,
     .l2_bytes = MIB(6),
     .units = 82,
     .source = "NVIDIA GA102 whitepaper, fp16 with fp32 accumulation"},
    {.name = "A100-SXM4-40GB",
     .arch = "ampere",
     EAGER,
     .memory_bytes = MIB(40536),
     .flops = A100_FLOPS,
     .vector_flops = 19.5 * TERA,
     .memory_bytes_per_s = 1555 * GB_PER_S,
     .host_bytes_per_s = HOST_PCIE4,
     .l2_bytes = MIB(40),
     .units = 108,
     .source = "NVIDIA A100 datasheet"},
    {.name = "A100-SXM4-80GB",
     .arch = "ampere",
     EAGER,
     .memory_bytes = MIB(81251),
     .flops = A100_FLOPS,
     .vector_flops = 19.5 * TERA,
     .memory_bytes_per_s = 2039 * GB_PER_S,
     .host_bytes_per_s = HOST_PCIE4,
     .l2_bytes = MIB(40),
     .units = 108,
     .source = "NVIDIA A100 datasheet"},
    {.name = "A100-PCIe-80GB",
     .arch = "ampere",
     EAGER,
     .memory_bytes = MIB(81251),
     .flops = A100_FLOPS,
     .vector_flops = 19.5 * TERA,
     .memory_bytes_per_s = 1935 * GB_PER_S,
     .host_bytes_per_s = HOST_PCIE4,
     .l2_bytes = MIB(40),
     .units = 108,
     .source = "NVIDIA A100 datasheet"},
    {.name = "H100-SXM5-80GB",
     .arch = "hopper",
     EAGER,
     .memory_bytes = MIB(81079),
     .flops = HOPPER_FLOPS,
     .vector_flops = 66.9 * TERA,
     .memory_bytes_per_s = 3352 * GB_PER_S,
     .host_bytes_per_s = HOST_PCIE5,
     .l2_bytes = MIB(50),
     .units = 132,
     .source = "NVIDIA H100 whitepaper"},
    {.name = "H100-96GB-HBM2e",
     .arch = "hopper",
     EAGER,
     .memory_bytes = MIB(97871),
     .flops = HOPPER_FLOPS,
     .vector_flops = 66.9 * TERA,
     .memory_bytes_per_s = 2400 * GB_PER_S,
     .host_bytes_per_s = HOST_PCIE5,
     .l2_bytes = MIB(50),
     .units = 132,
     .source = "torchtitan's benchmarks: H100 of 96 GB HBM2e (2.4 TB/s), limited to 500 W"},
    {.name = "H200-SXM-141GB",
     .arch = "hopper",
     EAGER,
     .memory_bytes = MIB(143156),
     .flops = HOPPER_FLOPS,
     .vector_flops = 66.9 * TERA,
     .memory_bytes_per_s = 4800 * GB_PER_S,
     .host_bytes_per_s = HOST_PCIE5,
     .l2_bytes = MIB(50),
     .units = 132,
     .source = "NVIDIA H200 datasheet"},
    {.name = "GH200-96GB",
     .arch = "hopper",
     EAGER,
     .memory_bytes = MIB(97280),
     .flops = HOPPER_FLOPS,
     .vector_flops = 66.9 * TERA,
     .memory_bytes_per_s = 4000 * GB_PER_S,
     .host_bytes_per_s = 450 * GB_PER_S, /* NVLink-C2C, per direction */
     .l2_bytes = MIB(50),
     .units = 132,
     .source = "NVIDIA GH200 datasheet"},
    {.name = "B200-SXM-180GB",
     .arch = "blackwell",
     EAGER,
     .memory_bytes = MIB(182642),
     .flops = {[DTYPE_FP32] = 75 * TERA,
               [DTYPE_TF32] = 1125 * TERA,
               [DTYPE_FP16] = 2250 * TERA,
               [DTYPE_BF16] = 2250 * TERA,
               [DTYPE_FP8] = 4500 * TERA,
               [DTYPE_NVFP4] = 9000 * TERA}, /* 72 of eight, without sparsity */
     .vector_flops = 75 * TERA,
     .memory_bytes_per_s = 7700 * GB_PER_S,
     .host_bytes_per_s = HOST_PCIE5,
     .l2_bytes = MIB(126),
     .units = 148,
     .source = "NVIDIA HGX B200 datasheet, one of eight"},
    {.name = "GB200",
     .arch = "blackwell",
     EAGER,
     .memory_bytes = MIB(188416),
     .flops = {[DTYPE_FP32] = 80 * TERA,
               [DTYPE_TF32] = 1250 * TERA,
               [DTYPE_FP16] = 2500 * TERA,
               [DTYPE_BF16] = 2500 * TERA,
               [DTYPE_FP8] = 5000 * TERA,
               [DTYPE_NVFP4] = 10000 * TERA}, /* 720 PFLOP/s of 72, without sparsity */
     .vector_flops = 80 * TERA,
     .memory_bytes_per_s = 8000 * GB_PER_S,
     .host_bytes_per_s = 225 * GB_PER_S, /* NVLink-C2C: 450 per direction for two devices */
     .l2_bytes = MIB(126),
     .units = 152,
     .source = "NVIDIA GB200 NVL72 datasheet, one of 72"},
    {.name = "GB300",
     .arch = "blackwell",
     EAGER,
     .memory_bytes = MIB(264904), /* 20 TB / 72 */
     .flops = {[DTYPE_FP32] = 83 * TERA,
               [DTYPE_TF32] = 1250 * TERA,
               [DTYPE_FP16] = 2500 * TERA,
               [DTYPE_BF16] = 2500 * TERA,
               [DTYPE_FP8] = 5000 * TERA,
               [DTYPE_NVFP4] = 15000 * TERA}, /* 1,080 PFLOP/s of 72, without sparsity */
     .vector_flops = 83 * TERA,
     .memory_bytes_per_s = 8000 * GB_PER_S,
     .host_bytes_per_s = 225 * GB_PER_S, /* NVLink-C2C, as GB200 */
     .l2_bytes = MIB(126),
     .units = 152,
     .source = "NVIDIA GB300 NVL72 datasheet, one of 72; L2 and units as GB200"},
    {.name = "cpu",
     .arch = "cpu",
     .launch_ns = CPU_LAUNCH_NS,
     .memory_bytes = MIB(131072),
     .flops = {[DTYPE_FP32] = CPU_FLOPS},
     .vector_flops = CPU_FLOPS,
     .memory_bytes_per_s = 204.8 * GB_PER_S,
     .host_bytes_per_s = 204.8 * GB_PER_S,
     .l2_bytes = MIB(32),
     .units = CPU_CORES,
     .source = "a generic 32-core server socket, formula"},
};

size_t device_presets(const struct device **out)
{
    *out = DEVICES;
    return COUNT_OF(DEVICES);
}

const struct device *device_find(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(DEVICES); i++)
        if (strcasecmp(DEVICES[i].name, name) == 0)
            return &DEVICES[i];
    return NULL;
}
