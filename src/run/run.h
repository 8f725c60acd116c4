/* run.h - the runtime: what operators do to numbers, where samples come from, and what outlives a run. */
#ifndef WEFT_RUN_H
#define WEFT_RUN_H

#include "run/checkpoint.h"
#include "run/kernels.h"
#include "run/log.h"
#include "run/order.h"
#include "run/rate.h"
#include "run/tokens.h"
#include "run/vocabulary.h"

#endif
