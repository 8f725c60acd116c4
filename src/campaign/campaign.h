/* campaign.h - a whole training run: how many days it takes, what it costs and draws, with failures, checkpoints,
 * slow nodes and spare ones.
 *
 *   course     what happens to a run, as numbers alone: seconds, rates per second
 *   expect     the expected length of a course by formula (expect.c), its best interval of checkpoints (interval.c)
 *   walk       the same run played out with random numbers (walk.c): a check of the formula, and its spread
 *   failures   published rates of failures, by component (failures.c)
 *   saving     what a checkpoint of a plan takes, from the plan's own state (saving.c)
 *   bill       money and energy (bill.c)
 *
 *   I1  Failures are a Poisson process while the run computes, saves or restarts; while it waits to be noticed, or
 *       for a node, nothing more can fail.
 *   I2  The run is cut into equal intervals of work; each ends with a checkpoint, also the last.
 *   I3  After a failure the run goes on from the newest checkpoint that is complete; one that is still being
 *       written is lost.
 *   I4  One that is written in the background is complete before the next one begins.
 *   I5  Checkpoints are taken between iterations: where a course says how many it has, an interval is a whole number of
 *       them, one at least.
 */
#ifndef WEFT_CAMPAIGN_H
#define WEFT_CAMPAIGN_H

#include "sim/sim.h"

/* ---- what happens to a run ------------------------------------------------------------------- */

struct course {
    double work_s;         /* iterations of the whole run, if nothing ever happened, */
    double iterations;     /* and how many they are; 0: so many that no interval feels it */
    double failures_per_s; /* that end the run, of all nodes together, */
    double losses_per_s;   /* and of these, those after which the node has to be repaired */
    double save_s;         /* that computation stands still for a checkpoint */
    double lag_s;          /* until it is complete, while computation goes on */
    double load_s;         /* to load one */
    double detect_s;       /* from a failure to the decision to restart */
    double restart_s;      /* from there to the first iteration, but for loading and waiting */
    int64_t spares;        /* nodes that stand by; a run without one waits for a repair */
    double repair_s;       /* mean, exponentially distributed */
    /* With more nodes in repair than spares the run goes on without one, so many times slower; 0: it waits. */
    double one_less;
    double jitter;           /* of a node's part of an iteration: deviation / mean, */
    int64_t nodes;           /* of so many nodes that wait for each other (slow.c) */
    double stragglers_per_s; /* nodes that become slow, of all together; */
    double straggler_slower; /* then all are, so many times; 0 or 1: not at all */
    double straggler_s;      /* until it is found and replaced, of time that the run computes */
};

/* ---- the formula ----------------------------------------------------------------------------- */

/* Where the days go; they add up to all of them. */
enum outlay {
    OUTLAY_WORK,
    OUTLAY_SLOW, /* jitter, stragglers, one node less */
    OUTLAY_SAVING,
    OUTLAY_LOST, /* computed again */
    OUTLAY_DETECTING,
    OUTLAY_RESTARTING,
    OUTLAY_WAITING, /* for a node */
    OUTLAY_COUNT
};
const char *outlay_name(enum outlay outlay);

struct expectation {
    double all_s;
    double part_s[OUTLAY_COUNT];
    double failures, losses; /* expected numbers; losses with replaced stragglers */
    int64_t checkpoints;
    double interval_s; /* of computing, between two checkpoints */
};
/* With so many checkpoints. A number that I4 forbids is infinitely long. */
struct expectation expect(const struct course *course, int64_t checkpoints);

/* Intervals between checkpoints, of computing: the square root of 2 C / rate (Young 1974), Daly's series of higher
 * order (2006), and what makes the exact formula least, which I4 and I5 may raise. */
