/* cp_kinds.c - kinds of context parallelism.
 *
 * Sequences are in cp parts everywhere but in attention, where each query meets keys of other parts. Of S positions and
 * H features of queries, of which keys and values have G each, a device of one layer's forward pass gets
 *
 *   ring      2 G S (cp - 1) / cp: keys and values come round, a part at a time, beside the attention of the part
 *             before (Ring Attention)
 *   gather    the same bytes, all of them before attention begins (Llama 3, section 3.3.2)
 *   a2a       (2 H + 2 G) S / cp (cp - 1) / cp: an all-to-all gives each device some heads of all positions, and
 *             another one takes them back (DeepSpeed Ulysses); cp divides the heads
 *   a2a+ring  an all-to-all among cp_heads neighbours, and rings of cp / cp_heads devices (USP; Megatron's
 *             a2a+p2p): cp_heads divides the heads and cp
 *
 * and backward twice that. In splits, seq:cp is the first two, head:cp the third, seq:cp/cp_heads head:cp_heads the
 * last; ring and gather differ in what overlaps (plan.h, OVERLAP_KEYS). */
#include "plan/plan.h"

static const struct {
    const char *name;
    int64_t heads; /* cp_heads; never 0, which leaves the kind open */
    bool ring;     /* what is not taken by heads goes round a ring */
} KINDS[] = {
    [CP_RING] = {"ring", 1, true},
    [CP_GATHER] = {"gather", 1, false},
    [CP_A2A] = {"a2a", CP_HEADS_ALL, true},
    [CP_A2A_RING] = {"a2a+ring", CP_HEADS_SOME, true},
};
_Static_assert(COUNT_OF(KINDS) == CP_KIND_COUNT, "a kind of context parallelism without a row");
const char CP_KIND_WORDS[] = "ring, gather, a2a or a2a+ring";

const char *cp_kind_name(enum cp_kind kind)
{
    return KINDS[kind].name;
}

bool cp_kind_from_name(const char *name, enum cp_kind *out)
{
    int at = NAME_INDEX(name, KINDS);
    *out = at < 0 ? CP_RING : (enum cp_kind)at;
    return at >= 0;
}

void cp_kind_set(enum cp_kind kind, struct degrees *degrees)
{
    unsigned overlap = degrees->has_overlap ? degrees->overlap : OVERLAP_ALL;
    bool ring = KINDS[kind].ring;
    degrees->cp_heads = KINDS[kind].heads;
    degrees->overlap = ring ? overlap | OVERLAP_KEYS : overlap & ~(unsigned)OVERLAP_KEYS;
    degrees->has_overlap |= degrees->overlap != OVERLAP_ALL;
}

enum cp_kind cp_kind_of(const struct degrees *degrees, unsigned overlap)
{
    if (degrees->cp_heads > 1)
        return degrees->cp_heads == degrees->cp ? CP_A2A : CP_A2A_RING;
    return overlap & OVERLAP_KEYS ? CP_RING : CP_GATHER;
}

/* Of some, but not all, devices of cp the most that the key/value heads, or else the query heads, of all attention
 * allow beside tp. */
static int64_t most_heads(const struct degrees *d, const struct model *model)
{
    int64_t heads = 0;
    for (int32_t i = 0; i < model->ops; i++) {
        const struct op *op = &model->op[i];
        int head = op_find_dim(op->kind, DIM_HEAD), group = op_find_dim(op->kind, DIM_GROUP);
        if (op->kind != OP_ATTENTION || op->place == PLACE_TOWER)
            continue;
        bool few = op->size[head] % (2 * d->tp) != 0;
        heads = common_divisor(few ? op->size[head] * op->size[group] : op->size[head], heads);
    }
    int64_t most = d->cp / 2;
    while (most > 1 && (d->cp % most || heads % (most * d->tp)))
        most--;
    return most;
}

int64_t cp_heads_of(const struct degrees *degrees, const struct model *model)
{
    if (degrees->cp_heads == CP_HEADS_ALL)
        return degrees->cp;
    if (degrees->cp_heads == CP_HEADS_SOME)
        return degrees->cp > 1 ? most_heads(degrees, model) : 1;
    return degrees->cp_heads > 1 ? degrees->cp_heads : 1;
}
