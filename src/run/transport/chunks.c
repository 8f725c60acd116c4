/* chunks.c - whose part of a collective's numbers is where, and sums of such parts (chunks.h). */
#include "run/transport/chunks.h"

#include <string.h>

struct float_span chunk_of(const struct transfer *x, int32_t members, int32_t m)
{
    int64_t each = x->count, all = each * members;
    if (x->kind == TRANSFER_ALL_REDUCE || x->kind == TRANSFER_BROADCAST) {
        bool one_has_all = x->kind == TRANSFER_BROADCAST;
        each = ceil_div(x->count, one_has_all && members > 1 ? members - 1 : members);
        all = x->count;
        if (one_has_all)
            m = m == x->peer ? members : m > x->peer ? m - 1 : m;
    }
    int64_t first = m * each < all ? m * each : all;
    return (struct float_span){first, first + each < all ? each : all - first};
}

static void add_up(enum reduce op, const float *from, int64_t count, float *to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = op == REDUCE_SUM ? to[i] + from[i] : to[i] > from[i] ? to[i] : from[i];
}

void sum_addends(const struct transfer *x, int32_t members, int32_t self, float *rooms)
{
    struct float_span own = chunk_of(x, members, self);
    size_t bytes = (size_t)own.count * sizeof(float);
    float *to = (float *)x->to + (x->kind == TRANSFER_ALL_REDUCE ? own.first : 0);
    memcpy(rooms + self * own.count, (const float *)x->from + own.first, bytes);
    for (int32_t m = 1; m < members; m++) /* I1 */
        add_up(x->op, rooms + m * own.count, own.count, rooms);
    memcpy(to, rooms, bytes);
}
