/* test_autoddl_splits.c - the splits that the planner autoddl chooses among (search/autoddl/splits.h): an operator's splits are
 * all ordered factorisations but for what splits.h leaves out, and plan_check accepts each.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "autoddl_problem.h"
#include "random_plan.h"

/* All ordered lists of parts for the devices, one dim at most once: by brute force, one level. */
struct naive {
    const struct model *model;
    const struct op *op;
    int64_t batch;
    bool sums, blocks;
    int64_t count;
    const struct splits *listed;
};

/* Whether the operator is a convolution, a pool or a batch norm, or shares a tensor with one. */
static bool naive_images(const struct naive *n)
{
    for (int32_t i = 0; i < n->model->ops; i++) {
        const struct op *op = &n->model->op[i];
        bool shares = op == n->op;
        if (op->kind != OP_CONV && op->kind != OP_POOL && op->kind != OP_BATCH_NORM)
            continue;
        for (int32_t k = 0; k < op->inputs; k++)
            shares |= op->input[k].tensor == n->op->output.tensor;
        for (int32_t k = 0; k < n->op->inputs; k++)
            shares |= n->op->input[k].tensor == op->output.tensor;
        if (shares)
            return true;
    }
    return false;
}

/* Whether the smallest prime of a degree could be the batch's. */
static bool could_be_batch(const struct naive *n, int64_t degree, int64_t batch)
{
    for (int64_t f = 2; f <= degree; f++)
        if (degree % f == 0)
            return n->batch % (batch * f) == 0;
    return false;
}

static bool naive_legal(const struct naive *n, const struct split *split)
{
    int64_t batch = split_degree(split, DIM_BATCH);
    for (int32_t i = 0; i < split->parts; i++) {
        int dim = split->part[i].dim, place;
        bool stripes = dim == DIM_HEIGHT && naive_images(n);
        bool block = n->blocks && dim == DIM_WIDTH && naive_images(n) && i > 0 &&
                     split->part[i - 1].dim == DIM_HEIGHT;
        if (dim == DIM_KV || dim == DIM_DEPTH || (dim == DIM_HEIGHT && !stripes) ||
            (dim == DIM_WIDTH && !block) || (dim == DIM_BATCH && i > 0) ||
            (dim == SPLIT_COPY && n->sums))
            return false;
        if (dim == SPLIT_COPY)
            continue;
        place = op_find_dim(n->op->kind, (enum dim)dim);
        enum dim_role role = place < 0 ? ROLE_NONE : OP_KINDS[n->op->kind].dims[place].role;
        bool long_attention =
            dim == DIM_SEQ && op_find_dim(n->op->kind, DIM_KV) >= 0 && searched_cp(n->model) > 1;
        if (role != ROLE_SPLIT && role != ROLE_REDUCE && role != ROLE_BATCH && !long_attention &&
            !((stripes || block) && role == ROLE_HALO))
            return false;
        if (role != ROLE_BATCH &&
            (n->op->size[place] < 2 || !split_legal(n->model, n->op, place, split->part[i].degree)))
            return false;
    }
    if (could_be_batch(n, split_degree(split, DIM_SEQ), batch) ||
        could_be_batch(n, split_degree(split, DIM_HEIGHT), batch) ||
        could_be_batch(n, split_degree(split, DIM_WIDTH), batch))
        return false;
    return n->batch % batch == 0;
}

static bool head_first(const struct naive *n, const struct split *split)
{
    int place = op_find_dim(n->op->kind, DIM_HEAD);
    bool head = place < 0 || n->op->size[place] < 2;
    for (int32_t i = 0; i < split->parts; i++) {
        head |= split->part[i].dim == DIM_HEAD;
        if (split->part[i].dim == DIM_GROUP && !head)
            return false;
    }
    return true;
}

static void naive_list(struct naive *n, const struct split *so_far, unsigned used, int64_t rest)
{
    if (rest == 1) {
        bool found = false;
        if (!naive_legal(n, so_far) || !head_first(n, so_far))
            return;
        for (size_t i = 0; i < n->listed->len; i++)
            found |= split_equal(&n->listed->data[i], so_far);
        assert_true(found);
        n->count++;
        return;
    }
    for (int dim = 0; dim <= SPLIT_COPY; dim++)
        for (int64_t d = 2; d <= rest; d++) {
            struct split next = *so_far;
            if (!(used >> dim & 1) && rest % d == 0 && split_add(&next, dim, d))
                naive_list(n, &next, used | 1U << dim, rest / d);
        }
}

static bool sums_over(const struct op *op)
{
    bool sums = false;
    for (int i = 0; i < op_dims(op->kind); i++)
        sums |= OP_KINDS[op->kind].dims[i].role == ROLE_REDUCE && op->size[i] > 1 &&
                OP_KINDS[op->kind].dims[i].dim != DIM_KV &&
                OP_KINDS[op->kind].dims[i].dim != DIM_DEPTH;
    return sums;
}

static int64_t check_factorisations(const struct model *model, bool blocks)
{
    static const int64_t DEVICES[] = {4, 6, 8};
    int64_t by_position = 0;
    for (int32_t i = 0; i < model->ops; i++)
        for (size_t d = 0; d < COUNT_OF(DEVICES); d++) {
            struct arena *keep = arena_new();
            struct split_mesh mesh = {1, {DEVICES[d]}, .blocks = blocks};
            struct splits all = {0};
            struct split none = split_none();
            splits_of(keep, model, &model->op[i], &mesh, 4, &all);
            struct naive n = {model, &model->op[i], 4, sums_over(&model->op[i]), blocks, 0, &all};
            naive_list(&n, &none, 0, DEVICES[d]);
            if (n.count) /* else copies of what sums: the way out */
                assert_int_equal(n.count, (int64_t)all.len);
            assert_true(all.len > 0);
            for (size_t k = 0; model->op[i].kind == OP_ATTENTION && k < all.len; k++)
                by_position += split_degree(&all.data[k], DIM_SEQ) > 1;
            arena_free(keep);
        }
    return by_position;
}

