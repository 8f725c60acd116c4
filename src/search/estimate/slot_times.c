/* slot_times.c - the slots of a schedule, played one after the other (slot_times.h has the
 * equations). */
#include "search/estimate/slot_times.h"

#include <string.h>

enum { ROUNDS_PLAYED = 3 };
/* The step that is over at time 0, for slots that need nothing. */
enum { START = 0 };

/* Indices of a part's slot times: by the kind of the slot, and for slots that run alone in a
 * schedule where most run in pairs. */
enum { NS_FORWARD_APART = SLOT_KIND_COUNT, NS_BACKWARD_APART, NS_COUNT };

/* One slot, as indices into the arrays of `struct orders`. */
struct slot_step {
    int32_t stage;
    int32_t ns;    /* per part and NS_COUNT */
    int32_t needs; /* the step it waits for */
    int32_t send;  /* per part and direction; 0 takes no time */
    int32_t also;  /* I3: another step that it waits for; START: none */
    bool opens;    /* the first of a pair: the other step of the pair follows (2) */
};
struct score {
    const struct schedule *schedule;
    struct pipeline pipeline;
    int32_t parted, user; /* I3 */
    bool paired;          /* a step opens a pair */
    ARRAY(struct slot_step) step;
    int32_t *first_backward; /* per stage: a step */
    int32_t round[2];        /* I1: steps; the second one is the last forward pass */
};

/* I5: what a play has found, by a hash of all that it depends on. */
enum { PLAYS_KEPT = 1 << 12 };
struct kept_play {
    uint64_t key;             /* 0: none */
    struct stage_ends *stage; /* per stage */
    size_t room;              /* for so many stages */
};

/* Arrays that are used again from one play to the next. */
struct orders {
    struct arena *keep;
    ARRAY(struct score *) scores;
    const struct score *latest;
    int64_t *end_ns, *slot_ns; /* per step; per part and NS_COUNT */
    int64_t *less_ns;          /* as slot_ns: of (3) */
    /* Per part and direction: the time of a send; when the latest send is over. */
    int64_t *send_ns, *link_ns;
    struct parted parted; /* I3 */
    struct stage_ends *stage;
    size_t steps, parts;    /* how many of each the arrays hold */
    struct kept_play *kept; /* I5; NULL before the first play */
};

struct orders *orders_new(struct arena *keep)
{
    struct orders *orders = ARENA_NEW(keep, struct orders);
    orders->keep = keep;
    return orders;
}

/* ---- scores ---------------------------------------------------------------------------------- */

struct score_writing {
    struct score *score;
    struct arena *keep;
    int32_t *step_of; /* per kind, part and micro-batch; START: not written yet */
};

static int32_t *step_at(const struct score_writing *w, enum slot_kind kind, int32_t part, int32_t m)
{
    const struct pipeline *p = &w->score->pipeline;
    int64_t parts = (int64_t)p->stages * p->pieces;
    return &w->step_of[((int64_t)kind * parts + part) * p->micro_batches + m];
}

static int32_t part_of_slot(const struct score *score, int32_t stage, const struct slot *slot)
{
    return part_of_piece(score->schedule->zigzag, score->pipeline.stages, stage, slot->piece);
}

/* The backward pass, whole or of input gradients. */
static int32_t backward_step(const struct score_writing *w, int32_t part, int32_t m)
{
    int32_t whole = *step_at(w, SLOT_BACKWARD, part, m);
    return whole != START ? whole : *step_at(w, SLOT_BACKWARD_INPUT, part, m);
}

/* Of the micro-batches that a part's slot takes at once the last one, as another part names the slot that has it (I4). */
static int32_t last_of_slot(const struct score *score, int32_t part, int32_t m, int32_t other)
{
    const struct pipeline *p = &score->pipeline;
    bool zigzag = score->schedule->zigzag;
    int32_t last = m + pipeline_joins(p, stage_with_part(zigzag, p->stages, part)) - 1;
    return pipeline_first(p, stage_with_part(zigzag, p->stages, other), last);
}

