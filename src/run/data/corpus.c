/* corpus.c - what of a model a file can feed, and its samples (corpus.h). */
#include "run/data/corpus.h"

#include <stdlib.h>
#include <string.h>

/* ---- the model ------------------------------------------------------------------------------- */

/* The smallest of its tables: tokens are looked up and predicted. Tables of two classes are labels of other things. */
static int64_t model_vocabulary(const struct model *model)
{
    int64_t least = INT64_MAX;
    for (int32_t i = 0; i < model->ops; i++) {
        int dim = op_find_dim(model->op[i].kind, DIM_VOCAB);
        if (dim >= 0 && model->op[i].size[dim] < least && model->op[i].size[dim] > 2)
            least = model->op[i].size[dim];
    }
    return least;
}

static bool sees_all(const struct model *model)
{
    bool any = false;
    for (int32_t i = 0; i < model->ops; i++) {
        const struct op *op = &model->op[i];
        if (op->kind != OP_ATTENTION && op->kind != OP_SCORE)
            continue;
        if (op->causal)
            return false;
        any = true;
    }
    return any;
}

/* Which of its fields are what; -1: there is none. */
struct roles {
    int32_t tokens, more, words, pairs; /* inputs; labels of tokens, and of two classes */
    bool others;
};

static struct roles roles_of(const struct sample_fields *fields)
{
    struct roles r = {-1, -1, -1, -1, false};
    for (int32_t i = 0; i < fields->count; i++) {
        const struct sample_field *f = &fields->field[i];
        int32_t *place = f->input >= 0                      ? (r.tokens < 0 ? &r.tokens : &r.more)
                         : f->numbers == 1 && f->limit == 2 ? &r.pairs
                                                            : &r.words;
        r.others |= !f->index || *place >= 0;
        *place = i;
    }
    return r;
}

/* False: tokens cannot feed it. */
static bool find_kind(const struct model *model, struct corpus *s, int64_t *window)
{
    const struct sample_field *f = s->fields.field;
    struct roles r = roles_of(&s->fields);
    if (r.others || r.tokens < 0 || r.words < 0)
        return false;
    int64_t labels = f[r.words].numbers, first = f[r.tokens].numbers;
    s->kind = r.more >= 0 ? CORPUS_CONTINUED : sees_all(model) ? CORPUS_MASKED : CORPUS_NEXT;
    *window = r.more >= 0 ? first + f[r.more].numbers : first;
    if (r.pairs >= 0 && s->kind != CORPUS_MASKED)
        return false;
    return labels == f[r.more >= 0 ? r.more : r.tokens].numbers;
}

/* ---- reading --------------------------------------------------------------------------------- */

static void note_failure(struct corpus *s)
{
    const weft_error *error = weft_last_error();
    pthread_mutex_lock(&s->lock);
    if (!s->failed) {
        snprintf(s->why, sizeof s->why, "%s", error->message);
        snprintf(s->hint, sizeof s->hint, "%s", error->hint ? error->hint : "");
    }
    s->failed = true;
    pthread_mutex_unlock(&s->lock);
}

static void read_tokens(struct corpus *s, int64_t first, int64_t count, int64_t *out)
{
    int32_t *tokens = calloc((size_t)count + 1, sizeof *tokens);
    if (!tokens)
        memory_ran_out((size_t)count * sizeof *tokens);
    if (token_source_read(s->source, first, count, tokens) != WEFT_OK)
        note_failure(s);
    for (int64_t i = 0; i < count; i++)
        out[i] = tokens[i];
    free(tokens);
}

static const struct sample_field *field_of(const struct corpus *s, int32_t input)
{
    for (int32_t i = 0; i < s->fields.count; i++)
        if (s->fields.field[i].input == input)
            return &s->fields.field[i];
    return s->fields.field;
}

/* Both sequences of a window; the second is read from the token before it on. */
static void read_continued(struct corpus *s, int64_t first, int32_t input, int64_t *out)
{
    int64_t before = field_of(s, 0)->numbers;
    int64_t from = input == 0 ? first : first + before - (input > 0);
    read_tokens(s, from, field_of(s, input)->numbers, out);
}

