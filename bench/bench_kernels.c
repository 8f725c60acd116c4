/* bench_kernels.c - the CPU kernels on one core, beside OpenBLAS' sgemm and memcpy of the same run.
 *
 * Small models run forward and backward, operator by operator. A kernel with matrix products is given
 * as its FLOP/s over those of sgemm of the same shape; any other as its bytes per second (each operand
 * once) over memcpy's. Of the layer and of the whole step: the time that their FLOPs would take at
 * sgemm's rates over the time they took, copies of queries, keys and values out of their fused tensor
 * and sums of gradients included. "square" counts all of a causal score matrix, as published figures
 * do, "seen" the half that is not masked: the bar of 70 % is for both.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cblas.h>

#include "run/kernels/kernels.h"

enum { MOST_OPS = 128, MOST_TENSORS = 256, MOST_RATES = 256 };
static const double LONG_ENOUGH_S = 0.03;

/* Of this thread: what else runs on the machine takes none of it. */
static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void *memory(int64_t bytes)
{
    void *room = calloc((size_t)bytes + 1, 1);
    if (!room)
        exit(EXIT_FAILURE);
    return room;
}

static float *random_floats(int64_t count, float size)
{
    float *x = memory(count * (int64_t)sizeof *x);
    struct rng rng;
    rng_seed(&rng, (uint64_t)count);
    for (int64_t i = 0; i < count; i++)
        x[i] = size * ((float)rng_uniform(&rng) - 0.5F);
    return x;
}

/* ---- baselines ------------------------------------------------------------------------------- */

static double sgemm_seconds(const int64_t *shape, const float *a, const float *b, float *c)
{
    int m = (int)shape[0], n = (int)shape[1], k = (int)shape[2];
    double start = cpu_seconds();
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1, a, k, b, k, 0, c, n);
    return cpu_seconds() - start;
}

struct rate {
    int64_t shape[3];
    double flops_per_s;
};
struct rates {
    struct rate known[MOST_RATES];
    int count;
    double copy_bytes_per_s;
};

/* The best of runs that take LONG_ENOUGH_S together, three at least. */
static double sgemm_rate(struct rates *rates, int64_t m, int64_t n, int64_t k)
{
    const int64_t shape[] = {m, n, k};
    for (int i = 0; i < rates->count; i++)
        if (memcmp(rates->known[i].shape, shape, sizeof shape) == 0)
            return rates->known[i].flops_per_s;
    float *a = random_floats(m * k, 1), *b = random_floats(n * k, 1), *c = random_floats(m * n, 1);
    double best = 1e9, all = 0;
    for (int run = 0; run < 4 || all < LONG_ENOUGH_S; run++) {
        double seconds = sgemm_seconds(shape, a, b, c);
        best = seconds < best ? seconds : best;
        all += seconds;
    }
    free(a);
    free(b);
    free(c);
    struct rate rate = {{m, n, k}, 2.0 * (double)m * (double)n * (double)k / best};
    if (rates->count < MOST_RATES)
        rates->known[rates->count++] = rate;
    return rate.flops_per_s;
}

/* Of 32 MiB: more than caches hold. */
static double copy_rate(void)
{
    const int64_t bytes = 32 << 20;
    char *from = memory(bytes), *to = memory(bytes);
    double best = 1e9;
    for (int run = 0; run < 5; run++) {
        double start = cpu_seconds();
        memcpy(to, from, (size_t)bytes);
        from[0] = to[bytes - 1]; /* or it would not be copied */
        double seconds = cpu_seconds() - start;
        best = seconds < best ? seconds : best;
    }
    free(from);
    free(to);
    return 2 * (double)bytes / best;
}

/* ---- a model in memory ----------------------------------------------------------------------- */

struct buffer {
    float *value, *gradient;
    int64_t count;
    bool has_gradient;
};
struct runner {
    const struct model *model;
    int64_t batch;
    struct buffer tensor[MOST_TENSORS];
    float *weight[MOST_OPS][MAX_KIND_WEIGHTS], *weight_gradient[MOST_OPS][MAX_KIND_WEIGHTS];
    void *kept[MOST_OPS];
    float *part, *scratch;
    int64_t *ids;
    int64_t part_count;
    double best_s[MOST_OPS][PHASE_COUNT];
    double layer_s, step_s, best_layer_s, best_step_s;
};

