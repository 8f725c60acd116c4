/* output.c - filters what the program writes to standard output and standard error.
 *
 *   I1  Both go through base/plain.c: whatever a file calls a model, a device or an operator, a terminal
 *       gets no control characters except newlines and tabs, and only valid UTF-8.
 *   I2  The program's own line of progress needs control characters and is not filtered (cli_terminal);
 *       it contains nothing that comes from a file.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "cli/cli.h"

enum { LONGEST_CHARACTER = 4 }; /* bytes, in UTF-8 */

struct guard {
    int file;
    char begun[LONGEST_CHARACTER]; /* a character whose other bytes come with the next write */
    size_t begins;
};
static struct guard guards[] = {{.file = STDOUT_FILENO}, {.file = STDERR_FILENO}};
static FILE *terminal; /* standard error without the filter */

static bool write_all(int file, const char *text, size_t len)
{
    while (len > 0) {
        ssize_t written = write(file, text, len);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return false;
        text += written;
        len -= (size_t)written;
    }
    return true;
}

/* Filters one character and returns its bytes; 0 if `text` holds only the beginning of one. */
static size_t pass(const char *text, size_t len, char *out, size_t *written)
{
    bool shows;
    size_t used = plain_next(text, len, &shows);
    if (shows || *text == '\n' || *text == '\t')
        memcpy(out + *written, text, used);
    else
        out[*written] = '?';
    if (used > 0)
        *written += shows ? used : 1;
    return used;
}

static ssize_t pass_all(void *cookie, const char *text, size_t len)
{
    enum { PART = 4096 };
    struct guard *guard = cookie;
    char in[PART + LONGEST_CHARACTER], out[PART + LONGEST_CHARACTER];
    size_t taken = 0;
    while (taken < len) {
        size_t more = len - taken < PART ? len - taken : PART;
        size_t have = guard->begins + more, at = 0, written = 0;
        memcpy(in, guard->begun, guard->begins);
        memcpy(in + guard->begins, text + taken, more);
        for (size_t used = 1; at < have && used > 0; at += used)
            used = pass(in + at, have - at, out, &written);
        guard->begins = have - at;
        memcpy(guard->begun, in + at, guard->begins);
        if (!write_all(guard->file, out, written))
            return 0;
        taken += more;
    }
    return (ssize_t)len;
}

static FILE *guarded(struct guard *guard, FILE *plain, int buffering)
{
    FILE *file = fopencookie(guard, "w", (cookie_io_functions_t){.write = pass_all});
    if (!file)
        return plain;
    setvbuf(file, NULL, buffering, BUFSIZ);
    return file;
}

void cli_guard_output(void)
{
    terminal = stderr;
    stdout = guarded(&guards[0], stdout, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF);
    stderr = guarded(&guards[1], stderr, _IONBF);
}

FILE *cli_terminal(void)
{
    return terminal ? terminal : stderr;
}
