/* calibration.c - the parameters that Weft ships, by device or architecture.
 *
 *   I1  A row's `source` says where its numbers come from. Those called "fitted" are what
 *       tools/fit_published prints, to three digits, from the half of the published rows that is
 *       not held out. The others are taken from a neighbour's row where nothing better is known.
 *   I2  A device takes the first row that matches it; the last row matches every device.
 */
#include "cost/calibration.h"

#include <string.h>

/* Shares of streaming bandwidth, by access pattern: fitted on Aceso's V100 table (GPT, T5: fp16;
 * Wide-ResNet: fp32), where the patterns were measured separately. A batch norm reads its input
 * twice; the gradient of an embedding is scattered in the order of a sort; that of a maximum pool
 * uses atomic additions. The optimizer's streams are treated as copies. */
#define SHARES(matmul, scan, element)                                                              \
    {                                                                                              \
        [KERNEL_MATMUL] = {(matmul), (matmul)},                                                    \
        [KERNEL_GROUPED_MATMUL] = {1, 1},                                                          \
        [KERNEL_ATTENTION] = {1, 1},                                                               \
        [KERNEL_ATTENTION_V1] = {1, 1},                                                            \
        [KERNEL_ATTENTION_V2] = {1, 1},                                                            \
        [KERNEL_CONV] = {0.702, 0.702},                                                            \
        [KERNEL_NORM] = {0.713, 0.674},                                                            \
        [KERNEL_BATCH_NORM] = {0.609, 0.88},                                                       \
        [KERNEL_SOFTMAX] = {0.812, 0.815},                                                         \
        [KERNEL_ELEMENTWISE] = {(element), (element)},                                             \
        [KERNEL_DROPOUT] = {0.857, 0.998},                                                         \
        [KERNEL_EMBEDDING] = {0.347, 0.0707},                                                      \
        [KERNEL_LOSS] = {0.767, 0.764},                                                            \
        [KERNEL_LOSS_COMPILED] = {0.322, 0.684}, /* hopper's */                                    \
        [KERNEL_POOL] = {0.953, 0.223},                                                            \
        [KERNEL_SCAN] = {(scan), (scan)},                                                          \
        [KERNEL_DELTA] = {1, 1},                                                                   \
        [KERNEL_COPY] = {0.916, 0.986},                                                            \
        [KERNEL_OPTIMIZER] = {0.9, 0.9},                                                           \
    }

/* The same for PyTorch's kernels on an H200, with volta's batch norm and pool. Its GELU (erf) and
 * dropout (Philox) in 16 bits are bound by arithmetic rather than bytes; the share of a softmax's
 * forward rests on one row, in fp32, and is twice what it reaches in 16 bits. */
#define HOPPER_SHARES                                                                              \
    {                                                                                              \
        [KERNEL_MATMUL] = {0.865, 0.865},                                                          \
        [KERNEL_GROUPED_MATMUL] = {1, 1},                                                          \
        [KERNEL_ATTENTION] = {1, 1},                                                               \
        [KERNEL_ATTENTION_V1] = {1, 1},                                                            \
        [KERNEL_ATTENTION_V2] = {1, 1},                                                            \
        [KERNEL_CONV] = {0.794, 0.794},                                                            \
        [KERNEL_NORM] = {0.52, 0.622},                                                             \
        [KERNEL_BATCH_NORM] = {0.609, 0.88},                                                       \
        [KERNEL_SOFTMAX] = {0.863, 0.476},                                                         \
        [KERNEL_ELEMENTWISE] = {0.762, 0.783},                                                     \
        [KERNEL_DROPOUT] = {0.668, 0.967},                                                         \
        [KERNEL_EMBEDDING] = {0.836, 0.046},                                                       \
        [KERNEL_LOSS] = {0.789, 1},                                                                \
        [KERNEL_LOSS_COMPILED] = {0.322, 0.684},                                                   \
        [KERNEL_POOL] = {0.953, 0.223},                                                            \
        [KERNEL_COPY] = {0.957, 0.957},                                                            \
        [KERNEL_OPTIMIZER] = {0.838, 0.838},                                                       \
        [KERNEL_SCAN] = {1, 1},                                                                    \
        [KERNEL_DELTA] = {1, 1},                                                                   \
    }

