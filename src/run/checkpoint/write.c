/* write.c - saving (checkpoint.h). */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "run/checkpoint/checkpoint.h"
#include "run/checkpoint/folder.h"

/* ---- removing -------------------------------------------------------------------------------- */

struct removal {
    const struct disk *disk;
    const char *folder;
    struct arena *scratch;
};

static weft_status remove_path(const struct disk *disk, const char *path)
{
    if (disk->remove(disk->context, path) != 0 && errno != ENOENT)
        return file_failure(path, "removed");
    return WEFT_OK;
}

static weft_status remove_entry(void *context, const char *name)
{
    const struct removal *removal = context;
    return remove_path(removal->disk,
                       arena_printf(removal->scratch, "%s/%s", removal->folder, name));
}

/* A folder of files. */
static weft_status remove_folder(const struct disk *disk, const char *folder, struct arena *scratch)
{
    weft_status status;
    TRY(folder_visit(folder, remove_entry, &(struct removal){disk, folder, scratch}));
    TRY(remove_path(disk, folder));
done:
    return status;
}

static weft_status sweep_entry(void *context, const char *name)
{
    const struct removal *removal = context;
    if (!is_temporary(name))
        return WEFT_OK;
    return remove_folder(removal->disk,
                         arena_printf(removal->scratch, "%s/%s", removal->folder, name),
                         removal->scratch);
}

/* By I1 it loses its name first. */
static weft_status remove_step(const struct checkpoint_place *place, int64_t step,
                               struct arena *scratch)
{
    const struct disk *disk = place->disk;
    const char *folder = checkpoint_step_folder(scratch, place->folder, step);
    const char *hidden = checkpoint_temporary(scratch, place->folder, step);
    if (disk->rename(disk->context, folder, hidden) != 0)
        return file_failure(folder, "renamed");
    return remove_folder(disk, hidden, scratch);
}

/* Parts the steps of a folder into those of the run and those that `overwrite` removes: of others, and
 * later ones of its own. */
static weft_status part_steps(const struct checkpoint_place *place,
                              const struct training_state *state, struct arena *scratch,
                              struct steps *own, struct steps *others)
{
    struct steps steps;
    weft_status status = checkpoint_steps(scratch, place->folder, &steps);
    for (size_t i = 0; i < steps.len; i++) {
        bool is_own = is_of_run(place->folder, steps.data[i], state->run) &&
                      !(place->overwrite && steps.data[i] > state->step);
        array_push(scratch, is_own ? own : others, steps.data[i]);
    }
    return status;
}

/* All of its own but the `keep` newest, never the one just written; and, the newest first, what it is to
 * replace: what one resumes from by default is then this run's (I5). */
static weft_status remove_old(const struct checkpoint_place *place,
                              const struct training_state *state, struct arena *scratch)
{
    weft_status status = WEFT_OK;
    struct steps own = {0}, others = {0};
    if (place->keep == 0 && !place->overwrite)
        return WEFT_OK;
    TRY(part_steps(place, state, scratch, &own, &others));
    for (size_t i = others.len; place->overwrite && i-- > 0;)
        TRY(remove_step(place, others.data[i], scratch));
    for (size_t i = 0; place->keep > 0 && i + (size_t)place->keep < own.len; i++)
        if (own.data[i] != state->step)
            TRY(remove_step(place, own.data[i], scratch));
done:
    return status;
}

/* ---- the three phases ------------------------------------------------------------------------ */

weft_status checkpoint_begin(const struct checkpoint_place *place, int64_t step)
{
    const struct disk *disk = place->disk;
    struct arena *scratch = arena_new();
    const char *folder = checkpoint_temporary(scratch, place->folder, step);
    weft_status status;
    if (disk->make_folder(disk->context, place->folder) != 0 && errno != EEXIST) {
        status = file_failure(place->folder, "made");
        goto done;
    }
    TRY(folder_visit(place->folder, sweep_entry,
                     &(struct removal){disk, place->folder, scratch})); /* what a killed run left */
    if (disk->make_folder(disk->context, folder) != 0)
        status = file_failure(folder, "made");
done:
    arena_free(scratch);
    return status;
}

static const char *values_fault(const struct shard_values *values)
{
    const char *fault = shard_fault(&values->shard);
    return fault ? fault : values->data || values->shard.count == 0 ? NULL : "has no values";
}

