/* primitives.c - the table of reconfiguration primitives (Aceso, Table 1, and Weft's own), and what each
 * of them proposes, except for moved operators (moves.c).
 *
 * Trends say what the stage consumes more or less of: computation, communication, memory.
 * Recomputation is chosen again for every proposal (recompute.c).
 */
#include "search/aceso/room.h"

#include <string.h>

struct proposal *propose(const struct asking *a, int32_t partner, int32_t amount)
{
    if (a->out->count == MOST_PROPOSALS)
        return NULL;
    struct proposal *made = &a->out->data[a->out->count++];
    made->primitive = a->primitive;
    made->stage = a->stage;
    made->partner = partner;
    made->amount = amount;
    config_copy(&made->config, a->from);
    return made;
}

static const struct problem *problem_of(const struct asking *a)
{
    return judge_problem(a->judge);
}

/* ---- manners --------------------------------------------------------------------------------- */

/* Sets tp, cp and ep of a whole stage; ep becomes what divides dp. */
static void set_degrees(struct config *c, int32_t stage, struct manner degrees)
{
    int64_t dp = dp_of(c->devices[stage], degrees.tp, degrees.cp);
    for (int32_t k = stage; k < config_parts(c); k += c->stages)
        for (int i = 0; i < MOST_MANNERS; i++) {
            struct manner *m = &c->part[k].manner[i];
            m->variant = m->tp == degrees.tp ? m->variant : 0;
            m->tp = degrees.tp;
            m->cp = degrees.cp;
            m->ep = (uint16_t)common_divisor(degrees.ep, dp > 0 ? dp : 1);
        }
}

void set_tp(struct config *c, int32_t stage, int64_t tp)
{
    struct manner degrees = *main_manner(c, stage);
    degrees.tp = (uint16_t)tp;
    for (int32_t k = stage; k < config_parts(c); k += c->stages)
        for (int i = 0; i < MOST_MANNERS; i++)
            c->part[k].manner[i].variant = 0;
    set_degrees(c, stage, degrees);
}

static int64_t tp_at(const struct config *c, int32_t stage)
{
    return main_manner(c, stage)->tp;
}

/* The dp degree of a stage with another tp; 0: it does not divide the devices. */
static int64_t dp_at(const struct config *c, int32_t stage, int64_t tp)
{
    return dp_of(c->devices[stage], tp, main_manner(c, stage)->cp);
}

/* The next degree, above or below, that the model and the devices allow; 0: none. */
static int64_t next_tp(const struct problem *p, const struct config *c, int32_t stage, int64_t tp,
                       int dir)
{
    int64_t devices = c->devices[stage], cp = main_manner(c, stage)->cp;
    for (tp += dir; tp >= 1 && tp <= p->node && tp <= devices; tp += dir)
        if (p->tp_goes[tp] && dp_of(devices, tp, cp))
            return tp;
    return 0;
}

/* Within a stage, trades tp for dp or back: proposed for this stage, and for all stages that
 * can. */
static void trade_inside(const struct asking *a, int dir)
{
    const struct problem *p = problem_of(a);
    int64_t tp = next_tp(p, a->from, a->stage, tp_at(a->from, a->stage), dir);
    struct proposal *made = tp ? propose(a, a->stage, (int32_t)tp) : NULL;
    if (made)
        set_tp(&made->config, a->stage, tp);
    if (!tp || a->from->stages == 1 || !(made = propose(a, -1, (int32_t)tp)))
        return;
    for (int32_t s = 0; s < a->from->stages; s++)
        if (a->from->devices[s] % tp == 0)
            set_tp(&made->config, s, tp);
}

/* Picks the fastest of a stage's degree and its neighbours after the batch has changed. */
static weft_status pick_tp(const struct asking *a, struct config *c, int32_t stage)
{
    const struct problem *p = problem_of(a);
    int64_t best = 0, devices = c->devices[stage];
    struct verdict least = {INT64_MAX, INT64_MAX};
    weft_status status = WEFT_OK;
    int64_t now = tp_at(c, stage), from = next_tp(p, c, stage, now, -1),
            to = next_tp(p, c, stage, now, 1);
    for (int64_t tp = from ? from : now; tp && tp <= (to ? to : now);
         tp = next_tp(p, c, stage, tp, 1)) {
        struct stage_verdict v;
        set_tp(c, stage, tp);
        if (!manner_legal(p, c, devices, main_manner(c, stage)))
            continue;
        TRY(judge_recompute(a->judge, c, UINT64_C(1) << stage));
        TRY(judge_stage(a->judge, c, stage, &v));
        int64_t excess = v.peak_bytes - judge_limit(a->judge, c);
        struct verdict own = {v.busy_ns, excess > 0 ? excess : 0};
        if (!v.legal || !better(own, least))
            continue;
        least = own;
        best = tp;
    }
    if (best)
        set_tp(c, stage, best);
done:
    return status;
}