/* The same to one digit: the values that fitting starts from. */
#define ROUND_SHARES                                                                               \
    {                                                                                              \
        [KERNEL_MATMUL] = {0.8, 0.8},    [KERNEL_GROUPED_MATMUL] = {1, 1},                         \
        [KERNEL_ATTENTION] = {1, 1},     [KERNEL_ATTENTION_V1] = {1, 1},                           \
        [KERNEL_ATTENTION_V2] = {1, 1},  [KERNEL_CONV] = {1, 1},                                   \
        [KERNEL_NORM] = {0.7, 0.7},      [KERNEL_BATCH_NORM] = {0.6, 0.9},                         \
        [KERNEL_SOFTMAX] = {0.8, 0.8},   [KERNEL_ELEMENTWISE] = {1, 1},                            \
        [KERNEL_DROPOUT] = {0.9, 1},     [KERNEL_EMBEDDING] = {0.4, 0.1},                          \
        [KERNEL_LOSS] = {0.8, 0.8},      [KERNEL_LOSS_COMPILED] = {0.3, 0.7},                      \
        [KERNEL_POOL] = {0.9, 0.2},      [KERNEL_COPY] = {0.9, 0.9},                               \
        [KERNEL_OPTIMIZER] = {0.9, 0.9}, [KERNEL_SCAN] = {1, 1},                                   \
        [KERNEL_DELTA] = {1, 1},                                                                   \
    }

/* FlashAttention-2 on an H200 (data/profiles/weft/h200_window.csv): backward in all cases, forward with heads of 128
 * (it masks every block, which shows with narrower heads: up to 1.7 times as long). */
#define WINDOW_ENDS .attention_ends = {120, 260}

/* Kernels that compute keys and values in one depth (FlashAttention-2 and -3). */
#define PADDED .attention_pads = {1, 1}
/* Attention in fp8 where nobody measured it: between Hopper's and Blackwell's. */
#define USUAL_FP8 .attention_fp8 = {0.9, 0.8}

/* What all Ampere devices share except their rates: fitted on SimuMax's A100-PCIe table. About
 * misaligned rows it is only known that they lose less than Hopper's, whose kernels were Ampere's
 * then; these ratios agree with Fold3D's BERT (heads of 153). Winograd's traffic is Volta's, the
 * tiles of attention are FlashAttention-2's. No scan was measured: the values are those of an
 * H200's unit at the lower clock. No row is short enough to determine `issue_ns`;
 * `training_issue_ns` is from vTrain's single-node runs, the half to fit. */
#define AMPERE                                                                                     \
    .prologue_k = 44.2, .tile_edge = 38.9, .unhidden = 0.237, .group_unhidden = 0.487,             \
    .misaligned = {0.55, 0.3}, .winograd_traffic = 1.28, .attention_rows = {128, 128},             \
    WINDOW_ENDS, PADDED, USUAL_FP8, .attention_fraction = {0.718, 0.595},                          \
    .attention_softmax = {14.3, 10.3}, .attention_power = {0.655, 0.523}, .attention_tail = 0.468, \
    .attention_ramp_ns = {14700, 8670}, .attention_v1 = 1.6, .attention_v2 = 1,                    \
    .attention_sustained = 1, .scan_fraction = {0.4, 0.5}, .memory_fraction = 0.88,                \
    .share = SHARES(0.679, 1, 1), .ramp_ns = 2080, .issue_ns = 10000, .training_issue_ns = 37000,  \
    .overlap_slowdown = 1.14

/* What all Hopper devices share except their rates in long runs: fitted on Weft's H200 table. In
 * data/profiles/weft, h200_fp8.csv shows what fp8 loses (Llama 3 8B's layers), h200_alignment.csv
 * has the misaligned rows, h200_scan.csv the scans. Winograd's traffic is Volta's. `issue_ns` was
 * measured along with that table: an eager operator on a virtual machine. Attention in fp8: cuDNN's own table for an H200
 * (cudnn-frontend, benchmark/sdpa_benchmark_training, cuDNN 9.19), at the shape of Llama 3.1 70B with 8,192 positions: 964
 * TFLOP/s forward and 430 backward, in 16 bits 644 and 541. */
