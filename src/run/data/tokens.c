/* tokens.c - opening and reading token files (tokens.h). */
#include "run/data/tokens.h"

#include <string.h>
#include <sys/stat.h>

#include "run/data/vocabulary.h"

/* ---- names and widths ------------------------------------------------------------------------ */

static const char *const FORMATS[] = {
    [TOKENS_AUTO] = "auto",     [TOKENS_TEXT] = "text", [TOKENS_UINT16] = "uint16",
    [TOKENS_UINT32] = "uint32", [TOKENS_WEFT] = "weft", [TOKENS_MEGATRON] = "megatron",
};
_Static_assert(COUNT_OF(FORMATS) == TOKENS_FORMAT_COUNT, "a format without a name");

const char *token_format_name(enum token_format format)
{
    return FORMATS[format];
}

bool token_format_from_name(const char *name, enum token_format *out)
{
    int at = NAME_INDEX(name, FORMATS);
    if (at >= 0)
        *out = (enum token_format)at;
    return at >= 0;
}

const char *token_format_near(const char *name)
{
    return NEAREST_NAME(name, FORMATS);
}

/* A token as a number; loads of any address. */
#define LOADER(name, type)                                                                         \
    static int64_t load_##name(const uint8_t *at)                                                  \
    {                                                                                              \
        type value;                                                                                \
        memcpy(&value, at, sizeof value);                                                          \
        return value;                                                                              \
    }
LOADER(u8, uint8_t)
LOADER(i16, int16_t)
LOADER(u16, uint16_t)
LOADER(i32, int32_t)
LOADER(u32, uint32_t)
LOADER(i64, int64_t)

static const struct {
    int64_t bytes;
    int64_t (*load)(const uint8_t *at);
} WIDTHS[] = {
    [WIDTH_U8] = {1, load_u8},   [WIDTH_I16] = {2, load_i16}, [WIDTH_U16] = {2, load_u16},
    [WIDTH_I32] = {4, load_i32}, [WIDTH_U32] = {4, load_u32}, [WIDTH_I64] = {8, load_i64},
};
_Static_assert(COUNT_OF(WIDTHS) == WIDTH_COUNT, "a width without a row");

/* ---- opening --------------------------------------------------------------------------------- */

struct token_source {
    struct arena *arena;
    const char *path;
    struct mapped mapped;
    enum token_format format;
    struct token_layout layout;
    int64_t limit;         /* exclusive */
    struct tokens encoded; /* of a text with a vocabulary */
};

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), tail = strlen(end);
    return len >= tail && strcmp(text + len - tail, end) == 0;
}

static const char *index_path(struct arena *keep, const char *path)
{
    size_t len = strlen(path) - (ends_with(path, ".bin") ? strlen(".bin") : 0);
    return arena_printf(keep, "%.*s.idx", (int)len, path);
}

static enum token_format guess_format(const struct token_source *source)
{
    struct stat info;
    if (source->mapped.bytes >= 8 && memcmp(source->mapped.data, "WEFTTOKS", 8) == 0)
        return TOKENS_WEFT;
    if (!ends_with(source->path, ".bin"))
        return TOKENS_TEXT;
    bool indexed = stat(index_path(source->arena, source->path), &info) == 0;
    return indexed ? TOKENS_MEGATRON : TOKENS_UINT16;
}

static weft_status encode_text(struct token_source *source, const struct token_options *options)
{
    weft_status status;
    struct vocabulary *vocabulary;
    TRY(vocabulary_open(options->vocab, options->merges, &vocabulary));
    if (vocabulary_size(vocabulary) > source->limit)
        status = bad_input(options->vocab, 0, "take a model with as large a vocabulary",
                           "has %lld tokens, more than the model's %lld",
                           (long long)vocabulary_size(vocabulary), (long long)source->limit);
    else
        vocabulary_encode(vocabulary, (const char *)source->mapped.data, source->mapped.bytes,
                          source->arena, &source->encoded);
    vocabulary_close(vocabulary);
done:
    return status;
}

static weft_status open_text(struct token_source *source, const struct token_options *options)
{
    source->layout = (struct token_layout){WIDTH_U8, 0, (int64_t)source->mapped.bytes};
    if (!options->vocab && !options->merges)
        return WEFT_OK;
    if (!options->vocab || !options->merges)
        return bad_argument("GPT-2's are called vocab.json and merges.txt",
                            "a vocabulary is two files, and the %s are not given",
                            options->vocab ? "merges" : "tokens");
    weft_status status = encode_text(source, options);
    source->layout.tokens = (int64_t)source->encoded.len;
    return status;
}

