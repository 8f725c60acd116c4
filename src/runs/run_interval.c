/* run_interval.c - how sure a prediction is: how far off those of published runs like it were (runs.h).
 *
 * Runs are alike in up to four things: the architecture of the device, the type of products, the kind of model, and the
 * number of devices within a factor of SCALE. The runs alike in most of them, at least ENOUGH, are taken; with their n
 * errors r = ln(measured / predicted) in order, eight of ten runs lie between
 *
 *   prediction * exp(r at the share q)  and  prediction * exp(r at 1 - q),   q = TAIL (1 - 1 / n) (1)
 *
 * TAIL is below a tenth because the next run is of another group than these: with 0.06 eight of ten runs lie between the
 * two where no run of their own group is taken (test_intervals.c).
 *
 *   I1  All runs of the file were held out: no constant of the model was fitted to them.
 *   I2  A group of m runs, of one model from one source, weighs as much as sqrt(m) single runs: what a hundred runs of one
 *       model say is not what another model will do. n is the number of runs of equal weight that are as sure.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runs/runs_room.h"

enum { ENOUGH = 20, LEAST = 10 };
static const double SCALE = 8, TAIL = 0.06;
static const double LARGEST_ERROR = 5; /* of |r|: nothing is a hundred times off */

/* ---- what a plan is like ---------------------------------------------------------------------- */

/* The first kind of which a model has an operator. */
static const struct {
    const char *name;
    enum op_kind op;
} KINDS[] = {
    {"hybrid", OP_SCAN},
    {"hybrid", OP_DELTA},
    {"mixture", OP_DISPATCH},
    {"cnn", OP_CONV},
};

static const char *model_kind(const struct model *model)
{
    for (size_t k = 0; k < COUNT_OF(KINDS); k++)
        for (int32_t i = 0; i < model->ops; i++)
            if (model->op[i].kind == KINDS[k].op)
                return KINDS[k].name;
    return "dense";
}

/* Types of 16 and 32 bits are one: their products are well known everywhere. */
static const char *type_word(enum dtype dtype)
{
    return dtype_is_cast(dtype) ? dtype_name(dtype) : "wide";
}

/* Of several types none: runs on either say little about both together. */
static const char *likely_arch(const struct cluster *cluster)
{
    const char *first = cluster_pool(cluster, 0)->node.device.arch;
    for (int32_t p = 1; p < cluster_pools(cluster); p++)
        if (strcmp(cluster_pool(cluster, p)->node.device.arch, first) != 0)
            return "several";
    return first;
}

struct run_likeness plan_likeness(const struct plan *plan)
{
    return (struct run_likeness){.arch = likely_arch(plan->cluster),
                                 .type = type_word(plan->dtype),
                                 .kind = model_kind(plan->model),
                                 .devices = cluster_devices(plan->cluster)};
}

/* ---- the file --------------------------------------------------------------------------------- */

enum { AT_GROUP, AT_QUESTION, AT_ARCH, AT_TYPE, AT_KIND, AT_DEVICES, AT_ERROR, COLUMNS };

struct residual_reading {
    struct arena *keep;
    struct residuals *out;
};

static weft_status take_residual(void *context, const struct csv *csv, const int *at)
{
    struct residual_reading *reading = context;
    const char *text[COLUMNS];
    struct residual row = {0};
    weft_status status;
    for (int i = 0; i < COLUMNS; i++)
        text[i] = csv->field[at[i]];
    TRY(csv_int(csv, at[AT_DEVICES], 1, &row.like.devices));
    if (!parse_real(text[AT_ERROR], &row.error) || !(fabs(row.error) < LARGEST_ERROR)) {
        status = csv_error(csv, at[AT_ERROR], NULL, "a logarithm between -5 and 5");
        goto done;
    }
    row.group = arena_copy_text(reading->keep, text[AT_GROUP]);
    row.question = arena_copy_text(reading->keep, text[AT_QUESTION]);
    row.like.arch = arena_copy_text(reading->keep, text[AT_ARCH]);
    row.like.type = arena_copy_text(reading->keep, text[AT_TYPE]);
    row.like.kind = arena_copy_text(reading->keep, text[AT_KIND]);
    array_push(reading->keep, reading->out, row);
done:
    return status;
}

weft_status residuals_parse(struct arena *keep, const char *file, char *text, size_t len,
                            struct residuals *out)
{
    static const char *const NAMES[] = {"group", "question", "arch", "type",
                                        "kind",  "devices",  "error"};
    _Static_assert(COUNT_OF(NAMES) == COLUMNS, "a column without a name");
    struct residual_reading reading = {keep, out};
    struct csv csv;
    weft_status status = csv_open(&csv, file, text, len);
    return status ? status : csv_read(&csv, NAMES, COUNT_OF(NAMES), take_residual, &reading);
}

weft_status residuals_shipped(struct arena *keep, struct residuals *out)
{
    char *text = arena_copy_text(keep, RESIDUALS_TEXT);
    return residuals_parse(keep, "residuals.csv", text, strlen(text), out);
}

