/* import_galvatron.c - Galvatron's JSON files: layer times, bandwidths by group size, overlap.
 *
 *   bus rate of r ms/MB = 1 MiB / (r ms),   of r GB/s = r 10^9 bytes per second                     (1)
 *
 *   I1  Layers are not kernels: their times go to tables of their own (layer, layer_activation,
 *       model_ends), which planners that work layer by layer read.
 *   I2  Only its name says which machine a bandwidth file is about:
 *       "..._2nodes_8gpus_per_node-ID.json" has 2 nodes of 8 devices and is called "2x8 ID".
 *   I3  A group of g devices with stride s inside a stage of consecutive devices touches
 *       ceil(g / D) nodes of D devices if s = 1, and min(g, nodes of the stage) otherwise.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cost/profile.h"

enum { TITAN_PER_NODE = 8 };
static const char TITAN[] = "RTX-TITAN";

struct profiled_machine {
    const char *device, *name;
    int64_t nodes, per_node;
};

struct bus_rate {
    enum collective collective;
    int64_t devices, nodes, stages, consecutive;
    double bus_bytes_per_s;
};

static weft_status store_rate(struct import *import, const struct profiled_machine *machine,
                              const struct bus_rate *rate)
{
    struct profile_value values[] = {V_TEXT(machine->device),
                                     V_TEXT(machine->name),
                                     V_TEXT(collective_name(rate->collective)),
                                     V_INT(rate->devices),
                                     V_INT(rate->nodes),
                                     V_INT(rate->stages),
                                     V_INT(rate->consecutive),
                                     V_REAL(rate->bus_bytes_per_s),
                                     V_INT(import->source)};
    return import_row(import, TABLE_COLLECTIVE_RATE, values, COUNT_OF(values));
}

static weft_status store_constant(struct import *import, const struct profiled_machine *machine,
                                  const char *name, double value, const char *unit)
{
    struct profile_value values[] = {
        V_TEXT(machine->device), V_TEXT(machine->name), V_TEXT(name),
        V_REAL(value),           V_TEXT(unit),          V_INT(import->source)};
    return import_row(import, TABLE_CONSTANT, values, COUNT_OF(values));
}

static weft_status positive(const struct doc *node, double *out)
{
    weft_status status = doc_scalar(node, FIELD_REAL, out);
    if (status == WEFT_OK && (*out <= 0 || *out > 1e12))
        status =
            doc_error(node, NULL, "'%s' is %s, expected a number above 0", node->key, node->text);
    return status;
}

/* I3 */
static int64_t nodes_touched(int64_t group, int64_t stage_devices, int64_t per_node,
                             bool consecutive)
{
    int64_t stage_nodes = ceil_div(stage_devices, per_node);
    int64_t packed = ceil_div(group, per_node);
    if (consecutive)
        return packed;
    return group < stage_nodes ? group : stage_nodes;
}

/* ---- the bandwidth files --------------------------------------------------------------------- */

/* One key of a file; each reader returns true if the key is of its kind. */
struct file_entry {
    struct import *import;
    const struct profiled_machine *machine;
    const struct doc *node;
    double value;
};

static int64_t machine_devices(const struct profiled_machine *machine)
{
    return machine->nodes * machine->per_node;
}

/* "allreduce_size_8_consec_1": GB/s */
static bool bandwidth_entry(const struct file_entry *e, weft_status *status)
{
    int size, consecutive, used = 0;
    if (sscanf(e->node->key, "allreduce_size_%4d_consec_%1d%n", &size, &consecutive, &used) != 2 ||
        e->node->key[used] || size < 1)
        return false;
    int64_t nodes =
        nodes_touched(size, machine_devices(e->machine), e->machine->per_node, consecutive != 0);
    *status = store_rate(
        e->import, e->machine,
        &(struct bus_rate){COLLECTIVE_ALL_REDUCE, size, nodes, 1, consecutive, e->value * 1e9});
    return true;
}

