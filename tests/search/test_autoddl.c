/* test_autoddl.c - AutoDDL's space, costs and searches.
 *
 *   P1  The exact search finds what trying everything finds, with memory limited and not; no search
 *       finds more than there is. With less work than the proof takes it ends sooner, and says so.
 *   P2  An operator's splits are all ordered factorisations but for what splits.h leaves out, and
 *       plan_check accepts each.
 *   P3  The bound of an edge is one; what an assignment's edges move is what its compiled plan moves,
 *       and the plan's graph is proved to compute the model.
 *   P4  The planner: same answer for any number of threads, what is pinned stays, errors say what to do.
 *   P5  Where memory is short layers differ, and no other mixture of the two that fits is faster.
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

/* ---- P1: random graphs ----------------------------------------------------------------------- */

enum { MOST_VARIABLES = 7, MOST_EDGES = 24 };

struct shape {
    int32_t variables, edges;
    int32_t end[MOST_EDGES][2];
};

static void add_edge(struct shape *shape, int32_t a, int32_t b)
{
    shape->end[shape->edges][0] = a;
    shape->end[shape->edges++][1] = b;
}

static struct shape chain(int32_t variables)
{
    struct shape shape = {.variables = variables};
    for (int32_t v = 1; v < variables; v++)
        add_edge(&shape, v - 1, v);
    return shape;
}

/* An edge, some of whose edges in turn become two in series or in parallel. */
static struct shape series_parallel(struct rng *rng, int32_t variables)
{
    struct shape shape = {.variables = 2};
    add_edge(&shape, 0, 1);
    while (shape.variables < variables) {
        int32_t *e = shape.end[rng_below(rng, shape.edges)];
        if (rng_below(rng, 3) == 0 && shape.edges + 2 < MOST_EDGES) {
            add_edge(&shape, e[1], e[0]); /* two edges between one pair, in either direction */
            continue;
        }
        int32_t end = e[1], middle = shape.variables++;
        e[1] = middle;
        add_edge(&shape, middle, end);
    }
    return shape;
}

/* Anything, wide graphs among them. */
static struct shape tangle(struct rng *rng, int32_t variables)
{
    struct shape shape = {.variables = variables};
    for (int32_t v = 1; v < variables; v++)
        for (int32_t u = 0; u < v; u++)
            if (rng_below(rng, 3) && shape.edges < MOST_EDGES)
                add_edge(&shape, u, v);
    return shape;
}

static double draw_cost(struct rng *rng, bool small)
{
    return small ? (double)rng_below(rng, 4) : rng_uniform(rng) * 1000;
}

static struct assign *draw_problem(struct arena *keep, struct rng *rng, const struct shape *shape)
{
    int32_t options[MOST_VARIABLES];
    bool small = rng_below(rng, 3) == 0, edges_hold = rng_below(rng, 2);
    double all = 0;
    for (int32_t v = 0; v < shape->variables; v++)
        options[v] = 1 + (int32_t)rng_below(rng, 4);
    struct assign *p = assign_new(keep, shape->variables, options, shape->edges, shape->end);
    for (int32_t v = 0; v < p->variables; v++)
        for (int32_t i = 0; i < options[v]; i++) {
            p->time[v][i] = i && rng_below(rng, 10) == 0 ? INFINITY : draw_cost(rng, small);
            p->memory[v][i] = draw_cost(rng, small);
            all += p->memory[v][i] / options[v];
        }
    for (int32_t e = 0; e < p->edges; e++)
        for (int32_t i = 0; i < options[p->edge[e].a] * options[p->edge[e].b]; i++) {
            p->edge[e].time[i] = draw_cost(rng, small);
            p->edge[e].memory[i] = edges_hold ? draw_cost(rng, small) / 4 : 0;
        }
    if (rng_below(rng, 3))
        p->limit = all * (0.4 + rng_uniform(rng));
    return p;
}

