/* kernel_reference.h - what operators compute, in plain loops over doubles, of whole operands. */
#ifndef WEFT_KERNEL_REFERENCE_H
#define WEFT_KERNEL_REFERENCE_H

#include <math.h>
#include <string.h>

#include "model/model.h"

/* Numbers of one evaluation; `batch` samples. */
struct reference {
    const struct op *op;
    int64_t batch;
    double *input[16], *weight[MAX_KIND_WEIGHTS], *output;
    const int64_t *ids; /* of an embedding's input, or a loss's labels */
    const uint8_t *mask;
    double dropout;
};

static int64_t per_sample(const struct operand *operand)
{
    int64_t all = 1;
    for (int i = 1; i < operand->axes; i++)
        all *= operand->size[i];
    return all;
}

static void ref_embedding(struct reference *r)
{
    int64_t seq = r->op->size[1], width = r->op->size[3];
    for (int64_t t = 0; t < r->batch * seq; t++)
        for (int64_t i = 0; i < width; i++) {
            double *y = &r->output[t * width + i];
            *y = r->weight[0][r->ids[t] * width + i];
            if (r->op->weights > 1)
                *y += r->weight[1][t % seq * width + i];
        }
}

static void ref_linear(struct reference *r)
{
    int64_t rows = r->batch * r->op->size[1], in = r->op->size[2], out = r->op->size[3];
    for (int64_t row = 0; row < rows; row++)
        for (int64_t o = 0; o < out; o++) {
            double sum = r->op->weights > 1 ? r->weight[1][o] : 0;
            for (int64_t i = 0; i < in; i++)
                sum += r->input[0][row * in + i] * r->weight[0][o * in + i];
            r->output[row * out + o] = sum;
        }
}

/* Dims of score, context and attention; query head h of the group's `group`. */
struct ref_heads {
    int64_t heads, group, seq, kv, depth, value;
};

static struct ref_heads ref_heads_of(const struct op *op)
{
    int64_t value = op->kind == OP_ATTENTION && op->value_depth ? op->value_depth : op->size[5];
    return (struct ref_heads){
        op->size[1] * op->size[2], op->size[2], op->size[3], op->size[4], op->size[5], value};
}

static double ref_score(const struct reference *r, const struct ref_heads *h, int64_t sample,
                        int64_t head, int64_t q, int64_t k)
{
    const double *x = r->input[0] + ((sample * h->seq + q) * h->heads + head) * h->depth;
    const double *y =
        r->input[1] + ((sample * h->kv + k) * (h->heads / h->group) + head / h->group) * h->depth;
    double sum = 0;
    for (int64_t i = 0; i < h->depth; i++)
        sum += x[i] * y[i];
    int64_t window = r->op->window;
    bool before = window && (r->op->chunked ? k / window < q / window : k <= q - window);
    bool hidden = before || (r->op->causal && k > q);
    return hidden ? -INFINITY : sum / sqrt((double)h->depth);
}

static void ref_scores(struct reference *r)
{
    struct ref_heads h = ref_heads_of(r->op);
    for (int64_t i = 0; i < r->batch * h.heads * h.seq * h.kv; i++) {
        int64_t k = i % h.kv, q = i / h.kv % h.seq, head = i / h.kv / h.seq % h.heads;
        r->output[i] = ref_score(r, &h, i / h.kv / h.seq / h.heads, head, q, k);
    }
}

static double ref_value(const struct ref_heads *h, const double *v, int64_t sample, int64_t head,
                        int64_t k, int64_t i)
{
    return v[((sample * h->kv + k) * (h->heads / h->group) + head / h->group) * h->value + i];
}

static void ref_context(struct reference *r)
{
    struct ref_heads h = ref_heads_of(r->op);
    for (int64_t at = 0; at < r->batch * h.seq * h.heads * h.value; at++) {
        int64_t i = at % h.value, head = at / h.value % h.heads, row = at / h.value / h.heads;
        int64_t sample = row / h.seq, q = row % h.seq;
        double sum = 0;
        for (int64_t k = 0; k < h.kv; k++)
            sum += r->input[0][((sample * h.heads + head) * h.seq + q) * h.kv + k] *
                   ref_value(&h, r->input[1], sample, head, k, i);
        r->output[at] = sum;
    }
}

