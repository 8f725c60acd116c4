/* run_fit_file.c - a fit as a cluster file that every command takes (runs.h).
 *
 *   I1  A preset or a topology becomes the base of the file. A cluster file is copied, without a calibration that it has:
 *       that one is multiplied into the new one.
 */
#include <string.h>
#include <unistd.h>

#include "runs/runs_room.h"

enum { MAX_FILE_BYTES = 1 << 20 };

static const char *calibration_text(struct arena *keep, const struct run_fit *fit,
                                    const struct paces *had)
{
    const char *text = "calibration:";
    for (int j = 0; j < PACE_COUNT; j++) {
        const struct pace_estimate *part = &fit->part[j];
        double pace = pace_of(had, j) * (part->taken ? part->pace : 1);
        if (part->taken)
            text = arena_printf(keep, "%s\n  %s: %.4f # standard error %.1f %%", text, pace_name(j),
                                pace, part->error * 100);
        else if (pace != 1)
            text = arena_printf(keep, "%s\n  %s: %.4f # as it was", text, pace_name(j), pace);
    }
    return text;
}

/* The file's lines but for the block of its calibration. */
static const char *without_calibration(struct arena *keep, const char *text)
{
    static const char KEY[] = "calibration:";
    const char *from = text;
    while (from && strncmp(from, KEY, strlen(KEY)) != 0)
        from = strchr(from, '\n') ? strchr(from, '\n') + 1 : NULL;
    if (!from)
        return text;
    const char *end = strchrnul(from, '\n');
    while (*end && (end[1] == ' ' || end[1] == '#'))
        end = strchrnul(end + 1, '\n');
    return arena_printf(keep, "%.*s%s", (int)(from - text), text, *end ? end + 1 : end);
}

weft_status run_fit_file(struct arena *keep, const struct run_fit *fit, const char *cluster,
                         const char *runs, char **out)
{
    char *name = arena_copy_text(keep, cluster_meant(keep, cluster)), *text = NULL;
    struct cluster *opened = NULL;
    size_t len;
    weft_status status;
    TRY(cluster_open(name, &opened));
    if (access(name, F_OK) != 0 && strrchr(name, ':'))
        *strrchr(name, ':') = '\0';
    const char *dot = strrchr(name, '.');
    bool is_file = access(name, F_OK) == 0;
    if (is_file && dot && strcmp(dot, ".xml") != 0)
        TRY(file_read(keep, name, MAX_FILE_BYTES, &text, &len));
    if (is_file && dot && strcmp(dot, ".json") == 0)
        TRY(bad_argument("write it as YAML", "%s is JSON, to which nothing can be added", name));
    const char *head =
        text ? without_calibration(keep, text)
             : arena_printf(keep, "base: %s\nnodes: %lld\n", name, (long long)opened->nodes);
    *out = arena_printf(keep, "# %s, calibrated by %lld runs of %s\n%s%s%s\n", name,
                        (long long)fit->rows, runs, head,
                        *head && head[strlen(head) - 1] != '\n' ? "\n" : "",
                        calibration_text(keep, fit, &opened->node.device.paces));
done:
    cluster_free(opened);
    return status;
}
