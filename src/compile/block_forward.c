/* block_forward.c - the items of a forward pass, and of what runs forward again (blocks.c says in which order, and numbers the
 * invariants). */
#include "compile/block_writer.h"

bool in_part(const struct block_writer *w, int64_t instance)
{
    return instance >= 0 && w->b->part_of[instance] == w->part;
}

/* The item that makes the tensor; -1: it exists before the block. */
static int32_t made_by(const struct block_writer *w, int64_t source)
{
    return in_part(w, source) ? w->item_of[source - w->b->plan->part[w->part].first] : -1;
}

bool gathers(const struct joint *joint)
{
    for (size_t k = 0; k < COUNT_OF(joint->forward); k++)
        for (int32_t i = 0; joint->forward[k] && i < joint->forward[k]->steps; i++)
            if (joint->forward[k]->step[i].kind == COLLECTIVE_ALL_GATHER)
                return true;
    return false;
}

/* The first and the last instance of the run of recomputed ones, within its layer, that this one is in. */
int64_t run_start(const struct block_writer *w, int64_t i)
{
    const struct plan *plan = w->b->plan;
    while (i > plan->part[w->part].first && !plan->ends_layer[i - 1] &&
           plan_choice(plan, i - 1)->recompute)
        i--;
    return i;
}

int64_t run_end(const struct block_writer *w, int64_t i)
{
    const struct plan *plan = w->b->plan;
    while (i + 1 < plan->part[w->part].first + plan->part[w->part].count && !plan->ends_layer[i] &&
           plan_choice(plan, i + 1)->recompute)
        i++;
    return i;
}

bool moves(const struct joint *joint)
{
    return joint->forward[0] || joint->forward[1];
}

/* Whether it reads what is made again of an output of this part (I8). */
bool reads_remade(const struct block_writer *w, const struct use *use)
{
    if (!in_part(w, use->source) || !plan_choice(w->b->plan, use->source)->discard)
        return false;
    return !moves(use->joint) || gathers(use->joint);
}

/* Whether reader and source run forward again together, so that the one reads what the other has made again. */
static bool runs_together(const struct block_writer *w, const struct use *use)
{
    const struct plan *plan = w->b->plan;
    return plan_choice(plan, use->reader)->recompute && plan_choice(plan, use->source)->recompute &&
           !plan_choice(plan, use->source)->saved &&
           run_start(w, use->reader) == run_start(w, use->source);
}

/* Makes what a use reads whole again, if it waits in parts; returns the last step, -1: it does not (I9). */
int32_t regather(struct block_writer *w, const struct use *use)
{
    struct in_parts *all = w->b->in_parts;
    if (!all || !in_part(w, use->source) || !all[use->source].gathers ||
        (moves(use->joint) && !gathers(use->joint)) || runs_together(w, use) ||
        reads_remade(w, use))
        return -1;
    int32_t *whole = &w->whole[use->source - w->b->plan->part[w->part].first];
    if (*whole < w->layer || *whole < 0)
        *whole = write_reshard(w, use, all[use->source].gathers, FLOW_FORWARD, w->last_op);
    all[use->source].use = (int32_t)(use - w->b->use);
    return *whole;
}

/* Brings one input; returns the item after which it is there. */
int32_t bring(struct block_writer *w, int64_t u)
{
    const struct use *use = &w->b->use[u];
    if (!use->joint)
        return -1;
    int32_t *done = &w->step_of[use->same_forward - w->first_use];
    int32_t needs = made_by(w, use->source);
    if (*done >= w->floor)
        return *done;
    const struct joint *j = use->joint;
    int32_t whole = w->recomputing ? regather(w, use) : -1;
    int32_t first = (int32_t)w->items.len;
    w->brought = whole > w->brought ? whole : w->brought;
    if (w->recomputing && needs < w->floor && !gathers(j))
        return -1; /* I4 */
    needs = whole > needs ? whole : needs;
    if (*done >= 0 && w->last_op > needs) /* another reads it as it was gathered before (I4) */
        needs = w->last_op;
    if (j->across)
        needs = write_steps(w, use, j->forward[1], j->forward[1]->send + 1, j->forward[1]->steps,
                            FLOW_FORWARD, needs);
    else
        needs = write_reshard(w, use, j->forward[1], FLOW_FORWARD,
                              write_reshard(w, use, j->forward[0], FLOW_FORWARD, needs));
    if (needs >= 0 && w->items.data[needs].kind == ITEM_STEP)
        *done = needs;
    if (first < (int32_t)w->items.len)
        write_rest_after(w, first);
    return needs;
}

