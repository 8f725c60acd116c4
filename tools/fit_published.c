/* fit_published.c - derives the shipped calibrations from the published tables, and says how well
 * they predict the rows they have not seen.
 *
 *   fit_published           fits on the fitting half, prints parameters and errors of both halves
 *   fit_published --check   errors of the shipped calibrations, no fitting
 *
 * A device's name after either limits it to that one.
 *
 * An error is |predicted / measured - 1|. Rows whose time contains an all-reduce are never fitted;
 * their error is reported apart, with Aceso's own table of V100 collectives added to the
 * prediction.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cost/calibration.h"

#define PROFILES WEFT_SOURCE_DIR "/data/profiles"

enum { MAX_POINTS = 4096 };

/* ---- all-reduce times ------------------------------------------------------------------------ */

struct point {
    long devices;
    double megabytes, ms;
};
static struct point points[MAX_POINTS];
static size_t point_count;

static void read_collectives(struct arena *arena)
{
    char *text;
    size_t len;
    if (file_read(arena, PROFILES "/aceso/v100_collectives.csv", 1 << 24, &text, &len) != WEFT_OK)
        return;
    for (char *line = strtok(text, "\n"); line && point_count < MAX_POINTS;
         line = strtok(NULL, "\n")) {
        struct point p;
        if (sscanf(line, "all_reduce,%ld,%lf,%lf", &p.devices, &p.megabytes, &p.ms) == 3)
            points[point_count++] = p;
    }
}

/* Linear between the nearest sizes on either side; rows are sorted by devices and size. */
static double all_reduce_ns(long devices, double bytes)
{
    double megabytes = bytes / (1 << 20);
    const struct point *below = NULL, *above = NULL;
    for (size_t i = 0; i < point_count; i++) {
        if (points[i].devices != devices)
            continue;
        if (points[i].megabytes <= megabytes)
            below = &points[i];
        else if (!above)
            above = &points[i];
    }
    if (!below || !above)
        return below ? below->ms * 1e6 * megabytes / below->megabytes : 0;
    double share = (megabytes - below->megabytes) / (above->megabytes - below->megabytes);
    return 1e6 * (below->ms + share * (above->ms - below->ms));
}

/* ---- errors ---------------------------------------------------------------------------------- */

struct selection {
    const char *label;
    enum direction direction; /* DIRECTION_COUNT: both */
    int held_out;             /* 0, 1, or -1: both */
    bool all_reduce;
};

