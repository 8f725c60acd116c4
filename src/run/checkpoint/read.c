/* read.c - gathering shards and whole tensors from the files of a checkpoint (checkpoint.h).
 *
 * What a reader wants and what a file holds are both shards: two rising sequences of places, met in
 * one walk over the runs of both (shard.h, I2). A bit for every element wanted says what came.
 */
#include <string.h>

#include "run/checkpoint/room.h"

/* ---- gathering (I3) -------------------------------------------------------------------------- */

struct gather {
    const struct shard *wanted;
    enum stored dtype; /* of `out`: what is stored, or F32 */
    uint8_t *out;
    uint64_t *came; /* a bit per element of `wanted` */
    int64_t missing;
};

/* Sets bits; how many of them were not. */
static int64_t mark(uint64_t *bits, int64_t first, int64_t count)
{
    int64_t fresh = 0, end = first + count;
    while (first < end) {
        int64_t low = first % 64, width = end - first < 64 - low ? end - first : 64 - low;
        uint64_t mask = (width == 64 ? ~UINT64_C(0) : (UINT64_C(1) << width) - 1) << low;
        fresh += __builtin_popcountll(mask & ~bits[first / 64]);
        bits[first / 64] |= mask;
        first += width;
    }
    return fresh;
}

static void copy_run(struct gather *gather, int64_t to, const struct stored_tensor *tensor,
                     int64_t from, int64_t count)
{
    const uint8_t *source = tensor->data + from * stored_bytes(tensor->dtype);
    uint8_t *out = gather->out + to * stored_bytes(gather->dtype);
    if (gather->dtype == tensor->dtype)
        memcpy(out, source, (size_t)(count * stored_bytes(tensor->dtype)));
    else
        stored_to_float(tensor->dtype, source, count, (float *)(void *)out);
    gather->missing -= mark(gather->came, to, count);
}

/* What is padding is zero (the caller's `out` is) and does not come from a file. */
static void skip_padding(struct gather *gather)
{
    for (int64_t at = 0; at < gather->wanted->count;) {
        struct shard_run run = shard_run_at(gather->wanted, at);
        if (run.place < 0)
            gather->missing -= mark(gather->came, at, run.count);
        at += run.count;
    }
}

static bool is_padded(const struct shard *shard)
{
    return memcmp(shard->shape, shard->padded, sizeof shard->shape) != 0;
}

static void copy_piece(struct gather *gather, const struct piece *piece)
{
    const struct shard *wanted = gather->wanted, *held = &piece->shard;
    int64_t to = 0, from = 0;
    while (to < wanted->count && from < held->count) {
        struct shard_run want = shard_run_at(wanted, to), have = shard_run_at(held, from);
        if (want.place < 0) {
            to += want.count;
        } else if (have.place < 0) {
            from += have.count;
        } else if (want.place + want.count <= have.place) {
            to = shard_seek(wanted, have.place);
        } else if (have.place + have.count <= want.place) {
            from = shard_seek(held, want.place);
        } else {
            int64_t place = want.place > have.place ? want.place : have.place;
            int64_t into = place - want.place, out_of = place - have.place;
            int64_t count =
                want.count - into < have.count - out_of ? want.count - into : have.count - out_of;
            copy_run(gather, to + into, piece->tensor, from + out_of, count);
            to += into + count;
            from += out_of + count;
        }
    }
}

/* Whether a walk over both finds anything: a checksum costs more than to know. */
static bool meets(const struct shard *a, const struct shard *b)
{
    if (a->count == 0 || b->count == 0)
        return false;
    struct shard_run first = shard_run_at(b, 0);
    return first.place < 0 || shard_seek(a, first.place) < a->count;
}

static weft_status gather_pieces(struct checkpoint *checkpoint,
                                 const struct checkpoint_tensor *tensor, struct gather *gather)
{
    weft_status status = WEFT_OK;
    struct piece *piece = &checkpoint->pieces.data[tensor->first_piece];
    for (size_t i = 0; i < tensor->pieces && gather->missing > 0; i++) {
        if (!meets(gather->wanted, &piece[i].shard) || !meets(&piece[i].shard, gather->wanted))
            continue;
        TRY(rank_file_verify(piece[i].file));
        copy_piece(gather, &piece[i]);
    }
    if (gather->missing > 0)
        status = bad_input(checkpoint->folder, 0, "use another checkpoint",
                           "lacks %lld of %lld elements of '%s'", (long long)gather->missing,
                           (long long)gather->wanted->count, tensor->name);
done:
    return status;
}

