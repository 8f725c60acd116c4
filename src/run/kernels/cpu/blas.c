/* blas.c - the kernels that OpenBLAS takes, and better ones where it does not know the processor.
 *
 * OpenBLAS knows processors by their model numbers. One that is newer than the library gets kernels that
 * run everywhere: those of Prescott (SSE3) on a Xeon with AVX-512, where training takes 3.7 times as
 * long. What the processor says that it can do decides better.
 *
 *   I1  A core that wants nothing of enum cpu_feature is one that OpenBLAS falls back to; a core that is
 *       not in the table has been chosen for a processor that OpenBLAS knows. Neither is made worse.
 *   I2  A core is proposed only where the processor, and the system for its registers, have all it wants.
 */
#include <strings.h>

#include "run/kernels/cpu/cpu.h"

#define WANTS_AVX2   (CPU_AVX | CPU_AVX2 | CPU_FMA)
#define WANTS_AVX512 (WANTS_AVX2 | CPU_AVX512F | CPU_AVX512DQ | CPU_AVX512BW | CPU_AVX512VL)

/* Names and instruction sets: kernel/x86_64/KERNEL.* of OpenBLAS 0.3.21. Better ones later. None of
 * arm64: what OpenBLAS falls back to there, ARMV8, is as fast as what it has for the processor (57
 * GFLOP/s each in fp32, products of 768 x 768 on one core of a Neoverse V1). */
static const struct blas_core {
    const char *name;
    uint32_t wants; /* of enum cpu_feature */
} CORES[] = {
    {"Katmai"},
    {"Coppermine"},
    {"Northwood"},
    {"Prescott"},
    {"Banias"},
    {"Atom"},
    {"Core2"},
    {"Penryn"},
    {"Dunnington"},
    {"Nehalem"},
    {"Athlon"},
    {"Opteron"},
    {"Opteron_SSE3"},
    {"Barcelona"},
    {"Bobcat"},
    {"Nano"},
    {"Sandybridge", CPU_AVX},
    {"Haswell", WANTS_AVX2},
    {"SkylakeX", WANTS_AVX512},
};

static bool falls_back(const char *core)
{
    for (size_t i = 0; i < COUNT_OF(CORES); i++)
        if (strcasecmp(CORES[i].name, core) == 0)
            return CORES[i].wants == 0;
    return false;
}

const char *better_blas_core(const char *core, uint32_t features)
{
    const char *best = NULL;
    if (!falls_back(core))
        return NULL;
    for (size_t i = 0; i < COUNT_OF(CORES); i++)
        if (CORES[i].wants && (CORES[i].wants & ~features) == 0)
            best = CORES[i].name;
    return best;
}

uint32_t cpu_features(void)
{
    uint32_t features = 0;
#if defined(__x86_64__)
    features |= __builtin_cpu_supports("avx") ? CPU_AVX : 0;
    features |= __builtin_cpu_supports("avx2") ? CPU_AVX2 : 0;
    features |= __builtin_cpu_supports("fma") ? CPU_FMA : 0;
    features |= __builtin_cpu_supports("avx512f") ? CPU_AVX512F : 0;
    features |= __builtin_cpu_supports("avx512dq") ? CPU_AVX512DQ : 0;
    features |= __builtin_cpu_supports("avx512bw") ? CPU_AVX512BW : 0;
    features |= __builtin_cpu_supports("avx512vl") ? CPU_AVX512VL : 0;
#endif
    return features;
}