static int32_t home_of(const struct model *model, int32_t tensor)
{
    for (;;) {
        tensor = tensor_storage(model, tensor);
        int32_t module = model->tensor[tensor].carry_module;
        if (module < 0)
            return tensor;
        tensor = model->module[module].carry_init;
    }
}

static int64_t elements(const struct operand *operand, int64_t batch)
{
    int64_t all = batch;
    for (int i = 0; i < operand->axes; i++)
        all *= operand->size[i];
    return all;
}

/* The part of a fused tensor that an operand is: `part` of every `whole` elements, from `first`. */
struct share {
    int64_t whole, part, first;
};

static struct share share_of(const struct model *model, const struct op *op, int input)
{
    const struct operand *operand = &op->input[input];
    int last = operand->axes - 1;
    int64_t width = model->tensor[operand->tensor].size[model->tensor[operand->tensor].axes - 1];
    int64_t shares = operand->size[last] == width ? 1 : op->size[operand->dims[last][0]];
    struct share share = {width / shares, operand->size[last] / shares, 0};
    for (int i = 0; i < input && shares > 1; i++)
        if (op->input[i].tensor == operand->tensor)
            share.first += op->input[i].size[last] / shares;
    return share;
}

static void open_op(struct runner *r, int32_t index, struct kernel_call *call)
{
    const struct op *op = &r->model->op[index];
    for (int i = 0; i < op->weights; i++) {
        int64_t count = elements(&op->weight[i].operand, 1);
        r->weight[index][i] = random_floats(count, 0.1F);
        r->weight_gradient[index][i] = random_floats(count, 0);
    }
    r->kept[index] = memory(CPU_KERNELS.kept_bytes(call));
}

static int64_t bigger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static struct kernel_call call_of(struct runner *r, int32_t index, const int64_t *size)
{
    static const int64_t FIRST[OP_MAX_DIMS];
    const struct op *op = &r->model->op[index];
    struct kernel_call call = {.op = op,
                               .size = size,
                               .begin = FIRST,
                               .whole = size,
                               .adds_once = true,
                               .seed = (uint64_t)index,
                               .dropout = 0.1F,
                               .kept = r->kept[index],
                               .scratch = r->scratch};
    for (int i = 0; i < op->weights; i++) {
        call.weight[i] = r->weight[index][i];
        call.weight_gradient[i] = r->weight_gradient[index][i];
    }
    return call;
}

static void open_runner(struct runner *r, const struct model *model, int64_t batch)
{
    memset(r, 0, sizeof *r);
    r->model = model;
    r->batch = batch;
    r->best_layer_s = r->best_step_s = 1e9;
    int64_t scratch = 0;
    if (model->ops > MOST_OPS || model->tensors > MOST_TENSORS)
        exit(EXIT_FAILURE);
    for (int32_t i = 0; i < model->tensors; i++) {
        struct buffer *buffer = &r->tensor[i];
        buffer->count = tensor_bytes(&model->tensor[i], batch, DTYPE_FP32) / (int64_t)sizeof(float);
        buffer->value = random_floats(buffer->count, 1);
        buffer->gradient = random_floats(buffer->count, 1);
        r->part_count = bigger(r->part_count, buffer->count);
    }
    for (int32_t i = 0; i < model->ops; i++) {
        int64_t size[OP_MAX_DIMS];
        op_full_size(&model->op[i], batch, size);
        struct kernel_call call = call_of(r, i, size);
        open_op(r, i, &call);
        scratch = bigger(scratch, CPU_KERNELS.scratch_bytes(&call));
        for (int phase = 0; phase < PHASE_COUNT; phase++)
            r->best_s[i][phase] = 1e9;
    }
    r->scratch = memory(scratch);
    r->part = memory((MAX_KIND_INPUTS + 1) * r->part_count * (int64_t)sizeof(float));
    r->ids = memory(r->part_count * (int64_t)sizeof *r->ids);
    for (int64_t i = 0; i < r->part_count; i++)
        r->ids[i] = i * 7 % 200;
}

