/* open.c - the functions of rank.h: opening a rank, running its steps, showing its weights. */
#include "run/rank/joins.h"
#include "run/rank/read_ahead.h"
#include "run/rank/scales.h"
#include "run/rank/stretch.h"
#include "run/rank/times.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"
#include "target/target.h"

/* That the row of this runtime runs the plan. */
static weft_status check_row(const struct plan *plan)
{
    struct texts differences = {0};
    struct arena *scratch = arena_new();
    struct plan *nearest = NULL;
    weft_status status;
    TRY(target_differences(scratch, target_find("weft"), plan, &differences, &nearest));
    bool stored = nearest && nearest->dtype == plan->dtype && nearest->policy == plan->policy;
    if (nearest)
        TRY(bad_argument(
            stored ? "`weft export --to weft --nearest` writes the nearest plan that can"
                   : arena_printf(scratch, "plan it with --dtype %s --policy %s",
                                  dtype_name(nearest->dtype), policy_name(nearest->policy)),
            "this plan cannot be run: %s", differences.data[0]));
done:
    plan_free(nearest);
    arena_free(scratch);
    return status;
}

static weft_status check_plan(const struct run_options *o)
{
    int64_t devices = cluster_devices(o->plan->cluster);
    for (int32_t i = 0; i < o->plan->model->ops; i++)
        if (o->plan->model->op[i].document)
            return bad_argument("leave document out",
                                "a run computes attention over whole sequences");
        else if (o->plan->model->op[i].skewed_experts)
            return bad_argument("leave expert_skew out",
                                "a run chooses experts itself, and not by a power law");
    if (o->optimizer.kind == OPTIMIZER_MUON && (!o->kernels->muon || plan_row(o->plan)->segmented))
        return bad_argument("use another optimizer, or another schedule",
                            "muon updates whole matrices at once, on %s with %s it cannot",
                            o->kernels->name, o->plan->schedule);
    if (o->optimizer.kind == OPTIMIZER_MUON && plan_has_subsets(o->plan))
        return bad_argument("use another optimizer, or leave 'devices' out of the plan's tree",
                            "muon has all devices of a stage add up each of its matrices");
    if (devices != o->transport->ranks)
        return bad_argument(NULL, "a plan for %s runs on as many ranks, not on %d",
                            counted(devices, "device").s, o->transport->ranks);
    return check_row(o->plan);
}

static void make_state(struct rank *r)
{
    const struct graph *graph = r->graph;
    size_t rows = (size_t)r->micro_batches, blocks = (size_t)graph->blocks;
    r->keys = key_of(r, KEY_WEIGHTS, 0) + graph->buckets;
    r->value = ARENA_ARRAY(r->arena, struct value *, rows * (size_t)r->keys);
    r->spare = ARENA_ARRAY(r->arena, uint8_t, rows *(size_t)r->keys);
    r->progress = ARENA_ARRAY(r->arena, struct block_progress, rows * blocks);
    for (size_t i = 0; i < rows * blocks; i++)
        r->progress[i].over = ARENA_ARRAY(r->arena, bool, (size_t)graph->block[i % blocks].items);
}

static weft_status prepare(struct rank *r)
{
    weft_status status;
    make_state(r);
    find_moments(r);
    TRY(find_local_ops(r));
    make_scales(r);
    TRY(find_weights(r));
    TRY(find_ties(r));
    TRY(find_program(r));
    if (runs_in_order(r))
        TRY(find_order(r));
    TRY(make_groups(r));
    r->loss_sum = rank_device(r)->allocate(r->work, sizeof *r->loss_sum);
    if (!r->loss_sum)
        memory_ran_out(sizeof *r->loss_sum);
    make_stores(r);
    fill_weights(r);
done:
    return status;
}

