/* gathered_spans.c - how long sharded weights and gradients are whole within a block (lifetimes.h,
 * I7, I8).
 *
 * Buckets are gathered in the order in which the block first reads them and synchronised in the
 * order in which it completes them.
 *
 *   I1  Where a stage has several parts, the slot after this one may be another's: while the last bucket is in use the first of
 *       that one is gathered, and until the first gradients here are complete the last ones of the slot before are whole.
 *       FSDP's parts are roots of their own, which neither gather for each other nor wait for each other's sums.
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

struct bucket_tensor {
    enum held held;
    enum memory_stream stream;
    int64_t bytes;
    int32_t born, dies;
};

static void push(struct build *b, const struct block *block, int32_t bucket,
                 struct bucket_tensor tensor, struct life_list *out)
{
    struct lifetime life = {
        .bytes = tensor.bytes,
        .instance = b->buckets.data[block->first_bucket + bucket].first,
        .held = (uint8_t)tensor.held,
        .stream =
            (uint8_t)(policy_memory(b->plan->policy).own_streams ? tensor.stream : MEMORY_COMPUTED),
        .born_in = (uint8_t)block->kind,
        .dies_in = (uint8_t)block->kind,
        .born = tensor.born,
        .dies = tensor.dies,
        .run = b->buckets.data[block->first_bucket + bucket].run};
    if (tensor.bytes)
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

/* Whether a bucket with shard 3 is whole from the start of a pass to its end (I8). */
static bool is_whole_root(const struct build *b, const struct bucket *bucket)
{
    const struct op *op = &b->plan->model->op[b->plan->instance[bucket->first].op];
    return bucket->shard == 3 && !op_in_layer(b->plan->model, op) &&
           software_word(&b->plan->software, FACT_ROOT) == ROOT_WHOLE;
}

/* The items of a block that are the model's pass, without its loss, which PyTorch's scripts compute outside of the model. */
struct model_pass {
    int32_t first, last;
};

static struct model_pass pass_of(const struct build *b, const struct block *block)
{
    struct model_pass pass = {0, block->items};
    for (int32_t i = 0; i < block->items; i++) {
        const struct item *item = &block->item[i];
        if (b->plan->model->op[b->plan->instance[item->instance].op].kind != OP_LOSS)
            continue;
        if (block->kind == SLOT_FORWARD)
            pass.last = i - 1 < pass.last ? i - 1 : pass.last;
        else
            pass.first = i + 1;
    }
    return pass;
}

/* What a gather brings ahead of the first use is copied out then, where streams have memory of their own. */
static void push_gathered(struct build *b, const struct block *block, int32_t i,
                          const struct bucket_span *span, struct life_list *out)
{
    const struct bucket *bucket = &b->buckets.data[block->first_bucket + i];
    bool ahead = b->plan->overlap & OVERLAP_PARAMETERS, root = is_whole_root(b, bucket);
    bool apart = policy_memory(b->plan->policy).own_streams;
    struct model_pass pass = pass_of(b, block);
    int32_t before = root ? (pass.first ? pass.first : NONE) : ahead ? span->before : span->first;
    int32_t copied = root ? pass.first : span->first;
    int32_t last = root ? pass.last : span->last;
    if (before < copied && apart)
        push(b, block, i,
             (struct bucket_tensor){HELD_WEIGHTS, MEMORY_GATHERED, bucket->gather_bytes, before,
                                    copied - 1},
             out);
    push(b, block, i,
         (struct bucket_tensor){HELD_WEIGHTS, MEMORY_COMPUTED, bucket->gather_bytes,
                                apart ? copied : before, last},
         out);
}

/* The root's wait, as they were computed, for the end of the pass, where they are summed. */
static void push_gradients(struct build *b, const struct block *block, int32_t i,
                           const struct bucket_span *span, struct life_list *out)
{
    const struct bucket *bucket = &b->buckets.data[block->first_bucket + i];
    bool beside = b->plan->overlap & OVERLAP_GRADIENTS, root = is_whole_root(b, bucket);
    struct bucket_tensor summed = {HELD_WEIGHT_GRADIENTS, MEMORY_COMPUTED, bucket->bytes,
                                   root ? block->items : span->made,
                                   root     ? block->items
                                   : beside ? span->after
                                            : span->completed};
    if (root)
        push(b, block, i,
             (struct bucket_tensor){HELD_WEIGHT_GRADIENTS, MEMORY_COMPUTED, bucket->gather_bytes,
                                    span->made, block->items},
             out);
    push(b, block, i, summed, out);
}

/* ---- at the borders of blocks (I1) ----------------------------------------------------------- */

/* The most of a bucket of this stage's other parts: whole weights, or whole gradients. */
static struct bucket beside(const struct build *b, int32_t own)
{
    struct bucket most = {0};
    for (int32_t part = stage_of_part(b, own); part < b->plan->parts;
         part = plan_next_part(b->plan, part))
        for (int32_t i = b->first_bucket[part]; part != own && i < b->first_bucket[part + 1]; i++) {
            const struct bucket *bucket = &b->buckets.data[i];
            if (bucket->shard == 3 && bucket->gather_bytes > most.gather_bytes)
                most.gather_bytes = bucket->gather_bytes;
            if (bucket->shard >= 2 && bucket->bytes > most.bytes)
                most.bytes = bucket->bytes;
        }
    return most;
}

static void push_borders(struct build *b, const struct block *block, const struct bucket_span *span,
                         struct life_list *out)
{
    int32_t last = NONE, first = block->items;
    struct bucket other = beside(b, block->part);
    for (int32_t i = 0; i < block->buckets; i++) {
        const struct bucket *bucket = &b->buckets.data[block->first_bucket + i];
        if (bucket->shard == 3 && span[i].first > last)
            last = span[i].first;
        if (bucket->shard >= 2 && span[i].completed != NONE && span[i].completed < first)
            first = span[i].completed;
    }
    if (last != NONE && b->plan->overlap & OVERLAP_PARAMETERS &&
        block->kind != SLOT_BACKWARD_WEIGHT)
        push(b, block, 0,
             (struct bucket_tensor){HELD_WEIGHTS, MEMORY_COMPUTED, other.gather_bytes, last,
                                    block->items},
             out);
    if (first < block->items && b->plan->overlap & OVERLAP_GRADIENTS)
        push(b, block, 0,
             (struct bucket_tensor){HELD_WEIGHT_GRADIENTS, MEMORY_COMPUTED, other.bytes, NONE,
                                    first},
             out);
}

void trace_buckets(struct build *b, const struct block *block, struct life_list *out)
{
    bool late = plan_makes_gradients_late(b->plan);
    struct bucket_span *span = spans_of(b, block);
    if (b->plan->pieces > 1 && !policy_memory(b->plan->policy).own_streams)
        push_borders(b, block, span, out);
    for (int32_t i = 0; i < block->buckets; i++) {
        const struct bucket *bucket = &b->buckets.data[block->first_bucket + i];
        if (bucket->shard == 3 && span[i].first != NONE && block->kind != SLOT_BACKWARD_WEIGHT)
            push_gathered(b, block, i, &span[i], out);
        if (bucket->shard >= 2 && span[i].made != NONE)
            push_gradients(b, block, i, &span[i], out);
        if (late && span[i].made != NONE)
            push(b, block, i,
                 (struct bucket_tensor){
                     HELD_WEIGHT_GRADIENTS, bucket->shard >= 2 ? MEMORY_REDUCED : MEMORY_COMPUTED,
                     bucket->bytes / shares_of(b, bucket),
                     bucket->shard >= 2 ? span[i].completed : span[i].made, block->items},
                 out);
    }
}