weft_status checkpoint_save(const struct checkpoint_place *place, int64_t step, int64_t rank,
                            const struct shard_values *shards, size_t count, struct written *out)
{
    struct arena *scratch = arena_new();
    struct tensor_values *tensors = ARENA_ARRAY(scratch, struct tensor_values, count + 1);
    struct stored_note *notes = ARENA_ARRAY(scratch, struct stored_note, count + 1);
    weft_status status;
    for (size_t i = 0; i < count; i++) {
        const struct shard_values *values = &shards[i];
        const char *fault = values_fault(values);
        if (fault) {
            status = bad_argument(NULL, "the shard of '%s' %s", values->name, fault);
            goto done;
        }
        tensors[i] = (struct tensor_values){
            .name = values->name,
            .dtype = values->dtype,
            .axes = 1,
            .shape = &values->shard.count,
            .data = values->data ? values->data : "", /* of no elements */
        };
        notes[i] = (struct stored_note){arena_printf(scratch, "%s%s", SHARD_NOTE, values->name),
                                        shard_text(scratch, &values->shard)};
    }
    TRY(tensor_file_write(place->disk,
                          arena_printf(scratch, "%s/%s",
                                       checkpoint_temporary(scratch, place->folder, step),
                                       checkpoint_rank_file(scratch, rank)),
                          tensors, count, notes, count, out));
done:
    arena_free(scratch);
    return status;
}

static weft_status write_manifest(const struct checkpoint_place *place,
                                  const struct training_state *state, const struct written *files,
                                  int64_t ranks, struct arena *scratch)
{
    weft_status status;
    struct manifest manifest = {*state, ranks, ARENA_ARRAY(scratch, struct manifest_file, ranks)};
    struct sink sink = {.file = -1};
    struct written written;
    for (int64_t i = 0; i < ranks; i++)
        manifest.file[i] = (struct manifest_file){checkpoint_rank_file(scratch, i), files[i]};
    const char *text = manifest_text(scratch, &manifest);
    const char *folder = checkpoint_temporary(scratch, place->folder, state->step);
    TRY(sink_open(place->disk, arena_printf(scratch, "%s/%s", folder, MANIFEST_NAME), &sink));
    TRY(sink_write(&sink, text, strlen(text)));
    TRY(sink_finish(&sink, &written));
done:
    sink_drop(&sink);
    return status;
}

/* Gives the finished folder its name. Where an earlier run left this step, the two change places,
 * and the earlier one goes. */
static weft_status give_name(const struct checkpoint_place *place, const char *temporary,
                             const char *folder, struct arena *scratch)
{
    const struct disk *disk = place->disk;
    weft_status status = WEFT_OK;
    struct stat info;
    bool exists = stat(folder, &info) == 0;
    if ((exists ? disk->exchange : disk->rename)(disk->context, temporary, folder) != 0) {
        status = file_failure(temporary, "renamed");
        if (exists)
            error_hint("remove %s first: this file system cannot put another in its place", folder);
        return status;
    }
    if (disk->sync_folder(disk->context, place->folder) != 0)
        return file_failure(place->folder, "brought to the disk");
    if (exists)
        TRY(remove_folder(disk, temporary, scratch));
done:
    return status;
}

weft_status checkpoint_commit(const struct checkpoint_place *place,
                              const struct training_state *state, const struct written *files,
                              int64_t ranks, struct arena *keep, const char **out)
{
    const struct disk *disk = place->disk;
    struct arena *scratch = arena_new();
    const char *temporary = checkpoint_temporary(scratch, place->folder, state->step);
    const char *folder = checkpoint_step_folder(keep, place->folder, state->step);
    weft_status status;
    TRY(write_manifest(place, state, files, ranks, scratch));
    if (disk->sync_folder(disk->context, temporary) != 0) {
        status = file_failure(temporary, "brought to the disk");
        goto done;
    }
    TRY(give_name(place, temporary, folder, scratch)); /* I1 */
    TRY(remove_old(place, state, scratch));            /* I2 */
    *out = folder;
done:
    arena_free(scratch);
    return status;
}

void checkpoint_abandon(const struct checkpoint_place *place, int64_t step)
{
    struct arena *scratch = arena_new();
    remove_folder(place->disk, checkpoint_temporary(scratch, place->folder, step), scratch);
    arena_free(scratch);
}
