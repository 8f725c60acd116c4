/* clusters.c - `weft clusters`: lists the clusters Weft knows, or draws one and shows how long collectives
 * take on it. */
#include <stdio.h>
#include <string.h>

#include "cli/model_collectives.h"
#include "cli/options.h"

enum { MAX_SIZES = 8, MAX_GROUPS = 8 };

struct clusters_command {
    const char *name, *model;
    bool this_machine, names, json;
    bool one_collective;
    enum collective collective;
    int64_t bytes[MAX_SIZES];
    size_t sizes;
    struct group group;
    const char *group_text; /* NULL for groups that are usual on the cluster */
};

#define AT(field) offsetof(struct clusters_command, field)

/* Reads FIRST:COUNT:STRIDE[:COUNT:STRIDE...]. */
static bool parse_group(const char *text, struct group *group)
{
    int64_t number[1 + 2 * MAX_GROUP_LEVELS];
    size_t count = 0;
    char word[32];
    for (;;) {
        size_t len = strcspn(text, ":");
        if (count == COUNT_OF(number) || len >= sizeof word)
            return false;
        memcpy(word, text, len);
        word[len] = '\0';
        if (!parse_int(word, &number[count]) || number[count] < (count > 0))
            return false;
        count++;
        if (text[len] == '\0')
            break;
        text += len + 1;
    }
    *group = (struct group){.first = number[0], .levels = (int32_t)count / 2};
    for (int32_t k = 0; k < group->levels; k++) {
        group->count[k] = number[1 + 2 * k];
        group->stride[k] = number[2 + 2 * k];
    }
    return count >= 3 && count % 2 == 1;
}

static void take_group(struct argp_state *state, void *input, char *arg)
{
    struct clusters_command *options = input;
    options->group_text = arg;
    if (!parse_group(arg, &options->group))
        argp_error(state, "--group takes FIRST:COUNT:STRIDE such as 0:8:1, not '%s'", arg);
}

static void take_size(struct argp_state *state, void *input, char *arg)
{
    struct clusters_command *options = input;
    if (options->sizes == MAX_SIZES)
        argp_error(state, "--bytes can be given at most %d times", MAX_SIZES);
    else if (!parse_bytes(arg, &options->bytes[options->sizes]) ||
             options->bytes[options->sizes] < 1)
        argp_error(state, "--bytes takes a size such as 64MiB, not '%s'", arg);
    else
        options->sizes++;
}

static void take_one_collective(struct argp_state *state, void *input, char *arg)
{
    struct clusters_command *options = input;
    options->one_collective = true;
    options->collective = take_collective(state, arg);
}

static const struct cli_option OPTIONS[] = {
    {"this", NULL, "describe the machine this runs on", OPTION_FLAG, AT(this_machine)},
    {"model", "MODEL", "cost what the training of this model sends", OPTION_TEXT, AT(model)},
    {"collective", "NAME", "cost only this collective", OPTION_TAKE, .letter = 'c',
     .take = take_one_collective},
    {"bytes", "SIZE", "at this size (such as 64MiB; may be repeated)", OPTION_TAKE, .letter = 'b',
     .take = take_size},
    {"group", "FIRST:COUNT:STRIDE",
     "on these devices; COUNT:STRIDE may be repeated, innermost first", OPTION_TAKE, .letter = 'g',
     .take = take_group},
    {"names", NULL, "bare names of the clusters Weft knows, one per line", OPTION_FLAG, AT(names)},
    JSON_OPTION(AT(json)),
    {0},
};

