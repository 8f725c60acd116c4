/* chakra_wire.c - messages of Chakra's schema as bytes (chakra_wire.h).
 *
 * Protocol buffers: a field is its number and kind, then a value; kind 0 is a number in groups of seven bits, the
 * lowest first, and kind 2 a length and as many bytes.
 */
#include "exchange/chakra_wire.h"

#include <string.h>

enum { KIND_NUMBER = 0, KIND_BYTES = 2 };
/* Field numbers of the schema. */
enum { NODE_ID = 1, NODE_NAME, NODE_TYPE, NODE_DATA_DEPS = 5, NODE_DURATION = 7, NODE_ATTR = 10 };
enum { ATTR_NAME = 1, ATTR_INT64 = 9, ATTR_BOOL = 27, ATTR_STRING = 29 };
enum { METADATA_VERSION = 1 };

static void put(struct wire *wire, uint8_t byte)
{
    array_push(wire->arena, &wire->bytes, byte);
}

static void put_number(struct wire *wire, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        put(wire, (uint8_t)(value | 0x80));
    put(wire, (uint8_t)value);
}

static size_t number_bytes(uint64_t value)
{
    size_t bytes = 1;
    for (; value >= 0x80; value >>= 7)
        bytes++;
    return bytes;
}

static void put_field(struct wire *wire, int field, uint64_t value)
{
    put_number(wire, (uint64_t)field << 3 | KIND_NUMBER);
    put_number(wire, value);
}

static void put_string(struct wire *wire, int field, const char *text)
{
    size_t length = strlen(text);
    put_number(wire, (uint64_t)field << 3 | KIND_BYTES);
    put_number(wire, length);
    for (size_t i = 0; i < length; i++)
        put(wire, (uint8_t)text[i]);
}

static size_t string_bytes(int field, const char *text)
{
    size_t length = strlen(text);
    return number_bytes((uint64_t)field << 3) + number_bytes(length) + length;
}

void wire_node(struct wire *wire, uint64_t id, const char *name, enum chakra_node type,
               int64_t duration_ns)
{
    static const int64_t NS_PER_US = 1000;
    put_field(wire, NODE_ID, id);
    put_string(wire, NODE_NAME, name);
    put_field(wire, NODE_TYPE, type);
    put_field(wire, NODE_DURATION, (uint64_t)((duration_ns + NS_PER_US / 2) / NS_PER_US));
}

void wire_dependency(struct wire *wire, uint64_t id)
{
    put_field(wire, NODE_DATA_DEPS, id);
}

/* The head of an attribute whose value takes so many bytes with its field's. */
static void put_attribute(struct wire *wire, const char *name, size_t value_bytes)
{
    put_number(wire, (uint64_t)NODE_ATTR << 3 | KIND_BYTES);
    put_number(wire, string_bytes(ATTR_NAME, name) + value_bytes);
    put_string(wire, ATTR_NAME, name);
}

void wire_whole(struct wire *wire, const char *name, int64_t value)
{
    put_attribute(wire, name,
                  number_bytes((uint64_t)ATTR_INT64 << 3) + number_bytes((uint64_t)value));
    put_field(wire, ATTR_INT64, (uint64_t)value);
}

void wire_flag(struct wire *wire, const char *name, bool value)
{
    put_attribute(wire, name, number_bytes((uint64_t)ATTR_BOOL << 3) + 1);
    put_field(wire, ATTR_BOOL, value);
}

void wire_text(struct wire *wire, const char *name, const char *value)
{
    put_attribute(wire, name, string_bytes(ATTR_STRING, value));
    put_string(wire, ATTR_STRING, value);
}

void wire_metadata(struct wire *wire, const char *version)
{
    put_string(wire, METADATA_VERSION, version);
}

void wire_flush(struct wire *wire, FILE *file)
{
    enum { MOST_LENGTH_BYTES = 10 };
    uint8_t length[MOST_LENGTH_BYTES];
    size_t bytes = 0;
    uint64_t value = wire->bytes.len;
    for (; value >= 0x80; value >>= 7)
        length[bytes++] = (uint8_t)(value | 0x80);
    length[bytes++] = (uint8_t)value;
    fwrite(length, 1, bytes, file);
    fwrite(wire->bytes.data, 1, wire->bytes.len, file);
    wire->bytes.len = 0;
}
