/* page_data.c - what the HTML page draws, as JSON.
 *
 *   I1  One device stands for its stage; of many stages the first and the last are drawn.
 *   I2  A page holds at most MOST_SPANS bars: communication is left out first, then stages in the
 *       middle, then what is shorter than the least that fits; the page says so. Memory has at most
 *       MOST_POINTS moments per stage, each the fullest of its neighbours, so a peak is never lost.
 */
#include <string.h>

#include "report/page_room.h"
#include "report/report.h"

enum { MOST_STAGES = 64, MOST_SPANS = 24000, MOST_POINTS = 300, MOST_LINKS = 12 };

/* ---- stages ---------------------------------------------------------------------------------- */

static bool stage_shown(const struct prediction *p, int32_t stage, int32_t most)
{
    return p->plan->stages <= most || stage < most / 2 || stage >= p->plan->stages - most / 2;
}

/* ---- the timeline ---------------------------------------------------------------------------- */

struct span {
    int64_t start_ns, end_ns;
    int32_t stage, label;
    uint8_t stream, purpose;
};
struct spans {
    struct span *data;
    size_t len, cap;
};
struct labels {
    struct arena *arena;
    struct map *number;
    json_t *texts;
};

static int32_t label_number(struct labels *labels, const char *text)
{
    int64_t number;
    if (map_get(labels->number, text, &number))
        return (int32_t)number;
    number = (int64_t)json_array_size(labels->texts);
    map_put(labels->number, text, number);
    json_array_append_new(labels->texts, json_text(text));
    return (int32_t)number;
}

/* Tasks of one slot that follow each other are one bar. */
static bool joins(const struct span *last, const struct span *next)
{
    return last->stage == next->stage && last->stream == next->stream &&
           last->label == next->label && last->purpose == next->purpose &&
           last->end_ns == next->start_ns;
}

/* What of a timeline is drawn. */
struct extent {
    int32_t stages;
    bool communication;
};

static void find_spans(struct arena *scratch, const struct prediction *p, struct extent extent,
                       struct labels *labels, struct spans *out)
{
    const struct graph *graph = p->graph;
    int32_t *shown = ARENA_ARRAY(scratch, int32_t, (size_t)p->plan->stages);
    size_t *last = ARENA_ARRAY(scratch, size_t, (size_t)p->plan->stages *STREAM_COUNT);
    for (int32_t d = graph->devices - 1; d >= 0; d--)
        shown[graph->device[d].stage] = d;
    for (int32_t t = 0; t < graph->tasks; t++) {
        const struct task *task = &graph->task[t];
        int32_t stage = graph->device[task->device].stage;
        if (shown[stage] != task->device || !stage_shown(p, stage, extent.stages) ||
            p->result.end_ns[t] == p->result.start_ns[t] ||
            (!extent.communication && task->stream != STREAM_COMPUTE))
            continue;
        struct span span = {.start_ns = p->result.start_ns[t],
                            .end_ns = p->result.end_ns[t],
                            .stage = stage,
                            .label = label_number(labels, task_label(p, task).s),
                            .stream = task->stream,
                            .purpose = task->purpose};
        size_t *before = &last[stage * STREAM_COUNT + task->stream];
        if (*before && joins(&out->data[*before - 1], &span)) {
            out->data[*before - 1].end_ns = span.end_ns;
            continue;
        }
        array_push(scratch, out, span);
        *before = out->len;
    }
}

/* I2: the least length of which at most so many are there. */
static int64_t least_length(const struct spans *spans)
{
    int64_t least = 0;
    for (size_t count = spans->len; count > MOST_SPANS; least = least ? 2 * least : 1000) {
        count = 0;
        for (size_t i = 0; i < spans->len; i++)
            count += spans->data[i].end_ns - spans->data[i].start_ns >= least;
        if (count <= MOST_SPANS)
            break;
    }
    return least;
}

json_t *timeline_json(struct arena *scratch, const struct prediction *p)
{
    static const struct extent EXTENTS[] = {{MOST_STAGES, true},
                                            {MOST_STAGES, false},
                                            {MOST_STAGES / 2, false},
                                            {MOST_STAGES / 4, false}};
    struct labels labels = {scratch, map_new(scratch), json_array()};
    struct spans spans = {0};
    size_t extent = 0;
    json_t *bars = json_array(), *streams = json_array(), *purposes = json_array();
    find_spans(scratch, p, EXTENTS[extent], &labels, &spans);
    while (spans.len > MOST_SPANS && extent + 1 < COUNT_OF(EXTENTS)) {
        spans.len = 0;
        find_spans(scratch, p, EXTENTS[++extent], &labels, &spans);
    }
    int64_t least = least_length(&spans);
    for (size_t i = 0; i < spans.len; i++) {
        const struct span *s = &spans.data[i];
        if (s->end_ns - s->start_ns >= least)
            json_array_append_new(bars, json_pack("[i, i, i, i, I, I]", s->stage, s->stream,
                                                  s->purpose, s->label, (json_int_t)s->start_ns,
                                                  (json_int_t)(s->end_ns - s->start_ns)));
    }
    for (int i = 0; i < STREAM_COUNT; i++)
        json_array_append_new(streams, json_string(stream_name((enum stream_kind)i)));
    for (int i = 0; i < PURPOSE_COUNT; i++)
        json_array_append_new(purposes, json_string(purpose_name((enum purpose)i)));
    return json_pack("{s:I, s:I, s:b, s:o, s:o, s:o, s:o}", "end", (json_int_t)p->iteration_ns,
                     "shortest", (json_int_t)least, "communication", EXTENTS[extent].communication,
                     "labels", labels.texts, "streams", streams, "purposes", purposes, "bars",
                     bars);
}

