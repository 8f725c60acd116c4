/* known_choices.h - algorithms of products that a profile database has, as a backend takes them. */
#ifndef WEFT_RUN_KERNELS_KNOWN_CHOICES_H
#define WEFT_RUN_KERNELS_KNOWN_CHOICES_H

#include "cost/cost.h"
#include "run/kernels/kernels.h"

struct known_choices {
    struct product_choice *data;
    size_t len, cap;
    size_t foreign;      /* those of another library, which are left out */
    const char *library; /* of the last of these */
};
weft_status choices_known(struct profile *profile, const char *device,
                          const struct product_choices *choices, struct arena *keep,
                          struct known_choices *out);

/* Lets `kernels` compute products as the database at `path` says (NULL: there is none); *line, in `keep`, says what they are
 * computed by, NULL: there is nothing to choose. */
weft_status choices_take(const struct kernels *kernels, const char *path, const char *device,
                         struct arena *keep, const char **line);

#endif
