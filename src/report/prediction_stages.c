/* prediction_stages.c - the stages of a prediction: how they spend their time, and how full their memory gets.
 *
 *   bar of a stage: BAR columns, of which each part takes its share
 *
 *   I1  With more than FEW_STAGES stages, neighbours whose numbers differ by at most ALIKE of the whole,
 *       and which all fit or all do not, share one row with the numbers of the first of them.
 *   I2  Of more than MOST_ROWS rows, only the first and last ones and that of the most important stage
 *       are shown.
 */
#include <stdio.h>
#include <stdlib.h>

#include "report/report.h"

static const double ALIKE = 0.005; /* print_folded tells the user this number */
enum { FEW_STAGES = 8, MOST_ROWS = 16, END_ROWS = 4, TIME_BAR = 30, MEMORY_BAR = 12 };

/* ---- rows ------------------------------------------------------------------------------------ */

enum { MOST_PARTS = MEMORY_CLASS_COUNT + 2 };
/* What a table shows of each stage: a whole, and the amounts of its parts. */
struct amounts {
    int parts;
    double part[MOST_PARTS];
    double whole;
    bool too_much;
};
typedef struct amounts amounts_of(const struct stage_prediction *stage, int64_t iteration_ns);

struct alike_stages {
    int32_t first, count;
};
struct stage_runs {
    struct alike_stages *data;
    size_t len, cap;
    bool folded; /* at least one run has several stages */
};

static bool alike(const struct amounts *a, const struct amounts *b)
{
    for (int i = 0; i < a->parts; i++) {
        double difference = a->part[i] - b->part[i];
        if (difference > ALIKE * a->whole || -difference > ALIKE * a->whole)
            return false;
    }
    return a->too_much == b->too_much;
}

/* By I1. */
static struct stage_runs fold_stages(struct arena *keep, const struct prediction *prediction,
                                     amounts_of *of)
{
    struct stage_runs runs = {0};
    struct amounts first = {0};
    for (int32_t i = 0; i < prediction->plan->stages; i++) {
        struct amounts own = of(&prediction->stage[i], prediction->iteration_ns);
        bool elsewhere = i > 0 && plan_stage_pool(prediction->plan, i) !=
                                      plan_stage_pool(prediction->plan, i - 1);
        if (i == 0 || prediction->plan->stages <= FEW_STAGES || elsewhere || !alike(&first, &own)) {
            array_push(keep, &runs, ((struct alike_stages){i, 0}));
            first = own;
        }
        runs.folded |= ++runs.data[runs.len - 1].count > 1;
    }
    return runs;
}

/* By I2; `kept` is the most important stage. */
static bool is_shown(const struct stage_runs *runs, size_t run, int32_t kept)
{
    return runs->len <= MOST_ROWS || run < END_ROWS || run + END_ROWS >= runs->len ||
           (runs->data[run].first <= kept && kept < runs->data[run].first + runs->data[run].count);
}

typedef void fill_row(struct arena *keep, struct table *table, const struct prediction *prediction,
                      struct alike_stages run);

/* Fills the table; a row of dots stands for rows that are left out. */
static void fill_rows(struct arena *keep, struct table *table, int columns,
                      const struct prediction *prediction, const struct stage_runs *runs,
                      int32_t kept, fill_row *fill)
{
    for (size_t i = 0; i < runs->len; i++) {
        if (is_shown(runs, i, kept)) {
            fill(keep, table, prediction, runs->data[i]);
        } else if (is_shown(runs, i - 1, kept)) {
            for (int c = 0; c < columns; c++)
                table_cell(table, "%s", c ? "" : "…");
        }
    }
}

static void print_folded(const struct stage_runs *runs, FILE *out)
{
    if (runs->folded)
        fputs("neighbours within 0.5 % of each other are one row\n", out);
    if (runs->len > MOST_ROWS)
        fputs("… stages left out; --json has them all\n", out);
}

/* ---- bars ------------------------------------------------------------------------------------ */

static const char *bar(struct arena *keep, const struct amounts *amounts, const char *const *marks,
                       int columns)
{
    const char *text = "";
    double sum = 0;
    int drawn = 0;
    for (int i = 0; i < amounts->parts; i++) {
        sum += amounts->part[i];
        for (; drawn < columns && drawn + 0.5 < sum / amounts->whole * columns; drawn++)
            text = arena_printf(keep, "%s%s", text, marks[i]);
    }
    for (; drawn < columns; drawn++)
        text = arena_printf(keep, "%s·", text);
    return text;
}

/* ---- time ------------------------------------------------------------------------------------ */

