/* branches.c - branches of a model side by side on runs of their stage's devices (room.h; plan/subset.h).
 *
 * Kernels that are too small for their devices take as long on all of them as on some: branches that do not need each other
 * (forks.c) then take less time beside each other. With the branches of a fork on r equal runs of its stage's devices,
 *
 *   gain = sum of all times on all devices - (longest sum of a run + broadcasts of what branches make, and back)     (1)
 *
 * by the time that each operator takes under its split, and under its split on a run: the same with one degree divided by r.
 *
 *   I1  Forks with a gain are laid so, the branch that takes longest first, each on the run that has least. The plan is a
 *       trial if their gains are worth one; the simulation decides.
 *   I2  Plans to begin with: the best, the best on one stage, and one on one stage that splits samples only and copies the
 *       rest, which leaves most to gain where samples are fewer than devices.
 *   I3  Only where nothing about degrees is pinned, the answer need not run in a framework, which has no such plans, and
 *       devices are few: such graphs are simulated device by device.
 */
#include "search/auto/forks.h"
#include "search/auto/room.h"

enum { MOST_DEVICES = 32, MOST_INSTANCES = 4096, MOST_RUNS = 8, MOST_STARTS = 3 };
/* Of the iteration: less is not worth a simulation of every device. */
static const double WORTH_A_TRIAL = 0.01;

struct branching {
    struct join *join;
    struct plan *plan; /* a copy, which is changed */
    struct arena *scratch;
    double gain_ns; /* of a micro-batch */
    int64_t forks;  /* that were laid side by side */
};

/* ---- times ------------------------------------------------------------------------------------- */

static double op_ns(const struct branching *b, int64_t instance, const struct split *split)
{
    const struct plan *plan = b->plan;
    int32_t number = plan->instance[instance].op;
    const struct op *op = &plan->model->op[number];
    enum dtype dtype = op_dtype(plan->model, number, plan->dtype);
    const bool runs[PHASE_COUNT] = {[PHASE_FORWARD] = true,
                                    [PHASE_BACKWARD_INPUT] = op->input_grad,
                                    [PHASE_BACKWARD_WEIGHT] = op_trains(op)};
    int64_t local[OP_MAX_DIMS];
    double ns = 0;
    split_local(op, split, plan->step_samples, local);
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        struct work work = op_work(op, local, dtype, (enum phase)phase);
        ns += runs[phase] ? (double)cost_of(b->join->cost, &work).ns : 0;
    }
    return ns;
}

/* The split on one of so many runs that takes least; false: no degree can be divided. */
static bool split_on_run(const struct branching *b, int64_t instance, int64_t runs,
                         struct split *out, double *least)
{
    const struct split *split = &plan_choice(b->plan, instance)->split;
    bool found = false;
    for (int32_t i = 0; i < split->parts; i++) {
        struct split one = split_none();
        if (split->part[i].degree % runs)
            continue;
        for (int32_t k = 0; k < split->parts; k++)
            split_add(&one, split->part[k].dim, split->part[k].degree / (k == i ? runs : 1));
        double ns = op_ns(b, instance, &one);
        if (!found || ns < *least) {
            *out = one;
            *least = ns;
        }
        found = true;
    }
    return found;
}

/* What a branch makes goes to all other runs, and about as much comes back as the gradient of what it reads. */
static double broadcast_ns(const struct branching *b, int64_t instance, int64_t runs)
{
    const struct plan *plan = b->plan;
    const struct stage *stage =
        &plan->stage[plan_stage_of_part(plan, plan_part_of(plan, instance))];
    const struct op *op = &plan->model->op[plan->instance[instance].op];
    struct group group = group_range(stage->first_device, runs, stage->devices / runs);
    struct collective_cost cost = {0};
    int64_t local[OP_MAX_DIMS];
    split_local(op, &plan_choice(plan, instance)->split, plan->step_samples, local);
    double bytes = operand_bytes(op, &op->output, local, plan->dtype);
    if (collective_time(plan->cluster, COLLECTIVE_BROADCAST, &group, (int64_t)bytes, &cost))
        error_clear();
    return 2 * (double)cost.ns;
}

/* ---- one fork ------------------------------------------------------------------------------------ */

struct fork_layout {
    int64_t runs;
    double gain_ns;
    int32_t *run_of; /* per branch */
};

