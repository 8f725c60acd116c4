/* find.c - an order of slots for given times, transfers and limits of memory.
 *
 * The search begins with every schedule of the table that has these pieces and fits, and with list
 * schedules of several rules; the best few are then changed where their time hangs on them. Small
 * questions are answered exactly.
 *
 *   I1  The answer fits in memory, passes schedule_of_lists, and is never slower than a schedule of
 *       the table that fits.
 *   I2  The same question has the same answer: what is tried depends on counts of slots, not on a
 *       clock.
 */
#include <string.h>

#include "schedule/find.h"

enum {
    STARTS = 4,             /* orders that are improved */
    RANDOM_LISTS = 40,      /* list schedules whose stages differ at random */
    LOCAL_SLOTS = 24000000, /* slots that are played in all: about two seconds */
    SMALL_SLOTS = 36,       /* of all stages: answered exactly */
    EXACT_NODES = 3000000
};

struct start {
    struct codes codes;
    int64_t ns; /* NEVER: none */
};

/* ---- the question ---------------------------------------------------------------------------- */

static void find_places(struct order_search *f)
{
    const struct order_question *q = f->q;
    for (int32_t s = 0; s < f->stages; s++)
        for (int32_t k = 0; k < f->pieces; k++) {
            int32_t part = part_of_piece(q->zigzag, f->stages, s, k);
            f->part_of[s * f->pieces + k] = part;
            f->stage_of[part] = s;
        }
    for (int32_t k = 0; k + 1 < f->parts; k++)
        if (f->stage_of[k] != f->stage_of[k + 1]) {
            f->send_ns[k] = q->send_ns ? q->send_ns[k] : 0;
            f->back_ns[k + 1] = q->back_ns ? q->back_ns[k + 1] : 0;
        }
}

/* What is left for passes between slots when the largest rise is set aside. */
static int64_t room_of(const struct order_search *f, int32_t stage)
{
    int64_t rise = 0;
    if (!f->q->limit_bytes)
        return INT64_MAX;
    for (int32_t k = 0; k < f->pieces; k++) {
        const struct order_memory *own = &f->q->memory[f->part_of[stage * f->pieces + k]];
        const int64_t above[] = {own->forward_rise - own->kept, own->backward_rise,
                                 own->back + own->weight_rise, own->back};
        for (size_t i = 0; i < COUNT_OF(above); i++)
            rise = above[i] > rise ? above[i] : rise;
    }
    return f->q->limit_bytes[stage] - rise;
}

static struct order_search new_finding(struct arena *keep, const struct order_question *q)
{
    size_t stages = (size_t)q->pipeline.stages, pieces = (size_t)q->pipeline.pieces;
    size_t parts = stages * pieces, m = (size_t)q->pipeline.micro_batches;
    struct order_search f = {.q = q,
                             .keep = keep,
                             .stages = q->pipeline.stages,
                             .pieces = q->pipeline.pieces,
                             .parts = (int32_t)parts,
                             .m = q->pipeline.micro_batches,
                             .most = (int32_t)(3 * pieces * m)};
    int32_t **const by_part[] = {&f.part_of,   &f.stage_of, &f.forwards,
                                 &f.backwards, &f.inputs,   &f.weights};
    int64_t **const times[] = {&f.send_ns, &f.back_ns};
    for (size_t i = 0; i < COUNT_OF(by_part); i++)
        *by_part[i] = ARENA_ARRAY(keep, int32_t, parts);
    for (size_t i = 0; i < COUNT_OF(times); i++)
        *times[i] = ARENA_ARRAY(keep, int64_t, parts);
    f.done = ARENA_ARRAY(keep, int32_t, stages);
    f.room = ARENA_ARRAY(keep, int64_t, stages);
    f.stage_ns = ARENA_ARRAY(keep, int64_t, stages);
    f.forward_end = ARENA_ARRAY(keep, int64_t, parts *m);
    f.backward_end = ARENA_ARRAY(keep, int64_t, parts *m);
    f.start_ns = ARENA_ARRAY(keep, int64_t *, stages);
    f.end_ns = ARENA_ARRAY(keep, int64_t *, stages);
    rng_seed(&f.rng, q->seed + 1);
    find_places(&f);
    for (int32_t s = 0; s < f.stages; s++) {
        f.start_ns[s] = ARENA_ARRAY(keep, int64_t, (size_t)f.most);
        f.end_ns[s] = ARENA_ARRAY(keep, int64_t, (size_t)f.most);
        f.room[s] = room_of(&f, s);
    }
    return f;
}

/* ---- where the search begins ----------------------------------------------------------------- */

static bool fits(const struct order_search *f, const struct codes *codes)
{
    for (int32_t s = 0; s < f->stages; s++)
        if (!find_fits(f, codes, s))
            return false;
    return true;
}

/* Keeps an order among the best; returns its time, NEVER if it does not fit. */
static int64_t consider(struct order_search *f, const struct codes *codes, struct start *starts)
{
    int64_t ns = fits(f, codes) ? find_play(f, codes) : NEVER;
    size_t worst = 0;
    for (size_t i = 0; i < STARTS && ns != NEVER; i++) {
        if (starts[i].ns == ns)
            return ns;
        if (starts[worst].ns != NEVER && (starts[i].ns == NEVER || starts[i].ns > starts[worst].ns))
            worst = i;
    }
    if (ns == NEVER || (starts[worst].ns != NEVER && starts[worst].ns <= ns))
        return ns;
    starts[worst].ns = ns;
    codes_copy(f, &starts[worst].codes, codes);
    return ns;
}

