/* fp8.c - products in fp8 (fp8.h): the casts, and which matrices are multiplied. */
#include "run/kernels/cuda/fp8.h"

extern struct cuda_code CUDA_CODE_fp8, CUDA_CODE_experts;
GPU_KERNEL(SPREAD_BIAS, experts, "spread_biases");
#define FP8_KERNEL(variable, text)                                                                 \
    static struct cuda_kernel variable[FP8_FORM_COUNT] = {                                         \
        {.code = &CUDA_CODE_fp8, .name = text "_e4m3"},                                            \
        {.code = &CUDA_CODE_fp8, .name = text "_e5m2"}}
FP8_KERNEL(CAST_ROWS, "cast_rows");
FP8_KERNEL(CAST_TURNED, "cast_turned");
FP8_KERNEL(CAST_WIDE, "cast_wide");
FP8_KERNEL(FACTORS, "factors");
static struct cuda_kernel LARGEST = {.code = &CUDA_CODE_fp8, .name = "largest"},
                          REMEMBERED = {.code = &CUDA_CODE_fp8, .name = "remembered"};

enum { UNIT = 16 };

/* The start of the room: the largest number of either operand, then alpha and beta of the product. */
struct cast_numbers {
    uint32_t most[2];
    float factor[2];
};

/* An operand of `matrices` matrices of so many rows and columns, which lie one after the other. */
struct operand8 {
    const void *from;
    enum fp8_operand which;
    int64_t matrices, rows, columns;
    bool turned;
};

/* A product for each of `at_once` matrices, `samples` times over; the results are rows of the second operand's rows. An
 * operand with no more matrices than `at_once` is the same for all samples, as are results that are added up. */
struct product8 {
    struct operand8 left, right;
    int64_t samples, at_once;
    int64_t m, n, k;
    enum dtype out;
    bool adds, onto; /* to what is there: sums of all samples; one by one */
    const void *bias;
    void *to;
};

static int64_t up(int64_t bytes)
{
    return ceil_div(bytes, 256) * 256;
}

static void find_largest(const struct kernel_call *call, const struct operand8 *o, uint32_t *most)
{
    int64_t count = o->matrices * o->rows * o->columns;
    CUDA_LAUNCH(call->stream, &LARGEST, DTYPE_FP32, cuda_elements(ceil_div(count, 8)), &o->from,
                &count, &most);
}

static int64_t stepped(int64_t rows)
{
    return ceil_div(rows, UNIT) * UNIT;
}

/* Bytes from a cast matrix to the next, in 8 bits or in bf16. */
static int64_t apart(const struct operand8 *o, bool casts)
{
    if (!casts)
        return o->rows * o->columns * dtype_bytes(DTYPE_BF16);
    return o->turned ? o->columns * stepped(o->rows) : o->rows * o->columns;
}

/* Where this step's largest number of an operand is remembered; NULL: nowhere. */
static float *history_of(const struct kernel_call *call, const struct operand8 *o)
{
    return call->history.most ? call->history.most + o->which : NULL;
}

static void cast(const struct kernel_call *call, const struct operand8 *o, const uint32_t *most,
                 char *to)
{
    enum { TALL = 128, ACROSS = 64, THREADS = 256 }; /* as in fp8.cu */
    int64_t count = o->matrices * o->rows * o->columns, step = stepped(o->rows);
    enum fp8_form form = FP8_FORM_OF[o->which];
    float *history = history_of(call, o);
    struct cuda_grid grid = {ceil_div(step, TALL), ceil_div(o->columns, ACROSS), o->matrices,
                             THREADS, 0};
    if (o->turned)
        CUDA_LAUNCH(call->stream, &CAST_TURNED[form], DTYPE_FP32, grid, &o->from, &o->rows,
                    &o->columns, &most, &history, &step, &to);
    else
        CUDA_LAUNCH(call->stream, &CAST_ROWS[form], DTYPE_FP32, cuda_elements(count / 8), &o->from,
                    &count, &most, &history, &to);
}

static void cast_wide(const struct kernel_call *call, const struct operand8 *o,
                      const uint32_t *most, char *to)
{
    int64_t count = o->matrices * o->rows * o->columns;
    float *history = history_of(call, o);
    CUDA_LAUNCH(call->stream, &CAST_WIDE[FP8_FORM_OF[o->which]], DTYPE_FP32, cuda_elements(count),
                &o->from, &count, &most, &history, &to);
}

