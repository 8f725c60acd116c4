/* load_node.c - the `node` of a cluster file: vertices and links written out in full.
 *
 *   I1  A link ends only at kinds of vertices that such a wire can end at, and PCI links form a
 *       tree.
 *   I2  Every vertex can be reached from device 0.
 */
#include "cluster/load.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where a wire can end. A device's link to a socket is a coherent one, such as NVLink-C2C. */
static const bool ENDS[LINK_KIND_COUNT][VERTEX_KIND_COUNT] = {
    [LINK_NVLINK] = {[VERTEX_DEVICE] = true, [VERTEX_NVSWITCH] = true},
    [LINK_PCI] = {[VERTEX_DEVICE] = true,
                  [VERTEX_PCI_SWITCH] = true,
                  [VERTEX_SOCKET] = true,
                  [VERTEX_NIC] = true},
    [LINK_SOCKET] = {[VERTEX_SOCKET] = true, [VERTEX_DEVICE] = true},
};

struct node_reader {
    struct topology graph;
    struct map *index;  /* vertex by name */
    struct map *bundle; /* links so far, by kind and ends */
    int32_t *root;      /* per vertex: the next one on the way to the root of its PCI tree */
};

/* ---- vertices -------------------------------------------------------------------------------- */

/* Whether a drawing and a range can show the name. */
static bool valid_name(const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < len; i++)
        if (!isgraph((unsigned char)name[i]))
            return false;
    return len >= 1 && len <= 32 && !strstr(name, "..");
}

static weft_status name_vertex(struct node_reader *reader, enum vertex_kind kind,
                               const struct doc *doc)
{
    const char *name;
    int64_t older;
    weft_status status = doc_scalar(doc, FIELD_TEXT, &name);
    if (status)
        return status;
    if (!valid_name(name))
        return doc_error(doc, "use letters, digits and a few signs, without spaces and '..'",
                         "'%.60s' is not a valid name for a vertex", name);
    if (map_get(reader->index, name, &older))
        return doc_error(doc, NULL, "two vertices are called '%.60s'", name);
    if (reader->graph.vertices.len == MAX_NODE_VERTICES)
        return doc_error(doc, NULL, "the node has more than %d vertices", MAX_NODE_VERTICES);
    map_put(reader->index, name, add_vertex(&reader->graph, kind, name));
    return WEFT_OK;
}

static weft_status name_vertices(struct node_reader *reader, enum vertex_kind kind,
                                 const struct doc *doc)
{
    if (doc->kind != DOC_LIST)
        return name_vertex(reader, kind, doc);
    weft_status status = WEFT_OK;
    for (const struct doc *item = doc->first; item && !status; item = item->next)
        status = name_vertex(reader, kind, item);
    return status;
}

static weft_status read_vertices(struct node_reader *reader, const struct doc *doc)
{
    enum { KINDS = VERTEX_KIND_COUNT - 1 }; /* devices are counted, not listed */
    const struct doc *found[KINDS] = {0};
    struct field fields[KINDS];
    for (int i = 0; i < KINDS; i++)
        fields[i] = (struct field){vertex_kind_name(VERTEX_DEVICE + 1 + i), FIELD_DOC,
                                   (size_t)i * sizeof found[0]};
    weft_status status = doc_read(doc, fields, KINDS, DOC_REFUSE_UNKNOWN, found);
    for (int i = 0; status == WEFT_OK && i < KINDS; i++)
        if (found[i])
            status = name_vertices(reader, VERTEX_DEVICE + 1 + i, found[i]);
    return status;
}

static void add_devices(struct node_reader *reader, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "dev%lld", (long long)i);
        map_put(reader->index, name, add_vertex(&reader->graph, VERTEX_DEVICE, name));
    }
}

/* ---- ends: a name, or a range such as dev0..dev7 --------------------------------------------- */

struct ends {
    int32_t *vertex;
    int32_t count;
};

static int32_t count_devices(const struct node_reader *reader)
{
    int32_t count = 0;
    for (size_t i = 0; i < reader->graph.vertices.len; i++)
        count += reader->graph.vertices.data[i].kind == VERTEX_DEVICE;
    return count;
}

static weft_status unknown_vertex(const struct node_reader *reader, const struct doc *doc,
                                  const char *name)
{
    const char *names[MAX_NODE_VERTICES];
    size_t devices = (size_t)count_devices(reader), others = reader->graph.vertices.len - devices;
    for (size_t i = 0; i < others; i++)
        names[i] = reader->graph.vertices.data[devices + i].name;
    const char *near = nearest_word(name, names, others);
    weft_status status = doc_error(doc, NULL, "no vertex is called '%.60s'", name);
    if (near)
        error_hint("did you mean '%s'?", near);
    else
        error_hint("devices are dev0 to dev%zu; the rest is listed under 'vertices'", devices - 1);
    return status;
}