/* The smallest degrees that the batch allows, so that stages can then be chosen one by one. */
static bool make_legal(const struct problem *p, struct config *c)
{
    for (int32_t s = 0; s < c->stages; s++) {
        int64_t tp = tp_at(c, s);
        while (tp && c->step_samples % dp_at(c, s, tp))
            tp = next_tp(p, c, s, tp, 1);
        if (!tp)
            return false;
        set_tp(c, s, tp);
    }
    return config_legal(p, c);
}

static weft_status change_batch(const struct asking *a, int dir)
{
    enum { STEPS = 2 };
    const struct problem *p = problem_of(a);
    int32_t at = 0;
    weft_status status = WEFT_OK;
    while (p->step_sizes[at] < a->from->step_samples)
        at++;
    for (int32_t i = at + dir, left = STEPS; i >= 0 && i < p->step_size_count && left;
         i += dir, left--) {
        struct proposal *made = propose(a, -1, (int32_t)p->step_sizes[i]);
        if (!made)
            break;
        made->config.step_samples = p->step_sizes[i];
        if (a->refining)
            continue;
        if (!(made = propose(a, -1, (int32_t)p->step_sizes[i])))
            break;
        made->config.step_samples = p->step_sizes[i];
        for (int32_t s = 0; make_legal(p, &made->config) && s < a->from->stages; s++)
            TRY(pick_tp(a, &made->config, s));
    }
done:
    return status;
}

static weft_status propose_inc_batch(const struct asking *a)
{
    return change_batch(a, 1);
}

static weft_status propose_dec_batch(const struct asking *a)
{
    return change_batch(a, -1);
}

/* ---- devices --------------------------------------------------------------------------------- */

static int32_t next_devices(const struct problem *p, int32_t devices, int dir)
{
    for (devices += dir; devices >= 1 && devices <= p->devices; devices += dir)
        if (devices_allowed(p, devices))
            return devices;
    return 0;
}

/* Gives a stage another number of devices: either its tp or its dp stays, as far as that is
 * possible. */
static void resize(const struct problem *p, struct config *c, int32_t stage, int32_t devices,
                   bool keep_tp)
{
    int64_t tp = tp_at(c, stage);
    if (!keep_tp && tp * devices % c->devices[stage] == 0)
        tp = tp * devices / c->devices[stage];
    c->devices[stage] = devices;
    struct manner degrees = *main_manner(c, stage);
    degrees.cp = (uint16_t)common_divisor(degrees.cp, devices);
    set_degrees(c, stage, degrees);
    while (tp > 1 && (tp > p->node || !p->tp_goes[tp] || !dp_at(c, stage, tp)))
        tp--;
    set_tp(c, stage, tp > 1 ? tp : 1);
}

/* Partners give the devices they can spare, one after the other, until there are enough. */
static bool take_devices(const struct asking *a, const int32_t *partner, int32_t count,
                         int32_t skipped, int32_t needed, bool keep_tp, struct config *c)
{
    const struct problem *p = problem_of(a);
    for (int32_t i = skipped; i < count && needed > 0; i++) {
        int32_t less = next_devices(p, c->devices[partner[i]], -1);
        if (!less || c->devices[partner[i]] - less > needed)
            continue;
        needed -= c->devices[partner[i]] - less;
        resize(p, c, partner[i], less, keep_tp);
    }
    return needed == 0;
}

/* Proposes the latest proposal once more with operators shared out evenly. */
static void balanced_too(const struct asking *a)
{
    struct proposal *last = &a->out->data[a->out->count - 1];
    struct proposal *made = a->from->pieces == 1 ? propose(a, last->partner, last->amount) : NULL;
    if (!made)
        return;
    config_copy(&made->config, &last->config);
    config_cut_evenly(problem_of(a), &made->config);
}

