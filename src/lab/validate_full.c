/* validate_full.c - runs that are predicted not to fit in memory, though they ran: what would have to be true.
 *
 * Each is planned again with one thing more that saves memory and that its source does not say (SAVINGS). One that fits so
 * may have run so; where none does, something is missing in the prediction itself.
 *
 *   I1  What was measured has no part in it, and the row itself stays as it was predicted.
 */
#include <stdio.h>

#include "lab/validate.h"

static void recompute_all(struct degrees *degrees)
{
    degrees->recompute = RECOMPUTE_FULL;
    degrees->has_recompute = true;
    degrees->recompute_layers = 0;
    degrees->modules = 0;
}

static void shard_weights(struct degrees *degrees)
{
    degrees->shard = 3;
    degrees->has_shard = true;
}

static void state_on_host(struct degrees *degrees)
{
    degrees->optimizer_offload = 1;
}

static const struct {
    const char *words;
    void (*apply)(struct degrees *degrees);
} SAVINGS[] = {
    {"full recomputation", recompute_all},
    {"sharded weights", shard_weights},
    {"the optimizer's state in host memory", state_on_host},
};

/* Whether the run would fit with one of SAVINGS. */
static weft_status fits_with(struct arena *keep, const struct published *row, size_t saving,
                             bool *fits)
{
    struct published other = *row;
    other.done = false;
    other.reason = NULL;
    other.plan_file = NULL;
    SAVINGS[saving].apply(&other.degrees);
    weft_status status = published_predict(keep, &other);
    *fits = !status && other.done && other.predicted.memory_fit == FITS_RESERVED;
    return status;
}

static weft_status look_into(struct arena *keep, struct published *row, struct full_run *out)
{
    struct opened_plan opened;
    weft_status status = published_plan(keep, row, &opened);
    *out = (struct full_run){.row = row};
    if (status)
        return status;
    out->limit_bytes = (double)opened.cluster->node.device.memory_bytes;
    plan_close(&opened);
    for (size_t i = 0; i < COUNT_OF(SAVINGS) && !status; i++) {
        bool fits = false;
        status = fits_with(keep, row, i, &fits);
        if (fits)
            out->fits_with = out->fits_with
                                 ? arena_printf(keep, "%s, or %s", out->fits_with, SAVINGS[i].words)
                                 : SAVINGS[i].words;
    }
    return status;
}

weft_status full_runs_make(const struct validation *v, struct full_runs *out)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < v->rows.len && !status; i++) {
        struct full_run run;
        if (!row_full(&v->rows.data[i]))
            continue;
        status = look_into(v->arena, &v->rows.data[i], &run);
        if (!status)
            array_push(v->arena, out, run);
    }
    return status;
}

void full_runs_print(const struct validation *v)
{
    if (v->full.len)
        puts("\nran, but predicted not to fit");
    for (size_t i = 0; i < v->full.len; i++) {
        const struct full_run *run = &v->full.data[i];
        const char *text = arena_printf(
            v->arena, "%s: %s of %s; would fit with %s", run->row->name,
            show_bytes(run->row->predicted.reserved_bytes).s, show_bytes(run->limit_bytes).s,
            run->fits_with ? run->fits_with : "nothing that its source may have left out");
        print_wrapped(v->arena, "  ", text, stdout);
    }
}

json_t *full_runs_json(const struct validation *v, const struct dataset *dataset)
{
    json_t *list = json_array();
    for (size_t i = 0; i < v->full.len; i++) {
        const struct full_run *run = &v->full.data[i];
        if (run->row->dataset == dataset)
            json_array_append_new(
                list, json_pack("{s:o, s:f, s:f, s:o}", "case", json_text(run->row->name),
                                "reserved_bytes", run->row->predicted.reserved_bytes, "limit_bytes",
                                run->limit_bytes, "fits_with",
                                run->fits_with ? json_text(run->fits_with) : json_null()));
    }
    return list;
}
