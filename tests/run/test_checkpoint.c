/* test_checkpoint.c - checkpoints: read under any other layout, and whole whatever happens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faulty_disk.h"
#include "random_shard.h"
#include "run/checkpoint/checkpoint.h"
#include "rounds.h"
#include "scratch_folder.h"

/* ---- a small run ----------------------------------------------------------------------------- */

/* Element `place` of tensor t after a step, exact in single precision. */
static float value_of(int64_t step, int64_t t, int64_t place)
{
    return (float)(step * 1000 + t * 100 + place);
}

/* Two ranks hold the halves of two weights and their moments, by columns; a bias is rank 0's. */
enum { RANKS = 2, TENSORS = 5 };
static const struct {
    const char *name;
    int64_t axes, shape[2], stride; /* split in two at this stride, 0: all on rank 0 */
} RUN[TENSORS] = {
    {"attn.weight", 2, {4, 6}, 3},
    {"attn.weight" MOMENT1_SUFFIX, 2, {4, 6}, 3},
    {"attn.weight" MOMENT2_SUFFIX, 2, {4, 6}, 3},
    {"bias", 1, {5}, 0},
    {"mlp.weight", 2, {8, 2}, 8},
};

static size_t run_shards(struct arena *arena, int64_t step, int64_t rank, struct shard_values *out)
{
    size_t count = 0;
    for (int64_t t = 0; t < TENSORS; t++) {
        struct layout layout = layout_none(shape_elements(RUN[t].axes, RUN[t].shape));
        if (RUN[t].stride)
            layout_add(&layout, RANKS, RUN[t].stride);
        else if (rank > 0)
            continue;
        struct shard shard = shard_of_layout(RUN[t].axes, RUN[t].shape, NULL, &layout, rank);
        int64_t place[64];
        float *data = ARENA_ARRAY(arena, float, shard.count);
        places_by_definition(&shard, place);
        for (int64_t i = 0; i < shard.count; i++)
            data[i] = value_of(step, t, place[i]);
        out[count++] = (struct shard_values){RUN[t].name, STORED_F32, shard, data};
    }
    return count;
}

enum { THIS_RUN = 1, OTHER_RUN = 2 };

static weft_status save_to(const struct checkpoint_place *place_of_run, int64_t step, uint64_t run)
{
    struct arena *arena = arena_new();
    struct checkpoint_place place = *place_of_run;
    struct training_state state = {.step = step,
                                   .seed = 42,
                                   .samples = step * 8,
                                   .model = "small",
                                   .plan = "{\"plan\": \"text\"}\n",
                                   .run = run};
    struct written written[RANKS];
    const char *finished;
    weft_status status;
    TRY(checkpoint_begin(&place, step));
    for (int64_t rank = 0; rank < RANKS; rank++) {
        struct shard_values shards[TENSORS];
        size_t count = run_shards(arena, step, rank, shards);
        TRY(checkpoint_save(&place, step, rank, shards, count, &written[rank]));
    }
    TRY(checkpoint_commit(&place, &state, written, RANKS, arena, &finished));
done:
    arena_free(arena);
    return status;
}

static weft_status save_step(const struct disk *disk, const char *folder, int64_t keep,
                             int64_t step)
{
    return save_to(&(struct checkpoint_place){disk, folder, keep}, step, THIS_RUN);
}

/* Everything that a checkpoint of the run has, whole. */
static void assert_step(struct checkpoint *checkpoint)
{
    const struct training_state *state = checkpoint_state(checkpoint);
    assert_int_equal(state->samples, state->step * 8);
    assert_int_equal(state->seed, 42);
    assert_string_equal(state->model, "small");
    assert_string_equal(state->plan, "{\"plan\": \"text\"}\n");
    const struct checkpoint_tensor *tensors;
    assert_int_equal(checkpoint_tensors(checkpoint, &tensors), TENSORS);
    for (int64_t t = 0; t < TENSORS; t++) {
        struct shard whole = shard_whole(RUN[t].axes, RUN[t].shape);
        float found[64];
        assert_string_equal(tensors[t].name, RUN[t].name);
        assert_ok(checkpoint_read(checkpoint, RUN[t].name, &whole, found));
        for (int64_t i = 0; i < whole.count; i++)
            assert_true(found[i] == value_of(state->step, t, i));
    }
}

/* Every folder with the name of a step is a checkpoint of the run, whole; the newest one's step. */
static int64_t newest_step(const char *folder)
{
    struct arena *arena = arena_new();
    struct steps steps;
    assert_ok(checkpoint_steps(arena, folder, &steps));
    for (size_t i = 0; i < steps.len; i++) {
        struct checkpoint *checkpoint;
        assert_ok(
            checkpoint_open(checkpoint_step_folder(arena, folder, steps.data[i]), &checkpoint));
        assert_int_equal(checkpoint_state(checkpoint)->step, steps.data[i]);
        assert_step(checkpoint);
        checkpoint_close(checkpoint);
    }
    struct checkpoint *checkpoint;
    assert_ok(checkpoint_open(folder, &checkpoint)); /* finds the newest itself */
    int64_t step = checkpoint_state(checkpoint)->step;
    assert_int_equal(step, steps.data[steps.len - 1]);
    checkpoint_close(checkpoint);
    arena_free(arena);
    return step;
}

