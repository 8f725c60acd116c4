/* parts.c - what one part takes and holds, and what crosses its borders.
 *
 *   I1  A part's cost depends only on its key: it is found once and kept, so a change of one stage
 *       re-costs that stage. The cache has PART_SLOTS slots and no influence on answers.
 *   I2  Borders are those between plain runs (plain_run): they depend on the layout of tensors on
 *       either side, and on whether weights are gathered for passes, since these gathers happen
 *       while the run before is at work; recomputation, other sharding, offload and the order of
 *       passes are left out. A border is measured at the first position that a pair of stages of
 *       these sizes can have: in one node, or from the end of one node to the next. On one stage
 *       with equal layouts there is none.
 *   I3  A weight whose user is on another stage than its owner, or has another tp or sharding,
 *       exists twice (candidate.c, I2).
 *   I4  A judge keeps the parts and borders of the previous config. Those with the same keys are
 *       not looked up again; parts are joined again, and their stages summed up, only if they or
 *       one of their borders changed.
 *   I5  Where another system counts memory (counted.h), a part holds what that count says, and
 *       borders add nothing to it.
 */
#include "search/aceso/room.h"

#include <string.h>

/* Compares keys of whole words without branches: most are equal. */
static inline bool same_words(const void *a, const void *b, size_t bytes)
{
    uint64_t differs = 0;
    for (size_t i = 0; i < bytes; i += sizeof differs) {
        uint64_t x, y;
        memcpy(&x, (const char *)a + i, sizeof x);
        memcpy(&y, (const char *)b + i, sizeof y);
        differs |= x ^ y;
    }
    return differs == 0;
}
_Static_assert(sizeof(struct part_key) % sizeof(uint64_t) == 0, "a part's key is no whole words");
_Static_assert(sizeof(struct border_key) % sizeof(uint64_t) == 0, "a border's is none");

/* ---- a part ---------------------------------------------------------------------------------- */

bool tied_alike(const struct problem *p, const struct config *c, struct tied_parts at)
{
    const struct manner *a = manner_at(&c->part[at.owner], (int32_t)p->tied.owner);
    const struct manner *b = manner_at(&c->part[at.user], (int32_t)p->tied.user);
    return at.owner % c->stages == at.user % c->stages && a->tp == b->tp && a->cp == b->cp &&
           a->shard == b->shard;
}

/* I3 */
static bool has_copy(const struct problem *p, const struct config *c, int32_t part)
{
    bool here = p->tied.user >= part_first(c, part) && p->tied.user < c->part[part].end;
    return p->tied.user >= 0 && here && !tied_alike(p, c, tied_parts_of(c, p->tied));
}

static struct part_key key_of(const struct judge *j, const struct config *c, int32_t part,
                              enum order order)
{
    const struct problem *p = j->problem;
    int32_t stage = part % c->stages;
    return (struct part_key){.first = part_first(c, part),
                             .first_device = j->place[stage].in_node,
                             .devices = c->devices[stage],
                             .micro_batches = j->micro_batches,
                             .part = c->part[part],
                             .step_samples = c->step_samples,
                             .order = (uint8_t)order,
                             .tied = has_copy(p, c, part)};
}

int32_t part_runs(int32_t first, const struct config_part *part, struct part_run out[MOST_RUNS])
{
    int32_t count = 0;
    for (int32_t at = first; at < part->end;) {
        int32_t next = part->end, i = 0;
        while (i < MOST_CHANGES && part->change[i] <= at)
            i++;
        if (i < MOST_CHANGES && part->change[i] < next)
            next = part->change[i];
        if (at < part->recompute_end && part->recompute_end < next)
            next = part->recompute_end;
        out[count++] = (struct part_run){at, next, part->manner[i],
                                         at < part->recompute_end ? part->high : part->low};
        at = next;
    }
    return count;
}

