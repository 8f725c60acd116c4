/* walk.c - a run played out with random numbers (campaign.h).
 *
 *   W1  Between two events everything goes at a constant pace; the next event is the earliest of a failure, a
 *       straggler that appears or is found, a node that comes back, a checkpoint that is due or complete.
 *   W2  What is exposed to failures draws the time to the next one afresh in each stretch: exponential times have no
 *       memory.
 *   W3  Nodes are repaired at all times, stragglers are found while the run computes.
 *
 * It knows nothing of the formula in expect.c.
 */
#include <math.h>
#include <stdlib.h>

#include "campaign/room.h"

enum { MOST_STRAGGLERS = 64 };

struct walker {
    const struct course *course;
    struct rng rng;
    double now_s;
    double jitter;     /* by which every iteration takes longer */
    double interval;   /* work between checkpoints */
    double done, safe; /* work that was computed, and that a complete checkpoint holds */
    double taken;      /* work that the checkpoint being written holds, */
    double complete_s; /* which is complete then; infinite: none is being written */
    double next;       /* work at the next checkpoint */
    int64_t out;       /* nodes in repair */
    bool short_of_one; /* the run goes on without a node */
    double found_s[MOST_STRAGGLERS]; /* computing time left until each is found, in order */
    int stragglers;
    int64_t failures;
};

static double draw(struct walker *w, double per_s)
{
    return per_s > 0 ? -log1p(-rng_uniform(&w->rng)) / per_s : INFINITY;
}

static double repairs_per_s(const struct walker *w)
{
    return w->course->repair_s > 0 ? (double)w->out / w->course->repair_s : 0;
}

/* The next checkpoint is an interval after this work, or at the end of all of it. */
static void save_after(struct walker *w, double work)
{
    w->next = fmin(work + w->interval, w->course->work_s);
}

/* Lets time pass in which nothing fails, while nodes are repaired (W3). */
static void pass(struct walker *w, double s)
{
    for (double left = s;;) {
        double back = draw(w, repairs_per_s(w));
        if (back >= left)
            break;
        left -= back;
        w->out--;
    }
    w->now_s += s;
}

/* A node goes into repair; the run waits where too many are. */
static void lose_node(struct walker *w)
{
    int64_t can_miss = w->course->spares + (w->course->one_less > 0);
    w->out++;
    if (!(w->course->repair_s > 0))
        w->out = 0;
    while (w->out > can_miss) {
        w->now_s += draw(w, repairs_per_s(w));
        w->out--;
    }
    w->short_of_one = w->out > w->course->spares;
}

/* From a failure to the first iteration; restarts may fail, too. */
static void recover(struct walker *w)
{
    const struct course *c = w->course;
    double restart = c->restart_s + c->load_s;
    for (;;) {
        w->failures++;
        pass(w, c->detect_s);
        if (rng_uniform(&w->rng) * c->failures_per_s < c->losses_per_s)
            lose_node(w);
        double failure = draw(w, c->failures_per_s);
        if (failure >= restart)
            break;
        pass(w, failure);
    }
    pass(w, restart);
    w->done = w->safe;
    save_after(w, w->safe);
    w->complete_s = INFINITY;
}

/* Saves what there is and starts again, with other nodes; nothing is lost. */
static void restart_planned(struct walker *w)
{
    const struct course *c = w->course;
    pass(w, c->save_s + c->lag_s + c->restart_s + c->load_s);
    w->safe = w->done;
    w->complete_s = INFINITY;
    save_after(w, w->done);
}

/* Computation stands still for a checkpoint, if it does not fail. */
static void save(struct walker *w)
{
    double failure = draw(w, w->course->failures_per_s);
    if (failure < w->course->save_s) {
        /* what was being written is complete if it was to be by then */
        if (w->complete_s <= w->now_s + failure)
            w->safe = w->taken;
        pass(w, failure);
        recover(w);
        return;
    }
    pass(w, w->course->save_s);
    if (w->complete_s <= w->now_s)
        w->safe = w->taken;
    w->taken = w->done;
    w->complete_s = w->now_s + w->course->lag_s;
    save_after(w, w->done);
    if (w->course->lag_s <= 0) {
        w->safe = w->taken;
        w->complete_s = INFINITY;
    }
}