double interval_young(const struct course *course);
double interval_daly(const struct course *course);
double interval_exact(const struct course *course);
/* The number of checkpoints with the shortest expected run. */
int64_t best_checkpoints(const struct course *course);
/* The number whose interval is nearest to this one. */
int64_t checkpoints_every(const struct course *course, double interval_s);
double mean_time_to_failure(const struct course *course); /* seconds; infinite without failures */

/* The factors by which an iteration takes longer, in the mean (slow.c). */
double jitter_factor(double jitter, int64_t nodes);
double straggler_factor(const struct course *course);
/* The share of losses that find no spare, of s spares, when a nodes are in repair in the mean (Erlang's formula B). */
double erlang_b(int64_t s, double a);

/* ---- playing it out -------------------------------------------------------------------------- */

struct walked {
    double mean_s, error_s;       /* of the mean: standard deviation / root of the trials */
    double p5_s, median_s, p95_s; /* of the trials */
    double failures;              /* mean number */
};
/* The same seed gives the same answer. */
void walk(struct arena *scratch, const struct course *course, int64_t checkpoints, int64_t trials,
          uint64_t seed, struct walked *out);

/* ---- published rates ------------------------------------------------------------------------- */

struct failure_rate {
    const char *component;
    double per_1000_node_days;
    bool takes_node; /* the node is replaced and repaired */
};
struct failure_preset {
    const char *name, *summary, *source;
    const struct failure_rate *rate;
    size_t rates;
};
weft_status failure_preset_named(const char *name, const struct failure_preset **out);
/* Sets the rates of a course on so many nodes of eight devices, or what counts as one. */
void course_failures(struct course *course, const struct failure_rate *rate, size_t rates,
                     double nodes);

/* ---- checkpoints of a plan ------------------------------------------------------------------- */

enum saving { SAVING_SYNC, SAVING_ASYNC, SAVING_MEMORY, SAVING_COUNT };
const char *saving_name(enum saving saving);
bool saving_from_name(const char *name, enum saving *out);
const char *saving_words(enum saving saving); /* what it does, for --help */

/* All that a run of this plan needs to go on: weights and the optimizer's state, each once. */
double plan_saved_bytes(const struct plan *plan);
/* Sets save, lag and load. The storage's bandwidth is that of all nodes together. */
void course_saving(struct course *course, const struct plan *plan, enum saving saving,
                   double storage_bytes_per_s);
/* What nobody says: 1 GB/s for a node of eight devices. Llama 3's storage sustains 2 TB/s for 16,384 devices. */
double usual_storage(const struct cluster *cluster);

/* ---- what nobody says (usual.c) --------------------------------------------------------------- */

struct usual_terms {
    const char *failures;                 /* a preset */
    double detect_s, restart_s, repair_s; /* seconds */
};
extern const struct usual_terms USUAL_TERMS;
/* Nodes as rates count them: of eight devices. */
double rated_nodes(const struct cluster *cluster);
/* The number of spare nodes with which the run takes the fewest hours of nodes, spares included: that costs least. */
int64_t cheapest_spares(const struct course *course);
/* A run of so many iterations of this plan, with everything as usual. */
weft_status usual_course(const struct plan *plan, double iterations, double iteration_s,
                         struct course *out);

/* ---- money and energy ------------------------------------------------------------------------ */

struct tariff {
    double price_per_hour; /* of a device; 0: unknown */
    const char *price_source;
    double watts; /* of a device; 0: unknown */
    const char *watts_source;
    double overhead; /* of the building: all its power / that of the devices; at least 1 */
};
/* What is known of a device: what its cluster file says, else published prices and datasheets. */
struct tariff usual_tariff(const struct device *device);
/* Of one device of a cluster, on average where it has several types: what is not known of one is not known. */
struct tariff cluster_tariff(const struct cluster *cluster);
struct bill {
    double device_hours, money, kwh; /* money and kwh 0: unknown */
};
/* Of a run of this length on so many devices; those of spare nodes count, too. */
struct bill bill_of(const struct tariff *tariff, double devices, double seconds);

#endif
