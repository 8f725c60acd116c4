/* bench_engine.c - what one event of the simulator costs, and whether that stays so as graphs grow.
 *
 * Each shape of graph runs at several sizes. "ratio" is the cost of an event over that at the
 * smallest size, 1.0 where time is linear in events; "speeds" is how many transfers change their
 * speed per event, which grows with how many share a link.
 *
 *   bench_engine [LARGEST [WORDS]]   at most LARGEST tasks (default 10000000, which take 1.5 GB;
 *                                    50000000 take 7 GB), shapes with WORDS in their names
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim/sim.h"

enum { STAGES = 8, DEVICES = 1024, WIDE_LENGTH = 64, RUNS = 3 };
static const int32_t SIZES[] = {100000, 1000000, 10000000, 50000000}; /* tasks */
static const int64_t WORK_NS = 50000;
static const double SEND_BYTES = 1e6;   /* of activations */
static const double LINK_RATE = 25e9;   /* bytes per second: a NIC of 200 Gb/s */
static const double INTERFERENCE = 1.1; /* Proteus on V100 NVLink: gamma 0.1 */

/* Pipelines of 8 devices; between neighbours a micro-batch goes at once or as a flow. */
struct shape {
    const char *name;
    bool neighbours;      /* else independent chains */
    bool flows;           /* a send after every task of all but the last stage */
    int32_t link_devices; /* devices that share a link */
    bool interferes;
    bool wide; /* more devices instead of more micro-batches */
};
static const struct shape SHAPES[] = {
    {"independent chains", false, false, 1, false, false},
    {"pipelines", true, false, 1, false, false},
    {"pipelines, wide", true, false, 1, false, true},
    {"sends on own links", true, true, 1, false, false},
    {"sends share 1 link of 8", true, true, STAGES, false, false},
    {"the same, wide", true, true, STAGES, false, true},
    {"the same, interference", true, true, STAGES, true, false},
};

/* Of this process: other work on the machine does not count. */
static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* ---- building -------------------------------------------------------------------------------- */

struct build {
    int32_t *stream, *flow, *depends, *order, *priority, *stream_device, *flow_device;
    int64_t *ns, *depends_first, *order_first, *least, *use_first, *flow_device_first;
    struct link_use *use;
    double *rate, *slowdown;
};

static struct build allot(struct arena *keep, size_t tasks, size_t devices)
{
    return (struct build){
        .stream = ARENA_ARRAY(keep, int32_t, tasks),
        .flow = ARENA_ARRAY(keep, int32_t, tasks),
        .depends = ARENA_ARRAY(keep, int32_t, tasks),
        .order = ARENA_ARRAY(keep, int32_t, tasks),
        .ns = ARENA_ARRAY(keep, int64_t, tasks),
        .depends_first = ARENA_ARRAY(keep, int64_t, tasks + 1),
        .order_first = ARENA_ARRAY(keep, int64_t, 2 * devices + 1),
        .stream_device = ARENA_ARRAY(keep, int32_t, 2 * devices),
        .flow_device = ARENA_ARRAY(keep, int32_t, devices),
        .least = ARENA_ARRAY(keep, int64_t, devices),
        .use_first = ARENA_ARRAY(keep, int64_t, devices + 1),
        .flow_device_first = ARENA_ARRAY(keep, int64_t, devices + 1),
        .use = ARENA_ARRAY(keep, struct link_use, devices),
        .rate = ARENA_ARRAY(keep, double, devices),
        .slowdown = ARENA_ARRAY(keep, double, devices),
    };
}

/* Device d sends by flow d on stream devices + d. */
static void build_devices(struct build *b, const struct shape *shape, int32_t devices)
{
    for (int32_t d = 0; d < devices; d++) {
        b->use[d] = (struct link_use){d / shape->link_devices, SEND_BYTES, 1};
        b->use_first[d + 1] = b->flow_device_first[d + 1] = d + 1;
        b->flow_device[d] = b->stream_device[d] = b->stream_device[devices + d] = d;
        b->rate[d] = LINK_RATE;
        b->slowdown[d] = INTERFERENCE;
    }
}

