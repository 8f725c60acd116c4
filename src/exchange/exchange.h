/* exchange.h - writes plans in the formats of other frameworks, and reads those formats as plans.
 *
 * A target takes a handful of numbers (degrees, layers per stage, or one strategy per layer), not a
 * choice per operator. Exporting therefore *recognises* such numbers in a plan, rebuilds a plan from
 * them, and compares the two:
 *
 *   I1  What is written describes the rebuilt plan exactly. Every difference from the user's plan is
 *       listed, and any difference is an error unless the user asked for the nearest plan.
 *   I2  A setting that only decides when a framework communicates (overlap, buckets) counts as a note,
 *       not as a difference, because no target has launch arguments for all of it. Formats that Weft
 *       reads back carry it in a comment or in a key that the framework ignores, so that a plan reads
 *       back as it was.
 */
#ifndef WEFT_EXCHANGE_H
#define WEFT_EXCHANGE_H

#include "exchange/chakra.h"
#include "sim/sim.h"
#include "target/target.h"

/* ---- exporting ------------------------------------------------------------------------------- */

/* The formats there are: "megatron", "slurm". */
size_t format_count(void);
const char *format_name(size_t index);
const char *format_summary(size_t index);

/* Whose words a format is in, of which release: "slurm@0.16" is Megatron-Core 0.16's. */
weft_status format_target(struct arena *scratch, const char *to, const struct target **out);

struct export_result {
    const char *text;         /* what goes into the file, allocated in `keep` */
    struct texts differences; /* between the plan and what is written; empty if they are equal */
    struct texts decided;     /* what the target decides differently from the prediction */
    struct texts notes;       /* what the user has to add */
    /* A second file, beside the first, that the text refers to by this name; NULL: there is none. */
    const char *beside, *beside_text;
    const char *simulate; /* the command that predicts what was written */
    struct plan *written; /* the plan that the text stands for; the caller frees it */
};
/* `to` is a format, optionally with a release of its framework: "slurm@0.16". Without `nearest`, a plan that the target
 * cannot express is bad input; the error says what it cannot express and where. */
weft_status plan_export(struct arena *keep, const struct plan *plan, const char *to, bool nearest,
                        struct export_result *out);

/* Writes the text to a file, and what goes beside it into the same folder. */
weft_status export_write(const struct export_result *result, const char *path);

/* What writes the nearest plan, of the command that is running. */
#define NEAREST_OPTION "--nearest"
/* Bad input: what the target does not run of the plan, who runs it, and the nearest plan that it runs and `how` it is
 * written (NEAREST_OPTION, or another command with it); more than plan_export says, and takes longer. */
weft_status target_refuses(const struct plan *plan, const struct target *target,
                           const struct texts *differences, const char *how);

/* Where the framework of a format does not run the plan, the nearest that it runs and that fits, the caller's
 * to free, and what differs in words; NULL: it runs the plan itself. WEFT_NO_ANSWER where nothing fits (nearest.c). */
weft_status plan_nearest(struct arena *keep, const struct plan *plan, const char *to,
                         struct plan **out, struct texts *differences);

/* ---- importing ------------------------------------------------------------------------------- */

/* What is to be read: the text of a file, or the words of a command line. */
struct import_input {
    const char *file; /* for messages */
    const char *text;
    size_t len;
    const char *model, *options; /* that the user named; NULL: the input describes the model */
    const char *cluster;
    const struct schedule *order; /* that the input names, where it is at hand; NULL: it is read */
    /* That runs it, where the input does not say; 0: no framework in particular. */
    struct software software;
};
typedef weft_status source_reader(struct arena *scratch, const struct import_input *input,
                                  struct opened_plan *out, struct texts *notes);
struct source {
    const char *name, *summary;
    const char *framework; /* by its name in the table of targets; NULL: it is in none */
    source_reader *read;
    const char *signs[3]; /* words of which its files have at least one, and plan files none */
};
/* The source of this name, which may have a release, as "megatron@0.16"; the first one if the name is NULL. */
const struct source *source_find(const char *name);
/* The source that reads a file with this text, by the signs of each; NULL: none of them. */
const struct source *source_of_text(const char *text);
/* The usual row of the framework whose files this function reads. */
const struct target *source_target(source_reader *read);
/* The software that a source's framework is of itself, in the release of the name; `default` where Weft knows none. */
weft_status source_software(const char *name, struct software *out);
/* Adds what the framework that a plan was read from does not run of it: in the release of the name, or in none
 * where it names no release. */
weft_status source_note(struct arena *keep, const char *name, const struct plan *plan,
                        struct texts *notes);
/* The name of source `i`, and what it is; NULL after the last. */
const char *source_at(size_t i, const char **summary);

#include "exchange/aceso_plan.h"

#endif