#define HOPPER .power_fraction = 0.754, .fp8_loss = 0.1, HOPPER_UNITS
#define HOPPER_UNITS                                                                               \
    .large_workspaces = true, .unit_fraction = {{0.85, 0.85}, {0.83, 0.772}}, .prologue_k = 126,   \
    .tile_edge = 10.1, .unhidden = 0.148, .group_unhidden = 0.707, .misaligned = {0.37, 0.18},     \
    .winograd_traffic = 1.28, .attention_rows = {128, 128}, WINDOW_ENDS, PADDED,                   \
    .attention_fp8 = {1, 0.6}, .attention_fraction = {0.905, 0.565},                               \
    .attention_softmax = {50.5, 17.5}, .attention_power = {0.878, 0.559}, .attention_tail = 0.66,  \
    .attention_ramp_ns = {5310, 13500}, .attention_v1 = 3, .attention_v2 = 1.65,                   \
    .scan_fraction = {0.21, 0.27}, .memory_fraction = 0.93, .share = HOPPER_SHARES,                \
    .ramp_ns = 1810, .issue_ns = 11000, .training_issue_ns = 38000, .overlap_slowdown = 1.14

/* Everything that Blackwell devices share except their power: fitted on SimuMax's B200 table. The ratios of misaligned rows
 * are hopper's, Winograd's traffic volta's. In the forward pass, two tiles of 128 rows of attention take turns on a unit
 * (cuDNN, FlashAttention-4). Elementwise kernels: casts to fp8 in AIConfigurator's scale_matrix move 6,080 to 6,300 GB/s
 * (vLLM's kernels; PyTorch's 4,400 to 4,750). No scan was measured: it takes 2.3 times as long as an H200's units would
 * need for it, in products and bytes alike (Megatron-Bridge's runs of hybrids, the half to fit). */
#define BLACKWELL                                                                                  \
    .large_workspaces = true, .scales_blocks = true,                                               \
    .unit_fraction = {{0.85, 0.85}, {0.773, 0.65}}, .prologue_k = 55.9, .tile_edge = 17.6,         \
    .unhidden = 0.176, .group_unhidden = 0.896, .misaligned = {0.37, 0.18},                        \
    .winograd_traffic = 1.28, .attention_rows = {256, 128}, .attention_tail = 0.231,               \
    .attention_fp8 = {0.88, 1}, .attention_v1 = 3, .attention_v2 = 1.65,                           \
    .scan_fraction = {0.0435, 0.0565}, .memory_fraction = 0.887,                                   \
    .share = SHARES(0.846, 0.435, 0.87), .ramp_ns = 1920, .issue_ns = 7590,                        \
    .training_issue_ns = 20000, .overlap_slowdown = 1.14

/* Attention on Blackwell in the libraries of 2025, fitted on SimuMax's B200 table. cuDNN 9.10's own table agrees in fp8 with
 * `attention_fp8` above: 1,502 TFLOP/s forward and 1,255 backward with 8,192 positions, 1,352 and 1,193 by these numbers. */
#define ATTENTION_2025                                                                             \
    WINDOW_ENDS, PADDED, .attention_fraction = {0.602, 0.536}, .attention_softmax = {20.3, 20.5},  \
        .attention_power = {0.583, 0.481}, .attention_ramp_ns = {25600, 11600},                    \
        .attention_sustained = 1

/* Attention of cuDNN 9.22, fitted on every other row of its own tables for GB200 and GB300 (cudnn-frontend 1.23,
 * benchmark/sdpa_benchmark_training/results: heads of 64 to 256, 1,024 to 32,768 positions, with windows and without); the
 * other rows are 4 % off forward and 8 and 6 % backward, in fp8 5 and 6 %. Keys and values of different depths are padded
 * in the backward pass only. Training lowers the clock for products beside it to the share that they have there of their
 * rate alone (alone.c): 0.525 of 0.613 on GB200 and 0.715 of 0.786 on GB300; a B300 has 0.667. */
#define GB200_ATTENTION                                                                            \
    .attention_ends = {656, 427}, .attention_pads = {0, 1}, .attention_fraction = {0.98, 0.9},     \
    .attention_softmax = {51.8, 48.8}, .attention_power = {0.906, 0.689},                          \
    .attention_ramp_ns = {26500, 60000}, .attention_sustained = 0.856
