/* kind_work.c - the work of one operator of each kind.
 *
 *   matrix product   Y[m,n] = X[m,k] W[n,k]^T          2mnk FLOPs
 *   input gradient   dX[m,k] = dY[m,n] W[n,k]           m k n
 *   weight gradient  dW[n,k] = dY[m,n]^T X[m,k]         n k m
 *   attention        S = Q K^T, O = softmax(S) V        4 q kv depth per head; backward twice that
 *   with a window    kv above is min(kv, window): a query sees no more keys. Plain attention still
 *                    computes and keeps the whole matrix, and masks it. A window that is a chunk
 *                    makes seq / window attentions of so many queries and keys.
 *   scan             in chunks of Q positions: C B^T, the chunk's products with x, its state, and
 *                    what the state before it adds; with L positions, G groups, H heads of depth P
 *                    and states of N      2 L (Q N G + Q P H + 2 N P H); backward twice that
 *   delta            in chunks of Q: K K^T, Q K^T and the inverse's products with K and V, those with
 *                    the state; with keys of N   2 L H (Q (3 N + 2 P) + 3 N P); backward twice that
 *   index            q . k of every head and every earlier key: 2 q (kv / 2) depth heads; backward twice
 *                    that. Attention to the keys that it chose multiplies vectors that all heads share:
 *                    2 q min(kv, window) (shared_depth + shared_value) per head
 */
#include "model/kind_work.h"

/* Positions of dims within the rows of kinds.c (model.h, I1). */
enum { LINEAR_BATCH, LINEAR_SEQ, LINEAR_IN, LINEAR_OUT };
enum { ATT_BATCH, ATT_HEAD, ATT_GROUP, ATT_SEQ, ATT_KV, ATT_DEPTH };
enum { EXPERT_BATCH, EXPERT_EXPERT, EXPERT_SEQ, EXPERT_IN, EXPERT_OUT };
enum { CONV_BATCH, CONV_IN, CONV_OUT, CONV_HEIGHT, CONV_WIDTH };
enum { NORM_HEADS = 3 };                              /* 1 of a layer norm */
enum { SCAN_BATCH, SCAN_HEAD, SCAN_SEQ, SCAN_DEPTH }; /* also of a gated norm and a delta rule */
enum { INDEX_BATCH, INDEX_SEQ, INDEX_KV, INDEX_HEAD, INDEX_DEPTH };

static double product(const int64_t *size, int count)
{
    double all = 1;
    for (int i = 0; i < count; i++)
        all *= (double)size[i];
    return all;
}

static void set_shape(struct work *out, enum kernel kernel, const int64_t *shape, int count)
{
    out->kernel = kernel;
    for (int i = 0; i < count; i++)
        out->shape[i] = shape[i];
}

/* The product of a linear layer that the phase computes. */
static void matmul(enum kernel kernel, int64_t batch, int64_t rows, int64_t out_features,
                   int64_t in_features, enum phase phase, struct work *out)
{
    const int64_t shapes[PHASE_COUNT][4] = {
        [PHASE_FORWARD] = {batch, rows, out_features, in_features},
        [PHASE_BACKWARD_INPUT] = {batch, rows, in_features, out_features},
        [PHASE_BACKWARD_WEIGHT] = {batch, out_features, in_features, rows},
    };
    set_shape(out, kernel, shapes[phase], 4);
    out->flops = 2 * product(shapes[phase], 4);
}

void linear_work(const struct op *op, const int64_t *size, enum phase phase, struct work *out)
{
    (void)op;
    matmul(KERNEL_MATMUL, 1, size[LINEAR_BATCH] * size[LINEAR_SEQ], size[LINEAR_OUT],
           size[LINEAR_IN], phase, out);
}

/* The rows of one expert's group: tokens are distributed evenly over the experts. */
void expert_work(const struct op *op, const int64_t *size, enum phase phase, struct work *out)
{
    int64_t experts = op->size[EXPERT_EXPERT];
    int64_t rows = ceil_div(size[EXPERT_BATCH] * size[EXPERT_SEQ], experts);
    matmul(KERNEL_GROUPED_MATMUL, size[EXPERT_EXPERT], rows, size[EXPERT_OUT], size[EXPERT_IN],
           phase, out);
    double exact = (double)size[EXPERT_BATCH] * (double)size[EXPERT_SEQ] / (double)experts;
    out->flops *= exact / (double)rows; /* the shape rounds rows up, the FLOPs do not */
}

static int64_t heads(const int64_t *size)
{
    return size[ATT_BATCH] * size[ATT_HEAD] * size[ATT_GROUP];
}

/* Both gradients of a product of two activations: twice the forward FLOPs, reported as one kernel
 * of the forward shape. */
static void batched_work(int64_t m, int64_t n, int64_t k, const int64_t *size, enum phase phase,
                         struct work *out)
{
    const int64_t shape[] = {heads(size), m, n, k};
    set_shape(out, KERNEL_MATMUL, shape, 4);
    out->flops = (phase == PHASE_FORWARD ? 2 : 4) * product(shape, 4);
}

