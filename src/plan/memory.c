/* memory.c - the memory that a stage's operators take on each of its devices.
 *
 *   state   = sum over instances of op_memory's weights, gradients, optimizer, divided by the
 *             replicas where sharded (shard 1: optimizer, 2: and gradients, 3: and weights)   (1)
 *   kept    = sum of what instances keep, times the micro-batches in flight / pieces         (2)
 *
 *   I1  A recomputed instance keeps nothing of its own. Its surroundings keep what they need: an
 *       input that is a layer's carry or comes from an instance that is not recomputed and does not
 *       keep it, and an output that an instance without recomputation reads again. Each tensor
 *       counts once. An instance whose output is saved (recompute.c) keeps that, its mask and its
 *       statistics; what is discarded is kept for nobody.
 *   I2  Checkpoints of an instance that offloads wait in host memory. So does what is kept without recomputation, if
 *       all that read it in the backward pass offload it, and what an operator keeps for itself alone.
 *   I3  Each piece has the same share of the micro-batches in flight.
 *   I4  A tied weight whose user has a copy of it (tied.c) counts again, with gradients and
 *       optimizer state.
 *   I5  A framework may keep more or less of the state than (1), or for less than an iteration
 *       (policy_memory).
 *   I6  Of parameters whose state is in host memory, the gradients wait there for the host's step, too.
 *   I7  Of an output that waits in parts (compile/parts.c) each device keeps its part.
 *   I8  Of the state, instances of one operator with the same choice add the same.
 */
#include "plan/room.h"

#include <math.h>
#include <string.h>

static bool has_dim(const struct op *op, const struct operand *operand, int dim)
{
    int place = dim >= SPLIT_COPY ? -1 : op_find_dim(op->kind, (enum dim)dim);
    return place >= 0 && operand_has_dim(operand, place);
}

int64_t split_replicas(const struct op *op, const struct split *split)
{
    int64_t replicas = 1;
    for (int32_t i = split_is_subset(split); i < split->parts; i++)
        if (!op->weights || !has_dim(op, &op->weight[0].operand, split->part[i].dim))
            replicas *= split->part[i].degree;
    return replicas;
}

