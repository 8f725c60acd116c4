/* experts.cu - mixtures of experts: who goes where, and rows that go there and back (kernels/cpu/experts.c, 1
 * and 2). */
#include "columns.cuh"
#include "expert_shape.h"

/* ---- choices --------------------------------------------------------------------------------- */

/* The better of two: the higher score, of equals the first. */
static __device__ __forceinline__ void take_better(float &score, int &expert, float other, int other_expert)
{
    bool better = other > score || (other == score && other_expert < expert);
    score = better ? other : score;
    expert = better ? other_expert : expert;
}

/* The best of all experts that come after (score, expert) in the order of choice; a warp for each token. */
static __device__ void next_best(const float *scores, int all, float after, int after_expert, float &score,
                                 int &expert)
{
    score = -INFINITY;
    expert = INT32_MAX;
    for (int i = threadIdx.x % 32; i < all; i += 32) {
        float s = scores[i];
        if (s < after || (s == after && i > after_expert))
            take_better(score, expert, s, i);
    }
    for (int apart = 16; apart; apart /= 2) {
        float other = __shfl_xor_sync(0xffffffffu, score, apart);
        int other_expert = __shfl_xor_sync(0xffffffffu, expert, apart);
        take_better(score, expert, other, other_expert);
    }
}

extern "C" __global__ void choose_experts(const float *scores, token_choice *choices, expert_shape e)
{
    int64_t token = thread_index() / 32;
    if (token >= e.batch * e.seq)
        return;
    const float *own = scores + token * e.all;
    token_choice *choice = choices + token * e.chosen;
    float score = INFINITY, most = 0, sum = 0;
    int expert = -1;
    for (int k = 0; k < (int)e.chosen; k++) {
        float last = score;
        int last_expert = expert;
        next_best(own, (int)e.all, last, last_expert, score, expert);
        most = k ? most : score;
        float gate = expf(score - most);
        sum += gate;
        if (threadIdx.x % 32 == 0)
            choice[k] = token_choice{expert, -1, gate};
    }
    __syncwarp();
    for (int k = threadIdx.x % 32; k < (int)e.chosen; k += 32)
        choice[k].gate /= sum;
}

/* Places of one expert's tokens of one sample, in the order of positions: a block for each. */
extern "C" __global__ void fill_places(token_choice *choices, expert_shape e)
{
    __shared__ int32_t before[32];
    token_choice *own = choices + blockIdx.y * e.seq * e.chosen;
    int32_t expert = (int32_t)blockIdx.x;
    int64_t filled = 0;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    for (int64_t first = 0; first < e.seq; first += blockDim.x) {
        int64_t token = first + threadIdx.x;
        int64_t at = -1;
        for (int64_t k = 0; token < e.seq && k < e.chosen; k++)
            if (own[token * e.chosen + k].expert == expert)
                at = token * e.chosen + k;
        unsigned mine = __ballot_sync(0xffffffffu, at >= 0);
        if (lane == 0)
            before[warp] = __popc(mine);
        __syncthreads();
        int64_t place = filled + __popc(mine & ((1u << lane) - 1));
        for (int w = 0; w < warps; w++) {
            place += w < warp ? before[w] : 0;
            filled += before[w];
        }
        if (at >= 0)
            own[at].place = place < e.room ? (int32_t)place : -1;
        __syncthreads();
    }
}

/* Where a token's row is among the local experts' rows, or -1. */
static __device__ __forceinline__ int64_t row_of(const token_choice *choices, const expert_shape &e,
                                                 int64_t token, int64_t k)
{
    token_choice choice = choices[token * e.chosen + k];
    int64_t expert = choice.expert - e.first, place = choice.place - e.first_place;
    if (choice.place < 0 || expert < 0 || expert >= e.local || place < 0 || place >= e.places)
        return -1;
    return (token / e.seq * e.local + expert) * e.places + place;
}

