/* layer_profile.c - costs from measured layers (layer_profile.h). */
#include "lab/layer_profile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct measured_layers {
    struct measured_model model;
    int64_t held_samples;                      /* set by layer_profile_hold */
    struct layer_profile layer[MEASURED_RUNS]; /* one kind per run */
    double overhead_ns[MEASURED_RUNS]; /* once, for a layer whose gradients are synchronised */
    struct model_ends *ends;
    size_t end_count;
    struct collective_rate *rate;
    size_t rates;
    double slowdown, factor, context_bytes;
};

/* ---- rates ----------------------------------------------------------------------------------- */

/* The names of machines begin with "NODESxDEVICES". */
static int64_t machine_devices(const struct collective_rate *rate)
{
    char *after;
    int64_t nodes = strtoll(rate->machine, &after, 10);
    return *after == 'x' ? nodes * strtoll(after + 1, NULL, 10) : 0;
}

/* Bytes per ns on the bus; 0 if it was not measured. */
static double rate_of(const struct measured_layers *m, const struct layer_question *question,
                      enum collective collective, int64_t group, bool consecutive)
{
    for (size_t i = 0; i < m->rates; i++) {
        const struct collective_rate *rate = &m->rate[i];
        if (rate->collective == collective && rate->stages == question->stages &&
            rate->devices == group && rate->consecutive == consecutive &&
            machine_devices(rate) == question->devices)
            return rate->bus_bytes_per_s * 1e-9;
    }
    return 0;
}

/* The rate that one kind of parallelism of a strategy reaches on its links. */
static double way_rate(const struct measured_layers *m, const struct layer_question *question,
                       const struct strategy *strategy, enum way way)
{
    for (int32_t i = 0; i < strategy->levels; i++)
        if (strategy->level[i].way == way)
            return rate_of(m, question, COLLECTIVE_ALL_REDUCE, strategy->level[i].degree,
                           i == strategy->levels - 1);
    return 0;
}

/* The bytes that a ring all-reduce sends over the bus. */
static double ring_bytes(double devices, double bytes)
{
    return 2 * (devices - 1) / devices * bytes;
}

/* ---- layers ---------------------------------------------------------------------------------- */

/* One layer under one strategy. */
struct laid_layer {
    const struct layer_profile *layer;
    double tp, dp, samples;
    bool sharded;
    double forward_ns, backward_ns, tensor_ns, sync_ns, gather_ns;
    double activation_bytes, input_bytes, weight_bytes;
};

/* Bytes of activations per sample; negative if they were not measured. */
static double activation_of(const struct layer_profile *layer, int64_t tp)
{
    for (int i = 0; i < layer->activations; i++)
        if (layer->activation[i].tp == tp)
            return (double)layer->activation[i].bytes;
    return -1;
}

static double input_bytes(const struct layer_profile *layer)
{
    return (double)(layer->seq * layer->hidden * dtype_bytes(layer->dtype));
}

/* Whether the strategy consists of DP, SDP and TP, which are all that the profile has. */
static bool is_measured(const struct strategy *strategy)
{
    int64_t dp = strategy_degree(strategy, WAY_DP), sdp = strategy_degree(strategy, WAY_SDP);
    return (strategy->shard == 0 || strategy->shard == 3) && !strategy->sequence &&
           (dp == 1 || sdp == 1) &&
           dp * sdp * strategy_degree(strategy, WAY_TP) == strategy_devices(strategy);
}

static void set_times(struct laid_layer *laid, bool recompute, double tensor_rate, double data_rate)
{
    double all_reduces = (double)laid->layer->tp_all_reduces * (recompute ? 1.5 : 1);
    laid->forward_ns = laid->layer->forward_ns * laid->samples / laid->tp;
    laid->backward_ns = (recompute ? 3 : 2) * laid->forward_ns; /* (1) */
    if (laid->tp > 1)                                           /* (2) */
        laid->tensor_ns = all_reduces * ring_bytes(laid->tp, laid->input_bytes) / tensor_rate;
    if (laid->dp > 1) /* (3) */
        laid->sync_ns = ring_bytes(laid->dp, laid->weight_bytes) / data_rate;
    laid->gather_ns = laid->sharded ? laid->sync_ns / 2 : 0;
}

