/* page_timeline.c - what every stage does at what time, as the bars that the HTML page and the picture draw.
 *
 *   I1  One device represents its stage; if there are many stages, only the first and the last ones are drawn.
 *   I2  There are at most as many bars as the caller takes. To stay below, communication is left out first, then stages in
 *       the middle, then a task is one bar whatever its purposes, of fewer and fewer stages, then the shortest bars go; the
 *       timeline says what was left out.
 *   I3  Tasks of one slot and purpose that follow each other without a gap are one bar.
 *   I4  A task with several purposes is drawn as one bar per purpose, one after the other in the order of
 *       BAR_ORDER. In reality the purposes alternate, layer by layer. As one bar it has the purpose that takes longest.
 *   I5  Until all bars are found, a bar's label is the number of its task: labels are written for bars that are drawn.
 */
#include <string.h>

#include "report/page_room.h"
#include "report/report.h"

bool stage_shown(const struct prediction *p, int32_t stage, int32_t most)
{
    return p->plan->stages <= most || stage < most / 2 || stage >= p->plan->stages - most / 2;
}

const enum purpose BAR_ORDER[] = {
    PURPOSE_RECOMPUTE, PURPOSE_FORWARD, PURPOSE_BACKWARD, PURPOSE_OPTIMIZER, PURPOSE_TENSOR,
    PURPOSE_EXPERTS,   PURPOSE_CONTEXT, PURPOSE_DATA,     PURPOSE_PIPELINE,  PURPOSE_OFFLOAD};
_Static_assert(COUNT_OF(BAR_ORDER) == PURPOSE_COUNT, "a purpose without a place");

const char *purpose_words(enum purpose purpose)
{
    static const char *const WORDS[] = {
        [PURPOSE_FORWARD] = "forward",         [PURPOSE_BACKWARD] = "backward",
        [PURPOSE_RECOMPUTE] = "recomputation", [PURPOSE_OPTIMIZER] = "optimizer",
        [PURPOSE_TENSOR] = "within layers",    [PURPOSE_EXPERTS] = "tokens to experts",
        [PURPOSE_CONTEXT] = "keys and values", [PURPOSE_DATA] = "gradients and weights",
        [PURPOSE_PIPELINE] = "between stages", [PURPOSE_OFFLOAD] = "to and from the host",
    };
    _Static_assert(COUNT_OF(WORDS) == PURPOSE_COUNT, "a purpose without words");
    return WORDS[purpose];
}

/* ---- bars ------------------------------------------------------------------------------------ */

/* Which part of a timeline is drawn. */
struct drawn_extent {
    int32_t stages;
    bool communication;
    bool whole; /* a task is one bar (I2) */
};

struct bar_finder {
    struct arena *arena;
    const struct prediction *prediction;
    struct drawn_extent extent;
    int32_t *device; /* per stage: the device of the graph that represents it */
    size_t *last;    /* per stage and stream: the number of its last bar; 0 if it has none */
    struct timeline *out;
};

/* Tasks of equal keys have equal labels (task_label). */
static uint64_t label_key(const struct prediction *p, int32_t number)
{
    const struct task *task = &p->graph->task[number];
    if (task->exchange >= 0) {
        const struct exchange *exchange = &p->graph->exchange[task->exchange];
        return UINT64_C(1) << 63 | (uint64_t)exchange->kind << 32 | (uint64_t)exchange->collective;
    }
    if (task->block < 0)
        return UINT64_C(1) << 62 | (uint64_t)task->purpose;
    const struct block *block = &p->graph->block[task->block];
    return (uint64_t)block->kind << 56 | (uint64_t)(block->part / p->plan->stages) << 32 |
           (uint64_t)(uint32_t)task->micro_batch;
}

/* By I3. */
static bool joins(const struct prediction *p, const struct timeline_bar *last,
                  const struct timeline_bar *next)
{
    return last->purpose == next->purpose && last->end_ns == next->start_ns &&
           label_key(p, last->label) == label_key(p, next->label);
}

