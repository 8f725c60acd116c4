/* fit.c - `weft fit`: derives latency and bandwidth of collectives from measurements; or, with --runs, the paces of a
 * cluster from training runs (fit_runs.c). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/fit.h"
#include "cli/options.h"

enum { MAX_FILES = 256, MAX_DEVICE_COUNTS = 64, SHOWN_SIZES = 16 };

struct fit_command {
    const char *files[MAX_FILES];
    size_t file_count;
    enum collective collective;
    struct sample_filter filter;
    const char *cluster, *runs, *output;
    bool json;
};

#define AT(field) offsetof(struct fit_command, field)

static void take_only_collective(struct argp_state *state, void *input, char *arg)
{
    struct fit_command *options = input;
    options->collective = take_collective(state, arg);
    options->filter.collective = &options->collective;
}

static void take_where(struct argp_state *state, void *input, char *arg)
{
    struct fit_command *options = input;
    char *equals = strchr(arg, '=');
    if (!equals)
        argp_error(state, "--where takes COLUMN=VALUE, not '%s'", arg);
    else
        *equals = '\0';
    options->filter.column = arg;
    options->filter.value = equals ? equals + 1 : "";
}

static const struct cli_option OPTIONS[] = {
    {"collective", "NAME", "take only this collective; what a file measures if it does not say",
     OPTION_TAKE, .letter = 'c', .take = take_only_collective},
    {"devices", "N", "take only groups of N devices", OPTION_COUNT, AT(filter.devices), .least = 2,
     .letter = 'd'},
    {"where", "COLUMN=VALUE", "take only the CSV rows with this value", OPTION_TAKE, .letter = 'w',
     .take = take_where},
    {"cluster", "CLUSTER", "fit the share of this cluster's links instead of a bandwidth",
     OPTION_TEXT, AT(cluster), .letter = 'k'},
    {"runs", "RUNS.csv",
     "calibrate a cluster by training runs on it instead (docs/reference/runs.md)", OPTION_TEXT,
     AT(runs), .letter = 'r'},
    OUTPUT_OPTION(AT(output), "with --runs: write the calibrated cluster file"),
    JSON_OPTION(AT(json)),
    {0},
};

static error_t take_names(int key, char *arg, struct argp_state *state)
{
    struct fit_command *options = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (options->file_count == MAX_FILES)
            argp_error(state, "at most %d files", MAX_FILES);
        options->files[options->file_count++] = arg;
        return 0;
    case ARGP_KEY_NO_ARGS:
        if (!options->runs)
            argp_error(state, "which measurements? Give the output of nccl-tests or a CSV file");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct syntax SYNTAX = {
    OPTIONS,
    "FILE...\n--runs RUNS.csv",
    "Fits latency, bandwidth and half size of a collective to measurements, and prints them as "
    "a part of a cluster file. With --runs, fits how many times as fast products, memory, links, "
    "network and host of a cluster are as Weft's own numbers, with these as a prior, says how sure "
    "each is, and leaves what the runs do not determine. The exit code is 1 when the runs are "
    "predicted no better with other values.\v"
    "A FILE is what nccl-tests printed, or CSV with the columns collective, devices, bytes, "
    "time_us (also: nodes, gpus, size_mb, time_ns, time_ms, ms, time_s).\n\n"
    "Example:\n"
    "  all_reduce_perf -b 1K -e 1G -f 2 -g 8 > a100.txt\n"
    "  weft fit a100.txt\n"
    "  weft fit table.csv --collective all_gather --devices 8 --json\n"
    "  weft fit --runs runs.csv -o mine.yaml",
    .names = take_names,
};

/* ---- fitting --------------------------------------------------------------------------------- */

/* One fit per number of devices, and one over all of them when there are several. */
struct fit_answer {
    struct samples samples;
    struct fit fits[MAX_DEVICE_COUNTS + 1];
    size_t count;     /* of fits, one per number of devices */
    struct fit *last; /* for the cluster file: the only fit, or the joint one after the others */
    struct cluster *cluster;
};

static int by_devices(const void *a, const void *b)
{
    const struct sample *x = a, *y = b;
    if (x->devices != y->devices)
        return x->devices < y->devices ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return (x->line > y->line) - (x->line < y->line);
}

