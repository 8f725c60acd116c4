/* room.h - inside the planner aceso: iterative bottleneck alleviation (Aceso, sections 3 and 4).
 *
 * A *config* is what the search compares: stages with their devices, parts with their operators, and
 * for each part a few *manners* (tp, sharding, ...), one after the other, and at most two levels of
 * recomputation.
 * It lowers to a plan (config_plan) and is judged without being lowered (judge).
 *
 *   fold.h        a model of many layers at the price of a few
 *   problem.c     what is asked
 *   config.c      configs: legality, hashes, beginnings, plans
 *   rows.c        manners as rows of choices, and their tables
 *   parts.c       what one part takes and holds
 *   judge.c       how long a config takes and what it holds
 *   recompute.c   the least recomputation that fits
 *   primitives.c  the table of reconfiguration primitives, and what each proposes
 *   moves.c       moving operators between stages
 *   tune.c        cuts, steps and degrees, operator by operator
 *   paint.c       manners inside a part
 *   pool.c        proposals made complete; what a search keeps of them
 *   search.c      hops, bottlenecks, restarts
 *   log.c         every iteration as JSON
 *   simulate.c    what the simulator says of the best, and what searches learn from it
 *   words.c       configs and reasons in words
 *   aceso.c             the planner: threads, turns, beginnings
 *
 *   I1  A config is legal when its plan passes plan_check: parts are not empty, devices of a stage
 *       lie in one node or are whole nodes, degrees divide.
 *   I2  A config is normal when no two of its representations mean the same plan; only normal
 *       configs are hashed.
 *   I3  Same problem, same seed: same answer, whatever the number of threads and whatever a judge
 *       was asked before. But for a budget in wall-clock time.
 */
#ifndef WEFT_SEARCH_ACESO_ROOM_H
#define WEFT_SEARCH_ACESO_ROOM_H

#include "search/aceso/aceso.h"
#include "search/aceso/fold.h"

/* ---- configs --------------------------------------------------------------------------------- */

/* Aceso, sections 5.1 (MaxHops) and its code: stage counts up to 16. */
enum { USUAL_HOPS = 7, USUAL_STAGES = 16 };
enum { FEW_DEVICES = 8 }; /* on no more, an iteration takes little time */
enum { MOST_STAGES = 64, MOST_LEVELS = 5, MOST_PIECES = 4 };
/* An embedding, layers of two kinds, and a head may each have a manner of their own. */
enum { MOST_MANNERS = 4, MOST_CHANGES = MOST_MANNERS - 1 };

/* How a run of operators lies over its stage's devices; dp is what tp leaves over. */
struct manner {
    uint32_t variant; /* of what tp splits: operators that are flipped, by problem.flip; 0: none */
    uint16_t tp;
    uint8_t shard;
    bool sequence, offload;
    uint8_t unused[3];
};
struct config_part {
    int32_t end;           /* the instance after its last */
    int32_t recompute_end; /* up to here level `high` of recomputation, after it `low` */
    uint8_t low, high, unused[2];
    int32_t
        change[MOST_CHANGES]; /* from change[i] on manner[i + 1]; those left over are at the end */
    struct manner manner[MOST_MANNERS]; /* and repeat the last */
};
struct config {
    int32_t stages, pieces, schedule; /* a number of schedule_all */
    int32_t unused;
    int64_t step_samples;
    int32_t devices[MOST_STAGES];
    struct config_part part[ACESO_MOST_PARTS];
};

/* ---- the problem ----------------------------------------------------------------------------- */

enum grain { GRAIN_LAYERS, GRAIN_OPERATORS, GRAIN_COUNT };
struct places_list {
    int32_t *data; /* ascending, without 0 and the end */
    size_t len, cap;
};
enum beginning { BEGIN_BALANCED, BEGIN_IMBALANCED_OP, BEGIN_IMBALANCED_DEVICE, BEGIN_COUNT };

