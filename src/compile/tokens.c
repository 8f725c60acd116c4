/* tokens.c - how much a step sends that brings tokens to their experts, or back.
 *
 * Each token is for k of n experts, every choice equally likely. A place (a device, a node) with m of the experts is
 * among those of a token with the probability
 *
 *   p(m) = 1 - C(n - m, k) / C(n, k)                                                           (1)
 *
 * With d devices on N nodes a token goes, on its way to other devices,
 *
 *   to each expert              k (d - 1) / d times
 *   once to each device         (d - 1) p(n / d) times                                         (2)
 *   once to each node           (N - 1) p(n / N) times over the network, and inside the nodes as (2)  (3)
 *
 * If the router first chooses g of G groups of experts, a token is for no more places than these groups lie on:
 * with p' of k among the g n / G experts of these,
 *
 *   nodes <= g p'(n / G) max(1, N / G)                                                         (4)
 *
 * If experts are not chosen evenly, the fullest device takes and gives back as many times its even share as it has
 * (model/popularity.c), and the others wait for it.
 */
#include "compile/build.h"

/* (1), with a choice among `experts`. */
static double is_among(double experts, double here, int64_t k)
{
    double none = 1;
    for (int64_t i = 0; i < k; i++)
        none *= (experts - here - (double)i) / (experts - (double)i);
    return none > 0 ? 1 - none : 1;
}

/* Nodes that a token is for, of all `nodes`. */
static double nodes_of_token(const struct op *op, double experts, double nodes)
{
    double all = nodes * is_among(experts, experts / nodes, op->top_k);
    double groups = (double)op->routing.groups, chosen = (double)op->routing.group_top_k;
    if (groups <= 1 || chosen < 1 || chosen * experts / groups < (double)op->top_k)
        return all;
    double size = experts / groups;
    double limited = chosen * is_among(chosen * size, size, op->top_k) *
                     (nodes > groups ? nodes / groups : 1); /* (4) */
    return limited < all ? limited : all;
}

static int64_t nodes_of(const struct cluster *cluster, const struct group *group)
{
    int64_t nodes = 0, last = -1;
    for (int64_t i = 0; i < group_size(group); i++) {
        int64_t node = group_device(group, i) / cluster->node.devices;
        nodes += node != last;
        last = node;
    }
    return nodes;
}

/* The operator that says where tokens go: the dispatch before experts, or the combine after them. */
static const struct op *sender_of(const struct build *b, const struct use *use, int64_t *devices)
{
    const struct op *from = laid_of(b, use->source)->op, *to = laid_of(b, use->reader)->op;
    bool away = from->kind == OP_DISPATCH;
    if (!away && to->kind != OP_COMBINE)
        return NULL;
    *devices =
        split_degree(&plan_choice(b->plan, away ? use->reader : use->source)->split, DIM_EXPERT);
    return away ? from : to;
}

struct token_volume token_volume(const struct build *b, const struct use *use,
                                 const struct group *group)
{
    int64_t devices = 1;
    const struct op *op = sender_of(b, use, &devices);
    if (!op || devices < 2)
        return (struct token_volume){1, 0};
    bool away = op->kind == OP_DISPATCH;
    double fullest = op_fullest(laid_of(b, away ? use->reader : use->source)->op, devices);
    enum token_copies copies = plan_token_copies(&b->plan->software, op);
    if (copies == COPIES_EXPERTS)
        return (struct token_volume){fullest, 0};
    double experts = (double)op->size[op_find_dim(op->kind, DIM_EXPERT)], d = (double)devices;
    double to_device = is_among(experts, experts / d, op->top_k);
    struct token_volume volume = {fullest * d / (double)op->top_k * to_device,
                                  0}; /* (2) of k (d - 1) / d */
    double nodes = (double)nodes_of(b->plan->cluster, group);
    if (copies == COPIES_NODES && nodes > 1 && nodes < d) {
        double far = nodes_of_token(op, experts, nodes) * (nodes - 1) / nodes; /* (3) */
        volume.crossing = far / ((d - d / nodes) * to_device);
    }
    return volume;
}
