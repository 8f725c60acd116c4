/* measured.c - reads a measured trace and compares it with a prediction, task by task (measured.h). */
#include "report/report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading --------------------------------------------------------------------------------- */

struct event {
    int64_t step, begin_ns, end_ns;
    int32_t task;
};
struct events {
    struct event *data;
    size_t len, cap;
};

static const char HINT[] = "write it with `weft train PLAN --trace`, and name the same plan";

static weft_status read_event(struct arena *scratch, const char *path, json_t *json,
                              const struct prediction *prediction, struct events *out)
{
    const char *kind = json_string_value(json_object_get(json, "ph"));
    json_t *args = json_object_get(json, "args");
    json_t *step = json_object_get(args, "step"), *task = json_object_get(args, "task");
    if (!kind || strcmp(kind, "X") != 0 || !json_is_integer(step) || !json_is_integer(task))
        return WEFT_OK;
    int64_t number = json_integer_value(task);
    double begin_us = json_number_value(json_object_get(json, "ts"));
    double took_us = json_number_value(json_object_get(json, "dur"));
    const char *name = json_string_value(json_object_get(json, "name"));
    const struct graph *graph = prediction->graph;
    if (number < 0 || number >= graph->tasks || !name ||
        strcmp(name, task_label(prediction, &graph->task[number]).s) != 0) /* I1 */
        return bad_input(path, 0, HINT, "is of another plan: task %lld is '%s', expected '%s'",
                         (long long)number, name ? name : "",
                         number >= 0 && number < graph->tasks
                             ? task_label(prediction, &graph->task[number]).s
                             : "a lower number");
    if (!(begin_us >= 0 && begin_us < 1e15 && took_us >= 0 && took_us < 1e15))
        return bad_input(path, 0, HINT, "has a task at %g us for %g us", begin_us, took_us);
    struct event event = {json_integer_value(step), (int64_t)(begin_us * 1e3), 0, (int32_t)number};
    event.end_ns = event.begin_ns + (int64_t)(took_us * 1e3);
    array_push(scratch, out, event);
    return WEFT_OK;
}

static int by_step(const void *a, const void *b)
{
    const struct event *x = a, *y = b;
    return x->step != y->step ? (x->step > y->step) - (x->step < y->step)
                              : (x->task > y->task) - (x->task < y->task);
}

static weft_status load_trace(const char *path, json_t **out)
{
    json_error_t error;
    *out = json_load_file(path, 0, &error);
    if (!*out && error.line <= 0)
        return bad_input(path, 0, HINT, "cannot be opened: %s", strerror(errno));
    return *out ? WEFT_OK : bad_input(path, error.line, HINT, "is no JSON: %s", error.text);
}

static weft_status read_events(struct arena *scratch, const char *path,
                               const struct prediction *prediction, struct events *out)
{
    json_t *root = NULL, *json;
    size_t i;
    weft_status status;
    TRY(load_trace(path, &root));
    json_array_foreach(json_object_get(root, "traceEvents"), i, json)
        TRY(read_event(scratch, path, json, prediction, out));
    if (out->len == 0)
        TRY(bad_input(path, 0, HINT, "has no tasks of a run"));
    qsort(out->data, out->len, sizeof *out->data, by_step);
done:
    json_decref(root);
    return status;
}

/* What overlapped in the run, of what the plan says; traces that do not say it leave the plan as it is. */
static weft_status take_overlap(const char *path, const json_t *facts, struct plan *plan)
{
    const char *words = json_string_value(json_object_get(facts, "overlap"));
    struct arena *scratch = arena_new();
    char *rest = words ? arena_copy_text(scratch, words) : NULL;
    unsigned bits = words ? 0 : plan->overlap;
    weft_status status = WEFT_OK;
    for (const char *word; (word = strsep(&rest, ",")) != NULL;)
        if (!overlap_from_name(word, &bits))
            TRY(bad_input(path, 0, HINT, "was run with an overlap of '%s', which there is not",
                          word));
    plan->overlap &= bits;
done:
    arena_free(scratch);
    return status;
}

weft_status take_run_facts(const char *path, struct plan *plan)
{
    json_t *root = NULL;
    enum policy policy = plan->policy;
    weft_status status;
    TRY(load_trace(path, &root));
    json_t *facts = json_object_get(root, "otherData");
    const char *software = json_string_value(json_object_get(facts, "software"));
    const char *name = json_string_value(json_object_get(facts, "policy"));
    if (name && !policy_from_name(name, &policy))
        TRY(bad_input(path, 0, HINT, "was run with a policy '%s', which there is not", name));
    if (plan->policy == policy_for(plan->dtype))
        plan->policy = policy;
    if (software && software_is_default(&plan->software))
        TRY(software_from_text(software, &plan->software));
    TRY(take_overlap(path, facts, plan));
done:
    json_decref(root);
    return status;
}