/* By how much longer work takes now. */
static double slower(const struct walker *w)
{
    double factor = w->jitter;
    if (w->stragglers && w->course->straggler_slower > 1)
        factor *= w->course->straggler_slower;
    return w->short_of_one ? factor * w->course->one_less : factor;
}

static void add_straggler(struct walker *w)
{
    if (w->stragglers < MOST_STRAGGLERS)
        w->found_s[w->stragglers++] = w->course->straggler_s;
}

static void remove_straggler(struct walker *w)
{
    for (int i = 1; i < w->stragglers; i++)
        w->found_s[i - 1] = w->found_s[i];
    w->stragglers--;
    lose_node(w);
    restart_planned(w);
}

enum event {
    EVENT_DUE,
    EVENT_COMPLETE,
    EVENT_FAILURE,
    EVENT_SLOW,
    EVENT_FOUND,
    EVENT_BACK,
    EVENTS
};

/* Computes until the next event (W1, W2) and says which. */
static enum event compute(struct walker *w, bool last)
{
    const struct course *c = w->course;
    double factor = slower(w);
    double at[EVENTS] = {
        [EVENT_DUE] = last ? INFINITY : (w->next - w->done) * factor,
        [EVENT_COMPLETE] = w->complete_s - w->now_s,
        [EVENT_FAILURE] = draw(w, c->failures_per_s),
        /* stragglers appear while the run computes, not while it waits for the last checkpoint */
        [EVENT_SLOW] = last ? INFINITY : draw(w, c->stragglers_per_s),
        [EVENT_FOUND] = !last && w->stragglers ? w->found_s[0] : INFINITY,
        [EVENT_BACK] = draw(w, repairs_per_s(w)),
    };
    enum event first = EVENT_DUE;
    for (int i = 1; i < EVENTS; i++)
        if (at[i] < at[first])
            first = (enum event)i;
    double s = at[first] > 0 ? at[first] : 0;
    w->now_s += s;
    if (!last)
        w->done = first == EVENT_DUE ? w->next : w->done + s / factor;
    for (int i = 0; i < w->stragglers; i++)
        w->found_s[i] -= s;
    return first;
}

static void node_returns(struct walker *w)
{
    w->out--;
    if (!w->short_of_one || w->out > w->course->spares)
        return;
    w->short_of_one = false;
    restart_planned(w);
}

static void handle(struct walker *w, enum event event)
{
    switch (event) {
    case EVENT_DUE:
        save(w);
        break;
    case EVENT_COMPLETE:
        w->safe = w->taken;
        w->complete_s = INFINITY;
        break;
    case EVENT_FAILURE:
        recover(w);
        break;
    case EVENT_SLOW:
        add_straggler(w);
        break;
    case EVENT_FOUND:
        remove_straggler(w);
        break;
    case EVENT_BACK:
    default:
        node_returns(w);
    }
}

/* The last checkpoint is complete when all work is safe; rounding of sums aside. */
static double walk_once(struct walker *w)
{
    double all = w->course->work_s, near = w->interval * 1e-6;
    while (w->safe < all - near)
        handle(w, compute(w, w->done >= all - near && w->complete_s < INFINITY));
    return w->now_s;
}

static int rising(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void walk(struct arena *scratch, const struct course *course, int64_t checkpoints, int64_t trials,
          uint64_t seed, struct walked *out)
{
    double *times = ARENA_ARRAY(scratch, double, (size_t)trials), sum = 0, squares = 0;
    double jitter = jitter_factor(course->jitter, course->nodes);
    *out = (struct walked){0};
    for (int64_t i = 0; i < trials; i++) {
        struct walker w = {.course = course, .jitter = jitter, .complete_s = INFINITY};
        w.interval = w.next = course->work_s / (double)checkpoints;
        rng_seed(&w.rng, hash_bytes(&i, sizeof i, seed));
        times[i] = walk_once(&w);
        sum += times[i];
        out->failures += (double)w.failures / (double)trials;
    }
    out->mean_s = sum / (double)trials;
    for (int64_t i = 0; i < trials; i++)
        squares += (times[i] - out->mean_s) * (times[i] - out->mean_s);
    if (trials > 1)
        out->error_s = sqrt(squares / (double)(trials - 1) / (double)trials);
    qsort(times, (size_t)trials, sizeof *times, rising);
    out->p5_s = times[trials * 5 / 100];
    out->median_s = times[trials / 2];
    out->p95_s = times[trials * 95 / 100];
}
