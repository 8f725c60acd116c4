/* degrees.c - a plan from a handful of degrees: completes them, checks that they fit, then lowers
 * them.
 *
 *   dp * cp * tp * pp = devices                                                                (1)
 *   global batch = micro batch * dp * micro-batches                                            (2)
 *
 *   I1  After complete(), no degree is 0 and (1) and (2) hold.
 *   I2  Experts have a mesh of their own over the devices of a stage (Megatron's parallel folding):
 *
 *         expert replicas * ep * etp = dp * cp * tp                                            (3)
 *
 *       so ep is not a factor of (1). The replicas take parts of the batch as far as dp goes, then of
 *       the sequence.
 */
#include "plan/plan.h"

#include <string.h>

#include "plan/room.h"
#include "schedule/schedule.h"

const char *recompute_name(enum recompute recompute)
{
    static const char *const NAMES[] = {
        [RECOMPUTE_NONE] = "none",
        [RECOMPUTE_SELECTIVE] = "selective",
        [RECOMPUTE_FULL] = "full",
    };
    _Static_assert(COUNT_OF(NAMES) == RECOMPUTE_COUNT, "a way to recompute without a name");
    return NAMES[recompute];
}

/* ---- legal numbers near an illegal one ------------------------------------------------------- */

bool divides(int64_t number, int64_t whole)
{
    return whole % number == 0;
}

const char *nearest_legal(struct arena *keep, int64_t wanted, int64_t most,
                          bool (*legal)(int64_t number, int64_t with), int64_t with)
{
    int64_t below = wanted - 1 < most ? wanted - 1 : most, above = wanted + 1;
    while (below >= 1 && !legal(below, with))
        below--;
    while (above <= most && !legal(above, with))
        above++;
    if (above > most)
        return arena_printf(keep, "%lld", (long long)below);
    if (below < 1)
        return arena_printf(keep, "%lld", (long long)above);
    return arena_printf(keep, "%lld or %lld", (long long)below, (long long)above);
}

/* ---- completing the degrees ------------------------------------------------------------------ */

static const struct {
    const char *name;
    size_t offset;
} COUNTS[] = {
    {"dp", offsetof(struct degrees, dp)},
    {"tp", offsetof(struct degrees, tp)},
    {"pp", offsetof(struct degrees, pp)},
    {"cp", offsetof(struct degrees, cp)},
    {"ep", offsetof(struct degrees, ep)},
    {"etp", offsetof(struct degrees, etp)},
    {"encoder-tp", offsetof(struct degrees, encoder_tp)},
    {"encoder-dp", offsetof(struct degrees, encoder_dp)},
    {"encoder-pp", offsetof(struct degrees, encoder_pp)},
    {"recompute-layers", offsetof(struct degrees, recompute_layers)},
    {"pieces", offsetof(struct degrees, pieces)},
    {"segments", offsetof(struct degrees, segments)},
    {"micro-batch", offsetof(struct degrees, micro_batch)},
    {"global batch", offsetof(struct degrees, global_batch)},
};

static weft_status check_range(const struct degrees *d)
{
    for (size_t i = 0; i < COUNT_OF(COUNTS); i++) {
        int64_t count;
        memcpy(&count, (const char *)d + COUNTS[i].offset, sizeof count);
        if (count < 0 || count > INT32_MAX)
            return bad_argument(NULL, "%s is %lld, expected 1 to 2^31 - 1", COUNTS[i].name,
                                (long long)count);
    }
    if (d->cp_heads < CP_HEADS_SOME || d->cp_heads > INT32_MAX)
        return bad_argument(NULL, "cp-heads is %lld, expected 1 to 2^31 - 1",
                            (long long)d->cp_heads);
    if (d->shard < 0 || d->shard > 3)
        return bad_argument(NULL, "state sharding is %d, expected 0, 1, 2 or 3", d->shard);
    return WEFT_OK;
}

static void set_default(int64_t *value, int64_t usual)
{
    if (*value == 0)
        *value = usual;
}

/* tp * pp * cp, or more than any cluster has. */
static int64_t replica_devices(const struct degrees *d)
{
    int64_t devices;
    bool fits = checked_mul(d->tp, d->pp, &devices) && checked_mul(devices, d->cp, &devices);
    return fits ? devices : INT64_MAX;
}

