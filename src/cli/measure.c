/* measure.c - `weft profile measure`: measures on this machine what a plan needs, and writes it to a
 * database and a cluster file. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/measure.h"
#include "cli/profile.h"

#define AT(field) offsetof(struct measure_command, field)

/* Reads "5%" or "0.05". */
static void take_precision(struct argp_state *state, void *input, char *arg)
{
    struct measure_command *options = input;
    char number[32];
    size_t len = strlen(arg);
    bool percent = len > 0 && arg[len - 1] == '%';
    snprintf(number, sizeof number, "%.*s", (int)(len - percent), arg);
    if (!parse_real(number, &options->precision) || options->precision <= 0 ||
        (options->precision /= percent ? 100 : 1) >= 1)
        argp_error(state, "--precision takes a share such as 5%%, not '%s'", arg);
}

static void take_transport(struct argp_state *state, void *input, char *arg)
{
    static const char *const NAMES[] = {
        [RANKS_THREADS] = "threads", [RANKS_MPI] = "mpi", [RANKS_TCP] = "tcp"};
    struct measure_command *options = input;
    int at = NAME_INDEX(arg, NAMES);
    if (at < 0)
        argp_error(state, "--transport is '%s', expected threads, mpi or tcp", arg);
    options->ranks_are = at < 0 ? RANKS_THREADS : at;
}

static void take_budget(struct argp_state *state, void *input, char *arg)
{
    struct measure_command *options = input;
    if (!parse_duration(arg, &options->budget_ns) || options->budget_ns < 1)
        argp_error(state, "--budget takes a time such as 2min, not '%s'", arg);
}

static void take_most(struct argp_state *state, void *input, char *arg)
{
    struct measure_command *options = input;
    if (!parse_bytes(arg, &options->most_bytes) || options->most_bytes < 64 << 10 ||
        options->most_bytes > (int64_t)4 << 30)
        argp_error(state, "--most takes a size of 64KiB to 4GiB, not '%s'", arg);
}

static const struct cli_option OPTIONS[] = {
    {"device", "NAME", "what computes, cpu or cuda (default cpu)", OPTION_TEXT, AT(device)},
    {"db", "DB", "the database to write; what it has is not measured again", OPTION_TEXT, AT(db)},
    {"precision", "P", "standard error of a time to stop at (default 5%)", OPTION_TAKE,
     .take = take_precision},
    {"budget", "TIME", "stop after so long, such as 2min, and keep what is done", OPTION_TAKE,
     .take = take_budget},
    {"collectives", NULL, "measure transfers between ranks, too", OPTION_FLAG, AT(collectives)},
    {"interference", NULL,
     "measure how kernels and all-reduces between ranks slow each other down, too", OPTION_FLAG,
     AT(interference)},
    {"alone", NULL,
     "measure kernels without the plan's other ranks, too: how much quicker they are is the "
     "alone_speedup of a cluster file",
     OPTION_FLAG, AT(alone)},
    {"ranks", "N", "so many ranks on this machine (default 2)", OPTION_COUNT, AT(ranks), .least = 1,
     .most = INT16_MAX},
    {"most", "SIZE", "the largest transfer (default 64MiB)", OPTION_TAKE, .take = take_most},
    {"transport", "T",
     "threads, or under a launcher, where rank 0 answers: mpi under mpirun, tcp under torchrun or "
     "srun (default threads)",
     OPTION_TAKE, .take = take_transport},
    OUTPUT_OPTION(AT(output), "write this machine's ranks as a cluster file"),
    JSON_OPTION(AT(json)),
    {0},
};

static const struct syntax SYNTAX = {
    OPTIONS,
    "PLAN --db DB\nMODEL [CLUSTER] --db DB\n--collectives [--db DB] [-o FILE]",
    "Measures this machine: every kernel that a plan asks for, on one core or, with --device cuda, "
    "on the GPU that the plan's cluster has, while as many ranks are at work as the plan puts "
    "there, with --collectives the transfers between ranks, and with --interference by how much "
    "each kind of kernel and all-reduces slow each other down. Times go into the database as they "
    "are measured; "
    "Ctrl-C keeps them, and the next run goes on from there.\v"
    "Without a CLUSTER the plan is for one core of this machine; -o writes a cluster file of "
    "--ranks cores for `weft simulate` and `weft plan`.\n\n"
    "Example:\n"
    "  weft profile measure --collectives --ranks 2 --db here.sqlite -o here.yaml\n"
    "  weft profile measure gpt2 here.yaml --dp 2 --dtype fp32 --seq 128 --db here.sqlite\n"
    "  weft profile measure gpt2 here.yaml --dp 2 --dtype fp32 --seq 128 --db here.sqlite "
    "--interference\n"
    "  weft simulate gpt2 here.yaml --dp 2 --dtype fp32 --seq 128 --profile here.sqlite\n"
    "  weft profile measure gpt2 hgx-h200:1 --device cuda --pp 8 --db gpu.sqlite",
    .child = PLAN_CHILD(AT(plan)),
};

