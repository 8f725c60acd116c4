/* flags.c - the arguments that releases of Megatron-LM take, with their types.
 *
 * Each row of the table of targets has the list of its release, made from releases/ when Weft is built. An argument of
 * a file that is read may be any release's: the first row that has it decides its type.
 */
#include <string.h>

#include "target/room.h"

/* clang-format off */
/* Of scripts older than the first release that is listed, or newer than the last; they are read, but not written. */
static const struct listed_flag OTHERS[] = {
    {"head-wise-attn-gate", "switch"}, {"retriever-seq-length", "int"}, {0},
};

/* Arguments of torchrun (documentation of torch.distributed.run) and srun. */
static const char *const LAUNCHER[] = {
    "nnodes", "nproc-per-node", "nproc_per_node", "node-rank", "node_rank", "master-addr",
    "master_addr", "master-port", "master_port", "rdzv-backend", "rdzv_backend", "rdzv-endpoint",
    "rdzv_endpoint", "rdzv-id", "rdzv_id", "rdzv-conf", "rdzv_conf", "max-restarts",
    "max_restarts", "standalone", "log-dir", "tee", "redirects", "nodes", "ntasks",
    "ntasks-per-node", "gpus-per-node", "container-image", "container-mounts", "kill-on-bad-exit",
    "no-container-mount-home", "gres", "cpus-per-task", "partition", "account", "job-name", "time",
    "exclusive", "output", "error", "mem",
};
/* clang-format on */

/* The types of the lists; a list in one string, such as `numbers`, is a word. */
static enum flag_type type_named(const char *name)
{
    static const struct {
        const char *name;
        enum flag_type type;
    } TYPES[] = {{"switch", FLAG_SWITCH}, {"int", FLAG_INT},    {"real", FLAG_REAL},
                 {"words", FLAG_WORDS},   {"ints", FLAG_WORDS}, {"reals", FLAG_WORDS}};
    int at = NAME_INDEX(name, TYPES);
    return at < 0 ? FLAG_WORD : TYPES[at].type;
}

static const struct listed_flag *find_listed(const struct listed_flag *list, const char *name)
{
    while (list && list->name && strcmp(list->name, name) != 0)
        list++;
    return list && list->name ? list : NULL;
}

enum flag_type target_flag(const struct target *target, const char *name)
{
    const struct listed_flag *flag = find_listed(target->flags, name);
    flag = flag ? flag : find_listed(target->image_flags, name);
    return flag ? type_named(flag->type) : FLAG_UNKNOWN;
}

enum flag_type any_flag(const char *name)
{
    enum flag_type type = FLAG_UNKNOWN;
    for (size_t i = 0; i < target_count() && type == FLAG_UNKNOWN; i++)
        type = target_flag(target_at(i), name);
    const struct listed_flag *other = find_listed(OTHERS, name);
    return type == FLAG_UNKNOWN && other ? type_named(other->type) : type;
}

const char *any_flag_near(const char *name)
{
    struct arena *scratch = arena_new();
    struct texts all = {0};
    for (size_t i = 0; i < target_count(); i++)
        for (const struct listed_flag *flag = target_at(i)->flags; flag && flag->name; flag++)
            add_text(scratch, &all, flag->name);
    const char *near = nearest_word(name, all.data, all.len);
    arena_free(scratch);
    return near;
}

bool launcher_flag(const char *name)
{
    return name_index(name, LAUNCHER, sizeof *LAUNCHER, COUNT_OF(LAUNCHER)) >= 0;
}