#define GB300_ATTENTION                                                                            \
    .attention_ends = {1150, 559}, .attention_pads = {0, 1}, .attention_fraction = {0.969, 0.9},   \
    .attention_softmax = {21, 28.8}, .attention_power = {0.91, 0.698},                             \
    .attention_ramp_ns = {17200, 60000}

/* Usual values for GPU kernels, not fitted. */
#define GENERIC                                                                                    \
    .unit_fraction = {{0.85, 0.85}, {0.75, 0.75}}, .prologue_k = 60, .tile_edge = 20,              \
    .unhidden = 0.3, .group_unhidden = 0.5, .misaligned = {0.5, 0.25}, .winograd_traffic = 1,      \
    .attention_rows = {128, 128}, WINDOW_ENDS, PADDED, USUAL_FP8,                                  \
    .attention_fraction = {0.6, 0.5}, .attention_softmax = {20, 20},                               \
    .attention_power = {0.6, 0.5}, .attention_tail = 0.35, .attention_ramp_ns = {10000, 10000},    \
    .attention_v1 = 1.6, .attention_v2 = 1, .attention_sustained = 1,                              \
    .scan_fraction = {0.2, 0.25}, .memory_fraction = 0.9, .share = ROUND_SHARES, .ramp_ns = 3000,  \
    .issue_ns = 10000, .training_issue_ns = 20000, .overlap_slowdown = 1.3

/* For devices on which products in a long run are as fast as alone. */
#define POWER(fraction) .power_fraction = (fraction), .sustained_fraction = (fraction)

