/* model.h - what a neural network computes: operators with named dims, tensors, a module tree.
 *
 * A model is a linear program of operators in execution order, grouped in modules. A module may repeat: its body is
 * stored once and stands for `repeat` copies in a row, so a 1,000-layer model costs as much as one layer. All sizes are
 * per sample: the dim `batch` has size 1 here and is multiplied by the micro-batch where work is measured (op_work).
 *
 *   I1  An operator's dims are those of its kind's row in OP_KINDS, in that order. Every axis of
 *       every operand is the product of zero or more of the operator's dims, outermost first.
 *   I2  The layouts of a split follow from I1: an operand that has the split dim is Split, one that
 *       lacks it is Broadcast, and an output that lacks a split *reduction* dim is a Partial sum.
 *   I3  The operators of a module, its submodules included, are contiguous.
 *   I4  Every tensor has one producer: an operator, the model's input, or a repeat's carry.
 *   I5  A weight is owned by one operator; a tied use refers to the owner's weight.
 *
 * FLOPs are those of matrix products (a multiply and an add are two), as in every published figure.
 * Operators without matrix products are bound by bytes moved.
 */
#ifndef WEFT_MODEL_H
#define WEFT_MODEL_H

#include "base/base.h"
#include "model/adapters.h"
#include "model/rope.h"

/* ---- dims ------------------------------------------------------------------------------------ */

enum dim {
    DIM_BATCH,  /* samples; 1 in the model, the micro-batch in work */
    DIM_SEQ,    /* positions of a sequence (queries, in attention) */
    DIM_KV,     /* positions attended to */
    DIM_HEAD,   /* key/value heads; in a scan, groups of heads that share B and C */
    DIM_GROUP,  /* query heads per key/value head */
    DIM_DEPTH,  /* width of one head */
    DIM_IN,     /* input features or channels */
    DIM_OUT,    /* output features or channels */
    DIM_HIDDEN, /* features of an operator that does not mix them into others */
    DIM_VOCAB,  /* rows of an embedding, classes of a loss */
    DIM_EXPERT, /* experts of a mixture */
    DIM_HEIGHT,
    DIM_WIDTH,
    DIM_TABLE, /* embedding tables of a recommender */
    DIM_COUNT
};

enum dim_role {
    ROLE_NONE,   /* not a dim of this kind */
    ROLE_BATCH,  /* splitting it is data parallelism */
    ROLE_SPLIT,  /* may be split; the output has it */
    ROLE_REDUCE, /* may be split; leaves a partial sum */
    ROLE_HALO,   /* may be split if neighbours exchange borders (or, for kv, blocks) */
    ROLE_WHOLE   /* cannot be split */
};

const char *dim_name(enum dim dim);
bool dim_from_name(const char *name, enum dim *out);

/* ---- tensors --------------------------------------------------------------------------------- */

enum {
    MAX_AXES = 5,
    MAX_AXIS_DIMS = 3,
    OP_MAX_DIMS = 7,
    MAX_KIND_INPUTS = 3,
    MAX_KIND_WEIGHTS = 3
};

enum element {
    ELEMENT_COMPUTE, /* the compute dtype */
    ELEMENT_FP32,    /* statistics, router scores */
    ELEMENT_INDEX,   /* 8-byte token ids */
    ELEMENT_BYTE     /* masks */
};

struct tensor {
    int32_t producer;     /* operator, or -1: the model's input or a repeat's carry */
    int32_t carry_module; /* the repeating module whose carry this is, or -1 */
    int32_t view_of;      /* the tensor whose storage this one shows under another shape, or -1 */
    uint8_t axes;
    int64_t size[MAX_AXES]; /* per sample; axis 0 is the batch */
    enum element element;
    uint8_t kept; /* flags of enum kept: who reads it again in the backward pass; 0: nobody */
};

/* A tensor within a repeat exists once per copy; the reader decides which copies are kept. */
enum kept {
    KEPT_WITHIN = 1, /* read in the same copy: every copy is kept */
    KEPT_NEXT = 2,   /* read in the next copy, through the carry: all but the last are kept */
    KEPT_AFTER = 4   /* read after the repeat: the last one is kept */
};

/* How an operator sees one tensor or weight: the size of each axis per sample, and which of its dims
 * (by position in its kind's row) the axis is made of. An axis with no dims is never split. */
