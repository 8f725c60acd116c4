/* published_runs.c - rows of a file: what ran, on which machine, and how it was split.
 *
 *   I1  An empty field is something that the source does not state. If a plan needs it, the row cannot be
 *       expressed, unless the dataset's practice fills it in and says so.
 *   I2  If there are several reasons, the first one in this order is given: device, model, sizes.
 */
#include "lab/published_read.h"

#include <string.h>

/* ---- machines -------------------------------------------------------------------------------- */

const char *cluster_text(struct arena *keep, const char *preset, int64_t per_node, int64_t devices)
{
    if (devices < per_node)
        return arena_printf(keep, "%s:1x%lld", preset, (long long)devices);
    if (devices % per_node)
        return NULL;
    return arena_printf(keep, "%s:%lldx%lld", preset, (long long)(devices / per_node),
                        (long long)per_node);
}

static void set_cluster(struct arena *keep, const struct run_row *run, struct published *row)
{
    const struct machine_names *machines = row->dataset->machines;
    int at = name_index(run->gpu, machines->data, sizeof *machines->data, machines->len);
    if (at < 0) {
        refuse(keep, row, "device unknown: %s", run->gpu);
        return;
    }
    if (!run->devices) {
        refuse(keep, row, "how many devices it ran on is not published");
        return;
    }
    const struct machine_name *machine = &machines->data[at];
    row->cluster = cluster_text(keep, machine->cluster, machine->devices_per_node, run->devices);
    if (!row->cluster && machine->or_per_node)
        row->cluster = cluster_text(keep, machine->cluster, machine->or_per_node, run->devices);
    if (!row->cluster)
        refuse(keep, row, "parts of nodes");
}

/* ---- degrees --------------------------------------------------------------------------------- */

void set_dtype(struct degrees *degrees, enum dtype dtype)
{
    degrees->has_dtype = true;
    degrees->dtype = dtype;
}

static void set_precision(struct arena *keep, const struct run_row *run, struct published *row)
{
    const struct sources *sources = row->dataset->sources;
    int at = name_index(run->precision, sources->precisions.data, sizeof *sources->precisions.data,
                        sources->precisions.len);
    if (at < 0)
        refuse(keep, row, "type unknown: %s", run->precision);
    else
        set_dtype(&row->degrees, sources->precisions.data[at].dtype);
}

/* Reads texts such as "fsdp(zero3)"; FSDP without a level shards everything. */
static int shard_of(const char *zero)
{
    const char *digit = strpbrk(zero, "0123");
    if (strncmp(zero, "fsdp", 4) == 0 && !strstr(zero, "zero"))
        return 3;
    if (strstr(zero, "zero"))
        digit = strstr(zero, "zero") + 4;
    return digit && *digit >= '0' && *digit <= '3' ? *digit - '0' : 0;
}

static void set_recompute(struct arena *keep, const struct run_row *run, struct published *row)
{
    if (strcmp(run->recompute, "full") == 0) {
        row->degrees.recompute = RECOMPUTE_FULL;
    } else if (strcmp(run->recompute, "selective(core attention)") == 0) {
        row->degrees.recompute = RECOMPUTE_SELECTIVE;
    } else if (strncmp(run->recompute, "selective(", 10) == 0) { /* torchtitan: per operator */
        row->degrees.recompute = RECOMPUTE_FULL;
        row->keeps_products = true;
    } else if (strcmp(run->recompute, "none") != 0 && *run->recompute) {
        refuse(keep, row, "recomputation unknown: %s", run->recompute);
    }
}

static void set_degrees(struct arena *keep, const struct run_row *run, struct published *row)
{
    struct degrees *d = &row->degrees;
    d->dp = run->dp;
    d->tp = run->tp;
    d->pp = run->pp;
    d->cp = run->cp;
    d->ep = run->ep;
    d->sequence = run->sequence && run->tp > 1;
    d->pieces = run->pieces;
    d->micro_batch = run->micro_batch;
    d->global_batch = run->global_batch;
    if (run->zero)
        d->shard = shard_of(run->zero);
    if (run->precision)
        set_precision(keep, run, row);
    if (run->recompute)
        set_recompute(keep, run, row);
}