static int count_entries(const char *folder)
{
    struct dirent **entries;
    int count = scandir(folder, &entries, NULL, NULL);
    assert_true(count >= 2);
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
    return count - 2;
}

static const char *fresh_folder(const struct scratch *scratch)
{
    const char *folder = scratch_path(scratch, "run");
    remove_tree(folder);
    return folder;
}

/* Where a folder cannot be brought to the disk, its checkpoint gets no name. */
static int no_sync(void *context, const char *path)
{
    (void)context;
    (void)path;
    errno = EIO;
    return -1;
}

static void a_disk_that_does_not_sync_is_a_failure(void **state)
{
    struct arena *arena = ((struct scratch *)*state)->arena;
    struct disk disk = REAL_DISK;
    struct steps steps;
    const char *folder = fresh_folder(*state);
    disk.sync_folder = no_sync;
    assert_int_equal(save_step(&disk, folder, 0, 5), WEFT_FAILURE);
    assert_ok(checkpoint_steps(arena, folder, &steps));
    assert_int_equal(steps.len, 0);
}

/* ---- saving ---------------------------------------------------------------------------------- */

static void what_is_saved_is_loaded(void **state)
{
    const char *folder = fresh_folder(*state);
    struct checkpoint *checkpoint;
    assert_ok(save_step(&REAL_DISK, folder, 0, 200));
    assert_int_equal(newest_step(folder), 200);
    const char *step = scratch_path(*state, "run/step-00000200");
    assert_int_equal(count_entries(step), RANKS + 1);
    assert_ok(checkpoint_open(step, &checkpoint)); /* named itself */
    assert_string_equal(checkpoint_folder(checkpoint), step);
    assert_step(checkpoint);
    assert_ok(checkpoint_verify(checkpoint));
    checkpoint_close(checkpoint);
    checkpoint_close(NULL);
}

static void the_newest_are_kept(void **state)
{
    struct arena *arena = ((struct scratch *)*state)->arena;
    struct faults faults = no_faults();
    struct disk disk = faulty_disk(&faults);
    const char *folder = fresh_folder(*state);
    struct steps steps;
    for (int64_t step = 10; step <= 60; step += 10)
        assert_ok(save_step(&disk, folder, 3, step));
    assert_ok(checkpoint_steps(arena, folder, &steps));
    assert_int_equal(steps.len, 3);
    assert_true(steps.data[0] == 40 && steps.data[1] == 50 && steps.data[2] == 60);
    assert_int_equal(count_entries(folder), 3); /* and nothing else is left */
    assert_ok(save_step(&disk, folder, 1, 45)); /* an older one that was resumed from stays */
    assert_ok(checkpoint_steps(arena, folder, &steps));
    assert_true(steps.len == 2 && steps.data[0] == 45 && steps.data[1] == 60);
    assert_int_equal(faults.renamed_unsynced, 0);
    assert_ok(checkpoint_steps(arena, scratch_path(*state, "nowhere"), &steps));
    assert_int_equal(steps.len, 0);
    assert_ok(save_step(&disk, folder, 0, 123456789)); /* more digits than the name has */
    assert_int_equal(newest_step(folder), 123456789);
}

static void a_step_is_saved_again(void **state)
{
    struct faults faults = no_faults();
    struct disk disk = faulty_disk(&faults);
    const char *folder = fresh_folder(*state);
    assert_ok(save_step(&disk, folder, 0, 7));
    const char *old = put_file(*state, "run/step-00000007/extra", "x", 1);
    assert_ok(save_step(&disk, folder, 0, 7));
    assert_int_equal(newest_step(folder), 7);
    assert_int_not_equal(access(old, F_OK), 0); /* it is the new one */
    assert_int_equal(count_entries(folder), 1);
}

/* ---- whose folder it is ---------------------------------------------------------------------- */

