/* days.h - what `weft days` answers (days.c), and how it is shown (days_show.c). Private to the room. */
#ifndef WEFT_CLI_DAYS_H
#define WEFT_CLI_DAYS_H

#include "campaign/campaign.h"
#include "cli/cli.h"

/* The plan after a loss. */
struct elastic {
    bool asked;
    const char *plan; /* in words; NULL: nobody asked, or there is none */
    int64_t nodes;    /* of this plan: one less, or as many as a plan can be made for */
    int64_t iteration_ns;
    double switch_s; /* to load and start under the other plan */
};

struct days_answer {
    const struct plan *plan;
    int64_t iteration_ns;
    double samples, iterations;
    const struct failure_preset *preset;
    struct course course;
    enum saving saving;
    double saved_bytes, storage_bytes_per_s;
    struct expectation expected;
    struct walked walked;
    int64_t trials; /* 0: it was not played out */
    struct tariff tariff;
    struct bill bill;
    struct elastic elastic;
};
void days_print(struct arena *scratch, const struct days_answer *answer, FILE *out);
json_t *days_json(const struct days_answer *answer);

#endif
