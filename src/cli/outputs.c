/* outputs.c - keeps a command from overwriting a file that it reads.
 *
 *   I1  Before a command does anything, it is checked that no option that writes a file (CLI_WRITES)
 *       names a file that another word of the command line names.
 *   I2  Two names are the same file if device and inode are equal, so that links are noticed. What is not
 *       a plain file (a terminal, /dev/null) may be both read and written.
 *   I3  A file that is named inside an input, such as the model of a plan, is checked against the same
 *       outputs as soon as its name is known.
 */
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"

enum { MOST_OUTPUTS = 8 }; /* more options that write a file than any command has */
static struct {
    struct output {
        const char *option, *path;
    } output[MOST_OUTPUTS];
    size_t count;
} written;

/* By I2. */
static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    if (stat(a, &x) != 0 || stat(b, &y) != 0)
        return false;
    return S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static weft_status refuse(const struct output *output, const char *what)
{
    return bad_argument("name another file for it", "--%s is %s, which the command %s",
                        output->option, output->path, what);
}

weft_status output_add(const char *option, const char *path)
{
    for (size_t i = 0; i < written.count; i++)
        if (strcmp(option, written.output[i].option) != 0 &&
            (strcmp(path, written.output[i].path) == 0 || same_file(path, written.output[i].path)))
            return refuse(&(struct output){option, path}, "also writes something else to");
    if (written.count < MOST_OUTPUTS)
        written.output[written.count++] = (struct output){option, path};
    return WEFT_OK;
}

weft_status input_check(const char *path)
{
    for (size_t i = 0; path && i < written.count; i++)
        if (same_file(path, written.output[i].path))
            return refuse(&written.output[i], "reads");
    return WEFT_OK;
}