static void assert_steps(const struct scratch *scratch, const char *folder, size_t count,
                         const int64_t *expected)
{
    struct steps steps;
    assert_ok(checkpoint_steps(scratch->arena, folder, &steps));
    assert_int_equal(steps.len, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(steps.data[i], expected[i]);
}

static void other_runs_are_not_pruned(void **state)
{
    struct faults faults = no_faults();
    struct disk disk = faulty_disk(&faults);
    const char *folder = fresh_folder(*state);
    struct checkpoint_place place = {&disk, folder, 1};
    for (int64_t step = 10; step <= 20; step += 10)
        assert_ok(save_to(&(struct checkpoint_place){&disk, folder, 0}, step, OTHER_RUN));
    assert_ok(save_to(&place, 5, THIS_RUN));
    assert_ok(save_to(&place, 15, THIS_RUN));
    assert_steps(*state, folder, 3, (int64_t[]){10, 15, 20});
    put_file(*state, "run/step-00000020/checkpoint.json", "{", 1); /* nobody knows whose it is */
    assert_ok(save_to(&place, 16, THIS_RUN));
    assert_steps(*state, folder, 3, (int64_t[]){10, 16, 20});
    place.overwrite = true;
    assert_ok(save_to(&place, 17, THIS_RUN));
    assert_steps(*state, folder, 1, (int64_t[]){17});
    place.keep = 0;
    assert_ok(save_to(&place, 12, THIS_RUN)); /* it goes on from an earlier step */
    assert_steps(*state, folder, 1, (int64_t[]){12});
}

static void a_folder_is_claimed(void **state)
{
    struct scratch *scratch = *state;
    struct faults faults = no_faults();
    struct disk disk = faulty_disk(&faults);
    const char *folder = fresh_folder(scratch);
    struct checkpoint_place place = {&disk, folder, 1};
    struct checkpoint *earlier, *later;
    uint64_t run, again;
    int lock;
    assert_ok(checkpoint_lock(&place, &lock)); /* makes it */
    assert_ok(checkpoint_claim(&place, NULL, 1, &run));
    assert_ok(checkpoint_claim(&place, NULL, 1, &again));
    assert_true(run != again);
    assert_ok(save_to(&(struct checkpoint_place){&disk, folder, 0}, 10, THIS_RUN));
    assert_ok(save_to(&(struct checkpoint_place){&disk, folder, 0}, 20, THIS_RUN));
    assert_refused(checkpoint_claim(&place, NULL, 1, &run), WEFT_BAD_INPUT,
                   arena_printf(scratch->arena,
                                "%s/step-00000020: is the checkpoint of another run, "
                                "or a later one of this run",
                                folder));
    assert_ok(checkpoint_open(folder, &later));
    assert_ok(checkpoint_claim(&place, later, 1, &run));
    assert_int_equal(run, THIS_RUN);
    assert_ok(checkpoint_open(scratch_path(scratch, "run/step-00000010"), &earlier));
    assert_int_equal(checkpoint_claim(&place, earlier, 1, &run), WEFT_BAD_INPUT);
    place.overwrite = true;
    assert_ok(checkpoint_claim(&place, earlier, 1, &run));
    assert_int_equal(run, THIS_RUN);
    faults.bytes_left = 1000;
    assert_ok(checkpoint_claim(&place, NULL, 1000, &run));
    assert_refused(checkpoint_claim(&place, NULL, 1024, &run), WEFT_FAILURE,
                   arena_printf(scratch->arena,
                                "%s: has space for 1000 B, expected 1.00 KiB for a checkpoint",
                                folder));
    checkpoint_close(earlier);
    checkpoint_close(later);
    checkpoint_unlock(lock);
    checkpoint_unlock(-1);
}

/* Another process has it, is killed, and leaves nothing that is in the way. */
static void a_killed_run_leaves_no_lock(void **state)
{
    const char *folder = fresh_folder(*state);
    struct checkpoint_place place = {&REAL_DISK, folder, 1};
    int ends[2], lock, status;
    char word;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (checkpoint_lock(&place, &lock) != WEFT_OK || write(ends[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &word, 1), 1);
    close(ends[0]);
    assert_int_equal(checkpoint_lock(&place, &lock), WEFT_BAD_INPUT);
    char who[32];
    snprintf(who, sizeof who, "there: process %ld on ", (long)child);
    assert_non_null(strstr(weft_last_error()->message, who));
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_ok(checkpoint_lock(&place, &lock));
    checkpoint_unlock(lock);
    place.folder = put_file(*state, "file", "", 0);
    assert_int_equal(checkpoint_lock(&place, &lock), WEFT_BAD_INPUT);
    place.folder = "/nowhere/run";
    assert_int_equal(checkpoint_lock(&place, &lock), WEFT_FAILURE);
}

/* ---- the disk is full, the plug is pulled ---------------------------------------------------- */

static int64_t bytes_of_a_save(const char *folder)
{
    struct faults faults = no_faults();
    struct disk disk = faulty_disk(&faults);
    assert_ok(save_step(&disk, folder, 2, 1));
    return faults.bytes;
}

static void a_full_disk_loses_nothing(void **state)
{
    const char *folder = fresh_folder(*state);
    struct faults none = no_faults();
    struct disk good = faulty_disk(&none);
    int64_t all = bytes_of_a_save(folder), step = 2;
    int stride = rounds_of(100) >= 100 ? 1 : 7;
    assert_ok(save_step(&good, folder, 2, step));
    for (int64_t bytes = 0; bytes < all - 8;
         bytes += stride) { /* numbers have a digit more or less */
        struct faults faults = no_faults();
        faults.bytes_left = bytes;
        struct disk disk = faulty_disk(&faults);
        assert_int_equal(save_step(&disk, folder, 2, step + 1), WEFT_FAILURE);
        assert_non_null(
            strstr(weft_last_error()->message, "cannot be written: No space left on device"));
        assert_string_equal(weft_last_error()->hint,
                            "free some space there, or name a folder on another disk");
        checkpoint_abandon(&(struct checkpoint_place){&disk, folder, 2}, step + 1);
        assert_int_equal(count_entries(folder), 2); /* steps 1 and 2: room was made again */
        assert_int_equal(newest_step(folder), step);
    }
}

/* After every number of operations: the step before or the new one, whole; and the next save sweeps up. */
static void pull_the_plug(const char *folder, int64_t keep, int64_t step, int64_t next)
{
    struct faults none = no_faults();
    struct disk good = faulty_disk(&none);
    weft_status status = WEFT_FAILURE;
    int64_t operations = 0;
    for (; status != WEFT_OK; operations++) {
        remove_tree(folder);
        assert_ok(save_step(&good, folder, keep, step));
        struct faults faults = no_faults();
        faults.operations_left = operations;
        struct disk disk = faulty_disk(&faults);
        status = save_step(&disk, folder, keep, next);
        int64_t found = newest_step(folder);
        assert_true(found == step || found == next);
        assert_true(found == next || status != WEFT_OK);
        if (operations % 5 == 0) {
            assert_ok(save_step(&good, folder, keep, next + 1));
            assert_int_equal(newest_step(folder), next + 1);
            assert_int_equal(count_entries(folder), keep == 1      ? 1
                                                    : next == step ? 2
                                                                   : 3 - (found == step));
        }
    }
    assert_true(operations > 15);
}

static void a_pulled_plug_loses_nothing(void **state)
{
    const char *folder = fresh_folder(*state);
    pull_the_plug(folder, 3, 100, 200);
    pull_the_plug(folder, 1, 100, 200); /* the old one is removed */
    pull_the_plug(folder, 1, 100, 100); /* and replaced */
}

/* Tells of every checkpoint that is finished. */
static void save_until_killed(const char *folder, int tell)
{
    for (int64_t step = 2;; step++)
        if (save_step(&REAL_DISK, folder, 2, step) != WEFT_OK || write(tell, "x", 1) != 1)
            _exit(1);
}

/* Lets a run save steps 2, 3, ... until it is killed; how many it told of. The first one `waits`, and
 * measures how long a step takes; the others are killed at any moment of the first few. */
static int64_t kill_a_run(const char *folder, struct rng *rng, bool waits, double *save_s)
{
    int ends[2], status;
    char told[1 << 12];
    assert_int_equal(pipe(ends), 0);
    double start = wall_seconds();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        save_until_killed(folder, ends[1]);
    close(ends[1]);
    int64_t count = waits ? read(ends[0], told, 1) : 0;
    if (waits)
        *save_s = wall_seconds() - start;
    usleep((useconds_t)(4e6 * *save_s * rng_uniform(rng)));
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status)); /* it had not failed before */
    for (ssize_t got; (got = read(ends[0], told, sizeof told)) > 0;)
        count += got;
    close(ends[0]);
    return count;
}

