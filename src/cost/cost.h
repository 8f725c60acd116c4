/* cost.h - how long one operator takes on one device, and what memory it needs.
 *
 * A cost asks its sources in order: the user's profile database, the databases shipped with Weft,
 * then the analytic model. Each answer says where it came from.
 *
 *   I1  Same work, same device, same sources: same nanoseconds, whatever was asked before.
 *   I2  A database answers for an exact shape, or between two measured shapes that differ in one
 *       number; it never extrapolates.
 */
#ifndef WEFT_COST_H
#define WEFT_COST_H

#include "cluster/cluster.h"
#include "cost/software.h"
#include "model/model.h"
#include "cost/own_scratch.h"

enum provenance {
    FROM_NOTHING,       /* no work: zero time */
    FROM_MEASUREMENT,   /* exact match in a profile database */
    FROM_INTERPOLATION, /* between two measurements */
    FROM_FORMULA        /* the analytic model */
};
const char *provenance_name(enum provenance provenance);

struct kernel_cost {
    int64_t ns;
    enum provenance provenance;
    const char *source; /* the database's own words, or the formula's name */
};

/* ---- the analytic model (analytic.c) --------------------------------------------------------- */

/* The few parameters of one device; defaults come from its architecture. See calibration.c. */
struct calibration;
const struct calibration *calibration_for(const struct device *device);
int64_t analytic_ns(const struct device *device, const struct calibration *calibration,
                    const struct work *work);
/* The time that the host takes to issue it. */
int64_t analytic_host_ns(const struct calibration *calibration, const struct work *work);
/* The time of the kernel when the host has run ahead: without the host's floor. */
int64_t analytic_device_ns(const struct device *device, const struct calibration *calibration,
                           const struct work *work);
/* Of that, what it takes whatever it computes. */
int64_t analytic_begin_ns(const struct calibration *calibration, const struct work *work);

/* ---- the profile database (profile.c) -------------------------------------------------------- */

struct profile;
/* Opens an existing database for reading; docs/reference/profile.md documents its schema. Once open, lookups
 * touch memory only and may run in several threads. */
weft_status profile_open(const char *path, struct profile **out);
/* Opens the database that ships with Weft for a device such as "RTX-TITAN". WEFT_FAILURE if there
 * is none. */
weft_status profile_open_shipped(const char *device, struct profile **out);
/* Opens for writing, and creates the file and the schema if they are missing. Everything up to
 * profile_commit is one transaction: closing without it leaves the file as it was, or absent. */
weft_status profile_create(const char *path, struct profile **out);
weft_status profile_commit(struct profile *profile);
void profile_close(struct profile *profile);

struct measurement {
    const char *device;
    struct work work;    /* kernel, phase, dtype, shape; for elementwise and dropout also bytes */
    bool whole_backward; /* both backward phases in one time; the shape is the forward's */
    double ns;
    int64_t samples;
    const char *source;
    double error; /* standard error of ns over ns; 0: not known */
};
/* Replaces what the same source said about the same shape. */
weft_status profile_add(struct profile *profile, const struct measurement *measurement);
/* out->provenance is FROM_MEASUREMENT or FROM_INTERPOLATION, or FROM_NOTHING if there is no
 * answer. */
weft_status profile_lookup(struct profile *profile, const char *device, const struct work *work,
                           struct kernel_cost *out);

/* ---- what a profile database holds ----------------------------------------------------------- */

/* Both gradients measured as one: a phase that exists only in the database, under the forward's
 * shape. A lookup gives each backward phase its share by FLOPs. */
enum { PHASE_WHOLE_BACKWARD = PHASE_COUNT, PROFILE_PHASES };
const char *profile_phase_name(int phase);
bool profile_phase_from_name(const char *name, int *out);

/* The shape numbers as the database has them: those of kernel_shape_names, and for elementwise and
 * dropout kernels also the bytes moved per element, which tells an addition from an activation. */
