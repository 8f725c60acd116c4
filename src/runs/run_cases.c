/* run_cases.c - runs as plans that are simulated (runs.h).
 *
 * A run that was measured as a rate took, with B samples of S tokens on N devices,
 *
 *   T = B S / (tokens per second) = B / (samples per second)                                     (1)
 *   T = T predicted * (TFLOP/s per device predicted) / (measured)                                (2)
 *
 * with the FLOPs that the run's software counts.
 *
 *   I1  What a row leaves open is set as `weft simulate` sets it (follow_practice).
 */
#include <string.h>

#include "runs/runs_room.h"

#define SECONDS(ns) ((double)(ns) / 1e9)

static weft_status open_run(struct arena *keep, struct user_run *run, struct opened_plan *out)
{
    weft_status status;
    const char *cluster = cluster_meant(keep, run->cluster);
    TRY(model_open(run->model, run->options, &out->model));
    TRY(cluster_open(cluster, &out->cluster));
    TRY(follow_practice(keep, run->model, &run->options, &run->degrees, out));
    TRY(plan_from_degrees(out->model, out->cluster, &run->degrees, &out->plan));
    plan_set_names(out->plan, run->model, run->options, run->cluster);
    TRY(plan_check(out->plan));
done:
    return status;
}

static double measured_s(const struct user_run *run, const struct prediction *prediction)
{
    const struct plan *plan = prediction->plan;
    double samples = (double)plan->global_batch, tokens = samples * (double)plan->model->seq;
    double devices = (double)cluster_devices(plan->cluster);
    double tflops = SECONDS(prediction->iteration_ns) * prediction_logged_tflops(prediction);
    const double amount[] = {
        [SPEED_SECONDS] = 0,
        [SPEED_TOKENS] = tokens, /* (1) */
        [SPEED_DEVICE_TOKENS] = tokens / devices,
        [SPEED_SAMPLES] = samples,
        [SPEED_DEVICE_SAMPLES] = samples / devices,
        [SPEED_DEVICE_TFLOPS] = tflops, /* (2) */
    };
    _Static_assert(COUNT_OF(amount) == RUN_SPEEDS, "a speed without its amount");
    if (run->speed[SPEED_SECONDS] > 0)
        return run->speed[SPEED_SECONDS];
    for (int i = SPEED_SECONDS + 1; i < RUN_SPEEDS; i++)
        if (run->speed[i] > 0)
            return amount[i] / run->speed[i];
    return 0;
}

static void take_result(const struct prediction *prediction, struct user_run *run)
{
    run->predicted.time_s = SECONDS(prediction->iteration_ns);
    for (int32_t i = 0; i < prediction->plan->stages; i++) {
        const struct stage_peak *memory = &prediction->stage[i].memory;
        if ((double)memory->peak > run->predicted.memory_bytes)
            run->predicted.memory_bytes = (double)memory->peak;
        if ((double)memory->reserved > run->predicted.reserved_bytes)
            run->predicted.reserved_bytes = (double)memory->reserved;
    }
    run->measured.time_s = measured_s(run, prediction);
    run->devices = cluster_devices(prediction->plan->cluster);
    run->fits = prediction->fits;
    run->done = true;
}

/* The row's reason, unless the machine failed. */
static weft_status refuse(struct arena *keep, struct user_run *run, weft_status status)
{
    if (status == WEFT_OK || status == WEFT_FAILURE)
        return status;
    run->reason = arena_copy_text(keep, weft_last_error()->message);
    error_clear();
    return WEFT_OK;
}

weft_status runs_predict(struct arena *keep, struct user_runs *runs, struct run_cases *out)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < runs->len && !status; i++) {
        struct run_case one = {.run = &runs->data[i]};
        struct prediction *prediction = NULL;
        if (one.run->reason)
            continue;
        status = open_run(keep, one.run, &one.opened);
        if (!status)
            status = simulate(one.opened.plan, &(struct simulate_options){0}, &prediction);
        if (!status)
            take_result(prediction, one.run);
        prediction_free(prediction);
        status = refuse(keep, one.run, status);
        if (one.run->done && one.run->measured.time_s > 0)
            array_push(keep, out, one);
        else
            plan_close(&one.opened);
    }
    return status;
}

void run_cases_close(struct run_cases *cases)
{
    for (size_t i = 0; i < cases->len; i++)
        plan_close(&cases->data[i].opened);
    cases->len = 0;
}

weft_status run_case_time(const struct run_case *one, const struct paces *paces, double *time_s)
{
    struct cluster *paced = cluster_paced(one->opened.cluster, paces);
    struct plan *plan = one->opened.plan;
    struct prediction *prediction = NULL;
    plan->cluster = paced;
    struct simulate_options options = {.times_only = true, .profile = one->profile};
    weft_status status = simulate(plan, &options, &prediction);
    if (!status)
        *time_s = SECONDS(prediction->iteration_ns);
    prediction_free(prediction);
    plan->cluster = one->opened.cluster;
    cluster_free(paced);
    return status;
}