/* Whether the word begins with the name of a schedule that has several pieces, such as "interleaved-1F1B". */
static bool needs_pieces(const char *word)
{
    const struct schedule *all;
    size_t count = schedule_all(&all);
    for (size_t i = 0; i < count; i++)
        if (all[i].least_pieces > 1 && strncmp(word, all[i].name, strlen(all[i].name)) == 0)
            return true;
    return false;
}

/* Holds I1, after the dataset's practice has been applied. */
static void check_sizes(struct arena *keep, const struct run_row *run, struct published *row)
{
    if (!row->degrees.global_batch)
        refuse(keep, row, "global batch not published");
    if (!row->degrees.micro_batch && !(row->open & OPEN_MICRO_BATCH))
        refuse(keep, row, "micro-batch not published");
    if (run->schedule && needs_pieces(run->schedule) && row->degrees.pieces < 2 &&
        !(row->open & OPEN_PIECES))
        refuse(keep, row, "pieces per stage not published");
}

/* ---- rows ------------------------------------------------------------------------------------ */

static struct published row_of(struct arena *keep, const struct dataset *dataset, int line,
                               const struct run_row *run)
{
    const struct form *form = run->form;
    struct published row = {
        .dataset = dataset,
        .line = line,
        .name = run_row_fill(keep, run, form->row_name),
        .group = form->group ? run_row_fill(keep, run, form->group) : NULL,
        .system = run->system,
        .half = half_of(run_row_fill(keep, run, dataset->halves ? dataset->halves : form->half_by)),
        .measured = run->measured,
        .rank = run->rank};
    set_cluster(keep, run, &row); /* I2 */
    set_degrees(keep, run, &row);
    rules_apply(keep, dataset->practice, run, &row);
    check_sizes(keep, run, &row);
    return row;
}

/* A time was copied if the test ("gpt/case" of "gpt/case@platform") and the time are equal but the device is not. */
struct timed_case {
    const char *name, *gpu;
    double time_s;
};

struct run_reading {
    struct arena *keep;
    const struct dataset *dataset;
    struct published_rows *out;
    ARRAY(struct timed_case) timed;
};

static weft_status take_run(void *context, const struct csv *csv, const int *at)
{
    struct run_reading *reading = context;
    const struct dataset *dataset = reading->dataset;
    struct run_row run;
    weft_status status;
    TRY(run_row_read(dataset->form, csv, at, &run));
    if (run.dataset && strcmp(run.dataset, dataset->name) != 0) {
        status = csv_error(csv, csv_column(csv, "dataset"), NULL, dataset->name);
        goto done;
    }
    struct published row = row_of(reading->keep, dataset, csv->line, &run);
    struct timed_case timed = {row.name, run.gpu, run.measured.time_s};
    array_push(reading->keep, reading->out, row);
    array_push(reading->keep, &reading->timed, timed);
done:
    run_row_close(&run);
    return status;
}

static bool is_copy(const struct timed_case *run, const struct timed_case *other)
{
    size_t test = strcspn(run->name, "@");
    return run->time_s == other->time_s && strcmp(run->gpu, other->gpu) != 0 &&
           strcspn(other->name, "@") == test && strncmp(run->name, other->name, test) == 0;
}

static void drop_copies(const struct run_reading *reading, struct published *rows)
{
    for (size_t i = 0; i < reading->timed.len; i++)
        for (size_t j = 0; j < reading->timed.len; j++)
            if (is_copy(&reading->timed.data[i], &reading->timed.data[j]))
                rows[i].measured.time_s = 0;
}

weft_status read_runs(struct arena *keep, const struct dataset *dataset, struct csv *csv,
                      struct published_rows *out)
{
    struct run_reading reading = {.keep = keep, .dataset = dataset, .out = out};
    const struct form *form = dataset->form;
    const char *names[CSV_MAX_FIELDS];
    size_t first = out->len;
    for (size_t i = 0; i < form->columns; i++)
        names[i] = form->column[i].name;
    weft_status status = csv_read(csv, names, form->columns, take_run, &reading);
    if (dataset->copied_times)
        drop_copies(&reading, out->data + first);
    return status;
}