static void splits_are_all_factorisations(void **state)
{
    (void)state;
    for (int m = 0; m < SMALL_MODEL_COUNT; m++) {
        struct model *model = open_small(&SMALL_MODELS[m]);
        for (int blocks = 0; blocks < 2; blocks++)
            assert_int_equal(check_factorisations(model, blocks), 0);
        model_free(model);
    }
}

/* Attention over 16,384 positions may be split by them, over 8,192 it is not. */
static void long_attention_is_split_by_position(void **state)
{
    static const char *const OPTIONS[] = {
        "layers: 1, hidden: 256, heads: 8, kv_heads: 4, seq: 8192",
        "layers: 1, hidden: 256, heads: 8, kv_heads: 4, seq: 16384"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct model *model;
        assert_int_equal(model_open("llama3-8b", OPTIONS[i], &model), WEFT_OK);
        assert_int_equal(check_factorisations(model, false) > 0, i);
        model_free(model);
    }
}

static void two_levels_are_pairs(void **state)
{
    struct model *model = open_small(&SMALL_MODELS[0]);
    struct split_mesh mesh = {2, {2, 4}}, nodes = {1, {2}}, within = {1, {4}};
    (void)state;
    for (int32_t i = 0; i < model->ops; i++) {
        struct arena *keep = arena_new();
        struct splits all = {0}, outer = {0}, inner = {0};
        splits_of(keep, model, &model->op[i], &mesh, 8, &all);
        splits_of(keep, model, &model->op[i], &nodes, 8, &outer);
        splits_of(keep, model, &model->op[i], &within, 8, &inner);
        assert_true(all.len <= outer.len * inner.len);
        for (size_t k = 0; k < all.len; k++) {
            assert_int_equal(split_devices(&all.data[k]), 8);
            for (size_t j = 0; j < k; j++)
                assert_false(split_equal(&all.data[k], &all.data[j]));
        }
        arena_free(keep);
    }
    model_free(model);
}

static bool is_among(const struct splits *splits, const struct split *split)
{
    bool found = false;
    for (size_t i = 0; i < splits->len; i++)
        found |= split_equal(&splits->data[i], split);
    return found;
}

/* Narrow splits are some of all, one dim besides samples per level; those that are narrow across nodes
 * only lie between. */
static void narrow_splits_are_some_of_all(void **state)
{
    struct split_mesh wide = {2, {4, 4}, 0}, outer = {2, {4, 4}, 1}, narrow = {2, {4, 4}, 2};
    (void)state;
    for (int m = 0; m < SMALL_MODEL_COUNT; m++) {
        struct model *model = open_small(&SMALL_MODELS[m]);
        for (int32_t i = 0; i < model->ops; i++) {
            struct arena *keep = arena_new();
            struct splits all = {0}, between = {0}, some = {0};
            splits_of(keep, model, &model->op[i], &wide, 8, &all);
            splits_of(keep, model, &model->op[i], &outer, 8, &between);
            splits_of(keep, model, &model->op[i], &narrow, 8, &some);
            assert_true(some.len > 0 && some.len <= between.len && between.len <= all.len);
            for (size_t k = 0; k < between.len; k++)
                assert_true(is_among(&all, &between.data[k]));
            for (size_t k = 0; k < some.len; k++) {
                int others = 0;
                for (int32_t part = 0; part < some.data[k].parts; part++)
                    others += some.data[k].part[part].dim != DIM_BATCH;
                assert_true(is_among(&between, &some.data[k]) && others <= 2);
            }
            arena_free(keep);
        }
        model_free(model);
    }
}

/* Whether an operator of the model has a split with width, for so many devices and samples. */
static bool lists_blocks(const struct model *model, int64_t devices, int64_t batch)
{
    bool some = false;
    for (int32_t i = 0; i < model->ops; i++) {
        struct arena *keep = arena_new();
        struct split_mesh mesh = {1, {devices}, .blocks = true};
        struct splits all = {0};
        splits_of(keep, model, &model->op[i], &mesh, batch, &all);
        for (size_t k = 0; k < all.len; k++)
            some |= split_degree(&all.data[k], DIM_WIDTH) > 1;
        arena_free(keep);
    }
    return some;
}

/* There are blocks only where it is said that there may be, and there are some. */
static void blocks_are_where_they_are_said_to_be(void **state)
{
    static const int64_t DEVICES[] = {4, 6, 8};
    int found = 0;
    (void)state;
    for (int m = 0; m < SMALL_MODEL_COUNT; m++) {
        struct model *model = open_small(&SMALL_MODELS[m]);
        for (size_t d = 0; d < COUNT_OF(DEVICES); d++)
            for (int64_t batch = 1; batch <= 24; batch++) {
                bool some = lists_blocks(model, DEVICES[d], batch);
                assert_true(!some || splits_have_blocks(model, DEVICES[d], batch));
                found += some;
            }
        assert_false(splits_have_blocks(model, 8, 16));
        bool text = strcmp(SMALL_MODELS[m].family, "gpt") == 0;
        assert_false(text && splits_have_blocks(model, 8, 1));
        model_free(model);
    }
    assert_true(found > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_are_all_factorisations),
        cmocka_unit_test(long_attention_is_split_by_position),
        cmocka_unit_test(blocks_are_where_they_are_said_to_be),
        cmocka_unit_test(two_levels_are_pairs),
        cmocka_unit_test(narrow_splits_are_some_of_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
