/* base.h - what every other room builds on: errors, memory, text, units, random numbers, documents.
 *
 * Invariants
 *   I1  The library never prints and never exits. A function that can fail returns a weft_status;
 *       the reason is kept in the calling thread's error record (weft_last_error).
 *   I2  Memory comes from arenas. A parameter named `keep` outlives the call, one named `scratch`
 *       dies with it; nothing taken from an arena is ever freed alone. When memory runs out, the
 *       request that needed it ends with a status (requests, below).
 *   I3  Times are integer nanoseconds, sizes are integer bytes; a rate is a double per second.
 */
#ifndef WEFT_BASE_H
#define WEFT_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "weft.h"

#define COUNT_OF(array)     (sizeof(array) / sizeof((array)[0]))
#define PRINTF_LIKE(fmt, a) __attribute__((format(printf, fmt, a)))
#define NEVER_NULL          __attribute__((returns_nonnull))

/* Jumps to the label `done` when a call fails; the function declares `weft_status status`. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        status = (call);                                                                           \
        if (status != WEFT_OK)                                                                     \
            goto done;                                                                             \
    } while (0)

/* ---- errors ---------------------------------------------------------------------------------- */

/* Reports wrong input: where it is (the file, and the line if known: 0 is "no line"), what was
 * found and expected, and what to do about it (hint may be NULL). Returns WEFT_BAD_INPUT. */
