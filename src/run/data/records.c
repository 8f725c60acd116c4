/* records.c - a file of records, field by field (records.h). */
#include "run/data/records.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "run/data/source.h"

static const char MAGIC[8] = {'W', 'E', 'F', 'T', 'R', 'E', 'C', 'S'};
enum { VERSION = 1, HEADER_BYTES = 24, FIELD_BYTES_EACH = 16 };

enum record_kind { RECORD_U8, RECORD_U16, RECORD_I32, RECORD_F32, RECORD_KIND_COUNT };
static const int KIND_BYTES[RECORD_KIND_COUNT] = {1, 2, 4, 4};

struct record_field {
    enum record_kind kind;
    int64_t offset; /* of its first number in a record */
};
struct records {
    char *path;
    struct mapped file;
    struct sample_fields fields;
    struct record_field field[MAX_FIELDS];
    int64_t first, bytes, count; /* where records begin; of each; how many */
};

/* ---- what a model takes ---------------------------------------------------------------------- */

static int64_t numbers_of(const int64_t *size, int axes)
{
    int64_t numbers = 1;
    for (int i = 0; i < axes; i++)
        numbers *= size[i];
    return numbers;
}

/* The smallest table that looks up a tensor. */
static int64_t rows_looked_up(const struct model *model, int32_t tensor)
{
    int64_t least = 0;
    for (int32_t i = 0; i < model->ops; i++) {
        const struct op *op = &model->op[i];
        int dim = op_find_dim(op->kind, DIM_VOCAB);
        for (int32_t k = 0; dim >= 0 && k < op->inputs; k++)
            if (op->input[k].tensor >= 0 && tensor_storage(model, op->input[k].tensor) == tensor &&
                (!least || op->size[dim] < least))
                least = op->size[dim];
    }
    return least;
}

static weft_status add_field(struct sample_fields *fields, struct sample_field field)
{
    if (fields->count == MAX_FIELDS)
        return bad_argument(NULL, "the model has more than %d inputs and losses", MAX_FIELDS);
    fields->field[fields->count++] = field;
    return WEFT_OK;
}

weft_status sample_fields_of(const struct model *model, struct sample_fields *out)
{
    weft_status status = WEFT_OK;
    int32_t inputs = 0, losses = 0;
    *out = (struct sample_fields){0};
    for (int32_t i = 0; i < model->tensors; i++) {
        const struct tensor *t = &model->tensor[i];
        if (t->producer >= 0 || t->carry_module >= 0 || t->view_of >= 0)
            continue;
        bool index = t->element == ELEMENT_INDEX;
        TRY(add_field(out, (struct sample_field){inputs++, numbers_of(t->size, t->axes), index,
                                                 index ? rows_looked_up(model, i) : 0}));
    }
    for (int32_t i = 0; i < model->ops; i++) {
        const struct op *op = &model->op[i];
        if (op->kind != OP_LOSS)
            continue;
        int64_t classes = op->size[op_find_dim(op->kind, DIM_VOCAB)];
        TRY(add_field(out, (struct sample_field){SOURCE_LABELS - losses++,
                                                 numbers_of(op->output.size, op->output.axes), true,
                                                 classes == 1 ? 2 : classes}));
    }
done:
    return status;
}

/* ---- opening --------------------------------------------------------------------------------- */

static uint64_t little(const uint8_t *data, int bytes)
{
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--)
        value = value << 8 | data[i];
    return value;
}

bool records_begin(const struct mapped *file)
{
    return file->bytes >= HEADER_BYTES && memcmp(file->data, MAGIC, sizeof MAGIC) == 0;
}

static const char *field_name(struct arena *scratch, int32_t input)
{
    return input >= 0 ? arena_printf(scratch, "input %d", input)
                      : arena_printf(scratch, "the labels of loss %d", SOURCE_LABELS - input);
}

static weft_status open_field(struct records *r, int32_t i)
{
    const uint8_t *at = r->file.data + HEADER_BYTES + (size_t)i * FIELD_BYTES_EACH;
    const struct sample_field *wanted = &r->fields.field[i];
    uint64_t kind = little(at, 4), numbers = little(at + 8, 8);
    struct arena *scratch = arena_new();
    const char *name = field_name(scratch, wanted->input);
    weft_status status = WEFT_OK;
    if (kind >= RECORD_KIND_COUNT)
        TRY(bad_input(r->path, 0, "0 uint8, 1 uint16, 2 int32, 3 float32",
                      "field %d is of kind %llu", i, (unsigned long long)kind));
    if (numbers != (uint64_t)wanted->numbers)
        TRY(bad_input(r->path, 0, NULL, "has %llu numbers of %s in a record, the model takes %lld",
                      (unsigned long long)numbers, name, (long long)wanted->numbers));
    if (wanted->index && kind == RECORD_F32)
        TRY(bad_input(r->path, 0, NULL, "has floats as %s, the model takes indices", name));
    r->field[i] = (struct record_field){(enum record_kind)kind, r->bytes};
    r->bytes += wanted->numbers * KIND_BYTES[kind];
done:
    arena_free(scratch);
    return status;
}