void score_work(const struct op *op, const int64_t *size, enum phase phase, struct work *out)
{
    (void)op;
    batched_work(size[ATT_SEQ], size[ATT_KV], size[ATT_DEPTH], size, phase, out);
}

void context_work(const struct op *op, const int64_t *size, enum phase phase, struct work *out)
{
    (void)op;
    batched_work(size[ATT_SEQ], size[ATT_DEPTH], size[ATT_KV], size, phase, out);
}

/* The gradient of sinks comes with the others: a sum over numbers that each row has already. */
static void sinks_work(const int64_t *size, struct work *out)
{
    set_shape(out, KERNEL_ELEMENTWISE, (int64_t[]){heads(size) * size[ATT_SEQ]}, 1);
}

void attention_work(const struct op *op, const int64_t *size, enum phase phase, struct work *out)
{
    static const enum kernel VERSIONS[] = {KERNEL_ATTENTION, KERNEL_ATTENTION_V1,
                                           KERNEL_ATTENTION_V2};
    bool chosen = op->shared_depth > 0;
    int64_t depth = chosen ? op->shared_depth : size[ATT_DEPTH];
    int64_t value = chosen ? op->shared_value : op->value_depth ? op->value_depth : depth;
    /* documents and chunks are attentions of their own, side by side; a device has its share of every document */
    bool packed = op->document && op->document < size[ATT_KV];
    int64_t kv = packed ? op->document : size[ATT_KV];
    int64_t own = ceil_div(size[ATT_SEQ], ceil_div(size[ATT_KV], kv));
    bool cuts = op->window && op->window < kv, chunks = cuts && op->chunked;
    int64_t queries = chunks && op->window < own ? op->window : own;
    const int64_t shape[] = {size[ATT_BATCH] * ceil_div(size[ATT_SEQ], queries),
                             size[ATT_HEAD] * size[ATT_GROUP],
                             chosen ? 1 : size[ATT_HEAD],
                             queries,
                             chunks ? op->window : kv,
                             depth,
                             value,
                             cuts && !chunks ? op->window : op->causal};
    if (phase == PHASE_BACKWARD_WEIGHT) {
        sinks_work(size, out);
        return;
    }
    set_shape(out, VERSIONS[op->flash], shape, 8);
    double keys = (double)(cuts ? op->window : kv);
    double pairs = (double)heads(size) * (double)size[ATT_SEQ] * keys;
    out->flops = (phase == PHASE_FORWARD ? 2 : 4) * pairs * (double)(depth + value);
}

/* Of w keys (all kv, or a window's) a query sees w, but for the first w queries of a sequence, which see w / 2 in the mean. */
double masked_share(const struct op *op)
{
    bool whole = op->kind == OP_SCORE || op->kind == OP_CONTEXT;
    if (!op->causal || (!whole && op->kind != OP_ATTENTION))
        return 0;
    double kv = (double)op->size[ATT_KV], each = kv, w;
    if (op->document && (double)op->document < kv)
        each = (double)op->document;
    w = op->window && (double)op->window < each ? (double)op->window : each;
    double seen = w - (op->chunked ? w / 2 : w * w / (2 * each));
    return 1 - seen / (whole ? kv : w);
}

void conv_work(const struct op *op, const int64_t *size, enum phase phase, struct work *out)
{
    (void)phase; /* all three phases are the same implicit product, over different operands */
    const int64_t shape[] = {
        size[CONV_BATCH],           size[CONV_OUT], size[CONV_HEIGHT], size[CONV_WIDTH],
        size[CONV_IN] / op->groups, op->kernel[0],  op->kernel[1],     op->stride[0]};
    set_shape(out, KERNEL_CONV, shape, 8);
    out->flops = 2 * product(shape, 7);
}

/* As Dao and Gu (2024), section 6, compute it; the chunk's products count in full, including the
 * part above the diagonal. */
void scan_work(const struct op *op, const int64_t *size, enum phase phase, struct work *out)
{
    int64_t heads = size[SCAN_HEAD] * op->scan_heads, depth = size[SCAN_DEPTH] / op->scan_heads;
    const int64_t shape[] = {size[SCAN_BATCH], size[SCAN_HEAD], heads, size[SCAN_SEQ], depth,
                             op->scan_state,   op->scan_chunk};
    set_shape(out, KERNEL_SCAN, shape, 7);
    double chunk = (double)op->scan_chunk, state = (double)op->scan_state;
    double wide = (double)heads * (double)depth, groups = (double)size[SCAN_HEAD];
    double each = chunk * state * groups + chunk * wide + 2 * state * wide;
    double positions = (double)size[SCAN_BATCH] * (double)size[SCAN_SEQ];
    out->flops = (phase == PHASE_FORWARD ? 2 : 4) * positions * each;
}

