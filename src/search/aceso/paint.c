/* paint.c - manners inside a part; each change is kept if it makes the config better.
 *
 *   alike    one sharding, and one place for checkpoints, in all parts: all ranks wait for gathers of weights as
 *            long as one part shards its state, so that part after part would gain little until the last
 *   zones    the operators before the layers, the layers, and the operators after them: all combinations
 *            of tp and sharding, one per zone
 *   changes  another tp and sharding from a place where manners change to some layer, or from some layer
 *            to that place
 *   variants whether tp splits the outputs or the inputs of one operator
 */
#include "search/aceso/tune.h"

/* Tunes one part after the other. */
static weft_status tune_parts(struct tuning *t, weft_status (*tune)(struct tuning *t, int32_t part))
{
    bool inside = judge_problem(t->judge)->tune;
    weft_status status = WEFT_OK;
    for (int32_t k = 0; inside && k < config_parts(t->config); k++)
        TRY(tune(t, k));
done:
    return status;
}

/* ---- degrees --------------------------------------------------------------------------------- */

enum { MOST_DEGREES = 64, SHARDS = 4 };
struct degree {
    int32_t tp, shard;
};

static struct manner with_degree(const struct manner *manner, struct degree degree)
{
    struct manner m = *manner;
    m.tp = (uint16_t)degree.tp;
    m.shard = (uint8_t)degree.shard;
    return m;
}

/* Lists the degrees that a part may have. */
static int32_t list_degrees(const struct tuning *t, int32_t part, struct degree out[MOST_DEGREES])
{
    const struct problem *p = judge_problem(t->judge);
    const struct config *c = t->config;
    int32_t devices = c->devices[part % c->stages], count = 0;
    bool shards = p->primitives >> INC_SHARD & 1;
    for (int32_t tp = 1; tp <= p->node && tp <= devices; tp++)
        for (int32_t shard = 0; shard < SHARDS && count < MOST_DEGREES; shard++) {
            struct manner m = with_degree(main_manner(c, part), (struct degree){tp, shard});
            /* Sharding changes nothing: there is no data parallelism. */
            bool same = tp == devices && shard;
            bool now = shard == main_manner(c, part)->shard;
            if (p->tp_goes[tp] && manner_legal(p, c, devices, &m) && !same && (shards || now))
                out[count++] = (struct degree){tp, shard};
        }
    return count;
}

/* ---- zones ----------------------------------------------------------------------------------- */

enum { ZONES = 3 };

/* Finds where the zones of a part end. */
static void find_zones(const struct tuning *t, int32_t part, int32_t end[ZONES])
{
    const struct problem *p = judge_problem(t->judge);
    int32_t first = part_first(t->config, part), last = t->config->part[part].end;
    int32_t place[ZONES] = {p->layers_first, p->layers_end, last};
    for (int i = 0; i < ZONES; i++)
        end[i] = place[i] < first ? first : place[i] > last ? last : place[i];
}

/* The next combination of degrees (an empty zone keeps the first); false: that was the last one. */
static bool next_combination(const int32_t end[ZONES], int32_t first, int32_t count,
                             int32_t at[ZONES])
{
    for (int i = 0; i < ZONES; i++) {
        bool empty = end[i] == (i ? end[i - 1] : first);
        if (!empty && ++at[i] < count)
            return true;
        at[i] = 0;
    }
    return false;
}

static weft_status tune_zones_of(struct tuning *t, int32_t part)
{
    struct degree list[MOST_DEGREES];
    int32_t count = list_degrees(t, part, list), end[ZONES], at[ZONES] = {0};
    int32_t first = part_first(t->config, part);
    struct manner own = *main_manner(t->config, part);
    bool more = count > 0;
    weft_status status = WEFT_OK;
    find_zones(t, part, end);
    for (; more && !judge_over(t->judge); more = next_combination(end, first, count, at)) {
        struct config c;
        config_copy(&c, t->config);
        for (int i = 0, from = first; i < ZONES; from = end[i++])
            paint_manner(&c, part, from, end[i], with_degree(&own, list[at[i]]));
        TRY(tune_consider(t, &c, UINT64_C(1) << part % c.stages));
    }
done:
    return status;
}

weft_status tune_zones(struct tuning *t)
{
    return tune_parts(t, tune_zones_of);
}

/* ---- all parts at once ----------------------------------------------------------------------- */

static void set_all(struct config *c, uint8_t shard, bool offload)
{
    for (int32_t k = 0; k < config_parts(c); k++)
        for (int i = 0; i < MOST_MANNERS; i++) {
            c->part[k].manner[i].shard = shard;
            c->part[k].manner[i].offload = offload;
        }
}

weft_status tune_alike(struct tuning *t)
{
    const struct problem *p = judge_problem(t->judge);
    bool offloads = p->primitives >> OFFLOAD_MORE & 1, shards = p->primitives >> INC_SHARD & 1;
    struct manner own = *main_manner(t->config, 0);
    weft_status status = WEFT_OK;
    for (int shard = 0; shard < SHARDS; shard++)
        for (int offload = 0; offload < 2 && !judge_over(t->judge); offload++) {
            struct config c;
            if ((offload != own.offload && !offloads) || (shard != own.shard && !shards))
                continue;
            config_copy(&c, t->config);
            set_all(&c, (uint8_t)shard, offload);
            TRY(tune_consider(t, &c, UINT64_MAX));
        }
done:
    return status;
}

