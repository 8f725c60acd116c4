/* corpus.h - a text as the batches of a model: what run/train/train.c feeds its ranks with. Part of run.h.
 *
 *   sample i of the run    window order_training(samples before the run + i)                      (1)
 *   validation sample i    window order_validation(i % windows kept for validation)               (2)
 *
 *   I1  The model reads one sequence of tokens and has one loss over as many labels.
 *   I2  A token that cannot be read becomes 0 and ends the run after the step: the first such error
 *       is kept. */
#ifndef WEFT_RUN_DATA_CORPUS_H
#define WEFT_RUN_DATA_CORPUS_H

#include <pthread.h>

#include "model/model.h"
#include "run/data/order.h"
#include "run/data/source.h"
#include "run/data/tokens.h"

struct corpus {
    bool opened;
    struct token_source *source;
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
int64_t model_tokens(const struct model *model); /* of a sample, 0: not as in I1 */

#endif
