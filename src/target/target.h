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

/* ---- shapes: the sizes of a family's model, read from its operators -------------------------- */

enum shape_family { SHAPE_GPT, SHAPE_LLAMA, SHAPE_MOE, SHAPE_BERT, SHAPE_HYBRID, SHAPE_COUNT };
enum { MOST_LETTERS = 512, MOST_DEPTH_LETTERS = 32 };

/* The encoder of images beside a decoder, and the projector between them; without layers there is none. */
struct tower_shape {
    int64_t layers, hidden, heads, kv_heads, ffn;
    int64_t image, patch, images, merge; /* as the options of these names (model/vision.h) */
    int64_t projector_layers, projector_ffn;
    const char *projector_norm; /* none, rms, layer */
    bool class_token, positions, pre_norm, post_norm, rms, gated, bias, patch_bias;
    bool projector_gated, projector_bias;
    bool frozen, projector_frozen, text_frozen;
};

/* In every field 0 means "none", or the default of the family. */
struct model_shape {
    enum shape_family family;
    int64_t layers, hidden, heads, kv_heads, head_dim, ffn, seq, vocab;
    int64_t positions; /* rows of the table of learned positions */
    bool tied, bias, qkv_bias, qk_norm, apart, dropout, rotary, parallel, relu, pooler;
    const char *attention; /* flash, fused, eager, flash-v1, flash-v2 */
    const char *loss;      /* plain, fused, compiled, eager */
    int64_t experts, top_k, expert_ffn, shared_ffn, first_dense, moe_every;
    int64_t q_lora, kv_lora, nope_dim, rope_dim, value_dim;
    int64_t mtp; /* layers after the others, each of which predicts one token more */
    /* The keys that attention sees, and every which layer sees all of them; 0: all. */
    int64_t window, full_every;
    bool chunked;   /* the window is a chunk: a query sees the keys of its own from the first on */
    bool unrotated; /* layers that see all keys, every full_every-th, have no positions */
    /* Of latent attention: the keys that each query sees, chosen by so many heads so wide. */
    int64_t index_top_k, index_heads, index_dim;
    /* The gated delta rule in place of attention, in all but every full_every-th layer. */
    int64_t delta_heads, delta_key_heads, delta_dim, delta_key_dim, conv;
    bool output_gate; /* what attention computes is multiplied by a sigmoid of the layer's input */
    bool sinks, proj_bias, expert_bias, clamped;
    /* The shared expert's output is multiplied by the sigmoid of one number per token. */
    bool shared_gate;
    /* Adapters of this rank, in which modules, beside frozen weights; 0: none. */
    int64_t lora;
    enum lora_modules lora_modules;
    bool gated;       /* of a GPT and of layers by a pattern: MLPs have SwiGLU */
    bool bare_latent; /* of latent attention: without norms */
    enum token_copies copies;
    bool geglu, end_norm;   /* gates of GELU; norms also after attention and after the MLP */
    bool no_norm;           /* none before attention and MLP */
    bool wide_qk_norm;      /* all heads' queries, or keys, have one norm as one vector */
    const char *ungated;    /* of decoders whose MLPs have no gate: gelu, relu, relu2 */
    double rotary_share;    /* of each head's features that are rotated; 0: all of them */
    double norm_epsilon;    /* of all norms (struct op) */
    double rope_base;       /* of rotary positions */
    double local_rope_base; /* of layers with the window, where it is another; 0: it is not */
    double rope_scaling;    /* struct op has it, and the next */
    struct rope_stretch stretch;
    struct routing routing;
    double capacity; /* of an expert, in even shares of the tokens; 0: no token is dropped */
    /* What the data is like: positions of one of the documents that share a sequence; the exponent of the power law by which
     * experts are chosen (struct op has both). */
    int64_t document;
    double skew;
    /* Layers by a pattern: a letter for each (family_hybrid.c), those of one depth of mtp; the state space of M; the width
     * that experts work in, if it is not the hidden size. */
    char pattern[MOST_LETTERS], mtp_pattern[MOST_DEPTH_LETTERS];
    int64_t scan_heads, scan_depth, scan_state, scan_groups, latent;
    bool layer_norm; /* in place of RMSNorm */
    struct tower_shape images;
};
/* An error where the model is of no such family, or is not what its sizes make. */
weft_status shape_of_model(const struct model *model, struct model_shape *out);
/* The name of the preset and its options, as model_open takes them; the dtype is left to the preset. */
const char *shape_preset(const struct model_shape *shape);
const char *shape_options(struct arena *keep, const struct model_shape *shape);
/* What of those options costs nothing: what norms add, the base of rotary positions, how experts are chosen and balanced. */
const char *shape_free_options(struct arena *keep, const struct model_shape *shape);
bool shape_has_yarn(const struct model_shape *shape);
/* Megatron-LM stretches positions as Llama 3.1's by this alone: gpt_builders.py of 0.16.1 and gpt_config_from_args of 0.19.2
 * (megatron/training/argument_utils.py) pass use_rope_scaling on, and no factor. */
