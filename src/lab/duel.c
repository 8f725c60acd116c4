/* duel.c - Aceso's Tables 3 to 5, both plans of every cell found anew and simulated.
 *
 * Both systems ran on one runtime (section 5.1), and so do both here: 1f1b, nothing overlaps, gradients
 * are synchronised at the end, tensors are sent whole, split convolutions give back whole images, no
 * sequence parallelism, no sharding. The machine is the one whose collectives the
 * authors measured.
 *
 *   I1  FLOPs are counted as the tables count them (appendix A). Of GPT-3 and Wide-ResNet that is Alpa's
 *       counter, which is XLA's: of a convolution the products inside the image only. Of the two runs of
 *       Wide-ResNet whose times are public (71.28 and 53.15 s) it gives the printed TFLOP/s to 0.04 %.
 *   I2  On one device all systems ran the same plan (section 5.1; single_gpu_configs/ of the artifact).
 *   I3  Both sides have 28,000 MB by the authors' count (duel_memory.c), which is 1.1 to 1.9 times what Weft
 *       counts.
 *   I4  The search may recompute what the authors' plans do, and goes to its end with every number of stages
 *       (section 5.1: one process for each) from each of the paper's beginnings (Exp#7).
 */
#include "exchange/exchange.h"
#include "lab/duel.h"

#include <string.h>

#include "lab/duel_traits.h"
#include "lab/published_read.h"
#include "lab/searched.h"

enum { DEVICES_PER_NODE = 8 };
static const char MACHINE[] = "aceso-v100", RIVAL_PLANNER[] = "aceso";
static const int64_t LIMIT_BYTES = INT64_C(28000) << 20; /* scripts/: 28,000 MB */

static const char *const RIVAL_NAMES[] = {
    [RIVAL_RUN] = "Megatron-LM", [RIVAL_SEARCH] = "Aceso", [RIVAL_GRID] = "its grid"};
_Static_assert(COUNT_OF(RIVAL_NAMES) == RIVAL_COUNT, "a rival without a name");

const char *rival_name(enum rival rival)
{
    return RIVAL_NAMES[rival];
}

/* Tables 3 to 5, by billions of parameters. */
static const struct {
    const char *family, *params, *model;
} MODELS[] = {
    {"GPT-3", "0.35", "gpt3-350m"},
    {"GPT-3", "1.3", "gpt3-1.3b"},
    {"GPT-3", "2.6", "gpt3-2.6b"},
    {"GPT-3", "6.7", "gpt3-6.7b"},
    {"GPT-3", "13", "gpt3-13b"},
    {"Wide-ResNet", "0.5", "wresnet-500m"},
    {"Wide-ResNet", "2", "wresnet-2b"},
    {"Wide-ResNet", "4", "wresnet-4b"},
    {"Wide-ResNet", "6.8", "wresnet-6.8b"},
    {"Wide-ResNet", "13", "wresnet-13b"},
    {"T5", "0.77", "t5-770m"},
    {"T5", "3", "t5-3b"},
    {"T5", "6", "t5-6b"},
    {"T5", "11", "t5-11b"},
    {"T5", "22", "t5-22b"},
};

/* ---- TFLOP/s, as the table counts them (I1) -------------------------------------------------- */

/* Of a window's places along one side, those inside the image. */
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

double duel_flops(const struct plan *plan)
{
    double flops = 0;
    for (int64_t i = 0; i < plan->instances; i++)
        flops += counted_flops(plan, &plan->model->op[plan->instance[i].op]);
    return flops * (double)plan->global_batch;
}

