/* kinds.c - one row per operator kind: its dims, its operands, what it keeps, and its work.
 *
 * The dims of a row say how the operator may be split (model.h, I2). The operands are written as
 * axes of dims: "batch,seq,head group depth" is a tensor of three axes whose last one is made of
 * three dims, outermost first, so that splitting `head` takes contiguous parts of it.
 */
#include "model/kind_work.h"

#define BATCH                      {DIM_BATCH, ROLE_BATCH}
#define SPLIT(d)                   {DIM_##d, ROLE_SPLIT}
#define REDUCE(d)                  {DIM_##d, ROLE_REDUCE}
#define WHOLE(d)                   {DIM_##d, ROLE_WHOLE}
#define HALO(d)                    {DIM_##d, ROLE_HALO}
#define KIND(word, what, function) .name = (word), .summary = (what), .work = (function)
/* Kinds that treat all elements alike: sequences (batch, seq, hidden), images and score matrices
 * (batch, hidden, height, width). */
#define ANY_ELEMENT(word, what, kept, function)                                                    \
    {KIND(word, what, function),                                                                   \
     .dims = {BATCH, SPLIT(SEQ), SPLIT(HIDDEN), SPLIT(HEIGHT), SPLIT(WIDTH)}, .keep = (kept),      \
     .turns = true}

