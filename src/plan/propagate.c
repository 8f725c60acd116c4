/* propagate.c - splits of the operators that a strategy tree leaves open, from those that it gives (Proteus, section VII).
 *
 * Of all completions of the given splits the one of least time is taken:
 *
 *   T = sum over operators of seconds(option)
 *     + sum over inputs of reshard(option of the producer, option of the reader) / sharers           (1)
 *
 * by dynamic programming over the operators in their order. A state is what the operators have chosen whose outputs are still
 * to be read; of the ways to a state the shortest is kept.
 *
 *   I1  A given split stays as it is.
 *   I2  Products that read the same tensor share its reshard, as in the graph (compile/uses.h, I3): each counts its share.
 *   I3  With more than MOST_STATES states the cheapest are kept: then the answer may not be the least.
 *   I4  Ties go to the option that comes first.
 *   I5  Weights that are tied lie alike where the options allow it: else both operators would hold them.
 */
#include "plan/propagate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/file.h"
#include "plan/room.h"

enum { MOST_STATES = 512, MOST_LIVE = 32 };

struct walk_way {
    double seconds;
    int32_t before; /* among the states before this operator */
    uint8_t option;
    uint8_t live[MOST_LIVE]; /* the options of those that are still to be read */
};
/* What is left of a state when the walk has gone on. */
struct way_taken {
    int32_t before;
    uint8_t option;
};

struct propagation {
    struct plan *plan;
    struct arena *scratch;
    struct split_options **options; /* per instance */
    int64_t *input_first;           /* per instance: its inputs in `source` */
    int64_t *source;                /* per input: an instance, -1: the model's own */
    int64_t *last_reader;           /* per instance, -1: nobody */
    int32_t *products;              /* per instance: products that read it */
    /* The walk. */
    int64_t live[MOST_LIVE];
    int32_t lives;
    struct walk_way *way, *next;
    int32_t ways;
    struct way_taken **prints; /* per instance */
};

/* ---- inputs ---------------------------------------------------------------------------------- */

static bool is_product(const struct op *op)
{
    return op->kind == OP_LINEAR;
}

static const struct op *op_at(const struct plan *plan, int64_t instance)
{
    return &plan->model->op[plan->instance[instance].op];
}

static void find_inputs(struct propagation *p)
{
    const struct plan *plan = p->plan;
    struct instance_index index = plan_index(p->scratch, plan);
    size_t instances = (size_t)plan->instances;
    int64_t inputs = 0;
    p->input_first = ARENA_ARRAY(p->scratch, int64_t, instances + 1);
    p->last_reader = ARENA_ARRAY(p->scratch, int64_t, instances);
    p->products = ARENA_ARRAY(p->scratch, int32_t, instances);
    memset(p->last_reader, -1, instances * sizeof *p->last_reader);
    for (int64_t i = 0; i < plan->instances; i++)
        p->input_first[i + 1] = inputs += op_at(plan, i)->inputs;
    p->source = ARENA_ARRAY(p->scratch, int64_t, (size_t)inputs);
    for (int64_t i = 0; i < plan->instances; i++)
        for (int32_t k = 0; k < op_at(plan, i)->inputs; k++) {
            int64_t source =
                instance_source(&index, &plan->instance[i], op_at(plan, i)->input[k].tensor);
            p->source[p->input_first[i] + k] = source;
            if (source < 0)
                continue;
            p->last_reader[source] = i;
            p->products[source] += is_product(op_at(plan, i));
        }
    for (int64_t i = 0; i < plan->instances; i++) {
        int64_t owner = plan_weight_owner(plan, i);
        if (owner < i && p->last_reader[owner] < i)
            p->last_reader[owner] = i; /* for I5 */
    }
}

