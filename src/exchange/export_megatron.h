/* export_megatron.h - lines of Megatron-LM's arguments. Inside this room only. */
#ifndef WEFT_EXCHANGE_EXPORT_MEGATRON_H
#define WEFT_EXCHANGE_EXPORT_MEGATRON_H

#include "exchange/room.h"

struct lines {
    struct arena *keep;
    struct texts lines;
};

void add_flag(struct lines *a, const char *name);
void add_word(struct lines *a, const char *name, const char *value);
void add_int(struct lines *a, const char *name, int64_t value);
void add_above_one(struct lines *a, const char *name, int64_t value);

/* The model's sizes, and what of it no prediction depends on. */
void add_model(struct lines *a, const struct model_shape *s, int64_t tp);
/* What a run needs to start, and to say how long its steps take. Words after these take their place. */
void add_training(struct lines *a);

/* Whether exchanges of tokens overlap with computation; Megatron-LM refuses that with full recomputation. */
bool hides_tokens(const struct plan *plan, const struct degrees *d, const struct model_shape *s);
/* Where state is, and how gradients and weights are exchanged. */
void add_sharding(struct lines *a, const struct plan *plan, const struct degrees *d,
                  const struct model_shape *s);
void add_optimizer(struct lines *a, const struct target *target, enum update_rule rule, int shard);
/* What Megatron-FSDP does to weights before a run's first step. */
void note_fsdp(struct export_job *job, const struct model_shape *s);

/* Megatron's word for a recipe of fp8 on these devices. */
const char *megatron_recipe(const struct cluster *cluster, int recipe);
/* Megatron's words for the kinds of context parallelism. */
extern const char *const MEGATRON_CP_KINDS[CP_KIND_COUNT];

#endif
