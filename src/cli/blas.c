/* blas.c - a program that computes takes the kernels of OpenBLAS that suit this processor.
 *
 * OpenBLAS chooses once, when it is loaded, and asks OPENBLAS_CORETYPE first. So a program that would
 * have better kernels than those chosen starts itself again, once, with that variable. Ranks of MPI do
 * so each for itself, before they join the others.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "run/run.h"

#define CORE_VARIABLE "OPENBLAS_CORETYPE"

/* Returns only where the program cannot be started again. */
static void start_again(struct arena *arena)
{
    ARRAY(char *) words = {0};
    char *word = NULL;
    size_t cap = 0;
    FILE *file = fopen("/proc/self/cmdline", "re"); /* as typed: parsing has changed argv */
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
    const char *core = blas_core(), *better = better_blas_core(core, cpu_features());
    if (!better || getenv(CORE_VARIABLE))
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