size_t profile_shape_names(enum kernel kernel, const char *names[WORK_MAX_SHAPE]);

/* Everything that a time depends on. */
struct profile_key {
    int32_t device; /* a number in the index; profile_row has the name */
    uint8_t kernel, phase, dtype, unused;
    int64_t shape[WORK_MAX_SHAPE];
};

/* The key that a measurement of exactly this work has, and that a lookup looks for first; its phase
 * says whether the measurement is a whole backward (a product of two activations computes both
 * gradients at once). False if the shape is out of range (not positive). */
bool profile_key_of(const struct work *work, int32_t device, struct profile_key *out);

struct profile_row {
    struct profile_key key;
    const char *device;
    double ns;
    int64_t samples;
    const char *source;
    double error; /* standard error of ns over ns; 0: not known */
};

/* An answer and where it came from. */
struct profile_answer {
    enum provenance provenance;
    double ns;
    const struct profile_row *low, *high; /* the measurement; or the two on either side */
    int axis;                             /* the shape number in which they differ */
    double share;                         /* of a whole backward; 1 otherwise */
};
weft_status profile_explain(struct profile *profile, const char *device, const struct work *work,
                            struct profile_answer *out);
/* The time of a collective on `devices` devices of `nodes` nodes: measured at this size, or on the straight
 * line between the nearest sizes. Asks SQLite each time: one thread at a time. */
weft_status profile_collective(struct profile *profile, const char *device,
                               enum collective collective, int64_t devices, int64_t nodes,
                               int64_t bytes, struct kernel_cost *out);
struct collective_measurement {
    const char *device, *machine; /* machine: any words that tell machines apart */
    enum collective collective;
    int64_t devices, nodes, bytes;
    double ns;
    int64_t samples;
    const char *source;
    double error; /* standard error of ns over ns; 0: not known */
};
/* Replaces what the same source said about the same collective. */
weft_status profile_add_collective(struct profile *profile,
                                   const struct collective_measurement *measurement);
/* Whether this source has a time for it with a standard error of at most `precision`. */
weft_status profile_has_collective(struct profile *profile,
                                   const struct collective_measurement *wanted, double precision,
                                   bool *out);
/* All kernel rows; they are valid until the profile is closed or written to. */
weft_status profile_rows(struct profile *profile, const struct profile_row **out, size_t *count);

/* Whole layers as Galvatron profiles them. Rows are in `keep`; of several sources, the last
 * imported one answers. A NULL model means every model. These functions ask SQLite: one thread at a
 * time. */
enum { LAYER_MAX_TP = 8 };
struct layer_profile {
    const char *model, *kind; /* "bert", "enc" */
    enum dtype dtype;
    int64_t layer; /* the kinds of layers of a model are numbered from 0 */
    int64_t seq, hidden, weight_bytes, tp_all_reduces;
    double forward_ns; /* of one sample */
    int activations;
    struct {
        int64_t tp, bytes; /* of one sample */
    } activation[LAYER_MAX_TP];
};
weft_status profile_layers(struct profile *profile, const char *device, const char *model,
                           struct arena *keep, struct layer_profile **out, size_t *count);
/* What embedding and head take on this many devices; part is "first", "last" (stage) or "both". */
struct model_ends {
    const char *model, *part;
    int64_t devices, state_bytes, activation_bytes;
};
weft_status profile_model_ends(struct profile *profile, const char *device, const char *model,
                               struct arena *keep, struct model_ends **out, size_t *count);
/* What whole layers say about a model that has them (layer_pace.c): how many times as fast they were measured as
 * formulas have them, 0 if not all of its layers were measured in this type. */
struct layer_pace {
    double pace, overlap_slowdown;
    int64_t layers;
    /* the profile has the factor by which computing and sending slow each other down */
    bool has_slowdown;
};
weft_status layer_pace(const char *profile_path, const struct device *device,
                       const struct model *model, enum dtype dtype, struct layer_pace *out);
