/* test_page.c - pages of a search (report/page.h).
 *
 *   P1  The search's steps are in the order in which plans were tried, each better than the one before, and
 *       end with the answer, whatever numbers are missing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>

#include "report/page.h"
#include "scratch_folder.h"

/* P1 */
static void test_steps_of_a_search(void **state)
{
    const struct scratch *scratch = *state;
    const char *path = arena_printf(scratch->arena, "%s/page.json", scratch->folder);
    struct model *model;
    struct cluster *cluster;
    struct planned *planned;
    struct plan *plan;
    struct prediction *prediction;
    assert_int_equal(model_open("gpt2", "layers: 4", &model), WEFT_OK);
    assert_int_equal(cluster_open("dgx-a100:1", &cluster), WEFT_OK);
    struct plan_request request = {
        .model = model, .cluster = cluster, .pins = {.global_batch = 16}, .options.quick = true};
    assert_int_equal(plan_search(planner_find("auto"), &request, &planned), WEFT_OK);
    assert_true(planned->trials.len > 1);
    for (size_t i = 0; i < planned->trials.len; i++)
        planned->trials.data[i].number *= 3;
    assert_int_equal(trial_take(&request, &planned->trials.data[0], &plan), WEFT_OK);
    struct simulate_options options = {.points = true};
    assert_int_equal(simulate(plan, &options, &prediction), WEFT_OK);
    struct page page = {.format = PAGE_JSON,
                        .prediction = prediction,
                        .planned = planned,
                        .plan_text = plan_write(scratch->arena, plan)};
    assert_int_equal(page_write(&page, path), WEFT_OK);
    json_t *json = json_load_file(path, 0, NULL), *steps = json_object_get(json, "convergence");
    json_int_t tried = 0;
    double best = INFINITY;
    assert_true(json_array_size(steps) > 0);
    for (size_t i = 0; i < json_array_size(steps); i++) {
        json_t *step = json_array_get(steps, i);
        assert_true(json_integer_value(json_object_get(step, "tried")) > tried);
        assert_true(json_real_value(json_object_get(step, "sample_ns")) < best);
        tried = json_integer_value(json_object_get(step, "tried"));
        best = json_real_value(json_object_get(step, "sample_ns"));
    }
    assert_int_equal(llround(best * 16), planned->trials.data[0].iteration_ns);
    json_decref(json);
    prediction_free(prediction);
    plan_free(plan);
    planned_free(planned);
    cluster_free(cluster);
    model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_steps_of_a_search, scratch_setup, scratch_teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
