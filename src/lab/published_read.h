/* published_read.h - from a row of a file to how the run was done. Inside this room only. */
#ifndef WEFT_LAB_PUBLISHED_READ_H
#define WEFT_LAB_PUBLISHED_READ_H

#include "exchange/exchange.h"
#include "lab/published.h"

/* A row of the common columns; 0 and "": not published. */
struct run {
    const char *name, *model, *gpu, *schedule, *recompute, *zero, *precision, *overlap, *notes,
        *source;
    int64_t layers, hidden, ffn, heads, kv_heads, seq, vocab, experts, top_k;
    int64_t devices, sequence;
    int64_t tp, cp, ep, pp, pieces, dp, micro_batch, global_batch;
    double time_s, allocated_gib, reserved_gib;
};

typedef weft_status dataset_reader(struct arena *keep, const struct dataset *dataset,
                                   struct csv *csv, struct published_rows *out);
dataset_reader read_runs;    /* the common columns */
dataset_reader read_golden;  /* the same, less times that were copied from another platform */
dataset_reader read_fold3d;  /* published_papers.c */
dataset_reader read_proteus; /* published_papers.c */

typedef void practice(struct arena *keep, const struct run *run, struct published *row);
practice practice_sc21, practice_seqsel, practice_core_h100, practice_vtrain, practice_simumax,
    practice_torchtitan, practice_weft_h200, practice_llm_foundry, practice_bridge, practice_golden;

/* The half of the run that these words describe. */
enum half half_of(const char *how);
/* Why a row cannot be expressed; the first reason stays. */
void refuse(struct arena *keep, struct published *row, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* What is taken for something its source leaves open; several are joined. */
void assume(struct arena *keep, struct published *row, const char *what);
/* `devices` of a preset whose nodes have `per_node`: "dgx-a100:4", "dgx-a100:1x4"; NULL: no whole
 * nodes. */
const char *cluster_text(struct arena *keep, const char *preset, int64_t per_node, int64_t devices);
void set_dtype(struct degrees *degrees, enum dtype dtype);
void set_policy(struct degrees *degrees, enum policy policy);
/* What overlaps, and gradients in buckets of so many bytes (0: all of a part). */
void set_overlap(struct degrees *degrees, unsigned overlap, int64_t bucket_bytes);

/* Absolute errors, which are sorted. */
struct error_list {
    double *data;
    size_t len, cap;
};
struct errors errors_of(double *error, size_t count);

/* Where a dataset's file is, and what is in it. */
weft_status published_path(struct arena *keep, const char *name, char **out);
weft_status published_file(struct arena *keep, const char *name, char **path, char **text,
                           size_t *len);

/* Fields that may be empty: then 0. */
weft_status csv_whole(const struct csv *csv, int at, int64_t *out);
weft_status csv_number(const struct csv *csv, int at, double *out);

#endif
