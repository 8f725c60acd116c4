/* train.h - `weft train`: its options, and what it tells. Private to the room. */
#ifndef WEFT_CLI_TRAIN_H
#define WEFT_CLI_TRAIN_H

#include "cli/degrees.h"
#include "run/run.h"

struct train_arguments {
    struct plan_arguments plan;
    struct training_options training; /* its plan is still to be opened */
    int64_t ranks;                    /* threads; 0: as many as the plan has devices */
    double weight_decay;              /* below 0: the optimizer's own */
    double clip, dropout;             /* floats in the library */
    bool resumes, no_overlap, memory_report, json;
};
extern const struct syntax TRAIN_SYNTAX; /* of a struct train_arguments */
/* What follows from several options at once. */
weft_status train_complete(struct train_arguments *arguments);

/* Lines on the way: every step, or every second on a terminal. The context of tell_step. */
struct teller {
    FILE *out; /* NULL: nothing is told */
    bool terminal;
    double told_s;
};
void tell_step(void *context, const struct training_news *news);
void tell_note(void *context,
               const char *line); /* on standard error: it is no part of the answer */
/* What became of it. */
void train_print(struct arena *scratch, const struct train_arguments *arguments,
                 const struct training_result *result);
json_t *train_json(const struct train_arguments *arguments, const struct training_result *result);
/* What every rank held when it held most, beside the prediction. */
void memory_print(struct arena *scratch, const struct plan *plan,
                  const struct training_result *result, FILE *out);

#endif
