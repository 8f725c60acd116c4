/* sources.c - reads data/validation/sources.yaml (sources.h). */
#include <string.h>

#include "lab/published_read.h"

/* ---- names of machines and precisions -------------------------------------------------------- */

static weft_status expect(const struct doc *node, enum doc_kind kind)
{
    return node->kind == kind ? WEFT_OK
                              : doc_error(node, NULL, "'%s' is %s, expected %s", node->key,
                                          doc_kind_name(node->kind), doc_kind_name(kind));
}

static weft_status read_machines(struct arena *keep, const struct doc *map,
                                 struct machine_names *out)
{
    static const struct field FIELDS[] = {
        {"cluster", FIELD_TEXT, offsetof(struct machine_name, cluster), .required = true},
        {"devices_per_node", FIELD_COUNT, offsetof(struct machine_name, devices_per_node),
         .required = true},
        {"or_per_node", FIELD_COUNT, offsetof(struct machine_name, or_per_node)},
    };
    weft_status status;
    TRY(expect(map, DOC_MAP));
    for (const struct doc *node = map->first; node; node = node->next) {
        struct machine_name machine = {.gpu = node->key};
        TRY(doc_read(node, FIELDS, COUNT_OF(FIELDS), DOC_REFUSE_UNKNOWN, &machine));
        array_push(keep, out, machine);
    }
done:
    return status;
}

static weft_status read_precisions(struct arena *keep, const struct doc *map, struct sources *out)
{
    weft_status status;
    TRY(expect(map, DOC_MAP));
    for (const struct doc *node = map->first; node; node = node->next) {
        struct precision_name row = {.name = node->key};
        TRY(expect(node, DOC_TEXT));
        if (!dtype_from_name(node->text, &row.dtype))
            return doc_error(node, NULL, "'%s' is '%.60s', expected a dtype such as bf16",
                             node->key, node->text);
        array_push(keep, &out->precisions, row);
    }
done:
    return status;
}

/* ---- datasets -------------------------------------------------------------------------------- */

struct dataset_words {
    struct dataset dataset;
    const char *form, *as;
    const struct doc *machines, *practice;
};

/* Takes over the machines and the practice of the dataset that `as` names. */
static weft_status take_as(const struct doc *node, const struct dataset_words *words,
                           const struct sources *sources, struct dataset *out)
{
    int at = name_index(words->as, sources->datasets.data, sizeof *sources->datasets.data,
                        sources->datasets.len);
    if (at < 0 || sources->datasets.data[at].form != out->form)
        return doc_error(doc_get(node, "as"), "it stands above, and its files have the same form",
                         "'as' is '%.60s', which is no dataset of the form %s", words->as,
                         words->form);
    out->machines = sources->datasets.data[at].machines;
    out->practice = sources->datasets.data[at].practice;
    return WEFT_OK;
}

static weft_status read_practice(struct arena *keep, const struct dataset_words *words,
                                 struct dataset *out)
{
    struct machine_names *machines = ARENA_NEW(keep, struct machine_names);
    struct rules *rules = ARENA_NEW(keep, struct rules);
    weft_status status = WEFT_OK;
    if (words->machines) {
        TRY(read_machines(keep, words->machines, machines));
        out->machines = machines;
    }
    if (words->practice)
        TRY(rules_read(keep, out->form, words->practice, rules));
    if (words->practice || !out->practice)
        out->practice = rules;
done:
    return status;
}

static weft_status read_dataset(struct arena *keep, const struct doc *node, void *sources)
{
#define AT(member) offsetof(struct dataset_words, member)
    static const struct field FIELDS[] = {
        {"name", FIELD_TEXT, AT(dataset.name), .required = true},
        {"summary", FIELD_TEXT, AT(dataset.summary), .required = true},
        {"source", FIELD_TEXT, AT(dataset.source), .required = true},
        {"form", FIELD_TEXT, AT(form), .required = true},
        {"compares", FIELD_BOOL, AT(dataset.compares)},
        {"planned", FIELD_BOOL, AT(dataset.planned)},
        {"copied_times", FIELD_BOOL, AT(dataset.copied_times)},
        {"functional_tests", FIELD_BOOL, AT(dataset.functional_tests)},
        {"gains_of", FIELD_TEXT, AT(dataset.gains_of)},
        {"halves", FIELD_TEXT, AT(dataset.halves)},
        {"machines", FIELD_DOC, AT(machines)},
        {"practice", FIELD_DOC, AT(practice)},
        {"as", FIELD_TEXT, AT(as)},
    };
#undef AT
    struct sources *out = sources;
    struct dataset_words words = {.dataset = {.sources = out, .machines = &out->machines}};
    struct dataset *dataset = &words.dataset;
    weft_status status;
    TRY(doc_read(node, FIELDS, COUNT_OF(FIELDS), DOC_REFUSE_UNKNOWN, &words));
    dataset->form = form_find(words.form);
    if (!dataset->form)
        return doc_error(doc_get(node, "form"), NULL,
                         "'form' is '%.60s', expected runs, fold3d, proteus or mlperf", words.form);
    if (dataset->halves)
        TRY(text_check(dataset->form, doc_get(node, "halves")));
    if (words.as)
        TRY(take_as(node, &words, out, dataset));
    TRY(read_practice(keep, &words, dataset));
    array_push(keep, &out->datasets, *dataset);
done:
    return status;
}

