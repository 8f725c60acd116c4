/* schedules_help.c - the schedules in the help of --schedule, from their table. */
#include <string.h>

#include "cli/degrees.h"

char *schedules_help(void)
{
    static const char *const BETWEEN[] = {"", ", ", " or "};
    const struct schedule *all;
    size_t count = schedule_all(&all);
    struct arena *scratch = arena_new();
    const char *names = "";
    for (size_t i = 0; i < count; i++)
        names = arena_printf(scratch, "%s%s%s", names, BETWEEN[(i > 0) + (i > 0 && i == count - 1)],
                             all[i].name);
    char *out = strdup(arena_printf(
        scratch,
        "%s; a FILE; or any, which finds one (default %s; %s with --virtual, %s with --segments)",
        names, schedule_default(1, 1)->name, schedule_default(2, 1)->name,
        schedule_default(1, 2)->name));
    arena_free(scratch);
    return out;
}
