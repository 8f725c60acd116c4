/* plan.h - how a model is laid over a cluster: the one notion of a configuration that every planner
 * writes, every executor reads, and a person can write by hand.
 *
 * A plan walks the model's *instances*: every copy of every operator in execution order. Parts cut
 * that walk into consecutive runs; each part belongs to a stage, each stage owns a run of devices.
 * Within its stage an instance has a *choice*: its split, whether it is recomputed, how its state
 * is sharded, whether its checkpoints wait in host memory.
 *
 *   I1  Parts cover all instances, in order, without gaps. Part k belongs to stage k % stages (so
 *       with `pieces` parts per stage, stage 0 holds parts 0, stages, 2 * stages, ...); in a zigzag
 *       (schedule.h, I3) every other piece goes from the last stage to stage 0, and if the schedule goes both ways (I6
 *       there) it lies on its stage's devices with their halves exchanged (plan_place).
 *   I2  Stages own disjoint, consecutive runs of devices, in order.
 *   I3  The degrees of a choice's split multiply to the devices of its instance's stage. Devices
 *       that split nothing are the dim COPY.
 *   I4  A split degree divides its dim's size, and also the operand's share of the dim if that is a
 *       different number (rows of an image, tokens of an expert). For a vocabulary it may also be a
 *       power of two not above the size; the parts are then padded as in Megatron, and
 *       plan_warnings says where.
 *   I5  global_batch = step_samples * micro_batches; step_samples samples pass a stage together,
 *       and an instance split batch:d sees step_samples / d of them on each device.
 *   I6  Choices are interned: equal choices have equal numbers, so a plan of a 1,000-layer model is
 *       a few choices and one small index per instance.
 *   I7  A stage whose order says so takes several micro-batches at once (schedule.h, I7): its operators see that many times
 *       step_samples, and every device joins its shares of each of these micro-batches. Its choices say the same (`joins`).
 */
#ifndef WEFT_PLAN_H
#define WEFT_PLAN_H

#include "cost/cost.h"

/* ---- splits ---------------------------------------------------------------------------------- */

/* Besides those of the model: devices that hold the same; runs of devices of which one has the operator (subset.h). */
enum { SPLIT_COPY = DIM_COUNT, SPLIT_ON };

enum { MAX_SPLIT_PARTS = 6 };
struct split_part {
    int16_t dim; /* enum dim, SPLIT_COPY or SPLIT_ON */
    int16_t run; /* of SPLIT_ON: which one has it */
    int32_t degree;
};
/* Outermost (slowest links) first. Canonical: no part has degree 1, and neighbours of one dim are
 * merged. */
struct split {
    int32_t parts;
    struct split_part part[MAX_SPLIT_PARTS];
};

struct split split_none(void); /* one device */
/* Appends dim:degree inside the existing parts; degree 1 appends nothing. False: too many parts. */
bool split_add(struct split *split, int dim, int64_t degree);
int64_t split_devices(const struct split *split);
static inline int64_t split_degree(const struct split *split, int dim) /* 1 if not split */
{
    int64_t degree = 1;
    for (int32_t i = 0; i < split->parts; i++)
        if (split->part[i].dim == dim)
            degree *= split->part[i].degree;
    return degree;
}
/* Turns a split by outputs into one by inputs, or back. False: not possible. */
bool split_flip(const struct op *op, struct split *split);
bool split_equal(const struct split *a, const struct split *b);
/* "batch:2 out:4"; "whole" for one device. */
const char *split_text(struct arena *keep, const struct split *split);
/* Parses such a text; errors are reported at `where`. */
weft_status split_parse(const struct doc *where, const char *text, struct split *out);
/* The local dims of an operator under a split, as op_work and op_memory take them: sizes rounded up. */
void split_local(const struct op *op, const struct split *split, int64_t batch, int64_t *local);
/* Whether a dim of an operator, given by its place in the kind's row and not the batch, may be split so (I4). */
bool split_legal(const struct model *model, const struct op *op, int place, int64_t degree);