static const double *joint_of(struct propagation *p, const struct split_options *from,
                              struct split_options *to, int32_t operand)
{
    for (struct option_joint *j = to->joints; j; j = j->next)
        if (j->from == from && j->operand == operand)
            return j->seconds;
    struct option_joint *j = ARENA_NEW(p->scratch, struct option_joint);
    *j = (struct option_joint){.from = from, .operand = operand, .next = to->joints};
    j->seconds = ARENA_ARRAY(p->scratch, double, (size_t)from->count *(size_t)to->count);
    for (int32_t a = 0; a < from->count; a++)
        for (int32_t b = 0; b < to->count; b++)
            j->seconds[a * to->count + b] =
                joint_seconds(p->plan, from, &from->option[a], to, &to->option[b], operand);
    to->joints = j;
    return j->seconds;
}

/* ---- the walk (1) ---------------------------------------------------------------------------- */

/* I5: more than any reshard takes, per way in which tied weights do not lie alike. */
static const double APART_S = 1e3;

static const double *tie_of(struct propagation *p, const struct split_options *from,
                            struct split_options *to)
{
    enum { TIE = -1 }; /* in place of an operand */
    for (struct option_joint *j = to->joints; j; j = j->next)
        if (j->from == from && j->operand == TIE)
            return j->seconds;
    struct option_joint *j = ARENA_NEW(p->scratch, struct option_joint);
    *j = (struct option_joint){.from = from, .operand = TIE, .next = to->joints};
    j->seconds = ARENA_ARRAY(p->scratch, double, (size_t)from->count *(size_t)to->count);
    for (int32_t a = 0; a < from->count; a++)
        for (int32_t b = 0; b < to->count; b++) {
            struct choice one = {.split = from->option[a].split},
                          other = {.split = to->option[b].split};
            bool alike = weights_alike(from->op, &one, to->op, &other, p->plan->step_samples);
            j->seconds[a * to->count + b] = alike ? 0 : APART_S;
        }
    to->joints = j;
    return j->seconds;
}

/* One input of the current operator, or its tied weights: where the other one is among the live ones, and what joins them. */
struct incoming {
    int32_t place;
    const double *seconds;
    double share; /* I2 */
};

static int32_t find_arrivals(struct propagation *p, int64_t instance, struct incoming *out)
{
    struct split_options *to = p->options[instance];
    int32_t count = 0;
    for (int32_t k = 0; k < to->op->inputs && k < MAX_KIND_INPUTS; k++) {
        int64_t source = p->source[p->input_first[instance] + k];
        for (int32_t place = 0; source >= 0 && place < p->lives; place++)
            if (p->live[place] == source)
                out[count++] = (struct incoming){place, joint_of(p, p->options[source], to, k),
                                                 is_product(to->op) ? p->products[source] : 1};
    }
    int64_t owner = plan_weight_owner(p->plan, instance);
    for (int32_t place = 0; owner != instance && place < p->lives; place++)
        if (p->live[place] == owner)
            out[count++] = (struct incoming){place, tie_of(p, p->options[owner], to), 1};
    return count;
}

/* Which of the live ones are read later: their places, in order. */
static int32_t find_survivors(struct propagation *p, int64_t instance, int32_t *place)
{
    int32_t count = 0;
    for (int32_t i = 0; i < p->lives; i++)
        if (p->last_reader[p->live[i]] > instance)
            place[count++] = i;
    return count;
}

static int by_state(const void *a, const void *b)
{
    const struct walk_way *x = a, *y = b;
    int order = memcmp(x->live, y->live, sizeof x->live);
    if (order)
        return order;
    if (x->seconds != y->seconds)
        return x->seconds < y->seconds ? -1 : 1;
    if (x->option != y->option)
        return x->option < y->option ? -1 : 1;
    return (x->before > y->before) - (x->before < y->before);
}

static int by_seconds(const void *a, const void *b)
{
    const struct walk_way *x = a, *y = b;
    if (x->seconds != y->seconds)
        return x->seconds < y->seconds ? -1 : 1;
    return by_state(a, b);
}

/* Of equal states the cheapest, and of all at most so many (I3). */
static int32_t prune(struct walk_way *way, int32_t count)
{
    int32_t left = 0;
    qsort(way, (size_t)count, sizeof *way, by_state);
    for (int32_t i = 0; i < count; i++)
        if (left == 0 || memcmp(way[left - 1].live, way[i].live, sizeof way[i].live) != 0)
            way[left++] = way[i];
    qsort(way, (size_t)left, sizeof *way, by_seconds);
    return left < MOST_STATES ? left : MOST_STATES;
}

