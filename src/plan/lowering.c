/* lowering.c - one split per operator, from degrees, by following the data.
 *
 * The split of an operator is, outermost first,
 *
 *   batch:dp                seq:cp       <tp>      or, among experts (struct expert_mesh),
 *   batch:mesh.batch  <ep>  seq:mesh.seq <etp>                                                 (1)
 *
 * and in a tower (towers.c), or where it joins the text, whose sequence is divided only after that,
 *
 *   batch:tower.batch copy:tower.copies <tower.tp>        batch:dp copy:cp <tp>
 *
 * where <tp> depends on how its input lies over the tp devices. The operators are walked in order,
 * and every tensor is noted as
 *
 *   whole      each device has all of it (or will, once a partial sum is reduced)
 *   features   parts of its features, channels or heads
 *   seq        parts of its sequence: sequence parallelism (Korthikanti et al., section 4.2.2)
 *   rows       features again, under a view that counts the heads among the rows
 *
 * LOWERING has one row per operator kind: for each way in which the input may lie, the dim that tp
 * splits and how the output lies. A linear with a whole input is split by its outputs, one whose
 * input features are split is split by its inputs (Megatron's column and row parallel pair, one
 * reduction).
 *
 *   I1  A carry lies the same way in every copy after the first: the walk starts with what enters
 *       the repeat, and is repeated with what came out until both agree (at most PASSES times; a
 *       difference that remains is a reshard between copies, not an error).
 *   I2  If an operator's inputs lie differently: seq if one of them lies so, else whole.
 *   I3  A degree divides its dim; only vocabularies are padded (plan.h, I4).
 *   I4  A dim of outputs that is smaller than tp cannot be divided: the operator is copied. So is
 *       whatever a kind cannot split.
 *   I5  With whole images every convolution is split by its outputs, which count as whole: there is
 *       an all-gather after it, and its input's gradients are summed before it.
 */
#include "plan/plan.h"

#include <string.h>

#include "plan/room.h"

enum tensor_spread { WHOLE, FEATURES, SEQ, ROWS, SPREAD_COUNT };

/* Values in LOWERING besides the dims of the model. */
enum {
    BY_COPY = SPLIT_COPY,
    BY_HEADS,  /* by head, and by group if there are fewer key/value heads than tp */
    BY_STREAM, /* like the residual stream: seq with sequence parallelism, else copies */
    BY_NORM, /* by head if each is normalised by itself and tp divides them, else like the stream */
};
/* a partial sum, which is reduced to the layout of the residual stream */
enum { SUMMED = SPREAD_COUNT };

/* What a tensor's axes mean. */
enum region {
    PLAIN,
    SCORES,  /* (batch, heads, seq, kv) */
    EXPERTS, /* tokens in the order of their experts, along the sequence */
    FOLLOW,  /* in the table: the same as the input */
};

struct lay {
    int8_t dim, out;
};
struct lowering {
    struct lay lay[SPREAD_COUNT]; /* by the layout of the input */
    enum region region;           /* of the output */
    int8_t otherwise;             /* the dim to split if tp does not divide the first; 0: none */
};

/* clang-format off */
#define ALL_WAYS(dim, out) {{dim, out}, {dim, out}, {dim, out}, {dim, out}}
/* input:       whole                features                seq                  rows */
/* Column parallel unless the input's features are split. */
#define MATRIX {{DIM_OUT, FEATURES}, {DIM_IN, SUMMED},       {DIM_OUT, FEATURES}, {DIM_IN, SUMMED}}
/* Every element is treated alike: split as the input is. */
#define ALIKE  {{BY_COPY, WHOLE},    {DIM_HIDDEN, FEATURES}, {DIM_SEQ, SEQ},      {DIM_SEQ, ROWS}}
/* Needs all features of a position, or of a head. */
#define NORM   {{BY_STREAM, SUMMED}, {BY_NORM, FEATURES},    {DIM_SEQ, SEQ},      {DIM_SEQ, ROWS}}
/* Channels or heads are independent of each other. */
#define IMAGE  {{BY_COPY, WHOLE},    {DIM_HIDDEN, FEATURES}, {BY_COPY, WHOLE},    {BY_COPY, WHOLE}}
#define SCORED {{BY_COPY, WHOLE},    {DIM_HEAD, FEATURES},   {BY_COPY, WHOLE},    {BY_COPY, WHOLE}}
#define LOGITS {{BY_COPY, WHOLE},    {DIM_VOCAB, WHOLE},     {DIM_SEQ, SEQ},      {BY_COPY, WHOLE}}
#define STREAM ALL_WAYS(BY_STREAM, SUMMED)
#define HEADS  ALL_WAYS(BY_HEADS, FEATURES)
#define VOCAB  ALL_WAYS(DIM_VOCAB, SUMMED)
#define TABLES ALL_WAYS(DIM_TABLE, WHOLE)
#define COPIED ALL_WAYS(BY_COPY, WHOLE)
/* clang-format on */

