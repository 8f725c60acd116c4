/* fold_back.c - turns what a run measured into times of the kernels that it ran.
 *
 * A run records tasks; a task is several operators one after the other. With p(k, t) the predicted time of
 * kernel k in task t, and T(t) the median of the measured times of task t over the steps, the new time of
 * kernel k is its old time multiplied by
 *
 *   sum over t of T(t) p(k, t) / sum_j p(j, t)   divided by   sum over t of p(k, t)               (1)
 *
 * This assumes that in a task that took longer than predicted, all kernels took longer by the same factor. A
 * prediction with the new times is right about the sum of all tasks, whatever the error of each kernel was.
 *
 *   I1  Only computation is folded back. How long transfers take stands in the cluster file (`weft profile
 *       measure --collectives -o`).
 */
#include "report/report.h"

#include <string.h>

struct folded {
    struct profile_key key;
    struct work work;
    double ns;                        /* predicted time of one execution */
    double measured_ns, predicted_ns; /* over all tasks: the two sums of (1) */
};
struct kernel_folding {
    struct arena *scratch;
    const struct prediction *prediction;
    struct cost *cost;
    ARRAY(struct folded) kernels;
};

static struct folded *kernel_of(struct kernel_folding *f, const struct work *work)
{
    struct profile_key key;
    if (!profile_key_of(work, 0, &key))
        return NULL;
    for (size_t i = 0; i < f->kernels.len; i++)
        if (memcmp(&f->kernels.data[i].key, &key, sizeof key) == 0)
            return &f->kernels.data[i];
    struct folded one = {.key = key, .work = *work};
    one.ns = (double)cost_on_device(f->cost, work).ns;
    array_push(f->scratch, &f->kernels, one);
    return &f->kernels.data[f->kernels.len - 1];
}

/* The kernels of one item, or of the optimizer's step; returns how many there are. */
static int works_of(const struct kernel_folding *f, const struct task *task, int32_t i,
                    struct work out[MAX_ITEM_WORKS])
{
    const struct plan *plan = f->prediction->plan;
    if (task->block < 0) {
        out[0] = optimizer_work(task->parameters, plan->dtype, plan->policy, plan->optimizer,
                                software_word(&plan->software, FACT_OPTIMIZER_STEP));
        return 1;
    }
    const struct item *item = &f->prediction->graph->block[task->block].item[task->first_item + i];
    return item_runs(item) ? item_works(plan, item->instance, (enum phase)item->phase, out) : 0;
}

static int32_t items_of(const struct task *task)
{
    if (task->block >= 0)
        return task->idle ? 0 : task->items;
    return task->parameters > 0;
}

static double predicted_ns(struct kernel_folding *f, const struct task *task)
{
    struct work work[MAX_ITEM_WORKS];
    double sum = 0;
    for (int32_t i = 0; i < items_of(task); i++)
        for (int w = works_of(f, task, i, work) - 1; w >= 0; w--) {
            const struct folded *kernel = kernel_of(f, &work[w]);
            sum += kernel ? kernel->ns : 0;
        }
    return sum;
}

static void fold_task(struct kernel_folding *f, const struct task *task, double measured_ns)
{
    struct work work[MAX_ITEM_WORKS];
    double all_ns = predicted_ns(f, task);
    for (int32_t i = 0; all_ns > 0 && i < items_of(task); i++)
        for (int w = works_of(f, task, i, work) - 1; w >= 0; w--) {
            struct folded *kernel = kernel_of(f, &work[w]);
            if (!kernel)
                continue;
            kernel->predicted_ns += kernel->ns;
            kernel->measured_ns += measured_ns * kernel->ns / all_ns; /* (1) */
        }
}

static weft_status store(const struct kernel_folding *f, const struct overlay *overlay,
                         const char *db, int64_t *kernels)
{
    const struct plan *plan = f->prediction->plan;
    struct profile *profile = NULL;
    weft_status status;
    TRY(profile_create(db, &profile));
    for (size_t i = 0; i < f->kernels.len; i++) {
        const struct folded *kernel = &f->kernels.data[i];
        if (kernel->predicted_ns <= 0 || kernel->measured_ns <= 0)
            continue;
        struct measurement m = {.device = plan->cluster->node.device.name,
                                .work = kernel->work,
                                .whole_backward = kernel->key.phase == PHASE_WHOLE_BACKWARD,
                                .ns = kernel->ns * kernel->measured_ns / kernel->predicted_ns,
                                .samples = overlay->steps,
                                .source = "folded back from runs"};
        TRY(profile_add(profile, &m));
        ++*kernels;
    }
    TRY(profile_commit(profile));
done:
    profile_close(profile);
    return status;
}

weft_status overlay_fold_back(const struct overlay *overlay, const struct prediction *prediction,
                              const char *profile, const char *db, int64_t *kernels)
{
    struct kernel_folding f = {.scratch = arena_new(), .prediction = prediction};
    const struct graph *graph = prediction->graph;
    weft_status status;
    *kernels = 0;
    TRY(cluster_refuse_pools(prediction->plan->cluster, "what a run says about kernels"));
    TRY(cost_open(&prediction->plan->cluster->node.device, profile, &f.cost));
    for (int32_t i = 0; i < graph->tasks; i++)
        if (graph->task[i].stream == STREAM_COMPUTE && overlay->task_s[i] > 0)
            fold_task(&f, &graph->task[i], overlay->task_s[i] * 1e9);
    TRY(store(&f, overlay, db, kernels));
done:
    cost_close(f.cost);
    arena_free(f.scratch);
    return status;
}
