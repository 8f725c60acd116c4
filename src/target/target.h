/* target.h - what each framework runs, release by release: one table, which searches, checks, exports
 * and imports ask. Nothing about a framework's abilities is decided anywhere else.
 *
 * A framework takes a handful of numbers (degrees, layers per part, recomputed layers), or one strategy
 * per layer, not a choice per operator. Whether it runs a plan is therefore decided in two steps: such
 * numbers are *recognised* in the plan (recognise.c, galvatron.c), and each is held against the row of
 * the target (rules.c).
 *
 *   I1  A plan that the target runs is exactly the plan that the recognised numbers make.
 *   I2  Each rule is told in one place: whether numbers break it, in which words, and which number is
 *       the nearest that does not.
 */
#ifndef WEFT_TARGET_H
#define WEFT_TARGET_H

#include "plan/plan.h"

struct texts {
    const char **data;
    size_t len, cap;
};
void add_text(struct arena *keep, struct texts *texts, const char *text);

/* ---- shapes: what a family's options come to, read off the operators ------------------------- */

enum shape_family { SHAPE_GPT, SHAPE_LLAMA, SHAPE_MOE, SHAPE_BERT, SHAPE_COUNT };

/* 0 is "none" or the family's default everywhere. */
struct model_shape {
    enum shape_family family;
    int64_t layers, hidden, heads, kv_heads, head_dim, ffn, seq, vocab;
    int64_t positions; /* rows of a table of learned ones */
    bool tied, bias, qkv_bias, qk_norm, apart, dropout, rotary, parallel, relu, pooler;
    const char *attention; /* flash, fused, eager, flash-v1, flash-v2 */
    const char *loss;      /* plain, fused, compiled, eager */
    int64_t experts, top_k, expert_ffn, shared_ffn, first_dense, moe_every;
    int64_t q_lora, kv_lora, nope_dim, rope_dim, value_dim;
    /* The keys that attention sees, and every which layer sees all of them; 0: all. */
    int64_t window, full_every;
    bool sinks, proj_bias, expert_bias, clamped, tokens_once;
    double rope_base;       /* of rotary positions */
    double local_rope_base; /* of layers with the window, where it is another; 0: it is not */
    struct routing routing;
};
/* An error where the model is of no such family, or is not what its sizes make. */
weft_status shape_of_model(const struct model *model, struct model_shape *out);
/* The preset and its options, as model_open takes them; dtype left to the preset. */
const char *shape_preset(const struct model_shape *shape);
const char *shape_options(struct arena *keep, const struct model_shape *shape);
/* What of those options costs nothing: the base of rotary positions, how experts are chosen and balanced. */
const char *shape_free_options(struct arena *keep, const struct model_shape *shape);
/* What of a decoder only Megatron-LM has arguments for, in words; NULL: nothing. */
const char *shape_rarity(const struct model_shape *shape);
/* Where two models first differ in what they compute or keep, in words; NULL: nowhere. */
const char *model_difference(struct arena *keep, const struct model *a, const struct model *b);
/* Of `layers` layers, those with experts. */
bool *shape_mixtures(struct arena *keep, const struct model_shape *shape);

/* ---- layers of a plan ------------------------------------------------------------------------ */

/* Per instance: the number of its layer, counted in execution order; -1: in none. */
int64_t *layers_of_instances(struct arena *keep, const struct plan *plan, int64_t *layers);
/* Per part: how many layers end in it. */
int64_t *layers_of_parts(struct arena *keep, const struct plan *plan);
/* Cuts after so many layers of each part. False: a part would be empty. */
bool cuts_after_layers(struct arena *keep, const struct plan *plan, int64_t parts,
                       const int64_t *part_layers, int64_t **cut);

/* ---- the table ------------------------------------------------------------------------------- */

/* Bits of abilities.shards. */
enum { SHARD_0 = 1, SHARD_1 = 2, SHARD_2 = 4, SHARD_3 = 8 };

/* What a framework's numbers can say. */
struct abilities {
    bool tp, pp, cp, ep;
    bool tp_in_pipeline; /* tp and pp together */
    bool pieces;         /* several model pieces per stage */
    bool folds;          /* also where there is one stage only */
    bool uneven;         /* parts of unlike numbers of layers */
    bool sequence;       /* sequence parallelism along tp can be switched on */
    bool plain;          /* and off */
    bool plain_experts;  /* and off with experts, too */
    bool half_experts;   /* ep in fp16 */
    bool selective;      /* recomputation of attention's core alone */
    bool block;          /* of the first layers of each part */
    bool products;       /* of all but attention and every second product (BLOCK_PRODUCTS) */
    bool offload;        /* of checkpoints to the host */
    /* Sequences are a multiple of tp * cp_pieces * cp where tp_pieces says so, else of cp_pieces * cp with
     * cp > 1; 0: of anything. */
    int64_t cp_pieces;
    bool tp_pieces;
    bool lone_replicas;           /* level 0 only where dp is the only degree */
    unsigned shards;              /* levels of state sharding, as SHARD_ bits */
    unsigned pipeline_shards;     /* those that it has in a pipeline */
    unsigned dtypes;              /* 1 << enum dtype */
    const char *const *schedules; /* NULL-terminated, the usual one first */
};
struct target {
    const char
        *framework; /* "megatron": a name on the command line stands for the first row with it */
    const char *release; /* "0.19", after an @ */
    const char *title;   /* "Megatron-Core 0.19" */
    struct abilities can;
    bool layerwise; /* one strategy per layer (galvatron.c), not degrees */
    /* What a model of this shape has that no model of the framework has, in words; NULL: nothing. A row
     * without it takes any model. */
    const char *(*lacks)(const struct model_shape *shape);
    bool other_families; /* it also has models of which there is no shape */
};
size_t target_count(void);
const struct target *target_at(size_t index);
/* "megatron" or "megatron@0.16". NULL where there is none: says so, with the nearest name. */
const struct target *target_find(const char *name);
/* Whether this is the row that the framework's name alone stands for. */
bool target_is_usual(const struct target *target);

