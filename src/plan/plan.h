/* plan.h - how a model is laid over a cluster: the one notion of a configuration that every planner
 * writes, every executor reads, and a person can write by hand.
 *
 * A plan walks the model's *instances*: every copy of every operator in execution order. Parts cut
 * that walk into consecutive runs; each part belongs to a stage, each stage owns a run of devices.
 * Within its stage an instance has a *choice*: its split, whether it is recomputed, how its state is
 * sharded, whether its checkpoints wait in host memory.
 *
 *   I1  Parts cover all instances, in order, without gaps. Part k belongs to stage k % stages (so
 *       with `pieces` parts per stage, stage 0 holds parts 0, stages, 2 * stages, ...).
 *   I2  Stages own disjoint, consecutive runs of devices, in order.
 *   I3  The degrees of a choice's split multiply to the devices of its instance's stage. What does
 *       not divide anything is the dim COPY.
 *   I4  A split degree divides its dim's size, and what an operand has of the dim where that is
 *       another number (rows of an image, tokens of an expert); of a vocabulary it may also be a
 *       power of two not above it, and the parts are padded as Megatron pads them. plan_warnings
 *       says where.
 *   I5  global_batch = step_samples * micro_batches; step_samples samples pass a stage together,
 *       and an instance split batch:d sees step_samples / d of them on each device.
 *   I6  Choices are interned: equal choices have equal numbers, so a plan of a 1,000-layer model is
 *       a few choices and one byte-sized index per instance.
 */
#ifndef WEFT_PLAN_H
#define WEFT_PLAN_H

#include "cost/cost.h"

/* ---- splits ---------------------------------------------------------------------------------- */

/* In a split, next to the dims of the model: devices that hold the same. */
enum { SPLIT_COPY = DIM_COUNT };

enum { MAX_SPLIT_PARTS = 6 };
struct split_part {
    int16_t dim; /* enum dim, or SPLIT_COPY */
    int32_t degree;
};
/* Outermost (slowest links) first. Canonical: no part of degree 1, neighbours of one dim merged. */
struct split {
    int32_t parts;
    struct split_part part[MAX_SPLIT_PARTS];
};

struct split split_none(void); /* one device */
/* Appends dim:degree inside what is there; degree 1 appends nothing. False: too many parts. */
bool split_add(struct split *split, int dim, int64_t degree);
int64_t split_devices(const struct split *split);
int64_t split_degree(const struct split *split, int dim); /* 1 if not split */
/* A split by outputs becomes one by inputs, and back. False: it cannot. */
bool split_flip(const struct op *op, struct split *split);
bool split_equal(const struct split *a, const struct split *b);
/* "batch:2 out:4"; "whole" for one device. */
const char *split_text(struct arena *keep, const struct split *split);
/* The same, read; errors at `where`. */
weft_status split_parse(const struct doc *where, const char *text, struct split *out);
/* Local dims of an operator under a split, as op_work and op_memory take them: sizes rounded up. */
void split_local(const struct op *op, const struct split *split, int64_t batch, int64_t *local);
/* Whether a dim of an operator, at this place of its kind's row and no batch, may be split so (I4). */
bool split_legal(const struct model *model, const struct op *op, int place, int64_t degree);

/* ---- choices --------------------------------------------------------------------------------- */

struct choice {
    struct split split;
    uint8_t shard;  /* state sharding over the devices that hold the same weights: 0, 1, 2, 3 */
    bool recompute; /* forward again before its backward pass */
    bool saved;     /* of what is recomputed: its output stays, and it need not run again */
    bool offload;   /* its checkpoint waits in host memory */
};

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

/* PyTorch's DistributedDataParallel: bucket_cap_mb = 25. */
enum { DEFAULT_BUCKET_BYTES = 25 << 20 };