static bool to_codes(struct order_search *f, const struct schedule *row, struct codes *out)
{
    struct arena *scratch = arena_new();
    bool fine = true;
    for (int32_t s = 0; s < f->stages; s++) {
        struct slots slots = {0};
        schedule_order(row, &f->q->pipeline, s, scratch, &slots);
        out->len[s] = (int32_t)slots.len;
        for (size_t i = 0; i < slots.len; i++) {
            out->list[s][i] = code_of(slots.data[i].piece, slots.data[i].kind);
            fine = fine && !(f->q->unsplit && slots.data[i].kind == SLOT_BACKWARD_INPUT);
        }
    }
    arena_free(scratch);
    return fine;
}

static void start_with_table(struct order_search *f, struct codes *codes, struct start *starts,
                             struct order_answer *out)
{
    const struct schedule *all;
    size_t count = schedule_all(&all);
    for (size_t i = 0; i < count; i++) {
        bool same = all[i].zigzag == f->q->zigzag || f->pieces == 1 || f->stages == 1;
        if (!same || schedule_check(&all[i], &f->q->pipeline) != WEFT_OK ||
            !to_codes(f, &all[i], codes))
            continue;
        int64_t ns = consider(f, codes, starts);
        if (ns != NEVER && (!out->named || ns < out->named_ns)) {
            out->named = &all[i];
            out->named_ns = ns;
        }
    }
    error_clear();
}

static void start_with_lists(struct order_search *f, struct codes *codes, struct start *starts)
{
    static const double WAITS[] = {0, 0.3, 0.6, 0.95}, AHEAD[] = {0, 1, 1.5, 2};
    for (size_t w = 0; w < COUNT_OF(WAITS); w++)
        for (size_t a = 0; a < COUNT_OF(AHEAD); a++)
            for (int first = 0; first < 2; first++) {
                struct list_rules rules = {WAITS[w], AHEAD[a], 0, first, f->q->unsplit};
                if (find_list(f, &rules, codes))
                    consider(f, codes, starts);
            }
    for (int i = 0; i < RANDOM_LISTS; i++) {
        struct list_rules rules = {rng_uniform(&f->rng), 2 * rng_uniform(&f->rng), 0.5,
                                   rng_below(&f->rng, 4) == 0, f->q->unsplit};
        if (i % 4 == 0)
            rules.ahead = 0;
        if (find_list(f, &rules, codes))
            consider(f, codes, starts);
    }
}

/* ---- the answer ------------------------------------------------------------------------------ */

static weft_status to_schedule(struct order_search *f, struct arena *keep,
                               const struct codes *codes, struct schedule **out)
{
    struct slot_lists *lists = ARENA_NEW(keep, struct slot_lists);
    int32_t *count = ARENA_ARRAY(f->keep, int32_t, (size_t)f->parts *SLOT_KIND_COUNT);
    uint8_t *split = ARENA_ARRAY(f->keep, uint8_t, (size_t)f->parts *(size_t)f->m);
    *lists =
        (struct slot_lists){f->q->pipeline, ARENA_ARRAY(keep, struct slots, (size_t)f->stages)};
    for (int32_t s = 0; s < f->stages; s++)
        for (int32_t i = 0; i < codes->len[s]; i++) {
            int32_t piece = piece_of(codes->list[s][i]), part = f->part_of[s * f->pieces + piece];
            enum slot_kind kind = kind_of(codes->list[s][i]);
            int32_t *own = &count[part * SLOT_KIND_COUNT];
            bool input = kind == SLOT_BACKWARD_INPUT, weight = kind == SLOT_BACKWARD_WEIGHT;
            int32_t *number = &own[input ? SLOT_BACKWARD : (int)kind];
            while (weight && !split[part * f->m + *number]) /* those of whole passes are done */
                ++*number;
            if (input)
                split[part * f->m + *number] = true;
            array_push(keep, &lists->stage[s], ((struct slot){kind, piece, (*number)++}));
        }
    return schedule_of_lists(keep, "any", NULL, lists, f->q->zigzag, out);
}

static struct start *best_of(struct start *starts)
{
    struct start *best = NULL;
    for (size_t i = 0; i < STARTS; i++)
        if (starts[i].ns != NEVER && (!best || starts[i].ns < best->ns))
            best = &starts[i];
    return best;
}

static void improve(struct order_search *f, struct start *starts, int64_t bound)
{
    for (size_t i = 0; i < STARTS; i++) {
        bool done = best_of(starts) && best_of(starts)->ns <= bound;
        if (starts[i].ns != NEVER && !done)
            find_local(f, &starts[i].codes, &starts[i].ns, LOCAL_SLOTS / STARTS);
    }
}

weft_status schedule_find_order(struct arena *keep, const struct order_question *q,
                                struct order_answer *out)
{
    struct arena *scratch = arena_new();
    struct order_search f = new_finding(scratch, q);
    struct start starts[STARTS];
    struct codes codes = codes_new(&f);
    weft_status status;
    *out = (struct order_answer){.bound_ns = find_bound(&f)};
    for (size_t i = 0; i < STARTS; i++)
        starts[i] = (struct start){codes_new(&f), NEVER};
    start_with_table(&f, &codes, starts, out);
    start_with_lists(&f, &codes, starts);
    improve(&f, starts, out->bound_ns);
    struct start *best = best_of(starts);
    if (!best)
        TRY(no_answer("allow more memory, or use more pieces",
                      "no order of %s with %s fits in memory", counted(f.stages, "stage").s,
                      counted(f.m, "micro-batch").s));
    out->proved = best->ns <= out->bound_ns;
    if (!out->proved && !q->heuristic && 3 * f.parts * f.m <= SMALL_SLOTS)
        out->proved = find_exact(&f, &best->codes, &best->ns, EXACT_NODES);
    out->ns = best->ns;
    TRY(to_schedule(&f, keep, &best->codes, &out->schedule));
done:
    arena_free(scratch);
    return status;
}
