/* problem.c - the request in the form that the searches need. */
#include <math.h>
#include <string.h>

#include "search/aceso/room.h"

/* ---- pins ------------------------------------------------------------------------------------ */

static struct estimate_settings settings_of(const struct plan_request *request)
{
    const struct degrees *pins = &request->pins;
    enum dtype dtype = pins->has_dtype ? pins->dtype : request->model->dtype;
    return (struct estimate_settings){
        .cluster = request->cluster,
        .dtype = dtype,
        .policy = pins->has_policy ? pins->policy : policy_for(dtype),
        .overlap = pins->has_overlap ? pins->overlap : OVERLAP_ALL,
        .software = pins->software,
        .optimizer = pins->optimizer,
        .replicate = pins->replicate,
        .group = pins->group,
        .optimizer_offload = pins->optimizer_offload,
        .bucket_bytes = degrees_bucket_bytes(pins),
        .memory = pins->memory,
        .whole_sends = pins->whole_sends,
        .profile = request->profile,
        .flows = request->flows,
    };
}

static weft_status schedules_of(const struct degrees *pins, bool any, unsigned *out)
{
    const struct schedule *all;
    size_t count = schedule_all(&all);
    *out = 0;
    bool one = pins->pieces > 1 || pins->segments > 1 || !any;
    const char *only = pins->schedule ? pins->schedule
                       : one          ? schedule_default(pins->pieces, pins->segments)->name
                                      : NULL;
    for (size_t i = 0; i < count; i++)
        if (only ? strcmp(all[i].name, only) == 0 : all[i].searched)
            *out |= 1U << i;
    if (!*out)
        return bad_argument("weft plan --help names the schedules", "no schedule is called '%s'",
                            only);
    return WEFT_OK;
}

/* What a search may use. */
struct scope {
    const char *name;
    unsigned more;     /* 1 << enum primitive: those it may use in addition to Table 1 */
    unsigned shards;   /* 1 << ZeRO stage */
    bool schedules;    /* schedules other than 1f1b */
    bool whole_layers; /* recompute whole layers or nothing */
    bool after;        /* a level of recomputation for the operators after a softmax */
    bool largest;      /* levels are operators by what they keep, the largest first */
};
static const struct scope SCOPES[] = {
    {"all", ~0U, 1U << 0 | 1U << 1 | 1U << 2 | 1U << 3, true, false, false, false},
    {"paper", 0, 1U << 0, false, false, false, false},
    {"artifact", 0, 1U << 0, false, false, true, false},
    {"largest", 0, 1U << 0, false, false, false, true},
    {"bmw", 1U << INC_SHARD | 1U << DEC_SHARD, 1U << 0 | 1U << 3, false, true, false, false},
};

static weft_status scope_of(const struct plan_request *request, const struct scope **out)
{
    const char *space = request->options.space ? request->options.space : SCOPES[0].name;
    for (size_t i = 0; i < COUNT_OF(SCOPES); i++)
        if (strcmp(space, SCOPES[i].name) == 0) {
            *out = &SCOPES[i];
            return WEFT_OK;
        }
    return bad_argument("paper: the primitives of Aceso's Table 1; artifact: the same, with the "
                        "recomputation of the authors' plans; largest: the same, with operators "
                        "recomputed by what they keep; bmw: what the planner galvatron chooses "
                        "from, too; all: Weft's, too",
                        "the planner aceso has no space '%s', expected all, paper, artifact, "
                        "largest or bmw",
                        space);
}

static unsigned primitives_of(const struct scope *scope)
{
    unsigned out = scope->more;
    for (int i = 0; i < PRIMITIVE_COUNT; i++)
        out |= PRIMITIVES[i].paper ? 1U << i : 0;
    return out;
}

/* Only a pin asks for what the primitives of the scope cannot change. */
static struct doubled opened(const struct problem *p, enum primitive raises, int64_t pin,
                             int64_t most)
{
    bool may = p->primitives >> raises & 1 && !pin;
    return (struct doubled){pin ? pin : 1, may ? most : pin ? pin : 1};
}

static void open_degrees(struct problem *p)
{
    const struct plan_request *request = p->request;
    p->cp = opened(p, INC_CP, request->pins.cp, searched_cp(request->model));
    p->ep = opened(p, INC_EP, request->pins.ep, searched_ep(request->model));
    bool any = p->cp.least < p->cp.most || p->ep.least < p->ep.most;
    p->primitive_end = any ? PRIMITIVE_COUNT : INC_CP;
}

/* ---- the model ------------------------------------------------------------------------------- */

