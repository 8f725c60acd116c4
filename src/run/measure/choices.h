/* choices.h - what measurements are kept with, and how products are computed while they are made; private to the room. */
#ifndef WEFT_RUN_MEASURE_CHOICES_H
#define WEFT_RUN_MEASURE_CHOICES_H

#include "run/measure/measure.h"

/* When, on what and by what these options measure. */
weft_status store_circumstances(struct profile *profile, const struct measure_options *options);

/* Products are computed by the algorithms that the database has, and others are measured from now on, until choices_end. */
weft_status choices_begin(struct profile *profile, const struct measure_options *options);
void choices_end(const struct measure_options *options);
/* Those that were found since, from number *stored on, which then counts them. */
weft_status choices_store(struct profile *profile, const struct measure_options *options,
                          size_t *stored);

#endif