#include "plan/choice.h"

struct instance {
    int32_t op;
    int64_t copy;
};

/* ---- the plan -------------------------------------------------------------------------------- */

struct part {
    int64_t first, count; /* instances */
};

struct stage {
    int64_t first_device, devices;
};

enum recompute { RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL, RECOMPUTE_COUNT };
const char *recompute_name(enum recompute recompute);

/* The default of PyTorch's DistributedDataParallel: bucket_cap_mb = 25. */
enum { DEFAULT_BUCKET_BYTES = 25 << 20 };
/* Instead of a number of micro-batches: all of them. */
enum { DEFER_ALL = -1 };
/* Instead of a number of bytes: by the software's rule, which knows how many devices share in a sum. */
enum { BUCKET_BY_RULE = -1 };

/* Communication that overlaps with computation; computation waits for the rest. */
enum overlap {
    OVERLAP_TENSOR = 1,     /* reshards of gradients, with products of weight gradients */
    OVERLAP_PIPELINE = 2,   /* sends between stages */
    OVERLAP_GRADIENTS = 4,  /* synchronisation of gradients, with the rest of the backward pass */
    OVERLAP_PARAMETERS = 8, /* gathers of sharded weights, one unit ahead */
    /* keys and values of a divided sequence, which go round a ring of its devices, with the attention that reads
     * them (compile/blocks.c, I7); else they are gathered first */
    OVERLAP_KEYS = 64,
    OVERLAP_ALL = 15 | OVERLAP_KEYS, /* the meaning of "all", and the default */
    /* all-gathers or reduce-scatters of a sequence, with the very product that reads or makes it,
     * in chunks (compile/blocks.c); only if named */
    OVERLAP_PRODUCTS = 16,
    /* tokens on their way to experts and back, with the other pass of a pair of micro-batches
     * (schedule.h, ORDER_PAIRED; compile/pairs.c); only if named */
    OVERLAP_EXPERTS = 32,
    /* the same with a shared expert of the same layer (compile/shared_experts.c); only if named */
    OVERLAP_SHARED = 128,
    OVERLAP_EVERY = 255
};
/* Reads one word of a list (a bit's name, "all" or "none") and adds its bits. */
bool overlap_from_name(const char *name, unsigned *bits);
extern const char OVERLAP_WORDS[];          /* "tensor, pipeline, ...", for messages */
const char *overlap_near(const char *name); /* the word that a misspelt one meant, or NULL */
/* The name of one bit, of all or of none; NULL: there is no such word. */
const char *overlap_name(unsigned bit);
/* The word that covers most of the bits, which are removed from *bits; NULL: no bits are left. */
const char *overlap_take(unsigned *bits);
/* All words for some bits, "all,products"; "none" for 0. */
const char *overlap_text(struct arena *keep, unsigned bits, const char *between);
/* Reads a size such as 25MiB; 0 or "whole" means all gradients of a part at once. */
bool bucket_from_text(const char *text, int64_t *bytes);

/* Of a device's memory what stays free where nobody says: predicted memory is too low by less than that in 97 %
 * of the 223 runs whose allocator's memory was measured and is held against it (tools/margin-basis.py). Of the
 * seven others one is of weft_h200, by 3.8 % of the device, and six are torchtitan's. */
#define MARGIN_PERCENT 3
#define MARGIN_TEXT    "3"
enum { MOST_MARGIN_PERCENT = 99 };

/* What a plan may take of a device's memory; all 0 where nobody says. */
struct memory_terms {
    int64_t limit_bytes; /* what is reserved for tensors alone; 0: what the device has */
    bool has_margin; /* else MARGIN_PERCENT of the device's memory, and nothing of a given limit */
    double margin_percent; /* what stays free of the device's memory, or of the limit */
};