const struct op_kind_row OP_KINDS[OP_KIND_COUNT] = {
    [OP_EMBEDDING] =
        {
            KIND("embedding", "rows of a table, by id", embedding_work),
            .dims = {BATCH, SPLIT(SEQ), REDUCE(VOCAB), SPLIT(HIDDEN)},
            .keep = KEEP_INPUT_0,
            .input = {"batch,seq"},
            .output = "batch,seq,hidden",
            .weight = {"vocab,hidden", ",hidden"},
        },
    [OP_EMBEDDING_BAG] =
        {
            KIND("embedding_bag", "pooled rows of many tables", bag_work),
            .dims = {BATCH, SPLIT(TABLE), REDUCE(VOCAB), SPLIT(HIDDEN)},
            .keep = KEEP_INPUT_0,
            .input = {"batch,table,"},
            .output = "batch,table,hidden",
            .weight = {"table,vocab,hidden"},
        },
    [OP_LINEAR] =
        {
            KIND("linear", "matrix product with weights", linear_work),
            .dims = {BATCH, SPLIT(SEQ), REDUCE(IN), SPLIT(OUT)},
            .keep = KEEP_INPUT_0,
            .turns = true,
            .input = {"batch,seq,in"},
            .output = "batch,seq,out",
            .weight = {"out,in", "out"},
        },
    [OP_SCORE] =
        {
            KIND("score", "queries times keys, per head", score_work),
            .dims = {BATCH, SPLIT(HEAD), SPLIT(GROUP), SPLIT(SEQ), SPLIT(KV), REDUCE(DEPTH)},
            .keep = KEEP_INPUT_0 | KEEP_INPUT_1,
            .turns = true,
            .input = {"batch,seq,head group depth", "batch,kv,head depth"},
            .output = "batch,head group,seq,kv",
        },
    [OP_CONTEXT] =
        {
            KIND("context", "probabilities times values, per head", context_work),
            .dims = {BATCH, SPLIT(HEAD), SPLIT(GROUP), SPLIT(SEQ), REDUCE(KV), SPLIT(DEPTH)},
            .keep = KEEP_INPUT_0 | KEEP_INPUT_1,
            .turns = true,
            .input = {"batch,head group,seq,kv", "batch,kv,head depth"},
            .output = "batch,seq,head group depth",
        },
    [OP_ATTENTION] =
        {
            KIND("attention", "flash attention", attention_work),
            .dims = {BATCH, SPLIT(HEAD), SPLIT(GROUP), HALO(SEQ), HALO(KV), WHOLE(DEPTH)},
            .keep = KEEP_INPUT_0 | KEEP_INPUT_1 | KEEP_INPUT_2 | KEEP_OUTPUT,
            .input = {"batch,seq,head group depth", "batch,kv,head depth", "batch,kv,head depth"},
            .output = "batch,seq,head group depth",
            .weight = {"head group"},
        },
    [OP_SOFTMAX] =
        {
            KIND("softmax", "over the last axis", softmax_work),
            .dims = {BATCH, SPLIT(HEAD), SPLIT(SEQ), WHOLE(KV)},
            .keep = KEEP_OUTPUT,
            .input = {"batch,head,seq,kv"},
            .output = "batch,head,seq,kv",
            .weight = {"head"},
        },
    [OP_LAYER_NORM] =
        {
            KIND("layer_norm", "mean and variance over the features", norm_work),
            .dims = {BATCH, SPLIT(SEQ), WHOLE(HIDDEN)},
            .keep = KEEP_INPUT_0,
            .input = {"batch,seq,hidden"},
            .output = "batch,seq,hidden",
            .weight = {"hidden", "hidden"},
        },
    [OP_RMS_NORM] =
        {
            KIND("rms_norm", "root mean square over the features, or over those of each head",
                 norm_work),
            .dims = {BATCH, SPLIT(SEQ), WHOLE(HIDDEN), SPLIT(HEAD)},
            .keep = KEEP_INPUT_0,
            .input = {"batch,seq,head hidden"},
            .output = "batch,seq,head hidden",
            .weight = {"hidden"},
        },
    [OP_BATCH_NORM] =
        {
            KIND("batch_norm", "mean and variance over the batch, per channel", batch_norm_work),
            .dims = {BATCH, SPLIT(HIDDEN), SPLIT(HEIGHT), SPLIT(WIDTH)},
            .keep = KEEP_INPUT_0,
            .input = {"batch,hidden,height,width"},
            .output = "batch,hidden,height,width",
            .weight = {"hidden", "hidden"},
        },
    [OP_GELU] = ANY_ELEMENT("gelu", "activation", KEEP_INPUT_0, elementwise_work),
    [OP_RELU] = ANY_ELEMENT("relu", "activation", KEEP_OUTPUT, elementwise_work),
    [OP_SILU] = ANY_ELEMENT("silu", "activation", KEEP_INPUT_0, elementwise_work),
    [OP_GATED] = ANY_ELEMENT("gated", "activation of one half, or input, times the other",
                             KEEP_INPUT_0, elementwise_work),
    [OP_DROPOUT] = ANY_ELEMENT("dropout", "random zeros", KEEP_MASK, dropout_work),
    [OP_DROPOUT_ADD] = ANY_ELEMENT("dropout_add", "residual plus dropout", KEEP_MASK, dropout_work),
    [OP_ADD] = ANY_ELEMENT("add", "sum of two tensors", 0, elementwise_work),
    [OP_ROTARY] = ANY_ELEMENT("rotary", "rotary position embedding", 0, elementwise_work),
    [OP_ROUTER] =
        {
            KIND("router", "scores of the experts, and the choice of the best", router_work),
            .dims = {BATCH, SPLIT(SEQ), REDUCE(IN), WHOLE(EXPERT)},
            .keep = KEEP_INPUT_0 | KEEP_OUTPUT,
            .input = {"batch,seq,in"},
            .output = "batch,seq,expert",
            .weight = {"expert,in", "expert"},
        },
    [OP_DISPATCH] =
        {
            KIND("dispatch", "tokens to their experts", elementwise_work),
            .dims = {BATCH, SPLIT(EXPERT), SPLIT(SEQ), SPLIT(HIDDEN)},
            .input = {"batch,seq,hidden", "batch,seq,"},
            .output = "batch,expert seq,hidden",
        },
    [OP_EXPERT_LINEAR] =
        {
            KIND("expert_linear", "one matrix product per expert", expert_work),
            .dims = {BATCH, SPLIT(EXPERT), SPLIT(SEQ), REDUCE(IN), SPLIT(OUT)},
            .keep = KEEP_INPUT_0,
            .input = {"batch,expert seq,in"},
            .output = "batch,expert seq,out",
            .weight = {"expert,out,in", "expert,out"},
        },
    [OP_COMBINE] =
        {
            KIND("combine", "weighted expert outputs back to their tokens", elementwise_work),
            .dims = {BATCH, REDUCE(EXPERT), SPLIT(SEQ), SPLIT(HIDDEN)},
            .keep = KEEP_INPUT_0,
            .input = {"batch,expert seq,hidden", "batch,seq,"},
            .output = "batch,seq,hidden",
        },
    [OP_CONV1D] =
        {
            KIND("conv1d", "causal depthwise convolution over a sequence, and SiLU",
                 elementwise_work),
            .dims = {BATCH, SPLIT(HEAD), WHOLE(SEQ)},
            .keep = KEEP_INPUT_0,
            .input = {"batch,seq,head"},
            .output = "batch,seq,head",
            .weight = {"head,", "head"},
        },
    [OP_SCAN] =
        {
            KIND("scan", "selective scan of a state-space layer", scan_work),
            .dims = {BATCH, SPLIT(HEAD), WHOLE(SEQ), WHOLE(DEPTH)},
            .keep = KEEP_INPUT_0 | KEEP_INPUT_1 | KEEP_OUTPUT,
            .input = {"batch,seq,head", "batch,seq,head"},
            .output = "batch,seq,head depth",
            .weight = {"head", "head", "head"},
        },
    [OP_GATED_NORM] =
        {
            KIND("gated_norm", "RMS norm of gated features, in groups", gated_norm_work),
            .dims = {BATCH, SPLIT(HEAD), SPLIT(SEQ), WHOLE(DEPTH)},
            .keep = KEEP_INPUT_0 | KEEP_INPUT_1,
            .input = {"batch,seq,head depth", "batch,seq,head depth"},
            .output = "batch,seq,head depth",
            .weight = {"head depth"},
        },
    [OP_DELTA] =
        {
            KIND("delta", "gated delta rule of a linear attention layer", delta_work),
            .dims = {BATCH, SPLIT(HEAD), WHOLE(SEQ), WHOLE(DEPTH)},
            .keep = KEEP_INPUT_0 | KEEP_INPUT_1,
            .input = {"batch,seq,head", "batch,seq,head"},
            .output = "batch,seq,head depth",
            .weight = {"head", "head"},
        },
    [OP_INDEX] =
        {
            KIND("index", "scores of all keys for the choice of the best", index_work),
            .dims = {BATCH, SPLIT(SEQ), WHOLE(KV), WHOLE(HEAD), WHOLE(DEPTH)},
            .keep = KEEP_INPUT_0 | KEEP_INPUT_1 | KEEP_INPUT_2,
            .input = {"batch,seq,head depth", "batch,kv,depth", "batch,seq,head"},
            .output = "batch,seq",
        },
    [OP_MIX] =
        {
            KIND("mix", "streams of a residual, weighed and summed", elementwise_work),
            .dims = {BATCH, SPLIT(SEQ)},
            .keep = KEEP_INPUT_0,
            .input = {"batch,seq,", "batch,seq,", "batch,seq,"},
            .output = "batch,seq,",
        },
    [OP_CONV] =
        {
            KIND("conv", "convolution", conv_work),
            .dims = {BATCH, REDUCE(IN), SPLIT(OUT), HALO(HEIGHT), HALO(WIDTH)},
            .keep = KEEP_INPUT_0,
            .input = {"batch,in,height,width"},
            .output = "batch,out,height,width",
            .weight = {"out,in,,", "out"},
        },
    [OP_POOL] =
        {
            KIND("pool", "maximum or mean over a window", pooling_work),
            .dims = {BATCH, SPLIT(HIDDEN), HALO(HEIGHT), HALO(WIDTH)},
            .keep = KEEP_INPUT_0,
            .input = {"batch,hidden,height,width"},
            .output = "batch,hidden,height,width",
        },
    [OP_CONCAT] =
        {
            KIND("concat", "tensors side by side", copy_work),
            .dims = {BATCH},
        },
    [OP_INTERACTION] =
        {
            KIND("interaction", "dot products of all pairs of feature vectors", interaction_work),
            .dims = {BATCH, WHOLE(TABLE), REDUCE(HIDDEN)},
            .keep = KEEP_INPUT_0 | KEEP_INPUT_1,
            .input = {"batch,hidden", "batch,,hidden"},
            .output = "batch,",
        },
    [OP_LOSS] =
        {
            KIND("loss", "softmax cross entropy", loss_work),
            .dims = {BATCH, SPLIT(SEQ), REDUCE(VOCAB)},
            .input = {"batch,seq,vocab"},
            .output = "batch,seq",
        },
    [OP_RESHAPE] =
        {
            KIND("reshape", "data movement into another shape", copy_work),
            .dims = {BATCH},
        },
    [OP_OPAQUE] =
        {
            KIND("opaque", "an operator that Weft does not know", elementwise_work),
            .dims = {BATCH},
            .keep = KEEP_INPUT_0 | KEEP_OUTPUT,
        },
};

