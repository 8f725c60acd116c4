/* test_run_mpi.c - the same runs over MPI: under mpirun this program is a rank, else it starts them.
 *
 * Every rank also runs the plan's one-rank form by itself, and compares the losses and its own weights. Three ranks check
 * every kind of transfer against sums by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <dlfcn.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "mpirun.h"
#include "random_plan.h"
#include "run_lab.h"
#include "three_ranks.h"

void openblas_set_num_threads(int threads);

enum { GPT = 0, MOE = 6 };

static const struct row {
    const char *name;
    int ranks;
    struct degrees degrees;
    int model; /* of SMALL_MODELS */
} ROWS[] = {
    {"dp 2, zero 1", 2, {.dp = 2, .shard = 1, .global_batch = 4}},
    {"tp 2, sp", 2, {.tp = 2, .sequence = true, .global_batch = 4}},
    {"pp 2, tied", 2, {.pp = 2, .global_batch = 4}},
    {"zero 3, recompute", 2, {.dp = 2, .shard = 3, .global_batch = 4, .recompute = RECOMPUTE_FULL}},
    {"aiao, pp 2, dp 2", 4, {.pp = 2, .dp = 2, .segments = 2, .shard = 1, .global_batch = 8}},
    {"tp 2, dp 2, cp 1, sp", 4, {.tp = 2, .dp = 2, .sequence = true, .global_batch = 4}},
    {"cp 4", 4, {.cp = 4, .global_batch = 4}},
    {"zb-h1, pp 4", 4, {.pp = 4, .global_batch = 8, .schedule = "zb-h1"}},
    {"zero 2", 2, {.dp = 2, .shard = 2, .global_batch = 8}},
    {"interleaved, pp 2", 2, {.pp = 2, .pieces = 2, .global_batch = 8, .schedule = "interleaved"}},
    {"offload, recompute, pp 2",
     2,
     {.pp = 2, .segments = 2, .global_batch = 8, .recompute = RECOMPUTE_FULL, .offload = true}},
    {"pp 2, tp 2, sp", 4, {.pp = 2, .tp = 2, .sequence = true, .global_batch = 8}},
    {"zero 1 in 2 groups", 4, {.dp = 4, .shard = 1, .replicate = 2, .global_batch = 8}},
    {"zero 3, tp 2", 4, {.dp = 2, .tp = 2, .shard = 3, .global_batch = 8}},
    {"moe, ep 2", 2, {.dp = 2, .ep = 2, .global_batch = 4}, MOE},
    {"moe, tp 2, sp", 2, {.tp = 2, .sequence = true, .global_batch = 2}, MOE},
};
enum { STEPS = 5, FEWEST_STEPS = 2, STEPS_ON_GPU = 20 };

/* ---- a rank ---------------------------------------------------------------------------------- */

struct comparing {
    const struct trained *one;
    double worst;
};

static void compare_weight(void *context, struct run_weight *weight)
{
    struct comparing *c = context;
    for (int i = 0; i < c->one->weights; i++) {
        const struct trained_weight *w = &c->one->weight[i];
        if (strcmp(w->name, weight->name) != 0)
            continue;
        for (int64_t k = 0; k < weight->count; k++) {
            int64_t element = layout_element(weight->layout, weight->device, weight->first + k);
            if (element >= weight->elements)
                continue;
            double error = fabs((double)w->value[element] - (double)weight->value[k]);
            if (!(error <= c->worst))
                c->worst = error;
        }
        return;
    }
    c->worst = INFINITY;
}

static struct plan *plan_of(const struct model *model, const struct cluster *cluster,
                            struct degrees d)
{
    struct plan *plan = NULL;
    d.has_dtype = true;
    d.dtype = DTYPE_FP32;
    if (plan_from_degrees(model, cluster, &d, &plan) != WEFT_OK) {
        fprintf(stderr, "%s\n", weft_last_error()->message);
        exit(1);
    }
    return plan;
}

static bool same_over_mpi(struct transport *transport, const struct row *row,
                          const struct model *model, struct cluster **clusters)
{
    struct plan *plan = plan_of(model, clusters[1], row->degrees);
    struct degrees alone = {.micro_batch = plan->step_samples, .global_batch = plan->global_batch};
    struct plan *serial = plan_of(model, clusters[0], alone);
    bool gpu = lab_backend() != &CPU_KERNELS;
    int steps = gpu                              ? STEPS_ON_GPU
                : cases_of(STEPS) > FEWEST_STEPS ? cases_of(STEPS)
                                                 : FEWEST_STEPS;
    struct laboratory lab = {.plan = serial, .options = lab_options(model), .steps = steps};
    struct trained *one = run_lab(&lab);
    struct comparing c = {one, 0};
    struct run_options options = lab.options;
    struct rank *rank = NULL;
    double loss = 0, worst = one->status == WEFT_OK ? 0 : INFINITY;
    options.plan = plan;
    options.transport = transport;
    if (gpu)
        options.carrier = backend_carrier("cuda");
    weft_status status;
    TRY(run_open(&options, &rank));
    for (int i = 0; i < steps; i++) {
        TRY(run_step(rank, &loss));
        worst = fmax(worst, fabs(loss - one->loss[i]) / one->loss[i]);
    }
    TRY(run_weights(rank, compare_weight, &c));
done:
    if (gpu && transport->rank == 0)
        fprintf(stderr, "%s: loss %.1e, weights %.1e\n", row->name, worst, c.worst);
    if (status != WEFT_OK || worst > 1e-5 || c.worst > 1e-5)
        fprintf(stderr, "rank %d, %s: loss %.1e, weights %.1e, %s\n", transport->rank, row->name,
                worst, c.worst, status ? weft_last_error()->message : "");
    run_close(rank);
    trained_free(one);
    plan_free(plan);
    plan_free(serial);
    return status == WEFT_OK && worst <= 1e-5 && c.worst <= 1e-5;
}

