/* layout_classes.c - classes of options with equal degrees: a floor where options are many
 * (layout_floor.c, I7).
 *
 *   I1  Options of a class have the same degrees across nodes, and the same within them, in
 *       whatever order: they take the same on their own, and the lower bound of a reshard by
 *       degrees alone (layout_bound.c, I3) is the same from any option of one class to any of
 *       another. So a chain of classes is a chain of options in which each stands for all of its
 *       class.
 */
#include <math.h>

#include "search/autoddl/layout_floor.h"
#include "search/estimate/estimate.h"

/* With more pairs than this, a case is left to be solved. */
static const double MOST_PAIRS_OF_CLASSES = 6e6;

/* What all options of a class have in common. */
struct class_key {
    int64_t degree[DIM_COUNT + 1];
    /* The degree across nodes and the one inside a node; both are less than it where nodes divide it. */
    int64_t across[DIM_COUNT + 1], within[DIM_COUNT + 1];
    double pass, weights, least_update, memory;
};

static uint64_t class_hash(const struct bound *b, int32_t op, int32_t option)
{
    const struct split *split = &b->p->splits[op].data[option];
    const struct layout_alone *alone = &b->p->work->alone[op][option];
    int64_t stride = 1, node = b->p->about.cluster->node.devices;
    struct class_key key = {.pass = alone->pass,
                            .weights = alone->weights,
                            .least_update = alone->least_update,
                            .memory = alone->memory};
    for (int32_t d = 0; d <= DIM_COUNT; d++)
        key.degree[d] = key.across[d] = key.within[d] = 1;
    for (int32_t i = split->parts - 1; i >= 0; i--) {
        int64_t degree = split->part[i].degree, inside = stride < node ? node / stride : 1;
        inside = degree < inside ? degree : inside;
        key.degree[split->part[i].dim] *= degree;
        key.within[split->part[i].dim] *= inside;
        key.across[split->part[i].dim] *= degree / inside;
        stride *= degree;
    }
    return hash_bytes(&key, sizeof key, 0) | 1;
}
_Static_assert(sizeof(struct class_key) == 8 * (3 * (DIM_COUNT + 1) + 4), "a key with padding");

/* One option of each class, and the class of each remaining option. */
static struct bound by_class(const struct bound *b, int32_t **class)
{
    struct bound c = *b;
    size_t ops = (size_t)b->ops;
    c.by_degrees = true;
    c.pair = ARENA_ARRAY(b->scratch, struct pair, ops);
    c.before = ARENA_ARRAY(b->scratch, double *, ops);
    c.after = ARENA_ARRAY(b->scratch, double *, ops);
    c.count = ARENA_ARRAY(b->scratch, int32_t, ops);
    c.option = ARENA_ARRAY(b->scratch, int32_t *, ops);
    for (int32_t op = 0; op < b->ops; op++) {
        struct hash_map index = {0};
        c.pair[op] = b->pair[op];
        c.option[op] = ARENA_ARRAY(b->scratch, int32_t, (size_t)b->count[op]);
        class[op] = ARENA_ARRAY(b->scratch, int32_t, (size_t)b->count[op]);
        for (int32_t k = 0; k < b->count[op]; k++) {
            uint64_t hash = class_hash(b, op, b->option[op][k]);
            class[op][k] = (int32_t)hash_get(&index, hash);
            if (class[op][k] >= 0)
                continue;
            class[op][k] = c.count[op]++;
            c.option[op][class[op][k]] = b->option[op][k];
            *hash_at(&index, b->scratch, hash) = class[op][k];
        }
    }
    return c;
}

double floor_drop_classes(struct bound *b, double below)
{
    int32_t **class = ARENA_ARRAY(b->scratch, int32_t *, (size_t)b->ops);
    struct bound c = by_class(b, class);
    if (floor_all_pairs(&c) > MOST_PAIRS_OF_CLASSES)
        return -INFINITY;
    floor_fill_pairs(&c);
    double floor = floor_relax_chain(&c, below);
    for (int32_t op = 0; floor < below && op < b->ops; op++) {
        int32_t kept = 0;
        for (int32_t k = 0; k < b->count[op]; k++) {
            int32_t own = class[op][k];
            if (c.before[op][own] + c.after[op][own] - floor_priced(&c, op, own) -
                    floor_refund(&c) <
                below)
                b->option[op][kept++] = b->option[op][k];
        }
        b->count[op] = kept;
    }
    b->price = c.price;
    return floor;
}
