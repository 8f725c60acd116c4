/* galvatron_facts.h - what the authors of Galvatron-BMW did that their tables do not say
 * (data/validation/galvatron.yaml). Inside this room only. */
#ifndef WEFT_LAB_GALVATRON_FACTS_H
#define WEFT_LAB_GALVATRON_FACTS_H

#include "lab/layer_profile.h"

struct galvatron_machine {
    int64_t devices;
    double shard_margin;
};
/* A row of the tables. */
struct galvatron_row {
    const char *strategy, *space;
    const char *extends; /* the row whose batch is B0, or NULL */
    bool flush;          /* 1F1B */
};
/* The number of chunks for a device's samples, if the rule applies: constant + per_sample * samples. */
struct chunk_rule {
    int64_t at, below, pp; /* applies to so many samples, to fewer, to so many stages; 0: any */
    double constant, per_sample;
};
struct galvatron_model {
    const char *name;
    struct measured_model measured;  /* without what depends on the machine */
    ARRAY(struct chunk_rule) chunks; /* on 8 devices; the first that applies counts */
    int64_t chunk_samples[2];        /* on more: with up to 8 stages, with more stages */
    int64_t end_peak_mib[2];
    int64_t batch_step; /* on 16 devices */
    bool cut_three_ways;
};
struct galvatron_facts {
    const char *device;
    ARRAY(struct galvatron_machine) machines;
    ARRAY(struct galvatron_row) rows;
    ARRAY(struct galvatron_model) models;
};
/* Everything is allocated in `keep`. */
weft_status galvatron_facts_open(struct arena *keep, const struct galvatron_facts **out);
weft_status galvatron_facts_parse(struct arena *keep, const char *file, const char *text,
                                  size_t len, const struct galvatron_facts **out);
/* NULL if there is none. */
const struct galvatron_machine *galvatron_machine_find(const struct galvatron_facts *facts,
                                                       int64_t devices);
/* In how many chunks a device's samples were taken on so many stages; one or two numbers, of which the better counts. Rows that
 * are not 1F1B cut a batch only if there are several stages; 1F1B rows also accumulate gradients on a single stage, and may
 * take the chunks of the others, too. */
size_t galvatron_chunk_counts(const struct galvatron_model *model, const struct galvatron_row *row,
                              int64_t devices, int64_t samples, int64_t pp, int64_t out[2]);

#endif