static void check_exact(struct rng *rng, const struct shape *shape)
{
    struct arena *keep = arena_new();
    struct assign *p = draw_problem(keep, rng, shape);
    struct assigned all = solve(p, SEARCH_EXHAUSTIVE, keep), found = solve(p, SEARCH_EXACT, keep);
    struct assigned again = {0};
    assert_int_equal(all.tried, (int64_t)assign_count(p));
    assert_int_equal(found.fits, all.fits);
    assign_evaluate(p, found.option, &again);
    assert_true(fabs(again.time - found.time) <= 1e-9 * (1 + found.time));
    assert_true(fabs(again.memory - found.memory) <= 1e-9 * (1 + found.memory));
    if (all.fits) {
        assert_true(fabs(found.time - all.time) <= 1e-8 * (1 + all.time));
        assert_true(found.bound >= all.time - 1e-6 * (1 + all.time)); /* and says so */
        assert_true(found.bound <= all.time + 1e-6 * (1 + all.time));
    } else {
        assert_true(fabs(found.memory - all.memory) <= 1e-9 * (1 + all.memory));
    }
    arena_free(keep);
}

static void exact_is_exhaustive_on_chains(void **state)
{
    struct rng rng;
    (void)state;
    rng_seed(&rng, 1);
    for (int i = 0; i < 300; i++) {
        struct shape shape = chain(2 + (int32_t)rng_below(&rng, MOST_VARIABLES - 1));
        check_exact(&rng, &shape);
    }
}

static void exact_is_exhaustive_on_series_parallel_graphs(void **state)
{
    struct rng rng;
    (void)state;
    rng_seed(&rng, 2);
    for (int i = 0; i < 300; i++) {
        struct shape shape =
            series_parallel(&rng, 3 + (int32_t)rng_below(&rng, MOST_VARIABLES - 2));
        check_exact(&rng, &shape);
    }
}

static void exact_is_exhaustive_on_any_graph(void **state)
{
    struct rng rng;
    (void)state;
    rng_seed(&rng, 3);
    for (int i = 0; i < rounds_of(200); i++) {
        struct shape shape = tangle(&rng, 2 + (int32_t)rng_below(&rng, MOST_VARIABLES - 1));
        check_exact(&rng, &shape);
    }
}

/* A chain with an edge over each second variable and little room: proving the best takes long. */
static struct assign *long_problem(struct arena *keep, struct rng *rng)
{
    enum { VARIABLES = 60, OPTIONS = 6 };
    int32_t options[VARIABLES], ends[2 * VARIABLES][2], edges = 0;
    for (int32_t v = 0; v < VARIABLES; v++) {
        options[v] = OPTIONS;
        for (int32_t far = 1; far <= 2 && v >= far; far++, edges++)
            ends[edges][0] = v - far, ends[edges][1] = v;
    }
    struct assign *p = assign_new(keep, VARIABLES, options, edges, (const int32_t(*)[2])ends);
    for (int32_t v = 0; v < VARIABLES; v++)
        for (int32_t i = 0; i < OPTIONS; i++) {
            p->time[v][i] = draw_cost(rng, false);
            p->memory[v][i] = 1500 - p->time[v][i] + draw_cost(rng, false);
        }
    for (int32_t e = 0; e < edges; e++)
        for (int32_t i = 0; i < OPTIONS * OPTIONS; i++)
            p->edge[e].time[i] = draw_cost(rng, false) / 4;
    p->limit = 1300.0 * VARIABLES;
    return p;
}

/* A search ends at its bound of work, whatever the problem, always at the same answer, whose bound is still one. */
static void work_is_bounded(void **state)
{
    const double most[] = {1e3, 1e5, 1e6};
    struct arena *keep = arena_new();
    struct rng rng;
    (void)state;
    rng_seed(&rng, 17);
    struct assign *p = long_problem(keep, &rng);
    for (size_t i = 0; i < COUNT_OF(most); i++) {
        struct assigned found[2], again = {0};
        for (int k = 0; k < 2; k++) {
            struct assign_work work = {.most = most[i]};
            struct assign_options options = {.search = SEARCH_EXACT, .seed = 7, .work = &work};
            assign_solve(p, &options, keep, &found[k]);
            assert_true(work_spent(&work) && work.done < most[i] + 1e5);
        }
        assert_true(found[0].time == found[1].time && found[0].bound == found[1].bound);
        assert_memory_equal(found[0].option, found[1].option,
                            sizeof(int32_t) * (size_t)p->variables);
        assign_evaluate(p, found[0].option, &again);
        assert_true(again.time == found[0].time && again.fits == found[0].fits);
        assert_true(found[0].fits && found[0].bound < found[0].time);
    }
    arena_free(keep);
}