static bool is_drawn(const struct bar_finder *finder, int32_t number)
{
    const struct prediction *p = finder->prediction;
    const struct task *task = &p->graph->task[number];
    int32_t stage = p->graph->device[task->device].stage;
    return finder->device[stage] == task->device && stage_shown(p, stage, finder->extent.stages) &&
           p->result.end_ns[number] > p->result.start_ns[number] &&
           (finder->extent.communication || task->stream == STREAM_COMPUTE) && !task->idle;
}

static void add_bar(struct bar_finder *finder, struct timeline_bar bar)
{
    struct timeline *out = finder->out;
    size_t *last = &finder->last[bar.stage * STREAM_COUNT + bar.stream];
    if (*last && joins(finder->prediction, &out->bars.data[*last - 1], &bar)) {
        out->bars.data[*last - 1].end_ns = bar.end_ns;
        return;
    }
    array_push(finder->arena, &out->bars, bar);
    *last = out->bars.len;
}

static enum purpose longest_purpose(const int64_t time_ns[PURPOSE_COUNT])
{
    int longest = 0;
    for (int i = 1; i < PURPOSE_COUNT; i++)
        longest = time_ns[i] > time_ns[longest] ? i : longest;
    return (enum purpose)longest;
}

/* By I4. */
static void add_task(struct bar_finder *finder, int32_t number)
{
    const struct prediction *p = finder->prediction;
    const struct task *task = &p->graph->task[number];
    int64_t time_ns[PURPOSE_COUNT], from = p->result.start_ns[number];
    struct timeline_bar bar = {.stage = p->graph->device[task->device].stage,
                               .label = number, /* I5 */
                               .stream = task->stream};
    task_times(p, number, time_ns);
    if (finder->extent.whole) {
        bar.start_ns = from;
        bar.end_ns = p->result.end_ns[number];
        bar.purpose = (uint8_t)longest_purpose(time_ns);
        add_bar(finder, bar);
        return;
    }
    for (int i = 0; i < PURPOSE_COUNT; i++) {
        bar.start_ns = from;
        bar.end_ns = from += time_ns[BAR_ORDER[i]];
        bar.purpose = (uint8_t)BAR_ORDER[i];
        if (bar.end_ns > bar.start_ns)
            add_bar(finder, bar);
    }
}

/* The bars of the extent; if there are more than `most`, only so many that this is known. */
static void find_bars(struct bar_finder *finder, size_t most)
{
    const struct graph *graph = finder->prediction->graph;
    size_t stages = (size_t)finder->prediction->plan->stages;
    finder->device = ARENA_ARRAY(finder->arena, int32_t, stages);
    finder->last = ARENA_ARRAY(finder->arena, size_t, stages *STREAM_COUNT);
    finder->out->bars.len = 0;
    for (int32_t d = graph->devices - 1; d >= 0; d--)
        finder->device[graph->device[d].stage] = d;
    for (int32_t t = 0; t < graph->tasks && finder->out->bars.len <= most; t++)
        if (is_drawn(finder, t))
            add_task(finder, t);
}

/* ---- the timeline ---------------------------------------------------------------------------- */

/* The smallest length such that at most `most` bars are at least as long (I2). */
static int64_t least_length(const struct timeline *timeline, size_t most)
{
    int64_t least = 0;
    for (size_t count = timeline->bars.len; count > most; least = least ? 2 * least : 1000) {
        count = 0;
        for (size_t i = 0; i < timeline->bars.len; i++)
            count += timeline->bars.data[i].end_ns - timeline->bars.data[i].start_ns >= least;
        if (count <= most)
            break;
    }
    return least;
}

