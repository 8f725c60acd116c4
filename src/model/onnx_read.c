/* onnx_read.c - the bytes of an ONNX file into protobuf-c's structs, without the weights.
 *
 * protobuf-c bounds neither depth nor memory, and copies what it reads. So a first walk over the
 * wire format, led by the generated descriptors, checks every length, bounds depth and number of
 * messages, and writes a copy without unknown fields and without the payload of large tensors
 * (onnx.h, I1). Only that copy is unpacked.
 *
 * A nested message's length is written as five bytes of varint, since it is known only afterwards.
 */
#include "model/onnx.h"

#include <string.h>

enum { WIRE_VARINT, WIRE_64, WIRE_BYTES, WIRE_32 = 5, LENGTH_BYTES = 5, LARGE_PAYLOAD = 16384 };

struct strip {
    const char *file;
    const uint8_t *start;
    uint8_t *out;
    size_t out_len, messages;
};

struct wire_field {
    const ProtobufCFieldDescriptor *descriptor; /* NULL: unknown to this onnx.proto */
    int wire;
    const uint8_t *tag, *payload, *end; /* the payload of WIRE_BYTES; the field ends at `end` */
};

static weft_status torn(const struct strip *strip, const uint8_t *at)
{
    return bad_input(strip->file, 0, "is the file complete, and is it ONNX?",
                     "is not valid protobuf at byte %zu: expected a whole field",
                     (size_t)(at - strip->start));
}

/* Returns the position after the varint, or NULL. */
static const uint8_t *read_varint(const uint8_t *at, const uint8_t *end, uint64_t *value)
{
    *value = 0;
    for (int shift = 0; at < end && shift < 64; shift += 7, at++) {
        *value |= (uint64_t)(*at & 0x7f) << shift;
        if (!(*at & 0x80))
            return at + 1;
    }
    return NULL;
}

static bool read_field(const uint8_t *at, const uint8_t *end,
                       const ProtobufCMessageDescriptor *message, struct wire_field *field)
{
    uint64_t tag, value;
    const uint8_t *after = read_varint(at, end, &tag);
    if (!after || tag >> 3 == 0 || tag >> 3 > INT32_MAX)
        return false;
    *field = (struct wire_field){.tag = at, .payload = after, .wire = (int)(tag & 7)};
    field->descriptor = protobuf_c_message_descriptor_get_field(message, (unsigned)(tag >> 3));
    if (field->wire == WIRE_VARINT || field->wire == WIRE_BYTES)
        after = read_varint(after, end, &value);
    if (field->wire == WIRE_BYTES && after) {
        field->payload = after;
        after = value <= (uint64_t)(end - after) ? after + value : NULL;
    } else if (field->wire == WIRE_64 || field->wire == WIRE_32) {
        size_t bytes = field->wire == WIRE_64 ? 8 : 4;
        after = (size_t)(end - after) >= bytes ? after + bytes : NULL;
    } else if (field->wire != WIRE_VARINT && field->wire != WIRE_BYTES) {
        return false; /* groups are not part of ONNX */
    }
    field->end = after;
    return after != NULL;
}

/* The first run, without `out`, only counts bytes. */
static void put(struct strip *strip, const void *bytes, size_t len)
{
    if (strip->out)
        memcpy(strip->out + strip->out_len, bytes, len);
    strip->out_len += len;
}

static void put_length(uint8_t *at, size_t len)
{
    for (int i = 0; i < LENGTH_BYTES; i++, len >>= 7)
        at[i] = (uint8_t)((len & 0x7f) | (i + 1 < LENGTH_BYTES ? 0x80 : 0));
}

/* Whether the field is the payload of a large tensor, under any of its field names. */
static bool is_large_payload(const ProtobufCMessageDescriptor *message,
                             const struct wire_field *field)
{
    return message == &onnx__tensor_proto__descriptor && field->wire == WIRE_BYTES &&
           field->end - field->payload > LARGE_PAYLOAD;
}