/* What all searches share; read only once it is made. */
struct problem {
    const struct plan_request *request;
    const struct aceso_study *study; /* the request's */
    struct arena *arena;
    struct estimate_settings settings; /* of the short model */
    struct folding fold;
    int64_t instances, devices, node, cp, ep, global_batch, limit_bytes;
    int64_t *step_sizes; /* step_samples that divide the global batch, ascending */
    int32_t step_size_count;
    int32_t levels;
    const bool *recomputed[MOST_LEVELS]; /* per level and operator */
    const double *flops;                 /* sums over instances before each place */
    const int32_t *op;                   /* per instance */
    const int8_t *flip;                  /* per operator: its bit in variants; -1: none */
    struct places_list cuts[GRAIN_COUNT];
    int32_t layers_first, layers_end; /* before the first layer, after the last */
    struct tied_pair tied;            /* instances of the whole model */
    unsigned primitives;              /* 1 << enum primitive: those that may be used */
    unsigned schedules;               /* 1 << a number of schedule_all */
    unsigned shards;                  /* 1 << ZeRO stage: those that may be used */
    const bool *tp_goes; /* per degree up to a node's devices: the model can be split so */
    bool tune;           /* change manners inside stages, too */
    int32_t most_hops;
    struct stop stop;
};
weft_status problem_new(const struct plan_request *request, struct problem **out);
void problem_free(struct problem *problem);
bool problem_over(const struct problem *problem); /* stopped, or the budget is spent */
/* try_plan, with memory by the study's count where it has one. */
weft_status problem_try(const struct problem *problem, struct cost *cost, struct plan *plan,
                        const char *text, struct planned *planned, const struct trial **trial);
/* Stage counts worth searching: powers of two first, for those in a hurry. */
int32_t problem_stage_counts(const struct problem *problem, int32_t out[MOST_STAGES]);

/* ---- configs, continued ---------------------------------------------------------------------- */

static inline int32_t config_parts(const struct config *c)
{
    return c->stages * c->pieces;
}
static inline int32_t part_first(const struct config *c, int32_t part)
{
    return part ? c->part[part - 1].end : 0;
}
/* Parts of the operators of a tied weight, the owner's near the beginning, the user's near the end. */
struct tied_parts {
    int32_t owner, user;
};
static inline struct tied_parts tied_parts_of(const struct config *c, struct tied_pair tied)
{
    struct tied_parts at = {0, config_parts(c) - 1};
    while (c->part[at.owner].end <= tied.owner)
        at.owner++;
    while (part_first(c, at.user) > tied.user)
        at.user--;
    return at;
}
static inline size_t config_bytes(const struct config *c)
{
    return offsetof(struct config, part) + (size_t)config_parts(c) * sizeof c->part[0];
}
void config_copy(struct config *to, const struct config *from);
const struct manner *manner_at(const struct config_part *part, int32_t instance);
/* The manner of most of a part's operators. */
const struct manner *main_manner(const struct config *c, int32_t part);
/* One manner for all of a part, wherever it ends. */
void set_manner(struct config_part *part, struct manner manner);
void set_tp(struct config *c, int32_t stage, int64_t tp); /* of all of a stage */
/* Another manner from one instance to another; false: that were too many. */
bool paint_manner(struct config *c, int32_t part, int32_t from, int32_t to, struct manner manner);
void config_normalise(struct config *c); /* I2 */
uint64_t config_hash(const struct config *c);
/* Of its schedule, its step, the degrees with which the model begins and ends, and whether they change
 * only where its layers begin or end. */
uint64_t config_kind(const struct problem *p, const struct config *c);
bool config_legal(const struct problem *p, const struct config *c); /* I1, but for splits */
bool manner_legal(const struct problem *p, const struct config *c, int64_t devices,
                  const struct manner *m);
bool devices_allowed(const struct problem *p, int64_t devices);
/* What dp is of so many devices, 0: tp does not divide them. */
int64_t dp_of(const struct problem *p, int64_t devices, int64_t tp);
/* False where the devices cannot be shared out among so many stages. */
bool config_begin(const struct problem *p, int32_t stages, enum beginning beginning,
                  struct config *out);
/* The same with no more than so much tensor parallelism; else as much as goes. */
bool config_begin_with(const struct problem *p, int32_t stages, enum beginning beginning,
                       int64_t most_tp, struct config *out);
/* Parts as even in FLOPs per device as the grain of layers allows. */
void config_cut_evenly(const struct problem *p, struct config *c);
weft_status config_of_plan(const struct problem *p, const struct plan *plan, struct config *out);

/* ---- judging --------------------------------------------------------------------------------- */

