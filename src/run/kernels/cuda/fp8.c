/* fp8.c - products in fp8 (fp8.h): the casts, and which matrices are multiplied. */
#include "run/kernels/cuda/fp8.h"

extern struct cuda_code CUDA_CODE_fp8;
#define FP8_KERNEL(variable, text)                                                                 \
    static struct cuda_kernel variable[FP8_FORM_COUNT] = {                                         \
        {.code = &CUDA_CODE_fp8, .name = text "_e4m3"},                                            \
        {.code = &CUDA_CODE_fp8, .name = text "_e5m2"}}
FP8_KERNEL(CAST_ROWS, "cast_rows");
FP8_KERNEL(CAST_TURNED, "cast_turned");
FP8_KERNEL(CAST_WIDE, "cast_wide");
FP8_KERNEL(FACTORS, "factors");
static struct cuda_kernel LARGEST = {.code = &CUDA_CODE_fp8, .name = "largest"};

enum { UNIT = 16 };

/* The start of the room: the largest number of either operand, then alpha and beta of the product. */
struct cast_numbers {
    uint32_t most[2];
    float factor[2];
};

/* An operand of `matrices` matrices of so many rows and columns, which lie one after the other. */
struct operand8 {
    const void *from;
    enum fp8_form form;
    int64_t matrices, rows, columns;
    bool turned;
};

/* One product of each group: the results are rows of the second operand's rows. */
struct product8 {
    struct operand8 left, right;
    int64_t m, n, k;
    enum dtype out;
    float before;
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
    CUDA_LAUNCH(call->stream, &LARGEST, DTYPE_FP32, cuda_elements(count), &o->from, &count, &most);
}

/* Bytes from a cast matrix to the next. */
static int64_t apart(const struct operand8 *o)
{
    return o->turned ? o->columns * ceil_div(o->rows, UNIT) * UNIT : o->rows * o->columns;
}

static void cast(const struct kernel_call *call, const struct operand8 *o, const uint32_t *most,
                 char *to)
{
    enum { TALL = 128, ACROSS = 32, THREADS = 256 }; /* as in fp8.cu */
    int64_t count = o->matrices * o->rows * o->columns, step = ceil_div(o->rows, UNIT) * UNIT;
    if (!o->turned) {
        CUDA_LAUNCH(call->stream, &CAST_ROWS[o->form], DTYPE_FP32, cuda_elements(count / 8),
                    &o->from, &count, &most, &to);
        return;
    }
    struct cuda_grid grid = {ceil_div(step, TALL), ceil_div(o->columns, ACROSS), 1, THREADS, 0};
    for (int64_t i = 0; i < o->matrices; i++) {
        const char *from =
            (const char *)o->from + i * o->rows * o->columns * dtype_bytes(DTYPE_BF16);
        char *at = to + i * apart(o);
        CUDA_LAUNCH(call->stream, &CAST_TURNED[o->form], DTYPE_FP32, grid, &from, &o->rows,
                    &o->columns, &most, &step, &at);
    }
}

/* I1: both as rows of k numbers. */
static void multiply_cast(const struct kernel_call *call, const struct product8 *p,
                          const struct cast_numbers *n, char *left, char *right)
{
    struct gemm g = gemm_of(DTYPE_BF16, p->out);
    g.batch = p->left.matrices;
    g.m = g.c_step = p->m;
    g.n = p->n;
    g.k = g.a_step = g.b_step = ceil_div(p->k, UNIT) * UNIT;
    g.a_turned = g.scaled = true;
    g.a_cast = 1 + (int32_t)p->left.form;
    g.b_cast = 1 + (int32_t)p->right.form;
    g.a_apart = apart(&p->left);
    g.b_apart = apart(&p->right);
    g.c_apart = p->m * p->n;
    g.biased = p->bias != NULL;
    cast(call, &p->left, &n->most[0], left);
    cast(call, &p->right, &n->most[1], right);
    multiply_scaled(call, &g, n->factor, left, right, p->bias, p->to);
}

static void cast_wide(const struct kernel_call *call, const struct operand8 *o,
                      const uint32_t *most, char *to)
{
    int64_t count = o->matrices * o->rows * o->columns;
    CUDA_LAUNCH(call->stream, &CAST_WIDE[o->form], DTYPE_FP32, cuda_elements(count), &o->from,
                &count, &most, &to);
}

