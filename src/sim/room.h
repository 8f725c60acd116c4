/* room.h - a simulation while it runs; private to the room. */
#ifndef WEFT_SIM_ROOM_H
#define WEFT_SIM_ROOM_H

#include "sim/sim.h"

struct simulation {
    const struct plan *plan;
    const struct graph *graph;
    struct arena *keep;
    struct cost *cost;
    const struct stop *stop;
    struct flow_cache *kept_flows; /* NULL: none */
    bool shared_network;           /* simulate_options */
    bool sends_apart;              /* compile_options */
    struct omitted omitted;
    struct flows flows;
    struct item_costs costs;
    int64_t *item_first, *item_ns; /* per block, per item */
    int64_t *whole_ns;             /* per block, all of it as one run; -1: not known yet */
    struct lone_block *lone;       /* blocks that were run alone (alone.c) */
    ARRAY(struct reliance) reliance;
    ARRAY(int32_t) flow_device;
    const double *flow_slowdown; /* engine_graph, if it is known; NULL: none */
    bool knows_flow_slowdown;
};

/* Simulates every micro-batch of the iteration, however many there are. */
weft_status simulate_all(const struct plan *plan, const struct simulate_options *options,
                         struct prediction **out);
/* How work and transfers slow each other down: in the whole graph, and in a block alone, whose runs are the tasks
 * (interference.c). */
void tell_interference(struct simulation *s, struct engine_graph *g);
struct block_runs;
void tell_block_interference(struct simulation *s, struct arena *scratch, struct engine_graph *g,
                             const struct block *block, const struct block_runs *runs);
/* The flows of the graph. */
void tell_flows(const struct simulation *s, struct engine_graph *g);
/* How long a block with steps inside takes when nothing from outside slows it down (alone.c). */
weft_status find_alone_ns(struct simulation *s, int32_t block, int64_t *out);
/* Forgets the blocks that were run alone. */
void lone_blocks_free(struct simulation *s);
/* Work of devices that are one processor, as flows (shared_processor.c). */
void tell_shared_processors(struct simulation *s, struct engine_graph *g);
/* Where each stage's time goes (breakdown.c). */
void find_breakdown(struct prediction *p);
/* How full each stage's devices get (holdings.c). */
void find_memory(struct prediction *p, const struct simulate_options *options);
/* Per stage: what the libraries that move data keep on each of its devices (communicators.c): bytes. */
const int64_t *find_communicators(struct arena *scratch, const struct graph *graph);
/* Memory over time (timeline.c). */
void find_points(struct prediction *p);
/* Two paths that differ in one number as one path: "layers.0-11.mlp.up"; if a schedule's pieces
 * leave gaps between them, "4 of layers.0-11.mlp.up". */
const char *path_range(struct arena *keep, const char *first, const char *last, int64_t instances);

#endif
