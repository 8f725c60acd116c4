/* room.h - inside the planner aceso: iterative bottleneck alleviation (Aceso, sections 3 and 4).
 *
 * A *config* is what the search compares: stages with their devices, parts with their operators,
 * and for each part a few *manners* (tp, sharding, ...), one after the other, and at most two
 * levels of recomputation. It can be lowered to a plan (config_plan), and is judged without being
 * lowered (judge).
 *
 *   fold.h          a model of many layers at the price of a few
 *   problem.c       the request in the form that the searches need
 *   config.c        configs: legality, hashes, plans
 *   begin.c         configs that a search starts with
 *   rows.c          manners as rows of choices, and their tables
 *   parts.c         what one part takes and holds
 *   judge.c         how long a config takes and what it holds
 *   recompute.c     the least recomputation that fits
 *   primitives.h    the table of reconfiguration primitives, and what each proposes
 *   moves.c         moving operators between stages
 *   tune.c          cuts, steps and degrees, operator by operator
 *   paint.c         manners inside a part
 *   balance.c       cuts that even out the stages
 *   search_state.h  what one search knows
 *   pool.c          completes and judges proposals, and keeps the best
 *   bottlenecks.c   which stage and which resource comes first
 *   search.c        hops, bottlenecks, restarts
 *   log.c           every iteration as JSON
 *   simulate.c      what the simulator says about the best, and what searches learn from it
 *   words.c         configs and reasons in words
 *   aceso.c         the planner: threads, turns, starting configs
 *
 *   I1  A config is legal when its plan passes plan_check: parts are not empty, the devices of a
 *       stage are in one node or are whole nodes, degrees divide.
 *   I2  A config is normal when it is the only representation of its plan; only normal configs are
 *       hashed.
 *   I3  The same problem and seed have the same answer, whatever the number of threads and whatever
 *       a judge was asked before, except under a budget of wall-clock time.
 */
#ifndef WEFT_SEARCH_ACESO_ROOM_H
#define WEFT_SEARCH_ACESO_ROOM_H

#include "search/aceso/aceso.h"
#include "search/aceso/fold.h"

/* ---- configs --------------------------------------------------------------------------------- */

/* Aceso, section 5.1 (MaxHops), and its code: stage counts up to 16. */
enum { USUAL_HOPS = 7, USUAL_STAGES = 16 };
enum { FEW_DEVICES = 8 }; /* with no more devices than this, an iteration of the search is quick */
enum { MOST_STAGES = 64, MOST_LEVELS = 9, MOST_PIECES = 4 };
/* An embedding, layers of two kinds, and a head may each have a manner of their own. */
enum { MOST_MANNERS = 4, MOST_CHANGES = MOST_MANNERS - 1 };

/* The layout of a run of operators over its stage's devices; dp is what tp and cp leave over, and ep is a part
 * of dp. */
