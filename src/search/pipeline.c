/* pipeline.c - an iteration on a pipeline of uneven stages (pipeline.h has the equations). */
#include "search/pipeline.h"

#include <string.h>

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- 1f1b ------------------------------------------------------------------------------------ */

static int64_t pass_pair(const struct part_work *s)
{
    return s->forward + s->backward + s->weight;
}

/* What goes between a stage and the next, both ways. */
static int64_t link_pair(const struct part_work *stage, int32_t j)
{
    return stage[j].send + stage[j + 1].back;
}

/* Equation (1): the run of stages, and its pace. */
struct cycle {
    int32_t first, last;
    int64_t sum_ns; /* over the run */
};
static struct cycle slowest_cycle(const struct part_work *stage, int32_t stages)
{
    struct cycle cycle = {0, 0, 0};
    for (int32_t s = 0; s < stages; s++) {
        int64_t sum = 0;
        for (int32_t k = s; k < stages; k++) {
            sum += pass_pair(&stage[k]) + (k > s ? link_pair(stage, k - 1) : 0);
            if (sum * (cycle.last - cycle.first + 1) > cycle.sum_ns * (k - s + 1))
                cycle = (struct cycle){s, k, sum};
        }
    }
    return cycle;
}

/* The path of (2) through stage j, from when the first micro-batch reaches it until the last leaves
 * it; `below` is r_j. */
static int64_t at_stage(const struct part_work *s, int64_t ahead, int64_t below, int64_t pace_ns,
                        int64_t micro_batches)
{
    int64_t w = ahead < micro_batches - 1 ? ahead : micro_batches - 1;
    int64_t steady = micro_batches - 1 - w, f = s->forward, b = s->backward + s->weight;
    if (steady ==
        0) /* all forward passes come first, and only one way down and back is waited for */
        return f + b + larger(below + w * larger(f, b), w * (f + b));
    return f + b + steady * pace_ns + larger(w * f, below) + larger(w * b, below);
}

int64_t one_f_one_b_ns(const struct part_work *stage, int32_t stages, int64_t micro_batches)
{
    struct cycle cycle = slowest_cycle(stage, stages);
    int64_t above = 0, below = 0, longest = 0;
    int64_t cycle_ns = cycle.sum_ns / (cycle.last - cycle.first + 1);
    for (int32_t j = 1; j < stages; j++)
        below += pass_pair(&stage[j]) + link_pair(stage, j - 1);
    for (int32_t j = 0; j < stages; j++) {
        bool inside = j >= cycle.first && j <= cycle.last;
        int64_t pace = inside ? cycle_ns : pass_pair(&stage[j]);
        longest = larger(longest,
                         above + at_stage(&stage[j], stages - 1 - j, below, pace, micro_batches));
        if (j + 1 == stages)
            break;
        int64_t way = pass_pair(&stage[j]) + link_pair(stage, j);
        above += way;
        below -= pass_pair(&stage[j + 1]) + link_pair(stage, j);
    }
    return longest;
}

static void end_one_f_one_b(const struct pipeline_work *work, struct stage_end *end)
{
    int64_t ns = one_f_one_b_ns(work->part, work->stages, work->micro_batches);
    for (int32_t j = 0; j < work->stages; j++)
        ns += work->part[j].first_more + work->part[j].last_more; /* I1 */
    for (int32_t j = 0; j < work->stages; j++) {
        const struct part_work *s = &work->part[j];
        end[j].computed_ns = ns;
        ns -= s->backward + s->weight + s->last_more;
        ns -= j + 1 < work->stages ? work->part[j + 1].back : 0;
    }
}

/* ---- waves ----------------------------------------------------------------------------------- */

struct wave {
    int64_t first, last; /* ns: a and z of (3) */
};

static struct wave next_wave(struct wave before, int64_t send_ns, int64_t free_ns, int64_t pass_ns,
                             int64_t more_ns, int64_t micro_batches)
{
    struct wave wave;
    wave.first = larger(before.first + send_ns, free_ns) + pass_ns;
    wave.last = larger(wave.first + (micro_batches - 1) * pass_ns, before.last + send_ns + pass_ns);
    wave.last += more_ns;
    return wave;
}

static void end_waves(const struct pipeline_work *work, struct stage_end *end)
{
    int32_t parts = work->stages * work->pieces;
    struct wave wave = {0, 0};
    for (int32_t j = 0; j < work->stages; j++)
        end[j].computed_ns = 0;
    for (int32_t k = 0; k < parts; k++) {
        const struct part_work *part = &work->part[k];
        struct stage_end *e = &end[k % work->stages];
        wave = next_wave(wave, k ? work->part[k - 1].send : 0, e->computed_ns, part->forward, 0,
                         work->micro_batches);
        wave.first += part->first_more;
        wave.last += part->first_more;
        e->computed_ns = wave.last;
    }
    wave = (struct wave){wave.last, wave.last};
    for (int32_t k = parts - 1; k >= 0; k--) {
        const struct part_work *part = &work->part[k];
        struct stage_end *e = &end[k % work->stages];
        wave = next_wave(wave, k + 1 < parts ? work->part[k + 1].back : 0, e->computed_ns,
                         part->backward, part->last_more, work->micro_batches);
        e->computed_ns = wave.last;
    }
}