static int64_t largest_divisor(int64_t whole, int64_t most)
{
    int64_t divisor = most < whole ? most : whole;
    while (whole % divisor != 0)
        divisor--;
    return divisor;
}

/* The most devices, of so many, over which all operators with such a dim can spread it; every smaller number that divides it
 * will do. */
static int64_t most_spread(const struct model *model, enum dim dim, int64_t devices)
{
    for (int32_t i = 0; i < model->ops; i++) {
        const struct op *op = &model->op[i];
        int at = op_find_dim(op->kind, dim);
        devices = at >= 0 ? common_divisor(devices, op->size[at]) : devices;
    }
    return devices;
}

/* The devices of one replica do not divide those of the cluster: names a degree to change, tp
 * first; if changing a single one is not enough, all three. */
static weft_status replica_misfit(const struct degrees *d, const struct model *model,
                                  const struct cluster *cluster)
{
    int64_t all = cluster_devices(cluster), replica = replica_devices(d);
    const struct {
        const char *name;
        int64_t degree;
        enum dim dim; /* that it divides; DIM_COUNT: none */
    } order[] = {{"tp", d->tp, DIM_HEAD}, {"pp", d->pp, DIM_COUNT}, {"cp", d->cp, DIM_SEQ}};
    struct arena *scratch = arena_new();
    weft_status status = bad_argument(
        NULL, "tp %lld * pp %lld * cp %lld is %s, which does not divide the %lld of %s",
        (long long)d->tp, (long long)d->pp, (long long)d->cp, counted(replica, "device").s,
        (long long)all, cluster->name);
    for (size_t i = 0; i < COUNT_OF(order); i++) {
        int64_t others = replica / order[i].degree;
        if (all % others == 0 && order[i].degree > 1) {
            int64_t most = most_spread(model, order[i].dim, all / others);
            error_hint("use %s %s", order[i].name,
                       nearest_legal(scratch, order[i].degree, most, divides, most));
            arena_free(scratch);
            return status;
        }
    }
    int64_t tp = largest_divisor(all, d->tp), pp = largest_divisor(all / tp, d->pp);
    error_hint("use tp %lld, pp %lld, cp %lld", (long long)tp, (long long)pp,
               (long long)largest_divisor(all / tp / pp, d->cp));
    arena_free(scratch);
    return status;
}

static weft_status complete_dp(struct degrees *d, const struct model *model,
                               const struct cluster *cluster)
{
    int64_t all = cluster_devices(cluster), replica = replica_devices(d);
    weft_status dp = encoder_complete_dp(d, model, all);
    if (dp != WEFT_OK)
        return dp;
    if (d->encoder_pp)
        all -= d->encoder_pp * encoder_devices(d, model);
    if (all < 1 || all % replica)
        return replica_misfit(d, model, cluster);
    set_default(&d->dp, all / replica); /* (1) */
    if (d->dp == all / replica)
        return WEFT_OK;
    weft_status status = bad_argument(
        NULL, "dp %lld * tp %lld * pp %lld * cp %lld is %s, %s has %lld%s", (long long)d->dp,
        (long long)d->tp, (long long)d->pp, (long long)d->cp, counted(d->dp * replica, "device").s,
        cluster->name, (long long)all, d->encoder_pp ? " beside the encoder's" : "");
    error_hint("use dp %lld, or leave it out", (long long)(all / replica));
    return status;
}

static bool has_kind_with(const struct model *model, enum dim dim)
{
    for (int32_t i = 0; i < model->ops; i++) {
        int at = op_find_dim(model->op[i].kind, dim);
        if (at >= 0 && model->op[i].size[at] > 1)
            return true;
    }
    return false;
}

weft_status degrees_suit(const struct degrees *d, const struct model *model)
{
    if (d->ep > 1 && !has_kind_with(model, DIM_EXPERT))
        return bad_argument("leave ep out", "ep %lld spreads experts, and %s has none",
                            (long long)d->ep, model->name);
    if (d->cp > 1 && !has_kind_with(model, DIM_SEQ))
        return bad_argument("leave cp out", "cp %lld splits sequences, and %s has none",
                            (long long)d->cp, model->name);
    return WEFT_OK;
}

