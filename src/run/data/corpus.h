/* corpus.h - a file as the batches of a model: what run/train/train.c feeds its ranks with. Part of run.h.
 *
 *   sample i of the run    window order_training(samples before the run + i)                      (1)
 *   validation sample i    window order_validation(i % windows kept for validation)               (2)
 *
 * What a window becomes is said by the model, and for all of them by a file of records (records.h):
 *
 *   next        one sequence of tokens, and a label for each: the next token
 *   masked      the same where no token sees itself by a causal mask: 15 % of the tokens are hidden, and are the labels that
 *               count (BERT: of these 80 % become the mask's token, 10 % another, 10 % stay). With a second loss over two
 *               classes, the second half of every other sample, by chance, is that of another window: label 1
 *   continued   two sequences, and a label for each token of the second: the window is both, one after the other; the
 *               second is read moved by one
 *   records     a record is a sample
 *
 *   I1  A sample depends on its number, the file and the seed alone.
 *   I2  A token that cannot be read becomes 0 and ends the run after the step: the first such error
 *       is kept. */
#ifndef WEFT_RUN_DATA_CORPUS_H
#define WEFT_RUN_DATA_CORPUS_H

#include <pthread.h>

#include "model/model.h"
#include "run/data/order.h"
#include "run/data/records.h"
#include "run/data/source.h"
#include "run/data/tokens.h"

enum corpus_kind { CORPUS_NEXT, CORPUS_MASKED, CORPUS_CONTINUED, CORPUS_RECORDS };
struct corpus {
    bool opened;
    enum corpus_kind kind;
    struct sample_fields fields;
    struct token_source *source; /* NULL: records */
    struct records *records;
    int64_t vocabulary, mask; /* tokens are below; what hides one */
    struct sample_order order;
    int64_t before; /* (1): samples minus those that the run counts */
    pthread_mutex_t lock;
    bool failed;
    char why[512], hint[256];
};
struct corpus_options {
    const char *path;
    struct token_options tokens; /* `limit` is the model's */
    double validation;           /* fraction kept for it */
    int64_t mask;                /* the token that hides others; below 0: the last of the model's */
    uint64_t seed;
};
weft_status corpus_open(const struct model *model, const struct corpus_options *options,
                        struct corpus *out);
void corpus_close(struct corpus *corpus);
struct batch_source corpus_training(struct corpus *corpus);
struct batch_source corpus_validation(struct corpus *corpus);
weft_status corpus_status(struct corpus *corpus); /* I2 */
/* Of its tokens: of all of a small file, of parts that are spread evenly over a large one. */
uint64_t corpus_fingerprint(const struct corpus *corpus);
int64_t corpus_length(const struct corpus *corpus); /* tokens or records */

#endif
