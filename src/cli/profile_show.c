/* profile_show.c - `weft profile show`: what is in a database, and how long a shape or a collective
 * takes according to it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/profile.h"

/* ---- what is there ---------------------------------------------------------------------- */

struct filter {
    const char *device;       /* NULL for all */
    int kernel, phase, dtype; /* -1 for all */
};

static bool passes(const struct filter *filter, const struct profile_row *row)
{
    return (!filter->device || strcmp(filter->device, row->device) == 0) &&
           (filter->kernel < 0 || filter->kernel == row->key.kernel) &&
           (filter->phase < 0 || filter->phase == row->key.phase) &&
           (filter->dtype < 0 || filter->dtype == row->key.dtype);
}

static weft_status read_filter(const struct profile_options *options, struct filter *out)
{
    enum kernel kernel = KERNEL_COUNT;
    enum dtype dtype = DTYPE_COUNT;
    *out = (struct filter){options->device, -1, -1, -1};
    if (options->kernel && !kernel_from_name(options->kernel, &kernel)) {
        weft_status status = bad_argument(NULL, "no kernel is called '%s'", options->kernel);
        hint_near(kernel_near(options->kernel));
        return status;
    }
    if (options->dtype && !dtype_from_name(options->dtype, &dtype))
        return bad_argument(DTYPE_NAMES, "no dtype is called '%s'", options->dtype);
    if (options->phase && !profile_phase_from_name(options->phase, &out->phase))
        return bad_argument("forward, backward_input, backward_weight or backward",
                            "no phase is called '%s'", options->phase);
    out->kernel = options->kernel ? (int)kernel : -1;
    out->dtype = options->dtype ? (int)dtype : -1;
    return WEFT_OK;
}

static const char *key_text(struct arena *arena, const struct profile_key *key)
{
    const char *names[WORK_MAX_SHAPE], *text = "";
    size_t count = profile_shape_names((enum kernel)key->kernel, names);
    for (size_t i = 0; i < count; i++)
        text = arena_printf(arena, "%s%s%s=%lld", text, i ? " " : "", names[i],
                            (long long)key->shape[i]);
    return text;
}

static const char *shape_text(struct arena *arena, const struct profile_row *row)
{
    return key_text(arena, &row->key);
}

const char *work_shape_text(struct arena *arena, const struct work *work)
{
    struct profile_key key;
    profile_key_of(work, 0, &key);
    return key_text(arena, &key);
}

static json_t *key_json(const struct profile_key *key)
{
    const char *names[WORK_MAX_SHAPE];
    size_t count = profile_shape_names((enum kernel)key->kernel, names);
    json_t *shape = json_object();
    for (size_t i = 0; i < count; i++)
        json_object_set_new(shape, names[i], json_integer(key->shape[i]));
    return shape;
}

json_t *work_shape_json(const struct work *work)
{
    struct profile_key key;
    profile_key_of(work, 0, &key);
    return key_json(&key);
}

static json_t *row_json(const struct profile_row *row)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:f, s:I, s:s}", "device", row->device, "kernel",
                     kernel_name((enum kernel)row->key.kernel), "phase",
                     profile_phase_name(row->key.phase), "dtype",
                     dtype_name((enum dtype)row->key.dtype), "shape", key_json(&row->key), "ns",
                     row->ns, "samples", (json_int_t)row->samples, "source", row->source);
}

static int print_rows(struct arena *arena, const struct profile_row *rows, size_t count,
                      const struct filter *filter)
{
    static const char *const HEADERS[] = {"shape", "device", "phase", "dtype", "time", "samples"};
    static const enum align ALIGNS[] = {ALIGN_LEFT, ALIGN_LEFT,  ALIGN_LEFT,
                                        ALIGN_LEFT, ALIGN_RIGHT, ALIGN_RIGHT};
    struct table *table = table_new(arena, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    for (size_t i = 0; i < count; i++) {
        if (!passes(filter, &rows[i]))
            continue;
        table_cell(table, "%s", shape_text(arena, &rows[i]));
        table_cell(table, "%s", rows[i].device);
        table_cell(table, "%s", profile_phase_name(rows[i].key.phase));
        table_cell(table, "%s", dtype_name((enum dtype)rows[i].key.dtype));
        table_cell(table, "%s", show_duration(rows[i].ns).s);
        table_cell(table, "%lld", (long long)rows[i].samples);
    }
    table_print(table, stdout);
    return WEFT_OK;
}

static int print_rows_json(const char *db, const struct profile_row *rows, size_t count,
                           const struct filter *filter)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        if (passes(filter, &rows[i]))
            json_array_append_new(list, row_json(&rows[i]));
    return cli_print_json(json_pack("{s:s, s:o}", "db", db, "rows", list));
}