/* The number in all of token i of this device's. */
static __device__ __forceinline__ int64_t token_at(const expert_shape &e, int64_t i)
{
    return i / e.tokens * e.seq + e.first_token + i % e.tokens;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* A block for each token and each of its experts. */
template <class T>
__device__ void rows_to_experts(const token_choice *choices, const T *x, T *to, expert_shape e)
{
    int64_t token = blockIdx.x / e.chosen;
    int64_t row = row_of(choices, e, token, blockIdx.x % e.chosen);
    if (row < 0)
        return;
    for (int64_t i = threadIdx.x; i < e.width; i += blockDim.x)
        to[row * e.width + i] = x[token * e.width + i];
}
#define ROWS_TO_EXPERTS(T) (const token_choice *choices, const T *x, T *to, expert_shape e)
BOTH(rows_to_experts, ROWS_TO_EXPERTS, (choices, x, to, e))

/* Each token's sum of its experts' rows, times the gates or as they are: a block for each token. */
template <class T>
__device__ void rows_from_experts(const token_choice *choices, const T *from, T *to, int gated, expert_shape e)
{
    int64_t token = token_at(e, blockIdx.x);
    for (int64_t i = threadIdx.x; i < e.width; i += blockDim.x) {
        float sum = 0;
        for (int64_t k = 0; k < e.chosen; k++) {
            int64_t row = row_of(choices, e, token, k);
            float factor = gated ? choices[token * e.chosen + k].gate : 1;
            if (row >= 0)
                sum += factor * wide(from[row * e.width + i]);
        }
        to[(int64_t)blockIdx.x * e.width + i] = narrow<T>(sum);
    }
}
#define ROWS_FROM_EXPERTS(T) (const token_choice *choices, const T *from, T *to, int gated, expert_shape e)
BOTH(rows_from_experts, ROWS_FROM_EXPERTS, (choices, from, to, gated, e))

/* do_j = g_j dy: a block for each token. */
template <class T>
__device__ void gradients_to_experts(const token_choice *choices, const T *dy, T *to, expert_shape e)
{
    int64_t token = token_at(e, blockIdx.x);
    for (int64_t k = 0; k < e.chosen; k++) {
        int64_t row = row_of(choices, e, token, k);
        float gate = choices[token * e.chosen + k].gate;
        for (int64_t i = threadIdx.x; row >= 0 && i < e.width; i += blockDim.x)
            to[row * e.width + i] = narrow<T>(gate * wide(dy[(int64_t)blockIdx.x * e.width + i]));
    }
}
#define GRADIENTS_TO_EXPERTS(T) (const token_choice *choices, const T *dy, T *to, expert_shape e)
BOTH(gradients_to_experts, GRADIENTS_TO_EXPERTS, (choices, dy, to, e))

/* ds_j = g_j (<dy, o_j> - sum_i g_i <dy, o_i>), of local experts: a block for each token. */
template <class T>
__device__ void gradients_of_scores(const token_choice *choices, const T *dy, const T *from, float *ds,
                                    expert_shape e)
{
    int64_t token = token_at(e, blockIdx.x);
    const token_choice *choice = choices + token * e.chosen;
    float mean = 0;
    for (int64_t k = 0; k < e.chosen; k++) {
        int64_t row = row_of(choices, e, token, k);
        float dot = 0;
        for (int64_t i = threadIdx.x; row >= 0 && i < e.width; i += blockDim.x)
            dot += wide(dy[(int64_t)blockIdx.x * e.width + i]) * wide(from[row * e.width + i]);
        dot = block_sum(dot);
        mean += choice[k].gate * dot;
        if (threadIdx.x == 0)
            ds[token * e.all + choice[k].expert] = dot;
    }
    if (threadIdx.x == 0)
        for (int64_t k = 0; k < e.chosen; k++) {
            float *at = &ds[token * e.all + choice[k].expert];
            *at = choice[k].gate * (*at - mean);
        }
}
#define GRADIENTS_OF_SCORES(T)                                                                     \
    (const token_choice *choices, const T *dy, const T *from, float *ds, expert_shape e)
BOTH(gradients_of_scores, GRADIENTS_OF_SCORES, (choices, dy, from, ds, e))

/* ---- biases of experts and routers ----------------------------------------------------------- */

/* Every row of outputs, stored like the bias or in fp32, becomes its expert's; `rows` of each follow one another. */
template <class T>
__device__ void spread_biases(const T *bias, void *y, int in_fp32, int64_t count, int64_t rows, int64_t experts,
                              int64_t width)
{
    for (int64_t i = thread_index(); i < count; i += thread_count()) {
        T b = bias[i / width / rows % experts * width + i % width];
        if (in_fp32)
            ((float *)y)[i] = wide(b);
        else
            ((T *)y)[i] = b;
    }
}
#define SPREAD_BIASES(T)                                                                           \
    (const T *bias, void *y, int in_fp32, int64_t count, int64_t rows, int64_t experts, int64_t width)
BOTH(spread_biases, SPREAD_BIASES, (bias, y, in_fp32, count, rows, experts, width))

/* Sums of an expert's rows in all samples: a block for each expert (blockIdx.y) and LANES columns. */
template <class T>
__device__ void bias_gradients(const T *dy, int64_t samples, int64_t rows, int64_t width, float *gradient)
{
    int64_t column = own_column(1), expert = blockIdx.y, experts = gridDim.y;
    float sum = sum_of_rows(column < width, 0, samples * rows, [&](int64_t i) {
        return wide(dy[((i / rows * experts + expert) * rows + i % rows) * width + column]);
    });
    if (own_phase() == 0 && column < width)
        gradient[expert * width + column] += sum;
}
#define BIAS_GRADIENTS(T)                                                                          \
    (const T *dy, int64_t samples, int64_t rows, int64_t width, float *gradient)
BOTH(bias_gradients, BIAS_GRADIENTS, (dy, samples, rows, width, gradient))