enum { MEGATRON_ROPE_SCALING = 8 };
bool shape_has_linear(const struct model_shape *shape);
/* In words, a feature of the decoder for which only Megatron-LM has arguments; NULL if there is none. */
const char *shape_rarity(const struct model_shape *shape);
/* In words, the first difference in what two models compute or keep; NULL if there is none. */
const char *model_difference(struct arena *keep, const struct model *a, const struct model *b);
/* For each layer, whether it has experts. */
bool *shape_mixtures(struct arena *keep, const struct model_shape *shape);

/* ---- layers of a plan ------------------------------------------------------------------------ */

/* Per instance: the number of its layer in execution order, or -1 if it is in none. */
int64_t *layers_of_instances(struct arena *keep, const struct plan *plan, int64_t *layers);
/* Per part: how many layers end in it; the same without those after the loss. */
int64_t *layers_of_parts(struct arena *keep, const struct plan *plan);
int64_t *layers_before_loss(struct arena *keep, const struct plan *plan);
int64_t layers_after_loss(const struct plan *plan); /* which predict more tokens */

/* ---- the table ------------------------------------------------------------------------------- */

/* Bits of abilities.experts, and of abilities.shards. */
enum { EXPERTS_LIKE_TP = 1, EXPERTS_WHOLE = 2, EXPERTS_OTHERWISE = 4, EXPERTS_ANYHOW = 7 };
enum { SHARD_0 = 1, SHARD_1 = 2, SHARD_2 = 4, SHARD_3 = 8 };

/* Beside layers with the gated delta rule, cp is none, or takes heads: tp * cp divides those of keys. */
enum delta_cp { DELTA_CP_ANYHOW, DELTA_CP_NONE, DELTA_CP_HEADS };

