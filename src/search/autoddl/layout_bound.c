/* layout_bound.c - a lower bound of a reshard, without finding its steps.
 *
 * A device that holds a share h of a tensor's N elements, wants a share w of them and already has a
 * share i of what it wants must receive, on average over devices,
 *
 *   N * (w - i)                                                                                (1)
 *
 * elements, whatever the steps. Both layouts are cut at each other's digits (compile/reshard.c).
 * For a mesh digit of degree d, an element is held by one value in d if it was split, wanted by one
 * in d if it is split afterwards, and by the same value where two different splits of the elements
 * agree, which is so for one element in d:
 *
 *   i = product of 1, 1/d and 1/d^2                                                            (2)
 *
 * The same holds for nodes, each with all that its devices hold: digits within a node are left out.
 *
 * For a sum of n addends that c of p devices want, n - 1 messages bring the addends together at the
 * device where it is complete first, and one more completes it for each other device: per device
 *
 *   N * (n - 1 + c - 1) / p                                                                    (3)
 *
 *   I1  Splits that agree by way of others (a with b, b with a) are counted once; about splits that
 *       overlap in part nothing is known, and 1/d is used. So i is never too small.
 *   I2  A partial sum counts as held; of n addends, n - 1 are sent, and devices with copies may
 *       each take a share of that.
 *   I3  By degrees alone, i is at most what a device holds, and at most what it wants.
 *   I4  (3) is used only where nothing but a floor is asked for, so that the options a search looks
 *       at, and with them the end of a descent, stay the same.
 */
#include <math.h>

#include "search/autoddl/layout_room.h"

/* ---- (2) ------------------------------------------------------------------------------------- */

enum { MOST_SPLITS = 4 * MAX_LAYOUT_DIGITS };

/* Splits of the elements that agree with each other, as a forest. */
struct agreeing_splits {
    struct layout_digit split[MOST_SPLITS];
    int32_t parent[MOST_SPLITS], splits;
};

static int32_t split_number(struct agreeing_splits *a, int64_t degree, int64_t hold)
{
    for (int32_t i = 0; i < a->splits; i++)
        if (a->split[i].degree == degree && a->split[i].hold == hold)
            return i;
    a->split[a->splits] = (struct layout_digit){degree, hold};
    a->parent[a->splits] = a->splits;
    return a->splits++;
}

/* Whether one of the splits overlaps another in part (I1). */
static bool overlaps(const struct agreeing_splits *a, int32_t at)
{
    const struct layout_digit *own = &a->split[at];
    for (int32_t i = 0; i < a->splits; i++) {
        const struct layout_digit *other = &a->split[i];
        bool apart = own->hold % (other->hold * other->degree) == 0 ||
                     other->hold % (own->hold * own->degree) == 0;
        if (i != at && !apart)
            return true;
    }
    return false;
}

static int32_t root_of(const struct agreeing_splits *a, int32_t at)
{
    while (a->parent[at] != at)
        at = a->parent[at];
    return at;
}

/* The share of elements for which two splits of equal degree agree. */
static double agree(struct agreeing_splits *a, int64_t degree, int64_t before, int64_t after)
{
    if (before == after)
        return 1;
    int32_t one = split_number(a, degree, before), two = split_number(a, degree, after);
    if (overlaps(a, one) || overlaps(a, two))
        return 1;
    one = root_of(a, one);
    two = root_of(a, two);
    if (one == two)
        return 1;
    a->parent[one] = two;
    return 1 / (double)degree;
}

/* A layout's digits from the innermost on; the first may be cut already. */
struct inward {
    const struct layout *layout;
    int64_t left, degree, hold;
};

static void advance(struct inward *at)
{
    at->degree = 1;
    at->hold = HOLD_COPY;
    if (at->left > 0) {
        at->degree = at->layout->digit[--at->left].degree;
        at->hold = at->layout->digit[at->left].hold;
    }
}

static int64_t take(struct inward *at, int64_t degree)
{
    int64_t hold = at->hold;
    at->degree /= degree;
    at->hold = hold > 0 ? hold * degree : hold;
    if (at->degree == 1)
        advance(at);
    return hold;
}

/* w and i, for devices and for nodes. */
struct shares {
    double wanted, there, node_wanted, node_there;
};

static void add_digit(struct agreeing_splits *a, int64_t degree, int64_t before, int64_t after,
                      double *wanted, double *there)
{
    double d = (double)degree;
    if (after > 0)
        *wanted /= d;
    if (before > 0 || after > 0)
        *there /= d;
    if (before > 0 && after > 0)
        *there *= agree(a, degree, before, after);
}

/* False: the layouts have no common digits. A node has `within` devices. */
static bool find_shares(const struct layout *from, const struct layout *to, int64_t within,
                        struct shares *out)
{
    struct inward f = {.layout = from, .left = from->digits};
    struct inward t = {.layout = to, .left = to->digits};
    struct agreeing_splits devices = {.splits = 0}, nodes = {.splits = 0};
    int64_t stride = 1;
    *out = (struct shares){1, 1, 1, 1};
    advance(&f);
    advance(&t);
    while (f.degree > 1 || t.degree > 1) {
        int64_t degree = f.degree < t.degree ? f.degree : t.degree;
        if (stride < within && stride * degree > within)
            degree = within / stride;
        if (degree < 2 || f.degree % degree || t.degree % degree)
            return false;
        int64_t before = take(&f, degree), after = take(&t, degree);
        add_digit(&devices, degree, before, after, &out->wanted, &out->there);
        if (stride >= within)
            add_digit(&nodes, degree, before, after, &out->node_wanted, &out->node_there);
        stride *= degree;
    }
    return true;
}