struct verdict {
    int64_t iteration_ns, excess_bytes; /* over the limit, all stages together */
};
/* Better: closer to fitting, then faster. */
static inline bool better(struct verdict a, struct verdict b)
{
    return a.excess_bytes != b.excess_bytes ? a.excess_bytes < b.excess_bytes
                                            : a.iteration_ns < b.iteration_ns;
}
enum resource { RESOURCE_COMPUTE, RESOURCE_EXCHANGE, RESOURCE_MEMORY, RESOURCE_COUNT };
struct stage_use {
    int64_t busy_ns;             /* of the iteration, without waiting for other stages */
    double used[RESOURCE_COUNT]; /* ns, ns, bytes */
};

/* What the simulator said of the plans of one search, by schedule and pieces: times over estimates,
 * and peaks judged over peaks, where it held more. Of pieces that were not asked for, the nearest. */
enum { MOST_SCHEDULES = 32, TOLD_PIECES = 8 };
struct told {
    bool known[MOST_SCHEDULES][TOLD_PIECES + 1];
    double time[MOST_SCHEDULES][TOLD_PIECES + 1], memory[MOST_SCHEDULES][TOLD_PIECES + 1];
};

/* Everything that a part's cost depends on beside its neighbours. */
struct part_key {
    int32_t first, first_device, devices, micro_batches;
    struct config_part part;
    int64_t step_samples;
    uint8_t order, tied, unused[6];
};
struct part_cost {
    struct part_key key;
    bool legal;
    struct part_work work;
    struct part_memory memory;
    int64_t state, stand_in, parameters, gather_after_ns;
    int64_t operators_ns; /* of one micro-batch */
    const struct row_table *table;
};

struct judge;
weft_status judge_new(const struct problem *problem, struct judge **out);
void judge_free(struct judge *judge);
/* Illegal splits are no error: *legal is false. `stages` may be NULL. */
weft_status judge_config(struct judge *judge, const struct config *c, struct verdict *verdict,
                         struct stage_use *stages, bool *legal);
/* Levels of recomputation of the stages whose bit is set: the least that fits. */
weft_status judge_recompute(struct judge *judge, struct config *c, uint64_t stages);
/* One stage by itself: busy_ns and peak, with its recomputation as it is. */
struct stage_verdict {
    int64_t busy_ns, peak_bytes;
    bool legal;
};
weft_status judge_stage(struct judge *judge, const struct config *c, int32_t stage,
                        struct stage_verdict *out);
/* What no verdict of a config is better than, by one of its stages, whose recomputation is chosen. */
weft_status judge_least(struct judge *judge, struct config *c, int32_t stage,
                        struct verdict *least);
void judge_pass_over(struct judge *judge); /* counts a config that need not be judged */
void judge_forget(struct judge *judge);    /* costs of parts; the next ones are found anew */
int64_t judge_count(const struct judge *judge);
/* Bytes that a stage of this config may take, as judged. */
int64_t judge_limit(const struct judge *judge, const struct config *c);
/* Stopped, out of budget, or as many are judged as may be. */
bool judge_over(const struct judge *judge);
const struct problem *judge_problem(const struct judge *judge);
/* The plan of a legal config, the caller's to free. */
weft_status judge_plan(struct judge *judge, const struct config *c, struct plan **out);

/* Runs of a part: where manners and levels change. */
struct part_run {
    int32_t first, last;
    struct manner manner;
    int32_t level;
};
enum { MOST_RUNS = MOST_MANNERS + 1 };
int32_t part_runs(int32_t first, const struct config_part *part, struct part_run out[MOST_RUNS]);

/* ---- inside judging -------------------------------------------------------------------------- */