static const struct lowering LOWERING[] = {
    [OP_EMBEDDING] = {VOCAB, PLAIN},
    [OP_EMBEDDING_BAG] = {TABLES, PLAIN, DIM_VOCAB},
    [OP_LINEAR] = {MATRIX, PLAIN},
    [OP_SCORE] = {HEADS, SCORES},
    [OP_CONTEXT] = {HEADS, PLAIN},
    [OP_ATTENTION] = {HEADS, PLAIN},
    [OP_SOFTMAX] = {SCORED, FOLLOW},
    [OP_LAYER_NORM] = {NORM, PLAIN},
    [OP_RMS_NORM] = {NORM, PLAIN},
    [OP_BATCH_NORM] = {IMAGE, PLAIN},
    [OP_GELU] = {ALIKE, FOLLOW},
    [OP_RELU] = {ALIKE, FOLLOW},
    [OP_SILU] = {ALIKE, FOLLOW},
    [OP_GATED] = {ALIKE, FOLLOW},
    [OP_DROPOUT] = {ALIKE, FOLLOW},
    [OP_DROPOUT_ADD] = {ALIKE, FOLLOW},
    [OP_ADD] = {ALIKE, FOLLOW},
    [OP_ROTARY] = {ALIKE, FOLLOW},
    [OP_ROUTER] = {STREAM, PLAIN},
    [OP_DISPATCH] = {STREAM, EXPERTS},
    [OP_EXPERT_LINEAR] = {MATRIX, EXPERTS},
    [OP_COMBINE] = {STREAM, PLAIN},
    [OP_CONV1D] = {HEADS, PLAIN},
    [OP_SCAN] = {HEADS, PLAIN},
    [OP_GATED_NORM] = {HEADS, PLAIN},
    [OP_DELTA] = {HEADS, PLAIN},
    [OP_INDEX] = {STREAM, PLAIN},
    [OP_MIX] = {STREAM, PLAIN},
    [OP_CONV] = {MATRIX, PLAIN},
    [OP_POOL] = {IMAGE, PLAIN},
    [OP_CONCAT] = {COPIED, PLAIN},
    [OP_INTERACTION] = {COPIED, PLAIN},
    [OP_LOSS] = {LOGITS, PLAIN},
    [OP_RESHAPE] = {COPIED, PLAIN},
    [OP_OPAQUE] = {COPIED, PLAIN},
};
_Static_assert(COUNT_OF(LOWERING) == OP_KIND_COUNT, "an operator kind without a row");

/* How a tensor lies, and what it is. */
struct tensor_state {
    enum tensor_spread spread;
    enum region region;
};

struct lower {
    const struct model *model;
    const struct degrees *degrees;
    struct expert_mesh dense, experts; /* the degrees outside of experts, and among them */
    struct expert_mesh tower;          /* of an encoder of images: seq are its copies */
    struct arena *scratch;
    struct tensor_state *tensor; /* by tensor */
    struct tensor_state *carry;  /* by module: how its carry lies from the second copy on */
    bool *carry_known;           /* by module */
    bool *read_by_loss;          /* by tensor: logits */
    struct choice *choice;       /* by operator */
};

