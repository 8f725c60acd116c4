/* run.h - running what was planned, and measuring what it runs on. */
#ifndef WEFT_RUN_H
#define WEFT_RUN_H

#include "run/kernels.h"
#include "run/measure.h"
#include "run/transport.h"

#endif
