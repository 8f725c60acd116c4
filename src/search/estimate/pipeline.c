/* pipeline.c - an iteration on a pipeline of uneven stages (pipeline.h has the equations). */
#include "search/estimate/slot_times.h"

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- 1f1b ------------------------------------------------------------------------------------ */

static int64_t pass_pair(const struct part_work *s)
{
    return s->forward + s->backward + s->weight;
}

/* The time of the transfers between stage j and the next one, both ways. */
static int64_t link_pair(const struct part_work *stage, int32_t j)
{
    return stage[j].send + stage[j + 1].back;
}

/* The run of stages that attains the maximum in equation (1), and its pace. */
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
            if (k + 1 < stages && (sum + link_pair(stage, k)) * (cycle.last - cycle.first + 1) <
                                      cycle.sum_ns * (k - s + 1))
                break; /* without stages s..k the rest is slower */
        }
    }
    for (int32_t j = 0; j + 1 < stages; j++) { /* I4 */
        int64_t sum = 2 * larger(stage[j].send, stage[j + 1].back);
        if (sum * (cycle.last - cycle.first + 1) > cycle.sum_ns * 2)
            cycle = (struct cycle){j, j + 1, sum};
    }
    return cycle;
}

/* The path of (2) through stage j, from when the first micro-batch reaches it until the last one
 * leaves it; `below` is r_j. */
static int64_t at_stage(const struct part_work *s, int64_t ahead, int64_t below, int64_t pace_ns,
                        int64_t micro_batches)
{
    int64_t w = ahead < micro_batches - 1 ? ahead : micro_batches - 1;
    int64_t steady = micro_batches - 1 - w, f = s->forward, b = s->backward + s->weight;
    if (steady == 0) /* all forward passes come first: the path waits for one way down and back */
        return f + b + larger(below + w * larger(f, b), w * (f + b));
    return f + b + steady * pace_ns + larger(w * f, below) + larger(w * b, below);
}

/* When stage j has made the forward pass of the last micro-batch, from when the first one reaches it. */
static int64_t last_forward_at(const struct part_work *s, int64_t ahead, int64_t below,
                               int64_t pace_ns, int64_t micro_batches)
{
    int64_t w = ahead < micro_batches - 1 ? ahead : micro_batches - 1;
    int64_t steady = micro_batches - 1 - w;
    if (steady == 0)
        return micro_batches * s->forward;
    return s->forward + steady * pace_ns + larger(w * s->forward, below);
}

/* Writes (2) and (2b). */
static void one_f_one_b_ends(const struct part_work *stage, int32_t stages, int64_t micro_batches,
                             struct stage_end *end)
{
    struct cycle cycle = slowest_cycle(stage, stages);
    int64_t above = 0, below = 0, longest = 0;
    int64_t cycle_ns = cycle.sum_ns / (cycle.last - cycle.first + 1);
    for (int32_t j = 1; j < stages; j++)
        below += pass_pair(&stage[j]) + link_pair(stage, j - 1);
    for (int32_t j = 0; j < stages; j++) {
        bool inside = j >= cycle.first && j <= cycle.last;
        int64_t pace = inside ? cycle_ns : pass_pair(&stage[j]);
        end[j].computed_ns =
            above + at_stage(&stage[j], stages - 1 - j, below, pace, micro_batches);
        end[j].slack_ns = longest; /* of the stages above */
        longest = larger(
            longest, above + below + stage[j].backward + stage[j].weight +
                         last_forward_at(&stage[j], stages - 1 - j, below, pace, micro_batches));
        if (j + 1 == stages)
            break;
        above += pass_pair(&stage[j]) + link_pair(stage, j);
        below -= pass_pair(&stage[j + 1]) + link_pair(stage, j);
    }
    longest = 0;
    for (int32_t k = stages - 1; k >= 0; k--) {
        longest = larger(longest, end[k].computed_ns);
        end[k].computed_ns = larger(longest, end[k].slack_ns);
    }
}

/* How much time a stage's rounds leave free between the end of its first backward pass and that of
 * its last. */
static int64_t slack_of(int64_t first_ns, int64_t last_ns, int64_t round_ns, int64_t micro_batches)
{
    return larger(0, last_ns - first_ns - (micro_batches - 1) * round_ns);
}

/* A stage's first backward pass is over when the first micro-batch has gone down and come back, and
 * the forward passes ahead of it are done. */
