/* find_exact.c - the best order by branch and bound, for small questions.
 *
 * Passes are begun in the order of their times. At each step the stage that can begin first, at t,
 * either begins one of the passes that are ready at t, or waits for one that becomes ready later:
 * then its next pass is none of those. Every order without needless idle time is such a sequence of
 * decisions, and one of these is best.
 *
 *   I1  A branch ends if a stage's work that is left, after the time at which the stage is free,
 *       and what follows its last pass cannot end before the best order so far.
 *   I2  What a stage holds depends on its list alone (find_play.c, I2), so memory forbids passes one
 *       by one.
 */
#include "schedule/find.h"

struct search {
    struct order_search *f;
    struct codes now, *best;
    int64_t *best_ns, nodes;
    int64_t *held, *barred_ns; /* by stage; passes that were ready at barred_ns are not begun */
    int64_t *left;             /* by stage: work that is left */
    bool exhausted;
};

static int64_t ready_ns(const struct order_search *f, int32_t part, enum slot_kind kind)
{
    int32_t j = kind == SLOT_FORWARD ? f->forwards[part] : f->backwards[part];
    if (kind == SLOT_BACKWARD_WEIGHT) /* ready when its input gradients end */
        return f->weights[part] < f->inputs[part] ? 0 : NEVER;
    if (j == f->m)
        return NEVER;
    if (kind == SLOT_FORWARD && part == 0)
        return 0;
    if (kind == SLOT_FORWARD)
        return f->forwards[part - 1] > j
                   ? f->forward_end[(part - 1) * f->m + j] + f->send_ns[part - 1]
                   : NEVER;
    if (f->forwards[part] <= j)
        return NEVER;
    if (part == f->parts - 1)
        return f->forward_end[part * f->m + j];
    return f->backwards[part + 1] > j
               ? f->backward_end[(part + 1) * f->m + j] + f->back_ns[part + 1]
               : NEVER;
}

static int64_t net_of(const struct order_memory *own, enum slot_kind kind)
{
    const int64_t net[] = {[SLOT_FORWARD] = own->kept,
                           [SLOT_BACKWARD] = -own->kept,
                           [SLOT_BACKWARD_INPUT] = own->back,
                           [SLOT_BACKWARD_WEIGHT] = -own->kept - own->back};
    return net[kind];
}

/* I2. */
static bool has_room(const struct search *x, int32_t s, int32_t part, enum slot_kind kind)
{
    const struct order_question *q = x->f->q;
    const struct order_memory *own = &q->memory[part];
    const int64_t rise[] = {[SLOT_FORWARD] = own->forward_rise,
                            [SLOT_BACKWARD] = own->backward_rise,
                            [SLOT_BACKWARD_INPUT] = own->backward_rise,
                            [SLOT_BACKWARD_WEIGHT] = own->weight_rise};
    if (!q->limit_bytes)
        return true;
    return x->held[s] + rise[kind] <= q->limit_bytes[s] &&
           x->held[s] + net_of(own, kind) <= q->limit_bytes[s];
}

/* Whether the question allows passes of this kind at all. */
static bool is_used(const struct order_search *f, enum slot_kind kind)
{
    bool split = kind == SLOT_BACKWARD_INPUT || kind == SLOT_BACKWARD_WEIGHT;
    return kind == SLOT_FORWARD || split != f->q->unsplit;
}

/* When a stage could begin this pass; NEVER: not now. */
static int64_t begin_ns(const struct search *x, int32_t s, int32_t piece, enum slot_kind kind)
{
    const struct order_search *f = x->f;
    int32_t part = f->part_of[s * f->pieces + piece];
    int64_t ready = is_used(f, kind) ? ready_ns(f, part, kind) : NEVER;
    if (ready == NEVER || !has_room(x, s, part, kind) || ready <= x->barred_ns[s])
        return NEVER;
    return ready > f->stage_ns[s] ? ready : f->stage_ns[s];
}

/* I1. */
static bool is_hopeless(const struct search *x)
{
    const struct order_search *f = x->f;
    enum slot_kind back = f->q->unsplit ? SLOT_BACKWARD : SLOT_BACKWARD_INPUT;
    for (int32_t s = 0; s < f->stages; s++)
        if (f->stage_ns[s] + x->left[s] >= *x->best_ns)
            return true;
    for (int32_t k = 0; k < f->parts; k++) {
        int32_t s = f->stage_of[k], passes = f->m - f->backwards[k];
        if (passes == 0)
            continue;
        int64_t ns = f->stage_ns[s], way = 0;
        ns += (int64_t)(f->m - f->forwards[k]) * f->q->forward_ns[k] +
              passes * find_slot_ns(f, k, back);
        for (int32_t up = k; up > 0; up--)
            way += f->back_ns[up] + find_slot_ns(f, up - 1, back);
        if (ns + way >= *x->best_ns)
            return true;
    }
    return false;
}

static bool is_done(const struct search *x)
{
    const struct order_search *f = x->f;
    for (int32_t k = 0; k < f->parts; k++)
        if (f->backwards[k] < f->m || f->weights[k] < f->inputs[k])
            return false;
    return true;
}

