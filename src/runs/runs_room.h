/* runs_room.h - a row of a table of runs before it is a run, and the errors of published runs. Inside this room only. */
#ifndef WEFT_RUNS_ROOM_H
#define WEFT_RUNS_ROOM_H

#include "runs/runs.h"

enum run_field_kind {
    RUN_TEXT,
    RUN_COUNT,  /* int64_t, at least 1 */
    RUN_REAL,   /* double above 0, times its unit */
    RUN_SWITCH, /* bool */
    /* Words that set several members of the degrees. */
    RUN_ZERO,
    RUN_RECOMPUTE,
    RUN_DTYPE,
    RUN_POLICY,
    RUN_OPTIMIZER,
    RUN_SCHEDULE,
    RUN_OVERLAP,
    RUN_BUCKET,
    RUN_SOFTWARE,
    RUN_FIELD_KINDS
};
/* Sizes that change a model, each an option of its own. */
enum run_size {
    RUN_LAYERS,
    RUN_HIDDEN,
    RUN_HEADS,
    RUN_FFN,
    RUN_VOCAB,
    RUN_SEQ,
    RUN_LORA,
    RUN_SIZES
};

/* What a real number measures, which says the units that it may have. */
enum quantity {
    QUANTITY_SECONDS,
    QUANTITY_RATE, /* of all devices */
    QUANTITY_DEVICE_RATE,
    QUANTITY_TFLOPS,
    QUANTITY_BYTES,
    QUANTITIES
};

struct heading_column {
    const char *meaning, *spellings; /* spellings with blanks between them */
    enum run_field_kind kind;
    size_t offset; /* in struct run_fields */
    double unit;   /* of a real number that says none */
    enum quantity quantity;
};
struct run_fields {
    const char *name, *model, *options, *cluster, *device;
    int64_t size[RUN_SIZES], devices, nodes, per_node;
    struct degrees degrees;
    double speed[RUN_SPEEDS], memory, reserved;
};

/* A number with its unit, or with `unit` where it says none, in seconds, per second, TFLOP/s or bytes (run_units.c). */
bool quantity_parse(enum quantity quantity, double unit, const char *text, double *out);
/* A field or a heading as it was written, without blanks around it. */
const char *bare_text(struct arena *keep, const char *text);
/* Whether one of several words is this one. */
bool has_word(const char *words, const char *word);
/* Reads one field; returns what is wrong with it, or NULL. */
const char *run_field_read(struct arena *keep, const struct heading_column *column,
                           const char *heading, const char *text, struct run_fields *out);
/* A run with what it says about model, cluster and speed, or with a reason why that is too little. */
struct user_run run_from_fields(struct arena *keep, const struct run_fields *fields);

/* data/intervals/residuals.csv, which `weft validate --residuals` writes */
extern const char RESIDUALS_TEXT[];

#endif
