/* export_fsdp.h - the scripts for PyTorch: the plan's numbers, and the code after these (scripts/). Inside this room only. */
#ifndef WEFT_EXCHANGE_EXPORT_FSDP_H
#define WEFT_EXCHANGE_EXPORT_FSDP_H

#include "exchange/room.h"

/* scripts/fsdp.py, dtensor_loop.py, dtensor.py, dtensor_splits.py and main.py */
extern const char FSDP_SCRIPT[], DTENSOR_LOOP[], DTENSOR_SCRIPT[], SPLITS_SCRIPT[], SCRIPT_MAIN[];

/* A Python script that grows at its end, and lines `"key": value,` of a dict. */
struct script {
    struct arena *keep;
    const char *text;
};
void put_int(struct script *s, const char *key, int64_t value);
void put_bool(struct script *s, const char *key, bool value);
void put_word(struct script *s, const char *key, const char *value);
/* A value in Python's words. */
void put_python(struct script *s, const char *key, const char *value);
/* Its opening up to the dict's first line: what it trains, the command that predicts it, and how it is started. */
void script_begin(struct script *s, struct export_job *job);
/* The code of one kind of script, and what all share. */
void script_end(struct script *s, const char *code);
/* The sizes of a decoder, and how the plan trains it. */
void put_model(struct script *s, const struct model_shape *shape);
void put_training(struct script *s, const struct export_job *job);
void put_optimizer(struct script *s, const struct export_job *job);
/* "fp32", "fp16" or "bf16" */
const char *torch_type(enum dtype dtype);

#endif
