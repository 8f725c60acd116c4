/* fold.c - the short model, its places, and its tables as tables of the whole model (fold.h has the
 * equation). */
#include "search/aceso/fold.h"

#include <string.h>

enum { ENDS = 1, MIDDLE = 1, LEAST_COPIES = 2 * ENDS + 2 * MIDDLE }; /* I2 */

/* ---- the short model ------------------------------------------------------------------------- */

static bool in_repeat(const struct model *model, int32_t module)
{
    for (int32_t m = model->module[module].parent; m >= 0; m = model->module[m].parent)
        if (model->module[m].repeat > 1)
            return true;
    return false;
}

static int64_t short_copies(int64_t copies)
{
    return 2 * ENDS + MIDDLE + (copies - 2 * ENDS) % MIDDLE;
}

static bool may_fold(const struct model *model, int32_t module)
{
    const struct module *m = &model->module[module];
    return m->repeat >= LEAST_COPIES && m->ops > 0 && !in_repeat(model, module);
}

static struct model short_model(struct arena *keep, const struct model *model)
{
    struct model out = *model;
    out.module = ARENA_ARRAY(keep, struct module, (size_t)model->modules);
    memcpy(out.module, model->module, (size_t)model->modules * sizeof *out.module);
    for (int32_t i = 0; i < model->modules; i++)
        if (may_fold(model, i))
            out.module[i].repeat = short_copies(model->module[i].repeat);
    return out;
}

/* ---- places ---------------------------------------------------------------------------------- */

/* Finds the first instance of a module, and how many it has in all. */
static void find_extent(const struct plan *walk, const struct module *m, int64_t *first,
                        int64_t *count)
{
    *first = -1;
    *count = 0;
    for (int64_t i = 0; i < walk->instances; i++) {
        int32_t op = walk->instance[i].op;
        if (op < m->first_op || op >= m->first_op + m->ops)
            continue;
        *first = *first < 0 ? i : *first;
        ++*count;
    }
}

/* Repeats are in the order of their first operators, as modules are. */
static void find_repeats(struct arena *keep, const struct plan *whole, struct folding *fold)
{
    const struct model *model = whole->model;
    int64_t left_out = 0;
    fold->repeat = ARENA_ARRAY(keep, struct fold_repeat, (size_t)model->modules);
    for (int32_t i = 0; i < model->modules; i++) {
        int64_t first, count;
        if (!may_fold(model, i))
            continue;
        find_extent(whole, &model->module[i], &first, &count);
        int64_t each = count / model->module[i].repeat;
        int64_t copies = model->module[i].repeat - fold->model.module[i].repeat;
        first += ENDS * each;
        fold->repeat[fold->repeats++] =
            (struct fold_repeat){first, MIDDLE * each, 1 + copies / MIDDLE, first - left_out};
        left_out += copies * each;
    }
}

static void find_places(struct arena *keep, struct folding *fold)
{
    int64_t left_out = 0, at = 0;
    fold->place = ARENA_ARRAY(keep, int32_t, (size_t)fold->instances + 1);
    for (int32_t r = 0; r <= fold->repeats; r++) {
        const struct fold_repeat *repeat = &fold->repeat[r];
        int64_t end = r < fold->repeats ? repeat->first : fold->instances + 1;
        for (; at < end; at++)
            fold->place[at] = (int32_t)(at - left_out);
        if (r == fold->repeats)
            return;
        for (; at < repeat->first + repeat->length * repeat->times; at++)
            fold->place[at] =
                (int32_t)(repeat->short_first + (at - repeat->first) % repeat->length);
        left_out += repeat->length * (repeat->times - 1);
    }
}

weft_status folding_new(struct arena *keep, const struct model *model,
                        const struct cluster *cluster, struct folding *out)
{
    struct plan *whole = NULL;
    weft_status status;
    *out = (struct folding){.model = short_model(keep, model)};
    TRY(plan_new(model, cluster, &whole));
    out->instances = whole->instances;
    find_repeats(keep, whole, out);
    find_places(keep, out);
done:
    plan_free(whole);
    return status;
}

/* ---- tables ---------------------------------------------------------------------------------- */

struct whole_table *whole_table_new(struct arena *keep, const struct folding *fold,
                                    const struct row_table *table)
{
    struct whole_table *out = ARENA_NEW(keep, struct whole_table);
    *out =
        (struct whole_table){.table = table,
                             .fold = fold,
                             .middle = ARENA_ARRAY(keep, struct sums, (size_t)fold->repeats + 1)};
    for (int32_t r = 0; r < fold->repeats; r++) {
        const struct fold_repeat *repeat = &fold->repeat[r];
        const int64_t *from = table->at[repeat->short_first].of;
        const int64_t *to = table->at[repeat->short_first + repeat->length].of;
        for (int k = 0; k < SUM_COUNT; k++)
            out->middle[r].of[k] = to[k] - from[k];
    }
    return out;
}

/* How many times more than once the middle of a repeat was passed before a place. */
static int64_t left_out(const struct fold_repeat *repeat, int64_t place)
{
    if (place < repeat->first)
        return 0;
    int64_t times = (place - repeat->first) / repeat->length;
    return times < repeat->times ? times : repeat->times - 1;
}

int64_t whole_sum(const struct whole_table *table, enum tally tally, int64_t first, int64_t last)
{
    const struct folding *fold = table->fold;
    int64_t sum = table->table->at[fold->place[last]].of[tally] -
                  table->table->at[fold->place[first]].of[tally];
    for (int32_t r = 0; r < fold->repeats; r++)
        sum += (left_out(&fold->repeat[r], last) - left_out(&fold->repeat[r], first)) *
               table->middle[r].of[tally];
    return sum;
}

