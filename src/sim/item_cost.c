/* item_cost.c - how long the items of a block take (item_cost.h has the equations). */
#include "sim/item_cost.h"

/* Weft's own kernels pad rows of outputs that would be misaligned (cost/own_scratch.h), those of a plan in fp8 among them that
 * stay in 16 bits, as logits do. */
static void pad_outputs(const struct plan *plan, int32_t number, int64_t *local)
{
    const struct op *op = &plan->model->op[number];
    int out = op_find_dim(OP_LINEAR, DIM_OUT);
    enum dtype dtype = op_dtype(plan->model, number, plan->dtype);
    if (op->kind == OP_LINEAR && software_word(&plan->software, FACT_WORKSPACE) == WORKSPACE_WEFT)
        local[out] = padded_rows(dtype, local[0] * local[1], local[out], op->weights).length;
}

static struct work work_of(const struct plan *plan, int64_t instance, enum phase phase)
{
    int32_t number = plan->instance[instance].op;
    const struct op *op = &plan->model->op[number];
    int64_t local[OP_MAX_DIMS];
    split_local(op, choice_split(plan_choice(plan, instance), phase != PHASE_FORWARD),
                plan_samples(plan, plan_choice(plan, instance)), local);
    pad_outputs(plan, number, local);
    /* The gradient of sinks comes by a kernel of its own. */
    enum dtype dtype = phase == PHASE_BACKWARD_WEIGHT
                           ? op_dtype(plan->model, number, plan->dtype)
                           : kernel_dtype(&plan->software, plan->model, number, plan->dtype);
    return op_work(op, local, dtype, phase);
}

/* The work of an elementwise kernel that reads and writes so many bytes. */
static struct work pass_over(const struct plan *plan, double elements, double read, double write)
{
    return (struct work){.kernel = KERNEL_ELEMENTWISE,
                         .phase = PHASE_FORWARD,
                         .dtype = plan->dtype,
                         .shape = {(int64_t)elements},
                         .read_bytes = read,
                         .write_bytes = write};
}

/* Bytes per element that casts to fp8 or nvfp4 read and write, the first time and again: of input
 * and weight in the forward pass, of the output's gradient, and of operands that a product needs
 * transposed: the weight for the input's gradient, input and gradient for the weight's. */
struct cast_bytes {
    double read, write, read_again, write_again;
};
/* One scale per tensor: finding its largest value reads it (2) before it is read and written (2 +
 * 1). Tensors are kept in 16 bits and cast again with the known scale (torchao; measured in
 * data/profiles/weft/h200_fp8.csv). */
static const struct cast_bytes BY_TENSOR = {4, 1, 2, 1};
/* One scale per block: both layouts are written in one pass (Transformer Engine's MXFP8). */
static const struct cast_bytes BY_BLOCK = {2, 2, 0, 0};
/* nvfp4 has both, an 8-bit scale for every 16 elements and one for the tensor: its largest value is
 * found before both layouts are written (Transformer Engine's NVFP4BlockScaling). */
static const struct cast_bytes BY_BOTH = {4, 2 * (0.5 + 1.0 / 16), 0, 0};
/* Transformer Engine writes both layouts in one pass: with the scale of earlier steps or a scale for each block at
 * once, with the tensor's own scale after its largest value was found (common/transpose/cast_transpose.cu). */
static const struct cast_bytes BY_RECIPE[] = {
    [RECIPE_DELAYED] = {2, 2, 0, 0},
    [RECIPE_CURRENT] = {4, 2, 0, 0},
    [RECIPE_BLOCKS] = {2, 2, 0, 0},
};
/* Devices with MXFP8 also multiply fp8 in any layout, so that one is enough for tensors with one scale. */
static const struct cast_bytes ONE_LAYOUT = {4, 1, 0, 0};
/* What a norm has written in fp8 is only transposed, for the weight's gradient. */
static const struct cast_bytes FUSED = {0, 0, 1, 1};

