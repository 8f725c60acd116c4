/* config.c - configs: legality, hashes, and the config of a plan.
 *
 * The number of devices of a stage: where the number of nodes and that of a node's devices are
 * powers of two, a stage has a power of two of devices (Aceso, section 5.1); elsewhere it has a
 * divisor of a node's devices, or any number of whole nodes.
 */
#include "search/aceso/room.h"

#include <string.h>

/* ---- devices --------------------------------------------------------------------------------- */

static bool power_of_two(int64_t number)
{
    return (number & (number - 1)) == 0;
}

bool devices_allowed(const struct problem *p, int64_t devices)
{
    if (devices < 1 || devices > p->devices)
        return false;
    if (devices < p->node)
        return p->node % devices == 0;
    return devices % p->node == 0 &&
           (!power_of_two(p->devices / p->node) || power_of_two(devices / p->node));
}

int64_t dp_of(int64_t devices, int64_t tp, int64_t cp)
{
    return tp < 1 || cp < 1 || devices % (tp * cp) ? 0 : devices / (tp * cp);
}

/* ---- legality -------------------------------------------------------------------------------- */

bool legal_devices(const struct problem *p, const struct config *c)
{
    int64_t first = 0;
    for (int32_t s = 0; s < c->stages; s++) {
        int64_t devices = c->devices[s], at = first % p->node;
        if (!devices_allowed(p, devices) || (at + devices > p->node && at))
            return false;
        first += devices;
    }
    return first == p->devices;
}

static bool is_open(struct doubled open, int64_t degree)
{
    return degree >= open.least && degree <= open.most;
}

bool manner_legal(const struct problem *p, const struct config *c, int64_t devices,
                  const struct manner *m)
{
    const struct degrees *pins = &p->request->pins;
    const struct aceso_study *study = p->study;
    int64_t dp = dp_of(devices, m->tp, m->cp);
    if (dp < 1 || m->tp > p->node || c->step_samples % dp || !is_open(p->cp, m->cp) ||
        !is_open(p->ep, m->ep) || dp % m->ep)
        return false;
    if ((study->least_micro_batch && c->step_samples % (study->least_micro_batch * dp)) ||
        (study->most_step && c->step_samples > study->most_step))
        return false;
    if ((pins->tp && pins->tp != m->tp) || (pins->dp && pins->dp != dp) ||
        (pins->micro_batch && pins->micro_batch * dp != c->step_samples) ||
        (pins->sequence && m->tp > 1 && !m->sequence))
        return false;
    return p->shards >> m->shard & 1 || devices == m->tp;
}

bool legal_schedule(const struct problem *p, const struct config *c)
{
    const struct degrees *pins = &p->request->pins;
    int64_t pieces = pins->pieces > pins->segments ? pins->pieces : pins->segments;
    struct pipeline pipeline = {c->stages, c->pieces, (int32_t)(p->global_batch / c->step_samples),
                                (int32_t)pins->group};
    if (!(p->schedules >> c->schedule & 1) || (pieces && pieces != c->pieces) ||
        p->global_batch % c->step_samples)
        return false;
    if (c->stages == 1 && (c->pieces > 1 || c->schedule != __builtin_ctz(p->schedules)))
        return false; /* there is nothing to order */
    if (schedule_check(config_schedule(c), &pipeline) == WEFT_OK)
        return true;
    error_clear();
    return false;
}