enum { PART_SLOTS = 1 << 14 };
struct chosen {
    uint64_t hash;
    int32_t low, high, amount;
};
/* All that a border depends on. */
struct border_key {
    struct manner manner[2];
    int32_t devices[2], place;
    bool reversed, same_node, inside, unused; /* inside: of one stage */
    int64_t step_samples;
};
struct border_slot {
    struct border_key key;
    const struct border *border; /* NULL: illegal */
};
struct judge {
    const struct problem *problem;
    struct arena *arena;
    struct estimator *estimator;
    struct hash_map by_run;
    ARRAY(struct whole_table *) runs; /* by manner and level; NULL: illegal */
    struct part_cost *slot;           /* PART_SLOTS, by hash */
    struct chosen *chosen;            /* the same of levels of recomputation, */
    struct border_slot *border_slot;  /* and of borders */
    int64_t count, most_count;        /* judged so far, and as many as may be */
    const struct told *told;          /* verdicts are corrected by it; NULL: by nothing */
    /* of the config at hand; what did not change stays from the one before (parts.c, I4) */
    int32_t stages, pieces, schedule;
    const struct part_cost *cost[ACESO_MOST_PARTS];
    struct part_cost own[ACESO_MOST_PARTS]; /* where the slot of one is another's */
    const struct border_slot *border_at[ACESO_MOST_PARTS];
    const struct border *border[ACESO_MOST_PARTS];
    bool changed[ACESO_MOST_PARTS];
    int64_t first_device[MOST_STAGES];
    struct part_work work[ACESO_MOST_PARTS];
    struct part_memory memory[ACESO_MOST_PARTS];
    struct stage_sums {
        bool known;
        int64_t peak_bytes, optimizer_ns;
    } sums[MOST_STAGES];
    struct stage_end end[MOST_STAGES];
};
/* Where a run's table lies and what it takes. */
struct run_key {
    struct manner manner;
    int32_t level, devices, first_device, order, unused;
    int64_t step_samples;
};
/* Keys are compared and hashed as bytes: none of these has any that belong to no member. */
_Static_assert(sizeof(struct config_part) == 3 * 4 + 4 * MOST_CHANGES + 12 * MOST_MANNERS &&
                   sizeof(struct part_key) == 4 * 4 + sizeof(struct config_part) + 2 * 8 &&
                   sizeof(struct border_key) == 2 * 12 + 4 * 4 + 8 &&
                   sizeof(struct run_key) == 12 + 5 * 4 + 8,
               "a key with padding");
/* NULL: the manner does not go with these devices. */
weft_status judge_run(struct judge *j, const struct run_key *key, const struct whole_table **out);
weft_status judge_choices(struct judge *j, const struct manner *manner, int32_t level,
                          int64_t devices, struct arena *keep, struct choice **out);
const struct schedule *config_schedule(const struct config *c);
enum order config_order(const struct config *c);
/* Of all that a stage's cost depends on. */
weft_status judge_stage_hash(struct judge *j, const struct config *c, int32_t stage, uint64_t *out);
/* Costs of parts and borders of one stage or (-1) all, into j->cost and j->border. */
weft_status judge_parts(struct judge *j, const struct config *c, int32_t stage, bool *legal);
/* One stage has both operators of a tied weight, which lies the same for both: it is there once. */
bool tied_alike(const struct problem *p, const struct config *c, struct tied_parts at);
/* From the owner of the tied weight to its user; NULL: illegal. */
weft_status judge_tie(struct judge *j, const struct config *c, struct tied_parts at,
                      const struct border **out);
/* Keeps what was found of parts from, from + step, ... */
void judge_keep(struct judge *j, const struct config *c, int32_t from, int32_t step);
int64_t judge_peak(struct judge *j, const struct config *c, int32_t stage);
int64_t judge_busy(struct judge *j, const struct config *c, int32_t stage);

/* ---- primitives ------------------------------------------------------------------------------ */

enum primitive {
    INC_OPS,
    DEC_OPS,
    INC_BATCH,
    DEC_BATCH,
    INC_DP,
    DEC_DP,
    INC_TP,
    DEC_TP,
    INC_RECOMPUTE,
    DEC_RECOMPUTE,
    INC_SHARD,
    DEC_SHARD,
    SEQUENCE_ON,
    SEQUENCE_OFF,
    OFFLOAD_MORE,
    OFFLOAD_LESS,
    INC_PIECES,
    DEC_PIECES,
    CHANGE_SCHEDULE,
    PRIMITIVE_COUNT
};
enum granularity { OF_STAGE, OF_MODEL };

struct proposal {
    struct config config;
    struct verdict verdict;
    enum primitive primitive;
    int32_t stage, partner; /* partner: -1, none */
    int32_t amount;         /* the argument: operators moved, a degree, samples */
    uint64_t hash;
};
enum { MOST_PROPOSALS = 96 };
struct proposals {
    int32_t count;
    struct proposal data[MOST_PROPOSALS];
};
/* What a primitive is asked with. */
struct asking {
    struct judge *judge;
    const struct config *from;
    const struct stage_use *cost; /* per stage */
    struct verdict verdict;
    enum primitive primitive;
    int32_t stage;
    enum grain grain;
    bool refining; /* degrees are settled */
    struct proposals *out;
};
struct primitive_row {
    const char *name;             /* as in Table 1 */
    int8_t trend[RESOURCE_COUNT]; /* of the stage's consumption */
    const char *argument;         /* what changes */
    enum granularity granularity;
    enum primitive partner; /* what a partner stage does, itself: none */
    bool paper;             /* one of Table 1 */
    weft_status (*propose)(const struct asking *asking);
};
extern const struct primitive_row PRIMITIVES[PRIMITIVE_COUNT];
/* Adds from, changed: copies it, and says where. NULL: no more room. */
struct proposal *propose(const struct asking *asking, int32_t partner, int32_t amount);
/* "moved 3 operators to stage 1" */
const char *proposal_text(struct arena *keep, const struct problem *p, const struct proposal *made,
                          const struct config *before);

