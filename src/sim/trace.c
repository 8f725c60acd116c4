/* trace.c - a prediction as a trace that chrome://tracing and Perfetto read.
 *
 * A device is a process, each of its streams a thread. A task is a slice; the items of a block's
 * run are slices within it, operators below the task itself and steps on a track of their own. If
 * nothing disturbs the run (graph.h, I1), its item i is over at
 *
 *   e_i = max(e of the item before it in its lane, e of the item it needs) + lane_ns_i        (1)
 *
 * and a run that took D instead of max_i e_i is shown with all its times stretched evenly:
 *
 *   t -> start + t D / max_i e_i                                                              (2)
 *
 *   I1  Slices of a track are disjoint or nested; the outermost add up to the stream's busy_ns.
 *   I2  Times are exact: microseconds with three decimals.
 *   I3  At most one buffer is waiting to be written: the trace is never a tree in memory.
 *   I4  Measured tasks (trace_write_measured) look like predicted ones, without operators, and with
 *       a slice on every device that took part in an exchange, waiting included.
 *   I5  The file appears at once and complete; after an error any older file is still there.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/trace_words.h"

/* Names of colours that Chrome's viewer knows; Perfetto chooses by the slices' names. */
static const char *const COLOURS[] = {
    [PURPOSE_FORWARD] = "thread_state_running",
    [PURPOSE_BACKWARD] = "rail_response",
    [PURPOSE_RECOMPUTE] = "rail_animation",
    [PURPOSE_OPTIMIZER] = "olive",
    [PURPOSE_TENSOR] = "thread_state_iowait",
    [PURPOSE_EXPERTS] = "thread_state_uninterruptible",
    [PURPOSE_CONTEXT] = "rail_load",
    [PURPOSE_DATA] = "terrible",
    [PURPOSE_PIPELINE] = "yellow",
    [PURPOSE_OFFLOAD] = "grey",
};
_Static_assert(COUNT_OF(COLOURS) == PURPOSE_COUNT, "a purpose without a colour");

struct trace {
    FILE *file;
    struct arena *scratch;
    const struct prediction *prediction;
    const struct graph *graph;
    enum trace_detail detail;
    bool *shown;        /* per device of the graph */
    const char **path;  /* per instance: its path as a JSON string, NULL: not needed so far */
    int64_t *item_ends; /* (1), of one run at a time */
    int64_t arrows;
    const char *separator;
};

/* ---- how much is shown ----------------------------------------------------------------------- */

/* Whether a task is a run of items, not a single step that is a task because it may meet other
 * traffic. */
static bool has_items(const struct task *task)
{
    return task->block >= 0 && task->exchange < 0 && task->stream == STREAM_COMPUTE;
}

/* All devices, or the first one of every stage, in the order of the graph. */
static bool *shown_devices(struct arena *keep, const struct prediction *prediction, bool all)
{
    const struct graph *graph = prediction->graph;
    bool *shown = ARENA_ARRAY(keep, bool, (size_t)graph->devices);
    bool *seen = ARENA_ARRAY(keep, bool, (size_t)prediction->plan->stages);
    for (int32_t d = 0; d < graph->devices; d++) {
        shown[d] = all || !seen[graph->device[d].stage];
        seen[graph->device[d].stage] = true;
    }
    return shown;
}

static int64_t slices_of(const struct graph *graph, const bool *shown)
{
    int64_t slices = 0;
    for (int32_t i = 0; i < graph->tasks; i++) {
        const struct task *task = &graph->task[i];
        if (shown[task->device] && !task->idle)
            slices += 1 + (has_items(task) ? task->items : 0);
    }
    return slices;
}

enum trace_detail trace_detail(const struct prediction *prediction,
                               const struct trace_options *options)
{
    int64_t limit = options && options->events ? options->events : (int64_t)limit_of(LIMIT_TRACE);
    struct arena *scratch = arena_new();
    int detail = TRACE_ALL;
    while (detail < TRACE_TASKS &&
           slices_of(prediction->graph, shown_devices(scratch, prediction, detail == TRACE_ALL)) >
               limit)
        detail++;
    arena_free(scratch);
    return (enum trace_detail)detail;
}

