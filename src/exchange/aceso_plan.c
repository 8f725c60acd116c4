/* aceso_plan.c - Aceso's order of a model's operators, and its plans turned into plans of Weft (aceso_plan.h).
 *
 *   operator k of Aceso = the instance that has its name, and all after it up to the next one with a name  (1)
 */
#include "exchange/aceso_plan.h"

#include <stdio.h>
#include <string.h>

#include "schedule/schedule.h"

/* ---- models ---------------------------------------------------------------------------------- */

/* T5 11B and 22B have the same operators. */
static const struct aceso_table TABLES[] = {
    {"gpt3-350m", "gpt_350M", DTYPE_FP16},
    {"gpt3-1.3b", "gpt_1_3B", DTYPE_FP16},
    {"gpt3-2.6b", "gpt_2_6B", DTYPE_FP16},
    {"gpt3-6.7b", "gpt_6_7B", DTYPE_FP16},
    {"gpt3-13b", "gpt_13B", DTYPE_FP16},
    {"wresnet-500m", "resnet_500M", DTYPE_FP32},
    {"wresnet-2b", "resnet_2B", DTYPE_FP32},
    {"wresnet-4b", "resnet_4B", DTYPE_FP32},
    {"wresnet-6.8b", "resnet_6_8B", DTYPE_FP32},
    {"wresnet-13b", "resnet_13B", DTYPE_FP32},
    {"t5-770m", "t5_770M", DTYPE_FP16},
    {"t5-3b", "t5_3B", DTYPE_FP16},
    {"t5-6b", "t5_6B", DTYPE_FP16},
    {"t5-11b", "t5_11B", DTYPE_FP16},
    {"t5-22b", "t5_11B", DTYPE_FP16},
};

const struct aceso_table *aceso_table_of(const char *model)
{
    for (size_t i = 0; i < COUNT_OF(TABLES); i++)
        if (strcmp(TABLES[i].model, model) == 0)
            return &TABLES[i];
    return NULL;
}

const struct aceso_table *aceso_table_named(const char *table)
{
    for (size_t i = 0; i < COUNT_OF(TABLES); i++)
        if (strcmp(TABLES[i].name, table) == 0)
            return &TABLES[i];
    return NULL;
}

/* ---- names ----------------------------------------------------------------------------------- */

struct alias {
    const char *part, *name; /* the end of a path in Weft; the name in Aceso's table */
};
static const struct alias ATTENTION[] = {
    {"qkv", "attention-qkv"},         {"q", "attention-qkv"},
    {"score", "attention-score"},     {"softmax", "attention-softmax"},
    {"dropout", "attention-dropout"}, {"context", "attention-context"},
    {"proj", "attention-dense"},      {"dropout_add", "post-attention-dropout"},
};
static const struct alias MLP[] = {
    {"up", "MLP-GEMM-1"},
    {"gelu", "MLP-gelu"},
    {"down", "MLP-GEMM-2"},
    {"dropout_add", "post-MLP-dropout"},
};
static const struct alias IN_BLOCK[] = {
    {"conv1", "conv1"},
    {"bn1", "bn1"},
    {"conv2", "conv2"},
    {"bn2", "bn2"},
    {"conv3", "conv3"},
    {"bn3", "bn3"},
    {"downsample.0", "downsample"},
    {"relu", "relu"},
};
static const struct alias OUTSIDE[] = {
    {"embedding", "encoder-embedding"},
    {"encoder.embedding", "encoder-embedding"},
    {"encoder.norm", "enc-final-layernorm"},
    {"decoder.embedding", "decoder-embedding"},
    {"decoder.norm", "dec-final-layernorm"},
    {"norm", "final-layernorm"},
    {"conv1", "conv1"},
    {"bn1", "bn1"},
    {"relu", "relu1"},
    {"maxpool", "maxpool"},
    {"avgpool", "avgpool"},
    {"fc", "fc"},
};

static const char *alias_of(const struct alias *alias, size_t count, const char *part)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(alias[i].part, part) == 0)
            return alias[i].name;
    return NULL;
}