/* False if it was not measured, or if a device would not have whole samples (I3). */
static bool lay(const struct measured_layers *m, const struct layer_question *question,
                int32_t kind, const struct strategy *strategy, struct laid_layer *laid)
{
    int64_t sdp = strategy_degree(strategy, WAY_SDP), tp = strategy_degree(strategy, WAY_TP);
    int64_t dp = strategy_degree(strategy, WAY_DP) * sdp;
    double tensor_rate = way_rate(m, question, strategy, WAY_TP);
    double data_rate = way_rate(m, question, strategy, sdp > 1 ? WAY_SDP : WAY_DP);
    double activation = activation_of(&m->layer[kind], tp);
    if (!is_measured(strategy) || activation < 0 || (tp > 1 && tensor_rate <= 0) ||
        (dp > 1 && data_rate <= 0) || question->step_samples % dp)
        return false;
    *laid = (struct laid_layer){.layer = &m->layer[kind],
                                .tp = (double)tp,
                                .dp = (double)dp,
                                .samples = (double)(question->step_samples / dp),
                                .sharded = sdp > 1};
    laid->input_bytes = input_bytes(laid->layer) * laid->samples;
    laid->weight_bytes = (double)laid->layer->weight_bytes / laid->tp;
    laid->activation_bytes = activation * laid->samples;
    set_times(laid, strategy->recompute, tensor_rate, data_rate);
    return true;
}

/* Equation (4). */
static double slow(const struct measured_layers *m, const struct laid_layer *laid, double send_ns)
{
    return (m->slowdown - 1) * fmin(laid->backward_ns, send_ns);
}

static double rest(const struct laid_layer *laid, double send_ns)
{
    return fmax(send_ns - laid->backward_ns, 0);
}

/* By what factor more is held than the search counts. */
static double in_flight(const struct measured_layers *m, const struct layer_question *question)
{
    int64_t counted = question->stages - question->stage;
    if (counted > question->micro_batches)
        counted = question->micro_batches;
    if (!m->held_samples)
        return 1;
    return (double)m->held_samples / (double)(counted * question->step_samples);
}

static weft_status layer_cost(void *context, const struct layer_question *question, int32_t kind,
                              const struct strategy *strategy, struct layer_cost *out)
{
    const struct measured_layers *m = context;
    struct laid_layer laid;
    if (!lay(m, question, kind, strategy, &laid)) {
        *out = (struct layer_cost){.steady_ns = LAYERWISE_NEVER};
        return WEFT_OK;
    }
    double slow_each = slow(m, &laid, laid.gather_ns), rest_each = rest(&laid, laid.gather_ns);
    double steady = laid.forward_ns + laid.backward_ns + laid.tensor_ns + laid.gather_ns +
                    slow_each + rest_each; /* (5) */
    double once = slow(m, &laid, laid.sync_ns) - slow_each +
                  (rest(&laid, laid.sync_ns) - rest_each) / question->stages + /* (6) */
                  (laid.dp > 1 ? m->overhead_ns[kind] : 0);
    double share = laid.sharded ? 1 / laid.dp + m->model.shard_margin : 1;
    double kept = strategy->recompute ? laid.input_bytes : laid.activation_bytes;
    *out =
        (struct layer_cost){.steady_ns = llround(steady * m->factor),
                            .once_ns = llround(once * m->factor),
                            .kept_bytes = llround(kept * in_flight(m, question)),
                            .peak_bytes = strategy->recompute ? llround(laid.activation_bytes) : 0,
                            .state_bytes = llround(4 * laid.weight_bytes * share)};
    return WEFT_OK;
}

/* ---- reshards -------------------------------------------------------------------------------- */

static bool tensor_inside(const struct strategy *strategy)
{
    return strategy->levels && strategy->level[strategy->levels - 1].way == WAY_TP;
}

