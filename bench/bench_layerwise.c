/* bench_layerwise.c - the exact layerwise program beside a table of whole MB, as Galvatron fills
 * it.
 *
 * Layers are of a Transformer on nodes of 8 devices, costed as Galvatron-BMW's section V does: what
 * matters here is that times, bytes and reshards of the strategies stand to each other as they do
 * in earnest. "all PP degrees" is the sum over the stages of every PP degree, 1F1B's micro-batches
 * in flight included; "uneven" gives 16 kinds of layers in turn; "noisy" also draws every number
 * anew, up to 30 % higher, so that no two strategies send or receive alike; "one call" of 64
 * devices is the size that Galvatron's C++ core takes 14.7 s for (measured elsewhere). The baseline
 * takes O(layers * MB * strategies^2) and keeps back the largest backward peak (Algorithm 3's
 * b_up); where it would take long, it runs some of the layers and is scaled up ("~"). "answer" is
 * the baseline's time over the exact one's.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "search/search.h"

enum { MOST_KINDS = 16, NODE = 8, RUNS = 3 };

static const double MB = 1 << 20;

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* ---- costs ----------------------------------------------------------------------------------- */

/* 60 TFLOP/s of an A100 in mixed precision; 200 GB/s in a node and 12 GB/s between (the paper's
 * high-performance cluster: NVLink, 100 Gb/s InfiniBand). */
static const double FLOPS = 60e12, NEAR = 200e9, FAR = 12e9;

struct layer_shape {
    double hidden, seq, batch; /* samples of a micro-batch, over the whole group */
    int64_t in_flight;
};

/* Devices of a level lie this far apart at most. */
static double level_rate(const struct strategy *s, enum way way)
{
    int64_t inside = 1;
    for (int32_t i = s->levels - 1; i >= 0; i--) {
        inside *= s->level[i].degree;
        if (s->level[i].way == way)
            return inside <= NODE ? NEAR : FAR;
    }
    return NEAR;
}

static double ring(double degree)
{
    return 2 * (degree - 1) / degree;
}

struct problem {
    struct layerwise p;
    int32_t *kind, *boundary;
    int64_t *time_ns, *kept, *peak, *state, *reshard;
};

static void cost_layer(struct problem *b, int32_t kind, int32_t at, const struct strategy *s,
                       const struct layer_shape *shape)
{
    double h = shape->hidden, tp = (double)strategy_degree(s, WAY_TP);
    double dp = (double)strategy_degree(s, WAY_DP), sdp = (double)strategy_degree(s, WAY_SDP);
    double data = dp * sdp, parameters = 12 * h * h / tp, samples = shape->batch / data;
    double border = samples * shape->seq * h * 2;
    double inner = border * (10 + 24 / tp + 5 * shape->seq / h / tp * 8) / 2;
    double forward = (24 * h * h + 4 * shape->seq * h) * shape->seq * samples / tp / FLOPS;
    double tp_ns = border * ring(tp) / level_rate(s, WAY_TP) * (s->recompute ? 6 : 4);
    double dp_ns = ring(dp) * parameters * 2 / level_rate(s, WAY_DP) +
                   1.5 * ring(sdp) * parameters * 2 / level_rate(s, WAY_SDP);
    double backward = forward * (s->recompute ? 3 : 2);
    int64_t i = (int64_t)kind * b->p.strategies + at;
    b->time_ns[i] = (int64_t)(1e9 * (forward + fmax(backward, dp_ns) + 0.3 * dp_ns + tp_ns));
    b->kept[i] = (int64_t)(s->recompute ? border : border + inner) * shape->in_flight;
    b->peak[i] = (int64_t)(s->recompute ? inner : 0);
    b->state[i] = (int64_t)(parameters * 16 / sdp);
}

/* Another data degree or another order: the activations move once each way. */
static double reshard_ns(const struct strategy *a, const struct strategy *b,
                         const struct layer_shape *shape)
{
    int64_t from = strategy_degree(a, WAY_DP) * strategy_degree(a, WAY_SDP);
    int64_t to = strategy_degree(b, WAY_DP) * strategy_degree(b, WAY_SDP);
    bool tp_inside = a->levels && a->level[a->levels - 1].way == WAY_TP;
    bool tp_inside_b = b->levels && b->level[b->levels - 1].way == WAY_TP;
    if (from == to && tp_inside == tp_inside_b)
        return 0;
    double bytes = shape->batch * shape->seq * shape->hidden * 2;
    return 1e9 * 2 * bytes / (double)(from < to ? from : to) / NEAR;
}

static void add_noise(int64_t *value, size_t count, struct rng *rng)
{
    for (size_t i = 0; i < count; i++)
        value[i] += (int64_t)(0.3 * rng_uniform(rng) * (double)value[i]);
}