/* Of a head's sink among its scores; NULL: it has none. */
static const double *ref_sink(const struct reference *r, int64_t head)
{
    return r->op->sinks ? &r->weight[0][head] : NULL;
}

static void ref_softmax_row(double *x, int64_t count, const double *sink)
{
    double most = sink ? *sink : -INFINITY;
    for (int64_t i = 0; i < count; i++)
        most = x[i] > most ? x[i] : most;
    double sum = sink ? exp(*sink - most) : 0;
    for (int64_t i = 0; i < count; i++)
        sum += x[i] = exp(x[i] - most);
    for (int64_t i = 0; i < count; i++)
        x[i] /= sum;
}

static void ref_attention(struct reference *r)
{
    enum { MOST_KEYS = 1024 };
    struct ref_heads h = ref_heads_of(r->op);
    double p[MOST_KEYS];
    for (int64_t at = 0; at < r->batch * h.seq * h.heads; at++) {
        int64_t head = at % h.heads, q = at / h.heads % h.seq, sample = at / h.heads / h.seq;
        for (int64_t k = 0; k < h.kv; k++)
            p[k] = ref_score(r, &h, sample, head, q, k);
        ref_softmax_row(p, h.kv, ref_sink(r, head));
        for (int64_t i = 0; i < h.value; i++) {
            double sum = 0;
            for (int64_t k = 0; k < h.kv; k++)
                sum += p[k] * ref_value(&h, r->input[2], sample, head, k, i);
            r->output[at * h.value + i] = sum;
        }
    }
}

/* T5's _relative_position_bucket, as published. */
static int64_t ref_bucket(int64_t relative, int64_t buckets, bool both_ways)
{
    int64_t bucket = 0, distance = relative > 0 ? relative : -relative;
    if (both_ways && buckets > 1) {
        buckets /= 2;
        bucket = relative > 0 ? buckets : 0;
    }
    int64_t exact = buckets / 2 > 1 ? buckets / 2 : 1;
    if (distance < exact)
        return bucket + (distance < buckets ? distance : buckets - 1);
    int64_t far = exact + (int64_t)(log((double)distance / (double)exact) /
                                    log(128.0 / (double)exact) * (double)(buckets - exact));
    return bucket + (far < buckets - 1 ? far : buckets - 1);
}

/* The rows and columns that a key is away from its query in a window of 1 + 2 offsets each way
 * (Swin's relative_position_index), or T5's bucket. */
static int64_t ref_bias_at(const struct op *op, int64_t head, int64_t q, int64_t k)
{
    int64_t bias = op->weight[0].operand.size[0], side = (int64_t)sqrt((double)op->size[3]);
    int64_t offsets = (2 * side - 1) * (2 * side - 1), heads = bias / offsets;
    if (side * side == op->size[3] && op->size[2] == op->size[3] && !op->causal &&
        bias % offsets == 0 && op->size[1] % heads == 0) {
        int64_t rows = k / side - q / side + side - 1, columns = k % side - q % side + side - 1;
        return (rows * (2 * side - 1) + columns) * heads + head % heads;
    }
    return ref_bucket(k - q, bias / op->size[1], !op->causal) * op->size[1] + head;
}

static void ref_softmax(struct reference *r)
{
    int64_t heads = r->op->size[1], seq = r->op->size[2], keys = r->op->size[3];
    int64_t bias = r->op->weights && !r->op->sinks ? r->op->weight[0].operand.size[0] : 0;
    for (int64_t row = 0; row < r->batch * heads * seq; row++) {
        double *y = r->output + row * keys;
        int64_t q = row % seq, head = row / seq % heads;
        for (int64_t k = 0; k < keys; k++) {
            y[k] = r->input[0][row * keys + k];
            if (bias)
                y[k] += r->weight[0][ref_bias_at(r->op, head, q, k)];
            if (r->op->causal && k > q)
                y[k] = -INFINITY;
        }
        ref_softmax_row(y, keys, ref_sink(r, head));
    }
}

