/* candidate.c - the estimate of a candidate, from tables (candidate.h).
 *
 *   I1  A part's work and memory depend on its own runs and on the tables of the runs next to it:
 *       when a cut moves, only the two parts on its sides change.
 *   I2  A tied weight whose user has a copy of it (plan/tied.c) exists twice: the user's part has
 *       the owner's state, gradients and optimizer step, too.
 */
#include "search/estimate/estimator.h"

#include <string.h>

/* One part as the latest estimate found it. */
struct part_memo {
    struct part_work work;
    int64_t state, step, stand_in; /* bytes */
    int64_t parameters, gather_after_ns;
    const struct row_table *table; /* the table of its last run, for the optimizer step */
};
/* A run's table, and the borders after a part, each with the key that it was found for. */
struct run_memo {
    struct table_key key;
    const struct row_table *table;
};
struct seam_memo {
    struct seam seam;
    struct borders *borders;
    const struct border *border;
};
struct candidate_memo {
    struct run_memo *run;   /* per run */
    struct seam_memo *seam; /* per part */
    struct seam_memo tied;  /* between the stage of a tied weight's owner and that of its user */
    struct part_memo *part;
    struct part_memory *memory; /* per part */
    struct part_work *work;     /* per part, in the pipeline */
    struct stage_end *end;
    struct stage_estimate *stage;
};

struct candidate *candidate_new(struct arena *keep, int32_t stages, int32_t pieces, int32_t runs)
{
    struct candidate *c = ARENA_NEW(keep, struct candidate);
    size_t parts = (size_t)stages * (size_t)pieces;
    *c = (struct candidate){.stages = stages, .pieces = pieces};
    c->stage = ARENA_ARRAY(keep, struct stage, (size_t)stages);
    c->first_run = ARENA_ARRAY(keep, int32_t, parts + 1);
    c->run = ARENA_ARRAY(keep, struct candidate_run, (size_t)runs);
    c->memo = ARENA_NEW(keep, struct candidate_memo);
    c->memo->run = ARENA_ARRAY(keep, struct run_memo, (size_t)runs);
    c->memo->seam = ARENA_ARRAY(keep, struct seam_memo, parts);
    c->memo->part = ARENA_ARRAY(keep, struct part_memo, parts);
    c->memo->memory = ARENA_ARRAY(keep, struct part_memory, parts);
    c->memo->work = ARENA_ARRAY(keep, struct part_work, parts);
    c->memo->end = ARENA_ARRAY(keep, struct stage_end, (size_t)stages);
    c->memo->stage = ARENA_ARRAY(keep, struct stage_estimate, (size_t)stages);
    return c;
}

weft_status estimator_tables(struct estimator *e)
{
    return e->tables ? WEFT_OK : tables_new(&e->settings, e->cost, e->flows, &e->tables);
}

int32_t estimator_row(struct estimator *estimator, const struct choice *choice)
{
    return estimator_tables(estimator) == WEFT_OK ? tables_row(estimator->tables, choice) : -1;
}

static int32_t stage_on(const struct candidate *c, int32_t part)
{
    return stage_with_part(c->schedule->zigzag, c->stages, part);
}

/* ---- its schedule ---------------------------------------------------------------------------- */

