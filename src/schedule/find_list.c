/* find_list.c - an order by list scheduling with look-ahead.
 *
 * Of all stages the one that can begin its next pass first begins it. A stage that is free at t
 * prefers input gradients, for which others wait, then forward passes, then weight gradients, for
 * which nobody waits; it leaves weight gradients aside for a pass that it knows will be ready until
 *   t + wait * w                                                                                (1)
 *
 *   I1  A stage begins a forward pass only if afterwards its micro-batches could still finish one
 *       after the other, the oldest first, each with all its pieces (the banker's rule): no order is
 *       ever stuck for memory.
 *   I2  Passes are begun in the order of their times, so that whatever becomes ready before a pass
 *       begins is known when it is chosen.
 *   I3  What a stage would begin changes only when it begins something, or when a part beside one of its own does.
 */
#include "schedule/find.h"

/* The best pass of a stage: its code, or none, and when it begins. */
struct pick {
    int32_t code;
    int64_t start_ns, rank;
};

struct lister {
    struct order_search *f;
    struct codes *out;
    const struct list_rules *rules;
    int64_t *held;     /* by stage: bytes between slots */
    double *wait;      /* by stage */
    int64_t *ahead;    /* by stage: most micro-batches that are not done; 0: any number */
    struct pick *pick; /* by stage: what it would begin next; I3 */
    bool *stale;       /* by stage */
};

static int64_t kept_of(const struct order_search *f, int32_t part)
{
    return f->q->memory[part].kept;
}

/* Passes of a part that hold memory: until weight gradients are done. */
static int32_t finished(const struct order_search *f, int32_t part)
{
    return f->backwards[part] - f->inputs[part] + f->weights[part];
}

/* I1, after one more forward pass of `part`. */
static bool is_safe(const struct lister *l, int32_t s, int32_t part)
{
    const struct order_search *f = l->f;
    int64_t left = f->room[s] - l->held[s] - kept_of(f, part);
    int32_t first = f->part_of[s * f->pieces], oldest = f->m;
    for (int32_t k = 0; k < f->pieces; k++) {
        int32_t done = finished(f, f->part_of[s * f->pieces + k]);
        oldest = done < oldest ? done : oldest;
    }
    if (left < 0)
        return false;
    for (int32_t j = oldest; j < f->forwards[first] + (part == first) && f->pieces > 1; j++) {
        int64_t needs = 0, has = 0;
        for (int32_t k = 0; k < f->pieces; k++) {
            int32_t own = f->part_of[s * f->pieces + k];
            bool begun = f->forwards[own] + (own == part) > j;
            needs += begun ? 0 : kept_of(f, own);
            has += begun && finished(f, own) <= j ? kept_of(f, own) : 0;
        }
        if (needs > left)
            return false;
        left += has;
    }
    return true;
}

static bool may_forward(const struct lister *l, int32_t s, int32_t part)
{
    const struct order_search *f = l->f;
    if (f->forwards[part] == f->m)
        return false;
    if (l->ahead[s] && f->forwards[part] - f->backwards[part] >= l->ahead[s])
        return false;
    return !f->q->limit_bytes || is_safe(l, s, part);
}

static int64_t ready_forward(const struct order_search *f, int32_t part)
{
    int32_t j = f->forwards[part];
    if (part == 0)
        return 0;
    return f->forwards[part - 1] > j
               ? f->forward_end[(int64_t)(part - 1) * f->m + j] + f->send_ns[part - 1]
               : NEVER;
}

static int64_t ready_backward(const struct order_search *f, int32_t part)
{
    int32_t j = f->backwards[part];
    if (f->forwards[part] <= j)
        return NEVER;
    if (part == f->parts - 1)
        return f->forward_end[(int64_t)part * f->m + j];
    return f->backwards[part + 1] > j
               ? f->backward_end[(int64_t)(part + 1) * f->m + j] + f->back_ns[part + 1]
               : NEVER;
}

static void offer(struct pick *best, uint16_t code, int64_t ready_ns, int64_t free_ns, int64_t rank)
{
    int64_t start = ready_ns > free_ns ? ready_ns : free_ns;
    if (ready_ns == NEVER)
        return;
    if (best->code < 0 || start < best->start_ns || (start == best->start_ns && rank < best->rank))
        *best = (struct pick){code, start, rank};
}

/* Backward passes of later parts come first, and forward passes of later parts. */
static struct pick pick_pass(const struct lister *l, int32_t s)
{
    const struct order_search *f = l->f;
    struct pick best = {-1, 0, 0};
    enum slot_kind backward = l->rules->whole ? SLOT_BACKWARD : SLOT_BACKWARD_INPUT;
    for (int32_t k = 0; k < f->pieces; k++) {
        int32_t part = f->part_of[s * f->pieces + k];
        int64_t late = f->parts - part;
        int64_t rank = l->rules->forward_first ? 2 * f->parts + late : late;
        offer(&best, code_of(k, backward), ready_backward(f, part), f->stage_ns[s], rank);
        if (may_forward(l, s, part))
            offer(&best, code_of(k, SLOT_FORWARD), ready_forward(f, part), f->stage_ns[s],
                  f->parts + late);
    }
    return best;
}

