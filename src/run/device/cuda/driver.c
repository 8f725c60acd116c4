/* driver.c - libcuda is opened, a GPU is chosen, kernels are found and started (cuda.h). */
#include <pthread.h>

#include "run/device/cuda/driver.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct cuda_driver cuda_driver;

static struct cuda_facts facts;
static CUcontext context;
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool has_failed;
static char why_failed[256];

/* ---- what went wrong ------------------------------------------------------------------------- */

void cuda_fail(const char *what, const char *why)
{
    pthread_mutex_lock(&one_at_a_time);
    if (!atomic_load(&has_failed)) {
        snprintf(why_failed, sizeof why_failed, "%s: %s", what, why);
        atomic_store(&has_failed, true);
    }
    pthread_mutex_unlock(&one_at_a_time);
}

const char *cuda_failed(void)
{
    return atomic_load(&has_failed) ? why_failed : NULL;
}

bool cuda_works(CUresult result, const char *what)
{
    const char *why = "an error without a name";
    if (result == CUDA_SUCCESS)
        return true;
    CUDA(cuGetErrorString)(result, &why);
    cuda_fail(what, why);
    return false;
}

bool cuda_ready(void)
{
    static _Thread_local bool current;
    if (!current && context)
        current = cuda_works(CUDA(cuCtxSetCurrent)(context), "a thread is brought to the GPU");
    return current && !atomic_load(&has_failed);
}

/* ---- libraries ------------------------------------------------------------------------------- */

void *cuda_library(const char *const *names, const char **why)
{
    void *library = NULL;
    for (int i = 0; names[i] && !library; i++) {
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        *why = library ? NULL : dlerror();
    }
    return library;
}