bool expert_mesh(const struct degrees *d, struct expert_mesh *out)
{
    int64_t etp = d->etp ? d->etp : d->tp, all = d->dp * d->cp * d->tp, taken;
    if (!checked_mul(d->ep, etp, &taken) || all % taken)
        return false;
    int64_t replicas = all / taken, batch = replicas < d->dp ? replicas : d->dp;
    *out = (struct expert_mesh){batch, replicas / batch, d->ep, etp};
    return replicas % batch == 0 && d->dp % batch == 0; /* I2 */
}

static weft_status check_experts(struct degrees *d, const struct model *model)
{
    struct expert_mesh mesh;
    int64_t etp = d->etp ? d->etp : d->tp, all = d->dp * d->cp * d->tp;
    if (d->etp == d->tp || !has_kind_with(model, DIM_EXPERT))
        d->etp = 0;            /* says nothing new */
    if (expert_mesh(d, &mesh)) /* (3) */
        return WEFT_OK;
    struct arena *scratch = arena_new();
    weft_status status = bad_argument(NULL,
                                      "ep %lld * etp %lld does not divide dp %lld * cp %lld * tp "
                                      "%lld, whose devices the experts share",
                                      (long long)d->ep, (long long)etp, (long long)d->dp,
                                      (long long)d->cp, (long long)d->tp);
    int64_t most = all % etp ? 0 : most_spread(model, DIM_EXPERT, all / etp);
    if (most)
        error_hint("use ep %s", nearest_legal(scratch, d->ep, most, divides, most));
    else
        error_hint("use etp %s", nearest_legal(scratch, etp, all, divides, all));
    arena_free(scratch);
    return status;
}

static bool has_attention(const struct model *model)
{
    for (int32_t i = 0; i < model->ops; i++)
        if (model->op[i].kind == OP_ATTENTION)
            return true;
    return false;
}

/* Makes cp_heads a number that divides cp. */
static weft_status complete_cp_heads(struct degrees *d, const struct model *model)
{
    int64_t heads = cp_heads_of(d, model);
    d->cp_heads = heads > 1 ? heads : 0;
    if (heads > 1 && !has_attention(model))
        return bad_argument(
            "use fused attention, such as --set attention=flash, or leave cp-heads out",
            "cp-heads %lld divides the heads of fused attention, and %s has none", (long long)heads,
            model->name);
    if (d->cp % heads == 0)
        return WEFT_OK;
    struct arena *scratch = arena_new();
    weft_status status = bad_argument(NULL, "cp-heads %lld does not divide cp %lld",
                                      (long long)heads, (long long)d->cp);
    error_hint("use cp-heads %s", nearest_legal(scratch, heads, d->cp, divides, d->cp));
    arena_free(scratch);
    return status;
}

/* State is copied across as many groups of replicas; what shares it is the rest. */
static weft_status check_replicate(const struct degrees *d)
{
    int64_t replicas = d->dp * d->cp;
    if (d->replicate <= 1 || replicas % d->replicate == 0)
        return WEFT_OK;
    struct arena *scratch = arena_new();
    weft_status status = bad_argument(
        NULL, "replicate %lld does not divide dp %lld * cp %lld, which share the state",
        (long long)d->replicate, (long long)d->dp, (long long)d->cp);
    error_hint("use replicate %s",
               nearest_legal(scratch, d->replicate, replicas, divides, replicas));
    arena_free(scratch);
    return status;
}

static weft_status check_recompute(const struct degrees *d)
{
    if (!d->recompute_layers || d->recompute == RECOMPUTE_FULL)
        return WEFT_OK;
    return bad_argument("give recompute full as well, or leave recompute-layers out",
                        "recompute-layers %lld says of how many layers all is recomputed, but "
                        "recompute is %s",
                        (long long)d->recompute_layers, recompute_name(d->recompute));
}

