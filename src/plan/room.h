/* room.h - what the files of this room share besides plan.h. */
#ifndef WEFT_PLAN_ROOM_H
#define WEFT_PLAN_ROOM_H

#include "plan/plan.h"

/* Forward FLOPs of one copy and one sample, by operator. */
double *forward_flops(const struct model *model, struct arena *keep);

/* The tensor at the end of a chain of views and, if it is a layer's carry, the tensor of the layer
 * before. */
int32_t plan_origin(const struct model *model, const struct instance *reader, int32_t tensor,
                    bool *carried);

/* Why OVERLAP_EXPERTS has no effect, in words; NULL: it has one. */
const char *useless_pairs(const struct plan *plan);
/* The same of OVERLAP_SHARED. */
const char *useless_shared(const struct plan *plan);

/* Sets what degrees say apart from the layout: dtype, policy, memory limit, overlap, buckets,
 * sends. */
void set_settings(struct plan *plan, const struct degrees *d);

/* Restores plan.h's I3 after a new map: an instance that does not cover its stage's devices is
 * copied. */
weft_status copy_misfits(struct plan *plan);

/* "5 and 10": the numbers nearest to `wanted` in 1 .. most for which legal(number, with) holds. */
const char *nearest_legal(struct arena *keep, int64_t wanted, int64_t most,
                          bool (*legal)(int64_t number, int64_t with), int64_t with);
bool divides(int64_t number, int64_t whole);

/* ---- towers (towers.c) ----------------------------------------------------------------------- */

/* How an encoder lies over the devices of its stage. */
struct tower_mesh {
    int64_t batch, copies, tp;
};
/* False: there is no such mesh. */
bool encoder_mesh(const struct degrees *degrees, const struct model *model, struct tower_mesh *out);
/* The devices of each of its own stages. */
int64_t encoder_devices(const struct degrees *degrees, const struct model *model);
/* Finds dp if the encoder has stages of its own; then, with dp, checks its degrees. */
weft_status encoder_complete_dp(struct degrees *degrees, const struct model *model,
                                int64_t devices);
weft_status encoder_complete(struct degrees *degrees, const struct model *model);
/* Whether an instance belongs to the encoder; where the encoder ends; how many stages hold nothing else. */
bool in_tower(const struct plan *plan, int64_t instance);
int64_t tower_end(const struct plan *plan);
int32_t tower_stages(const struct plan *plan);
/* Sets the encoder's degrees as the plan has them; dp is known. */
void tower_degrees(const struct plan *plan, struct degrees *degrees);
/* plan_map_even for so many stages of the encoder, of `devices` each, in front of the others, of `others` each. */
weft_status map_with_tower(struct plan *plan, const struct degrees *degrees, const double *weights);

/* ---- recomputation by module (modules.c) ----------------------------------------------------- */

/* Whether one of these modules, which are offloaded, has the operator (offload_modules.c). */
bool offloads_module(unsigned modules, const struct model *model, const struct op *op);
bool op_is_inside(const struct model *model, const struct op *op, const char *module);
bool op_is_core_attention(const struct model *model, const struct op *op);
bool op_is_expert_activation(const struct model *model, const struct op *op);
bool op_is_layer_norm(const struct op *op);
/* What the modules, a set of bits, say about the recomputation of an operator; nothing if none of them has it. */
void modules_choose(unsigned modules, const struct model *model, const struct op *op,
                    struct choice *choice);

#endif