/* The name of a part of a transformer's layer, such as "attn.qkv", "cross.norm" or "mlp.up". */
static const char *layer_name(struct arena *scratch, bool decoder, const char *part)
{
    const char *stack = decoder ? "dec" : "enc", *dot = strchr(part, '.'), *name;
    bool cross = strncmp(part, "cross.", 6) == 0, mlp = strncmp(part, "mlp.", 4) == 0;
    if (!dot)
        return NULL;
    if (strcmp(dot, ".norm") == 0) {
        const char *rank = cross ? "2nd" : !mlp ? "1st" : decoder ? "3rd" : "2nd";
        return arena_printf(scratch, "%s-%s-layernorm", stack, rank);
    }
    name = mlp ? alias_of(MLP, COUNT_OF(MLP), dot + 1)
               : alias_of(ATTENTION, COUNT_OF(ATTENTION), dot + 1);
    if (!name)
        return NULL;
    if (mlp || !decoder)
        return arena_printf(scratch, "%s-%s", stack, name);
    return arena_printf(scratch, "%s-%s-%d", stack, name, cross ? 2 : 1);
}

const char *aceso_operator_name(struct arena *keep, const char *head, const char *path)
{
    bool decoder = strncmp(path, "decoder.", 8) == 0, encoder = strncmp(path, "encoder.", 8) == 0;
    const char *in_stack = decoder || encoder ? path + 8 : path, *name;
    int layer, block, used = 0;
    if (sscanf(path, "layer%d.%d.%n", &layer, &block, &used) == 2 && used) {
        name = alias_of(IN_BLOCK, COUNT_OF(IN_BLOCK), path + used);
        return name ? arena_printf(keep, "block-%d-%d-%s", layer - 1, block, name) : NULL;
    }
    if (sscanf(in_stack, "layers.%d.%n", &layer, &used) == 1 && used)
        return layer_name(keep, decoder, in_stack + used);
    return strcmp(path, "head") == 0 ? head : alias_of(OUTSIDE, COUNT_OF(OUTSIDE), path);
}

/* ---- Aceso's walk ---------------------------------------------------------------------------- */

struct operator_walk {
    int32_t *of; /* per instance: the number of the operator it belongs to, by (1) */
    int32_t operators;
};

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), after = strlen(end);
    return len >= after && strcmp(text + len - after, end) == 0;
}

static struct operator_walk walk_of(struct arena *scratch, const struct plan *plan)
{
    struct operator_walk walk = {.of = ARENA_ARRAY(scratch, int32_t, (size_t)plan->instances)};
    bool shortcut = false;
    for (int64_t i = 0; i < plan->instances; i++) {
        const char *name = aceso_operator_name(scratch, "head", plan_path(scratch, plan, i));
        bool block = name && strncmp(name, "block-", 6) == 0;
        if (block && ends_with(name, "-relu")) {
            walk.operators += !shortcut; /* a shortcut that computes nothing */
            shortcut = false;
        }
        shortcut |= block && ends_with(name, "-downsample");
        walk.operators += name != NULL;
        walk.of[i] = walk.operators ? walk.operators - 1 : 0; /* I1 */
    }
    return walk;
}

const int32_t *aceso_walk(struct arena *keep, const struct plan *plan, int32_t *operators)
{
    struct operator_walk walk = walk_of(keep, plan);
    *operators = walk.operators;
    return walk.of;
}

/* ---- the plan -------------------------------------------------------------------------------- */

struct degrees aceso_settings(int64_t global_batch)
{
    return (struct degrees){.global_batch = global_batch,
                            .schedule = schedule_default(1, 1)->name,
                            .has_shard = true,
                            .has_overlap = true,
                            .has_bucket = true,
                            .whole_sends = true,
                            .whole_images = true};
}

/* The choices of all operators of a model for one tp on one number of devices. */
struct lowered {
    int64_t tp, devices;
    struct choice *choice;
};
struct making {
    struct arena *scratch;
    const struct aceso_plan *theirs;
    const struct degrees *settings;
    struct plan *plan;
    struct operator_walk walk;
    ARRAY(struct lowered) known;
};