/* ---- hidden tokens --------------------------------------------------------------------------- */

static int64_t hidden_of(int64_t tokens)
{
    int64_t hidden = (tokens * 15 + 50) / 100; /* BERT: 15 % */
    return hidden > 0 ? hidden : 1;
}

static uint64_t chance_of(const struct corpus *s, int64_t first, int64_t what)
{
    int64_t key[] = {first, what};
    return hash_bytes(key, sizeof key, s->order.seed);
}

/* What becomes of a hidden token. */
static int64_t hide(const struct corpus *s, int64_t first, int64_t place, int64_t token)
{
    uint64_t chance = chance_of(s, first, place);
    if (chance % 10 < 8)
        return s->mask;
    return chance % 10 == 8 ? (int64_t)(chance / 10 % (uint64_t)s->vocabulary) : token;
}

static bool is_parted(const struct corpus *s, int64_t first)
{
    return s->fields.count > 2 && chance_of(s, first, -1) % 2;
}

/* A window whose second half is another's, if it is parted. */
static void read_halves(struct corpus *s, int64_t first, int64_t *tokens)
{
    int64_t count = s->order.window, half = count / 2;
    read_tokens(s, first, count, tokens);
    if (!is_parted(s, first))
        return;
    int64_t windows = s->order.training + s->order.validation;
    int64_t other = (first / count + 1 + (int64_t)(chance_of(s, first, -2) % (uint64_t)windows)) %
                    windows * count;
    read_tokens(s, other + half, count - half, tokens + half);
}

static void read_masked(struct corpus *s, int64_t first, int32_t input, int64_t *out)
{
    const struct sample_field *field = field_of(s, input);
    int64_t count = s->order.window, hidden = hidden_of(count);
    if (input < 0 && field->numbers == 1) {
        out[0] = is_parted(s, first);
        return;
    }
    int64_t *tokens = malloc((size_t)count * sizeof *tokens);
    if (!tokens)
        memory_ran_out((size_t)count * sizeof *tokens);
    struct permutation places = permutation_new(count, s->order.seed, first);
    read_halves(s, first, tokens);
    for (int64_t i = 0; i < count; i++)
        out[i] = input < 0 ? -1 : tokens[i]; /* what is not hidden counts for nothing */
    for (int64_t i = 0; i < hidden; i++) {
        int64_t at = permutation_at(&places, i);
        out[at] = input < 0 ? tokens[at] : hide(s, first, at, tokens[at]);
    }
    free(tokens);
}

static void read_record(struct corpus *s, int64_t first, int32_t input, void *out)
{
    if (records_read(s->records, first, input, out) != WEFT_OK)
        note_failure(s);
}

static void read_window(struct corpus *s, int64_t first, int32_t input, void *out)
{
    switch (s->kind) {
    case CORPUS_NEXT:
        read_tokens(s, first + (input < 0), s->order.window, out);
        break;
    case CORPUS_MASKED:
        read_masked(s, first, input, out);
        break;
    case CORPUS_CONTINUED:
        read_continued(s, first, input, out);
        break;
    case CORPUS_RECORDS:
        read_record(s, first, input, out);
        break;
    }
}

/* Orders remember an epoch: every call has one of its own. */
static void read_training(void *context, int64_t sample, int32_t input, void *out)
{
    struct corpus *s = context;
    struct sample_order order = s->order;
    read_window(s, order_training(&order, s->before + sample), input, out);
}

static void read_validation(void *context, int64_t sample, int32_t input, void *out)
{
    struct corpus *s = context;
    read_window(s, order_validation(&s->order, sample % s->order.validation), input, out);
}

/* Of a sample's labels of a loss: those that count. */
static int64_t count_labels(void *context, int32_t input)
{
    const struct corpus *s = context;
    int64_t labels = field_of(s, input)->numbers;
    return s->kind == CORPUS_MASKED && labels > 1 ? hidden_of(labels) : labels;
}

