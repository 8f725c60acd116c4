/* interference.c - how computation and collectives slow each other down, by kind of kernel (Proteus, section VI-C: gamma
 * is measured in advance for a type of machine).
 *
 * While a kernel and a collective run on one device at the same time, the kernel takes `work` times as long and the
 * collective `transfer` times:
 *
 *   work     = time of the kernel beside collectives / its time alone                                        (1)
 *   transfer = time of a collective beside such kernels / its time alone                                     (2)
 *
 * A profile database has them as constants of the device, called work_slowdown/KERNEL and transfer_slowdown/KERNEL; a table
 * of Weft's own has a row for every kernel.
 *
 *   I1  Both factors are at least 1. A kernel is measured both ways or not at all.
 *   I2  A kernel that a source has not measured is answered by the next source, and at the end by the device's one factor
 *       (cost_slowdown).
 */
#include <string.h>

#include "cost/profile.h"

static const char WORK[] = "work_slowdown/", TRANSFER[] = "transfer_slowdown/";

/* ---- what is stored -------------------------------------------------------------------------- */

static weft_status store_factor(struct profile *profile, const char *device, const char *what,
                                enum kernel kernel, double factor, int64_t source)
{
    struct arena *arena = arena_new();
    const char *name = arena_printf(arena, "%s%s", what, kernel_name(kernel));
    struct profile_value values[] = {V_TEXT(device), V_TEXT(""),      V_TEXT(name),
                                     V_REAL(factor), V_TEXT("ratio"), V_INT(source)};
    weft_status status = profile_insert(profile, TABLE_CONSTANT, values, COUNT_OF(values));
    arena_free(arena);
    return status;
}

static weft_status store_factors(struct profile *profile, const char *device, enum kernel kernel,
                                 struct interference factor, int64_t source)
{
    weft_status status;
    TRY(store_factor(profile, device, WORK, kernel, factor.work, source));
    TRY(store_factor(profile, device, TRANSFER, kernel, factor.transfer, source));
done:
    return status;
}

weft_status profile_add_interference(struct profile *profile, const char *device,
                                     enum kernel kernel, struct interference factor,
                                     const char *source)
{
    int64_t number;
    weft_status status = profile_source(profile, source, "", "", &number);
    return status ? status : store_factors(profile, device, kernel, factor, number);
}

/* ---- the table ------------------------------------------------------------------------------- */

enum { DEVICE, KERNEL, WORK_SLOWDOWN, TRANSFER_SLOWDOWN, SOURCE };
static const char *const COLUMNS[] = {"?device", "kernel", "work_slowdown", "transfer_slowdown",
                                      "?source"};

static weft_status read_factor(const struct csv *csv, int at, double *out)
{
    weft_status status = csv_real(csv, at, REAL_POSITIVE, out);
    if (!status && *out < 1)
        status = csv_error(csv, at, "the time beside the other over the time alone",
                           "a factor of at least 1");
    return status;
}

static weft_status read_row(void *context, const struct csv *csv, const int *at)
{
    struct import *import = context;
    const char *device = at[DEVICE] >= 0 ? csv->field[at[DEVICE]] : import->options->device;
    enum kernel kernel;
    struct interference factor;
    weft_status status;
    if (!device || !*device)
        return bad_input(csv->file, csv->line, "add a column 'device', or give --device NAME",
                         "does not say which device was measured");
    if (!kernel_from_name(csv->field[at[KERNEL]], &kernel)) {
        status = csv_error(csv, at[KERNEL], NULL, "a kernel");
        hint_near(kernel_near(csv->field[at[KERNEL]]));
        return status;
    }
    TRY(read_factor(csv, at[WORK_SLOWDOWN], &factor.work));
    TRY(read_factor(csv, at[TRANSFER_SLOWDOWN], &factor.transfer));
    if (!import_wants(import, device)) {
        import_skip(import, "another device");
        return WEFT_OK;
    }
    TRY(import_own_source(import, csv, at[SOURCE] >= 0 ? csv->field[at[SOURCE]] : ""));
    import->summary->stored += 2;
    TRY(store_factors(import->profile, device, kernel, factor, import->source));
done:
    return status;
}

weft_status import_weft_interference(struct import *import, struct csv *csv)
{
    return csv_read(csv, COLUMNS, COUNT_OF(COLUMNS), read_row, import);
}

/* ---- the database ---------------------------------------------------------------------------- */

/* The kernel that a constant's name ends with, after these words; false: it is another constant. */
static bool names_kernel(const char *name, const char *words, enum kernel *out)
{
    size_t len = strlen(words);
    return strncmp(name, words, len) == 0 && kernel_from_name(name + len, out);
}

static void take_factor(void *context, const struct profile_value *v)
{
    struct interference *of = context;
    enum kernel kernel;
    if (names_kernel(v[0].text, WORK, &kernel))
        of[kernel].work = v[1].real;
    else if (names_kernel(v[0].text, TRANSFER, &kernel))
        of[kernel].transfer = v[1].real;
}

/* Fills in what `out` does not have yet (I1, I2). */
static weft_status find_factors(struct profile *profile, const char *sql,
                                const struct profile_value *parameters, size_t count,
                                struct interference out[KERNEL_COUNT])
{
    struct interference found[KERNEL_COUNT] = {0};
    weft_status status = profile_query(profile, sql, parameters, count, take_factor, found);
    for (int k = 0; k < KERNEL_COUNT && !status; k++)
        if (out[k].work == 0 && found[k].work >= 1 && found[k].transfer >= 1)
            out[k] = found[k];
    return status;
}

weft_status profile_interference(struct profile *profile, const char *device,
                                 struct interference out[KERNEL_COUNT])
{
    struct profile_value parameters[] = {V_TEXT(device)};
    return find_factors(profile,
                        "SELECT name, value FROM constant WHERE device = ?1 AND "
                        "name LIKE '%slowdown/%' ORDER BY source",
                        parameters, COUNT_OF(parameters), out);
}

weft_status profile_interference_of(struct profile *profile, const char *device, const char *source,
                                    struct interference out[KERNEL_COUNT])
{
    struct profile_value parameters[] = {V_TEXT(device), V_TEXT(source)};
    return find_factors(profile,
                        "SELECT c.name, c.value FROM constant c JOIN source s ON s.id = c.source "
                        "WHERE c.device = ?1 AND s.name = ?2 AND c.name LIKE '%slowdown/%'",
                        parameters, COUNT_OF(parameters), out);
}
