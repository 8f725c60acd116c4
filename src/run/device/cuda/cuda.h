/* cuda.h - an NVIDIA GPU as a device, through the driver's own interface, and how kernels are started on it.
 *
 * Nothing of CUDA is linked: libcuda and whatever else is asked for is opened when a run wants a GPU, so one
 * program runs with and without one, and says what is missing. Kernels are compiled with the program and lie
 * in it as data (CUDA_CODE_*).
 *
 *   I1  cuda_open comes before everything else here; all of it then works on the GPU that it chose. Any
 *       thread may call.
 *   I2  The first thing that goes wrong is kept (device.h, I5); what comes after it does nothing.
 */
#ifndef WEFT_RUN_DEVICE_CUDA_H
#define WEFT_RUN_DEVICE_CUDA_H

#include "run/device/device.h"

extern const struct compute_device CUDA_DEVICE;

/* What is missing, where it fails. `place`: of this process among those of its machine, which take the GPUs
 * in turn. */
weft_status cuda_open(int32_t place);

struct cuda_facts {
    char name[128], driver[96];
    double clock_hz;
    int64_t memory_bytes, shared_bytes; /* shared: the most that a block can have */
    int32_t processors, major, minor;
    int32_t count; /* of GPUs in this machine */
};
const struct cuda_facts *cuda_facts(void);

/* ---- kernels --------------------------------------------------------------------------------- */

struct cuda_code {
    const unsigned char *data; /* a fat binary */
    void *module;
};
/* A kernel of some code, found when it is first started. With `both`, its name has the storage's after it. */
enum { CUDA_STORAGES = 3 };
struct cuda_kernel {
    struct cuda_code *code;
    const char *name;
    bool both;
    void *function[CUDA_STORAGES];  /* by storage: fp32, bf16, fp16 */
    int32_t allowed[CUDA_STORAGES]; /* bytes of shared memory that were asked for so far */
};
struct cuda_grid {
    int64_t x, y, z;
    int32_t threads, shared; /* of a block; bytes */
};
/* arguments: where each of the kernel's parameters is. */
void cuda_launch(struct device_stream *stream, struct cuda_kernel *kernel, enum dtype dtype,
                 struct cuda_grid grid, const void *const *arguments);
#define CUDA_LAUNCH(stream, kernel, dtype, grid, ...)                                              \
    cuda_launch((stream), (kernel), (dtype), (grid), (const void *[]){__VA_ARGS__})
/* A grid for so many elements, each thread with several where there are many. */
struct cuda_grid cuda_elements(int64_t count);

/* ---- for libraries beside the driver --------------------------------------------------------- */

void *cuda_stream_handle(struct device_stream *stream); /* a CUstream */
void cuda_fail(const char *what, const char *why);      /* I2 */
/* One of these names, the newest first; NULL: none is there, and *why says what was looked for. */
void *cuda_library(const char *const *names, const char **why);
/* A function of a library into *function; false: it is not there. */
bool cuda_symbol(void *library, const char *name, void *function);

#endif