static weft_status find_run(struct judge *j, const struct part_key *key, const struct part_run *run,
                            const struct whole_table **out)
{
    struct run_key k = {.manner = run->manner,
                        .level = run->level,
                        .devices = key->devices,
                        .first_device = key->first_device,
                        .order = key->order,
                        .step_samples = key->step_samples};
    return judge_run(j, &k, out);
}

/* I2 */
enum { WEIGHTS_SHARDED = 3 };
static struct manner plain_manner(const struct manner *m)
{
    return (struct manner){.tp = m->tp,
                           .cp = m->cp,
                           .ep = m->ep,
                           .variant = m->variant,
                           .shard = m->shard == WEIGHTS_SHARDED ? WEIGHTS_SHARDED : 0,
                           .sequence = m->sequence};
}

static weft_status plain_run(struct judge *j, const struct manner *manner, int64_t devices,
                             int64_t first_device, int64_t step_samples,
                             const struct row_table **out)
{
    struct run_key key = {.manner = plain_manner(manner),
                          .devices = (int32_t)devices,
                          .first_device = (int32_t)(first_device % j->problem->node),
                          .order = ORDER_IN_TURN,
                          .step_samples = step_samples};
    const struct whole_table *whole;
    weft_status status;
    TRY(judge_run(j, &key, &whole));
    *out = whole ? whole->table : NULL;
done:
    return status;
}

static weft_status find_border(struct judge *j, const struct seam *seam, int64_t at,
                               const struct border **out)
{
    struct borders *borders;
    weft_status status;
    TRY(seam_find(j->estimator->tables, seam, &borders));
    TRY(border_find(j->estimator->tables, borders, j->problem->fold.place[at], out));
done:
    return status;
}

static void add_side(const struct side *side, struct part_work *work, struct part_memory *memory)
{
    work->forward += side->forward;
    work->backward += side->backward;
    work->weight += side->weight;
    memory->kept += side->memory.kept;
    memory->back += side->memory.back;
    memory->forward_rise += side->memory.forward_rise;
    memory->backward_rise += side->memory.backward_rise;
    memory->weight_rise += side->memory.weight_rise;
}

/* I3 */
static void add_copy(const struct problem *p, const struct whole_table *table,
                     struct part_sums *sums)
{
    static const enum tally OWN[] = {SUM_SYNC,         SUM_SYNC_EACH,  SUM_SYNC_BYTES,
                                     SUM_GATHER_AFTER, SUM_PARAMETERS, SUM_STATE};
    int64_t owner = p->tied.owner;
    for (size_t k = 0; k < COUNT_OF(OWN); k++)
        sums->sums.of[OWN[k]] += (int64_t)((double)whole_sum(table, OWN[k], owner, owner + 1) *
                                           table->table->tied_share);
}

static void close_cost(struct judge *j, const struct part_sums *sums, struct part_cost *out)
{
    const int64_t *of = sums->sums.of;
    struct part_work beside = out->work;
    struct part_memory more = out->memory;
    out->work = close_part(j->estimator->tables, sums, out->table, out->key.micro_batches);
    out->memory = (struct part_memory){.kept = of[SUM_KEPT],
                                       .back = of[SUM_BACK],
                                       .forward_rise = sums->forward_rise,
                                       .backward_rise = sums->backward_rise,
                                       .weight_rise = sums->weight_rise,
                                       .offloaded = of[SUM_OFFLOADED]};
    add_side(&(struct side){beside.forward, beside.backward, beside.weight, more}, &out->work,
             &out->memory);
    out->state = of[SUM_STATE];
    out->step = sums->sums.of[SUM_STEP];
    out->stand_in = sums->stand_in_bytes;
    out->parameters = of[SUM_PARAMETERS];
    out->gather_after_ns = of[SUM_GATHER_AFTER];
    out->operators_ns = of[SUM_STRETCHED] + of[SUM_STRETCHED + 1] + of[SUM_STRETCHED + 2];
}

