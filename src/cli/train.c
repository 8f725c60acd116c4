/* train.c - `weft train`: runs a plan.
 *
 *   I1  Under a launcher only rank 0 prints, but for failures; all ranks end with the same exit code.
 */
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/train.h"
#include "compile/compile.h"
#include "sim/sim.h"

/* ---- under a launcher ------------------------------------------------------------------------ */

/* Holds I1 for errors that end the program inside the parser. */
static void parse(int argc, char **argv, struct train_arguments *arguments)
{
    int spoken = -1, silence = -1;
    if (!rank_speaks()) {
        spoken = dup(STDERR_FILENO);
        silence = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(silence, STDERR_FILENO);
    }
    cli_read(&TRAIN_SYNTAX, argc, argv, arguments);
    if (spoken >= 0)
        dup2(spoken, STDERR_FILENO);
    close(spoken);
    close(silence);
}

/* Whether no launcher of MPI, which ends all, started this rank. */
static bool is_apart(struct rendezvous *at)
{
    return launched_rank() && launched_apart(at);
}

/* Without a launcher of MPI every rank says why it ends: rank 0 may be the one that is gone. */
static void say(weft_status status)
{
    static bool said; /* by the one thread of a rank that is a process */
    struct rendezvous at;
    if (!said && rank_speaks())
        cli_fail(status);
    else if (!said && status == WEFT_FAILURE && is_apart(&at))
        fprintf(stderr, "weft: rank %d: %s\n", at.rank, weft_last_error()->message);
    said = true;
}

/* A rank that is a process says at once what has failed. Of ranks that are threads one, after all have ended. */
static void end_soon(void *context, weft_status status)
{
    struct arena *scratch = arena_new();
    struct rendezvous at;
    bool apart = is_apart(&at);
    (void)context;
    if (apart)
        say(status);
    end_within(ENDING_S, (int)status,
               apart || !rank_speaks()
                   ? NULL
                   : arena_printf(scratch, "weft: %s\n", weft_last_error()->message));
    arena_free(scratch);
}

/* Whatever holds up this rank's own threads. */
static void rank_is_gone(int32_t rank)
{
    struct rendezvous at;
    if (is_apart(&at))
        fprintf(
            stderr,
            "weft: rank %d: rank %d is gone, and %d s later this rank has not ended: it ends now\n",
            at.rank, rank, ENDING_S);
    _exit(WEFT_FAILURE);
}

/* A library's thread may still wait for a rank that is gone, so a rank that is a process ends at once. */
static int fail(weft_status status)
{
    struct rendezvous at;
    say(status);
    if (status == WEFT_FAILURE && is_apart(&at)) {
        fflush(NULL);
        _exit((int)status);
    }
    return (int)status;
}

/* ---- running --------------------------------------------------------------------------------- */

static volatile sig_atomic_t interrupted;

static void interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

