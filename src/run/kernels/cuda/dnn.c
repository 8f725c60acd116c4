/* dnn.c - chains of operations that cuDNN computes as one kernel (dnn.h), through its backend interface.
 *
 * The library is opened when the first recipe is written; a program that was built without cuDNN's headers
 * (dnn_none.c), and a machine without cuDNN, have none.
 */
#include "run/kernels/cuda/dnn.h"

#include <pthread.h>
#include <stdlib.h>

#if __has_include(<cudnn.h>)

#include <cudnn.h>

/* ---- the library ----------------------------------------------------------------------------- */

#define DNN_FUNCTIONS(X)                                                                           \
    X(cudnnCreate)                                                                                 \
    X(cudnnSetStream)                                                                              \
    X(cudnnBackendCreateDescriptor)                                                                \
    X(cudnnBackendDestroyDescriptor)                                                               \
    X(cudnnBackendSetAttribute)                                                                    \
    X(cudnnBackendGetAttribute)                                                                    \
    X(cudnnBackendFinalize)                                                                        \
    X(cudnnBackendExecute)

static struct {
#define DNN_FIELD(name) __typeof__(&(name)) name##_;
    DNN_FUNCTIONS(DNN_FIELD)
#undef DNN_FIELD
    cudnnHandle_t handle; /* NULL: cuDNN is not here */
    pthread_mutex_t lock; /* of the handle's stream */
} dnn = {.lock = PTHREAD_MUTEX_INITIALIZER};
#define DNN(name) (dnn.name##_)

