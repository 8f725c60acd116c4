/* share.c - `weft share`: several plans at once on one cluster, and how they slow each other down. */
#include <stdio.h>
#include <string.h>

#include "cli/options.h"
#include "jobs/jobs.h"

enum { MOST_JOBS = 64, MOST_FAULTS = 64, USUAL_ITERATIONS = 4, MOST_ITERATIONS = 1000 };

struct share_command {
    struct arena *arena;
    const char *names[MOST_JOBS], *faults[MOST_FAULTS];
    int jobs, fault_count;
    const char *on, *place, *profile;
    int64_t iterations;
    bool json;
};

#define AT(field) offsetof(struct share_command, field)

/* ---- arguments ------------------------------------------------------------------------------- */

static void take_fault(struct argp_state *state, void *input, char *arg)
{
    struct share_command *options = input;
    if (options->fault_count == MOST_FAULTS)
        argp_error(state, "at most %d things can fail at once", MOST_FAULTS);
    options->faults[options->fault_count++] = arg;
}

static error_t take_names(int key, char *arg, struct argp_state *state)
{
    struct share_command *options = state->input;
    if (key == ARGP_KEY_NO_ARGS)
        argp_usage(state);
    if (key != ARGP_KEY_ARG)
        return ARGP_ERR_UNKNOWN;
    if (options->jobs == MOST_JOBS)
        argp_error(state, "at most %d jobs can share a cluster", MOST_JOBS);
    options->names[options->jobs++] = arg;
    return 0;
}

static const struct cli_option OPTIONS[] = {
    {"on", "CLUSTER", "the shared cluster (default: the first plan's, with the nodes of all jobs)",
     OPTION_TEXT, AT(on)},
    {"place", "HOW",
     "apart (default): each job in as few units of the fabric as possible; packed: one after the "
     "other; spread: over all units in turn; or each job's nodes, such as '0-3;4-7'",
     OPTION_TEXT, AT(place)},
    {"fail", "WHAT",
     "what is broken, nic=NODE:I or TIER=UNIT:PERCENT of its uplink that are left; may be repeated",
     OPTION_TAKE, .take = take_fault},
    {"iterations", "N", "iterations of the slowest job (default 4)", OPTION_COUNT, AT(iterations),
     .least = 1, .most = MOST_ITERATIONS},
    PROFILE_OPTION(AT(profile)),
    JSON_OPTION(AT(json)),
    {0},
};

static const struct syntax SYNTAX = {
    OPTIONS,
    "PLAN PLAN...",
    "Simulates several training jobs at once on one cluster. Each has nodes of its own; what they "
    "send between nodes shares the network's links fairly. The answer is each job's iteration "
    "alone and with its neighbours, and the link at which it loses most.\v"
    "A plan that is named twice is two jobs.\n\n"
    "Example:\n"
    "  weft share a.json b.json --on cluster.yaml:16\n"
    "  weft share a.json a.json --on cluster.yaml:16 --place spread\n"
    "  weft share a.json a.json --on cluster.yaml:16 --fail nic=3:0 --fail leaf=1:50",
    .names = take_names,
};

/* ---- jobs ------------------------------------------------------------------------------------ */

struct shared {
    const struct share_command *options;
    struct arena *arena;
    struct opened_plan opened[MOST_JOBS];
    struct cluster *given; /* of --on; NULL: none */
    struct cluster *cluster;
    struct shared_job job[MOST_JOBS];
    struct network_fault fault[MOST_FAULTS];
};

static bool same_machine(const struct cluster *a, const struct cluster *b)
{
    return a->node.devices == b->node.devices && a->node.nics == b->node.nics &&
           strcmp(a->node.device.name, b->node.device.name) == 0;
}

/* The first plan's cluster with the nodes of all jobs; of its fabric the last tier holds them all. */
static struct cluster *cluster_of_all(struct shared *s)
{
    struct cluster *all = ARENA_NEW(s->arena, struct cluster);
    *all = *s->opened[0].cluster;
    all->nodes = 0;
    for (int j = 0; j < s->options->jobs; j++)
        all->nodes += s->opened[j].cluster->nodes;
    if (all->fabric.tiers > 0)
        all->fabric.tier[all->fabric.tiers - 1].nodes = all->nodes;
    return all;
}

static weft_status open_jobs(struct shared *s)
{
    const struct share_command *options = s->options;
    weft_status status = WEFT_OK;
    for (int j = 0; j < options->jobs; j++) {
        TRY(plan_load(options->names[j], &s->opened[j]));
        s->job[j].placement.nodes = s->opened[j].cluster->nodes;
    }
    if (options->on)
        TRY(cluster_open(options->on, &s->given));
    s->cluster = s->given ? s->given : cluster_of_all(s);
    TRY(cluster_refuse_pools(s->cluster, "sharing a network among jobs"));
    for (int j = 0; j < options->jobs && !status; j++)
        if (!same_machine(s->cluster, s->opened[j].cluster))
            status = bad_argument("plan it for these machines",
                                  "%s is a plan for %s, which are not the nodes of %s",
                                  options->names[j], s->opened[j].cluster->name, s->cluster->name);
done:
    return status;
}

static weft_status read_placements(struct shared *s)
{
    char *rest = arena_copy_text(s->arena, s->options->place), *word;
    weft_status status = WEFT_OK;
    bool *taken = ARENA_ARRAY(s->arena, bool, (size_t)s->cluster->nodes);
    int read = 0;
    for (; read < s->options->jobs && (word = strsep(&rest, ";")) != NULL; read++) {
        struct placement *at = &s->job[read].placement;
        TRY(placement_read(s->arena, s->cluster, word, at->nodes, at));
        for (int64_t i = 0; i < at->nodes; i++) {
            if (taken[at->node[i]])
                return bad_argument(NULL, "--place gives node %lld to two jobs",
                                    (long long)at->node[i]);
            taken[at->node[i]] = true;
        }
    }
    if (read < s->options->jobs || rest)
        status =
            bad_argument("one list for each job, such as '0-3;4-7'",
                         "--place '%s' has not as many lists as there are jobs", s->options->place);
done:
    return status;
}

