/* rules.c - what a row of the table comes to for given numbers (target.h, I2): one rule after another.
 *
 *   I1  Devices stay in use: a degree that goes makes dp larger.
 *   I2  Of two levels of state sharding the higher one is nearer: what fitted still fits.
 *   I3  A mended rule stays mended: no later rule brings back what an earlier one took away.
 */
#include <string.h>

#include "schedule/schedule.h"
#include "target/target.h"

/* The numbers that rules look at and mend. */
struct numbers {
    const struct target *target;
    const struct model *model;
    struct degrees *d;
    const int64_t **part_layers;
    int64_t *block;
};

struct rule {
    bool (*broken)(const struct numbers *n);
    const char *(*text)(struct arena *keep, const struct numbers *n);
    void (*mend)(struct numbers *n);
};

static const struct abilities *can(const struct numbers *n)
{
    return &n->target->can;
}

static const char *framework(const struct numbers *n)
{
    return n->target->framework;
}

static enum dtype dtype_of(const struct numbers *n)
{
    return n->d->has_dtype ? n->d->dtype : n->model->dtype;
}

static const char *no_degree(struct arena *keep, const struct numbers *n, const char *name,
                             int64_t degree)
{
    return arena_printf(keep, "%s %lld: %s has no such degree", name, (long long)degree,
                        framework(n));
}

/* ---- degrees --------------------------------------------------------------------------------- */

static bool broken_ep(const struct numbers *n)
{
    return n->d->ep > 1 && !can(n)->ep;
}
static const char *text_ep(struct arena *keep, const struct numbers *n)
{
    return no_degree(keep, n, "ep", n->d->ep);
}
static void mend_ep(struct numbers *n)
{
    n->d->ep = 1;
}

static bool broken_tp(const struct numbers *n)
{
    return n->d->tp > 1 && !can(n)->tp;
}
static const char *text_tp(struct arena *keep, const struct numbers *n)
{
    return no_degree(keep, n, "tp", n->d->tp);
}
static void mend_tp(struct numbers *n)
{
    n->d->dp *= n->d->tp; /* I1 */
    n->d->tp = 1;
    n->d->sequence = false;
}

static bool broken_cp(const struct numbers *n)
{
    return n->d->cp > 1 && !can(n)->cp;
}
static const char *text_cp(struct arena *keep, const struct numbers *n)
{
    return no_degree(keep, n, "cp", n->d->cp);
}
static void mend_cp(struct numbers *n)
{
    n->d->dp *= n->d->cp; /* I1 */
    n->d->cp = 1;
}

static void without_pieces(struct numbers *n)
{
    n->d->pieces = n->d->segments = 1;
    n->d->schedule = can(n)->schedules[0];
    *n->part_layers = NULL;
}

static bool broken_pp(const struct numbers *n)
{
    return n->d->pp > 1 && !can(n)->pp;
}
static const char *text_pp(struct arena *keep, const struct numbers *n)
{
    return no_degree(keep, n, "pp", n->d->pp);
}
static void mend_pp(struct numbers *n)
{
    n->d->dp *= n->d->pp; /* I1 */
    n->d->pp = 1;
    without_pieces(n);
}

static bool broken_tp_in_pipeline(const struct numbers *n)
{
    return n->d->tp > 1 && n->d->pp > 1 && !can(n)->tp_in_pipeline;
}
static const char *text_tp_in_pipeline(struct arena *keep, const struct numbers *n)
{
    return arena_printf(keep, "tp %lld with pp %lld: %s has no tensor parallelism in a pipeline",
                        (long long)n->d->tp, (long long)n->d->pp, framework(n));
}

static bool broken_pieces(const struct numbers *n)
{
    return n->d->pieces > 1 && !(can(n)->pieces && (n->d->pp > 1 || can(n)->folds));
}
static const char *text_pieces(struct arena *keep, const struct numbers *n)
{
    return no_degree(keep, n, "virtual", n->d->pieces);
}

/* ---- sequences ------------------------------------------------------------------------------- */

static bool broken_sequence(const struct numbers *n)
{
    return n->d->tp > 1 && n->d->sequence && !can(n)->sequence;
}
static const char *text_sequence(struct arena *keep, const struct numbers *n)
{
    return arena_printf(keep, "sequence parallelism along tp: %s has none", framework(n));
}
static void mend_sequence(struct numbers *n)
{
    n->d->sequence = false;
}

static bool broken_plain(const struct numbers *n)
{
    return n->d->tp > 1 && !n->d->sequence && !can(n)->plain;
}
static const char *text_plain(struct arena *keep, const struct numbers *n)
{
    return arena_printf(keep, "tp without sequence parallelism: %s always has it", framework(n));
}
static void mend_plain(struct numbers *n)
{
    n->d->sequence = true;
}

