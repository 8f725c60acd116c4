/* blas_library.c - opens OpenBLAS and finds its functions (blas_library.h). */
#include "run/kernels/cpu/blas_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "run/kernels/kernels.h"

/* I1 */
#pragma weak cblas_sgemm
#pragma weak openblas_get_corename
#pragma weak openblas_set_num_threads
struct blas_library BLAS = {
#define ADDRESS(name) (name),
    BLAS_FUNCTIONS(ADDRESS)
#undef ADDRESS
};

static const char LIBRARY[] = "libopenblas.so.0"; /* Debian's libopenblas0-openmp and its like */
static const char *problem;                       /* NULL: it is open */

static void find(void *library, const char *name, void *out)
{
    void *found = dlsym(library, name);
    memcpy(out, &found, sizeof found); /* a pointer to a function, which ISO C does not convert */
    problem = found ? problem : "it lacks a function";
}

static void open_library(void)
{
    if (BLAS.cblas_sgemm_)
        return;
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        problem = dlerror();
        return;
    }
#define FIND(name) find(library, #name, &BLAS.name##_);
    BLAS_FUNCTIONS(FIND)
#undef FIND
}

weft_status blas_open(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_library);
    if (!problem)
        return WEFT_OK;
    weft_status status = failure("%s cannot be opened: %.200s", LIBRARY, problem);
    error_hint("install Debian's package libopenblas0-openmp");
    return status;
}

const char *blas_core(void)
{
    return problem || !BLAS.openblas_get_corename_ ? "" : BLAS.openblas_get_corename_();
}
