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

static bool step_of_name(const char *name, int64_t *step)
{
    size_t prefix = strlen(STEP);
    return strncmp(name, STEP, prefix) == 0 && strlen(name) >= prefix + STEP_DIGITS &&
           strspn(name + prefix, "0123456789") == strlen(name + prefix) &&
           parse_int(name + prefix, step);
}

bool step_of_folder(const char *path, int64_t *step)
{
    char name[32];
    size_t end = strlen(path), start;
    while (end > 0 && path[end - 1] == '/')
        end--;
    for (start = end; start > 0 && path[start - 1] != '/';)
        start--;
    snprintf(name, sizeof name, "%.*s", (int)(end - start), path + start);
    return end - start < sizeof name && step_of_name(name, step);
}

weft_status folder_manifest(struct arena *keep, const char *folder, struct manifest *out)
{
    const char *path = arena_printf(keep, "%s/%s", folder, MANIFEST_NAME);
    char *text;
    size_t len;
    weft_status status;
    TRY(file_read(keep, path, DOC_MAX_BYTES, &text, &len));
    TRY(manifest_parse(keep, path, text, len, out));
done:
    return status;
}

bool is_of_run(const char *folder, int64_t step, uint64_t run)
{
    struct arena *scratch = arena_new();
    struct manifest manifest;
    weft_status status =
        folder_manifest(scratch, checkpoint_step_folder(scratch, folder, step), &manifest);
    arena_free(scratch);
    return status == WEFT_OK && manifest.state.run == run;
}

struct listing {
    struct arena *keep;
    struct steps *steps;
};

static weft_status add_step(void *context, const char *name)
{
    struct listing *listing = context;
    int64_t step;
    if (step_of_name(name, &step))
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
