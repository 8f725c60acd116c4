/* safetensors.c - dtypes, and reading (safetensors.h). */
#include "run/checkpoint/safetensors.h"

#include <stdlib.h>
#include <string.h>

/* ---- dtypes ---------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int64_t bytes;
} STORED[] = {
    [STORED_F64] = {"F64", 8},         [STORED_F32] = {"F32", 4},
    [STORED_F16] = {"F16", 2},         [STORED_BF16] = {"BF16", 2},
    [STORED_F8_E4M3] = {"F8_E4M3", 1}, [STORED_F8_E5M2] = {"F8_E5M2", 1},
    [STORED_I64] = {"I64", 8},         [STORED_I32] = {"I32", 4},
    [STORED_I16] = {"I16", 2},         [STORED_I8] = {"I8", 1},
    [STORED_U64] = {"U64", 8},         [STORED_U32] = {"U32", 4},
    [STORED_U16] = {"U16", 2},         [STORED_U8] = {"U8", 1},
    [STORED_BOOL] = {"BOOL", 1},
};
_Static_assert(COUNT_OF(STORED) == STORED_COUNT, "a dtype without a row");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are little endian, as memory is");

const char *stored_name(enum stored stored)
{
    return STORED[stored].name;
}

int64_t stored_bytes(enum stored stored)
{
    return STORED[stored].bytes;
}

static float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* IEEE 754 half precision: 1 sign, 5 exponent (bias 15), 10 fraction bits. */
static float float_of_half(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31;
    uint32_t fraction = (uint32_t)(half & 0x3ff) << 13;
    if (exponent == 31)
        return float_of_bits(sign | 0x7f800000 | fraction);
    if (exponent == 0) { /* fraction * 2^-24, exact in single precision */
        float small = (float)(half & 0x3ff) * 0x1p-24F;
        return sign ? -small : small;
    }
    return float_of_bits(sign | (exponent + 127 - 15) << 23 | fraction);
}

bool stored_to_float(enum stored stored, const void *data, int64_t count, float *out)
{
    const uint8_t *bytes = data;
    if (stored == STORED_F32) {
        memcpy(out, bytes, (size_t)count * sizeof *out);
        return true;
    }
    if (stored != STORED_F16 && stored != STORED_BF16)
        return false;
    for (int64_t i = 0; i < count; i++) {
        uint16_t value;
        memcpy(&value, bytes + 2 * i, sizeof value);
        out[i] = stored == STORED_F16 ? float_of_half(value) : float_of_bits((uint32_t)value << 16);
    }
    return true;
}

/* ---- reading --------------------------------------------------------------------------------- */

static weft_status tensor_error(const struct tensor_file *file, const char *name, const char *what)
{
    return bad_input(file->path, 0, "the file is damaged, or not safetensors: write it again",
                     "tensor '%s' %s", name, what);
}

/* A list of integers of at least 0 and at most 2^62. */
static weft_status read_sizes(struct arena *keep, const struct tensor_file *file, const char *name,
                              const struct doc *list, const int64_t **out)
{
    int64_t *sizes = ARENA_ARRAY(keep, int64_t, list->count ? list->count : 1);
    size_t i = 0;
    for (const struct doc *item = list->first; item; item = item->next, i++)
        if (item->kind != DOC_NUMBER || !parse_int(item->text, &sizes[i]) || sizes[i] < 0 ||
            sizes[i] > INT64_C(1) << 62)
            return tensor_error(file, name, "has a size or an offset that is no whole number");
    *out = sizes;
    return WEFT_OK;
}

static bool dtype_of(const char *name, enum stored *out)
{
    int at = NAME_INDEX(name, STORED);
    if (at >= 0)
        *out = (enum stored)at;
    return at >= 0;
}

static bool count_elements(const int64_t *shape, int64_t axes, int64_t *out)
{
    bool fits = true;
    *out = 1;
    for (int64_t i = 0; i < axes; i++)
        fits = checked_mul(*out, shape[i], out) && fits;
    return fits;
}

/* I2. `begin` and `end` are within the data once all tensors are known to cover it (I1). */
static weft_status read_tensor(struct arena *keep, struct tensor_file *file, const struct doc *node,
                               struct stored_tensor *out)
{
    weft_status status;
    const struct doc *dtype = doc_get(node, "dtype"), *shape = doc_get(node, "shape");
    const struct doc *offsets = doc_get(node, "data_offsets");
    const int64_t *range;
    int64_t bytes;
    if (node->kind != DOC_MAP || !dtype || !shape || !offsets || dtype->kind != DOC_TEXT ||
        shape->kind != DOC_LIST || offsets->kind != DOC_LIST || offsets->count != 2)
        return tensor_error(file, node->key, "lacks one of dtype, shape and two data_offsets");
    *out = (struct stored_tensor){.name = node->key, .axes = (int64_t)shape->count};
    if (!dtype_of(dtype->text, &out->dtype))
        return bad_input(file->path, 0, "convert it to F32, F16 or BF16",
                         "tensor '%s' has the dtype '%s', which Weft does not read", node->key,
                         dtype->text);
    TRY(read_sizes(keep, file, node->key, shape, &out->shape));
    TRY(read_sizes(keep, file, node->key, offsets, &range));
    if (!count_elements(out->shape, out->axes, &out->elements) ||
        !checked_mul(out->elements, stored_bytes(out->dtype), &bytes) ||
        range[1] - range[0] != bytes)
        return tensor_error(file, node->key, "has offsets that do not fit its shape and dtype");
    out->begin = range[0];
done:
    return status;
}