struct plan {
    struct arena *arena; /* owns everything below except model and cluster */
    const struct model *model;
    const struct cluster *cluster;
    /* The names in a plan file, as model_open and cluster_open take them. NULL: the model's own
     * name without options; the cluster's own name and number of nodes, if it has no pools. */
    const char *model_name, *model_options, *cluster_name;
    enum dtype dtype;
    enum policy policy;
    struct software software; /* what will run it */
    enum update_rule optimizer;
    int64_t global_batch, step_samples; /* samples (I5) */
    const char *schedule;          /* a name of the schedule room's table, or of the order below */
    const struct schedule *listed; /* an order that was read or found; NULL: the table's */
    bool zigzag, both_ways;        /* how pieces lie on stages (I1), from the schedule */
    int64_t pieces;                /* parts per stage (I1) */
    int64_t group;                 /* of micro-batches, as in struct pipeline; 0: as it says */
    struct memory_terms memory;
    unsigned overlap;     /* flags of enum overlap */
    int64_t bucket_bytes; /* of gradients synchronised at once; 0: all of a part; BUCKET_BY_RULE */
    /* Sharded state is divided inside groups of replicas and copied across so many of them (HSDP; Megatron's
     * distributed-optimizer instances); 0 or 1: it is divided by all. */
    int64_t replicate;
    /* of parameters, whose state is in host memory and updated there: 0 to 1 */
    double optimizer_offload;
    /* Devices of a stage that are neighbours in the cluster: runs of so many, with those of the other stages in
     * between (device_order.h); 0: all of them. */
    int64_t stage_run;
    /* between stages, devices that hold the same each send all of it, instead of a part that the
     * receivers gather (Megatron's scatter-gather) */
    bool whole_sends;
    /* Micro-batches whose gradients of the head's weights are made after all passes (defer.c), or DEFER_ALL; 0: none. */
    int64_t defer_head;

    int64_t instances;
    struct instance *instance;
    bool *ends_layer;    /* per instance: the last one of a copy of an indexed module */
    uint16_t *choice_of; /* per instance (I6) */
    struct choice *choice;
    int32_t choices;
    struct choice_table *table; /* finds equal choices (plan.c) */

    int32_t stages, parts;
    struct stage *stage;
    struct part *part;
};

void plan_free(struct plan *plan); /* without its model and cluster */
/* Copies dtype, policy, software, memory limit, overlap, buckets and sends of another plan: all settings that
 * do not depend on how operators are laid out. */
void plan_copy_settings(struct plan *to, const struct plan *from);
/* Sets the names of model and cluster in a plan file (copied); any may be NULL. */
void plan_set_names(struct plan *plan, const char *model, const char *options, const char *cluster);
/* The default policy of a dtype: fp32, or mixed precision. */
enum policy policy_for(enum dtype dtype);
static inline int64_t plan_micro_batches(const struct plan *plan)
{
    return plan->global_batch / plan->step_samples;
}
/* Samples that pass an operator of this choice at once, over all replicas, and how often in an iteration: step_samples and the
 * number of micro-batches, unless its stage takes several at once (I7). */
int64_t plan_samples(const struct plan *plan, const struct choice *choice);
int64_t plan_passes(const struct plan *plan, const struct choice *choice);
/* The plan's, for gradients that so many devices add up: plan_replicas, one size for all, also for experts. */
int64_t plan_bucket_bytes(const struct plan *plan, int64_t devices);
/* Whether updated weights are gathered from the start of the iteration on, whatever uses them. */
bool plan_aligns_gathers(const struct software *software, int64_t pieces);
/* Rounds (schedule_round) that show everything about a schedule: it fills, repeats itself, and drains. */
enum { PLAN_ROUNDS = 4 };
int64_t plan_round(const struct plan *plan);
/* The plan's micro-batches without so many whole rounds that at most `rounds` and an incomplete one are
 * left: what orders all of them orders these, too. */
