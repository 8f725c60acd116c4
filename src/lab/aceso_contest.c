/* aceso_contest.c - Aceso's Tables 3 to 5: both plans of every cell are searched again and simulated.
 *
 * Both systems ran on one runtime (section 5.1), and so do both here: the schedule is 1f1b, nothing overlaps,
 * gradients are synchronised at the end, tensors are sent whole, split convolutions return whole images, and
 * there is no sequence parallelism and no sharding. The machine is the one whose collectives the authors
 * measured.
 *
 *   I1  FLOPs are counted as the tables count them (appendix A). For GPT-3 and Wide-ResNet that is Alpa's
 *       counter, which is XLA's: it counts only the products of a convolution inside the image. For the two
 *       runs of Wide-ResNet whose times are public (71.28 and 53.15 s) it gives the printed TFLOP/s to 0.04 %.
 *   I2  On one device all systems ran the same plan (section 5.1; single_gpu_configs/ of the artifact).
 *   I3  Both sides have 28,000 MB by the authors' count (contest_memory.c), which is 1.1 to 1.9 times Weft's count.
 *   I4  The search may recompute what the authors' plans recompute. It runs to its end for every number of
 *       stages (section 5.1: one process for each) from each of the paper's initial plans (Exp#7).
 */
#include "exchange/exchange.h"
#include "lab/aceso_contest.h"

#include <string.h>

#include "lab/contest_claims.h"
#include "lab/published_read.h"

static const char RIVAL_PLANNER[] = "aceso";

static const char *const RIVAL_NAMES[] = {
    [RIVAL_RUN] = "Megatron-LM", [RIVAL_SEARCH] = "Aceso", [RIVAL_GRID] = "its grid"};
_Static_assert(COUNT_OF(RIVAL_NAMES) == RIVAL_COUNT, "a rival without a name");

const char *rival_name(enum rival rival)
{
    return RIVAL_NAMES[rival];
}

/* ---- TFLOP/s, as the table counts them (I1) -------------------------------------------------- */

/* How many places of a window along one side lie inside the image, over all its positions. */
static double inside(int64_t in, int64_t out, int64_t window, int64_t stride)
{
    int64_t beyond = (out - 1) * stride + window - in, before = beyond > 0 ? (beyond + 1) / 2 : 0;
    int64_t count = 0;
    for (int64_t o = 0; o < out; o++)
        for (int64_t k = 0; k < window; k++) {
            int64_t at = o * stride + k - before;
            count += at >= 0 && at < in;
        }
    return (double)count / (double)(out * window);
}

static double counted_flops(const struct plan *plan, const struct op *op)
{
    const struct model *model = plan->model;
    double share = 1, flops = 0;
    if (op->kind == OP_CONV) {
        const struct tensor *in = &model->tensor[op->input[0].tensor];
        const struct tensor *out = &model->tensor[op->output.tensor];
        share = inside(in->size[2], out->size[2], op->kernel[0], op->stride[0]) *
                inside(in->size[3], out->size[3], op->kernel[1], op->stride[1]);
    }
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        flops += op_work(op, op->size, plan->dtype, (enum phase)phase).flops;
    return share * flops;
}

double contest_flops(const struct plan *plan)
{
    double flops = 0;
    for (int64_t i = 0; i < plan->instances; i++)
        flops += counted_flops(plan, &plan->model->op[plan->instance[i].op]);
    return flops * (double)plan->global_batch;
}

static double tflops_of(const struct plan *plan, double iteration_s)
{
    return contest_flops(plan) / (double)cluster_devices(plan->cluster) / iteration_s * 1e-12;
}

static weft_status simulated_s(const struct plan *plan, double *iteration_s)
{
    struct simulate_options options = {.fold = FOLD_ALWAYS};
    struct prediction *prediction;
    weft_status status = simulate(plan, &options, &prediction);
    if (status)
        return status;
    *iteration_s = (double)prediction->iteration_ns * 1e-9;
    prediction_free(prediction);
    return WEFT_OK;
}

