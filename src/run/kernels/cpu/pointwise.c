/* pointwise.c - kinds that treat elements alike: activations, gates, dropout (sums are in sums.c).
 *
 *   gelu    x s(2 c (x + 0.044715 x^3)), c = sqrt(2 / pi), s the sigmoid: the tanh form
 *           (Hendrycks and Gimpel, 2016)
 *   silu    x s(x)
 *   relu    max(x, 0), or its square
 *   gated   silu(a) b of a pair (a, b), or gelu(a) b, or clamped (gpt-oss' reference, torch/model.py):
 *           min(a, 7) s(1.702 min(a, 7)) (1 + max(-7, min(b, 7))); the gate and the up projection of a
 *           feature stand side by side, so that every split of the features holds whole pairs
 *           (compile's layouts); or a and b are two inputs
 *   dropout x m / (1 - p), m = 0 with probability p; dropout_add the same plus a residual
 *
 *   I1  A mask comes from the seed and the element's index in the whole (kernels.h, I2): a key of the
 *       row it is in, mixed with its column. One byte of each element is kept.
 */
#include "run/kernels/cpu/places.h"

/* ---- activations ----------------------------------------------------------------------------- */

struct activation_kernel {
    int width; /* input elements per output element */
    void (*forward)(const float *restrict x, int64_t count, float *restrict y);
    void (*backward)(const float *restrict seen, const float *restrict dy, int64_t count,
                     float *restrict dx);
};

/* 2 c and 2 c 0.044715 of gelu */
#define GELU_LINEAR 1.5957691216F
#define GELU_CUBIC  0.0713548163F

VECTOR static void gelu(const float *restrict x, int64_t count, float *restrict y)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = x[i] * sigmoid_of(x[i] * (GELU_LINEAR + GELU_CUBIC * x[i] * x[i]));
}

VECTOR static void gelu_gradient(const float *restrict x, const float *restrict dy, int64_t count,
                                 float *restrict dx)
{
    for (int64_t i = 0; i < count; i++) {
        float square = x[i] * x[i];
        float s = sigmoid_of(x[i] * (GELU_LINEAR + GELU_CUBIC * square));
        float slope = x[i] * (GELU_LINEAR + 3 * GELU_CUBIC * square);
        dx[i] = dy[i] * s * (1 + slope * (1 - s));
    }
}

VECTOR static void relu(const float *restrict x, int64_t count, float *restrict y)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = x[i] < 0 ? 0 : x[i];
}

/* Sees the output: it is positive where the input was. */
VECTOR static void relu_gradient(const float *restrict y, const float *restrict dy, int64_t count,
                                 float *restrict dx)
{
    for (int64_t i = 0; i < count; i++) {
        float slope = dy[i]; /* read whatever y says: a loop without branches */
        dx[i] = y[i] > 0 ? slope : 0;
    }
}

VECTOR static void relu2(const float *restrict x, int64_t count, float *restrict y)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = x[i] < 0 ? 0 : x[i] * x[i];
}

VECTOR static void relu2_gradient(const float *restrict x, const float *restrict dy, int64_t count,
                                  float *restrict dx)
{
    for (int64_t i = 0; i < count; i++) {
        float slope = 2 * x[i] * dy[i];
        dx[i] = x[i] > 0 ? slope : 0;
    }
}

VECTOR static void silu(const float *restrict x, int64_t count, float *restrict y)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = x[i] * sigmoid_of(x[i]);
}

VECTOR static void silu_gradient(const float *restrict x, const float *restrict dy, int64_t count,
                                 float *restrict dx)
{
    for (int64_t i = 0; i < count; i++) {
        float s = sigmoid_of(x[i]);
        dx[i] = dy[i] * s * (1 + x[i] * (1 - s));
    }
}

/* ---- gates ----------------------------------------------------------------------------------- */

#define CLAMPED_LIMIT 7.0F
#define CLAMPED_STEEP 1.702F

/* A gate's activation and slope. */
struct gate_point {
    float value, slope;
};

INLINE struct gate_point silu_at(float a)
{
    float s = sigmoid_of(a);
    return (struct gate_point){a * s, s * (1 + a * (1 - s))};
}

INLINE struct gate_point gelu_at(float a)
{
    float s = sigmoid_of(a * (GELU_LINEAR + GELU_CUBIC * a * a));
    return (struct gate_point){a * s,
                               s * (1 + a * (GELU_LINEAR + 3 * GELU_CUBIC * a * a) * (1 - s))};
}

INLINE struct gate_point clamped_at(float a)
{
    float c = a > CLAMPED_LIMIT ? CLAMPED_LIMIT : a, s = sigmoid_of(CLAMPED_STEEP * c);
    float slope = s * (1 + CLAMPED_STEEP * c * (1 - s));
    return (struct gate_point){c * s, a > CLAMPED_LIMIT ? 0 : slope};
}