/* I5 */
static void count_memory(const struct judge *j, const struct counted_run *run, int32_t runs,
                         struct part_cost *out)
{
    const struct memory_count *count = j->problem->study->count;
    if (!count)
        return;
    struct counted counted = count->part(count->context, run, runs);
    counted_hold(counted, &out->memory);
    out->state = counted.always;
    out->step = out->stand_in = 0;
}

static bool lies_alike(const struct manner *a, const struct manner *b)
{
    struct manner x = plain_manner(a), y = plain_manner(b);
    return memcmp(&x, &y, sizeof x) == 0;
}

/* Adds the border between two runs of a part. */
static weft_status add_inner(struct judge *j, struct part_sums *sums, const struct part_run *before,
                             const struct part_run *after, struct part_cost *out)
{
    const struct part_key *key = &out->key;
    struct seam seam = {NULL, NULL, key->first_device, key->first_device, 0};
    const struct border *border;
    weft_status status = WEFT_OK;
    if (lies_alike(&before->manner, &after->manner))
        return WEFT_OK;
    TRY(plain_run(j, &before->manner, key->devices, key->first_device, key->step_samples,
                  &seam.before));
    TRY(plain_run(j, &after->manner, key->devices, key->first_device, key->step_samples,
                  &seam.after));
    TRY(find_border(j, &seam, after->first, &border));
    struct side side = inner_side(sums, &border->before);
    add_side(&side, &out->work, &out->memory);
done:
    return status;
}

static weft_status cost_part(struct judge *j, const struct part_key *key, struct part_cost *out)
{
    struct part_run run[MOST_RUNS];
    struct counted_run counted[MOST_RUNS];
    int32_t runs = part_runs(key->first, &key->part, run);
    int64_t user = j->problem->tied.user;
    struct part_sums sums = {0};
    const struct whole_table *table = NULL;
    weft_status status = WEFT_OK;
    *out = (struct part_cost){.key = *key};
    for (int32_t r = 0; r < runs; r++) {
        TRY(find_run(j, key, &run[r], &table));
        if (!table)
            goto done;
        add_whole_run(&sums, table, run[r].first, run[r].last);
        counted[r] = (struct counted_run){run[r].first, run[r].last, table->laid};
        if (key->tied && run[r].first <= user && user < run[r].last)
            add_copy(j->problem, table, &sums);
        if (r > 0)
            TRY(add_inner(j, &sums, &run[r - 1], &run[r], out));
    }
    if (!table)
        goto done;
    out->table = table->table;
    close_cost(j, &sums, out);
    count_memory(j, counted, runs, out);
    out->legal = true;
done:
    return status;
}

/* ---- borders --------------------------------------------------------------------------------- */

static int64_t round_up(int64_t number, int64_t to)
{
    return ceil_div(number, to) * to;
}

/* I2: the first device of the later of two stages, if the other one begins at 0, or ends at the end
 * of a node. */
static int64_t second_device(int64_t node, int64_t first, int64_t second, bool same_node)
{
    if (!same_node)
        return round_up(first, node);
    int64_t at = round_up(first, second);
    return at + second <= node ? at : first;
}

static weft_status find_seam(struct judge *j, const struct border_key *key, bool same,
                             struct seam *out)
{
    int64_t node = j->problem->node;
    bool reversed = key->reversed;
    int32_t low = key->devices[reversed], high = key->devices[!reversed];
    int64_t at = second_device(node, low, high, same);
    int64_t device[2] = {at - low, at};
    weft_status status;
    *out = (struct seam){NULL, NULL, device[reversed], device[!reversed], 0};
    if (key->inside)
        out->before_device = out->after_device = 0;
    TRY(plain_run(j, &key->manner[0], key->devices[0], out->before_device, key->step_samples,
                  &out->before));
    TRY(plain_run(j, &key->manner[1], key->devices[1], out->after_device, key->step_samples,
                  &out->after));
done:
    return status;
}

static bool in_one_node(const struct judge *j, int32_t low, int32_t high)
{
    return j->place[low].first_node == j->place[high].last_node;
}

