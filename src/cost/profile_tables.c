/* profile_tables.c - what a database holds besides kernels: operators, layers, the ends of models,
 * constants; and writing collectives.
 *
 *   I1  Of several sources for one key, the last imported one answers.
 */
#include <string.h>

#include "cost/profile.h"

/* I1: SQLite takes the other columns of a group from the row that has the maximum. */
#define LATEST(columns, table, key)                                                                \
    "SELECT " columns ", max(source) FROM " table                                                  \
    " WHERE device = ?1 AND (?2 IS NULL OR model = ?2) GROUP BY " key " ORDER BY " key

struct list {
    struct arena *keep;
    ARRAY(struct layer_profile) layers;
    ARRAY(struct model_ends) ends;
    ARRAY(struct operator_profile) operators;
    ARRAY(struct collective_rate) rates;
};

static weft_status ask(struct profile *profile, const char *sql, const char *device,
                       const char *model, query_row *row, struct list *list)
{
    struct profile_value parameters[] = {V_TEXT(device), model ? V_TEXT(model) : V_NULL};
    return profile_query(profile, sql, parameters, COUNT_OF(parameters), row, list);
}

/* ---- layers ---------------------------------------------------------------------------------- */

enum { L_MODEL, L_DTYPE, L_LAYER, L_KIND, L_SEQ, L_HIDDEN, L_WEIGHT, L_FORWARD, L_ALL_REDUCES };

static void add_layer(void *context, const struct profile_value *v)
{
    struct list *list = context;
    struct layer_profile layer = {.model = arena_copy_text(list->keep, v[L_MODEL].text),
                                  .kind = arena_copy_text(list->keep, v[L_KIND].text),
                                  .layer = v[L_LAYER].integer,
                                  .seq = v[L_SEQ].integer,
                                  .hidden = v[L_HIDDEN].integer,
                                  .weight_bytes = v[L_WEIGHT].integer,
                                  .forward_ns = v[L_FORWARD].real,
                                  .tp_all_reduces = v[L_ALL_REDUCES].integer};
    if (dtype_from_name(v[L_DTYPE].text, &layer.dtype))
        array_push(list->keep, &list->layers, layer);
}

enum { A_MODEL, A_DTYPE, A_LAYER, A_TP, A_BYTES };

static void add_activation(void *context, const struct profile_value *v)
{
    struct list *list = context;
    for (size_t i = 0; i < list->layers.len; i++) {
        struct layer_profile *layer = &list->layers.data[i];
        if (layer->layer != v[A_LAYER].integer || layer->activations == LAYER_MAX_TP ||
            strcmp(layer->model, v[A_MODEL].text) != 0 ||
            strcmp(dtype_name(layer->dtype), v[A_DTYPE].text) != 0)
            continue;
        layer->activation[layer->activations].tp = v[A_TP].integer;
        layer->activation[layer->activations++].bytes = v[A_BYTES].integer;
    }
}

weft_status profile_layers(struct profile *profile, const char *device, const char *model,
                           struct arena *keep, struct layer_profile **out, size_t *count)
{
    struct list list = {.keep = keep};
    weft_status status;
    TRY(ask(
        profile,
        LATEST("model, dtype, layer, kind, seq, hidden, weight_bytes, forward_ns, tp_all_reduces",
               "layer", "model, dtype, layer"),
        device, model, add_layer, &list));
    TRY(ask(profile,
            LATEST("model, dtype, layer, tp, bytes", "layer_activation", "model, dtype, layer, tp"),
            device, model, add_activation, &list));
done:
    *out = list.layers.data;
    *count = list.layers.len;
    return status;
}

/* ---- the ends of a model --------------------------------------------------------------------- */

static void add_ends(void *context, const struct profile_value *v)
{
    struct list *list = context;
    struct model_ends ends = {arena_copy_text(list->keep, v[0].text),
                              arena_copy_text(list->keep, v[2].text), v[1].integer, v[3].integer,
                              v[4].integer};
    array_push(list->keep, &list->ends, ends);
}

weft_status profile_model_ends(struct profile *profile, const char *device, const char *model,
                               struct arena *keep, struct model_ends **out, size_t *count)
{
    struct list list = {.keep = keep};
    weft_status status = ask(profile,
                             LATEST("model, devices, part, state_bytes, activation_bytes",
                                    "model_ends", "model, devices, part"),
                             device, model, add_ends, &list);
    *out = list.ends.data;
    *count = list.ends.len;
    return status;
}

/* ---- operators ------------------------------------------------------------------------------- */

enum {
    O_OP,
    O_BATCH,
    O_TP,
    O_ALGO,
    O_FORWARD,
    O_BACKWARD,
    O_FWD_COLL,
    O_BWD_COLL,
    O_INPUT,
    O_WEIGHT,
    O_ACT,
    O_FWD_RESERVED,
    O_BWD_RESERVED
};

static void add_operator(void *context, const struct profile_value *v)
{
    struct list *list = context;
    struct operator_profile op = {
        .op = arena_copy_text(list->keep, v[O_OP].text),
        .microbatch = v[O_BATCH].integer,
        .tp = v[O_TP].integer,
        .algo = v[O_ALGO].integer,
        .forward_ns = v[O_FORWARD].real,
        .backward_ns = v[O_BACKWARD].real,
        .forward_collective = arena_copy_text(list->keep, v[O_FWD_COLL].text),
        .backward_collective = arena_copy_text(list->keep, v[O_BWD_COLL].text),
        .input_bytes = v[O_INPUT].integer,
        .weight_bytes = v[O_WEIGHT].integer,
        .activation_bytes = v[O_ACT].integer,
        .forward_reserved_bytes = v[O_FWD_RESERVED].integer,
        .backward_reserved_bytes = v[O_BWD_RESERVED].integer};
    array_push(list->keep, &list->operators, op);
}