static void add_sums(const struct whole_table *table, int64_t first, int64_t last, int64_t *of)
{
    const struct folding *fold = table->fold;
    const int64_t *from = table->table->at[fold->place[first]].of;
    const int64_t *to = table->table->at[fold->place[last]].of;
    for (int k = 0; k < SUM_COUNT; k++)
        of[k] += to[k] - from[k];
    for (int32_t r = 0; r < fold->repeats; r++) {
        int64_t times = left_out(&fold->repeat[r], last) - left_out(&fold->repeat[r], first);
        for (int k = 0; times && k < SUM_COUNT; k++)
            of[k] += times * table->middle[r].of[k];
    }
}

/* ---- the most that is held ------------------------------------------------------------------- */

struct high {
    int64_t forward, backward, weight; /* above what is held at the start of each pass */
};

/* Raises the peaks by a stretch (I1) of a run: `before` is W(its start) - W(the run's start),
 * `after` is W(the run's end) - W(its end). */
static void raise(const struct whole_table *w, int64_t first, int64_t last, int64_t run_first,
                  int64_t run_last, struct high *high)
{
    const struct row_table *t = w->table;
    int64_t from = w->fold->place[first], to = from + (last - first);
    int64_t forward = range_max(&t->forward_max, from, to) - t->at[from].of[SUM_KEPT] +
                      whole_sum(w, SUM_KEPT, run_first, first);
    int64_t backward = range_max(&t->backward_max, from, to) + t->at[to].of[SUM_BACK] +
                       whole_sum(w, SUM_BACK, last, run_last);
    high->forward = forward > high->forward ? forward : high->forward;
    high->backward = backward > high->backward ? backward : high->backward;
    if (!t->weight_high)
        return;
    int64_t weight = range_max(&t->weight_max, from, to) + t->at[to].of[SUM_BACK_WEIGHT] +
                     whole_sum(w, SUM_BACK_WEIGHT, last, run_last);
    high->weight = weight > high->weight ? weight : high->weight;
}

/* Each time round the middle changes the sums by the same amounts (I1), so only the first two and
 * the last two times in a run can be the peak. */
static void raise_middle(const struct whole_table *w, const struct fold_repeat *repeat,
                         int64_t run_first, int64_t run_last, struct high *high)
{
    int64_t end = repeat->first + repeat->length * repeat->times;
    int64_t from = run_first > repeat->first ? run_first : repeat->first;
    int64_t to = run_last < end ? run_last : end;
    if (from >= to)
        return;
    int64_t first = (from - repeat->first) / repeat->length;
    int64_t last = (to - 1 - repeat->first) / repeat->length;
    for (int64_t time = first; time <= last; time++) {
        int64_t start = repeat->first + time * repeat->length, stop = start + repeat->length;
        raise(w, start > from ? start : from, stop < to ? stop : to, run_first, run_last, high);
        if (time == first + 1 && last - 2 > time)
            time = last - 2;
    }
}

static struct high high_of(const struct whole_table *w, int64_t first, int64_t last)
{
    struct high high = {INT64_MIN, INT64_MIN, INT64_MIN};
    int64_t from = first;
    for (int32_t r = 0; r <= w->fold->repeats; r++) {
        const struct fold_repeat *repeat = r < w->fold->repeats ? &w->fold->repeat[r] : NULL;
        int64_t to = !repeat || repeat->first > last ? last : repeat->first;
        if (from < to)
            raise(w, from, to, first, last, &high);
        if (!repeat)
            break;
        raise_middle(w, repeat, first, last, &high);
        int64_t end = repeat->first + repeat->length * repeat->times;
        from = from > end ? from : end;
    }
    return high;
}

/* The rise of a run in a backward pass that has gone through the runs after it, with the rise
 * `so_far`. */
static int64_t raise_back(int64_t rise, int64_t net, int64_t so_far)
{
    return rise > so_far + net ? rise : so_far + net;
}

/* The synchronisation time of the first weight of a run that has gradients to synchronise. */
static int64_t first_sync(const struct whole_table *w, int64_t first, int64_t last)
{
    int64_t ns = 0;
    for (int64_t i = first; i < last && ns == 0; i++) {
        int64_t place = w->fold->place[i];
        ns = w->table->at[place + 1].of[SUM_SYNC] - w->table->at[place].of[SUM_SYNC];
    }
    return ns;
}

void add_whole_run(struct part_sums *part, const struct whole_table *table, int64_t first,
                   int64_t last)
{
    struct high high = high_of(table, first, last);
    struct sums before = part->sums;
    int64_t forward = high.forward + part->sums.of[SUM_KEPT];
    part->forward_rise = forward > part->forward_rise ? forward : part->forward_rise;
    part->backward_rise =
        raise_back(high.backward, whole_sum(table, SUM_BACK, first, last), part->backward_rise);
    if (table->table->weight_high)
        part->weight_rise = raise_back(high.weight, whole_sum(table, SUM_BACK_WEIGHT, first, last),
                                       part->weight_rise);
    add_stand_in(part, table->table, whole_sum(table, SUM_LAYERS, first, last));
    add_sums(table, first, last, part->sums.of);
    bool any = part->sums.of[SUM_SYNC] > before.of[SUM_SYNC];
    close_run(part, table->table, &before, any ? first_sync(table, first, last) : 0);
}