static void ref_norm(struct reference *r)
{
    int64_t rows = r->batch * r->op->size[1], width = r->op->size[2];
    bool centred = r->op->kind == OP_LAYER_NORM;
    for (int64_t row = 0; row < rows; row++) {
        const double *x = r->input[0] + row * width;
        double mean = 0, square = 0;
        for (int64_t i = 0; i < width && centred; i++)
            mean += x[i] / (double)width;
        for (int64_t i = 0; i < width; i++)
            square += (x[i] - mean) * (x[i] - mean) / (double)width;
        for (int64_t i = 0; i < width; i++)
            r->output[row * width + i] =
                (x[i] - mean) / sqrt(square + r->op->epsilon) * r->weight[0][i] +
                (centred ? r->weight[1][i] : 0);
    }
}

static void ref_batch_norm(struct reference *r)
{
    int64_t channels = r->op->size[1], pixels = per_sample(&r->op->output) / channels;
    double count = (double)(r->batch * pixels);
    for (int64_t c = 0; c < channels; c++) {
        double mean = 0, square = 0;
        for (int pass = 0; pass < 3; pass++)
            for (int64_t i = 0; i < r->batch * pixels; i++) {
                int64_t at = (i / pixels * channels + c) * pixels + i % pixels;
                double x = r->input[0][at];
                if (pass == 0)
                    mean += x / count;
                else if (pass == 1)
                    square += (x - mean) * (x - mean) / count;
                else
                    r->output[at] =
                        (x - mean) / sqrt(square + 1e-5) * r->weight[0][c] + r->weight[1][c];
            }
    }
}

static double ref_silu(double x)
{
    return x / (1 + exp(-x));
}

static double ref_gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

/* gpt-oss' swiglu(): torch/model.py of its reference. */
static double ref_clamped(double gate, double up)
{
    gate = fmin(gate, 7);
    up = fmax(-7, fmin(up, 7));
    return gate / (1 + exp(-1.702 * gate)) * (up + 1);
}

static double ref_gated(const struct op *op, double gate, double up)
{
    if (op->gate == GATE_CLAMPED)
        return ref_clamped(gate, up);
    return up * (op->gate == GATE_GELU      ? ref_gelu(gate)
                 : op->gate == GATE_SIGMOID ? 1 / (1 + exp(-gate))
                                            : ref_silu(gate));
}

/* Of two inputs, the first through a gate if there is one; of an input and a weight, which may cover a part of a sample. */
static double ref_sum(const struct reference *r, int64_t i, double x)
{
    int64_t sample = per_sample(&r->op->output);
    if (r->op->inputs == 2)
        return (r->op->weights ? tanh(r->weight[0][0]) : 1) * x + r->input[1][i];
    return x + r->weight[0][i % sample % r->op->weight[0].operand.size[0]];
}

static void ref_pointwise(struct reference *r)
{
    int64_t sample = per_sample(&r->op->output);
    int64_t each =
        r->op->kind == OP_GATED && r->op->inputs == 2 ? sample / per_sample(&r->op->input[0]) : 1;
    for (int64_t i = 0; i < r->batch * sample; i++) {
        double x = r->input[0][i / each], *y = &r->output[i];
        double kept = r->mask && r->mask[i] ? 1 / (1 - r->dropout) : 0;
        switch ((int)r->op->kind) {
        case OP_GELU:
            *y = ref_gelu(x);
            break;
        case OP_RELU:
            *y = x > 0 ? (r->op->squared ? x * x : x) : 0;
            break;
        case OP_SILU:
            *y = ref_silu(x);
            break;
        case OP_GATED:
            *y = r->op->inputs == 2 ? ref_gated(r->op, x, r->input[1][i])
                                    : ref_gated(r->op, r->input[0][2 * i], r->input[0][2 * i + 1]);
            break;
        case OP_DROPOUT:
            *y = x * kept;
            break;
        case OP_DROPOUT_ADD:
            *y = x * kept + r->input[1][i];
            break;
        default:
            *y = ref_sum(r, i, x);
            break;
        }
    }
}

/* By the lengths of waves, as transformers has it (modeling_rope_utils.py, _compute_llama3_parameters). */
static double ref_rotary_rate(const struct op *op, int64_t pair)
{
    double rate = pow(10000, -(double)(2 * pair) / (double)op->head_depth);
    double wave = 2 * acos(-1) / rate, longest = 8192, shortest = 8192.0 / 4;
    double smooth = (8192 / wave - 1) / (4 - 1);
    if (op->rope_scaling == 0 || wave < shortest)
        return rate;
    if (wave > longest)
        return rate / op->rope_scaling;
    return (1 - smooth) * rate / op->rope_scaling + smooth * rate;
}