static void a_killed_run_loses_nothing(void **state)
{
    const char *folder = fresh_folder(*state);
    struct rng rng;
    double save_s = 0;
    rng_seed(&rng, 19);
    for (int round = 0; round < 40; round++) {
        remove_tree(folder);
        assert_ok(save_step(&REAL_DISK, folder, 2, 1));
        int64_t told = kill_a_run(folder, &rng, round == 0, &save_s), found = newest_step(folder);
        assert_in_range(found, 1 + told, 2 + told); /* killed before it could tell */
    }
}

/* ---- damage ---------------------------------------------------------------------------------- */

static void flip_byte(const char *path, int64_t at)
{
    int file = open(path, O_RDWR);
    char byte;
    assert_int_equal(pread(file, &byte, 1, at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(file, &byte, 1, at), 1);
    close(file);
}

static void damaged_manifests_are_refused(void **state)
{
    struct scratch *scratch = *state;
    const char *folder = fresh_folder(scratch);
    const char *path = scratch_path(scratch, "run/step-00000002/checkpoint.json");
    struct checkpoint *checkpoint;
    char *text;
    size_t len;
    assert_ok(save_step(&REAL_DISK, folder, 0, 2));
    assert_ok(file_read(scratch->arena, path, 1 << 20, &text, &len));
    flip_byte(path, strstr(text, "\"samples\": 16") + strlen("\"samples\": 1") - text);
    assert_int_equal(checkpoint_open(folder, &checkpoint), WEFT_BAD_INPUT);
    assert_non_null(strstr(weft_last_error()->message, "expected its checksum to be"));
    assert_ok(save_step(&REAL_DISK, folder, 0, 2));
    assert_int_equal(rename(scratch_path(scratch, "run/step-00000002"),
                            scratch_path(scratch, "run/step-00000003")),
                     0);
    assert_refused(
        checkpoint_open(folder, &checkpoint), WEFT_BAD_INPUT,
        "step-00000003: holds a checkpoint of step 2, expected one of step 3 as its name says");
    assert_int_equal(
        rename(scratch_path(scratch, "run/step-00000003"), scratch_path(scratch, "run/best")), 0);
    assert_ok(checkpoint_open(scratch_path(scratch, "run/best"), &checkpoint));
    checkpoint_close(checkpoint);
    assert_int_equal(mkdir(scratch_path(scratch, "run/step-00000004"), 0777), 0);
    bool exists;
    assert_ok(checkpoint_exists(scratch_path(scratch, "run/step-00000004/"), &exists));
    assert_true(exists); /* damaged: it is no folder to begin in */
    assert_int_equal(checkpoint_open(scratch_path(scratch, "run/step-00000004/"), &checkpoint),
                     WEFT_BAD_INPUT);
    assert_ok(checkpoint_exists(scratch_path(scratch, "nowhere"), &exists));
    assert_false(exists);
}

static void damaged_files_are_refused(void **state)
{
    const char *folder = fresh_folder(*state);
    struct scratch *scratch = *state;
    struct checkpoint *checkpoint;
    struct stat info;
    assert_ok(save_step(&REAL_DISK, folder, 0, 1));
    assert_ok(save_step(&REAL_DISK, folder, 0, 2));
    const char *file = scratch_path(scratch, "run/step-00000002/rank-00001.safetensors");
    assert_int_equal(stat(file, &info), 0);
    flip_byte(file, info.st_size - 1);
    assert_ok(checkpoint_open(folder, &checkpoint));
    assert_int_equal(checkpoint_verify(checkpoint), WEFT_BAD_INPUT);
    assert_non_null(strstr(weft_last_error()->message, "rank-00001.safetensors: has the checksum"));
    struct shard whole = shard_whole(2, RUN[0].shape), row = whole;
    float found[64];
    assert_int_equal(checkpoint_read(checkpoint, RUN[0].name, &whole, found), WEFT_BAD_INPUT);
    row.count = 3; /* the other file has it, and is not damaged */
    assert_ok(checkpoint_read(checkpoint, RUN[0].name, &row, found));
    checkpoint_close(checkpoint);
    assert_int_equal(truncate(file, info.st_size - 1), 0);
    assert_refused(checkpoint_open(folder, &checkpoint), WEFT_BAD_INPUT,
                   arena_printf(scratch->arena,
                                "rank-00001.safetensors: has %lld bytes, expected %lld",
                                (long long)info.st_size - 1, (long long)info.st_size));
    assert_string_equal(
        weft_last_error()->hint,
        arena_printf(scratch->arena, "use the checkpoint before it, %s/step-00000001", folder));
    assert_int_equal(remove(file), 0);
    assert_refused(checkpoint_open(folder, &checkpoint), WEFT_BAD_INPUT,
                   arena_printf(scratch->arena,
                                "rank-00001.safetensors: is missing, expected a file of %lld bytes",
                                (long long)info.st_size));
    assert_refused(checkpoint_open(scratch_path(scratch, "nowhere"), &checkpoint), WEFT_BAD_INPUT,
                   "holds no checkpoint, expected a folder such as step-00000200");
}

static void another_model_is_refused(void **state)
{
    const char *folder = fresh_folder(*state);
    struct checkpoint *checkpoint;
    float found[64];
    assert_ok(save_step(&REAL_DISK, folder, 0, 1));
    assert_ok(checkpoint_open(folder, &checkpoint));
    struct shard other = shard_whole(2, (int64_t[]){6, 4});
    assert_refused(checkpoint_read(checkpoint, RUN[0].name, &other, found), WEFT_BAD_INPUT,
                   "has another shape of 'attn.weight' than the model");
    other = shard_whole(1, (int64_t[]){24});
    assert_refused(checkpoint_read(checkpoint, RUN[0].name, &other, found), WEFT_BAD_INPUT,
                   "has another shape of 'attn.weight' than the model");
    assert_refused(checkpoint_read(checkpoint, "attn.bias", &other, found), WEFT_BAD_INPUT,
                   "holds no tensor 'attn.bias'");
    other = shard_whole(2, RUN[0].shape);
    other.count++;
    assert_refused(checkpoint_read(checkpoint, RUN[0].name, &other, found), WEFT_BAD_INPUT,
                   "has a range after the end of what its digits hold");
    assert_null(checkpoint_find(checkpoint, "attn.bias"));
    assert_int_equal(checkpoint_find(checkpoint, "bias")->shape[0], 5);
    checkpoint_close(checkpoint);
}

/* One rank's shards alone, under a name of its own. */
static struct checkpoint *save_alone(const char *folder, const struct shard_values *shards,
                                     size_t count)
{
    struct arena *arena = arena_new();
    struct checkpoint_place place = {&REAL_DISK, folder, 0};
    struct training_state state = {.step = 1, .seed = 1, .samples = 1, .model = "m", .plan = "p"};
    struct written written;
    struct checkpoint *checkpoint;
    const char *finished;
    assert_ok(checkpoint_begin(&place, 1));
    assert_ok(checkpoint_save(&place, 1, 0, shards, count, &written));
    assert_ok(checkpoint_commit(&place, &state, &written, 1, arena, &finished));
    assert_ok(checkpoint_open(finished, &checkpoint));
    arena_free(arena);
    return checkpoint;
}

static void what_no_file_holds_is_missed(void **state)
{
    static const float DATA[12];
    struct shard half = shard_whole(1, (int64_t[]){12}), whole = half;
    half.digits = 1;
    half.digit[0] = (struct shard_digit){3, 2, 1};
    half.count = 6;
    struct shard_values values = {"w", STORED_F32, half, DATA};
    struct checkpoint *checkpoint = save_alone(fresh_folder(*state), &values, 1);
    float found[12];
    assert_refused(checkpoint_read(checkpoint, "w", &whole, found), WEFT_BAD_INPUT,
                   "lacks 6 of 12 elements of 'w'");
    assert_ok(checkpoint_read(checkpoint, "w", &half, found));
    checkpoint_close(checkpoint);
    struct checkpoint_place place = {&REAL_DISK, scratch_path(*state, "run"), 0};
    struct written written;
    values.shard.count = 7;
    assert_refused(checkpoint_save(&place, 1, 0, &values, 1, &written), WEFT_BAD_INPUT,
                   "the shard of 'w' has a range after the end of what its digits hold");
}

static void dtypes_become_floats(void **state)
{
    static const uint16_t BF16[] = {0x3f80, 0x4049, 0xc000}, F16[] = {0x3c00, 0x3800, 0xc000};
    static const int64_t LONGS[] = {1, 2, 3};
    struct shard shard = shard_whole(1, (int64_t[]){3});
    struct shard_values values[] = {{"b", STORED_BF16, shard, BF16},
                                    {"h", STORED_F16, shard, F16},
                                    {"i", STORED_I64, shard, LONGS}};
    struct checkpoint *checkpoint = save_alone(fresh_folder(*state), values, 3);
    float found[3];
    assert_ok(checkpoint_read(checkpoint, "b", &shard, found));
    assert_true(found[0] == 1 && found[1] == 3.140625F && found[2] == -2);
    assert_ok(checkpoint_read(checkpoint, "h", &shard, found));
    assert_true(found[0] == 1 && found[1] == 0.5F && found[2] == -2);
    assert_refused(checkpoint_read(checkpoint, "i", &shard, found), WEFT_BAD_INPUT,
                   "'i' is of dtype I64, expected F32, F16 or BF16");
    const char *path = scratch_path(*state, "whole.safetensors");
    assert_ok(checkpoint_consolidate(checkpoint, CONSOLIDATE_ALL, &REAL_DISK, path));
    struct tensor_file file; /* as they were stored */
    assert_ok(tensor_file_open(((struct scratch *)*state)->arena, path, &file));
    assert_memory_equal(tensor_file_find(&file, "i")->data, LONGS, sizeof LONGS);
    assert_memory_equal(tensor_file_find(&file, "b")->data, BF16, sizeof BF16);
    tensor_file_close(&file);
    checkpoint_close(checkpoint);
}

#define FILES(name, bytes, hash)                                                                   \
    "[{\"name\": \"" name "\", \"bytes\": " bytes ", \"xxh3\": \"" hash "\"}]"
#define MANIFEST(format, version, step, files)                                                     \
    "{\"format\": \"" format "\", \"version\": " version ", \"run\": \"" HASH "\", "               \
    "\"step\": " step ", \"seed\": 1,\n\"samples\": 3, \"model\": \"m\", \"plan\": \"p\", "        \
    "\"settings\": {\"rate\": \"1\"},\n\"files\": " files ", \"xxh3\": \"" HASH "\"}"
#define HASH "0123456789abcdef"

/* A manifest without one of the keys that it needs, whichever, is refused as that: it is said before the checksum is. */
static void no_key_of_a_manifest_is_missing(void **state)
{
    static const char GOOD[] = MANIFEST("weft-checkpoint", "2", "5", FILES("a", "17", HASH));
    static const char *const KEYS[] = {"run",      "step",  "seed", "samples", "model", "plan",
                                       "settings", "files", "xxh3", "name",    "bytes"};
    struct arena *arena = ((struct scratch *)*state)->arena;
    struct manifest manifest;
    for (size_t i = 0; i < COUNT_OF(KEYS); i++) {
        json_t *whole = json_loads(GOOD, 0, NULL);
        json_t *file = json_array_get(json_object_get(whole, "files"), 0);
        json_object_del(json_object_get(whole, KEYS[i]) ? whole : file, KEYS[i]);
        char *text = json_dumps(whole, 0);
        assert_int_equal(manifest_parse(arena, "c", text, strlen(text), &manifest), WEFT_BAD_INPUT);
        if (!strstr(weft_last_error()->message, arena_printf(arena, "'%s' is missing", KEYS[i])))
            fail_msg("without %s: %s", KEYS[i], weft_last_error()->message);
        free(text);
        json_decref(whole);
    }
}

static void wrong_manifests_are_refused(void **state)
{
    static const struct {
        const char *text, *message;
    } WRONG[] = {
        {MANIFEST("x", "1", "1", "[]"),
         "c:1: is no checkpoint of Weft, expected \"format\": \"weft-checkpoint\""},
        {"[]", "c:1: is no checkpoint of Weft, expected \"format\": \"weft-checkpoint\""},
        {"format: weft-checkpoint\nversion: 2\n",
         "c:1: is not valid JSON: '[' or '{' expected near 'format'"}, /* YAML */
        {MANIFEST("weft-checkpoint", "1", "1", "[]"), "c:1: is of version 1, expected version 2"},
        {MANIFEST("weft-checkpoint", "2", "-1", FILES("a", "1", HASH)),
         "c:1: has a step or a number of samples below 0"},
        {MANIFEST("weft-checkpoint", "2", "1", "[]"), "c:3: expected a list of files"},
        {MANIFEST("weft-checkpoint", "2", "1", "{}"), "c:3: expected a list of files"},
        {MANIFEST("weft-checkpoint", "2", "1", FILES("../a", "1", HASH)),
         "c:3: '../a' is no file of the checkpoint's own folder"},
        {MANIFEST("weft-checkpoint", "2", "1", FILES("a/../../b", "1", HASH)),
         "c:3: 'a/../../b' is no file of the checkpoint's own folder"},
        {MANIFEST("weft-checkpoint", "2", "1", FILES("", "1", HASH)),
         "c:3: '' is no file of the checkpoint's own folder"},
        {MANIFEST("weft-checkpoint", "2", "1", FILES("a", "1", "12")),
         "c:3: '12' is no checksum, expected 16 hexadecimal digits"},
        {MANIFEST("weft-checkpoint", "2", "1", FILES("a", "1", HASH "0")),
         "c:3: '" HASH "0' is no checksum, expected 16 hexadecimal digits"},
        {MANIFEST("weft-checkpoint", "2", "1", FILES("a", "1", "0123456789ABCDEF")),
         "c:3: '0123456789ABCDEF' is no checksum, expected 16 hexadecimal digits"},
    };
    struct arena *arena = ((struct scratch *)*state)->arena;
    struct manifest manifest;
    for (size_t i = 0; i < COUNT_OF(WRONG); i++)
        assert_refused(manifest_parse(arena, "c", WRONG[i].text, strlen(WRONG[i].text), &manifest),
                       WEFT_BAD_INPUT, WRONG[i].message);
    const char *good = MANIFEST("weft-checkpoint", "2", "5", FILES("a", "17", HASH));
    assert_int_equal(manifest_parse(arena, "c", good, strlen(good), &manifest), WEFT_BAD_INPUT);
    assert_non_null(strstr(weft_last_error()->message, "expected its checksum to be " HASH));
    good = manifest_text(arena, &manifest); /* all of it was read */
    assert_ok(manifest_parse(arena, "c", good, strlen(good), &manifest));
    assert_true(manifest.state.run == UINT64_C(0x0123456789abcdef));
    assert_int_equal(manifest.state.settings, 1);
    assert_string_equal(manifest.state.setting[0].value, "1");
    assert_int_equal(manifest.state.step, 5);
    assert_int_equal(manifest.file[0].written.bytes, 17);
    assert_true(manifest.file[0].written.hash == UINT64_C(0x0123456789abcdef));
}

/* Every number of a run's state comes back as itself: each is another one. */
static void a_scaled_loss_is_kept(void **state)
{
    struct arena *arena = ((struct scratch *)*state)->arena;
    struct manifest_file file = {.name = "a", .written = {.bytes = 17}};
    struct manifest manifest = {.state = {.run = 1,
                                          .step = 11,
                                          .seed = 12,
                                          .samples = 13,
                                          .model = "m",
                                          .plan = "p",
                                          .loss_scale = 1024,
                                          .good_steps = 14,
                                          .skipped_steps = 15},
                                .file = &file,
                                .files = 1},
                    again;
    const char *text = manifest_text(arena, &manifest);
    assert_ok(manifest_parse(arena, "c", text, strlen(text), &again));
    assert_int_equal(again.state.step, 11);
    assert_int_equal(again.state.seed, 12);
    assert_int_equal(again.state.samples, 13);
    assert_int_equal(again.state.loss_scale, 1024);
    assert_int_equal(again.state.good_steps, 14);
    assert_int_equal(again.state.skipped_steps, 15);
}

/* ---- other layouts --------------------------------------------------------------------------- */

enum { MOST_RANKS = 60 };

/* Rank after rank, what each saves of a tensor whose elements are their places: first copies alone,
 * or all; whole, or each a part of it as with sharded state. */
static int64_t save_layout(struct rng *rng, const struct checkpoint_place *place, int64_t axes,
                           const int64_t *shape, struct written *written)
{
    int64_t padded[MOST_AXES], ranks = 0, parts = 1 + rng_below(rng, 3);
    bool copies = rng_below(rng, 2);
    random_padding(rng, axes, shape, padded);
    struct layout layout = random_layout(rng, shape_elements(axes, padded));
    while (layout_devices(&layout) * parts > MOST_RANKS)
        layout = random_layout(rng, shape_elements(axes, padded));
    for (int64_t device = 0; device < layout_devices(&layout); device++)
        for (int64_t part = 0; part < parts; part++) {
            struct shard shard = shard_of_layout(axes, shape, padded, &layout, device);
            int64_t places[17 * 17 * 17], local = shard.count;
            float data[17 * 17 * 17];
            shard.first = local * part / parts;
            shard.count = local * (part + 1) / parts - shard.first;
            places_by_definition(&shard, places);
            for (int64_t i = 0; i < shard.count; i++)
                data[i] = places[i] < 0 ? 1e9F : (float)places[i];
            struct shard_values values = {"w", STORED_F32, shard, data};
            bool saves = copies || layout_is_first_copy(&layout, device);
            assert_ok(checkpoint_save(place, 1, ranks, &values, saves, &written[ranks]));
            ranks++;
        }
    return ranks;
}

static void read_layout(struct rng *rng, struct checkpoint *checkpoint, int64_t axes,
                        const int64_t *shape)
{
    int64_t padded[MOST_AXES];
    random_padding(rng, axes, shape, padded);
    struct layout layout = random_layout(rng, shape_elements(axes, padded));
    struct shard shard =
        shard_of_layout(axes, shape, padded, &layout, rng_below(rng, layout_devices(&layout)));
    if (rng_below(rng, 2)) {
        shard.first = rng_below(rng, shard.count);
        shard.count = rng_below(rng, shard.count - shard.first + 1);
    }
    int64_t places[17 * 17 * 17];
    float found[17 * 17 * 17];
    places_by_definition(&shard, places);
    assert_ok(checkpoint_read(checkpoint, "w", &shard, found));
    for (int64_t i = 0; i < shard.count; i++)
        assert_true(found[i] == (places[i] < 0 ? 0 : (float)places[i]));
}

static void any_layout_is_read_under_any_other(void **state)
{
    struct rng rng;
    struct faults faults = no_faults();
    struct disk disk = faulty_disk(&faults);
    const char *folder = fresh_folder(*state);
    rng_seed(&rng, 23);
    for (int round = rounds_of(250); round > 0; round--) {
        struct arena *arena = arena_new();
        struct checkpoint_place place = {&disk, folder, 1};
        struct training_state training = {
            .step = 1, .seed = 1, .samples = 1, .model = "m", .plan = "p"};
        struct written written[MOST_RANKS];
        struct checkpoint *checkpoint;
        const char *finished;
        int64_t shape[MOST_AXES], axes = random_shape(&rng, shape);
        assert_ok(checkpoint_begin(&place, 1));
        int64_t ranks = save_layout(&rng, &place, axes, shape, written);
        assert_ok(checkpoint_commit(&place, &training, written, ranks, arena, &finished));
        assert_ok(checkpoint_open(folder, &checkpoint));
        for (int i = 0; i < 10; i++)
            read_layout(&rng, checkpoint, axes, shape);
        checkpoint_close(checkpoint);
        arena_free(arena);
    }
}

/* ---- whole tensors --------------------------------------------------------------------------- */

static void assert_whole(struct arena *arena, const char *path, int64_t step, bool moments)
{
    struct tensor_file file;
    assert_ok(tensor_file_open(arena, path, &file));
    assert_int_equal(file.tensors, moments ? TENSORS : TENSORS - 2);
    for (int64_t t = 0; t < TENSORS; t++) {
        const struct stored_tensor *tensor = tensor_file_find(&file, RUN[t].name);
        if (!moments && (t == 1 || t == 2)) {
            assert_null(tensor);
            continue;
        }
        assert_int_equal(tensor->axes, RUN[t].axes);
        float found[64];
        assert_true(stored_to_float(tensor->dtype, tensor->data, tensor->elements, found));
        for (int64_t i = 0; i < tensor->elements; i++)
            assert_true(found[i] == value_of(step, t, i));
    }
    assert_string_equal(tensor_file_note(&file, "format"), "pt");
    tensor_file_close(&file);
}

static void tensors_are_made_whole(void **state)
{
    struct arena *arena = ((struct scratch *)*state)->arena;
    const char *folder = fresh_folder(*state), *path = scratch_path(*state, "all.safetensors");
    struct checkpoint *checkpoint;
    assert_ok(save_step(&REAL_DISK, folder, 0, 3));
    assert_ok(checkpoint_open(folder, &checkpoint));
    assert_ok(checkpoint_consolidate(checkpoint, CONSOLIDATE_ALL, &REAL_DISK, path));
    assert_whole(arena, path, 3, true);
    assert_ok(checkpoint_consolidate(checkpoint, CONSOLIDATE_WEIGHTS, &REAL_DISK, path));
    assert_whole(arena, path, 3, false);
    for (int64_t bytes = 0; bytes < 400; bytes += 50) { /* a full disk leaves what was there */
        struct faults faults = no_faults();
        faults.bytes_left = bytes;
        struct disk disk = faulty_disk(&faults);
        assert_int_equal(checkpoint_consolidate(checkpoint, CONSOLIDATE_ALL, &disk, path),
                         WEFT_FAILURE);
        assert_whole(arena, path, 3, false);
        assert_int_not_equal(access(arena_printf(arena, "%s.tmp", path), F_OK), 0);
    }
    checkpoint_close(checkpoint);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_disk_that_does_not_sync_is_a_failure),
        cmocka_unit_test(what_is_saved_is_loaded),
        cmocka_unit_test(the_newest_are_kept),
        cmocka_unit_test(a_step_is_saved_again),
        cmocka_unit_test(other_runs_are_not_pruned),
        cmocka_unit_test(a_folder_is_claimed),
        cmocka_unit_test(a_killed_run_leaves_no_lock),
        cmocka_unit_test(a_full_disk_loses_nothing),
        cmocka_unit_test(a_pulled_plug_loses_nothing),
        cmocka_unit_test(a_killed_run_loses_nothing),
        cmocka_unit_test(damaged_manifests_are_refused),
        cmocka_unit_test(damaged_files_are_refused),
        cmocka_unit_test(another_model_is_refused),
        cmocka_unit_test(what_no_file_holds_is_missed),
        cmocka_unit_test(dtypes_become_floats),
        cmocka_unit_test(wrong_manifests_are_refused),
        cmocka_unit_test(no_key_of_a_manifest_is_missing),
        cmocka_unit_test(a_scaled_loss_is_kept),
        cmocka_unit_test(any_layout_is_read_under_any_other),
        cmocka_unit_test(tensors_are_made_whole),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