static const struct cast_bytes *cast_bytes_of(const struct plan *plan, int64_t instance)
{
    int recipe = software_word(&plan->software, FACT_FP8_RECIPE);
    if (plan->dtype == DTYPE_NVFP4)
        return &BY_BOTH;
    bool blocks = device_scales_blocks(plan_instance_device(plan, instance));
    if (recipe == RECIPE_CURRENT && blocks)
        return &ONE_LAYOUT;
    if (recipe != RECIPE_DEVICE)
        return &BY_RECIPE[recipe];
    return blocks ? &BY_BLOCK : &BY_TENSOR;
}

/* Whether a product shortly before it, of queries or gates, casts the same input. */
static bool finds_cast(const struct model *model, int32_t op)
{
    enum { MOST_BESIDE = 3 };
    int32_t tensor = model->op[op].input[0].tensor;
    for (int32_t other = op - 1; other >= 0 && other >= op - MOST_BESIDE; other--)
        if (op_dtype(model, other, DTYPE_FP8) == DTYPE_FP8 &&
            model->op[other].input[0].tensor == tensor)
            return true;
    return false;
}

/* Whether the operator before it writes its input in fp8. */
static bool comes_cast(const struct plan *plan, int32_t op)
{
    const struct model *model = plan->model;
    int fused = software_word(&plan->software, FACT_FUSED_CASTS);
    int32_t tensor = tensor_storage(model, model->op[op].input[0].tensor);
    int32_t producer = model->tensor[tensor].producer;
    if (fused == FUSED_CASTS_NONE || producer < 0)
        return false;
    enum op_kind kind = model->op[producer].kind;
    return kind == OP_LAYER_NORM || kind == OP_RMS_NORM ||
           (op_is_activation(kind) && fused == FUSED_CASTS_ALL);
}

/* A cast of so many elements the first time, and so many again. */
static struct work cast_work(const struct plan *plan, const struct cast_bytes *bytes, double first,
                             double again)
{
    again = bytes->read_again > 0 ? again : 0;
    return pass_over(plan, first + again, first * bytes->read + again * bytes->read_again,
                     first * bytes->write + again * bytes->write_again);
}

/* Elements of a frozen weight that are transposed for its input's gradient. The policy holds it in one byte, that is in one
 * layout, and devices without MXFP8 multiply fp8 in one layout only: MLPerf's runs of LoRA do not keep the other one
 * (Transformer Engine's keep_fp8_weight_transpose_cache, which their ENABLE_TRANSPOSE_CACHE=0 sets), and on one H200 both
 * would not fit. */
static double weights_turned(const struct plan *plan, int64_t instance, enum phase phase,
                             const int64_t *local)
{
    const struct op *op = &plan->model->op[plan->instance[instance].op];
    bool held = op->frozen && plan->policy == POLICY_FP8_WEIGHTS && plan->dtype == DTYPE_FP8;
    bool turned = held && phase == PHASE_BACKWARD_INPUT &&
                  !device_scales_blocks(plan_instance_device(plan, instance));
    return turned ? operand_elements(op, &op->weight[0].operand, local) : 0;
}

static struct work casts_of(const struct plan *plan, int64_t instance, enum phase phase)
{
    int32_t number = plan->instance[instance].op;
    const struct op *op = &plan->model->op[number];
    int64_t local[OP_MAX_DIMS];
    split_local(op, choice_split(plan_choice(plan, instance), phase != PHASE_FORWARD),
                plan_samples(plan, plan_choice(plan, instance)), local);
    bool found = finds_cast(plan->model, number);
    double in = found ? 0 : operand_elements(op, &op->input[0], local);
    double out = operand_elements(op, &op->output, local);
    double weight = operand_elements(op, &op->weight[0].operand, local);
    double fused = comes_cast(plan, number) ? in : 0;
    in -= fused;
    if (software_word(&plan->software, FACT_WEIGHT_CASTS) == WEIGHT_CASTS_ONCE)
        weight /= (double)plan_passes(plan, plan_choice(plan, instance));
    if (plan->policy == POLICY_FP8_WEIGHTS && plan->dtype == DTYPE_FP8)
        weight = 0; /* held in both layouts, as the optimizer wrote them; or frozen */
    const double firsts[] = {in + weight, out, 0}, agains[] = {0, weight, in + out}; /* by phase */
    struct work work = cast_work(plan, cast_bytes_of(plan, instance), firsts[phase], agains[phase]);
    struct work turned = cast_work(
        plan, &FUSED, 0,
        phase == PHASE_BACKWARD_WEIGHT ? fused : weights_turned(plan, instance, phase, local));
    work.shape[0] += turned.shape[0];
    work.read_bytes += turned.read_bytes;
    work.write_bytes += turned.write_bytes;
    return work;
}

