/* rules_degrees.c - rules about degrees and sequences (rules.c). */
#include "schedule/schedule.h"
#include "target/room.h"

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
    n->d->cp_heads = 0;
}

static bool broken_cp_heads(const struct numbers *n)
{
    return cp_heads_of(n->d, n->model) > 1 && !can(n)->cp_heads;
}
static const char *text_cp_heads(struct arena *keep, const struct numbers *n)
{
    return arena_printf(keep, "cp-heads %lld: %s sends keys and values only, by ring or gather",
                        (long long)cp_heads_of(n->d, n->model), framework(n));
}
static void mend_cp_heads(struct numbers *n)
{
    n->d->cp_heads = 0;
}

/* The kinds of cp that a target has for a model, as bits of enum cp_kind. */
static unsigned cp_kinds(const struct numbers *n)
{
    unsigned kinds = can(n)->cp ? ~0U : 0;
    for (int32_t i = 0; i < n->model->ops; i++) {
        const struct op *op = &n->model->op[i];
        bool indexed = op->kind == OP_ATTENTION && op->shared_depth;
        if (op->kind == OP_ATTENTION && op->window && !indexed && can(n)->window_cp)
            kinds &= can(n)->window_cp;
        if (indexed && can(n)->index_cp)
            kinds &= can(n)->index_cp;
        if (op->sinks && can(n)->sink_cp)
            kinds &= can(n)->sink_cp;
    }
    return kinds;
}
static enum cp_kind kind_of_cp(const struct numbers *n)
{
    struct degrees d = *n->d;
    d.cp_heads = cp_heads_of(&d, n->model);
    return cp_kind_of(&d, d.has_overlap ? d.overlap : OVERLAP_ALL);
}
static bool broken_cp_kind(const struct numbers *n)
{
    return n->d->cp > 1 && !(cp_kinds(n) >> kind_of_cp(n) & 1);
}
static const char *text_cp_kind(struct arena *keep, const struct numbers *n)
{
    unsigned kinds = cp_kinds(n);
    const char *words = NULL;
    for (enum cp_kind kind = CP_RING; kind < CP_KIND_COUNT; kind++)
        if (kinds >> kind & 1)
            words = words ? arena_printf(keep, "%s or %s", words, cp_kind_name(kind))
                          : cp_kind_name(kind);
    return arena_printf(keep, "cp %lld by %s: %s has attention with %s only by %s",
                        (long long)n->d->cp, cp_kind_name(kind_of_cp(n)), framework(n),
                        kinds == can(n)->index_cp  ? "an index"
                        : kinds == can(n)->sink_cp ? "sinks"
                                                   : "windows",
                        words);
}

/* Whether so many devices of cp can each take key/value heads of their own, of those that a device of tp has. */
static bool takes_whole_heads(const struct numbers *n, int64_t devices)
{
    for (int32_t i = 0; i < n->model->ops; i++) {
        const struct op *op = &n->model->op[i];
        int64_t own = op->kind == OP_ATTENTION ? size_of(op, DIM_HEAD) / n->d->tp : 0;
        if (op->kind == OP_ATTENTION && op->place != PLACE_TOWER && (own ? own : 1) % devices)
            return false;
    }
    return true;
}
static bool broken_shared_heads(const struct numbers *n)
{
    return n->d->cp > 1 && can(n)->whole_heads &&
           !takes_whole_heads(n, cp_heads_of(n->d, n->model));
}
static const char *text_shared_heads(struct arena *keep, const struct numbers *n)
{
    return arena_printf(keep,
                        "cp-heads %lld with tp %lld: %s gives each device key/value heads of its "
                        "own, and there are fewer",
                        (long long)cp_heads_of(n->d, n->model), (long long)n->d->tp, framework(n));
}
/* By ring, by heads or gathered, whichever there is. */
static void mend_cp_kind(struct numbers *n)
{
    unsigned kinds = cp_kinds(n);
    n->d->cp_heads = 0;
    if (!broken_cp_kind(n))
        return;
    if (kinds >> CP_A2A & 1 && takes_whole_heads(n, n->d->cp))
        n->d->cp_heads = n->d->cp;
    else if (kinds >> CP_GATHER & 1)
        cp_kind_set(CP_GATHER, n->d);
    else
        mend_cp(n);
}