INLINE struct gate_point sigmoid_at(float a)
{
    float s = sigmoid_of(a);
    return (struct gate_point){s, s * (1 - s)};
}

/* What the gate is multiplied by. */
INLINE struct gate_point same_at(float b)
{
    return (struct gate_point){b, 1};
}

INLINE struct gate_point one_more_at(float b)
{
    float low = b < -CLAMPED_LIMIT ? -CLAMPED_LIMIT : b;
    bool within = b >= -CLAMPED_LIMIT && b <= CLAMPED_LIMIT;
    return (struct gate_point){1 + (low > CLAMPED_LIMIT ? CLAMPED_LIMIT : low), within ? 1 : 0};
}

/* What a tile of gate and up makes, in the backward pass with dy. */
typedef void gate_part(const float *restrict gate, const float *restrict up,
                       const float *restrict dy, int64_t count, float *restrict out);

/* The five loops of a gate: of pairs side by side, and of two inputs. */
#define GATE_LOOPS(name, gate_at, up_at)                                                           \
    VECTOR static void name(const float *restrict x, int64_t count, float *restrict y)             \
    {                                                                                              \
        for (int64_t i = 0; i < count; i++)                                                        \
            y[i] = gate_at(x[2 * i]).value * up_at(x[2 * i + 1]).value;                            \
    }                                                                                              \
    VECTOR static void name##_gradient(const float *restrict x, const float *restrict dy,          \
                                       int64_t count, float *restrict dx)                          \
    {                                                                                              \
        for (int64_t i = 0; i < count; i++) {                                                      \
            struct gate_point gate = gate_at(x[2 * i]), up = up_at(x[2 * i + 1]);                  \
            dx[2 * i] = dy[i] * up.value * gate.slope;                                             \
            dx[2 * i + 1] = dy[i] * gate.value * up.slope;                                         \
        }                                                                                          \
    }                                                                                              \
    VECTOR static void name##_pair(const float *restrict gate, const float *restrict up,           \
                                   const float *restrict dy, int64_t count, float *restrict y)     \
    {                                                                                              \
        (void)dy;                                                                                  \
        for (int64_t i = 0; i < count; i++)                                                        \
            y[i] = gate_at(gate[i]).value * up_at(up[i]).value;                                    \
    }                                                                                              \
    VECTOR static void name##_pair_gate(const float *restrict gate, const float *restrict up,      \
                                        const float *restrict dy, int64_t count,                   \
                                        float *restrict dx)                                        \
    {                                                                                              \
        for (int64_t i = 0; i < count; i++)                                                        \
            dx[i] = dy[i] * up_at(up[i]).value * gate_at(gate[i]).slope;                           \
    }                                                                                              \
    VECTOR static void name##_pair_up(const float *restrict gate, const float *restrict up,        \
                                      const float *restrict dy, int64_t count, float *restrict dx) \
    {                                                                                              \
        for (int64_t i = 0; i < count; i++)                                                        \
            dx[i] = dy[i] * gate_at(gate[i]).value * up_at(up[i]).slope;                           \
    }
GATE_LOOPS(gated_silu, silu_at, same_at)
GATE_LOOPS(gated_gelu, gelu_at, same_at)
GATE_LOOPS(gated_sigmoid, sigmoid_at, same_at)
GATE_LOOPS(gated_clamped, clamped_at, one_more_at)

/* clang-format off */
#define GATE(name) {{2, name, name##_gradient}, {name##_pair}, {name##_pair_gate, name##_pair_up}}
/* clang-format on */
static const struct {
    struct activation_kernel side_by_side;
    gate_part *forward[1], *backward[2]; /* backward: into the gate's gradient, and into up's */
} GATES[] = {
    [GATE_SILU] = GATE(gated_silu),
    [GATE_GELU] = GATE(gated_gelu),
    [GATE_SIGMOID] = GATE(gated_sigmoid),
    [GATE_CLAMPED] = GATE(gated_clamped),
};
_Static_assert(COUNT_OF(GATES) == GATE_COUNT, "a gate without a row");

/* ---- activations of tensors ------------------------------------------------------------------ */

static const struct activation_kernel *activation_of(const struct op *op)
{
    static const struct activation_kernel GELU = {1, gelu, gelu_gradient},
                                          RELU = {1, relu, relu_gradient},
                                          RELU2 = {1, relu2, relu2_gradient},
                                          SILU = {1, silu, silu_gradient};
    if (op->kind == OP_GATED)
        return &GATES[op->gate].side_by_side;
    if (op->kind == OP_RELU)
        return op->squared ? &RELU2 : &RELU;
    return op->kind == OP_GELU ? &GELU : &SILU;
}

