/* measure.h - how long this machine takes for what a plan asks: kernels, and transfers between ranks.
 *
 * A plan asks `cost` for the times of kernels (sim/item_cost.h). Operators whose phases have the same
 * kernel, dtype and shape share one time, an *ask*, whatever each *asker* does in it: an activation or an addition,
 * with a bias or without. All are run; what is stored is what they take on average,
 *
 *   ns = sum of uses_a expected_a / sum of uses_a,  over the ask's askers a (sampling.h)         (1)
 *
 * Ranks that share a machine slow each other down: cores that are threads of one, memory, a GPU. So as many ranks are at
 * work while a kernel is measured as the plan puts there.
 *
 * Where there are more ranks than cores, some wait for a core, which no clock of a thread sees. While all have work to do a kernel
 * takes `crowd` times as long as it runs:
 *
 *   stored ns = ns crowd,  crowd = max(1, ranks / cores)                                                         (3)
 *
 * Before every sample the caches are made to hold what they would in a step: everything is as far away
 * as a step's bytes are (`away_bytes`), but for the tensor that the operator before has just written.
 *
 *   I1  An ask is stored when its error (sampling.h) is within the precision, or after the most
 *       samples or seconds that it may take; the error is stored with it.
 *   I2  What the same source has stored with an error within the precision is not measured again.
 *   I3  What was measured is kept, whatever ends the rest: it is committed every second, with its circumstances.
 *   I4  A product is measured as it is computed by the quickest algorithm that its backend finds (kernels.h, product_choices),
 *       and the algorithm is kept in the database: a run that takes it from there is what was measured.
 */
#ifndef WEFT_RUN_MEASURE_H
#define WEFT_RUN_MEASURE_H

#include <stdatomic.h>

#include "run/kernels/kernels.h"
#include "run/transport/transport.h"
#include "sim/sim.h"

/* ---- what is asked --------------------------------------------------------------------------- */

struct asker {
    const struct op *op; /* NULL: the optimizer's step */
    int64_t size[OP_MAX_DIMS];
    int64_t uses; /* by operators of the plan */
};
struct ask {
    struct work work;
    ARRAY(struct asker) askers;
};
struct asks {
    struct ask *data;
    size_t len, cap;
    enum policy policy;
    int64_t step_bytes; /* what a step holds on one device, at most */
};
/* Everything that a simulation of the plan asks for, each once, in the order of the model. Lives in
 * `keep`, and as long as the plan. */
weft_status asks_of_plan(struct arena *keep, const struct plan *plan, struct asks *out);

/* ---- how it is measured ---------------------------------------------------------------------- */

struct measure_progress {
    int64_t done, all;
    const char *what;
    double left_s; /* at the pace so far */
};
struct measure_options {
    const struct kernels *kernels;
    /* Clocks that only go forward. Kernels start no threads: by default theirs is the processor time
     * of the thread, which nothing else on the machine takes part of. */
    double (*kernel_seconds)(void *context);
    double (*wall_seconds)(void *context);
    double precision;    /* I1: of the median, such as 0.05 */
    int64_t least, most; /* samples */
    double most_s;       /* of one asker's samples, by the kernels' clock */
    double budget_s;     /* of everything, by the wall's clock; 0: none */
    int32_t beside;      /* other ranks that run the same kernel meanwhile (company.h) */
    double crowd;        /* ranks of the plan per core, if there are more of them; else 1 (3) */
    bool alone;          /* measure what kernels take without those, too, also of what is known */
    int64_t away_bytes;
    int64_t memory_bytes; /* what takes more than this is left out */
    const char *db, *device, *machine, *source;
    transport_carrier *carrier; /* of the device's memory; NULL: through the host if it is apart */
    atomic_bool *stop;          /* NULL: nobody stops it */
    void (*progress)(void *context,
                     const struct measure_progress *progress); /* NULL: nobody looks */
    void *context;                                             /* of clocks and progress */
};
/* What is usual: the caller says database, device and source. */
struct measure_options measure_defaults(void);

