/* room.h - what the files of exports and imports share. Inside this room only. */
#ifndef WEFT_EXCHANGE_ROOM_H
#define WEFT_EXCHANGE_ROOM_H

#include "exchange/exchange.h"

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
    int64_t window,
        full_every; /* keys that attention sees, and every which layer sees all; 0: all */
    bool sinks, proj_bias, expert_bias, clamped, tokens_once;
};
/* NULL and an error where the model is of no such family, or is not what its sizes make. */
weft_status shape_of_model(const struct model *model, struct model_shape *out);
/* The preset and its options, as model_open takes them; dtype left to the preset. */
const char *shape_preset(const struct model_shape *shape);
const char *shape_options(struct arena *keep, const struct model_shape *shape);
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
bool cuts_behind_layers(struct arena *keep, const struct plan *plan, int64_t parts,
                        const int64_t *part_layers, int64_t **cut);

/* ---- recognising degrees --------------------------------------------------------------------- */

/* What a framework's numbers can say. */
struct abilities {
    bool tp, pp, cp, ep, pieces, uneven, block;
    bool sequence; /* parallelism along tp can be switched on */
    bool plain;    /* and off */
    bool selective, offload;
    bool products;                /* recomputation of all but products (BLOCK_PRODUCTS) */
    bool folds;                   /* several pieces on one stage alone */
    unsigned shards;              /* a bit for each of 0 to 3 */
    unsigned pipeline_shards;     /* and in a pipeline */
    const char *const *schedules; /* NULL-terminated, the usual one first */
};

struct recognised {
    struct degrees degrees;     /* complete: none is 0 */
    const int64_t *part_layers; /* per part; NULL: as degrees alone cut */
    int64_t block;     /* of every part the first so many layers are recomputed; 0: by degrees */
    struct plan *plan; /* what these make; the caller frees it */
    struct texts differences;
};
/* Without `nearest` the plan is the one that the degrees make, whatever the target can say. */
weft_status degrees_of_plan(struct arena *keep, const struct plan *plan,
                            const struct abilities *can, const char *target, bool nearest,
                            struct recognised *out);
/* In place of a number of layers: of what is recomputed, attention and every second product are kept. */
enum { BLOCK_PRODUCTS = -1 };
/* The plan that degrees, layers per part and recomputed layers make. */
weft_status plan_of_degrees(const struct model *model, const struct cluster *cluster,
                            const struct degrees *degrees, const int64_t *part_layers,
                            int64_t block, struct plan **out);
/* Whether two plans of one walk choose the same, cut the same and order the same; else what differs
 * first of each kind, in words. */
void plan_differences(struct arena *keep, const struct plan *plan, const struct plan *other,
                      struct texts *out);
void add_text(struct arena *keep, struct texts *texts, const char *text);
/* Changes degrees to what the target can say; what it cannot is added to the differences. */
void limit_degrees(struct arena *keep, const struct plan *plan, const struct abilities *can,
                   const char *target, struct recognised *r);
/* Names of model and cluster, and what no degree says: type, policy, overlap, limits. */
void copy_settings(struct plan *to, const struct plan *from);

/* ---- targets --------------------------------------------------------------------------------- */

struct export_job {
    struct arena *keep;
    const struct plan *plan; /* the user's */
    struct recognised found; /* degrees, unless the target has its own numbers */
    const struct target *target;
    bool nearest;
    struct export_result *out;
};
typedef weft_status export_writer(struct export_job *job);
struct target {
    const char *name, *summary;
    struct abilities can; /* of degrees */
    bool layerwise;       /* recognises for itself */
    export_writer *write;
};
export_writer write_megatron, write_deepspeed, write_torchtitan, write_fsdp, write_galvatron,
    write_slurm;
