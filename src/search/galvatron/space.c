/* space.c - the decision trees of space.h, grown level by level. */
#include "search/galvatron/space.h"

/* ---- the table of spaces --------------------------------------------------------------------- */

enum {
    DP = 1 << WAY_DP,
    SDP = 1 << WAY_SDP,
    TP = 1 << WAY_TP,
    PAPER = DP | SDP | TP,
    EVERY = (1 << WAY_COUNT) - 1,
    MOST_PP = INT32_MAX
};

static const struct space SPACES[] = {
    {"dp", "data parallelism (PyTorch DDP)", DP, 1, 1, 0, 0},
    {"tp", "tensor parallelism (Megatron)", TP, 1, 1, 0, 0},
    {"pp", "pipeline parallelism (GPipe)", 0, 0, 0, 0, 0},
    {"sdp", "sharded data parallelism (FSDP, ZeRO-3)", SDP, 1, 1, 0, 0},
    {"3d", "2-way PP and TP, the rest DP (DeepSpeed 3D)", DP | TP, 2, 2, 2, SPACE_TP_INSIDE},
    {"dp+tp", "Galvatron of DP and TP", DP | TP, 1, 1, 0, 0},
    {"dp+pp", "Galvatron of DP and PP", DP, 1, MOST_PP, 0, 0},
    {"galvatron", "Galvatron-Base without recompute", PAPER, 1, MOST_PP, 0, 0},
    {"base", "Galvatron-Base", PAPER, 1, MOST_PP, 0, SPACE_RECOMPUTE},
    {"bi-obj", "Galvatron-BMW without recompute", PAPER, 1, MOST_PP, 0, SPACE_BALANCE},
    {"bmw", "Galvatron-BMW", PAPER, 1, MOST_PP, 0, SPACE_RECOMPUTE | SPACE_BALANCE},
    {"weft", "and ZeRO-1, ZeRO-2, sequence, context and expert parallelism", EVERY, 1, MOST_PP, 0,
     SPACE_RECOMPUTE | SPACE_BALANCE | SPACE_ZERO_1 | SPACE_ZERO_2 | SPACE_SEQUENCE},
};

const struct space *space_find(const char *name)
{
    int at = NAME_INDEX(name, SPACES);
    return at < 0 ? NULL : &SPACES[at];
}

size_t space_all(const struct space **out)
{
    *out = SPACES;
    return COUNT_OF(SPACES);
}

void space_pp_degrees(struct arena *keep, const struct space *space, int64_t devices,
                      struct pp_degrees *out)
{
    int64_t least = space->least_pp ? space->least_pp : devices;
    int64_t most = space->most_pp ? space->most_pp : devices;
    for (int64_t pp = least; pp <= most && pp <= devices; pp++)
        if (devices % pp == 0)
            array_push(keep, out, pp);
}

/* ---- trees ----------------------------------------------------------------------------------- */

/* A tree that grows: the space, the levels so far, and where finished strategies go. */
struct tree {
    struct arena *keep;
    const struct space *space;
    struct strategy strategy;
    struct strategies *out;
};

static bool has(const struct strategy *strategy, enum way way)
{
    return strategy_degree(strategy, way) > 1;
}

/* I5: whether a way may be inside the ways above it, if CP or EP is used. */
static bool in_usual_order(const struct strategy *above, enum way way)
{
    static const int DEPTH[WAY_COUNT] = {
        [WAY_DP] = 0, [WAY_SDP] = 0, [WAY_EP] = 1, [WAY_CP] = 2, [WAY_TP] = 3};
    bool own = way == WAY_CP || way == WAY_EP || has(above, WAY_CP) || has(above, WAY_EP);
    for (int32_t i = 0; own && i < above->levels; i++)
        if (DEPTH[above->level[i].way] > DEPTH[way])
            return false;
    return true;
}

static bool may_nest(const struct tree *tree, enum way way, int64_t degree, int64_t rest)
{
    const struct strategy *above = &tree->strategy;
    unsigned flags = tree->space->flags;
    if (!(tree->space->ways & 1U << way) || has(above, way)) /* I1 */
        return false;
    if (!(flags & SPACE_MIX) &&
        ((way == WAY_DP && has(above, WAY_SDP)) || (way == WAY_SDP && has(above, WAY_DP)))) /* I3 */
        return false;
    if (!in_usual_order(above, way))
        return false;
    if (way == WAY_TP)
        return (!tree->space->tp || degree == tree->space->tp) &&
               (!(flags & SPACE_TP_INSIDE) || degree == rest);
    return true;
}

/* Flags that a finished tree may also carry (I4). */
static bool allows_shard(const struct tree *tree, int shard)
{
    static const unsigned FLAG_OF[] = {0, SPACE_ZERO_1, SPACE_ZERO_2};
    const struct strategy *strategy = &tree->strategy;
    if (has(strategy, WAY_SDP))
        return shard == 3;
    if (shard == 0)
        return true;
    return shard < 3 && (tree->space->flags & FLAG_OF[shard]) && has(strategy, WAY_DP);
}