static void more_devices(const struct asking *a, bool keep_tp)
{
    enum { TRIES = 3 };
    const struct problem *p = problem_of(a);
    int32_t partner[MOST_STAGES], count = rank_partners(a, partner);
    int32_t devices = a->from->devices[a->stage], more = next_devices(p, devices, 1);
    for (int32_t first = 0; more && first < TRIES && first < count; first++)
        for (int others = 0; others < 2; others++) {
            struct proposal *made = propose(a, partner[first], more);
            if (!made)
                return;
            if (!take_devices(a, partner, count, first, more - devices, others, &made->config)) {
                a->out->count--;
                continue;
            }
            resize(p, &made->config, a->stage, more, keep_tp);
            balanced_too(a);
        }
}

/* Gives devices to another stage, so that this one has fewer. */
static void fewer_devices(const struct asking *a, bool keep_tp)
{
    const struct problem *p = problem_of(a);
    int32_t devices = a->from->devices[a->stage], less = next_devices(p, devices, -1);
    for (int32_t s = 0; less && s < a->from->stages; s++) {
        int32_t more = a->from->devices[s] + devices - less;
        if (s == a->stage || !devices_allowed(p, more))
            continue;
        struct proposal *made = propose(a, s, less);
        if (!made)
            return;
        resize(p, &made->config, a->stage, less, keep_tp);
        resize(p, &made->config, s, more, true);
        balanced_too(a);
    }
}

static weft_status propose_inc_dp(const struct asking *a)
{
    trade_inside(a, -1);
    more_devices(a, true);
    return WEFT_OK;
}

static weft_status propose_dec_dp(const struct asking *a)
{
    trade_inside(a, 1);
    fewer_devices(a, true);
    return WEFT_OK;
}

static weft_status propose_inc_tp(const struct asking *a)
{
    trade_inside(a, 1);
    more_devices(a, false);
    return WEFT_OK;
}

static weft_status propose_dec_tp(const struct asking *a)
{
    trade_inside(a, -1);
    fewer_devices(a, false);
    return WEFT_OK;
}

/* ---- what Weft adds -------------------------------------------------------------------------- */

/* The next allowed sharding above or below; returns `shard` itself if there is none. */
static uint8_t next_shard(const struct problem *p, int shard, int dir)
{
    for (int other = shard + dir; other >= 0 && other <= 3; other += dir)
        if (p->shards >> other & 1)
            return (uint8_t)other;
    return (uint8_t)shard;
}

static void set_flags(const struct problem *p, struct manner *m, enum primitive primitive)
{
    switch (primitive) {
    case INC_SHARD:
    case DEC_SHARD:
        m->shard = next_shard(p, m->shard, primitive == INC_SHARD ? 1 : -1);
        break;
    case SEQUENCE_ON:
    case SEQUENCE_OFF:
        m->sequence = primitive == SEQUENCE_ON;
        break;
    default:
        m->offload = primitive == OFFLOAD_MORE;
    }
}

/* Whether the config does not fit, or recomputes in order to fit. */
static bool needs_memory(const struct asking *a)
{
    for (int32_t k = a->stage; k < config_parts(a->from); k += a->from->stages)
        if (a->from->part[k].high > 0)
            return true;
    return a->verdict.excess_bytes > 0;
}

/* Proposes a change of all stages; once single operators are looked at, also of this stage
 * alone. */
static weft_status propose_flags(const struct asking *a)
{
    if (a->primitive == OFFLOAD_MORE && !needs_memory(a))
        return WEFT_OK;
    bool one = a->from->stages == 1, alone = one || a->grain == GRAIN_OPERATORS;
    for (int all = alone ? 0 : 1; all < (one ? 1 : 2); all++) {
        struct proposal *made = propose(a, all ? -1 : a->stage, 0);
        for (int32_t k = 0; made && k < config_parts(a->from); k++)
            for (int i = 0; i < MOST_MANNERS; i++)
                if (all || k % a->from->stages == a->stage)
                    set_flags(problem_of(a), &made->config.part[k].manner[i], a->primitive);
    }
    return WEFT_OK;
}

/* The degrees of a stage with cp or ep doubled or halved; the devices come from dp or, if `from_tp`, from tp. The
 * search refuses those that are not open. */
