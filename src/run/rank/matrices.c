/* matrices.c - matrices that Muon updates, whichever part of them is here (kernels/cpu/muon.c has the equations).
 *
 * Momentum and the step itself are element by element, so each device does them for what it has. In between a matrix is
 * made orthogonal as a whole: where it is split, or its state is shared out, the devices of the stage add up their parts,
 *
 *   X = sum over devices of (own elements at their places, zero elsewhere)                                      (1)
 *
 * and each makes it orthogonal for itself.
 *
 *   I1  Of devices that have the same elements the first adds them.
 *   I2  All devices of a stage have a part in all matrices of the stage, and come to them in the same order.
 */
#include "run/rank/matrices.h"

#include <math.h>
#include <stdlib.h>

/* Elements first .. first + count of those that lie here: this member's. */
struct own_part {
    int64_t first, count;
};

static struct own_part own_part(const struct store *s, const struct held_weight *held)
{
    int64_t first = s->shard ? s->member * held->share : 0;
    int64_t count = s->shard ? held->share : held->count;
    int64_t left = held->count > first ? held->count - first : 0;
    return (struct own_part){first, count < left ? count : left};
}

static bool is_whole_here(const struct rank *r, const struct held_weight *held)
{
    const struct op *op = r->local_op[held->instance].laid->op;
    bool whole = op->kind == OP_EXPERT_LINEAR ? plan_expert_tp(r->plan) == 1
                                              : layout_is_copies(&held->layout);
    return whole && r->store[held->store].members == 1;
}

/* Elements that follow each other both here and in the whole. */
static int64_t run_length(const struct rank *r, const struct held_weight *held, struct own_part own)
{
    struct layout_stride stride[MAX_LAYOUT_DIGITS];
    int32_t digits = layout_strides(&held->layout, r->device, stride);
    int64_t run = common_divisor(own.first, own.count);
    for (int32_t i = 0; i < digits; i++)
        if (stride[i].degree > 1)
            run = common_divisor(run, stride[i].hold);
    return run > 0 ? run : 1;
}

/* Between an own part and the whole, on the device: places of runs. Those of padding are left out. */
static void move_own(const struct rank *r, const struct held_weight *held, struct own_part own,
                     bool back, float *part, float *whole)
{
    int64_t run = run_length(r, held, own), runs = own.count / run, some = 0;
    int64_t *place = malloc((size_t)(2 * runs + 1) * sizeof *place);
    if (!place)
        memory_ran_out((size_t)(2 * runs + 1) * sizeof *place);
    for (int64_t i = 0; i < runs; i++) {
        int64_t element = layout_element(&held->layout, r->device, own.first + i * run);
        if (element + run > held->elements)
            continue;
        place[2 * some + back] = i * run;
        place[2 * some + !back] = element;
        some++;
    }
    if (some)
        rank_device(r)->copy_runs(r->work, DTYPE_FP32, back ? whole : part, back ? part : whole,
                                  run, some, place);
    free(place);
}

/* (1): X of one weight, from its part to that part made orthogonal. */
static void orthogonalise_parts(struct rank *r, const struct held_weight *held, struct own_part own,
                                float *part, void *room)
{
    int64_t matrices = held->elements / (held->rows * held->columns);
    float *whole = floats_counted(r, MEMORY_WORKSPACE, held->elements);
    if (first_of_copies(r, held)) /* I1 */
        move_own(r, held, own, false, part, whole);
    ask_sum(r, r->stage_group, REDUCE_SUM, whole, held->elements);
    if (!has_failed(r))
        r->options->kernels->muon->orthogonalise(r->work, held->rows, held->columns, matrices,
                                                 whole, room);
    move_own(r, held, own, true, part, whole);
    floats_free(r, MEMORY_WORKSPACE, whole, held->elements);
}

void update_matrix(struct rank *r, const struct held_weight *held, struct optimizer_step *step)
{
    const struct muon_kernels *muon = r->options->kernels->muon;
    struct own_part own = own_part(&r->store[held->store], held);
    int64_t floats = ceil_div(muon->room_bytes(held->rows, held->columns), (int64_t)sizeof(float));
    float *part = floats_counted(r, MEMORY_WORKSPACE, own.count);
    float *room = floats_counted(r, MEMORY_WORKSPACE, floats);
    step->rows = held->rows;
    step->columns = held->columns;
    muon->momentum(step, part);
    if (is_whole_here(r, held))
        muon->orthogonalise(r->work, held->rows, held->columns,
                            own.count / (held->rows * held->columns), part, room);
    else
        orthogonalise_parts(r, held, own, part, room);
    muon->apply(step, part);
    floats_free(r, MEMORY_WORKSPACE, room, floats);
    floats_free(r, MEMORY_WORKSPACE, part, own.count);
}

weft_status make_stage_group(struct rank *r)
{
    int64_t devices = r->plan->stage[r->stage].devices;
    int32_t *member = ARENA_ARRAY(r->arena, int32_t, (size_t)devices);
    r->stage_group = -1;
    if (r->options->optimizer.kind != OPTIMIZER_MUON)
        return WEFT_OK;
    for (int64_t i = 0; i < devices; i++)
        member[i] = (int32_t)(r->plan->stage[r->stage].first_device + i);
    return group_for(r, member, (int32_t)devices, STREAM_COMPUTE, &r->stage_group);
}