/* How fast groups of a device's machines communicate, in bytes on the bus; docs/reference/profile.md. */
struct collective_rate {
    const char *machine;
    enum collective collective;
    int64_t devices, nodes, stages; /* of the group; pipeline stages that share the machine */
    bool consecutive;               /* neighbouring devices */
    double bus_bytes_per_s;
};
weft_status profile_rates(struct profile *profile, const char *device, struct arena *keep,
                          struct collective_rate **out, size_t *count);
/* name is "overlap_slowdown" or "context"; *found is false if the database has no such number. */
weft_status profile_constant(struct profile *profile, const char *device, const char *name,
                             double *out, bool *found);
/* By how much kernels and collectives slow each other down (interference.c); 0: not measured. */
struct interference {
    double work, transfer;
};
/* Fills in what `out` does not have yet and the database has of this device. */
weft_status profile_interference(struct profile *profile, const char *device,
                                 struct interference out[KERNEL_COUNT]);
/* The same of what one source has measured. */
weft_status profile_interference_of(struct profile *profile, const char *device, const char *source,
                                    struct interference out[KERNEL_COUNT]);
/* Both factors are at least 1; they replace what the same source said. */
weft_status profile_add_interference(struct profile *profile, const char *device,
                                     enum kernel kernel, struct interference factor,
                                     const char *source);
/* Times and sizes of a model's operators, as Aceso's and Sailor's tables publish them. */
struct operator_profile {
    const char *op;
    int64_t microbatch, tp, algo;
    double forward_ns, backward_ns;                       /* 0: out of memory */
    const char *forward_collective, *backward_collective; /* inside the time; "": none */
    int64_t input_bytes, weight_bytes, activation_bytes;
    /* What an allocator took for either pass beyond the results of the forward pass. */
    int64_t forward_reserved_bytes, backward_reserved_bytes;
};
weft_status profile_operators(struct profile *profile, const char *device, enum dtype dtype,
                              const char *model, struct arena *keep, struct operator_profile **out,
                              size_t *count);

/* Reads "m=4096 n=1536 ..." (separated by spaces or commas) into the shape of work->kernel, whose
 * phase and dtype are set. Returns the problem in words, in `keep`, or NULL. If bytes_per_element
 * is not given, it is that of an activation, or of plain dropout. */
const char *shape_parse(struct arena *keep, const char *text, struct work *work);

enum profile_table {
    TABLE_SOURCE,
    TABLE_KERNEL,
    TABLE_OPERATOR,
    TABLE_COLLECTIVE,
    TABLE_COLLECTIVE_RATE,
    TABLE_COLLECTIVE_SHARE,
    TABLE_LAYER,
    TABLE_LAYER_ACTIVATION,
    TABLE_MODEL_ENDS,
    TABLE_CONSTANT,
    TABLE_CIRCUMSTANCES,
    TABLE_ALGORITHM,
    TABLE_COUNT
};
const char *table_name(enum profile_table table);
weft_status profile_count(struct profile *profile, enum profile_table table, int64_t *out);
/* All sources, in the order of their numbers. */
struct source_row {
    int64_t id, kernel_rows;
    const char *name, *origin, *licence;
};
weft_status profile_sources(struct profile *profile, struct arena *keep, struct source_row **out,
                            size_t *count);

/* When, on what and by what a source was measured (algorithms.c); of a source that was measured several times, the last time. */
struct circumstances {
    const char *device;  /* its maker's name */
    double clock_hz;     /* its highest; 0: not known */
    const char *driver;  /* or the system, of a processor */
    const char *library; /* of products, with its version */
    const char *date;    /* 2026-11-18T14:05:00Z */
};
weft_status profile_add_circumstances(struct profile *profile, const char *source,
                                      const struct circumstances *of);
/* *found: the database has them. */
weft_status profile_circumstances(struct profile *profile, const char *source, struct arena *keep,
                                  struct circumstances *out, bool *found);

