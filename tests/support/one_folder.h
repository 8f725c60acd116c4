/* one_folder.h - a folder for all tests of a program. */
#ifndef ONE_FOLDER_H
#define ONE_FOLDER_H

#include <stdio.h>
#include <stdlib.h>

static char folder[] = "/tmp/weft-test-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

/* The path of a file that is not there yet; good for the next three calls. */
static inline char *in_folder(const char *name)
{
    static char path[4][128];
    static int turn;
    char *at = path[turn++ % 4];
    snprintf(at, sizeof path[0], "%s/%s", folder, name);
    remove(at);
    return at;
}

#endif
