/* export_galvatron.c - a plan as Galvatron's JSON: for every layer tp, whether its devices are
 * neighbours, ZeRO-3 or not, recomputed or not.
 *
 * For each (tp, neighbours) the plan in which all layers have it is made (import_galvatron.c); a
 * layer takes the one whose splits it shares most. The rest follows from counts within the layer.
 *
 *   I1  The plan that comes of these numbers is what is written, and what is compared.
 */
#include "exchange/room.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct search {
    struct arena *keep;
    const struct plan *plan;
    struct galvatron config;
    const int64_t *layer; /* per instance */
    int64_t *best;        /* per layer, and at the end for what is in none: equal splits */
};

/* The number of its word for a schedule. */
static int pipeline_of(const char *schedule)
{
    int at = GALVATRON_PIPELINE_COUNT - 1;
    while (at > 0 && strcmp(GALVATRON_PIPELINES[at].ours, schedule) != 0)
        at--;
    return at;
}

static void set_all(struct search *s, int64_t tp, bool consecutive)
{
    for (int64_t i = 0; i < s->config.layers; i++) {
        s->config.tp[i] = tp;
        s->config.consecutive[i] = consecutive;
    }
    s->config.vocab_tp = tp;
}

static int64_t place_of(const struct search *s, int64_t instance)
{
    return s->layer[instance] < 0 ? s->config.layers : s->layer[instance];
}

struct pick {
    int64_t tp;
    bool consecutive;
};

/* Layers that agree better with this uniform plan than with those before take it. */
static void try_uniform(struct search *s, struct pick pick, struct pick *picked)
{
    struct plan *other = NULL;
    int64_t *equal = ARENA_ARRAY(s->keep, int64_t, (size_t)s->config.layers + 1);
    set_all(s, pick.tp, pick.consecutive);
    if (galvatron_plan(s->plan->model, s->plan->cluster, &s->config, &other) != WEFT_OK) {
        error_clear();
        return;
    }
    for (int64_t i = 0; i < s->plan->instances; i++)
        equal[place_of(s, i)] +=
            split_equal(&plan_choice(s->plan, i)->split, &plan_choice(other, i)->split);
    for (int64_t k = 0; k <= s->config.layers; k++)
        if (equal[k] > s->best[k] && (k < s->config.layers || pick.consecutive)) {
            s->best[k] = equal[k];
            picked[k] = pick;
        }
    plan_free(other);
}

/* All layers' splits with or without sequence parallelism; returns how many agree. */
static int64_t try_splits(struct search *s, bool sequence, struct pick *picked)
{
    int64_t group = cluster_devices(s->plan->cluster) / s->config.pp, sum = 0;
    s->config.sequence = sequence;
    for (int64_t k = 0; k <= s->config.layers; k++)
        s->best[k] = -1;
    for (int64_t tp = 1; tp <= group; tp++) {
        if (group % tp || s->plan->step_samples % (group / tp))
            continue;
        try_uniform(s, (struct pick){tp, true}, picked);
        if (tp > 1 && tp < group)
            try_uniform(s, (struct pick){tp, false}, picked);
    }
    for (int64_t k = 0; k <= s->config.layers; k++)
        sum += s->best[k];
    return sum;
}

static void find_splits(struct search *s)
{
    size_t count = (size_t)s->config.layers + 1;
    struct pick *plain = ARENA_ARRAY(s->keep, struct pick, count);
    struct pick *along = ARENA_ARRAY(s->keep, struct pick, count);
    int64_t without = try_splits(s, false, plain), with = try_splits(s, true, along);
    const struct pick *chosen = with > without ? along : plain;
    s->config.sequence = with > without;
    for (int64_t i = 0; i < s->config.layers; i++) {
        s->config.tp[i] = chosen[i].tp ? chosen[i].tp : 1;
        s->config.consecutive[i] = chosen[i].tp ? chosen[i].consecutive : true;
    }
    s->config.vocab_tp = chosen[s->config.layers].tp ? chosen[s->config.layers].tp : 1;
}

static void find_flags(struct search *s)
{
    struct galvatron *c = &s->config;
    size_t count = (size_t)c->layers + 1;
    int64_t *sharded = ARENA_ARRAY(s->keep, int64_t, count), lower[4] = {0};
    int64_t *recomputed = ARENA_ARRAY(s->keep, int64_t, count);
    for (int64_t i = 0; i < s->plan->instances; i++) {
        const struct choice *choice = plan_choice(s->plan, i);
        sharded[place_of(s, i)] += choice->shard == 3 ? 1 : -1;
        recomputed[place_of(s, i)] += choice->recompute ? 1 : -1;
        lower[choice->shard & 3]++;
    }
    for (int64_t k = 0; k < c->layers; k++) {
        c->sharded[k] = sharded[k] > 0;
        c->checkpointed[k] = recomputed[k] > 0;
    }
    c->vocab_sharded = sharded[c->layers] > 0;
    c->default_shard = lower[1] + lower[2] > lower[0] ? 2 : 0;
}

