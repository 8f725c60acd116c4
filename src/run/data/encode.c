/* encode.c - from text to tokens (vocabulary.h, (2)).
 *
 * The tokens of a piece are a linked list over the places of its bytes; a heap has an entry for
 * every pair of neighbours that can be joined, least line of merges.txt first, then leftmost. All
 * entries of the least line are taken out before any is acted on: what joining them makes possible
 * has to wait until all are joined, as (2) says.
 *
 *   I1  An entry whose neighbours were joined with others meanwhile is stale: its pair no longer has
 *       its line. It is dropped when it comes out.
 */
#include "run/data/vocabulary.h"

#include <string.h>

#include "run/data/vocabulary_room.h"

/* ---- pairs ----------------------------------------------------------------------------------- */

static struct merge_slot *find_slot(const struct vocabulary *vocabulary, int32_t left,
                                    int32_t right)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    size_t mask = vocabulary->slots - 1;
    size_t i = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & mask; /* 2^64 / golden ratio */
    for (;; i = (i + 1) & mask) {
        struct merge_slot *slot = &vocabulary->slot[i];
        if (slot->merge.token < 0 || (slot->left == left && slot->right == right))
            return slot;
    }
}

static void grow_slots(struct vocabulary *vocabulary)
{
    struct merge_slot *old = vocabulary->slot;
    size_t count = vocabulary->slots;
    vocabulary->slots = count ? count * 2 : 16;
    vocabulary->slot = ARENA_ARRAY(vocabulary->arena, struct merge_slot, vocabulary->slots);
    for (size_t i = 0; i < vocabulary->slots; i++)
        vocabulary->slot[i].merge.token = -1;
    for (size_t i = 0; i < count; i++)
        if (old[i].merge.token >= 0)
            *find_slot(vocabulary, old[i].left, old[i].right) = old[i];
}

bool merges_put(struct vocabulary *vocabulary, int32_t left, int32_t right, struct merge merge)
{
    if ((vocabulary->merges + 1) * 2 > vocabulary->slots)
        grow_slots(vocabulary);
    struct merge_slot *slot = find_slot(vocabulary, left, right);
    if (slot->merge.token >= 0)
        return false;
    *slot = (struct merge_slot){left, right, merge};
    vocabulary->merges++;
    return true;
}

static const struct merge *find_merge(const struct vocabulary *vocabulary, int32_t left,
                                      int32_t right)
{
    if (vocabulary->slots == 0)
        return NULL;
    const struct merge_slot *slot = find_slot(vocabulary, left, right);
    return slot->merge.token >= 0 ? &slot->merge : NULL;
}

/* ---- a heap of numbers: line << 32 | place --------------------------------------------------- */

struct pairs {
    uint64_t *data;
    size_t len, cap;
};

static void heap_push(struct arena *arena, struct pairs *heap, uint64_t value)
{
    array_push(arena, heap, value);
    size_t i = heap->len - 1;
    for (; i > 0 && heap->data[(i - 1) / 2] > value; i = (i - 1) / 2)
        heap->data[i] = heap->data[(i - 1) / 2];
    heap->data[i] = value;
}

static uint64_t heap_pop(struct pairs *heap)
{
    uint64_t top = heap->data[0], last = heap->data[--heap->len];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < heap->len; i = child) {
        child += child + 1 < heap->len && heap->data[child + 1] < heap->data[child];
        if (heap->data[child] >= last)
            break;
        heap->data[i] = heap->data[child];
    }
    heap->data[i] = last;
    return top;
}

/* ---- one piece ------------------------------------------------------------------------------- */

enum { NONE = -1 };
struct link {
    int32_t token; /* NONE: joined to the one before */
    int32_t before, after;
};
/* Used for one piece after the other. */
struct encoder {
    const struct vocabulary *vocabulary;
    struct arena *arena;
    struct pairs heap, batch;
    ARRAY(struct link) links;
};

static void offer(struct encoder *encoder, int32_t place)
{
    const struct link *link = encoder->links.data;
    if (place == NONE || link[place].after == NONE)
        return;
    const struct merge *merge =
        find_merge(encoder->vocabulary, link[place].token, link[link[place].after].token);
    if (merge)
        heap_push(encoder->arena, &encoder->heap, (uint64_t)merge->rank << 32 | (uint32_t)place);
}

/* Joins the pair at a place if it still is of that line (I1). */
static bool join(struct encoder *encoder, int32_t place, int32_t rank)
{
    struct link *link = encoder->links.data, *left = &link[place];
    if (left->token == NONE || left->after == NONE)
        return false;
    struct link *right = &link[left->after];
    const struct merge *merge = find_merge(encoder->vocabulary, left->token, right->token);
    if (!merge || merge->rank != rank)
        return false;
    left->token = merge->token;
    left->after = right->after;
    right->token = NONE;
    if (left->after != NONE)
        link[left->after].before = place;
    return true;
}

/* All entries of the least line, leftmost first; an entry that stands twice once. */
static int32_t take_batch(struct encoder *encoder)
{
    struct pairs *heap = &encoder->heap, *batch = &encoder->batch;
    uint64_t rank = heap->data[0] >> 32;
    batch->len = 0;
    while (heap->len && heap->data[0] >> 32 == rank) {
        uint64_t place = heap_pop(heap) & UINT32_MAX;
        if (batch->len == 0 || batch->data[batch->len - 1] != place)
            array_push(encoder->arena, batch, place);
    }
    return (int32_t)rank;
}

static void join_all(struct encoder *encoder)
{
    while (encoder->heap.len) {
        int32_t rank = take_batch(encoder);
        struct pairs *batch = &encoder->batch;
        size_t joined = 0;
        for (size_t i = 0; i < batch->len; i++)
            if (join(encoder, (int32_t)batch->data[i], rank))
                batch->data[joined++] = batch->data[i];
        for (size_t i = 0; i < joined; i++) {
            int32_t place = (int32_t)batch->data[i];
            offer(encoder, encoder->links.data[place].before);
            offer(encoder, place);
        }
    }
}

static void encode_piece(struct encoder *encoder, const uint8_t *text, size_t len,
                         struct arena *keep, struct tokens *out)
{
    encoder->links.len = 0;
    for (size_t i = 0; i < len; i++) {
        struct link link = {encoder->vocabulary->byte_token[text[i]], (int32_t)i - 1,
                            i + 1 < len ? (int32_t)i + 1 : NONE};
        array_push(encoder->arena, &encoder->links, link);
    }
    for (size_t i = 0; i < len; i++)
        offer(encoder, (int32_t)i);
    join_all(encoder);
    for (size_t i = 0; i < len; i++)
        if (encoder->links.data[i].token != NONE)
            array_push(keep, out, encoder->links.data[i].token);
}

void vocabulary_encode(const struct vocabulary *vocabulary, const char *text, size_t len,
                       struct arena *keep, struct tokens *out)
{
    enum { LONGEST_PIECE = 1 << 30 }; /* places are 32 bits */
    const uint8_t *at = (const uint8_t *)text, *end = at + len;
    struct encoder encoder = {.vocabulary = vocabulary, .arena = arena_new()};
    while (at < end) {
        size_t piece = piece_length(at, (size_t)(end - at));
        piece = piece < LONGEST_PIECE ? piece : LONGEST_PIECE;
        encode_piece(&encoder, at, piece, keep, out);
        at += piece;
    }
    arena_free(encoder.arena);
}
