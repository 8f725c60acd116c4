/* part_sums.c - runs of tables as parts: what they hold, and how long their passes take.
 *
 * The gradients of a run start when the first of its n buckets is full, and are sent beside what is
 * left of the last pass; both slow down by s while they overlap. With b the run's part of that
 * pass, g the time of its gradients, l that of its last bucket (g / n, or its first weight where
 * that is larger), and q the time that gradients of later runs still need when the run begins, the
 * time still needed when the run is over is
 *
 *   max(l, g - b (1 - 1 / n) / s, q + g - b / s)  =  max(least, q + more)                      (1)
 *
 * The runs of a part are taken from its last to its first, and two such functions of q in a row
 * make one of the same kind: max(a, max(c, q + d) + b) = max(max(a, c + b), q + d + b).
 */
#include "search/estimate/tables_room.h"

/* ---- runs ------------------------------------------------------------------------------------ */

/* The rise of a run in a backward pass that has already gone through the runs after it, with the
 * rise `so far`. For n times in a row, with r its rise and c what it adds: max(r + max(0, (n - 1)
 * c), so far + n c). */
static int64_t raise_back(const struct range_max *ranges, const struct row_table *table,
                          enum tally net, const struct place_range *range, int64_t so_far)
{
    int64_t start = table->at[range->last].of[net];
    int64_t rise = range_max(ranges, range->first, range->last) + start;
    int64_t adds = start - table->at[range->first].of[net];
    rise += adds > 0 ? (range->times - 1) * adds : 0;
    so_far += range->times * adds;
    return rise > so_far ? rise : so_far;
}

void add_places(struct part_sums *part, const struct row_table *table,
                const struct place_range *range)
{
    const int64_t *from = table->at[range->first].of, *to = table->at[range->last].of;
    int64_t kept = to[SUM_KEPT] - from[SUM_KEPT];
    int64_t forward = range_max(&table->forward_max, range->first, range->last) - from[SUM_KEPT];
    forward += part->sums.of[SUM_KEPT] + (kept > 0 ? (range->times - 1) * kept : 0);
    part->forward_rise = forward > part->forward_rise ? forward : part->forward_rise;
    part->backward_rise =
        raise_back(&table->backward_max, table, SUM_BACK, range, part->backward_rise);
    if (table->weight_high)
        part->weight_rise =
            raise_back(&table->weight_max, table, SUM_BACK_WEIGHT, range, part->weight_rise);
    for (int k = 0; k < SUM_COUNT; k++)
        part->sums.of[k] += range->times * (to[k] - from[k]);
    add_stand_in(part, table, to[SUM_LAYERS] - from[SUM_LAYERS]);
}

/* The number of gradient buckets: full ones, and never more than there are weights. */
static double buckets_of(const int64_t *of, const struct row_table *table)
{
    double full = table->layers       ? (double)of[SUM_LAYERS]
                  : table->step_bytes ? (double)of[SUM_SYNC_BYTES] / (double)table->step_bytes
                                      : 1;
    double most = (double)of[SUM_WEIGHTS];
    full = full < most ? full : most;
    return full > 1 ? full : 1;
}

/* (1) */
static void add_sync(struct sync_sums *sync, const struct row_table *table, const int64_t *run,
                     int64_t first_ns, bool first)
{
    double share = 1 / buckets_of(run, table), own = (double)run[SUM_SYNC];
    double beside = (double)run[SUM_LAST] * table->pace;
    double left = own - beside * (1 - share), least = own * share;
    least = least > (double)first_ns ? least : (double)first_ns;
    left = (left > least ? left : least) + sync->more;
    sync->least = left > sync->least ? left : sync->least;
    sync->more += own - beside;
    sync->known += own;
    sync->last_bucket = first ? least : sync->last_bucket;
}

static void note_waits(struct part_sums *part, const int64_t *run)
{
    static const enum tally PASS[WAIT_COUNT] = {SUM_FORWARD, SUM_BACKWARD, SUM_WEIGHT};
    for (int k = 0; k < WAIT_COUNT; k++) {
        int64_t wait = run[PASS[k]] - run[SUM_STRETCHED + k];
        part->waits[1][k] = part->waits[0][k];
        part->waits[0][k] = wait > 0 ? wait : 0;
    }
}

void close_run(struct part_sums *part, const struct row_table *table, const struct sums *before,
               int64_t first_ns)
{
    struct sums run;
    for (int k = 0; k < SUM_COUNT; k++)
        run.of[k] = part->sums.of[k] - before->of[k];
    add_sync(&part->sync, table, run.of, first_ns, before->of[SUM_FORWARD] == 0);
    note_waits(part, run.of);
}

/* The part of a saving that is real: no more than both neighbours wait. What is saved is waited for
 * no longer. */
static int64_t spare(int64_t *before, int64_t *latest, int64_t ns)
{
    int64_t most = *before + *latest, saved = ns > -most ? -ns : most;
    if (saved <= 0)
        return ns;
    int64_t first = saved < *before ? saved : *before;
    *before -= first;
    *latest -= saved - first;
    return -saved;
}

