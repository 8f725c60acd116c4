/* encode.c - from text to tokens (vocabulary.h, (2)).
 *
 * The tokens of a piece are a linked list over the places of its bytes; a heap has the place of every
 * pair of neighbours that can be joined, least line of merges.txt first, then leftmost. All places of
 * the least line are taken out before any is acted on: what joining them makes possible has to wait
 * until all are joined, as (2) says.
 *
 *   I1  A place is in the heap while its token and the next can be joined, under their line: what is
 *       joined offers itself and the place before it again, and takes out what is no longer there.
 */
#include "run/data/vocabulary.h"

#include <string.h>

#include "run/data/vocabulary_room.h"

/* ---- pairs ----------------------------------------------------------------------------------- */

/* A key for each pair: tokens have 31 bits, and the lowest bit of a key is not looked at. */
static uint64_t pair_key(int32_t left, int32_t right)
{
    return ((uint64_t)left << 31 | (uint64_t)right) << 1;
}

bool merges_put(struct vocabulary *vocabulary, int32_t left, int32_t right, struct merge merge)
{
    int64_t *found = hash_at(&vocabulary->merges, vocabulary->arena, pair_key(left, right));
    if (*found >= 0)
        return false;
    *found = (int64_t)merge.rank << 32 | merge.token;
    return true;
}

/* False: no line joins the two. */
static bool find_merge(const struct vocabulary *vocabulary, int32_t left, int32_t right,
                       struct merge *out)
{
    int64_t found = hash_get(&vocabulary->merges, pair_key(left, right));
    *out = (struct merge){(int32_t)(found >> 32), (int32_t)(found & INT32_MAX)};
    return found >= 0;
}

/* ---- one piece ------------------------------------------------------------------------------- */

enum { NONE = -1 };
struct token_link {
    int32_t token; /* NONE: joined to the one before */
    int32_t before, after;
};
/* Used for one piece after the other. */
struct encoder {
    const struct vocabulary *vocabulary;
    struct arena *arena;
    struct heap lines;              /* per place whose pair can be joined: the line */
    int32_t places;                 /* that heap has room for */
    ARRAY(int32_t) batch;           /* places of the least line */
    ARRAY(struct token_link) links; /* per place */
};

static void offer(struct encoder *encoder, int32_t place)
{
    const struct token_link *link = encoder->links.data;
    struct merge merge;
    if (place == NONE)
        return;
    int32_t after = link[place].after;
    if (after != NONE &&
        find_merge(encoder->vocabulary, link[place].token, link[after].token, &merge))
        heap_set(&encoder->lines, place, merge.rank);
    else
        heap_remove(&encoder->lines, place); /* I1 */
}

/* Joins the pair at a place if it still is of that line: its first may have been joined already. */
static bool join(struct encoder *encoder, int32_t place, int32_t rank)
{
    struct token_link *link = encoder->links.data, *left = &link[place];
    struct merge merge;
    if (left->token == NONE || left->after == NONE)
        return false;
    struct token_link *right = &link[left->after];
    if (!find_merge(encoder->vocabulary, left->token, right->token, &merge) || merge.rank != rank)
        return false;
    heap_remove(&encoder->lines, left->after); /* I1 */
    left->token = merge.token;
    left->after = right->after;
    right->token = NONE;
    if (left->after != NONE)
        link[left->after].before = place;
    return true;
}

/* All places of the least line, leftmost first. */
static int32_t take_batch(struct encoder *encoder)
{
    struct heap *lines = &encoder->lines;
    int64_t rank = lines->slot.data[0].key;
    encoder->batch.len = 0;
    while (lines->slot.len && lines->slot.data[0].key == rank)
        array_push(encoder->arena, &encoder->batch, heap_pop(lines).id);
    return (int32_t)rank;
}

static void join_all(struct encoder *encoder)
{
    while (encoder->lines.slot.len) {
        int32_t rank = take_batch(encoder), *place = encoder->batch.data;
        size_t joined = 0;
        for (size_t i = 0; i < encoder->batch.len; i++)
            if (join(encoder, place[i], rank))
                place[joined++] = place[i];
        for (size_t i = 0; i < joined; i++) {
            offer(encoder, encoder->links.data[place[i]].before);
            offer(encoder, place[i]);
        }
    }
}

static void make_room(struct encoder *encoder, int32_t places)
{
    if (places <= encoder->places)
        return;
    encoder->places = places + places / 2;
    encoder->lines = heap_new(encoder->arena, encoder->places);
}

static void encode_piece(struct encoder *encoder, const uint8_t *text, size_t len,
                         struct arena *keep, struct tokens *out)
{
    make_room(encoder, (int32_t)len);
    encoder->links.len = 0;
    for (size_t i = 0; i < len; i++) {
        struct token_link link = {encoder->vocabulary->byte_token[text[i]], (int32_t)i - 1,
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