/* Around attention in fp8, Transformer Engine casts queries, keys and values (2 bytes to 1, and 2 more to find their scale
 * where it is the tensor's own) and brings the output back to 16 bits; backward the output's gradient and those three
 * (pytorch/attention/dot_product_attention, combine_and_quantize and combine_and_dequantize). */
static struct work attention_casts(const struct plan *plan, int64_t instance, enum phase phase)
{
    const struct op *op = &plan->model->op[plan->instance[instance].op];
    bool current = software_word(&plan->software, FACT_FP8_RECIPE) == RECIPE_CURRENT;
    int64_t local[OP_MAX_DIMS];
    split_local(op, &plan_choice(plan, instance)->split,
                plan_samples(plan, plan_choice(plan, instance)), local);
    double three = 0, output = operand_elements(op, &op->output, local);
    for (int32_t i = 0; i < op->inputs; i++)
        three += operand_elements(op, &op->input[i], local);
    double down = phase == PHASE_FORWARD ? three : output;
    double up = phase == PHASE_FORWARD ? output : three;
    return pass_over(plan, down + up, down * (current ? 4 : 2) + up, down + up * 2);
}

/* What the policy does with an operator's weights in a micro-batch. */
static struct handling handling_of(const struct plan *plan, int64_t instance, double *shares)
{
    const struct op *op = &plan->model->op[plan->instance[instance].op];
    const struct choice *choice = plan_choice(plan, instance);
    *shares = (double)plan_shares(plan, op, choice);
    return policy_handling(plan->policy, choice->shard, *shares, (double)plan_passes(plan, choice));
}

/* Whether the product that makes a weight's gradient adds it to that of the micro-batches before: which needs gradients
 * that stay whole (Megatron-FSDP is run with --no-gradient-accumulation-fusion). */
static bool adds_in_product(const struct plan *plan, int64_t instance)
{
    enum { GRADIENTS_SHARDED = 2 };
    const struct op *op = &plan->model->op[plan->instance[instance].op];
    return software_word(&plan->software, FACT_ACCUMULATION) == ACCUMULATION_FUSED &&
           plan_choice(plan, instance)->shard < GRADIENTS_SHARDED &&
           (op->kind == OP_LINEAR || op->kind == OP_EXPERT_LINEAR);
}

/* Equation (1): the passes that come with a weight's gradient. Returns how many. */
static int passes_of(const struct plan *plan, int64_t instance, struct work *out)
{
    const struct op *op = &plan->model->op[plan->instance[instance].op];
    int64_t local[OP_MAX_DIMS];
    split_local(op, choice_split(plan_choice(plan, instance), true),
                plan_samples(plan, plan_choice(plan, instance)), local);
    double parameters = 0, outputs = operand_elements(op, &op->output, local);
    double compute = dtype_bytes(plan->dtype);
    int count = 0;
    for (int32_t i = 0; i < op->weights; i++)
        parameters += operand_elements(op, &op->weight[i].operand, local);
    struct op_memory memory = op_memory(plan->model, op, local, plan->dtype, plan->policy, 1);
    double gradient = parameters > 0 ? memory.gradients / parameters : 0;
    if (op->weights > 1 && (op->kind == OP_LINEAR || op->kind == OP_EXPERT_LINEAR))
        out[count++] = pass_over(plan, outputs, outputs * compute, 0);
    double shares;
    struct handling handling = handling_of(plan, instance, &shares);
    double added = handling.adds_shares ? parameters / shares : parameters;
    if (handling.read > 0 && parameters > 0)
        out[count++] =
            pass_over(plan, parameters, parameters * handling.read, parameters * handling.write);
    if (plan_passes(plan, plan_choice(plan, instance)) > 1 && !adds_in_product(plan, instance))
        out[count++] =
            pass_over(plan, added, added * ((handling.adds_shares ? gradient : compute) + gradient),
                      added * gradient);
    return count;
}