static weft_status read_files(struct arena *arena, const struct fit_command *options,
                              struct samples *samples)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < options->file_count; i++)
        TRY(samples_read(arena, options->files[i], &options->filter, samples));
    for (size_t i = 1; i < samples->len; i++) {
        const struct sample *a = &samples->data[0], *b = &samples->data[i];
        if (a->collective != b->collective) {
            status = bad_input(b->file, b->line, NULL, "measurements of %s and %s in one fit",
                               collective_name(a->collective), collective_name(b->collective));
            error_hint("choose one, for example --collective %s", collective_name(a->collective));
            break;
        }
    }
done:
    return status;
}

static weft_status fit_all(struct fit_answer *answer)
{
    struct sample *data = answer->samples.data;
    size_t len = answer->samples.len;
    weft_status status = WEFT_OK;
    if (len > 0)
        qsort(data, len, sizeof *data, by_devices);
    for (size_t first = 0, end; first < len; first = end) {
        for (end = first; end < len && data[end].devices == data[first].devices;)
            end++;
        if (answer->count == MAX_DEVICE_COUNTS) {
            status = bad_argument("choose with --devices", "more than %d numbers of devices",
                                  MAX_DEVICE_COUNTS);
            goto done;
        }
        TRY(fit_samples(data + first, end - first, answer->cluster,
                        &answer->fits[answer->count++]));
    }
    answer->last = &answer->fits[answer->count - (answer->count == 1)];
    if (answer->count != 1)
        TRY(fit_samples(data, len, answer->cluster, answer->last));
    if (answer->last->efficiency > 1)
        status =
            bad_argument("leave out --cluster to fit a bandwidth",
                         "the measurements reach %.0f %% of what the links of %s have: they are "
                         "of another machine",
                         answer->last->efficiency * 100, answer->cluster->name);
done:
    return status;
}

/* ---- printing -------------------------------------------------------------------------------- */

static void fit_row(struct table *table, const struct fit *fit, const char *devices)
{
    table_cell(table, "%s", devices);
    table_cell(table, "%zu", fit->points);
    table_cell(table, "%s", show_duration(fit->latency_s * 1e9).s);
    table_cell(table, "%s", fit->step_s > 0 ? show_duration(fit->step_s * 1e9).s : "-");
    if (fit->efficiency > 0)
        table_cell(table, "%.1f %%", fit->efficiency * 100);
    else
        table_cell(table, "%s", show_rate(fit->bus_bytes_per_s).s);
    table_cell(table, "%s", show_bytes(fit->half_bytes).s);
    table_cell(table, "%.2f %%", fit->median * 100);
    table_cell(table, "%.1f %%", fit->p90 * 100);
    table_cell(table, "%.1f %%", fit->worst * 100);
    table_cell(table, "%.5f", fit->r2);
}

