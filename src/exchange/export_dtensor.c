/* export_dtensor.c - a training script for PyTorch's DTensor: the plan's numbers as a Python dict, followed by code that is the
 * same for every plan (scripts/dtensor.py).
 *
 *   tp   queries, keys, values, gates and ups Shard(0), projections and downs Shard(1), embedding and head Shard(0)
 *   sp   activations between products Shard(1)
 *   dp   FSDP2 over the replicas, with ZeRO 0, 2 or 3
 *
 *   I1  A vocabulary is a multiple of tp in the script, as it is padded in the plan.
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

weft_status write_dtensor(struct export_job *job)
{
    const struct degrees *d = &job->found.degrees;
    struct script s;
    struct model_shape shape;
    weft_status status;
    TRY(shape_of_model(job->plan->model, &shape));
    TRY(check_heads(&shape, d->tp));
    if (shape.vocab % d->tp)
        note(job, "the script pads the vocabulary of %lld to a multiple of tp",
             (long long)shape.vocab);
    shape.vocab = ceil_div(shape.vocab, d->tp) * d->tp; /* I1 */
    script_begin(&s, job);
    put_model(&s, &shape);
    put_int(&s, "devices", d->dp * d->tp);
    put_int(&s, "dp", d->dp);
    put_int(&s, "tp", d->tp);
    put_bool(&s, "sp", d->sequence);
    put_training(&s, &job->found);
    script_end(&s, DTENSOR_SCRIPT);
    if (shape.geglu)
        note(job, "the script does not scale the embedding, as Gemma does");
    job->out->text = s.text;
done:
    return status;
}
