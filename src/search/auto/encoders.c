/* encoders.c - an encoder of images whose replicas are more than the decoder's (room.h): the devices that share a sample
 * in the decoder each take other samples of the step in the encoder.
 *
 *   encoder-dp = gcd(dp * micro-batch, dp * cp * tp)                                               (1)
 *
 * samples are worked on at once, so that the encoder needs less tensor parallelism, or none; its tokens are gathered where the
 * decoder begins.
 *
 *   I1  Only if the user has said nothing about the encoder. Tried are the best plans of degrees so far that have it on the
 *       first stage and a step of more samples than replicas.
 */
#include <string.h>

#include "search/auto/room.h"

enum { MOST_BASES = 3 };

/* (1); 0: there are no more than the decoder's. */
static int64_t more_replicas(const struct degrees *d)
{
    int64_t samples = d->dp * (d->micro_batch > 1 ? d->micro_batch : 1);
    int64_t devices = d->dp * (d->cp > 1 ? d->cp : 1) * (d->tp > 1 ? d->tp : 1);
    int64_t most = common_divisor(samples, devices);
    return !d->encoder_pp && most > d->dp ? most : 0;
}

static bool is_base(const struct trial *trial)
{
    return trial->fits && !trial->plan && !trial->degrees.encoder_dp &&
           more_replicas(&trial->degrees);
}

/* The best such degrees, the best first. */
static size_t list_bases(const struct planned *planned, struct degrees out[MOST_BASES])
{
    const struct trial *best[MOST_BASES + 1];
    size_t count = 0;
    for (size_t i = 0; i < planned->trials.len; i++) {
        const struct trial *trial = &planned->trials.data[i];
        size_t at = count;
        if (!is_base(trial))
            continue;
        while (at > 0 && ns_per_sample(trial) < ns_per_sample(best[at - 1]))
            at--;
        if (at == MOST_BASES)
            continue;
        count += count < MOST_BASES;
        memmove(&best[at + 1], &best[at], (count - at - 1) * sizeof *best);
        best[at] = trial;
    }
    for (size_t i = 0; i < count; i++)
        out[i] = best[i]->degrees;
    return count;
}

weft_status spread_encoders(struct join *join)
{
    const struct plan_request *request = join->request;
    struct degrees base[MOST_BASES];
    weft_status status = WEFT_OK;
    if (!model_has_tower(request->model) || pins_encoder(&request->pins) ||
        request->options.batch_auto) /* I1 */
        return WEFT_OK;
    size_t count = list_bases(join->out, base);
    for (size_t i = 0; i < count && !join_over(join); i++) {
        struct degrees *d = &base[i];
        int64_t devices = d->dp * (d->cp > 1 ? d->cp : 1) * d->tp;
        const struct trial *trial;
        d->encoder_dp = more_replicas(d);
        d->encoder_tp =
            common_divisor(encoder_usual_tp(request->model, d->tp), devices / d->encoder_dp);
        TRY(join_try(join, request, d, &trial));
        join_report(join);
    }
done:
    return status;
}