/* The way in which a library of a device computes a product quickest, by measuring: words of a backend (run/kernels). */
struct algorithm_row {
    const char *device, *library, *product, *algorithm, *source;
    int64_t place;       /* among those that the library proposes; 0: its own first choice */
    double ns, first_ns; /* of this one, and of the first */
};
weft_status profile_add_algorithm(struct profile *profile, const struct algorithm_row *row);
/* Those of a device, of any library; of several sources the last one's. */
weft_status profile_algorithms(struct profile *profile, const char *device, struct arena *keep,
                               struct algorithm_row **out, size_t *count);

/* ---- importing files of measurements (import.c) ---------------------------------------------- */

enum import_format {
    FORMAT_AUTO,
    FORMAT_ACESO,
    FORMAT_SAILOR,
    FORMAT_SIMUMAX,
    FORMAT_GALVATRON,
    FORMAT_WEFT_CSV,
    FORMAT_NCCL,
    FORMAT_AICONFIGURATOR,
    FORMAT_COUNT
};
bool import_format_from_name(const char *name, enum import_format *out);

struct skipped {
    const char *reason;
    int64_t rows;
};
struct import_summary {
    const char *file;
    const char *format; /* "aceso operators" */
    int64_t read;       /* rows or entries of the file */
    int64_t stored;     /* rows in the database, all tables */
    int64_t merged;     /* kernel measurements that were merged into an equal shape's median */
    int64_t replaced;   /* rows that an earlier import had stored */
    ARRAY(struct skipped) skipped;
};

struct import_options {
    enum import_format format;
    /* For files that name no device, their device; for files that do, the one whose rows are taken;
     * or NULL. */
    const char *device;
};
/* Reads one file into the open transaction; on error the caller closes without committing. */
weft_status profile_import(struct profile *profile, const char *path,
                           const struct import_options *options, struct arena *keep,
                           struct import_summary *out);

/* Weft's name of a system of AIConfigurator's tables, or NULL. */
const char *aiconfigurator_device(const char *system);
/* A layer of AIConfigurator's tables, measured alone, and what the formula says of it with the parameters of alone.c. */
struct lone_layer {
    const char *device, *layer; /* "H100-SXM5-80GB", "product fp8" */
    bool held_out;              /* no parameter was fitted to it */
    double measured_ns, predicted_ns;
};
struct lone_layers {
    struct lone_layer *data;
    size_t len, cap;
};
/* All products, attention and experts of `folder`/aiconfigurator. */
weft_status lone_layers(const char *folder, struct arena *keep, struct lone_layers *out);

/* ---- one interface over all sources ---------------------------------------------------------- */

struct cost;
/* Opens the sources for this device; `profile_path` may be NULL (shipped databases and formula
 * only). Shipped databases are looked for in the folder that the environment variable WEFT_PROFILES
 * names, then where they were built, then where they are installed; WEFT_PROFILES=none leaves them
 * out. */
weft_status cost_open(const struct device *device, const char *profile_path, struct cost **out);
/* The folder of shipped databases if it is missing, which changes all times; otherwise NULL. */
const char *cost_missing(struct arena *keep);
/* The same for every pool of a cluster; the answer's functions below are those of its first pool. */
weft_status cost_open_all(const struct cluster *cluster, const char *profile_path,
                          struct cost **out);
struct cost *cost_in_pool(struct cost *cost, int32_t pool);
void cost_close(struct cost *cost);
struct kernel_cost cost_of(struct cost *cost, const struct work *work);
/* The time in training: the host has run ahead, and the device is at its power limit. */
struct kernel_cost cost_on_device(struct cost *cost, const struct work *work);
/* The time that the host takes to issue it; a step of communication is issued like an elementwise
 * kernel. */
