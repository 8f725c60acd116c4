/* aceso_tune.c - changes inside a stage, operator by operator (Aceso, section 4.2), and cuts moved by
 * single operators: each kept when it makes the config better, until none does.
 *
 *   cut      one operator to several, from a part to the next or back; then two cuts at once
 *   order    devices of two neighbouring stages change places
 *   tp       of a stage, with the cuts around it
 *   change   from a layer on to the end of the part, another tp
 *   variant  what tp splits of one operator: outputs or inputs
 */
#include "search/aceso.h"

#include <string.h>

struct tuning {
    struct judge *judge;
    struct config *config;
    struct verdict verdict;
    bool changed;
};

/* Takes a config over if it is better. */
static weft_status consider(struct tuning *t, struct config *c, uint64_t stages)
{
    const struct problem *p = judge_problem(t->judge);
    struct verdict verdict;
    bool legal;
    weft_status status = WEFT_OK;
    config_normalise(c);
    if (!config_legal(p, c))
        return WEFT_OK;
    TRY(judge_recompute(t->judge, c, stages));
    config_normalise(c);
    TRY(judge_config(t->judge, c, &verdict, NULL, &legal));
    if (!legal || !better(verdict, t->verdict))
        goto done;
    t->verdict = verdict;
    t->changed = true;
    config_copy(t->config, c);
done:
    return status;
}

static uint64_t both_stages(const struct config *c, int32_t part)
{
    return UINT64_C(1) << part % c->stages | UINT64_C(1) << (part + 1) % c->stages;
}

/* Moves the cut behind a part; false: one of the two would be empty. */
static bool shift_cut(struct config *c, int32_t part, int32_t by)
{
    struct config_part *own = &c->part[part];
    bool one = own->change == own->end;
    own->end += by;
    own->change = one ? own->end : own->change;
    return own->end > part_first(c, part) && own->end < c->part[part + 1].end;
}

static weft_status tune_cut(struct tuning *t, int32_t part)
{
    enum { WINDOW = 20 }; /* more than the operators of a layer */
    struct config from;
    weft_status status = WEFT_OK;
    config_copy(&from, t->config);
    for (int32_t by = -WINDOW; by <= WINDOW; by++) {
        struct config c;
        config_copy(&c, &from);
        if (by && shift_cut(&c, part, by))
            TRY(consider(t, &c, both_stages(&c, part)));
    }
done:
    return status;
}

/* Two neighbouring cuts at once: what one of them loses the other may win. */
static weft_status tune_two_cuts(struct tuning *t, int32_t part)
{
    enum { FEW = 6, WINDOW = 14, SMALL_WINDOW = 4 };
    int32_t window = config_parts(t->config) <= FEW ? WINDOW : SMALL_WINDOW;
    struct config from;
    weft_status status = WEFT_OK;
    config_copy(&from, t->config);
    for (int32_t by = -window; by <= window; by++)
        for (int32_t other = -window; other <= window; other++) {
            struct config c;
            config_copy(&c, &from);
            bool inside = shift_cut(&c, part + 1, other);
            inside = shift_cut(&c, part, by) && inside;
            if (by && other && inside && part_first(&c, part + 2) > c.part[part].end)
                TRY(consider(t, &c, both_stages(&c, part) | both_stages(&c, part + 1)));
        }
done:
    return status;
}

/* A config that is compared when its cuts around a stage are tuned. */
static weft_status consider_tuned(struct tuning *t, struct config *c, int32_t stage)
{
    enum { PASSES = 2 };
    struct tuning own = {.judge = t->judge, .config = c};
    struct config tuned;
    bool legal;
    weft_status status = WEFT_OK;
    int32_t first = stage > 0 ? stage - 1 : 0, last = stage + 1;
    config_normalise(c);
    if (!config_legal(judge_problem(t->judge), c))
        return WEFT_OK;
    TRY(judge_recompute(t->judge, c, UINT64_MAX));
    config_normalise(c);
    TRY(judge_config(t->judge, c, &own.verdict, NULL, &legal));
    for (int pass = 0; legal && pass < PASSES; pass++)
        for (int32_t k = first; k <= last && k + 1 < c->stages; k++)
            TRY(tune_cut(&own, k));
    config_copy(&tuned, c);
    if (legal)
        TRY(consider(t, &tuned, 0));
done:
    return status;
}

