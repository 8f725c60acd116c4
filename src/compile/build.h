/* build.h - a graph while it is compiled; private to the room.
 *
 *   uses.c     which instance reads which output, in which layout, and the reshards between
 *   halo.c     borders that neighbours exchange for windows over parts of images
 *   blocks.c   the items of every part's passes
 *   buckets.c  weights whose gradients (and gathers) go together
 *   lifetimes.c, gathered_spans.c  when the tensors of every part are allocated and freed
 *   intern.c   patterns and exchanges, each stored once
 *   runs.c     a block cut into tasks
 *   assembly.h, and the files it lists: the slots of all stages as tasks, and what these wait for
 *   outline.c  the same parts without tasks, for estimates
 */
#ifndef WEFT_COMPILE_BUILD_H
#define WEFT_COMPILE_BUILD_H

#include "compile/compile.h"
#include "compile/uses.h"

/* A tensor that goes from a part to a part on another stage, or on its stage's devices the other way round (plan_place), in
 * the form that a use needs. */
struct crossing {
    int32_t use;
    int32_t from_part, to_part;
    int32_t next; /* another crossing of the same source, -1: none */
};

struct build {
    struct graph *graph;
    const struct plan *plan;
    struct arena *keep, *scratch;
    bool norm;          /* compile_options */
    struct laid **laid; /* per operator and choice */
    int32_t *last_use;  /* per instance: the latest use of its output, -1: none */
    struct instance_index index;
    int64_t *use_first; /* per instance */
    struct use *use;
    int32_t uses;
    int32_t *part_of;          /* per instance */
    const uint8_t *rerun;      /* enum rerun, per instance */
    struct in_parts *in_parts; /* per instance; NULL: no output waits in parts (parts.c) */
    ARRAY(struct crossing) crossings;
    int32_t *crossing_of; /* per instance: the latest of its crossings + 1, 0: none */
    ARRAY(struct block) blocks;
    ARRAY(struct bucket) buckets;
    ARRAY(struct pattern) patterns;
    ARRAY(struct exchange) exchanges;
    struct hash_map pattern_numbers, exchange_numbers; /* by hash, in `scratch` (intern.c) */
    int32_t *block_of[SLOT_KIND_COUNT];                /* per part, -1: none */
    int32_t *first_bucket;                             /* per part, and one past the last */
    int32_t *bucket_of;                                /* per instance, -1: none */
};

static inline const struct laid *laid_of(const struct build *b, int64_t instance)
{
    const struct plan *plan = b->plan;
    return b
        ->laid[(int64_t)plan->instance[instance].op * plan->choices + plan->choice_of[instance]];
}

static inline int32_t stage_of_part(const struct build *b, int32_t part)
{
    return plan_stage_of_part(b->plan, part);
}

/* Whether what goes from one part to another has to be sent. */
static inline bool parts_are_apart(const struct build *b, int32_t from, int32_t to)
{
    return stage_of_part(b, from) != stage_of_part(b, to) ||
           plan_part_is_turned(b->plan, from) != plan_part_is_turned(b->plan, to);
}

struct life_list {
    struct lifetime *data;
    size_t len, cap;
};

/* ---- weights (buckets.c) --------------------------------------------------------------------- */

/* The instance whose weights this one uses: itself, or one it is tied to. */
int64_t owner_of(const struct build *b, int64_t instance);
/* Whether an instance has weights of its own, or a copy of its owner's. */
bool holds_weights(const struct build *b, int64_t instance);
struct layout weight_layout(const struct build *b, int64_t instance, enum flow flow);
/* Bytes of the gradients of the weights it holds, on one device and before any sharding. */
int64_t gradient_bytes(const struct build *b, int64_t instance);
/* What a folded schedule leaves to the next iteration of each bucket (slices.c). */
weft_status divide_synchronisation(struct build *b);
/* Whether it leaves anything of this part's gradients; false for what is no part. */
bool leaves_slices(const struct build *b, int32_t part);
/* Whether an instance's weight is used by another operator, too. */
bool has_tied_weight(const struct build *b, int64_t instance);
/* The devices that share the state of a bucket; 1: none do. */
int64_t bucket_shares(const struct build *b, const struct bucket *bucket);
/* Of so many bytes of its gradients, those of one share. */
int64_t share_bytes(const struct build *b, const struct bucket *bucket, int64_t bytes);
/* The devices that share the state of an instance's weights. */
int64_t weight_shares(const struct build *b, int64_t instance);

/* The exchanges of its own that an operator's first input needs (halo.c). */
void find_halos(struct arena *keep, struct laid *laid);
void find_uses(struct build *b);
/* Which outputs are kept in parts, once their readers are known (parts.c). */
void find_parts(struct build *b);
/* Adds the slices of what backward blocks gather. */
void slice_forward_blocks(struct build *b);
void build_blocks(struct build *b);
void build_buckets(struct build *b);
void find_lifetimes(struct build *b);
/* The memory events of one block, sorted by item, allocations before releases (memory_events.c). */
struct memory_events block_memory_events(struct build *b, const struct part_lifetimes *part,
                                         const struct block *block);
/* The lifetimes of gathered weights and whole gradients under shard 2 and 3, in one block
 * (gathered_spans.c). */
void trace_buckets(struct build *b, const struct block *block, struct life_list *out);
bool is_product(enum op_kind kind); /* an operator with weights: a matrix product or convolution */
/* Bytes that each device gets or gives in a step of a reshard (cast_inputs.c). */
int64_t step_bytes_sent(const struct build *b, const struct use *use,
                        const struct reshard_step *step, enum flow flow);
/* Gives what is copied layer by layer two lives, and says what is copied when (layer_copies.c). */
void copy_by_layer(struct build *b, int32_t part, struct life_list *lives,
                   struct layer_copies *out);
/* The last instance of a layer of a part, counted from 0. */
int64_t last_of_unit(const struct plan *plan, int32_t part, int32_t unit);
/* ---- tokens on their way (tokens.c) ---------------------------------------------------------- */

/* What a step sends that brings tokens to experts on a group's devices, or back. */
struct token_volume {
    double share;    /* of the bytes if each expert gets its own */
    double crossing; /* struct group */
};
struct token_volume token_volume(const struct build *b, const struct use *use,
                                 const struct group *group);
/* ---- what is stored once (intern.c) ---------------------------------------------------------- */

/* The exchanges of all of a pattern's groups with these bytes: returns the first number; group i's
 * is i higher. In a folded graph there is only one, which stands for all. */
int32_t intern_exchange(struct build *b, int32_t pattern, enum collective collective, int64_t bytes,
                        enum purpose purpose);
int32_t intern_copy(struct build *b, enum exchange_kind kind, int32_t stage, int64_t bytes);
/* For so many parameters, which a device updates in all (offload.c). */
struct host_step host_step_of(struct build *b, int32_t stage, int64_t parameters);
/* The number of a pattern, which is added if it is new. */
int32_t intern_step(struct build *b, int32_t stage, const struct reshard_step *step,
                    double crossing);
int32_t intern_digits(struct build *b, int32_t stage, struct device_run run, int32_t digits,
                      const int64_t *stride, const int64_t *degree);
/* Pairs device i of one stage with device i of another. */
int32_t intern_pairs(struct build *b, int32_t low_stage, int32_t high_stage);
int32_t intern_send(struct build *b, int32_t from_part, int32_t to_part,
                    const struct reshard *reshard);
/* Of a tied weight or its gradient, which lie the same way in all parts of a stage. */
int32_t intern_weight_send(struct build *b, int32_t from_stage, int32_t to_stage,
                           const struct reshard *reshard);

#endif
