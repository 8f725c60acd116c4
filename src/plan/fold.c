/* fold.c - runs of instances with equal choices, under names that people and plan files can read.
 *
 *   I1  A run consists of copies of one operator, in order, whose paths differ in one number that
 *       grows by equal steps: "layers.0-39.attn.qkv". Every instance is in exactly one run.
 *   I2  A run's path, used as a pattern, names the run's instances; anything else that it matches
 *       is named by a deeper run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/pattern.h"

/* A run that may still grow. */
struct growing {
    int64_t first, last, count; /* instances; count 0: no run */
    int place;                  /* the name whose number changes; -1 while there is one copy */
    int64_t stride;
};

struct run_folding {
    struct arena *keep;
    const struct plan *plan;
    struct name_paths paths;
    struct growing *of_op; /* per operator */
    struct plan_runs *out;
};

/* An instance without a plain path is named by its number. */
static struct name_path name_of(struct run_folding *fold, struct arena *scratch, int64_t instance)
{
    if (fold->paths.plain[instance])
        return fold->paths.path[instance];
    return path_split(scratch, arena_printf(scratch, "#.%lld", (long long)instance));
}

static bool number_of(const char *name, int64_t *out)
{
    return name[0] >= '0' && name[0] <= '9' && parse_int(name, out);
}

/* The one place where two paths differ, by a number that grows; -1 if there is no such place. */
static int growing_place(const struct name_path *a, const struct name_path *b, int64_t *stride)
{
    int place = -1;
    if (a->names != b->names)
        return -1;
    for (int i = 0; i < a->names; i++) {
        int64_t from, to;
        if (strcmp(a->name[i], b->name[i]) == 0)
            continue;
        if (place >= 0 || !number_of(a->name[i], &from) || !number_of(b->name[i], &to) ||
            to <= from)
            return -1;
        place = i;
        *stride = to - from;
    }
    return place;
}

static const char *run_path(struct arena *keep, const struct name_path *first,
                            const struct name_path *last, const struct growing *run)
{
    const char *text = "";
    for (int i = 0; i < first->names; i++) {
        text = arena_printf(keep, "%s%s%s", text, i ? "." : "", first->name[i]);
        if (i == run->place)
            text = arena_printf(keep, "%s-%s", text, last->name[i]);
        if (i == run->place && run->stride > 1)
            text = arena_printf(keep, "%s/%lld", text, (long long)run->stride);
    }
    return text;
}

static void finish(struct run_folding *fold, const struct growing *run)
{
    struct arena *scratch = arena_new();
    struct name_path first = name_of(fold, scratch, run->first);
    struct name_path last = name_of(fold, scratch, run->last);
    struct plan_run done = {.path =
                                arena_copy_text(fold->keep, run_path(scratch, &first, &last, run)),
                            .first = run->first,
                            .count = run->count,
                            .choice = fold->plan->choice_of[run->first]};
    array_push(fold->keep, fold->out, done);
    arena_free(scratch);
}

static bool grow(struct run_folding *fold, struct growing *run, int64_t instance)
{
    struct arena *scratch = arena_new();
    struct name_path before = name_of(fold, scratch, run->last);
    struct name_path next = name_of(fold, scratch, instance);
    int64_t stride = 0;
    int place = growing_place(&before, &next, &stride);
    arena_free(scratch);
    bool fits = place >= 0 && (run->place < 0 || (run->place == place && run->stride == stride));
    if (!fits || fold->plan->choice_of[instance] != fold->plan->choice_of[run->first])
        return false;
    run->place = place;
    run->stride = stride;
    run->last = instance;
    run->count++;
    return true;
}

static void add(struct run_folding *fold, int64_t instance)
{
    struct growing *run = &fold->of_op[fold->plan->instance[instance].op];
    if (run->count > 0 && grow(fold, run, instance))
        return;
    if (run->count > 0)
        finish(fold, run);
    *run = (struct growing){instance, instance, 1, -1, 0};
}

static int by_first(const void *a, const void *b)
{
    const struct plan_run *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

void plan_fold(struct arena *keep, const struct plan *plan, struct plan_runs *out)
{
    struct arena *scratch = arena_new();
    struct run_folding fold = {keep, plan, paths_of(scratch, plan), NULL, out};
    fold.of_op = ARENA_ARRAY(scratch, struct growing, (size_t)plan->model->ops);
    for (int64_t i = 0; i < plan->instances; i++)
        add(&fold, i);
    for (int32_t op = 0; op < plan->model->ops; op++)
        if (fold.of_op[op].count > 0)
            finish(&fold, &fold.of_op[op]);
    qsort(out->data, out->len, sizeof *out->data, by_first);
    arena_free(scratch);
}

/* ---- the ends of parts ----------------------------------------------------------------------- */

static bool begins_alike(const struct name_path *a, const struct name_path *b, int names)
{
    if (a->names < names || b->names < names)
        return false;
    for (int i = 0; i < names; i++)
        if (strcmp(a->name[i], b->name[i]) != 0)
            return false;
    return true;
}

/* Whether no instance beyond this one, in the direction of `step`, shares its first `names`
 * names. */
static bool is_edge(const struct plan *plan, const struct name_paths *paths, int64_t at, int names,
                    int step)
{
    for (int64_t i = at + step; i >= 0 && i < plan->instances; i += step)
        if (begins_alike(&paths->path[at], &paths->path[i], names))
            return false;
    return true;
}

/* The highest node that ends (step 1) or begins (step -1) with this instance. */
static const char *edge_name(struct arena *keep, const struct plan *plan,
                             const struct name_paths *paths, int64_t at, int step)
{
    const struct name_path *path = &paths->path[at];
    int names = 1;
    while (names < path->names && !is_edge(plan, paths, at, names, step))
        names++;
    if (!paths->plain[at] || !is_edge(plan, paths, at, names, step))
        return arena_printf(keep, "#.%lld", (long long)at);
    const char *text = arena_copy_text(keep, path->name[0]);
    for (int i = 1; i < names; i++)
        text = arena_printf(keep, "%s.%s", text, path->name[i]);
    return text;
}

const struct part_names *plan_part_names(struct arena *keep, const struct plan *plan)
{
    struct arena *scratch = arena_new();
    struct name_paths paths = paths_of(scratch, plan);
    struct part_names *names = ARENA_ARRAY(keep, struct part_names, (size_t)plan->parts);
    for (int32_t i = 0; i < plan->parts; i++) {
        int64_t first = plan->part[i].first, last = first + plan->part[i].count - 1;
        names[i].first = edge_name(keep, plan, &paths, first, -1);
        names[i].last = edge_name(keep, plan, &paths, last, 1);
    }
    arena_free(scratch);
    return names;
}