/* The heads of keys of the gated delta rule; 0: the model does not have it. */
static int64_t delta_key_heads(const struct numbers *n)
{
    return size_of(model_op_of_kind(n->model, OP_DELTA), DIM_HEAD);
}
/* In words, what the model has beside which the target has no cp; NULL: nothing. */
static const char *without_cp(const struct numbers *n)
{
    bool delta = (!can(n)->cp || can(n)->delta_cp == DELTA_CP_NONE) && delta_key_heads(n);
    bool sinks = (!can(n)->cp || can(n)->no_sink_cp) && has_sinks(n->model);
    return delta ? "the gated delta rule" : sinks ? "sinks" : NULL;
}
static bool broken_lone(const struct numbers *n)
{
    return n->d->cp > 1 && without_cp(n);
}
static const char *text_lone(struct arena *keep, const struct numbers *n)
{
    return arena_printf(keep, "cp %lld: %s has no such degree beside %s", (long long)n->d->cp,
                        n->target->title, without_cp(n));
}

static bool broken_delta_cp(const struct numbers *n)
{
    return n->d->cp > 1 && can(n)->delta_cp == DELTA_CP_HEADS &&
           delta_key_heads(n) % (n->d->tp * n->d->cp);
}
static const char *text_delta_cp(struct arena *keep, const struct numbers *n)
{
    return arena_printf(keep,
                        "cp %lld with tp %lld: %s divides the %lld heads of keys of the gated "
                        "delta rule by both",
                        (long long)n->d->cp, (long long)n->d->tp, n->target->title,
                        (long long)delta_key_heads(n));
}

static bool broken_cp_in_pipeline(const struct numbers *n)
{
    bool both = can(n)->cp && can(n)->pp && !can(n)->cp_or_pp;
    return n->d->cp > 1 && n->d->pp > 1 && !both;
}
static const char *text_cp_in_pipeline(struct arena *keep, const struct numbers *n)
{
    return arena_printf(keep, "cp %lld with pp %lld: %s has one of them beside images",
                        (long long)n->d->cp, (long long)n->d->pp, n->target->title);
}

/* The tensor degree that the encoder of images has. */
static int64_t encoder_tp(const struct numbers *n)
{
    return n->d->encoder_tp ? n->d->encoder_tp : encoder_usual_tp(n->model, n->d->tp);
}
/* Frameworks that are told by degrees give the encoder those of the decoder, and where heads or widths do not divide, none. */
static bool broken_encoder(const struct numbers *n)
{
    const struct degrees *d = n->d;
    if (n->target->any || !model_has_tower(n->model))
        return false;
    return d->encoder_pp || (d->encoder_dp && d->encoder_dp != d->dp) ||
           (d->encoder_tp && d->encoder_tp != encoder_usual_tp(n->model, d->tp)) ||
           (n->target->images && encoder_tp(n) != d->tp);
}
static const char *text_encoder(struct arena *keep, const struct numbers *n)
{
    const struct degrees *d = n->d;
    return arena_printf(keep,
                        "encoder-tp %lld, encoder-dp %lld and encoder-pp %lld: %s gives the "
                        "encoder of images the decoder's tp %lld and dp %lld on its first stage",
                        (long long)encoder_tp(n),
                        (long long)(d->encoder_dp ? d->encoder_dp : d->dp),
                        (long long)d->encoder_pp, framework(n), (long long)d->tp, (long long)d->dp);
}
static void mend_encoder(struct numbers *n)
{
    n->d->encoder_tp = n->d->encoder_dp = n->d->encoder_pp = 0;
    int64_t usual = encoder_tp(n);
    if (n->target->images && usual != n->d->tp) {
        n->d->dp *= n->d->tp / usual; /* I1 */
        n->d->tp = usual;
        n->d->sequence &= usual > 1;
    }
}

static void without_pieces(struct numbers *n)
{
    n->d->pieces = n->d->segments = 1;
    n->d->group = 0;
    n->d->listed = NULL;
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
    return no_degree(keep, n, n->d->pp > 1 ? "virtual" : "segments", n->d->pieces);
}

/* Some of torchtitan's models have no stages. */
static bool broken_one_stage(const struct numbers *n)
{
    return n->d->pp > 1 && n->target->one_stage && n->target->one_stage(n->model);
}
static const char *text_one_stage(struct arena *keep, const struct numbers *n)
{
    return arena_printf(keep, "pp %lld: %s %s has no stages for such models", (long long)n->d->pp,
                        framework(n), n->target->release);
}

