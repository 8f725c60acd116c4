/* assign_core.c - elimination of variables (assign_core.h has the equation). */
#include "search/autoddl/assign_core.h"

#include <math.h>
#include <string.h>

struct core core_new(struct arena *scratch, int32_t variables, const int32_t *options,
                     struct assign_work *work)
{
    size_t n = (size_t)variables;
    return (struct core){variables,
                         options,
                         ARENA_ARRAY(scratch, bool, n),
                         ARENA_ARRAY(scratch, double *, n),
                         ARENA_ARRAY(scratch, double *, n *n),
                         ARENA_ARRAY(scratch, struct core_near, n),
                         work};
}

double **core_pair(const struct core *core, int32_t a, int32_t b)
{
    int32_t low = a < b ? a : b, high = a < b ? b : a;
    return &core->pair[(size_t)low * (size_t)core->variables + (size_t)high];
}

static double pair_value(const struct core *c, int32_t a, int32_t b, int32_t i, int32_t j)
{
    const double *pair = *core_pair(c, a, b);
    return a < b ? pair[(size_t)i * (size_t)c->options[b] + (size_t)j]
                 : pair[(size_t)j * (size_t)c->options[a] + (size_t)i];
}

static const struct core_near *neighbours(const struct core *c, int32_t v)
{
    struct core_near *near = &c->near[v];
    if (near->known)
        return near;
    near->known = true;
    near->count = 0;
    for (int32_t u = 0; u < c->variables; u++)
        if (u != v && !c->gone[u] && *core_pair(c, u, v)) {
            if (near->count < 3)
                near->first[near->count] = u;
            near->count++;
        }
    return near;
}

static double work_of(const struct core *c, int32_t v, const struct core_near *near)
{
    double work = c->options[v];
    for (int32_t i = 0; i < near->count; i++)
        work *= c->options[near->first[i]];
    return work;
}

/* A variable leaves the graph: its neighbours have others now. */
static void leave(struct core *c, int32_t v)
{
    c->gone[v] = true;
    for (int32_t u = 0; u < c->variables; u++)
        if (u != v && *core_pair(c, u, v))
            c->near[u].known = false;
}

/* The variable to eliminate next: of those with at most two neighbours, the one with the least
 * work; of others, the one with the fewest options. -1: none is left but the one to keep. */
static int32_t next_variable(const struct core *c, int32_t keep)
{
    int32_t at = -1;
    bool easy = false;
    double least = 0;
    for (int32_t v = 0; v < c->variables; v++) {
        if (c->gone[v] || v == keep)
            continue;
        const struct core_near *near = neighbours(c, v);
        bool few = near->count <= 2;
        double work = few ? work_of(c, v, near) : c->options[v];
        if (at >= 0 && (easy != few ? easy : work >= least))
            continue;
        at = v;
        easy = few;
        least = work;
    }
    return at;
}

/* How a variable's option follows from those of its neighbours. */
struct trace {
    int32_t v, count, near[2];
    uint16_t *option; /* per option of the first, then of the second */
};
struct traces {
    struct trace *data;
    size_t len, cap;
};

/* Two doubles and two integers in a vector register of any processor: compilers do not make vectors of a choice. */
typedef __attribute__((vector_size(16))) double two_reals;
typedef __attribute__((vector_size(16))) int64_t two_whole;
/* So many options of the second neighbour are looked at together: what is least for each stays in registers. */
enum { PAIRS = 4, ABREAST = 2 * PAIRS };

static two_whole choose(two_whole mask, two_whole yes, two_whole no)
{
    return (mask & yes) | (~mask & no);
}

/* The side of v towards its second neighbour, ABREAST options of that by ABREAST, each option by option of v: what is read
 * together lies together. The last ones are filled up with INFINITY. */
