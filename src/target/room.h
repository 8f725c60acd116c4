/* room.h - what the files of the table of targets share. Inside this room only. */
#ifndef WEFT_TARGET_ROOM_H
#define WEFT_TARGET_ROOM_H

#include "target/target.h"

/* Rotary positions of a shape (shape_rotary.c), and whether two operators stretch them alike. */
const char *shape_rotary_options(struct arena *keep, const struct model_shape *shape);
bool same_stretch(const struct op *a, const struct op *b);
bool has_bias(const struct op *op);

/* What a model of this shape has that no model of the framework has, in words; NULL: nothing (models.c). */
typedef const char *lacking(struct arena *keep, const struct model_shape *shape);
lacking megatron_lacks, megatron16_lacks, torchtitan_lacks, torchtitan02_lacks, fsdp_lacks,
    dtensor_lacks, aceso_lacks, galvatron2_lacks, galvatron3_lacks;
const char *torchtitan02_fails(const struct model_shape *shape);
/* What several rows lack, in the same words (models.c). */
extern const char IMAGES[], INDEXED_KEYS[], STREAMS[], UNKNOWN_OP[], WIDE_NORMS[], SHARED_GATE[],
    ADAPTERS[];
const char *runtime_lacks_op(const struct op *op);
bool has_experts(const struct model *model);
bool has_frozen_weights(const struct model *model);
bool has_sinks(const struct model *model);
/* Whether the model is one stage in torchtitan 0.2.2: Qwen 3 without latent attention, gpt-oss (pipelining_fn of
 * models/qwen3/__init__.py and models/gpt_oss/__init__.py). */
bool has_titan_stage(const struct model *model);

/* ---- shapes (shape.c, shape_layers.c, shape_hybrid.c) ------------------------------------------------------------ */

/* The first operator of this name, in a module of that name unless it is NULL; NULL: there is none. An encoder of
 * images is passed over. */
const struct op *op_named(const struct model *model, const char *module, const char *name);
int64_t size_of(const struct op *op, enum dim dim); /* 0: it has no such dim, or is NULL */
/* In words, what of attention only Megatron-LM's newest releases have; NULL: nothing. */
const char *attention_rarity(const struct model_shape *s);
/* What differs from layer to layer (shape_layers.c): the bases of rotary positions, the kinds of attention, experts. */
void read_rotary(const struct model *model, struct model_shape *s);
/* Adapters beside frozen weights that a shape can say (shape_layers.c). */
bool has_adapters(const struct model *model);
void read_adapters(const struct model *model, struct model_shape *s);
const char *shape_adapters(struct arena *keep, const struct model_shape *s);
/* An encoder of images (shape_images.c); in words, what of one its sizes do not say, NULL: nothing. */
void read_images(const struct model *model, struct model_shape *s);
const char *shape_image_options(struct arena *keep, const struct model_shape *s);
const char *image_rarity(const struct model *model);
void read_layers(struct arena *scratch, const struct model *model, struct model_shape *s);
void read_period(struct arena *scratch, const struct model *model, struct model_shape *s);
/* What layers by a pattern have beside what all decoders do. */
weft_status read_hybrid(struct arena *scratch, const struct model *model, struct model_shape *s);
const char *hybrid_options(struct arena *keep, const struct model_shape *s);

/* ---- facts of releases (releases/, optimizers.c, decisions.c) -------------------------------------------------- */

extern const struct listed_flag MEGATRON_0_16_1[], MEGATRON_0_19_2[], MEGATRON_VLM[];
extern const struct image_program MEGATRON_IMAGES;
struct decided_plan {
    const struct plan *plan;
    const struct degrees *d;
    const struct model_shape *shape; /* of zeros where the model has none */
};
struct decision {
    bool (*differs)(const struct decided_plan *of); /* NULL after the last */
    const char *text;
};
extern const char *const MEGATRON_OPTIMIZERS[UPDATE_COUNT],
    *const OLD_MEGATRON_OPTIMIZERS[UPDATE_COUNT],
        *const DEEPSPEED_OPTIMIZERS[UPDATE_COUNT],
            *const TORCH_OPTIMIZERS[UPDATE_COUNT], *const TITAN_0_2_OPTIMIZERS[UPDATE_COUNT],
                                                       *const TITAN_OPTIMIZERS[UPDATE_COUNT],
                                                           *const RUNTIME_OPTIMIZERS[UPDATE_COUNT];
extern const struct decision MEGATRON_DECIDES[], TITAN_DECIDES[], TITAN_0_2_DECIDES[],
    DEEPSPEED_DECIDES[], FSDP_DECIDES[], RUNTIME_DECIDES[], GALVATRON_DECIDES[], ACESO_DECIDES[];

/* ---- rules (rules.c) --------------------------------------------------------------------------- */

/* The numbers that rules look at and mend. */
struct numbers {
    const struct target *target;
    const struct model *model;
    struct degrees *d;
    const int64_t **part_layers;
    int64_t *block;
};
struct target_rule {
    bool (*broken)(const struct numbers *n);
    const char *(*text)(struct arena *keep, const struct numbers *n);
    void (*mend)(struct numbers *n);
};
struct target_rules {
    const struct target_rule *data;
    size_t len;
};
extern const struct target_rules DEGREE_RULES, STATE_RULES;
/* What a target can express for a model: with images, what its program for them can (images.c). */
const struct abilities *abilities_for(const struct target *target, const struct model *model);
static inline const struct abilities *can(const struct numbers *n)
{
    return abilities_for(n->target, n->model);
}
static inline const char *framework(const struct numbers *n)
{
    return n->target->framework;
}
/* "megatron, galvatron@3.0": the rows of which this is true, other releases where it is not true of the usual one;
 * NULL: none. */
const char *targets_where(struct arena *keep,
                          bool (*holds)(const struct target *target, const void *of),
                          const void *of);
enum dtype dtype_of(const struct numbers *n);
bool knows_schedule(const struct target *target, const char *schedule); /* by its name */

/* What the script for DTensor has not of a plan whose operators have splits of their own (splits.c). */
const char *dtensor_refuses(struct arena *keep, const struct plan *plan);
/* The degrees whose plan is most like this one; the differences are those of choices (recognise.c). */
weft_status recognise_plan(struct arena *keep, const struct plan *plan, struct recognised *out);
/* Changes recognised numbers to the nearest that the target runs; the rules stand first among the differences. */
void hold_against(struct arena *keep, const struct target *target, const struct plan *plan,
                  struct recognised *r);
/* Gives every operator the order of devices in which the parts of ep are the outermost (galvatron.c). */
void put_experts_outside(struct plan *plan);
/* The highest level of state sharding of any operator. */
int highest_shard(const struct plan *plan);
/* Of training in these types at this level of state sharding, the policies that a target has, as bits. */
unsigned target_policies(const struct target *target, enum dtype dtype, int shard);
/* And the one that it takes where nobody asked. */
enum policy target_policy(const struct target *target, enum dtype dtype, int shard);

#endif
