/* layout_problem.c - operators' splits as an assignment (layout_problem.h has the equations). */
#include "search/autoddl/layout_room.h"

/* The most entries of all edges after options were dropped: each entry takes 40 bytes. */
static const double MOST_ENTRIES = 4e6;

/* ---- the graph ------------------------------------------------------------------------------- */

static struct layout_uses *uses_between(struct layout_problem *p, int32_t a, int32_t b, bool tie)
{
    struct layout_work *w = p->work;
    for (size_t i = 0; i < w->edges.len; i++)
        if (w->edges.data[i].a == a && w->edges.data[i].b == b && w->edges.data[i].tie == tie)
            return &w->edges.data[i];
    struct layout_uses uses = {.a = a, .b = b, .tie = tie};
    array_push(p->arena, &w->edges, uses);
    return &w->edges.data[w->edges.len - 1];
}

static void add_use(struct layout_problem *p, int32_t a, int32_t b, int32_t operand)
{
    struct layout_uses *uses = uses_between(p, a, b, false);
    for (size_t i = 0; i < uses->list.len; i++)
        if (uses->list.data[i].operand == operand) {
            uses->list.data[i].count++;
            return;
        }
    struct layout_use use = {operand, 1};
    array_push(p->arena, &uses->list, use);
}

static weft_status find_graph(struct layout_problem *p)
{
    const struct plan *plan = p->work->plan;
    struct outline outline = {0};
    weft_status status;
    TRY(outline_compile(plan, &outline));
    for (int64_t i = plan->instances - 1; i >= 0; i--) {
        p->work->first[plan->instance[i].op] = i;
        p->work->copies[plan->instance[i].op]++;
    }
    p->work->follows = ARENA_ARRAY(p->arena, int32_t, (size_t)plan->instances);
    for (int64_t i = 0; i < plan->instances; i++) {
        p->work->follows[i] = -1;
        for (int64_t u = outline.use_first[i + 1] - 1; u >= outline.use_first[i]; u--)
            if (i && outline.source[u] == i - 1)
                p->work->follows[i] = (int32_t)(u - outline.use_first[i]);
        for (int64_t u = outline.use_first[i]; u < outline.use_first[i + 1]; u++)
            if (outline.source[u] >= 0)
                add_use(p, plan->instance[outline.source[u]].op, plan->instance[i].op,
                        (int32_t)(u - outline.use_first[i]));
    }
    for (int32_t op = 0; op < plan->model->ops; op++)
        if (layout_tied_to(&plan->model->op[op]) >= 0 && p->about.stages == 1)
            uses_between(p, layout_tied_to(&plan->model->op[op]), op, true); /* I3 */
done:
    outline_free(&outline);
    return status;
}

/* ---- options and their layouts --------------------------------------------------------------- */

static struct layout *lay_all(struct layout_problem *p, int32_t op, const struct operand *operand,
                              enum flow flow)
{
    const struct splits *splits = &p->splits[op];
    struct layout *all = ARENA_ARRAY(p->arena, struct layout, splits->len);
    for (size_t i = 0; i < splits->len; i++)
        all[i] = layout_of(&p->about.model->op[op], operand, &splits->data[i],
                           p->about.step_samples, flow);
    return all;
}

static void lay_operator(struct layout_problem *p, int32_t number)
{
    const struct op *op = &p->about.model->op[number];
    struct layout_laid *laid = &p->work->laid[number];
    laid->output = lay_all(p, number, &op->output, FLOW_FORWARD);
    laid->output_grad = lay_all(p, number, &op->output, FLOW_GRADIENT);
    laid->input = ARENA_ARRAY(p->arena, struct layout *, (size_t)op->inputs);
    laid->input_grad = ARENA_ARRAY(p->arena, struct layout *, (size_t)op->inputs);
    for (int32_t i = 0; i < op->inputs; i++) {
        laid->input[i] = lay_all(p, number, &op->input[i], FLOW_FORWARD);
        laid->input_grad[i] = lay_all(p, number, &op->input[i], FLOW_GRADIENT);
    }
}

struct choice layout_choice(const struct layout_problem *p, int32_t op, int32_t option)
{
    const struct op *about = &p->about.model->op[op];
    return (struct choice){.split = p->splits[op].data[option],
                           .shard = p->about.shard,
                           .recompute = p->about.recompute && op_in_layer(p->about.model, about)};
}

static void keep_layouts(struct layout *layout, const int32_t *option, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        layout[i] = layout[option[i]];
}