/* Slice-Gather (section VI): if the TP degree grows, devices gather samples in the forward pass and drop them in the
 * backward pass; if it shrinks, the other way round. Groups that lie across each other do both. */
static weft_status reshard(void *context, const struct layer_question *question, int32_t boundary,
                           const struct strategy *before, const struct strategy *after, int64_t *ns)
{
    const struct measured_layers *m = context;
    int64_t from = strategy_degree(before, WAY_TP), to = strategy_degree(after, WAY_TP);
    const struct strategy *larger = to > from ? after : before;
    int64_t most = to > from ? to : from, least = to > from ? from : to;
    int64_t group = strategy_devices(larger);
    bool crossed = least > 1 && most < group && tensor_inside(before) != tensor_inside(after);
    double rate = way_rate(m, question, larger, WAY_TP);
    *ns = 0;
    if (rate <= 0 || (from == to && !crossed))
        return WEFT_OK;
    double samples = (double)question->step_samples * (double)most / (double)group;
    double bytes = samples * input_bytes(&m->layer[boundary]);
    double pieces = crossed ? (double)most : (double)most / (double)least;
    *ns = llround((pieces - 1) / pieces * bytes / rate * (crossed ? 2 : 1) * m->factor);
    return WEFT_OK;
}

/* ---- embedding and head ---------------------------------------------------------------------- */

static const struct model_ends *find_ends(const struct measured_layers *m, const char *part,
                                          int64_t devices)
{
    for (size_t i = 0; i < m->end_count; i++)
        if (m->ends[i].devices == devices && strcmp(m->ends[i].part, part) == 0)
            return &m->ends[i];
    return NULL;
}

/* What one stage has of embedding and head. If these were only measured together, the first stage has both. */
static const struct model_ends *ends_of(const struct measured_layers *m,
                                        const struct layer_question *question)
{
    bool first = question->stage == 0, last = question->stage == question->stages - 1;
    const struct model_ends *own = NULL;
    if (first != last)
        own = find_ends(m, first ? "first" : "last", question->devices);
    return own || !first ? own : find_ends(m, "both", question->devices);
}

static void add_ends(const struct measured_layers *m, const struct layer_question *question,
                     double samples, struct layer_cost *out)
{
    const struct model_ends *ends = ends_of(m, question);
    bool first = question->stage == 0;
    int64_t group = question->devices / question->stages;
    double rate = rate_of(m, question, COLLECTIVE_ALL_REDUCE, group, true);
    if (!ends)
        return;
    double peak = question->stages > 1 ? (double)m->model.end_peak_bytes[first ? 0 : 1] : 0;
    double kept = fmax((double)ends->activation_bytes - peak, 0);
    out->state_bytes += ends->state_bytes;
    out->kept_bytes += llround(kept * samples * in_flight(m, question));
    out->peak_bytes += llround(peak * samples);
    if (first && rate > 0) /* I2; a quarter of the state is gradients */
        out->once_ns +=
            llround(ring_bytes((double)group, (double)ends->state_bytes / 4) / rate * m->factor);
}

static weft_status stage_beside(void *context, const struct layer_question *question,
                                struct layer_cost *out)
{
    const struct measured_layers *m = context;
    double samples =
        (double)question->step_samples * (double)question->stages / (double)question->devices;
    double rate = rate_of(m, question, COLLECTIVE_SEND, 2, false);
    *out = (struct layer_cost){.state_bytes = llround(m->context_bytes)};
    add_ends(m, question, samples, out);
    if (question->stage && rate > 0) /* its input and the gradient of its input */
        out->steady_ns = llround(2 * samples * input_bytes(&m->layer[0]) / rate * m->factor);
    return WEFT_OK;
}

static int32_t place(void *context, const struct layer_question *question)
{
    const struct measured_layers *m = context;
    if (m->held_samples)
        return question->stage;
    return question->stage == 0 ? 0 : question->stage == question->stages - 1 ? 2 : 1;
}

