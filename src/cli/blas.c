/* blas.c - makes commands that compute use the kernels of OpenBLAS that suit this processor.
 *
 * OpenBLAS chooses its kernels once, when it is loaded, and reads OPENBLAS_CORETYPE first. If there are
 * better kernels than those it chose, the program therefore starts itself again, once, with that
 * variable set. Each rank of MPI does so for itself, before it joins the others.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "run/run.h"

#define CORE_VARIABLE "OPENBLAS_CORETYPE"

/* Returns only if the program cannot be started again. */
static void start_again(struct arena *arena)
{
    ARRAY(char *) words = {0};
    char *word = NULL;
    size_t cap = 0;
    FILE *file = fopen("/proc/self/cmdline", "re"); /* as typed, because parsing has changed argv */
    while (file && getdelim(&word, &cap, '\0', file) > 0)
        array_push(arena, &words, arena_copy_text(arena, word));
    free(word);
    if (file)
        fclose(file);
    array_push(arena, &words, NULL);
    execv("/proc/self/exe", words.data);
}

void cli_take_better_blas(struct arena *scratch)
{
    if (getenv(CORE_VARIABLE) || blas_open() != WEFT_OK) {
        error_clear(); /* who computes will say it */
        return;
    }
    const char *core = blas_core(), *better = better_blas_core(core, cpu_features());
    if (!better)
        return;
    if (rank_speaks())
        fprintf(stderr,
                "weft: OpenBLAS does not know this processor and takes the kernels of %s; starting "
                "again with those of %s (" CORE_VARIABLE ")\n",
                core, better);
    setenv(CORE_VARIABLE, better, 1);
    start_again(scratch);
    if (rank_speaks())
        fprintf(stderr, "weft: cannot start again (%s); going on with those of %s\n",
                strerror(errno), core);
}