struct operand {
    int32_t tensor; /* index of a tensor; -1 for a weight */
    enum element element;
    uint8_t axes;
    int64_t size[MAX_AXES];
    int8_t dims[MAX_AXES][MAX_AXIS_DIMS]; /* -1 ends */
    /* For a part of a fused tensor that is not queries, keys or values: where the part begins in
     * each share of the last axis. A share is what belongs to one index of the axis's first dim. */
    int64_t part_first;
};

struct weight {
    const char *name; /* "weight", "bias" */
    struct operand operand;
    int32_t tied_op; /* I5: the operator that owns it (its first weight), or -1 */
};

/* ---- operators ------------------------------------------------------------------------------- */

enum op_kind {
    OP_EMBEDDING,     /* ids -> rows of a table (plus positions) */
    OP_EMBEDDING_BAG, /* pooled lookups in many tables (recommenders) */
    OP_LINEAR,        /* y = x W^T + b */
    OP_SCORE,         /* q k^T per head, plain attention */
    OP_CONTEXT,       /* p v per head, plain attention */
    OP_ATTENTION,     /* flash attention: score, softmax and context without the score matrix */
    OP_SOFTMAX,
    OP_LAYER_NORM,
    OP_RMS_NORM,
    OP_BATCH_NORM,
    OP_GELU,
    OP_RELU,
    OP_SILU,
    OP_GATED, /* act(gate) * up: SwiGLU and friends, on the fused gate-up output or on two inputs */
    OP_DROPOUT,
    OP_DROPOUT_ADD, /* residual + dropout(x) */
    OP_ADD,
    OP_ROTARY,
    OP_ROUTER,        /* x -> expert scores and choice */
    OP_DISPATCH,      /* tokens to their experts (all-to-all under expert parallelism) */
    OP_EXPERT_LINEAR, /* grouped matrix product, one group per expert */
    OP_COMBINE,       /* expert outputs back to tokens, weighted */
    OP_CONV1D,        /* causal depthwise convolution over a sequence, and SiLU of it */
    OP_SCAN,          /* selective scan: h' = e^(dt A) h + dt B x, y = C h' + D x (Mamba-2) */
    OP_GATED_NORM,    /* RMS norm of x silu(gate), over groups of features */
    OP_DELTA, /* gated delta rule: S' = e^g S + b k (v - e^g S k)^T, y = S' q (Qwen3-Next) */
    OP_INDEX, /* scores of all keys, few small heads wide, and the choice of the best (DeepSeek-V3.2) */
    OP_MIX, /* streams of a residual, weighed and summed (DeepSeek-V4) */
    OP_CONV,
    OP_POOL,
    OP_CONCAT,
    OP_INTERACTION, /* pairwise dot products of feature vectors (DLRM) */
    OP_LOSS,        /* softmax cross entropy over vocab or classes */
    OP_RESHAPE,     /* pure data movement: patch merging, space to depth, transpose copies */
    OP_OPAQUE,      /* unknown to Weft: carried with its sizes, split by batch only */
    OP_KIND_COUNT
};

/* What the backward pass reads again. */
enum keep {
    KEEP_INPUT_0 = 1,
    KEEP_INPUT_1 = 2,
    KEEP_INPUT_2 = 4,
    KEEP_OUTPUT = 8,
    KEEP_MASK = 16,  /* one byte per output element */
    KEEP_APART = 32, /* loss: the gradient is written beside the logits, not over them */
    /* loss: each of its steps, forward and backward, writes a whole tensor in fp32 */
    KEEP_STEPS = 64,
    /* score: a buffer of the output's size stays allocated, one for all layers of a device: the input that
     * Megatron-LM's own attention gives to its product (DotProductAttention, matmul_input_buffer) */
    KEEP_BUFFER = 128
};

/* How a gate `a` is applied to `b`. */
enum gating {
    GATE_SILU,
    GATE_GELU,
    GATE_SIGMOID,
    GATE_CLAMPED, /* gpt-oss: both are clamped at 7; a s(1.702 a) (b + 1), s the sigmoid */
    GATE_COUNT
};
extern const char *const GATE_WORDS[]; /* silu, gelu, sigmoid, clamped; NULL-terminated */

