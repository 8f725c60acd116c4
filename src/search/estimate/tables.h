/* tables.h - inside estimate: what a run of instances takes on a stage, found once per row of choices
 * and answered in O(1).
 *
 * A *row* gives every operator of the model a choice. A *table* has the whole model on one stage
 * with one row: compiled, costed and run like any plan (passes.h), with sums over all instances
 * before each one. The sums of instances a .. b - 1 are
 *
 *   sums(b) - sums(a)                                                                         (1)
 *
 * where the times are those at which an instance was over in the table's own passes, so that what
 * overlaps within a run counts once. What is different where a run begins or ends (sends, reshards
 * from another row, tensors kept for another stage) is a *border*: the model is compiled once more
 * with a cut there, and the border is the difference to (1) on either side.
 *
 *   I1  Borders depend on what crosses them, not on where they are: places with the same crossing
 *       tensors between the same operators are one kind, and the middle one of a kind stands for
 *       all.
 *   I2  Nodes are alike: the cost of a table or border depends on the position of its devices in
 *       their node (in the smallest unit of the fabric that holds them all), not on which node that
 *       is.
 *   I3  A table may have a few copies of each layer instead of all: its instances are *places*, and
 *       (1) counts a place as many times as the copies it stands for (few_copies.h).
 *   I4  Tables and borders are found when first asked for. One thread asks; several threads have an
 *       estimator each.
 *   I5  Where an encoder has stages of its own, its splits are for other devices than those of the rest. In a table,
 *       operators whose split is not for its devices are copied over them; nobody asks for their sums.
 */
#ifndef WEFT_SEARCH_ESTIMATE_TABLES_H
#define WEFT_SEARCH_ESTIMATE_TABLES_H

#include "search/estimate/candidate.h"
#include "search/estimate/stage_memory.h"
#include "search/estimate/passes.h"

/* The quantities that are summed, per instance: nanoseconds, bytes, counts. */
enum tally {
    SUM_FIRST, /* the first forward pass */
    SUM_FORWARD,
    SUM_BACKWARD,
    SUM_WEIGHT,
    SUM_LAST,          /* the last pass that completes gradients */
    SUM_FORWARD_APART, /* where passes come in pairs: a pass that has no other beside it */
    SUM_BACKWARD_APART,
    /* Device times per pass of item_cost.h (2): forward, backward, weight; */
    SUM_DEVICE,
    SUM_HOST = SUM_DEVICE + 3,    /* host times; */
    SUM_STRETCHED = SUM_HOST + 3, /* and the times the table's passes took with both */
    SUM_SYNC = SUM_STRETCHED + 3, /* all gradients, alone */
    SUM_SYNC_EACH,                /* the gradients that are synchronised with every micro-batch */
    SUM_SYNC_BYTES,
    SUM_GATHER_AFTER, /* gathers of weights after the optimizer step */
    SUM_WEIGHTS,      /* instances that have weights */
    SUM_LAYERS,
    SUM_PARAMETERS, /* parameters that an optimizer updates */
    SUM_STATE,
    SUM_STEP,        /* bytes in addition to the state while the optimizer runs */
    SUM_KEPT,        /* bytes that the forward pass leaves */
    SUM_BACK,        /* bytes that the backward pass adds, mostly negative, */
    SUM_BACK_WEIGHT, /* and those that the pass of weight gradients adds */
    SUM_OFFLOADED,
    SUM_COUNT
};
struct sums {
    int64_t of[SUM_COUNT];
};

/* The largest value of any range, in O(1): row k holds the maxima of 2^k neighbours. */
struct range_max {
    int64_t **row;
};
static inline int64_t range_max(const struct range_max *ranges, int64_t first, int64_t last)
{
    int k = 63 - __builtin_clzll((unsigned long long)(last - first));
    int64_t a = ranges->row[k][first], b = ranges->row[k][last - (INT64_C(1) << k)];
    return a > b ? a : b;
}

struct row_table {
    int32_t row, number;
    int64_t first_device, devices, step_samples; /* the position of I2 */
    int64_t many;                                /* micro-batches that its times are for; 0: one */
    enum order order;
    const struct few_copies *few; /* what its places stand for */
    struct sums *at;              /* per place, and one past the last: of those before it */
    int64_t *forward_high;        /* per place: the most that is held during its forward pass, */
    /* and its backward pass, above what is held at the start of the pass */
    int64_t *backward_high;
    int64_t *weight_high; /* NULL: there is no pass of weight gradients */
    struct range_max forward_max, backward_max, weight_max; /* over those */
    double optimizer_each_ns, offload_each_ns;              /* per parameter, per byte */
    int64_t optimizer_least_ns;
    int64_t stand_in_bytes;
    double tied_share; /* the tied share of the owner's weights */
    /* The layout at either operator: equal where both are laid out alike. */
    uint64_t tied_owner, tied_user;
    double pace;        /* speed of work that overlaps: 1 / slowdown */
    int64_t step_bytes; /* the size of a gradient bucket */
    bool layers;        /* each layer is a bucket */
};

