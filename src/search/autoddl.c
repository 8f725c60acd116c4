/* autoddl.c - the planner: splits of every operator, for every number of stages and of samples
 * together (AutoDDL, sections 4 and 5.4).
 *
 *   case    S stages of equal devices, b samples a step, recomputation or not: a layout_problem,
 *           solved by the search that was asked for
 *   trial   its answer as a plan, simulated; where that does not fit, the case is solved again with
 *           less memory to fill: limit * limit / peak                                          (1)
 *
 * How much of communication hides behind computation, a sum over operators cannot say; so each case is
 * solved with all of it left over and with less (EXPOSED), and the simulator says which was right.
 *
 *   I1  For each S, steps are tried from the whole batch down, halved; what cannot fit is skipped, and
 *       after GIVE_UP sizes in a row that were no faster the rest is left.
 *   I2  Recomputation only where nothing fits without.
 *   I3  Cases of one S depend on each other, those of different S do not: threads share out the S, and
 *       the answer is the same for any number of them.
 *   I4  A case whose operators alone take longer than the fastest trial of its S is left out.
 *   I5  On many nodes of several devices, splits have one dim per level (splits.h, I6); what is fastest of
 *       an S is then solved again with any dims within nodes.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "search/layout_problem.h"
#include "search/planner.h"

enum { GIVE_UP = 3, MOST_RETRIES = 4, MOST_THREADS = 64 };
/* I5: on more nodes than these splits are narrow, on both levels and then on the outer. */
enum { WIDE_NODES = 4, NARROW_BOTH = 2, NARROW_OUTER = 1 };
/* Of the memory that (1) leaves: what is simulated varies from plan to plan. */
static const double MARGIN = 0.99;

struct autoddl {
    const struct plan_request *request;
    struct planned *out;
    enum assign_search search;
    double deadline_s; /* 0: none */
    ARRAY(int32_t) stages;
    size_t next_stage; /* to be taken by a thread */
    struct progress progress;
    weft_status status;   /* of whichever thread failed first */
    pthread_mutex_t lock; /* of everything from `out` on that changes, and of simulations */
};

static bool over(const struct autoddl *a)
{
    return plan_stopped(a->request) || (a->deadline_s > 0 && wall_seconds() > a->deadline_s);
}

/* ---- words ----------------------------------------------------------------------------------- */

static const char *case_text(struct arena *keep, const struct layout_problem *p)
{
    const struct layout_case *about = &p->about;
    const char *text = arena_printf(keep, "steps of %lld", (long long)about->batch_per_step);
    if (about->stages > 1)
        text = arena_printf(keep, "pp %d, %s", about->stages, text);
    if (about->shard)
        text = arena_printf(keep, "%s, zero %d", text, about->shard);
    return about->recompute ? arena_printf(keep, "%s, recompute full", text) : text;
}

/* Splits of what has weights: "qkv batch:4 out:8 in:2", once per name and split. */
static const char *splits_text(struct arena *keep, const struct layout_problem *p,
                               const int32_t *option)
{
    enum { FEW_PARAMETERS = 10000 }; /* norms and biases are not worth a word */
    const struct model *model = p->about.model;
    const char *text = "";
    for (int32_t i = 0; i < model->ops; i++) {
        const struct op *op = &model->op[i];
        if (op_parameters(op) < FEW_PARAMETERS)
            continue;
        const char *one =
            arena_printf(keep, "%s %s", op->name, split_text(keep, &p->splits[i].data[option[i]]));
        if (!strstr(text, one))
            text = arena_printf(keep, "%s%s%s", text, *text ? ", " : "", one);
    }
    return text;
}

static void give_reasons(struct autoddl *a, const struct layout_problem *p,
                         const struct assigned *found)
{
    struct arena *keep = a->out->arena;
    const char *name = case_text(keep, p);
    array_push(keep, &a->out->reasons,
               arena_printf(keep, "%s: %s", name, splits_text(keep, p, found->option)));
    if (found->fits && found->bound > 0)
        array_push(keep, &a->out->reasons,
                   arena_printf(keep,
                                "%s: without overlap %.4g s; no splits that fit take less than "
                                "%.4g s",
                                name, found->time / 1e9, found->bound / 1e9));
}