/* Neighbours of a stage follow from the order; all of them need no word. */
static weft_status complete_order(struct degrees *d)
{
    weft_status status = d->order ? order_run(d, &d->stage_run) : WEFT_OK;
    d->order = NULL;
    if (d->pp == 1 || d->stage_run >= d->dp * d->cp * d->tp)
        d->stage_run = 0;
    return status;
}

static weft_status complete_batch(struct degrees *d)
{
    int64_t step = d->dp * d->micro_batch;
    set_default(&d->global_batch, step * d->pp);
    if (d->global_batch % step == 0) /* (2) */
        return WEFT_OK;
    int64_t below = d->global_batch / step * step;
    weft_status status = bad_argument(
        NULL, "the global batch of %lld is not a multiple of dp %lld * micro-batch %lld = %lld",
        (long long)d->global_batch, (long long)d->dp, (long long)d->micro_batch, (long long)step);
    if (below)
        error_hint("use %lld or %lld", (long long)below, (long long)(below + step));
    else
        error_hint("use %lld", (long long)step);
    return status;
}

static weft_status unknown_schedule(const char *name)
{
    const struct schedule *all;
    size_t count = schedule_all(&all);
    return unknown_name("schedule", name, all, sizeof *all, count);
}

/* Its pieces are those of the model per stage, unless others were given. */
static weft_status load_lists(struct degrees *d, struct arena *scratch)
{
    struct schedule *listed = NULL;
    weft_status status = schedule_load(scratch, d->schedule, &listed);
    d->listed = listed;
    if (!status && d->pieces == 1)
        d->pieces = listed->lists->pipeline.pieces;
    return status;
}

/* In a folded schedule, segments are the pieces. */
static weft_status complete_schedule(struct degrees *d, struct arena *scratch)
{
    if (d->pieces > 1 && d->segments > 1 && d->pieces != d->segments)
        return bad_argument("segments are the pieces of a folded schedule: give one of them",
                            "%lld pieces and %lld segments per stage", (long long)d->pieces,
                            (long long)d->segments);
    if (!d->schedule)
        d->schedule = schedule_default(d->pieces, d->segments)->name;
    if (d->segments > d->pieces)
        d->pieces = d->segments;
    if (!d->listed && schedule_is_file(d->schedule))
        return load_lists(d, scratch);
    return d->listed || schedule_find(d->schedule) ? WEFT_OK : unknown_schedule(d->schedule);
}

static weft_status bad_layout(const struct degrees *d, const struct pipeline_layout *layout,
                              const char *what)
{
    weft_status status =
        bad_argument(NULL, "the pipeline's layout is '%.60s': %s", d->layout, what);
    error_hint("%s", layout->hint);
    return status;
}

/* The pieces follow from the parts. */
static weft_status complete_layout(struct degrees *d, struct arena *scratch,
                                   struct pipeline_layout *out)
{
    if (!d->layout)
        return WEFT_OK;
    const char *wrong = pipeline_layout_read(scratch, d->layout, out);
    int64_t given = d->segments > d->pieces ? d->segments : d->pieces;
    if (wrong)
        return bad_layout(d, out, wrong);
    if (out->parts % d->pp)
        return bad_layout(d, out, "the number of parts is no multiple of the pipeline's size");
    if (given > 1 && given != out->parts / d->pp)
        return bad_layout(d, out, "it has other pieces per stage than were given");
    d->pieces = out->parts / d->pp;
    return WEFT_OK;
}

static weft_status complete(struct degrees *d, const struct model *model,
                            const struct cluster *cluster, struct arena *scratch,
                            struct pipeline_layout *layout)
{
    weft_status status;
    TRY(check_range(d));
    int64_t *const ones[] = {&d->tp,     &d->pp,       &d->cp,         &d->ep,
                             &d->pieces, &d->segments, &d->micro_batch};
    for (size_t i = 0; i < COUNT_OF(ones); i++)
        set_default(ones[i], 1);
    TRY(complete_dp(d, model, cluster));
    TRY(degrees_suit(d, model));
    TRY(complete_cp_heads(d, model));
    TRY(check_experts(d, model));
    TRY(encoder_complete(d, model));
    TRY(check_replicate(d));
    TRY(check_recompute(d));
    TRY(complete_order(d));
    TRY(complete_batch(d));
    TRY(complete_layout(d, scratch, layout));
    TRY(complete_schedule(d, scratch));
done:
    return status;
}