static struct border_key border_key_of(const struct judge *j, const struct config *c,
                                       int32_t before, int32_t after, int32_t at)
{
    int32_t from = before % c->stages, to = after % c->stages;
    const struct config_part *part = &c->part[before];
    struct border_key key = {
        .manner = {plain_manner(manner_at(part, part->end - 1)),
                   plain_manner(manner_at(&c->part[after], part_first(c, after)))},
        .devices = {c->devices[from], c->devices[to]},
        .place = j->problem->fold.place[at],
        .reversed = from > to,
        .step_samples = c->step_samples,
    };
    key.same_node = in_one_node(j, key.reversed ? to : from, key.reversed ? from : to);
    return key;
}

static weft_status find_border_slot(struct judge *j, const struct border_key *key, int32_t at,
                                    const struct border_slot **out)
{
    struct border_slot *slot = &j->border_slot[hash_bytes(key, sizeof *key, 5) % PART_SLOTS];
    weft_status status = WEFT_OK;
    if (!same_words(&slot->key, key, sizeof *key)) {
        struct seam seam;
        TRY(find_seam(j, key, key->same_node, &seam));
        *slot = (struct border_slot){.key = *key};
        if (seam.before && seam.after)
            TRY(find_border(j, &seam, at, &slot->border));
    }
    *out = slot;
done:
    return status;
}

weft_status judge_tie(struct judge *j, const struct config *c, struct tied_parts at,
                      const struct border **out)
{
    const struct problem *p = j->problem;
    struct border_key key = border_key_of(j, c, at.owner, at.user, (int32_t)p->tied.user);
    const struct border_slot *slot;
    weft_status status;
    key.manner[0] = plain_manner(manner_at(&c->part[at.owner], (int32_t)p->tied.owner));
    key.manner[1] = plain_manner(manner_at(&c->part[at.user], (int32_t)p->tied.user));
    key.inside = at.owner % c->stages == at.user % c->stages;
    TRY(find_border_slot(j, &key, (int32_t)p->tied.user, &slot));
    *out = slot->border;
done:
    return status;
}

/* I4. */
static weft_status border_after(struct judge *j, const struct config *c, int32_t part, bool *legal)
{
    struct border_key key = border_key_of(j, c, part, part + 1, c->part[part].end);
    const struct border_slot *slot = j->border_at[part];
    weft_status status = WEFT_OK;
    if (!slot || !same_words(&slot->key, &key, sizeof key))
        TRY(find_border_slot(j, &key, c->part[part].end, &slot));
    j->border_at[part] = slot;
    if (j->border[part] != slot->border)
        j->changed[part] = j->changed[part + 1] = true;
    j->border[part] = slot->border;
    *legal &= slot->border != NULL;
done:
    return status;
}

/* ---- parts of a config ----------------------------------------------------------------------- */

/* I1: a slot is written only when nobody reads it any longer. */
void judge_keep(struct judge *j, const struct config *c, int32_t from, int32_t step)
{
    for (int32_t k = from; k < config_parts(c); k += step)
        if (j->cost[k] == &j->own[k]) {
            uint64_t hash = hash_bytes(&j->own[k].key, sizeof j->own[k].key, 3);
            struct part_cost *slot = &j->slot[hash % PART_SLOTS];
            *slot = j->own[k];
            j->cost[k] = slot;
        }
}

static void join_borders(struct judge *j, const struct config *c, int32_t k)
{
    j->work[k] = j->cost[k]->work;
    j->memory[k] = j->cost[k]->memory;
    const struct border *before = k ? j->border[k - 1] : NULL;
    const struct border *after = k + 1 < config_parts(c) ? j->border[k] : NULL;
    if (before) {
        add_side(&before->after, &j->work[k], &j->memory[k]);
        j->work[k].back = before->back;
    }
    if (after) {
        add_side(&after->before, &j->work[k], &j->memory[k]);
        j->work[k].send = after->send;
    }
    if (j->problem->study->count)
        j->memory[k] = j->cost[k]->memory; /* I5 */
}

