/* show_stages.c - the stages of a plan: their devices, their operators, and their memory with bars.
 *
 *   bar of a stage: BAR columns for the limit, of which each kind of memory takes its share
 */
#include <stdio.h>
#include <string.h>

#include "cli/show.h"
#include "schedule/schedule.h"

enum { BAR = 20 };

/* The kinds of memory in the order of a bar; each has its own mark. */
static const struct {
    const char *name, *json, *mark;
    size_t offset;
} KINDS[] = {
    {"weights", "weights_bytes", "█", offsetof(struct stage_memory, weights)},
    {"gradients", "gradients_bytes", "▓", offsetof(struct stage_memory, gradients)},
    {"optimizer", "optimizer_bytes", "▒", offsetof(struct stage_memory, optimizer)},
    {"activations", "activations_bytes", "░", offsetof(struct stage_memory, activations)},
    {"workspace", "workspace_bytes", "+", offsetof(struct stage_memory, workspace)},
};

static double bytes_of(const struct stage_memory *memory, size_t kind)
{
    double bytes;
    memcpy(&bytes, (const char *)memory + KINDS[kind].offset, sizeof bytes);
    return bytes;
}

const struct stage_view *view_stages(struct arena *keep, const struct plan *plan)
{
    struct stage_view *view = ARENA_ARRAY(keep, struct stage_view, (size_t)plan->stages);
    struct pipeline pipeline = plan_pipeline(plan);
    const struct schedule *schedule = plan_schedule(plan);
    for (int32_t i = 0; i < plan->stages; i++) {
        view[i].in_flight = schedule_in_flight(schedule, &pipeline, i);
        view[i].memory = plan_stage_memory(plan, i, view[i].in_flight);
    }
    return view;
}

/* ---- words ----------------------------------------------------------------------------------- */

static const char *nodes_of(struct arena *keep, const struct plan *plan, int32_t stage)
{
    struct device_order order = plan_device_order(plan);
    int64_t each = plan->cluster->node.devices, first = plan->stage[stage].first_device;
    int64_t last = device_at(&order, first + plan->stage[stage].devices - 1);
    first = device_at(&order, first);
    return number_range(keep, first / each, last / each - first / each + 1);
}

/* Such as "layers.8-15" if only the last number differs, and "embedding to layers.7" otherwise. */
static const char *span(struct arena *keep, const struct part_names *names)
{
    const char *dot = strrchr(names->first, '.'), *end = strrchr(names->last, '.');
    size_t head = dot ? (size_t)(dot - names->first) : 0;
    int64_t from, to;
    if (strcmp(names->first, names->last) == 0)
        return names->first;
    if (dot && end && (size_t)(end - names->last) == head &&
        strncmp(names->first, names->last, head) == 0 && parse_int(dot + 1, &from) &&
        parse_int(end + 1, &to))
        return arena_printf(keep, "%s-%lld", names->first, (long long)to);
    return arena_printf(keep, "%s to %s", names->first, names->last);
}

/* The spans of all pieces of a stage. */
static const char *holds(const struct showing *s, int32_t stage)
{
    const char *text = "";
    for (int32_t part = stage; part < s->plan->parts; part = plan_next_part(s->plan, part))
        text = arena_printf(s->arena, "%s%s%s", text, *text ? ", " : "",
                            span(s->arena, &s->parts[part]));
    return text;
}

static int64_t operators_of(const struct plan *plan, int32_t stage)
{
    int64_t count = 0;
    for (int32_t part = stage; part < plan->parts; part = plan_next_part(plan, part))
        count += plan->part[part].count;
    return count;
}

static const char *bar(struct arena *keep, const struct stage_memory *memory, double limit)
{
    const char *text = "";
    double sum = 0;
    int drawn = 0;
    for (size_t kind = 0; kind < COUNT_OF(KINDS); kind++) {
        sum += bytes_of(memory, kind);
        for (; drawn < BAR && drawn + 0.5 < sum / limit * BAR; drawn++)
            text = arena_printf(keep, "%s%s", text, KINDS[kind].mark);
    }
    for (; drawn < BAR; drawn++)
        text = arena_printf(keep, "%s·", text);
    return text;
}

