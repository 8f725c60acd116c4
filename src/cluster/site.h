/* site.h - what a collective finds where its group lies, and the algorithm that it takes there. Private to this room. */
#ifndef WEFT_CLUSTER_SITE_H
#define WEFT_CLUSTER_SITE_H

#include "cluster/placement.h"

/* NCCL's protocols. LL sends a flag with every 4 bytes, LL128 one with every 120; Simple waits for whole chunks. */
enum protocol { PROTOCOL_LL, PROTOCOL_LL128, PROTOCOL_SIMPLE, PROTOCOL_COUNT };

/* Of a ring over NVLink, where NCCL's constants say too little (protocols.c, I3). */
struct ring_steps_time {
    double start_s, step_s; /* start_s: on top of NCCL's base latency; step_s: 0: as NCCL says */
    bool beside;            /* steps pass while bytes do */
};

/* What devices of one architecture reach (protocols.c). */
struct arch_model {
    const char *arch;
    /* share of a wire's bandwidth that large messages reach */
    double nvlink, pci, pci_send;
    double chunk_s; /* tau */
    bool staged;    /* PCIe traffic goes through host memory, also on the way to a NIC */
    double start_s; /* on top of NCCL's base latencies */
    /* the time that a device's own piece takes, over that of one it receives */
    double entry;
    /* the most that LL carries round the rings of a node */
    double ll_bytes_per_s;
    double ll128; /* share of B that LL128 reaches; 0: devices without it */
    /* sums in the switch: share of the wires, latency; 0: devices without them */
    double nvls, nvls_s;
    double ll128_bytes_per_s; /* the most that LL128 carries; 0: no such limit */
    struct ring_steps_time ring[PROTOCOL_COUNT];
};
const struct arch_model *arch_model(const struct device *device);

struct site {
    const struct cluster *cluster;
    const struct arch_model *arch;
    enum collective collective, fitted; /* fitted: whose measurements it has */
    struct footprint at;
    const struct channels *channels;
    const struct collective_fit *fit;
    double volume; /* V of the ring (or of all sends of one device) */
    /* bytes of the buffer for each device; all-to-all: from each device to each other */
    double piece;
    bool bare;       /* only the wires count: every efficiency is 1 */
    double crossing; /* struct group */
};

/* Whether the group extends beyond one unit of this tier. The last tier is the whole fabric. */
bool crosses_tier(const struct site *site, int32_t tier);
/* Whether a collective goes from device to device and not round a ring. */
bool goes_direct(enum collective collective);

/* Equation 1 of collective.c for one algorithm and protocol. */
struct algorithm_line {
    const char *algorithm;
    double alpha_s, volume, bytes_per_s, half_bytes;
    double beside_s;   /* steps that pass while bytes do */
    double expected_s; /* by NCCL's constants; 0: line_seconds */
};
double line_seconds(const struct algorithm_line *line);
/* The fastest one for a buffer of so many bytes, where the narrowest link carries bytes_per_s. */
struct algorithm_line best_line(const struct site *site, double bytes, double bytes_per_s);
/* With the constants that were measured (I2 of collective.c). */
struct algorithm_line measured_line(const struct site *site, double bytes_per_s);

#endif