static bool same_manner(const struct manner *a, const struct manner *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

bool config_legal(const struct problem *p, const struct config *c)
{
    for (int32_t k = 0; k < config_parts(c); k++) {
        const struct config_part *part = &c->part[k];
        int64_t devices = c->devices[k % c->stages];
        if (part->end <= part_first(c, k))
            return false;
        for (int i = 0; i < MOST_MANNERS; i++)
            if ((i == 0 || !same_manner(&part->manner[i], &part->manner[i - 1])) &&
                !manner_legal(p, c, devices, &part->manner[i]))
                return false;
    }
    return c->part[config_parts(c) - 1].end == p->instances && legal_devices(p, c) &&
           legal_schedule(p, c);
}

/* ---- manners --------------------------------------------------------------------------------- */

const struct manner *manner_at(const struct config_part *part, int32_t instance)
{
    int i = 0;
    while (i < MOST_CHANGES && part->change[i] <= instance)
        i++;
    return &part->manner[i];
}

/* Runs of manners in order; neighbours with the same manner are merged. */
struct manner_runs {
    int count;
    int32_t end[2 * MOST_MANNERS];
    struct manner manner[2 * MOST_MANNERS];
};

static void add_manner(struct manner_runs *runs, int32_t first, int32_t end, struct manner manner)
{
    if (end <= first)
        return;
    if (runs->count == 0 || !same_manner(&runs->manner[runs->count - 1], &manner))
        runs->manner[runs->count++] = manner;
    runs->end[runs->count - 1] = end;
}

/* Adds the manners of a part between two instances. */
static void add_manners(struct manner_runs *runs, const struct config_part *part, int32_t first,
                        int32_t end)
{
    for (int i = 0; i < MOST_MANNERS; i++) {
        int32_t stop = i < MOST_CHANGES && part->change[i] < end ? part->change[i] : end;
        add_manner(runs, first, stop, part->manner[i]);
        first = stop > first ? stop : first;
    }
}

/* False: there are none, or too many. */
static bool put_manners(const struct manner_runs *runs, struct config_part *part)
{
    if (runs->count < 1 || runs->count > MOST_MANNERS)
        return false;
    for (int i = 0; i < MOST_MANNERS; i++) {
        part->manner[i] = runs->manner[i < runs->count ? i : runs->count - 1];
        if (i < MOST_CHANGES)
            part->change[i] = i < runs->count ? runs->end[i] : part->end;
    }
    return true;
}

const struct manner *main_manner(const struct config *c, int32_t part)
{
    const struct config_part *own = &c->part[part];
    int32_t at = part_first(c, part), most = 0;
    const struct manner *manner = &own->manner[0];
    for (int i = 0; i < MOST_MANNERS; i++) {
        int32_t stop = i < MOST_CHANGES && own->change[i] < own->end ? own->change[i] : own->end;
        if (stop - at > most) {
            most = stop - at;
            manner = &own->manner[i];
        }
        at = stop > at ? stop : at;
    }
    return manner;
}

void set_manner(struct config_part *part, struct manner manner)
{
    put_manners(&(struct manner_runs){1, {part->end}, {manner}}, part);
}

bool paint_manner(struct config *c, int32_t part, int32_t from, int32_t to, struct manner manner)
{
    struct config_part *own = &c->part[part];
    struct manner_runs runs = {0};
    add_manners(&runs, own, part_first(c, part), from);
    add_manner(&runs, from, to, manner);
    add_manners(&runs, own, to, own->end);
    return put_manners(&runs, own);
}

/* ---- one representation per config
 * ------------------------------------------------------------- */

void config_copy(struct config *to, const struct config *from)
{
    memcpy(to, from, config_bytes(from));
}

static void normalise_manner(int64_t devices, struct manner *m)
{
    if (m->tp == 1) {
        m->sequence = false;
        m->variant = 0;
    }
    if (m->tp == devices)
        m->shard = 0;
}

void config_normalise(struct config *c)
{
    for (int32_t k = 0; k < config_parts(c); k++) {
        struct config_part *part = &c->part[k];
        int32_t first = part_first(c, k);
        struct manner_runs runs = {0};
        for (int i = 0; i < MOST_MANNERS; i++)
            normalise_manner(c->devices[k % c->stages], &part->manner[i]);
        add_manners(&runs, part, first, part->end);
        put_manners(&runs, part);
        if (part->recompute_end <= first)
            part->high = part->low;
        else if (part->recompute_end >= part->end)
            part->low = part->high;
        if (part->low == part->high)
            part->recompute_end = part->end;
    }
}

uint64_t config_hash(const struct config *c)
{
    uint64_t hash = hash_bytes(c, offsetof(struct config, devices), 7);
    hash = hash_bytes(c->devices, (size_t)c->stages * sizeof c->devices[0], hash);
    return hash_bytes(c->part, (size_t)config_parts(c) * sizeof c->part[0], hash) | 1;
}

/* Whether degrees change only where the layers begin or end. */
static bool changes_by_zones(const struct problem *p, const struct config *c)
{
    for (int32_t k = 0; k < config_parts(c); k++)
        for (int i = 0; i < MOST_CHANGES; i++) {
            int32_t at = c->part[k].change[i];
            if (at < c->part[k].end && at != p->layers_first && at != p->layers_end)
                return false;
        }
    return true;
}

uint64_t config_kind(const struct problem *p, const struct config *c)
{
    const struct config_part *last = &c->part[config_parts(c) - 1];
    const struct manner *m[] = {manner_at(&c->part[0], 0), main_manner(c, 0),
                                manner_at(last, last->end - 1)};
    int64_t kind[] = {c->schedule,           c->step_samples,      0, changes_by_zones(p, c),
                      main_manner(c, 0)->cp, main_manner(c, 0)->ep};
    for (size_t i = 0; i < COUNT_OF(m); i++)
        kind[2] = kind[2] << 18 | m[i]->tp << 2 | m[i]->shard;
    return hash_bytes(kind, sizeof kind, 13);
}

/* ---- from a plan ----------------------------------------------------------------------------- */

/* The degree by which a plan splits a dim of the first operator of a part that has the two of them; 1: none
 * does. Queries and keys are both split by cp alone, and only experts by ep. */
static int64_t degree_in(const struct plan *plan, const struct part *part, enum dim dim,
                         enum dim beside)
{
    for (int64_t i = part->first; i < part->first + part->count; i++) {
        enum op_kind kind = plan->model->op[plan->instance[i].op].kind;
        if (op_find_dim(kind, dim) >= 0 && op_find_dim(kind, beside) >= 0)
            return split_degree(&plan_choice(plan, i)->split, dim);
    }
    return 1;
}

/* What a plan chose for an operator, with the degrees of its part. Not all operators show whether sequence
 * parallelism is used. */
static struct manner manner_of(const struct plan *plan, int64_t devices, int64_t instance,
                               struct manner part)
{
    const struct choice *choice = plan_choice(plan, instance);
    int64_t batch = split_degree(&choice->split, DIM_BATCH);
    int64_t dp = batch * split_degree(&choice->split, DIM_EXPERT) * part.cp;
    return (struct manner){.tp = (uint16_t)(devices % dp ? 1 : devices / dp),
                           .cp = part.cp,
                           .ep = part.ep,
                           .shard = choice->shard,
                           .offload = choice->offload};
}

/* While there are too many runs, the shortest is merged into its neighbour. */
static void drop_shortest(struct manner_runs *runs, int32_t first)
{
    int at = 0;
    for (int i = 1; i < runs->count; i++)
        if (runs->end[i] - runs->end[i - 1] < runs->end[at] - (at ? runs->end[at - 1] : first))
            at = i;
    struct manner_runs left = {0};
    for (int i = 0; i < runs->count; i++) {
        int32_t start = i ? runs->end[i - 1] : first;
        int neighbour = i > 0 ? i - 1 : 1;
        add_manner(&left, start, runs->end[i], runs->manner[i == at ? neighbour : i]);
    }
    *runs = left;
}

static void manners_of_part(const struct plan *plan, int32_t k, struct config_part *out)
{
    const struct part *part = &plan->part[k];
    int64_t devices = plan->stage[plan_stage_of_part(plan, k)].devices;
    int32_t first = (int32_t)part->first;
    struct manner degrees = {.cp = (uint16_t)degree_in(plan, part, DIM_SEQ, DIM_KV),
                             .ep = (uint16_t)degree_in(plan, part, DIM_EXPERT, DIM_OUT)};
    struct manner_runs runs = {0};
    bool sequence = false;
    for (int32_t i = first; i < first + part->count; i++) {
        add_manner(&runs, i, i + 1, manner_of(plan, devices, i, degrees));
        if (runs.count > MOST_MANNERS)
            drop_shortest(&runs, first);
        sequence |= split_degree(&plan_choice(plan, i)->split, DIM_SEQ) > degrees.cp;
    }
    for (int i = 0; i < runs.count; i++)
        runs.manner[i].sequence = sequence;
    put_manners(&runs, out);
}

static bool same_operators(const struct model *a, const struct model *b)
{
    bool same = a->ops == b->ops;
    for (int32_t i = 0; same && a != b && i < a->ops; i++)
        same = a->op[i].kind == b->op[i].kind &&
               memcmp(a->op[i].size, b->op[i].size, sizeof a->op[i].size) == 0;
    return same;
}

weft_status config_of_plan(const struct problem *p, const struct plan *plan, struct config *out)
{
    const struct schedule *all;
    size_t count = schedule_all(&all);
    if (!same_operators(plan->model, p->request->model))
        return bad_argument("give the model that the plan is for",
                            "the plan is for %s, which has other operators than %s",
                            plan->model->name, p->request->model->name);
    if (plan->instances != p->instances || plan->parts > ACESO_MOST_PARTS ||
        plan->stages > MOST_STAGES || plan->global_batch != p->global_batch)
        return bad_argument("give the model, the cluster and the batch that the plan is for",
                            "the plan has %lld operators and %lld samples, the model %lld and the "
                            "batch %lld",
                            (long long)plan->instances, (long long)plan->global_batch,
                            (long long)p->instances, (long long)p->global_batch);
    *out = (struct config){.stages = plan->stages,
                           .pieces = (int32_t)plan->pieces,
                           .step_samples = plan->step_samples};
    for (size_t i = 0; i < count; i++)
        if (strcmp(all[i].name, plan->schedule) == 0)
            out->schedule = (int32_t)i;
    for (int32_t s = 0; s < plan->stages; s++)
        out->devices[s] = (int32_t)plan->stage[s].devices;
    for (int32_t k = 0; k < plan->parts; k++) {
        struct config_part *part = &out->part[k];
        part->end = part->recompute_end = (int32_t)(plan->part[k].first + plan->part[k].count);
        manners_of_part(plan, k, part);
    }
    config_normalise(out);
    if (!config_legal(p, out))
        return bad_argument("begin with balanced instead, or pin less",
                            "the search cannot begin with this plan: its schedule or degrees are "
                            "pinned otherwise, or its stages divide nodes");
    return WEFT_OK;
}
