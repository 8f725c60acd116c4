/* import_galvatron.c - Galvatron's JSON, one strategy per layer, as a plan.
 *
 * Operators outside of layers take vtp, vcp and embed_sdp, which 3.0 calls vocab_sdp. dp type 1 is ZeRO-3, 0 is
 * default_dp_type.
 * Source: galvatron/core/runtime/hybrid_parallel_config.py of PKU-DAIR/Hetu-Galvatron (38b79aad).
 */
#include "exchange/room.h"

#include <stdlib.h>
#include <string.h>

const char *const GALVATRON_DEFAULTS[4] = {"ddp", NULL, "zero2", "zero3"};

/* ---- reading --------------------------------------------------------------------------------- */

struct galvatron_file {
    int64_t pp, global_batch, chunks, vocab_tp, vocab_sp, vocab_cp, world_size, embed_sdp;
    const char *tp, *consecutive, *types, *checkpoint, *division, *use_sp, *cp, *ep, *tp_of_ep,
        *pipeline, *default_type;
    const struct doc *weft;
};
static const struct field FIELDS[] = {
    {"pp_deg", FIELD_COUNT, offsetof(struct galvatron_file, pp), .required = true},
    {"global_bsz", FIELD_COUNT, offsetof(struct galvatron_file, global_batch), .required = true},
    {"chunks", FIELD_COUNT, offsetof(struct galvatron_file, chunks), .required = true},
    {"tp_sizes_enc", FIELD_TEXT, offsetof(struct galvatron_file, tp), .required = true},
    {"tp_consecutive_flags", FIELD_TEXT, offsetof(struct galvatron_file, consecutive)},
    {"dp_types_enc", FIELD_TEXT, offsetof(struct galvatron_file, types)},
    {"checkpoint", FIELD_TEXT, offsetof(struct galvatron_file, checkpoint)},
    {"pp_division", FIELD_TEXT, offsetof(struct galvatron_file, division)},
    {"use_sp", FIELD_TEXT, offsetof(struct galvatron_file, use_sp)},
    {"cp_sizes_enc", FIELD_TEXT, offsetof(struct galvatron_file, cp)},
    {"ep_sizes_enc", FIELD_TEXT, offsetof(struct galvatron_file, ep)},
    {"tp_of_ep_sizes_enc", FIELD_TEXT, offsetof(struct galvatron_file, tp_of_ep)},
    {"pipeline_type", FIELD_TEXT, offsetof(struct galvatron_file, pipeline)},
    {"default_dp_type", FIELD_TEXT, offsetof(struct galvatron_file, default_type)},
    {"vtp", FIELD_COUNT, offsetof(struct galvatron_file, vocab_tp)},
    {"vcp", FIELD_COUNT, offsetof(struct galvatron_file, vocab_cp)},
    {"vsp", FIELD_INT, offsetof(struct galvatron_file, vocab_sp)},
    {"embed_sdp", FIELD_INT, offsetof(struct galvatron_file, embed_sdp)},
    {"vocab_sdp", FIELD_INT, offsetof(struct galvatron_file, embed_sdp)},
    {"world_size", FIELD_COUNT, offsetof(struct galvatron_file, world_size)},
    {"weft", FIELD_DOC, offsetof(struct galvatron_file, weft)},
};

struct galvatron_reading {
    struct arena *scratch;
    const struct doc *root;
    struct galvatron_file file;
    struct galvatron config;
};

/* Reads "1,1,2", one number per layer; without the key, every layer gets `usual`. */
static weft_status read_list(struct galvatron_reading *r, const char *key, const char *text,
                             int64_t count, int64_t least, int64_t most, int64_t usual,
                             int64_t **out)
{
    char *rest = text ? arena_copy_text(r->scratch, text) : NULL, *word;
    const struct doc *at = doc_get(r->root, key) ? doc_get(r->root, key) : r->root;
    int64_t found = 0;
    *out = ARENA_ARRAY(r->scratch, int64_t, (size_t)count);
    for (int64_t i = 0; i < count; i++)
        (*out)[i] = usual;
    while (rest && (word = strsep(&rest, ",")) != NULL) {
        int64_t value;
        word += strspn(word, " ");
        if (!parse_int(word, &value) || value < least || value > most)
            return doc_error(at, NULL,
                             "'%s' holds '%.20s', expected a whole number from %lld to "
                             "%lld",
                             key, word, (long long)least, (long long)most);
        if (found < count)
            (*out)[found] = value;
        found++;
    }
    if (text && found != count)
        return doc_error(at, NULL, "'%s' has %lld numbers, expected %lld", key, (long long)found,
                         (long long)count);
    return WEFT_OK;
}

static weft_status read_flags(struct galvatron_reading *r, const char *key, const char *text,
                              int64_t usual, bool **out)
{
    int64_t *numbers, count = r->config.layers;
    weft_status status = read_list(r, key, text, count, 0, 1, usual, &numbers);
    if (status)
        return status;
    *out = ARENA_ARRAY(r->scratch, bool, (size_t)count);
    for (int64_t i = 0; i < count; i++)
        (*out)[i] = numbers[i] != 0;
    return WEFT_OK;
}