/* ---- one case -------------------------------------------------------------------------------- */

/* Simulates and remembers a plan; *trial is a copy. */
static weft_status try_found(struct autoddl *a, struct cost *cost, const struct layout_problem *p,
                             const struct assigned *found, struct trial *trial)
{
    const struct trial *tried = NULL;
    struct plan *plan = NULL;
    weft_status status;
    TRY(layout_plan(p, found->option, &plan));
    plan->memory_limit_bytes = a->request->pins.memory_limit_bytes;
    if (a->request->pins.has_overlap)
        plan->overlap = a->request->pins.overlap;
    if (a->request->pins.has_bucket)
        plan->bucket_bytes = a->request->pins.bucket_bytes;
    plan->whole_sends = a->request->pins.whole_sends;
    pthread_mutex_lock(&a->lock);
    status = try_plan(a->request, cost, plan, case_text(a->out->arena, p), a->out, &tried);
    if (!status) {
        struct progress *progress = &a->progress;
        *trial = *tried;
        progress->trials++;
        progress->candidates = a->out->candidates += found->tried;
        if (trial->fits && (!progress->best_ns || trial->iteration_ns < progress->best_ns)) {
            progress->best_ns = trial->iteration_ns;
            a->out->reasons.len = 0;
            give_reasons(a, p, found);
        }
        if (a->request->progress)
            a->request->progress(a->request->context, progress);
    }
    pthread_mutex_unlock(&a->lock);
done:
    return status;
}

static const struct layout_exposed EXPOSED[] = {{1, 1}, {0.5, 1}, {0.25, 0.5}, {0.25, 0.25}};

/* What a case was answered with so far. */
struct answers {
    int32_t **data;
    size_t len, cap;
};

static bool is_known(const struct layout_problem *p, const struct answers *before,
                     const struct assigned *found)
{
    size_t bytes = sizeof *found->option * (size_t)p->assign->variables;
    for (size_t i = 0; i < before->len; i++)
        if (memcmp(before->data[i], found->option, bytes) == 0)
            return true;
    return false;
}

/* (1) for one guess of what overlaps. */
static weft_status solve_exposed(struct autoddl *a, struct layout_problem *p,
                                 struct layout_exposed exposed, struct answers *before,
                                 struct trial *best)
{
    struct assign_options options = {
        .search = a->search, .seed = (uint64_t)a->request->options.seed, .stop = a->request->stop};
    bool again = true;
    weft_status status = WEFT_OK;
    layout_expose(p, exposed);
    p->assign->limit = p->about.limit_bytes;
    for (int i = 0; again && i < MOST_RETRIES && !(i && over(a)); i++) {
        struct assigned found;
        struct trial trial = {0};
        assign_solve(p->assign, &options, p->arena, &found);
        TRY(layout_problem_status(p));
        if (is_known(p, before, &found))
            break;
        array_push(p->arena, before, found.option);
        TRY(try_found(a, p->about.cost, p, &found, &trial));
        again = !trial.fits && found.fits;
        p->assign->limit *= MARGIN * (double)trial.limit_bytes / (double)trial.peak_bytes;
        if (trial.fits && (!best->iteration_ns || trial.iteration_ns < best->iteration_ns))
            *best = trial;
    }
done:
    return status;
}

