/* test_fit_halves.c - a fit on half of a system's published runs lowers the error on the other half, or says that it
 * cannot. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lab/lab.h"
#include "one_arena.h"
#include "runs/runs.h"

enum { MOST_SYSTEMS = 16 };
/* The runs of a dataset on one device. */
struct system {
    const char *device;
    struct run_cases half[HALF_COUNT];
};

static struct system *system_of(struct system *systems, const char *device)
{
    size_t at = 0;
    while (systems[at].device && strcmp(systems[at].device, device) != 0)
        at++;
    assert_true(at + 1 < MOST_SYSTEMS);
    systems[at].device = device;
    return &systems[at];
}

/* Every such run of the dataset that has a time, by system and half. */
static void open_systems(const char *name, size_t every, struct system *systems)
{
    const struct sources *sources;
    struct published_rows rows = {0};
    assert_int_equal(sources_open(arena, &sources), WEFT_OK);
    assert_int_equal(published_read(arena, dataset_find(sources, name), &rows), WEFT_OK);
    for (size_t i = 0; i < rows.len; i += every) {
        struct run_case one = {.run = ARENA_NEW(arena, struct user_run)};
        if (!(rows.data[i].measured.time_s > 0) || rows.data[i].open)
            continue;
        assert_int_equal(published_plan(arena, &rows.data[i], &one.opened), WEFT_OK);
        one.run->measured.time_s = rows.data[i].measured.time_s;
        if (one.opened.plan)
            array_push(
                arena,
                &system_of(systems, one.opened.cluster->node.device.name)->half[rows.data[i].half],
                one);
    }
}

static double mean_error(const struct run_cases *cases, const struct paces *paces)
{
    double sum = 0, time_s;
    for (size_t i = 0; i < cases->len; i++) {
        assert_int_equal(run_case_time(&cases->data[i], paces, &time_s), WEFT_OK);
        sum += fabs(time_s / cases->data[i].run->measured.time_s - 1);
    }
    return sum / (double)cases->len;
}

/* Whether it found values that help. */
static bool check_half(const char *name, const struct system *system, int h)
{
    const struct run_cases *own = &system->half[h], *other = &system->half[!h];
    struct run_fit fit;
    weft_status status = runs_fit(own, &fit);
    if (status == WEFT_NO_ANSWER || other->len == 0)
        return false; /* too few runs */
    assert_int_equal(status, WEFT_OK);
    struct paces paces = run_fit_paces(&fit);
    double before = mean_error(other, &(struct paces){{0}}), after = mean_error(other, &paces);
    print_message("%s on %s: fitted to %zu runs, %zu others %.1f %% before, %.1f %% after%s\n",
                  name, system->device, own->len, other->len, before * 100, after * 100,
                  fit.helps ? "" : "; it says that it cannot");
    assert_true(!fit.helps || after < before);
    return fit.helps;
}

static void the_other_half_is_predicted_better(void **state)
{
    static const struct {
        const char *name;
        size_t every; /* runs of a large table are much alike */
    } DATASETS[] = {{"megatron_sc21_table1", 1}, {"vtrain_single", 6}, {"vtrain_multi", 2},
                    {"simumax_b200", 1},         {"weft_h200", 1},     {"torchtitan", 1},
                    {"llm_foundry_fsdp", 1}};
    int helped = 0;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(DATASETS); i++) {
        struct system systems[MOST_SYSTEMS] = {0};
        open_systems(DATASETS[i].name, DATASETS[i].every, systems);
        for (size_t k = 0; systems[k].device; k++)
            for (int h = 0; h < HALF_COUNT; h++)
                helped += check_half(DATASETS[i].name, &systems[k], h);
        for (size_t k = 0; systems[k].device; k++)
            for (int h = 0; h < HALF_COUNT; h++)
                run_cases_close(&systems[k].half[h]);
    }
    assert_true(helped > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_other_half_is_predicted_better)};
    return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
