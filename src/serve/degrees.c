/* degrees.c - which values of its degrees a question can have, and what they would take.
 *
 *   I1  A value that is impossible stays in the answer, with the reason that the library gives.
 *   I2  dp follows from the other degrees, whatever the question says of it: the devices are all used.
 *   I3  Times and memory are estimates, not simulations: a few hundred cells take less than a second.
 */
#include <string.h>

#include "serve/room.h"

enum { MOST_VALUES = 40 };

/* ---- values ---------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    size_t offset; /* in struct degrees */
    bool divides_devices;
} DEGREES[] = {
    {"tp", offsetof(struct degrees, tp), true},
    {"pp", offsetof(struct degrees, pp), true},
    {"cp", offsetof(struct degrees, cp), true},
    {"ep", offsetof(struct degrees, ep), true},
    {"virtual", offsetof(struct degrees, pieces), false},
    {"micro", offsetof(struct degrees, micro_batch), false},
};

static void set_degree(struct degrees *degrees, size_t d, int64_t value)
{
    memcpy((char *)degrees + DEGREES[d].offset, &value, sizeof value);
}

/* Whether the plan with these degrees exists; else the error says why. */
static weft_status try_plan_of(const struct asked_plan *question, const struct degrees *degrees,
                               struct plan **out)
{
    weft_status status =
        plan_from_degrees(question->opened.model, question->opened.cluster, degrees, out);
    return status ? status : plan_check(*out);
}

static weft_status add_value(const struct asked_plan *question, size_t d, int64_t value,
                             json_t *list)
{
    struct degrees degrees = question->degrees;
    struct plan *plan = NULL;
    set_degree(&degrees, d, value);
    degrees.dp = 0; /* I2 */
    weft_status status = try_plan_of(question, &degrees, &plan);
    plan_free(plan);
    if (status == WEFT_FAILURE)
        return status;
    json_t *why = status ? json_text(weft_last_error()->message) : json_null();
    json_array_append_new(list, json_pack("{s:I, s:o}", "value", (json_int_t)value, "why", why));
    error_clear();
    return WEFT_OK;
}

/* The next value to look at: a divisor of the devices, or of the samples, or simply the next number. */
static int64_t value_after(const struct asked_plan *question, size_t d, int64_t value)
{
    int64_t devices = cluster_devices(question->opened.cluster);
    if (DEGREES[d].divides_devices)
        return value < devices ? divisor_above(devices, value) : 0;
    return value < 16 ? value + 1 : value * 2;
}

static weft_status values_of(const struct api_request *request, const struct asked_plan *question,
                             size_t d, json_t *list)
{
    int64_t most = DEGREES[d].divides_devices ? INT32_MAX : 128, value = 1;
    weft_status status = WEFT_OK;
    for (int i = 0; i < MOST_VALUES && value && value <= most && !status; i++) {
        status = stop_now(&request->stop) ? stop_status() : add_value(question, d, value, list);
        value = value_after(question, d, value);
    }
    return status;
}

static weft_status must_have_degrees(const struct asked_plan *question)
{
    return question->written_out ? bad_argument("leave out stages, tree and choices",
                                                "a plan that is written out has no degrees to move")
                                 : WEFT_OK;
}

static json_t *about(const struct asked_plan *question)
{
    const struct model *model = question->opened.model;
    const struct cluster *cluster = question->opened.cluster;
    return json_pack(
        "{s:o, s:I, s:o, s:I, s:I, s:s}", "model", json_text(model->name), "layers",
        (json_int_t)model->layers, "parameters",
        json_whole(model_totals(model, model->dtype).parameters), "seq", (json_int_t)model->seq,
        "devices", (json_int_t)cluster_devices(cluster), "dtype",
        dtype_name(question->degrees.has_dtype ? question->degrees.dtype : model->dtype));
}

weft_status answer_values(const struct api_request *request, json_t **out)
{
    struct asked_plan question = {0};
    json_t *degrees = json_object();
    weft_status status;
    TRY(question_open(request->scratch, request->body, &question));
    TRY(must_have_degrees(&question));
    for (size_t d = 0; d < COUNT_OF(DEGREES); d++) {
        json_t *list = json_array();
        json_object_set_new(degrees, DEGREES[d].name, list);
        TRY(values_of(request, &question, d, list));
    }
    *out = about(&question);
    json_object_set(*out, "degrees", degrees);
done:
    json_decref(degrees);
    question_close(&question);
    return status;
}