/* Begins to write what runs beside tokens, for which only what comes after it waits; and ends that. */
int32_t begin_beside(struct block_writer *w)
{
    int32_t waits = w->brought;
    w->beside = true;
    w->brought = -1;
    return waits;
}

void end_beside(struct block_writer *w, int32_t waits)
{
    w->beside = false;
    w->brought = waits > w->brought ? waits : w->brought;
}

/* Writes a shared expert beside the tokens that an instance waits for (shared_experts.c). */
static void forward_beside(struct block_writer *w, int64_t instance, int64_t last,
                           enum purpose purpose)
{
    struct shared_run run;
    int64_t first, end;
    if (w->beside || !shared_run_of(w, instance, &run) ||
        !runs_beside(&run, instance, &first, &end) || run.end > last + 1)
        return;
    for (int64_t i = run.first; w->recomputing && i < run.end; i++)
        if (w->b->rerun[i] != RERUN_FORWARD)
            return;
    int32_t waits = begin_beside(w);
    for (int64_t i = first; i < end; i++) {
        w->early[i - w->b->plan->part[w->part].first] = true;
        forward_op(w, i, i, purpose);
    }
    end_beside(w, waits);
}

/* `last` is the last of the operators that run forward together. */
void forward_op(struct block_writer *w, int64_t instance, int64_t last, enum purpose purpose)
{
    const struct build *b = w->b;
    int32_t needs = -1, before = (int32_t)w->items.len;
    for (int64_t u = b->use_first[instance]; u < b->use_first[instance + 1]; u++) {
        int32_t there = bring(w, u);
        if (there >= 0 && w->items.data[there].kind == ITEM_STEP && there > needs)
            needs = there;
    }
    if (needs >= before)
        write_rests_beside(w, instance, last, purpose, needs);
    forward_beside(w, instance, last, purpose);
    write_ring(w, instance, PHASE_FORWARD, purpose, before, 1);
    if (laid_of(b, instance)->halos) {
        int32_t halo = write_halo(w, instance, FLOW_FORWARD,
                                  made_by(w, b->use[b->use_first[instance]].source));
        needs = halo >= before ? halo : needs;
    }
    write_op(w, instance, PHASE_FORWARD, purpose, needs);
}

/* Writes the steps before the sends of this part's tensors. */
static void prepare_sends(struct block_writer *w)
{
    const struct build *b = w->b;
    for (size_t i = 0; i < b->crossings.len; i++) {
        const struct crossing *c = &b->crossings.data[i];
        const struct use *use = &b->use[c->use];
        if (c->from_part != w->part || use->same_forward != c->use)
            continue;
        int32_t needs =
            write_reshard(w, use, use->joint->forward[0], FLOW_FORWARD, made_by(w, use->source));
        write_steps(w, use, use->joint->forward[1], 0, use->joint->forward[1]->send, FLOW_FORWARD,
                    needs);
    }
}

void write_forward(struct block_writer *w)
{
    const struct part *part = &w->b->plan->part[w->part];
    for (int64_t i = part->first; i < part->first + part->count; i++)
        if (!w->early[i - part->first])
            forward_op(w, i, part->first + part->count - 1, PURPOSE_FORWARD);
    prepare_sends(w);
}