static void activation_forward(const struct kernel_call *call)
{
    const struct activation_kernel *f = activation_of(call->op);
    int64_t all = elements_of(call);
    float in[2 * TILE], out[TILE];
    for (int64_t first = 0; first < all; first += TILE) {
        int64_t count = tile_from(first, all);
        const float *x =
            tile_read(call->dtype, call->input[0], f->width * first, f->width * count, in);
        float *y = tile_write(call->dtype, call->output, first, out);
        f->forward(x, count, y);
        tile_done(call->dtype, call->output, first, count, y);
    }
}

static void activation_input(const struct kernel_call *call)
{
    const struct activation_kernel *f = activation_of(call->op);
    const void *kept = call->op->keep & KEEP_OUTPUT ? call->output : call->input[0];
    int64_t all = elements_of(call);
    float seen_tile[2 * TILE], dy_tile[TILE], dx_tile[2 * TILE];
    for (int64_t first = 0; call->input_gradient[0] && first < all; first += TILE) {
        int64_t count = tile_from(first, all), at = f->width * first;
        const float *seen = tile_read(call->dtype, kept, at, f->width * count, seen_tile);
        const float *dy = tile_read(call->dtype, call->output_gradient, first, count, dy_tile);
        float *dx = tile_write(call->dtype, call->input_gradient[0], at, dx_tile);
        f->backward(seen, dy, count, dx);
        tile_done(call->dtype, call->input_gradient[0], at, f->width * count, dx);
    }
}

/* ---- gates of two inputs --------------------------------------------------------------------- */

/* Every part into its tensor; NULL: not wanted. */
static void gate_tiles(const struct kernel_call *call, const void *dy, int parts,
                       gate_part *const *part, void *const *to)
{
    int64_t all = elements_of(call);
    float gate_tile[TILE], up_tile[TILE], dy_tile[TILE], out_tile[TILE];
    for (int64_t first = 0; first < all; first += TILE) {
        int64_t count = tile_from(first, all);
        const float *gate = tile_read(call->dtype, call->input[0], first, count, gate_tile);
        const float *up = tile_read(call->dtype, call->input[1], first, count, up_tile);
        const float *slope = dy ? tile_read(call->dtype, dy, first, count, dy_tile) : NULL;
        for (int k = 0; k < parts; k++) {
            if (!to[k])
                continue;
            float *out = tile_write(call->dtype, to[k], first, out_tile);
            part[k](gate, up, slope, count, out);
            tile_done(call->dtype, to[k], first, count, out);
        }
    }
}

/* ---- gates of one number for all features of a token -------------------------------------------- */

static bool gates_tokens(const struct op *op)
{
    return op->inputs == 2 && op->input[0].dims[op->input[0].axes - 1][0] < 0;
}

static int64_t token_width(const struct kernel_call *call)
{
    return call->size[op_find_dim(OP_GATED, DIM_HIDDEN)];
}

static struct gate_point token_point(const struct kernel_call *call, int64_t row)
{
    float score[1];
    return sigmoid_at(*tile_read(call->dtype, call->input[0], row, 1, score));
}

static void scale_row(const struct kernel_call *call, int64_t row, const void *from, float by,
                      void *to)
{
    int64_t width = token_width(call);
    float in[TILE], out[TILE];
    for (int64_t at = 0; at < width; at += TILE) {
        int64_t count = tile_from(at, width), first = row * width + at;
        const float *x = tile_read(call->dtype, from, first, count, in);
        float *y = tile_write(call->dtype, to, first, out);
        for (int64_t i = 0; i < count; i++)
            y[i] = by * x[i];
        tile_done(call->dtype, to, first, count, y);
    }
}

/* Of the row's features and their gradients. */
static float row_product(const struct kernel_call *call, int64_t row)
{
    int64_t width = token_width(call);
    float up_tile[TILE], dy_tile[TILE], sum = 0;
    for (int64_t at = 0; at < width; at += TILE) {
        int64_t count = tile_from(at, width), first = row * width + at;
        const float *up = tile_read(call->dtype, call->input[1], first, count, up_tile);
        const float *dy = tile_read(call->dtype, call->output_gradient, first, count, dy_tile);
        for (int64_t i = 0; i < count; i++)
            sum += up[i] * dy[i];
    }
    return sum;
}

static void tokens_forward(const struct kernel_call *call)
{
    for (int64_t row = 0; row < elements_of(call) / token_width(call); row++)
        scale_row(call, row, call->input[1], token_point(call, row).value, call->output);
}