/* Between device and device, by what the caller chose, or through the host. */
static weft_status open_transport(struct rank *r)
{
    struct transport *host = r->options->transport;
    if (r->options->carrier)
        return r->options->carrier(host, rank_device(r), r->work, &r->transport);
    if (!rank_device(r)->shared)
        r->transport = transport_staged(host, rank_device(r), r->work);
    return WEFT_OK;
}

weft_status run_open(const struct run_options *options, struct rank **out)
{
    struct arena *arena = arena_new();
    struct rank *r = ARENA_NEW(arena, struct rank);
    struct run_options *own = ARENA_NEW(arena, struct run_options);
    struct graph *graph = NULL;
    weft_status status;
    *own = *options;
    *r = (struct rank){.arena = arena, .options = own, .plan = options->plan};
    r->transport = options->transport;
    r->step = options->first_step;
    r->rate = options->optimizer.rate;
    r->gradient_norm = NAN;
    r->loss_scale = options->loss_scale;
    if (options->plan->dtype != DTYPE_FP16)
        r->loss_scale.scale = 0;
    else if (r->loss_scale.scale <= 0)
        r->loss_scale.scale = FIRST_LOSS_SCALE;
    r->started_s = wall_seconds();
    r->work = device_stream(rank_device(r));
    r->copies[0] = device_stream(rank_device(r));
    r->copies[1] = device_stream(rank_device(r));
    pthread_mutex_init(&r->lock, NULL);
    pthread_mutex_init(&r->driving, NULL);
    pthread_cond_init(&r->called, NULL);
    TRY(check_plan(options));
    TRY(check_joins(options));
    TRY(open_transport(r));
    TRY(graph_compile(
        options->plan,
        &(struct compile_options){FOLD_NEVER, .executed = true, .norm = measures_norm(r)}, &graph));
    r->graph = graph;
    if (rank_device(r)->shared) /* a GPU's own memory says when it is full */
        TRY(request_reserve(
            stage_peak_bytes(graph, graph->device[options->transport->rank].stage)));
    r->instances = options->plan->instances;
    r->uses = graph->uses->use_first[r->instances];
    r->micro_batches = (int32_t)plan_micro_batches(options->plan);
    r->stage = graph->device[options->transport->rank].stage;
    r->device = graph->device[options->transport->rank].device -
                options->plan->stage[r->stage].first_device;
    TRY(prepare(r));
    *out = r;
    return WEFT_OK;
done:
    run_close(r);
    return status;
}

static void forget_shown(struct rank *r)
{
    for (size_t i = 0; i < r->shown.len; i++)
        free(r->shown.data[i]);
    r->shown.len = 0;
}

static void free_values(struct rank *r)
{
    for (int64_t i = 0; r->value && i < r->micro_batches * r->keys; i++)
        value_drop(r, r->value[i]);
}

void run_close(struct rank *r)
{
    if (!r)
        return;
    replay_free(r);
    read_ahead_free(r);
    times_free(r);
    free_values(r);
    free_stores(r);
    free_scales(r);
    floats_free(r, MEMORY_WORKSPACE, r->scratch, r->scratch_bytes / (int64_t)sizeof(float));
    buffers_clear(r);
    forget_shown(r);
    if (r->transport != r->options->transport)
        r->transport->kind->close(r->transport);
    rank_device(r)->release(r->work, r->loss_sum);
    device_stream_free(rank_device(r), r->copies[0]);
    device_stream_free(rank_device(r), r->copies[1]);
    device_stream_free(rank_device(r), r->work);
    pthread_mutex_destroy(&r->lock);
    pthread_mutex_destroy(&r->driving);
    pthread_cond_destroy(&r->called);
    struct graph *graph = (struct graph *)(uintptr_t)r->graph;
    graph_free(graph);
    arena_free(r->arena);
}

weft_status run_step(struct rank *r, double *loss)
{
    r->pace[r->step & 1] = (struct pace){r->rate, 1};
    r->source = r->options->source;
    r->first_sample = r->step * r->plan->global_batch;
    return run_iteration(r, loss);
}