static void ref_rotary(struct reference *r)
{
    const struct op *op = r->op;
    int64_t width = op->size[2], seq = op->size[1];
    for (int64_t i = 0; i < r->batch * seq * width; i++) {
        int64_t in_share = i % width % op->head_share, place = in_share % op->head_depth;
        double angle = (double)(i / width % seq) * ref_rotary_rate(op, place / 2);
        const double *pair = r->input[0] + i / 2 * 2;
        if (in_share >= op->head_turned)
            r->output[i] = r->input[0][i];
        else
            r->output[i] = i % 2 ? pair[0] * sin(angle) + pair[1] * cos(angle)
                                 : pair[0] * cos(angle) - pair[1] * sin(angle);
    }
}

static void ref_conv1d(struct reference *r)
{
    int64_t seq = r->op->size[2], features = r->op->output.size[2], taps = r->op->kernel[0];
    for (int64_t i = 0; i < r->batch * seq * features; i++) {
        int64_t f = i % features, t = i / features % seq;
        double z = r->op->weights > 1 ? r->weight[1][f] : 0;
        for (int64_t back = 0; back < taps && back <= t; back++)
            z += r->weight[0][f * taps + taps - 1 - back] * r->input[0][i - back * features];
        r->output[i] = ref_silu(z);
    }
}

/* The state space written out: y_t = sum over s <= t of C_t . B_s e^(A (sum of steps after s)) step_s x_s,
 * plus the skipped input. Nothing is passed on from position to position. */
static void ref_scan(struct reference *r)
{
    const struct op *op = r->op;
    int64_t groups = op->size[1], seq = op->size[2], each = op->scan_heads, n = op->scan_state;
    int64_t heads = groups * each, depth = op->size[3] / each, share = op->size[3] + 2 * n;
    for (int64_t i = 0; i < r->batch * heads * seq; i++) {
        int64_t t = i % seq, head = i / seq % heads, sample = i / seq / heads, group = head / each;
        double *y = r->output + ((sample * seq + t) * heads + head) * depth, after = 0;
        const double *now = r->input[0] + ((sample * seq + t) * groups + group) * share;
        for (int64_t p = 0; p < depth; p++)
            y[p] = r->weight[1][head] * now[head % each * depth + p];
        for (int64_t s = t; s >= 0; s--) {
            const double *then = r->input[0] + ((sample * seq + s) * groups + group) * share;
            double raw = r->input[1][(sample * seq + s) * heads + head] + r->weight[2][head];
            double step = log(1 + exp(raw)), along = 0;
            for (int64_t k = 0; k < n; k++)
                along += now[op->size[3] + n + k] * then[op->size[3] + k];
            double left = along * exp(-exp(r->weight[0][head]) * after) * step;
            for (int64_t p = 0; p < depth; p++)
                y[p] += left * then[head % each * depth + p];
            after += step;
        }
    }
}

/* x divided by its length, as the delta rule has it. */
static void ref_unit(const double *x, int64_t count, double *out)
{
    double square = 1e-6;
    for (int64_t i = 0; i < count; i++)
        square += x[i] * x[i];
    for (int64_t i = 0; i < count; i++)
        out[i] = x[i] / sqrt(square);
}

enum { REF_WIDEST = 144 };

/* One head of the delta rule with the state as a matrix: S = r S (1 - b k k^T) + b v k^T, y = S q. */
static void ref_delta_head(struct reference *r, int64_t sample, int64_t head)
{
    const struct op *op = r->op;
    int64_t groups = op->size[1], seq = op->size[2], each = op->scan_heads, n = op->scan_state;
    int64_t heads = groups * each, depth = op->size[3] / each, share = op->size[3] + 2 * n;
    double state[REF_WIDEST][REF_WIDEST], q[REF_WIDEST], k[REF_WIDEST];
    for (int64_t p = 0; p < depth; p++)
        memset(state[p], 0, (size_t)n * sizeof **state);
    for (int64_t t = 0; t < seq; t++) {
        const double *now = r->input[0] + ((sample * seq + t) * groups + head / each) * share;
        const double *rate =
            r->input[1] + ((sample * seq + t) * groups + head / each) * 2 * each + head % each;
        double b = 1 / (1 + exp(-rate[0])), step = log(1 + exp(rate[each] + r->weight[1][head]));
        double keep = exp(-exp(r->weight[0][head]) * step);
        ref_unit(now, n, q);
        ref_unit(now + n, n, k);
        for (int64_t p = 0; p < depth; p++) {
            double along = 0, y = 0;
            for (int64_t i = 0; i < n; i++)
                along += state[p][i] * k[i];
            for (int64_t i = 0; i < n; i++) {
                state[p][i] = keep * (state[p][i] - b * along * k[i]) +
                              b * now[2 * n + head % each * depth + p] * k[i];
                y += state[p][i] * q[i];
            }
            r->output[((sample * seq + t) * heads + head) * depth + p] = y / sqrt((double)n);
        }
    }
}