/* Tasks of one device's stream, number by number; each waits for its like on another stream. */
static int32_t build_stream(struct build *b, int32_t stream, int32_t flow, int32_t task,
                            int32_t length, int32_t like)
{
    for (int32_t i = 0; i < length; i++, task++) {
        int64_t at = b->depends_first[task];
        b->stream[task] = stream;
        b->flow[task] = flow;
        b->ns[task] = flow < 0 ? WORK_NS + stream % STAGES : 1000;
        b->order[task] = task;
        if (like >= 0)
            b->depends[at++] = like + i;
        b->depends_first[task + 1] = at;
    }
    b->order_first[stream + 1] = task;
    return task;
}

static struct engine_graph build(struct arena *keep, const struct shape *shape, int32_t tasks)
{
    int32_t per_device = shape->flows ? 2 : 1;
    int32_t length = shape->wide ? WIDE_LENGTH : tasks / per_device / DEVICES;
    int32_t devices = tasks / per_device / length / STAGES * STAGES, task = 0;
    struct build b = allot(keep, (size_t)tasks, (size_t)devices);
    build_devices(&b, shape, devices);
    for (int32_t d = 0; d < devices; d++) {
        bool follows = shape->neighbours && d % STAGES;
        int32_t from = (shape->flows ? devices : 0) + d - 1; /* stream that it waits for */
        task = build_stream(&b, d, -1, task, length, follows ? from * length : -1);
    }
    for (int32_t d = 0; d < devices; d++)
        task = build_stream(&b, devices + d, d, task, shape->flows ? length : 0, d * length);
    return (struct engine_graph){task,
                                 2 * devices,
                                 devices,
                                 devices,
                                 devices,
                                 .task_stream = b.stream,
                                 .task_ns = b.ns,
                                 .task_flow = b.flow,
                                 .depends_first = b.depends_first,
                                 .depends = b.depends,
                                 .order_first = b.order_first,
                                 .order = b.order,
                                 .flow_least_ns = b.least,
                                 .flow_use_first = b.use_first,
                                 .flow_use = b.use,
                                 .link_bytes_per_s = b.rate,
                                 .stream_device = b.stream_device,
                                 .device_slowdown = shape->interferes ? b.slowdown : NULL,
                                 .flow_device_first = b.flow_device_first,
                                 .flow_device = b.flow_device};
}

/* ---- measuring ------------------------------------------------------------------------------- */

static double event_ns(const struct engine_graph *graph, int64_t *events, double *changes)
{
    double best = 0;
    for (int i = 0; i < RUNS; i++) {
        struct arena *arena = arena_new();
        struct engine_result result;
        double start = now_ns();
        if (engine_run(arena, graph, &result) != WEFT_OK) {
            fprintf(stderr, "%s\n", weft_last_error()->message);
            exit(EXIT_FAILURE);
        }
        double ns = (now_ns() - start) / (double)result.events;
        best = i && best < ns ? best : ns;
        *events = result.events;
        *changes = (double)result.speed_changes / (double)result.events;
        arena_free(arena);
    }
    return best;
}

static void measure(const struct shape *shape, int32_t largest)
{
    double first = 0;
    for (size_t i = 0; i < COUNT_OF(SIZES) && SIZES[i] <= largest; i++) {
        struct arena *arena = arena_new();
        struct engine_graph graph = build(arena, shape, SIZES[i]);
        int64_t events;
        double changes, ns = event_ns(&graph, &events, &changes);
        first = first > 0 ? first : ns;
        printf("%-26s %10lld %8.1f %8.2f %8.2f\n", shape->name, (long long)events, ns, ns / first,
               changes);
        arena_free(arena);
    }
}

int main(int argc, char **argv)
{
    int32_t largest = argc > 1 ? atoi(argv[1]) : 10000000;
    const char *words = argc > 2 ? argv[2] : "";
    printf("%-26s %10s %8s %8s %8s\n", "graph", "events", "ns/event", "ratio", "speeds");
    for (size_t i = 0; i < COUNT_OF(SHAPES); i++)
        if (strstr(SHAPES[i].name, words))
            measure(&SHAPES[i], largest);
    return EXIT_SUCCESS;
}