/* I1: both as rows of k numbers; or the same numbers in bf16, each as it lies. */
static struct gemm gemm_of_product(const struct product8 *p, bool casts)
{
    const struct operand8 *a = &p->left, *b = &p->right;
    struct gemm g = gemm_of(DTYPE_BF16, p->out);
    int64_t each = casts ? 1 : dtype_bytes(DTYPE_BF16);
    g.batch = p->at_once;
    g.m = g.c_step = p->m;
    g.n = p->n;
    g.k = casts ? ceil_div(p->k, UNIT) * UNIT : p->k;
    g.a_step = casts ? g.k : a->columns;
    g.b_step = casts ? g.k : b->columns;
    g.a_turned = casts || !a->turned;
    g.b_turned = !casts && b->turned;
    g.a_cast = casts ? 1 + (int32_t)FP8_FORM_OF[a->which] : 0;
    g.b_cast = casts ? 1 + (int32_t)FP8_FORM_OF[b->which] : 0;
    g.a_apart = apart(a, casts) / each;
    g.b_apart = apart(b, casts) / each;
    g.c_apart = p->m * p->n;
    g.scaled = true;
    g.biased = p->bias != NULL;
    return g;
}

/* Where a sample's matrices of an operand begin. */
static char *sample_of(const struct product8 *p, const struct operand8 *o, bool casts, char *from,
                       int64_t sample)
{
    return from + (o->matrices > p->at_once ? sample * p->at_once * apart(o, casts) : 0);
}

static void multiply_all(const struct kernel_call *call, const struct product8 *p, bool casts,
                         const struct cast_numbers *n, char *left, char *right)
{
    struct gemm g = gemm_of_product(p, casts);
    (casts ? cast : cast_wide)(call, &p->left, &n->most[0], left);
    (casts ? cast : cast_wide)(call, &p->right, &n->most[1], right);
    for (int64_t i = 0; i < p->samples; i++) {
        int64_t at = p->adds ? 0 : i * p->at_once * g.c_apart * dtype_bytes(p->out);
        multiply_scaled(call, &g, n->factor, sample_of(p, &p->left, casts, left, i),
                        sample_of(p, &p->right, casts, right, i), p->bias, (char *)p->to + at);
    }
}

static bool has_products(void)
{
    const struct cuda_facts *facts = cuda_facts();
    return facts->major * 10 + facts->minor >= 89; /* Ada and Hopper */
}

static bool is_aligned(const void *address)
{
    return (uintptr_t)address % UNIT == 0;
}

/* What is found before the casts. */
static void find_numbers(const struct kernel_call *call, const struct product8 *p,
                         struct cast_numbers *n)
{
    enum { THREADS = 256 };
    const struct fp8_history *h = &call->history;
    const uint32_t *most = n->most;
    float *factor = n->factor, before = p->adds || p->onto ? 1 : 0;
    if (h->most && !h->first) {
        const float *left = history_of(call, &p->left), *right = history_of(call, &p->right);
        int64_t slots = FP8_HISTORY;
        CUDA_LAUNCH(call->stream, &REMEMBERED, DTYPE_FP32, row_grid(2, THREADS), &left, &right,
                    &h->stride, &slots, &most);
    } else {
        CUDA_DEVICE.clear(call->stream, n, sizeof *n);
        find_largest(call, &p->left, &n->most[0]);
        find_largest(call, &p->right, &n->most[1]);
    }
    CUDA_LAUNCH(call->stream, &FACTORS[FP8_FORM_OF[p->right.which]], DTYPE_FP32,
                ((struct cuda_grid){1, 1, 1, 1, 0}), &most, &before, &factor);
}

/* cuBLASLt adds a bias to results of odd sizes after they have been rounded. There the product is added to the biases, so that
 * sums are rounded once. */
static struct product8 onto_bias(const struct kernel_call *call, const struct product8 *p)
{
    struct product8 out = *p;
    int64_t count = p->m * p->n, experts = 1;
    int in_fp32 = 0;
    CUDA_LAUNCH(call->stream, &SPREAD_BIAS, DTYPE_BF16, cuda_elements(count), &p->bias, &p->to,
                &in_fp32, &count, &p->n, &experts, &p->m);
    out.bias = NULL;
    out.onto = true;
    return out;
}

