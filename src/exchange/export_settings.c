/* export_settings.c - the settings that no target can express. They are written into a comment or a key that the
 * framework ignores, and read back from there (exchange.h, I2). */
#include "exchange/room.h"

#include <stdlib.h>
#include <string.h>

int64_t bytes_per_gradient(enum policy policy)
{
    return policy_gradient_bytes(policy);
}

/* ---- settings -------------------------------------------------------------------------------- */

static const char *overlap_list(struct arena *keep, unsigned overlap)
{
    const char *list = "";
    for (unsigned bit = 1; bit <= OVERLAP_EVERY; bit <<= 1)
        if (overlap & bit)
            list = arena_printf(keep, "%s%s%s", list, *list ? "," : "", overlap_name(bit));
    return *list ? list : "none";
}

static bool only_replicas(const struct split *split)
{
    for (int32_t i = 0; i < split->parts; i++)
        if (split->part[i].dim != DIM_BATCH && split->part[i].dim != SPLIT_COPY)
            return false;
    return true;
}

/* Which kinds of communication that could overlap occur in the plan: reshards of split operators, sends, gathers of
 * state. */
static unsigned overlaps_of(const struct plan *plan)
{
    unsigned bits = OVERLAP_GRADIENTS | (plan->stages > 1 ? OVERLAP_PIPELINE : 0);
    bits |= plan_schedule(plan)->ahead ? OVERLAP_EXPERTS : 0;
    bits |= plan_could_hide_shared(plan) ? OVERLAP_SHARED : 0;
    for (int64_t i = 0; i < plan->instances; i++) {
        const struct choice *choice = plan_choice(plan, i);
        bits |= choice->shard ? OVERLAP_PARAMETERS : 0;
        bits |= plan->model->op[plan->instance[i].op].kind == OP_ATTENTION &&
                        split_degree(&choice->split, DIM_SEQ) > 1
                    ? OVERLAP_KEYS
                    : 0;
        bits |= split_equal(&choice->split, &plan_choice(plan, 0)->split) &&
                        only_replicas(&choice->split)
                    ? 0
                    : OVERLAP_TENSOR | OVERLAP_PRODUCTS;
    }
    return bits;
}

/* The distributed optimizer's policy says of state that is divided among replicas what the other one says. */
static bool stores_alike(const struct plan *plan, const struct plan *other)
{
    const unsigned ALIKE = 1U << POLICY_MIXED_FP32_GRADIENTS | 1U << POLICY_DISTRIBUTED;
    bool alike = plan->policy == other->policy ||
                 (ALIKE & 1U << plan->policy && ALIKE & 1U << other->policy);
    for (int64_t i = 0; alike && plan->policy != other->policy && i < plan->instances; i++)
        alike = plan_choice(plan, i)->shard >= 1;
    return alike;
}

const char *settings_text(struct arena *keep, const struct plan *plan, const struct plan *other)
{
    const char *text = "";
    if ((plan->overlap ^ other->overlap) & overlaps_of(plan))
        text = arena_printf(keep, "%s overlap=%s", text, overlap_list(keep, plan->overlap));
    if (plan->optimizer != other->optimizer)
        text = arena_printf(keep, "%s optimizer=%s", text, optimizer_name(plan->optimizer));
    if (plan->replicate != other->replicate && (plan->replicate > 1 || other->replicate > 1))
        text = arena_printf(keep, "%s replicate=%lld", text, (long long)plan->replicate);
    if (plan_round(plan) != plan_round(other))
        text = arena_printf(keep, "%s group=%lld", text, (long long)plan_round(plan));
    if (plan->optimizer_offload != other->optimizer_offload)
        text = arena_printf(keep, "%s optimizer_offload=%.17g", text, plan->optimizer_offload);
    if (!software_same(&plan->software, &other->software))
        text = arena_printf(keep, "%s software=%s", text, software_text(keep, &plan->software));
    /* what a rule says is written as its number */
    if (plan->bucket_bytes != other->bucket_bytes && plan->bucket_bytes != BUCKET_BY_RULE)
        text = arena_printf(keep, "%s bucket=%lld", text, (long long)plan->bucket_bytes);
    if (plan->whole_sends != other->whole_sends && plan->stages > 1)
        text = arena_printf(keep, "%s whole_sends=%d", text, plan->whole_sends);
    if (plan->dtype != other->dtype)
        text = arena_printf(keep, "%s dtype=%s", text, dtype_name(plan->dtype));
    if (!stores_alike(plan, other))
        text = arena_printf(keep, "%s policy=%s", text, policy_name(plan->policy));
    if (plan->memory.limit_bytes != other->memory.limit_bytes)
        text = arena_printf(keep, "%s memory=%lld", text, (long long)plan->memory.limit_bytes);
    if (plan->memory.has_margin &&
        (!other->memory.has_margin || plan->memory.margin_percent != other->memory.margin_percent))
        text = arena_printf(keep, "%s margin=%.17g", text, plan->memory.margin_percent);
    return *text ? text + 1 : text;
}