/* As Yang et al. (2024), section 3.3, compute it; triangles count in full, and their inverse does not. */
void delta_work(const struct op *op, const int64_t *size, enum phase phase, struct work *out)
{
    int64_t heads = size[SCAN_HEAD] * op->scan_heads, depth = size[SCAN_DEPTH] / op->scan_heads;
    const int64_t shape[] = {size[SCAN_BATCH], size[SCAN_HEAD], heads, size[SCAN_SEQ], depth,
                             op->scan_state,   op->scan_chunk};
    set_shape(out, KERNEL_DELTA, shape, 7);
    double chunk = (double)op->scan_chunk, key = (double)op->scan_state, value = (double)depth;
    double each = chunk * (3 * key + 2 * value) + 3 * key * value;
    double positions = (double)size[SCAN_BATCH] * (double)size[SCAN_SEQ];
    out->flops = (phase == PHASE_FORWARD ? 2 : 4) * positions * (double)heads * each;
}

/* A query scores the keys up to its own, half of them on average. */
void index_work(const struct op *op, const int64_t *size, enum phase phase, struct work *out)
{
    (void)op;
    const int64_t shape[] = {size[INDEX_BATCH] * size[INDEX_HEAD], size[INDEX_SEQ],
                             ceil_div(size[INDEX_KV], 2), size[INDEX_DEPTH]};
    set_shape(out, KERNEL_MATMUL, shape, 4);
    out->flops = (phase == PHASE_FORWARD ? 2 : 4) * product(shape, 4);
}

static void rows_work(enum kernel kernel, int64_t rows, int64_t cols, struct work *out)
{
    set_shape(out, kernel, (int64_t[]){rows, cols}, 2);
}

void norm_work(const struct op *op, const int64_t *size, enum phase phase, struct work *out)
{
    (void)op, (void)phase;
    rows_work(KERNEL_NORM, size[0] * size[1] * size[NORM_HEADS], size[2], out);
}

void gated_norm_work(const struct op *op, const int64_t *size, enum phase phase, struct work *out)
{
    (void)op, (void)phase;
    rows_work(KERNEL_NORM, size[SCAN_BATCH] * size[SCAN_HEAD] * size[SCAN_SEQ], size[SCAN_DEPTH],
              out);
}

void softmax_work(const struct op *op, const int64_t *size, enum phase phase, struct work *out)
{
    (void)phase;
    const int64_t shape[] = {size[0] * size[1] * size[2], size[3], op->causal};
    set_shape(out, KERNEL_SOFTMAX, shape, 3);
}

void loss_work(const struct op *op, const int64_t *size, enum phase phase, struct work *out)
{
    (void)phase;
    enum kernel kernel = op->keep & KEEP_APART ? KERNEL_LOSS_COMPILED : KERNEL_LOSS;
    rows_work(kernel, size[0] * size[1], size[2], out);
}

void batch_norm_work(const struct op *op, const int64_t *size, enum phase phase, struct work *out)
{
    (void)op, (void)phase;
    set_shape(out, KERNEL_BATCH_NORM, (int64_t[]){size[0], size[1], size[2] * size[3]}, 3);
}

void embedding_work(const struct op *op, const int64_t *size, enum phase phase, struct work *out)
{
    (void)op, (void)phase;
    set_shape(out, KERNEL_EMBEDDING, (int64_t[]){size[0] * size[1], size[3], size[2]}, 3);
}

void bag_work(const struct op *op, const int64_t *size, enum phase phase, struct work *out)
{
    (void)phase;
    const int64_t shape[] = {size[0] * size[1] * op->top_k, size[3], size[2]};
    set_shape(out, KERNEL_EMBEDDING, shape, 3);
}

void router_work(const struct op *op, const int64_t *size, enum phase phase, struct work *out)
{
    (void)op;
    matmul(KERNEL_MATMUL, 1, size[0] * size[1], size[3], size[2], phase, out);
}

void pooling_work(const struct op *op, const int64_t *size, enum phase phase, struct work *out)
{
    (void)phase;
    const int64_t shape[] = {size[0], size[1], size[2], size[3],
                             (int64_t)op->kernel[0] * op->kernel[1]};
    set_shape(out, KERNEL_POOL, shape, 5);
}

/* The pairwise products of a sample's feature vectors: v vectors of width d, 2 v^2 d FLOPs. */
void interaction_work(const struct op *op, const int64_t *size, enum phase phase, struct work *out)
{
    (void)op;
    const int64_t shape[] = {size[0], size[1], size[1], size[2]};
    set_shape(out, KERNEL_MATMUL, shape, 4);
    out->flops = (phase == PHASE_FORWARD ? 2 : 4) * product(shape, 4);
}

static void one_number(const struct op *op, const int64_t *size, enum kernel kernel,
                       struct work *out)
{
    out->kernel = kernel;
    out->shape[0] = (int64_t)operand_elements(op, &op->output, size);
}

void elementwise_work(const struct op *op, const int64_t *size, enum phase phase, struct work *out)
{
    (void)phase;
    one_number(op, size, KERNEL_ELEMENTWISE, out);
}

void dropout_work(const struct op *op, const int64_t *size, enum phase phase, struct work *out)
{
    (void)phase;
    one_number(op, size, KERNEL_DROPOUT, out);
}

void copy_work(const struct op *op, const int64_t *size, enum phase phase, struct work *out)
{
    (void)phase;
    one_number(op, size, KERNEL_COPY, out);
    out->shape[0] *= dtype_bytes(out->dtype);
}
