/* graph.c - the graph as a whole: names, devices, and the order in which its parts are built. */
#include "compile/assembly.h"

#include <string.h>

const char *purpose_name(enum purpose purpose)
{
    static const char *const NAMES[] = {
        [PURPOSE_FORWARD] = "forward",     [PURPOSE_BACKWARD] = "backward",
        [PURPOSE_RECOMPUTE] = "recompute", [PURPOSE_OPTIMIZER] = "optimizer",
        [PURPOSE_TENSOR] = "tp_comm",      [PURPOSE_EXPERTS] = "ep_comm",
        [PURPOSE_CONTEXT] = "cp_comm",     [PURPOSE_DATA] = "dp_comm",
        [PURPOSE_PIPELINE] = "pp_comm",    [PURPOSE_OFFLOAD] = "offload",
    };
    _Static_assert(COUNT_OF(NAMES) == PURPOSE_COUNT, "a purpose without a name");
    return NAMES[purpose];
}

const char *stream_name(enum stream_kind stream)
{
    static const char *const NAMES[] = {
        [STREAM_COMPUTE] = "compute",
        [STREAM_FEATURE] = "features",
        [STREAM_TOKENS] = "tokens",
        [STREAM_GRADIENT] = "gradients",
        [STREAM_PARAMETER] = "parameters",
        [STREAM_NEXT] = "to next stage",
        [STREAM_PREVIOUS] = "to previous stage",
        [STREAM_TO_HOST] = "to host",
        [STREAM_FROM_HOST] = "from host",
        [STREAM_HOST] = "host",
    };
    _Static_assert(COUNT_OF(NAMES) == STREAM_COUNT, "a stream without a name");
    return NAMES[stream];
}

const struct schedule *graph_schedule(const struct graph *graph)
{
    const struct plan *plan = graph->plan;
    return graph->executed ? plan_row(plan) : plan_schedule(plan);
}

bool graph_waits_in_host(const struct graph *graph, int32_t part)
{
    return graph_schedule(graph)->segmented && offloaded_bytes(&graph->lifetimes->part[part]) > 0;
}

/* ---- all stages ------------------------------------------------------------------------------ */

static void place_devices(struct assembly *a)
{
    const struct plan *plan = a->b->plan;
    struct graph *graph = a->graph;
    a->first_device = ARENA_ARRAY(a->b->scratch, int32_t, (size_t)plan->stages + 1);
    for (int32_t s = 0; s < plan->stages; s++) {
        int64_t devices = graph->folded ? 1 : plan->stage[s].devices;
        a->first_device[s + 1] = a->first_device[s] + (int32_t)devices;
    }
    graph->devices = a->first_device[plan->stages];
    graph->device = ARENA_ARRAY(graph->arena, struct graph_device, (size_t)graph->devices);
    for (int32_t s = 0; s < plan->stages; s++)
        for (int32_t d = a->first_device[s]; d < a->first_device[s + 1]; d++)
            graph->device[d] =
                (struct graph_device){s, plan->stage[s].first_device + (d - a->first_device[s])};
}

/* Reserves the tasks and waits of blocks and sends: most plans have as many per slot. */
static void reserve(struct assembly *a)
{
    enum { SLOTS = 2, TASKS = 2, WAITS = 4 }; /* per micro-batch and piece, and per slot */
    size_t slots = SLOTS * (size_t)a->pipeline.pieces * (size_t)a->pipeline.micro_batches;
    size_t all = slots * (size_t)a->graph->devices;
    array_reserve(a->b->keep, &a->tasks, TASKS * all);
    array_reserve(a->b->scratch, &a->waits, WAITS * all);
}

static void prepare(struct assembly *a)
{
    const struct build *b = a->b;
    place_devices(a);
    size_t devices = (size_t)a->graph->devices;
    a->mark = ARENA_ARRAY(b->scratch, struct mark, devices);
    memset(a->mark, -1, devices * sizeof *a->mark);
    a->ending = ARENA_ARRAY(b->scratch, struct ending, devices);
    a->stored = ARENA_ARRAY(b->scratch, int32_t,
                            (size_t)a->pipeline.pieces *(size_t)a->pipeline.micro_batches);
    prepare_crossings(a);
    reserve(a);
}

