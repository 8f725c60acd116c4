/* validate_refit.c - `weft validate --refit`: what the parameters of a device would be, and predictions worth, without the
 * runs in question.
 *
 * The parameters are the paces of a device (cluster.h): of products, memory, links, network and host, beside the numbers
 * that ship. For each device they are fitted anew to its runs in the half to fit, by the equations of runs/run_fit.c, and
 * again without the runs of each model, machine and source. Runs that were left out are predicted by what the others found,
 *
 *   r = r(0) + S x                                                                             (1)
 *
 * with S by differences, so that every run is simulated six times and no more.
 *
 *   I1  Of the runs that a fit leaves out none counts in it, in whichever half: the half that is held out never counts.
 *   I2  A device of which too few runs are left is new: products take the mean share of their peak that the other
 *       devices of its architecture reach, by their own fits, and nothing else changes. The shipped share, which may
 *       rest on the runs left out, has no part in it. If there is no other device, its runs are not predicted.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cost/cost.h"
#include "lab/validate.h"

/* ---- simulations ------------------------------------------------------------------------------ */

static const struct refit_run *twin_of(const struct refit_runs *runs, const struct published *row)
{
    for (size_t i = 0; i < runs->len; i++)
        if (strcmp(runs->data[i].row->plan_file, row->plan_file) == 0)
            return &runs->data[i];
    return NULL;
}

static void take_device(struct arena *keep, const struct opened_plan *opened, struct refit_run *out)
{
    const struct device *device = &opened->cluster->node.device;
    out->device = arena_copy_text(keep, device->name);
    out->arch = arena_copy_text(keep, device->arch);
    out->parameters = model_totals(opened->model, DTYPE_FP16).parameters;
    out->share = device_product_flops(device, DTYPE_FP16) / device->flops[DTYPE_FP16];
}

static weft_status sense(struct arena *keep, struct refit_run *run, struct published *row)
{
    struct run_case one = {0};
    double time_s;
    weft_status status;
    TRY(published_plan(keep, row, &one.opened));
    take_device(keep, &one.opened, run);
    TRY(run_case_time(&one, &(struct paces){{0}}, &time_s));
    TRY(run_slopes(&one, &(struct paces){{0}}, time_s, run->slope));
done:
    plan_close(&one.opened);
    return status;
}

weft_status refit_sense(const struct validation *v, struct refit_runs *out)
{
    double error;
    for (size_t i = 0; i < v->rows.len; i++) {
        struct published *row = &v->rows.data[i];
        if (row->dataset->functional_tests || !published_error(row, MEASURE_TIME, &error))
            continue;
        const struct refit_run *twin = twin_of(out, row);
        struct refit_run run = twin ? *twin : (struct refit_run){0};
        weft_status status = twin ? WEFT_OK : sense(v->arena, &run, row);
        if (status)
            return status;
        run.row = row;
        run.error = log(row->measured.time_s / row->predicted.time_s);
        array_push(v->arena, out, run);
    }
    return WEFT_OK;
}

/* ---- who is left out --------------------------------------------------------------------------- */

/* Sources give one name to models of many sizes. */
static bool shares_model(const struct refit_run *a, const struct refit_run *b)
{
    static const double ALIKE = 0.02; /* of the parameters: vocabularies that are padded */
    return strcmp(a->row->model, b->row->model) == 0 &&
           fabs(a->parameters - b->parameters) <= ALIKE * b->parameters;
}

static bool shares_device(const struct refit_run *a, const struct refit_run *b)
{
    return strcmp(a->device, b->device) == 0;
}

static bool shares_source(const struct refit_run *a, const struct refit_run *b)
{
    return a->row->dataset == b->row->dataset;
}

static const struct {
    const char *key; /* in JSON */
    bool (*leaves_out)(const struct refit_run *a, const struct refit_run *b);
} WAYS[] = {
    [WITHOUT_MODEL] = {"without_model", shares_model},
    [WITHOUT_MACHINE] = {"without_machine", shares_device},
    [WITHOUT_SOURCE] = {"without_source", shares_source},
};
_Static_assert(COUNT_OF(WAYS) == WITHOUT_COUNT, "a way to leave out without a row");

