/* goals.c - what `weft plan` looks for (goals.h). */
#include "cli/goals.h"

#include <string.h>

#include "campaign/campaign.h"

/* Above those of degrees, because children share the keys of their parent. */
enum {
    GOAL_OBJECTIVE = 512,
    GOAL_DEADLINE,
    GOAL_SAMPLES,
    GOAL_TOKENS,
    GOAL_MAX_DEVICES,
    GOAL_FORBID,
    GOAL_FOR,
    GOAL_SIMPLEST
};

static const struct argp_option OPTIONS[] = {
    {NULL, 0, NULL, 0, "What to look for:", 2},
    {"objective", GOAL_OBJECTIVE, "O", 0,
     "time: of an iteration (default); throughput: over batch sizes; cost: money per sample, over "
     "sizes of the cluster; days, energy: of all --tokens or --samples with failures and "
     "checkpoints "
     "(weft days), over sizes of the cluster",
     2},
    {"deadline", GOAL_DEADLINE, "TIME", 0,
     "the smallest cluster that trains --samples or --tokens in this time, such as 30d", 2},
    {"samples", GOAL_SAMPLES, "N", 0, "samples of the whole training", 2},
    {"tokens", GOAL_TOKENS, "N", 0, "tokens of the whole training, such as 300e9 or 15T", 2},
    {"max-devices", GOAL_MAX_DEVICES, "N", 0,
     "the smallest cluster of at most N devices on which a plan fits", 2},
    {"for", GOAL_FOR, "TARGET", 0,
     "search only plans that this framework runs, such as torchtitan, or a release of it, such as "
     "megatron@0.16",
     2},
    {"simplest", GOAL_SIMPLEST, "PERCENT", 0,
     "of the plans within so many percent of the fastest take the simplest that leaves memory free "
     "(default 1; 0: the fastest)",
     2},
    {"forbid", GOAL_FORBID, "LIST", 0, "what a plan must not do, such as pp,zero=3,recompute=full",
     2},
    {0},
};

static const char *const OBJECTIVES[] = {[OBJECTIVE_TIME] = "time",
                                         [OBJECTIVE_THROUGHPUT] = "throughput",
                                         [OBJECTIVE_COST] = "cost",
                                         [OBJECTIVE_DAYS] = "days",
                                         [OBJECTIVE_ENERGY] = "energy"};
_Static_assert(COUNT_OF(OBJECTIVES) == OBJECTIVE_COUNT, "an objective without a name");

static void take_objective(struct argp_state *state, struct goals *goals, const char *arg)
{
    for (int i = 0; i < OBJECTIVE_COUNT; i++)
        if (strcmp(arg, OBJECTIVES[i]) == 0) {
            goals->objective = (enum objective)i;
            return;
        }
    argp_error(state, "--objective is '%s', expected time, throughput, cost, days or energy", arg);
}

static void take_number(struct argp_state *state, const char *option, const char *arg, double *out)
{
    static const double most = 1e18;
    if (!parse_many(arg, out) || *out <= 0 || *out >= most)
        argp_error(state,
                   "--%s takes a number above 0 and below %g, such as 300e9 or 15T, not '%s'",
                   option, most, arg);
}

