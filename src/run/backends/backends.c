/* backends.c - the table of backends (backends.h). */
#include "run/backends/backends.h"

#include <string.h>

#ifdef WEFT_CUDA
#include "run/kernels/cuda/cuda.h"
#else
static weft_status cuda_kernels(int32_t place, const struct kernels **out)
{
    (void)place;
    (void)out;
    return failure(
        "this program was built without kernels for GPUs: nvcc of CUDA 12 or 13 was not found "
        "when it was configured");
}
#endif

#ifdef WEFT_NCCL
#include "run/transport/nccl/nccl.h"
#define GPU_CARRIER carry_by_nccl
#else
#define GPU_CARRIER carry_through_hosts
static weft_status carry_through_hosts(struct transport *host, const struct compute_device *device,
                                       struct device_stream *stream, struct transport **out)
{
    *out = transport_staged(host, device, stream);
    (*out)->note =
        "this program was built without NCCL's header: GPUs exchange through the memory of "
        "their hosts, which is slow";
    return WEFT_OK;
}
#endif

static weft_status cpu_kernels(int32_t place, const struct kernels **out)
{
    (void)place;
    *out = &CPU_KERNELS;
    return blas_open();
}

static const char BACKEND_NAMES[] = "cpu, cuda";
static const struct {
    const char *name;
    weft_status (*open)(int32_t place, const struct kernels **out);
    transport_carrier *carrier;
} BACKENDS[] = {
    {"cpu", cpu_kernels, NULL},
    {"cuda", cuda_kernels, GPU_CARRIER},
};

weft_status backend_open(const char *name, int32_t place, const struct kernels **out)
{
    for (size_t i = 0; i < COUNT_OF(BACKENDS); i++)
        if (strcmp(BACKENDS[i].name, name) == 0)
            return BACKENDS[i].open(place, out);
    return bad_argument(NULL, "no device is called '%s'; there are: %s", name, BACKEND_NAMES);
}

transport_carrier *backend_carrier(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(BACKENDS); i++)
        if (strcmp(BACKENDS[i].name, name) == 0)
            return BACKENDS[i].carrier;
    return NULL;
}
