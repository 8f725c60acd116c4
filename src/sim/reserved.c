/* reserved.c - what PyTorch's caching allocator reserves for a stage's slots.
 *
 * Every tensor of every slot, in order, is allocated from and returned to a simulated allocator
 * (allocator.h), for two iterations: the second one starts with what the first has left.
 *
 *   I1  If fewer micro-batches show the same steady state of a schedule, only those are played: the
 *       smallest number of whole rounds that leaves as many in flight, and one round more.
 *   I2  Weights, gradients and the optimizer's own copy of the weights are allocated first, one tensor for each (Megatron-LM
 *       keeps them in contiguous buffers), then what kernels work in, which PyTorch and Transformer Engine take from the
 *       same allocator. Adam creates its two moments in its first step, weight by weight, after the first iteration: they
 *       take the places of that iteration's tensors. What is there only during a step (state_at_step) comes and goes in the
 *       same way.
 *   I3  Slots that are executed as one are played layer by layer in turn (player.h, struct event_walk).
 *   I4  Each stream has an allocator of its own, for what one has freed is given to no other. Shares of gradients that
 *       were summed stay in theirs from one iteration to the next, freed or not.
 *   I5  In a forward pass a layer's gathered weights wait in their stream until those of the next are copied out
 *       (FSDPParamGroup.wait_for_unshard): there are two layers' at a time, also where weights then stay whole.
 *   I6  What is reserved follows from what a replay asks for, in its order, and from nothing else: simulations that keep
 *       what they find for each other replay a stage once for all plans that have it (replay_key).
 *   I7  All streams of a device share its memory. A request that finds none returns every free segment of its own stream and
 *       is tried again, then those of all streams (CUDACachingAllocator.cpp, release_cached_blocks); if there is still no
 *       room, the run ends.
 *   I8  A tensor that is given back before the next one is taken changes nothing but what is reserved: as the others that
 *       are given back meanwhile take no memory, it may as well be given back before them.
 *   I9  A replay ends where a stream comes to 32 TiB (MOST_BYTES), more than any device has. As much as the tensors need is
 *       then taken to be reserved.
 */
#include "sim/allocator.h"
#include "sim/bestfit.h"
#include "sim/player.h"
#include "sim/reserved_cache.h"

#include <math.h>
#include <string.h>

struct handles {
    int32_t *data;
    size_t len, cap;
};

struct memory_requests {
    struct allocator_request *data;
    size_t len, cap;
};

struct replay {
    const struct player *player;
    struct arena *scratch;              /* its own: the next replay takes the same memory again */
    const struct part_lifetimes **part; /* per piece */
    struct pipeline pipeline;
    struct slots slots;
    double *parameters; /* of each weight of the stage, in order */
    size_t weights;
    int64_t late_bytes, gathered_bytes; /* I4, I5: each gathered layer's */
    int32_t gathered;                   /* layers at a time */
    struct blas_workspaces workspaces;
    struct allocator_options options;
    struct allocator *allocator[MEMORY_STREAM_COUNT];
    int64_t room;                                        /* I7; 0: without end */
    int64_t most;                                        /* reserved by all streams at one time */
    bool refused;                                        /* I7: a request found no room */
    struct allocator_size **size;                        /* per piece: per life */
    int32_t **handle;                                    /* per piece: per micro-batch, per life */
    struct memory_requests (*requests)[SLOT_KIND_COUNT]; /* per piece */
};

static int32_t *handles_of(const struct replay *r, int32_t piece, int32_t micro_batch)
{
    return r->handle[piece] + (int64_t)micro_batch * r->part[piece]->lives;
}

/* ---- requests (I7) --------------------------------------------------------------------------- */

/* Each stream may have what the others leave. */
static void set_limits(struct replay *r)
{
    int64_t reserved[MEMORY_STREAM_COUNT], now = 0;
    for (int s = 0; s < MEMORY_STREAM_COUNT; s++)
        now += reserved[s] = allocator_use(r->allocator[s])->reserved;
    for (int s = 0; s < MEMORY_STREAM_COUNT; s++)
        allocator_set_limit(r->allocator[s], r->room - (now - reserved[s]));
    r->most = now > r->most ? now : r->most;
}

