/* stretch.h - places of members' parts of a bucket (stores.c, 1), weight by weight. */
#ifndef WEFT_RUN_RANK_STRETCH_H
#define WEFT_RUN_RANK_STRETCH_H

#include "run/rank/room.h"

/* A run of places within one weight. */
struct stretch {
    const struct held_weight *held;
    int64_t at;     /* in the member's share */
    int64_t within; /* in the range */
    int64_t count;
};

static inline bool stretch_of(const struct rank *r, int32_t weight, int64_t first, int64_t end,
                              struct stretch *out)
{
    const struct held_weight *held = &r->weight[weight];
    int64_t from = first > held->place ? first : held->place;
    int64_t to = end < held->place + held->share ? end : held->place + held->share;
    *out = (struct stretch){held, from - held->place, from - first, to - from};
    return from < to;
}

/* Of a member's places of a stretch, those that are there (stores.c, I1). */
static inline int64_t real_count(const struct stretch *s, int32_t member)
{
    int64_t left = s->held->count - (member * s->held->share + s->at);
    return left < 0 ? 0 : left < s->count ? left : s->count;
}

static inline int64_t element_of(const struct stretch *s, int32_t member)
{
    return s->held->first + member * s->held->share + s->at;
}

#define FOR_STRETCHES(r, store, first, end, s)                                                     \
    for (int32_t weight_ = (store)->first_weight;                                                  \
         weight_ < (store)->first_weight + (store)->weights_count; weight_++)                      \
        if (stretch_of((r), weight_, (first), (end), &(s)))

/* stores.c, I3 */
static inline bool is_frozen(const struct store *s, const struct held_weight *held)
{
    return held->place >= s->trained_part;
}

/* Where an element of what lies here is in the store's weights. */
static inline int64_t stored_at(const struct store *s, const struct held_weight *held,
                                int64_t first)
{
    return s->shard == 3 ? held->place + first - s->member * held->share : held->first + first;
}

#endif
