/* devices.c - the devices that Weft knows by name.
 *
 *   I1  Rates are dense peaks at boost clock: a datasheet's "with sparsity" is halved here.
 *   I2  Memory is what the driver reports as total, a little less than the advertised size.
 *   I3  A matrix rate of 0 means that the device has no such type; old devices that store fp16 but
 *       compute in fp32 have the fp32 rate.
 */
#include "cluster/cluster.h"

#include <strings.h>

#define TERA     1e12 /* FLOP/s in one TFLOP/s */
#define GB_PER_S 1e9  /* bytes per second */
#define MIB(n)   (INT64_C(1048576) * (n))

/* Memory of the driver, the framework and its libraries before the first tensor. Galvatron's
 * authors found about 1 GiB per device. */
#define CONTEXT_BYTES MIB(1024)

/* NCCL 2.28: a receiver has 4 MiB for the protocol Simple, 8 steps of 640 threads and 120 words of 8
 * bytes for LL128, 8 steps of 512 threads and 8 lines of 16 bytes for LL (src/init.cc, computeBuffSizes),
 * in whole pages of 2 MiB 10 MiB; a sender has one page (src/transport/p2p.cc). NVIDIA/nccl, issue 1685,
 * counts allocations of these two sizes. */
#define CONNECTION_BYTES MIB(10 + 2)

/* One kernel from enqueue to start under an eager framework. Published launch latencies lie between
 * 4 and 10 us; the smallest operators of Aceso and Sailor, a few kernels each, never take less than
 * 32 us on any device, whatever its speed. */
#define LAUNCH_NS 7000

/* Copies between device and pinned host memory reach this much per direction (NVIDIA bandwidthTest
 * on x16 slots); the rest of the wire carries headers. */
#define HOST_PCIE3 (12.5 * GB_PER_S)
#define HOST_PCIE4 (25.0 * GB_PER_S)
#define HOST_PCIE5 (55.0 * GB_PER_S)

/* A generic CPU socket: 32 cores with two 256-bit FMA units each (32 FLOP per cycle) at 2.5 GHz,
 * eight channels of DDR4-3200. */
#define CPU_CORES     32
#define CPU_FLOPS     (CPU_CORES * 32 * 2.5e9)
#define CPU_LAUNCH_NS 1000 /* a function call and waking the threads; estimate */

/* Dense peaks of matrix products in TFLOP/s by type, 0 if the device has no such type. Vectors run at the rate of
 * fp32. */
#define RATES(fp32, tf32, fp16, bf16, fp8, nvfp4)                                                  \
    .flops = {[DTYPE_FP32] = (fp32) * TERA, [DTYPE_TF32] = (tf32) * TERA,                          \
              [DTYPE_FP16] = (fp16) * TERA, [DTYPE_BF16] = (bf16) * TERA,                          \
              [DTYPE_FP8] = (fp8) * TERA,   [DTYPE_NVFP4] = (nvfp4) * TERA},                       \
    .vector_flops = (fp32) * TERA
#define V100_RATES   RATES(15.7, 0, 125, 0, 0, 0)
#define A100_RATES   RATES(19.5, 156, 312, 312, 0, 0)
#define HOPPER_RATES RATES(66.9, 494.7, 989.4, 989.4, 1978.9, 0)
/* One of the two dies (GCDs) of an MI250X, each of which is a device of its own: half of what its datasheet says of both. Products of
 * fp32 have matrix units, twice as fast as vectors; there is neither TF32 nor fp8. */
#define CDNA2_RATES                                                                                \
    .flops = {[DTYPE_FP32] = 47.85 * TERA,                                                         \
              [DTYPE_TF32] = 47.85 * TERA,                                                         \
              [DTYPE_FP16] = 191.5 * TERA,                                                         \
              [DTYPE_BF16] = 191.5 * TERA},                                                        \
    .vector_flops = 23.95 * TERA
