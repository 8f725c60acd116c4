/* bench_predict.c - what `weft profile measure` and `weft simulate` make of a small GPT, against its
 * kernels run one after the other on the same core.
 *
 * The kernels run on the tensors of each other, forward, backward, and the optimizer's step, as a rank
 * without communication would run them. Times are of the thread's processor time. "copies" is what is
 * no kernel: parts of fused tensors taken out, gradients of several readers added up; no prediction
 * has them. A prediction is made with caches prepared as measure.h says, and with warm ones.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "run/run.h"

enum { STEPS = 9, INPUTS = MAX_KIND_INPUTS + 1 };

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void must(bool right, const char *what)
{
    if (right)
        return;
    fprintf(stderr, "bench_predict: %s: %s\n", what, weft_last_error()->message);
    exit(EXIT_FAILURE);
}

static float *numbers(int64_t count)
{
    float *x = malloc((size_t)(count + 1) * sizeof *x);
    struct rng rng;
    must(x != NULL, "no memory");
    rng_seed(&rng, (uint64_t)count);
    for (int64_t i = 0; i < count; i++)
        x[i] = 0.1F * ((float)rng_uniform(&rng) - 0.5F);
    return x;
}

/* ---- instances with their buffers ------------------------------------------------------------ */

struct node {
    const struct op *op;
    int64_t size[OP_MAX_DIMS];
    int64_t source[INPUTS]; /* the instance that made it, -1: the model's input */
    float *output, *gradient, *part[INPUTS], *part_gradient[INPUTS];
    float *weight[MAX_KIND_WEIGHTS], *weight_gradient[MAX_KIND_WEIGHTS];
    int64_t weight_count[MAX_KIND_WEIGHTS];
    void *kept, *scratch;
    bool has_gradient;
};
struct chain {
    const struct plan *plan;
    struct node *node;
    int64_t *ids;
    double kernel_s, phase_s[KERNEL_COUNT];
};

static int64_t find_instance(const struct plan *plan, int32_t op, int64_t copy)
{
    int64_t last = -1;
    for (int64_t i = 0; i < plan->instances; i++)
        if (plan->instance[i].op == op && (plan->instance[i].copy == copy || copy < 0))
            last = i;
    return last;
}

/* Who made a tensor that copy `copy` reads; -1: every copy's last, of a reader after a repeat. */
static int64_t source_of(const struct plan *plan, int32_t tensor, int64_t copy)
{
    const struct model *model = plan->model;
    for (;;) {
        const struct tensor *t = &model->tensor[tensor = tensor_storage(model, tensor)];
        if (t->carry_module < 0)
            return t->producer < 0 ? -1
                   : op_copies(model, &model->op[t->producer]) == 1
                       ? find_instance(plan, t->producer, 0)
                       : find_instance(plan, t->producer, copy);
        const struct module *module = &model->module[t->carry_module];
        tensor = copy > 0 ? module->carry_out : module->carry_init;
        copy = copy > 0 ? copy - 1 : 0;
    }
}

static int64_t elements(const struct node *n, const struct operand *operand)
{
    return (int64_t)operand_elements(n->op, operand, n->size);
}

static struct kernel_call call_of(struct chain *c, struct node *n)
{
    static const int64_t FIRST[OP_MAX_DIMS];
    struct kernel_call call = {.op = n->op,
                               .size = n->size,
                               .begin = FIRST,
                               .whole = n->size,
                               .adds_once = true,
                               .seed = 1,
                               .dropout = 0.1F,
                               .kept = n->kept,
                               .scratch = n->scratch,
                               .output = n->output,
                               .output_gradient = n->gradient};
    for (int i = 0; i < n->op->inputs; i++)
        call.input[i] = n->op->input[i].element == ELEMENT_INDEX ? (void *)c->ids
                        : n->part[i]                             ? n->part[i]
                                                                 : c->node[n->source[i]].output;
    if (n->op->kind == OP_LOSS)
        call.input[n->op->inputs] = c->ids;
    for (int i = 0; i < n->op->weights; i++) {
        call.weight[i] = n->weight[i];
        call.weight_gradient[i] = n->weight_gradient[i];
    }
    return call;
}