/* ---- how tensors lie ------------------------------------------------------------------------- */

/* Under a view of the same rank with narrower rows, split features become split rows, and back. */
static struct tensor_state state_of(const struct lower *l, int32_t tensor)
{
    const struct tensor *t = &l->model->tensor[tensor];
    if (t->view_of < 0)
        return l->tensor[tensor];
    const struct tensor *base = &l->model->tensor[t->view_of];
    struct tensor_state state = state_of(l, t->view_of);
    if (t->axes != base->axes)
        return state;
    int64_t now = t->size[t->axes - 1], before = base->size[base->axes - 1];
    if (state.spread == FEATURES && now < before)
        state.spread = ROWS;
    else if (state.spread == ROWS && now > before)
        state.spread = FEATURES;
    return state;
}

static struct tensor_state input_state(const struct lower *l, const struct op *op)
{
    struct tensor_state joined =
        op->inputs ? state_of(l, op->input[0].tensor) : (struct tensor_state){0};
    for (int32_t i = 1; i < op->inputs; i++) {
        enum tensor_spread spread = state_of(l, op->input[i].tensor).spread;
        if (spread != joined.spread) /* I2 */
            joined.spread = spread == SEQ || joined.spread == SEQ ? SEQ : WHOLE;
    }
    return joined;
}

/* Sets the carries of modules that start with operator `op`: modules are in the order of their
 * first operators, outer ones first. */
static void set_carries(struct lower *l, int32_t op, int32_t *next_module)
{
    for (; *next_module < l->model->modules; ++*next_module) {
        const struct module *m = &l->model->module[*next_module];
        if (m->first_op > op)
            return;
        if (m->carry_in >= 0)
            l->tensor[m->carry_in] =
                l->carry_known[*next_module] ? l->carry[*next_module] : state_of(l, m->carry_init);
    }
}

/* Whether every carry came out as it went in; notes those that did not (I1). */
static bool carries_agree(struct lower *l)
{
    bool agree = true;
    for (int32_t i = 0; i < l->model->modules; i++) {
        const struct module *m = &l->model->module[i];
        if (m->carry_in < 0 || m->carry_out < 0 || m->repeat == 1)
            continue;
        struct tensor_state out = state_of(l, m->carry_out);
        agree &= out.spread == l->tensor[m->carry_in].spread;
        l->carry[i] = out;
        l->carry_known[i] = true;
    }
    return agree;
}

/* ---- adding one degree ----------------------------------------------------------------------- */

static int64_t dim_size(const struct op *op, int dim)
{
    int at = dim < DIM_COUNT ? op_find_dim(op->kind, (enum dim)dim) : -1;
    return at >= 0 ? op->size[at] : 1;
}

static bool power_of_two(int64_t number)
{
    return (number & (number - 1)) == 0;
}

/* I3. The outputs of a classifier count as a vocabulary, too. */
static bool may_pad(const struct lower *l, const struct op *op, int dim)
{
    return dim == DIM_VOCAB || (dim == DIM_OUT && l->read_by_loss[op->output.tensor]);
}

static bool fits(const struct lower *l, const struct op *op, int dim, int64_t degree)
{
    int64_t size = dim_size(op, dim);
    if (degree == 1 || (may_pad(l, op, dim) && power_of_two(degree) && degree <= size))
        return true;
    return size % degree == 0 &&
           split_legal(l->model, op, op_find_dim(op->kind, (enum dim)dim), degree);
}

/* A mixture's tokens can be split if every expert's places can be (plan.h, I4); otherwise they are
 * copied. */
static bool may_part(const struct lower *l, const struct op *op, int dim, int64_t degree)
{
    return dim != DIM_SEQ || op_find_dim(op->kind, DIM_EXPERT) < 0 || fits(l, op, dim, degree);
}

/* The user's degree that is being applied. */
struct named {
    const char *name;
    int64_t degree;
};