/* ---- played ---------------------------------------------------------------------------------- */

struct order_list {
    const struct schedule *schedule;
    struct pipeline pipeline;
    struct slots *slots; /* per stage */
};
/* Room that one play after the other uses. */
struct orders {
    struct arena *keep;
    ARRAY(struct order_list) lists;
    struct {
        int64_t *data;
        size_t len;
    } over; /* per kind, part and micro-batch */
    struct {
        int32_t *at;            /* slots played */
        struct stage_end *less; /* ends with a round fewer */
        int32_t len;
    } stages;
};

struct orders *orders_new(struct arena *keep)
{
    struct orders *orders = ARENA_NEW(keep, struct orders);
    orders->keep = keep;
    return orders;
}

static void make_room(struct orders *orders, size_t cells, int32_t stages)
{
    if (orders->over.len < cells) {
        orders->over.len = 2 * cells;
        orders->over.data = ARENA_ARRAY(orders->keep, int64_t, 2 * cells);
    }
    if (orders->stages.len < stages) {
        orders->stages.len = stages;
        orders->stages.at = ARENA_ARRAY(orders->keep, int32_t, (size_t)stages);
        orders->stages.less = ARENA_ARRAY(orders->keep, struct stage_end, (size_t)stages);
    }
}

static const struct order_list *find_order(struct orders *orders, const struct schedule *schedule,
                                           struct pipeline pipeline)
{
    for (size_t i = 0; i < orders->lists.len; i++) {
        const struct order_list *list = &orders->lists.data[i];
        if (list->schedule == schedule && memcmp(&list->pipeline, &pipeline, sizeof pipeline) == 0)
            return list;
    }
    struct order_list list = {schedule, pipeline,
                              ARENA_ARRAY(orders->keep, struct slots, (size_t)pipeline.stages)};
    for (int32_t s = 0; s < pipeline.stages; s++)
        schedule->order(&pipeline, s, orders->keep, &list.slots[s]);
    array_push(orders->keep, &orders->lists, list);
    return &orders->lists.data[orders->lists.len - 1];
}

struct playing {
    const struct pipeline_work *work;
    const struct order_list *list;
    int64_t *over; /* per kind, part and micro-batch: when it is, -1: not yet */
};

static int64_t *over_at(const struct playing *p, enum slot_kind kind, int32_t part, int32_t m)
{
    const struct pipeline *shape = &p->list->pipeline;
    int64_t parts = (int64_t)shape->stages * shape->pieces;
    return &p->over[((int64_t)kind * parts + part) * shape->micro_batches + m];
}

/* When a slot's inputs are there, -1: not yet. */
static int64_t ready_ns(const struct playing *p, const struct slot *slot, int32_t part)
{
    const struct part_work *work = p->work->part;
    int32_t last = p->work->stages * p->work->pieces - 1, m = slot->micro_batch;
    bool forward = slot->kind == SLOT_FORWARD;
    if (slot->kind == SLOT_BACKWARD_WEIGHT)
        return *over_at(p, SLOT_BACKWARD_INPUT, part, m);
    if (forward && part == 0)
        return 0;
    if (!forward && part == last)
        return *over_at(p, SLOT_FORWARD, part, m);
    int64_t over = *over_at(p, slot->kind, forward ? part - 1 : part + 1, m);
    return over < 0 ? -1 : over + (forward ? work[part - 1].send : work[part + 1].back);
}

static int64_t slot_ns(const struct part_work *part, enum slot_kind kind)
{
    return kind == SLOT_FORWARD           ? part->forward
           : kind == SLOT_BACKWARD_WEIGHT ? part->weight
                                          : part->backward;
}

/* As many of a stage's slots as have their inputs; how many. */
static int32_t play_stage(const struct playing *p, int32_t stage, int32_t *at, int64_t *free_ns)
{
    const struct slots *slots = &p->list->slots[stage];
    int32_t first = *at;
    for (; *at < (int32_t)slots->len; (*at)++) {
        const struct slot *slot = &slots->data[*at];
        int32_t part = slot->piece * p->work->stages + stage;
        int64_t ready = ready_ns(p, slot, part);
        if (ready < 0)
            break;
        *free_ns = larger(*free_ns, ready) + slot_ns(&p->work->part[part], slot->kind);
        *over_at(p, slot->kind, part, slot->micro_batch) = *free_ns;
    }
    return *at - first;
}