enum { PART_COMPUTE, PART_COMMUNICATION, PART_IDLE, TIME_PARTS };
static const char *const TIME_MARKS[] = {"█", "▒", "·"};
static const int PART_OF[TIME_COUNT] = {
    [PURPOSE_FORWARD] = PART_COMPUTE,
    [PURPOSE_BACKWARD] = PART_COMPUTE,
    [PURPOSE_RECOMPUTE] = PART_COMPUTE,
    [PURPOSE_OPTIMIZER] = PART_COMPUTE,
    [PURPOSE_TENSOR] = PART_COMMUNICATION,
    [PURPOSE_EXPERTS] = PART_COMMUNICATION,
    [PURPOSE_CONTEXT] = PART_COMMUNICATION,
    [PURPOSE_DATA] = PART_COMMUNICATION,
    [PURPOSE_PIPELINE] = PART_COMMUNICATION,
    [PURPOSE_OFFLOAD] = PART_COMMUNICATION,
    [TIME_BUBBLE] = PART_IDLE,
};

static struct amounts time_amounts(const struct stage_prediction *stage, int64_t iteration_ns)
{
    struct amounts amounts = {.parts = TIME_PARTS, .whole = (double)iteration_ns};
    for (int t = 0; t < TIME_COUNT; t++)
        amounts.part[PART_OF[t]] += (double)stage->time_ns[t];
    return amounts;
}

static const char *run_devices(struct arena *keep, const struct plan *plan, struct alike_stages run)
{
    const struct stage *first = &plan->stage[run.first];
    const struct stage *last = &plan->stage[run.first + run.count - 1];
    if (plan->stage_run && run.count == 1)
        return stage_devices_text(keep, plan, run.first);
    const char *range = number_range(keep, first->first_device,
                                     last->first_device + last->devices - first->first_device);
    const char *pool = cluster_pool_name(plan->cluster, plan_stage_pool(plan, run.first));
    return plan->cluster->pools ? arena_printf(keep, "%s %s", pool, range) : range;
}

static void fill_times(struct arena *keep, struct table *table, const struct prediction *prediction,
                       struct alike_stages run)
{
    struct amounts amounts = time_amounts(&prediction->stage[run.first], prediction->iteration_ns);
    table_cell(table, "%s", number_range(keep, run.first, run.count));
    table_cell(table, "%s", run_devices(keep, prediction->plan, run));
    for (int part = 0; part < TIME_PARTS; part++)
        table_cell(table, "%s", show_seconds(amounts.part[part]).s);
    table_cell(table, "%s", bar(keep, &amounts, TIME_MARKS, TIME_BAR));
}

/* ---- waiting, in words ----------------------------------------------------------------------- */

