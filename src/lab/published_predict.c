/* published_predict.c - the prediction of one published run. */
#include "lab/published_read.h"

#include <string.h>

#define SECONDS(ns) ((double)(ns) / 1e9)

static const struct stage_peak *measured_stage(const struct published *row,
                                               const struct prediction *prediction)
{
    const struct stage_prediction *stage = prediction->stage;
    int32_t stages = prediction->plan->stages, fullest = stages - 1;
    for (int32_t i = 0; i < stages && row->memory_place == MEMORY_OF_FULLEST; i++)
        if (stage[i].memory.peak > stage[fullest].memory.peak)
            fullest = i;
    return &stage[fullest].memory;
}

/* What is held while frozen weights are copied to fp32 (enum memory_place). */
static int64_t logged_norm_bytes(const struct stage_peak *peak, enum policy policy)
{
    enum { COPY = 4 }; /* bytes of an fp32 number */
    int64_t weights = peak->state[MEMORY_WEIGHTS] / policy_weight_bytes(policy);
    int64_t trained = peak->state[MEMORY_GRADIENTS] / policy_gradient_bytes(policy);
    int64_t bytes = COPY * (weights - trained);
    for (int i = 0; i < MEMORY_CLASS_COUNT; i++)
        bytes += peak->state[i];
    return bytes;
}

static double memory_measured(const struct published *row, const struct prediction *prediction)
{
    const struct stage_peak *peak = measured_stage(row, prediction);
    int64_t bytes = row->memory_reserved ? peak->reserved : peak->peak;
    int64_t norm = row->memory_place == MEMORY_OF_LOGGED_NORM
                       ? logged_norm_bytes(peak, prediction->plan->policy)
                       : 0;
    return (double)(norm > bytes ? norm : bytes);
}

static void take_portions(const struct prediction *prediction, struct run_outcome *out)
{
    static const enum portion PORTIONS[] = {
        [PURPOSE_FORWARD] = PORTION_FORWARD,    [PURPOSE_BACKWARD] = PORTION_BACKWARD,
        [PURPOSE_RECOMPUTE] = PORTION_BACKWARD, [PURPOSE_OPTIMIZER] = PORTION_REST,
        [PURPOSE_TENSOR] = PORTION_TENSOR,      [PURPOSE_EXPERTS] = PORTION_TENSOR,
        [PURPOSE_CONTEXT] = PORTION_TENSOR,     [PURPOSE_DATA] = PORTION_DATA,
        [PURPOSE_PIPELINE] = PORTION_PIPELINE,  [PURPOSE_OFFLOAD] = PORTION_REST,
        [TIME_BUBBLE] = PORTION_BUBBLE,
    };
    _Static_assert(COUNT_OF(PORTIONS) == TIME_COUNT, "a time without a portion");
    const struct stage_prediction *stage = &prediction->stage[prediction->busiest];
    for (int i = 0; i < TIME_COUNT; i++)
        out->portion_s[PORTIONS[i]] += SECONDS(stage->time_ns[i]);
}

/* Time that copies between a device and its host take, the mean over devices. */
static double copies_s(const struct prediction *prediction)
{
    const struct graph *graph = prediction->graph;
    double times =
        (double)plan_micro_batches(prediction->plan) / (double)plan_micro_batches(graph->plan);
    int64_t ns = 0;
    for (int32_t t = 0; t < graph->tasks; t++)
        if (graph->task[t].purpose == PURPOSE_OFFLOAD)
            ns += prediction->result.end_ns[t] - prediction->result.start_ns[t];
    return SECONDS(ns) * times / (double)graph->devices;
}

/* A margin is for plans that somebody is about to start: what ran had none (predict_after). Where the device is full,
 * PyTorch's allocator returns segments that nothing is in, and tries again. */