/* ---- while it measures ----------------------------------------------------------------------- */

static atomic_bool interrupted;

static void interrupt(int signal)
{
    (void)signal;
    atomic_store(&interrupted, true);
}

static void show_progress(void *context, const struct measure_progress *progress)
{
    (void)context;
    struct text32 left = show_duration(progress->left_s * 1e9);
    fprintf(cli_terminal(), "\r%lld of %lld: %s%s%s   ", (long long)progress->done,
            (long long)progress->all, progress->what, progress->left_s > 0 ? ", left: " : "",
            progress->left_s > 0 ? left.s : "");
}

/* ---- what is measured ------------------------------------------------------------------------ */

static weft_status check_options(const struct measure_command *options)
{
    if (options->plan.names == 0 && !options->collectives && !options->output)
        return bad_argument("name a plan or a model, or add --collectives", "measure what?");
    if (options->plan.names > 0 && !options->db)
        return bad_argument("add --db here.sqlite", "measure into which database?");
    if (options->interference && options->plan.names == 0)
        return bad_argument("name a plan or a model", "interference of which kernels?");
    if (options->alone && options->plan.names == 0)
        return bad_argument("name a plan or a model", "which kernels, alone?");
    bool threads = options->ranks_are == RANKS_THREADS;
    if ((options->collectives || options->interference) && threads && options->ranks < 2)
        return bad_argument("add --ranks 2", "transfers need at least 2 ranks");
    if (options->plan.names == 0 && options->plan.flag)
        return bad_argument("name a model", "--%s is of which plan?", options->plan.flag);
    return WEFT_OK;
}

/* A model without a cluster is planned for one core. */
static weft_status open_alone(struct measure_job *job)
{
    const struct plan_arguments *in = &job->options->plan;
    struct opened_plan *out = &job->opened;
    weft_status status;
    TRY(model_open(in->name[0], in->overrides, &out->model));
    TRY(cluster_ranks(1, &out->cluster));
    TRY(plan_from_degrees(out->model, out->cluster, &in->degrees, &out->plan));
    TRY(plan_check(out->plan));
done:
    return status;
}

/* "H200-SXM-141GB" is what "NVIDIA H200" calls itself: its first word is in there. */
static weft_status check_product(const struct device *device, const char *product)
{
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)strcspn(device->name, "-"), device->name);
    if (strcasestr(product, word))
        return WEFT_OK;
    return bad_argument("name a cluster of that device, such as hgx-h200:1",
                        "the plan is for %s, and this machine has %s", device->name, product);
}

static weft_status open_plan(struct measure_job *job)
{
    const struct plan_arguments *in = &job->options->plan;
    bool alone = in->names == 1 && access(in->name[0], F_OK) != 0;
    weft_status status = alone ? open_alone(job) : plan_open(in, &job->opened);
    if (status)
        return status;
    status = cluster_refuse_pools(job->opened.cluster, "measuring kernels");
    if (status)
        return status;
    const struct device *device = &job->opened.cluster->node.device;
    if (job->measure.kernels->device->product)
        return check_product(device, job->measure.kernels->device->product());
    if (strcmp(device->arch, "cpu") != 0)
        return bad_argument(
            "plan for this machine: `weft profile measure -o here.yaml` describes it",
            "the plan is for %s, and only this machine's cores can be measured", device->name);
    return WEFT_OK;
}

/* How many bytes to touch between two measurements so that data is as far away as in a step. Beyond twice the last
 * cache it cannot get any further away. */
static int64_t away_bytes(int64_t step_bytes, const struct device *device)
{
    int64_t most = 2 * device->l2_bytes;
    return step_bytes < most ? step_bytes : most;
}

/* Ranks that the plan puts onto this machine, or onto one of its GPUs, beside the one whose kernels are timed. Those that wait
 * for a core are not at work. */
static int32_t ranks_beside(const struct measure_job *job)
{
    const struct compute_device *device = job->measure.kernels->device;
    int64_t ranks = job->opened.cluster->node.devices, cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (device->count)
        return (int32_t)ceil_div(ranks, device->count()) - 1;
    return (int32_t)(ranks < cores ? ranks : cores) - 1;
}

