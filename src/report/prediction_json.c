/* prediction_json.c - a prediction as JSON; docs/reference/json.md describes the fields.
 *
 *   I1  Times are whole nanoseconds divided by 1e9, so that a stage's times add up to iteration_s.
 */
#include "report/report.h"
#include "runs/runs.h"

static json_t *seconds(int64_t ns)
{
    return json_real((double)ns / 1e9);
}

static json_t *integer(int64_t value)
{
    return json_integer((json_int_t)value);
}

/* The times of a stage by purpose, in the order of a breakdown. */
static json_t *times_json(const struct stage_prediction *stage)
{
    json_t *times = json_object();
    for (int i = 0; i < TIME_COUNT; i++)
        json_object_set_new(times, time_name(BREAKDOWN[i]), seconds(stage->time_ns[BREAKDOWN[i]]));
    return times;
}

static json_t *stages_json(const struct prediction *prediction)
{
    json_t *stages = json_array();
    for (int32_t i = 0; i < prediction->plan->stages; i++) {
        const struct stage *stage = &prediction->plan->stage[i];
        const struct stage_prediction *predicted = &prediction->stage[i];
        json_t *waits = predicted->waits_most ? json_text(predicted->waits_most) : json_null();
        json_array_append_new(stages, json_pack("{s:i, s:I, s:I, s:o, s:o, s:o}", "stage", i,
                                                "first_device", (json_int_t)stage->first_device,
                                                "devices", (json_int_t)stage->devices, "time",
                                                times_json(predicted), "waits_most", waits,
                                                "waits_most_s", seconds(predicted->waits_most_ns)));
    }
    return stages;
}

static json_t *memory_json(const struct prediction *prediction)
{
    json_t *stages = json_array();
    for (int32_t i = 0; i < prediction->plan->stages; i++) {
        const struct stage_peak *memory = &prediction->stage[i].memory;
        json_t *json = json_pack("{s:i}", "stage", i);
        for (int c = 0; c < MEMORY_CLASS_COUNT; c++)
            json_object_set_new(json, memory_class_name((enum memory_class)c),
                                integer(memory->bytes[c]));
        json_object_set_new(json, "peak", integer(memory->peak));
        json_object_set_new(json, "reserved", integer(memory->reserved));
        json_object_set_new(json, "context", integer(memory->context));
        json_object_set_new(json, "communicators", integer(memory->communicators));
        json_object_set_new(json, "margin", integer(memory->margin));
        json_object_set_new(json, "needed", integer(stage_needed(memory)));
        json_object_set_new(json, "limit", integer(memory->limit));
        json_object_set_new(json, "host", integer(memory->host));
        json_object_set_new(json, "at_s", seconds(memory->at_ns));
        json_array_append_new(stages, json);
    }
    return stages;
}

static json_t *holdings_json(const struct prediction *prediction)
{
    int32_t stage = fullest_stage(prediction);
    const struct stage_peak *memory = &prediction->stage[stage].memory;
    json_t *holdings = json_array();
    for (int32_t i = 0; i < memory->holdings; i++)
        json_array_append_new(holdings, json_pack("{s:i, s:o, s:s, s:I}", "stage", stage, "what",
                                                  json_text(memory->holding[i].what), "class",
                                                  memory_class_name(memory->holding[i].memory),
                                                  "bytes", (json_int_t)memory->holding[i].bytes));
    return holdings;
}

static json_t *reliance_json(const struct prediction *prediction)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < prediction->reliances; i++) {
        const struct reliance *reliance = &prediction->reliance[i];
        json_array_append_new(list, json_pack("{s:s, s:o, s:f}", "provenance",
                                              provenance_name(reliance->provenance), "source",
                                              json_text(reliance->source ? reliance->source : ""),
                                              "share", reliance->share));
    }
    return list;
}

