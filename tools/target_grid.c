/* target_grid.c - the best plan of a framework's grid by brute force: every combination of degrees, kind of cp,
 * micro-batch, pieces, state sharding, recomputation, by lists of modules, too, and tokens to experts hidden or not that its
 * rules allow is simulated. The measure of `weft plan --for`.
 *
 *   target_grid MODEL CLUSTER GLOBAL_BATCH TARGET [OPTIONS OF THE MODEL [SECONDS [KNOWN]]]
 *
 * prints one line of JSON: the time of the best plan that fits (null: none does), the plan, how many plans were
 * simulated, and whether all were before the time was over. With the iteration of a known plan, in seconds, only plans
 * that are faster count: null then says that the grid has none.
 *
 *   I1  Recomputation only adds work: where a combination fits without it, none with it is tried.
 *   I2  The memory of a plan that is slower than the best so far is not looked at.
 *   I3  Where the state of a stage alone is more than its device has, nothing fits that differs in recomputation only.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "search/search.h"

/* Words of Megatron's list are bits of degrees.modules (plan/modules.c). */
enum { MOST_MODULES = 8 };

struct hunt {
    const struct model *model;
    const struct cluster *cluster;
    const struct target *target;
    struct arena *arena;
    struct cost *cost;
    struct degrees asked;
    unsigned modules; /* words of recomputation that stand for something in the model */
    double until_s;   /* of processor time */
    int64_t plans, best_ns;
    const char *best;
    bool over;
};

static weft_status settled(const struct hunt *h, const struct degrees *d, int64_t block,
                           struct plan **out)
{
    weft_status status = plan_of_degrees(h->model, h->cluster, d, NULL, block, out);
    if (status)
        return status;
    target_settle(h->target, &h->asked, *out);
    return plan_check(*out);
}

/* I3 */
static bool has_room_for_state(const struct plan *plan)
{
    for (int32_t stage = 0; stage < plan->stages; stage++) {
        double bytes = 0;
        for (int32_t part = stage; part < plan->parts; part = plan_next_part(plan, part))
            for (int64_t k = 0; k < plan->part[part].count; k++) {
                struct stage_memory m = plan_instance_state(plan, plan->part[part].first + k);
                bytes += stage_memory_state(&m);
            }
        if (bytes > (double)plan_stage_device(plan, stage)->memory_bytes)
            return false;
    }
    return true;
}

/* Whether some recomputation may make the degrees fit. */
static bool may_fit(const struct hunt *h, const struct degrees *d)
{
    struct plan *plan = NULL;
    bool may = settled(h, d, 0, &plan) == WEFT_OK && has_room_for_state(plan);
    error_clear();
    plan_free(plan);
    return may;
}

/* Whether the plan fits; true as well where it is slower than the best, so that nothing like it is tried. */
static bool try_plan_of(struct hunt *h, const struct degrees *d, int64_t block)
{
    struct plan *plan = NULL;
    struct prediction *p = NULL;
    struct simulate_options options = {.fold = FOLD_ALWAYS, .cost = h->cost, .times_only = true};
    bool fits = false;
    h->over |= (double)clock() / CLOCKS_PER_SEC > h->until_s;
    if (h->over || settled(h, d, block, &plan) || simulate(plan, &options, &p)) {
        error_clear();
        plan_free(plan);
        return h->over;
    }
    h->plans++;
    bool slower = h->best_ns && p->iteration_ns >= h->best_ns; /* I2 */
    prediction_free(p);
    p = NULL;
    options.times_only = false;
    if (!slower && simulate(plan, &options, &p) == WEFT_OK && p->fits) {
        fits = true;
        h->best_ns = p->iteration_ns;
        h->best =
            arena_printf(h->arena, "%s%s", degrees_flags(h->arena, h->model, d),
                         block ? arena_printf(h->arena, " block %lld", (long long)block) : "");
    }
    error_clear();
    prediction_free(p);
    plan_free(plan);
    return fits || slower;
}