/* The first signal ends the run after a step; the second one ends the program at once. */
static void take_signals(void)
{
    struct sigaction action = {.sa_handler = interrupt, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static weft_status check_ranks(const struct plan *plan, int64_t ranks)
{
    int64_t devices = cluster_devices(plan->cluster);
    struct text32 hint;
    snprintf(hint.s, sizeof hint.s, "start it on %lld ranks", (long long)devices);
    return devices == ranks ? WEFT_OK
                            : bad_argument(hint.s, "the plan is for %s, not for %lld",
                                           counted(devices, "device").s, (long long)ranks);
}

static weft_status run_launched(const struct train_arguments *arguments,
                                struct training_result *out)
{
    struct transport *transport = NULL;
    struct rendezvous at;
    weft_status status;
    if (arguments->training.slowdown.bytes_per_s > 0 || arguments->training.slowdown.delay_s > 0)
        TRY(bad_argument("run it without a launcher, or with --ranks",
                         "only ranks that are threads can be slowed"));
    bool apart = launched_apart(&at);
    TRY(apart ? transport_sockets(&at, &transport) : transport_mpi(&transport));
    if (apart)
        TRY(sockets_watch(transport, ENDING_S, rank_is_gone));
    TRY(check_ranks(arguments->training.plan, transport->ranks));
    TRY(train_rank(&arguments->training, transport, arguments->plan.arena, out));
done:
    if (transport)
        transport->kind->close(transport);
    return status;
}

static weft_status run_threads(const struct train_arguments *arguments, struct training_result *out)
{
    weft_status status;
    if (arguments->ranks)
        TRY(check_ranks(arguments->training.plan, arguments->ranks));
    TRY(train_threads(&arguments->training, arguments->plan.arena, out));
done:
    return status;
}

static int tell(const struct train_arguments *arguments, const struct training_result *result)
{
    struct arena *scratch = arguments->plan.arena;
    if (!rank_speaks())
        return WEFT_OK;
    if (arguments->json)
        return cli_print_json(train_json(arguments, result));
    train_print(scratch, arguments, result);
    if (arguments->memory_report && result->memory)
        memory_print(scratch, arguments->training.plan, result, stdout);
    return WEFT_OK;
}

/* Says before the first step if this machine has less memory than the ranks in this process, or on it, are
 * predicted to hold. */
static weft_status tell_memory(const struct plan *plan, int64_t ranks)
{
    struct graph *graph = NULL;
    double bytes = 0, left = host_memory_left(), devices = (double)cluster_devices(plan->cluster);
    weft_status status;
    TRY(graph_compile(plan, &(struct compile_options){0}, &graph));
    for (int32_t s = 0; s < plan->stages; s++)
        bytes += (double)plan->stage[s].devices * (double)stage_peak_bytes(graph, s);
    bytes *= (double)ranks / devices;
    if (bytes > left)
        fprintf(stderr,
                "weft: %s are predicted to hold %s here, and %s are left: the run may be ended\n",
                counted(ranks, "rank").s, show_bytes(bytes).s, show_bytes(left).s);
done:
    graph_free(graph);
    return status;
}

static bool computes_on_host(const struct train_arguments *arguments)
{
    const char *device = arguments->training.device;
    return !device || strcmp(device, "cpu") == 0;
}

/* What the runtime does, so that what it holds is held against the right prediction: whether it measures the norm of all
 * gradients; on a GPU the facts of its own software, and gradients in fp32 whatever the policy says. */
static void take_own_facts(const struct train_arguments *arguments, struct plan *plan)
{
    bool cpu = computes_on_host(arguments);
    if (!cpu && software_is_default(&plan->software))
        software_from_text("weft-cuda", &plan->software);
    if (!cpu && plan->policy == POLICY_MIXED)
        plan->policy = POLICY_MIXED_FP32_GRADIENTS;
    if (arguments->training.clip > 0 || plan->dtype == DTYPE_FP16) /* rank/jobs.c, measures_norm */
        plan->software.word[FACT_CLIPPING] = CLIPPING_NORM;
}

/* What the run is held against; nothing where it cannot be simulated. */
static void expect(const struct plan *plan, const char *profile, struct teller *teller)
{
    struct prediction *prediction = NULL;
    if (simulate(plan, &(struct simulate_options){.profile = profile}, &prediction) != WEFT_OK)
        return;
    teller->step_s = (double)prediction->iteration_ns * 1e-9;
    teller->flops = prediction->flops;
    teller->peak_flops =
        plan->cluster->node.device.flops[plan->dtype] * (double)cluster_devices(plan->cluster);
    prediction_free(prediction);
    struct graph *graph = NULL;
    if (graph_compile(plan, &(struct compile_options){0}, &graph) != WEFT_OK)
        return;
    for (int32_t s = 0; s < plan->stages; s++)
        teller->bytes = fmax(teller->bytes, (double)stage_peak_bytes(graph, s));
    graph_free(graph);
}

static int run(struct train_arguments *arguments, struct plan *plan)
{
    FILE *out = arguments->json ? stderr : stdout;
    bool terminal = isatty(fileno(out));
    struct teller teller = {.out = arguments->json && !terminal ? NULL : out, .terminal = terminal};
    struct training_result result = {0};
    if (arguments->no_overlap)
        plan->overlap = 0;
    take_own_facts(arguments, plan);
    arguments->training.plan = plan;
    arguments->training.tell = tell_step;
    arguments->training.note = tell_note;
    arguments->training.fails = end_soon;
    arguments->training.context = &teller;
    arguments->training.stop = &interrupted;
    take_signals();
    bool launched = launched_rank() && !arguments->ranks;
    weft_status status = WEFT_OK;
    if (rank_speaks() && computes_on_host(arguments))
        status = tell_memory(plan, launched ? launched_here() : cluster_devices(plan->cluster));
    if (rank_speaks() && teller.out)
        expect(plan, arguments->training.profile, &teller);
    if (!status)
        status = launched ? run_launched(arguments, &result) : run_threads(arguments, &result);
    return status ? fail(status) : tell(arguments, &result);
}

int cmd_train(int argc, char **argv)
{
    struct train_arguments arguments = {
        .plan.arena = arena_new(),
        .weight_decay = -1,
        .clip = 1,
        .training = {.data.mask = -1,
                     .steps = 100,
                     .seed = -1,
                     .rate = {.peak = 1e-3},
                     .optimizer.kind = OPTIMIZER_ADAMW,
                     .checkpoint = {.disk = &REAL_DISK, .keep = 3}}};
    struct opened_plan opened = {0};
    weft_status status;
    parse(argc, argv, &arguments);
    cli_take_better_blas(arguments.plan.arena);
    status = train_complete(&arguments);
    arguments.plan.profile = arguments.training.profile;
    if (!status)
        status = plan_open(&arguments.plan, &opened);
    int code = status ? fail(status) : run(&arguments, opened.plan);
    if (!status)
        plan_close(&opened);
    arena_free(arguments.plan.arena);
    return code;
}