#define CDNA3_RATES RATES(163.4, 653.7, 1307.4, 1307.4, 2614.9, 0)

/* A row: name, architecture, memory and its bandwidth, rates, bandwidth to the host, L2 (of AMD's devices the Infinity
 * Cache), units (streaming multiprocessors, compute units), source. */
#define GPU(title, family, memory, bandwidth, rates, host, l2, count, words)                       \
    {.name = (title),                                                                              \
     .arch = (family),                                                                             \
     .context_bytes = CONTEXT_BYTES,                                                               \
     .connection_bytes = CONNECTION_BYTES,                                                         \
     .launch_ns = LAUNCH_NS,                                                                       \
     .memory_bytes = (memory),                                                                     \
     rates,                                                                                        \
     .memory_bytes_per_s = (bandwidth),                                                            \
     .host_bytes_per_s = (host),                                                                   \
     .l2_bytes = (l2),                                                                             \
     .units = (count),                                                                             \
     .source = (words)}

static const struct device DEVICES[] = {
    GPU("GTX-TITAN-X", "maxwell", MIB(12212), 336.5 * GB_PER_S, RATES(6.6, 0, 6.6, 0, 0, 0),
        HOST_PCIE3, MIB(3), 24, "NVIDIA GeForce GTX TITAN X specification (Maxwell, 2015)"),
    GPU("GTX-1080", "pascal", MIB(8119), 320 * GB_PER_S, RATES(8.87, 0, 8.87, 0, 0, 0), HOST_PCIE3,
        MIB(2), 20, "NVIDIA GeForce GTX 1080 whitepaper"),
    GPU("TITAN-Xp", "pascal", MIB(12196), 547.7 * GB_PER_S, RATES(12.15, 0, 12.15, 0, 0, 0),
        HOST_PCIE3, MIB(3), 30, "NVIDIA TITAN Xp specification"),
    GPU("P100-PCIe-16GB", "pascal", MIB(16280), 732 * GB_PER_S, RATES(9.3, 0, 18.7, 0, 0, 0),
        HOST_PCIE3, MIB(4), 56, "NVIDIA Tesla P100 PCIe datasheet"),
    GPU("V100-SXM2-16GB", "volta", MIB(16160), 900 * GB_PER_S, V100_RATES, HOST_PCIE3, MIB(6), 80,
        "NVIDIA V100 datasheet"),
    GPU("V100-SXM2-32GB", "volta", MIB(32510), 900 * GB_PER_S, V100_RATES, HOST_PCIE3, MIB(6), 80,
        "NVIDIA V100 datasheet"),
    GPU("RTX-2080", "turing", MIB(7982), 448 * GB_PER_S, RATES(10.1, 0, 40.3, 0, 0, 0), HOST_PCIE3,
        MIB(4), 46, "NVIDIA Turing whitepaper, fp16 with fp32 accumulation"),
    GPU("RTX-2080-Ti", "turing", MIB(11019), 616 * GB_PER_S, RATES(13.4, 0, 53.8, 0, 0, 0),
        HOST_PCIE3, MIB(11) / 2, 68, "NVIDIA Turing whitepaper, fp16 with fp32 accumulation"),
    GPU("RTX-TITAN", "turing", MIB(24220), 672 * GB_PER_S, RATES(16.3, 0, 130.5, 0, 0, 0),
        HOST_PCIE3, MIB(6), 72, "NVIDIA TITAN RTX specification"),
    GPU("RTX-3090", "ampere", MIB(24268), 936 * GB_PER_S, RATES(35.6, 35.6, 71.2, 71.2, 0, 0),
        HOST_PCIE4, MIB(6), 82, "NVIDIA GA102 whitepaper, fp16 with fp32 accumulation"),
    GPU("RTX-4090", "ada", MIB(24564), 1008 * GB_PER_S, RATES(82.6, 82.6, 165.2, 165.2, 330.3, 0),
        HOST_PCIE4, MIB(72), 128, "NVIDIA Ada whitepaper, with fp32 accumulation"),
    GPU("L40S", "ada", MIB(46068), 864 * GB_PER_S, RATES(91.6, 183, 362, 362, 733, 0), HOST_PCIE4,
        MIB(96), 142, "NVIDIA L40S datasheet"),
    /* Of its memory, the share that an L40S shows. Units: 7,424 lanes of 128. */
    GPU("L4", "ada", MIB(23034), 300 * GB_PER_S, RATES(30.3, 60, 121, 121, 242.5, 0), HOST_PCIE4,
        MIB(48), 58, "NVIDIA L4 datasheet, rates without sparsity"),
    /* Of its memory, what nvidia-smi shows of AWS's instances. Units: 9,216 lanes of 128, as in GA102. */
    GPU("A10G", "ampere", MIB(23028), 600 * GB_PER_S, RATES(35, 35, 70, 70, 0, 0), HOST_PCIE4,
        MIB(6), 72,
        "NVIDIA A10G datasheet (AWS, 2022) as quoted by Baseten, rates without sparsity"),
    GPU("A100-SXM4-40GB", "ampere", MIB(40536), 1555 * GB_PER_S, A100_RATES, HOST_PCIE4, MIB(40),
        108, "NVIDIA A100 datasheet"),
    GPU("A100-SXM4-80GB", "ampere", MIB(81251), 2039 * GB_PER_S, A100_RATES, HOST_PCIE4, MIB(40),
        108, "NVIDIA A100 datasheet"),
    GPU("A100-PCIe-80GB", "ampere", MIB(81251), 1935 * GB_PER_S, A100_RATES, HOST_PCIE4, MIB(40),
        108, "NVIDIA A100 datasheet"),
    GPU("A800-SXM4-80GB", "ampere", MIB(81251), 2039 * GB_PER_S, A100_RATES, HOST_PCIE4, MIB(40),
        108, "NVIDIA A800 datasheet"),
    GPU("H100-SXM5-80GB", "hopper", MIB(81079), 3352 * GB_PER_S, HOPPER_RATES, HOST_PCIE5, MIB(50),
        132, "NVIDIA H100 whitepaper"),
    GPU("H800-SXM5-80GB", "hopper", MIB(81079), 3352 * GB_PER_S, HOPPER_RATES, HOST_PCIE5, MIB(50),
        132, "as H100-SXM5-80GB but for NVLink (DeepSeek-AI, Insights into DeepSeek-V3)"),
    /* Of its memory, what an H100 of 96 GB shows. */
    GPU("H20-SXM5-96GB", "hopper", MIB(97871), 4000 * GB_PER_S, RATES(44, 74, 148, 148, 296, 0),
        HOST_PCIE5, MIB(60), 78, "NVIDIA H20 as published at its launch, rates without sparsity"),
    GPU("H100-PCIe-80GB", "hopper", MIB(81559), 2039 * GB_PER_S,
        RATES(51.2, 378, 756, 756, 1513, 0), HOST_PCIE5, MIB(50), 114,
        "NVIDIA H100 PCIe datasheet"),
    GPU("H100-NVL-94GB", "hopper", MIB(95830), 3938 * GB_PER_S,
        RATES(60, 417.5, 835.5, 835.5, 1671, 0), HOST_PCIE5, MIB(50), 132,
        "NVIDIA H100 NVL datasheet"),
    GPU("H100-96GB-HBM2e", "hopper", MIB(97871), 2400 * GB_PER_S, HOPPER_RATES, HOST_PCIE5, MIB(50),
        132, "torchtitan's benchmarks: H100 of 96 GB HBM2e (2.4 TB/s), limited to 500 W"),
    GPU("H200-SXM-141GB", "hopper", MIB(143156), 4800 * GB_PER_S, HOPPER_RATES, HOST_PCIE5, MIB(50),
        132, "NVIDIA H200 datasheet"),
    /* The host is reached over NVLink-C2C: 450 GB/s per direction. */
    GPU("GH200-96GB", "hopper", MIB(97280), 4000 * GB_PER_S, HOPPER_RATES, 450 * GB_PER_S, MIB(50),
        132, "NVIDIA GH200 datasheet"),
    /* NVFP4: 72 PFLOP/s of eight, without sparsity. */
    GPU("B200-SXM-180GB", "blackwell", MIB(182642), 7700 * GB_PER_S,
        RATES(75, 1125, 2250, 2250, 4500, 9000), HOST_PCIE5, MIB(126), 148,
        "NVIDIA HGX B200 datasheet, one of eight"),
    /* NVFP4: 108 PFLOP/s of eight, without sparsity. */
    GPU("B300-SXM-288GB", "blackwell", MIB(275040), 7700 * GB_PER_S,
        RATES(75, 1125, 2250, 2250, 4500, 13500), HOST_PCIE5, MIB(126), 148,
        "NVIDIA HGX B300 datasheet, one of eight; L2 and units as B200"),
    /* NVFP4: 720 PFLOP/s of 72, without sparsity. NVLink-C2C has 450 GB/s per direction for two devices. */
    GPU("GB200", "blackwell", MIB(188416), 8000 * GB_PER_S,
        RATES(80, 1250, 2500, 2500, 5000, 10000), 225 * GB_PER_S, MIB(126), 152,
        "NVIDIA GB200 NVL72 datasheet, one of 72"),
    /* Memory: 20 TB / 72. NVFP4: 1,080 PFLOP/s of 72, without sparsity. NVLink-C2C as GB200. */
    GPU("GB300", "blackwell", MIB(264904), 8000 * GB_PER_S,
        RATES(83, 1250, 2500, 2500, 5000, 15000), 225 * GB_PER_S, MIB(126), 152,
        "NVIDIA GB300 NVL72 datasheet, one of 72; L2 and units as GB200"),
    /* The datasheet's rates are rounded to whole PFLOP/s. */
    GPU("RTX-PRO-6000", "blackwell-rtx", MIB(97887), 1597 * GB_PER_S,
        RATES(120, 250, 500, 500, 1000, 2000), HOST_PCIE5, MIB(128), 188,
        "NVIDIA RTX PRO 6000 Blackwell Server Edition datasheet"),
    /* Of its memory, what ROCm shows of a die; the L2 of a die (CDNA 2 whitepaper). */
    GPU("MI250X-GCD", "cdna2", MIB(65520), 1638.4 * GB_PER_S, CDNA2_RATES, HOST_PCIE4, MIB(8), 110,
        "AMD's table of the MI200 series (2021) as quoted by reviews, half of a module"),
    GPU("MI300X", "cdna3", MIB(196592), 5300 * GB_PER_S, CDNA3_RATES, HOST_PCIE5, MIB(256), 304,
        "AMD Instinct MI300X datasheet"),
    GPU("MI325X", "cdna3", MIB(262128), 6000 * GB_PER_S, CDNA3_RATES, HOST_PCIE5, MIB(256), 304,
        "AMD Instinct MI325X datasheet"),
    /* They have no TF32, whose products run as fp32; of four bits they have MXFP4. */
    GPU("MI350X", "cdna4", MIB(294896), 8000 * GB_PER_S,
        RATES(144.2, 144.2, 2306.9, 2306.9, 4613.7, 9227.5), HOST_PCIE5, MIB(256), 256,
        "AMD Instinct MI350X datasheet"),
    GPU("MI355X", "cdna4", MIB(294896), 8000 * GB_PER_S,
        RATES(157.3, 157.3, 2516.6, 2516.6, 5033.2, 10066.3), HOST_PCIE5, MIB(256), 256,
        "AMD Instinct MI355X datasheet"),
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
