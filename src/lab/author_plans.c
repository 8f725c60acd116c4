/* author_plans.c - the plans that the public search program of Aceso's authors finds for the models of Table 3,
 * run with the authors' profiles (data/validation/aceso_plans.csv), as plans of Weft.
 *
 * Operators are numbered in Aceso's order (aceso_plan.h).
 *
 *   I1  The rows of a plan are its stages, in order, and together they use all its devices.
 *   I2  All operators of a stage have the same tensor parallelism; the remaining factor is data parallelism.
 */
#include <stdlib.h>
#include <string.h>

#include "exchange/exchange.h"
#include "lab/aceso_contest.h"
#include "lab/published_read.h"

enum { MAX_FILE_BYTES = 1 << 20 };
static const char NAME[] = "aceso_plans.csv";

/* ---- reading --------------------------------------------------------------------------------- */

enum author_column {
    COLUMN_MODEL,
    COLUMN_DEVICES,
    COLUMN_STEP,
    COLUMN_PREDICTED,
    COLUMN_STAGE,
    COLUMN_STAGE_DEVICES,
    COLUMN_TP,
    COLUMN_OPERATORS,
    COLUMN_RECOMPUTED,
    COLUMNS
};
static const char *const COLUMN_NAMES[] = {"model",       "devices",   "step",
                                           "predicted_s", "stage",     "stage_devices",
                                           "tp",          "operators", "recomputed"};
_Static_assert(COUNT_OF(COLUMN_NAMES) == COLUMNS, "a column without a name");

struct author_reading {
    struct arena *keep;
    struct author_plans *out;
};

/* Takes the next range of "5-6 18-19". False if there is none; *text is then at its end, unless it is damaged. */
static bool next_range(const char **text, int64_t *first, int64_t *last)
{
    char *end;
    const char *at = *text + strspn(*text, " ");
    *text = at;
    if (*at < '0' || *at > '9')
        return false;
    *first = *last = strtoll(at, &end, 10);
    if (*end == '-' && end[1] >= '0' && end[1] <= '9')
        *last = strtoll(end + 1, &end, 10);
    if ((*end && *end != ' ') || *last < *first)
        return false;
    *text = end;
    return true;
}

static bool are_ranges(const char *text)
{
    int64_t first, last;
    while (next_range(&text, &first, &last))
        ;
    return !*text;
}

static weft_status take_stage(const struct csv *csv, const int *at, struct author_stage *stage)
{
    weft_status status;
    TRY(csv_int(csv, at[COLUMN_STAGE_DEVICES], 1, &stage->devices));
    TRY(csv_int(csv, at[COLUMN_TP], 1, &stage->tp));
    TRY(csv_int(csv, at[COLUMN_OPERATORS], 1, &stage->operators));
    if (stage->devices % stage->tp)
        return csv_error(csv, at[COLUMN_TP], NULL, "a divisor of the stage's devices");
    if (!are_ranges(stage->recomputed))
        return csv_error(csv, at[COLUMN_RECOMPUTED], NULL, "operators such as 5-6 18-19");
done:
    return status;
}

static bool is_filled(const struct author_plan *plan)
{
    int64_t devices = 0;
    for (size_t s = 0; s < plan->stages.len; s++)
        devices += plan->stages.data[s].devices;
    return devices >= plan->devices; /* I1 */
}

static weft_status take_plan(struct author_reading *reading, const struct csv *csv, const int *at)
{
    struct author_plan plan = {.model =
                                   arena_copy_text(reading->keep, csv->field[at[COLUMN_MODEL]])};
    weft_status status;
    TRY(csv_int(csv, at[COLUMN_DEVICES], 1, &plan.devices));
    TRY(csv_int(csv, at[COLUMN_STEP], 1, &plan.step));
    TRY(csv_real(csv, at[COLUMN_PREDICTED], REAL_POSITIVE, &plan.predicted_s));
    array_push(reading->keep, reading->out, plan);
done:
    return status;
}

static weft_status take_row(void *context, const struct csv *csv, const int *at)
{
    struct author_reading *reading = context;
    struct author_stage stage = {
        .recomputed = arena_copy_text(reading->keep, csv->field[at[COLUMN_RECOMPUTED]])};
    struct author_plans *out = reading->out;
    int64_t number;
    weft_status status;
    if (out->len == 0 || is_filled(&out->data[out->len - 1]))
        TRY(take_plan(reading, csv, at));
    struct author_plan *plan = &out->data[out->len - 1];
    TRY(csv_int(csv, at[COLUMN_STAGE], 0, &number));
    if (number != (int64_t)plan->stages.len || number == AUTHOR_STAGES ||
        strcmp(plan->model, csv->field[at[COLUMN_MODEL]]) != 0)
        return csv_error(csv, at[COLUMN_STAGE], NULL, "stages in order that fill a plan's devices");
    TRY(take_stage(csv, at, &stage));
    array_push(reading->keep, &plan->stages, stage);
done:
    return status;
}

weft_status author_plans_parse(struct arena *keep, const char *file, char *text, size_t len,
                               struct author_plans *out)
{
    struct author_reading reading = {keep, out};
    struct csv csv;
    weft_status status;
    TRY(csv_open(&csv, file, text, len));
    TRY(csv_read(&csv, COLUMN_NAMES, COLUMNS, take_row, &reading));
    if (out->len && !is_filled(&out->data[out->len - 1]))
        status = bad_input(file, csv.line, NULL, "the last plan has stages for too few devices");
done:
    return status;
}

weft_status author_plans_read(struct arena *keep, struct author_plans *out)
{
    char *path, *text;
    size_t len;
    weft_status status;
    TRY(published_path(keep, NAME, &path));
    TRY(file_read(keep, path, MAX_FILE_BYTES, &text, &len));
    TRY(author_plans_parse(keep, path, text, len, out));
done:
    return status;
}

/* ---- as a plan of Weft ----------------------------------------------------------------------- */

static bool is_among(const char *ranges, int64_t operator)
{
    int64_t first, last;
    while (next_range(&ranges, &first, &last))
        if (operator>= first && operator<= last)
            return true;
    return false;
}

weft_status author_plan_make(const struct author_plan *found, const struct plan_request *request,
                             struct plan **out)
{
    struct arena *scratch = arena_new();
    size_t stages = found->stages.len, all = 0, at = 0;
    for (size_t s = 0; s < stages; s++)
        all += (size_t)found->stages.data[s].operators;
    struct aceso_stage *stage = ARENA_ARRAY(scratch, struct aceso_stage, stages);
    struct aceso_operator *op = ARENA_ARRAY(scratch, struct aceso_operator, all);
    for (size_t s = 0; s < stages; s++) {
        const struct author_stage *row = &found->stages.data[s];
        stage[s] = (struct aceso_stage){row->devices, row->operators};
        for (int64_t k = 0; k < row->operators; k++, at++)
            op[at] = (struct aceso_operator){
                .tp = row->tp, .recompute = is_among(row->recomputed, (int64_t)at)}; /* I2 */
    }
    struct aceso_plan plan = {found->step, (int32_t)stages, stage, op};
    weft_status status =
        aceso_plan_make(&plan, request->model, request->cluster, &request->pins, out);
    arena_free(scratch);
    return status;
}

const char *author_plan_text(struct arena *keep, const struct author_plan *found)
{
    const char *text =
        arena_printf(keep, "%lld samples per step; devices/tp", (long long)found->step);
    for (size_t s = 0; s < found->stages.len; s++)
        text = arena_printf(keep, "%s %lld/%lld", text, (long long)found->stages.data[s].devices,
                            (long long)found->stages.data[s].tp);
    return text;
}