/* ---- an overview ------------------------------------------------------------------------ */

/* The end of the run of rows with the same device, kernel, phase and dtype that begins at `first`. */
static size_t run_end(const struct profile_row *rows, size_t count, size_t first)
{
    size_t end = first;
    while (end < count && rows[end].key.device == rows[first].key.device &&
           rows[end].key.kernel == rows[first].key.kernel &&
           rows[end].key.phase == rows[first].key.phase &&
           rows[end].key.dtype == rows[first].key.dtype)
        end++;
    return end;
}

struct overview {
    const struct profile_row *rows;
    size_t count;
    const struct source_row *sources;
    const struct circumstances *measured; /* of each source; no date: it was not measured here */
    size_t source_count;
    int64_t tables[TABLE_COUNT];
};

static void print_source(const struct source_row *source, const struct circumstances *measured)
{
    printf("  source: %s%s%s\n", source->name, *source->origin ? ", " : "", source->origin);
    if (!measured->date)
        return;
    printf("    on %s", measured->device);
    if (measured->clock_hz > 0)
        printf(" of %.0f MHz", measured->clock_hz / 1e6);
    printf(", %s, %s, last on %s\n", measured->driver, measured->library, measured->date);
}

static json_t *source_json(const struct source_row *source, const struct circumstances *measured)
{
    json_t *json =
        json_pack("{s:s, s:s, s:s, s:I}", "name", source->name, "origin", source->origin, "licence",
                  source->licence, "kernel_rows", (json_int_t)source->kernel_rows);
    if (measured->date)
        json_object_set_new(json, "measured",
                            json_pack("{s:s, s:f, s:s, s:s, s:s}", "device", measured->device,
                                      "clock_hz", measured->clock_hz, "driver", measured->driver,
                                      "library", measured->library, "date", measured->date));
    return json;
}