static void print_fits(struct arena *arena, const struct fit_answer *answer)
{
    static const char *const HEADERS[] = {"devices",   "points",    "latency",      "step",
                                          "bandwidth", "half size", "median error", "p90",
                                          "worst",     "R2 of log"};
    static const enum align ALIGNS[] = {ALIGN_LEFT,  ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT,
                                        ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT,
                                        ALIGN_RIGHT, ALIGN_RIGHT};
    struct table *table = table_new(arena, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    for (size_t i = 0; i < answer->count; i++)
        fit_row(table, &answer->fits[i],
                arena_printf(arena, "%lld", (long long)answer->fits[i].devices));
    if (answer->count > 1) {
        table_rule(table);
        fit_row(table, answer->last, "all");
    }
    table_print(table, stdout);
}

/* What the fit for the sample's number of devices predicts. */
static double predicted(const struct fit_answer *answer, const struct sample *sample)
{
    double seconds = 0;
    for (size_t i = 0; i < answer->count; i++)
        if (answer->fits[i].devices == sample->devices)
            fit_seconds(&answer->fits[i], answer->cluster, sample, &seconds);
    return seconds;
}

/* Shows sizes that are evenly spread over those of the largest group, each with its first measurement. */
static void print_sizes(struct arena *arena, const struct fit_answer *answer)
{
    static const char *const HEADERS[] = {"size", "measured", "predicted", "error"};
    static const enum align ALIGNS[] = {ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT};
    struct table *table = table_new(arena, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    const struct fit *fit = &answer->fits[answer->count - 1];
    const struct sample *first = answer->samples.data + answer->samples.len - fit->points;
    double ratio = 1, next = 0;
    for (double span = first[fit->points - 1].bytes / first[0].bytes; ratio < 1e3; ratio *= 1.25) {
        double reached = 1;
        for (int i = 1; i < SHOWN_SIZES; i++)
            reached *= ratio;
        if (reached >= span)
            break;
    }
    for (size_t i = 0; i < fit->points; i++) {
        const struct sample *sample = &first[i];
        if (sample->bytes < next)
            continue;
        next = sample->bytes * ratio;
        double seconds = predicted(answer, sample);
        table_cell(table, "%s", show_bytes(sample->bytes).s);
        table_cell(table, "%s", show_duration(sample->seconds * 1e9).s);
        table_cell(table, "%s", show_duration(seconds * 1e9).s);
        table_cell(table, "%s", show_change(seconds / sample->seconds - 1).s);
    }
    printf("\n%s:\n", counted(fit->devices, "device").s);
    table_print(table, stdout);
}

static int print_answer(struct arena *arena, const struct fit_answer *answer)
{
    printf("%s: %s", collective_name(answer->last->collective),
           counted((int64_t)answer->samples.len, "measurement").s);
    if (answer->samples.skipped > 0)
        printf(" (%s without one skipped)", counted((int64_t)answer->samples.skipped, "row").s);
    printf("\n\n");
    print_fits(arena, answer);
    print_sizes(arena, answer);
    printf("\nFor a cluster file:\n\n%s", fit_yaml(arena, answer->last));
    return WEFT_OK;
}

static json_t *fit_json(const struct fit *fit)
{
    return json_pack("{s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:f, s:f, s:f, s:f}", "devices",
                     (json_int_t)fit->devices, "nodes", (json_int_t)fit->nodes, "latency_s",
                     fit->latency_s, "step_s", fit->step_s, "bandwidth_bytes_per_s",
                     fit->bus_bytes_per_s, "efficiency", fit->efficiency, "half_bytes",
                     fit->half_bytes, "points", (json_int_t)fit->points, "sizes",
                     (json_int_t)fit->sizes, "median_error", fit->median, "p90_error", fit->p90,
                     "worst_error", fit->worst, "r2_log", fit->r2);
}

static int print_json(struct arena *arena, const struct fit_answer *answer)
{
    json_t *fits = json_array(), *samples = json_array();
    for (size_t i = 0; i < answer->count; i++)
        json_array_append_new(fits, fit_json(&answer->fits[i]));
    for (size_t i = 0; i < answer->samples.len; i++) {
        const struct sample *sample = &answer->samples.data[i];
        json_array_append_new(samples, json_pack("{s:I, s:I, s:f, s:f, s:f}", "devices",
                                                 (json_int_t)sample->devices, "nodes",
                                                 (json_int_t)sample->nodes, "bytes", sample->bytes,
                                                 "measured_s", sample->seconds, "predicted_s",
                                                 predicted(answer, sample)));
    }
    return cli_print_json(json_pack("{s:s, s:I, s:I, s:o, s:o, s:o, s:s}", "collective",
                                    collective_name(answer->last->collective), "measurements",
                                    (json_int_t)answer->samples.len, "skipped",
                                    (json_int_t)answer->samples.skipped, "fits", fits, "joint",
                                    answer->count > 1 ? fit_json(answer->last) : json_null(),
                                    "samples", samples, "yaml", fit_yaml(arena, answer->last)));
}

int cmd_fit(int argc, char **argv)
{
    struct fit_command options = {0};
    struct arena *arena = arena_new();
    struct fit_answer *answer = ARENA_NEW(arena, struct fit_answer);
    weft_status status = WEFT_OK;
    int code;
    cli_read(&SYNTAX, argc, argv, &options);
    if (options.runs) {
        struct fit_runs_options runs = {options.runs, options.cluster, options.output,
                                        options.json};
        code = fit_runs(arena, &runs);
        arena_free(arena);
        return code;
    }
    if (options.cluster)
        TRY(cluster_open(options.cluster, &answer->cluster));
    TRY(read_files(arena, &options, &answer->samples));
    TRY(fit_all(answer));
done:
    code = status != WEFT_OK ? cli_fail(status)
           : options.json    ? print_json(arena, answer)
                             : print_answer(arena, answer);
    cluster_free(answer->cluster);
    arena_free(arena);
    return code;
}
