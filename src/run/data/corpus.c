/* corpus.c - which of a model's inputs a text can feed, and its samples (corpus.h). */
#include "run/data/corpus.h"

#include <stdlib.h>
#include <string.h>

/* ---- the model ------------------------------------------------------------------------------- */

static const struct tensor *only_input(const struct model *model)
{
    const struct tensor *input = NULL;
    for (int32_t i = 0; i < model->tensors; i++) {
        const struct tensor *t = &model->tensor[i];
        if (t->producer >= 0 || t->carry_module >= 0 || t->view_of >= 0)
            continue;
        if (input)
            return NULL;
        input = t;
    }
    return input;
}

static const struct op *only_loss(const struct model *model)
{
    const struct op *loss = NULL;
    for (int32_t i = 0; i < model->ops; i++) {
        if (model->op[i].kind != OP_LOSS)
            continue;
        if (loss)
            return NULL;
        loss = &model->op[i];
    }
    return loss;
}

static int64_t product_of(const int64_t *size, int axes)
{
    int64_t product = 1;
    for (int i = 0; i < axes; i++)
        product *= size[i];
    return product;
}

int64_t model_tokens(const struct model *model)
{
    const struct tensor *input = only_input(model);
    const struct op *loss = only_loss(model);
    if (!input || input->element != ELEMENT_INDEX || !loss)
        return 0;
    int64_t tokens = product_of(input->size, input->axes);
    return tokens == product_of(loss->output.size, loss->output.axes) ? tokens : 0;
}

/* The smallest of its tables: tokens are looked up and predicted. */
static int64_t model_vocabulary(const struct model *model)
{
    int64_t least = INT64_MAX;
    for (int32_t i = 0; i < model->ops; i++) {
        int dim = op_find_dim(model->op[i].kind, DIM_VOCAB);
        if (dim >= 0 && model->op[i].size[dim] < least)
            least = model->op[i].size[dim];
    }
    return least;
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

static void read_window(struct corpus *s, int64_t first, int32_t input, int64_t *out)
{
    int64_t count = s->order.window;
    int32_t *tokens = calloc((size_t)count, sizeof *tokens);
    if (!tokens)
        memory_ran_out((size_t)count * sizeof *tokens);
    if (token_source_read(s->source, first + (input < 0), count, tokens) != WEFT_OK)
        note_failure(s);
    for (int64_t i = 0; i < count; i++)
        out[i] = tokens[i];
    free(tokens);
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

struct batch_source corpus_training(struct corpus *corpus)
{
    return (struct batch_source){read_training, corpus};
}

struct batch_source corpus_validation(struct corpus *corpus)
{
    return (struct batch_source){read_validation, corpus};
}

/* Parts and the tokens of each: a million tokens are read in milliseconds, and another file of the same
 * length would have to be the same in all of them. What cannot be read ends the run later (I2). */
enum { PARTS = 256, PART_TOKENS = 4096 };

uint64_t corpus_fingerprint(const struct corpus *corpus)
{
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

weft_status corpus_open(const struct model *model, const struct corpus_options *options,
                        struct corpus *out)
{
    struct token_options tokens = options->tokens;
    int64_t window = model_tokens(model);
    weft_status status;
    *out = (struct corpus){.opened = true};
    pthread_mutex_init(&out->lock, NULL);
    if (window == 0)
        return bad_argument("language models do: gpt, llama, or a file of your own",
                            "%s does not read one sequence of tokens and predict each next one",
                            model->name);
    tokens.limit = model_vocabulary(model);
    TRY(token_source_open(options->path, &tokens, &out->source));
    TRY(order_new(options->path, token_source_length(out->source), window, options->validation,
                  options->seed, &out->order));
done:
    return status;
}

void corpus_close(struct corpus *corpus)
{
    if (!corpus->opened)
        return;
    token_source_close(corpus->source);
    pthread_mutex_destroy(&corpus->lock);
}
