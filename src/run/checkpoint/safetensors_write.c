/* safetensors_write.c - writing (safetensors.h): the header first, then the data in its order. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "run/checkpoint/safetensors.h"

enum {
    PIECE_BYTES = 1 << 20, /* asked of a tensor_fill at once */
    DATA_ALIGNMENT = 8     /* as the reference implementation aligns it */
};

static int wide_first(const void *a, const void *b)
{
    const struct tensor_values *x = *(const struct tensor_values *const *)a;
    const struct tensor_values *y = *(const struct tensor_values *const *)b;
    int64_t difference = stored_bytes(y->dtype) - stored_bytes(x->dtype);
    return difference ? (difference < 0 ? -1 : 1) : strcmp(x->name, y->name);
}

static int64_t elements_of(const struct tensor_values *tensor)
{
    int64_t elements = 1;
    for (int64_t i = 0; i < tensor->axes; i++)
        elements *= tensor->shape[i];
    return elements;
}

static json_t *tensor_json(const struct tensor_values *tensor, int64_t begin, int64_t end)
{
    json_t *shape = json_array();
    for (int64_t i = 0; i < tensor->axes; i++)
        json_array_append_new(shape, json_integer(tensor->shape[i]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", stored_name(tensor->dtype), "shape", shape,
                     "data_offsets", (json_int_t)begin, (json_int_t)end);
}

static json_t *header_json(const struct tensor_values *const *order, size_t count,
                           const struct stored_note *notes, size_t note_count)
{
    json_t *root = json_object(), *metadata = json_object();
    int64_t at = 0;
    for (size_t i = 0; i < note_count; i++)
        json_object_set_new(metadata, notes[i].key, json_string(notes[i].text));
    if (note_count)
        json_object_set(root, "__metadata__", metadata);
    json_decref(metadata);
    for (size_t i = 0; i < count; i++) {
        int64_t end = at + elements_of(order[i]) * stored_bytes(order[i]->dtype);
        json_object_set_new(root, order[i]->name, tensor_json(order[i], at, end));
        at = end;
    }
    return root;
}

static weft_status write_header(struct sink *sink, const struct tensor_values *const *order,
                                size_t count, const struct stored_note *notes, size_t note_count)
{
    weft_status status;
    json_t *root = header_json(order, count, notes, note_count);
    char *text = json_dumps(root, JSON_COMPACT);
    if (!text || json_object_size(root) != count + (note_count > 0)) {
        status =
            bad_argument("name tensors in UTF-8, each by another name",
                         "the %zu tensors have names that no safetensors file can have", count);
        goto done;
    }
    size_t len = strlen(text), blanks = -len & (DATA_ALIGNMENT - 1);
    uint64_t header = len + blanks;
    TRY(sink_write(sink, &header, sizeof header));
    TRY(sink_write(sink, text, len));
    TRY(sink_write(sink, "        ", blanks));
done:
    free(text);
    json_decref(root);
    return status;
}

static weft_status write_values(struct sink *sink, const struct tensor_values *tensor, void *piece)
{
    weft_status status = WEFT_OK;
    int64_t elements = elements_of(tensor), bytes = stored_bytes(tensor->dtype);
    if (tensor->data)
        return sink_write(sink, tensor->data, (size_t)(elements * bytes));
    int64_t step = PIECE_BYTES / bytes;
    for (int64_t first = 0; first < elements; first += step) {
        int64_t count = elements - first < step ? elements - first : step;
        TRY(tensor->fill(tensor->context, first, count, piece));
        TRY(sink_write(sink, piece, (size_t)(count * bytes)));
    }
done:
    return status;
}

weft_status tensor_file_write(const struct disk *disk, const char *path,
                              const struct tensor_values *tensors, size_t count,
                              const struct stored_note *notes, size_t note_count,
                              struct written *out)
{
    struct arena *scratch = arena_new();
    const struct tensor_values **order =
        ARENA_ARRAY(scratch, const struct tensor_values *, count + 1);
    void *piece = arena_alloc(scratch, PIECE_BYTES, 1);
    struct sink sink = {.file = -1};
    weft_status status;
    for (size_t i = 0; i < count; i++)
        order[i] = &tensors[i];
    qsort(order, count, sizeof *order, wide_first);
    TRY(sink_open(disk, path, &sink));
    TRY(write_header(&sink, order, count, notes, note_count));
    for (size_t i = 0; i < count; i++)
        TRY(write_values(&sink, order[i], piece));
    TRY(sink_finish(&sink, out));
done:
    sink_drop(&sink);
    arena_free(scratch);
    return status;
}