static int32_t take_after_release(struct replay *r, struct allocator *stream,
                                  struct allocator_size size)
{
    for (int s = 0; s < MEMORY_STREAM_COUNT; s++)
        allocator_release_cache(r->allocator[s]);
    set_limits(r);
    int32_t handle = allocator_take(stream, size);
    r->refused |= handle == ALLOCATOR_FULL;
    return handle;
}

static int32_t take_size(struct replay *r, struct allocator *stream, struct allocator_size size)
{
    if (!r->room)
        return allocator_take(stream, size);
    int64_t before = allocator_use(stream)->reserved;
    int32_t handle = allocator_take(stream, size);
    if (handle == ALLOCATOR_FULL)
        handle = take_after_release(r, stream, size);
    if (allocator_use(stream)->reserved != before)
        set_limits(r);
    return handle;
}

static int32_t take(struct replay *r, enum memory_stream stream, int64_t bytes)
{
    return take_size(r, r->allocator[stream], allocator_size(r->allocator[stream], bytes));
}

static void play_event(struct replay *r, int32_t piece, int32_t micro_batch, int32_t life,
                       bool gives)
{
    struct allocator *stream = r->allocator[r->part[piece]->life[life].stream];
    int32_t *handle = &handles_of(r, piece, micro_batch)[life];
    if (gives)
        allocator_give(stream, *handle);
    else
        *handle = take_size(r, stream, r->size[piece][life]);
}

/* I7. */
static void play_limited(struct replay *r, const struct allocator_request *q, int32_t *handle)
{
    struct allocator *stream = r->allocator[q->stream];
    if (q->asks == ASKS_GIVE)
        allocator_give(stream, handle[q->place]);
    else if (q->asks == ASKS_TAKE)
        handle[q->place] = take_size(r, stream, q->size);
    else if (!allocator_take_briefly(stream, q->size)) /* I8 */
        allocator_give(stream, take_size(r, stream, q->size));
}

static void play_slot(struct replay *r, const struct slot *slot)
{
    const struct memory_requests *requests = &r->requests[slot->piece][slot->kind];
    int32_t *handle = handles_of(r, slot->piece, slot->micro_batch);
    if (!r->room)
        allocator_play(r->allocator, requests->data, requests->len, handle);
    else
        for (size_t i = 0; i < requests->len; i++)
            play_limited(r, &requests->data[i], handle);
}

/* I3 */
static void play_both(struct replay *r, const struct slot *slot, const struct slot *beside)
{
    struct event_walk walk = walk_events(r->player, slot, beside);
    const struct memory_event *m;
    for (int which; (m = walk_next(&walk, &which));) {
        const struct slot *own = which ? beside : slot;
        play_event(r, own->piece, own->micro_batch, m->life, m->gives);
    }
}

/* Moves the checkpoints of one micro-batch to the host or back. */
static void move_offloaded(struct replay *r, const struct slot *slot, bool leave)
{
    const struct part_lifetimes *part = r->part[slot->piece];
    for (int32_t i = 0; i < part->lives; i++)
        if (part->life[i].offloaded)
            play_event(r, slot->piece, slot->micro_batch, i, leave);
}

/* I1. */
static int32_t fewest_micro_batches(const struct graph *graph, int32_t stage)
{
    const struct plan *plan = graph->plan;
    const struct schedule *schedule = graph_schedule(graph);
    struct pipeline pipeline = plan_pipeline(plan);
    int64_t most = schedule_in_flight(schedule, &pipeline, stage);
    int32_t all = pipeline.micro_batches, round = (int32_t)schedule_round(schedule, &pipeline);
    for (int32_t m = round; m + round < all && !schedule->lists; m += round) {
        pipeline = plan_pipeline_of(plan, m);
        if (schedule_check(schedule, &pipeline) == WEFT_OK &&
            schedule_in_flight(schedule, &pipeline, stage) == most)
            return m + round;
    }
    error_clear();
    return all;
}

static bool is_paired(const struct replay *r, size_t slot)
{
    return slots_paired(graph_schedule(r->player->graph), &r->pipeline, r->player->stage, &r->slots,
                        slot);
}

