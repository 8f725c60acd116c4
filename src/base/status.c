/* status.c - the calling thread's error record. */
#include "base/base.h"

#include <stdio.h>
#include <string.h>

static _Thread_local struct {
    char message[ERROR_MESSAGE_BYTES];
    char hint[ERROR_HINT_BYTES];
    weft_error public;
} record = {.public.message = ""};

static void set_hint(const char *hint)
{
    record.public.hint = NULL;
    if (!hint)
        return;
    if (hint != record.hint)
        snprintf(record.hint, sizeof record.hint, "%s", hint);
    plain_text(record.hint);
    record.public.hint = record.hint;
}

PRINTF_LIKE(4, 0)
static weft_status set_error(weft_status status, const char *prefix, const char *hint,
                             const char *fmt, va_list args)
{
    /* a separate buffer, because an argument may be the current message */
    char message[ERROR_MESSAGE_BYTES];
    size_t used = (size_t)snprintf(message, sizeof message, "%s", prefix);
    if (used < sizeof message)
        vsnprintf(message + used, sizeof message - used, fmt, args);
    plain_text(message);
    memcpy(record.message, message, sizeof message);
    record.public.status = status;
    record.public.message = record.message;
    set_hint(hint);
    return status;
}

weft_status bad_input(const char *file, int line, const char *hint, const char *fmt, ...)
{
    char prefix[ERROR_MESSAGE_BYTES / 2];
    if (line > 0)
        snprintf(prefix, sizeof prefix, "%s:%d: ", file, line);
    else
        snprintf(prefix, sizeof prefix, "%s: ", file);
    va_list args;
    va_start(args, fmt);
    weft_status status = set_error(WEFT_BAD_INPUT, prefix, hint, fmt, args);
    va_end(args);
    return status;
}

weft_status bad_argument(const char *hint, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    weft_status status = set_error(WEFT_BAD_INPUT, "", hint, fmt, args);
    va_end(args);
    return status;
}

weft_status failure(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    weft_status status = set_error(WEFT_FAILURE, "", NULL, fmt, args);
    va_end(args);
    return status;
}

weft_status no_answer(const char *hint, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    weft_status status = set_error(WEFT_NO_ANSWER, "", hint, fmt, args);
    va_end(args);
    return status;
}

void error_hint(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(record.hint, sizeof record.hint, fmt, args);
    va_end(args);
    plain_text(record.hint);
    record.public.hint = record.hint;
}

/* In a text of so many bytes; a name that no longer fits in is cut with the rest. */
static void rename_in(char *text, size_t bytes, const char *from, const char *to)
{
    char quoted[128], renamed[128], rest[ERROR_MESSAGE_BYTES];
    snprintf(quoted, sizeof quoted, "'%s'", from);
    snprintf(renamed, sizeof renamed, "'%s'", to);
    for (char *at = text; (at = strstr(at, quoted)) != NULL; at++) {
        snprintf(rest, sizeof rest, "%s", at + strlen(quoted));
        snprintf(at, bytes - (size_t)(at - text), "%s%s", renamed, rest);
    }
}

void error_rename(const char *from, const char *to)
{
    rename_in(record.message, sizeof record.message, from, to);
    if (record.public.hint)
        rename_in(record.hint, sizeof record.hint, from, to);
}

void error_clear(void)
{
    record.message[0] = '\0';
    record.public = (weft_error){WEFT_OK, record.message, NULL};
}

void error_save(struct error_copy *out)
{
    const weft_error *error = &record.public;
    *out = (struct error_copy){.status = error->status, .hinted = error->hint};
    snprintf(out->message, sizeof out->message, "%s", error->message);
    snprintf(out->hint, sizeof out->hint, "%s", error->hint ? error->hint : "");
}

weft_status error_restore(const struct error_copy *error)
{
    if (error->status == WEFT_OK)
        return WEFT_OK;
    snprintf(record.message, sizeof record.message, "%s", error->message);
    record.public.status = error->status;
    record.public.message = record.message;
    set_hint(error->hinted ? error->hint : NULL);
    return error->status;
}

const weft_error *weft_last_error(void)
{
    return &record.public;
}

const char *weft_version(void)
{
    return WEFT_VERSION;
}