static void open_library(void)
{
    static const char *const NAMES[] = {"libcudnn.so.9", NULL};
    const char *why = "", *missing = NULL;
    void *library = cuda_library(NAMES, &why);
    if (!library)
        return;
#define DNN_FIND(name)                                                                             \
    if (!cuda_symbol(library, #name, &dnn.name##_))                                                \
        missing = #name;
    DNN_FUNCTIONS(DNN_FIND)
#undef DNN_FIND
    cudnnHandle_t handle = NULL;
    if (!missing && DNN(cudnnCreate)(&handle) == CUDNN_STATUS_SUCCESS)
        dnn.handle = handle;
}

static bool is_open(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_library);
    return dnn.handle != NULL;
}

/* ---- descriptors ----------------------------------------------------------------------------- */

typedef cudnnBackendDescriptor_t descriptor;

struct dnn_recipe {
    bool refused; /* I2 */
    bool repeats; /* I3 */
    int tensors, operations, descriptors, places;
    descriptor tensor[DNN_MOST], operation[DNN_MOST];
    struct dnn_tensor shape[DNN_MOST];
    int64_t id[DNN_MOST];
    /* all of the above, and what they are made of */
    descriptor all[4 * DNN_MOST];
};

static void check(struct dnn_recipe *r, cudnnStatus_t status)
{
    r->refused = r->refused || status != CUDNN_STATUS_SUCCESS;
}

static descriptor begin(struct dnn_recipe *r, cudnnBackendDescriptorType_t type)
{
    descriptor made = NULL;
    if (r->refused || r->descriptors >= (int)COUNT_OF(r->all)) {
        r->refused = true;
        return NULL;
    }
    check(r, DNN(cudnnBackendCreateDescriptor)(type, &made));
    if (!r->refused)
        r->all[r->descriptors++] = made;
    return made;
}

static void set(struct dnn_recipe *r, descriptor d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
    if (!r->refused)
        check(r, DNN(cudnnBackendSetAttribute)(d, name, type, count, values));
}

static void set_part(struct dnn_recipe *r, descriptor d, cudnnBackendAttributeName_t name,
                     descriptor part)
{
    set(r, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part);
}

static void finish(struct dnn_recipe *r, descriptor d)
{
    if (!r->refused)
        check(r, DNN(cudnnBackendFinalize)(d));
}

struct dnn_recipe *dnn_recipe_new(void)
{
    struct dnn_recipe *r = is_open() ? calloc(1, sizeof *r) : NULL;
    return r;
}

/* What a plan was made of stays, where there is one: it may be read later. */
static void forget_descriptors(struct dnn_recipe *r)
{
    while (r->descriptors > 0)
        DNN(cudnnBackendDestroyDescriptor)(r->all[--r->descriptors]);
}

void dnn_recipe_free(struct dnn_recipe *recipe)
{
    if (recipe && recipe->refused)
        forget_descriptors(recipe);
    free(recipe);
}

/* ---- tensors --------------------------------------------------------------------------------- */

static const cudnnDataType_t TYPES[] = {
    [DNN_FP32] = CUDNN_DATA_FLOAT,      [DNN_BF16] = CUDNN_DATA_BFLOAT16,
    [DNN_FP16] = CUDNN_DATA_HALF,       [DNN_INT32] = CUDNN_DATA_INT32,
    [DNN_BOOLEAN] = CUDNN_DATA_BOOLEAN,
};
_Static_assert(COUNT_OF(TYPES) == DNN_TYPE_COUNT, "a type without a row");

enum tensor_kind { TENSOR_GIVEN, TENSOR_NUMBER, TENSOR_BETWEEN };

static int add_tensor(struct dnn_recipe *r, enum tensor_kind kind, const struct dnn_tensor *t)
{
    enum { UNIT = 16 }; /* bytes that addresses are multiples of */
    int number = r->tensors;
    int64_t id = number + 1, unit = UNIT;
    bool yes = true;
    if (number >= DNN_MOST) {
        r->refused = true;
        return 0;
    }
    descriptor d = begin(r, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(r, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &TYPES[t->type]);
    set(r, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, DNN_DIMS, t->size);
    set(r, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, DNN_DIMS, t->step);
    set(r, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(r, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &unit);
    if (kind != TENSOR_GIVEN)
        set(r, d,
            kind == TENSOR_NUMBER ? CUDNN_ATTR_TENSOR_IS_BY_VALUE : CUDNN_ATTR_TENSOR_IS_VIRTUAL,
            CUDNN_TYPE_BOOLEAN, 1, &yes);
    finish(r, d);
    r->tensor[number] = d;
    r->shape[number] = *t;
    if (kind != TENSOR_BETWEEN)
        r->id[r->places++] = id;
    r->tensors++;
    return number;
}

int dnn_given(struct dnn_recipe *recipe, const struct dnn_tensor *tensor)
{
    return add_tensor(recipe, TENSOR_GIVEN, tensor);
}

int dnn_number(struct dnn_recipe *recipe)
{
    return add_tensor(recipe, TENSOR_NUMBER,
                      &(struct dnn_tensor){DNN_FP32, {1, 1, 1, 1}, {1, 1, 1, 1}});
}

int dnn_between(struct dnn_recipe *recipe, const struct dnn_tensor *tensor)
{
    return add_tensor(recipe, TENSOR_BETWEEN, tensor);
}

/* ---- operations ------------------------------------------------------------------------------ */

static void add_operation(struct dnn_recipe *r, descriptor d)
{
    finish(r, d);
    if (r->operations >= DNN_MOST)
        r->refused = true;
    if (!r->refused)
        r->operation[r->operations++] = d;
}

static const cudnnDataType_t IN_FP32 = CUDNN_DATA_FLOAT;

void dnn_product(struct dnn_recipe *recipe, int a, int b, int c)
{
    descriptor how = begin(recipe, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set(recipe, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &IN_FP32);
    finish(recipe, how);
    descriptor d = begin(recipe, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set_part(recipe, d, CUDNN_ATTR_OPERATION_MATMUL_ADESC, recipe->tensor[a]);
    set_part(recipe, d, CUDNN_ATTR_OPERATION_MATMUL_BDESC, recipe->tensor[b]);
    set_part(recipe, d, CUDNN_ATTR_OPERATION_MATMUL_CDESC, recipe->tensor[c]);
    set_part(recipe, d, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    add_operation(recipe, d);
}

/* axis: of an index, else -1. */
static const struct {
    cudnnPointwiseMode_t mode;
    cudnnDataType_t type;
    int64_t axis;
} EACH[] = {
    [DNN_ADD] = {CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, -1},
    [DNN_SUBTRACT] = {CUDNN_POINTWISE_SUB, CUDNN_DATA_FLOAT, -1},
    [DNN_MULTIPLY] = {CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, -1},
    [DNN_DIVIDE] = {CUDNN_POINTWISE_DIV, CUDNN_DATA_FLOAT, -1},
    [DNN_EXPONENT] = {CUDNN_POINTWISE_EXP, CUDNN_DATA_FLOAT, -1},
    [DNN_LOGARITHM] = {CUDNN_POINTWISE_LOG, CUDNN_DATA_FLOAT, -1},
    [DNN_COPY] = {CUDNN_POINTWISE_IDENTITY, CUDNN_DATA_FLOAT, -1},
    [DNN_ROW] = {CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, 2},
    [DNN_COLUMN] = {CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, 3},
    [DNN_NOT_LESS] = {CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, -1},
    [DNN_SELECT] = {CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, -1},
};
_Static_assert(COUNT_OF(EACH) == DNN_OPERATION_COUNT, "an operation without a row");

void dnn_each(struct dnn_recipe *recipe, enum dnn_operation operation, int x, int b, int t, int y)
{
    descriptor how = begin(recipe, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(recipe, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1,
        &EACH[operation].mode);
    set(recipe, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1,
        &EACH[operation].type);
    if (EACH[operation].axis >= 0)
        set(recipe, how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &EACH[operation].axis);
    finish(recipe, how);
    descriptor d = begin(recipe, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_part(recipe, d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    set_part(recipe, d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, recipe->tensor[x]);
    if (b >= 0)
        set_part(recipe, d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, recipe->tensor[b]);
    if (t >= 0)
        set_part(recipe, d, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, recipe->tensor[t]);
    set_part(recipe, d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, recipe->tensor[y]);
    add_operation(recipe, d);
}

void dnn_reduce(struct dnn_recipe *recipe, enum reduce how, int x, int y)
{
    cudnnReduceTensorOp_t operation =
        how == REDUCE_SUM ? CUDNN_REDUCE_TENSOR_ADD : CUDNN_REDUCE_TENSOR_MAX;
    descriptor reduction = begin(recipe, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    set(recipe, reduction, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1,
        &operation);
    set(recipe, reduction, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &IN_FP32);
    finish(recipe, reduction);
    descriptor d = begin(recipe, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set_part(recipe, d, CUDNN_ATTR_OPERATION_REDUCTION_DESC, reduction);
    set_part(recipe, d, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, recipe->tensor[x]);
    set_part(recipe, d, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, recipe->tensor[y]);
    add_operation(recipe, d);
}

void dnn_view(struct dnn_recipe *recipe, int x, int y)
{
    descriptor d = begin(recipe, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    set_part(recipe, d, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, recipe->tensor[x]);
    set_part(recipe, d, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, recipe->tensor[y]);
    add_operation(recipe, d);
}

/* What cuDNN calls each pass and its operands. */
static const struct {
    cudnnBackendDescriptorType_t kind;
    cudnnBackendAttributeName_t how, x, w, y, alpha, beta;
} PASSES[] = {
    [DNN_FORWARD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    [DNN_INPUT] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    [DNN_WEIGHT] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};
_Static_assert(COUNT_OF(PASSES) == DNN_PASS_COUNT, "a pass without a row");

static descriptor describe_window(struct dnn_recipe *r, const struct dnn_window *window)
{
    const int64_t axes = 2, near[] = {1, 1};
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    descriptor d = begin(r, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    set(r, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &IN_FP32);
    set(r, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set(r, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &axes);
    set(r, d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, axes, near);
    set(r, d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, axes, window->stride);
    set(r, d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, axes, window->before);
    set(r, d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, axes, window->after);
    finish(r, d);
    return d;
}

void dnn_convolution(struct dnn_recipe *recipe, enum dnn_pass pass, const struct dnn_window *window,
                     int x, int w, int y)
{
    const float alpha = 1, beta = 0;
    descriptor how = describe_window(recipe, window), d = begin(recipe, PASSES[pass].kind);
    set_part(recipe, d, PASSES[pass].how, how);
    set_part(recipe, d, PASSES[pass].x, recipe->tensor[x]);
    set_part(recipe, d, PASSES[pass].w, recipe->tensor[w]);
    set_part(recipe, d, PASSES[pass].y, recipe->tensor[y]);
    set(recipe, d, PASSES[pass].alpha, CUDNN_TYPE_FLOAT, 1, &alpha);
    set(recipe, d, PASSES[pass].beta, CUDNN_TYPE_FLOAT, 1, &beta);
    recipe->repeats = true;
    add_operation(recipe, d);
}

/* ---- plans ----------------------------------------------------------------------------------- */

static descriptor all_operations(struct dnn_recipe *r)
{
    descriptor d = begin(r, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(r, d, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, r->operations,
        r->operation);
    set(r, d, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &dnn.handle);
    finish(r, d);
    return d;
}

/* The kernels that cuDNN would take, the best first; how many there are. */
enum { CHOICES = 8 };
static int64_t propose(struct dnn_recipe *r, descriptor operations, descriptor *choice)
{
    cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    int64_t count = 0;
    descriptor d = begin(r, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set_part(r, d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, operations);
    set(r, d, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    finish(r, d);
    for (int i = 0; i < CHOICES; i++)
        choice[i] = begin(r, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (!r->refused)
        check(r, DNN(cudnnBackendGetAttribute)(d, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                               CUDNN_TYPE_BACKEND_DESCRIPTOR, CHOICES, &count,
                                               (void *)choice));
    return r->refused ? 0 : count < CHOICES ? count : CHOICES;
}

/* I3 */
static bool repeats(struct dnn_recipe *r, descriptor choice)
{
    cudnnBackendNumericalNote_t note[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t engines = 0, notes = 0;
    descriptor engine = begin(r, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    if (!engine || DNN(cudnnBackendGetAttribute)(choice, CUDNN_ATTR_ENGINECFG_ENGINE,
                                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &engines,
                                                 (void *)&engine) != CUDNN_STATUS_SUCCESS)
        return false;
    if (DNN(cudnnBackendGetAttribute)(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                      CUDNN_TYPE_NUMERICAL_NOTE, COUNT_OF(note), &notes,
                                      note) != CUDNN_STATUS_SUCCESS)
        return false;
    for (int64_t i = 0; i < notes && i < (int64_t)COUNT_OF(note); i++)
        if (note[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)
            return false;
    return true;
}

/* Whether a proposed kernel can be had; not every one can. */
static bool try_choice(struct dnn_recipe *r, descriptor choice, descriptor *plan)
{
    if (r->repeats && !repeats(r, choice))
        return false;
    *plan = begin(r, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    if (!*plan)
        return false;
    return DNN(cudnnBackendSetAttribute)(*plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE,
                                         1, &dnn.handle) == CUDNN_STATUS_SUCCESS &&
           DNN(cudnnBackendSetAttribute)(*plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                         CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                         &choice) == CUDNN_STATUS_SUCCESS &&
           DNN(cudnnBackendFinalize)(*plan) == CUDNN_STATUS_SUCCESS;
}

static void read_plan(struct dnn_recipe *r, descriptor plan, struct dnn_plan *out)
{
    int64_t count = 0;
    check(r, DNN(cudnnBackendGetAttribute)(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                           CUDNN_TYPE_INT64, 1, &count, &out->workspace));
    out->places = r->places;
    for (int i = 0; i < r->places; i++)
        out->id[i] = r->id[i];
    out->plan = r->refused ? NULL : plan;
}

void dnn_plan(struct dnn_recipe *recipe, struct dnn_plan *out)
{
    descriptor choice[CHOICES] = {0}, plan = NULL;
    *out = (struct dnn_plan){0};
    descriptor operations = all_operations(recipe);
    int64_t count = propose(recipe, operations, choice);
    for (int64_t i = 0; i < count && !recipe->refused; i++)
        if (try_choice(recipe, choice[i], &plan)) {
            read_plan(recipe, plan, out);
            return;
        }
    recipe->refused = true;
}

bool dnn_run(const struct dnn_plan *plan, struct device_stream *stream,
             const struct dnn_place *places, void *workspace)
{
    struct dnn_recipe pack = {0};
    const void *address[DNN_MOST];
    for (int i = 0; i < plan->places; i++)
        address[i] = places[i].memory ? places[i].memory : (const void *)&places[i].number;
    descriptor d = begin(&pack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set(&pack, d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, plan->places, plan->id);
    set(&pack, d, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, plan->places,
        (const void *)address);
    set(&pack, d, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    finish(&pack, d);
    pthread_mutex_lock(&dnn.lock);
    check(&pack, DNN(cudnnSetStream)(dnn.handle, (cudaStream_t)cuda_stream_handle(stream)));
    if (!pack.refused)
        check(&pack, DNN(cudnnBackendExecute)(dnn.handle, plan->plan, d));
    pthread_mutex_unlock(&dnn.lock);
    if (pack.refused)
        cuda_fail("a kernel of cuDNN", "cuDNN refuses it");
    forget_descriptors(&pack);
    return !pack.refused;
}

#else

typedef int no_dnn; /* dnn_none.c */

#endif
