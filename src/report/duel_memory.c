/* duel_memory.c - what a stage needs by the count of Aceso's authors, who searched within 28,000 MB of it
 * (section 3.3; the artifact, microsoft/SuperScaler: search/aceso_cost_model.py).
 *
 * With the rows of the authors' table for the operators of a stage, of which s come behind it,
 *
 *   state + (s + 1) (input + A) + again + max( max R_forward + max R_backward, weights )           (1)
 *
 * state is 16 bytes a parameter, A what all operators allocate less what recomputation saves, and `again`
 * the largest that is made again at once. R is what PyTorch's allocator took from the device when an
 * operator was measured alone: gradients, and cuDNN's workspaces of up to 7 GB. "We opt to overestimate
 * the amount of reserved memory."
 *
 *   I1  Operators that share storage count once: a softmax and the dropout behind it are 1.5 dropouts.
 *   I2  Of neighbours that are made again the first saves what it allocates, but not before a layer.
 *   I3  What was not measured cannot be searched: every operator's micro-batch, tensor parallelism and
 *       split are those of a row.
 *   I4  Operators that the authors' models do not have, or have as parts of others, need nothing.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/duel.h"

static const char DEVICE[] = "V100-SXM2-32GB";

/* The models of the tables; T5 11B and 22B have the same operators. */
static const struct table_model {
    const char *model, *table;
    enum dtype dtype;
} TABLES[] = {
    {"gpt3-350m", "gpt_350M", DTYPE_FP16},
    {"gpt3-1.3b", "gpt_1_3B", DTYPE_FP16},
    {"gpt3-2.6b", "gpt_2_6B", DTYPE_FP16},
    {"gpt3-6.7b", "gpt_6_7B", DTYPE_FP16},
    {"gpt3-13b", "gpt_13B", DTYPE_FP16},
    {"wresnet-500m", "resnet_500M", DTYPE_FP32},
    {"wresnet-2b", "resnet_2B", DTYPE_FP32},
    {"wresnet-4b", "resnet_4B", DTYPE_FP32},
    {"wresnet-6.8b", "resnet_6_8B", DTYPE_FP32},
    {"wresnet-13b", "resnet_13B", DTYPE_FP32},
    {"t5-770m", "t5_770M", DTYPE_FP16},
    {"t5-3b", "t5_3B", DTYPE_FP16},
    {"t5-6b", "t5_6B", DTYPE_FP16},
    {"t5-11b", "t5_11B", DTYPE_FP16},
    {"t5-22b", "t5_11B", DTYPE_FP16},
};

struct footprints {
    struct operator_profile *row;
    size_t rows;
    const char *head;        /* the operator that has the head and the loss, NULL: none */
    double state_per_weight; /* bytes of state for each of a weight's */
};

weft_status footprints_new(struct arena *keep, const char *model, struct footprints **out)
{
    enum { STATE_BYTES = 16 };
    struct footprints *prints = ARENA_NEW(keep, struct footprints);
    struct profile *profile = NULL;
    weft_status status;
    TRY(profile_open_shipped(DEVICE, &profile));
    for (size_t i = 0; i < COUNT_OF(TABLES); i++) {
        if (strcmp(TABLES[i].model, model) != 0)
            continue;
        TRY(profile_operators(profile, DEVICE, TABLES[i].dtype, TABLES[i].table, keep, &prints->row,
                              &prints->rows));
        prints->state_per_weight = STATE_BYTES / dtype_bytes(TABLES[i].dtype);
        prints->head = model[0] == 'g' ? "gpt-post-process" : "t5-post-process";
    }
    *out = prints;
done:
    profile_close(profile);
    return status;
}

/* ---- names ----------------------------------------------------------------------------------- */

