/* test_rows.c - what every row of every published table is read as, and its plan, held to data/lab/rows.txt.
 *
 * A line of the file names a table and a line of it, and has a hash of all that was read there: the model with its options,
 * the machine, the degrees, what was measured, what is assumed, why a row is refused, and of
 * one that is not the plan's file. The file does not say that a row is read rightly; other tests do.
 * It says that every row is read as it was.
 *
 * After an intended change `WEFT_RECORD=1 build/tests/test_rows` writes the file anew. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "known_sources.h"
#include "lab/published_read.h"
#include "lab/published_searches.h"
#include "lab/validate.h"

static const char FILE_NAME[] = WEFT_SOURCE_DIR "/tests/data/lab/rows.txt";

struct lines {
    FILE *file;
    char *text;
    size_t len;
};

static const char *or_none(const char *text)
{
    return text ? text : "-";
}

/* FNV-1a; what a text says is printed where its line is not on file. */
static void add_line(struct lines *lines, const char *table, int line, const char *read)
{
    uint64_t hash = 14695981039346656037U;
    for (const char *at = read; *at; at++)
        hash = (hash ^ (unsigned char)*at) * 1099511628211U;
    fprintf(lines->file, "%s:%d %08x %s\n", table, line, (unsigned)(hash >> 32), read);
}

static const char *outcome_text(const struct run_outcome *o)
{
    const char *text =
        arena_printf(arena, "%.9g s %.9g B %.9g B", o->time_s, o->memory_bytes, o->reserved_bytes);
    for (int i = 0; i < PORTION_COUNT; i++)
        text = arena_printf(arena, "%s %.9g", text, o->portion_s[i]);
    return arena_printf(arena, "%s %d", text, o->fits);
}

static const char *degrees_read(const struct degrees *d)
{
    const char *sizes = arena_printf(
        arena, "%lld %lld %lld %lld %lld %lld %lld | %lld %lld %lld | %d %d %d %d %d %d",
        (long long)d->dp, (long long)d->tp, (long long)d->pp, (long long)d->cp, (long long)d->ep,
        (long long)d->etp, (long long)d->pieces, (long long)d->micro_batch,
        (long long)d->global_batch, (long long)d->bucket_bytes, d->sequence, d->shard,
        (int)d->recompute, (int)d->modules, (int)d->overlap, d->offload);
    return arena_printf(arena, "%s %s %s %s %d %d %d %lld %g", sizes, or_none(d->schedule),
                        or_none(d->layout), or_none(d->order), d->has_dtype ? (int)d->dtype : -1,
                        d->has_policy ? (int)d->policy : -1, (int)d->optimizer,
                        (long long)d->memory.limit_bytes, d->optimizer_offload);
}

static const char *published_text(const struct published *row)
{
    const char *ran =
        arena_printf(arena, "%s %s %s | %s", or_none(row->model), or_none(row->options),
                     or_none(row->cluster), degrees_read(&row->degrees));
    return arena_printf(arena, "%s, %s, %s, %s, %s | %lld | %s | %u %d %d %d | %s | %s", row->name,
                        or_none(row->group), or_none(row->system), half_name(row->half),
                        outcome_text(&row->measured), (long long)row->rank, ran, row->open,
                        row->keeps_products, (int)row->memory_place, row->memory_reserved,
                        or_none(row->assumes), or_none(row->reason));
}

/* In one line. */
static const char *planned_text(struct published *row)
{
    struct opened_plan opened;
    if (row->reason)
        return "";
    assert_int_equal(published_plan(arena, row, &opened), WEFT_OK);
    if (!opened.plan)
        return row->reason;
    char *text = arena_copy_text(arena, plan_write(arena, opened.plan));
    for (char *at = text; (at = strchr(at, '\n')) != NULL;)
        *at = ' ';
    plan_close(&opened);
    return text;
}

static void add_runs(struct lines *lines)
{
    const struct dataset *dataset;
    struct published_rows rows = {0};
    struct peer_predictions peers = {0};
    size_t count = sources_datasets(known_sources(), &dataset);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(published_read(arena, &dataset[i], &rows), WEFT_OK);
    for (size_t i = 0; i < rows.len; i++) {
        struct published *row = &rows.data[i];
        const char *read = published_text(row), *plan = planned_text(row);
        add_line(lines, row->dataset->name, row->line, arena_printf(arena, "%s | %s", read, plan));
    }
    assert_int_equal(peers_read(arena, &rows, &peers), WEFT_OK);
    for (size_t i = 0; i < peers.len; i++) {
        const struct peer_prediction *peer = &peers.data[i];
        add_line(lines, arena_printf(arena, "peers of %s", peer->row->dataset->name),
                 peer->row->line, arena_printf(arena, "%s %.9g s", peer->peer, peer->time_s));
    }
}

static void add_cells(struct lines *lines, const struct search_table *table)
{
    struct search_cells cells = {0};
    assert_int_equal(search_cells_read(arena, table, &cells), WEFT_OK);
    for (size_t i = 0; i < cells.len; i++) {
        const struct search_cell *cell = &cells.data[i];
        add_line(lines, table->name, cell->line,
                 arena_printf(arena, "%s %s %lld %lld | %d %lld %.9g | %s", cell->strategy,
                              cell->model, (long long)cell->devices, (long long)cell->limit_bytes,
                              cell->measured.fits, (long long)cell->measured.batch,
                              cell->measured.samples_per_s, or_none(cell->reason)));
    }
}