/* PipelineScheduleSingle of torch/distributed/pipelining/schedules.py. */
static int64_t micro_batches_of(const struct numbers *n)
{
    const struct degrees *d = n->d;
    return d->micro_batch && d->dp ? d->global_batch / d->dp / d->micro_batch : 0;
}
static bool broken_full_pipeline(const struct numbers *n)
{
    int64_t micro_batches = micro_batches_of(n);
    return can(n)->full_pipeline && micro_batches && micro_batches < n->d->pp;
}
static const char *text_full_pipeline(struct arena *keep, const struct numbers *n)
{
    return arena_printf(keep, "%s on pp %lld: %s needs as many as stages",
                        counted(micro_batches_of(n), "micro-batch").s, (long long)n->d->pp,
                        framework(n));
}
/* Smaller micro-batches, or else no stages. */
static void mend_full_pipeline(struct numbers *n)
{
    while (n->d->micro_batch > 1 &&
           (broken_full_pipeline(n) || n->d->global_batch / n->d->dp % n->d->micro_batch))
        n->d->micro_batch--;
    if (broken_full_pipeline(n))
        mend_pp(n);
}

/* ScheduleInterleaved1F1B of torch/distributed/pipelining/schedules.py: m / p rounds, rounded down, of as many micro-batches
 * each. */
static struct pipeline pipeline_of(const struct numbers *n)
{
    const struct degrees *d = n->d;
    return (struct pipeline){(int32_t)d->pp, (int32_t)d->pieces, (int32_t)micro_batches_of(n),
                             (int32_t)d->group};
}
static bool broken_groups(const struct numbers *n)
{
    struct pipeline pipeline = pipeline_of(n);
    const struct schedule *schedule = n->d->schedule ? schedule_find(n->d->schedule) : NULL;
    int64_t m = pipeline.micro_batches, rounds = m / n->d->pp;
    if (can(n)->groups || n->d->pieces < 2 || rounds < 1 || !schedule || !schedule->grouped)
        return false;
    return pipeline_group(&pipeline) * rounds != m;
}
static const char *text_groups(struct arena *keep, const struct numbers *n)
{
    struct pipeline pipeline = pipeline_of(n);
    return arena_printf(keep, "%s in groups of %d on pp %lld: %s divides them by %lld",
                        counted(pipeline.micro_batches, "micro-batch").s,
                        (int)pipeline_group(&pipeline), (long long)n->d->pp, framework(n),
                        (long long)(pipeline.micro_batches / n->d->pp));
}
/* The usual groups, or else one piece. */
static void mend_groups(struct numbers *n)
{
    n->d->group = 0;
    if (broken_groups(n))
        without_pieces(n);
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
    const struct op *expert = model_op_of_kind(n->model, OP_EXPERT_LINEAR);
    if (can(n)->biased_experts && expert && has_bias(expert))
        return can(n)->biased_experts;
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

/* ---- all of them ----------------------------------------------------------------------------- */

static const struct target_rule ALL[] = {
    {broken_ep, text_ep, mend_ep},
    {broken_tp, text_tp, mend_tp},
    {broken_cp, text_cp, mend_cp},
    {broken_cp_heads, text_cp_heads, mend_cp_heads},
    {broken_cp_kind, text_cp_kind, mend_cp_kind},
    {broken_shared_heads, text_shared_heads, mend_cp_kind},
    {broken_lone, text_lone, mend_cp},
    {broken_delta_cp, text_delta_cp, mend_cp},
    {broken_unit, text_unit, mend_unit},
    {broken_pp, text_pp, mend_pp},
    {broken_cp_in_pipeline, text_cp_in_pipeline, mend_cp},
    {broken_encoder, text_encoder, mend_encoder},
    {broken_one_stage, text_one_stage, mend_pp},
    {broken_tp_in_pipeline, text_tp_in_pipeline, mend_tp},
    {broken_pieces, text_pieces, without_pieces},
    {broken_etp, text_etp, mend_etp},
    {broken_full_pipeline, text_full_pipeline, mend_full_pipeline},
    {broken_groups, text_groups, mend_groups},
    {broken_sequence, text_sequence, mend_sequence},
    {broken_plain, text_plain, mend_plain},
    {broken_plain_experts, text_plain_experts, mend_plain},
};
const struct target_rules DEGREE_RULES = {ALL, COUNT_OF(ALL)};
