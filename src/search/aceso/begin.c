/* begin.c - configs that a search starts with: the devices shared out among the stages, the operators likewise, and
 * the least manners that the step's samples allow. */
#include "search/aceso/room.h"

#include <string.h>

/* The largest number of devices, at most half, that can be taken from a stage so that an allowed
 * number is left; 0: none. */
static int32_t half_of(const struct problem *p, int32_t devices)
{
    for (int32_t less = devices / 2; less > 0; less--)
        if (devices_allowed(p, less) && devices_allowed(p, devices - less))
            return less;
    return 0;
}

/* The same number for every stage; false if that is not allowed. */
static bool share_equally(const struct problem *p, struct config *c)
{
    int32_t each = (int32_t)(p->devices / c->stages);
    for (int32_t s = 0; s < c->stages; s++)
        c->devices[s] = each;
    return p->devices % c->stages == 0 && legal_devices(p, c);
}

/* Starts with one stage and divides the largest (if `balanced` is false, the smallest that can be
 * divided) in two until there are enough. */
static bool share_devices(const struct problem *p, bool balanced, struct config *c)
{
    if (balanced && share_equally(p, c))
        return true;
    c->devices[0] = (int32_t)p->devices;
    for (int32_t stages = 1; stages < c->stages; stages++) {
        int32_t at = -1;
        for (int32_t s = 0; s < stages; s++) {
            bool divides = half_of(p, c->devices[s]) > 0;
            bool first = at < 0 || (balanced ? c->devices[s] > c->devices[at]
                                             : c->devices[s] < c->devices[at]);
            at = divides && first ? s : at;
        }
        if (at < 0)
            return share_equally(p, c);
        int32_t less = half_of(p, c->devices[at]);
        memmove(&c->devices[at + 1], &c->devices[at], (size_t)(stages - at) * sizeof c->devices[0]);
        c->devices[at] = less;
        c->devices[at + 1] -= less;
    }
    return legal_devices(p, c);
}

/* Makes the cuts nearest to the given shares; each part has at least one unit. */
static void cut_by(const struct problem *p, const double *share, struct config *c)
{
    int32_t parts = config_parts(c);
    enum grain grain =
        p->cuts[GRAIN_LAYERS].len + 1 >= (size_t)parts ? GRAIN_LAYERS : GRAIN_OPERATORS;
    const struct places_list *cuts = &p->cuts[grain];
    struct manner manner[ACESO_MOST_PARTS];
    double all = 0, so_far = 0;
    size_t at = 0;
    for (int32_t k = 0; k < parts; k++) {
        manner[k] = *main_manner(c, k);
        all += share[k];
    }
    for (int32_t k = 0; k + 1 < parts; k++) {
        so_far += share[k];
        double wanted = p->flops[p->instances] * so_far / all;
        size_t last = cuts->len - (size_t)(parts - 2 - k) - 1;
        while (at < last && 2 * wanted > p->flops[cuts->data[at]] + p->flops[cuts->data[at + 1]])
            at++;
        c->part[k].end = cuts->data[at++];
    }
    c->part[parts - 1].end = (int32_t)p->instances;
    for (int32_t k = 0; k < parts; k++) {
        c->part[k].recompute_end = c->part[k].end;
        set_manner(&c->part[k], manner[k]);
    }
}

void config_cut_evenly(const struct problem *p, struct config *c)
{
    double share[ACESO_MOST_PARTS];
    for (int32_t k = 0; k < config_parts(c); k++)
        share[k] = c->devices[k % c->stages];
    cut_by(p, share, c);
}

/* The manner with as little context parallelism as the step's samples allow, as much tensor parallelism as a
 * stage and the model allow, at most `most`, and data parallelism for the rest; tp 0: there is none. */
static struct manner begin_manner(const struct problem *p, const struct config *c, int64_t devices,
                                  int64_t most)
{
    const struct degrees *pins = &p->request->pins;
    struct manner m = {.ep = (uint16_t)p->ep.least,
                       .shard = (uint8_t)(pins->has_shard ? pins->shard : 0),
                       .sequence = pins->sequence,
                       .offload = pins->offload};
    for (int64_t cp = p->cp.least; cp <= p->cp.most && cp <= devices; cp += cp) {
        m.cp = (uint16_t)cp;
        for (m.tp = (uint16_t)most; m.tp > 0; m.tp--)
            if (p->tp_goes[m.tp] && manner_legal(p, c, devices, &m))
                return m;
    }
    return m;
}

/* Then the smallest step that all degrees divide. */
static bool begin_manners(const struct problem *p, int64_t most, struct config *c)
{
    for (int32_t i = 0; i < p->step_size_count; i++) {
        bool legal = true;
        c->step_samples = p->step_sizes[i];
        for (int32_t s = 0; legal && s < c->stages; s++) {
            struct manner m = begin_manner(p, c, c->devices[s], most);
            legal = m.tp > 0;
            for (int32_t k = s; k < config_parts(c); k += c->stages)
                set_manner(&c->part[k], m);
        }
        if (legal && legal_schedule(p, c))
            return true;
    }
    return false;
}

bool config_begin(const struct problem *p, int32_t stages, enum beginning beginning,
                  struct config *out)
{
    return config_begin_with(p, stages, beginning, p->node, out);
}

bool config_begin_with(const struct problem *p, int32_t stages, enum beginning beginning,
                       int64_t most_tp, struct config *out)
{
    const struct degrees *pins = &p->request->pins;
    int64_t pieces = pins->pieces > pins->segments ? pins->pieces : pins->segments;
    double share[ACESO_MOST_PARTS];
    *out = (struct config){.stages = stages, .pieces = pieces > 1 ? (int32_t)pieces : 1};
    if (config_parts(out) > ACESO_MOST_PARTS || config_parts(out) > p->instances)
        return false;
    while (!(p->schedules >> out->schedule & 1))
        out->schedule++;
    if (!share_devices(p, beginning != BEGIN_IMBALANCED_DEVICE, out))
        return false;
    for (int32_t k = 0; k < config_parts(out); k++)
        share[k] = (double)out->devices[k % stages] *
                   (beginning == BEGIN_IMBALANCED_OP ? (double)(stages - k % stages) : 1);
    if (!begin_manners(p, most_tp, out))
        return false;
    cut_by(p, share, out);
    config_normalise(out);
    return config_legal(p, out);
}