static struct degrees plain_degrees(const struct degrees *pins, enum recompute recompute)
{
    struct degrees d = *pins;
    d.dp = d.tp = d.pp = d.cp = d.ep = d.pieces = d.segments = d.micro_batch = 1;
    d.global_batch = 1;
    d.cp_heads = 0;
    d.sequence = false;
    d.recompute = recompute;
    return d;
}

/* Finds the operators that a kind of recomputation recomputes. */
static weft_status named_by(struct problem *p, enum recompute recompute, bool *out)
{
    struct degrees d = plain_degrees(&p->request->pins, recompute);
    struct choice *choice;
    weft_status status;
    TRY(lower_degrees(p->request->model, &d, p->arena, &choice));
    for (int32_t i = 0; i < p->request->model->ops; i++)
        out[i] = choice[i].recompute;
done:
    return status;
}

static double flops_of(const struct problem *p, int32_t op)
{
    const struct op *o = &p->request->model->op[op];
    return op_work(o, o->size, p->settings.dtype, PHASE_FORWARD).flops;
}

static void add_level(struct problem *p, const bool *mask)
{
    size_t bytes = (size_t)p->request->model->ops * sizeof *mask;
    if (p->levels == 0 || memcmp(p->recomputed[p->levels - 1], mask, bytes) != 0)
        p->recomputed[p->levels++] = mask;
}

/* Of the operators that selective recomputation names, those after a softmax, if one of them is a
 * dropout: of all operators these free the most bytes for their time. */
static void find_after_softmax(const struct model *model, const bool *selective, bool *out)
{
    bool after = false, drops = false;
    for (int32_t i = 0; i < model->ops; i++) {
        after &= selective[i];
        out[i] = after;
        drops |= after && model->op[i].kind == OP_DROPOUT;
        after |= selective[i] && model->op[i].kind == OP_SOFTMAX;
    }
    for (int32_t i = 0; i < model->ops && !drops; i++)
        out[i] = false;
}

static double kept_by(const struct problem *p, int32_t op)
{
    const struct model *model = p->request->model;
    int64_t size[OP_MAX_DIMS];
    op_full_size(&model->op[op], 1, size);
    return op_kept_bytes(model, &model->op[op], size, p->settings.dtype) *
           (double)op_copies(model, &model->op[op]);
}

/* Levels by what operators keep, the largest first (Aceso, section 4.1): each of LARGEST_LEVELS frees at least an equal
 * share of the bytes that are left, and one operator more. */
static void add_largest(struct problem *p, const bool *full)
{
    enum { LARGEST_LEVELS = MOST_LEVELS - 2 };
    int32_t ops = p->request->model->ops;
    bool *now = ARENA_ARRAY(p->arena, bool, (size_t)ops);
    double left = 0;
    for (int32_t i = 0; i < ops; i++)
        left += full[i] ? kept_by(p, i) : 0;
    for (int level = 0; level < LARGEST_LEVELS; level++) {
        bool *next = ARENA_ARRAY(p->arena, bool, (size_t)ops);
        double share = left / (LARGEST_LEVELS - level + 1), freed = 0;
        memcpy(next, now, (size_t)ops * sizeof *next);
        for (int32_t most = 0; most >= 0 && freed < share;) {
            most = -1;
            for (int32_t i = 0; i < ops; i++)
                if (full[i] && !next[i] && (most < 0 || kept_by(p, i) > kept_by(p, most)))
                    most = i;
            if (most >= 0) {
                next[most] = true;
                freed += kept_by(p, most);
            }
        }
        left -= freed;
        add_level(p, next);
        now = next;
    }
}

/* rows.c, I1 */
static weft_status find_levels(struct problem *p, const struct scope *scope)
{
    enum { NONE, AFTER_SOFTMAX, SELECTIVE, NO_PRODUCTS, FULL };
    const struct degrees *pins = &p->request->pins;
    const struct model *model = p->request->model;
    enum { KINDS = FULL + 1 };
    bool *mask[KINDS], any = false;
    weft_status status;
    for (int i = 0; i < KINDS; i++)
        mask[i] = ARENA_ARRAY(p->arena, bool, (size_t)model->ops);
    if (pins->has_recompute) {
        TRY(named_by(p, pins->recompute, mask[NONE]));
        add_level(p, mask[NONE]);
        goto done;
    }
    TRY(named_by(p, RECOMPUTE_SELECTIVE, mask[SELECTIVE]));
    TRY(named_by(p, RECOMPUTE_FULL, mask[FULL]));
    for (int32_t i = 0; i < model->ops; i++)
        any |= mask[FULL][i];
    for (int32_t i = 0; i < model->ops; i++) {
        /* A model without layers: all of it. */
        mask[FULL][i] |= !any && model->op[i].kind != OP_LOSS;
        mask[SELECTIVE][i] &= mask[FULL][i];
        mask[NO_PRODUCTS][i] = mask[SELECTIVE][i] || (mask[FULL][i] && flops_of(p, i) == 0);
    }
    if (scope->after)
        find_after_softmax(model, mask[SELECTIVE], mask[AFTER_SOFTMAX]);
    if (scope->largest) {
        add_level(p, mask[NONE]);
        add_largest(p, mask[FULL]);
        add_level(p, mask[FULL]);
        goto done;
    }
    for (int i = 0; i < KINDS; i += scope->whole_layers ? FULL : 1)
        add_level(p, mask[i]);
done:
    return status;
}

