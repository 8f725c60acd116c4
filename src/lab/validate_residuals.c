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

bool row_residual(const struct validation *v, const struct published *row, struct residual *out)
{
    if (row->dataset->functional_tests || row->half != HALF_HELD_OUT || !row->done ||
        row->measured.time_s <= 0 || row->predicted.time_s <= 0)
        return false;
    *out = (struct residual){
        .group = arena_printf(v->arena, "%06x", words_hash(v->arena, row, false)),
        .question = arena_printf(v->arena, "%06x", words_hash(v->arena, row, true)),
        .like = row->like,
        .error = log(row->measured.time_s / row->predicted.time_s),
    };
    return true;
}

static void put_residuals(void *context, FILE *file)
{
    const struct validation *v = context;
    struct residual one;
    fputs("group,question,arch,type,kind,devices,error\n", file);
    for (size_t i = 0; i < v->rows.len; i++)
        if (row_residual(v, &v->rows.data[i], &one))
            fprintf(file, "%s,%s,%s,%s,%s,%lld,%.4f\n", one.group, one.question, one.like.arch,
                    one.like.type, one.like.kind, (long long)one.like.devices, one.error);
}

weft_status residuals_write(const struct validation *v, const char *path)
{
    struct validation copy = *v;
    return file_write(path, put_residuals, &copy);
}
