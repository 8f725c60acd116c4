/* exactly.h - many whole numbers and texts in one: FNV-1a of them in order. */
#ifndef WEFT_TESTS_EXACTLY_H
#define WEFT_TESTS_EXACTLY_H

#include <stddef.h>
#include <stdint.h>

struct exactly {
    uint64_t hash;
};

static inline struct exactly exactly_nothing(void)
{
    return (struct exactly){UINT64_C(14695981039346656037)};
}

static inline void exactly_number(struct exactly *e, int64_t number)
{
    e->hash = (e->hash ^ (uint64_t)number) * UINT64_C(1099511628211);
    e->hash ^= e->hash >> 29;
}

static inline void exactly_numbers(struct exactly *e, const int64_t *number, size_t count)
{
    for (size_t i = 0; i < count; i++)
        exactly_number(e, number[i]);
}

static inline void exactly_text(struct exactly *e, const char *text)
{
    while (text && *text)
        exactly_number(e, (unsigned char)*text++);
    exactly_number(e, text ? 256 : 257);
}

#endif
