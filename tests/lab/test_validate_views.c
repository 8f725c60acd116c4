/* test_validate_views.c - what `weft validate` prints of results that are made up: published runs, plans found anew, published
 * searches and a contest, as text and as JSON, held to data/lab/views.txt word by word. Nothing is simulated or searched, so that
 * every view is asked, also of what takes minutes to find.
 *
 * After an intended change `WEFT_RECORD=1 build/tests/test_validate_views` writes the file anew. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "known_sources.h"
#include "lab/validate.h"
#include "one_folder.h"

static const char FILE_NAME[] = WEFT_SOURCE_DIR "/tests/data/lab/views.txt";

/* Between 0.7 and 1.3, different for each. */
static double draw(size_t i)
{
    return 0.7 + (double)((i * 37 + 11) % 61) / 100;
}

static void add_runs(struct validation *v, const char *name)
{
    const struct dataset *dataset = dataset_find(v->sources, name);
    assert_non_null(dataset);
    v->dataset[v->datasets++] = dataset;
    assert_int_equal(published_read(v->arena, dataset, &v->rows), WEFT_OK);
}

/* None, a few, or more than a line has room for. */
static const char *made_up_changes(size_t i)
{
    static const char *const CHANGES[] = {
        "", "tp 8→2, zero 0→1",
        "tp 8→2, pp 4→8, virtual 1→3, micro-batch 1→2, zero 0→1, recompute selective→none, sp"};
    return CHANGES[i % 4 == 2 ? 2 : i % 4 > 0];
}

static void make_up_runs(struct validation *v)
{
    for (size_t i = 0; i < v->rows.len; i++) {
        struct published *row = &v->rows.data[i];
        row->done = !row->reason && i % 7 != 3;
        row->predicted = row->measured;
        row->predicted.time_s *= draw(i);
        row->predicted.fits = i % 6 != 5;
        row->like = (struct run_likeness){"Ampere", "bf16", i % 3 ? "dense" : "experts", 8};
    }
    for (size_t i = 0; i < v->rows.len; i++) {
        const struct published *row = &v->rows.data[i];
        struct peer_prediction peer = {row, i % 2 ? "P" : "Q", row->measured.time_s * draw(i + 1)};
        array_push(v->arena, &v->peers, peer);
        struct replanned anew = {.row = row,
                                 .iteration_s = row->predicted.time_s * draw(i + 2),
                                 .peak_bytes = (int64_t)(i + 1) << 30,
                                 .fits = i % 5 != 4,
                                 .text = "dp 16, tp 2",
                                 .found_by = i % 3 ? "galvatron" : "megatron",
                                 .changes = made_up_changes(i),
                                 .search_s = 1};
        if (row->done && row->predicted.time_s > 0)
            array_push(v->arena, &v->replanned, anew);
    }
}

/* Runs of two devices, and what half of one system's runs says of the other: too few, too little, taken, worse. */
static void make_up_refits(struct validation *v)
{
    for (size_t i = 0; i < v->rows.len; i++) {
        struct published *row = &v->rows.data[i];
        struct refit_run run = {.row = row,
                                .device = i % 2 ? "X" : "Y",
                                .arch = "made-up",
                                .parameters = 1e9,
                                .share = 0.6,
                                .error = draw(i) - 1};
        run.slope[PACE_PRODUCTS] = draw(i + 3) / 2;
        run.slope[PACE_HOST] = 1 - run.slope[PACE_PRODUCTS];
        if (row->done && row->predicted.time_s > 0)
            array_push(v->arena, &v->refit, run);
    }
    for (int i = 0; i < 4; i++) {
        struct half_fit half = {.dataset = v->dataset[i % 2],
                                .device = i ? "X" : "Y",
                                .runs = {2 + i, 3 * i},
                                .possible = i > 0,
                                .fit = {.before = 0.2, .apart = 0.1 * i, .helps = i == 2},
                                .before = 0.15,
                                .after = i == 2 ? 0.05 : 0.15};
        array_push(v->arena, &v->half_fits, half);
    }
}

static void add_search(struct validation *v, const char *name)
{
    const struct search_table *table = search_table_find(v->sources, name);
    assert_non_null(table);
    v->searched[v->searches++] = table;
}

static void make_up_cells(struct validation *v)
{
    enum { SOME = 24 };
    add_search(v, "galvatron_table3");
    assert_int_equal(search_cells_read(v->arena, v->searched[v->searches - 1], &v->cells), WEFT_OK);
    v->cells.len = v->cells.len < SOME ? v->cells.len : SOME;
    for (size_t i = 0; i < v->cells.len; i++) {
        struct search_cell *cell = &v->cells.data[i];
        cell->done = i % 11 != 5;
        cell->reason = cell->done ? NULL : "it is left out";
        cell->predicted = cell->measured;
        cell->predicted.fits ^= i % 13 == 0;
        cell->predicted.batch += i % 3 == 0 ? 8 : 0;
        cell->predicted.samples_per_s *= draw(i);
        cell->layout = "2-1-4 x16 | 2-1-4 x16";
    }
}