static double tflops_of(const struct plan *plan, double iteration_s)
{
    return duel_flops(plan) / (double)cluster_devices(plan->cluster) / iteration_s * 1e-12;
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

/* Of a point of the grid, or none; takes it over. */
static weft_status predict_point(struct plan *plan, double *tflops)
{
    weft_status status = plan ? rate(plan, tflops) : WEFT_OK;
    plan_free(plan);
    return status;
}

static weft_status predict_run(struct arena *keep, const struct contest *contest,
                               const struct plan_request *request, struct duel *duel)
{
    struct plan *plan;
    weft_status status;
    TRY(contest_run(keep, contest, request, &plan, &duel->plan[RIVAL_RUN]));
    duel->run_stages = plan ? plan->stages : 0;
    TRY(predict_point(plan, &duel->predicted[RIVAL_RUN]));
done:
    return status;
}

static weft_status predict_grid(struct arena *keep, const struct contest *contest,
                                const struct plan_request *request, struct duel *duel)
{
    struct plan *plan;
    weft_status status;
    TRY(contest_grid(keep, contest, request, &plan, &duel->plan[RIVAL_GRID]));
    TRY(predict_point(plan, &duel->predicted[RIVAL_GRID]));
done:
    return status;
}

static bool is_faster(const struct planned *a, const struct planned *b)
{
    const struct trial *x = a->trials.data, *y = b->trials.data;
    return x->fits != y->fits ? x->fits : x->iteration_ns < y->iteration_ns;
}

/* I4: the best from all beginnings. */
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
                                  struct duel *duel)
{
    struct planned *planned;
    weft_status status;
    TRY(search_from_all(*request, &planned));
    const struct trial *best = planned->trials.data;
    duel->plan[RIVAL_SEARCH] = best->fits ? arena_copy_text(keep, best->text) : "nothing fits";
    duel->predicted[RIVAL_SEARCH] =
        best->fits ? tflops_of(best->plan, (double)best->iteration_ns * 1e-9) : 0;
    if (best->fits) {
        duel->found_s = (double)best->iteration_ns * 1e-9;
        duel_describe(keep, best->plan, duel);
    }
done:
    planned_free(planned);
    return status;
}

/* The first that is kept of a model is the one that the authors' program takes. */
static weft_status predict_theirs_one(const struct plan_request *request,
                                      const struct their_plan *theirs, struct duel *duel)
{
    struct plan *plan = NULL;
    int64_t bytes[THEIR_STAGES];
    double iteration_s;
    weft_status status;
    TRY(theirs_plan(theirs, request, &plan));
    TRY(simulated_s(plan, &iteration_s));
    if (duel->theirs_least_s <= 0 || iteration_s < duel->theirs_least_s)
        duel->theirs_least_s = iteration_s;
    if (duel->theirs)
        goto done;
    duel->theirs = theirs;
    duel->theirs_s = iteration_s;
    count_plan(aceso_study_of(request)->count, plan, bytes);
    for (int32_t s = 0; s < plan->stages; s++)
        duel->theirs_bytes = bytes[s] > duel->theirs_bytes ? bytes[s] : duel->theirs_bytes;
done:
    plan_free(plan);
    return status;
}

weft_status duel_predict_theirs(struct arena *keep, const struct plan_request *request,
                                struct duel *duel)
{
    struct their_plans plans = {0};
    weft_status status;
    TRY(theirs_read(keep, &plans));
    for (size_t i = 0; i < plans.len; i++)
        if (strcmp(plans.data[i].model, duel->model) == 0 && plans.data[i].devices == duel->devices)
            TRY(predict_theirs_one(request, &plans.data[i], duel));
done:
    return status;
}

static struct degrees pins_of(const struct contest *contest, int64_t devices)
{
    struct degrees pins = aceso_settings(contest_batch(contest));
    pins.memory_limit_bytes = LIMIT_BYTES;
    if (devices > 1)
        return pins;
    pins.dp = pins.tp = pins.pp = 1; /* I2 */
    pins.micro_batch = contest_one_device(contest);
    pins.recompute = RECOMPUTE_FULL;
    pins.has_recompute = true;
    return pins;
}

weft_status duel_stand_up(struct arena *keep, const char *family, const char *model,
                          int64_t devices, struct duel_stand *out)
{
    const char *machine = cluster_text(keep, MACHINE, DEVICES_PER_NODE, devices);
    const struct contest *contest = contest_find(family);
    struct footprints *prints;
    weft_status status;
    *out = (struct duel_stand){
        .study = {.every_stages = true}, /* I4 */
        .request = {.pins = pins_of(contest, devices), .options = {.space = "artifact"}}};
    out->request.extension = &out->study;
    TRY(model_open(model, NULL, &out->model));
    TRY(cluster_open(machine, &out->cluster));
    out->request.model = out->model;
    out->request.cluster = out->cluster;
    if (devices > 1) {
        TRY(footprints_new(keep, out->model, out->cluster, &prints));
        out->count = footprints_count(prints);
        out->study.count = &out->count; /* I3 */
        out->study.least_micro_batch = contest_least(contest);
        out->study.most_step = contest_most(contest);
    }
done:
    if (status)
        duel_take_down(out);
    return status;
}

