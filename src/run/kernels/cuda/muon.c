/* muon.c - Muon's step on a GPU (kernels/cpu/muon.c has the equations); products by cuBLASLt in fp32.
 *
 * A matrix that lies by rows is its transpose where matrices lie by columns. With no more rows than columns,
 *
 *   A = X X^T as X'^T X',  X <- a1 X + B X as X' <- a1 X' + X' B,  B = a2 A + a3 A A                              (1)
 *
 * and else the same of the transpose, without turning anything: A = X^T X, X <- a1 X + X B.
 */
#include "run/kernels/cuda/gemm.h"

#include <math.h>

extern struct cuda_code CUDA_CODE_muon;
static struct cuda_kernel MOMENTUM = {.code = &CUDA_CODE_muon, .name = "muon_momentum"},
                          NORMALISE = {.code = &CUDA_CODE_muon, .name = "muon_normalise"};
GPU_KERNEL(APPLY, muon, "muon_apply");

/* As in kernels/cpu/muon.c. */
enum { ITERATIONS = 5 };
static const float A1 = 3.4445F, A2 = -4.7750F, A3 = 2.0315F;

static void gpu_momentum(const struct optimizer_step *s, float *x)
{
    CUDA_LAUNCH(s->stream, &MOMENTUM, DTYPE_FP32, cuda_elements(s->count), &s->gradient,
                &s->moment1, &x, &s->count, &s->scale, &s->momentum);
}

static void gpu_apply(const struct optimizer_step *s, const float *x)
{
    float rest = 1 - s->rate * s->decay;
    int64_t most = s->rows > s->columns ? s->rows : s->columns;
    float rate = s->rate * 0.2F * sqrtf((float)most);
    CUDA_LAUNCH(s->stream, &APPLY, s->weight ? s->dtype : DTYPE_FP32, cuda_elements(s->count),
                &s->master, &x, &s->weight, &s->count, &rest, &rate);
}

/* The workspace, a double, then room for X, A and B. */
enum { BESIDES = 256 };
struct muon_room {
    double *squares;
    float *next, *a, *b;
};

static int64_t up(int64_t floats)
{
    return ceil_div(floats, 64) * 64;
}

static int64_t least(int64_t rows, int64_t columns)
{
    return rows < columns ? rows : columns;
}

static int64_t gpu_room_bytes(int64_t rows, int64_t columns)
{
    int64_t n = least(rows, columns);
    return WORKSPACE + BESIDES + (up(rows * columns) + 2 * up(n * n)) * (int64_t)sizeof(float);
}

static struct muon_room room_at(void *memory, int64_t rows, int64_t columns)
{
    int64_t n = least(rows, columns);
    char *at = (char *)memory + WORKSPACE;
    struct muon_room room = {.squares = (double *)(void *)at,
                             .next = (float *)(void *)(at + BESIDES)};
    room.a = room.next + up(rows * columns);
    room.b = room.a + up(n * n);
    return room;
}

/* One turn of (1); X is in `x` before and after it. */
static void iterate(const struct kernel_call *call, int64_t rows, int64_t columns,
                    const struct muon_room *room, float *x)
{
    bool flat = rows <= columns;
    int64_t n = least(rows, columns), each = (int64_t)sizeof *x;
    struct gemm square = gemm_of(DTYPE_FP32, DTYPE_FP32), twice = square, last = square;
    square.m = square.n = square.c_step = n;
    square.k = flat ? columns : rows;
    square.a_step = square.b_step = columns;
    square.a_turned = flat;
    square.b_turned = !flat;
    multiply(call, &square, 1, x, x, NULL, 0, room->a);
    twice.m = twice.n = twice.k = twice.a_step = twice.b_step = twice.c_step = n;
    CUDA_DEVICE.copy(call->stream, COPY_ON_DEVICE, room->b, room->a, n * n * each);
    multiply(call, &twice, A3, room->a, room->a, NULL, A2, room->b);
    last.m = last.c_step = columns;
    last.n = rows;
    last.k = n;
    last.a_step = flat ? columns : n;
    last.b_step = flat ? n : columns;
    CUDA_DEVICE.copy(call->stream, COPY_ON_DEVICE, room->next, x, rows * columns * each);
    multiply(call, &last, 1, flat ? room->next : room->b, flat ? room->b : room->next, NULL, A1, x);
}

static void gpu_orthogonalise(struct device_stream *stream, int64_t rows, int64_t columns,
                              int64_t matrices, float *x, void *memory)
{
    struct kernel_call call = {.stream = stream, .scratch = memory};
    struct muon_room room = room_at(memory, rows, columns);
    int64_t count = rows * columns;
    for (int64_t i = 0; i < matrices; i++, x += count) {
        CUDA_DEVICE.clear(stream, room.squares, sizeof *room.squares);
        CUDA_DEVICE.add_squares(stream, x, count, room.squares);
        CUDA_LAUNCH(stream, &NORMALISE, DTYPE_FP32, cuda_elements(count), &x, &count,
                    &room.squares);
        for (int k = 0; k < ITERATIONS; k++)
            iterate(&call, rows, columns, &room, x);
    }
}

const struct muon_kernels GPU_MUON = {gpu_momentum, gpu_room_bytes, gpu_orthogonalise, gpu_apply};
