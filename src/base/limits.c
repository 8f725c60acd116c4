/* limits.c - how much work one question may cause (limits.h). */
#include "base/base.h"

static const struct limit_row LIMITS[] = {
    [LIMIT_BATCH] = {"the samples of an iteration", "samples", MOST_SAMPLES,
                     "the largest batches that are trained with have some ten million tokens",
                     "use a smaller global batch"},
    [LIMIT_OPERATORS] = {"the operators of a plan", "operators", 0x1p15,
                         "each is laid out, timed and counted by itself, and a split one is six "
                         "tasks of a micro-batch: a simulation takes up to 7 s and 1 GB",
                         "use fewer layers: equal layers take equal times"},
    [LIMIT_SLOTS] = {"a schedule", "micro-batches times parts", 0x1p22,
                     "a graph has a few tasks of 200 bytes for each",
                     "use a smaller global batch, a larger micro-batch or fewer stages"},
    [LIMIT_FOLDED_SLOTS] = {"a simulation where one device stands for its stage",
                            "micro-batches times parts of at most 32 operators", 0x1p16,
                            "about 0.2 s and 60 MB",
                            "two shorter iterations are simulated and extrapolated"},
    [LIMIT_LISTED_SLOTS] = {"a simulation of an order that is listed, or of limited stages",
                            "micro-batches times such parts", 0x1p18, "about 6 s and 2 GB",
                            "use a smaller global batch or a larger micro-batch; an order that has "
                            "a name is extrapolated"},
    [LIMIT_UNFOLDED_SLOTS] = {"a simulation of every device",
                              "micro-batches times such parts times devices", 0x1p20,
                              "a few seconds and 1 GB",
                              "two shorter iterations are simulated and extrapolated"},
    [LIMIT_UNALIKE_TASKS] = {"a graph of every device, where groups are not alike", "tasks",
                             2500000, "about a second", "the slowest group stands for all of them"},
    [LIMIT_UNFOLDED_TASKS] = {"a graph of every device that was asked for", "tasks", 4000000,
                              "about 10 s: it grows with the square of the devices",
                              "leave --unfold out: one device then stands for its stage"},
    [LIMIT_PROOF] = {"a proof", "micro-batches times operators times pairs of their devices", 1.4e8,
                     "about 5 s and 1.9 GB",
                     "use a smaller global batch: further micro-batches only repeat; with many "
                     "devices, only one of each stage is looked at"},
    [LIMIT_TRACE] = {"a trace", "slices", 2000000, "about 400 MB, which viewers still open",
                     "first devices, then items of tasks are left out; --trace-events allows more"},
};
_Static_assert(COUNT_OF(LIMITS) == LIMIT_COUNT, "a limit without a row");

const struct limit_row *limit_row(enum work_limit limit)
{
    return &LIMITS[limit];
}

double limit_of(enum work_limit limit)
{
    return LIMITS[limit].most;
}

weft_status over_limit(enum work_limit limit, double found)
{
    const struct limit_row *row = &LIMITS[limit];
    return bad_argument(row->instead, "%s: %.0f %s, expected at most %.0f (%s)", row->what, found,
                        row->unit, row->most, row->why);
}