static bool is_tied(const struct plan *plan, int64_t instance)
{
    const struct model *model = plan->model;
    int32_t number = plan->instance[instance].op;
    bool tied = model->op[number].weights && model->op[number].weight[0].tied_op >= 0;
    for (int32_t i = 0; i < model->ops && !tied; i++)
        tied = model->op[i].weights && model->op[i].weight[0].tied_op == number;
    return tied;
}

/* Times of a branch on all devices and on a run; false: it cannot be on one. */
static bool branch_ns(const struct branching *b, const struct fork_branch *branch, int64_t runs,
                      double *all, double *inside)
{
    *all = *inside = 0;
    for (size_t i = 0; i < branch->len; i++) {
        struct split split;
        double ns = 0;
        if (is_tied(b->plan, branch->data[i]) ||
            !split_on_run(b, branch->data[i], runs, &split, &ns))
            return false;
        *all += op_ns(b, branch->data[i], &plan_choice(b->plan, branch->data[i])->split);
        *inside += ns;
    }
    return true;
}

/* The branch that takes longest of those that have no run yet. */
static size_t longest(const struct fork_layout *layout, const double *ns, size_t branches)
{
    size_t at = branches;
    for (size_t i = 0; i < branches; i++)
        if (layout->run_of[i] < 0 && (at == branches || ns[i] > ns[at]))
            at = i;
    return at;
}

/* I1; returns the longest sum of a run. */
static double assign(struct fork_layout *layout, const double *ns, size_t branches)
{
    double load[MOST_RUNS] = {0}, most = 0;
    for (size_t i = 0; i < branches; i++)
        layout->run_of[i] = -1;
    for (size_t n = 0; n < branches; n++) {
        size_t at = longest(layout, ns, branches);
        int32_t least = 0;
        for (int32_t r = 1; r < layout->runs; r++)
            least = load[r] < load[least] ? r : least;
        layout->run_of[at] = least;
        load[least] += ns[at];
        most = load[least] > most ? load[least] : most;
    }
    return most;
}

/* (1); no gain if it cannot be laid on so many runs. */
static struct fork_layout fork_on(const struct branching *b, const struct fork *fork, int64_t runs)
{
    size_t branches = fork->branches.len;
    struct fork_layout layout = {.runs = runs,
                                 .run_of = ARENA_ARRAY(b->scratch, int32_t, branches)};
    double *inside = ARENA_ARRAY(b->scratch, double, branches), sum = 0;
    for (size_t i = 0; i < branches; i++) {
        double all;
        if (!branch_ns(b, &fork->branches.data[i], runs, &all, &inside[i]))
            return layout;
        sum += all - broadcast_ns(b, fork->branches.data[i].data[0], runs);
    }
    layout.gain_ns = sum - assign(&layout, inside, branches);
    return layout;
}

static weft_status lay_branch(const struct branching *b, const struct fork_branch *branch,
                              int64_t runs, int32_t run)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < branch->len; i++) {
        int64_t instance = branch->data[i], devices;
        struct choice choice = *plan_choice(b->plan, instance);
        struct split inside = split_none();
        double ns;
        devices = split_devices(&choice.split);
        split_on_run(b, instance, runs, &inside, &ns);
        struct device_run on = {run * (devices / runs), devices / runs};
        if (split_put_on(&inside, on, devices, &choice.split))
            TRY(plan_choose(b->plan, instance, &choice));
    }
done:
    return status;
}

static weft_status lay_fork(struct branching *b, const struct fork *fork)
{
    int32_t part = plan_part_of(b->plan, fork->join);
    int64_t devices = b->plan->stage[plan_stage_of_part(b->plan, part)].devices;
    struct fork_layout best = {0};
    weft_status status = WEFT_OK;
    for (int64_t runs = 2; runs <= MOST_RUNS && runs / 2 < (int64_t)fork->branches.len; runs *= 2) {
        struct fork_layout one =
            devices % runs == 0 ? fork_on(b, fork, runs) : (struct fork_layout){0};
        if (one.gain_ns > best.gain_ns)
            best = one;
    }
    for (size_t i = 0; best.gain_ns > 0 && i < fork->branches.len; i++)
        TRY(lay_branch(b, &fork->branches.data[i], best.runs, best.run_of[i]));
    b->gain_ns += best.gain_ns;
    b->forks += best.gain_ns > 0;
done:
    return status;
}

/* ---- plans ----------------------------------------------------------------------------------------- */