/* What a target can express with its numbers. */
struct abilities {
    bool tp, pp, cp, ep;
    bool cp_heads; /* devices of cp that take heads: a2a, a2a+ring */
    /* kinds of cp where attention has windows, and where it has sinks, as bits of enum cp_kind; 0: all of the above */
    unsigned window_cp, sink_cp;
    unsigned index_cp; /* and where an index chooses the keys */
    bool no_sink_cp;   /* none beside sinks */
    enum delta_cp delta_cp;
    bool whole_heads;        /* devices of cp that take heads have key/value heads of their own */
    unsigned experts;        /* tensor degrees of experts beside tp, as EXPERTS_ bits */
    unsigned biased_experts; /* those of experts with biases; 0: the same */
    bool tp_in_pipeline;     /* tp and pp together */
    bool cp_or_pp;           /* not cp and pp together */
    bool pieces;             /* several model pieces per stage */
    bool folds;              /* also where there is one stage only */
    bool scattered;          /* of strategies by layer: tp devices that are no neighbours */
    bool experts_outside;    /* the parts of ep are the outermost of experts' devices */
    bool adapters;           /* LoRA: adapters beside frozen weights */
    bool defers_head;        /* gradients of the head's weights after all passes */
    bool stage_runs;         /* devices of stages among each other's: tp-cp-ep-pp-dp */
    bool uneven;             /* parts of unlike numbers of layers */
    bool sequence;           /* sequence parallelism along tp can be switched on */
    bool plain;              /* and off */
    bool plain_experts;      /* and off with experts, too */
    bool half_experts;       /* ep in fp16 */
    bool selective;    /* recomputation of attention's core alone, and of modules by their names */
    bool block;        /* of the first layers of each part */
    bool products;     /* of all but attention and every second product (BLOCK_PRODUCTS) */
    bool offload;      /* of checkpoints to the host */
    bool host_state;   /* optimizer state and step on the host */
    bool offload_kept; /* of what is kept without recomputation, too */
    bool offload_modules; /* the same of modules by their names */
    bool full_pipeline;   /* at least as many micro-batches as stages */
    /* of micro-batches that a piece takes at once: any, else equal ones that are as small as can be */
    bool groups;
    /* Sequences are a multiple of tp * cp_pieces * cp where tp_pieces says so, else of cp_pieces * cp with
     * cp > 1; 0: of anything. */
    int64_t cp_pieces;
    bool tp_pieces;
    bool replicates;              /* state shared inside groups of replicas, copied across (HSDP) */
    bool lone_replicas;           /* level 0 only where dp is the only degree */
    unsigned shards;              /* levels of state sharding, as SHARD_ bits */
    unsigned pipeline_shards;     /* those that it has in a pipeline */
    unsigned matrix_shards;       /* levels at which it has Muon; 0: the same as of others */
    unsigned dtypes;              /* 1 << enum dtype */
    const char *const *schedules; /* NULL-terminated, the usual one first; NULL: any */
    bool orders;                  /* an order of its own, from a file */
    bool joins;        /* in it, stages that take several micro-batches at once (schedule.h, I7) */
    unsigned policies; /* 1 << enum policy, of training in 16 bits or fewer; 0: any */
    unsigned whole_policies;  /* those at level 0; 0: the same */
    enum policy usual_policy; /* what it does unless told otherwise; 0: as Weft's plans */
    /* Bits of enum overlap: what it always does, what it does where it is told to, of these only with several pieces
     * per stage, what it does at level 3 and at no other, what it does together or not at all, and what it never does
     * with several stages. */
    unsigned overlaps, may_overlap, pieces_overlap, gathered_overlap, joint_overlap, stages_wait;
    bool hides_recomputed;        /* OVERLAP_EXPERTS goes with layers that are wholly recomputed */
    bool whole_gradients;         /* gradients of a part are always synchronised at once */
    bool whole_unless_overlapped; /* they are where OVERLAP_GRADIENTS is not asked for */
};
enum flag_type {
    FLAG_SWITCH, /* takes no value */
    FLAG_INT,
    FLAG_REAL,
    FLAG_WORD,
    FLAG_WORDS, /* takes one word or more */
    FLAG_UNKNOWN
};
/* A row of the list of a release; the last one has no name. */
struct listed_flag {
    const char *name, *type; /* without the dashes; "switch", "int", "words", ... */
};
/* What a release is told with, where releases differ; NULL: it is not told so. */
struct release_words {
    /* within a checkout: they train decoders, encoders, layers by a pattern */
    const char *program, *encoder_program, *pattern_program;
    const char *vocabulary_shards; /* Galvatron's key for ZeRO-3 of embedding and head */
    bool python;                   /* a function in Python configures it, no file */
};
/* A program of a framework for models that Weft writes no arguments for. */
struct own_program {
    const char *family;  /* of the model; "images": any with an encoder of images */
    const char *program; /* within a checkout, or where else it is found */
};
/* A program for models with an encoder of images, which has the degrees of the decoder (images.c). */
struct image_program {
    const char *program; /* within a checkout */
    struct abilities can;
    const char *(*lacks)(struct arena *keep, const struct model_shape *shape); /* as a target's */
};
struct target {
    /* "megatron" on the command line stands for the first row of that framework, "megatron@0.19" for this. */
    const char *framework, *release;
    const char *title; /* "Megatron-Core 0.19" */
    struct abilities can;
    bool layerwise; /* one strategy per layer (galvatron.c), not degrees */
    bool any; /* a choice per operator: whatever a plan says, within the rules of its settings */
    /* Beside degrees, splits by operator: what keeps it from running a plan of those, in words (NULL: nothing). A row without
     * it has degrees alone. */
    const char *(*refuses_splits)(struct arena *keep, const struct plan *plan);
    /* What a model of this shape has that no model of the framework has, in words; NULL: nothing. A row
     * without it takes any model. */
    const char *(*lacks)(struct arena *keep, const struct model_shape *shape);
    /* What of the shape it has in a model that fails in every run, and why; NULL: there is no such. */
    const char *(*fails)(const struct model_shape *shape);
    const char *const
        *other_families; /* it also has, though there is no shape of them; NULL: none */
    const struct own_program *programs; /* the last has no family; NULL: none */
    const struct image_program *images; /* NULL: it has no such models */
    const char *(*lacks_op)(
        const struct op *op); /* the same, operator by operator; NULL: it has all */
    /* Whether a model has no stages there, although others do; NULL: none. */
    bool (*one_stage)(const struct model *model);
    /* the profile that predictions for it are made with (cost/software.h); NULL: none in particular */
    const char *software;
    /* the arguments that it takes (flags.c); NULL: they are not listed */
    const struct listed_flag *flags;
    const struct listed_flag *image_flags; /* and those of the program for images */
    struct release_words words;
    /* its words for what updates weights, by enum update_rule; NULL in place of a word: it has no such optimizer */
    const char *const *optimizers;
    const struct decision *decides; /* what it does otherwise than a plan may say (decisions.c) */
};
/* The type of an argument by its name without the dashes: of one release, of any. */
enum flag_type target_flag(const struct target *target, const char *name);
enum flag_type any_flag(const char *name);
const char *any_flag_near(const char *name);
/* Whether a launcher (torchrun, srun) takes this argument instead of the framework. */
bool launcher_flag(const char *name);
size_t target_count(void);
const struct target *target_at(size_t index);
/* "megatron" or "megatron@0.16". NULL where there is none: says so, with the nearest name. */
const struct target *target_find(const char *name);
/* Whether this is the row that the framework's name alone stands for. */
bool target_is_usual(const struct target *target);