static struct pick pick_slot(const struct lister *l, int32_t s)
{
    const struct order_search *f = l->f;
    struct pick best = pick_pass(l, s);
    for (int32_t k = 0; k < f->pieces; k++) {
        int32_t part = f->part_of[s * f->pieces + k];
        if (f->weights[part] == f->inputs[part])
            continue;
        double patience = l->wait[s] * (double)f->q->weight_ns[part]; /* (1) */
        if (best.code < 0 || (double)best.start_ns > (double)f->stage_ns[s] + patience)
            return (struct pick){code_of(k, SLOT_BACKWARD_WEIGHT), f->stage_ns[s], 0};
    }
    return best;
}

static void begin(struct lister *l, int32_t s, const struct pick *pick)
{
    struct order_search *f = l->f;
    enum slot_kind kind = kind_of((uint16_t)pick->code);
    int32_t part = f->part_of[s * f->pieces + piece_of((uint16_t)pick->code)];
    const struct order_memory *own = &f->q->memory[part];
    const int64_t net[] = {[SLOT_FORWARD] = own->kept,
                           [SLOT_BACKWARD] = -own->kept,
                           [SLOT_BACKWARD_INPUT] = own->back,
                           [SLOT_BACKWARD_WEIGHT] = -own->kept - own->back};
    int64_t end = pick->start_ns + find_slot_ns(f, part, kind);
    l->out->list[s][l->out->len[s]++] = (uint16_t)pick->code;
    l->held[s] += net[kind];
    f->stage_ns[s] = end;
    if (kind == SLOT_FORWARD)
        f->forward_end[(int64_t)part * f->m + f->forwards[part]++] = end;
    else if (kind == SLOT_BACKWARD_WEIGHT)
        f->weights[part]++;
    else
        f->backward_end[(int64_t)part * f->m + f->backwards[part]++] = end;
    f->inputs[part] += kind == SLOT_BACKWARD_INPUT;
}

static void start(struct lister *l)
{
    struct order_search *f = l->f;
    const struct list_rules *rules = l->rules;
    for (int32_t k = 0; k < f->parts; k++)
        f->forwards[k] = f->backwards[k] = f->inputs[k] = f->weights[k] = 0;
    for (int32_t s = 0; s < f->stages; s++) {
        double more = 1 + rules->jitter * (2 * rng_uniform(&f->rng) - 1);
        l->out->len[s] = 0;
        f->stage_ns[s] = l->held[s] = 0;
        l->stale[s] = true;
        l->wait[s] = rules->wait * more;
        l->ahead[s] = (int64_t)(rules->ahead * more * (double)(f->stages - s) + 0.5);
        if (rules->ahead > 0 && l->ahead[s] < 1)
            l->ahead[s] = 1;
    }
}

/* I3. */
static void mark_stale(struct lister *l, int32_t stage, int32_t code)
{
    const struct order_search *f = l->f;
    enum slot_kind kind = kind_of((uint16_t)code);
    int32_t part = f->part_of[stage * f->pieces + piece_of((uint16_t)code)];
    int32_t other = kind == SLOT_FORWARD ? part + 1 : part - 1;
    l->stale[stage] = true;
    if (kind != SLOT_BACKWARD_WEIGHT && other >= 0 && other < f->parts)
        l->stale[f->stage_of[other]] = true;
}

/* The stage that begins first, or -1: none can. */
static int32_t first_stage(struct lister *l)
{
    int32_t first = -1;
    for (int32_t s = 0; s < l->f->stages; s++) {
        if (l->stale[s])
            l->pick[s] = pick_slot(l, s);
        l->stale[s] = false;
        if (l->pick[s].code >= 0 && (first < 0 || l->pick[s].start_ns < l->pick[first].start_ns))
            first = s;
    }
    return first;
}

bool find_list(struct order_search *f, const struct list_rules *rules, struct codes *out)
{
    struct arena *scratch = arena_new();
    size_t stages = (size_t)f->stages;
    struct lister l = {f,
                       out,
                       rules,
                       ARENA_ARRAY(scratch, int64_t, stages),
                       ARENA_ARRAY(scratch, double, stages),
                       ARENA_ARRAY(scratch, int64_t, stages),
                       ARENA_ARRAY(scratch, struct pick, stages),
                       ARENA_ARRAY(scratch, bool, stages)};
    start(&l);
    for (int32_t stage = first_stage(&l); stage >= 0; stage = first_stage(&l)) {
        begin(&l, stage, &l.pick[stage]);
        mark_stale(&l, stage, l.pick[stage].code);
    }
    bool complete = true;
    for (int32_t k = 0; k < f->parts; k++)
        complete = complete && finished(f, k) == f->m;
    arena_free(scratch);
    return complete;
}