/* Lays the forks of a plan and tries it if that is worth it. Owns the plan. */
static weft_status try_branches(struct join *join, struct plan *plan, int64_t iteration_ns,
                                const char *from)
{
    struct branching b = {.join = join, .plan = plan, .scratch = arena_new()};
    struct planned *out = join->out;
    struct forks forks = {0};
    weft_status status = WEFT_OK;
    find_forks(b.scratch, plan, &forks);
    for (size_t i = 0; i < forks.len; i++)
        TRY(lay_fork(&b, &forks.data[i]));
    double gain = b.gain_ns * (double)plan_micro_batches(plan);
    bool legal = gain > WORTH_A_TRIAL * (double)iteration_ns && plan_check(plan) == WEFT_OK &&
                 !plan_forbidden(&join->request->forbids, plan);
    error_clear();
    if (legal) {
        const struct trial *trial;
        size_t before = out->trials.len;
        const char *text = arena_printf(out->arena, "%s; %s side by side",
                                        mix_text(out->arena, plan), counted(b.forks, "fork").s);
        b.plan = NULL;
        TRY(try_plan(join->request, join->cost, plan, text, out, &trial));
        if (out->trials.len > before)
            out->trials.data[before].found_by =
                arena_printf(out->arena, "%s and branches side by side", from);
        join_report(join);
    }
done:
    plan_free(b.plan);
    arena_free(b.scratch);
    return status;
}

/* I2: samples in parts as far as they go, the rest copied, on one stage. *out is NULL if samples are enough. */
static weft_status copied_plan(const struct plan *from, struct plan **out)
{
    int64_t devices = cluster_devices(from->cluster);
    int64_t samples = common_divisor(from->step_samples, devices);
    struct plan *plan = NULL;
    weft_status status = WEFT_OK;
    *out = NULL;
    if (samples == devices)
        return WEFT_OK;
    TRY(plan_like(from, &plan));
    for (int64_t i = 0; i < plan->instances; i++) {
        struct choice choice = {.split = split_none()};
        bool has = op_find_dim(plan->model->op[plan->instance[i].op].kind, DIM_BATCH) >= 0;
        split_add(&choice.split, has ? DIM_BATCH : SPLIT_COPY, samples);
        split_add(&choice.split, SPLIT_COPY, devices / samples);
        TRY(plan_choose(plan, i, &choice));
    }
    *out = plan;
    plan = NULL;
done:
    plan_free(plan);
    return status;
}

static int32_t stages_of(const struct trial *trial)
{
    return trial->plan ? trial->plan->stages : (int32_t)(trial->degrees.pp ? trial->degrees.pp : 1);
}

static const struct trial *best_on_one_stage(const struct planned *planned)
{
    const struct trial *best = NULL;
    for (size_t i = 0; i < planned->trials.len; i++) {
        const struct trial *trial = &planned->trials.data[i];
        if (trial->fits && stages_of(trial) == 1 &&
            (!best || ns_per_sample(trial) < ns_per_sample(best)))
            best = trial;
    }
    return best;
}

/* I3 */
static bool may_branch(const struct plan_request *request)
{
    const struct degrees *pins = &request->pins;
    bool pinned = pins->dp || pins->tp || pins->pp || pins->cp || pins->ep || pins->pieces ||
                  pins->segments || pins->sequence || pins->schedule || pins->order ||
                  pins->layout || pins->offload || pins->offload_modules ||
                  pins->optimizer_offload > 0 || pins->optimizer == UPDATE_MUON;
    bool framework = request->target && !request->target->any;
    return !pinned && !framework && !request->cluster->pools && !request->options.quick &&
           !request->options.batch_auto && cluster_devices(request->cluster) <= MOST_DEVICES;
}

weft_status branch_out(struct join *join)
{
    const struct trial *best = join_best(join->out, NULL), *one = best_on_one_stage(join->out);
    struct plan *start[MOST_STARTS] = {0};
    weft_status status = WEFT_OK;
    if (!best || !may_branch(join->request) || join_over(join))
        return WEFT_OK;
    int64_t iteration_ns = best->iteration_ns;
    const char *from = best->found_by;
    TRY(join_plan_of(join, best, &start[0]));
    if (start[0]->instances > MOST_INSTANCES)
        goto done;
    if (one && one != best)
        TRY(join_plan_of(join, one, &start[1]));
    TRY(copied_plan(start[0], &start[2]));
    for (size_t i = 0; i < MOST_STARTS && !join_over(join); i++) {
        struct plan *plan = start[i];
        start[i] = NULL;
        if (plan)
            TRY(try_branches(join, plan, iteration_ns, from));
    }
done:
    for (size_t i = 0; i < MOST_STARTS; i++)
        plan_free(start[i]);
    return status;
}
