/* room.h - declarations that the exporters and importers share. Inside this room only. */
#ifndef WEFT_EXCHANGE_ROOM_H
#define WEFT_EXCHANGE_ROOM_H

#include "exchange/exchange.h"

/* ---- targets --------------------------------------------------------------------------------- */

struct export_job {
    struct arena *keep;
    const struct plan *plan; /* the user's plan */
    struct recognised found; /* of a layerwise target the plan and the differences alone */
    const struct target *target;
    bool nearest;
    struct export_result *out;
};
typedef weft_status export_writer(struct export_job *job);
struct format {
    const char *name, *summary;
    const char *framework; /* the framework that reads it, by its name in the table of targets */
    export_writer *write;
};
/* The formats: name, summary, the framework that reads it, its writer. */
#define FORMATS(DO)                                                                                \
    DO("megatron", "launch arguments of Megatron-LM, as a shell array", "megatron",                \
       write_megatron)                                                                             \
    DO("deepspeed", "DeepSpeed's JSON configuration", "deepspeed", write_deepspeed)                \
    DO("torchtitan", "torchtitan's job configuration in TOML", "torchtitan", write_torchtitan)     \
    DO("fsdp", "a training script for PyTorch's FSDP2", "fsdp", write_fsdp)                        \
    DO("galvatron", "Galvatron's JSON: a strategy per layer", "galvatron", write_galvatron)        \
    DO("dtensor", "a training script for PyTorch's DTensor and FSDP2", "dtensor", write_dtensor)   \
    DO("aceso", "Aceso's JSON: degrees of every operator", "aceso", write_aceso)                   \
    DO("slurm", "a Slurm batch script around Megatron-LM", "megatron", write_slurm)                \
    DO("weft", "a plan file, which `weft train` runs", "weft", write_weft)
