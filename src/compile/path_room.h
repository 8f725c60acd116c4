/* path_room.h - the layouts between two, as the search sees them; private to path.c and
 * path_options.c. */
#ifndef WEFT_COMPILE_PATH_ROOM_H
#define WEFT_COMPILE_PATH_ROOM_H

#include "compile/path.h"

enum { MAX_OPTIONS = 8, MAX_STATES = 1024 };

struct moving_digit {
    const struct step_digit *digit;
    int32_t options; /* the first is the beginning, the second the end */
    int64_t option[MAX_OPTIONS];
};

struct path_search {
    const struct mesh *mesh;
    int64_t elements; /* under the digits that stay */
    int32_t moving, stay;
    struct moving_digit move[MAX_STEP_DIGITS];
    const struct step_digit *staying[MAX_MESH_DIGITS]; /* the splits among the digits that stay */
    int32_t states, end;
    double most; /* the cost of a known path (I4) */
    bool guided; /* to reach the end quickly (I5) */
    double cost[MAX_STATES];
    double rest[MAX_STATES]; /* lower bound on what is left, for sound states */
    int16_t parent[MAX_STATES];
    int16_t open[MAX_STATES]; /* states that were reached and not left yet */
    int32_t opened;
    uint8_t soundness[MAX_STATES]; /* enum soundness: determined when first asked for */
};

/* Sets what each moving digit may hold on the way; false: too many digits move for a search. */
bool path_begin(struct path_search *s, const struct mesh *mesh);

/* Whether two splits of one tensor are independent: neither cuts through the other. */
static inline bool splits_independent(int64_t stride, int64_t degree, int64_t other,
                                      int64_t other_degree)
{
    return stride <= 0 || other <= 0 || stride % (other * other_degree) == 0 ||
           other % (stride * degree) == 0;
}

#endif
