/* open.c - opening a checkpoint: its files, and the pieces of tensors they hold
 * (checkpoint.h). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "run/checkpoint/folder.h"
#include "run/checkpoint/room.h"

/* ---- opening --------------------------------------------------------------------------------- */

static weft_status open_rank_file(struct checkpoint *checkpoint, const struct manifest_file *entry)
{
    struct rank_file *file = &checkpoint->file[checkpoint->opened];
    const char *path = arena_printf(checkpoint->arena, "%s/%s", checkpoint->folder, entry->name);
    struct stat info;
    file->expected = entry->written;
    if (stat(path, &info) != 0)
        return bad_input(path, 0, NULL, "%s, expected a file of %lld bytes",
                         errno == ENOENT ? "is missing" : strerror(errno),
                         (long long)entry->written.bytes);
    if (info.st_size != entry->written.bytes)
        return bad_input(path, 0, NULL, "has %lld bytes, expected %lld", (long long)info.st_size,
                         (long long)entry->written.bytes);
    weft_status status = tensor_file_open(checkpoint->arena, path, &file->tensors);
    checkpoint->opened += status == WEFT_OK;
    return status;
}

static weft_status add_piece(struct checkpoint *checkpoint, struct rank_file *file,
                             const struct stored_tensor *tensor)
{
    const char *path = file->tensors.path;
    const char *text = tensor_file_note(
        &file->tensors, arena_printf(checkpoint->arena, "%s%s", SHARD_NOTE, tensor->name));
    struct piece piece = {.tensor = tensor, .file = file};
    if (!text)
        return bad_input(path, 0, NULL, "does not say which part of '%s' it holds", tensor->name);
    weft_status status = shard_parse(path, tensor->name, text, &piece.shard);
    if (status == WEFT_OK && tensor->elements != piece.shard.count)
        return bad_input(path, 0, NULL, "holds %lld elements of '%s', expected %lld",
                         (long long)tensor->elements, tensor->name, (long long)piece.shard.count);
    if (status == WEFT_OK)
        array_push(checkpoint->arena, &checkpoint->pieces, piece);
    return status;
}

static int by_name_and_file(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    int order = strcmp(x->tensor->name, y->tensor->name);
    return order ? order : (x->file > y->file) - (x->file < y->file);
}

static bool same_tensor(const struct piece *a, const struct piece *b)
{
    return a->tensor->dtype == b->tensor->dtype && a->shard.axes == b->shard.axes &&
           memcmp(a->shard.shape, b->shard.shape, sizeof a->shard.shape) == 0;
}

/* The pieces of one tensor agree on what it is. */
static weft_status group_pieces(struct checkpoint *checkpoint)
{
    struct piece *piece = checkpoint->pieces.data;
    struct checkpoint_tensor *last = NULL;
    if (checkpoint->pieces.len)
        qsort(piece, checkpoint->pieces.len, sizeof *piece, by_name_and_file);
    for (size_t i = 0; i < checkpoint->pieces.len; i++) {
        if (!last || strcmp(last->name, piece[i].tensor->name) != 0) {
            struct checkpoint_tensor tensor = {piece[i].tensor->name,
                                               piece[i].tensor->dtype,
                                               piece[i].shard.axes,
                                               piece[i].shard.shape,
                                               i,
                                               0};
            array_push(checkpoint->arena, &checkpoint->tensors, tensor);
            last = &checkpoint->tensors.data[checkpoint->tensors.len - 1];
        }
        if (!same_tensor(&piece[last->first_piece], &piece[i]))
            return bad_input(piece[i].file->tensors.path, 0, NULL,
                             "has another dtype or shape of '%s' than %s", last->name,
                             piece[last->first_piece].file->tensors.path);
        last->pieces++;
    }
    return WEFT_OK;
}

/* I4. A folder that a user renamed says nothing. */
static weft_status check_step(const struct checkpoint *checkpoint)
{
    int64_t named, step = checkpoint->manifest.state.step;
    if (!step_of_folder(checkpoint->folder, &named) || named == step)
        return WEFT_OK;
    return bad_input(checkpoint->folder, 0, NULL,
                     "holds a checkpoint of step %lld, expected one of step %lld as its name says",
                     (long long)step, (long long)named);
}

static weft_status open_files(struct checkpoint *checkpoint)
{
    weft_status status;
    struct arena *arena = checkpoint->arena;
    TRY(folder_manifest(arena, checkpoint->folder, &checkpoint->manifest));
    TRY(check_step(checkpoint));
    checkpoint->file = ARENA_ARRAY(arena, struct rank_file, checkpoint->manifest.files);
    for (int64_t i = 0; i < checkpoint->manifest.files; i++)
        TRY(open_rank_file(checkpoint, &checkpoint->manifest.file[i]));
    for (int64_t i = 0; i < checkpoint->opened; i++)
        for (size_t k = 0; k < checkpoint->file[i].tensors.tensors; k++)
            TRY(add_piece(checkpoint, &checkpoint->file[i],
                          &checkpoint->file[i].tensors.tensor[k]));
    TRY(group_pieces(checkpoint));
done:
    return status;
}