static weft_status strip_message(struct strip *strip, const ProtobufCMessageDescriptor *message,
                                 const uint8_t *at, const uint8_t *end, int depth);

static weft_status strip_field(struct strip *strip, const struct wire_field *field, int depth)
{
    if (field->descriptor->type != PROTOBUF_C_TYPE_MESSAGE || field->wire != WIRE_BYTES) {
        put(strip, field->tag, (size_t)(field->end - field->tag));
        return WEFT_OK;
    }
    const uint8_t *after_tag = field->tag;
    while (*after_tag++ & 0x80)
        ;
    put(strip, field->tag, (size_t)(after_tag - field->tag));
    size_t length_at = strip->out_len;
    strip->out_len += LENGTH_BYTES;
    const ProtobufCMessageDescriptor *inner = field->descriptor->descriptor;
    weft_status status = strip_message(strip, inner, field->payload, field->end, depth + 1);
    if (strip->out)
        put_length(strip->out + length_at, strip->out_len - length_at - LENGTH_BYTES);
    return status;
}

static weft_status strip_message(struct strip *strip, const ProtobufCMessageDescriptor *message,
                                 const uint8_t *at, const uint8_t *end, int depth)
{
    if (depth > ONNX_MAX_DEPTH)
        return bad_input(strip->file, 0, NULL,
                         "is nested deeper than the %d levels that Weft reads", ONNX_MAX_DEPTH);
    if (++strip->messages > ONNX_MAX_MESSAGES)
        return bad_input(strip->file, 0, NULL, "holds more than the %d records that Weft reads",
                         ONNX_MAX_MESSAGES);
    for (struct wire_field field; at < end; at = field.end) {
        if (!read_field(at, end, message, &field))
            return torn(strip, at);
        if (!field.descriptor || is_large_payload(message, &field))
            continue;
        weft_status status = strip_field(strip, &field, depth);
        if (status)
            return status;
    }
    return WEFT_OK;
}

static weft_status check_version(const char *file, const Onnx__ModelProto *model)
{
    enum { NEWEST_IR = 13 };
    if (!model->has_ir_version || !model->graph)
        return bad_input(file, 0, "is this an ONNX model?", "has no %s, expected an ONNX model",
                         model->has_ir_version ? "graph" : "ir_version");
    if (model->ir_version < 1 || model->ir_version > NEWEST_IR)
        return bad_input(file, 0, "export the model with another version of ONNX",
                         "has IR version %lld, expected 1 to %d", (long long)model->ir_version,
                         NEWEST_IR);
    return WEFT_OK;
}

static void *take(void *arena, size_t bytes)
{
    return arena_alloc(arena, bytes, 1);
}

static void give_back(void *arena, void *memory)
{
    (void)arena, (void)memory; /* everything is freed with the arena */
}

weft_status onnx_read(struct arena *scratch, const char *file, const void *bytes, size_t len,
                      Onnx__ModelProto **out)
{
    const ProtobufCMessageDescriptor *message = &onnx__model_proto__descriptor;
    const uint8_t *start = bytes;
    struct strip counted = {.file = file, .start = start};
    if (len == 0)
        return bad_input(file, 0, NULL, "is empty, expected an ONNX model");
    weft_status status = strip_message(&counted, message, start, start + len, 0);
    if (status)
        return status;
    struct strip strip = {.file = file, .start = start};
    strip.out = arena_alloc(scratch, counted.out_len + 1, 1);
    /* cannot fail: the same input just passed */
    strip_message(&strip, message, start, start + len, 0);
    ProtobufCAllocator allocator = {take, give_back, scratch};
    *out = onnx__model_proto__unpack(&allocator, strip.out_len, strip.out);
    if (!*out)
        return bad_input(file, 0, "is this an ONNX model?",
                         "has fields of other types than ONNX's, expected an ONNX model");
    return check_version(file, *out);
}