/* That the framework has such a model; else an error that names those which do. */
weft_status target_has_model(const struct target *target, const struct model *model);

/* ---- recognising degrees --------------------------------------------------------------------- */

struct recognised {
    struct degrees degrees;     /* complete: none is 0 */
    const int64_t *part_layers; /* per part; NULL: as degrees alone cut */
    int64_t block;     /* of every part the first so many layers are recomputed; 0: by degrees */
    struct plan *plan; /* what these make; the caller frees it */
    struct texts differences;
};
/* The degrees whose plan is most like this one, and what of them the target does not run. Where something
 * differs, `nearest` makes the plan of the nearest numbers that it does run; else the plan is the one that
 * the recognised degrees make, whatever the target runs. */
weft_status degrees_of_plan(struct arena *keep, const struct plan *plan,
                            const struct target *target, bool nearest, struct recognised *out);
/* In place of a number of layers: of what is recomputed, attention and every second product are kept. */
enum { BLOCK_PRODUCTS = -1 };
/* torchtitan's "selective" recomputation: of what a plan recomputes, attention and every second
 * matrix product are kept. */
weft_status keep_products(struct plan *plan);
/* The plan that degrees, layers per part and recomputed layers make. */
weft_status plan_of_degrees(const struct model *model, const struct cluster *cluster,
                            const struct degrees *degrees, const int64_t *part_layers,
                            int64_t block, struct plan **out);
/* Whether two plans of one walk choose the same, cut the same and order the same; else what differs
 * first of each kind, in words. */
void plan_differences(struct arena *keep, const struct plan *plan, const struct plan *other,
                      struct texts *out);
/* Names of model and cluster, and what no degree says: type, policy, overlap, limits. */
void copy_settings(struct plan *to, const struct plan *from);

/* ---- asking the table ------------------------------------------------------------------------ */

/* Whether the target runs complete degrees of a model, by themselves: what a search asks of each point. */
bool target_runs_degrees(const struct target *target, const struct model *model,
                         const struct degrees *degrees);
/* Changes recognised numbers to the nearest that the target runs (I2); what it does not run is added to
 * the differences. */
void obey_rules(struct arena *keep, const struct target *target, const struct plan *plan,
                struct recognised *r);
/* What keeps the target from running this plan, in words; none: it runs it. `nearest`, if not NULL, is then
 * the nearest plan that it runs, the caller's to free; NULL where there is none. */
weft_status target_differences(struct arena *keep, const struct target *target,
                               const struct plan *plan, struct texts *out, struct plan **nearest);

/* ---- Galvatron: a strategy per layer --------------------------------------------------------- */

struct galvatron {
    int64_t pp, global_batch, chunks, layers;
    int64_t *tp;        /* per layer */
    bool *consecutive;  /* its tp devices are neighbours */
    bool *sharded;      /* SDP: ZeRO-3 */
    bool *checkpointed; /* recomputed */
    int64_t *division;  /* layers per stage */
    int default_shard;  /* of layers that are not sharded: 0 ddp, 2 zero2, 3 zero3 */
    int64_t vocab_tp;
    bool vocab_sharded;
    const char *schedule; /* of GALVATRON_PIPELINES; NULL: 1f1b */
    bool sequence;        /* Megatron's sequence parallelism, a flag of the launch script */
};
/* The plan that these strategies make. */
weft_status galvatron_plan(const struct model *model, const struct cluster *cluster,
                           const struct galvatron *config, struct plan **out);
/* The strategies whose plan is most like this one, and that plan, the caller's to free; `nearest`: of those
 * that make a plan. */
weft_status galvatron_of_plan(struct arena *keep, const struct plan *plan, bool nearest,
                              struct galvatron *out, struct plan **written);
/* Its words for schedules; the first one for those that it has none for. */
enum { GALVATRON_PIPELINE_COUNT = 2 };
extern const struct galvatron_pipeline {
    const char *theirs, *ours;
} GALVATRON_PIPELINES[GALVATRON_PIPELINE_COUNT];
/* The number of its word for a schedule. */
int galvatron_pipeline_of(const char *schedule);

#endif