static void tokens_input(const struct kernel_call *call)
{
    for (int64_t row = 0; row < elements_of(call) / token_width(call); row++) {
        struct gate_point point = token_point(call, row);
        if (call->input_gradient[1])
            scale_row(call, row, call->output_gradient, point.value, call->input_gradient[1]);
        if (call->input_gradient[0]) {
            float tile[1], *score = tile_write(call->dtype, call->input_gradient[0], row, tile);
            *score = point.slope * row_product(call, row);
            tile_done(call->dtype, call->input_gradient[0], row, 1, score);
        }
    }
}

static void gated_forward(const struct kernel_call *call)
{
    if (call->op->inputs == 1)
        activation_forward(call);
    else if (gates_tokens(call->op))
        tokens_forward(call);
    else
        gate_tiles(call, NULL, 1, GATES[call->op->gate].forward, &call->output);
}

static void gated_input(const struct kernel_call *call)
{
    if (call->op->inputs == 1)
        activation_input(call);
    else if (gates_tokens(call->op))
        tokens_input(call);
    else
        gate_tiles(call, call->output_gradient, 2, GATES[call->op->gate].backward,
                   call->input_gradient);
}

#define ACTIVATION                                                                                 \
    {                                                                                              \
        .phase = {activation_forward, activation_input},                                           \
    }
const struct cpu_kernel CPU_GELU = ACTIVATION, CPU_RELU = ACTIVATION, CPU_SILU = ACTIVATION;
const struct cpu_kernel CPU_GATED = {.phase = {gated_forward, gated_input}};

/* ---- dropout --------------------------------------------------------------------------------- */

static uint32_t row_key(uint64_t seed, int64_t row)
{
    return (uint32_t)(hash_bytes(&row, sizeof row, seed) >> 16);
}

/* MurmurHash3's finalizer of key and column, against the probability in 2^24ths. */
VECTOR static void draw_mask(uint32_t key, uint32_t column, int64_t count, uint32_t dropped,
                             uint8_t *restrict mask)
{
    for (int64_t i = 0; i < count; i++) {
        uint32_t h = key ^ ((column + (uint32_t)i) * 0x9e3779b1U);
        h = (h ^ (h >> 16)) * 0x85ebca6bU;
        h = (h ^ (h >> 13)) * 0xc2b2ae35U;
        h ^= h >> 16;
        mask[i] = (h >> 8) >= dropped;
    }
}

VECTOR static void apply_mask(const float *restrict x, const uint8_t *restrict mask, int64_t count,
                              float scale, float *restrict y)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = x[i] * ((float)mask[i] * scale);
}

static float drop_scale(const struct kernel_call *call)
{
    return call->dropout < 1 ? 1 / (1 - call->dropout) : 0;
}

static int64_t dropout_kept(const struct kernel_call *call)
{
    return elements_of(call);
}

static void draw_masks(const struct kernel_call *call)
{
    struct row_places p = places_of(call);
    uint32_t dropped = (uint32_t)((double)call->dropout * (1 << 24));
    for (int64_t row = 0; row < p.rows; row++)
        draw_mask(row_key(call->seed, row_in_whole(&p, row, 0)), (uint32_t)p.axis[p.axes - 1].begin,
                  p.columns, dropped, (uint8_t *)call->kept + row * p.columns);
}

static void mask_all(const struct kernel_call *call, const void *from, const void *residual,
                     void *to)
{
    int64_t all = elements_of(call);
    float x_tile[TILE], y_tile[TILE], z_tile[TILE], scale = drop_scale(call);
    for (int64_t first = 0; to && first < all; first += TILE) {
        int64_t count = tile_from(first, all);
        const float *x = tile_read(call->dtype, from, first, count, x_tile);
        float *y = tile_write(call->dtype, to, first, y_tile);
        apply_mask(x, (const uint8_t *)call->kept + first, count, scale, y);
        if (residual)
            row_add(tile_read(call->dtype, residual, first, count, z_tile), count, y);
        tile_done(call->dtype, to, first, count, y);
    }
}

static void dropout_forward(const struct kernel_call *call)
{
    draw_masks(call);
    mask_all(call, call->input[0], call->op->inputs > 1 ? call->input[1] : NULL, call->output);
}

static void dropout_input(const struct kernel_call *call)
{
    mask_all(call, call->output_gradient, NULL, call->input_gradient[0]);
    if (call->op->inputs > 1 && call->input_gradient[1])
        copy_elements(call->dtype, call->output_gradient, 0, elements_of(call),
                      call->input_gradient[1], 0);
}

const struct cpu_kernel CPU_DROPOUT = {
    .kept_bytes = dropout_kept,
    .phase = {dropout_forward, dropout_input},
};
const struct cpu_kernel CPU_DROPOUT_ADD = {
    .kept_bytes = dropout_kept,
    .phase = {dropout_forward, dropout_input},
};