void layout_keep_options(struct layout_problem *p, int32_t number, const int32_t *option,
                         int32_t count)
{
    struct layout_laid *laid = &p->work->laid[number];
    keep_layouts(laid->output, option, count);
    keep_layouts(laid->output_grad, option, count);
    for (int32_t k = 0; k < p->about.model->op[number].inputs; k++) {
        keep_layouts(laid->input[k], option, count);
        keep_layouts(laid->input_grad[k], option, count);
    }
    for (int32_t i = 0; i < count; i++) {
        p->splits[number].data[i] = p->splits[number].data[option[i]];
        p->work->alone[number][i] = p->work->alone[number][option[i]];
    }
    p->splits[number].len = (size_t)count;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static weft_status carrier_new(struct layout_problem *p)
{
    const struct layout_case *about = &p->about;
    struct plan *plan;
    weft_status status;
    TRY(plan_new(about->model, about->cluster, &plan));
    p->work->plan = plan;
    plan->dtype = about->dtype;
    plan->policy = about->policy;
    plan->global_batch = about->global_batch;
    plan->step_samples = about->step_samples;
    TRY(plan_map(plan, 1, 1, NULL, &p->work->devices));
done:
    return status;
}

static void list_options(struct layout_problem *p, const struct split_mesh *mesh)
{
    const struct model *model = p->about.model;
    p->splits = ARENA_ARRAY(p->arena, struct splits, (size_t)model->ops);
    p->work->laid = ARENA_ARRAY(p->arena, struct layout_laid, (size_t)model->ops);
    for (int32_t i = 0; i < model->ops; i++) {
        splits_of(p->arena, model, &model->op[i], mesh, p->about.step_samples, &p->splits[i]);
        lay_operator(p, i);
    }
}

/* Sorts edges within one operator to the end; their times belong to the operator. */
static int32_t sort_edges(struct layout_problem *p)
{
    struct layout_work *w = p->work;
    size_t kept = 0;
    for (size_t i = 0; i < w->edges.len; i++) {
        if (w->edges.data[i].a == w->edges.data[i].b)
            continue;
        struct layout_uses uses = w->edges.data[i];
        w->edges.data[i] = w->edges.data[kept];
        w->edges.data[kept++] = uses;
    }
    return (int32_t)kept;
}

static void make_assign(struct layout_problem *p)
{
    int32_t edges = sort_edges(p), ops = p->about.model->ops;
    int32_t *options = ARENA_ARRAY(p->arena, int32_t, (size_t)ops);
    int32_t(*ends)[2] = arena_alloc(p->arena, (size_t)edges + 1, sizeof *ends);
    for (int32_t i = 0; i < ops; i++)
        options[i] = (int32_t)p->splits[i].len;
    for (int32_t e = 0; e < edges; e++) {
        ends[e][0] = p->work->edges.data[e].a;
        ends[e][1] = p->work->edges.data[e].b;
    }
    p->assign = assign_new(p->arena, ops, options, edges, (const int32_t(*)[2])ends);
    p->work->found = ARENA_ARRAY(p->arena, struct layout_uses_time *, (size_t)edges + 1);
    for (int32_t e = 0; e < edges; e++) {
        p->assign->edge[e].most_memory = p->work->edges.data[e].tie ? INFINITY : 0;
        p->work->found[e] = ARENA_ARRAY(p->arena, struct layout_uses_time,
                                        (size_t)options[ends[e][0]] * (size_t)options[ends[e][1]]);
    }
    for (int32_t op = 0; op < ops; op++)
        for (int32_t i = 0; i < options[op]; i++) {
            p->assign->time[op][i] = p->work->alone[op][i].time;
            p->assign->memory[op][i] = p->work->alone[op][i].memory;
        }
    p->assign->limit = p->about.limit_bytes;
    p->assign->find = layout_find_pair;
    p->assign->least = layout_least_of_pair;
    p->assign->context = p;
}

static void add_own_edges(struct layout_problem *p)
{
    for (size_t e = (size_t)p->assign->edges; e < p->work->edges.len; e++) {
        const struct layout_uses *uses = &p->work->edges.data[e];
        for (int32_t i = 0; i < p->assign->options[uses->a]; i++)
            p->assign->time[uses->a][i] += layout_own_time(p, uses, i);
    }
}

static void expose_edge(struct layout_problem *p, int32_t e)
{
    const struct assign_edge *edge = &p->assign->edge[e];
    int32_t entries = p->assign->options[edge->a] * p->assign->options[edge->b];
    for (int32_t i = 0; i < entries; i++) {
        edge->least[i] = NAN;
        if (p->work->edges.data[e].tie)
            edge->time[i] = NAN; /* to be found again */
        else if (!isnan(edge->time[i]))
            edge->time[i] = layout_shown_time(p, &p->work->found[e][i]);
    }
}

void layout_expose(struct layout_problem *p, struct layout_exposed exposed)
{
    struct layout_work *w = p->work;
    for (int32_t op = 0; op < p->assign->variables; op++)
        for (int32_t i = 0; i < p->assign->options[op]; i++)
            p->assign->time[op][i] +=
                (exposed.gradients - w->exposed.gradients) * w->alone[op][i].sync;
    w->exposed = exposed;
    for (int32_t e = 0; e < p->assign->edges; e++)
        expose_edge(p, e);
}

/* All choices are made before costs are asked for, because costs are numbered by choice. */
static weft_status fill_operators(struct layout_problem *p)
{
    static const int64_t MANY_PARAMETERS = INT64_C(1) << 32;
    struct layout_work *w = p->work;
    int32_t ops = p->about.model->ops;
    weft_status status = WEFT_OK;
    w->alone = ARENA_ARRAY(p->arena, struct layout_alone *, (size_t)ops);
    for (int32_t op = 0; op < ops; op++) {
        w->alone[op] = ARENA_ARRAY(p->arena, struct layout_alone, p->splits[op].len);
        for (int32_t i = 0; i < (int32_t)p->splits[op].len; i++) {
            struct choice choice = layout_choice(p, op, i);
            TRY(plan_choose(w->plan, w->first[op], &choice));
        }
    }
    w->costs = item_costs_of(p->arena, w->plan, p->about.cost);
    if (!layout_by_volume(p))
        w->parameter_ns =
            (double)optimizer_ns(&w->costs, 0, MANY_PARAMETERS) / (double)MANY_PARAMETERS;
    for (int32_t op = 0; op < ops; op++)
        for (int32_t i = 0; i < (int32_t)p->splits[op].len; i++)
            TRY(layout_fill_option(p, op, i));
done:
    return status;
}

/* Fills in the synchronisation of the options that are left. */
static void fill_syncs(struct layout_problem *p)
{
    for (int32_t op = 0; op < p->about.model->ops; op++)
        for (int32_t i = 0; i < (int32_t)p->splits[op].len; i++)
            layout_fill_sync(p, op, i);
}

/* The least time of a byte for groups of any size at any distance, as far as devices are numbered
 * evenly. What all devices of a node take from other nodes enters the node through its links. */
static weft_status find_byte_ns(struct layout_problem *p)
{
    static const double NS_PER_S = 1e9;
    int64_t within = p->about.cluster->node.devices;
    double most = 1, apart = 0;
    weft_status status = WEFT_OK;
    for (int64_t stride = 1; stride < p->work->devices; stride *= 2)
        for (int64_t count = 2; count * stride <= p->work->devices; count *= 2) {
            struct group group = group_range(0, count, stride);
            for (int c = 0; c < COLLECTIVE_BROADCAST; c++) {
                double rate;
                TRY(collective_bandwidth(p->about.cluster, (enum collective)c, &group, &rate));
                most = rate > most ? rate : most;
                apart = stride >= within && rate > apart ? rate : apart;
            }
        }
    p->work->byte_ns = NS_PER_S / most;
    p->work->node_byte_ns = apart > 0 ? NS_PER_S / (apart * (double)within) : 0;
done:
    return status;
}

/* Fills in everything but options. */
static weft_status begin(struct layout_problem *p)
{
    struct layout_work *w = p->work;
    const struct layout_case *about = &p->about;
    size_t ops = (size_t)about->model->ops;
    double micro_batches = (double)(about->global_batch / about->step_samples);
    weft_status status;
    w->devices = cluster_devices(about->cluster) / about->stages;
    w->each = (micro_batches - 1) / about->stages + 1;
    w->once = 1.0 / about->stages;
    w->exposed = (struct layout_exposed){1, 1};
    w->first = ARENA_ARRAY(p->arena, int64_t, ops);
    w->copies = ARENA_ARRAY(p->arena, double, ops);
    w->reshards = reshards_beside(about->reshards);
    w->times = about->times ? step_times_beside(p->arena, about->times)
                            : step_times_new(p->arena, about->cluster, w->devices);
    TRY(find_byte_ns(p));
    TRY(carrier_new(p));
    TRY(find_graph(p));
done:
    return status;
}

/* The number of entries of the edges between options that are left. */
static double count_entries(const struct layout_problem *p)
{
    double sum = 0;
    for (size_t e = 0; e < p->work->edges.len; e++) {
        const struct layout_uses *uses = &p->work->edges.data[e];
        sum += uses->a == uses->b ? 0
                                  : (double)p->splits[uses->a].len * (double)p->splits[uses->b].len;
    }
    return sum;
}

/* Makes the options, with their floor if it is asked for. */
static weft_status build_floor(struct layout_problem *p)
{
    struct split_mesh mesh;
    weft_status status;
    TRY(begin(p));
    mesh = split_mesh_of(p->about.cluster, p->work->devices);
    mesh.narrow = p->about.narrow;
    mesh.blocks = p->about.blocks;
    list_options(p, &mesh);
    TRY(fill_operators(p));
    if (p->about.below_ns > 0)
        TRY(layout_find_floor(p));
done:
    return status;
}

static weft_status build_floor_only(struct layout_problem *p)
{
    p->work->floor_only = true;
    return build_floor(p);
}

static weft_status build(struct layout_problem *p)
{
    weft_status status;
    TRY(build_floor(p));
    bool wanted = p->about.below_ns <= 0 || p->floor_ns < p->about.below_ns;
    if (p->about.drop)
        wanted &= count_entries(p) <= MOST_ENTRIES;
    if (wanted) {
        fill_syncs(p);
        make_assign(p);
        add_own_edges(p);
    }
done:
    return status;
}

/* Options as degrees without order and position: nothing else matters for what an operator takes on
 * its own. */
static weft_status build_by_degrees(struct layout_problem *p)
{
    struct split_mesh mesh;
    weft_status status;
    TRY(begin(p));
    mesh = (struct split_mesh){
        .levels = 1, .devices = {p->work->devices}, .unordered = true, .blocks = p->about.blocks};
    list_options(p, &mesh);
    TRY(fill_operators(p));
    TRY(layout_find_floor(p));
done:
    return status;
}

static weft_status open_case(const struct layout_case *about,
                             weft_status (*how)(struct layout_problem *p),
                             struct layout_problem **out)
{
    struct arena *arena = arena_new();
    struct layout_problem *p = ARENA_NEW(arena, struct layout_problem);
    *p = (struct layout_problem){.arena = arena, .about = *about};
    p->work = ARENA_NEW(arena, struct layout_work);
    weft_status status = how(p);
    if (status) {
        layout_problem_free(p);
        return status;
    }
    *out = p;
    return WEFT_OK;
}

weft_status layout_problem_new(const struct layout_case *about, struct layout_problem **out)
{
    return open_case(about, build, out);
}

static weft_status floor_of(const struct layout_case *about,
                            weft_status (*how)(struct layout_problem *p), double *floor_ns)
{
    struct layout_problem *p;
    weft_status status;
    TRY(open_case(about, how, &p));
    *floor_ns = p->floor_ns;
    layout_problem_free(p);
done:
    return status;
}

weft_status layout_floor(const struct layout_case *about, double *floor_ns)
{
    struct layout_case whole = *about;
    whole.below_ns = 0;
    return floor_of(&whole, build_by_degrees, floor_ns);
}

weft_status layout_floor_below(const struct layout_case *about, double *floor_ns)
{
    return floor_of(about, build_floor_only, floor_ns);
}

void layout_problem_free(struct layout_problem *p)
{
    if (!p)
        return;
    plan_free(p->work->plan);
    reshards_free(p->work->reshards);
    arena_free(p->arena);
}

weft_status layout_problem_status(const struct layout_problem *p)
{
    return step_times_status(p->work->times);
}

/* ---- plans ----------------------------------------------------------------------------------- */

weft_status layout_plan(const struct layout_problem *p, const int32_t *option, struct plan **out)
{
    const struct layout_case *about = &p->about;
    struct plan *plan = NULL;
    weft_status status;
    TRY(plan_new(about->model, about->cluster, &plan));
    plan->dtype = about->dtype;
    plan->policy = about->policy;
    plan->global_batch = about->global_batch;
    plan->step_samples = about->step_samples;
    TRY(plan_map_even(plan, about->stages, 1, NULL));
    for (int64_t i = 0; i < plan->instances; i++) {
        int32_t op = plan->instance[i].op;
        struct choice choice = layout_choice(p, op, option[op]);
        TRY(plan_choose(plan, i, &choice));
    }
    TRY(plan_check(plan));
    *out = plan;
    plan = NULL;
done:
    plan_free(plan);
    return status;
}