static const struct calibration CALIBRATIONS[] = {
    {.arch = "volta",
     .source = "fitted on Aceso's V100 table",
     POWER(0.822),
     .unit_fraction = {{0.875, 0.98}, {0.724, 0.937}},
     .prologue_k = 74.5,
     .tile_edge = 13.3,
     .unhidden = 0.261,
     .group_unhidden = 0.5,
     .misaligned = {0.55, 0.3}, /* ampere's */
     .winograd_traffic = 1.28,
     .attention_rows = {128, 128},
     WINDOW_ENDS,
     PADDED,
     USUAL_FP8,
     /* It has no flash attention of its own: a guess below ampere's. */
     .attention_fraction = {0.5, 0.4},
     .attention_softmax = {14.3, 10.3}, /* ampere's */
     .attention_power = {0.6, 0.5},
     .attention_tail = 0.35,
     .attention_ramp_ns = {10000, 10000},
     .attention_v1 = 1.6,
     .attention_v2 = 1,
     .attention_sustained = 1,
     .scan_fraction = {0.4, 0.5}, /* ampere's */
     .memory_fraction = 0.909,
     .share = SHARES(0.726, 1, 1),
     .ramp_ns = 4940,
     .issue_ns = 35500,
     .training_issue_ns = 35500,
     .overlap_slowdown = 1.14},
    {.device = "A100-PCIe",
     .source = "fitted on SimuMax's A100-PCIe table",
     POWER(0.758),
     .unit_fraction = {{0.85, 0.85}, {0.803, 0.827}},
     AMPERE},
    {.arch = "ampere",
     .source = "A100-PCIe's, with the SXM4 form's rates in Sailor's A100 table",
     .unit_fraction = {{0.85, 0.85}, {0.86, 0.94}},
     .power_fraction = 0.92,     /* 286 of 312 TFLOP/s: 400 W in place of 300 */
     .sustained_fraction = 0.80, /* vTrain's and llm-foundry's A100 runs, the half to fit */
     AMPERE},
    {.device = "H200",
     .source = "fitted on Weft's H200 table",
     /* 683 TFLOP/s: the widest product of Llama 2 70B, again and again for a minute at the limit of 700 W
      * (data/profiles/weft/h200_sustained.csv). In fp8 this one device has 0.67; those of eight in a node have
      * 0.62, as fp8_loss says: MLPerf's and torchtitan's runs, the half to fit. */
     .sustained_fraction = 0.69,
     .attention_sustained = 0.88, /* Weft's H200 runs: 1.03 to 1.19 times as long as alone */
     HOPPER},
    /* A clock goes with the cube root of the power: (500 / 700)^(1/3) of the rate below. */
    {.device = "H100-96GB",
     .source = "H200's, at the rates of H100 in long runs, at 500 W in place of 700",
     .sustained_fraction = 0.536,
     .attention_sustained = 1,
     HOPPER},
    /* A unit has 350 / 114 W in place of 700 / 132, and 400 / 132; its clock goes with the cube root: 0.834 and 0.830 of the 4.50
     * TFLOP/s that an H100's units have in long runs, of 6.63 and 6.33. */
    {.device = "H100-PCIe",
     .source = "H200's, at the rates of H100 in long runs, at 350 W in place of 700",
     .sustained_fraction = 0.565,
     .attention_sustained = 1,
     HOPPER},
    {.device = "H100-NVL",
     .source = "H200's, at the rates of H100 in long runs, at 400 W in place of 700",
     .sustained_fraction = 0.589,
     .attention_sustained = 1,
     HOPPER},
    /* 1.90 TFLOP/s a unit at its peak, 0.42 of what an H100's units have in long runs, with more power for each (500 / 78 W):
     * its products are bound by their units, not by power. */
    {.device = "H20-",
     .source = "H200's, without a limit of power",
     POWER(1),
     .attention_sustained = 1,
     HOPPER_UNITS},
    {.arch = "hopper",
     .source = "H200's, at the rates of H100 in long runs",
     .sustained_fraction = 0.60, /* llm-foundry's H100 runs, the half to fit */
     .attention_sustained = 1,
     HOPPER},
    /* Transformer Engine's table for a B300 (docs/examples/gemm_profiling): the twelve products of
     * a layer of 4,096 features and 15,872 tokens, 19.17 TFLOP, take 12.76 ms in bf16 and 7.16 ms
     * in MXFP8 with operands cast beforehand. That is 1,502 and 2,677 TFLOP/s at 1,100 W; a GB300
     * has 1,400 W. */
    {.device = "GB300",
     .source = "B200's, products at the rates that Transformer Engine publishes for a B300",
     .power_fraction = 0.601,
     /* Megatron-Bridge's runs of Llama 3.1 405B, the half to fit. AIConfigurator's table has 1,904, 3,211 and 4,941
      * TFLOP/s for large single products in bf16, fp8 and nvfp4, casts of inputs included. */
     .sustained_fraction = 0.715,
     .fp8_loss = 0.08,
     .nvfp4_loss = 0.40,
     GB300_ATTENTION,
     .attention_sustained = 0.91,
     BLACKWELL},
    /* In nvfp4, AIConfigurator's table has up to 5,092, 4,788 and 4,440 TFLOP/s for single products on B300, GB200 and
     * B200, casts included; MLPerf's runs of Llama 3.1 8B, the half to fit, agree. */
    {.device = "B300",
     .source = "B200's, products at the rates that Transformer Engine publishes for a B300",
     POWER(0.667), /* 1,502 TFLOP/s of 2,250: the table above, whose device it is */
     /* 2,850 TFLOP/s: of AIConfigurator's 3,307 for large single products the share that a GB300 sustains of its 3,810. */
     .fp8_loss = 0.05,
     .nvfp4_loss = 0.404, /* 5,370 TFLOP/s */
     GB300_ATTENTION,
     .attention_sustained = 0.849,
     BLACKWELL},
    {.device = "GB200",
     .source = "B200's, at the rates of long runs",
     .power_fraction = 0.497,
     .sustained_fraction = 0.525, /* Megatron-Bridge's runs of Llama 3.1 405B, the half to fit */
     .nvfp4_loss = 0.10,
     GB200_ATTENTION,
     BLACKWELL},
    {.arch = "blackwell",
     .source = "fitted on SimuMax's B200 table",
     .power_fraction = 0.497,
     .sustained_fraction = 0.53, /* MLPerf's runs of Llama 3.1 8B and LoRA, the half to fit */
     .nvfp4_loss = 0.20,
     ATTENTION_2025,
     BLACKWELL},
    /* Large products alone have 220 of 362 TFLOP/s in bf16 and 371 of 733 in fp8 in AIConfigurator's table, the medians of the
     * half to fit; of that, the seven devices above which have a table and runs keep 0.78 to 0.99 in training, in the mean
     * 0.90. An L4 has 72 / 58 W a unit in place of 350 / 142: 0.796 of the clock. */
    {.device = "L40S",
     .source = "usual values for GPU kernels; products as in AIConfigurator's table",
     .power_fraction = 0.608,
     .sustained_fraction = 0.547,
     .fp8_loss = 0.168,
     GENERIC},
    {.device = "L4",
     .source = "L40S's, at 72 W in place of 350",
     .power_fraction = 0.592,
     .sustained_fraction = 0.532,
     .fp8_loss = 0.168,
     GENERIC},
    /* A kernel is a call: nothing is launched and nothing else issues it, so ramps and times to issue are 0. */
    {.arch = "cpu",
     .source = "a BLAS on all cores and a stream benchmark, usual values; not fitted",
     POWER(1),
     .adds_gradients = true, /* run/kernels.h */
     .unit_fraction = {{0.8, 0.8}, {0.8, 0.8}},
     .prologue_k = 16,
     .tile_edge = 5,
     .unhidden = 0.1,
     .group_unhidden = 0.1,
     .misaligned = {1, 1},
     .winograd_traffic = 1,
     .attention_rows = {128, 128},
     WINDOW_ENDS,
     PADDED,
     USUAL_FP8,
     .attention_fraction = {0.5, 0.5},
     .attention_softmax = {20, 20},
     .attention_power = {1, 1},
     .attention_tail = 0.35,
     .attention_v1 = 1,
     .attention_v2 = 1,
     .attention_sustained = 1,
     .scan_fraction = {0.5, 0.5},
     .memory_fraction = 0.8,
     .share = SHARES(1, 1, 1),
     .overlap_slowdown = 1},
    /* The power limit lowers the clock of AMD's devices far below its peak. In bf16: the fastest products that AMD publishes
     * (Measuring Max-Achievable FLOPs, 2025: 708 TFLOP/s on MI300X; Completing the GPU Performance Picture, 2026: 831 on
     * MI325X after 30 seconds). Unscaled fp8 loses 0.15 there; in training it loses what MLPerf's LoRA runs and Primus's runs
     * show, the halves to fit. */
    {.device = "MI300X",
     .source = "usual values for GPU kernels; products at AMD's published rates, fp8 as in "
               "MLPerf's runs, the half to fit",
     POWER(0.54),
     .fp8_loss = 0.4,
     GENERIC},
    {.device = "MI325X",
     .source = "usual values for GPU kernels; products at AMD's published rates, fp8 as in "
               "training runs, the half to fit",
     POWER(0.636),
     .fp8_loss = 0.28,
     GENERIC},
    /* 2,768 TFLOP/s of an MI355X in fp8 by the cube root of 1,000 over 1,400 W */
    {.device = "MI350X",
     .source = "MI355X's, at 1,000 W in place of 1,400",
     .power_fraction = 0.7,
     .sustained_fraction = 0.536,
     GENERIC},
    /* MLPerf's LoRA runs, the half to fit */
    {.arch = "cdna4",
     .source = "usual values for GPU kernels; products as in MLPerf's runs, the half to fit",
     .power_fraction = 0.7,
     .sustained_fraction = 0.55,
     GENERIC},
    {.arch = "", .source = "usual values for GPU kernels; not fitted", POWER(0.7), GENERIC},
};

/* Costs ask for a device's row again and again, and most rows differ from it in the first letters. */
static bool begins_with(const char *text, const char *word)
{
    while (*word && *text == *word) {
        text++;
        word++;
    }
    return !*word;
}

static bool matches(const struct calibration *c, const struct device *device)
{
    if (c->device)
        return device->name && begins_with(device->name, c->device);
    return device->arch && *device->arch == *c->arch && strcmp(device->arch, c->arch) == 0;
}

const struct calibration *calibration_generic(void)
{
    return &CALIBRATIONS[COUNT_OF(CALIBRATIONS) - 1];
}

const struct calibration *calibration_for(const struct device *device)
{
    for (size_t i = 0; i < COUNT_OF(CALIBRATIONS); i++)
        if (matches(&CALIBRATIONS[i], device))
            return &CALIBRATIONS[i];
    return calibration_generic();
}

bool device_adds_gradients(const struct device *device)
{
    return calibration_for(device)->adds_gradients;
}

bool device_large_workspaces(const struct device *device)
{
    return calibration_for(device)->large_workspaces;
}

bool device_scales_blocks(const struct device *device)
{
    return calibration_for(device)->scales_blocks;
}