/* ---- the grid -------------------------------------------------------------------------------- */

struct tp_pp_grid {
    const struct api_request *request;
    const struct asked_plan *question;
    struct estimator *estimator; /* NULL until a cell has a plan */
    int64_t tp[MOST_VALUES], pp[MOST_VALUES];
    size_t tps, pps;
    json_t *cells;
};

static json_t *cell_json(int64_t tp, int64_t pp)
{
    return json_pack("{s:I, s:I}", "tp", (json_int_t)tp, "pp", (json_int_t)pp);
}

static weft_status estimate_cell(struct tp_pp_grid *grid, const struct plan *plan, json_t *cell)
{
    struct estimate estimate;
    weft_status status = WEFT_OK;
    if (!grid->estimator) {
        struct estimate_settings settings = estimate_settings_of(plan);
        TRY(estimator_new(&settings, &grid->estimator));
    }
    TRY(estimate_plan(grid->estimator, plan, grid->request->scratch, &estimate));
    json_object_set_new(cell, "iteration_s", json_real((double)estimate.iteration_ns / 1e9));
    json_object_set_new(cell, "peak_bytes", json_integer(estimate.peak_bytes));
    json_object_set_new(cell, "limit_bytes", json_integer(estimate.limit_bytes));
    json_object_set_new(cell, "fits", json_boolean(estimate.fits));
done:
    return status;
}

static weft_status add_cell(struct tp_pp_grid *grid, int64_t tp, int64_t pp)
{
    struct degrees degrees = grid->question->degrees;
    struct plan *plan = NULL;
    json_t *cell = cell_json(tp, pp);
    degrees.tp = tp;
    degrees.pp = pp;
    degrees.dp = 0; /* I2 */
    weft_status status = try_plan_of(grid->question, &degrees, &plan);
    if (!status)
        status = estimate_cell(grid, plan, cell);
    if (status)
        json_object_set_new(cell, "why", json_text(weft_last_error()->message)); /* I1 */
    plan_free(plan);
    json_array_append_new(grid->cells, cell);
    error_clear();
    return status == WEFT_FAILURE ? status : WEFT_OK;
}

/* What the body does not list: all divisors of the devices, tp at most 64 as no machine links more as closely. */
static void list_divisors(const struct asked_plan *question, int64_t most, int64_t *out,
                          size_t *count)
{
    int64_t devices = cluster_devices(question->opened.cluster);
    for (int64_t v = 1; !*count || (v <= devices && v <= most && *count < MOST_VALUES / 2);
         v = divisor_above(devices, v))
        out[(*count)++] = v;
}

static weft_status fill_grid(struct tp_pp_grid *grid)
{
    const struct asked_plan *question = grid->question;
    weft_status status = must_have_degrees(question);
    if (status)
        return status;
    if (!grid->tps)
        list_divisors(question, 64, grid->tp, &grid->tps);
    if (!grid->pps)
        list_divisors(question, question->opened.model->layers + 1, grid->pp, &grid->pps);
    for (size_t i = 0; i < grid->tps * grid->pps && !status; i++)
        status = stop_now(&grid->request->stop)
                     ? stop_status()
                     : add_cell(grid, grid->tp[i % grid->tps], grid->pp[i / grid->tps]);
    return status;
}

weft_status answer_grid(const struct api_request *request, json_t **out)
{
    struct asked_plan question = {0};
    struct tp_pp_grid grid = {.request = request, .question = &question, .cells = json_array()};
    weft_status status;
    _Static_assert(MOST_VALUES / 2 * (MOST_VALUES / 2) <= MOST_CELLS, "a grid of too many cells");
    TRY(body_numbers(request->body, "tp", MOST_VALUES / 2, grid.tp, &grid.tps));
    TRY(body_numbers(request->body, "pp", MOST_VALUES / 2, grid.pp, &grid.pps));
    TRY(question_open(request->scratch, request->body, &question));
    TRY(fill_grid(&grid));
    *out = about(&question);
    json_object_set(*out, "cells", grid.cells);
done:
    json_decref(grid.cells);
    estimator_free(grid.estimator);
    question_close(&question);
    return status;
}