int item_works(const struct plan *plan, int64_t instance, enum phase phase,
               struct work out[MAX_ITEM_WORKS])
{
    int count = 1;
    out[0] = work_of(plan, instance, phase);
    if (out[0].flops <= 0 && out[0].read_bytes + out[0].write_bytes <= 0)
        return 0;
    if (phase == PHASE_BACKWARD_WEIGHT &&
        !device_adds_gradients(plan_instance_device(plan, instance)))
        count += passes_of(plan, instance, out + count);
    if (dtype_is_cast(out[0].dtype)) {
        bool attention = plan->model->op[plan->instance[instance].op].kind == OP_ATTENTION;
        out[count] =
            attention ? attention_casts(plan, instance, phase) : casts_of(plan, instance, phase);
        count += out[count].read_bytes > 0;
    }
    double passed = expert_pass_bytes(plan, instance, phase);
    if (passed > 0)
        out[count++] = pass_over(plan, passed / 4, passed / 2, passed / 2);
    return count;
}

static struct cost *stage_cost(const struct item_costs *costs, int32_t stage)
{
    return cost_in_pool(costs->cost, plan_stage_pool(costs->plan, stage));
}

/* The host's time for one kernel. The experts of a device are one kernel if the software fuses them. */
static int64_t work_host_ns(const struct item_costs *costs, const struct cost *cost,
                            const struct work *work)
{
    const struct software *software = &costs->plan->software;
    int64_t ns = (int64_t)((double)cost_host_ns(cost, work) * software_issue(software));
    bool fused = work->kernel == KERNEL_GROUPED_MATMUL &&
                 software_word(software, FACT_EXPERTS) == EXPERTS_FUSED;
    return fused && work->shape[0] > 0 ? ns / work->shape[0] : ns;
}

double host_step_ns(const struct item_costs *costs, int32_t pool)
{
    return (double)cost_host_step_ns(cost_in_pool(costs->cost, pool)) *
           software_issue(&costs->plan->software);
}

/* What the last of n ranks with consecutive positions computes of causal attention, over the mean of all: of n parts
 * of a triangle the last is 2 - 1 / n of one. A document that is packed with others is on fewer ranks. */
static double last_share(const struct plan *plan, int64_t instance)
{
    const struct op *op = &plan->model->op[plan->instance[instance].op];
    double parts = (double)split_degree(&plan_choice(plan, instance)->split, DIM_SEQ);
    bool uneven = op->kind == OP_ATTENTION && op->causal && !op->window &&
                  software_word(&plan->software, FACT_SEQUENCES) == SEQUENCES_CONSECUTIVE;
    if (op->document)
        parts *= (double)op->document / (double)op->size[op_find_dim(op->kind, DIM_KV)];
    return uneven && parts > 1 ? 2 - 1 / parts : 1;
}

/* What attention and products in fp8 take with a scale for each block of 32, over one scale for a tensor, by phase. Attention:
 * cuDNN 9.22's own tables of GB200 and GB300, 1.08 to 1.13 forward and 1.13 to 1.31 backward. Products: Transformer Engine's
 * table of a layer on a B300, operands cast beforehand (docs/examples/gemm_profiling): 2.365, 2.397 and 2.400 ms in MXFP8
 * beside 2.158, 2.329 and 2.325 with one scale (FP8Current). */
static const double BLOCK_ATTENTION[PHASE_COUNT] = {1.1, 1.27, 1.27};
static const double BLOCK_PRODUCT[PHASE_COUNT] = {1.096, 1.029, 1.032};

static double blocks_share(const struct plan *plan, int64_t instance, const struct work *work)
{
    if (work->dtype != DTYPE_FP8)
        return 1;
    int recipe = software_word(&plan->software, FACT_FP8_RECIPE);
    bool able = device_scales_blocks(plan_instance_device(plan, instance));
    if (recipe != RECIPE_BLOCKS && !(recipe == RECIPE_DEVICE && able))
        return 1;
    if (work->kernel == KERNEL_ATTENTION)
        return BLOCK_ATTENTION[work->phase];
    return work->kernel == KERNEL_MATMUL && able ? BLOCK_PRODUCT[work->phase] : 1;
}