static weft_status does_not_divide(const struct lower *l, const struct op *op, int dim,
                                   int64_t size, struct named by)
{
    weft_status status =
        bad_argument(NULL, "%s: %s %lld does not divide its dim %s of %lld",
                     op_path(l->scratch, l->model, op, 0), by.name, (long long)by.degree,
                     dim_name((enum dim)dim), (long long)size);
    const struct degrees *d = l->degrees;
    bool along_tp = strcmp(by.name, "tp") == 0, alone = along_tp || strcmp(by.name, "cp") == 0;
    int64_t most = common_divisor(size, d->dp * (alone ? by.degree : d->cp * d->tp));
    const char *near = nearest_legal(l->scratch, by.degree, most, divides, most);
    const char *or = along_tp && dim == DIM_SEQ ? ", or leave sequence parallelism out" : "";
    if (along_tp && dim == DIM_HEAD && op_find_dim(op->kind, DIM_GROUP) >= 0)
        or = arena_printf(l->scratch, ", or pad the heads: --set head_multiple=%lld",
                          (long long)by.degree);
    error_hint("use %s %s%s", by.name, near, or);
    return status;
}

static weft_status add(const struct lower *l, const struct op *op, int dim, struct named by,
                       struct split *split)
{
    if (dim != SPLIT_COPY) {
        int64_t above = split_degree(split, dim), size = dim_size(op, dim);
        if (!fits(l, op, dim, above * by.degree))
            return does_not_divide(l, op, dim, size % above ? size : size / above, by);
    }
    if (!split_add(split, dim, by.degree))
        return bad_argument(NULL, "%s: more than %d dims to split",
                            op_path(l->scratch, l->model, op, 0), MAX_SPLIT_PARTS);
    return WEFT_OK;
}

/* ---- the three parts of (1) ------------------------------------------------------------------ */

/* The dim along which the operator sees a sequence, or copies. An operator that needs the whole
 * sequence (a scan) takes some of its groups instead: an all-to-all turns parts of the sequence
 * into parts of the features, as in Megatron-LM's context parallelism of Mamba layers. */
static int sequence_dim(const struct lower *l, const struct op *op, struct tensor_state in,
                        int64_t degree)
{
    int seq = op_find_dim(op->kind, DIM_SEQ);
    if (op->place != PLACE_BODY)
        return SPLIT_COPY;
    if (seq >= 0 && OP_KINDS[op->kind].dims[seq].role == ROLE_WHOLE)
        return DIM_HEAD;
    int dim = in.region == SCORES && op_find_dim(op->kind, DIM_HEIGHT) >= 0 ? DIM_HEIGHT : DIM_SEQ;
    return dim_size(op, dim) > 1 && may_part(l, op, dim, degree) ? dim : SPLIT_COPY;
}

/* The dim along which an operator is split over experts: the kind's own, or the sequence of an
 * elementwise one. This holds only between dispatch and combine: these two run where the tokens
 * are, so that the data moved between devices is an all-to-all of routed tokens. */
static int expert_dim(const struct op *op, struct tensor_state in)
{
    if (in.region != EXPERTS || LOWERING[op->kind].region == PLAIN)
        return SPLIT_COPY;
    return op_find_dim(op->kind, DIM_EXPERT) >= 0 ? DIM_EXPERT : DIM_SEQ;
}

/* Where an operator lies. */
static const struct expert_mesh *mesh_of(const struct lower *l, const struct op *op,
                                         struct tensor_state in)
{
    if (op->place == PLACE_TOWER)
        return &l->tower;
    return expert_dim(op, in) == SPLIT_COPY ? &l->dense : &l->experts;
}

/* Splits heads by tp, and attention's also by those devices of cp that take no positions. */
static weft_status add_heads(const struct lower *l, const struct op *op, int64_t cp_heads,
                             int64_t tp, struct split *split)
{
    int64_t all = cp_heads * tp, kv = dim_size(op, DIM_HEAD);
    int64_t group = dim_size(op, DIM_GROUP), heads = common_divisor(kv, all), groups = all / heads;
    const char *name = op->place == PLACE_TOWER ? "encoder-tp"
                       : cp_heads > 1           ? "cp-heads * tp"
                                                : "tp";
    if (group % groups)
        return does_not_divide(l, op, DIM_HEAD, kv * group, (struct named){name, all});
    weft_status status;
    TRY(add(l, op, DIM_HEAD, (struct named){name, heads}, split));
    TRY(add(l, op, DIM_GROUP, (struct named){name, groups}, split));
done:
    return status;
}