weft_status profile_operators(struct profile *profile, const char *device, enum dtype dtype,
                              const char *model, struct arena *keep, struct operator_profile **out,
                              size_t *count)
{
    static const char SELECT[] =
        "SELECT operator, microbatch, tp, algo, forward_ns, backward_ns, forward_collective,"
        " backward_collective, input_bytes, weight_bytes, activation_bytes,"
        " forward_reserved_bytes, backward_reserved_bytes, max(source) FROM operator"
        " WHERE device = ?1 AND dtype = ?2 AND model = ?3"
        " GROUP BY operator, microbatch, tp, algo ORDER BY operator, microbatch, tp, algo";
    struct list list = {.keep = keep};
    struct profile_value parameters[] = {V_TEXT(device), V_TEXT(dtype_name(dtype)), V_TEXT(model)};
    weft_status status =
        profile_query(profile, SELECT, parameters, COUNT_OF(parameters), add_operator, &list);
    *out = list.operators.data;
    *count = list.operators.len;
    return status;
}

/* ---- rates of collectives -------------------------------------------------------------------- */

enum { R_MACHINE, R_COLLECTIVE, R_DEVICES, R_NODES, R_STAGES, R_CONSECUTIVE, R_RATE };

static void add_rate(void *context, const struct profile_value *v)
{
    struct list *list = context;
    struct collective_rate rate = {.machine = arena_copy_text(list->keep, v[R_MACHINE].text),
                                   .devices = v[R_DEVICES].integer,
                                   .nodes = v[R_NODES].integer,
                                   .stages = v[R_STAGES].integer,
                                   .consecutive = v[R_CONSECUTIVE].integer != 0,
                                   .bus_bytes_per_s = v[R_RATE].real};
    if (collective_from_name(v[R_COLLECTIVE].text, &rate.collective))
        array_push(list->keep, &list->rates, rate);
}

weft_status profile_rates(struct profile *profile, const char *device, struct arena *keep,
                          struct collective_rate **out, size_t *count)
{
    static const char SELECT[] =
        "SELECT machine, collective, devices, nodes, stages, consecutive, bus_bytes_per_s,"
        " max(source) FROM collective_rate WHERE device = ?1"
        " GROUP BY machine, collective, devices, nodes, stages, consecutive"
        " ORDER BY machine, collective, devices, nodes, stages, consecutive";
    struct list list = {.keep = keep};
    struct profile_value parameters[] = {V_TEXT(device)};
    weft_status status =
        profile_query(profile, SELECT, parameters, COUNT_OF(parameters), add_rate, &list);
    *out = list.rates.data;
    *count = list.rates.len;
    return status;
}

/* ---- constants ------------------------------------------------------------------------------- */

struct constant {
    double value;
    bool found;
};

static void take_constant(void *context, const struct profile_value *v)
{
    *(struct constant *)context = (struct constant){v[0].real, true};
}

weft_status profile_constant(struct profile *profile, const char *device, const char *name,
                             double *out, bool *found)
{
    struct constant constant = {0};
    struct profile_value parameters[] = {V_TEXT(device), V_TEXT(name)};
    weft_status status = profile_query(
        profile, "SELECT value FROM constant WHERE device = ?1 AND name = ?2 ORDER BY source",
        parameters, COUNT_OF(parameters), take_constant, &constant);
    *out = constant.value;
    *found = constant.found;
    return status;
}

/* ---- collectives ----------------------------------------------------------------------------- */

weft_status profile_add_collective(struct profile *profile, const struct collective_measurement *m)
{
    int64_t source;
    weft_status status;
    TRY(profile_source(profile, m->source, "", "", &source));
    struct profile_value values[] = {V_TEXT(m->device),
                                     V_TEXT(m->machine),
                                     V_TEXT(collective_name(m->collective)),
                                     V_INT(m->devices),
                                     V_INT(m->nodes),
                                     V_INT(m->bytes),
                                     V_REAL(m->ns),
                                     V_INT(m->samples),
                                     V_INT(source),
                                     m->error > 0 ? V_REAL(m->error) : V_NULL};
    TRY(profile_insert(profile, TABLE_COLLECTIVE, values, COUNT_OF(values)));
done:
    return status;
}

static void count_row(void *context, const struct profile_value *v)
{
    *(bool *)context = v[0].integer > 0;
}

weft_status profile_has_collective(struct profile *profile,
                                   const struct collective_measurement *wanted, double precision,
                                   bool *out)
{
    struct profile_value parameters[] = {V_TEXT(wanted->device),
                                         V_TEXT(wanted->machine),
                                         V_TEXT(collective_name(wanted->collective)),
                                         V_INT(wanted->devices),
                                         V_INT(wanted->nodes),
                                         V_INT(wanted->bytes),
                                         V_TEXT(wanted->source),
                                         V_REAL(precision)};
    *out = false;
    return profile_query(profile,
                         "SELECT count(*) FROM collective c JOIN source s ON s.id = c.source"
                         " WHERE device = ?1 AND machine = ?2 AND collective = ?3 AND devices = ?4"
                         " AND nodes = ?5 AND bytes = ?6 AND s.name = ?7 AND error <= ?8",
                         parameters, COUNT_OF(parameters), count_row, out);
}
