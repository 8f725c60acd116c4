/* galvatron_facts.h - what the authors of Galvatron-BMW did, which their tables do not say
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
    const char *extends; /* the row whose batch is B0; NULL: none */
    bool flush;          /* 1F1B */
};
/* How many chunks for so many samples of a device: constant + per_sample samples, where it applies. */
struct chunk_rule {
    int64_t at, below, pp; /* samples, fewer samples, stages; 0: any */
    double constant, per_sample;
};
struct galvatron_model {
    const char *name;
    struct measured_model measured;  /* but for the machine's members */
    ARRAY(struct chunk_rule) chunks; /* on 8 devices: the first that applies */
    int64_t chunk_samples[2];        /* else: on up to 8 stages, on more */
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
/* Everything is in `keep`. */
weft_status galvatron_facts_open(struct arena *keep, const struct galvatron_facts **out);
weft_status galvatron_facts_parse(struct arena *keep, const char *file, const char *text,
                                  size_t len, const struct galvatron_facts **out);
/* NULL: there is none. */
const struct galvatron_machine *galvatron_machine_find(const struct galvatron_facts *facts,
                                                       int64_t devices);
double galvatron_chunks(const struct galvatron_model *model, int64_t samples, int64_t pp);

#endif