bool op_turns(const struct model *model, const struct op *op)
{
    static const unsigned INPUTS[] = {KEEP_INPUT_0, KEEP_INPUT_1, KEEP_INPUT_2};
    unsigned others = op->keep;
    for (int32_t k = 0; k < (int32_t)COUNT_OF(INPUTS); k++) {
        const struct tensor *tensor =
            k < op->inputs ? &model->tensor[tensor_storage(model, op->input[k].tensor)] : NULL;
        if (tensor && (op->keep & INPUTS[k]) && tensor->producer < 0 && tensor->carry_module < 0)
            return false;
        others &= ~INPUTS[k];
    }
    return OP_KINDS[op->kind].turns && op->input_grad && !others && !op->kept_elements &&
           !op->kept_fp32;
}

bool op_passes_on(const struct op *op, int32_t input)
{
    static const unsigned INPUTS[OP_KIND_COUNT] = {[OP_ADD] = 3, [OP_DROPOUT_ADD] = 2};
    bool gated = op->kind == OP_ADD && op->inputs > 1 && op->weights && input == 0;
    return !gated && INPUTS[op->kind] >> input & 1;
}

int op_dims(enum op_kind kind)
{
    int count = 0;
    while (count < OP_MAX_DIMS && OP_KINDS[kind].dims[count].role != ROLE_NONE)
        count++;
    return count;
}

int op_find_dim(enum op_kind kind, enum dim dim)
{
    for (int i = 0; i < OP_MAX_DIMS && OP_KINDS[kind].dims[i].role != ROLE_NONE; i++)
        if (OP_KINDS[kind].dims[i].dim == dim)
            return i;
    return -1;
}