const struct target *take_target(struct argp_state *state, const char *arg)
{
    const struct target *target = target_find(arg);
    const weft_error *error = weft_last_error();
    if (!target)
        argp_error(state, "--for: %s%s%s", error->message, error->hint ? "; " : "",
                   error->hint ? error->hint : "");
    return target;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct goals *goals = state->input;
    switch (key) {
    case GOAL_OBJECTIVE:
        take_objective(state, goals, arg);
        return 0;
    case GOAL_DEADLINE:
        if (!parse_duration(arg, &goals->deadline_ns) || goals->deadline_ns <= 0)
            argp_error(state, "--deadline takes a time such as 30d or 12h, not '%s'", arg);
        return 0;
    case GOAL_SAMPLES:
        take_number(state, "samples", arg, &goals->samples);
        return 0;
    case GOAL_TOKENS:
        take_number(state, "tokens", arg, &goals->tokens);
        return 0;
    case GOAL_MAX_DEVICES:
        if (!parse_int(arg, &goals->max_devices) || goals->max_devices < 1)
            argp_error(state, "--max-devices takes a whole number of at least 1, not '%s'", arg);
        return 0;
    case GOAL_FOR:
        goals->target = take_target(state, arg);
        return 0;
    case GOAL_SIMPLEST:
        if (!parse_percent(arg, &goals->simplest) || goals->simplest < 0 || goals->simplest > 100)
            argp_error(state, "--simplest takes percent from 0 to 100, not '%s'", arg);
        goals->simplest /= 100;
        return 0;
    case GOAL_FORBID:
        if (forbid_parse(goals->arena, arg, &goals->forbids) != WEFT_OK)
            argp_error(state, "--forbid: %s; %s", weft_last_error()->message,
                       weft_last_error()->hint);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp GOALS_ARGP = {OPTIONS, parse_option, NULL, NULL, NULL, NULL, NULL};

weft_status goals_check(const struct goals *goals, bool *sizes)
{
    bool whole = goals->samples > 0 || goals->tokens > 0;
    bool scored = goals->objective == OBJECTIVE_DAYS || goals->objective == OBJECTIVE_ENERGY;
    *sizes =
        goals->deadline_ns || goals->max_devices || goals->objective == OBJECTIVE_COST || scored;
    if (scored && !whole)
        return bad_argument("such as --tokens 300e9",
                            "days and energy are of the whole training: of how many tokens?");
    if (goals->deadline_ns && !whole)
        return bad_argument("such as --deadline 30d --tokens 300e9",
                            "a deadline needs the --samples or --tokens of the whole training");
    if (goals->samples > 0 && goals->tokens > 0)
        return bad_argument("leave one of them out", "--samples and --tokens say the same twice");
    if (whole && !*sizes)
        return bad_argument("add --deadline, --max-devices or --objective cost",
                            "--samples and --tokens choose the size of a cluster");
    return WEFT_OK;
}

/* ---- clusters of other sizes ----------------------------------------------------------------- */

/* Replaces the number of nodes in "dgx-a100:16" or "dgx-a100:2x4", or adds one to "dgx-a100". */
const char *goals_cluster_name(struct arena *keep, const char *cluster, int64_t nodes)
{
    cluster = cluster_meant(keep, cluster);
    const char *colon = strrchr(cluster, ':');
    bool counted = colon && colon[1] >= '0' && colon[1] <= '9';
    int length = counted ? (int)(colon - cluster) : (int)strlen(cluster);
    const char *part = counted ? strchr(colon, 'x') : NULL;
    return arena_printf(keep, "%.*s:%lld%s", length, cluster, (long long)nodes, part ? part : "");
}

struct kind {
    struct arena *arena;
    const char *cluster;
    const struct model *model;
    enum objective objective;
    double samples;
};

static weft_status open_size(void *context, int64_t nodes, struct cluster **out)
{
    const struct kind *kind = context;
    weft_status status;
    TRY(cluster_open(goals_cluster_name(kind->arena, kind->cluster, nodes), out));
    if (kind->objective == OBJECTIVE_COST) /* the cluster file's price, or a published one */
        (*out)->node.device.price_per_hour = cluster_tariff(*out).price_per_hour;
done:
    return status;
}

/* Days of the whole training with everything as usual, or the energy that it takes in kWh. */
static weft_status score_size(void *context, const struct cluster *cluster,
                              const struct trial *best, double *out)
{
    const struct kind *kind = context;
    struct plan *lowered = NULL;
    struct course course;
    weft_status status = WEFT_OK;
    if (!best->plan)
        TRY(plan_from_degrees(kind->model, cluster, &best->degrees, &lowered));
    double iteration_s = (double)best->iteration_ns * 1e-9;
    double iterations = kind->samples / (double)best->global_batch;
    TRY(usual_course(best->plan ? best->plan : lowered, iterations, iteration_s, &course));
    double all_s = expect(&course, best_checkpoints(&course)).all_s;
    struct tariff tariff = cluster_tariff(cluster);
    double devices = (double)((cluster->nodes + course.spares) * cluster->node.devices);
    *out = kind->objective == OBJECTIVE_DAYS ? all_s / 86400 : bill_of(&tariff, devices, all_s).kwh;
done:
    plan_free(lowered);
    return status;
}

static weft_status check_price(const struct goals *goals, const struct cluster *cluster)
{
    if (goals->objective != OBJECTIVE_COST || cluster_tariff(cluster).price_per_hour > 0)
        return WEFT_OK;
    return bad_argument(
        "a cluster file says price_per_hour of its device (docs/reference/cluster-file.md)",
        "what a device of %s costs is not known", cluster->name);
}

weft_status goals_search(const struct goals *goals, const struct planner *planner,
                         const struct plan_request *request, const char *cluster,
                         struct sized **out)
{
    double samples =
        goals->tokens > 0 ? goals->tokens / (double)request->model->seq : goals->samples;
    struct kind kind = {goals->arena, cluster, request->model, goals->objective, samples};
    bool scored = goals->objective == OBJECTIVE_DAYS || goals->objective == OBJECTIVE_ENERGY;
    int64_t per_node = request->cluster->node.devices;
    struct size_request sizes = {.planner = planner,
                                 .plan = *request,
                                 .goal = scored                               ? SIZE_LOWEST
                                         : goals->objective == OBJECTIVE_COST ? SIZE_CHEAPEST
                                                                              : SIZE_SMALLEST,
                                 .most_nodes = goals->max_devices ? goals->max_devices / per_node
                                                                  : request->cluster->nodes,
                                 .samples = samples,
                                 .deadline_s = (double)goals->deadline_ns * 1e-9,
                                 .open = open_size,
                                 .score = scored ? score_size : NULL,
                                 .context = &kind};
    weft_status status;
    TRY(cluster_refuse_pools(request->cluster, "a search over numbers of nodes"));
    TRY(check_price(goals, request->cluster));
    if (sizes.most_nodes < 1)
        TRY(bad_argument(NULL, "a node of %s has %s, more than --max-devices %lld",
                         request->cluster->name, counted(per_node, "device").s,
                         (long long)goals->max_devices));
    TRY(size_search(&sizes, out));
done:
    return status;
}

/* ---- showing --------------------------------------------------------------------------------- */

/* Hours below two days. */
static struct text32 training_text(double seconds)
{
    double hours = seconds / 3600;
    struct text32 text;
    snprintf(text.s, sizeof text.s, "%.1f %s", hours < 48 ? hours : hours / 24,
             hours < 48 ? "h" : "d");
    return text;
}

void chosen_size_print(const struct sized *sized, FILE *out)
{
    const struct size *s = sized ? &sized->sizes.data[sized->chosen] : NULL;
    if (!s || !s->does)
        return;
    fprintf(out, "%s, the best of %s", counted(s->devices, "device").s,
            counted((int64_t)sized->sizes.len, "size").s);
    fputs(" of the cluster", out);
    if (s->training_s > 0)
        fprintf(out, ": the whole training takes %s", training_text(s->training_s).s);
    fputs("\n\n", out);
}

void sizes_print(struct arena *scratch, const struct goals *goals, const struct sized *sized,
                 FILE *out)
{
    const char *score = goals->objective == OBJECTIVE_ENERGY ? "kWh in all" : "days in all";
    const char *const headers[] = {"nodes",     "devices",  "iteration",
                                   "samples/s", "training", "money per 1000 samples",
                                   score,       ""};
    static const enum align ALIGNS[] = {ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT,
                                        ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_LEFT};
    struct table *table = table_new(scratch, COUNT_OF(headers), headers, ALIGNS);
    for (size_t i = 0; i < sized->sizes.len; i++) {
        const struct size *s = &sized->sizes.data[i];
        const char *note = !s->fits ? "does not fit" : s->does ? "" : "too slow";
        table_cell(table, "%lld", (long long)s->nodes);
        table_cell(table, "%lld", (long long)s->devices);
        table_cell(table, "%s", show_seconds(s->iteration_s * 1e9).s);
        table_cell(table, "%s", show_count(s->samples_per_s).s);
        table_cell(table, "%s", s->training_s > 0 ? training_text(s->training_s).s : "");
        table_cell(table, "%s",
                   s->money_per_sample > 0
                       ? arena_printf(scratch, "%.3f", 1000 * s->money_per_sample)
                       : "");
        table_cell(table, "%s", s->score > 0 ? arena_printf(scratch, "%.1f", s->score) : "");
        table_cell(table, "%s", i == sized->chosen && s->does ? "chosen" : note);
    }
    fputs("\nsizes of the cluster:\n\n", out);
    table_print(table, out);
}

json_t *sizes_json(const struct sized *sized)
{
    json_t *all = json_array();
    for (size_t i = 0; i < sized->sizes.len; i++) {
        const struct size *s = &sized->sizes.data[i];
        json_array_append_new(
            all,
            json_pack("{s:I, s:I, s:b, s:b, s:b, s:f, s:f, s:f, s:f, s:f}", "nodes",
                      (json_int_t)s->nodes, "devices", (json_int_t)s->devices, "fits", s->fits,
                      "does", s->does, "chosen", i == sized->chosen && s->does, "iteration_s",
                      s->iteration_s, "samples_per_s", s->samples_per_s, "training_s",
                      s->training_s, "money_per_sample", s->money_per_sample, "score", s->score));
    }
    return all;
}

weft_status sizes_must_do(const struct sized *sized)
{
    const struct size *s = &sized->sizes.data[sized->chosen];
    if (s->does || !s->fits)
        return WEFT_OK; /* must_fit has already said that the plan does not fit */
    return no_answer("raise --max-devices, or give it more time",
                     "no size meets the deadline: on %s the training takes %s",
                     counted(s->devices, "device").s, training_text(s->training_s).s);
}
