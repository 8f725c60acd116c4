/* transport.c - what is the same for all kinds of transport. */
#include "run/transport/transport.h"

weft_status transport_run(struct transport *t, const struct transfer *transfer)
{
    static const double PATIENCE_S = 0.0005; /* between looks at a slowed transport's clock */
    struct pending_transfer *pending;
    weft_status status;
    TRY(t->kind->start(t, transfer, &pending));
    while (!t->kind->test(t, pending)) {
        const char *why = t->kind->failed(t);
        if (why)
            TRY(failure("%s", why));
        t->kind->wait(t, PATIENCE_S, true);
    }
done:
    return status;
}

struct timespec realtime_in(double seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    int64_t ns = until.tv_nsec + (int64_t)(seconds * 1e9);
    until.tv_sec += ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    return until;
}
