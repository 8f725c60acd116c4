/* kernels.h - what operators do to numbers: one small table of functions per backend.
 *
 * A call is one phase of one operator on what this device holds of it. Buffers are the caller's,
 * contiguous, in storage order of the operand's local axes; a weight's gradient is *added to*, every
 * other result is written.
 *
 *   I1  Local sizes and first indices say which part of the operator's dims the call computes. The
 *       sum of the calls over a split reduction dim, and the union over the others, is the whole
 *       operator's result; what must be added once (a bias, a residual) is added where `adds_once`.
 *   I2  Numbers that depend on where an element is (dropout masks, causal masks, positions) depend on
 *       its index in the whole tensor, never on the split.
 *   I3  What needs other devices in the middle of an operator (a loss over a split vocabulary, a batch
 *       norm over a split batch) asks `reduce`; NULL: nobody else has part of it.
 *   I4  Storage is fp32, bf16 or fp16; sums are fp32. Statistics and gradients of weights are fp32 always.
 *   I5  In a dim that reads_whole names, inputs and their gradients are whole, or of an image the rows that `image` says:
 *       a part of the outputs reads elements of other parts. Gradients of such inputs are addends, zero where not reached.
 */
#ifndef WEFT_RUN_KERNELS_H
#define WEFT_RUN_KERNELS_H

#include "run/device/device.h"
#include "run/kernels/fp8.h"

enum reduce { REDUCE_SUM, REDUCE_MAX };

/* Most inputs of a call, labels among them: those of a concat. */
enum { CALL_INPUTS = 16 };

struct kernel_call {
    const struct op *op;
    const int64_t *size;  /* local dims, in the order of the kind's row, batch included */
    const int64_t *begin; /* first index of each */
    const int64_t *whole; /* dims of the whole, the samples of the step included */
    bool adds_once;
    enum dtype dtype; /* DTYPE_FP32, DTYPE_BF16 or DTYPE_FP16 */
    bool fp8;         /* of a product of weights in bf16: its operands are cast (fp8.h) */
    struct fp8_history history;
    uint64_t seed; /* of dropout: of this run, step and instance */
    float dropout; /* probability */
    /* Elements from row to row of a product's outputs that only a loss reads, of a loss's inputs, and of the
     * gradients of both (cost/own_scratch.h); 0: as many as there are. */
    int64_t pitch;
    /* Elements from one head's share of a fused tensor to the next one's, where all inputs lie in that tensor, and the gradients of
     * all in its gradient (takes_shares); 0: each by itself. */
    int64_t share;
    struct image_rows image[2]; /* rows and columns that windows are given; end 0: all (I5) */

    const void *input[CALL_INPUTS];
    const void *weight[MAX_KIND_WEIGHTS];
    void *output; /* of a loss: one fp32 per row */
    const void *output_gradient;
    void *input_gradient[CALL_INPUTS];        /* NULL: not wanted */
    float *weight_gradient[MAX_KIND_WEIGHTS]; /* added to */
    void *kept; /* statistics and the like: written by the forward pass, read by the backward one */
    void *scratch;

    void (*reduce)(void *context, enum reduce op, float *data, int64_t count); /* I3 */
    void *context;
    struct device_stream *stream; /* that the call's work is given to */
};

/* I5, by the dim's place in the kind's row: windows of an image that reach over a border, and who of a
 * sequence's tokens goes to which place of an expert. */
bool reads_whole(const struct op *op, int place);

enum optimizer {
    OPTIMIZER_SGD,
    OPTIMIZER_ADAM,
    OPTIMIZER_ADAMW,
    OPTIMIZER_MUON, /* matrices by muon_kernels, all else by AdamW */
    OPTIMIZER_COUNT
};
extern const char *const OPTIMIZER_NAMES[OPTIMIZER_COUNT];
struct optimizer_step {
    enum optimizer kind;
    float rate, momentum, beta1, beta2, epsilon, decay;
    int64_t step;             /* from 1 */
    float scale;              /* of gradients: 1 / samples, clipping */
    float *master, *gradient; /* fp32 */
    float *moment1, *moment2; /* NULL where the kind has none */
    void *weight;             /* in the storage dtype, NULL: master is the weight */
    enum dtype dtype;
    int64_t count;
    int64_t rows, columns; /* of each of Muon's matrices */
    struct device_stream *stream;
};
/* The first step of AdamW at usual rates, to be given its tensors: what is measured. */
extern const struct optimizer_step ADAMW_STEP;

