/* table_transformer.c - the kernels of one operator of a measured GPT, T5 or OPT.
 *
 * With micro-batch b and tensor degree t
 *
 *   linear, split by column   m = b seq, n = out / t, k = in;  all-reduces its input's gradient
 *   linear, split by row      m = b seq, n = out,     k = in / t;  all-reduces its output
 *   attention                 b heads / t products of (q, kv, depth)
 *
 * An operator is several kernels: what its framework launches, not what a fused implementation
 * would. Read off the tables' own regularities:
 *
 *   dropout + residual   dropout and two additions, of bias and residual; backward dropout and the
 *                        bias gradient
 *   gelu                 fused with the bias; backward and the bias gradient
 *   layer norm           backward also adds the gradient of the residual branch
 *   qkv                  and a copy that takes q, k, v apart; backward two
 *   softmax              causal: skips the masked half; T5's encoder: reads a byte mask
 *   embedding            words, positions, their sum, dropout; backward dropout, the scatter, and
 *                        the word table's gradient cleared and accumulated (four passes)
 *   post process         the logits' product and a loss of many passes
 *
 * Left out: the backward of the final layer norms (0.95 ms at micro-batch 1 and 1.6 ms above, for
 * every model: not theirs).
 */
#include <string.h>

#include "cost/table.h"

static const struct transformer {
    const char *name;
    int64_t hidden, ffn, heads, depth, vocab, seq, decoder_seq;
} TRANSFORMERS[] = {
    {"gpt_350M", 1024, 4096, 16, 64, 51200, 2048, 0},
    {"gpt_1_3B", 2048, 8192, 32, 64, 51200, 2048, 0},
    {"gpt_2_6B", 2560, 10240, 32, 80, 51200, 2048, 0},
    {"gpt_6_7B", 4096, 16384, 32, 128, 51200, 2048, 0},
    {"gpt_13B", 5120, 20480, 40, 128, 51200, 2048, 0},
    {"gpt_scale-layer", 512, 2048, 8, 64, 51200, 2048, 0},
    {"t5_770M", 1024, 4096, 16, 64, 30592, 2048, 512},
    {"t5_3B", 1024, 16384, 32, 128, 30592, 2048, 512},
    {"t5_6B", 1024, 32768, 64, 128, 30592, 2048, 512},
    {"t5_11B", 1024, 65536, 128, 128, 30592, 2048, 512},
    {"OPT-350", 1024, 4096, 16, 64, 50272, 2048, 0},
    {"GPT-Neo-2.7", 2560, 10240, 32, 80, 128256, 2048, 0},
    {"OPT-30", 7168, 28672, 56, 128, 50272, 2048, 0},
};

enum { MASK_BYTES = 1 };

/* A row and the sizes of its operator. */
struct layer_sizes {
    struct table_row *row;
    const struct transformer *t;
    enum dtype dtype;
    int64_t batch, tp, queries, keys;
    bool decoder, cross; /* cross: the decoder attends to the encoder */
    double element;      /* bytes */
};

static int64_t positions(const struct layer_sizes *l)
{
    return l->batch * l->queries;
}

static int64_t local_heads(const struct layer_sizes *l)
{
    return l->batch * (l->t->heads / l->tp);
}

static void all_reduce(struct layer_sizes *l, enum direction direction, double bytes)
{
    if (l->tp > 1) {
        struct timing *time = &l->row->time[direction];
        time->collective = "all_reduce";
        time->all_reduce_bytes = bytes;
        time->devices = (int)l->tp;
    }
}

/* A kernel that moves this many bytes per element. */
static struct work moving(const struct layer_sizes *l, enum kernel kernel, enum phase phase,
                          int64_t elements, double read, double write)
{
    struct work work =
        bytes_work(kernel, phase, elements, read * (double)elements, write * (double)elements);
    work.dtype = l->dtype;
    return work;
}

/* ---- kernels of bytes ------------------------------------------------------------------------ */

