/* published_read.h - from a row of a file to how the run was done. Inside this room only. */
#ifndef WEFT_LAB_PUBLISHED_READ_H
#define WEFT_LAB_PUBLISHED_READ_H

#include "exchange/exchange.h"
#include "lab/sources.h"

/* All rows of an open file, appended to `out`. */
weft_status read_runs(struct arena *keep, const struct dataset *dataset, struct csv *csv,
                      struct published_rows *out);

/* The half of the run that these words describe. */
enum half half_of(const char *how);
/* Why a row cannot be expressed; the first reason stays. */
void refuse(struct arena *keep, struct published *row, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* What is taken for something its source leaves open; several are joined. */
void assume(struct arena *keep, struct published *row, const char *what);
/* `devices` of a preset whose nodes have `per_node`: "dgx-a100:4", "dgx-a100:1x4"; NULL: no whole
 * nodes. */
const char *cluster_text(struct arena *keep, const char *preset, int64_t per_node, int64_t devices);
void set_dtype(struct degrees *degrees, enum dtype dtype);

/* Absolute errors, which are sorted. */
struct error_list {
    double *data;
    size_t len, cap;
};
struct errors errors_of(double *error, size_t count);

/* Where a file is ("sources.yaml"), and what is in that of a dataset. */
weft_status published_path(struct arena *keep, const char *file, char **out);
weft_status published_file(struct arena *keep, const char *name, char **path, char **text,
                           size_t *len);

#endif
