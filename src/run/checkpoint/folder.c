/* folder.c - names and listings (checkpoint.h, folder.h). */
#include "run/checkpoint/folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "run/checkpoint/checkpoint.h"

static const char STEP[] = "step-", TEMPORARY[] = ".step-";
enum { STEP_DIGITS = 8 };

const char *checkpoint_step_folder(struct arena *keep, const char *folder, int64_t step)
{
    return arena_printf(keep, "%s/%s%0*lld", folder, STEP, STEP_DIGITS, (long long)step);
}

const char *checkpoint_temporary(struct arena *keep, const char *folder, int64_t step)
{
    return arena_printf(keep, "%s/%s%0*lld.tmp", folder, TEMPORARY, STEP_DIGITS, (long long)step);
}

const char *checkpoint_rank_file(struct arena *keep, int64_t rank)
{
    return arena_printf(keep, "rank-%05lld.safetensors", (long long)rank);
}

bool is_temporary(const char *name)
{
    return strncmp(name, TEMPORARY, strlen(TEMPORARY)) == 0;
}

weft_status folder_visit(const char *folder, visit_entry *visit, void *context)
{
    weft_status status = WEFT_OK;
    DIR *entries = opendir(folder);
    if (!entries)
        return errno == ENOENT ? WEFT_OK : file_failure(folder, "listed");
    const struct dirent *entry;
    while ((entry = readdir(entries)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            TRY(visit(context, entry->d_name));
done:
    closedir(entries);
    return status;
}

struct listing {
    struct arena *keep;
    struct steps *steps;
};

static weft_status add_step(void *context, const char *name)
{
    struct listing *listing = context;
    size_t prefix = strlen(STEP);
    int64_t step;
    if (strncmp(name, STEP, prefix) == 0 && strlen(name) >= prefix + STEP_DIGITS &&
        strspn(name + prefix, "0123456789") == strlen(name + prefix) &&
        parse_int(name + prefix, &step))
        array_push(listing->keep, listing->steps, step);
    return WEFT_OK;
}

static int by_step(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

weft_status checkpoint_steps(struct arena *keep, const char *folder, struct steps *out)
{
    *out = (struct steps){0};
    weft_status status = folder_visit(folder, add_step, &(struct listing){keep, out});
    if (out->len)
        qsort(out->data, out->len, sizeof *out->data, by_step);
    return status;
}