/* How a router's scores become a choice of experts and their weights, and what keeps it balanced. None of it but `skew`
 * costs anything that is counted: it is what a framework is told. */
enum router_scores {
    ROUTER_SOFTMAX,        /* of the scores of the experts that were chosen (Mixtral) */
    ROUTER_SOFTMAX_OF_ALL, /* of all scores, before the choice (DeepSeek-V2) */
    ROUTER_SIGMOID         /* of each score, then shares of the chosen ones' sum (DeepSeek-V3) */
};
extern const char *const ROUTER_WORDS[]; /* softmax, softmax-of-all, sigmoid; NULL after them */
/* What a token is sent to, where experts lie on several devices. */
enum token_copies {
    COPIES_EXPERTS, /* each of its experts (Megatron-LM's alltoall) */
    COPIES_DEVICES, /* once each device that holds some of its experts */
    COPIES_NODES    /* once each such node, and inside it once each device (DeepEP, HybridEP) */
};
extern const char *const COPIES_WORDS[]; /* experts, devices, nodes; NULL after them */
enum balance_loss {
    BALANCE_BATCH,    /* over all tokens of a pass (Switch Transformer, Eq. 4) */
    BALANCE_SEQUENCE, /* over each sequence (DeepSeek-V2, Eq. 23) */
    BALANCE_NONE
};
extern const char *const BALANCE_WORDS[]; /* batch, sequence, none; NULL after them */
struct routing {
    int scores;                  /* of enum router_scores */
    int balance;                 /* of enum balance_loss */
    double balance_weight;       /* of that loss */
    bool balance_bias;           /* of each expert's score, moved after every step (DeepSeek-V3) */
    int64_t groups, group_top_k; /* experts come from the best so many of so many groups; 0: any */
    double scale;                /* of the weights of the chosen ones */
    /* the exponent of the power law by which experts are chosen (popularity.c); 0: evenly */
    double skew;
};
/* Softmax of the chosen ones and a loss over the batch of weight 0.01, as Megatron-LM recommends. */
#define ROUTING_DEFAULTS .balance_weight = 0.01, .scale = 1

enum phase { PHASE_FORWARD, PHASE_BACKWARD_INPUT, PHASE_BACKWARD_WEIGHT, PHASE_COUNT };
const char *phase_name(enum phase phase);

/* In the model itself; in a tower beside it, an encoder that may have degrees of its own (vision.h); where both join. */
enum op_place { PLACE_BODY, PLACE_TOWER, PLACE_JOIN };

struct op;
struct work;

struct op_kind_row {
    const char *name;
    const char *summary;
    struct {
        enum dim dim;
        enum dim_role role;
    } dims[OP_MAX_DIMS]; /* the first ROLE_NONE ends the list */
    unsigned keep;       /* flags of enum keep */
    bool turns;          /* its backward pass reads operands alone (op_turns) */
    /* Axes of dims, "batch,seq,head group depth"; NULL where they follow from the rank, or the builder writes them. */
    const char *input[MAX_KIND_INPUTS], *output, *weight[MAX_KIND_WEIGHTS];
    /* Sets kernel, shape and FLOPs of one phase; `size`: local dims (I1), batch included. Bytes: op_work, from operands. */
    void (*work)(const struct op *op, const int64_t *size, enum phase phase, struct work *out);
};
extern const struct op_kind_row OP_KINDS[OP_KIND_COUNT];

#define NORM_EPSILON 1e-5 /* where nothing else is said: PyTorch's LayerNorm and Megatron-LM */