/* "pp_size_4": GB/s between neighbouring stages */
static bool stage_entry(const struct file_entry *e, weft_status *status)
{
    int size, used = 0;
    if (sscanf(e->node->key, "pp_size_%4d%n", &size, &used) != 1 || e->node->key[used] || size < 1)
        return false;
    *status = store_rate(
        e->import, e->machine,
        &(struct bus_rate){COLLECTIVE_SEND, 2, e->machine->nodes, size, 0, e->value * 1e9});
    return true;
}

/* "all2all_size_8_64MB_time": ms */
static bool time_entry(const struct file_entry *e, weft_status *status)
{
    int size, mb, used = 0;
    enum collective collective = COLLECTIVE_ALL_REDUCE;
    if (sscanf(e->node->key, "allreduce_size_%4d_%5dMB_time%n", &size, &mb, &used) != 2) {
        collective = COLLECTIVE_ALL_TO_ALL;
        if (sscanf(e->node->key, "all2all_size_%4d_%5dMB_time%n", &size, &mb, &used) != 2)
            return false;
    }
    if (e->node->key[used] || size < 1 || mb < 1)
        return false;
    int64_t nodes = ceil_div(size, e->machine->per_node);
    struct profile_value values[] = {V_TEXT(e->machine->device),
                                     V_TEXT(e->machine->name),
                                     V_TEXT(collective_name(collective)),
                                     V_INT(size),
                                     V_INT(nodes),
                                     V_INT((int64_t)mb * MIB),
                                     V_REAL(e->value * 1e6),
                                     V_INT(1),
                                     V_INT(e->import->source)};
    *status = import_row(e->import, TABLE_COLLECTIVE, values, COUNT_OF(values));
    return true;
}

static bool overlap_entry(const struct file_entry *e, weft_status *status)
{
    if (strcmp(e->node->key, "overlap_coe") != 0)
        return false;
    *status = store_constant(e->import, e->machine, "overlap_slowdown", e->value, "ratio");
    return true;
}

static bool (*const ENTRIES[])(const struct file_entry *, weft_status *) = {
    bandwidth_entry, stage_entry, time_entry, overlap_entry};

static weft_status read_entry(struct import *import, const struct profiled_machine *machine,
                              const struct doc *node)
{
    struct file_entry entry = {import, machine, node, 0};
    weft_status status = positive(node, &entry.value);
    import->summary->read++;
    for (size_t i = 0; status == WEFT_OK && i < COUNT_OF(ENTRIES); i++)
        if (ENTRIES[i](&entry, &status))
            return status;
    if (status != WEFT_OK)
        return status;
    return doc_error(
        node,
        "Galvatron writes allreduce_size_N_consec_B, pp_size_N, allreduce_size_N_MMB_time, "
        "all2all_size_N_MMB_time and overlap_coe",
        "unknown key '%s'", node->key);
}

/* Reads the machine from the file's name (I2). */
static weft_status machine_of(struct import *import, const struct doc *doc,
                              struct profiled_machine *out)
{
    const char *slash = strrchr(import->file, '/');
    const char *name = slash ? slash + 1 : import->file;
    const char *id = strrchr(name, '-');
    int nodes = 1, per_node = 1;
    bool overlap = doc_get(doc, "overlap_coe") != NULL;
    for (const char *at = name; *at; at++)
        if (sscanf(at, "_%4dnodes_%4dgpus_per_node", &nodes, &per_node) == 2)
            break;
    if (per_node == 1 && !overlap)
        return bad_input(import->file, 0,
                         "name it as in allreduce_bandwidth_2nodes_8gpus_per_node.json",
                         "does not say in its name how many nodes and devices were measured");
    if (nodes < 1 || per_node < 1)
        return bad_input(import->file, 0, NULL, "names a machine without nodes or devices");
    out->device = import->options->device ? import->options->device : "";
    id = id ? arena_copy_bytes(import->arena, id + 1, strcspn(id + 1, ".")) : "";
    out->name = overlap ? id : arena_printf(import->arena, "%dx%d %s", nodes, per_node, id);
    out->nodes = nodes;
    out->per_node = per_node;
    return WEFT_OK;
}