/* ---- paths ----------------------------------------------------------------------------------- */

static const char *path_of(struct trace *trace, int64_t instance)
{
    if (!trace->path[instance])
        trace->path[instance] =
            trace_quoted(trace->scratch, plan_path(trace->scratch, trace->graph->plan, instance));
    return trace->path[instance];
}

/* ---- events ---------------------------------------------------------------------------------- */

static void begin(struct trace *trace, char kind, int64_t device, int track)
{
    fprintf(trace->file, "%s{\"ph\":\"%c\",\"pid\":%lld,\"tid\":%d", trace->separator, kind,
            (long long)device, track);
    trace->separator = ",\n";
}

/* I2 */
static void put_us(struct trace *trace, const char *field, int64_t ns)
{
    fprintf(trace->file, ",\"%s\":%lld.%03d", field, (long long)(ns / 1000), (int)(ns % 1000));
}

static void put_slice(struct trace *trace, int64_t device, int track, int64_t start_ns,
                      int64_t end_ns, enum purpose purpose)
{
    begin(trace, 'X', device, track);
    put_us(trace, "ts", start_ns);
    put_us(trace, "dur", end_ns - start_ns);
    fprintf(trace->file, ",\"cat\":\"%s\",\"cname\":\"%s\"", purpose_name(purpose),
            COLOURS[purpose]);
}

static void put_micro_batch(struct trace *trace, const struct task *task)
{
    if (task->micro_batch >= 0)
        fprintf(trace->file, ",\"micro_batch\":%d", task->micro_batch);
}

/* ---- items ----------------------------------------------------------------------------------- */

/* (1), for the task's items from 0; returns the end of the last. */
static int64_t play_items(struct trace *trace, const struct task *task)
{
    const struct item *item = &trace->graph->block[task->block].item[task->first_item];
    const int64_t *ns =
        &trace->prediction->lane_ns[trace->prediction->lane_first[task->block] + task->first_item];
    int64_t lane_end[2] = {0, 0}, last = 0;
    for (int32_t i = 0; i < task->items; i++) {
        int32_t needs = item[i].needs - task->first_item; /* what comes before the run is over */
        int64_t start = lane_end[item[i].kind];
        if (item[i].needs >= 0 && needs >= 0 && trace->item_ends[needs] > start)
            start = trace->item_ends[needs];
        lane_end[item[i].kind] = trace->item_ends[i] = start + ns[i];
        last = trace->item_ends[i] > last ? trace->item_ends[i] : last;
    }
    return last;
}

static void put_item(struct trace *trace, const struct task *task, const struct item *item,
                     int64_t start_ns, int64_t end_ns)
{
    FILE *file = trace->file;
    bool step = item->kind == ITEM_STEP;
    const char *path = path_of(trace, item->instance);
    put_slice(trace, trace->graph->device[task->device].device, step ? TRACK_STEPS : TRACK_COMPUTE,
              start_ns, end_ns, (enum purpose)item->purpose);
    if (step)
        fprintf(
            file, ",\"name\":\"%s\",\"args\":{\"operator\":%s,\"collective\":\"%s\",\"bytes\":%lld",
            step_name(item->step->kind), path, step_name(item->step->kind), (long long)item->bytes);
    else
        fprintf(file, ",\"name\":%s,\"args\":{\"operator\":%s,\"phase\":\"%s\"", path, path,
                phase_name((enum phase)item->phase));
    put_micro_batch(trace, task);
    fputs("}}", file);
}

__extension__ typedef __int128 wide;

