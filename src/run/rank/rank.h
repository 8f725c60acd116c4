/* rank.h - a plan that runs: the execution graph with real numbers, one rank per device.
 *
 * The graph is the one that is simulated (compile/graph.h, unfolded). Every rank executes the tasks
 * of its device: operators by kernels (kernels.h), steps of reshards, gradient buckets, gathers of
 * sharded weights, sends between stages and copies to the host over a transport (transport.h). What a
 * plan says changes where numbers are and when they move, never what they are:
 *
 *   loss_t(plan) = loss_t(one rank)  for every step t, up to the rounding of sums in another order (1)
 *
 * since the weights a run begins with depend on its seed and their names only, samples are drawn by
 * their number, and what is random in an operator depends on where an element is in the whole.
 *
 *     struct hub *hub = hub_new(1, NULL);                       // or transport_mpi, under mpirun
 *     struct run_options o = {.plan = plan, .transport = transport_threads(hub, 0),
 *                             .kernels = &CPU_KERNELS, .source = source, .seed = 1,
 *                             .optimizer = {.kind = OPTIMIZER_ADAM, .rate = 1e-3F, ...}};
 *     struct rank *rank;
 *     run_open(&o, &rank);
 *     for (int64_t t = 0; t < steps; t++)
 *         run_step(rank, &loss);
 *     run_close(rank);
 *
 *   I1  All ranks of a run call the same functions of this header in the same order.
 *   I2  A loss and its gradients are means over the samples of the global batch and their rows; several
 *       losses are added up.
 *   I3  A run that fails on one rank fails on all, with the reason of the first.
 */
#ifndef WEFT_RUN_RANK_H
#define WEFT_RUN_RANK_H

#include "compile/compile.h"
#include "run/checkpoint/checkpoint.h"
#include "run/data/data.h"
#include "run/kernels/kernels.h"
#include "run/rank/rate.h"
#include "run/rank/record.h"
#include "run/transport/transport.h"

/* Small gradients are zero in fp16: losses are multiplied by a scale, gradients divided by it before anything is done with
 * them. Where they are not finite the step is skipped and the scale halved; after `GROWTH` steps without that it is
 * doubled (Micikevicius et al., 2018, section 3.2). */
struct loss_scale {
    double scale;          /* 0: losses are not scaled */
    int64_t good, skipped; /* steps since the scale changed; steps that were left out, of all */
};
enum { FIRST_LOSS_SCALE = 1 << 16, LOSS_SCALE_GROWTH = 2000 };

struct run_options {
    const struct plan *plan;
    struct transport *transport; /* of as many ranks as the plan has devices */
    const struct kernels *kernels;
    transport_carrier *carrier; /* of the device's memory; NULL: through the host if it is apart */
    struct batch_source source;
    struct optimizer_step optimizer; /* its kind and rates; the rest is filled in */
    uint64_t seed;
    float dropout;
    float clip;         /* limit of the gradients' norm; 0: it is not measured */
    int64_t first_step; /* steps that were done before, by a run that this one continues */
    struct loss_scale loss_scale; /* to begin with; its scale 0: FIRST_LOSS_SCALE. In fp16 alone */
    int64_t slice_bytes;          /* of gradient buckets that go at once, 0: DEFAULT_SLICE_BYTES */
    bool trace;                   /* record when every task ran */
    bool replays; /* an iteration's work is recorded once, where that can be (run_cannot_replay) */
};

/* A pipeline's transfer may have to wait for one slice: 1 MiB takes a millisecond at 1 GB/s, the
 * slowest network that one would train over. */
enum { DEFAULT_SLICE_BYTES = 1 << 20 };

struct rank;
/* Refuses plans that it cannot run: in nvfp4, without fp32 masters, operators without a kernel,
 * another number of ranks. */
weft_status run_open(const struct run_options *options, struct rank **out);
void run_close(struct rank *rank);
/* One iteration; the mean loss of its samples. */
weft_status run_step(struct rank *rank, double *loss);
/* The learning rate of the steps that follow. */
void run_set_rate(struct rank *rank, float rate);
/* Of all gradients of the last step, before they were clipped; not finite: no weight was changed.
 * With `clip` or a loss scale, for which no gradient is left to the next iteration. */
double run_gradient_norm(const struct rank *rank);
/* After the last step; its scale 0: losses are not scaled. */
struct loss_scale run_loss_scale(const struct rank *rank);
/* The mean loss of samples first .. first + global_batch - 1 of another source; no weight is changed,
 * nothing is dropped out. */
weft_status run_evaluate(struct rank *rank, const struct batch_source *source, int64_t first,
                         double *loss);

/* Where weights and optimizer state are between steps: this rank's part of each, without what other
 * ranks have too. Elements `first` .. `first + count` of those that the layout puts on this device;
 * layout_element says which of the whole's each is. Also completes what schedules leave to the next
 * iteration. Of a device apart from the host they are copies, which live until the next call. */
struct run_weight {
    const char *name; /* "layers.0.attn.qkv.weight" */
    int64_t elements; /* of the whole, without padding */
    const struct layout *layout;
    int64_t device; /* in the layout */
    int64_t first, count;
    struct shard shard;               /* the same, as checkpoints say it */
    float *value, *moment1, *moment2; /* moments NULL: the optimizer has none */
};
weft_status run_weights(struct rank *rank, void (*visit)(void *context, struct run_weight *weight),
                        void *context);
/* Everything that this rank holds of them, also what others have too: to be filled from a checkpoint
 * before the first step. Values and moments come apart, since shared state is a part of a whole
 * weight: in one call the moments are NULL, in the other the value. */
weft_status run_fill(struct rank *rank,
                     weft_status (*visit)(void *context, const struct run_weight *weight),
                     void *context);
/* Of plans that scale casts to fp8 by earlier steps, this rank's history of them (scales.c): how many numbers, and those, which
 * are the rank's until others are shown; 0: it has none. They are set before the first step, which then is like any other. */
int64_t run_history(struct rank *rank, const float **out);
void run_set_history(struct rank *rank, const float *history);
/* The number in the whole of element i of those that a device holds. */
int64_t layout_element(const struct layout *layout, int64_t device, int64_t i);

/* Bytes on this device when it held most, by what they were then; on its host; and what the simulator
 * says that the device holds at most. */
struct run_memory {
    int64_t peak, at_peak[MEMORY_CLASS_COUNT], host_peak, predicted;
};
struct run_memory run_memory(const struct rank *rank);
int64_t run_peak_bytes(const struct rank *rank); /* its peak alone, at no cost */

/* Why an iteration's work cannot be replayed though that was asked for; NULL: it can. */
const char *run_cannot_replay(const struct rank *rank);

/* What happened, with `trace`: one event per task of the graph that the rank had a part in. */
struct run_event {
    int64_t step;
    int32_t task;
    int64_t begin_ns, end_ns; /* since run_open */
};
/* What a user should know of how ranks exchange (transport.h); NULL: nothing. */
const char *run_note(const struct rank *rank);
size_t run_events(const struct rank *rank, const struct run_event **out);
const struct graph *run_graph(const struct rank *rank);

#endif
