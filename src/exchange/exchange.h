/* exchange.h - plans in the words of other frameworks, and theirs as plans.
 *
 * A target takes a handful of numbers (degrees, layers per stage, or one strategy per layer), not a
 * choice per operator. Exporting therefore *recognises* such numbers in a plan, makes the plan that
 * they stand for, and holds the two against each other:
 *
 *   I1  What is written describes the rebuilt plan exactly; what differs from the user's plan is
 *       listed, choice by choice, and is an error unless the nearest plan was asked for.
 *   I2  What decides only how a framework times its communication (overlap, buckets) is no difference
 *       but a note: no launch argument of a target controls all of it. Formats that Weft reads back
 *       carry it in a comment or a key that the framework ignores, so that they read back as equal.
 */
#ifndef WEFT_EXCHANGE_H
#define WEFT_EXCHANGE_H

#include "sim/sim.h"
#include "target/target.h"

/* ---- exporting ------------------------------------------------------------------------------- */

/* The formats there are: "megatron", "slurm". */
size_t format_count(void);
const char *format_name(size_t index);

/* Whose words a format is in, of which release: "slurm@0.16" is Megatron-Core 0.16's. */
weft_status format_target(struct arena *scratch, const char *to, const struct target **out);

struct export_result {
    const char *text;         /* of the file, in `keep` */
    struct texts differences; /* between the plan and what is written; none: exactly the plan */
    struct texts decided;     /* what the target decides otherwise than was predicted */
    struct texts notes;       /* what the user has to add */
    const char *simulate;     /* the command that gives the prediction of what was written */
    struct plan *written;     /* the plan that the text stands for; the caller frees it */
};
/* `to` is a format, or with a release of its framework: "slurm@0.16". A plan that the target cannot express is bad input, with what and where, unless `nearest`. */
weft_status plan_export(struct arena *keep, const struct plan *plan, const char *to, bool nearest,
                        struct export_result *out);

/* Where the framework of a format does not run the plan, the nearest that it runs and that fits, the caller's
 * to free; NULL: it runs the plan itself. WEFT_NO_ANSWER where nothing fits (nearest.c). */
weft_status plan_nearest(struct arena *keep, const struct plan *plan, const char *to,
                         struct plan **out);

/* ---- importing ------------------------------------------------------------------------------- */

/* What is read: a file's text under its name, or the words of a command line. */
struct import_input {
    const char *file; /* for messages */
    const char *text;
    size_t len;
    const char *model, *options; /* the user's; NULL: from the arguments (needed by Galvatron) */
    const char *cluster;
};
struct source {
    const char *name, *summary;
    weft_status (*read)(struct arena *scratch, const struct import_input *input,
                        struct opened_plan *out, struct texts *notes);
};
/* NULL: the first of them. */
const struct source *source_find(const char *name);

#include "exchange/aceso_plan.h"

#endif