static bool has_experts(const struct model *model)
{
    for (int32_t i = 0; i < model->ops; i++)
        if (model->op[i].kind == OP_EXPERT_LINEAR)
            return true;
    return false;
}
static bool broken_plain_experts(const struct numbers *n)
{
    return n->d->tp > 1 && !n->d->sequence && !can(n)->plain_experts && has_experts(n->model);
}
static const char *text_plain_experts(struct arena *keep, const struct numbers *n)
{
    return arena_printf(keep, "experts with tp %lld: %s needs sequence parallelism with them",
                        (long long)n->d->tp, framework(n));
}

/* Rows of frameworks without experts' own degrees need not say that they split them like the rest. */
static unsigned expert_kinds(const struct numbers *n)
{
    return can(n)->experts ? can(n)->experts : EXPERTS_LIKE_TP;
}
static bool broken_etp(const struct numbers *n)
{
    int64_t etp = n->d->etp ? n->d->etp : n->d->tp;
    unsigned kinds = (etp == n->d->tp ? EXPERTS_LIKE_TP : 0U) | (etp == 1 ? EXPERTS_WHOLE : 0U);
    return !(expert_kinds(n) & (kinds ? kinds : EXPERTS_OTHERWISE)) && has_experts(n->model);
}
static const char *text_etp(struct arena *keep, const struct numbers *n)
{
    return arena_printf(keep, "experts of tp %lld in a model of tp %lld: %s has no such degrees",
                        (long long)(n->d->etp ? n->d->etp : n->d->tp), (long long)n->d->tp,
                        framework(n));
}
static void mend_etp(struct numbers *n)
{
    struct expert_mesh mesh;
    n->d->etp = expert_kinds(n) & EXPERTS_LIKE_TP ? 0 : 1;
    if (!expert_mesh(n->d, &mesh))
        n->d->ep = 1;
}

static bool broken_half_experts(const struct numbers *n)
{
    return n->d->ep > 1 && !can(n)->half_experts && dtype_of(n) == DTYPE_FP16;
}
static const char *text_half_experts(struct arena *keep, const struct numbers *n)
{
    return arena_printf(keep, "ep %lld in fp16: %s needs bf16", (long long)n->d->ep, framework(n));
}

static int64_t sequence_unit(const struct numbers *n)
{
    int64_t along = can(n)->tp_pieces ? n->d->tp : 1;
    return n->d->cp > 1 || along > 1 ? along * can(n)->cp_pieces * n->d->cp : 1;
}
static bool broken_unit(const struct numbers *n)
{
    return can(n)->cp_pieces && n->model->seq % sequence_unit(n);
}
static const char *text_unit(struct arena *keep, const struct numbers *n)
{
    return arena_printf(keep, "tp %lld cp %lld: %s needs sequences of a multiple of %lld, not %lld",
                        (long long)n->d->tp, (long long)n->d->cp, framework(n),
                        (long long)sequence_unit(n), (long long)n->model->seq);
}
static void mend_unit(struct numbers *n)
{
    mend_cp(n);
    if (broken_unit(n))
        mend_tp(n);
}

/* ---- order and state ------------------------------------------------------------------------- */

static bool broken_schedule(const struct numbers *n)
{
    for (const char *const *name = can(n)->schedules; *name && n->d->schedule; name++)
        if (strcmp(*name, n->d->schedule) == 0)
            return false;
    return n->d->schedule != NULL;
}
static const char *text_schedule(struct arena *keep, const struct numbers *n)
{
    return arena_printf(keep, "schedule %s: %s does not know it", n->d->schedule, framework(n));
}
static void mend_schedule(struct numbers *n)
{
    n->d->segments = 1;
    n->d->schedule =
        n->d->pieces > 1 ? schedule_default(n->d->pieces, 1)->name : can(n)->schedules[0];
}

static unsigned shards_of(const struct numbers *n)
{
    const struct degrees *d = n->d;
    unsigned shards = d->pp > 1 ? can(n)->pipeline_shards : can(n)->shards;
    bool alone = d->tp == 1 && d->cp == 1 && d->pp == 1 && d->ep == 1;
    return can(n)->lone_replicas && !alone && d->dp * d->cp > 1 ? shards & ~(unsigned)SHARD_0
                                                                : shards;
}
static bool broken_shard(const struct numbers *n)
{
    return !(shards_of(n) & 1U << n->d->shard);
}
static const char *text_shard(struct arena *keep, const struct numbers *n)
{
    bool elsewhere = can(n)->shards & 1U << n->d->shard;
    return arena_printf(keep, "state sharding %d: %s has no such level%s", n->d->shard,
                        framework(n), elsewhere ? " beside other degrees" : "");
}
/* I2 */
static void mend_shard(struct numbers *n)
{
    unsigned shards = shards_of(n);
    int shard = n->d->shard;
    while (shard < 4 && !(shards & 1U << shard))
        shard++;
    if (shard == 4)
        for (shard = n->d->shard; shard > 0 && !(shards & 1U << shard);)
            shard--;
    n->d->shard = shard;
}