/* ---- a reshard ------------------------------------------------------------------------------- */

/* What a bound needs of a layout, without its node's shares. */
static struct layout_degrees degrees_of(const struct layout *layout)
{
    struct layout_degrees d = {.elements = layout->elements,
                               .local = (double)layout_local(layout),
                               .addends = layout_partial_degree(layout),
                               .copies = 1,
                               .devices = 1};
    for (int64_t i = 0; i < layout->digits; i++) {
        d.copies *= layout->digit[i].hold == HOLD_COPY ? (double)layout->digit[i].degree : 1;
        d.devices *= (double)layout->digit[i].degree;
    }
    return d;
}

/* I2, plus the increase of what a device holds. */
static double least_volume(const struct layout_problem *p, const struct layout_degrees *from,
                           const struct layout_degrees *to)
{
    double have = from->local, want = to->local, copies = from->copies, addends = from->addends;
    double part = (double)to->elements / (double)from->elements;
    double sums = (addends - 1) / addends * have / copies * (part < 1 ? part : 1);
    if (p->work->floor_only && addends > 1 && to->elements == from->elements && to->addends == 1)
        sums += want - (double)to->elements / from->devices; /* (3) */
    /* 0 where `from` is only a part of the tensor. */
    double more = to->elements > from->elements ? 0 : want - have;
    return more > sums ? more : sums;
}

/* The share of the elements that a node's devices have together; `unknown` if nodes end inside a
 * split's degree. */
static double node_share(const struct layout *layout, int64_t within, double unknown)
{
    double share = 1;
    int64_t stride = 1;
    for (int64_t i = layout->digits - 1; i >= 0; i--) {
        int64_t degree = layout->digit[i].degree, inside = 1;
        if (stride < within)
            inside = stride * degree > within ? within / stride : degree;
        if (degree % inside || (stride < within && within % (stride * inside)))
            return unknown;
        if (layout->digit[i].hold > 0)
            share /= (double)(degree / inside);
        stride *= degree;
    }
    return share;
}

struct layout_degrees layout_degrees_of(const struct layout_problem *p, const struct layout *layout)
{
    int64_t within = p->about.cluster->node.devices;
    struct layout_degrees d = degrees_of(layout);
    /* Where a share is unknown, nothing counts as wanted, and everything as there. */
    d.node_wanted = node_share(layout, within, 0);
    d.node_there = node_share(layout, within, 1);
    return d;
}

double layout_least_between(const struct layout_problem *p, const struct layout_degrees *from,
                            const struct layout_degrees *to, int64_t element_bytes)
{
    double volume = fmax(0, least_volume(p, from, to)), into_node = 0;
    if (from->elements == to->elements)
        into_node = fmax(0, (double)to->elements * (to->node_wanted - from->node_there));
    if (layout_by_volume(p))
        return volume;
    return (double)element_bytes *
           fmax(volume * p->work->byte_ns, into_node * p->work->node_byte_ns);
}

double layout_least_by_degrees(const struct layout_problem *p, const struct layout *from,
                               const struct layout *to, int64_t element_bytes)
{
    struct layout_degrees before = layout_degrees_of(p, from), after = layout_degrees_of(p, to);
    return layout_least_between(p, &before, &after, element_bytes);
}

double layout_least_of_reshard(const struct layout_problem *p, const struct layout *from,
                               const struct layout *to, int64_t element_bytes)
{
    double elements = (double)to->elements, bytes = (double)element_bytes, into_node = 0;
    struct shares s;
    if (layout_equal(from, to))
        return 0;
    struct layout_degrees before = degrees_of(from), after = degrees_of(to);
    double volume = least_volume(p, &before, &after);
    if (from->elements == to->elements &&
        find_shares(from, to, p->about.cluster->node.devices, &s)) {
        volume = fmax(volume, elements * (s.wanted - s.there)); /* (1) */
        into_node = elements * (s.node_wanted - s.node_there);
    }
    if (layout_by_volume(p))
        return volume;
    return bytes * fmax(volume * p->work->byte_ns, into_node * p->work->node_byte_ns);
}

double layout_least_of_pair(void *context, int32_t edge, int32_t i, int32_t j)
{
    const struct layout_problem *p = context;
    const struct layout_uses *e = &p->work->edges.data[edge];
    const struct op *from = &p->about.model->op[e->a], *to = &p->about.model->op[e->b];
    const struct layout_laid *a = &p->work->laid[e->a], *b = &p->work->laid[e->b];
    double exposed = layout_is_product(to) ? p->work->exposed.reshards : 1, sum = 0;
    for (size_t u = 0; u < e->list.len; u++) {
        const struct layout_use *use = &e->list.data[u];
        int64_t bytes = element_bytes(to->input[use->operand].element, p->about.dtype);
        double least = layout_least_of_reshard(p, &a->output[i], &b->input[use->operand][j], bytes);
        double back = 0;
        if (op_wants_gradient(from) && to->input_grad)
            back = layout_least_of_reshard(p, &b->input_grad[use->operand][j], &a->output_grad[i],
                                           bytes);
        double left = fmax(0, back - p->work->alone[e->b][j].weights);
        sum += use->count * (least + (exposed == LAYOUT_BESIDE ? left : exposed * back));
    }
    return p->work->each * sum;
}