static void ref_delta(struct reference *r)
{
    int64_t heads = r->op->size[1] * r->op->scan_heads;
    for (int64_t i = 0; i < r->batch * heads; i++)
        ref_delta_head(r, i / heads, i % heads);
}

static void ref_gated_norm(struct reference *r)
{
    int64_t groups = r->op->size[1], width = r->op->size[3];
    for (int64_t row = 0; row < r->batch * r->op->size[2] * groups; row++) {
        double square = 0;
        for (int pass = 0; pass < 2; pass++)
            for (int64_t i = 0; i < width; i++) {
                int64_t at = row * width + i;
                double v = r->input[0][at] * ref_silu(r->input[1][at]);
                if (pass == 0)
                    square += v * v / (double)width;
                else
                    r->output[at] =
                        v / sqrt(square + r->op->epsilon) * r->weight[0][row % groups * width + i];
            }
    }
}

/* The padding that a window's sizes imply, on each side. */
static int64_t ref_pad(const struct op *op, int axis)
{
    int64_t pad = 0;
    while ((op->input[0].size[2 + axis] + 2 * pad - op->kernel[axis]) / op->stride[axis] + 1 <
               op->output.size[2 + axis] ||
           op->input[0].size[2 + axis] + 2 * pad < op->kernel[axis])
        pad++;
    return pad;
}

/* The pixel under place (i, j) of the window of output (y, x), or -1 outside the image. */
static int64_t ref_pixel(const struct op *op, int64_t y, int64_t x, int64_t i, int64_t j)
{
    int64_t height = op->input[0].size[2], width = op->input[0].size[3];
    int64_t v = y * op->stride[0] - ref_pad(op, 0) + i, u = x * op->stride[1] - ref_pad(op, 1) + j;
    return v < 0 || u < 0 || v >= height || u >= width ? -1 : v * width + u;
}

static void ref_conv(struct reference *r)
{
    const struct op *op = r->op;
    int64_t in = op->size[1], out = op->size[2], height = op->size[3], width = op->size[4];
    int64_t group_in = in / op->groups, group_out = out / op->groups;
    int64_t image = op->input[0].size[2] * op->input[0].size[3];
    int64_t window = (int64_t)op->kernel[0] * op->kernel[1];
    for (int64_t at = 0; at < r->batch * out * height * width; at++) {
        int64_t x = at % width, y = at / width % height, o = at / width / height % out;
        int64_t sample = at / width / height / out;
        double sum = op->weights > 1 ? r->weight[1][o] : 0;
        for (int64_t i = 0; i < group_in * window; i++) {
            int64_t channel = sample * in + o / group_out * group_in + i / window;
            int64_t pixel =
                ref_pixel(op, y, x, i % window / op->kernel[1], i % window % op->kernel[1]);
            if (pixel >= 0)
                sum +=
                    r->input[0][channel * image + pixel] * r->weight[0][o * group_in * window + i];
        }
        r->output[at] = sum;
    }
}

static void ref_pool(struct reference *r)
{
    const struct op *op = r->op;
    int64_t height = op->size[2], width = op->size[3];
    int64_t image = op->input[0].size[2] * op->input[0].size[3];
    for (int64_t at = 0; at < r->batch * op->size[1] * height * width; at++) {
        const double *plane = r->input[0] + at / width / height * image;
        double most = -INFINITY, sum = 0, count = 0;
        for (int64_t i = 0; i < (int64_t)op->kernel[0] * op->kernel[1]; i++) {
            int64_t pixel = ref_pixel(op, at / width % height, at % width, i / op->kernel[1],
                                      i % op->kernel[1]);
            if (pixel < 0)
                continue;
            most = plane[pixel] > most ? plane[pixel] : most;
            sum += plane[pixel];
            count++;
        }
        r->output[at] = op->kept_fp32 ? most : sum / count;
    }
}