static void open_node(struct chain *c, int64_t i)
{
    struct node *n = &c->node[i];
    const struct instance *instance = &c->plan->instance[i];
    n->op = &c->plan->model->op[instance->op];
    bool inside = op_copies(c->plan->model, n->op) > 1;
    op_full_size(n->op, c->plan->step_samples, n->size);
    n->output = numbers(elements(n, &n->op->output));
    n->gradient = numbers(elements(n, &n->op->output));
    for (int k = 0; k < n->op->inputs; k++) {
        const struct operand *in = &n->op->input[k];
        n->source[k] = source_of(c->plan, in->tensor, inside ? instance->copy : -1);
        int64_t count = elements(n, in);
        if (n->source[k] < 0)
            continue;
        const struct node *from = &c->node[n->source[k]];
        if (count < elements(from, &from->op->output))
            n->part[k] = numbers(count);
        n->part_gradient[k] = numbers(count);
    }
    for (int k = 0; k < n->op->weights; k++) {
        n->weight_count[k] = elements(n, &n->op->weight[k].operand);
        n->weight[k] = numbers(n->weight_count[k]);
        n->weight_gradient[k] = numbers(n->weight_count[k]);
    }
    struct kernel_call call = call_of(c, n);
    n->kept = numbers(CPU_KERNELS.kept_bytes(&call) / 4 + 1);
    n->scratch = numbers(CPU_KERNELS.scratch_bytes(&call) / 4 + 1);
}

/* ---- one step -------------------------------------------------------------------------------- */

static void timed(struct chain *c, const struct kernel_call *call, enum phase phase)
{
    struct work work = op_work(call->op, call->size, DTYPE_FP32, phase);
    double begin = cpu_seconds();
    CPU_KERNELS.run(call, phase);
    double seconds = cpu_seconds() - begin;
    c->kernel_s += seconds;
    c->phase_s[work.kernel] += seconds;
}

/* Parts of a fused tensor lie side by side in every row: the shares of each head. */
static void copy_part(struct chain *c, struct node *n, int k, bool back)
{
    const struct node *from = &c->node[n->source[k]];
    int64_t part = elements(n, &n->op->input[k]), whole = elements(from, &from->op->output);
    int64_t heads = n->op->size[1] * n->size[0] * n->op->size[3]; /* of attention, all rows */
    int64_t wide = whole / heads, narrow = part / heads, first = 0;
    for (int j = 0; j < k; j++)
        first += elements(n, &n->op->input[j]) / heads;
    for (int64_t i = 0; i < heads; i++)
        memcpy(back ? from->gradient + i * wide + first : n->part[k] + i * narrow,
               back ? n->part_gradient[k] + i * narrow : from->output + i * wide + first,
               (size_t)narrow * sizeof(float));
}

static void forward(struct chain *c, struct node *n)
{
    for (int k = 0; k < n->op->inputs; k++)
        if (n->part[k])
            copy_part(c, n, k, false);
    struct kernel_call call = call_of(c, n);
    timed(c, &call, PHASE_FORWARD);
}

static void backward(struct chain *c, struct node *n)
{
    struct kernel_call call = call_of(c, n);
    bool direct[INPUTS] = {0};
    for (int k = 0; k < n->op->inputs && n->op->input_grad; k++) {
        if (n->source[k] < 0)
            continue;
        struct node *to = &c->node[n->source[k]];
        direct[k] = !n->part[k] && !to->has_gradient;
        call.input_gradient[k] = direct[k] ? to->gradient : n->part_gradient[k];
        to->has_gradient = true;
    }
    timed(c, &call, PHASE_BACKWARD_INPUT);
    timed(c, &call, PHASE_BACKWARD_WEIGHT);
    for (int k = 0; k < n->op->inputs; k++) {
        if (!call.input_gradient[k] || direct[k])
            continue;
        struct node *to = &c->node[n->source[k]];
        if (n->part[k])
            copy_part(c, n, k, true);
        for (int64_t i = 0; !n->part[k] && i < elements(n, &n->op->input[k]); i++)
            to->gradient[i] += n->part_gradient[k][i];
    }
}

static void optimize(struct chain *c, struct optimizer_step *step)
{
    double begin = cpu_seconds();
    CPU_KERNELS.optimize(step);
    double seconds = cpu_seconds() - begin;
    c->kernel_s += seconds;
    c->phase_s[KERNEL_OPTIMIZER] += seconds;
}

static double step(struct chain *c, struct optimizer_step *optimizer)
{
    int64_t count = c->plan->instances;
    double begin = cpu_seconds();
    c->kernel_s = 0;
    memset(c->phase_s, 0, sizeof c->phase_s);
    for (int64_t i = 0; i < count; i++)
        c->node[i].has_gradient = false;
    for (int64_t i = 0; i < count; i++)
        forward(c, &c->node[i]);
    for (int64_t i = count - 1; i >= 0; i--)
        backward(c, &c->node[i]);
    optimize(c, optimizer);
    return cpu_seconds() - begin;
}

/* ---- predicting ------------------------------------------------------------------------------ */