/* ---- fits --------------------------------------------------------------------------------------- */

/* The paces of one device by its runs in the half to fit but for those that `way` leaves out with `without`, which may be
 * NULL. False if these are too few. */
static bool fit_device(struct arena *scratch, const struct refit_runs *runs,
                       const struct refit_run *device, const struct refit_run *without,
                       enum without way, struct refit_paces *out)
{
    double *error = ARENA_ARRAY(scratch, double, runs->len + 1);
    double *slope = ARENA_ARRAY(scratch, double, runs->len *PACE_COUNT + 1);
    struct linear_fit fit = {.error = error, .slope = slope};
    for (size_t i = 0; i < runs->len; i++) {
        const struct refit_run *run = &runs->data[i];
        if (!shares_device(run, device) || run->row->half != HALF_FIT ||
            (without && WAYS[way].leaves_out(run, without)))
            continue;
        memcpy(slope + fit.rows * PACE_COUNT, run->slope, sizeof run->slope);
        error[fit.rows++] = run->error;
    }
    memset(fit.open, true, sizeof fit.open);
    *out = (struct refit_paces){.device = device, .runs = (int64_t)fit.rows};
    if (fit.rows < LEAST_RUNS)
        return false;
    linear_solve_determined(&fit, ARENA_ARRAY(scratch, double, fit.rows + 1));
    memcpy(out->x, fit.x, sizeof out->x);
    memcpy(out->spread, fit.spread, sizeof out->spread);
    memcpy(out->taken, fit.open, sizeof out->taken);
    return true;
}

/* The first run of each device stands for it. */
static bool stands_for_device(const struct refit_runs *runs, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (shares_device(&runs->data[i], &runs->data[at]))
            return false;
    return true;
}

/* I2 */
static bool fit_neighbours(struct arena *scratch, const struct refit_runs *runs,
                           const struct refit_run *one, enum without way, struct refit_paces *out)
{
    double sum = 0, count = 0;
    for (size_t i = 0; i < runs->len; i++) {
        const struct refit_run *other = &runs->data[i];
        struct refit_paces paces;
        if (shares_device(other, one) || strcmp(other->arch, one->arch) != 0 ||
            !stands_for_device(runs, i) || !fit_device(scratch, runs, other, one, way, &paces))
            continue;
        sum += log(other->share) + paces.x[PACE_PRODUCTS];
        count++;
    }
    *out = (struct refit_paces){.device = one};
    if (count > 0)
        out->x[PACE_PRODUCTS] = sum / count - log(one->share);
    return count > 0;
}

bool refit_error(const struct refit_runs *runs, const struct refit_run *one, enum without way,
                 double *error)
{
    struct arena *scratch = arena_new();
    struct refit_paces paces;
    double r = one->error; /* (1) */
    bool known = fit_device(scratch, runs, one, one, way, &paces) ||
                 fit_neighbours(scratch, runs, one, way, &paces);
    for (int j = 0; j < PACE_COUNT; j++)
        r += one->slope[j] * paces.x[j];
    *error = exp(-r) - 1;
    arena_free(scratch);
    return known;
}

void refit_devices(struct arena *keep, const struct refit_runs *runs, struct refit_list *out)
{
    for (size_t i = 0; i < runs->len; i++) {
        struct refit_paces paces;
        if (stands_for_device(runs, i) &&
            fit_device(keep, runs, &runs->data[i], NULL, WITHOUT_MODEL, &paces))
            array_push(keep, out, paces);
    }
}

struct refit_sum refit_sum(const struct refit_runs *runs, const struct dataset *dataset)
{
    struct refit_sum sum = {0};
    double error;
    for (size_t i = 0; i < runs->len; i++) {
        const struct refit_run *run = &runs->data[i];
        if (dataset && run->row->dataset != dataset)
            continue;
        sum.runs++;
        sum.shipped += fabs(exp(-run->error) - 1);
        for (int w = 0; w < WITHOUT_COUNT; w++)
            if (refit_error(runs, run, (enum without)w, &error)) {
                sum.known[w]++;
                sum.error[w] += fabs(error);
                sum.bias[w] += error;
            }
    }
    return sum;
}

/* ---- printing ----------------------------------------------------------------------------------- */