/* The first row whose predictions are made with this profile; NULL: none. */
const struct target *target_with(const struct software *software);

/* The first optimizer that the target has by this word, in any case; false, and `out` as it was: there is none. */
bool target_optimizer(const struct target *target, const char *word, enum update_rule *out);
/* That the framework has such a model; else an error that names those which do. */
weft_status target_has_model(const struct target *target, const struct model *model);

/* ---- recognising degrees --------------------------------------------------------------------- */

struct recognised {
    struct degrees degrees;     /* complete: none is 0 */
    const int64_t *part_layers; /* per part; NULL if the degrees alone decide */
    int64_t block;              /* first layers of each part that are recomputed; 0: by degrees */
    bool by_operator;  /* operators have splits of their own; degrees say nothing (splits.c) */
    struct plan *plan; /* the plan that these make; the caller frees it */
    struct texts differences;
};
/* The degrees whose plan is most like this one, and what of them the target does not run. Where something
 * differs, `nearest` makes the plan of the nearest numbers that it does run; else the plan is the one that
 * the recognised degrees make, whatever the target runs. */
weft_status degrees_of_plan(struct arena *keep, const struct plan *plan,
                            const struct target *target, bool nearest, struct recognised *out);
/* A value for `block`: attention and every second product are kept, the rest is recomputed. */
enum { BLOCK_PRODUCTS = -1 };
/* torchtitan's "selective" recomputation: attention and every second matrix product of what the plan
 * recomputes are kept instead. */