static weft_status place_jobs(struct shared *s)
{
    struct placement placement[MOST_JOBS];
    enum placing placing = PLACING_APART;
    weft_status status;
    if (s->options->place && !placing_from_name(s->options->place, &placing)) {
        TRY(read_placements(s));
    } else {
        for (int j = 0; j < s->options->jobs; j++)
            placement[j] = s->job[j].placement;
        TRY(jobs_place(s->arena, s->cluster, placing, placement, s->options->jobs));
        for (int j = 0; j < s->options->jobs; j++)
            s->job[j].placement = placement[j];
    }
    for (int j = 0; j < s->options->jobs; j++) {
        s->opened[j].plan->cluster = placed_cluster(s->arena, s->cluster, &s->job[j].placement);
        s->job[j].plan = s->opened[j].plan;
    }
done:
    return status;
}

/* ---- the answer ------------------------------------------------------------------------------ */

static void print_answer(struct shared *s, const struct jobs_result *result, FILE *out)
{
    static const char *const HEADERS[] = {"job",  "nodes",   "alone",        "shared",
                                          "slow", "longest", "loses most at"};
    static const enum align ALIGNS[] = {ALIGN_LEFT,  ALIGN_LEFT,  ALIGN_RIGHT, ALIGN_RIGHT,
                                        ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_LEFT};
    struct table *table = table_new(s->arena, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    for (int j = 0; j < s->options->jobs; j++) {
        const struct job_result *r = &result->job[j];
        table_cell(table, "%d %s", j, s->job[j].plan->model->name);
        table_cell(table, "%s", placement_text(s->arena, &s->job[j].placement));
        table_cell(table, "%s", show_seconds(r->iteration_s / r->slowdown * 1e9).s);
        table_cell(table, "%s", show_seconds(r->iteration_s * 1e9).s);
        table_cell(table, "x%.3f", r->slowdown);
        table_cell(table, "%s", show_seconds((double)r->longest_ns).s);
        if (r->held_at)
            table_cell(table, "%s: %s", r->held_at, show_duration((double)r->held_ns).s);
        else
            table_cell(table, "-");
    }
    fprintf(out, "%s of %s, %s\n\n", counted(s->options->jobs, "job").s, s->cluster->name,
            counted(s->cluster->nodes, "node").s);
    table_print(table, out);
}

static json_t *nodes_json(const struct placement *placement)
{
    json_t *nodes = json_array();
    for (int64_t i = 0; i < placement->nodes; i++)
        json_array_append_new(nodes, json_integer((json_int_t)placement->node[i]));
    return nodes;
}

static json_t *answer_json(const struct shared *s, const struct jobs_result *result)
{
    json_t *jobs = json_array();
    for (int j = 0; j < s->options->jobs; j++) {
        const struct job_result *r = &result->job[j];
        json_t *job = json_pack(
            "{s:o, s:o, s:f, s:f, s:f, s:f, s:i}", "model", json_text(s->job[j].plan->model->name),
            "nodes", nodes_json(&s->job[j].placement), "alone_s", r->iteration_s / r->slowdown,
            "shared_s", r->iteration_s, "slowdown", r->slowdown, "longest_s",
            (double)r->longest_ns * 1e-9, "iterations", r->iterations);
        json_object_set_new(job, "held_at", r->held_at ? json_text(r->held_at) : json_null());
        json_object_set_new(job, "held_s", json_real((double)r->held_ns * 1e-9));
        json_array_append_new(jobs, job);
    }
    return json_pack("{s:o, s:I, s:o}", "cluster", json_text(s->cluster->name), "nodes",
                     (json_int_t)s->cluster->nodes, "jobs", jobs);
}

/* ---- running --------------------------------------------------------------------------------- */

static weft_status answer(struct shared *s)
{
    const struct share_command *options = s->options;
    struct jobs_result result = {0};
    weft_status status;
    TRY(open_jobs(s));
    TRY(place_jobs(s));
    for (int i = 0; i < options->fault_count; i++)
        TRY(fault_read(s->cluster, options->faults[i], &s->fault[i]));
    struct jobs_request request = {.cluster = s->cluster,
                                   .job = s->job,
                                   .jobs = options->jobs,
                                   .fault = s->fault,
                                   .faults = options->fault_count,
                                   .iterations = (int32_t)options->iterations,
                                   .profile = options->profile};
    TRY(jobs_run(s->arena, &request, &result));
    if (options->json)
        status = (weft_status)cli_print_json(answer_json(s, &result));
    else
        print_answer(s, &result, stdout);
done:
    return status;
}

int cmd_share(int argc, char **argv)
{
    struct share_command options = {.arena = arena_new(), .iterations = USUAL_ITERATIONS};
    cli_read(&SYNTAX, argc, argv, &options);
    cli_warn_missing();
    struct shared *s = ARENA_NEW(options.arena, struct shared);
    *s = (struct shared){.options = &options, .arena = options.arena};
    weft_status status = answer(s);
    int code = status ? cli_fail(status) : WEFT_OK;
    for (int j = 0; j < options.jobs; j++)
        plan_close(&s->opened[j]);
    cluster_free(s->given);
    arena_free(options.arena);
    return code;
}
