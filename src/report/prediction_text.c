/* prediction_text.c - a prediction for people: the answer first, then why.
 *
 * Parts of a sum are printed as differences of their rounded running sums,
 *
 *   shown_i = round(x_0 + ... + x_i) - round(x_0 + ... + x_i-1)                                (1)
 *
 * so that the numbers shown add up to the sum shown, and each is off by less than one unit of its
 * last digit (prediction.h, I2).
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/report.h"
#include "runs/runs.h"

const int BREAKDOWN[TIME_COUNT] = {
    PURPOSE_FORWARD,  PURPOSE_BACKWARD,  PURPOSE_RECOMPUTE, TIME_BUBBLE,
    PURPOSE_TENSOR,   PURPOSE_EXPERTS,   PURPOSE_CONTEXT,   PURPOSE_DATA,
    PURPOSE_PIPELINE, PURPOSE_OPTIMIZER, PURPOSE_OFFLOAD,
};

/* ---- text ------------------------------------------------------------------------------------ */

void print_wrapped(struct arena *scratch, const char *label, const char *text, FILE *out)
{
    size_t indent = text_columns(label), column = indent;
    fputs(label, out);
    for (const char *word = text + strspn(text, " "); *word; word += strspn(word, " ")) {
        size_t len = strcspn(word, " ");
        const char *copy = arena_copy_bytes(scratch, word, len);
        size_t width = text_columns(copy);
        if (column > indent && column + 1 + width > REPORT_COLUMNS) {
            fprintf(out, "\n%*s", (int)indent, "");
            column = indent;
        }
        fprintf(out, "%s%s", column > indent ? " " : "", copy);
        column += width + (column > indent);
        word += len;
    }
    fputc('\n', out);
}

/* ---- the answer ------------------------------------------------------------------------------ */

static double samples_per_s(const struct prediction *prediction)
{
    return (double)prediction->plan->global_batch / ((double)prediction->iteration_ns * 1e-9);
}

static void print_interval(struct arena *scratch, const struct prediction *prediction, FILE *out)
{
    struct interval interval;
    double ns = (double)prediction->iteration_ns;
    if (!plan_interval(prediction->plan, &interval))
        return;
    bool any = strcmp(interval.alike, "nothing") == 0;
    const char *text = arena_printf(
        scratch, "%s to %s in 8 of 10: %s %s%s, held out", show_seconds(ns * interval.low).s,
        show_seconds(ns * interval.high).s, counted(interval.runs, "run").s,
        any ? "of every kind" : "alike in ", any ? "" : interval.alike);
    print_wrapped(scratch, "how sure    ", text, out);
}

/* The share of a model's FLOPs that Winograd's algorithm computes with fewer multiplications than are counted: of
 * convolutions by 3 x 3 in steps of 1, where F(2 x 2) needs 2.25 times and F(4 x 4) 4 times fewer. */
static double winograd_share(const struct plan *plan)
{
    double all = 0, own = 0;
    for (int32_t i = 0; i < plan->model->ops; i++) {
        const struct op *op = &plan->model->op[i];
        double flops = op_totals(plan->model, op, plan->dtype).flops[PHASE_FORWARD];
        bool three = op->kind == OP_CONV && op->kernel[0] == 3 && op->kernel[1] == 3 &&
                     op->stride[0] == 1 && op->groups <= 1;
        all += flops;
        own += three ? flops : 0;
    }
    return all > 0 ? own / all : 0;
}

/* A share of the peak above all of it needs a reason. */
static void print_above_peak(struct arena *scratch, const struct plan *plan, FILE *out)
{
    double share = winograd_share(plan);
    if (share > 0)
        print_wrapped(scratch, "            ",
                      arena_printf(scratch,
                                   "more than the peak: %.0f %% of the FLOPs are counted of 3 x 3 "
                                   "convolutions, for which Winograd's algorithm, as measured, "
                                   "multiplies 2.25 to 4 times less",
                                   100 * share),
                      out);
}

/* "46.1 %", and of a model so small that it computes next to nothing "0.0034 %". */
static const char *share_text(struct arena *keep, double share)
{
    return arena_printf(keep, share < 0.001 ? "%.2g %%" : "%.1f %%", 100 * share);
}

/* Where the framework's log will say so, or where much of what is counted is not computed. */
static void print_causal(const struct prediction *prediction, FILE *out)
{
    const struct software *software = &prediction->plan->software;
    double share = prediction_causal_tflops(prediction) / prediction_tflops(prediction);
    bool logged = software_log_skips_masked(software);
    const struct software_profile *profile;
    software_profiles(&profile);
    if (share > (logged ? 0.995 : 0.9))
        return;
    fprintf(out, "            %s without what causal masks hide",
            show_flop_rate(1e12 * prediction_causal_tflops(prediction)).s);
    if (logged)
        fprintf(out, ", as %s logs it", profile[software->profile].name);
    fputc('\n', out);
}