/* I3; false: that has no step yet. */
static bool find_other_need(const struct score_writing *w, const struct slot *slot, int32_t part,
                            struct slot_step *out)
{
    out->also = START;
    if (slot->kind != SLOT_FORWARD || !w->score->parted || part != w->score->user)
        return true;
    int32_t other = w->score->parted - 1;
    out->also =
        *step_at(w, SLOT_FORWARD, other, last_of_slot(w->score, part, slot->micro_batch, other));
    return out->also != START;
}

/* Finds what a slot needs from elsewhere; false: that has no step yet. */
static bool find_need(const struct score_writing *w, const struct slot *slot, int32_t part,
                      struct slot_step *out)
{
    const struct pipeline *p = &w->score->pipeline;
    int32_t last = p->stages * p->pieces - 1, m = slot->micro_batch;
    bool forward = slot->kind == SLOT_FORWARD;
    out->needs = START;
    out->send = 0;
    if (forward && (part == 0 || part == w->score->parted))
        return true;
    if (!find_other_need(w, slot, part, out))
        return false;
    if (slot->kind == SLOT_BACKWARD_WEIGHT) {
        out->needs = *step_at(w, SLOT_BACKWARD_INPUT, part, m);
    } else if (!forward && part == last) {
        out->needs = *step_at(w, SLOT_FORWARD, part, m);
    } else {
        int32_t from = forward ? part - 1 : part + 1;
        int32_t reader = from == w->score->parted ? w->score->user : from;
        int32_t there = last_of_slot(w->score, part, m, forward ? from : reader);
        out->needs =
            forward ? *step_at(w, SLOT_FORWARD, from, there) : backward_step(w, reader, there);
        out->send = 1 + 2 * from + !forward;
    }
    return out->needs != START;
}

/* False: what the slot needs has no step yet. */
static bool make_step(const struct score_writing *w, const struct slot *slot, int32_t stage,
                      bool apart, int32_t before, struct slot_step *out)
{
    int32_t part = part_of_slot(w->score, stage, slot), kind = (int32_t)slot->kind;
    if (apart)
        kind = slot->kind == SLOT_FORWARD ? NS_FORWARD_APART : NS_BACKWARD_APART;
    *out = (struct slot_step){.stage = stage, .ns = part * NS_COUNT + kind};
    return find_need(w, slot, part, out) && out->needs < before && out->also < before;
}

/* Writes a stage's next slot or pair of slots if what it needs has a step; returns how many slots.
 * Going from stage to stage this way, neighbouring steps do not depend on each other, so the
 * processor can work on several at once. */
static int32_t write_next(const struct score_writing *w, const struct slots *slots, int32_t stage,
                          int32_t before, int32_t *at)
{
    struct score *score = w->score;
    if (*at == (int32_t)slots->len)
        return 0;
    const struct slot *slot = &slots->data[*at];
    bool pair = slots_paired(score->schedule, &score->pipeline, stage, slots, (size_t)*at);
    bool apart = !pair && score->schedule->passes == ORDER_PAIRED;
    int32_t count = pair ? 2 : 1;
    struct slot_step step[2];
    for (int32_t k = 0; k < count; k++)
        if (!make_step(w, &slot[k], stage, apart, before, &step[k]))
            return 0;
    step[0].opens = pair;
    score->paired |= pair;
    for (int32_t k = 0; k < count; k++) {
        int32_t part = part_of_slot(score, stage, &slot[k]);
        *step_at(w, slot[k].kind, part, slot[k].micro_batch) = (int32_t)score->step.len;
        array_push(w->keep, &score->step, step[k]);
    }
    *at += count;
    return count;
}

static bool ends_backward(enum slot_kind kind)
{
    return kind == SLOT_BACKWARD || kind == SLOT_BACKWARD_WEIGHT;
}

/* Marks the steps whose times play_slots reads. */
static void mark_steps(const struct score_writing *w, const struct slots *slots)
{
    struct score *score = w->score;
    const struct pipeline *p = &score->pipeline;
    int32_t part = p->stages * p->pieces - 1, m = p->micro_batches;
    int32_t round = (int32_t)schedule_round(score->schedule, p);
    for (int32_t s = 0; s < p->stages; s++)
        for (size_t i = slots[s].len; i-- > 0;)
            if (ends_backward(slots[s].data[i].kind))
                score->first_backward[s] =
                    *step_at(w, slots[s].data[i].kind, part_of_slot(score, s, &slots[s].data[i]),
                             slots[s].data[i].micro_batch);
    /* a last group that is smaller goes through the pieces sooner */
    int32_t whole = score->schedule->grouped && m > round ? m - m % round : m;
    int32_t end = pipeline_first(p, p->stages - 1, whole - 1);
    score->round[1] = *step_at(w, SLOT_FORWARD, part, p->joins ? end : whole - 1);
    score->round[0] = whole > round && !p->joins
                          ? *step_at(w, SLOT_FORWARD, part, whole - 1 - round)
                          : score->round[1];
}

