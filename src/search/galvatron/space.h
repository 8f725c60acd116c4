/* space.h - what one layer may do on a group of devices: the leaves of Galvatron-BMW's decision
 * trees (section III-B), and further ones of Weft's own.
 *
 * A strategy nests *ways* of parallelism, outermost (slowest links) first, each with its degree,
 * and carries flags: recompute (CKPT), sequence parallelism along TP, state sharding.
 *
 *   I1  A way occurs at most once, with a degree of at least 2; the product of the degrees is the
 *       group (takeaway #2: groups of equal size). Groups that are no power of two have all their
 *       ordered factorisations.
 *   I2  PP is no way inside a group: it divides the devices into groups first, across the slowest
 *       links (takeaway #1).
 *   I3  DP and SDP are never nested in each other (takeaway #3), unless a space has SPACE_MIX.
 *   I4  shard is 3 exactly when SDP is a level; 1 and 2 only come with DP. sequence only comes with
 *       TP.
 *   I5  CP and EP nest as Megatron numbers devices: TP inside CP inside EP inside DP. Only DP, SDP
 *       and TP take all orders: with five ways there would be thousands.
 *
 * A group of 2^g devices, g > 0, has 3 + 4 (g - 1) = 4g - 1 strategies of DP, SDP and TP without
 * recompute: three alone, and {DP, SDP} with TP in two orders and g - 1 pairs of degrees.
 */
#ifndef WEFT_SEARCH_GALVATRON_SPACE_H
#define WEFT_SEARCH_GALVATRON_SPACE_H

#include "plan/plan.h"

/* ---- strategies ------------------------------------------------------------------------------ */

enum way {
    WAY_TP,  /* tensor parallelism */
    WAY_DP,  /* data parallelism */
    WAY_SDP, /* sharded data parallelism: ZeRO-3 */
    WAY_CP,  /* context parallelism: positions of the sequence */
    WAY_EP,  /* expert parallelism; data parallelism where there are no experts */
    WAY_COUNT
};

struct level {
    enum way way;
    int32_t degree;
};
struct strategy {
    int32_t levels;
    struct level level[WAY_COUNT]; /* outermost first (I1) */
    uint8_t shard;                 /* state sharding, 0 to 3 (I4) */
    bool recompute;
    unsigned
        modules; /* with recompute: those of a layer that run again (plan/modules.c); 0: all of it */
    bool sequence; /* parallelism along TP */
};

int64_t strategy_devices(const struct strategy *strategy);
/* 1 if the way is not used */
int64_t strategy_degree(const struct strategy *strategy, enum way way);
bool strategy_equal(const struct strategy *a, const struct strategy *b);

/* "2-2*-2f": PP, TP and DP degrees. A level that is not the outermost has a star for each level
 * from the innermost up to it, so `*` is innermost, on consecutive devices. f is SDP, z1 and z2 the
 * other shardings; after that come -cp2, -ep2, -sp (sequence) and -c (recompute), -m of modules. With both DP and
 * SDP, the third field is their sum, "1-1-2+4f*". */
const char *strategy_text(struct arena *keep, const struct strategy *strategy, int64_t pp);

/* ---- spaces ---------------------------------------------------------------------------------- */

enum space_flag {
    SPACE_RECOMPUTE = 1,  /* with and without CKPT */
    SPACE_MIX = 2,        /* DP nested with SDP, against takeaway #3 */
    SPACE_ZERO_1 = 4,     /* DP with optimizer states sharded, too */
    SPACE_ZERO_2 = 8,     /* and with gradients sharded */
    SPACE_SEQUENCE = 16,  /* TP with sequence parallelism, too */
    SPACE_TP_INSIDE = 32, /* TP only on consecutive devices */
    SPACE_BALANCE = 64    /* stages by Algorithm 2, not of equal numbers of layers */
};

enum { MOST_SPACE_LISTS = 2 };
struct space {
    const char *name, *summary;
    unsigned ways;                   /* 1 << enum way */
    int64_t least_pp, most_pp;       /* 0: all devices */
    int64_t tp;                      /* the only TP degree; 0: any */
    unsigned flags;                  /* of enum space_flag */
    unsigned list[MOST_SPACE_LISTS]; /* lists of modules that layers may recompute, too; 0: none */
};
/* The rows of Galvatron-BMW's Table II and Weft's own. */
const struct space *space_find(const char *name); /* NULL if unknown */
size_t space_all(const struct space **out);

struct strategies {
    struct strategy *data;
    size_t len, cap;
};
/* All strategies of a group, those without recompute first; none if the space cannot fill the
 * group. */
void space_strategies(struct arena *keep, const struct space *space, int64_t group,
                      struct strategies *out);
/* The PP degrees of a space that divide the devices, ascending. */
struct pp_degrees {
    int64_t *data;
    size_t len, cap;
};
void space_pp_degrees(struct arena *keep, const struct space *space, int64_t devices,
                      struct pp_degrees *out);

#endif