/* No search is better than all; a descent ends where no single change is better. */
static void searches_find_what_there_is(void **state)
{
    struct rng rng;
    int64_t best[SEARCH_COUNT] = {0};
    int rounds = rounds_of(100);
    (void)state;
    rng_seed(&rng, 4);
    for (int i = 0; i < rounds; i++) {
        struct arena *keep = arena_new();
        struct shape shape = tangle(&rng, 2 + (int32_t)rng_below(&rng, MOST_VARIABLES - 1));
        struct assign *p = draw_problem(keep, &rng, &shape);
        struct assigned all = solve(p, SEARCH_EXHAUSTIVE, keep);
        for (int s = 0; s < SEARCH_COUNT; s++) {
            struct assigned found = solve(p, (enum assign_search)s, keep), check = {0};
            assign_evaluate(p, found.option, &check);
            assert_true(check.time == found.time && check.memory == found.memory);
            assert_false(assign_better(&found, &all) && found.time < all.time * (1 - 1e-9));
            best[s] += found.fits == all.fits && found.time <= all.time * (1 + 1e-9);
        }
        arena_free(keep);
    }
    assert_int_equal(best[SEARCH_EXHAUSTIVE], rounds);
    assert_true(best[SEARCH_CD] >= rounds * 8 / 10);
}

/* Whether no other option of one variable alone is faster, and fits. */
static bool no_change_is_better(const struct assign *p, const struct assigned *found)
{
    bool none = true;
    for (int32_t v = 0; v < p->variables; v++) {
        int32_t own = found->option[v];
        for (int32_t i = 0; i < p->options[v]; i++) {
            struct assigned with = {0};
            found->option[v] = i;
            assign_evaluate(p, found->option, &with);
            none &= !(with.fits && with.time < found->time * (1 - 1e-9));
        }
        found->option[v] = own;
    }
    return none;
}

/* A descent does not look again at what nothing near has changed for, and ends all the same where no single
 * change is better; where edges are known to hold no memory it looks less, with the same answer. */
static void settled_variables_are_at_their_best(void **state)
{
    struct assign_options one = {.search = SEARCH_CD, .rounds = 1};
    struct rng rng;
    (void)state;
    rng_seed(&rng, 5);
    for (int i = 0; i < rounds_of(300); i++) {
        struct arena *keep = arena_new();
        struct shape shape = tangle(&rng, 2 + (int32_t)rng_below(&rng, MOST_VARIABLES - 1));
        struct assign *p = draw_problem(keep, &rng, &shape);
        for (int32_t e = 0; e < p->edges; e++)
            for (int32_t k = 0; k < p->options[p->edge[e].a] * p->options[p->edge[e].b]; k++)
                p->edge[e].memory[k] = 0;
        struct assigned more, less;
        assign_solve(p, &one, keep, &more);
        for (int32_t e = 0; e < p->edges; e++)
            p->edge[e].most_memory = 0;
        assign_solve(p, &one, keep, &less);
        assert_memory_equal(less.option, more.option, sizeof *more.option * (size_t)p->variables);
        assert_true(!less.fits || no_change_is_better(p, &less));
        arena_free(keep);
    }
}

static void find_entry(void *context, int32_t edge, int32_t a, int32_t b)
{
    struct assign **both = context; /* to, from */
    int32_t at = a * both[0]->options[both[0]->edge[edge].b] + b;
    both[0]->edge[edge].time[at] = both[1]->edge[edge].time[at];
    both[0]->edge[edge].memory[at] = both[1]->edge[edge].memory[at];
}

