/* blas_library.h - OpenBLAS's functions, opened when a run computes on CPUs: loading it takes as long as many commands.
 *
 *   I1  A program that is linked with OpenBLAS (a portable one, benchmarks) uses that; in any other, nothing is there
 *       before blas_open.
 */
#ifndef WEFT_RUN_KERNELS_CPU_BLAS_LIBRARY_H
#define WEFT_RUN_KERNELS_CPU_BLAS_LIBRARY_H

#include <cblas.h>

#define BLAS_FUNCTIONS(X)                                                                          \
    X(cblas_sgemm)                                                                                 \
    X(openblas_get_corename)                                                                       \
    X(openblas_set_num_threads)

struct blas_library {
#define BLAS_FIELD(name) __typeof__(&(name)) name##_;
    BLAS_FUNCTIONS(BLAS_FIELD)
#undef BLAS_FIELD
};
extern struct blas_library BLAS;

#endif