static bool broken_dtype(const struct numbers *n)
{
    return !(can(n)->dtypes & 1U << dtype_of(n));
}
static const char *text_dtype(struct arena *keep, const struct numbers *n)
{
    return arena_printf(keep, "dtype %s: %s has no such products", dtype_name(dtype_of(n)),
                        framework(n));
}
static void mend_dtype(struct numbers *n)
{
    n->d->has_dtype = true;
    n->d->dtype = DTYPE_BF16;
}

/* ---- recomputation --------------------------------------------------------------------------- */

static bool broken_products(const struct numbers *n)
{
    return *n->block == BLOCK_PRODUCTS && !can(n)->products;
}
static const char *text_products(struct arena *keep, const struct numbers *n)
{
    return arena_printf(keep, "recomputation of all but products: %s recomputes whole layers",
                        framework(n));
}
static void mend_block(struct numbers *n)
{
    *n->block = 0;
}

static bool broken_block(const struct numbers *n)
{
    return *n->block > 0 && !can(n)->block;
}
static const char *text_block(struct arena *keep, const struct numbers *n)
{
    return arena_printf(keep, "recomputation of %lld layers per part: %s recomputes all or none",
                        (long long)*n->block, framework(n));
}

static bool broken_selective(const struct numbers *n)
{
    return n->d->recompute == RECOMPUTE_SELECTIVE && !can(n)->selective;
}
static const char *text_selective(struct arena *keep, const struct numbers *n)
{
    return arena_printf(keep, "selective recomputation: %s recomputes whole layers", framework(n));
}
static void mend_selective(struct numbers *n)
{
    n->d->recompute = RECOMPUTE_FULL;
}

static bool broken_offload(const struct numbers *n)
{
    return n->d->offload && !can(n)->offload;
}
static const char *text_offload(struct arena *keep, const struct numbers *n)
{
    return arena_printf(keep, "offload: %s keeps checkpoints on the device", framework(n));
}
static void mend_offload(struct numbers *n)
{
    n->d->offload = false;
}

static bool broken_uneven(const struct numbers *n)
{
    return *n->part_layers && !can(n)->uneven;
}
static const char *text_uneven(struct arena *keep, const struct numbers *n)
{
    return arena_printf(keep, "uneven stages: %s deals layers out equally", framework(n));
}
static void mend_uneven(struct numbers *n)
{
    *n->part_layers = NULL;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static const struct rule RULES[] = {
    {broken_ep, text_ep, mend_ep},
    {broken_tp, text_tp, mend_tp},
    {broken_cp, text_cp, mend_cp},
    {broken_unit, text_unit, mend_unit},
    {broken_pp, text_pp, mend_pp},
    {broken_tp_in_pipeline, text_tp_in_pipeline, mend_tp},
    {broken_pieces, text_pieces, without_pieces},
    {broken_etp, text_etp, mend_etp},
    {broken_sequence, text_sequence, mend_sequence},
    {broken_plain, text_plain, mend_plain},
    {broken_plain_experts, text_plain_experts, mend_plain},
    {broken_schedule, text_schedule, mend_schedule},
    {broken_shard, text_shard, mend_shard},
    {broken_dtype, text_dtype, mend_dtype},
    {broken_half_experts, text_half_experts, mend_dtype},
    {broken_products, text_products, mend_block},
    {broken_block, text_block, mend_block},
    {broken_selective, text_selective, mend_selective},
    {broken_offload, text_offload, mend_offload},
    {broken_uneven, text_uneven, mend_uneven},
};

bool target_runs_degrees(const struct target *target, const struct model *model,
                         const struct degrees *degrees)
{
    struct degrees d = *degrees;
    int64_t *const left_open[] = {&d.dp, &d.tp, &d.pp, &d.cp, &d.ep, &d.pieces, &d.segments};
    const int64_t *part_layers = NULL;
    int64_t block = 0;
    struct numbers n = {target, model, &d, &part_layers, &block};
    for (size_t i = 0; i < COUNT_OF(left_open); i++)
        if (*left_open[i] == 0)
            *left_open[i] = 1;
    for (size_t i = 0; i < COUNT_OF(RULES); i++)
        if (RULES[i].broken(&n))
            return false;
    return true;
}

/* A replica's share of the batch is whole micro-batches. */
static void fit_micro_batch(struct degrees *d)
{
    int64_t share = d->global_batch / d->dp;
    while (share && share % d->micro_batch)
        d->micro_batch--;
}

void obey_rules(struct arena *keep, const struct target *target, const struct plan *plan,
                struct recognised *r)
{
    struct numbers n = {target, plan->model, &r->degrees, &r->part_layers, &r->block};
    for (size_t i = 0; i < COUNT_OF(RULES); i++)
        if (RULES[i].broken(&n)) {
            add_text(keep, &r->differences, RULES[i].text(keep, &n));
            RULES[i].mend(&n);
        }
    fit_micro_batch(&r->degrees);
}
