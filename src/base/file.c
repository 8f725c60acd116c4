/* file.c - whole files, and lines of CSV. */
#include "base/base.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static void close_file(void *file)
{
    fclose(file);
}

static weft_status read_given(struct arena *keep, const char *path, char **out, size_t *out_len)
{
    const char *text = file_given(path);
    if (!text)
        return bad_input(path, 0, "paste the file's text", "no file can be opened from here");
    *out = arena_copy_text(keep, text);
    *out_len = strlen(text);
    return WEFT_OK;
}

weft_status file_read(struct arena *keep, const char *path, size_t limit, char **out,
                      size_t *out_len)
{
    weft_status status = WEFT_OK;
    struct stat info;
    if (files_given())
        return read_given(keep, path, out, out_len);
    /* checked before fopen, which would block on a pipe */
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return bad_input(path, 0, NULL, "is %s, expected a file",
                         S_ISDIR(info.st_mode) ? "a folder" : "a device or pipe");
    FILE *file = fopen(path, "rb");
    if (!file)
        return bad_input(path, 0, NULL, "cannot be opened: %s", strerror(errno));
    if (fstat(fileno(file), &info) != 0) {
        status = failure("%s: cannot be examined: %s", path, strerror(errno));
        goto done;
    }
    if ((uint64_t)info.st_size > limit) {
        status = bad_input(path, 0, NULL, "is %s, larger than the %s that Weft reads",
                           show_bytes((double)info.st_size).s, show_bytes((double)limit).s);
        goto done;
    }
    size_t size = (size_t)info.st_size;
    struct hold hold;
    hold_push(&hold, close_file, file);
    char *text = arena_alloc(keep, size + 1, 1);
    hold_pop(&hold);
    if (fread(text, 1, size, file) != size) {
        status = failure("%s: cannot be read: %s", path, strerror(errno));
        goto done;
    }
    *out = text;
    *out_len = size;
done:
    fclose(file);
    return status;
}

size_t csv_split(char *line, char **fields, size_t max)
{
    size_t count = 0;
    char *read = line, *write = line;
    while (count < max) {
        bool quoted = *read == '"';
        fields[count++] = write;
        read += quoted;
        for (; *read && (quoted || *read != ','); read++) {
            if (quoted && *read == '"') {
                if (read[1] != '"') {
                    quoted = false;
                    continue;
                }
                read++;
            }
            *write++ = *read;
        }
        bool more = *read == ',';
        *write++ = '\0'; /* never overtakes `read`: every field lost at least its separator */
        if (!more)
            break;
        read++;
    }
    return count;
}
