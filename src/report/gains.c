/* gains.c - in which terms of the iteration one plan gains over another (gains.h). */
#include "report/gains.h"

#include <math.h>

#include "report/report.h"

enum { MOST_TERMS = 3 };
static const double LEAST_SHARE = 0.1; /* of the largest term (I2) */

/* (1), in nanoseconds. */
static double gain_of(struct iteration_terms own, struct iteration_terms other, int term)
{
    return own.samples *
           ((double)other.time_ns[term] / other.samples - (double)own.time_ns[term] / own.samples);
}

static double largest_gain(struct iteration_terms own, struct iteration_terms other)
{
    double most = 0;
    for (int i = 0; i < TIME_COUNT; i++)
        most = fmax(most, fabs(gain_of(own, other, i)));
    return most;
}

/* The term of this direction with the largest gain of those that are smaller than `below`; -1: none is large enough. */
static int next_term(struct iteration_terms own, struct iteration_terms other, double direction,
                     double below)
{
    int found = -1;
    double most = LEAST_SHARE * largest_gain(own, other);
    for (int i = 0; i < TIME_COUNT; i++) {
        double gain = direction * gain_of(own, other, i);
        if (gain > 0 && gain >= most && gain < below) {
            found = i;
            most = gain;
        }
    }
    return found;
}

/* "1.20 s of tp_comm and 300 ms of bubble"; empty if there are none. */
static const char *terms_text(struct arena *keep, struct iteration_terms own,
                              struct iteration_terms other, double direction)
{
    const char *text = "";
    double below = INFINITY;
    for (int count = 0; count < MOST_TERMS; count++) {
        int term = next_term(own, other, direction, below);
        if (term < 0)
            return text;
        below = direction * gain_of(own, other, term);
        text = arena_printf(keep, "%s%s%s %sof %s", text, count ? ", " : "", show_seconds(below).s,
                            direction < 0 ? "more " : "", time_name(term));
    }
    return text;
}

const char *term_gains_text(struct arena *keep, struct iteration_terms own,
                            struct iteration_terms other)
{
    const char *saves = terms_text(keep, own, other, 1), *takes = terms_text(keep, own, other, -1);
    if (*saves && *takes)
        return arena_printf(keep, "saves %s, and takes %s", saves, takes);
    return *saves   ? arena_printf(keep, "saves %s", saves)
           : *takes ? arena_printf(keep, "takes %s", takes)
                    : "takes as long in every term";
}

json_t *term_gains_json(struct iteration_terms own, struct iteration_terms other)
{
    json_t *terms = json_object();
    for (int i = 0; i < TIME_COUNT; i++) {
        double gain = gain_of(own, other, BREAKDOWN[i]);
        if (gain != 0)
            json_object_set_new(terms, time_name(BREAKDOWN[i]), json_real(gain * 1e-9));
    }
    return terms;
}