/* Without a limit an allocator is full only at more than any device has (I9). */
static bool is_endless(const struct replay *r)
{
    bool full = false;
    for (int s = 0; s < MEMORY_STREAM_COUNT; s++)
        full |= allocator_use(r->allocator[s])->retries > 0;
    return full && !r->room;
}

static void play(struct replay *r)
{
    const struct slots *slots = &r->slots;
    const struct away *away = r->player->away;
    for (size_t k = 0; k < slots->len && !r->refused && !is_endless(r); k++) {
        bool paired = is_paired(r, k);
        for (size_t own = k; away && own <= k + paired; own++) {
            if (away[own].left >= 0)
                move_offloaded(r, &slots->data[away[own].left], true);
            if (away[own].back >= 0)
                move_offloaded(r, &slots->data[away[own].back], false);
        }
        if (paired)
            play_both(r, &slots->data[k], &slots->data[k + 1]);
        else
            play_slot(r, &slots->data[k]);
        k += paired;
    }
}

/* ---- state (I2) ------------------------------------------------------------------------------ */

static void take_scratch(struct replay *r, const struct state *state)
{
    const struct blas_workspaces *w = &r->workspaces;
    for (int32_t i = 0; i < w->handles + w->products; i++)
        take(r, MEMORY_COMPUTED, i < w->handles ? w->handle_bytes : w->product_bytes);
    take(r, MEMORY_COMPUTED, state->scratch - blas_workspace_bytes(w)); /* of Weft's own kernels */
}

/* The moments' share of the optimizer's state: 8 bytes of 12 if there is a copy of the weights in
 * fp32, all of it if the weights are their own copy (op_memory.c, POLICIES). */
static double moments_share(enum policy policy)
{
    return policy == POLICY_FP32 || policy == POLICY_PURE_BF16 ? 1 : 8.0 / 12;
}

static void find_parameters(struct replay *r)
{
    const struct plan *plan = r->player->plan;
    ARRAY(double) list = {0};
    for (int32_t part = r->player->stage; part < plan->parts; part = plan_next_part(plan, part))
        for (int64_t k = 0; k < plan->part[part].count; k++) {
            double own = instance_parameters(plan, plan->part[part].first + k);
            if (own > 0)
                array_push(r->scratch, &list, own);
        }
    r->parameters = list.data;
    r->weights = list.len;
}

/* Takes so many bytes as two tensors for each weight. */
static void take_by_weight(struct replay *r, double bytes, struct handles *out)
{
    double all = 0;
    for (size_t i = 0; i < r->weights; i++)
        all += r->parameters[i];
    for (size_t i = 0; i < r->weights; i++)
        for (int moment = 0; moment < 2; moment++) {
            double own = r->parameters[i];
            int32_t handle = take(r, MEMORY_COMPUTED, (int64_t)(bytes / 2 * own / all));
            array_push(r->scratch, out, handle);
        }
}

/* I2. */
static void step(struct replay *r, const struct state *state, double new_moments)
{
    struct handles moments = {0}, copies = {0};
    if (new_moments > 0)
        take_by_weight(r, new_moments, &moments);
    int64_t beside = state_at_step(state) - state->reduced; /* I4 */
    if (beside > 0)
        take_by_weight(r, (double)beside, &copies);
    for (size_t i = 0; i < copies.len; i++)
        allocator_give(r->allocator[MEMORY_COMPUTED], copies.data[i]);
}

/* I5: those of shard 3 are among the lifetimes, with one at a time. */
static void find_gathered(struct replay *r)
{
    const struct plan *plan = r->player->plan;
    const struct part *part = &plan->part[r->player->stage];
    int32_t held = plan_choice(plan, part->first + part->count - 1)->shard == 3 ? 1 : 2;
    if (!policy_memory(plan->policy).own_streams)
        return;
    r->gathered = held;
    r->gathered_bytes = (int64_t)gathered_layer(r->player);
}

/* ---- what a replay asks for (I6) ------------------------------------------------------------- */

typedef ARRAY(int64_t) word_list;