static weft_status rate(const struct plan *plan, double *tflops)
{
    double iteration_s;
    weft_status status;
    TRY(simulated_s(plan, &iteration_s));
    *tflops = tflops_of(plan, iteration_s);
done:
    return status;
}

/* ---- one model on one number of devices ------------------------------------------------------ */

/* Predicts the plan of a point of the grid, which may be NULL, and frees it. */
static weft_status predict_point(struct plan *plan, double *tflops)
{
    weft_status status = plan ? rate(plan, tflops) : WEFT_OK;
    plan_free(plan);
    return status;
}

static weft_status predict_run(struct arena *keep, const struct contest_family *family,
                               const struct plan_request *request, struct contest *contest)
{
    struct plan *plan;
    weft_status status;
    TRY(contest_run_plan(keep, family, request, &plan, &contest->plan[RIVAL_RUN]));
    contest->run_stages = plan ? plan->stages : 0;
    TRY(predict_point(plan, &contest->predicted[RIVAL_RUN]));
done:
    return status;
}

static weft_status predict_grid(struct arena *keep, const struct contest_family *family,
                                const struct plan_request *request, struct contest *contest)
{
    struct plan *plan;
    weft_status status;
    TRY(contest_grid_plan(keep, family, request, &plan, &contest->plan[RIVAL_GRID]));
    TRY(predict_point(plan, &contest->predicted[RIVAL_GRID]));
done:
    return status;
}

static bool is_faster(const struct planned *a, const struct planned *b)
{
    const struct trial *x = a->trials.data, *y = b->trials.data;
    return x->fits != y->fits ? x->fits : x->iteration_ns < y->iteration_ns;
}

/* The best plan from all initial plans (I4). */
static weft_status search_from_all(struct plan_request request, struct planned **out)
{
    static const char *const BEGINNINGS[] = {"balanced", "imbalanced-op", "imbalanced-device"};
    weft_status status = WEFT_OK;
    *out = NULL;
    for (size_t i = 0; i < COUNT_OF(BEGINNINGS); i++) {
        struct planned *found;
        request.options.initial = BEGINNINGS[i];
        TRY(plan_search(planner_find(RIVAL_PLANNER), &request, &found));
        bool better = !*out || is_faster(found, *out);
        planned_free(better ? *out : found);
        *out = better ? found : *out;
    }
done:
    return status;
}

static weft_status predict_search(struct arena *keep, const struct plan_request *request,
                                  struct contest *contest)
{
    struct planned *planned;
    weft_status status;
    TRY(search_from_all(*request, &planned));
    const struct trial *best = planned->trials.data;
    contest->plan[RIVAL_SEARCH] = best->fits ? arena_copy_text(keep, best->text) : "nothing fits";
    contest->predicted[RIVAL_SEARCH] =
        best->fits ? tflops_of(best->plan, (double)best->iteration_ns * 1e-9) : 0;
    if (best->fits) {
        contest->found_s = (double)best->iteration_ns * 1e-9;
        contest_describe(keep, best->plan, contest);
    }
done:
    planned_free(planned);
    return status;
}

/* The first of a model's plans in the file is the one that the authors' program chooses. */
static weft_status predict_authors_one(const struct plan_request *request,
                                       const struct author_plan *found, struct contest *contest)
{
    struct plan *plan = NULL;
    int64_t bytes[AUTHOR_STAGES];
    double iteration_s;
    weft_status status;
    TRY(author_plan_make(found, request, &plan));
    TRY(simulated_s(plan, &iteration_s));
    if (contest->authors_least_s <= 0 || iteration_s < contest->authors_least_s)
        contest->authors_least_s = iteration_s;
    if (contest->author_plan)
        goto done;
    contest->author_plan = found;
    contest->authors_s = iteration_s;
    count_plan(aceso_study_of(request)->count, plan, bytes);
    for (int32_t s = 0; s < plan->stages; s++)
        contest->authors_bytes =
            bytes[s] > contest->authors_bytes ? bytes[s] : contest->authors_bytes;
done:
    plan_free(plan);
    return status;
}