/* Every list of modules but those that have more in them than one that fits or is slower: I1. Numbers of lists are
 * larger than those of their parts. */
static void try_lists(struct hunt *h, struct degrees d)
{
    unsigned closed[1U << MOST_MODULES], count = 0;
    d.recompute = RECOMPUTE_SELECTIVE;
    for (d.modules = 1; d.modules <= h->modules; d.modules++) {
        bool of_use =
            (d.modules & ~h->modules) == 0 && modules_without_parts(d.modules) == d.modules;
        for (unsigned i = 0; of_use && i < count; i++)
            of_use = (closed[i] & ~d.modules) != 0;
        if (of_use && try_plan_of(h, &d, 0))
            closed[count++] = d.modules;
    }
}

/* I1 */
static void try_recompute(struct hunt *h, struct degrees d)
{
    const struct abilities *can = &h->target->can;
    d.recompute = RECOMPUTE_NONE;
    if (!may_fit(h, &d) || try_plan_of(h, &d, 0))
        return;
    d.recompute = RECOMPUTE_SELECTIVE;
    if (can->selective && try_plan_of(h, &d, 0))
        return;
    if (can->selective)
        try_lists(h, d);
    if (d.overlap & OVERLAP_EXPERTS && !can->hides_recomputed)
        return;
    d.recompute = RECOMPUTE_FULL;
    if (can->products)
        try_plan_of(h, &d, BLOCK_PRODUCTS);
    int64_t layers = ceil_div(h->model->layers, d.pp * d.pieces);
    for (int64_t block = 1; can->block && block < layers; block++)
        if (try_plan_of(h, &d, block))
            return;
    try_plan_of(h, &d, 0);
}

static void try_state(struct hunt *h, struct degrees d)
{
    for (d.shard = 0; d.shard < 4; d.shard++) {
        bool of_use = d.shard == 0 || d.dp * d.cp > 1;
        if (of_use && target_runs_degrees(h->target, h->model, &d))
            try_recompute(h, d);
    }
}

/* The tokens' way to experts and back hidden, too, where passes come in pairs. */
static void try_tokens(struct hunt *h, struct degrees d)
{
    const struct schedule *schedule = schedule_find(d.schedule);
    try_state(h, d);
    if (d.ep == 1 || d.global_batch == d.dp * d.micro_batch ||
        !(h->target->can.may_overlap & OVERLAP_EXPERTS) ||
        !schedule_paired(schedule, (int32_t)d.pp)->ahead)
        return;
    d.has_overlap = true;
    d.overlap = OVERLAP_ALL | OVERLAP_EXPERTS;
    try_state(h, d);
}

static void try_order(struct hunt *h, struct degrees d)
{
    enum { MOST_PIECES = 8 };
    d.pieces = d.segments = 1;
    d.schedule = "1f1b";
    try_tokens(h, d);
    for (d.pieces = 2; d.pp > 1 && d.pieces <= MOST_PIECES; d.pieces++) {
        d.schedule = "interleaved";
        if (d.global_batch / d.dp / d.micro_batch % d.pp == 0 &&
            d.pp * d.pieces <= h->model->layers)
            try_tokens(h, d);
    }
}

/* Experts over the devices of dp, cp and tp, split like the rest or whole. */
static void try_experts(struct hunt *h, struct degrees d)
{
    struct expert_mesh mesh;
    bool experts = model_op_of_kind(h->model, OP_EXPERT_LINEAR) != NULL;
    int64_t most = experts ? d.dp * d.cp * d.tp : 1;
    for (d.ep = 1; d.ep <= most; d.ep++)
        for (d.etp = 0; d.etp <= (experts && d.tp > 1); d.etp++)
            if (expert_mesh(&d, &mesh))
                try_order(h, d);
}

static void try_replica(struct hunt *h, struct degrees d)
{
    int64_t share = d.global_batch / d.dp;
    for (d.micro_batch = 1; d.micro_batch <= share; d.micro_batch++)
        for (int along = 0; share % d.micro_batch == 0 && along <= (d.tp > 1); along++) {
            d.sequence = along != 0;
            try_experts(h, d);
        }
}

