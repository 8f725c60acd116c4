/* launched.c - ranks that a launcher started: of MPI, or one that says in variables where rank 0 is to be found
 * (torchrun, Slurm).
 *
 *   I1  A launcher of MPI comes first: under it Slurm's variables are there, too.
 *   I2  Slurm counts only where srun started this process: a batch script alone has no tasks of a step.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "run/run.h"

/* Environment variables in which launchers pass the rank: Open MPI, MPICH and Slurm, PMIx. */
static const char *const RANK_VARIABLES[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"};

static const char *mpi_rank(void)
{
    for (size_t i = 0; i < COUNT_OF(RANK_VARIABLES); i++)
        if (getenv(RANK_VARIABLES[i]))
            return getenv(RANK_VARIABLES[i]);
    return NULL;
}

/* ---- without MPI ----------------------------------------------------------------------------- */

/* The first of "node[07-09,12],other": node07. In memory that stays. */
static const char *first_host(const char *list)
{
    static char host[256];
    const char *bracket = strchr(list, '['), *comma = strchr(list, ',');
    if (!bracket || (comma && comma < bracket)) {
        snprintf(host, sizeof host, "%.*s", (int)strcspn(list, ","), list);
        return host;
    }
    snprintf(host, sizeof host, "%.*s%.*s", (int)(bracket - list), list,
             (int)strcspn(bracket + 1, "-,]"), bracket + 1);
    return host;
}

/* What each launcher calls the rank, their number, and how many are on this machine. */
static const struct {
    const char *rank, *ranks, *here;
    bool slurm;
} LAUNCHERS[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", false},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS_PER_NODE", true},
};

static bool number_in(const char *variable, int64_t *out)
{
    const char *text = variable ? getenv(variable) : NULL;
    return text && parse_int(text, out) && *out >= 0;
}

/* torchrun's agent keeps a store of its own on the port that it passes: the next one is free for ranks. */
static int64_t port_of_run(bool slurm)
{
    enum { USUAL = 29500, SPREAD = 1000 };
    const char *agent = getenv("TORCHELASTIC_USE_AGENT_STORE");
    int64_t port = USUAL, job;
    if (!number_in("MASTER_PORT", &port))
        return slurm && number_in("SLURM_JOB_ID", &job) ? USUAL + job % SPREAD : USUAL;
    return agent && strcmp(agent, "True") == 0 ? port + 1 : port;
}

/* The launcher of this process among LAUNCHERS, and where its ranks meet; -1: none of them. */
static int find_launcher(struct rendezvous *out)
{
    for (size_t i = 0; i < COUNT_OF(LAUNCHERS); i++) {
        int64_t rank, ranks;
        const char *nodes = getenv("SLURM_STEP_NODELIST"), *host = getenv("MASTER_ADDR");
        if (!host && LAUNCHERS[i].slurm && nodes)
            host = first_host(nodes);
        if (!host || !number_in(LAUNCHERS[i].rank, &rank) ||
            !number_in(LAUNCHERS[i].ranks, &ranks) || rank >= ranks || ranks > INT32_MAX)
            continue;
        *out = (struct rendezvous){(int32_t)rank, (int32_t)ranks, host,
                                   port_of_run(LAUNCHERS[i].slurm)};
        return (int)i;
    }
    return -1;
}

bool launched_apart(struct rendezvous *out)
{
    return !mpi_rank() && find_launcher(out) >= 0; /* I1 */
}

/* ---- any ------------------------------------------------------------------------------------- */

const char *launched_rank(void)
{
    struct rendezvous at;
    int launcher = mpi_rank() ? -1 : find_launcher(&at);
    return launcher < 0 ? mpi_rank() : getenv(LAUNCHERS[launcher].rank);
}

/* Those in which launchers of MPI pass how many ranks this machine has. */
static const char *const HERE_VARIABLES[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS",
                                             "PMIX_LOCAL_SIZE"};

int64_t launched_here(void)
{
    struct rendezvous at;
    int64_t ranks;
    int launcher = mpi_rank() ? -1 : find_launcher(&at);
    if (launcher >= 0)
        return number_in(LAUNCHERS[launcher].here, &ranks) && ranks > 0 ? ranks : 1;
    for (size_t i = 0; i < COUNT_OF(HERE_VARIABLES); i++)
        if (number_in(HERE_VARIABLES[i], &ranks) && ranks > 0)
            return ranks;
    return 1;
}

bool rank_speaks(void)
{
    const char *rank = launched_rank();
    return !rank || atoi(rank) == 0;
}