weft_status contest_predict_authors(struct arena *keep, const struct plan_request *request,
                                    struct contest *contest)
{
    struct author_plans plans = {0};
    weft_status status;
    TRY(author_plans_read(keep, &plans));
    for (size_t i = 0; i < plans.len; i++)
        if (strcmp(plans.data[i].model, contest->model) == 0 &&
            plans.data[i].devices == contest->devices)
            TRY(predict_authors_one(request, &plans.data[i], contest));
done:
    return status;
}

static struct degrees pins_of(const struct contest_family *family, int64_t devices)
{
    struct degrees pins = aceso_settings(family->batch);
    pins.memory.limit_bytes = family->facts->limit_bytes;
    if (devices > 1)
        return pins;
    pins.dp = pins.tp = pins.pp = 1; /* I2 */
    pins.micro_batch = family->one_device;
    pins.recompute = RECOMPUTE_FULL;
    pins.has_recompute = true;
    return pins;
}

static weft_status open_setup(struct arena *keep, const struct contest_family *family,
                              const char *model, int64_t devices, struct contest_setup *out)
{
    const struct contest_facts *facts = family->facts;
    weft_status status;
    *out = (struct contest_setup){
        .family = family,
        .study = {.every_stages = true}, /* I4 */
        .request = {.pins = pins_of(family, devices), .options = {.space = "artifact"}}};
    TRY(model_open(model, NULL, &out->model));
    TRY(cluster_open(cluster_text(keep, facts->cluster, facts->devices_per_node, devices),
                     &out->cluster));
    out->request.model = out->model;
    out->request.cluster = out->cluster;
    out->request.aceso_study = &out->study;
done:
    return status;
}

/* By I3. */
static weft_status count_as_authors(struct arena *keep, struct contest_setup *setup)
{
    const struct contest_family *family = setup->family;
    struct footprints *prints;
    weft_status status;
    TRY(footprints_new(keep, setup->model, setup->cluster, &prints));
    setup->count = footprints_count(prints);
    setup->study.count = &setup->count;
    setup->study.least_micro_batch = family->step[0];
    setup->study.most_step = family->step[family->steps - 1];
done:
    return status;
}

weft_status contest_set_up(struct arena *keep, const char *family, const char *model,
                           int64_t devices, struct contest_setup *out)
{
    const struct contest_facts *facts;
    weft_status status;
    *out = (struct contest_setup){0};
    TRY(contest_facts_open(keep, &facts));
    const struct contest_family *found = contest_family_find(facts, family);
    if (!found)
        return bad_argument(NULL, "no family of Aceso's tables is called '%.100s'", family);
    TRY(open_setup(keep, found, model, devices, out));
    if (devices > 1)
        TRY(count_as_authors(keep, out));
done:
    if (status)
        contest_take_down(out);
    return status;
}

void contest_take_down(struct contest_setup *setup)
{
    cluster_free(setup->cluster);
    model_free(setup->model);
    setup->cluster = NULL;
    setup->model = NULL;
}

static weft_status predict_all(struct arena *keep, const struct contest_family *family,
                               const struct plan_request *request, struct contest *contest)
{
    weft_status status = WEFT_OK;
    for (int rival = RIVAL_SEARCH; rival < RIVAL_COUNT; rival++) { /* I2 */
        contest->predicted[rival] = contest->predicted[RIVAL_RUN];
        contest->plan[rival] = contest->plan[RIVAL_RUN];
    }
    if (contest->devices == 1)
        return WEFT_OK;
    TRY(predict_search(keep, request, contest));
    TRY(predict_grid(keep, family, request, contest));
    TRY(contest_predict_authors(keep, request, contest));
done:
    return status;
}