weft_status propose_dec_ops(const struct asking *asking);
weft_status propose_inc_ops(const struct asking *asking);
/* Stages by how much they could take over, the best partner first, `stage` left out. */
int32_t rank_partners(const struct asking *asking, int32_t out[MOST_STAGES]);

/* ---- the search ------------------------------------------------------------------------------ */

struct search_step {
    int32_t iteration, bottleneck, bottlenecks_tried, hops;
    int32_t restart; /* from the pool */
    enum resource resource;
    enum primitive primitive; /* the last of its hops */
    struct verdict before, after;
    bool improved, best; /* the iteration's config, the best so far */
    int64_t configs;     /* judged so far */
    double at_s;
    const char *text; /* NULL: nothing was better */
};
struct found {
    struct config config;
    struct verdict verdict;
    uint64_t hash, kind;
};
/* Of one kind, of one schedule, of all. */
enum { MOST_ALIKE = 2, MOST_OF_SCHEDULE = 12, MOST_FOUND = 4 * MOST_OF_SCHEDULE };
/* Efforts of a search: those on layers first, each from the best of those before; then those on
 * operators. */
enum effort {
    SKETCH,  /* until no single hop makes it better */
    SPREAD,  /* the same from all beginnings, with every degree of tensor parallelism */
    DESCEND, /* until no hops do */
    WIDEN,   /* with restarts */
    FIT,     /* from the best on layers: steps, manners of zones */
    BALANCE, /* from the best on layers: cuts that even out stages */
    TRIM,    /* from the best on layers: cuts only */
    POLISH,  /* from the best of all, with restarts */
    REFINE,  /* from the best on layers, with restarts */
    EFFORT_COUNT
};
struct search_result {
    struct arena *arena;
    int32_t stages;
    ARRAY(struct search_step) steps;
    struct verdict least; /* of the steps */
    int32_t count;        /* of the best, the best first */
    struct found found[MOST_FOUND];
    struct found coarse;             /* the best on layers; its hash 0: none */
    struct found other;              /* the best before the simulator preferred another schedule */
    uint64_t ended_at[EFFORT_COUNT]; /* its hash when that effort was over */
    int64_t configs;
    bool stopped;
};
struct search_settings {
    int32_t stages;
    enum beginning beginning;
    const struct config *begin; /* or this one */
    bool random_order;          /* heuristic 2 left out */
    uint64_t seed;
    int64_t most_configs; /* judged in one effort; 0: any number */
    const struct told *told;
    double begin_s; /* of wall_seconds, for the log */
};
weft_status aceso_search(struct judge *judge, const struct search_settings *settings,
                         enum effort effort, struct search_result *out);
void note_found(const struct problem *p, struct search_result *out, const struct config *c,
                struct verdict verdict, uint64_t hash);
/* Whether note_found would keep it, were it not there. */
bool is_worth_noting(const struct problem *p, const struct search_result *out,
                     const struct config *c, struct verdict verdict);
/* Batches, and manners of what is before, in and after the layers. */
weft_status aceso_fit(struct judge *judge, struct config *c, struct search_result *out);
/* Cuts that even out stages. */
weft_status aceso_balance(struct judge *judge, struct config *c, struct search_result *out);
/* Cuts moved by single operators that make a config better, until there are none. */
weft_status aceso_trim(struct judge *judge, struct config *c, struct search_result *out);
/* The same of changes inside stages, too. */
weft_status aceso_tune(struct judge *judge, struct config *c, struct search_result *out);

weft_status aceso_log_write(const char *path, const struct problem *problem,
                            const struct search_result *results, int32_t count);
const char *resource_name(enum resource resource);

#endif
