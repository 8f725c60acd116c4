/* adapters.h - which products of a decoder have adapters (LoRA); all other weights are then frozen. */
#ifndef WEFT_MODEL_ADAPTERS_H
#define WEFT_MODEL_ADAPTERS_H

enum lora_modules { LORA_ATTENTION, LORA_QKV, LORA_ALL };
extern const char *const LORA_WORDS[]; /* attention, qkv, all; NULL after them */

#endif
