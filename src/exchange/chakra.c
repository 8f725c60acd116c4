/* chakra.c - execution traces of MLCommons Chakra (chakra.h).
 *
 * Nodes are numbered by task: item i of task t is first[t] + i on every rank, so that an exchange has one number on
 * all ranks that take part. A task is over when the last item of each of its lanes is (graph.h, I1). A task waits
 * for the tasks it depends on, and for the one before it on its stream, as far as they are on the same rank (I2).
 */
#include "exchange/chakra.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "exchange/chakra_wire.h"

const char CHAKRA_FORMAT[] = "chakra";
const char CHAKRA_SUMMARY[] = "execution traces of MLCommons Chakra, a file per rank";
static const char VERSION[] = "0.0.4"; /* of the schema, as its own generators write it */

struct chakra {
    const struct prediction *prediction;
    const struct graph *graph;
    struct arena *arena;
    int32_t *order;    /* tasks by when they start: what one waits for comes before it (I2) */
    uint64_t *first;   /* per task: the number of its first node */
    int32_t *rank_of;  /* per device of the cluster: its number in the graph; -1: none */
    struct map *group; /* the numbers of groups of ranks, by their members */
    ARRAY(const char *) members; /* per group */
    /* of one rank: */
    struct wire wire;
    FILE *file;
    int32_t rank;
    int32_t last[STREAM_COUNT]; /* the task before on each stream; -1: none */
    bool *here;                 /* per task: whether the rank takes part */
    int64_t nodes;
};

/* ---- who takes part -------------------------------------------------------------------------- */

static struct group group_of(const struct chakra *c, const struct task *task)
{
    const struct exchange *exchange = &c->graph->exchange[task->exchange];
    return pattern_group(&c->graph->pattern[exchange->pattern], exchange->group);
}

static bool is_collective(const struct chakra *c, const struct task *task)
{
    return task->exchange >= 0 && c->graph->exchange[task->exchange].kind == EXCHANGE_COLLECTIVE;
}

static bool takes_part(const struct chakra *c, const struct task *task)
{
    if (!is_collective(c, task))
        return task->device == c->rank;
    struct group group = group_of(c, task);
    for (int64_t i = 0, size = group_size(&group); i < size; i++)
        if (c->rank_of[group_device(&group, i)] == c->rank)
            return true;
    return false;
}

