/* export_fsdp.h - the scripts for PyTorch: their numbers, and the lines after these, NULL-terminated. Inside this room only. */
#ifndef WEFT_EXCHANGE_EXPORT_FSDP_H
#define WEFT_EXCHANGE_EXPORT_FSDP_H

#include "exchange/room.h"

extern const char *const FSDP_SCRIPT[], *const DTENSOR_SCRIPT[];

/* A Python script that grows at its end, and lines `"key": value,` of a dict. */
struct script {
    struct arena *keep;
    const char *text;
};
void put_int(struct script *s, const char *key, int64_t value);
void put_bool(struct script *s, const char *key, bool value);
void put_word(struct script *s, const char *key, const char *value);
/* Its opening up to the dict's first line: what it trains, the command that predicts it, and how it is started. */
void script_begin(struct script *s, struct export_job *job);
void script_end(struct script *s, const char *const *lines);
/* The sizes of a decoder, and how the plan trains it. */
void put_model(struct script *s, const struct model_shape *shape);
void put_training(struct script *s, const struct recognised *r);

#endif