static weft_status read_default(struct galvatron_reading *r)
{
    const char *type = r->file.default_type;
    for (int i = 0; i < (int)COUNT_OF(GALVATRON_DEFAULTS); i++)
        if (GALVATRON_DEFAULTS[i] && strcmp(type, GALVATRON_DEFAULTS[i]) == 0) {
            r->config.default_shard = i;
            return WEFT_OK;
        }
    return doc_error(doc_get(r->root, "default_dp_type"), NULL,
                     "'default_dp_type' is '%.20s', expected ddp, zero2 or zero3", type);
}

static weft_status read_pipeline(struct galvatron_reading *r)
{
    const char *type = r->file.pipeline;
    for (int i = 0; i < GALVATRON_PIPELINE_COUNT; i++)
        if (strcmp(type, GALVATRON_PIPELINES[i].theirs) == 0) {
            r->config.schedule = GALVATRON_PIPELINES[i].ours;
            return WEFT_OK;
        }
    return doc_error(doc_get(r->root, "pipeline_type"), NULL,
                     "'pipeline_type' is '%.20s', expected gpipe or pipedream_flush", type);
}

/* Refuses Ulysses per layer, which is not read yet. */
static weft_status refuse_ulysses(struct galvatron_reading *r)
{
    static const char *const KEYS[] = {"use_sp", "vsp"};
    const char *const texts[] = {r->file.use_sp, r->file.vocab_sp ? "1" : "0"};
    for (size_t k = 0; k < COUNT_OF(KEYS); k++)
        if (texts[k] && strspn(texts[k], ", 0") != strlen(texts[k]))
            return doc_error(doc_get(r->root, KEYS[k]), NULL,
                             "'%s' is not all 0: Ulysses per layer is not read", KEYS[k]);
    return WEFT_OK;
}

/* 3.0 does not look at the flags of neighbours (comm_groups.py); these keys are its own. */
static bool is_newer(const struct galvatron_reading *r)
{
    return doc_get(r->root, "vocab_sdp") || r->file.cp || r->file.ep;
}

/* Where nothing is said, experts are whole. */
static weft_status read_experts(struct galvatron_reading *r, const struct model *model)
{
    struct galvatron *c = &r->config;
    weft_status status = WEFT_OK;
    if (!model_op_of_kind(model, OP_EXPERT_LINEAR))
        return WEFT_OK;
    TRY(read_list(r, "ep_sizes_enc", r->file.ep, c->layers, 1, INT32_MAX, 1, &c->ep));
    TRY(read_list(r, "tp_of_ep_sizes_enc", r->file.tp_of_ep, c->layers, 1, INT32_MAX, 1, &c->etp));
done:
    return status;
}

static weft_status check_sizes(struct galvatron_reading *r, const struct cluster *cluster)
{
    struct galvatron *c = &r->config;
    int64_t devices = cluster_devices(cluster);
    if (r->file.world_size && r->file.world_size != devices)
        return doc_error(doc_get(r->root, "world_size"), "name the cluster it was written for",
                         "'world_size' is %lld, %s has %s", (long long)r->file.world_size,
                         cluster->name, counted(devices, "device").s);
    if (devices % c->pp)
        return doc_error(doc_get(r->root, "pp_deg"), NULL,
                         "'pp_deg' is %lld, which does not divide the %s of %s", (long long)c->pp,
                         counted(devices, "device").s, cluster->name);
    if (c->global_batch % c->chunks)
        return doc_error(doc_get(r->root, "chunks"), NULL,
                         "'chunks' is %lld, which does not divide 'global_bsz', %lld",
                         (long long)c->chunks, (long long)c->global_batch);
    for (int64_t i = -1; i < c->layers; i++) {
        int64_t tp = i < 0 ? c->vocab_tp : c->tp[i], cp = i < 0 ? c->vocab_cp : c->cp[i];
        if (tp > devices || cp > devices || devices / c->pp % (tp * cp))
            return doc_error(doc_get(r->root, i < 0 ? "vtp" : "tp_sizes_enc"), NULL,
                             "tp %lld%s does not divide the %s of a stage", (long long)tp,
                             cp > 1 ? " with its cp" : "", counted(devices / c->pp, "device").s);
    }
    return WEFT_OK;
}

static weft_status read_division(struct galvatron_reading *r)
{
    struct galvatron *c = &r->config;
    int64_t sum = 0;
    weft_status status = read_list(r, "pp_division", r->file.division, c->pp, 0, c->layers,
                                   c->layers / c->pp, &c->division);
    if (status)
        return status;
    if (!r->file.division) /* the last stage takes the rest */
        c->division[c->pp - 1] += c->layers % c->pp;
    for (int64_t s = 0; s < c->pp; s++)
        sum += c->division[s];
    return sum == c->layers ? WEFT_OK
                            : doc_error(doc_get(r->root, "pp_division"), NULL,
                                        "'pp_division' adds up to %s, the model has %lld",
                                        counted(sum, "layer").s, (long long)c->layers);
}