void run_set_rate(struct rank *r, float rate)
{
    r->rate = rate;
}

double run_gradient_norm(const struct rank *r)
{
    return r->gradient_norm;
}

struct loss_scale run_loss_scale(const struct rank *r)
{
    return r->loss_scale;
}

weft_status run_evaluate(struct rank *r, const struct batch_source *source, int64_t first,
                         double *loss)
{
    weft_status status;
    TRY(run_deferred(r));
    r->source = *source;
    r->first_sample = first;
    r->evaluates = true;
    TRY(run_iteration(r, loss));
done:
    r->evaluates = false;
    return status;
}

/* ---- weights --------------------------------------------------------------------------------- */

bool shows_weight(const struct rank *r, const struct held_weight *held)
{
    bool owner = held->weight > 0 || plan_weight_owner(r->plan, held->instance) == held->instance;
    return owner && first_of_copies(r, held);
}

bool first_of_copies(const struct rank *r, const struct held_weight *held)
{
    const struct store *s = &r->store[held->store];
    const struct pattern *pattern =
        s->shard ? &r->graph->pattern[r->graph->bucket[s->bucket].pattern] : NULL;
    int64_t mesh = 1, place = r->device;
    for (int32_t i = 0; pattern && i < pattern->digits; i++)
        place -= r->device / pattern->stride[i] % pattern->degree[i] * pattern->stride[i];
    for (int64_t i = held->layout.digits - 1; i >= 0; i--) {
        int64_t degree = held->layout.digit[i].degree;
        if (held->layout.digit[i].hold == HOLD_COPY && place / mesh % degree)
            return false;
        mesh *= degree;
    }
    return true;
}

/* Elements first .. first + count of those that lie here, without what is after the end. */
static struct run_weight part_of(const struct rank *r, const struct held_weight *held,
                                 int64_t first, int64_t count)
{
    const struct laid *laid = r->local_op[held->instance].laid;
    struct run_weight weight = {.name = held->name,
                                .elements = held->elements,
                                .layout = &held->layout,
                                .device = r->device,
                                .first = first,
                                .count = count};
    if (weight.first + weight.count > held->count)
        weight.count = held->count > first ? held->count - first : 0;
    weight.shard = shard_of_operand(laid->op, &laid->op->weight[held->weight].operand,
                                    &laid->choice->split, r->device);
    weight.shard.first = weight.first;
    weight.shard.count = weight.count;
    return weight;
}

float *show_floats(struct rank *r, float *memory, int64_t count)
{
    int64_t bytes = count * (int64_t)sizeof *memory;
    if (!memory || rank_device(r)->shared)
        return memory;
    struct host_view view = host_view(rank_device(r), r->work, memory, bytes, true);
    if (!view.at)
        memory_ran_out((size_t)bytes);
    array_push(r->arena, &r->shown, view.at);
    return view.at;
}

/* Of a weight without a master: what is stored, in fp32. */
static float *show_stored(struct rank *r, const struct held_weight *held, int64_t first,
                          int64_t count)
{
    const struct store *s = &r->store[held->store];
    enum dtype stored = stored_as(r, ELEMENT_COMPUTE);
    const char *from = (const char *)s->weights + stored_at(s, held, first) * dtype_bytes(stored);
    size_t bytes = (size_t)count * sizeof(float);
    float *wide = floats_counted(r, MEMORY_WORKSPACE, count), *shown = malloc(bytes);
    if (!shown)
        memory_ran_out(bytes);
    rank_device(r)->cast(r->work, stored, from, DTYPE_FP32, wide, count);
    download(r, shown, wide, (int64_t)bytes);
    floats_free(r, MEMORY_WORKSPACE, wide, count);
    array_push(r->arena, &r->shown, shown);
    return shown;
}