static void close_runner(struct runner *r)
{
    for (int32_t i = 0; i < r->model->tensors; i++) {
        free(r->tensor[i].value);
        free(r->tensor[i].gradient);
    }
    for (int32_t i = 0; i < r->model->ops; i++) {
        for (int k = 0; k < MAX_KIND_WEIGHTS; k++) {
            free(r->weight[i][k]);
            free(r->weight_gradient[i][k]);
        }
        free(r->kept[i]);
    }
    free(r->part);
    free(r->scratch);
    free(r->ids);
}

/* ---- one step -------------------------------------------------------------------------------- */

static void timed(struct runner *r, int32_t index, const struct kernel_call *call, enum phase phase)
{
    double start = cpu_seconds();
    CPU_KERNELS.run(call, phase);
    double seconds = cpu_seconds() - start;
    if (seconds < r->best_s[index][phase])
        r->best_s[index][phase] = seconds;
}

static void give_inputs(struct runner *r, int32_t index, struct kernel_call *call)
{
    const struct op *op = &r->model->op[index];
    for (int i = 0; i < op->inputs; i++) {
        const struct buffer *from = &r->tensor[home_of(r->model, op->input[i].tensor)];
        struct share share = share_of(r->model, op, i);
        call->input[i] = op->input[i].element == ELEMENT_INDEX ? (void *)r->ids : from->value;
        if (share.part == share.whole)
            continue;
        float *to = r->part + i * r->part_count;
        for (int64_t k = 0; k < from->count / share.whole; k++)
            memcpy(to + k * share.part, from->value + k * share.whole + share.first,
                   (size_t)share.part * sizeof *to);
        call->input[i] = to;
    }
    if (op->kind == OP_LOSS)
        call->input[op->inputs] = r->ids;
    call->output = r->tensor[home_of(r->model, op->output.tensor)].value;
}

static void add(const float *restrict from, float *restrict to, int64_t count, bool first)
{
    if (first)
        memcpy(to, from, (size_t)count * sizeof *to);
    for (int64_t i = 0; i < count && !first; i++)
        to[i] += from[i];
}

/* Gradients go to their tensor at once where they are the first and whole. */
static bool goes_there(struct runner *r, const struct op *op, int input)
{
    struct share share = share_of(r->model, op, input);
    return !r->tensor[home_of(r->model, op->input[input].tensor)].has_gradient &&
           share.part == share.whole;
}

static void take_gradient(struct runner *r, const struct op *op, int input, const float *from)
{
    struct buffer *to = &r->tensor[home_of(r->model, op->input[input].tensor)];
    struct share share = share_of(r->model, op, input);
    if (share.part == share.whole && from != to->gradient)
        add(from, to->gradient, to->count, !to->has_gradient);
    for (int64_t k = 0; share.part < share.whole && k < to->count / share.whole; k++)
        add(from + k * share.part, to->gradient + k * share.whole + share.first, share.part, true);
    to->has_gradient = true;
}

static void backward(struct runner *r, int32_t index)
{
    const struct op *op = &r->model->op[index];
    int64_t size[OP_MAX_DIMS];
    float *to[MAX_KIND_INPUTS + 1] = {0};
    op_full_size(op, r->batch, size);
    struct kernel_call call = call_of(r, index, size);
    give_inputs(r, index, &call);
    call.output_gradient = r->tensor[home_of(r->model, op->output.tensor)].gradient;
    for (int i = 0; i < op->inputs && op->input_grad; i++)
        if (op->input[i].element != ELEMENT_INDEX)
            to[i] = goes_there(r, op, i)
                        ? r->tensor[home_of(r->model, op->input[i].tensor)].gradient
                        : memory(elements(&op->input[i], r->batch) * (int64_t)sizeof *to[i]);
    memcpy(call.input_gradient, to, sizeof to);
    timed(r, index, &call, PHASE_BACKWARD_INPUT);
    timed(r, index, &call, PHASE_BACKWARD_WEIGHT);
    for (int i = 0; i < op->inputs; i++)
        if (to[i]) {
            bool there = goes_there(r, op, i);
            take_gradient(r, op, i, to[i]);
            if (!there)
                free(to[i]);
        }
}