struct side inner_side(struct part_sums *part, const struct side *border)
{
    struct side out = *border;
    int64_t *ns[WAIT_COUNT] = {&out.forward, &out.backward, &out.weight};
    for (int k = 0; k < WAIT_COUNT; k++)
        *ns[k] = spare(&part->waits[1][k], &part->waits[0][k], *ns[k]);
    if (out.memory.backward_rise < 0)
        out.memory.backward_rise = 0;
    return out;
}

/* The synchronisation time of the first weight of a run that has gradients to synchronise. */
static int64_t first_sync(const struct row_table *table, int64_t first, int64_t last)
{
    int64_t ns = 0;
    for (int64_t i = first; i < last && ns == 0; i++) {
        int64_t place = place_of(table->few, i);
        ns = table->at[place + 1].of[SUM_SYNC] - table->at[place].of[SUM_SYNC];
    }
    return ns;
}

void add_run(struct part_sums *part, const struct row_table *table, int64_t first, int64_t last)
{
    struct sums before = part->sums;
    for (int64_t at = first; at < last;) {
        struct place_range range = next_places(table->few, &at, last);
        add_places(part, table, &range);
    }
    bool any = part->sums.of[SUM_SYNC] > before.of[SUM_SYNC];
    close_run(part, table, &before, any ? first_sync(table, first, last) : 0);
}

void instance_sums(const struct row_table *table, int64_t instance, struct sums *out)
{
    int64_t place = place_of(table->few, instance);
    for (int k = 0; k < SUM_COUNT; k++)
        out->of[k] = table->at[place + 1].of[k] - table->at[place].of[k];
}

/* ---- passes ---------------------------------------------------------------------------------- */

enum { PASSES = SUM_HOST - SUM_DEVICE }; /* forward, backward, the weights' own */
_Static_assert((int)PASSES == (int)WAIT_COUNT, "a pass without its wait");

/* item_cost.h (2): by how much longer a pass takes than the passes of its table. */
static int64_t stretch_more(const int64_t *of, int pass)
{
    struct part_cost_sums sums = {0, 0};
    for (int i = 0; i < PASSES; i++) {
        sums.device += (double)of[SUM_DEVICE + i];
        sums.host += (double)of[SUM_HOST + i];
    }
    return (int64_t)((double)of[SUM_DEVICE + pass] * part_stretch(&sums)) -
           of[SUM_STRETCHED + pass];
}

/* The time of the gradients that remain after the last pass, which takes `more_ns` longer than its
 * runs. Those of a copied tied weight come before all others. */
static int64_t tail_of(const struct tables *t, const struct part_sums *part, int64_t more_ns)
{
    const struct sync_sums *sync = &part->sync;
    double all = (double)part->sums.of[SUM_SYNC];
    if (!(t->settings->overlap & OVERLAP_GRADIENTS) || all == 0)
        return (int64_t)all;
    double left = all - sync->known + sync->more;
    left = (left > sync->least ? left : sync->least) - (double)more_ns * t->pace;
    return (int64_t)(left > sync->last_bucket ? left : sync->last_bucket);
}

/* By how much the gradients of each micro-batch take longer than a round of its passes. */
static int64_t lag_of(const struct tables *t, const int64_t *of, int64_t round_ns)
{
    double after = (double)of[SUM_SYNC_EACH] - (double)round_ns * t->pace;
    return after > 0 && t->settings->overlap & OVERLAP_GRADIENTS ? (int64_t)after : 0;
}

struct part_work close_part(const struct tables *t, const struct part_sums *part,
                            const struct row_table *table, int64_t micro_batches)
{
    const int64_t *of = part->sums.of;
    bool split = table->order == ORDER_SPLIT;
    int64_t forward_more = stretch_more(of, 0), backward_more = stretch_more(of, 1);
    struct part_work work = {.forward = of[SUM_FORWARD] + forward_more,
                             .backward = of[SUM_BACKWARD] + backward_more,
                             .first_more = of[SUM_FIRST] - of[SUM_FORWARD]};
    work.weight = split ? of[SUM_WEIGHT] + stretch_more(of, 2) : 0;
    work.last_more = of[SUM_LAST] - of[split ? SUM_WEIGHT : SUM_BACKWARD];
    if (table->order == ORDER_PAIRED && table->many) {
        work.forward_apart = of[SUM_FORWARD_APART] - of[SUM_FORWARD];
        work.backward_apart = of[SUM_BACKWARD_APART] - of[SUM_BACKWARD];
        work.first_more -= work.forward_apart;
        work.last_more -= work.backward_apart;
    }
    if (!(t->settings->overlap & OVERLAP_GRADIENTS) && micro_batches > 1) {
        *(split ? &work.weight : &work.backward) += of[SUM_SYNC_EACH];
        /* The gradients of the last pass are its tail. */
        work.last_more -= of[SUM_SYNC_EACH];
    }
    int64_t last = (split ? work.weight : work.backward) + work.last_more;
    int64_t round = work.backward + work.weight;
    round += table->order == ORDER_FORWARDS_FIRST ? 0 : work.forward;
    work.tail = tail_of(t, part, last - of[SUM_LAST]);
    work.lag = micro_batches > 1 ? lag_of(t, of, round) : 0;
    work.host = (int64_t)((double)of[SUM_OFFLOADED] * table->offload_each_ns);
    return work;
}
