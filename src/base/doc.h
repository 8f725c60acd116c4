/* doc.h - a YAML or JSON document as a tree whose every node knows its line.
 *
 * Both formats become the same tree, and one table-driven reader turns a mapping into a struct, so
 * that every input file is checked the same way and complains in the same words: file, line, what
 * was expected, and a suggestion for a misspelt key.
 *
 *   I1  A node's `line` is the line of its key (in a mapping) or of its first character.
 *   I2  Depth and size are bounded (DOC_MAX_DEPTH, DOC_MAX_NODES), so no reader can exhaust the
 *       stack or the memory.
 *   I3  Keys within a mapping are unique; YAML aliases are refused, so a tree has no cycles.
 *   I4  The words with which Python writes numbers that are not finite (NaN, Infinity, -Infinity)
 *       are accepted in JSON, as numbers that no field takes: a file that holds them in keys that
 *       nobody reads is still readable.
 *   I5  A number has a range: its field's, or else that of its type (RANGES in doc_read.c).
 */
#ifndef WEFT_BASE_DOC_H
#define WEFT_BASE_DOC_H

enum { DOC_MAX_DEPTH = 64, DOC_MAX_BYTES = 64 << 20, DOC_MAX_NODES = 4000000 };

enum doc_kind { DOC_NULL, DOC_BOOL, DOC_NUMBER, DOC_TEXT, DOC_LIST, DOC_MAP };
enum doc_format { DOC_YAML, DOC_JSON };

struct doc {
    enum doc_kind kind;
    int line;
    const char *file;
    const char *key;  /* in a mapping; NULL in a list and at the root */
    const char *text; /* a scalar as written */
    size_t count;     /* children */
    struct doc *first, *next;
};

/* JSON if the name ends in .json, YAML otherwise. */
weft_status doc_load(struct arena *keep, const char *path, struct doc **out);
weft_status doc_parse(struct arena *keep, const char *name, const char *text, size_t len,
                      enum doc_format format, struct doc **out);

const struct doc *doc_get(const struct doc *map, const char *key); /* NULL if absent or no map */
const char *doc_kind_name(enum doc_kind kind);                     /* "a mapping", "a number" */

/* ---- reading a mapping into a struct --------------------------------------------------------- */

enum field_type {
    FIELD_COUNT,    /* int64_t, at least 1 */
    FIELD_INT,      /* int64_t */
    FIELD_REAL,     /* double, finite */
    FIELD_BOOL,     /* bool */
    FIELD_TEXT,     /* const char *, one line without control characters: names */
    FIELD_LINES,    /* const char *, any text */
    FIELD_BYTES,    /* int64_t, with unit: 80GiB */
    FIELD_RATE,     /* double bytes per second, with unit: 25GB/s, 100Gb/s */
    FIELD_DURATION, /* int64_t ns, with unit: 5us */
    FIELD_CHOICE,   /* int, the index into `choices` */
    FIELD_DOC,      /* const struct doc *, the subtree itself */
    FIELD_TYPE_COUNT
};

struct field {
    const char *key;
    enum field_type type;
    size_t offset; /* of the member in the struct that is filled */
    bool required;
    const char *const *choices; /* FIELD_CHOICE: NULL-terminated */
    double min, max;            /* numbers: refused outside; both 0: the range of the type (I5) */
    const char *expected;       /* for the message, when the type's own words do not suffice */
};

enum doc_unknown { DOC_REFUSE_UNKNOWN, DOC_IGNORE_UNKNOWN };

/* Fills the struct at `out`; members whose key is absent keep their value (their default). */
weft_status doc_read(const struct doc *map, const struct field *fields, size_t count,
                     enum doc_unknown unknown, void *out);

/* One scalar by type, for values in lists. */
weft_status doc_scalar(const struct doc *node, enum field_type type, void *out);

/* bad_input at this node's place. */
weft_status doc_error(const struct doc *node, const char *hint, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

#endif
