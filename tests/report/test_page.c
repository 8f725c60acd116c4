/* test_page.c - pages of a search (report/page.h).
 *
 *   P1  The search's steps are in the order in which plans were tried, each better than the one before, and
 *       end with the answer, whatever numbers are missing.
 *   P2  A picture is XML that any reader takes, whatever the model is called, and every class of a bar
 *       has a colour, light and dark.
 *   P3  Bars of a purpose are as long together as the prediction says that it takes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <expat.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "made_plan.h"
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

/* ---- pictures -------------------------------------------------------------------------------- */

/* Two stages that recompute and synchronise. */
static struct prediction *predict(struct made *made)
{
    struct degrees degrees = {.pp = 2,
                              .tp = 2,
                              .dp = 2,
                              .micro_batch = 1,
                              .global_batch = 8,
                              .recompute = RECOMPUTE_FULL};
    struct prediction *prediction;
    *made = make("gpt2", "layers: 4", "dgx-a100:1", &degrees);
    made->model->name = "a<b & \"c\"\x01\xff";
    assert_int_equal(simulate(made->plan, &(struct simulate_options){0}, &prediction), WEFT_OK);
    return prediction;
}

static char *draw(const struct scratch *scratch, const struct prediction *prediction)
{
    const char *path = arena_printf(scratch->arena, "%s/plan.svg", scratch->folder);
    struct page page = {.format = PAGE_SVG, .prediction = prediction};
    char *text;
    size_t len;
    assert_int_equal(page_write(&page, path), WEFT_OK);
    assert_int_equal(file_read(scratch->arena, path, 1 << 20, &text, &len), WEFT_OK);
    return text;
}

/* P2 */
static void test_picture_is_xml(void **state)
{
    const struct scratch *scratch = *state;
    static const char *const COLOURED[] = {
        ".forward { fill: #3b7dd8; }",  ".forward { fill: #5b9bf0; }",
        ".backward { fill: #2f9e6e; }", ".recompute { fill: #8fbf4d; }",
        ".dp_comm { fill: #ec6a7b; }",  ".card { fill: #1c222b; }"};
    struct made made;
    struct prediction *prediction = predict(&made);
    const char *text = draw(scratch, prediction);
    XML_Parser parser = XML_ParserCreate("UTF-8");
    assert_int_equal(XML_Parse(parser, text, (int)strlen(text), 1), XML_STATUS_OK);
    assert_non_null(strstr(text, "a&lt;b &amp; &quot;c&quot;?? on 8 devices of dgx-a100"));
    for (size_t i = 0; i < COUNT_OF(COLOURED); i++)
        assert_non_null(strstr(text, COLOURED[i]));
    assert_null(strstr(text, "fill: ;"));
    XML_ParserFree(parser);
    prediction_free(prediction);
    unmake(&made);
}

/* Pixels that the bars of a purpose are wide together, of those of computation, and how many there are. */
static double width_of(const char *text, enum purpose purpose, int *bars)
{
    char start[64];
    double width = 0;
    snprintf(start, sizeof start, "<path class=\"%s\" d=\"", purpose_name(purpose));
    const char *at = strstr(text, start), *end = at ? strchr(at, '/') : NULL;
    for (*bars = 0; at && (at = strchr(at, 'h')) != NULL && at < end; at++) {
        double wide, high;
        if (sscanf(at, "h%lfv%lf", &wide, &high) != 2 || high < 10)
            continue;
        width += wide;
        ++*bars;
    }
    return width;
}

/* P3; a bar is cut by up to 0.6 px and widened by up to 0.4. */
static void test_bars_are_as_long_as_they_take(void **state)
{
    static const enum purpose PURPOSES[] = {PURPOSE_FORWARD, PURPOSE_BACKWARD, PURPOSE_RECOMPUTE,
                                            PURPOSE_OPTIMIZER};
    const double TIME_PX = 858; /* of an iteration */
    const struct scratch *scratch = *state;
    struct made made;
    struct prediction *prediction = predict(&made);
    const char *text = draw(scratch, prediction);
    for (size_t i = 0; i < COUNT_OF(PURPOSES); i++) {
        double expected = 0;
        int bars;
        double drawn = width_of(text, PURPOSES[i], &bars);
        for (int32_t s = 0; s < made.plan->stages; s++)
            expected += (double)prediction->stage[s].time_ns[PURPOSES[i]] /
                        (double)prediction->iteration_ns * TIME_PX;
        assert_true(bars > 0 && expected > 0);
        if (fabs(drawn - expected) > 0.75 * bars)
            fail_msg("%s: %d bars of %.1f px, expected %.1f", purpose_name(PURPOSES[i]), bars,
                     drawn, expected);
    }
    prediction_free(prediction);
    unmake(&made);
}

/* The same in what a page and the explorer draw from: [stage, stream, purpose, label, start, length]. */
static void test_bars_of_pages_are_as_long_as_they_take(void **state)
{
    static const enum purpose PURPOSES[] = {PURPOSE_FORWARD, PURPOSE_BACKWARD, PURPOSE_OPTIMIZER};
    enum { PURPOSE = 2, START = 4, LENGTH = 5, MOST_BARS = 100000 };
    const struct scratch *scratch = *state;
    struct made made;
    struct prediction *prediction = predict(&made);
    json_t *json = timeline_json(scratch->arena, prediction, MOST_BARS), *bar;
    double took[PURPOSE_COUNT] = {0};
    size_t at;
    json_array_foreach(json_object_get(json, "bars"), at, bar)
    {
        int64_t start = json_integer_value(json_array_get(bar, START));
        int64_t length = json_integer_value(json_array_get(bar, LENGTH));
        assert_true(start >= 0 && length > 0 && start + length <= prediction->iteration_ns);
        took[json_integer_value(json_array_get(bar, PURPOSE))] += (double)length;
    }
    for (size_t i = 0; i < COUNT_OF(PURPOSES); i++) {
        double expected = 0;
        for (int32_t s = 0; s < made.plan->stages; s++)
            expected += (double)prediction->stage[s].time_ns[PURPOSES[i]];
        assert_true(expected > 0 && fabs(took[PURPOSES[i]] - expected) <= 0.01 * expected);
    }
    json_decref(json);
    prediction_free(prediction);
    unmake(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_steps_of_a_search, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_picture_is_xml, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_bars_are_as_long_as_they_take, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(test_bars_of_pages_are_as_long_as_they_take, scratch_setup,
                                        scratch_teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
