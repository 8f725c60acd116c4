/* read_ahead.c - samples of the next micro-batch are gathered meanwhile (read_ahead.h).
 *
 * Images of a step are tens of MB: to read them took a GPU longer to wait for than its own work.
 */
#include "run/rank/read_ahead.h"

#include <stdlib.h>

#include "run/rank/inputs.h"

enum { WORTH_BYTES = 1 << 17 }; /* a thread costs as much as to gather some tens of KB */

struct ahead_input {
    const struct rank *rank;
    struct gathering now; /* what lies in, or is on its way to, the place that `turn` says */
    void *place[2];       /* I2 */
    struct device_event *copied[2];
    int turn;
    pthread_t thread;
    bool at_work;
};

static int64_t read_bytes(const struct source_read *read)
{
    return layout_local(read->layout) * read->bytes;
}

static struct ahead_input *find_reading(const struct rank *r, const struct source_read *read)
{
    for (size_t i = 0; i < r->replay.ahead.inputs.len; i++) {
        struct ahead_input *reading = r->replay.ahead.inputs.data[i];
        const struct source_read *own = &reading->now.read;
        if (own->input == read->input && own->layout == read->layout && own->place == read->place)
            return reading;
    }
    return NULL;
}

static struct ahead_input *new_reading(struct rank *r, const struct source_read *read)
{
    struct ahead_input *reading = ARENA_NEW(r->arena, struct ahead_input);
    *reading = (struct ahead_input){.rank = r};
    for (int i = 0; i < 2; i++) {
        reading->place[i] = rank_device(r)->allocate_host(read_bytes(read));
        if (!reading->place[i])
            memory_ran_out((size_t)read_bytes(read));
    }
    reading->now.read = *read;
    reading->now.first = -1; /* nothing yet */
    array_push(r->arena, &r->replay.ahead.inputs, reading);
    return reading;
}

static void *gather_meanwhile(void *argument)
{
    struct ahead_input *reading = argument;
    gather(&reading->now);
    return NULL;
}

static void await_thread(struct ahead_input *reading)
{
    if (reading->at_work)
        pthread_join(reading->thread, NULL);
    reading->at_work = false;
}

/* The other place is free when the device has copied from it. */
static void turn_to(struct ahead_input *reading, struct gathering what)
{
    reading->turn = !reading->turn;
    device_finish(rank_device(reading->rank), reading->copied[reading->turn]);
    reading->copied[reading->turn] = NULL;
    reading->now = what;
    reading->now.read.out = reading->place[reading->turn];
}

static bool is_same(const struct gathering *a, const struct gathering *b)
{
    return a->first == b->first && a->source.read == b->source.read &&
           a->source.context == b->source.context;
}

const void *read_ahead(struct rank *r, const struct source_read *read)
{
    if (read_bytes(read) < WORTH_BYTES)
        return NULL;
    struct ahead_input *reading = find_reading(r, read);
    struct gathering wanted = gathering_of(r, read);
    if (!reading)
        reading = new_reading(r, read);
    await_thread(reading);
    if (!is_same(&reading->now, &wanted)) {
        turn_to(reading, wanted);
        gather(&reading->now);
    }
    return reading->place[reading->turn];
}

/* I1 */
static struct gathering guess(const struct rank *r, const struct source_read *read)
{
    struct gathering next = gathering_of(r, read);
    if (read->micro_batch + next.order.all / next.order.step < r->micro_batches)
        next.first += next.order.all;
    else
        next.first = r->first_sample + r->plan->global_batch;
    return next;
}

void read_ahead_next(struct rank *r, const struct source_read *read, struct device_event *copied)
{
    struct ahead_input *reading = find_reading(r, read);
    reading->copied[reading->turn] = copied;
    turn_to(reading, guess(r, read));
    reading->at_work = pthread_create(&reading->thread, NULL, gather_meanwhile, reading) == 0;
    if (!reading->at_work)
        reading->now.first = -1;
}

void read_ahead_free(struct rank *r)
{
    for (size_t i = 0; i < r->replay.ahead.inputs.len; i++) {
        struct ahead_input *reading = r->replay.ahead.inputs.data[i];
        await_thread(reading);
        for (int k = 0; k < 2; k++) {
            device_finish(rank_device(r), reading->copied[k]);
            rank_device(r)->release_host(reading->place[k]);
        }
    }
}