/* Two neighbouring stages change devices, with any tp of the larger. */
static weft_status tune_order(struct tuning *t, int32_t stage)
{
    const struct problem *p = judge_problem(t->judge);
    struct config from, c;
    weft_status status = WEFT_OK;
    config_copy(&from, t->config);
    int32_t devices = from.devices[stage], other = from.devices[stage + 1];
    if (from.pieces > 1 || devices == other)
        return WEFT_OK;
    from.devices[stage] = other;
    from.devices[stage + 1] = devices;
    struct config_part own = from.part[stage];
    memcpy(from.part[stage].manner, from.part[stage + 1].manner, sizeof own.manner);
    memcpy(from.part[stage + 1].manner, own.manner, sizeof own.manner);
    int32_t large = stage + (devices > other);
    for (int64_t tp = 1; tp <= p->node && tp <= from.devices[large]; tp++) {
        if (!p->tp_goes[tp] || !dp_of(p, from.devices[large], tp))
            continue;
        config_copy(&c, &from);
        c.part[large].manner[0].tp = c.part[large].manner[1].tp = (uint16_t)tp;
        config_cut_evenly(p, &c);
        TRY(consider_tuned(t, &c, stage));
    }
done:
    return status;
}

/* Any tp of a stage, with cuts to go with it. */
static weft_status tune_tp(struct tuning *t, int32_t stage)
{
    const struct problem *p = judge_problem(t->judge);
    struct config c;
    weft_status status = WEFT_OK;
    for (int64_t tp = 1; tp <= p->node && tp <= t->config->devices[stage]; tp++) {
        config_copy(&c, t->config);
        if (c.pieces > 1 || !p->tp_goes[tp] || !dp_of(p, c.devices[stage], tp))
            continue;
        c.part[stage].manner[0].tp = c.part[stage].manner[1].tp = (uint16_t)tp;
        TRY(consider_tuned(t, &c, stage));
    }
done:
    return status;
}

/* Another tp from some layer on; or one tp again. */
static weft_status tune_change(struct tuning *t, int32_t part)
{
    enum { PLACES = 64 };
    const struct problem *p = judge_problem(t->judge);
    const struct places_list *cuts = &p->cuts[GRAIN_LAYERS];
    int32_t devices = t->config->devices[part % t->config->stages];
    uint64_t stage = UINT64_C(1) << part % t->config->stages;
    size_t step = cuts->len / PLACES + 1;
    weft_status status = WEFT_OK;
    for (int64_t tp = 1; tp <= p->node && tp <= devices; tp++) {
        if (!p->tp_goes[tp] || !dp_of(p, devices, tp))
            continue;
        for (size_t i = 0; i < cuts->len && !problem_over(p); i += step) {
            struct config c;
            config_copy(&c, t->config);
            if (cuts->data[i] <= part_first(&c, part) || cuts->data[i] >= c.part[part].end)
                continue;
            c.part[part].change = cuts->data[i];
            c.part[part].manner[1].tp = (uint16_t)tp;
            TRY(consider(t, &c, stage));
        }
    }
done:
    return status;
}

static bool has_op(const struct problem *p, const struct config *c, int32_t part, int32_t op)
{
    for (int32_t i = part_first(c, part); i < c->part[part].end; i++)
        if (p->op[i] == op)
            return true;
    return false;
}

static weft_status tune_variant(struct tuning *t, int32_t part)
{
    const struct problem *p = judge_problem(t->judge);
    uint64_t stage = UINT64_C(1) << part % t->config->stages;
    weft_status status = WEFT_OK;
    for (int32_t op = 0; op < p->request->model->ops && !problem_over(p); op++) {
        struct config c;
        config_copy(&c, t->config);
        struct manner *m = c.part[part].manner;
        bool here = m[0].tp > 1 && m[0].variant == m[1].variant && has_op(p, &c, part, op);
        int32_t variant = here ? judge_variant(t->judge, m[0].variant, op) : -1;
        if (variant < 0)
            continue;
        m[0].variant = m[1].variant = (uint16_t)variant;
        TRY(consider(t, &c, stage));
    }
done:
    return status;
}

weft_status aceso_tune(struct judge *judge, struct config *c, struct verdict *verdict)
{
    enum { ROUNDS = 6 };
    struct tuning t = {.judge = judge, .config = c};
    bool legal, inside = judge_problem(judge)->tune;
    weft_status status;
    TRY(judge_config(judge, c, &t.verdict, NULL, &legal));
    for (int round = 0; round < ROUNDS && !problem_over(judge_problem(judge)); round++) {
        t.changed = false;
        for (int32_t k = 0; k + 1 < config_parts(c); k++)
            TRY(tune_cut(&t, k));
        for (int32_t k = 0; !t.changed && k + 2 < config_parts(c); k++)
            TRY(tune_two_cuts(&t, k));
        for (int32_t s = 0; s + 1 < c->stages; s++)
            TRY(tune_order(&t, s));
        for (int32_t s = 0; s < c->stages; s++)
            TRY(tune_tp(&t, s));
        for (int32_t k = 0; inside && k < config_parts(c); k++)
            TRY(tune_change(&t, k));
        for (int32_t k = 0; inside && k < config_parts(c); k++)
            TRY(tune_variant(&t, k));
        if (!t.changed)
            break;
    }
    *verdict = t.verdict;
done:
    return status;
}