/* The layout of the residual stream around this operator. */
static enum tensor_spread stream(const struct lower *l, const struct op *op)
{
    int64_t seq = dim_size(op, DIM_SEQ);
    bool divided = op->place == PLACE_BODY ||
                   (op->place == PLACE_TOWER && l->tower.etp > 1 && seq % l->tower.etp == 0);
    return l->degrees->sequence && seq > 1 && divided ? SEQ : WHOLE;
}

/* What the table says, after "stream" and dims that cannot be split (I4) have been resolved. */
static struct lay lay_of(const struct lower *l, const struct op *op, struct tensor_state in,
                         const struct expert_mesh *mesh)
{
    const struct lowering *row = &LOWERING[op->kind];
    struct lay lay = row->lay[in.spread];
    if (op->by_stream)
        lay = (struct lay){BY_STREAM, SUMMED};
    if (op->kind == OP_CONV && l->degrees->whole_images)
        lay = (struct lay){DIM_OUT, WHOLE};  /* I5 */
    if (lay.dim == DIM_IN && op->groups > 1) /* a grouped convolution has no row-parallel form */
        lay = row->lay[WHOLE];
    if (row->otherwise && !fits(l, op, lay.dim, mesh->etp))
        lay.dim = row->otherwise;
    if (lay.dim == BY_NORM && dim_size(op, DIM_HEAD) % mesh->etp)
        lay = row->lay[WHOLE];
    if (lay.dim == BY_NORM)
        lay.dim = DIM_HEAD;
    if (lay.dim == BY_STREAM)
        lay.dim = stream(l, op) == SEQ ? DIM_SEQ : BY_COPY;
    if (lay.dim == DIM_SEQ &&
        (dim_size(op, DIM_SEQ) == 1 || !may_part(l, op, DIM_SEQ, mesh->seq * mesh->etp)))
        return (struct lay){BY_COPY, WHOLE};
    bool outputs = lay.dim == DIM_OUT || lay.dim == DIM_VOCAB;
    if (outputs && dim_size(op, lay.dim) < mesh->etp)
        return (struct lay){BY_COPY, WHOLE}; /* I4 */
    if (lay.out == SUMMED)
        lay.out = (int8_t)stream(l, op);
    return lay;
}

static const char *name_of(const struct lower *l, const struct expert_mesh *mesh)
{
    return mesh == &l->dense ? "tp" : mesh == &l->tower ? "encoder-tp" : "etp";
}

static weft_status lower_op(struct lower *l, int32_t index)
{
    weft_status status;
    const struct op *op = &l->model->op[index];
    struct tensor_state in = input_state(l, op);
    const struct expert_mesh *mesh = mesh_of(l, op, in);
    struct lay lay = lay_of(l, op, in, mesh);
    struct split split = split_none();
    split_add(&split, DIM_BATCH, mesh->batch);
    TRY(add(l, op, expert_dim(op, in), (struct named){"ep", mesh->ep}, &split));
    bool divided = op->kind == OP_ATTENTION && op->place == PLACE_BODY;
    int64_t heads = divided ? cp_heads_of(l->degrees, l->model) : 1;
    int64_t parts = mesh->seq / heads;
    TRY(add(l, op, sequence_dim(l, op, in, parts), (struct named){"cp", parts}, &split));
    if (lay.dim == BY_HEADS)
        TRY(add_heads(l, op, heads, mesh->etp, &split));
    else
        TRY(add(l, op, lay.dim, (struct named){name_of(l, mesh), mesh->etp}, &split));
    enum region region = LOWERING[op->kind].region;
    l->tensor[op->output.tensor] =
        (struct tensor_state){(enum tensor_spread)lay.out, region == FOLLOW ? in.region : region};
    l->choice[index].split = split;
done:
    return status;
}

