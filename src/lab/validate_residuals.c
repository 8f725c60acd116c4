/* validate_residuals.c - `weft validate --residuals`: the errors of runs that nothing was fitted to, as the file from which
 * the program says how sure a prediction is (runs.h).
 *
 *   I1  Runs of one model from one source are a group, those on one cluster with one batch a question: both are hashes of
 *       words, so that the file tells nothing twice.
 *   I2  r = ln(measured / predicted), in four decimals: the same runs give the same file.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lab/validate.h"

static unsigned words_hash(struct arena *scratch, const struct published *row, bool question)
{
    const char *words = arena_printf(scratch, "%s|%s|%s|%s|%lld", row->dataset->name, row->model,
                                     row->options ? row->options : "", question ? row->cluster : "",
                                     question ? (long long)row->degrees.global_batch : 0LL);
    return (unsigned)(hash_bytes(words, strlen(words), 0) & 0xffffff);
}

static bool has_residual(const struct published *row)
{
    return !row->dataset->functional_tests && row->half == HALF_HELD_OUT && row->done &&
           row->measured.time_s > 0 && row->predicted.time_s > 0;
}

static void put_residuals(void *context, FILE *file)
{
    const struct validation *v = context;
    fputs("group,question,arch,type,kind,devices,error\n", file);
    for (size_t i = 0; i < v->rows.len; i++) {
        const struct published *row = &v->rows.data[i];
        if (has_residual(row))
            fprintf(file, "%06x,%06x,%s,%s,%s,%lld,%.4f\n", words_hash(v->arena, row, false),
                    words_hash(v->arena, row, true), row->like.arch, row->like.type, row->like.kind,
                    (long long)row->like.devices,
                    log(row->measured.time_s / row->predicted.time_s));
    }
}

weft_status residuals_write(const struct validation *v, const char *path)
{
    struct validation copy = *v;
    return file_write(path, put_residuals, &copy);
}
