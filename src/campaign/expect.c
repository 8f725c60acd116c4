/* expect.c - the expected length of a run, by formula (campaign.h).
 *
 * With failures at rate l, D from a failure to the restart, R to restart and load, n checkpoints, and P between two of
 * them, of which C stands still: a failure costs F in the mean before the run computes again, for a restart may fail,
 *
 *   F = D + (1/l + D) (e^(l R) - 1)                                                             (1)
 *
 * A stretch of S that must not fail, and begins again where it does, takes (e^(l S) - 1) (1/l + F). A checkpoint that
 * is complete L after it was taken lets the run be L ahead: if nothing fails, the next one is complete after P; if
 * something does, the stretch is P + L. So the time from one complete checkpoint to the next is
 *
 *   A = (1 - e^(-l P)) (1/l + F + (e^(l (P + L)) - 1) (1/l + F)) = (e^(l P) - 1) e^(l L) (1/l + F)   (2)
 *   T = (e^(l (P + L)) - 1) (1/l + F) + (n - 1) A                                               (3)
 *
 * with the first stretch from the start, where nothing is ahead. For L = 0 this is the known formula of
 * checkpointing with restarts that fail (Herault and Robert, Fault-Tolerance Techniques for HPC, Prop. 1).
 *
 * By Wald, failures are l times the time that is exposed to them (I1): N = l T / (1 + l D).
 *
 * Nodes in repair: a loss finds all s spares out with Erlang's probability B(s, a), a = losses per second * repair; then
 * s + 1 are in repair and the first is back after repair / (s + 1). A run that goes on with one node less has one more
 * server, which is slow: s + 1 of them, the last of which is in use for B(s + 1, a) of the time.
 */
#include "campaign/campaign.h"

#include <math.h>

#include "campaign/room.h"

const char *outlay_name(enum outlay outlay)
{
    static const char *const NAMES[] = {
        [OUTLAY_WORK] = "computing",
        [OUTLAY_SLOW] = "slow nodes",
        [OUTLAY_SAVING] = "checkpoints",
        [OUTLAY_LOST] = "computed again",
        [OUTLAY_DETECTING] = "noticing failures",
        [OUTLAY_RESTARTING] = "restarting",
        [OUTLAY_WAITING] = "waiting for nodes",
    };
    _Static_assert(COUNT_OF(NAMES) == OUTLAY_COUNT, "an outlay without a name");
    return NAMES[outlay];
}

/* (e^(l s) - 1) / l, which is s where nothing fails. */
static double stretch(double l, double s)
{
    return l > 0 ? expm1(l * s) / l : s;
}

double erlang_b(int64_t s, double a)
{
    double b = 1;
    for (int64_t k = 1; k <= s; k++)
        b = a * b / ((double)k + a * b);
    return b;
}

struct mean_pace mean_pace_of(const struct course *course)
{
    struct mean_pace pace = {.losses_per_s = course->losses_per_s + course->stragglers_per_s};
    double repairs = pace.losses_per_s * course->repair_s;
    int64_t servers = course->spares + (course->one_less > 0);
    double out = erlang_b(servers, repairs);
    pace.factor = jitter_factor(course->jitter, course->nodes) * straggler_factor(course);
    pace.wait_s = out * course->repair_s / (double)(servers + 1);
    if (course->one_less > 0) {
        /* The last server is taken by the losses that find the others out, and given back as often. */
        double without = pace.losses_per_s * erlang_b(course->spares, repairs) * (1 - out);
        pace.factor /= 1 - out + out / course->one_less;
        pace.returns_per_s = without;
    }
    return pace;
}

/* The time of planned restarts, per second of computing: of replaced stragglers, and of nodes that come back. */
static double planned_per_s(const struct course *course, const struct mean_pace *pace)
{
    double each = course->save_s + course->lag_s + course->load_s + course->restart_s;
    return (course->stragglers_per_s + pace->returns_per_s) * each;
}

static void divide(const struct course *course, const struct mean_pace *pace,
                   struct expectation *out)
{
    double l = course->failures_per_s, restart = course->restart_s + course->load_s;
    double computing = course->work_s * pace->factor;
    double planned = planned_per_s(course, pace) * computing;
    double exposed = out->all_s - planned - course->stragglers_per_s * computing * pace->wait_s;
    double share = l > 0 ? course->losses_per_s / l : 0;
    out->failures = l * exposed / (1 + l * (course->detect_s + share * pace->wait_s));
    out->losses = share * out->failures + course->stragglers_per_s * computing;
    out->part_s[OUTLAY_WORK] = course->work_s;
    out->part_s[OUTLAY_SLOW] = computing - course->work_s;
    out->part_s[OUTLAY_SAVING] =
        (double)out->checkpoints * course->save_s + course->lag_s; /* the last is waited for */
    out->part_s[OUTLAY_DETECTING] = out->failures * course->detect_s;
    out->part_s[OUTLAY_RESTARTING] =
        planned + out->failures * (l > 0 ? -expm1(-l * restart) / l : restart);
    out->part_s[OUTLAY_WAITING] = out->losses * pace->wait_s;
    double rest = out->all_s;
    for (int i = 0; i < OUTLAY_COUNT; i++)
        rest -= out->part_s[i];
    out->part_s[OUTLAY_LOST] = rest > 0 ? rest : 0;
}

struct expectation expect(const struct course *course, int64_t checkpoints)
{
    struct expectation out = {.checkpoints = checkpoints};
    struct mean_pace pace = mean_pace_of(course);
    double l = course->failures_per_s, n = (double)checkpoints;
    double share = l > 0 ? course->losses_per_s / l : 0;
    double down = course->detect_s + share * pace.wait_s;
    double restart = course->restart_s + course->load_s, lag = course->lag_s;
    double computing = course->work_s * pace.factor;
    out.interval_s = computing / n;
    double period = out.interval_s + course->save_s;
    double each = (1 + l * down) * exp(l * restart); /* 1 + l F, by (1) */
    double first = stretch(l, period + lag) * each;
    double other = stretch(l, period) * exp(l * lag) * each; /* (2) */
    out.all_s = first + (n - 1) * other;                     /* (3) */
    out.all_s += planned_per_s(course, &pace) * computing;
    out.all_s += course->stragglers_per_s * computing * pace.wait_s;
    if (checkpoints > 1 && period < lag) /* I4 */
        out.all_s = INFINITY;
    divide(course, &pace, &out);
    return out;
}
