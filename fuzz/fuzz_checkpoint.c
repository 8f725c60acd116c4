/* fuzz_checkpoint.c - any text as checkpoint.json and as the description of a shard: an error, or
 * something that is written and read back the same; of a shard every run lies in the whole. */
#include <stdlib.h>
#include <string.h>

#include "run/checkpoint/manifest.h"
#include "run/checkpoint/shard.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk_shard(const struct shard *shard)
{
    enum { FEW = 1000 };
    int64_t at = 0, last = -1;
    for (int i = 0; i < FEW && at < shard->count; i++) {
        struct shard_run run = shard_run_at(shard, at);
        if (run.count < 1 || run.count > shard->count - at || (run.place >= 0 && run.place <= last))
            abort();
        if (run.place >= 0)
            last = run.place + run.count - 1;
        at += run.count;
    }
    shard_seek(shard, last + 1);
}

static void try_shard(struct arena *arena, const char *text)
{
    struct shard shard, again;
    if (shard_parse("fuzz", "w", text, &shard) != WEFT_OK)
        return;
    const char *written = shard_text(arena, &shard);
    if (shard_parse("fuzz", "w", written, &again) != WEFT_OK ||
        strcmp(shard_text(arena, &again), written) != 0)
        abort();
    walk_shard(&shard);
}

/* Whether all of it was read, and only its checksum is wrong: "fuzz:1: has the checksum ...". */
static bool has_wrong_checksum(void)
{
    static const char SAYS[] = " has the checksum ";
    const char *message = weft_last_error()->message;
    return strncmp(message + strcspn(message, " "), SAYS, strlen(SAYS)) == 0;
}

static void try_manifest(struct arena *arena, const char *text, size_t len)
{
    struct manifest manifest, again;
    if (manifest_parse(arena, "fuzz", text, len, &manifest) != WEFT_OK && !has_wrong_checksum())
        return;
    const char *written = manifest_text(arena, &manifest);
    if (manifest_parse(arena, "fuzz", written, strlen(written), &again) != WEFT_OK ||
        strcmp(manifest_text(arena, &again), written) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *arena = arena_new();
    const char *text = arena_copy_bytes(arena, (const char *)data, size);
    try_shard(arena, text);
    try_manifest(arena, text, size);
    arena_free(arena);
    return 0;
}