static struct score *write_score(struct orders *orders, const struct schedule *schedule,
                                 struct pipeline pipeline, const struct parted *parted)
{
    struct arena *scratch = arena_new();
    struct score *score = ARENA_NEW(orders->keep, struct score);
    size_t stages = (size_t)pipeline.stages, parts = stages * (size_t)pipeline.pieces;
    struct slots *slots = ARENA_ARRAY(scratch, struct slots, stages);
    int32_t *at = ARENA_ARRAY(scratch, int32_t, stages), left = 0;
    struct score_writing w = {score, orders->keep, NULL};
    w.step_of =
        ARENA_ARRAY(scratch, int32_t, parts *(size_t)pipeline.micro_batches *SLOT_KIND_COUNT);
    *score = (struct score){
        .schedule = schedule, .pipeline = pipeline, .parted = parted->part, .user = parted->user};
    score->first_backward = ARENA_ARRAY(orders->keep, int32_t, stages);
    array_push(orders->keep, &score->step, ((struct slot_step){0}));
    for (int32_t s = 0; s < pipeline.stages; s++) {
        schedule_order(schedule, &pipeline, s, scratch, &slots[s]);
        left += (int32_t)slots[s].len;
    }
    while (left > 0) {
        int32_t before = (int32_t)score->step.len;
        for (int32_t s = 0; s < pipeline.stages; s++)
            left -= write_next(&w, &slots[s], s, before, &at[s]);
    }
    mark_steps(&w, slots);
    array_push(orders->keep, &orders->scores, score);
    arena_free(scratch);
    return score;
}

static bool is_of(const struct score *score, const struct schedule *schedule,
                  const struct pipeline *pipeline, const struct parted *parted)
{
    return score->schedule == schedule && score->parted == parted->part &&
           score->user == parted->user && memcmp(&score->pipeline, pipeline, sizeof *pipeline) == 0;
}

static const struct score *find_score(struct orders *orders, const struct schedule *schedule,
                                      struct pipeline pipeline, const struct parted *parted)
{
    if (orders->latest && is_of(orders->latest, schedule, &pipeline, parted))
        return orders->latest;
    for (size_t i = 0; i < orders->scores.len; i++)
        if (is_of(orders->scores.data[i], schedule, &pipeline, parted))
            return orders->latest = orders->scores.data[i];
    return orders->latest = write_score(orders, schedule, pipeline, parted);
}

/* ---- playing --------------------------------------------------------------------------------- */

static void make_room(struct orders *orders, size_t steps, size_t parts)
{
    if (orders->steps < steps) {
        orders->steps = 2 * steps;
        orders->end_ns = ARENA_ARRAY(orders->keep, int64_t, orders->steps);
    }
    if (orders->parts < parts) {
        orders->parts = 2 * parts;
        orders->slot_ns = ARENA_ARRAY(orders->keep, int64_t, orders->parts *NS_COUNT);
        orders->less_ns = ARENA_ARRAY(orders->keep, int64_t, orders->parts *NS_COUNT);
        orders->send_ns = ARENA_ARRAY(orders->keep, int64_t, 2 * orders->parts + 1);
        orders->link_ns = ARENA_ARRAY(orders->keep, int64_t, 2 * orders->parts + 1);
        orders->stage = ARENA_ARRAY(orders->keep, struct stage_ends, orders->parts);
    }
    if (!orders->kept)
        orders->kept = ARENA_ARRAY(orders->keep, struct kept_play, PLAYS_KEPT);
}