struct alias {
    const char *part, *name; /* the end of a path; in the table */
};
static const struct alias ATTENTION[] = {
    {"qkv", "attention-qkv"},         {"q", "attention-qkv"},
    {"score", "attention-score"},     {"softmax", "attention-softmax"},
    {"dropout", "attention-dropout"}, {"context", "attention-context"},
    {"proj", "attention-dense"},      {"dropout_add", "post-attention-dropout"},
};
static const struct alias MLP[] = {
    {"up", "MLP-GEMM-1"},
    {"gelu", "MLP-gelu"},
    {"down", "MLP-GEMM-2"},
    {"dropout_add", "post-MLP-dropout"},
};
static const struct alias IN_BLOCK[] = {
    {"conv1", "conv1"},
    {"bn1", "bn1"},
    {"conv2", "conv2"},
    {"bn2", "bn2"},
    {"conv3", "conv3"},
    {"bn3", "bn3"},
    {"downsample.0", "downsample"},
    {"relu", "relu"},
};
static const struct alias OUTSIDE[] = {
    {"embedding", "encoder-embedding"},
    {"encoder.embedding", "encoder-embedding"},
    {"encoder.norm", "enc-final-layernorm"},
    {"decoder.embedding", "decoder-embedding"},
    {"decoder.norm", "dec-final-layernorm"},
    {"norm", "final-layernorm"},
    {"conv1", "conv1"},
    {"bn1", "bn1"},
    {"relu", "relu1"},
    {"maxpool", "maxpool"},
    {"avgpool", "avgpool"},
    {"fc", "fc"},
};

static const char *alias_of(const struct alias *alias, size_t count, const char *part)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(alias[i].part, part) == 0)
            return alias[i].name;
    return NULL;
}

/* Of a transformer's layer: "attn.qkv", "cross.norm", "mlp.up". */
static const char *layer_name(struct arena *scratch, bool decoder, const char *part)
{
    const char *stack = decoder ? "dec" : "enc", *dot = strchr(part, '.'), *name;
    bool cross = strncmp(part, "cross.", 6) == 0, mlp = strncmp(part, "mlp.", 4) == 0;
    if (!dot)
        return NULL;
    if (strcmp(dot, ".norm") == 0) {
        const char *rank = cross ? "2nd" : !mlp ? "1st" : decoder ? "3rd" : "2nd";
        return arena_printf(scratch, "%s-%s-layernorm", stack, rank);
    }
    name = mlp ? alias_of(MLP, COUNT_OF(MLP), dot + 1)
               : alias_of(ATTENTION, COUNT_OF(ATTENTION), dot + 1);
    if (!name)
        return NULL;
    if (mlp || !decoder)
        return arena_printf(scratch, "%s-%s", stack, name);
    return arena_printf(scratch, "%s-%s-%d", stack, name, cross ? 2 : 1);
}

/* What the table calls an instance; NULL: nothing (I4). */
static const char *name_of(struct arena *scratch, const struct footprints *prints, const char *path)
{
    bool decoder = strncmp(path, "decoder.", 8) == 0, encoder = strncmp(path, "encoder.", 8) == 0;
    const char *in_stack = decoder || encoder ? path + 8 : path, *name;
    int layer, block, used = 0;
    if (sscanf(path, "layer%d.%d.%n", &layer, &block, &used) == 2 && used) {
        name = alias_of(IN_BLOCK, COUNT_OF(IN_BLOCK), path + used);
        return name ? arena_printf(scratch, "block-%d-%d-%s", layer - 1, block, name) : NULL;
    }
    if (sscanf(in_stack, "layers.%d.%n", &layer, &used) == 1 && used)
        return layer_name(scratch, decoder, in_stack + used);
    return strcmp(path, "head") == 0 ? prints->head : alias_of(OUTSIDE, COUNT_OF(OUTSIDE), path);
}

/* ---- a stage's operators --------------------------------------------------------------------- */

struct needs {
    const struct operator_profile *row;
    bool again; /* recomputed */
};
struct all_needs {
    struct needs *data;
    size_t len, cap;
};