static double *side_of(struct arena *scratch, const struct core *c, int32_t v, int32_t b)
{
    size_t own = (size_t)c->options[v], count = (size_t)c->options[b];
    size_t wide = (count + ABREAST - 1) / ABREAST * ABREAST;
    double *side = ARENA_ARRAY(scratch, double, own *wide);
    for (size_t k = 0; k < wide; k++)
        for (size_t i = 0; i < own; i++)
            side[(k / ABREAST * own + i) * ABREAST + k % ABREAST] =
                k < count ? pair_value(c, v, b, (int32_t)i, (int32_t)k) : INFINITY;
    return side;
}

/* The other side with v's own time, option by option of the first neighbour. */
static double *before_of(struct arena *scratch, const struct core *c, int32_t v, int32_t a)
{
    double *before = ARENA_ARRAY(scratch, double, (size_t)c->options[a] * (size_t)c->options[v]);
    for (int32_t j = 0; j < c->options[a]; j++)
        for (int32_t i = 0; i < c->options[v]; i++)
            before[(size_t)j * (size_t)c->options[v] + (size_t)i] =
                c->own[v][i] + pair_value(c, v, a, i, j);
    return before;
}

/* The minimum of (1), and where it is, for some options of the second neighbour, at most ABREAST. */
static void least_abreast(const double *before, const double *side, int32_t options, size_t count,
                          double *least, uint16_t *option)
{
    two_reals sum[PAIRS];
    two_whole at[PAIRS] = {0};
    for (int k = 0; k < PAIRS; k++)
        sum[k] = (two_reals){INFINITY, INFINITY};
    for (int32_t i = 0; i < options; i++, side += ABREAST)
        for (int k = 0; k < PAIRS; k++) {
            two_reals one;
            memcpy(&one, side + 2 * k, sizeof one);
            one += before[i];
            two_whole less = one < sum[k];
            sum[k] = (two_reals)choose(less, (two_whole)one, (two_whole)sum[k]);
            at[k] = choose(less, (two_whole){i, i}, at[k]);
        }
    for (size_t k = 0; k < count; k++) {
        least[k] = sum[k / 2][k % 2];
        option[k] = (uint16_t)at[k / 2][k % 2];
    }
}

/* Computes (1) with the options of v in the inner loop. */
static void eliminate_between(struct arena *scratch, struct core *c, struct trace *t)
{
    int32_t a = t->near[0], b = t->near[1], v = t->v;
    size_t own = (size_t)c->options[v], count = (size_t)c->options[b];
    size_t entries = (size_t)c->options[a] * count;
    const double *side = side_of(scratch, c, v, b), *before = before_of(scratch, c, v, a);
    const double *there = *core_pair(c, a, b);
    double *sum = ARENA_ARRAY(scratch, double, entries);
    t->option = ARENA_ARRAY(scratch, uint16_t, entries);
    for (size_t k = 0; k < count && !work_over(c->work); k += ABREAST)
        for (size_t j = 0, at = k; j < (size_t)c->options[a]; j++, at += count)
            least_abreast(before + j * own, side + k * own, c->options[v],
                          count - k < ABREAST ? count - k : ABREAST, sum + at, t->option + at);
    for (size_t i = 0; there && i < entries; i++)
        sum[i] += there[i]; /* a < b, as neighbours are listed */
    *core_pair(c, a, b) = sum;
}

static void eliminate_leaf(struct arena *scratch, struct core *c, struct trace *t)
{
    int32_t a = t->near[0], v = t->v;
    double *own = ARENA_ARRAY(scratch, double, (size_t)c->options[a]);
    t->option = ARENA_ARRAY(scratch, uint16_t, (size_t)c->options[a]);
    for (int32_t j = 0; j < c->options[a]; j++) {
        double least = INFINITY;
        for (int32_t i = 0; i < c->options[v]; i++) {
            double sum = c->own[v][i] + pair_value(c, v, a, i, j);
            if (sum < least) {
                least = sum;
                t->option[j] = (uint16_t)i;
            }
        }
        own[j] = c->own[a][j] + least;
    }
    c->own[a] = own;
}