/* The same rule as plan_schedule's for a plan. */
static const struct schedule *schedule_of(const struct estimator *e, const struct candidate *c)
{
    bool sends = false;
    if (!(e->settings.overlap & OVERLAP_EXPERTS) || c->micro_batches < 2)
        return c->schedule;
    for (int32_t r = 0; r < c->first_run[c->stages * c->pieces] && !sends; r++)
        sends = row_sends_tokens(e->tables, c->run[r].row);
    return sends ? schedule_paired(c->schedule, c->stages) : c->schedule;
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* Whether all stages are treated as if they lay on devices like the first one. */
static bool is_alike(const struct estimator *e, const struct candidate *c)
{
    return c->detail != DETAIL_ALL && c->stages > 1 && !e->settings.cluster->pools &&
           c->stage[0].devices % e->settings.cluster->node.devices == 0;
}

static struct table_key key_of(const struct estimator *e, const struct candidate *c, int32_t stage,
                               int32_t run)
{
    return (struct table_key){.first_device = c->stage[stage].first_device,
                              .devices = c->stage[stage].devices,
                              .step_samples = c->step_samples,
                              .row = c->run[run].row,
                              .order = (uint16_t)schedule_of(e, c)->passes,
                              .many = table_micro_batches(&e->settings, c->micro_batches)};
}

static weft_status find_table(struct estimator *e, const struct candidate *c, int32_t part,
                              int32_t run)
{
    struct run_memo *memo = &c->memo->run[run];
    struct table_key key = key_of(e, c, is_alike(e, c) ? 0 : stage_on(c, part), run);
    if (memo->table && memcmp(&memo->key, &key, sizeof key) == 0)
        return WEFT_OK;
    memo->key = key;
    return table_find(e->tables, &key, &memo->table);
}

static weft_status find_tables(struct estimator *e, const struct candidate *c, int32_t part)
{
    weft_status status = WEFT_OK;
    for (int32_t r = c->first_run[part]; r < c->first_run[part + 1]; r++)
        TRY(find_table(e, c, part, r));
done:
    return status;
}

static const struct row_table *table_of(const struct candidate *c, int32_t run)
{
    return c->memo->run[run].table;
}

static weft_status find_border(struct estimator *e, const struct seam *seam, int64_t at,
                               struct seam_memo *memo)
{
    weft_status status;
    if (!memo->borders || memcmp(&memo->seam, seam, sizeof *seam) != 0)
        TRY(seam_find(e->tables, seam, &memo->borders));
    memo->seam = *seam;
    TRY(border_find(e->tables, memo->borders, at, &memo->border));
done:
    return status;
}

/* Finds the border after a part that is not the last. The tables must have been found. */
static weft_status find_border_after(struct estimator *e, const struct candidate *c, int32_t part)
{
    static const struct border NONE;
    int32_t next = c->first_run[part + 1];
    weft_status status = WEFT_OK;
    c->memo->seam[part].border = &NONE;
    if (c->detail == DETAIL_BARE)
        return WEFT_OK;
    bool alike = is_alike(e, c);
    int32_t from = alike ? 0 : stage_on(c, part), to = alike ? 1 : stage_on(c, part + 1);
    struct seam seam = {table_of(c, next - 1), table_of(c, next), c->stage[from].first_device,
                        c->stage[to].first_device,
                        from == to && c->schedule->both_ways ? APART_TURNED : APART};
    struct table_key after = key_of(e, c, to, next);
    if (alike)
        TRY(table_find(e->tables, &after, &seam.after));
    TRY(find_border(e, &seam, c->run[next].first, &c->memo->seam[part]));
done:
    return status;
}

/* What borders add to a part. */
struct beside {
    struct part_work work;
    struct part_memory memory;
};
static void add_side(const struct side *side, struct beside *out)
{
    out->work.forward += side->forward;
    out->work.backward += side->backward;
    out->work.weight += side->weight;
    out->memory.kept += side->memory.kept;
    out->memory.back += side->memory.back;
    out->memory.forward_rise += side->memory.forward_rise;
    out->memory.backward_rise += side->memory.backward_rise;
    out->memory.weight_rise += side->memory.weight_rise;
    out->memory.offloaded += side->memory.offloaded;
}

/* The table of the run that contains an instance; NULL: no run of this part does. */
static const struct row_table *table_with(const struct candidate *c, int32_t part, int64_t instance)
{
    for (int32_t r = c->first_run[part]; r < c->first_run[part + 1]; r++)
        if (c->run[r].first <= instance && instance < c->run[r].last)
            return table_of(c, r);
    return NULL;
}

/* Adds a tied weight's copy (I2). */
static void add_tied(const struct estimator *e, const struct candidate *c, int32_t part,
                     struct part_sums *sums)
{
    static const enum tally OWN[] = {SUM_SYNC,         SUM_SYNC_EACH,  SUM_SYNC_BYTES,
                                     SUM_GATHER_AFTER, SUM_PARAMETERS, SUM_STATE,
                                     SUM_STEP};
    struct tied_pair tied = tables_tied(e->tables);
    const struct row_table *user = tied.user < 0 ? NULL : table_with(c, part, tied.user);
    const struct row_table *owner = user ? table_with(c, part, tied.owner) : NULL;
    if (!user || (owner && owner->tied_owner == user->tied_user))
        return;
    struct sums own;
    instance_sums(user, tied.owner, &own);
    for (size_t k = 0; k < COUNT_OF(OWN); k++)
        sums->sums.of[OWN[k]] += (int64_t)((double)own.of[OWN[k]] * user->tied_share);
}

/* The borders to the parts before and after. */
static void add_neighbours(const struct candidate *c, int32_t part, struct beside *out)
{
    if (part > 0) {
        const struct border *before = c->memo->seam[part - 1].border;
        add_side(&before->after, out);
        out->work.back = before->back;
    }
    if (part + 1 < c->stages * c->pieces) {
        const struct border *after = c->memo->seam[part].border;
        add_side(&after->before, out);
        out->work.send = after->send;
    }
}

/* A part's runs and its borders, inside it and to its neighbours. */
static weft_status sum_part(struct estimator *e, const struct candidate *c, int32_t part,
                            struct part_sums *sums, struct beside *beside)
{
    int64_t device = c->stage[stage_on(c, part)].first_device;
    int32_t first = c->first_run[part], last = c->first_run[part + 1] - 1;
    weft_status status = WEFT_OK;
    for (int32_t r = first; r <= last; r++) {
        const struct candidate_run *run = &c->run[r];
        add_run(sums, table_of(c, r), run->first, run->last);
        if (r == first || table_of(c, r) == table_of(c, r - 1))
            continue;
        struct seam seam = {table_of(c, r - 1), table_of(c, r), device, device, false};
        struct seam_memo inner = {0};
        TRY(find_border(e, &seam, run->first, &inner));
        struct side side = inner_side(sums, &inner.border->before);
        add_side(&side, beside);
    }
    add_tied(e, c, part, sums);
    add_neighbours(c, part, beside);
done:
    return status;
}

static struct part_memory memory_of(const struct part_sums *sums, const struct part_memory *beside)
{
    return (struct part_memory){.kept = sums->sums.of[SUM_KEPT] + beside->kept,
                                .back = sums->sums.of[SUM_BACK] + beside->back,
                                .forward_rise = sums->forward_rise + beside->forward_rise,
                                .backward_rise = sums->backward_rise + beside->backward_rise,
                                .weight_rise = sums->weight_rise + beside->weight_rise,
                                .offloaded = sums->sums.of[SUM_OFFLOADED] + beside->offloaded};
}

static weft_status estimate_part(struct estimator *e, struct candidate *c, int32_t part)
{
    struct part_memo *out = &c->memo->part[part];
    struct part_sums sums = {0};
    struct beside beside = {0};
    weft_status status;
    TRY(sum_part(e, c, part, &sums, &beside));
    out->table = table_of(c, c->first_run[part + 1] - 1);
    out->work = close_part(e->tables, &sums, out->table, c->micro_batches);
    out->work.forward += beside.work.forward;
    out->work.backward += beside.work.backward;
    out->work.weight += beside.work.weight;
    out->work.send = beside.work.send;
    out->work.back = beside.work.back;
    out->work.host += (int64_t)((double)beside.memory.offloaded * out->table->offload_each_ns);
    c->memo->memory[part] = memory_of(&sums, &beside.memory);
    out->state = sums.sums.of[SUM_STATE];
    out->step = sums.sums.of[SUM_STEP];
    out->stand_in = sums.stand_in_bytes;
    out->parameters = sums.sums.of[SUM_PARAMETERS];
    out->gather_after_ns = sums.sums.of[SUM_GATHER_AFTER];
done:
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static int64_t peak_of(const struct estimator *e, const struct candidate *c, int32_t stage)
{
    struct pipeline pipeline = {c->stages, c->pieces, (int32_t)c->micro_batches,
                                (int32_t)e->settings.group};
    int64_t state = 0, step = 0, stand_in = 0;
    for (int32_t k = stage; k < c->stages * c->pieces;
         k = next_part_of_stage(c->schedule->zigzag, c->stages, k)) {
        const struct part_memo *part = &c->memo->part[k];
        state += part->state;
        step += part->step;
        stand_in = part->stand_in > stand_in ? part->stand_in : stand_in;
    }
    int64_t held =
        most_held(e->holdings, schedule_of(e, c), &pipeline, stage, &c->memo->memory[stage]);
    return state + stand_in + (held > step ? held : step);
}

static int64_t optimizer_of(const struct candidate *c, int32_t stage, int64_t *gather_after_ns)
{
    double ns = 0;
    *gather_after_ns = 0;
    for (int32_t k = stage; k < c->stages * c->pieces;
         k = next_part_of_stage(c->schedule->zigzag, c->stages, k)) {
        const struct part_memo *part = &c->memo->part[k];
        ns += part->table->optimizer_each_ns * (double)part->parameters;
        ns += k == stage ? (double)part->table->optimizer_least_ns : 0;
        *gather_after_ns += part->gather_after_ns;
    }
    return (int64_t)ns;
}

static int32_t part_with(const struct candidate *c, int64_t instance)
{
    int32_t part = 0;
    while (c->run[c->first_run[part + 1] - 1].last <= instance)
        part++;
    return part;
}

/* Both stages of a tied weight wait for each other's gradients. */
static weft_status tie_stages(struct estimator *e, struct candidate *c)
{
    struct tied_pair tied = tables_tied(e->tables);
    weft_status status = WEFT_OK;
    if (tied.user < 0 || c->detail != DETAIL_ALL)
        return WEFT_OK;
    int32_t owner = part_with(c, tied.owner), user = part_with(c, tied.user);
    if (stage_on(c, owner) == stage_on(c, user))
        return WEFT_OK;
    struct seam seam = {c->memo->part[owner].table, c->memo->part[user].table,
                        c->stage[stage_on(c, owner)].first_device,
                        c->stage[stage_on(c, user)].first_device, true};
    TRY(find_border(e, &seam, tied.user, &c->memo->tied));
    int64_t *a = &c->memo->stage[stage_on(c, owner)].end_ns;
    int64_t *b = &c->memo->stage[stage_on(c, user)].end_ns;
    *a = *b = (*a > *b ? *a : *b) + c->memo->tied.border->tie;
done:
    return status;
}

static weft_status finish(struct estimator *e, struct candidate *c, struct estimate *out)
{
    struct candidate_memo *memo = c->memo;
    struct pipeline_work work = {schedule_of(e, c),      c->stages,        c->pieces,
                                 c->micro_batches,       memo->work,       e->settings.overlap,
                                 cost_slowdown(e->cost), e->settings.group};
    weft_status status;
    memset(memo->stage, 0, (size_t)c->stages * sizeof *memo->stage);
    for (int32_t k = 0; k < c->stages * c->pieces; k++) {
        memo->work[k] = memo->part[k].work;
        note_part(&memo->work[k], &memo->stage[stage_on(c, k)]);
        put_in_pipeline(&work, k, &memo->work[k]);
    }
    if (plan_aligns_gathers(&e->settings.software, c->pieces))
        begin_gathers(&work, memo->work);
    pipeline_ends(e->orders, &work, memo->end);
    for (int32_t s = 0; s < c->stages; s++)
        note_end(&memo->end[s], &memo->stage[s]);
    TRY(tie_stages(e, c));
    for (int32_t s = 0; s < c->stages; s++) {
        struct stage_estimate *stage = &memo->stage[s];
        int64_t gather_after_ns;
        stage->optimizer_ns = optimizer_of(c, s, &gather_after_ns);
        stage->end_ns += stage->optimizer_ns + gather_after_ns;
        stage->peak_bytes = peak_of(e, c, s);
        note_limit(e->settings.cluster, &e->settings.memory, &c->stage[s], stage);
    }
    *out = (struct estimate){.stages = c->stages, .stage = memo->stage};
    sum_up_stages(out);
done:
    return status;
}

struct candidate_part candidate_part(const struct candidate *candidate, int32_t part)
{
    const struct candidate_memo *memo = candidate->memo;
    return (struct candidate_part){memo->work[part], memo->memory[part], memo->part[part].state,
                                   memo->part[part].stand_in};
}

weft_status estimate_candidate(struct estimator *estimator, struct candidate *candidate,
                               struct estimate *out)
{
    int32_t parts = candidate->stages * candidate->pieces;
    weft_status status;
    TRY(estimator_tables(estimator));
    for (int32_t k = 0; k < parts; k++)
        TRY(find_tables(estimator, candidate, k));
    for (int32_t k = 0; k + 1 < parts; k++)
        TRY(find_border_after(estimator, candidate, k));
    for (int32_t k = 0; k < parts; k++)
        TRY(estimate_part(estimator, candidate, k));
    TRY(finish(estimator, candidate, out));
done:
    return status;
}

weft_status estimate_moved(struct estimator *estimator, struct candidate *candidate, int32_t part,
                           struct estimate *out)
{
    weft_status status;
    TRY(find_tables(estimator, candidate, part));
    TRY(find_tables(estimator, candidate, part + 1));
    TRY(find_border_after(estimator, candidate, part));
    TRY(estimate_part(estimator, candidate, part));
    TRY(estimate_part(estimator, candidate, part + 1));
    TRY(finish(estimator, candidate, out));
done:
    return status;
}