/* Runs the lists; end[] are the stages' ends. */
static void play_lists(struct orders *orders, const struct pipeline_work *work,
                       int32_t micro_batches, struct stage_end *end)
{
    struct pipeline pipeline = {work->stages, work->pieces, micro_batches};
    size_t parts = (size_t)work->stages * (size_t)work->pieces;
    size_t cells = parts * (size_t)micro_batches * SLOT_KIND_COUNT;
    make_room(orders, cells, work->stages);
    struct playing p = {work, find_order(orders, work->schedule, pipeline), orders->over.data};
    int64_t left = 0;
    memset(p.over, -1, cells * sizeof *p.over);
    for (int32_t s = 0; s < work->stages; s++) {
        orders->stages.at[s] = 0;
        end[s].computed_ns = 0;
        left += (int64_t)p.list->slots[s].len;
    }
    while (left > 0)
        for (int32_t s = 0; s < work->stages; s++)
            left -= play_stage(&p, s, &orders->stages.at[s], &end[s].computed_ns);
}

/* Rounds of p micro-batches after which a pipeline is in its stride. */
enum { ROUNDS_PLAYED = 3 };

/* Of m micro-batches, so many are played: as many rounds as that, and what m is more than rounds. */
static int64_t played_of(int64_t m, int64_t p)
{
    int64_t most = ROUNDS_PLAYED * p;
    return m <= most ? m : most - (p - m % p) % p;
}

/* I1: of piece 0 one stage's passes after the other, of the others the stage's own. */
static void add_more(const struct pipeline_work *work, struct stage_end *end)
{
    int32_t p = work->stages;
    int64_t more = 0;
    for (int32_t s = 0; s < p; s++)
        more += work->part[s].first_more + work->part[s].last_more;
    for (int32_t s = 0; s < p; s++) {
        end[s].computed_ns += more;
        more -= work->part[s].last_more;
        for (int32_t k = s + p; k < p * work->pieces; k += p)
            end[s].computed_ns += work->part[k].first_more + work->part[k].last_more;
    }
}

static void end_played(struct orders *orders, const struct pipeline_work *work,
                       struct stage_end *end)
{
    int64_t p = work->stages, m = work->micro_batches, played = played_of(m, p), round = 0;
    play_lists(orders, work, (int32_t)played, end);
    if (played < m) {
        struct stage_end *less = orders->stages.less;
        play_lists(orders, work, (int32_t)(played - p), less);
        for (int32_t s = 0; s < p; s++)
            round = larger(round, end[s].computed_ns - less[s].computed_ns);
    }
    for (int32_t s = 0; s < p; s++)
        end[s].computed_ns += (m - played) / p * round;
    add_more(work, end);
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* I1: what is left of gradients behind a stage's last pass; slows passes down on the way. */
static int64_t tail_of(const struct pipeline_work *work, int32_t stage, int64_t *computed_ns)
{
    bool waves = work->order == ORDER_FORWARDS_FIRST, beside = work->overlap & OVERLAP_GRADIENTS;
    int64_t round =
        waves || work->stages > work->micro_batches ? work->micro_batches : work->stages;
    int64_t tail = work->part[(work->pieces - 1) * work->stages + stage].tail;
    for (int32_t piece = work->pieces - 2; piece >= 0; piece--) {
        const struct part_work *part = &work->part[piece * work->stages + stage];
        int64_t passes = beside ? round * (part->backward + part->weight) : 0;
        int64_t meets = tail < passes ? tail : passes;
        *computed_ns += (int64_t)((double)meets * (work->slowdown - 1));
        tail += part->tail - meets;
    }
    return tail;
}

void put_in_pipeline(const struct pipeline_work *work, int32_t part, struct part_work *out)
{
    bool last = part == work->stages * work->pieces - 1;
    bool waves = work->order == ORDER_FORWARDS_FIRST;
    int64_t beside = waves ? out->backward : out->forward;
    if (out->host && last && waves)
        out->last_more += 2 * out->host; /* I3: of the last micro-batch, whose turn comes first */
    else if (out->host && (last || work->micro_batches == 1))
        out->backward += 2 * out->host;
    if (out->host && !(last && !waves))
        out->backward += larger(0, out->host - beside);
    if (!(work->overlap & OVERLAP_PIPELINE)) { /* I2 */
        out->forward += out->send;
        out->backward += out->back;
        out->send = out->back = 0;
    }
}

void pipeline_ends(struct orders *orders, const struct pipeline_work *work, struct stage_end *end)
{
    if (work->order == ORDER_FORWARDS_FIRST)
        end_waves(work, end);
    else if (work->order == ORDER_IN_TURN && work->pieces == 1)
        end_one_f_one_b(work, end);
    else
        end_played(orders, work, end);
    for (int32_t s = 0; s < work->stages; s++)
        end[s].synchronised_ns = tail_of(work, s, &end[s].computed_ns);
    for (int32_t s = 0; s < work->stages; s++)
        end[s].synchronised_ns += end[s].computed_ns;
}
