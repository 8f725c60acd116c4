/* planned.c - writes what a search found as text and as JSON. */
#include "report/report.h"
#include "runs/runs.h"

#include <string.h>

static double ns_per_sample(const struct trial *trial)
{
    return (double)trial->iteration_ns / (double)trial->global_batch;
}

static int64_t evaluated(const struct planned *planned)
{
    return planned->candidates + (int64_t)planned->trials.len;
}

/* Whether a row of the table would read as that of the trial before it. */
static bool reads_alike(const struct trial *one, const struct trial *other)
{
    return strcmp(one->text, other->text) == 0 &&
           strcmp(show_seconds((double)one->iteration_ns).s,
                  show_seconds((double)other->iteration_ns).s) == 0 &&
           strcmp(show_bytes((double)one->needed_bytes).s,
                  show_bytes((double)other->needed_bytes).s) == 0;
}

static void print_trials(struct arena *scratch, const struct planned *planned, int64_t top,
                         FILE *out)
{
    static const char *const HEADERS[] = {"plan", "iteration", "slower", "memory", "of it"};
    static const enum align ALIGNS[] = {ALIGN_LEFT, ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT,
                                        ALIGN_RIGHT};
    struct table *table = table_new(scratch, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    const struct trial *best = planned->trials.data;
    int64_t rows = 0;
    for (size_t i = 0; i < planned->trials.len && rows < top; i++) {
        const struct trial *t = &planned->trials.data[i];
        double ratio = ns_per_sample(t) / ns_per_sample(best);
        if (i && reads_alike(t, t - 1))
            continue;
        rows++;
        table_cell(table, "%s", t->text);
        table_cell(table, "%s", show_seconds((double)t->iteration_ns).s);
        table_cell(table, "%s", i ? show_change(ratio - 1).s : "");
        table_cell(table, "%s", show_bytes((double)t->needed_bytes).s);
        table_cell(table, "%.0f %%%s", 100 * (double)t->needed_bytes / (double)t->limit_bytes,
                   t->fits ? "" : " !");
    }
    table_print(table, out);
}

/* Plans that are nearer to the best one than predictions of two runs of one question can tell apart. */
struct near_plans {
    double apart; /* a share of the time */
    int64_t count;
};

static struct near_plans near_plans(const struct planned *planned)
{
    struct near_plans near = {.apart = plans_apart()};
    const struct trial *best = planned->trials.data;
    for (size_t i = 1; i < planned->trials.len; i++)
        near.count += planned->trials.data[i].fits && ns_per_sample(&planned->trials.data[i]) <=
                                                          ns_per_sample(best) * (1 + near.apart);
    return near;
}

static void print_near(struct arena *scratch, const struct planned *planned, FILE *out)
{
    struct near_plans near = near_plans(planned);
    if (!(near.apart > 0 && near.count > 0))
        return;
    fputc('\n', out);
    print_wrapped(scratch, "",
                  arena_printf(scratch,
                               "%s within %.0f %% of it, which is as near as predictions tell two "
                               "plans apart in 8 of 10 pairs of measured runs: any of them may be "
                               "the fastest.",
                               counted(near.count, "other plan").s, near.apart * 100),
                  out);
}

static json_t *near_json(const struct planned *planned)
{
    struct near_plans near = near_plans(planned);
    return json_pack("{s:f, s:I}", "apart", near.apart, "plans", (json_int_t)near.count);
}

static struct text32 difference(double bytes)
{
    struct text32 size = show_bytes(bytes < 0 ? -bytes : bytes), out;
    snprintf(out.s, sizeof out.s, "%c%.30s", bytes < 0 ? '-' : '+', size.s);
    return out;
}

/* For each dimension, how much slower the best plan with another value is. */
static void print_why(struct arena *scratch, const struct planned *planned, FILE *out)
{
    static const char *const HEADERS[] = {"instead of", "next best", "iteration", "memory", ""};
    static const enum align ALIGNS[] = {ALIGN_LEFT, ALIGN_LEFT, ALIGN_RIGHT, ALIGN_RIGHT,
                                        ALIGN_LEFT};
    struct table *table = table_new(scratch, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    const struct trial *best = planned->trials.data;
    for (int i = 0; i < DIMENSION_COUNT; i++) {
        enum dimension dimension = (enum dimension)i;
        const struct trial *other = next_best(planned, dimension);
        if (!other)
            continue;
        double ratio = ns_per_sample(other) / ns_per_sample(best);
        table_cell(table, "%s %s", dimension_name(dimension),
                   trial_value_text(scratch, best, dimension));
        table_cell(table, "%s", other->text);
        table_cell(table, "%s", show_change(ratio - 1).s);
        table_cell(table, "%s", difference((double)(other->needed_bytes - best->needed_bytes)).s);
        table_cell(table, "%s", other->fits ? "" : "does not fit");
    }
    fputc('\n', out);
    table_print(table, out);
}

/* ---- what it gains in ------------------------------------------------------------------------ */

static struct iteration_terms timed_of(const struct trial *trial)
{
    return (struct iteration_terms){trial->time_ns, (double)trial->global_batch};
}

/* The plans that the answer is held against: the fastest slower one, and the simplest if that is another. */
struct held_against {
    const char *name;
    const struct trial *trial;
};
enum { MOST_RIVALS = 2 };

static int list_rivals(const struct planned *planned, struct held_against out[MOST_RIVALS])
{
    const struct trial *best = planned->trials.data, *simplest = simplest_trial(planned);
    int count = 0;
    for (size_t i = 1; i < planned->trials.len && !count; i++)
        if (best[i].fits && ns_per_sample(&best[i]) > ns_per_sample(best))
            out[count++] = (struct held_against){"next best", &best[i]};
    if (simplest && !(count && out[0].trial == simplest))
        out[count++] = (struct held_against){"simplest", simplest};
    return count;
}

static void print_gains(struct arena *scratch, const struct planned *planned, FILE *out)
{
    struct held_against rival[MOST_RIVALS];
    const struct trial *best = planned->trials.data;
    int count = list_rivals(planned, rival);
    for (int i = 0; i < count; i++) {
        const struct trial *other = rival[i].trial;
        double ratio = ns_per_sample(other) / ns_per_sample(best);
        print_wrapped(scratch, "",
                      arena_printf(scratch, "over the %s plan, %s (%s): %s", rival[i].name,
                                   other->text, show_change(ratio - 1).s,
                                   term_gains_text(scratch, timed_of(best), timed_of(other))),
                      out);
    }
}

static json_t *rivals_json(struct arena *scratch, const struct planned *planned)
{
    struct held_against rival[MOST_RIVALS];
    const struct trial *best = planned->trials.data;
    json_t *rows = json_array();
    int count = list_rivals(planned, rival);
    for (int i = 0; i < count; i++) {
        struct iteration_terms own = timed_of(best), other = timed_of(rival[i].trial);
        json_array_append_new(rows,
                              json_pack("{s:s, s:o, s:f, s:o, s:o}", "over", rival[i].name, "plan",
                                        json_text(rival[i].trial->text), "iteration_s",
                                        (double)rival[i].trial->iteration_ns * 1e-9, "terms_s",
                                        term_gains_json(own, other), "words",
                                        json_text(term_gains_text(scratch, own, other))));
    }
    return rows;
}

/* ---- what limits it -------------------------------------------------------------------------- */

/* How the stage that waits least divides its time into computing, communicating and waiting. */
static const char *limits_text(struct arena *scratch, const struct prediction *p)
{
    const struct stage_prediction *stage = &p->stage[p->busiest];
    static const int COMPUTES[] = {PURPOSE_FORWARD, PURPOSE_BACKWARD, PURPOSE_RECOMPUTE,
                                   PURPOSE_OPTIMIZER};
    double all = (double)p->iteration_ns, computes = 0;
    double waits = (double)stage->time_ns[TIME_BUBBLE];
    struct link_load *load;
    for (size_t i = 0; i < COUNT_OF(COMPUTES); i++)
        computes += (double)stage->time_ns[COMPUTES[i]];
    double sends = all - computes - waits;
    const char *most = computes >= sends && computes >= waits ? "computation"
                       : sends >= waits                       ? "communication"
                                                              : "waiting for other stages";
    const char *on = p->plan->cluster->pools
                         ? arena_printf(scratch, " on %s",
                                        cluster_pool_name(p->plan->cluster,
                                                          plan_stage_pool(p->plan, p->busiest)))
                         : "";
    const char *text = arena_printf(
        scratch,
        "limited by %s: stage %d%s computes %.0f %% of the time, waits %.0f %% for communication "
        "and %.0f %% for other stages",
        most, (int)p->busiest, on, 100 * computes / all, 100 * sends / all, 100 * waits / all);
    const char *slower = slower_pool_words(scratch, p->plan);
    text = slower ? arena_printf(scratch, "%s; %s", text, slower) : text;
    if (link_loads(scratch, p, 1, &load) < 1)
        return text;
    return arena_printf(scratch, "%s; the busiest link is %s, %.0f %% of the time", text,
                        link_text(scratch, p->plan->cluster, load[0].link), 100 * load[0].busy);
}

static const char *const DIMENSION_FIELDS[] = {
    [DIMENSION_DP] = "dp",
    [DIMENSION_TP] = "tp",
    [DIMENSION_PP] = "pp",
    [DIMENSION_PIECES] = "pieces",
    [DIMENSION_MICRO_BATCH] = "micro_batch",
    [DIMENSION_SHARD] = "zero",
    [DIMENSION_RECOMPUTE] = "recompute",
};
_Static_assert(COUNT_OF(DIMENSION_FIELDS) == DIMENSION_COUNT, "a dimension without a field");

static json_t *trial_json(struct arena *scratch, const struct trial *trial)
{
    json_t *json =
        json_pack("{s:s, s:s, s:I, s:f, s:I, s:I, s:b}", "plan", trial->text, "found_by",
                  trial->found_by, "global_batch", (json_int_t)trial->global_batch, "iteration_s",
                  (double)trial->iteration_ns * 1e-9, "needed", (json_int_t)trial->needed_bytes,
                  "limit", (json_int_t)trial->limit_bytes, "fits", trial->fits);
    for (int i = 0; i < DIMENSION_COUNT; i++) {
        json_t *value = trial->value[i] == MIXED ? json_null()
                        : i == DIMENSION_RECOMPUTE
                            ? json_string(trial_value_text(scratch, trial, (enum dimension)i))
                            : json_integer((json_int_t)trial->value[i]);
        json_object_set_new(json, DIMENSION_FIELDS[i], value);
    }
    return json;
}

json_t *planned_json(struct arena *scratch, const struct planned *planned,
                     const struct prediction *prediction, const char *text, int64_t top)
{
    json_t *json = prediction_json(prediction), *others = json_array(), *why = json_array();
    json_t *reasons = json_array();
    for (size_t i = 1; i < planned->trials.len && i < (size_t)top; i++)
        json_array_append_new(others, trial_json(scratch, &planned->trials.data[i]));
    for (int i = 0; i < DIMENSION_COUNT; i++) {
        const struct trial *other = next_best(planned, (enum dimension)i);
        if (other)
            json_array_append_new(
                why, json_pack("{s:s, s:s, s:o}", "dimension", DIMENSION_FIELDS[i], "value",
                               trial_value_text(scratch, other, (enum dimension)i), "next_best",
                               trial_json(scratch, other)));
    }
    for (size_t i = 0; i < planned->reasons.len; i++)
        json_array_append_new(reasons, json_string(planned->reasons.data[i]));
    json_object_set_new(json, "plan", json_loads(text, 0, NULL));
    json_object_set_new(json, "summary", json_text(planned->trials.data[0].text));
    json_object_set_new(json, "planner", json_string(planned->planner));
    json_object_set_new(json, "found_by", json_text(planned->trials.data[0].found_by));
    json_object_set_new(json, "limited_by", json_text(limits_text(scratch, prediction)));
    json_object_set_new(json, "evaluated", json_integer((json_int_t)evaluated(planned)));
    json_object_set_new(json, "simulated", json_integer((json_int_t)planned->trials.len));
    json_object_set_new(json, "search_s", json_real(planned->search_s));
    json_object_set_new(json, "stopped", json_boolean(planned->stopped));
    json_object_set_new(json, "near", near_json(planned));
    json_object_set_new(json, "alternatives", others);
    json_object_set_new(json, "why", why);
    json_object_set_new(json, "gains", rivals_json(scratch, planned));
    json_object_set_new(json, "reasons", reasons);
    return json;
}

void planned_print(struct arena *scratch, const struct planned *planned,
                   const struct prediction *prediction, int64_t top, FILE *out)
{
    fprintf(out, "%s: %s\n\n", planned->planner, planned->trials.data[0].text);
    prediction_print(scratch, prediction, out);
    fprintf(out, "\n%s tried%s:\n\n", counted(evaluated(planned), "plan").s,
            planned->stopped ? " until it was stopped" : "");
    print_trials(scratch, planned, top, out);
    print_near(scratch, planned, out);
    print_why(scratch, planned, out);
    fputc('\n', out);
    print_gains(scratch, planned, out);
    for (size_t i = 0; i < planned->reasons.len; i++)
        print_wrapped(scratch, "", planned->reasons.data[i], out);
    print_wrapped(scratch, "", limits_text(scratch, prediction), out);
}

/* ---- other hardware -------------------------------------------------------------------------- */

/* The share of the iteration below which a change does not get a row. */
static const double LEAST_GAIN = 0.005;

static double gain(const struct what_if *row, int64_t iteration_ns)
{
    return (double)iteration_ns / (double)row->iteration_ns - 1;
}

void what_ifs_print(struct arena *scratch, const struct what_ifs *what_ifs, int64_t iteration_ns,
                    FILE *out)
{
    static const char *const HEADERS[] = {"with", "iteration", "faster", "plan"};
    static const enum align ALIGNS[] = {ALIGN_LEFT, ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_LEFT};
    struct table *table = table_new(scratch, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    const char *nothing = "", *plans = "";
    bool any = false;
    for (size_t i = 0; i < what_ifs->len; i++) {
        const struct what_if *row = &what_ifs->data[i];
        if (gain(row, iteration_ns) < LEAST_GAIN) {
            nothing = arena_printf(scratch, "%s%s%s", nothing, *nothing ? ", " : "", row->change);
            continue;
        }
        any = true;
        table_cell(table, "%s", row->change);
        table_cell(table, "%s", show_seconds((double)row->iteration_ns).s);
        table_cell(table, "%s", show_change(gain(row, iteration_ns)).s);
        table_cell(table, "%s", row->plan ? "another" : "the same");
        if (row->plan)
            plans = arena_printf(scratch, "%swith %s: %s ", plans, row->change, row->plan);
    }
    fputc('\n', out);
    if (any)
        table_print(table, out);
    if (*plans) {
        fputc('\n', out);
        print_wrapped(scratch, "", plans, out);
    }
    if (*nothing)
        fprintf(out, "%swould bring nothing: %s\n", any ? "\n" : "", nothing);
}

json_t *what_ifs_json(const struct what_ifs *what_ifs)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < what_ifs->len; i++) {
        const struct what_if *row = &what_ifs->data[i];
        json_array_append_new(rows,
                              json_pack("{s:o, s:f, s:o}", "change", json_text(row->change),
                                        "iteration_s", (double)row->iteration_ns * 1e-9, "plan",
                                        row->plan ? json_text(row->plan) : json_null()));
    }
    return rows;
}
