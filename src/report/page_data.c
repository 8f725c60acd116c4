/* page_data.c - the JSON for what the HTML page draws besides its timeline.
 *
 *   I1  One device represents its stage; if there are many stages, only the first and the last ones are drawn.
 *   I2  Memory has at most MOST_POINTS moments per stage. Each is the fullest of a group of neighbours,
 *       so that a peak is never lost.
 */
#include "report/page_room.h"
#include "report/report.h"

enum { MOST_POINTS = 300, MOST_LINKS = 12 };

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

/* The fullest moment of every group of neighbours (I2). */
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
        if (stage_shown(p, s, PAGE_STAGES) && p->point)
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

/* In a folded simulation one link represents all of its kind: the same wires between the same kinds of vertices. */
static bool same_kind(const struct node_type *node, const struct link *x, const struct link *y)
{
    return x->kind == y->kind && end_kind(node, x->a) == end_kind(node, y->a) &&
           end_kind(node, x->b) == end_kind(node, y->b);
}

/* Every link of a node, with the load of the busiest link of its kind. */
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
        json_array_append_new(wires,
                              json_pack("{s:i, s:i, s:s, s:f, s:f}", "a", link->a, "b", link->b,
                                        "kind", link_name(&node->device, link->kind), "bytes_per_s",
                                        link->bytes_per_s, "busy", busy));
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
