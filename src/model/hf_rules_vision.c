/* hf_rules_vision.c - the rules of rows about encoders of images, and about the layers that attend to them (hf.h). */
#include "model/hf_rules.h"

enum { MOST_SIDE = 1 << 15 }; /* patches along a side */

weft_status rule_pixels(struct hf_reading *r, const struct hf_row *row, const struct doc *value)
{
    int64_t pixels, patch = hf_made(r, "vision_patch"), patches;
    weft_status status = doc_scalar(value, FIELD_COUNT, &pixels);
    if (status)
        return status;
    if (!patch || pixels % patch || !checked_mul(pixels / patch, pixels / patch, &patches))
        return doc_error(value, NULL, "'%s' is %lld, expected whole patches of %lld pixels",
                         value->key, (long long)pixels, (long long)patch);
    hf_add_number(r, row->option, value, patches);
    return WEFT_OK;
}

weft_status rule_every(struct hf_reading *r, const struct hf_row *row, const struct doc *value)
{
    int64_t every = 0, number = 0, layer;
    for (const struct doc *d = value->first; d; d = d->next) {
        bool whole = d->text && parse_int(d->text, &layer);
        every = number++ || !whole ? every : layer + 1;
        if (!whole || every < 2 || every > INT32_MAX || layer + 1 != number * every)
            return doc_error(d, NULL, "'%s' does not list every so-many-th layer", value->key);
    }
    if (every)
        hf_add_number(r, row->option, value, every);
    return WEFT_OK;
}

weft_status rule_side(struct hf_reading *r, const struct hf_row *row, const struct doc *value)
{
    int64_t tokens, patch = hf_made(r, "vision_patch"), side = 0;
    int64_t patches = patch ? hf_made(r, "vision_image") / patch : 0;
    weft_status status = doc_scalar(value, FIELD_COUNT, &tokens);
    if (status)
        return status;
    while (side < patches && side * side < tokens)
        side++;
    if (!side || side * side != tokens || patches % side)
        return doc_error(value, NULL, "'%s' is %lld, expected a square whose side divides %lld",
                         value->key, (long long)tokens, (long long)patches);
    hf_add_number(r, row->option, value, patches / side);
    return WEFT_OK;
}

weft_status rule_shrink(struct hf_reading *r, const struct hf_row *row, const struct doc *value)
{
    double share;
    weft_status status = doc_scalar(value, FIELD_REAL, &share);
    if (status)
        return status;
    if (!(share > 0 && share <= 1) || share * INT32_MAX < 1)
        return doc_error(value, NULL, "'%s' is %g, expected a share of a side", value->key, share);
    hf_add_number(r, row->option, value, (int64_t)(1 / share + 0.5));
    return WEFT_OK;
}

weft_status rule_merged(struct hf_reading *r, const struct hf_row *row, const struct doc *value)
{
    int64_t merge, all;
    weft_status status = doc_scalar(value, FIELD_COUNT, &merge);
    if (status == WEFT_OK && checked_mul(merge, merge, &all) &&
        checked_mul(all, hf_made(r, "vision_hidden"), &all))
        hf_add_number(r, row->option, value, all);
    return status;
}

weft_status rule_table(struct hf_reading *r, const struct hf_row *row, const struct doc *value)
{
    int64_t places, side = 0, pixels;
    weft_status status = doc_scalar(value, FIELD_COUNT, &places);
    if (status)
        return status;
    while (side < MOST_SIDE && side * side < places)
        side++;
    if (side * side != places || !checked_mul(side, hf_made(r, "vision_patch"), &pixels))
        return doc_error(value, NULL, "'%s' is %lld, expected a square of whole patches",
                         value->key, (long long)places);
    hf_add_number(r, row->option, value, pixels);
    return WEFT_OK;
}

/* A whole number of a list from 0 on, -1: it is none. */
static int64_t layer_in(const struct doc *entry)
{
    int64_t layer;
    return entry->text && parse_int(entry->text, &layer) && layer >= 0 && layer < INT32_MAX ? layer
                                                                                            : -1;
}

weft_status rule_after(struct hf_reading *r, const struct hf_row *row, const struct doc *value)
{
    struct doc list = *value, **next = &list.first;
    if (value->kind != DOC_LIST)
        return doc_error(value, NULL, "'%s' is %s, expected a list of layers", value->key,
                         doc_kind_name(value->kind));
    for (const struct doc *d = value->first; d; d = d->next, next = &(*next)->next) {
        if (layer_in(d) < 0)
            return doc_error(d, NULL, "'%s' does not list layers", value->key);
        *next = ARENA_NEW(r->scratch, struct doc);
        **next = *d;
        (*next)->text = arena_printf(r->scratch, "%lld", (long long)layer_in(d) + 1);
    }
    if (value->count) /* an empty list: none is taken */
        hf_add(r, row->option, list);
    return WEFT_OK;
}

weft_status rule_shapes(struct hf_reading *r, const struct hf_row *row, const struct doc *value)
{
    if (value->kind != DOC_LIST)
        return doc_error(value, NULL, "'%s' is %s, expected a list of shapes", value->key,
                         doc_kind_name(value->kind));
    hf_add_number(r, row->option, value, (int64_t)value->count + 1);
    return WEFT_OK;
}

/* A text model by itself has nothing to attend to. */
static bool lacks_images(struct hf_reading *r, const struct hf_row *row)
{
    if (doc_get(r->outer ? r->outer : r->root, "vision_config"))
        return false;
    array_push(r->scratch, &r->warnings,
               arena_printf(r->scratch,
                            "there is no 'vision_config': the layers of '%s' attend to text",
                            row->key));
    return true;
}

weft_status rule_cross(struct hf_reading *r, const struct hf_row *row, const struct doc *value)
{
    const struct doc *second = value->first ? value->first->next : NULL;
    int64_t first = value->first ? layer_in(value->first) : -1, number = 0;
    int64_t every = second ? layer_in(second) - first : 0;
    if (lacks_images(r, row))
        return WEFT_OK;
    for (const struct doc *d = value->first; d; d = d->next, number++)
        if (every < 1 || first < 0 || layer_in(d) != first + number * every)
            return doc_error(d,
                             "write the model down as operators: see docs/reference/model-file.md",
                             "'%s' does not list every so-many-th layer", value->key);
    if (value->kind != DOC_LIST || !value->first)
        return doc_error(value, NULL, "'%s' does not list layers", value->key);
    hf_add_number(r, row->option, value, every);
    hf_add_number(r, "cross_first", value, first);
    return WEFT_OK;
}