/* Also one that lost its manifest. */
static bool is_step_folder(struct arena *scratch, const char *path)
{
    struct stat info;
    int64_t step;
    return (step_of_folder(path, &step) && stat(path, &info) == 0) ||
           stat(arena_printf(scratch, "%s/%s", path, MANIFEST_NAME), &info) == 0;
}

weft_status checkpoint_exists(const char *path, bool *out)
{
    struct arena *scratch = arena_new();
    struct steps steps = {0};
    weft_status status = WEFT_OK;
    *out = is_step_folder(scratch, path);
    if (!*out)
        status = checkpoint_steps(scratch, path, &steps);
    *out |= steps.len > 0;
    arena_free(scratch);
    return status;
}

/* `path` itself, or the newest step in it; `older`: the step before that, or NULL. */
static weft_status find_folder(struct arena *arena, const char *path, const char **out,
                               const char **older)
{
    struct steps steps;
    *older = NULL;
    *out = path;
    if (is_step_folder(arena, path))
        return WEFT_OK;
    weft_status status = checkpoint_steps(arena, path, &steps);
    if (status != WEFT_OK)
        return status;
    if (steps.len == 0)
        return bad_input(path, 0, "name the folder that a run saved its checkpoints in",
                         "holds no checkpoint, expected a folder such as step-00000200");
    *out = checkpoint_step_folder(arena, path, steps.data[steps.len - 1]);
    if (steps.len > 1)
        *older = checkpoint_step_folder(arena, path, steps.data[steps.len - 2]);
    return WEFT_OK;
}

weft_status checkpoint_open(const char *path, struct checkpoint **out)
{
    weft_status status;
    struct arena *arena = arena_new();
    struct checkpoint *checkpoint = ARENA_NEW(arena, struct checkpoint);
    const char *folder, *older;
    checkpoint->arena = arena;
    TRY(find_folder(arena, path, &folder, &older));
    checkpoint->folder = arena_copy_text(arena, folder);
    status = open_files(checkpoint);
    if (status != WEFT_OK && older)
        error_hint("use the checkpoint before it, %s", older);
    else if (status != WEFT_OK)
        error_hint("copy the checkpoint again, or use another one");
done:
    if (status != WEFT_OK)
        checkpoint_close(checkpoint);
    else
        *out = checkpoint;
    return status;
}

void checkpoint_close(struct checkpoint *checkpoint)
{
    if (!checkpoint)
        return;
    for (int64_t i = 0; i < checkpoint->opened; i++)
        tensor_file_close(&checkpoint->file[i].tensors);
    arena_free(checkpoint->arena);
}

const char *checkpoint_folder(const struct checkpoint *checkpoint)
{
    return checkpoint->folder;
}

const struct training_state *checkpoint_state(const struct checkpoint *checkpoint)
{
    return &checkpoint->manifest.state;
}

size_t checkpoint_tensors(const struct checkpoint *checkpoint, const struct checkpoint_tensor **out)
{
    *out = checkpoint->tensors.data;
    return checkpoint->tensors.len;
}

static int by_name(const void *name, const void *tensor)
{
    return strcmp(name, ((const struct checkpoint_tensor *)tensor)->name);
}

const struct checkpoint_tensor *checkpoint_find(const struct checkpoint *checkpoint,
                                                const char *name)
{
    if (checkpoint->tensors.len == 0)
        return NULL;
    return bsearch(name, checkpoint->tensors.data, checkpoint->tensors.len,
                   sizeof *checkpoint->tensors.data, by_name);
}

/* ---- checksums (I4) -------------------------------------------------------------------------- */

weft_status rank_file_verify(struct rank_file *file)
{
    const struct mapped *mapped = &file->tensors.mapped;
    if (file->verified)
        return WEFT_OK;
    uint64_t hash = hash_bytes(mapped->data, mapped->bytes, 0);
    if (hash != file->expected.hash)
        return bad_input(file->tensors.path, 0, "copy it again, or use another checkpoint",
                         "has the checksum %016llx, expected %016llx: it is damaged",
                         (unsigned long long)hash, (unsigned long long)file->expected.hash);
    file->verified = true;
    return WEFT_OK;
}

weft_status checkpoint_verify(struct checkpoint *checkpoint)
{
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < checkpoint->opened; i++)
        TRY(rank_file_verify(&checkpoint->file[i]));
done:
    return status;
}