static weft_status lower(struct making *m, int64_t tp, int64_t devices, const struct choice **out)
{
    struct degrees d = *m->settings;
    struct lowered lowered = {.tp = tp, .devices = devices};
    weft_status status;
    for (size_t i = 0; i < m->known.len; i++)
        if (m->known.data[i].tp == tp && m->known.data[i].devices == devices) {
            *out = m->known.data[i].choice;
            return WEFT_OK;
        }
    d.tp = tp;
    d.dp = devices / tp;
    d.pp = d.cp = d.ep = d.pieces = d.segments = d.micro_batch = 1;
    d.global_batch = d.dp;
    TRY(lower_degrees(m->plan->model, &d, m->scratch, &lowered.choice));
    array_push(m->scratch, &m->known, lowered);
    *out = lowered.choice;
done:
    return status;
}

static weft_status choose(struct making *m, int64_t instance, int64_t devices)
{
    const struct aceso_operator *theirs = &m->theirs->op[m->walk.of[instance]];
    const struct op *op = &m->plan->model->op[m->plan->instance[instance].op];
    const struct choice *choice;
    bool own = instance == 0 || m->walk.of[instance - 1] != m->walk.of[instance];
    weft_status status;
    TRY(lower(m, theirs->tp, devices, &choice));
    struct choice chosen = choice[m->plan->instance[instance].op];
    chosen.recompute = theirs->recompute;
    if (theirs->flipped && own && theirs->tp > 1 && !split_flip(op, &chosen.split))
        TRY(bad_argument("its 'algo' is 0", "operator %d has no other split over %s",
                         m->walk.of[instance], counted(theirs->tp, "device").s));
    TRY(plan_choose(m->plan, instance, &chosen));
done:
    return status;
}

static weft_status map_stages(struct making *m)
{
    const struct aceso_plan *theirs = m->theirs;
    int64_t *cut = ARENA_ARRAY(m->scratch, int64_t, (size_t)theirs->stages);
    int64_t *devices = ARENA_ARRAY(m->scratch, int64_t, (size_t)theirs->stages);
    int64_t after = 0, at = 0;
    for (int32_t s = 0; s < theirs->stages; s++) {
        after += theirs->stage[s].operators;
        while (at < m->plan->instances && m->walk.of[at] < after)
            at++;
        cut[s] = at;
        devices[s] = theirs->stage[s].devices;
    }
    if (after != m->walk.operators)
        return bad_argument("name the model that it was made for",
                            "a plan of %s; by Aceso's walk %s has %d", counted(after, "operator").s,
                            m->plan->model->name, m->walk.operators);
    return plan_map(m->plan, theirs->stages, 1, cut, devices);
}

weft_status aceso_plan_make(const struct aceso_plan *theirs, const struct model *model,
                            const struct cluster *cluster, const struct degrees *settings,
                            struct plan **out)
{
    struct making m = {.scratch = arena_new(), .theirs = theirs, .settings = settings};
    struct degrees d = *settings;
    weft_status status;
    d.tp = d.pp = d.micro_batch = 1;
    d.dp = 0;
    d.global_batch = cluster_devices(cluster);
    TRY(plan_from_degrees(model, cluster, &d, &m.plan));
    m.plan->global_batch = settings->global_batch;
    m.plan->step_samples = theirs->step;
    m.walk = walk_of(m.scratch, m.plan);
    TRY(map_stages(&m));
    for (int32_t s = 0; s < m.plan->stages; s++) {
        struct part part = m.plan->part[s];
        for (int64_t i = part.first; i < part.first + part.count; i++)
            TRY(choose(&m, i, theirs->stage[s].devices));
    }
    TRY(plan_check(m.plan));
    *out = m.plan;
    m.plan = NULL;
done:
    plan_free(m.plan);
    arena_free(m.scratch);
    return status;
}