static int64_t hooks_ns(const struct item_costs *costs, int64_t instance, enum phase phase)
{
    const struct plan *plan = costs->plan;
    double shares;
    if (!plan->model->op[plan->instance[instance].op].weights || phase == PHASE_BACKWARD_INPUT)
        return 0;
    struct handling handling = handling_of(plan, instance, &shares);
    double issues = phase == PHASE_FORWARD ? handling.forward_issues : handling.backward_issues;
    return (int64_t)(issues * host_step_ns(costs, plan_instance_pool(plan, instance)));
}

static struct item_cost *find_cost(struct item_costs *costs, int64_t instance, enum phase phase,
                                   int32_t pool)
{
    const struct plan *plan = costs->plan;
    struct cost *own = cost_in_pool(costs->cost, pool);
    struct item_cost *known = ARENA_NEW(costs->keep, struct item_cost);
    struct work work[MAX_ITEM_WORKS];
    int works = item_works(plan, instance, phase, work);
    known->hooks_ns = hooks_ns(costs, instance, phase);
    for (int i = 0; i < works; i++) {
        struct kernel_cost cost = cost_on_device(own, &work[i]);
        if (i == 0) {
            cost.ns = (int64_t)((double)cost.ns * last_share(plan, instance) *
                                blocks_share(plan, instance, &work[0]));
            known->device = cost;
            known->device.ns += own_kernels_ns(costs, instance, phase, &cost);
        } else
            known->device.ns += cost.ns;
        known->host_ns += work_host_ns(costs, own, &work[i]);
    }
    if (works)
        known->device.ns +=
            expert_calls(plan, &work[0]) * cost_call_ns(own) + expert_copies_ns(plan, instance);
    return known;
}

const struct item_cost *item_cost(struct item_costs *costs, int64_t instance, enum phase phase)
{
    const struct plan *plan = costs->plan;
    int32_t pool = plan_instance_pool(plan, instance);
    int64_t row = ((int64_t)pool * plan->model->ops + plan->instance[instance].op) * plan->choices +
                  plan->choice_of[instance];
    struct item_cost **known = &costs->known[row * PHASE_COUNT + phase];
    if (!*known)
        *known = find_cost(costs, instance, phase, pool);
    return *known;
}

int64_t item_device_ns(struct item_costs *costs, const struct item *item)
{
    int64_t ns = item_cost(costs, item->instance, (enum phase)item->phase)->device.ns +
                 ring_merge_ns(costs, item);
    int64_t one = item->chunks ? ns / item->chunks : ns;
    return item->share > 1 ? ns - (item->chunks - item->share) * one : one;
}

/* What the host does for a micro-batch beside issuing kernels where it reads samples in the loop: 4 ms on vTrain's machines,
 * whose host takes 37 us to issue a kernel (vtrain_single, the half to fit: 9.1, 8.5, 8.1 and 8.2 % off with 1.5, 2.5, 4
 * and 5 ms). It is counted at the loss. */
#define BATCH_ISSUES 108

static double batch_issues(const struct plan *plan, const struct op *op, const struct item *item)
{
    bool once = op->kind == OP_LOSS && item->purpose == PURPOSE_FORWARD;
    return once && hosts_meet(plan) ? BATCH_ISSUES : 0;
}

int64_t item_host_ns(struct item_costs *costs, const struct item *item)
{
    if (item->rest)
        return 0;
    const struct op *op = &costs->plan->model->op[costs->plan->instance[item->instance].op];
    int32_t pool = plan_instance_pool(costs->plan, item->instance);
    const struct item_cost *cost = item_cost(costs, item->instance, (enum phase)item->phase);
    int64_t host_ns = cost->host_ns * ring_kernels(costs->plan, item);
    bool forward = item->purpose == PURPOSE_FORWARD;
    double batch = batch_issues(costs->plan, op, item);
    if (batch > 0)
        host_ns += (int64_t)(batch * host_step_ns(costs, pool));
    return host_ns + (forward || item->phase == PHASE_BACKWARD_WEIGHT ? cost->hooks_ns : 0);
}

struct item_costs item_costs_of(struct arena *keep, const struct plan *plan, struct cost *cost)
{
    size_t rows =
        (size_t)cluster_pools(plan->cluster) * (size_t)plan->model->ops * (size_t)plan->choices;
    return (struct item_costs){plan, cost, keep,
                               ARENA_ARRAY(keep, struct item_cost *, rows * PHASE_COUNT)};
}