static weft_status find_vertex(const struct node_reader *reader, const struct doc *doc,
                               const char *name, int32_t *out)
{
    int64_t index;
    if (map_get(reader->index, name, &index)) {
        *out = (int32_t)index;
        return WEFT_OK;
    }
    return unknown_vertex(reader, doc, name);
}

/* The number at the end of a name; `stem` is the length of what comes before it. */
static bool split_number(const char *name, size_t len, size_t *stem, int64_t *number)
{
    char digits[16];
    *stem = len;
    while (*stem > 0 && isdigit((unsigned char)name[*stem - 1]))
        --*stem;
    size_t count = len - *stem;
    if (count == 0 || count >= 10)
        return false;
    memcpy(digits, name + *stem, count);
    digits[count] = '\0';
    return parse_int(digits, number);
}

static weft_status find_range(struct node_reader *reader, const struct doc *doc, const char *dots,
                              struct ends *out)
{
    const char *text = doc->text, *second = dots + 2;
    size_t stem, second_stem;
    int64_t from, to;
    bool valid = split_number(text, (size_t)(dots - text), &stem, &from) &&
                 split_number(second, strlen(second), &second_stem, &to) && stem == second_stem &&
                 strncmp(text, second, stem) == 0 && from <= to && to - from < MAX_NODE_VERTICES;
    if (!valid)
        return doc_error(doc, NULL, "'%.60s' is not a range, expected one like dev0..dev7", text);
    out->vertex = ARENA_ARRAY(reader->graph.keep, int32_t, (size_t)(to - from + 1));
    for (int64_t i = from; i <= to; i++) {
        const char *name =
            arena_printf(reader->graph.keep, "%.*s%lld", (int)stem, text, (long long)i);
        weft_status status = find_vertex(reader, doc, name, &out->vertex[out->count++]);
        if (status)
            return status;
    }
    return WEFT_OK;
}

static weft_status find_ends(struct node_reader *reader, const struct doc *doc, struct ends *out)
{
    const char *name;
    weft_status status = doc_scalar(doc, FIELD_TEXT, &name);
    if (status)
        return status;
    const char *dots = strstr(name, "..");
    *out = (struct ends){0};
    if (dots)
        return find_range(reader, doc, dots, out);
    out->vertex = ARENA_NEW(reader->graph.keep, int32_t);
    out->count = 1;
    return find_vertex(reader, doc, name, out->vertex);
}

/* ---- links ----------------------------------------------------------------------------------- */

struct link_form {
    const struct doc *between;
    int kind;
    int64_t count, latency;
    double bandwidth;
};

static const char *const WIRES[] = {"nvlink", "pci", "socket", NULL};
_Static_assert(LINK_NVLINK == 0 && LINK_PCI == 1 && LINK_SOCKET == 2, "WIRES follows link_kind");

static const struct field LINK_FIELDS[] = {
    {"between", FIELD_DOC, offsetof(struct link_form, between), true,
     .expected = "two ends, as in [dev0, dev1]"},
    {"kind", FIELD_CHOICE, offsetof(struct link_form, kind), true, .choices = WIRES,
     .expected = "one of nvlink, pci, socket"},
    {"count", FIELD_COUNT, offsetof(struct link_form, count), .min = 1, .max = 1024},
    {"bandwidth", FIELD_RATE, offsetof(struct link_form, bandwidth), true},
    {"latency", FIELD_DURATION, offsetof(struct link_form, latency)},
};

static int32_t pci_root(const struct node_reader *reader, int32_t vertex)
{
    while (reader->root[vertex] != vertex)
        vertex = reader->root[vertex] = reader->root[reader->root[vertex]];
    return vertex;
}

static weft_status check_link(struct node_reader *reader, const struct doc *doc, int32_t a,
                              int32_t b, enum link_kind kind)
{
    const struct vertex *vertex = reader->graph.vertices.data;
    if (a == b)
        return doc_error(doc, NULL, "'%s' is linked to itself", vertex[a].name);
    int32_t wrong = !ENDS[kind][vertex[a].kind] ? a : !ENDS[kind][vertex[b].kind] ? b : -1;
    if (wrong >= 0)
        return doc_error(doc, NULL, "a link of kind %s cannot end at '%s', which is a %s",
                         link_kind_name(kind), vertex[wrong].name,
                         vertex_kind_name(vertex[wrong].kind));
    if (reader->graph.links.len == MAX_NODE_LINKS)
        return doc_error(doc, NULL, "the node has more than %d links", MAX_NODE_LINKS);
    char key[64];
    snprintf(key, sizeof key, "%d %d %d", (int)kind, a < b ? a : b, a < b ? b : a);
    if (!map_put(reader->bundle, key, 1))
        return doc_error(doc, "several wires are one link with a 'count'",
                         "'%s' and '%s' are linked twice", vertex[a].name, vertex[b].name);
    if (kind == LINK_PCI && pci_root(reader, a) == pci_root(reader, b))
        return doc_error(doc, NULL, "'%s' and '%s' close a loop of PCI links, expected a tree",
                         vertex[a].name, vertex[b].name);
    return WEFT_OK;
}

