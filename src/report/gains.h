/* gains.h - in which terms of the iteration one plan gains over another.
 *
 *   gain of term k = samples * (other_k / other's samples - own_k / samples)                     (1)
 *
 *   I1  The terms are those of the stage that waits least, of each plan its own: they add up to the iteration, so that the gains
 *       of all terms add up to the difference of two iterations of as many samples.
 *   I2  In words, terms that are less than a tenth of the largest are left out, and so are those after the first three of each
 *       direction.
 */
#ifndef WEFT_REPORT_GAINS_H
#define WEFT_REPORT_GAINS_H

#include <jansson.h>

#include "sim/sim.h"

/* An iteration of so many samples, by purpose. */
struct iteration_terms {
    const int64_t *time_ns; /* TIME_COUNT of them */
    double samples;
};

/* "saves 1.20 s of tp_comm and 300 ms of bubble, and takes 210 ms more of forward" (I2) */
const char *term_gains_text(struct arena *keep, struct iteration_terms own,
                            struct iteration_terms other);
/* Seconds by term, all that are not 0 (1). */
json_t *term_gains_json(struct iteration_terms own, struct iteration_terms other);

#endif
