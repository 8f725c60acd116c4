/* log.c - the table of steps: appending lines, and cutting those a resumed run repeats (log.h). */
#include "run/train/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char HEADER[] =
    "step\tloss\trate\tgrad_norm\ttokens_per_s\tmemory_bytes\tvalidation_loss\n";
enum { MAX_LOG_BYTES = 1 << 30, ROW_BYTES = 256 };

/* ---- what is kept ---------------------------------------------------------------------------- */

static bool read_step(const char *line, size_t len, int64_t *out)
{
    char digits[24];
    const char *tab = memchr(line, '\t', len);
    size_t size = tab ? (size_t)(tab - line) : 0;
    if (size == 0 || size >= sizeof digits)
        return false;
    memcpy(digits, line, size);
    digits[size] = '\0';
    return parse_int(digits, out);
}

weft_status log_kept(const char *path, const char *text, size_t len, int64_t last_step, size_t *out)
{
    static const char HINT[] = "name another file for the log";
    size_t at = strlen(HEADER);
    int64_t before = INT64_MIN, step;
    *out = 0;
    if (len < at && memcmp(text, HEADER, len) == 0)
        return WEFT_OK; /* killed in its first line */
    if (len < at || memcmp(text, HEADER, at) != 0)
        return bad_input(path, 1, HINT, "is no log of Weft: its first line is another");
    for (int line = 2;; line++) {
        const char *end = memchr(text + at, '\n', len - at);
        *out = at;
        if (!end)
            return WEFT_OK;
        size_t size = (size_t)(end - text) - at;
        if (!read_step(text + at, size, &step))
            return bad_input(path, line, HINT, "does not begin with a step");
        if (step <= before)
            return bad_input(path, line, HINT, "step %lld is not after step %lld", (long long)step,
                             (long long)before);
        if (step > last_step)
            return WEFT_OK;
        before = step;
        at += size + 1;
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

static weft_status write_all(const struct run_log *log, const char *text, size_t len)
{
    while (len > 0) {
        ssize_t written = write(log->file, text, len);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return file_failure(log->path, "written");
        text += written;
        len -= (size_t)written;
    }
    return WEFT_OK;
}

static weft_status cut_and_head(const struct run_log *log, int64_t last_step)
{
    weft_status status;
    struct arena *scratch = arena_new();
    char *text;
    size_t len, kept;
    TRY(file_read(scratch, log->path, MAX_LOG_BYTES, &text, &len));
    TRY(log_kept(log->path, text, len, last_step, &kept));
    if (kept < len && ftruncate(log->file, (off_t)kept) != 0)
        status = file_failure(log->path, "cut");
    else if (kept == 0)
        status = write_all(log, HEADER, strlen(HEADER));
done:
    arena_free(scratch);
    return status;
}

weft_status log_open(struct arena *keep, const char *path, int64_t last_step, struct run_log *out)
{
    *out = (struct run_log){arena_copy_text(keep, path),
                            open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)};
    if (out->file < 0)
        return file_failure(path, "opened for writing");
    weft_status status = cut_and_head(out, last_step);
    if (status != WEFT_OK)
        log_close(out);
    return status;
}

weft_status log_write(struct run_log *log, const struct log_row *row)
{
    char line[ROW_BYTES], validation[32] = "";
    if (row->validated)
        snprintf(validation, sizeof validation, "%.9g", row->validation_loss);
    int len = snprintf(line, sizeof line, "%lld\t%.9g\t%.9g\t%.9g\t%.6g\t%lld\t%s\n",
                       (long long)row->step, row->loss, row->rate, row->grad_norm,
                       row->tokens_per_s, (long long)row->memory_bytes, validation);
    return write_all(log, line, (size_t)len); /* I1 */
}

void log_close(struct run_log *log)
{
    if (log->file >= 0)
        close(log->file);
    log->file = -1;
}