/* Ranks that share a core, where there are more of them than cores: a GPU's work does not wait for one. */
static double ranks_per_core(const struct cluster *cluster)
{
    double cores = (double)sysconf(_SC_NPROCESSORS_ONLN);
    return fmax(1, (double)cluster->node.devices / cores);
}

static void find_company(struct measure_job *job)
{
    job->measure.beside = ranks_beside(job);
    if (!job->measure.kernels->device->count)
        job->measure.crowd = ranks_per_core(job->opened.cluster);
    job->measure.alone = job->options->alone && job->measure.beside > 0;
    if (job->measure.beside > 0)
        job->measure.source = arena_printf(job->arena, "%s, %d ranks at work", job->measure.source,
                                           job->measure.beside + 1);
    if (job->measure.crowd > 1)
        job->measure.source =
            arena_printf(job->arena, "%s, %g to a core", job->measure.source, job->measure.crowd);
}

static weft_status measure_plan(struct measure_job *job)
{
    struct asks *asks = &job->asks;
    weft_status status;
    bool gpu = job->measure.kernels->device->product != NULL;
    const struct device *core =
        gpu ? &job->opened.cluster->node.device : &job->machine->node.device;
    TRY(asks_of_plan(job->arena, job->opened.plan, asks));
    find_company(job);
    job->measure.device = job->opened.cluster->node.device.name;
    job->measure.away_bytes = away_bytes(asks->step_bytes, core);
    job->measure.memory_bytes = core->memory_bytes / 2;
    if (gpu) /* what fills its caches must last until the host has given it a kernel */
        job->measure.away_bytes = 4 * core->l2_bytes;
    if (job->answers)
        TRY(measure_asks(asks, &job->measure, job->arena, &job->measured));
done:
    return status;
}

/* Of all-reduces beside kernels: so large that latency is a small part of it, and so small that several end in the time for
 * which kernels are timed. */
enum { INTERFERENCE_BYTES = 4 << 20 };

static weft_status measure_interference(struct measure_job *job)
{
    const struct measure_command *options = job->options;
    struct overlap_request request = {.asks = &job->asks,
                                      .kernels = &job->measured,
                                      .bytes = options->most_bytes < INTERFERENCE_BYTES
                                                   ? options->most_bytes
                                                   : INTERFERENCE_BYTES};
    if (!job->transport)
        return measure_thread_overlap((int32_t)options->ranks, &job->measure, &request, job->arena,
                                      &job->overlaps);
    return measure_overlap(job->transport, &job->measure, &request, job->arena, &job->overlaps);
}

static weft_status set_machine(struct measure_job *job, int64_t ranks)
{
    cluster_free(job->machine);
    job->machine = NULL;
    weft_status status = cluster_ranks((int32_t)ranks, &job->machine);
    if (!status)
        job->measure.device = job->machine->node.device.name;
    return status;
}

static weft_status measure_ranks(struct measure_job *job)
{
    const struct measure_command *options = job->options;
    job->measure.away_bytes = away_bytes(INT64_MAX, &job->machine->node.device);
    if (!job->transport)
        return measure_thread_transfers((int32_t)options->ranks, &job->measure, options->most_bytes,
                                        job->arena, &job->transfers);
    return measure_transfers(job->transport, &job->measure, options->most_bytes, job->arena,
                             &job->transfers);
}

/* What a launcher has started. */
static weft_status open_ranks(struct measure_job *job)
{
    struct rendezvous at;
    weft_status status;
    if (job->options->ranks_are == RANKS_TCP && !launched_apart(&at))
        TRY(bad_argument("such as: torchrun --no-python --nproc-per-node 2 weft profile measure "
                         "--collectives --transport tcp",
                         "no launcher says where rank 0 is"));
    TRY(job->options->ranks_are == RANKS_TCP ? transport_sockets(&at, &job->transport)
                                             : transport_mpi(&job->transport));
    job->answers = job->transport->rank == 0;
    if (job->transport->ranks < 2)
        TRY(bad_argument("such as: mpirun -n 2 weft profile measure --collectives --transport mpi",
                         "the launcher has started one rank, and transfers need at least 2"));
done:
    return status;
}

static weft_status write_machine(struct measure_job *job)
{
    struct core_rates rates = core_rates(&job->measure, job->machine->node.device.l2_bytes);
    double crowd = ranks_per_core(job->machine);
    rates = (struct core_rates){rates.flops_per_s / crowd, rates.bytes_per_s / crowd, crowd};
    return file_write_text(
        job->options->output,
        machine_text(job->arena, job->machine, &rates, job->measure.source, &job->transfers));
}