static void find_slacks(const struct pipeline_work *work, struct stage_end *end)
{
    int64_t above = 0, below = 0, m = work->micro_batches;
    for (int32_t j = 1; j < work->stages; j++)
        below += pass_pair(&work->part[j]) + link_pair(work->part, j - 1);
    for (int32_t j = 0; j < work->stages; j++) {
        const struct part_work *s = &work->part[j];
        int64_t ahead = work->stages - 1 - j < m - 1 ? work->stages - 1 - j : m - 1;
        int64_t first = above + larger(below, ahead * s->forward) + pass_pair(s);
        end[j].slack_ns = slack_of(first, end[j].computed_ns, pass_pair(s), m);
        if (j + 1 == work->stages)
            break;
        above += s->forward + s->send;
        below -= pass_pair(&work->part[j + 1]) + link_pair(work->part, j);
    }
}

static void end_one_f_one_b(const struct pipeline_work *work, struct stage_end *end)
{
    int64_t back = 0, more = 0, lag = 0;
    bool paired = work->schedule->passes == ORDER_PAIRED;
    one_f_one_b_ends(work->part, work->stages, work->micro_batches, end);
    for (int32_t j = 0; j < work->stages; j++) {
        const struct part_work *s = &work->part[j];
        more += paired ? s->forward_apart + s->backward_apart : 0;
        end[j].computed_ns -= back;
        back += s->backward + s->weight;
        back += j + 1 < work->stages ? work->part[j + 1].back : 0;
        more += s->first_more + s->last_more;
        lag += s->lag;
        end[j].slack_ns = 0;
    }
    if (lag > 0)
        find_slacks(work, end);
    for (int32_t j = 0; j < work->stages; j++) { /* I1 */
        end[j].computed_ns += more;
        more -= work->part[j].last_more;
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
    /* I4 */
    int64_t come = larger(before.last, before.first + (micro_batches - 1) * send_ns) + send_ns;
    wave.last = larger(wave.first + (micro_batches - 1) * pass_ns, come + pass_ns) + more_ns;
    return wave;
}

static void end_waves(const struct pipeline_work *work, struct stage_end *end)
{
    int32_t parts = work->stages * work->pieces;
    struct wave wave = {0, 0};
    for (int32_t j = 0; j < work->stages; j++)
        end[j].computed_ns = end[j].slack_ns = 0;
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
        e->slack_ns +=
            slack_of(wave.first, wave.last - part->last_more, part->backward, work->micro_batches);
    }
}

/* ---- slot by slot ---------------------------------------------------------------------------- */

static int32_t next_part(const struct pipeline_work *work, int32_t part)
{
    return next_part_of_stage(work->schedule->zigzag, work->stages, part);
}

/* What the first forward pass takes in addition, if the slots were played without it (slot_times.h, I2). */
static int64_t begun_more(const struct part_work *part)
{
    return part->forward_less > 0 ? 0 : part->first_more;
}

/* I1: of piece 0, the additional time of all stages one after the other; of other pieces, only the
 * stage's own. */
static void add_more(const struct pipeline_work *work, struct stage_end *end)
{
    int32_t p = work->stages;
    int64_t more = 0;
    for (int32_t s = 0; s < p; s++)
        more += begun_more(&work->part[s]) + work->part[s].last_more;
    for (int32_t s = 0; s < p; s++) {
        end[s].computed_ns += more;
        more -= work->part[s].last_more;
        for (int32_t k = next_part(work, s); k < p * work->pieces; k = next_part(work, k))
            end[s].computed_ns += begun_more(&work->part[k]) + work->part[k].last_more;
    }
}

/* The passes of either kind that a stage makes of each of its pieces. */
static int64_t passes_on(const struct pipeline_work *work, int32_t stage)
{
    const struct slot_lists *lists = work->schedule->lists;
    return work->micro_batches / (lists ? pipeline_joins(&lists->pipeline, stage) : 1);
}

