/* number.c - checked arithmetic, element types, random numbers, hashes. */
#include "base/base.h"

#include <time.h>
#include <xxhash.h>

bool checked_add(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

bool checked_mul(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

/* Divisors above the square root are found through their smaller cofactors, so that finding all
 * divisors takes about twice the square root of `whole` in steps. */
int64_t divisor_above(int64_t whole, int64_t divisor)
{
    for (int64_t d = divisor + 1; d <= whole / d; d++)
        if (whole % d == 0)
            return d;
    int64_t with = whole / divisor;
    for (with = with < divisor ? with - 1 : divisor; with > 0; with--)
        if (whole % with == 0 && whole / with > divisor)
            return whole / with;
    return whole + 1;
}

int64_t common_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static const struct {
    const char *name;
    int bytes;
} DTYPES[] = {
    [DTYPE_FP32] = {"fp32", 4}, [DTYPE_TF32] = {"tf32", 4}, [DTYPE_FP16] = {"fp16", 2},
    [DTYPE_BF16] = {"bf16", 2}, [DTYPE_FP8] = {"fp8", 2},   [DTYPE_NVFP4] = {"nvfp4", 2},
};
_Static_assert(COUNT_OF(DTYPES) == DTYPE_COUNT, "a dtype without a row");

const char *dtype_name(enum dtype dtype)
{
    return DTYPES[dtype].name;
}

int dtype_bytes(enum dtype dtype)
{
    return DTYPES[dtype].bytes;
}

bool dtype_is_cast(enum dtype dtype)
{
    return dtype == DTYPE_FP8 || dtype == DTYPE_NVFP4;
}

double dtype_cast_bytes(enum dtype dtype)
{
    static const double CAST[DTYPE_COUNT] = {[DTYPE_FP8] = 1, [DTYPE_NVFP4] = 0.5 + 1.0 / 16};
    return dtype_is_cast(dtype) ? CAST[dtype] : dtype_bytes(dtype);
}

bool dtype_from_name(const char *name, enum dtype *out)
{
    int at = NAME_INDEX(name, DTYPES);
    if (at >= 0)
        *out = (enum dtype)at;
    return at >= 0;
}

bool dtype_from_word(const char *word, enum dtype *out)
{
    static const struct {
        const char *name;
        enum dtype dtype;
    } TORCH[] = {{"float32", DTYPE_FP32}, {"float", DTYPE_FP32},    {"float16", DTYPE_FP16},
                 {"half", DTYPE_FP16},    {"bfloat16", DTYPE_BF16}, {"float8", DTYPE_FP8},
                 {"fp4", DTYPE_NVFP4}};
    int at = NAME_INDEX(word, TORCH);
    if (at >= 0)
        *out = TORCH[at].dtype;
    return at >= 0 || dtype_from_name(word, out);
}

/* splitmix64 spreads the seed; xoshiro256** (Blackman, Vigna 2018) continues from there. */
void rng_seed(struct rng *rng, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        uint64_t z = (seed += 0x9e3779b97f4a7c15u);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        rng->state[i] = z ^ (z >> 31);
    }
}

static uint64_t rotate(uint64_t x, int by)
{
    return (x << by) | (x >> (64 - by));
}

uint64_t rng_next(struct rng *rng)
{
    uint64_t *s = rng->state;
    uint64_t result = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

int64_t rng_below(struct rng *rng, int64_t bound)
{
    __extension__ typedef unsigned __int128 wide;
    /* the high word of the product has a negligible bias */
    return (int64_t)(((wide)rng_next(rng) * (uint64_t)bound) >> 64);
}

double rng_uniform(struct rng *rng)
{
    return (double)(rng_next(rng) >> 11) * 0x1p-53;
}

uint64_t hash_bytes(const void *data, size_t len, uint64_t seed)
{
    return XXH3_64bits_withSeed(data, len, seed);
}

double wall_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}