/* The plan that was simulated. */
static json_t *plan_json(const struct plan *plan)
{
    struct arena *scratch = arena_new();
    json_t *software = json_text(software_text(scratch, &plan->software));
    arena_free(scratch);
    return json_pack("{s:o, s:o, s:I, s:s, s:o, s:I, s:I, s:o}", "model",
                     json_text(plan->model->name), "cluster", json_text(plan->cluster->name),
                     "devices", (json_int_t)cluster_devices(plan->cluster), "dtype",
                     dtype_name(plan->dtype), "software", software, "global_batch",
                     (json_int_t)plan->global_batch, "micro_batches",
                     (json_int_t)plan_micro_batches(plan), "schedule", json_text(plan->schedule));
}

static json_t *interval_json(const struct prediction *prediction)
{
    struct interval interval;
    double s = (double)prediction->iteration_ns / 1e9;
    if (!plan_interval(prediction->plan, &interval))
        return json_null();
    return json_pack("{s:f, s:f, s:I, s:s}", "low_s", s * interval.low, "high_s", s * interval.high,
                     "runs", (json_int_t)interval.runs, "alike", interval.alike);
}

static void set_rates(json_t *json, const struct prediction *prediction)
{
    const struct plan *plan = prediction->plan;
    double s = (double)prediction->iteration_ns / 1e9, samples = (double)plan->global_batch / s;
    double tflops = prediction_tflops(prediction);
    double peak = plan->cluster->node.device.flops[plan->dtype] / 1e12;
    json_object_set_new(json, "iteration_s", json_real(s));
    json_object_set_new(json, "interval", interval_json(prediction));
    json_object_set_new(json, "samples_per_s", json_real(samples));
    json_object_set_new(json, "tokens_per_s", json_real(samples * (double)plan->model->seq));
    json_object_set_new(json, "tflops_per_device", json_real(tflops));
    json_object_set_new(json, "causal_tflops_per_device",
                        json_real(prediction_causal_tflops(prediction)));
    json_object_set_new(json, "logged_tflops_per_device",
                        json_real(prediction_logged_tflops(prediction)));
    json_object_set_new(json, "share_of_peak", peak > 0 ? json_real(tflops / peak) : json_null());
    json_object_set_new(json, "fits", json_boolean(prediction->fits));
}

static void set_simulation(json_t *json, const struct prediction *prediction)
{
    json_object_set_new(json, "folded", json_boolean(prediction->graph->folded));
    json_object_set_new(json, "folded_unalike", json_boolean(prediction->folded_unalike));
    if (prediction->graph->plan != prediction->plan)
        json_object_set_new(json, "simulated_micro_batches",
                            integer(plan_micro_batches(prediction->graph->plan)));
    if (prediction->graph->sends_apart)
        json_object_set_new(json, "sends_apart", json_true());
    json_object_set_new(json, "tasks", integer(prediction->graph->tasks));
    json_object_set_new(json, "events", integer(prediction->result.events));
    json_object_set_new(json, "compile_s", json_real(prediction->compile_s));
    json_object_set_new(json, "simulate_s", json_real(prediction->simulate_s));
    json_object_set_new(json, "wall_s", json_real(prediction->compile_s + prediction->simulate_s));
}

json_t *prediction_json(const struct prediction *prediction)
{
    const char *path = prediction->critical_path;
    json_t *json = plan_json(prediction->plan);
    set_rates(json, prediction);
    json_object_set_new(json, "breakdown", times_json(&prediction->stage[prediction->busiest]));
    json_object_set_new(json, "busiest_stage", integer(prediction->busiest));
    json_object_set_new(json, "critical_path", path ? json_text(path) : json_null());
    json_object_set_new(json, "stages", stages_json(prediction));
    if (prediction->plan->cluster->pools)
        json_object_set_new(json, "pools", pools_json(prediction));
    json_object_set_new(json, "memory", memory_json(prediction));
    json_object_set_new(json, "peak_holdings", holdings_json(prediction));
    json_object_set_new(json, "reliance", reliance_json(prediction));
    set_simulation(json, prediction);
    return json;
}
