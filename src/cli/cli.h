/* cli.h - the program: one file per command, one row per command in src/main.c.
 *
 * A command parses its arguments with argp, calls the library, and prints. Standard output carries
 * the answer and nothing else; errors and progress go to standard error. With --json the answer is
 * one JSON object with documented fields (docs/reference/json.md).
 */
#ifndef WEFT_CLI_H
#define WEFT_CLI_H

#include <argp.h>
#include <jansson.h>

#include "cost/cost.h"
#include "exchange/exchange.h"
#include "report/report.h"

struct command {
    const char *name;
    const char *arguments; /* "MODEL [--depth N]" */
    const char *summary;
    int (*run)(int argc, char **argv); /* argv[0] is "weft NAME"; returns the exit code */
};

int cmd_models(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_clusters(int argc, char **argv);
int cmd_profile(int argc, char **argv);
int cmd_fit(int argc, char **argv);
int cmd_show(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_simulate(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_compare(int argc, char **argv);
int cmd_train(int argc, char **argv);
int cmd_checkpoint(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_import(int argc, char **argv);
int cmd_share(int argc, char **argv);
int cmd_days(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_mcp(int argc, char **argv);

/* Calls argp_parse. A wrong argument ends the program with exit code 2, and --help with 0; otherwise the call
 * returns. */
void cli_parse(const struct argp *argp, int argc, char **argv, void *input);

/* A bit in the flags of an option that argp does not use. It says that the option's value is a file that the command
 * writes; cli_parse refuses a file that is also read (outputs.c). */
enum { CLI_WRITES = 0x1000 };
weft_status output_add(const char *option, const char *path);
/* For an input that the command line does not name: refuses a file that an option writes. The path may be NULL. */
weft_status input_check(const char *path);

/* The values of --report FILE and --format F. */
struct page_options {
    const char *path; /* NULL if no report was asked for */
    enum page_format format;
    bool has_format;
};
void take_page_format(struct argp_state *state, struct page_options *options, const char *arg);
/* The value of --without LIST. */
void take_omitted(struct argp_state *state, struct omitted *omitted, const char *arg);
#define OMITTED_HELP                                                                               \
    "simulate without what makes tasks change each other, to see how much it matters: sharing "    \
    "(of "                                                                                         \
    "links: every transfer takes as long as alone), slowdown (of computation beside transfers)"
/* Writes a report in the format that was given, or in that of the file's name; HTML if neither says. */
weft_status report_write(const struct page_options *options, struct page *page);

/* The command line as it can be typed again to write a file, safe to print (typed_again.c). */
const char *cli_typed_again(struct arena *keep, int argc, char **argv);

/* Prints the last error and its hint to standard error; returns the exit code for it. */
int cli_fail(weft_status status);

/* For commands that predict: a warning on standard error if the databases that ship with the program are
 * missing, because predictions are different without them. */
void cli_warn_missing(void);

/* For commands that compute (blas.c): if OpenBLAS has chosen poor kernels, says so and starts the program
 * again with better ones. */
void cli_take_better_blas(struct arena *scratch);

/* The rank that a launcher gave this process, or NULL; only rank 0 prints anything (launched.c). */
const char *launched_rank(void);
int64_t launched_here(void); /* how many ranks of the run are on this machine */
/* Whether it was one without MPI, and where the ranks meet. */
struct rendezvous;
bool launched_apart(struct rendezvous *out);
bool rank_speaks(void);

/* From this call on, all that is written to standard output and standard error is filtered (output.c). */
void cli_guard_output(void);
/* Standard error without the filter, for lines of progress, which move the cursor. Text from a file must not be
 * written there. */
FILE *cli_terminal(void);

/* A warning on standard error for each reason to doubt a prediction of this plan (plan_doubts). */
void cli_warn_doubts(const struct plan *plan);

/* Prints and frees a JSON answer. */
int cli_print_json(json_t *answer);

#include "cli/options.h"

#endif