/* Muon's step (cpu/muon.c): what is done element by element, and what matrices as wholes need in between. */
struct muon_kernels {
    void (*momentum)(const struct optimizer_step *step,
                     float *x); /* leaves what is to become orthogonal */
    int64_t (*room_bytes)(int64_t rows, int64_t columns);
    /* Matrices one after the other, each where it lies; `room` as above. */
    void (*orthogonalise)(struct device_stream *stream, int64_t rows, int64_t columns,
                          int64_t matrices, float *x, void *room);
    void (*apply)(const struct optimizer_step *step, const float *x);
};

/* By which of its ways a backend's library computes a product, where one was found to be the quickest by measuring: what
 * `weft profile measure` keeps in a database and runs take from there. Products and algorithms are words of the backend. */
struct product_choice {
    const char *product, *algorithm;
    int64_t place;       /* among those that the library proposes; 0: its own first choice */
    double ns, first_ns; /* medians of this one, and of the first */
};
struct product_choices {
    const char *(*library)(
        void); /* with its version: what another one's algorithms are nobody knows */
    /* Products are computed so from now on; how many of these the library refuses. Those that are there already stay. */
    size_t (*take)(const struct product_choice *choices, size_t count);
    /* Whether a product that has no choice yet is measured, when it is first computed. */
    void (*seek)(bool seeks);
    /* Those that were found so, from number `first` on, in the order in which they were found; how many. */
    size_t (*found)(struct arena *keep, size_t first, struct product_choice **out);
};

struct kernels {
    const char *name;
    const struct compute_device *device; /* in whose memory their buffers are */
    /* False: this backend has no such operator; *why says so. */
    bool (*has)(const struct op *op, const char **why);
    int64_t (*kept_bytes)(const struct kernel_call *call);    /* of call->kept */
    int64_t (*scratch_bytes)(const struct kernel_call *call); /* the most of its phases */
    void (*run)(const struct kernel_call *call, enum phase phase);
    void (*optimize)(const struct optimizer_step *step);
    /* it takes calls with a pitch, and of a loss those whose gradient is its input */
    bool pads_logits;
    const struct muon_kernels *muon;
    bool (*takes_shares)(const struct kernel_call *call); /* this call, as it is; NULL: none */
    const struct product_choices *choices; /* NULL: there is one way to compute a product */
};
extern const struct kernels CPU_KERNELS;

/* ---- which of OpenBLAS's kernels the CPU's take (cpu/blas.c) ---------------------------------- */

enum cpu_feature {
    CPU_AVX = 1 << 0,
    CPU_AVX2 = 1 << 1,
    CPU_FMA = 1 << 2,
    CPU_AVX512F = 1 << 3,
    CPU_AVX512DQ = 1 << 4,
    CPU_AVX512BW = 1 << 5,
    CPU_AVX512VL = 1 << 6,
};
/* What this processor has of them, and the system lets programs use; none on arm64. */
uint32_t cpu_features(void);
/* Opens OpenBLAS, once; what the CPU's kernels compute needs it. The error says what is missing. */
weft_status blas_open(void);
/* The name of the core whose kernels OpenBLAS took when it was opened; "" if it is not open. */
const char *blas_core(void);
/* A core whose kernels are better on a processor with these features, or NULL: `core` is right. */
const char *better_blas_core(const char *core, uint32_t features);

#include "run/kernels/known_choices.h"
#include "run/kernels/operands.h"
#include "run/kernels/shapes.h"

#endif