static void read_work(struct orders *orders, const struct pipeline_work *work)
{
    orders->parted = work->parted;
    for (int32_t k = 0; k < work->stages * work->pieces; k++) {
        const struct part_work *part = &work->part[k];
        int64_t *slot_ns = &orders->slot_ns[k * NS_COUNT];
        int64_t *less_ns = &orders->less_ns[k * NS_COUNT];
        less_ns[SLOT_FORWARD] = part->forward_less;
        less_ns[SLOT_BACKWARD_INPUT] = less_ns[SLOT_BACKWARD] = part->backward_less;
        slot_ns[SLOT_FORWARD] = part->forward;
        slot_ns[SLOT_BACKWARD_INPUT] = part->backward;
        slot_ns[SLOT_BACKWARD] = part->backward + part->weight;
        slot_ns[SLOT_BACKWARD_WEIGHT] = part->weight;
        slot_ns[NS_FORWARD_APART] = part->forward + part->forward_apart;
        slot_ns[NS_BACKWARD_APART] = part->backward + part->backward_apart;
        orders->send_ns[1 + 2 * k] = part->send;
        orders->send_ns[2 + 2 * k] = part->back;
    }
    if (work->parted.part)
        orders->send_ns[2 + 2 * work->parted.part] = work->parted.back_ns;
}

/* When the input of a step has arrived. */
static int64_t come_ns(struct orders *orders, const struct slot_step *step)
{
    int64_t come = orders->end_ns[step->needs];
    int64_t *link_ns = &orders->link_ns[step->send];
    if (step->send)
        come = *link_ns = (come > *link_ns ? come : *link_ns) + orders->send_ns[step->send];
    return come;
}

/* I3: when what comes from further away has arrived, too. */
static int64_t also_come_ns(const struct orders *orders, const struct slot_step *step, int64_t come)
{
    int64_t other = orders->end_ns[step->also] + orders->parted.send_ns;
    return step->also != START && other > come ? other : come;
}

/* Equations (1) to (3). */
static void play_steps(struct orders *orders, const struct score *score)
{
    const int64_t *slot_ns = orders->slot_ns;
    for (size_t i = 1; i < score->step.len; i++) {
        const struct slot_step *step = &score->step.data[i];
        int64_t *stage_ns = &orders->stage[step->stage].end_ns, come = come_ns(orders, step);
        come = also_come_ns(orders, step, come) - orders->less_ns[step->ns];
        *stage_ns = (come > *stage_ns ? come : *stage_ns) + slot_ns[step->ns];
        if (step->opens) {
            int64_t start = *stage_ns - slot_ns[step->ns], other = come_ns(orders, step + 1);
            *stage_ns += (other > start ? other - start : 0) + slot_ns[step[1].ns];
            orders->end_ns[i++] = *stage_ns;
        }
        orders->end_ns[i] = *stage_ns;
    }
}

/* Equation (1) alone: no pairs, no gathers, nothing from further away. */
static void play_plain_steps(struct orders *orders, const struct score *score)
{
    const struct slot_step *step = score->step.data;
    const int64_t *slot_ns = orders->slot_ns;
    struct stage_ends *stage = orders->stage;
    int64_t *end_ns = orders->end_ns;
    for (size_t i = 1; i < score->step.len; i++) {
        int64_t come = come_ns(orders, &step[i]), before = stage[step[i].stage].end_ns;
        int64_t end = (come > before ? come : before) + slot_ns[step[i].ns];
        stage[step[i].stage].end_ns = end_ns[i] = end;
    }
}

static void play_score(struct orders *orders, const struct score *score,
                       const struct part_work *part)
{
    int32_t parts = score->pipeline.stages * score->pipeline.pieces;
    bool plain = !score->paired && !score->parted;
    for (int32_t s = 0; s < score->pipeline.stages; s++)
        orders->stage[s].end_ns = part[s].forward_less > 0 ? part[s].first_more : 0; /* I2 */
    for (int32_t k = 0; k < parts; k++)
        plain &= part[k].forward_less == 0 && part[k].backward_less == 0;
    memset(orders->link_ns, 0, (size_t)(2 * parts + 1) * sizeof *orders->link_ns);
    orders->end_ns[START] = 0;
    if (plain)
        play_plain_steps(orders, score);
    else
        play_steps(orders, score);
}

