/* run_explain.c - which part of the machine, if it alone were slower or faster, would make one run take as long as it did.
 *
 *   T(pace of one part, all others 1) = measured                                                 (1)
 *
 *   I1  T falls as a pace rises, so (1) has at most one answer; it is looked for from 1/MOST_PACE to MOST_PACE in the
 *       logarithm of the pace, by bisection.
 *   I2  A part that takes no time, or too little to make up for the difference, has no answer.
 */
#include <math.h>

#include "runs/runs_room.h"

static const double MOST_PACE =
    16;                /* what is slower than this is broken, and is seen without a model */
enum { HALVINGS = 9 }; /* of ln 256 / 2: to about 0.5 % of a pace */

static weft_status time_at(const struct run_case *one, int part, double log_pace, double *time_s)
{
    struct paces paces = {{0}};
    paces.of[part] = exp(log_pace);
    return run_case_time(one, &paces, time_s);
}

/* (1), I1: between 1 and a bound at which the time is beyond what was measured. */
static weft_status bisect(const struct run_case *one, int part, double measured_s, double bound,
                          double *log_pace)
{
    double near = 0, far = bound, time_s;
    weft_status status = WEFT_OK;
    for (int i = 0; i < HALVINGS; i++) {
        double middle = (near + far) / 2;
        TRY(time_at(one, part, middle, &time_s));
        if ((time_s < measured_s) == (bound < 0))
            near = middle;
        else
            far = middle;
    }
    *log_pace = (near + far) / 2;
done:
    return status;
}

weft_status run_explain(const struct run_case *one, double measured_s, double predicted_s,
                        double pace[static PACE_COUNT])
{
    double bound = measured_s > predicted_s ? -log(MOST_PACE) : log(MOST_PACE);
    weft_status status = WEFT_OK;
    for (int part = 0; part < PACE_COUNT; part++) {
        double at_bound, log_pace;
        pace[part] = 0;
        TRY(time_at(one, part, bound, &at_bound));
        if ((at_bound > measured_s) != (bound < 0)) /* I2 */
            continue;
        TRY(bisect(one, part, measured_s, bound, &log_pace));
        pace[part] = exp(log_pace);
    }
done:
    return status;
}