int64_t cost_host_ns(const struct cost *cost, const struct work *work);
int64_t cost_host_step_ns(const struct cost *cost); /* one issue */
/* What a short kernel takes that compiled code calls, if the host is not ahead of the device. */
int64_t cost_call_ns(const struct cost *cost);
/* What a kernel of this kind takes to begin and to end, whatever it computes; by formula. */
int64_t cost_begin_ns(const struct cost *cost, const struct work *work);
/* What a device reaches in training with a large product of this type, by formula. */
double device_product_flops(const struct device *device, enum dtype dtype);
/* Whether the kernel of a weight gradient adds to what is there, and computes the bias's sum, too,
 * so that no further pass follows it: Weft's own kernels do. */
bool device_adds_gradients(const struct device *device);
/* Whether cuBLAS is to get 32 MiB to work in: from Hopper on (its documentation, 2.1.7). */
bool device_large_workspaces(const struct device *device);
/* Whether the device's fp8 products take a scale for every 32 elements (MXFP8), so that a cast does
 * not need the largest of all values. */
bool device_scales_blocks(const struct device *device);
/* Tokens on their way to experts or back, by DeepEP (dispatch.c). */
struct dispatch {
    int64_t nodes, per_node; /* the group: nodes, and devices of each */
    int64_t tokens, hidden;  /* of each device */
    int64_t choices, experts;
    bool combine; /* back, in 16 bits */
};
/* Of `places` that share the experts evenly, those that a token is for. */
double dispatch_reach(const struct dispatch *dispatch, double places);
/* 0 for a device on which it was not measured. */
double dispatch_ns(const struct device *device, const struct dispatch *dispatch);
/* The factor by which both computation and collectives on the device slow down while they
 * overlap: that of the machine or its architecture, for all kinds of kernels. Estimates know no other; where products
 * were measured by themselves, they take what slows these down. Of several pools, the
 * largest. */
double cost_slowdown(const struct cost *cost);
/* The same by kind of kernel, where that was measured, and both ways (interference.c); otherwise the one factor. */
struct interference cost_interference(const struct cost *cost, enum kernel kernel);
/* Whether kinds of kernels differ, so that one factor does not stand for all. */
bool cost_tells_kernels(const struct cost *cost);

/* ---- memory of one operator ------------------------------------------------------------------ */

/* Bytes per parameter for weights, gradients and optimizer state. */
enum policy {
    POLICY_FP32,  /* fp32 weights and gradients, Adam's two moments: 4 + 4 + 8 */
    POLICY_MIXED, /* 16-bit weights and gradients, fp32 master and moments: 2 + 2 + 12 */
    POLICY_MIXED_FP32_GRADIENTS, /* Megatron: 16-bit weights, fp32 gradients: 2 + 4 + 12 */
    POLICY_DISTRIBUTED,          /* Megatron's distributed optimizer: the last 12 divided by dp */
    POLICY_PURE_BF16,            /* everything in bf16: 2 + 2 + 4 */
    POLICY_FSDP, /* FSDP2: 16-bit weights gathered from fp32 shares, fp32 gradients: 2 + 4 + 12 */
    /* Megatron's --use-precision-aware-optimizer: moments in bf16, gradients in fp32: 2 + 4 + 8; in bf16: 2 + 2 + 8 */
    POLICY_BF16_MOMENTS,
    POLICY_BF16_MOMENTS_GRADIENTS,
    /* Megatron's --fp8-param-gather: weights in fp8, as they are and transposed, gathered in fp8: 2 + 4 + 12 */
    POLICY_FP8_WEIGHTS,
    POLICY_COUNT
};
const char *policy_name(enum policy policy);
bool policy_from_name(const char *name, enum policy *out);
/* The type whose products stand for those of this type on a device: the type itself if the device
 * has it. */
enum dtype peak_dtype(const struct device *device, enum dtype dtype);

/* Whether the software computes this attention in fp8 in a plan of this dtype (FACT_ATTENTION). */
bool attends_in_fp8(const struct software *software, const struct op *op, enum dtype dtype);
/* The type in which an operator's own kernel computes: op_dtype, or fp8 where attention is. */
enum dtype kernel_dtype(const struct software *software, const struct model *model, int32_t op,
                        enum dtype dtype);
