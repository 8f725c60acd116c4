/* runs.c - a block cut into runs of items, each of which becomes a task.
 *
 *   I1  Runs are in the order of their items. A run of operators ends before an operator that needs
 *       a step outside the run, after an operator that a step needs, and before and after whatever
 *       else is waited for. All its operators are on the same devices (graph.h, I6).
 *   I2  Without CUT_STEPS the steps stay inside, and there is one lane to cut: a run is whole.
 */
#include "compile/graph.h"

#include <string.h>

struct run_cutter {
    struct arena *keep;
    const struct block *block;
    unsigned cuts;
    int32_t *bucket_read, *bucket_completed; /* per item, -1: none */
    bool *needed;                            /* per item: whether one of the other lane needs it */
    int32_t *run_of;                         /* per item */
    ARRAY(struct block_run) runs;
    bool open; /* the last run is one of operators that may grow */
};

static void mark(struct run_cutter *c)
{
    size_t items = (size_t)c->block->items;
    c->bucket_read = ARENA_ARRAY(c->keep, int32_t, items);
    c->bucket_completed = ARENA_ARRAY(c->keep, int32_t, items);
    c->run_of = ARENA_ARRAY(c->keep, int32_t, items);
    c->needed = ARENA_ARRAY(c->keep, bool, items);
    for (int32_t i = 0; (c->cuts & CUT_STEPS) && i < c->block->items; i++) {
        int32_t needs = c->block->item[i].needs;
        if (needs >= 0 && c->block->item[needs].kind != c->block->item[i].kind)
            c->needed[needs] = true;
    }
    memset(c->bucket_read, -1, items * sizeof(int32_t));
    memset(c->bucket_completed, -1, items * sizeof(int32_t));
    for (int32_t i = 0; i < c->block->buckets; i++) {
        if ((c->cuts & CUT_READS) && c->block->reads[i] >= 0)
            c->bucket_read[c->block->reads[i]] = c->block->first_bucket + i;
        if ((c->cuts & CUT_COMPLETES) && c->block->completes[i] >= 0)
            c->bucket_completed[c->block->completes[i]] = c->block->first_bucket + i;
    }
}

static struct block_run *start_run(struct run_cutter *c, int32_t item, bool step, int32_t after)
{
    struct block_run run = {item, 0, step, after, -1, -1, c->block->item[item].run};
    array_push(c->keep, &c->runs, run);
    c->open = !step;
    return &c->runs.data[c->runs.len - 1];
}

static void add_item(struct run_cutter *c, int32_t i)
{
    const struct item *item = &c->block->item[i];
    bool step = item->kind == ITEM_STEP && (c->cuts & CUT_STEPS);
    int32_t needed = item->needs >= 0 ? c->run_of[item->needs] : -1;
    int32_t last = (int32_t)c->runs.len - 1;
    /* the needed item is in a run of the other lane */
    bool foreign = needed >= 0 && c->runs.data[needed].step != step;
    struct block_run *run = c->open ? &c->runs.data[last] : NULL;
    bool apart = run && (run->on.first != item->run.first || run->on.devices != item->run.devices);
    bool crosses = c->cuts & CUT_UNITS && i && c->block->unit[i] != c->block->unit[i - 1];
    if (step || !run || crosses || apart || (foreign && needed != last) || c->bucket_read[i] >= 0)
        run = start_run(c, i, step, foreign ? needed : -1);
    run->items++;
    if (c->bucket_read[i] >= 0)
        run->reads = c->bucket_read[i];
    c->run_of[i] = (int32_t)c->runs.len - 1;
    if (c->bucket_completed[i] >= 0) {
        run->completes = c->bucket_completed[i];
        c->open = false;
    }
    if (c->needed[i])
        c->open = false;
}

struct block_runs cut_block(struct arena *keep, const struct block *block, unsigned cuts)
{
    struct run_cutter c = {.keep = keep, .block = block, .cuts = cuts};
    mark(&c);
    for (int32_t i = 0; i < block->items; i++)
        add_item(&c, i);
    return (struct block_runs){c.runs.data, (int32_t)c.runs.len};
}