static void make_noisy(struct problem *b)
{
    size_t entries = (size_t)b->p.kinds * (size_t)b->p.strategies;
    struct rng rng;
    rng_seed(&rng, 1);
    add_noise(b->time_ns, entries, &rng);
    add_noise(b->kept, entries, &rng);
    add_noise(b->peak, entries, &rng);
    add_noise(b->state, entries, &rng);
    add_noise(b->reshard, (size_t)b->p.strategies * (size_t)b->p.strategies, &rng);
}

static struct problem problem_new(struct arena *arena, const struct space *space, int64_t group,
                                  int32_t layers, int32_t kinds, const struct layer_shape *shape,
                                  int64_t limit_bytes)
{
    struct strategies all = {0};
    space_strategies(arena, space, group, &all);
    size_t entries = (size_t)kinds * all.len;
    struct problem b = {.kind = ARENA_ARRAY(arena, int32_t, (size_t)layers),
                        .boundary = ARENA_ARRAY(arena, int32_t, (size_t)layers),
                        .time_ns = ARENA_ARRAY(arena, int64_t, entries),
                        .kept = ARENA_ARRAY(arena, int64_t, entries),
                        .peak = ARENA_ARRAY(arena, int64_t, entries),
                        .state = ARENA_ARRAY(arena, int64_t, entries),
                        .reshard = ARENA_ARRAY(arena, int64_t, all.len *all.len)};
    b.p = (struct layerwise){layers,    (int32_t)all.len, kinds,  1,       b.kind,    b.boundary,
                             b.time_ns, b.kept,           b.peak, b.state, b.reshard, limit_bytes};
    for (int32_t l = 0; l < layers; l++)
        b.kind[l] = l % kinds;
    for (size_t s = 0; s < all.len; s++) {
        for (int32_t k = 0; k < kinds; k++) {
            struct layer_shape own = *shape;
            own.hidden *= 1 + 0.37 * (k * 7 % kinds) / kinds;
            cost_layer(&b, k, (int32_t)s, &all.data[s], &own);
        }
        for (size_t t = 0; t < all.len; t++)
            b.reshard[s * all.len + t] = (int64_t)reshard_ns(&all.data[s], &all.data[t], shape);
    }
    return b;
}

/* ---- the baseline: a table of whole MB ------------------------------------------------------- */

static int32_t megabytes(int64_t bytes)
{
    return (int32_t)ceil((double)bytes / MB);
}

static void table_layer(const struct layerwise *p, int32_t layer, int32_t limit, const float *prev,
                        float *next)
{
    int32_t S = p->strategies;
    for (int32_t s = 0; s < S; s++) {
        int64_t i = (int64_t)p->kind[layer] * S + s;
        int32_t mb = megabytes(p->kept_bytes[i] + p->state_bytes[i]);
        float *restrict row = next + (int64_t)s * (limit + 1);
        for (int32_t e = 0; e <= limit; e++)
            row[e] = INFINITY;
        for (int32_t before = 0; before < S && mb <= limit; before++) {
            const float *from = prev + (int64_t)before * (limit + 1);
            float add =
                (float)(p->time_ns[i] + (layer ? p->reshard_ns[(int64_t)before * S + s] : 0));
            for (int32_t e = 0; e <= limit - mb; e++) {
                float value = from[e] + add;
                row[e + mb] = value < row[e + mb] ? value : row[e + mb];
            }
        }
    }
}

/* Returns the least time; INFINITY: nothing fits. */
static double table_solve(const struct layerwise *p, int32_t layers)
{
    int64_t peak = 0;
    for (int32_t i = 0; i < p->kinds * p->strategies; i++)
        peak = p->peak_bytes[i] > peak ? p->peak_bytes[i] : peak;
    int32_t limit = (int32_t)((double)(p->limit_bytes - peak) / MB);
    size_t size = (size_t)p->strategies * ((size_t)limit + 1);
    float *prev = calloc(size, sizeof *prev), *next = calloc(size, sizeof *next);
    if (!prev || !next)
        exit(EXIT_FAILURE);
    for (int32_t layer = 0; layer < layers; layer++) {
        table_layer(p, layer, limit, prev, next);
        float *swap = prev;
        prev = next;
        next = swap;
    }
    float best = INFINITY;
    for (int32_t s = 0; s < p->strategies; s++) {
        float last = prev[(int64_t)s * (limit + 1) + limit];
        best = last < best ? last : best;
    }
    free(prev);
    free(next);
    return best;
}

/* ---- measuring ------------------------------------------------------------------------------- */

struct sum {
    double fast_ms, table_ms, fast_ns, table_ns;
    int64_t states;
    int32_t strategies, calls, unfit, iterations, rounds;
    bool scaled;
};