static struct walk_way extend(const struct walk_way *from, int32_t number,
                              const struct split_option *option, int32_t chosen)
{
    return (struct walk_way){from->seconds + option->seconds, number, (uint8_t)chosen, {0}};
}

static void step(struct propagation *p, int64_t instance)
{
    struct split_options *o = p->options[instance];
    struct incoming arrival[MAX_KIND_INPUTS + 1];
    int32_t survivor[MOST_LIVE];
    int32_t arrivals = find_arrivals(p, instance, arrival);
    int32_t survivors = find_survivors(p, instance, survivor), count = 0;
    bool stays = p->last_reader[instance] > instance && survivors < MOST_LIVE;
    for (int32_t w = 0; w < p->ways; w++)
        for (int32_t c = 0; c < o->count; c++) {
            struct walk_way next = extend(&p->way[w], w, &o->option[c], c);
            for (int32_t k = 0; k < arrivals; k++)
                next.seconds +=
                    arrival[k].seconds[p->way[w].live[arrival[k].place] * o->count + c] /
                    arrival[k].share;
            for (int32_t k = 0; k < survivors; k++)
                next.live[k] = p->way[w].live[survivor[k]];
            if (stays)
                next.live[survivors] = (uint8_t)c;
            p->next[count++] = next;
        }
    p->ways = prune(p->next, count);
    for (int32_t k = 0; k < survivors; k++)
        p->live[k] = p->live[survivor[k]];
    p->lives = survivors;
    if (stays)
        p->live[p->lives++] = instance;
    p->prints[instance] = ARENA_ARRAY(p->scratch, struct way_taken, (size_t)p->ways);
    for (int32_t w = 0; w < p->ways; w++)
        p->prints[instance][w] = (struct way_taken){p->next[w].before, p->next[w].option};
    memcpy(p->way, p->next, (size_t)p->ways * sizeof *p->way);
}

static weft_status take_best(struct propagation *p)
{
    weft_status status = WEFT_OK;
    int32_t at = 0; /* the cheapest is first */
    for (int64_t i = p->plan->instances - 1; i >= 0; i--) {
        const struct way_taken *print = &p->prints[i][at];
        struct choice choice = *plan_choice(p->plan, i);
        choice.split = p->options[i]->option[print->option].split;
        TRY(plan_choose(p->plan, i, &choice));
        at = print->before;
    }
done:
    return status;
}

static void walk(struct propagation *p)
{
    p->way = ARENA_ARRAY(p->scratch, struct walk_way, MOST_STATES);
    p->next = ARENA_ARRAY(p->scratch, struct walk_way, MOST_STATES * MOST_OPTIONS);
    p->prints = ARENA_ARRAY(p->scratch, struct way_taken *, (size_t)p->plan->instances);
    p->way[0] = (struct walk_way){0};
    p->ways = 1;
    for (int64_t i = 0; i < p->plan->instances; i++)
        step(p, i);
}

weft_status file_propagate(struct plan_file *file)
{
    struct plan *plan = file->plan;
    struct option_space space = {.plan = plan, .scratch = file->scratch, .file = file};
    struct propagation p = {.plan = plan, .scratch = file->scratch};
    bool any = false;
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < plan->instances; i++)
        any |= file->split_at[i] != NULL;
    if (!any)
        return doc_error(doc_get(file->doc, "propagate"),
                         "such as tree: {layers.*.attn.qkv: {split: out:8}}",
                         "'propagate' needs a split of an operator to begin with");
    if (file->root.degrees)
        return doc_error(file->root.degrees,
                         "leave one of them out; 'stages' says how many there are",
                         "'degrees' and 'propagate' both say how operators are split");
    TRY(find_options(&space));
    p.options = space.of;
    find_inputs(&p);
    walk(&p);
    TRY(take_best(&p));
done:
    return status;
}