int64_t plan_fewer_micro_batches(const struct plan *plan, int64_t rounds);
/* Where a dispatch sends tokens, or a combine brings them from: as the model says, else as the software does. */
enum token_copies plan_token_copies(const struct software *software, const struct op *op);
/* Whether experts are on several devices, so that tokens are sent to them. */
bool choice_sends_tokens(const struct choice *choice);
int32_t plan_part_of(const struct plan *plan, int64_t instance);
static inline const struct choice *plan_choice(const struct plan *plan, int64_t instance)
{
    return &plan->choice[plan->choice_of[instance]];
}
/* "layers.7.attn.qkv" */
const char *plan_path(struct arena *keep, const struct plan *plan, int64_t instance);

enum rerun { RERUN_NONE, RERUN_FORWARD, RERUN_SAVED, RERUN_LEFT_OUT };
/* For each instance a value of enum rerun: not recomputed; runs forward again; marked as
 * recomputed, but its output is kept, or is not needed (recompute.c). */
const uint8_t *plan_reruns(struct arena *keep, const struct plan *plan);

/* ---- primitives: how the library and the plan file change a plan ----------------------------- */

/* That a plan may have as many operators as the model has (base/limits.h). */
weft_status plan_check_size(const struct model *model);
/* An empty plan: one stage of all devices, everything copied, one micro-batch of one sample. */
weft_status plan_new(const struct model *model, const struct cluster *cluster, struct plan **out);
/* Cuts the walk into stages * pieces parts whose `weights` (NULL: FLOPs) are as even as possible,
 * only at the ends of layers if the model has layers; gives each stage an equal run of devices. */
weft_status plan_map_even(struct plan *plan, int32_t stages, int64_t pieces, const double *weights);
/* The same with given cuts and devices: cut[k] is the first instance of part k + 1, devices[s] is
 * the number of stage s. In either function, an instance whose split no longer fits its stage
 * becomes a copy. */
weft_status plan_map(struct plan *plan, int32_t stages, int64_t pieces, const int64_t *cut,
                     const int64_t *devices);
/* The same with the cuts and devices of another plan of the model. */
weft_status plan_map_as(struct plan *plan, const struct plan *from);
/* The same plan once more. */
weft_status plan_copy(const struct plan *from, struct plan **out);
/* The same model, cluster, batch and settings, on one stage without a split. */
weft_status plan_like(const struct plan *from, struct plan **out);
/* Sets one instance's choice; the split must cover its stage's devices (I3). */
weft_status plan_choose(struct plan *plan, int64_t instance, const struct choice *choice);

/* ---- shorthand: degrees ---------------------------------------------------------------------- */

/* How attention is divided over the devices of cp, whose sequences are in parts everywhere else (cp_kinds.c). */
enum cp_kind { CP_RING, CP_GATHER, CP_A2A, CP_A2A_RING, CP_KIND_COUNT };
enum cp_heads { CP_HEADS_ALL = -1, CP_HEADS_SOME = -2 }; /* all of cp; as many as the heads allow */
extern const char CP_KIND_WORDS[];                       /* "ring, gather, ...", for messages */
const char *cp_kind_name(enum cp_kind kind);
bool cp_kind_from_name(const char *name, enum cp_kind *out);
struct degrees;
/* Sets what a kind means: cp_heads, and whether OVERLAP_KEYS is among the overlaps. */
void cp_kind_set(enum cp_kind kind, struct degrees *degrees);
/* The kind of complete degrees under a plan's overlaps. */
enum cp_kind cp_kind_of(const struct degrees *degrees, unsigned overlap);
/* The number that cp_heads stands for, at least 1. */
int64_t cp_heads_of(const struct degrees *degrees, const struct model *model);