/* NULL: the weight has none (stores.c, I3). */
static float *moment_of(const struct store *s, const struct held_weight *held, int which)
{
    float *moments = which == 1 ? s->moment1 : s->moment2;
    int64_t end = which == 1 ? s->trained_part : s->second_part;
    return moments && held->place < end ? moments + held->place : NULL;
}

weft_status run_weights(struct rank *r, void (*visit)(void *context, struct run_weight *weight),
                        void *context)
{
    weft_status status;
    TRY(run_deferred(r));
    forget_shown(r);
    for (int32_t i = 0; i < r->weights; i++) {
        const struct held_weight *held = &r->weight[i];
        struct store *s = &r->store[held->store];
        struct run_weight weight = part_of(r, held, s->member * held->share, held->share);
        if (!shows_weight(r, held) || weight.count <= 0)
            continue;
        weight.value = stored_as(r, ELEMENT_COMPUTE) != DTYPE_FP32 && is_frozen(s, held)
                           ? show_stored(r, held, weight.first, weight.count)
                           : show_floats(r, master_data(r, held, weight.first), weight.count);
        weight.moment1 = show_floats(r, moment_of(s, held, 1), weight.count);
        weight.moment2 = show_floats(r, moment_of(s, held, 2), weight.count);
        visit(context, &weight);
    }
done:
    return status;
}

/* Fills up to three arrays of a weight's numbers through the host. */
static weft_status fill_part(struct rank *r, struct run_weight *weight, float *const memory[3],
                             weft_status (*visit)(void *context, const struct run_weight *weight),
                             void *context)
{
    const struct compute_device *device = rank_device(r);
    float **const seen[] = {&weight->value, &weight->moment1, &weight->moment2};
    int64_t bytes = weight->count * (int64_t)sizeof(float);
    struct host_view view[3] = {0};
    for (int k = 0; k < 3; k++) {
        if (!memory[k])
            continue;
        view[k] = host_view(device, r->work, memory[k], bytes, true);
        if (!view[k].at)
            memory_ran_out((size_t)bytes);
        *seen[k] = view[k].at;
    }
    weft_status status = visit(context, weight);
    for (int k = 0; k < 3; k++)
        if (memory[k])
            host_view_end(device, r->work, &view[k], status == WEFT_OK);
    return status;
}

weft_status run_fill(struct rank *r,
                     weft_status (*visit)(void *context, const struct run_weight *weight),
                     void *context)
{
    weft_status status = WEFT_OK;
    for (int32_t i = 0; i < r->weights; i++) {
        const struct held_weight *held = &r->weight[i];
        struct store *s = &r->store[held->store];
        struct run_weight moments = part_of(r, held, s->member * held->share, held->share);
        struct run_weight value = s->shard == 3 ? moments : part_of(r, held, 0, held->count);
        float *all = floats_counted(r, MEMORY_WORKSPACE, value.count);
        status = fill_part(r, &value, (float *const[3]){all}, visit, context);
        if (status == WEFT_OK)
            set_weight(r, held, value.first, value.count, all);
        floats_free(r, MEMORY_WORKSPACE, all, value.count);
        TRY(status);
        float *const state[3] = {NULL, moment_of(s, held, 1), moment_of(s, held, 2)};
        if (state[1] || state[2])
            TRY(fill_part(r, &moments, state, visit, context));
    }
done:
    return status;
}

/* ---- what it took ---------------------------------------------------------------------------- */

struct run_memory run_memory(const struct rank *r)
{
    struct run_memory memory = r->buffers.most;
    memory.predicted = place_peak_bytes(r->graph, r->stage, r->device);
    return memory;
}

int64_t run_peak_bytes(const struct rank *r)
{
    return r->buffers.most.peak;
}

const char *run_note(const struct rank *r)
{
    return r->transport->note;
}

size_t run_events(const struct rank *r, const struct run_event **out)
{
    *out = r->events.data;
    return r->events.len;
}

const struct graph *run_graph(const struct rank *r)
{
    return r->graph;
}