/* ---- the plan -------------------------------------------------------------------------------- */

void set_settings(struct plan *plan, const struct degrees *d)
{
    if (d->has_dtype)
        plan->dtype = d->dtype;
    plan->policy = d->has_policy ? d->policy : policy_for(plan->dtype);
    plan->memory = d->memory;
    if (d->has_overlap)
        plan->overlap = d->overlap;
    plan->software = d->software;
    plan->optimizer = d->optimizer;
    plan->replicate = d->replicate;
    plan->optimizer_offload = d->optimizer_offload;
    plan->stage_run = d->stage_run;
    plan->group = d->group;
    plan->bucket_bytes = degrees_bucket_bytes(d);
    plan->whole_sends = d->whole_sends;
}

static void set_fields(struct plan *plan, const struct degrees *d)
{
    set_settings(plan, d);
    plan->global_batch = d->global_batch;
    plan->step_samples = d->dp * d->micro_batch;
    plan_name_schedule(plan, d->schedule);
    if (d->listed)
        plan_order_by(plan, d->listed);
}

/* Degrees count layers, as in the frameworks that take degrees: operators outside the layers weigh
 * nothing, so equal layers are distributed equally. NULL for a model without layers: FLOPs. */
static double *layer_weights(const struct plan *plan, struct arena *scratch)
{
    const struct model *model = plan->model;
    double *weight = ARENA_ARRAY(scratch, double, (size_t)plan->instances);
    const double *flops = forward_flops(model, scratch);
    bool any = false;
    for (int64_t i = 0; i < plan->instances; i++) {
        int32_t op = plan->instance[i].op;
        any |= plan->ends_layer[i];
        bool counts = op_in_layer(model, &model->op[op]) && !in_tower(plan, i); /* towers.c, I4 */
        weight[i] = counts ? flops[op] : 0;
    }
    return any ? weight : NULL;
}

static weft_status map_by_layout(struct plan *plan, const struct degrees *d,
                                 const struct pipeline_layout *layout, struct arena *scratch)
{
    int64_t *cut, *devices = ARENA_ARRAY(scratch, int64_t, (size_t)d->pp);
    for (int64_t s = 0; s < d->pp; s++)
        devices[s] = d->dp * d->cp * d->tp;
    if (layout->layers != plan->model->layers)
        return bad_layout(d, layout,
                          arena_printf(scratch, "%s has %s, expected as many t", plan->model->name,
                                       counted(plan->model->layers, "layer").s));
    if (!cuts_after_layers(scratch, plan, layout->parts, layout->part_layers, &cut))
        return bad_layout(d, layout, "one of its parts is empty");
    return plan_map(plan, (int32_t)d->pp, d->pieces, cut, devices);
}

weft_status plan_from_degrees(const struct model *model, const struct cluster *cluster,
                              const struct degrees *degrees, struct plan **out)
{
    weft_status status;
    struct plan *plan = NULL;
    struct choice *choice;
    struct arena *scratch = arena_new();
    struct degrees d = *degrees;
    struct pipeline_layout layout = {0};
    TRY(complete(&d, model, cluster, scratch, &layout));
    TRY(lower_degrees(model, &d, scratch, &choice));
    TRY(plan_new(model, cluster, &plan));
    set_fields(plan, &d);
    if (d.layout)
        TRY(map_by_layout(plan, &d, &layout, scratch));
    else if (d.encoder_pp)
        TRY(map_with_tower(plan, &d, layer_weights(plan, scratch)));
    else
        TRY(plan_map_even(plan, (int32_t)d.pp, d.pieces, layer_weights(plan, scratch)));
    for (int64_t i = 0; i < plan->instances; i++)
        TRY(plan_choose(plan, i, &choice[plan->instance[i].op]));
    if (d.recompute_layers)
        TRY(plan_recompute_first(plan, d.recompute_layers));
    TRY(plan_join_stages(plan));
    TRY(plan_defer_head(plan, d.defer_head));
    *out = plan;
    plan = NULL;
done:
    plan_free(plan);
    arena_free(scratch);
    return status;
}