static void make_up_contests(struct validation *v)
{
    add_search(v, "aceso_tflops");
    assert_int_equal(contests_read(v->arena, v->searched[v->searches - 1], &v->contests), WEFT_OK);
    for (size_t i = 0; i < v->contests.len; i++) {
        struct contest *contest = &v->contests.data[i];
        contest->stages = contest->devices == 1 ? 0 : 1 + (int32_t)(i % 4);
        contest->run_stages = 1 + (int32_t)(i % 2);
        contest->stage = ARENA_ARRAY(v->arena, struct stage_traits, 4);
        for (int s = 0; s < 4; s++)
            contest->stage[s] = (struct stage_traits){1 + s % 2, 80 + 4 * s, s ? 0 : 6, s == 3};
        for (int rival = 0; rival < RIVAL_COUNT; rival++) {
            contest->plan[rival] = arena_printf(v->arena, "dp %d tp 2", rival + 1);
            contest->predicted[rival] = 40 * draw(3 * i + (size_t)rival);
        }
        contest->found_s = draw(i);
        contest->authors_s = contest->authors_least_s = draw(i + 1);
    }
}

static void make_up_cuts(struct validation *v)
{
    add_search(v, "galvatron_table5");
    for (int i = 0; i < 3; i++) {
        struct cut_pipeline cuts = {.model = i ? "BERT-Huge-48" : "BERT-Huge-32",
                                    .devices = 16,
                                    .limit_bytes = INT64_C(8) << (30 + i / 2),
                                    .stages = 2,
                                    .batch = 256,
                                    .micro_batches = 8,
                                    .between = i != 1};
        for (int way = 0; way < CUT_WAYS; way++)
            cuts.cut[way] = (struct cut){.fits = i + way != 1,
                                         .count = {15 + i, 17 - i},
                                         .samples_per_s = i + way != 1 ? 30 + i + way : 0,
                                         .alpha_time = 0.4 + 0.01 * way,
                                         .alpha_memory = 0.5 - 0.01 * i};
        array_push(v->arena, &v->cuts, cuts);
    }
}

/* What a view writes to standard output. */
static const char *printed(int (*print)(const struct validation *v), const struct validation *v)
{
    const char *path = in_folder("view.txt");
    char *text;
    size_t len;
    fflush(stdout);
    int out = dup(STDOUT_FILENO);
    assert_non_null(freopen(path, "w", stdout));
    print(v);
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    close(out);
    clearerr(stdout);
    assert_int_equal(file_read(arena, path, 1 << 22, &text, &len), WEFT_OK);
    return text;
}

static const char *all_views(void)
{
    struct validation v = {.arena = arena,
                           .sources = known_sources(),
                           .half = {true, true},
                           .list_rows = true,
                           .list_groups = true,
                           .refitted = true,
                           .plan = true};
    add_runs(&v, "megatron_seqsel_table5");
    add_runs(&v, "fold3d_table3");
    make_up_runs(&v);
    make_up_refits(&v);
    make_up_cells(&v);
    make_up_contests(&v);
    make_up_cuts(&v);
    const char *anew = printed(validation_print, &v);
    const char *json = printed(validation_print_json, &v);
    v.plan = false;
    return arena_printf(arena, "%s%s%s", printed(validation_print, &v), anew, json);
}

static void views_are_as_they_were(void **state)
{
    (void)state;
    const char *now = all_views(), *line = now;
    char *golden;
    size_t len;
    if (getenv("WEFT_RECORD")) {
        FILE *file = fopen(FILE_NAME, "w");
        fputs(now, file);
        fclose(file);
    }
    assert_int_equal(file_read(arena, FILE_NAME, 1 << 22, &golden, &len), WEFT_OK);
    for (const char *old = golden; *line && strncmp(line, old, strcspn(line, "\n") + 1) == 0;) {
        old += strcspn(line, "\n") + 1;
        line += strcspn(line, "\n") + 1;
    }
    if (strcmp(now, golden) != 0)
        fail_msg("first other line: %.*s", (int)strcspn(line, "\n"), line);
}

static int prepare(void **state)
{
    return make_arena(state) || make_folder(state);
}

static int clear_away(void **state)
{
    return remove_folder(state) || drop_arena(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(views_are_as_they_were)};
    return cmocka_run_group_tests(tests, prepare, clear_away);
}