/* ---- one step -------------------------------------------------------------------------------- */

/* The figures of a step, in seconds: T, then one per purpose, then the compute stream of each stage. */
enum { FIGURE_ITERATION, FIGURE_PURPOSE, FIGURE_STAGE = FIGURE_PURPOSE + PURPOSE_COUNT };

static void add_task(const struct prediction *prediction, int32_t number, double seconds,
                     double *figure)
{
    const struct graph *graph = prediction->graph;
    const struct task *task = &graph->task[number];
    int32_t stage = graph->device[task->device].stage;
    figure[FIGURE_PURPOSE + (int)task_counts_as(task)] += seconds / graph->devices; /* I2 */
    if (task->stream == STREAM_COMPUTE)
        figure[FIGURE_STAGE + stage] += seconds / (double)prediction->plan->stage[stage].devices;
}

/* Adds the events of one step, which are sorted by task; `took` has an entry for each task of the graph. */
static void add_step(const struct prediction *prediction, const struct event *event, size_t count,
                     double *figure, double *took)
{
    int64_t first_ns = INT64_MAX, last_ns = 0;
    for (size_t i = 0; i < count;) {
        int64_t begin_ns = 0, end_ns = 0;
        int32_t task = event[i].task;
        for (; i < count && event[i].task == task; i++) {
            begin_ns = event[i].begin_ns > begin_ns ? event[i].begin_ns : begin_ns;
            end_ns = event[i].end_ns > end_ns ? event[i].end_ns : end_ns;
            first_ns = event[i].begin_ns < first_ns ? event[i].begin_ns : first_ns;
        }
        last_ns = end_ns > last_ns ? end_ns : last_ns;
        took[task] = (double)(end_ns - begin_ns) * 1e-9; /* (1) */
        add_task(prediction, task, took[task], figure);
    }
    figure[FIGURE_ITERATION] = (double)(last_ns - first_ns) * 1e-9; /* (2) */
}

