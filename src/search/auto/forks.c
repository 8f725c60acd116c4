/* forks.c - where a plan's operators part into branches that do not need each other (forks.h).
 *
 * Of an operator that reads several tensors, the join, branch k has the operators whose outputs are for its input k alone:
 *
 *   i is in branch k if everyone who reads i is in branch k, or is the join and reads it as input k              (1)
 *
 *   I1  No operator of a branch reads what one of another branch of the same join has made.
 *   I2  A fork is within one part. Joins are looked at from the last to the first, and an operator is in one fork at most:
 *       the outermost.
 *   I3  Readers come after what they read, so that one walk backwards knows all readers of an operator before it.
 */
#include "search/auto/forks.h"

#include <string.h>

struct fork_walk {
    const struct plan *plan;
    struct arena *keep;
    struct instance_index index;
    /* per use: who reads it as which input, and an earlier use of the same source, -1: none */
    int64_t *reader, *next;
    int32_t *operand;
    int64_t *last_use; /* per instance, -1: nobody reads it */
    int32_t *seen,
        *mark; /* per instance: the turn in which it was looked at, and found to be in a branch */
    int32_t turn;
    bool *taken; /* per instance: it is in a fork (I2) */
};

static const struct op *op_at(const struct fork_walk *w, int64_t instance)
{
    return &w->plan->model->op[w->plan->instance[instance].op];
}

static int64_t source_of(const struct fork_walk *w, int64_t reader, int32_t operand)
{
    return instance_source(&w->index, &w->plan->instance[reader],
                           op_at(w, reader)->input[operand].tensor);
}

static struct fork_walk start_walk(struct arena *scratch, struct arena *keep,
                                   const struct plan *plan)
{
    size_t count = (size_t)plan->instances, uses = 0;
    struct fork_walk w = {.plan = plan, .keep = keep, .index = plan_index(scratch, plan)};
    for (int64_t i = 0; i < plan->instances; i++)
        uses += (size_t)op_at(&w, i)->inputs;
    w.reader = ARENA_ARRAY(scratch, int64_t, uses);
    w.next = ARENA_ARRAY(scratch, int64_t, uses);
    w.operand = ARENA_ARRAY(scratch, int32_t, uses);
    w.last_use = ARENA_ARRAY(scratch, int64_t, count);
    w.seen = ARENA_ARRAY(scratch, int32_t, count);
    w.mark = ARENA_ARRAY(scratch, int32_t, count);
    w.taken = ARENA_ARRAY(scratch, bool, count);
    memset(w.last_use, -1, count * sizeof *w.last_use);
    return w;
}

static void find_readers(struct fork_walk *w)
{
    int64_t use = 0;
    for (int64_t i = 0; i < w->plan->instances; i++)
        for (int32_t k = 0; k < op_at(w, i)->inputs; k++, use++) {
            int64_t source = source_of(w, i, k);
            w->reader[use] = i;
            w->operand[use] = k;
            w->next[use] = source < 0 ? -1 : w->last_use[source];
            if (source >= 0)
                w->last_use[source] = use;
        }
}

/* (1) */
static bool is_for(const struct fork_walk *w, int64_t instance, int64_t join, int32_t k)
{
    bool all = !w->taken[instance];
    for (int64_t u = w->last_use[instance]; u >= 0 && all; u = w->next[u])
        all = w->reader[u] == join ? w->operand[u] == k : w->mark[w->reader[u]] == w->turn;
    return all;
}

/* Notes that an instance is to be looked at; returns how many that is. */
static int64_t look_at(struct fork_walk *w, int64_t instance, int64_t first)
{
    if (instance < first || w->seen[instance] == w->turn)
        return 0;
    w->seen[instance] = w->turn;
    return 1;
}

static struct fork_branch branch_of(struct fork_walk *w, int64_t join, int32_t k, int64_t first)
{
    struct fork_branch branch = {0};
    int64_t source = source_of(w, join, k);
    w->turn++;
    int64_t left = look_at(w, source, first);
    for (int64_t i = source; left > 0; i--) { /* I3 */
        if (w->seen[i] != w->turn)
            continue;
        left--;
        if (!is_for(w, i, join, k))
            continue;
        w->mark[i] = w->turn;
        array_push(w->keep, &branch, i);
        for (int32_t j = 0; j < op_at(w, i)->inputs; j++)
            left += look_at(w, source_of(w, i, j), first);
    }
    return branch;
}

static void find_fork(struct fork_walk *w, int64_t join, int64_t first, struct forks *out)
{
    struct fork fork = {.join = join};
    for (int32_t k = 0; k < op_at(w, join)->inputs; k++) {
        struct fork_branch branch = branch_of(w, join, k, first);
        if (branch.len)
            array_push(w->keep, &fork.branches, branch);
    }
    if (fork.branches.len < 2)
        return;
    for (size_t b = 0; b < fork.branches.len; b++)
        for (size_t i = 0; i < fork.branches.data[b].len; i++)
            w->taken[fork.branches.data[b].data[i]] = true;
    array_push(w->keep, out, fork);
}

void find_forks(struct arena *keep, const struct plan *plan, struct forks *out)
{
    struct arena *scratch = arena_new();
    struct fork_walk w = start_walk(scratch, keep, plan);
    find_readers(&w);
    for (int32_t p = 0; p < plan->parts; p++) {
        int64_t first = plan->part[p].first;
        for (int64_t i = first + plan->part[p].count - 1; i >= first; i--)
            if (op_at(&w, i)->inputs > 1)
                find_fork(&w, i, first, out);
    }
    arena_free(scratch);
}