static void leave_out_short(struct timeline *timeline, size_t most)
{
    size_t kept = 0;
    timeline->shortest_ns = least_length(timeline, most);
    for (size_t i = 0; i < timeline->bars.len; i++) {
        struct timeline_bar bar = timeline->bars.data[i];
        if (bar.end_ns - bar.start_ns >= timeline->shortest_ns)
            timeline->bars.data[kept++] = bar;
    }
    timeline->bars.len = kept;
}

/* I5 */
static void write_labels(struct arena *keep, const struct prediction *p, struct timeline *timeline)
{
    struct hash_map numbers = {0};
    for (size_t i = 0; i < timeline->bars.len; i++) {
        struct timeline_bar *bar = &timeline->bars.data[i];
        uint64_t key = label_key(p, bar->label);
        int64_t *number = hash_at(&numbers, keep, hash_bytes(&key, sizeof key, 0));
        if (*number < 0) {
            struct text32 text = task_label(p, &p->graph->task[bar->label]);
            *number = (int64_t)timeline->labels.len;
            array_push(keep, &timeline->labels, arena_copy_text(keep, text.s));
        }
        bar->label = (int32_t)*number;
    }
}

struct timeline *timeline_of(struct arena *keep, const struct prediction *p, size_t most_bars)
{
    static const struct drawn_extent EXTENTS[] = {
        {PAGE_STAGES, true, false},      {PAGE_STAGES, false, false},
        {PAGE_STAGES / 2, false, false}, {PAGE_STAGES / 4, false, false},
        {PAGE_STAGES / 4, false, true},  {PAGE_STAGES / 8, false, true},
        {PAGE_STAGES / 16, false, true}, {PAGE_STAGES / 32, false, true}};
    struct timeline *timeline = ARENA_NEW(keep, struct timeline);
    struct bar_finder finder = {.arena = keep, .prediction = p, .out = timeline};
    for (size_t i = 0; i < COUNT_OF(EXTENTS); i++) {
        finder.extent = EXTENTS[i];
        find_bars(&finder, i + 1 < COUNT_OF(EXTENTS) ? most_bars : SIZE_MAX);
        if (timeline->bars.len <= most_bars)
            break;
    }
    timeline->communication = finder.extent.communication;
    timeline->whole = finder.extent.whole;
    leave_out_short(timeline, most_bars);
    write_labels(keep, p, timeline);
    return timeline;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *names_json(const char *(*name)(int), int count)
{
    json_t *names = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(names, json_string(name(i)));
    return names;
}

static const char *name_of_stream(int stream)
{
    return stream_name((enum stream_kind)stream);
}

static const char *name_of_purpose(int purpose)
{
    return purpose_name((enum purpose)purpose);
}

static const char *words_of_purpose(int purpose)
{
    return purpose_words((enum purpose)purpose);
}

json_t *timeline_json(struct arena *scratch, const struct prediction *p, size_t most_bars)
{
    const struct timeline *timeline = timeline_of(scratch, p, most_bars);
    json_t *bars = json_array(), *labels = json_array();
    for (size_t i = 0; i < timeline->labels.len; i++)
        json_array_append_new(labels, json_text(timeline->labels.data[i]));
    for (size_t i = 0; i < timeline->bars.len; i++) {
        const struct timeline_bar *bar = &timeline->bars.data[i];
        json_array_append_new(bars, json_pack("[i, i, i, i, I, I]", bar->stage, bar->stream,
                                              bar->purpose, bar->label, (json_int_t)bar->start_ns,
                                              (json_int_t)(bar->end_ns - bar->start_ns)));
    }
    return json_pack("{s:I, s:I, s:b, s:b, s:o, s:o, s:o, s:o, s:o}", "end",
                     (json_int_t)p->result.end, "shortest", (json_int_t)timeline->shortest_ns,
                     "communication", timeline->communication, "whole", timeline->whole, "labels",
                     labels, "streams", names_json(name_of_stream, STREAM_COUNT), "purposes",
                     names_json(name_of_purpose, PURPOSE_COUNT), "words",
                     names_json(words_of_purpose, PURPOSE_COUNT), "bars", bars);
}