weft_status bad_input(const char *file, int line, const char *hint, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
/* The same for input that is not a file: a command-line argument, a preset name. */
weft_status bad_argument(const char *hint, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Reports a failure of the machine: a file cannot be read, a library refused. Returns
 * WEFT_FAILURE. */
weft_status failure(const char *fmt, ...) PRINTF_LIKE(1, 2);
/* Reports that everything worked but there is no answer. Returns WEFT_NO_ANSWER. */
weft_status no_answer(const char *hint, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Replaces the hint of the current error, for a caller that knows its cause better. */
void error_hint(const char *fmt, ...) PRINTF_LIKE(1, 2);
/* Says 'to' wherever the current error and its hint say 'from', each in quotes. */
void error_rename(const char *from, const char *to);
void error_clear(void);
/* A copy of the calling thread's error, to be carried to another thread. All zero means no
 * error. */
enum { ERROR_MESSAGE_BYTES = 1024, ERROR_HINT_BYTES = 1024 };
struct error_copy {
    weft_status status;
    bool hinted;
    char message[ERROR_MESSAGE_BYTES], hint[ERROR_HINT_BYTES];
};
void error_save(struct error_copy *out);
/* returns its status; without an error it changes nothing */
weft_status error_restore(const struct error_copy *error);

/* ---- arenas and containers ------------------------------------------------------------------- */

struct arena;
struct arena *arena_new(void);
void arena_free(struct arena *arena);
size_t arena_bytes(const struct arena *arena); /* bytes handed out so far */

/* Zeroed memory for `count` elements. Does not return if there is none or if the product overflows:
 * the request ends (request_run). */
void *arena_alloc(struct arena *arena, size_t count, size_t size) NEVER_NULL;
#define ARENA_NEW(arena, type)          ((type *)arena_alloc((arena), 1, sizeof(type)))
#define ARENA_ARRAY(arena, type, count) ((type *)arena_alloc((arena), (count), sizeof(type)))

/* Calls drop(what) when the arena is freed, for what is not memory; the newest is dropped first. */
void arena_own(struct arena *arena, void (*drop)(void *what), void *what);

char *arena_copy_text(struct arena *arena, const char *text);
char *arena_copy_bytes(struct arena *arena, const char *bytes, size_t len); /* NUL-terminated */
char *arena_printf(struct arena *arena, const char *fmt, ...) PRINTF_LIKE(2, 3);
char *arena_vprintf(struct arena *arena, const char *fmt, va_list args) PRINTF_LIKE(2, 0);

/* A growable array in an arena: struct { int *data; size_t len, cap; } xs = {0}; */
#define ARRAY(type)                                                                                \
    struct {                                                                                       \
        type *data;                                                                                \
        size_t len, cap;                                                                           \
    }
#define array_push(arena, array, value)                                                            \
    do {                                                                                           \
        if ((array)->len == (array)->cap)                                                          \
            (array)->data =                                                                        \
                array_grow((arena), (array)->data, &(array)->cap, sizeof *(array)->data);          \
        (array)->data[(array)->len++] = (value);                                                   \
    } while (0)
/* Makes room for `count` elements in an empty array. */
#define array_reserve(arena, array, count)                                                         \
    ((array)->data = arena_alloc((arena), (array)->cap = (count), sizeof *(array)->data))
/* Makes room for `count` elements in all, if that is more than there is. */
#define array_expect(arena, array, count)                                                          \
    do {                                                                                           \
        if ((array)->cap < (count))                                                                \
            (array)->data = array_widen((arena), (array)->data, &(array)->cap, (count),            \
                                        sizeof *(array)->data);                                    \
    } while (0)
void *array_widen(struct arena *arena, void *data, size_t *cap, size_t count,
                  size_t element_size) NEVER_NULL;
void *array_grow(struct arena *arena, void *data, size_t *cap, size_t element_size) NEVER_NULL;

/* A map from text to an integer. Insertion order is not kept: number the values to keep it. */
struct map;
struct map *map_new(struct arena *arena);
bool map_put(struct map *map, const char *key, int64_t value); /* false: replaced an older value */
bool map_get(const struct map *map, const char *key, int64_t *value);

/* ---- requests: running out of memory is a status (request.c) ------------------------------------ */

struct request;
typedef weft_status request_work(void *context);
/* Runs `work` and returns its status. If memory runs out or the request reaches its limit, frees
 * what it took and returns WEFT_FAILURE; the reason is in the error record. */
weft_status request_run(request_work *work, void *context);
/* Sets the memory limit of the requests that follow, in bytes; 0: the usual limit. */
void request_limit(int64_t bytes);
/* What other programs leave of this machine's memory and of this program's control group, in bytes. */
double host_memory_left(void);

/* The request that this thread works for; NULL: none. A thread that starts others passes it on to
 * them. Each of them, the starting thread included, runs its work through request_part, which ends
 * early with WEFT_FAILURE when memory runs out. After all were joined, request_go_on ends the
 * request if one of them ran out. */
struct request *request_current(void);
weft_status request_part(struct request *request, request_work *work, void *context);
void request_go_on(void);
/* Runs `work` as if there were no request, for work that cannot end early. */
weft_status request_outside(request_work *work, void *context);
/* Counts memory outside of arenas that the request is about to take, until the request ends. */
weft_status request_reserve(int64_t bytes);
/* Ends the request as an arena does when memory runs out, for memory outside of arenas. Does not
 * return. */
void memory_ran_out(size_t bytes) __attribute__((noreturn));

/* Something that is not in an arena and lives across allocations: a file, a lock, a parser. It
 * is dropped if the request ends early; otherwise the caller releases it after hold_pop, newest
 * first. */
struct hold {
    void (*drop)(void *what);
    void *what;
    struct hold *older;
};
void hold_push(struct hold *hold, void (*drop)(void *what), void *what);
void hold_pop(struct hold *hold);
void hold_unlock(void *mutex); /* unlocks a pthread_mutex_t */

/* ---- checked arithmetic: input may be large, products must not wrap -------------------------- */

bool checked_add(int64_t a, int64_t b, int64_t *out); /* false: does not fit in int64_t */
bool checked_mul(int64_t a, int64_t b, int64_t *out);
static inline int64_t ceil_div(int64_t a, int64_t b) /* a >= 0, b > 0 */
{
    return a / b + (a % b != 0);
}
/* the next divisor of `whole` above `divisor`; whole + 1 after the last */
int64_t divisor_above(int64_t whole, int64_t divisor);
int64_t common_divisor(int64_t a, int64_t b); /* the greatest common divisor; a, b >= 0 */

/* ---- element types --------------------------------------------------------------------------- */

enum dtype { DTYPE_FP32, DTYPE_TF32, DTYPE_FP16, DTYPE_BF16, DTYPE_FP8, DTYPE_NVFP4, DTYPE_COUNT };
/* All names, for messages. */
#define DTYPE_NAMES "fp32, tf32, fp16, bf16, fp8 or nvfp4"
const char *dtype_name(enum dtype dtype);
/* Bytes in memory: tf32 is stored as fp32; fp8 and nvfp4 are stored as bf16 and cast for products
 * of weights. */
int dtype_bytes(enum dtype dtype);
/* Whether the type is used only in products of weights: fp8, nvfp4. */
bool dtype_is_cast(enum dtype dtype);
/* Bytes of an element that was cast for a product: fp8, or nvfp4 with a scale of 8 bits for every 16. Other types are
 * not cast. */
double dtype_cast_bytes(enum dtype dtype);
bool dtype_from_name(const char *name, enum dtype *out);
/* A name, or PyTorch's word for the type (float32, bfloat16, half). Files of ours have names; people and other
 * programs write words. */
bool dtype_from_word(const char *word, enum dtype *out);

/* ---- units: a number with its unit is read, and written the same way --------------------------
 * Sizes: 1024-based KiB MiB GiB TiB, 1000-based kB MB GB TB, plain bytes. Rates: sizes per second
 * ("25GB/s") or bits ("100Gb/s"). Durations: ns us ms s min h. */
bool parse_bytes(const char *text, int64_t *bytes);
bool parse_rate(const char *text, double *bytes_per_s);
bool parse_duration(const char *text, int64_t *ns);
bool parse_int(const char *text, int64_t *value);
bool parse_real(const char *text, double *value);
/* The same with or without a per cent sign: "10%" is 10. */
bool parse_percent(const char *text, double *value);
/* The same with K, M, B or T after it: 15T is 15e12. */
bool parse_many(const char *text, double *value);

struct text32 {
    char s[32];
};
struct text32 show_bytes(double bytes);           /* "1.25 GiB" */
struct text32 show_rate(double bytes_per_s);      /* "22.1 GB/s" */
struct text32 show_duration(double ns);           /* "3.81 ms" */
struct text32 show_seconds(double ns);            /* of an iteration: as before, but "90.0 s" */
struct text32 show_count(double count);           /* "12.9 B", "345 M" */
struct text32 show_flops(double flops);           /* "1.02 PFLOP" */
struct text32 show_energy(double wh);             /* "41.3 MWh" */
struct text32 show_flop_rate(double flops_per_s); /* "546.5 TFLOP/s", "37.4 GFLOP/s" */
struct text32 show_change(double share);          /* 0.046: "+4.6 %"; what rounds to 0: "0.0 %" */
struct text32 counted(int64_t count, const char *noun); /* "1 sample", "8 micro-batches" */

/* The word of `words` that a misspelt `word` most likely meant; NULL if none is close. */
const char *nearest_word(const char *word, const char *const *words, size_t count);
/* Makes that word the hint of the current error, "did you mean 'x'?"; NULL leaves the hint as it
 * is. */
void hint_near(const char *word);

/* ---- text that is safe to print on a terminal (plain.c) -------------------------------------- */

/* Replaces, in place, every byte that is not UTF-8 and every control character, line end and
 * direction mark by a question mark. Everything that goes to a terminal passes here once: errors,
 * cells of tables, the program's output (in which line ends and tabs stay). */
void plain_text(char *text);
bool text_is_plain(const char *text); /* whether plain_text would change nothing */
/* The number of bytes, at least 1, of the next character of `len` bytes; *shows says whether it may
 * stay. 0: the character continues after these bytes. */
size_t plain_next(const char *text, size_t len, bool *shows);

/* Tables of names: each row begins with a const char *, and rows are `stride` bytes apart. */

int name_index(const char *name, const void *rows, size_t stride, size_t count); /* -1: none */
#define NAME_INDEX(name, table) name_index((name), (table), sizeof *(table), COUNT_OF(table))
const char *nearest_name(const char *name, const void *rows, size_t stride, size_t count);
#define NEAREST_NAME(name, table) nearest_name((name), (table), sizeof *(table), COUNT_OF(table))
/* "no schedule is called 'x', expected one of ...", with a hint if one of the names is close. */
weft_status unknown_name(const char *what, const char *name, const void *rows, size_t stride,
                         size_t count);

/* ---- random numbers: xoshiro256**, the same sequence everywhere ------------------------------ */

struct rng {
    uint64_t state[4];
};
void rng_seed(struct rng *rng, uint64_t seed);
uint64_t rng_next(struct rng *rng);
int64_t rng_below(struct rng *rng, int64_t bound); /* 0 <= x < bound */
double rng_uniform(struct rng *rng);               /* 0 <= x < 1 */
uint64_t hash_bytes(const void *data, size_t len, uint64_t seed);

/* Seconds of a clock that never goes back, to measure how long something took. */
double wall_seconds(void);

/* ---- files ----------------------------------------------------------------------------------- */

/* Reads a whole file; the text is NUL-terminated. Refuses a file larger than `limit`. */
weft_status file_read(struct arena *keep, const char *path, size_t limit, char **out,
                      size_t *out_len);
/* Files that come with a question, for a program that answers others' questions. From files_give on, until it is
 * called with NULL, this thread's file_read knows these names and no others, and file_exists too (given.c). */
struct given_file {
    const char *name, *text; /* the text is NUL-terminated */
};
struct given_files {
    const struct given_file *file;
    size_t count;
};
void files_give(const struct given_files *files);
const struct given_files *files_given(void); /* NULL: files are those of the machine */
const char *file_given(const char *name);    /* its text; NULL: no such file was given */
bool file_exists(const char *path);
/* Writes a file so that it exists whole or not at all; `put` writes its content. */
typedef void (*file_writer)(void *context, FILE *file);
weft_status file_write(const char *path, file_writer put, void *context);
weft_status file_write_text(const char *path, const char *text);
/* Whether the path can be written to: asked before long work whose answer goes there. NULL
 * passes. */
weft_status file_writable(const char *path);

/* Splits one line of CSV in place at its commas; "quoted fields" may hold commas and "" quotes.
 * Returns the number of fields, at most `max`. */
size_t csv_split(char *line, char **fields, size_t max);

/* Where Weft's own data is: the file `name` in the folder that the environment variable names;
 * otherwise in `folder` beside the program, beside the program's folder (for tests), or in
 * ../share/weft; otherwise in `installed`. NULL if there is none, or if the variable is "none". */
struct shipped {
    const char *variable, *folder, *installed;
};
char *shipped_file(struct arena *keep, const struct shipped *where, const char *name);
/* The folder that was looked for first, if none of them exists; NULL: one exists, or none is
 * wanted. */
const char *shipped_missing(struct arena *keep, const struct shipped *where);

#include "base/csv.h"
#include "base/doc.h"
#include "base/limits.h"
#include "base/stop.h"
#include "base/files.h"
#include "base/hash_map.h"
#include "base/heap.h"
#include "base/thread_pool.h"

#endif