static void run_product(const struct kernel_call *call, const struct product8 *p, void *room)
{
    struct cast_numbers *n = room;
    struct product8 onto;
    bool units = p->m % UNIT == 0 && p->n % UNIT == 0 && is_aligned(p->left.from) &&
                 is_aligned(p->right.from) && is_aligned(p->to) && is_aligned(p->bias);
    bool casts =
        has_products() && units && (p->k % UNIT == 0 || (p->left.turned && p->right.turned));
    char *left = (char *)room + up(sizeof *n);
    char *right = left + up(p->left.matrices * apart(&p->left, casts));
    if (p->bias && !casts) {
        onto = onto_bias(call, p);
        p = &onto;
    }
    find_numbers(call, p, n);
    multiply_all(call, p, casts, n, left, right);
}

/* ---- phases ---------------------------------------------------------------------------------- */

static struct operand8 weights_of(const struct kernel_call *call, const struct fp8_sizes *s,
                                  bool turned)
{
    return (struct operand8){call->weight[0], FP8_WEIGHT, s->experts, s->out, s->in, turned};
}

static struct operand8 rows_of(const struct fp8_sizes *s, enum fp8_operand which, const void *from,
                               int64_t width, bool turned)
{
    return (struct operand8){from, which, s->samples * s->experts, s->rows, width, turned};
}

/* Y' = W'^T X', with a linear layer's bias; experts' are there before (experts.c). */
void fp8_forward(const struct kernel_call *call, const struct fp8_sizes *s, void *room)
{
    bool biased = call->op->weights > 1 && call->adds_once, linear = call->op->kind == OP_LINEAR;
    struct product8 p = {.left = weights_of(call, s, false),
                         .right = rows_of(s, FP8_INPUT, call->input[0], s->in, false),
                         .samples = s->samples,
                         .at_once = s->experts,
                         .m = s->out,
                         .n = s->rows,
                         .k = s->in,
                         .out = DTYPE_BF16,
                         .bias = biased && linear ? call->weight[1] : NULL,
                         .onto = biased && !linear,
                         .to = call->output};
    run_product(call, &p, room);
}

/* dX' = W' dY' */
void fp8_input(const struct kernel_call *call, const struct fp8_sizes *s, void *room)
{
    struct product8 p = {.left = weights_of(call, s, true),
                         .right = rows_of(s, FP8_GRADIENT, call->output_gradient, s->out, false),
                         .samples = s->samples,
                         .at_once = s->experts,
                         .m = s->in,
                         .n = s->rows,
                         .k = s->out,
                         .out = DTYPE_BF16,
                         .to = call->input_gradient[0]};
    if (p.to)
        run_product(call, &p, room);
}

/* dW' += X' dY'^T */
void fp8_weight(const struct kernel_call *call, const struct fp8_sizes *s, void *room)
{
    struct product8 p = {.left = rows_of(s, FP8_INPUT, call->input[0], s->in, true),
                         .right = rows_of(s, FP8_GRADIENT, call->output_gradient, s->out, true),
                         .samples = s->samples,
                         .at_once = s->experts,
                         .m = s->in,
                         .n = s->out,
                         .k = s->rows,
                         .out = DTYPE_FP32,
                         .adds = true,
                         .to = call->weight_gradient[0]};
    run_product(call, &p, room);
}

/* The most that casts of these matrices take, whichever way they are multiplied. */
static int64_t cast_bytes(int64_t matrices, int64_t rows, int64_t columns)
{
    int64_t wide = rows * columns * dtype_bytes(DTYPE_BF16), turned = columns * stepped(rows);
    return up(matrices * (wide > turned ? wide : turned));
}

int64_t fp8_bytes(const struct fp8_sizes *s)
{
    int64_t rows = s->samples * s->experts, most;
    int64_t in = cast_bytes(rows, s->rows, s->in), out = cast_bytes(rows, s->rows, s->out);
    int64_t weights = cast_bytes(s->experts, s->out, s->in);
    most = in + out;
    most = weights + in > most ? weights + in : most;
    most = weights + out > most ? weights + out : most;
    return up(sizeof(struct cast_numbers)) + most;
}
