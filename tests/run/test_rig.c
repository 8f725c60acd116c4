/* test_rig.c - what a kernel is measured on: buffers of the sizes that it uses, filled as in training. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "small_asks.h"
#include "run/measure/rig.h"

/* ---- real kernels ---------------------------------------------------------------------------- */

/* Every kernel of every family under random splits, once: buffers have the sizes that kernels use
 * (sanitizers look), and what is not left out is stored. VGG has the kernels of ResNet on images of 224 x 224: a
 * minute of convolutions that show nothing more. */
static void test_real_kernels(void **state)
{
    (void)state;
    struct rng rng;
    struct cluster *cluster = ranks(4);
    int64_t measured_some = 0;
    rng_seed(&rng, 11);
    for (int round = 0; round < rounds_of(24); round++) {
        const struct small_model *small = &SMALL_MODELS[round % SMALL_MODEL_COUNT];
        if (strcmp(small->family, "vgg") == 0)
            continue;
        struct model *model = open_small(small);
        struct plan *plan = random_cpu_plan(&rng, model, cluster);
        struct arena *arena = arena_new();
        struct measure_options o = measure_defaults();
        struct measured measured;
        struct asks asks;
        o.db = in_folder("real.sqlite");
        o.device = "a core";
        o.source = "a test";
        o.least = o.most = 1;
        o.away_bytes = 4096;
        assert_int_equal(asks_of_plan(arena, plan, &asks), WEFT_OK);
        assert_int_equal(measure_asks(&asks, &o, arena, &measured), WEFT_OK);
        assert_int_equal(measured.measured + measured.left_out, asks.len);
        assert_int_equal(rows_in(o.db), measured.measured);
        measured_some += measured.measured;
        plan_free(plan);
        arena_free(arena);
        model_free(model);
    }
    assert_true(measured_some > 0);
    cluster_free(cluster);
}

/* rig.h, I1: ids are spread over the table, or one row in the cache would be measured. */
static void test_ids_are_random(void **state)
{
    (void)state;
    struct small s = open_asks();
    int looked_at = 0;
    for (size_t i = 0; i < s.asks.len; i++) {
        const struct ask *ask = &s.asks.data[i];
        const struct op *op = ask->askers.data[0].op;
        struct rig rig;
        if (!op || op->kind != OP_EMBEDDING)
            continue;
        assert_true(
            rig_open(&rig, measure_defaults().kernels, ask, &ask->askers.data[0], s.asks.policy));
        const int64_t *ids = rig.call.input[0];
        int64_t count = (int64_t)operand_elements(op, &op->input[0], rig.size);
        int64_t rows = rig.size[op_find_dim(op->kind, DIM_VOCAB)], same = 0;
        for (int64_t k = 0; k < count; k++) {
            assert_true(ids[k] >= 0 && ids[k] < rows);
            same += ids[k] == ids[0];
        }
        assert_true(same < count);
        looked_at++;
        rig_close(&rig);
    }
    assert_true(looked_at > 0);
    close_asks(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_real_kernels),
        cmocka_unit_test(test_ids_are_random),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