static void find_tp(struct problem *p)
{
    struct arena *scratch = arena_new();
    bool *goes = ARENA_ARRAY(p->arena, bool, (size_t)p->node + 1);
    for (int64_t tp = 1; tp <= p->node; tp++) {
        struct degrees d = plain_degrees(&p->request->pins, RECOMPUTE_NONE);
        struct choice *choice;
        d.tp = tp;
        d.sequence = p->request->pins.sequence;
        goes[tp] = lower_degrees(p->request->model, &d, scratch, &choice) == WEFT_OK;
    }
    error_clear();
    p->tp_goes = goes;
    arena_free(scratch);
}

/* Finds the operators of which tp can split either the outputs or the inputs, up to the number of
 * bits in a variant. */
static void find_flips(struct problem *p)
{
    const struct model *model = p->request->model;
    int8_t *flip = ARENA_ARRAY(p->arena, int8_t, (size_t)model->ops);
    int8_t bits = 0;
    for (int32_t i = 0; i < model->ops; i++) {
        enum op_kind kind = model->op[i].kind;
        bool flips = op_find_dim(kind, DIM_OUT) >= 0 && op_find_dim(kind, DIM_IN) >= 0;
        flip[i] = flips && bits < 32 ? bits++ : (int8_t)-1;
    }
    p->flip = flip;
}

static struct tied_pair find_tied(const struct plan *plan)
{
    struct tied_pair pair = {-1, -1};
    int32_t tied = -1;
    for (int64_t i = 0; i < plan->instances && tied < 0; i++) {
        const struct op *op = &plan->model->op[plan->instance[i].op];
        tied = op->weights ? op->weight[0].tied_op : -1;
        pair.user = tied < 0 ? -1 : i;
    }
    for (int64_t i = 0; i < plan->instances && tied >= 0 && pair.owner < 0; i++)
        pair.owner = plan->instance[i].op == tied ? i : -1;
    return pair;
}

/* Layers are what full recomputation names; a model without any counts as one layer. */
static weft_status find_layers(struct problem *p)
{
    bool *named = ARENA_ARRAY(p->arena, bool, (size_t)p->request->model->ops);
    int32_t first = -1, end = 0;
    weft_status status;
    TRY(named_by(p, RECOMPUTE_FULL, named));
    for (int32_t i = 0; i < p->instances; i++) {
        first = first < 0 && named[p->op[i]] ? i : first;
        end = named[p->op[i]] ? i + 1 : end;
    }
    p->layers_first = first < 0 ? 0 : first;
    p->layers_end = first < 0 ? (int32_t)p->instances : end;
done:
    return status;
}

