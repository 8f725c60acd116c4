/* families.c - the table of families, and how options become a model. */
#include "model/families.h"

#include <string.h>

#define FAMILY_ROW(NAME) &FAMILY_##NAME,
static const struct family *const FAMILIES[] = {FOR_EACH_FAMILY(FAMILY_ROW)};

size_t model_families(const struct family *const **out)
{
    *out = FAMILIES;
    return COUNT_OF(FAMILIES);
}

const struct doc *option_at(const struct doc *where, const char *key)
{
    const struct doc *at = where ? doc_get(where, key) : NULL;
    return at ? at : where;
}

weft_status option_divides(const struct doc *where, const char *key, int64_t part,
                           const char *whole_key, int64_t whole)
{
    if (whole % part == 0)
        return WEFT_OK;
    return doc_error(option_at(where, key), NULL, "'%s' is %lld, expected a divisor of '%s', %lld",
                     key, (long long)part, whole_key, (long long)whole);
}

weft_status family_build(const struct family *family, const char *name, const char *source,
                         const struct doc *options, struct model **out)
{
    struct builder *b = build_start(name, family->name, source);
    void *values = arena_alloc(b->arena, 1, family->options_size);
    memcpy(values, family->defaults, family->options_size);
    b->where = options;
    weft_status status;
    TRY(doc_read(options, family->fields, family->field_count, DOC_REFUSE_UNKNOWN, values));
    TRY(family->build(b, values, options));
    return build_finish(b, out);
done:
    build_abandon(b);
    return status;
}
