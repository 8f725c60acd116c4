/* train.h - a run from its data to its last checkpoint: what `weft train` does on every rank. 
 *
 *   step s takes  samples [s g, (s + 1) g) of the order, the rate of s, the gradients' clipped norm; (1)
 *   every so often the loss of validation samples, and a checkpoint
 *
 *   I1  All of it depends on the step and the seed alone: a run that is resumed, under this plan or
 *       another, goes on to the losses of one that was not interrupted, up to rounding.
 *   I2  A run ends on all ranks at the same step: by its steps, by `stop` on any rank, or by an error
 *       of any rank, which becomes that of all. What was saved stays as it is.
 *   I3  A loss or a norm that is not finite ends the run before anything is saved.
 *   I4  What would keep a run from saving is found before its first step: its folder is there, locked,
 *       has space, and holds no checkpoint of another run.
 */
#ifndef WEFT_RUN_TRAIN_H
#define WEFT_RUN_TRAIN_H

#include <signal.h>

#include "run/rank/rank.h"
#include "run/train/ending.h"
#include "run/train/log.h"
#include "run/train/settings.h"

struct training_news {
    struct log_row row; /* its step counts from 1 */
    int64_t steps;
    double left_s;     /* as the steps so far went */
    double step_s;     /* that it took */
    const char *saved; /* the checkpoint that was written after the step, NULL: none */
};

struct training_options {
    const struct plan *plan;
    const char *device;  /* that ranks compute on (backends.h); NULL: the CPU */
    const char *profile; /* a database whose algorithms products are computed by; NULL: none */
    struct corpus_options data;
    int64_t steps;
    int64_t seed; /* below 0: that of the checkpoint, else DEFAULT_SEED */
    struct rate_schedule rate;
    struct optimizer_step optimizer; /* its kind and what goes with it */
    float dropout, clip;
    double loss_scale;      /* in fp16: what losses are multiplied by at first; 0: the usual */
    int64_t validate_every; /* steps; 0: at the end only */
    const char *log;        /* NULL: none */
    struct checkpoint_place checkpoint; /* folder NULL: none */
    int64_t save_every;                 /* steps; 0: at the end only */
    const char *resume;                 /* a checkpoint; NULL: from the beginning */
    /* Folders of transformers (public_weights.h): whose weights a run begins with, and what its last checkpoint is
     * written as at its end. NULL: none. */
    const char *from, *to;
    unsigned allowed;         /* 1 << enum change: settings that a resumed run may change */
    bool replays;             /* rank.h; where it cannot be, that is said */
    const char *trace;        /* a file for what happened; NULL: none */
    struct slowdown slowdown; /* of ranks that are threads */
    struct request *request;  /* whose memory they take; NULL: that of the caller */
    const volatile sig_atomic_t *stop; /* NULL: never */
    /* After every step, on rank 0; NULL: nobody is told. */
    void (*tell)(void *context, const struct training_news *news);
    /* A line before the first step, on rank 0: what the run goes on from. NULL: as above. */
    void (*note)(void *context, const char *line);
    /* As soon as a rank knows that the run has failed, before it tells others and cleans up; from its own thread. NULL: as above. */
    void (*fails)(void *context, weft_status status);
    void *context;
};
enum { DEFAULT_SEED = 1 };
/* Of a large file one need not read all that is kept for validation: the first 16 batches tell. */
enum { MOST_VALIDATION_BATCHES = 16 };

struct training_result {      /* the same on all ranks */
    int64_t first_step, step; /* steps done before, and now */
    double loss;              /* of the last step */
    bool validated, stopped;
    bool finished;             /* there was nothing left to do: all steps were done before */
    double validation_loss;    /* the last one */
    struct run_memory *memory; /* per rank, in `keep`; NULL if finished */
    const char *saved;         /* the last checkpoint, in `keep`; NULL: none. On rank 0 */
};

/* On one rank, with its transport. */
weft_status train_rank(const struct training_options *options, struct transport *transport,
                       struct arena *keep, struct training_result *out);
/* On as many ranks as the plan has devices, all of them threads of this process. */
weft_status train_threads(const struct training_options *options, struct arena *keep,
                          struct training_result *out);

#endif