int64_t optimizer_ns(const struct item_costs *costs, int32_t stage, int64_t parameters)
{
    const struct plan *plan = costs->plan;
    if (plan->optimizer_offload > 0)
        parameters -= (int64_t)(plan->optimizer_offload * (double)parameters);
    struct work work = optimizer_work(parameters, plan->dtype, plan->policy, plan->optimizer,
                                      software_word(&plan->software, FACT_OPTIMIZER_STEP));
    return cost_on_device(stage_cost(costs, stage), &work).ns;
}

/* The host's memory is what limits a fused step (ZeRO-Offload, section 5: CPU-Adam). */
int64_t host_update_ns(const struct item_costs *costs, int32_t stage, int64_t parameters)
{
    const struct plan *plan = costs->plan;
    double bytes = (double)parameters * host_step_bytes(plan->policy, plan->dtype, plan->optimizer);
    return (int64_t)(bytes /
                     host_memory_share(
                         &cluster_pool(plan->cluster, plan_stage_pool(plan, stage))->node) *
                     1e9);
}

/* The matrices of one instance's weights on a device, and what they take. */
static double orthogonal_instance_ns(const struct item_costs *costs, int64_t instance)
{
    const struct plan *plan = costs->plan;
    const struct op *op = &plan->model->op[plan->instance[instance].op];
    const struct choice *choice = plan_choice(plan, instance);
    struct cost *own = cost_in_pool(costs->cost, plan_instance_pool(plan, instance));
    struct work work[ORTHOGONAL_PRODUCTS];
    int64_t local[OP_MAX_DIMS], batch = 1;
    double ns = 0;
    split_local(op, &choice->split, plan_samples(plan, choice), local);
    if (op->kind == OP_EXPERT_LINEAR)
        batch = local[op_find_dim(op->kind, DIM_EXPERT)];
    orthogonal_works(batch, local[op_find_dim(op->kind, DIM_OUT)],
                     local[op_find_dim(op->kind, DIM_IN)], work);
    for (int i = 0; i < ORTHOGONAL_PRODUCTS; i++)
        ns += (double)cost_on_device(own, &work[i]).ns;
    return ORTHOGONAL_STEPS * ns / (double)plan_shares(plan, op, choice);
}

int64_t orthogonal_ns(const struct item_costs *costs, int32_t stage)
{
    const struct plan *plan = costs->plan;
    double ns = 0;
    for (int32_t part = stage; part < plan->parts && plan->optimizer == UPDATE_MUON;
         part = plan_next_part(plan, part))
        for (int64_t i = plan->part[part].first;
             i < plan->part[part].first + plan->part[part].count; i++)
            if (is_orthogonalised(plan->optimizer, &plan->model->op[plan->instance[i].op]))
                ns += orthogonal_instance_ns(costs, i);
    return (int64_t)ns;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

void item_costs_alone(struct item_costs *costs, const struct block *block,
                      const struct flows *flows, int64_t *ns, struct part_cost_sums *sums)
{
    double step_ns = host_step_ns(
        costs, plan_stage_pool(costs->plan, plan_stage_of_part(costs->plan, block->part)));
    for (int32_t i = 0; i < block->items; i++) {
        const struct item *item = &block->item[i];
        if (item->kind == ITEM_STEP) {
            ns[i] = item->exchange < 0 ? 0 : flows->together_ns[item->exchange];
            sums->host += item->exchange < 0 ? 0 : step_ns;
            continue;
        }
        ns[i] = item_device_ns(costs, item);
        sums->host += (double)item_host_ns(costs, item);
        sums->device += (double)ns[i];
    }
    if (hosts_meet(costs->plan))
        meet_at_exchanges(costs, block, step_ns, ns, sums);
}

double part_stretch(const struct part_cost_sums *sums)
{
    return sums->device > 0 && sums->host > sums->device ? sums->host / sums->device : 1;
}

void stretch_block(const struct block *block, double stretch, int64_t *ns)
{
    for (int32_t i = 0; stretch > 1 && i < block->items; i++)
        if (block->item[i].kind == ITEM_OP)
            ns[i] = (int64_t)((double)ns[i] * stretch);
}