static void measure(const struct layerwise *p, int32_t table_layers, struct sum *sum)
{
    struct layerwise_answer answer;
    double best = INFINITY;
    bool fits = false;
    for (int i = 0; i < RUNS; i++) {
        struct arena *arena = arena_new();
        double start = now_ms();
        fits = layerwise_solve(arena, p, &answer) == WEFT_OK;
        best = fmin(best, now_ms() - start);
        arena_free(arena);
    }
    int32_t some = p->layers < table_layers ? p->layers : table_layers;
    double start = now_ms(), table_ns = table_solve(p, some);
    sum->table_ms += (now_ms() - start) * p->layers / some;
    sum->scaled = sum->scaled || some < p->layers;
    sum->fast_ms += best;
    sum->calls++;
    sum->unfit += !fits;
    if (p->strategies > sum->strategies)
        sum->strategies = p->strategies;
    if (!fits)
        return;
    sum->fast_ns += (double)answer.time_ns;
    sum->table_ns += table_ns;
    sum->states += answer.states;
    sum->iterations += answer.iterations;
    sum->rounds += answer.rounds;
}

static void report(const char *name, int32_t layers, const struct sum *sum)
{
    printf("%-34s %6d %5d %5d %9.3f %s%9.1f %9.0f", name, (int)layers, (int)sum->strategies,
           (int)sum->calls, sum->fast_ms, sum->scaled ? "~" : " ", sum->table_ms,
           sum->table_ms / sum->fast_ms);
    if (sum->scaled || !(sum->fast_ns > 0))
        printf(" %8s", "");
    else
        printf(" %8.4f", sum->table_ns / sum->fast_ns);
    printf(" %8lld %4d %4d%s\n", (long long)sum->states, (int)sum->iterations, (int)sum->rounds,
           sum->unfit ? " (some do not fit)" : "");
}

struct setting {
    const char *name;
    int64_t devices;
    int32_t layers, kinds;
    double limit_gib;
    struct layer_shape shape;
    bool every_pp, noisy;
    int32_t table_layers; /* that the baseline runs */
};
static const struct setting SETTINGS[] = {
    {"8 devices, 20 GB, all PP degrees", 8, 48, 1, 20, {2560, 512, 64, 1}, true, false, 64},
    {"8 devices, 8 GB, one call", 8, 32, 1, 8, {1280, 512, 64, 1}, false, false, 64},
    {"8 devices, 20 GB, uneven", 8, 48, 16, 20, {2048, 512, 64, 1}, false, false, 64},
    {"64 devices, 40 GB, one call", 64, 128, 1, 40, {5120, 1024, 128, 1}, false, false, 128},
    {"64 devices, 40 GB, all PP degrees", 64, 128, 1, 40, {5120, 1024, 64, 1}, true, false, 4},
    {"64 devices, 40 GB, uneven", 64, 128, 16, 40, {4096, 1024, 128, 1}, false, false, 4},
    {"8 devices, 20 GB, noisy", 8, 48, 1, 20, {2560, 512, 64, 1}, false, true, 64},
    {"64 devices, 40 GB, noisy", 64, 128, 1, 40, {5120, 1024, 128, 1}, false, true, 4},
    {"64 devices, 40 GB, uneven, noisy", 64, 128, 16, 40, {4096, 1024, 128, 1}, false, true, 4},
    {"64 devices, 40 GB, 1,000 layers", 64, 1000, 1, 40, {2048, 1024, 64, 1}, false, false, 4},
    {"64 devices, 80 GB, 1,000, uneven", 64, 1000, 16, 80, {2048, 1024, 128, 1}, false, false, 2},
};

static void run(const struct setting *setting)
{
    struct arena *arena = arena_new();
    struct pp_degrees pp = {0};
    struct sum sum = {0};
    const struct space *space = space_find("bmw");
    int64_t limit = (int64_t)(setting->limit_gib * 1024 * MB);
    space_pp_degrees(arena, space, setting->devices, &pp);
    for (size_t i = 0; i < pp.len && (setting->every_pp || i == 0); i++)
        for (int64_t stage = 0; stage < pp.data[i]; stage++) {
            struct layer_shape shape = setting->shape;
            int64_t flight = pp.data[i] - stage;
            shape.batch /= (double)pp.data[i];
            shape.in_flight = flight < 2 ? flight : 2;
            struct problem b =
                problem_new(arena, space, setting->devices / pp.data[i],
                            (int32_t)(setting->layers / pp.data[i]), setting->kinds, &shape, limit);
            if (setting->noisy)
                make_noisy(&b);
            measure(&b.p, setting->table_layers, &sum);
        }
    report(setting->name, setting->layers, &sum);
    arena_free(arena);
}

int main(void)
{
    printf("%-34s %6s %5s %5s %9s %10s %9s %8s %8s %4s %4s\n", "layers", "count", "strat", "calls",
           "ms", "table ms", "ratio", "answer", "states", "iter", "rnds");
    for (size_t i = 0; i < COUNT_OF(SETTINGS); i++)
        run(&SETTINGS[i]);
    return EXIT_SUCCESS;
}
