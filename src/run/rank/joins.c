/* joins.c - stages that take several micro-batches at once (plan/joins.c): what goes to or comes from a stage that takes fewer.
 *
 * A device has whole shares of samples in the order of plan/joins.c, (1), for every share the micro-batches one after the other:
 * those of one send are a run of each share.
 *
 *   I1  What comes is copied into one tensor, under the first micro-batch of those that the stage takes at once; nobody reads it
 *       before the last of its sends, for which all readers wait.
 */
#include "run/rank/joins.h"

static int64_t step_of(const struct rank *r)
{
    return r->plan->step_samples;
}

int64_t joined_sample(const struct joined_order *order, int64_t sample)
{
    int64_t share = order->all / order->parts, one = order->step / order->parts;
    int64_t within = sample % share;
    return within / one * order->step + sample / share * one + within % one;
}

struct joined_order joined_order(const struct rank *r)
{
    int64_t joins = plan_stage_joins(r->plan, r->stage);
    return (struct joined_order){step_of(r) * joins, step_of(r),
                                 joins > 1 ? plan_joined_parts(r->plan) : 1};
}

int32_t first_joined(const struct rank *r, int32_t micro_batch)
{
    return micro_batch - micro_batch % plan_stage_joins(r->plan, r->stage);
}

/* The parts of the batch among the devices of a layout. */
static int64_t batch_parts(const struct layout *layout, int64_t samples)
{
    int64_t sample = layout->elements / samples, parts = 1;
    for (int64_t i = 0; i < layout->digits; i++) {
        int64_t hold = layout->digit[i].hold, degree = layout->digit[i].degree;
        if (hold > 0 && hold * degree > sample)
            parts *= hold >= sample ? degree : hold * degree / sample;
    }
    return parts;
}

/* Runs of one send in a tensor of several, `all` samples, and where the first of them begins. */
struct joined_runs {
    int64_t runs, width, step, first; /* elements */
};

static struct joined_runs runs_of(const struct rank *r, const struct value *value, int64_t all,
                                  int64_t each, int64_t number)
{
    int64_t shares = plan_joined_parts(r->plan), parts = batch_parts(&value->layout, all);
    int64_t sample = value->count / (all / parts);
    int64_t width = each / shares * sample;
    return (struct joined_runs){shares / parts, width, all / shares * sample, number * width};
}

struct value *cut_joined(struct rank *r, struct value *value, const struct crossing_samples *n,
                         int32_t micro_batch)
{
    if (n->from == n->each)
        return value;
    int64_t number = micro_batch % plan_stage_joins(r->plan, r->stage) * step_of(r) / n->each;
    struct layout layout = layout_of_samples(&value->layout, n->from, n->each);
    enum dtype dtype = (enum dtype)value->dtype;
    struct joined_runs runs = runs_of(r, value, n->from, n->each, number);
    struct value *out =
        value_new(r, MEMORY_ACTIVATIONS, dtype, &layout, value->count / (n->from / n->each));
    rank_device(r)->copy_rows(r->work, dtype,
                              (struct row_copy){runs.runs, runs.width, runs.step, runs.width},
                              (char *)value->data + runs.first * dtype_bytes(dtype), out->data);
    value_release(r, value);
    return out;
}

/* What a first send begins, for all that the stage takes at once. */
static struct value *joined_value(struct rank *r, const struct crossing_samples *n,
                                  const struct value *one)
{
    struct layout layout = layout_of_samples(&one->layout, n->each, n->to);
    int64_t count = n->to / n->each;
    struct value *out =
        value_new(r, MEMORY_ACTIVATIONS, (enum dtype)one->dtype, &layout, one->count * count);
    out->to_come = (int32_t)count;
    return out;
}

void put_joined(struct rank *r, const struct crossing_samples *n, int32_t micro_batch, int64_t key,
                struct value *value)
{
    int32_t first = first_joined(r, micro_batch);
    if (n->to == n->each) {
        put_value(r, micro_batch, key, value);
        return;
    }
    pthread_mutex_lock(&r->lock);
    struct value *all = *value_at(r, first, key);
    pthread_mutex_unlock(&r->lock);
    if (!all || !all->to_come) {
        all = joined_value(r, n, value);
        put_value(r, first, key, all);
    }
    int64_t number = (micro_batch - first) * step_of(r) / n->each;
    struct joined_runs runs = runs_of(r, all, n->to, n->each, number);
    enum dtype dtype = (enum dtype)value->dtype;
    rank_device(r)->copy_rows(r->work, dtype,
                              (struct row_copy){runs.runs, runs.width, runs.width, runs.step},
                              value->data, (char *)all->data + runs.first * dtype_bytes(dtype));
    value_release(r, value);
    all->to_come--; /* I1 */
}

weft_status check_joins(const struct run_options *o)
{
    if (o->dropout > 0 && plan_joined_parts(o->plan) > 1)
        return bad_argument("--dropout 0, or the same number of micro-batches on all stages",
                            "masks are of samples one after the other, and a stage that takes "
                            "several micro-batches at once joins shares of them");
    return WEFT_OK;
}
