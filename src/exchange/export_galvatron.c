/* export_galvatron.c - a plan as Galvatron's JSON: for every layer its tp (since 3.0 also cp, ep and the tensor degree
 * of experts), and whether its devices are neighbours, its state is sharded (ZeRO-3) and it is recomputed
 * (target/galvatron.c recognises these).
 *
 *   I1  The plan that these numbers make is the one that is written and compared with the user's.
 */
#include "exchange/room.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

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

static json_t *config_json(struct arena *keep, const struct galvatron *c, const char *vocabulary)
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
                     GALVATRON_PIPELINES[galvatron_pipeline_of(c->schedule)].theirs,
                     "default_dp_type", GALVATRON_DEFAULTS[c->default_shard], "vtp",
                     (json_int_t)c->vocab_tp, "vsp", 0, vocabulary, (int)c->vocab_sharded);
}

/* What a release of cp and ep has more. Without experts their degrees are 1. */
static void add_newer(struct arena *keep, const struct galvatron *c, json_t *json)
{
    int64_t *etp = ARENA_ARRAY(keep, int64_t, (size_t)c->layers);
    for (int64_t i = 0; i < c->layers; i++)
        etp[i] = c->etp[i] ? c->etp[i] : 1;
    json_object_set_new(json, "cp_sizes_enc", json_string(list_of(keep, c->cp, c->layers)));
    json_object_set_new(json, "vcp", json_integer(c->vocab_cp));
    json_object_set_new(json, "ep_sizes_enc", json_string(list_of(keep, c->ep, c->layers)));
    json_object_set_new(json, "tp_of_ep_sizes_enc", json_string(list_of(keep, etp, c->layers)));
}

static void write_text(struct export_job *job, const struct galvatron *c, const char *settings)
{
    json_t *json = config_json(job->keep, c, job->target->words.vocabulary_shards);
    if (job->target->can.cp && job->target->can.ep)
        add_newer(job->keep, c, json);
    json_t *beside = json_object();
    if (c->sequence)
        json_object_set_new(beside, "sequence_parallel", json_true());
    if (*settings)
        json_object_set_new(beside, "settings", json_string(settings));
    json_object_set_new(beside, "simulate", json_string(job_line(job, "galvatron")));
    json_object_set(json, "weft", beside);
    json_decref(beside);
    char *text = json_dumps(json, JSON_INDENT(4));
    job->out->text = arena_printf(job->keep, "%s\n", text);
    free(text);
    json_decref(json);
}

weft_status write_galvatron(struct export_job *job)
{
    struct galvatron config;
    struct plan *made = NULL;
    weft_status status =
        galvatron_of_plan(job->keep, job->target, job->plan, job->nearest, &config, &made); /* I1 */
    if (status)
        return status;
    const struct plan *plan = job->found.plan;
    const char *all = settings_written(job, plan, made);
    made->dtype = plan->dtype; /* a flag of the launch script says it */
    made->policy = policy_for(plan->dtype);
    const char *settings = settings_decided(job, plan, made);
    plan_free(made);
    write_text(job, &config, all);
    note(job, "start Galvatron with --mixed_precision %s (in 3.0 train.mixed_precision)",
         dtype_name(plan->dtype));
    if (config.sequence)
        note(job,
             "start Galvatron with --sequence-parallel (in 3.0 it is on unless told otherwise)");
    if (*settings)
        decides(job, "no key says %s; \"weft\" does, for weft import", settings);
    return WEFT_OK;
}