/* ---- reading --------------------------------------------------------------------------------- */

static weft_status constant(struct profile *profile, const char *device, const char *name,
                            double otherwise, double *out)
{
    bool found;
    weft_status status = profile_constant(profile, device, name, out, &found);
    if (status == WEFT_OK && !found)
        *out = otherwise;
    return status;
}

static weft_status find_layers(struct measured_layers *m, const struct layer_profile *layers,
                               size_t count)
{
    if (m->model.runs < 1 || m->model.runs > MEASURED_RUNS)
        return bad_argument(NULL, "%d runs of layers, expected 1 to %d", (int)m->model.runs,
                            MEASURED_RUNS);
    for (int32_t r = 0; r < m->model.runs; r++) {
        const struct layer_profile *found = NULL;
        for (size_t i = 0; i < count; i++)
            if (layers[i].layer == m->model.run[r].layer)
                found = &layers[i];
        if (!found || m->model.run[r].count < 1)
            return bad_argument(NULL, "%d times layer %d of %s, which the profile of %s %s",
                                (int)m->model.run[r].count, (int)m->model.run[r].layer,
                                m->model.profile, m->model.device, found ? "has" : "does not have");
        m->layer[r] = *found;
    }
    return WEFT_OK;
}

enum { OVERHEAD_LAYERS = 24 }; /* the profile's overhead is that of so many */

static weft_status read_constants(struct arena *keep, struct profile *profile,
                                  struct measured_layers *m)
{
    const char *device = m->model.device;
    weft_status status;
    TRY(constant(profile, device, "overlap_slowdown", 1, &m->slowdown));
    TRY(constant(profile, device, "estimate_factor", 1, &m->factor));
    TRY(constant(profile, device, "context", 0, &m->context_bytes));
    for (int32_t r = 0; r < m->model.runs; r++) {
        const char *name =
            arena_printf(keep, "%s layer %lld: overhead of %d layers", m->model.profile,
                         (long long)m->layer[r].layer, OVERHEAD_LAYERS);
        TRY(constant(profile, device, name, 0, &m->overhead_ns[r]));
        m->overhead_ns[r] /= OVERHEAD_LAYERS;
    }
done:
    return status;
}

static weft_status read_profile(struct arena *keep, struct profile *profile,
                                struct measured_layers *m)
{
    const char *device = m->model.device;
    struct layer_profile *layers;
    size_t count;
    weft_status status;
    TRY(profile_layers(profile, device, m->model.profile, keep, &layers, &count));
    TRY(find_layers(m, layers, count));
    TRY(profile_model_ends(profile, device, m->model.profile, keep, &m->ends, &m->end_count));
    TRY(profile_rates(profile, device, keep, &m->rate, &m->rates));
    TRY(read_constants(keep, profile, m));
done:
    return status;
}

void layer_profile_hold(struct layer_source *source, int64_t samples)
{
    struct measured_layers *m = source->context;
    m->held_samples = samples;
}

weft_status layer_profile_source(struct arena *keep, struct profile *profile,
                                 const struct measured_model *model, struct layer_source *out)
{
    struct measured_layers *m = ARENA_NEW(keep, struct measured_layers);
    int32_t layers = 0, at = 0;
    weft_status status;
    m->model = *model;
    TRY(read_profile(keep, profile, m));
    for (int32_t r = 0; r < model->runs; r++)
        layers += model->run[r].count;
    int32_t *kind = ARENA_ARRAY(keep, int32_t, (size_t)layers);
    for (int32_t r = 0; r < model->runs; r++)
        for (int32_t i = 0; i < model->run[r].count; i++)
            kind[at++] = r;
    *out = (struct layer_source){.layers = layers,
                                 .kinds = model->runs,
                                 .boundaries = model->runs,
                                 .kind = kind,
                                 .boundary = kind,
                                 .context = m,
                                 .layer = layer_cost,
                                 .reshard = reshard,
                                 .beside = stage_beside,
                                 .place = place};
done:
    return status;
}
