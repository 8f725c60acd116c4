/* rank_agreement.c - gathering bytes and statuses from all ranks (rank_agreement.h). A transport moves floats;
 * a gather does not read them, so any bytes can be sent as floats. */
#include "run/transport/rank_agreement.h"

#include <stdlib.h>
#include <string.h>

/* Beside the channels of a rank's own groups (run/rank/memberships.c): one for each stream, and one more. */
enum { COUNCIL_CHANNEL = 1000 };

weft_status agreement_new(struct transport *transport, struct rank_agreement *out)
{
    int32_t *member = calloc((size_t)transport->ranks, sizeof *member);
    if (!member)
        return failure("out of memory");
    for (int32_t i = 0; i < transport->ranks; i++)
        member[i] = i;
    *out = (struct rank_agreement){.transport = transport};
    weft_status status =
        transport->kind->group(transport, member, transport->ranks, COUNCIL_CHANNEL, &out->group);
    free(member);
    return status;
}

static weft_status gather_floats(const struct rank_agreement *agreement, const float *mine,
                                 int64_t count, float *all)
{
    struct transfer transfer = {.kind = TRANSFER_ALL_GATHER,
                                .group = agreement->group,
                                .from = mine,
                                .to = all,
                                .count = count,
                                .on_host = true};
    return transport_run(agreement->transport, &transfer);
}

weft_status agreement_gather(const struct rank_agreement *agreement, const void *mine, size_t bytes,
                             void *all)
{
    size_t floats = (bytes + sizeof(float) - 1) / sizeof(float);
    size_t ranks = (size_t)agreement->transport->ranks;
    float *from = calloc(floats + 1, sizeof *from), *to = calloc(floats * ranks + 1, sizeof *to);
    weft_status status = from && to ? WEFT_OK : failure("out of memory");
    if (status == WEFT_OK) {
        memcpy(from, mine, bytes);
        status = gather_floats(agreement, from, (int64_t)floats, to);
    }
    for (size_t i = 0; status == WEFT_OK && i < ranks; i++)
        memcpy((char *)all + i * bytes, to + i * floats, bytes);
    free(from);
    free(to);
    return status;
}

struct rank_verdict {
    int32_t status;
    bool has_hint;
    char message[512], hint[256];
};

static struct rank_verdict verdict_of(weft_status status)
{
    struct rank_verdict verdict = {.status = (int32_t)status};
    if (status == WEFT_OK)
        return verdict;
    const weft_error *error = weft_last_error();
    snprintf(verdict.message, sizeof verdict.message, "%s", error->message);
    snprintf(verdict.hint, sizeof verdict.hint, "%s", error->hint ? error->hint : "");
    verdict.has_hint = error->hint;
    return verdict;
}

static weft_status repeat(const struct rank_verdict *verdict)
{
    const char *hint = verdict->has_hint ? verdict->hint : NULL;
    switch ((weft_status)verdict->status) {
    case WEFT_OK:
        return WEFT_OK;
    case WEFT_BAD_INPUT:
        return bad_argument(hint, "%s", verdict->message);
    case WEFT_NO_ANSWER:
        return no_answer(hint, "%s", verdict->message);
    default:
        failure("%s", verdict->message);
        if (hint)
            error_hint("%s", hint);
        return WEFT_FAILURE;
    }
}

weft_status agreement_reach(const struct rank_agreement *agreement, weft_status mine)
{
    struct rank_verdict own = verdict_of(mine);
    struct rank_verdict *all = calloc((size_t)agreement->transport->ranks, sizeof *all);
    weft_status status =
        all ? agreement_gather(agreement, &own, sizeof own, all) : failure("out of memory");
    for (int32_t i = 0; status == WEFT_OK && i < agreement->transport->ranks; i++)
        status = repeat(&all[i]);
    free(all);
    return status;
}