static int by_begin(const void *a, const void *b)
{
    const struct stored_tensor *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->elements > 0) - (y->elements > 0); /* empty ones lie before what begins there */
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct stored_tensor *)a)->name, ((const struct stored_tensor *)b)->name);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct stored_note *)a)->key, ((const struct stored_note *)b)->key);
}

/* I1 */
static weft_status place_tensors(struct tensor_file *file, const uint8_t *data, size_t bytes)
{
    int64_t at = 0;
    qsort(file->tensor, file->tensors, sizeof *file->tensor, by_begin);
    for (size_t i = 0; i < file->tensors; i++) {
        struct stored_tensor *tensor = &file->tensor[i];
        if (tensor->begin != at)
            return tensor_error(file, tensor->name,
                                tensor->begin < at ? "overlaps another one"
                                                   : "is not where the one before it ends");
        if (!checked_add(at, tensor->elements * stored_bytes(tensor->dtype), &at) ||
            (uint64_t)at > bytes)
            return tensor_error(file, tensor->name, "ends after the end of the file");
        tensor->data = data + tensor->begin;
    }
    if ((uint64_t)at != bytes)
        return bad_input(file->path, 0, "the file is damaged, or not safetensors: write it again",
                         "has %zu bytes of data, of which its header describes %lld", bytes,
                         (long long)at);
    qsort(file->tensor, file->tensors, sizeof *file->tensor, by_name);
    return WEFT_OK;
}

static weft_status read_notes(struct arena *keep, struct tensor_file *file, const struct doc *map)
{
    if (map->kind != DOC_MAP)
        return bad_input(file->path, 0, NULL, "__metadata__ is %s, expected a mapping",
                         doc_kind_name(map->kind));
    file->note = ARENA_ARRAY(keep, struct stored_note, map->count ? map->count : 1);
    for (const struct doc *item = map->first; item; item = item->next) {
        if (item->kind != DOC_TEXT)
            return bad_input(file->path, 0, NULL, "'%s' of __metadata__ is %s, expected text",
                             item->key, doc_kind_name(item->kind));
        file->note[file->notes++] = (struct stored_note){item->key, item->text};
    }
    qsort(file->note, file->notes, sizeof *file->note, by_key);
    return WEFT_OK;
}

static weft_status read_header(struct arena *keep, struct tensor_file *file, const struct doc *root)
{
    weft_status status = WEFT_OK;
    file->tensor = ARENA_ARRAY(keep, struct stored_tensor, root->count ? root->count : 1);
    for (const struct doc *node = root->first; node; node = node->next)
        if (strcmp(node->key, "__metadata__") == 0)
            TRY(read_notes(keep, file, node));
        else
            TRY(read_tensor(keep, file, node, &file->tensor[file->tensors++]));
done:
    return status;
}

weft_status tensor_file_parse(struct arena *keep, const char *path, const uint8_t *data,
                              size_t bytes, struct tensor_file *out)
{
    weft_status status;
    struct doc *root;
    uint64_t header;
    *out = (struct tensor_file){.path = arena_copy_text(keep, path)};
    if (bytes < sizeof header)
        return bad_input(path, 0, NULL, "has %zu bytes, too few for a safetensors file", bytes);
    memcpy(&header, data, sizeof header);
    if (header > MAX_HEADER_BYTES || header > bytes - sizeof header || header < 2 ||
        data[sizeof header] != '{')
        return bad_input(path, 0, "give a safetensors file that is complete",
                         "is not a safetensors file of %zu bytes: its header would be %llu long",
                         bytes, (unsigned long long)header);
    TRY(doc_parse(keep, out->path, (const char *)data + sizeof header, (size_t)header, DOC_JSON,
                  &root));
    TRY(read_header(keep, out, root));
    TRY(place_tensors(out, data + sizeof header + header, bytes - sizeof header - (size_t)header));
done:
    return status;
}

weft_status tensor_file_open(struct arena *keep, const char *path, struct tensor_file *out)
{
    struct mapped mapped;
    weft_status status = file_map(path, &mapped);
    if (status != WEFT_OK)
        return status;
    status = tensor_file_parse(keep, path, mapped.data, mapped.bytes, out);
    if (status != WEFT_OK)
        file_unmap(&mapped);
    out->mapped = mapped;
    return status;
}

void tensor_file_close(struct tensor_file *file)
{
    file_unmap(&file->mapped);
}

const struct stored_tensor *tensor_file_find(const struct tensor_file *file, const char *name)
{
    struct stored_tensor key = {.name = name};
    return bsearch(&key, file->tensor, file->tensors, sizeof key, by_name);
}

const char *tensor_file_note(const struct tensor_file *file, const char *key)
{
    struct stored_note wanted = {key, NULL};
    const struct stored_note *note = NULL;
    if (file->notes)
        note = bsearch(&wanted, file->note, file->notes, sizeof wanted, by_key);
    return note ? note->text : NULL;
}
