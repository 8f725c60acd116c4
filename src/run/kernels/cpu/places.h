/* places.h - where the elements of a call's output are, for kinds that treat elements alike. */
#ifndef WEFT_RUN_KERNELS_CPU_PLACES_H
#define WEFT_RUN_KERNELS_CPU_PLACES_H

#include "run/kernels/cpu/cpu.h"

static inline int64_t elements_of(const struct kernel_call *call)
{
    return axes_product(call, &call->op->output, 0, call->op->output.axes);
}

static inline int64_t tile_from(int64_t first, int64_t all)
{
    return all - first < TILE ? all - first : TILE;
}

/* Rows along the last axis. */
struct row_places {
    int axes;
    struct extent axis[MAX_AXES];
    int64_t rows, columns;
};

static inline struct row_places places_of(const struct kernel_call *call)
{
    struct row_places p = {.axes = call->op->output.axes, .rows = 1};
    for (int i = 0; i < p.axes; i++) {
        p.axis[i] = axis_extent(call, &call->op->output, i);
        if (i + 1 < p.axes)
            p.rows *= p.axis[i].size;
    }
    p.columns = p.axis[p.axes - 1].size;
    return p;
}

/* The number of a row in the whole, counted from axis `outermost` on. */
static inline int64_t row_in_whole(const struct row_places *p, int64_t row, int outermost)
{
    int64_t index = 0, stride = 1;
    for (int i = p->axes - 2; i >= outermost; i--) {
        index += (p->axis[i].begin + row % p->axis[i].size) * stride;
        row /= p->axis[i].size;
        stride *= p->axis[i].whole;
    }
    return index;
}

#endif