/* ---- changes --------------------------------------------------------------------------------- */

/* The next place after `at` where manners may change: between layers, and anywhere before the end
 * of the first layer and after the last one. */
static int32_t next_change(const struct problem *p, int32_t at)
{
    const struct places_list *cuts = &p->cuts[GRAIN_LAYERS];
    enum { PLACES = 64 };
    size_t step = cuts->len / PLACES + 1, i = 0;
    while (i < cuts->len && cuts->data[i] <= at)
        i++;
    /* Number of cuts before the first layer ends. */
    size_t before = cuts->len && cuts->data[0] == p->layers_first;
    if (i <= before || i == cuts->len)
        return at + 1;
    return cuts->data[i + step <= cuts->len ? i + step - 1 : cuts->len - 1];
}

/* Paints a range, and also the zone of the operator that shares a weight with it, so that the
 * weight does not exist twice; false: no weight is shared between the range and the rest of the
 * part, or there would be too many manners. */
static bool paint_tied(const struct problem *p, struct config *c, int32_t part, int32_t from,
                       int32_t to, struct manner manner)
{
    int32_t first = part_first(c, part), end = c->part[part].end;
    struct tied_pair tied = p->tied;
    bool both = tied.user >= 0 && tied.owner >= first && tied.user < end;
    bool owner = both && tied.owner >= from && tied.owner < to;
    bool user = both && tied.user >= from && tied.user < to;
    bool painted = owner != user && paint_manner(c, part, from, to, manner);
    if (owner && !user)
        painted &= paint_manner(c, part, p->layers_end > to ? p->layers_end : to, end, manner);
    if (user && !owner)
        painted &=
            paint_manner(c, part, first, p->layers_first < from ? p->layers_first : from, manner);
    return painted;
}

/* Tries a degree from one place of a part to every other. */
static weft_status tune_paint(struct tuning *t, int32_t part, int32_t place, struct degree degree)
{
    const struct problem *p = judge_problem(t->judge);
    int32_t at = part_first(t->config, part), end = t->config->part[part].end;
    weft_status status = WEFT_OK;
    for (bool last = false; !last && !judge_over(t->judge); at = next_change(p, at)) {
        last = at >= end;
        at = last ? end : at;
        int32_t from = at < place ? at : place, to = at + place - from;
        struct config c, tied;
        config_copy(&c, t->config);
        config_copy(&tied, t->config);
        struct manner m = with_degree(manner_at(&c.part[part], from), degree);
        if (from < to && paint_manner(&c, part, from, to, m))
            TRY(tune_consider(t, &c, UINT64_C(1) << part % c.stages));
        if (from < to && paint_tied(p, &tied, part, from, to, m))
            TRY(tune_consider(t, &tied, UINT64_C(1) << part % tied.stages));
    }
done:
    return status;
}

static weft_status tune_paints(struct tuning *t, int32_t part, int32_t place)
{
    struct degree list[MOST_DEGREES];
    int32_t count = list_degrees(t, part, list);
    weft_status status = WEFT_OK;
    for (int32_t i = 0; i < count; i++)
        TRY(tune_paint(t, part, place, list[i]));
done:
    return status;
}

/* Tries the changes from either end of a part, and from every place where its manners change. */
static weft_status tune_change(struct tuning *t, int32_t part)
{
    int32_t before = -1;
    weft_status status = WEFT_OK;
    for (int i = 0; i <= MOST_MANNERS; i++) {
        const struct config_part *own = &t->config->part[part];
        int32_t place = i == 0              ? part_first(t->config, part)
                        : i <= MOST_CHANGES ? own->change[i - 1]
                                            : own->end;
        if (place > before)
            TRY(tune_paints(t, part, place));
        before = place;
    }
done:
    return status;
}

weft_status tune_changes(struct tuning *t)
{
    return tune_parts(t, tune_change);
}

/* ---- variants -------------------------------------------------------------------------------- */

static bool has_op(const struct problem *p, const struct config *c, int32_t part, int32_t op)
{
    for (int32_t i = part_first(c, part); i < c->part[part].end; i++)
        if (p->op[i] == op)
            return true;
    return false;
}

/* Flips which side of one operator is split, wherever the part splits it. */
static void flip_operator(const struct problem *p, struct config_part *part, int32_t op)
{
    for (int i = 0; i < MOST_MANNERS; i++)
        part->manner[i].variant ^= UINT32_C(1) << p->flip[op];
}

static weft_status tune_variant(struct tuning *t, int32_t part)
{
    const struct problem *p = judge_problem(t->judge);
    weft_status status = WEFT_OK;
    for (int32_t op = 0; op < p->request->model->ops && !judge_over(t->judge); op++) {
        struct config c;
        if (p->flip[op] < 0 || !has_op(p, t->config, part, op))
            continue;
        config_copy(&c, t->config);
        flip_operator(p, &c.part[part], op);
        if (main_manner(&c, part)->tp > 1)
            TRY(tune_consider(t, &c, UINT64_C(1) << part % c.stages));
    }
done:
    return status;
}

weft_status tune_variants(struct tuning *t)
{
    return tune_parts(t, tune_variant);
}