static void embedding(struct layer_sizes *l)
{
    const struct transformer *t = l->t;
    int64_t n = positions(l) * t->hidden, table = t->vocab / l->tp * t->hidden;
    double e = l->element;
    struct work words =
        WORK(KERNEL_EMBEDDING, PHASE_FORWARD, l->dtype, positions(l), t->hidden, t->vocab / l->tp);
    row_is(l->row, words);
    row_ran(l->row, words); /* positions */
    row_ran(l->row, moving(l, KERNEL_ELEMENTWISE, PHASE_FORWARD, n, 2 * e, e));
    row_ran(l->row, moving(l, KERNEL_DROPOUT, PHASE_FORWARD, n, e, e + MASK_BYTES));
    all_reduce(l, FORWARD, (double)n * e);

    row_ran(l->row, moving(l, KERNEL_DROPOUT, PHASE_BACKWARD_INPUT, n, e + MASK_BYTES, e));
    if (l->decoder) {
        row_several(l->row); /* the encoder's row includes the shared table's gradient */
        return;
    }
    words.phase = PHASE_BACKWARD_WEIGHT;
    words.write_bytes = 0; /* the table's passes are added separately */
    row_is(l->row, words);
    row_ran(l->row, moving(l, KERNEL_ELEMENTWISE, PHASE_BACKWARD_WEIGHT, table, 2 * e, 2 * e));
}

static struct work norm(const struct layer_sizes *l, enum phase phase)
{
    return WORK(KERNEL_NORM, phase, l->dtype, positions(l), l->t->hidden);
}

static void layer_norm(struct layer_sizes *l)
{
    int64_t n = positions(l) * l->t->hidden;
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        row_is(l->row, norm(l, (enum phase)phase));
    row_ran(l->row,
            moving(l, KERNEL_ELEMENTWISE, PHASE_BACKWARD_INPUT, n, 2 * l->element, l->element));
}

static void final_layer_norm(struct layer_sizes *l)
{
    struct work work = norm(l, PHASE_FORWARD);
    work.read_bytes *= 2; /* and a transposed copy */
    work.write_bytes *= 2;
    row_is(l->row, work);
    l->row->time[BACKWARD].left_out = SOMETHING_ELSE;
}

/* Sailor's softmax in fp32 is several unfused kernels; which ones is not known. */
static void softmax(struct layer_sizes *l)
{
    bool fused = l->dtype == DTYPE_FP16, causal = !l->t->decoder_seq || (l->decoder && !l->cross);
    double mask = causal ? 0 : MASK_BYTES;
    for (int phase = PHASE_FORWARD; phase <= PHASE_BACKWARD_INPUT; phase++) {
        struct work work = WORK(KERNEL_SOFTMAX, (enum phase)phase, l->dtype,
                                local_heads(l) * l->queries, l->keys, causal);
        row_stands_for(l->row, work);
        if (phase == PHASE_FORWARD)
            work.read_bytes += mask * (double)(work.shape[0] * work.shape[1]);
        if (fused)
            row_ran(l->row, work);
    }
}

static void attention_dropout(struct layer_sizes *l)
{
    int64_t n = local_heads(l) * l->queries * l->keys;
    double e = l->element;
    row_is(l->row, moving(l, KERNEL_DROPOUT, PHASE_FORWARD, n, e, e + MASK_BYTES));
    row_is(l->row, moving(l, KERNEL_DROPOUT, PHASE_BACKWARD_INPUT, n, e + MASK_BYTES, e));
}