static int64_t default_latency(const struct node_reader *reader, int32_t a, int32_t b,
                               enum link_kind kind)
{
    const struct vertex *vertex = reader->graph.vertices.data;
    bool switched = vertex[a].kind == VERTEX_NVSWITCH || vertex[b].kind == VERTEX_NVSWITCH;
    const int64_t defaults[] = {switched ? NVLINK_SWITCH_NS : NVLINK_NS, PCI_NS, SOCKET_NS};
    return defaults[kind];
}

static weft_status join(struct node_reader *reader, const struct doc *doc, int32_t a, int32_t b,
                        const struct link_form *form)
{
    enum link_kind kind = form->kind;
    weft_status status = check_link(reader, doc, a, b, kind);
    if (status)
        return status;
    if (kind == LINK_PCI)
        reader->root[pci_root(reader, a)] = pci_root(reader, b);
    int64_t latency = form->latency >= 0 ? form->latency : default_latency(reader, a, b, kind);
    add_link(&reader->graph, kind, a, b, (int32_t)form->count, form->bandwidth, latency);
    return WEFT_OK;
}

static weft_status read_link(struct node_reader *reader, const struct doc *doc)
{
    weft_status status;
    struct link_form form = {.count = 1, .latency = -1};
    struct ends left, right;
    TRY(doc_read(doc, LINK_FIELDS, COUNT_OF(LINK_FIELDS), DOC_REFUSE_UNKNOWN, &form));
    if (form.between->kind != DOC_LIST || form.between->count != 2)
        return doc_error(form.between, NULL,
                         "'between' is %s, expected two ends, as in [dev0, dev1]",
                         doc_kind_name(form.between->kind));
    TRY(find_ends(reader, form.between->first, &left));
    TRY(find_ends(reader, form.between->first->next, &right));
    for (int32_t i = 0; i < left.count; i++)
        for (int32_t j = 0; j < right.count; j++)
            TRY(join(reader, doc, left.vertex[i], right.vertex[j], &form));
done:
    return status;
}

static weft_status read_links(struct node_reader *reader, const struct doc *list)
{
    if (list->kind != DOC_LIST)
        return doc_error(list, NULL, "'links' is %s, expected a list of links",
                         doc_kind_name(list->kind));
    reader->root = ARENA_ARRAY(reader->graph.keep, int32_t, reader->graph.vertices.len);
    for (size_t v = 0; v < reader->graph.vertices.len; v++)
        reader->root[v] = (int32_t)v;
    weft_status status = WEFT_OK;
    for (const struct doc *item = list->first; item && !status; item = item->next)
        status = read_link(reader, item);
    return status;
}

weft_status node_read(const struct doc *doc, struct arena *keep, struct node_type *node)
{
    struct node_form {
        int64_t devices;
        const struct doc *vertices, *links;
        double host_memory;
    } form = {0};
    static const struct field FIELDS[] = {
        {"devices", FIELD_COUNT, offsetof(struct node_form, devices), true, .min = 1,
         .max = MAX_NODE_DEVICES},
        {"vertices", FIELD_DOC, offsetof(struct node_form, vertices)},
        {"links", FIELD_DOC, offsetof(struct node_form, links)},
        {"host_memory", FIELD_RATE, offsetof(struct node_form, host_memory)},
    };
    weft_status status;
    struct node_reader reader = {{.keep = keep}, map_new(keep), map_new(keep), NULL};
    TRY(doc_read(doc, FIELDS, COUNT_OF(FIELDS), DOC_REFUSE_UNKNOWN, &form));
    add_devices(&reader, form.devices);
    if (form.vertices)
        TRY(read_vertices(&reader, form.vertices));
    if (form.links)
        TRY(read_links(&reader, form.links));
    topology_finish(&reader.graph, 0, node);
    node->host_memory_bytes_per_s = form.host_memory;
    int32_t lost = unreachable_vertex(node);
    if (lost >= 0)
        return doc_error(doc, "add a link to it", "'%s' has no path to 'dev0'",
                         node->vertex[lost].name);
done:
    return status;
}