struct manner {
    /* Which side tp splits: a bit (problem.flip) is set for each operator that is flipped; 0:
     * none. */
    uint32_t variant;
    uint16_t tp, cp, ep;
    uint8_t shard;
    bool sequence, offload;
    uint8_t unused[3];
};
struct config_part {
    int32_t end; /* the instance after its last one */
    /* Up to this instance level `high` of recomputation, after it level `low`. */
    int32_t recompute_end;
    uint8_t low, high, unused[2];
    /* manner[i + 1] starts at change[i]; unused changes are at the end, unused manners repeat the last. */
    int32_t change[MOST_CHANGES];
    struct manner manner[MOST_MANNERS];
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

/* What all searches share; read-only once it is made. */
struct problem {
    const struct plan_request *request;
    const struct aceso_study *study; /* the request's */
    struct arena *arena;
    struct estimate_settings settings; /* for the short model */
    struct folding fold;
    int64_t instances, devices, node, global_batch, limit_bytes;
    /* What a search tries: degrees from the least, doubled up to the most. */
    struct doubled {
        int64_t least, most;
    } cp, ep;
    int64_t *step_sizes; /* values of step_samples that divide the global batch, ascending */
    int32_t step_size_count;
    int32_t levels;
    const bool *recomputed[MOST_LEVELS]; /* per level and operator */
    const double *flops;                 /* sums over the instances before each place */
    const int32_t *op;                   /* per instance */
    const int8_t *flip;                  /* per operator: its bit in a manner's variant; -1: none */
    struct places_list cuts[GRAIN_COUNT];
    int32_t layers_first, layers_end; /* the places before the first layer and after the last */
    struct tied_pair tied;            /* as instances of the whole model */
    unsigned primitives;              /* 1 << enum primitive: those that may be used */
    int32_t primitive_end;            /* those from here on have nothing to change in this model */
    unsigned schedules;               /* 1 << a number of schedule_all */
    unsigned shards;                  /* 1 << ZeRO stage: those that may be used */
    /* Per degree up to a node's devices: whether the model can be split that way. */
    const bool *tp_goes;
    bool tune; /* change manners inside stages, too */
    int32_t most_hops;
    struct stop stop;
    /* of a budget, for the trial that comes last: what the longest one has taken so far */
    double spare_s;
};
weft_status problem_new(const struct plan_request *request, struct problem **out);
void problem_free(struct problem *problem);
/* Stopped, or the budget is spent but for a trial. */
bool problem_over(const struct problem *problem);
/* A trial has taken so many seconds. */
void problem_spare(struct problem *problem, double trial_s);
/* try_plan, with memory by the study's count if there is one. */
weft_status problem_try(const struct problem *problem, struct cost *cost, struct plan *plan,
                        const char *text, struct planned *planned, const struct trial **trial);
/* The stage counts worth searching: powers of two first, for users in a hurry. */
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
/* The parts that have the operators of a tied weight: the owner's near the start of the model, the
 * user's near its end. */
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
/* Gives all of a part one manner, whatever its end. */
void set_manner(struct config_part *part, struct manner manner);
/* For a whole stage; ep becomes what still divides dp. */
void set_tp(struct config *c, int32_t stage, int64_t tp);
/* Sets another manner from one instance to another; false: there would be too many. */
bool paint_manner(struct config *c, int32_t part, int32_t from, int32_t to, struct manner manner);
void config_normalise(struct config *c); /* I2 */
uint64_t config_hash(const struct config *c);
/* A hash of the config's schedule, its step, the degrees at the two ends of the model, and whether
 * degrees change only where the layers begin or end. */
uint64_t config_kind(const struct problem *p, const struct config *c);
bool config_legal(const struct problem *p, const struct config *c); /* I1, except for splits */
bool manner_legal(const struct problem *p, const struct config *c, int64_t devices,
                  const struct manner *m);
bool devices_allowed(const struct problem *p, int64_t devices);
bool legal_devices(const struct problem *p, const struct config *c);
bool legal_schedule(const struct problem *p, const struct config *c);
/* The dp degree on this many devices; 0: tp * cp does not divide them. */
int64_t dp_of(int64_t devices, int64_t tp, int64_t cp);
/* False: the devices cannot be shared out among so many stages. */
bool config_begin(const struct problem *p, int32_t stages, enum beginning beginning,
                  struct config *out);
/* The same with at most this much tensor parallelism instead of as much as possible. */
bool config_begin_with(const struct problem *p, int32_t stages, enum beginning beginning,
                       int64_t most_tp, struct config *out);
/* Cuts the model into parts as even in FLOPs per device as whole layers allow. */
void config_cut_evenly(const struct problem *p, struct config *c);
weft_status config_of_plan(const struct problem *p, const struct plan *plan, struct config *out);

/* ---- judging --------------------------------------------------------------------------------- */

struct verdict {
    int64_t iteration_ns, excess_bytes; /* excess: over the limit, all stages together */
};
/* A verdict is better if it is closer to fitting, then if it is faster. */
static inline bool better(struct verdict a, struct verdict b)
{
    return a.excess_bytes != b.excess_bytes ? a.excess_bytes < b.excess_bytes
                                            : a.iteration_ns < b.iteration_ns;
}
enum resource { RESOURCE_COMPUTE, RESOURCE_EXCHANGE, RESOURCE_MEMORY, RESOURCE_COUNT };
struct stage_use {
    int64_t busy_ns;             /* in an iteration, without waiting for other stages */
    double used[RESOURCE_COUNT]; /* ns, ns, bytes */
};

/* What the simulator said about the plans of one search, by schedule and pieces: simulated time
 * over estimated time, and judged peak over simulated peak where the latter was larger. For numbers
 * of pieces that were not simulated, the values of the nearest one that was. */
enum { MOST_SCHEDULES = 32, TOLD_PIECES = 8 };
struct told {
    bool known[MOST_SCHEDULES][TOLD_PIECES + 1];
    double time[MOST_SCHEDULES][TOLD_PIECES + 1], memory[MOST_SCHEDULES][TOLD_PIECES + 1];
};

/* Everything that a part's cost depends on, except its neighbours. */
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
    int64_t state, step, stand_in, parameters, gather_after_ns;
    int64_t operators_ns; /* for one micro-batch */
    const struct row_table *table;
};