void duel_take_down(struct duel_stand *stand)
{
    cluster_free(stand->cluster);
    model_free(stand->model);
    stand->cluster = NULL;
    stand->model = NULL;
}

static weft_status predict_all(struct arena *keep, const struct contest *contest,
                               const struct plan_request *request, struct duel *duel)
{
    weft_status status = WEFT_OK;
    for (int rival = RIVAL_SEARCH; rival < RIVAL_COUNT; rival++) { /* I2 */
        duel->predicted[rival] = duel->predicted[RIVAL_RUN];
        duel->plan[rival] = duel->plan[RIVAL_RUN];
    }
    if (duel->devices == 1)
        return WEFT_OK;
    TRY(predict_search(keep, request, duel));
    TRY(predict_grid(keep, contest, request, duel));
    TRY(duel_predict_theirs(keep, request, duel));
done:
    return status;
}

static weft_status predict(struct arena *keep, struct duel *duel, bool all)
{
    const struct contest *contest = contest_find(duel->family);
    struct duel_stand stand;
    weft_status status;
    TRY(duel_stand_up(keep, duel->family, duel->model, duel->devices, &stand));
    status = predict_run(keep, contest, &stand.request, duel);
    if (!status && all)
        status = predict_all(keep, contest, &stand.request, duel);
    duel_take_down(&stand);
done:
    return status;
}

weft_status duel_predict(struct arena *keep, struct duel *duel)
{
    return predict(keep, duel, true);
}

weft_status duel_predict_run(struct arena *keep, struct duel *duel)
{
    return predict(keep, duel, false);
}

/* ---- reading --------------------------------------------------------------------------------- */

enum duel_column {
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

struct duel_reading {
    struct arena *keep;
    struct duels *out;
};

static const char *model_of(const char *family, const char *params)
{
    for (size_t i = 0; i < COUNT_OF(MODELS); i++)
        if (strcmp(MODELS[i].family, family) == 0 && strcmp(MODELS[i].params, params) == 0)
            return MODELS[i].model;
    return NULL;
}

/* The duel of this model, which its first row makes. */
static struct duel *duel_of(struct duel_reading *reading, const char *family, const char *model)
{
    for (size_t i = 0; i < reading->out->len; i++)
        if (strcmp(reading->out->data[i].model, model) == 0)
            return &reading->out->data[i];
    struct duel duel = {.family = arena_copy_text(reading->keep, family), .model = model};
    array_push(reading->keep, reading->out, duel);
    return &reading->out->data[reading->out->len - 1];
}

/* Rows of other systems (Alpa) are passed over. */
static weft_status take_row(void *context, const struct csv *csv, const int *at)
{
    struct duel_reading *reading = context;
    const char *family = csv->field[at[COLUMN_MODEL]], *system = csv->field[at[COLUMN_SYSTEM]];
    const char *model = model_of(family, csv->field[at[COLUMN_PARAMS]]);
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
        struct duel *duel = duel_of(reading, family, model);
        duel->devices = devices;
        duel->measured[rival] = tflops;
    }
done:
    return status;
}

weft_status duels_parse(struct arena *keep, const char *file, char *text, size_t len,
                        struct duels *out)
{
    struct duel_reading reading = {keep, out};
    struct csv csv;
    weft_status status = csv_open(&csv, file, text, len);
    return status ? status : csv_read(&csv, COLUMN_NAMES, COLUMNS, take_row, &reading);
}

weft_status duels_read(struct arena *keep, const struct search_table *table, struct duels *out)
{
    char *path, *text;
    size_t len;
    weft_status status;
    TRY(published_file(keep, table->name, &path, &text, &len));
    TRY(duels_parse(keep, path, text, len, out));
done:
    return status;
}
