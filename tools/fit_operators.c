/* fit_operators.c - derives the rows of src/cost/alone.c from data/profiles/aiconfigurator.
 *
 *   fit_operators            prints the rows
 *   fit_operators --check    errors of the shipped rows on both halves
 *
 * Products and experts are fitted from several starts, of which the one with the least error on the half to fit counts: a
 * longer prologue and a costlier edge of tiles can stand for each other.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cost/calibration.h"

#define PROFILES WEFT_SOURCE_DIR "/data/profiles"

static const struct {
    double prologue_k, tile_edge; /* 0: the device's own */
} STARTS[] = {{0, 0}, {30, 20}, {200, 4}, {200, 55}, {450, 4}, {450, 55}, {1200, 4}};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of |predicted / measured - 1| in a half. */
static double median_error(const struct observations *rows, const struct calibration *c,
                           bool held_out)
{
    double *errors = malloc((rows->len + 1) * sizeof *errors), median = 0;
    size_t count = 0;
    for (size_t i = 0; errors && i < rows->len; i++)
        if (rows->data[i].held_out == held_out)
            errors[count++] = fabs(observation_ns(c, &rows->data[i]) / rows->data[i].time.ns - 1);
    if (count) {
        qsort(errors, count, sizeof *errors, by_value);
        median = errors[count / 2];
    }
    free(errors);
    return median;
}

static double mean_error(const struct observations *rows, const struct calibration *c)
{
    double sum = 0;
    size_t count = 0;
    for (size_t i = 0; i < rows->len; i++) {
        if (rows->data[i].held_out)
            continue;
        sum += fmin(fabs(log(observation_ns(c, &rows->data[i]) / rows->data[i].time.ns)), 0.5);
        count++;
    }
    return count ? sum / (double)count : 0;
}

static const struct alone_kind *kind_of(const char *layer)
{
    const struct alone_kind *kinds;
    size_t count = alone_kinds(&kinds);
    for (size_t i = 0; i < count; i++)
        if (strncmp(layer, kinds[i].name, strlen(kinds[i].name)) == 0)
            return &kinds[i];
    abort();
}

static struct calibration fitted(const struct observations *rows, const char *layer)
{
    const struct alone_kind *kind = kind_of(layer);
    bool attention = strcmp(kind->name, "attention") == 0;
    struct calibration best = {0};
    double least = INFINITY;
    for (size_t i = 0; i < (attention ? 1 : COUNT_OF(STARTS)); i++) {
        struct calibration c = *calibration_for(rows->data[0].device);
        double loss = strstr(layer, "nvfp4") ? c.nvfp4_loss : strstr(layer, "fp8") ? c.fp8_loss : 0;
        c.power_fraction *= 1 - loss;
        c.fp8_loss = c.nvfp4_loss = 0;
        c.prologue_k = i ? STARTS[i].prologue_k : c.prologue_k;
        c.tile_edge = i ? STARTS[i].tile_edge : c.tile_edge;
        calibration_fit_only(rows, kind->parameter, ALONE_PARAMETERS, &c);
        double error = mean_error(rows, &c);
        if (error < least) {
            best = c;
            least = error;
        }
    }
    return best;
}

static double value_of(const struct calibration *c, const char *name)
{
    const struct fit_parameter *parameters;
    size_t count = fit_parameters(&parameters);
    for (size_t i = 0; i < count; i++)
        if (strcmp(parameters[i].name, name) == 0)
            return *(const double *)(const void *)((const char *)c + parameters[i].offset);
    abort();
}

static void print_row(const struct observations *rows, const char *layer)
{
    struct calibration c = fitted(rows, layer);
    const struct alone_kind *kind = kind_of(layer);
    printf("    {\"%s\", \"%s\", {", rows->data[0].device->name, layer);
    for (int i = 0; i < ALONE_PARAMETERS; i++)
        printf("%s%.3g", i ? ", " : "", value_of(&c, kind->parameter[i]));
    printf("}}, /* %.1f %% */\n", 100 * median_error(rows, &c, true));
    fflush(stdout);
}

static void print_check(const struct observations *rows, const char *layer)
{
    struct calibration c;
    bool own = calibration_alone(rows->data[0].device, layer, &c);
    printf("%-16s %-20s %4zu rows   fit %5.1f %%   held out %5.1f %%%s\n",
           rows->data[0].device->name, layer, rows->len, 100 * median_error(rows, &c, false),
           100 * median_error(rows, &c, true), own ? "" : "   no row of its own");
}

int main(int argc, char **argv)
{
    bool check = argc > 1 && strcmp(argv[1], "--check") == 0;
    struct arena *arena = arena_new();
    struct observations all = {0};
    weft_status status = WEFT_OK;
    for (int i = OBSERVED_PRODUCTS; i <= OBSERVED_EXPERTS; i++)
        TRY(observe(PROFILES, (enum observed)i, arena, &all));
    /* The rows of a table are sorted by device and precision. */
    for (size_t i = 0, end; i < all.len; i = end) {
        struct observations rows = {0};
        for (end = i; end < all.len && all.data[end].device == all.data[i].device &&
                      strcmp(all.data[end].label, all.data[i].label) == 0;
             end++)
            array_push(arena, &rows, all.data[end]);
        (check ? print_check : print_row)(&rows, all.data[i].label);
    }
done:
    if (status != WEFT_OK)
        fprintf(stderr, "%s\n", weft_last_error()->message);
    arena_free(arena);
    return status;
}