/* The same numbers in bf16, each as it lies. */
static void multiply_wide(const struct kernel_call *call, const struct product8 *p,
                          const struct cast_numbers *n, char *left, char *right)
{
    const struct operand8 *a = &p->left, *b = &p->right;
    struct gemm g = gemm_of(DTYPE_BF16, p->out);
    g.batch = a->matrices;
    g.m = g.c_step = p->m;
    g.n = p->n;
    g.k = p->k;
    g.a_step = a->columns;
    g.b_step = b->columns;
    g.a_turned = !a->turned;
    g.b_turned = b->turned;
    g.scaled = true;
    g.a_apart = a->rows * a->columns;
    g.b_apart = b->rows * b->columns;
    g.c_apart = p->m * p->n;
    g.biased = p->bias != NULL;
    cast_wide(call, a, &n->most[0], left);
    cast_wide(call, b, &n->most[1], right);
    multiply_scaled(call, &g, n->factor, left, right, p->bias, p->to);
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
static void find_numbers(const struct kernel_call *call, const struct operand8 *left,
                         const struct operand8 *right, float before, struct cast_numbers *n)
{
    const uint32_t *most = n->most;
    float *factor = n->factor;
    CUDA_DEVICE.clear(call->stream, n, sizeof *n);
    find_largest(call, left, &n->most[0]);
    find_largest(call, right, &n->most[1]);
    CUDA_LAUNCH(call->stream, &FACTORS[right->form], DTYPE_FP32,
                ((struct cuda_grid){1, 1, 1, 1, 0}), &most, &before, &factor);
}

static void run_product(const struct kernel_call *call, const struct product8 *p, void *room)
{
    struct cast_numbers *n = room;
    bool units = p->m % UNIT == 0 && p->n % UNIT == 0 && is_aligned(p->left.from) &&
                 is_aligned(p->right.from) && is_aligned(p->to) && is_aligned(p->bias);
    bool casts =
        has_products() && units && (p->k % UNIT == 0 || (p->left.turned && p->right.turned));
    int64_t wide = p->left.rows * p->left.columns * dtype_bytes(DTYPE_BF16);
    char *left = (char *)room + up(sizeof *n);
    char *right = left + up(p->left.matrices * (casts ? apart(&p->left) : wide));
    find_numbers(call, &p->left, &p->right, p->before, n);
    (casts ? multiply_cast : multiply_wide)(call, p, n, left, right);
}

/* Y' = W'^T X' */
void fp8_forward(const struct kernel_call *call, const struct fp8_sizes *s, void *room)
{
    bool biased = call->op->weights > 1 && call->adds_once;
    struct product8 p = {.left = {call->weight[0], FP8_E4M3, 1, s->out, s->in, false},
                         .right = {call->input[0], FP8_E4M3, 1, s->rows, s->in, false},
                         .m = s->out,
                         .n = s->rows,
                         .k = s->in,
                         .out = DTYPE_BF16,
                         .bias = biased ? call->weight[1] : NULL,
                         .to = call->output};
    run_product(call, &p, room);
}

/* dX' = W' dY' */
void fp8_input(const struct kernel_call *call, const struct fp8_sizes *s, void *room)
{
    struct product8 p = {.left = {call->weight[0], FP8_E4M3, 1, s->out, s->in, true},
                         .right = {call->output_gradient, FP8_E5M2, 1, s->rows, s->out, false},
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
    struct product8 p = {.left = {call->input[0], FP8_E4M3, 1, s->rows, s->in, true},
                         .right = {call->output_gradient, FP8_E5M2, 1, s->rows, s->out, true},
                         .m = s->in,
                         .n = s->out,
                         .k = s->rows,
                         .out = DTYPE_FP32,
                         .before = 1,
                         .to = call->weight_gradient[0]};
    run_product(call, &p, room);
}

int64_t fp8_pair_bytes(int64_t left, int64_t right)
{
    return up(sizeof(struct cast_numbers)) + up(left * dtype_bytes(DTYPE_BF16)) +
           up(right * dtype_bytes(DTYPE_BF16));
}

struct fp8_pair fp8_pair(const struct kernel_call *call, const struct fp8_tensor *left,
                         const struct fp8_tensor *right, float before, void *room)
{
    struct cast_numbers *n = room;
    struct operand8 a = {left->from, left->form, 1, 1, left->count, false};
    struct operand8 b = {right->from, right->form, 1, 1, right->count, false};
    char *to = (char *)room + up(sizeof *n);
    char *then = to + up(left->count * dtype_bytes(DTYPE_BF16));
    find_numbers(call, &a, &b, before, n);
    cast_wide(call, &a, &n->most[0], to);
    cast_wide(call, &b, &n->most[1], then);
    return (struct fp8_pair){to, then, n->factor};
}
