/* contest_facts.c - reads data/validation/aceso.yaml: what the authors did with a family of models, and what they say
 * about the plans that were found (aceso_contest.h). */
#include <string.h>

#include "lab/contest_claims.h"
#include "lab/published_read.h"

#define POINT(key)                                                                                 \
    {#key, FIELD_COUNT, offsetof(struct contest_point, key), .required = true, .max = 1 << 20}

static weft_status read_point(const struct doc *node, struct contest_point *out)
{
    static const struct field FIELDS[] = {
        POINT(dp),
        POINT(tp),
        POINT(pp),
        POINT(micro_batch),
        {"encoder_stages", FIELD_COUNT, offsetof(struct contest_point, encoder_stages)},
        {"recompute", FIELD_BOOL, offsetof(struct contest_point, recompute)},
    };
    return doc_read(node, FIELDS, COUNT_OF(FIELDS), DOC_REFUSE_UNKNOWN, out);
}

static weft_status expect_list(const struct doc *node)
{
    return node->kind == DOC_LIST ? WEFT_OK
                                  : doc_error(node, NULL, "'%s' is %s, expected a list", node->key,
                                              doc_kind_name(node->kind));
}

static weft_status read_models(struct arena *keep, const struct doc *list,
                               struct contest_family *out)
{
    struct contest_model_words {
        struct contest_model model;
        const struct doc *ran;
    };
    static const struct field FIELDS[] = {
        {"billions", FIELD_TEXT, offsetof(struct contest_model_words, model.billions),
         .required = true},
        {"model", FIELD_TEXT, offsetof(struct contest_model_words, model.name), .required = true},
        {"ran", FIELD_DOC, offsetof(struct contest_model_words, ran)},
    };
    weft_status status;
    TRY(expect_list(list));
    for (const struct doc *node = list->first; node; node = node->next) {
        struct contest_model_words words = {0};
        TRY(doc_read(node, FIELDS, COUNT_OF(FIELDS), DOC_REFUSE_UNKNOWN, &words));
        if (words.ran)
            TRY(read_point(words.ran, &words.model.ran));
        array_push(keep, &out->models, words.model);
    }
done:
    return status;
}

static weft_status read_steps(const struct doc *list, struct contest_family *out)
{
    weft_status status;
    TRY(expect_list(list));
    for (const struct doc *node = list->first; node; node = node->next) {
        if (out->steps == CONTEST_STEPS)
            return doc_error(node, NULL, "'steps' has more than %d", CONTEST_STEPS);
        TRY(doc_scalar(node, FIELD_COUNT, &out->step[out->steps++]));
    }
    if (!out->steps)
        status = doc_error(list, NULL, "'steps' has none");
done:
    return status;
}

static weft_status read_family(struct arena *keep, const struct doc *node,
                               struct contest_facts *out)
{
    static const char *const RULES[] = {
        [CUT_LAYERS] = "layers", [CUT_BLOCKS] = "blocks", [CUT_STACKS] = "stacks", NULL};
    struct contest_family_words {
        struct contest_family family;
        const struct doc *steps, *models;
    } words = {.family = {.facts = out}};
    static const struct field FIELDS[] = {
        {"name", FIELD_TEXT, offsetof(struct contest_family_words, family.name), .required = true},
        {"batch", FIELD_COUNT, offsetof(struct contest_family_words, family.batch),
         .required = true},
        {"steps", FIELD_DOC, offsetof(struct contest_family_words, steps), .required = true},
        {"one_device", FIELD_COUNT, offsetof(struct contest_family_words, family.one_device),
         .required = true},
        {"cut", FIELD_CHOICE, offsetof(struct contest_family_words, family.cut), .required = true,
         .choices = RULES},
        {"models", FIELD_DOC, offsetof(struct contest_family_words, models), .required = true},
    };
    weft_status status;
    TRY(doc_read(node, FIELDS, COUNT_OF(FIELDS), DOC_REFUSE_UNKNOWN, &words));
    TRY(read_steps(words.steps, &words.family));
    TRY(read_models(keep, words.models, &words.family));
    array_push(keep, &out->families, words.family);
done:
    return status;
}

static weft_status read_claim(struct arena *keep, const struct doc *node, struct contest_facts *out)
{
    struct claim_words {
        struct claim_made claim;
        const char *trait;
    } words = {0};
    static const struct field FIELDS[] = {
        {"model", FIELD_TEXT, offsetof(struct claim_words, claim.model), .required = true},
        {"says", FIELD_TEXT, offsetof(struct claim_words, claim.says), .required = true},
        {"trait", FIELD_TEXT, offsetof(struct claim_words, trait), .required = true},
    };
    weft_status status;
    TRY(doc_read(node, FIELDS, COUNT_OF(FIELDS), DOC_REFUSE_UNKNOWN, &words));
    words.claim.trait = plan_trait_find(words.trait);
    if (!words.claim.trait)
        return doc_error(doc_get(node, "trait"), NULL, "no trait of a plan is called '%.60s'",
                         words.trait);
    array_push(keep, &out->claims, words.claim);
done:
    return status;
}

static weft_status read_facts(struct arena *keep, const struct doc *root, void *facts)
{
    struct contest_facts *out = facts;
    struct contest_words {
        struct contest_facts facts;
        const struct doc *families, *claims;
    } words = {0};
    static const struct field FIELDS[] = {
        {"cluster", FIELD_TEXT, offsetof(struct contest_words, facts.cluster), .required = true},
        {"devices_per_node", FIELD_COUNT, offsetof(struct contest_words, facts.devices_per_node),
         .required = true},
        {"memory_limit", FIELD_BYTES, offsetof(struct contest_words, facts.limit_bytes),
         .required = true},
        {"families", FIELD_DOC, offsetof(struct contest_words, families), .required = true},
        {"claims", FIELD_DOC, offsetof(struct contest_words, claims), .required = true},
    };
    weft_status status;
    TRY(doc_read(root, FIELDS, COUNT_OF(FIELDS), DOC_REFUSE_UNKNOWN, &words));
    *out = words.facts;
    TRY(expect_list(words.families));
    for (const struct doc *node = words.families->first; node; node = node->next)
        TRY(read_family(keep, node, out));
    TRY(expect_list(words.claims));
    for (const struct doc *node = words.claims->first; node; node = node->next)
        TRY(read_claim(keep, node, out));
done:
    return status;
}

weft_status contest_facts_parse(struct arena *keep, const char *file, const char *text, size_t len,
                                const struct contest_facts **out)
{
    struct contest_facts *facts = ARENA_NEW(keep, struct contest_facts);
    *out = facts;
    return yaml_parse(keep, file, text, len, read_facts, facts);
}

weft_status contest_facts_open(struct arena *keep, const struct contest_facts **out)
{
    struct contest_facts *facts = ARENA_NEW(keep, struct contest_facts);
    *out = facts;
    return published_yaml(keep, "aceso.yaml", read_facts, facts);
}

const struct contest_family *contest_family_find(const struct contest_facts *facts,
                                                 const char *name)
{
    for (size_t i = 0; i < facts->families.len; i++)
        if (strcmp(facts->families.data[i].name, name) == 0)
            return &facts->families.data[i];
    return NULL;
}

const struct contest_model *contest_model_of(const struct contest_family *family,
                                             const char *billions, const char *name)
{
    for (size_t i = 0; i < family->models.len; i++) {
        const struct contest_model *model = &family->models.data[i];
        if ((billions && strcmp(model->billions, billions) == 0) ||
            (name && strcmp(model->name, name) == 0))
            return model;
    }
    return NULL;
}