/* ---- intervals -------------------------------------------------------------------------------- */

enum { ALIKE_ARCH = 1, ALIKE_TYPE = 2, ALIKE_KIND = 4, ALIKE_SCALE = 8 };

/* What runs must share, the most first. */
static const struct {
    unsigned shared;
    const char *words;
} LEVELS[] = {
    {ALIKE_ARCH | ALIKE_TYPE | ALIKE_KIND | ALIKE_SCALE, "device, type, model and scale"},
    {ALIKE_ARCH | ALIKE_TYPE | ALIKE_KIND, "device, type and model"},
    {ALIKE_TYPE | ALIKE_KIND | ALIKE_SCALE, "type, model and scale"},
    {ALIKE_TYPE | ALIKE_KIND, "type and model"},
    {ALIKE_KIND, "model"},
    {0, "nothing"},
};

static unsigned alike_in(const struct run_likeness *a, const struct run_likeness *b)
{
    double ratio = (double)a->devices / (double)b->devices;
    return (strcmp(a->arch, b->arch) == 0 ? ALIKE_ARCH : 0) |
           (strcmp(a->type, b->type) == 0 ? ALIKE_TYPE : 0) |
           (strcmp(a->kind, b->kind) == 0 ? ALIKE_KIND : 0) |
           (ratio <= SCALE && 1 / ratio <= SCALE ? ALIKE_SCALE : 0);
}

static int by_error(const void *a, const void *b)
{
    const struct residual *x = *(const struct residual *const *)a,
                          *y = *(const struct residual *const *)b;
    return (x->error > y->error) - (x->error < y->error);
}

static double weight_of(const struct residual *const *run, size_t count, const struct residual *one)
{
    double members = 0;
    for (size_t i = 0; i < count; i++)
        members += strcmp(run[i]->group, one->group) == 0;
    return 1 / sqrt(members); /* I2 */
}

/* Equation (1), for runs in the order of their errors. */
static void quantiles(const struct residual *const *run, const double *weight, size_t count,
                      struct interval *out)
{
    double all = 0, squares = 0, sum = 0;
    for (size_t i = 0; i < count; i++) {
        all += weight[i];
        squares += weight[i] * weight[i];
    }
    double tail = TAIL * (1 - squares / (all * all)) * all;
    bool low = false, high = false;
    for (size_t i = 0; i < count; i++) {
        sum += weight[i];
        if (!low && sum >= tail)
            out->low = exp(run[i]->error), low = true;
        if (!high && sum >= all - tail)
            out->high = exp(run[i]->error), high = true;
    }
    out->runs = (int64_t)count;
}

bool interval_among(const struct residuals *all, const struct run_likeness *like,
                    const char *without, struct interval *out)
{
    struct arena *scratch = arena_new();
    const struct residual **run = ARENA_ARRAY(scratch, const struct residual *, all->len + 1);
    double *weight = ARENA_ARRAY(scratch, double, all->len + 1);
    size_t count = 0;
    for (size_t l = 0; l < COUNT_OF(LEVELS) && count < ENOUGH; l++) {
        count = 0;
        out->alike = LEVELS[l].words;
        for (size_t i = 0; i < all->len; i++) {
            const struct residual *one = &all->data[i];
            unsigned shared = alike_in(like, &one->like) & LEVELS[l].shared;
            if (shared == LEVELS[l].shared && (!without || strcmp(without, one->group) != 0))
                run[count++] = one;
        }
    }
    qsort(run, count, sizeof *run, by_error);
    for (size_t i = 0; i < count; i++)
        weight[i] = weight_of(run, count, run[i]);
    if (count >= LEAST)
        quantiles(run, weight, count, out);
    arena_free(scratch);
    return count >= LEAST;
}

bool plan_interval(const struct plan *plan, struct interval *out)
{
    struct arena *scratch = arena_new();
    struct residuals all = {0};
    struct run_likeness like = plan_likeness(plan);
    bool found =
        residuals_shipped(scratch, &all) == WEFT_OK && interval_among(&all, &like, NULL, out);
    arena_free(scratch);
    return found;
}

/* ---- two plans -------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double pair_interval(const struct residuals *all)
{
    struct arena *scratch = arena_new();
    ARRAY(double) apart = {0};
    for (size_t i = 0; i < all->len; i++)
        for (size_t j = 0; j < i; j++)
            if (strcmp(all->data[i].question, all->data[j].question) == 0)
                array_push(scratch, &apart, fabs(all->data[i].error - all->data[j].error));
    double out = 0;
    if (apart.len > 0) {
        qsort(apart.data, apart.len, sizeof *apart.data, by_value);
        out = exp(apart.data[(size_t)(0.8 * (double)(apart.len - 1))]) - 1;
    }
    arena_free(scratch);
    return out;
}

double plans_apart(void)
{
    struct arena *scratch = arena_new();
    struct residuals all = {0};
    double out = residuals_shipped(scratch, &all) ? 0 : pair_interval(&all);
    arena_free(scratch);
    return out;
}