static weft_status read_bandwidths(struct import *import, const struct doc *doc)
{
    struct profiled_machine machine;
    weft_status status;
    import->summary->format = "galvatron bandwidths";
    TRY(import_source(import, "galvatron bandwidths", "public Galvatron releases"));
    TRY(machine_of(import, doc, &machine));
    for (const struct doc *node = doc->first; node; node = node->next)
        TRY(read_entry(import, &machine, node));
done:
    return status;
}

/* ---- the RTX TITAN profile ------------------------------------------------------------------- */

static weft_status store_titan_rate(struct import *import, const struct profiled_machine *machine,
                                    const struct doc *node, struct bus_rate rate)
{
    double ms_per_mb;
    weft_status status = positive(node, &ms_per_mb);
    import->summary->read++;
    rate.bus_bytes_per_s = MIB / (ms_per_mb * 1e-3); /* (1) */
    return status == WEFT_OK ? store_rate(import, machine, &rate) : status;
}

/* "2_4_1": 2 stages, groups of 4, consecutive */
static weft_status titan_all_reduce(struct import *import, const struct profiled_machine *machine,
                                    const struct doc *map)
{
    weft_status status = WEFT_OK;
    for (const struct doc *node = map->first; node; node = node->next) {
        int stages, group, consecutive;
        if (sscanf(node->key, "%4d_%4d_%1d", &stages, &group, &consecutive) != 3 || stages < 1 ||
            group < 1)
            return doc_error(node, NULL, "key '%s', expected stages_groupsize_consecutive",
                             node->key);
        int64_t nodes = nodes_touched(group, ceil_div(machine_devices(machine), stages),
                                      machine->per_node, consecutive != 0);
        TRY(store_titan_rate(
            import, machine, node,
            (struct bus_rate){COLLECTIVE_ALL_REDUCE, group, nodes, stages, consecutive}));
    }
done:
    return status;
}

static weft_status titan_send(struct import *import, const struct profiled_machine *machine,
                              const struct doc *map)
{
    weft_status status = WEFT_OK;
    for (const struct doc *node = map->first; node; node = node->next) {
        int stages;
        if (sscanf(node->key, "pp_deg_%4d", &stages) != 1 || stages < 1)
            return doc_error(node, NULL, "key '%s', expected pp_deg_N", node->key);
        TRY(store_titan_rate(import, machine, node,
                             (struct bus_rate){COLLECTIVE_SEND, 2, machine->nodes, stages, 0}));
    }
done:
    return status;
}

static weft_status titan_hardware(struct import *import, const struct doc *hardware)
{
    static const struct profiled_machine ONE = {TITAN, "1x8 PCIe 3", 1, TITAN_PER_NODE};
    static const struct profiled_machine TWO = {TITAN, "2x8 PCIe 3", 2, TITAN_PER_NODE};
    static const struct {
        const char *key;
        const struct profiled_machine *machine;
        weft_status (*read)(struct import *, const struct profiled_machine *, const struct doc *);
    } MAPS[] = {
        {"allreduce_ms_per_MB_8gpus (key=pp_groupsize_consecutive)", &ONE, titan_all_reduce},
        {"allreduce_ms_per_MB_16gpus", &TWO, titan_all_reduce},
        {"p2p_ms_per_MB_16gpus", &TWO, titan_send},
    };
    static const struct {
        const char *key, *name, *unit;
        double factor;
    } CONSTANTS[] = {
        {"overlap_coe", "overlap_slowdown", "ratio", 1},
        {"costmodel_fudge", "estimate_factor", "ratio", 1},
        {"pytorch_context_MB", "context", "bytes", MIB},
    };
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < COUNT_OF(MAPS); i++) {
        const struct doc *map = doc_get(hardware, MAPS[i].key);
        if (map)
            TRY(MAPS[i].read(import, MAPS[i].machine, map));
    }
    for (size_t i = 0; i < COUNT_OF(CONSTANTS); i++) {
        const struct doc *node = doc_get(hardware, CONSTANTS[i].key);
        double value;
        if (!node)
            continue;
        import->summary->read++;
        TRY(positive(node, &value));
        TRY(store_constant(import, &ONE, CONSTANTS[i].name, value * CONSTANTS[i].factor,
                           CONSTANTS[i].unit));
    }
