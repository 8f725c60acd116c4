/* fit.h - measured collectives, and the constants of collective.c's equation (1) fitted to them.
 *
 *   T = latency + steps * step + (V + sqrt(V * half_size)) / bandwidth                          (1)
 *
 *   I1  `bytes` of a sample is the larger of each rank's send and receive buffer, as nccl-tests
 *       prints it and collective_time() takes it.
 */
#ifndef WEFT_CLUSTER_FIT_H
#define WEFT_CLUSTER_FIT_H

struct sample {
    enum collective collective;
    int64_t devices, nodes;
    double bytes, seconds;
    const char *file;
    int line;
};

struct samples {
    struct sample *data;
    size_t len, cap;
    size_t skipped; /* rows without a size, or marked as out of memory */
};

/* Which rows to take; zeros take all. */
struct sample_filter {
    const enum collective *collective; /* also the collective of a file that does not name one */
    int64_t devices;
    const char *column, *value; /* CSV: only rows with this value in this column */
};

/* nccl-tests' output, old or new, or CSV; appends to `out`. docs/guide/fitting.md documents the CSV
 * columns. */
weft_status samples_read(struct arena *keep, const char *path, const struct sample_filter *filter,
                         struct samples *out);
weft_status samples_parse(struct arena *keep, const char *name, const char *text, size_t len,
                          const struct sample_filter *filter, struct samples *out);

struct fit {
    enum collective collective;
    int64_t devices; /* of all samples; 0: they differ */
    int64_t nodes;   /* the largest number of any sample */
    double latency_s;
    double step_s;          /* 0 unless several numbers of devices separate it from the latency */
    double bus_bytes_per_s; /* 0 when `efficiency` is given */
    double efficiency;      /* of the cluster's links; 0 without a cluster */
    double half_bytes;
    size_t points, sizes;      /* samples, distinct sizes among them */
    double median, p90, worst; /* relative errors */
    double r2;                 /* of log time: 1 - residual / total variation */
};

/* Fits all samples, which must be of one collective. With a cluster, the bandwidth becomes a share
 * of what its link graph offers to as many devices. Refuses samples that do not determine the
 * constants. */
weft_status fit_samples(const struct sample *samples, size_t count, const struct cluster *cluster,
                        struct fit *out);
weft_status fit_seconds(const struct fit *fit, const struct cluster *cluster,
                        const struct sample *sample, double *out);

/* The part of a cluster file that makes collective_time() use the fit (see struct
 * collective_fit). */
const char *fit_yaml(struct arena *keep, const struct fit *fit);

#endif