struct measured_ask {
    const struct ask *ask;
    double ns, error;
    double alone_ns; /* without other ranks; 0: that was not asked */
    int64_t samples;
    bool known;      /* I2 */
    const char *why; /* it could not be measured; NULL: it was */
};
struct measured {
    struct measured_ask *data;
    size_t len, cap;
    int64_t measured, known, left_out, imprecise;
    struct product_choice *choice; /* algorithms of products that were found on the way */
    size_t choices;
    bool stopped; /* by `stop` or the budget, before all was done */
};
weft_status measure_asks(const struct asks *asks, const struct measure_options *options,
                         struct arena *keep, struct measured *out);
/* How much quicker a step's kernels are alone than beside the other ranks (cluster.h, alone_speedup):
 *
 *   sum of uses ns / sum of uses alone_ns,  at least 1; 0: none was measured alone                              (2)
 */
double measured_alone_speedup(const struct measured *measured);

/* ---- transfers ------------------------------------------------------------------------------- */

struct measured_transfer {
    enum collective collective;
    int64_t ranks, bytes;
    double ns, error;
    int64_t samples, disturbed; /* disturbed: left out, as other programs had a rank's core */
    bool trusted;               /* enough samples were not disturbed */
    bool known;                 /* I2 */
};
struct measured_transfers {
    struct measured_transfer *data;
    size_t len, cap;
    bool stopped;
};
/* Sizes from 1 KiB to most_bytes, four times as much each, on the first 2, 4, ... and all ranks of the
 * transport, of the memory of the options' device. Every rank calls it, all on one machine; rank 0 writes the database and answers. What is
 * not trusted is answered and not stored. */
weft_status measure_transfers(struct transport *transport, const struct measure_options *options,
                              int64_t most_bytes, struct arena *keep,
                              struct measured_transfers *out);
/* The same over ranks that are threads of this process. */
weft_status measure_thread_transfers(int32_t ranks, const struct measure_options *options,
                                     int64_t most_bytes, struct arena *keep,
                                     struct measured_transfers *out);

/* ---- computation beside transfers ------------------------------------------------------------ */

struct measured_overlap {
    enum kernel kernel;
    struct interference factor;
    double error; /* of the worse known of both factors, over it */
    int64_t rounds;
    bool trusted; /* it is known well enough to be stored */
    bool known;   /* I2 */
};
struct measured_overlaps {
    struct measured_overlap *data;
    size_t len, cap;
    bool stopped;
};
struct overlap_request {
    const struct asks *asks;        /* the same on all ranks */
    const struct measured *kernels; /* of them, on rank 0 */
    int64_t bytes;                  /* of an all-reduce */
};
/* By how much every kind of kernel that was measured and all-reduces of all ranks slow each other down, stored as constants of
 * the device (cost/interference.c). Every rank calls it, all on one machine; rank 0 writes the database and answers. */
weft_status measure_overlap(struct transport *transport, const struct measure_options *options,
                            const struct overlap_request *request, struct arena *keep,
                            struct measured_overlaps *out);
/* The same over ranks that are threads of this process. */
weft_status measure_thread_overlap(int32_t ranks, const struct measure_options *options,
                                   const struct overlap_request *request, struct arena *keep,
                                   struct measured_overlaps *out);

/* ---- the machine ----------------------------------------------------------------------------- */

/* What one core reaches: the best of several. */
struct core_rates {
    double flops_per_s; /* fp32 products of 512 x 512 matrices */
    double bytes_per_s; /* read and written by copies larger than caches */
    /* how much more that is while no other rank has work to do (cluster.h, alone_speedup); 0: no more */
    double alone;
};
struct core_rates core_rates(const struct measure_options *options, int64_t cache_bytes);
/* The fits of collectives as a part of a cluster file; "" if there are none. */
const char *collectives_text(struct arena *keep, const struct measured_transfers *transfers);
/* A cluster file of this machine's cores (cluster_ranks) with these rates, and the fits of the
 * collectives that were measured. */
const char *machine_text(struct arena *keep, const struct cluster *cluster,
                         const struct core_rates *rates, const char *source,
                         const struct measured_transfers *transfers);

#endif