static void ref_concat(struct reference *r)
{
    const struct op *op = r->op;
    int axis = 1;
    while (op->input[0].size[axis] == op->output.size[axis])
        axis++;
    int64_t inside = 1, to = 0;
    for (int i = axis + 1; i < op->output.axes; i++)
        inside *= op->output.size[i];
    int64_t outside = r->batch * per_sample(&op->output) / (inside * op->output.size[axis]);
    for (int64_t o = 0; o < outside; o++)
        for (int i = 0; i < op->inputs; i++)
            for (int64_t k = 0; k < op->input[i].size[axis] * inside; k++)
                r->output[to++] = r->input[i][o * op->input[i].size[axis] * inside + k];
}

static void ref_reshape(struct reference *r)
{
    const struct op *op = r->op;
    int64_t in = per_sample(&op->input[0]), out = per_sample(&op->output);
    int64_t width = op->input[0].size[op->input[0].axes - 1];
    int64_t parts = op->weights ? (out - in) / op->weight[0].operand.size[0] : 1;
    in /= parts;
    out /= parts;
    for (int64_t i = 0; i < r->batch * parts * out; i++) {
        int64_t at = i % out, from = at;
        if (op->padded && at >= in) {
            r->output[i] = 0;
            continue;
        }
        if (op->weights)
            from = at - op->weight[0].operand.size[0];
        else if (out > in && !op->padded)
            from = at / (width * (out / in)) * width + at % width;
        r->output[i] = from < 0 ? r->weight[0][at] : r->input[0][i / out * in + from];
    }
}

/* The expert that takes a token as its k-th choice, by place in the order of scores. */
static int64_t ref_choice(const struct reference *r, int64_t token, int64_t k)
{
    int64_t experts = r->op->size[1];
    const double *score = r->input[1] + token * experts;
    for (int64_t e = 0; e < experts; e++) {
        int64_t better = 0;
        for (int64_t i = 0; i < experts; i++)
            better += score[i] > score[e] || (score[i] == score[e] && i < e);
        if (better == k)
            return e;
    }
    return -1;
}

static double ref_gate(const struct reference *r, int64_t token, int64_t k)
{
    const double *score = r->input[1] + token * r->op->size[1];
    double sum = 0;
    for (int64_t i = 0; i < r->op->top_k; i++)
        sum += exp(score[ref_choice(r, token, i)]);
    return exp(score[ref_choice(r, token, k)]) / sum;
}

/* The row that a token has in its k-th expert, or -1: those before it come first. */
static int64_t ref_place(const struct reference *r, int64_t token, int64_t k)
{
    int64_t experts = r->op->size[1], seq = r->op->size[2], room;
    room = (seq * r->op->top_k + experts - 1) / experts;
    int64_t expert = ref_choice(r, token, k), place = 0;
    for (int64_t t = token / seq * seq; t < token; t++)
        for (int64_t i = 0; i < r->op->top_k; i++)
            place += ref_choice(r, t, i) == expert;
    return place < room ? (token / seq * experts + expert) * room + place : -1;
}

static void ref_experts(struct reference *r)
{
    bool combine = r->op->kind == OP_COMBINE;
    int64_t seq = r->op->size[2], width = r->op->size[3];
    memset(r->output, 0, (size_t)(r->batch * per_sample(&r->op->output)) * sizeof *r->output);
    for (int64_t t = 0; t < r->batch * seq; t++)
        for (int64_t k = 0; k < r->op->top_k; k++) {
            int64_t row = ref_place(r, t, k);
            for (int64_t i = 0; i < width && row >= 0; i++)
                if (combine)
                    r->output[t * width + i] += ref_gate(r, t, k) * r->input[0][row * width + i];
                else
                    r->output[row * width + i] = r->input[0][t * width + i];
        }
}