struct batch_source corpus_training(struct corpus *corpus)
{
    return (struct batch_source){read_training, corpus, count_labels};
}

struct batch_source corpus_validation(struct corpus *corpus)
{
    return (struct batch_source){read_validation, corpus, count_labels};
}

/* Parts and the tokens of each: a million tokens are read in milliseconds, and another file of the same
 * length would have to be the same in all of them. What cannot be read ends the run later (I2). */
enum { PARTS = 256, PART_TOKENS = 4096 };

uint64_t corpus_fingerprint(const struct corpus *corpus)
{
    if (corpus->records)
        return records_fingerprint(corpus->records);
    int64_t length = token_source_length(corpus->source), parts = ceil_div(length, PART_TOKENS);
    int32_t part[PART_TOKENS];
    uint64_t hash = 0;
    parts = parts > PARTS ? PARTS : parts;
    for (int64_t i = 0; i < parts; i++) {
        int64_t first = length / parts * i, count = length - first;
        count = count > PART_TOKENS ? PART_TOKENS : count;
        if (token_source_read(corpus->source, first, count, part) == WEFT_OK)
            hash = hash_bytes(part, (size_t)count * sizeof *part, hash);
    }
    return hash;
}

weft_status corpus_status(struct corpus *s)
{
    pthread_mutex_lock(&s->lock);
    weft_status status =
        s->failed ? bad_argument(*s->hint ? s->hint : NULL, "%s", s->why) : WEFT_OK;
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* ---- opening --------------------------------------------------------------------------------- */

int64_t corpus_length(const struct corpus *corpus)
{
    return corpus->records ? records_count(corpus->records) : token_source_length(corpus->source);
}

/* A file of records, if it is one. */
static weft_status open_records(const struct corpus_options *options, struct corpus *out)
{
    struct mapped file;
    weft_status status;
    if (options->tokens.format != TOKENS_AUTO || file_map(options->path, &file) != WEFT_OK)
        return WEFT_OK; /* what cannot be opened is refused as tokens */
    if (!records_begin(&file)) {
        file_unmap(&file);
        return WEFT_OK;
    }
    out->kind = CORPUS_RECORDS;
    TRY(records_open(options->path, &file, &out->fields, &out->records));
done:
    return status;
}

static weft_status open_tokens(const struct model *model, const struct corpus_options *options,
                               struct corpus *out, int64_t *window)
{
    struct token_options tokens = options->tokens;
    if (!find_kind(model, out, window))
        return bad_argument("give it a file of records (docs/guide/training.md)",
                            "%s does not read one sequence of tokens and predict tokens, so a text "
                            "or tokens cannot feed it",
                            model->name);
    out->vocabulary = tokens.limit = model_vocabulary(model);
    out->mask = options->mask >= 0 ? options->mask : out->vocabulary - 1;
    if (out->mask >= out->vocabulary)
        return bad_argument(NULL, "the token %lld hides others, the model's are below %lld",
                            (long long)out->mask, (long long)out->vocabulary);
    return token_source_open(options->path, &tokens, &out->source);
}

weft_status corpus_open(const struct model *model, const struct corpus_options *options,
                        struct corpus *out)
{
    int64_t window = 1;
    weft_status status;
    *out = (struct corpus){.opened = true};
    pthread_mutex_init(&out->lock, NULL);
    TRY(sample_fields_of(model, &out->fields));
    TRY(open_records(options, out));
    if (!out->records)
        TRY(open_tokens(model, options, out, &window));
    TRY(order_new(options->path, corpus_length(out) + (out->records != NULL), window,
                  options->validation, options->seed, &out->order));
done:
    return status;
}

void corpus_close(struct corpus *corpus)
{
    if (!corpus->opened)
        return;
    token_source_close(corpus->source);
    records_close(corpus->records);
    pthread_mutex_destroy(&corpus->lock);
}
