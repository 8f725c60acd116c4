/* gathered_spans.c - how long sharded weights and gradients are whole within a block (lifetimes.h,
 * I7, I8).
 *
 * Buckets are gathered in the order in which the block first reads them and synchronised in the
 * order in which it completes them.
 */
#include "compile/build.h"

#include <string.h>

enum { NONE = -1 };

/* The items of the current block that concern a bucket. */
struct bucket_span {
    int32_t first, last;     /* operators that use its weights */
    int32_t before;          /* the first use of the bucket that is gathered before it */
    int32_t made, completed; /* the first and the last gradient */
    int32_t after;           /* the last gradient of the bucket that is synchronised after it */
};

static int32_t bucket_in(const struct build *b, const struct block *block, int32_t item)
{
    const struct item *i = &block->item[item];
    int32_t bucket = i->kind == ITEM_OP ? b->bucket_of[i->instance] : NONE;
    return bucket == NONE ? NONE : bucket - block->first_bucket;
}

static struct bucket_span *spans_of(struct build *b, const struct block *block)
{
    struct bucket_span *span = ARENA_ARRAY(b->scratch, struct bucket_span, (size_t)block->buckets);
    const struct bucket *bucket = b->buckets.data + block->first_bucket;
    int32_t before = NONE, after = block->items, k;
    memset(span, NONE, (size_t)block->buckets * sizeof *span);
    for (int32_t i = 0; i < block->items; i++) {
        if ((k = bucket_in(b, block, i)) == NONE)
            continue;
        if (span[k].first == NONE && bucket[k].shard == 3) {
            span[k].before = before;
            before = i;
        }
        span[k].first = span[k].first == NONE ? i : span[k].first;
        span[k].last = i;
        if (block->item[i].phase != PHASE_BACKWARD_WEIGHT)
            continue;
        span[k].made = span[k].made == NONE ? i : span[k].made;
        span[k].completed = i;
    }
    for (int32_t i = block->items - 1; i >= 0; i--) {
        if ((k = bucket_in(b, block, i)) == NONE || span[k].completed != i || bucket[k].shard < 2)
            continue;
        span[k].after = after;
        after = i;
    }
    return span;
}

static void push(struct build *b, const struct block *block, enum held held, int32_t bucket,
                 int64_t bytes, int32_t born, int32_t dies, struct life_list *out)
{
    struct lifetime life = {.bytes = bytes,
                            .instance = b->buckets.data[block->first_bucket + bucket].first,
                            .held = (uint8_t)held,
                            .born_in = (uint8_t)block->kind,
                            .dies_in = (uint8_t)block->kind,
                            .born = born,
                            .dies = dies};
    if (bytes)
        array_push(b->scratch, out, life);
}

/* The devices that share its gradients. */
static int64_t shares_of(const struct build *b, const struct bucket *bucket)
{
    int64_t shares = 1;
    const struct pattern *pattern = bucket->shard >= 2 ? &b->patterns.data[bucket->pattern] : NULL;
    for (int32_t i = 0; pattern && i < pattern->digits; i++)
        shares *= pattern->degree[i];
    return shares;
}

void trace_buckets(struct build *b, const struct block *block, struct life_list *out)
{
    bool ahead = b->plan->overlap & OVERLAP_PARAMETERS;
    bool beside = b->plan->overlap & OVERLAP_GRADIENTS;
    bool late = plan_makes_gradients_late(b->plan);
    struct bucket_span *span = spans_of(b, block);
    for (int32_t i = 0; i < block->buckets; i++) {
        const struct bucket *bucket = &b->buckets.data[block->first_bucket + i];
        if (bucket->shard == 3 && span[i].first != NONE && block->kind != SLOT_BACKWARD_WEIGHT)
            push(b, block, HELD_WEIGHTS, i, bucket->gather_bytes,
                 ahead ? span[i].before : span[i].first, span[i].last, out);
        if (bucket->shard >= 2 && span[i].made != NONE)
            push(b, block, HELD_WEIGHT_GRADIENTS, i, bucket->bytes, span[i].made,
                 beside ? span[i].after : span[i].completed, out);
        if (late && span[i].made != NONE)
            push(b, block, HELD_WEIGHT_GRADIENTS, i, bucket->bytes / shares_of(b, bucket),
                 bucket->shard >= 2 ? span[i].completed : span[i].made, block->items, out);
    }
}