weft_status keep_products(struct plan *plan);
/* Makes the plan from degrees, layers per part and recomputed layers. */
weft_status plan_of_degrees(const struct model *model, const struct cluster *cluster,
                            const struct degrees *degrees, const int64_t *part_layers,
                            int64_t block, struct plan **out);
/* Compares the choices, the cuts and the order of two plans of one model, and adds the first difference
 * of each kind, in words. */
void plan_differences(struct arena *keep, const struct plan *plan, const struct plan *other,
                      struct texts *out);
/* Copies the names of model and cluster, and the settings that are no degrees: dtype, policy, overlap, limits. */
void copy_settings(struct plan *to, const struct plan *from);

/* ---- asking the table ------------------------------------------------------------------------ */

/* Whether the target runs degrees of a model, by themselves: what a search asks of each point. */
bool target_runs_degrees(const struct target *target, const struct model *model,
                         const struct degrees *degrees);
/* The rule that pinned degrees break whatever the others are, in words; NULL: none. */
const char *target_refuses_pins(struct arena *keep, const struct target *target,
                                const struct model *model, const struct degrees *pins);
/* The same pins, of which those that break a rule are the nearest that the target runs. */
struct degrees target_nearest_pins(const struct target *target, const struct model *model,
                                   const struct degrees *pins);
/* Gives a plan the settings that the target has for it, except for those that were asked for: the policy of
 * its state, what overlaps, what is synchronised at once and the order of experts' devices (habits.c). */
void target_settle(const struct target *target, const struct degrees *asked, struct plan *plan);
/* Gives a plan that was made for another target, or for none, the software and the policy that this one has, where nobody
 * asked for others. */
weft_status target_adopt(const struct target *target, struct plan *plan);
/* Leaves of what overlaps, and of buckets, what the target does, whoever asked for more: for predicting what it runs. */
void target_run_as(const struct target *target, struct plan *plan);
/* The same for degrees of which the others are open: as much overlap as the target has for any of them. Unless the
 * software is given, it is the target's. */
weft_status target_settle_pins(const struct target *target, const struct model *model,
                               const struct cluster *cluster, struct degrees *pins);
/* The software of a target that has one, for new plans of this type: devices that scale blocks of 32 values in hardware
 * (MXFP8) do so, also where the framework's default is one scale of earlier steps for a whole tensor. */
weft_status target_software(const struct target *target, const struct cluster *cluster,
                            enum dtype dtype, struct software *out);
/* What the target decides otherwise than a plan that it runs, in words; the degrees are those of a target that is told
 * by degrees. */
void target_decisions(struct arena *keep, const struct target *target, const struct plan *plan,
                      const struct degrees *degrees, struct texts *out);
/* What each of the usual rows says to a plan. */
struct target_answer {
    const struct target *target;
    const char *breaks; /* what keeps it from running the plan; NULL: nothing */
};
struct target_answers {
    struct target_answer *data;
    size_t len, cap;
};
weft_status targets_ask(struct arena *keep, const struct plan *plan, struct target_answers *out);
/* Which of them run this plan: "megatron, weft"; NULL: none. */
const char *targets_that_run(struct arena *keep, const struct plan *plan);
/* Changes recognised numbers to the nearest that the target runs (I2); what it does not run is added to
 * the differences. */
void obey_rules(struct arena *keep, const struct target *target, const struct plan *plan,
                struct recognised *r);
/* What the target runs that is most like a plan, whatever it is told by: degrees, strategies or choices. Of other
 * targets than those of degrees only the plan and the differences are filled in. */
weft_status target_recognise(struct arena *keep, const struct target *target,
                             const struct plan *plan, bool nearest, struct recognised *out);