static void add_word(const struct replay *r, word_list *words, int64_t word)
{
    array_push(r->scratch, words, word);
}

static void add_part(const struct replay *r, const struct part_lifetimes *part, word_list *words)
{
    add_word(r, words, part->lives);
    for (int32_t i = 0; i < part->lives; i++) {
        const struct lifetime *life = &part->life[i];
        add_word(r, words, life->bytes);
        add_word(r, words, life->stream | life->offloaded << 8);
    }
    for (int kind = 0; kind < SLOT_KIND_COUNT; kind++) {
        add_word(r, words, part->events[kind].count);
        for (int32_t i = 0; i < part->events[kind].count; i++) {
            const struct memory_event *m = &part->events[kind].event[i];
            add_word(r, words, m->item);
            add_word(r, words, m->life * 2 + m->gives);
        }
    }
}

static void add_slots(const struct replay *r, word_list *words)
{
    const struct away *away = r->player->away;
    for (size_t k = 0; k < r->slots.len; k++) {
        const struct slot *slot = &r->slots.data[k];
        add_word(r, words, (int64_t)slot->kind | (int64_t)is_paired(r, k) << 8);
        add_word(r, words, (int64_t)slot->piece << 32 | slot->micro_batch);
        add_word(r, words, away ? away[k].left : -1);
        add_word(r, words, away ? away[k].back : -1);
    }
}