struct judge;
weft_status judge_new(const struct problem *problem, struct judge **out);
void judge_free(struct judge *judge);
/* Judges a config. Illegal splits are no error: *legal is false. `stages` may be NULL. */
weft_status judge_config(struct judge *judge, const struct config *c, struct verdict *verdict,
                         struct stage_use *stages, bool *legal);
/* Chooses the least recomputation that fits, for the stages whose bit is set. */
weft_status judge_recompute(struct judge *judge, struct config *c, uint64_t stages);
/* One stage by itself, with the recomputation it has: busy_ns and peak. */
struct stage_verdict {
    int64_t busy_ns, peak_bytes;
    bool legal;
};
weft_status judge_stage(struct judge *judge, const struct config *c, int32_t stage,
                        struct stage_verdict *out);
/* A lower bound of a config's verdict, from one of its stages, whose recomputation is chosen
 * here. */
weft_status judge_least(struct judge *judge, struct config *c, int32_t stage,
                        struct verdict *least);
void judge_pass_over(struct judge *judge); /* counts a config that need not be judged */
/* Drops the kept costs of parts; the next ones are found again. */
void judge_forget(struct judge *judge);
int64_t judge_count(const struct judge *judge);
/* The bytes that a stage of this config may take, by the judge's own count. */
int64_t judge_limit(const struct judge *judge, const struct config *c);
/* Stopped, out of budget, or the most configs are judged. */
bool judge_over(const struct judge *judge);
const struct problem *judge_problem(const struct judge *judge);
/* The plan of a legal config, which the caller frees. */
weft_status judge_plan(struct judge *judge, const struct config *c, struct plan **out);

/* The runs of a part: where manners and levels change. */
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
/* Everything that a border depends on. */
struct border_key {
    struct manner manner[2];
    int32_t devices[2], place;
    bool reversed, same_node, inside, unused; /* inside: within one stage */
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
    struct chosen *chosen;            /* a cache of the same kind for levels of recomputation, */
    struct border_slot *border_slot;  /* and one for borders */
    int64_t count, most_count;        /* judged so far, and the most that may be */
    const struct told *told;          /* what verdicts are corrected by; NULL: nothing */
    /* For the current config; what did not change stays from the previous one (parts.c, I4). */
    int32_t stages, pieces, schedule;
    const struct part_cost *cost[ACESO_MOST_PARTS];
    /* Used while the slot of this part belongs to another one. */
    struct part_cost own[ACESO_MOST_PARTS];
    const struct border_slot *border_at[ACESO_MOST_PARTS];
    const struct border *border[ACESO_MOST_PARTS];
    bool changed[ACESO_MOST_PARTS];
    int64_t step_samples;
    int32_t micro_batches;
    struct stage_place {
        int64_t first, last, first_node, last_node; /* devices, and the nodes that they are in */
        int32_t in_node;                            /* the first device, from its node's first */
    } place[MOST_STAGES];
    struct part_work work[ACESO_MOST_PARTS];
    struct part_memory memory[ACESO_MOST_PARTS];
    struct stage_sums {
        bool known;
        int64_t peak_bytes, optimizer_ns;
    } sums[MOST_STAGES];
    struct stage_end end[MOST_STAGES];
};
/* The position and the choices of a run's table. */
struct run_key {
    struct manner manner;
    int32_t level, devices, first_device, order;
    int64_t step_samples;
};
/* Keys are compared and hashed as bytes: these structs have no padding. */
_Static_assert(sizeof(struct config_part) ==
                       3 * 4 + 4 * MOST_CHANGES + sizeof(struct manner) * MOST_MANNERS &&
                   sizeof(struct part_key) == 4 * 4 + sizeof(struct config_part) + 2 * 8 &&
                   sizeof(struct border_key) == 2 * sizeof(struct manner) + 4 * 4 + 8 &&
                   sizeof(struct manner) == 4 + 3 * 2 + 6 &&
                   sizeof(struct run_key) == sizeof(struct manner) + 4 * 4 + 8,
               "a key with padding");