struct degrees {
    int64_t dp, tp, pp, cp, ep; /* 0: dp follows from the others, the others are 1 */
    int64_t etp;                /* the tensor degree of experts; 0: tp */
    /* of an encoder of images (towers.c): its tensor degree, 0: as much of tp as suits it; its replicas, 0: dp; its
     * own stages in front of the pp others, 0: it is on the first of these */
    int64_t encoder_tp, encoder_dp, encoder_pp;
    /* of cp's devices, how many take heads of attention in place of positions, or a value of enum cp_heads; 0: 1 */
    int64_t cp_heads;
    bool sequence;            /* sequence parallelism along tp */
    int64_t pieces, segments; /* 0: 1 */
    int64_t group;            /* as in a plan */
    int64_t micro_batch;      /* samples of one replica; 0: 1 */
    int64_t global_batch;     /* 0: at least dp * micro_batch * pp */
    int shard;
    enum recompute recompute;
    int64_t recompute_layers; /* of full recomputation: the first layers of each part; 0: all */
    unsigned modules;     /* of selective recomputation (modules.c); 0: the scores of attention */
    const char *schedule; /* NULL: schedule_default; or a file of lists */
    const struct schedule *listed; /* lists that were read or found already; NULL: none */
    const char *layout;       /* the layers of each part (pipeline_layout_read); NULL: evenly */
    bool offload;             /* of checkpoints */
    unsigned offload_modules; /* whose kept tensors wait in host memory, too (modules.c) */
    bool has_shard, has_recompute; /* given by the user, so that planners keep them */
    /* otherwise the model's dtype, and the policy that goes with the dtype */
    bool has_dtype, has_policy;
    enum dtype dtype;
    enum policy policy;
    struct memory_terms memory;
    struct software software;
    enum update_rule optimizer;
    bool has_overlap, has_bucket; /* otherwise all, and what the software does */
    unsigned overlap;
    int64_t bucket_bytes;
    int64_t replicate; /* as in a plan */
    double optimizer_offload;
    const char *order; /* "tp-cp-ep-pp-dp", fastest first; NULL: as stage_run says */
    int64_t stage_run; /* as in a plan */
    bool whole_sends;
    int64_t defer_head; /* as in a plan */
    /* a convolution's outputs are gathered at once: what comes between two convolutions is computed
     * by every device (Aceso's runtime) */
    bool whole_images;
};
/* The size of its buckets: a number, or BUCKET_BY_RULE. */
int64_t degrees_bucket_bytes(const struct degrees *degrees);
/* Lowers degrees to splits, operator by operator, by following the data flow (lowering.c): a linear
 * whose input is whole is split by its outputs, one whose input is split by features by its inputs.
 * Devices are numbered tp fastest, then cp, then dp, then pp (Megatron's order); among experts etp fastest,
 * then ep. */
weft_status plan_from_degrees(const struct model *model, const struct cluster *cluster,
                              const struct degrees *degrees, struct plan **out);
/* Whether the model has what the degrees divide: experts for ep, sequences for cp. */
weft_status degrees_suit(const struct degrees *degrees, const struct model *model);
/* How experts lie over the dp * cp * tp devices of a stage (degrees.c, I2). */
struct expert_mesh {
    int64_t batch,
        seq; /* the replicas of an expert take parts of the batch, then of the sequence */
    int64_t ep, etp;
};
/* False: there is no such mesh. */
bool expert_mesh(const struct degrees *degrees, struct expert_mesh *out);
/* The tensor degree that an encoder has beside this one of the decoder, if none is given (towers.c, I1). */
int64_t encoder_usual_tp(const struct model *model, int64_t tp);
/* Only the choices: one per operator of the model, in `keep`. The degrees must be complete: none is
 * 0. */
weft_status lower_degrees(const struct model *model, const struct degrees *degrees,
                          struct arena *keep, struct choice **out);

/* ---- the same plan, and its name (recognise.c, words.c) --------------------------------------- */

/* Whether stages, parts, choices, schedule and steps are equal, for plans of one model on one
 * cluster. */
