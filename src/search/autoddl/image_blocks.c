/* image_blocks.c - images in blocks of rows and columns, tried after everything else (autoddl.c, I11). */
#include <stdlib.h>

#include "search/autoddl/room.h"

static bool has_blocks(const struct layout_case *about, const struct step_case *c)
{
    int64_t devices = cluster_devices(about->cluster) / about->stages;
    return splits_have_blocks(about->model, devices, c->step_samples);
}

/* Floors of cases with blocks: those that were found without them are none of these. */
static weft_status lower_floors(struct layout_case about, struct stage_cases *cases)
{
    weft_status status = WEFT_OK;
    bool some = false;
    about.blocks = true;
    for (size_t i = 0; i < cases->count; i++) {
        about.step_samples = cases->data[i].step_samples;
        about.recompute = cases->data[i].recompute;
        if (!has_blocks(&about, &cases->data[i]))
            continue;
        TRY(layout_floor(&about, &cases->data[i].floor_ns));
        some = true;
    }
    if (some)
        qsort(cases->data, cases->count, sizeof *cases->data, autoddl_by_floor);
done:
    return status;
}

weft_status autoddl_try_blocks(struct autoddl *a, const struct layout_case *about,
                               struct stage_cases *cases)
{
    struct incumbent so_far = {a->fastest_ns, 0, a->request->known_ns};
    struct layout_case with = *about;
    weft_status status;
    TRY(lower_floors(*about, cases));
    with.blocks = true;
    for (size_t i = 0; i < cases->count && !autoddl_over(a); i++) {
        struct step_case *c = &cases->data[i];
        struct solve_outcome outcome;
        if (has_blocks(about, c) && autoddl_to_beat(&so_far) > 0 &&
            !autoddl_is_slower(c, &so_far) && autoddl_is_near(c, &so_far, AUTODDL_NEAR))
            TRY(autoddl_solve_rest(a, &with, c, true, &so_far, &outcome));
    }
done:
    return status;
}
