/* gemm.c - matrix products by cuBLASLt (gemm.h).
 *
 *   I1  How a product of certain sizes is computed is asked for once and kept.
 *   I2  A product in fp32 whose rows are those of a batch is computed as one of many rows is, so that a row's sums are in the
 *       same order however many rows a device has: ranks that share a batch compute what one rank does, bit for bit.
 *   I3  Others are computed by the algorithm that measuring has chosen (choices.h), if there is one; else by the first that
 *       cuBLASLt's heuristics name.
 *   I4  Results in 16 bits are rounded once: parts of a sum that are computed apart are added up in fp32. Left alone, cuBLASLt adds
 *       up to hundreds of parts of a small product as they are rounded to the results' type.
 */
#include "run/kernels/cuda/choices.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <cublasLt.h>

/* ---- the library ----------------------------------------------------------------------------- */

#define LT_FUNCTIONS(X)                                                                            \
    X(cublasLtCreate)                                                                              \
    X(cublasLtGetVersion)                                                                          \
    X(cublasLtMatmulDescCreate)                                                                    \
    X(cublasLtMatmulDescDestroy)                                                                   \
    X(cublasLtMatmulDescSetAttribute)                                                              \
    X(cublasLtMatrixLayoutCreate)                                                                  \
    X(cublasLtMatrixLayoutDestroy)                                                                 \
    X(cublasLtMatrixLayoutSetAttribute)                                                            \
    X(cublasLtMatmulPreferenceCreate)                                                              \
    X(cublasLtMatmulPreferenceDestroy)                                                             \
    X(cublasLtMatmulPreferenceSetAttribute)                                                        \
    X(cublasLtMatmulAlgoGetHeuristic)                                                              \
    X(cublasLtMatmulAlgoCheck)                                                                     \
    X(cublasLtMatmul)

static struct {
#define LT_FIELD(name) __typeof__(&(name)) name##_;
    LT_FUNCTIONS(LT_FIELD)
#undef LT_FIELD
    cublasLtHandle_t handle;
} lt;
#define LT(name) (lt.name##_)