static void dropout_add(struct layer_sizes *l)
{
    int64_t n = positions(l) * l->t->hidden;
    double e = l->element;
    row_stands_for(l->row, moving(l, KERNEL_DROPOUT, PHASE_FORWARD, n, 2 * e, e + MASK_BYTES));
    row_ran(l->row, moving(l, KERNEL_DROPOUT, PHASE_FORWARD, n, e, e + MASK_BYTES));
    row_ran(l->row, moving(l, KERNEL_ELEMENTWISE, PHASE_FORWARD, n, 3 * e, 2 * e));
    row_stands_for(l->row,
                   moving(l, KERNEL_DROPOUT, PHASE_BACKWARD_INPUT, n, e + MASK_BYTES, 2 * e));
    row_ran(l->row, moving(l, KERNEL_DROPOUT, PHASE_BACKWARD_INPUT, n, e + MASK_BYTES, e));
    row_ran(l->row, moving(l, KERNEL_ELEMENTWISE, PHASE_BACKWARD_WEIGHT, n, e, 0));
}

static void gelu(struct layer_sizes *l)
{
    int64_t n = positions(l) * (l->t->ffn / l->tp);
    double e = l->element;
    row_is(l->row, moving(l, KERNEL_ELEMENTWISE, PHASE_FORWARD, n, e, e));
    row_is(l->row, moving(l, KERNEL_ELEMENTWISE, PHASE_BACKWARD_INPUT, n, 2 * e, e));
    row_ran(l->row, moving(l, KERNEL_ELEMENTWISE, PHASE_BACKWARD_WEIGHT, n, e, 0));
}

/* ---- matrix products ------------------------------------------------------------------------- */

/* A product of two activations: both gradients are one work of the forward's shape (model.h). */
static void batched(struct layer_sizes *l, int64_t m, int64_t n, int64_t k)
{
    struct work work =
        WORK(KERNEL_MATMUL, PHASE_FORWARD, l->row->operator->matrix_dtype, local_heads(l), m, n, k);
    row_is(l->row, work);
    work.phase = PHASE_BACKWARD_INPUT;
    work.flops *= 2;
    row_is(l->row, work);
    l->row->time[BACKWARD].whole_backward = true;
}

static void score(struct layer_sizes *l)
{
    batched(l, l->queries, l->keys, l->t->depth);
}

static void context(struct layer_sizes *l)
{
    batched(l, l->queries, l->t->depth, l->keys);
}

/* Split by columns (algo 0) or by rows. In cross attention a separate product gives keys and
 * values. */
static void qkv(struct layer_sizes *l)
{
    const struct transformer *t = l->t;
    bool by_rows = l->row->operator->algo == 1;
    int64_t inner = t->heads * t->depth, out_split = by_rows ? 1 : l->tp;
    int64_t in = t->hidden / (by_rows ? l->tp : 1), keys = l->batch * l->keys;
    int64_t outputs = l->cross ? (positions(l) + 2 * keys) * inner : 3 * positions(l) * inner;
    int64_t inputs = (positions(l) + (l->cross ? keys : 0)) * t->hidden, n = outputs / out_split;
    double e = l->element;
    row_is_linear(l->row, positions(l), (l->cross ? 1 : 3) * inner / out_split, in);
    if (l->cross) {
        row_is_linear(l->row, keys, 2 * inner / out_split, in);
        row_several(l->row);
    }
    row_ran(l->row, moving(l, KERNEL_COPY, PHASE_FORWARD, n, e, e));
    row_ran(l->row, moving(l, KERNEL_COPY, PHASE_BACKWARD_INPUT, n, 2 * e, 2 * e));
    all_reduce(l, by_rows ? FORWARD : BACKWARD, (double)(by_rows ? outputs : inputs) * e);
}

static void column_linear(struct layer_sizes *l)
{
    row_is_linear(l->row, positions(l), l->t->ffn / l->tp, l->t->hidden);
    all_reduce(l, BACKWARD, (double)(positions(l) * l->t->hidden) * l->element);
}

static void row_linear(struct layer_sizes *l, int64_t in)
{
    row_is_linear(l->row, positions(l), l->t->hidden, in / l->tp);
    all_reduce(l, FORWARD, (double)(positions(l) * l->t->hidden) * l->element);
}

static void attention_dense(struct layer_sizes *l)
{
    row_linear(l, l->t->heads * l->t->depth);
}

