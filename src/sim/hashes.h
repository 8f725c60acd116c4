/* hashes.h - hashes of pairs of numbers; private to the room. */
#ifndef WEFT_SIM_HASHES_H
#define WEFT_SIM_HASHES_H

#include "base/base.h"

static inline uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t x = (a ^ 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u + b; /* splitmix64 */
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

#endif