static weft_status read_instances(struct problem *p)
{
    struct plan *plan = NULL;
    weft_status status;
    TRY(plan_new(p->request->model, p->request->cluster, &plan));
    p->instances = plan->instances;
    double *flops = ARENA_ARRAY(p->arena, double, (size_t)plan->instances + 1);
    int32_t *op = ARENA_ARRAY(p->arena, int32_t, (size_t)plan->instances);
    bool layers = false;
    for (int64_t i = 0; i < plan->instances; i++) {
        op[i] = plan->instance[i].op;
        /* The 1 makes every cut differ. */
        flops[i + 1] = flops[i] + flops_of(p, plan->instance[i].op) + 1;
        layers |= plan->ends_layer[i] && i + 1 < plan->instances;
    }
    p->flops = flops;
    p->op = op;
    p->tied = find_tied(plan);
    TRY(find_layers(p));
    for (int64_t i = 1; i < plan->instances; i++) {
        int32_t place = (int32_t)i;
        bool border = place == p->layers_first || place == p->layers_end;
        array_push(p->arena, &p->cuts[GRAIN_OPERATORS], place);
        if (!layers || plan->ends_layer[i - 1] || border)
            array_push(p->arena, &p->cuts[GRAIN_LAYERS], place);
    }
done:
    plan_free(plan);
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static weft_status list_batches(struct problem *p)
{
    if (p->global_batch < 1)
        return bad_argument("such as --global-batch 512", "plan needs the samples of an iteration");
    ARRAY(int64_t) list = {0};
    for (int64_t b = 1; b <= p->global_batch; b = divisor_above(p->global_batch, b))
        array_push(p->arena, &list, b);
    p->step_sizes = list.data;
    p->step_size_count = (int32_t)list.len;
    return WEFT_OK;
}

const struct aceso_study *aceso_study_of(const struct plan_request *request)
{
    static const struct aceso_study NOTHING = {0};
    return request->aceso_study ? request->aceso_study : &NOTHING;
}

weft_status problem_new(const struct plan_request *request, struct problem **out)
{
    struct arena *arena = arena_new();
    struct problem *p = ARENA_NEW(arena, struct problem);
    const struct degrees *pins = &request->pins;
    struct memory_budget budget = memory_budget(&request->cluster->node.device, &pins->memory);
    const struct scope *scope = SCOPES;
    weft_status status;
    *p = (struct problem){.request = request,
                          .study = aceso_study_of(request),
                          .arena = arena,
                          .settings = settings_of(request),
                          .devices = cluster_devices(request->cluster),
                          .node = request->cluster->node.devices,
                          .global_batch = pins->global_batch,
                          .tune = true};
    TRY(scope_of(request, &scope));
    TRY(list_batches(p));
    TRY(schedules_of(pins, scope->schedules, &p->schedules));
    p->primitives = primitives_of(scope);
    open_degrees(p);
    p->shards = pins->has_shard ? 1U << pins->shard : scope->shards;
    p->most_hops = request->options.given >> TAKES_MAX_HOPS & 1 ? (int32_t)request->options.max_hops
                                                                : USUAL_HOPS;
    p->limit_bytes = p->study->count /* which knows what is reserved */
                         ? budget_room(&budget)
                         : estimate_limit_bytes(request->cluster, &pins->memory);
    p->stop = plan_stop(request);
    TRY(folding_new(arena, request->model, request->cluster, &p->fold));
    p->settings.model = &p->fold.model;
    TRY(find_levels(p, scope));
    TRY(read_instances(p));
    find_tp(p);
    find_flips(p);
    *out = p;
    return WEFT_OK;
done:
    problem_free(p);
    return status;
}

void problem_free(struct problem *problem)
{
    if (problem)
        arena_free(problem->arena);
}

bool problem_over(const struct problem *problem)
{
    struct stop stop = problem->stop;
    if (stop.deadline_s > 0)
        stop.deadline_s -= problem->spare_s;
    return stop_now(&stop);
}

void problem_spare(struct problem *problem, double trial_s)
{
    problem->spare_s = fmax(problem->spare_s, trial_s);
}

/* Replaces a trial's memory by the study's count. */
static void recount(const struct memory_count *count, const struct plan *plan, struct trial *trial)
{
    struct arena *scratch = arena_new();
    int64_t *bytes = ARENA_ARRAY(scratch, int64_t, (size_t)plan->stages);
    count_plan(count, plan, bytes);
    trial->needed_bytes = 0;
    for (int32_t s = 0; s < plan->stages; s++)
        if (bytes[s] > trial->needed_bytes) {
            trial->needed_bytes = bytes[s];
            trial->stage = s;
        }
    trial->limit_bytes = trial->room_bytes = plan_room_bytes(plan);
    trial->fits = trial->needed_bytes <= trial->limit_bytes;
    arena_free(scratch);
}

weft_status problem_try(const struct problem *problem, struct cost *cost, struct plan *plan,
                        const char *text, struct planned *planned, const struct trial **trial)
{
    weft_status status = try_plan(problem->request, cost, plan, text, planned, trial);
    if (!status && problem->study->count)
        recount(problem->study->count, plan, &planned->trials.data[planned->trials.len - 1]);
    return status;
}

int32_t problem_stage_counts(const struct problem *p, int32_t out[MOST_STAGES])
{
    int64_t pinned = p->request->pins.pp;
    int64_t most = p->devices < p->instances ? p->devices : p->instances;
    int32_t count = 0;
    for (int others = 0; others < 2; others++)
        for (int64_t n = 1; n <= most && n <= MOST_STAGES; n++) {
            bool power = (n & (n - 1)) == 0, wanted = pinned ? n == pinned : n <= USUAL_STAGES;
            if (power != (bool)others && (wanted || (power && !pinned)))
                out[count++] = (int32_t)n;
        }
    return count;
}