static weft_status open_job(struct measure_job *job)
{
    const struct measure_command *options = job->options;
    char host[256] = "";
    weft_status status;
    TRY(check_options(options));
    job->measure = measure_defaults();
    if (options->ranks_are != RANKS_THREADS && (options->collectives || options->interference))
        TRY(open_ranks(job));
    if (job->transport && options->device)
        job->measure.carrier = backend_carrier(options->device);
    int32_t place = job->transport ? job->transport->rank : 0;
    TRY(backend_open(options->device ? options->device : "cpu", place, &job->measure.kernels));
    const char *(*product)(void) = job->measure.kernels->device->product;
    if (product && options->output)
        TRY(bad_argument("leave -o out", "cluster files are written of this machine's cores"));
    if (product && options->collectives && options->plan.names == 0)
        TRY(bad_argument("name a model and a cluster of such GPUs, such as gpt2 h200:1x2",
                         "transfers between which GPUs?"));
    TRY(set_machine(job, job->transport ? job->transport->ranks : options->ranks));
    gethostname(host, sizeof host - 1);
    job->measure.db = options->db;
    job->measure.precision = options->precision;
    job->measure.budget_s = (double)options->budget_ns / 1e9;
    job->measure.stop = &interrupted;
    job->measure.machine = arena_copy_text(job->arena, host);
    const struct product_choices *choices = job->measure.kernels->choices;
    job->measure.source =
        arena_printf(job->arena, "measured on %s%s%s by weft %s",
                     product ? product() : job->machine->node.device.name, choices ? " with " : "",
                     choices ? choices->library() : "", WEFT_VERSION);
    if (isatty(STDERR_FILENO))
        job->measure.progress = show_progress;
done:
    return status;
}

static weft_status run_job(struct measure_job *job)
{
    weft_status status;
    TRY(open_job(job));
    signal(SIGINT, interrupt);
    if (job->options->plan.names > 0)
        TRY(open_plan(job));
    if (job->options->plan.names > 0 && job->measure.kernels->device->product)
        job->measure.device = job->opened.cluster->node.device.name;
    if (job->options->collectives)
        TRY(measure_ranks(job));
    if (job->options->plan.names > 0 && (job->answers || job->options->interference))
        TRY(measure_plan(job));
    if (job->options->interference)
        TRY(measure_interference(job));
    if (job->answers && job->options->output && !job->transfers.stopped)
        TRY(write_machine(job));
done:
    signal(SIGINT, SIG_DFL);
    if (job->measure.progress)
        fprintf(cli_terminal(), "\r%*s\r", 72, "");
    return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

static void warn_of_others(const struct measure_job *job)
{
    int64_t cases = 0, factors = 0;
    for (size_t i = 0; i < job->transfers.len; i++)
        cases += !job->transfers.data[i].known && !job->transfers.data[i].trusted;
    for (size_t i = 0; i < job->overlaps.len; i++)
        factors += !job->overlaps.data[i].known && !job->overlaps.data[i].trusted;
    if (cases > 0)
        fprintf(stderr,
                "weft: other programs had the cores during %lld of %zu transfers, marked !: these "
                "times are too long and are not stored; measure again on an idle machine\n",
                (long long)cases, job->transfers.len);
    if (factors > 0)
        fprintf(stderr,
                "weft: the factors of %lld of %zu kernels, marked !, differ from round to round by "
                "more than they say and are not stored; measure again on an idle machine\n",
                (long long)factors, job->overlaps.len);
}

int cmd_profile_measure(int argc, char **argv)
{
    struct measure_command options = {.plan = {.arena = arena_new(), .named_elsewhere = true},
                                      .precision = measure_defaults().precision,
                                      .ranks = 2,
                                      .most_bytes = 64 << 20};
    cli_read(&SYNTAX, argc, argv, &options);
    cli_take_better_blas(options.plan.arena);
    struct measure_job job = {.options = &options, .arena = options.plan.arena, .answers = true};
    weft_status status = run_job(&job);
    if (!status && job.answers)
        warn_of_others(&job);
    int code = status         ? cli_fail(status)
               : !job.answers ? WEFT_OK
               : options.json ? measure_json(&job)
                              : measure_text(&job);
    if (job.transport)
        job.transport->kind->close(job.transport);
    plan_close(&job.opened);
    cluster_free(job.machine);
    arena_free(options.plan.arena);
    return code;
}
