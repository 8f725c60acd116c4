/* player.h - a stage's slots in order, and the memory that they take; private to the room. */
#ifndef WEFT_SIM_PLAYER_H
#define WEFT_SIM_PLAYER_H

#include "sim/room.h"

/* Offloaded checkpoints at the start of a slot (holdings.c, I2). */
struct away {
    int32_t left; /* the forward slot whose checkpoints are gone from here on, -1: none */
    int32_t back; /* the backward slot whose checkpoints are back from here on, -1: none */
};

struct player {
    const struct plan *plan;
    const struct graph *graph;
    struct arena *scratch;
    int32_t stage, micro_batches;
    int64_t place;
    struct slots slots;
    bool *paired;       /* per slot: whether it and the next one are executed as one */
    int64_t *offloaded; /* per piece: bytes of one micro-batch */
    struct away *away;  /* per slot; NULL: nothing is offloaded */
    /* per piece: what the device has of its lives, if devices of the stage differ (plan/subset.h); else NULL */
    struct part_lifetimes *own;
};
/* Of one device of the stage, counted from its first. */
struct player player_of(struct arena *scratch, const struct graph *graph, int32_t stage,
                        int64_t place);
/* The same for an iteration of fewer micro-batches than the plan has. */
struct player player_of_fewer(struct arena *scratch, const struct graph *graph, int32_t stage,
                              int64_t place, int64_t micro_batches);
const struct part_lifetimes *player_part(const struct player *player, int32_t piece);
/* The first task of a stage: tasks are numbered stage by stage (graph.h, I4), and after those of
 * the last stage come exchanges between stages, which count for the lower stage. */
int32_t first_task(const struct prediction *p, int32_t stage);
bool reads_checkpoints(enum slot_kind kind);
/* When an item of a slot starts, by the simulated times, in ns. */
int64_t player_time(const struct prediction *p, const struct player *player, int32_t slot,
                    int32_t item);

/* The memory events of two slots that are executed as one, or of one slot (events[1] is NULL), in the order in which they
 * happen: layer by layer in both, so that what the backward pass has freed is there for the forward pass (Megatron-LM's
 * models/common/model_chunk_schedule_plan.py, which pops a layer of one for every layer of the other). */
struct event_walk {
    const struct memory_events *events[2];
    int32_t at[2];
};
struct event_walk walk_events(const struct player *player, const struct slot *slot,
                              const struct slot *beside);
/* The next event of either, with the slot's number in `which`; NULL: there is none. */
const struct memory_event *walk_next(struct event_walk *walk, int *which);

/* What exists before the first slot and stays (state.c), in bytes. */
struct state {
    int64_t bytes[MEMORY_CLASS_COUNT];
    int64_t stand_ins; /* of weight gradients, in addition to those */
    /* of scores: KEEP_BUFFER; for what other stages send (compile/lifetimes.h, I15) */
    int64_t buffer;
    /* of the kernel that takes most (cost/own_scratch.h), or of cuBLAS (blas_workspaces.c) */
    int64_t scratch;
    int64_t late;    /* gradients that exist since the backward pass */
    int64_t reduced; /* of these, what a stream of its own has summed */
    int64_t step;    /* beside all of these, while the optimizer runs */
    int64_t host;    /* in host memory */
};
int64_t state_total(const struct state *state); /* from the first slot to the last */
/* What the optimizer's step finds and takes in addition to that. */
int64_t state_at_step(const struct state *state);
/* What the framework gives cuBLAS to work in, and keeps: a tensor for each of its handles and of its kinds of products. */
struct blas_workspaces {
    int32_t handles, products;
    int64_t handle_bytes, product_bytes; /* of each */
};
struct blas_workspaces blas_workspaces(const struct plan *plan, int32_t stage);
int64_t blas_workspace_bytes(const struct blas_workspaces *workspaces);
struct state state_of(struct arena *scratch, const struct plan *plan, int32_t stage, int64_t place);
/* The same with the buffers that follow from the graph. */
struct state graph_state(struct arena *scratch, const struct graph *graph, int32_t stage,
                         int64_t place);
/* Weights of an instance on one device, in elements (reserved_shares.c); the shares of gradients that are whole until the
 * last micro-batch, and are summed then; and what is gathered of the layer with most weights. */
double instance_parameters(const struct plan *plan, int64_t instance);
int64_t late_shares(const struct plan *plan, const struct state *state);
double gathered_layer(const struct player *player);
/* What PyTorch's caching allocator reserves for the stage's state and slots (reserved.c), in
 * bytes. With a cache, a replay that was made before is not made again. */
int64_t find_reserved(const struct player *player, const struct state *state, int64_t peak_bytes,
                      struct reserved_cache *cache);
/* The same on a device with so much room, where the allocator returns free segments when it finds no room for another
 * (I7); 0 if a request is refused all the same. */
int64_t find_returning(const struct player *player, const struct state *state, int64_t room_bytes);

#endif
