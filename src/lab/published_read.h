/* published_read.h - reads rows of a file as descriptions of runs. Inside this room only. */
#ifndef WEFT_LAB_PUBLISHED_READ_H
#define WEFT_LAB_PUBLISHED_READ_H

#include "exchange/exchange.h"
#include "lab/sources.h"

/* Appends all rows of an open file to `out`. */
weft_status read_runs(struct arena *keep, const struct dataset *dataset, struct csv *csv,
                      struct published_rows *out);

/* The half to which the run belongs that these words describe. */
enum half half_of(const char *how);
/* Sets the reason why a row cannot be expressed, unless it already has one. */
void refuse(struct arena *keep, struct published *row, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Adds an assumption about something that the source does not state. */
void assume(struct arena *keep, struct published *row, const char *what);
/* The name of the cluster with `devices` devices of a preset whose nodes have `per_node`, such as "dgx-a100:4" or
 * "dgx-a100:1x4"; NULL if these are not whole nodes. */
const char *cluster_text(struct arena *keep, const char *preset, int64_t per_node, int64_t devices);
void set_dtype(struct degrees *degrees, enum dtype dtype);

/* Absolute errors; errors_of sorts them. */
struct error_list {
    double *data;
    size_t len, cap;
};
struct errors errors_of(double *error, size_t count);

/* The path of a file such as "sources.yaml", and path and text of the file of a dataset. */
weft_status published_path(struct arena *keep, const char *file, char **out);
weft_status published_file(struct arena *keep, const char *name, char **path, char **text,
                           size_t *len);

/* Reads one node of a YAML file into the struct at `out`. */
typedef weft_status fact_reader(struct arena *keep, const struct doc *node, void *out);
/* Reads a YAML text, or a file such as "sources.yaml", with the reader of its root. */
weft_status yaml_parse(struct arena *keep, const char *file, const char *text, size_t len,
                       fact_reader *read, void *out);
weft_status published_yaml(struct arena *keep, const char *file, fact_reader *read, void *out);

#endif
