/* test_rank_programs.c - what each rank of a plan is to do, and what it asks of its transport, held to data/rank_programs.txt.
 *
 * Other tests say that ranks compute what one rank does. Here is how: a line for each plan of run_rows.h, with hashes over its
 * ranks of
 *
 *   program    the jobs, what each waits for, and the order of the queues
 *   stores     how buckets and weights lie in memory, and what of them is deferred
 *   drops      after which item of a block a tensor is let go, and what goes to the host
 *   transfers  how many, and kind, peer, group, dtype and size of each, in any order, over two iterations
 *
 * and the bytes that the simulator says the fullest rank holds. Of three plans one runs over threads, one over a transport that
 * has one transfer at a time, and one over a transport with streams (in_turn.h).
 *
 * After an intended change `WEFT_RECORD=1 build/tests/test_rank_programs` writes the file anew. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "in_turn.h"
#include "rounds.h"
#include "run/rank/room.h"
#include "run_lab.h"
#include "run_rows.h"

static const char FILE_NAME[] = WEFT_SOURCE_DIR "/tests/data/rank_programs.txt";
enum { STEPS = 2, WAYS = 3 };
static struct arena *notes;

/* Sums of hashes do not depend on the order of what is hashed. */
struct counted {
    uint64_t program, stores, drops, transfers, count;
    int64_t predicted;
};

static void mix(uint64_t *hash, const int64_t *word, size_t words)
{
    *hash = hash_bytes(word, words * sizeof *word, *hash);
}

/* ---- transports that count ------------------------------------------------------------------- */

static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;
static struct counted *now; /* of the plan that runs */

/* Ranks race for the numbers of groups: a group is known by its members and its channel. */
enum { MOST_GROUPS = 4096 };
static int64_t group_known[MOST_GROUPS];

static weft_status counted_group(struct transport *t, const int32_t *member, int32_t count,
                                 int32_t channel, int32_t *out)
{
    weft_status status = in_turn_group(t, member, count, channel, out);
    if (status != WEFT_OK)
        return status;
    assert_true(*out < MOST_GROUPS);
    pthread_mutex_lock(&counting);
    group_known[*out] =
        (int64_t)hash_bytes(member, (size_t)count * sizeof *member, (uint64_t)channel);
    pthread_mutex_unlock(&counting);
    return WEFT_OK;
}

static int64_t group_word(int32_t group)
{
    return group < 0 ? -1 : group_known[group];
}

static void count_transfer(const struct transport *t, const struct transfer *x)
{
    pthread_mutex_lock(&counting);
    int64_t own = x->from_counts ? x->from_counts[0] : 0;
    int64_t word[] = {t->rank,    x->kind,  x->op, group_word(x->group), x->peer, (int64_t)x->dtype,
                      x->on_host, x->count, own};
    now->transfers += hash_bytes(word, sizeof word, 1);
    now->count++;
    pthread_mutex_unlock(&counting);
}

static weft_status turn_start(struct transport *t, const struct transfer *transfer,
                              struct pending_transfer **out)
{
    count_transfer(t, transfer);
    return in_turn_start(t, transfer, out);
}

static weft_status plain_start(struct transport *t, const struct transfer *transfer,
                               struct pending_transfer **out)
{
    struct transport *host = in_turn_of(t)->host;
    count_transfer(t, transfer);
    return host->kind->start(host, transfer, out);
}

static bool plain_test(struct transport *t, struct pending_transfer *request)
{
    struct transport *host = in_turn_of(t)->host;
    return host->kind->test(host, request);
}

static struct transport_kind counted_kind[WAYS];

static void make_kinds(void)
{
    counted_kind[0] = counted_kind[1] = IN_TURN;
    counted_kind[2] = AHEAD;
    for (int way = 0; way < WAYS; way++)
        counted_kind[way].group = counted_group;
    counted_kind[0].start = plain_start;
    counted_kind[0].test = plain_test;
    counted_kind[0].follow = NULL;
    counted_kind[1].start = counted_kind[2].start = turn_start;
}

#define CARRIER(way)                                                                               \
    static weft_status carry_##way(struct transport *host, const struct compute_device *device,    \
                                   struct device_stream *stream, struct transport **out)           \
    {                                                                                              \
        return carry_by(&counted_kind[way], host, device, stream, out);                            \
    }
CARRIER(0)
CARRIER(1)
CARRIER(2)
static transport_carrier *const CARRIERS[WAYS] = {carry_0, carry_1, carry_2};

/* ---- what a rank is to do -------------------------------------------------------------------- */

static uint64_t program_hash(const struct rank *r)
{
    const struct program *p = &r->program;
    uint64_t hash = (uint64_t)p->jobs;
    for (int32_t i = 0; i < p->jobs; i++) {
        const struct job *job = &p->job[i];
        mix(&hash,
            (int64_t[]){job->task, job->kind, job->stream, job->dependencies, job->slot,
                        group_word(job->group), job->empties, job->afters},
            8);
        for (int32_t k = 0; k < job->afters; k++)
            mix(&hash, (int64_t[]){p->after[job->first_after + k]}, 1);
    }
    for (int s = 0; s < STREAM_COUNT; s++)
        for (int32_t i = 0; i < p->queued[s]; i++)
            mix(&hash, (int64_t[]){p->queue[s][i]}, 1);
    for (int32_t i = 0; i < p->receives; i++)
        mix(&hash, (int64_t[]){p->receive[i]}, 1);
    for (int32_t i = 0; p->order && i < p->jobs; i++)
        mix(&hash, (int64_t[]){p->order[i]}, 1);
    return hash;
}