static enum memory_fit memory_fit_of(const struct prediction *prediction)
{
    enum memory_fit fit = FITS_RESERVED;
    for (int32_t i = 0; i < prediction->plan->stages; i++) {
        const struct stage_peak *peak = &prediction->stage[i].memory;
        int64_t left = peak->limit - peak->context - peak->communicators;
        enum memory_fit own = peak->peak > left                           ? FITS_NOT
                              : peak->reserved > left && !peak->returning ? FITS_ALLOCATED
                                                                          : FITS_RESERVED;
        fit = own > fit ? own : fit;
    }
    return fit;
}

/* Whether somebody would start it: with the usual margin. */
static bool fits_with_margin(const struct prediction *prediction)
{
    for (int32_t i = 0; i < prediction->plan->stages; i++) {
        const struct stage_peak *peak = &prediction->stage[i].memory;
        if (stage_needed(peak) > peak->limit - peak->limit * MARGIN_PERCENT / 100)
            return false;
    }
    return true;
}

static void take_outcome(struct arena *keep, const struct prediction *prediction,
                         struct published *row)
{
    const struct stage_peak *peak = measured_stage(row, prediction);
    row->predicted = (struct run_outcome){.time_s = SECONDS(prediction->iteration_ns),
                                          .memory_bytes = memory_measured(row, prediction),
                                          .reserved_bytes = (double)peak->reserved,
                                          .fits = fits_with_margin(prediction),
                                          .memory_fit = memory_fit_of(prediction)};
    take_portions(prediction, &row->predicted);
    if (row->measured.portion_s[PORTION_COPIES] > 0)
        row->predicted.portion_s[PORTION_COPIES] = copies_s(prediction);
    row->like = plan_likeness(prediction->plan);
    row->like.arch = arena_copy_text(keep, row->like.arch);
    row->done = true;
}

/* A row that ran the same plan, its memory measured at the same place, has the same prediction: releases of one
 * framework publish the same configurations again. */
static const struct published *twin_of(const struct published *row, const struct published *before,
                                       size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (before[i].done && before[i].memory_place == row->memory_place &&
            before[i].memory_reserved == row->memory_reserved &&
            strcmp(before[i].plan_file, row->plan_file) == 0)
            return &before[i];
    return NULL;
}

static weft_status simulate_row(struct arena *keep, const struct plan *plan, struct omitted omitted,
                                struct published *row)
{
    struct prediction *prediction = NULL;
    struct simulate_options options = {.fold = FOLD_AUTO, .returning = true, .omitted = omitted};
    weft_status status = simulate(plan, &options, &prediction);
    if (status == WEFT_OK) {
        take_outcome(keep, prediction, row);
        prediction_free(prediction);
    } else if (status != WEFT_FAILURE) {
        refuse(keep, row, "cannot be simulated: %s", weft_last_error()->message);
        error_clear();
        status = WEFT_OK;
    }
    return status;
}

static weft_status predict_after(struct arena *keep, const struct published *before, size_t count,
                                 struct omitted omitted, struct published *row)
{
    struct opened_plan opened;
    weft_status status = published_settle(keep, row);
    if (!status)
        status = published_plan(keep, row, &opened);
    if (status || row->reason)
        return status;
    row->plan_file = plan_write(keep, opened.plan);
    opened.plan->memory.has_margin = true; /* of 0 % */
    opened.plan->memory.margin_percent = 0;
    const struct published *twin = twin_of(row, before, count);
    if (twin) {
        row->predicted = twin->predicted;
        row->like = twin->like;
        row->done = true;
    } else {
        status = simulate_row(keep, opened.plan, omitted, row);
    }
    plan_close(&opened);
    return status;
}

weft_status published_predict(struct arena *keep, struct published *row)
{
    return predict_after(keep, NULL, 0, (struct omitted){0}, row);
}

weft_status published_predict_next(struct arena *keep, struct published_rows *rows, size_t at,
                                   struct omitted omitted)
{
    return predict_after(keep, rows->data, at, omitted, &rows->data[at]);
}
