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

bool rank_speaks(void)
{
    const char *rank = launched_rank();
    return !rank || atoi(rank) == 0;
}
