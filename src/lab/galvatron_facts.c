/* galvatron_facts.c - reads data/validation/galvatron.yaml (galvatron_facts.h). */
#include "lab/galvatron_facts.h"

#include "lab/published_read.h"

static weft_status read_each(struct arena *keep, const struct doc *list, fact_reader *read,
                             void *out)
{
    weft_status status = WEFT_OK;
    if (list->kind != DOC_LIST || !list->first)
        return doc_error(list, NULL, "'%s' is %s, expected a list of at least one", list->key,
                         list->kind == DOC_LIST ? "empty" : doc_kind_name(list->kind));
    for (const struct doc *node = list->first; node; node = node->next)
        TRY(read(keep, node, out));
done:
    return status;
}

enum { MOST_IN_PAIR = 1 << 20 }; /* samples, MiB */

static weft_status read_pair(const struct doc *list, int64_t out[2])
{
    weft_status status;
    if (list->kind != DOC_LIST || list->count != 2)
        return doc_error(list, NULL, "'%s' is no list of two numbers", list->key);
    TRY(doc_scalar(list->first, FIELD_INT, &out[0]));
    TRY(doc_scalar(list->first->next, FIELD_INT, &out[1]));
    for (int i = 0; i < 2; i++)
        if (out[i] < 0 || out[i] > MOST_IN_PAIR)
            return doc_error(list, NULL, "'%s' has %lld, expected a number from 0 to %d", list->key,
                             (long long)out[i], MOST_IN_PAIR);
done:
    return status;
}

static weft_status read_chunks(struct arena *keep, const struct doc *node, void *out)
{
    static const struct field FIELDS[] = {
        {"at", FIELD_COUNT, offsetof(struct chunk_rule, at)},
        {"below", FIELD_COUNT, offsetof(struct chunk_rule, below)},
        {"pp", FIELD_COUNT, offsetof(struct chunk_rule, pp)},
        {"constant", FIELD_REAL, offsetof(struct chunk_rule, constant), .max = 1e6},
        {"per_sample", FIELD_REAL, offsetof(struct chunk_rule, per_sample), .max = 1e6},
    };
    struct galvatron_model *model = out;
    struct chunk_rule rule = {0};
    weft_status status;
    TRY(doc_read(node, FIELDS, COUNT_OF(FIELDS), DOC_REFUSE_UNKNOWN, &rule));
    array_push(keep, &model->chunks, rule);
done:
    return status;
}

static weft_status read_layers(struct arena *keep, const struct doc *node, void *out)
{
    struct measured_model *measured = &((struct galvatron_model *)out)->measured;
    int64_t count;
    weft_status status;
    (void)keep;
    TRY(doc_scalar(node, FIELD_COUNT, &count));
    if (measured->runs == MEASURED_RUNS || count > INT16_MAX)
        return doc_error(node, NULL, "'layers' has more than %d kinds, or too many of one",
                         MEASURED_RUNS);
    measured->run[measured->runs].layer = measured->runs;
    measured->run[measured->runs++].count = (int32_t)count;
done:
    return status;
}

static weft_status read_model(struct arena *keep, const struct doc *node, void *out)
{
    struct galvatron_model_words {
        struct galvatron_model model;
        const struct doc *layers, *chunks, *chunk_samples, *end_peak_mib;
    } words = {0};
    static const struct field FIELDS[] = {
        {"name", FIELD_TEXT, offsetof(struct galvatron_model_words, model.name), .required = true},
        {"profile", FIELD_TEXT, offsetof(struct galvatron_model_words, model.measured.profile),
         .required = true},
        {"layers", FIELD_DOC, offsetof(struct galvatron_model_words, layers), .required = true},
        {"chunks", FIELD_DOC, offsetof(struct galvatron_model_words, chunks), .required = true},
        {"chunk_samples", FIELD_DOC, offsetof(struct galvatron_model_words, chunk_samples),
         .required = true},
        {"end_peak_mib", FIELD_DOC, offsetof(struct galvatron_model_words, end_peak_mib),
         .required = true},
        {"batch_step", FIELD_COUNT, offsetof(struct galvatron_model_words, model.batch_step),
         .required = true},
        {"cut_three_ways", FIELD_BOOL,
         offsetof(struct galvatron_model_words, model.cut_three_ways)},
    };
    struct galvatron_facts *facts = out;
    struct galvatron_model *model = &words.model;
    weft_status status;
    TRY(doc_read(node, FIELDS, COUNT_OF(FIELDS), DOC_REFUSE_UNKNOWN, &words));
    TRY(read_each(keep, words.layers, read_layers, model));
    TRY(read_each(keep, words.chunks, read_chunks, model));
    TRY(read_pair(words.chunk_samples, model->chunk_samples));
    TRY(read_pair(words.end_peak_mib, model->end_peak_mib));
    if (model->chunk_samples[0] < 1 || model->chunk_samples[1] < 1)
        return doc_error(words.chunk_samples, NULL, "'chunk_samples' has less than 1");
    array_push(keep, &facts->models, *model);
done:
    return status;
}

