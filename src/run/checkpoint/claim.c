/* claim.c - a folder that is one run's to save in, before its first step (checkpoint.h). */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run/checkpoint/folder.h"
#include "run/checkpoint/room.h"

/* ---- the lock (I6) --------------------------------------------------------------------------- */

static const char LOCK_NAME[] = ".lock";

static weft_status make_folder(const struct checkpoint_place *place)
{
    struct stat info;
    const struct disk *disk = place->disk;
    if (stat(place->folder, &info) == 0 && !S_ISDIR(info.st_mode))
        return bad_argument(NULL, "%s: is a file, expected a folder for checkpoints",
                            place->folder);
    if (disk->make_folder(disk->context, place->folder) != 0 && errno != EEXIST)
        return file_failure(place->folder, "made");
    return WEFT_OK;
}

static weft_status refuse_locked(const char *folder, int lock)
{
    char holder[256] = "";
    ssize_t len = pread(lock, holder, sizeof holder - 1, 0);
    if (len > 0)
        holder[strcspn(holder, "\n")] = '\0';
    return bad_argument("wait until it ends, or name another folder",
                        "%s: another run saves its checkpoints there%s%s", folder,
                        *holder ? ": " : "", holder);
}

/* Who has it, for others to read; nothing rests on it. */
static void sign(int lock)
{
    char host[64] = "", text[128];
    gethostname(host, sizeof host - 1);
    int len = snprintf(text, sizeof text, "process %ld on %s\n", (long)getpid(), host);
    if (ftruncate(lock, 0) == 0 && pwrite(lock, text, (size_t)len, 0) == len)
        fsync(lock);
}

static weft_status take_lock(const char *folder, const char *path, int *out)
{
    weft_status status = WEFT_OK;
    int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (lock < 0)
        return file_failure(path, "created");
    if (flock(lock, LOCK_EX | LOCK_NB) == 0)
        sign(lock);
    else if (errno == EWOULDBLOCK)
        status = refuse_locked(folder, lock);
    if (status != WEFT_OK)
        close(lock);
    else
        *out = lock;
    return status;
}

weft_status checkpoint_lock(const struct checkpoint_place *place, int *lock)
{
    struct arena *scratch = arena_new();
    weft_status status;
    *lock = -1;
    TRY(make_folder(place));
    TRY(take_lock(place->folder, arena_printf(scratch, "%s/%s", place->folder, LOCK_NAME), lock));
done:
    arena_free(scratch);
    return status;
}

void checkpoint_unlock(int lock)
{
    if (lock >= 0)
        close(lock);
}

/* ---- whose folder it is (I5) ----------------------------------------------------------------- */

/* Whether what the run goes on from lies in this folder. */
static bool is_from(const struct checkpoint *resumed, const char *folder, struct arena *scratch)
{
    struct stat named, there;
    return resumed &&
           stat(checkpoint_step_folder(scratch, folder, resumed->manifest.state.step), &there) ==
               0 &&
           stat(resumed->folder, &named) == 0 && named.st_dev == there.st_dev &&
           named.st_ino == there.st_ino;
}

static uint64_t draw_run(void)
{
    uint64_t run;
    if (getrandom(&run, sizeof run, 0) == (ssize_t)sizeof run)
        return run;
    double now[2] = {wall_seconds(), (double)getpid()};
    return hash_bytes(now, sizeof now, 0);
}

static weft_status check_others(const struct checkpoint_place *place,
                                const struct training_state *from, struct arena *scratch)
{
    struct steps steps;
    weft_status status = checkpoint_steps(scratch, place->folder, &steps);
    for (size_t i = steps.len; status == WEFT_OK && i-- > 0;) {
        int64_t step = steps.data[i];
        if (!from || step > from->step || !is_of_run(place->folder, step, from->run))
            return bad_argument(
                "--resume goes on from it; --overwrite lets this run replace it; or "
                "name another folder",
                "%s: is the checkpoint of another run, or a later one of this run",
                checkpoint_step_folder(scratch, place->folder, step));
    }
    return status;
}

static weft_status check_space(const struct checkpoint_place *place, int64_t bytes)
{
    int64_t space = place->disk->space(place->disk->context, place->folder);
    if (space < 0)
        return file_failure(place->folder, "examined");
    if (space >= bytes)
        return WEFT_OK;
    failure("%s: has space for %s, expected %s for a checkpoint", place->folder,
            show_bytes((double)space).s, show_bytes((double)bytes).s);
    error_hint("free some space there, or name a folder on another disk");
    return WEFT_FAILURE;
}

weft_status checkpoint_claim(const struct checkpoint_place *place, const struct checkpoint *resumed,
                             int64_t bytes, uint64_t *run)
{
    struct arena *scratch = arena_new();
    const struct training_state *from =
        is_from(resumed, place->folder, scratch) ? &resumed->manifest.state : NULL;
    weft_status status;
    *run = from ? from->run : draw_run();
    if (!place->overwrite)
        TRY(check_others(place, from, scratch));
    TRY(check_space(place, bytes));
done:
    arena_free(scratch);
    return status;
}
