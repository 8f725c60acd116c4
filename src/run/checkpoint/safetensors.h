/* safetensors.h - tensors in a file that other tools read, too.
 *
 * The format (https://github.com/huggingface/safetensors, "Format"):
 *
 *   8 bytes     n, the length of the header, little endian
 *   n bytes     JSON: {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...,
 *               "__metadata__": {"key": "text", ...}}, blanks after it
 *   the rest    the data; offsets count from its beginning
 *
 *   I1  The tensors cover the data: sorted by offset, each begins where the one before ended, and
 *       the last ends with the file. So no two overlap and nothing is hidden between them.
 *   I2  end - begin = product of the shape * bytes of the dtype; a shape of [] is one element.
 *   I3  What is written has tensors of wide dtypes first, by name among equals, and data that begins
 *       at a multiple of 8: every element is aligned. What is read need not be.
 */
#ifndef WEFT_RUN_CHECKPOINT_SAFETENSORS_H
#define WEFT_RUN_CHECKPOINT_SAFETENSORS_H

#include "base/base.h"

enum stored {
    STORED_F64,
    STORED_F32,
    STORED_F16,
    STORED_BF16,
    STORED_F8_E4M3,
    STORED_F8_E5M2,
    STORED_I64,
    STORED_I32,
    STORED_I16,
    STORED_I8,
    STORED_U64,
    STORED_U32,
    STORED_U16,
    STORED_U8,
    STORED_BOOL,
    STORED_COUNT
};
const char *stored_name(enum stored stored);
int64_t stored_bytes(enum stored stored);
/* `count` elements as floats; false: the dtype is none that Weft computes with (F32, F16, BF16). */
bool stored_to_float(enum stored stored, const void *data, int64_t count, float *out);

struct stored_tensor {
    const char *name;
    enum stored dtype;
    int64_t axes;
    const int64_t *shape;
    int64_t elements;
    int64_t begin;       /* in the file's data */
    const uint8_t *data; /* stored_bytes * elements, at any address (I3) */
};
struct stored_note {
    const char *key, *text;
};

/* ---- reading --------------------------------------------------------------------------------- */

/* Bytes of a header that Weft reads; the reference implementation stops at 100 MB. */
enum { MAX_HEADER_BYTES = DOC_MAX_BYTES };

struct tensor_file {
    const char *path;
    struct mapped mapped;
    struct stored_tensor *tensor; /* by name */
    size_t tensors;
    struct stored_note *note; /* __metadata__, by key */
    size_t notes;
};
/* Everything but the data lives in `keep`; the data until it is closed. */
weft_status tensor_file_open(struct arena *keep, const char *path, struct tensor_file *out);
void tensor_file_close(struct tensor_file *file);
/* The same of bytes in memory that outlive `out`; not to be closed. */
weft_status tensor_file_parse(struct arena *keep, const char *path, const uint8_t *data,
                              size_t bytes, struct tensor_file *out);
const struct stored_tensor *tensor_file_find(const struct tensor_file *file, const char *name);
const char *tensor_file_note(const struct tensor_file *file, const char *key); /* NULL: none */

/* ---- writing --------------------------------------------------------------------------------- */

/* Elements first .. first + count - 1 of a tensor, in its dtype. */
typedef weft_status tensor_fill(void *context, int64_t first, int64_t count, void *out);

struct tensor_values {
    const char *name;
    enum stored dtype;
    int64_t axes;
    const int64_t *shape;
    const void *data;  /* all of it, or NULL: */
    tensor_fill *fill; /* asked for one piece after the other, from first to last */
    void *context;
};
weft_status tensor_file_write(const struct disk *disk, const char *path,
                              const struct tensor_values *tensors, size_t count,
                              const struct stored_note *notes, size_t note_count,
                              struct written *out);

#endif