static uint64_t stores_hash(const struct rank *r)
{
    uint64_t hash = (uint64_t)r->stores;
    for (int32_t i = 0; i < r->stores; i++) {
        const struct store *s = &r->store[i];
        mix(&hash,
            (int64_t[]){s->bucket, s->shard, s->members, s->member, s->count, s->part,
                        s->trained_weights, s->trained, s->trained_part, s->second_part, s->kept},
            11);
    }
    for (int32_t i = 0; i < r->weights; i++) {
        const struct held_weight *w = &r->weight[i];
        mix(&hash,
            (int64_t[]){w->instance, w->weight, w->store, w->elements, w->count, w->first, w->share,
                        w->place, w->contributes, w->rows, w->columns},
            11);
    }
    mix(&hash, (int64_t[]){r->deferred, r->ties}, 2);
    return hash;
}

static void mix_keys(uint64_t *hash, const struct keys *keys)
{
    for (int32_t i = 0; i < keys->count; i++)
        mix(hash, (int64_t[]){keys->key[i]}, 1);
    mix(hash, (int64_t[]){keys->count}, 1);
}

static uint64_t drops_hash(const struct rank *r)
{
    uint64_t hash = (uint64_t)r->keys;
    for (int32_t b = 0; b < r->graph->blocks; b++)
        for (int32_t i = 0; r->drops[b].after && i <= r->graph->block[b].items; i++)
            mix_keys(&hash, &r->drops[b].after[i]);
    for (int32_t p = 0; r->offloads && p < r->plan->parts; p++)
        mix_keys(&hash, &r->offloads[p]);
    return hash;
}

static void count_rank(struct rank *r)
{
    int64_t predicted = run_memory(r).predicted;
    pthread_mutex_lock(&counting);
    now->program += program_hash(r);
    now->stores += stores_hash(r);
    now->drops += drops_hash(r);
    now->predicted = predicted > now->predicted ? predicted : now->predicted;
    pthread_mutex_unlock(&counting);
}

/* ---- a plan's ranks -------------------------------------------------------------------------- */

struct counted_rank {
    const struct plan *plan;
    struct hub *hub;
    transport_carrier *carrier;
    int32_t rank;
    pthread_t thread;
    weft_status status;
};

static void *run_counted(void *context)
{
    struct counted_rank *self = context;
    struct transport *transport = transport_threads(self->hub, self->rank);
    struct run_options o = lab_options(self->plan->model);
    struct rank *rank = NULL;
    double loss;
    o.plan = self->plan;
    o.transport = transport;
    o.carrier = self->carrier;
    self->status = run_open(&o, &rank);
    for (int i = 0; i < STEPS && self->status == WEFT_OK; i++)
        self->status = run_step(rank, &loss);
    if (self->status == WEFT_OK)
        count_rank(rank);
    else
        transport->kind->abort(transport, "a rank failed");
    run_close(rank);
    transport->kind->close(transport);
    return NULL;
}

static struct counted count_plan(const struct plan *plan, transport_carrier *carrier)
{
    int32_t ranks = (int32_t)cluster_devices(plan->cluster);
    struct counted counted = {0};
    struct counted_rank *rank = ARENA_ARRAY(notes, struct counted_rank, (size_t)ranks);
    struct hub *hub = hub_new(ranks, NULL);
    now = &counted;
    for (int32_t i = 0; i < ranks; i++) {
        rank[i] = (struct counted_rank){plan, hub, carrier, i, 0, WEFT_OK};
        pthread_create(&rank[i].thread, NULL, run_counted, &rank[i]);
    }
    for (int32_t i = 0; i < ranks; i++) {
        pthread_join(rank[i].thread, NULL);
        assert_int_equal(rank[i].status, WEFT_OK);
    }
    hub_free(hub);
    return counted;
}

static const char *line_of(size_t i)
{
    struct plan *plan = plan_of_row(&ROWS[i]);
    struct counted c = count_plan(plan, CARRIERS[i % WAYS]);
    plan_free(plan);
    return arena_printf(notes,
                        "%s: program %08x stores %08x drops %08x transfers %llu %08x bytes %lld\n",
                        ROWS[i].name, (unsigned)(c.program >> 32), (unsigned)(c.stores >> 32),
                        (unsigned)(c.drops >> 32), (unsigned long long)c.count,
                        (unsigned)(c.transfers >> 32), (long long)c.predicted);
}

static void record(void)
{
    FILE *file = fopen(FILE_NAME, "w");
    assert_non_null(file);
    for (size_t i = 0; i < COUNT_OF(ROWS); i++)
        fputs(line_of(i), file);
    assert_int_equal(fclose(file), 0);
}

static void ranks_do_what_they_did(void **state)
{
    (void)state;
    char *golden;
    size_t len, step = COUNT_OF(ROWS) / (size_t)cases_of(COUNT_OF(ROWS));
    int changed = 0;
    if (getenv("WEFT_RECORD"))
        record();
    assert_int_equal(file_read(notes, FILE_NAME, 1 << 20, &golden, &len), WEFT_OK);
    for (size_t i = 0; i < COUNT_OF(ROWS); i += step) {
        const char *line = line_of(i);
        const char *name = arena_printf(notes, "%s: ", ROWS[i].name), *was = strstr(golden, name);
        if (strstr(golden, line))
            continue;
        printf("is  %swas %.*s\n", line, was ? (int)strcspn(was, "\n") : 0, was ? was : "");
        changed++;
    }
    assert_int_equal(changed, 0);
}

static int prepare(void **state)
{
    make_kinds();
    notes = arena_new();
    return open_run_models(state);
}

static int clear_away(void **state)
{
    arena_free(notes);
    return close_run_models(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ranks_do_what_they_did)};
    return cmocka_run_group_tests(tests, prepare, clear_away);
}
