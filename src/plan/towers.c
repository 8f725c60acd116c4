/* towers.c - the degrees of an encoder of images beside a decoder.
 *
 * With stages of its own the encoder's devices are apart from the others, as in Megatron-LM's
 * --encoder-pipeline-model-parallel-size; without, it is on the first stage of the decoder:
 *
 *   encoder_pp * encoder_dp * encoder_tp + pp * dp * cp * tp = devices                           (1)
 *   encoder_dp * encoder_tp * copies = dp * cp * tp             if encoder_pp = 0                (2)
 *
 *   I1  An encoder_tp that is not given is the largest divisor of tp that divides the encoder's heads and widths (those of
 *       Qwen2.5-VL-7B rule out 8), an encoder_dp that is not given is dp.
 *   I2  The encoder's replicas take parts of the step's samples: encoder_dp divides dp * micro-batch.
 *   I3  Devices that (2) leaves over compute the same: where tp is wider than the encoder, and along cp.
 *   I4  An encoder on the first stage weighs nothing where layers are dealt out to stages: the frameworks count the
 *       decoder's. Over stages of its own it is cut evenly by FLOPs.
 */
#include "plan/plan.h"
#include "plan/room.h"

/* ---- what suits an encoder ------------------------------------------------------------------- */

static bool splits_evenly(const struct op *op, enum dim dim, int64_t degree)
{
    int at = op_find_dim(op->kind, dim);
    return at < 0 || op->size[at] % degree == 0;
}

static bool suits(const struct model *model, int64_t tp)
{
    for (int32_t i = 0; i < model->ops; i++) {
        const struct op *op = &model->op[i];
        bool product = op->kind == OP_LINEAR && !op->by_stream;
        bool heads = op->kind == OP_ATTENTION || op->kind == OP_SCORE;
        if (op->place == PLACE_TOWER &&
            ((product && !(splits_evenly(op, DIM_OUT, tp) && splits_evenly(op, DIM_IN, tp))) ||
             (heads && !splits_evenly(op, DIM_HEAD, tp))))
            return false;
    }
    return true;
}

int64_t encoder_usual_tp(const struct model *model, int64_t tp)
{
    int64_t own = tp;
    while (own > 1 && (tp % own || !suits(model, own)))
        own--;
    return own;
}

int64_t encoder_devices(const struct degrees *d, const struct model *model)
{
    int64_t tp = d->encoder_tp ? d->encoder_tp : encoder_usual_tp(model, d->tp);
    return (d->encoder_dp ? d->encoder_dp : d->dp) * tp;
}

bool encoder_mesh(const struct degrees *d, const struct model *model, struct tower_mesh *out)
{
    int64_t tp = d->encoder_tp ? d->encoder_tp : encoder_usual_tp(model, d->tp);
    int64_t batch = d->encoder_dp ? d->encoder_dp : d->dp, taken;
    int64_t all = d->encoder_pp ? batch * tp : d->dp * d->cp * d->tp;
    if (!checked_mul(batch, tp, &taken) || all % taken) /* (2) */
        return false;
    *out = (struct tower_mesh){batch, all / taken, tp};
    return true;
}

/* ---- completing ------------------------------------------------------------------------------ */

static weft_status check_asked(const struct degrees *d, const struct model *model)
{
    const struct {
        const char *name;
        int64_t value;
    } asked[] = {{"encoder-tp", d->encoder_tp},
                 {"encoder-dp", d->encoder_dp},
                 {"encoder-pp", d->encoder_pp}};
    for (size_t i = 0; i < COUNT_OF(asked) && !model_has_tower(model); i++)
        if (asked[i].value)
            return bad_argument("leave it out",
                                "%s %lld is a degree of an encoder of images, and %s has none",
                                asked[i].name, (long long)asked[i].value, model->name);
    return WEFT_OK;
}

static weft_status check_pipeline(const struct degrees *d)
{
    bool pieces = d->pieces > 1 || d->segments > 1;
    if (!d->encoder_pp || (!pieces && !d->layout && !d->order && !d->stage_run))
        return WEFT_OK;
    return bad_argument("leave one of them out",
                        "encoder-pp %lld gives the encoder stages of its own, which %s cannot have",
                        (long long)d->encoder_pp,
                        pieces      ? "several pieces per stage"
                        : d->layout ? "a given layout of the pipeline"
                                    : "another order of devices");
}