weft_status contest_predict_run(struct arena *keep, struct contest *contest)
{
    struct contest_setup setup;
    weft_status status;
    TRY(contest_set_up(keep, contest->family, contest->model, contest->devices, &setup));
    status = predict_run(keep, setup.family, &setup.request, contest);
    contest_take_down(&setup);
done:
    return status;
}

weft_status contest_predict(struct arena *keep, struct contest *contest)
{
    struct contest_setup setup;
    weft_status status;
    TRY(contest_predict_run(keep, contest));
    TRY(contest_set_up(keep, contest->family, contest->model, contest->devices, &setup));
    status = predict_all(keep, setup.family, &setup.request, contest);
    contest_take_down(&setup);
done:
    return status;
}

/* ---- reading --------------------------------------------------------------------------------- */

enum contest_column {
    COLUMN_MODEL,
    COLUMN_PARAMS,
    COLUMN_DEVICES,
    COLUMN_SYSTEM,
    COLUMN_TFLOPS,
    COLUMNS
};
static const char *const COLUMN_NAMES[] = {"model", "params_b", "devices", "system",
                                           "tflops_per_device"};
_Static_assert(COUNT_OF(COLUMN_NAMES) == COLUMNS, "a column without a name");

struct contest_reading {
    struct arena *keep;
    struct contests *out;
};

static const char *model_of(const struct contest_facts *facts, const char *family,
                            const char *billions)
{
    const struct contest_family *found = contest_family_find(facts, family);
    const struct contest_model *model = found ? contest_model_of(found, billions, NULL) : NULL;
    return model ? model->name : NULL;
}

/* The contest of this model; its first row creates it. */
static struct contest *contest_of(struct contest_reading *reading, const char *family,
                                  const char *model)
{
    for (size_t i = 0; i < reading->out->len; i++)
        if (strcmp(reading->out->data[i].model, model) == 0)
            return &reading->out->data[i];
    struct contest contest = {.family = arena_copy_text(reading->keep, family), .model = model};
    array_push(reading->keep, reading->out, contest);
    return &reading->out->data[reading->out->len - 1];
}

/* Rows of other systems (Alpa) are ignored. */
static weft_status take_row(void *context, const struct csv *csv, const int *at)
{
    struct contest_reading *reading = context;
    const char *family = csv->field[at[COLUMN_MODEL]], *system = csv->field[at[COLUMN_SYSTEM]];
    const char *model = model_of(reading->out->facts, family, csv->field[at[COLUMN_PARAMS]]);
    int64_t devices;
    double tflops;
    weft_status status;
    if (!model)
        return csv_error(csv, at[COLUMN_PARAMS], NULL, "a model of Aceso's Tables 3 to 5");
    TRY(csv_int(csv, at[COLUMN_DEVICES], 1, &devices));
    TRY(csv_real(csv, at[COLUMN_TFLOPS], REAL_POSITIVE, &tflops));
    for (int rival = 0; rival < RIVAL_COUNT; rival++) {
        if (strcmp(system, RIVAL_NAMES[rival]) != 0)
            continue;
        struct contest *contest = contest_of(reading, family, model);
        contest->devices = devices;
        contest->measured[rival] = tflops;
    }
done:
    return status;
}

weft_status contests_parse(struct arena *keep, const char *file, char *text, size_t len,
                           struct contests *out)
{
    struct contest_reading reading = {keep, out};
    struct csv csv;
    weft_status status;
    TRY(contest_facts_open(keep, &out->facts));
    TRY(csv_open(&csv, file, text, len));
    TRY(csv_read(&csv, COLUMN_NAMES, COLUMNS, take_row, &reading));
done:
    return status;
}

weft_status contests_read(struct arena *keep, const struct search_table *table,
                          struct contests *out)
{
    char *path, *text;
    size_t len;
    weft_status status;
    TRY(published_file(keep, table->name, &path, &text, &len));
    TRY(contests_parse(keep, path, text, len, out));
done:
    return status;
}