/* What runs beside computation; what does not, computation waits for. */
enum overlap {
    OVERLAP_TENSOR = 1,     /* a gradient's reshard beside the weight gradient's product */
    OVERLAP_PIPELINE = 2,   /* sends between stages */
    OVERLAP_GRADIENTS = 4,  /* their synchronisation beside the rest of the backward pass */
    OVERLAP_PARAMETERS = 8, /* gathers of sharded weights, one unit ahead */
    OVERLAP_ALL = 15,       /* what "all" means, and what nobody need ask for */
    OVERLAP_PRODUCTS = 16, /* a sequence's all-gather or reduce-scatter beside the very product that
                               reads or makes it, in chunks (compile/blocks.c): by name only */
    OVERLAP_EXPERTS =
        32, /* tokens on their way to experts and back, beside the other pass of a pair of
                               micro-batches (schedule.h, ORDER_PAIRED; compile/pairs.c): by name only */
    OVERLAP_EVERY = 63
};
/* One word of a list: a bit's name, "all" or "none". Adds its bits. */
bool overlap_from_name(const char *name, unsigned *bits);
extern const char OVERLAP_WORDS[];          /* "tensor, pipeline, ...", for messages */
const char *overlap_near(const char *name); /* the word that a misspelt one meant, or NULL */
/* The name of one bit, of all or of none; NULL: there is no such word. */
const char *overlap_name(unsigned bit);
/* A word for as many of the bits as one has, which are taken from them; NULL: there are none. */
const char *overlap_take(unsigned *bits);
/* All the words for some bits, "all,products"; "none". */
const char *overlap_text(struct arena *keep, unsigned bits, const char *between);
/* A size such as 25MiB; 0 or "whole": all gradients of a part at once. */
bool bucket_from_text(const char *text, int64_t *bytes);