/* Cuts at layers; what is cut within one goes to the part in which the layer ends. */
static void find_stages(struct search *s)
{
    struct galvatron *c = &s->config;
    const struct plan *plan = s->plan;
    int64_t *layers = layers_of_parts(s->keep, plan), devices = cluster_devices(plan->cluster);
    int64_t *cut;
    c->pp = plan->stages;
    while (devices % c->pp || c->pp > c->layers)
        c->pp--;
    c->division = ARENA_ARRAY(s->keep, int64_t, (size_t)c->pp);
    bool usable = c->pp == plan->stages && plan->pieces == 1 &&
                  cuts_behind_layers(s->keep, plan, plan->parts, layers, &cut);
    for (int64_t p = 0; p < c->pp; p++)
        c->division[p] = usable ? layers[p] : c->layers / c->pp + (p < c->layers % c->pp);
    c->schedule = GALVATRON_PIPELINES[pipeline_of(plan->schedule)].ours;
}

/* ---- writing --------------------------------------------------------------------------------- */

static const char *list_of(struct arena *keep, const int64_t *values, int64_t count)
{
    const char *text = "";
    for (int64_t i = 0; i < count; i++)
        text = arena_printf(keep, "%s%s%lld", text, i ? "," : "", (long long)values[i]);
    return text;
}

static const char *flags_of(struct arena *keep, const bool *values, int64_t count)
{
    int64_t *numbers = ARENA_ARRAY(keep, int64_t, (size_t)count);
    for (int64_t i = 0; i < count; i++)
        numbers[i] = values[i];
    return list_of(keep, numbers, count);
}

static json_t *config_json(struct arena *keep, const struct galvatron *c)
{
    const int64_t *zeros = ARENA_ARRAY(keep, int64_t, (size_t)c->layers);
    return json_pack("{s:I, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:s, s:s, s:s, s:I, s:i, s:i}",
                     "pp_deg", (json_int_t)c->pp, "tp_sizes_enc", list_of(keep, c->tp, c->layers),
                     "tp_consecutive_flags", flags_of(keep, c->consecutive, c->layers),
                     "dp_types_enc", flags_of(keep, c->sharded, c->layers), "use_sp",
                     list_of(keep, zeros, c->layers), "checkpoint",
                     flags_of(keep, c->checkpointed, c->layers), "global_bsz",
                     (json_int_t)c->global_batch, "chunks", (json_int_t)c->chunks, "pp_division",
                     list_of(keep, c->division, c->pp), "pipeline_type",
                     GALVATRON_PIPELINES[pipeline_of(c->schedule)].theirs, "default_dp_type",
                     GALVATRON_DEFAULTS[c->default_shard], "vtp", (json_int_t)c->vocab_tp, "vsp", 0,
                     "embed_sdp", (int)c->vocab_sharded);
}

static void write_text(struct export_job *job, const struct galvatron *c, const char *settings)
{
    json_t *json = config_json(job->keep, c);
    json_t *beside = json_object();
    if (c->sequence)
        json_object_set_new(beside, "sequence_parallel", json_true());
    if (*settings)
        json_object_set_new(beside, "settings", json_string(settings));
    if (json_object_size(beside))
        json_object_set(json, "weft", beside);
    json_decref(beside);
    char *text = json_dumps(json, JSON_INDENT(4));
    job->out->text = arena_printf(job->keep, "%s\n", text);
    free(text);
    json_decref(json);
}

/* Where layers split more samples than pass at a time, all of them pass at once. */
static weft_status make_plan(struct export_job *job, struct galvatron *config, struct plan **out)
{
    const struct plan *plan = job->plan;
    weft_status status;
    TRY(galvatron_plan(plan->model, plan->cluster, config, out));
    if (!job->nearest || plan_check(*out) == WEFT_OK)
        return WEFT_OK;
    error_clear();
    plan_free(*out);
    *out = NULL;
    config->chunks = 1;
    TRY(galvatron_plan(plan->model, plan->cluster, config, out));
    TRY(plan_check(*out));
done:
    return status;
}

weft_status write_galvatron(struct export_job *job)
{
    struct search s = {.keep = job->keep, .plan = job->plan};
    struct plan *written = NULL;
    weft_status status;
    s.layer = layers_of_instances(job->keep, job->plan, &s.config.layers);
    size_t count = (size_t)s.config.layers;
    if (count == 0)
        return bad_argument("--to megatron or deepspeed take degrees",
                            "%s has no layers, and Galvatron's strategies are by layer",
                            job->plan->model->name);
    s.best = ARENA_ARRAY(job->keep, int64_t, count + 1);
    s.config.tp = ARENA_ARRAY(job->keep, int64_t, count);
    s.config.consecutive = ARENA_ARRAY(job->keep, bool, count);
    s.config.sharded = ARENA_ARRAY(job->keep, bool, count);
    s.config.checkpointed = ARENA_ARRAY(job->keep, bool, count);
    s.config.global_batch = job->plan->global_batch;
    s.config.chunks = plan_micro_batches(job->plan);
    find_stages(&s);
    find_splits(&s);
    find_flags(&s);
    TRY(make_plan(job, &s.config, &written)); /* I1 */
    plan_differences(job->keep, job->plan, written, &job->out->differences);
    const char *settings = settings_text(job->keep, job->plan, written);
    copy_settings(written, job->plan);
    write_text(job, &s.config, settings);
    if (s.config.sequence)
        note(job, "start Galvatron with --sequence-parallel");
    if (s.config.sequence && (job->plan->overlap & OVERLAP_PRODUCTS))
        note(job, "Galvatron does not overlap products with their own collectives; the plan does");
    job->out->written = written;
    written = NULL;
done:
    plan_free(written);
    return status;
}
