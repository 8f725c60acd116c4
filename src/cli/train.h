/* train.h - `weft train`: its options, and what it prints. Private to the room. */
#ifndef WEFT_CLI_TRAIN_H
#define WEFT_CLI_TRAIN_H

#include "cli/degrees.h"
#include "run/run.h"

struct train_arguments {
    struct plan_arguments plan;
    struct training_options training; /* without its plan, which is opened later */
    int64_t ranks;                    /* as threads; 0 for as many as the plan has devices */
    double weight_decay;              /* below 0 for the optimizer's default */
    double clip, dropout;             /* the library has them as floats */
    bool resumes, no_overlap, memory_report, json;
};
extern const struct syntax TRAIN_SYNTAX; /* reads a struct train_arguments */
/* Sets what depends on several options, and checks them together. */
weft_status train_complete(struct train_arguments *arguments);

/* Prints progress: after every step, or every second on a terminal. The context of tell_step. */
struct teller {
    FILE *out; /* NULL to print nothing */
    bool terminal;
    double told_s;
    /* What a step is predicted to take and to hold on the fullest device, its FLOPs and those of all devices' peak in a
     * second; 0: not known. */
    double step_s, bytes, flops, peak_flops;
};
void tell_step(void *context, const struct training_news *news);
void tell_note(void *context,
               const char *line); /* to standard error, because it is no part of the answer */
/* Prints the result of the run. */
void train_print(struct arena *scratch, const struct train_arguments *arguments,
                 const struct training_result *result);
json_t *train_json(const struct train_arguments *arguments, const struct training_result *result);
/* Prints the peak memory of every rank next to the prediction. */
void memory_print(struct arena *scratch, const struct plan *plan,
                  const struct training_result *result, FILE *out);

#endif