#define DECLARE_WRITER(name, summary, framework, write) export_writer write;
FORMATS(DECLARE_WRITER)
#undef DECLARE_WRITER
void note(struct export_job *job, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Such as "gpt3-13b (seq: 1024) on dgx-a100:4". */
const char *plan_title(struct arena *keep, const struct plan *plan);
/* The name of the cluster as a plan file has it. */
const char *cluster_title(struct arena *keep, const struct plan *plan);
/* Without what would end a comment or a string of any target: names may be paths. */
const char *harmless(struct arena *keep, const char *text);
/* The command that gives the prediction of what was written, kept in the result as well; `source` is what `weft import`
 * calls the file, "" for its default. */
const char *job_line(struct export_job *job, const char *source);
/* "torchrun --nnodes 1 --nproc-per-node 8"; several nodes are told where they meet. */
const char *torchrun_line(struct arena *keep, const struct cluster *cluster);
/* What the target decides otherwise than the plan, and no word of the file changes. */
void decides(struct export_job *job, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* The arguments as the lines of a shell array, without its parentheses. */
weft_status megatron_lines(struct export_job *job, const char **out);
bool uses_megatron_fsdp(const struct degrees *degrees);
/* The settings of its environment that the framework asks for, each after `first` or `next` and before `end`; "": none. `path` is that of
 * a checkout, in the words of who reads it. */
const char *megatron_environment(struct export_job *job, const char *path, const char *first,
                                 const char *next, const char *end);
/* The arguments that train for a moment on made-up data; NULL: there are none. */
const char *megatron_trial(struct export_job *job);
/* The program that takes the arguments, within a checkout. */
const char *megatron_script(const struct export_job *job);

int64_t bytes_per_gradient(enum policy policy);

/* ---- Galvatron ------------------------------------------------------------------------------- */

extern const char *const GALVATRON_DEFAULTS[4]; /* its words for state sharding; NULL: none */

/* An argument, with the line on which it stands. */
struct argument {
    const char *name;  /* after the dashes */
    const char *value; /* several words are joined by blanks; "" for a switch */
    int line;
    bool asked; /* for its value, so far */
    /* Why the script does not say its value (shell.h); NULL: it does. */
    const struct doubt *doubt;
};
struct arguments {
    const char *file;
    ARRAY(struct argument) list;
    struct texts settings; /* from comments `# weft:` and `# weft-model:` */
    const char *model;
    const char *script; /* the word that ends in .py, or "" */
};
/* Splits a script or a command line into words, and checks the name and type of every argument. */
weft_status arguments_read(struct arena *scratch, const struct import_input *input,
                           struct arguments *out);
/* An error where the script does not say the value of an argument that was asked for. */
weft_status arguments_doubt(const struct arguments *arguments);
const struct argument *argument_find(const struct arguments *arguments, const char *name);
bool argument_given(const struct arguments *arguments, const char *name);
/* The value of an argument, or `usual` if it is not given. */
int64_t argument_int(const struct arguments *arguments, const char *name, int64_t usual);
const char *argument_word(const struct arguments *arguments, const char *name, const char *usual);
/* The first argument that nobody asked for, and that is not known to say nothing about a prediction; NULL: none. */
const char *argument_unread(const struct arguments *arguments);
weft_status argument_error(const struct arguments *arguments, const char *name, const char *hint,
                           const char *fmt, ...) PRINTF_LIKE(4, 5);

/* The number of layers of each part; NULL if all have the same number (import_layout.c). */
weft_status layout_read(struct arena *keep, const struct arguments *arguments, int64_t layers,
                        int64_t pp, int64_t *pieces, int64_t **part_layers);
/* The argument with layers by a pattern, in any release; NULL: there is none (import_pattern.c). */
const char *pattern_argument(const struct arguments *arguments);
/* Reads "M-M*|-M-M/ME/ME": letters, those of one depth, and how many depths. */
weft_status pattern_read(const struct arguments *arguments, struct model_shape *shape);
/* The letters of each part that a bar ends; NULL: there are no bars. */
weft_status pattern_parts(struct arena *keep, const struct arguments *arguments, int64_t pp,
                          int64_t *pieces, int64_t **part_layers);
/* State space, norm and activation of such layers. */
weft_status pattern_blocks_read(const struct arguments *arguments, struct model_shape *shape);
/* Reads "([0]*3+[1]*58)" or a number into first_dense and moe_every. */
weft_status frequency_read(struct arena *scratch, const struct arguments *arguments,
                           struct model_shape *shape);

/* Reads "([0]*3+[1])*12" into a letter for each layer. */
weft_status layer_list_read(struct arena *scratch, const struct arguments *arguments,
                            const char *name, int64_t layers, const char **bits);
/* The gated delta rule, an index of keys, layers without positions, gates after attention (import_attention.c). */
weft_status attention_read(struct arena *scratch, const struct arguments *arguments,
                           struct model_shape *shape);

/* Whether the arguments are those of a model with an encoder of images; its layers and the length of its sequence; the
 * rest of it (import_images.c). */
bool images_given(const struct arguments *arguments);
weft_status images_sizes_read(const struct arguments *arguments, struct model_shape *shape);
weft_status images_read(struct arena *keep, const struct arguments *arguments,
                        struct model_shape *shape, struct texts *notes);

/* Makes the model and the plan from arguments, on a cluster that is already open. `unread`, if not NULL, is
 * argument_unread's answer. */
weft_status megatron_plan(struct arena *scratch, const struct import_input *input,
                          const struct cluster *cluster, struct model **model, struct plan **plan,
                          struct texts *notes, const char **unread);
/* Opens the model that the user named, as today's practice has it, and the cluster; the input's options are then
 * those of the model. */
weft_status open_practised(struct arena *scratch, struct import_input *input,
                           struct opened_plan *out);
weft_status megatron_import(struct arena *scratch, const struct import_input *input,
                            struct opened_plan *out, struct texts *notes);
weft_status galvatron_import(struct arena *scratch, const struct import_input *input,
                             struct opened_plan *out, struct texts *notes);
weft_status aceso_import(struct arena *scratch, const struct import_input *input,
                         struct opened_plan *out, struct texts *notes);
weft_status bridge_import(struct arena *scratch, const struct import_input *input,
                          struct opened_plan *out, struct texts *notes);
weft_status torchtitan_import(struct arena *scratch, const struct import_input *input,
                              struct opened_plan *out, struct texts *notes);
weft_status deepspeed_import(struct arena *scratch, const struct import_input *input,
                             struct opened_plan *out, struct texts *notes);
/* The plan of a configuration, for a model and a cluster that are open. */
weft_status deepspeed_plan(struct arena *scratch, const struct import_input *input,
                           const struct model *model, const struct cluster *cluster,
                           struct plan **out, struct texts *notes);

/* ---- settings that targets cannot express (exchange.h, I2) ------------------------------------ */

/* The settings in which the plan differs from the other, such as "overlap=tensor,pipeline bucket=26214400";
 * "" if there are none. A setting for communication that the plan does not have is no difference. */
const char *settings_text(struct arena *keep, const struct plan *plan, const struct plan *other);
/* The same for a file of the job's target, which names all software but the target's own: that is what `weft import` takes
 * where a file says none. */
const char *settings_written(struct export_job *job, const struct plan *plan,
                             const struct plan *other);
/* Of these what the target decides otherwise: not the limits of memory, nor the software and its buckets if it is the target's own. The
 * other plan is given what does not count. */
const char *settings_decided(struct export_job *job, const struct plan *plan, struct plan *other);
/* Applies such settings to a plan; `file` and `line` are for messages. */
weft_status settings_apply(struct arena *scratch, const char *file, int line, const char *text,
                           struct plan *plan);

#endif
