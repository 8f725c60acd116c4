/* choices.c - circumstances of measurements, and algorithms of products that were found on the way (choices.h). */
#include "run/measure/choices.h"

#include <time.h>

/* ---- circumstances --------------------------------------------------------------------------- */

static const char *library_of(struct arena *scratch, const struct kernels *kernels)
{
    if (kernels->choices)
        return kernels->choices->library();
    return *blas_core() ? arena_printf(scratch, "OpenBLAS for %s", blas_core()) : "no library";
}

weft_status store_circumstances(struct profile *profile, const struct measure_options *options)
{
    const struct compute_device *device = options->kernels->device;
    struct arena *scratch = arena_new();
    struct device_facts facts = device->facts ? device->facts() : (struct device_facts){0};
    char date[32] = "";
    time_t now = time(NULL);
    struct tm utc;
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    struct circumstances of = {.device = device->product ? device->product() : options->device,
                               .clock_hz = facts.clock_hz,
                               .driver = facts.driver,
                               .library = library_of(scratch, options->kernels),
                               .date = date};
    weft_status status = profile_add_circumstances(profile, options->source, &of);
    arena_free(scratch);
    return status;
}

/* ---- algorithms ------------------------------------------------------------------------------ */

weft_status choices_begin(struct profile *profile, const struct measure_options *options)
{
    const struct product_choices *choices = options->kernels->choices;
    struct arena *scratch = arena_new();
    struct known_choices known;
    weft_status status = WEFT_OK;
    if (choices) {
        TRY(choices_known(profile, options->device, choices, scratch, &known));
        choices->take(known.data, known.len);
        choices->seek(true);
    }
done:
    arena_free(scratch);
    return status;
}

void choices_end(const struct measure_options *options)
{
    if (options->kernels->choices)
        options->kernels->choices->seek(false);
}

weft_status choices_store(struct profile *profile, const struct measure_options *options,
                          size_t *stored)
{
    const struct product_choices *choices = options->kernels->choices;
    struct arena *scratch = arena_new();
    struct product_choice *found = NULL;
    size_t count = choices ? choices->found(scratch, *stored, &found) : 0;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < count; i++) {
        struct algorithm_row row = {.device = options->device,
                                    .library = choices->library(),
                                    .product = found[i].product,
                                    .algorithm = found[i].algorithm,
                                    .source = options->source,
                                    .place = found[i].place,
                                    .ns = found[i].ns,
                                    .first_ns = found[i].first_ns};
        TRY(profile_add_algorithm(profile, &row));
    }
    *stored += count;
done:
    arena_free(scratch);
    return status;
}
