/* elements.h - numbers in the host's memory as loops see them: fp32 where they lie, bf16 and fp16 widened a tile at a
 * time. The CPU's device and its kernels are made of these.
 */
#ifndef WEFT_RUN_DEVICE_ELEMENTS_H
#define WEFT_RUN_DEVICE_ELEMENTS_H

#include "model/model.h"

/* ---- vectors --------------------------------------------------------------------------------- */

/* Loops for the machine at hand: arm64's vectors are in its baseline, x86-64's wide ones are not.
 * Sanitizers do not bear the resolvers that choose among the versions. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WEFT_SANITIZED 1
#endif
#endif
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(WEFT_SANITIZED)
#define VECTOR __attribute__((target_clones("arch=haswell", "default")))
#else
#define VECTOR
#endif
#define INLINE static inline __attribute__((always_inline))

INLINE float bits_float(uint32_t bits)
{
    union {
        uint32_t u;
        float f;
    } both = {bits};
    return both.f;
}

INLINE uint32_t float_bits(float value)
{
    union {
        float f;
        uint32_t u;
    } both = {value};
    return both.u;
}

/* ---- storage --------------------------------------------------------------------------------- */

enum { TILE = 1024 }; /* elements at a time of what has no rows */

/* Of bf16 or fp16 to fp32, and back: to the nearest, ties to even. */
void widen(enum dtype dtype, const void *from, int64_t first, int64_t count, float *to);
void narrow(enum dtype dtype, const float *from, int64_t count, void *to, int64_t first);

/* Elements first .. first + count of a buffer as fp32: where they lie, or in `tile`. */
INLINE const float *tile_read(enum dtype dtype, const void *from, int64_t first, int64_t count,
                              float *tile)
{
    if (dtype == DTYPE_FP32)
        return (const float *)from + first;
    widen(dtype, from, first, count, tile);
    return tile;
}

/* Where to write such elements; tile_done brings them where they belong. */
INLINE float *tile_write(enum dtype dtype, void *to, int64_t first, float *tile)
{
    return dtype == DTYPE_FP32 ? (float *)to + first : tile;
}

INLINE void tile_done(enum dtype dtype, void *to, int64_t first, int64_t count, const float *tile)
{
    if (dtype != DTYPE_FP32)
        narrow(dtype, tile, count, to, first);
}
void copy_elements(enum dtype dtype, const void *from, int64_t from_first, int64_t count, void *to,
                   int64_t to_first);

/* ---- sums ------------------------------------------------------------------------------------ */

void row_add(const float *restrict x, int64_t count, float *restrict y); /* y += x */
double sum_of_squares(const float *x, int64_t count);

#endif
