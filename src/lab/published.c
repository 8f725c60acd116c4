/* published.c - names for published measurements, and reading their files. */
#include "lab/published_read.h"

#include <stdio.h>
#include <string.h>

enum { MAX_FILE_BYTES = 16 << 20, MAX_YAML_BYTES = 1 << 20 };

const char *half_name(enum half half)
{
    static const char *const NAMES[] = {[HALF_FIT] = "fit", [HALF_HELD_OUT] = "held-out"};
    _Static_assert(COUNT_OF(NAMES) == HALF_COUNT, "a half without a name");
    return NAMES[half];
}

const char *portion_name(enum portion portion)
{
    static const char *const NAMES[] = {
        [PORTION_FORWARD] = "forward", [PORTION_BACKWARD] = "backward",
        [PORTION_TENSOR] = "tp_comm",  [PORTION_BUBBLE] = "bubble",
        [PORTION_DATA] = "dp_comm",    [PORTION_PIPELINE] = "pp_comm",
        [PORTION_REST] = "rest",       [PORTION_COPIES] = "copies"};
    _Static_assert(COUNT_OF(NAMES) == PORTION_COUNT, "a portion without a name");
    return NAMES[portion];
}

enum half half_of(const char *how)
{
    return hash_bytes(how, strlen(how), 0) & 1 ? HALF_HELD_OUT : HALF_FIT; /* I2 */
}

void refuse(struct arena *keep, struct published *row, const char *fmt, ...)
{
    va_list list;
    if (row->reason)
        return;
    va_start(list, fmt);
    row->reason = arena_vprintf(keep, fmt, list);
    va_end(list);
}

void assume(struct arena *keep, struct published *row, const char *what)
{
    row->assumes = row->assumes ? arena_printf(keep, "%s; %s", row->assumes, what) : what;
}

/* ---- reading --------------------------------------------------------------------------------- */

weft_status published_parse(struct arena *keep, const struct dataset *dataset, const char *file,
                            char *text, size_t len, struct published_rows *out)
{
    struct csv csv;
    weft_status status = csv_open(&csv, file, text, len);
    return status ? status : read_runs(keep, dataset, &csv, out);
}

weft_status published_path(struct arena *keep, const char *file, char **out)
{
    static const struct shipped MEASUREMENTS = {"WEFT_VALIDATION", "validation",
                                                WEFT_VALIDATION_DIR};
    *out = shipped_file(keep, &MEASUREMENTS, file);
    return *out ? WEFT_OK
                : failure("%s is not where Weft's data is; WEFT_VALIDATION may name its folder",
                          file);
}

weft_status published_file(struct arena *keep, const char *name, char **path, char **text,
                           size_t *len)
{
    weft_status status;
    TRY(published_path(keep, arena_printf(keep, "%s.csv", name), path));
    TRY(file_read(keep, *path, MAX_FILE_BYTES, text, len));
done:
    return status;
}

weft_status yaml_parse(struct arena *keep, const char *file, const char *text, size_t len,
                       fact_reader *read, void *out)
{
    struct doc *root;
    weft_status status = doc_parse(keep, file, text, len, DOC_YAML, &root);
    return status ? status : read(keep, root, out);
}

weft_status published_yaml(struct arena *keep, const char *file, fact_reader *read, void *out)
{
    char *path, *text;
    size_t len;
    weft_status status;
    TRY(published_path(keep, file, &path));
    TRY(file_read(keep, path, MAX_YAML_BYTES, &text, &len));
    TRY(yaml_parse(keep, path, text, len, read, out));
done:
    return status;
}

weft_status published_read(struct arena *keep, const struct dataset *dataset,
                           struct published_rows *out)
{
    char *path, *text;
    size_t len;
    weft_status status;
    TRY(published_file(keep, dataset->name, &path, &text, &len));
    TRY(published_parse(keep, dataset, path, text, len, out));
done:
    return status;
}