static error_t take_names(int key, char *arg, struct argp_state *state)
{
    struct clusters_command *options = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (options->name)
            argp_error(state, "one cluster at a time: '%s' or '%s'?", options->name, arg);
        options->name = arg;
        return 0;
    case ARGP_KEY_END:
        if (options->name && options->this_machine)
            argp_error(state, "either a cluster or --this");
        if (!options->name && !options->this_machine &&
            (options->one_collective || options->sizes || options->group_text || options->model))
            argp_error(state, "which cluster? Collectives are costed on one, such as dgx-v100:4");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct syntax SYNTAX = {
    OPTIONS,
    "[CLUSTER]",
    "Lists the clusters Weft knows; or draws one, with what collectives cost on it.\v"
    "CLUSTER is a preset with a number of nodes, a cluster file "
    "(docs/reference/cluster-file.md), or a topology that NCCL wrote to NCCL_TOPO_DUMP_FILE.\n\n"
    "Example:\n"
    "  weft clusters dgx-v100:4\n"
    "  weft clusters dgx-v100:4 --model gpt3-13b\n"
    "  weft clusters dgx-a100:16 --collective all_reduce --bytes 64MiB --group 0:16:8\n"
    "  weft clusters my-cluster.yaml --json",
    .names = take_names,
};

/* ---- the list -------------------------------------------------------------------------------- */

static void list_row(struct table *table, const struct cluster_preset *preset,
                     const struct cluster *cluster)
{
    const struct node_type *node = &cluster->node;
    struct inside inside = inside_of(node);
    table_cell(table, "%s", preset->name);
    table_cell(table, "%d", node->devices);
    table_cell(table, "%s", node->device.name);
    table_cell(table, "%.1f", (double)node->device.memory_bytes / 0x1p30);
    if (inside.bytes_per_s > 0)
        table_cell(table, "%s %.4g", inside.kind, inside.bytes_per_s / 1e9);
    else
        table_cell(table, "-");
    if (node->nics > 0)
        table_cell(table, "%d x %.3g %s", node->nics, node->nic_bytes_per_s / node->nics / 1e9,
                   fabric_kind_name(cluster->fabric.kind));
    else
        table_cell(table, "-");
    table_cell(table, "%s", preset->source);
}

static int print_list_json(void)
{
    json_t *list;
    weft_status status = clusters_json(&list);
    return status ? cli_fail(status) : cli_print_json(list);
}

static int list_presets(struct arena *arena)
{
    static const char *const HEADERS[] = {"name",         "devices",       "device", "GiB",
                                          "inside, GB/s", "between, GB/s", "source"};
    static const enum align ALIGNS[] = {ALIGN_LEFT, ALIGN_RIGHT, ALIGN_LEFT, ALIGN_RIGHT,
                                        ALIGN_LEFT, ALIGN_LEFT,  ALIGN_LEFT};
    struct table *table = table_new(arena, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    const struct cluster_preset *presets;
    size_t count = cluster_presets(&presets);
    for (size_t i = 0; i < count; i++) {
        struct cluster *cluster;
        weft_status status = cluster_open(presets[i].name, &cluster);
        if (status)
            return cli_fail(status);
        list_row(table, &presets[i], cluster);
        cluster_free(cluster);
    }
    table_print(table, stdout);
    printf("\nEach name takes :NODES, as in dgx-v100:4, and `weft clusters dgx-v100:4` draws it.\n"
           "Bandwidths are per direction: inside out of one device, between per NIC.\n");
    return WEFT_OK;
}

/* ---- collectives on groups ------------------------------------------------------------------- */

struct question {
    const char *label;
    struct group group;
};

struct questions {
    struct question data[MAX_GROUPS];
    size_t count;
};

static void ask(struct arena *arena, struct questions *questions, int64_t nodes, int64_t each,
                int64_t stride)
{
    const char *label = arena_printf(arena, "%lld node%s x %lld", (long long)nodes,
                                     nodes == 1 ? "" : "s", (long long)each);
    questions->data[questions->count++] =
        (struct question){label, group_range(0, nodes * each, stride)};
}

/* The groups that tensor, data and pipeline parallelism form: some or all devices of one node, of two nodes
 * and of all nodes. */
static struct questions sensible_groups(struct arena *arena, const struct cluster *cluster)
{
    struct questions questions = {.count = 0};
    int64_t per_node = cluster->node.devices, nodes = cluster->nodes;
    if (per_node > 2)
        ask(arena, &questions, 1, 2, 1);
    if (per_node > 1)
        ask(arena, &questions, 1, per_node, 1);
    if (nodes > 1)
        ask(arena, &questions, 2, 1, per_node);
    if (nodes > 1 && per_node > 1)
        ask(arena, &questions, 2, per_node, 1);
    if (nodes > 2)
        ask(arena, &questions, nodes, 1, per_node);
    if (nodes > 2 && per_node > 1)
        ask(arena, &questions, nodes, per_node, 1);
    return questions;
}

static struct questions choose_groups(struct arena *arena, const struct cluster *cluster,
                                      const struct clusters_command *options)
{
    if (!options->group_text)
        return sensible_groups(arena, cluster);
    return (struct questions){{{options->group_text, options->group}}, 1};
}

/* Whether to show this collective for a group: the one that was asked for, or all; a send only between two devices. */
static bool wanted(const struct clusters_command *options, enum collective collective,
                   int64_t devices)
{
    if (options->one_collective)
        return collective == options->collective;
    return collective == COLLECTIVE_SEND ? devices == 2 : collective != COLLECTIVE_BROADCAST;
}

/* Where the listing goes: into a table or a JSON list. */
struct cluster_listing {
    struct table *table;
    json_t *list;
};

static json_t *group_json(const struct group *group)
{
    json_t *levels = json_array();
    for (int32_t k = 0; k < group->levels; k++)
        json_array_append_new(levels, json_pack("{s:I, s:I}", "count", (json_int_t)group->count[k],
                                                "stride", (json_int_t)group->stride[k]));
    return json_pack("{s:I, s:o, s:I}", "first", (json_int_t)group->first, "levels", levels,
                     "devices", (json_int_t)group_size(group));
}

static weft_status answer_row(const struct cluster *cluster, const struct clusters_command *options,
                              const struct question *question, enum collective collective,
                              struct cluster_listing *answer)
{
    struct collective_cost cost = {0};
    table_cell(answer->table, "%s", question->label);
    table_cell(answer->table, "%s", collective_name(collective));
    for (size_t i = 0; i < options->sizes; i++) {
        weft_status status =
            collective_time(cluster, collective, &question->group, options->bytes[i], &cost);
        if (status)
            return status;
        table_cell(answer->table, "%s", show_duration((double)cost.ns).s);
        json_array_append_new(
            answer->list,
            json_pack("{s:s, s:o, s:I, s:I, s:f, s:s, s:s, s:s}", "collective",
                      collective_name(collective), "group", group_json(&question->group), "bytes",
                      (json_int_t)options->bytes[i], "ns", (json_int_t)cost.ns, "bus_bytes_per_s",
                      cost.bus_bytes_per_s, "algorithm", cost.algorithm, "source", cost.source,
                      "bottleneck", cost.bottleneck));
    }
    table_cell(answer->table, "%s", show_rate(cost.bus_bytes_per_s).s);
    table_cell(answer->table, "%s", cost.algorithm);
    table_cell(answer->table, "%s", cost.bottleneck);
    return WEFT_OK;
}

static struct table *new_table(struct arena *arena, const struct clusters_command *options)
{
    enum { FIXED = 5 };
    const char *headers[FIXED + MAX_SIZES] = {"group", "collective"};
    enum align aligns[FIXED + MAX_SIZES] = {ALIGN_LEFT, ALIGN_LEFT};
    size_t at = 2;
    for (size_t i = 0; i < options->sizes; i++) {
        aligns[at] = ALIGN_RIGHT;
        headers[at++] = arena_printf(arena, "%s", show_bytes((double)options->bytes[i]).s);
    }
    static const char *const LAST[] = {"bus", "method", "limit"};
    for (size_t i = 0; i < COUNT_OF(LAST); i++) {
        aligns[at] = i == 0 ? ALIGN_RIGHT : ALIGN_LEFT;
        headers[at++] = LAST[i];
    }
    return table_new(arena, at, headers, aligns);
}

static weft_status answer_all(struct arena *arena, const struct cluster *cluster,
                              const struct clusters_command *options,
                              struct cluster_listing *answer)
{
    struct questions questions = choose_groups(arena, cluster, options);
    answer->table = new_table(arena, options);
    for (size_t i = 0; i < questions.count; i++) {
        const struct question *question = &questions.data[i];
        if (i > 0)
            table_rule(answer->table);
        for (int c = 0; c < COLLECTIVE_MEASURED; c++) {
            if (!wanted(options, c, group_size(&question->group)))
                continue;
            weft_status status = answer_row(cluster, options, question, c, answer);
            if (status)
                return status;
        }
    }
    return WEFT_OK;
}

/* ---- one cluster as JSON --------------------------------------------------------------------- */

static json_t *device_json(const struct device *device)
{
    json_t *flops = json_object();
    for (int t = 0; t < DTYPE_COUNT; t++)
        if (device->flops[t] > 0)
            json_object_set_new(flops, dtype_name(t), json_real(device->flops[t]));
    return json_pack(
        "{s:s, s:s, s:I, s:I, s:I, s:o, s:f, s:f, s:f, s:I, s:I, s:i, s:f, s:s}", "name",
        device->name, "arch", device->arch, "memory_bytes", (json_int_t)device->memory_bytes,
        "context_bytes", (json_int_t)device->context_bytes, "connection_bytes",
        (json_int_t)device->connection_bytes, "flops", flops, "vector_flops", device->vector_flops,
        "memory_bytes_per_s", device->memory_bytes_per_s, "host_bytes_per_s",
        device->host_bytes_per_s, "launch_ns", (json_int_t)device->launch_ns, "l2_bytes",
        (json_int_t)device->l2_bytes, "units", device->units, "price_per_hour",
        device->price_per_hour, "source", device->source);
}

static json_t *node_json(const struct node_type *node)
{
    json_t *vertices = json_array(), *links = json_array();
    for (int32_t v = 0; v < node->vertices; v++)
        json_array_append_new(vertices, json_pack("{s:s, s:s}", "name", node->vertex[v].name,
                                                  "kind", vertex_kind_name(node->vertex[v].kind)));
    for (int32_t i = 0; i < node->links; i++) {
        const struct link *link = &node->link[i];
        json_array_append_new(
            links, json_pack("{s:s, s:s, s:s, s:i, s:f, s:I}", "kind",
                             link_name(&node->device, link->kind), "a", node->vertex[link->a].name,
                             "b", node->vertex[link->b].name, "count", link->count, "bytes_per_s",
                             link->bytes_per_s, "latency_ns", (json_int_t)link->latency_ns));
    }
    return json_pack("{s:i, s:o, s:o, s:i, s:f}", "devices", node->devices, "vertices", vertices,
                     "links", links, "nics", node->nics, "nic_bytes_per_s", node->nic_bytes_per_s);
}

static json_t *fabric_json(const struct fabric *fabric)
{
    json_t *tiers = json_array();
    for (int32_t k = 0; k < fabric->tiers; k++) {
        const struct tier *tier = &fabric->tier[k];
        json_array_append_new(tiers, json_pack("{s:s, s:I, s:f, s:I}", "name", tier->name, "nodes",
                                               (json_int_t)tier->nodes, "uplink_bytes_per_s",
                                               tier->uplink_bytes_per_s, "latency_ns",
                                               (json_int_t)tier->latency_ns));
    }
    return json_pack("{s:s, s:b, s:s?, s:o}", "kind", fabric_kind_name(fabric->kind), "rails",
                     fabric->rails, "source", fabric->source, "tiers", tiers);
}

static json_t *cluster_json(const struct cluster *cluster, json_t *collectives);

static json_t *pool_list_json(const struct cluster *cluster)
{
    json_t *pools = json_array();
    for (int32_t p = 0; p < cluster->pools; p++) {
        const struct node_pool *pool = &cluster->pool[p];
        json_t *json = cluster_json(pool->cluster, json_array());
        json_object_set_new(json, "pool", json_text(pool->name));
        json_object_set_new(json, "first_node", json_integer((json_int_t)pool->first_node));
        json_object_set_new(json, "uplink_bytes_per_s", json_real(pool->uplink_bytes_per_s));
        json_array_append_new(pools, json);
    }
    return pools;
}

/* Of pools, each with its own device, node and fabric. */
static json_t *fleet_json(const struct cluster *cluster, json_t *collectives)
{
    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:o, s:o}", "name", cluster->name, "source",
                     cluster->source, "nodes", (json_int_t)cluster->nodes, "devices",
                     (json_int_t)cluster_devices(cluster), "between_ns",
                     (json_int_t)cluster->between_ns, "pools", pool_list_json(cluster),
                     "collectives", collectives);
}