/* Nothing but tokens. */
static weft_status open_plain(struct token_source *source, enum token_width width)
{
    int64_t bytes = WIDTHS[width].bytes;
    source->layout = (struct token_layout){width, 0, (int64_t)source->mapped.bytes / bytes};
    if (source->mapped.bytes % (size_t)bytes)
        return bad_input(source->path, 0, "it was cut short, or has another format: name that",
                         "has %zu bytes, which are no whole number of tokens of %lld bytes",
                         source->mapped.bytes, (long long)bytes);
    return WEFT_OK;
}

static weft_status open_megatron(struct token_source *source)
{
    struct mapped index;
    const char *path = index_path(source->arena, source->path);
    weft_status status = file_map(path, &index);
    if (status != WEFT_OK)
        return status;
    status = megatron_index_parse(path, index.data, index.bytes, (int64_t)source->mapped.bytes,
                                  &source->layout);
    file_unmap(&index);
    return status;
}

static weft_status open_as(struct token_source *source, const struct token_options *options)
{
    switch (source->format) {
    case TOKENS_UINT16:
        return open_plain(source, WIDTH_U16);
    case TOKENS_UINT32:
        return open_plain(source, WIDTH_U32);
    case TOKENS_WEFT:
        return token_header_parse(source->path, source->mapped.data, source->mapped.bytes,
                                  &source->layout);
    case TOKENS_MEGATRON:
        return open_megatron(source);
    default:
        return open_text(source, options);
    }
}

weft_status token_source_open(const char *path, const struct token_options *options,
                              struct token_source **out)
{
    weft_status status;
    struct arena *arena = arena_new();
    struct token_source *source = ARENA_NEW(arena, struct token_source);
    source->arena = arena;
    source->path = arena_copy_text(arena, path);
    source->limit = options->limit > 0 ? options->limit : INT64_C(1) << 31;
    TRY(file_map(path, &source->mapped));
    source->format = options->format == TOKENS_AUTO ? guess_format(source) : options->format;
    if (source->format != TOKENS_TEXT && (options->vocab || options->merges))
        status = bad_input(path, 0, "give no vocabulary, or the format text",
                           "holds tokens already (format %s): no vocabulary is needed",
                           token_format_name(source->format));
    else
        status = open_as(source, options);
done:
    if (status != WEFT_OK)
        token_source_close(source);
    else
        *out = source;
    return status;
}

void token_source_close(struct token_source *source)
{
    if (!source)
        return;
    file_unmap(&source->mapped);
    arena_free(source->arena);
}

int64_t token_source_length(const struct token_source *source)
{
    return source->layout.tokens;
}

/* ---- reading --------------------------------------------------------------------------------- */

static weft_status bad_token(const struct token_source *source, int64_t token, int64_t at)
{
    int64_t byte = source->layout.offset + at * WIDTHS[source->layout.width].bytes;
    return bad_input(source->path, 0, "name the format it has, or take a model of its vocabulary",
                     "token %lld at byte %lld (format %s) is %lld, expected 0 to %lld",
                     (long long)at, (long long)byte, token_format_name(source->format),
                     (long long)token, (long long)source->limit - 1);
}

weft_status token_source_read(const struct token_source *source, int64_t first, int64_t count,
                              int32_t *out)
{
    const struct token_layout *layout = &source->layout;
    if (first < 0 || count < 0 || count > layout->tokens - first)
        return bad_input(
            source->path, 0, NULL, "has %lld tokens, none at %lld", (long long)layout->tokens,
            (long long)(first >= 0 && first < layout->tokens ? layout->tokens : first));
    if (source->encoded.data) {
        memcpy(out, source->encoded.data + first, (size_t)count * sizeof *out);
        return WEFT_OK;
    }
    int64_t bytes = WIDTHS[layout->width].bytes;
    const uint8_t *at = source->mapped.data + layout->offset + first * bytes;
    for (int64_t i = 0; i < count; i++) {
        int64_t token = WIDTHS[layout->width].load(at + i * bytes);
        if (token < 0 || token >= source->limit)
            return bad_token(source, token, first + i); /* I2 */
        out[i] = (int32_t)token;
    }
    return WEFT_OK;
}
