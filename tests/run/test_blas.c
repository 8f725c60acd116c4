/* test_blas.c - which of OpenBLAS's kernels suit a processor. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "run/run.h"

enum {
    AVX2 = CPU_AVX | CPU_AVX2 | CPU_FMA,
    AVX512 = AVX2 | CPU_AVX512F | CPU_AVX512DQ | CPU_AVX512BW | CPU_AVX512VL
};

static const struct processor {
    const char *what, *core;
    uint32_t features;
    const char *better;
} PROCESSORS[] = {
    {"a Xeon that is newer than the library", "Prescott", AVX512, "SkylakeX"},
    {"AVX-512 without the parts that the kernels use", "Prescott", AVX2 | CPU_AVX512F, "Haswell"},
    {"an unknown processor with AVX2", "Core2", AVX2, "Haswell"},
    {"the first AVX", "Nehalem", CPU_AVX, "Sandybridge"},
    {"an unknown processor of AMD's", "Barcelona", AVX512, "SkylakeX"},
    {"an old processor", "Prescott", 0, NULL},
    {"AVX2 that lacks fused products", "Prescott", CPU_AVX | CPU_AVX2, "Sandybridge"},
    {"a known processor", "SkylakeX", AVX512, NULL},
    {"one that OpenBLAS chose with care", "Haswell", AVX512, NULL},
    {"a core that nobody has heard of", "Zen", AVX512, NULL},
    {"names as OPENBLAS_CORETYPE may have them", "PRESCOTT", AVX2, "Haswell"},
    {"an arm64", "armv8", 0, NULL},
};

static void test_better_cores(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(PROCESSORS); i++) {
        const struct processor *c = &PROCESSORS[i];
        const char *better = better_blas_core(c->core, c->features);
        if (strcmp(better ? better : "none", c->better ? c->better : "none") != 0)
            fail_msg("%s: %s, not %s", c->what, better ? better : "none",
                     c->better ? c->better : "none");
    }
}

/* What this machine says of itself leads to a core that it has, or to none. */
static void test_this_machine(void **state)
{
    (void)state;
    const char *better = better_blas_core(blas_core(), cpu_features());
    assert_true(!better || strcmp(better, blas_core()) != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_better_cores),
        cmocka_unit_test(test_this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