static void print_answer(struct arena *scratch, const struct prediction *prediction, FILE *out)
{
    const struct plan *plan = prediction->plan;
    double flops = 1e12 * prediction_tflops(prediction), samples = samples_per_s(prediction);
    double peak = plan->cluster->node.device.flops[plan->dtype];
    fprintf(out, "iteration   %s: %s samples/s", show_seconds((double)prediction->iteration_ns).s,
            show_count(samples).s);
    if (plan->model->seq > 1)
        fprintf(out, ", %s tokens/s", show_count(samples * (double)plan->model->seq).s);
    fprintf(out, "\neach device %s", show_flop_rate(flops).s);
    if (peak > 0)
        fprintf(out, ", %s of the peak of %s (%s)", share_text(scratch, flops / peak),
                show_flop_rate(peak).s, plan->cluster->node.device.name);
    fputc('\n', out);
    print_causal(prediction, out);
    if (peak > 0 && flops > peak)
        print_above_peak(scratch, plan, out);
    print_interval(scratch, prediction, out);
    print_wrapped(scratch, "memory      ", memory_verdict(scratch, prediction), out);
}

/* ---- the breakdown --------------------------------------------------------------------------- */

/* For (1): the running sum, and how much of it has been shown. */
struct rounding {
    double sum, shown;
};

static double round_next(struct rounding *rounding, double value)
{
    double before = rounding->shown;
    rounding->sum += value;
    rounding->shown = round(rounding->sum);
    return rounding->shown - before;
}

/* How many decimals of seconds show five digits of the iteration; at most nine. */
static int decimals_for(int64_t iteration_ns)
{
    int decimals = 4;
    for (double s = (double)iteration_ns * 1e-9; s < 1 && decimals < 9; s *= 10)
        decimals++;
    return decimals;
}

static const char *blocks(struct arena *keep, double share)
{
    enum { BAR = 40 };
    const char *text = "";
    for (int i = 0; i + 0.5 < share * BAR; i++)
        text = arena_printf(keep, "%s█", text);
    return text;
}

static void breakdown_row(struct table *table, const char *name, double seconds, int decimals,
                          double tenths, const char *blocks_text)
{
    table_cell(table, "%s", name);
    table_cell(table, "%.*f s", decimals, seconds);
    table_cell(table, "%.1f %%", tenths / 10);
    table_cell(table, "%s", blocks_text);
}

/* For the stage that waits least; a purpose that takes no time gets no row. */
static void print_breakdown(struct arena *scratch, const struct prediction *prediction, FILE *out)
{
    const char *headers[] = {"where time goes", "", "", ""};
    static const enum align ALIGNS[] = {ALIGN_LEFT, ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_LEFT};
    const struct stage_prediction *stage = &prediction->stage[prediction->busiest];
    double whole = (double)prediction->iteration_ns;
    int decimals = decimals_for(prediction->iteration_ns);
    double unit_ns = pow(10, 9 - decimals);
    if (prediction->plan->stages > 1)
        headers[0] = arena_printf(scratch, "stage %d, which waits least", prediction->busiest);
    struct table *table = table_new(scratch, COUNT_OF(headers), headers, ALIGNS);
    struct rounding time = {0}, share = {0};
    table_rule(table);
    for (int i = 0; i < TIME_COUNT; i++) {
        double ns = (double)stage->time_ns[BREAKDOWN[i]];
        double units = round_next(&time, ns / unit_ns);
        double tenths = round_next(&share, 1000 * ns / whole);
        if (ns > 0)
            breakdown_row(table, time_name(BREAKDOWN[i]), units * unit_ns * 1e-9, decimals, tenths,
                          blocks(scratch, ns / whole));
    }
    table_rule(table);
    breakdown_row(table, "iteration", time.shown * unit_ns * 1e-9, decimals, share.shown, "");
    table_print(table, out);
}

/* ---- the peak -------------------------------------------------------------------------------- */

/* Such as "in B3": the slot of the schedule in which the stage's memory is fullest. */
static const char *slot_text(struct arena *keep, const struct plan *plan, int32_t stage,
                             int32_t slot)
{
    struct pipeline pipeline = plan_pipeline(plan);
    const struct schedule *schedule = plan_schedule(plan);
    struct slots slots = {0};
    if (schedule)
        schedule_order(schedule, &pipeline, stage, keep, &slots);
    if (slot < 0 || (size_t)slot >= slots.len)
        return "";
    return arena_printf(keep, ", in %s", slot_label(slots.data[slot], &pipeline).s);
}

