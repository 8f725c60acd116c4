/* three_ranks.h - every kind of transfer between three ranks against sums by hand: what a rank does, whatever carries it. */
#ifndef WEFT_TESTS_THREE_RANKS_H
#define WEFT_TESTS_THREE_RANKS_H

#include <stdlib.h>

#include "run/transport/transport.h"

enum { RANKS = 3, COUNT = 1000 };

static float number_of(int32_t rank, int64_t i)
{
    return (float)(rank + 1) * (float)(i % 17 + 1);
}

static int32_t all_of(struct transport *t, int32_t channel)
{
    static const int32_t MEMBER[RANKS] = {0, 1, 2};
    int32_t group = -1;
    t->kind->group(t, MEMBER, RANKS, channel, &group);
    return group;
}

/* Two sums at once, and both are right; in place, and of a number that chunks do not divide. */
static void add_up_twice(struct transport *t, int *wrong)
{
    float own[COUNT], sum[COUNT], most[COUNT];
    struct pending_transfer *one, *two;
    int32_t group = all_of(t, 0);
    for (int64_t i = 0; i < COUNT; i++)
        own[i] = sum[i] = number_of(t->rank, i);
    struct transfer x = {.kind = TRANSFER_ALL_REDUCE, .group = group, .from = sum, .to = sum};
    struct transfer y = {.kind = TRANSFER_ALL_REDUCE, .op = REDUCE_MAX, .group = group};
    x.count = y.count = COUNT;
    y.from = own;
    y.to = most;
    t->kind->start(t, &x, &one);
    t->kind->start(t, &y, &two);
    while (!t->kind->test(t, two))
        t->kind->wait(t, 0.001, true);
    while (!t->kind->test(t, one))
        t->kind->wait(t, 0.001, true);
    for (int64_t i = 0; i < COUNT; i++)
        *wrong += sum[i] != 2 * number_of(2, i) || most[i] != number_of(2, i);
}

static void scatter_and_gather(struct transport *t, int *wrong)
{
    float own[RANKS * COUNT], part[COUNT], all[RANKS * COUNT];
    int32_t group = all_of(t, 3);
    for (int64_t i = 0; i < (int64_t)COUNT * RANKS; i++)
        own[i] = number_of(t->rank, i);
    struct transfer scatter = {.kind = TRANSFER_REDUCE_SCATTER, .group = group, .from = own};
    scatter.to = part;
    scatter.count = COUNT;
    *wrong += transport_run(t, &scatter) != WEFT_OK;
    struct transfer gather = {.kind = TRANSFER_ALL_GATHER, .group = group, .from = part, .to = all};
    gather.count = COUNT;
    *wrong += transport_run(t, &gather) != WEFT_OK;
    for (int64_t i = 0; i < (int64_t)COUNT * RANKS; i++)
        *wrong += all[i] != 2 * number_of(2, i);
}

/* From each rank in turn, in place there, of a number that chunks do not divide and of none. */
static void hand_out(struct transport *t, int *wrong)
{
    for (int32_t root = 0; root < RANKS; root++)
        for (int64_t count = 0; count < COUNT; count += COUNT - 1) {
            float here[COUNT] = {0};
            for (int64_t i = 0; t->rank == root && i < count; i++)
                here[i] = number_of(root, i);
            struct transfer x = {.kind = TRANSFER_BROADCAST, .group = all_of(t, 0), .to = here};
            x.from = t->rank == root ? here : NULL;
            x.peer = root;
            x.count = count;
            *wrong += transport_run(t, &x) != WEFT_OK;
            for (int64_t i = 0; i < COUNT; i++)
                *wrong += here[i] != (i < count ? number_of(root, i) : 0);
        }
}

/* Rank r has r + m + 1 numbers for rank m. */
static void exchange_parts(struct transport *t, int *wrong)
{
    float from[32], to[32];
    int64_t out[RANKS], in[RANKS], sent = 0, at = 0;
    for (int32_t m = 0; m < RANKS; m++) {
        out[m] = in[m] = t->rank + m + 1;
        for (int64_t i = 0; i < out[m]; i++)
            from[sent++] = (float)(100 * t->rank + m);
    }
    struct transfer x = {
        .kind = TRANSFER_ALL_TO_ALL, .group = all_of(t, 0), .from = from, .to = to};
    x.from_counts = out;
    x.to_counts = in;
    *wrong += transport_run(t, &x) != WEFT_OK;
    for (int32_t m = 0; m < RANKS; m++)
        for (int64_t i = 0; i < in[m]; i++)
            *wrong += to[at++] != (float)(100 * m + t->rank);
}

/* The second message is asked for first; a large one does not fit into a connection. */
static void send_in_other_order(struct transport *t, int *wrong)
{
    enum { LARGE = 1 << 20 };
    float *buffer = calloc(2 * (size_t)LARGE, sizeof *buffer);
    struct pending_transfer *pending[2];
    struct transfer x[2] = {{.tag = 5, .count = LARGE}, {.tag = 6, .count = LARGE}};
    if (t->rank < 2)
        for (int k = 0; k < 2; k++) {
            x[k].peer = 1 - t->rank;
            x[k].kind = t->rank ? TRANSFER_RECEIVE : TRANSFER_SEND;
            x[k].from = x[k].to = buffer + k * LARGE;
            buffer[k * LARGE + LARGE - 1] = t->rank ? 0 : (float)(k + 1);
        }
    for (int k = 0; k < 2 && t->rank < 2; k++)
        t->kind->start(t, &x[t->rank ? 1 - k : k], &pending[k]);
    for (int k = 0; k < 2 && t->rank < 2; k++)
        while (!t->kind->test(t, pending[k]))
            t->kind->wait(t, 0.001, true);
    for (int k = 0; k < 2 && t->rank < 2; k++)
        *wrong += buffer[k * LARGE + LARGE - 1] != (float)(k + 1);
    free(buffer);
}

static void (*const TRANSFER_CHECKS[])(struct transport *t, int *wrong) = {
    add_up_twice, scatter_and_gather, exchange_parts, hand_out, send_in_other_order};

#endif