/* *best is the fastest trial that fits, or iteration_ns 0. */
static weft_status solve_case(struct autoddl *a, const struct layout_case *about,
                              int64_t fastest_ns, struct trial *best)
{
    const struct degrees *pins = &a->request->pins;
    bool hides = !pins->has_overlap || pins->overlap & (OVERLAP_GRADIENTS | OVERLAP_TENSOR);
    struct layout_problem *p = NULL;
    struct answers before = {0};
    weft_status status;
    *best = (struct trial){0};
    TRY(layout_problem_new(about, &p));
    if (fastest_ns && layout_least_time(p) >= (double)fastest_ns)
        goto done; /* I4 */
    for (size_t i = 0; i < (hides ? COUNT_OF(EXPOSED) : 1) && !(i && over(a)); i++) {
        TRY(solve_exposed(a, p, EXPOSED[i], &before, best));
        if (!best->iteration_ns)
            break; /* what does not fit does not for any guess */
    }
done:
    layout_problem_free(p);
    return status;
}

/* Whether the state of all weights is more than all devices hold. */
static bool hopeless(const struct layout_case *about)
{
    double bytes = 0;
    for (int32_t i = 0; i < about->model->ops; i++) {
        const struct op *op = &about->model->op[i];
        struct op_memory memory =
            op_memory(about->model, op, op->size, about->dtype, about->policy, 1);
        bytes += (double)op_copies(about->model, op) *
                 (memory.weights + memory.gradients + memory.optimizer);
    }
    return bytes > about->limit_bytes * (double)cluster_devices(about->cluster);
}

/* I2 */
static weft_status try_step(struct autoddl *a, struct layout_case about, int64_t fastest_ns,
                            struct trial *best)
{
    const struct degrees *pins = &a->request->pins;
    weft_status status = WEFT_OK;
    bool both = !pins->has_recompute;
    for (int r = 0; r < 2; r++) {
        bool recompute = r == 1;
        if (!both && recompute != (pins->recompute != RECOMPUTE_NONE))
            continue;
        about.recompute = recompute;
        TRY(solve_case(a, &about, fastest_ns, best));
        if (best->iteration_ns || over(a))
            break;
    }
done:
    return status;
}

/* I1, I5 */
static weft_status try_stages(struct autoddl *a, struct layout_case about)
{
    int64_t fastest = 0, fastest_step = 0;
    int worse = 0;
    weft_status status = WEFT_OK;
    for (int64_t steps = 1; steps <= about.global_batch && worse < GIVE_UP; steps *= 2) {
        struct trial best;
        if (about.global_batch % steps || steps < about.stages || (steps > 1 && over(a)))
            continue;
        about.batch_per_step = about.global_batch / steps;
        TRY(try_step(a, about, fastest, &best));
        bool faster = best.iteration_ns && (!fastest || best.iteration_ns < fastest);
        worse = faster || !fastest ? 0 : worse + 1;
        fastest = faster ? best.iteration_ns : fastest;
        fastest_step = faster ? about.batch_per_step : fastest_step;
    }
    if (fastest && about.narrow == NARROW_BOTH && !over(a)) {
        struct trial best;
        about.batch_per_step = fastest_step;
        about.narrow = NARROW_OUTER;
        TRY(try_step(a, about, fastest, &best));
    }
done:
    return status;
}

/* ---- threads (I3) ---------------------------------------------------------------------------- */

static struct layout_case case_of(const struct autoddl *a, struct cost *cost,
                                  struct reshards *reshards, int32_t stages)
{
    const struct degrees *pins = &a->request->pins;
    const struct model *model = a->request->model;
    const struct device *device = &a->request->cluster->node.device;
    enum dtype dtype = pins->has_dtype ? pins->dtype : model->dtype;
    bool fp32 = dtype == DTYPE_FP32 || dtype == DTYPE_TF32;
    int64_t within = a->request->cluster->node.devices;
    bool many = cluster_devices(a->request->cluster) / stages > WIDE_NODES * within;
    int64_t limit = pins->memory_limit_bytes ? pins->memory_limit_bytes
                                             : device->memory_bytes - device->context_bytes;
    return (struct layout_case){
        .model = model,
        .cluster = a->request->cluster,
        .cost = cost,
        .reshards = reshards,
        .dtype = dtype,
        .policy = pins->has_policy ? pins->policy
                  : fp32           ? POLICY_FP32
                                   : POLICY_MIXED,
        .global_batch = pins->global_batch,
        .stages = stages,
        .shard = (uint8_t)pins->shard,
        .narrow = many && within > 1 ? NARROW_BOTH : 0,
        .limit_bytes = (double)limit,
    };
}