/* I1: how many of m micro-batches are played, in rounds of so many; in groups, so many whole ones. */
static int64_t played_of(int64_t m, int64_t round, bool grouped)
{
    int64_t most = ROUNDS_PLAYED * round;
    if (m <= most)
        return m;
    return grouped ? most + m % round : most - (round - m % round) % round;
}

/* A round of the slowest stage, if it never waits. */
static int64_t slowest_round(const struct orders *orders, const struct score *score)
{
    const struct pipeline *p = &score->pipeline;
    int64_t most = 0;
    for (int32_t s = 0; s < p->stages; s++) {
        int64_t ns = 0;
        for (int32_t k = s; k < p->stages * p->pieces;
             k = next_part_of_stage(score->schedule->zigzag, p->stages, k)) {
            const int64_t *slot_ns = &orders->slot_ns[k * NS_COUNT];
            ns += slot_ns[SLOT_FORWARD] + slot_ns[SLOT_BACKWARD];
        }
        most = ns > most ? ns : most;
    }
    return most * schedule_round(score->schedule, p);
}

/* I5: of the times that read_work has read, and of what else the ends depend on. */
static uint64_t play_key(const struct orders *orders, const struct score *score,
                         const struct pipeline_work *work)
{
    size_t parts = (size_t)work->stages * (size_t)work->pieces;
    uint64_t words[] = {(uintptr_t)score, (uint64_t)work->micro_batches,
                        (uint64_t)work->parted.send_ns};
    uint64_t key = hash_bytes(words, sizeof words, 5);
    key = hash_bytes(orders->slot_ns, parts * NS_COUNT * sizeof *orders->slot_ns, key);
    key = hash_bytes(orders->less_ns, parts * NS_COUNT * sizeof *orders->less_ns, key);
    key = hash_bytes(orders->send_ns, (2 * parts + 1) * sizeof *orders->send_ns, key);
    for (int32_t s = 0; s < work->stages; s++)
        if (work->part[s].forward_less > 0)
            key = hash_bytes(&work->part[s].first_more, sizeof work->part[s].first_more, key);
    return key | 1;
}

static void keep_play(struct orders *orders, struct kept_play *kept, uint64_t key, size_t stages)
{
    if (kept->room < stages) {
        kept->room = stages;
        kept->stage = ARENA_ARRAY(orders->keep, struct stage_ends, stages);
    }
    kept->key = key;
    memcpy(kept->stage, orders->stage, stages * sizeof *kept->stage);
}

/* Plays the score; every further round takes as long as the last one (I1). */
static void play_all(struct orders *orders, const struct score *score,
                     const struct pipeline_work *work)
{
    int64_t each = schedule_round(work->schedule, &score->pipeline);
    play_score(orders, score, work->part);
    int64_t round = orders->end_ns[score->round[1]] - orders->end_ns[score->round[0]];
    int64_t least = slowest_round(orders, score);
    round = round > least ? round : least; /* I1 */
    for (int32_t s = 0; s < work->stages; s++) {
        orders->stage[s].first_backward_ns = orders->end_ns[score->first_backward[s]];
        orders->stage[s].end_ns +=
            (work->micro_batches - score->pipeline.micro_batches) / each * round;
    }
}

const struct stage_ends *play_slots(struct orders *orders, const struct pipeline_work *work)
{
    int64_t p = work->stages, m = work->micro_batches;
    struct pipeline pipeline = {work->stages, work->pieces, (int32_t)m, (int32_t)work->group};
    int64_t each = schedule_round(work->schedule, &pipeline);
    int64_t played = work->schedule->lists ? m : played_of(m, each, work->schedule->grouped);
    if (work->schedule->grouped)
        pipeline.group = (int32_t)each;
    pipeline.micro_batches = (int32_t)played;
    if (work->schedule->lists)
        pipeline.joins = work->schedule->lists->pipeline.joins;
    const struct score *score = find_score(orders, work->schedule, pipeline, &work->parted);
    make_room(orders, score->step.len, (size_t)p * (size_t)work->pieces);
    read_work(orders, work);
    uint64_t key = play_key(orders, score, work);
    struct kept_play *kept = &orders->kept[key / 2 % PLAYS_KEPT];
    if (kept->key == key)
        return kept->stage;
    play_all(orders, score, work);
    keep_play(orders, kept, key, (size_t)p);
    return orders->stage;
}