bool is_same_plan(const struct plan *a, const struct plan *b);
/* The tensor degree of the plan's experts; 0: there are none. */
int64_t plan_expert_tp(const struct plan *plan);
/* The cp_heads of a plan's degrees, if it has this cp; 0: none. */
int64_t plan_cp_heads(const struct plan *plan, int64_t cp);
/* What degrees say beside numbers of devices: type, policy, software, overlap and the like, as the plan has it. */
void plan_settings(const struct plan *plan, struct degrees *d);
/* The degrees that give this plan; false: there are none. */
bool plan_degrees(const struct plan *plan, struct degrees *out);

/* "dp 16 tp 2 sp micro-batch 2 zero 1": the options that give this plan, as a user types them.
 * Settings that all plans of one question share are named only if they differ from `asked`; NULL:
 * nothing was asked. */
const char *degrees_text(struct arena *keep, const struct model *model, const struct degrees *d,
                         const struct degrees *asked);
/* All degrees as flags of a command line: "--dp 16 --tp 2 --sp --micro-batch 2 --zero 1". */
const char *degrees_flags(struct arena *keep, const struct model *model, const struct degrees *d);
/* The text of degrees_text for a plan; if no options give it, "mixed: " and these words. */
const char *plan_text(struct arena *keep, const struct plan *plan, const struct degrees *asked,
                      const char *words);
const char *mixed_text(struct arena *keep, const char *words);
/* The fewest devices that add up the gradients of a weight, but for those of experts: dp * cp of degrees. */
int64_t plan_replicas(const struct plan *plan);
/* "micro-batch 2 × dp 16 = 32 samples per step"; where operators differ, "32 samples per step, which dp 4 to 16 share". */
const char *step_text(struct arena *keep, const struct plan *plan);

/* ---- files ----------------------------------------------------------------------------------- */

/* A plan file names its model and cluster; both are opened with the plan and freed with it by
 * plan_close. */
struct opened_plan {
    struct plan *plan;
    struct model *model;
    struct cluster *cluster;
};
weft_status plan_load(const char *path, struct opened_plan *out);
weft_status plan_parse(struct arena *scratch, const char *name, const char *text, size_t len,
                       struct opened_plan *out); /* JSON or YAML, by the first character */
/* A planner's question, written like a plan file: model, cluster and batch, and those `degrees`
 * that the planner must keep. Texts are in `keep`; the opened model and cluster are freed with
 * plan_close. */
struct plan_question {
    struct opened_plan opened; /* without a plan */
    struct degrees pins;
    const char *model_name, *model_options, *cluster_name; /* as in a plan */
};
weft_status plan_question(struct arena *keep, const char *name, const char *text, size_t len,
                          struct plan_question *out);
/* Sets what is left open of an opened model and cluster as today's practice has it (practice.c): the type, in the
 * degrees, and options of the named model, which is then opened again. The options are in `keep`. */
weft_status follow_practice(struct arena *keep, const char *name, const char **options,
                            struct degrees *degrees, struct opened_plan *opened);
/* The plan as JSON text, in `keep`: it loads back to an equal plan. */
const char *plan_write(struct arena *keep, const struct plan *plan);
void plan_close(struct opened_plan *opened);

/* ---- checks ---------------------------------------------------------------------------------- */

/* Checks I1-I5, that every operator allows its split, and that the schedule can order the
 * pipeline; the first error names the node and the nearest legal choice. Memory is checked by
 * the simulator. */
weft_status plan_check(const struct plan *plan);
/* Whether the cluster's devices multiply in this type, or in another one that stands for it
 * (peak_dtype), and whether the policy keeps weights of it. */
weft_status plan_check_types(const struct cluster *cluster, enum dtype dtype, enum policy policy);
/* Choices that are legal and probably not intended: sharding without replicas, offload without a
 * checkpoint, padded vocabularies. One line each, with the nodes' names, in `keep`. */