/* A hash of everything that the replay below asks for. */
static uint64_t replay_key(const struct replay *r, const struct state *state, double moments)
{
    const struct plan *plan = r->player->plan;
    word_list words = {0};
    uint64_t seed = hash_bytes(r->parameters, r->weights * sizeof *r->parameters, 11);
    seed = hash_bytes(&moments, sizeof moments, seed);
    seed = hash_bytes(state, sizeof *state, seed);                 /* of which all words are set */
    seed = hash_bytes(&r->workspaces, sizeof r->workspaces, seed); /* likewise */
    add_word(r, &words, r->options.expandable | policy_memory(plan->policy).own_streams << 1);
    add_word(r, &words, r->late_bytes);
    add_word(r, &words, r->gathered_bytes);
    add_word(r, &words, r->gathered);
    for (int32_t i = 0; i < plan->pieces; i++)
        add_part(r, r->part[i], &words);
    add_slots(r, &words);
    return hash_bytes(words.data, words.len * sizeof *words.data, seed);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static struct replay replay_of(const struct player *player, const struct state *state)
{
    const struct plan *plan = player->plan;
    struct replay r = {.player = player, .scratch = arena_new()};
    int32_t micro_batches = player->away ? (int32_t)plan_micro_batches(plan)
                                         : fewest_micro_batches(player->graph, player->stage);
    r.pipeline = plan_pipeline_of(plan, micro_batches);
    r.options.expandable = software_word(&plan->software, FACT_ALLOCATOR) == ALLOCATOR_EXPANDABLE;
    r.part = ARENA_ARRAY(r.scratch, const struct part_lifetimes *, (size_t)plan->pieces);
    for (int32_t i = 0; i < plan->pieces; i++)
        r.part[i] = player_part(player, i);
    schedule_order(graph_schedule(player->graph), &r.pipeline, player->stage, r.scratch, &r.slots);
    r.late_bytes = late_shares(plan, state);
    find_parameters(&r);
    find_gathered(&r);
    r.workspaces = blas_workspaces(plan, player->stage);
    return r;
}

static struct allocator_size *sizes_of(struct replay *r, const struct part_lifetimes *part)
{
    struct allocator_size *size =
        ARENA_ARRAY(r->scratch, struct allocator_size, (size_t)part->lives);
    for (int32_t i = 0; i < part->lives; i++)
        size[i] = allocator_size(r->allocator[part->life[i].stream], part->life[i].bytes);
    return size;
}

/* I8: whether the tensor that this event takes is given back before another is taken. */
static bool is_brief(const struct memory_events *events, int32_t taken)
{
    for (int32_t i = taken + 1; i < events->count && events->event[i].gives; i++)
        if (events->event[i].life == events->event[taken].life)
            return true;
    return false;
}

static struct memory_requests requests_of(struct replay *r, int32_t piece, int kind)
{
    const struct part_lifetimes *part = r->part[piece];
    const struct memory_events *events = &part->events[kind];
    bool *brief = ARENA_ARRAY(r->scratch, bool, (size_t)part->lives);
    struct memory_requests requests = {0};
    array_reserve(r->scratch, &requests, (size_t)events->count);
    for (int32_t i = 0; i < events->count; i++) {
        const struct memory_event *event = &events->event[i];
        if (!r->size[piece][event->life].bytes || (event->gives && brief[event->life]))
            continue;
        brief[event->life] = !event->gives && is_brief(events, i);
        struct allocator_request request = {r->size[piece][event->life], event->life,
                                            part->life[event->life].stream,
                                            event->gives         ? ASKS_GIVE
                                            : brief[event->life] ? ASKS_BRIEFLY
                                                                 : ASKS_TAKE};
        array_push(r->scratch, &requests, request);
    }
    return requests;
}

static void open_allocators(struct replay *r)
{
    size_t pieces = (size_t)r->pipeline.pieces, most = (size_t)r->pipeline.micro_batches;
    r->options.limit_bytes = r->room;
    for (int s = 0; s < MEMORY_STREAM_COUNT; s++)
        r->allocator[s] = allocator_new(r->scratch, &r->options);
    r->handle = ARENA_ARRAY(r->scratch, int32_t *, pieces);
    r->size = ARENA_ARRAY(r->scratch, struct allocator_size *, pieces);
    r->requests = arena_alloc(r->scratch, pieces, sizeof *r->requests);
    for (size_t i = 0; i < pieces; i++) {
        r->handle[i] = ARENA_ARRAY(r->scratch, int32_t, most *(size_t)r->part[i]->lives);
        r->size[i] = sizes_of(r, r->part[i]);
        for (int kind = 0; kind < SLOT_KIND_COUNT; kind++)
            r->requests[i][kind] = requests_of(r, (int32_t)i, kind);
    }
}

static int64_t replay_all(struct replay *r, const struct state *state, double moments)
{
    const int64_t first[] = {state->bytes[MEMORY_WEIGHTS], state->bytes[MEMORY_GRADIENTS],
                             state->bytes[MEMORY_OPTIMIZER] - (int64_t)moments, state->stand_ins,
                             state->buffer};
    open_allocators(r);
    for (size_t i = 0; i < COUNT_OF(first); i++)
        take(r, MEMORY_COMPUTED, first[i]);
    take_scratch(r, state);
    take(r, MEMORY_REDUCED, r->late_bytes);
    for (int32_t i = 0; i < r->gathered; i++)
        take(r, MEMORY_GATHERED, r->gathered_bytes);
    play(r);
    step(r, state, moments);
    play(r);
    step(r, state, 0);
    int64_t bytes = 0;
    for (int s = 0; s < MEMORY_STREAM_COUNT; s++)
        bytes += allocator_use(r->allocator[s])->reserved_peak;
    return bytes;
}

int64_t find_reserved(const struct player *player, const struct state *state, int64_t peak_bytes,
                      struct reserved_cache *cache)
{
    struct replay r = replay_of(player, state);
    double moments = (double)state->bytes[MEMORY_OPTIMIZER] * moments_share(player->plan->policy);
    uint64_t key = cache ? replay_key(&r, state, moments) : 0;
    int64_t bytes = cache ? reserved_known(cache, key) : -1;
    if (bytes < 0) {
        bytes = replay_all(&r, state, moments);
        if (cache)
            reserved_keep(cache, key, bytes);
    }
    arena_free(r.scratch);
    return peak_bytes > MOST_BYTES / 2 && bytes < peak_bytes ? peak_bytes : bytes; /* I9 */
}

int64_t find_returning(const struct player *player, const struct state *state, int64_t room_bytes)
{
    struct replay r = replay_of(player, state);
    double moments = (double)state->bytes[MEMORY_OPTIMIZER] * moments_share(player->plan->policy);
    r.room = room_bytes;
    replay_all(&r, state, moments);
    arena_free(r.scratch);
    return r.refused ? 0 : r.most;
}