const char *settings_written(struct export_job *job, const struct plan *plan,
                             const struct plan *other)
{
    const char *text = settings_text(job->keep, plan, other);
    struct software own;
    bool unsaid = job->target->software && software_same(&plan->software, &other->software) &&
                  target_software(job->target, plan->cluster, plan->dtype, &own) == WEFT_OK &&
                  !software_same(&plan->software, &own);
    return unsaid ? arena_printf(job->keep, "%s%ssoftware=%s", text, *text ? " " : "",
                                 software_text(job->keep, &plan->software))
                  : text;
}

/* Whether the plan's software is the target's own, but for facts that the file says: those that are no longer the default's in
 * the plan that was read from it. */
static bool has_target_software(const struct export_job *job, const struct plan *plan,
                                const struct plan *read)
{
    struct software own;
    if (!job->target->software ||
        target_software(job->target, plan->cluster, plan->dtype, &own) != WEFT_OK)
        return false;
    for (int fact = 0; fact < SOFTWARE_FACTS; fact++)
        if (read->software.word[fact])
            own.word[fact] = read->software.word[fact];
    return software_same(&own, &plan->software);
}

const char *settings_decided(struct export_job *job, const struct plan *plan, struct plan *other)
{
    other->memory = plan->memory;
    if (has_target_software(job, plan, other)) {
        other->software = plan->software;
        if (plan->bucket_bytes == BUCKET_BY_RULE) /* written as the size that the rule gives */
            other->bucket_bytes = plan->bucket_bytes;
    }
    return settings_text(job->keep, plan, other);
}

static bool take_overlap(struct plan *plan, char *words)
{
    char *word;
    plan->overlap = 0;
    while ((word = strsep(&words, ",")) != NULL)
        if (!overlap_from_name(word, &plan->overlap))
            return false;
    return true;
}

static bool take_bucket(struct plan *plan, char *value)
{
    return parse_int(value, &plan->bucket_bytes) && plan->bucket_bytes >= 0;
}

static bool take_optimizer(struct plan *plan, char *value)
{
    return optimizer_from_name(value, &plan->optimizer);
}

static bool take_replicate(struct plan *plan, char *value)
{
    return parse_int(value, &plan->replicate) && plan->replicate >= 0;
}

static bool take_group(struct plan *plan, char *value)
{
    return parse_int(value, &plan->group) && plan->group >= 0;
}

static bool take_optimizer_offload(struct plan *plan, char *value)
{
    return parse_real(value, &plan->optimizer_offload) && plan->optimizer_offload >= 0 &&
           plan->optimizer_offload <= 1;
}

static bool take_software(struct plan *plan, char *value)
{
    return software_from_text(value, &plan->software) == WEFT_OK;
}

static bool take_whole_sends(struct plan *plan, char *value)
{
    plan->whole_sends = strcmp(value, "1") == 0;
    return plan->whole_sends || strcmp(value, "0") == 0;
}

static bool take_dtype(struct plan *plan, char *value)
{
    return dtype_from_name(value, &plan->dtype);
}

static bool take_policy(struct plan *plan, char *value)
{
    return policy_from_name(value, &plan->policy);
}

static bool take_memory(struct plan *plan, char *value)
{
    return parse_int(value, &plan->memory.limit_bytes) && plan->memory.limit_bytes >= 0;
}

static bool take_margin(struct plan *plan, char *value)
{
    struct memory_terms *memory = &plan->memory;
    memory->has_margin = true;
    return parse_real(value, &memory->margin_percent) && memory->margin_percent >= 0 &&
           memory->margin_percent <= MOST_MARGIN_PERCENT;
}

static const struct {
    const char *key;
    bool (*take)(struct plan *plan, char *value);
} SETTINGS[] = {
    {"overlap", take_overlap},         {"bucket", take_bucket},
    {"whole_sends", take_whole_sends}, {"dtype", take_dtype},
    {"policy", take_policy},           {"memory", take_memory},
    {"margin", take_margin},           {"software", take_software},
    {"replicate", take_replicate},     {"group", take_group},
    {"optimizer", take_optimizer},     {"optimizer_offload", take_optimizer_offload},
};

static bool take_setting(struct plan *plan, char *setting)
{
    char *value = strchr(setting, '=');
    if (!value)
        return false;
    *value++ = '\0';
    for (size_t i = 0; i < COUNT_OF(SETTINGS); i++)
        if (strcmp(SETTINGS[i].key, setting) == 0)
            return SETTINGS[i].take(plan, value);
    return false;
}

weft_status settings_apply(struct arena *scratch, const char *file, int line, const char *text,
                           struct plan *plan)
{
    char *rest = arena_copy_text(scratch, text), *setting;
    while ((setting = strsep(&rest, " \t")) != NULL) {
        const char *as_given = arena_copy_text(scratch, setting);
        if (*setting && !take_setting(plan, setting))
            return bad_input(file, line, "leave the line as `weft export` wrote it, or out",
                             "'%.60s' is no setting of Weft, expected overlap=..., bucket=..., "
                             "software=..., whole_sends=..., dtype=..., policy=... or memory=...",
                             as_given);
    }
    return WEFT_OK;
}
