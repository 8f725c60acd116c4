/* modules.h - recomputation and offload by module, in Megatron-LM's words. */
#ifndef WEFT_PLAN_MODULES_H
#define WEFT_PLAN_MODULES_H

#include "plan/plan.h"

/* Recomputation in words: "full", or "core_attn,moe_act". */
extern const char RECOMPUTE_WORDS[]; /* for messages */
bool recompute_parse(struct arena *scratch, const char *text,
                     struct degrees *d); /* false: no such word */
const char *recompute_text(struct arena *keep, const struct degrees *d);
unsigned module_from_name(const char *name); /* 0: there is none */
/* Without modules that others of them have among theirs, which say nothing new. */
unsigned modules_without_parts(unsigned modules);
/* The modules all of whose operators a plan recomputes. */
unsigned plan_modules(const struct plan *plan);
/* Whether it recomputes these, and nothing else. */
bool plan_recomputes_modules(const struct plan *plan, unsigned modules);

/* Modules that are offloaded (offload_modules.c), in words: "core_attn,moe_act". */
extern const char OFFLOAD_WORDS[];
bool offload_parse(struct arena *scratch, const char *text, unsigned *modules);
const char *offload_text(struct arena *keep, unsigned modules);
unsigned offload_from_name(const char *name); /* 0: there is none */
/* The modules all of whose operators have OFFLOAD_KEPT. */
unsigned plan_offload_modules(const struct plan *plan);
/* All modules that the model has. */
unsigned model_offload_modules(const struct model *model);
/* Offload in a plan file: "false", "true", "kept". */
const char *choice_offload_text(const struct choice *choice);

/* Recomputes the first n layers of every part in full, and nothing else (Megatron-LM's method block); and how many
 * layers at the beginning of the first part are recomputed so. */
weft_status plan_recompute_first(struct plan *plan, int64_t n);
int64_t plan_first_recomputed(const struct plan *plan);

#endif