static void print_devices(const struct validation *v)
{
    static const char *const HEADERS[] = {"refitted", "runs",    "products", "memory",
                                          "inside",   "between", "host"};
    static const enum align ALIGNS[] = {ALIGN_LEFT,  ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT,
                                        ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT};
    struct table *table = table_new(v->arena, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    struct refit_list list = {0};
    refit_devices(v->arena, &v->refit, &list);
    for (size_t i = 0; i < list.len; i++) {
        const struct refit_paces *paces = &list.data[i];
        table_cell(table, "%s", paces->device->device);
        table_cell(table, "%lld", (long long)paces->runs);
        for (int j = 0; j < PACE_COUNT; j++)
            if (paces->taken[j])
                table_cell(table, "%.2f ±%.2f", exp(paces->x[j]),
                           paces->spread[j] * exp(paces->x[j]));
            else
                table_cell(table, "%s", "");
    }
    putchar('\n');
    table_print(table, stdout);
    puts("\nHow many times as fast each part is as its shipped value, by the runs of the half to "
         "fit, with standard errors;\nempty where these runs do not determine it.");
}

static void add_line(struct table *table, const char *name, const struct refit_sum *sum)
{
    table_cell(table, "%s", name);
    table_cell(table, "%lld", (long long)sum->runs);
    table_cell(table, "%.1f", sum->shipped * 100 / (double)sum->runs);
    for (int w = 0; w < WITHOUT_COUNT; w++) {
        double known = (double)sum->known[w];
        if (sum->known[w]) {
            table_cell(table, "%.1f", sum->error[w] * 100 / known);
            table_cell(table, "%+.1f", sum->bias[w] * 100 / known);
        } else {
            table_cell(table, "%s", "");
            table_cell(table, "%s", "");
        }
    }
}

static void print_alone(const struct refit_sum *all)
{
    static const char *const WORDS[] = {"model", "device", "source"};
    _Static_assert(COUNT_OF(WORDS) == WITHOUT_COUNT, "a way to leave out without a word");
    for (int w = 0; w < WITHOUT_COUNT; w++)
        if (all->known[w] < all->runs)
            printf("Without their %s, %lld runs are not predicted: no other device of their "
                   "architecture has runs.\n",
                   WORDS[w], (long long)(all->runs - all->known[w]));
}

void refit_print(const struct validation *v)
{
    static const char *const HEADERS[] = {"left out",    "runs", "shipped",    "new model", "bias",
                                          "new machine", "bias", "new source", "bias"};
    static const enum align ALIGNS[] = {ALIGN_LEFT,  ALIGN_RIGHT, ALIGN_RIGHT,
                                        ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT,
                                        ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT};
    struct table *table = table_new(v->arena, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    struct refit_sum all = refit_sum(&v->refit, NULL);
    if (!all.runs)
        return;
    print_devices(v);
    for (size_t i = 0; i < v->datasets; i++) {
        struct refit_sum sum = refit_sum(&v->refit, v->dataset[i]);
        if (sum.runs)
            add_line(table, v->dataset[i]->name, &sum);
    }
    add_line(table, "all", &all);
    putchar('\n');
    table_print(table, stdout);
    puts("\nMean absolute errors of both halves in %: as shipped, and with each device refitted to "
         "runs of the half to fit\nbut for those of the same model, device or source. A device "
         "without three runs takes the mean of the others of its\narchitecture.");
    print_alone(&all);
}

json_t *refit_json(const struct validation *v, const struct dataset *dataset)
{
    struct refit_sum sum = refit_sum(&v->refit, dataset);
    json_t *json = json_pack("{s:I}", "runs", (json_int_t)sum.runs);
    if (sum.runs)
        json_object_set_new(json, "shipped", json_real(sum.shipped / (double)sum.runs));
    for (int w = 0; w < WITHOUT_COUNT; w++)
        if (sum.known[w])
            json_object_set_new(json, WAYS[w].key,
                                json_pack("{s:I, s:f, s:f}", "runs", (json_int_t)sum.known[w],
                                          "mean", sum.error[w] / (double)sum.known[w], "bias",
                                          sum.bias[w] / (double)sum.known[w]));
    return json;
}