static void holding_row(struct table *table, const char *what, const char *memory, int64_t bytes,
                        int64_t peak)
{
    table_cell(table, "%s", what);
    table_cell(table, "%s", memory);
    table_cell(table, "%s", show_bytes((double)bytes).s);
    table_cell(table, "%.1f %%", 100 * (double)bytes / (double)peak);
}

static void print_holdings(struct arena *scratch, const struct prediction *prediction, FILE *out)
{
    enum { MOST = 8 };
    static const char *const HEADERS[] = {"held at the peak", "memory", "bytes", "of it"};
    static const enum align ALIGNS[] = {ALIGN_LEFT, ALIGN_LEFT, ALIGN_RIGHT, ALIGN_RIGHT};
    int32_t stage = fullest_stage(prediction);
    const struct stage_peak *memory = &prediction->stage[stage].memory;
    if (memory->holdings == 0)
        return;
    fprintf(out, "\nstage %d is fullest %s into the iteration%s:\n\n", stage,
            show_seconds((double)memory->at_ns).s,
            memory->in_step ? ", in the optimizer's step"
                            : slot_text(scratch, prediction->graph->plan, stage, memory->slot));
    struct table *table = table_new(scratch, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    int64_t rest = memory->peak;
    table_rule(table);
    for (int32_t i = 0; i < memory->holdings && i < MOST; i++) {
        const struct holding *held = &memory->holding[i];
        holding_row(table, held->what, memory_class_name(held->memory), held->bytes, memory->peak);
        rest -= held->bytes;
    }
    if (rest > 0)
        holding_row(table, "everything else", "", rest, memory->peak);
    table_print(table, out);
}

/* ---- what it rests on ------------------------------------------------------------------------ */

static void print_reliance(struct arena *scratch, const struct prediction *prediction, FILE *out)
{
    static const char *const HEADERS[] = {"operators' time", "known", "source"};
    static const enum align ALIGNS[] = {ALIGN_RIGHT, ALIGN_LEFT, ALIGN_LEFT};
    struct table *table = table_new(scratch, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    if (prediction->reliances == 0)
        return;
    table_rule(table);
    for (int32_t i = 0; i < prediction->reliances; i++) {
        const struct reliance *reliance = &prediction->reliance[i];
        table_cell(table, "%.1f %%", 100 * reliance->share);
        table_cell(table, "%s", provenance_name(reliance->provenance));
        table_cell(table, "%s", reliance->source ? reliance->source : "");
    }
    fputc('\n', out);
    table_print(table, out);
}

static void print_size(const struct prediction *prediction, FILE *out)
{
    const struct graph *graph = prediction->graph;
    if (graph->plan != prediction->plan)
        fprintf(out, "\n%s are simulated, and continued: the others repeat them",
                counted(plan_micro_batches(graph->plan), "micro-batch").s);
    fprintf(out, "\n%s, %s; ", counted(graph->tasks, "task").s,
            counted((int64_t)prediction->result.events, "event").s);
    if (prediction->folded_unalike)
        fputs("folded: one device stands for its stage\n"
              "devices of a stage are not alike here and too many to simulate each: the slowest "
              "group stands for\nall of them\n",
              out);
    else if (graph->folded)
        fputs("folded: one device stands for its stage\n", out);
    else
        fprintf(out, "%s, each by itself\n", counted(graph->devices, "device").s);
}

const char *wall_clock_text(struct arena *keep, const struct prediction *prediction)
{
    return arena_printf(keep, "compiled in %s, simulated in %s",
                        show_duration(prediction->compile_s * 1e9).s,
                        show_duration(prediction->simulate_s * 1e9).s);
}

void prediction_print(struct arena *scratch, const struct prediction *prediction, FILE *out)
{
    plan_heading(scratch, prediction->plan, out);
    print_answer(scratch, prediction, out);
    fputc('\n', out);
    stage_times_print(scratch, prediction, out);
    fputc('\n', out);
    print_breakdown(scratch, prediction, out);
    if (prediction->critical_path) {
        fputc('\n', out);
        print_wrapped(scratch, "critical path: ", prediction->critical_path, out);
    }
    fputs("\nmemory of one device when it holds most:\n\n", out);
    stage_memory_print(scratch, prediction, out);
    print_holdings(scratch, prediction, out);
    print_reliance(scratch, prediction, out);
    print_size(prediction, out);
}