static weft_status read_search(struct arena *keep, const struct doc *node, void *sources)
{
    struct sources *out = sources;
    static const char *const FORMS[] = {[SEARCH_CELLS] = "cells",
                                        [SEARCH_CUTS] = "cuts",
                                        [SEARCH_CONTEST] = "contest",
                                        [SEARCH_PLANNED] = "planned",
                                        NULL};
    struct table_fields {
        struct search_table table;
        int form;
    } words = {0};
    const struct field fields[] = {
        {"name", FIELD_TEXT, offsetof(struct search_table, name), .required = true},
        {"summary", FIELD_TEXT, offsetof(struct search_table, summary), .required = true},
        {"source", FIELD_TEXT, offsetof(struct search_table, source), .required = true},
        {"file", FIELD_TEXT, offsetof(struct search_table, file)},
        {"planner", FIELD_TEXT, offsetof(struct search_table, planner)},
        {"cluster", FIELD_TEXT, offsetof(struct search_table, cluster)},
        {"dtype", FIELD_TEXT, offsetof(struct search_table, dtype)},
        {"options", FIELD_TEXT, offsetof(struct search_table, options)},
        {"form", FIELD_CHOICE, offsetof(struct table_fields, form), .required = true,
         .choices = FORMS},
    };
    weft_status status;
    TRY(doc_read(node, fields, COUNT_OF(fields), DOC_REFUSE_UNKNOWN, &words));
    words.table.form = (enum search_form)words.form;
    if (words.table.form == SEARCH_PLANNED &&
        (!words.table.planner || !words.table.cluster || !words.table.dtype))
        return doc_error(node, NULL, "what is planned needs 'planner', 'cluster' and 'dtype'");
    array_push(keep, &out->searches, words.table);
done:
    return status;
}

/* ---- the file -------------------------------------------------------------------------------- */

static weft_status read_list(struct arena *keep, const struct doc *list, fact_reader *read,
                             void *out)
{
    weft_status status;
    TRY(expect(list, DOC_LIST));
    for (const struct doc *node = list->first; node; node = node->next)
        TRY(read(keep, node, out));
done:
    return status;
}

static weft_status read_sources(struct arena *keep, const struct doc *root, void *sources)
{
    struct sources *out = sources;
    struct source_words {
        int64_t vocabulary_multiple;
        const struct doc *machines, *precisions, *datasets, *searches;
    } words = {0};
    static const struct field FIELDS[] = {
        {"vocabulary_multiple", FIELD_COUNT, offsetof(struct source_words, vocabulary_multiple),
         .required = true, .max = 1 << 20},
        {"machines", FIELD_DOC, offsetof(struct source_words, machines), .required = true},
        {"precisions", FIELD_DOC, offsetof(struct source_words, precisions), .required = true},
        {"datasets", FIELD_DOC, offsetof(struct source_words, datasets), .required = true},
        {"searches", FIELD_DOC, offsetof(struct source_words, searches), .required = true},
    };
    weft_status status;
    TRY(doc_read(root, FIELDS, COUNT_OF(FIELDS), DOC_REFUSE_UNKNOWN, &words));
    out->vocabulary_multiple = words.vocabulary_multiple;
    TRY(read_machines(keep, words.machines, &out->machines));
    TRY(read_precisions(keep, words.precisions, out));
    TRY(read_list(keep, words.datasets, read_dataset, out));
    TRY(read_list(keep, words.searches, read_search, out));
done:
    return status;
}

weft_status sources_parse(struct arena *keep, const char *file, const char *text, size_t len,
                          const struct sources **out)
{
    struct sources *sources = ARENA_NEW(keep, struct sources);
    *out = sources;
    return yaml_parse(keep, file, text, len, read_sources, sources);
}

weft_status sources_open(struct arena *keep, const struct sources **out)
{
    struct sources *sources = ARENA_NEW(keep, struct sources);
    *out = sources;
    return published_yaml(keep, "sources.yaml", read_sources, sources);
}

size_t sources_datasets(const struct sources *sources, const struct dataset **out)
{
    *out = sources->datasets.data;
    return sources->datasets.len;
}

size_t sources_searches(const struct sources *sources, const struct search_table **out)
{
    *out = sources->searches.data;
    return sources->searches.len;
}

const struct dataset *dataset_find(const struct sources *sources, const char *name)
{
    const struct dataset *all = sources->datasets.data;
    int at = name_index(name, all, sizeof *all, sources->datasets.len);
    if (at >= 0)
        return &all[at];
    bad_argument("`weft validate --help` lists them", "no dataset is called '%.100s'", name);
    hint_near(nearest_name(name, all, sizeof *all, sources->datasets.len));
    return NULL;
}

const struct search_table *search_table_find(const struct sources *sources, const char *name)
{
    const struct search_table *all = sources->searches.data;
    int at = name_index(name, all, sizeof *all, sources->searches.len);
    return at < 0 ? NULL : &all[at];
}
