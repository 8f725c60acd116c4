/* memory_events.c - what follows from lifetimes: allocations and releases of a block in order,
 * bytes that are offloaded, names. */
#include "compile/build.h"

const char *memory_class_name(enum memory_class memory)
{
    static const char *const NAMES[] = {
        [MEMORY_WEIGHTS] = "weights",     [MEMORY_GRADIENTS] = "gradients",
        [MEMORY_OPTIMIZER] = "optimizer", [MEMORY_ACTIVATIONS] = "activations",
        [MEMORY_WORKSPACE] = "workspace",
    };
    _Static_assert(COUNT_OF(NAMES) == MEMORY_CLASS_COUNT, "a class without a name");
    return NAMES[memory];
}

const char *held_name(enum held held)
{
    static const char *const NAMES[] = {
        [HELD_INPUT] = "the model's input",
        [HELD_OUTPUT] = "output",
        [HELD_COPY] = "resharded",
        [HELD_RECEIVED] = "received input",
        [HELD_EXTRA] = "probabilities and masks",
        [HELD_GRADIENT] = "gradient",
        [HELD_WEIGHTS] = "gathered weights",
        [HELD_WEIGHT_GRADIENTS] = "weight gradients",
    };
    _Static_assert(COUNT_OF(NAMES) == HELD_COUNT, "a kind of tensor without a name");
    return NAMES[held];
}

static size_t order_of(int32_t item, bool gives)
{
    return 2 * (size_t)(item + 1) + gives;
}

struct memory_events block_memory_events(struct build *b, const struct part_lifetimes *part,
                                         const struct block *block)
{
    struct memory_events out = {0};
    size_t orders = order_of(block->items, true) + 1;
    int32_t *first = ARENA_ARRAY(b->scratch, int32_t, orders + 1);
    for (int32_t i = 0; i < part->lives; i++) {
        const struct lifetime *life = &part->life[i];
        if (life->born_in == block->kind)
            first[order_of(life->born, false) + 1]++;
        if (life->dies_in == block->kind)
            first[order_of(life->dies, true) + 1]++;
    }
    for (size_t i = 0; i < orders; i++)
        first[i + 1] += first[i];
    out.count = first[orders];
    out.event = ARENA_ARRAY(b->keep, struct memory_event, (size_t)out.count);
    for (int32_t i = 0; i < part->lives; i++) {
        const struct lifetime *life = &part->life[i];
        if (life->born_in == block->kind)
            out.event[first[order_of(life->born, false)]++] =
                (struct memory_event){life->born, i, false};
        if (life->dies_in == block->kind)
            out.event[first[order_of(life->dies, true)]++] =
                (struct memory_event){life->dies, i, true};
    }
    return out;
}

int64_t copied_bytes(const struct part_lifetimes *part)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < part->copies.units; i++)
        bytes += part->copies.out[i];
    return bytes;
}

int64_t offloaded_bytes(const struct part_lifetimes *part)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < part->lives; i++)
        bytes += part->life[i].offloaded ? part->life[i].bytes : 0;
    return bytes;
}