/* ---- memory over time ------------------------------------------------------------------------ */

static int64_t held(const struct memory_point *point)
{
    int64_t sum = 0;
    for (int c = 0; c < MEMORY_CLASS_COUNT; c++)
        sum += point->bytes[c];
    return sum;
}

static json_t *point_json(const struct memory_point *point)
{
    json_t *json = json_array();
    json_array_append_new(json, json_integer((json_int_t)point->at_ns));
    for (int c = 0; c < MEMORY_CLASS_COUNT; c++)
        json_array_append_new(json, json_integer((json_int_t)point->bytes[c]));
    return json;
}

/* I2: of every group of neighbours the fullest. */
static json_t *points_json(const struct prediction *p, int32_t stage)
{
    int64_t first = p->point_first[stage], count = p->point_first[stage + 1] - first;
    int64_t group = ceil_div(count, MOST_POINTS);
    json_t *points = json_array();
    for (int64_t i = 0; i < count; i += group) {
        const struct memory_point *fullest = &p->point[first + i];
        for (int64_t k = i; k < i + group && k < count; k++)
            if (held(&p->point[first + k]) > held(fullest))
                fullest = &p->point[first + k];
        json_array_append_new(points, point_json(fullest));
    }
    return points;
}

json_t *moments_json(const struct prediction *p)
{
    json_t *classes = json_array(), *stages = json_array();
    for (int c = 0; c < MEMORY_CLASS_COUNT; c++)
        json_array_append_new(classes, json_string(memory_class_name((enum memory_class)c)));
    for (int32_t s = 0; s < p->plan->stages; s++)
        if (stage_shown(p, s, MOST_STAGES) && p->point)
            json_array_append_new(stages,
                                  json_pack("{s:i, s:o}", "stage", s, "points", points_json(p, s)));
    return json_pack("{s:o, s:o}", "classes", classes, "stages", stages);
}

/* ---- links ----------------------------------------------------------------------------------- */

static json_t *vertices_json(const struct node_type *node)
{
    json_t *vertices = json_array();
    for (int32_t v = 0; v < node->vertices; v++)
        json_array_append_new(vertices, json_pack("{s:s, s:s}", "name", node->vertex[v].name,
                                                  "kind", vertex_kind_name(node->vertex[v].kind)));
    return vertices;
}

static enum vertex_kind end_kind(const struct node_type *node, int32_t vertex)
{
    return node->vertex[vertex].kind;
}

/* Folded, one link stands for all of its kind: same wires between the same kinds of vertices. */
static bool same_kind(const struct node_type *node, const struct link *x, const struct link *y)
{
    return x->kind == y->kind && end_kind(node, x->a) == end_kind(node, y->a) &&
           end_kind(node, x->b) == end_kind(node, y->b);
}

/* Every link of a node with how busy the busiest of its kind is. */
static json_t *wires_json(const struct node_type *node, const struct link_load *load, int32_t loads)
{
    json_t *wires = json_array();
    for (int32_t l = 0; l < node->links; l++) {
        const struct link *link = &node->link[l];
        double busy = 0;
        for (int32_t i = 0; i < loads; i++)
            if (load[i].link.tier == -1 && same_kind(node, link, &node->link[load[i].link.link]) &&
                load[i].busy > busy)
                busy = load[i].busy;
        json_array_append_new(wires, json_pack("{s:i, s:i, s:s, s:f, s:f}", "a", link->a, "b",
                                               link->b, "kind", link_kind_name(link->kind),
                                               "bytes_per_s", link->bytes_per_s, "busy", busy));
    }
    return wires;
}

json_t *links_json(struct arena *scratch, const struct prediction *p)
{
    const struct cluster *cluster = p->plan->cluster;
    struct link_load *load;
    int32_t loads = link_loads(scratch, p, INT32_MAX, &load);
    json_t *busiest = json_array();
    for (int32_t i = 0; i < loads && i < MOST_LINKS; i++)
        json_array_append_new(
            busiest, json_pack("{s:o, s:f, s:f, s:f}", "link",
                               json_text(link_text(scratch, cluster, load[i].link)), "bytes",
                               load[i].bytes, "bytes_per_s",
                               link_bytes_per_s(cluster, load[i].link), "busy", load[i].busy));
    return json_pack("{s:I, s:o, s:o, s:o}", "nodes", (json_int_t)cluster->nodes, "vertices",
                     vertices_json(&cluster->node), "wires",
                     wires_json(&cluster->node, load, loads), "busiest", busiest);
}
