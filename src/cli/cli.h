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
int cmd_export(int argc, char **argv);
int cmd_import(int argc, char **argv);

/* argp_parse with the house's rules: a wrong argument ends the program with exit code 2, --help
 * with 0; otherwise the command goes on. */
void cli_parse(const struct argp *argp, int argc, char **argv, void *input);

/* Of an option in argp's flags, a bit that argp does not use: its value is a file that the command writes.
 * cli_parse refuses one that is also read (outputs.c). */
enum { CLI_WRITES = 0x1000 };
weft_status output_add(const char *option, const char *path);
/* Refuses a file that an option writes; NULL is none. For inputs that the command line does not name. */
weft_status input_check(const char *path);

/* --report FILE and --format F. */
struct page_options {
    const char *path; /* NULL: no report */
    enum page_format format;
    bool has_format;
};
void take_page_format(struct argp_state *state, struct page_options *options, const char *arg);
/* In the format that was given, or that the file's name says; HTML where neither does. */
weft_status report_write(const struct page_options *options, struct page *page);

/* Prints the last error and its hint to standard error; returns the exit code for it. */
int cli_fail(weft_status status);

/* A line on standard error where the databases that ship with the program are not there: predictions
 * are other ones without them. Of commands that predict. */
void cli_warn_missing(void);

/* Of commands that compute (blas.c): where OpenBLAS took poor kernels, says so and starts the program
 * again with better ones. */
void cli_take_better_blas(struct arena *scratch);

/* The rank that a launcher of MPI gave this process, or NULL; rank 0 alone speaks (launched.c). */
const char *launched_rank(void);
bool rank_speaks(void);

/* From here on, what goes to standard output and standard error passes output.c. */
void cli_guard_output(void);
/* Standard error for lines of progress, which move the cursor: nothing that stands in a file goes there. */
FILE *cli_terminal(void);

/* A line on standard error for each doubt about what is predicted of a plan (plan_doubts). */
void cli_warn_doubts(const struct plan *plan);

/* Writes and frees a JSON answer. */
int cli_print_json(json_t *answer);

#include "cli/options.h"

#endif