static void add_contests(struct lines *lines, const struct search_table *table)
{
    struct contests contests = {0};
    assert_int_equal(contests_read(arena, table, &contests), WEFT_OK);
    for (size_t i = 0; i < contests.len; i++) {
        const struct contest *contest = &contests.data[i];
        const char *text = arena_printf(arena, "%s %s %lld", contest->family, contest->model,
                                        (long long)contest->devices);
        for (int rival = 0; rival < RIVAL_COUNT; rival++)
            text = arena_printf(arena, "%s %.9g", text, contest->measured[rival]);
        add_line(lines, table->name, (int)i, text);
    }
}

static void add_searches(struct lines *lines)
{
    const struct search_table *table;
    size_t count = sources_searches(known_sources(), &table);
    for (size_t i = 0; i < count; i++) {
        if (table[i].form == SEARCH_CELLS || table[i].form == SEARCH_PLANNED)
            add_cells(lines, &table[i]);
        if (table[i].form == SEARCH_CONTEST)
            add_contests(lines, &table[i]);
    }
}

static char *all_lines(void)
{
    struct lines lines = {0};
    lines.file = open_memstream(&lines.text, &lines.len);
    add_runs(&lines);
    add_searches(&lines);
    fclose(lines.file);
    return lines.text;
}

/* Up to the text: what the file has. */
static int head_of(const char *line)
{
    const char *place = strstr(line, ":");
    return (int)(strchr(strchr(place, ' ') + 1, ' ') - line);
}

static void record(const char *now)
{
    FILE *file = fopen(FILE_NAME, "w");
    assert_non_null(file);
    for (const char *line = now; *line; line += strcspn(line, "\n") + 1)
        fprintf(file, "%.*s\n", head_of(line), line);
    assert_int_equal(fclose(file), 0);
}

static void rows_are_read_as_they_were(void **state)
{
    (void)state;
    char *now = all_lines(), *golden;
    size_t len;
    int changed = 0;
    if (getenv("WEFT_RECORD"))
        record(now);
    assert_int_equal(file_read(arena, FILE_NAME, 1 << 22, &golden, &len), WEFT_OK);
    const char *kept = golden;
    for (const char *line = now; *line; line += strcspn(line, "\n") + 1) {
        int head = head_of(line);
        bool same = (int)strcspn(kept, "\n") == head && strncmp(kept, line, (size_t)head) == 0;
        if (!same && changed++ < 10)
            printf("%.*s\n  was %.*s\n", (int)strcspn(line, "\n"), line, (int)strcspn(kept, "\n"),
                   kept);
        kept += strcspn(kept, "\n");
        kept += *kept == '\n';
    }
    assert_int_equal(changed, 0);
    assert_int_equal(*kept, '\0');
    free(now);
}

/* A cell is refused for what is not known, whichever strategy it is of. */
static void unknown_cells_say_what_is_unknown(void **state)
{
    (void)state;
    struct search_cells cells = {0};
    const struct search_table *table = search_table_find(known_sources(), "galvatron_table2");
    assert_int_equal(search_cells_read(arena, table, &cells), WEFT_OK);
    for (size_t i = 0; i < cells.len; i++) {
        struct search_cell model = cells.data[i], devices = model, strategy = model;
        model.model = "some other model";
        devices.devices = 7;
        strategy.strategy = "some other strategy";
        assert_int_equal(search_cell_predict(arena, NULL, &model), WEFT_OK);
        assert_string_equal(model.reason, "no layers of this model were measured");
        assert_int_equal(search_cell_predict(arena, NULL, &devices), WEFT_OK);
        assert_string_equal(devices.reason, "no machine of so many devices was measured");
        assert_int_equal(search_cell_predict(arena, NULL, &strategy), WEFT_OK);
        assert_string_equal(strategy.reason, "a strategy that Weft does not know");
    }
}

/* aceso_contest.h, I2: on one device there is nothing to search, and all rivals have the plan that ran. */
static void contests_on_one_device_have_one_plan(void **state)
{
    (void)state;
    struct contests contests = {0};
    const struct search_table *table = search_table_find(known_sources(), "aceso_tflops");
    struct contest *alone = NULL;
    assert_int_equal(contests_read(arena, table, &contests), WEFT_OK);
    for (size_t i = 0; i < contests.len && !alone; i++)
        alone = contests.data[i].devices == 1 ? &contests.data[i] : NULL;
    assert_non_null(alone);
    assert_int_equal(contest_predict(arena, alone), WEFT_OK);
    assert_int_equal(alone->stages, 0);
    for (int rival = 0; rival < RIVAL_COUNT; rival++) {
        assert_ptr_equal(alone->plan[rival], alone->plan[RIVAL_RUN]);
        assert_true(alone->predicted[rival] == alone->predicted[RIVAL_RUN]);
    }
}

static void errors_by_hand(void **state)
{
    (void)state;
    double four[] = {8, 1, 3, 2}, three[] = {9, 0, 3};
    struct errors even = errors_of(four, 4), odd = errors_of(three, 3);
    assert_true(even.rows == 4 && even.mean == 3.5 && even.median == 2.5 && even.worst == 8);
    assert_true(odd.rows == 3 && odd.mean == 4 && odd.median == 3 && odd.worst == 9);
    assert_int_equal(errors_of(NULL, 0).rows, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(errors_by_hand),
                                       cmocka_unit_test(rows_are_read_as_they_were),
                                       cmocka_unit_test(unknown_cells_say_what_is_unknown),
                                       cmocka_unit_test(contests_on_one_device_have_one_plan)};
    return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