/* Mostly the stages are where they were: divisions take longer than all the rest. */
static void lay_devices(struct judge *j, const struct config *c)
{
    int64_t first = 0, node = j->problem->node;
    for (int32_t s = 0; s < c->stages; first += c->devices[s++]) {
        struct stage_place *place = &j->place[s];
        int64_t last = first + c->devices[s] - 1;
        if (place->first == first && place->last == last)
            continue;
        *place =
            (struct stage_place){first, last, first / node, last / node, (int32_t)(first % node)};
    }
}

static void count_micro_batches(struct judge *j, const struct config *c)
{
    if (j->step_samples == c->step_samples)
        return;
    j->step_samples = c->step_samples;
    j->micro_batches = (int32_t)(j->problem->global_batch / c->step_samples);
}

/* I4 */
static void begin_config(struct judge *j, const struct config *c)
{
    lay_devices(j, c);
    count_micro_batches(j, c);
    if (j->stages == c->stages && j->pieces == c->pieces && j->schedule == c->schedule)
        return;
    j->stages = c->stages;
    j->pieces = c->pieces;
    j->schedule = c->schedule;
    for (int32_t k = 0; k < config_parts(c); k++)
        j->changed[k] = true;
}

static weft_status find_part(struct judge *j, const struct config *c, int32_t k, enum order order)
{
    struct part_key key = key_of(j, c, k, order);
    weft_status status = WEFT_OK;
    if (j->cost[k] && same_words(&j->cost[k]->key, &key, sizeof key))
        return WEFT_OK;
    struct part_cost *slot = &j->slot[hash_bytes(&key, sizeof key, 3) % PART_SLOTS];
    j->changed[k] = true;
    j->cost[k] = slot;
    if (!same_words(&slot->key, &key, sizeof key)) {
        j->cost[k] = &j->own[k];
        TRY(cost_part(j, &key, &j->own[k]));
    }
done:
    return status;
}

weft_status judge_parts(struct judge *j, const struct config *c, int32_t stage, bool *legal)
{
    enum order order = config_order(c);
    int32_t from = stage < 0 ? 0 : stage, step = stage < 0 ? 1 : c->stages;
    weft_status status = WEFT_OK;
    *legal = true;
    begin_config(j, c);
    for (int32_t k = from; k < config_parts(c); k += step) {
        TRY(find_part(j, c, k, order));
        *legal &= j->cost[k]->legal;
        if (k > 0 && stage >= 0)
            TRY(border_after(j, c, k - 1, legal));
        if (k + 1 < config_parts(c))
            TRY(border_after(j, c, k, legal));
    }
    for (int32_t k = from; *legal && k < config_parts(c); k += step)
        if (j->changed[k]) {
            join_borders(j, c, k);
            j->changed[k] = false;
            j->sums[k % c->stages].known = false;
        }
done:
    return status;
}

weft_status judge_stage_hash(struct judge *j, const struct config *c, int32_t stage, uint64_t *out)
{
    int64_t head[] = {c->stages, c->pieces, c->schedule, stage, judge_limit(j, c)};
    bool legal = true;
    weft_status status = WEFT_OK;
    begin_config(j, c);
    *out = hash_bytes(head, sizeof head, 11);
    for (int32_t k = stage; k < config_parts(c); k += c->stages) {
        struct part_key key = key_of(j, c, k, config_order(c));
        const struct border *beside[2] = {NULL, NULL};
        if (k > 0)
            TRY(border_after(j, c, k - 1, &legal));
        if (k + 1 < config_parts(c))
            TRY(border_after(j, c, k, &legal));
        beside[0] = k > 0 && legal ? j->border[k - 1] : NULL;
        beside[1] = k + 1 < config_parts(c) && legal ? j->border[k] : NULL;
        *out = hash_bytes(&key, sizeof key, *out);
        *out = hash_bytes(beside, sizeof beside, *out);
    }
    *out |= 1;
done:
    return status;
}
