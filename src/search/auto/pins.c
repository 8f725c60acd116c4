/* pins.c - which pins make a plan impossible, and what to pin instead.
 *
 * With grid(R) the points of the grid (grid_space.h) that satisfy all pins of R, the values that
 * would work in place of one pin are
 *
 *   { value at p : p in grid(R without that pin) }                                               (1)
 *
 * except for cp, which the grid opens only for long sequences: its possible values are tried one by
 * one.
 *
 *   I1  This holds whichever planner searched: some planners have plans between the points of the
 *       grid, but if the grid has a point that satisfies all pins, they are not the reason that
 *       nothing was found.
 *   I2  If (1) is empty for every pin, more than one is wrong: each is then checked against the
 *       grid with no other pin.
 */
#include "search/auto/pins.h"

#include <stdlib.h>
#include <string.h>

#include "search/auto/grid_space.h"

/* The pins that are numbers in struct degrees, and the schedule, which counts as a number here,
 * too: its index, from 1. */
static const struct pin {
    const char *flag;
    size_t offset;
    bool is_schedule;
    bool one_by_one;
} PINS[] = {
    {"--dp", offsetof(struct degrees, dp)},
    {"--tp", offsetof(struct degrees, tp)},
    {"--pp", offsetof(struct degrees, pp)},
    {"--cp", offsetof(struct degrees, cp), .one_by_one = true},
    {"--ep", offsetof(struct degrees, ep)},
    {"--etp", offsetof(struct degrees, etp)},
    {"--encoder-tp", offsetof(struct degrees, encoder_tp)},
    {"--encoder-dp", offsetof(struct degrees, encoder_dp), .one_by_one = true},
    {"--encoder-pp", offsetof(struct degrees, encoder_pp)},
    {"--virtual", offsetof(struct degrees, pieces)},
    {"--segments", offsetof(struct degrees, segments)},
    {"--microbatch", offsetof(struct degrees, micro_batch)},
    {"--schedule", offsetof(struct degrees, schedule), .is_schedule = true},
};
/* If there are many values, only those next to the requested one are shown, up to this many on
 * either side. */
enum { MOST_BESIDE = 4 };
enum { MOST_TRIED = 64 };

struct values {
    int64_t *data;
    size_t len, cap;
};

/* The pinned value; 0: it is open. */
static int64_t pin_value(const struct pin *pin, const struct degrees *d)
{
    int64_t value = 0;
    if (!pin->is_schedule) {
        memcpy(&value, (const char *)d + pin->offset, sizeof value);
        return value;
    }
    const struct schedule *all;
    size_t count = schedule_all(&all);
    for (size_t i = 0; d->schedule && i < count; i++)
        if (strcmp(all[i].name, d->schedule) == 0)
            value = (int64_t)i + 1;
    return value;
}

static void pin_open(const struct pin *pin, struct degrees *d)
{
    if (pin->is_schedule)
        d->schedule = NULL;
    else
        memset((char *)d + pin->offset, 0, sizeof(int64_t));
}

static const char *value_text(struct arena *keep, const struct pin *pin, int64_t value)
{
    const struct schedule *all;
    if (!pin->is_schedule)
        return arena_printf(keep, "%lld", (long long)value);
    schedule_all(&all);
    return all[value - 1].name;
}

/* ---- (1) ------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void note_value(struct arena *keep, struct values *values, int64_t value)
{
    for (size_t i = 0; i < values->len; i++)
        if (values->data[i] == value)
            return;
    array_push(keep, values, value);
}

/* The values that a request's grid has for a pin, in order. With NULL as the pin: not empty if
 * there is any point. */