struct warnings {
    const char **data;
    size_t len, cap;
};
void plan_warnings(struct arena *keep, const struct plan *plan, struct warnings *out);
/* The warnings that must accompany a prediction: it assumes something that the devices do not
 * have. */
void plan_doubts(struct arena *keep, const struct plan *plan, struct warnings *out);

/* ---- views: what people are shown ------------------------------------------------------------ */

/* Instances of one operator with equal choices, "layers.0-39.attn.qkv", as a plan file names
 * them. */
struct plan_run {
    const char *path;
    int64_t first, count; /* the first instance, and how many */
    uint16_t choice;
};
struct plan_runs {
    struct plan_run *data;
    size_t len, cap;
};
void plan_fold(struct arena *keep, const struct plan *plan, struct plan_runs *out);
/* The highest nodes that each part begins and ends with: "layers.8" and "layers.15". */
struct part_names {
    const char *first, *last;
};
const struct part_names *plan_part_names(struct arena *keep, const struct plan *plan);

#include "plan/stage_memory.h"
/* What an operator keeps for the backward pass under the plan's software: flags of enum keep, bytes, and those of no operand. */
unsigned plan_keeps(const struct plan *plan, const struct op *op);
double plan_kept_bytes(const struct plan *plan, const struct op *op, const int64_t *local);
double plan_extra_bytes(const struct plan *plan, const struct op *op, const int64_t *local);
double stage_memory_state(const struct stage_memory *memory); /* from the first slot to the last */
/* Whether there are no gradients before the backward pass, which is the only one (policy_memory). */
bool plan_makes_gradients_late(const struct plan *plan);
/* Who gets what of one device's memory. A plan *fits* if, on every stage,
 *
 *   reserved by the allocator + context + communicators + margin <= all                         (1)
 *
 * The simulator knows what is reserved, and the communicators of each stage (sim.h); the rest is known from
 * the device and the terms alone. */
struct memory_budget {
    int64_t all;     /* the device's memory, or the limit that was given */
    int64_t context; /* driver and libraries; 0 if a limit was given: that is for tensors */
    int64_t margin;  /* stays free */
};
struct memory_budget memory_budget(const struct device *device, const struct memory_terms *terms);
/* What (1) leaves for the allocator and the communicators. */
int64_t budget_room(const struct memory_budget *budget);
int64_t plan_room_bytes(const struct plan *plan); /* on the smallest device */
/* Devices that hold the same weights under this split: the number that shard 1-3 divides by. */
int64_t split_replicas(const struct op *op, const struct split *split);
/* The devices that share its state: 1 without sharding, else the replicas of one group (plan->replicate). Where the
 * groups are more than the replicas allow, their greatest common divisor counts. */
int64_t plan_shares(const struct plan *plan, const struct op *op, const struct choice *choice);
int64_t share_groups(int64_t replicas, int64_t replicate);

/* ---- tied weights (tied.c) ------------------------------------------------------------------- */

/* The instance that owns the weight of this one: itself, or the first copy of the operator it is tied to. */
int64_t plan_weight_owner(const struct plan *plan, int64_t instance);
/* Whether the first weights of both have the same layout, and so do their gradients and state; for
 * operators under choices, with so many samples in a step. */
bool weights_alike(const struct op *one, const struct choice *with, const struct op *other,
                   const struct choice *other_with, int64_t batch);
bool plan_weights_alike(const struct plan *plan, int64_t one, int64_t other);
/* Whether an instance has weights of its own on its devices: it owns them, or has a copy. */
bool plan_holds_weights(const struct plan *plan, int64_t instance);

#include "plan/device_order.h"
#include "plan/layout.h"
#include "plan/modules.h"
#include "plan/pipeline_layout.h"
#include "plan/sources.h"
#include "plan/stage_device.h"
#include "plan/subset.h"

#include "plan/order.h"
#endif