/* ---- what is recomputed ---------------------------------------------------------------------- */

static void recompute_nothing(const struct lower *l, const struct op *op, struct choice *choice)
{
    (void)l, (void)op, (void)choice;
}

/* The modules that were named; else the scores and what is computed from them (Korthikanti et al.,
 * section 5), which flash attention never keeps. */
static void recompute_some(const struct lower *l, const struct op *op, struct choice *choice)
{
    if (l->degrees->modules)
        modules_choose(l->degrees->modules, l->model, op, choice);
    else
        choice->recompute = op->kind == OP_SCORE || input_state(l, op).region == SCORES;
}

static void recompute_layer(const struct lower *l, const struct op *op, struct choice *choice)
{
    choice->recompute = op_in_layer(l->model, op);
}

static void set_choices(struct lower *l)
{
    static void (*const RECOMPUTES[])(const struct lower *, const struct op *, struct choice *) = {
        [RECOMPUTE_NONE] = recompute_nothing,
        [RECOMPUTE_SELECTIVE] = recompute_some,
        [RECOMPUTE_FULL] = recompute_layer,
    };
    _Static_assert(COUNT_OF(RECOMPUTES) == RECOMPUTE_COUNT, "a way to recompute without a rule");
    for (int32_t i = 0; i < l->model->ops; i++) {
        const struct op *op = &l->model->op[i];
        l->choice[i].shard = (uint8_t)l->degrees->shard;
        if (!op->frozen || op->input_grad) /* else there is no backward pass to run it again for */
            RECOMPUTES[l->degrees->recompute](l, op, &l->choice[i]);
        l->choice[i].offload = l->degrees->offload && op_in_layer(l->model, op)
                                   ? OFFLOAD_CHECKPOINTS
                                   : OFFLOAD_NOTHING;
        if (offloads_module(l->degrees->offload_modules, l->model, op))
            l->choice[i].offload = OFFLOAD_KEPT;
    }
}

/* ---- the walk -------------------------------------------------------------------------------- */

static void find_logits(struct lower *l)
{
    for (int32_t i = 0; i < l->model->ops; i++)
        if (l->model->op[i].kind == OP_LOSS)
            l->read_by_loss[l->model->op[i].input[0].tensor] = true;
}

static weft_status walk_ops(struct lower *l)
{
    weft_status status = WEFT_OK;
    int32_t next_module = 0;
    for (int32_t i = 0; i < l->model->ops; i++) {
        set_carries(l, i, &next_module);
        TRY(lower_op(l, i));
    }
done:
    return status;
}

weft_status lower_degrees(const struct model *model, const struct degrees *degrees,
                          struct arena *keep, struct choice **out)
{
    enum { PASSES = 4 };
    weft_status status;
    struct lower l = {.model = model, .degrees = degrees, .scratch = arena_new()};
    l.dense = (struct expert_mesh){degrees->dp, degrees->cp, 1, degrees->tp};
    if (!expert_mesh(degrees, &l.experts))
        l.experts = l.dense; /* of models without experts nobody asks */
    struct tower_mesh tower;
    if (model_has_tower(model) && encoder_mesh(degrees, model, &tower))
        l.tower = (struct expert_mesh){tower.batch, tower.copies, 1, tower.tp};
    l.tensor = ARENA_ARRAY(l.scratch, struct tensor_state, (size_t)model->tensors);
    l.carry = ARENA_ARRAY(l.scratch, struct tensor_state, (size_t)model->modules);
    l.carry_known = ARENA_ARRAY(l.scratch, bool, (size_t)model->modules);
    l.read_by_loss = ARENA_ARRAY(l.scratch, bool, (size_t)model->tensors);
    l.choice = ARENA_ARRAY(keep, struct choice, (size_t)model->ops);
    find_logits(&l);
    int pass = 0;
    do
        TRY(walk_ops(&l));
    while (!carries_agree(&l) && ++pass < PASSES); /* I1 */
    set_choices(&l);
    *out = l.choice;
done:
    arena_free(l.scratch);
    return status;
}