static weft_status grid_values(struct arena *keep, const struct plan_request *request,
                               const struct pin *pin, struct values *out)
{
    struct grid_space *space = NULL;
    struct cost *cost = NULL;
    weft_status status;
    *out = (struct values){0};
    TRY(cost_open_all(request->cluster, request->profile, &cost));
    TRY(grid_space_new(request, cost, &space));
    for (size_t i = 0; i < space->points.len; i++) {
        struct degrees d = grid_degrees(space, &space->points.data[i]);
        int64_t value = pin ? pin_value(pin, &d) : 0;
        if (!pin || value) /* 0 of etp and the like: what follows from tp */
            note_value(keep, out, value);
    }
    if (out->len)
        qsort(out->data, out->len, sizeof *out->data, by_value);
done:
    grid_space_free(space);
    cost_close(cost);
    return status;
}

/* Finds (1); the pin must be open. */
static weft_status find_possible(struct arena *keep, const struct plan_request *request,
                                 const struct pin *pin, struct values *out)
{
    struct plan_request other = *request;
    struct values found;
    weft_status status = WEFT_OK;
    *out = (struct values){0};
    if (!pin->one_by_one)
        return grid_values(keep, request, pin, out);
    int64_t devices = cluster_devices(request->cluster);
    for (int64_t value = 1; value <= devices && value <= MOST_TRIED; value++) {
        if (devices % value)
            continue;
        memcpy((char *)&other.pins + pin->offset, &value, sizeof value);
        TRY(grid_values(keep, &other, NULL, &found));
        if (found.len)
            array_push(keep, out, value);
    }
done:
    return status;
}

/* ---- words ----------------------------------------------------------------------------------- */

/* "1, 2 or 4" */
static const char *list_values(struct arena *keep, const struct pin *pin,
                               const struct values *values, int64_t asked)
{
    const char *text = "";
    size_t first = 0, end = values->len, below = 0;
    while (below < values->len && values->data[below] < asked)
        below++;
    if (values->len > 2 * MOST_BESIDE) {
        first = below > MOST_BESIDE ? below - MOST_BESIDE : 0;
        end = below + MOST_BESIDE < values->len ? below + MOST_BESIDE : values->len;
    }
    for (size_t i = first; i < end; i++)
        text = arena_printf(keep, "%s%s%s", text,
                            i == first     ? ""
                            : i + 1 == end ? " or "
                                           : ", ",
                            value_text(keep, pin, values->data[i]));
    return text;
}

/* `alone`: every one of these pins is wrong, not just one of them. */
static const char *add_choice(struct arena *keep, const char *text, const struct pin *pin,
                              bool alone, const char *values)
{
    const char *between = !*text ? "" : alone ? ", and " : ", or ";
    return arena_printf(keep, "%s%s%s %s be %s", text, between, pin->flag, alone ? "can" : "could",
                        values);
}

static const char *list_pins(struct arena *keep, const struct degrees *pins)
{
    const char *text = "";
    for (size_t i = 0; i < COUNT_OF(PINS); i++) {
        int64_t value = pin_value(&PINS[i], pins);
        if (value)
            text = arena_printf(keep, "%s%s%s %s", text, *text ? " " : "", PINS[i].flag,
                                value_text(keep, &PINS[i], value));
    }
    return text;
}

/* ---- what would do --------------------------------------------------------------------------- */

static struct degrees only(const struct degrees *pins, const struct pin *pin)
{
    struct degrees d = *pins;
    for (size_t i = 0; i < COUNT_OF(PINS); i++)
        if (&PINS[i] != pin)
            pin_open(&PINS[i], &d);
    return d;
}

/* Lists (1) for every pin; with `alone`, by I2. "": no value would work. */
static weft_status find_choices(struct arena *keep, const struct plan_request *request, bool alone,
                                const char **out)
{
    weft_status status = WEFT_OK;
    *out = "";
    for (size_t i = 0; i < COUNT_OF(PINS); i++) {
        struct plan_request other = *request;
        struct values values;
        int64_t asked = pin_value(&PINS[i], &request->pins);
        if (!asked)
            continue;
        if (alone) {
            other.pins = only(&request->pins, &PINS[i]);
            TRY(grid_values(keep, &other, &PINS[i], &values));
            if (values.len)
                continue; /* this pin is not wrong */
        }
        pin_open(&PINS[i], &other.pins);
        TRY(find_possible(keep, &other, &PINS[i], &values));
        if (values.len)
            *out = add_choice(keep, *out, &PINS[i], alone,
                              list_values(keep, &PINS[i], &values, asked));
    }
done:
    return status;
}