static weft_status read_as(struct checkpoint *checkpoint, const struct checkpoint_tensor *tensor,
                           const struct shard *shard, enum stored dtype, void *out)
{
    struct arena *scratch = arena_new();
    struct gather gather = {shard, dtype, out, NULL, shard->count};
    gather.came = ARENA_ARRAY(scratch, uint64_t, (size_t)shard->count / 64 + 1);
    if (is_padded(shard)) {
        memset(out, 0, (size_t)(shard->count * stored_bytes(dtype)));
        skip_padding(&gather);
    }
    weft_status status = gather_pieces(checkpoint, tensor, &gather);
    arena_free(scratch);
    return status;
}

static weft_status check_request(const struct checkpoint *checkpoint, const char *name,
                                 const struct checkpoint_tensor *tensor, const struct shard *shard)
{
    static const char HINT[] = "resume with the model that the checkpoint is of";
    const char *fault = shard_fault(shard);
    float none;
    if (!tensor)
        return bad_input(checkpoint->folder, 0, HINT, "holds no tensor '%s'", name);
    if (fault)
        return bad_argument(NULL, "the shard of '%s' that is asked for %s", name, fault);
    if (shard->axes != tensor->axes ||
        memcmp(shard->shape, tensor->shape, (size_t)shard->axes * sizeof *shard->shape) != 0)
        return bad_input(checkpoint->folder, 0, HINT, "has another shape of '%s' than the model",
                         name);
    if (!stored_to_float(tensor->dtype, "", 0, &none))
        return bad_input(checkpoint->folder, 0, NULL,
                         "'%s' is of dtype %s, expected F32, F16 or BF16", name,
                         stored_name(tensor->dtype));
    return WEFT_OK;
}

weft_status checkpoint_read(struct checkpoint *checkpoint, const char *name,
                            const struct shard *shard, float *out)
{
    const struct checkpoint_tensor *tensor = checkpoint_find(checkpoint, name);
    weft_status status = check_request(checkpoint, name, tensor, shard);
    return status == WEFT_OK ? read_as(checkpoint, tensor, shard, STORED_F32, out) : status;
}

/* ---- whole tensors --------------------------------------------------------------------------- */

struct whole {
    struct checkpoint *checkpoint;
    const struct checkpoint_tensor *tensor;
    struct shard shard;
};

static weft_status fill_whole(void *context, int64_t first, int64_t count, void *out)
{
    struct whole *whole = context;
    whole->shard.first = first;
    whole->shard.count = count;
    return read_as(whole->checkpoint, whole->tensor, &whole->shard, whole->tensor->dtype, out);
}

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), tail = strlen(end);
    return len >= tail && strcmp(text + len - tail, end) == 0;
}

bool is_run_state(const char *name)
{
    return ends_with(name, MOMENT1_SUFFIX) || ends_with(name, MOMENT2_SUFFIX) ||
           ends_with(name, HISTORY_SUFFIX);
}

static bool is_wanted(const struct checkpoint_tensor *tensor, enum consolidate what)
{
    return what == CONSOLIDATE_ALL || !is_run_state(tensor->name);
}

static size_t list_whole(struct checkpoint *checkpoint, enum consolidate what,
                         struct arena *scratch, struct tensor_values *out)
{
    size_t count = 0;
    for (size_t i = 0; i < checkpoint->tensors.len; i++) {
        const struct checkpoint_tensor *tensor = &checkpoint->tensors.data[i];
        if (!is_wanted(tensor, what))
            continue;
        struct whole *whole = ARENA_NEW(scratch, struct whole);
        *whole = (struct whole){checkpoint, tensor, shard_whole(tensor->axes, tensor->shape)};
        out[count++] = (struct tensor_values){.name = tensor->name,
                                              .dtype = tensor->dtype,
                                              .axes = tensor->axes,
                                              .shape = tensor->shape,
                                              .fill = fill_whole,
                                              .context = whole};
    }
    return count;
}

weft_status checkpoint_consolidate(struct checkpoint *checkpoint, enum consolidate what,
                                   const struct disk *disk, const char *path)
{
    /* What PyTorch's tools look for before they load a file. */
    static const struct stored_note NOTES[] = {{"format", "pt"}};
    weft_status status;
    struct arena *scratch = arena_new();
    struct tensor_values *tensors =
        ARENA_ARRAY(scratch, struct tensor_values, checkpoint->tensors.len + 1);
    size_t count = list_whole(checkpoint, what, scratch, tensors);
    const char *temporary = arena_printf(scratch, "%s.tmp", path);
    struct written written;
    TRY(tensor_file_write(disk, temporary, tensors, count, NOTES, COUNT_OF(NOTES), &written));
    if (disk->rename(disk->context, temporary, path) != 0)
        status = file_failure(path, "renamed");
done:
    if (status != WEFT_OK)
        disk->remove(disk->context, temporary);
    arena_free(scratch);
    return status;
}
