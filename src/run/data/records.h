/* records.h - samples of any model in one file: images with labels, click logs, pairs of sequences.
 *
 *   "WEFTRECS", uint32 version 1, uint32 fields, uint64 records, then of each field
 *       uint32 kind (0 uint8, 1 uint16, 2 int32, 3 float32), uint32 0, uint64 numbers in a record
 *   then the records, one after the other: the numbers of their fields
 *
 * The fields are the model's inputs, in the order of its tensors, then the labels of its losses, in the order of its
 * operators. Bytes of an input that is no index are brightness: 0 is -1 and 255 is 1.
 *
 *   I1  All numbers are little endian. The file is mapped into memory: of a sample, a rank reads what it needs.
 *   I2  What is read was checked: indices are below the model's, labels may be negative (they count for nothing).
 */
#ifndef WEFT_RUN_DATA_RECORDS_H
#define WEFT_RUN_DATA_RECORDS_H

#include "base/base.h"
#include "model/model.h"

/* What a model takes: a field for each input and for the labels of each loss. */
enum { MAX_FIELDS = 16 };
struct sample_field {
    int32_t input;   /* of a batch source: from 0, or SOURCE_LABELS and below */
    int64_t numbers; /* of a sample */
    bool index;
    int64_t limit; /* of an index: it is below; 0: none */
};
struct sample_fields {
    int32_t count;
    struct sample_field field[MAX_FIELDS];
};
/* Bad input: more than MAX_FIELDS. */
weft_status sample_fields_of(const struct model *model, struct sample_fields *out);

struct records; /* may be read by several threads at once */
/* Whether a file begins like one. */
bool records_begin(const struct mapped *file);
/* Takes the file over, also where it fails. `path` is for messages. */
weft_status records_open(const char *path, struct mapped *file, const struct sample_fields *fields,
                         struct records **out);
void records_close(struct records *records); /* NULL: nothing */
int64_t records_count(const struct records *records);
uint64_t records_fingerprint(const struct records *records);
/* A field of a record: int64_t for indices and labels, else float. */
weft_status records_read(const struct records *records, int64_t record, int32_t input, void *out);

#endif