static double eliminate_alone(struct arena *scratch, const struct core *c, struct trace *t)
{
    t->option = ARENA_ARRAY(scratch, uint16_t, 1);
    for (int32_t i = 1; i < c->options[t->v]; i++)
        if (c->own[t->v][i] < c->own[t->v][t->option[0]])
            t->option[0] = (uint16_t)i;
    return c->own[t->v][t->option[0]];
}

static void follow(const struct core *c, const struct traces *traces, int32_t *option)
{
    for (size_t i = traces->len; i-- > 0;) {
        const struct trace *t = &traces->data[i];
        size_t at = t->count > 0 ? (size_t)option[t->near[0]] : 0;
        if (t->count > 1)
            at = at * (size_t)c->options[t->near[1]] + (size_t)option[t->near[1]];
        option[t->v] = t->option[at];
    }
}

/* ---- taking options in turn ------------------------------------------------------------------ */

/* The own times of u once v has taken its option i. */
static double *own_with(struct arena *scratch, const struct core *c, int32_t v, int32_t i,
                        int32_t u)
{
    double *own = ARENA_ARRAY(scratch, double, (size_t)c->options[u]);
    for (int32_t j = 0; j < c->options[u]; j++)
        own[j] = c->own[u][j] + pair_value(c, v, u, i, j);
    return own;
}

/* The variables that are left, but for v, which takes its option i; place[k] is where the k-th of them is in c. */
static struct core core_with(struct arena *scratch, const struct core *c, int32_t v, int32_t i,
                             int32_t *place)
{
    int32_t count = 0, *options = ARENA_ARRAY(scratch, int32_t, (size_t)c->variables);
    for (int32_t u = 0; u < c->variables; u++)
        if (u != v && !c->gone[u]) {
            options[count] = c->options[u];
            place[count++] = u;
        }
    struct core with = core_new(scratch, count, options, c->work);
    for (int32_t k = 0; k < count; k++) {
        with.own[k] =
            *core_pair(c, v, place[k]) ? own_with(scratch, c, v, i, place[k]) : c->own[place[k]];
        for (int32_t j = k + 1; j < count; j++)
            *core_pair(&with, k, j) = *core_pair(c, place[k], place[j]);
    }
    work_add(c->work, (double)count * count);
    return with;
}

static double least_alone(const struct core *c)
{
    double sum = 0;
    for (int32_t v = 0; v < c->variables; v++) {
        double least = INFINITY;
        for (int32_t i = 0; !c->gone[v] && i < c->options[v]; i++)
            least = c->own[v][i] < least ? c->own[v][i] : least;
        sum += c->gone[v] ? 0 : least;
    }
    return sum;
}

static double eliminate_each(const struct core *c, int32_t v, int32_t *option)
{
    double best = INFINITY;
    for (int32_t i = 0; i < c->options[v] && !work_over(c->work); i++) {
        struct arena *scratch = arena_new();
        int32_t *place = ARENA_ARRAY(scratch, int32_t, (size_t)c->variables);
        int32_t *own = ARENA_ARRAY(scratch, int32_t, (size_t)c->variables);
        struct core with = core_with(scratch, c, v, i, place);
        double least = c->own[v][i];
        if (least + least_alone(&with) < best)
            least += core_eliminate(scratch, &with, own);
        else
            least = INFINITY;
        if (least < best || (i == 0 && isinf(best))) {
            best = least;
            option[v] = i;
            for (int32_t k = 0; k < with.variables; k++)
                option[place[k]] = own[k];
        }
        arena_free(scratch);
    }
    return best;
}

/* Eliminates variables but one by (1), as far as that goes; returns the first that has three neighbours or more, -1:
 * none is left. */