struct op {
    enum op_kind kind;
    const char *name; /* within its module: "qkv" */
    int32_t module;
    int64_t size[OP_MAX_DIMS]; /* per sample, in the order of the kind's dims */
    int32_t inputs, weights;
    struct operand *input;
    struct operand output;
    struct weight *weight;
    /* flags of enum keep: the kind's, changed where an implementation keeps more or less */
    unsigned keep;
    /* elements kept in addition to operands, per sample, in the compute dtype: an unfused norm's copies */
    int64_t kept_elements;
    int64_t kept_fp32; /* likewise in fp32: a loss's probabilities, statistics of rows */
    bool input_grad;   /* some input needs a gradient; false if all are the model's own inputs */
    /* its weights are not trained (LoRA): they have neither gradients nor optimizer state */
    bool frozen;
    enum op_place place;
    /* attention: half of the score matrix is masked out; softmax: that half is not read either */
    bool causal;
    /* causal attention: how many keys a query sees, its own included; 0: all */
    int64_t window;
    /* the window is a chunk of the sequence: a query sees no key before the chunk that it is in (Llama 4) */
    bool chunked;
    /* attention: positions of one of the documents that share a sequence, which do not see each other, where they are of one
     * length that asks for as much work (decoder.c); 0: the sequence is one */
    int64_t document;
    /* attention, softmax: the weight is a learned number per query head, in the softmax like a score with a value of zero */
    bool sinks;
    int32_t flash;       /* attention: the version of FlashAttention, 0: the device's best */
    int64_t value_depth; /* attention: width of one value head, if it is not DIM_DEPTH */
    /* rotary: features of one head (0: not known); features of one key/value head's share (its
     * queries, its key, its value), and how many of them, from the first, are rotated */
    int64_t head_depth, head_share, head_turned;
    /* rotary: pair i of a head turns by position * rope_base^(-2 i / head_depth), slow ones by less (cpu/rotary.c); 0: not */
    double rope_base, rope_scaling;
    struct rope_stretch stretch;
    double epsilon;                       /* norms: added to the mean square whose root is taken */
    struct routing routing;               /* router */
    int32_t kernel[2], stride[2], groups; /* convolution and pooling windows */
    int32_t top_k;                        /* experts per token; pooled lookups per table */
    enum token_copies copies;             /* dispatch, combine */
    enum gating gate;                     /* gated: the activation of its gate */
    bool squared;                         /* relu: the output is max(x, 0)^2 */
    bool padded;                          /* reshape: zeros follow the input's elements */
    /* linear: tensor parallelism splits it in the way the residual stream is split */
    bool by_stream;
    /* scan, delta: heads of one group, width of a head's state (delta: of its key), positions that are
     * computed as one product */
    int64_t scan_heads, scan_state, scan_chunk;
    /* attention whose `window` keys an index has chosen: the widths of the key and value that all heads share */
    int64_t shared_depth, shared_value;
    /* router: places of an expert as a multiple of its even share of the tokens; what finds none is dropped */
    double capacity;
    /* what works on tokens that were sent to experts, if these are not chosen evenly (routing.skew): their number */
    int64_t skewed_experts;
    const char *onnx_type; /* of an opaque operator */
};

/* Whether the backward pass makes gradients of its weights. */
static inline bool op_trains(const struct op *op)
{
    return op->weights && !op->frozen;
}

/* Whether it has a use for its output's gradient: for those of its inputs or of its weights. */
static inline bool op_wants_gradient(const struct op *op)
{
    return op->input_grad || op_trains(op);
}

/* Tokens of the fullest of so many devices that share the experts, as a multiple of an even share (popularity.c). */
double op_fullest(const struct op *op, int64_t devices);

/* ---- work: what a kernel is asked to do ------------------------------------------------------ */

/* The kernels whose costs are known. An operator's phase runs as one kernel of one shape. */
enum kernel {
    KERNEL_MATMUL,         /* batch m n k */
    KERNEL_GROUPED_MATMUL, /* groups m n k: m rows in each group */
    /* batch heads kv_heads q kv depth value_depth causal; causal is 1, or with a window its number
     * of keys, 2 or more */
    KERNEL_ATTENTION,
    KERNEL_ATTENTION_V1, /* the same shape: FlashAttention's first version and its Triton port */
    KERNEL_ATTENTION_V2, /* the same shape: FlashAttention-2 */
    KERNEL_CONV,         /* images out_channels height width in_channels kernel_h kernel_w stride */
    KERNEL_NORM,         /* rows cols */
    KERNEL_BATCH_NORM,   /* images channels pixels */
    KERNEL_SOFTMAX,      /* rows cols causal */
    KERNEL_ELEMENTWISE,  /* elements */
    KERNEL_DROPOUT,      /* elements */
    KERNEL_EMBEDDING,    /* rows width vocab */
    KERNEL_LOSS,         /* rows classes */
    /* the same shape: one kernel forward and one backward, as a compiler writes them */
    KERNEL_LOSS_COMPILED,
    KERNEL_POOL,      /* images channels height width window */
    KERNEL_SCAN,      /* batch groups heads seq depth state chunk */
    KERNEL_DELTA,     /* batch groups heads seq depth state chunk */
    KERNEL_COPY,      /* bytes */
    KERNEL_OPTIMIZER, /* parameters */
    KERNEL_COUNT
};
enum { WORK_MAX_SHAPE = 8 };
const char *kernel_name(enum kernel kernel);
bool kernel_from_name(const char *name, enum kernel *out);
const char *kernel_near(const char *name); /* the name that a misspelt one meant; NULL: none */
/* The names of a kernel's shape numbers, NULL-terminated. */
const char *const *kernel_shape_names(enum kernel kernel);