static void forward(struct runner *r, int32_t index)
{
    int64_t size[OP_MAX_DIMS];
    op_full_size(&r->model->op[index], r->batch, size);
    struct kernel_call call = call_of(r, index, size);
    give_inputs(r, index, &call);
    timed(r, index, &call, PHASE_FORWARD);
}

static void run_op(struct runner *r, int32_t index, void (*pass)(struct runner *, int32_t))
{
    double start = cpu_seconds();
    pass(r, index);
    double seconds = cpu_seconds() - start;
    r->step_s += seconds;
    if (op_in_layer(r->model, &r->model->op[index]))
        r->layer_s += seconds;
}

static void step(struct runner *r)
{
    r->layer_s = r->step_s = 0;
    for (int32_t i = 0; i < r->model->tensors; i++)
        r->tensor[i].has_gradient = false;
    for (int32_t i = 0; i < r->model->ops; i++)
        run_op(r, i, forward);
    for (int32_t i = r->model->ops - 1; i >= 0; i--)
        run_op(r, i, backward);
    if (r->layer_s < r->best_layer_s)
        r->best_layer_s = r->layer_s;
    if (r->step_s < r->best_step_s)
        r->best_step_s = r->step_s;
}

/* ---- report ---------------------------------------------------------------------------------- */

/* Seconds that the products of a phase take at sgemm's rate of their shape. */
static double ideal_s(struct rates *rates, const struct work *work)
{
    const int64_t *s = work->shape;
    if (work->flops <= 0)
        return 0;
    if (work->kernel == KERNEL_MATMUL || work->kernel == KERNEL_GROUPED_MATMUL)
        return work->flops / sgemm_rate(rates, s[1], s[2], s[3]);
    if (work->kernel == KERNEL_CONV)
        return work->flops / sgemm_rate(rates, s[1], s[2] * s[3], s[4] * s[5] * s[6]);
    return work->flops / sgemm_rate(rates, s[3], s[4], s[5]); /* attention */
}

static struct work work_of(const struct runner *r, int32_t index, enum phase phase)
{
    int64_t size[OP_MAX_DIMS];
    op_full_size(&r->model->op[index], r->batch, size);
    return op_work(&r->model->op[index], size, DTYPE_FP32, phase);
}

static void report_op(const struct runner *r, struct rates *rates, int32_t index)
{
    const struct op *op = &r->model->op[index];
    printf("  %-12s %-11s", op->name, OP_KINDS[op->kind].name);
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        struct work work = work_of(r, index, (enum phase)phase);
        double bytes = work.read_bytes + work.write_bytes, seconds = r->best_s[index][phase];
        double ideal = ideal_s(rates, &work);
        if (bytes <= 0)
            printf(" %27s", "");
        else if (ideal > 0)
            printf(" %8.3f ms %6.0f %% sgemm ", 1e3 * seconds, 100 * ideal / seconds);
        else
            printf(" %8.3f ms %6.0f %% memcpy", 1e3 * seconds,
                   100 * bytes / rates->copy_bytes_per_s / seconds);
    }
    printf("\n");
}

/* Of the layer, or of all operators: seconds that sgemm would take for the square, and for what is
 * seen of it. */
static void sum_ideal(const struct runner *r, struct rates *rates, bool layer, double *square_s,
                      double *seen_s)
{
    *square_s = *seen_s = 0;
    for (int32_t i = 0; i < r->model->ops; i++)
        for (int phase = 0; phase < PHASE_COUNT; phase++) {
            const struct op *op = &r->model->op[i];
            struct work work = work_of(r, i, (enum phase)phase);
            double ideal = ideal_s(rates, &work);
            if (layer && !op_in_layer(r->model, op))
                continue;
            *square_s += ideal;
            *seen_s += op->kind == OP_ATTENTION && op->causal ? ideal / 2 : ideal;
        }
}

