/* days_show.c - the answer of `weft days` in words and as JSON (days.h). */
#include <math.h>
#include <stdio.h>

#include "cli/days.h"

static const double SECONDS_PER_DAY = 86400, NS = 1e9;

static double days(double seconds)
{
    return seconds / SECONDS_PER_DAY;
}

/* How many decimals of days show a run: one of ten days and more, and of shorter ones three digits. */
static int decimals_of(double all_s)
{
    int decimals = 1;
    for (double d = days(all_s); d > 0 && d < 9.995 && decimals < 6; d *= 10)
        decimals++;
    return decimals;
}

static void print_parts(struct arena *scratch, const struct expectation *e, FILE *out)
{
    int decimals = decimals_of(e->all_s) + 1;
    static const char *const HEADERS[] = {"", "days", "share"};
    static const enum align ALIGNS[] = {ALIGN_LEFT, ALIGN_RIGHT, ALIGN_RIGHT};
    struct table *table = table_new(scratch, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    for (int i = 0; i < OUTLAY_COUNT; i++) {
        table_cell(table, "%s", outlay_name((enum outlay)i));
        table_cell(table, "%.*f", decimals, days(e->part_s[i]));
        table_cell(table, "%.1f %%", 100 * e->part_s[i] / e->all_s);
    }
    table_rule(table);
    table_cell(table, "all");
    table_cell(table, "%.*f", decimals, days(e->all_s));
    table_cell(table, "100.0 %%");
    table_print(table, out);
}

static void print_failures(const struct days_answer *a, FILE *out)
{
    double mean = mean_time_to_failure(&a->course);
    if (isinf(mean)) {
        fprintf(out, "failures     none\n");
        return;
    }
    fprintf(out, "failures     one in %s, %s in all%s%s\n", show_duration(mean * NS).s,
            show_count(a->expected.failures).s, a->preset ? "; " : "",
            a->preset ? a->preset->source : "");
    fprintf(out, "spares       %lld, %.1f in repair in the mean\n", (long long)a->course.spares,
            (a->course.losses_per_s + a->course.stragglers_per_s) * a->course.repair_s);
}

static void print_saving(const struct days_answer *a, FILE *out)
{
    const struct course *c = &a->course;
    fprintf(out, "checkpoint   %s, %s at %s: stands still %s", show_bytes(a->saved_bytes).s,
            saving_name(a->saving), show_rate(a->storage_bytes_per_s).s,
            show_duration(c->save_s * NS).s);
    if (c->lag_s > 0)
        fprintf(out, ", complete %s later", show_duration(c->lag_s * NS).s);
    fprintf(out, "\n             every %s, %s", show_duration(a->expected.interval_s * NS).s,
            counted(llround(a->iterations / (double)a->expected.checkpoints), "iteration").s);
    if (!isinf(mean_time_to_failure(c)))
        fprintf(out, "; best: Young %s, Daly %s, exact %s", show_duration(interval_young(c) * NS).s,
                show_duration(interval_daly(c) * NS).s, show_duration(interval_exact(c) * NS).s);
    fputc('\n', out);
}

static void print_bill(const struct days_answer *a, FILE *out)
{
    fprintf(out, "devices      %s device-hours, spares included\n",
            show_count(a->bill.device_hours).s);
    if (a->bill.money > 0)
        fprintf(out, "money        %s at %.2f per device-hour: %s\n", show_count(a->bill.money).s,
                a->tariff.price_per_hour, a->tariff.price_source);
    if (a->bill.kwh > 0)
        fprintf(out, "energy       %s at most, %.0f W per device: %s\n",
                show_energy(1000 * a->bill.kwh).s, a->tariff.watts, a->tariff.watts_source);
}

static void print_elastic(const struct days_answer *a, FILE *out)
{
    if (a->elastic.asked && !a->elastic.plan)
        fprintf(out,
                "elastic      no plan can be made on fewer nodes: the run waits for a repair\n");
    if (!a->elastic.plan)
        return;
    fprintf(out,
            "elastic      on %s %s an iteration: %s\n"
            "             a switch takes %s and loses nothing (weft train --resume)\n",
            counted(a->elastic.nodes, "node").s, show_seconds((double)a->elastic.iteration_ns).s,
            a->elastic.plan, show_duration(a->elastic.switch_s * NS).s);
}

void days_print(struct arena *scratch, const struct days_answer *a, FILE *out)
{
    const struct expectation *e = &a->expected;
    int decimals = decimals_of(e->all_s);
    plan_heading(scratch, a->plan, out);
    fprintf(out, "%.*f days, %.1f %% effective: %s of %s\n\n", decimals, days(e->all_s),
            100 * a->course.work_s / e->all_s, counted(llround(a->iterations), "iteration").s,
            show_seconds((double)a->iteration_ns).s);
    print_parts(scratch, e, out);
    fputc('\n', out);
    if (a->trials)
        fprintf(out, "played out   %.*f +- %.*f days in %s; 5 %% below %.*f, 5 %% above %.*f\n",
                decimals, days(a->walked.mean_s), decimals + 1, days(a->walked.error_s),
                counted(a->trials, "trial").s, decimals, days(a->walked.p5_s), decimals,
                days(a->walked.p95_s));
    print_failures(a, out);
    print_saving(a, out);
    print_elastic(a, out);
    print_bill(a, out);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *parts_json(const struct expectation *e)
{
    static const char *const KEYS[] = {"computing", "slow",       "checkpoints", "again",
                                       "noticing",  "restarting", "waiting"};
    _Static_assert(COUNT_OF(KEYS) == OUTLAY_COUNT, "an outlay without a key");
    json_t *parts = json_object();
    for (int i = 0; i < OUTLAY_COUNT; i++)
        json_object_set_new(parts, KEYS[i], json_real(days(e->part_s[i])));
    return parts;
}

/* Without failures there is no best interval, and JSON has no infinity. */
static json_t *finite_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *days_json(const struct days_answer *a)
{
    const struct course *c = &a->course;
    json_t *json =
        json_pack("{s:f, s:f, s:f, s:f, s:o, s:f, s:o, s:I}", "days", days(a->expected.all_s),
                  "effective", c->work_s / a->expected.all_s, "iterations", a->iterations,
                  "iteration_s", (double)a->iteration_ns / NS, "parts", parts_json(&a->expected),
                  "failures", a->expected.failures, "mttf_s",
                  finite_or_null(mean_time_to_failure(c)), "spares", (json_int_t)c->spares);
    json_object_set_new(
        json, "checkpoint",
        json_pack("{s:s, s:f, s:f, s:f, s:f, s:I, s:f, s:o, s:o, s:o}", "saving",
                  saving_name(a->saving), "bytes", a->saved_bytes, "stands_still_s", c->save_s,
                  "lag_s", c->lag_s, "load_s", c->load_s, "count",
                  (json_int_t)a->expected.checkpoints, "interval_s", a->expected.interval_s,
                  "young_s", finite_or_null(interval_young(c)), "daly_s",
                  finite_or_null(interval_daly(c)), "exact_s", finite_or_null(interval_exact(c))));
    json_object_set_new(json, "bill",
                        json_pack("{s:f, s:f, s:f, s:f, s:f}", "device_hours", a->bill.device_hours,
                                  "money", a->bill.money, "kwh", a->bill.kwh, "price_per_hour",
                                  a->tariff.price_per_hour, "watts", a->tariff.watts));
    if (a->trials)
        json_object_set_new(json, "played_out",
                            json_pack("{s:I, s:f, s:f, s:f, s:f}", "trials", (json_int_t)a->trials,
                                      "mean_days", days(a->walked.mean_s), "error_days",
                                      days(a->walked.error_s), "p5_days", days(a->walked.p5_s),
                                      "p95_days", days(a->walked.p95_s)));
    if (a->elastic.plan)
        json_object_set_new(json, "elastic",
                            json_pack("{s:s, s:I, s:f, s:f, s:f}", "plan", a->elastic.plan, "nodes",
                                      (json_int_t)a->elastic.nodes, "iteration_s",
                                      (double)a->elastic.iteration_ns / NS, "slower", c->one_less,
                                      "switch_s", a->elastic.switch_s));
    return json;
}
