/* data.h - what a model is trained on: from files of text or tokens to the samples of a run.
 *
 *   vocabulary  GPT-2's byte-pair encoding
 *   tokens      long sequences of tokens in a file
 *   order       which tokens each sample of a run is
 *   records     samples of any model in one file
 *   corpus      either as the batches of a model
 *   source      any batches, by the sample's number
 */
#ifndef WEFT_RUN_DATA_H
#define WEFT_RUN_DATA_H

#include "run/data/corpus.h"
#include "run/data/order.h"
#include "run/data/records.h"
#include "run/data/source.h"
#include "run/data/tokens.h"
#include "run/data/vocabulary.h"

#endif