static json_t *cluster_json(const struct cluster *cluster, json_t *collectives)
{
    if (cluster->pools)
        return fleet_json(cluster, collectives);
    return json_pack("{s:s, s:s, s:I, s:I, s:o, s:o, s:o, s:o}", "name", cluster->name, "source",
                     cluster->source, "nodes", (json_int_t)cluster->nodes, "devices",
                     (json_int_t)cluster_devices(cluster), "device",
                     device_json(&cluster->node.device), "node", node_json(&cluster->node),
                     "fabric", fabric_json(&cluster->fabric), "collectives", collectives);
}

/* ---- one cluster ----------------------------------------------------------------------------- */

static int describe(struct arena *arena, const struct cluster *cluster,
                    const struct clusters_command *options)
{
    struct cluster_listing answer = {.list = json_array()};
    weft_status status = answer_all(arena, cluster, options, &answer);
    if (status) {
        json_decref(answer.list);
        return cli_fail(status);
    }
    if (options->json)
        return cli_print_json(cluster_json(cluster, answer.list));
    json_decref(answer.list);
    if (!options->one_collective && !options->group_text)
        fputs(cluster_draw(arena, cluster, REPORT_COLUMNS), stdout);
    if (cluster_devices(cluster) > 1) {
        printf("\ncollectives, alone on their links\n");
        table_print(answer.table, stdout);
    }
    return WEFT_OK;
}