static bool belongs(const struct observation *o, const struct selection *g)
{
    return (!g->label || strcmp(o->label, g->label) == 0) &&
           (g->direction == DIRECTION_COUNT ||
            phase_direction(o->time.work[0].phase) == g->direction) &&
           (g->held_out < 0 || o->held_out == (g->held_out == 1)) &&
           (g->all_reduce ? o->time.all_reduce_bytes > 0 : o->time.all_reduce_bytes == 0);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_errors(const struct observations *rows, const struct calibration *c,
                         const struct selection *g, const char *title)
{
    double *errors = malloc((rows->len + 1) * sizeof *errors);
    size_t count = 0;
    for (size_t i = 0; errors && i < rows->len; i++) {
        const struct observation *o = &rows->data[i];
        if (!belongs(o, g))
            continue;
        double ns = observation_ns(c, o);
        ns += o->time.all_reduce_bytes > 0
                  ? all_reduce_ns(o->time.devices, o->time.all_reduce_bytes)
                  : 0;
        errors[count++] = fabs(ns / o->time.ns - 1);
    }
    if (count) {
        qsort(errors, count, sizeof *errors, by_value);
        printf("  %-34s %6zu rows   median %5.1f %%   90th %5.1f %%\n", title, count,
               100 * errors[count / 2], 100 * errors[count * 9 / 10]);
    }
    free(errors);
}

static bool first_of_label(const struct observations *rows, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (strcmp(rows->data[j].label, rows->data[i].label) == 0)
            return false;
    return true;
}

static void report(const struct observations *rows, const struct calibration *c)
{
    print_errors(rows, c, &(struct selection){NULL, DIRECTION_COUNT, 0, false}, "fitting half");
    print_errors(rows, c, &(struct selection){NULL, DIRECTION_COUNT, 1, false}, "held-out half");
    print_errors(rows, c, &(struct selection){NULL, FORWARD, 1, false}, "  forward");
    print_errors(rows, c, &(struct selection){NULL, BACKWARD, 1, false}, "  backward");
    if (strcmp(rows->data[0].device->arch, "volta") == 0) /* the collectives' machine */
        print_errors(rows, c, &(struct selection){NULL, DIRECTION_COUNT, -1, true},
                     "with an all-reduce");
    for (size_t i = 0; i < rows->len; i++) {
        if (!first_of_label(rows, i))
            continue;
        for (enum direction d = 0; d < DIRECTION_COUNT; d++) {
            char title[64];
            snprintf(title, sizeof title, "  %s%s", rows->data[i].label, d ? ", backward" : "");
            print_errors(rows, c, &(struct selection){rows->data[i].label, d, 1, false}, title);
        }
    }
}

static double value_of(const struct calibration *c, const struct fit_parameter *p)
{
    return *(const double *)(const void *)((const char *)c + p->offset);
}

static void print_parameters(const struct calibration *c, const struct calibration *shipped)
{
    const struct fit_parameter *parameters;
    size_t count = fit_parameters(&parameters);
    for (size_t i = 0; i < count; i++) {
        double fitted = value_of(c, &parameters[i]);
        bool moved = fitted != value_of(calibration_generic(), &parameters[i]);
        printf("  %-38s %10.4g   shipped %10.4g%s\n", parameters[i].name, fitted,
               value_of(shipped, &parameters[i]), moved ? "" : "   undetermined: as it started");
    }
}

/* All rows of one device. */
static struct observations rows_of(struct arena *arena, const struct observations *all,
                                   const struct device *device)
{
    struct observations rows = {0};
    for (size_t i = 0; i < all->len; i++)
        if (all->data[i].device == device)
            array_push(arena, &rows, all->data[i]);
    return rows;
}

/* `fit`: derive parameters from these rows first. */
static void one_device(struct arena *arena, const struct observations *all,
                       const struct device *device, bool fit)
{
    struct observations rows = rows_of(arena, all, device);
    const struct calibration *shipped = calibration_for(device);
    struct calibration c = fit ? *calibration_generic() : *shipped;
    memcpy(c.attention_rows, shipped->attention_rows, sizeof c.attention_rows);
    if (fit)
        calibration_fit(&rows, &c);
    printf("%s\n", device->name);
    report(&rows, &c);
    if (fit)
        print_parameters(&c, shipped);
}

/* Devices whose rows are fitted, and devices that only stand witness (Sailor). */
static const char *const FITTED[] = {"A100-PCIe-80GB", "B200-SXM-180GB", "V100-SXM2-32GB",
                                     "H200-SXM-141GB"};
static const char *const WITNESSES[] = {"V100-SXM2-16GB", "A100-SXM4-40GB", "GH200-96GB",
                                        "RTX-2080-Ti",    "RTX-3090",       "RTX-TITAN"};

int main(int argc, char **argv)
{
    bool fit = !(argc > 1 && strcmp(argv[1], "--check") == 0);
    const char *only = argc > 1 + !fit ? argv[1 + !fit] : NULL;
    struct arena *arena = arena_new();
    struct observations all = {0};
    weft_status status = WEFT_OK;
    for (int i = 0; i < OBSERVED_COUNT; i++)
        TRY(observe(PROFILES, (enum observed)i, arena, &all));
    read_collectives(arena);
    for (size_t i = 0; i < COUNT_OF(FITTED); i++)
        if (!only || strcmp(only, FITTED[i]) == 0)
            one_device(arena, &all, device_find(FITTED[i]), fit);
    for (size_t i = 0; i < COUNT_OF(WITNESSES); i++)
        if (!only || strcmp(only, WITNESSES[i]) == 0)
            one_device(arena, &all, device_find(WITNESSES[i]), false);
done:
    if (status != WEFT_OK)
        fprintf(stderr, "%s\n", weft_last_error()->message);
    arena_free(arena);
    return status;
}
