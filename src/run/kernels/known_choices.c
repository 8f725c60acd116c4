/* known_choices.c - algorithms of products from a profile database (known_choices.h). */
#include "run/kernels/known_choices.h"

#include <string.h>

weft_status choices_known(struct profile *profile, const char *device,
                          const struct product_choices *choices, struct arena *keep,
                          struct known_choices *out)
{
    struct algorithm_row *rows;
    size_t count;
    weft_status status = profile_algorithms(profile, device, keep, &rows, &count);
    *out = (struct known_choices){0};
    for (size_t i = 0; !status && i < count; i++) {
        struct product_choice one = {.product = rows[i].product,
                                     .algorithm = rows[i].algorithm,
                                     .place = rows[i].place,
                                     .ns = rows[i].ns,
                                     .first_ns = rows[i].first_ns};
        if (strcmp(rows[i].library, choices->library()) == 0) {
            array_push(keep, out, one);
        } else {
            out->foreign++;
            out->library = rows[i].library;
        }
    }
    return status;
}

/* What a run says about the products that it is going to compute. */
static const char *line_of(struct arena *keep, const char *path, const char *library,
                           const struct known_choices *known, size_t refused)
{
    const char *others = "";
    int64_t taken = (int64_t)(known->len - refused);
    if (!path)
        return arena_printf(keep,
                            "products are computed by the first algorithm that %s names; --profile "
                            "DB takes those that `weft profile measure` found",
                            library);
    if (refused > 0)
        others = arena_printf(keep, "; it refuses %s of the database",
                              counted((int64_t)refused, "other algorithm").s);
    if (known->foreign > 0)
        others = arena_printf(keep, "%s; %s of the database %s of %s, measure again", others,
                              counted((int64_t)known->foreign, "algorithm").s,
                              known->foreign == 1 ? "is" : "are", known->library);
    return arena_printf(keep, "%s of %s by measured algorithms of %s, all others by its first%s",
                        counted(taken, "product").s, path, library, others);
}

weft_status choices_take(const struct kernels *kernels, const char *path, const char *device,
                         struct arena *keep, const char **line)
{
    const struct product_choices *choices = kernels->choices;
    struct profile *profile = NULL;
    struct known_choices known = {0};
    size_t refused = 0;
    weft_status status = WEFT_OK;
    *line = NULL;
    if (!choices)
        return WEFT_OK;
    if (path) {
        TRY(profile_open(path, &profile));
        TRY(choices_known(profile, device, choices, keep, &known));
        refused = choices->take(known.data, known.len);
    }
    *line = line_of(keep, path, choices->library(), &known, refused);
done:
    profile_close(profile);
    return status;
}
