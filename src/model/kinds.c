/* kinds.c - one row per operator kind: its dims, operands, what it keeps, and its work.
 *
 * The dims of a row say how the operator may be split (model.h, I2). The operands are written as
 * axes of dims: "batch,seq,head group depth" is a tensor of three axes whose last one is made of
 * three dims, outermost first, so that splitting `head` takes contiguous parts of it.
 */
#include "model/kind_work.h"

#define BATCH     {DIM_BATCH, ROLE_BATCH}
#define SPLIT(d)  {DIM_##d, ROLE_SPLIT}
#define REDUCE(d) {DIM_##d, ROLE_REDUCE}
#define WHOLE(d)  {DIM_##d, ROLE_WHOLE}
#define HALO(d)   {DIM_##d, ROLE_HALO}
/* Kinds that treat every element alike: sequences (batch, seq, hidden), images and score matrices
 * (batch, hidden, height, width). */
#define ANY_ELEMENT BATCH, SPLIT(SEQ), SPLIT(HIDDEN), SPLIT(HEIGHT), SPLIT(WIDTH)

const struct op_kind_row OP_KINDS[OP_KIND_COUNT] = {
    [OP_EMBEDDING] =
        {
            .name = "embedding",
            .summary = "rows of a table, by id",
            .dims = {BATCH, SPLIT(SEQ), REDUCE(VOCAB), SPLIT(HIDDEN)},
            .keep = KEEP_INPUT_0,
            .input = {"batch,seq"},
            .output = "batch,seq,hidden",
            .weight = {"vocab,hidden", ",hidden"},
            .work = embedding_work,
        },
    [OP_EMBEDDING_BAG] =
        {
            .name = "embedding_bag",
            .summary = "pooled rows of many tables",
            .dims = {BATCH, SPLIT(TABLE), REDUCE(VOCAB), SPLIT(HIDDEN)},
            .keep = KEEP_INPUT_0,
            .input = {"batch,table,"},
            .output = "batch,table,hidden",
            .weight = {"table,vocab,hidden"},
            .work = bag_work,
        },
    [OP_LINEAR] =
        {
            .name = "linear",
            .summary = "matrix product with weights",
            .dims = {BATCH, SPLIT(SEQ), REDUCE(IN), SPLIT(OUT)},
            .keep = KEEP_INPUT_0,
            .input = {"batch,seq,in"},
            .output = "batch,seq,out",
            .weight = {"out,in", "out"},
            .work = linear_work,
        },
    [OP_SCORE] =
        {
            .name = "score",
            .summary = "queries times keys, per head",
            .dims = {BATCH, SPLIT(HEAD), SPLIT(GROUP), SPLIT(SEQ), SPLIT(KV), REDUCE(DEPTH)},
            .keep = KEEP_INPUT_0 | KEEP_INPUT_1,
            .input = {"batch,seq,head group depth", "batch,kv,head depth"},
            .output = "batch,head group,seq,kv",
            .work = score_work,
        },
    [OP_CONTEXT] =
        {
            .name = "context",
            .summary = "probabilities times values, per head",
            .dims = {BATCH, SPLIT(HEAD), SPLIT(GROUP), SPLIT(SEQ), REDUCE(KV), SPLIT(DEPTH)},
            .keep = KEEP_INPUT_0 | KEEP_INPUT_1,
            .input = {"batch,head group,seq,kv", "batch,kv,head depth"},
            .output = "batch,seq,head group depth",
            .work = context_work,
        },
    [OP_ATTENTION] =
        {
            .name = "attention",
            .summary = "flash attention",
            .dims = {BATCH, SPLIT(HEAD), SPLIT(GROUP), HALO(SEQ), HALO(KV), WHOLE(DEPTH)},
            .keep = KEEP_INPUT_0 | KEEP_INPUT_1 | KEEP_INPUT_2 | KEEP_OUTPUT,
            .input = {"batch,seq,head group depth", "batch,kv,head depth", "batch,kv,head depth"},
            .output = "batch,seq,head group depth",
            .weight = {"head group"},
            .work = attention_work,
        },
    [OP_SOFTMAX] =
        {
            .name = "softmax",
            .summary = "over the last axis",
            .dims = {BATCH, SPLIT(HEAD), SPLIT(SEQ), WHOLE(KV)},
            .keep = KEEP_OUTPUT,
            .input = {"batch,head,seq,kv"},
            .output = "batch,head,seq,kv",
            .weight = {"head"},
            .work = softmax_work,
        },
    [OP_LAYER_NORM] =
        {
            .name = "layer_norm",
            .summary = "mean and variance over the features",
            .dims = {BATCH, SPLIT(SEQ), WHOLE(HIDDEN)},
            .keep = KEEP_INPUT_0,
            .input = {"batch,seq,hidden"},
            .output = "batch,seq,hidden",
            .weight = {"hidden", "hidden"},
            .work = norm_work,
        },
    [OP_RMS_NORM] =
        {
            .name = "rms_norm",
            .summary = "root mean square over the features",
            .dims = {BATCH, SPLIT(SEQ), WHOLE(HIDDEN)},
            .keep = KEEP_INPUT_0,
            .input = {"batch,seq,hidden"},
            .output = "batch,seq,hidden",
            .weight = {"hidden"},
            .work = norm_work,
        },
    [OP_BATCH_NORM] =
        {
            .name = "batch_norm",
            .summary = "mean and variance over the batch, per channel",
            .dims = {BATCH, SPLIT(HIDDEN), SPLIT(HEIGHT), SPLIT(WIDTH)},
            .keep = KEEP_INPUT_0,
            .input = {"batch,hidden,height,width"},
            .output = "batch,hidden,height,width",
            .weight = {"hidden", "hidden"},
            .work = batch_norm_work,
        },
    [OP_GELU] =
        {
            .name = "gelu",
            .summary = "activation",
            .dims = {ANY_ELEMENT},
            .keep = KEEP_INPUT_0,
            .work = elementwise_work,
        },
    [OP_RELU] =
        {
            .name = "relu",
            .summary = "activation",
            .dims = {ANY_ELEMENT},
            .keep = KEEP_OUTPUT,
            .work = elementwise_work,
        },
    [OP_SILU] =
        {
            .name = "silu",
            .summary = "activation",
            .dims = {ANY_ELEMENT},
            .keep = KEEP_INPUT_0,
            .work = elementwise_work,
        },
    [OP_GATED] =
        {
            .name = "gated",
            .summary = "activation of one half, or input, times the other",
            .dims = {ANY_ELEMENT},
            .keep = KEEP_INPUT_0,
            .work = elementwise_work,
        },
    [OP_DROPOUT] =
        {
            .name = "dropout",
            .summary = "random zeros",
            .dims = {ANY_ELEMENT},
            .keep = KEEP_MASK,
            .work = dropout_work,
        },
    [OP_DROPOUT_ADD] =
        {
            .name = "dropout_add",
            .summary = "residual plus dropout",
            .dims = {ANY_ELEMENT},
            .keep = KEEP_MASK,
            .work = dropout_work,
        },
    [OP_ADD] =
        {
            .name = "add",
            .summary = "sum of two tensors",
            .dims = {ANY_ELEMENT},
            .work = elementwise_work,
        },
    [OP_ROTARY] =
        {
            .name = "rotary",
            .summary = "rotary position embedding",
            .dims = {ANY_ELEMENT},
            .work = elementwise_work,
        },
    [OP_ROUTER] =
        {
            .name = "router",
            .summary = "scores of the experts, and the choice of the best",
            .dims = {BATCH, SPLIT(SEQ), REDUCE(IN), WHOLE(EXPERT)},
            .keep = KEEP_INPUT_0 | KEEP_OUTPUT,
            .input = {"batch,seq,in"},
            .output = "batch,seq,expert",
            .weight = {"expert,in", "expert"},
            .work = router_work,
        },
    [OP_DISPATCH] =
        {
            .name = "dispatch",
            .summary = "tokens to their experts",
            .dims = {BATCH, SPLIT(EXPERT), SPLIT(SEQ), SPLIT(HIDDEN)},
            .input = {"batch,seq,hidden", "batch,seq,"},
            .output = "batch,expert seq,hidden",
            .work = elementwise_work,
        },
    [OP_EXPERT_LINEAR] =
        {
            .name = "expert_linear",
            .summary = "one matrix product per expert",
            .dims = {BATCH, SPLIT(EXPERT), SPLIT(SEQ), REDUCE(IN), SPLIT(OUT)},
            .keep = KEEP_INPUT_0,
            .input = {"batch,expert seq,in"},
            .output = "batch,expert seq,out",
            .weight = {"expert,out,in", "expert,out"},
            .work = expert_work,
        },
    [OP_COMBINE] =
        {
            .name = "combine",
            .summary = "weighted expert outputs back to their tokens",
            .dims = {BATCH, REDUCE(EXPERT), SPLIT(SEQ), SPLIT(HIDDEN)},
            .keep = KEEP_INPUT_0,
            .input = {"batch,expert seq,hidden", "batch,seq,"},
            .output = "batch,seq,hidden",
            .work = elementwise_work,
        },
    [OP_CONV1D] =
        {
            .name = "conv1d",
            .summary = "causal depthwise convolution over a sequence, and SiLU",
            .dims = {BATCH, SPLIT(HEAD), WHOLE(SEQ)},
            .keep = KEEP_INPUT_0,
            .input = {"batch,seq,head"},
            .output = "batch,seq,head",
            .weight = {"head,", "head"},
            .work = elementwise_work,
        },
    [OP_SCAN] =
        {
            .name = "scan",
            .summary = "selective scan of a state-space layer",
            .dims = {BATCH, SPLIT(HEAD), WHOLE(SEQ), WHOLE(DEPTH)},
            .keep = KEEP_INPUT_0 | KEEP_INPUT_1 | KEEP_OUTPUT,
            .input = {"batch,seq,head", "batch,seq,head"},
            .output = "batch,seq,head depth",
            .weight = {"head", "head", "head"},
            .work = scan_work,
        },
    [OP_GATED_NORM] =
        {
            .name = "gated_norm",
            .summary = "RMS norm of gated features, in groups",
            .dims = {BATCH, SPLIT(HEAD), SPLIT(SEQ), WHOLE(DEPTH)},
            .keep = KEEP_INPUT_0 | KEEP_INPUT_1,
            .input = {"batch,seq,head depth", "batch,seq,head depth"},
            .output = "batch,seq,head depth",
            .weight = {"head depth"},
            .work = gated_norm_work,
        },
    [OP_CONV] =
        {
            .name = "conv",
            .summary = "convolution",
            .dims = {BATCH, REDUCE(IN), SPLIT(OUT), HALO(HEIGHT), HALO(WIDTH)},
            .keep = KEEP_INPUT_0,
            .input = {"batch,in,height,width"},
            .output = "batch,out,height,width",
            .weight = {"out,in,,", "out"},
            .work = conv_work,
        },
    [OP_POOL] =
        {
            .name = "pool",
            .summary = "maximum or mean over a window",
            .dims = {BATCH, SPLIT(HIDDEN), HALO(HEIGHT), HALO(WIDTH)},
            .keep = KEEP_INPUT_0,
            .input = {"batch,hidden,height,width"},
            .output = "batch,hidden,height,width",
            .work = pooling_work,
        },
    [OP_CONCAT] =
        {
            .name = "concat",
            .summary = "tensors side by side",
            .dims = {BATCH},
            .work = copy_work,
        },
    [OP_INTERACTION] =
        {
            .name = "interaction",
            .summary = "dot products of all pairs of feature vectors",
            .dims = {BATCH, WHOLE(TABLE), REDUCE(HIDDEN)},
            .keep = KEEP_INPUT_0 | KEEP_INPUT_1,
            .input = {"batch,hidden", "batch,,hidden"},
            .output = "batch,",
            .work = interaction_work,
        },
    [OP_LOSS] =
        {
            .name = "loss",
            .summary = "softmax cross entropy",
            .dims = {BATCH, SPLIT(SEQ), REDUCE(VOCAB)},
            .input = {"batch,seq,vocab"},
            .output = "batch,seq",
            .work = loss_work,
        },
    [OP_RESHAPE] =
        {
            .name = "reshape",
            .summary = "data movement into another shape",
            .dims = {BATCH},
            .work = copy_work,
        },
    [OP_OPAQUE] =
        {
            .name = "opaque",
            .summary = "an operator that Weft does not know",
            .dims = {BATCH},
            .keep = KEEP_INPUT_0 | KEEP_OUTPUT,
            .work = elementwise_work,
        },
};

int op_dims(enum op_kind kind)
{
    int count = 0;
    while (count < OP_MAX_DIMS && OP_KINDS[kind].dims[count].role != ROLE_NONE)
        count++;
    return count;
}

int op_find_dim(enum op_kind kind, enum dim dim)
{
    for (int i = 0; i < op_dims(kind); i++)
        if (OP_KINDS[kind].dims[i].dim == dim)
            return i;
    return -1;
}
