/* primitives.h - inside aceso: reconfiguration primitives, each a row of one table (Aceso, Table 1, and Weft's own). */
#ifndef WEFT_SEARCH_ACESO_PRIMITIVES_H
#define WEFT_SEARCH_ACESO_PRIMITIVES_H

#include "search/aceso/room.h"

enum primitive {
    INC_OPS,
    DEC_OPS,
    INC_BATCH,
    DEC_BATCH,
    INC_DP,
    DEC_DP,
    INC_TP,
    DEC_TP,
    INC_RECOMPUTE,
    DEC_RECOMPUTE,
    INC_SHARD,
    DEC_SHARD,
    SEQUENCE_ON,
    SEQUENCE_OFF,
    OFFLOAD_MORE,
    OFFLOAD_LESS,
    INC_PIECES,
    DEC_PIECES,
    CHANGE_SCHEDULE,
    /* The rest only where sequences are long or there are experts (problem.primitive_end). */
    INC_CP,
    DEC_CP,
    INC_EP,
    DEC_EP,
    PRIMITIVE_COUNT
};
enum granularity { OF_STAGE, OF_MODEL };

struct proposal {
    struct config config;
    struct verdict verdict;
    enum primitive primitive;
    int32_t stage, partner; /* partner: -1 for none */
    int32_t amount;         /* the argument: operators moved, a degree, samples */
    uint64_t hash;
};
enum { MOST_PROPOSALS = 96 };
struct proposals {
    int32_t count;
    struct proposal data[MOST_PROPOSALS];
};
/* The input of a primitive. */
struct asking {
    struct judge *judge;
    const struct config *from;
    const struct stage_use *cost; /* per stage */
    struct verdict verdict;
    enum primitive primitive;
    int32_t stage;
    enum grain grain;
    bool refining; /* degrees are settled, only cuts are refined */
    struct proposals *out;
};
struct primitive_row {
    const char *name;             /* as in Table 1 */
    int8_t trend[RESOURCE_COUNT]; /* how the stage's consumption of each resource changes */
    const char *argument;         /* what changes */
    enum granularity granularity;
    enum primitive partner; /* what a partner stage does; itself: there is no partner */
    bool paper;             /* whether it is one of Table 1 */
    weft_status (*propose)(const struct asking *asking);
};
extern const struct primitive_row PRIMITIVES[PRIMITIVE_COUNT];
/* Adds a copy of `from`, to be changed by the caller, to the proposals. NULL: no more room. */
struct proposal *propose(const struct asking *asking, int32_t partner, int32_t amount);
/* "moved 3 operators to stage 1" */
const char *proposal_text(struct arena *keep, const struct proposal *made,
                          const struct config *before);

weft_status propose_dec_ops(const struct asking *asking);
weft_status propose_inc_ops(const struct asking *asking);
/* Ranks stages by how much they could take over, the best partner first; `stage` is left out. */
int32_t rank_partners(const struct asking *asking, int32_t out[MOST_STAGES]);

#endif