/* Sorts the waits by the task that waits. */
static void write_dependencies(struct assembly *a)
{
    struct graph *graph = a->graph;
    int64_t *first = ARENA_ARRAY(graph->arena, int64_t, a->tasks.len + 2);
    for (size_t i = 0; i < a->waits.len; i++)
        first[a->waits.data[i].task + 2]++;
    for (size_t t = 0; t < a->tasks.len; t++)
        first[t + 2] += first[t + 1];
    graph->depends = ARENA_ARRAY(graph->arena, int32_t, a->waits.len);
    for (size_t i = 0; i < a->waits.len; i++)
        graph->depends[first[a->waits.data[i].task + 1]++] = a->waits.data[i].on;
    graph->depends_first = first;
}

/* Stages have about as many tasks as the first one: its lists become as long as all of them need, and an eighth longer. */
static void expect_others(struct assembly *a)
{
    size_t stages = (size_t)a->pipeline.stages;
    array_expect(a->b->keep, &a->tasks, a->tasks.len * stages * 9 / 8);
    array_expect(a->b->scratch, &a->waits, a->waits.len * stages * 9 / 8);
}

static weft_status assemble(struct build *b, const struct compile_options *options)
{
    const struct plan *plan = b->plan;
    struct assembly a = {.b = b,
                         .graph = b->graph,
                         .schedule = graph_schedule(b->graph),
                         .pipeline = plan_pipeline(plan),
                         .shared_network = options->shared_network,
                         .sends_apart = options->sends_apart,
                         .stop = options->stop};
    weft_status status;
    prepare(&a);
    TRY(find_meetings(&a));
    for (a.stage = 0; a.stage < plan->stages; a.stage++) {
        struct slots slots = {0};
        schedule_order(a.schedule, &a.pipeline, a.stage, b->scratch, &slots);
        walk_stage(&a, &slots);
        if (a.stage == 0)
            expect_others(&a);
        if (stop_now(options->stop))
            return stop_status();
    }
    resolve_gates(&a);
    tie_gradients(&a);
    write_dependencies(&a);
    b->graph->tasks = (int32_t)a.tasks.len;
    b->graph->task = a.tasks.data;
done:
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

const struct laid *graph_laid(const struct graph *graph, int64_t instance)
{
    const struct plan *plan = graph->plan;
    return graph->uses
        ->laid[(int64_t)plan->instance[instance].op * plan->choices + plan->choice_of[instance]];
}

static void publish_uses(struct build *b)
{
    struct graph_uses *uses = ARENA_NEW(b->keep, struct graph_uses);
    *uses = (struct graph_uses){b->use,       b->use_first, b->last_use, b->part_of,
                                b->bucket_of, b->laid,      b->in_parts};
    b->graph->uses = uses;
}

static weft_status compile(struct graph *graph, const struct compile_options *options)
{
    struct build b = {.graph = graph,
                      .plan = graph->plan,
                      .keep = graph->arena,
                      .scratch = arena_new(),
                      .norm = options->norm};
    weft_status status;
    find_uses(&b);
    build_blocks(&b);
    build_buckets(&b);
    TRY(divide_synchronisation(&b));
    find_lifetimes(&b);
    TRY(assemble(&b, options));
    publish_uses(&b);
    graph->block = b.blocks.data;
    graph->blocks = (int32_t)b.blocks.len;
    graph->bucket = b.buckets.data;
    graph->buckets = (int32_t)b.buckets.len;
    graph->pattern = b.patterns.data;
    graph->patterns = (int32_t)b.patterns.len;
    graph->exchange = b.exchanges.data;
    graph->exchanges = (int32_t)b.exchanges.len;
done:
    arena_free(b.scratch);
    return status;
}

weft_status graph_compile(const struct plan *plan, const struct compile_options *options,
                          struct graph **out)
{
    struct arena *arena = arena_new();
    struct graph *graph = ARENA_NEW(arena, struct graph);
    *graph = (struct graph){.arena = arena,
                            .plan = plan,
                            .reshards = reshards_new(),
                            .folded = options->fold != FOLD_NEVER && !plan_has_subsets(plan),
                            .executed = options->executed};
    weft_status status = compile(graph, options);
    if (status)
        graph_free(graph);
    else
        *out = graph;
    return status;
}

void graph_free(struct graph *graph)
{
    if (!graph)
        return;
    reshards_free(graph->reshards);
    arena_free(graph->arena);
}
