/* export_dtensor.c - a training script for PyTorch's DTensor: the plan's numbers as a Python dict, followed by code that is the
 * same for every plan of its kind (scripts/dtensor_loop.py for both).
 *
 * Of a plan by degrees (scripts/dtensor.py):
 *   tp   queries, keys, values, gates and ups Shard(0), projections and downs Shard(1), embedding and head Shard(0)
 *   sp   activations between products Shard(1)
 *   dp   FSDP2 over the replicas, with ZeRO 0, 2 or 3
 *
 * Of a plan whose operators have splits of their own (scripts/dtensor_splits.py): a mesh, and for every operator the dim that
 * each of its axes splits (target/splits.c).
 *
 *   I1  A vocabulary is a multiple of its parts in the script, as it is padded in the plan.
 */
#include "exchange/export_fsdp.h"

static weft_status check_heads(const struct model_shape *shape, int64_t tp)
{
    if (shape->kv_heads % tp == 0)
        return WEFT_OK;
    return bad_argument("use a tp that divides them",
                        "the script splits heads of keys and values: tp %lld does not divide %lld",
                        (long long)tp, (long long)shape->kv_heads);
}

/* I1 */
static void pad_vocabulary(struct export_job *job, struct model_shape *shape, int64_t parts)
{
    if (shape->vocab % parts)
        note(job, "the script pads the vocabulary of %lld to a multiple of %s",
             (long long)shape->vocab,
             job->found.by_operator ? arena_printf(job->keep, "%lld", (long long)parts) : "tp");
    shape->vocab = ceil_div(shape->vocab, parts) * parts;
}

/* What both kinds share, and the code of one. */
static void end_loop(struct script *s, const char *code)
{
    script_end(s, arena_printf(s->keep, "%s\n\n%s", DTENSOR_LOOP, code));
}

/* ---- degrees --------------------------------------------------------------------------------- */

static weft_status write_degrees(struct export_job *job, struct script *s,
                                 struct model_shape *shape)
{
    const struct degrees *d = &job->found.degrees;
    weft_status status = check_heads(shape, d->tp);
    if (status)
        return status;
    pad_vocabulary(job, shape, d->tp);
    script_begin(s, job);
    put_model(s, shape);
    put_int(s, "devices", d->dp * d->tp);
    put_int(s, "dp", d->dp);
    put_int(s, "tp", d->tp);
    put_bool(s, "sp", d->sequence);
    put_training(s, job);
    end_loop(s, DTENSOR_SCRIPT);
    return WEFT_OK;
}

/* ---- splits of their own --------------------------------------------------------------------- */

/* The most parts in which the vocabulary lies anywhere. */
static int64_t vocabulary_parts(const struct plan *plan)
{
    int64_t most = 1;
    for (int64_t i = 0; i < plan->instances; i++) {
        const struct op *op = &plan->model->op[plan->instance[i].op];
        const struct split *split = &plan_choice(plan, i)->split;
        int64_t own = split_degree(split, DIM_VOCAB);
        if (op->kind == OP_LINEAR && !op_in_layer(plan->model, op))
            own = split_degree(split, DIM_OUT);
        most = own > most ? own : most;
    }
    return most;
}

static const char *mesh_text(struct arena *keep, const struct split_axes *mesh)
{
    const char *text = "";
    for (int32_t a = 0; a < mesh->axes; a++)
        text = arena_printf(keep, "%s%s%lld", text, a ? ", " : "", (long long)mesh->size[a]);
    return arena_printf(keep, "[%s]", text);
}

static const char *splits_dict(struct arena *keep, const struct plan *plan,
                               const struct split_axes *mesh)
{
    struct plan_runs runs = {0};
    const char *text = "{\n";
    plan_fold(keep, plan, &runs);
    for (size_t i = 0; i < runs.len; i++)
        text = arena_printf(keep, "%s        \"%s\": \"%s\",\n", text, runs.data[i].path,
                            split_on_axes(keep, mesh, &plan->choice[runs.data[i].choice].split));
    return arena_printf(keep, "%s    }", text);
}

static const char *recomputed_text(struct arena *keep, const struct plan *plan)
{
    int64_t layers;
    const bool *again = layers_again(keep, plan, &layers);
    const char *text = "";
    for (int64_t i = 0; i < layers; i++)
        if (again[i])
            text = arena_printf(keep, "%s%s%lld", text, *text ? ", " : "", (long long)i);
    return arena_printf(keep, "[%s]", text);
}

static weft_status write_splits(struct export_job *job, struct script *s, struct model_shape *shape)
{
    const struct plan *plan = job->found.plan;
    struct split_axes mesh;
    const char *refusal = split_axes_of(job->keep, plan, &mesh);
    if (refusal)
        return bad_argument("--nearest writes the nearest plan of degrees", "%s", refusal);
    pad_vocabulary(job, shape, vocabulary_parts(plan));
    script_begin(s, job);
    put_model(s, shape);
    put_int(s, "devices", plan->stage[0].devices);
    put_int(s, "dp", 1); /* micro-batches are those of all devices together */
    put_python(s, "mesh", mesh_text(s->keep, &mesh));
    put_python(s, "splits", splits_dict(s->keep, plan, &mesh));
    put_optimizer(s, job);
    put_int(s, "micro_batch", plan->step_samples);
    put_int(s, "global_batch", plan->global_batch);
    put_python(s, "recomputed", recomputed_text(s->keep, plan));
    put_word(s, "dtype", torch_type(plan->dtype));
    end_loop(s, SPLITS_SCRIPT);
    if (plan->overlap)
        decides(job, "the script waits for each exchange, and adds up gradients after all passes: "
                     "overlap none and bucket 0 in the plan predict it");
    return WEFT_OK;
}

weft_status write_dtensor(struct export_job *job)
{
    struct script s;
    struct model_shape shape;
    weft_status status;
    TRY(shape_of_model(job->plan->model, &shape));
    TRY((job->found.by_operator ? write_splits : write_degrees)(job, &s, &shape));
    if (shape.geglu)
        note(job, "the script does not scale the embedding, as Gemma does");
    job->out->text = s.text;
done:
    return status;
}