weft_status encoder_complete_dp(struct degrees *d, const struct model *model, int64_t devices)
{
    weft_status status;
    TRY(check_asked(d, model));
    TRY(check_pipeline(d));
    if (!d->encoder_pp || d->dp)
        return status;
    int64_t tp = d->encoder_tp ? d->encoder_tp : encoder_usual_tp(model, d->tp);
    int64_t own = d->encoder_pp * tp, others = d->tp * d->cp * d->pp;
    int64_t taken = d->encoder_dp ? own * d->encoder_dp : 0;
    int64_t each = d->encoder_dp ? others : own + others;
    if (taken < devices && (devices - taken) % each == 0)
        d->dp = (devices - taken) / each; /* (1) */
    else
        TRY(bad_argument("change one of them: the sum has to divide the cluster's devices",
                         "encoder-pp %lld * encoder-tp %lld and pp %lld * cp %lld * tp %lld are "
                         "%s for each replica, which %s do not hold evenly",
                         (long long)d->encoder_pp, (long long)tp, (long long)d->pp,
                         (long long)d->cp, (long long)d->tp, counted(own + others, "device").s,
                         counted(devices, "device").s));
done:
    return status;
}

weft_status encoder_complete(struct degrees *d, const struct model *model)
{
    struct tower_mesh mesh = {0};
    struct arena *scratch = arena_new();
    weft_status status = WEFT_OK;
    int64_t samples = d->dp * d->micro_batch;
    if (!model_has_tower(model))
        goto done;
    if (!encoder_mesh(d, model, &mesh)) {
        TRY(bad_argument(
            "use numbers whose product divides those devices",
            "encoder-dp %lld * encoder-tp %lld does not divide dp %lld * cp %lld * tp "
            "%lld, the devices of the stage that the encoder is on",
            (long long)(d->encoder_dp ? d->encoder_dp : d->dp),
            (long long)(d->encoder_tp ? d->encoder_tp : encoder_usual_tp(model, d->tp)),
            (long long)d->dp, (long long)d->cp, (long long)d->tp));
    }
    if (samples % mesh.batch) { /* I2 */
        status = bad_argument(NULL, "encoder-dp %lld does not divide dp %lld * micro-batch %lld",
                              (long long)mesh.batch, (long long)d->dp, (long long)d->micro_batch);
        error_hint("use encoder-dp %s",
                   nearest_legal(scratch, mesh.batch, samples, divides, samples));
        goto done;
    }
    if (d->encoder_tp == encoder_usual_tp(model, d->tp))
        d->encoder_tp = 0; /* says nothing new */
    if (d->encoder_dp == d->dp)
        d->encoder_dp = 0;
done:
    arena_free(scratch);
    return status;
}

/* ---- which degrees a plan has ---------------------------------------------------------------- */

bool in_tower(const struct plan *plan, int64_t instance)
{
    return plan->model->op[plan->instance[instance].op].place == PLACE_TOWER;
}

int64_t tower_end(const struct plan *plan)
{
    int64_t end = 0;
    while (end < plan->instances && in_tower(plan, end))
        end++;
    return end;
}

int32_t tower_stages(const struct plan *plan)
{
    int64_t end = tower_end(plan);
    int32_t stages = 0;
    while (plan->pieces == 1 && stages + 1 < plan->stages &&
           plan->part[stages].first + plan->part[stages].count <= end)
        stages++;
    return stages && plan->part[stages].first == end ? stages : 0;
}

void tower_degrees(const struct plan *plan, struct degrees *d)
{
    d->encoder_tp = d->encoder_dp = model_has_tower(plan->model);
    for (int64_t i = 0; i < tower_end(plan); i++) {
        const struct op *op = &plan->model->op[plan->instance[i].op];
        const struct split *split = &plan_choice(plan, i)->split;
        int64_t batch = split_degree(split, DIM_BATCH);
        int64_t tp = split_degree(split, DIM_OUT) * split_degree(split, DIM_IN);
        if (op->kind == OP_LINEAR && tp > d->encoder_tp)
            d->encoder_tp = tp;
        d->encoder_dp = batch > d->encoder_dp ? batch : d->encoder_dp;
    }
    if (d->encoder_dp == d->dp)
        d->encoder_dp = 0;
}