static void report_sum(const struct runner *r, struct rates *rates, const char *what, bool layer,
                       double seconds)
{
    double square_s, seen_s;
    sum_ideal(r, rates, layer, &square_s, &seen_s);
    printf(
        "  %s, forward and backward: %.1f ms; of sgemm's rate %.0f %% (square), %.0f %% (seen)\n",
        what, 1e3 * seconds, 100 * square_s / seconds, 100 * seen_s / seconds);
}

static const struct {
    const char *model, *options;
    int64_t batch;
    int runs;
} SETTINGS[] = {
    {"gpt2", "layers: 1, hidden: 256, heads: 4, seq: 256, vocab: 256", 8, 8},
    {"gpt2", "layers: 1, hidden: 768, heads: 12, seq: 1024, vocab: 256", 1, 4},
    {"gpt2", "layers: 1, hidden: 256, heads: 4, seq: 256, vocab: 256, attention: eager", 8, 4},
    {"llama2-7b", "layers: 1, hidden: 512, heads: 8, kv_heads: 2, seq: 512, vocab: 1024, ffn: 1408",
     2, 4},
    {"mixtral-8x7b",
     "layers: 1, hidden: 256, heads: 4, kv_heads: 2, seq: 256, vocab: 256, expert_ffn: 512", 2, 4},
    {"resnet-50", "blocks: [2], block: basic, image: 112, classes: 200", 4, 3},
};

static void run_setting(struct rates *rates, size_t index)
{
    static struct runner r;
    struct model *model;
    if (model_open(SETTINGS[index].model, SETTINGS[index].options, &model) != WEFT_OK) {
        fprintf(stderr, "%s\n", weft_last_error()->message);
        exit(EXIT_FAILURE);
    }
    open_runner(&r, model, SETTINGS[index].batch);
    for (int run = 0; run < SETTINGS[index].runs; run++)
        step(&r);
    printf("%s, %s, batch %d\n", SETTINGS[index].model, SETTINGS[index].options,
           (int)SETTINGS[index].batch);
    for (int32_t i = 0; i < model->ops; i++)
        report_op(&r, rates, i);
    report_sum(&r, rates, "layer", true, r.best_layer_s);
    report_sum(&r, rates, "step ", false, r.best_step_s);
    close_runner(&r);
    model_free(model);
}

static void report_optimizer(const struct rates *rates)
{
    enum { COUNT = 4 << 20 };
    float *w = random_floats(COUNT, 1), *g = random_floats(COUNT, 1), *m = random_floats(COUNT, 1);
    float *v = memory(COUNT * (int64_t)sizeof *v);
    struct optimizer_step s = ADAMW_STEP;
    s.master = w;
    s.gradient = g;
    s.moment1 = m;
    s.moment2 = v;
    s.count = COUNT;
    double best = 1e9;
    for (int run = 0; run < 4; run++) {
        double start = cpu_seconds();
        CPU_KERNELS.optimize(&s);
        double seconds = cpu_seconds() - start;
        best = seconds < best ? seconds : best;
    }
    double bytes = 7.0 * COUNT * sizeof *w; /* four read, three written */
    printf("adamw: %.2f ns a weight, %.0f %% memcpy\n", 1e9 * best / COUNT,
           100 * bytes / rates->copy_bytes_per_s / best);
    free(w);
    free(g);
    free(m);
    free(v);
}

int main(void)
{
    static struct rates rates;
    openblas_set_num_threads(1);
    rates.copy_bytes_per_s = copy_rate();
    printf("memcpy reads and writes %.1f GB/s; sgemm of 1024 x 1024 x 1024 %.1f GFLOP/s\n",
           rates.copy_bytes_per_s / 1e9, sgemm_rate(&rates, 1024, 1024, 1024) / 1e9);
    printf("  %-12s %-11s %28s %28s %28s\n", "operator", "kind", "forward", "input gradient",
           "weight gradient");
    for (size_t i = 0; i < COUNT_OF(SETTINGS); i++)
        run_setting(&rates, i);
    report_optimizer(&rates);
    return EXIT_SUCCESS;
}