static int32_t eliminate_easy(struct arena *scratch, struct core *core, int32_t keep,
                              struct traces *traces, double *sum)
{
    int32_t v;
    while ((v = next_variable(core, keep)) >= 0 && neighbours(core, v)->count <= 2) {
        const struct core_near *near = neighbours(core, v);
        work_add(core->work, work_of(core, v, near) + 8.0 * core->variables);
        struct trace t = {v, near->count, {near->first[0], near->first[1]}, NULL};
        if (near->count == 2)
            eliminate_between(scratch, core, &t);
        else if (near->count == 1)
            eliminate_leaf(scratch, core, &t);
        else
            *sum += eliminate_alone(scratch, core, &t);
        leave(core, v);
        array_push(scratch, traces, t);
    }
    return v;
}

double core_eliminate(struct arena *scratch, struct core *core, int32_t *option)
{
    struct traces traces = {0};
    double sum = 0;
    int32_t hard = eliminate_easy(scratch, core, -1, &traces, &sum);
    if (hard >= 0)
        sum += eliminate_each(core, hard, option);
    follow(core, &traces, option);
    return sum;
}

static int32_t place_of(const int32_t *place, int32_t count, int32_t v)
{
    int32_t at = 0;
    while (at < count && place[at] != v)
        at++;
    return at;
}

/* What core_eliminate_but finds, where one more variable takes its option i; what is better is kept. */
static void keep_with(const struct core *c, int32_t v, int32_t i, int32_t keep, double *least,
                      int32_t **option)
{
    struct arena *scratch = arena_new();
    size_t options = (size_t)c->options[keep], variables = (size_t)c->variables;
    double *sum = ARENA_ARRAY(scratch, double, options), most = 0;
    int32_t **own = ARENA_ARRAY(scratch, int32_t *, options);
    int32_t *place = ARENA_ARRAY(scratch, int32_t, variables);
    struct core with = core_with(scratch, c, v, i, place);
    for (size_t k = 0; k < options; k++) {
        own[k] = ARENA_ARRAY(scratch, int32_t, variables);
        most = least[k] > most ? least[k] : most;
    }
    if (c->own[v][i] + least_alone(&with) < most)
        core_eliminate_but(scratch, &with, place_of(place, with.variables, keep), sum, own);
    else
        options = 0;
    for (size_t k = 0; k < options; k++) {
        if (c->own[v][i] + sum[k] >= least[k])
            continue;
        least[k] = c->own[v][i] + sum[k];
        option[k][v] = i;
        for (int32_t u = 0; u < with.variables; u++)
            option[k][place[u]] = own[k][u];
    }
    arena_free(scratch);
}

void core_eliminate_but(struct arena *scratch, struct core *core, int32_t keep, double *least,
                        int32_t **option)
{
    struct traces traces = {0};
    double sum = 0;
    int32_t hard = eliminate_easy(scratch, core, keep, &traces, &sum);
    for (int32_t k = 0; k < core->options[keep]; k++) {
        least[k] = hard < 0 ? core->own[keep][k] : INFINITY;
        option[k][keep] = k;
    }
    for (int32_t i = 0; hard >= 0 && i < core->options[hard] && !work_over(core->work); i++)
        keep_with(core, hard, i, keep, least, option);
    for (int32_t k = 0; k < core->options[keep]; k++) {
        least[k] += sum;
        follow(core, &traces, option[k]);
    }
}

double core_work(struct core *c)
{
    static double mark[1] = {0};
    double work = 0, times = 1;
    for (int32_t v; (v = next_variable(c, -1)) >= 0;) {
        const struct core_near *near = neighbours(c, v);
        if (near->count > 2)
            times *= c->options[v];
        else
            work += times * work_of(c, v, near);
        if (near->count == 2 && !*core_pair(c, near->first[0], near->first[1]))
            *core_pair(c, near->first[0], near->first[1]) = mark;
        leave(c, v);
    }
    return work;
}