struct plan {
    struct arena *arena; /* owns everything below but model and cluster */
    const struct model *model;
    const struct cluster *cluster;
    /* How a plan file names them: what model_open and cluster_open take. NULL: by the model's own
     * name without options, by the cluster's own name and nodes. */
    const char *model_name, *model_options, *cluster_name;
    enum dtype dtype;
    enum policy policy;
    int64_t global_batch, step_samples; /* samples (I5) */
    const char *schedule;               /* a name of the schedule room's table */
    int64_t pieces;                     /* parts per stage (I1) */
    int64_t memory_limit_bytes;         /* per device; 0: the device's own memory */
    unsigned overlap;                   /* of enum overlap */
    int64_t bucket_bytes; /* of gradients synchronised at once; 0: all of a part at once */
    bool whole_sends;     /* between stages, devices that hold the same each send all of it, not a
                             part that is gathered after (Megatron's scatter-gather) */

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

void plan_free(struct plan *plan); /* not its model and cluster */
/* Dtype, policy, memory limit, overlap, buckets and sends of another plan: all that does not depend on
 * how its operators are laid out. */
void plan_copy_settings(struct plan *to, const struct plan *from);
/* How a plan file is to name its model and cluster, copied; any may be NULL. */
void plan_set_names(struct plan *plan, const char *model, const char *options, const char *cluster);
/* What a dtype is trained with where nobody says: fp32, or mixed precision. */
enum policy policy_for(enum dtype dtype);
int64_t plan_micro_batches(const struct plan *plan);
/* Rounds of as many micro-batches as there are stages that show all of a schedule: it fills, repeats itself, and
 * empties. */
enum { PLAN_ROUNDS = 4 };
/* Its schedule, in pairs where OVERLAP_EXPERTS has something to hide, and can. */
const struct schedule *plan_schedule(const struct plan *plan);
/* Whether experts are on several devices, so that tokens are sent to them. */
bool choice_sends_tokens(const struct choice *choice);
int32_t plan_stage_of_part(const struct plan *plan, int32_t part);
int32_t plan_part_of(const struct plan *plan, int64_t instance);
const struct choice *plan_choice(const struct plan *plan, int64_t instance);
/* "layers.7.attn.qkv" */
const char *plan_path(struct arena *keep, const struct plan *plan, int64_t instance);

enum again { AGAIN_NONE, AGAIN_MADE, AGAIN_SAVED, AGAIN_LEFT_OUT };
/* Per instance, of enum again: not recomputed; runs forward again; is recomputed by name, but its output
 * stays, or is not needed (recompute.c). */
const uint8_t *plan_again(struct arena *keep, const struct plan *plan);

/* ---- primitives: how the library and the plan file change a plan ----------------------------- */

/* An empty plan: one stage of all devices, everything copied, one micro-batch of one sample. */
weft_status plan_new(const struct model *model, const struct cluster *cluster, struct plan **out);
/* Cuts the walk into stages * pieces parts as even in `weights` as can be (NULL: in FLOPs), only at
 * the ends of layers where the model has layers; gives each stage an equal run of devices. */
weft_status plan_map_even(struct plan *plan, int32_t stages, int64_t pieces, const double *weights);
/* The same with the cuts and devices given: cut[k] is the first instance of part k + 1, devices[s]
 * those of stage s. Either way an instance whose split no longer fits its stage is copied there. */
weft_status plan_map(struct plan *plan, int32_t stages, int64_t pieces, const int64_t *cut,
                     const int64_t *devices);
/* Sets one instance's choice; the split must cover its stage's devices (I3). */
weft_status plan_choose(struct plan *plan, int64_t instance, const struct choice *choice);

/* ---- shorthand: degrees ---------------------------------------------------------------------- */

struct degrees {
    int64_t dp, tp, pp, cp, ep; /* 0: follows from the rest (dp), else 1 */
    bool sequence;              /* sequence parallelism along tp */
    int64_t pieces, segments;   /* 0: 1 */
    int64_t micro_batch;        /* samples of one replica; 0: 1 */
    int64_t global_batch;       /* 0: dp * micro_batch * pp, at least */
    int shard;
    enum recompute recompute;
    const char *schedule; /* NULL: schedule_default */
    bool offload;
    bool has_shard, has_recompute; /* given, not defaults: planners leave them alone */
    bool has_dtype, has_policy;    /* else the model's dtype, and fp32 or mixed as it is */
    enum dtype dtype;
    enum policy policy;
    int64_t memory_limit_bytes;
    bool has_overlap, has_bucket; /* else all, and DEFAULT_BUCKET_BYTES */
    unsigned overlap;
    int64_t bucket_bytes;
    bool whole_sends;
    bool
        whole_images; /* a convolution's outputs are gathered at once: what lies between two of them
                        * is done by every device (Aceso's runtime) */
};
/* Lowers degrees to splits, operator by operator, by following the data flow (degrees.c): a linear
 * whose input is whole is split by its outputs, one whose input is split by features by its inputs.
 * Devices are numbered tp fastest, then cp, then dp, then pp (Megatron's order). */
weft_status plan_from_degrees(const struct model *model, const struct cluster *cluster,
                              const struct degrees *degrees, struct plan **out);
/* Whether the model has what they divide: experts for ep, sequences for cp. */
weft_status degrees_suit(const struct degrees *degrees, const struct model *model);
/* The choices alone: one per operator of the model, in `keep`. The degrees are complete: none is 0. */
weft_status lower_degrees(const struct model *model, const struct degrees *degrees,
                          struct arena *keep, struct choice **out);

/* ---- the same plan, and its name (recognise.c, words.c) --------------------------------------- */

/* The same stages, parts, choices, schedule and steps; of one model on one cluster. */
bool is_same_plan(const struct plan *a, const struct plan *b);
/* The degrees that give this plan; false: there are none. */
bool plan_degrees(const struct plan *plan, struct degrees *out);

/* "dp 16 tp 2 sp micro-batch 2 zero 1": the options that give this plan, as one types them. What all plans of
 * one question share is named where it differs from what was asked; NULL: nothing was. */
const char *degrees_text(struct arena *keep, const struct model *model, const struct degrees *d,
                         const struct degrees *asked);
/* All of them as a command line has them: "--dp 16 --tp 2 --sp --micro-batch 2 --zero 1". */
const char *degrees_flags(struct arena *keep, const struct model *model, const struct degrees *d);
/* The same of a plan; where no options give it "mixed: " and these words. */
const char *plan_text(struct arena *keep, const struct plan *plan, const struct degrees *asked,
                      const char *words);
const char *mixed_text(struct arena *keep, const char *words);
/* Replicas that share a step; 0: operators differ in that. */
int64_t plan_dp(const struct plan *plan);
/* "micro-batch 2 × dp 16 = 32 samples per step", or the end of it. */
const char *step_text(struct arena *keep, const struct plan *plan);

/* ---- files ----------------------------------------------------------------------------------- */

/* A plan names its model and cluster; the opened ones come with it and are freed with free_all. */
struct opened_plan {
    struct plan *plan;
    struct model *model;
    struct cluster *cluster;
};
weft_status plan_load(const char *path, struct opened_plan *out);
weft_status plan_parse(struct arena *scratch, const char *name, const char *text, size_t len,
                       struct opened_plan *out); /* JSON or YAML, by its first character */
/* What a planner is asked, written like a plan file: model, cluster and batch, and of `degrees` those
 * that stay as they are. Texts are in `keep`; the opened model and cluster are freed with
 * plan_close. */
struct plan_question {
    struct opened_plan opened; /* no plan yet */
    struct degrees pins;
    const char *model_name, *model_options, *cluster_name; /* as in a plan */
};
weft_status plan_question(struct arena *keep, const char *name, const char *text, size_t len,
                          struct plan_question *out);
/* The plan as JSON text, in `keep`: loads back to an equal plan. */
const char *plan_write(struct arena *keep, const struct plan *plan);
void plan_close(struct opened_plan *opened);

/* ---- checks ---------------------------------------------------------------------------------- */

/* I1-I5, that every split is one its operator allows and that the schedule can order the pipeline;
 * the first error names the node and the nearest legal choice. Memory is the simulator's business. */
weft_status plan_check(const struct plan *plan);
/* Whether the cluster's devices multiply in this type, or in another that stands for it (peak_dtype), and whether
 * the policy keeps weights of it. */
weft_status plan_check_types(const struct cluster *cluster, enum dtype dtype, enum policy policy);
/* What is legal and probably not meant: sharding without replicas, offload without a checkpoint,
 * padded vocabularies. One line each, naming the nodes, in `keep`. */
struct warnings {
    const char **data;
    size_t len, cap;
};
void plan_warnings(struct arena *keep, const struct plan *plan, struct warnings *out);
/* Those of them that a prediction must not be given without: what it counts with is not what the devices have. */
void plan_doubts(struct arena *keep, const struct plan *plan, struct warnings *out);

/* ---- views: what people are shown ------------------------------------------------------------ */

/* Instances of one operator with equal choices, "layers.0-39.attn.qkv", as a plan file takes it. */
struct plan_run {
    const char *path;
    int64_t first, count; /* the first instance, how many */
    uint16_t choice;
};
struct plan_runs {
    struct plan_run *data;
    size_t len, cap;
};
void plan_fold(struct arena *keep, const struct plan *plan, struct plan_runs *out);
/* What each part begins and ends with: the highest nodes that do, "layers.8" and "layers.15". */
struct part_names {
    const char *first, *last;
};
const struct part_names *plan_part_names(struct arena *keep, const struct plan *plan);

/* The memory of one device of a stage, in bytes, from op_memory. */
struct stage_memory {
    double parameters; /* a count */
    double weights, gradients, optimizer;
    double activations; /* kept, for `in_flight` micro-batches */
    double workspace;   /* of the operator that needs most */
    double host;        /* checkpoints that wait in host memory */
};
struct stage_memory plan_stage_memory(const struct plan *plan, int32_t stage, int64_t in_flight);
/* Weights, gradients and optimizer state of one instance; a tied weight is its owner's. */
struct stage_memory plan_instance_state(const struct plan *plan, int64_t instance);
/* Those of a copy of its tied weight. */
struct stage_memory plan_tied_state(const struct plan *plan, int64_t instance);
double stage_memory_total(const struct stage_memory *memory); /* on the device */
/* What a device may hold. */
int64_t plan_limit_bytes(const struct plan *plan);
/* Devices that hold the same weights under this split: what shard 1-3 divides by. */
int64_t split_replicas(const struct op *op, const struct split *split);

/* ---- tied weights (tied.c) ------------------------------------------------------------------- */

/* The instance whose weight this one uses: itself, or the first copy of the operator it is tied to. */
int64_t plan_weight_owner(const struct plan *plan, int64_t instance);
/* Whether the first weights of both lie alike, and so do their gradients and state; of operators under
 * choices, with so many samples of a step. */
bool weights_alike(const struct op *one, const struct choice *with, const struct op *other,
                   const struct choice *other_with, int64_t batch);
bool plan_weights_alike(const struct plan *plan, int64_t one, int64_t other);
/* Whether an instance has weights on its devices that are no other's: its own, or a copy. */
bool plan_holds_weights(const struct plan *plan, int64_t instance);

#include "plan/layout.h"

#endif