static int64_t predict(const struct plan *plan, struct arena *arena, bool warm, double *by_kernel)
{
    char db[] = "/tmp/weft-bench-XXXXXX";
    int file = mkstemp(db);
    struct asks asks;
    struct measured measured;
    struct measure_options o = measure_defaults();
    const struct device *core = &plan->cluster->node.device;
    struct simulate_options simulation = {.profile = db};
    struct prediction *prediction;
    must(file >= 0, "no temporary file");
    close(file);
    must(asks_of_plan(arena, plan, &asks) == WEFT_OK, "asks");
    int64_t most = 2 * core->l2_bytes;
    o.away_bytes = warm ? 0 : asks.step_bytes < most ? asks.step_bytes : most;
    o.precision = 0.02;
    o.db = db;
    o.device = core->name;
    o.source = "bench";
    must(measure_asks(&asks, &o, arena, &measured) == WEFT_OK, "measuring");
    for (size_t i = 0; i < measured.len; i++)
        for (size_t k = 0; k < measured.data[i].ask->askers.len; k++)
            by_kernel[measured.data[i].ask->work.kernel] +=
                measured.data[i].ns * (double)measured.data[i].ask->askers.data[k].uses / 1e9;
    must(simulate(plan, &simulation, &prediction) == WEFT_OK, "simulating");
    int64_t ns = prediction->iteration_ns;
    prediction_free(prediction);
    unlink(db);
    return ns;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void run_setting(const char *options, int64_t batch)
{
    struct arena *arena = arena_new();
    struct model *model;
    struct cluster *cluster;
    struct plan *plan;
    struct degrees degrees = {.micro_batch = batch, .has_dtype = true, .dtype = DTYPE_FP32};
    must(model_open("gpt2", options, &model) == WEFT_OK, "model");
    must(cluster_ranks(1, &cluster) == WEFT_OK, "cluster");
    must(plan_from_degrees(model, cluster, &degrees, &plan) == WEFT_OK, "plan");
    struct chain chain = {.plan = plan};
    int64_t ids = batch * model->seq;
    chain.node = ARENA_ARRAY(arena, struct node, (size_t)plan->instances);
    chain.ids = ARENA_ARRAY(arena, int64_t, (size_t)ids);
    for (int64_t i = 0; i < ids; i++)
        chain.ids[i] = i * 7 % 200;
    for (int64_t i = 0; i < plan->instances; i++)
        open_node(&chain, i);
    int64_t parameters = (int64_t)model_totals(model, DTYPE_FP32).parameters;
    struct optimizer_step optimizer = ADAMW_STEP;
    optimizer.master = numbers(parameters);
    optimizer.gradient = numbers(parameters);
    optimizer.moment1 = numbers(parameters);
    optimizer.moment2 = calloc((size_t)parameters, sizeof(float));
    optimizer.count = parameters;
    double kernels[STEPS], whole[STEPS], by_kernel[KERNEL_COUNT] = {0}, warm[KERNEL_COUNT] = {0};
    double each[KERNEL_COUNT][STEPS];
    step(&chain, &optimizer);
    for (int i = 0; i < STEPS; i++) {
        whole[i] = step(&chain, &optimizer);
        kernels[i] = chain.kernel_s;
        for (int k = 0; k < KERNEL_COUNT; k++)
            each[k][i] = chain.phase_s[k];
    }
    qsort(whole, STEPS, sizeof *whole, by_value);
    qsort(kernels, STEPS, sizeof *kernels, by_value);
    double real = kernels[STEPS / 2];
    double cold_s = (double)predict(plan, arena, false, by_kernel) / 1e9;
    double warm_s = (double)predict(plan, arena, true, warm) / 1e9;
    printf("gpt2, %s, batch %d\n  kernels in sequence %.2f ms (and copies %.2f ms)\n", options,
           (int)batch, 1e3 * real, 1e3 * (whole[STEPS / 2] - real));
    printf("  predicted %.2f ms, %+.1f %%; with warm caches %.2f ms, %+.1f %%\n", 1e3 * cold_s,
           100 * (cold_s / real - 1), 1e3 * warm_s, 100 * (warm_s / real - 1));
    for (int k = 0; k < KERNEL_COUNT; k++) {
        qsort(each[k], STEPS, sizeof each[k][0], by_value);
        if (by_kernel[k] > 0)
            printf("    %-12s %8.2f ms, predicted %8.2f ms, %+6.1f %%; warm %+6.1f %%\n",
                   kernel_name((enum kernel)k), 1e3 * each[k][STEPS / 2], 1e3 * by_kernel[k],
                   100 * (by_kernel[k] / each[k][STEPS / 2] - 1),
                   100 * (warm[k] / each[k][STEPS / 2] - 1));
    }
    plan_free(plan);
    cluster_free(cluster);
    model_free(model);
    arena_free(arena);
}

int main(void)
{
    run_setting("layers: 4, hidden: 128, heads: 4, seq: 128, vocab: 256", 4);
    run_setting("layers: 4, hidden: 256, heads: 4, seq: 256, vocab: 256", 4);
    return 0;
}