static weft_status read_config(struct galvatron_reading *r, int64_t layers,
                               const struct opened_plan *opened)
{
    struct galvatron *c = &r->config;
    weft_status status;
    *c = (struct galvatron){.pp = r->file.pp,
                            .global_batch = r->file.global_batch,
                            .chunks = r->file.chunks,
                            .layers = layers,
                            .vocab_tp = r->file.vocab_tp,
                            .vocab_cp = r->file.vocab_cp,
                            .vocab_sharded = r->file.embed_sdp == 1};
    if (c->pp > layers)
        return doc_error(doc_get(r->root, "pp_deg"), NULL, "'pp_deg' is %lld, the model has %s",
                         (long long)c->pp, counted(layers, "layer").s);
    TRY(read_list(r, "tp_sizes_enc", r->file.tp, layers, 1, INT32_MAX, 1, &c->tp));
    TRY(read_list(r, "cp_sizes_enc", r->file.cp, layers, 1, INT32_MAX, 1, &c->cp));
    TRY(read_experts(r, opened->model));
    TRY(read_flags(r, "tp_consecutive_flags", is_newer(r) ? NULL : r->file.consecutive, 1,
                   &c->consecutive));
    TRY(read_flags(r, "dp_types_enc", r->file.types, 0, &c->sharded));
    TRY(read_flags(r, "checkpoint", r->file.checkpoint, 0, &c->checkpointed));
    TRY(read_division(r));
    TRY(read_default(r));
    TRY(read_pipeline(r));
    TRY(refuse_ulysses(r));
    TRY(check_sizes(r, opened->cluster));
done:
    return status;
}

/* Settings that Galvatron takes from its launch script; Weft writes them into the file, next to Galvatron's keys
 * (exchange.h, I2). */
struct beside {
    bool sequence;
    const char *settings, *simulate; /* the second is for people */
};

static weft_status read_beside(struct galvatron_reading *r, struct beside *out)
{
    static const struct field BESIDE[] = {
        {"sequence_parallel", FIELD_BOOL, offsetof(struct beside, sequence)},
        {"settings", FIELD_TEXT, offsetof(struct beside, settings)},
        {"simulate", FIELD_TEXT, offsetof(struct beside, simulate)},
    };
    if (!r->file.weft)
        return WEFT_OK;
    return doc_read(r->file.weft, BESIDE, COUNT_OF(BESIDE), DOC_REFUSE_UNKNOWN, out);
}

static int64_t layer_count(struct arena *scratch, const struct model *model,
                           const struct cluster *cluster, weft_status *status)
{
    struct plan *plan = NULL;
    int64_t layers = 0;
    *status = plan_new(model, cluster, &plan);
    if (*status == WEFT_OK)
        layers_of_instances(scratch, plan, &layers);
    plan_free(plan);
    return layers;
}

static weft_status make(struct galvatron_reading *r, const struct import_input *input,
                        struct opened_plan *out)
{
    struct beside beside = {.settings = ""};
    weft_status status;
    int64_t layers = layer_count(r->scratch, out->model, out->cluster, &status);
    if (status)
        return status;
    TRY(read_config(r, layers, out));
    TRY(read_beside(r, &beside));
    r->config.sequence = beside.sequence;
    TRY(galvatron_plan(out->model, out->cluster, &r->config, &out->plan));
    plan_set_names(out->plan, input->model, input->options, input->cluster);
    TRY(settings_apply(r->scratch, input->file, r->file.weft ? r->file.weft->line : 0,
                       beside.settings, out->plan));
    TRY(plan_check(out->plan));
done:
    return status;
}

weft_status galvatron_import(struct arena *scratch, const struct import_input *input,
                             struct opened_plan *out, struct texts *notes)
{
    struct galvatron_reading r = {.scratch = scratch};
    struct doc *root = NULL;
    weft_status status;
    (void)notes;
    *out = (struct opened_plan){0};
    r.file = (struct galvatron_file){.vocab_tp = 1,
                                     .vocab_cp = 1,
                                     .pipeline = "gpipe",
                                     .default_type = "ddp"}; /* defaults of its arguments.py */
    if (!input->model)
        TRY(bad_argument("add --model", "Galvatron's JSON does not name its model"));
    TRY(doc_parse(scratch, input->file, input->text, input->len, DOC_JSON, &root));
    r.root = root;
    TRY(doc_read(root, FIELDS, COUNT_OF(FIELDS), DOC_IGNORE_UNKNOWN, &r.file));
    struct import_input own = *input;
    TRY(open_practised(scratch, &own, out));
    TRY(make(&r, &own, out));
done:
    if (status)
        plan_close(out);
    return status;
}