/* ---- all steps ------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of column `figure` over the rows from `from` to before `rows`. */
static double median_of(struct arena *scratch, const double *table, size_t columns, size_t figure,
                        size_t from, size_t rows)
{
    size_t count = rows - from;
    double *values = ARENA_ARRAY(scratch, double, count);
    for (size_t i = 0; i < count; i++)
        values[i] = table[(from + i) * columns + figure];
    qsort(values, count, sizeof *values, by_value);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static size_t steps_in(const struct events *events)
{
    size_t steps = 1;
    for (size_t i = 1; i < events->len; i++)
        steps += events->data[i].step != events->data[i - 1].step;
    return steps;
}

static double *figures_of_steps(struct arena *scratch, const struct prediction *prediction,
                                const struct events *events, size_t columns, double *took)
{
    double *table = ARENA_ARRAY(scratch, double, steps_in(events) * columns);
    size_t tasks = (size_t)prediction->graph->tasks;
    for (size_t i = 0, row = 0, end; i < events->len; i = end, row++) {
        for (end = i; end < events->len && events->data[end].step == events->data[i].step;)
            end++;
        add_step(prediction, &events->data[i], end - i, table + row * columns, took + row * tasks);
    }
    return table;
}

static double *figures_predicted(struct arena *scratch, const struct prediction *prediction,
                                 size_t columns)
{
    double *figure = ARENA_ARRAY(scratch, double, columns);
    const struct engine_result *result = &prediction->result;
    for (int32_t i = 0; i < prediction->graph->tasks; i++)
        add_task(prediction, i, (double)(result->end_ns[i] - result->start_ns[i]) * 1e-9, figure);
    figure[FIGURE_ITERATION] = (double)prediction->iteration_ns * 1e-9;
    return figure;
}

/* Predicted times are whole nanoseconds: what rounding leaves between sums of them is nothing. */
static double whole_ns(double seconds)
{
    return rint(seconds * 1e9) * 1e-9 + 0.0; /* no zero with a sign */
}

static struct measured_pair rest_of(struct measured_pair whole, struct measured_pair part)
{
    return (struct measured_pair){whole.measured_s - part.measured_s,
                                  whole_ns(whole.predicted_s - part.predicted_s)};
}

/* ---- what differs most ----------------------------------------------------------------------- */

/* The operator that a task of a block begins with; NULL: it has none. */
static const char *first_operator(struct arena *scratch, const struct graph *graph,
                                  const struct task *task)
{
    if (task->block < 0)
        return NULL;
    const struct block *block = &graph->block[task->block];
    for (int32_t i = task->first_item; i < task->first_item + task->items && i < block->items; i++)
        if (block->item[i].kind == ITEM_OP)
            return plan_path(scratch, graph->plan, block->item[i].instance);
    return NULL;
}

/* "forward from layers.0.attn.qkv on, stage 0", "gradients: all-reduce, stage 1" */
static const char *kind_of_task(struct arena *keep, const struct graph *graph,
                                const struct task *task)
{
    const char *purpose = purpose_name(task_counts_as(task));
    const char *operator= task->exchange<0 ? first_operator(keep, graph, task) : NULL;
    int32_t stage = graph->device[task->device].stage;
    if (operator)
        return arena_printf(keep, "%s from %s on, stage %d", purpose, operator, stage);
    return task->exchange < 0
               ? arena_printf(keep, "%s, stage %d", purpose, stage)
               : arena_printf(keep, "%s: %s, stage %d", purpose,
                              exchange_name(&graph->exchange[task->exchange]), stage);
}

static struct measured_difference *difference_of(struct measured_difference *known, int64_t *count,
                                                 const char *what)
{
    for (int64_t i = 0; i < *count; i++)
        if (strcmp(known[i].what, what) == 0)
            return &known[i];
    known[*count] = (struct measured_difference){.what = what};
    return &known[(*count)++];
}

static int by_difference(const void *a, const void *b)
{
    const struct measured_difference *x = a, *y = b;
    return (x->share < y->share) - (x->share > y->share);
}

static void find_differences(struct arena *keep, struct arena *scratch,
                             const struct prediction *prediction, struct overlay *o)
{
    const struct graph *graph = prediction->graph;
    const struct engine_result *result = &prediction->result;
    struct measured_difference *all =
        ARENA_ARRAY(scratch, struct measured_difference, (size_t)graph->tasks + 1);
    int64_t count = 0;
    double sum = 0;
    for (int32_t i = 0; i < graph->tasks; i++) {
        int32_t stage = graph->device[graph->task[i].device].stage;
        double devices = (double)prediction->plan->stage[stage].devices; /* I2 */
        struct measured_difference *d =
            difference_of(all, &count, kind_of_task(keep, graph, &graph->task[i]));
        d->tasks++;
        d->time.measured_s += o->task_s[i] / devices;
        d->time.predicted_s += (double)(result->end_ns[i] - result->start_ns[i]) * 1e-9 / devices;
    }
    for (int64_t i = 0; i < count; i++) {
        all[i].share = fabs(all[i].time.measured_s - all[i].time.predicted_s);
        sum += all[i].share;
    }
    qsort(all, (size_t)count, sizeof *all, by_difference);
    o->differences = (int32_t)(count < MOST_DIFFERENCES ? count : MOST_DIFFERENCES);
    o->difference = ARENA_ARRAY(keep, struct measured_difference, MOST_DIFFERENCES);
    for (int32_t i = 0; i < o->differences; i++) {
        o->difference[i] = all[i];
        o->difference[i].share = sum > 0 ? all[i].share / sum : 0;
    }
}

weft_status overlay_read(struct arena *keep, const char *path, const struct prediction *prediction,
                         struct overlay *out)
{
    struct arena *scratch = arena_new();
    const struct plan *plan = prediction->plan;
    size_t columns = FIGURE_STAGE + (size_t)plan->stages;
    struct events events = {0};
    weft_status status;
    TRY(read_events(scratch, path, prediction, &events));
    size_t rows = steps_in(&events), from = rows > 1, tasks = (size_t)prediction->graph->tasks;
    double *took = ARENA_ARRAY(scratch, double, rows *tasks);
    double *task_s = ARENA_ARRAY(keep, double, tasks);
    double *table = figures_of_steps(scratch, prediction, &events, columns, took);
    double *predicted = figures_predicted(scratch, prediction, columns);
    struct measured_pair *pair = ARENA_ARRAY(scratch, struct measured_pair, columns);
    for (size_t c = 0; c < columns; c++)
        pair[c] =
            (struct measured_pair){median_of(scratch, table, columns, c, from, rows), predicted[c]};
    *out = (struct overlay){.plan = plan,
                            .steps = (int64_t)(rows - from),
                            .iteration = pair[FIGURE_ITERATION],
                            .task_s = task_s,
                            .stage = ARENA_ARRAY(keep, struct measured_stage, plan->stages)};
    for (size_t i = 0; i < tasks; i++)
        task_s[i] = median_of(scratch, took, tasks, i, from, rows);
    find_differences(keep, scratch, prediction, out);
    for (int p = 0; p < PURPOSE_COUNT; p++)
        out->purpose[p].time = pair[FIGURE_PURPOSE + p];
    for (int32_t i = 0; i < prediction->graph->tasks; i++)
        out->purpose[task_counts_as(&prediction->graph->task[i])].tasks++;
    for (int32_t s = 0; s < plan->stages; s++)
        out->stage[s] = (struct measured_stage){pair[FIGURE_STAGE + s],
                                                rest_of(out->iteration, pair[FIGURE_STAGE + s])};
done:
    arena_free(scratch);
    return status;
}

/* ---- telling --------------------------------------------------------------------------------- */

static double ratio_of(struct measured_pair pair)
{
    return pair.predicted_s > 0 ? pair.measured_s / pair.predicted_s : 0;
}

static void put_row(struct table *table, const char *what, const char *tasks,
                    struct measured_pair pair)
{
    table_cell(table, "%s", what);
    table_cell(table, "%s", tasks);
    table_cell(table, "%s", show_seconds(pair.measured_s * 1e9).s);
    table_cell(table, "%s", show_seconds(pair.predicted_s * 1e9).s);
    if (pair.predicted_s > 0)
        table_cell(table, "%.2f", ratio_of(pair));
    else
        table_cell(table, "%s", "");
}

static void print_differences(struct arena *scratch, const struct overlay *o, FILE *out)
{
    static const char *const HEADERS[] = {"what differs most, of one device", "tasks", "measured",
                                          "predicted", "of all that differs"};
    static const enum align ALIGNS[] = {ALIGN_LEFT, ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT,
                                        ALIGN_RIGHT};
    struct table *table = table_new(scratch, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    for (int32_t i = 0; i < o->differences; i++) {
        const struct measured_difference *d = &o->difference[i];
        table_cell(table, "%s", d->what);
        table_cell(table, "%lld", (long long)d->tasks);
        table_cell(table, "%s", show_seconds(d->time.measured_s * 1e9).s);
        table_cell(table, "%s", show_seconds(d->time.predicted_s * 1e9).s);
        table_cell(table, "%.0f %%", 100 * d->share);
    }
    fputc('\n', out);
    table_print(table, out);
}

void overlay_print(struct arena *scratch, const struct overlay *o, FILE *out)
{
    static const char *const HEADERS[] = {"of one device", "tasks", "measured", "predicted",
                                          "ratio"};
    static const enum align ALIGNS[] = {ALIGN_LEFT, ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT,
                                        ALIGN_RIGHT};
    struct table *table = table_new(scratch, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    for (int p = 0; p < PURPOSE_COUNT; p++)
        if (o->purpose[p].tasks)
            put_row(table, purpose_name((enum purpose)p),
                    arena_printf(scratch, "%lld", (long long)o->purpose[p].tasks),
                    o->purpose[p].time);
    table_rule(table);
    for (int32_t s = 0; s < o->plan->stages; s++) {
        put_row(table, arena_printf(scratch, "stage %d computes", s), "", o->stage[s].compute);
        put_row(table, arena_printf(scratch, "stage %d waits", s), "", o->stage[s].waits);
    }
    table_rule(table);
    put_row(table, "iteration", "", o->iteration);
    plan_heading(scratch, o->plan, out);
    table_print(table, out);
    fprintf(out, "\nmedian of %lld step%s; ratio: measured over predicted\n", (long long)o->steps,
            o->steps == 1 ? "" : "s");
    print_differences(scratch, o, out);
}

static json_t *pair_json(struct measured_pair pair)
{
    json_t *json = json_object();
    json_object_set_new(json, "measured_s", json_real(pair.measured_s));
    json_object_set_new(json, "predicted_s", json_real(pair.predicted_s));
    json_object_set_new(json, "ratio",
                        pair.predicted_s > 0 ? json_real(ratio_of(pair)) : json_null());
    return json;
}

json_t *overlay_json(const struct overlay *o)
{
    json_t *json = json_object(), *purposes = json_object(), *stages = json_array();
    for (int p = 0; p < PURPOSE_COUNT; p++) {
        json_t *purpose = pair_json(o->purpose[p].time);
        json_object_set_new(purpose, "tasks", json_integer(o->purpose[p].tasks));
        json_object_set_new(purposes, purpose_name((enum purpose)p), purpose);
    }
    for (int32_t s = 0; s < o->plan->stages; s++) {
        json_t *stage = json_object();
        json_object_set_new(stage, "compute", pair_json(o->stage[s].compute));
        json_object_set_new(stage, "waits", pair_json(o->stage[s].waits));
        json_array_append_new(stages, stage);
    }
    json_object_set_new(json, "steps", json_integer(o->steps));
    json_object_set_new(json, "iteration", pair_json(o->iteration));
    json_object_set_new(json, "purposes", purposes);
    json_object_set_new(json, "stages", stages);
    json_t *differences = json_array();
    for (int32_t k = 0; k < o->differences; k++) {
        json_t *one = pair_json(o->difference[k].time);
        json_object_set_new(one, "what", json_string(o->difference[k].what));
        json_object_set_new(one, "tasks", json_integer(o->difference[k].tasks));
        json_object_set_new(one, "share", json_real(o->difference[k].share));
        json_array_append_new(differences, one);
    }
    json_object_set_new(json, "differences", differences);
    return json;
}
