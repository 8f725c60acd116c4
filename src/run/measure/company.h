/* company.h - other ranks at work beside a measurement: threads that run the same kernel on buffers of their own, again and
 * again, as ranks of a plan do that share a machine's cores, its memory or a GPU. Private to the room.
 *
 *   I1  From company_begin to company_end all of them run the kernel, unless there is no memory for it.
 */
#ifndef WEFT_RUN_MEASURE_COMPANY_H
#define WEFT_RUN_MEASURE_COMPANY_H

#include "run/measure/rig.h"

struct company;
/* Returns when all of them are at work; NULL: `options->beside` is 0. */
struct company *company_begin(const struct measure_options *options, const struct ask *ask,
                              const struct asker *asker, enum policy policy);
void company_end(struct company *company);

#endif