static weft_status open_header(struct records *r)
{
    const uint8_t *data = r->file.data;
    uint64_t version = little(data + 8, 4), fields = little(data + 12, 4);
    uint64_t records = little(data + 16, 8);
    size_t header = HEADER_BYTES + (size_t)r->fields.count * FIELD_BYTES_EACH;
    weft_status status = WEFT_OK;
    if (version != VERSION)
        TRY(bad_input(r->path, 0, NULL, "is of version %llu, expected %d",
                      (unsigned long long)version, VERSION));
    if (fields != (uint64_t)r->fields.count || r->file.bytes < header)
        TRY(bad_input(r->path, 0, "first the model's inputs, then the labels of its losses",
                      "has %llu fields, the model takes %d", (unsigned long long)fields,
                      r->fields.count));
    for (int32_t i = 0; i < r->fields.count; i++)
        TRY(open_field(r, i));
    r->first = (int64_t)header;
    uint64_t there = (r->file.bytes - header) / (uint64_t)r->bytes;
    if (records != there || (r->file.bytes - header) % (uint64_t)r->bytes)
        TRY(bad_input(r->path, 0, NULL, "says that it has %llu records, and has bytes for %llu",
                      (unsigned long long)records, (unsigned long long)there));
    r->count = (int64_t)records;
done:
    return status;
}

weft_status records_open(const char *path, struct mapped *file, const struct sample_fields *fields,
                         struct records **out)
{
    struct records *r = calloc(1, sizeof *r);
    weft_status status;
    if (r)
        *r = (struct records){strdup(path), *file, *fields, {{0}}, 0, 0, 0};
    if (!r || !r->path) {
        free(r);
        file_unmap(file);
        return failure("out of memory");
    }
    TRY(open_header(r));
    *out = r;
    return WEFT_OK;
done:
    records_close(r);
    return status;
}

void records_close(struct records *r)
{
    if (!r)
        return;
    file_unmap(&r->file);
    free(r->path);
    free(r);
}

int64_t records_count(const struct records *r)
{
    return r->count;
}

/* Of up to 256 records that are spread evenly, the first and the last among them. */
uint64_t records_fingerprint(const struct records *r)
{
    enum { MOST = 256 };
    int64_t some = r->count < MOST ? r->count : MOST;
    uint64_t hash = 0;
    for (int64_t i = 0; i < some; i++) {
        int64_t at = some > 1 ? (r->count - 1) * i / (some - 1) : 0;
        hash = hash_bytes(r->file.data + r->first + at * r->bytes, (size_t)r->bytes, hash);
    }
    return hash;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Numbers of a record lie at any byte. */
static int64_t whole_at(enum record_kind kind, const uint8_t *at)
{
    uint16_t pair;
    int32_t word;
    if (kind == RECORD_U8)
        return *at;
    if (kind == RECORD_U16) {
        memcpy(&pair, at, sizeof pair);
        return le16toh(pair);
    }
    memcpy(&word, at, sizeof word);
    return (int32_t)le32toh((uint32_t)word);
}

static float real_at(enum record_kind kind, const uint8_t *at)
{
    float real;
    if (kind != RECORD_F32)
        return (float)whole_at(kind, at);
    uint32_t bits = (uint32_t)whole_at(RECORD_I32, at);
    memcpy(&real, &bits, sizeof real);
    return real;
}

static weft_status check_index(const struct records *r, const struct sample_field *field,
                               int64_t record, int64_t index)
{
    bool label = field->input < 0;
    if ((index >= 0 || label) && (!field->limit || index < field->limit))
        return WEFT_OK;
    return bad_input(r->path, 0, NULL, "record %lld has the %s %lld, the model's are below %lld",
                     (long long)record, label ? "label" : "index", (long long)index,
                     (long long)field->limit);
}

static int32_t field_of(const struct records *r, int32_t input)
{
    int32_t i = 0;
    while (i + 1 < r->fields.count && r->fields.field[i].input != input)
        i++;
    return i;
}

/* Brightness: 0 is -1 and 255 is 1. */
static void read_brightness(const uint8_t *from, int64_t count, float *to)
{
    float value[256];
    for (int i = 0; i < 256; i++)
        value[i] = (float)(i / 127.5 - 1);
    for (int64_t i = 0; i < count; i++)
        to[i] = value[from[i]];
}

weft_status records_read(const struct records *r, int64_t record, int32_t input, void *out)
{
    int32_t number = field_of(r, input);
    const struct sample_field *field = &r->fields.field[number];
    enum record_kind kind = r->field[number].kind;
    const uint8_t *at = r->file.data + r->first + record * r->bytes + r->field[number].offset;
    weft_status status = WEFT_OK;
    if (kind == RECORD_U8 && !field->index) {
        read_brightness(at, field->numbers, out);
        return WEFT_OK;
    }
    for (int64_t i = 0; i < field->numbers; i++, at += KIND_BYTES[kind]) {
        if (!field->index) {
            ((float *)out)[i] = real_at(kind, at);
            continue;
        }
        ((int64_t *)out)[i] = whole_at(kind, at);
        TRY(check_index(r, field, record, ((int64_t *)out)[i]));
    }
done:
    return status;
}
