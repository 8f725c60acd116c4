/* borders.c - what is different where a run begins or ends (tables.h).
 *
 *   I1  A border is measured on the whole model, cut at the place that stands for its kind, so that
 *       the result does not depend on which question comes first.
 */
#include "search/estimate/tables_room.h"

/* The tables on the devices of the seam, moved down together (tables.h, I2). */
struct borders {
    struct row_table before, after;
    int64_t apart;           /* struct seam */
    struct border **by_kind; /* NULL: not asked for yet */
};

/* How much a pass adds to a part's memory in the end (net), and how far it rises above its start on
 * the way, computed as in sim/holdings.c. */
struct pass_memory {
    int64_t net, rise;
};
static struct pass_memory held_in(const struct timed *timed, int32_t part, enum slot_kind kind)
{
    const struct part_lifetimes *lives = &timed->outline.graph->lifetimes->part[part];
    const struct memory_events *events = &lives->events[kind];
    struct pass_memory held = {0, 0};
    for (int32_t i = 0; i < events->count; i++) {
        const struct memory_event *m = &events->event[i];
        held.net += m->gives ? -lives->life[m->life].bytes : lives->life[m->life].bytes;
        held.rise = held.net > held.rise ? held.net : held.rise;
    }
    return held;
}

/* What a part takes in addition to its sums. */
static weft_status find_side(const struct tables *t, const struct timed *timed, int32_t part,
                             const struct part_sums *sums, const struct row_table *table,
                             struct part_work *work, struct side *out)
{
    struct part_work said = close_part(t, sums, table, table->many ? 2 : 1);
    enum slot_kind backward = table->order == ORDER_SPLIT ? SLOT_BACKWARD_INPUT : SLOT_BACKWARD;
    struct pass_memory f = held_in(timed, part, SLOT_FORWARD), b = held_in(timed, part, backward);
    struct pass_memory w = held_in(timed, part, SLOT_BACKWARD_WEIGHT);
    const struct part_lifetimes *lives = &timed->outline.graph->lifetimes->part[part];
    weft_status status;
    TRY(part_work(timed, part, work));
    *out = (struct side){
        .forward = work->forward - said.forward,
        .backward = work->backward - said.backward,
        .weight = work->weight - said.weight,
        .memory = {.kept = f.net - sums->sums.of[SUM_KEPT],
                   .back = b.net - sums->sums.of[SUM_BACK],
                   .forward_rise = f.rise - sums->forward_rise,
                   .backward_rise = b.rise - sums->backward_rise,
                   .weight_rise = w.rise - sums->weight_rise,
                   .offloaded = offloaded_bytes(lives) - sums->sums.of[SUM_OFFLOADED]}};
done:
    return status;
}

static weft_status fill_border(const struct tables *t, const struct borders *borders, int64_t at,
                               struct border *out)
{
    const struct row_table *before = &borders->before, *after = &borders->after;
    int64_t apart = borders->apart;
    struct arena *scratch = arena_new();
    struct plan *plan = NULL;
    struct timed timed = {0};
    struct part_sums sums[2] = {0};
    struct part_work work[2] = {0};
    int64_t instances = t->walk->instances;
    weft_status status;
    TRY(cut_plan(t, before, after, at, apart, &plan));
    TRY(timed_new(scratch, plan, t->cost, t->flows, &timed));
    add_places(&sums[0], before, &(struct place_range){0, at, 1});
    add_places(&sums[apart != 0], after, &(struct place_range){at, instances, 1});
    TRY(find_side(t, &timed, 0, &sums[0], before, &work[0], &out->before));
    if (apart)
        TRY(find_side(t, &timed, 1, &sums[1], after, &work[1], &out->after));
    out->send = work[0].send;
    out->back = work[1].back;
    for (int32_t i = 0; i < timed.outline.ties; i++)
        for (int32_t k = 0; k < timed.outline.tie[i].exchanges; k++)
            out->tie += exchange_ns(&timed, timed.outline.tie[i].exchange[k]);
done:
    timed_free(&timed);
    plan_free(plan);
    arena_free(scratch);
    return status;
}

weft_status seam_find(struct tables *t, const struct seam *seam, struct borders **out)
{
    int64_t first = seam->before_device, other = seam->after_device;
    int64_t low = first < other ? first : other;
    int64_t end = first + seam->before->devices, other_end = other + seam->after->devices;
    int64_t devices = (end > other_end ? end : other_end) - low;
    int64_t shift = t->settings->stage_run ? 0 : shift_of(t->settings->cluster, low, devices);
    int64_t apart = seam->apart ? seam->apart : first != other;
    int64_t words[] = {seam->before->number, seam->after->number, first - shift, other - shift,
                       apart};
    uint64_t hash = hash_bytes(words, sizeof words, 5) | 1;
    int32_t number = (int32_t)hash_get(&t->by_seam, hash);
    if (number < 0) {
        struct borders *borders = ARENA_NEW(t->arena, struct borders);
        *borders =
            (struct borders){*seam->before, *seam->after, apart,
                             ARENA_ARRAY(t->arena, struct border *, (size_t)t->places.kinds)};
        borders->before.first_device = first - shift;
        borders->after.first_device = other - shift;
        number = (int32_t)t->seams.len;
        array_push(t->arena, &t->seams, borders);
        *hash_at(&t->by_seam, t->arena, hash) = number;
    }
    *out = t->seams.data[number];
    return WEFT_OK;
}

weft_status border_find(struct tables *t, struct borders *borders, int64_t at,
                        const struct border **out)
{
    int64_t kind = t->places.kind_of[place_of(&t->few, at)];
    struct border **found = &borders->by_kind[kind];
    weft_status status = WEFT_OK;
    if (!*found) {
        struct border *border = ARENA_NEW(t->arena, struct border);
        TRY(fill_border(t, borders, t->places.stand_in[kind], border));
        *found = border;
    }
    *out = *found;
done:
    return status;
}