/* Keys and values go round a ring, or devices of cp take heads. */
static void try_contexts(struct hunt *h, struct degrees d)
{
    int64_t most = h->target->can.cp_heads ? d.cp : 1;
    for (d.cp_heads = 1; d.cp_heads <= most; d.cp_heads++)
        if (d.cp % d.cp_heads == 0)
            try_replica(h, d);
}

static void try_all(struct hunt *h, int64_t global_batch)
{
    int64_t devices = cluster_devices(h->cluster);
    struct degrees d = h->asked;
    d.global_batch = global_batch;
    d.has_shard = d.has_recompute = true;
    for (d.pp = 1; d.pp <= devices && d.pp <= h->model->layers; d.pp++)
        for (d.tp = 1; devices % d.pp == 0 && d.tp <= devices / d.pp; d.tp++)
            for (d.cp = 1; devices / d.pp % d.tp == 0 && d.cp <= devices / d.pp / d.tp; d.cp++) {
                d.dp = devices / d.pp / d.tp / d.cp;
                if (d.dp * d.cp * d.tp * d.pp == devices && global_batch % d.dp == 0)
                    try_contexts(h, d);
            }
}

/* The words that stand for operators of the model. */
static weft_status find_modules(struct hunt *h)
{
    struct degrees d = {
        .dp = 1, .tp = 1, .pp = 1, .cp = 1, .ep = 1, .recompute = RECOMPUTE_SELECTIVE};
    struct choice *choice;
    weft_status status = WEFT_OK;
    for (int i = 0; i < MOST_MODULES; i++) {
        d.modules = 1U << i;
        TRY(lower_degrees(h->model, &d, h->arena, &choice));
        for (int32_t op = 0; op < h->model->ops; op++)
            h->modules |= choice[op].recompute ? d.modules : 0;
    }
done:
    return status;
}

static weft_status hunt(int argc, char **argv, struct hunt *h)
{
    struct opened_plan opened = {0};
    const char *options = argc > 5 && *argv[5] ? argv[5] : NULL;
    weft_status status;
    TRY(model_open(argv[1], options, &opened.model));
    TRY(cluster_open(argv[2], &opened.cluster));
    TRY(follow_practice(h->arena, argv[1], &options, &h->asked, &opened));
    h->model = opened.model;
    h->cluster = opened.cluster;
    h->target = target_find(argv[4]);
    if (!h->target)
        TRY(WEFT_BAD_INPUT);
    if (h->target->software)
        TRY(software_from_text(h->target->software, &h->asked.software));
    TRY(cost_open(&opened.cluster->node.device, NULL, &h->cost));
    TRY(find_modules(h));
    h->until_s = argc > 6 ? atof(argv[6]) : 1e9;
    h->best_ns = argc > 7 ? (int64_t)(atof(argv[7]) * 1e9) : 0;
    try_all(h, atoll(argv[3]));
    printf("{\"iteration_s\": ");
    if (h->best)
        printf("%.9f", (double)h->best_ns / 1e9);
    else
        printf("null");
    printf(", \"plan\": \"%s\", \"plans\": %lld, \"complete\": %s}\n", h->best ? h->best : "",
           (long long)h->plans, h->over ? "false" : "true");
done:
    cost_close(h->cost);
    plan_close(&opened);
    return status;
}

int main(int argc, char **argv)
{
    struct hunt h = {.arena = arena_new()};
    if (argc < 5) {
        fprintf(stderr,
                "target_grid MODEL CLUSTER GLOBAL_BATCH TARGET [OPTIONS [SECONDS [KNOWN]]]\n");
        return 2;
    }
    weft_status status = hunt(argc, argv, &h);
    if (status)
        fprintf(stderr, "target_grid: %s\n", weft_last_error()->message);
    arena_free(h.arena);
    return status;
}
