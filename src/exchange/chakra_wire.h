/* chakra_wire.h - the messages of Chakra's schema (mlcommons/chakra, schema/protobuf/et_def.proto) as bytes: the
 * fields that Weft writes, by their published numbers. Private to the room. */
#ifndef WEFT_EXCHANGE_CHAKRA_WIRE_H
#define WEFT_EXCHANGE_CHAKRA_WIRE_H

#include "base/base.h"

/* NodeType and CollectiveCommType of the schema. */
enum chakra_node {
    CHAKRA_LOAD = 2,
    CHAKRA_STORE = 3,
    CHAKRA_COMPUTE = 4,
    CHAKRA_SEND = 5,
    CHAKRA_RECEIVE = 6,
    CHAKRA_COLLECTIVE = 7
};
enum chakra_collective {
    CHAKRA_ALL_REDUCE = 0,
    CHAKRA_ALL_GATHER = 2,
    CHAKRA_BROADCAST = 5,
    CHAKRA_ALL_TO_ALL = 6,
    CHAKRA_REDUCE_SCATTER = 7
};

struct wire {
    struct arena *arena;
    ARRAY(uint8_t) bytes;
};
/* Begins the message of a node. */
void wire_node(struct wire *wire, uint64_t id, const char *name, enum chakra_node type,
               int64_t duration_ns);
void wire_dependency(struct wire *wire, uint64_t id);
void wire_whole(struct wire *wire, const char *name, int64_t value); /* an attribute */
void wire_text(struct wire *wire, const char *name, const char *value);
void wire_flag(struct wire *wire, const char *name, bool value);
void wire_metadata(struct wire *wire, const char *version);
/* Writes the message after its length, and empties it. */
void wire_flush(struct wire *wire, FILE *file);

#endif