static int answer_model(const struct cluster *cluster, const struct clusters_command *options)
{
    struct model *model;
    json_t *messages = NULL;
    weft_status status = model_open(options->model, NULL, &model);
    if (status)
        return cli_fail(status);
    status = options->json ? model_collectives_json(cluster, model, &messages)
                           : model_collectives_print(cluster, model);
    int code = status ? cli_fail(status) : WEFT_OK;
    if (messages)
        code = cli_print_json(json_pack("{s:s, s:I, s:I, s:s, s:o}", "name", cluster->name, "nodes",
                                        (json_int_t)cluster->nodes, "devices",
                                        (json_int_t)cluster_devices(cluster), "model", model->name,
                                        "messages", messages));
    model_free(model);
    return code;
}

static int open_and_describe(struct arena *arena, const struct clusters_command *options)
{
    struct cluster *cluster;
    weft_status status = options->this_machine ? cluster_this_machine(&cluster)
                                               : cluster_open(options->name, &cluster);
    if (status)
        return cli_fail(status);
    int code = options->model ? answer_model(cluster, options) : describe(arena, cluster, options);
    cluster_free(cluster);
    return code;
}

static int print_names(void)
{
    const struct cluster_preset *presets;
    size_t count = cluster_presets(&presets);
    for (size_t i = 0; i < count; i++)
        puts(presets[i].name);
    return WEFT_OK;
}

int cmd_clusters(int argc, char **argv)
{
    static const int64_t SIZES[] = {256 << 10, 4 << 20, 64 << 20, 1 << 30};
    struct clusters_command options = {0};
    cli_read(&SYNTAX, argc, argv, &options);
    if (options.names)
        return print_names();
    if (options.sizes == 0) {
        options.sizes = COUNT_OF(SIZES);
        memcpy(options.bytes, SIZES, sizeof SIZES);
    }
    struct arena *arena = arena_new();
    int code = options.name || options.this_machine ? open_and_describe(arena, &options)
               : options.json                       ? print_list_json()
                                                    : list_presets(arena);
    arena_free(arena);
    return code;
}