static const struct operator_profile *row_of(const struct footprints *prints,
                                             const struct operator_profile *like)
{
    for (size_t i = 0; i < prints->rows; i++) {
        const struct operator_profile *row = &prints->row[i];
        if (row->microbatch == like->microbatch && row->tp == like->tp && row->algo == like->algo &&
            strcmp(row->op, like->op) == 0)
            return row;
    }
    return NULL;
}

/* False: an operator was not measured as it is (I3). */
static bool collect(struct arena *scratch, const struct footprints *prints, const struct plan *plan,
                    int32_t stage, struct all_needs *out)
{
    struct part part = plan->part[stage];
    for (int64_t i = part.first; i < part.first + part.count; i++) {
        const struct choice *choice = plan_choice(plan, i);
        bool conv = plan->model->op[plan->instance[i].op].kind == OP_CONV;
        int64_t dp = split_degree(&choice->split, DIM_BATCH);
        struct operator_profile like = {.op = name_of(scratch, prints, plan_path(scratch, plan, i)),
                                        .microbatch = plan->batch_per_step / dp,
                                        .tp = plan->stage[stage].devices / dp,
                                        .algo = conv && split_degree(&choice->split, DIM_IN) > 1};
        struct needs needs = {.again = choice->recompute};
        if (!like.op)
            continue;
        needs.row = row_of(prints, &like);
        if (!needs.row)
            return false;
        array_push(scratch, out, needs);
    }
    return true;
}

/* ---- (1) ------------------------------------------------------------------------------------- */

/* I1 */
static double allocates(const struct operator_profile *row)
{
    const char *op = row->op;
    bool first = strstr(op, "0-0") != NULL;
    if (strcmp(op, "enc-attention-softmax") == 0 || strcmp(op, "bn1") == 0 || strstr(op, "-bn3") ||
        (strstr(op, "-downsample") && !first))
        return 0;
    return (double)row->activation_bytes * (strcmp(op, "enc-attention-dropout") == 0 ? 1.5 : 1);
}

/* I2 */
static bool begins_layer(const struct operator_profile *row)
{
    return strcmp(row->op, "enc-1st-layernorm") == 0 || strstr(row->op, "-conv1");
}

/* A, and what is made again at once at most. */
static void activations(const struct all_needs *all, double *kept, double *again)
{
    double segment = 0;
    *kept = *again = 0;
    for (size_t i = 0; i < all->len; i++) {
        const struct needs *one = &all->data[i], *next = i + 1 < all->len ? one + 1 : NULL;
        double bytes = allocates(one->row);
        bool pair = next && one->again && next->again;
        *kept += pair && !begins_layer(next->row) ? 0 : bytes;
        segment += pair ? bytes : 0;
        *again = segment > *again ? segment : *again;
        if (!pair || begins_layer(next->row))
            segment = 0;
    }
}

bool footprint(const struct footprints *prints, const struct plan *plan, int32_t stage,
               int64_t *bytes)
{
    struct arena *scratch = arena_new();
    struct all_needs all = {0};
    bool measured = collect(scratch, prints, plan, stage, &all) && all.len;
    double weights = 0, forward = 0, backward = 0, kept, again, behind = plan->stages - 1 - stage;
    for (size_t i = 0; i < all.len && measured; i++) {
        const struct operator_profile *row = all.data[i].row;
        weights += (double)row->weight_bytes;
        forward = fmax(forward, (double)row->forward_reserved_bytes);
        backward = fmax(backward, (double)row->backward_reserved_bytes);
    }
    activations(&all, &kept, &again);
    double input = measured ? (double)all.data[0].row->input_bytes : 0;
    *bytes = (int64_t)(weights * prints->state_per_weight + (behind + 1) * (input + kept) + again +
                       fmax(forward + backward, weights));
    arena_free(scratch);
    return measured;
}