/* (2); an item that takes no time (a slice, an operator without work in its phase) is left out. */
static void put_items(struct trace *trace, const struct task *task, int64_t start_ns,
                      int64_t end_ns)
{
    const struct block *block = &trace->graph->block[task->block];
    const int64_t *ns =
        &trace->prediction->lane_ns[trace->prediction->lane_first[task->block] + task->first_item];
    int64_t alone = play_items(trace, task), took = end_ns - start_ns;
    for (int32_t i = 0; i < task->items; i++) {
        if (ns[i] == 0)
            continue;
        int64_t from = (int64_t)((wide)(trace->item_ends[i] - ns[i]) * took / alone);
        int64_t to = (int64_t)((wide)trace->item_ends[i] * took / alone);
        put_item(trace, task, &block->item[task->first_item + i], start_ns + from, start_ns + to);
    }
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static void put_run(struct trace *trace, const struct task *task)
{
    const struct block *block = &trace->graph->block[task->block];
    if (task->items == 0)
        return;
    const struct item *first = &block->item[task->first_item];
    fprintf(trace->file, ",\"from\":%s,\"to\":%s", path_of(trace, first->instance),
            path_of(trace, first[task->items - 1].instance));
}

/* The number of members of one group of a collective. */
static int64_t members(const struct pattern *pattern)
{
    int64_t count = 1;
    for (int32_t i = 0; i < pattern->digits; i++)
        count *= pattern->degree[i];
    return count;
}

static void put_exchange(struct trace *trace, const struct exchange *exchange)
{
    fprintf(trace->file, ",\"bytes\":%lld", (long long)exchange->bytes);
    if (exchange->kind != EXCHANGE_COLLECTIVE)
        return;
    fprintf(trace->file, ",\"collective\":\"%s\"", exchange_name(exchange));
    if (exchange->collective != COLLECTIVE_SEND)
        fprintf(trace->file, ",\"devices\":%lld",
                (long long)members(&trace->graph->pattern[exchange->pattern]));
}

/* Writes a task on a device that takes part in it; the caller may add arguments, and closes both
 * braces. */
static void put_task_on(struct trace *trace, int32_t number, const struct graph_device *device,
                        int64_t start_ns, int64_t end_ns)
{
    const struct task *task = &trace->graph->task[number];
    put_slice(trace, device->device, trace_track(task), start_ns, end_ns, task_counts_as(task));
    fprintf(trace->file, ",\"name\":\"%s\",\"args\":{\"stage\":%d",
            task_label(trace->prediction, task).s, device->stage);
    put_micro_batch(trace, task);
    if (task->block >= 0)
        put_run(trace, task);
    if (task->exchange >= 0)
        put_exchange(trace, &trace->graph->exchange[task->exchange]);
    if (task->parameters > 0)
        fprintf(trace->file, ",\"parameters\":%lld", (long long)task->parameters);
}

static void put_task(struct trace *trace, int32_t number)
{
    const struct task *task = &trace->graph->task[number];
    int64_t start = trace->prediction->result.start_ns[number];
    int64_t end = trace->prediction->result.end_ns[number];
    put_task_on(trace, number, &trace->graph->device[task->device], start, end);
    fputs("}}", trace->file);
    if (trace->detail != TRACE_TASKS && has_items(task))
        put_items(trace, task, start, end);
}

/* ---- arrows: from a send to what waits for it on another device ------------------------------ */

static void put_arrow_end(struct trace *trace, char kind, int32_t number, int64_t at_ns)
{
    const struct task *task = &trace->graph->task[number];
    begin(trace, kind, trace->graph->device[task->device].device, trace_track(task));
    put_us(trace, "ts", at_ns);
    fprintf(trace->file, ",\"id\":%lld,\"cat\":\"pp_comm\",\"name\":\"send\"%s}",
            (long long)trace->arrows, kind == 'f' ? ",\"bp\":\"e\"" : "");
}

static void put_arrows(struct trace *trace, int32_t to)
{
    const struct graph *graph = trace->graph;
    const struct engine_result *result = &trace->prediction->result;
    for (int64_t i = graph->depends_first[to]; i < graph->depends_first[to + 1]; i++) {
        const struct task *from = &graph->task[graph->depends[i]];
        if (from->purpose != PURPOSE_PIPELINE || from->device == graph->task[to].device ||
            !trace->shown[from->device])
            continue;
        put_arrow_end(trace, 's', graph->depends[i], result->start_ns[graph->depends[i]]);
        put_arrow_end(trace, 'f', to, result->start_ns[to]);
        trace->arrows++;
    }
}

/* ---- names and memory ------------------------------------------------------------------------ */

/* "stage 0, device 0"; in a folded graph also the devices that it stands for. */
static const char *device_label(struct trace *trace, const struct graph_device *device)
{
    const struct stage *stage = &trace->prediction->plan->stage[device->stage];
    long long first = (long long)stage->first_device;
    if (!trace->graph->folded || stage->devices == 1)
        return arena_printf(trace->scratch, "stage %d, device %lld", device->stage,
                            (long long)device->device);
    return arena_printf(trace->scratch, "stage %d, device %lld for %lld-%lld", device->stage,
                        (long long)device->device, first, first + (long long)stage->devices - 1);
}

static void put_name(struct trace *trace, const char *what, int64_t device, int track,
                     const char *name)
{
    begin(trace, 'M', device, track);
    fprintf(trace->file, ",\"name\":\"%s\",\"args\":{\"name\":\"%s\"}}", what, name);
}

static void put_order(struct trace *trace, const char *what, int64_t device, int track,
                      int64_t place)
{
    begin(trace, 'M', device, track);
    fprintf(trace->file, ",\"name\":\"%s\",\"args\":{\"sort_index\":%lld}}", what,
            (long long)place);
}

/* Only tracks with slices are named. */
static void put_names(struct trace *trace)
{
    const struct graph *graph = trace->graph;
    bool *used = ARENA_ARRAY(trace->scratch, bool, (size_t)graph->devices *TRACKS);
    for (int32_t i = 0; i < graph->tasks; i++) {
        size_t device = (size_t)graph->task[i].device * TRACKS;
        used[device + (size_t)trace_track(&graph->task[i])] = true;
        used[device + TRACK_STEPS] |= has_items(&graph->task[i]) && trace->detail != TRACE_TASKS;
    }
    for (int32_t d = 0; d < graph->devices; d++) {
        if (!trace->shown[d])
            continue;
        int64_t device = graph->device[d].device;
        put_name(trace, "process_name", device, 0, device_label(trace, &graph->device[d]));
        put_order(trace, "process_sort_index", device, 0, device);
        for (int track = 0; track < TRACKS; track++) {
            if (!used[(size_t)d * TRACKS + (size_t)track])
                continue;
            put_name(trace, "thread_name", device, track, trace_track_name(track));
            put_order(trace, "thread_sort_index", device, track, track);
        }
    }
}

static void put_point(struct trace *trace, int64_t device, const struct memory_point *point)
{
    begin(trace, 'C', device, 0);
    put_us(trace, "ts", point->at_ns);
    fputs(",\"name\":\"memory\",\"args\":{", trace->file);
    for (int c = 0; c < MEMORY_CLASS_COUNT; c++)
        fprintf(trace->file, "%s\"%s\":%lld", c ? "," : "", memory_class_name((enum memory_class)c),
                (long long)point->bytes[c]);
    fputs("}}", trace->file);
}

/* On the first device of each stage, because the others hold as much. */
static void put_memory(struct trace *trace)
{
    const struct prediction *prediction = trace->prediction;
    const bool *first = shown_devices(trace->scratch, prediction, false);
    for (int32_t d = 0; d < trace->graph->devices && prediction->point; d++) {
        const int64_t *row = &prediction->point_first[trace->graph->device[d].stage];
        for (int64_t i = row[0]; first[d] && i < row[1]; i++)
            put_point(trace, trace->graph->device[d].device, &prediction->point[i]);
    }
}

/* ---- the file -------------------------------------------------------------------------------- */

/* `more`: further facts, as JSON after a comma. */
static void put_head(struct trace *trace, const char *shown, const char *more)
{
    const struct plan *plan = trace->prediction->plan;
    fprintf(
        trace->file,
        "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"program\":\"weft %s\",\"model\":%s,"
        "\"cluster\":%s,\"schedule\":%s,\"software\":%s,\"policy\":\"%s\",\"shown\":\"%s\"%s},\n"
        "\"traceEvents\":[\n",
        weft_version(), trace_quoted(trace->scratch, plan->model->name),
        trace_quoted(trace->scratch, plan->cluster->name),
        trace_quoted(trace->scratch, plan->schedule),
        trace_quoted(trace->scratch, software_text(trace->scratch, &plan->software)),
        policy_name(plan->policy), shown, more);
}

static int32_t longest_run(const struct graph *graph)
{
    int32_t longest = 0;
    for (int32_t i = 0; i < graph->tasks; i++)
        longest = graph->task[i].items > longest ? graph->task[i].items : longest;
    return longest;
}

static void write_events(const struct prediction *prediction, enum trace_detail detail, FILE *file)
{
    static const char *const SHOWN[] = {
        [TRACE_ALL] = "every device of the graph",
        [TRACE_STAGES] = "one device of each stage",
        [TRACE_TASKS] = "one device of each stage, without operators",
    };
    _Static_assert(COUNT_OF(SHOWN) == TRACE_DETAIL_COUNT, "a detail without words");
    const struct plan *plan = prediction->plan;
    struct arena *scratch = arena_new();
    struct trace trace = {.file = file,
                          .scratch = scratch,
                          .prediction = prediction,
                          .graph = prediction->graph,
                          .detail = detail,
                          .shown = shown_devices(scratch, prediction, detail == TRACE_ALL),
                          .path = ARENA_ARRAY(scratch, const char *, (size_t)plan->instances),
                          .item_ends =
                              ARENA_ARRAY(scratch, int64_t, (size_t)longest_run(prediction->graph)),
                          .separator = ""};
    put_head(&trace, SHOWN[detail], "");
    put_names(&trace);
    for (int32_t i = 0; i < trace.graph->tasks; i++) {
        if (!trace.shown[trace.graph->task[i].device] || trace.graph->task[i].idle)
            continue;
        put_task(&trace, i);
        put_arrows(&trace, i);
    }
    put_memory(&trace);
    fputs("\n]}\n", file);
    arena_free(scratch);
}

struct trace_job {
    const struct prediction *prediction;
    enum trace_detail detail;
};

static void put_trace(void *context, FILE *file)
{
    const struct trace_job *job = context;
    write_events(job->prediction, job->detail, file);
}

weft_status trace_write(const struct prediction *prediction, const struct trace_options *options,
                        const char *path)
{
    struct trace_job job = {prediction, trace_detail(prediction, options)};
    return file_write(path, put_trace, &job);
}

/* ---- measured tasks (I4) --------------------------------------------------------------------- */

struct measured_job {
    const struct graph *graph;
    const struct measured_task *task;
    size_t tasks;
};

/* What overlapped in a run, which may be less than its plan says: executors have no products in chunks, no keys that go round and
 * no shared experts beside tokens (graph.h, executed). */
static const char *run_overlap(struct arena *scratch, const struct graph *graph)
{
    unsigned not_run = OVERLAP_PRODUCTS | OVERLAP_KEYS | OVERLAP_SHARED;
    unsigned bits = graph->plan->overlap & ~(graph->executed ? not_run : 0);
    return arena_printf(scratch, ",\"overlap\":\"%s\"",
                        bits ? overlap_text(scratch, bits, ",") : overlap_name(0));
}

static void put_measured(void *context, FILE *file)
{
    const struct measured_job *job = context;
    const struct graph *graph = job->graph;
    struct prediction names = {.plan = graph->plan, .graph = (struct graph *)(uintptr_t)graph};
    struct arena *scratch = arena_new();
    struct trace trace = {.file = file,
                          .scratch = scratch,
                          .prediction = &names,
                          .graph = graph,
                          .detail = TRACE_TASKS,
                          .shown = shown_devices(scratch, &names, true),
                          .path =
                              ARENA_ARRAY(scratch, const char *, (size_t)graph->plan->instances),
                          .separator = ""};
    put_head(&trace, "what happened on every device", run_overlap(scratch, graph));
    put_names(&trace);
    for (size_t i = 0; i < job->tasks; i++) {
        const struct measured_task *m = &job->task[i];
        put_task_on(&trace, m->task, &graph->device[m->device], m->begin_ns, m->end_ns);
        fprintf(file, ",\"step\":%lld,\"task\":%d}}", (long long)m->step, m->task);
    }
    fputs("\n]}\n", file);
    arena_free(scratch);
}

weft_status trace_write_measured(const struct graph *graph, const struct measured_task *tasks,
                                 size_t count, const char *path)
{
    struct measured_job job = {graph, tasks, count};
    return file_write(path, put_measured, &job);
}