struct work {
    enum kernel kernel;
    enum phase phase;
    enum dtype dtype;
    int64_t shape[WORK_MAX_SHAPE];
    /* of matrix products; causal attention counts the full square, or with a window so many keys for every query */
    double flops;
    double read_bytes;  /* from device memory, each operand once */
    double write_bytes; /* to device memory */
};

/* The work of one phase with these local dims (size[i] for the i-th dim of the kind's row; batch is
 * the local micro-batch). Without weights there is no work in PHASE_BACKWARD_WEIGHT, and without
 * differentiable inputs none in PHASE_BACKWARD_INPUT: the result then has no FLOPs and no bytes. */
struct work op_work(const struct op *op, const int64_t *size, enum dtype dtype, enum phase phase);
/* The sizes of the unsplit operator at this micro-batch; an array of OP_MAX_DIMS. */
void op_full_size(const struct op *op, int64_t batch, int64_t *size);
int op_dims(enum op_kind kind);                   /* how many dims the kind has */
int op_find_dim(enum op_kind kind, enum dim dim); /* position in the row, or -1 */
/* Whether some axis of an operand is made of its operator's dim at this place of the row. */
bool operand_has_dim(const struct operand *operand, int place);
#include "model/operand.h"
double operand_bytes(const struct op *op, const struct operand *operand, const int64_t *local,
                     enum dtype dtype);
int64_t element_bytes(enum element element, enum dtype dtype);
bool op_is_activation(enum op_kind kind);              /* gelu, relu, silu and those with gates */
bool op_passes_on(const struct op *op, int32_t input); /* its gradient is the output's own */

/* ---- modules and the model ------------------------------------------------------------------- */

struct module {
    const char *name; /* "layers", "attn" */
    int32_t parent;   /* -1 for the root */
    int32_t first_op, ops;
    int64_t repeat; /* 1: plain */
    /* copies of a repeating module are called name.first_index, name.(first_index + stride), ... */
    int64_t first_index;
    int64_t stride;
    /* tensors of a repeat: in copy i > 0, carry_in is the carry_out of copy i - 1; in copy 0 it is
     * carry_init */
    int32_t carry_in, carry_init, carry_out;
    bool indexed; /* called name.index even if it does not repeat */
};

struct model {
    struct arena *arena; /* owns everything below */
    const char *name;
    const char *family;
    const char *source; /* preset with its paper, or the file it was read from */
    struct module *module;
    struct op *op;
    struct tensor *tensor;
    int32_t modules, ops, tensors;
    int64_t layers;               /* counted as the paper does: transformer layers, CNN blocks */
    int64_t seq;                  /* tokens per sample that count for tokens/s; 1 for images */
    int64_t images, image_tokens; /* of a sample; positions that each takes. 0: there is no tower */
    bool images_beside;           /* those are not of the sequence: layers attend to them */
    enum dtype dtype;             /* the usual training dtype */
    ARRAY(const char *) warnings; /* opaque operators, ignored fields */
};

void model_free(struct model *model);

/* The type that an operator computes in when its model trains in `dtype`. With fp8 or nvfp4, only products of weights run in
 * that type, except for those whose output a loss reads; all others run in bf16. */
enum dtype op_dtype(const struct model *model, int32_t op, enum dtype dtype);
/* Copies of an operator in the whole model: the product of the repeats around it. */
int64_t op_copies(const struct model *model, const struct op *op);
/* Whether the operator is part of a layer, that is, of an indexed module. */
bool op_in_layer(const struct model *model, const struct op *op);
bool model_has_tower(const struct model *model);
/* The first operator of a kind; NULL: the model has none. */
const struct op *model_op_of_kind(const struct model *model, enum op_kind kind);
double model_norm_epsilon(const struct model *model); /* NORM_EPSILON where it has no norm */
/* "layers.7.attn.qkv" of copy 7 (counting through nested repeats), in `keep`. */
const char *op_path(struct arena *keep, const struct model *model, const struct op *op,
                    int64_t copy);