int64_t share_groups(int64_t replicas, int64_t replicate)
{
    int64_t a = replicas, b = replicate > 1 ? replicate : 1;
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

int64_t plan_shares(const struct plan *plan, const struct op *op, const struct choice *choice)
{
    int64_t replicas = split_replicas(op, &choice->split);
    return choice->shard ? replicas / share_groups(replicas, plan->replicate) : 1;
}

double stage_memory_total(const struct stage_memory *memory)
{
    return memory->weights + memory->gradients + memory->optimizer + memory->activations +
           memory->workspace;
}

double stage_memory_state(const struct stage_memory *memory)
{
    return memory->weights + memory->gradients - memory->late + memory->optimizer;
}

bool plan_makes_gradients_late(const struct plan *plan)
{
    bool freed = policy_memory(plan->policy).frees_gradients ||
                 software_word(&plan->software, FACT_GRADIENTS) == GRADIENTS_FREED;
    return freed && plan_micro_batches(plan) == 1 && plan->pieces == 1;
}

/* ---- state ----------------------------------------------------------------------------------- */

static double parameters_of(const struct op *op, const int64_t *local)
{
    double parameters = 0;
    for (int32_t i = 0; i < op->weights; i++)
        if (op->weight[i].tied_op < 0)
            parameters += operand_elements(op, &op->weight[i].operand, local);
    return parameters;
}

/* Gradients with shard 2 are whole until the last micro-batch where the framework adds them up so. */
static bool divides_gradients(const struct plan *plan, int shard)
{
    bool whole = policy_memory(plan->policy).adds_whole && plan_micro_batches(plan) > 1;
    return shard >= (whole ? 3 : 2);
}

static bool holds_cast(const struct plan *plan, int32_t op)
{
    return software_word(&plan->software, FACT_WEIGHTS) == WEIGHTS_CAST &&
           dtype_is_cast(op_dtype(plan->model, op, plan->dtype));
}

bool plan_gathers_cast(const struct plan *plan, int32_t op)
{
    return op_dtype(plan->model, op, plan->dtype) == DTYPE_FP8 && holds_cast(plan, op);
}

int plan_gather_bytes(const struct plan *plan, int32_t op)
{
    return plan_gathers_cast(plan, op) ? 1 : policy_gather_bytes(plan->policy, plan->dtype);
}

/* Of the policy's bytes, with FACT_WEIGHTS: Transformer Engine keeps a second layout where products of fp8 need their
 * operands in one (pytorch/utils.py, is_non_tn_fp8_gemm_supported: from Blackwell on they do not), and for blocks, which
 * are scaled along rows and along columns. */
static double weight_share(const struct plan *plan, int32_t op)
{
    int recipe = software_word(&plan->software, FACT_FP8_RECIPE);
    bool cast = holds_cast(plan, op);
    bool one = (recipe == RECIPE_DELAYED || recipe == RECIPE_CURRENT) &&
               cluster_all_devices(plan->cluster, device_scales_blocks);
    return cast && one ? 1.0 / policy_weight_bytes(plan->policy) : 1;
}

/* I6: fp32, in pinned memory (Megatron-Core's HybridDeviceOptimizer, cpu_copy_map_grad; DeepSpeed's
 * single_partition_of_fp32_groups[].grad). */
enum { PINNED_GRADIENT_BYTES = 4 };

/* I5. */
static void add_state(const struct plan *plan, const struct op *op, const struct choice *choice,
                      const int64_t *local, const struct op_memory *memory,
                      struct stage_memory *sum)
{
    struct policy_memory practice = policy_memory(plan->policy);
    double replicas = (double)plan_shares(plan, op, choice);
    double gradients = memory->gradients / (divides_gradients(plan, choice->shard) ? replicas : 1);
    double shares = choice->shard >= 1 ? replicas : 1;
    int step = software_word(&plan->software, FACT_OPTIMIZER_STEP);
    bool roots = step == STEP_FOREACH;
    bool own = cluster_all_devices(plan->cluster, device_adds_gradients); /* which copies nothing */
    double each = own ? 0 : practice.gradient_copy + (roots ? practice.moment : 0);
    bool gathered = choice->shard >= 3 && replicas > 1;
    double state = memory->optimizer * optimizer_state_share(plan->optimizer, plan->policy, op);
    double here = 1 - plan->optimizer_offload; /* I6 */
    sum->optimizer += state * here / shares;   /* (1) */
    sum->host +=
        plan->optimizer_offload * (state + PINNED_GRADIENT_BYTES * memory->updated) / shares;
    sum->gradients += gradients;
    sum->late += plan_makes_gradients_late(plan) ? gradients : 0;
    sum->step += each * here * memory->updated / shares;
    if (step == STEP_SINGLE && !own) /* a root and its quotient, of one tensor at a time */
        sum->single = fmax(sum->single, 2 * practice.moment * here * memory->updated / shares);
    if (!gathered || !practice.no_weight_shares)
        sum->weights += memory->weights / (gathered ? replicas : 1);
    sum->parameters += parameters_of(op, local);
    if (memory->workspace > sum->workspace)
        sum->workspace = memory->workspace;
}

/* Counts a tied weight as if the operator owned it. */
static void add_tied(const struct plan *plan, int64_t i, struct stage_memory *sum)
{
    const struct choice *choice = plan_choice(plan, i);
    struct op op = plan->model->op[plan->instance[i].op];
    struct weight weight = op.weight[0];
    int64_t local[OP_MAX_DIMS];
    weight.tied_op = -1;
    op.weight = &weight;
    op.weights = 1;
    split_local(&op, &choice->split, plan_samples(plan, choice), local);
    int64_t replicas = choice->shard ? 1 : split_replicas(&op, &choice->split);
    struct op_memory memory =
        op_memory(plan->model, &op, local, plan->dtype, plan->policy, replicas);
    add_state(plan, &op, choice, local, &memory, sum);
}

struct stage_memory plan_tied_state(const struct plan *plan, int64_t instance)
{
    struct stage_memory sum = {0};
    add_tied(plan, instance, &sum);
    return sum;
}

struct stage_memory plan_instance_state(const struct plan *plan, int64_t instance)
{
    const struct op *op = &plan->model->op[plan->instance[instance].op];
    const struct choice *choice = plan_choice(plan, instance);
    struct stage_memory sum = {0};
    int64_t local[OP_MAX_DIMS];
    split_local(op, &choice->split, plan_samples(plan, choice), local);
    int64_t replicas = choice->shard ? 1 : split_replicas(op, &choice->split);
    struct op_memory memory =
        op_memory(plan->model, op, local, plan->dtype, plan->policy, replicas);
    memory.weights *= weight_share(plan, plan->instance[instance].op);
    add_state(plan, op, choice, local, &memory, &sum);
    return sum;
}

struct instance_states instance_states_new(struct arena *scratch, const struct plan *plan)
{
    size_t rows = (size_t)plan->model->ops * (size_t)plan->choices;
    return (struct instance_states){plan, scratch,
                                    ARENA_ARRAY(scratch, struct stage_memory *, rows)};
}

const struct stage_memory *instance_state_of(struct instance_states *states, int64_t instance)
{
    const struct plan *plan = states->plan;
    int64_t row = (int64_t)plan->instance[instance].op * plan->choices + plan->choice_of[instance];
    struct stage_memory **known = &states->known[row];
    if (!*known) {
        *known = ARENA_NEW(states->scratch, struct stage_memory);
        **known = plan_instance_state(plan, instance);
    }
    return *known;
}

/* I4. */
static void add_all_tied(const struct plan *plan, int32_t stage, struct stage_memory *sum)
{
    for (int32_t part = stage; part < plan->parts; part = plan_next_part(plan, part)) {
        int64_t first = plan->part[part].first;
        for (int64_t i = first; i < first + plan->part[part].count; i++) {
            const struct op *op = &plan->model->op[plan->instance[i].op];
            bool tied = op->weights && op->weight[0].tied_op >= 0;
            if (tied && plan_holds_weights(plan, i))
                add_tied(plan, i, sum);
        }
    }
}

/* ---- what is kept ---------------------------------------------------------------------------- */

static bool scores_inside(const struct plan *plan)
{
    return software_word(&plan->software, FACT_SCORES) == SCORES_ACTIVATION;
}

/* Some software multiplies experts' outputs with their scores before they are combined (FACT_SCORES). */
unsigned plan_keeps(const struct plan *plan, const struct op *op)
{
    bool unread = op->kind == OP_COMBINE && scores_inside(plan);
    return unread ? op->keep & ~(unsigned)KEEP_INPUT_0 : op->keep;
}

/* Eager gates keep act(gate), too (FACT_GATES). Weft's own scans on a GPU keep what they read, and no inverse of a triangle; the convolutions before them keep slopes. */
double plan_extra_bytes(const struct plan *plan, const struct op *op, const int64_t *local)
{
    bool own = software_word(&plan->software, FACT_WORKSPACE) == WORKSPACE_WEFT;
    bool apart = software_word(&plan->software, FACT_GATES) == GATES_APART;
    if (apart && op->kind == OP_GATED)
        return op_extra_bytes(op, local, plan->dtype) +
               operand_bytes(op, op->inputs == 2 ? &op->input[0] : &op->output, local, plan->dtype);
    if (own && (op->kind == OP_SCAN || op->kind == OP_DELTA))
        return (double)own_scan_kept(op, local, plan->dtype);
    return own && op->kind == OP_CONV1D ? (double)own_conv1d_kept(op, local)
                                        : op_extra_bytes(op, local, plan->dtype);
}

/* Experts' outputs are kept for the operator that combines them alone, which follows. */
double plan_kept_bytes(const struct plan *plan, const struct op *op, const int64_t *local)
{
    const struct model *model = plan->model;
    double kept = op_kept_bytes(model, op, local, plan->dtype) -
                  op_extra_bytes(op, local, plan->dtype) + plan_extra_bytes(plan, op, local);
    bool last = op == &model->op[model->ops - 1];
    bool unread = !last && op->kind == OP_EXPERT_LINEAR && op[1].kind == OP_COMBINE &&
                  model->tensor[op->output.tensor].kept && scores_inside(plan);
    return kept - (unread ? operand_bytes(op, &op->output, local, plan->dtype) : 0);
}

/* ---- checkpoints (I1) ------------------------------------------------------------------------ */

/* ELSEWHERE: in another part. */
enum fate { FATE_ELSEWHERE, FATE_KEPT, FATE_MADE_AGAIN, FATE_SAVED, FATE_DISCARDED };

struct memory_walk {
    const struct plan *plan;
    struct instance_states states; /* I8 */
    /* per operator: of its output, what each device keeps; that of its latest copy in this part (I7) */
    double *share;
    int64_t *counted;     /* per tensor: copy + 1 of the instance that counted it last */
    uint8_t *fate;        /* enum fate, per operator: that of its latest copy in this part */
    const uint8_t *rerun; /* enum rerun, per instance */
    const bool *away;     /* per operator: its output waits in host memory (I2); NULL: none does */
    double kept, host;
    int64_t place; /* of the device whose memory it is (subset.h) */
};

/* ---- what waits in host memory without recomputation (I2) -------------------------------------- */

/* Notes that a tensor stays where it was made; a layer's carry comes from the layer before, or from what is before all. */
static void stays_here(const struct model *model, int32_t tensor, bool *away)
{
    const struct tensor *t = &model->tensor[tensor_storage(model, tensor)];
    if (t->carry_module >= 0) {
        const struct module *repeat = &model->module[t->carry_module];
        stays_here(model, repeat->carry_init, away);
        t = &model->tensor[tensor_storage(model, repeat->carry_out)];
    }
    if (t->producer >= 0)
        away[t->producer] = false;
}

/* Clears what an operator reads again in the backward pass, if it does not offload it. */
static void keep_here(const struct plan *plan, int32_t number, bool *away)
{
    static const unsigned INPUTS[] = {KEEP_INPUT_0, KEEP_INPUT_1, KEEP_INPUT_2};
    const struct op *op = &plan->model->op[number];
    unsigned keeps = plan_keeps(plan, op);
    if (keeps & KEEP_OUTPUT)
        away[number] = false;
    for (int32_t k = 0; k < op->inputs && k < (int32_t)COUNT_OF(INPUTS); k++)
        if (keeps & INPUTS[k])
            stays_here(plan->model, op->input[k].tensor, away);
}

static const bool *find_away(struct arena *scratch, const struct plan *plan)
{
    bool any = false, *away = ARENA_ARRAY(scratch, bool, (size_t)plan->model->ops);
    for (int32_t i = 0; i < plan->choices; i++)
        any |= plan->choice[i].offload == OFFLOAD_KEPT;
    memset(away, any, (size_t)plan->model->ops);
    for (int64_t i = 0; any && i < plan->instances; i++)
        if (plan_choice(plan, i)->offload != OFFLOAD_KEPT)
            keep_here(plan, plan->instance[i].op, away);
    return any ? away : NULL;
}

/* Of what an instance keeps: its output, and what nobody else reads. */
static double bytes_away(const struct memory_walk *w, int64_t i, const int64_t *local)
{
    const struct plan *plan = w->plan;
    const struct op *op = &plan->model->op[plan->instance[i].op];
    double own = plan_extra_bytes(plan, op, local);
    double output = plan_kept_bytes(plan, op, local) - own;
    return (plan_choice(plan, i)->offload == OFFLOAD_KEPT ? own : 0) +
           (w->away[plan->instance[i].op] ? w->share[plan->instance[i].op] * output : 0);
}

/* Whether a tensor is kept for this reader and has not been counted yet. */
static bool stays_for(struct memory_walk *w, const struct instance *reader, int32_t input,
                      bool recompute)
{
    static const unsigned INPUTS[] = {KEEP_INPUT_0, KEEP_INPUT_1, KEEP_INPUT_2};
    const struct model *model = w->plan->model;
    const struct op *op = &model->op[reader->op];
    bool reads_again =
             input < (int32_t)COUNT_OF(INPUTS) && (plan_keeps(w->plan, op) & INPUTS[input]),
         carried;
    int32_t tensor = plan_origin(model, reader, op->input[input].tensor, &carried);
    const struct tensor *t = &model->tensor[tensor];
    bool stays = recompute || reads_again;
    if (t->producer < 0)
        stays = recompute; /* op_memory counts the model's input where it is read again */
    else if (w->fate[t->producer] == FATE_KEPT)
        stays = recompute && !t->kept;
    else if (w->fate[t->producer] == FATE_MADE_AGAIN)
        stays = recompute ? carried : reads_again;
    else if (w->fate[t->producer] == FATE_SAVED)
        stays = false; /* was counted there */
    else if (w->fate[t->producer] == FATE_DISCARDED)
        stays = recompute && carried;
    if (!stays || w->counted[tensor] == reader->copy + 1)
        return false;
    w->counted[tensor] = reader->copy + 1;
    return true;
}

/* I7. */
static double output_share(const struct plan *plan, const struct op *op,
                           const struct choice *choice)
{
    struct layout parts, whole = layout_of(op, &op->output, &choice->split,
                                           plan_samples(plan, choice), FLOW_FORWARD);
    bool in_parts = choice->parts && !(op->keep & KEEP_OUTPUT) && layout_in_parts(&whole, &parts);
    return in_parts ? (double)layout_local(&parts) / (double)layout_local(&whole) : 1;
}

static double input_share(const struct memory_walk *w, const struct instance *reader, int32_t input)
{
    const struct model *model = w->plan->model;
    bool carried;
    int32_t tensor =
        plan_origin(model, reader, model->op[reader->op].input[input].tensor, &carried);
    int32_t producer = model->tensor[tensor].producer;
    return producer < 0 || w->fate[producer] == FATE_ELSEWHERE ? 1 : w->share[producer];
}

static double input_bytes(struct memory_walk *w, const struct instance *reader,
                          const int64_t *local, bool recompute)
{
    const struct op *op = &w->plan->model->op[reader->op];
    double bytes = 0;
    for (int32_t i = 0; i < op->inputs; i++)
        if (stays_for(w, reader, i, recompute))
            bytes +=
                operand_bytes(op, &op->input[i], local, w->plan->dtype) * input_share(w, reader, i);
    return bytes;
}

static void add_own_state(struct memory_walk *w, int64_t i, struct stage_memory *sum)
{
    const struct stage_memory *own = instance_state_of(&w->states, i);
    sum->parameters += own->parameters;
    sum->weights += own->weights;
    sum->gradients += own->gradients;
    sum->optimizer += own->optimizer;
    sum->late += own->late;
    sum->step += own->step;
    sum->host += own->host;
    sum->single = fmax(sum->single, own->single);
    sum->workspace = fmax(sum->workspace, own->workspace);
}

static void add_kept(struct memory_walk *w, int64_t i)
{
    const struct plan *plan = w->plan;
    const struct instance *instance = &plan->instance[i];
    const struct op *op = &plan->model->op[instance->op];
    const struct choice *choice = plan_choice(plan, i);
    int64_t local[OP_MAX_DIMS];
    split_local(op, &choice->split, plan_samples(plan, choice), local);
    double kept = input_bytes(w, instance, local, choice->recompute);
    w->share[instance->op] = output_share(plan, op, choice);
    kept += choice->recompute ? 0 : plan_kept_bytes(plan, op, local);
    if (!choice->recompute && plan->model->tensor[op->output.tensor].kept)
        kept -= (1 - w->share[instance->op]) * operand_bytes(op, &op->output, local, plan->dtype);
    bool saved = w->rerun[i] == RERUN_SAVED;
    if (saved)
        kept +=
            operand_bytes(op, &op->output, local, plan->dtype) + plan_extra_bytes(plan, op, local);
    w->fate[instance->op] = saved               ? FATE_SAVED
                            : choice->discard   ? FATE_DISCARDED
                            : choice->recompute ? FATE_MADE_AGAIN
                                                : FATE_KEPT;
    double away = w->away && !choice->recompute ? bytes_away(w, i, local) : 0;
    w->host += away;
    kept -= away;
    if (choice->offload && choice->recompute) /* I2 */
        w->host += kept;
    else
        w->kept += kept;
}

/* Adds the state of one part, and what one micro-batch of it keeps, if any is in flight. */
static void add_part(struct memory_walk *w, int32_t part, bool in_flight, struct stage_memory *sum)
{
    int64_t first = w->plan->part[part].first;
    memset(w->fate, FATE_ELSEWHERE, (size_t)w->plan->model->ops);
    for (int64_t i = first; i < first + w->plan->part[part].count; i++) {
        if (!plan_place_has(w->plan, i, w->place))
            continue;
        add_own_state(w, i, sum);
        if (in_flight)
            add_kept(w, i);
    }
}

static struct memory_walk start_walk(struct arena *scratch, const struct plan *plan)
{
    return (struct memory_walk){.plan = plan,
                                .states = instance_states_new(scratch, plan),
                                .counted =
                                    ARENA_ARRAY(scratch, int64_t, (size_t)plan->model->tensors),
                                .fate = ARENA_ARRAY(scratch, uint8_t, (size_t)plan->model->ops),
                                .share = ARENA_ARRAY(scratch, double, (size_t)plan->model->ops),
                                .rerun = plan_reruns(scratch, plan),
                                .away = find_away(scratch, plan)};
}

struct stage_memory plan_stage_memory(const struct plan *plan, int32_t stage, int64_t in_flight)
{
    struct arena *scratch = arena_new();
    struct stage_memory most = {0};
    int64_t *place, places = plan_kinds_of_places(scratch, plan, stage, &place);
    for (int64_t i = 0; i < places; i++) {
        struct stage_memory one = plan_place_memory(plan, stage, place[i], in_flight);
        if (i == 0 || stage_memory_total(&one) > stage_memory_total(&most))
            most = one;
    }
    arena_free(scratch);
    return most;
}

struct stage_memory plan_place_memory(const struct plan *plan, int32_t stage, int64_t place,
                                      int64_t in_flight)
{
    struct arena *scratch = arena_new();
    struct stage_memory sum = {0};
    struct memory_walk w = start_walk(scratch, plan);
    w.place = place;
    for (int32_t part = stage; part < plan->parts; part = plan_next_part(plan, part))
        add_part(&w, part, in_flight > 0, &sum);
    add_all_tied(plan, stage, &sum);
    double times = (double)in_flight / (double)plan->pieces; /* (2), I3 */
    sum.activations = w.kept * times;
    sum.host += w.host * times;
    arena_free(scratch);
    return sum;
}