/* If the batch is no multiple of the pins, they could stay with the next batch that is one. */
static weft_status add_batch(struct arena *keep, const struct plan_request *request,
                             const char **hint)
{
    struct plan_request other = *request;
    struct degrees *d = &other.pins;
    struct values values;
    weft_status status = WEFT_OK;
    int64_t step = (d->dp ? d->dp : 1) * (d->micro_batch ? d->micro_batch : 1);
    if (d->global_batch % step == 0)
        return WEFT_OK;
    d->global_batch = ceil_div(d->global_batch, step) * step;
    TRY(grid_values(keep, &other, NULL, &values));
    if (values.len)
        *hint = arena_printf(keep, "%s%s--global-batch could be %lld", *hint, **hint ? ", or " : "",
                             (long long)d->global_batch);
done:
    return status;
}

static weft_status nothing_left(const struct plan_request *request, const char *hint,
                                const char *what)
{
    weft_status status = no_answer(NULL, "no plan of %s on the %s of %s %s", request->model->name,
                                   counted(cluster_devices(request->cluster), "device").s,
                                   request->cluster->name, what);
    error_hint("%s", hint);
    return status;
}

static weft_status refuse(struct arena *scratch, const struct plan_request *request)
{
    struct plan_request other = *request;
    struct values values;
    const char *pins = list_pins(scratch, &request->pins), *hint;
    weft_status status;
    TRY(grid_values(scratch, request, NULL, &values));
    if (values.len || plan_stopped(request)) /* I1 */
        return WEFT_OK;
    other.forbids = (struct forbids){0};
    TRY(grid_values(scratch, &other, NULL, &values));
    if (values.len)
        return nothing_left(request, "forbid less", "avoids everything that --forbid names");
    if (!*pins)
        return WEFT_OK;
    TRY(find_choices(scratch, request, false, &hint));
    TRY(add_batch(scratch, request, &hint));
    if (!*hint)
        TRY(find_choices(scratch, request, true, &hint)); /* I2 */
    TRY(nothing_left(request, *hint ? hint : "leave some of them out",
                     arena_printf(scratch, "has %s", pins)));
done:
    return status;
}

weft_status pins_refuse(const struct plan_request *request)
{
    struct arena *scratch = arena_new();
    struct plan_request asked = *request;
    int64_t samples = asked.pins.micro_batch ? asked.pins.micro_batch : 1;
    error_clear();
    /* The batch is explored: take one that every degree divides. */
    if (!asked.pins.global_batch)
        asked.pins.global_batch = samples * cluster_devices(request->cluster);
    weft_status status = refuse(scratch, &asked);
    arena_free(scratch);
    return status;
}

weft_status pins_check(const struct plan_request *request)
{
    const struct degrees *pins = &request->pins;
    const struct schedule *all;
    size_t count = schedule_all(&all);
    if (pins->schedule && !schedule_find(pins->schedule))
        return unknown_name("schedule", pins->schedule, all, sizeof *all, count);
    if (pins->defer_head && request->orders)
        return deferral_check(0, "any", false);
    weft_status status = pins->defer_head ? deferral_check(pins->pp, pins->schedule,
                                                           pins->has_shard && pins->shard >= 2)
                                          : WEFT_OK;
    return status ? status : degrees_suit(pins, request->model);
}

const struct target *pins_target(const struct plan_request *request)
{
    return request->target ? request->target : target_with(&request->pins.software);
}