bool cuda_symbol(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

static weft_status open_driver(void)
{
    static const char *const NAMES[] = {"libcuda.so.1", "libcuda.so", NULL};
    const char *why = "", *missing = NULL;
    void *library = cuda_library(NAMES, &why);
    if (!library)
        return failure("no GPU can be used here: NVIDIA's driver is not installed (%s)", why);
#define CUDA_FIND(name, text)                                                                      \
    if (!cuda_symbol(library, text, &cuda_driver.name##_))                                         \
        missing = text;
    CUDA_FUNCTIONS(CUDA_FIND)
#undef CUDA_FIND
    return missing
               ? failure("NVIDIA's driver is too old: it has no %s; Weft needs one for CUDA 11.2 "
                         "or later",
                         missing)
               : WEFT_OK;
}

/* ---- the GPU --------------------------------------------------------------------------------- */

static weft_status last_failure(void)
{
    return failure("%s", why_failed);
}

static int32_t attribute(CUdevice device, CUdevice_attribute which)
{
    int value = 0;
    cuda_works(CUDA(cuDeviceGetAttribute)(&value, which, device), "a fact of the GPU is read");
    return value;
}

/* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun ...": the first word of digits and points. */
static void read_driver(char *out, size_t room)
{
    char line[256] = "", *rest = line;
    int cuda = 0;
    FILE *file = fopen("/proc/driver/nvidia/version", "r");
    bool there = file && fgets(line, sizeof line, file);
    if (file)
        fclose(file);
    CUDA(cuDriverGetVersion)(&cuda);
    snprintf(out, room, "driver of CUDA %d.%d", cuda / 1000, cuda % 1000 / 10);
    for (const char *word; there && (word = strsep(&rest, " \t")) != NULL;)
        if (strchr(word, '.') && word[strspn(word, "0123456789.")] == 0) {
            snprintf(out, room, "driver %s of CUDA %d.%d", word, cuda / 1000, cuda % 1000 / 10);
            return;
        }
}

/* Newer drivers say it through NVML alone, whose functions are declared here as nvml.h does: not every CUDA brings that header. The
 * highest clock of the processors, in MHz; 0: not known. */
static double highest_clock_mhz(int place)
{
    enum { PROCESSORS = 1 /* NVML_CLOCK_SM */ };
    static const char *const NAMES[] = {"libnvidia-ml.so.1", NULL};
    int (*init)(void), (*find_gpu)(unsigned, void **), (*read)(void *, int, unsigned *);
    const char *why;
    void *library = cuda_library(NAMES, &why), *gpu = NULL;
    unsigned mhz = 0;
    if (!library || !cuda_symbol(library, "nvmlInit_v2", &init) ||
        !cuda_symbol(library, "nvmlDeviceGetHandleByIndex_v2", &find_gpu) ||
        !cuda_symbol(library, "nvmlDeviceGetMaxClockInfo", &read))
        return 0;
    if (init() || find_gpu((unsigned)place, &gpu) || read(gpu, PROCESSORS, &mhz))
        return 0;
    return mhz;
}

static void read_facts(CUdevice device)
{
    size_t bytes = 0;
    read_driver(facts.driver, sizeof facts.driver);
    facts.clock_hz = highest_clock_mhz(device) * 1e6;
    cuda_works(CUDA(cuDeviceGetName)(facts.name, sizeof facts.name, device), "its name is read");
    cuda_works(CUDA(cuDeviceTotalMem)(&bytes, device), "its memory is read");
    facts.memory_bytes = (int64_t)bytes;
    facts.processors = attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    facts.major = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    facts.minor = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    facts.shared_bytes = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
}

/* What is released stays with the process: taking it again costs next to nothing. */
static void keep_memory(CUdevice device)
{
    CUmemoryPool pool;
    cuuint64_t all = UINT64_MAX;
    if (cuda_works(CUDA(cuDeviceGetDefaultMemPool)(&pool, device), "its pool of memory is found"))
        cuda_works(CUDA(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all),
                   "its pool of memory is set up");
}

static weft_status open_gpu(int32_t place)
{
    int count = 0;
    CUdevice device;
    CUcontext found;
    weft_status status;
    TRY(open_driver());
    CUresult result = CUDA(cuInit)(0);
    if (result == CUDA_SUCCESS)
        result = CUDA(cuDeviceGetCount)(&count);
    if (result == CUDA_ERROR_NO_DEVICE || (result == CUDA_SUCCESS && count == 0))
        TRY(failure("no GPU can be used here: NVIDIA's driver sees none"));
    if (!cuda_works(result, "the driver starts") ||
        !cuda_works(CUDA(cuDeviceGet)(&device, place % count), "a GPU is chosen") ||
        !cuda_works(CUDA(cuDevicePrimaryCtxRetain)(&found, device), "the GPU is taken"))
        TRY(last_failure());
    context = found;
    if (!cuda_ready())
        TRY(last_failure());
    read_facts(device);
    facts.count = count;
    keep_memory(device);
    if (facts.major < 8)
        TRY(failure("%s has compute capability %d.%d; Weft's kernels need 8.0 (Ampere) or later",
                    facts.name, facts.major, facts.minor));
done:
    return status;
}

weft_status cuda_open(int32_t place)
{
    static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&opening);
    if (!context)
        status = open_gpu(place);
    else if (atomic_load(&has_failed))
        status = last_failure();
    pthread_mutex_unlock(&opening);
    return status;
}

const struct cuda_facts *cuda_facts(void)
{
    return &facts;
}

/* ---- kernels --------------------------------------------------------------------------------- */

static CUfunction find(struct cuda_kernel *kernel, int which)
{
    static pthread_mutex_t finding = PTHREAD_MUTEX_INITIALIZER;
    static const char *const STORAGE[CUDA_STORAGES] = {"_fp32", "_bf16", "_fp16"};
    char name[96];
    CUmodule module = NULL;
    CUfunction function = NULL;
    snprintf(name, sizeof name, "%s%s", kernel->name, kernel->both ? STORAGE[which] : "");
    pthread_mutex_lock(&finding);
    if (!kernel->code->module &&
        cuda_works(CUDA(cuModuleLoadData)(&module, kernel->code->data), "kernels are loaded"))
        kernel->code->module = module;
    if (kernel->code->module && !kernel->function[which] &&
        cuda_works(CUDA(cuModuleGetFunction)(&function, kernel->code->module, name), name))
        kernel->function[which] = function;
    function = kernel->function[which];
    pthread_mutex_unlock(&finding);
    return function;
}

/* Two threads may ask for two sizes at once: the lock keeps the larger one. */
static void allow_shared(struct cuda_kernel *kernel, int which, int32_t bytes)
{
    enum { WITHOUT_ASKING = 48 << 10 };
    static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;
    if (bytes <= WITHOUT_ASKING)
        return;
    pthread_mutex_lock(&asking);
    if (bytes > kernel->allowed[which] &&
        cuda_works(CUDA(cuFuncSetAttribute)(kernel->function[which],
                                            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes),
                   kernel->name))
        kernel->allowed[which] = bytes;
    pthread_mutex_unlock(&asking);
}

void cuda_launch(struct device_stream *stream, struct cuda_kernel *kernel, enum dtype dtype,
                 struct cuda_grid grid, const void *const *arguments)
{
    static const int STORED[DTYPE_COUNT] = {[DTYPE_BF16] = 1, [DTYPE_FP16] = 2};
    int which = kernel->both ? STORED[dtype] : 0;
    if (!cuda_ready() || grid.x < 1 || grid.y < 1 || grid.z < 1)
        return;
    CUfunction function = kernel->function[which];
    if (!function)
        function = find(kernel, which);
    if (!function)
        return;
    allow_shared(kernel, which, grid.shared);
    cuda_works(CUDA(cuLaunchKernel)(function, (unsigned)grid.x, (unsigned)grid.y, (unsigned)grid.z,
                                    (unsigned)grid.threads, 1, 1, (unsigned)grid.shared,
                                    stream->stream, (void **)(uintptr_t)arguments, NULL),
               kernel->name);
}

struct cuda_grid cuda_elements(int64_t count)
{
    enum { THREADS = 256, BLOCKS_PER_PROCESSOR = 16 };
    int64_t blocks = ceil_div(count, THREADS),
            most = (int64_t)facts.processors * BLOCKS_PER_PROCESSOR;
    return (struct cuda_grid){blocks < most ? blocks : most, 1, 1, THREADS, 0};
}