/* The numbers of a module's copies: those of its own repeat, or of the unnamed repeat around it (a
 * body of several layers, see build_repeat_from). Unnamed modules do not appear in paths. */
struct series {
    int64_t first, count, stride;
};
struct series module_series(const struct model *model, int32_t module);
bool module_is_named(const struct module *module);

struct totals {
    double parameters; /* tied weights count once */
    double flops[PHASE_COUNT];
    double masked_flops; /* of all phases: those whose keys causal masks hide */
    double kept_bytes;   /* read again by the backward pass; a shared tensor counts once */
    int64_t ops;         /* operators, with all copies */
};
/* Totals of one sample in this dtype. A module's totals include its submodules and all its copies. */
struct totals op_totals(const struct model *model, const struct op *op, enum dtype dtype);
struct totals module_totals(const struct model *model, int32_t module, enum dtype dtype);
struct totals model_totals(const struct model *model, enum dtype dtype);
/* The most that a step holds for one sample besides weights, gradients and optimizer state: all that is kept at the end of
 * the forward pass, or what is still kept when the gradients of a tied table are added up (peak.c). */
double model_peak_bytes(const struct model *model, enum dtype dtype);
double op_parameters(const struct op *op); /* parameters that it owns, of one copy */
/* What one copy keeps for its backward pass with these local dims (as for op_work): its output if
 * anyone reads it again, its mask and statistics, and what it reads of the model's own inputs. */
double op_kept_bytes(const struct model *model, const struct op *op, const int64_t *local,
                     enum dtype dtype);
/* The part of op_kept_bytes that is not an operand: masks, statistics and probabilities. */
double op_extra_bytes(const struct op *op, const int64_t *local, enum dtype dtype);
int64_t tensor_bytes(const struct tensor *tensor, int64_t batch, enum dtype dtype);
/* The tensor at the end of a chain of views. */
int32_t tensor_storage(const struct model *model, int32_t tensor);
/* Whether its backward pass reads weights, gradients and inputs alone, none of these the model's own. */
bool op_turns(const struct model *model, const struct op *op);

/* ---- opening: presets and importers ---------------------------------------------------------- */

struct preset {
    const char *name;    /* "gpt3-13b" */
    const char *family;  /* "gpt" */
    const char *options; /* the family's options as YAML flow: "layers: 40, hidden: 5120" */
    const char *source;  /* "Aceso Table 2", "public config" */
};
size_t model_presets(const struct preset **out);

/* Opens a preset name, a YAML model file, a Hugging Face config.json (or a folder with one) or an
 * ONNX file. `overrides` (may be NULL) is YAML flow text of family options that replace those of a
 * preset or family file: "seq: 4096, attention: plain". */
weft_status model_open(const char *name, const char *overrides, struct model **out);
/* On devices with matrix units for bf16 (todays.c): the overrides with what such presets are trained with today,
 * in `keep` or as they are; and the type. */
const char *model_todays_options(struct arena *keep, const char *name, const char *overrides);
enum dtype model_todays_dtype(const struct model *model, const char *name);

/* ---- families -------------------------------------------------------------------------------- */

struct builder;
/* How a family is trained today (todays.c). */
enum family_practice {
    FLASH_ATTENTION = 1, /* no bias of positions: flash kernels compute its attention */
    STAYS_WIDE = 2       /* tables of embeddings: in fp32 */
};
struct family {
    const char *name;
    const char *summary;
    const struct field *fields; /* its options, as fields of the struct of `defaults` */
    size_t field_count, options_size;
    const void *defaults;
    /* Checks the options (errors at `where`, which may be NULL) and builds the operators. */
    weft_status (*build)(struct builder *b, const void *options, const struct doc *where);
    unsigned practice; /* enum family_practice */
};
size_t model_families(const struct family *const **out);
/* Builds a family from a mapping of options. */
weft_status family_build(const struct family *family, const char *name, const char *source,
                         const struct doc *options, struct model **out);
#include "model/windows.h"
#endif
