/* file.h - a plan file while it is read. Private to the room.
 *
 *   I1  Errors are reported at the line of the user's file that caused them; each piece of the plan
 *       knows its line until the plan is checked.
 */
#ifndef WEFT_PLAN_FILE_H
#define WEFT_PLAN_FILE_H

#include "plan/pattern.h"

/* The keys at the top of the file. */
struct file_root {
    const char *model, *cluster, *schedule;
    const struct doc *defer_head;
    const struct doc *order, *placement, *joins; /* the schedule's lists (schedule_from_doc) */
    const struct doc *options, *batch, *overlap, *bucket, *software, *degrees, *stages, *tree,
        *choices;
    bool whole_sends, propagate;
    int dtype, policy; /* -1: not given */
    int optimizer;
    int64_t memory_bytes, pieces, segments, group, replicate, stage_run;
    double optimizer_offload;
    double margin_percent; /* -1: not given */
};

struct file_batch {
    int64_t global, micro, step; /* 0: not given */
};

struct file_stage {
    const struct doc *line, *until, *devices;
    int64_t first_device;  /* -1: directly after the stage before */
    int64_t count;         /* devices; 0: an equal share */
    int64_t in_flight;     /* most micro-batches between their passes; 0: as the schedule has it */
    int64_t micro_batches; /* in which it takes the batch; 0: as many as the plan has */
};

struct plan_file {
    struct arena *scratch;
    const char *name;
    const struct doc *doc;
    struct file_root root;
    struct file_batch batch;
    int64_t defer_head; /* as in a plan; once batch and parts are known */
    struct degrees degrees;
    const struct file_stage *stage; /* NULL: stages are not written out */
    int32_t stages;                 /* 0: not given */
    struct plan *plan;
    struct name_paths paths;
    /* per instance: the line that set its split, or NULL; the same of its backward pass */
    const struct doc **split_at, **back_at;
};

/* file_top.c: the first three read parts of the top; then the model and the cluster are opened. */
weft_status file_read_root(struct plan_file *file);
weft_status file_read_batch(struct plan_file *file);
weft_status file_read_degrees(struct plan_file *file);
weft_status file_read_exchanges(struct plan_file *file);
weft_status file_read_software(struct plan_file *file);
weft_status file_open_both(struct plan_file *file, struct opened_plan *out);
weft_status file_options_text(struct plan_file *file, const char **out); /* YAML flow; NULL: none */

/* file_stages.c: reads `stages`; later, when the plan exists, cuts it. */
weft_status file_read_stages(struct plan_file *file, int64_t devices);
bool file_stages_differ(const struct plan_file *file); /* whether their numbers of devices differ */
bool file_has_cuts(const struct plan_file *file);      /* whether some stage says `until` */
weft_status file_map_stages(struct plan_file *file, int64_t pieces);
/* Gives the plan, which has its batch, an order with the stages' limits, if there are any. */
weft_status file_limit_stages(struct plan_file *file);

/* file_tree.c: applies `tree` and `choices` to the plan. */
weft_status file_apply_tree(struct plan_file *file);

/* propagate.c: gives splits to those that the tree left open. */
weft_status file_propagate(struct plan_file *file);

/* A file that the plan file names: next to it if it is there. */
const char *file_beside(const struct plan_file *file, const char *name);

/* Repeats the last error with a line of the file. */
weft_status file_error_at(const struct doc *where, weft_status status);

#endif