static double stage_limit(const struct showing *s, int32_t stage)
{
    struct memory_budget budget =
        memory_budget(plan_stage_device(s->plan, stage), &s->plan->memory);
    return (double)budget_room(&budget);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void print_map(const struct showing *s, FILE *out)
{
    static const char *const HEADERS[] = {"stage",     "devices",    "nodes",    "holds",
                                          "operators", "parameters", "in flight"};
    static const enum align ALIGNS[] = {ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_LEFT,
                                        ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT};
    struct table *table = table_new(s->arena, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    table_rule(table);
    for (int32_t i = 0; i < s->plan->stages; i++) {
        table_cell(table, "%d", i);
        const char *devices = stage_devices_text(s->arena, s->plan, i);
        const char *pool = cluster_pool_name(s->plan->cluster, plan_stage_pool(s->plan, i));
        table_cell(table, "%s%s%s", s->plan->cluster->pools ? pool : "",
                   s->plan->cluster->pools ? " " : "", devices);
        table_cell(table, "%s", nodes_of(s->arena, s->plan, i));
        table_cell(table, "%s", holds(s, i));
        table_cell(table, "%lld", (long long)operators_of(s->plan, i));
        table_cell(table, "%s", show_count(s->stage[i].memory.parameters).s);
        table_cell(table, "%lld", (long long)s->stage[i].in_flight * plan_stage_joins(s->plan, i));
    }
    table_print(table, out);
}

enum { MEMORY_COLUMNS = COUNT_OF(KINDS) + 3 };

static void print_memory(const struct showing *s, FILE *out)
{
    const char *headers[MEMORY_COLUMNS] = {"stage"};
    enum align aligns[MEMORY_COLUMNS] = {ALIGN_RIGHT};
    for (size_t kind = 0; kind < COUNT_OF(KINDS); kind++) {
        headers[kind + 1] = KINDS[kind].name;
        aligns[kind + 1] = ALIGN_RIGHT;
    }
    headers[MEMORY_COLUMNS - 2] = "all";
    aligns[MEMORY_COLUMNS - 2] = ALIGN_RIGHT;
    headers[MEMORY_COLUMNS - 1] =
        s->plan->cluster->pools
            ? "of its device"
            : arena_printf(s->arena, "of %s", show_bytes((double)s->limit_bytes).s);
    aligns[MEMORY_COLUMNS - 1] = ALIGN_LEFT;
    struct table *table = table_new(s->arena, MEMORY_COLUMNS, headers, aligns);
    table_rule(table);
    for (int32_t i = 0; i < s->plan->stages; i++) {
        const struct stage_memory *memory = &s->stage[i].memory;
        table_cell(table, "%d", i);
        for (size_t kind = 0; kind < COUNT_OF(KINDS); kind++)
            table_cell(table, "%s", show_bytes(bytes_of(memory, kind)).s);
        double all = stage_memory_total(memory);
        table_cell(table, "%s", show_bytes(all).s);
        table_cell(table, "%s%s", bar(s->arena, memory, stage_limit(s, i)),
                   all > stage_limit(s, i) ? " !" : "");
    }
    table_print(table, out);
}

static void print_legend(const struct showing *s, FILE *out)
{
    double host = 0;
    for (size_t kind = 0; kind < COUNT_OF(KINDS); kind++)
        fprintf(out, "%s%s %s", kind ? "  " : "", KINDS[kind].mark, KINDS[kind].name);
    fputs("  ! too much\n", out);
    for (int32_t i = 0; i < s->plan->stages; i++)
        if (s->stage[i].memory.host > host)
            host = s->stage[i].memory.host;
    if (host > 0)
        fprintf(out, "%s in host memory: up to %s per device\n",
                s->plan->optimizer_offload > 0 ? "checkpoints and optimizer state" : "checkpoints",
                show_bytes(host).s);
}

void stages_print(const struct showing *showing, FILE *out)
{
    print_map(showing, out);
    fputs("\nmemory of one device, estimated:\n\n", out);
    print_memory(showing, out);
    print_legend(showing, out);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *parts_json(const struct showing *s, int32_t stage)
{
    json_t *parts = json_array();
    for (int32_t part = stage; part < s->plan->parts; part = plan_next_part(s->plan, part))
        json_array_append_new(
            parts, json_pack("{s:o, s:o, s:I}", "first",
                             json_text(plan_path(s->arena, s->plan, s->plan->part[part].first)),
                             "until", json_text(s->parts[part].last), "operators",
                             (json_int_t)s->plan->part[part].count));
    return parts;
}

static json_t *memory_json(const struct showing *s, int32_t stage)
{
    const struct stage_memory *memory = &s->stage[stage].memory;
    json_t *json = json_object();
    for (size_t kind = 0; kind < COUNT_OF(KINDS); kind++)
        json_object_set_new(json, KINDS[kind].json, json_whole(bytes_of(memory, kind)));
    json_object_set_new(json, "total_bytes", json_whole(stage_memory_total(memory)));
    json_object_set_new(json, "limit_bytes", json_integer((json_int_t)s->limit_bytes));
    json_object_set_new(json, "host_bytes", json_whole(memory->host));
    return json;
}

json_t *stages_json(const struct showing *s)
{
    json_t *stages = json_array();
    for (int32_t i = 0; i < s->plan->stages; i++) {
        const struct stage *stage = &s->plan->stage[i];
        bool too_much = stage_memory_total(&s->stage[i].memory) > stage_limit(s, i);
        json_array_append_new(
            stages, json_pack("{s:I, s:I, s:o, s:o, s:I, s:o, s:b}", "first_device",
                              (json_int_t)stage->first_device, "devices",
                              (json_int_t)stage->devices, "parts", parts_json(s, i), "parameters",
                              json_whole(s->stage[i].memory.parameters), "in_flight",
                              (json_int_t)s->stage[i].in_flight * plan_stage_joins(s->plan, i),
                              "memory", memory_json(s, i), "too_much", too_much));
    }
    return stages;
}