static bool take_stages(struct autoddl *a, int32_t *stages)
{
    pthread_mutex_lock(&a->lock);
    bool some = a->next_stage < a->stages.len && !a->status && !(a->next_stage && over(a));
    if (some)
        *stages = a->stages.data[a->next_stage++];
    pthread_mutex_unlock(&a->lock);
    return some;
}

static void *work(void *context)
{
    struct autoddl *a = context;
    struct cost *cost = NULL;
    struct reshards *reshards = reshards_new();
    int32_t stages;
    weft_status status;
    TRY(cost_open(&a->request->cluster->node.device, a->request->profile, &cost));
    while (take_stages(a, &stages)) {
        struct layout_case about = case_of(a, cost, reshards, stages);
        if (stages == 1 || !hopeless(&about))
            TRY(try_stages(a, about));
        pthread_mutex_lock(&a->lock);
        a->progress.done++;
        pthread_mutex_unlock(&a->lock);
    }
done:
    reshards_free(reshards);
    cost_close(cost);
    pthread_mutex_lock(&a->lock);
    a->status = a->status ? a->status : status;
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

static void work_in_threads(struct autoddl *a)
{
    pthread_t thread[MOST_THREADS];
    int64_t asked = a->request->options.threads, started = 0;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    int64_t threads = asked ? asked : processors > 0 ? processors : 1;
    threads = threads < (int64_t)a->stages.len ? threads : (int64_t)a->stages.len;
    threads = threads < MOST_THREADS ? threads : MOST_THREADS;
    while (started < threads - 1 && pthread_create(&thread[started], NULL, work, a) == 0)
        started++;
    work(a);
    for (int64_t i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
}

/* ---- the planner ----------------------------------------------------------------------------- */

static weft_status check_request(const struct plan_request *request, enum assign_search *search)
{
    const struct degrees *pins = &request->pins;
    if (pins->dp || pins->tp || pins->cp || pins->ep || pins->pieces > 1 || pins->segments > 1 ||
        pins->micro_batch)
        return bad_argument("leave them out, or use --planner megatron",
                            "the planner 'autoddl' splits every operator by itself: of degrees it "
                            "takes --pp only");
    *search = SEARCH_CD;
    if (request->options.search && !assign_search_from_name(request->options.search, search))
        return bad_argument("cd is the default; exact is the optimum of the same space",
                            "no search is called '%s', expected cd, mh, random, exhaustive or "
                            "exact",
                            request->options.search);
    return WEFT_OK;
}

/* Stages of equally many devices; more than one only of layers. */
static void list_stages(struct autoddl *a)
{
    int64_t devices = cluster_devices(a->request->cluster), pin = a->request->pins.pp;
    for (int64_t s = 1; s <= devices; s++)
        if (devices % s == 0 && (pin ? s == pin : s == 1 || s <= a->request->model->layers))
            array_push(a->out->arena, &a->stages, (int32_t)s);
    a->progress.all = (int64_t)a->stages.len;
}

weft_status autoddl_find(const struct plan_request *request, struct planned *out)
{
    struct autoddl a = {.request = request,
                        .out = out,
                        .progress = {.what = "numbers of stages"},
                        .lock = PTHREAD_MUTEX_INITIALIZER};
    weft_status status;
    TRY(check_request(request, &a.search));
    if (request->options.budget_ns)
        a.deadline_s = wall_seconds() + (double)request->options.budget_ns / 1e9;
    list_stages(&a);
    work_in_threads(&a);
    status = a.status;
    out->stopped = plan_stopped(request);
done:
    return status;
}