/* *out is NULL if the manner is impossible on these devices. */
weft_status judge_run(struct judge *j, const struct run_key *key, const struct whole_table **out);
const struct schedule *config_schedule(const struct config *c);
enum order config_order(const struct config *c);
/* A hash of everything that a stage's cost depends on. */
weft_status judge_stage_hash(struct judge *j, const struct config *c, int32_t stage, uint64_t *out);
/* Finds the costs of parts and borders of one stage, or of all (-1), into j->cost and j->border. */
weft_status judge_parts(struct judge *j, const struct config *c, int32_t stage, bool *legal);
/* Whether one stage has both operators of a tied weight in the same layout, so that it exists
 * once. */
bool tied_alike(const struct problem *p, const struct config *c, struct tied_parts at);
/* The border from the owner of the tied weight to its user; NULL: illegal. */
weft_status judge_tie(struct judge *j, const struct config *c, struct tied_parts at,
                      const struct border **out);
/* Keeps what was found for parts from, from + step, ... */
void judge_keep(struct judge *j, const struct config *c, int32_t from, int32_t step);
int64_t judge_peak(struct judge *j, const struct config *c, int32_t stage);

#include "search/aceso/primitives.h"

/* ---- the search ------------------------------------------------------------------------------ */

struct search_step {
    int32_t iteration, bottleneck, bottlenecks_tried, hops;
    int32_t restart; /* 0, or the number of the restart from the pool */
    enum resource resource;
    enum primitive primitive; /* the last of its hops */
    struct verdict before, after;
    bool improved, best; /* the iteration's config improved; it is the best so far */
    int64_t configs;     /* judged so far */
    double at_s;
    const char *text; /* NULL: no better config was found */
};
struct found {
    struct config config;
    struct verdict verdict;
    uint64_t hash, kind;
};
/* How many configs are kept of one kind, of one schedule, in all. */
enum { MOST_ALIKE = 2, MOST_OF_SCHEDULE = 12, MOST_FOUND = 4 * MOST_OF_SCHEDULE };
/* Efforts of a search: first those on layers, each from the best of the efforts before; then those
 * on operators. */
enum effort {
    SKETCH,  /* until no single hop improves the config */
    SPREAD,  /* the same from all starting configs, with every degree of tensor parallelism */
    DESCEND, /* until no sequence of hops improves it */
    WIDEN,   /* with restarts */
    FIT,     /* from the best on layers: steps, manners of zones */
    BALANCE, /* from the best on layers: cuts that even out the stages */
    TRIM,    /* from the best on layers: cuts only */
    POLISH,  /* from the best of all, with restarts */
    REFINE,  /* from the best on layers, with restarts */
    EFFORT_COUNT
};
struct search_result {
    struct arena *arena;
    int32_t stages;
    ARRAY(struct search_step) steps;
    struct verdict least; /* over all steps */
    int32_t count;        /* of `found`, which has the best first */
    struct found found[MOST_FOUND];
    struct found coarse; /* the best on layers; hash 0: none */
    struct found other;  /* the best before the simulator preferred another schedule */
    /* The hash of the starting config for which that effort was last completed. */
    uint64_t ended_at[EFFORT_COUNT];
    int64_t configs;
};
struct search_settings {
    int32_t stages;
    enum beginning beginning;
    const struct config *begin; /* or start from this config */
    bool random_order;          /* try primitives in random order, without heuristic 2 */
    uint64_t seed;
    int64_t most_configs; /* judged in one effort; 0: no limit */
    const struct told *told;
    double begin_s; /* in wall_seconds, for the log */
};
weft_status aceso_search(struct judge *judge, const struct search_settings *settings,
                         enum effort effort, struct search_result *out);
void note_found(const struct problem *p, struct search_result *out, const struct config *c,
                struct verdict verdict, uint64_t hash);
/* Whether note_found would keep it if it were not there already. */
bool is_worth_noting(const struct problem *p, const struct search_result *out,
                     const struct config *c, struct verdict verdict);
/* Tries other batches, and manners for the operators before, in and after the layers. */
weft_status aceso_fit(struct judge *judge, struct config *c, struct search_result *out);
/* Makes cuts that even out the stages. */
weft_status aceso_balance(struct judge *judge, struct config *c, struct search_result *out);
/* Moves cuts by single operators as long as that improves the config. */
weft_status aceso_trim(struct judge *judge, struct config *c, struct search_result *out);
/* The same, with changes inside stages, too. */
weft_status aceso_tune(struct judge *judge, struct config *c, struct search_result *out);

weft_status aceso_log_write(const char *path, const struct problem *problem,
                            const struct search_result *results, int32_t count);
const char *resource_name(enum resource resource);

#endif