static struct manner next_degrees(const struct asking *a, int32_t stage, bool from_tp)
{
    struct manner m = *main_manner(a->from, stage);
    bool context = a->primitive == INC_CP || a->primitive == DEC_CP;
    bool more = a->primitive == INC_CP || a->primitive == INC_EP;
    uint16_t *degree = context ? &m.cp : &m.ep;
    *degree = (uint16_t)(more ? *degree * 2 : *degree / 2);
    if (from_tp)
        m.tp = (uint16_t)(more ? m.tp / 2 : m.tp * 2);
    return m;
}

static bool may_have(const struct asking *a, int32_t stage, const struct manner *m)
{
    const struct problem *p = problem_of(a);
    int64_t dp = dp_of(a->from->devices[stage], m->tp, m->cp);
    return m->ep > 0 && m->tp <= p->node && p->tp_goes[m->tp] && dp > 0 && dp % m->ep == 0;
}

/* Proposed for this stage, and for all stages that can. */
static void trade_degrees(const struct asking *a, bool from_tp)
{
    for (int all = 0; all < (a->from->stages == 1 ? 1 : 2); all++) {
        struct manner own = next_degrees(a, a->stage, from_tp);
        struct proposal *made =
            may_have(a, a->stage, &own) ? propose(a, all ? -1 : a->stage, own.cp) : NULL;
        for (int32_t s = 0; made && s < a->from->stages; s++) {
            struct manner m = next_degrees(a, s, from_tp);
            if ((all || s == a->stage) && may_have(a, s, &m))
                set_degrees(&made->config, s, m);
        }
    }
}

static weft_status propose_cp(const struct asking *a)
{
    trade_degrees(a, false);
    trade_degrees(a, true);
    return WEFT_OK;
}

static weft_status propose_ep(const struct asking *a)
{
    trade_degrees(a, false);
    return WEFT_OK;
}

static void lay_pieces(const struct asking *a, int32_t pieces, int32_t schedule)
{
    struct proposal *made = propose(a, -1, pieces);
    if (!made)
        return;
    struct config *c = &made->config;
    c->pieces = pieces;
    c->schedule = schedule;
    for (int32_t k = c->stages; k < config_parts(c); k++)
        c->part[k] = c->part[k % c->stages];
    config_cut_evenly(problem_of(a), c);
}

/* Proposes every larger number, or every smaller one: those in between are often no better. */
static weft_status change_pieces(const struct asking *a, int dir)
{
    const struct problem *p = problem_of(a);
    const struct schedule *all;
    size_t count = schedule_all(&all);
    int32_t stages = a->from->stages;
    for (int32_t pieces = a->from->pieces + dir; pieces >= 1 && pieces <= MOST_PIECES;
         pieces += dir) {
        int32_t parts = stages * pieces;
        if (parts > ACESO_MOST_PARTS || stages == 1 ||
            (size_t)parts > p->cuts[GRAIN_LAYERS].len + 1)
            break;
        for (size_t i = 0; i < count; i++)
            if (p->schedules >> i & 1)
                lay_pieces(a, pieces, (int32_t)i);
    }
    return WEFT_OK;
}

static weft_status propose_inc_pieces(const struct asking *a)
{
    return change_pieces(a, 1);
}

static weft_status propose_dec_pieces(const struct asking *a)
{
    return change_pieces(a, -1);
}

static weft_status propose_schedule(const struct asking *a)
{
    const struct schedule *all;
    size_t count = schedule_all(&all);
    for (size_t i = 0; i < count; i++) {
        bool other = (problem_of(a)->schedules >> i & 1) && (int32_t)i != a->from->schedule;
        struct proposal *made = other ? propose(a, -1, (int32_t)i) : NULL;
        if (made)
            made->config.schedule = (int32_t)i;
    }
    return WEFT_OK;
}

/* Recomputation is chosen again for every proposal, so this one changes nothing else. */
static weft_status propose_recompute(const struct asking *a)
{
    propose(a, a->stage, 0);
    return WEFT_OK;
}

/* ---- the table ------------------------------------------------------------------------------- */

