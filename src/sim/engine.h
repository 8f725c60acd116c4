/* engine.h - runs a graph of tasks: when each starts and ends, and what it waited for.
 *
 * A task runs on a stream (a queue: compute, feature communication, gradient communication or copy
 * of one device) and is work or a flow:
 *
 *   start = max(end of every dependency, end of the task before it on its stream)            (1)
 *   work:  end = start + ns / (speed of its device's work)                                   (2)
 *   flow:  a latency of ns, then a transfer over links at the speed of share.h; alone
 *          end = start + ns + ceil(max(least_ns, max_l times_l bytes_l / C_l))               (3)
 *
 * A flow is a template: any number of tasks may be transfers of the same one, also at the same
 * time. And a transfer may stand for equal ones that always run with it (`times` in share.h): a
 * graph in which one device stands for many takes the times of the graph that has them all. The
 * others always exist, so *alone* means with these and with nothing else.
 *
 * Interference: while work and a transfer both touch device d, the work proceeds at 1 / slowdown_d,
 * and the transfer's own pace (what (3) allows it with times_l = 1) is divided by the largest
 * slowdown among its devices that work (Proteus VI, gamma = slowdown - 1; Galvatron-BMW V). Links
 * are shared after that: a transfer that others hold below this pace is not slowed down twice. A
 * transfer whose kernels take units of the device away slows work down by its own factor, if that is larger. Tasks may
 * have factors of their own, one for each way, in place of slowdown_d.
 *
 *   I1  No task starts before (1); a stream never overlaps itself.
 *   I2  Time is whole nanoseconds. A transfer (or slowed work) is over at the first nanosecond at
 *       which at most 2^-38 of it is left: rounded up, but not by the noise of its arithmetic.
 *   I3  Everything that happens at one instant happens before speeds are computed again, and a
 *       speed that stays the same does not change the end that follows from it.
 *   I4  Ties are broken by stream and place on the stream, never by task number: tasks numbered in
 *       another way take the same times.
 *   I5  Only transfers, and work that they may slow down (quiet.h), need the event queue: (1) and
 *       (2) give the end of all other work as soon as its dependencies have theirs, in whatever
 *       order.
 *   I6  What ends before anything else can begin, and while nothing goes on, is alone: its end is found when it starts.
 *       When every other task that has what it waits for was started, the rest begin after an end that is known or in the
 *       queue.
 *
 * An *event* is the end of a task or the beginning of a transfer or of work that one may slow down.
 */
#ifndef WEFT_SIM_ENGINE_H
#define WEFT_SIM_ENGINE_H

#include "base/base.h"
#include "sim/share.h"

/* Lists are stored in rows: row i is [first[i], first[i + 1]) of the array after it. Arrays that
 * are marked optional may be NULL. */
struct engine_graph {
    int32_t tasks, streams, flows, links, devices;

    const int32_t *task_stream;
    const int64_t *task_ns; /* work: its duration; flow: its latency */
    /* the flow that it is a transfer of, -1: work; optional without flows */
    const int32_t *task_flow;
    const int64_t *depends_first;
    const int32_t *depends;     /* per task: tasks that end before it starts */
    const int64_t *order_first; /* per stream: its tasks in order */
    const int32_t *order;

    const int64_t *flow_least_ns; /* what its protocol takes even when alone */
    const int32_t *flow_priority; /* class, 0 first; optional: all equal */
    const int64_t *flow_use_first;
    const struct link_use *flow_use;
    const double *link_bytes_per_s;

    const int32_t *stream_device;  /* -1: none; optional without interference */
    const double *device_slowdown; /* at least 1, which means none; optional: no interference */
    const int64_t *flow_device_first;
    const int32_t *flow_device;
    /* per task that is work, in place of its device's slowdown: by how much flows slow it down, and it them; each at least 1
     * and at most that of its device; optional */
    const double *task_slowed, *task_slows;
    /* per flow, of work on its devices that flows slow down at all: if more than theirs, this; optional */
    const double *flow_slowdown;

    /* when it asks to stop there is no result: WEFT_NO_ANSWER; optional: never */
    const struct stop *stop;

    const char *(*task_name)(const void *names, int32_t task); /* for messages; optional */
    const void *names;
};

struct engine_result {
    int64_t *start_ns, *end_ns; /* per task */
    int32_t *place;             /* per task: its position on its stream, from 0 */
    /* per task: the link that last held its flow below its own pace, or -1 */
    int32_t *held_by;
    int64_t *busy_ns; /* per stream */
    int64_t end;      /* ns: the end of the last task */
    int64_t events;
    int64_t speed_changes; /* of transfers: how often they affected each other */
};

/* Fails if the order does not match the graph, and on a deadlock: tasks that wait for each other,
 * by dependencies or by their order on a stream; the error names them. */
weft_status engine_run(struct arena *keep, const struct engine_graph *graph,
                       struct engine_result *out);

/* ---- why a task started when it did ---------------------------------------------------------- */

/* The task that ended when this one started; -1: it started at 0. The task before it on its stream takes precedence
 * over dependencies that end at the same time: these were not waited for. */
int32_t engine_waited_for(const struct engine_graph *graph, const struct engine_result *result,
                          int32_t task);
/* Compares by stream, then by place on it (I4). */
bool engine_comes_first(const struct engine_graph *graph, const struct engine_result *result,
                        int32_t a, int32_t b);
/* From the first task to the last one to end: each started when the one before it ended. */
int32_t engine_critical_path(struct arena *keep, const struct engine_graph *graph,
                             const struct engine_result *result, int32_t **tasks);
/* The time of (2) or (3) when nothing else runs. */
int64_t engine_alone_ns(const struct engine_graph *graph, int32_t task);

#endif
