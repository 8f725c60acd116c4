/* rotary.h - how rotary positions are stretched. */
#ifndef WEFT_MODEL_ROTARY_H
#define WEFT_MODEL_ROTARY_H

/* Llama 3.1's stretched positions: pairs that turn once or less in so many positions turn slower by the factor, those that
 * turn ROPE_FAST times or more do not, and between them a share does (transformers, _compute_llama3_parameters, with the
 * numbers of all its configs; Megatron-LM, rotary_pos_embedding.py, _apply_scaling). */
enum { ROPE_LEARNED = 8192, ROPE_FAST = 4 };

#endif