/* The same problem, of whose edges nothing is known before it is asked for. */
static struct assign *unknown_copy(struct arena *keep, struct assign *p, const struct shape *shape)
{
    struct assign *copy = assign_new(keep, p->variables, p->options, p->edges, shape->end);
    struct assign **both = ARENA_ARRAY(keep, struct assign *, 2);
    both[0] = copy, both[1] = p;
    for (int32_t v = 0; v < p->variables; v++) {
        memcpy(copy->time[v], p->time[v], sizeof(double) * (size_t)p->options[v]);
        memcpy(copy->memory[v], p->memory[v], sizeof(double) * (size_t)p->options[v]);
    }
    copy->limit = p->limit;
    copy->find = find_entry;
    copy->context = both;
    return copy;
}

/* What a bound leaves out would not have been taken: descents go the same way whether bounds are 0 or what they bound. */
static void bounds_change_no_descent(void **state)
{
    struct rng rng;
    (void)state;
    rng_seed(&rng, 11);
    for (int i = 0; i < rounds_of(400); i++) {
        struct arena *keep = arena_new();
        struct shape shape = tangle(&rng, 3 + (int32_t)rng_below(&rng, MOST_VARIABLES - 2));
        struct assign *p = draw_problem(keep, &rng, &shape);
        for (int32_t v = 0; v < p->variables; v++) /* of two that are alike, either may be taken */
            for (int32_t k = 0; k < p->options[v]; k++)
                p->time[v][k] += 1e-3 * rng_uniform(&rng);
        struct assign *unknown = unknown_copy(keep, p, &shape);
        struct assign_options few = {.search = SEARCH_CD, .seed = (uint64_t)i, .rounds = 2};
        struct assigned told, asked;
        assign_solve(p, &few, keep, &told);
        assign_solve(unknown, &few, keep, &asked);
        assert_memory_equal(told.option, asked.option, sizeof *told.option * (size_t)p->variables);
        arena_free(keep);
    }
}

/* ---- P2: splits ------------------------------------------------------------------------------ */

/* All ordered lists of parts for the devices, one dim at most once: by brute force, one level. */
struct naive {
    const struct model *model;
    const struct op *op;
    int64_t batch;
    bool sums;
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
        if (dim == DIM_KV || dim == DIM_DEPTH || (dim == DIM_HEIGHT && !stripes) ||
            dim == DIM_WIDTH || (dim == DIM_BATCH && i > 0) || (dim == SPLIT_COPY && n->sums))
            return false;
        if (dim == SPLIT_COPY)
            continue;
        place = op_find_dim(n->op->kind, (enum dim)dim);
        enum dim_role role = place < 0 ? ROLE_NONE : OP_KINDS[n->op->kind].dims[place].role;
        bool long_attention =
            dim == DIM_SEQ && op_find_dim(n->op->kind, DIM_KV) >= 0 && searched_cp(n->model) > 1;
        if (role != ROLE_SPLIT && role != ROLE_REDUCE && role != ROLE_BATCH && !long_attention &&
            !(stripes && role == ROLE_HALO))
            return false;
        if (role != ROLE_BATCH &&
            (n->op->size[place] < 2 || !split_legal(n->model, n->op, place, split->part[i].degree)))
            return false;
    }
    if (could_be_batch(n, split_degree(split, DIM_SEQ), batch) ||
        could_be_batch(n, split_degree(split, DIM_HEIGHT), batch))
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