static void finish(struct tree *tree)
{
    bool tp = has(&tree->strategy, WAY_TP);
    int most = tp && (tree->space->flags & SPACE_SEQUENCE) ? 1 : 0;
    if (tree->space->tp && !tp)
        return;
    for (int along = 0; along <= most; along++)
        for (int shard = 0; shard <= 3; shard++)
            if (allows_shard(tree, shard)) {
                struct strategy strategy = tree->strategy;
                strategy.sequence = along != 0;
                strategy.shard = (uint8_t)shard;
                array_push(tree->keep, tree->out, strategy);
            }
}

/* Adds one more level inside those of the tree, over the `rest` devices of each of their groups. By
 * I1 the depth is limited: every way once. */
static void grow(struct tree *tree, int64_t rest)
{
    if (rest == 1) {
        finish(tree);
        return;
    }
    for (int way = 0; way < WAY_COUNT; way++)
        for (int64_t degree = 2; degree <= rest; degree++) {
            if (rest % degree || !may_nest(tree, (enum way)way, degree, rest))
                continue;
            tree->strategy.level[tree->strategy.levels++] =
                (struct level){(enum way)way, (int32_t)degree};
            grow(tree, rest / degree);
            tree->strategy.levels--;
        }
}

void space_strategies(struct arena *keep, const struct space *space, int64_t group,
                      struct strategies *out)
{
    struct tree tree = {.keep = keep, .space = space, .out = out};
    size_t first = out->len;
    grow(&tree, group);
    size_t plain = out->len;
    for (size_t i = first; i < plain && (space->flags & SPACE_RECOMPUTE); i++) {
        struct strategy strategy = out->data[i];
        strategy.recompute = true;
        array_push(keep, out, strategy);
    }
    for (size_t l = 0; l < COUNT_OF(space->list); l++)
        for (size_t i = first; i < plain && space->list[l]; i++) {
            struct strategy strategy = out->data[i];
            strategy.recompute = true;
            strategy.modules = space->list[l];
            array_push(keep, out, strategy);
        }
}

/* ---- strategies ------------------------------------------------------------------------------ */

int64_t strategy_devices(const struct strategy *strategy)
{
    int64_t devices = 1;
    for (int32_t i = 0; i < strategy->levels; i++)
        devices *= strategy->level[i].degree;
    return devices;
}

int64_t strategy_degree(const struct strategy *strategy, enum way way)
{
    for (int32_t i = 0; i < strategy->levels; i++)
        if (strategy->level[i].way == way)
            return strategy->level[i].degree;
    return 1;
}

bool strategy_equal(const struct strategy *a, const struct strategy *b)
{
    bool same = a->levels == b->levels && a->shard == b->shard && a->recompute == b->recompute &&
                a->modules == b->modules && a->sequence == b->sequence;
    for (int32_t i = 0; same && i < a->levels; i++)
        same = a->level[i].way == b->level[i].way && a->level[i].degree == b->level[i].degree;
    return same;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* "4f*"; the empty text if the way is not used. */
static const char *way_text(struct arena *keep, const struct strategy *strategy, enum way way)
{
    static const char STARS[] = "*****";
    static const char *const SHARDED[] = {"", "z1", "z2", "f"};
    _Static_assert(sizeof STARS - 1 >= WAY_COUNT, "a level without its stars");
    for (int32_t i = 0; i < strategy->levels; i++) {
        bool data = way == WAY_DP || way == WAY_SDP;
        if (strategy->level[i].way != way)
            continue;
        int stars = i ? strategy->levels - i : 0;
        int shard = way == WAY_SDP || strategy->shard < 3 ? strategy->shard : 0;
        return arena_printf(keep, "%d%s%.*s", (int)strategy->level[i].degree,
                            data ? SHARDED[shard] : "", stars, STARS);
    }
    return "";
}

const char *strategy_text(struct arena *keep, const struct strategy *strategy, int64_t pp)
{
    const char *way[WAY_COUNT];
    for (int i = 0; i < WAY_COUNT; i++)
        way[i] = way_text(keep, strategy, (enum way)i);
    bool dp = has(strategy, WAY_DP), sdp = has(strategy, WAY_SDP);
    return arena_printf(keep, "%lld-%s-%s%s%s%s%s%s%s%s%s", (long long)pp,
                        has(strategy, WAY_TP) ? way[WAY_TP] : "1", dp || sdp ? way[WAY_DP] : "1",
                        dp && sdp ? "+" : "", way[WAY_SDP], has(strategy, WAY_CP) ? "-cp" : "",
                        way[WAY_CP], has(strategy, WAY_EP) ? "-ep" : "", way[WAY_EP],
                        strategy->sequence ? "-sp" : "",
                        !strategy->recompute ? ""
                        : strategy->modules  ? "-m"
                                             : "-c");
}
