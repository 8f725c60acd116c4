/* equivalence.h - the proof that a graph computes what its model defines, one operator after
 * another. */
#ifndef WEFT_COMPILE_EQUIVALENCE_H
#define WEFT_COMPILE_EQUIVALENCE_H

#include "base/base.h"

struct graph;

/* Executes the graph's tasks on symbolic devices, in several orders that its streams and
 * dependencies allow, and follows every tensor, gradient and weight (equivalence.c says what must
 * hold). The error names the task, its stage and micro-batch, the operator and what is missing. */
weft_status graph_verify(const struct graph *graph);

#endif