static void take_best(struct search *x)
{
    int64_t ns = 0;
    for (int32_t s = 0; s < x->f->stages; s++)
        ns = x->f->stage_ns[s] > ns ? x->f->stage_ns[s] : ns;
    if (ns >= *x->best_ns)
        return;
    *x->best_ns = ns;
    codes_copy(x->f, x->best, &x->now);
}

static void branch(struct search *x);

static void begin(struct search *x, int32_t s, int32_t piece, enum slot_kind kind, int64_t start)
{
    struct order_search *f = x->f;
    int32_t part = f->part_of[s * f->pieces + piece];
    int64_t free_ns = f->stage_ns[s], barred = x->barred_ns[s];
    int64_t work = find_slot_ns(f, part, kind), end = start + work,
            net = net_of(&f->q->memory[part], kind);
    int32_t *count = kind == SLOT_FORWARD           ? &f->forwards[part]
                     : kind == SLOT_BACKWARD_WEIGHT ? &f->weights[part]
                                                    : &f->backwards[part];
    if (kind == SLOT_FORWARD)
        f->forward_end[part * f->m + *count] = end;
    else if (kind != SLOT_BACKWARD_WEIGHT)
        f->backward_end[part * f->m + *count] = end;
    ++*count;
    f->inputs[part] += kind == SLOT_BACKWARD_INPUT;
    f->stage_ns[s] = end;
    x->barred_ns[s] = NEVER;
    x->held[s] += net;
    x->left[s] -= work;
    x->now.list[s][x->now.len[s]++] = code_of(piece, kind);
    branch(x);
    x->now.len[s]--;
    x->left[s] += work;
    x->held[s] -= net;
    x->barred_ns[s] = barred;
    f->stage_ns[s] = free_ns;
    f->inputs[part] -= kind == SLOT_BACKWARD_INPUT;
    --*count;
}

/* Whether a pass of the stage could still become ready that is not ready at this time. */
static bool more_to_come(const struct order_search *f, int32_t s, int64_t now)
{
    for (int32_t k = 0; k < f->pieces; k++) {
        int32_t part = f->part_of[s * f->pieces + k];
        const enum slot_kind kinds[] = {SLOT_FORWARD, SLOT_BACKWARD};
        for (size_t i = 0; i < COUNT_OF(kinds); i++) {
            bool left = (i == 0 ? f->forwards : f->backwards)[part] < f->m;
            int64_t ready = left ? ready_ns(f, part, kinds[i]) : 0;
            if (left && (ready == NEVER || ready > now))
                return true;
        }
    }
    return false;
}

static void branch(struct search *x)
{
    struct order_search *f = x->f;
    int32_t stage = -1;
    int64_t first = 0;
    if (is_done(x))
        take_best(x);
    if (x->nodes-- <= 0)
        x->exhausted = true;
    if (x->exhausted || is_hopeless(x))
        return;
    for (int32_t s = 0; s < f->stages; s++)
        for (int32_t code = 0; code < f->pieces * SLOT_KIND_COUNT; code++) {
            int64_t start = begin_ns(x, s, piece_of((uint16_t)code), kind_of((uint16_t)code));
            if (start != NEVER && (stage < 0 || start < first)) {
                stage = s;
                first = start;
            }
        }
    if (stage < 0)
        return;
    static const enum slot_kind TURN[] = {SLOT_BACKWARD_INPUT, SLOT_BACKWARD, SLOT_FORWARD,
                                          SLOT_BACKWARD_WEIGHT};
    for (size_t i = 0; i < COUNT_OF(TURN); i++)
        for (int32_t k = f->pieces - 1; k >= 0; k--)
            if (begin_ns(x, stage, k, TURN[i]) == first)
                begin(x, stage, k, TURN[i], first);
    int64_t barred = x->barred_ns[stage];
    if (more_to_come(f, stage, first)) {
        x->barred_ns[stage] = first;
        branch(x);
        x->barred_ns[stage] = barred;
    }
}

bool find_exact(struct order_search *f, struct codes *codes, int64_t *ns, int64_t nodes)
{
    struct arena *scratch = arena_new();
    struct search x = {.f = f, .now = codes_new(f), .best = codes, .best_ns = ns, .nodes = nodes};
    x.held = ARENA_ARRAY(scratch, int64_t, (size_t)f->stages);
    x.left = ARENA_ARRAY(scratch, int64_t, (size_t)f->stages);
    x.barred_ns = ARENA_ARRAY(scratch, int64_t, (size_t)f->stages);
    for (int32_t k = 0; k < f->parts; k++) {
        f->forwards[k] = f->backwards[k] = f->inputs[k] = f->weights[k] = 0;
        x.left[f->stage_of[k]] +=
            f->m * (find_slot_ns(f, k, SLOT_FORWARD) + find_slot_ns(f, k, SLOT_BACKWARD));
    }
    for (int32_t s = 0; s < f->stages; s++) {
        f->stage_ns[s] = 0;
        x.barred_ns[s] = NEVER;
    }
    branch(&x);
    arena_free(scratch);
    return !x.exhausted;
}