done:
    return status;
}

/* One layer, as a mapping in the file describes it. */
struct profiled_layer {
    const char *kind;
    int64_t seq, hidden, all_reduces;
    double weight_mb, forward_ms, extra_ms;
    const struct doc *activations;
};

static const struct field LAYER_FIELDS[] = {
    {"type", FIELD_TEXT, offsetof(struct profiled_layer, kind)},
    {"seq", FIELD_COUNT, offsetof(struct profiled_layer, seq)},
    {"hidden", FIELD_COUNT, offsetof(struct profiled_layer, hidden), .required = true},
    {"param_MB", FIELD_REAL, offsetof(struct profiled_layer, weight_mb), .required = true,
     .min = 1e-6, .max = 1e9},
    {"fwd_ms", FIELD_REAL, offsetof(struct profiled_layer, forward_ms), .required = true,
     .min = 1e-9, .max = 1e9},
    {"extra_overhead_ms_per_24layers", FIELD_REAL, offsetof(struct profiled_layer, extra_ms),
     .min = 0, .max = 1e9},
    {"tp_allreduces", FIELD_COUNT, offsetof(struct profiled_layer, all_reduces)},
    {"act_MB_per_sample_by_tp", FIELD_DOC, offsetof(struct profiled_layer, activations),
     .required = true},
};

static weft_status store_activations(struct import *import, const char *model, int64_t number,
                                     const struct doc *map)
{
    weft_status status = WEFT_OK;
    for (const struct doc *node = map->first; node; node = node->next) {
        int64_t tp;
        double mb;
        if (!node->key || !parse_int(node->key, &tp) || tp < 1)
            return doc_error(node, NULL, "expected activations by tensor degree");
        TRY(positive(node, &mb));
        struct profile_value values[] = {
            V_TEXT(TITAN), V_TEXT(dtype_name(DTYPE_FP32)), V_TEXT(model),        V_INT(number),
            V_INT(tp),     V_INT(llround(mb * MIB)),       V_INT(import->source)};
        TRY(import_row(import, TABLE_LAYER_ACTIVATION, values, COUNT_OF(values)));
        import->summary->read++;
    }
done:
    return status;
}

static weft_status store_layer(struct import *import, const char *model, int64_t number,
                               int64_t seq, const struct doc *node)
{
    struct profiled_layer layer = {.kind = "enc", .seq = seq, .all_reduces = 4};
    weft_status status;
    TRY(doc_read(node, LAYER_FIELDS, COUNT_OF(LAYER_FIELDS), DOC_REFUSE_UNKNOWN, &layer));
    struct profile_value values[] = {V_TEXT(TITAN),
                                     V_TEXT(dtype_name(DTYPE_FP32)),
                                     V_TEXT(model),
                                     V_INT(number),
                                     V_TEXT(layer.kind),
                                     V_INT(layer.seq),
                                     V_INT(layer.hidden),
                                     V_INT(llround(layer.weight_mb * MIB)),
                                     V_REAL(layer.forward_ms * 1e6),
                                     V_INT(layer.all_reduces),
                                     V_INT(import->source)};
    import->summary->read++;
    TRY(import_row(import, TABLE_LAYER, values, COUNT_OF(values)));
    TRY(store_activations(import, model, number, layer.activations));
    if (layer.extra_ms > 0) {
        struct profiled_machine nowhere = {TITAN, "", 1, TITAN_PER_NODE};
        char *name = arena_printf(import->arena, "%s layer %lld: overhead of 24 layers", model,
                                  (long long)number);
        TRY(store_constant(import, &nowhere, name, layer.extra_ms * 1e6, "ns"));
    }
done:
    return status;
}