/* What keeps the target from running this plan, in words; none: it runs it. `nearest`, if not NULL, is then
 * the nearest plan that it runs, the caller's to free; NULL where there is none. */
weft_status target_differences(struct arena *keep, const struct target *target,
                               const struct plan *plan, struct texts *out, struct plan **nearest);

/* ---- torchtitan: the models that it ships (flavors.c) ------------------------------------------ */

struct titan_flavor {
    const char *model, *flavor;   /* "llama3", "8B" */
    const char *preset, *options; /* of Weft; the options make other sizes of it */
    double yarn;                  /* the factor of its yarn, from YARN_LEARNED positions; 0: none */
    /* the yarn is not rounded, and 0.2.2 has it in all sequences: elsewhere it has it in those longer than learned */
    bool unrounded;
};
/* The flavor of these sizes; NULL: there is none. */
const struct titan_flavor *titan_flavor_of(const struct model_shape *shape);
const struct titan_flavor *titan_flavor_named(const char *model, const char *flavor);
/* The model whose code has what the shape has: llama3, qwen3, deepseek_v3, gpt_oss or 0.2.2's llama4. */
const char *titan_model_of(const struct model_shape *shape);
/* "llama3 8B, 70B, 405B": all of a model. */
const char *titan_flavors_text(struct arena *keep, const char *model);

/* ---- DTensor: a split per operator (splits.c) -------------------------------------------------- */

enum { MOST_MESH_AXES = 32 };
/* The sizes of its axes multiply to the devices, the outermost first. */
struct split_axes {
    int32_t axes;
    int64_t size[MOST_MESH_AXES];
};
/* The mesh on which the splits of all operators lie; what keeps them from that in words, NULL: nothing. */
const char *split_axes_of(struct arena *keep, const struct plan *plan, struct split_axes *out);
/* The dim that each axis splits, "batch vocab"; "copy" where none is. */
const char *split_on_axes(struct arena *keep, const struct split_axes *mesh,
                          const struct split *split);
/* Per layer, whether it is recomputed. */
bool *layers_again(struct arena *keep, const struct plan *plan, int64_t *layers);

/* ---- Galvatron: a strategy per layer --------------------------------------------------------- */

struct galvatron {
    int64_t pp, global_batch, chunks, layers;
    int64_t *tp; /* per layer */
    int64_t *cp; /* per layer, since 3.0; NULL: 1 */
    int64_t *ep,
        *etp; /* per layer, since 3.0: of experts, and their tensor degree; NULL: 1, and tp */
    bool *consecutive;          /* per layer: its tp devices are neighbours */
    bool *sharded;              /* SDP: ZeRO-3 */
    bool *checkpointed;         /* recomputed */
    int64_t *division;          /* layers per stage */
    int default_shard;          /* for layers that are not sharded: 0 ddp, 2 zero2, 3 zero3 */
    int64_t vocab_tp, vocab_cp; /* 0 is 1 */
    bool vocab_sharded;
    const char *schedule; /* one of GALVATRON_PIPELINES; NULL means 1f1b */
    bool sequence;        /* Megatron's sequence parallelism, a flag of the launch script */
};
/* The plan that these strategies make. */
weft_status galvatron_plan(const struct model *model, const struct cluster *cluster,
                           const struct galvatron *config, struct plan **out);
/* The strategies of a release whose plan is most like this one, and that plan, the caller's to free; `nearest`: of
 * those that make a plan. */
weft_status galvatron_of_plan(struct arena *keep, const struct target *target,
                              const struct plan *plan, bool nearest, struct galvatron *out,
                              struct plan **written);
/* Galvatron's names for schedules; the first one also stands for schedules that it does not have. */
enum { GALVATRON_PIPELINE_COUNT = 2 };
extern const struct galvatron_pipeline {
    const char *theirs, *ours;
} GALVATRON_PIPELINES[GALVATRON_PIPELINE_COUNT];
/* The number of its word for a schedule. */
int galvatron_pipeline_of(const char *schedule);

#endif