#define UP   1
#define DOWN (-1)
#define SAME 0
/* clang-format off */
const struct primitive_row PRIMITIVES[PRIMITIVE_COUNT] = {
    /*                   name           compute exchange memory  argument       of        partner        Table 1 */
    [INC_OPS]         = {"inc-op#",      {UP,   SAME, UP},   "operators",   OF_STAGE, DEC_OPS,       true,  propose_inc_ops},
    [DEC_OPS]         = {"dec-op#",      {DOWN, SAME, DOWN}, "operators",   OF_STAGE, INC_OPS,       true,  propose_dec_ops},
    [INC_BATCH]       = {"inc-mbs",      {DOWN, SAME, UP},   "samples",     OF_MODEL, INC_BATCH,     true,  propose_inc_batch},
    [DEC_BATCH]       = {"dec-mbs",      {UP,   SAME, DOWN}, "samples",     OF_MODEL, DEC_BATCH,     true,  propose_dec_batch},
    [INC_DP]          = {"inc-dp",       {DOWN, UP,   DOWN}, "degree",      OF_STAGE, DEC_DP,        true,  propose_inc_dp},
    [DEC_DP]          = {"dec-dp",       {UP,   DOWN, UP},   "degree",      OF_STAGE, INC_DP,        true,  propose_dec_dp},
    [INC_TP]          = {"inc-tp",       {DOWN, UP,   DOWN}, "degree",      OF_STAGE, DEC_TP,        true,  propose_inc_tp},
    [DEC_TP]          = {"dec-tp",       {UP,   DOWN, UP},   "degree",      OF_STAGE, INC_TP,        true,  propose_dec_tp},
    [INC_RECOMPUTE]   = {"inc-rc",       {UP,   SAME, DOWN}, "layers",      OF_STAGE, INC_RECOMPUTE, true,  propose_recompute},
    [DEC_RECOMPUTE]   = {"dec-rc",       {DOWN, SAME, UP},   "layers",      OF_STAGE, DEC_RECOMPUTE, true,  propose_recompute},
    [INC_SHARD]       = {"inc-zero",     {DOWN, UP,   DOWN}, "level",       OF_STAGE, INC_SHARD,     false, propose_flags},
    [DEC_SHARD]       = {"dec-zero",     {UP,   DOWN, UP},   "level",       OF_STAGE, DEC_SHARD,     false, propose_flags},
    [SEQUENCE_ON]     = {"sp-on",        {DOWN, SAME, DOWN}, "",            OF_STAGE, SEQUENCE_ON,   false, propose_flags},
    [SEQUENCE_OFF]    = {"sp-off",       {UP,   DOWN, UP},   "",            OF_STAGE, SEQUENCE_OFF,  false, propose_flags},
    [OFFLOAD_MORE]    = {"inc-offload",  {SAME, UP,   DOWN}, "",            OF_STAGE, OFFLOAD_MORE,  false, propose_flags},
    [OFFLOAD_LESS]    = {"dec-offload",  {SAME, DOWN, UP},   "",            OF_STAGE, OFFLOAD_LESS,  false, propose_flags},
    [INC_PIECES]      = {"inc-pieces",   {DOWN, UP,   UP},   "pieces",      OF_MODEL, INC_PIECES,    false, propose_inc_pieces},
    [DEC_PIECES]      = {"dec-pieces",   {UP,   DOWN, DOWN}, "pieces",      OF_MODEL, DEC_PIECES,    false, propose_dec_pieces},
    [CHANGE_SCHEDULE] = {"schedule",     {DOWN, DOWN, DOWN}, "schedule",    OF_MODEL, CHANGE_SCHEDULE, false, propose_schedule},
    [INC_CP]          = {"inc-cp",       {DOWN, UP,   DOWN}, "degree",      OF_STAGE, INC_CP,        false, propose_cp},
    [DEC_CP]          = {"dec-cp",       {UP,   DOWN, UP},   "degree",      OF_STAGE, DEC_CP,        false, propose_cp},
    [INC_EP]          = {"inc-ep",       {DOWN, UP,   DOWN}, "degree",      OF_STAGE, INC_EP,        false, propose_ep},
    [DEC_EP]          = {"dec-ep",       {UP,   DOWN, UP},   "degree",      OF_STAGE, DEC_EP,        false, propose_ep},
};
/* clang-format on */
_Static_assert(COUNT_OF(PRIMITIVES) == PRIMITIVE_COUNT, "a primitive without a row");