/* NCCL takes processes for ranks of one GPU only if each says that it is on a host of its own. */
static void share_a_gpu(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    setenv("NCCL_HOSTID", rank ? rank : "0", 0);
    setenv("NCCL_P2P_DISABLE", "1", 0);
    setenv("NCCL_SHM_DISABLE", "1", 0);
    setenv("NCCL_NET", "Socket", 0);
    setenv("NCCL_SOCKET_IFNAME", "lo", 0);
}

static int be_a_rank(void)
{
    struct transport *transport;
    struct model *gpt = open_small(&SMALL_MODELS[GPT]), *moe = open_small(&SMALL_MODELS[MOE]);
    char name[32];
    int wrong = 0;
    openblas_set_num_threads(1);
    share_a_gpu();
    if (transport_mpi(&transport) != WEFT_OK) {
        fprintf(stderr, "%s\n", weft_last_error()->message);
        return 1;
    }
    for (size_t i = 0; transport->ranks == RANKS && i < COUNT_OF(TRANSFER_CHECKS); i++)
        TRANSFER_CHECKS[i](transport, &wrong);
    snprintf(name, sizeof name, "piz-daint:%d", transport->ranks);
    struct cluster *clusters[] = {open_named("piz-daint:1"), open_named(name)};
    size_t step = rounds_of(100) < 100 ? 3 : 1; /* what sanitizers see is alike in many rows */
    for (size_t i = 0; i < COUNT_OF(ROWS); i += step)
        if (ROWS[i].ranks == transport->ranks && lab_runs(ROWS[i].model == MOE ? moe : gpt))
            wrong +=
                !same_over_mpi(transport, &ROWS[i], ROWS[i].model == MOE ? moe : gpt, clusters);
    transport->kind->close(transport);
    cluster_free(clusters[0]);
    cluster_free(clusters[1]);
    model_free(gpt);
    model_free(moe);
    return wrong > 0;
}

/* ---- who starts them ------------------------------------------------------------------------- */

static const char *self;

/* The exit code of a command, and what it wrote. */
static int run_command(const char *command, char *text, size_t size)
{
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t got = fread(text, 1, size - 1, pipe);
    text[got] = '\0';
    while (fgetc(pipe) != EOF)
        ;
    return WEXITSTATUS(pclose(pipe));
}

static void run_ranks(int ranks)
{
    char command[1024], text[4096];
    snprintf(command, sizeof command, "OMP_NUM_THREADS=1 " MPIRUN "-n %d '%s' rank 2>&1", ranks,
             self);
    int code = run_command(command, text, sizeof text);
    if (code != 0)
        fail_msg("%d ranks: exit code %d: %s", ranks, code, text);
}

static void test_runs_over_mpi(void **state)
{
    (void)state;
    char text[4096];
    if (!WEFT_WITH_MPI || run_command("mpirun --version 2>/dev/null", text, sizeof text) != 0)
        skip();
    run_ranks(2);
    run_ranks(RANKS);
    run_ranks(4);
}

/* ---- leaks of others ------------------------------------------------------------------------- */

#ifdef LEAKY_MODULE
/* Loads a module that loses memory, and unloads it as Open MPI does. */
static int be_leaky(void)
{
    void *module = dlopen(LEAKY_MODULE, RTLD_NOW);
    void (*lose)(void) = NULL;
    if (!module)
        return 1;
    *(void **)&lose = dlsym(module, "lose_memory");
    lose();
    return dlclose(module);
}

/* Under LeakSanitizer: what an unloaded module lost has its name, so that suppressions know it. */
static void test_leaks_of_unloaded_modules(void **state)
{
    (void)state;
    char command[1024], text[4096];
    snprintf(command, sizeof command, "'%s' leaky 2>&1", self);
    assert_int_not_equal(run_command(command, text, sizeof text), 0);
    assert_non_null(strstr(text, "lose_memory"));
    assert_null(strstr(text, "<unknown module>"));
    snprintf(command, sizeof command, FIND_LEAKS "'%s' leaky 2>&1", self);
    assert_int_equal(run_command(command, text, sizeof text), 0);
}
#else
static int be_leaky(void)
{
    return 1;
}

static void test_leaks_of_unloaded_modules(void **state)
{
    (void)state;
    skip();
}
#endif

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_runs_over_mpi),
                                       cmocka_unit_test(test_leaks_of_unloaded_modules)};
    self = argv[0];
    if (argc > 1 && strcmp(argv[1], "leaky") == 0)
        return be_leaky();
    if (argc > 1 && strcmp(argv[1], "rank") == 0)
        return be_a_rank();
    (void)random_plan;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