/* What embedding and head take: with 8 devices as one number, with 16 also per end of the
 * pipeline. */
static weft_status store_end(struct import *import, const char *model, int64_t devices,
                             const char *part, const struct doc *map)
{
    const struct doc *states = doc_get(map, "model_states");
    const struct doc *activation = doc_get(map, "activation");
    double state_mb, activation_mb;
    weft_status status;
    if (!activation)
        activation = doc_get(map, "activation_per_sample");
    if (!states || !activation)
        return doc_error(map, NULL, "expected model_states and activation");
    TRY(positive(states, &state_mb));
    TRY(positive(activation, &activation_mb));
    struct profile_value values[] = {V_TEXT(TITAN),
                                     V_TEXT(dtype_name(DTYPE_FP32)),
                                     V_TEXT(model),
                                     V_INT(devices),
                                     V_TEXT(part),
                                     V_INT(llround(state_mb * MIB)),
                                     V_INT(llround(activation_mb * MIB)),
                                     V_INT(import->source)};
    import->summary->read++;
    TRY(import_row(import, TABLE_MODEL_ENDS, values, COUNT_OF(values)));
done:
    return status;
}

static weft_status titan_model(struct import *import, const struct doc *node)
{
    static const struct {
        const char *key, *part;
    } PARTS[] = {{"pp_off", "both"}, {"first", "first"}, {"last", "last"}};
    const struct doc *layers = doc_get(node, "layers"), *seq_node = doc_get(node, "seq");
    const struct doc *eight = doc_get(node, "other_8gpu"), *sixteen = doc_get(node, "other_16gpu");
    char *model = arena_copy_bytes(import->arena, node->key, strcspn(node->key, " "));
    int64_t seq = 1, number = 0;
    weft_status status = WEFT_OK;
    if (!layers || layers->kind != DOC_LIST)
        return doc_error(node, NULL, "'%s' has no list of layers", node->key);
    if (seq_node)
        TRY(doc_scalar(seq_node, FIELD_COUNT, &seq));
    for (const struct doc *layer = layers->first; layer; layer = layer->next)
        TRY(store_layer(import, model, number++, seq, layer));
    if (eight)
        TRY(store_end(import, model, 8, "both", eight));
    for (size_t i = 0; sixteen && i < COUNT_OF(PARTS); i++) {
        const struct doc *part = doc_get(sixteen, PARTS[i].key);
        if (part)
            TRY(store_end(import, model, 16, PARTS[i].part, part));
    }
done:
    return status;
}

static weft_status read_titan(struct import *import, const struct doc *hardware,
                              const struct doc *models)
{
    weft_status status;
    import->summary->format = "galvatron layers";
    TRY(import_source(import, "galvatron layers", "Hsword/Hetu tools/Galvatron, v1"));
    if (!import_wants(import, TITAN)) {
        import_skip(import, "another device");
        goto done;
    }
    if (hardware)
        TRY(titan_hardware(import, hardware));
    for (const struct doc *node = models->first; node; node = node->next)
        TRY(titan_model(import, node));
done:
    return status;
}

weft_status import_galvatron(struct import *import, const struct doc *doc)
{
    const struct doc *models = doc_get(doc, "models");
    if (doc->kind != DOC_MAP)
        return doc_error(doc, NULL, "is %s, expected a mapping", doc_kind_name(doc->kind));
    if (models && models->kind == DOC_MAP)
        return read_titan(import, doc_get(doc, "hardware"), models);
    return read_bandwidths(import, doc);
}