/* The name of a group: its number in the order in which groups are first met. */
static const char *group_name(struct chakra *c, const struct group *group)
{
    const char *members = "";
    int64_t number = (int64_t)c->members.len;
    for (int64_t i = 0, size = group_size(group); i < size; i++)
        members = arena_printf(c->arena, "%s%s%d", members, i ? ", " : "",
                               c->rank_of[group_device(group, i)]);
    if (!map_get(c->group, members, &number)) {
        map_put(c->group, members, number);
        array_push(c->arena, &c->members, members);
    }
    return arena_printf(c->arena, "%lld", (long long)number);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static int64_t words_of(enum collective collective)
{
    static const enum chakra_collective WORDS[] = {
        [COLLECTIVE_ALL_REDUCE] = CHAKRA_ALL_REDUCE,
        [COLLECTIVE_ALL_GATHER] = CHAKRA_ALL_GATHER,
        [COLLECTIVE_REDUCE_SCATTER] = CHAKRA_REDUCE_SCATTER,
        [COLLECTIVE_ALL_TO_ALL] = CHAKRA_ALL_TO_ALL,
        [COLLECTIVE_BROADCAST] = CHAKRA_BROADCAST,
        [COLLECTIVE_SEND] = CHAKRA_ALL_TO_ALL, /* within a stage: a permutation of its ranks */
        [COLLECTIVE_HALO] = CHAKRA_ALL_TO_ALL, /* of which there is something for neighbours only */
    };
    _Static_assert(COUNT_OF(WORDS) == COLLECTIVE_COUNT, "a collective without Chakra's word");
    return WORDS[collective];
}

static void end_node(struct chakra *c)
{
    wire_flag(&c->wire, "is_cpu_op", false);
    wire_flush(&c->wire, c->file);
    c->nodes++;
}

static void put_collective(struct chakra *c, enum collective collective, int64_t bytes,
                           const struct group *group)
{
    wire_whole(&c->wire, "comm_type", words_of(collective));
    wire_whole(&c->wire, "comm_size", bytes);
    wire_text(&c->wire, "pg_name", group_name(c, group));
}

/* The last items of both lanes: what waits for a task waits for them. */
static int ends_of(const struct chakra *c, int32_t number, uint64_t ends[2])
{
    const struct task *task = &c->graph->task[number];
    int count = 0;
    if (task->block < 0 || task->exchange >= 0) {
        ends[count++] = c->first[number];
        return count;
    }
    const struct item *items = c->graph->block[task->block].item + task->first_item;
    for (int kind = ITEM_OP; kind <= ITEM_STEP; kind++)
        for (int32_t i = task->items - 1; i >= 0; i--)
            if (items[i].kind == kind) {
                ends[count++] = c->first[number] + (uint64_t)i;
                break;
            }
    return count;
}

static void depend_on(struct chakra *c, int32_t number)
{
    uint64_t ends[2];
    for (int i = 0, count = ends_of(c, number, ends); i < count; i++)
        wire_dependency(&c->wire, ends[i]);
}

static void depend_on_tasks(struct chakra *c, int32_t number)
{
    const struct graph *g = c->graph;
    int32_t before = c->last[g->task[number].stream];
    if (before >= 0)
        depend_on(c, before);
    for (int64_t d = g->depends_first[number]; d < g->depends_first[number + 1]; d++)
        if (c->here[g->depends[d]] && g->depends[d] != before)
            depend_on(c, g->depends[d]);
}

static void put_exchange(struct chakra *c, int32_t number)
{
    const struct task *task = &c->graph->task[number];
    const struct exchange *e = &c->graph->exchange[task->exchange];
    int64_t ns = engine_alone_ns(&c->prediction->engine, number);
    const char *name = task_label(c->prediction, task).s;
    bool pair = e->kind == EXCHANGE_COLLECTIVE && e->collective == COLLECTIVE_SEND;
    if (e->kind != EXCHANGE_COLLECTIVE) {
        wire_node(&c->wire, c->first[number], name,
                  e->kind == EXCHANGE_TO_HOST ? CHAKRA_STORE : CHAKRA_LOAD, ns);
        wire_whole(&c->wire, "tensor_size", e->bytes);
        return;
    }
    struct group group = group_of(c, task);
    int32_t from = c->rank_of[group_device(&group, 0)];
    enum chakra_node kind = from == c->rank ? CHAKRA_SEND : CHAKRA_RECEIVE;
    wire_node(&c->wire, c->first[number], name, pair ? kind : CHAKRA_COLLECTIVE, ns);
    if (!pair) {
        put_collective(c, (enum collective)e->collective, e->bytes, &group);
        return;
    }
    wire_whole(&c->wire, "comm_src", from);
    wire_whole(&c->wire, "comm_dst", c->rank_of[group_device(&group, 1)]);
    wire_whole(&c->wire, "comm_tag", number);
    wire_whole(&c->wire, "comm_size", e->bytes);
}

static void put_item(struct chakra *c, int32_t number, int32_t i)
{
    const struct graph *g = c->graph;
    const struct task *task = &g->task[number];
    const struct block *block = &g->block[task->block];
    const struct item *items = block->item + task->first_item, *item = &items[i];
    int64_t at = c->prediction->lane_first[task->block] + task->first_item + i;
    int64_t ns = task->idle ? 0 : c->prediction->lane_ns[at];
    bool exchanges = item->kind == ITEM_STEP && item->pattern >= 0;
    int32_t before = i - 1;
    wire_node(&c->wire, c->first[number] + (uint64_t)i,
              plan_path(c->arena, g->plan, item->instance),
              exchanges ? CHAKRA_COLLECTIVE : CHAKRA_COMPUTE, ns);
    while (before >= 0 && items[before].kind != item->kind)
        before--;
    if (before >= 0)
        wire_dependency(&c->wire, c->first[number] + (uint64_t)before);
    else
        depend_on_tasks(c, number);
    if (item->needs >= task->first_item && item->needs - task->first_item != before)
        wire_dependency(&c->wire, c->first[number] + (uint64_t)(item->needs - task->first_item));
    if (exchanges) {
        const struct pattern *pattern = &g->pattern[item->pattern];
        struct group group =
            pattern_group(pattern, pattern_group_of(pattern, g->device[c->rank].device));
        put_collective(c,
                       item->exchange >= 0 ? (enum collective)g->exchange[item->exchange].collective
                                           : (enum collective)pattern->collective,
                       item->bytes, &group);
    }
    end_node(c);
}

static void put_task(struct chakra *c, int32_t number)
{
    const struct task *task = &c->graph->task[number];
    if (task->block >= 0 && task->exchange < 0) {
        for (int32_t i = 0; i < task->items; i++)
            put_item(c, number, i);
    } else {
        if (task->exchange >= 0)
            put_exchange(c, number);
        else
            wire_node(&c->wire, c->first[number], task_label(c->prediction, task).s, CHAKRA_COMPUTE,
                      engine_alone_ns(&c->prediction->engine, number));
        depend_on_tasks(c, number);
        end_node(c);
    }
    c->last[task->stream] = number;
}

/* ---- files ----------------------------------------------------------------------------------- */

static void write_rank(void *context, FILE *file)
{
    struct chakra *c = context;
    c->file = file;
    wire_metadata(&c->wire, VERSION);
    wire_flush(&c->wire, file);
    for (int s = 0; s < STREAM_COUNT; s++)
        c->last[s] = -1;
    for (int32_t t = 0; t < c->graph->tasks; t++)
        c->here[t] = takes_part(c, &c->graph->task[t]);
    for (int32_t i = 0; i < c->graph->tasks; i++)
        if (c->here[c->order[i]])
            put_task(c, c->order[i]);
}

static void write_groups(void *context, FILE *file)
{
    const struct chakra *c = context;
    fputs("{", file);
    for (size_t i = 0; i < c->members.len; i++)
        fprintf(file, "%s\n  \"%zu\": [%s]", i ? "," : "", i, c->members.data[i]);
    fputs("\n}\n", file);
}

/* By start; of two that start at once the one that ends first, which the other may wait for. */
static int by_start(const void *a, const void *b, void *context)
{
    const struct engine_result *result = context;
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    if (result->start_ns[x] != result->start_ns[y])
        return result->start_ns[x] < result->start_ns[y] ? -1 : 1;
    if (result->end_ns[x] != result->end_ns[y])
        return result->end_ns[x] < result->end_ns[y] ? -1 : 1;
    return (x > y) - (x < y);
}

static void order_tasks(struct chakra *c)
{
    struct engine_result result = c->prediction->result;
    c->order = ARENA_ARRAY(c->arena, int32_t, (size_t)c->graph->tasks);
    for (int32_t t = 0; t < c->graph->tasks; t++)
        c->order[t] = t;
    qsort_r(c->order, (size_t)c->graph->tasks, sizeof *c->order, by_start, &result);
}

static void number_nodes(struct chakra *c)
{
    const struct graph *g = c->graph;
    uint64_t next = 1; /* 0 is what a missing field means */
    c->first = ARENA_ARRAY(c->arena, uint64_t, (size_t)g->tasks);
    c->here = ARENA_ARRAY(c->arena, bool, (size_t)g->tasks);
    c->rank_of = ARENA_ARRAY(c->arena, int32_t, (size_t)cluster_devices(g->plan->cluster));
    for (int64_t d = 0; d < cluster_devices(g->plan->cluster); d++)
        c->rank_of[d] = -1;
    for (int32_t r = 0; r < g->devices; r++)
        c->rank_of[g->device[r].device] = r;
    for (int32_t t = 0; t < g->tasks; t++) {
        c->first[t] = next;
        next += g->task[t].block >= 0 && g->task[t].exchange < 0 ? (uint64_t)g->task[t].items : 1;
    }
}

weft_status chakra_write(const struct prediction *prediction, const char *folder, int64_t *nodes)
{
    struct arena *arena = arena_new();
    struct chakra c = {.prediction = prediction,
                       .graph = prediction->graph,
                       .arena = arena,
                       .group = map_new(arena),
                       .wire.arena = arena};
    weft_status status = WEFT_OK;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        TRY(failure("cannot make the folder %s: %s", folder, strerror(errno)));
    number_nodes(&c);
    order_tasks(&c);
    for (c.rank = 0; c.rank < c.graph->devices; c.rank++)
        TRY(file_write(arena_printf(arena, "%s/weft.%d.et", folder, c.rank), write_rank, &c));
    TRY(file_write(arena_printf(arena, "%s/comm_group.json", folder), write_groups, &c));
    *nodes = c.nodes;
done:
    arena_free(arena);
    return status;
}