static int longer_wait(const void *a, const void *b)
{
    const struct stage_prediction *x = *(const struct stage_prediction *const *)a;
    const struct stage_prediction *y = *(const struct stage_prediction *const *)b;
    if (x->waits_most_ns != y->waits_most_ns)
        return x->waits_most_ns > y->waits_most_ns ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* Such as "stage 3 waits 41 % of the time for gradients from stage 4", for the stages that wait longest. */
static void print_waits(struct arena *scratch, const struct prediction *prediction, FILE *out)
{
    enum { MOST = 3 };
    static const double LEAST = 0.01; /* shorter waits are not mentioned: share of T */
    size_t stages = (size_t)prediction->plan->stages;
    const struct stage_prediction **sorted =
        ARENA_ARRAY(scratch, const struct stage_prediction *, stages);
    for (size_t i = 0; i < stages; i++)
        sorted[i] = &prediction->stage[i];
    qsort(sorted, stages, sizeof(*sorted), longer_wait);
    for (size_t i = 0; i < stages && i < MOST; i++) {
        double share = (double)sorted[i]->waits_most_ns / (double)prediction->iteration_ns;
        if (sorted[i]->waits_most && share >= LEAST)
            fprintf(out, "stage %d waits %.0f %% of the time for %s\n",
                    (int)(sorted[i] - prediction->stage), 100 * share, sorted[i]->waits_most);
    }
}

void stage_times_print(struct arena *scratch, const struct prediction *prediction, FILE *out)
{
    const char *headers[] = {
        "stage",
        "devices",
        "compute",
        "communication",
        "idle",
        arena_printf(scratch, "of %s", show_seconds((double)prediction->iteration_ns).s)};
    static const enum align ALIGNS[] = {ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT,
                                        ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_LEFT};
    struct stage_runs runs = fold_stages(scratch, prediction, time_amounts);
    struct table *table = table_new(scratch, COUNT_OF(headers), headers, ALIGNS);
    table_rule(table);
    fill_rows(scratch, table, COUNT_OF(headers), prediction, &runs, prediction->busiest,
              fill_times);
    table_print(table, out);
    fputs("█ compute  ▒ waits for communication  · idle\n", out);
    print_folded(&runs, out);
    print_waits(scratch, prediction, out);
    pools_print(scratch, prediction, out);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Beside the classes: what the allocator reserves beyond them; context, communicators and margin. */
enum { MEMORY_RESERVED = MEMORY_CLASS_COUNT, MEMORY_BESIDE };

static const char *const MEMORY_MARKS[] = {
    [MEMORY_WEIGHTS] = "█",     [MEMORY_GRADIENTS] = "▓", [MEMORY_OPTIMIZER] = "▒",
    [MEMORY_ACTIVATIONS] = "░", [MEMORY_WORKSPACE] = "+", [MEMORY_RESERVED] = "-",
    [MEMORY_BESIDE] = "=",
};
_Static_assert(COUNT_OF(MEMORY_MARKS) == MOST_PARTS, "a class of memory without a mark");

static struct amounts memory_amounts(const struct stage_prediction *stage, int64_t iteration_ns)
{
    (void)iteration_ns;
    const struct stage_peak *memory = &stage->memory;
    struct amounts amounts = {.parts = MOST_PARTS,
                              .whole = (double)memory->limit,
                              .too_much = stage_needed(memory) > memory->limit};
    for (int c = 0; c < MEMORY_CLASS_COUNT; c++)
        amounts.part[c] = (double)memory->bytes[c];
    if (memory->reserved > memory->peak)
        amounts.part[MEMORY_RESERVED] = (double)(memory->reserved - memory->peak);
    amounts.part[MEMORY_BESIDE] = (double)(stage_needed(memory) - memory->reserved);
    return amounts;
}

static void fill_memory(struct arena *keep, struct table *table,
                        const struct prediction *prediction, struct alike_stages run)
{
    const struct stage_peak *memory = &prediction->stage[run.first].memory;
    struct amounts amounts = memory_amounts(&prediction->stage[run.first], 0);
    table_cell(table, "%s", number_range(keep, run.first, run.count));
    for (int c = 0; c < MEMORY_CLASS_COUNT; c++)
        table_cell(table, "%s", show_bytes((double)memory->bytes[c]).s);
    table_cell(table, "%s", show_bytes((double)memory->peak).s);
    table_cell(table, "%s", show_bytes((double)memory->reserved).s);
    table_cell(table, "%s%s", bar(keep, &amounts, MEMORY_MARKS, MEMORY_BAR),
               amounts.too_much ? " !" : "");
}

static void print_memory_legend(const struct prediction *prediction, FILE *out)
{
    int64_t host = 0;
    for (int c = 0; c < MEMORY_CLASS_COUNT; c++)
        fprintf(out, "%s %s  ", MEMORY_MARKS[c], memory_class_name((enum memory_class)c));
    fprintf(out, "%s reserved  %s others  ! too much\n", MEMORY_MARKS[MEMORY_RESERVED],
            MEMORY_MARKS[MEMORY_BESIDE]);
    for (int32_t i = 0; i < prediction->plan->stages; i++)
        if (prediction->stage[i].memory.host > host)
            host = prediction->stage[i].memory.host;
    if (host > 0)
        fprintf(out, "%s in host memory: up to %s per device\n",
                prediction->plan->optimizer_offload > 0 ? "checkpoints and optimizer state"
                                                        : "checkpoints",
                show_bytes((double)host).s);
}

enum { MEMORY_COLUMNS = 1 + MEMORY_CLASS_COUNT + 3 }; /* at most */

void stage_memory_print(struct arena *scratch, const struct prediction *prediction, FILE *out)
{
    int32_t fullest = fullest_stage(prediction);
    int64_t limit = prediction->stage[fullest].memory.limit;
    const char *headers[MEMORY_COLUMNS] = {"stage"};
    enum align aligns[MEMORY_COLUMNS];
    int columns = 1;
    for (int c = 0; c < MEMORY_CLASS_COUNT; c++)
        headers[columns++] = memory_class_name((enum memory_class)c);
    headers[columns++] = "peak";
    headers[columns++] = "reserved";
    headers[columns++] = prediction->plan->cluster->pools
                             ? "of its device"
                             : arena_printf(scratch, "of %s", show_bytes((double)limit).s);
    for (int c = 0; c < columns; c++)
        aligns[c] = c < columns - 1 ? ALIGN_RIGHT : ALIGN_LEFT;
    struct stage_runs runs = fold_stages(scratch, prediction, memory_amounts);
    struct table *table = table_new(scratch, columns, headers, aligns);
    table_rule(table);
    fill_rows(scratch, table, columns, prediction, &runs, fullest, fill_memory);
    table_print(table, out);
    print_memory_legend(prediction, out);
    print_folded(&runs, out);
}
