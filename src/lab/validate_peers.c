/* validate_peers.c - what other programs predict for the same published runs (data/validation/peers.csv).
 *
 *   error = predicted / measured - 1                                                          (1)
 *
 *   I1  Only runs that both have predicted, and whose time was measured, are compared.
 *   I2  A prediction names its run by dataset and line, and repeats the measured time: where they differ, the file is of
 *       other rows, and that is an error.
 */
#include "lab/validate.h"
#include "lab/published_read.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum column { DATASET, LINE, MEASURED, PEER, PREDICTED, COLUMNS };
static const char *const COLUMN_NAMES[] = {"dataset", "line", "measured_s", "peer", "predicted_s"};
_Static_assert(COUNT_OF(COLUMN_NAMES) == COLUMNS, "a column without a name");

static const double SAME_TIME = 1e-9; /* shares by which two spellings of one time may differ */

static const struct published *row_at(const struct published_rows *rows, const char *dataset,
                                      int64_t line)
{
    for (size_t i = 0; i < rows->len; i++)
        if (rows->data[i].line == line && strcmp(rows->data[i].dataset->name, dataset) == 0)
            return &rows->data[i];
    return NULL;
}

struct peer_reading {
    struct arena *keep;
    const struct published_rows *rows;
    struct peer_predictions *out;
};

static weft_status take_prediction(void *context, const struct csv *csv, const int *at)
{
    struct peer_reading *reading = context;
    int64_t line;
    double measured_s, predicted_s;
    weft_status status;
    TRY(csv_int(csv, at[LINE], 1, &line));
    TRY(csv_real(csv, at[MEASURED], REAL_POSITIVE, &measured_s));
    TRY(csv_real(csv, at[PREDICTED], REAL_POSITIVE, &predicted_s));
    const struct published *row = row_at(reading->rows, csv->field[at[DATASET]], line);
    if (!row || !(row->measured.time_s > 0))
        goto done;
    if (fabs(row->measured.time_s / measured_s - 1) > SAME_TIME) /* I2 */
        return csv_error(csv, at[MEASURED],
                         "tools/peer-predictions.py writes the file for the rows of today",
                         "the measured time of that line of the dataset");
    struct peer_prediction one = {row, arena_copy_text(reading->keep, csv->field[at[PEER]]),
                                  predicted_s};
    array_push(reading->keep, reading->out, one);
done:
    return status;
}

weft_status peers_parse(struct arena *keep, const char *file, char *text, size_t len,
                        const struct published_rows *rows, struct peer_predictions *out)
{
    struct csv csv;
    struct peer_reading reading = {keep, rows, out};
    weft_status status = csv_open(&csv, file, text, len);
    return status ? status : csv_read(&csv, COLUMN_NAMES, COLUMNS, take_prediction, &reading);
}

weft_status peers_read(struct arena *keep, const struct published_rows *rows,
                       struct peer_predictions *out)
{
    char *path, *text;
    size_t len;
    weft_status status;
    TRY(published_file(keep, "peers", &path, &text, &len));
    TRY(peers_parse(keep, path, text, len, rows, out));
done:
    return status;
}

static void add_prediction(struct arena *keep, const struct peer_prediction *one,
                           struct peer_errors *out)
{
    size_t at = 0;
    double weft;
    if (!published_error(one->row, MEASURE_TIME, &weft)) /* I1 */
        return;
    while (at < out->len && (out->data[at].dataset != one->row->dataset ||
                             strcmp(out->data[at].peer, one->peer) != 0))
        at++;
    if (at == out->len)
        array_push(keep, out, ((struct peer_error){one->row->dataset, one->peer, 0, 0, 0}));
    struct peer_error *sum = &out->data[at];
    sum->rows++;
    sum->weft += fabs(weft);
    sum->theirs += fabs(one->time_s / one->row->measured.time_s - 1); /* (1) */
}

void peers_errors(struct arena *keep, const struct peer_predictions *peers, struct peer_errors *out)
{
    for (size_t i = 0; i < peers->len; i++)
        add_prediction(keep, &peers->data[i], out);
    for (size_t i = 0; i < out->len; i++) {
        out->data[i].weft /= (double)out->data[i].rows;
        out->data[i].theirs /= (double)out->data[i].rows;
    }
}

void peers_print(const struct validation *v)
{
    static const char *const HEADERS[] = {"peers on the same rows", "peer", "rows", "Weft's mean",
                                          "the peer's"};
    static const enum align ALIGNS[] = {ALIGN_LEFT, ALIGN_LEFT, ALIGN_RIGHT, ALIGN_RIGHT,
                                        ALIGN_RIGHT};
    struct peer_errors errors = {0};
    peers_errors(v->arena, &v->peers, &errors);
    if (!errors.len)
        return;
    struct table *table = table_new(v->arena, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    for (size_t i = 0; i < errors.len; i++) {
        const struct peer_error *e = &errors.data[i];
        table_cell(table, "%s", e->dataset->name);
        table_cell(table, "%s", e->peer);
        table_cell(table, "%lld", (long long)e->rows);
        table_cell(table, "%.1f", e->weft * 100);
        table_cell(table, "%.1f", e->theirs * 100);
    }
    putchar('\n');
    table_print(table, stdout);
    puts("\nMeans of absolute errors of time in %, over the rows that the peer can express.");
}

json_t *peers_json(const struct validation *v, const struct dataset *dataset)
{
    struct peer_errors errors = {0};
    json_t *list = json_array();
    peers_errors(v->arena, &v->peers, &errors);
    for (size_t i = 0; i < errors.len; i++) {
        const struct peer_error *e = &errors.data[i];
        if (e->dataset == dataset)
            json_array_append_new(list,
                                  json_pack("{s:o, s:I, s:f, s:f}", "peer", json_text(e->peer),
                                            "rows", (json_int_t)e->rows, "mean_error", e->weft,
                                            "peer_mean_error", e->theirs));
    }
    return list;
}