static void ref_expert_linear(struct reference *r)
{
    int64_t experts = r->op->size[1], in = r->op->size[3], out = r->op->size[4];
    int64_t tokens = r->op->input[0].size[1];
    for (int64_t at = 0; at < r->batch * tokens * out; at++) {
        int64_t o = at % out, row = at / out, expert = row % tokens / (tokens / experts);
        double sum = r->op->weights > 1 ? r->weight[1][expert * out + o] : 0;
        for (int64_t i = 0; i < in; i++)
            sum += r->input[0][row * in + i] * r->weight[0][(expert * out + o) * in + i];
        r->output[at] = sum;
    }
}

static void ref_embedding_bag(struct reference *r)
{
    int64_t tables = r->op->size[1], rows = r->op->size[2], width = r->op->size[3];
    for (int64_t at = 0; at < r->batch * tables * width; at++) {
        int64_t group = at / width, i = at % width;
        r->output[at] = 0;
        for (int64_t k = 0; k < r->op->top_k; k++) {
            int64_t row = r->ids[group * r->op->top_k + k];
            r->output[at] += r->weight[0][(group % tables * rows + row) * width + i];
        }
    }
}

/* Feature i of vector v of a sample: the dense one, then the tables'. */
static double ref_feature(const struct reference *r, int64_t sample, int64_t v, int64_t i)
{
    int64_t tables = r->op->size[1] - 1, width = r->op->size[2];
    return v == 0 ? r->input[0][sample * width + i]
                  : r->input[1][(sample * tables + v - 1) * width + i];
}

static void ref_interaction(struct reference *r)
{
    int64_t vectors = r->op->size[1], width = r->op->size[2];
    double *z = r->output;
    for (int64_t sample = 0; sample < r->batch; sample++) {
        for (int64_t i = 0; i < width; i++)
            *z++ = ref_feature(r, sample, 0, i);
        for (int64_t v = 1; v < vectors; v++)
            for (int64_t u = 0; u < v; u++, z++)
                for (int64_t i = 0; i < width; i++)
                    *z = (i ? *z : 0) + ref_feature(r, sample, v, i) * ref_feature(r, sample, u, i);
    }
}

static void ref_loss(struct reference *r)
{
    int64_t rows = r->batch * r->op->size[1], classes = r->op->size[2];
    for (int64_t row = 0; row < rows; row++) {
        const double *x = r->input[0] + row * classes;
        double sum = 0;
        for (int64_t i = 0; i < classes; i++)
            sum += exp(x[i]);
        if (classes == 1) /* beside a score of 0 for the label 0 */
            r->output[row] = r->ids[row] < 0 ? 0 : log(1 + exp(x[0])) - (double)r->ids[row] * x[0];
        else
            r->output[row] = r->ids[row] < 0 ? 0 : log(sum) - x[r->ids[row]];
    }
}

static void (*const REFERENCES[OP_KIND_COUNT])(struct reference *r) = {
    [OP_EMBEDDING] = ref_embedding,
    [OP_LINEAR] = ref_linear,
    [OP_SCORE] = ref_scores,
    [OP_CONTEXT] = ref_context,
    [OP_ATTENTION] = ref_attention,
    [OP_SOFTMAX] = ref_softmax,
    [OP_LAYER_NORM] = ref_norm,
    [OP_RMS_NORM] = ref_norm,
    [OP_BATCH_NORM] = ref_batch_norm,
    [OP_GELU] = ref_pointwise,
    [OP_RELU] = ref_pointwise,
    [OP_SILU] = ref_pointwise,
    [OP_GATED] = ref_pointwise,
    [OP_DROPOUT] = ref_pointwise,
    [OP_DROPOUT_ADD] = ref_pointwise,
    [OP_ADD] = ref_pointwise,
    [OP_ROTARY] = ref_rotary,
    [OP_ROUTER] = ref_linear,
    [OP_DISPATCH] = ref_experts,
    [OP_EXPERT_LINEAR] = ref_expert_linear,
    [OP_COMBINE] = ref_experts,
    [OP_CONV1D] = ref_conv1d,
    [OP_SCAN] = ref_scan,
    [OP_DELTA] = ref_delta,
    [OP_GATED_NORM] = ref_gated_norm,
    [OP_CONV] = ref_conv,
    [OP_POOL] = ref_pool,
    [OP_CONCAT] = ref_concat,
    [OP_EMBEDDING_BAG] = ref_embedding_bag,
    [OP_INTERACTION] = ref_interaction,
    [OP_LOSS] = ref_loss,
    [OP_RESHAPE] = ref_reshape,
};

#endif