static void mlp_dense(struct layer_sizes *l)
{
    row_linear(l, l->t->ffn);
}

/* With split logits, the forward also all-reduces a few numbers per position. */
static void post_process(struct layer_sizes *l)
{
    const struct transformer *t = l->t;
    l->queries = t->decoder_seq ? t->decoder_seq : t->seq;
    int64_t rows = positions(l), classes = t->vocab / l->tp;
    row_is_linear(l->row, rows, classes, t->hidden);
    row_ran(l->row, WORK(KERNEL_LOSS, PHASE_FORWARD, l->dtype, rows, classes));
    row_ran(l->row, WORK(KERNEL_LOSS, PHASE_BACKWARD_INPUT, l->dtype, rows, classes));
    row_several(l->row);
    all_reduce(l, FORWARD, 0);
    all_reduce(l, BACKWARD, (double)(rows * t->hidden) * l->element);
}

/* ---- by name --------------------------------------------------------------------------------- */

/* The names that follow "enc-" or "dec-" and precede the decoder's "-1" or, in cross attention,
 * "-2". */
static const struct {
    const char *name, *label;
    void (*fill)(struct layer_sizes *l);
} OPERATORS[] = {
    {"encoder-embedding", "embedding", embedding},
    {"decoder-embedding", "embedding", embedding},
    {"1st-layernorm", "layernorm", layer_norm},
    {"2nd-layernorm", "layernorm", layer_norm},
    {"3rd-layernorm", "layernorm", layer_norm},
    {"final-layernorm", "final-layernorm", final_layer_norm},
    {"attention-qkv", "qkv", qkv},
    {"attention-score", "score", score},
    {"attention-softmax", "softmax", softmax},
    {"attention-dropout", "attention-dropout", attention_dropout},
    {"attention-context", "attention-context", context},
    {"attention-dense", "attention-dense", attention_dense},
    {"post-attention-dropout", "post-attention-dropout", dropout_add},
    {"MLP-GEMM-1", "GEMM-1", column_linear},
    {"MLP-gelu", "gelu", gelu},
    {"MLP-GEMM-2", "GEMM-2", mlp_dense},
    {"post-MLP-dropout", "post-MLP-dropout", dropout_add},
    {"gpt-post-process", "post-process", post_process},
    {"t5-post-process", "post-process", post_process},
};

/* What follows `name` in `op`: "", "-1" or "-2"; NULL if it is another operator. */
static const char *after(const char *op, const char *name)
{
    bool part = strncmp(op, "enc-", 4) == 0 || strncmp(op, "dec-", 4) == 0;
    size_t len = strlen(name);
    op += part ? 4 : 0;
    if (strncmp(op, name, len) != 0)
        return NULL;
    op += len;
    return !*op || strcmp(op, "-1") == 0 || strcmp(op, "-2") == 0 ? op : NULL;
}

static void fill(struct table_row *row, const struct transformer *t)
{
    const struct operator_row *op = row->operator;
    struct layer_sizes l = {row,       t,      op->dtype,
                            op->batch, op->tp, .element = dtype_bytes(op->dtype)};
    for (size_t i = 0; i < COUNT_OF(OPERATORS); i++) {
        const char *suffix = after(op->op, OPERATORS[i].name);
        if (!suffix)
            continue;
        l.decoder = strncmp(op->op, "dec", 3) == 0;
        l.cross = l.decoder && strcmp(suffix, "-2") == 0;
        l.queries = l.decoder ? t->decoder_seq : t->seq;
        l.keys = l.decoder && !l.cross ? t->decoder_seq : t->seq;
        row->label = OPERATORS[i].label;
        OPERATORS[i].fill(&l);
        return;
    }
}

void transformer_row(struct table_row *row)
{
    for (size_t i = 0; i < COUNT_OF(TRANSFORMERS); i++)
        if (strcmp(TRANSFORMERS[i].name, row->operator->model) == 0)
            fill(row, &TRANSFORMERS[i]);
}