static void end_played(struct orders *orders, const struct pipeline_work *work,
                       struct stage_end *end)
{
    const struct stage_ends *stage = play_slots(orders, work);
    for (int32_t s = 0; s < work->stages; s++) {
        int64_t round = 0;
        for (int32_t k = s; k < work->stages * work->pieces; k = next_part(work, k))
            round += pass_pair(&work->part[k]);
        end[s].computed_ns = stage[s].end_ns;
        end[s].slack_ns =
            slack_of(stage[s].first_backward_ns, stage[s].end_ns, round, passes_on(work, s));
    }
    add_more(work, end);
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* I1: how far behind the gradients are that are synchronised with every micro-batch. */
static int64_t lag_of(const struct pipeline_work *work, int32_t stage, int64_t slack_ns)
{
    int64_t lag = 0;
    for (int32_t k = stage; k < work->stages * work->pieces; k = next_part(work, k))
        lag += (passes_on(work, stage) - 1) * work->part[k].lag;
    return larger(0, lag - slack_ns);
}

static int32_t part_on(const struct pipeline_work *work, int32_t stage, int32_t piece)
{
    return part_of_piece(work->schedule->zigzag, work->stages, stage, piece);
}

/* I1: the time of the gradients that remain after a stage's last pass; delays passes where they
 * overlap. */
static int64_t tail_of(const struct pipeline_work *work, int32_t stage, struct stage_end *end)
{
    bool waves = work->schedule->passes == ORDER_FORWARDS_FIRST;
    bool beside = work->overlap & OVERLAP_GRADIENTS;
    int64_t round =
        waves || work->stages > work->micro_batches ? work->micro_batches : work->stages;
    int64_t tail = work->part[part_on(work, stage, work->pieces - 1)].tail;
    for (int32_t piece = work->pieces - 2; piece >= 0; piece--) {
        const struct part_work *part = &work->part[part_on(work, stage, piece)];
        int64_t passes = beside ? round * (part->backward + part->weight) : 0;
        int64_t meets = tail < passes ? tail : passes;
        end->computed_ns += (int64_t)((double)meets * (work->slowdown - 1));
        tail += part->tail - meets;
    }
    return tail + lag_of(work, stage, end->slack_ns);
}

void put_in_pipeline(const struct pipeline_work *work, int32_t part, struct part_work *out)
{
    bool last = part == work->stages * work->pieces - 1;
    bool waves = work->schedule->passes == ORDER_FORWARDS_FIRST;
    int64_t beside = waves ? out->backward : out->forward;
    if (out->host && last && waves)
        /* I3: the checkpoints of the last micro-batch, which are needed first. */
        out->last_more += 2 * out->host;
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

/* I5. */
void begin_gathers(const struct pipeline_work *work, struct part_work *part)
{
    int64_t come = 0;
    for (int32_t k = 0; k < work->stages * work->pieces; k++) {
        int64_t before = 0; /* gathers of the stage's pieces before this one, which hide nothing */
        for (int32_t j = k - work->stages; j >= 0; j -= work->stages)
            before += part[j].gathered;
        part[k].gathered = part[k].first_more > 0 ? part[k].forward + part[k].first_more : 0;
        if (part[k].first_more > 0)
            part[k].first_more = larger(0, part[k].first_more + before - come);
        come += part[k].forward + part[k].first_more + part[k].send;
    }
}

void gather_before_inputs(const struct pipeline_work *work, struct part_work *part)
{
    int64_t come = 0;
    for (int32_t k = 0; k < work->stages; k++) {
        part[k].first_more -= part[k].first_less < come ? part[k].first_less : come;
        come += part[k].forward + part[k].first_more + part[k].send;
    }
}

/* Whether passes gather while they wait for their inputs (passes.h, I4). */
static bool any_late(const struct pipeline_work *work)
{
    bool any = false;
    for (int32_t k = 0; k < work->stages * work->pieces; k++)
        any |= work->part[k].forward_less > 0 || work->part[k].backward_less > 0;
    return any;
}

void pipeline_ends(struct orders *orders, const struct pipeline_work *work, struct stage_end *end)
{
    bool closed = !work->schedule->played && !any_late(work) && !work->parted.part;
    if (closed && work->schedule->passes == ORDER_FORWARDS_FIRST)
        end_waves(work, end);
    else if (closed && work->pieces == 1 &&
             (work->schedule->passes == ORDER_IN_TURN || work->stages == 1) &&
             work->schedule->passes != ORDER_SPLIT)
        end_one_f_one_b(work, end);
    else
        end_played(orders, work, end);
    for (int32_t s = 0; s < work->stages; s++)
        end[s].synchronised_ns = tail_of(work, s, &end[s]);
    for (int32_t s = 0; s < work->stages; s++)
        end[s].synchronised_ns += end[s].computed_ns;
}
