/* launched.c - ranks that a launcher of MPI started. */
#include <stdlib.h>

#include "cli/cli.h"

/* Environment variables in which launchers pass the rank: Open MPI, MPICH and Slurm, PMIx. */
static const char *const RANK_VARIABLES[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"};

const char *launched_rank(void)
{
    for (size_t i = 0; i < COUNT_OF(RANK_VARIABLES); i++)
        if (getenv(RANK_VARIABLES[i]))
            return getenv(RANK_VARIABLES[i]);
    return NULL;
}

/* Those in which they pass how many ranks this machine has. */
static const char *const HERE_VARIABLES[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS",
                                             "PMIX_LOCAL_SIZE"};

int64_t launched_here(void)
{
    int64_t ranks;
    for (size_t i = 0; i < COUNT_OF(HERE_VARIABLES); i++) {
        const char *text = getenv(HERE_VARIABLES[i]);
        if (text && parse_int(text, &ranks) && ranks > 0)
            return ranks;
    }
    return 1;
}

bool rank_speaks(void)
{
    const char *rank = launched_rank();
    return !rank || atoi(rank) == 0;
}
