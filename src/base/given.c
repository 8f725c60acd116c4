/* given.c - files that come with a question instead of lying on this machine.
 *
 *   I1  While a thread has given files, nothing that it reads by a name from outside comes from a disk: a question
 *       from elsewhere can neither read this machine's files nor find out which there are.
 */
#include <string.h>
#include <unistd.h>

#include "base/base.h"

static _Thread_local const struct given_files *given;

void files_give(const struct given_files *files)
{
    given = files;
}

const struct given_files *files_given(void)
{
    return given;
}

const char *file_given(const char *name)
{
    for (size_t i = 0; given && i < given->count; i++)
        if (strcmp(given->file[i].name, name) == 0)
            return given->file[i].text;
    return NULL;
}

bool file_exists(const char *path)
{
    return given ? file_given(path) != NULL : access(path, F_OK) == 0;
}