static int64_t check_factorisations(const struct model *model)
{
    static const int64_t DEVICES[] = {4, 6, 8};
    int64_t by_position = 0;
    for (int32_t i = 0; i < model->ops; i++)
        for (size_t d = 0; d < COUNT_OF(DEVICES); d++) {
            struct arena *keep = arena_new();
            struct split_mesh mesh = {1, {DEVICES[d]}};
            struct splits all = {0};
            struct split none = split_none();
            splits_of(keep, model, &model->op[i], &mesh, 4, &all);
            struct naive n = {model, &model->op[i], 4, sums_over(&model->op[i]), 0, &all};
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
        assert_int_equal(check_factorisations(model), 0);
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
        assert_int_equal(check_factorisations(model) > 0, i);
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

/* ---- P3: costs against plans ----------------------------------------------------------------- */

static void check_bounds(const char *name)
{
    struct cluster *cluster = open_named(name);
    struct cost *cost;
    assert_int_equal(cost_open(&cluster->node.device, NULL, &cost), WEFT_OK);
    for (int m = 0; m < SMALL_MODEL_COUNT; m += 3) {
        struct model *model = open_small(&SMALL_MODELS[m]);
        struct layout_problem *p = open_problem(model, cluster, cost, 8, 1);
        for (int32_t e = 0; e < p->assign->edges; e++)
            for (int32_t i = 0; i < p->assign->options[p->assign->edge[e].a]; i++)
                for (int32_t j = 0; j < p->assign->options[p->assign->edge[e].b]; j++) {
                    double least = assign_pair_least(p->assign, e, i, j);
                    double time = assign_pair_time(p->assign, e, i, j);
                    assert_true(least <= time * (1 + 1e-9) && time >= 0);
                }
        assert_int_equal(layout_problem_status(p), WEFT_OK);
        layout_problem_free(p);
        model_free(model);
    }
    cost_close(cost);
    cluster_free(cluster);
}

static void bounds_of_edges_hold(void **state)
{
    (void)state;
    check_bounds("dgx-a100:2x2");
    check_bounds("dgx-a100:4x2");
    check_bounds("piz-daint:8");
}

/* On four nodes of four devices, for this model, narrow splits cost 5 % at most; elsewhere it is more. */
static void narrow_splits_are_near_the_optimum(void **state)
{
    struct cluster *cluster = open_named("dgx-a100:4x4");
    struct arena *keep = arena_new();
    struct model *model;
    struct cost *cost;
    double time[3];
    (void)state;
    assert_int_equal(model_open("gpt3-1.3b", "layers: 4, seq: 512", &model), WEFT_OK);
    assert_int_equal(cost_open(&cluster->node.device, NULL, &cost), WEFT_OK);
    for (int64_t batch = 4; batch <= 64; batch *= 4) {
        for (int narrow = 0; narrow <= 2; narrow++) {
            struct layout_case about = {.model = model,
                                        .cluster = cluster,
                                        .cost = cost,
                                        .dtype = DTYPE_BF16,
                                        .policy = POLICY_MIXED,
                                        .global_batch = batch,
                                        .step_samples = batch,
                                        .stages = 1,
                                        .narrow = narrow,
                                        .limit_bytes = INFINITY};
            struct layout_problem *p;
            assert_int_equal(layout_problem_new(&about, &p), WEFT_OK);
            struct assigned found = solve(p->assign, SEARCH_EXACT, keep);
            assert_true(found.bound >= found.time * (1 - 1e-6));
            time[narrow] = found.time;
            layout_problem_free(p);
        }
        assert_true(time[1] >= time[0] * (1 - 1e-9)); /* some of all */
        assert_true(time[2] >= time[1] * (1 - 1e-9));
        assert_true(time[2] <= 1.05 * time[0]);
    }
    cost_close(cost);
    model_free(model);
    cluster_free(cluster);
    arena_free(keep);
}

static struct graph *compile_plan(const struct plan *plan)
{
    struct compile_options options = {.fold = FOLD_NEVER};
    struct graph *graph;
    if (graph_compile(plan, &options, &graph) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    return graph;
}

/* Elements that the steps of a flow move, per device, gathers for the backward pass left out. */
static double moved(const struct graph *graph, enum flow flow)
{
    double volume = 0;
    for (int32_t b = 0; b < graph->blocks; b++)
        for (int32_t i = 0; i < graph->block[b].items; i++) {
            const struct item *item = &graph->block[b].item[i];
            bool forward = graph->block[b].kind == SLOT_FORWARD;
            if (item->kind == ITEM_STEP && item->phase == flow && forward == (flow == FLOW_FORWARD))
                volume += step_volume(item->step);
        }
    return volume;
}

static double edges_volume(const struct layout_problem *p, const int32_t *option, enum flow flow)
{
    double volume = 0;
    for (int32_t e = 0; e < p->assign->edges; e++) {
        struct layout_edge cost =
            layout_edge_cost(p, e, option[p->assign->edge[e].a], option[p->assign->edge[e].b]);
        volume += flow == FLOW_FORWARD ? cost.there : cost.back;
    }
    return volume;
}

/* Data arrives: the graph of whatever is found is proved. Edges are at least what a plan moves, and
 * the same where no tensor is brought to two readers at once (a chain). */
static void plans_move_what_edges_say(void **state)
{
    struct cluster *cluster = open_named("piz-daint:8");
    struct rng rng;
    (void)state;
    rng_seed(&rng, 5);
    for (int i = 0; i < rounds_of(54); i++) {
        int m = i % SMALL_MODEL_COUNT;
        struct model *model = open_small(&SMALL_MODELS[m]);
        struct layout_problem *p = open_problem(model, cluster, NULL, 8, 1);
        struct arena *keep = arena_new();
        struct assign_options options = {.search = i % 2 ? SEARCH_RANDOM : SEARCH_CD,
                                         .seed = (uint64_t)i,
                                         .rounds = i % 2 ? 1 : 3};
        struct assigned found;
        struct plan *plan;
        assign_solve(p->assign, &options, keep, &found);
        assert_int_equal(layout_plan(p, found.option, &plan), WEFT_OK);
        struct graph *graph = compile_plan(plan);
        if (graph_verify(graph) != WEFT_OK)
            fail_msg("%s: %s", model->name, weft_last_error()->message);
        for (int flow = FLOW_FORWARD; flow <= FLOW_GRADIENT; flow++) {
            double edges = edges_volume(p, found.option, (enum flow)flow);
            double plans = moved(graph, (enum flow)flow);
            assert_true(plans <= edges * (1 + 1e-9) + 1e-6);
            if (strcmp(SMALL_MODELS[m].family, "vgg") == 0)
                assert_true(fabs(plans - edges) <= 1e-9 * (1 + edges));
        }
        graph_free(graph);
        plan_free(plan);
        arena_free(keep);
        layout_problem_free(p);
        model_free(model);
    }
    cluster_free(cluster);
}

/* ---- P4: the planner ------------------------------------------------------------------------- */

static struct model *gpt;
static struct cluster *nodes;

static int open_both(void **state)
{
    (void)state;
    return model_open("gpt3-1.3b", "layers: 4, seq: 512", &gpt) ||
           cluster_open("piz-daint:8", &nodes);
}

static int close_both(void **state)
{
    (void)state;
    model_free(gpt);
    cluster_free(nodes);
    return 0;
}

static weft_status ask(struct plan_options options, struct degrees pins, struct planned **out)
{
    struct plan_request request = {
        .model = gpt, .cluster = nodes, .pins = pins, .options = options};
    return plan_search(planner_find("autoddl"), &request, out);
}

static void planner_answers_alike_for_any_threads(void **state)
{
    struct planned *one, *many;
    struct degrees pins = {.global_batch = 32};
    (void)state;
    assert_int_equal(ask((struct plan_options){.threads = 1}, pins, &one), WEFT_OK);
    assert_int_equal(ask((struct plan_options){.threads = 4}, pins, &many), WEFT_OK);
    assert_int_equal(one->trials.len, many->trials.len);
    for (size_t i = 0; i < one->trials.len; i++) {
        assert_int_equal(one->trials.data[i].iteration_ns, many->trials.data[i].iteration_ns);
        assert_string_equal(one->trials.data[i].text, many->trials.data[i].text);
    }
    assert_true(one->trials.data[0].fits && one->candidates > 0 && one->reasons.len > 0);
    planned_free(one);
    planned_free(many);
}

/* ---- P5: layers that differ ------------------------------------------------------------------ */

enum { LAYERS = 4, MOST_IN_LAYER = 64 };

/* The layer that an instance is in, -1: none. */
static int32_t layer_of(const struct plan *plan, int64_t instance)
{
    int32_t layer = 0;
    if (!op_in_layer(plan->model, &plan->model->op[plan->instance[instance].op]))
        return -1;
    for (int64_t i = 0; i < instance; i++)
        layer += plan->ends_layer[i];
    return layer;
}

/* Whether two layers have the same splits. */
static bool layers_alike(const struct plan *plan, int32_t one, int32_t other)
{
    const struct choice *choice[LAYERS][MOST_IN_LAYER];
    int32_t count[LAYERS] = {0};
    for (int64_t i = 0; i < plan->instances; i++) {
        int32_t layer = layer_of(plan, i);
        if (layer >= 0)
            choice[layer][count[layer]++] = plan_choice(plan, i);
    }
    bool same = true;
    for (int32_t k = 0; k < count[one]; k++)
        same &= split_equal(&choice[one][k]->split, &choice[other][k]->split);
    return same;
}

/* Layer l becomes as layer from[l] was. */
static void paint(const struct plan *plan, const int32_t *from, struct plan *out)
{
    for (int64_t i = 0; i < plan->instances; i++) {
        int32_t layer = layer_of(plan, i);
        for (int64_t j = 0; j < plan->instances && layer >= 0; j++)
            if (plan->instance[j].op == plan->instance[i].op && layer_of(plan, j) == from[layer])
                assert_int_equal(plan_choose(out, i, plan_choice(plan, j)), WEFT_OK);
    }
}

/* gpt3-1.3b with 4 layers in 2.2 GiB, where one split for all copies takes 0.588 s. All 16 mixtures of the answer's two
 * kinds of layers are tried. */
static void layers_differ_where_memory_is_short(void **state)
{
    struct planned *planned;
    struct degrees pins = {.global_batch = 32, .memory.limit_bytes = (int64_t)(2.2 * (1 << 30))};
    struct plan_request request = {.model = gpt, .cluster = nodes, .pins = pins};
    (void)state;
    assert_int_equal(ask((struct plan_options){.threads = 1}, pins, &planned), WEFT_OK);
    struct trial best = planned->trials.data[0];
    struct cost *cost;
    assert_int_equal(cost_open(&nodes->node.device, NULL, &cost), WEFT_OK);
    int32_t other = 1;
    while (other < LAYERS && layers_alike(best.plan, 0, other))
        other++;
    assert_true(best.fits && other < LAYERS);
    for (int32_t mask = 0; mask < 1 << LAYERS; mask++) {
        int32_t from[LAYERS];
        struct plan *painted;
        const struct trial *trial;
        for (int32_t l = 0; l < LAYERS; l++)
            from[l] = mask >> l & 1 ? other : 0;
        assert_int_equal(plan_copy(best.plan, &painted), WEFT_OK);
        paint(best.plan, from, painted);
        assert_int_equal(try_plan(&request, cost, painted, "", planned, &trial), WEFT_OK);
        bool uniform = mask == 0 || mask == (1 << LAYERS) - 1;
        double more = uniform ? 1 : 0.999;
        assert_true(!trial->fits ||
                    (double)trial->iteration_ns >= more * (double)best.iteration_ns);
    }
    cost_close(cost);
    planned_free(planned);
}

/* Exact is no slower than what it bounds, plans are checked, pins stay. */
static void planner_keeps_pins_and_checks_plans(void **state)
{
    struct planned *planned;
    struct degrees pins = {.global_batch = 32, .pp = 2};
    (void)state;
    assert_int_equal(ask((struct plan_options){.search = "exact", .threads = 1}, pins, &planned),
                     WEFT_OK);
    for (size_t i = 0; i < planned->trials.len; i++) {
        struct plan *plan = planned->trials.data[i].plan;
        assert_int_equal(plan->stages, 2);
        assert_int_equal(plan->global_batch, 32);
        assert_int_equal(plan_check(plan), WEFT_OK);
    }
    planned_free(planned);
}

/* What nobody would choose is not better than what is chosen. */
static void no_random_plan_is_faster(void **state)
{
    struct planned *planned;
    struct rng rng;
    (void)state;
    rng_seed(&rng, 6);
    assert_int_equal(
        ask((struct plan_options){.threads = 1}, (struct degrees){.global_batch = 32}, &planned),
        WEFT_OK);
    double best = (double)planned->trials.data[0].iteration_ns / 32;
    for (int i = 0; i < rounds_of(20); i++) {
        struct simulate_options options = {.fold = FOLD_ALWAYS};
        struct plan *plan = random_plan(&rng, gpt, nodes);
        struct prediction *prediction;
        assert_int_equal(simulate(plan, &options, &prediction), WEFT_OK);
        if (plan->global_batch <= 32 && plan->dtype == gpt->dtype)
            assert_true((double)prediction->iteration_ns / (double)plan->global_batch >= best);
        prediction_free(prediction);
        plan_free(plan);
    }
    planned_free(planned);
}

/* The constant of Metropolis-Hastings: its name, and that it changes what is accepted. */
static void metropolis_takes_its_constant(void **state)
{
    static const char *const WRONG[] = {"mh:", "mh:0", "mh:-1", "mh:x", "mh:inf", "cd:2"};
    enum assign_search search = SEARCH_CD;
    double beta = 0;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(WRONG); i++)
        assert_false(assign_search_from_name(WRONG[i], &search, &beta));
    assert_true(assign_search_from_name("mh", &search, &beta) && search == SEARCH_MH && beta == 0);
    assert_true(assign_search_from_name("mh:0.5", &search, &beta) && beta == 0.5);
    /* One variable with options of 1, 2, ... 64, in 50 steps: nearly anything is accepted, or only what is no slower. */
    enum { OPTIONS = 64, STEPS = 50 };
    struct arena *arena = arena_new();
    struct assign *problem = assign_new(arena, 1, (int32_t[]){OPTIONS}, 0, NULL);
    problem->limit = INFINITY;
    for (int32_t i = 0; i < OPTIONS; i++)
        problem->time[0][i] = (double)(i + 1);
    struct assigned warm, cold;
    struct assign_options options = {.search = SEARCH_MH, .seed = 1, .rounds = STEPS, .beta = 1e-9};
    assign_solve(problem, &options, arena, &warm);
    options.beta = 1e9;
    assign_solve(problem, &options, arena, &cold);
    assert_int_equal(warm.tried, STEPS + 1);
    assert_in_range(cold.tried, 2, STEPS / 2);
    arena_free(arena);
}

static void planner_says_what_is_wrong(void **state)
{
    struct planned *planned;
    (void)state;
    assert_int_equal(ask((struct plan_options){.search = "best"},
                         (struct degrees){.global_batch = 32}, &planned),
                     WEFT_BAD_INPUT);
    assert_non_null(strstr(weft_last_error()->message, "exhaustive or exact"));
    assert_int_equal(
        ask((struct plan_options){0}, (struct degrees){.global_batch = 32, .tp = 2}, &planned),
        WEFT_BAD_INPUT);
    assert_non_null(strstr(weft_last_error()->message, "--pp only"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_is_exhaustive_on_chains),
        cmocka_unit_test(exact_is_exhaustive_on_series_parallel_graphs),
        cmocka_unit_test(exact_is_exhaustive_on_any_graph),
        cmocka_unit_test(work_is_bounded),
        cmocka_unit_test(searches_find_what_there_is),
        cmocka_unit_test(settled_variables_are_at_their_best),
        cmocka_unit_test(bounds_change_no_descent),
        cmocka_unit_test(splits_are_all_factorisations),
        cmocka_unit_test(long_attention_is_split_by_position),
        cmocka_unit_test(two_levels_are_pairs),
        cmocka_unit_test(narrow_splits_are_some_of_all),
        cmocka_unit_test(bounds_of_edges_hold),
        cmocka_unit_test(narrow_splits_are_near_the_optimum),
        cmocka_unit_test(plans_move_what_edges_say),
        cmocka_unit_test_setup_teardown(planner_answers_alike_for_any_threads, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(planner_keeps_pins_and_checks_plans, open_both, close_both),
        cmocka_unit_test_setup_teardown(layers_differ_where_memory_is_short, open_both, close_both),
        cmocka_unit_test_setup_teardown(no_random_plan_is_faster, open_both, close_both),
        cmocka_unit_test(metropolis_takes_its_constant),
        cmocka_unit_test_setup_teardown(planner_says_what_is_wrong, open_both, close_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