weft_status products_open(void)
{
    static const char *const NAMES[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL};
    const char *why = "", *missing = NULL;
    if (lt.handle)
        return WEFT_OK;
    void *library = cuda_library(NAMES, &why);
    if (!library)
        return failure(
            "products on a GPU need cuBLAS of CUDA 12 or 13, which cannot be opened (%s); "
            "add its folder to LD_LIBRARY_PATH",
            why);
#define LT_FIND(name)                                                                              \
    if (!cuda_symbol(library, #name, &lt.name##_))                                                 \
        missing = #name;
    LT_FUNCTIONS(LT_FIND)
#undef LT_FIND
    if (missing)
        return failure("libcublasLt has no %s", missing);
    return LT(cublasLtCreate)(&lt.handle) == CUBLAS_STATUS_SUCCESS
               ? WEFT_OK
               : failure("cuBLASLt does not start on this GPU");
}

/* ---- a product ------------------------------------------------------------------------------- */

struct found_gemm {
    struct gemm gemm;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algorithm;
    bool none;   /* of listed batches: there is no way */
    bool chosen; /* I3 */
};
_Static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(uint64_t[ALGORITHM_WORDS]),
               "algorithms of another size");

static cudaDataType_t type_of(enum dtype dtype)
{
    return dtype == DTYPE_BF16 ? CUDA_R_16BF : dtype == DTYPE_FP16 ? CUDA_R_16F : CUDA_R_32F;
}

static bool works(cublasStatus_t status)
{
    if (status != CUBLAS_STATUS_SUCCESS)
        cuda_fail("a product", "cuBLASLt refuses it");
    return status == CUBLAS_STATUS_SUCCESS;
}

/* Of an operand that is cast, or not. */
static cudaDataType_t operand_type(enum dtype dtype, int32_t cast)
{
    static const cudaDataType_t CAST[FP8_FORM_COUNT] = {
        [FP8_E4M3] = CUDA_R_8F_E4M3, [FP8_E5M2] = CUDA_R_8F_E5M2};
    return cast ? CAST[cast - 1] : type_of(dtype);
}

/* How a batch's matrices are found; true: the library can. */
static bool lay_batch(cublasLtMatrixLayout_t to, const struct gemm *g, int64_t apart)
{
    int32_t count = (int32_t)g->batch, mode = CUBLASLT_BATCH_MODE_POINTER_ARRAY;
    works(LT(cublasLtMatrixLayoutSetAttribute)(to, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                               sizeof count));
    if (g->listed)
        return LT(cublasLtMatrixLayoutSetAttribute)(to, CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, &mode,
                                                    sizeof mode) == CUBLAS_STATUS_SUCCESS;
    return works(LT(cublasLtMatrixLayoutSetAttribute)(
        to, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &apart, sizeof apart));
}

static bool layout(cublasLtMatrixLayout_t *out, const struct gemm *g, cudaDataType_t type,
                   int64_t rows, int64_t columns, int64_t step, int64_t apart)
{
    works(LT(cublasLtMatrixLayoutCreate)(out, type, (uint64_t)rows, (uint64_t)columns, step));
    return g->batch <= 1 || lay_batch(*out, g, apart);
}

static cublasLtMatmulDesc_t describe(const struct gemm *g)
{
    cublasLtMatmulDesc_t out = NULL;
    cublasOperation_t a = g->a_turned ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t b = g->b_turned ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    works(LT(cublasLtMatmulDescCreate)(&out, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    works(LT(cublasLtMatmulDescSetAttribute)(out, CUBLASLT_MATMUL_DESC_TRANSA, &a, sizeof a));
    works(LT(cublasLtMatmulDescSetAttribute)(out, CUBLASLT_MATMUL_DESC_TRANSB, &b, sizeof b));
    if (g->scaled) {
        int32_t mode = CUBLASLT_POINTER_MODE_DEVICE;
        works(LT(cublasLtMatmulDescSetAttribute)(out, CUBLASLT_MATMUL_DESC_POINTER_MODE, &mode,
                                                 sizeof mode));
    }
    if (g->biased) {
        cudaDataType_t type =
            type_of((enum dtype)g->in); /* of the weights, whatever the output is */
        works(LT(cublasLtMatmulDescSetAttribute)(out, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                                 sizeof epilogue));
        works(LT(cublasLtMatmulDescSetAttribute)(out, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type,
                                                 sizeof type));
    }
    return out;
}

static size_t workspace_of(const struct gemm *g)
{
    return g->listed ? WORKSPACE - LISTED : WORKSPACE;
}

static cublasLtMatmulPreference_t preference_of(const struct gemm *g)
{
    cublasLtMatmulPreference_t preference = NULL;
    uint64_t bytes = workspace_of(g);
    uint32_t sums = g->out == DTYPE_FP32 ? CUBLASLT_REDUCTION_SCHEME_MASK
                                         : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE; /* I4 */
    works(LT(cublasLtMatmulPreferenceCreate)(&preference));
    works(LT(cublasLtMatmulPreferenceSetAttribute)(
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes));
    const struct {
        cublasLtMatmulPreferenceAttributes_t which;
        uint32_t value;
    } wishes[] = {{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, (uint32_t)g->a_unit},
                  {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, (uint32_t)g->b_unit},
                  {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, (uint32_t)g->c_unit},
                  {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, (uint32_t)g->c_unit},
                  {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, sums}};
    for (size_t i = 0; i < COUNT_OF(wishes); i++)
        works(LT(cublasLtMatmulPreferenceSetAttribute)(preference, wishes[i].which,
                                                       &wishes[i].value, sizeof wishes[i].value));
    return preference;
}

static bool lay_out(struct found_gemm *f, const struct gemm *g)
{
    bool a = layout(&f->a, g, operand_type((enum dtype)g->in, g->a_cast), g->a_turned ? g->k : g->m,
                    g->a_turned ? g->m : g->k, g->a_step, g->a_apart);
    bool b = layout(&f->b, g, operand_type((enum dtype)g->in, g->b_cast), g->b_turned ? g->n : g->k,
                    g->b_turned ? g->k : g->n, g->b_step, g->b_apart);
    bool c = layout(&f->c, g, type_of((enum dtype)g->out), g->m, g->n, g->c_step, g->c_apart);
    return a && b && c;
}

static void forget_layouts(struct found_gemm *f)
{
    LT(cublasLtMatrixLayoutDestroy)(f->a);
    LT(cublasLtMatrixLayoutDestroy)(f->b);
    LT(cublasLtMatrixLayoutDestroy)(f->c);
}

/* What cuBLASLt thinks is best, the best first; how many, of at most `most`. */
static int ask_for(const struct found_gemm *f, int most, cublasLtMatmulHeuristicResult_t *result)
{
    cublasLtMatmulPreference_t preference = preference_of(&f->gemm);
    int count = 0;
    cublasStatus_t status = LT(cublasLtMatmulAlgoGetHeuristic)(
        lt.handle, f->desc, f->a, f->b, f->c, f->c, preference, most, result, &count);
    LT(cublasLtMatmulPreferenceDestroy)(preference);
    bool fine = f->gemm.listed ? status == CUBLAS_STATUS_SUCCESS : works(status);
    return fine ? count : 0;
}

/* False: it has no way. */
static bool ask_for_first(const struct found_gemm *f, cublasLtMatmulAlgo_t *algorithm)
{
    cublasLtMatmulHeuristicResult_t result = {0};
    bool found = ask_for(f, 1, &result) > 0;
    *algorithm = result.algo;
    return found;
}

static bool can_run(const struct found_gemm *f, const cublasLtMatmulAlgo_t *algorithm)
{
    cublasLtMatmulHeuristicResult_t checked = {0};
    return LT(cublasLtMatmulAlgoCheck)(lt.handle, f->desc, f->a, f->b, f->c, f->c, algorithm,
                                       &checked) == CUBLAS_STATUS_SUCCESS &&
           checked.workspaceSize <= workspace_of(&f->gemm);
}

/* I2 */
static bool ask_for_many_rows(struct found_gemm *f)
{
    enum { MANY = 4096 };
    struct found_gemm many = {.gemm = f->gemm, .desc = f->desc};
    if (f->gemm.in != DTYPE_FP32 || f->gemm.b_turned || f->gemm.batch > 1)
        return false;
    many.gemm.n = MANY;
    lay_out(&many, &many.gemm);
    bool found = ask_for_first(&many, &f->algorithm);
    forget_layouts(&many);
    return found && can_run(f, &f->algorithm);
}

/* I3 */
static bool take_choice(struct found_gemm *f)
{
    const struct chosen_gemm *choice = choice_of(&f->gemm);
    if (choice)
        memcpy(&f->algorithm, choice->algorithm, sizeof f->algorithm);
    f->chosen = choice != NULL;
    return f->chosen;
}

static void find(struct found_gemm *f, const struct gemm *g)
{
    f->gemm = *g;
    f->desc = describe(g);
    bool laid = lay_out(f, g);
    f->none =
        !laid || (!take_choice(f) && !ask_for_many_rows(f) && !ask_for_first(f, &f->algorithm));
    if (f->none && !g->listed)
        cuda_fail("a product", "cuBLASLt has no way to compute it");
}

static void forget(struct found_gemm *f)
{
    LT(cublasLtMatmulDescDestroy)(f->desc);
    forget_layouts(f);
}

/* I1; the last ones, each in the place that its sizes say. The caller holds the lock. */
enum { KEPT = 1024 };
static pthread_mutex_t finding = PTHREAD_MUTEX_INITIALIZER;
static struct found_gemm kept[KEPT];

static struct found_gemm *found_of(const struct gemm *g)
{
    struct found_gemm *f = &kept[hash_bytes(g, sizeof *g, 0) % KEPT];
    if (f->desc && memcmp(&f->gemm, g, sizeof *g) == 0)
        return f;
    if (f->desc)
        forget(f);
    find(f, g);
    return f;
}

int32_t unit_of(const void *address)
{
    enum { MOST = 256 };
    uintptr_t bits = (uintptr_t)address | MOST;
    return (int32_t)(bits & (~bits + 1));
}

/* ---- computing it ---------------------------------------------------------------------------- */

struct product_operands {
    const float *alpha, *beta;
    const void *a, *b;
    void *c;
};

static cublasStatus_t start(const struct kernel_call *call, const struct found_gemm *f,
                            const struct product_operands *o, const cublasLtMatmulAlgo_t *algorithm)
{
    return LT(cublasLtMatmul)(lt.handle, f->desc, o->alpha, o->a, f->a, o->b, f->b, o->beta, o->c,
                              f->c, o->c, f->c, algorithm, call->scratch, workspace_of(&f->gemm),
                              cuda_stream_handle(call->stream));
}

/* A choice that is refused when it is to run gives way to the first. */
static void run_found(const struct kernel_call *call, struct found_gemm *f,
                      const struct product_operands *o)
{
    cublasStatus_t status = start(call, f, o, &f->algorithm);
    if (status != CUBLAS_STATUS_SUCCESS && f->chosen && ask_for_first(f, &f->algorithm)) {
        f->chosen = false;
        status = start(call, f, o, &f->algorithm);
    }
    works(status);
}

/* ---- the quickest way (choices.h) ------------------------------------------------------------ */

enum { WAYS = 8 }; /* that are timed: those after the first few are rarely good */
/* Bytes that are written between two runs, so that operands come from memory: more than the caches of any GPU so far. */
static const int64_t AWAY_BYTES = (int64_t)256 << 20;
static bool seeks;

/* Of one run. The device is busy before it, and never waits for its host. Infinite: it is refused. */
static double time_way(const struct kernel_call *call, const struct found_gemm *f,
                       const struct product_operands *o, const cublasLtMatmulAlgo_t *way,
                       void *away)
{
    bool runs = start(call, f, o, way) == CUBLAS_STATUS_SUCCESS;
    CUDA_DEVICE.clear(call->stream, away, AWAY_BYTES);
    struct device_event *begin = CUDA_DEVICE.mark(call->stream);
    runs = runs && start(call, f, o, way) == CUBLAS_STATUS_SUCCESS;
    double seconds = CUDA_DEVICE.between(begin, CUDA_DEVICE.mark(call->stream));
    return runs ? seconds : INFINITY;
}

/* Bytes from the first to the last element of C. */
static int64_t output_bytes(const struct gemm *g)
{
    return ((g->batch - 1) * g->c_apart + (g->n - 1) * g->c_step + g->m) *
           dtype_bytes((enum dtype)g->out);
}

/* Into `room`, so that C is as if nothing had been timed; the first round is none. */
static void choose(const struct kernel_call *call, struct found_gemm *f,
                   const struct product_operands *operands, void *room, void *away)
{
    cublasLtMatmulHeuristicResult_t way[WAYS];
    double seconds[WAYS][CHOICE_ROUNDS];
    struct product_operands into = *operands;
    int ways = ask_for(f, WAYS, way);
    into.c = room;
    for (int r = -1; r < CHOICE_ROUNDS; r++)
        for (int w = 0; w < ways; w++)
            seconds[w][r < 0 ? 0 : r] = time_way(call, f, &into, &way[w].algo, away);
    if (ways == 0 || CUDA_DEVICE.failed() || isinf(seconds[0][0]))
        return;
    int best = quickest_way(ways, seconds);
    struct chosen_gemm chosen = {.gemm = f->gemm,
                                 .place = best,
                                 .ns = median_of_rounds(seconds[best]) * 1e9,
                                 .first_ns = median_of_rounds(seconds[0]) * 1e9,
                                 .found = true};
    f->algorithm = way[best].algo;
    f->chosen = true;
    memcpy(chosen.algorithm, &f->algorithm, sizeof f->algorithm);
    choice_add(&chosen);
}

/* I2 keeps products in fp32 from being chosen; the outputs of a list of matrices lie anywhere. */
static void seek_way(const struct kernel_call *call, struct found_gemm *f,
                     const struct product_operands *operands)
{
    if (!seeks || f->chosen || f->gemm.in == DTYPE_FP32 || f->gemm.listed)
        return;
    void *room = CUDA_DEVICE.allocate(call->stream, output_bytes(&f->gemm));
    void *away = CUDA_DEVICE.allocate(call->stream, AWAY_BYTES);
    if (room && away) {
        CUDA_DEVICE.clear(call->stream, room, output_bytes(&f->gemm));
        choose(call, f, operands, room, away);
    }
    CUDA_DEVICE.release(call->stream, room);
    CUDA_DEVICE.release(call->stream, away);
}

static const char *choice_library(void)
{
    static char name[64];
    size_t version = LT(cublasLtGetVersion)(); /* 130102: 13.1.2 */
    snprintf(name, sizeof name, "cuBLASLt %zu.%zu.%zu", version / 10000, version / 100 % 100,
             version % 100);
    return name;
}

/* Whether the library has such an algorithm for such a product, which then is computed by it. */
static bool take_one(const struct product_choice *choice)
{
    struct chosen_gemm chosen = {
        .place = choice->place, .ns = choice->ns, .first_ns = choice->first_ns};
    if (!gemm_from_text(choice->product, &chosen.gemm) ||
        !algorithm_from_text(choice->algorithm, chosen.algorithm))
        return false;
    if (choice_of(&chosen.gemm))
        return true;
    struct found_gemm f = {.gemm = chosen.gemm, .desc = describe(&chosen.gemm)};
    memcpy(&f.algorithm, chosen.algorithm, sizeof f.algorithm);
    bool has = lay_out(&f, &f.gemm) && can_run(&f, &f.algorithm);
    forget(&f);
    if (has)
        choice_add(&chosen);
    return has;
}

static size_t gpu_take(const struct product_choice *choices, size_t count)
{
    size_t refused = 0;
    pthread_mutex_lock(&finding);
    for (size_t i = 0; i < count; i++)
        refused += !take_one(&choices[i]);
    for (int i = 0; i < KEPT; i++)
        if (kept[i].desc) {
            forget(&kept[i]);
            kept[i] = (struct found_gemm){0};
        }
    pthread_mutex_unlock(&finding);
    return refused;
}

static void gpu_seek(bool now)
{
    pthread_mutex_lock(&finding);
    seeks = now;
    pthread_mutex_unlock(&finding);
}

static size_t gpu_found(struct arena *keep, size_t first, struct product_choice **out)
{
    pthread_mutex_lock(&finding);
    size_t count = choices_found(keep, first, out);
    pthread_mutex_unlock(&finding);
    return count;
}

const struct product_choices GPU_CHOICES = {choice_library, gpu_take, gpu_seek, gpu_found};

/* ---- products -------------------------------------------------------------------------------- */

static void multiply_by(const struct kernel_call *call, const struct gemm *sizes,
                        const struct product_operands *o, const void *bias)
{
    struct gemm g = *sizes;
    if (g.m == 0 || g.n == 0 || CUDA_DEVICE.failed())
        return;
    g.a_unit = unit_of(o->a);
    g.b_unit = unit_of(o->b);
    g.c_unit = unit_of(o->c);
    pthread_mutex_lock(&finding);
    struct found_gemm *f = found_of(&g);
    if (g.biased)
        works(LT(cublasLtMatmulDescSetAttribute)(f->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                                 sizeof bias));
    if (!CUDA_DEVICE.failed())
        seek_way(call, f, o);
    if (!CUDA_DEVICE.failed())
        run_found(call, f, o);
    pthread_mutex_unlock(&finding);
}

void multiply(const struct kernel_call *call, const struct gemm *sizes, float alpha, const void *a,
              const void *b, const void *bias, float beta, void *c)
{
    multiply_by(call, sizes, &(struct product_operands){&alpha, &beta, a, b, c}, bias);
}

void multiply_scaled(const struct kernel_call *call, const struct gemm *sizes, const float *factors,
                     const void *a, const void *b, const void *bias, void *c)
{
    multiply_by(call, sizes, &(struct product_operands){&factors[0], &factors[1], a, b, c}, bias);
}

bool multiply_listed(const struct kernel_call *call, const struct gemm *sizes, float alpha,
                     void **list, float beta)
{
    const struct gemm *g = sizes;
    if (CUDA_DEVICE.failed())
        return true;
    pthread_mutex_lock(&finding);
    struct found_gemm *f = found_of(g);
    bool can = !f->none;
    if (can)
        run_found(
            call, f,
            &(struct product_operands){&alpha, &beta, list, list + g->batch, list + 2 * g->batch});
    pthread_mutex_unlock(&finding);
    return can;
}

struct gemm gemm_of(enum dtype in, enum dtype out)
{
    return (struct gemm){.batch = 1, .in = (int32_t)in, .out = (int32_t)out};
}