/* A difference that the target's numbers make on their own account. */
void job_differs(struct export_job *job, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* The plan again, after a change of the degrees that were found. */
weft_status job_rebuild(struct export_job *job);
void note(struct export_job *job, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* "gpt3-13b (seq: 1024) on dgx-a100:4" */
const char *plan_title(struct arena *keep, const struct plan *plan);
/* What a plan file calls its cluster. */
const char *cluster_title(struct arena *keep, const struct plan *plan);

/* The arguments as lines of a shell array, without it. */
weft_status megatron_lines(struct export_job *job, const char **out);
bool uses_fsdp(const struct degrees *degrees);
/* pretrain_gpt.py or pretrain_bert.py */
const char *megatron_script(const struct plan *plan);

/* ---- Megatron's flags ------------------------------------------------------------------------ */

enum flag_type {
    FLAG_SWITCH, /* takes no value */
    FLAG_INT,
    FLAG_REAL,
    FLAG_WORD,
    FLAG_WORDS, /* one or more */
    FLAG_UNKNOWN
};
/* By the name after the dashes. */
enum flag_type megatron_flag(const char *name);
const char *megatron_flag_near(const char *name);
/* Whether a launcher (torchrun, srun) takes it, not Megatron. */
bool launcher_flag(const char *name);

/* Megatron-Core's buckets of gradients, in parameters: max(40000000, 1000000 * replicas). */
int64_t megatron_bucket_parameters(int64_t replicas);
int64_t bytes_per_gradient(enum policy policy);

/* ---- Galvatron ------------------------------------------------------------------------------- */

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
weft_status galvatron_plan(const struct model *model, const struct cluster *cluster,
                           const struct galvatron *config, struct plan **out);
extern const char *const GALVATRON_DEFAULTS[4]; /* by shard; NULL: none */
/* Its words for schedules; the first one for those that it has none for. */
enum { GALVATRON_PIPELINE_COUNT = 2 };
extern const struct galvatron_pipeline {
    const char *theirs, *ours;
} GALVATRON_PIPELINES[GALVATRON_PIPELINE_COUNT];

/* Arguments as words; each knows its line. */
struct argument {
    const char *name;  /* after the dashes */
    const char *value; /* words of a list are joined by blanks; "" for a switch */
    int line;
};
struct arguments {
    const char *file;
    ARRAY(struct argument) list;
    struct texts settings; /* of comments `# weft:`, and of `# weft-model:` */
    const char *model;
    const char *script; /* the word that ends in .py, or "" */
};
/* Splits a script or a command line, checks every argument's name and type. */
weft_status arguments_read(struct arena *scratch, const struct import_input *input,
                           struct arguments *out);
const struct argument *argument_find(const struct arguments *arguments, const char *name);
bool argument_given(const struct arguments *arguments, const char *name);
/* `usual` where it is not given. */
int64_t argument_int(const struct arguments *arguments, const char *name, int64_t usual);
const char *argument_word(const struct arguments *arguments, const char *name, const char *usual);
weft_status argument_error(const struct arguments *arguments, const char *name, const char *hint,
                           const char *fmt, ...) PRINTF_LIKE(4, 5);

/* The layers of each part: NULL where they are dealt out equally (import_layout.c). */
weft_status layout_read(struct arena *keep, const struct arguments *arguments, int64_t layers,
                        int64_t pp, int64_t *pieces, int64_t **part_layers);
/* "([0]*3+[1]*58)" or a number, as first_dense and moe_every. */
weft_status frequency_read(struct arena *scratch, const struct arguments *arguments,
                           struct model_shape *shape);

/* The model and the plan of arguments, on a cluster that is open. */
weft_status megatron_plan(struct arena *scratch, const struct import_input *input,
                          const struct cluster *cluster, struct model **model, struct plan **plan,
                          struct texts *notes);
weft_status megatron_import(struct arena *scratch, const struct import_input *input,
                            struct opened_plan *out, struct texts *notes);
weft_status galvatron_import(struct arena *scratch, const struct import_input *input,
                             struct opened_plan *out, struct texts *notes);
weft_status aceso_import(struct arena *scratch, const struct import_input *input,
                         struct opened_plan *out, struct texts *notes);

/* ---- settings that targets have no words for (export.h, I2) ---------------------------------- */

/* "overlap=tensor,pipeline bucket=26214400": those in which the plan differs from the other; "": none.
 * How something is sent or overlapped that the plan does not have is no difference. */
const char *settings_text(struct arena *keep, const struct plan *plan, const struct plan *other);
/* Reads them into a plan; `file` and `line` for messages. */
weft_status settings_apply(struct arena *scratch, const char *file, int line, const char *text,
                           struct plan *plan);

#endif