/* On either side of a border: the difference to (1). */
struct side {
    int64_t forward, backward, weight; /* ns */
    struct part_memory memory;
};
struct border {
    struct side before, after;
    int64_t send, back; /* ns */
    int64_t tie;        /* ns: gradients of tied weights that both sides have */
};

struct tables;
weft_status tables_new(const struct estimate_settings *settings, struct cost *cost,
                       struct flow_cache *flows, struct tables **out);
void tables_free(struct tables *tables);
int32_t tables_row(struct tables *tables, const struct choice *choice);
bool row_sends_tokens(const struct tables *tables, int32_t row); /* to experts on other devices */
/* A plan of the whole model's places. */
const struct plan *tables_walk(const struct tables *tables);

struct table_key {
    int64_t first_device, devices, step_samples;
    int32_t row;
    uint16_t order, many;
};
/* What `many` is for so many micro-batches: 0 for one, and their number only where times depend on it. */
uint16_t table_micro_batches(const struct estimate_settings *settings, int64_t micro_batches);
weft_status table_find(struct tables *tables, const struct table_key *key,
                       const struct row_table **out);
/* A run of one table before a run of another: on two stages, or on one stage if both have the same
 * first device, and there in one part or in two. The devices are those asked for, not the tables'
 * own (I2). Borders are found by place: the one before instance `at`. */
struct seam {
    const struct row_table *before, *after;
    int64_t before_device, after_device;
    /* not 0: the runs are in two parts, even if on one stage; APART_TURNED: the second the other way round (plan_place) */
    int64_t apart;
};
enum { APART = 1, APART_TURNED = 2 };
struct borders; /* of one seam, by kind of place */
weft_status seam_find(struct tables *tables, const struct seam *seam, struct borders **out);
weft_status border_find(struct tables *tables, struct borders *borders, int64_t at,
                        const struct border **out);

/* What a part takes so far: the sums of its runs, and the most that is held. */
enum { WAIT_FORWARD, WAIT_BACKWARD, WAIT_WEIGHT, WAIT_COUNT };
struct part_sums {
    struct sums sums;
    int64_t forward_rise, backward_rise, weight_rise; /* bytes above those at a pass's start */
    int64_t stand_in_bytes; /* the most over its tables that have layers in this part */
    struct sync_sums {      /* gradients beside the last pass, run by run (part_sums.c, 1) */
        double least, more; /* ns left over: max(least, q + more), if q were left before */
        double last_bucket; /* ns: of the first run, which completes the last bucket */
        double known;       /* ns: of all runs */
    } sync;
    /* Nanoseconds that passes take beyond their operators: of the latest run, and of the run before it. */
    int64_t waits[2][WAIT_COUNT];
};
/* To be called after a run of a table was added to the sums: adds what stands in for weights that
 * are on another stage. */
static inline void add_stand_in(struct part_sums *part, const struct row_table *table,
                                int64_t layers)
{
    if (layers > 0 && table->stand_in_bytes > part->stand_in_bytes)
        part->stand_in_bytes = table->stand_in_bytes;
}
void add_run(struct part_sums *part, const struct row_table *table, int64_t first, int64_t last);
/* To be called after a run was added to the sums, with the sums before it: notes how long the
 * gradients take of its first weight that has any to synchronise. */
void close_run(struct part_sums *part, const struct row_table *table, const struct sums *before,
               int64_t first_ns);
/* A border between the latest two runs of a part, limited to what holds inside this part, because
 * it was found on the whole model. It saves no more time than both runs wait, and it never lowers
 * the most that is held: that saving may be at a place outside this part. */
struct side inner_side(struct part_sums *part, const struct side *border);
/* Turns the sums into the work of a part: host-bound passes, gradients beside the last one. */
struct part_work close_part(const struct tables *tables, const struct part_sums *part,
                            const struct row_table *table, int64_t micro_batches);

/* The sums of one instance. */
void instance_sums(const struct row_table *table, int64_t instance, struct sums *out);

/* The instance that owns a tied weight, and the one that uses it; -1: the model has none. */
struct tied_pair {
    int64_t owner, user;
};
struct tied_pair tables_tied(const struct tables *tables);
/* By how many devices a range can be moved down without changing any cost (I2). */
int64_t shift_of(const struct cluster *cluster, int64_t first, int64_t devices);

#endif