/* What a framework holds beside weights, gradients and state, or does not hold all the time (op_memory.c, 4). */
struct policy_memory {
    double moment; /* bytes per parameter of either of Adam's moments */
    /* bytes per parameter of gradients that are copied for the optimizer's step */
    double gradient_copy;
    bool no_weight_shares; /* with shard 3, no 16-bit shares beside those in fp32 */
    bool adds_whole;       /* with shard 2, gradients of several micro-batches are added up whole */
    bool frees_gradients;  /* there are none before the first backward pass */
    /* gathers and sums of gradients are made in streams of their own, whose memory no other takes */
    bool own_streams;
};
struct policy_memory policy_memory(enum policy policy);
int policy_weight_bytes(enum policy policy); /* per parameter, for the weights that products read */
int policy_gradient_bytes(enum policy policy); /* per parameter */
double policy_state_bytes(enum policy policy); /* per parameter, of Adam with what it copies */
/* Per parameter, for weights that are gathered. */
int policy_gather_bytes(enum policy policy, enum dtype dtype);
/* What updates the weights (optimizers.c). */
enum update_rule {
    UPDATE_ADAMW,
    UPDATE_ADAM,
    UPDATE_MOMENTUM,
    UPDATE_SGD,
    UPDATE_ADAFACTOR,
    UPDATE_MUON,
    UPDATE_COUNT
};
const char *optimizer_name(enum update_rule optimizer);
bool optimizer_from_name(const char *name, enum update_rule *out);
#define UPDATE_WORDS "adamw, adam, momentum, sgd, adafactor or muon"
/* The state of the optimizer, of an operator's weights, over that of Adam under this policy. */
double optimizer_state_share(enum update_rule optimizer, enum policy policy, const struct op *op);
/* Whether the operator's weights are matrices that Muon makes orthogonal, expert by expert. */
bool is_orthogonalised(enum update_rule optimizer, const struct op *op);
/* The products of that for one matrix of so many rows and columns (batch: matrices). */
enum { ORTHOGONAL_STEPS = 5, ORTHOGONAL_PRODUCTS = 3 };
void orthogonal_works(int64_t batch, int64_t rows, int64_t columns,
                      struct work out[ORTHOGONAL_PRODUCTS]);

struct op_memory {
    double weights, gradients, optimizer;
    double updated;         /* parameters that the optimizer updates on this device */
    double kept;            /* for the backward pass, at this micro-batch */
    double kept_recomputed; /* the same when it is recomputed: its inputs, as checkpoints */
    double workspace;       /* while it runs */
};
/* `local` as for op_work; `replicas` is the data-parallel degree a distributed optimizer divides by. */
struct op_memory op_memory(const struct model *model, const struct op *op, const int64_t *local,
                           enum dtype dtype, enum policy policy, int64_t replicas);
/* What a framework that shards weights does to those of one operator in a micro-batch, besides
 * kernels and collectives (handling.c); nothing under most policies. */
struct handling {
    double read, write;                     /* bytes per parameter */
    double forward_issues, backward_issues; /* by the host, in units of cost_host_step_ns */
    bool adds_shares; /* gradients of micro-batches are added up as shares, not whole */
};
struct handling policy_handling(enum policy policy, int shard, double shares, double micro_batches);
/* An optimizer step over this many parameters, with what mixed precision adds to it: copies to and
 * from 16 bits, the search for overflows, the norm of the gradients and their scaling. */
struct work optimizer_work(int64_t parameters, enum dtype dtype, enum policy policy,
                           enum update_rule optimizer,
                           int step); /* step: a word of FACT_OPTIMIZER_STEP */
/* Bytes per parameter that the host moves for its step: a fused one in fp32 (optimizers.c, 1), and the weight in the type
 * that goes up to the device, where that is another. */
double host_step_bytes(enum policy policy, enum dtype dtype, enum update_rule optimizer);

#endif