static void print_overview(struct arena *arena, const char *db, const struct overview *all,
                           const struct filter *filter)
{
    static const char *const HEADERS[] = {"device", "kernel", "phase", "dtype", "rows"};
    static const enum align ALIGNS[] = {ALIGN_LEFT, ALIGN_LEFT, ALIGN_LEFT, ALIGN_LEFT,
                                        ALIGN_RIGHT};
    struct table *table = table_new(arena, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    printf("%s\n", db);
    for (int i = TABLE_SOURCE + 1; i < TABLE_COUNT; i++)
        if (all->tables[i] > 0)
            printf("  %-17s %8lld rows\n", table_name((enum profile_table)i),
                   (long long)all->tables[i]);
    for (size_t i = 0; i < all->source_count; i++)
        print_source(&all->sources[i], &all->measured[i]);
    if (all->count == 0)
        return;
    printf("\n");
    for (size_t first = 0, end; first < all->count; first = end) {
        const struct profile_row *row = &all->rows[first];
        end = run_end(all->rows, all->count, first);
        if (!passes(filter, row))
            continue;
        table_cell(table, "%s", row->device);
        table_cell(table, "%s", kernel_name((enum kernel)row->key.kernel));
        table_cell(table, "%s", profile_phase_name(row->key.phase));
        table_cell(table, "%s", dtype_name((enum dtype)row->key.dtype));
        table_cell(table, "%zu", end - first);
    }
    table_print(table, stdout);
}

static int print_overview_json(const char *db, const struct overview *all,
                               const struct filter *filter)
{
    json_t *tables = json_object(), *sources = json_array(), *kernels = json_array();
    for (int i = TABLE_SOURCE + 1; i < TABLE_COUNT; i++)
        json_object_set_new(tables, table_name((enum profile_table)i),
                            json_integer(all->tables[i]));
    for (size_t i = 0; i < all->source_count; i++)
        json_array_append_new(sources, source_json(&all->sources[i], &all->measured[i]));
    for (size_t first = 0, end; first < all->count; first = end) {
        const struct profile_row *row = &all->rows[first];
        end = run_end(all->rows, all->count, first);
        if (passes(filter, row))
            json_array_append_new(kernels,
                                  json_pack("{s:s, s:s, s:s, s:s, s:I}", "device", row->device,
                                            "kernel", kernel_name((enum kernel)row->key.kernel),
                                            "phase", profile_phase_name(row->key.phase), "dtype",
                                            dtype_name((enum dtype)row->key.dtype), "rows",
                                            (json_int_t)(end - first)));
    }
    return cli_print_json(json_pack("{s:s, s:o, s:o, s:o}", "db", db, "tables", tables, "sources",
                                    sources, "kernels", kernels));
}

/* ---- one shape -------------------------------------------------------------------------- */

/* The device that was asked for, or the only one in the database. */
static weft_status choose_device(const struct filter *filter, const struct profile_row *rows,
                                 size_t count, const char **out)
{
    *out = filter->device;
    for (size_t i = 0; i < count && !filter->device; i++) {
        if (*out && strcmp(*out, rows[i].device) != 0)
            return bad_argument("choose one with --device",
                                "measured on several devices: %s, %s, ...", *out, rows[i].device);
        *out = rows[i].device;
    }
    if (!*out)
        return no_answer(NULL, "the database has no kernel times");
    return WEFT_OK;
}

static weft_status question(const struct profile_options *options, const struct filter *filter,
                            struct arena *arena, struct work *out)
{
    if (filter->kernel < 0)
        return bad_argument("add --kernel matmul", "a shape of which kernel?");
    bool whole = filter->phase == PHASE_WHOLE_BACKWARD;
    *out = (struct work){.kernel = (enum kernel)filter->kernel,
                         .phase = PHASE_FORWARD,
                         .dtype = filter->dtype < 0 ? DTYPE_FP16 : (enum dtype)filter->dtype};
    if (filter->phase >= 0)
        out->phase = whole ? PHASE_BACKWARD_INPUT : (enum phase)filter->phase;
    const char *problem = shape_parse(arena, options->shape, out);
    if (problem)
        return bad_argument("docs/reference/profile.md lists every kernel's shape numbers",
                            "shape '%s' of a %s: %s", options->shape, options->kernel, problem);
    if (whole)
        out->flops *= 2; /* both gradients */
    return WEFT_OK;
}

static void print_measurement(struct arena *arena, const struct profile_row *row)
{
    printf("  %s: %s %s %s, %s, %lld sample%s\n", show_duration(row->ns).s,
           profile_phase_name(row->key.phase), dtype_name((enum dtype)row->key.dtype),
           shape_text(arena, row), row->device, (long long)row->samples,
           row->samples == 1 ? "" : "s");
}

static int print_answer(struct arena *arena, const struct profile_answer *answer)
{
    printf("%s, %s from %s\n", show_duration(answer->ns).s, provenance_name(answer->provenance),
           answer->low->source);
    if (answer->share < 1)
        printf("  %.0f %% of a time for both gradients, by FLOPs\n", answer->share * 100);
    print_measurement(arena, answer->low);
    if (answer->high != answer->low)
        print_measurement(arena, answer->high);
    return WEFT_OK;
}

static int print_answer_json(const struct profile_answer *answer)
{
    json_t *rests_on = json_array();
    json_array_append_new(rests_on, row_json(answer->low));
    if (answer->high != answer->low)
        json_array_append_new(rests_on, row_json(answer->high));
    return cli_print_json(
        json_pack("{s:I, s:s, s:s, s:f, s:o}", "ns", (json_int_t)llround(answer->ns), "provenance",
                  provenance_name(answer->provenance), "source", answer->low->source, "share",
                  answer->share, "rests_on", rests_on));
}

static int show_answer(const struct profile_options *options, const struct filter *filter,
                       struct arena *arena, struct profile *profile)
{
    const struct profile_row *rows;
    size_t count;
    const char *device;
    struct work work;
    struct profile_answer answer = {0};
    weft_status status;
    TRY(profile_rows(profile, &rows, &count));
    TRY(question(options, filter, arena, &work));
    TRY(choose_device(filter, rows, count, &device));
    TRY(profile_explain(profile, device, &work, &answer));
    if (answer.provenance == FROM_NOTHING)
        TRY(no_answer("`weft profile show DB --kernel NAME` lists what was measured",
                      "neither measured nor between two measurements on %s", device));
done:
    if (status != WEFT_OK)
        return cli_fail(status);
    return options->json ? print_answer_json(&answer) : print_answer(arena, &answer);
}

/* ---- a collective ------------------------------------------------------------------------- */

static weft_status ask_collective(const struct profile_options *options, struct profile *profile,
                                  struct kernel_cost *out)
{
    enum collective collective;
    weft_status status;
    if (!collective_from_name(options->collective, &collective))
        return bad_argument("all_reduce, all_gather, reduce_scatter, all_to_all, broadcast or send",
                            "no collective is called '%s'", options->collective);
    if (!options->device)
        return bad_argument("add --device V100-SXM2-32GB", "a collective on which devices?");
    TRY(profile_collective(profile, options->device, collective, options->devices, options->nodes,
                           options->bytes, out));
    if (out->provenance == FROM_NOTHING)
        status = no_answer("measured sizes, devices and nodes are in the table `collective`",
                           "neither measured nor between two measurements on %s", options->device);
done:
    return status;
}

static int show_collective(const struct profile_options *options, struct profile *profile)
{
    struct kernel_cost cost;
    weft_status status = ask_collective(options, profile, &cost);
    if (status != WEFT_OK)
        return cli_fail(status);
    if (options->json)
        return cli_print_json(json_pack("{s:I, s:s, s:s}", "ns", (json_int_t)cost.ns, "provenance",
                                        provenance_name(cost.provenance), "source", cost.source));
    printf("%s, %s from %s\n", show_duration((double)cost.ns).s, provenance_name(cost.provenance),
           cost.source);
    return WEFT_OK;
}

static int show_rows(const struct profile_options *options, const struct filter *filter,
                     struct arena *arena, struct profile *profile)
{
    const struct profile_row *rows;
    size_t count;
    weft_status status = profile_rows(profile, &rows, &count);
    if (status != WEFT_OK)
        return cli_fail(status);
    return options->json ? print_rows_json(options->arguments[1], rows, count, filter)
                         : print_rows(arena, rows, count, filter);
}

static weft_status read_sources(struct arena *arena, struct profile *profile, struct overview *out)
{
    struct source_row *sources;
    bool found;
    weft_status status;
    TRY(profile_sources(profile, arena, &sources, &out->source_count));
    struct circumstances *measured =
        ARENA_ARRAY(arena, struct circumstances, out->source_count + 1);
    for (size_t i = 0; i < out->source_count; i++)
        TRY(profile_circumstances(profile, sources[i].name, arena, &measured[i], &found));
    out->sources = sources;
    out->measured = measured;
done:
    return status;
}

static int show_overview(const struct profile_options *options, const struct filter *filter,
                         struct arena *arena, struct profile *profile)
{
    struct overview all = {0};
    weft_status status;
    TRY(profile_rows(profile, &all.rows, &all.count));
    TRY(read_sources(arena, profile, &all));
    for (int i = 0; i < TABLE_COUNT; i++)
        TRY(profile_count(profile, (enum profile_table)i, &all.tables[i]));
done:
    if (status != WEFT_OK)
        return cli_fail(status);
    if (options->json)
        return print_overview_json(options->arguments[1], &all, filter);
    print_overview(arena, options->arguments[1], &all, filter);
    return WEFT_OK;
}

/* ---- the question ---------------------------------------------------------------------------- */

int profile_show(const struct profile_options *options, struct arena *arena)
{
    struct profile *profile = NULL;
    struct filter filter;
    weft_status status;
    int code;
    if (options->count != 2)
        return cli_fail(bad_argument("weft profile show my.sqlite", "show needs one database"));
    TRY(read_filter(options, &filter));
    TRY(profile_open(options->arguments[1], &profile));
done:
    code = status != WEFT_OK     ? cli_fail(status)
           : options->collective ? show_collective(options, profile)
           : options->shape      ? show_answer(options, &filter, arena, profile)
           : filter.kernel >= 0  ? show_rows(options, &filter, arena, profile)
                                 : show_overview(options, &filter, arena, profile);
    profile_close(profile);
    return code;
}
