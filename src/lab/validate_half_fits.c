/* validate_half_fits.c - `weft validate --refit`: what a user with half of a system's runs gets of `weft fit --runs`.
 *
 * A system is one source's runs on one kind of device. Its runs in the half to fit are given to runs_fit (runs/run_fit.c), as
 * the command gives a file's. If that says that the values help, the other half is simulated with them.
 *
 *   I1  The half that is held out has no part in the values, nor in whether they are taken.
 *   I2  Values that do not help are not taken: the error is then the shipped one.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lab/validate.h"

/* ---- runs of one system ------------------------------------------------------------------------ */

static bool same_system(const struct half_fit *system, const struct refit_run *run)
{
    return system->dataset == run->row->dataset && strcmp(system->device, run->device) == 0;
}

static struct half_fit *system_of(struct arena *keep, const struct refit_run *run,
                                  struct half_fits *out)
{
    for (size_t i = 0; i < out->len; i++)
        if (same_system(&out->data[i], run))
            return &out->data[i];
    array_push(keep, out, ((struct half_fit){.dataset = run->row->dataset, .device = run->device}));
    return &out->data[out->len - 1];
}

/* Opens the plans of a system's runs of one half. */
static weft_status open_half(struct arena *keep, const struct refit_runs *runs,
                             const struct half_fit *system, enum half half, struct run_cases *out)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < runs->len && !status; i++) {
        struct published *row = runs->data[i].row;
        struct run_case one = {0};
        if (!same_system(system, &runs->data[i]) || row->half != half)
            continue;
        one.run = ARENA_ARRAY(keep, struct user_run, 1);
        *one.run = (struct user_run){.measured.time_s = row->measured.time_s};
        status = published_plan(keep, row, &one.opened);
        if (!status)
            array_push(keep, out, one);
    }
    return status;
}

/* ---- fitting and holding against the other half --------------------------------------------------- */

/* The mean absolute error with these paces. */
static weft_status mean_error(const struct run_cases *cases, const struct paces *paces, double *out)
{
    double sum = 0;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < cases->len; i++) {
        double time_s;
        TRY(run_case_time(&cases->data[i], paces, &time_s));
        sum += fabs(time_s / cases->data[i].run->measured.time_s - 1);
    }
    *out = cases->len ? sum / (double)cases->len : 0;
done:
    return status;
}

static weft_status fit_system(struct arena *keep, const struct refit_runs *runs,
                              struct half_fit *system)
{
    struct run_cases half[HALF_COUNT] = {{0}};
    weft_status status = WEFT_OK;
    for (int h = 0; h < HALF_COUNT; h++)
        TRY(open_half(keep, runs, system, (enum half)h, &half[h]));
    system->possible = half[HALF_FIT].len >= LEAST_RUNS;
    TRY(mean_error(&half[HALF_HELD_OUT], &(struct paces){{0}}, &system->before));
    system->after = system->before;
    if (!system->possible)
        goto done;
    TRY(runs_fit(&half[HALF_FIT], &system->fit));
    if (!system->fit.helps) /* I2 */
        goto done;
    struct paces found = run_fit_paces(&system->fit);
    TRY(mean_error(&half[HALF_HELD_OUT], &found, &system->after));
done:
    for (int h = 0; h < HALF_COUNT; h++)
        run_cases_close(&half[h]);
    return status;
}

weft_status half_fits_make(struct arena *keep, const struct refit_runs *runs, struct half_fits *out)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < runs->len; i++)
        system_of(keep, &runs->data[i], out)->runs[runs->data[i].row->half]++;
    for (size_t i = 0; i < out->len && !status; i++)
        status = fit_system(keep, runs, &out->data[i]);
    return status;
}

/* ---- printing ----------------------------------------------------------------------------------- */

static const char *verdict(const struct half_fit *system)
{
    return !system->possible                        ? "too few runs"
           : system->fit.helps                      ? "taken"
           : system->fit.apart < system->fit.before ? "not sure enough"
                                                    : "no better";
}

void half_fits_print(const struct validation *v)
{
    static const char *const HEADERS[] = {"fitted by half", "device",   "runs",   "apart",
                                          "values",         "held out", "before", "after"};
    static const enum align ALIGNS[] = {ALIGN_LEFT, ALIGN_LEFT,  ALIGN_RIGHT, ALIGN_RIGHT,
                                        ALIGN_LEFT, ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT};
    struct table *table = table_new(v->arena, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    for (size_t i = 0; i < v->half_fits.len; i++) {
        const struct half_fit *system = &v->half_fits.data[i];
        table_cell(table, "%s", system->dataset->name);
        table_cell(table, "%s", system->device);
        table_cell(table, "%lld", (long long)system->runs[HALF_FIT]);
        if (system->possible)
            table_cell(table, "%.1f of %.1f", system->fit.apart * 100, system->fit.before * 100);
        else
            table_cell(table, "%s", "");
        table_cell(table, "%s", verdict(system));
        table_cell(table, "%lld", (long long)system->runs[HALF_HELD_OUT]);
        table_cell(table, "%.1f", system->before * 100);
        table_cell(table, "%.1f", system->after * 100);
    }
    putchar('\n');
    table_print(table, stdout);
    puts("\nWhat `weft fit --runs` says of each system's runs in the half to fit: errors of runs "
         "that had no part in the values,\nof those with Weft's own numbers, in %, and whether "
         "the values are taken; and the errors of the half held out without\nand with them.");
}

json_t *half_fits_json(const struct validation *v, const struct dataset *dataset)
{
    json_t *list = json_array();
    for (size_t i = 0; i < v->half_fits.len; i++) {
        const struct half_fit *system = &v->half_fits.data[i];
        if (system->dataset != dataset)
            continue;
        json_t *json = json_pack(
            "{s:o, s:I, s:I, s:s, s:f, s:f}", "device", json_text(system->device), "runs",
            (json_int_t)system->runs[HALF_FIT], "held_out", (json_int_t)system->runs[HALF_HELD_OUT],
            "values", verdict(system), "before", system->before, "after", system->after);
        json_array_append_new(list, json);
    }
    return list;
}