static weft_status read_row(struct arena *keep, const struct doc *node, void *out)
{
    static const struct field FIELDS[] = {
        {"name", FIELD_TEXT, offsetof(struct galvatron_row, strategy), .required = true},
        {"space", FIELD_TEXT, offsetof(struct galvatron_row, space), .required = true},
        {"extends", FIELD_TEXT, offsetof(struct galvatron_row, extends)},
        {"flush", FIELD_BOOL, offsetof(struct galvatron_row, flush)},
    };
    struct galvatron_facts *facts = out;
    struct galvatron_row row = {0};
    weft_status status;
    TRY(doc_read(node, FIELDS, COUNT_OF(FIELDS), DOC_REFUSE_UNKNOWN, &row));
    if (!space_find(row.space))
        return doc_error(doc_get(node, "space"), NULL, "no space is called '%.60s'", row.space);
    array_push(keep, &facts->rows, row);
done:
    return status;
}

static weft_status read_machine(struct arena *keep, const struct doc *node, void *out)
{
    static const struct field FIELDS[] = {
        {"devices", FIELD_COUNT, offsetof(struct galvatron_machine, devices), .required = true},
        {"shard_margin", FIELD_REAL, offsetof(struct galvatron_machine, shard_margin),
         .required = true, .max = 1},
    };
    struct galvatron_facts *facts = out;
    struct galvatron_machine machine = {0};
    weft_status status;
    TRY(doc_read(node, FIELDS, COUNT_OF(FIELDS), DOC_REFUSE_UNKNOWN, &machine));
    array_push(keep, &facts->machines, machine);
done:
    return status;
}

static weft_status read_facts(struct arena *keep, const struct doc *root, void *facts)
{
    struct galvatron_facts *out = facts;
    struct galvatron_words {
        const char *device;
        const struct doc *machines, *strategies, *models;
    } words = {0};
    static const struct field FIELDS[] = {
        {"device", FIELD_TEXT, offsetof(struct galvatron_words, device), .required = true},
        {"machines", FIELD_DOC, offsetof(struct galvatron_words, machines), .required = true},
        {"strategies", FIELD_DOC, offsetof(struct galvatron_words, strategies), .required = true},
        {"models", FIELD_DOC, offsetof(struct galvatron_words, models), .required = true},
    };
    weft_status status;
    TRY(doc_read(root, FIELDS, COUNT_OF(FIELDS), DOC_REFUSE_UNKNOWN, &words));
    out->device = words.device;
    TRY(read_each(keep, words.machines, read_machine, out));
    TRY(read_each(keep, words.strategies, read_row, out));
    TRY(read_each(keep, words.models, read_model, out));
done:
    return status;
}

weft_status galvatron_facts_parse(struct arena *keep, const char *file, const char *text,
                                  size_t len, const struct galvatron_facts **out)
{
    struct galvatron_facts *facts = ARENA_NEW(keep, struct galvatron_facts);
    *out = facts;
    return yaml_parse(keep, file, text, len, read_facts, facts);
}

weft_status galvatron_facts_open(struct arena *keep, const struct galvatron_facts **out)
{
    struct galvatron_facts *facts = ARENA_NEW(keep, struct galvatron_facts);
    *out = facts;
    return published_yaml(keep, "galvatron.yaml", read_facts, facts);
}

const struct galvatron_machine *galvatron_machine_find(const struct galvatron_facts *facts,
                                                       int64_t devices)
{
    for (size_t i = 0; i < facts->machines.len; i++)
        if (facts->machines.data[i].devices == devices)
            return &facts->machines.data[i];
    return NULL;
}

static double chunks_asked(const struct galvatron_model *model, int64_t samples, int64_t pp)
{
    for (size_t i = 0; i < model->chunks.len; i++) {
        const struct chunk_rule *rule = &model->chunks.data[i];
        if ((!rule->at || rule->at == samples) && (!rule->below || samples < rule->below) &&
            (!rule->pp || rule->pp == pp))
            return rule->constant + rule->per_sample * (double)samples;
    }
    return 1;
}

/* How many chunks torch.chunk makes of a device's samples if it is asked for `asked` chunks. */
static int64_t torch_chunks(int64_t samples, double asked)
{
    int64_t count = asked < 1 ? 1 : (int64_t)asked;
    return ceil_div(samples, ceil_div(samples, count));
}

size_t galvatron_chunk_counts(const struct galvatron_model *model, const struct galvatron_row *row,
                              int64_t devices, int64_t samples, int64_t pp, int64_t out[2])
{
    int64_t by_size = ceil_div(samples, model->chunk_samples[pp > 8]);
    double own = devices == 8 ? chunks_asked(model, samples, pp) : (double)by_size;
    out[0] = pp == 1 ? 1 : torch_chunks(samples, own);
    out[1] = torch_chunks(samples, (double)by_size);
    return row->flush && out[1] != out[0] ? 2 : 1;
}
